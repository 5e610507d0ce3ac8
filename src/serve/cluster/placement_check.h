/* Random clusters for tests of the placement policy, and what every plan must keep. For tests only. */
#ifndef BRAID_SERVE_CLUSTER_PLACEMENT_CHECK_H
#define BRAID_SERVE_CLUSTER_PLACEMENT_CHECK_H

#include <math.h>

#include "base/philox.h"
#include "serve/cluster/placement_policy.h"
#include "skip.h"

enum { kNodes = 12, kModels = 6, kKinds = 3 };

/* A cluster with all its arrays. */
typedef struct cluster {
  braid_cluster_node nodes[kNodes];
  braid_cluster_model models[kModels];
  double seconds[kKinds * kModels];
  braid_cluster_replica present[kNodes * kModels];
  braid_cluster_problem problem;
} cluster;

static uint64_t draw_at;
static uint32_t draw(uint64_t seed, uint32_t below) {
  return braid_random_below(seed, 0, 7, draw_at++, below);
}

static inline void point(cluster *c, size_t nodes, size_t models, size_t kinds) {
  c->problem = (braid_cluster_problem){.nodes = c->nodes,
                                       .node_count = nodes,
                                       .models = c->models,
                                       .model_count = models,
                                       .seconds = c->seconds,
                                       .kind_count = kinds,
                                       .present = c->present,
                                       .most_busy = 0.7,
                                       .cap_watts = INFINITY,
                                       .horizon_s = 1e6};
}

static inline void make_random(cluster *c, uint64_t seed, size_t nodes, size_t models) {
  memset(c, 0, sizeof *c);
  draw_at = 0;
  size_t kinds = 1 + draw(seed, kKinds);
  point(c, nodes, models, kinds);
  for (size_t i = 0; i < nodes; i++) {
    double idle = 20 + draw(seed, 80);
    c->nodes[i] = (braid_cluster_node){.alive = true,
                                       .kind = draw(seed, (uint32_t)kinds),
                                       .slow = draw(seed, 4) ? 1 : 1 + draw(seed, 20) * 0.1,
                                       .instances = 1 + draw(seed, 3),
                                       .memory_bytes = 100 + draw(seed, 300),
                                       .features = draw(seed, 4),
                                       .power_known = true,
                                       .asleep_watts = draw(seed, 5),
                                       .idle_watts = idle,
                                       .busy_watts = idle + 20 + draw(seed, 200),
                                       .load_bytes_per_s = 10 + draw(seed, 100)};
  }
  for (size_t m = 0; m < models; m++) {
    c->models[m] = (braid_cluster_model){.memory_bytes = 20 + draw(seed, 120),
                                         .requests_per_s = draw(seed, 5) ? draw(seed, 100) : 0,
                                         .least = draw(seed, 3),
                                         .features = draw(seed, 4) ? 0 : 1,
                                         .tenant = draw(seed, 3),
                                         .is_private = draw(seed, 5) == 0};
    if (draw(seed, 3) == 0) c->models[m].most = c->models[m].least + 1 + draw(seed, 3);
    for (size_t k = 0; k < kinds; k++)
      c->seconds[k * models + m] = draw(seed, 6) ? 0.002 + 0.0002 * draw(seed, 100) : 0;
  }
}

static const braid_cluster_replica *find(const braid_cluster_replica *list, size_t count, size_t model, size_t node) {
  for (size_t i = 0; i < count; i++)
    if (list[i].model == model && list[i].node == node) return &list[i];
  return NULL;
}

static void check_tenants(const braid_cluster_problem *p, const braid_cluster_plan *plan, size_t node) {
  for (size_t i = 0; i < plan->replica_count; i++)
    for (size_t k = 0; k < i; k++) {
      const braid_cluster_model *a = &p->models[plan->replicas[i].model], *b = &p->models[plan->replicas[k].model];
      if (plan->replicas[i].node == node && plan->replicas[k].node == node && a->tenant != b->tenant)
        assert_false(a->is_private || b->is_private);
    }
}

static double peak_of(const braid_cluster_problem *p, bool has[kNodes][kModels]) {
  double peak = 0;
  for (size_t i = 0; i < p->node_count; i++) {
    bool awake = false;
    for (size_t m = 0; m < p->model_count; m++) awake |= has[i][m];
    if (p->nodes[i].alive) peak += awake ? p->nodes[i].busy_watts : p->nodes[i].asleep_watts;
  }
  return peak;
}

