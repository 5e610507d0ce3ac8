/* Ops that pick elements by indices, and those that put them back. Negative indices count from the end; an index out of
 * range stops the run with the node's name.
 *
 * The gradient of a Gather is GatherGrad(dy, indices) with axis and input_shape, of GatherElements a
 * ScatterElements that adds into zeros, of GatherND a ScatterND that does. */
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "graph/onnx_dtype.h"
#include "graph/ops/movement.h"

static bool is_index(const braid_desc *desc) {
  return desc->dtype == BRAID_I64 || desc->dtype == BRAID_I32;
}

static braid_status check_indices(const braid_infer *infer, size_t at) {
  const braid_desc *indices = braid_infer_input(infer, at);
  if (!indices || !is_index(indices)) return braid_infer_fail(infer, "indices must be int64 or int32");
  return BRAID_OK;
}

static braid_status axis_of(const braid_infer *infer, int64_t otherwise, int *axis) {
  return braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", otherwise),
                          braid_infer_input(infer, 0)->rank, axis);
}

/* --- gather ------------------------------------------------------------------------------------------------------- */
static braid_status gathered(const braid_infer *infer, const braid_desc *x, int axis, int64_t *dims, int *rank) {
  const braid_desc *indices = braid_infer_input(infer, 1);
  *rank = x->rank - 1 + indices->rank;
  if (*rank > BRAID_MAX_RANK) return braid_infer_fail(infer, "more than %d dimensions", BRAID_MAX_RANK);
  int at = 0;
  for (int i = 0; i < axis; i++) dims[at++] = x->dims[i];
  for (int i = 0; i < indices->rank; i++) dims[at++] = indices->dims[i];
  for (int i = axis + 1; i < x->rank; i++) dims[at++] = x->dims[i];
  return BRAID_OK;
}

static braid_status infer_gather(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t dims[BRAID_MAX_RANK];
  int axis, rank;
  BRAID_TRY(check_indices(infer, 1));
  BRAID_TRY(axis_of(infer, 0, &axis));
  BRAID_TRY(gathered(infer, x, axis, dims, &rank));
  return braid_infer_output(infer, 0, x->dtype, rank, dims);
}

static braid_status infer_gather_grad(const braid_infer *infer) {
  const braid_desc *dy = braid_infer_input(infer, 0);
  size_t count;
  const int64_t *shape = braid_attr_ints(&infer->node->attrs, "input_shape", &count);
  braid_desc x;
  int64_t dims[BRAID_MAX_RANK];
  int axis, rank;
  if (!shape || count > BRAID_MAX_RANK) return braid_infer_fail(infer, "attribute input_shape is missing");
  BRAID_TRY(check_indices(infer, 1));
  BRAID_TRY(braid_desc_init(&x, dy->dtype, (int)count, shape));
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", 0), x.rank, &axis));
  BRAID_TRY(gathered(infer, &x, axis, dims, &rank));
  if (rank != dy->rank || memcmp(dims, dy->dims, (size_t)rank * sizeof *dims) != 0)
    return braid_infer_fail(infer, "the gradient does not have the shape of what was gathered");
  if (!braid_dtype_is_float(dy->dtype)) return braid_infer_fail(infer, "the gradient is not floating-point");
  return braid_infer_output(infer, 0, dy->dtype, x.rank, x.dims);
}

static braid_status gather_gradient(braid_gradient_context *context) {
  const braid_desc x = context->graph->values[braid_gradient_input(context, 0)].desc;
  braid_value_id inputs[2] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 1)}, gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "GatherGrad", inputs, 2, &gradient, &node));
  BRAID_TRY(braid_graph_set_ints(context->graph, node, "input_shape", x.dims, (size_t)x.rank));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status infer_gather_elements(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *indices = braid_infer_input(infer, 1);
  int axis;
  BRAID_TRY(check_indices(infer, 1));
  BRAID_TRY(axis_of(infer, 0, &axis));
  if (indices->rank != x->rank) return braid_infer_fail(infer, "indices and data differ in rank");
  for (int i = 0; i < x->rank; i++)
    if (i != axis && indices->dims[i] > x->dims[i])
      return braid_infer_fail(infer, "dimension %d of the indices is larger than the data's", i);
  return braid_infer_output(infer, 0, x->dtype, indices->rank, indices->dims);
}

