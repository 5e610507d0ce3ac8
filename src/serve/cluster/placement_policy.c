#include "serve/cluster/placement_policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/detail.h"
#include "base/try.h"
#include "serve/cluster/placement_add.h"
#include "serve/cluster/placement_state.h"

#define NONE BRAID_CLUSTER_NONE
/* Nodes that one decision tries to empty: all of a small cluster, and again while it helps, in so many passes; of a
 * large one so many, and so many in vain. Of a small cluster, models that are the first of a placement from nothing. */
enum { kSmall = 64, kTried = 16, kInVain = 4, kOrders = 4, kPasses = 3 };

/* --- what the problem must be --------------------------------------------------------------------------------------
 */
static bool is_within(double value, double least, double most) {
  return value >= least && value <= most; /* NaN is not */
}

static braid_status check_nodes(const braid_cluster_problem *p) {
  for (size_t i = 0; i < p->node_count; i++) {
    const braid_cluster_node *n = &p->nodes[i];
    const char *wrong = n->kind >= p->kind_count                          ? "kind"
                        : !is_within(n->slow, 1e-6, 1e6)                  ? "slow"
                        : n->instances < 1                                ? "instances"
                        : n->memory_bytes < 0                             ? "memory_bytes"
                        : !is_within(n->load_bytes_per_s, 0, 1e18)        ? "load_bytes_per_s"
                        : !n->power_known                                 ? NULL
                        : !is_within(n->asleep_watts, 0, 1e9)             ? "asleep_watts"
                        : !is_within(n->idle_watts, n->asleep_watts, 1e9) ? "idle_watts"
                        : !is_within(n->busy_watts, n->idle_watts, 1e9)   ? "busy_watts"
                                                                          : NULL;
    if (wrong) return braid_fail(BRAID_INVALID_ARGUMENT, "node %zu: %s is out of its range", i, wrong);
  }
  return BRAID_OK;
}

static braid_status check_models(const braid_cluster_problem *p) {
  for (size_t m = 0; m < p->model_count; m++) {
    const braid_cluster_model *model = &p->models[m];
    const char *wrong = model->memory_bytes < 0                      ? "memory_bytes"
                        : !is_within(model->requests_per_s, 0, 1e12) ? "requests_per_s"
                        : model->most && model->least > model->most  ? "least"
                                                                     : NULL;
    for (size_t k = 0; k < p->kind_count && !wrong; k++)
      if (!is_within(p->seconds[k * p->model_count + m], 0, 1e9)) wrong = "seconds";
    if (wrong) return braid_fail(BRAID_INVALID_ARGUMENT, "model %zu: %s is out of its range", m, wrong);
  }
  return BRAID_OK;
}

static braid_status check_problem(const braid_cluster_problem *p) {
  BRAID_TRY(check_nodes(p));
  BRAID_TRY(check_models(p));
  for (size_t i = 0; i < p->present_count; i++) {
    const braid_cluster_replica *r = &p->present[i];
    if (r->model >= p->model_count || r->node >= p->node_count)
      return braid_fail(BRAID_INVALID_ARGUMENT, "present replica %zu: there is no such model or node", i);
    if (!is_within(r->requests_per_s, 0, 1e12))
      return braid_fail(BRAID_INVALID_ARGUMENT, "present replica %zu: requests_per_s is out of its range", i);
    if (i && (r[-1].model > r->model || (r[-1].model == r->model && r[-1].node >= r->node)))
      return braid_fail(BRAID_INVALID_ARGUMENT, "present replica %zu: expected them by model and then node", i);
  }
  if (!is_within(p->most_busy, 1e-6, 1)) return braid_fail(BRAID_INVALID_ARGUMENT, "most_busy is out of its range");
  if (!(p->cap_watts >= 0)) return braid_fail(BRAID_INVALID_ARGUMENT, "cap_watts is out of its range");
  if (!is_within(p->horizon_s, 0, 1e9)) return braid_fail(BRAID_INVALID_ARGUMENT, "horizon_s is out of its range");
  return BRAID_OK;
}

/* --- emptying nodes ------------------------------------------------------------------------------------------------
 */
static braid_status try_without(const braid_cluster_state *state, size_t node, braid_cluster_adding how,
                                braid_cluster_state *trial) {
  BRAID_TRY(braid_cluster_state_copy(state, trial));
  for (size_t h = trial->nodes[node].first; h != NONE; h = trial->pool[h].next_of_node) {
    if (trial->pool[h].dead) continue;
    size_t model = trial->pool[h].model;
    braid_cluster_state_take(trial, h, BRAID_CLUSTER_SPARE);
    braid_cluster_state_spread_model(trial, model);
  }
  how.except = node;
  BRAID_TRY(braid_cluster_state_add(trial, how));
  braid_cluster_state_spread(trial);
  return BRAID_OK;
}

/* The node that works least, of those that hold models and were not tried yet. */
static size_t coldest(const braid_cluster_state *state, const bool *tried) {
  size_t best = NONE;
  for (size_t i = 0; i < state->view->problem->node_count; i++)
    if (state->nodes[i].models && !tried[i] && (best == NONE || state->nodes[i].busy < state->nodes[best].busy))
      best = i;
  return best;
}

