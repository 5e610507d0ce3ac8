/* Ops that pick elements by indices, and those that put them back. Negative indices count from the end; an index out of
 * range stops the run with the node's name.
 *
 * The gradient of a Gather is GatherGrad(dy, indices) with axis and input_shape, of GatherElements a
 * ScatterElements that adds into zeros, of GatherND a ScatterND that does. */
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
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
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  BRAID_TRY(braid_graph_set_ints(context->graph, node, "input_shape", x.dims, (size_t)x.rank));
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

/* Zeros of the forward input's shape, into which dy is added. */
static braid_status scatter_gradient(braid_gradient_context *context, const char *op) {
  const braid_desc x = context->graph->values[braid_gradient_input(context, 0)].desc;
  braid_value_id shape, zeros, gradient;
  BRAID_TRY(braid_gradient_scalar(context, x.dtype, 0, &zeros));
  BRAID_TRY(braid_gradient_ints(context, x.dims, (size_t)x.rank, &shape));
  BRAID_TRY(braid_gradient_node(context, "Expand", (braid_value_id[]){zeros, shape}, 2, &zeros, NULL));
  braid_value_id inputs[3] = {zeros, braid_gradient_input(context, 1), braid_gradient_of_output(context, 0)};
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, inputs, 3, &gradient, &node));
  BRAID_TRY(braid_gradient_copy_attrs(context, node));
  BRAID_TRY(braid_graph_set_string(context->graph, node, "reduction", "add"));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status gather_elements_gradient(braid_gradient_context *context) {
  return scatter_gradient(context, "ScatterElements");
}

static braid_status gather_nd_gradient(braid_gradient_context *context) {
  const braid_node *node = &context->graph->nodes[context->node];
  if (braid_attr_int(&node->attrs, "batch_dims", 0))
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (GatherND): has no gradient with batch_dims", node->name);
  return scatter_gradient(context, "ScatterND");
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

static const braid_op kOps[] = {
    {"Compress", 2, 2, 1, 1, 0, infer_compress, NULL, NULL},
    {"Gather", 2, 2, 1, 1, 0, infer_gather, NULL, gather_gradient},
    {"GatherElements", 2, 2, 1, 1, 0, infer_gather_elements, NULL, gather_elements_gradient},
    {"GatherGrad", 2, 2, 1, 1, 0, infer_gather_grad, NULL, NULL},
    {"GatherND", 2, 2, 1, 1, 0, infer_gather_nd, NULL, gather_nd_gradient},
    {"NonZero", 1, 1, 1, 1, 0, infer_non_zero, NULL, NULL},
    {"OneHot", 3, 3, 1, 1, 0, infer_one_hot, NULL, NULL},
    {"ReverseSequence", 2, 2, 1, 1, 0, infer_reverse_sequence, NULL, NULL},
    {"ScatterElements", 3, 3, 1, 1, 0, infer_scatter_elements, NULL, NULL},
    {"ScatterND", 3, 3, 1, 1, 0, infer_scatter_nd, NULL, NULL},
    {"Trilu", 1, 2, 1, 1, 0, infer_trilu, NULL, trilu_gradient},
};

extern const braid_op_family braid_ops_gather;
const braid_op_family braid_ops_gather = {kOps, sizeof kOps / sizeof *kOps};
