/* What a schedule takes at least, without its simulation: as if buses were always free, nothing waited for a cap, and
 * nothing slowed anything else down. A small part of a simulation's time, so that changes which cannot be in time are
 * refused by it. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policies/improve.h"

static int device_at(const braid_offer *offer, size_t index) {
  return index < offer->also_count ? offer->also[index] : offer->device;
}

/* When what a task reads of others could be in its space. */
static double least_arrival(const braid_problem *problem, const braid_choices *choices, const braid_offer *offer,
                            const double *ends) {
  int32_t task = offer->nodes[offer->node_count - 1];
  int space = problem->devices[offer->device].space;
  double latest = 0;
  for (size_t i = 0; i < offer->node_count; i++) {
    const braid_problem_node *node = &problem->nodes[offer->nodes[i]];
    for (size_t r = 0; r < node->read_count; r++) {
      int32_t value = problem->reads[node->first_read + r], producer = problem->values[value].producer;
      int32_t index = producer < 0 ? -1 : choices->offer_of[producer];
      const braid_offer *before = index < 0 ? NULL : &problem->offers[index];
      if (before && before->nodes[before->node_count - 1] == task) continue;
      double at = before ? ends[producer] : 0;
      int from = before ? problem->devices[before->device].space : 0;
      if (from != space) at += braid_problem_moving(problem, value, from, space);
      if (at > latest) latest = at;
    }
  }
  return latest;
}

/* What changing the clocks takes, and when the devices are free, in the order of the choices. */
static double least_start(const braid_problem *problem, const braid_offer *offer, double from, double *frees,
                          int *clocks) {
  double change = 0;
  for (size_t i = 0; i <= offer->also_count; i++) {
    int device = device_at(offer, i);
    if (frees[device] > from) from = frees[device];
    if (clocks[device] != offer->clock) change = fmax(change, problem->devices[device].clock_seconds);
    clocks[device] = offer->clock;
  }
  return from + change;
}

static double least_results(const braid_problem *problem, const braid_choices *choices, const double *ends) {
  double latest = 0;
  for (size_t v = 0; v < problem->value_count; v++) {
    int32_t producer = problem->values[v].producer;
    if (!problem->values[v].wanted || producer < 0 || choices->offer_of[producer] < 0) continue;
    int space = problem->devices[problem->offers[choices->offer_of[producer]].device].space;
    latest = fmax(latest, ends[producer] + braid_problem_moving(problem, (int32_t)v, space, 0));
  }
  return latest;
}

braid_status braid_least_seconds_init(const braid_choosing *choosing, braid_least_seconds *out) {
  out->ends = braid_arena_alloc(choosing->arena, (choosing->problem->node_count + 1) * sizeof *out->ends);
  out->frees = braid_arena_alloc(choosing->arena, (choosing->problem->device_count + 1) * sizeof *out->frees);
  out->clocks = braid_arena_alloc(choosing->arena, (choosing->problem->device_count + 1) * sizeof *out->clocks);
  return out->ends && out->frees && out->clocks ? BRAID_OK : BRAID_NO_MEMORY;
}

bool braid_takes_longer(const braid_problem *problem, const braid_choices *choices, bool ordered, double seconds,
                        const braid_least_seconds *memory) {
  memset(memory->frees, 0, problem->device_count * sizeof *memory->frees);
  memset(memory->clocks, 0, problem->device_count * sizeof *memory->clocks);
  for (size_t i = 0; i < choices->task_count && ordered; i++) { /* a device begins at the clock at which it ends */
    const braid_offer *offer = &problem->offers[choices->offer_of[choices->order[i]]];
    for (size_t k = 0; k <= offer->also_count; k++) memory->clocks[device_at(offer, k)] = offer->clock;
  }
  for (size_t i = 0; i < choices->task_count; i++) {
    const braid_offer *offer = &problem->offers[choices->offer_of[choices->order[i]]];
    double start = least_arrival(problem, choices, offer, memory->ends);
    if (ordered) start = least_start(problem, offer, start, memory->frees, memory->clocks);
    double end = start + offer->seconds.value;
    if (end > seconds) return true;
    for (size_t k = 0; k < offer->node_count; k++) memory->ends[offer->nodes[k]] = end;
    for (size_t k = 0; k <= offer->also_count; k++) {
      double *busy = &memory->frees[device_at(offer, k)];
      *busy = ordered ? end : *busy + offer->seconds.value; /* in whatever order, one after the other */
      if (*busy > seconds) return true;
    }
  }
  return least_results(problem, choices, memory->ends) > seconds;
}
