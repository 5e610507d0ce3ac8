/* What GPUs do by themselves about a power limit, for comparison: everything on the GPUs, whose clocks follow the power
 * that was measured. Once in a period the average of the period is compared with the cap; above it the clocks go down
 * by one state, well below it up by one. So they react late, and the cap is exceeded meanwhile.
 *
 * Period and band are assumptions: no vendor publishes them. NVIDIA's sensor is refreshed about every 100 ms on some
 * cards, every 20 ms on others (Yang et al., "Part-time Power Measurements: nvidia-smi's Lack of Attention", 2024). */
#include "base/try.h"
#include "schedule/policies/hybrid.h"

static const double kPeriod = 20e-3, kBand = 0.95;

typedef struct governor {
  braid_hybrid hybrid;
  double sampled; /* until here */
  int state;      /* of the clocks; 0: the highest */
  int lowest;
} governor;

/* Average of what tasks and idle devices drew from `from` to `to`, by their energy. */
static double measured_watts(const governor *g, const braid_simulation *s, double from, double to) {
  const braid_problem *problem = g->hybrid.problem;
  double joules = 0;
  for (size_t d = 0; d < problem->device_count; d++) joules += problem->devices[d].idle_watts.value * (to - from);
  for (size_t i = s->choices->task_count; i-- > 0;) {
    int32_t task = s->choices->order[i];
    const braid_offer *offer = &problem->offers[s->choices->offer_of[task]];
    double start = s->choices->start[task], end = s->choices->end[task];
    double common = (end < to ? end : to) - (start > from ? start : from);
    if (common <= 0 || end <= start) continue;
    joules += (offer->joules.value / (end - start) - braid_offer_idle_watts(problem, offer)) * common;
  }
  return joules / (to - from);
}

static void sample(governor *g, const braid_simulation *s) {
  const braid_number *cap = &g->hybrid.problem->cap_watts;
  if (cap->source == BRAID_UNKNOWN) return;
  /* Power that does not change for so many periods leads to the last clock: what came before them decides nothing. */
  double most = 2.0 * (g->lowest + 1);
  if (s->now - g->sampled > (most + 1) * kPeriod) g->sampled = s->now - most * kPeriod;
  for (; g->sampled + kPeriod <= s->now && g->sampled + kPeriod > g->sampled; g->sampled += kPeriod) {
    double watts = measured_watts(g, s, g->sampled, g->sampled + kPeriod);
    if (watts > cap->value && g->state < g->lowest) g->state++;
    if (watts < cap->value * kBand && g->state > 0) g->state--;
  }
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
  sample(g, s);
  for (size_t i = 0; i < s->ready_count; i++) {
    int32_t index = at_clock(g, s->ready[i]);
    const braid_offer *offer = &g->hybrid.problem->offers[index];
    if (offer->device == device && braid_simulation_free(s, offer)) return index;
  }
  return -1;
}

static braid_status dvfs_choose(const braid_choosing *choosing, braid_choices *choices) {
  governor g = {0};
  int *order;
  BRAID_TRY(braid_hybrid_init(choosing, choices, &g.hybrid));
  BRAID_TRY(braid_hybrid_order(&g.hybrid, true, &order));
  for (size_t i = 0; i < choosing->problem->offer_count; i++)
    if (braid_hybrid_is_fast(&g.hybrid, choosing->problem->offers[i].device) &&
        choosing->problem->offers[i].clock > g.lowest)
      g.lowest = choosing->problem->offers[i].clock;
  for (size_t n = 0; n < choosing->problem->node_count; n++) choices->offer_of[n] = g.hybrid.base.offer_of[n];
  BRAID_TRY(braid_simulate(
      choosing, choices,
      &(braid_rule){.order = order, .pick = pick, .context = &g, .alternatives = &g.hybrid.alternatives}, false));
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
