/* Reductions over axes: shapes and gradients. Gradients are made of elementwise ops that broadcast what was reduced. */
#include "graph/ops/reduce.h"

#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"
#include "graph/ops/types.h"

bool braid_reduce_dims(const braid_attrs *attrs, int rank, const int64_t *axes, int64_t axis_count,
                       bool reduced[BRAID_MAX_RANK]) {
  bool all = (!axes || axis_count == 0) && !braid_attr_int(attrs, "noop_with_empty_axes", 0);
  for (int i = 0; i < BRAID_MAX_RANK; i++) reduced[i] = all && i < rank;
  for (int64_t i = 0; axes && i < axis_count; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || reduced[axis]) return false;
    reduced[axis] = true;
  }
  return true;
}

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static braid_status find_dims(const braid_infer *infer, bool *reduced) {
  const braid_desc *x = braid_infer_input(infer, 0), *axes = braid_infer_input(infer, 1);
  const braid_tensor *known = braid_infer_constant(infer, 1);
  if (axes && !known)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): axes that are computed from the inputs' data",
                      infer->node->name, infer->node->op->name);
  if (axes && (axes->dtype != BRAID_I64 || axes->rank > 1))
    return braid_infer_fail(infer, "axes are not a list of int64");
  const int64_t *list = known ? braid_tensor_const_data(known) : NULL;
  if (braid_reduce_dims(&infer->node->attrs, x->rank, list, known ? braid_desc_count(axes) : 0, reduced))
    return BRAID_OK;
  return braid_infer_fail(infer, "an axis is outside [%d, %d) or named twice", -x->rank, x->rank);
}

static braid_status infer_reduce(const braid_infer *infer, uint32_t types) {
  BRAID_TRY(braid_infer_type(infer, 0, types));
  bool reduced[BRAID_MAX_RANK], keep = braid_attr_int(&infer->node->attrs, "keepdims", 1) != 0;
  BRAID_TRY(find_dims(infer, reduced));
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t dims[BRAID_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < x->rank; i++)
    if (!reduced[i] || keep) dims[rank++] = reduced[i] ? 1 : x->dims[i];
  return braid_infer_output(infer, 0, x->dtype, rank, dims);
}

static braid_status infer_number(const braid_infer *infer) {
  return infer_reduce(infer, kNumber);
}

static braid_status infer_ordered(const braid_infer *infer) {
  return infer_reduce(infer, kNumber | kBool);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
/* What a gradient function works with: values of the reduced shape are given the dimensions of size 1 back. */
typedef struct reduction {
  braid_gradient_context *context;
  braid_value_id x, y, dy;
  braid_desc desc;                                    /* of x */
  int64_t axes[BRAID_MAX_RANK], axis_count, elements; /* reduced, and elements per result */
} reduction;

static braid_status reshape(reduction *r, braid_value_id *value) {
  int64_t dims[BRAID_MAX_RANK];
  memcpy(dims, r->desc.dims, sizeof dims);
  for (int64_t i = 0; i < r->axis_count; i++) dims[r->axes[i]] = 1;
  return braid_gradient_reshape(r->context, *value, r->desc.rank, dims, value);
}

static braid_status begin(braid_gradient_context *context, reduction *r) {
  braid_graph *graph = context->graph;
  bool reduced[BRAID_MAX_RANK];
  BRAID_TRY(find_dims(&(braid_infer){graph, &graph->nodes[context->node]}, reduced));
  *r = (reduction){.context = context, .elements = 1};
  r->x = braid_gradient_input(context, 0);
  r->y = braid_gradient_output(context, 0);
  r->dy = braid_gradient_of_output(context, 0);
  r->desc = graph->values[r->x].desc;
  for (int i = 0; i < r->desc.rank; i++) {
    if (!reduced[i]) continue;
    r->axes[r->axis_count++] = i;
    r->elements *= r->desc.dims[i];
  }
  if (graph->values[r->y].desc.rank == r->desc.rank) return BRAID_OK;
  BRAID_TRY(reshape(r, &r->y));
  return reshape(r, &r->dy);
}

static braid_status reduce_make(reduction *r, const char *op, braid_value_id a, braid_value_id b, braid_value_id *out) {
  return braid_gradient_node(r->context, op, (braid_value_id[]){a, b}, 2, out, NULL);
}

static braid_status apply(reduction *r, const char *op, braid_value_id a, braid_value_id *out) {
  return braid_gradient_node(r->context, op, &a, 1, out, NULL);
}

static braid_status scalar(reduction *r, double value, braid_value_id *out) {
  return braid_gradient_scalar(r->context, r->desc.dtype, value, out);
}

/* Reduces over the same axes, keeping dimensions of size 1. */
static braid_status reduce_again(reduction *r, const char *op, braid_value_id value, braid_value_id *out) {
  braid_value_id axes;
  *out = value;
  if (!r->axis_count) return BRAID_OK;
  BRAID_TRY(braid_graph_add_int64s(r->context->graph, r->axes, (size_t)r->axis_count, &axes));
  return reduce_make(r, op, value, axes, out);
}

/* Gives dy * factor, which may be of x's shape or of the reduced one. */
static braid_status give_product(reduction *r, braid_value_id factor) {
  BRAID_TRY(reduce_make(r, "Mul", factor, r->dy, &factor));
  return braid_gradient_give(r->context, 0, factor);
}

static braid_status give_expanded(reduction *r, braid_value_id value) {
  braid_value_id shape;
  BRAID_TRY(braid_graph_add_int64s(r->context->graph, r->desc.dims, (size_t)r->desc.rank, &shape));
  BRAID_TRY(reduce_make(r, "Expand", value, shape, &value));
  return braid_gradient_give(r->context, 0, value);
}

static braid_status sum_gradient(braid_gradient_context *context) {
  reduction r;
  BRAID_TRY(begin(context, &r));
  return give_expanded(&r, r.dy);
}

static braid_status mean_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id count;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(scalar(&r, (double)r.elements, &count));
  BRAID_TRY(reduce_make(&r, "Div", r.dy, count, &r.dy));
  return give_expanded(&r, r.dy);
}

