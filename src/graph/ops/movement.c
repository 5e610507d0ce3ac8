/* Ops that move elements and compute nothing. */
#include <string.h>

#include "graph/ops/movement.h"

#include "base/checked.h"
#include "base/try.h"

/* --- transpose ---------------------------------------------------------------------------------------------------- */
static braid_status permutation(const braid_infer *infer, int rank, int64_t perm[BRAID_MAX_RANK]) {
  size_t count;
  const int64_t *given = braid_attr_ints(&infer->node->attrs, "perm", &count);
  bool seen[BRAID_MAX_RANK] = {false};
  if (given && count != (size_t)rank)
    return braid_infer_fail(infer, "perm has %zu values, the input %d dimensions", count, rank);
  for (int i = 0; i < rank; i++) {
    perm[i] = given ? given[i] : rank - 1 - i;
    if (perm[i] < 0) perm[i] += rank;
    if (perm[i] < 0 || perm[i] >= rank || seen[perm[i]]) return braid_infer_fail(infer, "perm is no permutation");
    seen[perm[i]] = true;
  }
  return BRAID_OK;
}

static braid_status infer_transpose(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t perm[BRAID_MAX_RANK], dims[BRAID_MAX_RANK];
  BRAID_TRY(permutation(infer, x->rank, perm));
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[perm[i]];
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

static braid_status transpose_gradient(braid_gradient_context *context) {
  braid_node *forward = &context->graph->nodes[context->node];
  int rank = context->graph->values[forward->inputs[0]].desc.rank;
  int64_t perm[BRAID_MAX_RANK], inverse[BRAID_MAX_RANK];
  BRAID_TRY(permutation(&(braid_infer){context->graph, forward}, rank, perm));
  for (int i = 0; i < rank; i++) inverse[perm[i]] = i;
  braid_value_id dy = braid_gradient_of_output(context, 0), gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "Transpose", &dy, 1, &gradient, &node));
  BRAID_TRY(braid_graph_set_ints(context->graph, node, "perm", inverse, (size_t)rank));
  return braid_gradient_give(context, 0, gradient);
}

/* --- concat, split ------------------------------------------------------------------------------------------------ */
static braid_status infer_concat(const braid_infer *infer) {
  const braid_desc *first = braid_infer_input(infer, 0);
  int64_t dims[BRAID_MAX_RANK];
  int axis;
  if (!braid_attr_has(&infer->node->attrs, "axis")) return braid_infer_fail(infer, "attribute axis is missing");
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", 0), first->rank, &axis));
  memcpy(dims, first->dims, sizeof dims);
  for (size_t i = 1; i < braid_infer_inputs(infer); i++) {
    const braid_desc *x = braid_infer_input(infer, i);
    bool fits = x && x->rank == first->rank && x->dtype == first->dtype;
    for (int d = 0; fits && d < first->rank; d++) fits = d == axis || x->dims[d] == first->dims[d];
    if (!fits) return braid_infer_fail(infer, "input %zu differs from input 0 in more than dimension %d", i, axis);
    if (!braid_add_i64(dims[axis], x->dims[axis], &dims[axis])) return braid_infer_fail(infer, "the shape overflows");
  }
  return braid_infer_output(infer, 0, first->dtype, first->rank, dims);
}

/* dy is split again; inputs whose gradient nobody wants get none. */
static braid_status concat_gradient(braid_gradient_context *context) {
  braid_node *forward = &context->graph->nodes[context->node];
  size_t count = forward->input_count;
  int64_t axis = braid_attr_int(&forward->attrs, "axis", 0);
  int rank = context->graph->values[forward->inputs[0]].desc.rank;
  int64_t *sizes = braid_graph_arena_alloc(context->graph, count * sizeof *sizes);
  braid_value_id *parts = braid_graph_arena_alloc(context->graph, count * sizeof *parts), lengths;
  if (!sizes || !parts) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++)
    sizes[i] = context->graph->values[forward->inputs[i]].desc.dims[axis < 0 ? axis + rank : axis];
  BRAID_TRY(braid_gradient_ints(context, sizes, count, &lengths));
  braid_node_id node;
  braid_value_id inputs[2] = {braid_gradient_of_output(context, 0), lengths};
  BRAID_TRY(braid_graph_add_node(context->graph, "Split", NULL, inputs, 2, parts, count, &node));
  context->graph->nodes[node].backward = true;
  BRAID_TRY(braid_graph_set_int(context->graph, node, "axis", axis));
  for (size_t i = 0; i < count; i++)
    if (braid_gradient_wanted(context, i)) BRAID_TRY(braid_gradient_give(context, i, parts[i]));
  return BRAID_OK;
}

