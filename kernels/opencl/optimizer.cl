/* Optimizer steps; outputs may lie over what they replace. GUARDED: nothing changes where the guard is not finite. */
#include "common.clh"

#ifdef GUARDED
#define IS_STOPPED (!isfinite((float)guard[0]))
#else
#define IS_STOPPED false
#endif

#ifdef SGD
KERNEL sgd(GLOBAL const float *p, IN(float) g, IN(RATE) rates, GLOBAL const float *m, IN(GUARD) guard,
           GLOBAL float *p_out, GLOBAL float *m_out, index_t count, float momentum, float decay, float from_gradient,
           float from_kept) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
  const float value = p[i], rate = (float)rates[0], gradient = g[i] + decay * value;
#ifdef MOMENTUM
  const float before = m[i], kept = momentum * before + gradient;
  m_out[i] = IS_STOPPED ? before : kept;
  p_out[i] = IS_STOPPED ? value : value - rate * (from_gradient * gradient + from_kept * kept);
#else
  p_out[i] = IS_STOPPED ? value : value - rate * gradient;
#endif
}
#endif

/* log1, log2: logarithms of the betas; rest1, rest2: what they lack to 1. The moments move by a part of their distance
 * to the newest value: factors that do not sum to 1 once they are rounded would shift them. They start from the one
 * with the larger weight: digits of the other may be lost in the distance. */
#ifdef ADAM
float mean(float old, float now, float rest) {
  return rest <= 0.5f ? old + rest * (now - old) : now + (1 - rest) * (old - now);
}

KERNEL adam(GLOBAL const float *p, IN(float) g, IN(RATE) rates, GLOBAL const float *m, GLOBAL const float *v,
            IN(STEP) steps, IN(GUARD) guard, GLOBAL float *p_out, GLOBAL float *m_out, GLOBAL float *v_out,
            index_t count, float rest1, float rest2, float log1, float log2, float epsilon, float coupled,
            float decoupled) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
  const float value = p[i], m0 = m[i], v0 = v[i], rate = (float)rates[0], done = (float)steps[0];
  const float gradient = g[i] + coupled * value;
  const float first = mean(m0, gradient, rest1), second = mean(v0, gradient * gradient, rest2);
  const float slow = rate / -expm1(done * log1), root = sqrt(-expm1(done * log2));
  const float next = value - (rate * decoupled * value + slow * first / (sqrt(second) / root + epsilon));
  p_out[i] = IS_STOPPED ? value : next;
  m_out[i] = IS_STOPPED ? m0 : first;
  v_out[i] = IS_STOPPED ? v0 : second;
}
#endif
