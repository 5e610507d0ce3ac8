/* What GPUs do by themselves about a power limit, for comparison: everything on the GPUs, whose clocks follow the power
 * that was measured. Once in a period the average of the period is compared with the cap, and that of each GPU with its
 * own; above one of them the clocks go down by one state, well below all up by one, those of all GPUs together. So they
 * react late, and the cap is exceeded meanwhile.
 * A step is one of many: it begins at the clocks, and in the window, that the one before it left. Where they differ,
 * what is told of time and energy is their mean.
 *
 * Period and band are assumptions: no vendor publishes them. NVIDIA's sensor is refreshed about every 100 ms on some
 * cards, every 20 ms on others (Yang et al., "Part-time Power Measurements: nvidia-smi's Lack of Attention", 2024). */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policies/hybrid.h"
#include "schedule/power.h"

static const double kPeriod = 20e-3, kBand = 0.95;
/* Runs are counted behind so many periods, over so many, at least and at most so many runs. Times and powers that
 * differ by no more than `kSame` are the same: sums of the same numbers in another order decide nothing. */
static const double kBeginning = 100, kMostPeriods = 400, kSame = 1e-9;
enum { kLeastRuns = 4, kMostRuns = 400 };

typedef struct governor {
  braid_hybrid hybrid;
  double sampled; /* until here; below 0: in the runs before this one */
  size_t first;   /* of the run's tasks, in the order in which they were picked: those before it were over by then */
  /* Joules of these since then, and of a window: per device, and behind them of all together. */
  double *carried, *window;
  int state; /* of the clocks; 0: the highest */
  int lowest;
  bool *followed;       /* per device, and behind them the machine: it has a cap, and its power is measured */
  bool capped;          /* any of them is */
  bool any;             /* a sample fell into this run */
  int *clocks, *before; /* per device: at which the run begins, and the one before it */
} governor;

/* --- what is measured ----------------------------------------------------------------------------------------------
 */
static bool is_metered(const braid_offer *offer) {
  return offer->joules.source != BRAID_UNKNOWN && offer->seconds.source != BRAID_UNKNOWN;
}

static bool occupies(const braid_offer *offer, int device) {
  bool found = offer->device == device;
  for (size_t k = 0; k < offer->also_count; k++) found |= offer->also[k] == device;
  return found;
}

bool braid_dvfs_measures(const braid_problem *problem, const braid_choices *choices, int device) {
  for (size_t d = 0; d < problem->device_count; d++)
    if ((device < 0 || (int)d == device) && problem->devices[d].idle_watts.source == BRAID_UNKNOWN) return false;
  for (size_t i = 0; i < choices->task_count; i++) {
    const braid_offer *offer = &problem->offers[choices->offer_of[choices->order[i]]];
    if ((device < 0 || occupies(offer, device)) && !is_metered(offer)) return false;
  }
  return true;
}

static void find_followed(governor *g) {
  const braid_problem *problem = g->hybrid.problem;
  size_t devices = problem->device_count;
  for (size_t d = 0; d <= devices; d++) {
    const braid_number *cap = d < devices ? &problem->devices[d].cap_watts : &problem->cap_watts;
    bool fast = d == devices || braid_hybrid_is_fast(&g->hybrid, (int)d);
    g->followed[d] = fast && cap->source != BRAID_UNKNOWN &&
                     braid_dvfs_measures(problem, &g->hybrid.base, d < devices ? (int)d : -1);
    g->capped |= g->followed[d];
  }
}

/* While it runs; interference makes it longer, and draws no less. */
static double watts_of(const braid_offer *offer, double seconds) {
  return offer->joules.value / (offer->seconds.value > 0 ? offer->seconds.value : seconds);
}

