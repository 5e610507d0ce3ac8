/* Batch normalization and LRN over images [batch, channels, plane]. X: the type of an image's elements. */
#include "common.clh"
#include "gate.clh"

#ifndef X
#define X float
#endif

#define LANES 16
#define SHAPE index_t batch, index_t channels, index_t plane

#define ERROR(i) PASSED(GET(X, v, i), factor *(GET(X, u, i) - middle) + shift)

/* Sums over a slice of each channel's elements, a group for each channel and slice: of u (MEAN), of the squares of u -
 * center (SPREAD), or of v and of v * (u - center) (GRADIENT). A slice is `slice` elements of the batch * plane. */
#if defined(MEAN)
#define TERM(i) GET(X, u, i)
#elif defined(SPREAD)
#define TERM(i) square(GET(X, u, i) - middle)
#else
#define TERM(i) (ERROR(i) * (GET(X, u, i) - middle))
#endif
#if defined(MEAN)
#define MIDDLE 0
#else
#define MIDDLE center[channel]
#endif

float square(float x) {
  return x * x;
}

float tree(float x, local float *parts, int l) {
  parts[l] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = GROUP / 2; width > 0; width /= 2) {
    if (l < width) parts[l] += parts[l + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float sum = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

#if defined(MEAN) || defined(SPREAD) || defined(GRADIENT)
KERNEL channel_sums(IN(X) u, IN(X) v, IN(float) center, OUT(float) sums, OUT(float) more, SHAPE,
                    index_t slice GATE) {
  SHARED float parts[GROUP];
  const index_t channel = get_group_id(0), which = get_group_id(1);
  const int l = get_local_id(0);
  const float middle = MIDDLE;
#ifdef RELU
  const float factor = scale[channel] * inverse[channel], shift = bias[channel];
#endif
  float lanes[LANES], extra[LANES], sum = 0, second = 0;
  for (int k = 0; k < LANES; k++) lanes[k] = extra[k] = 0;
  for (index_t r = which * slice, last = min(r + slice, batch * plane); r < last;) {
    const index_t inner = r % plane, count = min(last - r, plane - inner);
    const index_t first = (r / plane * channels + channel) * plane + inner;
    index_t i = l;
    for (; i + (LANES - 1) * GROUP < count; i += LANES * GROUP)
      for (int k = 0; k < LANES; k++) {
        lanes[k] += TERM(first + i + k * GROUP);
#ifdef GRADIENT
        extra[k] += ERROR(first + i + k * GROUP);
#endif
      }
    for (; i < count; i += GROUP) {
      sum += TERM(first + i);
#ifdef GRADIENT
      second += ERROR(first + i);
#endif
    }
    r += count;
  }
  for (int k = 0; k < LANES; k++) sum += lanes[k], second += extra[k];
  sum = tree(sum, parts, l);
  if (l == 0) sums[which * channels + channel] = sum;
#ifdef GRADIENT
  second = tree(second, parts, l);
  if (l == 0) more[which * channels + channel] = second;
#endif
}
#endif

/* Slices in their order. */
float total(IN(float) sums, index_t channels, index_t channel, index_t slices) {
  float sum = 0, lost = 0;
  for (index_t i = 0; i < slices; i++) {
    const float x = sums[i * channels + channel], next = sum + x, shared = next - sum;
    lost += (sum - (next - shared)) + (x - shared);
    sum = next;
  }
  return lost == lost ? sum + lost : sum;
}

KERNEL finish_mean(IN(float) sums, OUT(float) mean, SHAPE, index_t slices) {
  const index_t c = get_global_id(0);
  if (c < channels) mean[c] = total(sums, channels, c, slices) / ((float)batch * plane);
}

/* The gradient of a bias. */
KERNEL finish_bias(IN(float) sums, OUT(X) bias, index_t channels, index_t slices) {
  const index_t c = get_global_id(0);
  if (c < channels) PUT(X, bias, c, total(sums, channels, c, slices));
}

/* What y = factor * (x - mean) + bias takes, and what becomes of the running statistics, which may lie where they were.
 */
KERNEL finish_spread(IN(float) sums, IN(float) mean, IN(float) scale, GLOBAL const float *old_mean,
                     GLOBAL const float *old_variance, OUT(float) factor, GLOBAL float *new_mean,
                     GLOBAL float *new_variance, OUT(float) saved_mean, OUT(float) saved_inverse, SHAPE, index_t slices,
                     float epsilon, float keep, float rest) {
  const index_t c = get_global_id(0);
  if (c >= channels) return;
  const float variance = total(sums, channels, c, slices) / ((float)batch * plane);
  const float inverse = 1 / sqrt(variance + epsilon);
  factor[c] = scale[c] * inverse;
#ifdef NEW_MEAN
  new_mean[c] = old_mean[c] * keep + mean[c] * rest;
#endif
#ifdef NEW_VARIANCE
  new_variance[c] = old_variance[c] * keep + variance * rest;
#endif
#ifdef SAVED_MEAN
  saved_mean[c] = mean[c];
#endif
#ifdef SAVED_INVERSE
  saved_inverse[c] = inverse;
#endif
}

/* The same where the statistics are given. */
KERNEL given(IN(float) scale, IN(float) variance, OUT(float) factor, index_t channels, float epsilon) {
  const index_t c = get_global_id(0);
  if (c < channels) factor[c] = scale[c] / sqrt(variance[c] + epsilon);
}

/* y may be x. */
KERNEL apply(GLOBAL const X *x, IN(float) factor, IN(float) mean, IN(float) bias, GLOBAL X *y, index_t total,
             index_t channels, index_t plane) {
  const index_t i = get_global_id(0);
  if (i >= total) return;
  const index_t c = i / plane % channels;
  const float v = factor[c] * (GET(X, x, i) - mean[c]) + bias[c];
  PUT(X, y, i, RECTIFIED(v));
}

/* With h = (x - mean) * inverse and N elements in a channel: dx = scale * inverse * (dy - dbias / N - h * dscale / N),
 * the last two terms only where the statistics are the batch's (TRAINING). coefficients: of dy, of x - mean, and a
 * constant, for each channel. */
KERNEL finish_gradient(IN(float) products, IN(float) sums, IN(float) scale, IN(float) spread, OUT(float) coefficients,
                       OUT(float) dscale, OUT(float) dbias, SHAPE, index_t slices, float epsilon) {
  const index_t c = get_global_id(0);
  if (c >= channels) return;
#ifdef TRAINING
  const float inverse = spread[c];
#else
  const float inverse = 1 / sqrt(spread[c] + epsilon);
#endif
  const float count = (float)batch * plane, product = total(products, channels, c, slices);
  const float sum = total(sums, channels, c, slices);
#ifdef DSCALE
  dscale[c] = product * inverse;
#endif
#ifdef DBIAS
  dbias[c] = sum;
#endif
  coefficients[c] = scale[c] * inverse;
#ifdef TRAINING
  coefficients[channels + c] = -scale[c] * inverse * (inverse * inverse * product / count);
  coefficients[2 * channels + c] = -scale[c] * inverse * sum / count;
#else
  coefficients[channels + c] = coefficients[2 * channels + c] = 0;
#endif
}

/* dx may be dy or x. */
KERNEL gradient(GLOBAL const X *dy, GLOBAL const X *x, IN(float) mean, IN(float) coefficients, IN(float) bias,
                GLOBAL X *dx, index_t total, index_t channels, index_t plane) {
  const index_t i = get_global_id(0);
  if (i >= total) return;
  const index_t c = i / plane % channels;
  const float v = GET(X, x, i) - mean[c], d = PASSED(GET(X, dy, i), coefficients[c] * v + bias[c]);
  PUT(X, dx, i, coefficients[c] * d + (coefficients[channels + c] * v + coefficients[2 * channels + c]));
}

/* --- LRN: over `size` channels, `before` of them before one's own ----------------------------------------------------- */
#define CHANNELS_AROUND(before)                                                                                        \
  const index_t c = i / plane % channels, from = max((index_t)0, c - (before)), to = min(channels, c - (before) + size);
#define SQUARES                                                                                                        \
  float squares = 0;                                                                                                   \
  for (index_t k = from; k < to; k++) squares += x[i + (k - c) * plane] * x[i + (k - c) * plane];

KERNEL lrn(IN(float) x, OUT(float) y, index_t total, index_t channels, index_t plane, index_t size, float share,
           float beta, float bias) {
  const index_t i = get_global_id(0);
  if (i >= total) return;
  CHANNELS_AROUND((size - 1) / 2)
  SQUARES
  y[i] = x[i] * pow(bias + share * squares, -beta);
}

KERNEL lrn_terms(IN(float) dy, IN(float) x, OUT(float) powers, OUT(float) terms, index_t total, index_t channels,
                 index_t plane, index_t size, float share, float beta, float bias) {
  const index_t i = get_global_id(0);
  if (i >= total) return;
  CHANNELS_AROUND((size - 1) / 2)
  SQUARES
  const float base = bias + share * squares, power = pow(base, -beta);
  powers[i] = power;
  terms[i] = dy[i] * x[i] * power / base;
}

KERNEL lrn_grad(IN(float) dy, IN(float) x, IN(float) powers, IN(float) terms, OUT(float) dx, index_t total,
                index_t channels, index_t plane, index_t size, float share, float beta) {
  const index_t i = get_global_id(0);
  if (i >= total) return;
  CHANNELS_AROUND(size / 2)
  float sum = 0;
  for (index_t k = from; k < to; k++) sum += terms[i + (k - c) * plane];
  dx[i] = dy[i] * powers[i] - 2 * share * beta * x[i] * sum;
}
