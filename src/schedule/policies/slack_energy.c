/* Least energy at no loss of throughput, over the whole schedule: starts from the fast devices alone, from
 * region-clock, hybrid-energy and heft, whichever end in the time of the first; then tasks go where they cost less
 * (slack.c), and runs of tasks, then halves of them, get lower clocks, as long as the step still ends in that time and
 * the budget lasts. The best of these goes through searches over devices and clocks of all tasks at once (search.c).
 * What is kept is simulated, with its transfers, changes of clocks, what devices draw while they wait, and the caps,
 * and the whole costs less. The best of them is the result, so it never costs more than any start that is fast enough.
 *
 * Under a cap the time is that of hybrid-cap. */
#include "base/try.h"
#include "schedule/policies/hybrid.h"
#include "schedule/policies/improve.h"
#include "schedule/policies/reasons.h"

/* Simulated tasks in all for one start, and at least so many schedules: a budget of time. */
enum { kTasks = 30000, kTrials = 20, kStarts = 9 };
/* Beginnings of the search: several for steps of that many tasks. Fewer have all they can at the first, and more take
 * too long. */
enum { kBeginnings = 6, kFewestTasks = 64, kMostTasks = 256 };

static braid_status improve_by(const braid_choosing *choosing, const braid_choices *given, double limit, int variant,
                               braid_improving *best, bool *has_best, bool *taken) {
  braid_improving improving;
  bool good;
  size_t trials = given->task_count ? kTasks / given->task_count : 0;
  if (trials < kTrials) trials = kTrials;
  *taken = false;
  BRAID_TRY(braid_improving_init(choosing, given, limit, trials / 2, true, &improving, &good));
  if (!good) return BRAID_OK;
  BRAID_TRY(braid_improve_devices(&improving, variant));
  improving.trials += trials / 2;
  for (size_t smallest = SIZE_MAX / 2; smallest; smallest = smallest > 16 ? 16 : smallest / 16)
    BRAID_TRY(braid_improve_clocks(&improving, smallest)); /* whole runs, then smaller and smaller parts */
  improving.trials += kTrials / 2;
  BRAID_TRY(braid_improve_first_clocks(&improving));
  if (*has_best && best->fits && !improving.fits) return BRAID_OK;
  bool fits_alone = *has_best && improving.fits && !best->fits;
  if (*has_best && !fits_alone && improving.best.joules.value >= best->best.joules.value) return BRAID_OK;
  *best = improving;
  *has_best = *taken = true;
  return BRAID_OK;
}

/* Simulated choices of another policy; no tasks: regions of it form a cycle. */
static braid_status start_from(const braid_choosing *choosing, const braid_policy *policy, braid_choices *out) {
  int32_t cycle = -1;
  BRAID_TRY(braid_choices_init(choosing, out));
  BRAID_TRY(policy->choose(choosing, out));
  BRAID_TRY(braid_choices_check(choosing, out));
  if (policy == &braid_policy_gpu_only || policy == &braid_policy_heft)
    BRAID_TRY(braid_reasons_of(choosing, policy->name, out)); /* it names ends */
  if (out->ordered) return braid_choices_repeat(policy, choosing, policy->capped, out);
  BRAID_TRY(braid_choices_sort(choosing, out, &cycle));
  if (cycle < 0) return braid_simulate(choosing, out, NULL, true);
  out->task_count = 0;
  return BRAID_OK;
}

braid_status braid_choose_baseline(const braid_choosing *choosing, braid_choices *out) {
  bool capped = choosing->problem->cap_watts.source != BRAID_UNKNOWN;
  return start_from(choosing, capped ? &braid_policy_hybrid_cap : &braid_policy_gpu_only, out);
}

static bool is_alike(const braid_choices *a, const braid_choices *b) {
  return a->seconds.value == b->seconds.value && a->joules.value == b->joules.value;
}

/* Starts from what policies make of these offers, if they are none that are refused, and differ from those there are.
 */
