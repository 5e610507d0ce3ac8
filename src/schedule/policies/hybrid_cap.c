/* Hype-training, case 2: most throughput under a power cap. Whenever a device is idle, it starts an operation whose
 * peak keeps the sum under the cap, fast devices first; if there is none, it waits. Another device takes what it would
 * end before the fast ones could. Of a device's offers the fastest that fits is taken, so a lower clock serves where
 * the highest exceeds the cap.
 *
 * The result is compared with the fast devices alone and with heft.c under the same cap; the fastest is taken. */
#include <string.h>

#include "base/try.h"
#include "schedule/policies/hybrid.h"

/* What a fast device would need for the task if it could start it at once, by its fastest offer; < 0: none can. */
static double fast_seconds(const braid_hybrid *h, int32_t task) {
  double least = -1;
  for (size_t i = h->alternatives.first[task]; i < h->alternatives.first[task + 1]; i++) {
    const braid_offer *offer = &h->problem->offers[h->alternatives.offers[i]];
    if (!braid_hybrid_is_fast(h, offer->device) || offer->seconds.source == BRAID_UNKNOWN) continue;
    if (least < 0 || offer->seconds.value < least) least = offer->seconds.value;
  }
  return least;
}

static int32_t pick(const braid_simulation *s, int device, void *context) {
  const braid_hybrid *h = context;
  bool fast = braid_hybrid_is_fast(h, device);
  double busy = braid_hybrid_busy(h, s);
  for (size_t i = 0; i < s->ready_count; i++) {
    int32_t task = s->ready[i], index = braid_hybrid_offer(h, s, task, device);
    if (index < 0) continue;
    const braid_offer *offer = &h->problem->offers[index];
    double there = fast ? -1 : fast_seconds(h, task);
    bool known = offer->seconds.source != BRAID_UNKNOWN;
    if (there < 0 || (known && braid_simulation_moving(s, offer) + offer->seconds.value <= busy + there)) return index;
  }
  return -1;
}

/* If nothing runs and no device wanted anything, what is ready would wait for ever: the first task that any device may
 * run then goes there. */
static int32_t pick_any(const braid_simulation *s, int device, void *context) {
  const braid_hybrid *h = context;
  int32_t index = pick(s, device, context);
  if (index >= 0) return index;
  for (size_t d = 0; d < h->problem->device_count; d++)
    if (s->running[d] >= 0) return -1;
  for (size_t i = 0; i < s->ready_count; i++) {
    for (size_t d = 0; d < h->problem->device_count; d++) {
      index = braid_hybrid_offer(h, s, s->ready[i], (int)d);
      if (index < 0) continue;
      if ((int)d == device) return index;
      break; /* its turn comes, or has been */
    }
  }
  return -1;
}

static void keep_faster(braid_choices *best, braid_choices *trial) {
  bool known = trial->seconds.source != BRAID_UNKNOWN, was = best->seconds.source != BRAID_UNKNOWN;
  if (best->task_count && (known == was ? trial->seconds.value >= best->seconds.value : was)) return;
  braid_choices swap = *best;
  *best = *trial;
  *trial = swap;
}

static braid_status try_static(const braid_choosing *choosing, const braid_choices *given, braid_choices *trial,
                               const char *reason, braid_choices *best) {
  if (!given->task_count) return BRAID_OK;
  memcpy(trial->offer_of, given->offer_of, choosing->problem->node_count * sizeof *trial->offer_of);
  memcpy(trial->order, given->order, given->task_count * sizeof *trial->order);
  trial->task_count = given->task_count;
  BRAID_TRY(braid_simulate(choosing, trial, NULL, true));
  for (size_t i = 0; i < trial->task_count; i++) trial->reasons[trial->order[i]] = reason;
  keep_faster(best, trial);
  return BRAID_OK;
}

static braid_status hybrid_cap_choose(const braid_choosing *choosing, braid_choices *choices) {
  const braid_problem *problem = choosing->problem;
  braid_hybrid hybrid;
  braid_choices trial;
  int *order;
  BRAID_TRY(braid_hybrid_init(choosing, choices, &hybrid));
  BRAID_TRY(braid_hybrid_order(&hybrid, true, &order));
  BRAID_TRY(braid_choices_init(choosing, &trial));
  memcpy(trial.offer_of, hybrid.base.offer_of, problem->node_count * sizeof *trial.offer_of);
  BRAID_TRY(braid_simulate(
      choosing, &trial,
      &(braid_rule){.order = order, .pick = pick_any, .context = &hybrid, .alternatives = &hybrid.alternatives}, true));
  for (size_t i = 0; i < trial.task_count; i++)
    trial.reasons[trial.order[i]] =
        braid_hybrid_is_fast(&hybrid, problem->offers[trial.offer_of[trial.order[i]]].device)
            ? "the fastest that the cap left when it was ready"
            : "ends before a fast device could, or could under the cap";
  BRAID_TRY(braid_choices_repeat(&braid_policy_hybrid_cap, choosing, true, &trial)); /* as the others are compared */
  keep_faster(choices, &trial);
  BRAID_TRY(try_static(choosing, &hybrid.base, &trial, "the fast devices alone are faster under the cap", choices));
  braid_choices spread;
  BRAID_TRY(braid_choices_init(choosing, &spread));
  BRAID_TRY(braid_policy_heft.choose(choosing, &spread));
  BRAID_TRY(try_static(choosing, &spread, &trial, "the earliest end without a cap is the fastest under it", choices));
  choices->ordered = true;
  return BRAID_OK;
}

const braid_policy braid_policy_hybrid_cap = {
    .name = "hybrid-cap",
    .summary = "most throughput under the power caps, which hold by the peaks of what runs at the same time "
               "(Hype-training, case 2)",
    .capped = true,
    .choose = hybrid_cap_choose,
};
