/* Softmax: each core takes whole lines along the axis, as many side by side as fit; a line that is longer than a
 * scratchpad is gone through three times, for its largest number, for the sum, and for the results. */
#include <math.h>

#include "backend/manycore/kernel.h"
#include "backend/manycore/sw26010.h"

/* [outer][size][inner]: a tile has `width` lines side by side (inner > 1) or behind each other (inner = 1), and
 * `chunk` elements of each. */
typedef struct softmax_plan {
  int64_t outer, size, inner;
  int64_t width, chunk;
} softmax_plan;

static bool softmax_plan_init(const braid_node_desc *node, const braid_manycore_group *group, void *out, char *why,
                              size_t why_bytes) {
  softmax_plan *p = out;
  const braid_desc *x = &node->inputs[0].desc;
  if (!braid_manycore_all_float(node, why, why_bytes)) return false;
  int64_t axis = braid_attr_int(node->attrs, "axis", -1);
  if (axis < 0) axis += x->rank;
  *p = (softmax_plan){.outer = 1, .size = 1, .inner = 1};
  for (int i = 0; i < x->rank; i++) *(i < axis ? &p->outer : i == axis ? &p->size : &p->inner) *= x->dims[i];
  if (p->outer * p->size * p->inner == 0) {
    p->outer = 0;
    return true;
  }
  int64_t room = (int64_t)(group->scratchpad / sizeof(float)) - 2 * 16; /* beside the extremes and sums */
  if (room < 32)
    return braid_manycore_refuse(why, why_bytes, "128 bytes of a line do not fit into a scratchpad of %zu bytes",
                                 group->scratchpad);
  int64_t lines = p->inner > 1 ? p->inner : p->outer; /* of which some lie in a tile */
  int64_t share = braid_manycore_quotient(p->outer * p->inner, group->cores);
  p->width = braid_manycore_min(braid_manycore_min(lines, share), 16);
  while (p->width > 1 && p->width * p->size > room) p->width /= 2;
  p->chunk = braid_manycore_min(p->size, room / p->width);
  return true;
}

/* Of element `i` of line `l` of a tile of `width` lines and `chunk` elements. */
typedef struct softmax_steps {
  int64_t element, line;
} softmax_steps;

static void extremes(const float *x, softmax_steps s, int64_t chunk, int64_t width, float *most) {
  for (int64_t l = 0; l < width; l++)
    for (int64_t i = 0; i < chunk; i++) {
      float value = x[i * s.element + l * s.line];
      most[l] = value > most[l] || isnan(value) ? value : most[l];
    }
}

static void exponentials(float *x, softmax_steps s, int64_t chunk, int64_t width, const float *most, float *sums) {
  for (int64_t l = 0; l < width; l++)
    for (int64_t i = 0; i < chunk; i++) {
      float *value = &x[i * s.element + l * s.line];
      sums[l] += *value = expf(*value - most[l]);
    }
}

static void divide(float *x, softmax_steps s, int64_t chunk, int64_t width, const float *most, const float *sums,
                   bool raised) {
  for (int64_t l = 0; l < width; l++)
    for (int64_t i = 0; i < chunk; i++) {
      float *value = &x[i * s.element + l * s.line];
      *value = (raised ? *value : expf(*value - most[l])) / sums[l];
    }
}

/* An exponential by a polynomial of degree 6 and an exponent, on vectors: what the model counts for it. */
enum { kExponential = 12 };

typedef struct softmax_tile {
  braid_manycore_core *core;
  const softmax_plan *plan;
  float *x, *most, *sums;
  braid_manycore_block block; /* the first chunk */
  softmax_steps steps;
  int64_t width;
} softmax_tile;

static void tile_pass(const softmax_tile *t, int pass) {
  const softmax_plan *p = t->plan;
  bool whole = p->chunk == p->size;
  for (int64_t first = 0; first < p->size; first += p->chunk) {
    int64_t chunk = braid_manycore_min(p->chunk, p->size - first);
    braid_manycore_block block = t->block;
    block.first += first * p->inner;
    if (p->inner > 1)
      block.rows = chunk;
    else
      block.run = block.pitch = chunk;
    if (pass == 0 || !whole) braid_manycore_get(t->core, t->x, &block);
    double vectors = braid_sw26010_vectors(chunk * t->width);
    double arithmetic = pass == 0 || (pass == 2 && whole) ? 1 : kExponential;
    if (braid_manycore_compute(t->core, braid_sw26010_pass_cycles(vectors, pass ? 2 : 1, arithmetic), 0)) {
      if (pass == 0) extremes(t->x, t->steps, chunk, t->width, t->most);
      if (pass == 1) exponentials(t->x, t->steps, chunk, t->width, t->most, t->sums);
      if (pass == 2) divide(t->x, t->steps, chunk, t->width, t->most, t->sums, whole);
    }
    block.operand = 1;
    if (pass == 2) braid_manycore_put(t->core, t->x, &block);
    if (pass == 2 || !whole) braid_manycore_step(t->core);
  }
}

static void softmax_run(braid_manycore_core *core, const void *plan) {
  const softmax_plan *p = plan;
  softmax_tile t = {.core = core, .plan = p};
  core->two_buffers = false;
  if (!p->outer) return;
  t.most = braid_manycore_take(core, 16);
  t.sums = braid_manycore_take(core, 16);
  t.x = braid_manycore_take(core, p->width * p->chunk);
  if (!t.most || !t.sums || !t.x) return;
  int64_t lines = p->inner > 1 ? p->inner : p->outer, others = p->inner > 1 ? p->outer : 1;
  int64_t groups = braid_manycore_quotient(lines, p->width);
  for (int64_t item = core->id; item < others * groups; item += core->group->cores) {
    int64_t first = item % groups * p->width, at = item / groups;
    t.width = braid_manycore_min(p->width, lines - first);
    if (p->inner > 1) {
      t.block = (braid_manycore_block){0, at * p->size * p->inner + first, p->chunk, t.width, p->inner, t.width, 1};
      t.steps = (softmax_steps){t.width, 1};
    } else {
      t.block = (braid_manycore_block){0, first * p->size, t.width, p->chunk, p->size, p->chunk, 1};
      t.steps = (softmax_steps){1, p->chunk};
    }
    for (int64_t l = 0; l < t.width && !core->counts_only; l++) t.most[l] = -INFINITY, t.sums[l] = 0;
    for (int pass = 0; pass < 3; pass++) tile_pass(&t, pass);
  }
}

_Static_assert(sizeof(softmax_plan) <= BRAID_MANYCORE_PLAN_BYTES, "a plan holds it");
static const braid_manycore_kernel kSoftmax = {softmax_plan_init, softmax_run, NULL};
static const braid_kernel kKernels[] = {
    {.op = "Softmax", .name = "core_softmax", .in_place = 1, .implementation = &kSoftmax},
};
const braid_manycore_table braid_manycore_softmaxes = {kKernels, sizeof kKernels / sizeof *kKernels};