/* Sizes from input 1, or equal ones: ceil(n / outputs), the last the rest. */
static braid_status split_sizes(const braid_infer *infer, int axis, int64_t *sizes) {
  const braid_desc *x = braid_infer_input(infer, 0);
  size_t outputs = infer->node->output_count, count;
  int64_t total = 0;
  if (braid_infer_input(infer, 1)) {
    BRAID_TRY(braid_infer_ints(infer, 1, "split", sizes, outputs, &count));
    for (size_t i = 0; i < count; i++)
      if (sizes[i] < 0 || !braid_add_i64(total, sizes[i], &total)) return braid_infer_fail(infer, "a size is negative");
    if (count == outputs && total == x->dims[axis]) return BRAID_OK;
    return braid_infer_fail(infer, "%zu sizes that add up to %lld, for %zu outputs of %lld", count, (long long)total,
                            outputs, (long long)x->dims[axis]);
  }
  if (braid_attr_int(&infer->node->attrs, "num_outputs", (int64_t)outputs) != (int64_t)outputs)
    return braid_infer_fail(infer, "num_outputs is not the number of outputs, %zu", outputs);
  int64_t each = (x->dims[axis] + (int64_t)outputs - 1) / (int64_t)outputs;
  for (size_t i = 0; i < outputs; i++, total += each) {
    int64_t left = x->dims[axis] - total;
    sizes[i] = left < 0 ? 0 : left < each ? left : each;
  }
  return BRAID_OK;
}

static braid_status infer_split(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int axis;
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", 0), x->rank, &axis));
  size_t count = infer->node->output_count;
  int64_t *sizes = braid_zalloc_array(infer->graph->allocator, count, sizeof *sizes);
  if (!sizes) return BRAID_NO_MEMORY;
  braid_status status = split_sizes(infer, axis, sizes);
  for (size_t i = 0; status == BRAID_OK && i < count; i++) {
    int64_t dims[BRAID_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = sizes[i];
    status = braid_infer_output(infer, i, x->dtype, x->rank, dims);
  }
  braid_free(infer->graph->allocator, sizes);
  return status;
}

/* Parts without a gradient are zeros. */
static braid_status split_gradient(braid_gradient_context *context) {
  size_t count = context->graph->nodes[context->node].output_count;
  int64_t axis = braid_attr_int(&context->graph->nodes[context->node].attrs, "axis", 0);
  braid_value_id *parts = braid_graph_arena_alloc(context->graph, count * sizeof *parts), gradient;
  if (!parts) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    parts[i] = braid_gradient_of_output(context, i);
    if (parts[i] >= 0) continue;
    braid_value_id part, zero_and_shape[2];
    BRAID_TRY(braid_gradient_add_output(context, i, &part)); /* it may be left out; its shape is wanted */
    const braid_desc desc = context->graph->values[part].desc;
    BRAID_TRY(braid_gradient_scalar(context, desc.dtype, 0, &zero_and_shape[0]));
    BRAID_TRY(braid_gradient_ints(context, desc.dims, (size_t)desc.rank, &zero_and_shape[1]));
    BRAID_TRY(braid_gradient_node(context, "Expand", zero_and_shape, 2, &parts[i], NULL));
  }
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "Concat", parts, count, &gradient, &node));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "axis", axis));
  return braid_gradient_give(context, 0, gradient);
}

/* --- slice -------------------------------------------------------------------------------------------------------- */
static int64_t between(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

bool braid_slice_init(const braid_desc *x, const int64_t *starts, const int64_t *ends, const int64_t *axes,
                      const int64_t *steps, size_t count, braid_slice *out) {
  bool seen[BRAID_MAX_RANK] = {false};
  for (int i = 0; i < x->rank; i++) out->start[i] = 0, out->step[i] = 1, out->count[i] = x->dims[i];
  for (size_t i = 0; i < count; i++) {
    int64_t axis = axes ? axes[i] : (int64_t)i, step = steps ? steps[i] : 1, start = starts[i], end = ends[i];
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || seen[axis] || !step || step == INT64_MIN) return false;
    seen[axis] = true;
    int64_t size = x->dims[axis];
    if (start < 0) start += size;
    if (end < 0 && end > INT64_MIN + size) end += size;
    start = between(start, 0, step > 0 ? size : size - 1);
    end = between(end, step > 0 ? 0 : -1, size);
    int64_t room = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    out->start[axis] = start;
    out->step[axis] = step;
    out->count[axis] = room > 0 && size ? (room - 1) / stride + 1 : 0;
  }
  return true;
}

