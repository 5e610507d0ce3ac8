/* Matrix products: Gemm and MatMul; FusedGemm and FusedMatMul have an activation (attributes as FusedConv's), the
 * latter also a bias, one number a column.
 *
 * MatMul has attributes of our own, transA and transB: the last two dimensions of an operand are exchanged (an operand
 * of rank 1 is never). Gradients use them, so that the backward pass transposes nothing in memory. */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static bool has_type(braid_dtype dtype) {
  return braid_dtype_is_float(dtype) || dtype == BRAID_I32 || dtype == BRAID_I64 || dtype == BRAID_U32 ||
         dtype == BRAID_U64;
}

static braid_status check_types(const braid_infer *infer) {
  const braid_desc *a = braid_infer_input(infer, 0);
  if (!has_type(a->dtype)) return braid_infer_fail(infer, "%s operands", braid_dtype_name(a->dtype));
  for (size_t i = 1; i < braid_infer_inputs(infer); i++) {
    const braid_desc *other = braid_infer_input(infer, i);
    if (other && other->dtype != a->dtype)
      return braid_infer_fail(infer, "operand %zu is %s, operand 0 %s", i, braid_dtype_name(other->dtype),
                              braid_dtype_name(a->dtype));
  }
  return BRAID_OK;
}

static braid_status infer_gemm(const braid_infer *infer) {
  BRAID_TRY(check_types(infer));
  const braid_desc *a = braid_infer_input(infer, 0), *b = braid_infer_input(infer, 1), *c = braid_infer_input(infer, 2);
  if (a->rank != 2 || b->rank != 2)
    return braid_infer_fail(infer, "operands of rank %d and %d, matrices expected", a->rank, b->rank);
  bool ta = braid_attr_int(&infer->node->attrs, "transA", 0) != 0;
  bool tb = braid_attr_int(&infer->node->attrs, "transB", 0) != 0;
  if (a->dims[ta ? 0 : 1] != b->dims[tb ? 1 : 0])
    return braid_infer_fail(infer, "inner dimensions %lld and %lld differ", (long long)a->dims[ta ? 0 : 1],
                            (long long)b->dims[tb ? 1 : 0]);
  braid_desc y = {.dtype = a->dtype, .rank = 2, .dims = {a->dims[ta ? 1 : 0], b->dims[tb ? 0 : 1]}}, sum;
  if (c && (!braid_broadcast(&y, c, &sum) || !braid_desc_same_shape(&y, &sum)))
    return braid_infer_fail(infer, "C does not broadcast to the product");
  return braid_infer_output(infer, 0, y.dtype, 2, y.dims);
}

static braid_status infer_matmul(const braid_infer *infer) {
  BRAID_TRY(check_types(infer));
  braid_desc a = *braid_infer_input(infer, 0), b = *braid_infer_input(infer, 1), lead;
  if (a.rank < 1 || b.rank < 1) return braid_infer_fail(infer, "a scalar operand");
  bool vector_a = a.rank == 1, vector_b = b.rank == 1;
  bool ta = !vector_a && braid_attr_int(&infer->node->attrs, "transA", 0) != 0;
  bool tb = !vector_b && braid_attr_int(&infer->node->attrs, "transB", 0) != 0;
  int64_t rows = vector_a ? 1 : a.dims[a.rank - (ta ? 1 : 2)];
  int64_t inner_a = vector_a ? a.dims[0] : a.dims[a.rank - (ta ? 2 : 1)];
  int64_t inner_b = vector_b ? b.dims[0] : b.dims[b.rank - (tb ? 1 : 2)];
  int64_t columns = vector_b ? 1 : b.dims[b.rank - (tb ? 2 : 1)];
  if (inner_a != inner_b)
    return braid_infer_fail(infer, "inner dimensions %lld and %lld differ", (long long)inner_a, (long long)inner_b);
  a.rank = vector_a ? 0 : a.rank - 2;
  b.rank = vector_b ? 0 : b.rank - 2;
  if (!braid_broadcast(&a, &b, &lead)) return braid_infer_fail(infer, "leading dimensions do not broadcast");
  if (lead.rank + 2 > BRAID_MAX_RANK) return braid_infer_fail(infer, "rank above %d", BRAID_MAX_RANK);
  if (!vector_a) lead.dims[lead.rank++] = rows;
  if (!vector_b) lead.dims[lead.rank++] = columns;
  return braid_infer_output(infer, 0, a.dtype, lead.rank, lead.dims);
}

