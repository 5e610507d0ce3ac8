/* Normalizations, pools and sums over images whose channels lie last: [rows, channels], rows being batch * places. X: the
 * type of elements; a work-item has eight channels, of which there are a multiple of eight. */
#include "common.clh"
#include "gate.clh"

#define ZERO(lanes)                                                                                                    \
  for (int k = 0; k < 8; k++) lanes[k] = 0;

/* --- sums over rows -----------------------------------------------------------------------------------------------------
 * A group has LANES times eight channels and the rows of a slice, which its work-items take in turns. Kinds: MOMENTS, of
 * x less the channel's first element and of its square; GRADIENT, of v and of v * (x - center); else of v alone. Results:
 * `sums` and `more`, [slices, channels]. */
#ifdef LANES
#define ROWS (GROUP / LANES)

void share_sum(float *mine, local float *parts, GLOBAL float *out, bool inside, int l) {
  for (int k = 0; k < 8; k++) parts[k * GROUP + l] = mine[k];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = ROWS / 2; width > 0; width /= 2) {
    if (l < width * LANES)
      for (int k = 0; k < 8; k++) parts[k * GROUP + l] += parts[k * GROUP + l + width * LANES];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l < LANES && inside)
    for (int k = 0; k < 8; k++) out[k] = parts[k * GROUP + l];
  barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL row_sums(IN(X) x, IN(X) v, IN(float) center, OUT(float) sums, OUT(float) more, index_t rows, index_t channels,
                index_t slice GATE) {
  SHARED float parts[8 * GROUP];
  const int l = get_local_id(0);
  const index_t c = ((index_t)get_group_id(0) * LANES + l % LANES) * 8, which = get_group_id(1);
  const index_t first = which * slice, last = min(first + slice, rows);
  const bool inside = c < channels;
  float a[8], b[8], at[8], middle[8];
  ZERO(a) ZERO(b) ZERO(middle)
#ifdef MOMENTS
  if (inside) GET_EIGHT(X, x, c, middle)
#endif
#ifdef GRADIENT
  if (inside) GET_EIGHT(float, center, c, middle)
#endif
#ifdef RELU
  float factor[8], spread[8], shift[8];
  ZERO(factor) ZERO(spread) ZERO(shift)
  if (inside) {
    GET_EIGHT(float, scale, c, factor)
    GET_EIGHT(float, inverse, c, spread)
    GET_EIGHT(float, bias, c, shift)
    for (int k = 0; k < 8; k++) factor[k] *= spread[k];
  }
#endif
  for (index_t r = first + l / LANES; inside && r < last; r += ROWS) {
#ifdef MOMENTS
    GET_EIGHT(X, x, r * channels + c, at)
    for (int k = 0; k < 8; k++) {
      const float d = at[k] - middle[k];
      a[k] += d;
      b[k] += d * d;
    }
#else
    GET_EIGHT(X, v, r * channels + c, at)
#ifdef GRADIENT
    float of[8];
    GET_EIGHT(X, x, r * channels + c, of)
#ifdef RELU
    for (int k = 0; k < 8; k++) at[k] = PASSED(at[k], factor[k] * (of[k] - middle[k]) + shift[k]);
#endif
    for (int k = 0; k < 8; k++) b[k] += at[k] * (of[k] - middle[k]);
#endif
    for (int k = 0; k < 8; k++) a[k] += at[k];
#endif
  }
  share_sum(a, parts, sums + which * channels + c, inside, l);
#if defined(MOMENTS) || defined(GRADIENT)
  share_sum(b, parts, more + which * channels + c, inside, l);
#endif
}
#endif

/* --- from slices to channels --------------------------------------------------------------------------------------------
 * A group has eight channels; its other work-items take slices in turns. Each begins with what its channel's slices sum
 * to, in `sum` and `second` of work-items below eight. */
#ifdef FINISH
#define TURNS (GROUP / 8)
#define CHANNEL                                                                                                        \
  const int l = get_local_id(0);                                                                                       \
  const index_t c = (index_t)get_group_id(0) * 8 + l % 8;                                                              \
  SHARED float parts[GROUP];

