/* Two-dimensional pools and their gradients on float32 in blocks of 16 channels, the layout of the convolutions around
 * them. A plane of one channel block is the unit of work; the inner loop runs over its 16 channels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vectorized.h"
#include "graph/geometry.h"

enum { kLanes = 16, kLeastChannels = 16, kMostPlaces = 256 };

/* ThreadSanitizer's runtime is not there yet when clones are resolved. */
typedef struct pool {
  braid_window w;                   /* dimensions 1 and 2 are height and width */
  int64_t planes, blocks, channels; /* of the batch; of a sample */
  bool include_pad;
} pool;

/* Rows or columns of kernel places that lie inside the input for output `o` of dimension `i`. */
typedef struct span {
  int64_t origin, first, last;
} span;

static span span_of(const braid_window *w, int i, int64_t o) {
  span s = {.origin = o * w->stride[i] - w->begin[i]};
  for (s.first = 0; s.first < w->kernel[i] && s.origin + s.first * w->dilation[i] < 0;) s.first++;
  for (s.last = w->kernel[i]; s.last > s.first && s.origin + (s.last - 1) * w->dilation[i] >= w->input[i];) s.last--;
  return s;
}

static int64_t source_of(const braid_window *w, const span *rows, const span *columns, int64_t kh, int64_t kw) {
  return (rows->origin + kh * w->dilation[1]) * w->input[2] + columns->origin + kw * w->dilation[2];
}

/* --- maxima --------------------------------------------------------------------------------------------------------
 */
static inline void take_larger(const float *x, float *y, int32_t *place, int32_t k) {
#pragma omp simd
  for (int i = 0; i < kLanes; i++) {
    bool better = x[i] > y[i] || x[i] != x[i]; /* NaN is larger than any number */
    y[i] = better ? x[i] : y[i];
    place[i] = better ? k : place[i];
  }
}

/* The last block's padding, lanes from `used` on, stays zero. */
BRAID_VECTORIZED static void max_row(const pool *p, const float *x, int64_t oh, int64_t used, float *y,
                                     uint8_t *window) {
  const braid_window *w = &p->w;
  span rows = span_of(w, 1, oh);
  for (int64_t ow = 0; ow < w->output[2]; ow++) {
    span columns = span_of(w, 2, ow);
    float best[kLanes];
    int32_t place[kLanes];
    for (int i = 0; i < kLanes; i++) best[i] = -INFINITY;
    for (int i = 0; i < kLanes; i++) place[i] = (int32_t)(rows.first * w->kernel[2] + columns.first);
    for (int64_t kh = rows.first; kh < rows.last; kh++)
      for (int64_t kw = columns.first; kw < columns.last; kw++)
        take_larger(x + source_of(w, &rows, &columns, kh, kw) * kLanes, best, place, (int32_t)(kh * w->kernel[2] + kw));
    for (int64_t i = used; i < kLanes; i++) best[i] = 0, place[i] = 0;
    int64_t at = (oh * w->output[2] + ow) * kLanes;
    memcpy(y + at, best, sizeof best);
    for (int i = 0; window && i < kLanes; i++) window[at + i] = (uint8_t)place[i];
  }
}

static braid_status run_max(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const pool *p = state;
  int64_t in = braid_window_inputs(&p->w) * kLanes, out = braid_window_outputs(&p->w) * kLanes;
  uint8_t *window = node->output_count > 2 ? args->outputs[2] : NULL;
#pragma omp parallel for collapse(2)
  for (int64_t plane = 0; plane < p->planes; plane++)
    for (int64_t oh = 0; oh < p->w.output[1]; oh++) {
      int64_t used = p->channels - plane % p->blocks * kLanes;
      max_row(p, (const float *)args->inputs[0] + plane * in, oh, used, (float *)args->outputs[0] + plane * out,
              window ? window + plane * out : NULL);
    }
  return BRAID_OK;
}

