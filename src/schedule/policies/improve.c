#include "schedule/policies/improve.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/memory.h"
#include "schedule/simulate.h"

/* Of sums in another order than the simulation's. */
static const double kRounding = 1e-9;

static const braid_offer *best_offer(const braid_improving *m, int32_t task) {
  return &m->choosing->problem->offers[m->best.offer_of[task]];
}

static void copy_choices(const braid_improving *m, const braid_choices *from, braid_choices *to) {
  size_t nodes = m->choosing->problem->node_count;
  memcpy(to->offer_of, from->offer_of, nodes * sizeof *to->offer_of);
  memcpy(to->order, from->order, from->task_count * sizeof *to->order);
  memcpy(to->reasons, from->reasons, nodes * sizeof *to->reasons);
  to->task_count = from->task_count;
}

static bool is_good(const braid_improving *m, const braid_choices *choices) {
  return choices->seconds.source != BRAID_UNKNOWN && choices->joules.source != BRAID_UNKNOWN &&
         choices->seconds.value <= m->limit * (1 + 1e-12);
}

braid_status braid_improving_init(const braid_choosing *choosing, const braid_choices *given, double limit,
                                  size_t trials, bool capped, braid_improving *out, bool *good) {
  *out = (braid_improving){.choosing = choosing, .limit = limit, .trials = trials, .capped = capped};
  out->sequence = braid_arena_alloc(choosing->arena, (choosing->problem->node_count + 1) * sizeof *out->sequence);
  out->lowest = braid_arena_alloc(choosing->arena, (choosing->problem->device_count + 1) * sizeof *out->lowest);
  if (!out->sequence || !out->lowest) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_least_seconds_init(choosing, &out->least));
  for (size_t i = 0; i < choosing->problem->offer_count; i++) {
    const braid_offer *offer = &choosing->problem->offers[i];
    if (offer->clock > out->lowest[offer->device]) out->lowest[offer->device] = offer->clock;
  }
  BRAID_TRY(braid_choices_init(choosing, &out->best));
  BRAID_TRY(braid_choices_init(choosing, &out->trial));
  copy_choices(out, given, &out->best);
  BRAID_TRY(braid_choices_alternatives(choosing, &out->best, &out->alternatives));
  BRAID_TRY(braid_simulate(choosing, &out->best, NULL, capped));
  *good = is_good(out, &out->best);
  return braid_memory_fits(choosing, &out->best, &out->fits);
}

void braid_improving_give(const braid_improving *improving, braid_choices *choices) {
  *choices = improving->best;
  choices->ordered = true;
}

void braid_improving_begin(braid_improving *m) {
  copy_choices(m, &m->best, &m->trial);
}

braid_status braid_improving_try(braid_improving *m, const braid_rule *rule, bool equal, bool *kept) {
  double most = m->best.joules.value * (equal ? 1 + 1e-9 : 1 - 1e-9);
  *kept = false;
  if (m->trials) m->trials--;
  if (braid_takes_longer(m->choosing->problem, &m->trial, !rule, m->limit * (1 + kRounding), &m->least))
    return BRAID_OK; /* without its simulation, which would say the same */
  if (rule) BRAID_TRY(braid_simulate(m->choosing, &m->trial, rule, m->capped));
  if (rule && (!is_good(m, &m->trial) || m->trial.joules.value >= most)) return BRAID_OK;
  BRAID_TRY(braid_simulate(m->choosing, &m->trial, NULL, m->capped));
  bool fits;
  if (!is_good(m, &m->trial) || m->trial.joules.value >= most) return BRAID_OK;
  BRAID_TRY(braid_memory_fits(m->choosing, &m->trial, &fits));
  if (m->fits && !fits) return BRAID_OK;
  m->fits = fits;
  *kept = true;
  braid_choices swap = m->best;
  m->best = m->trial;
  m->trial = swap;
  return BRAID_OK;
}

void braid_improving_change(braid_improving *m, int32_t task, int32_t offer, const char *reason) {
  const braid_offer *o = &m->choosing->problem->offers[offer];
  for (size_t i = 0; i < o->node_count; i++) m->trial.offer_of[o->nodes[i]] = offer;
  m->trial.reasons[task] = reason;
}

/* --- clocks --------------------------------------------------------------------------------------------------------
 */
/* The task's offer on the same device, beside as many others, at another clock; -1: there is none. */
static int32_t at_clock(const braid_improving *m, int32_t task, int clock) {
  const braid_offer *now = best_offer(m, task);
  for (size_t i = m->alternatives.first[task]; i < m->alternatives.first[task + 1]; i++) {
    const braid_offer *offer = &m->choosing->problem->offers[m->alternatives.offers[i]];
    if (offer->device == now->device && offer->also_count == now->also_count && offer->clock == clock &&
        offer->seconds.source != BRAID_UNKNOWN && offer->joules.source != BRAID_UNKNOWN)
      return m->alternatives.offers[i];
  }
  return -1;
}

