#include "backend/cpu/spans/nest.h"

#include "tensor/layout.h"

enum { kShort = 128 };

void braid_nest_order(const braid_desc *desc, int *order) {
  braid_layout_parts parts = braid_layout_take_apart(desc->layout, desc->rank);
  for (int i = 0; i < desc->rank; i++) order[i] = parts.order[i];
}

void braid_nest_strides(const braid_desc *desc, int64_t *strides) {
  int order[BRAID_MAX_RANK];
  braid_nest_order(desc, order);
  int64_t step = 1;
  for (int i = desc->rank; i-- > 0;) {
    strides[order[i]] = step;
    step *= desc->dims[order[i]];
  }
}

static bool is_single(const braid_desc *desc) {
  return braid_desc_count(desc) == 1;
}

static bool all_alike(const braid_desc *shape, const braid_desc *const *operands, int count) {
  for (int i = 0; i < count; i++) {
    bool same = braid_desc_same_shape(shape, operands[i]) && operands[i]->layout == shape->layout;
    if (!same && (!is_single(operands[i]) || operands[i]->rank > shape->rank)) return false;
  }
  return true;
}

static void init_flat(braid_nest *nest, const braid_desc *shape, const braid_desc *const *operands, int count) {
  *nest = (braid_nest){.rank = 1, .operands = count};
  nest->dims[0] = (int64_t)(braid_desc_bytes(shape) / braid_dtype_size(shape->dtype));
  for (int i = 0; i < count; i++) {
    bool repeats = is_single(operands[i]) && (!is_single(shape) || operands[i]->layout != shape->layout);
    nest->strides[i][0] = repeats ? 0 : 1;
  }
}

/* A loop over a dimension of the shape, or over a part of it: `step` is how far in the dimension one turn goes. */
typedef struct nest_loop {
  int dim, block; /* block: -1, the outer part */
  int64_t count, step;
} nest_loop;

/* The loops over everything in the memory of `shape`, the outermost first. */
static int list_loops(const braid_desc *shape, const braid_places *places, nest_loop *loops) {
  int order[BRAID_MAX_RANK], count = 0;
  int64_t left[BRAID_MAX_RANK];
  braid_nest_order(shape, order);
  for (int i = 0; i < shape->rank; i++) {
    int d = order[i];
    left[d] = places->unit[d];
    loops[count++] = (nest_loop){d, -1, places->outer[d], left[d]};
  }
  for (int i = 0; i < places->block_count; i++) {
    int d = places->blocks[i].dim;
    left[d] /= places->blocks[i].size;
    loops[count++] = (nest_loop){d, i, places->blocks[i].size, left[d]};
  }
  return count;
}

/* Strides of `operand` in the loops over `shape`. */
static bool loop_strides(const braid_desc *shape, const braid_places *places, const nest_loop *loops, int count,
                         const braid_desc *operand, int64_t *out) {
  bool blocked = braid_layout_is_blocked(operand->layout) && operand->rank > 0;
  if (blocked && (operand->layout != shape->layout || operand->rank != shape->rank)) return false;
  braid_places own = braid_places_of(operand);
  for (int i = 0; i < count; i++) {
    int d = loops[i].dim, j = d - (shape->rank - operand->rank);
    bool padded = places->dims[d] % places->unit[d] != 0;
    bool repeats = j < 0 || operand->dims[j] != shape->dims[d];
    if (padded && (repeats || !blocked)) return false;
    out[i] = repeats                          ? 0
             : blocked && loops[i].block >= 0 ? own.block_stride[loops[i].block]
             : blocked                        ? own.stride[j]
             : operand->dims[j] == 1          ? 0
                                              : own.stride[j] * loops[i].step;
  }
  return true;
}

/* Whether a loop of `count` turns inside of the innermost one so far makes one loop with it. */
static bool can_merge(const braid_nest *nest, int64_t count, int64_t strides[][BRAID_NEST_RANK], int at) {
  int last = nest->rank - 1;
  for (int i = 0; i < nest->operands; i++)
    if (nest->strides[i][last] != strides[i][at] * count) return false;
  return true;
}

/* A short innermost loop and the one around it become one if operands that go on in the one merely begin again in the
 * other. */
static void merge_short(braid_nest *nest) {
  int last = nest->rank - 1;
  int64_t period = nest->dims[last];
  if (nest->rank < 2 || period > kShort) return;
  for (int i = 0; i < nest->operands; i++) {
    bool merges = nest->strides[i][last - 1] == nest->strides[i][last] * period;
    bool begins_again = nest->strides[i][last - 1] == 0 && nest->strides[i][last] == 1;
    if (!merges && !begins_again) return;
  }
  for (int i = 0; i < nest->operands; i++) {
    if (nest->strides[i][last - 1] == 0 && nest->strides[i][last] == 1) nest->period[i] = period;
    nest->strides[i][last - 1] = nest->strides[i][last];
  }
  nest->dims[last - 1] *= period;
  nest->rank--;
}

bool braid_nest_init(braid_nest *nest, const braid_desc *shape, const braid_desc *const *operands, int count) {
  if (all_alike(shape, operands, count)) {
    init_flat(nest, shape, operands, count);
    return true;
  }
  int64_t strides[BRAID_NEST_OPERANDS][BRAID_NEST_RANK] = {{0}};
  nest_loop loops[BRAID_NEST_RANK];
  braid_places places = braid_places_of(shape);
  int loop_count = list_loops(shape, &places, loops);
  for (int i = 0; i < count; i++)
    if (!loop_strides(shape, &places, loops, loop_count, operands[i], strides[i])) return false;
  *nest = (braid_nest){.operands = count};
  for (int k = 0; k < loop_count; k++) {
    if (loops[k].count == 1) continue;
    if (nest->rank && can_merge(nest, loops[k].count, strides, k))
      nest->dims[nest->rank - 1] *= loops[k].count;
    else
      nest->dims[nest->rank++] = loops[k].count;
    for (int i = 0; i < count; i++) nest->strides[i][nest->rank - 1] = strides[i][k];
  }
  if (!nest->rank) { /* one element */
    nest->rank = 1;
    nest->dims[0] = 1;
    for (int i = 0; i < count; i++) nest->strides[i][0] = 1;
  }
  merge_short(nest);
  return true;
}

int64_t braid_nest_outer(const braid_nest *nest) {
  int64_t count = 1;
  for (int i = 0; i < nest->rank - 1; i++) count *= nest->dims[i];
  return count;
}

void braid_nest_seek(const braid_nest *nest, int64_t index, braid_nest_cursor *cursor) {
  *cursor = (braid_nest_cursor){0};
  for (int i = nest->rank - 1; i-- > 0;) {
    cursor->at[i] = index % nest->dims[i];
    index /= nest->dims[i];
    for (int k = 0; k < nest->operands; k++) cursor->offsets[k] += cursor->at[i] * nest->strides[k][i];
  }
}

void braid_nest_next(const braid_nest *nest, braid_nest_cursor *cursor) {
  for (int i = nest->rank - 1; i-- > 0;) {
    for (int k = 0; k < nest->operands; k++) cursor->offsets[k] += nest->strides[k][i];
    if (++cursor->at[i] < nest->dims[i]) return;
    cursor->at[i] = 0;
    for (int k = 0; k < nest->operands; k++) cursor->offsets[k] -= nest->dims[i] * nest->strides[k][i];
  }
}
