/* One clock for each region, in the manner of Perseus (Chung et al., SOSP 2024) and Kareus: everything on the fast
 * devices, as gpu-only has it; what runs between two waits is one region, and all of it gets the lowest clock at which
 * the step takes no longer. */
#include "base/try.h"
#include "schedule/policies/hybrid.h"
#include "schedule/policies/improve.h"

enum { kTrials = 256 };

static braid_status region_clock_choose(const braid_choosing *choosing, braid_choices *choices) {
  braid_hybrid hybrid;
  braid_improving improving;
  bool good;
  BRAID_TRY(braid_hybrid_init(choosing, choices, &hybrid));
  BRAID_TRY(braid_improving_init(choosing, &hybrid.base, hybrid.base.seconds.value, kTrials, false, &improving, &good));
  if (good) BRAID_TRY(braid_improve_clocks(&improving, SIZE_MAX / 2));
  braid_improving_give(&improving, choices);
  return BRAID_OK;
}

const braid_policy braid_policy_region_clock = {
    .name = "region-clock",
    .summary = "gpu-only with the lowest clock for each region between two waits at which the step takes no longer",
    .no_loss = true,
    .choose = region_clock_choose,
};
