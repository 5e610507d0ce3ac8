/* Puts models on more nodes. Private to this room. */
#ifndef BRAID_SERVE_CLUSTER_PLACEMENT_ADD_H
#define BRAID_SERVE_CLUSTER_PLACEMENT_ADD_H

#include "serve/cluster/placement_state.h"

typedef struct braid_cluster_adding {
  bool by_peak;  /* the fewest watts at most, for a cap that leaves too little; else the fewest joules */
  size_t except; /* no model is put on this node; NONE: on any */
  bool filled;   /* as if others filled the rest of a node that wakes */
  size_t first;  /* the model of view->order that is the first; those before it are the last */
} braid_cluster_adding;

/* For each model, the hardest first: replicas up to its least, and until its load has a place or nothing more fits.
 * NO_MEMORY. */
BRAID_MUST_CHECK braid_status braid_cluster_state_add(braid_cluster_state *state, braid_cluster_adding how);
/* The index of the pair among the present replicas, or NONE. */
size_t braid_cluster_find_present(const braid_cluster_view *view, size_t model, size_t node);

#endif
