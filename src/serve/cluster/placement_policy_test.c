/* Placements keep what the header promises, whatever the cluster, and move no more than they must. */
#include <time.h>

#include "oom.h"
#include "serve/cluster/placement_check.h"

/* What is planned is there from now on. */
static void adopt(cluster *c, const braid_cluster_plan *plan) {
  memcpy(c->present, plan->replicas, plan->replica_count * sizeof *c->present);
  c->problem.present_count = plan->replica_count;
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
      check_bounds(&c.problem, &plan);
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

/* A node for each reason why it does not take a model. */
static void test_bounds(void **state) {
  (void)state;
  static cluster c;
  memset(&c, 0, sizeof c);
  point(&c, 9, 3, 2);
  for (size_t i = 0; i < 9; i++)
    c.nodes[i] = (braid_cluster_node){.alive = true,
                                      .slow = 1,
                                      .instances = 1,
                                      .memory_bytes = 100,
                                      .features = 3,
                                      .power_known = true,
                                      .asleep_watts = 10,
                                      .idle_watts = 50,
                                      .busy_watts = 100};
  /* Model 0 is wanted everywhere; 1 fills a node's memory; 2 is a tenant's for itself. */
  c.models[0] = (braid_cluster_model){.memory_bytes = 60, .least = 9, .features = 1};
  c.models[1] = (braid_cluster_model){.memory_bytes = 50, .least = 1, .features = 4};
  c.models[2] = (braid_cluster_model){.memory_bytes = 10, .least = 1, .features = 8, .tenant = 1, .is_private = true};
  for (size_t m = 0; m < 3; m++) c.seconds[m] = 0.01;
  c.nodes[0].alive = false;
  c.nodes[1].kind = 1; /* without a time */
  c.nodes[2].features = 2;
  c.nodes[3].memory_bytes = 59;
  c.nodes[4].features = 5;
  c.nodes[5].features = 9;
  c.present[0] = (braid_cluster_replica){.model = 1, .node = 4};
  c.present[1] = (braid_cluster_replica){.model = 2, .node = 5};
  c.problem.present_count = 2;
  c.problem.cap_watts = 4 * 100 + 4 * 10; /* four of eight awake: those two and two more */
  braid_cluster_plan plan;
  place(&c.problem, &plan);
  check_bounds(&c.problem, &plan);
  char text[512];
  braid_cluster_bounds_text(&plan.bounds[0], text, sizeof text);
  assert_string_equal(
      text, "1 node is lost, 1 node has no known time for it, 1 node lacks features that it takes, 1 node has "
            "less memory than it takes, 2 nodes hold it already, 1 node is another tenant's, 1 node has "
            "too little memory left, 1 node has to sleep under the cap");
  char little[20];
  braid_cluster_bounds_text(&plan.bounds[0], little, sizeof little);
  assert_memory_equal(little, text, sizeof little - 1);
  braid_cluster_bounds_text(&(braid_cluster_bounds){.replicas = 0}, text, sizeof text);
  assert_string_equal(text, "there are no nodes");
  braid_cluster_plan_deinit(&plan);
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

/* As the control node of daemons asks: like nodes, no watts of their own, no horizon, and seconds that are measured
 * anew each time. Nothing that has its place goes away for that, be the cluster idle, busy or overloaded, also when a
 * node is lost and comes back; and what is idle moves not at all. */
static void test_varying_seconds(void **state) {
  (void)state;
  enum { OF_NODES = 3, OF_MODELS = 6 };
  static const double kRates[] = {0, 3, 40, 200};
  static cluster c;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    braid_cluster_plan plan;
    double rate = kRates[seed % 4];
    size_t most_moves = rate <= 3 ? 0 : SIZE_MAX;
    memset(&c, 0, sizeof c);
    point(&c, OF_NODES, OF_MODELS, OF_NODES);
    c.problem.horizon_s = 0;
    for (size_t i = 0; i < OF_NODES; i++)
      c.nodes[i] = (braid_cluster_node){.alive = true,
                                        .kind = i,
                                        .slow = 1,
                                        .instances = 1,
                                        .memory_bytes = 1000,
                                        .power_known = true,
                                        .asleep_watts = 1,
                                        .idle_watts = 1,
                                        .busy_watts = 2};
    for (size_t m = 0; m < OF_MODELS; m++)
      c.models[m] = (braid_cluster_model){
          .memory_bytes = 100, .requests_per_s = rate, .least = 1 + seed / 4 % OF_NODES, .most = 16};
    for (int step = 0; step < 12; step++) {
      for (size_t i = 0; i < (size_t)OF_NODES * OF_MODELS; i++) c.seconds[i] = 0.001 * (1 + draw(seed, 30));
      c.nodes[1].alive = step != 4 && step != 5;
      place(&c.problem, &plan);
      for (size_t i = 0; i < plan.move_count; i++)
        if (!plan.moves[i].load && plan.moves[i].reason != BRAID_CLUSTER_GONE)
          fail_msg("seed %llu, step %d: model %zu leaves node %zu, reason %d", (unsigned long long)seed, step,
                   plan.moves[i].model, plan.moves[i].node, (int)plan.moves[i].reason);
      if (step && step != 4 && step != 6) assert_true(plan.move_count <= most_moves);
      adopt(&c, &plan);
      braid_cluster_plan_deinit(&plan);
    }
  }
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

      cmocka_unit_test(test_histories),
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_lost_and_back),
      cmocka_unit_test(test_reasons),
      cmocka_unit_test(test_energy_pays_for_moves),
      cmocka_unit_test(test_varying_seconds),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_large),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
