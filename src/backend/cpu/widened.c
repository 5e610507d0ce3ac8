/* 16-bit operands for kernels of float32: products, pools and normalizations whose fast kernels know float32 alone.
 * Their operands are converted in the workspace, before and after: correct everywhere, and slower than float32 itself
 * by what the conversions take. A node goes to the kernel that it would have in float32, in the layouts that it wants.
 */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/spans/convert.h"
#include "backend/cpu/tables.h"
#include "base/checked.h"
#include "tensor/half.h"

enum { kMostOperands = 10 };
static const int64_t kPiece = 1 << 15; /* elements that a thread converts at a time */

/* --- the node in float32 -------------------------------------------------------------------------------------------
 */
typedef struct wide_node {
  braid_node_desc desc;
  braid_operand operands[kMostOperands];
} wide_node;

static bool has_half(const braid_node_desc *node) {
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && braid_dtype_is_half(node->inputs[i].desc.dtype)) return true;
  return false;
}

/* False: too many operands. */
static bool widen(const braid_node_desc *node, wide_node *out) {
  if (node->input_count + node->output_count > kMostOperands) return false;
  out->desc = *node;
  out->desc.inputs = out->operands;
  out->desc.outputs = out->operands + node->input_count;
  memcpy(out->operands, node->inputs, node->input_count * sizeof *out->operands);
  memcpy(out->operands + node->input_count, node->outputs, node->output_count * sizeof *out->operands);
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    braid_operand *operand = &out->operands[i];
    operand->constant = NULL; /* it is in another type, or bound: nothing is packed */
    if (operand->present && braid_dtype_is_half(operand->desc.dtype)) operand->desc.dtype = BRAID_F32;
  }
  return true;
}

static bool widened_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  wide_node wide;
  if (!has_half(node)) {
    snprintf(why, why_bytes, "for 16-bit operands");
    return false;
  }
  if (widen(node, &wide) && braid_cpu_find_fast(&wide.desc)) return true;
  snprintf(why, why_bytes, "no fast kernel of float32 would take it");
  return false;
}

static void widened_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  wide_node wide;
  const braid_kernel *kernel = widen(node, &wide) ? braid_cpu_find_fast(&wide.desc) : NULL;
  if (kernel && kernel->layouts) {
    kernel->layouts(&wide.desc, inputs, outputs);
    return;
  }
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_PLAIN;
}

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
typedef struct widened_state {
  wide_node node;
  const braid_allocator *allocator;
  const braid_cpu_kernel *kernel;
  void *inner;
  size_t at[kMostOperands]; /* of the operand as float32 in the workspace; 0: it is used where it lies */
} widened_state;

static int64_t elements_of(const braid_desc *desc) { /* padding too */
  return (int64_t)(braid_desc_bytes(desc) / braid_dtype_size(desc->dtype));
}

static void widened_destroy(const braid_allocator *allocator, void *which) {
  widened_state *state = which;
  if (state->inner && state->kernel->destroy) state->kernel->destroy(allocator, state->inner);
  if (state->inner && !state->kernel->destroy) braid_free(allocator, state->inner);
  braid_free(allocator, state);
}

static bool reserve(widened_state *state, const braid_node_desc *node, size_t *total) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *given = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    size_t bytes;
    if (!given->present || !braid_dtype_is_half(given->desc.dtype)) continue;
    if (!braid_add_size(braid_desc_bytes(&state->node.operands[i].desc), 63, &bytes)) return false;
    state->at[i] = *total;
    if (!braid_add_size(*total, bytes & ~(size_t)63, total)) return false;
  }
  return true;
}

static braid_status widened_create(const braid_allocator *allocator, const braid_node_desc *node, void **out,
                                   braid_prepared_info *info) {
  *out = NULL;
  widened_state *state = braid_zalloc(allocator, sizeof *state);
  if (!state) return BRAID_NO_MEMORY;
  const braid_kernel *kernel = widen(node, &state->node) ? braid_cpu_find_fast(&state->node.desc) : NULL;
  braid_prepared_info inner = {0};
  braid_status status = kernel ? BRAID_OK : braid_fail(BRAID_INTERNAL, "a node that was matched has no kernel");
  if (kernel) state->kernel = kernel->implementation;
  if (kernel && state->kernel->create)
    status = state->kernel->create(allocator, &state->node.desc, &state->inner, &inner);
  size_t total; /* at least 64, so that no place is 0 */
  if (status == BRAID_OK &&
      (!braid_add_size(inner.workspace_bytes, 127, &total) || !reserve(state, node, (total &= ~(size_t)63, &total))))
    status = braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  if (status != BRAID_OK) {
    widened_destroy(allocator, state);
    return status;
  }
  info->workspace_bytes = total;
  *out = state;
  return BRAID_OK;
}