static braid_status slice_lists(const braid_infer *infer, size_t first, const braid_desc *x, braid_slice *slice) {
  static const char *const kNames[] = {"starts", "ends", "axes", "steps"};
  int64_t lists[4][BRAID_MAX_RANK];
  size_t counts[4];
  bool present[4];
  for (size_t i = 0; i < 4; i++) {
    present[i] = i < 2 || braid_infer_input(infer, first + i);
    if (present[i]) BRAID_TRY(braid_infer_ints(infer, first + i, kNames[i], lists[i], BRAID_MAX_RANK, &counts[i]));
    if (present[i] && counts[i] != counts[0])
      return braid_infer_fail(infer, "%s has %zu values, starts has %zu", kNames[i], counts[i], counts[0]);
  }
  if (braid_slice_init(x, lists[0], lists[1], present[2] ? lists[2] : NULL, present[3] ? lists[3] : NULL, counts[0],
                       slice))
    return BRAID_OK;
  return braid_infer_fail(infer, "an axis is out of range or named twice, or a step is 0");
}

static braid_status infer_slice(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  braid_slice slice;
  BRAID_TRY(slice_lists(infer, 1, x, &slice));
  return braid_infer_output(infer, 0, x->dtype, x->rank, slice.count);
}

/* SliceGrad(dy, starts, ends, axes, steps) with input_shape: dy at the places it came from, zeros elsewhere. */
static braid_status infer_slice_grad(const braid_infer *infer) {
  const braid_desc *dy = braid_infer_input(infer, 0);
  braid_desc x;
  braid_slice slice;
  size_t rank;
  const int64_t *dims = braid_attr_ints(&infer->node->attrs, "input_shape", &rank);
  if (!dims || rank > BRAID_MAX_RANK) return braid_infer_fail(infer, "attribute input_shape is missing");
  BRAID_TRY(braid_desc_init(&x, dy->dtype, (int)rank, dims));
  BRAID_TRY(slice_lists(infer, 1, &x, &slice));
  for (int i = 0; i < x.rank; i++)
    if (dy->rank != x.rank || slice.count[i] != dy->dims[i])
      return braid_infer_fail(infer, "the gradient does not have the shape of the slice");
  return braid_infer_output(infer, 0, dy->dtype, x.rank, x.dims);
}

/* A backward node over dy and the forward node's other inputs, that is told the shape of input 0. */
static braid_status shaped_gradient(braid_gradient_context *context, const char *op) {
  const braid_node *forward = &context->graph->nodes[context->node];
  const braid_desc desc = context->graph->values[forward->inputs[0]].desc;
  braid_value_id inputs[8] = {braid_gradient_of_output(context, 0)}, gradient;
  size_t count = forward->input_count < 8 ? forward->input_count : 8;
  for (size_t i = 1; i < count; i++) inputs[i] = forward->inputs[i];
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, inputs, count, &gradient, &node));
  BRAID_TRY(braid_graph_set_ints(context->graph, node, "input_shape", desc.dims, (size_t)desc.rank));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status slice_gradient(braid_gradient_context *context) {
  return shaped_gradient(context, "SliceGrad");
}

/* --- expand, tile, pad -------------------------------------------------------------------------------------------- */
static braid_status infer_expand(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  braid_desc shape = {.dtype = x->dtype}, result;
  size_t rank;
  BRAID_TRY(braid_infer_ints(infer, 1, "the shape", shape.dims, BRAID_MAX_RANK, &rank));
  shape.rank = (int32_t)rank;
  if (!braid_broadcast(x, &shape, &result)) return braid_infer_fail(infer, "the input does not broadcast to the shape");
  return braid_infer_output(infer, 0, x->dtype, result.rank, result.dims);
}

static braid_status expand_gradient(braid_gradient_context *context) {
  return braid_gradient_give_reduced(context, 0, braid_gradient_of_output(context, 0));
}

