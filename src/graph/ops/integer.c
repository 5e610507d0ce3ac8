/* Training in integers: docs/integer-training.md is the contract of every op here. Backward ops are nodes of their own,
 * placed by the training graph (train/integer), not by braid_graph_gradients: what flows back is not a derivative but
 * an error with an exponent. */
#include "graph/integer.h"

#include <string.h>

#include "base/try.h"
#include "graph/graph.h"

enum { kMostPositions = 1 << 24 }; /* of a batch normalization */

static braid_status integer_prefixed(const braid_infer *infer, braid_status status) {
  if (status == BRAID_OK) return BRAID_OK;
  return braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, infer->node->op->name);
}

/* --- checks --------------------------------------------------------------------------------------------------------
 */
static braid_status check_type(const braid_infer *infer, size_t index, braid_dtype dtype, braid_dtype other) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc) return braid_infer_fail(infer, "input %zu is missing", index);
  if (desc->dtype == dtype || desc->dtype == other) return BRAID_OK;
  return braid_infer_fail(infer, "input %zu is %s; %s is expected", index, braid_dtype_name(desc->dtype),
                          braid_dtype_name(dtype));
}

static braid_status check_one(const braid_infer *infer, size_t index, braid_dtype dtype) {
  BRAID_TRY(check_type(infer, index, dtype, dtype));
  if (braid_desc_count(braid_infer_input(infer, index)) == 1) return BRAID_OK;
  return braid_infer_fail(infer, "input %zu is not one number", index);
}

static braid_status check_like(const braid_infer *infer, size_t index, size_t like) {
  if (braid_desc_same_shape(braid_infer_input(infer, index), braid_infer_input(infer, like))) return BRAID_OK;
  return braid_infer_fail(infer, "inputs %zu and %zu differ in shape", like, index);
}

static braid_status check_range(const braid_infer *infer, const char *name, int64_t low, int64_t high) {
  int64_t value = braid_attr_int(&infer->node->attrs, name, low > 0 ? -1 : 0);
  if (value >= low && value <= high) return BRAID_OK;
  return braid_infer_fail(infer, "%s is %lld, not within %lld and %lld", name, (long long)value, (long long)low,
                          (long long)high);
}

static braid_status give_like(const braid_infer *infer, size_t output, braid_dtype dtype, size_t input) {
  const braid_desc *desc = braid_infer_input(infer, input);
  return braid_infer_output(infer, output, dtype, desc->rank, desc->dims);
}

static braid_status give_one(const braid_infer *infer, size_t output, braid_dtype dtype) {
  return braid_infer_output(infer, output, dtype, 0, NULL);
}

/* A tensor of the result's rank: planes first, then the spatial dimensions, which rank 2 lacks. */
static braid_status give_windows(const braid_infer *infer, size_t output, braid_dtype dtype, int rank, int64_t first,
                                 int64_t second, const int64_t *spatial) {
  int64_t dims[BRAID_MAX_RANK] = {first, second};
  for (int i = 2; i < rank; i++) dims[i] = spatial[BRAID_WINDOW_RANK - rank + i];
  return braid_infer_output(infer, output, dtype, rank, dims);
}

/* --- element by element --------------------------------------------------------------------------------------------
 */
static braid_status infer_input(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_F32, BRAID_F32));
  BRAID_TRY(check_range(infer, "bits", 2, 8));
  BRAID_TRY(check_range(infer, "shift", 0, 30));
  return give_like(infer, 0, BRAID_I8, 0);
}

static braid_status infer_quantize(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I16));
  BRAID_TRY(check_range(infer, "bits", 2, 8));
  BRAID_TRY(check_range(infer, "shift", 0, 14));
  return give_like(infer, 0, BRAID_I8, 0);
}

static braid_status infer_relu(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  return give_like(infer, 0, BRAID_I8, 0);
}

/* IntegerAdd and IntegerReluGrad. */
static braid_status infer_two(const braid_infer *infer) {
  BRAID_TRY(check_range(infer, "bits", 2, 8));
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_type(infer, 1, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_like(infer, 1, 0));
  return give_like(infer, 0, BRAID_I8, 0);
}

