/* Convolutions and pools. Images stay as TensorFlow has them, NHWC: our ops see B, C, H, W in the layout BHWC, and the
 * filters H, W, C, O as O, C, H, W in the layout "cdba". */
#include <string.h>

#include "plugin.h"

#define REAL "T=float,double,half,bfloat16"
#define WINDOW "strides:ints padding:string explicit_paddings:ints data_format:string dilations:ints"
#define POOL "ksize:ints strides:ints padding:string explicit_paddings:ints data_format:string"

/* A window over images, by TensorFlow's attributes; kernel and image in H, W. */
typedef struct window {
  bool first; /* NCHW */
  int64_t batch, channels, image[2], kernel[2], strides[2], dilations[2], pads[4], output[2];
} window;

static void read_pair(const fpga_build *b, const char *name, bool first, int64_t out[2]) {
  const fpga_attr *attr = fpga_attr_find(b->attrs, name);
  for (int i = 0; i < 2; i++) out[i] = attr && attr->count == 4 ? attr->ints[(first ? 2 : 1) + i] : 1;
}

static int64_t window_reach(const window *w, int i) {
  return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

static void read_pads(const fpga_build *b, window *w) {
  const fpga_attr *list = fpga_attr_find(b->attrs, "explicit_paddings");
  bool same = fpga_attr_is(b->attrs, "padding", "SAME"), given = fpga_attr_is(b->attrs, "padding", "EXPLICIT");
  for (int i = 0; i < 2; i++) {
    int64_t stride = w->strides[i], begin = 0, end = 0;
    if (same) {
      int64_t count = (w->image[i] + stride - 1) / stride;
      int64_t all = (count - 1) * stride + window_reach(w, i) - w->image[i];
      if (all > 0) begin = all / 2, end = all - begin;
    } else if (given && list && list->count == 8) {
      begin = list->ints[2 * ((w->first ? 2 : 1) + i)], end = list->ints[2 * ((w->first ? 2 : 1) + i) + 1];
    }
    w->pads[i] = begin, w->pads[2 + i] = end;
    w->output[i] = (w->image[i] + begin + end - window_reach(w, i) + stride) / stride;
  }
}

/* dims: of the image in TensorFlow's order. */
static bool read_window(fpga_build *b, const int64_t *dims, const int64_t kernel[2], window *w) {
  *w = (window){.first = fpga_attr_is(b->attrs, "data_format", "NCHW"), .kernel = {kernel[0], kernel[1]}};
  if (!w->first && !fpga_attr_is(b->attrs, "data_format", "NHWC"))
    fpga_fail(b, BRAID_UNSUPPORTED, "data_format is %s: expected NHWC or NCHW",
              fpga_attr_string(b->attrs, "data_format", "absent"));
  w->batch = dims[0];
  w->channels = dims[w->first ? 1 : 3];
  for (int i = 0; i < 2; i++) w->image[i] = dims[(w->first ? 2 : 1) + i];
  read_pair(b, "strides", w->first, w->strides);
  read_pair(b, "dilations", w->first, w->dilations);
  for (int i = 0; i < 2; i++)
    if (w->strides[i] < 1 || w->dilations[i] < 1 || w->kernel[i] < 1) {
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "strides, dilations and the window must be positive");
      return false;
    }
  read_pads(b, w);
  if (w->output[0] < 0 || w->output[1] < 0) fpga_fail(b, BRAID_INVALID_ARGUMENT, "the window is larger than the image");
  return b->status == BRAID_OK;
}

static bool check_rank(fpga_build *b, size_t input, int rank) {
  if (input < b->input_count && b->inputs[input].desc.rank == rank) return true;
  fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu must have %d dimensions", input, rank);
  return false;
}

static void set_window(fpga_build *b, const window *w, bool dilated) {
  fpga_set_ints(b, "strides", w->strides, 2);
  fpga_set_ints(b, "pads", w->pads, 4);
  if (dilated) fpga_set_ints(b, "dilations", w->dilations, 2);
}

/* --- images and filters --------------------------------------------------------------------------------------------
 */