static braid_status add_starts(const braid_choosing *choosing, const bool *refused, bool gpu_only,
                               braid_choices *starts, size_t *count) {
  const braid_policy *const policies[] = {&braid_policy_gpu_only, &braid_policy_region_clock,
                                          &braid_policy_hybrid_energy, &braid_policy_heft};
  for (size_t i = gpu_only ? 0 : 1; i < sizeof policies / sizeof *policies; i++) {
    braid_choices *start = &starts[*count];
    BRAID_TRY(start_from(choosing, policies[i], start));
    bool usable = start->task_count > 0;
    for (size_t k = 0; k < start->task_count; k++) usable &= !refused[start->offer_of[start->order[k]]];
    for (size_t k = 0; k < *count; k++) usable &= !is_alike(&starts[k], start);
    *count += usable;
  }
  return BRAID_OK;
}

/* The starts that differ, the baseline first. Under a cap, policies that know of none may make a plan that keeps it,
 * and is another one than that of the offers that are left. */
static braid_status list_starts(const braid_choosing *choosing, braid_choices *starts, size_t *count) {
  const braid_problem *problem = choosing->problem;
  bool capped = problem->cap_watts.source != BRAID_UNKNOWN;
  braid_choosing open = *choosing;
  *count = 1;
  BRAID_TRY(braid_choose_baseline(choosing, &starts[0]));
  BRAID_TRY(add_starts(choosing, choosing->refused, capped, starts, count));
  if (!capped || choosing->crowded) return BRAID_OK;
  open.refused = braid_arena_alloc(choosing->arena, (problem->offer_count + 1) * sizeof *open.refused);
  if (!open.refused) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++)
    open.refused[i] = !braid_offer_allowed(problem, &problem->offers[i]);
  return add_starts(&open, choosing->refused, true, starts, count);
}

/* Searches from several beginnings and keeps the best: what one beginning comes across is luck. */
static braid_status search_from(braid_improving *best) {
  braid_choices given = best->best;
  bool several = given.task_count >= kFewestTasks && given.task_count < kMostTasks;
  unsigned beginnings = several ? kBeginnings : 1;
  bool good;
  for (unsigned i = 0; i < beginnings; i++) {
    braid_improving other;
    BRAID_TRY(braid_improving_init(best->choosing, &given, best->limit, best->trials, best->capped, &other, &good));
    if (good) BRAID_TRY(braid_improve_together(&other, i));
    if (good && other.fits >= best->fits && other.best.joules.value < best->best.joules.value) *best = other;
  }
  return BRAID_OK;
}

static braid_status slack_energy_choose(const braid_choosing *choosing, braid_choices *choices) {
  braid_choices starts[kStarts];
  braid_improving best;
  size_t count, cheapest = 0;
  bool has_best = false, taken;
  BRAID_TRY(list_starts(choosing, starts, &count));
  double limit = starts[0].seconds.value;
  *choices = starts[0];
  choices->ordered = choices->task_count > 0; /* what there is if nothing is known */
  for (size_t i = 0; i < count && choices->ordered; i++) {
    BRAID_TRY(improve_by(choosing, &starts[i], limit, 0, &best, &has_best, &taken));
    if (taken) cheapest = i;
  }
  for (int variant = 1; variant < BRAID_SLACK_VARIANTS && has_best; variant++)
    BRAID_TRY(improve_by(choosing, &starts[cheapest], limit, variant, &best, &has_best, &taken));
  if (has_best) BRAID_TRY(search_from(&best));
  if (has_best) braid_improving_give(&best, choices);
  return BRAID_OK;
}

const braid_policy braid_policy_slack_energy = {
    .name = "slack-energy",
    .summary = "least energy at no loss of throughput over the whole schedule: devices and clocks of every task, with "
               "transfers, idle power and caps",
    .capped = true,
    .no_loss = true,
    .choose = slack_energy_choose,
};
