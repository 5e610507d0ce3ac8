/* Hype-training, case 1: least energy without losing throughput. What another device runs no slower, or off the
 * critical path, is offloaded (hybrid.c); then, whenever a device is idle, it starts what was meant for it, and an idle
 * fast device takes what was meant for another one rather than wait. A node is not offloaded if bringing what it reads
 * would take longer than what the fast device does meanwhile (section 3.4).
 *
 * What the simulation finds slower than the fast devices alone is taken back, the smallest gains first. */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "schedule/policies/hybrid.h"

typedef struct energy {
  braid_hybrid hybrid;
  bool *taken_back; /* per task: in this simulation, since its inputs would be late */
} energy;

/* How long a fast device computes from now on before it can run what is being asked about: its task of the moment. */
static double hidden_seconds(const energy *e, const braid_simulation *s) {
  double most = 0;
  for (size_t d = 0; d < e->hybrid.problem->device_count; d++) {
    if (!braid_hybrid_is_fast(&e->hybrid, (int)d) || s->running[d] < 0) continue;
    double seconds = s->choices->end[s->running[d]] - s->choices->start[s->running[d]];
    if (seconds > most) most = seconds;
  }
  return most;
}

static int32_t pick_offloaded(energy *e, const braid_simulation *s, int device) {
  for (size_t i = 0; i < s->ready_count; i++) {
    int32_t task = s->ready[i];
    if (!e->hybrid.offloaded[task] || e->taken_back[task]) continue;
    int32_t index = braid_hybrid_offer(&e->hybrid, NULL, task, device);
    if (index < 0 || !braid_simulation_free(s, &e->hybrid.problem->offers[index])) continue;
    double moving = braid_simulation_moving(s, &e->hybrid.problem->offers[index]);
    if (moving <= 0 || moving <= hidden_seconds(e, s)) return index;
    e->taken_back[task] = true;
  }
  return -1;
}

static int32_t pick(const braid_simulation *s, int device, void *context) {
  energy *e = context;
  if (!braid_hybrid_is_fast(&e->hybrid, device)) {
    int32_t own = pick_offloaded(e, s, device);
    if (own >= 0) return own;
  }
  int32_t stolen = -1;
  for (size_t i = 0; i < s->ready_count; i++) {
    int32_t task = s->ready[i], base = e->hybrid.base.offer_of[task];
    const braid_offer *offer = &e->hybrid.problem->offers[base];
    if (offer->device != device || !braid_simulation_free(s, offer)) continue;
    if (!e->hybrid.offloaded[task] || e->taken_back[task]) return base;
    if (stolen < 0) stolen = base;
  }
  return stolen;
}

static braid_status simulate(energy *e, const int *order) {
  const braid_hybrid *h = &e->hybrid;
  memset(e->taken_back, 0, h->problem->node_count * sizeof *e->taken_back);
  for (size_t i = 0; i < h->base.task_count; i++) {
    const braid_offer *offer = &h->problem->offers[h->base.offer_of[h->base.order[i]]];
    int32_t index = h->offloaded[h->base.order[i]] ? h->other[h->base.order[i]] : h->base.offer_of[h->base.order[i]];
    for (size_t k = 0; k < offer->node_count; k++) h->choices->offer_of[offer->nodes[k]] = index;
  }
  BRAID_TRY(braid_simulate(h->choosing, h->choices,
                           &(braid_rule){.order = order, .pick = pick, .context = e, .alternatives = &h->alternatives},
                           false));
  /* what is judged is a run of many: each device begins at the clock at which it ends */
  return h->choices->steady ? BRAID_OK : braid_choices_play(h->choosing, h->choices);
}

/* No slower by times that are known, and not at a higher cost. */
static bool is_good(const energy *e) {
  const braid_choices *base = &e->hybrid.base, *now = e->hybrid.choices;
  if (now->seconds.source == BRAID_UNKNOWN || base->seconds.source == BRAID_UNKNOWN) return false;
  return now->seconds.value <= base->seconds.value * (1 + 1e-12) &&
         (now->joules.source == BRAID_UNKNOWN || now->joules.value <= base->joules.value);
}