double braid_offer_own_joules(const braid_problem *problem, const braid_offer *offer) {
  return offer->joules.value - braid_offer_idle_watts(problem, offer) * offer->seconds.value;
}

/* Gives all tasks of a run the clock, if that alone would save energy. */
static bool prepare_clock(braid_improving *m, const int32_t *tasks, size_t count, int clock) {
  const braid_problem *problem = m->choosing->problem;
  double saved = 0;
  braid_improving_begin(m);
  for (size_t i = 0; i < count; i++) {
    int32_t offer = at_clock(m, tasks[i], clock);
    if (offer < 0) return false;
    saved += braid_offer_own_joules(problem, best_offer(m, tasks[i])) -
             braid_offer_own_joules(problem, &problem->offers[offer]);
    braid_improving_change(m, tasks[i], offer, "a lower clock, at which the step still ends in time");
  }
  return saved > 0;
}

static braid_status lower_run(braid_improving *m, const int32_t *tasks, size_t count, int lowest, size_t smallest) {
  for (int clock = lowest; clock > 0 && m->trials; clock--) {
    bool kept = false;
    if (prepare_clock(m, tasks, count, clock)) BRAID_TRY(braid_improving_try(m, NULL, false, &kept));
    if (kept) return BRAID_OK;
  }
  if (count < 2 * smallest || !m->trials) return BRAID_OK;
  BRAID_TRY(lower_run(m, tasks, count / 2, lowest, smallest));
  return lower_run(m, tasks + count / 2, count - count / 2, lowest, smallest);
}

static int by_start(const void *left, const void *right, void *context) {
  const braid_choices *choices = context;
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  if (choices->start[a] != choices->start[b]) return choices->start[a] < choices->start[b] ? -1 : 1;
  return (a > b) - (a < b);
}

/* The tasks of a device in `sequence`, by their starts. */
static size_t list_tasks(braid_improving *m, size_t device) {
  size_t count = 0;
  for (size_t i = 0; i < m->best.task_count; i++)
    if (best_offer(m, m->best.order[i])->device == (int)device) m->sequence[count++] = m->best.order[i];
  qsort_r(m->sequence, count, sizeof *m->sequence, by_start, &m->best);
  return count;
}

braid_status braid_improve_clocks(braid_improving *improving, size_t smallest) {
  const braid_problem *problem = improving->choosing->problem;
  for (size_t d = 0; d < problem->device_count && improving->trials; d++) {
    int lowest = improving->lowest[d];
    if (!lowest) continue;
    size_t count = list_tasks(improving, d);
    for (size_t from = 0, to; from < count; from = to) { /* a run ends where the device waits */
      for (to = from + 1; to < count; to++) {
        double gap = improving->best.start[improving->sequence[to]] - improving->best.end[improving->sequence[to - 1]];
        if (gap > problem->devices[d].clock_seconds + 1e-9) break;
      }
      BRAID_TRY(lower_run(improving, improving->sequence + from, to - from, lowest, smallest));
    }
  }
  return BRAID_OK;
}

/* How many tasks from `from` on could take the next clock below the first within so many seconds. */
static size_t fit_clock(const braid_improving *m, size_t from, size_t count, double seconds) {
  size_t to = from;
  for (; to < count; to++) {
    const braid_offer *now = best_offer(m, m->sequence[to]);
    int32_t lower = now->clock ? -1 : at_clock(m, m->sequence[to], 1);
    if (lower < 0) break;
    seconds -= m->choosing->problem->offers[lower].seconds.value - now->seconds.value;
    if (seconds < 0) break;
  }
  return to;
}

braid_status braid_improve_first_clocks(braid_improving *improving) {
  const braid_problem *problem = improving->choosing->problem;
  for (size_t d = 0; d < problem->device_count && improving->trials; d++) {
    if (!improving->lowest[d]) continue;
    size_t count = list_tasks(improving, d);
    for (size_t from = 0, most = count; from < count && most && improving->trials;) {
      double left = improving->limit - improving->best.seconds.value - 2 * problem->devices[d].clock_seconds;
      size_t to = fit_clock(improving, from, from + most < count ? from + most : count, left);
      bool kept = false;
      if (to > from && prepare_clock(improving, improving->sequence + from, to - from, 1))
        BRAID_TRY(braid_improving_try(improving, NULL, false, &kept));
      if (kept || to == from)
        from = to > from ? to : from + 1;
      else
        most = (to - from) / 2;
    }
  }
  return BRAID_OK;
}