static braid_status infer_error_sum(const braid_infer *infer) {
  for (size_t i = 0; i < 4; i += 2) {
    BRAID_TRY(check_type(infer, i, BRAID_I8, BRAID_I8));
    BRAID_TRY(check_one(infer, i + 1, BRAID_I32));
  }
  BRAID_TRY(check_like(infer, 2, 0));
  BRAID_TRY(give_like(infer, 0, BRAID_I32, 0));
  BRAID_TRY(give_one(infer, 1, BRAID_I32));
  return give_one(infer, 2, BRAID_I32);
}

/* IntegerScaleError, with y of the rectifier behind it IntegerScaleErrorRelu. */
static braid_status infer_scale_error(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I32, BRAID_I64));
  BRAID_TRY(check_one(infer, 1, braid_infer_input(infer, 0)->dtype));
  BRAID_TRY(check_one(infer, 2, BRAID_I32));
  BRAID_TRY(check_one(infer, 3, BRAID_I64));
  BRAID_TRY(check_range(infer, "bits", 2, 8));
  BRAID_TRY(check_range(infer, "first", 0, INT64_MAX));
  if (braid_infer_inputs(infer) > 4) {
    BRAID_TRY(check_type(infer, 4, BRAID_I8, BRAID_I8));
    BRAID_TRY(check_like(infer, 4, 0));
    BRAID_TRY(check_range(infer, "relu_bits", 2, 8));
  }
  BRAID_TRY(give_like(infer, 0, BRAID_I8, 0));
  return give_one(infer, 1, BRAID_I32);
}

static braid_status infer_magnitude(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I32, BRAID_I64));
  return give_one(infer, 0, braid_infer_input(infer, 0)->dtype);
}

static braid_status infer_update(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I16));
  BRAID_TRY(check_type(infer, 1, BRAID_I32, BRAID_I64));
  BRAID_TRY(check_like(infer, 1, 0));
  BRAID_TRY(check_one(infer, 2, braid_infer_input(infer, 1)->dtype));
  BRAID_TRY(check_one(infer, 3, BRAID_I32));
  BRAID_TRY(check_one(infer, 4, BRAID_I64));
  BRAID_TRY(check_range(infer, "bits", 8, braid_infer_input(infer, 0)->dtype == BRAID_I8 ? 8 : 16));
  BRAID_TRY(check_range(infer, "slower", 0, 8));
  return give_like(infer, 0, braid_infer_input(infer, 0)->dtype, 0);
}

static braid_status infer_momentum(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I16));
  BRAID_TRY(check_type(infer, 1, BRAID_I16, BRAID_I16));
  BRAID_TRY(check_like(infer, 1, 0));
  BRAID_TRY(check_type(infer, 2, BRAID_I32, BRAID_I64));
  BRAID_TRY(check_like(infer, 2, 0));
  BRAID_TRY(check_one(infer, 3, BRAID_I32));
  BRAID_TRY(check_one(infer, 4, BRAID_I32));
  BRAID_TRY(check_one(infer, 5, BRAID_I64));
  BRAID_TRY(check_range(infer, "bits", 8, braid_infer_input(infer, 0)->dtype == BRAID_I8 ? 8 : 16));
  BRAID_TRY(check_range(infer, "place", -128, 128));
  BRAID_TRY(check_range(infer, "decay", 0, 30));
  BRAID_TRY(give_like(infer, 0, braid_infer_input(infer, 0)->dtype, 0));
  return give_like(infer, 1, BRAID_I16, 0);
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
static braid_status check_bytes(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  return check_type(infer, 1, BRAID_I8, BRAID_I8);
}

static braid_status infer_conv(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(check_bytes(infer));
  BRAID_TRY(check_range(infer, "bits", 2, 16));
  BRAID_TRY(check_range(infer, "shift", 0, 40));
  const braid_desc *x = braid_infer_input(infer, 0);
  BRAID_TRY(integer_prefixed(infer, braid_integer_conv(&infer->node->attrs, x, braid_infer_input(infer, 1), &conv)));
  bool byte = braid_attr_int(&infer->node->attrs, "bits", 8) <= 8;
  return give_windows(infer, 0, byte ? BRAID_I8 : BRAID_I16, x->rank, conv.batch, conv.outputs, conv.window.output);
}

