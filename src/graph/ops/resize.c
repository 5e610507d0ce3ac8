/* Resize, and its gradient: ResizeGrad(dy, roi, scales, sizes) with input_shape. */
#include "graph/resize.h"

#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"

static braid_status check_list(const braid_infer *infer, size_t index, const char *name) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc || braid_desc_count(desc) == 0 || braid_infer_constant(infer, index)) return BRAID_OK;
  return braid_infer_fail(infer, "%s must be known before the run", name);
}

static braid_status plan(const braid_infer *infer, const braid_desc *x, braid_resize *resize) {
  const braid_tensor *lists[3];
  static const char *const kNames[] = {"roi", "scales", "sizes"};
  for (size_t i = 0; i < 3; i++) {
    BRAID_TRY(check_list(infer, 1 + i, kNames[i]));
    lists[i] = braid_infer_constant(infer, 1 + i);
  }
  if (!braid_dtype_is_float(x->dtype) &&
      strcmp(braid_attr_string(&infer->node->attrs, "mode", "nearest"), "nearest") != 0)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): interpolation of %s", infer->node->name,
                      infer->node->op->name, braid_dtype_name(x->dtype));
  const char *wrong = braid_resize_init(resize, &infer->node->attrs, x, lists[0], lists[1], lists[2]);
  return wrong ? braid_infer_fail(infer, "%s", wrong) : BRAID_OK;
}

static braid_status infer_resize(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  braid_resize resize;
  BRAID_TRY(plan(infer, x, &resize));
  return braid_infer_output(infer, 0, x->dtype, x->rank, resize.out);
}

static braid_status infer_resize_grad(const braid_infer *infer) {
  const braid_desc *dy = braid_infer_input(infer, 0);
  size_t rank;
  const int64_t *dims = braid_attr_ints(&infer->node->attrs, "input_shape", &rank);
  braid_desc x;
  braid_resize resize;
  if (!dims || rank != (size_t)dy->rank) return braid_infer_fail(infer, "attribute input_shape does not fit");
  BRAID_TRY(braid_desc_init(&x, dy->dtype, (int)rank, dims));
  BRAID_TRY(plan(infer, &x, &resize));
  for (int i = 0; i < dy->rank; i++)
    if (dy->dims[i] != resize.out[i]) return braid_infer_fail(infer, "the gradient does not have the result's shape");
  return braid_infer_output(infer, 0, dy->dtype, x.rank, x.dims);
}

static braid_status resize_gradient(braid_gradient_context *context) {
  const braid_node *forward = &context->graph->nodes[context->node];
  const braid_desc x = context->graph->values[forward->inputs[0]].desc;
  braid_value_id inputs[4] = {braid_gradient_of_output(context, 0), -1, -1, -1}, gradient;
  size_t count = forward->input_count < 4 ? forward->input_count : 4;
  for (size_t i = 1; i < count; i++) inputs[i] = forward->inputs[i];
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "ResizeGrad", inputs, count, &gradient, &node));
  BRAID_TRY(braid_graph_set_ints(context->graph, node, "input_shape", x.dims, (size_t)x.rank));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

static const braid_op kOps[] = {
    {"Resize", 1, 4, 1, 1, 0, infer_resize, NULL, resize_gradient},
    {"ResizeGrad", 1, 4, 1, 1, 0, infer_resize_grad, NULL, NULL},
};

extern const braid_op_family braid_ops_resize;
const braid_op_family braid_ops_resize = {kOps, sizeof kOps / sizeof *kOps};
