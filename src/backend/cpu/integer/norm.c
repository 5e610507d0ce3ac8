/* Batch normalization of training in integers, channels last (BHWC, or rank 2): blocks of rows, whose sums of 32 bits
 * join those of 64 bits of a thread; what is done once for a channel is the plain kernels' own. The same bits by any
 * number of threads, since sums of integers have no order. docs/integer-training.md is the contract. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/integer/norm_isa.h"
#include "backend/cpu/integer/sweep.h"
#include "backend/cpu/plain/integer_norm.h"
#include "base/checked.h"

enum { kFactors = 5, kPartials = 3, kSums = 2, kParts = 2 };

/* Few channels are taken as more of them: several rows as one, `folded`, whose factors are there as often. What is left
 * of a block's rows goes row by row.
 * Workspace: kFactors rows of 32 bits for the folded channels, then of each thread kSums rows of 64 bits and kPartials
 * of 32.
 */
typedef struct integer_norm {
  int64_t rows, channels, fold, folded, block, blocks, lanes; /* folded: channels of `fold` rows */
  size_t lane_at, lane_bytes;
} integer_norm;

static bool norm_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  int rank = node->inputs[0].desc.rank;
  if (rank == 2 || rank == 4) return true;
  snprintf(why, why_bytes, "rank %d, which is neither 2 nor 4", rank);
  return false;
}

/* Activations, errors and normalized activations have channels last; all else is plain. */
static void norm_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  const braid_desc *first = &node->inputs[0].desc;
  braid_layout images = first->rank == 4 ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = node->inputs[i].desc.rank == first->rank ? images : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++)
    outputs[i] = node->outputs[i].desc.rank == first->rank ? images : BRAID_LAYOUT_PLAIN;
}

/* The result has rank 2, as x may have. */
static void norm_sums_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  norm_layouts(node, inputs, outputs);
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

static braid_status norm_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  const braid_desc *x = &node->inputs[0].desc;
  integer_norm *p = *state = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  p->channels = x->dims[1];
  p->rows = p->channels ? braid_desc_count(x) / p->channels : 0;
  p->lanes = omp_get_max_threads();
  p->fold = p->channels > 0 && p->channels < BRAID_INTEGER_NORM_UNIT
                ? (BRAID_INTEGER_NORM_UNIT + p->channels - 1) / p->channels
                : 1;
  p->folded = p->fold * p->channels;
  p->block = (p->rows + 4 * p->lanes - 1) / (4 * p->lanes);
  p->block = p->block > BRAID_INTEGER_NORM_ROWS ? BRAID_INTEGER_NORM_ROWS : p->block < 1 ? 1 : p->block;
  p->blocks = (p->rows + p->block - 1) / p->block;
  size_t factors, lanes, channels = (size_t)p->folded;
  bool fits = braid_mul_size(channels, kFactors * sizeof(int32_t), &factors) &&
              braid_mul_size(channels, kSums * sizeof(int64_t) + kPartials * sizeof(int32_t), &p->lane_bytes) &&
              p->lane_bytes < SIZE_MAX / 2 && factors < SIZE_MAX / 2;
  p->lane_bytes = (p->lane_bytes + 63) & ~(size_t)63;
  p->lane_at = (factors + 63) & ~(size_t)63;
  if (fits && braid_mul_size(p->lane_bytes, (size_t)p->lanes, &lanes) &&
      braid_add_size(p->lane_at, lanes, &info->workspace_bytes))
    return BRAID_OK;
  braid_free(allocator, p);
  *state = NULL;
  return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
}

static int64_t *lane_sums(const integer_norm *p, const braid_cpu_args *args, int64_t lane) {
  return (int64_t *)(void *)((char *)args->workspace + p->lane_at + (size_t)lane * p->lane_bytes);
}

static int32_t *factor_row(const integer_norm *p, const braid_cpu_args *args, int row) {
  return (int32_t *)args->workspace + row * p->folded;
}

