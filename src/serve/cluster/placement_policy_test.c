/* Placements keep what the header promises, whatever the cluster; on small ones they are held against the optimum that
 * GLPK finds for the same problem, written down here a second time as a mixed-integer program. */
#include "serve/cluster/placement_policy.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/philox.h"
#include "oom.h"
#include "schedule/program/glpk.h"
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

static void point(cluster *c, size_t nodes, size_t models, size_t kinds) {
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

static void make_random(cluster *c, uint64_t seed, size_t nodes, size_t models) {
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

static void place(const braid_cluster_problem *problem, braid_cluster_plan *plan) {
  braid_status status = braid_cluster_place(problem, NULL, plan);
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* What is planned is there from now on. */
static void adopt(cluster *c, const braid_cluster_plan *plan) {
  memcpy(c->present, plan->replicas, plan->replica_count * sizeof *c->present);
  c->problem.present_count = plan->replica_count;
}

/* --- the optimum ---------------------------------------------------------------------------------------------------
 */
typedef struct optimum {
  const braid_cluster_problem *problem;
  glp_prob *program;
  int at; /* of the terms */
  int rows[4000], columns[4000];
  double terms[4000];
  bool feasible;
  double watts;
} optimum;

static int awake_column(size_t node) {
  return (int)node + 1;
}
static int holds_column(const braid_cluster_problem *p, size_t model, size_t node) {
  return (int)(p->node_count + model * p->node_count + node) + 1;
}
static int rate_column(const braid_cluster_problem *p, size_t model, size_t node) {
  return (int)(p->node_count + (p->model_count + model) * p->node_count + node) + 1;
}

static int add_row(optimum *o, double lower, double upper) {
  int row = GLP(add_rows)(o->program, 1);
  int type = lower == -INFINITY ? GLP_UP : upper == INFINITY ? GLP_LO : lower == upper ? GLP_FX : GLP_DB;
  GLP(set_row_bnds)(o->program, row, type, lower, upper);
  return row;
}

static void add_term(optimum *o, int row, int column, double value) {
  o->at++;
  o->rows[o->at] = row;
  o->columns[o->at] = column;
  o->terms[o->at] = value;
}

static double cost_of(const braid_cluster_problem *p, size_t m, size_t i) {
  const braid_cluster_node *n = &p->nodes[i];
  return p->seconds[n->kind * p->model_count + m] * n->slow / (double)n->instances;
}

static bool may_hold(const braid_cluster_problem *p, size_t m, size_t i) {
  return p->nodes[i].alive && cost_of(p, m, i) > 0 && !(p->models[m].features & ~p->nodes[i].features);
}

static void add_columns(optimum *o) {
  const braid_cluster_problem *p = o->problem;
  GLP(add_cols)(o->program, (int)(p->node_count * (1 + 2 * p->model_count)));
  for (size_t i = 0; i < p->node_count; i++) {
    const braid_cluster_node *n = &p->nodes[i];
    GLP(set_col_kind)(o->program, awake_column(i), GLP_IV);
    GLP(set_col_bnds)(o->program, awake_column(i), GLP_DB, 0, 1);
    GLP(set_obj_coef)(o->program, awake_column(i), n->idle_watts - n->asleep_watts);
    for (size_t m = 0; m < p->model_count; m++) {
      bool may = may_hold(p, m, i);
      GLP(set_col_kind)(o->program, holds_column(p, m, i), GLP_IV);
      GLP(set_col_bnds)(o->program, holds_column(p, m, i), may ? GLP_DB : GLP_FX, 0, may);
      GLP(set_col_bnds)(o->program, rate_column(p, m, i), may ? GLP_LO : GLP_FX, 0, 0);
      GLP(set_obj_coef)(o->program, rate_column(p, m, i), cost_of(p, m, i) * (n->busy_watts - n->idle_watts));
    }
  }
}

static void add_node_rows(optimum *o, size_t i) {
  const braid_cluster_problem *p = o->problem;
  const braid_cluster_node *n = &p->nodes[i];
  int busy = add_row(o, -INFINITY, 0), memory = add_row(o, -INFINITY, 0);
  add_term(o, busy, awake_column(i), -p->most_busy);
  add_term(o, memory, awake_column(i), -(double)n->memory_bytes);
  for (size_t m = 0; m < p->model_count; m++) {
    if (!may_hold(p, m, i)) continue;
    add_term(o, busy, rate_column(p, m, i), cost_of(p, m, i));
    add_term(o, memory, holds_column(p, m, i), (double)p->models[m].memory_bytes);
    int only = add_row(o, -INFINITY, 0); /* no rate without the model */
    add_term(o, only, rate_column(p, m, i), cost_of(p, m, i) / p->most_busy);
    add_term(o, only, holds_column(p, m, i), -1);
    for (size_t k = 0; k < m; k++) {
      const braid_cluster_model *a = &p->models[m], *b = &p->models[k];
      if (a->tenant == b->tenant || !(a->is_private || b->is_private)) continue;
      int apart = add_row(o, -INFINITY, 1);
      add_term(o, apart, holds_column(p, m, i), 1);
      add_term(o, apart, holds_column(p, k, i), 1);
    }
  }
}

static braid_status optimize(void *context) {
  optimum *o = context;
  const braid_cluster_problem *p = o->problem;
  double asleep = 0;
  glp_iocp how;
  o->program = GLP(create_prob)();
  add_columns(o);
  int cap = 0;
  for (size_t i = 0; i < p->node_count; i++) asleep += p->nodes[i].asleep_watts;
  if (isfinite(p->cap_watts)) cap = add_row(o, -INFINITY, p->cap_watts - asleep);
  for (size_t i = 0; i < p->node_count; i++) {
    if (cap) add_term(o, cap, awake_column(i), p->nodes[i].busy_watts - p->nodes[i].asleep_watts);
    add_node_rows(o, i);
  }
  for (size_t m = 0; m < p->model_count; m++) {
    int load = add_row(o, p->models[m].requests_per_s, p->models[m].requests_per_s);
    int count = add_row(o, (double)p->models[m].least, p->models[m].most ? (double)p->models[m].most : INFINITY);
    for (size_t i = 0; i < p->node_count; i++) {
      add_term(o, load, rate_column(p, m, i), 1);
      add_term(o, count, holds_column(p, m, i), 1);
    }
  }
  GLP(load_matrix)(o->program, o->at, o->rows, o->columns, o->terms);
  GLP(init_iocp)(&how);
  how.presolve = GLP_ON;
  how.mip_gap = 1e-6;
  o->feasible = GLP(intopt)(o->program, &how) == 0 && GLP(mip_status)(o->program) == GLP_OPT;
  if (o->feasible) o->watts = GLP(mip_obj_val)(o->program) + asleep;
  return BRAID_OK;
}

/* Of `rounds` random clusters: how often the load that can be met is met, and how much more is drawn than need be. */
static void compare_with_optimum(size_t nodes, size_t models, uint64_t first, uint64_t rounds, bool capped) {
  static cluster c;
  static optimum o;
  size_t feasible = 0, met = 0;
  double sum = 0, worst = 1;
  if (!braid_glpk_load()) skip_test("glpk", "there is no GLPK");
  for (uint64_t seed = first; seed < first + rounds; seed++) {
    braid_cluster_plan plan;
    make_random(&c, seed, nodes, models);
    if (capped) c.problem.cap_watts = 100 + (double)draw(seed, 600);
    memset(&o, 0, sizeof o);
    o.problem = &c.problem;
    assert_int_equal(braid_glpk_run(optimize, &o, 256), BRAID_OK);
    place(&c.problem, &plan);
    check_plan(&c.problem, &plan);
    if (!plan.lacking && !o.feasible) fail_msg("seed %llu: met what cannot be met", (unsigned long long)seed);
    feasible += o.feasible;
    if (o.feasible && !plan.lacking) {
      double times = plan.watts / o.watts;
      met++;
      sum += times;
      if (times > worst) worst = times;
      if (times < 1 - 1e-5)
        fail_msg("seed %llu: %g W, below the optimum's %g", (unsigned long long)seed, plan.watts, o.watts);
    }
    braid_cluster_plan_deinit(&plan);
  }
  print_message("%zu nodes, %zu models%s: load met in %zu of %zu that can be; watts %.4f times the optimum's, at most "
                "%.3f\n",
                nodes, models, capped ? ", capped" : "", met, feasible, sum / (double)met, worst);
  assert_true(feasible * 4 > rounds && (double)met >= 0.97 * (double)feasible);
  assert_true(sum / (double)met < 1.04 && worst < 1.6);
}

static void test_optimum_small(void **state) {
  (void)state;
  compare_with_optimum(4, 3, 1000, 300, false);
}
static void test_optimum_larger(void **state) {
  (void)state;
  compare_with_optimum(6, 4, 5000, 100, false);
}
static void test_optimum_capped(void **state) {
  (void)state;
  compare_with_optimum(5, 3, 9000, 200, true);
}

/* --- properties ----------------------------------------------------------------------------------------------------
 */
/* Nodes are lost, come back, become slow; loads and caps change: every plan holds, and without a change nothing moves.
 */
static void test_histories(void **state) {
  (void)state;
  static cluster c;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    braid_cluster_plan plan;
    make_random(&c, seed, 3 + seed % (kNodes - 2), 1 + seed % kModels);
    for (int step = 0; step < 8; step++) {
      size_t node = draw(seed, (uint32_t)c.problem.node_count), model = draw(seed, (uint32_t)c.problem.model_count);
      place(&c.problem, &plan);
      check_plan(&c.problem, &plan);
      adopt(&c, &plan);
      braid_cluster_plan_deinit(&plan);
      place(&c.problem, &plan);
      if (plan.move_count && !plan.lacking) {
        check_plan(&c.problem, &plan); /* only ever for the better */
        double before = plan.watts;
        adopt(&c, &plan);
        braid_cluster_plan_deinit(&plan);
        place(&c.problem, &plan);
        assert_true(plan.watts <= before * (1 + 1e-6));
      }
      braid_cluster_plan_deinit(&plan);
      switch (draw(seed, 5)) {
      case 0:
        c.nodes[node].alive ^= 1;
        break;
      case 1:
        c.nodes[node].slow = 1 + draw(seed, 3);
        break;
      case 2:
        c.problem.cap_watts = draw(seed, 2) ? INFINITY : 200 + (double)draw(seed, 1000);
        break;
      case 3:
        c.models[model].is_private ^= 1;
        break;
      default:
        c.models[model].requests_per_s = draw(seed, 150);
      }
    }
  }
}

/* Ten like nodes, five like models. */
static void make_plain(cluster *c) {
  memset(c, 0, sizeof *c);
  point(c, 10, 5, 1);
  for (size_t i = 0; i < 10; i++)
    c->nodes[i] = (braid_cluster_node){.alive = true,
                                       .slow = 1,
                                       .instances = 1,
                                       .memory_bytes = 200,
                                       .power_known = true,
                                       .asleep_watts = 5,
                                       .idle_watts = 60,
                                       .busy_watts = 200,
                                       .load_bytes_per_s = 50};
  for (size_t m = 0; m < 5; m++) {
    c->models[m] = (braid_cluster_model){.memory_bytes = 100, .requests_per_s = 60, .least = 1};
    c->seconds[m] = 0.01;
  }
}

static void test_lost_and_back(void **state) {
  (void)state;
  cluster c;
  braid_cluster_plan plan;
  make_plain(&c);
  place(&c.problem, &plan);
  check_plan(&c.problem, &plan);
  assert_int_equal(plan.lacking, 0);
  assert_true(plan.most_node_busy <= 0.7 + 1e-9);
  adopt(&c, &plan);
  size_t lost = plan.replicas[0].node, held = 0, loads = 0;
  for (size_t i = 0; i < plan.replica_count; i++) held += plan.replicas[i].node == lost;
  braid_cluster_plan_deinit(&plan);
  c.nodes[lost].alive = false; /* only what it held moves */
  place(&c.problem, &plan);
  check_plan(&c.problem, &plan);
  assert_int_equal(plan.lacking, 0);
  for (size_t i = 0; i < plan.move_count; i++) loads += plan.moves[i].load;
  assert_true(loads >= 1 && loads <= held && plan.move_count == loads + held);
  adopt(&c, &plan);
  braid_cluster_plan_deinit(&plan);
  c.nodes[lost].alive = true; /* and it attracts nothing when it is back */
  place(&c.problem, &plan);
  assert_int_equal(plan.move_count, 0);
  braid_cluster_plan_deinit(&plan);
}

static const char *name_of(const void *context, bool is_node, size_t index) {
  static const char *const kNames[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  (void)context;
  (void)is_node;
  return kNames[index];
}

static void test_reasons(void **state) {
  (void)state;
  cluster c;
  braid_cluster_plan plan;
  char text[256];
  make_plain(&c);
  place(&c.problem, &plan);
  braid_cluster_move_text(&plan.moves[0], name_of, NULL, text, sizeof text);
  assert_string_equal(text, "load of a on node a: it has 0 replicas and is to have at least 1");
  adopt(&c, &plan);
  braid_cluster_plan_deinit(&plan);
  c.problem.horizon_s = 0;
  c.models[0].requests_per_s = 300;
  place(&c.problem, &plan);
  assert_true(plan.move_count > 0 && plan.moves[0].load);
  braid_cluster_move_text(&plan.moves[0], name_of, NULL, text, sizeof text);
  assert_non_null(strstr(text, "300 requests/s are wanted, and the others carry"));
  braid_cluster_plan_deinit(&plan);
  c.models[0].requests_per_s = 60;
  c.problem.cap_watts = 200 + 45; /* one node awake */
  place(&c.problem, &plan);
  check_plan(&c.problem, &plan);
  assert_true(plan.lacking > 0 && !plan.moves[0].load && plan.moves[0].reason == BRAID_CLUSTER_CAP);
  braid_cluster_plan_deinit(&plan);
}

static void test_energy_pays_for_moves(void **state) {
  (void)state;
  cluster c;
  braid_cluster_plan plan;
  make_plain(&c); /* five models that work little, on five nodes: three suffice */
  for (size_t m = 0; m < 5; m++) {
    c.models[m].requests_per_s = 5;
    c.present[m] = (braid_cluster_replica){m, m, 0};
  }
  c.problem.present_count = 5;
  c.problem.horizon_s = 0;
  place(&c.problem, &plan);
  assert_int_equal(plan.move_count, 0);
  braid_cluster_plan_deinit(&plan);
  c.problem.horizon_s = 5; /* a load takes 2 s of 200 W, a node that sleeps saves 55 W */
  place(&c.problem, &plan);
  assert_int_equal(plan.move_count, 0);
  braid_cluster_plan_deinit(&plan);
  c.problem.horizon_s = 60;
  place(&c.problem, &plan);
  check_plan(&c.problem, &plan);
  size_t awake = 0;
  for (size_t i = 0; i < 10; i++) awake += plan.awake[i];
  assert_int_equal(awake, 3);
  assert_int_equal(plan.move_count, 4); /* two models move: two loads, two unloads */
  assert_true(plan.moves[0].load && plan.moves[0].reason == BRAID_CLUSTER_ENERGY);
  braid_cluster_plan_deinit(&plan);
}

static void test_refusals(void **state) {
  (void)state;
  cluster c;
  braid_cluster_plan plan;
#define REFUSED(change, says)                                                                                          \
  do {                                                                                                                 \
    make_plain(&c);                                                                                                    \
    change;                                                                                                            \
    assert_int_equal(braid_cluster_place(&c.problem, NULL, &plan), BRAID_INVALID_ARGUMENT);                            \
    assert_non_null(strstr(braid_error_detail(), says));                                                               \
    assert_null(plan.replicas);                                                                                        \
  } while (0)
  REFUSED(c.nodes[3].kind = 1, "node 3: kind");
  REFUSED(c.nodes[3].slow = 0, "node 3: slow");
  REFUSED(c.nodes[3].slow = NAN, "node 3: slow");
  REFUSED(c.nodes[3].instances = 0, "node 3: instances");
  REFUSED(c.nodes[3].busy_watts = 1, "node 3: busy_watts");
  REFUSED(c.models[2].requests_per_s = INFINITY, "model 2: requests_per_s");
  REFUSED((c.models[2].least = 3, c.models[2].most = 2), "model 2: least");
  REFUSED(c.seconds[1] = -1, "model 1: seconds");
  REFUSED(c.problem.most_busy = 1.5, "most_busy");
  REFUSED(c.problem.horizon_s = NAN, "horizon_s");
  REFUSED(c.problem.cap_watts = NAN, "cap_watts");
  REFUSED((c.present[0].node = 10, c.problem.present_count = 1), "present replica 0");
  REFUSED(c.problem.present_count = 2, "present replica 1");
#undef REFUSED
  make_plain(&c);
  c.problem.node_count = c.problem.model_count = 0;
  place(&c.problem, &plan);
  assert_int_equal(plan.replica_count + plan.move_count, 0);
  braid_cluster_plan_deinit(&plan);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_cluster_plan plan;
  braid_status status = braid_cluster_place(context, allocator, &plan);
  braid_cluster_plan_deinit(&plan);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  cluster c;
  make_plain(&c);
  c.problem.cap_watts = 700;
  assert_true(oom_sweep(attempt, &c.problem) > 20);
}

/* 10,000 nodes and 1,000 models: what is there is decided in a moment; a lost node moves only what it held. */
static void test_large(void **state) {
  (void)state;
  enum { kMany = 10000, kOf = 1000 };
  braid_cluster_node *nodes = calloc(kMany, sizeof *nodes);
  braid_cluster_model *models = calloc(kOf, sizeof *models);
  double *seconds = calloc((size_t)4 * kOf, sizeof *seconds);
  assert_true(nodes && models && seconds);
  for (uint32_t i = 0; i < kMany; i++)
    nodes[i] = (braid_cluster_node){.alive = true,
                                    .kind = i % 4,
                                    .slow = 1,
                                    .instances = 1 + i % 2,
                                    .memory_bytes = 1000,
                                    .power_known = true,
                                    .asleep_watts = 5,
                                    .idle_watts = 50,
                                    .busy_watts = 150 + 50 * (i % 4),
                                    .load_bytes_per_s = 100};
  for (uint32_t m = 0; m < kOf; m++) {
    models[m] = (braid_cluster_model){.memory_bytes = 100 + m % 300, .requests_per_s = 100 + m, .least = 2};
    for (uint32_t k = 0; k < 4; k++) seconds[k * kOf + m] = 0.002 * (1 + m % 5) / (1 + k);
  }
  braid_cluster_problem problem = {.nodes = nodes,
                                   .node_count = kMany,
                                   .models = models,
                                   .model_count = kOf,
                                   .seconds = seconds,
                                   .kind_count = 4,
                                   .most_busy = 0.7,
                                   .cap_watts = INFINITY,
                                   .horizon_s = 60};
  braid_cluster_plan plan, next;
  clock_t start = clock();
  place(&problem, &plan);
  double fresh_s = (double)(clock() - start) / CLOCKS_PER_SEC;
  assert_int_equal(plan.lacking, 0);
  problem.present = plan.replicas;
  problem.present_count = plan.replica_count;
  problem.horizon_s = 0; /* what is there stays, if it need not go */
  nodes[plan.replicas[7].node].alive = false;
  start = clock();
  place(&problem, &next);
  double again_s = (double)(clock() - start) / CLOCKS_PER_SEC;
  print_message("10000 nodes, 1000 models, %zu replicas: %.3f s from nothing, %.3f s and %zu moves for a lost node\n",
                plan.replica_count, fresh_s, again_s, next.move_count);
  assert_int_equal(next.lacking, 0);
  assert_true(next.move_count >= 1 && next.move_count < 40);
  assert_true(fresh_s + again_s < 60); /* not quadratic, even under a sanitizer */
  braid_cluster_plan_deinit(&next);
  braid_cluster_plan_deinit(&plan);
  free(nodes);
  free(models);
  free(seconds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_optimum_small),
      cmocka_unit_test(test_optimum_larger),
      cmocka_unit_test(test_optimum_capped),
      cmocka_unit_test(test_histories),
      cmocka_unit_test(test_lost_and_back),
      cmocka_unit_test(test_reasons),
      cmocka_unit_test(test_energy_pays_for_moves),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_large),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
