/* What GPUs do by themselves about a power limit, for comparison: everything on the GPUs, whose clocks follow the power
 * that was measured. Once in a period the average of the period is compared with the cap, and that of each GPU with its
 * own; above one of them the clocks go down by one state, well below all up by one, those of all GPUs together. So they
 * react late, and the cap is exceeded meanwhile.
 * A step is one of many: it begins at the clocks, and in the window, that the one before it left.
 *
 * Period and band are assumptions: no vendor publishes them. NVIDIA's sensor is refreshed about every 100 ms on some
 * cards, every 20 ms on others (Yang et al., "Part-time Power Measurements: nvidia-smi's Lack of Attention", 2024). */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policies/hybrid.h"

static const double kPeriod = 20e-3, kBand = 0.95;

typedef struct governor {
  braid_hybrid hybrid;
  double sampled; /* until here; below 0: in the runs before this one */
  /* Joules of these since then, and of a window: per device, and behind them of all together. */
  double *carried, *window;
  int state; /* of the clocks; 0: the highest */
  int lowest;
  bool capped; /* the machine or a GPU is */
  bool any;    /* a sample fell into this run */
  int *clocks; /* per device: at which the run begins */
} governor;

/* Adds what tasks and idle devices draw from `from` to `to` of this run, so many times. */
static void add_joules(const governor *g, const braid_choices *choices, double from, double to, double times,
                       double *joules) {
  const braid_problem *problem = g->hybrid.problem;
  double *all = &joules[problem->device_count], length = times * (to - from);
  for (size_t d = 0; d < problem->device_count; d++) {
    joules[d] += problem->devices[d].idle_watts.value * length;
    *all += problem->devices[d].idle_watts.value * length;
  }
  for (size_t i = choices->task_count; i-- > 0;) {
    int32_t task = choices->order[i];
    const braid_offer *offer = &problem->offers[choices->offer_of[task]];
    double start = choices->start[task], end = choices->end[task];
    double common = times * ((end < to ? end : to) - (start > from ? start : from));
    if (common <= 0 || end <= start) continue;
    double watts = offer->joules.value / (end - start), share = watts / (double)(offer->also_count + 1);
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
  const braid_number *cap = &problem->cap_watts;
  bool above = cap->source != BRAID_UNKNOWN && g->window[problem->device_count] / kPeriod > part * cap->value;
  for (size_t d = 0; d < problem->device_count; d++) {
    cap = &problem->devices[d].cap_watts;
    above |= cap->source != BRAID_UNKNOWN && braid_hybrid_is_fast(&g->hybrid, (int)d) &&
             g->window[d] / kPeriod > part * cap->value;
  }
  return above;
}

/* False: there was no sample by then. */
static bool sample_until(governor *g, const braid_choices *choices, double now) {
  size_t sums = (g->hybrid.problem->device_count + 1) * sizeof *g->window;
  bool any = false;
  if (!g->capped) return false;
  /* Power that does not change for so many periods leads to the last clock: what came before them decides nothing. */
  double most = 2.0 * (g->lowest + 1);
  if (now - g->sampled > (most + 1) * kPeriod) g->sampled = now - most * kPeriod;
  for (; g->sampled + kPeriod <= now && g->sampled + kPeriod > g->sampled; g->sampled += kPeriod) {
    if (g->sampled < 0)
      memcpy(g->window, g->carried, sums);
    else
      memset(g->window, 0, sums);
    add_joules(g, choices, fmax(g->sampled, 0), g->sampled + kPeriod, 1, g->window);
    if (is_above(g, 1)) {
      if (g->state < g->lowest) g->state++;
    } else if (g->state > 0 && !is_above(g, kBand)) {
      g->state--;
    }
    any = true;
  }
  return any;
}

/* The base's offer at the clock of the moment, or at the nearest above it. */
static int32_t at_clock(const governor *g, int32_t task) {
  const braid_hybrid *h = &g->hybrid;
  int32_t base = h->base.offer_of[task], best = base;
  for (size_t i = h->alternatives.first[task]; i < h->alternatives.first[task + 1]; i++) {
    int32_t index = h->alternatives.offers[i];
    const braid_offer *offer = &h->problem->offers[index], *least = &h->problem->offers[best];
    if (offer->device == h->problem->offers[base].device && offer->clock <= g->state && offer->clock > least->clock)
      best = index;
  }
  return best;
}

static int32_t pick(const braid_simulation *s, int device, void *context) {
  governor *g = context;
  g->any |= sample_until(g, s->choices, s->now);
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
  return braid_simulate(
      h->choosing, h->choices,
      &(braid_rule){.order = order, .pick = pick, .context = g, .clocks = g->clocks, .alternatives = &h->alternatives},
      false);
}

/* To the beginning of the next run: clocks stay, and the window goes on. While no sample falls into a run all are
 * alike, so those are counted together that are over before the next one. */
static void go_on(governor *g) {
  const braid_choices *choices = g->hybrid.choices;
  double end = choices->seconds.value;
  g->any |= sample_until(g, choices, end);
  if (g->sampled >= 0) memset(g->carried, 0, (g->hybrid.problem->device_count + 1) * sizeof *g->carried);
  add_joules(g, choices, fmax(g->sampled, 0), end, 1, g->carried);
  g->sampled -= end;
  if (!g->any && end > 0) {
    double more = floor((kPeriod + g->sampled) / end);
    g->sampled -= more * end;
    add_joules(g, choices, 0, end, more, g->carried);
  }
  for (size_t i = 0; i < choices->task_count; i++) {
    const braid_offer *offer = &g->hybrid.problem->offers[choices->offer_of[choices->order[i]]];
    for (size_t k = 0; k <= offer->also_count; k++)
      g->clocks[k < offer->also_count ? offer->also[k] : offer->device] = offer->clock;
  }
}

/* Runs that follow each other, until one ends with the clocks that it began with; a clock that one began with before
 * comes back otherwise, after as many runs as there are clocks at most. */
static braid_status run_on(governor *g, const int *order) {
  braid_choices *choices = g->hybrid.choices;
  bool *seen = braid_arena_alloc(g->hybrid.choosing->arena, (size_t)g->lowest + 1);
  if (!seen) return BRAID_NO_MEMORY;
  for (;;) {
    int first = g->state;
    BRAID_TRY(run_once(g, order));
    bool sampled = g->capped && choices->seconds.value > 0;
    go_on(g);
    if (!sampled || (g->any && g->state == first)) return BRAID_OK;
    choices->unsettled = g->any && seen[g->state];
    if (choices->unsettled) return BRAID_OK;
    seen[first] |= g->any;
  }
}

static braid_status dvfs_choose(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  governor g = {0};
  int *order;
  BRAID_TRY(braid_hybrid_init(choosing, choices, &g.hybrid));
  BRAID_TRY(braid_hybrid_order(&g.hybrid, true, &order));
  g.clocks = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.clocks);
  g.carried = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.carried);
  g.window = braid_arena_alloc(choosing->arena, (problem->device_count + 1) * sizeof *g.window);
  if (!g.clocks || !g.carried || !g.window) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++)
    if (braid_hybrid_is_fast(&g.hybrid, problem->offers[i].device) && problem->offers[i].clock > g.lowest)
      g.lowest = problem->offers[i].clock;
  g.capped = problem->cap_watts.source != BRAID_UNKNOWN;
  for (size_t d = 0; d < problem->device_count; d++)
    g.capped |= braid_hybrid_is_fast(&g.hybrid, (int)d) && problem->devices[d].cap_watts.source != BRAID_UNKNOWN;
  BRAID_TRY(run_on(&g, order));
  for (size_t i = 0; i < choices->task_count; i++)
    choices->reasons[choices->order[i]] = "on the GPU, at the clock that measured power led to";
  choices->ordered = true;
  return BRAID_OK;
}

const braid_policy braid_policy_dvfs = {
    .name = "dvfs",
    .summary = "everything on the GPUs, whose clocks follow measured power with a lag; exceeds a cap meanwhile",
    .choose = dvfs_choose,
};
