/* The least energy there is at no loss of throughput, by a mixed-integer program (program/program.h): offers, their
 * order and their transfers. Every solution is simulated, and the simulator's end is given back to the program where it
 * is later, so what is proved holds for plans as the simulator plays them. In which order values go over a link that
 * they share is not searched: where one has waited for another, and the end is later for it, nothing is proved. It
 * starts from slack-energy, which is also the answer where the graph is too large or the search ends at its limit; then
 * least_joules says how much less any plan could cost.
 *
 * What a search may visit is counted, not timed: the same problem has the same answer on every machine. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "schedule/memory.h"
#include "schedule/policies/improve.h"
#include "schedule/program/program.h"
#include "schedule/simulate.h"

/* Terms of a program that is solved; and how many nodes of the search are visited: the fewer, the more rows
 * each has. That takes a second or two. */
enum { kTerms = 60000, kVisits = 5000, kVisitedRows = 1000000 };

typedef struct exact {
  const braid_choosing *choosing;
  const braid_program *program;
  braid_choices trial, best;
  const double *values;
  double limit;
  bool *done;          /* per task, in the order that is made */
  bool better;         /* than what it started from */
  bool fits, left_out; /* what it started from fits into the spaces; a plan did not */
  bool crossed;        /* values waited for each other, and a plan took longer than the program says */
} exact;

/* --- the order of tasks --------------------------------------------------------------------------------------------
 */
static bool has_inputs(const exact *e, int32_t task) {
  const braid_problem *problem = e->choosing->problem;
  const braid_offer *offer = &problem->offers[e->trial.offer_of[task]];
  for (size_t i = 0; i < offer->node_count; i++) {
    const braid_problem_node *node = &problem->nodes[offer->nodes[i]];
    for (size_t r = 0; r < node->read_count; r++) {
      int32_t producer = problem->values[problem->reads[node->first_read + r]].producer;
      if (producer < 0 || problem->nodes[producer].idle) continue;
      int32_t before = braid_choices_task(problem, &e->trial, producer);
      if (before != task && !e->done[before]) return false;
    }
  }
  return true;
}

/* Whether all tasks have ended that come before this one by the program's order. */
static bool is_next(const exact *e, int32_t task) {
  const braid_program *p = e->program;
  for (size_t i = 0; i < p->pair_count; i++)
    for (int reverse = 0; reverse < 2; reverse++) {
      int32_t first = reverse ? p->pairs[i].second : p->pairs[i].first;
      int32_t second = reverse ? p->pairs[i].first : p->pairs[i].second;
      if (e->values[p->orders + 2 * i + (size_t)reverse] < 0.5) continue;
      int32_t before = braid_choices_task(p->problem, &e->trial, first);
      if (braid_choices_task(p->problem, &e->trial, second) == task && before != task && !e->done[before]) return false;
    }
  return true;
}

/* The task that starts first by the program, among those that can; -1: none can. */
static int32_t find_next(const exact *e, bool in_order) {
  const braid_problem *problem = e->choosing->problem;
  int32_t best = -1;
  for (size_t n = 0; n < problem->node_count; n++) {
    int32_t task = (int32_t)n;
    if (problem->nodes[n].idle || braid_choices_task(problem, &e->trial, task) != task || e->done[n]) continue;
    if (!has_inputs(e, task) || (in_order && !is_next(e, task))) continue;
    if (best < 0 || e->values[e->program->starts + n] < e->values[e->program->starts + (size_t)best]) best = task;
  }
  return best;
}

/* False: the sets of nodes wait for each other. */
static bool find_order(exact *e) {
  const braid_problem *problem = e->choosing->problem;
  size_t tasks = 0;
  memset(e->done, 0, problem->node_count);
  for (size_t n = 0; n < problem->node_count; n++)
    tasks += !problem->nodes[n].idle && braid_choices_task(problem, &e->trial, (int32_t)n) == (int32_t)n;
  for (e->trial.task_count = 0; e->trial.task_count < tasks; e->trial.task_count++) {
    int32_t task = find_next(e, true);
    if (task < 0) task = find_next(e, false); /* orders that only rounding allows */
    if (task < 0) return false;
    e->trial.order[e->trial.task_count] = task;
    e->done[task] = true;
  }
  return true;
}

/* --- judging -------------------------------------------------------------------------------------------------------
 */
/* Whether a value waited for another one on its way. */
static bool has_waited(const exact *e) {
  const braid_problem *problem = e->choosing->problem;
  for (size_t i = 0; i < e->trial.move_count; i++) {
    const braid_move *move = &e->trial.moves[i];
    int32_t producer = problem->values[move->value].producer;
    double computed = producer < 0 || problem->nodes[producer].idle ? 0 : e->trial.end[producer];
    if (move->start > computed + 1e-9 * e->limit) return true;
  }
  return false;
}

