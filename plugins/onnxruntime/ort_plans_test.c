/* Plans of a group by shapes and contents, without ONNX Runtime: what is kept, what is found again, many threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "oom.h"
#include "plans.h"

#define OK(call) assert_int_equal(call, BRAID_OK)

enum { kColumns = 8, kMostRows = 6, kThreads = 4, kRounds = 200 };

/* y = relu(x) * 2, of an open number of rows; with `shaped`, in a shape that a second input gives. */
static braid_graph *double_graph(bool shaped) {
  braid_graph *graph;
  braid_desc desc, two;
  braid_tensor *tensor;
  braid_value_id inputs[2], shape, y, z;
  OK(braid_graph_create(NULL, "double", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){1, kColumns}));
  desc.dims[0] = -1;
  OK(braid_graph_add_input(graph, "x", &desc, &inputs[0]));
  OK(braid_desc_init(&two, BRAID_F32, 0, NULL));
  OK(braid_tensor_create(NULL, &two, &tensor));
  braid_tensor_set_f64(tensor, 0, 2);
  OK(braid_graph_add_tensor(graph, "two", BRAID_VALUE_CONSTANT, tensor, &inputs[1]));
  braid_tensor_release(tensor);
  y = z = 0;
  OK(braid_graph_add_node(graph, "Relu", NULL, inputs, 1, &y, 1, NULL));
  OK(braid_graph_add_node(graph, "Mul", NULL, (braid_value_id[]){y, inputs[1]}, 2, &z, 1, NULL));
  if (shaped) {
    OK(braid_desc_init(&desc, BRAID_I64, 1, (int64_t[]){2}));
    OK(braid_graph_add_input(graph, "shape", &desc, &shape));
    OK(braid_graph_add_node(graph, "Reshape", NULL, (braid_value_id[]){z, shape}, 2, &y, 1, NULL));
    z = y;
  }
  OK(braid_graph_add_output(graph, z));
  return graph;
}

static braid_ort_plans *make_plans(bool shaped, size_t limit, braid_machine **machine, braid_weights **weights) {
  braid_ort_plans *plans;
  OK(braid_machine_create(NULL, NULL, machine));
  OK(braid_weights_create(*machine, weights));
  braid_ort_plans_options options = {.machine = *machine, .weights = *weights, .limit = limit};
  OK(braid_ort_plans_create(&options, double_graph(shaped), &plans));
  return plans;
}

static void drop_plans(braid_ort_plans *plans, braid_machine *machine, braid_weights *weights) {
  braid_ort_plans_destroy(plans);
  braid_weights_release(weights);
  braid_machine_release(machine);
}

/* Runs with `rows` rows; returns the number of wrong elements. `shape` NULL: no second input. */
static int run_rows(braid_ort_plans *plans, int64_t rows, const int64_t *shape, braid_ort_plan **used) {
  static const int64_t two = 2;
  float x[kMostRows * kColumns], y[kMostRows * kColumns];
  int64_t dims[] = {rows, kColumns};
  int wrong = 0;
  braid_ort_call *call;
  braid_ort_plan *plan;
  braid_execution *execution;
  for (int i = 0; i < rows * kColumns; i++) x[i] = (float)(i % 5 - 2);
  memset(y, 0xff, sizeof y);
  if (braid_ort_plans_call(plans, &call) != BRAID_OK) return -1;
  call->inputs[0] = x;
  call->dims[0] = dims;
  call->ranks[0] = 2;
  call->inputs[1] = shape;
  call->dims[1] = &two;
  call->ranks[1] = 1;
  braid_status status = braid_ort_plans_take(plans, call, &plan, &execution);
  if (status == BRAID_OK && shape && memcmp(braid_plan_output(plan->plan, 0)->dims, shape, 2 * sizeof *shape) != 0)
    wrong++;
  if (status == BRAID_OK) status = braid_execution_run(execution, call->left, (void *[]){y});
  braid_ort_plans_give(plans, call, plan, execution);
  if (status != BRAID_OK) return -1;
  for (int i = 0; i < rows * kColumns; i++) wrong += y[i] != (x[i] > 0 ? x[i] * 2 : 0);
  if (used) *used = plan;
  return wrong;
}

