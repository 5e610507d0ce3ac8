/* Which node of a cluster holds which model: over plain numbers, as serving_policy.h decides within a node. It touches
 * no device, no clock and no network, so that the control node and the cluster's simulator run the same code. The same
 * problem always has the same answer. Times in seconds, memory in bytes, power in watts.
 *
 * What it decides, in this order: replicas whose nodes are lost or that have no place any more go; every model has at
 * least `least` replicas, and so many that its load is met with no node busier than `most_busy`; the sum of what all
 * nodes draw at most stays within the cap, whatever they run; of the placements that do, one of little energy
 * (it is a heuristic: placement_optimum_test.c holds it against the optimum); and of those, one that moves little.
 * What is there stays where it is unless that is worth it: a node that comes back attracts nothing by itself, and a
 * node is emptied only where what that saves within `horizon_s` is more than what the loads cost that it takes. */
#ifndef BRAID_SERVE_CLUSTER_PLACEMENT_POLICY_H
#define BRAID_SERVE_CLUSTER_PLACEMENT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

/* Stands for no node, model or tenant. */
#define BRAID_CLUSTER_NONE SIZE_MAX

typedef struct braid_cluster_node {
  bool alive;
  size_t kind;          /* nodes of a kind take the same time for a model */
  double slow;          /* times as long as its kind: 1 as measured, > 0 */
  size_t instances;     /* runs side by side, >= 1 */
  int64_t memory_bytes; /* for models */
  uint64_t features;    /* what the node has, one bit each */
  /* What it draws asleep (it holds no model), awake and idle, and with all instances busy. Not known: it counts as
   * the most that is known of any node, for the cap too. */
  bool power_known;
  double asleep_watts, idle_watts, busy_watts; /* asleep <= idle <= busy */
  double load_bytes_per_s;                     /* at which it loads a model; 0: not known, and loads cost nothing */
} braid_cluster_node;

typedef struct braid_cluster_model {
  int64_t memory_bytes;
  double requests_per_s; /* wanted */
  size_t least, most;    /* replicas; most 0: no limit */
  uint64_t features;     /* that a node must have */
  size_t tenant;
  bool is_private; /* nodes that hold it hold no model of another tenant */
} braid_cluster_model;

/* A model on a node, with the requests a second that the plan counts on there. */
typedef struct braid_cluster_replica {
  size_t model, node;
  double requests_per_s;
} braid_cluster_replica;

typedef struct braid_cluster_problem {
  const braid_cluster_node *nodes;
  size_t node_count;
  const braid_cluster_model *models;
  size_t model_count;
  /* seconds[kind * model_count + model]: of an instance for a request, in runs of the usual size. 0: it cannot run
   * there, or is not known. */
  const double *seconds;
  size_t kind_count;
  /* What is there now, by model and then node, each pair once; on nodes that are lost too, so that what moves for them
   * can be told. With the requests a second of the plan that led to it: where the next one begins. */
  const braid_cluster_replica *present;
  size_t present_count;
  double most_busy; /* of a node's instances' time, (0, 1] */
  double cap_watts; /* INFINITY: none */
  double horizon_s; /* what is saved in so long may be spent on loads; 0: nothing is moved to save energy, nor for load;
                       only where models have fewer than their least, and would have more so */
} braid_cluster_problem;

typedef enum braid_cluster_reason {
  BRAID_CLUSTER_LEAST,   /* load: fewer replicas than the model's least */
  BRAID_CLUSTER_LOST,    /* load: instead of one on a node that is lost */
  BRAID_CLUSTER_LOAD,    /* load: those that there are do not carry what is wanted */
  BRAID_CLUSTER_ENERGY,  /* load and unload: the whole takes fewer joules so, loads counted in */
  BRAID_CLUSTER_ROOM,    /* load and unload, where nothing is moved for energy: more replicas have a place so */
  BRAID_CLUSTER_SPARE,   /* unload: the others carry what is wanted with fewer joules */
  BRAID_CLUSTER_MOST,    /* unload: more replicas than the model's most */
  BRAID_CLUSTER_GONE,    /* unload: its node is lost; nothing is to be done there */
  BRAID_CLUSTER_UNFIT,   /* unload: the node has not the memory, the features or a known time for it */
  BRAID_CLUSTER_PRIVATE, /* unload: a tenant has the node for itself */
  BRAID_CLUSTER_CAP,     /* unload: the cap does not let the node stay awake */
} braid_cluster_reason;