/* dx of one plane: at every place of the kernel, dy where the maximum was there. */
BRAID_VECTORIZED static void max_grad_plane(const pool *p, const float *dy, const uint8_t *window, float *dx) {
  const braid_window *w = &p->w;
  memset(dx, 0, (size_t)(braid_window_inputs(w) * kLanes) * sizeof *dx);
  for (int64_t oh = 0; oh < w->output[1]; oh++) {
    span rows = span_of(w, 1, oh);
    for (int64_t ow = 0; ow < w->output[2]; ow++, dy += kLanes, window += kLanes) {
      span columns = span_of(w, 2, ow);
      for (int64_t kh = rows.first; kh < rows.last; kh++)
        for (int64_t kw = columns.first; kw < columns.last; kw++) {
          float *target = dx + source_of(w, &rows, &columns, kh, kw) * kLanes;
          const uint8_t k = (uint8_t)(kh * w->kernel[2] + kw);
#pragma omp simd
          for (int i = 0; i < kLanes; i++) target[i] += window[i] == k ? dy[i] : 0;
        }
    }
  }
}

static braid_status run_max_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const pool *p = state;
  (void)node;
  int64_t in = braid_window_inputs(&p->w) * kLanes, out = braid_window_outputs(&p->w) * kLanes;
#pragma omp parallel for
  for (int64_t plane = 0; plane < p->planes; plane++)
    max_grad_plane(p, (const float *)args->inputs[0] + plane * out, (const uint8_t *)args->inputs[1] + plane * out,
                   (float *)args->outputs[0] + plane * in);
  return BRAID_OK;
}

/* --- averages ------------------------------------------------------------------------------------------------------
 */
/* What an average divides by; a window that is all padding has the average 0. */
static float share_of(const pool *p, const span *rows, const span *columns) {
  const braid_window *w = &p->w;
  int64_t count = (rows->last - rows->first) * (columns->last - columns->first);
  if (p->include_pad) {
    const span *spans[2] = {rows, columns};
    count = 1;
    for (int i = 0; i < 2; i++) {
      int64_t room = w->input[1 + i] + w->end[1 + i] - spans[i]->origin, dilation = w->dilation[1 + i];
      int64_t places = (room + dilation - 1) / dilation;
      count *= places < w->kernel[1 + i] ? places : w->kernel[1 + i];
    }
  }
  return count > 0 ? 1.0f / (float)count : 1.0f;
}

BRAID_VECTORIZED static void average_row(const pool *p, const float *x, int64_t oh, float *y) {
  const braid_window *w = &p->w;
  span rows = span_of(w, 1, oh);
  for (int64_t ow = 0; ow < w->output[2]; ow++) {
    span columns = span_of(w, 2, ow);
    float sum[kLanes] = {0};
    for (int64_t kh = rows.first; kh < rows.last; kh++)
      for (int64_t kw = columns.first; kw < columns.last; kw++) {
        const float *from = x + source_of(w, &rows, &columns, kh, kw) * kLanes;
#pragma omp simd
        for (int i = 0; i < kLanes; i++) sum[i] += from[i];
      }
    float share = share_of(p, &rows, &columns), *to = y + (oh * w->output[2] + ow) * kLanes;
    for (int i = 0; i < kLanes; i++) to[i] = sum[i] * share;
  }
}

static braid_status run_average(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const pool *p = state;
  (void)node;
  int64_t in = braid_window_inputs(&p->w) * kLanes, out = braid_window_outputs(&p->w) * kLanes;
#pragma omp parallel for collapse(2)
  for (int64_t plane = 0; plane < p->planes; plane++)
    for (int64_t oh = 0; oh < p->w.output[1]; oh++)
      average_row(p, (const float *)args->inputs[0] + plane * in, oh, (float *)args->outputs[0] + plane * out);
  return BRAID_OK;
}

BRAID_VECTORIZED static void average_grad_plane(const pool *p, const float *dy, float *dx) {
  const braid_window *w = &p->w;
  memset(dx, 0, (size_t)(braid_window_inputs(w) * kLanes) * sizeof *dx);
  for (int64_t oh = 0; oh < w->output[1]; oh++) {
    span rows = span_of(w, 1, oh);
    for (int64_t ow = 0; ow < w->output[2]; ow++, dy += kLanes) {
      span columns = span_of(w, 2, ow);
      float share = share_of(p, &rows, &columns);
      for (int64_t kh = rows.first; kh < rows.last; kh++)
        for (int64_t kw = columns.first; kw < columns.last; kw++) {
          float *target = dx + source_of(w, &rows, &columns, kh, kw) * kLanes;
#pragma omp simd
          for (int i = 0; i < kLanes; i++) target[i] += dy[i] * share;
        }
    }
  }
}

