/* What was offered for each task of a plan, kept for whoever asks (braid_plan_get_offer). */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "runtime/plan/placing.h"

typedef struct explaining {
  const braid_placing *placing;
  braid_placement *places;
  size_t *counts;           /* per task */
  int32_t *last;            /* per task: the offer that was added last */
  braid_plan_offer **rooms; /* per task */
} explaining;

static const int32_t *subject_nodes(const braid_placing *p, size_t subject, size_t *count) {
  size_t nodes = p->plan->graph->node_count;
  const braid_fusion *fusion = subject < nodes ? NULL : &p->fusions.items[subject - nodes];
  *count = fusion ? fusion->node_count : 1;
  return fusion ? fusion->nodes : &p->ids[subject];
}

static const char *subject_op(const braid_placing *p, size_t subject) {
  size_t nodes = p->plan->graph->node_count;
  return subject < nodes ? p->plan->graph->nodes[subject].op->name : p->fusions.items[subject - nodes].op;
}

static const char *name_nodes(const braid_placing *p, const int32_t *nodes, size_t count) {
  char text[512];
  size_t used = 0;
  bool long_list = count > BRAID_FUSION_NODES;
  if (long_list) {
    used = (size_t)snprintf(text, sizeof text, "%.200s to %.200s, %zu nodes", p->nodes[nodes[0]].name,
                            p->nodes[nodes[count - 1]].name, count);
  } else {
    for (size_t i = 0; i < count; i++)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%.110s", i ? " + " : "", p->nodes[nodes[i]].name);
  }
  return braid_arena_text(p->plan->arena, text, used);
}

static bool holds(const braid_offer *offer, int32_t node) {
  for (size_t i = 0; i < offer->node_count; i++)
    if (offer->nodes[i] == node) return true;
  return false;
}

static const braid_offer *taken_for(const braid_placing *p, int32_t node) {
  return &p->offers[p->choices.offer_of[node]];
}

/* The node that runs on another device than the offer's: of the task if it does, else the first; -1: none. */
static int32_t runs_elsewhere(const braid_placing *p, const braid_offer *offer, const braid_offer *task) {
  int32_t found = -1;
  for (size_t i = 0; i < offer->node_count; i++) {
    const braid_offer *taken = taken_for(p, offer->nodes[i]);
    if (taken->device != offer->device && (found < 0 || taken == task)) found = offer->nodes[i];
    if (found >= 0 && taken == task) break;
  }
  return found;
}

/* Why an offer for more than the task was not taken. */
static const char *why_not_larger(const braid_placing *p, const braid_offer *offer, const braid_offer *task) {
  int32_t elsewhere = runs_elsewhere(p, offer, task);
  if (elsewhere >= 0) {
    char text[256];
    int length = snprintf(text, sizeof text, "%.110s runs on %.110s", p->nodes[elsewhere].name,
                          p->plan->devices[taken_for(p, elsewhere)->device].label);
    return braid_arena_text(p->plan->arena, text, (size_t)length);
  }
  if (!p->patterns.balanced) return "would wait for another region that waits for it"; /* else the largest is taken */
  double seconds = 0;
  bool known = true;
  for (size_t i = 0; i < offer->node_count; i++) {
    const braid_offer *taken = taken_for(p, offer->nodes[i]);
    known &= taken->seconds.source != BRAID_UNKNOWN;
    if (taken->nodes[taken->node_count - 1] == offer->nodes[i]) seconds += taken->seconds.value;
  }
  if (known && offer->seconds.source == BRAID_UNKNOWN) return "what it takes is not known, other than of its parts";
  return known && offer->seconds.value > seconds ? "takes longer than its parts" : "does not end sooner";
}

/* Why an offer that could have been taken was not, in its task; NULL: no memory. */
static const char *why_not(const braid_placing *p, int32_t index, int32_t task) {
  const braid_offer *offer = &p->offers[index], *taken = taken_for(p, task);
  for (size_t i = 0; i < offer->node_count; i++)
    if (!holds(taken, offer->nodes[i])) return why_not_larger(p, offer, taken);
  if (offer->device != taken->device) {
    if (p->patterns.balanced) return "does not end sooner";
    return taken->device < offer->device ? "an earlier device can" : "leaves a node that no device runs alone";
  }
  if (offer->node_count < taken->node_count) return "part of what was taken";
  bool measured = offer->seconds.source == BRAID_MEASURED && taken->seconds.source == BRAID_MEASURED;
  return measured && p->patterns.balanced ? "takes longer" : "after it in the device's order";
}