static void check_moves(const braid_cluster_problem *p, const braid_cluster_plan *plan) {
  bool has[kNodes][kModels] = {{false}};
  for (size_t i = 0; i < p->present_count; i++) has[p->present[i].node][p->present[i].model] = true;
  for (size_t i = 0; i < plan->move_count; i++) {
    const braid_cluster_move *move = &plan->moves[i];
    assert_int_equal(has[move->node][move->model], !move->load);
    has[move->node][move->model] = move->load;
    int64_t held = 0;
    for (size_t m = 0; m < p->model_count; m++) held += has[move->node][m] ? p->models[m].memory_bytes : 0;
    if (move->load) {
      assert_true(p->nodes[move->node].alive && held <= p->nodes[move->node].memory_bytes);
      for (size_t m = 0; m < p->model_count; m++)
        if (has[move->node][m] && p->models[m].tenant != p->models[move->model].tenant)
          assert_false(p->models[m].is_private || p->models[move->model].is_private);
      assert_true(peak_of(p, has) <= p->cap_watts * (1 + 1e-9));
    }
    if (move->reason == BRAID_CLUSTER_GONE) assert_false(p->nodes[move->node].alive);
    if (move->reason == BRAID_CLUSTER_LOST) assert_false(p->nodes[move->other].alive);
    assert_true(move->bytes == (move->load ? p->models[move->model].memory_bytes : 0));
  }
  for (size_t n = 0; n < p->node_count; n++)
    for (size_t m = 0; m < p->model_count; m++)
      assert_int_equal(has[n][m], find(plan->replicas, plan->replica_count, m, n) != NULL);
}

/* Everything that a plan must keep. */
static void check_plan(const braid_cluster_problem *p, const braid_cluster_plan *plan) {
  double peak = 0, watts = 0;
  size_t counts[kModels] = {0};
  double rates[kModels] = {0};
  for (size_t i = 0; i < plan->replica_count; i++) {
    const braid_cluster_replica *r = &plan->replicas[i];
    const braid_cluster_node *n = &p->nodes[r->node];
    assert_true(n->alive && p->seconds[n->kind * p->model_count + r->model] > 0 && r->requests_per_s >= 0);
    assert_int_equal(p->models[r->model].features & ~n->features, 0);
    if (i) assert_true(r[-1].model < r->model || (r[-1].model == r->model && r[-1].node < r->node));
    counts[r->model]++;
    rates[r->model] += r->requests_per_s;
  }
  for (size_t i = 0; i < p->node_count; i++) {
    const braid_cluster_node *n = &p->nodes[i];
    int64_t bytes = 0;
    double busy = 0;
    size_t held = 0;
    for (size_t k = 0; k < plan->replica_count; k++) {
      const braid_cluster_replica *r = &plan->replicas[k];
      if (r->node != i) continue;
      held++;
      bytes += p->models[r->model].memory_bytes;
      busy += r->requests_per_s * p->seconds[n->kind * p->model_count + r->model] * n->slow / (double)n->instances;
    }
    assert_true(bytes <= n->memory_bytes && busy <= p->most_busy * (1 + 1e-6));
    assert_true(fabs(busy - plan->busy[i]) < 1e-6 && plan->awake[i] == (held > 0));
    check_tenants(p, plan, i);
    if (!n->alive) continue;
    peak += held ? n->busy_watts : n->asleep_watts;
    watts += held ? n->idle_watts + busy * (n->busy_watts - n->idle_watts) : n->asleep_watts;
  }
  for (size_t m = 0; m < p->model_count; m++) {
    assert_true(fabs(rates[m] + plan->unmet[m] - p->models[m].requests_per_s) < 1e-3);
    if (p->models[m].most) assert_true(counts[m] <= p->models[m].most);
  }
  assert_true(fabs(watts - plan->watts) < 1e-6 * (1 + watts) && fabs(peak - plan->peak_watts) < 1e-6 * (1 + peak));
  if (plan->replica_count) assert_true(peak <= p->cap_watts * (1 + 1e-9));
  check_moves(p, plan);
}

static inline void place(const braid_cluster_problem *problem, braid_cluster_plan *plan) {
  braid_status status = braid_cluster_place(problem, NULL, plan);
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* Each node stands at one bound of a model that lacks something, and at none of another's. */
static inline void check_bounds(const braid_cluster_problem *p, const braid_cluster_plan *plan) {
  for (size_t m = 0; m < p->model_count; m++) {
    const braid_cluster_bounds *bounds = &plan->bounds[m];
    size_t sum = 0, replicas = 0, dead = 0;
    for (size_t i = 0; i < BRAID_CLUSTER_BOUNDS; i++) sum += bounds->nodes[i];
    for (size_t i = 0; i < plan->replica_count; i++) replicas += plan->replicas[i].model == m;
    for (size_t i = 0; i < p->node_count; i++) dead += !p->nodes[i].alive;
    bool lacks = plan->unmet[m] > 0 || replicas < p->models[m].least;
    assert_int_equal(sum, lacks ? p->node_count : 0);
    if (!lacks) continue;
    assert_int_equal(bounds->replicas, replicas);
    assert_int_equal(bounds->nodes[BRAID_CLUSTER_BOUND_HELD], replicas);
    assert_int_equal(bounds->nodes[BRAID_CLUSTER_BOUND_LOST], dead);
  }
}

#endif
