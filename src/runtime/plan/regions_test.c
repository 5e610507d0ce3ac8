/* Regions: what a backend claims runs as one task, right, and broken claims are refused with a sentence. The backend is
 * a plug-in (tests/plugins/regions.c) that has no kernels for single nodes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/plan.h"
#include "braid/session.h"
#include "oom.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

enum { kSide = 6, kCount = kSide * kSide, kRuns = 3 };

static braid_registry *open_registry(const char *claims) {
  braid_registry *registry;
  assert_int_equal(setenv("BRAID_REGIONS", claims, 1), 0);
  OK(braid_registry_create(NULL, &registry));
  OK(braid_registry_load(registry, BRAID_PLUGIN_FOLDER "/regions.so"));
  return registry;
}

/* --- graphs of matrices of kSide x kSide ---------------------------------------------------------------------------
 */
static braid_value_id add(braid_graph *graph, const char *op, const char *name, braid_value_id a, braid_value_id b) {
  braid_value_id out;
  OK(braid_graph_add_node(graph, op, name, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, &out, 1, NULL));
  return out;
}

static braid_value_id input(braid_graph *graph, const char *name) {
  braid_desc desc;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){kSide, kSide}));
  OK(braid_graph_add_input(graph, name, &desc, &id));
  return id;
}

static braid_value_id tensor(braid_graph *graph, const char *name, braid_value_kind kind, int step) {
  braid_desc desc;
  braid_tensor *made;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){kSide, kSide}));
  OK(braid_tensor_create(NULL, &desc, &made));
  float *data = braid_tensor_data(made);
  for (int i = 0; i < kCount; i++) data[i] = (float)(i * step % 7 - 3) / 8;
  OK(braid_graph_add_tensor(graph, name, kind, made, &id));
  braid_tensor_release(made);
  return id;
}

static braid_graph *new_graph(void) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "regions", &graph));
  return graph;
}

/* One constant as a matrix, one in a sum, one in both; a new shape inside; Sigmoid cuts it in two; two inputs, and
 * three outputs, of which one is in the middle. */
static braid_graph *whole_graph(void) {
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x"), y = input(graph, "y");
  braid_value_id w = tensor(graph, "w", BRAID_VALUE_CONSTANT, 3), c = tensor(graph, "c", BRAID_VALUE_CONSTANT, 5),
                 both = tensor(graph, "both", BRAID_VALUE_CONSTANT, 2);
  braid_value_id a = add(graph, "MatMul", "a", x, w), b = add(graph, "Relu", "b", a, -1);
  b = add(graph, "MatMul", "b2", add(graph, "Add", "b1", b, both), both);
  braid_value_id flat = add(graph, "Flatten", "flat", b, -1), sum = add(graph, "Add", "sum", flat, c);
  braid_value_id gate = add(graph, "Sigmoid", "gate", sum, -1), late = add(graph, "Add", "late", gate, y);
  late = add(graph, "Relu", "rest", late, -1);
  OK(braid_graph_add_output(graph, a));
  OK(braid_graph_add_output(graph, sum));
  OK(braid_graph_add_output(graph, late));
  return graph;
}

/* p -> q and r -> s: {p, s} and {q, r} wait for each other. */
static braid_graph *cross_graph(void) {
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x"), y = input(graph, "y");
  OK(braid_graph_add_output(graph, add(graph, "Relu", "q", add(graph, "Add", "p", x, y), -1)));
  OK(braid_graph_add_output(graph, add(graph, "Add", "s", add(graph, "Relu", "r", y, -1), x)));
  return graph;
}

