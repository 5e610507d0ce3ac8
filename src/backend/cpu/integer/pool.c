/* Pools of integers and their gradients, channels last: for each line of a result and each place of the window, all
 * pixels of the line at once. docs/integer-training.md is the contract. */
#include <omp.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/integer/bytes_isa.h"
#include "backend/cpu/integer/lines_isa.h"
#include "backend/cpu/integer/pool_isa.h"
#include "backend/cpu/integer/sweep.h"
#include "base/checked.h"

/* Workspace: of average pooling, the sums of a line for each thread. */
typedef struct integer_pool {
  braid_window window;
  int64_t batch, channels; /* of all operands */
  int64_t lanes;
} integer_pool;

static void pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_BHWC;
  for (size_t i = 0; i < node->output_count; i++)
    outputs[i] = node->outputs[i].desc.rank == 4 ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN; /* a magnitude */
}

static braid_status pool_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  integer_pool *p = *state = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  bool backward = strstr(node->op, "Grad") != NULL, average = strcmp(node->op, "IntegerAveragePool") == 0;
  const braid_desc *first = &node->inputs[0].desc;
  p->batch = first->dims[0];
  p->channels = first->dims[1];
  p->lanes = omp_get_max_threads();
  braid_status status = backward ? braid_geometry_pool_grad(node->attrs, first, &p->window)
                                 : braid_geometry_pool(node->attrs, first, &p->window);
  size_t line = (size_t)(p->channels * p->window.output[2]);
  if (status == BRAID_OK && average &&
      (!braid_mul_size(line, (size_t)p->lanes * sizeof(int32_t), &info->workspace_bytes)))
    status = braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  if (status == BRAID_OK) return BRAID_OK;
  braid_free(allocator, p);
  *state = NULL;
  return status;
}

/* The pixels of a line of the pooled side that have place k of their window in the image, not in its padding. */
typedef struct pool_line {
  int64_t first, count; /* of the pooled line */
  int64_t pixel, step;  /* of the image: the first one's, and from one to the next */
} pool_line;

