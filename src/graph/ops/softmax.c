/* Softmax and LogSoftmax over one axis, Hardmax, and the gradients of the first two from their result and its gradient:
 * SoftmaxGrad(y, dy), LogSoftmaxGrad(y, dy). */
#include "base/try.h"
#include "graph/gradient.h"

static braid_status infer_along_axis(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *dy = braid_infer_input(infer, 1);
  int axis;
  if (!braid_dtype_is_float(x->dtype))
    return braid_infer_fail(infer, "input is %s, not floating-point", braid_dtype_name(x->dtype));
  if (x->rank > 0) BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", -1), x->rank, &axis));
  if (dy && (dy->dtype != x->dtype || !braid_desc_same_shape(x, dy)))
    return braid_infer_fail(infer, "the gradient differs in type or shape");
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

static braid_status give(braid_gradient_context *context, const char *op) {
  braid_value_id inputs[2] = {braid_gradient_output(context, 0), braid_gradient_of_output(context, 0)}, gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, inputs, 2, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status softmax_gradient(braid_gradient_context *context) {
  return give(context, "SoftmaxGrad");
}
static braid_status log_softmax_gradient(braid_gradient_context *context) {
  return give(context, "LogSoftmaxGrad");
}

static const braid_op kOps[] = {
    {"Softmax", 1, 1, 1, 1, 0, infer_along_axis, NULL, softmax_gradient},
    {"LogSoftmax", 1, 1, 1, 1, 0, infer_along_axis, NULL, log_softmax_gradient},
    {"Hardmax", 1, 1, 1, 1, 0, infer_along_axis, NULL, NULL},
    {"SoftmaxGrad", 2, 2, 1, 1, 0, infer_along_axis, NULL, NULL},
    {"LogSoftmaxGrad", 2, 2, 1, 1, 0, infer_along_axis, NULL, NULL},
};

const braid_op_family braid_ops_softmax = {kOps, sizeof kOps / sizeof *kOps};