static braid_status run_average_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const pool *p = state;
  (void)node;
  int64_t in = braid_window_inputs(&p->w) * kLanes, out = braid_window_outputs(&p->w) * kLanes;
#pragma omp parallel for
  for (int64_t plane = 0; plane < p->planes; plane++)
    average_grad_plane(p, (const float *)args->inputs[0] + plane * out, (float *)args->outputs[0] + plane * in);
  return BRAID_OK;
}

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static bool is_gradient(const braid_node_desc *node) {
  return strstr(node->op, "Grad") != NULL;
}

static bool read_pool(const braid_node_desc *node, pool *p) {
  const braid_desc *given = &node->inputs[0].desc;
  const braid_desc *x = is_gradient(node) ? &node->outputs[0].desc : given;
  int64_t blocks = (given->dims[1] + kLanes - 1) / kLanes;
  *p = (pool){.planes = given->dims[0] * blocks,
              .blocks = blocks,
              .channels = given->dims[1],
              .include_pad = braid_attr_int(node->attrs, "count_include_pad", 0) != 0};
  if (strncmp(node->op, "Global", 6) == 0) return braid_geometry_global(x, &p->w) == BRAID_OK;
  if (is_gradient(node)) return braid_geometry_pool_grad(node->attrs, given, &p->w) == BRAID_OK;
  return braid_geometry_pool(node->attrs, given, &p->w) == BRAID_OK;
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *x = &node->inputs[0].desc;
  pool p;
  const char *reason = NULL;
  if (x->dtype != BRAID_F32)
    reason = "float32 only";
  else if (x->rank != 4)
    reason = "two spatial dimensions only";
  else if (x->dims[1] < kLeastChannels)
    reason = "fewer than 16 channels";
  else if (strcmp(node->op, "MaxPool") == 0 && node->output_count > 1 && node->outputs[1].present)
    reason = "indices are wanted";
  else if (!read_pool(node, &p))
    reason = "its geometry";
  else if (strncmp(node->op, "MaxPool", 7) == 0 && braid_window_volume(&p.w) > kMostPlaces)
    reason = "a window of more than 256 places";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

static void layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_BLOCKED16;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_BLOCKED16;
}

static braid_status create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                           braid_prepared_info *info) {
  (void)info;
  pool *p = *state = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  if (read_pool(node, p)) return BRAID_OK;
  braid_free(allocator, p);
  *state = NULL;
  return braid_fail(BRAID_INTERNAL, "a pool that was matched cannot be read");
}

static const braid_cpu_kernel kMax = {.create = create, .run = run_max};
static const braid_cpu_kernel kMaxGrad = {.create = create, .run = run_max_grad};
static const braid_cpu_kernel kAverage = {.create = create, .run = run_average};
static const braid_cpu_kernel kAverageGrad = {.create = create, .run = run_average_grad};

#define ENTRY(op_name, kernel_name, cpu)                                                                               \
  { .op = op_name, .name = kernel_name, .match = match, .layouts = layouts, .implementation = &cpu }

static const braid_kernel kKernels[] = {
    ENTRY("MaxPool", "blocked_max_pool", kMax),
    ENTRY("MaxPoolGrad", "blocked_max_pool_grad", kMaxGrad),
    ENTRY("AveragePool", "blocked_average_pool", kAverage),
    ENTRY("AveragePoolGrad", "blocked_average_pool_grad", kAverageGrad),
    ENTRY("GlobalAveragePool", "blocked_average_pool", kAverage),
    ENTRY("GlobalAveragePoolGrad", "blocked_average_pool_grad", kAverageGrad),
};

const braid_cpu_table braid_cpu_blocked_pool = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
