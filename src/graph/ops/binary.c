/* Functions of corresponding elements of several tensors, broadcast to one shape: shapes, types and gradients. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"
#include "graph/ops/types.h"

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
/* The shape to which inputs [first, count) broadcast. */
static braid_status broadcast_all(const braid_infer *infer, braid_desc *out) {
  *out = *braid_infer_input(infer, 0);
  for (size_t i = 1; i < braid_infer_inputs(infer); i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    if (!desc) return braid_infer_fail(infer, "input %zu is missing", i);
    const braid_desc so_far = *out;
    if (braid_broadcast(&so_far, desc, out)) continue;
    char one[128], other[128];
    return braid_infer_fail(infer, "input %zu, %s, does not broadcast with %s", i,
                            braid_desc_format(desc, one, sizeof one), braid_desc_format(&so_far, other, sizeof other));
  }
  return BRAID_OK;
}

/* All inputs are of one of `types`, the same one. */
static braid_status infer_alike(const braid_infer *infer, uint32_t types, braid_dtype result) {
  braid_desc shape;
  BRAID_TRY(braid_infer_type(infer, 0, types));
  for (size_t i = 1; i < braid_infer_inputs(infer); i++) BRAID_TRY(braid_infer_same_type(infer, i, 0));
  BRAID_TRY(broadcast_all(infer, &shape));
  return braid_infer_output(infer, 0, result == BRAID_NONE ? shape.dtype : result, shape.rank, shape.dims);
}

static braid_status infer_arithmetic(const braid_infer *infer) {
  return infer_alike(infer, kNumber, BRAID_NONE);
}

static braid_status infer_float(const braid_infer *infer) {
  return infer_alike(infer, kFloat, BRAID_NONE);
}

static braid_status infer_integer(const braid_infer *infer) {
  return infer_alike(infer, kInteger, BRAID_NONE);
}

static braid_status infer_logic(const braid_infer *infer) {
  return infer_alike(infer, kBool, BRAID_NONE);
}

static braid_status infer_equal(const braid_infer *infer) {
  return infer_alike(infer, kAnyType, BRAID_BOOL);
}

static braid_status infer_order(const braid_infer *infer) {
  return infer_alike(infer, kNumber, BRAID_BOOL);
}

