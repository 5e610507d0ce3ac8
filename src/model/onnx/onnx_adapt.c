/* Older forms of ops, rewritten into the newest: by changing attributes and inputs here, by building nodes in
 * onnx_adapt_nodes.c. What each opset changed is in ONNX's operator changelog. */
#include <string.h>

#include "base/try.h"
#include "graph/onnx_dtype.h"
#include "model/onnx/onnx_import.h"

enum { NEWEST = 1 << 30 };

/* An attribute of integers becomes input `index`. */
static braid_status ints_to_input(braid_onnx_call *call, const char *name, size_t index) {
  size_t count;
  const int64_t *values = braid_onnx_call_ints(call, name, &count);
  if (!values) return BRAID_OK;
  braid_value_id input;
  BRAID_TRY(braid_onnx_call_constant_ints(call, values, count, false, &input));
  braid_onnx_call_drop(call, name);
  return braid_onnx_call_set_input(call, index, input);
}

static braid_status floats_to_input(braid_onnx_call *call, const float *values, size_t count, size_t index) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id input;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){(int64_t)count}));
  BRAID_TRY(braid_tensor_create(call->importer->allocator, &desc, &tensor));
  memcpy(braid_tensor_data(tensor), values, count * sizeof *values);
  braid_status status = braid_graph_add_tensor(call->importer->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &input);
  braid_tensor_release(tensor);
  return status == BRAID_OK ? braid_onnx_call_set_input(call, index, input) : status;
}

static braid_status axes_to_input(braid_onnx_call *call) {
  return ints_to_input(call, "axes", 1);
}

static braid_status adapt_unsqueeze(braid_onnx_call *call) {
  if (!braid_onnx_call_attr(call, "axes"))
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute axes is missing");
  return axes_to_input(call);
}

/* The remainder with the divisor's sign was of integers only. */
static braid_status check_mod(braid_onnx_call *call) {
  const braid_desc *known = braid_onnx_call_known(call, braid_onnx_call_input(call, 0));
  if (!known || !braid_dtype_is_float(known->dtype) || braid_onnx_call_int(call, "fmod", 0)) return BRAID_OK;
  return braid_onnx_call_fail(call, BRAID_INVALID_FILE,
                              "fmod is 0 and the inputs are %s, expected fmod 1 before opset 28",
                              braid_dtype_name(known->dtype));
}

static braid_status adapt_slice(braid_onnx_call *call) {
  size_t starts, ends, axes;
  braid_onnx_call_ints(call, "starts", &starts);
  braid_onnx_call_ints(call, "ends", &ends);
  const int64_t *given = braid_onnx_call_ints(call, "axes", &axes);
  if (!starts || starts != ends || (given && axes != starts))
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE,
                                "attributes starts, ends and axes have %zu, %zu and %zu values, expected as many",
                                starts, ends, axes);
  BRAID_TRY(ints_to_input(call, "starts", 1));
  BRAID_TRY(ints_to_input(call, "ends", 2));
  return ints_to_input(call, "axes", 3);
}

/* Without sizes, the outputs share the axis equally: later said by num_outputs. */
static braid_status adapt_split(braid_onnx_call *call) {
  BRAID_TRY(ints_to_input(call, "split", 1));
  if (braid_onnx_call_input(call, 1) >= 0) return BRAID_OK;
  return braid_onnx_call_set_int(call, "num_outputs", (int64_t)call->output_count);
}

static braid_status float_to_input(braid_onnx_call *call, const char *name, size_t index) {
  const braid_attr *attr = braid_onnx_call_attr(call, name);
  if (!attr) return BRAID_OK;
  if (attr->kind != BRAID_ATTR_FLOAT)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s is not a number", name);
  braid_value_id input;
  BRAID_TRY(braid_onnx_call_constant_like(call, attr->f, braid_onnx_call_input(call, 0), &input));
  braid_onnx_call_drop(call, name);
  return braid_onnx_call_set_input(call, index, input);
}

static braid_status adapt_clip(braid_onnx_call *call) {
  BRAID_TRY(float_to_input(call, "min", 1));
  return float_to_input(call, "max", 2);
}

static braid_status adapt_pad(braid_onnx_call *call) {
  BRAID_TRY(ints_to_input(call, "paddings", 1)); /* its name in opset 1 */
  BRAID_TRY(ints_to_input(call, "pads", 1));
  if (braid_onnx_call_input(call, 1) < 0)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute pads is missing");
  return float_to_input(call, "value", 2);
}

static braid_status adapt_reshape(braid_onnx_call *call) {
  size_t count;
  if (!braid_onnx_call_ints(call, "shape", &count))
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute shape is missing");
  return ints_to_input(call, "shape", 1);
}

