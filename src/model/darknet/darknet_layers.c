#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "model/darknet/darknet.h"

static const double kEpsilon = 1e-5; /* as Darknet's GPU kernels, where its weights were trained */

/* --- activations -------------------------------------------------------------------------------------------------- */
static braid_status clip(braid_darknet *net, braid_value_id x, double low, double high, braid_value_id *out) {
  braid_value_id bounds[2];
  BRAID_TRY(braid_darknet_scalar(net, low, &bounds[0]));
  BRAID_TRY(braid_darknet_scalar(net, high, &bounds[1]));
  return braid_darknet_node(net, "Clip", (braid_value_id[]){x, bounds[0], bounds[1]}, 3, NULL, 0, out);
}

static braid_status binary(braid_darknet *net, const char *op, braid_value_id a, braid_value_id b,
                           braid_value_id *out) {
  return braid_darknet_node(net, op, (braid_value_id[]){a, b}, 2, NULL, 0, out);
}

static braid_status times_function(braid_darknet *net, const char *inner, const char *outer, braid_value_id x,
                                   braid_value_id *out) {
  braid_value_id y = x;
  if (inner) BRAID_TRY(braid_darknet_node(net, inner, &y, 1, NULL, 0, &y));
  BRAID_TRY(braid_darknet_node(net, outer, &y, 1, NULL, 0, &y));
  return binary(net, "Mul", x, y, out);
}

/* inside + slope * (x - clip(x, low, high)): a line with bends at low and high. */
static braid_status bent(braid_darknet *net, braid_value_id x, double low, double high, double slope,
                         braid_value_id inside, braid_value_id *out) {
  braid_value_id middle, rest;
  BRAID_TRY(clip(net, x, low, high, &middle));
  BRAID_TRY(binary(net, "Sub", x, middle, &rest));
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", rest, slope, &rest));
  return binary(net, "Add", inside, rest, out);
}

static braid_status ramp(braid_darknet *net, braid_value_id x, braid_value_id *out) {
  braid_value_id positive, tenth;
  BRAID_TRY(braid_darknet_node(net, "Relu", &x, 1, NULL, 0, &positive));
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", x, 0.1, &tenth));
  return binary(net, "Add", positive, tenth, out);
}

static braid_status loggy(braid_darknet *net, braid_value_id x, braid_value_id *out) {
  BRAID_TRY(braid_darknet_node(net, "Sigmoid", &x, 1, NULL, 0, &x));
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", x, 2, &x));
  return braid_darknet_with_scalar(net, "Sub", x, 1, out);
}

static braid_status plse(braid_darknet *net, braid_value_id x, braid_value_id *out) {
  braid_value_id line;
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", x, 0.125, &line));
  BRAID_TRY(braid_darknet_with_scalar(net, "Add", line, 0.5, &line));
  BRAID_TRY(clip(net, line, 0, 1, &line));
  return bent(net, x, -4, 4, 0.01, line, out);
}

static braid_status lhtan(braid_darknet *net, braid_value_id x, braid_value_id *out) {
  braid_value_id middle;
  BRAID_TRY(clip(net, x, 0, 1, &middle));
  return bent(net, x, 0, 1, 0.001, middle, out);
}

/* floor(x / 2), and in the second half of each step the line up to the next. */
static braid_status stair(braid_darknet *net, braid_value_id x, braid_value_id *out) {
  braid_value_id step, rise;
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", x, 0.5, &step));
  BRAID_TRY(braid_darknet_node(net, "Floor", &step, 1, NULL, 0, &step));
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", step, 2, &rise));
  BRAID_TRY(binary(net, "Sub", x, rise, &rise));
  BRAID_TRY(braid_darknet_with_scalar(net, "Sub", rise, 1, &rise));
  BRAID_TRY(braid_darknet_node(net, "Relu", &rise, 1, NULL, 0, &rise));
  return binary(net, "Add", step, rise, out);
}

