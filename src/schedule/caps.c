/* Whether an offer could start under the caps of the machine and of its devices, and why not. */
#include <stdio.h>

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

/* --- why not -------------------------------------------------------------------------------------------------------
 */
static bool has_node(const braid_offer *offer, int32_t node) {
  for (size_t i = 0; i < offer->node_count; i++)
    if (offer->nodes[i] == node) return true;
  return false;
}

/* Of a node's offers that are beyond a cap, the one that needs least: known peaks come first. NULL: none is. */
static const braid_offer *least_refused(const braid_choosing *choosing, int32_t node) {
  const braid_problem *problem = choosing->problem;
  const braid_offer *least = NULL;
  double least_watts = 0;
  for (size_t i = 0; i < problem->offer_count; i++) {
    const braid_offer *offer = &problem->offers[i];
    if (!choosing->refused[i] || !has_node(offer, node) || !braid_offer_allowed(problem, offer)) continue;
    if (braid_offer_within_caps(problem, offer)) continue;
    double watts = offer->watts.value - braid_offer_idle_watts(problem, offer);
    bool known = offer->watts.source != BRAID_UNKNOWN, was = least && least->watts.source != BRAID_UNKNOWN;
    if (least && (was > known || (was == known && watts >= least_watts))) continue;
    least = offer;
    least_watts = watts;
  }
  return least;
}

/* What the devices draw doing nothing; *unknown: the first of which that is unknown, else NULL. */
static double idle_watts_of(const braid_problem *problem, const braid_problem_device **unknown) {
  double sum = 0;
  *unknown = NULL;
  for (size_t d = 0; d < problem->device_count; d++) {
    const braid_problem_device *device = &problem->devices[d];
    if (device->idle_watts.source == BRAID_UNKNOWN && !*unknown) *unknown = device;
    sum += device->idle_watts.value;
  }
  return sum;
}

/* The first of an offer's devices whose cap its share exceeds; NULL: none. */
static const braid_problem_device *beyond_device(const braid_problem *problem, const braid_offer *offer) {
  for (size_t i = 0; i <= offer->also_count; i++) {
    const braid_problem_device *at = &problem->devices[i < offer->also_count ? offer->also[i] : offer->device];
    if (!is_within(offer->watts.value / (double)(offer->also_count + 1), &at->cap_watts)) return at;
  }
  return NULL;
}

void braid_caps_explain(const braid_choosing *choosing, int32_t node, char *text, size_t bytes) {
  const braid_problem *problem = choosing->problem;
  const braid_offer *offer = least_refused(choosing, node);
  const braid_problem_device *unknown, *beyond;
  double cap = problem->cap_watts.value, idle = idle_watts_of(problem, &unknown);
  bool capped = problem->cap_watts.source != BRAID_UNKNOWN;
  text[0] = '\0';
  if (!offer) return;
  const char *name = problem->devices[offer->device].name;
  if (capped && unknown)
    snprintf(text, bytes, " under the power cap of %g W: the idle power of %.100s is unknown", cap, unknown->name);
  else if (capped && !is_within(idle, &problem->cap_watts))
    snprintf(text, bytes, " under the power cap of %g W: the devices draw %g W when they do nothing", cap, idle);
  else if (offer->watts.source == BRAID_UNKNOWN)
    snprintf(text, bytes, " under the power cap: its peak on %.100s is unknown", name);
  else if ((beyond = beyond_device(problem, offer)))
    snprintf(text, bytes, " under the power cap of %.100s, %g W: its peak there is %g W", beyond->name,
             beyond->cap_watts.value, offer->watts.value / (double)(offer->also_count + 1));
  else if (problem->device_count > 1 + offer->also_count)
    snprintf(text, bytes, " under the power cap of %g W: its peak on %.100s is %g W, and the others' idle power %g W",
             cap, name, offer->watts.value, idle - braid_offer_idle_watts(problem, offer));
  else
    snprintf(text, bytes, " under the power cap of %g W: its peak on %.100s is %g W", cap, name, offer->watts.value);
}
