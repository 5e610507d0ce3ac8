/* Losses of training: over scores (batch, classes) and labels (batch, integers in [0, classes)).
 *
 * CrossEntropyLoss: the mean over the batch of -sum_c t_c log softmax(scores)_c with t = (1 - s) onehot + s / classes
 * for s = label_smoothing (PyTorch's cross_entropy). SquaredErrorLoss: sum over the batch and the classes of (score -
 * onehot)^2, divided by 2 * batch (seed 001's loss, a sum of squared errors, scaled so that the gradient of a score is
 * its error over the batch). Their gradients take (dloss, scores, labels). Labels outside the range give a NaN loss,
 * which stops a training. */
#include "base/try.h"
#include "graph/gradient.h"

static braid_status check_pair(const braid_infer *infer, size_t scores_at) {
  const braid_desc *scores = braid_infer_input(infer, scores_at), *labels = braid_infer_input(infer, scores_at + 1);
  if (scores->rank != 2 || !braid_dtype_is_float(scores->dtype) || scores->dims[1] < 1)
    return braid_infer_fail(infer, "scores must be floating-point of (batch, classes)");
  if (labels->dtype != BRAID_I32 && labels->dtype != BRAID_I64)
    return braid_infer_fail(infer, "labels are %s, int32 or int64 expected", braid_dtype_name(labels->dtype));
  if (labels->rank != 1 || labels->dims[0] != scores->dims[0])
    return braid_infer_fail(infer, "labels must be one number a sample");
  return BRAID_OK;
}

static braid_status infer_loss(const braid_infer *infer) {
  BRAID_TRY(check_pair(infer, 0));
  double smoothing = braid_attr_float(&infer->node->attrs, "label_smoothing", 0);
  if (!(smoothing >= 0 && smoothing < 1)) return braid_infer_fail(infer, "label_smoothing is outside [0, 1)");
  return braid_infer_output(infer, 0, braid_infer_input(infer, 0)->dtype, 0, NULL);
}

static braid_status infer_loss_grad(const braid_infer *infer) {
  BRAID_TRY(check_pair(infer, 1));
  const braid_desc *scores = braid_infer_input(infer, 1), *dloss = braid_infer_input(infer, 0);
  if (braid_desc_count(dloss) != 1 || dloss->dtype != scores->dtype)
    return braid_infer_fail(infer, "the loss's gradient is not one number of the scores' type");
  return braid_infer_output(infer, 0, scores->dtype, 2, scores->dims);
}

static braid_status give(braid_gradient_context *context, const char *op) {
  braid_value_id inputs[3] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 0),
                              braid_gradient_input(context, 1)};
  braid_value_id gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, inputs, 3, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status cross_entropy_gradient(braid_gradient_context *context) {
  return give(context, "CrossEntropyLossGrad");
}

static braid_status squared_error_gradient(braid_gradient_context *context) {
  return give(context, "SquaredErrorLossGrad");
}

static const braid_op kOps[] = {
    {"CrossEntropyLoss", 2, 2, 1, 1, 0, infer_loss, NULL, cross_entropy_gradient},
    {"CrossEntropyLossGrad", 3, 3, 1, 1, 0, infer_loss_grad, NULL, NULL},
    {"SquaredErrorLoss", 2, 2, 1, 1, 0, infer_loss, NULL, squared_error_gradient},
    {"SquaredErrorLossGrad", 3, 3, 1, 1, 0, infer_loss_grad, NULL, NULL},
};

const braid_op_family braid_ops_loss = {kOps, sizeof kOps / sizeof *kOps};