static int64_t block_rows(const integer_norm *p, int64_t block) {
  int64_t left = p->rows - block * p->block;
  return left < p->block ? left : p->block;
}

static void clear_sums(const integer_norm *p, const braid_cpu_args *args) {
  for (int64_t i = 0; i < p->lanes; i++) memset(lane_sums(p, args, i), 0, (size_t)p->folded * kSums * sizeof(int64_t));
}

/* Rows of a block in two parts: folded ones, then single ones. */
typedef struct norm_part {
  int64_t at, rows, channels;
} norm_part;

static norm_part part_of(const integer_norm *p, int64_t block, int part) {
  int64_t rows = block_rows(p, block), at = block * p->block * p->channels;
  if (part == 0) return (norm_part){at, rows / p->fold, p->folded};
  return (norm_part){at + rows / p->fold * p->folded, rows % p->fold, p->channels};
}

/* Each channel's factor for all rows that are folded. */
static void repeat_factor(const integer_norm *p, int32_t *factors) {
  for (int64_t i = p->channels; i < p->folded; i++) factors[i] = factors[i - p->channels];
}

/* The first or second sum of channel c, of all threads. */
static int64_t total_of(const integer_norm *p, const braid_cpu_args *args, int which, int64_t c) {
  int64_t total = 0;
  for (int64_t i = 0; i < p->lanes; i++)
    for (int64_t k = 0; k < p->fold; k++) total += lane_sums(p, args, i)[which * p->folded + k * p->channels + c];
  return total;
}

