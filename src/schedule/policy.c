#include "schedule/policy.h"

#include <stdlib.h>

#include "base/try.h"
#include "schedule/simulate.h"

static const braid_policy *const kPolicies[] = {
    &braid_policy_first,        &braid_policy_manual,        &braid_policy_heft,       &braid_policy_gpu_only,
    &braid_policy_cpu_only,     &braid_policy_hybrid_energy, &braid_policy_hybrid_cap, &braid_policy_dvfs,
    &braid_policy_region_clock, &braid_policy_slack_energy,  &braid_policy_optimal,
};

size_t braid_policy_count(void) {
  return sizeof kPolicies / sizeof *kPolicies;
}

const braid_policy *braid_policy_at(size_t index) {
  return kPolicies[index];
}

static int by_rank(const void *left, const void *right, void *context) {
  const braid_problem *problem = context;
  int32_t i = *(const int32_t *)left, k = *(const int32_t *)right;
  const braid_offer *a = &problem->offers[i], *b = &problem->offers[k];
  if (a->device != b->device) return a->device < b->device ? -1 : 1;
  if (a->node_count != b->node_count) return a->node_count > b->node_count ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return i < k ? -1 : i > k;
}

/* Breaks cycles of regions that wait for each other: refuses the last region of each cycle, whose nodes become single
 * tasks until the problem is solved again. *refused: their number. */
static braid_status refuse_cycles(const braid_choosing *choosing, braid_choices *choices, size_t *refused) {
  int32_t cycle;
  for (*refused = 0;; ++*refused) {
    BRAID_TRY(braid_choices_sort(choosing, choices, &cycle));
    if (cycle < 0) return BRAID_OK;
    const braid_offer *offer = &choosing->problem->offers[cycle];
    choosing->refused[cycle] = true;
    for (size_t i = 0; i < offer->node_count; i++) choices->offer_of[offer->nodes[i]] = -1;
  }
}

static braid_status solve(const braid_policy *policy, const braid_choosing *choosing, braid_choices *out) {
  size_t refused;
  do {
    BRAID_TRY(braid_choices_init(choosing, out));
    BRAID_TRY(policy->choose(choosing, out));
    BRAID_TRY(braid_choices_check(choosing, out));
    if (out->ordered) return BRAID_OK;
    BRAID_TRY(refuse_cycles(choosing, out, &refused));
  } while (refused);
  return braid_simulate(choosing, out, NULL, policy->capped);
}

braid_status braid_problem_solve(const braid_policy *policy, const braid_problem *problem,
                                 const braid_allocator *allocator, braid_arena *arena, braid_choices *out) {
  braid_choosing choosing = {.problem = problem, .allocator = allocator, .arena = arena};
  choosing.refused = braid_zalloc_array(allocator, problem->offer_count + 1, sizeof *choosing.refused);
  choosing.ranks = braid_zalloc_array(allocator, problem->offer_count + 1, sizeof *choosing.ranks);
  braid_status status = choosing.refused && choosing.ranks ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    for (size_t i = 0; i < problem->offer_count; i++) {
      choosing.refused[i] = !braid_offer_allowed(problem, &problem->offers[i]) ||
                            (policy->capped && !braid_offer_within_caps(problem, &problem->offers[i]));
      choosing.ranks[i] = (int32_t)i;
    }
    qsort_r(choosing.ranks, problem->offer_count, sizeof *choosing.ranks, by_rank, (void *)problem);
    status = solve(policy, &choosing, out);
  }
  braid_free(allocator, choosing.refused);
  braid_free(allocator, choosing.ranks);
  return status;
}