static braid_value_id image_in(fpga_build *b, size_t index, bool first) {
  const int64_t *dims = b->inputs[index].desc.dims;
  if (first) return fpga_in(b, index);
  return fpga_in_as(b, index, 4, (const int64_t[]){dims[0], dims[3], dims[1], dims[2]}, "BHWC");
}

static void image_out(fpga_build *b, size_t index, braid_value_id value, bool first) {
  braid_desc desc = fpga_desc(b, value);
  const int64_t *dims = desc.dims;
  if (first)
    fpga_out(b, index, value);
  else
    fpga_out_as(b, index, value, 4, (const int64_t[]){dims[0], dims[2], dims[3], dims[1]}, "BHWC");
}

/* H, W, C, O or, depthwise, H, W, C, M as C * M filters of one channel: the memory is that of H, W, 1, C * M. */
static braid_value_id filter_in(fpga_build *b, size_t index, bool depthwise) {
  const int64_t *dims = b->inputs[index].desc.dims;
  int64_t out = depthwise ? dims[2] * dims[3] : dims[3], in = depthwise ? 1 : dims[2];
  return fpga_in_as(b, index, 4, (const int64_t[]){out, in, dims[0], dims[1]}, "cdba");
}

static void filter_out(fpga_build *b, braid_value_id value, const int64_t *dims) {
  fpga_out_as(b, 0, value, 4, dims, "cdba");
}

/* A window that is larger than the image, by less than its stride, has no place in it: the result has no elements, and
 * gradients are zeros. `dims` are the output's. */
static bool zeros_out(fpga_build *b, const window *w, const int64_t dims[4]) {
  if (b->status != BRAID_OK || (w->output[0] > 0 && w->output[1] > 0)) return false;
  fpga_out(b, 0,
           FPGA_NODE(b, "Expand", fpga_scalar(b, b->inputs[b->input_count - 1].desc.dtype, 0), fpga_ints(b, dims, 4)));
  return true;
}

static bool empty_out(fpga_build *b, const window *w, int64_t channels) {
  if (w->first) return zeros_out(b, w, (const int64_t[]){w->batch, channels, w->output[0], w->output[1]});
  return zeros_out(b, w, (const int64_t[]){w->batch, w->output[0], w->output[1], channels});
}

