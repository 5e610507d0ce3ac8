#include "backend/cpu/plain/float.h"

#include <stdio.h>

#include "base/checked.h"
#include "tensor/half.h"

/* --- conversions ---------------------------------------------------------------------------------------------------
 */
#define SAME(value) (value)

/* to[i] = store(load(from[i])), in parallel where it is worth it */
#define CONVERT(from_type, to_type, load, store)                                                                       \
  do {                                                                                                                 \
    const from_type *source = from;                                                                                    \
    to_type *target = to;                                                                                              \
    _Pragma("omp parallel for schedule(static) if (count > 65536)") for (int64_t i = 0; i < count; i++) target[i] =    \
        (to_type)store(load(source[i]));                                                                               \
  } while (0)

static void widen(braid_dtype dtype, bool to_double, const void *from, void *to, int64_t count) {
  if (dtype == BRAID_F16 && to_double) CONVERT(uint16_t, double, braid_f16_to_f32, SAME);
  if (dtype == BRAID_F16 && !to_double) CONVERT(uint16_t, float, braid_f16_to_f32, SAME);
  if (dtype == BRAID_BF16 && to_double) CONVERT(uint16_t, double, braid_bf16_to_f32, SAME);
  if (dtype == BRAID_BF16 && !to_double) CONVERT(uint16_t, float, braid_bf16_to_f32, SAME);
  if (dtype == BRAID_F32) CONVERT(float, double, SAME, SAME);
  if (dtype == BRAID_F64) CONVERT(double, float, SAME, SAME);
}

static void narrow(braid_dtype dtype, bool from_double, const void *from, void *to, int64_t count) {
  if (dtype == BRAID_F16 && from_double) CONVERT(double, uint16_t, (float), braid_f32_to_f16);
  if (dtype == BRAID_F16 && !from_double) CONVERT(float, uint16_t, SAME, braid_f32_to_f16);
  if (dtype == BRAID_BF16 && from_double) CONVERT(double, uint16_t, (float), braid_f32_to_bf16);
  if (dtype == BRAID_BF16 && !from_double) CONVERT(float, uint16_t, SAME, braid_f32_to_bf16);
  if (dtype == BRAID_F32) CONVERT(double, float, SAME, SAME);
  if (dtype == BRAID_F64) CONVERT(float, double, SAME, SAME);
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
static bool in_double(const braid_node_desc *node) {
  return node->inputs[0].desc.dtype == BRAID_F64;
}

/* Room for the operands that must be converted, each on a cache line, behind the scratch memory. */
static bool reserve(const braid_node_desc *node, const braid_operand *operands, size_t count, size_t *at,
                    size_t *total) {
  braid_dtype own = in_double(node) ? BRAID_F64 : BRAID_F32;
  for (size_t i = 0; i < count; i++) {
    const braid_desc *desc = &operands[i].desc;
    if (!operands[i].present || !braid_dtype_is_float(desc->dtype) || desc->dtype == own) continue;
    size_t bytes;
    at[i] = *total;
    if (!braid_mul_size((size_t)braid_desc_count(desc), braid_dtype_size(own), &bytes) ||
        !braid_add_size(bytes, 127, &bytes) || !braid_add_size(*total, bytes & ~(size_t)63, total))
      return false;
  }
  return true;
}

braid_status braid_ref_create(const braid_allocator *allocator, const braid_node_desc *node, const braid_ref_op *op,
                              void **state, braid_prepared_info *info) {
  *state = NULL;
  if (node->input_count > BRAID_REF_OPERANDS || node->output_count > BRAID_REF_OPERANDS)
    return braid_fail(BRAID_INTERNAL, "too many operands for its kernel");
  braid_ref_float *base = braid_zalloc(allocator, op->state_bytes);
  if (!base) return BRAID_NO_MEMORY;
  base->compute = in_double(node) ? op->f64 : op->f32;
  braid_status status = op->init(node, base);
  size_t total;
  bool fits = braid_add_size(base->scratch_bytes, 127, &total); /* at least 64, so that no offset is 0 */
  total &= ~(size_t)63;
  fits = fits && reserve(node, node->inputs, node->input_count, base->inputs_at, &total) &&
         reserve(node, node->outputs, node->output_count, base->outputs_at, &total);
  if (status == BRAID_OK && !fits) status = braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  if (status != BRAID_OK) {
    braid_free(allocator, base);
    return status;
  }
  bool converts = base->scratch_bytes > 0;
  for (size_t i = 0; i < BRAID_REF_OPERANDS; i++) converts |= base->inputs_at[i] || base->outputs_at[i];
  info->workspace_bytes = converts ? total : 0;
  *state = base;
  return BRAID_OK;
}

braid_status braid_ref_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_ref_float *base = state;
  const void *inputs[BRAID_REF_OPERANDS] = {NULL};
  void *outputs[BRAID_REF_OPERANDS] = {NULL};
  bool wide = in_double(node);
  char *workspace = args->workspace;
  for (size_t i = 0; i < node->input_count; i++) {
    inputs[i] = node->inputs[i].present ? args->inputs[i] : NULL;
    if (!base->inputs_at[i]) continue;
    const braid_desc *desc = &node->inputs[i].desc;
    widen(desc->dtype, wide, inputs[i], workspace + base->inputs_at[i], braid_desc_count(desc));
    inputs[i] = workspace + base->inputs_at[i];
  }
  for (size_t i = 0; i < node->output_count; i++) {
    outputs[i] = node->outputs[i].present ? args->outputs[i] : NULL;
    if (base->outputs_at[i]) outputs[i] = workspace + base->outputs_at[i];
  }
  base->compute(state, inputs, outputs, workspace);
  for (size_t i = 0; i < node->output_count; i++) {
    const braid_desc *desc = &node->outputs[i].desc;
    if (base->outputs_at[i]) narrow(desc->dtype, wide, outputs[i], args->outputs[i], braid_desc_count(desc));
  }
  return BRAID_OK;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
bool braid_ref_match_float(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (braid_dtype_is_float(node->inputs[0].desc.dtype)) return true;
  snprintf(why, why_bytes, "%s is not floating-point", braid_dtype_name(node->inputs[0].desc.dtype));
  return false;
}

void braid_ref_follow_layout(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  int rank = node->inputs[0].desc.rank;
  bool follow = inputs[0] == BRAID_LAYOUT_BHWC && rank >= 3;
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = follow && node->inputs[i].desc.rank == rank ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++)
    outputs[i] = follow && node->outputs[i].desc.rank == rank ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
}

braid_ref_view braid_ref_view_of(const braid_desc *desc) {
  bool last = desc->layout == BRAID_LAYOUT_BHWC;
  return (braid_ref_view){last ? desc->dims[0] : desc->dims[0] * desc->dims[1], last ? desc->dims[1] : 1};
}
