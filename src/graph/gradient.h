/* Gradients: what an op's gradient function works with.
 *
 * A gradient function is called once per forward node that the loss depends on, in reverse topological order, with the
 * gradients of its outputs known; it adds ordinary nodes and hands over the gradients of its inputs. Contributions to
 * the same value are summed by the driver. */
#ifndef BRAID_GRAPH_GRADIENT_H
#define BRAID_GRAPH_GRADIENT_H

#include "graph/graph.h"

struct braid_gradient_context {
  braid_graph *graph;
  braid_node_id node;                 /* index, because graph->nodes moves as nodes are added */
  struct braid_gradient_state *state; /* the driver's */
};

/* Gradient of output `index`; -1 if the loss does not depend on it. */
braid_value_id braid_gradient_of_output(const braid_gradient_context *context, size_t index);
/* Is the gradient of input `index` wanted? Functions skip the work where not. */
bool braid_gradient_wanted(const braid_gradient_context *context, size_t index);
braid_value_id braid_gradient_input(const braid_gradient_context *context, size_t index);  /* the forward value */
braid_value_id braid_gradient_output(const braid_gradient_context *context, size_t index); /* the forward value */
/* Output `index` of the forward node, added to it if it was left out: what the backward pass needs of the forward one.
 */
BRAID_MUST_CHECK braid_status braid_gradient_add_output(braid_gradient_context *context, size_t index,
                                                        braid_value_id *out);
/* Adds `gradient` to what flows into input `index`. */
BRAID_MUST_CHECK braid_status braid_gradient_give(braid_gradient_context *context, size_t index,
                                                  braid_value_id gradient);
/* The same, after summing over the dimensions along which the input was broadcast. */
BRAID_MUST_CHECK braid_status braid_gradient_give_reduced(braid_gradient_context *context, size_t index,
                                                          braid_value_id gradient);
/* Adds a node with one output, marked backward. `inputs` may hold -1. Attributes can be set afterwards by *node; `node`
 * may be NULL. The output's shape is inferred by braid_graph_infer_node, called again after attributes are set. */
BRAID_MUST_CHECK braid_status braid_gradient_node(braid_gradient_context *context, const char *op,
                                                  const braid_value_id *inputs, size_t count, braid_value_id *out,
                                                  braid_node_id *node);
/* `value` in a shape of the same number of elements, which may be none. */
BRAID_MUST_CHECK braid_status braid_gradient_reshape(braid_gradient_context *context, braid_value_id value, int rank,
                                                     const int64_t *dims, braid_value_id *out);
/* Copies all attributes of the forward node to `node` and infers it. */
BRAID_MUST_CHECK braid_status braid_gradient_copy_attrs(braid_gradient_context *context, braid_node_id node);
/* A scalar constant of the given type. */
BRAID_MUST_CHECK braid_status braid_gradient_scalar(braid_gradient_context *context, braid_dtype dtype, double value,
                                                    braid_value_id *out);

#endif
