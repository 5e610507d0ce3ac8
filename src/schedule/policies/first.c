/* First capable device: devices in the caller's order, each with its largest offers first. */
#include "base/try.h"
#include "schedule/policy.h"

/* Takes the offers that cover nodes which no device runs as a single node; all other nodes can always be covered later.
 */
static void take_bound(const braid_choosing *choosing, braid_choices *choices, const bool *alone) {
  const braid_problem *problem = choosing->problem;
  for (size_t i = 0; i < problem->offer_count; i++) {
    int32_t index = choosing->ranks[i];
    const braid_offer *offer = &problem->offers[index];
    bool bound = false;
    for (size_t k = 0; k < offer->node_count; k++) bound |= !alone[offer->nodes[k]];
    if (bound && braid_choices_free(choosing, choices, index))
      braid_choices_take(choosing, choices, index, "no device runs each of its nodes alone");
  }
}

braid_status braid_choose_first(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  bool *alone = braid_zalloc_array(choosing->allocator, problem->node_count + 1, sizeof *alone);
  if (!alone) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++)
    if (!choosing->refused[i] && problem->offers[i].node_count == 1) alone[problem->offers[i].nodes[0]] = true;
  size_t left = 0, bound = 0;
  for (size_t n = 0; n < problem->node_count; n++) bound += !problem->nodes[n].idle && !alone[n];
  if (bound) take_bound(choosing, choices, alone);
  for (size_t n = 0; n < problem->node_count; n++) left += !problem->nodes[n].idle && choices->offer_of[n] < 0;
  for (size_t i = 0; i < problem->offer_count && left; i++) {
    if (!braid_choices_free(choosing, choices, choosing->ranks[i])) continue;
    braid_choices_take(choosing, choices, choosing->ranks[i], "first capable device");
    left -= problem->offers[choosing->ranks[i]].node_count;
  }
  braid_free(choosing->allocator, alone);
  return BRAID_OK;
}

const braid_policy braid_policy_first = {
    .name = "first",
    .summary = "each node on the first device that can run it, in the largest set that this offers",
    .choose = braid_choose_first,
};