/* Adds what tasks from the `first` on and idle devices draw from `from` to `to` of this run, so many times. */
static void add_joules(const governor *g, size_t first, double from, double to, double times, double *joules) {
  const braid_problem *problem = g->hybrid.problem;
  const braid_choices *choices = g->hybrid.choices;
  double *all = &joules[problem->device_count], length = times * (to - from);
  for (size_t d = 0; d < problem->device_count; d++) {
    joules[d] += problem->devices[d].idle_watts.value * length;
    *all += problem->devices[d].idle_watts.value * length;
  }
  for (size_t i = first; i < choices->task_count; i++) {
    int32_t task = choices->order[i];
    const braid_offer *offer = &problem->offers[choices->offer_of[task]];
    double start = choices->start[task], end = choices->end[task];
    double common = times * (fmin(end, to) - fmax(start, from));
    if (!(common > 0)) continue;
    double watts = watts_of(offer, end - start), share = watts / (double)(offer->also_count + 1);
    for (size_t k = 0; k <= offer->also_count; k++) {
      int device = k < offer->also_count ? offer->also[k] : offer->device;
      joules[device] += (share - problem->devices[device].idle_watts.value) * common;
    }
    *all += (watts - braid_offer_idle_watts(problem, offer)) * common;
  }
}

/* Whether the window's average is above a part of the machine's cap, or of a GPU's that of the GPU. */
static bool is_above(const governor *g, double part) {
  const braid_problem *problem = g->hybrid.problem;
  bool above = false;
  for (size_t d = 0; d <= problem->device_count; d++) {
    const braid_number *cap = d < problem->device_count ? &problem->devices[d].cap_watts : &problem->cap_watts;
    above |= g->followed[d] && g->window[d] / kPeriod > part * cap->value * (1 + kSame);
  }
  return above;
}

/* Until when, at most until `now`, power is what it is at `at`. */
static double next_change(const governor *g, double at, double now) {
  const braid_choices *choices = g->hybrid.choices;
  for (size_t i = g->first; i < choices->task_count; i++) {
    double start = choices->start[choices->order[i]], end = choices->end[choices->order[i]];
    if (start > at) now = fmin(now, start);
    if (end > at) now = fmin(now, end);
  }
  return now;
}

/* Power that does not change for so many periods leads to the last clock: those between its first and its last ones
 * decide nothing. */
static void pass_constant(governor *g, double now) {
  double most = 2.0 * (g->lowest + 1), periods = floor((next_change(g, g->sampled, now) - g->sampled) / kPeriod);
  if (g->sampled >= 0 && periods > 2 * most + 1) g->sampled += (periods - most) * kPeriod;
}

static void take_sample(governor *g) {
  const braid_choices *choices = g->hybrid.choices;
  size_t sums = (g->hybrid.problem->device_count + 1) * sizeof *g->window;
  double from = fmax(g->sampled, 0);
  while (g->first < choices->task_count && choices->end[choices->order[g->first]] <= from) g->first++;
  if (g->sampled < 0)
    memcpy(g->window, g->carried, sums);
  else
    memset(g->window, 0, sums);
  add_joules(g, g->first, from, g->sampled + kPeriod, 1, g->window);
  if (is_above(g, 1)) {
    if (g->state < g->lowest) g->state++;
  } else if (g->state > 0 && !is_above(g, kBand)) {
    g->state--;
  }
}

/* False: there was no sample by then. */
static bool sample_until(governor *g, double now) {
  bool any = false;
  if (!g->capped) return false;
  for (; g->sampled + kPeriod <= now + kSame * kPeriod && g->sampled + kPeriod > g->sampled; g->sampled += kPeriod) {
    take_sample(g);
    any = true;
    pass_constant(g, now);
  }
  return any;
}

/* The base's offer at the clock of the moment, or at the nearest above it; of what is no GPU the base's own. */
static int32_t at_clock(const governor *g, int32_t task) {
  const braid_hybrid *h = &g->hybrid;
  int32_t base = h->base.offer_of[task], best = base;
  if (!braid_hybrid_is_fast(h, h->problem->offers[base].device)) return base;
  for (size_t i = h->alternatives.first[task]; i < h->alternatives.first[task + 1]; i++) {
    int32_t index = h->alternatives.offers[i];
    const braid_offer *offer = &h->problem->offers[index], *least = &h->problem->offers[best];
    if (is_metered(offer) != is_metered(&h->problem->offers[base])) continue; /* else it might not be measured then */
    if (offer->device == h->problem->offers[base].device && offer->clock <= g->state && offer->clock > least->clock)
      best = index;
  }
  return best;
}

