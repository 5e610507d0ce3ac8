/* Convolutions and pools of training in integers: docs/integer-training.md. Windows are walked in three dimensions,
 * the first of one element for images; a convolution without spatial dimensions has one position. */
#include <string.h>

#include "backend/cpu/plain/integer.h"
#include "base/try.h"

/* The input under place k of output o; -1: padding. */
static int64_t input_under(const braid_window *window, int64_t o, int64_t k) {
  int64_t at = 0, outputs = braid_window_outputs(window), places = braid_window_volume(window);
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) {
    outputs /= window->output[i];
    places /= window->kernel[i];
    int64_t place = o / outputs % window->output[i] * window->stride[i] - window->begin[i] +
                    k / places % window->kernel[i] * window->dilation[i];
    if (place < 0 || place >= window->input[i]) return -1;
    at = at * window->input[i] + place;
  }
  return at;
}

/* The table of input_under for all outputs and places: [o * places + k]. */
typedef struct window_state {
  braid_convolution conv; /* of pools the window alone */
  int64_t places, outputs, inputs;
  int32_t under[];
} window_state;

static braid_status window_create(const braid_allocator *allocator, const braid_convolution *conv, void **out) {
  int64_t places = braid_window_volume(&conv->window), outputs = braid_window_outputs(&conv->window);
  int64_t inputs = braid_window_inputs(&conv->window);
  if (inputs > INT32_MAX || (places > 0 && outputs > INT32_MAX / places))
    return braid_fail(BRAID_UNSUPPORTED, "the image is too large for the plain kernel");
  window_state *state = braid_zalloc(allocator, sizeof *state + (size_t)(places * outputs) * sizeof *state->under);
  *out = state;
  if (!state) return BRAID_NO_MEMORY;
  *state = (window_state){.conv = *conv, .places = places, .outputs = outputs, .inputs = inputs};
  for (int64_t i = 0; i < places * outputs; i++)
    state->under[i] = (int32_t)input_under(&conv->window, i / places, i % places);
  return BRAID_OK;
}

static braid_status create_conv(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  braid_convolution conv;
  BRAID_TRY(braid_integer_conv(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &conv));
  return window_create(allocator, &conv, state);
}
static braid_status create_conv_grad_input(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                           braid_prepared_info *info) {
  (void)info;
  braid_convolution conv;
  BRAID_TRY(braid_integer_conv_grad_input(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &conv));
  return window_create(allocator, &conv, state);
}
static braid_status create_conv_grad_filter(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                            braid_prepared_info *info) {
  (void)info;
  braid_convolution conv;
  BRAID_TRY(braid_integer_conv_grad_filter(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &conv));
  return window_create(allocator, &conv, state);
}
static braid_status create_pool(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  braid_convolution conv = {0};
  BRAID_TRY(braid_geometry_pool(node->attrs, &node->inputs[0].desc, &conv.window));
  return window_create(allocator, &conv, state);
}
static braid_status create_pool_grad(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                     braid_prepared_info *info) {
  (void)info;
  braid_convolution conv = {0};
  BRAID_TRY(braid_geometry_pool_grad(node->attrs, &node->inputs[0].desc, &conv.window));
  return window_create(allocator, &conv, state);
}

/* --- convolution ---------------------------------------------------------------------------------------------------
 */
/* The sum of filter f over the window of output o in one sample's channels of the group. */
static int64_t window_sum(const window_state *s, const int8_t *x, const int8_t *w, int64_t o) {
  const int32_t *under = s->under + o * s->places;
  int64_t channels = s->conv.inputs / s->conv.groups, sum = 0;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t k = 0; k < s->places; k++)
      if (under[k] >= 0) sum += x[c * s->inputs + under[k]] * w[c * s->places + k];
  return sum;
}

