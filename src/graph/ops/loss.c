/* Losses.
 *
 * SoftmaxCrossEntropyLoss(scores, labels, weights?) -> loss, log_prob? is ONNX's, with one attribute more,
 * label_smoothing (s): the target of a sample is (1 - s) onehot + s / classes, as in PyTorch's cross_entropy; with
 * weights, class c counts weights[c], and a mean is over the weights of the labels. CrossEntropyLoss is the same op
 * under the name that trainings use. NegativeLogLikelihoodLoss(log_prob, labels, weights?) is ONNX's.
 *
 * SquaredErrorLoss(values, targets): targets are values of the same shape and type, or labels whose one-hot vectors are
 * meant. reduction: "sum", "mean" (over all elements: PyTorch's mse_loss), "none", or, if there is none, the sum
 * divided by 2 * batch (the sum of squared errors of Luo et al., "Towards efficient deep neural network training by
 * FPGA-based batch-level parallelism", 2020, scaled so that the gradient of a value is its error over the batch).
 *
 * Gradients: <Op>Grad(dloss, first input, labels or targets, weights?). A label outside the classes that is not
 * ignore_index gives a NaN loss, which stops a training. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
/* `at`: where scores, labels and weights stand among the inputs. */
static braid_status check_classes(const braid_infer *infer, size_t at) {
  const braid_desc *scores = braid_infer_input(infer, at), *labels = braid_infer_input(infer, at + 1);
  const braid_desc *weights = braid_infer_input(infer, at + 2);
  if (scores->rank < 2 || !braid_dtype_is_float(scores->dtype) || scores->dims[1] < 1)
    return braid_infer_fail(infer, "scores must be floating-point of (batch, classes, ...)");
  if (labels->dtype != BRAID_I32 && labels->dtype != BRAID_I64)
    return braid_infer_fail(infer, "labels are %s, int32 or int64 expected", braid_dtype_name(labels->dtype));
  bool fits = labels->rank == scores->rank - 1 && labels->dims[0] == scores->dims[0];
  for (int i = 1; fits && i < labels->rank; i++) fits = labels->dims[i] == scores->dims[i + 1];
  if (!fits) return braid_infer_fail(infer, "labels must have the scores' shape without the classes");
  if (weights && (weights->dtype != scores->dtype || weights->rank != 1 || weights->dims[0] != scores->dims[1]))
    return braid_infer_fail(infer, "weights must be one number a class, of the scores' type");
  double smoothing = braid_attr_float(&infer->node->attrs, "label_smoothing", 0);
  if (!(smoothing >= 0 && smoothing < 1)) return braid_infer_fail(infer, "label_smoothing is outside [0, 1)");
  return BRAID_OK;
}

/* The loss's shape: a scalar, or that of `each` if there is one for every sample. */
static braid_status reduced(const braid_infer *infer, const char *otherwise, const braid_desc *each, braid_desc *out) {
  const char *reduction = braid_attr_string(&infer->node->attrs, "reduction", otherwise);
  *out = (braid_desc){.rank = 0};
  if (reduction && strcmp(reduction, "none") == 0) *out = *each;
  if (reduction && strcmp(reduction, "none") != 0 && strcmp(reduction, "sum") != 0 && strcmp(reduction, "mean") != 0)
    return braid_infer_fail(infer, "reduction %.60s is none of none, sum and mean", reduction);
  return BRAID_OK;
}

static braid_status infer_cross_entropy(const braid_infer *infer) {
  braid_desc loss;
  BRAID_TRY(check_classes(infer, 0));
  const braid_desc *scores = braid_infer_input(infer, 0);
  BRAID_TRY(reduced(infer, "mean", braid_infer_input(infer, 1), &loss));
  BRAID_TRY(braid_infer_output(infer, 0, scores->dtype, loss.rank, loss.dims));
  return braid_infer_output(infer, 1, scores->dtype, scores->rank, scores->dims);
}

/* A loss's gradient has its shape (one element may be of rank 1), and what it leads to has the first input's. */
static braid_status check_gradient(const braid_infer *infer, const braid_desc *loss) {
  const braid_desc *dloss = braid_infer_input(infer, 0), *values = braid_infer_input(infer, 1);
  bool fits = loss->rank == 0 ? braid_desc_count(dloss) == 1 : braid_desc_same_shape(dloss, loss);
  if (!fits || dloss->dtype != values->dtype)
    return braid_infer_fail(infer, "the loss's gradient has not the loss's type and shape");
  return braid_infer_output(infer, 0, values->dtype, values->rank, values->dims);
}