/* Finds by bisection how many of the largest gains can stay. */
static braid_status take_back(energy *e, const int *order) {
  braid_hybrid *h = &e->hybrid;
  int32_t *list = braid_zalloc_array(h->choosing->allocator, h->base.task_count + 1, sizeof *list);
  if (!list) return BRAID_NO_MEMORY;
  size_t count = 0, good = 0;
  for (size_t i = 0; i < h->base.task_count; i++)
    if (h->offloaded[h->base.order[i]]) list[count++] = h->base.order[i];
  qsort_r(list, count, sizeof *list, braid_hybrid_by_gain, h);
  braid_status status = BRAID_OK;
  for (size_t bad = count; status == BRAID_OK && bad - good > 1;) {
    size_t middle = good + (bad - good) / 2;
    for (size_t i = 0; i < count; i++) h->offloaded[list[i]] = i < middle;
    status = simulate(e, order);
    if (status == BRAID_OK && is_good(e))
      good = middle;
    else
      bad = middle;
  }
  for (size_t i = 0; i < count; i++) {
    h->offloaded[list[i]] = i < good;
    if (i >= good) h->choices->reasons[list[i]] = "offloaded, the step would take longer or cost more";
  }
  braid_free(h->choosing->allocator, list);
  return status == BRAID_OK && good ? simulate(e, order) : status;
}

static void explain(const energy *e) {
  const braid_hybrid *h = &e->hybrid;
  for (size_t i = 0; i < h->choices->task_count; i++) {
    int32_t task = h->choices->order[i];
    bool fast = braid_hybrid_is_fast(h, h->problem->offers[h->choices->offer_of[task]].device);
    if (!h->offloaded[task] || !fast) continue;
    h->choices->reasons[task] = e->taken_back[task] ? "bringing what it reads would take longer than what hides it"
                                                    : "meant for another device, which was not idle";
  }
}

/* What the fast devices took after all was expected elsewhere, and its inputs were brought there: again without this,
 * unless it then takes longer or costs more. */
static braid_status settle(energy *e, const int *order) {
  braid_hybrid *h = &e->hybrid;
  bool *expected = braid_zalloc_array(h->choosing->allocator, h->problem->node_count + 1, sizeof *expected);
  if (!expected) return BRAID_NO_MEMORY;
  memcpy(expected, h->offloaded, h->problem->node_count * sizeof *expected);
  double seconds = h->choices->seconds.value, joules = h->choices->joules.value;
  size_t taken = 0;
  for (size_t i = 0; i < h->choices->task_count; i++) {
    int32_t task = h->choices->order[i];
    if (!h->offloaded[task] || !braid_hybrid_is_fast(h, h->problem->offers[h->choices->offer_of[task]].device))
      continue;
    h->offloaded[task] = false;
    taken++;
  }
  braid_status status = taken ? simulate(e, order) : BRAID_OK;
  bool better = is_good(e) && h->choices->seconds.value <= seconds && h->choices->joules.value <= joules;
  if (status == BRAID_OK && !better) {
    memcpy(h->offloaded, expected, h->problem->node_count * sizeof *expected);
    status = simulate(e, order);
  }
  braid_free(h->choosing->allocator, expected);
  return status;
}

static braid_status hybrid_energy_choose(const braid_choosing *choosing, braid_choices *choices) {
  energy e;
  int *order;
  BRAID_TRY(braid_hybrid_init(choosing, choices, &e.hybrid));
  e.taken_back = braid_arena_alloc(choosing->arena, choosing->problem->node_count + 1);
  if (!e.taken_back) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_hybrid_offload(&e.hybrid));
  BRAID_TRY(braid_hybrid_order(&e.hybrid, false, &order));
  BRAID_TRY(simulate(&e, order));
  if (!is_good(&e)) BRAID_TRY(take_back(&e, order));
  choices->ordered = true;
  if (is_good(&e)) {
    explain(&e);
    return settle(&e, order);
  }
  const braid_choices *base = &e.hybrid.base;
  memcpy(choices->offer_of, base->offer_of, choosing->problem->node_count * sizeof *choices->offer_of);
  memcpy(choices->order, base->order, base->task_count * sizeof *choices->order);
  choices->task_count = base->task_count;
  return braid_choices_play(choosing, choices);
}

const braid_policy braid_policy_hybrid_energy = {
    .name = "hybrid-energy",
    .summary = "least energy at no loss of throughput: what other devices run no slower leaves the fast ones "
               "(Hype-training, case 1)",
    .no_loss = true,
    .choose = hybrid_energy_choose,
};