static braid_status run_conv(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const window_state *s = state;
  const int8_t *x = args->inputs[0], *w = args->inputs[1];
  int64_t shift = braid_attr_int(node->attrs, "shift", 0), bits = braid_attr_int(node->attrs, "bits", 8);
  bool relu = braid_attr_int(node->attrs, "relu", 0) != 0;
  int64_t filters = s->conv.outputs, channels = s->conv.inputs / s->conv.groups, planes = s->conv.batch * filters;
  braid_dtype dtype = node->outputs[0].desc.dtype;
#pragma omp parallel for
  for (int64_t plane = 0; plane < planes; plane++) {
    int64_t b = plane / filters, f = plane % filters, group = f / (filters / s->conv.groups);
    const int8_t *image = x + (b * s->conv.inputs + group * channels) * s->inputs;
    for (int64_t o = 0; o < s->outputs; o++) {
      int64_t sum = window_sum(s, image, w + f * channels * s->places, o);
      braid_plain_set(dtype, args->outputs[0], plane * s->outputs + o,
                      braid_plain_clip(braid_integer_round(sum, shift), bits, relu));
    }
  }
  return BRAID_OK;
}

/* Adds the errors of one filter to the inputs of one plane. */
#define SPREAD(type)                                                                                                   \
  static void spread_##type(const window_state *s, const int8_t *error, const int8_t *weights, type *plane) {          \
    const int32_t *under = s->under;                                                                                   \
    for (int64_t o = 0; o < s->outputs; o++)                                                                           \
      for (int64_t k = 0; k < s->places; k++, under++)                                                                 \
        if (*under >= 0) plane[*under] += error[o] * weights[k];                                                       \
  }
SPREAD(int32_t)
SPREAD(int64_t)

static braid_status run_conv_grad_input(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const window_state *s = state;
  const int8_t *e = args->inputs[0], *w = args->inputs[1];
  const braid_desc *raw = &node->outputs[0].desc;
  int64_t filters = s->conv.outputs / s->conv.groups, channels = s->conv.inputs / s->conv.groups;
  int64_t planes = s->conv.batch * s->conv.inputs;
  memset(args->outputs[0], 0, braid_desc_bytes(raw));
#pragma omp parallel for
  for (int64_t plane = 0; plane < planes; plane++) {
    int64_t b = plane / s->conv.inputs, c = plane % s->conv.inputs, group = c / channels;
    for (int64_t f = group * filters; f < (group + 1) * filters; f++) {
      const int8_t *error = e + (b * s->conv.outputs + f) * s->outputs;
      const int8_t *weights = w + (f * channels + c % channels) * s->places;
      if (raw->dtype == BRAID_I32)
        spread_int32_t(s, error, weights, (int32_t *)args->outputs[0] + plane * s->inputs);
      else
        spread_int64_t(s, error, weights, (int64_t *)args->outputs[0] + plane * s->inputs);
    }
  }
  braid_plain_magnitude(raw, args->outputs[0], args->outputs[1]);
  return BRAID_OK;
}

static braid_status run_conv_grad_filter(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const window_state *s = state;
  const int8_t *x = args->inputs[0], *e = args->inputs[1];
  const braid_desc *raw = &node->outputs[0].desc;
  int64_t filters = s->conv.outputs, channels = s->conv.inputs / s->conv.groups;
#pragma omp parallel for
  for (int64_t i = 0; i < filters * channels * s->places; i++) {
    int64_t k = i % s->places, c = i / s->places % channels, f = i / s->places / channels, sum = 0;
    int64_t channel = f / (filters / s->conv.groups) * channels + c;
    for (int64_t b = 0; b < s->conv.batch; b++) {
      const int8_t *image = x + (b * s->conv.inputs + channel) * s->inputs;
      const int8_t *error = e + (b * filters + f) * s->outputs;
      for (int64_t o = 0; o < s->outputs; o++) {
        int32_t under = s->under[o * s->places + k];
        if (under >= 0) sum += image[under] * error[o];
      }
    }
    braid_plain_set(raw->dtype, args->outputs[0], i, sum);
  }
  braid_plain_magnitude(raw, args->outputs[0], args->outputs[1]);
  return BRAID_OK;
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static int64_t count_planes(const braid_desc *desc) {
  return desc->dims[0] * desc->dims[1];
}

static braid_status run_max_pool(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const window_state *s = state;
  const int8_t *x = args->inputs[0];
  int8_t *y = args->outputs[0];
  uint8_t *index = node->output_count > 1 ? args->outputs[1] : NULL;
  int64_t count = count_planes(&node->inputs[0].desc) * s->outputs;
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    const int8_t *plane = x + i / s->outputs * s->inputs;
    const int32_t *under = s->under + i % s->outputs * s->places;
    int64_t best = -1;
    for (int64_t k = 0; k < s->places; k++)
      if (under[k] >= 0 && (best < 0 || plane[under[k]] > plane[under[best]])) best = k;
    y[i] = best < 0 ? 0 : plane[under[best]];
    if (index) index[i] = (uint8_t)(best < 0 ? 0 : best);
  }
  return BRAID_OK;
}

