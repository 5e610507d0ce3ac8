/* Convolutions: Conv, ConvTranspose, FusedConv, and the nodes of their gradients.
 *
 * ConvGradInput(dy, w) and ConvGradFilter(x, dy) carry Conv's attributes and the shape that cannot be read off their
 * inputs: input_shape, kernel_shape (spatial dimensions). BiasGrad(dy) sums over all dimensions but the channels. */
#include "base/try.h"
#include "graph/geometry.h"
#include "graph/gradient.h"

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static braid_status prefixed(const braid_infer *infer, braid_status status) {
  if (status == BRAID_OK) return BRAID_OK;
  return braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, infer->node->op->name);
}

static braid_status check_floats(const braid_infer *infer) {
  const braid_desc *first = braid_infer_input(infer, 0);
  if (!first || !braid_dtype_is_float(first->dtype))
    return braid_infer_fail(infer, "the first input must be there and floating-point");
  for (size_t i = 1; i < braid_infer_inputs(infer); i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    if (desc && desc->dtype != first->dtype)
      return braid_infer_fail(infer, "input %zu is %s, but input 0 is %s", i, braid_dtype_name(desc->dtype),
                              braid_dtype_name(first->dtype));
    if (!desc && i == 1) return braid_infer_fail(infer, "input 1 is missing");
  }
  return BRAID_OK;
}

static braid_status check_bias(const braid_infer *infer, int64_t channels) {
  const braid_desc *bias = braid_infer_input(infer, 2);
  if (bias && (bias->rank != 1 || bias->dims[0] != channels)) {
    char text[128];
    return braid_infer_fail(infer, "the bias is %s, not one number for each of %lld channels",
                            braid_desc_format(bias, text, sizeof text), (long long)channels);
  }
  return BRAID_OK;
}

static braid_status give_image(const braid_infer *infer, int64_t batch, int64_t channels, int rank,
                               const int64_t *spatial) {
  int64_t dims[BRAID_MAX_RANK] = {batch, channels};
  for (int i = 0; i < rank; i++) dims[2 + i] = spatial[BRAID_WINDOW_RANK - rank + i];
  return braid_infer_output(infer, 0, braid_infer_input(infer, 0)->dtype, rank + 2, dims);
}

static braid_status infer_conv(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(check_floats(infer));
  const braid_desc *x = braid_infer_input(infer, 0), *z = braid_infer_input(infer, 3);
  BRAID_TRY(prefixed(infer, braid_geometry_conv(&infer->node->attrs, x, braid_infer_input(infer, 1), &conv)));
  BRAID_TRY(check_bias(infer, conv.outputs));
  BRAID_TRY(give_image(infer, conv.batch, conv.outputs, conv.window.rank, conv.window.output));
  if (z && !braid_desc_same_shape(z, &infer->graph->values[infer->node->outputs[0]].desc))
    return braid_infer_fail(infer, "input 3, which is added, has not the output's shape");
  return BRAID_OK;
}

static braid_status infer_conv_transpose(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(check_floats(infer));
  BRAID_TRY(prefixed(infer, braid_geometry_conv_transpose(&infer->node->attrs, braid_infer_input(infer, 0),
                                                          braid_infer_input(infer, 1), &conv)));
  BRAID_TRY(check_bias(infer, conv.inputs));
  return give_image(infer, conv.batch, conv.inputs, conv.window.rank, conv.window.input);
}

static braid_status infer_grad_input(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(check_floats(infer));
  BRAID_TRY(prefixed(infer, braid_geometry_conv_grad_input(&infer->node->attrs, braid_infer_input(infer, 0),
                                                           braid_infer_input(infer, 1), &conv)));
  return give_image(infer, conv.batch, conv.inputs, conv.window.rank, conv.window.input);
}

static braid_status infer_grad_filter(const braid_infer *infer) {
  braid_convolution conv;
  BRAID_TRY(check_floats(infer));
  BRAID_TRY(prefixed(infer, braid_geometry_conv_grad_filter(&infer->node->attrs, braid_infer_input(infer, 0),
                                                            braid_infer_input(infer, 1), &conv)));
  return give_image(infer, conv.outputs, conv.inputs / conv.groups, conv.window.rank, conv.window.kernel);
}

static braid_status infer_bias_grad(const braid_infer *infer) {
  const braid_desc *dy = braid_infer_input(infer, 0);
  if (!dy || !braid_dtype_is_float(dy->dtype) || dy->rank < 2)
    return braid_infer_fail(infer, "the input must be floating-point and have rank 2 or more");
  return braid_infer_output(infer, 0, dy->dtype, 1, &dy->dims[1]);
}

/* --- costs ---------------------------------------------------------------------------------------------------------
 */
static int64_t product(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_mul_overflow(a, b, &out) ? INT64_MAX : out;
}

static int64_t macs_of(braid_status status, const braid_convolution *conv) {
  if (status != BRAID_OK) return 0;
  const braid_window *window = &conv->window;
  int64_t per_output = product(conv->inputs / conv->groups, braid_window_volume(window));
  return product(product(conv->batch, conv->outputs), product(braid_window_outputs(window), per_output));
}

static const braid_desc *operand(const braid_graph *graph, const braid_node *node, size_t index) {
  return &graph->values[node->inputs[index]].desc;
}

static int64_t conv_macs(const braid_graph *graph, const braid_node *node) {
  braid_convolution conv;
  return macs_of(braid_geometry_conv(&node->attrs, operand(graph, node, 0), operand(graph, node, 1), &conv), &conv);
}

static int64_t conv_transpose_macs(const braid_graph *graph, const braid_node *node) {
  braid_convolution conv;
  return macs_of(braid_geometry_conv_transpose(&node->attrs, operand(graph, node, 0), operand(graph, node, 1), &conv),
                 &conv);
}