static braid_status add_able(explaining *e, int32_t index, int32_t task) {
  const braid_placing *p = e->placing;
  const braid_offer *offer = &p->offers[index];
  const braid_candidate *candidate = &p->candidates[index];
  bool chosen = p->choices.offer_of[task] == index;
  const char *why = chosen ? p->choices.reasons[task] : why_not(p, index, task);
  if (chosen) why = braid_arena_text(p->plan->arena, why, strlen(why));
  braid_plan_offer *out = &e->rooms[task][e->counts[task]];
  *out = (braid_plan_offer){.device = p->plan->devices[offer->device].label,
                            .kernel = candidate->kernel->name,
                            .op = candidate->kernel->op,
                            .nodes = name_nodes(p, offer->nodes, offer->node_count),
                            .why = why,
                            .us = offer->seconds.source == BRAID_UNKNOWN ? -1 : offer->seconds.value * 1e6,
                            .measured = offer->seconds.source == BRAID_MEASURED,
                            .able = true,
                            .chosen = chosen};
  return out->nodes && why ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status add_unable(explaining *e, const braid_refusal *refusal, int32_t task) {
  const braid_placing *p = e->placing;
  size_t count;
  const int32_t *nodes = subject_nodes(p, refusal->subject, &count);
  braid_plan_offer *out = &e->rooms[task][e->counts[task]];
  *out = (braid_plan_offer){.device = p->plan->devices[refusal->device].label,
                            .kernel = refusal->kernel,
                            .op = subject_op(p, refusal->subject),
                            .nodes = name_nodes(p, nodes, count),
                            .why = refusal->why,
                            .us = -1};
  return out->nodes ? BRAID_OK : BRAID_NO_MEMORY;
}

/* Visits the offers, then the refusals, once for each task that they have nodes in. `rooms` NULL: counts them. */
static braid_status visit_offers(explaining *e) {
  const braid_placing *p = e->placing;
  size_t nodes = p->plan->graph->node_count, offers = p->problem.offer_count;
  for (size_t n = 0; n < nodes; n++) {
    e->counts[n] = 0;
    e->last[n] = -1;
  }
  for (size_t i = 0; i < offers + p->refusal_count; i++) {
    const braid_refusal *refusal = i < offers ? NULL : &p->refusals[i - offers];
    size_t count = refusal ? 0 : p->offers[i].node_count;
    const int32_t *members = refusal ? subject_nodes(p, refusal->subject, &count) : p->offers[i].nodes;
    for (size_t k = 0; k < count; k++) {
      int32_t task = braid_choices_task(&p->problem, &p->choices, members[k]);
      if (e->last[task] == (int32_t)i) continue;
      e->last[task] = (int32_t)i;
      if (e->rooms) BRAID_TRY(refusal ? add_unable(e, refusal, task) : add_able(e, (int32_t)i, task));
      e->counts[task]++;
    }
  }
  return BRAID_OK;
}

braid_status braid_placing_explain(const braid_placing *placing, braid_placement *places) {
  size_t nodes = placing->plan->graph->node_count;
  explaining e = {.placing = placing, .places = places};
  e.counts = braid_arena_alloc(placing->arena, (nodes + 1) * sizeof *e.counts);
  e.last = braid_arena_alloc(placing->arena, (nodes + 1) * sizeof *e.last);
  if (!e.counts || !e.last) return BRAID_NO_MEMORY;
  BRAID_TRY(visit_offers(&e));
  e.rooms = braid_arena_alloc(placing->arena, (nodes + 1) * sizeof *e.rooms);
  if (!e.rooms) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < nodes; n++) {
    e.rooms[n] = braid_arena_alloc(placing->plan->arena, (e.counts[n] + 1) * sizeof **e.rooms);
    if (!e.rooms[n]) return BRAID_NO_MEMORY;
    places[n].offers = e.rooms[n];
    places[n].offer_count = e.counts[n];
  }
  return visit_offers(&e);
}

static const braid_placement *place_of_line(const braid_plan *plan, size_t line) {
  if (line >= plan->steps.count || plan->steps.items[line].node < 0) return NULL;
  return &plan->places[plan->steps.items[line].node];
}

size_t braid_plan_offer_count(const braid_plan *plan, size_t line) {
  const braid_placement *place = place_of_line(plan, line);
  return place ? place->offer_count : 0;
}

braid_plan_offer braid_plan_get_offer(const braid_plan *plan, size_t line, size_t index) {
  if (index >= braid_plan_offer_count(plan, line))
    return (braid_plan_offer){"", "", "", "", "", -1, false, false, false};
  return place_of_line(plan, line)->offers[index];
}
