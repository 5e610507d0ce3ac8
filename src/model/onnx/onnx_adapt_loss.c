/* ONNX's losses, spelled out in ops that have gradients: the log-probability of each label is picked, weighted, and
 * reduced; labels equal to ignore_index have weight 0. */
#include <string.h>

#include "base/try.h"
#include "model/onnx/onnx_import.h"

typedef struct loss_parts {
  braid_value_id log_prob, labels, weights; /* weights of the classes; -1: none */
  braid_value_id ignored;                   /* bool per label; -1: none is */
  braid_value_id zero, one;                 /* of the scores' type */
} loss_parts;

static braid_status binary(braid_onnx_call *call, const char *op, braid_value_id a, braid_value_id b,
                           braid_value_id *out) {
  return braid_onnx_call_node(call, op, (braid_value_id[]){a, b}, 2, NULL, 0, out);
}

static braid_status where(braid_onnx_call *call, braid_value_id condition, braid_value_id a, braid_value_id b,
                          braid_value_id *out) {
  return braid_onnx_call_node(call, "Where", (braid_value_id[]){condition, a, b}, 3, NULL, 0, out);
}

/* An integer of the labels' type. */
static braid_status label(braid_onnx_call *call, int64_t value, braid_value_id labels, braid_value_id *out) {
  BRAID_TRY(braid_onnx_call_constant_ints(call, &value, 1, true, out));
  return binary(call, "CastLike", *out, labels, out);
}

static braid_status find_ignored(braid_onnx_call *call, loss_parts *parts) {
  const braid_attr *attr = braid_onnx_call_attr(call, "ignore_index");
  braid_value_id ignore, zero;
  parts->ignored = -1;
  if (!attr) return BRAID_OK;
  BRAID_TRY(label(call, attr->i, parts->labels, &ignore));
  BRAID_TRY(label(call, 0, parts->labels, &zero));
  BRAID_TRY(binary(call, "Equal", parts->labels, ignore, &parts->ignored));
  return where(call, parts->ignored, zero, parts->labels, &parts->labels);
}

/* The weight of each label; -1: all are 1. */
static braid_status label_weights(braid_onnx_call *call, const loss_parts *parts, braid_value_id *out) {
  *out = -1;
  if (parts->weights >= 0) BRAID_TRY(binary(call, "Gather", parts->weights, parts->labels, out));
  if (parts->ignored < 0) return BRAID_OK;
  return where(call, parts->ignored, parts->zero, *out < 0 ? parts->one : *out, out);
}

static braid_status reduce(braid_onnx_call *call, const char *op, braid_value_id value, braid_value_id *out) {
  return braid_onnx_call_node(call, op, &value, 1, "keepdims", 0, out);
}

static braid_status negative_log_likelihood(braid_onnx_call *call, loss_parts *parts, braid_value_id *out) {
  const char *reduction = braid_onnx_call_string(call, "reduction", "mean");
  bool mean = strcmp(reduction, "mean") == 0, sum = strcmp(reduction, "sum") == 0;
  if (!mean && !sum && strcmp(reduction, "none") != 0)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "reduction is \"%.40s\"", reduction);
  braid_value_id axis, loss, weights, total;
  BRAID_TRY(find_ignored(call, parts));
  BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){1}, 1, false, &axis));
  BRAID_TRY(binary(call, "Unsqueeze", parts->labels, axis, &loss));
  BRAID_TRY(
      braid_onnx_call_node(call, "GatherElements", (braid_value_id[]){parts->log_prob, loss}, 2, "axis", 1, &loss));
  BRAID_TRY(binary(call, "Squeeze", loss, axis, &loss));
  BRAID_TRY(braid_onnx_call_node(call, "Neg", &loss, 1, NULL, 0, &loss));
  BRAID_TRY(label_weights(call, parts, &weights));
  if (weights >= 0) BRAID_TRY(binary(call, "Mul", loss, weights, &loss));
  if (sum || (mean && weights >= 0)) BRAID_TRY(reduce(call, "ReduceSum", loss, &loss));
  if (mean && weights < 0) BRAID_TRY(reduce(call, "ReduceMean", loss, &loss));
  if (mean && weights >= 0) {
    BRAID_TRY(reduce(call, "ReduceSum", weights, &total));
    BRAID_TRY(binary(call, "Div", loss, total, &loss));
  }
  *out = loss;
  return BRAID_OK;
}

static braid_status begin(braid_onnx_call *call, loss_parts *parts) {
  *parts = (loss_parts){.log_prob = braid_onnx_call_input(call, 0),
                        .labels = braid_onnx_call_input(call, 1),
                        .weights = braid_onnx_call_input(call, 2)};
  if (parts->log_prob < 0 || parts->labels < 0)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "expected scores and labels");
  BRAID_TRY(braid_onnx_call_constant_like(call, 0, parts->log_prob, &parts->zero));
  return braid_onnx_call_constant_like(call, 1, parts->log_prob, &parts->one);
}

braid_status braid_onnx_adapt_likelihood_loss(braid_onnx_call *call) {
  loss_parts parts;
  braid_value_id loss;
  BRAID_TRY(begin(call, &parts));
  BRAID_TRY(negative_log_likelihood(call, &parts, &loss));
  braid_onnx_call_replace(call, loss);
  return BRAID_OK;
}

braid_status braid_onnx_adapt_cross_entropy_loss(braid_onnx_call *call) {
  loss_parts parts;
  braid_value_id loss;
  BRAID_TRY(begin(call, &parts));
  BRAID_TRY(braid_onnx_call_node(call, "LogSoftmax", &parts.log_prob, 1, "axis", 1, &parts.log_prob));
  braid_value_id log_prob = parts.log_prob;
  BRAID_TRY(negative_log_likelihood(call, &parts, &loss));
  braid_onnx_call_replace(call, loss);
  if (call->output_count > 1 && call->outputs[1] >= 0) call->outputs[1] = log_prob;
  return BRAID_OK;
}