/* One op with at most one attribute. */
static const struct simple_activation {
  const char *name, *op, *attr;
  double value;
} kSimple[] = {
    {"leaky", "LeakyRelu", "alpha", 0.1}, /* or slope= */
    {"relie", "LeakyRelu", "alpha", 0.01},
    {"elu", "Elu", "alpha", 1},
    {"relu", "Relu", NULL, 0},
    {"logistic", "Sigmoid", NULL, 0},
    {"tanh", "Tanh", NULL, 0},
    {"selu", "Selu", NULL, 0},
    {"gelu", "Gelu", NULL, 0},
};

braid_status braid_darknet_activate(braid_darknet *net, const char *name, braid_value_id value, braid_value_id *out) {
  *out = value;
  if (strcmp(name, "linear") == 0) return BRAID_OK;
  for (size_t i = 0; i < sizeof kSimple / sizeof *kSimple; i++) {
    const struct simple_activation *simple = &kSimple[i];
    if (strcmp(simple->name, name) != 0) continue;
    braid_darknet_attr attr = {.name = simple->attr, .kind = BRAID_DARKNET_FLOAT, .f = simple->value};
    if (strcmp(name, "leaky") == 0) BRAID_TRY(braid_darknet_float(net, "slope", attr.f, &attr.f));
    return braid_darknet_node(net, simple->op, &value, 1, &attr, simple->attr != NULL, out);
  }
  if (strcmp(name, "ramp") == 0) return ramp(net, value, out);
  if (strcmp(name, "swish") == 0) return times_function(net, NULL, "Sigmoid", value, out);
  if (strcmp(name, "mish") == 0) return times_function(net, "Softplus", "Tanh", value, out);
  if (strcmp(name, "relu6") == 0) return clip(net, value, 0, 6, out);
  if (strcmp(name, "hardtan") == 0) return clip(net, value, -1, 1, out);
  if (strcmp(name, "loggy") == 0) return loggy(net, value, out);
  if (strcmp(name, "plse") == 0) return plse(net, value, out);
  if (strcmp(name, "lhtan") == 0) return lhtan(net, value, out);
  if (strcmp(name, "stair") == 0) return stair(net, value, out);
  return braid_darknet_fail(net, BRAID_UNSUPPORTED,
                            "activation=%.40s, expected linear, leaky, relu, relu6, relie, elu, selu, logistic, loggy, "
                            "tanh, hardtan, lhtan, plse, ramp, stair, swish, mish or gelu",
                            name);
}

static const char *activation(const braid_darknet *net, const char *otherwise) {
  return braid_cfg_string(net->cfg, net->section, "activation", otherwise);
}

/* --- dense layers ------------------------------------------------------------------------------------------------- */
static const char *part(char buffer[64], const char *prefix, const char *name) {
  snprintf(buffer, 64, "%.40s%.20s", prefix, name);
  return buffer;
}

/* The three tensors of batch normalization; scales start at 1, and a running variance too, where Darknet starts it at
 * 0 and divides by nearly nothing until the first step. */
static braid_status normalization(braid_darknet *net, const char *prefix, int64_t count, braid_darknet_dense *dense) {
  char name[64];
  BRAID_TRY(braid_darknet_tensor(net, part(name, prefix, "scale"), 1, &count, BRAID_FILL_ONE, 1, &dense->scale));
  BRAID_TRY(braid_darknet_tensor(net, part(name, prefix, "mean"), 1, &count, BRAID_FILL_ZERO, 1, &dense->mean));
  return braid_darknet_tensor(net, part(name, prefix, "variance"), 1, &count, BRAID_FILL_ONE, 1, &dense->variance);
}

braid_status braid_darknet_connected(braid_darknet *net, const char *prefix, int64_t inputs, int64_t outputs,
                                     const char *name, bool normalize, braid_darknet_dense *out) {
  char full[64];
  *out = (braid_darknet_dense){.scale = -1, .activation = name};
  BRAID_TRY(braid_darknet_tensor(net, part(full, prefix, "bias"), 1, &outputs, BRAID_FILL_ZERO, 1, &out->bias));
  BRAID_TRY(braid_darknet_matrix(net, part(full, prefix, "weight"), outputs, inputs, net->transposed,
                                 sqrt(2.0 / (double)inputs), &out->weights));
  return normalize ? normalization(net, prefix, outputs, out) : BRAID_OK;
}

