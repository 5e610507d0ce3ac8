/* Ops that are functions of other ops. Inference, which knows types and shapes then, puts the nodes of the function in
 * the op's place: kernels, gradients and fusion are those of the ops that it is made of.
 *
 * braid_expand_<Op> builds the nodes with the functions below. The first failure is kept in the body, and nothing is
 * added after it. */
#ifndef BRAID_GRAPH_BODY_H
#define BRAID_GRAPH_BODY_H

#include "graph/graph.h"

/* The ops that have a body, each with its braid_expand_<Op> in a file of ops/. */
#define BRAID_FUNCTION_OPS(X)                                                                                          \
  X(AffineGrid)                                                                                                        \
  X(Attention)                                                                                                         \
  X(BlackmanWindow)                                                                                                    \
  X(CausalConvWithState)                                                                                               \
  X(CenterCropPad)                                                                                                     \
  X(Col2Im)                                                                                                            \
  X(DeformConv)                                                                                                        \
  X(Einsum)                                                                                                            \
  X(HammingWindow)                                                                                                     \
  X(HannWindow)                                                                                                        \
  X(MelWeightMatrix)                                                                                                   \
  X(RotaryEmbedding)                                                                                                   \
  X(STFT)                                                                                                              \
  X(SwiGLU)                                                                                                            \
  X(TensorScatter)

typedef struct braid_body {
  braid_graph *graph;
  braid_node_id node; /* the function's; an index, because graph->nodes moves */
  const braid_evaluator *evaluator;
  braid_status status;
} braid_body;

#define BRAID_FUNCTION_OP(op) void braid_expand_##op(braid_body *body);
BRAID_FUNCTION_OPS(BRAID_FUNCTION_OP)
#undef BRAID_FUNCTION_OP

/* Infers node `id` and folds it where its inputs are known. In infer.c. */
BRAID_MUST_CHECK braid_status braid_graph_infer_and_fold(braid_graph *graph, braid_node_id id,
                                                         const braid_evaluator *evaluator);
/* Puts the body of a node's function in its place; the values that it gave are then given by the body's nodes. */
BRAID_MUST_CHECK braid_status braid_body_expand(braid_graph *graph, braid_node_id id, const braid_evaluator *evaluator);

/* The same for every function of a graph whose shapes are known: before gradients, which go through the bodies. */
BRAID_MUST_CHECK braid_status braid_body_expand_all(braid_graph *graph);

/* --- the function's operands ---------------------------------------------------------------------------------------
 */
const braid_attrs *braid_body_attrs(const braid_body *body);
braid_value_id braid_body_input(const braid_body *body, size_t index); /* -1: left out */
bool braid_body_wants(const braid_body *body, size_t output);
const braid_desc *braid_body_output_desc(const braid_body *body); /* of output 0, as the op's inference set it */
void braid_body_give(braid_body *body, size_t output, braid_value_id value);

/* --- values --------------------------------------------------------------------------------------------------------
 * -1 after a failure. */
const braid_desc *braid_body_desc(const braid_body *body, braid_value_id value); /* a scalar after a failure */
braid_value_id braid_body_scalar(braid_body *body, braid_dtype dtype, double value);
braid_value_id braid_body_int64s(braid_body *body, const int64_t *values, size_t count);
braid_value_id braid_body_tensor(braid_body *body, braid_tensor *tensor); /* takes the reference */
/* A constant of this type and shape, filled by f(at, context). */
braid_value_id braid_body_tabulate(braid_body *body, const braid_desc *desc,
                                   double (*f)(int64_t at, const double *context), const double *context);

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
/* An attribute of a node that is added; a list of these ends with {0}. */
typedef struct braid_body_attr {
  const char *name;
  int64_t i;
  const char *s;       /* a string, if not NULL */
  const int64_t *ints; /* a list, if not NULL */
  size_t count;
  double f; /* a number, if `is_float` */
  bool is_float;
} braid_body_attr;

/* A node of one output. `attrs` may be NULL. */
braid_value_id braid_body_node(braid_body *body, const char *op, const braid_value_id *inputs, size_t count,
                               const braid_body_attr *attrs);
braid_value_id braid_body_1(braid_body *body, const char *op, braid_value_id a);
braid_value_id braid_body_2(braid_body *body, const char *op, braid_value_id a, braid_value_id b);
/* With a number of a's type. */
braid_value_id braid_body_with(braid_body *body, const char *op, braid_value_id a, double b);
braid_value_id braid_body_where(braid_body *body, braid_value_id condition, braid_value_id a, braid_value_id b);
braid_value_id braid_body_cast(braid_body *body, braid_value_id value, braid_dtype dtype); /* itself if it is so */
braid_value_id braid_body_reshape(braid_body *body, braid_value_id value, int rank, const int64_t *dims);
braid_value_id braid_body_transpose(braid_body *body, braid_value_id value, const int64_t *perm);
braid_value_id braid_body_expand_to(braid_body *body, braid_value_id value, int rank, const int64_t *dims);
braid_value_id braid_body_slice(braid_body *body, braid_value_id value, int64_t axis, int64_t start, int64_t end);
braid_value_id braid_body_concat(braid_body *body, const braid_value_id *parts, size_t count, int64_t axis);
/* "ReduceSum" and the like over one axis, which stays as 1 if `keep`. */
braid_value_id braid_body_reduce(braid_body *body, const char *op, braid_value_id value, int64_t axis, bool keep);

#endif
