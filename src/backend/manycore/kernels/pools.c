/* MaxPool, AveragePool, GlobalMaxPool and GlobalAveragePool: each core takes whole planes, or rows and columns of the
 * results of one. */
#include <math.h>
#include <string.h>

#include "backend/manycore/kernel.h"
#include "backend/manycore/sw26010.h"
#include "graph/geometry.h"

typedef struct pool_plan {
  braid_window window;
  int64_t planes;
  bool max, include_pad, global;
  int64_t tile_down, tile_across; /* of the output */
  int64_t chunk;                  /* global: elements that are got at once */
  bool two_buffers;
} pool_plan;

/* --- tiles ---------------------------------------------------------------------------------------------------------
 */
static int64_t extent(const braid_window *w, int axis, int64_t outputs) {
  return (outputs - 1) * w->stride[axis] + (w->kernel[axis] - 1) * w->dilation[axis] + 1;
}

static int64_t pool_tile_elements(const pool_plan *p, int64_t down, int64_t across) {
  const braid_window *w = &p->window;
  int64_t rows = braid_manycore_min(extent(w, 1, down), w->input[1]);
  int64_t columns = braid_manycore_min(extent(w, 2, across), w->input[2]);
  return braid_manycore_room(rows * columns) + braid_manycore_room(down * across);
}

/* Few large transfers, but a tile for each core. */
static bool choose_tile(pool_plan *p, const braid_manycore_group *group) {
  const braid_window *w = &p->window;
  int64_t elements = (int64_t)(group->scratchpad / sizeof(float));
  for (int buffers = 2; buffers >= 1; buffers--) {
    int64_t down = w->output[1], across = w->output[2];
    while (down > 1 && (buffers * pool_tile_elements(p, down, across) > elements ||
                        p->planes * braid_manycore_quotient(w->output[1], down) < group->cores))
      down = braid_manycore_quotient(down, 2);
    while (across > 1 && buffers * pool_tile_elements(p, down, across) > elements)
      across = braid_manycore_quotient(across, 2);
    if (buffers * pool_tile_elements(p, down, across) > elements) continue;
    p->tile_down = down, p->tile_across = across, p->two_buffers = buffers == 2;
    return true;
  }
  return false;
}

static bool pool_refuse_node(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->output_count > 1 && node->outputs[1].present)
    return braid_manycore_refuse(why, why_bytes, "compute cores do not give the places of maxima");
  return braid_manycore_all_float(node, why, why_bytes);
}