static void test_plans_are_found_again(void **state) {
  (void)state;
  braid_machine *machine;
  braid_weights *weights;
  braid_ort_plan *first, *again, *other;
  braid_ort_plans *plans = make_plans(false, 2, &machine, &weights);
  assert_int_equal(run_rows(plans, 1, NULL, &first), 0);
  assert_int_equal(run_rows(plans, 2, NULL, &other), 0);
  assert_int_equal(run_rows(plans, 1, NULL, &again), 0);
  assert_ptr_equal(first, again);
  assert_ptr_not_equal(first, other);
  assert_int_equal(run_rows(plans, 3, NULL, NULL), 0); /* the one for two rows is given up */
  assert_int_equal(run_rows(plans, 1, NULL, &again), 0);
  assert_ptr_equal(first, again);
  for (int64_t rows = kMostRows; rows > 0; rows--) assert_int_equal(run_rows(plans, rows, NULL, NULL), 0);
  drop_plans(plans, machine, weights);
}

static void test_contents_that_shapes_follow_from(void **state) {
  (void)state;
  braid_machine *machine;
  braid_weights *weights;
  braid_ort_plan *first, *again, *other;
  braid_ort_plans *plans = make_plans(true, 8, &machine, &weights);
  assert_int_equal(run_rows(plans, 3, (int64_t[]){4, 6}, &first), 0);
  assert_int_equal(run_rows(plans, 3, (int64_t[]){6, 4}, &other), 0);
  assert_int_equal(run_rows(plans, 3, (int64_t[]){4, 6}, &again), 0);
  assert_ptr_equal(first, again);
  assert_ptr_not_equal(first, other);
  assert_int_equal(run_rows(plans, 3, (int64_t[]){5, 5}, NULL), -1);
  assert_non_null(strstr(braid_error_detail(), "Reshape"));
  assert_int_equal(run_rows(plans, 3, (int64_t[]){6, 4}, NULL), 0);
  drop_plans(plans, machine, weights);
}

/* y = relu(x) in a shape that a second input gives; x is short enough to determine shapes too, but does not. */
static braid_graph *short_graph(const braid_allocator *allocator) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id inputs[2], y = 0, z = 0;
  OK(braid_graph_create(allocator, "short", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){6}));
  OK(braid_graph_add_input(graph, "x", &desc, &inputs[0]));
  OK(braid_desc_init(&desc, BRAID_I64, 1, (int64_t[]){2}));
  OK(braid_graph_add_input(graph, "shape", &desc, &inputs[1]));
  OK(braid_graph_add_node(graph, "Relu", NULL, inputs, 1, &y, 1, NULL));
  OK(braid_graph_add_node(graph, "Reshape", NULL, (braid_value_id[]){y, inputs[1]}, 2, &z, 1, NULL));
  OK(braid_graph_add_output(graph, z));
  return graph;
}

static braid_status run_short(braid_ort_plans *plans, float first, braid_ort_plan **used) {
  const float x[6] = {first};
  float y[6];
  braid_ort_call *call;
  braid_execution *execution;
  OK(braid_ort_plans_call(plans, &call));
  call->inputs[0] = x;
  call->dims[0] = (int64_t[]){6};
  call->inputs[1] = (int64_t[]){2, 3};
  call->dims[1] = (int64_t[]){2};
  call->ranks[0] = call->ranks[1] = 1;
  braid_status status = braid_ort_plans_take(plans, call, used, &execution);
  if (status == BRAID_OK) status = braid_execution_run(execution, call->left, (void *[]){y});
  braid_ort_plans_give(plans, call, *used, execution);
  if (status == BRAID_OK) assert_float_equal(y[0], first, 0);
  return status;
}

/* While it is found out which inputs determine shapes, an attempt that finds no memory says nothing about its input. */
static void test_no_memory_says_nothing_of_inputs(void **state) {
  (void)state;
  bool failed = true;
  for (int64_t n = 0; failed; n++) {
    oom_allocator oom;
    oom_init(&oom, -1);
    braid_machine *machine;
    braid_weights *weights;
    braid_ort_plan *first, *other;
    braid_ort_plans *plans;
    OK(braid_machine_create(NULL, NULL, &machine));
    OK(braid_weights_create(machine, &weights));
    braid_ort_plans_options options = {.machine = machine, .weights = weights, .limit = 4};
    OK(braid_ort_plans_create(&options, short_graph(&oom.allocator), &plans));
    oom.fail_at = atomic_load(&oom.requests) + n;
    braid_status status = run_short(plans, 1, &first);
    failed = atomic_load(&oom.failed);
    assert_int_equal(status, failed ? BRAID_NO_MEMORY : BRAID_OK);
    oom.fail_at = -1;
    OK(run_short(plans, 2, &first));
    OK(run_short(plans, 3, &other));
    assert_ptr_equal(first, other);
    drop_plans(plans, machine, weights);
    assert_int_equal(atomic_load(&oom.live), 0);
  }
}