/* A step from what is there to what is planned. Why is kept as numbers: braid_cluster_move_text says it. */
typedef struct braid_cluster_move {
  bool load; /* false: unload */
  size_t model, node;
  int64_t bytes; /* to be loaded; 0 for unloads */
  braid_cluster_reason reason;
  size_t other; /* LOST: the node that is lost; ENERGY: the node that has it instead (unload), or had it (load); or
                   NONE */
  /* Requests a second of the model that are wanted, and that those replicas carry that stay. LEAST, MOST: replicas.
   * CAP: the cap's watts, and what the nodes draw at most by the plan. ENERGY: joules of the load, and 0. */
  double wanted, before;
} braid_cluster_move;

/* Why a node does not take a model, or no more of it: the first of these that it stands at. */
#define BRAID_CLUSTER_BOUND_MAP(X)                                                                                     \
  X(LOST, "is lost", "are lost")                                                                                       \
  X(TIME, "has no known time for it", "have no known time for it")                                                     \
  X(FEATURES, "lacks features that it takes", "lack features that it takes")                                           \
  X(MEMORY, "has less memory than it takes", "have less memory than it takes")                                         \
  X(HELD, "holds it already", "hold it already")                                                                       \
  X(TENANT, "is another tenant's", "are another tenant's")                                                             \
  X(MOST, "would be more than it may have", "would be more than it may have")                                          \
  X(TAKEN, "has too little memory left", "have too little memory left")                                                \
  X(CAP, "has to sleep under the cap", "have to sleep under the cap")                                                  \
  X(BUSY, "is as busy as it may be", "are as busy as they may be")                                                     \
  X(ROOM, "has room for it only if others moved", "have room for it only if others moved")
typedef enum braid_cluster_bound {
#define ENTRY(id, one, many) BRAID_CLUSTER_BOUND_##id,
  BRAID_CLUSTER_BOUND_MAP(ENTRY)
#undef ENTRY
      BRAID_CLUSTER_BOUNDS
} braid_cluster_bound;

/* How many nodes stand at which. */
typedef struct braid_cluster_bounds {
  size_t replicas; /* that the model has */
  size_t nodes[BRAID_CLUSTER_BOUNDS];
} braid_cluster_bounds;

typedef struct braid_cluster_plan {
  braid_cluster_replica *replicas; /* by model and then node */
  size_t replica_count;
  braid_cluster_move *moves; /* one after the other, memory, privacy and cap hold all the way: unloads that loads need
                                come before them, the others after */
  size_t move_count;
  double *busy;                 /* of each node: the part of its instances' time that the plan uses, slow counted in */
  bool *awake;                  /* of each node: it holds a model */
  double *unmet;                /* of each model: requests a second that have no place */
  braid_cluster_bounds *bounds; /* of each model; all 0 where it lacks nothing */
  size_t lacking;               /* models with fewer replicas than their least, or with unmet requests */
  double watts;                 /* what all alive nodes draw on average by this plan */
  double peak_watts;            /* and at most: awake nodes busy, others asleep */
  double most_node_busy;        /* of the busiest node */
  const braid_allocator *allocator;
} braid_cluster_plan;

/* *plan is cleared first, and freed with braid_cluster_plan_deinit. Usually in O((nodes + models + replicas * kinds) *
 * log(nodes)); a replica for which no node with room is found among the first 64 of each kind costs a look at all
 * nodes. INVALID_ARGUMENT: a number is out of its range, the detail says which. NO_MEMORY. Load that finds no place is
 * no failure: `unmet` says it. */
BRAID_MUST_CHECK braid_status braid_cluster_place(const braid_cluster_problem *problem,
                                                  const braid_allocator *allocator, braid_cluster_plan *plan);
void braid_cluster_plan_deinit(braid_cluster_plan *plan);

/* The reason of a move in one sentence, with the names that the caller has for models and nodes, three of which are
 * used at once. */
typedef const char *braid_cluster_name(const void *context, bool is_node, size_t index);
void braid_cluster_move_text(const braid_cluster_move *move, braid_cluster_name *name, const void *context, char *text,
                             size_t bytes);

/* "2 nodes are lost, 1 node holds it already" */
void braid_cluster_bounds_text(const braid_cluster_bounds *bounds, char *text, size_t bytes);

#endif
