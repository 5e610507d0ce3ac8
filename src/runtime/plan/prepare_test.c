/* Kernels of a session prepared by several threads: all of them once, in parallel, and of several failures always the
 * one that comes first in the graph; what they see of weights that a normalization is folded into. The device is the
 * null one with a prepare of the test's. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "braid/session.h"

extern const braid_backend braid_backend_null;

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kNodes = 60, kFirstBad = 23 };

static atomic_int prepared, discarded, inside, most_inside;
static atomic_bool failing;

static int number_of(const braid_node_desc *node) { /* called on threads that may not fail the test */
  int number = -1;
  (void)sscanf(node->name, "n%d", &number);
  return number;
}

static braid_status prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                            braid_prepared_info *info) {
  int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
  while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now)) {
  }
  int number = number_of(node);
  /* later ones fail sooner */
  nanosleep(&(struct timespec){.tv_nsec = number == kFirstBad ? 2000000 : 100000}, NULL);
  atomic_fetch_sub(&inside, 1);
  if (atomic_load(&failing) && (number >= kFirstBad || strcmp(node->op, "Add") == 0))
    return braid_fail(BRAID_UNSUPPORTED, "number %d", number);
  atomic_fetch_add(&prepared, 1);
  return braid_backend_null.prepare(self, kernel, node, out, info);
}

static void discard(void *self, void *what) {
  atomic_fetch_add(&discarded, 1);
  braid_backend_null.discard(self, what);
}

static void info(void *self, braid_device_info *out) {
  (void)self;
  size_t count;
  OK(braid_backend_null.enumerate(out, 1, &count));
  snprintf(out->name, sizeof out->name, "slow");
  out->compute_units = 4;
}

static braid_status enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (capacity) info(NULL, &infos[0]);
  return BRAID_OK;
}

static const braid_kernel *const *kernels(void *self, size_t *count) {
  static const braid_kernel kCopy = {.op = "Relu", .name = "slow_copy"}, kAdd = {.op = "Add", .name = "slow_add"};
  static const braid_kernel *const kAll[] = {&kCopy, &kAdd};
  (void)self;
  *count = 2;
  return kAll;
}

static braid_graph *chain(const braid_allocator *allocator) {
  braid_graph *graph;
  OK(braid_graph_create(allocator, "chain", &graph));
  braid_desc desc;
  OK(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){8}));
  braid_value_id value;
  OK(braid_graph_add_input(graph, "x", &desc, &value));
  for (int i = 0; i < kNodes; i++) {
    char name[8];
    snprintf(name, sizeof name, "n%d", i);
    OK(braid_graph_add_node(graph, "Relu", name, &value, 1, &value, 1, NULL));
  }
  OK(braid_graph_add_output(graph, value));
  return graph;
}

static braid_backend slow_backend(void) {
  braid_backend backend = braid_backend_null;
  backend.name = "slow";
  backend.enumerate = enumerate;
  backend.info = info;
  backend.kernels = kernels;
  backend.prepare = prepare;
  backend.discard = discard;
  return backend;
}

/* What has been said of the progress; by several threads, but one at a time. */
static size_t told, told_done;
static bool in_order;

static void hear_progress(void *context, const char *what, size_t done, size_t total) {
  in_order = in_order && context == &told && strcmp(what, "preparing kernels") == 0 && total == kNodes && done == told;
  told++;
  told_done = done;
}