static braid_status infer_gather_nd(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *indices = braid_infer_input(infer, 1);
  int64_t batch = braid_attr_int(&infer->node->attrs, "batch_dims", 0), dims[2 * BRAID_MAX_RANK];
  BRAID_TRY(check_indices(infer, 1));
  if (indices->rank < 1 || x->rank < 1 || batch < 0 || batch >= indices->rank || batch >= x->rank)
    return braid_infer_fail(infer, "batch_dims is %lld", (long long)batch);
  int64_t tuple = indices->dims[indices->rank - 1];
  if (tuple < 1 || tuple > x->rank - batch)
    return braid_infer_fail(infer, "indices of %lld numbers into %d dimensions", (long long)tuple, x->rank);
  int rank = 0;
  for (int i = 0; i < indices->rank - 1; i++) {
    if (i < batch && indices->dims[i] != x->dims[i]) return braid_infer_fail(infer, "batch dimension %d differs", i);
    dims[rank++] = indices->dims[i];
  }
  for (int i = (int)(batch + tuple); i < x->rank; i++) dims[rank++] = x->dims[i];
  if (rank > BRAID_MAX_RANK) return braid_infer_fail(infer, "more than %d dimensions", BRAID_MAX_RANK);
  return braid_infer_output(infer, 0, x->dtype, rank, dims);
}

/* --- scatter ------------------------------------------------------------------------------------------------------ */
static braid_status check_reduction(const braid_infer *infer, braid_dtype dtype) {
  const char *reduction = braid_attr_string(&infer->node->attrs, "reduction", "none");
  static const char *const kKnown[] = {"none", "add", "mul", "min", "max"};
  for (size_t i = 0; i < sizeof kKnown / sizeof *kKnown; i++) {
    if (strcmp(reduction, kKnown[i]) != 0) continue;
    if (i && dtype == BRAID_BOOL) return braid_infer_fail(infer, "reduction of bool");
    return BRAID_OK;
  }
  return braid_infer_fail(infer, "reduction is \"%.40s\"", reduction);
}