static braid_status adapt_top_k(braid_onnx_call *call) {
  int64_t k = braid_onnx_call_int(call, "k", -1);
  if (k < 0) return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute k is missing or negative");
  braid_value_id input;
  BRAID_TRY(braid_onnx_call_constant_ints(call, &k, 1, false, &input));
  braid_onnx_call_drop(call, "k");
  return braid_onnx_call_set_input(call, 1, input);
}

static braid_status adapt_concat(braid_onnx_call *call) {
  return braid_onnx_call_set_int(call, "axis", braid_onnx_call_int(call, "axis", 1));
}

static braid_status adapt_dft(braid_onnx_call *call) {
  int64_t axis = braid_onnx_call_int(call, "axis", 1);
  braid_value_id input;
  BRAID_TRY(braid_onnx_call_constant_ints(call, &axis, 1, true, &input));
  braid_onnx_call_drop(call, "axis");
  return braid_onnx_call_set_input(call, 2, input);
}

/* Before opset 6 the type was a name. */
static braid_status adapt_cast(braid_onnx_call *call) {
  const char *name = braid_onnx_call_string(call, "to", NULL);
  if (!name) return BRAID_OK;
  for (int64_t number = 1; strcmp(braid_onnx_dtype_name(number), "unknown") != 0; number++)
    if (strcmp(name, braid_onnx_dtype_name(number)) == 0) return braid_onnx_call_set_int(call, "to", number);
  return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute to is \"%.40s\", expected a type's name", name);
}

static braid_status adapt_scatter(braid_onnx_call *call) {
  call->op = "ScatterElements";
  return BRAID_OK;
}

static braid_status drop_broadcast(braid_onnx_call *call) {
  braid_onnx_call_drop(call, "broadcast");
  return BRAID_OK;
}

static braid_status drop_output_sequence(braid_onnx_call *call) {
  braid_onnx_call_drop(call, "output_sequence"); /* an output is computed if something names it */
  return BRAID_OK;
}

static braid_status adapt_grid_sample(braid_onnx_call *call) {
  const char *mode = braid_onnx_call_string(call, "mode", "bilinear");
  if (strcmp(mode, "bilinear") == 0) return braid_onnx_call_set_string(call, "mode", "linear");
  if (strcmp(mode, "bicubic") == 0) return braid_onnx_call_set_string(call, "mode", "cubic");
  return BRAID_OK;
}

static braid_status adapt_roi_align(braid_onnx_call *call) {
  return braid_onnx_call_set_string(call, "coordinate_transformation_mode", "output_half_pixel");
}

/* Resize as it was before it had modes: output pixel i reads input pixel floor(i / scale). */
static braid_status adapt_resize_10(braid_onnx_call *call) {
  BRAID_TRY(braid_onnx_call_set_input(call, 2, braid_onnx_call_input(call, 1)));
  BRAID_TRY(braid_onnx_call_set_input(call, 1, -1));
  BRAID_TRY(braid_onnx_call_set_string(call, "coordinate_transformation_mode", "asymmetric"));
  return braid_onnx_call_set_string(call, "nearest_mode", "floor");
}

static braid_status adapt_upsample(braid_onnx_call *call) {
  const braid_attr *scales = braid_onnx_call_attr(call, "scales");
  float old[4] = {1, 1, (float)braid_onnx_call_float(call, "height_scale", 0),
                  (float)braid_onnx_call_float(call, "width_scale", 0)};
  if (scales && scales->kind == BRAID_ATTR_FLOATS)
    BRAID_TRY(floats_to_input(call, scales->floats, scales->count, 1));
  else if (old[2] > 0 && old[3] > 0)
    BRAID_TRY(floats_to_input(call, old, 4, 1));
  if (braid_onnx_call_input(call, 1) < 0)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "has neither scales nor height_scale and width_scale");
  braid_onnx_call_drop(call, "scales");
  braid_onnx_call_drop(call, "height_scale");
  braid_onnx_call_drop(call, "width_scale");
  const char *mode = braid_onnx_call_string(call, "mode", "nearest");
  if (strcmp(mode, "bilinear") == 0) BRAID_TRY(braid_onnx_call_set_string(call, "mode", "linear"));
  call->op = "Resize";
  return adapt_resize_10(call);
}

/* An empty roi, scales or sizes says the same as one left out. */
static braid_status adapt_resize(braid_onnx_call *call) {
  for (size_t i = 1; i < call->input_count; i++) {
    const braid_desc *desc = braid_onnx_call_known(call, call->inputs[i]);
    if (desc && desc->rank == 1 && desc->dims[0] == 0) call->inputs[i] = -1;
  }
  return BRAID_OK;
}

