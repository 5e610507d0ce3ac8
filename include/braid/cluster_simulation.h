/* The cluster's simulator: the policies that place models on nodes, route requests and run them, in virtual time, on a
 * scenario (docs/cluster-simulator.md). Everything that it gives is modelled. */
#ifndef BRAID_CLUSTER_SIMULATION_H
#define BRAID_CLUSTER_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

typedef struct braid_cluster_simulation {
  const char *scenario; /* a YAML file */
  const char *trace;    /* a file of recorded requests, for tenants whose `arrivals` are `trace`; NULL: none */
  uint64_t seed;
  bool moves; /* keep what was moved, and why */
  const braid_allocator *allocator;
} braid_cluster_simulation;

/* Of a tenant's requests, or all. Each is one of in_time, late, refused and lost. */
typedef struct braid_cluster_requests {
  const char *name;
  uint64_t requests;
  uint64_t in_time; /* done by the deadline, or without one */
  uint64_t late;    /* done after it, or taken and not run in time */
  uint64_t refused; /* at once, or by all nodes that were asked */
  uint64_t lost;    /* with a node that was lost or had to sleep, and not in time elsewhere */
  uint64_t retried; /* sent to another node since one was lost or had to sleep */
  uint64_t done;    /* in_time, and what was done late; latencies are theirs */
  double mean_ms, p50_ms, p99_ms, p999_ms, most_ms; /* NaN: none was done */
} braid_cluster_requests;

/* Of the nodes of a kind. */
typedef struct braid_cluster_nodes {
  const char *kind;
  uint64_t count;
  double busy;   /* of the instances' time while their nodes were alive */
  double awake;  /* of the nodes' time while they were alive */
  double joules; /* modelled */
} braid_cluster_nodes;

typedef struct braid_cluster_move_record {
  double at_s;
  char *text; /* a sentence */
} braid_cluster_move_record;

typedef struct braid_cluster_simulated {
  braid_cluster_requests all;
  braid_cluster_requests *tenants;
  size_t tenant_count;
  braid_cluster_nodes *nodes;
  size_t node_kind_count;
  uint64_t node_count;
  double seconds; /* simulated */
  double joules, mean_watts, most_watts;
  uint64_t cap_violations; /* times that more than the cap was drawn */
  double over_cap_s;
  uint64_t plans, loads, unloads; /* decisions; and what they moved, without the first placement */
  double loaded_bytes;
  braid_cluster_move_record *moves; /* the first 100,000 */
  size_t move_count;
  braid_cluster_move_record *lacks; /* why models had too few places, whenever that changed; the first 1,000 */
  size_t lack_count;
  const braid_allocator *allocator;
} braid_cluster_simulated;

/* The same scenario, trace and seed give the same result, bit for bit. INVALID_FILE: the scenario or the trace, with
 * the line and what was allowed; INVALID_ARGUMENT: a tenant wants a trace, and there is none. Freed with
 * braid_cluster_simulated_destroy. */
BRAID_API BRAID_MUST_CHECK braid_status braid_cluster_simulate(const braid_cluster_simulation *options,
                                                               braid_cluster_simulated **out);
BRAID_API void braid_cluster_simulated_destroy(braid_cluster_simulated *result); /* NULL is allowed */

#endif