static bool pool_plan_init(const braid_node_desc *node, const braid_manycore_group *group, void *out, char *why,
                           size_t why_bytes) {
  pool_plan *p = out;
  const braid_desc *x = &node->inputs[0].desc;
  if (!pool_refuse_node(node, why, why_bytes)) return false;
  *p = (pool_plan){.max = strstr(node->op, "Max") != NULL, .global = strncmp(node->op, "Global", 6) == 0};
  braid_status status =
      p->global ? braid_geometry_global(x, &p->window) : braid_geometry_pool(node->attrs, x, &p->window);
  if (status != BRAID_OK) return braid_manycore_refuse(why, why_bytes, "%s", braid_error_detail());
  if (!p->global && p->window.rank > 2)
    return braid_manycore_refuse(why, why_bytes, "compute cores pool over one or two spatial dimensions, not %d",
                                 p->window.rank);
  p->include_pad = braid_attr_int(node->attrs, "count_include_pad", 0) != 0;
  if (braid_desc_count(&node->outputs[0].desc) == 0) return true;
  p->planes = x->dims[0] * x->dims[1];
  int64_t elements = (int64_t)(group->scratchpad / sizeof(float));
  if (p->global) {
    p->two_buffers = true;
    p->chunk = braid_manycore_min(braid_manycore_max(braid_window_inputs(&p->window), 1), (elements - 32) / 32 * 16);
    if (p->chunk > 0) return true;
  } else if (choose_tile(p, group)) {
    return true;
  }
  return braid_manycore_refuse(why, why_bytes, "the smallest tile takes %lld bytes, a scratchpad has %zu",
                               (long long)(p->global ? 256 : pool_tile_elements(p, 1, 1) * 4), group->scratchpad);
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
/* Places of a window from `origin` on that lie before `limit`. */
static int64_t places_before(const braid_window *w, int axis, int64_t origin, int64_t limit) {
  int64_t room = limit - origin;
  return room <= 0 ? 0 : braid_manycore_min(braid_manycore_quotient(room, w->dilation[axis]), w->kernel[axis]);
}

/* One result, from a patch whose first number is that of (top, left) in the plane. */
static float pool_window(const pool_plan *p, const float *patch, int64_t pitch, int64_t top, int64_t left, int64_t y,
                         int64_t x) {
  const braid_window *w = &p->window;
  int64_t oy = y * w->stride[1] - w->begin[1], ox = x * w->stride[2] - w->begin[2];
  int64_t first_y = places_before(w, 1, oy, 0), last_y = places_before(w, 1, oy, w->input[1]);
  int64_t first_x = places_before(w, 2, ox, 0), last_x = places_before(w, 2, ox, w->input[2]);
  float value = p->max ? -INFINITY : 0;
  for (int64_t ky = first_y; ky < last_y; ky++)
    for (int64_t kx = first_x; kx < last_x; kx++) {
      float from = patch[(oy + ky * w->dilation[1] - top) * pitch + ox + kx * w->dilation[2] - left];
      if (!p->max)
        value += from;
      else
        value = from > value || isnan(from) ? from : value;
    }
  if (p->max) return value;
  int64_t count = (last_y - first_y) * (last_x - first_x);
  if (p->include_pad)
    count = places_before(w, 1, oy, w->input[1] + w->end[1]) * places_before(w, 2, ox, w->input[2] + w->end[2]);
  return value / (float)(count > 0 ? count : 1);
}

typedef struct pool_tile {
  int64_t plane, top, left, down, across;                 /* of the output */
  int64_t first_row, last_row, first_column, last_column; /* of the input */
} pool_tile;

static void pool_tile_place(const braid_window *w, pool_tile *t) {
  int64_t row = t->top * w->stride[1] - w->begin[1], column = t->left * w->stride[2] - w->begin[2];
  t->first_row = braid_manycore_min(braid_manycore_max(row, 0), w->input[1]);
  t->last_row = braid_manycore_max(braid_manycore_min(row + extent(w, 1, t->down), w->input[1]), t->first_row);
  t->first_column = braid_manycore_min(braid_manycore_max(column, 0), w->input[2]);
  t->last_column =
      braid_manycore_max(braid_manycore_min(column + extent(w, 2, t->across), w->input[2]), t->first_column);
}

static void pool_tile_run(braid_manycore_core *core, const pool_plan *p, pool_tile *t, float *patch, float *result) {
  const braid_window *w = &p->window;
  pool_tile_place(w, t);
  int64_t rows = t->last_row - t->first_row, pitch = t->last_column - t->first_column;
  int64_t first = (t->plane * w->input[1] + t->first_row) * w->input[2] + t->first_column;
  braid_manycore_get(core, patch, &(braid_manycore_block){0, first, rows, pitch, w->input[2], pitch, 1});
  double vectors = w->stride[2] == 1 ? braid_sw26010_vectors(t->across) : (double)t->across;
  double places = (double)(w->kernel[1] * w->kernel[2]);
  if (braid_manycore_compute(core, braid_sw26010_pass_cycles((double)t->down * vectors, places + 1, places), 0))
    for (int64_t y = 0; y < t->down; y++)
      for (int64_t x = 0; x < t->across; x++)
        result[y * t->across + x] =
            pool_window(p, patch, pitch, t->first_row, t->first_column, t->top + y, t->left + x);
  int64_t to = (t->plane * w->output[1] + t->top) * w->output[2] + t->left;
  braid_manycore_put(core, result, &(braid_manycore_block){1, to, t->down, t->across, w->output[2], t->across, 1});
  braid_manycore_step(core);
}

static void pool_run(braid_manycore_core *core, const void *plan) {
  const pool_plan *p = plan;
  const braid_window *w = &p->window;
  float *patch[2] = {NULL}, *result[2] = {NULL};
  core->two_buffers = p->two_buffers;
  if (!p->tile_down) return;
  int64_t rows = braid_manycore_min(extent(w, 1, p->tile_down), w->input[1]);
  int64_t columns = braid_manycore_min(extent(w, 2, p->tile_across), w->input[2]);
  for (int b = 0; b <= p->two_buffers; b++) {
    patch[b] = braid_manycore_take(core, rows * columns);
    result[b] = braid_manycore_take(core, p->tile_down * p->tile_across);
  }
  if (core->status != BRAID_OK) return;
  int64_t down = braid_manycore_quotient(w->output[1], p->tile_down);
  int64_t across = braid_manycore_quotient(w->output[2], p->tile_across), turn = 0;
  for (int64_t item = core->id; item < p->planes * down * across; item += core->group->cores, turn++) {
    pool_tile t = {.plane = item / across / down,
                   .top = item / across % down * p->tile_down,
                   .left = item % across * p->tile_across};
    t.down = braid_manycore_min(p->tile_down, w->output[1] - t.top);
    t.across = braid_manycore_min(p->tile_across, w->output[2] - t.left);
    int b = p->two_buffers ? (int)(turn & 1) : 0;
    pool_tile_run(core, p, &t, patch[b], result[b]);
  }
}

/* Sums run in double: the cores add doubles as fast. */
static void global_chunk(const pool_plan *p, const float *x, int64_t count, double *value) {
  for (int64_t i = 0; i < count; i++)
    if (!p->max)
      *value += (double)x[i];
    else if ((double)x[i] > *value || isnan(x[i]))
      *value = (double)x[i];
}

static void global_run(braid_manycore_core *core, const void *plan) {
  const pool_plan *p = plan;
  int64_t count = braid_window_inputs(&p->window), turn = 0;
  if (!p->chunk) return;
  float *x[2] = {braid_manycore_take(core, p->chunk), braid_manycore_take(core, p->chunk)};
  float *results[2] = {braid_manycore_take(core, 1), braid_manycore_take(core, 1)};
  if (core->status != BRAID_OK) return;
  for (int64_t plane = core->id, done = 0; plane < p->planes; plane += core->group->cores, done++) {
    float *result = results[done & 1];
    double value = p->max ? -INFINITY : 0;
    for (int64_t first = 0; first < count; first += p->chunk, turn++) {
      int64_t some = braid_manycore_min(p->chunk, count - first);
      braid_manycore_get(core, x[turn & 1], &(braid_manycore_block){0, plane * count + first, 1, some, some, some, 1});
      if (braid_manycore_compute(core, braid_sw26010_pass_cycles(braid_sw26010_vectors(some), 1, 1), 0))
        global_chunk(p, x[turn & 1], some, &value);
      if (first + some < count) braid_manycore_step(core);
    }
    if (braid_manycore_compute(core, 1, 0)) *result = (float)(p->max ? value : value / (double)(count ? count : 1));
    braid_manycore_put(core, result, &(braid_manycore_block){1, plane, 1, 1, 1, 1, 1});
    braid_manycore_step(core);
  }
}

_Static_assert(sizeof(pool_plan) <= BRAID_MANYCORE_PLAN_BYTES, "a plan holds it");
static const braid_manycore_kernel kPool = {pool_plan_init, pool_run, NULL};
static const braid_manycore_kernel kGlobal = {pool_plan_init, global_run, NULL};
static const braid_kernel kKernels[] = {
    {.op = "MaxPool", .name = "core_max_pool", .implementation = &kPool},
    {.op = "AveragePool", .name = "core_average_pool", .implementation = &kPool},
    {.op = "GlobalMaxPool", .name = "core_global_pool", .implementation = &kGlobal},
    {.op = "GlobalAveragePool", .name = "core_global_pool", .implementation = &kGlobal},
};
const braid_manycore_table braid_manycore_pools = {kKernels, sizeof kKernels / sizeof *kKernels};