static braid_status infer_conv_grad_input(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(check_bytes(infer));
  const braid_desc *e = braid_infer_input(infer, 0), *w = braid_infer_input(infer, 1);
  BRAID_TRY(integer_prefixed(infer, braid_integer_conv_grad_input(&infer->node->attrs, e, w, &conv)));
  braid_dtype raw = braid_integer_raw(braid_integer_fan_out(&conv));
  BRAID_TRY(give_windows(infer, 0, raw, e->rank, conv.batch, conv.inputs, conv.window.input));
  return give_one(infer, 1, raw);
}

static braid_status infer_conv_grad_filter(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(check_bytes(infer));
  const braid_desc *x = braid_infer_input(infer, 0), *e = braid_infer_input(infer, 1);
  BRAID_TRY(integer_prefixed(infer, braid_integer_conv_grad_filter(&infer->node->attrs, x, e, &conv)));
  if (braid_integer_fan_batch(&conv) > UINT32_MAX)
    return braid_infer_fail(infer, "%lld products in a sum; fewer than 2^32 are expected",
                            (long long)braid_integer_fan_batch(&conv));
  braid_dtype raw = braid_integer_raw(braid_integer_fan_batch(&conv));
  BRAID_TRY(give_windows(infer, 0, raw, x->rank, conv.outputs, conv.inputs / conv.groups, conv.window.kernel));
  return give_one(infer, 1, raw);
}

static int64_t integer_conv_macs(const braid_graph *graph, const braid_node *node) {
  braid_convolution conv;
  const braid_desc *first = &graph->values[node->inputs[0]].desc, *second = &graph->values[node->inputs[1]].desc;
  bool input = node->op->infer == infer_conv_grad_input, filter = node->op->infer == infer_conv_grad_filter;
  braid_status status = input    ? braid_integer_conv_grad_input(&node->attrs, first, second, &conv)
                        : filter ? braid_integer_conv_grad_filter(&node->attrs, first, second, &conv)
                                 : braid_integer_conv(&node->attrs, first, second, &conv);
  return status == BRAID_OK ? braid_integer_fan_batch(&conv) * conv.outputs * braid_integer_fan_in(&conv) : 0;
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static braid_status infer_max_pool(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  const braid_desc *x = braid_infer_input(infer, 0);
  if (x->rank != 4) return braid_infer_fail(infer, "input 0 has rank %d; 4 is expected", x->rank);
  BRAID_TRY(integer_prefixed(infer, braid_geometry_pool(&infer->node->attrs, x, &window)));
  if (braid_window_volume(&window) > 256) return braid_infer_fail(infer, "windows of more than 256 positions");
  BRAID_TRY(give_windows(infer, 0, BRAID_I8, x->rank, x->dims[0], x->dims[1], window.output));
  return give_windows(infer, 1, BRAID_U8, x->rank, x->dims[0], x->dims[1], window.output);
}

static braid_status check_unpadded(const braid_infer *infer, const braid_window *window) {
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) {
    int64_t reach = (window->output[i] - 1) * window->stride[i] + (window->kernel[i] - 1) * window->dilation[i] + 1;
    if (window->begin[i] != 0 || reach > window->input[i]) return braid_infer_fail(infer, "windows reach into padding");
  }
  return BRAID_OK;
}

static braid_status infer_average_pool(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  const braid_desc *x = braid_infer_input(infer, 0);
  if (x->rank != 4) return braid_infer_fail(infer, "input 0 has rank %d; 4 is expected", x->rank);
  BRAID_TRY(integer_prefixed(infer, braid_geometry_pool(&infer->node->attrs, x, &window)));
  BRAID_TRY(check_unpadded(infer, &window));
  if (braid_window_volume(&window) > BRAID_INTEGER_PRODUCTS)
    return braid_infer_fail(infer, "windows of more than %d positions", BRAID_INTEGER_PRODUCTS);
  return give_windows(infer, 0, BRAID_I8, x->rank, x->dims[0], x->dims[1], window.output);
}