braid_status braid_darknet_convolution(braid_darknet *net, const char *prefix, int64_t channels, int64_t filters,
                                       const char *name, bool normalize, bool flipped, braid_darknet_dense *out) {
  char full[64];
  int64_t each = channels / out->groups, dims[4] = {filters, each, out->size_y, out->size_x};
  double scale = sqrt(2.0 / (double)(each * out->size_y * out->size_x));
  out->convolution = true;
  out->activation = name;
  out->scale = -1;
  BRAID_TRY(braid_darknet_tensor(net, part(full, prefix, "bias"), 1, &filters, BRAID_FILL_ZERO, 1, &out->bias));
  if (normalize) BRAID_TRY(normalization(net, prefix, filters, out));
  part(full, prefix, "weight");
  if (!flipped || !net->weights)
    return braid_darknet_tensor(net, full, 4, dims, BRAID_FILL_NORMAL, scale, &out->weights);
  BRAID_TRY(braid_darknet_matrix(net, full, filters, each * out->size_y * out->size_x, true, scale, &out->weights));
  return braid_darknet_reshape(net, out->weights, 4, dims, &out->weights);
}

static braid_status apply_normalization(braid_darknet *net, const braid_darknet_dense *dense, braid_value_id value,
                                        braid_value_id *out) {
  return braid_darknet_node(
      net, "BatchNormalization", (braid_value_id[]){value, dense->scale, dense->bias, dense->mean, dense->variance}, 5,
      (braid_darknet_attr[]){BRAID_ATTR_F("epsilon", kEpsilon), BRAID_ATTR_F("momentum", 0.99)}, 2, out);
}

braid_status braid_darknet_apply(braid_darknet *net, const braid_darknet_dense *dense, braid_value_id value,
                                 braid_value_id *out) {
  bool normalized = dense->scale >= 0;
  braid_value_id inputs[3] = {value, dense->weights, dense->bias};
  size_t count = normalized ? 2 : 3; /* the bias stands after the normalization */
  if (dense->convolution) {
    int64_t size[2] = {dense->size_y, dense->size_x}, strides[2] = {dense->stride_y, dense->stride_x};
    int64_t pad_x = dense->padding_x * dense->dilation, pad_y = dense->padding_y * dense->dilation;
    int64_t pads[4] = {pad_y, pad_x, pad_y, pad_x};
    int64_t dilations[2] = {dense->dilation, dense->dilation};
    braid_darknet_attr attrs[] = {BRAID_ATTR_L("kernel_shape", size, 2), BRAID_ATTR_L("pads", pads, 4),
                                  BRAID_ATTR_L("strides", strides, 2), BRAID_ATTR_L("dilations", dilations, 2),
                                  BRAID_ATTR_I("group", dense->groups)};
    BRAID_TRY(braid_darknet_node(net, "Conv", inputs, count, attrs, 5, &value));
  } else {
    BRAID_TRY(
        braid_darknet_node(net, "Gemm", inputs, count, (braid_darknet_attr[]){BRAID_ATTR_I("transB", 1)}, 1, &value));
  }
  if (normalized) BRAID_TRY(apply_normalization(net, dense, value, &value));
  return braid_darknet_activate(net, dense->activation, value, out);
}

