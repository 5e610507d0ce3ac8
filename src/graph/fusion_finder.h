/* Private to the finding of fusions: fusion.c has the rules over real numbers, fusion_quantized.c those over bytes. */
#ifndef BRAID_GRAPH_FUSION_FINDER_H
#define BRAID_GRAPH_FUSION_FINDER_H

#include "graph/fusion.h"
#include "graph/rewrite.h"

typedef struct braid_fusion_finder {
  braid_rewrite rewrite;
  braid_arena *arena;
  braid_fusion_list *list;
  int32_t *ends; /* per node: one more than the number of the largest fusion that ends there; 0: none does */
} braid_fusion_finder;

typedef struct braid_fusion_activation {
  const char *name;
  float params[2];
  size_t count;
} braid_fusion_activation;

/* False: it is none that an op can have behind it. */
bool braid_fusion_read_activation(const braid_rewrite *r, const braid_node *node, braid_fusion_activation *out);
/* Attributes of the set's with the activation's behind them. */
BRAID_MUST_CHECK braid_status braid_fusion_add_activation(braid_fusion_finder *f, braid_fusion *set,
                                                          const braid_fusion_activation *act);
/* Sorts the set's nodes and puts it into the list. */
BRAID_MUST_CHECK braid_status braid_fusion_add(braid_fusion_finder *f, braid_fusion *set);

/* The sets that end at node `id`, if that is a QuantizeLinear. */
BRAID_MUST_CHECK braid_status braid_fusion_find_quantized(braid_fusion_finder *f, braid_node_id id);

#endif
