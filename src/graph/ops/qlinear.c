/* Quantized operands and results in one op, which fusion makes of nodes between DequantizeLinear and QuantizeLinear
 * (fusion_quantized.c). Each operand is followed by its scale and zero point; the last two inputs, or for QLinearConcat
 * the first two, are those of the result. What they compute: docs/quantization.md. */
#include <string.h>

#include "base/try.h"
#include "graph/geometry.h"
#include "graph/graph.h"
#include "graph/ops/qlinear.h"
#include "tensor/dtype.h"

/* Bytes, a scale, and a zero point of their type that may be left out. */
static braid_status check_operand(const braid_infer *infer, size_t at) {
  const braid_desc *x = braid_infer_input(infer, at), *scale = braid_infer_input(infer, at + 1),
                   *zero = braid_infer_input(infer, at + 2);
  if (!x || !braid_dtype_is_byte(x->dtype)) return braid_infer_fail(infer, "input %zu must be int8 or uint8", at);
  if (!scale || !braid_dtype_is_float(scale->dtype) || braid_desc_count(scale) != 1)
    return braid_infer_fail(infer, "input %zu must be one scale", at + 1);
  if (zero && (zero->dtype != x->dtype || braid_desc_count(zero) != 1))
    return braid_infer_fail(infer, "input %zu must be one zero point of the type of input %zu", at + 2, at);
  return BRAID_OK;
}

/* A scale and a zero point behind it, whose type is that of what they quantize. */
static braid_status read_result(const braid_infer *infer, size_t at, braid_dtype *dtype) {
  const braid_desc *scale = braid_infer_input(infer, at), *zero = braid_infer_input(infer, at + 1);
  if (!scale || !braid_dtype_is_float(scale->dtype) || braid_desc_count(scale) != 1)
    return braid_infer_fail(infer, "input %zu must be one scale", at);
  if (zero && (!braid_dtype_is_byte(zero->dtype) || braid_desc_count(zero) != 1))
    return braid_infer_fail(infer, "input %zu must be one zero point, int8 or uint8", at + 1);
  *dtype = zero ? zero->dtype : BRAID_U8;
  return BRAID_OK;
}

/* What stands behind these ops bounds their results, and nothing else does. */
static braid_status check_clamp(const braid_infer *infer) {
  const char *name = braid_attr_string(&infer->node->attrs, "activation", "");
  if (!*name || strcmp(name, "Relu") == 0 || strcmp(name, "Clip") == 0) return BRAID_OK;
  return braid_infer_fail(infer, "activation %.40s: only Relu and Clip bound a result", name);
}

static braid_status infer_pair(const braid_infer *infer) {
  braid_dtype dtype;
  BRAID_TRY(check_operand(infer, 0));
  BRAID_TRY(check_operand(infer, 3));
  BRAID_TRY(read_result(infer, 6, &dtype));
  BRAID_TRY(check_clamp(infer));
  const braid_desc *a = braid_infer_input(infer, 0), *b = braid_infer_input(infer, 3);
  if (!braid_desc_same_shape(a, b) && braid_desc_count(b) != 1)
    return braid_infer_fail(infer, "the operands must have one shape, or the second one element");
  return braid_infer_output(infer, 0, dtype, a->rank, a->dims);
}

static braid_status infer_one(const braid_infer *infer) {
  braid_dtype dtype;
  BRAID_TRY(check_operand(infer, 0));
  BRAID_TRY(read_result(infer, 3, &dtype));
  const braid_desc *x = braid_infer_input(infer, 0);
  return braid_infer_output(infer, 0, dtype, x->rank, x->dims);
}

static braid_status infer_concat(const braid_infer *infer) {
  size_t count = braid_infer_inputs(infer);
  braid_dtype dtype;
  int axis;
  BRAID_TRY(read_result(infer, 0, &dtype));
  if (count < 5 || count % 3 != 2) return braid_infer_fail(infer, "%zu inputs: two, and three of each part", count);
  BRAID_TRY(check_operand(infer, 2));
  braid_desc y = *braid_infer_input(infer, 2);
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", 0), y.rank, &axis));
  for (size_t at = 5; at < count; at += 3) {
    BRAID_TRY(check_operand(infer, at));
    const braid_desc *x = braid_infer_input(infer, at);
    bool fits = x->rank == y.rank;
    for (int i = 0; fits && i < x->rank; i++) fits = i == axis || x->dims[i] == y.dims[i];
    if (!fits) return braid_infer_fail(infer, "input %zu differs from the first part in more than axis %d", at, axis);
    y.dims[axis] += x->dims[axis];
  }
  return braid_infer_output(infer, 0, dtype, y.rank, y.dims);
}

static braid_status infer_pool(const braid_infer *infer) {
  bool global = strcmp(infer->node->op->name, "QLinearGlobalAveragePool") == 0;
  braid_dtype dtype;
  braid_window window;
  BRAID_TRY(check_operand(infer, 0));
  BRAID_TRY(read_result(infer, 3, &dtype));
  const braid_desc *x = braid_infer_input(infer, 0);
  braid_status status =
      global ? braid_geometry_global(x, &window) : braid_geometry_pool(&infer->node->attrs, x, &window);
  if (status != BRAID_OK)
    return braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, infer->node->op->name);
  int64_t dims[BRAID_MAX_RANK] = {x->dims[0], x->dims[1], 1, 1, 1, 1, 1, 1};
  for (int i = 2; !global && i < x->rank; i++) dims[i] = window.output[BRAID_WINDOW_RANK - x->rank + i];
  return braid_infer_output(infer, 0, dtype, x->rank, dims);
}

