#include "schedule/power.h"

#include <math.h>
#include <stdlib.h>

#include "base/try.h"

typedef struct change {
  double at;
  bool starts;
  int32_t offer;
} change;

/* At the same time, what ends comes first. */
static int by_time(const void *left, const void *right) {
  const change *a = left, *b = right;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  if (a->starts != b->starts) return a->starts ? 1 : -1;
  return (a->offer > b->offer) - (a->offer < b->offer);
}

static void weaken(braid_number *number, braid_number_source source) {
  if (source < number->source) number->source = source;
}

static size_t list_changes(const braid_problem *problem, const braid_choices *choices, change *changes,
                           braid_power *out) {
  size_t count = 0;
  for (size_t i = 0; i < choices->task_count; i++) {
    int32_t task = choices->order[i];
    const braid_offer *offer = &problem->offers[choices->offer_of[task]];
    weaken(&out->peak_watts, offer->watts.source);
    weaken(&out->average_watts, offer->joules.source);
    if (choices->end[task] <= choices->start[task]) continue;
    changes[count++] = (change){choices->start[task], true, choices->offer_of[task]};
    changes[count++] = (change){choices->end[task], false, choices->offer_of[task]};
  }
  qsort(changes, count, sizeof *changes, by_time);
  return count;
}

static bool exceeds(double watts, const braid_number *cap) {
  return cap->source != BRAID_UNKNOWN && watts > cap->value * (1 + 1e-9);
}

static bool has_capped_device(const braid_problem *problem, const braid_offer *offer) {
  bool capped = problem->devices[offer->device].cap_watts.source != BRAID_UNKNOWN;
  for (size_t k = 0; k < offer->also_count; k++)
    capped |= problem->devices[offer->also[k]].cap_watts.source != BRAID_UNKNOWN;
  return capped;
}

static void walk(const braid_problem *problem, const change *changes, size_t count, double end, braid_power *out) {
  braid_power_step now = out->steps[0];
  size_t beyond = 0; /* tasks that run above the cap of a device */
  for (size_t i = 0; i < count; i++) {
    const braid_offer *offer = &problem->offers[changes[i].offer];
    double idle = braid_offer_idle_watts(problem, offer), sign = changes[i].starts ? 1 : -1;
    bool known = offer->watts.source != BRAID_UNKNOWN, above = known && !braid_offer_within_device_caps(problem, offer);
    if (changes[i].at > now.from) {
      if (beyond || exceeds(now.peak_watts, &problem->cap_watts)) out->seconds_above += changes[i].at - now.from;
      now.from = changes[i].at;
      out->count++;
    }
    now.peak_watts += sign * (offer->watts.value - idle);
    if (offer->joules.source == BRAID_UNKNOWN) now.watts = NAN; /* and so it stays */
    if (offer->seconds.value > 0) now.watts += sign * (offer->joules.value / offer->seconds.value - idle);
    out->steps[out->count - 1] = now;
    if (now.peak_watts > out->peak_watts.value) out->peak_watts.value = now.peak_watts;
    if (above) beyond += changes[i].starts ? 1 : (size_t)-1;
    out->violations_unknown |= !known && has_capped_device(problem, offer);
    if (changes[i].starts && (exceeds(now.peak_watts, &problem->cap_watts) || above)) out->violations++;
  }
  out->violations_unknown |= problem->cap_watts.source != BRAID_UNKNOWN && out->peak_watts.source == BRAID_UNKNOWN;
  if (end > now.from && exceeds(now.peak_watts, &problem->cap_watts)) out->seconds_above += end - now.from;
}

/* A sum with something unknown in it is unknown: `idle`: that of all devices is known. */
static void forget_unknown(braid_power *out, bool idle) {
  for (size_t i = 0; i < out->count; i++) {
    if (out->peak_watts.source == BRAID_UNKNOWN) out->steps[i].peak_watts = NAN;
    if (!idle) out->steps[i].watts = NAN;
  }
}

braid_status braid_power_of(const braid_problem *problem, const braid_choices *choices,
                            const braid_allocator *allocator, braid_arena *arena, braid_power *out) {
  *out = (braid_power){.peak_watts.source = BRAID_MEASURED, .average_watts.source = BRAID_MEASURED, .count = 1};
  out->steps = braid_arena_alloc(arena, (2 * choices->task_count + 2) * sizeof *out->steps);
  change *changes = braid_zalloc_array(allocator, 2 * choices->task_count + 1, sizeof *changes);
  if (!out->steps || !changes) {
    braid_free(allocator, changes);
    return BRAID_NO_MEMORY;
  }
  for (size_t d = 0; d < problem->device_count; d++) {
    weaken(&out->peak_watts, problem->devices[d].idle_watts.source);
    weaken(&out->average_watts, problem->devices[d].idle_watts.source);
    out->steps[0].peak_watts += problem->devices[d].idle_watts.value;
  }
  bool idle = out->peak_watts.source != BRAID_UNKNOWN;
  out->steps[0].watts = out->peak_watts.value = out->steps[0].peak_watts;
  size_t count = list_changes(problem, choices, changes, out);
  walk(problem, changes, count, choices->seconds.value, out);
  forget_unknown(out, idle);
  braid_free(allocator, changes);
  weaken(&out->average_watts, choices->joules.source);
  weaken(&out->average_watts, choices->seconds.source);
  if (choices->seconds.value > 0) out->average_watts.value = choices->joules.value / choices->seconds.value;
  if (out->average_watts.source == BRAID_UNKNOWN) out->average_watts.value = 0;
  if (out->peak_watts.source == BRAID_UNKNOWN) out->peak_watts.value = 0;
  return BRAID_OK;
}