/* y of the rectifier behind IntegerMaxPoolGradRelu, over the image. */
static braid_status check_rectified(const braid_infer *infer, const braid_window *window) {
  BRAID_TRY(check_type(infer, 2, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_range(infer, "bits", 2, 8));
  const braid_desc *e = braid_infer_input(infer, 0), *y = braid_infer_input(infer, 2);
  const int64_t dims[] = {e->dims[0], e->dims[1], window->input[1], window->input[2]};
  if (y->rank != 4 || memcmp(y->dims, dims, sizeof dims) != 0)
    return braid_infer_fail(infer, "input 2 is not of the image's shape");
  if (braid_integer_overlaps(window)) return braid_infer_fail(infer, "windows overlap: their errors are raw");
  return BRAID_OK;
}

static braid_status infer_pool_grad(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  const braid_desc *e = braid_infer_input(infer, 0);
  if (e->rank != 4) return braid_infer_fail(infer, "input 0 has rank %d; 4 is expected", e->rank);
  if (braid_infer_inputs(infer) > 1) {
    BRAID_TRY(check_type(infer, 1, BRAID_U8, BRAID_U8));
    BRAID_TRY(check_like(infer, 1, 0));
  }
  BRAID_TRY(integer_prefixed(infer, braid_geometry_pool_grad(&infer->node->attrs, e, &window)));
  if (braid_window_volume(&window) > BRAID_INTEGER_PRODUCTS)
    return braid_infer_fail(infer, "windows of more than %d positions", BRAID_INTEGER_PRODUCTS);
  if (braid_infer_inputs(infer) > 2) BRAID_TRY(check_rectified(infer, &window));
  bool raw = braid_integer_overlaps(&window);
  if (!raw && infer->node->output_count > 1 && infer->node->outputs[1] >= 0)
    return braid_infer_fail(infer, "windows that do not overlap have no magnitude");
  BRAID_TRY(give_windows(infer, 0, raw ? BRAID_I32 : BRAID_I8, e->rank, e->dims[0], e->dims[1], window.input));
  return give_one(infer, 1, BRAID_I32);
}

/* --- batch normalization -------------------------------------------------------------------------------------------
 */
static braid_status check_channels(const braid_infer *infer, size_t index, braid_dtype dtype, braid_dtype other) {
  BRAID_TRY(check_type(infer, index, dtype, other));
  const braid_desc *desc = braid_infer_input(infer, index), *x = braid_infer_input(infer, 0);
  if (desc->rank == 1 && desc->dims[0] == x->dims[1]) return BRAID_OK;
  return braid_infer_fail(infer, "input %zu is not one number for each of %lld channels", index, (long long)x->dims[1]);
}

/* Two sums for each channel, of a batch of which the operands are a slice; its size is the attribute `batch`. */
static braid_status check_sums(const braid_infer *infer, size_t index) {
  const braid_desc *x = braid_infer_input(infer, 0), *sums = braid_infer_input(infer, index);
  int64_t batch = braid_attr_int(&infer->node->attrs, "batch", 0), most = kMostPositions;
  if (!sums) return BRAID_OK;
  BRAID_TRY(check_type(infer, index, BRAID_I64, BRAID_I64));
  if (sums->rank != 2 || sums->dims[0] != 2 || sums->dims[1] != x->dims[1])
    return braid_infer_fail(infer, "input %zu is not two sums for each channel", index);
  for (int i = 2; i < x->rank && x->dims[i] > 0; i++) most /= x->dims[i];
  if (batch >= x->dims[0] && batch <= most) return BRAID_OK;
  return braid_infer_fail(infer, "batch is %lld, not within the slice's %lld and %lld", (long long)batch,
                          (long long)x->dims[0], (long long)most);
}

static braid_status check_channels_of(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  if (x->rank < 2) return braid_infer_fail(infer, "input 0 has no channels");
  int64_t count = braid_desc_count(x), channels = x->dims[1];
  if (channels > 0 && count / channels > kMostPositions)
    return braid_infer_fail(infer, "more than 2^24 elements in a channel");
  return BRAID_OK;
}

static braid_status check_normalized(const braid_infer *infer) {
  BRAID_TRY(check_channels_of(infer));
  BRAID_TRY(check_range(infer, "bits", 2, 8));
  return check_range(infer, "parameter_bits", 8, 16);
}

static braid_status infer_batch_normalization(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I16, BRAID_I16));
  BRAID_TRY(check_normalized(infer));
  BRAID_TRY(check_channels(infer, 1, BRAID_I8, BRAID_I16));
  BRAID_TRY(check_channels(infer, 2, braid_infer_input(infer, 1)->dtype, BRAID_NONE));
  BRAID_TRY(check_channels(infer, 3, BRAID_I32, BRAID_NONE));
  BRAID_TRY(check_channels(infer, 4, BRAID_I64, BRAID_NONE));
  BRAID_TRY(check_sums(infer, 5));
  if (infer->node->output_count > 1 && !braid_attr_int(&infer->node->attrs, "training", 0))
    return braid_infer_fail(infer, "has more than one output, and is not in training");
  int64_t channels = braid_infer_input(infer, 0)->dims[1];
  static const braid_dtype kTypes[] = {BRAID_I32, BRAID_I64, BRAID_NONE, BRAID_I32, BRAID_I32};
  BRAID_TRY(give_like(infer, 0, BRAID_I8, 0));
  for (size_t i = 0; i < 5; i++)
    if (kTypes[i] != BRAID_NONE) BRAID_TRY(braid_infer_output(infer, i + 1, kTypes[i], 1, &channels));
  return give_like(infer, 3, BRAID_I8, 0);
}

