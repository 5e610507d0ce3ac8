/* Placing a graph: what the stages of place.c share. A problem (schedule/problem.h) is made of the graph and what the
 * devices offer, a policy solves it, and the graph is rewritten as it was chosen: fused nodes and regions become one
 * node each. */
#ifndef BRAID_RUNTIME_PLACING_H
#define BRAID_RUNTIME_PLACING_H

#include "graph/fusion.h"
#include "runtime/plan/patterns.h"
#include "runtime/plan/regions.h"
#include "schedule/policy.h"

/* What an offer of the problem stands for. */
typedef struct braid_candidate {
  const braid_kernel *kernel;
  const braid_fusion *fusion; /* NULL: the node alone */
  const braid_claim *claim;   /* NULL: no region */
} braid_candidate;

/* A kernel that does not take a node, or a fused one. */
typedef struct braid_refusal {
  size_t subject;
  int device;
  const char *kernel, *why; /* kernel "": the device has none for the op */
} braid_refusal;

/* Devices are asked about subjects: the nodes, and behind them the fused nodes. */
typedef struct braid_placing {
  braid_plan *plan;
  const braid_graph *given;
  const braid_plan_options *options;
  braid_patterns patterns;
  braid_arena *arena; /* of all that ends with the placing */
  braid_fusion_list fusions;
  braid_claim_list claims;

  braid_problem problem; /* over the arrays that follow */
  braid_problem_node *nodes;
  int32_t *ids; /* of the nodes: an offer for one node points here */
  braid_offer *offers;
  braid_candidate *candidates; /* per offer */
  size_t offer_capacity, candidate_capacity;
  int32_t *first_offer; /* per node and device: of the node alone, the device's best; -1: none */
  double *macs;         /* per node */
  /* Per subject and device: the kernels passed over before the first that takes it, with their reasons; NULL: none */
  const char **passed;
  braid_refusal *refusals; /* for braid_plan_options.explain */
  size_t refusal_count, refusal_capacity;

  braid_choices choices;
} braid_placing;

/* problem.c: nodes, values, devices and links. */
BRAID_MUST_CHECK braid_status braid_placing_describe(braid_placing *placing);
/* offers.c: asks the devices. UNSUPPORTED names a node that none can run. */
BRAID_MUST_CHECK braid_status braid_placing_ask(braid_placing *placing);
/* Which kernels of the first `devices` devices were passed over for a subject, and why; "": none. */
void braid_placing_passed(const braid_placing *placing, size_t subject, size_t devices, char *out, size_t bytes);
/* explain.c: keeps what was offered for the tasks chosen, of which `places` has those of the nodes that will be left.
 */
BRAID_MUST_CHECK braid_status braid_placing_explain(const braid_placing *placing, braid_placement *places);

/* What work takes on a device, modelled: from multiply-accumulates, bytes and the device's compute units. Only the
 * proportions matter, and among parts of one device those are right. */
double braid_modelled_seconds(uint32_t units, double macs, double bytes);

#endif