static braid_status run_average_pool(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const window_state *s = state;
  const int8_t *x = args->inputs[0];
  int8_t *y = args->outputs[0];
  int64_t count = count_planes(&node->inputs[0].desc) * s->outputs;
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    int64_t sum = 0;
    for (int64_t k = 0; k < s->places; k++)
      sum += x[i / s->outputs * s->inputs + s->under[i % s->outputs * s->places + k]];
    y[i] = (int8_t)braid_integer_near(sum, s->places);
  }
  return BRAID_OK;
}

/* The error of each output goes to the place `index` says, or to all without one. */
static braid_status run_pool_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const window_state *s = state;
  const int8_t *e = args->inputs[0];
  const uint8_t *index = node->input_count > 1 ? args->inputs[1] : NULL;
  const braid_desc *result = &node->outputs[0].desc;
  memset(args->outputs[0], 0, braid_desc_bytes(result));
  int64_t planes = count_planes(&node->inputs[0].desc);
#pragma omp parallel for
  for (int64_t plane = 0; plane < planes; plane++)
    for (int64_t i = 0; i < s->outputs * s->places; i++) {
      int64_t from = plane * s->outputs + i / s->places;
      if (s->under[i] < 0 || (index && index[from] != i % s->places)) continue;
      int64_t at = plane * s->inputs + s->under[i];
      int64_t sum = braid_plain_get(result->dtype, args->outputs[0], at) + e[from];
      braid_plain_set(result->dtype, args->outputs[0], at, sum);
    }
  if (node->output_count > 1 && args->outputs[1]) braid_plain_magnitude(result, args->outputs[0], args->outputs[1]);
  if (node->input_count > 2)
    braid_plain_rectify(args->outputs[0], args->inputs[2], braid_desc_count(result),
                        braid_attr_int(node->attrs, "bits", 8));
  return BRAID_OK;
}

static const braid_cpu_kernel kConv = {.create = create_conv, .run = run_conv},
                              kConvGradInput = {.create = create_conv_grad_input, .run = run_conv_grad_input},
                              kConvGradFilter = {.create = create_conv_grad_filter, .run = run_conv_grad_filter},
                              kMaxPool = {.create = create_pool, .run = run_max_pool},
                              kAveragePool = {.create = create_pool, .run = run_average_pool},
                              kPoolGrad = {.create = create_pool_grad, .run = run_pool_grad};

static const braid_kernel kKernels[] = {
    {.op = "IntegerAveragePool", .name = "ref_integer_average_pool", .implementation = &kAveragePool},
    {.op = "IntegerAveragePoolGrad", .name = "ref_integer_average_pool_grad", .implementation = &kPoolGrad},
    {.op = "IntegerConv", .name = "ref_integer_conv", .implementation = &kConv},
    {.op = "IntegerConvGradFilter", .name = "ref_integer_conv_grad_filter", .implementation = &kConvGradFilter},
    {.op = "IntegerConvGradInput", .name = "ref_integer_conv_grad_input", .implementation = &kConvGradInput},
    {.op = "IntegerMaxPool", .name = "ref_integer_max_pool", .implementation = &kMaxPool},
    {.op = "IntegerMaxPoolGrad", .name = "ref_integer_max_pool_grad", .implementation = &kPoolGrad},
    {.op = "IntegerMaxPoolGradRelu", .name = "ref_integer_max_pool_grad_relu", .implementation = &kPoolGrad},
};

const braid_cpu_table braid_cpu_plain_integer_window = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