static braid_status infer_matmul(const braid_infer *infer) {
  braid_dtype dtype;
  BRAID_TRY(check_operand(infer, 0));
  BRAID_TRY(read_result(infer, 6, &dtype));
  BRAID_TRY(check_clamp(infer));
  const braid_desc *a = braid_infer_input(infer, 0), *b = braid_infer_input(infer, 3),
                   *scale = braid_infer_input(infer, 4), *zero = braid_infer_input(infer, 5),
                   *bias = braid_infer_input(infer, 8);
  bool transposed = braid_attr_int(&infer->node->attrs, "transB", 0) != 0;
  if (!b || !braid_dtype_is_byte(b->dtype) || b->rank != 2 || a->rank < 2 ||
      a->dims[a->rank - 1] != b->dims[transposed])
    return braid_infer_fail(infer, "expected matrices of bytes whose inner dimensions agree");
  if (b->dims[transposed] > BRAID_QLINEAR_MOST_PRODUCTS)
    return braid_infer_fail(infer, "sums of more than %d products: int32 could overflow", BRAID_QLINEAR_MOST_PRODUCTS);
  int64_t columns = b->dims[!transposed];
  if (!scale || (braid_desc_count(scale) != 1 && braid_desc_count(scale) != columns))
    return braid_infer_fail(infer, "b_scale must be one number, or %lld", (long long)columns);
  if (zero && (zero->dtype != b->dtype || braid_desc_count(zero) != braid_desc_count(scale)))
    return braid_infer_fail(infer, "b_zero_point must be like b_scale, and of b's type");
  if (bias && (bias->dtype != BRAID_I32 || braid_desc_count(bias) != columns))
    return braid_infer_fail(infer, "the bias must be one int32 per column");
  int64_t dims[BRAID_MAX_RANK];
  memcpy(dims, a->dims, sizeof dims);
  dims[a->rank - 1] = columns;
  return braid_infer_output(infer, 0, dtype, a->rank, dims);
}

static int64_t matmul_macs(const braid_graph *graph, const braid_node *node) {
  const braid_desc *a = &graph->values[node->inputs[0]].desc;
  return braid_desc_count(&graph->values[node->outputs[0]].desc) * a->dims[a->rank - 1];
}

/* Inputs of a residual: bytes like the result, with scale and zero point, and the two of what it is added to. */
enum { kResidual = 9, kBetween = 12, kConvInputs = 14 };

static braid_status infer_conv(const braid_infer *infer) {
  braid_dtype between;
  BRAID_TRY(check_operand(infer, 0));
  if (!braid_infer_input(infer, 4)) return braid_infer_fail(infer, "the scale of the filters is missing");
  BRAID_TRY(read_result(infer, 6, &between));
  BRAID_TRY(braid_infer_qlinear_conv(infer));
  const braid_desc *w = braid_infer_input(infer, 3);
  if (braid_desc_count(w) > w->dims[0] * BRAID_QLINEAR_MOST_PRODUCTS)
    return braid_infer_fail(infer, "sums of more than %d products: int32 could overflow", BRAID_QLINEAR_MOST_PRODUCTS);
  BRAID_TRY(check_clamp(infer));
  bool residual = braid_infer_input(infer, kResidual);
  for (size_t i = kResidual; i < kConvInputs && !residual; i++)
    if (braid_infer_input(infer, i)) return braid_infer_fail(infer, "input %zu, and no residual", i);
  if (!residual) return BRAID_OK;
  BRAID_TRY(check_operand(infer, kResidual));
  BRAID_TRY(read_result(infer, kBetween, &between));
  if (!braid_desc_same_shape(braid_infer_input(infer, kResidual), &infer->graph->values[infer->node->outputs[0]].desc))
    return braid_infer_fail(infer, "the residual must have the result's shape");
  return BRAID_OK;
}

/* Zero points may be left out in the middle of the inputs: what must be there is checked above. */
static const braid_op kOps[] = {
    {"FusedQLinearConv", 2, kConvInputs, 1, 1, 0, infer_conv, braid_quantized_conv_macs, NULL},
    {"FusedQLinearMatMul", 2, 9, 1, 1, 0, infer_matmul, matmul_macs, NULL},
    {"QLinearActivation", 2, 5, 1, 1, BRAID_OP_ELEMENTWISE, infer_one, NULL, NULL},
    {"QLinearAdd", 2, 8, 1, 1, BRAID_OP_ELEMENTWISE, infer_pair, NULL, NULL},
    {"QLinearAveragePool", 2, 5, 1, 1, 0, infer_pool, NULL, NULL},
    {"QLinearConcat", 1, -1, 1, 1, 0, infer_concat, NULL, NULL},
    {"QLinearGlobalAveragePool", 2, 5, 1, 1, 0, infer_pool, NULL, NULL},
    {"QLinearMul", 2, 8, 1, 1, BRAID_OP_ELEMENTWISE, infer_pair, NULL, NULL},
};

extern const braid_op_family braid_ops_qlinear;
const braid_op_family braid_ops_qlinear = {kOps, sizeof kOps / sizeof *kOps};