static bool find_line(const braid_window *v, int64_t y, int64_t k, pool_line *line) {
  int64_t row = y * v->stride[1] - v->begin[1] + k / v->kernel[2] * v->dilation[1], every = v->stride[2];
  int64_t column = k % v->kernel[2] * v->dilation[2] - v->begin[2], last = v->input[2] - 1 - column;
  int64_t low = column < 0 ? (every - 1 - column) / every : 0, high = last < 0 ? 0 : last / every + 1;
  if (high > v->output[2]) high = v->output[2];
  if (row < 0 || row >= v->input[1] || high <= low) return false;
  *line = (pool_line){low, high - low, row * v->input[2] + column + low * every, every};
  return true;
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
/* Windows that lie in the padding alone give 0. */
static void clear_empty(const integer_pool *p, int64_t y, int8_t *best) {
  const braid_window *v = &p->window;
  for (int64_t x = 0; x < v->output[2]; x++) {
    bool any = false;
    for (int64_t k = 0; k < braid_window_volume(v) && !any; k++) {
      pool_line line;
      any = find_line(v, y, k, &line) && x >= line.first && x < line.first + line.count;
    }
    if (!any) memset(best + x * p->channels, 0, (size_t)p->channels);
  }
}

/* Has every window a place in the image, as it has where padding is smaller than windows? */
static bool all_filled(const braid_window *v) {
  bool filled = true;
  for (int d = 1; d < 3; d++) {
    int64_t reach = (v->kernel[d] - 1) * v->dilation[d], last = (v->output[d] - 1) * v->stride[d] - v->begin[d];
    filled &= v->dilation[d] == 1 && v->begin[d] <= reach && last < v->input[d];
  }
  return filled;
}

static braid_status run_max_pool(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const integer_pool *p = state;
  const braid_window *v = &p->window;
  const int8_t *x = args->inputs[0];
  uint8_t *index = node->output_count > 1 ? args->outputs[1] : NULL;
  int64_t lines = v->output[1], channels = p->channels, places = braid_window_volume(v);
  int64_t bytes = v->output[2] * channels, plane = braid_window_inputs(v) * channels;
  bool filled = all_filled(v);
#pragma omp parallel for schedule(static) if (p->batch * lines * bytes * places > 1 << 15)
  for (int64_t i = 0; i < p->batch * lines; i++) {
    int8_t *best = (int8_t *)args->outputs[0] + i * bytes;
    memset(best, INT8_MIN, (size_t)bytes); /* no operand holds it */
    if (index) memset(index + i * bytes, 0, (size_t)bytes);
    for (int64_t k = 0; k < places; k++) {
      pool_line line;
      if (!find_line(v, i % lines, k, &line)) continue;
      const int8_t *from = x + i / lines * plane + line.pixel * channels;
      int64_t at = line.first * channels;
      if (index)
        BRAID_ISA_CALL(braid_integer_keep_larger, from, line.step * channels, line.count, channels, (uint8_t)k,
                       best + at, index + i * bytes + at);
      else
        BRAID_ISA_CALL(braid_integer_larger, from, line.step * channels, line.count, channels, best + at);
    }
    if (!filled) clear_empty(p, i % lines, best);
  }
  return BRAID_OK;
}

static braid_status run_average_pool(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  const integer_pool *p = state;
  const braid_window *v = &p->window;
  const int8_t *x = args->inputs[0];
  int64_t lines = v->output[1], channels = p->channels, places = braid_window_volume(v);
  int64_t numbers = v->output[2] * channels, plane = braid_window_inputs(v) * channels;
#pragma omp parallel for schedule(static) num_threads((int)p->lanes) if (p->batch * lines * numbers * places > 1 << 15)
  for (int64_t i = 0; i < p->batch * lines; i++) {
    int32_t *sums = (int32_t *)args->workspace + omp_get_thread_num() * numbers;
    int8_t *y = (int8_t *)args->outputs[0] + i * numbers;
    memset(sums, 0, (size_t)numbers * sizeof *sums);
    for (int64_t k = 0; k < places; k++) {
      pool_line line;
      if (find_line(v, i % lines, k, &line))
        BRAID_ISA_CALL(braid_integer_add_pixels, x + i / lines * plane + line.pixel * channels, line.step * channels,
                       line.count, channels, sums + line.first * channels);
    }
    for (int64_t k = 0; k < numbers; k++) y[k] = (int8_t)braid_integer_near(sums[k], places);
  }
  return BRAID_OK;
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
/* One image: where windows do not overlap each pixel has one place at most, and is written once. */
static void spread_image(const integer_pool *p, const braid_cpu_args *args, const uint8_t *index, int64_t image,
                         bool raw) {
  const braid_window *v = &p->window;
  int64_t channels = p->channels, plane = braid_window_inputs(v) * channels;
  int64_t from = image * braid_window_outputs(v) * channels, bytes = v->output[2] * channels;
  int32_t *sums = (int32_t *)args->outputs[0] + image * plane;
  int8_t *errors = (int8_t *)args->outputs[0] + image * plane;
  for (int64_t y = 0; y < v->output[1]; y++, from += bytes)
    for (int64_t k = 0; k < braid_window_volume(v); k++) {
      pool_line line;
      if (!find_line(v, y, k, &line)) continue;
      int64_t at = from + line.first * channels, to = line.pixel * channels, step = line.step * channels;
      const int8_t *e = (const int8_t *)args->inputs[0] + at;
      if (raw)
        BRAID_ISA_CALL(braid_integer_route_add, e, index ? index + at : NULL, line.count, channels, (uint8_t)k,
                       sums + to, step);
      else if (index)
        BRAID_ISA_CALL(braid_integer_route, e, index + at, line.count, channels, (uint8_t)k, errors + to, step);
      else
        BRAID_ISA_CALL(braid_integer_lay_lines, e, channels, line.count, channels, 0, (uint8_t *)errors + to, step);
    }
}

static braid_status run_pool_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const integer_pool *p = state;
  const braid_desc *result = &node->outputs[0].desc;
  const uint8_t *index = node->input_count > 1 ? args->inputs[1] : NULL;
  const int8_t *y = node->input_count > 2 ? args->inputs[2] : NULL; /* of a rectifier behind it */
  int32_t most = (int32_t)braid_integer_max(braid_attr_int(node->attrs, "bits", 8));
  int64_t plane = braid_window_inputs(&p->window) * p->channels;
  bool raw = result->dtype == BRAID_I32;
  int64_t bytes = plane * (raw ? (int64_t)sizeof(int32_t) : 1);
  uint32_t bits = 0;
#pragma omp parallel for schedule(static) reduction(| : bits) if (p->batch * plane > 1 << 14)
  for (int64_t image = 0; image < p->batch; image++) {
    memset((char *)args->outputs[0] + image * bytes, 0, (size_t)bytes);
    spread_image(p, args, index, image, raw);
    int8_t *errors = (int8_t *)args->outputs[0] + image * plane;
    if (y) BRAID_ISA_CALL(braid_integer_pass_within, errors, y + image * plane, plane, most, errors);
    if (raw) bits |= BRAID_ISA_CALL(braid_integer_magnitude, (const int32_t *)args->outputs[0] + image * plane, plane);
  }
  if (raw && node->output_count > 1 && args->outputs[1]) braid_integer_set_magnitude(result, bits, args->outputs[1]);
  return BRAID_OK;
}

static const braid_cpu_kernel kMaxPool = {.create = pool_create, .run = run_max_pool},
                              kAveragePool = {.create = pool_create, .run = run_average_pool},
                              kPoolGrad = {.create = pool_create, .run = run_pool_grad};

#define KERNEL(node_op, kernel_name, kernel)                                                                           \
  { .op = node_op, .name = kernel_name, .layouts = pool_layouts, .implementation = &(kernel) }
static const braid_kernel kKernels[] = {
    KERNEL("IntegerAveragePool", "vector_integer_average_pool", kAveragePool),
    KERNEL("IntegerAveragePoolGrad", "vector_integer_average_pool_grad", kPoolGrad),
    KERNEL("IntegerMaxPool", "vector_integer_max_pool", kMaxPool),
    KERNEL("IntegerMaxPoolGrad", "vector_integer_max_pool_grad", kPoolGrad),
    KERNEL("IntegerMaxPoolGradRelu", "vector_integer_max_pool_grad_relu", kPoolGrad),
};

extern const braid_cpu_table braid_cpu_integer_pool;
const braid_cpu_table braid_cpu_integer_pool = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
