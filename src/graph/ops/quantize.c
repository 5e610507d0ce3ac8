/* Quantized arithmetic: numbers q that stand for (q - zero_point) * scale. A scale may be one number, a list along an
 * axis, or (with block_size) one per block of an axis. */
#include <string.h>

#include "base/try.h"
#include "graph/geometry.h"
#include "graph/onnx_dtype.h"
#include "graph/ops/movement.h"
#include "graph/ops/qlinear.h"
#include "tensor/dtype.h"

static bool is_quantized(braid_dtype dtype) {
  return dtype == BRAID_I8 || dtype == BRAID_U8 || dtype == BRAID_I16 || dtype == BRAID_U16 ||
         (braid_dtype_is_narrow(dtype) && dtype != BRAID_F8E8M0);
}

/* The scale's shape against x, and the zero point's against the scale's. */
static braid_status check_scale(const braid_infer *infer, const braid_desc *x) {
  const braid_desc *scale = braid_infer_input(infer, 1), *zero = braid_infer_input(infer, 2);
  int64_t block = braid_attr_int(&infer->node->attrs, "block_size", 0);
  int axis;
  bool integer = scale && scale->dtype == BRAID_I32 && strcmp(infer->node->op->name, "QuantizeLinear") == 0;
  if (!scale || !(braid_dtype_is_float(scale->dtype) || scale->dtype == BRAID_F8E8M0 || integer))
    return braid_infer_fail(infer, "the scale is not a number of a type that the op takes");
  if (zero && !braid_desc_same_shape(zero, scale) && (braid_desc_count(zero) != 1 || braid_desc_count(scale) != 1))
    return braid_infer_fail(infer, "scale and zero point differ in shape");
  if (!block && braid_desc_count(scale) == 1) return BRAID_OK;
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", 1), x->rank, &axis));
  if (!block && scale->rank == 1 && scale->dims[0] == x->dims[axis]) return BRAID_OK;
  bool fits = block > 0 && scale->rank == x->rank;
  for (int i = 0; fits && i < x->rank; i++)
    fits = scale->dims[i] == (i == axis ? (x->dims[i] + block - 1) / block : x->dims[i]);
  return fits ? BRAID_OK : braid_infer_fail(infer, "the scale's shape fits neither axis %d nor its blocks", axis);
}

/* What an attribute says, by ONNX's number. */
static braid_status said_dtype(const braid_infer *infer, const char *attr, braid_dtype otherwise, braid_dtype *out) {
  int64_t number = braid_attr_int(&infer->node->attrs, attr, 0);
  *out = number ? braid_dtype_from_onnx(number) : otherwise;
  if (*out != BRAID_NONE) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): element type %s", infer->node->name, infer->node->op->name,
                    braid_onnx_dtype_name(number));
}

static braid_status infer_quantize(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *zero = braid_infer_input(infer, 2);
  braid_dtype dtype, precision;
  if (!braid_dtype_is_float(x->dtype) && x->dtype != BRAID_I32)
    return braid_infer_fail(infer, "quantizes %s", braid_dtype_name(x->dtype));
  BRAID_TRY(check_scale(infer, x));
  BRAID_TRY(said_dtype(infer, "precision", BRAID_F32, &precision));
  if (!braid_dtype_is_float(precision))
    return braid_infer_fail(infer, "divides in %s, which is not floating-point", braid_dtype_name(precision));
  BRAID_TRY(said_dtype(infer, "output_dtype", zero ? zero->dtype : BRAID_U8, &dtype));
  if (!is_quantized(dtype) || (zero && zero->dtype != dtype))
    return braid_infer_fail(infer, "quantizes to %s", braid_dtype_name(dtype));
  return braid_infer_output(infer, 0, dtype, x->rank, x->dims);
}

static braid_status infer_dequantize(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *zero = braid_infer_input(infer, 2);
  braid_dtype dtype;
  if (!is_quantized(x->dtype) && x->dtype != BRAID_I32)
    return braid_infer_fail(infer, "its input is %s", braid_dtype_name(x->dtype));
  if (zero && zero->dtype != x->dtype) return braid_infer_fail(infer, "the zero point is not of the input's type");
  BRAID_TRY(check_scale(infer, x));
  BRAID_TRY(said_dtype(infer, "output_dtype", braid_infer_input(infer, 1)->dtype, &dtype));
  if (!braid_dtype_is_float(dtype)) return braid_infer_fail(infer, "dequantizes to %s", braid_dtype_name(dtype));
  return braid_infer_output(infer, 0, dtype, x->rank, x->dims);
}

