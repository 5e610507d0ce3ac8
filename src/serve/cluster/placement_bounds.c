/* Why a model has no further place: which bound each node stands at. */
#include <stdio.h>

#include "serve/cluster/placement_state.h"

#define NONE BRAID_CLUSTER_NONE

/* Whether the model is on the node, or a tenant keeps it from there. */
static bool find_on(const braid_cluster_state *state, size_t model, size_t node, braid_cluster_bound *out) {
  const braid_cluster_model *models = state->view->problem->models, *m = &models[model];
  bool apart = false;
  for (size_t h = state->nodes[node].first; h != NONE; h = state->pool[h].next_of_node) {
    const braid_cluster_held *held = &state->pool[h];
    if (held->dead) continue;
    *out = BRAID_CLUSTER_BOUND_HELD;
    if (held->model == model) return true;
    apart |= models[held->model].tenant != m->tenant && (models[held->model].is_private || m->is_private);
  }
  *out = BRAID_CLUSTER_BOUND_TENANT;
  return apart;
}

static braid_cluster_bound find_bound(const braid_cluster_state *state, size_t model, size_t node) {
  const braid_cluster_problem *p = state->view->problem;
  const braid_cluster_model *m = &p->models[model];
  const braid_cluster_node *n = &p->nodes[node];
  braid_cluster_bound found;
  if (!n->alive) return BRAID_CLUSTER_BOUND_LOST;
  if (braid_cluster_cost(state->view, model, node) <= 0) return BRAID_CLUSTER_BOUND_TIME;
  if (m->features & ~n->features) return BRAID_CLUSTER_BOUND_FEATURES;
  if (n->memory_bytes < m->memory_bytes) return BRAID_CLUSTER_BOUND_MEMORY;
  if (find_on(state, model, node, &found)) return found;
  if (m->most && state->models[model].replicas >= m->most) return BRAID_CLUSTER_BOUND_MOST;
  if (state->nodes[node].memory_left < m->memory_bytes) return BRAID_CLUSTER_BOUND_TAKEN;
  if (!braid_cluster_state_fits(state, model, node)) return BRAID_CLUSTER_BOUND_CAP;
  return state->nodes[node].busy >= p->most_busy * (1 - 1e-6) ? BRAID_CLUSTER_BOUND_BUSY : BRAID_CLUSTER_BOUND_ROOM;
}

void braid_cluster_state_bounds(const braid_cluster_state *state, size_t model, braid_cluster_bounds *out) {
  *out = (braid_cluster_bounds){.replicas = state->models[model].replicas};
  for (size_t i = 0; i < state->view->problem->node_count; i++) out->nodes[find_bound(state, model, i)]++;
}

void braid_cluster_bounds_text(const braid_cluster_bounds *bounds, char *text, size_t bytes) {
  static const char *const kOne[] = {
#define ONE(id, one, many) one,
      BRAID_CLUSTER_BOUND_MAP(ONE)
#undef ONE
  };
  static const char *const kMany[] = {
#define MANY(id, one, many) many,
      BRAID_CLUSTER_BOUND_MAP(MANY)
#undef MANY
  };
  size_t used = 0;
  if (bytes) *text = '\0';
  for (size_t i = 0; i < BRAID_CLUSTER_BOUNDS; i++) {
    size_t count = bounds->nodes[i];
    if (!count || used >= bytes) continue;
    used += (size_t)snprintf(text + used, bytes - used, "%s%zu node%s %s", used ? ", " : "", count,
                             count == 1 ? "" : "s", count == 1 ? kOne[i] : kMany[i]);
  }
  if (!used && bytes) snprintf(text, bytes, "there are no nodes");
}