/* A state that grows, and a parameter that follows its gradient: y = sum((x w)^2), w += dy/dw. */
static braid_graph *training_graph(void) {
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x"), w = tensor(graph, "w", BRAID_VALUE_PARAMETER, 3),
                 s = tensor(graph, "s", BRAID_VALUE_STATE, 5), gradient;
  braid_value_id product = add(graph, "MatMul", "product", x, w), loss, grown = add(graph, "Add", "grown", s, x);
  braid_value_id square = add(graph, "Mul", "square", product, add(graph, "Relu", "act", product, -1));
  OK(braid_graph_add_node(graph, "ReduceMean", "loss", &square, 1, &loss, 1, NULL));
  OK(braid_graph_gradients(graph, loss, &w, 1, &gradient));
  OK(braid_graph_update_state(graph, w, add(graph, "Add", "step", w, gradient)));
  OK(braid_graph_update_state(graph, s, grown));
  OK(braid_graph_add_output(graph, loss));
  OK(braid_graph_add_output(graph, add(graph, "Relu", "seen", s, -1)));
  return graph;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
typedef struct results {
  float outputs[3][kCount], state[kCount];
  size_t regions, tasks; /* tasks that are no transfers and no conversions */
} results;

static void run_graph(const braid_graph *graph, const braid_session_options *options, results *out) {
  float x[kCount], y[kCount];
  braid_session *session;
  memset(out, 0, sizeof *out);
  for (int i = 0; i < kCount; i++) x[i] = (float)(i % 5 - 2) / 4, y[i] = (float)(i % 3 - 1) / 2;
  OK(braid_session_create(graph, options, &session));
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    bool region = strcmp(line.op, "Region") == 0;
    if (region) assert_string_equal(line.device, "chip");
    if (region) assert_string_equal(line.kernel, "chip_region");
    out->regions += region;
    out->tasks += strcmp(line.kernel, "transfer") != 0 && strcmp(line.op, "LayoutConvert") != 0;
  }
  for (int i = 0; i < kRuns; i++)
    OK(braid_session_run(session, (const void *[]){x, y},
                         (void *[]){out->outputs[0], out->outputs[1], out->outputs[2]}));
  if (options->training) {
    braid_tensor *w;
    braid_desc desc;
    OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){kSide, kSide}));
    OK(braid_tensor_create(NULL, &desc, &w));
    OK(braid_session_read(session, "w", w));
    memcpy(out->state, braid_tensor_const_data(w), sizeof out->state);
    braid_tensor_release(w);
  }
  braid_session_destroy(session);
}

static void check_same(const results *a, const results *b) {
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < kCount; i++)
      if (fabsf(a->outputs[k][i] - b->outputs[k][i]) > 1e-5f)
        fail_msg("output %d, element %d: %g, not %g", k, i, (double)a->outputs[k][i], (double)b->outputs[k][i]);
  for (int i = 0; i < kCount; i++) assert_true(fabsf(a->state[i] - b->state[i]) <= 1e-5f);
}

static const struct {
  const char *claims;
  braid_graph *(*make)(void);
  bool training;
  size_t regions;
} kCases[] = {
    {"", whole_graph, false, 2},       /* Sigmoid between them is the CPU's */
    {"cross", cross_graph, false, 1},  /* the later one is taken apart */
    {"", cross_graph, false, 1},       /* all of it at once */
    {"nested", whole_graph, false, 2}, /* the largest */
    {"nested", cross_graph, false, 1}, {"nested", training_graph, true, 0},
    {"none", whole_graph, false, 0},   {"", training_graph, true, 0}, /* as many as there are, at least one */
};

static void test_regions_run(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++)
    for (int automatic = 0; automatic < 2; automatic++) {
      braid_graph *graph = kCases[i].make();
      braid_registry *registry = open_registry(kCases[i].claims);
      results here, alone;
      braid_session_options options = {.devices = "cpu", .registry = registry, .training = kCases[i].training};
      options.no_fusion = true; /* a task for each node, to count those of regions against */
      run_graph(graph, &options, &alone);
      options.no_fusion = false;
      options.devices = "chip cpu";
      options.place = automatic ? "auto" : NULL;
      options.explain = true;
      run_graph(graph, &options, &here);
      if (!automatic && kCases[i].training) assert_true(here.regions > 0);
      if (!automatic && !kCases[i].training) assert_int_equal(here.regions, kCases[i].regions);
      if (here.regions) assert_true(here.tasks < alone.tasks);
      check_same(&here, &alone);
      braid_registry_destroy(registry);
      braid_graph_destroy(graph);
    }
}

/* Nobody else has to be there, and what is fixed elsewhere is in no region; one nested in a region that has it may be
 * taken. */