/* --- convolutional, deconvolutional, connected -------------------------------------------------------------------- */
static braid_status geometry(const braid_darknet *net, braid_darknet_dense *dense) {
  int64_t pad, size, stride;
  BRAID_TRY(braid_darknet_int(net, "size", 1, 1, BRAID_DARKNET_MAX_KERNEL, &size));
  BRAID_TRY(braid_darknet_int(net, "size_x", size, 1, BRAID_DARKNET_MAX_KERNEL, &dense->size_x));
  BRAID_TRY(braid_darknet_int(net, "size_y", size, 1, BRAID_DARKNET_MAX_KERNEL, &dense->size_y));
  BRAID_TRY(braid_darknet_int(net, "stride", 1, 1, BRAID_DARKNET_MAX_KERNEL, &stride));
  BRAID_TRY(braid_darknet_int(net, "stride_x", stride, 1, BRAID_DARKNET_MAX_KERNEL, &dense->stride_x));
  BRAID_TRY(braid_darknet_int(net, "stride_y", stride, 1, BRAID_DARKNET_MAX_KERNEL, &dense->stride_y));
  BRAID_TRY(braid_darknet_int(net, "pad", 0, 0, BRAID_DARKNET_MAX_KERNEL, &pad));
  BRAID_TRY(braid_darknet_int(net, "padding", 0, 0, BRAID_DARKNET_MAX_KERNEL, &dense->padding_x));
  BRAID_TRY(braid_darknet_int(net, "dilation", 1, 1, BRAID_DARKNET_MAX_KERNEL, &dense->dilation));
  BRAID_TRY(braid_darknet_int(net, "groups", 1, 1, BRAID_DARKNET_MAX_SIZE, &dense->groups));
  dense->padding_y = pad ? dense->size_y / 2 : dense->padding_x;
  if (pad) dense->padding_x = dense->size_x / 2;
  if (dense->size_x == 1 && dense->size_y == 1) dense->dilation = 1;
  return BRAID_OK;
}

