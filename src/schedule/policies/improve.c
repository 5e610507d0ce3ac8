#include "schedule/policies/improve.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/simulate.h"

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
  if (!out->sequence) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_choices_init(choosing, &out->best));
  BRAID_TRY(braid_choices_init(choosing, &out->trial));
  copy_choices(out, given, &out->best);
  BRAID_TRY(braid_choices_alternatives(choosing, &out->best, &out->alternatives));
  BRAID_TRY(braid_simulate(choosing, &out->best, NULL, capped));
  *good = is_good(out, &out->best);
  return BRAID_OK;
}

void braid_improving_give(const braid_improving *improving, braid_choices *choices) {
  *choices = improving->best;
  choices->ordered = true;
}

/* Simulates the trial and keeps it if it costs less in time. */
static braid_status judge_trial(braid_improving *m, bool *kept) {
  m->trials--;
  BRAID_TRY(braid_simulate(m->choosing, &m->trial, NULL, m->capped));
  *kept = is_good(m, &m->trial) && m->trial.joules.value < m->best.joules.value * (1 - 1e-9);
  if (!*kept) return BRAID_OK;
  braid_choices swap = m->best;
  m->best = m->trial;
  m->trial = swap;
  return BRAID_OK;
}

static void change_offer(braid_improving *m, int32_t task, int32_t offer, const char *reason) {
  const braid_offer *o = &m->choosing->problem->offers[offer];
  for (size_t i = 0; i < o->node_count; i++) m->trial.offer_of[o->nodes[i]] = offer;
  m->trial.reasons[task] = reason;
}

/* --- clocks --------------------------------------------------------------------------------------------------------
 */
/* The task's offer on the same devices at another clock; -1: there is none. */
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

/* What a task costs more than if its devices were idle meanwhile. */
static double own_joules(const braid_problem *problem, const braid_offer *offer) {
  return offer->joules.value - braid_offer_idle_watts(problem, offer) * offer->seconds.value;
}

/* Gives all tasks of a run the clock, if that alone would save energy. */
static bool prepare_clock(braid_improving *m, const int32_t *tasks, size_t count, int clock) {
  const braid_problem *problem = m->choosing->problem;
  double saved = 0;
  copy_choices(m, &m->best, &m->trial);
  for (size_t i = 0; i < count; i++) {
    int32_t offer = at_clock(m, tasks[i], clock);
    if (offer < 0) return false;
    saved += own_joules(problem, best_offer(m, tasks[i])) - own_joules(problem, &problem->offers[offer]);
    change_offer(m, tasks[i], offer, "a lower clock, at which the step still ends in time");
  }
  return saved > 0;
}

static int lowest_clock(const braid_improving *m, int device) {
  int lowest = 0;
  for (size_t i = 0; i < m->choosing->problem->offer_count; i++) {
    const braid_offer *offer = &m->choosing->problem->offers[i];
    if (offer->device == device && offer->clock > lowest) lowest = offer->clock;
  }
  return lowest;
}

static braid_status lower_run(braid_improving *m, const int32_t *tasks, size_t count, int lowest, size_t smallest) {
  for (int clock = lowest; clock > 0 && m->trials; clock--) {
    bool kept = false;
    if (prepare_clock(m, tasks, count, clock)) BRAID_TRY(judge_trial(m, &kept));
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

braid_status braid_improve_clocks(braid_improving *improving, size_t smallest) {
  const braid_problem *problem = improving->choosing->problem;
  for (size_t d = 0; d < problem->device_count; d++) {
    int lowest = lowest_clock(improving, (int)d);
    size_t count = 0;
    if (!lowest) continue;
    for (size_t i = 0; i < improving->best.task_count; i++)
      if (best_offer(improving, improving->best.order[i])->device == (int)d)
        improving->sequence[count++] = improving->best.order[i];
    qsort_r(improving->sequence, count, sizeof *improving->sequence, by_start, &improving->best);
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

/* --- devices -------------------------------------------------------------------------------------------------------
 */
typedef struct move {
  int32_t task, offer;
  double worth; /* joules saved for each second that it takes longer, with what it reads on its way */
} move;

/* What bringing the operands of a task to another space takes at most. */
static double moving_seconds(const braid_improving *m, const braid_offer *from, const braid_offer *to) {
  const braid_problem *problem = m->choosing->problem;
  int here = problem->devices[from->device].space, there = problem->devices[to->device].space;
  double sum = 0;
  for (size_t i = 0; i < to->node_count; i++) {
    const braid_problem_node *node = &problem->nodes[to->nodes[i]];
    for (size_t r = 0; r < node->read_count; r++)
      sum += braid_problem_moving(problem, problem->reads[node->first_read + r], here, there);
  }
  return sum;
}

static int by_worth(const void *left, const void *right) {
  const move *a = left, *b = right;
  if (a->worth != b->worth) return a->worth > b->worth ? -1 : 1;
  return a->task != b->task ? (a->task > b->task) - (a->task < b->task) : (a->offer > b->offer) - (a->offer < b->offer);
}

static size_t list_moves(const braid_improving *m, move *moves) {
  const braid_problem *problem = m->choosing->problem;
  size_t count = 0;
  for (size_t i = 0; i < m->best.task_count; i++) {
    int32_t task = m->best.order[i];
    double now = own_joules(problem, best_offer(m, task));
    for (size_t k = m->alternatives.first[task]; k < m->alternatives.first[task + 1]; k++) {
      const braid_offer *offer = &problem->offers[m->alternatives.offers[k]];
      bool known = offer->seconds.source != BRAID_UNKNOWN && offer->joules.source != BRAID_UNKNOWN;
      double saved = now - own_joules(problem, offer);
      if (!known || offer->device == best_offer(m, task)->device || saved <= 0 || offer->seconds.value > m->limit)
        continue;
      double longer = offer->seconds.value - best_offer(m, task)->seconds.value;
      longer = (longer > 0 ? longer : 0) + moving_seconds(m, best_offer(m, task), offer);
      moves[count++] = (move){task, m->alternatives.offers[k], saved / (longer + 1e-6 * m->limit)};
    }
  }
  return count;
}

braid_status braid_improve_devices(braid_improving *improving) {
  size_t most = improving->choosing->problem->offer_count + 1;
  move *moves = braid_zalloc_array(improving->choosing->allocator, most, sizeof *moves);
  if (!moves) return BRAID_NO_MEMORY;
  size_t count = list_moves(improving, moves);
  qsort(moves, count, sizeof *moves, by_worth);
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < count && improving->trials && status == BRAID_OK; i++) {
    bool kept;
    copy_choices(improving, &improving->best, &improving->trial);
    change_offer(improving, moves[i].task, moves[i].offer, "costs less there, and the step still ends in time");
    status = judge_trial(improving, &kept);
  }
  braid_free(improving->choosing->allocator, moves);
  return status;
}
