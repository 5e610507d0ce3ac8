/* Elementary functions of float that compilers vectorize: no branches, no tables, no calls.
 *
 * Only IEEE additions, multiplications, divisions and bit operations are used (no fused multiply-add), so the bits are
 * the same on every instruction set, in the vector body as in the scalar tail. Errors against the exact result stay
 * below the bounds that vmath_test.c checks, 1 to 3 units in the last place. Arguments are reduced after Cody and
 * Waite; polynomials are minimax fits, those of the error function and the hyperbolic tangent after N. Juffa. NaN gives
 * NaN, overflow infinity, and results below the normal numbers are rounded to subnormal ones. */
#ifndef BRAID_BACKEND_CPU_SPANS_VMATH_H
#define BRAID_BACKEND_CPU_SPANS_VMATH_H

#include <math.h>

#include "tensor/half.h"

/* 2^n for n in [-126, 127]. */
static inline float braid_v_pow2(int32_t n) {
  return braid_float_of_bits((uint32_t)(n + 127) << 23);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; `x` within +-256 or NaN (then n is arbitrary but small). */
static inline float braid_v_reduce(float x, int32_t *n) {
  const float shift = 0x1.8p23f;
  float shifted = x * 1.44269504f + shift, whole = shifted - shift;
  *n = (int32_t)(braid_bits_of_float(shifted) & 0x3ff) - ((braid_bits_of_float(shifted) & 0x200) ? 0x400 : 0);
  return (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
}

/* (exp(r) - 1 - r) / r^2 */
static inline float braid_v_exp_tail(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  return p * r + 5.0000001201e-1f;
}

static inline float braid_v_exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.5f ? -104.5f : x;
  int32_t n;
  float r = braid_v_reduce(x, &n), y = (r * r * braid_v_exp_tail(r) + r) + 1.0f;
  int32_t half = n >> 1; /* in two steps, for results that are subnormal or just below infinity */
  return y * braid_v_pow2(half) * braid_v_pow2(n - half);
}

static inline float braid_v_expm1(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -30.0f ? -30.0f : x; /* -1 from here */
  int32_t n;
  float r = braid_v_reduce(x, &n), tail = r * r * braid_v_exp_tail(r);
  int32_t half = n >> 1;
  float low = braid_v_pow2(half), high = braid_v_pow2(n - half), scale = low * high;
  /* 2^n exp(r) - 1 with 2^n - 1 exact where it matters; at the upper end 2^n overflows before the product does */
  float y = scale * tail + (scale * r + (scale - 1.0f));
  y = n > 40 ? ((tail + r) + 1.0f) * low * high : y;
  return n == 0 ? tail + r : y;
}

/* Mantissa in [sqrt(1/2), sqrt 2) and exponent of a positive number. */
static inline float braid_v_log_of(float x) {
  float big = x * 0x1p23f;
  int32_t lifted = x < 0x1p-126f;
  uint32_t bits = braid_bits_of_float(lifted ? big : x);
  int32_t exponent = (int32_t)((bits - 0x3f3504f3u) >> 23) - (bits < 0x3f3504f3u ? 512 : 0);
  float m = braid_float_of_bits(bits - ((uint32_t)exponent << 23)) - 1.0f;
  float e = (float)(exponent - (lifted ? 23 : 0)), z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z + e * -2.12194440e-4f - 0.5f * z;
  return (m + y) + e * 0.693359375f;
}

static inline float braid_v_log(float x) {
  float y = braid_v_log_of(x);
  y = x > 0.0f ? y : NAN; /* negative numbers and NaN */
  y = x == 0.0f ? -INFINITY : y;
  return x == INFINITY ? x : y;
}

/* log(1 + x) for x >= 0. */
static inline float braid_v_log1p(float x) {
  float u = 1.0f + x, lost = u - 1.0f, safe = lost > 0.0f ? lost : 1.0f;
  float y = braid_v_log(u) * (x / safe);
  y = lost > 0.0f ? y : x;
  return x < 1e7f ? y : braid_v_log(u);
}

static inline float braid_v_tanh(float x) {
  float t = fabsf(x), s = x * x;
  float large = 1.0f - 2.0f / (braid_v_exp(2.0f * t) + 1.0f);
  float p = 1.57394409e-2f;
  p = p * s - 5.23025580e-2f;
  p = p * s + 1.33152470e-1f;
  p = p * s - 3.33327681e-1f;
  float small = p * s * x + x;
  return t < 0.55f ? small : copysignf(large, x);
}

static inline float braid_v_sigmoid(float x) {
  float e = braid_v_exp(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

static inline float braid_v_softplus(float x) {
  return (x > 0.0f ? x : 0.0f) + braid_v_log1p(braid_v_exp(-fabsf(x)));
}

static inline float braid_v_erf(float x) {
  float t = fabsf(x), s = x * x;
  float c = t < 4.0f ? t : 4.0f, c2 = c * c; /* 1 from here */
  float q = -1.72853470e-5f * c + 3.83197126e-4f;
  float u = -3.88396438e-3f * c + 2.42546219e-2f;
  q = q * c2 + u;
  q = q * c - 1.06777877e-1f;
  q = q * c - 6.34846687e-1f;
  q = q * c - 1.28717512e-1f;
  q = q * c - c;
  float large = copysignf(1.0f - braid_v_exp(q), x);
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  float small = p * x + x;
  return t > 0.921875f ? large : small;
}

/* The normal distribution's function, 1/2 + erf(x / sqrt(2)) / 2: x times a ratio of polynomials of x^2 that was fitted
 * with equal relative errors (2e-8) on [0, 5.54], from where 1 - result rounds to 0. Absolute errors stay below 2e-7.
 */
static inline float braid_v_normal(float x) {
  float t = fabsf(x), c = t > 5.54f ? 5.54f : t, s = c * c;
  float p = 2.26738914463e-8f, q = 1.19097162139e-6f;
  p = p * s + 6.29402380019e-6f;
  q = q * s + 7.25829863653e-5f;
  p = p * s + 1.66172200645e-4f;
  q = q * s + 1.8697523122e-3f;
  p = p * s + 4.66088094162e-3f;
  q = q * s + 2.85132005241e-2f;
  p = p * s + 3.36347168366e-2f;
  q = q * s + 2.50976110528e-1f;
  p = p * s + 3.98942273268e-1f;
  q = q * s + 1.0f;
  return 0.5f + copysignf(t > 5.54f ? 0.5f : c * p / q, x);
}

#endif