/* Both sums of every channel, of all threads. */
static void write_totals(const integer_norm *p, const braid_cpu_args *args, int64_t *out) {
  for (int which = 0; which < kSums; which++)
    for (int64_t c = 0; c < p->channels; c++) out[which * p->channels + c] = total_of(p, args, which, c);
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static void sum_moments(const integer_norm *p, const braid_cpu_args *args) {
  const int16_t *x = args->inputs[0];
  clear_sums(p, args);
#pragma omp parallel for schedule(static) num_threads((int)p->lanes) if (p->blocks > 1)
  for (int64_t block = 0; block < p->blocks; block++) {
    int64_t *sums = lane_sums(p, args, omp_get_thread_num());
    int32_t *part = (int32_t *)(void *)(sums + kSums * p->folded);
    uint32_t *low = (uint32_t *)part + p->folded, *high = low + p->folded;
    for (int k = 0; k < kParts; k++) {
      norm_part n = part_of(p, block, k);
      if (n.rows > 0) BRAID_ISA_CALL(braid_integer_moments, x + n.at, n.rows, n.channels, part, low, high);
      for (int64_t c = 0; n.rows > 0 && c < n.channels; c++) {
        sums[c] += part[c];
        sums[p->folded + c] += ((int64_t)high[c] << 16) + low[c];
      }
    }
  }
}

static braid_status run_norm_sums(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  sum_moments(state, args);
  write_totals(state, args, args->outputs[0]);
  return BRAID_OK;
}

/* Writes what a channel gives besides y and h; returns its factors. */
static braid_norm_factors finish_channel(const braid_node_desc *node, const integer_norm *p, const braid_cpu_args *args,
                                         bool training, int64_t c) {
  int64_t mean = ((const int32_t *)args->inputs[3])[c], mean16 = mean;
  int64_t variance = braid_integer_limit(((const int64_t *)args->inputs[4])[c], 0, BRAID_INTEGER_MOST_VARIANCE);
  int64_t variance16 = variance;
  void *outputs[6] = {NULL};
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = args->outputs[i];
  const int64_t *given = braid_norm_given(node, 5, args);
  if (training) {
    int64_t sum = given ? given[c] : total_of(p, args, 0, c);
    int64_t squares = given ? given[p->channels + c] : total_of(p, args, 1, c);
    braid_norm_statistics(sum, squares, braid_norm_count(node, 5, p->rows), &mean16, &variance16);
  }
  braid_norm_factors f = braid_norm_factors_of(mean16, variance16);
  if (outputs[1]) ((int32_t *)outputs[1])[c] = (int32_t)(mean + braid_integer_round(mean16 - mean, 4));
  if (outputs[2]) ((int64_t *)outputs[2])[c] = variance + braid_integer_round(variance16 - variance, 4);
  if (outputs[4]) ((int32_t *)outputs[4])[c] = (int32_t)f.m;
  if (outputs[5]) ((int32_t *)outputs[5])[c] = (int32_t)f.places;
  return f;
}

static braid_status run_norm(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const integer_norm *p = state;
  bool training = braid_attr_int(node->attrs, "training", 0) != 0, relu = braid_attr_int(node->attrs, "relu", 0) != 0;
  int64_t bits = braid_attr_int(node->attrs, "bits", 8), most = braid_integer_max(bits);
  int64_t shift = braid_attr_int(node->attrs, "parameter_bits", 8) + 6 - bits;
  braid_dtype dtype = node->inputs[1].desc.dtype;
  if (training && p->rows == 0) return braid_fail(BRAID_INVALID_ARGUMENT, "a batch without elements has no mean");
  if (training && !braid_norm_given(node, 5, args)) sum_moments(p, args);
  int32_t *rows[kFactors];
  for (int i = 0; i < kFactors; i++) rows[i] = factor_row(p, args, i);
  for (int64_t c = 0; c < p->channels; c++) {
    braid_norm_factors f = finish_channel(node, p, args, training, c);
    rows[0][c] = (int32_t)f.m;
    rows[1][c] = (int32_t)(f.c + ((int64_t)1 << (f.places - 1)));
    rows[2][c] = (int32_t)f.places;
    rows[3][c] = (int32_t)braid_plain_get(dtype, args->inputs[1], c);
    rows[4][c] = (int32_t)(64 * braid_plain_get(dtype, args->inputs[2], c) + ((int64_t)1 << (shift - 1)));
  }
  for (int i = 0; i < kFactors; i++) repeat_factor(p, rows[i]);
  braid_integer_norm_factors f = {rows[0], rows[1],        rows[2],        rows[3],
                                  rows[4], (int32_t)shift, (int32_t)-most, (int32_t)most};
  if (relu) f.low = 0;
  const int16_t *x = args->inputs[0];
  int8_t *y = args->outputs[0], *h = node->output_count > 3 ? args->outputs[3] : NULL;
#pragma omp parallel for schedule(static) num_threads((int)p->lanes) if (p->blocks > 1)
  for (int64_t i = 0; i < kParts * p->blocks; i++) {
    norm_part n = part_of(p, i / kParts, (int)(i % kParts));
    BRAID_ISA_CALL(braid_integer_normalize, x + n.at, n.rows, n.channels, &f, y + n.at, h ? h + n.at : NULL);
  }
  return BRAID_OK;
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
static void sum_errors(const integer_norm *p, const braid_cpu_args *args, const int8_t *h) {
  const int8_t *e = args->inputs[0];
  clear_sums(p, args);
#pragma omp parallel for schedule(static) num_threads((int)p->lanes) if (p->blocks > 1)
  for (int64_t block = 0; block < p->blocks; block++) {
    int64_t *sums = lane_sums(p, args, omp_get_thread_num());
    int32_t *by_e = (int32_t *)(void *)(sums + kSums * p->folded), *by_eh = by_e + p->folded;
    for (int k = 0; k < kParts; k++) {
      norm_part n = part_of(p, block, k);
      if (n.rows > 0) BRAID_ISA_CALL(braid_integer_norm_sums, e + n.at, h + n.at, n.rows, n.channels, by_e, by_eh);
      for (int64_t c = 0; n.rows > 0 && c < n.channels; c++) {
        sums[c] += by_e[c];
        sums[p->folded + c] += by_eh[c];
      }
    }
  }
}

static braid_status run_norm_grad_sums(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  sum_errors(state, args, args->inputs[1]);
  write_totals(state, args, args->outputs[0]);
  return BRAID_OK;
}

static braid_status run_norm_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const integer_norm *p = state;
  const int8_t *e = args->inputs[0], *h = args->inputs[2];
  int32_t *b = factor_row(p, args, 0), *g = factor_row(p, args, 1), *f = factor_row(p, args, 2);
  int32_t *raw = args->outputs[0];
  int64_t *d_gamma = args->outputs[3], *d_beta = args->outputs[5], r = braid_norm_factor_shift(node, args, p->channels);
  const int64_t *given = braid_norm_given(node, 6, args);
  int64_t count = braid_norm_count(node, 6, p->rows);
  uint32_t bits = 0;
  if (!given) sum_errors(p, args, h);
  for (int64_t c = 0; c < p->channels; c++) {
    d_beta[c] = given ? given[c] : total_of(p, args, 0, c);
    d_gamma[c] = given ? given[p->channels + c] : total_of(p, args, 1, c);
    b[c] = count ? (int32_t)braid_integer_near(d_beta[c] * (1 << 8), count) : 0;
    g[c] = count ? (int32_t)braid_integer_near(d_gamma[c] * (1 << 3), count) : 0;
    f[c] = (int32_t)braid_integer_round(braid_norm_full_factor(node, args, c), r);
  }
  repeat_factor(p, b);
  repeat_factor(p, g);
  repeat_factor(p, f);
#pragma omp parallel for schedule(static) reduction(| : bits) num_threads((int)p->lanes) if (p->blocks > 1)
  for (int64_t i = 0; i < kParts * p->blocks; i++) {
    norm_part n = part_of(p, i / kParts, (int)(i % kParts));
    bits |= BRAID_ISA_CALL(braid_integer_norm_errors, e + n.at, h + n.at, n.rows, n.channels, b, g, f, raw + n.at);
  }
  braid_integer_set_magnitude(&node->outputs[0].desc, bits, args->outputs[1]);
  braid_plain_magnitude(&node->outputs[3].desc, d_gamma, args->outputs[4]);
  braid_plain_magnitude(&node->outputs[5].desc, d_beta, args->outputs[6]);
  int64_t exponent = *(const int32_t *)args->inputs[1] + braid_attr_int(node->attrs, "bits", 8) -
                     braid_attr_int(node->attrs, "parameter_bits", 8) - 38 + r;
  *(int32_t *)args->outputs[2] = (int32_t)exponent;
  return BRAID_OK;
}

static const braid_cpu_kernel kNorm = {.create = norm_create, .run = run_norm},
                              kNormGrad = {.create = norm_create, .run = run_norm_grad},
                              kNormSums = {.create = norm_create, .run = run_norm_sums},
                              kNormGradSums = {.create = norm_create, .run = run_norm_grad_sums};

static const braid_kernel kKernels[] = {
    {.op = "IntegerBatchNormalization",
     .name = "vector_integer_batch_normalization",
     .match = norm_match,
     .layouts = norm_layouts,
     .in_place_more = {1 << 3, 1 << 4},
     .implementation = &kNorm},
    {.op = "IntegerBatchNormalizationGrad",
     .name = "vector_integer_batch_normalization_grad",
     .match = norm_match,
     .layouts = norm_layouts,
     .implementation = &kNormGrad},
    {.op = "IntegerBatchNormalizationGradSums",
     .name = "vector_integer_batch_normalization_grad_sums",
     .match = norm_match,
     .layouts = norm_sums_layouts,
     .implementation = &kNormGradSums},
    {.op = "IntegerBatchNormalizationSums",
     .name = "vector_integer_batch_normalization_sums",
     .match = norm_match,
     .layouts = norm_sums_layouts,
     .implementation = &kNormSums},
};

extern const braid_cpu_table braid_cpu_integer_norm;
const braid_cpu_table braid_cpu_integer_norm = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