static braid_status infer_shift(const braid_infer *infer) {
  const char *direction = braid_attr_string(&infer->node->attrs, "direction", "");
  if (*direction && strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
    return braid_infer_fail(infer, "direction is \"%.40s\", not LEFT or RIGHT", direction);
  return infer_alike(infer, kInteger, BRAID_NONE);
}

/* The exponent may be of another type; the result is of the base's. */
static braid_status infer_pow(const braid_infer *infer) {
  braid_desc shape;
  BRAID_TRY(braid_infer_type(infer, 0, kNumber));
  BRAID_TRY(braid_infer_type(infer, 1, kNumber));
  BRAID_TRY(broadcast_all(infer, &shape));
  return braid_infer_output(infer, 0, shape.dtype, shape.rank, shape.dims);
}

static braid_status infer_where(const braid_infer *infer) {
  braid_desc shape;
  BRAID_TRY(braid_infer_type(infer, 0, kBool));
  BRAID_TRY(braid_infer_type(infer, 1, kAnyType));
  BRAID_TRY(braid_infer_same_type(infer, 2, 1));
  BRAID_TRY(broadcast_all(infer, &shape));
  return braid_infer_output(infer, 0, braid_infer_input(infer, 1)->dtype, shape.rank, shape.dims);
}

/* The slope broadcasts to x, not x to the slope. */
static braid_status infer_prelu(const braid_infer *infer) {
  braid_desc shape;
  BRAID_TRY(infer_arithmetic(infer));
  BRAID_TRY(broadcast_all(infer, &shape));
  if (braid_desc_same_shape(&shape, braid_infer_input(infer, 0))) return BRAID_OK;
  return braid_infer_fail(infer, "the slope does not broadcast to the input's shape");
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
static braid_value_id dy_of(const braid_gradient_context *context) {
  return braid_gradient_of_output(context, 0);
}

static braid_status binary_make(braid_gradient_context *context, const char *op, braid_value_id a, braid_value_id b,
                                braid_value_id *out) {
  return braid_gradient_node(context, op, (braid_value_id[]){a, b}, 2, out, NULL);
}

static braid_status negate(braid_gradient_context *context, braid_value_id *value) {
  return braid_gradient_node(context, "Neg", (braid_value_id[]){*value}, 1, value, NULL);
}

static braid_dtype dtype_of(const braid_gradient_context *context, braid_value_id value) {
  return context->graph->values[value].desc.dtype;
}

static size_t input_count(const braid_gradient_context *context) {
  return context->graph->nodes[context->node].input_count;
}

static braid_status sum_gradient(braid_gradient_context *context) {
  for (size_t i = 0; i < input_count(context); i++) BRAID_TRY(braid_gradient_give_reduced(context, i, dy_of(context)));
  return BRAID_OK;
}

static braid_status mean_gradient(braid_gradient_context *context) {
  braid_value_id count, share;
  BRAID_TRY(braid_gradient_scalar(context, dtype_of(context, dy_of(context)), (double)input_count(context), &count));
  BRAID_TRY(binary_make(context, "Div", dy_of(context), count, &share));
  for (size_t i = 0; i < input_count(context); i++) BRAID_TRY(braid_gradient_give_reduced(context, i, share));
  return BRAID_OK;
}

static braid_status sub_gradient(braid_gradient_context *context) {
  braid_value_id db = dy_of(context);
  BRAID_TRY(braid_gradient_give_reduced(context, 0, db));
  if (!braid_gradient_wanted(context, 1)) return BRAID_OK;
  BRAID_TRY(negate(context, &db));
  return braid_gradient_give_reduced(context, 1, db);
}

static braid_status mul_gradient(braid_gradient_context *context) {
  for (size_t i = 0; i < 2; i++) {
    if (!braid_gradient_wanted(context, i)) continue;
    braid_value_id part;
    BRAID_TRY(binary_make(context, "Mul", dy_of(context), braid_gradient_input(context, 1 - i), &part));
    BRAID_TRY(braid_gradient_give_reduced(context, i, part));
  }
  return BRAID_OK;
}

/* y = a / b: dy / b and -(dy / b) y. */
static braid_status div_gradient(braid_gradient_context *context) {
  braid_value_id da, db;
  BRAID_TRY(binary_make(context, "Div", dy_of(context), braid_gradient_input(context, 1), &da));
  BRAID_TRY(braid_gradient_give_reduced(context, 0, da));
  if (!braid_gradient_wanted(context, 1)) return BRAID_OK;
  BRAID_TRY(binary_make(context, "Mul", da, braid_gradient_output(context, 0), &db));
  BRAID_TRY(negate(context, &db));
  return braid_gradient_give_reduced(context, 1, db);
}

/* y = a - q b with a whole number q: dy and -q dy. */
static braid_status mod_gradient(braid_gradient_context *context) {
  BRAID_TRY(braid_gradient_give_reduced(context, 0, dy_of(context)));
  if (!braid_gradient_wanted(context, 1)) return BRAID_OK;
  braid_value_id a = braid_gradient_input(context, 0), b = braid_gradient_input(context, 1), q;
  BRAID_TRY(binary_make(context, "Sub", a, braid_gradient_output(context, 0), &q));
  BRAID_TRY(binary_make(context, "Div", q, b, &q));
  BRAID_TRY(braid_gradient_node(context, "Round", (braid_value_id[]){q}, 1, &q, NULL));
  BRAID_TRY(binary_make(context, "Mul", dy_of(context), q, &q));
  BRAID_TRY(negate(context, &q));
  return braid_gradient_give_reduced(context, 1, q);
}

static braid_status pow_gradient(braid_gradient_context *context) {
  static const char *const kOps[] = {"PowGradBase", "PowGradExponent"};
  braid_value_id a = braid_gradient_input(context, 0), b = braid_gradient_input(context, 1);
  if (dtype_of(context, b) != dtype_of(context, a)) BRAID_TRY(binary_make(context, "CastLike", b, a, &b));
  for (size_t i = 0; i < 2; i++) {
    if (!braid_gradient_wanted(context, i)) continue;
    braid_value_id part;
    BRAID_TRY(braid_gradient_node(context, kOps[i], (braid_value_id[]){dy_of(context), a, b}, 3, &part, NULL));
    if (i == 1 && b != braid_gradient_input(context, 1))
      BRAID_TRY(binary_make(context, "CastLike", part, braid_gradient_input(context, 1), &part));
    BRAID_TRY(braid_gradient_give_reduced(context, i, part));
  }
  return BRAID_OK;
}

/* The gradient goes to the inputs that are the extreme, in equal shares where several are. */
static braid_status extreme_gradient(braid_gradient_context *context) {
  size_t count = input_count(context);
  if (count == 1) return braid_gradient_give(context, 0, dy_of(context));
  braid_value_id dy = dy_of(context), y = braid_gradient_output(context, 0), ties = -1;
  for (int round = 0; round < 2; round++) /* first the number of shares, then the shares */
    for (size_t i = 0; i < count; i++) {
      if (round && !braid_gradient_wanted(context, i)) continue;
      braid_value_id mask, part;
      BRAID_TRY(binary_make(context, "Equal", braid_gradient_input(context, i), y, &mask));
      BRAID_TRY(binary_make(context, "CastLike", mask, y, &mask));
      if (round) {
        BRAID_TRY(binary_make(context, "Mul", dy, mask, &part));
        BRAID_TRY(braid_gradient_give_reduced(context, i, part));
      } else if (ties < 0) {
        ties = mask;
      } else {
        BRAID_TRY(binary_make(context, "Add", ties, mask, &ties));
      }
      if (!round && i + 1 == count) BRAID_TRY(binary_make(context, "Div", dy, ties, &dy));
    }
  return BRAID_OK;
}

static braid_status where_gradient(braid_gradient_context *context) {
  braid_value_id condition = braid_gradient_input(context, 0), zero;
  BRAID_TRY(braid_gradient_scalar(context, dtype_of(context, dy_of(context)), 0, &zero));
  for (size_t i = 1; i < 3; i++) {
    if (!braid_gradient_wanted(context, i)) continue;
    braid_value_id inputs[] = {condition, i == 1 ? dy_of(context) : zero, i == 1 ? zero : dy_of(context)}, part;
    BRAID_TRY(braid_gradient_node(context, "Where", inputs, 3, &part, NULL));
    BRAID_TRY(braid_gradient_give_reduced(context, i, part));
  }
  return BRAID_OK;
}

static braid_status prelu_gradient(braid_gradient_context *context) {
  braid_value_id dy = dy_of(context), x = braid_gradient_input(context, 0), part;
  if (braid_gradient_wanted(context, 0)) {
    braid_value_id inputs[] = {dy, x, braid_gradient_input(context, 1)};
    BRAID_TRY(braid_gradient_node(context, "PReluGrad", inputs, 3, &part, NULL));
    BRAID_TRY(braid_gradient_give(context, 0, part));
  }
  if (!braid_gradient_wanted(context, 1)) return BRAID_OK;
  braid_value_id zero;
  BRAID_TRY(braid_gradient_scalar(context, dtype_of(context, x), 0, &zero));
  BRAID_TRY(binary_make(context, "Min", x, zero, &part));
  BRAID_TRY(binary_make(context, "Mul", dy, part, &part));
  return braid_gradient_give_reduced(context, 1, part);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
#define PAIR(name, infer, gradient)                                                                                    \
  { name, 2, 2, 1, 1, BRAID_OP_ELEMENTWISE, infer, NULL, gradient }
#define VARIADIC(name, infer, gradient)                                                                                \
  { name, 1, -1, 1, 1, BRAID_OP_ELEMENTWISE, infer, NULL, gradient }
#define TRIPLE(name, infer, gradient)                                                                                  \
  { name, 3, 3, 1, 1, BRAID_OP_ELEMENTWISE, infer, NULL, gradient }

static const braid_op kOps[] = {
    PAIR("Add", infer_arithmetic, sum_gradient),
    PAIR("Sub", infer_arithmetic, sub_gradient),
    PAIR("Mul", infer_arithmetic, mul_gradient),
    PAIR("Div", infer_arithmetic, div_gradient),
    PAIR("Pow", infer_pow, pow_gradient),
    PAIR("Mod", infer_arithmetic, mod_gradient),
    PAIR("PRelu", infer_prelu, prelu_gradient),
    PAIR("Equal", infer_equal, NULL),
    PAIR("Less", infer_order, NULL),
    PAIR("LessOrEqual", infer_order, NULL),
    PAIR("Greater", infer_order, NULL),
    PAIR("GreaterOrEqual", infer_order, NULL),
    PAIR("And", infer_logic, NULL),
    PAIR("Or", infer_logic, NULL),
    PAIR("Xor", infer_logic, NULL),
    PAIR("BitwiseAnd", infer_integer, NULL),
    PAIR("BitwiseOr", infer_integer, NULL),
    PAIR("BitwiseXor", infer_integer, NULL),
    PAIR("BitShift", infer_shift, NULL),
    VARIADIC("Sum", infer_float, sum_gradient),
    VARIADIC("Mean", infer_float, mean_gradient),
    VARIADIC("Max", infer_arithmetic, extreme_gradient),
    VARIADIC("Min", infer_arithmetic, extreme_gradient),
    PAIR("AddRelu", infer_float, NULL), /* made by fusion alone, as AddReluGrad is */
    TRIPLE("AddReluGrad", infer_float, NULL),
    TRIPLE("Where", infer_where, where_gradient),
    TRIPLE("PReluGrad", infer_float, NULL),
    TRIPLE("PowGradBase", infer_float, NULL),
    TRIPLE("PowGradExponent", infer_float, NULL),
};

extern const braid_op_family braid_ops_binary;
const braid_op_family braid_ops_binary = {kOps, sizeof kOps / sizeof *kOps};
