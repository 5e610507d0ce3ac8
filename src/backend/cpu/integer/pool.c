/* Max pooling of integers and its gradient, channels last: a line of channels at a time. docs/integer-training.md is
 * the contract. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/integer/bytes_isa.h"
#include "backend/cpu/integer/sweep.h"

static void pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_BHWC;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_BHWC;
  if (strcmp(node->op, "IntegerMaxPoolGrad") == 0 && node->output_count > 1) outputs[1] = BRAID_LAYOUT_PLAIN;
}

static braid_status pool_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  braid_window *window = braid_zalloc(allocator, sizeof *window);
  *state = window;
  if (!window) return BRAID_NO_MEMORY;
  braid_status status = strcmp(node->op, "IntegerMaxPool") == 0
                            ? braid_geometry_pool(node->attrs, &node->inputs[0].desc, window)
                            : braid_geometry_pool_grad(node->attrs, &node->inputs[0].desc, window);
  if (status == BRAID_OK) return BRAID_OK;
  braid_free(allocator, window);
  *state = NULL;
  return status;
}

/* The input's pixel under place k of output pixel o of an image; -1: padding. */
static int64_t pixel_under(const braid_window *v, int64_t o, int64_t k) {
  int64_t row = o / v->output[2] * v->stride[1] - v->begin[1] + k / v->kernel[2] * v->dilation[1];
  int64_t column = o % v->output[2] * v->stride[2] - v->begin[2] + k % v->kernel[2] * v->dilation[2];
  bool inside = row >= 0 && row < v->input[1] && column >= 0 && column < v->input[2];
  return inside ? row * v->input[2] + column : -1;
}

static braid_status run_max_pool(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_window *v = state;
  const int8_t *x = args->inputs[0];
  int8_t *y = args->outputs[0];
  uint8_t *index = node->output_count > 1 ? args->outputs[1] : NULL;
  int64_t batch = node->inputs[0].desc.dims[0], channels = node->inputs[0].desc.dims[1];
  int64_t outputs = braid_window_outputs(v), inputs = braid_window_inputs(v), places = braid_window_volume(v);
#pragma omp parallel for schedule(static) if (batch * outputs * places * channels > 1 << 15)
  for (int64_t i = 0; i < batch * outputs; i++) {
    int8_t *best = y + i * channels;
    bool any = false;
    memset(best, INT8_MIN, (size_t)channels); /* no operand holds it */
    if (index) memset(index + i * channels, 0, (size_t)channels);
    for (int64_t k = 0; k < places; k++) {
      int64_t pixel = pixel_under(v, i % outputs, k);
      if (pixel < 0) continue;
      const int8_t *from = x + (i / outputs * inputs + pixel) * channels;
      any = true;
      if (index)
        BRAID_ISA_CALL(braid_integer_keep_larger, from, channels, (uint8_t)k, best, index + i * channels);
      else
        BRAID_ISA_CALL(braid_integer_larger, from, channels, best);
    }
    if (!any) memset(best, 0, (size_t)channels);
  }
  return BRAID_OK;
}

/* One image: where windows do not overlap each pixel has one place at most, and is written once. */
static void route_image(const braid_window *v, const braid_cpu_args *args, int64_t image, int64_t channels, bool raw) {
  int64_t outputs = braid_window_outputs(v), inputs = braid_window_inputs(v), places = braid_window_volume(v);
  for (int64_t o = 0; o < outputs; o++) {
    const int8_t *e = (const int8_t *)args->inputs[0] + (image * outputs + o) * channels;
    const uint8_t *index = (const uint8_t *)args->inputs[1] + (image * outputs + o) * channels;
    for (int64_t k = 0; k < places; k++) {
      int64_t pixel = pixel_under(v, o, k), at = (image * inputs + pixel) * channels;
      if (pixel < 0) continue;
      if (raw)
        BRAID_ISA_CALL(braid_integer_route_add, e, index, channels, (uint8_t)k, (int32_t *)args->outputs[0] + at);
      else
        BRAID_ISA_CALL(braid_integer_route, e, index, channels, (uint8_t)k, (int8_t *)args->outputs[0] + at);
    }
  }
}

static braid_status run_max_pool_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_window *v = state;
  const braid_desc *result = &node->outputs[0].desc;
  int64_t batch = result->dims[0], channels = result->dims[1], plane = braid_window_inputs(v) * channels;
  bool raw = result->dtype == BRAID_I32;
  int64_t bytes = plane * (raw ? (int64_t)sizeof(int32_t) : 1);
  uint32_t bits = 0;
#pragma omp parallel for schedule(static) reduction(| : bits) if (batch * plane > 1 << 14)
  for (int64_t b = 0; b < batch; b++) {
    memset((char *)args->outputs[0] + b * bytes, 0, (size_t)bytes);
    route_image(v, args, b, channels, raw);
    const int32_t *sums = raw ? (const int32_t *)args->outputs[0] + b * plane : NULL;
    for (int64_t i = 0; raw && i < plane; i++) bits |= (uint32_t)(sums[i] < 0 ? -sums[i] : sums[i]);
  }
  if (raw && node->output_count > 1 && args->outputs[1]) braid_integer_set_magnitude(result, bits, args->outputs[1]);
  return BRAID_OK;
}

static const braid_cpu_kernel kMaxPool = {.create = pool_create, .run = run_max_pool},
                              kMaxPoolGrad = {.create = pool_create, .run = run_max_pool_grad};

static const braid_kernel kKernels[] = {
    {.op = "IntegerMaxPool", .name = "vector_integer_max_pool", .layouts = pool_layouts, .implementation = &kMaxPool},
    {.op = "IntegerMaxPoolGrad",
     .name = "vector_integer_max_pool_grad",
     .layouts = pool_layouts,
     .implementation = &kMaxPoolGrad},
};

extern const braid_cpu_table braid_cpu_integer_pool;
const braid_cpu_table braid_cpu_integer_pool = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
