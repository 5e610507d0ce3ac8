/* Between real numbers and quantized ones of type Q, which stand for (q - zero) * scale. SINGLE: one scale for all,
 * else one for each of `size` places of a dimension within which `inner` elements lie. ZEROS: there are zero points. */
#include "common.clh"

#ifdef SINGLE
#define SCALE_OF(i) 0
#else
#define SCALE_OF(i) ((i) / inner % size)
#endif
#ifdef ZEROS
#define ZERO_OF(i) ((int)zeros[SCALE_OF(i)])
#else
#define ZERO_OF(i) 0
#endif

/* As IEEE 754 rounds it: devices may be a few units in the last place off. */
float divide(float x, float by) {
  const float quotient = x / by, rest = fma(-quotient, by, x);
  return isfinite(quotient) && isfinite(rest) ? quotient + rest / by : quotient;
}

/* Halves go to the even neighbour, what is beyond the ends to them, and what is no number to the lower one. */
KERNEL quantize(IN(float) x, IN(float) scales, IN(Q) zeros, OUT(Q) y, index_t count, index_t inner, index_t size,
                int least, int most) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
  const float value = rint(divide(x[i], scales[SCALE_OF(i)]));
  const int whole = isnan(value) ? -1 << 20 : (int)clamp(value, -1048576.0f, 1048576.0f);
  y[i] = (Q)clamp(whole + ZERO_OF(i), least, most);
}

KERNEL dequantize(IN(Q) x, IN(float) scales, IN(Q) zeros, OUT(float) y, index_t count, index_t inner, index_t size) {
  const index_t i = get_global_id(0);
  if (i < count) y[i] = (float)((int)x[i] - ZERO_OF(i)) * scales[SCALE_OF(i)];
}
