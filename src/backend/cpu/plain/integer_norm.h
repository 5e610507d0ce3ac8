/* Batch normalization of training in integers, what is done once for a channel: docs/integer-training.md. */
#ifndef BRAID_BACKEND_CPU_PLAIN_INTEGER_NORM_H
#define BRAID_BACKEND_CPU_PLAIN_INTEGER_NORM_H

#include "backend/cpu/plain/integer.h"

typedef struct braid_norm_factors {
  int64_t m, places, c;
} braid_norm_factors;

static inline braid_norm_factors braid_norm_factors_of(int64_t mean16, int64_t variance16) {
  uint64_t root = braid_integer_root(((uint64_t)variance16 + (1 << 14)) << 16);
  int b = braid_integer_width(root) - 1;
  braid_norm_factors f = {.m = (int64_t)(((uint64_t)1 << (14 + b)) / root), .places = b - 7};
  f.c = -braid_integer_round(mean16 * f.m, 16);
  return f;
}

/* mean16 and variance16 of `count` elements with these sums. */
static inline void braid_norm_statistics(int64_t sum, int64_t squares, int64_t count, int64_t *mean16,
                                         int64_t *variance16) {
  *mean16 = braid_integer_near(sum * (1 << 16), count);
  int64_t q = squares / count, square16 = q * (1 << 16) + (squares - q * count) * (1 << 16) / count;
  *variance16 = square16 - braid_integer_round(*mean16 * *mean16, 16);
  if (*variance16 < 0) *variance16 = 0;
}

/* How many elements of a channel the sums are of: those `here`, or as many of each sample of the whole batch where its
 * sums are given as input `sums`. */
static inline int64_t braid_norm_count(const braid_node_desc *node, size_t sums, int64_t here) {
  bool given = node->input_count > sums && node->inputs[sums].present;
  int64_t samples = node->inputs[0].desc.dims[0], batch = braid_attr_int(node->attrs, "batch", 0);
  return given && samples > 0 ? here / samples * batch : here;
}

/* The batch's sums, or NULL: of the operands themselves. */
static inline const int64_t *braid_norm_given(const braid_node_desc *node, size_t sums, const braid_cpu_args *args) {
  return node->input_count > sums && node->inputs[sums].present ? args->inputs[sums] : NULL;
}

/* F_c of IntegerBatchNormalizationGrad. */
static inline int64_t braid_norm_full_factor(const braid_node_desc *node, const braid_cpu_args *args, int64_t c) {
  int64_t gamma = braid_plain_get(node->inputs[3].desc.dtype, args->inputs[3], c);
  int64_t m = braid_integer_limit(((const int32_t *)args->inputs[4])[c], 0, BRAID_INTEGER_MOST_M);
  int64_t places =
      braid_integer_limit(((const int32_t *)args->inputs[5])[c], BRAID_INTEGER_LEAST_PLACES, BRAID_INTEGER_MOST_PLACES);
  return gamma * m * ((int64_t)1 << (24 - places));
}

/* r: what all channels' F_c are shifted by. */
static inline int64_t braid_norm_factor_shift(const braid_node_desc *node, const braid_cpu_args *args,
                                              int64_t channels) {
  uint64_t widest = 0;
  for (int64_t c = 0; c < channels; c++) {
    int64_t factor = braid_norm_full_factor(node, args, c);
    widest |= (uint64_t)(factor < 0 ? -factor : factor);
  }
  int64_t r = braid_integer_width(widest) - 10;
  return r < 0 ? 0 : r;
}

#endif
