/* Pools over bytes in layout BHWC: the largest, and averages with a scale and zero point of their own. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/quantized/scales.h"
#include "base/checked.h"
#include "base/try.h"
#include "graph/geometry.h"

typedef struct byte_pool {
  braid_window window;
  int64_t batch, channels;
  bool averages, global, whole; /* whole: padding counts as numbers */
} byte_pool;

static bool pool_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool averages = strncmp(node->op, "QLinear", 7) == 0;
  const braid_desc *x = &node->inputs[0].desc;
  if (averages) return braid_bytes_match(node, (const size_t[]){0}, 1, 3, why, why_bytes);
  const char *reason = NULL;
  if (x->dtype != BRAID_U8 && x->dtype != BRAID_I8)
    reason = "8-bit integers only";
  else if (node->output_count > 1 && (node->outputs[1].present || (node->output_count > 2 && node->outputs[2].present)))
    reason = "no places of the largest";
  else if (braid_desc_count(&node->outputs[0].desc) == 0)
    reason = "an empty result";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

static void pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_PLAIN;
  inputs[0] = outputs[0] = BRAID_LAYOUT_BHWC;
}

static braid_status pool_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  *state = NULL;
  byte_pool *p = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  const braid_desc *x = &node->inputs[0].desc;
  p->averages = strncmp(node->op, "QLinear", 7) == 0;
  p->global = strcmp(node->op, "QLinearGlobalAveragePool") == 0;
  p->whole = braid_attr_int(node->attrs, "count_include_pad", 0) != 0;
  p->batch = x->dims[0];
  p->channels = x->dims[1];
  braid_status status =
      p->global ? braid_geometry_global(x, &p->window) : braid_geometry_pool(node->attrs, x, &p->window);
  size_t bytes = 0, rows = (size_t)(p->batch * braid_window_outputs(&p->window));
  if (status == BRAID_OK && p->averages &&
      (!braid_mul_size((size_t)p->channels * sizeof(int32_t), rows, &bytes) || !braid_add_size(bytes, 64, &bytes)))
    status = braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  info->workspace_bytes = bytes;
  if (status == BRAID_OK)
    *state = p;
  else
    braid_free(allocator, p);
  return status;
}

/* The part of a window that lies within the input, in one dimension. */
static int64_t first_inside(const braid_window *v, int i, int64_t at) {
  return at >= 0 ? 0 : (-at + v->dilation[i] - 1) / v->dilation[i];
}

static int64_t end_inside(const braid_window *v, int i, int64_t at) {
  int64_t end = at >= v->input[i] ? 0 : (v->input[i] - at + v->dilation[i] - 1) / v->dilation[i];
  return end < v->kernel[i] ? end : v->kernel[i];
}

typedef struct pool_job {
  const byte_pool *p;
  const uint8_t *x;
  uint8_t *y;
  int32_t *sums;
  bool is_signed;
  braid_bytes_scale from, to;
} pool_job;

/* Averages divide by the places that are counted: those inside, or with padding, which may not reach beyond it. */
static int64_t count_places(const byte_pool *p, const int64_t at[3], int64_t inside) {
  const braid_window *v = &p->window;
  if (!p->whole) return inside;
  int64_t count = 1;
  for (int i = 0; i < 3; i++) {
    int64_t end = v->input[i] + (v->end[i] > 0 ? v->end[i] : 0), places = 0;
    for (int64_t k = 0; k < v->kernel[i]; k++) places += at[i] + k * v->dilation[i] < end;
    count *= places;
  }
  return count;
}

static void put_average(const pool_job *j, int64_t row, int64_t inside, int64_t count) {
  const int32_t *sums = j->sums + row * j->p->channels;
  float factor = j->from.scale / ((float)(count > 0 ? count : 1) * j->to.scale);
  float zero = (float)j->to.zero, low = (float)(j->to.low - j->to.zero), high = (float)(j->to.high - j->to.zero);
  int32_t offset = -j->from.zero * (int32_t)inside;
  uint8_t *y = j->y + row * j->p->channels;
  for (int64_t c = 0; c < j->p->channels; c++) {
    float value = rintf((float)(sums[c] + offset) * factor);
    y[c] = (uint8_t)(int32_t)((value > high ? high : value >= low ? value : low) + zero);
  }
}

static void run_place(const pool_job *j, int64_t row) {
  const byte_pool *p = j->p;
  const braid_window *v = &p->window;
  int64_t outputs = braid_window_outputs(v), place = row % outputs, first[3], end[3];
  int64_t at[3] = {place / v->output[2] / v->output[1] * v->stride[0] - v->begin[0],
                   place / v->output[2] % v->output[1] * v->stride[1] - v->begin[1],
                   place % v->output[2] * v->stride[2] - v->begin[2]};
  const uint8_t *image = j->x + row / outputs * braid_window_inputs(v) * p->channels;
  uint8_t *y = j->y + row * p->channels;
  int32_t *sums = p->averages ? j->sums + row * p->channels : NULL;
  for (int i = 0; i < 3; i++) first[i] = first_inside(v, i, at[i]), end[i] = end_inside(v, i, at[i]);
  if (sums)
    memset(sums, 0, (size_t)p->channels * sizeof *sums);
  else
    memset(y, j->is_signed ? 0x80 : 0, (size_t)p->channels);
  int64_t inside = 0;
  for (int64_t a = first[0]; a < end[0]; a++)
    for (int64_t b = first[1]; b < end[1]; b++)
      for (int64_t c = first[2]; c < end[2]; c++, inside++) {
        int64_t z = at[0] + a * v->dilation[0], h = at[1] + b * v->dilation[1], w = at[2] + c * v->dilation[2];
        const uint8_t *x = image + ((z * v->input[1] + h) * v->input[2] + w) * p->channels;
        if (sums)
          BRAID_ISA_CALL(braid_bytes_sum, x, j->is_signed, p->channels, sums);
        else
          BRAID_ISA_CALL(braid_bytes_max, x, j->is_signed, p->channels, y);
      }
  if (sums) put_average(j, row, inside, count_places(p, at, inside));
}

static braid_status pool_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const byte_pool *p = state;
  pool_job j = {.p = p,
                .x = args->inputs[0],
                .y = args->outputs[0],
                .sums = args->workspace,
                .is_signed = node->inputs[0].desc.dtype == BRAID_I8};
  if (p->averages) {
    j.from = braid_bytes_scale_of(node, args, node->inputs[0].desc.dtype, 1);
    j.to = braid_bytes_scale_of(node, args, node->outputs[0].desc.dtype, 3);
  }
  int64_t rows = p->batch * braid_window_outputs(&p->window);
#pragma omp parallel for schedule(static) if (rows * p->channels * braid_window_volume(&p->window) > 1 << 14)
  for (int64_t row = 0; row < rows; row++) run_place(&j, row);
  return BRAID_OK;
}

static const braid_cpu_kernel kPool = {.create = pool_create, .run = pool_run};
#define KERNEL(node_op, kernel_name)                                                                                   \
  { .op = node_op, .name = kernel_name, .match = pool_match, .layouts = pool_layouts, .implementation = &kPool }
static const braid_kernel kKernels[] = {
    KERNEL("QLinearAveragePool", "bytes_average_pool"),
    KERNEL("QLinearGlobalAveragePool", "bytes_global_average_pool"),
    KERNEL("MaxPool", "bytes_max_pool"),
};

extern const braid_cpu_table braid_cpu_quantized_pool;
const braid_cpu_table braid_cpu_quantized_pool = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