static int64_t convolved(int64_t in, int64_t size, int64_t stride, int64_t padding, int64_t dilation) {
  int64_t room = in + 2 * padding * dilation - (dilation * (size - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

static braid_status batch_normalize(const braid_darknet *net, bool *out) {
  int64_t value;
  BRAID_TRY(braid_darknet_int(net, "batch_normalize", 0, 0, 1, &value));
  *out = value;
  return BRAID_OK;
}

braid_status braid_darknet_layer_convolutional(braid_darknet *net, braid_darknet_output *out) {
  static const char *const kRefused[] = {"binary",     "xnor",     "cbn",     "antialiasing", "share_index",
                                         "sway",       "rotate",   "stretch", "stretch_sway", "assisted_excitation",
                                         "bin_output", "coordconv"};
  braid_darknet_dense dense = {0};
  int64_t filters, flipped;
  bool normalize;
  for (size_t i = 0; i < sizeof kRefused / sizeof *kRefused; i++) BRAID_TRY(braid_darknet_only(net, kRefused[i], 0));
  BRAID_TRY(geometry(net, &dense));
  BRAID_TRY(braid_darknet_int(net, "filters", 1, 1, BRAID_DARKNET_MAX_SIZE, &filters));
  BRAID_TRY(braid_darknet_int(net, "flipped", 0, 0, 1, &flipped));
  BRAID_TRY(batch_normalize(net, &normalize));
  if (net->input.c % dense.groups || filters % dense.groups)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "%lld channels and %lld filters do not divide into %lld groups",
                              (long long)net->input.c, (long long)filters, (long long)dense.groups);
  *out = (braid_darknet_output){
      .c = filters,
      .h = convolved(net->input.h, dense.size_y, dense.stride_y, dense.padding_y, dense.dilation),
      .w = convolved(net->input.w, dense.size_x, dense.stride_x, dense.padding_x, dense.dilation)};
  if (!out->h || !out->w)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "a window of %lld x %lld does not fit its input of %lld x %lld",
                              (long long)dense.size_y, (long long)dense.size_x, (long long)net->input.h,
                              (long long)net->input.w);
  braid_value_id value;
  BRAID_TRY(braid_darknet_convolution(net, "", net->input.c, filters, activation(net, "logistic"), normalize, flipped,
                                      &dense));
  BRAID_TRY(braid_darknet_image(net, &value));
  return braid_darknet_apply(net, &dense, value, &out->value);
}

braid_status braid_darknet_layer_deconvolutional(braid_darknet *net, braid_darknet_output *out) {
  braid_darknet_dense dense = {0};
  int64_t filters, c = net->input.c;
  bool normalize;
  BRAID_TRY(braid_darknet_only(net, "groups", 1));
  BRAID_TRY(braid_darknet_only(net, "dilation", 1));
  BRAID_TRY(geometry(net, &dense));
  BRAID_TRY(braid_darknet_int(net, "filters", 1, 1, BRAID_DARKNET_MAX_SIZE, &filters));
  BRAID_TRY(batch_normalize(net, &normalize));
  dense.scale = -1;
  *out = (braid_darknet_output){.c = filters,
                                .h = (net->input.h - 1) * dense.stride_y + dense.size_y - 2 * dense.padding_y,
                                .w = (net->input.w - 1) * dense.stride_x + dense.size_x - 2 * dense.padding_x};
  BRAID_TRY(braid_darknet_tensor(net, "bias", 1, &filters, BRAID_FILL_ZERO, 1, &dense.bias));
  if (normalize) BRAID_TRY(normalization(net, "", filters, &dense));
  BRAID_TRY(braid_darknet_tensor(net, "weight", 4, (int64_t[]){c, filters, dense.size_y, dense.size_x},
                                 BRAID_FILL_NORMAL, 0.02, &dense.weights));
  int64_t size[2] = {dense.size_y, dense.size_x}, strides[2] = {dense.stride_y, dense.stride_x};
  int64_t pads[4] = {dense.padding_y, dense.padding_x, dense.padding_y, dense.padding_x};
  braid_darknet_attr attrs[] = {BRAID_ATTR_L("kernel_shape", size, 2), BRAID_ATTR_L("pads", pads, 4),
                                BRAID_ATTR_L("strides", strides, 2)};
  braid_value_id value;
  BRAID_TRY(braid_darknet_image(net, &value));
  BRAID_TRY(braid_darknet_node(net, "ConvTranspose", (braid_value_id[]){value, dense.weights, dense.bias},
                               normalize ? 2 : 3, attrs, 3, &value));
  if (normalize) BRAID_TRY(apply_normalization(net, &dense, value, &value));
  return braid_darknet_activate(net, activation(net, "logistic"), value, &out->value);
}

braid_status braid_darknet_layer_connected(braid_darknet *net, braid_darknet_output *out) {
  int64_t outputs, inputs = net->input.c * net->input.h * net->input.w;
  bool normalize;
  BRAID_TRY(braid_darknet_int(net, "output", 1, 1, BRAID_DARKNET_MAX_SIZE, &outputs));
  BRAID_TRY(batch_normalize(net, &normalize));
  braid_darknet_dense dense;
  braid_value_id value;
  BRAID_TRY(braid_darknet_connected(net, "", inputs, outputs, activation(net, "logistic"), normalize, &dense));
  BRAID_TRY(braid_darknet_list(net, &value));
  *out = (braid_darknet_output){.c = outputs, .h = 1, .w = 1, .list = true};
  return braid_darknet_apply(net, &dense, value, &out->value);
}

/* --- pooling and normalization ------------------------------------------------------------------------------------ */
/* Darknet pads `padding` in all, half of it (rounded down) before; windows may reach past the end. */
static int64_t pooled(int64_t in, int64_t size, int64_t stride, int64_t padding, int64_t *begin, int64_t *end) {
  if (in + padding < size) return 0;
  int64_t out = (in + padding - size) / stride + 1, reach = (out - 1) * stride + size;
  *begin = padding / 2;
  *end = reach - in - *begin > 0 ? reach - in - *begin : 0;
  return out;
}

static braid_status pool_windows(braid_darknet *net, const char *op, braid_darknet_output *out) {
  int64_t stride, size, padding, pads[4], strides[2];
  BRAID_TRY(braid_darknet_int(net, "stride", 1, 1, BRAID_DARKNET_MAX_KERNEL, &stride));
  BRAID_TRY(braid_darknet_int(net, "stride_x", stride, 1, BRAID_DARKNET_MAX_KERNEL, &strides[1]));
  BRAID_TRY(braid_darknet_int(net, "stride_y", stride, 1, BRAID_DARKNET_MAX_KERNEL, &strides[0]));
  BRAID_TRY(braid_darknet_int(net, "size", stride, 1, BRAID_DARKNET_MAX_KERNEL, &size));
  BRAID_TRY(braid_darknet_int(net, "padding", size - 1, 0, BRAID_DARKNET_MAX_KERNEL, &padding));
  *out = (braid_darknet_output){.c = net->input.c,
                                .h = pooled(net->input.h, size, strides[0], padding, &pads[0], &pads[2]),
                                .w = pooled(net->input.w, size, strides[1], padding, &pads[1], &pads[3])};
  if (!out->h || !out->w)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "size=%lld does not fit its input of %lld x %lld",
                              (long long)size, (long long)net->input.h, (long long)net->input.w);
  int64_t sizes[2] = {size, size};
  braid_darknet_attr attrs[] = {BRAID_ATTR_L("kernel_shape", sizes, 2), BRAID_ATTR_L("pads", pads, 4),
                                BRAID_ATTR_L("strides", strides, 2)};
  braid_value_id value;
  BRAID_TRY(braid_darknet_image(net, &value));
  return braid_darknet_node(net, op, &value, 1, attrs, 3, &out->value);
}