static braid_status infer_tile(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t dims[BRAID_MAX_RANK];
  size_t count;
  BRAID_TRY(braid_infer_ints(infer, 1, "repeats", dims, BRAID_MAX_RANK, &count));
  if (count != (size_t)x->rank)
    return braid_infer_fail(infer, "repeats has %zu values, the input %d dimensions", count, x->rank);
  for (int i = 0; i < x->rank; i++)
    if (dims[i] < 0 || !braid_mul_i64(dims[i], x->dims[i], &dims[i]))
      return braid_infer_fail(infer, "repeats[%d] is negative or too large", i);
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* Each repeated dimension on its own: dy as [before, repeats, from this dimension on], summed over the repeats. */
static braid_status tile_gradient(braid_gradient_context *context) {
  const braid_desc x = context->graph->values[braid_gradient_input(context, 0)].desc;
  const braid_desc y = context->graph->values[braid_gradient_output(context, 0)].desc;
  braid_value_id gradient = braid_gradient_of_output(context, 0), list;
  int64_t before = 1, behind = braid_desc_count(&y);
  if (braid_desc_same_shape(&x, &y)) return braid_gradient_give(context, 0, gradient);
  if (behind == 0) BRAID_TRY(braid_gradient_scalar(context, x.dtype, 0, &gradient));
  for (int i = 0; behind > 0 && i < x.rank; before *= x.dims[i++]) {
    behind /= y.dims[i];
    if (x.dims[i] == y.dims[i]) continue;
    BRAID_TRY(braid_gradient_ints(context, (int64_t[]){before, y.dims[i] / x.dims[i], x.dims[i] * behind}, 3, &list));
    BRAID_TRY(braid_gradient_node(context, "Reshape", (braid_value_id[]){gradient, list}, 2, &gradient, NULL));
    BRAID_TRY(braid_gradient_ints(context, (int64_t[]){1}, 1, &list));
    BRAID_TRY(braid_gradient_node(context, "ReduceSum", (braid_value_id[]){gradient, list}, 2, &gradient, NULL));
  }
  BRAID_TRY(braid_gradient_ints(context, x.dims, (size_t)x.rank, &list));
  const char *op = braid_desc_count(&y) ? "Reshape" : "Expand"; /* nothing came: zeros */
  BRAID_TRY(braid_gradient_node(context, op, (braid_value_id[]){gradient, list}, 2, &gradient, NULL));
  return braid_gradient_give(context, 0, gradient);
}

bool braid_pad_init(const braid_desc *x, const int64_t *pads, size_t count, const int64_t *axes, size_t axis_count,
                    int64_t *begin, int64_t *end) {
  bool seen[BRAID_MAX_RANK] = {false};
  for (int i = 0; i < x->rank; i++) begin[i] = end[i] = 0;
  if (count != 2 * axis_count) return false;
  for (size_t i = 0; i < axis_count; i++) {
    int64_t axis = axes ? axes[i] : (int64_t)i;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || seen[axis]) return false;
    seen[axis] = true;
    begin[axis] = pads[i];
    end[axis] = pads[axis_count + i];
  }
  return true;
}

