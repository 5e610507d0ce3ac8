/* Fusion: sets of nodes that one op computes in fewer passes over memory: a convolution with a sum of equal shape, a
 * product with a sum of one number a column, each with an activation behind it; a sum of two with a Relu or a Relu's
 * gradient behind it; a normalization of the batch with a Relu behind it, and their gradients; in integers an error
 * with the gradient of a rectifier behind it; Mul(x, Sigmoid(x)); the five nodes that exporters write for Gelu; what
 * stands between DequantizeLinear and QuantizeLinear, as an op over bytes.
 *
 * Here they are only found; whoever knows the devices decides which of them become one node. The last node of a set
 * becomes the fused one, in its place; what it computes on the way has no other reader, which makes this right for
 * training graphs: there the backward nodes are readers too. Sets are nested or disjoint. */
#ifndef BRAID_GRAPH_FUSION_H
#define BRAID_GRAPH_FUSION_H

#include "base/arena.h"
#include "graph/graph.h"

enum { BRAID_FUSION_NODES = 10, BRAID_FUSION_INPUTS = 14, BRAID_FUSION_OUTPUTS = 5 };

typedef struct braid_fusion {
  braid_node_id nodes[BRAID_FUSION_NODES]; /* ascending */
  size_t node_count;
  const char *op; /* "FusedConv", "FusedGemm", "FusedMatMul", "Swish", "Gelu", "QLinearAdd" ... */
  braid_value_id inputs[BRAID_FUSION_INPUTS];
  size_t input_count;
  braid_value_id outputs[BRAID_FUSION_OUTPUTS];
  size_t output_count;  /* 0: those of its last node, else the last node's first and more of the others' */
  braid_attrs attrs;    /* of the fused node; borrows from those of the nodes */
  braid_node_id source; /* the node whose attributes it has, before those of the activation; -1: none */
  bool activated;       /* it ends in an activation: nothing more can be fused */
} braid_fusion;

typedef struct braid_fusion_list {
  braid_fusion *items; /* smaller sets before those that hold them */
  size_t count, capacity;
} braid_fusion_list;

/* `graph` is sorted and stays as it is. The list's items come from the graph's allocator (braid_free), attributes from
 * `arena`. */
BRAID_MUST_CHECK braid_status braid_graph_find_fusions(braid_graph *graph, braid_arena *arena, braid_fusion_list *out);
/* Makes the last node of the set the fused one. The others stay until the next compaction. */
BRAID_MUST_CHECK braid_status braid_graph_apply_fusion(braid_graph *graph, const braid_fusion *fusion);

#endif