static braid_status infer_scatter_elements(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *indices = braid_infer_input(infer, 1);
  const braid_desc *updates = braid_infer_input(infer, 2);
  int axis;
  BRAID_TRY(check_indices(infer, 1));
  BRAID_TRY(axis_of(infer, 0, &axis));
  BRAID_TRY(check_reduction(infer, x->dtype));
  if (!updates || updates->dtype != x->dtype || !braid_desc_same_shape(indices, updates) || indices->rank != x->rank)
    return braid_infer_fail(infer, "updates must have the indices' shape and the data's type and rank");
  for (int i = 0; i < x->rank; i++)
    if (i != axis && indices->dims[i] > x->dims[i])
      return braid_infer_fail(infer, "dimension %d of the indices is larger than the data's", i);
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

static braid_status infer_scatter_nd(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *indices = braid_infer_input(infer, 1);
  const braid_desc *updates = braid_infer_input(infer, 2);
  BRAID_TRY(check_indices(infer, 1));
  BRAID_TRY(check_reduction(infer, x->dtype));
  int64_t tuple = indices->rank ? indices->dims[indices->rank - 1] : 0;
  if (tuple < 1 || tuple > x->rank)
    return braid_infer_fail(infer, "indices of %lld numbers into %d dimensions", (long long)tuple, x->rank);
  int places = indices->rank - 1, rest = x->rank - (int)tuple;
  bool fits = updates && updates->dtype == x->dtype && updates->rank == places + rest;
  for (int i = 0; fits && i < updates->rank; i++)
    fits = updates->dims[i] == (i < places ? indices->dims[i] : x->dims[tuple + i - places]);
  if (!fits) return braid_infer_fail(infer, "updates do not have the shape that data and indices ask for");
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

/* Zeros of a forward value's type and shape. */
static braid_status zeros_like(braid_gradient_context *context, braid_value_id value, braid_value_id *out) {
  const braid_desc desc = context->graph->values[value].desc;
  braid_value_id shape;
  BRAID_TRY(braid_gradient_scalar(context, desc.dtype, 0, out));
  BRAID_TRY(braid_gradient_ints(context, desc.dims, (size_t)desc.rank, &shape));
  return braid_gradient_node(context, "Expand", (braid_value_id[]){*out, shape}, 2, out, NULL);
}

/* dy, added into zeros where `indices` say. */
static braid_status add_into_zeros(braid_gradient_context *context, const char *op, braid_value_id indices) {
  braid_value_id inputs[3] = {-1, indices, braid_gradient_of_output(context, 0)}, gradient;
  BRAID_TRY(zeros_like(context, braid_gradient_input(context, 0), &inputs[0]));
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, inputs, 3, &gradient, &node));
  if (strcmp(op, "ScatterElements") == 0) {
    const braid_attrs *attrs = &context->graph->nodes[context->node].attrs;
    BRAID_TRY(braid_graph_set_int(context->graph, node, "axis", braid_attr_int(attrs, "axis", 0)));
  }
  BRAID_TRY(braid_graph_set_string(context->graph, node, "reduction", "add"));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status gather_elements_gradient(braid_gradient_context *context) {
  return add_into_zeros(context, "ScatterElements", braid_gradient_input(context, 1));
}

/* GatherND's indices with the batch's own coordinates before them: [places..., batch + tuple], int64. */
static braid_status whole_indices(braid_gradient_context *context, int64_t batch, braid_value_id *indices) {
  braid_graph *graph = context->graph;
  braid_desc desc = graph->values[*indices].desc;
  int64_t places = 1, inner = 1;
  desc.dtype = BRAID_I64;
  desc.dims[desc.rank - 1] = batch;
  for (int i = 0; i < desc.rank - 1; i++) places *= desc.dims[i];
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &tensor));
  int64_t *coordinates = braid_tensor_data(tensor);
  for (int i = desc.rank - 2; i >= 0; i--) {
    for (int64_t place = 0; i < batch && place < places; place++)
      coordinates[place * batch + i] = place / inner % desc.dims[i];
    inner *= desc.dims[i];
  }
  braid_value_id parts[2];
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &parts[0]);
  braid_tensor_release(tensor);
  if (status != BRAID_OK) return status;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "Cast", indices, 1, &parts[1], &node));
  BRAID_TRY(braid_graph_set_int(graph, node, "to", braid_dtype_to_onnx(BRAID_I64)));
  BRAID_TRY(braid_gradient_node(context, "Concat", parts, 2, indices, &node));
  return braid_graph_set_int(graph, node, "axis", -1);
}

static braid_status gather_nd_gradient(braid_gradient_context *context) {
  int64_t batch = braid_attr_int(&context->graph->nodes[context->node].attrs, "batch_dims", 0);
  braid_value_id indices = braid_gradient_input(context, 1);
  if (batch > 0) BRAID_TRY(whole_indices(context, batch, &indices));
  return add_into_zeros(context, "ScatterND", indices);
}

/* What a Scatter's gradient is made of: scattering to and gathering from the forward node's places. */
typedef struct scattering {
  braid_gradient_context *context;
  const char *scatter, *gather;
  braid_value_id x, indices, updates, y, dy;
  int64_t axis;
} scattering;

static braid_status gather_make(scattering *s, const char *op, braid_value_id a, braid_value_id b,
                                braid_value_id *out) {
  return braid_gradient_node(s->context, op, (braid_value_id[]){a, b}, 2, out, NULL);
}

static braid_status choose(scattering *s, braid_value_id condition, braid_value_id yes, braid_value_id no,
                           braid_value_id *out) {
  return braid_gradient_node(s->context, "Where", (braid_value_id[]){condition, yes, no}, 3, out, NULL);
}

