#include "schedule/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/memory.h"
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

/* --- ranks ---------------------------------------------------------------------------------------------------------
 */
static int by_rank(const void *left, const void *right, void *context) {
  const braid_problem *problem = context;
  int32_t i = *(const int32_t *)left, k = *(const int32_t *)right;
  const braid_offer *a = &problem->offers[i], *b = &problem->offers[k];
  if (a->device != b->device) return a->device < b->device ? -1 : 1;
  if (a->node_count != b->node_count) return a->node_count > b->node_count ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return i < k ? -1 : i > k;
}

/* A stable pass: `from`, sorted by keys below `range`, into `to`. `starts`: range + 1 zeros. */
static void pass_ranks(const int32_t *from, int32_t *to, size_t count, const uint32_t *keys, size_t range,
                       size_t *starts) {
  memset(starts, 0, (range + 1) * sizeof *starts);
  for (size_t i = 0; i < count; i++) starts[keys[i] + 1]++;
  for (size_t k = 1; k <= range; k++) starts[k] += starts[k - 1];
  for (size_t i = 0; i < count; i++) to[starts[keys[from[i]]]++] = from[i];
}

/* By their order within a device, then by how many nodes they have, then by device: as by_rank has it. */
static void count_ranks(const braid_problem *problem, size_t range, int32_t *ranks, int32_t *other, uint32_t *keys,
                        size_t *starts) {
  const braid_offer *offers = problem->offers;
  size_t count = problem->offer_count;
  for (size_t i = 0; i < count; i++) keys[i] = offers[i].rank;
  pass_ranks(ranks, other, count, keys, range, starts);
  for (size_t i = 0; i < count; i++) keys[i] = (uint32_t)(problem->node_count - offers[i].node_count);
  pass_ranks(other, ranks, count, keys, range, starts);
  for (size_t i = 0; i < count; i++) keys[i] = (uint32_t)offers[i].device;
  pass_ranks(ranks, other, count, keys, range, starts);
  memcpy(ranks, other, count * sizeof *ranks);
}

static braid_status sort_ranks(const braid_problem *problem, const braid_allocator *allocator, int32_t *ranks) {
  size_t count = problem->offer_count, range = problem->device_count + problem->node_count + 1;
  for (size_t i = 0; i < count; i++) {
    ranks[i] = (int32_t)i;
    if (problem->offers[i].rank >= range) range = (size_t)problem->offers[i].rank + 1;
  }
  if (range > 4 * count + 1024) { /* counting would take longer */
    qsort_r(ranks, count, sizeof *ranks, by_rank, (void *)problem);
    return BRAID_OK;
  }
  int32_t *other = braid_alloc(allocator, (count + 1) * sizeof *other);
  uint32_t *keys = braid_alloc(allocator, (count + 1) * sizeof *keys);
  size_t *starts = braid_alloc(allocator, (range + 1) * sizeof *starts);
  bool all = other && keys && starts;
  if (all) count_ranks(problem, range, ranks, other, keys, starts);
  braid_free(allocator, other);
  braid_free(allocator, keys);
  braid_free(allocator, starts);
  return all ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- solving -------------------------------------------------------------------------------------------------------
 */
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

static bool is_longer(const braid_choices *a, const braid_choices *b) {
  return a->seconds.value > b->seconds.value || a->joules.value > b->joules.value;
}

braid_status braid_choices_repeat(const braid_policy *policy, const braid_choosing *choosing, bool capped,
                                  braid_choices *out) {
  braid_choices again;
  if (policy == &braid_policy_dvfs) return BRAID_OK; /* dvfs repeats it by itself */
  BRAID_TRY(braid_choices_init(choosing, &again));
  size_t nodes = choosing->problem->node_count;
  memcpy(again.offer_of, out->offer_of, nodes * sizeof *again.offer_of);
  memcpy(again.reasons, out->reasons, nodes * sizeof *again.reasons);
  memcpy(again.order, out->order, out->task_count * sizeof *again.order);
  again.task_count = out->task_count;
  again.least_joules = out->least_joules;
  again.left_out = out->left_out;
  again.crossed = out->crossed;
  again.unweighed = out->unweighed;
  again.ordered = true;
  braid_status status = braid_simulate(choosing, &again, NULL, capped);
  if (status == BRAID_OK && (!out->steady || !is_longer(&again, out))) *out = again;
  return status == BRAID_UNSUPPORTED ? BRAID_OK : status;
}

static braid_status solve_once(const braid_policy *policy, const braid_choosing *choosing, bool capped,
                               braid_choices *out) {
  size_t refused;
  do {
    BRAID_TRY(braid_choices_init(choosing, out));
    BRAID_TRY(policy->choose(choosing, out));
    BRAID_TRY(braid_choices_check(choosing, out));
    if (out->ordered) return braid_choices_repeat(policy, choosing, capped, out);
    BRAID_TRY(refuse_cycles(choosing, out, &refused));
  } while (refused);
  return braid_simulate(choosing, out, NULL, capped);
}

/* --- solving within the spaces -------------------------------------------------------------------------------------
 */
/* How often a policy is asked again since its plan does not fit, and from when on all that can leave a space that is
 * too small does. */
enum { kAsked = 16, kAskedGently = 10 };

static bool is_refused(const braid_problem *problem, const braid_offer *offer, bool capped) {
  return !braid_offer_allowed(problem, offer) || (capped && !braid_offer_within_caps(problem, offer));
}

/* Nodes for which an offer is refused that the caller and the caps allow. */
static braid_status count_crowded_out(const braid_choosing *choosing, bool capped, braid_choices *out) {
  const braid_problem *problem = choosing->problem;
  out->crowded_out = 0;
  if (!choosing->crowded) return BRAID_OK;
  bool *nodes = braid_zalloc_array(choosing->allocator, problem->node_count + 1, sizeof *nodes);
  if (!nodes) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++) {
    const braid_offer *offer = &problem->offers[i];
    for (size_t k = 0; k < offer->node_count; k++)
      nodes[offer->nodes[k]] |= choosing->refused[i] && !offer->region && !is_refused(problem, offer, capped);
  }
  for (size_t n = 0; n < problem->node_count; n++) out->crowded_out += nodes[n];
  braid_free(choosing->allocator, nodes);
  return BRAID_OK;
}