static braid_status infer_dynamic_quantize(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  if (x->dtype != BRAID_F32) return braid_infer_fail(infer, "its input is %s", braid_dtype_name(x->dtype));
  BRAID_TRY(braid_infer_output(infer, 0, BRAID_U8, x->rank, x->dims));
  BRAID_TRY(braid_infer_output(infer, 1, BRAID_F32, 0, NULL));
  return braid_infer_output(infer, 2, BRAID_U8, 0, NULL);
}

/* One number, or one per row (of a) or column (of b). */
static braid_status check_list(const braid_infer *infer, size_t index, const char *name, int64_t size,
                               braid_dtype dtype) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc) return BRAID_OK;
  bool type = dtype == BRAID_NONE ? braid_dtype_is_float(desc->dtype) : desc->dtype == dtype;
  int64_t count = braid_desc_count(desc);
  if (type && (count == 1 || (desc->rank <= 2 && count == size))) return BRAID_OK;
  return braid_infer_fail(infer, "%s must be one number, or %lld", name, (long long)size);
}

/* --- matrix products ---------------------------------------------------------------------------------------------- */
static braid_status product(const braid_infer *infer, size_t a_at, size_t b_at, braid_desc *y, int64_t *rows,
                            int64_t *columns) {
  braid_desc a = *braid_infer_input(infer, a_at), b = *braid_infer_input(infer, b_at);
  if (!braid_dtype_is_byte(a.dtype) || !braid_dtype_is_byte(b.dtype))
    return braid_infer_fail(infer, "operands must be int8 or uint8");
  if (a.rank < 1 || b.rank < 1) return braid_infer_fail(infer, "a scalar operand");
  bool vector_a = a.rank == 1, vector_b = b.rank == 1;
  int64_t inner_b = b.dims[vector_b ? 0 : b.rank - 2];
  if (a.dims[a.rank - 1] != inner_b)
    return braid_infer_fail(infer, "inner dimensions %lld and %lld differ", (long long)a.dims[a.rank - 1],
                            (long long)inner_b);
  *rows = vector_a ? 1 : a.dims[a.rank - 2];
  *columns = vector_b ? 1 : b.dims[b.rank - 1];
  a.rank = vector_a ? 0 : a.rank - 2;
  b.rank = vector_b ? 0 : b.rank - 2;
  if (!braid_broadcast(&a, &b, y) || y->rank + 2 > BRAID_MAX_RANK)
    return braid_infer_fail(infer, "leading dimensions do not broadcast");
  if (!vector_a) y->dims[y->rank++] = *rows;
  if (!vector_b) y->dims[y->rank++] = *columns;
  return BRAID_OK;
}

static braid_status infer_matmul_integer(const braid_infer *infer) {
  braid_desc y;
  int64_t rows, columns;
  BRAID_TRY(product(infer, 0, 1, &y, &rows, &columns));
  BRAID_TRY(check_list(infer, 2, "a_zero_point", rows, braid_infer_input(infer, 0)->dtype));
  BRAID_TRY(check_list(infer, 3, "b_zero_point", columns, braid_infer_input(infer, 1)->dtype));
  return braid_infer_output(infer, 0, BRAID_I32, y.rank, y.dims);
}

static braid_status infer_qlinear_matmul(const braid_infer *infer) {
  braid_desc y;
  int64_t rows, columns;
  BRAID_TRY(product(infer, 0, 3, &y, &rows, &columns));
  const braid_desc *zero = braid_infer_input(infer, 7);
  BRAID_TRY(check_list(infer, 1, "a_scale", rows, BRAID_NONE));
  BRAID_TRY(check_list(infer, 2, "a_zero_point", rows, braid_infer_input(infer, 0)->dtype));
  BRAID_TRY(check_list(infer, 4, "b_scale", columns, BRAID_NONE));
  BRAID_TRY(check_list(infer, 5, "b_zero_point", columns, braid_infer_input(infer, 3)->dtype));
  BRAID_TRY(check_list(infer, 6, "y_scale", 1, BRAID_NONE));
  if (!zero || !braid_dtype_is_byte(zero->dtype) || braid_desc_count(zero) != 1)
    return braid_infer_fail(infer, "y_zero_point must be one int8 or uint8");
  return braid_infer_output(infer, 0, zero->dtype, y.rank, y.dims);
}

