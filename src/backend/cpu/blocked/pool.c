/* Two-dimensional pools and their gradients on float32 in blocks of 16 channels, the layout of the convolutions around
 * them, or with channels last where they come so. A plane of one channel block is the unit of work; the inner loop runs
 * over its 16 channels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/blocked/planes_isa.h"
#include "backend/cpu/cpu.h"
#include "graph/geometry.h"

enum { kLanes = BRAID_BLOCKED_LANES, kLeastChannels = 16, kMostPlaces = 256 };

/* --- planes --------------------------------------------------------------------------------------------------------
 */
/* Where a plane begins in a tensor of `places` places. */
static int64_t plane_start(const braid_blocked_pool *p, int64_t plane, int64_t places) {
  int64_t block = plane % p->blocks;
  if (p->stride == kLanes) return plane * places * kLanes; /* with 16 channels both layouts are the same memory */
  return plane / p->blocks * places * p->stride + block * kLanes;
}

static int64_t plane_channels(const braid_blocked_pool *p, int64_t plane) {
  return p->channels - plane % p->blocks * kLanes;
}

/* Row number `index` of all planes: with channels last the planes that share places go together. */
typedef struct line {
  int64_t plane, row;
} line;

static line line_at(const braid_blocked_pool *p, int64_t index) {
  int64_t rows = p->w.output[1];
  if (p->stride == kLanes) return (line){index / rows, index % rows};
  int64_t image = index / (p->blocks * rows), rest = index % (p->blocks * rows);
  return (line){image * p->blocks + rest % p->blocks, rest / p->blocks};
}

/* --- maxima --------------------------------------------------------------------------------------------------------
 */
static braid_status run_max(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_blocked_pool *p = state;
  int64_t in = braid_window_inputs(&p->w), out = braid_window_outputs(&p->w);
  uint8_t *window = node->output_count > 2 ? args->outputs[2] : NULL;
#pragma omp parallel for
  for (int64_t i = 0; i < p->planes * p->w.output[1]; i++) {
    line at = line_at(p, i);
    int64_t from = plane_start(p, at.plane, in), to = plane_start(p, at.plane, out);
    BRAID_ISA_CALL(braid_blocked_max_row, p, (const float *)args->inputs[0] + from, at.row, plane_channels(p, at.plane),
                   (float *)args->outputs[0] + to, window ? window + to : NULL);
  }
  return BRAID_OK;
}

static braid_status run_max_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_blocked_pool *p = state;
  (void)node;
  int64_t in = braid_window_inputs(&p->w), out = braid_window_outputs(&p->w);
#pragma omp parallel for
  for (int64_t plane = 0; plane < p->planes; plane++) {
    int64_t from = plane_start(p, plane, out), to = plane_start(p, plane, in);
    BRAID_ISA_CALL(braid_blocked_max_grad_plane, p, (const float *)args->inputs[0] + from,
                   (const uint8_t *)args->inputs[1] + from, plane_channels(p, plane), (float *)args->outputs[0] + to);
  }
  return BRAID_OK;
}

/* --- averages ------------------------------------------------------------------------------------------------------
 */
static braid_status run_average(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_blocked_pool *p = state;
  (void)node;
  int64_t in = braid_window_inputs(&p->w), out = braid_window_outputs(&p->w);
#pragma omp parallel for
  for (int64_t i = 0; i < p->planes * p->w.output[1]; i++) {
    line at = line_at(p, i);
    BRAID_ISA_CALL(braid_blocked_average_row, p, (const float *)args->inputs[0] + plane_start(p, at.plane, in), at.row,
                   plane_channels(p, at.plane), (float *)args->outputs[0] + plane_start(p, at.plane, out));
  }
  return BRAID_OK;
}

static braid_status run_average_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_blocked_pool *p = state;
  (void)node;
  int64_t in = braid_window_inputs(&p->w), out = braid_window_outputs(&p->w);
#pragma omp parallel for
  for (int64_t plane = 0; plane < p->planes; plane++)
    BRAID_ISA_CALL(braid_blocked_average_grad_plane, p, (const float *)args->inputs[0] + plane_start(p, plane, out),
                   plane_channels(p, plane), (float *)args->outputs[0] + plane_start(p, plane, in));
  return BRAID_OK;
}

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static bool is_gradient(const braid_node_desc *node) {
  return strstr(node->op, "Grad") != NULL;
}

static bool read_pool(const braid_node_desc *node, braid_blocked_pool *p) {
  const braid_desc *given = &node->inputs[0].desc;
  const braid_desc *x = is_gradient(node) ? &node->outputs[0].desc : given;
  int64_t blocks = (given->dims[1] + kLanes - 1) / kLanes;
  *p = (braid_blocked_pool){.planes = given->dims[0] * blocks,
                            .blocks = blocks,
                            .channels = given->dims[1],
                            .stride = given->layout == BRAID_LAYOUT_BHWC ? given->dims[1] : kLanes,
                            .include_pad = braid_attr_int(node->attrs, "count_include_pad", 0) != 0};
  if (strncmp(node->op, "Global", 6) == 0) return braid_geometry_global(x, &p->w) == BRAID_OK;
  if (is_gradient(node)) return braid_geometry_pool_grad(node->attrs, given, &p->w) == BRAID_OK;
  return braid_geometry_pool(node->attrs, given, &p->w) == BRAID_OK;
}

static bool pool_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *x = &node->inputs[0].desc;
  braid_blocked_pool p;
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

static void pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_layout layout = inputs[0] == BRAID_LAYOUT_BHWC ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_BLOCKED16;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = layout;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = layout;
}

static braid_status pool_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  braid_blocked_pool *p = *state = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  if (read_pool(node, p)) return BRAID_OK;
  braid_free(allocator, p);
  *state = NULL;
  return braid_fail(BRAID_INTERNAL, "a pool that was matched cannot be read");
}

static const braid_cpu_kernel kMax = {.create = pool_create, .run = run_max};
static const braid_cpu_kernel kMaxGrad = {.create = pool_create, .run = run_max_grad};
static const braid_cpu_kernel kAverage = {.create = pool_create, .run = run_average};
static const braid_cpu_kernel kAverageGrad = {.create = pool_create, .run = run_average_grad};

#define ENTRY(op_name, kernel_name, cpu)                                                                               \
  { .op = op_name, .name = kernel_name, .match = pool_match, .layouts = pool_layouts, .implementation = &cpu }

static const braid_kernel kKernels[] = {
    ENTRY("MaxPool", "blocked_max_pool", kMax),
    ENTRY("MaxPoolGrad", "blocked_max_pool_grad", kMaxGrad),
    ENTRY("AveragePool", "blocked_average_pool", kAverage),
    ENTRY("AveragePoolGrad", "blocked_average_pool_grad", kAverageGrad),
    ENTRY("GlobalAveragePool", "blocked_average_pool", kAverage),
    ENTRY("GlobalAveragePoolGrad", "blocked_average_pool_grad", kAverageGrad),
};

const braid_cpu_table braid_cpu_blocked_pool = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
