/* Where and by what nodes run: the graph and what the devices offer become a problem, a policy solves it, and the graph
 * is rewritten as it was chosen. */
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "runtime/plan/placing.h"

enum { kWhyBytes = 1024 };

static const braid_policy *find_policy(const braid_patterns *patterns) {
  if (patterns->balanced) return &braid_policy_heft;
  return patterns->count ? &braid_policy_manual : &braid_policy_first;
}

/* Why this device and kernel: the candidates passed over on the way to it, else what decided. */
static const char *explain_choice(const braid_placing *p, int32_t task) {
  const braid_plan *plan = p->plan;
  int32_t index = p->choices.offer_of[task];
  const braid_candidate *candidate = &p->candidates[index];
  size_t subject =
      candidate->fusion ? plan->graph->node_count + (size_t)(candidate->fusion - p->fusions.items) : (size_t)task;
  char why[kWhyBytes];
  size_t asked = p->patterns.balanced ? plan->device_count : (size_t)p->offers[index].device + 1;
  braid_placing_passed(p, subject, asked, why, sizeof why);
  if (why[0]) return braid_arena_text(plan->arena, why, strlen(why));
  return braid_arena_text(plan->arena, p->choices.reasons[task], strlen(p->choices.reasons[task]));
}

static braid_status make_regions(braid_placing *p, braid_placement *chosen) {
  const braid_claim **claims = braid_arena_alloc(p->arena, (p->claims.count + 1) * sizeof *claims);
  const braid_region **regions = braid_arena_alloc(p->arena, (p->claims.count + 1) * sizeof *regions);
  size_t count = 0;
  if (!claims || !regions) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < p->choices.task_count; i++) {
    const braid_claim *claim = p->candidates[p->choices.offer_of[p->choices.order[i]]].claim;
    if (claim) claims[count++] = claim;
  }
  if (count) BRAID_TRY(braid_plan_make_regions(p->plan, claims, count, regions));
  for (size_t i = 0; i < count; i++) chosen[claims[i]->nodes[claims[i]->node_count - 1]].region = regions[i];
  return BRAID_OK;
}

/* Makes one node of what was chosen as one, and finds the placements again once the others are gone. */
static braid_status apply_choices(braid_placing *p) {
  braid_plan *plan = p->plan;
  braid_graph *graph = plan->graph;
  size_t nodes = graph->node_count;
  braid_placement *chosen = braid_arena_alloc(p->arena, (nodes + 1) * sizeof *chosen);
  if (!chosen) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < nodes; n++) {
    graph->nodes[n].tag = (int32_t)n;
    chosen[n] = (braid_placement){.device = -1, .why = ""};
  }
  if (p->options->explain) BRAID_TRY(braid_placing_explain(p, chosen));
  bool rewritten = false;
  for (size_t i = 0; i < p->choices.task_count; i++) {
    int32_t task = p->choices.order[i], index = p->choices.offer_of[task];
    const braid_candidate *candidate = &p->candidates[index];
    chosen[task].device = p->offers[index].device;
    chosen[task].kernel = candidate->kernel;
    chosen[task].why = explain_choice(p, task);
    if (!chosen[task].why) return BRAID_NO_MEMORY;
    if (candidate->fusion) BRAID_TRY(braid_graph_apply_fusion(graph, candidate->fusion));
    rewritten |= candidate->fusion || candidate->claim;
  }
  BRAID_TRY(make_regions(p, chosen));
  if (rewritten) BRAID_TRY(braid_graph_compact(graph));
  for (size_t n = 0; n < graph->node_count; n++) plan->places[n] = chosen[graph->nodes[n].tag];
  return BRAID_OK;
}

/* What devices answer is checked as it comes in: a problem that is none is our own fault. */
static braid_status assert_problem(const braid_placing *p) {
  if (!BRAID_ASSERTED) return BRAID_OK;
  braid_status status = braid_problem_check(&p->problem, p->plan->allocator);
  BRAID_ASSERT(status == BRAID_OK || status == BRAID_NO_MEMORY);
  return status;
}

static braid_status place_all(braid_placing *p) {
  braid_plan *plan = p->plan;
  BRAID_TRY(braid_arena_create(plan->allocator, &p->arena));
  BRAID_TRY(braid_plan_patterns_parse(plan, p->options->place, &p->patterns));
  plan->sequence = p->patterns; /* its items are in the plan's arena */
  if (!p->options->no_fusion) BRAID_TRY(braid_graph_find_fusions(plan->graph, p->arena, &p->fusions));
  BRAID_TRY(braid_placing_describe(p));
  BRAID_TRY(braid_placing_ask(p));
  if (!p->options->loose_place)
    BRAID_TRY(braid_plan_patterns_check(&p->patterns, p->plan->machine->log, p->given, p->arena));
  BRAID_TRY(assert_problem(p));
  BRAID_TRY(braid_problem_solve(find_policy(&p->patterns), &p->problem, plan->allocator, p->arena, &p->choices));
  return apply_choices(p);
}

braid_status braid_plan_place(braid_plan *plan, const braid_graph *given, const braid_plan_options *options) {
  braid_placing p = {.plan = plan, .given = given, .options = options};
  braid_status status = place_all(&p);
  braid_free(plan->allocator, p.offers);
  braid_free(plan->allocator, p.candidates);
  braid_free(plan->allocator, p.refusals);
  braid_free(plan->allocator, p.fusions.items);
  braid_free(plan->allocator, p.claims.items);
  braid_arena_destroy(p.arena);
  return status;
}
