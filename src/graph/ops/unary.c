/* Functions of each element: shapes, types and gradients. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"
#include "graph/onnx_dtype.h"
#include "graph/ops/types.h"
#include "tensor/narrow.h"

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static braid_status like_input(const braid_infer *infer, uint32_t types, braid_dtype dtype) {
  BRAID_TRY(braid_infer_type(infer, 0, types));
  const braid_desc *x = braid_infer_input(infer, 0);
  return braid_infer_output(infer, 0, dtype == BRAID_NONE ? x->dtype : dtype, x->rank, x->dims);
}

static braid_status infer_float(const braid_infer *infer) {
  return like_input(infer, kFloat, BRAID_NONE);
}

static braid_status infer_signed(const braid_infer *infer) {
  return like_input(infer, kFloat | kSigned, BRAID_NONE);
}

static braid_status infer_number(const braid_infer *infer) {
  return like_input(infer, kNumber, BRAID_NONE);
}

static braid_status infer_integer(const braid_infer *infer) {
  return like_input(infer, kInteger, BRAID_NONE);
}

static braid_status infer_bool(const braid_infer *infer) {
  return like_input(infer, kBool, BRAID_NONE);
}

static braid_status infer_predicate(const braid_infer *infer) {
  return like_input(infer, kFloat, BRAID_BOOL);
}

static braid_status check_bound(const braid_infer *infer, size_t index) {
  const braid_desc *bound = braid_infer_input(infer, index);
  if (!bound) return BRAID_OK;
  if (braid_desc_count(bound) != 1)
    return braid_infer_fail(infer, "bound %zu has %lld elements, not one", index, (long long)braid_desc_count(bound));
  return braid_infer_same_type(infer, index, 0);
}

static braid_status infer_clip(const braid_infer *infer) {
  BRAID_TRY(check_bound(infer, 1));
  BRAID_TRY(check_bound(infer, 2));
  return like_input(infer, kNumber, BRAID_NONE);
}

/* Gradients: what flows in and the forward op's input or output are alike. */
static braid_status infer_gradient(const braid_infer *infer) {
  BRAID_TRY(like_input(infer, kFloat, BRAID_NONE));
  BRAID_TRY(braid_infer_same_type(infer, 1, 0));
  if (braid_desc_same_shape(braid_infer_input(infer, 0), braid_infer_input(infer, 1))) return BRAID_OK;
  return braid_infer_fail(infer, "the output's gradient has not the forward value's shape");
}

static braid_status infer_clip_gradient(const braid_infer *infer) {
  BRAID_TRY(infer_gradient(infer));
  BRAID_TRY(check_bound(infer, 2));
  return check_bound(infer, 3);
}

static braid_status read_target(const braid_infer *infer, braid_dtype *dtype) {
  int64_t to = braid_attr_int(&infer->node->attrs, "to", 0);
  *dtype = braid_dtype_from_onnx(to);
  if (*dtype != BRAID_NONE) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): to %s (%lld)", infer->node->name, infer->node->op->name,
                    braid_onnx_dtype_name(to), (long long)to);
}

static braid_status check_round_mode(const braid_infer *infer) {
  const char *mode = braid_attr_string(&infer->node->attrs, "round_mode", "up");
  if (strcmp(mode, "up") == 0 || strcmp(mode, "down") == 0 || strcmp(mode, "nearest") == 0) return BRAID_OK;
  return braid_infer_fail(infer, "round_mode is \"%.40s\", expected up, down or nearest", mode);
}

static braid_status infer_cast(const braid_infer *infer) {
  braid_dtype dtype;
  BRAID_TRY(read_target(infer, &dtype));
  BRAID_TRY(check_round_mode(infer));
  return like_input(infer, kAnyType | kNarrow, dtype);
}

static braid_status infer_bit_cast(const braid_infer *infer) {
  braid_dtype dtype;
  BRAID_TRY(read_target(infer, &dtype));
  BRAID_TRY(like_input(infer, kAnyType | kNarrow, dtype));
  braid_dtype from = braid_infer_input(infer, 0)->dtype;
  if (braid_dtype_bits(from) == braid_dtype_bits(dtype)) return BRAID_OK;
  return braid_infer_fail(infer, "%s and %s differ in size", braid_dtype_name(from), braid_dtype_name(dtype));
}

static braid_status infer_cast_like(const braid_infer *infer) {
  BRAID_TRY(braid_infer_type(infer, 1, kAnyType | kNarrow));
  BRAID_TRY(check_round_mode(infer));
  return like_input(infer, kAnyType | kNarrow, braid_infer_input(infer, 1)->dtype);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
/* <Op>Grad(dy, x or y), with the forward op's attributes. */
static braid_status give_grad_op(braid_gradient_context *context, braid_value_id value) {
  char op[64];
  snprintf(op, sizeof op, "%sGrad", context->graph->nodes[context->node].op->name);
  braid_value_id inputs[] = {braid_gradient_of_output(context, 0), value}, dx;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, inputs, 2, &dx, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, dx);
}

static braid_status gradient_of_X(braid_gradient_context *context) {
  return give_grad_op(context, braid_gradient_input(context, 0));
}