static braid_status attempt(bool concurrent) {
  braid_backend backend = slow_backend();
  backend.concurrent_prepare = concurrent;
  braid_registry *registry;
  OK(braid_registry_create(NULL, &registry));
  OK(braid_registry_add(registry, &backend));
  braid_registry_set_progress(registry, &(braid_progress){hear_progress, &told});
  told = told_done = 0, in_order = true;
  braid_graph *graph = chain(NULL);
  braid_session_options options = {.registry = registry, .devices = "slow", .no_fusion = true};
  atomic_store(&prepared, 0), atomic_store(&discarded, 0), atomic_store(&most_inside, 0);
  braid_session *session;
  braid_status status = braid_session_create(graph, &options, &session);
  if (status == BRAID_OK) braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_registry_destroy(registry);
  return status;
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
static void test_all_are_prepared_once(void **state) {
  (void)state;
  atomic_store(&failing, false);
  for (int concurrent = 0; concurrent < 2; concurrent++) {
    OK(attempt(concurrent));
    assert_int_equal(atomic_load(&prepared), kNodes);
    assert_int_equal(atomic_load(&discarded), kNodes);
    assert_true(in_order && told == kNodes + 1 && told_done == kNodes);
    if (concurrent)
      assert_true(atomic_load(&most_inside) > 1);
    else
      assert_int_equal(atomic_load(&most_inside), 1);
  }
}

static void test_the_first_failure_is_told(void **state) {
  (void)state;
  atomic_store(&failing, true);
  for (int round = 0; round < 40; round++) {
    assert_int_equal(attempt(round % 2), BRAID_UNSUPPORTED);
    assert_string_equal(braid_error_detail(), "node n23 (Relu): kernel slow_copy: number 23");
    assert_int_equal(atomic_load(&prepared), kFirstBad);
    assert_int_equal(atomic_load(&discarded), kFirstBad);
  }
}

/* --- kernels that executions share ---------------------------------------------------------------------------------
 */
static braid_graph *sum_graph(int64_t count, float added) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id values[2], sum;
  braid_tensor *tensor;
  OK(braid_graph_create(NULL, "sum", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < count; i++) ((float *)braid_tensor_data(tensor))[i] = added;
  OK(braid_graph_add_input(graph, "x", &desc, &values[0]));
  OK(braid_graph_add_tensor(graph, "c", BRAID_VALUE_CONSTANT, tensor, &values[1]));
  OK(braid_graph_add_node(graph, "Add", NULL, values, 2, &sum, 1, NULL));
  OK(braid_graph_add_output(graph, sum));
  braid_tensor_release(tensor);
  return graph;
}

typedef struct maker {
  braid_machine *machine;
  braid_graph *graph;
  braid_execution *execution;
  braid_status status;
  pthread_t thread;
} maker;

/* An execution of a plan of its own. */
static void *make_execution(void *context) {
  maker *m = context;
  braid_plan *plan;
  m->status = braid_plan_create(m->machine, m->graph, &(braid_plan_options){.no_fusion = true}, &plan);
  if (m->status != BRAID_OK) return NULL;
  m->status = braid_execution_create(plan, NULL, &m->execution);
  braid_plan_release(plan);
  return NULL;
}

/* Nodes that are alike have one kernel between them, in one plan and in several, made at the same time; those that
 * differ in shape, or in what prepare may look at, do not. It goes with its last user. A backend that does not allow it
 * is asked for each. */
static void test_alike_nodes_share(void **state) {
  (void)state;
  enum { kMakers = 8, kAlike = 4 };
  atomic_store(&failing, false);
  for (int shares = 0; shares < 2; shares++) {
    braid_backend backend = slow_backend();
    backend.concurrent_prepare = true;
    backend.shares_prepared = shares;
    braid_registry *registry;
    braid_machine *machine;
    OK(braid_registry_create(NULL, &registry));
    OK(braid_registry_add(registry, &backend));
    OK(braid_machine_create(NULL, &(braid_machine_options){.registry = registry, .devices = "slow"}, &machine));
    braid_graph *graphs[kMakers] = {chain(NULL),     chain(NULL),     chain(NULL),     chain(NULL),
                                    sum_graph(8, 1), sum_graph(8, 1), sum_graph(8, 2), sum_graph(16, 1)};
    atomic_store(&prepared, 0), atomic_store(&discarded, 0);
    maker makers[kMakers];
    for (int i = 0; i < kMakers; i++) {
      makers[i] = (maker){.machine = machine, .graph = graphs[i]};
      assert_int_equal(pthread_create(&makers[i].thread, NULL, make_execution, &makers[i]), 0);
    }
    for (int i = 0; i < kMakers; i++) {
      assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
      assert_int_equal(makers[i].status, BRAID_OK);
    }
    int all = shares ? 1 + 3 : kAlike * kNodes + 4;
    assert_int_equal(atomic_load(&prepared), all);
    for (int i = 1; i < kMakers; i++) braid_execution_destroy(makers[i].execution);
    assert_int_equal(atomic_load(&discarded), shares ? 3 : all - kNodes);
    braid_execution_destroy(makers[0].execution);
    assert_int_equal(atomic_load(&discarded), all);
    for (int i = 0; i < kMakers; i++) braid_graph_destroy(graphs[i]);
    braid_machine_release(machine);
    braid_registry_destroy(registry);
  }
}

/* Whoever waits for a kernel that another thread prepares is told when that fails. */
static void test_failures_are_not_shared(void **state) {
  (void)state;
  enum { kMakers = 4 };
  braid_backend backend = slow_backend();
  backend.concurrent_prepare = backend.shares_prepared = true;
  braid_registry *registry;
  braid_machine *machine;
  OK(braid_registry_create(NULL, &registry));
  OK(braid_registry_add(registry, &backend));
  OK(braid_machine_create(NULL, &(braid_machine_options){.registry = registry, .devices = "slow"}, &machine));
  braid_graph *graph = sum_graph(8, 1);
  atomic_store(&prepared, 0), atomic_store(&discarded, 0);
  for (int round = 0; round < 2; round++) {
    atomic_store(&failing, round == 0);
    maker makers[kMakers];
    for (int i = 0; i < kMakers; i++) {
      makers[i] = (maker){.machine = machine, .graph = graph};
      assert_int_equal(pthread_create(&makers[i].thread, NULL, make_execution, &makers[i]), 0);
    }
    for (int i = 0; i < kMakers; i++) {
      assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
      assert_int_equal(makers[i].status, round ? BRAID_OK : BRAID_UNSUPPORTED);
      braid_execution_destroy(makers[i].execution);
    }
    assert_true(atomic_load(&prepared) >= round && atomic_load(&prepared) == atomic_load(&discarded));
  }
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
}

/* --- weights that a normalization is folded into -------------------------------------------------------------------
 */
static float matched_weight, prepared_weight;

static bool look_at_weight(const braid_node_desc *node, char *why, size_t why_bytes) {
  (void)why, (void)why_bytes;
  matched_weight = *(const float *)node->inputs[1].constant;
  return true;
}

static braid_status note_weight(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                                braid_prepared_info *what) {
  prepared_weight = *(const float *)node->inputs[1].constant;
  return braid_backend_null.prepare(self, kernel, node, out, what);
}

static const braid_kernel *const *conv_kernels(void *self, size_t *count) {
  static const braid_kernel kConv = {.op = "Conv", .name = "slow_conv", .match = look_at_weight};
  static const braid_kernel *const kAll[] = {&kConv};
  (void)self;
  *count = 1;
  return kAll;
}

static braid_value_id constant(braid_graph *graph, int rank, float number) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id value;
  OK(braid_desc_init(&desc, BRAID_F32, rank, (int64_t[]){1, 1, 1, 1}));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  *(float *)braid_tensor_data(tensor) = number;
  OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &value));
  braid_tensor_release(tensor);
  return value;
}