static bool window_of_filter(fpga_build *b, const int64_t *image, const int64_t *filter, bool depthwise, window *w,
                             int64_t *groups) {
  if (!read_window(b, image, filter, w)) return false;
  *groups = depthwise ? w->channels : filter[2] > 0 ? w->channels / filter[2] : 0;
  if (depthwise ? filter[2] == w->channels : *groups > 0 && *groups * filter[2] == w->channels) return true;
  fpga_fail(b, BRAID_INVALID_ARGUMENT, "the image has %lld channels and the filter %lld", (long long)w->channels,
            (long long)filter[2]);
  return false;
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
/* -1 after a failure, and where the output has no elements, which is made then. */
static braid_value_id convolve(fpga_build *b, bool depthwise, braid_value_id bias, window *w) {
  int64_t groups;
  if (!check_rank(b, 0, 4) || !check_rank(b, 1, 4) ||
      !window_of_filter(b, b->inputs[0].desc.dims, b->inputs[1].desc.dims, depthwise, w, &groups))
    return -1;
  const int64_t *filter = b->inputs[1].desc.dims;
  if (empty_out(b, w, depthwise ? filter[2] * filter[3] : filter[3])) return -1;
  braid_value_id operands[] = {image_in(b, 0, w->first), filter_in(b, 1, depthwise), bias};
  braid_value_id y = fpga_node(b, "Conv", bias >= 0 ? 3 : 2, operands);
  set_window(b, w, true);
  fpga_set_int(b, "group", groups);
  return y;
}

static void build_conv(fpga_build *b) {
  window w = {.first = false};
  braid_value_id y = convolve(b, false, -1, &w);
  if (!b->given[0]) image_out(b, 0, y, w.first);
}

static void build_depthwise(fpga_build *b) {
  window w = {.first = false};
  braid_value_id y = convolve(b, true, -1, &w);
  if (!b->given[0]) image_out(b, 0, y, w.first);
}

static const char *activation_of(const char *name) {
  static const char *const kNames[] = {"Relu", "Elu", "Tanh", "Sigmoid", "LeakyRelu"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++)
    if (strcmp(kNames[i], name) == 0) return kNames[i];
  return NULL;
}

/* fused_ops is BiasAdd or FusedBatchNorm, perhaps Add, perhaps an activation. */
static void build_fused_conv(fpga_build *b) {
  const fpga_attr *ops = fpga_attr_find(b->attrs, "fused_ops");
  bool bias = ops && ops->count > 0 && strcmp(ops->strings[0], "BiasAdd") == 0;
  window w = {.first = false};
  braid_value_id y = convolve(b, false, bias ? fpga_in(b, 2) : -1, &w);
  if (b->given[0]) return;
  for (int i = bias; ops && i < ops->count; i++) {
    const char *name = ops->strings[i], *op = activation_of(name);
    if (strcmp(name, "FusedBatchNorm") == 0) {
      y = FPGA_NODE(b, "BatchNormalization", y, fpga_in(b, 2), fpga_in(b, 3), fpga_in(b, 4), fpga_in(b, 5));
      fpga_set_float(b, "epsilon", (double)fpga_attr_float(b->attrs, "epsilon", 1e-4f));
    } else if (strcmp(name, "Add") == 0) {
      y = FPGA_NODE(b, "Add", y, image_in(b, 3, w.first));
    } else if (strcmp(name, "Relu6") == 0) {
      y = FPGA_NODE(b, "Clip", y, fpga_scalar(b, BRAID_F32, 0), fpga_scalar(b, BRAID_F32, 6));
    } else if (op) {
      y = FPGA_NODE(b, op, y);
      if (strcmp(op, "LeakyRelu") == 0)
        fpga_set_float(b, "alpha", (double)fpga_attr_float(b->attrs, "leakyrelu_alpha", 0.2f));
    } else {
      fpga_fail(b, BRAID_UNSUPPORTED, "fused with %s", name);
    }
  }
  image_out(b, 0, y, w.first);
}

/* A list of four numbers, of which those of the batch and the channels are 1; it may be absent. */
static braid_status check_list(const fpga_attr *attrs, const char *name, braid_status over_others) {
  const fpga_attr *list = fpga_attr_find(attrs, name);
  if (!list) return BRAID_OK;
  if (list->count != 4) return braid_fail(BRAID_INVALID_ARGUMENT, "%s are %d numbers: expected 4", name, list->count);
  if (list->ints[0] == 1 && list->ints[fpga_attr_is(attrs, "data_format", "NCHW") ? 1 : 3] == 1) return BRAID_OK;
  return braid_fail(over_others, "%s over the batch or the channels: expected 1 for both", name);
}

static braid_status check_lists(const fpga_attr *attrs, braid_status over_others) {
  braid_status status = check_list(attrs, "strides", over_others);
  return status == BRAID_OK ? check_list(attrs, "dilations", over_others) : status;
}

/* TensorFlow has a code for these and one for the others. */
static braid_status refuse_conv(const fpga_attr *attrs) {
  return check_lists(attrs, BRAID_UNSUPPORTED);
}

static braid_status refuse_other_conv(const fpga_attr *attrs) {
  return check_lists(attrs, BRAID_INVALID_ARGUMENT);
}

static braid_status refuse_fused(const fpga_attr *attrs) {
  const fpga_attr *ops = fpga_attr_find(attrs, "fused_ops");
  for (int i = 0; ops && i < ops->count; i++) {
    const char *name = ops->strings[i];
    if (strcmp(name, "BiasAdd") != 0 && strcmp(name, "FusedBatchNorm") != 0 && strcmp(name, "Add") != 0 &&
        strcmp(name, "Relu6") != 0 && !activation_of(name))
      return braid_fail(BRAID_UNSUPPORTED, "fused with %s", name);
  }
  return refuse_conv(attrs);
}

/* input_sizes or filter_sizes, in host memory. */
static bool read_sizes(fpga_build *b, size_t input, int64_t dims[4]) {
  if (b->inputs[input].desc.rank != 1 || fpga_host_count(b, input) != 4) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu must be four sizes", input);
    return false;
  }
  for (int i = 0; i < 4; i++) {
    dims[i] = fpga_host_int(b, input, i);
    if (dims[i] < 0) fpga_fail(b, BRAID_INVALID_ARGUMENT, "a size is negative");
  }
  return b->status == BRAID_OK;
}

