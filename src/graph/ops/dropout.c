/* Dropout and its gradient.
 *
 * Inputs: data, ratio, training_mode and, of our own, the number of the step: which elements fall depends only on (the
 * attribute seed, the step, the attribute stream, the element), so a training that goes on from a checkpoint drops the
 * same ones. Training gives each node a stream of its own, and the run's seed where the model names none. Elements are
 * counted from the attribute first: a process that has a slice of a batch drops what one with the whole would.
 * DropoutGrad(dy, mask) has the attribute `scale`, 1 / (1 - ratio). */
#include "base/try.h"
#include "graph/gradient.h"

static bool is_one(const braid_desc *desc, braid_dtype dtype) {
  return !desc || (desc->dtype == dtype && braid_desc_count(desc) == 1);
}

static braid_status infer_dropout(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *ratio = braid_infer_input(infer, 1);
  if (!braid_dtype_is_float(x->dtype)) return braid_infer_fail(infer, "input is not floating-point");
  if (ratio && (!braid_dtype_is_float(ratio->dtype) || braid_desc_count(ratio) != 1))
    return braid_infer_fail(infer, "the ratio is not one floating-point number");
  if (!is_one(braid_infer_input(infer, 2), BRAID_BOOL))
    return braid_infer_fail(infer, "the training mode is not one bool");
  if (!is_one(braid_infer_input(infer, 3), BRAID_I64))
    return braid_infer_fail(infer, "the number of the step is not one int64");
  BRAID_TRY(braid_infer_output(infer, 0, x->dtype, x->rank, x->dims));
  return braid_infer_output(infer, 1, BRAID_BOOL, x->rank, x->dims);
}

static bool is_training(const braid_graph *graph, const braid_node *node) {
  braid_value_id mode = node->input_count > 2 ? node->inputs[2] : -1;
  return mode >= 0 && (!graph->values[mode].tensor || braid_tensor_get_i64(graph->values[mode].tensor, 0) != 0);
}

static braid_status dropout_gradient(braid_gradient_context *context) {
  braid_graph *graph = context->graph;
  const braid_node *node = &graph->nodes[context->node];
  braid_value_id dy = braid_gradient_of_output(context, 0);
  if (!is_training(graph, node)) return braid_gradient_give(context, 0, dy);
  braid_value_id ratio = node->input_count > 1 ? node->inputs[1] : -1, mask, gradient;
  if (ratio >= 0 && !graph->values[ratio].tensor)
    return braid_fail(BRAID_UNSUPPORTED, "the ratio of a Dropout must be known before the run");
  double share = ratio >= 0 ? braid_tensor_get_f64(graph->values[ratio].tensor, 0) : 0.5;
  BRAID_TRY(braid_gradient_add_output(context, 1, &mask));
  braid_node_id id;
  BRAID_TRY(braid_gradient_node(context, "DropoutGrad", (braid_value_id[]){dy, mask}, 2, &gradient, &id));
  BRAID_TRY(braid_graph_set_float(graph, id, "scale", share < 1 ? 1 / (1 - share) : 0));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status infer_dropout_grad(const braid_infer *infer) {
  const braid_desc *dy = braid_infer_input(infer, 0), *mask = braid_infer_input(infer, 1);
  if (!braid_dtype_is_float(dy->dtype)) return braid_infer_fail(infer, "the gradient is not floating-point");
  if (mask->dtype != BRAID_BOOL || !braid_desc_same_shape(dy, mask))
    return braid_infer_fail(infer, "the mask is not bool of the gradient's shape");
  return braid_infer_output(infer, 0, dy->dtype, dy->rank, dy->dims);
}

static const braid_op kOps[] = {
    {"Dropout", 1, 4, 1, 2, 0, infer_dropout, NULL, dropout_gradient},
    {"DropoutGrad", 2, 2, 1, 1, 0, infer_dropout_grad, NULL, NULL},
};

const braid_op_family braid_ops_dropout = {kOps, sizeof kOps / sizeof *kOps};
