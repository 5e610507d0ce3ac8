/* What a ledger records of a step's arithmetic: a digest (IntegerDigest) of each result of each node, but for raw sums
 * of images and weights, which are four times as large as what is rounded from them; their magnitudes are recorded. The
 * first that differs between two runs of a step, in the order of the graph, names the node. */
#ifndef BRAID_TRAIN_INTEGER_DIGESTS_H
#define BRAID_TRAIN_INTEGER_DIGESTS_H

#include "graph/graph.h"

typedef struct braid_integer_digest {
  const char *layer, *op; /* the network's, and the ops table's */
  size_t output;
  size_t place; /* in the step's output */
  bool split;   /* a process's is a part of the whole's, which is the sum of all; else all processes have the same */
} braid_integer_digest;

typedef struct braid_integer_digests {
  const braid_allocator *allocator;
  braid_integer_digest *items; /* in the order of the graph */
  size_t count, capacity;
  braid_value_id *vectors, *small; /* while the graph is built: digests of large results; small results */
  size_t vector_count, vector_capacity, small_count, small_capacity;
} braid_integer_digests;

/* Notes the results of a node that was added last; large ones get their digest here, so that their memory is free again
 * as soon as without one. Ops that are none of training in integers are passed over. `results`: stand for the node's
 * outputs, where other processes have a part in them. `first`: the number in the batch of the first sample here. */
BRAID_MUST_CHECK braid_status braid_integer_digests_note(braid_integer_digests *digests, braid_graph *graph,
                                                         braid_node_id node, const char *layer,
                                                         const braid_value_id *results, int64_t first);
/* Adds one output to the graph, int32 of digests->count. */
BRAID_MUST_CHECK braid_status braid_integer_digests_end(braid_integer_digests *digests, braid_graph *graph);
void braid_integer_digests_deinit(braid_integer_digests *digests);

#endif