static int32_t pick(const braid_simulation *s, int device, void *context) {
  governor *g = context;
  g->any |= sample_until(g, s->now);
  for (size_t i = 0; i < s->ready_count; i++) {
    int32_t index = at_clock(g, s->ready[i]);
    const braid_offer *offer = &g->hybrid.problem->offers[index];
    if (offer->device == device && braid_simulation_free(s, offer)) return index;
  }
  return -1;
}

/* --- run after run -------------------------------------------------------------------------------------------------
 */
static braid_status run_once(governor *g, const int *order) {
  const braid_hybrid *h = &g->hybrid;
  for (size_t n = 0; n < h->problem->node_count; n++) h->choices->offer_of[n] = h->base.offer_of[n];
  g->any = false;
  g->first = 0;
  return braid_simulate(
      h->choosing, h->choices,
      &(braid_rule){.order = order, .pick = pick, .context = g, .clocks = g->clocks, .alternatives = &h->alternatives},
      false);
}

/* Sets the clocks to those at which the run ended; whether they were. */
static bool keep_clocks(governor *g) {
  const braid_choices *choices = g->hybrid.choices;
  bool same = true;
  memcpy(g->before, g->clocks, g->hybrid.problem->device_count * sizeof *g->before);
  for (size_t i = 0; i < choices->task_count; i++) {
    const braid_offer *offer = &g->hybrid.problem->offers[choices->offer_of[choices->order[i]]];
    for (size_t k = 0; k <= offer->also_count; k++)
      g->clocks[k < offer->also_count ? offer->also[k] : offer->device] = offer->clock;
  }
  for (size_t d = 0; d < g->hybrid.problem->device_count; d++) same &= g->clocks[d] == g->before[d];
  return same;
}

/* To the beginning of the next run: clocks stay, and the window goes on. While no sample falls into a run all are
 * alike, so those are counted together that are over before the next one. Returns how many are. */
static double go_on(governor *g) {
  const braid_choices *choices = g->hybrid.choices;
  double end = choices->seconds.value, more = 0;
  g->any |= sample_until(g, end);
  if (g->sampled >= 0) memset(g->carried, 0, (g->hybrid.problem->device_count + 1) * sizeof *g->carried);
  add_joules(g, g->first, fmax(g->sampled, 0), end, 1, g->carried);
  g->sampled -= end;
  bool same = keep_clocks(g);
  if (!g->any && same) more = fmax(0, floor((kPeriod + g->sampled) / end));
  g->sampled -= more * end;
  if (more > 0) add_joules(g, 0, 0, end, more, g->carried);
  return 1 + more;
}

static double idle_joules(const braid_problem *problem, const braid_choices *choices) {
  double joules = 0;
  for (size_t d = 0; d < problem->device_count; d++)
    joules += problem->devices[d].idle_watts.value * choices->seconds.value;
  for (size_t i = 0; i < choices->task_count; i++) {
    int32_t task = choices->order[i];
    joules -= braid_offer_idle_watts(problem, &problem->offers[choices->offer_of[task]]) *
              (choices->end[task] - choices->start[task]);
  }
  return joules;
}

static braid_status count_power(const governor *g, double runs, braid_mean_run *sums) {
  const braid_choosing *choosing = g->hybrid.choosing;
  braid_arena *arena;
  braid_power power;
  BRAID_TRY(braid_arena_create(choosing->allocator, &arena));
  braid_status status = braid_power_of(choosing->problem, g->hybrid.choices, choosing->allocator, arena, &power);
  braid_arena_destroy(arena);
  if (status != BRAID_OK) return status;
  sums->peak_watts = fmax(sums->peak_watts, power.peak_watts.value);
  sums->violations += runs * (double)power.violations;
  sums->seconds_above += runs * power.seconds_above;
  return BRAID_OK;
}

