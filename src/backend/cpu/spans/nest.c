#include "backend/cpu/spans/nest.h"

#include "tensor/layout.h"

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

/* Strides of `operand` for the dimensions of `shape`. */
static void aligned_strides(const braid_desc *shape, const braid_desc *operand, int64_t *out) {
  int64_t own[BRAID_MAX_RANK];
  braid_nest_strides(operand, own);
  for (int i = 0; i < shape->rank; i++) {
    int j = i - (shape->rank - operand->rank);
    out[i] = j < 0 || operand->dims[j] == 1 ? 0 : own[j];
  }
}

static bool can_merge(const braid_nest *nest, int64_t dim, int64_t strides[][BRAID_MAX_RANK], int at) {
  int last = nest->rank - 1;
  for (int i = 0; i < nest->operands; i++)
    if (nest->strides[i][last] != strides[i][at] * dim) return false;
  return true;
}

bool braid_nest_init(braid_nest *nest, const braid_desc *shape, const braid_desc *const *operands, int count) {
  if (all_alike(shape, operands, count)) {
    init_flat(nest, shape, operands, count);
    return true;
  }
  int64_t strides[BRAID_NEST_OPERANDS][BRAID_MAX_RANK] = {{0}};
  if (braid_layout_is_blocked(shape->layout)) return false;
  for (int i = 0; i < count; i++) {
    if (braid_layout_is_blocked(operands[i]->layout)) return false;
    aligned_strides(shape, operands[i], strides[i]);
  }
  int order[BRAID_MAX_RANK];
  braid_nest_order(shape, order);
  *nest = (braid_nest){.operands = count};
  for (int d = 0; d < shape->rank; d++) {
    int64_t dim = shape->dims[order[d]];
    if (dim == 1) continue;
    if (nest->rank && can_merge(nest, dim, strides, order[d]))
      nest->dims[nest->rank - 1] *= dim;
    else
      nest->dims[nest->rank++] = dim;
    for (int i = 0; i < count; i++) nest->strides[i][nest->rank - 1] = strides[i][order[d]];
  }
  if (!nest->rank) { /* one element */
    nest->rank = 1;
    nest->dims[0] = 1;
    for (int i = 0; i < count; i++) nest->strides[i][0] = 1;
  }
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