static braid_status widened_finish(void *which) {
  const widened_state *state = which;
  return state->kernel->finish ? state->kernel->finish(state->inner) : BRAID_OK;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static void convert_all(braid_dtype from, braid_dtype to, const void *source, void *target, int64_t count) {
  braid_convert *convert = braid_convert_find(from, to);
  size_t from_bytes = braid_dtype_size(from), to_bytes = braid_dtype_size(to);
  int64_t pieces = (count + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++) {
    int64_t at = i * kPiece, here = count - at < kPiece ? count - at : kPiece;
    convert((const char *)source + (size_t)at * from_bytes, (char *)target + (size_t)at * to_bytes, here);
  }
}

static braid_status widened_run(const braid_node_desc *node, void *which, const braid_cpu_args *args) {
  widened_state *state = which;
  const void *inputs[kMostOperands] = {NULL};
  void *outputs[kMostOperands] = {NULL};
  char *workspace = args->workspace;
  size_t first = node->input_count;
  for (size_t i = 0; i < node->input_count; i++) {
    const braid_desc *desc = &node->inputs[i].desc;
    inputs[i] = args->inputs[i];
    if (!state->at[i]) continue;
    convert_all(desc->dtype, BRAID_F32, inputs[i], workspace + state->at[i], elements_of(desc));
    inputs[i] = workspace + state->at[i];
  }
  for (size_t i = 0; i < node->output_count; i++)
    outputs[i] = state->at[first + i] ? workspace + state->at[first + i] : args->outputs[i];
  braid_status status =
      state->kernel->run(&state->node.desc, state->inner, &(braid_cpu_args){inputs, outputs, workspace, args->group});
  for (size_t i = 0; status == BRAID_OK && i < node->output_count; i++) {
    const braid_desc *desc = &node->outputs[i].desc;
    if (state->at[first + i]) convert_all(BRAID_F32, desc->dtype, outputs[i], args->outputs[i], elements_of(desc));
  }
  return status;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kWidened = {
    .create = widened_create, .run = widened_run, .destroy = widened_destroy, .finish = widened_finish};

#define WIDENED(op_name, kernel_name)                                                                                  \
  {                                                                                                                    \
    .op = op_name, .name = kernel_name, .match = widened_match, .layouts = widened_layouts,                            \
    .implementation = &kWidened                                                                                        \
  }

static const braid_kernel kKernels[] = {
    WIDENED("Conv", "wide_conv"),
    WIDENED("FusedConv", "wide_conv"),
    WIDENED("ConvTranspose", "wide_conv_transpose"),
    WIDENED("ConvGradInput", "wide_conv_grad_input"),
    WIDENED("ConvGradFilter", "wide_conv_grad_filter"),
    WIDENED("BiasGrad", "wide_bias_grad"),
    WIDENED("Gemm", "wide_gemm"),
    WIDENED("FusedGemm", "wide_gemm"),
    WIDENED("MatMul", "wide_matmul"),
    WIDENED("FusedMatMul", "wide_matmul"),
    WIDENED("MaxPool", "wide_max_pool"),
    WIDENED("MaxPoolGrad", "wide_max_pool_grad"),
    WIDENED("AveragePool", "wide_average_pool"),
    WIDENED("AveragePoolGrad", "wide_average_pool_grad"),
    WIDENED("GlobalAveragePool", "wide_average_pool"),
    WIDENED("GlobalAveragePoolGrad", "wide_average_pool_grad"),
    WIDENED("BatchNormalization", "wide_batch_norm"),
    WIDENED("BatchNormalizationRelu", "wide_batch_norm_relu"),
    WIDENED("BatchNormalizationGrad", "wide_batch_norm_grad"),
    WIDENED("BatchNormalizationReluGrad", "wide_batch_norm_relu_grad"),
};

extern const braid_cpu_table braid_cpu_widened;
const braid_cpu_table braid_cpu_widened = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
