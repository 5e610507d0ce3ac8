/* A search over devices and clocks of all tasks at once, in steps that change one task, a stretch of the schedule, what
 * hands values to each other, or the clock of a stretch of a device. A step is kept if it is no worse than what it
 * started from by more than a threshold, which falls to 0 (threshold accepting: Dueck and Scheuer, Journal of
 * Computational Physics 90, 1990), so that what helps only together is found. Steps are judged by estimates
 * (estimate.h); what costs less than all before is simulated, and kept only if the simulator agrees.
 *
 * The steps are drawn from a generator that begins the same for every problem, and counted, not timed: the same
 * problem has the same result. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policies/estimate.h"

/* Tasks that a cluster may have; rounds, each of so much work for a pair of tasks and at most; rounds in a row that
 * save less than a part in kLittle of the energy and end the search. */
enum { kCluster = 32, kRounds = 24, kPairWork = 60, kMostWork = 300000, kIdleRounds = 3, kLittle = 1000 };
/* Of the energy: where thresholds begin, one round after the other. */
static const double kThresholds[] = {1e-4, 1e-3, 4e-3};

typedef struct search {
  braid_improving *m;
  braid_estimator *e;
  uint64_t state;            /* of the generator */
  int32_t *offers, *trial;   /* per place: what the search is at; the step */
  int32_t *sequence, *where; /* places by their starts; per place: where it is in it */
  int32_t *changed;          /* places that the step has changed */
  size_t changed_count;
  bool *is_changed;
  double own, joules; /* of `offers`: beyond the idle power; in all */
  double trial_own;
} search;

/* xorshift64* (Vigna 2016) */
static uint64_t draw(search *s) {
  s->state ^= s->state >> 12;
  s->state ^= s->state << 25;
  s->state ^= s->state >> 27;
  return s->state * 0x2545f4914f6cdd1du;
}

static size_t draw_below(search *s, size_t below) {
  return (size_t)((draw(s) >> 32) * below >> 32);
}

/* 1 to `most`, small ones more often. */
static size_t draw_length(search *s, size_t most) {
  size_t length = 1;
  while (length < most && draw_below(s, 10) < 7) length *= 2;
  length += draw_below(s, length);
  return length < most ? length : most;
}

static const braid_offer *offer_at(const search *s, int32_t index) {
  return &s->m->choosing->problem->offers[index];
}

static void change(search *s, int32_t place, int32_t offer) {
  if (offer < 0 || offer == s->trial[place]) return;
  if (!s->is_changed[place]) s->changed[s->changed_count++] = place;
  s->is_changed[place] = true;
  s->trial_own += s->e->own[offer] - s->e->own[s->trial[place]];
  s->trial[place] = offer;
}

static void undo(search *s) {
  for (size_t i = 0; i < s->changed_count; i++) {
    s->trial[s->changed[i]] = s->offers[s->changed[i]];
    s->is_changed[s->changed[i]] = false;
  }
  s->changed_count = 0;
  s->trial_own = s->own;
}

/* --- steps ---------------------------------------------------------------------------------------------------------
 */
/* One of the ways to run a place, most often another one than now. */
static int32_t draw_way(search *s, int32_t place) {
  size_t first = s->e->first_way[place], count = s->e->first_way[place + 1] - first;
  int32_t way = s->trial[place];
  for (int i = 0; i < 3 && count && way == s->trial[place]; i++) way = s->e->ways[first + draw_below(s, count)];
  return way;
}

/* The way on a device that costs least if the step waits for it; -1: none. */
static int32_t best_way(const search *s, int32_t place, int device) {
  int32_t best = -1;
  double least = 0;
  for (size_t i = s->e->first_way[place]; i < s->e->first_way[place + 1]; i++) {
    int32_t way = s->e->ways[i];
    double cost = s->e->own[way] + s->e->idle_watts * offer_at(s, way)->seconds.value;
    if (offer_at(s, way)->device != device || (best >= 0 && cost >= least)) continue;
    best = way;
    least = cost;
  }
  return best;
}

/* The way on the device of another one, beside as many others, at a clock; -1: none. */
static int32_t like_way(const search *s, int32_t place, const braid_offer *like, int clock) {
  for (size_t i = s->e->first_way[place]; i < s->e->first_way[place + 1]; i++) {
    const braid_offer *offer = offer_at(s, s->e->ways[i]);
    if (offer->device == like->device && offer->also_count == like->also_count && offer->clock == clock)
      return s->e->ways[i];
  }
  return -1;
}

/* What starts after each other goes to one device. */
static void change_stretch(search *s, int32_t place, int device) {
  size_t count = draw_length(s, (s->e->count + 1) / 2), at = (size_t)s->where[place];
  for (size_t i = at; i < at + count && i < s->e->count; i++)
    change(s, s->sequence[i], best_way(s, s->sequence[i], device));
}

/* A place that hands a value to this one, or gets one of it; -1: what was drawn has none. */
static int32_t draw_neighbour(search *s, int32_t place) {
  const braid_estimator *e = s->e;
  if (draw(s) >> 63) {
    size_t first = e->first_read[place], count = e->first_read[place + 1] - first;
    return count ? e->producer[e->reads[first + draw_below(s, count)]] : -1;
  }
  size_t first = e->first_result[place], count = e->first_result[place + 1] - first;
  if (!count) return -1;
  int32_t value = e->results[first + draw_below(s, count)];
  count = e->first_reader[value + 1] - e->first_reader[value];
  return count ? e->readers[e->first_reader[value] + draw_below(s, count)] : -1;
}