/* Adds the run, so many times, to sums. */
static braid_status count_runs(const governor *g, double runs, braid_mean_run *sums) {
  const braid_choices *choices = g->hybrid.choices;
  double seconds = choices->seconds.value;
  sums->shortest = sums->runs > 0 ? fmin(sums->shortest, seconds) : seconds;
  sums->longest = fmax(sums->longest, seconds);
  sums->runs += runs;
  sums->seconds += runs * seconds;
  sums->joules += runs * choices->joules.value;
  sums->idle_joules += runs * idle_joules(g->hybrid.problem, choices);
  add_joules(g, 0, 0, seconds, runs, sums->device_joules);
  return count_power(g, runs, sums);
}

/* Runs that follow each other; behind the beginning, in which the clocks come down from the top, they are counted until
 * there are enough: the window moves on over the run from one to the next, so that no single run stands for them. */
static braid_status run_on(governor *g, const int *order) {
  braid_choices *choices = g->hybrid.choices;
  size_t devices = g->hybrid.problem->device_count;
  braid_mean_run sums = {0};
  double least = INFINITY, most = 0, before = 0;
  int counted = 0, runs = 0;
  sums.device_joules = braid_arena_alloc(g->hybrid.choosing->arena, (devices + 1) * sizeof *sums.device_joules);
  if (!sums.device_joules) return BRAID_NO_MEMORY;
  for (; counted < kMostRuns && (counted < kLeastRuns || sums.seconds < kMostPeriods * kPeriod); runs++) {
    bool counts = before >= kBeginning * kPeriod || runs >= kMostRuns;
    BRAID_TRY(run_once(g, order));
    if (!g->capped || !(choices->seconds.value > 0)) return BRAID_OK;
    double alike = go_on(g);
    before += alike * choices->seconds.value;
    if (!counts) continue;
    BRAID_TRY(count_runs(g, alike, &sums));
    least = fmin(least, choices->joules.value), most = fmax(most, choices->joules.value);
    counted++;
  }
  if (sums.longest - sums.shortest <= kSame * sums.longest && most - least <= kSame * most) return BRAID_OK;
  sums.seconds /= sums.runs, sums.joules /= sums.runs, sums.idle_joules /= sums.runs;
  sums.violations /= sums.runs, sums.seconds_above /= sums.runs;
  for (size_t d = 0; d < devices; d++) sums.device_joules[d] /= sums.runs;
  choices->mean = sums;
  return BRAID_OK;
}

static const char *find_reason(const braid_hybrid *h, const braid_offer *offer) {
  int device = offer->device;
  if (!braid_hybrid_is_fast(h, device))
    return h->problem->nodes[offer->nodes[0]].fixed == device ? "by hand" : "no GPU runs it, or what stands for one";
  return h->fast == BRAID_CLASS_GPU ? "on the GPU, at the clock that measured power led to"
                                    : "on what stands for a GPU, at the clock that measured power led to";
}

static braid_status dvfs_choose(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  governor g = {0};
  int *order;
  BRAID_TRY(braid_hybrid_init(choosing, choices, &g.hybrid));
  BRAID_TRY(braid_hybrid_order(&g.hybrid, true, &order));
  g.clocks = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.clocks);
  g.before = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.before);
  g.carried = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.carried);
  g.window = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.window);
  g.followed = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.followed);
  if (!g.clocks || !g.before || !g.carried || !g.window || !g.followed) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++)
    if (braid_hybrid_is_fast(&g.hybrid, problem->offers[i].device) && problem->offers[i].clock > g.lowest)
      g.lowest = problem->offers[i].clock;
  find_followed(&g);
  BRAID_TRY(run_on(&g, order));
  for (size_t i = 0; i < choices->task_count; i++)
    choices->reasons[choices->order[i]] =
        find_reason(&g.hybrid, &problem->offers[choices->offer_of[choices->order[i]]]);
  choices->ordered = true;
  return BRAID_OK;
}

const braid_policy braid_policy_dvfs = {
    .name = "dvfs",
    .summary = "everything on the GPUs, whose clocks follow measured power with a lag; exceeds a cap meanwhile",
    .choose = dvfs_choose,
};