braid_status braid_darknet_layer_maxpool(braid_darknet *net, braid_darknet_output *out) {
  BRAID_TRY(braid_darknet_only(net, "maxpool_depth", 0));
  BRAID_TRY(braid_darknet_only(net, "maxpool_zero_nonmax", 0));
  BRAID_TRY(braid_darknet_only(net, "antialiasing", 0));
  return pool_windows(net, "MaxPool", out);
}

/* The mean of what a window has of the image, without the padding. */
braid_status braid_darknet_layer_local_avgpool(braid_darknet *net, braid_darknet_output *out) {
  BRAID_TRY(braid_darknet_only(net, "antialiasing", 0));
  return pool_windows(net, "AveragePool", out);
}

braid_status braid_darknet_layer_avgpool(braid_darknet *net, braid_darknet_output *out) {
  braid_value_id value;
  BRAID_TRY(braid_darknet_image(net, &value));
  *out = (braid_darknet_output){.c = net->input.c, .h = 1, .w = 1};
  return braid_darknet_node(net, "GlobalAveragePool", &value, 1, NULL, 0, &out->value);
}

braid_status braid_darknet_layer_batchnorm(braid_darknet *net, braid_darknet_output *out) {
  braid_darknet_dense dense = {0};
  braid_value_id value;
  int64_t c = net->input.c;
  BRAID_TRY(normalization(net, "", c, &dense));
  BRAID_TRY(braid_darknet_zeros(net, c, &dense.bias)); /* not in the file */
  BRAID_TRY(braid_darknet_image(net, &value));
  *out = net->input;
  out->list = false;
  return apply_normalization(net, &dense, value, &out->value);
}

/* Darknet divides by (kappa + alpha * sum of squares), ONNX by (bias + alpha / size * sum). Its running sum leaves out
 * one channel at the start, which is not imitated. */
braid_status braid_darknet_layer_normalization(braid_darknet *net, braid_darknet_output *out) {
  double alpha, beta, kappa;
  int64_t size;
  braid_value_id value;
  BRAID_TRY(braid_darknet_float(net, "alpha", 0.0001, &alpha));
  BRAID_TRY(braid_darknet_float(net, "beta", 0.75, &beta));
  BRAID_TRY(braid_darknet_float(net, "kappa", 1, &kappa));
  BRAID_TRY(braid_darknet_int(net, "size", 5, 1, BRAID_DARKNET_MAX_KERNEL, &size));
  BRAID_TRY(braid_darknet_image(net, &value));
  *out = net->input;
  out->list = false;
  braid_darknet_attr attrs[] = {BRAID_ATTR_F("alpha", alpha * (double)size), BRAID_ATTR_F("beta", beta),
                                BRAID_ATTR_F("bias", kappa), BRAID_ATTR_I("size", size)};
  return braid_darknet_node(net, "LRN", &value, 1, attrs, 4, &out->value);
}

braid_status braid_darknet_layer_l2norm(braid_darknet *net, braid_darknet_output *out) {
  braid_value_id value, norm, axes;
  BRAID_TRY(braid_darknet_image(net, &value));
  BRAID_TRY(braid_darknet_ints(net, (int64_t[]){1}, 1, &axes));
  BRAID_TRY(braid_darknet_node(net, "ReduceL2", (braid_value_id[]){value, axes}, 2, NULL, 0, &norm));
  *out = net->input;
  out->list = false;
  return binary(net, "Div", value, norm, &out->value);
}