static void test_alone_and_by_hand(void **state) {
  (void)state;
  braid_graph *graph = cross_graph();
  braid_registry *registry = open_registry("");
  results here, expected;
  run_graph(graph, &(braid_session_options){.devices = "cpu", .registry = registry}, &expected);
  run_graph(graph, &(braid_session_options){.devices = "chip", .registry = registry}, &here);
  assert_int_equal(here.regions, 1);
  check_same(&here, &expected);
  run_graph(graph, &(braid_session_options){.devices = "chip cpu", .registry = registry, .place = "q=cpu"}, &here);
  assert_int_equal(here.regions, 0);
  check_same(&here, &expected);
  braid_registry_destroy(registry);
  registry = open_registry("nested");
  run_graph(graph, &(braid_session_options){.devices = "chip cpu", .registry = registry, .place = "q=cpu"}, &here);
  assert_int_equal(here.regions, 1);
  check_same(&here, &expected);
  braid_registry_destroy(registry);
  braid_graph_destroy(graph);
}

/* The offers of regions of a graph: all, and those whose time is measured. */
static size_t count_regions(braid_machine *machine, const braid_graph *graph, size_t *measured) {
  braid_plan *plan;
  size_t regions = 0;
  *measured = 0;
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.explain = true}, &plan));
  for (size_t i = 0; i < braid_plan_line_count(plan); i++)
    for (size_t k = 0; k < braid_plan_offer_count(plan, i); k++) {
      braid_plan_offer offer = braid_plan_get_offer(plan, i, k);
      regions += strcmp(offer.op, "Region") == 0;
      *measured += strcmp(offer.op, "Region") == 0 && offer.measured;
      if (offer.measured) assert_true(offer.us > 0);
    }
  braid_plan_release(plan);
  return regions;
}

/* What a region takes is known to later plans: where it stands in another graph, too, but not of other regions. */
static void test_times(void **state) {
  (void)state;
  braid_registry *registry = open_registry("");
  braid_graph *graph = whole_graph(), *other = cross_graph(), *longer = whole_graph();
  OK(braid_graph_add_output(longer, add(longer, "Sigmoid", "more", 0, -1)));
  braid_machine *machine;
  braid_plan *plan;
  braid_execution *execution;
  float x[kCount] = {1, 2, 3}, y[kCount] = {4}, outputs[3][kCount];
  size_t measured;
  OK(braid_machine_create(NULL, &(braid_machine_options){.devices = "chip cpu", .registry = registry}, &machine));
  assert_int_equal(count_regions(machine, graph, &measured), 2);
  assert_int_equal(measured, 0);
  OK(braid_plan_create(machine, graph, NULL, &plan));
  OK(braid_execution_create(plan, NULL, &execution));
  for (int i = 0; i < 8; i++)
    OK(braid_execution_run(execution, (const void *[]){x, y}, (void *[]){outputs[0], outputs[1], outputs[2]}));
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  assert_int_equal(count_regions(machine, graph, &measured), 2);
  assert_int_equal(measured, 2);
  assert_int_equal(count_regions(machine, longer, &measured), 2);
  assert_int_equal(measured, 2);
  assert_int_equal(count_regions(machine, other, &measured), 1);
  assert_int_equal(measured, 0);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
  braid_graph_destroy(graph);
  braid_graph_destroy(other);
  braid_graph_destroy(longer);
}

/* Two plans over the same weights: packed constants are found again. */
static void test_shared_weights(void **state) {
  (void)state;
  braid_graph *graph = whole_graph();
  braid_registry *registry = open_registry("");
  braid_machine *machine;
  braid_weights *weights;
  braid_plan *plans[2];
  braid_execution *executions[2];
  size_t bytes[2];
  OK(braid_machine_create(NULL, &(braid_machine_options){.devices = "chip cpu", .registry = registry}, &machine));
  OK(braid_weights_create(machine, &weights));
  for (int i = 0; i < 2; i++) {
    OK(braid_plan_create(machine, graph, NULL, &plans[i]));
    OK(braid_execution_create(plans[i], weights, &executions[i]));
    bytes[i] = braid_weights_bytes(weights);
  }
  assert_int_equal(bytes[0], bytes[1]);
  void *saved;
  size_t saved_bytes;
  assert_int_equal(braid_plan_encode(plans[0], graph, NULL, &saved, &saved_bytes), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "with regions cannot be saved"));
  float x[kCount] = {1, 2, 3}, y[kCount] = {4}, outputs[2][3][kCount];
  for (int i = 0; i < 2; i++)
    OK(braid_execution_run(executions[i], (const void *[]){x, y},
                           (void *[]){outputs[i][0], outputs[i][1], outputs[i][2]}));
  assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
  for (int i = 0; i < 2; i++) {
    braid_execution_destroy(executions[i]);
    braid_plan_release(plans[i]);
  }
  braid_weights_release(weights);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
  braid_graph_destroy(graph);
}

