/* Manual placement: nodes that the caller has fixed run on that device, including what is fused with them; the others
 * as in first.c. */
#include "schedule/policy.h"

static bool has_fixed(const braid_problem *problem, const braid_offer *offer) {
  for (size_t i = 0; i < offer->node_count; i++)
    if (problem->nodes[offer->nodes[i]].fixed >= 0) return true;
  return false;
}

void braid_choose_fixed(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  size_t fixed = 0;
  for (size_t n = 0; n < problem->node_count; n++) fixed += problem->nodes[n].fixed >= 0;
  for (size_t i = 0; i < problem->offer_count && fixed; i++) {
    int32_t index = choosing->ranks[i];
    if (has_fixed(problem, &problem->offers[index]) && braid_choices_free(choosing, choices, index))
      braid_choices_take(choosing, choices, index, "by hand");
  }
}

static braid_status manual_choose(const braid_choosing *choosing, braid_choices *choices) {
  braid_choose_fixed(choosing, choices);
  return braid_choose_first(choosing, choices);
}

const braid_policy braid_policy_manual = {
    .name = "manual",
    .summary = "fixed nodes on their device, the others on the first device that can run them",
    .choose = manual_choose,
};