/* 1 where a is b, else 0. */
static braid_status equal(scattering *s, braid_value_id a, braid_value_id b, braid_value_id *out) {
  BRAID_TRY(gather_make(s, "Equal", a, b, out));
  return gather_make(s, "CastLike", *out, s->dy, out);
}

static braid_status number_like(scattering *s, double value, braid_value_id like, braid_value_id *out) {
  const braid_desc desc = s->context->graph->values[like].desc;
  braid_value_id shape;
  BRAID_TRY(braid_gradient_scalar(s->context, desc.dtype, value, out));
  BRAID_TRY(braid_gradient_ints(s->context, desc.dims, (size_t)desc.rank, &shape));
  return gather_make(s, "Expand", *out, shape, out);
}

static braid_status set_axis(scattering *s, braid_node_id node) {
  if (strcmp(s->gather, "GatherElements") != 0) return BRAID_OK;
  BRAID_TRY(braid_graph_set_int(s->context->graph, node, "axis", s->axis));
  return braid_graph_infer_node(s->context->graph, node);
}

static braid_status scatter(scattering *s, braid_value_id into, braid_value_id updates, const char *reduction,
                            braid_value_id *out) {
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(s->context, s->scatter, (braid_value_id[]){into, s->indices, updates}, 3, out, &node));
  BRAID_TRY(set_axis(s, node));
  return braid_graph_set_string(s->context->graph, node, "reduction", reduction);
}

static braid_status gather(scattering *s, braid_value_id from, braid_value_id *out) {
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(s->context, s->gather, (braid_value_id[]){from, s->indices}, 2, out, &node));
  return set_axis(s, node);
}

/* What is written over gets none, and each update gets that of the place it was written to; of several updates of one
 * place without a reduction each gets it, since which one stays is undefined. */
static braid_status written_gradient(scattering *s, bool adds) {
  braid_value_id gradient = s->dy, zeros;
  if (braid_gradient_wanted(s->context, 0)) {
    if (!adds) {
      BRAID_TRY(number_like(s, 0, s->updates, &zeros));
      BRAID_TRY(scatter(s, s->dy, zeros, "none", &gradient));
    }
    BRAID_TRY(braid_gradient_give(s->context, 0, gradient));
  }
  if (!braid_gradient_wanted(s->context, 2)) return BRAID_OK;
  BRAID_TRY(gather(s, s->dy, &gradient));
  return braid_gradient_give(s->context, 2, gradient);
}

/* x gets dy times the updates of its place. An update gets dy times x and the other updates: with 1 for 0 and the zeros
 * counted, the product of all over itself where the other updates hold no zero, else 0. */
static braid_status multiplied_gradient(scattering *s) {
  braid_value_id one, zero, ones, product, part, is_zero, z, zeros, safe, others;
  if (braid_gradient_wanted(s->context, 0)) {
    BRAID_TRY(number_like(s, 1, s->x, &ones));
    BRAID_TRY(scatter(s, ones, s->updates, "mul", &product));
    BRAID_TRY(gather_make(s, "Mul", s->dy, product, &part));
    BRAID_TRY(braid_gradient_give(s->context, 0, part));
  }
  if (!braid_gradient_wanted(s->context, 2)) return BRAID_OK;
  braid_dtype dtype = s->context->graph->values[s->dy].desc.dtype;
  BRAID_TRY(braid_gradient_scalar(s->context, dtype, 0, &zero));
  BRAID_TRY(braid_gradient_scalar(s->context, dtype, 1, &one));
  BRAID_TRY(gather_make(s, "Equal", s->updates, zero, &is_zero));
  BRAID_TRY(gather_make(s, "CastLike", is_zero, s->dy, &z));
  BRAID_TRY(number_like(s, 0, s->x, &zeros));
  BRAID_TRY(scatter(s, zeros, z, "add", &zeros));
  BRAID_TRY(gather(s, zeros, &zeros));
  BRAID_TRY(choose(s, is_zero, one, s->updates, &safe));
  BRAID_TRY(scatter(s, s->x, safe, "mul", &product));
  BRAID_TRY(gather_make(s, "Mul", s->dy, product, &product));
  BRAID_TRY(gather(s, product, &others));
  BRAID_TRY(gather_make(s, "Div", others, safe, &others));
  BRAID_TRY(gather_make(s, "Equal", z, zeros, &part)); /* no zero but its own */
  BRAID_TRY(choose(s, part, others, zero, &part));
  return braid_gradient_give(s->context, 2, part);
}

