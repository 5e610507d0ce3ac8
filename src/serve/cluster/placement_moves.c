#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "serve/cluster/placement_add.h"
#include "serve/cluster/placement_policy.h"
#include "serve/cluster/placement_state.h"

#define NONE BRAID_CLUSTER_NONE

void braid_cluster_plan_deinit(braid_cluster_plan *plan) {
  braid_free(plan->allocator, plan->replicas);
  braid_free(plan->allocator, plan->moves);
  braid_free(plan->allocator, plan->busy);
  braid_free(plan->allocator, plan->awake);
  braid_free(plan->allocator, plan->unmet);
  braid_free(plan->allocator, plan->bounds);
  *plan = (braid_cluster_plan){0};
}

static int compare_replicas(const void *a, const void *b) {
  const braid_cluster_replica *x = a, *y = b;
  if (x->model != y->model) return x->model < y->model ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

/* --- moves ---------------------------------------------------------------------------------------------------------
 */
/* Of one model: what it has now and what the plan gives it, both by node. */
typedef struct change {
  const braid_cluster_state *state;
  const braid_cluster_plan *plan;
  const braid_cluster_reason *reasons; /* of each present replica that goes */
  size_t model, present, present_end, planned, planned_end;
  size_t kept;
  double carried; /* by those that stay */
} change;

static bool is_planned(const change *c, size_t node) {
  braid_cluster_replica key = {c->model, node, 0};
  return bsearch(&key, c->plan->replicas + c->planned, c->planned_end - c->planned, sizeof key, compare_replicas);
}

static void count_kept(change *c) {
  for (size_t i = c->planned; i < c->planned_end; i++) {
    const braid_cluster_replica *r = &c->plan->replicas[i];
    if (braid_cluster_find_present(c->state->view, c->model, r->node) == NONE) continue;
    c->kept++;
    c->carried += r->requests_per_s;
  }
}

/* The next replica from *at on that goes for this reason. NONE: no more. */
static size_t next_gone(const change *c, size_t *at, braid_cluster_reason reason) {
  const braid_cluster_problem *p = c->state->view->problem;
  for (; *at < c->present_end; (*at)++) {
    size_t node = p->present[*at].node;
    if (is_planned(c, node) || c->reasons[*at] != reason) continue;
    (*at)++;
    return node;
  }
  return NONE;
}

/* Loads: each takes the place of one that is lost, then of one that another node is better for, then makes up for the
 * least. */
static void write_loads(const change *c, braid_cluster_move *moves, size_t *count) {
  const braid_cluster_problem *p = c->state->view->problem;
  const braid_cluster_model *m = &p->models[c->model];
  size_t lost_at = c->present, spare_at = c->present, have = c->kept;
  for (size_t i = c->planned; i < c->planned_end; i++) {
    size_t node = c->plan->replicas[i].node;
    if (braid_cluster_find_present(c->state->view, c->model, node) != NONE) continue;
    braid_cluster_move *move = &moves[(*count)++];
    *move = (braid_cluster_move){.load = true,
                                 .model = c->model,
                                 .node = node,
                                 .bytes = m->memory_bytes,
                                 .other = next_gone(c, &lost_at, BRAID_CLUSTER_GONE),
                                 .wanted = m->requests_per_s,
                                 .before = c->carried};
    if (move->other != NONE) {
      move->reason = BRAID_CLUSTER_LOST;
    } else if ((move->other = next_gone(c, &spare_at, BRAID_CLUSTER_SPARE)) != NONE) {
      move->reason = p->horizon_s > 0 ? BRAID_CLUSTER_ENERGY : BRAID_CLUSTER_ROOM;
      move->wanted = braid_cluster_load_joules(c->state->view, c->model, node);
      move->before = 0;
    } else if (have < m->least) {
      move->reason = BRAID_CLUSTER_LEAST;
      move->wanted = (double)m->least;
      move->before = (double)have;
    } else {
      move->reason = BRAID_CLUSTER_LOAD;
    }
    have++;
  }
}

static void write_unloads(const change *c, braid_cluster_move *moves, size_t *count) {
  const braid_cluster_problem *p = c->state->view->problem;
  const braid_cluster_model *m = &p->models[c->model];
  bool loads = c->planned_end - c->planned > c->kept;
  for (size_t i = c->present; i < c->present_end; i++) {
    if (is_planned(c, p->present[i].node)) continue;
    braid_cluster_move *move = &moves[(*count)++];
    *move = (braid_cluster_move){.model = c->model,
                                 .node = p->present[i].node,
                                 .reason = c->reasons[i],
                                 .other = NONE,
                                 .wanted = m->requests_per_s,
                                 .before = c->carried};
    if (move->reason == BRAID_CLUSTER_SPARE && p->horizon_s == 0) move->reason = BRAID_CLUSTER_ROOM;
    if (move->reason == BRAID_CLUSTER_SPARE && loads) move->reason = BRAID_CLUSTER_ENERGY;
    if (move->reason == BRAID_CLUSTER_CAP) {
      move->wanted = p->cap_watts;
      move->before = c->plan->peak_watts;
    } else if (move->reason == BRAID_CLUSTER_MOST) {
      move->wanted = (double)m->most;
      move->before = (double)(c->present_end - c->present);
    }
  }
}

/* Why each present replica goes, if it does. */
static void find_reasons(const braid_cluster_state *state, braid_cluster_reason *reasons) {
  const braid_cluster_problem *p = state->view->problem;
  for (size_t i = 0; i < p->present_count; i++)
    reasons[i] = p->nodes[p->present[i].node].alive ? BRAID_CLUSTER_SPARE : BRAID_CLUSTER_GONE;
  for (size_t h = 0; h < state->count; h++)
    if (state->pool[h].dead && state->pool[h].present != NONE) reasons[state->pool[h].present] = state->pool[h].reason;
}

/* --- their order ---------------------------------------------------------------------------------------------------
 */
/* Nodes that drop what they drop first: what they load needs its memory, or a model that is private comes or goes. */
static void find_full(const braid_cluster_problem *p, const braid_cluster_move *moves, size_t count, int64_t *left,
                      bool *full) {
  for (size_t i = 0; i < p->node_count; i++) left[i] = p->nodes[i].memory_bytes;
  for (size_t i = 0; i < p->present_count; i++) left[p->present[i].node] -= p->models[p->present[i].model].memory_bytes;
  for (size_t i = 0; i < count; i++) {
    if (moves[i].load) left[moves[i].node] -= moves[i].bytes;
    full[moves[i].node] |= (moves[i].load && left[moves[i].node] < 0) || moves[i].reason == BRAID_CLUSTER_PRIVATE ||
                           moves[i].reason == BRAID_CLUSTER_CAP || moves[i].reason == BRAID_CLUSTER_GONE;
    if (p->models[moves[i].model].is_private) full[moves[i].node] = true;
  }
}

/* Where the cap does not let nodes that are to sleep and those that are to wake be awake at once, the first go first.
 */
static void find_sleepers(const braid_cluster_state *state, const braid_cluster_plan *plan, int64_t *held, bool *full) {
  const braid_cluster_problem *p = state->view->problem;
  double peak = 0;
  for (size_t i = 0; i < p->node_count; i++) held[i] = 0;
  for (size_t i = 0; i < p->present_count; i++) held[p->present[i].node]++;
  for (size_t i = 0; i < p->node_count; i++) {
    braid_cluster_watts w = braid_cluster_node_watts(state->view, i);
    if (p->nodes[i].alive) peak += plan->awake[i] || held[i] ? w.busy : w.asleep;
  }
  for (size_t i = 0; peak > p->cap_watts && i < p->node_count; i++) full[i] |= held[i] && !plan->awake[i];
}

static void sort_moves(const braid_cluster_move *from, size_t count, const bool *full, braid_cluster_move *to) {
  size_t at = 0;
  for (int pass = 0; pass < 3; pass++)
    for (size_t i = 0; i < count; i++) {
      int when = from[i].load ? 1 : full[from[i].node] ? 0 : 2;
      if (when == pass) to[at++] = from[i];
    }
}

static braid_status write_moves(const braid_cluster_state *state, braid_cluster_plan *plan) {
  const braid_cluster_problem *p = state->view->problem;
  const braid_allocator *allocator = plan->allocator;
  size_t most = p->present_count + plan->replica_count, count = 0;
  braid_cluster_reason *reasons = braid_zalloc_array(allocator, p->present_count, sizeof *reasons);
  braid_cluster_move *moves = braid_zalloc_array(allocator, most, sizeof *moves);
  int64_t *left = braid_zalloc_array(allocator, p->node_count, sizeof *left);
  bool *full = braid_zalloc_array(allocator, p->node_count, sizeof *full);
  if (reasons && moves && left && full) {
    size_t at = 0;
    find_reasons(state, reasons);
    for (size_t m = 0; m < p->model_count; m++) {
      change c = {.state = state, .plan = plan, .reasons = reasons, .model = m, .planned = at};
      while (at < plan->replica_count && plan->replicas[at].model == m) at++;
      c.planned_end = at;
      c.present = state->view->present_of[m];
      c.present_end = state->view->present_of[m + 1];
      count_kept(&c);
      write_loads(&c, moves, &count);
      write_unloads(&c, moves, &count);
    }
    find_full(p, moves, count, left, full);
    find_sleepers(state, plan, left, full);
    plan->moves = braid_zalloc_array(allocator, count, sizeof *plan->moves);
  }
  if (plan->moves) {
    sort_moves(moves, count, full, plan->moves);
    plan->move_count = count;
  }
  braid_free(allocator, reasons);
  braid_free(allocator, moves);
  braid_free(allocator, left);
  braid_free(allocator, full);
  return plan->moves ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- the plan ------------------------------------------------------------------------------------------------------
 */
static void write_sums(const braid_cluster_state *state, braid_cluster_plan *plan) {
  const braid_cluster_problem *p = state->view->problem;
  plan->watts = braid_cluster_state_score(state).watts;
  for (size_t i = 0; i < p->node_count; i++) {
    braid_cluster_watts w = braid_cluster_node_watts(state->view, i);
    plan->awake[i] = state->nodes[i].models > 0;
    plan->busy[i] = plan->awake[i] ? fmax(0, state->nodes[i].busy) : 0;
    if (plan->busy[i] > plan->most_node_busy) plan->most_node_busy = plan->busy[i];
    if (p->nodes[i].alive) plan->peak_watts += plan->awake[i] ? w.busy : w.asleep;
  }
  for (size_t m = 0; m < p->model_count; m++) {
    double unmet = p->models[m].requests_per_s - state->models[m].rate;
    plan->unmet[m] = unmet > 1e-6 * p->models[m].requests_per_s ? unmet : 0;
    bool lacks = plan->unmet[m] > 0 || state->models[m].replicas < p->models[m].least;
    plan->lacking += lacks;
    if (lacks) braid_cluster_state_bounds(state, m, &plan->bounds[m]);
  }
}

braid_status braid_cluster_plan_write(const braid_cluster_state *state, braid_cluster_plan *plan) {
  const braid_cluster_problem *p = state->view->problem;
  size_t count = 0;
  for (size_t m = 0; m < p->model_count; m++) count += state->models[m].replicas;
  plan->replicas = braid_zalloc_array(plan->allocator, count, sizeof *plan->replicas);
  plan->busy = braid_zalloc_array(plan->allocator, p->node_count, sizeof *plan->busy);
  plan->awake = braid_zalloc_array(plan->allocator, p->node_count, sizeof *plan->awake);
  plan->unmet = braid_zalloc_array(plan->allocator, p->model_count, sizeof *plan->unmet);
  plan->bounds = braid_zalloc_array(plan->allocator, p->model_count, sizeof *plan->bounds);
  bool whole = plan->replicas && plan->busy && plan->awake && plan->unmet && plan->bounds;
  braid_status status = whole ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    for (size_t h = 0; h < state->count; h++) {
      const braid_cluster_held *held = &state->pool[h];
      if (!held->dead)
        plan->replicas[plan->replica_count++] = (braid_cluster_replica){held->model, held->node, fmax(0, held->rate)};
    }
    if (count > 1) qsort(plan->replicas, count, sizeof *plan->replicas, compare_replicas);
    write_sums(state, plan);
    status = write_moves(state, plan);
  }
  if (status != BRAID_OK) braid_cluster_plan_deinit(plan);
  return status;
}

/* --- saying it -----------------------------------------------------------------------------------------------------
 */
void braid_cluster_move_text(const braid_cluster_move *move, braid_cluster_name *name, const void *context, char *text,
                             size_t bytes) {
  const char *model = name(context, false, move->model);
  const char *other = move->other == NONE ? "" : name(context, true, move->other);
  char why[160];
  switch (move->reason) {
  case BRAID_CLUSTER_LEAST:
    snprintf(why, sizeof why, "it has %.0f replicas and is to have at least %.0f", move->before, move->wanted);
    break;
  case BRAID_CLUSTER_LOST:
    snprintf(why, sizeof why, "node %.60s, which had it, is lost", other);
    break;
  case BRAID_CLUSTER_LOAD:
    snprintf(why, sizeof why, "%.4g requests/s are wanted, and the others carry %.4g", move->wanted, move->before);
    break;
  case BRAID_CLUSTER_ENERGY:
    if (move->load)
      snprintf(why, sizeof why, "the whole takes less energy so than with node %.60s, the %.4g J of loading counted in",
               other, move->wanted);
    else
      snprintf(why, sizeof why, "the whole takes less energy with other nodes, their loading counted in");
    break;
  case BRAID_CLUSTER_ROOM:
    snprintf(why, sizeof why, "more models have their replicas so");
    break;
  case BRAID_CLUSTER_SPARE:
    snprintf(why, sizeof why, "the others carry the %.4g requests/s that are wanted, with less energy", move->wanted);
    break;
  case BRAID_CLUSTER_MOST:
    snprintf(why, sizeof why, "it has %.0f replicas and is to have at most %.0f", move->before, move->wanted);
    break;
  case BRAID_CLUSTER_GONE:
    snprintf(why, sizeof why, "the node is lost");
    break;
  case BRAID_CLUSTER_UNFIT:
    snprintf(why, sizeof why, "the node has not the memory, the features or a known time for it");
    break;
  case BRAID_CLUSTER_PRIVATE:
    snprintf(why, sizeof why, "a tenant has the node for itself");
    break;
  case BRAID_CLUSTER_CAP:
    snprintf(why, sizeof why, "the cap of %.4g W leaves no room for the node; the others draw up to %.4g W",
             move->wanted, move->before);
    break;
  }
  snprintf(text, bytes, "%s of %.80s on node %.60s: %s", move->load ? "load" : "unload", model,
           name(context, true, move->node), why);
}
