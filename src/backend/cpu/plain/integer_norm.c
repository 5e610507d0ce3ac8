/* Batch normalization of training in integers: docs/integer-training.md, "Batch normalization". */
#include "backend/cpu/plain/integer_norm.h"

/* Element i of channel c: sample i / positions, position i % positions. */
typedef struct channel_walk {
  int64_t channels, positions, count; /* count: elements of a channel */
} channel_walk;

static channel_walk walk_over(const braid_desc *desc) {
  channel_walk walk = {.channels = desc->dims[1], .positions = 1};
  for (int i = 2; i < desc->rank; i++) walk.positions *= desc->dims[i];
  walk.count = desc->dims[0] * walk.positions;
  return walk;
}

static int64_t walk_at(const channel_walk *walk, int64_t c, int64_t i) {
  return (i / walk->positions * walk->channels + c) * walk->positions + i % walk->positions;
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static void channel_sums(const channel_walk *walk, const int16_t *x, int64_t c, int64_t *sum, int64_t *squares) {
  *sum = *squares = 0;
  for (int64_t i = 0; i < walk->count; i++) {
    int64_t value = x[walk_at(walk, c, i)];
    *sum += value;
    *squares += value * value;
  }
}

static braid_status run_norm_sums(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  channel_walk walk = walk_over(&node->inputs[0].desc);
  int64_t *sums = args->outputs[0];
#pragma omp parallel for
  for (int64_t c = 0; c < walk.channels; c++)
    channel_sums(&walk, args->inputs[0], c, &sums[c], &sums[walk.channels + c]);
  return BRAID_OK;
}

static braid_status run_norm(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  channel_walk walk = walk_over(&node->inputs[0].desc);
  bool training = braid_attr_int(node->attrs, "training", 0) != 0, relu = braid_attr_int(node->attrs, "relu", 0) != 0;
  int64_t bits = braid_attr_int(node->attrs, "bits", 8);
  int64_t shift = braid_attr_int(node->attrs, "parameter_bits", 8) + 6 - bits;
  braid_dtype dtype = node->inputs[1].desc.dtype;
  const int16_t *x = args->inputs[0];
  const int32_t *mean = args->inputs[3];
  const int64_t *variance = args->inputs[4], *given = braid_norm_given(node, 5, args);
  int64_t whole = braid_norm_count(node, 5, walk.count);
  void *outputs[6] = {NULL};
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = args->outputs[i];
  if (training && walk.count == 0) return braid_fail(BRAID_INVALID_ARGUMENT, "a batch without elements has no mean");
#pragma omp parallel for
  for (int64_t c = 0; c < walk.channels; c++) {
    int64_t old_variance = braid_integer_limit(variance[c], 0, BRAID_INTEGER_MOST_VARIANCE);
    int64_t mean16 = mean[c], variance16 = old_variance;
    int64_t sum = given ? given[c] : 0, squares = given ? given[walk.channels + c] : 0;
    if (training && !given) channel_sums(&walk, x, c, &sum, &squares);
    if (training) braid_norm_statistics(sum, squares, whole, &mean16, &variance16);
    braid_norm_factors f = braid_norm_factors_of(mean16, variance16);
    int64_t gamma = braid_plain_get(dtype, args->inputs[1], c), beta = braid_plain_get(dtype, args->inputs[2], c);
    for (int64_t i = 0; i < walk.count; i++) {
      int64_t at = walk_at(&walk, c, i);
      int64_t h = braid_integer_clip(braid_integer_round(x[at] * f.m + f.c, f.places), 8);
      int64_t y = braid_plain_clip(braid_integer_round(gamma * h + 64 * beta, shift), bits, relu);
      ((int8_t *)outputs[0])[at] = (int8_t)y;
      if (outputs[3]) ((int8_t *)outputs[3])[at] = (int8_t)h;
    }
    if (outputs[4]) ((int32_t *)outputs[4])[c] = (int32_t)f.m;
    if (outputs[5]) ((int32_t *)outputs[5])[c] = (int32_t)f.places;
    if (outputs[1]) ((int32_t *)outputs[1])[c] = (int32_t)(mean[c] + braid_integer_round(mean16 - mean[c], 4));
    if (outputs[2]) ((int64_t *)outputs[2])[c] = old_variance + braid_integer_round(variance16 - old_variance, 4);
  }
  return BRAID_OK;
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
static void channel_error_sums(const channel_walk *walk, int64_t c, const int8_t *e, const int8_t *h, int64_t *by_beta,
                               int64_t *by_gamma) {
  *by_beta = *by_gamma = 0;
  for (int64_t i = 0; i < walk->count; i++) {
    int64_t at = walk_at(walk, c, i);
    *by_beta += e[at];
    *by_gamma += e[at] * h[at];
  }
}

static braid_status run_norm_grad_sums(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  channel_walk walk = walk_over(&node->inputs[0].desc);
  int64_t *sums = args->outputs[0];
#pragma omp parallel for
  for (int64_t c = 0; c < walk.channels; c++)
    channel_error_sums(&walk, c, args->inputs[0], args->inputs[1], &sums[c], &sums[walk.channels + c]);
  return BRAID_OK;
}

/* `count`: the elements that by_beta and by_gamma are sums of. */
static void channel_errors(const channel_walk *walk, int64_t c, int64_t factor, const int8_t *e, const int8_t *h,
                           int32_t *raw, int64_t by_gamma, int64_t by_beta, int64_t count) {
  int64_t b = count ? braid_integer_near(by_beta * (1 << 8), count) : 0;
  int64_t g = count ? braid_integer_near(by_gamma * (1 << 3), count) : 0;
  for (int64_t i = 0; i < walk->count; i++) {
    int64_t at = walk_at(walk, c, i), z = e[at] * (1 << 8) - b - braid_integer_round(h[at] * g, 5);
    raw[at] = (int32_t)(z * factor);
  }
}

static braid_status run_norm_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  channel_walk walk = walk_over(&node->inputs[0].desc);
  const int8_t *e = args->inputs[0], *h = args->inputs[2];
  int64_t r = braid_norm_factor_shift(node, args, walk.channels);
  int64_t *d_gamma = args->outputs[3], *d_beta = args->outputs[5], count = braid_norm_count(node, 6, walk.count);
  const int64_t *given = braid_norm_given(node, 6, args);
#pragma omp parallel for
  for (int64_t c = 0; c < walk.channels; c++) {
    if (given)
      d_beta[c] = given[c], d_gamma[c] = given[walk.channels + c];
    else
      channel_error_sums(&walk, c, e, h, &d_beta[c], &d_gamma[c]);
    channel_errors(&walk, c, braid_integer_round(braid_norm_full_factor(node, args, c), r), e, h, args->outputs[0],
                   d_gamma[c], d_beta[c], count);
  }
  braid_plain_magnitude(&node->outputs[0].desc, args->outputs[0], args->outputs[1]);
  braid_plain_magnitude(&node->outputs[3].desc, d_gamma, args->outputs[4]);
  braid_plain_magnitude(&node->outputs[5].desc, d_beta, args->outputs[6]);
  int64_t exponent = *(const int32_t *)args->inputs[1] + braid_attr_int(node->attrs, "bits", 8) -
                     braid_attr_int(node->attrs, "parameter_bits", 8) - 38 + r;
  *(int32_t *)args->outputs[2] = (int32_t)exponent;
  return BRAID_OK;
}

static const braid_cpu_kernel kNorm = {.run = run_norm}, kNormGrad = {.run = run_norm_grad},
                              kNormSums = {.run = run_norm_sums}, kNormGradSums = {.run = run_norm_grad_sums};

static const braid_kernel kKernels[] = {
    {.op = "IntegerBatchNormalization",
     .name = "ref_integer_batch_normalization",
     .in_place_more = {1 << 3, 1 << 4},
     .implementation = &kNorm},
    {.op = "IntegerBatchNormalizationGrad",
     .name = "ref_integer_batch_normalization_grad",
     .implementation = &kNormGrad},
    {.op = "IntegerBatchNormalizationGradSums",
     .name = "ref_integer_batch_normalization_grad_sums",
     .implementation = &kNormGradSums},
    {.op = "IntegerBatchNormalizationSums",
     .name = "ref_integer_batch_normalization_sums",
     .implementation = &kNormSums},
};

const braid_cpu_table braid_cpu_plain_integer_norm = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