/* --- convolutions ------------------------------------------------------------------------------------------------- */
static braid_status convolved(const braid_infer *infer, size_t x_at, size_t w_at, int *rank, int64_t *dims) {
  const braid_desc *x = braid_infer_input(infer, x_at), *w = braid_infer_input(infer, w_at);
  braid_convolution conv;
  if (!w || !braid_dtype_is_byte(x->dtype) || !braid_dtype_is_byte(w->dtype) || x->rank < 3 || x->rank > 5)
    return braid_infer_fail(infer, "expected int8 or uint8 pictures and filters");
  braid_status status = braid_geometry_conv(&infer->node->attrs, x, w, &conv);
  if (status != BRAID_OK)
    return braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, infer->node->op->name);
  *rank = x->rank;
  dims[0] = conv.batch;
  dims[1] = conv.outputs;
  for (int i = 0; i < conv.window.rank; i++) dims[2 + i] = conv.window.output[BRAID_WINDOW_RANK - conv.window.rank + i];
  return BRAID_OK;
}

static braid_status infer_conv_integer(const braid_infer *infer) {
  int64_t dims[BRAID_MAX_RANK];
  int rank;
  BRAID_TRY(convolved(infer, 0, 1, &rank, dims));
  BRAID_TRY(check_list(infer, 2, "x_zero_point", 1, braid_infer_input(infer, 0)->dtype));
  BRAID_TRY(check_list(infer, 3, "w_zero_point", dims[1], braid_infer_input(infer, 1)->dtype));
  return braid_infer_output(infer, 0, BRAID_I32, rank, dims);
}

braid_status braid_infer_qlinear_conv(const braid_infer *infer) {
  int64_t dims[BRAID_MAX_RANK];
  int rank;
  BRAID_TRY(convolved(infer, 0, 3, &rank, dims));
  const braid_desc *zero = braid_infer_input(infer, 7);
  BRAID_TRY(check_list(infer, 1, "x_scale", 1, BRAID_NONE));
  BRAID_TRY(check_list(infer, 2, "x_zero_point", 1, braid_infer_input(infer, 0)->dtype));
  BRAID_TRY(check_list(infer, 4, "w_scale", dims[1], BRAID_NONE));
  BRAID_TRY(check_list(infer, 5, "w_zero_point", dims[1], braid_infer_input(infer, 3)->dtype));
  BRAID_TRY(check_list(infer, 6, "y_scale", 1, BRAID_NONE));
  if (!zero || !braid_dtype_is_byte(zero->dtype) || braid_desc_count(zero) != 1)
    return braid_infer_fail(infer, "y_zero_point must be one int8 or uint8");
  const braid_desc *bias = braid_infer_input(infer, 8);
  if (bias && (bias->dtype != BRAID_I32 || bias->rank != 1 || bias->dims[0] != dims[1]))
    return braid_infer_fail(infer, "the bias must be one int32 per filter");
  return braid_infer_output(infer, 0, zero->dtype, rank, dims);
}

/* Multiplications: of each output element, the inner dimension or the filter. */
static int64_t matmul_macs(const braid_graph *graph, const braid_node *node) {
  const braid_desc *a = &graph->values[node->inputs[0]].desc;
  return braid_desc_count(&graph->values[node->outputs[0]].desc) * (a->rank ? a->dims[a->rank - 1] : 1);
}

