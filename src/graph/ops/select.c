/* Ops along one axis that choose or accumulate: ArgMax, ArgMin, TopK, CumSum, CumProd. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"
#include "graph/ops/types.h"

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static braid_status infer_arg(const braid_infer *infer) {
  BRAID_TRY(braid_infer_type(infer, 0, kNumber));
  const braid_desc *x = braid_infer_input(infer, 0);
  int axis, rank = 0;
  int64_t dims[BRAID_MAX_RANK];
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", 0), x->rank, &axis));
  if (x->dims[axis] == 0) return braid_infer_fail(infer, "axis %d has no elements to choose from", axis);
  bool keep = braid_attr_int(&infer->node->attrs, "keepdims", 1) != 0;
  for (int i = 0; i < x->rank; i++)
    if (i != axis || keep) dims[rank++] = i == axis ? 1 : x->dims[i];
  return braid_infer_output(infer, 0, BRAID_I64, rank, dims);
}

static braid_status infer_top(const braid_infer *infer) {
  BRAID_TRY(braid_infer_type(infer, 0, kNumber));
  BRAID_TRY(braid_infer_type(infer, 1, BRAID_TYPE(I64)));
  const braid_desc *x = braid_infer_input(infer, 0);
  const braid_tensor *known = braid_infer_constant(infer, 1);
  int axis;
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", -1), x->rank, &axis));
  if (!known)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (TopK): K is computed from the inputs' data", infer->node->name);
  if (braid_desc_count(braid_tensor_desc(known)) != 1) return braid_infer_fail(infer, "K is not one number");
  int64_t k = braid_tensor_get_i64(known, 0), dims[BRAID_MAX_RANK];
  if (k < 0 || k > x->dims[axis])
    return braid_infer_fail(infer, "K is %lld, outside [0, %lld], the size of axis %d", (long long)k,
                            (long long)x->dims[axis], axis);
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = k;
  BRAID_TRY(braid_infer_output(infer, 0, x->dtype, x->rank, dims));
  return braid_infer_output(infer, 1, BRAID_I64, x->rank, dims);
}

/* TopKGrad(dy, indices): zeros but for dy at the indices, `size` along the axis. */
static braid_status infer_top_gradient(const braid_infer *infer) {
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  BRAID_TRY(braid_infer_type(infer, 1, BRAID_TYPE(I64)));
  const braid_desc *dy = braid_infer_input(infer, 0);
  int axis;
  int64_t dims[BRAID_MAX_RANK], size = braid_attr_int(&infer->node->attrs, "size", dy->rank ? dy->dims[0] : 0);
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", -1), dy->rank, &axis));
  if (!braid_desc_same_shape(dy, braid_infer_input(infer, 1)))
    return braid_infer_fail(infer, "the gradient and the indices differ in shape");
  memcpy(dims, dy->dims, sizeof dims);
  dims[axis] = size;
  return braid_infer_output(infer, 0, dy->dtype, dy->rank, dims);
}

/* The axis, input `index`, may be computed from data: it does not change the shape. */
static braid_status infer_along(const braid_infer *infer, uint32_t types, size_t index) {
  BRAID_TRY(braid_infer_type(infer, 0, types));
  BRAID_TRY(braid_infer_type(infer, index, BRAID_TYPE(I32) | BRAID_TYPE(I64)));
  const braid_desc *x = braid_infer_input(infer, 0);
  const braid_tensor *known = braid_infer_constant(infer, index);
  int axis;
  if (braid_desc_count(braid_infer_input(infer, index)) != 1)
    return braid_infer_fail(infer, "the axis is not one number");
  if (known) BRAID_TRY(braid_infer_axis(infer, braid_tensor_get_i64(known, 0), x->rank, &axis));
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

static braid_status infer_scan(const braid_infer *infer) {
  return infer_along(infer, kNumber, 1);
}

/* CumProdGrad(dy, x, axis), with CumProd's attributes. */
static braid_status infer_product_gradient(const braid_infer *infer) {
  BRAID_TRY(infer_along(infer, kFloat, 2));
  BRAID_TRY(braid_infer_same_type(infer, 1, 0));
  if (braid_desc_same_shape(braid_infer_input(infer, 0), braid_infer_input(infer, 1))) return BRAID_OK;
  return braid_infer_fail(infer, "the output's gradient has not the input's shape");
}

/* Twice along each line: the sums from its end, and the products from its start. */
static int64_t product_gradient_macs(const braid_graph *graph, const braid_node *node) {
  return 2 * braid_desc_count(&graph->values[node->inputs[0]].desc);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
static braid_status top_gradient(braid_gradient_context *context) {
  const braid_node *forward = &context->graph->nodes[context->node];
  const braid_desc x = context->graph->values[forward->inputs[0]].desc;
  int64_t axis = braid_attr_int(&forward->attrs, "axis", -1);
  braid_value_id dy = braid_gradient_of_output(context, 0), indices, dx;
  braid_node_id node;
  if (dy < 0) return BRAID_OK;
  BRAID_TRY(braid_gradient_add_output(context, 1, &indices));
  if (axis < 0) axis += x.rank;
  BRAID_TRY(braid_gradient_node(context, "TopKGrad", (braid_value_id[]){dy, indices}, 2, &dx, &node));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "axis", axis));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "size", x.dims[axis]));
  return braid_gradient_give(context, 0, dx);
}

/* The sum from the other end. */
static braid_status cumulative_sum_gradient(braid_gradient_context *context) {
  const braid_attrs *attrs = &context->graph->nodes[context->node].attrs;
  int64_t exclusive = braid_attr_int(attrs, "exclusive", 0), reverse = braid_attr_int(attrs, "reverse", 0);
  braid_value_id inputs[] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 1)}, dx;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "CumSum", inputs, 2, &dx, &node));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "exclusive", exclusive));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "reverse", !reverse));
  return braid_gradient_give(context, 0, dx);
}

static braid_status cumulative_product_gradient(braid_gradient_context *context) {
  braid_value_id inputs[] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 0),
                             braid_gradient_input(context, 1)};
  braid_value_id dx;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "CumProdGrad", inputs, 3, &dx, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, dx);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_op kOps[] = {
    {"ArgMax", 1, 1, 1, 1, 0, infer_arg, NULL, NULL},
    {"ArgMin", 1, 1, 1, 1, 0, infer_arg, NULL, NULL},
    {"TopK", 2, 2, 1, 2, 0, infer_top, NULL, top_gradient},
    {"TopKGrad", 2, 2, 1, 1, 0, infer_top_gradient, NULL, NULL},
    {"CumSum", 2, 2, 1, 1, 0, infer_scan, NULL, cumulative_sum_gradient},
    {"CumProd", 2, 2, 1, 1, 0, infer_scan, NULL, cumulative_product_gradient},
    {"CumProdGrad", 3, 3, 1, 1, 0, infer_product_gradient, product_gradient_macs, NULL},
};

extern const braid_op_family braid_ops_select;
const braid_op_family braid_ops_select = {kOps, sizeof kOps / sizeof *kOps};