/* ONNX Runtime's name, in ONNX's domain, for what ONNX has since opset 23. */
static braid_status adapt_simplified_normalization(braid_onnx_call *call) {
  call->op = "RMSNormalization";
  return BRAID_OK;
}

static braid_status refuse(braid_onnx_call *call) {
  return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "its form in opset %lld", (long long)call->opset);
}

/* The rows of an op stand in the order of their versions; the first that fits is applied. */
static const braid_onnx_adapter kAdapters[] = {
    {"Add", 1, 7, braid_onnx_adapt_broadcast},
    {"And", 1, 7, braid_onnx_adapt_broadcast},
    {"BatchNormalization", 1, 14, braid_onnx_adapt_batch_normalization},
    {"Cast", 1, 6, adapt_cast},
    {"Clip", 1, 11, adapt_clip},
    {"Concat", 1, 4, adapt_concat},
    {"DFT", 17, 20, adapt_dft},
    {"Div", 1, 7, braid_onnx_adapt_broadcast},
    {"Dropout", 1, 12, braid_onnx_adapt_dropout},
    {"Equal", 1, 7, braid_onnx_adapt_broadcast},
    {"GRU", 1, 7, drop_output_sequence},
    {"Gemm", 1, 7, drop_broadcast},
    {"Greater", 1, 7, braid_onnx_adapt_broadcast},
    {"GridSample", 16, 20, adapt_grid_sample},
    {"GroupNormalization", 18, 21, braid_onnx_adapt_group_normalization},
    {"Hardmax", 1, 13, braid_onnx_adapt_softmax},
    {"LSTM", 1, 7, drop_output_sequence},
    {"Less", 1, 7, braid_onnx_adapt_broadcast},
    {"LogSoftmax", 1, 13, braid_onnx_adapt_softmax},
    {"Mod", 10, 28, check_mod},
    {"Mul", 1, 7, braid_onnx_adapt_broadcast},
    {"NegativeLogLikelihoodLoss", 12, NEWEST, braid_onnx_adapt_likelihood_loss},
    {"Or", 1, 7, braid_onnx_adapt_broadcast},
    {"PRelu", 1, 7, braid_onnx_adapt_prelu},
    {"Pad", 1, 11, adapt_pad},
    {"Pow", 1, 7, braid_onnx_adapt_broadcast},
    {"RNN", 1, 7, drop_output_sequence},
    {"ReduceL1", 1, 18, axes_to_input},
    {"ReduceL2", 1, 18, axes_to_input},
    {"ReduceLogSum", 1, 18, axes_to_input},
    {"ReduceLogSumExp", 1, 18, axes_to_input},
    {"ReduceMax", 1, 18, axes_to_input},
    {"ReduceMean", 1, 18, axes_to_input},
    {"ReduceMin", 1, 18, axes_to_input},
    {"ReduceProd", 1, 18, axes_to_input},
    {"ReduceSum", 1, 13, axes_to_input},
    {"ReduceSumSquare", 1, 18, axes_to_input},
    {"Reshape", 1, 5, adapt_reshape},
    {"Resize", 10, 11, adapt_resize_10},
    {"Resize", 11, NEWEST, adapt_resize},
    {"RoiAlign", 10, 16, adapt_roi_align},
    {"Scatter", 9, NEWEST, adapt_scatter},
    {"SimplifiedLayerNormalization", 1, NEWEST, adapt_simplified_normalization},
    {"Slice", 1, 10, adapt_slice},
    {"Softmax", 1, 13, braid_onnx_adapt_softmax},
    {"SoftmaxCrossEntropyLoss", 12, NEWEST, braid_onnx_adapt_cross_entropy_loss},
    {"Split", 1, 18, adapt_split},
    {"Squeeze", 1, 13, axes_to_input},
    {"Sub", 1, 7, braid_onnx_adapt_broadcast},
    {"Tile", 1, 6, refuse},
    {"TopK", 1, 10, adapt_top_k},
    {"Unsqueeze", 1, 13, adapt_unsqueeze},
    {"Upsample", 1, NEWEST, adapt_upsample},
    {"Xor", 1, 7, braid_onnx_adapt_broadcast},
};

braid_status braid_onnx_adapt(braid_onnx_call *call) {
  if (call->opset < 6) braid_onnx_call_drop(call, "consumed_inputs"); /* a hint about memory */
  for (size_t i = 0; i < sizeof kAdapters / sizeof *kAdapters; i++) {
    const braid_onnx_adapter *adapter = &kAdapters[i];
    if (call->opset < adapter->since || call->opset >= adapter->until || strcmp(call->op, adapter->op) != 0) continue;
    return adapter->rewrite(call);
  }
  return BRAID_OK;
}
