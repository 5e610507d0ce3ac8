#include "train/loss.h"

#include "base/try.h"
#include "graph/graph.h"

static const char *const kTargets[] = {"classes", "labels", "numbers"};

static bool fits(braid_loss loss, braid_target_kind target) {
  switch (loss) {
  case BRAID_CROSS_ENTROPY:
  case BRAID_SQUARED_HINGE:
    return target == BRAID_TARGET_CLASS;
  case BRAID_SQUARED_ERROR:
    return target != BRAID_TARGET_LABELS;
  case BRAID_BINARY_CROSS_ENTROPY:
    return target == BRAID_TARGET_LABELS;
  case BRAID_ABSOLUTE_ERROR:
  case BRAID_HUBER:
    return target == BRAID_TARGET_NUMBERS;
  case BRAID_OUTPUT_LOSS:
    return true;
  }
  return false;
}

braid_loss braid_loss_of(braid_target_kind target) {
  static const braid_loss kLosses[] = {BRAID_CROSS_ENTROPY, BRAID_BINARY_CROSS_ENTROPY, BRAID_SQUARED_ERROR};
  return kLosses[target];
}

const char *braid_loss_name(braid_loss loss) {
  static const char *const kNames[] = {"cross-entropy", "squared-error", "binary-cross-entropy", "absolute-error",
                                       "huber",         "output",        "squared-hinge"};
  return kNames[loss];
}

static braid_status check_weights(const char *what, const double *weights, size_t count, int classes) {
  if (!weights || count == (size_t)classes) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%zu %s weights are given, the data set has %d classes", count, what,
                    classes);
}

braid_status braid_loss_check(const braid_train_options *o, const braid_dataset_info *info) {
  if (!fits(o->loss, info->target))
    return braid_fail(BRAID_INVALID_ARGUMENT, "the loss %s is not of targets that are %s; %s is",
                      braid_loss_name(o->loss), kTargets[info->target], braid_loss_name(braid_loss_of(info->target)));
  if (o->loss == BRAID_OUTPUT_LOSS && o->monitor == BRAID_MONITOR_ACCURACY)
    return braid_fail(BRAID_INVALID_ARGUMENT, "where an output is the loss there is no accuracy to compare epochs by");
  if (info->target == BRAID_TARGET_NUMBERS && o->monitor == BRAID_MONITOR_ACCURACY)
    return braid_fail(BRAID_INVALID_ARGUMENT, "targets that are numbers have no accuracy to compare epochs by");
  BRAID_TRY(check_weights("class", o->class_weights, o->class_weight_count, info->classes));
  return check_weights("positive", o->positive_weights, o->positive_weight_count, info->classes);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
static braid_status add_numbers(braid_graph *graph, const double *numbers, int rank, int64_t count,
                                braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  *out = -1;
  if (!numbers) return BRAID_OK;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, rank, &count));
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &tensor));
  for (int64_t i = 0; i < count; i++) braid_tensor_set_f64(tensor, i, numbers[i]);
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* One node; `b` -1: it has one operand. */
static braid_status apply(braid_graph *graph, const char *op, braid_value_id a, braid_value_id b, braid_value_id *out) {
  *out = 0;
  return braid_graph_add_node(graph, op, NULL, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, out, 1, NULL);
}

static braid_status mean_of(braid_graph *graph, braid_value_id each, braid_value_id *loss) {
  braid_node_id node;
  *loss = 0;
  BRAID_TRY(braid_graph_add_node(graph, "ReduceMean", "loss", &each, 1, loss, 1, &node));
  return braid_graph_set_int(graph, node, "keepdims", 0);
}