static braid_status infer_cross_entropy_grad(const braid_infer *infer) {
  braid_desc loss;
  BRAID_TRY(check_classes(infer, 1));
  BRAID_TRY(reduced(infer, "mean", braid_infer_input(infer, 2), &loss));
  return check_gradient(infer, &loss);
}

static braid_status check_targets(const braid_infer *infer, size_t at) {
  const braid_desc *values = braid_infer_input(infer, at), *targets = braid_infer_input(infer, at + 1);
  if (!braid_dtype_is_float(values->dtype) || values->rank < 1)
    return braid_infer_fail(infer, "values must be floating-point and of rank 1 or more");
  if (!braid_dtype_is_float(targets->dtype)) return check_classes(infer, at);
  if (targets->dtype != values->dtype || !braid_desc_same_shape(targets, values))
    return braid_infer_fail(infer, "targets must have the type and shape of the values, or be labels");
  return BRAID_OK;
}

static braid_status infer_squared_error(const braid_infer *infer) {
  braid_desc loss;
  BRAID_TRY(check_targets(infer, 0));
  const braid_desc *values = braid_infer_input(infer, 0);
  BRAID_TRY(reduced(infer, NULL, values, &loss));
  return braid_infer_output(infer, 0, values->dtype, loss.rank, loss.dims);
}

static braid_status infer_squared_error_grad(const braid_infer *infer) {
  braid_desc loss;
  BRAID_TRY(check_targets(infer, 1));
  BRAID_TRY(reduced(infer, NULL, braid_infer_input(infer, 1), &loss));
  return check_gradient(infer, &loss);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
/* op(dloss, input `values`, input `targets`, weights?) is the gradient of input `values`. */
static braid_status give(braid_gradient_context *context, const char *op, size_t values, size_t targets) {
  braid_value_id inputs[4] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, values),
                              braid_gradient_input(context, targets), braid_gradient_input(context, 2)};
  braid_value_id gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, inputs, inputs[3] < 0 ? 3 : 4, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, values, gradient);
}

static braid_status refuse_weights(const braid_gradient_context *context) {
  if (!braid_gradient_wanted(context, 2)) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "class weights have no gradient");
}

static braid_status softmax_cross_entropy_gradient(braid_gradient_context *context) {
  BRAID_TRY(refuse_weights(context));
  if (braid_gradient_of_output(context, 0) >= 0) BRAID_TRY(give(context, "SoftmaxCrossEntropyLossGrad", 0, 1));
  braid_value_id inputs[2] = {braid_gradient_output(context, 1), braid_gradient_of_output(context, 1)}, gradient;
  if (inputs[1] < 0) return BRAID_OK;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "LogSoftmaxGrad", inputs, 2, &gradient, &node));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "axis", 1));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status likelihood_gradient(braid_gradient_context *context) {
  BRAID_TRY(refuse_weights(context));
  return give(context, "NegativeLogLikelihoodLossGrad", 0, 1);
}

/* A target's gradient is the value's with the two exchanged. */
static braid_status squared_error_gradient(braid_gradient_context *context) {
  if (braid_gradient_wanted(context, 0)) BRAID_TRY(give(context, "SquaredErrorLossGrad", 0, 1));
  return braid_gradient_wanted(context, 1) ? give(context, "SquaredErrorLossGrad", 1, 0) : BRAID_OK;
}

static const braid_op kOps[] = {
    {"SoftmaxCrossEntropyLoss", 2, 3, 1, 2, 0, infer_cross_entropy, NULL, softmax_cross_entropy_gradient},
    {"CrossEntropyLoss", 2, 3, 1, 2, 0, infer_cross_entropy, NULL, softmax_cross_entropy_gradient},
    {"SoftmaxCrossEntropyLossGrad", 3, 4, 1, 1, 0, infer_cross_entropy_grad, NULL, NULL},
    {"NegativeLogLikelihoodLoss", 2, 3, 1, 1, 0, infer_cross_entropy, NULL, likelihood_gradient},
    {"NegativeLogLikelihoodLossGrad", 3, 4, 1, 1, 0, infer_cross_entropy_grad, NULL, NULL},
    {"SquaredErrorLoss", 2, 2, 1, 1, 0, infer_squared_error, NULL, squared_error_gradient},
    {"SquaredErrorLossGrad", 3, 3, 1, 1, 0, infer_squared_error_grad, NULL, NULL},
};

extern const braid_op_family braid_ops_loss;
const braid_op_family braid_ops_loss = {kOps, sizeof kOps / sizeof *kOps};
