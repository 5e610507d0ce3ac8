/* The passes of a training step, as counted from the graph that training runs. */
#ifndef BRAID_EXPLORE_NETWORK_H
#define BRAID_EXPLORE_NETWORK_H

#include "braid/explore.h"
#include "graph/graph.h"

/* Widths of the streams in bits: operands of products and of auxiliary passes, and what the backward products and the
 * gradients leave (Section 5.2: "Int32/Int16"; 32, as sums of products of bytes need). */
enum { BRAID_TILE_NARROW = 8, BRAID_TILE_WIDE = 32 };

struct braid_tile_network {
  const braid_allocator *allocator;
  braid_graph *graph; /* the training graph, which owns the layers' names */
  int64_t batch;
  braid_tile_layer *layers;
  braid_tile_pass *passes;
  size_t layer_count, layer_capacity, pass_count, pass_capacity;
};

/* What a value of the training graph is, and which node of the forward graph it belongs to (roles.c). */
typedef struct braid_tile_roles {
  const braid_graph *graph;
  const braid_allocator *allocator;
  int64_t batch;
  bool *batched;                 /* value: there is one of each sample */
  bool *gradient;                /* value: of a parameter */
  braid_node_id *owner;          /* node: of the forward graph; itself, if it is; -1: none */
  int32_t *first_use, *next_use; /* value: its first use by a forward node, use: the next one; -1: none */
  braid_node_id *user;           /* use */
} braid_tile_roles;
BRAID_MUST_CHECK braid_status braid_tile_roles_create(const braid_graph *training, int64_t batch,
                                                      braid_tile_roles *out);
void braid_tile_roles_destroy(braid_tile_roles *roles);

#endif
