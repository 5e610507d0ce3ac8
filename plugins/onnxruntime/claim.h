/* Which nodes of a graph Braid takes, and in which groups. */
#ifndef BRAID_ORT_CLAIM_H
#define BRAID_ORT_CLAIM_H

#include "braid/machine.h"
#include "view.h"

/* Why nodes with an op are left to the framework. */
typedef struct braid_ort_reason {
  const char *op, *domain, *text;
  size_t count; /* of nodes; the first one's reason stands for all */
} braid_ort_reason;

typedef struct braid_ort_claim {
  int *group; /* of each node; -1: left to the framework */
  size_t group_count;
  braid_ort_reason *reasons;
  size_t reason_count;
} braid_ort_claim;

/* Asks the machine about every node that no provider has yet, and divides those that it can run into as few convex
 * groups as there are. The claim is of the view's arena. Groups with fewer than `least` nodes are given up. */
BRAID_MUST_CHECK braid_status braid_ort_claim_nodes(braid_ort_view *view, braid_machine *machine,
                                                    const braid_plan_options *options, size_t least,
                                                    braid_ort_claim *claim);

#endif