static braid_status judge(const double *values, double *end, double *cost, void *context) {
  exact *e = context;
  const braid_problem *problem = e->choosing->problem;
  *end = *cost = INFINITY;
  e->values = values;
  memset(e->trial.offer_of, -1, problem->node_count * sizeof *e->trial.offer_of);
  for (size_t c = 0; c < e->program->offer_count; c++)
    if (values[c] > 0.5)
      braid_choices_take(e->choosing, &e->trial, e->program->offers[c], "part of the plan of least energy");
  if (!find_order(e)) return BRAID_OK;
  braid_status status = braid_simulate(e->choosing, &e->trial, NULL, true);
  if (status == BRAID_UNSUPPORTED) return BRAID_OK; /* an order in which the cap leaves something waiting for ever */
  BRAID_TRY(status);
  *end = e->trial.seconds.value / e->limit;
  e->crossed |= *end > values[e->program->end] + 1e-9 && has_waited(e);
  if (e->trial.seconds.value > e->limit * (1 + 1e-12)) return BRAID_OK;
  bool fits;
  BRAID_TRY(braid_memory_fits(e->choosing, &e->trial, &fits));
  if (!fits) { /* as it is simulated: whether it would with waits is not known */
    *end = INFINITY;
    e->left_out = true;
    return BRAID_OK;
  }
  *cost = e->trial.joules.value;
  if ((e->fits || e->better) && *cost >= e->best.joules.value * (1 - 1e-12)) return BRAID_OK;
  braid_choices swap = e->best;
  e->best = e->trial;
  e->trial = swap;
  e->better = true;
  return BRAID_OK;
}

static braid_status search(exact *e, const braid_program *program) {
  size_t visits = kVisitedRows / (program->row_count + 1);
  braid_program_search how = {
      .judge = judge, .context = e, .best = INFINITY, .nodes = visits < kVisits ? visits : kVisits};
  if (e->fits) how.best = e->best.joules.value;
  e->program = program;
  e->done = braid_arena_alloc(e->choosing->arena, e->choosing->problem->node_count + 1);
  if (!e->done) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_choices_init(e->choosing, &e->trial));
  braid_status status = braid_program_search_run(program, &how);
  if (status == BRAID_UNSUPPORTED) return BRAID_OK; /* there is no GLPK */
  BRAID_TRY(status);
  e->best.left_out = e->left_out || !e->fits || e->choosing->crowded;
  e->best.crossed = e->crossed;
  if (e->best.left_out || e->crossed || program->unweighed) return BRAID_OK; /* what is proved is not of all plans */
  double least = fmin(how.joules, e->best.joules.value);
  if (least > e->best.joules.value * (1 - 1e-6)) least = e->best.joules.value; /* but for what GLPK rounds */
  e->best.least_joules = (braid_number){least > 0 ? least : 0, BRAID_MODELLED};
  return BRAID_OK;
}

static braid_status solve_exactly(exact *e) {
  const braid_problem *problem = e->choosing->problem;
  braid_program program;
  bool possible;
  size_t tasks = 0;
  for (size_t n = 0; n < problem->node_count; n++) tasks += !problem->nodes[n].idle;
  if (tasks > BRAID_OPTIMAL_TASKS) return BRAID_OK;
  BRAID_TRY(braid_program_make(problem, e->choosing->refused, e->limit, true, true, kTerms, e->choosing->allocator,
                               &program, &possible));
  braid_status status = possible ? search(e, &program) : BRAID_OK;
  braid_program_free(&program);
  return status;
}

static braid_status optimal_choose(const braid_choosing *choosing, braid_choices *choices) {
  exact e = {.choosing = choosing};
  braid_choices baseline;
  BRAID_TRY(braid_choose_baseline(choosing, &baseline));
  BRAID_TRY(braid_policy_slack_energy.choose(choosing, choices));
  bool known = baseline.seconds.source != BRAID_UNKNOWN && choices->joules.source != BRAID_UNKNOWN;
  if (!choices->ordered || !known || !(baseline.seconds.value > 0)) return BRAID_OK;
  e.limit = baseline.seconds.value;
  e.best = *choices;
  BRAID_TRY(braid_memory_fits(choosing, choices, &e.fits));
  if (e.fits || !choosing->crowded) BRAID_TRY(solve_exactly(&e)); /* else the next one asked is nearer to a fit */
  if (e.best.least_joules.source == BRAID_UNKNOWN)
    BRAID_TRY(braid_problem_bound(choosing->problem, e.limit, true, choosing->allocator, &e.best.least_joules,
                                  &e.best.unweighed));
  *choices = e.best;
  choices->ordered = true;
  return BRAID_OK;
}

const braid_policy braid_policy_optimal = {
    .name = "optimal",
    .summary =
        "the least energy there is at no loss of throughput, proved for small graphs; for large ones slack-energy "
        "and how much less any plan could cost",
    .capped = true,
    .no_loss = true,
    .choose = optimal_choose,
};
