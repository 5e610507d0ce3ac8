/* Convolutions, row by row: Conv, FusedConv, ConvTranspose, ConvGradInput, ConvGradFilter, BiasGrad. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"
#include "graph/geometry.h"

enum { LANES = 16 }; /* partial sums of a dot product, whatever the machine */

typedef enum activation {
  ACTIVATION_NONE,
  ACTIVATION_RELU,
  ACTIVATION_LEAKY_RELU,
  ACTIVATION_CLIP,
  ACTIVATION_SIGMOID,
  ACTIVATION_TANH,
  ACTIVATION_HARD_SIGMOID,
  ACTIVATION_HARD_SWISH,
  ACTIVATION_SWISH,
  ACTIVATION_GELU,
} activation;

typedef struct conv_state {
  braid_ref_float base;
  braid_convolution conv;
  activation activation;
  double params[2];
} conv_state;

typedef struct bias_state {
  braid_ref_float base;
  int64_t batch, channels, plane;
} bias_state;

/* Outputs [first, last) of dimension `i` find kernel place `k` inside the input, at o * stride + at. */
typedef struct span {
  int64_t first, last, at;
} span;

static int64_t place_of(const braid_window *window, int i, int64_t o, int64_t k) {
  return o * window->stride[i] + k * window->dilation[i] - window->begin[i];
}

static span span_of(const braid_window *window, int i, int64_t k) {
  int64_t at = place_of(window, i, 0, k), stride = window->stride[i], room = window->input[i] - at;
  span out = {at < 0 ? (stride - 1 - at) / stride : 0, room > 0 ? (room + stride - 1) / stride : 0, at};
  if (out.last > window->output[i]) out.last = window->output[i];
  if (out.last < out.first) out.last = out.first;
  return out;
}

#define T float
#define NAME(stem) stem##_f32
#define MATH(function) function##f
#include "backend/cpu/loops/conv_template.h"
#undef T
#undef NAME
#undef MATH
#define T double
#define NAME(stem) stem##_f64
#define MATH(function) function
#include "backend/cpu/loops/conv_template.h"
#undef T
#undef NAME
#undef MATH

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static braid_status init_conv(const braid_node_desc *node, void *self) {
  conv_state *state = self;
  return braid_geometry_conv(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &state->conv);
}

static braid_status init_fused(const braid_node_desc *node, void *self) {
  /* parameters that are absent get ONNX's defaults */
  static const struct {
    const char *name;
    activation id;
    double params[2];
  } kActivations[] = {
      {"Relu", ACTIVATION_RELU, {0}},
      {"LeakyRelu", ACTIVATION_LEAKY_RELU, {0.01}},
      {"Sigmoid", ACTIVATION_SIGMOID, {0}},
      {"Clip", ACTIVATION_CLIP, {-INFINITY, INFINITY}},
      {"Tanh", ACTIVATION_TANH, {0}},
      {"HardSigmoid", ACTIVATION_HARD_SIGMOID, {0.2, 0.5}},
      {"HardSwish", ACTIVATION_HARD_SWISH, {0}},
      {"Swish", ACTIVATION_SWISH, {1}},
      {"Gelu", ACTIVATION_GELU, {0}},
  };
  conv_state *state = self;
  const char *name = braid_attr_string(node->attrs, "activation", NULL);
  size_t given;
  const float *params = braid_attr_floats(node->attrs, "activation_params", &given);
  for (size_t i = 0; name && i < sizeof kActivations / sizeof *kActivations; i++)
    if (strcmp(name, kActivations[i].name) == 0) {
      state->activation = kActivations[i].id;
      for (size_t p = 0; p < 2; p++) state->params[p] = p < given ? params[p] : kActivations[i].params[p];
    }
  if (name && state->activation == ACTIVATION_NONE)
    return braid_fail(BRAID_UNSUPPORTED, "activation %.40s is not known", name);
  return init_conv(node, self);
}

static braid_status init_transpose(const braid_node_desc *node, void *self) {
  conv_state *state = self;
  return braid_geometry_conv_transpose(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &state->conv);
}

static braid_status init_grad_input(const braid_node_desc *node, void *self) {
  conv_state *state = self;
  return braid_geometry_conv_grad_input(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &state->conv);
}

static braid_status init_grad_filter(const braid_node_desc *node, void *self) {
  conv_state *state = self;
  return braid_geometry_conv_grad_filter(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &state->conv);
}

static braid_status init_bias(const braid_node_desc *node, void *self) {
  bias_state *state = self;
  const braid_desc *dy = &node->inputs[0].desc;
  state->batch = dy->dims[0];
  state->channels = dy->dims[1];
  state->plane = 1;
  for (int i = 2; i < dy->rank; i++) state->plane *= dy->dims[i];
  return BRAID_OK;
}

BRAID_REF_KERNEL(kConv, forward, conv_state, init_conv)
BRAID_REF_KERNEL(kFused, forward, conv_state, init_fused)
BRAID_REF_KERNEL(kTranspose, backward_input, conv_state, init_transpose)
BRAID_REF_KERNEL(kGradInput, backward_input, conv_state, init_grad_input)
BRAID_REF_KERNEL(kGradFilter, backward_filter, conv_state, init_grad_filter)
BRAID_REF_KERNEL(kGradBias, backward_bias, bias_state, init_bias)

#define KERNEL(op_name, kernel_name, cpu)                                                                              \
  { .op = op_name, .name = kernel_name, .match = braid_ref_match_float, .implementation = &cpu }

static const braid_kernel kKernels[] = {
    KERNEL("Conv", "ref_conv", kConv),
    KERNEL("FusedConv", "ref_fused_conv", kFused),
    KERNEL("ConvTranspose", "ref_conv_transpose", kTranspose),
    KERNEL("ConvGradInput", "ref_conv_grad_input", kGradInput),
    KERNEL("ConvGradFilter", "ref_conv_grad_filter", kGradFilter),
    KERNEL("BiasGrad", "ref_bias_grad", kGradBias),
};

extern const braid_cpu_table braid_cpu_loops_conv;
const braid_cpu_table braid_cpu_loops_conv = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
