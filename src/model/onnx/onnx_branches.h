/* From the flat graph back to the nested graphs of ONNX: which nodes are written into which branch of which If.
 *
 * In the graph an If is a join of two values per output, and what a branch takes from outside passes through IfBranch
 * (graph/control.h). In a file a branch is a graph inside the node that sees all names outside, so IfBranch disappears,
 * and a node goes into the innermost branch in which all its uses lie. */
#ifndef BRAID_MODEL_ONNX_BRANCHES_H
#define BRAID_MODEL_ONNX_BRANCHES_H

#include "graph/graph.h"

struct braid_arena;

typedef struct braid_onnx_region {
  size_t parent; /* its own index for the graph itself */
  int depth;
} braid_onnx_region;

typedef struct braid_onnx_branches {
  braid_onnx_region *regions; /* 0: the graph itself; then two per If, in the order of the nodes: then, else */
  size_t count;
  size_t *of_node;  /* which region each live node is written into */
  size_t *first_of; /* of an If: the region of its then branch */
} braid_onnx_branches;

/* `live`: one per node, nodes that are written. Everything is allocated in `arena`. */
BRAID_MUST_CHECK braid_status braid_onnx_find_branches(const braid_graph *graph, const bool *live,
                                                       struct braid_arena *arena, braid_onnx_branches *out);
bool braid_onnx_is_if(const braid_node *node);
bool braid_onnx_is_capture(const braid_node *node); /* IfBranch */
/* The value under whose name `value` is seen in a file: through captures. */
braid_value_id braid_onnx_outside_value(const braid_graph *graph, braid_value_id value);
#endif
