/* Manual placement: nodes that the caller has fixed run on that device, including what is fused with them, but for
 * nodes of regions that an earlier device can still run; the others as in first.c. */
#include "base/try.h"
#include "schedule/policy.h"

static bool has_fixed(const braid_problem *problem, const braid_offer *offer) {
  for (size_t i = 0; i < offer->node_count; i++)
    if (problem->nodes[offer->nodes[i]].fixed >= 0) return true;
  return false;
}

/* Per node, the first device that offers a region with it and without any fixed node. */
static void find_regions(const braid_choosing *choosing, int32_t *region) {
  const braid_problem *problem = choosing->problem;
  for (size_t n = 0; n < problem->node_count; n++) region[n] = INT32_MAX;
  for (size_t i = 0; i < problem->offer_count; i++) {
    const braid_offer *offer = &problem->offers[i];
    if (!offer->region || choosing->refused[i] || has_fixed(problem, offer)) continue;
    for (size_t k = 0; k < offer->node_count; k++)
      if (offer->device < region[offer->nodes[k]]) region[offer->nodes[k]] = offer->device;
  }
}

static bool tears_region(const braid_problem *problem, const braid_offer *offer, const int32_t *region) {
  for (size_t i = 0; i < offer->node_count; i++)
    if (problem->nodes[offer->nodes[i]].fixed < 0 && region[offer->nodes[i]] < offer->device) return true;
  return false;
}

braid_status braid_choose_fixed(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  size_t fixed = 0;
  for (size_t n = 0; n < problem->node_count; n++) fixed += problem->nodes[n].fixed >= 0;
  if (!fixed) return BRAID_OK;
  int32_t *region = braid_alloc(choosing->allocator, (problem->node_count + 1) * sizeof *region);
  if (!region) return BRAID_NO_MEMORY;
  find_regions(choosing, region);
  for (int pass = 0; pass < 2; pass++) /* what tears a region is taken only where nothing else has the node */
    for (size_t i = 0; i < problem->offer_count; i++) {
      int32_t index = choosing->ranks[i];
      const braid_offer *offer = &problem->offers[index];
      if (!has_fixed(problem, offer) || !braid_choices_free(choosing, choices, index)) continue;
      if (pass || !tears_region(problem, offer, region)) braid_choices_take(choosing, choices, index, "by hand");
    }
  braid_free(choosing->allocator, region);
  return BRAID_OK;
}

static braid_status manual_choose(const braid_choosing *choosing, braid_choices *choices) {
  BRAID_TRY(braid_choose_fixed(choosing, choices));
  return braid_choose_first(choosing, choices);
}

const braid_policy braid_policy_manual = {
    .name = "manual",
    .summary = "fixed nodes on their device, the others on the first device that can run them",
    .choose = manual_choose,
};