static void refuse_disallowed(const braid_choosing *choosing, bool capped) {
  for (size_t i = 0; i < choosing->problem->offer_count; i++)
    choosing->refused[i] = is_refused(choosing->problem, &choosing->problem->offers[i], capped);
}

/* Asks a policy whose plan may not fit until it does, with fewer and fewer offers. */
static braid_status make_fit(const braid_policy *policy, braid_choosing *choosing, bool capped, braid_choices *out) {
  const braid_problem *problem = choosing->problem;
  bool fits;
  BRAID_TRY(braid_memory_fits(choosing, out, &fits));
  for (int asked = 0; !fits; asked++) {
    braid_choices before = *out;
    size_t refused = 0;
    if (asked < kAskedGently) BRAID_TRY(braid_memory_crowd_out(choosing, out, false, &refused));
    if (!refused && asked < kAsked) BRAID_TRY(braid_memory_crowd_out(choosing, out, true, &refused));
    choosing->crowded = true;
    braid_status status = refused ? solve_once(policy, choosing, capped, out) : BRAID_UNSUPPORTED;
    if (status == BRAID_UNSUPPORTED) return braid_memory_refuse(problem, &before, choosing->allocator);
    BRAID_TRY(status);
    BRAID_TRY(braid_memory_fits(choosing, out, &fits));
  }
  return count_crowded_out(choosing, capped, out);
}

/* Slower, or costlier: heft has promised nothing about energy. */
static bool is_worse(const braid_policy *policy, const braid_choices *choices, const braid_choices *baseline) {
  if (choices->seconds.source == BRAID_UNKNOWN || baseline->seconds.source == BRAID_UNKNOWN) return false;
  if (choices->seconds.value > baseline->seconds.value * (1 + 1e-12)) return true;
  return policy != &braid_policy_heft && choices->joules.source != BRAID_UNKNOWN &&
         baseline->joules.source != BRAID_UNKNOWN && choices->joules.value > baseline->joules.value * (1 + 1e-12);
}

/* The baseline's plan that fits; what was refused for it stays so. */
static braid_status solve_baseline(braid_choosing *choosing, bool capped, braid_choices *out) {
  bool hybrid = choosing->problem->cap_watts.source != BRAID_UNKNOWN;
  const braid_policy *policy = hybrid ? &braid_policy_hybrid_cap : &braid_policy_gpu_only;
  refuse_disallowed(choosing, capped);
  BRAID_TRY(solve_once(policy, choosing, capped, out));
  BRAID_TRY(make_fit(policy, choosing, capped, out));
  out->baseline = true;
  return BRAID_OK;
}

/* Of policies that are no worse than the baseline: by the offers that they are given. What is refused so that plans fit
 * differs from one policy to the other, so a plan that does not fit is made again from what the baseline was left with,
 * and the result is compared with that. */
static braid_status solve_against(const braid_policy *policy, braid_choosing *choosing, braid_choices *out) {
  braid_choices baseline;
  bool fits, capped = policy->capped;
  BRAID_TRY(braid_memory_fits(choosing, out, &fits));
  braid_status status = solve_baseline(choosing, capped, &baseline);
  if (status == BRAID_UNSUPPORTED) { /* there is none */
    refuse_disallowed(choosing, capped);
    choosing->crowded = false;
    return make_fit(policy, choosing, capped, out);
  }
  BRAID_TRY(status);
  if (!fits) {
    status = solve_once(policy, choosing, capped, out);
    if (status == BRAID_OK) status = make_fit(policy, choosing, capped, out);
  }
  if (status != BRAID_OK && status != BRAID_UNSUPPORTED) return status;
  if (status == BRAID_UNSUPPORTED || is_worse(policy, out, &baseline)) *out = baseline;
  return BRAID_OK;
}

static braid_status solve_to_fit(const braid_policy *policy, braid_choosing *choosing, braid_choices *out) {
  const braid_problem *problem = choosing->problem;
  refuse_disallowed(choosing, policy->capped);
  BRAID_TRY(solve_once(policy, choosing, policy->capped, out));
  if (!problem->capacities) return BRAID_OK;
  if (policy->no_loss && (policy->capped || problem->cap_watts.source == BRAID_UNKNOWN))
    return solve_against(policy, choosing, out);
  return make_fit(policy, choosing, policy->capped, out);
}

braid_status braid_problem_solve(const braid_policy *policy, const braid_problem *problem,
                                 const braid_allocator *allocator, braid_arena *arena, braid_choices *out) {
  braid_choosing choosing = {.problem = problem, .allocator = allocator, .arena = arena};
  choosing.refused = braid_zalloc_array(allocator, problem->offer_count + 1, sizeof *choosing.refused);
  choosing.ranks = braid_zalloc_array(allocator, problem->offer_count + 1, sizeof *choosing.ranks);
  braid_status status = choosing.refused && choosing.ranks ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = sort_ranks(problem, allocator, choosing.ranks);
  if (status == BRAID_OK) status = solve_to_fit(policy, &choosing, out);
  braid_free(allocator, choosing.refused);
  braid_free(allocator, choosing.ranks);
  return status;
}
