/* Arithmetic of training in integers, as docs/integer-training.md writes it down, for shape inference, the training
 * graph and the plain kernels: rounding, bounds, and the geometry of convolutions of rank 2 and 4. */
#ifndef BRAID_GRAPH_INTEGER_H
#define BRAID_GRAPH_INTEGER_H

#include "graph/geometry.h"

/* Products of two values of 8 bits whose sum is sure to fit 32 bits; raw results of more are int64. */
enum { BRAID_INTEGER_PRODUCTS = 133143 };

/* The largest value of `bits` bits. */
static inline int64_t braid_integer_max(int64_t bits) {
  return ((int64_t)1 << (bits - 1)) - 1;
}
static inline int64_t braid_integer_clip(int64_t value, int64_t bits) {
  int64_t most = braid_integer_max(bits);
  return value > most ? most : value < -most ? -most : value;
}
/* What is beyond the bounds of an operand counts as the nearest that is not. */
static inline int64_t braid_integer_limit(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}
/* Bounds of what ops are given by others (docs/integer-training.md, "Bounds"). */
static const int64_t BRAID_INTEGER_MOST_RAW = ((int64_t)1 << 47) - 1, BRAID_INTEGER_MOST_VARIANCE = (int64_t)1 << 46,
                     BRAID_INTEGER_MOST_M = 1 << 14, BRAID_INTEGER_LEAST_PLACES = 8, BRAID_INTEGER_MOST_PLACES = 24;
/* floor(value / 2^shift) */
static inline int64_t braid_integer_floor(int64_t value, int shift) {
  return value >= 0 ? value >> shift : ~(~value >> shift);
}
/* round(value, shift): a half is rounded up; a negative shift multiplies. */
static inline int64_t braid_integer_round(int64_t value, int64_t shift) {
  if (shift <= 0) return value * ((int64_t)1 << -shift);
  return braid_integer_floor(value + ((int64_t)1 << (shift - 1)), (int)shift);
}
/* value / count, a half rounded up. */
static inline int64_t braid_integer_near(int64_t value, int64_t count) {
  int64_t twice = 2 * value + count, by = 2 * count;
  return twice / by - (twice % by < 0);
}
/* Index of the highest set bit plus 1. */
static inline int braid_integer_width(uint64_t value) {
  int width = 0;
  for (; value; value >>= 1) width++;
  return width;
}
/* The largest integer whose square is not larger. */
static inline uint64_t braid_integer_root(uint64_t value) {
  uint64_t root = 0;
  for (uint64_t bit = (uint64_t)1 << 31; bit; bit >>= 1)
    if ((root + bit) * (root + bit) <= value) root += bit;
  return root;
}

/* The smallest a >= 0 with 6 * 4^a >= fan_in. */
int64_t braid_integer_a_shift(int64_t fan_in);
/* The shift that brings any sum of `products` products of weights and activations to 16 bits. */
int64_t braid_integer_wide_shift(int64_t products, int64_t weight_bits, int64_t activation_bits);
/* The type of a raw result that sums so many products. */
braid_dtype braid_integer_raw(int64_t products);
/* The stream of random numbers of a parameter or an error: FNV-1a of its name, highest bit set. */
uint32_t braid_integer_stream(const char *name);

/* A bijection of 32 bits, the finalizer of hash functions that Ellis (hash-prospector, 2018) found by search. */
static inline uint32_t braid_integer_mix(uint32_t h) {
  h = (h ^ h >> 16) * 0x7feb352du;
  h = (h ^ h >> 15) * 0x846ca68bu;
  return h ^ h >> 16;
}
/* The random bits that round element `element` of an error; `key` by braid_integer_error_key. */
static inline uint32_t braid_integer_error_bits(uint32_t key, uint64_t element) {
  return braid_integer_mix(key + (uint32_t)element);
}
uint32_t braid_integer_error_key(uint64_t seed, int64_t step, uint32_t stream);
/* floor((value + r) / 2^t), r the random bits `u` as a number in [0, 2^t); t from 1 to 62. */
static inline int64_t braid_integer_round_randomly(int64_t value, int t, uint32_t u) {
  return braid_integer_floor(value + (t <= 32 ? (int64_t)(u >> (32 - t)) : (int64_t)u << (t - 32)), t);
}

/* IntegerMomentum: a momentum has so many bits, in steps of 2^-19 of a parameter's range; its rate is in these bounds.
 */
enum { BRAID_INTEGER_MOMENTUM_BITS = 16, BRAID_INTEGER_MOMENTUM_PLACES = 20 };
enum { BRAID_INTEGER_LEAST_RATE = -16, BRAID_INTEGER_MOST_RATE = 8 };
/* Places by which a gradient's sums are shifted to the right. */
static inline int braid_integer_momentum_shift(int64_t place, int64_t rate, int64_t exponent) {
  return (int)braid_integer_limit(
      place - braid_integer_limit(rate, BRAID_INTEGER_LEAST_RATE, BRAID_INTEGER_MOST_RATE) - exponent, -16, 62);
}
/* Places to the left, with 16 more behind the momentum's, by which the decay 2^-decay of a parameter counts. */
static inline int braid_integer_decay_shift(int64_t bits, int64_t decay, int64_t rate) {
  return (int)(BRAID_INTEGER_MOMENTUM_PLACES + 16 - bits - decay +
               braid_integer_limit(rate, BRAID_INTEGER_LEAST_RATE, BRAID_INTEGER_MOST_RATE));
}

/* IntegerDigest: the weight of place j of a sample (2 j) and of sample b (2 b + 1); odd, so that no single difference
 * vanishes. */
static inline uint32_t braid_integer_digest_weight(uint64_t place) {
  return braid_integer_mix((uint32_t)place) | 1;
}
/* What a number of 64 bits counts as. */
static inline uint32_t braid_integer_digest_fold(int64_t value) {
  return (uint32_t)value + 0x9e3779b1u * (uint32_t)((uint64_t)value >> 32);
}

/* As braid_geometry_conv ..., also for operands of rank 2: no window, one position. */
BRAID_MUST_CHECK braid_status braid_integer_conv(const braid_attrs *attrs, const braid_desc *x, const braid_desc *w,
                                                 braid_convolution *out);
BRAID_MUST_CHECK braid_status braid_integer_conv_grad_input(const braid_attrs *attrs, const braid_desc *e,
                                                            const braid_desc *w, braid_convolution *out);
BRAID_MUST_CHECK braid_status braid_integer_conv_grad_filter(const braid_attrs *attrs, const braid_desc *x,
                                                             const braid_desc *e, braid_convolution *out);
/* Products that each element sums, as Bounds counts them. */
int64_t braid_integer_fan_in(const braid_convolution *conv);
int64_t braid_integer_fan_out(const braid_convolution *conv);
int64_t braid_integer_fan_batch(const braid_convolution *conv);
/* Does an input lie in two windows? */
bool braid_integer_overlaps(const braid_window *window);

#endif