/* In equal shares to x and the updates that are the extreme of their place. */
static braid_status extreme_gradient(scattering *s) {
  braid_value_id x_mask, update_mask, there, ties, share, part;
  BRAID_TRY(equal(s, s->x, s->y, &x_mask));
  BRAID_TRY(gather(s, s->y, &there));
  BRAID_TRY(equal(s, s->updates, there, &update_mask));
  BRAID_TRY(scatter(s, x_mask, update_mask, "add", &ties));
  BRAID_TRY(gather_make(s, "Div", s->dy, ties, &share));
  if (braid_gradient_wanted(s->context, 0)) {
    BRAID_TRY(gather_make(s, "Mul", share, x_mask, &part));
    BRAID_TRY(braid_gradient_give(s->context, 0, part));
  }
  if (!braid_gradient_wanted(s->context, 2)) return BRAID_OK;
  BRAID_TRY(gather(s, share, &part));
  BRAID_TRY(gather_make(s, "Mul", part, update_mask, &part));
  return braid_gradient_give(s->context, 2, part);
}

static braid_status scatter_gradient(braid_gradient_context *context, const char *scatter, const char *gather) {
  const braid_attrs *attrs = &context->graph->nodes[context->node].attrs;
  const char *reduction = braid_attr_string(attrs, "reduction", "none");
  scattering s = {.context = context,
                  .scatter = scatter,
                  .gather = gather,
                  .x = braid_gradient_input(context, 0),
                  .indices = braid_gradient_input(context, 1),
                  .updates = braid_gradient_input(context, 2),
                  .y = braid_gradient_output(context, 0),
                  .dy = braid_gradient_of_output(context, 0),
                  .axis = braid_attr_int(attrs, "axis", 0)};
  if (strcmp(reduction, "mul") == 0) return multiplied_gradient(&s);
  if (strcmp(reduction, "min") == 0 || strcmp(reduction, "max") == 0) return extreme_gradient(&s);
  return written_gradient(&s, strcmp(reduction, "add") == 0);
}

static braid_status scatter_elements_gradient(braid_gradient_context *context) {
  return scatter_gradient(context, "ScatterElements", "GatherElements");
}
static braid_status scatter_nd_gradient(braid_gradient_context *context) {
  return scatter_gradient(context, "ScatterND", "GatherND");
}

/* --- one hot, triangles, sequences -------------------------------------------------------------------------------- */
static braid_status infer_one_hot(const braid_infer *infer) {
  const braid_desc *indices = braid_infer_input(infer, 0), *depth = braid_infer_input(infer, 1);
  const braid_desc *values = braid_infer_input(infer, 2);
  const braid_tensor *number = braid_infer_constant(infer, 1);
  int64_t dims[BRAID_MAX_RANK];
  int axis;
  if (!depth || !values || braid_desc_count(depth) != 1 || values->rank != 1 || values->dims[0] != 2)
    return braid_infer_fail(infer, "expected one depth and two values");
  if (!number) return braid_infer_fail(infer, "the depth must be known before the run");
  if (indices->rank >= BRAID_MAX_RANK || indices->dtype == BRAID_BOOL)
    return braid_infer_fail(infer, "indices of %d dimensions and type %s", indices->rank,
                            braid_dtype_name(indices->dtype));
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", -1), indices->rank + 1, &axis));
  int64_t size = braid_tensor_get_i64(number, 0);
  if (size < 0) return braid_infer_fail(infer, "the depth is %lld", (long long)size);
  for (int i = 0; i <= indices->rank; i++) dims[i] = i == axis ? size : indices->dims[i - (i > axis)];
  return braid_infer_output(infer, 0, values->dtype, indices->rank + 1, dims);
}