/* --- claims that are none ------------------------------------------------------------------------------------------
 */
static braid_graph *claimed_graph(void) {
  braid_graph *graph = new_graph();
  braid_value_id x = input(graph, "x"), a = add(graph, "Relu", "a", x, -1), b = add(graph, "Add", "b", a, x),
                 c = add(graph, "Add", "c", a, b), d = add(graph, "Add", "d", c, a);
  OK(braid_graph_add_output(graph, d));
  return graph;
}

static void test_broken_claims(void **state) {
  (void)state;
  static const struct {
    const char *claims, *said;
    braid_status status;
  } cases[] = {
      {"twice", "kernel chip_region has a node twice: a", BRAID_INVALID_ARGUMENT},
      {"overlap", "has a part of the nodes of another region: b", BRAID_INVALID_ARGUMENT},
      {"overlap, and quiet", "has a part of the nodes of another region: b", BRAID_INVALID_ARGUMENT},
      {"convex", "is not convex, between its nodes is one that it has not: c", BRAID_INVALID_ARGUMENT},
      {"nobody", "has a node that the graph has not", BRAID_INVALID_ARGUMENT},
      {"empty", "has no node that runs", BRAID_INVALID_ARGUMENT},
      {"kernel", "kernel chip_relu names none for the op Region", BRAID_INVALID_ARGUMENT},
      {"fails", "claiming regions: the chip's compiler has ended", BRAID_INTERNAL},
  };
  braid_graph *graph = claimed_graph();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_registry *registry = open_registry(cases[i].claims);
    braid_session_options options = {.devices = "chip cpu", .registry = registry};
    braid_session *session;
    assert_int_equal(braid_session_create(graph, &options, &session), cases[i].status);
    if (!strstr(braid_error_detail(), cases[i].said) || !strstr(braid_error_detail(), "chip"))
      fail_msg("%s: %s", cases[i].claims, braid_error_detail());
    braid_registry_destroy(registry);
  }
  braid_graph_destroy(graph);
  braid_registry *registry;
  assert_int_equal(setenv("BRAID_REGIONS", "no query_region", 1), 0);
  OK(braid_registry_create(NULL, &registry));
  assert_int_equal(braid_registry_load(registry, BRAID_PLUGIN_FOLDER "/regions.so"), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "query_region"));
  braid_registry_destroy(registry);
}

static braid_status plan_regions(const braid_allocator *allocator, void *context) {
  braid_machine *machine;
  braid_plan *plan;
  braid_machine_options options = {.devices = "chip cpu", .registry = context};
  braid_status status = braid_machine_create(allocator, &options, &machine);
  if (status != BRAID_OK) return status;
  braid_graph *graph;
  status = braid_graph_create(allocator, "swept", &graph);
  if (status == BRAID_OK) {
    braid_desc desc;
    braid_value_id x, y;
    OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){kSide, kSide}));
    status = braid_graph_add_input(graph, "x", &desc, &x);
    if (status == BRAID_OK) status = braid_graph_add_node(graph, "Relu", "r", &x, 1, &y, 1, NULL);
    if (status == BRAID_OK) status = braid_graph_add_node(graph, "Flatten", "f", &y, 1, &y, 1, NULL);
    if (status == BRAID_OK) status = braid_graph_add_node(graph, "Add", "s", (braid_value_id[]){y, y}, 2, &y, 1, NULL);
    if (status == BRAID_OK) status = braid_graph_add_output(graph, y);
    if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
    if (status == BRAID_OK) braid_plan_release(plan);
    braid_graph_destroy(graph);
  }
  braid_machine_release(machine);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_registry *registry = open_registry("");
  (void)oom_sweep(plan_regions, registry);
  braid_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_regions_run),   cmocka_unit_test(test_alone_and_by_hand),
      cmocka_unit_test(test_times),         cmocka_unit_test(test_shared_weights),
      cmocka_unit_test(test_broken_claims), cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
