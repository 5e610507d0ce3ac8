/* Optimizer steps; outputs may lie over what they replace. GUARDED: nothing changes where the guard is not finite.
 * SCALED: the gradient, of type G, is divided by a number. COPY: the type of 16 bits in which the parameter is given out
 * once more. */
#include "common.clh"

#ifdef GUARDED
#define IS_STOPPED (!isfinite((float)guard[0]))
#else
#define IS_STOPPED false
#endif

#ifdef SCALED
#define GRADIENT(i) (GET(G, g, i) / (float)scales[0])
#else
#define GRADIENT(i) GET(G, g, i)
#endif

/* A parameter's next value. The copy is what the value is rounded to, also where nothing changes. */
#ifdef COPY
#define KEEP(next)                                                                                                     \
  p_out[i] = next;                                                                                                     \
  PUT(COPY, copy, i, next);
#else
#define COPY ushort
#define KEEP(next) p_out[i] = next;
#endif

#ifdef SGD
KERNEL sgd(GLOBAL const float *p, IN(G) g, IN(RATE) rates, GLOBAL const float *m, IN(GUARD) guard, IN(SCALE) scales,
           GLOBAL float *p_out, GLOBAL float *m_out, OUT(COPY) copy, index_t count, float momentum, float decay,
           float from_gradient, float from_kept) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
  const float value = p[i], rate = (float)rates[0], gradient = GRADIENT(i) + decay * value;
#ifdef MOMENTUM
  const float before = m[i], kept = momentum * before + gradient;
  m_out[i] = IS_STOPPED ? before : kept;
  const float next = IS_STOPPED ? value : value - rate * (from_gradient * gradient + from_kept * kept);
#else
  const float next = IS_STOPPED ? value : value - rate * gradient;
#endif
  KEEP(next)
}
#endif

/* log1, log2: logarithms of the betas; rest1, rest2: what they lack to 1. The moments move by a part of their distance
 * to the newest value: factors that do not sum to 1 once they are rounded would shift them. They start from the one
 * with the larger weight: digits of the other may be lost in the distance. */
#ifdef ADAM
float mean(float old, float now, float rest) {
  return rest <= 0.5f ? old + rest * (now - old) : now + (1 - rest) * (old - now);
}

KERNEL adam(GLOBAL const float *p, IN(G) g, IN(RATE) rates, GLOBAL const float *m, GLOBAL const float *v,
            IN(STEP) steps, IN(GUARD) guard, IN(SCALE) scales, GLOBAL float *p_out, GLOBAL float *m_out,
            GLOBAL float *v_out, OUT(COPY) copy, index_t count, float rest1, float rest2, float log1, float log2, float epsilon, float coupled,
            float decoupled) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
  const float value = p[i], m0 = m[i], v0 = v[i], rate = (float)rates[0], done = (float)steps[0];
  const float gradient = GRADIENT(i) + coupled * value;
  const float first = mean(m0, gradient, rest1), second = mean(v0, gradient * gradient, rest2);
  const float slow = rate / -expm1(done * log1), root = sqrt(-expm1(done * log2));
  const float next = value - (rate * decoupled * value + slow * first / (sqrt(second) / root + epsilon));
  const float then = IS_STOPPED ? value : next;
  m_out[i] = IS_STOPPED ? m0 : first;
  v_out[i] = IS_STOPPED ? v0 : second;
  KEEP(then)
}
#endif

/* --- the scale of fp16's loss ----------------------------------------------------------------------------------------
 * The guard begins as 0 and becomes NaN where an operand, of type G, is not finite: all write the same. */
#ifdef CLEAR
KERNEL clear_guard(OUT(float) guard, index_t count) {
  if (get_global_id(0) == 0) guard[0] = 0;
}
#endif

#ifdef LOOK
KERNEL look(IN(G) g, OUT(float) guard, index_t count) {
  const index_t first = (index_t)get_global_id(0) * 8;
  bool found = false;
  for (index_t i = first; i < first + 8 && i < count; i++) found = found || !isfinite((float)GET(G, g, i));
  if (found) guard[0] = NAN;
}
#endif

#ifdef LOSS_SCALE
KERNEL loss_scale(GLOBAL const float *scale, GLOBAL const long *steps, IN(float) guard, IN(float) last,
                  GLOBAL float *scale_out, GLOBAL long *steps_out, long interval) {
  if (get_global_id(0) != 0) return;
  float next = scale[0];
  long count = steps[0];
#ifdef LAST
  const bool counts = last[0] != 0;
#else
  const bool counts = true;
#endif
  if (counts && isfinite((float)guard[0])) {
    count = count < 0 ? 0 : count;
    if (count >= interval - 1) {
      count = 0;
      next = next < 8388608.0f ? 2 * next : 16777216.0f;
    } else {
      count++;
    }
  } else if (counts) {
    count = count >= 0 ? -1 : count > -0x7fffffffffffffffL ? count - 1 : count;
    next = next > 2 ? next / 2 : 1;
  }
  scale_out[0] = next;
  steps_out[0] = count;
}
#endif
