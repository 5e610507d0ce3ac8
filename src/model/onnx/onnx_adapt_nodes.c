/* Adapters that put several nodes in place of one. */
#include "base/try.h"
#include "model/onnx/onnx_import.h"

/* Unsqueezes `value` by the axes [first, first + count). */
static braid_status unsqueeze(braid_onnx_call *call, braid_value_id value, int64_t first, int64_t count,
                              braid_value_id *out) {
  int64_t axes[BRAID_MAX_RANK];
  for (int64_t i = 0; i < count; i++) axes[i] = first + i;
  braid_value_id list;
  BRAID_TRY(braid_onnx_call_constant_ints(call, axes, (size_t)count, false, &list));
  return braid_onnx_call_node(call, "Unsqueeze", (braid_value_id[]){value, list}, 2, NULL, 0, out);
}

/* Before opset 7, B was broadcast only if `broadcast` said so, and its first dimension stood at `axis` of A. */
braid_status braid_onnx_adapt_broadcast(braid_onnx_call *call) {
  bool broadcast = braid_onnx_call_int(call, "broadcast", 0), placed = braid_onnx_call_attr(call, "axis");
  int64_t axis = braid_onnx_call_int(call, "axis", 0);
  braid_onnx_call_drop(call, "broadcast");
  braid_onnx_call_drop(call, "axis");
  if (!broadcast || !placed) return BRAID_OK; /* aligned at the last dimension, as later */
  const braid_desc *a = braid_onnx_call_known(call, braid_onnx_call_input(call, 0));
  const braid_desc *b = braid_onnx_call_known(call, braid_onnx_call_input(call, 1));
  if (!a || !b)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "attribute axis, where the shapes are not known in the file");
  if (axis < 0) axis += a->rank;
  if (axis < 0 || axis + b->rank > a->rank)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute axis is %lld for inputs of %d and %d dimensions",
                                (long long)axis, a->rank, b->rank);
  int64_t trailing = a->rank - axis - b->rank;
  return trailing ? unsqueeze(call, call->inputs[1], b->rank, trailing, &call->inputs[1]) : BRAID_OK;
}

/* A list of slopes belonged to the channels. */
braid_status braid_onnx_adapt_prelu(braid_onnx_call *call) {
  const braid_desc *x = braid_onnx_call_known(call, braid_onnx_call_input(call, 0));
  const braid_desc *slope = braid_onnx_call_known(call, braid_onnx_call_input(call, 1));
  if (!slope || slope->rank != 1 || slope->dims[0] == 1) return BRAID_OK;
  if (!x) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "slopes, where the input's shape is not in the file");
  return x->rank > 2 ? unsqueeze(call, call->inputs[1], 1, x->rank - 2, &call->inputs[1]) : BRAID_OK;
}

/* Before opset 13 the input was seen as a matrix, split at `axis`, and each row of it normalized. */
braid_status braid_onnx_adapt_softmax(braid_onnx_call *call) {
  int64_t axis = braid_onnx_call_int(call, "axis", 1);
  BRAID_TRY(braid_onnx_call_set_int(call, "axis", -1));
  braid_value_id x = braid_onnx_call_input(call, 0), shape, matrix, result;
  if (x < 0) return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "has no input");
  const braid_desc *desc = braid_onnx_call_known(call, x);
  if (axis == -1 || (desc && axis == desc->rank - 1)) return BRAID_OK;
  BRAID_TRY(braid_onnx_call_node(call, "Shape", &x, 1, NULL, 0, &shape));
  BRAID_TRY(braid_onnx_call_node(call, "Flatten", &x, 1, "axis", axis, &matrix));
  BRAID_TRY(braid_onnx_call_node(call, call->op, &matrix, 1, "axis", -1, &result));
  BRAID_TRY(braid_onnx_call_node(call, "Reshape", (braid_value_id[]){result, shape}, 2, "allowzero", 1, &result));
  braid_onnx_call_replace(call, result);
  return BRAID_OK;
}

/* (x - mean) / sqrt(variance + epsilon) * scale + bias, each of the shape of one example. */
static braid_status normalize_per_activation(braid_onnx_call *call, double epsilon) {
  const braid_value_id *in = call->inputs;
  braid_value_id small, deviation, y;
  BRAID_TRY(braid_onnx_call_constant_like(call, epsilon, in[4], &small));
  BRAID_TRY(braid_onnx_call_node(call, "Add", (braid_value_id[]){in[4], small}, 2, NULL, 0, &deviation));
  BRAID_TRY(braid_onnx_call_node(call, "Sqrt", &deviation, 1, NULL, 0, &deviation));
  BRAID_TRY(braid_onnx_call_node(call, "Sub", (braid_value_id[]){in[0], in[3]}, 2, NULL, 0, &y));
  BRAID_TRY(braid_onnx_call_node(call, "Div", (braid_value_id[]){y, deviation}, 2, NULL, 0, &y));
  BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){y, in[1]}, 2, NULL, 0, &y));
  BRAID_TRY(braid_onnx_call_node(call, "Add", (braid_value_id[]){y, in[2]}, 2, NULL, 0, &y));
  braid_onnx_call_replace(call, y);
  return BRAID_OK;
}

