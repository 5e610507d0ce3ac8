/* Regions: what backends claim of a graph (braid_backend.claim_regions), checked, and what becomes of the claims that
 * are chosen: one node each. */
#ifndef BRAID_RUNTIME_REGIONS_H
#define BRAID_RUNTIME_REGIONS_H

#include "runtime/plan/plan.h"
#include "schedule/problem.h"

/* A claim that holds. */
typedef struct braid_claim {
  int device;
  const braid_kernel *kernel;
  int32_t *nodes; /* ascending; without those that only rename memory */
  size_t node_count;
  int32_t outer;     /* the smallest claim of the device that it is nested in; -1: none */
  uint32_t rank;     /* among the device's claims for the same nodes */
  uint64_t time_key; /* of what it takes (times.h) */
  double seconds;    /* as the backend models it; < 0: unknown */
  uint32_t shared;   /* while sets are compared: nodes that both have; else 0 */
} braid_claim;

typedef struct braid_claim_list {
  braid_claim *items;
  size_t count, capacity;
  int32_t *of_node; /* per device and node: one more than the number of its smallest claim; 0: none. NULL: nobody claims
                     */
  const char **refused; /* per device and node: why it is in no region, as the device says; NULL: it does not say */
} braid_claim_list;

/* Is the set nested in or disjoint from each claim of a device, whose part of of_node `owners` is? The node of a claim
 * that has other nodes too, as the set has; -1: it is. */
int32_t braid_claims_crossed(const braid_claim_list *claims, const int32_t *owners, const int32_t *nodes, size_t count);

/* A chosen region of a plan. */
typedef struct braid_region {
  braid_subgraph graph;
  uint64_t time_key;  /* the claim's */
  braid_attrs *attrs; /* per node of it: taken over from the graph's */
  const braid_allocator *allocator;
  struct braid_region *next;
} braid_region;

/* Has the devices claim. The items come from the plan's allocator, the rest from `arena`. INVALID_ARGUMENT says which
 * claim of which device is broken. */
BRAID_MUST_CHECK braid_status braid_plan_claim(braid_plan *plan, const braid_problem *problem, braid_arena *arena,
                                               braid_claim_list *out);
/* Makes the last node of each claim the region's node; the others stay, dead, until the next compaction. Claims have no
 * node in common. */
BRAID_MUST_CHECK braid_status braid_plan_make_regions(braid_plan *plan, const braid_claim *const *claims, size_t count,
                                                      const braid_region **out);
void braid_plan_free_regions(braid_plan *plan);

#endif