/* Conv by 3, then a normalization that multiplies by 7 / sqrt(4 - 0). */
static braid_graph *normalized_conv(void) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y;
  braid_node_id norm;
  OK(braid_graph_create(NULL, "folded", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 1, 2, 2}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_node(graph, "Conv", "conv", (braid_value_id[]){x, constant(graph, 4, 3)}, 2, &y, 1, NULL));
  braid_value_id inputs[] = {y, constant(graph, 1, 7), constant(graph, 1, 0), constant(graph, 1, 0),
                             constant(graph, 1, 4)};
  OK(braid_graph_add_node(graph, "BatchNormalization", "norm", inputs, 5, &y, 1, &norm));
  OK(braid_graph_set_float(graph, norm, "epsilon", 0));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

/* A plan computes none of the weights; who prepares sees them final, asked beforehand or not. */
static void test_folded_weights(void **state) {
  (void)state;
  for (int asked = 0; asked < 2; asked++) {
    braid_backend backend = braid_backend_null;
    backend.name = "slow";
    backend.enumerate = enumerate;
    backend.info = info;
    backend.kernels = conv_kernels;
    backend.prepare = note_weight;
    if (!asked) backend.query = NULL;
    braid_registry *registry;
    OK(braid_registry_create(NULL, &registry));
    OK(braid_registry_add(registry, &backend));
    braid_graph *graph = normalized_conv();
    braid_session_options options = {.registry = registry, .devices = "slow"};
    braid_session *session;
    matched_weight = prepared_weight = 0;
    OK(braid_session_create(graph, &options, &session));
    assert_true(matched_weight == 3.0f);
    assert_true(prepared_weight == 10.5f);
    braid_session_destroy(session);
    braid_graph_destroy(graph);
    braid_registry_destroy(registry);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_are_prepared_once), cmocka_unit_test(test_the_first_failure_is_told),
      cmocka_unit_test(test_alike_nodes_share), cmocka_unit_test(test_failures_are_not_shared),
      cmocka_unit_test(test_folded_weights)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