/* --- activation, dropout, softmax --------------------------------------------------------------------------------- */
braid_status braid_darknet_layer_activation(braid_darknet *net, braid_darknet_output *out) {
  *out = net->input;
  return braid_darknet_activate(net, activation(net, "linear"), net->input.value, &out->value);
}

braid_status braid_darknet_layer_logistic(braid_darknet *net, braid_darknet_output *out) {
  *out = net->input;
  return braid_darknet_activate(net, "logistic", net->input.value, &out->value);
}

/* Losses: the prediction passes. */
braid_status braid_darknet_layer_pass(braid_darknet *net, braid_darknet_output *out) {
  *out = net->input;
  return BRAID_OK;
}

/* Before the last layer: of an auxiliary classifier, whose loss counts so much beside that of the network's output. */
braid_status braid_darknet_layer_cost(braid_darknet *net, braid_darknet_output *out) {
  double share;
  BRAID_TRY(braid_darknet_float(net, "scale", 1, &share));
  *out = net->input;
  if (net->index + 2 == net->cfg->count) return BRAID_OK;
  if (!(share > 0) || (net->graph->auxiliary_share != 0 && net->graph->auxiliary_share != share))
    return braid_darknet_fail(net, BRAID_UNSUPPORTED,
                              "scale=%g before the last layer, a number above 0 that is the same for all is expected",
                              share);
  net->graph->auxiliary_share = share;
  return BRAID_OK;
}

braid_status braid_darknet_layer_dropout(braid_darknet *net, braid_darknet_output *out) {
  double ratio;
  braid_value_id value;
  BRAID_TRY(braid_darknet_float(net, "probability", 0.5, &ratio));
  if (ratio < 0 || ratio >= 1) return braid_darknet_fail(net, BRAID_INVALID_FILE, "probability is not in [0, 1)");
  *out = net->input;
  BRAID_TRY(braid_darknet_scalar(net, ratio, &value));
  return braid_darknet_node(net, "Dropout", (braid_value_id[]){net->input.value, value}, 2, NULL, 0, &out->value);
}

braid_status braid_darknet_layer_softmax(braid_darknet *net, braid_darknet_output *out) {
  int64_t groups, spatial, count = net->input.c * net->input.h * net->input.w;
  double temperature;
  braid_value_id value;
  BRAID_TRY(braid_darknet_only(net, "tree", 0));
  BRAID_TRY(braid_darknet_int(net, "groups", 1, 1, BRAID_DARKNET_MAX_SIZE, &groups));
  BRAID_TRY(braid_darknet_int(net, "spatial", 0, 0, 1, &spatial));
  BRAID_TRY(braid_darknet_float(net, "temperature", 1, &temperature));
  if (count % groups || temperature <= 0)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "%lld values in %lld groups, temperature %g", (long long)count,
                              (long long)groups, temperature);
  if (spatial)
    BRAID_TRY(braid_darknet_image(net, &value));
  else
    BRAID_TRY(braid_darknet_list(net, &value));
  if (temperature != 1) BRAID_TRY(braid_darknet_with_scalar(net, "Div", value, temperature, &value));
  *out = (braid_darknet_output){.c = count, .h = 1, .w = 1, .list = true};
  if (spatial) *out = net->input, out->list = false;
  bool grouped = !spatial && groups > 1;
  if (grouped) BRAID_TRY(braid_darknet_reshape(net, value, 3, (int64_t[]){-1, groups, count / groups}, &value));
  BRAID_TRY(braid_darknet_node(net, "Softmax", &value, 1,
                               (braid_darknet_attr[]){BRAID_ATTR_I("axis", spatial ? 1 : -1)}, 1, &value));
  if (grouped) BRAID_TRY(braid_darknet_reshape(net, value, 2, (int64_t[]){-1, count}, &value));
  out->value = value;
  return BRAID_OK;
}
