/* Dropout and its gradient: see graph/ops/dropout.c. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/philox.h"
#include "tensor/half.h"
static double read_ratio(const braid_node_desc *node, const braid_cpu_args *args) {
  if (node->input_count < 2 || !node->inputs[1].present) return 0.5;
  switch (node->inputs[1].desc.dtype) {
  case BRAID_F32:
    return *(const float *)args->inputs[1];
  case BRAID_F64:
    return *(const double *)args->inputs[1];
  case BRAID_F16:
    return braid_f16_to_f32(*(const uint16_t *)args->inputs[1]);
  default:
    return braid_bf16_to_f32(*(const uint16_t *)args->inputs[1]);
  }
}

static void drop(braid_dtype dtype, const void *x, void *y, int64_t i, bool kept, double scale) {
  switch (dtype) {
  case BRAID_F32:
    ((float *)y)[i] = kept ? (float)(((const float *)x)[i] * scale) : 0;
    break;
  case BRAID_F64:
    ((double *)y)[i] = kept ? ((const double *)x)[i] * scale : 0;
    break;
  case BRAID_F16:
    ((uint16_t *)y)[i] = kept ? braid_f32_to_f16((float)(braid_f16_to_f32(((const uint16_t *)x)[i]) * scale)) : 0;
    break;
  default:
    ((uint16_t *)y)[i] = kept ? braid_f32_to_bf16((float)(braid_bf16_to_f32(((const uint16_t *)x)[i]) * scale)) : 0;
  }
}

static braid_status run_dropout(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc;
  int64_t count = braid_desc_count(x);
  bool training = node->input_count > 2 && node->inputs[2].present && *(const uint8_t *)args->inputs[2];
  double ratio = training ? read_ratio(node, args) : 0;
  uint8_t *mask = node->output_count > 1 ? args->outputs[1] : NULL;
  if (ratio == 0) {
    if (mask) memset(mask, 1, (size_t)count);
    if (args->outputs[0] != args->inputs[0]) memcpy(args->outputs[0], args->inputs[0], braid_desc_bytes(x));
    return BRAID_OK;
  }
  uint64_t seed = (uint64_t)braid_attr_int(node->attrs, "seed", 0);
  uint32_t stream = (uint32_t)braid_attr_int(node->attrs, "stream", 0);
  bool numbered = node->input_count > 3 && node->inputs[3].present;
  uint32_t step = numbered ? (uint32_t) * (const int64_t *)args->inputs[3] : 0;
  uint64_t first = (uint64_t)braid_attr_int(node->attrs, "first", 0);
  double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    bool kept = braid_random_uniform(seed, step, stream, first + (uint64_t)i) >= (float)ratio;
    drop(x->dtype, args->inputs[0], args->outputs[0], i, kept, scale);
    if (mask) mask[i] = kept;
  }
  return BRAID_OK;
}

static braid_status run_dropout_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *dy = &node->inputs[0].desc;
  const uint8_t *mask = args->inputs[1];
  double scale = braid_attr_float(node->attrs, "scale", 1);
  int64_t count = braid_desc_count(dy);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) drop(dy->dtype, args->inputs[0], args->outputs[0], i, mask[i] != 0, scale);
  return BRAID_OK;
}

static const braid_cpu_kernel kDropout = {.run = run_dropout}, kDropoutGrad = {.run = run_dropout_grad};

static const braid_kernel kKernels[] = {
    {.op = "Dropout", .name = "ref_dropout", .in_place = 1, .implementation = &kDropout},
    {.op = "DropoutGrad", .name = "ref_dropout_grad", .in_place = 1, .implementation = &kDropoutGrad},
};

const braid_cpu_table braid_cpu_plain_dropout = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