/* Whether it trained was said by is_test before opset 7, then by the number of outputs, of which the last two (saved
 * for a gradient) are gone. */
braid_status braid_onnx_adapt_batch_normalization(braid_onnx_call *call) {
  bool is_test = braid_onnx_call_int(call, "is_test", 0) && call->opset < 7;
  bool spatial = braid_onnx_call_int(call, "spatial", 1) || call->opset >= 9, training = false;
  braid_onnx_call_drop(call, "is_test");
  braid_onnx_call_drop(call, "spatial");
  for (size_t i = 1; i < call->output_count; i++) {
    if (call->outputs[i] < 0) continue;
    if (i >= 3) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "outputs saved_mean and saved_var");
    training = !is_test;
  }
  if (call->input_count != 5)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "has %zu inputs, expected 5", call->input_count);
  if (call->output_count > 3) call->output_count = 3;
  if (!spatial && training) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "attribute spatial = 0 in training");
  if (!spatial) return normalize_per_activation(call, braid_onnx_call_float(call, "epsilon", 1e-5));
  if (training) return braid_onnx_call_set_int(call, "training_mode", 1);
  call->output_count = 1;
  return BRAID_OK;
}

/* Opset 18 had one scale and bias per group; repeated for each channel of the group. */
static braid_status per_channel(braid_onnx_call *call, int64_t groups, size_t index) {
  braid_value_id x = call->inputs[0], count, divisor, shape, list;
  braid_node_id node;
  braid_value_id channels = 0;
  BRAID_TRY(braid_graph_add_node(call->importer->graph, "Shape", NULL, &x, 1, &channels, 1, &node));
  BRAID_TRY(braid_graph_set_int(call->importer->graph, node, "start", 1));
  BRAID_TRY(braid_graph_set_int(call->importer->graph, node, "end", 2));
  BRAID_TRY(braid_onnx_call_constant_ints(call, &groups, 1, false, &divisor));
  BRAID_TRY(braid_onnx_call_node(call, "Div", (braid_value_id[]){channels, divisor}, 2, NULL, 0, &count));
  BRAID_TRY(braid_onnx_call_node(call, "Concat", (braid_value_id[]){divisor, count}, 2, "axis", 0, &shape));
  BRAID_TRY(unsqueeze(call, call->inputs[index], 1, 1, &list));
  BRAID_TRY(braid_onnx_call_node(call, "Expand", (braid_value_id[]){list, shape}, 2, NULL, 0, &list));
  return braid_onnx_call_node(call, "Reshape", (braid_value_id[]){list, channels}, 2, "allowzero", 1,
                              &call->inputs[index]);
}

braid_status braid_onnx_adapt_group_normalization(braid_onnx_call *call) {
  int64_t groups = braid_onnx_call_int(call, "num_groups", 0);
  if (groups <= 0 || call->input_count != 3 || call->inputs[0] < 0 || call->inputs[1] < 0 || call->inputs[2] < 0)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "expected three inputs and num_groups > 0");
  BRAID_TRY(per_channel(call, groups, 1));
  return per_channel(call, groups, 2);
}

/* The ratio was an attribute, and the mask of the data's type before opset 10. Files of that age are inference graphs:
 * is_test = 0 was written by default and means nothing. */
braid_status braid_onnx_adapt_dropout(braid_onnx_call *call) {
  braid_value_id x = braid_onnx_call_input(call, 0), ratio;
  if (x < 0) return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "has no input");
  BRAID_TRY(braid_onnx_call_constant_float(call, (float)braid_onnx_call_float(call, "ratio", 0.5), &ratio));
  braid_onnx_call_drop(call, "ratio");
  braid_onnx_call_drop(call, "is_test");
  BRAID_TRY(braid_onnx_call_set_input(call, 1, ratio));
  if (call->opset >= 10 || call->output_count < 2 || call->outputs[1] < 0) return BRAID_OK;
  BRAID_TRY(braid_onnx_call_emit(call));
  call->done = true;
  return braid_onnx_call_node(call, "CastLike", (braid_value_id[]){call->outputs[1], x}, 2, NULL, 0, &call->outputs[1]);
}