/* Each of the two values gets what flows to its places, which another OneHot tells. */
static braid_status one_hot_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0), sums[2], axis, gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_ints(context, (int64_t[]){0}, 1, &axis));
  for (size_t i = 0; i < 2; i++) {
    braid_value_id inputs[3] = {braid_gradient_input(context, 0), braid_gradient_input(context, 1)}, mask;
    BRAID_TRY(braid_gradient_ints(context, (int64_t[]){i == 0, i == 1}, 2, &inputs[2]));
    BRAID_TRY(braid_gradient_node(context, "CastLike", (braid_value_id[]){inputs[2], dy}, 2, &inputs[2], NULL));
    BRAID_TRY(braid_gradient_node(context, "OneHot", inputs, 3, &mask, &node));
    BRAID_TRY(braid_gradient_copy_attrs(context, node));
    BRAID_TRY(braid_gradient_node(context, "Mul", (braid_value_id[]){dy, mask}, 2, &mask, NULL));
    BRAID_TRY(braid_gradient_node(context, "ReduceSum", (braid_value_id[]){mask}, 1, &mask, &node));
    BRAID_TRY(braid_graph_set_int(context->graph, node, "keepdims", 0));
    BRAID_TRY(braid_graph_infer_node(context->graph, node));
    BRAID_TRY(braid_gradient_node(context, "Unsqueeze", (braid_value_id[]){mask, axis}, 2, &sums[i], NULL));
  }
  BRAID_TRY(braid_gradient_node(context, "Concat", sums, 2, &gradient, &node));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "axis", 0));
  return braid_gradient_give(context, 2, gradient);
}