/* How many elements of an axis negative pads leave. */
static int64_t pad_left(int64_t begin, int64_t end, int64_t size) {
  return size + (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
}

int64_t braid_pad_source(const char *mode, int64_t i, int64_t begin, int64_t end, int64_t size) {
  i -= begin;
  if (i >= 0 && i < size) return i;
  if (strcmp(mode, "constant") == 0) return -1;
  if (strcmp(mode, "edge") == 0) return i < 0 ? 0 : size - 1;
  if (strcmp(mode, "wrap") == 0) {
    int64_t first = begin < 0 ? -begin : 0, left = pad_left(begin, end, size);
    return first + ((i - first) % left + left) % left;
  }
  if (size == 1) return 0;
  int64_t period = 2 * (size - 1); /* reflect */
  i = (i % period + period) % period;
  return i < size ? i : period - i;
}

static braid_status pad_lists(const braid_infer *infer, const braid_desc *x, int64_t *begin, int64_t *end) {
  int64_t pads[2 * BRAID_MAX_RANK], axes[BRAID_MAX_RANK];
  size_t count, axis_count = (size_t)x->rank;
  bool some = braid_infer_input(infer, 3);
  BRAID_TRY(braid_infer_ints(infer, 1, "pads", pads, 2 * BRAID_MAX_RANK, &count));
  if (some) BRAID_TRY(braid_infer_ints(infer, 3, "axes", axes, BRAID_MAX_RANK, &axis_count));
  if (braid_pad_init(x, pads, count, some ? axes : NULL, axis_count, begin, end)) return BRAID_OK;
  return braid_infer_fail(infer, "pads has %zu values for %zu axes, or an axis is out of range", count, axis_count);
}

static braid_status infer_pad(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *value = braid_infer_input(infer, 2);
  const char *mode = braid_attr_string(&infer->node->attrs, "mode", "constant");
  int64_t begin[BRAID_MAX_RANK], end[BRAID_MAX_RANK], dims[BRAID_MAX_RANK];
  bool constant = strcmp(mode, "constant") == 0, reflect = strcmp(mode, "reflect") == 0;
  if (!constant && !reflect && strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0)
    return braid_infer_fail(infer, "mode is \"%.40s\"", mode);
  if (value && (value->dtype != x->dtype || braid_desc_count(value) != 1))
    return braid_infer_fail(infer, "constant_value is not one element of the input's type");
  BRAID_TRY(pad_lists(infer, x, begin, end));
  for (int i = 0; i < x->rank; i++) {
    if (!braid_add_i64(x->dims[i], begin[i], &dims[i]) || !braid_add_i64(dims[i], end[i], &dims[i]) || dims[i] < 0)
      return braid_infer_fail(infer, "dimension %d becomes negative or too large", i);
    bool wraps = strcmp(mode, "wrap") == 0;
    if (!constant && dims[i] > 0 && (x->dims[i] == 0 || (wraps && pad_left(begin[i], end[i], x->dims[i]) <= 0)))
      return braid_infer_fail(infer, "dimension %d is empty, there is nothing to pad with", i);
  }
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* With a constant, the gradient is the middle of dy. */
static braid_status cut_gradient(braid_gradient_context *context, int rank, const int64_t *begin, const int64_t *end,
                                 braid_value_id *gradient) {
  int64_t pads[2 * BRAID_MAX_RANK];
  for (int i = 0; i < rank; i++) pads[i] = -begin[i], pads[rank + i] = -end[i];
  braid_value_id inputs[2] = {*gradient};
  BRAID_TRY(braid_gradient_ints(context, pads, 2 * (size_t)rank, &inputs[1]));
  return braid_gradient_node(context, "Pad", inputs, 2, gradient, NULL);
}

/* The constant gets what flows to the places that hold it: zeros padded with ones tell which. */
static braid_status give_constant(braid_gradient_context *context, const braid_desc *x, const int64_t *begin,
                                  const int64_t *end) {
  int64_t pads[2 * BRAID_MAX_RANK];
  for (int i = 0; i < x->rank; i++) pads[i] = begin[i], pads[x->rank + i] = end[i];
  braid_value_id inputs[3], shape, mask;
  BRAID_TRY(braid_gradient_scalar(context, x->dtype, 0, &inputs[0]));
  BRAID_TRY(braid_gradient_ints(context, x->dims, (size_t)x->rank, &shape));
  BRAID_TRY(braid_gradient_node(context, "Expand", (braid_value_id[]){inputs[0], shape}, 2, &inputs[0], NULL));
  BRAID_TRY(braid_gradient_ints(context, pads, 2 * (size_t)x->rank, &inputs[1]));
  BRAID_TRY(braid_gradient_scalar(context, x->dtype, 1, &inputs[2]));
  BRAID_TRY(braid_gradient_node(context, "Pad", inputs, 3, &mask, NULL));
  braid_value_id factors[2] = {braid_gradient_of_output(context, 0), mask};
  BRAID_TRY(braid_gradient_node(context, "Mul", factors, 2, &mask, NULL));
  return braid_gradient_give_reduced(context, 2, mask);
}

/* Otherwise Pad is a Gather along every padded axis, with fixed indices, and so its gradient adds up what came from the
 * same place. */
static braid_status scatter_gradient(braid_gradient_context *context, const braid_desc *x, const braid_desc *y,
                                     const int64_t *begin, const int64_t *end, const char *mode,
                                     braid_value_id *gradient) {
  const braid_allocator *allocator = context->graph->allocator;
  int64_t dims[BRAID_MAX_RANK];
  memcpy(dims, y->dims, sizeof dims);
  for (int axis = 0; axis < x->rank; axis++) {
    if (y->dims[axis] == x->dims[axis] && begin[axis] == 0) continue;
    int64_t *indices = braid_zalloc_array(allocator, (size_t)y->dims[axis] + 1, sizeof *indices);
    if (!indices) return BRAID_NO_MEMORY;
    for (int64_t i = 0; i < y->dims[axis]; i++)
      indices[i] = braid_pad_source(mode, i, begin[axis], end[axis], x->dims[axis]);
    braid_value_id inputs[2] = {*gradient};
    braid_status status = braid_gradient_ints(context, indices, (size_t)y->dims[axis], &inputs[1]);
    braid_free(allocator, indices);
    if (status != BRAID_OK) return status;
    braid_node_id node;
    dims[axis] = x->dims[axis];
    BRAID_TRY(braid_gradient_node(context, "GatherGrad", inputs, 2, gradient, &node));
    BRAID_TRY(braid_graph_set_int(context->graph, node, "axis", axis));
    BRAID_TRY(braid_graph_set_ints(context->graph, node, "input_shape", dims, (size_t)x->rank));
  }
  return BRAID_OK;
}

static braid_status pad_gradient(braid_gradient_context *context) {
  braid_node *forward = &context->graph->nodes[context->node];
  const braid_desc x = context->graph->values[forward->inputs[0]].desc;
  const braid_desc y = context->graph->values[forward->outputs[0]].desc;
  const char *mode = braid_attr_string(&forward->attrs, "mode", "constant");
  bool constant = strcmp(mode, "constant") == 0;
  int64_t begin[BRAID_MAX_RANK], end[BRAID_MAX_RANK];
  BRAID_TRY(pad_lists(&(braid_infer){context->graph, forward}, &x, begin, end));
  if (constant && braid_gradient_wanted(context, 2)) BRAID_TRY(give_constant(context, &x, begin, end));
  braid_value_id gradient = braid_gradient_of_output(context, 0);
  if (constant)
    BRAID_TRY(cut_gradient(context, x.rank, begin, end, &gradient));
  else
    BRAID_TRY(scatter_gradient(context, &x, &y, begin, end, mode, &gradient));
  return braid_gradient_give(context, 0, gradient);
}

/* --- depth and space ---------------------------------------------------------------------------------------------- */
static braid_status infer_depth_to_space(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t block = braid_attr_int(&infer->node->attrs, "blocksize", 0);
  if (x->rank != 4 || block < 1 || block > INT16_MAX || x->dims[1] % (block * block))
    return braid_infer_fail(infer, "expected an image whose channels blocksize^2 divides");
  int64_t dims[4] = {x->dims[0], x->dims[1] / (block * block), x->dims[2] * block, x->dims[3] * block};
  return braid_infer_output(infer, 0, x->dtype, 4, dims);
}

static braid_status infer_space_to_depth(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t block = braid_attr_int(&infer->node->attrs, "blocksize", 0);
  if (x->rank != 4 || block < 1 || block > INT16_MAX || x->dims[2] % block || x->dims[3] % block)
    return braid_infer_fail(infer, "expected an image whose height and width blocksize divides");
  int64_t dims[4] = {x->dims[0], x->dims[1] * block * block, x->dims[2] / block, x->dims[3] / block};
  return braid_infer_output(infer, 0, x->dtype, 4, dims);
}

static braid_status give_inverse(braid_gradient_context *context, const char *op) {
  braid_value_id dy = braid_gradient_of_output(context, 0), gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, &dy, 1, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node)); /* blocksize, and the order of channels */
  return braid_gradient_give(context, 0, gradient);
}

