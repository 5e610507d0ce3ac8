/* Whether an offer could start under the caps of the machine and of its devices. */
#include "schedule/simulate.h"

static bool is_within(double watts, const braid_number *cap) {
  return cap->source == BRAID_UNKNOWN || watts <= cap->value * (1 + 1e-12);
}

/* Of devices: each has its share of what those that run the offer draw. */
bool braid_offer_within_device_caps(const braid_problem *problem, const braid_offer *offer) {
  double share = offer->watts.value / (double)(offer->also_count + 1);
  for (size_t i = 0; i <= offer->also_count; i++) {
    const braid_number *cap = &problem->devices[i < offer->also_count ? offer->also[i] : offer->device].cap_watts;
    if (cap->source != BRAID_UNKNOWN && (offer->watts.source == BRAID_UNKNOWN || !is_within(share, cap))) return false;
  }
  return true;
}

bool braid_offer_within_caps(const braid_problem *problem, const braid_offer *offer) {
  double others = 0;
  if (!braid_offer_within_device_caps(problem, offer)) return false;
  if (problem->cap_watts.source == BRAID_UNKNOWN) return true;
  if (offer->watts.source == BRAID_UNKNOWN) return false;
  for (size_t d = 0; d < problem->device_count; d++) {
    const braid_number *idle = &problem->devices[d].idle_watts;
    if (idle->source == BRAID_UNKNOWN) return false;
    others += idle->value;
  }
  return is_within(others, &problem->cap_watts) &&
         is_within(others - braid_offer_idle_watts(problem, offer) + offer->watts.value, &problem->cap_watts);
}

bool braid_simulation_fits(const braid_simulation *simulation, const braid_offer *offer) {
  const braid_problem *problem = simulation->choosing->problem;
  return braid_offer_within_device_caps(problem, offer) &&
         is_within(simulation->watts - braid_offer_idle_watts(problem, offer) + offer->watts.value,
                   &problem->cap_watts);
}