static braid_status infer_batch_normalization_grad(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_normalized(infer));
  BRAID_TRY(check_one(infer, 1, BRAID_I32));
  BRAID_TRY(check_type(infer, 2, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_like(infer, 2, 0));
  BRAID_TRY(check_channels(infer, 3, BRAID_I8, BRAID_I16));
  BRAID_TRY(check_channels(infer, 4, BRAID_I32, BRAID_NONE));
  BRAID_TRY(check_channels(infer, 5, BRAID_I32, BRAID_NONE));
  BRAID_TRY(check_sums(infer, 6));
  int64_t channels = braid_infer_input(infer, 0)->dims[1];
  BRAID_TRY(give_like(infer, 0, BRAID_I32, 0));
  BRAID_TRY(give_one(infer, 1, BRAID_I32));
  BRAID_TRY(give_one(infer, 2, BRAID_I32));
  for (size_t i = 3; i < 7; i += 2) {
    BRAID_TRY(braid_infer_output(infer, i, BRAID_I64, 1, &channels));
    BRAID_TRY(give_one(infer, i + 1, BRAID_I64));
  }
  return BRAID_OK;
}

static braid_status give_sums(const braid_infer *infer) {
  return braid_infer_output(infer, 0, BRAID_I64, 2, (int64_t[]){2, braid_infer_input(infer, 0)->dims[1]});
}

/* Of each channel the sum and the sum of squares. */
static braid_status infer_norm_sums(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I16, BRAID_I16));
  BRAID_TRY(check_channels_of(infer));
  return give_sums(infer);
}

/* Of each channel the sum of the errors, and of errors times normalized activations. */
static braid_status infer_norm_grad_sums(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_type(infer, 1, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_like(infer, 1, 0));
  BRAID_TRY(check_channels_of(infer));
  return give_sums(infer);
}

/* --- loss ----------------------------------------------------------------------------------------------------------
 */
static braid_status infer_squared_error(const braid_infer *infer) {
  BRAID_TRY(check_type(infer, 0, BRAID_I8, BRAID_I8));
  BRAID_TRY(check_type(infer, 1, BRAID_I32, BRAID_I32));
  BRAID_TRY(check_range(infer, "bits", 2, 8));
  const braid_desc *y = braid_infer_input(infer, 0), *labels = braid_infer_input(infer, 1);
  if (y->rank != 2 || labels->rank != 1 || labels->dims[0] != y->dims[0])
    return braid_infer_fail(infer, "scores of rank 2 and a label for each of their rows are expected");
  BRAID_TRY(give_one(infer, 0, BRAID_I64));
  BRAID_TRY(give_like(infer, 1, BRAID_I32, 0));
  return give_one(infer, 2, BRAID_I32);
}