int64_t braid_quantized_conv_macs(const braid_graph *graph, const braid_node *node) {
  size_t at = strcmp(node->op->name, "ConvInteger") == 0 ? 1 : 3;
  const braid_desc *w = &graph->values[node->inputs[at]].desc;
  return braid_desc_count(&graph->values[node->outputs[0]].desc) * (w->dims[0] ? braid_desc_count(w) / w->dims[0] : 0);
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */
/* A sum over what shares a scale: `value`, of x's shape, becomes one number, one per step of the axis, or one per
 * block.
 */
static braid_status sum_to_scale(braid_gradient_context *context, braid_value_id value, braid_value_id *out) {
  braid_graph *graph = context->graph;
  const braid_attrs *attrs = &graph->nodes[context->node].attrs;
  const braid_desc x = graph->values[value].desc, scale = graph->values[braid_gradient_input(context, 1)].desc;
  int64_t block = braid_attr_int(attrs, "block_size", 0), axis = braid_attr_int(attrs, "axis", 1);
  int64_t dims[4] = {1, 1, 1, 1}, pads[2 * BRAID_MAX_RANK] = {0}; /* outer, blocks, in a block, inner */
  braid_value_id list;
  *out = value;
  bool single = !block && braid_desc_count(&scale) == 1;
  if (axis < 0) axis += x.rank;
  for (int i = 0; !single && i < x.rank; i++) dims[i < axis ? 0 : i == axis ? 1 : 3] *= x.dims[i];
  if (single) dims[0] = braid_desc_count(&x);
  if (block) {
    int64_t blocks = scale.dims[axis];
    pads[x.rank + axis] = blocks * block - x.dims[axis];
    dims[1] = blocks, dims[2] = block;
    BRAID_TRY(braid_gradient_ints(context, pads, 2 * (size_t)x.rank, &list));
    if (pads[x.rank + axis])
      BRAID_TRY(braid_gradient_node(context, "Pad", (braid_value_id[]){*out, list}, 2, out, NULL));
  }
  BRAID_TRY(braid_gradient_reshape(context, *out, 4, dims, out));
  BRAID_TRY(block ? braid_gradient_ints(context, (int64_t[]){2}, 1, &list)
                  : braid_gradient_ints(context, (int64_t[]){0, 2, 3}, 3, &list));
  BRAID_TRY(braid_gradient_node(context, "ReduceSum", (braid_value_id[]){*out, list}, 2, out, NULL));
  return braid_gradient_reshape(context, *out, scale.rank, scale.dims, out);
}

/* By the scale: dy (x - zero_point), and what is in parentheses is x with ones for scales. */
static braid_status dequantize_gradient(braid_gradient_context *context) {
  const braid_desc scale = context->graph->values[braid_gradient_input(context, 1)].desc;
  braid_value_id inputs[3] = {braid_gradient_input(context, 0), -1, braid_gradient_input(context, 2)}, shape, part;
  braid_node_id node;
  if (!braid_gradient_wanted(context, 1)) return BRAID_OK;
  BRAID_TRY(braid_gradient_scalar(context, scale.dtype, 1, &inputs[1]));
  BRAID_TRY(braid_gradient_ints(context, scale.dims, (size_t)scale.rank, &shape));
  BRAID_TRY(braid_gradient_node(context, "Expand", (braid_value_id[]){inputs[1], shape}, 2, &inputs[1], NULL));
  BRAID_TRY(braid_gradient_node(context, "DequantizeLinear", inputs, 3, &part, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  braid_value_id factors[2] = {braid_gradient_of_output(context, 0), part};
  BRAID_TRY(braid_gradient_node(context, "Mul", factors, 2, &part, NULL));
  BRAID_TRY(sum_to_scale(context, part, &part));
  if (context->graph->values[part].desc.dtype != scale.dtype) {
    braid_value_id like[2] = {part, braid_gradient_input(context, 1)};
    BRAID_TRY(braid_gradient_node(context, "CastLike", like, 2, &part, NULL));
  }
  return braid_gradient_give(context, 1, part);
}

static const braid_op kOps[] = {
    {"ConvInteger", 2, 4, 1, 1, 0, infer_conv_integer, braid_quantized_conv_macs, NULL},
    {"DequantizeLinear", 2, 3, 1, 1, BRAID_OP_NARROW, infer_dequantize, NULL, dequantize_gradient},
    {"DynamicQuantizeLinear", 1, 1, 3, 3, 0, infer_dynamic_quantize, NULL, NULL},
    {"MatMulInteger", 2, 4, 1, 1, 0, infer_matmul_integer, matmul_macs, NULL},
    {"QLinearConv", 8, 9, 1, 1, 0, braid_infer_qlinear_conv, braid_quantized_conv_macs, NULL},
    {"QLinearMatMul", 8, 8, 1, 1, 0, infer_qlinear_matmul, matmul_macs, NULL},
    {"QuantizeLinear", 2, 3, 1, 1, BRAID_OP_NARROW, infer_quantize, NULL, NULL},
};

extern const braid_op_family braid_ops_quantize;
const braid_op_family braid_ops_quantize = {kOps, sizeof kOps / sizeof *kOps};