/* weight * (positive * t * softplus(-x) + (1 - t) * softplus(x)), which neither overflows nor cancels. */
static braid_status binary_cross_entropy(braid_graph *graph, const braid_loss_inputs *in, braid_value_id t,
                                         braid_value_id *each) {
  braid_value_id x = in->scores, minus, present, absent, one, rest;
  BRAID_TRY(add_numbers(graph, (double[]){1}, 0, 1, &one));
  BRAID_TRY(apply(graph, "Neg", x, -1, &minus));
  BRAID_TRY(apply(graph, "Softplus", minus, -1, &present));
  BRAID_TRY(apply(graph, "Mul", present, t, &present));
  if (in->positive_weights >= 0) BRAID_TRY(apply(graph, "Mul", present, in->positive_weights, &present));
  BRAID_TRY(apply(graph, "Softplus", x, -1, &absent));
  BRAID_TRY(apply(graph, "Sub", one, t, &rest));
  BRAID_TRY(apply(graph, "Mul", absent, rest, &absent));
  BRAID_TRY(apply(graph, "Add", present, absent, each));
  return in->class_weights < 0 ? BRAID_OK : apply(graph, "Mul", *each, in->class_weights, each);
}

/* c * (d - c / 2), with c the difference d limited to [-delta, delta]. */
static braid_status huber(braid_graph *graph, double delta, braid_value_id difference, braid_value_id *each) {
  braid_value_id least, most, half, limited, less;
  BRAID_TRY(add_numbers(graph, (double[]){-delta}, 0, 1, &least));
  BRAID_TRY(add_numbers(graph, &delta, 0, 1, &most));
  BRAID_TRY(add_numbers(graph, (double[]){0.5}, 0, 1, &half));
  BRAID_TRY(apply(graph, "Min", difference, most, &limited));
  BRAID_TRY(apply(graph, "Max", limited, least, &limited));
  BRAID_TRY(apply(graph, "Mul", limited, half, &less));
  BRAID_TRY(apply(graph, "Sub", difference, less, &less));
  return apply(graph, "Mul", limited, less, each);
}

static braid_status error_of_numbers(braid_graph *graph, const braid_train_options *options, braid_value_id scores,
                                     braid_value_id targets, braid_value_id *each) {
  braid_value_id difference;
  BRAID_TRY(apply(graph, "Sub", scores, targets, &difference));
  if (options->loss == BRAID_ABSOLUTE_ERROR) return apply(graph, "Abs", difference, -1, each);
  if (options->loss == BRAID_HUBER) return huber(graph, options->huber_delta, difference, each);
  return apply(graph, "Mul", difference, difference, each);
}

static braid_status error_of_classes(braid_graph *graph, const braid_train_options *options,
                                     const braid_loss_inputs *in, braid_value_id labels, braid_value_id *loss) {
  bool cross_entropy = options->loss == BRAID_CROSS_ENTROPY;
  braid_node_id node;
  *loss = 0;
  BRAID_TRY(braid_graph_add_node(graph, cross_entropy ? "CrossEntropyLoss" : "SquaredErrorLoss", "loss",
                                 (braid_value_id[]){in->scores, labels, in->class_weights},
                                 in->class_weights < 0 ? 2 : 3, loss, 1, &node));
  if (cross_entropy) BRAID_TRY(braid_graph_set_float(graph, node, "label_smoothing", options->label_smoothing));
  return BRAID_OK;
}

braid_status braid_loss_prepare(braid_graph *graph, const braid_train_options *options, braid_value_id scores,
                                braid_loss_inputs *out) {
  out->scores = scores;
  BRAID_TRY(add_numbers(graph, options->class_weights, 1, (int64_t)options->class_weight_count, &out->class_weights));
  return add_numbers(graph, options->positive_weights, 1, (int64_t)options->positive_weight_count,
                     &out->positive_weights);
}

braid_status braid_loss_add(braid_graph *graph, const braid_train_options *options, braid_target_kind kind,
                            const braid_loss_inputs *in, braid_value_id targets, braid_value_id *loss) {
  braid_value_id each;
  if (kind == BRAID_TARGET_CLASS) return error_of_classes(graph, options, in, targets, loss);
  if (kind == BRAID_TARGET_LABELS)
    BRAID_TRY(binary_cross_entropy(graph, in, targets, &each));
  else
    BRAID_TRY(error_of_numbers(graph, options, in->scores, targets, &each));
  return mean_of(graph, each, loss);
}
