/* Least energy at no loss of throughput, over the whole schedule: starts from the fast devices alone, from
 * region-clock, hybrid-energy and heft, whichever end in the time of the first; then tasks go where they cost less
 * (slack.c), and runs of tasks, then halves of them, get lower clocks, as long as the step still ends in that time and
 * the budget lasts. The best of these goes through a search over devices and clocks of all tasks at once (search.c).
 * What is kept is simulated, with its transfers, changes of clocks, what devices draw while they wait, and the caps,
 * and the whole costs less. The best of them is the result, so it never costs more than any start that is fast enough.
 *
 * Under a cap the time is that of hybrid-cap. */
#include "base/try.h"
#include "schedule/policies/hybrid.h"
#include "schedule/policies/improve.h"

/* Simulated tasks in all for one start, and at least so many schedules: a budget of time. */
enum { kTasks = 30000, kTrials = 20 };

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
  if (out->ordered) return BRAID_OK;
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

/* The starts that differ, the baseline first. */
static braid_status list_starts(const braid_choosing *choosing, braid_choices *starts, size_t *count) {
  const braid_policy *const policies[] = {&braid_policy_gpu_only, &braid_policy_region_clock,
                                          &braid_policy_hybrid_energy, &braid_policy_heft};
  bool capped = choosing->problem->cap_watts.source != BRAID_UNKNOWN;
  *count = 1;
  BRAID_TRY(braid_choose_baseline(choosing, &starts[0]));
  for (size_t i = capped ? 0 : 1; i < sizeof policies / sizeof *policies; i++) {
    bool known = false;
    BRAID_TRY(start_from(choosing, policies[i], &starts[*count]));
    for (size_t k = 0; k < *count; k++) known |= is_alike(&starts[k], &starts[*count]);
    *count += starts[*count].task_count > 0 && !known;
  }
  return BRAID_OK;
}

static braid_status slack_energy_choose(const braid_choosing *choosing, braid_choices *choices) {
  braid_choices starts[5];
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
  if (has_best) BRAID_TRY(braid_improve_together(&best));
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