/* --- digest --------------------------------------------------------------------------------------------------------
 */
static braid_status infer_digest(const braid_infer *infer) {
  BRAID_TRY(check_range(infer, "first", 0, INT64_MAX));
  int64_t count = (int64_t)braid_infer_inputs(infer);
  for (size_t i = 0; i < (size_t)count; i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    if (!desc) return braid_infer_fail(infer, "input %zu is missing", i);
    if (desc->dtype != BRAID_I8 && desc->dtype != BRAID_U8 && desc->dtype != BRAID_I16 && desc->dtype != BRAID_I32 &&
        desc->dtype != BRAID_I64)
      return braid_infer_fail(infer, "input %zu is %s; int8, uint8, int16, int32 or int64 is expected", i,
                              braid_dtype_name(desc->dtype));
  }
  return braid_infer_output(infer, 0, BRAID_I32, 1, &count);
}

static const braid_op kOps[] = {
    {"IntegerAdd", 2, 2, 1, 1, 0, infer_two, NULL, NULL},
    {"IntegerAveragePool", 1, 1, 1, 1, 0, infer_average_pool, NULL, NULL},
    {"IntegerAveragePoolGrad", 1, 1, 1, 2, 0, infer_pool_grad, NULL, NULL},
    {"IntegerBatchNormalization", 5, 6, 1, 6, 0, infer_batch_normalization, NULL, NULL},
    {"IntegerBatchNormalizationGrad", 6, 7, 7, 7, 0, infer_batch_normalization_grad, NULL, NULL},
    {"IntegerBatchNormalizationGradSums", 2, 2, 1, 1, 0, infer_norm_grad_sums, NULL, NULL},
    {"IntegerBatchNormalizationSums", 1, 1, 1, 1, 0, infer_norm_sums, NULL, NULL},
    {"IntegerConv", 2, 2, 1, 1, 0, infer_conv, integer_conv_macs, NULL},
    {"IntegerConvGradFilter", 2, 2, 2, 2, 0, infer_conv_grad_filter, integer_conv_macs, NULL},
    {"IntegerConvGradInput", 2, 2, 2, 2, 0, infer_conv_grad_input, integer_conv_macs, NULL},
    {"IntegerDigest", 1, -1, 1, 1, 0, infer_digest, NULL, NULL},
    {"IntegerErrorSum", 4, 4, 3, 3, 0, infer_error_sum, NULL, NULL},
    {"IntegerInput", 1, 1, 1, 1, 0, infer_input, NULL, NULL},
    {"IntegerMagnitude", 1, 1, 1, 1, 0, infer_magnitude, NULL, NULL},
    {"IntegerMaxPool", 1, 1, 1, 2, 0, infer_max_pool, NULL, NULL},
    {"IntegerMaxPoolGrad", 2, 2, 1, 2, 0, infer_pool_grad, NULL, NULL},
    {"IntegerMaxPoolGradRelu", 3, 3, 1, 1, 0, infer_pool_grad, NULL, NULL}, /* made by fusion alone */
    {"IntegerMomentum", 6, 6, 2, 2, 0, infer_momentum, NULL, NULL},
    {"IntegerQuantize", 1, 1, 1, 1, 0, infer_quantize, NULL, NULL},
    {"IntegerRelu", 1, 1, 1, 1, BRAID_OP_ELEMENTWISE, infer_relu, NULL, NULL},
    {"IntegerReluGrad", 2, 2, 1, 1, BRAID_OP_ELEMENTWISE, infer_two, NULL, NULL},
    {"IntegerScaleError", 4, 4, 2, 2, 0, infer_scale_error, NULL, NULL},
    {"IntegerScaleErrorRelu", 5, 5, 2, 2, 0, infer_scale_error, NULL, NULL}, /* made by fusion alone */
    {"IntegerSquaredError", 2, 2, 1, 3, 0, infer_squared_error, NULL, NULL},
    {"IntegerUpdate", 5, 5, 1, 1, 0, infer_update, NULL, NULL},
};

extern const braid_op_family braid_ops_integer;
const braid_op_family braid_ops_integer = {kOps, sizeof kOps / sizeof *kOps};