typedef struct caller {
  pthread_t thread;
  braid_ort_plans *plans;
  unsigned seed;
  int wrong;
} caller;

static void *call_often(void *context) {
  caller *self = context;
  for (int round = 0; round < kRounds; round++) {
    self->seed = self->seed * 1664525 + 1013904223;
    self->wrong += run_rows(self->plans, 1 + (self->seed >> 16) % kMostRows, NULL, NULL) != 0;
  }
  return NULL;
}

/* More shapes than are kept, so that plans are given up while others use them. */
static void test_many_threads(void **state) {
  (void)state;
  braid_machine *machine;
  braid_weights *weights;
  caller callers[kThreads];
  braid_ort_plans *plans = make_plans(false, 3, &machine, &weights);
  for (unsigned i = 0; i < kThreads; i++) {
    callers[i] = (caller){.plans = plans, .seed = i};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < kThreads; i++) {
    pthread_join(callers[i].thread, NULL);
    assert_int_equal(callers[i].wrong, 0);
  }
  drop_plans(plans, machine, weights);
}

/* Sums over all of an input, with any number of dimensions: these are a part of what a plan is found by. */
static void test_any_number_of_dimensions(void **state) {
  (void)state;
  static const int64_t kDims[][3] = {{6}, {2, 3}, {3, 2}, {1, 2, 3}, {6, 0}, {2, 3, 0}, {0}};
  static const size_t kRanks[] = {1, 2, 2, 3, 2, 3, 0};
  enum { kShapes = sizeof kRanks / sizeof *kRanks };
  braid_graph *graph;
  braid_value_id x, y = 0;
  braid_machine *machine;
  braid_weights *weights;
  braid_ort_plans *plans;
  braid_ort_plan *used[kShapes];
  OK(braid_graph_create(NULL, "sum", &graph));
  OK(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = -1}, &x));
  OK(braid_graph_add_node(graph, "ReduceSum", NULL, &x, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  OK(braid_machine_create(NULL, NULL, &machine));
  OK(braid_weights_create(machine, &weights));
  braid_ort_plans_options options = {.machine = machine, .weights = weights, .limit = kShapes};
  OK(braid_ort_plans_create(&options, graph, &plans));
  assert_int_equal(braid_ort_plans_input_rank(plans, 0), -1);
  for (int i = 0; i < 2 * kShapes; i++) {
    const float data[6] = {1, 2, 3, 4, 5, 6};
    int shape = i % kShapes, count = 1;
    float sum = -1;
    braid_ort_call *call;
    braid_ort_plan *plan;
    braid_execution *execution;
    OK(braid_ort_plans_call(plans, &call));
    call->inputs[0] = data;
    call->dims[0] = kDims[shape];
    call->ranks[0] = kRanks[shape];
    for (size_t d = 0; d < kRanks[shape]; d++) count *= (int)kDims[shape][d];
    OK(braid_ort_plans_take(plans, call, &plan, &execution));
    OK(braid_execution_run(execution, call->left, (void *[]){&sum}));
    braid_ort_plans_give(plans, call, plan, execution);
    assert_float_equal(sum, (float)(count * (count + 1)) / 2, 0);
    if (i >= kShapes) assert_ptr_equal(plan, used[shape]);
    for (int k = 0; k < shape && i < kShapes; k++) assert_ptr_not_equal(plan, used[k]);
    used[shape] = plan;
  }
  drop_plans(plans, machine, weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plans_are_found_again), cmocka_unit_test(test_contents_that_shapes_follow_from),
      cmocka_unit_test(test_no_memory_says_nothing_of_inputs), cmocka_unit_test(test_any_number_of_dimensions),
      cmocka_unit_test(test_many_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