static braid_status depth_gradient(braid_gradient_context *context) {
  return give_inverse(context, "SpaceToDepth");
}
static braid_status space_gradient(braid_gradient_context *context) {
  return give_inverse(context, "DepthToSpace");
}

static const braid_op kOps[] = {
    {"Concat", 1, -1, 1, 1, 0, infer_concat, NULL, concat_gradient},
    {"DepthToSpace", 1, 1, 1, 1, 0, infer_depth_to_space, NULL, depth_gradient},
    {"Expand", 2, 2, 1, 1, 0, infer_expand, NULL, expand_gradient},
    {"Pad", 2, 4, 1, 1, BRAID_OP_NARROW, infer_pad, NULL, pad_gradient},
    {"Slice", 3, 5, 1, 1, 0, infer_slice, NULL, slice_gradient},
    {"SliceGrad", 3, 5, 1, 1, 0, infer_slice_grad, NULL, NULL},
    {"SpaceToDepth", 1, 1, 1, 1, 0, infer_space_to_depth, NULL, space_gradient},
    {"Split", 1, 2, 1, -1, 0, infer_split, NULL, split_gradient},
    {"Tile", 2, 2, 1, 1, 0, infer_tile, NULL, tile_gradient},
    {"Transpose", 1, 1, 1, 1, BRAID_OP_NARROW, infer_transpose, NULL, transpose_gradient},
};

extern const braid_op_family braid_ops_movement;
const braid_op_family braid_ops_movement = {kOps, sizeof kOps / sizeof *kOps};
