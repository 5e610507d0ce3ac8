/* Placements of small clusters against the optimum that GLPK finds for the same problem, written down here a second
 * time as a mixed-integer program. */
#include "schedule/program/glpk.h"
#include "serve/cluster/placement_check.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_optimum_small), cmocka_unit_test(test_optimum_larger),
                                     cmocka_unit_test(test_optimum_capped)};
  return skip_run_group_tests(tests, NULL, NULL);
}