/* input_sizes, which may be a height and a width alone: the batch is the gradient's then, the channels the filter's. */
static bool read_image_sizes(fpga_build *b, bool depthwise, int64_t image[4]) {
  bool first = fpga_attr_is(b->attrs, "data_format", "NCHW");
  if (depthwise || b->inputs[0].desc.rank != 1 || fpga_host_count(b, 0) != 2) return read_sizes(b, 0, image);
  image[0] = b->inputs[2].desc.dims[0], image[first ? 1 : 3] = b->inputs[1].desc.dims[2];
  for (int i = 0; i < 2; i++) {
    int64_t size = image[(first ? 2 : 1) + i] = fpga_host_int(b, 0, i);
    if (size < 0) fpga_fail(b, BRAID_INVALID_ARGUMENT, "a size is negative");
  }
  return b->status == BRAID_OK;
}

/* (input_sizes, filter, gradient of the output) */
static void conv_grad_input(fpga_build *b, bool depthwise) {
  int64_t image[4], groups;
  window w;
  if (!check_rank(b, 1, 4) || !check_rank(b, 2, 4) || !read_image_sizes(b, depthwise, image) ||
      !window_of_filter(b, image, b->inputs[1].desc.dims, depthwise, &w, &groups))
    return;
  if (image[0] != b->inputs[2].desc.dims[0]) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "input_sizes has a batch of %lld and the gradient %lld", (long long)image[0],
              (long long)b->inputs[2].desc.dims[0]);
    return;
  }
  if (zeros_out(b, &w, image)) return;
  braid_value_id dy = image_in(b, 2, w.first);
  braid_value_id dx = FPGA_NODE(b, "ConvGradInput", dy, filter_in(b, 1, depthwise));
  fpga_set_ints(b, "input_shape", w.image, 2);
  fpga_set_int(b, "group", groups);
  set_window(b, &w, true);
  image_out(b, 0, dx, w.first);
}

/* (input, filter_sizes, gradient of the output) */
static void conv_grad_filter(fpga_build *b, bool depthwise) {
  int64_t filter[4], groups;
  window w;
  if (!read_sizes(b, 1, filter) || !check_rank(b, 0, 4) || !check_rank(b, 2, 4) ||
      !window_of_filter(b, b->inputs[0].desc.dims, filter, depthwise, &w, &groups))
    return;
  if (zeros_out(b, &w, filter)) return;
  braid_value_id dw = FPGA_NODE(b, "ConvGradFilter", image_in(b, 0, w.first), image_in(b, 2, w.first));
  fpga_set_ints(b, "kernel_shape", w.kernel, 2);
  fpga_set_int(b, "group", groups);
  set_window(b, &w, true);
  filter_out(b, dw, filter);
}

static void build_conv_grad_input(fpga_build *b) {
  conv_grad_input(b, false);
}

static void build_conv_grad_filter(fpga_build *b) {
  conv_grad_filter(b, false);
}

static void build_depthwise_grad_input(fpga_build *b) {
  conv_grad_input(b, true);
}