static braid_status l1_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id sign;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(apply(&r, "Sign", r.x, &sign));
  return give_product(&r, sign);
}

static double smallest_normal(braid_dtype dtype) {
  return dtype == BRAID_F16 ? 0x1p-14 : dtype == BRAID_F64 ? 0x1p-1022 : 0x1p-126;
}

/* x / y, and 0 where the norm is. */
static braid_status l2_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id tiny, norm;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(scalar(&r, smallest_normal(r.desc.dtype), &tiny));
  BRAID_TRY(reduce_make(&r, "Max", r.y, tiny, &norm));
  BRAID_TRY(reduce_make(&r, "Div", r.x, norm, &norm));
  return give_product(&r, norm);
}

static braid_status sum_square_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id two, twice;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(scalar(&r, 2, &two));
  BRAID_TRY(reduce_make(&r, "Mul", r.x, two, &twice));
  return give_product(&r, twice);
}

static braid_status log_sum_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id sum;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(apply(&r, "Exp", r.y, &sum));
  BRAID_TRY(reduce_make(&r, "Div", r.dy, sum, &r.dy));
  return give_expanded(&r, r.dy);
}

static braid_status log_sum_exp_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id share;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(reduce_make(&r, "Sub", r.x, r.y, &share));
  BRAID_TRY(apply(&r, "Exp", share, &share));
  return give_product(&r, share);
}

/* The gradient goes to the elements that are the extreme, in equal shares where several are. */
static braid_status extreme_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id mask, ties;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(reduce_make(&r, "Equal", r.x, r.y, &mask));
  BRAID_TRY(reduce_make(&r, "CastLike", mask, r.x, &mask));
  BRAID_TRY(reduce_again(&r, "ReduceSum", mask, &ties));
  BRAID_TRY(reduce_make(&r, "Div", r.dy, ties, &r.dy));
  return give_product(&r, mask);
}

/* The product of the others. With z = 1 where x is 0 and Z the sum of z: product(x with 1 for 0) / (x or 1) where
 * Z = z, else 0. */
static braid_status prod_gradient(braid_gradient_context *context) {
  reduction r;
  braid_value_id zero, one, is_zero, z, zeros, safe, product, others, alone;
  BRAID_TRY(begin(context, &r));
  BRAID_TRY(scalar(&r, 0, &zero));
  BRAID_TRY(scalar(&r, 1, &one));
  BRAID_TRY(reduce_make(&r, "Equal", r.x, zero, &is_zero));
  BRAID_TRY(reduce_make(&r, "CastLike", is_zero, r.x, &z));
  BRAID_TRY(reduce_again(&r, "ReduceSum", z, &zeros));
  BRAID_TRY(braid_gradient_node(context, "Where", (braid_value_id[]){is_zero, one, r.x}, 3, &safe, NULL));
  BRAID_TRY(reduce_again(&r, "ReduceProd", safe, &product));
  BRAID_TRY(reduce_make(&r, "Div", product, safe, &others));
  BRAID_TRY(reduce_make(&r, "Equal", z, zeros, &alone));
  BRAID_TRY(braid_gradient_node(context, "Where", (braid_value_id[]){alone, others, zero}, 3, &others, NULL));
  return give_product(&r, others);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_op kOps[] = {
    {"ReduceSum", 1, 2, 1, 1, 0, infer_number, NULL, sum_gradient},
    {"ReduceMean", 1, 2, 1, 1, 0, infer_number, NULL, mean_gradient},
    {"ReduceMax", 1, 2, 1, 1, 0, infer_ordered, NULL, extreme_gradient},
    {"ReduceMin", 1, 2, 1, 1, 0, infer_ordered, NULL, extreme_gradient},
    {"ReduceProd", 1, 2, 1, 1, 0, infer_number, NULL, prod_gradient},
    {"ReduceL1", 1, 2, 1, 1, 0, infer_number, NULL, l1_gradient},
    {"ReduceL2", 1, 2, 1, 1, 0, infer_number, NULL, l2_gradient},
    {"ReduceLogSum", 1, 2, 1, 1, 0, infer_number, NULL, log_sum_gradient},
    {"ReduceLogSumExp", 1, 2, 1, 1, 0, infer_number, NULL, log_sum_exp_gradient},
    {"ReduceSumSquare", 1, 2, 1, 1, 0, infer_number, NULL, sum_square_gradient},
};

extern const braid_op_family braid_ops_reduce;
const braid_op_family braid_ops_reduce = {kOps, sizeof kOps / sizeof *kOps};
