/* For passes that turn nodes into others: folding (fold.c), fusion (fusion.c). */
#ifndef BRAID_GRAPH_REWRITE_H
#define BRAID_GRAPH_REWRITE_H

#include <string.h>

#include "graph/graph.h"

typedef struct braid_rewrite {
  braid_graph *graph;
  int32_t *uses; /* per value, of those that were there at the start */
} braid_rewrite;

static inline bool braid_node_is(const braid_node *node, const char *op) {
  return node && strcmp(node->op->name, op) == 0;
}

static inline braid_value_id braid_node_input(const braid_node *node, size_t index) {
  return index < node->input_count ? node->inputs[index] : -1;
}

static inline const braid_desc *braid_rewrite_desc(const braid_rewrite *r, braid_value_id id) {
  return &r->graph->values[id].desc;
}

static inline braid_node_id braid_rewrite_index(const braid_rewrite *r, const braid_node *node) {
  return (braid_node_id)(node - r->graph->nodes);
}

/* NULL: it is none. */
static inline const braid_tensor *braid_rewrite_constant(const braid_rewrite *r, braid_value_id id) {
  if (id < 0 || r->graph->values[id].kind != BRAID_VALUE_CONSTANT) return NULL;
  return r->graph->values[id].tensor;
}

/* The node that computes `id`, if `id` is float32 and read as often as that; else NULL. */
const braid_node *braid_rewrite_producer(const braid_rewrite *r, braid_value_id id, int32_t uses);
/* The same of float32, float16 and bfloat16. */
const braid_node *braid_rewrite_real_producer(const braid_rewrite *r, braid_value_id id, int32_t uses);
static inline const braid_node *braid_rewrite_sole_producer(const braid_rewrite *r, braid_value_id id) {
  return braid_rewrite_producer(r, id, 1);
}

/* Turns node `id` into `op` over `inputs`, with the attributes of node `source` (-1: none), whose names it takes if
 * that is another. */
BRAID_MUST_CHECK braid_status braid_rewrite_node(braid_rewrite *r, braid_node_id id, const char *op,
                                                 const braid_value_id *inputs, size_t count, braid_node_id source);
/* Node `id` answers to the names of node `source` too, which it takes in. */
BRAID_MUST_CHECK braid_status braid_rewrite_take_names(braid_rewrite *r, braid_node_id id, braid_node_id source);

#endif