static void build_depthwise_grad_filter(fpga_build *b) {
  conv_grad_filter(b, true);
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static bool read_pool(fpga_build *b, const int64_t *dims, window *w) {
  bool first = fpga_attr_is(b->attrs, "data_format", "NCHW");
  int64_t kernel[2];
  read_pair(b, "ksize", first, kernel);
  const fpga_attr *size = fpga_attr_find(b->attrs, "ksize"), *strides = fpga_attr_find(b->attrs, "strides");
  const int others[] = {0, first ? 1 : 3};
  for (int i = 0; size && strides && i < 2; i++)
    if (size->ints[others[i]] != 1 || strides->ints[others[i]] != 1)
      fpga_fail(b, BRAID_UNSUPPORTED, "a window over the batch or the channels");
  return read_window(b, dims, kernel, w);
}

static void set_pool(fpga_build *b, const window *w) {
  fpga_set_ints(b, "kernel_shape", w->kernel, 2);
  set_window(b, w, false);
}

static void build_pool(fpga_build *b, const char *op) {
  window w;
  if (!check_rank(b, 0, 4) || !read_pool(b, b->inputs[0].desc.dims, &w) || empty_out(b, &w, w.channels)) return;
  braid_value_id y = FPGA_NODE(b, op, image_in(b, 0, w.first));
  set_pool(b, &w);
  image_out(b, 0, y, w.first);
}

static void build_max_pool(fpga_build *b) {
  build_pool(b, "MaxPool");
}

static void build_avg_pool(fpga_build *b) {
  build_pool(b, "AveragePool");
}

/* (input, output, gradient): where each maximum was is found again. */
static void build_max_pool_grad(fpga_build *b) {
  window w;
  if (!check_rank(b, 0, 4) || !check_rank(b, 2, 4) || !read_pool(b, b->inputs[0].desc.dims, &w) ||
      zeros_out(b, &w, b->inputs[0].desc.dims))
    return;
  braid_value_id x = image_in(b, 0, w.first), dy = image_in(b, 2, w.first), outputs[3] = {0, -1, 0};
  fpga_nodes(b, "MaxPool", 1, &x, 3, outputs);
  set_pool(b, &w);
  braid_value_id dx = FPGA_NODE(b, "MaxPoolGrad", dy, outputs[2]);
  fpga_set_ints(b, "input_shape", w.image, 2);
  set_pool(b, &w);
  image_out(b, 0, dx, w.first);
}

/* (sizes of the input, gradient) */
static void build_avg_pool_grad(fpga_build *b) {
  int64_t image[4];
  window w;
  if (!read_sizes(b, 0, image) || !check_rank(b, 1, 4) || !read_pool(b, image, &w) || zeros_out(b, &w, image)) return;
  braid_value_id dx = FPGA_NODE(b, "AveragePoolGrad", image_in(b, 1, w.first));
  fpga_set_ints(b, "input_shape", w.image, 2);
  set_pool(b, &w);
  image_out(b, 0, dx, w.first);
}

const fpga_op fpga_ops_windows[] = {
    {"Conv2D", WINDOW, REAL, NULL, build_conv, refuse_conv},
    {"_FusedConv2D", WINDOW " fused_ops:strings epsilon:float leakyrelu_alpha:float", "T=float", NULL, build_fused_conv,
     refuse_fused},
    {"Conv2DBackpropInput", WINDOW, REAL, "input_sizes", build_conv_grad_input, refuse_conv},
    {"Conv2DBackpropFilter", WINDOW, REAL, "filter_sizes", build_conv_grad_filter, refuse_other_conv},
    {"DepthwiseConv2dNative", WINDOW, REAL, NULL, build_depthwise, refuse_other_conv},
    {"DepthwiseConv2dNativeBackpropInput", WINDOW, REAL, "input_sizes", build_depthwise_grad_input, refuse_other_conv},
    {"DepthwiseConv2dNativeBackpropFilter", WINDOW, REAL, "filter_sizes", build_depthwise_grad_filter,
     refuse_other_conv},
    {"MaxPool", POOL, REAL, NULL, build_max_pool, NULL},
    {"MaxPoolGrad", POOL, REAL, NULL, build_max_pool_grad, NULL},
    {"AvgPool", POOL, REAL, NULL, build_avg_pool, NULL},
    {"AvgPoolGrad", POOL, REAL, "orig_input_shape", build_avg_pool_grad, NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL}};