static braid_status gradient_of_Y(braid_gradient_context *context) {
  return give_grad_op(context, braid_gradient_output(context, 0));
}

static braid_status neg_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0), dx;
  BRAID_TRY(braid_gradient_node(context, "Neg", &dy, 1, &dx, NULL));
  return braid_gradient_give(context, 0, dx);
}

/* Steps: flat wherever there is a slope, so nothing flows back. */
static braid_status step_gradient(braid_gradient_context *context) {
  (void)context;
  return BRAID_OK;
}

/* What flows to a bound is what was cut off at it; an x that is the bound keeps its gradient, as with PyTorch's bounds
 * that are numbers. The upper one is applied last: below the lower one, it cuts all. */
static braid_status give_bound(braid_gradient_context *context, size_t index, braid_value_id cut) {
  braid_value_id dy = braid_gradient_of_output(context, 0), zero, part;
  BRAID_TRY(braid_gradient_scalar(context, context->graph->values[dy].desc.dtype, 0, &zero));
  BRAID_TRY(braid_gradient_node(context, "Where", (braid_value_id[]){cut, dy, zero}, 3, &part, NULL));
  return braid_gradient_give_reduced(context, index, part);
}

static braid_status give_low(braid_gradient_context *context) {
  braid_value_id x = braid_gradient_input(context, 0), low = braid_gradient_input(context, 1);
  braid_value_id high = braid_gradient_input(context, 2), cut, open;
  BRAID_TRY(braid_gradient_node(context, "Less", (braid_value_id[]){x, low}, 2, &cut, NULL));
  if (high >= 0) {
    BRAID_TRY(braid_gradient_node(context, "Less", (braid_value_id[]){low, high}, 2, &open, NULL));
    BRAID_TRY(braid_gradient_node(context, "And", (braid_value_id[]){cut, open}, 2, &cut, NULL));
  }
  return give_bound(context, 1, cut);
}

static braid_status give_high(braid_gradient_context *context) {
  braid_value_id x = braid_gradient_input(context, 0), low = braid_gradient_input(context, 1);
  braid_value_id high = braid_gradient_input(context, 2), cut;
  if (low >= 0) BRAID_TRY(braid_gradient_node(context, "Max", (braid_value_id[]){x, low}, 2, &x, NULL));
  BRAID_TRY(braid_gradient_node(context, "Greater", (braid_value_id[]){x, high}, 2, &cut, NULL));
  return give_bound(context, 2, cut);
}

static braid_status clip_gradient(braid_gradient_context *context) {
  if (braid_gradient_wanted(context, 1)) BRAID_TRY(give_low(context));
  if (braid_gradient_wanted(context, 2)) BRAID_TRY(give_high(context));
  if (!braid_gradient_wanted(context, 0)) return BRAID_OK;
  braid_value_id inputs[] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 0),
                             braid_gradient_input(context, 1), braid_gradient_input(context, 2)};
  braid_value_id dx;
  BRAID_TRY(braid_gradient_node(context, "ClipGrad", inputs, 4, &dx, NULL));
  return braid_gradient_give(context, 0, dx);
}

static braid_status cast_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0), x = braid_gradient_input(context, 0), dx;
  if (!braid_dtype_is_float(context->graph->values[x].desc.dtype)) return BRAID_OK;
  BRAID_TRY(braid_gradient_node(context, "CastLike", (braid_value_id[]){dy, x}, 2, &dx, NULL));
  return braid_gradient_give(context, 0, dx);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_op kOps[] = {
#define BRAID_UNARY(op, types, reads, forward, gradient)                                                               \
  {#op, 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_##types, NULL, gradient_of_##reads},                                   \
      {#op "Grad", 2, 2, 1, 1, BRAID_OP_ELEMENTWISE, infer_gradient, NULL, NULL},
#include "graph/ops/unary.def"
#undef BRAID_UNARY
    {"Neg", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_signed, NULL, neg_gradient},
    {"Sign", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_number, NULL, step_gradient},
    {"Floor", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_float, NULL, step_gradient},
    {"Ceil", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_float, NULL, step_gradient},
    {"Round", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_float, NULL, step_gradient},
    {"IsNaN", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_predicate, NULL, NULL},
    {"IsInf", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_predicate, NULL, NULL},
    {"Not", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_bool, NULL, NULL},
    {"BitwiseNot", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_integer, NULL, NULL},
    {"Clip", 1, 3, 1, 1, BRAID_OP_ELEMENTWISE, infer_clip, NULL, clip_gradient},
    {"ClipGrad", 2, 4, 1, 1, BRAID_OP_ELEMENTWISE, infer_clip_gradient, NULL, NULL},
    {"Cast", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE | BRAID_OP_NARROW, infer_cast, NULL, cast_gradient},
    {"BitCast", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE | BRAID_OP_NARROW, infer_bit_cast, NULL, NULL},
    {"CastLike", 2, 2, 1, 1, BRAID_OP_NARROW, infer_cast_like, NULL, cast_gradient},
};

extern const braid_op_family braid_ops_unary;
const braid_op_family braid_ops_unary = {kOps, sizeof kOps / sizeof *kOps};