static braid_status infer_trilu(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *k = braid_infer_input(infer, 1);
  if (x->rank < 2) return braid_infer_fail(infer, "its input is no matrix");
  if (k && (!is_index(k) || braid_desc_count(k) != 1)) return braid_infer_fail(infer, "k is not one integer");
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

static braid_status trilu_gradient(braid_gradient_context *context) {
  braid_value_id inputs[2] = {braid_gradient_of_output(context, 0), -1}, gradient;
  size_t count = context->graph->nodes[context->node].input_count;
  if (count > 1) inputs[1] = braid_gradient_input(context, 1);
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "Trilu", inputs, count, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status infer_reverse_sequence(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *lengths = braid_infer_input(infer, 1);
  int64_t batch = braid_attr_int(&infer->node->attrs, "batch_axis", 1);
  int64_t time = braid_attr_int(&infer->node->attrs, "time_axis", 0);
  if (x->rank < 2 || batch + time != 1 || (batch != 0 && batch != 1))
    return braid_infer_fail(infer, "batch_axis and time_axis must be 0 and 1, or 1 and 0");
  if (!lengths || lengths->dtype != BRAID_I64 || lengths->rank != 1 || lengths->dims[0] != x->dims[batch])
    return braid_infer_fail(infer, "sequence_lens must be one int64 per sequence");
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

/* A permutation that is its own inverse. */
static braid_status reverse_sequence_gradient(braid_gradient_context *context) {
  braid_value_id inputs[2] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 1)}, gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "ReverseSequence", inputs, 2, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  return braid_gradient_give(context, 0, gradient);
}

/* --- shapes that follow from data --------------------------------------------------------------------------------- */
static braid_status infer_non_zero(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  const braid_tensor *data = braid_infer_constant(infer, 0);
  if (!data)
    return braid_infer_fail(infer, "its input must be known before the run: the result's shape follows from it");
  int64_t found = 0, count = braid_desc_count(x);
  for (int64_t i = 0; i < count; i++) found += braid_tensor_get_f64(data, i) != 0;
  return braid_infer_output(infer, 0, BRAID_I64, 2, (int64_t[]){x->rank ? x->rank : 1, found});
}

static braid_status infer_compress(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *condition = braid_infer_input(infer, 1);
  const braid_tensor *data = braid_infer_constant(infer, 1);
  int64_t dims[BRAID_MAX_RANK], kept = 0;
  if (!condition || condition->dtype != BRAID_BOOL || condition->rank != 1)
    return braid_infer_fail(infer, "the condition must be a list of bool");
  if (!data) return braid_infer_fail(infer, "the condition must be known before the run");
  bool whole = !braid_attr_has(&infer->node->attrs, "axis");
  int axis = 0;
  if (!whole) BRAID_TRY(axis_of(infer, 0, &axis));
  int64_t size = whole ? braid_desc_count(x) : x->dims[axis];
  if (condition->dims[0] > size) return braid_infer_fail(infer, "the condition is longer than the data");
  for (int64_t i = 0; i < condition->dims[0]; i++) kept += braid_tensor_get_i64(data, i) != 0;
  if (whole) return braid_infer_output(infer, 0, x->dtype, 1, &kept);
  memcpy(dims, x->dims, sizeof dims);
  dims[axis] = kept;
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* A Gather of the places that the condition, known before the run, keeps. */
static braid_status compress_gradient(braid_gradient_context *context) {
  braid_graph *graph = context->graph;
  const braid_node *forward = &graph->nodes[context->node];
  const braid_desc x = graph->values[forward->inputs[0]].desc;
  const braid_tensor *condition = braid_infer_constant(&(braid_infer){graph, (braid_node *)forward}, 1);
  bool whole = !braid_attr_has(&forward->attrs, "axis");
  int64_t axis = braid_attr_int(&forward->attrs, "axis", 0), length = braid_tensor_desc(condition)->dims[0];
  int64_t *places = braid_zalloc_array(graph->allocator, (size_t)length + 1, sizeof *places), count = 0;
  if (!places) return BRAID_NO_MEMORY;
  for (int64_t i = 0; i < length; i++)
    if (braid_tensor_get_i64(condition, i)) places[count++] = i;
  braid_value_id inputs[2] = {braid_gradient_of_output(context, 0)}, gradient;
  braid_status status = braid_gradient_ints(context, places, (size_t)count, &inputs[1]);
  braid_free(graph->allocator, places);
  if (status != BRAID_OK) return status;
  int64_t elements = braid_desc_count(&x);
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, "GatherGrad", inputs, 2, &gradient, &node));
  BRAID_TRY(braid_graph_set_int(graph, node, "axis", axis));
  BRAID_TRY(braid_graph_set_ints(graph, node, "input_shape", whole ? &elements : x.dims, whole ? 1 : (size_t)x.rank));
  if (whole) {
    BRAID_TRY(braid_gradient_reshape(context, gradient, x.rank, x.dims, &gradient));
  }
  return braid_gradient_give(context, 0, gradient);
}

static const braid_op kOps[] = {
    {"Compress", 2, 2, 1, 1, 0, infer_compress, NULL, compress_gradient},
    {"Gather", 2, 2, 1, 1, 0, infer_gather, NULL, gather_gradient},
    {"GatherElements", 2, 2, 1, 1, 0, infer_gather_elements, NULL, gather_elements_gradient},
    {"GatherGrad", 2, 2, 1, 1, 0, infer_gather_grad, NULL, NULL},
    {"GatherND", 2, 2, 1, 1, 0, infer_gather_nd, NULL, gather_nd_gradient},
    {"NonZero", 1, 1, 1, 1, 0, infer_non_zero, NULL, NULL},
    {"OneHot", 3, 3, 1, 1, 0, infer_one_hot, NULL, one_hot_gradient},
    {"ReverseSequence", 2, 2, 1, 1, 0, infer_reverse_sequence, NULL, reverse_sequence_gradient},
    {"ScatterElements", 3, 3, 1, 1, 0, infer_scatter_elements, NULL, scatter_elements_gradient},
    {"ScatterND", 3, 3, 1, 1, 0, infer_scatter_nd, NULL, scatter_nd_gradient},
    {"Trilu", 1, 2, 1, 1, 0, infer_trilu, NULL, trilu_gradient},
};

extern const braid_op_family braid_ops_gather;
const braid_op_family braid_ops_gather = {kOps, sizeof kOps / sizeof *kOps};