static braid_status infer_fused_matmul(const braid_infer *infer) {
  const braid_desc *a = braid_infer_input(infer, 0), *b = braid_infer_input(infer, 1), *c = braid_infer_input(infer, 2);
  if (a->rank < 2 || b->rank < 2)
    return braid_infer_fail(infer, "operands of rank %d and %d, matrices expected", a->rank, b->rank);
  BRAID_TRY(infer_matmul(infer));
  int64_t columns = b->dims[b->rank - (braid_attr_int(&infer->node->attrs, "transB", 0) != 0 ? 2 : 1)];
  if (!c || (c->rank == 1 && c->dims[0] == columns)) return BRAID_OK;
  return braid_infer_fail(infer, "a bias other than one number a column");
}

/* The product's elements times the inner dimension. */
static int64_t count_macs(const braid_graph *graph, const braid_node *node) {
  const braid_desc *a = &graph->values[node->inputs[0]].desc, *y = &graph->values[node->outputs[0]].desc;
  bool ta = a->rank > 1 && braid_attr_int(&node->attrs, "transA", 0) != 0;
  return braid_desc_count(y) * a->dims[a->rank - (ta ? 2 : 1)];
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
/* op(left, right) with transpositions and alpha. */
static braid_status product(braid_gradient_context *context, const char *op, braid_value_id left, bool left_transposed,
                            braid_value_id right, bool right_transposed, double alpha, braid_value_id *out) {
  braid_node_id node;
  BRAID_TRY(braid_gradient_node(context, op, (braid_value_id[]){left, right}, 2, out, &node));
  if (left_transposed) BRAID_TRY(braid_graph_set_int(context->graph, node, "transA", 1));
  if (right_transposed) BRAID_TRY(braid_graph_set_int(context->graph, node, "transB", 1));
  if (alpha != 1) BRAID_TRY(braid_graph_set_float(context->graph, node, "alpha", alpha));
  return braid_graph_infer_node(context->graph, node);
}

/* With A' = op(A), B' = op(B): dA' = dY B'^T, dB' = A'^T dY; and dA = dA'^T = B' dY^T where A is transposed. */
static braid_status matrix_gradients(braid_gradient_context *context, const char *op, braid_value_id dy, bool ta,
                                     bool tb, double alpha) {
  braid_value_id a = braid_gradient_input(context, 0), b = braid_gradient_input(context, 1), given;
  if (braid_gradient_wanted(context, 0)) {
    if (ta)
      BRAID_TRY(product(context, op, b, tb, dy, true, alpha, &given));
    else
      BRAID_TRY(product(context, op, dy, false, b, !tb, alpha, &given));
    BRAID_TRY(braid_gradient_give_reduced(context, 0, given));
  }
  if (braid_gradient_wanted(context, 1)) {
    if (tb)
      BRAID_TRY(product(context, op, dy, true, a, ta, alpha, &given));
    else
      BRAID_TRY(product(context, op, a, !ta, dy, false, alpha, &given));
    BRAID_TRY(braid_gradient_give_reduced(context, 1, given));
  }
  return BRAID_OK;
}

static braid_status gemm_gradient(braid_gradient_context *context) {
  const braid_attrs *attrs = &context->graph->nodes[context->node].attrs;
  bool ta = braid_attr_int(attrs, "transA", 0) != 0, tb = braid_attr_int(attrs, "transB", 0) != 0;
  double alpha = braid_attr_float(attrs, "alpha", 1), beta = braid_attr_float(attrs, "beta", 1);
  braid_value_id dy = braid_gradient_of_output(context, 0);
  BRAID_TRY(matrix_gradients(context, "Gemm", dy, ta, tb, alpha));
  if (!braid_gradient_wanted(context, 2)) return BRAID_OK;
  if (beta != 1) {
    braid_value_id factor, scaled;
    BRAID_TRY(braid_gradient_scalar(context, context->graph->values[dy].desc.dtype, beta, &factor));
    BRAID_TRY(braid_gradient_node(context, "Mul", (braid_value_id[]){dy, factor}, 2, &scaled, NULL));
    dy = scaled;
  }
  return braid_gradient_give_reduced(context, 2, dy);
}

/* A vector operand becomes a matrix, and dy gets the dimension it lost; `value` is left alone otherwise. */
static braid_status as_matrix(braid_gradient_context *context, braid_value_id *value, int at) {
  braid_graph *graph = context->graph;
  braid_desc desc = graph->values[*value].desc;
  int64_t dims[BRAID_MAX_RANK];
  for (int i = 0; i < at; i++) dims[i] = desc.dims[i];
  dims[at] = 1;
  for (int i = at; i < desc.rank; i++) dims[i + 1] = desc.dims[i];
  return braid_gradient_reshape(context, *value, desc.rank + 1, dims, value);
}

static braid_status give_vector(braid_gradient_context *context, size_t index, braid_value_id gradient) {
  braid_graph *graph = context->graph;
  const braid_desc target = graph->values[braid_gradient_input(context, index)].desc;
  const braid_desc from = graph->values[gradient].desc;
  /* sum whatever stands before the last two dimensions, then drop the one */
  if (from.rank > 2) {
    int64_t axes[BRAID_MAX_RANK];
    for (int i = 0; i < from.rank - 2; i++) axes[i] = i;
    braid_value_id list;
    BRAID_TRY(braid_graph_add_int64s(graph, axes, (size_t)from.rank - 2, &list));
    BRAID_TRY(braid_gradient_node(context, "ReduceSum", (braid_value_id[]){gradient, list}, 2, &gradient, NULL));
  }
  BRAID_TRY(braid_gradient_reshape(context, gradient, 1, target.dims, &gradient));
  return braid_gradient_give(context, index, gradient);
}

static braid_status vector_gradients(braid_gradient_context *context, braid_value_id dy, bool ta, bool tb) {
  braid_value_id a = braid_gradient_input(context, 0), b = braid_gradient_input(context, 1), given;
  bool vector_a = context->graph->values[a].desc.rank == 1, vector_b = context->graph->values[b].desc.rank == 1;
  if (vector_a) BRAID_TRY(as_matrix(context, &a, 0));
  if (vector_b) {
    BRAID_TRY(as_matrix(context, &b, 1));
    BRAID_TRY(as_matrix(context, &dy, context->graph->values[dy].desc.rank));
  }
  if (vector_a) BRAID_TRY(as_matrix(context, &dy, context->graph->values[dy].desc.rank - 1));
  if (braid_gradient_wanted(context, 0)) {
    if (ta)
      BRAID_TRY(product(context, "MatMul", b, tb, dy, true, 1, &given));
    else
      BRAID_TRY(product(context, "MatMul", dy, false, b, !tb, 1, &given));
    BRAID_TRY((vector_a ? give_vector : braid_gradient_give_reduced)(context, 0, given));
  }
  if (braid_gradient_wanted(context, 1)) {
    if (tb)
      BRAID_TRY(product(context, "MatMul", dy, true, a, ta, 1, &given));
    else
      BRAID_TRY(product(context, "MatMul", a, !ta, dy, false, 1, &given));
    BRAID_TRY((vector_b ? give_vector : braid_gradient_give_reduced)(context, 1, given));
  }
  return BRAID_OK;
}

static braid_status matmul_gradient(braid_gradient_context *context) {
  const braid_attrs *attrs = &context->graph->nodes[context->node].attrs;
  bool ta = braid_attr_int(attrs, "transA", 0) != 0, tb = braid_attr_int(attrs, "transB", 0) != 0;
  braid_value_id dy = braid_gradient_of_output(context, 0);
  int rank_a = context->graph->values[braid_gradient_input(context, 0)].desc.rank;
  int rank_b = context->graph->values[braid_gradient_input(context, 1)].desc.rank;
  if (rank_a == 1 || rank_b == 1) return vector_gradients(context, dy, ta && rank_a > 1, tb && rank_b > 1);
  return matrix_gradients(context, "MatMul", dy, ta, tb, 1);
}

static const braid_op kOps[] = {
    {"Gemm", 2, 3, 1, 1, 0, infer_gemm, count_macs, gemm_gradient},
    {"FusedGemm", 2, 3, 1, 1, 0, infer_gemm, count_macs, NULL},
    {"MatMul", 2, 2, 1, 1, 0, infer_matmul, count_macs, matmul_gradient},
    {"FusedMatMul", 2, 3, 1, 1, 0, infer_fused_matmul, count_macs, NULL},
};

const braid_op_family braid_ops_matmul = {kOps, sizeof kOps / sizeof *kOps};