/* Empties nodes where that is better. */
static braid_status consolidate_once(braid_cluster_state *state, braid_cluster_adding how, bool *tried,
                                     braid_cluster_state *trial, bool *out_better) {
  size_t count = state->view->problem->node_count, tries = count <= kSmall ? count : kTried, in_vain = 0;
  braid_cluster_score now = braid_cluster_state_score(state);
  memset(tried, 0, count * sizeof *tried);
  *out_better = false;
  while (tries-- && (count <= kSmall || in_vain < kInVain)) {
    size_t node = coldest(state, tried);
    if (node == NONE) break;
    tried[node] = true;
    BRAID_TRY(try_without(state, node, how, trial));
    braid_cluster_score then = braid_cluster_state_score(trial);
    in_vain++;
    if (!braid_cluster_score_before(&then, &now)) continue;
    in_vain = 0;
    now = then;
    *out_better = true;
    braid_cluster_state other = *state;
    *state = *trial;
    *trial = other;
  }
  return BRAID_OK;
}

static braid_status consolidate(braid_cluster_state *state, braid_cluster_adding how) {
  const braid_cluster_view *view = state->view;
  bool better = true;
  braid_cluster_state trial = {0};
  bool *tried = braid_zalloc_array(view->allocator, view->problem->node_count, sizeof *tried);
  braid_status status = tried ? braid_cluster_state_init(view, &trial) : BRAID_NO_MEMORY;
  int passes = view->problem->node_count <= kSmall ? kPasses : 1;
  for (int pass = 0; status == BRAID_OK && better && pass < passes; pass++)
    status = consolidate_once(state, how, tried, &trial, &better);
  braid_cluster_state_deinit(&trial);
  braid_free(view->allocator, tried);
  return status;
}

/* --- placements, of which the best is taken ------------------------------------------------------------------------
 */
static braid_status complete(braid_cluster_state *state, braid_cluster_adding how) {
  braid_cluster_state_spread(state);
  BRAID_TRY(braid_cluster_state_add(state, how));
  braid_cluster_state_spread(state);
  BRAID_TRY(braid_cluster_state_add(state, how)); /* what spreading made room for */
  braid_cluster_state_spread(state);
  return state->view->problem->horizon_s > 0 ? consolidate(state, how) : BRAID_OK;
}

/* Another placement, from nothing; it takes the place of the best one if it is better. Where nothing is moved to save
 * energy it has to have more replicas of those that are to be: for load, which is measured and varies, nothing leaves
 * its place, and more replicas come. */
static braid_status try_anew(braid_cluster_state *best, braid_cluster_adding how) {
  braid_cluster_state anew;
  BRAID_TRY(braid_cluster_state_init(best->view, &anew));
  braid_status status = complete(&anew, how);
  if (status == BRAID_OK) {
    braid_cluster_score now = braid_cluster_state_score(best), then = braid_cluster_state_score(&anew);
    bool better =
        best->view->problem->horizon_s > 0 ? braid_cluster_score_before(&then, &now) : then.replicas < now.replicas;
    if (better) {
      braid_cluster_state other = *best;
      *best = anew;
      anew = other;
    }
  }
  braid_cluster_state_deinit(&anew);
  return status;
}

static bool is_lacking(const braid_cluster_state *state) {
  braid_cluster_score score = braid_cluster_state_score(state);
  return score.replicas || score.unmet > 0;
}

/* Placements from nothing; of a small cluster more of them, with one model after the other the first. */
static braid_status try_all_anew(braid_cluster_state *best) {
  const braid_cluster_problem *p = best->view->problem;
  size_t orders = p->node_count <= kSmall && p->model_count <= kSmall ? p->model_count : 1;
  if (orders > kOrders) orders = kOrders;
  for (size_t first = 0; first < orders; first++) {
    BRAID_TRY(try_anew(best, (braid_cluster_adding){.except = NONE, .first = first}));
    BRAID_TRY(try_anew(best, (braid_cluster_adding){.except = NONE, .first = first, .filled = true}));
    if (isfinite(p->cap_watts) && is_lacking(best))
      BRAID_TRY(try_anew(best, (braid_cluster_adding){.except = NONE, .first = first, .by_peak = true}));
  }
  return BRAID_OK;
}

/* What is there, as it can be kept; and if that lacks something or costs more than moving, one from nothing. */
static braid_status find_best(const braid_cluster_view *view, braid_cluster_state *best) {
  BRAID_TRY(braid_cluster_state_init(view, best));
  braid_status status = braid_cluster_state_keep(best);
  if (status == BRAID_OK) status = braid_cluster_state_obey_cap(best);
  if (status == BRAID_OK) status = complete(best, (braid_cluster_adding){.except = NONE});
  if (status == BRAID_OK && (view->problem->horizon_s > 0 || braid_cluster_state_score(best).replicas))
    status = try_all_anew(best);
  if (status != BRAID_OK) braid_cluster_state_deinit(best);
  return status;
}

braid_status braid_cluster_place(const braid_cluster_problem *problem, const braid_allocator *allocator,
                                 braid_cluster_plan *plan) {
  braid_cluster_view view;
  braid_cluster_state best;
  *plan = (braid_cluster_plan){.allocator = allocator};
  BRAID_TRY(check_problem(problem));
  BRAID_TRY(braid_cluster_view_init(problem, allocator, &view));
  braid_status status = find_best(&view, &best);
  if (status == BRAID_OK) {
    status = braid_cluster_plan_write(&best, plan);
    braid_cluster_state_deinit(&best);
  }
  braid_cluster_view_deinit(&view);
  return status;
}