float slices_sum(IN(float) sums, local float *parts, index_t channels, index_t c, index_t slices, int l) {
  float sum = 0;
  for (index_t i = l / 8; i < slices; i += TURNS) sum += sums[i * channels + c];
  parts[l] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = TURNS / 2; width > 0; width /= 2) {
    if (l < width * 8) parts[l] += parts[l + width * 8];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  sum = parts[l % 8];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

/* As finish_mean and finish_spread of norm.cl, of moments about the channel's first element. */
KERNEL finish_moments(IN(float) sums, IN(float) more, IN(X) x, IN(float) scale, GLOBAL const float *old_mean,
                      GLOBAL const float *old_variance, OUT(float) mean, OUT(float) factor, GLOBAL float *new_mean,
                      GLOBAL float *new_variance, OUT(float) saved_mean, OUT(float) saved_inverse, index_t rows,
                      index_t channels, index_t slices, float epsilon, float keep, float rest) {
  CHANNEL
  const float first = slices_sum(sums, parts, channels, c, slices, l) / (float)rows;
  const float second = slices_sum(more, parts, channels, c, slices, l) / (float)rows;
  if (l >= 8) return;
  const float middle = first + GET(X, x, c), spread = second - first * first;
  const float variance = spread < 0 ? 0 : spread, inverse = 1 / sqrt(variance + epsilon);
  mean[c] = middle;
  factor[c] = scale[c] * inverse;
#ifdef NEW_MEAN
  new_mean[c] = old_mean[c] * keep + middle * rest;
#endif
#ifdef NEW_VARIANCE
  new_variance[c] = old_variance[c] * keep + variance * rest;
#endif
#ifdef SAVED_MEAN
  saved_mean[c] = middle;
#endif
#ifdef SAVED_INVERSE
  saved_inverse[c] = inverse;
#endif
}

/* As finish_gradient of norm.cl. */
KERNEL finish_products(IN(float) sums, IN(float) more, IN(float) scale, IN(float) spread, OUT(float) coefficients,
                       OUT(float) dscale, OUT(float) dbias, index_t rows, index_t channels, index_t slices,
                       float epsilon) {
  CHANNEL
  const float sum = slices_sum(sums, parts, channels, c, slices, l);
  const float product = slices_sum(more, parts, channels, c, slices, l);
  if (l >= 8) return;
#ifdef TRAINING
  const float inverse = spread[c];
#else
  const float inverse = 1 / sqrt(spread[c] + epsilon);
#endif
#ifdef DSCALE
  dscale[c] = product * inverse;
#endif
#ifdef DBIAS
  dbias[c] = sum;
#endif
  coefficients[c] = scale[c] * inverse;
#ifdef TRAINING
  coefficients[channels + c] = -scale[c] * inverse * (inverse * inverse * product / (float)rows);
  coefficients[2 * channels + c] = -scale[c] * inverse * sum / (float)rows;
#else
  coefficients[channels + c] = coefficients[2 * channels + c] = 0;
#endif
}

KERNEL finish_bias(IN(float) sums, OUT(X) bias, index_t channels, index_t slices) {
  CHANNEL
  const float sum = slices_sum(sums, parts, channels, c, slices, l);
  if (l < 8) PUT(X, bias, c, sum);
}
#endif

/* --- element by element; results may lie over what they replace --------------------------------------------------------- */
#ifdef APPLY
KERNEL apply_last(GLOBAL const X *x, IN(float) factor, IN(float) mean, IN(float) bias, GLOBAL X *y, index_t eights,
                  index_t channels) {
  const index_t at = (index_t)get_global_id(0) * 8, c = at % channels;
  if (get_global_id(0) >= eights) return;
  float v[8], f[8], m[8], b[8];
  GET_EIGHT(X, x, at, v)
  GET_EIGHT(float, factor, c, f)
  GET_EIGHT(float, mean, c, m)
  GET_EIGHT(float, bias, c, b)
  for (int k = 0; k < 8; k++) {
    const float at_k = f[k] * (v[k] - m[k]) + b[k];
    v[k] = RECTIFIED(at_k);
  }
  PUT_EIGHT(X, y, at, v)
}

KERNEL gradient_last(GLOBAL const X *dy, GLOBAL const X *x, IN(float) mean, IN(float) coefficients, IN(float) bias,
                     GLOBAL X *dx, index_t eights, index_t channels) {
  const index_t at = (index_t)get_global_id(0) * 8, c = at % channels;
  if (get_global_id(0) >= eights) return;
  float d[8], v[8], m[8], by_d[8], by_v[8], rest[8];
  GET_EIGHT(X, dy, at, d)
  GET_EIGHT(X, x, at, v)
  GET_EIGHT(float, mean, c, m)
  GET_EIGHT(float, coefficients, c, by_d)
  GET_EIGHT(float, coefficients, channels + c, by_v)
  GET_EIGHT(float, coefficients, 2 * channels + c, rest)
#ifdef RELU
  float shift[8];
  GET_EIGHT(float, bias, c, shift)
  for (int k = 0; k < 8; k++) d[k] = PASSED(d[k], by_d[k] * (v[k] - m[k]) + shift[k]);
#endif
  for (int k = 0; k < 8; k++) d[k] = by_d[k] * d[k] + (by_v[k] * (v[k] - m[k]) + rest[k]);
  PUT_EIGHT(X, dx, at, d)
}
#endif

/* --- pools: two spatial dimensions; sizes as in pool.cl ------------------------------------------------------------------ */
#ifdef PLACE
#define SIZES                                                                                                          \
  index_t i1, index_t i2, index_t o1, index_t o2, index_t n1, index_t n2, index_t s1, index_t s2, index_t d1,          \
      index_t d2, index_t b1, index_t b2

/* Eight places in windows, side by side; one has a byte or an int. */
#define PUT_PLACES(to, i, x) JOINED(PUT_PLACES_, PLACE)(to, i, x)
#define PUT_PLACES_int(to, i, x)                                                                                        \
  for (int k = 0; k < 8; k++) (to)[(i) + k] = (PLACE)x[k];
#ifdef ALIGNED
#define PUT_PLACES_uchar(to, i, x)                                                                                      \
  *(GLOBAL uint2 *)((to) + (i)) = MAKE(uint2)(FOUR_BYTES(x[0], x[1], x[2], x[3]), FOUR_BYTES(x[4], x[5], x[6], x[7]));
#define FOUR_BYTES(a, b, c, d) ((uint)(a) | (uint)(b) << 8 | (uint)(c) << 16 | (uint)(d) << 24)
#define GET_BYTES(from, i, out)                                                                                         \
  {                                                                                                                     \
    const uint2 bytes_ = *(GLOBAL const uint2 *)((from) + (i));                                                         \
    for (int k = 0; k < 4; k++) {                                                                                       \
      out[k] = (int)(bytes_.s0 >> 8 * k & 255);                                                                         \
      out[k + 4] = (int)(bytes_.s1 >> 8 * k & 255);                                                                     \
    }                                                                                                                   \
  }
#else
#define PUT_PLACES_uchar(to, i, x) PUT_PLACES_int(to, i, x)
#define GET_BYTES(from, i, out)                                                                                         \
  for (int k = 0; k < 8; k++) out[k] = (from)[(i) + k];
#endif

/* Eight channels of an output. The largest, NaN above any number, and its place in the window. */
KERNEL max_pool_last(IN(X) x, OUT(X) y, OUT(PLACE) window, SIZES, index_t eights, index_t channels) {
  const index_t at = (index_t)get_global_id(0) * 8, c = at % channels, place = at / channels;
  if (get_global_id(0) >= eights) return;
  const index_t q2 = place % o2, q1 = place / o2 % o1, image = place / o2 / o1;
  float most[8];
  int where[8];
  bool first = true;
  ZERO(where) ZERO(most)
  for (index_t k1 = 0; k1 < n1; k1++)
    for (index_t k2 = 0; k2 < n2; k2++) {
      const index_t p1 = q1 * s1 - b1 + k1 * d1, p2 = q2 * s2 - b2 + k2 * d2;
      if (p1 < 0 || p1 >= i1 || p2 < 0 || p2 >= i2) continue;
      float v[8];
      GET_EIGHT(X, x, ((image * i1 + p1) * i2 + p2) * channels + c, v)
      for (int k = 0; k < 8; k++)
        if (first || v[k] > most[k] || (v[k] != v[k] && most[k] == most[k])) {
          most[k] = v[k];
          where[k] = (int)(k1 * n2 + k2);
        }
      first = false;
    }
  if (first)
    for (int k = 0; k < 8; k++) most[k] = -INFINITY;
  PUT_EIGHT(X, y, at, most)
#ifdef WITH_WINDOW
  PUT_PLACES(window, at, where)
#endif
}

/* Eight channels of an input, gathered from the outputs whose windows hold it. */
KERNEL max_pool_grad_last(IN(X) dy, IN(PLACE) window, OUT(X) dx, SIZES, index_t eights, index_t channels) {
  const index_t at = (index_t)get_global_id(0) * 8, c = at % channels, place = at / channels;
  if (get_global_id(0) >= eights) return;
  const index_t p2 = place % i2, p1 = place / i2 % i1, image = place / i2 / i1;
  float sum[8];
  ZERO(sum)
  for (index_t k1 = 0; k1 < n1; k1++)
    for (index_t k2 = 0; k2 < n2; k2++) {
      const index_t from1 = p1 + b1 - k1 * d1, from2 = p2 + b2 - k2 * d2, q1 = from1 / s1, q2 = from2 / s2;
      if (from1 < 0 || from2 < 0 || q1 * s1 != from1 || q2 * s2 != from2 || q1 >= o1 || q2 >= o2) continue;
      const index_t o = ((image * o1 + q1) * o2 + q2) * channels + c;
      float d[8];
      GET_EIGHT(X, dy, o, d)
      for (int k = 0; k < 8; k++) sum[k] += window[o + k] == (PLACE)(k1 * n2 + k2) ? d[k] : 0;
    }
  PUT_EIGHT(X, dx, at, sum)
}

/* Windows of TILE_1 x TILE_2 that cover the input side by side: eight channels of an output go, as they are, to their
 * places in its window, the rest of which is zero. PAIRS: elements have 16 bits. */
#ifdef TILE_1
#ifdef PAIRS
#define TAKE_EIGHT const uint4 taken = LOAD_WORDS(dy + at);
#define SPREAD_EIGHT(to, place)                                                                                         \
  const uint4 spread = MAKE(uint4)(PAIR_AT(taken.s0, 0, place), PAIR_AT(taken.s1, 2, place),                            \
                                   PAIR_AT(taken.s2, 4, place), PAIR_AT(taken.s3, 6, place));                           \
  KEEP_WORDS(spread, to);
#define PAIR_AT(word, k, place)                                                                                         \
  ((where[k] == (place) ? (word)&0xffffu : 0) | (where[(k) + 1] == (place) ? (word)&0xffff0000u : 0))
#else
#define TAKE_EIGHT                                                                                                      \
  float taken[8];                                                                                                       \
  GET_EIGHT(X, dy, at, taken)
#define SPREAD_EIGHT(to, place)                                                                                         \
  float spread[8];                                                                                                      \
  for (int k = 0; k < 8; k++) spread[k] = where[k] == (place) ? taken[k] : 0;                                           \
  PUT_EIGHT(X, to, 0, spread)
#endif

KERNEL max_pool_grad_tiles(IN(X) dy, IN(uchar) window, OUT(X) dx, index_t o2, index_t eights, index_t channels) {
  const index_t at = (index_t)get_global_id(0) * 8, c = at % channels, place = at / channels;
  if (get_global_id(0) >= eights) return;
  const index_t row = o2 * TILE_2 * channels;
  OUT(X) to = dx + place / o2 * TILE_1 * row + place % o2 * TILE_2 * channels + c;
  int where[8];
  GET_BYTES(window, at, where)
  TAKE_EIGHT
#pragma unroll
  for (int k1 = 0; k1 < TILE_1; k1++)
#pragma unroll
    for (int k2 = 0; k2 < TILE_2; k2++) {
      SPREAD_EIGHT(to + k1 * row + k2 * channels, k1 * TILE_2 + k2)
    }
}
#endif
#endif

#ifdef OVER_ALL
KERNEL global_average_last(IN(X) x, OUT(X) y, index_t eights, index_t channels, index_t size) {
  const index_t at = (index_t)get_global_id(0) * 8, c = at % channels, image = at / channels;
  if (get_global_id(0) >= eights) return;
  float sum[8], v[8];
  ZERO(sum)
  for (index_t i = 0; i < size; i++) {
    GET_EIGHT(X, x, (image * size + i) * channels + c, v)
    for (int k = 0; k < 8; k++) sum[k] += v[k];
  }
  for (int k = 0; k < 8; k++) sum[k] /= (float)size;
  PUT_EIGHT(X, y, at, sum)
}

KERNEL global_average_grad_last(IN(X) dy, OUT(X) dx, index_t eights, index_t channels, index_t size) {
  const index_t at = (index_t)get_global_id(0) * 8, c = at % channels, image = at / channels / size;
  if (get_global_id(0) >= eights) return;
  float v[8];
  GET_EIGHT(X, dy, image * channels + c, v)
  for (int k = 0; k < 8; k++) v[k] *= 1 / (float)size;
  PUT_EIGHT(X, dx, at, v)
}
#endif
