/* A placement while braid_cluster_place works on it: who holds what, how busy that makes the nodes, and the steps that
 * change it. Private to this room. */
#ifndef BRAID_SERVE_CLUSTER_PLACEMENT_STATE_H
#define BRAID_SERVE_CLUSTER_PLACEMENT_STATE_H

#include "serve/cluster/placement_policy.h"

/* A replica. Those that were taken away stay in the pool, dead, with the reason. */
typedef struct braid_cluster_held {
  size_t model, node;
  double rate;                        /* requests a second */
  size_t next_of_model, next_of_node; /* index in the pool, or NONE */
  size_t present;                     /* its index among the problem's present ones, or NONE */
  bool dead;
  braid_cluster_reason reason; /* it is dead for */
} braid_cluster_held;

typedef struct braid_cluster_node_state {
  int64_t memory_left;
  double busy;
  size_t first, models; /* of its replicas, and how many live */
} braid_cluster_node_state;

typedef struct braid_cluster_model_state {
  size_t first, replicas;
  double rate; /* that has a place */
} braid_cluster_model_state;

typedef struct braid_cluster_watts {
  double asleep, idle, busy;
} braid_cluster_watts;

/* What all placements of a problem share. */
typedef struct braid_cluster_view {
  const braid_cluster_problem *problem;
  const braid_allocator *allocator;
  braid_cluster_watts unknown; /* of nodes whose power is not known */
  double *best_seconds;        /* of each model: on the fastest kind; 0: on none */
  size_t *order;               /* models, hardest to place first */
  size_t *by_kind;             /* nodes, by kind, the fastest first */
  size_t *kind_begin;          /* kind_count + 1 positions in by_kind */
  size_t *present_of;          /* model_count + 1 positions in the present replicas */
  void *scratch;               /* node_count items of the filling */
} braid_cluster_view;

BRAID_MUST_CHECK braid_status braid_cluster_view_init(const braid_cluster_problem *problem,
                                                      const braid_allocator *allocator, braid_cluster_view *view);
void braid_cluster_view_deinit(braid_cluster_view *view);
braid_cluster_watts braid_cluster_node_watts(const braid_cluster_view *view, size_t node);
/* Part of the node's time for a request a second of the model; 0: it cannot run there. */
double braid_cluster_cost(const braid_cluster_view *view, size_t model, size_t node);
/* What loading the model on the node takes, in joules. */
double braid_cluster_load_joules(const braid_cluster_view *view, size_t model, size_t node);

typedef struct braid_cluster_state {
  const braid_cluster_view *view;
  braid_cluster_node_state *nodes;
  braid_cluster_model_state *models;
  braid_cluster_held *pool;
  size_t count, capacity;
  double peak; /* what all nodes draw at most, in watts */
} braid_cluster_state;

/* Nothing is placed. */
BRAID_MUST_CHECK braid_status braid_cluster_state_init(const braid_cluster_view *view, braid_cluster_state *state);
void braid_cluster_state_deinit(braid_cluster_state *state);
/* Makes `to`, of the same view, the same as `from`. */
BRAID_MUST_CHECK braid_status braid_cluster_state_copy(const braid_cluster_state *from, braid_cluster_state *to);

/* Places what is there where it is, if it still can be; what cannot is dead, with its reason. */
BRAID_MUST_CHECK braid_status braid_cluster_state_keep(braid_cluster_state *state);
/* Takes away what is on the nodes that give least for their watts until the cap holds. */
BRAID_MUST_CHECK braid_status braid_cluster_state_obey_cap(braid_cluster_state *state);
/* Whether the model may be put on the node. */
bool braid_cluster_state_fits(const braid_cluster_state *state, size_t model, size_t node);
/* NO_MEMORY; rate 0. */
BRAID_MUST_CHECK braid_status braid_cluster_state_put(braid_cluster_state *state, size_t model, size_t node,
                                                      size_t present);
void braid_cluster_state_take(braid_cluster_state *state, size_t held, braid_cluster_reason reason);
void braid_cluster_state_set_rate(braid_cluster_state *state, size_t held, double rate);
/* Spreads each model's load over its replicas: to those where a request takes the fewest joules, and evenly among such.
 * What one model leaves, others get. The second looks at one model alone, and spreads evenly. */
void braid_cluster_state_spread(braid_cluster_state *state);
void braid_cluster_state_spread_model(braid_cluster_state *state, size_t model);

/* What is ranked: lower is better. */
typedef struct braid_cluster_score {
  size_t replicas; /* that lack to the models' least */
  double unmet;    /* seconds of work a second without a place */
  double joules;   /* within the horizon, with loads and what unloads would cost to undo */
  double watts;
} braid_cluster_score;
braid_cluster_score braid_cluster_state_score(const braid_cluster_state *state);
bool braid_cluster_score_before(const braid_cluster_score *a, const braid_cluster_score *b);

/* What keeps the model from more places (placement_bounds.c). */
void braid_cluster_state_bounds(const braid_cluster_state *state, size_t model, braid_cluster_bounds *out);
/* Writes the placement, and the moves that lead to it from what is there (placement_moves.c). NO_MEMORY: *plan is
 * empty. */
BRAID_MUST_CHECK braid_status braid_cluster_plan_write(const braid_cluster_state *state, braid_cluster_plan *plan);

#endif