/* What hands values to each other goes to one device. */
static void change_cluster(search *s, int32_t place, int device) {
  int32_t members[kCluster];
  size_t count = 1, most = draw_length(s, kCluster);
  members[0] = place;
  change(s, place, best_way(s, place, device));
  for (size_t tries = 3 * most; tries && count < most; tries--) {
    int32_t next = draw_neighbour(s, members[draw_below(s, count)]);
    bool known = next < 0;
    for (size_t i = 0; i < count && !known; i++) known = members[i] == next;
    if (known) continue;
    members[count++] = next;
    change(s, next, best_way(s, next, device));
  }
}

/* What a device runs after each other gets one clock. */
static void change_clock(search *s, int32_t place) {
  int device = offer_at(s, s->trial[place])->device;
  int clock = (int)draw_below(s, (size_t)s->m->lowest[device] + 1);
  size_t count = draw_length(s, (s->e->count + 1) / 2);
  for (size_t i = (size_t)s->where[place]; i < s->e->count && count; i++) {
    const braid_offer *offer = offer_at(s, s->trial[s->sequence[i]]);
    if (offer->device != device) continue;
    change(s, s->sequence[i], like_way(s, s->sequence[i], offer, clock));
    count--;
  }
}

static void make_step(search *s) {
  size_t kind = draw_below(s, 100);
  int32_t place = (int32_t)draw_below(s, s->e->count), way = draw_way(s, place);
  if (kind < 30) {
    change_stretch(s, place, offer_at(s, way)->device);
  } else if (kind < 55) {
    change_cluster(s, place, offer_at(s, way)->device);
  } else if (kind < 65) {
    change_clock(s, place);
  } else {
    const braid_offer *left = offer_at(s, s->trial[place]);
    int32_t other = (int32_t)draw_below(s, s->e->count);
    change(s, place, way);
    if (kind >= 85 && other != place)
      change(s, other, like_way(s, other, left, left->clock)); /* and another one to where it was */
  }
}

/* --- judging -------------------------------------------------------------------------------------------------------
 */
static void arrive(search *s) {
  for (size_t i = 0; i < s->changed_count; i++) {
    s->offers[s->changed[i]] = s->trial[s->changed[i]];
    s->is_changed[s->changed[i]] = false;
  }
  s->changed_count = 0;
  s->own = s->trial_own;
  s->joules = s->e->joules;
  memcpy(s->sequence, s->e->sequence, s->e->count * sizeof *s->sequence);
  for (size_t i = 0; i < s->e->count; i++) s->where[s->sequence[i]] = (int32_t)i;
}

/* Plays the step by the simulator. */
static braid_status simulate_step(search *s, bool *kept) {
  braid_improving *m = s->m;
  braid_improving_begin(m);
  for (size_t i = 0; i < s->e->count; i++) {
    int32_t task = s->e->task[i];
    m->trial.order[i] = s->e->task[s->e->sequence[i]];
    if (s->trial[i] != m->best.offer_of[task])
      braid_improving_change(m, task, s->trial[i], "costs less there together with others, and the step ends in time");
  }
  return braid_improving_try(m, NULL, false, kept);
}

static bool run_trial(search *s, double seconds, double joules) {
  return braid_estimator_run(s->e, s->trial, s->trial_own, seconds, joules);
}

static braid_status take_steps(search *s, size_t work, double threshold) {
  size_t first = s->e->work;
  while (s->e->work - first < work) {
    double most = s->joules + threshold * (1 - (double)(s->e->work - first) / (double)work);
    s->e->work++; /* steps that change nothing end, too */
    make_step(s);
    bool kept = s->changed_count && run_trial(s, s->m->limit, most);
    if (kept && s->e->joules < s->m->best.joules.value * (1 - 1e-9)) BRAID_TRY(simulate_step(s, &kept));
    if (kept)
      arrive(s);
    else
      undo(s);
  }
  return BRAID_OK;
}

/* From the best, whose order is another one than that of estimates; so it may take longer here. False: it has none. */
static bool begin(search *s) {
  s->trial_own = 0;
  s->changed_count = 0;
  for (size_t i = 0; i < s->e->count; i++) {
    s->trial[i] = s->offers[i] = s->m->best.offer_of[s->e->task[i]];
    s->trial_own += s->e->own[s->trial[i]];
  }
  if (!run_trial(s, INFINITY, INFINITY)) return false;
  arrive(s);
  return true;
}

/* Every round begins from the best. */
static braid_status take_rounds(search *s) {
  size_t pairs = s->e->count * s->e->count, work = pairs < kMostWork / kPairWork ? kPairWork * pairs : kMostWork;
  size_t kinds = sizeof kThresholds / sizeof *kThresholds;
  for (size_t round = 0, idle = 0; round < kRounds && idle < kIdleRounds; round++) {
    double before = s->m->best.joules.value;
    if (!begin(s)) return BRAID_OK;
    BRAID_TRY(take_steps(s, work, before * kThresholds[round % kinds]));
    idle = s->m->best.joules.value < before * (1 - 1.0 / kLittle) ? 0 : idle + 1;
  }
  return BRAID_OK;
}

braid_status braid_improve_together(braid_improving *improving, unsigned beginning) {
  braid_arena *arena = improving->choosing->arena;
  search s = {.m = improving, .state = (2 * beginning + 1) * 0x9e3779b97f4a7c15u};
  BRAID_TRY(braid_estimator_create(improving, &s.e));
  if (!s.e) return BRAID_OK;
  int32_t *places = braid_arena_alloc(arena, 5 * s.e->count * sizeof *places);
  s.is_changed = braid_arena_alloc(arena, s.e->count * sizeof *s.is_changed);
  if (!places || !s.is_changed) return BRAID_NO_MEMORY;
  s.offers = places, s.trial = places + s.e->count, s.sequence = places + 2 * s.e->count;
  s.where = places + 3 * s.e->count, s.changed = places + 4 * s.e->count;
  return take_rounds(&s);
}