static int64_t grad_input_macs(const braid_graph *graph, const braid_node *node) {
  braid_convolution conv;
  return macs_of(braid_geometry_conv_grad_input(&node->attrs, operand(graph, node, 0), operand(graph, node, 1), &conv),
                 &conv);
}

static int64_t grad_filter_macs(const braid_graph *graph, const braid_node *node) {
  braid_convolution conv;
  return macs_of(braid_geometry_conv_grad_filter(&node->attrs, operand(graph, node, 0), operand(graph, node, 1), &conv),
                 &conv);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
static braid_desc desc_of(const braid_gradient_context *context, size_t input) {
  return context->graph->values[braid_gradient_input(context, input)].desc;
}

static braid_status give_bias(braid_gradient_context *context, braid_value_id dy) {
  braid_value_id bias;
  if (!braid_gradient_wanted(context, 2)) return BRAID_OK;
  BRAID_TRY(braid_gradient_node(context, "BiasGrad", &dy, 1, &bias, NULL));
  return braid_gradient_give(context, 2, bias);
}

static braid_status conv_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0), given;
  braid_value_id x = braid_gradient_input(context, 0), w = braid_gradient_input(context, 1);
  braid_node_id id;
  if (braid_gradient_wanted(context, 0)) {
    const braid_desc desc = desc_of(context, 0);
    BRAID_TRY(braid_gradient_node(context, "ConvGradInput", (braid_value_id[]){dy, w}, 2, &given, &id));
    BRAID_TRY(braid_graph_set_ints(context->graph, id, "input_shape", desc.dims + 2, (size_t)desc.rank - 2));
    BRAID_TRY(braid_gradient_copy_attrs(context, id));
    BRAID_TRY(braid_gradient_give(context, 0, given));
  }
  if (braid_gradient_wanted(context, 1)) {
    const braid_desc desc = desc_of(context, 1);
    BRAID_TRY(braid_gradient_node(context, "ConvGradFilter", (braid_value_id[]){x, dy}, 2, &given, &id));
    BRAID_TRY(braid_graph_set_ints(context->graph, id, "kernel_shape", desc.dims + 2, (size_t)desc.rank - 2));
    BRAID_TRY(braid_gradient_copy_attrs(context, id));
    BRAID_TRY(braid_gradient_give(context, 1, given));
  }
  return give_bias(context, dy);
}

/* The convolution that `conv` describes, with its pads spelled out. Where output_padding leaves room for more windows
 * than the transposed convolution had inputs, the end is cropped. */
static braid_status set_window(braid_graph *graph, braid_node_id id, const braid_convolution *conv) {
  const braid_window *window = &conv->window;
  size_t rank = (size_t)window->rank, first = BRAID_WINDOW_RANK - rank;
  int64_t pads[2 * BRAID_WINDOW_RANK];
  for (size_t i = 0; i < rank; i++) {
    size_t at = first + i;
    int64_t seen = (window->output[at] - 1) * window->stride[at] + (window->kernel[at] - 1) * window->dilation[at] + 1;
    pads[i] = window->begin[at];
    pads[rank + i] = seen - window->input[at] - window->begin[at];
  }
  BRAID_TRY(braid_graph_set_ints(graph, id, "pads", pads, 2 * rank));
  BRAID_TRY(braid_graph_set_ints(graph, id, "strides", window->stride + first, rank));
  BRAID_TRY(braid_graph_set_ints(graph, id, "dilations", window->dilation + first, rank));
  BRAID_TRY(braid_graph_set_ints(graph, id, "kernel_shape", window->kernel + first, rank));
  BRAID_TRY(braid_graph_set_int(graph, id, "group", conv->groups));
  return braid_graph_infer_node(graph, id);
}

static braid_status conv_transpose_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0), given;
  braid_value_id x = braid_gradient_input(context, 0), w = braid_gradient_input(context, 1);
  const braid_desc x_desc = desc_of(context, 0), w_desc = desc_of(context, 1);
  braid_convolution conv;
  braid_node_id id;
  BRAID_TRY(braid_geometry_conv_transpose(&context->graph->nodes[context->node].attrs, &x_desc, &w_desc, &conv));
  if (braid_gradient_wanted(context, 0)) {
    BRAID_TRY(braid_gradient_node(context, "Conv", (braid_value_id[]){dy, w}, 2, &given, &id));
    BRAID_TRY(set_window(context->graph, id, &conv));
    BRAID_TRY(braid_gradient_give(context, 0, given));
  }
  if (braid_gradient_wanted(context, 1)) {
    BRAID_TRY(braid_gradient_node(context, "ConvGradFilter", (braid_value_id[]){dy, x}, 2, &given, &id));
    BRAID_TRY(set_window(context->graph, id, &conv));
    BRAID_TRY(braid_gradient_give(context, 1, given));
  }
  return give_bias(context, dy);
}

static const braid_op kOps[] = {
    {"Conv", 2, 3, 1, 1, 0, infer_conv, conv_macs, conv_gradient},
    {"FusedConv", 2, 4, 1, 1, 0, infer_conv, conv_macs, NULL},
    {"ConvTranspose", 2, 3, 1, 1, 0, infer_conv_transpose, conv_transpose_macs, conv_transpose_gradient},
    {"ConvGradInput", 2, 2, 1, 1, 0, infer_grad_input, grad_input_macs, NULL},
    {"ConvGradFilter", 2, 2, 1, 1, 0, infer_grad_filter, grad_filter_macs, NULL},
    {"BiasGrad", 1, 1, 1, 1, 0, infer_bias_grad, NULL, NULL},
};

extern const braid_op_family braid_ops_conv;
const braid_op_family braid_ops_conv = {kOps, sizeof kOps / sizeof *kOps};
