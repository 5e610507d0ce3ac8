/* What of a forward graph trains: the parts of braid_graph_make_trainable. */
#ifndef BRAID_GRAPH_TRAINABLE_H
#define BRAID_GRAPH_TRAINABLE_H

#include "graph/graph.h"

/* Input `index` of a node is a running statistic of a normalization. */
bool braid_is_statistic(const braid_node *node, size_t index);
/* A name that an exporter made up for a value that it computed, not that of a module's parameter. */
bool braid_name_is_made_up(const char *name);
/* Every element has the same bits. */
bool braid_tensor_is_uniform(const braid_tensor *tensor);
/* Why a floating-point constant is no parameter, whatever uses it; else NULL. */
const char *braid_value_never_trains(const braid_value *value);
/* braid_graph_make_trainable of a graph whose output is its loss and whose second input takes the targets. */
BRAID_MUST_CHECK braid_status braid_graph_make_loss_trainable(braid_graph *graph);
/* Gives each parameter and running statistic a constant of its own where a file stores equal ones once; the rule stands
 * in untie.c. Nodes are in topological order. */
BRAID_MUST_CHECK braid_status braid_graph_untie(braid_graph *graph);
/* Constants that hold a parameter's numbers transposed or in another shape become computed from it. */
BRAID_MUST_CHECK braid_status braid_graph_tie(braid_graph *graph);
/* Did the two calls (braid_node.call) take the same parameter, as which `root` is stored? */
bool braid_calls_share(const braid_value *root, const char *one, const char *other);
#endif
