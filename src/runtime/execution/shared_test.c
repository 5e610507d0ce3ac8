/* What executions have in common beside weights: kernels that are alike, and the memory for what they compute on their
 * way where one queue has all tasks. None may see what is another's. */
#include "oom.h"
#include "runtime/execution/execution.h"
#include "runtime/execution/execution_fixture.h"

enum { kExecutions = 6, kRuns = 20 };

static braid_value_id add_number(braid_graph *graph, float number) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, 0, NULL));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  *(float *)braid_tensor_data(tensor) = number;
  OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

/* y = sigmoid(conv(x)) within `bound` of a half, of weights times `scale`. */
static braid_graph *clip_graph(const braid_allocator *allocator, float scale, float bound) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(allocator, "net", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, kChannels, kSide, kSide}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id w = add_tensor(graph, "w", BRAID_VALUE_CONSTANT, 4, (int64_t[]){4, kChannels, 3, 3}, scale);
  braid_value_id low = add_number(graph, 0.5f - bound), high = add_number(graph, 0.5f + bound);
  x = node(graph, "Conv", (braid_value_id[]){x, w}, 2);
  x = node(graph, "Sigmoid", &x, 1);
  OK(braid_graph_add_output(graph, node(graph, "Clip", (braid_value_id[]){x, low, high}, 3)));
  return graph;
}

enum { kResults = 4 * (kSide - 2) * (kSide - 2) };

static void run_alone(const float *weights_and_bound, const float *x, float *y) {
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_plan *plan = make_plan(machine, clip_graph(NULL, weights_and_bound[0], weights_and_bound[1]), false);
  braid_execution *execution;
  OK(braid_execution_create(plan, NULL, &execution));
  OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
}

/* Plans whose nodes differ in nothing but numbers, and executions of the plans that were made first after these are
 * gone: each gives what it gives on a machine of its own. */
static void test_kernels_in_common(void **state) {
  (void)state;
  static const float kKinds[3][2] = {{0.02f, 0.4f}, {-0.03f, 0.4f}, {0.02f, 0.1f}};
  static float x[kImage], y[kResults], expected[3][kResults];
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_execution *executions[6];
  braid_plan *first = NULL;
  fill(x, kImage, 1);
  for (int i = 0; i < 6; i++) {
    if (i < 3) run_alone(kKinds[i], x, expected[i]);
    braid_plan *plan = make_plan(machine, clip_graph(NULL, kKinds[i % 3][0], kKinds[i % 3][1]), false);
    OK(braid_execution_create(plan, NULL, &executions[i]));
    if (i == 0) first = braid_plan_retain(plan);
    braid_plan_release(plan);
  }
  assert_true(memcmp(expected[0], expected[1], sizeof y) != 0 && memcmp(expected[0], expected[2], sizeof y) != 0);
  braid_plan_release(first);
  for (int i = 0; i < 3; i++) braid_execution_destroy(executions[i]);
  for (int i = 3; i < 6; i++) {
    OK(braid_execution_run(executions[i], (const void *[]){x}, (void *[]){y}));
    assert_memory_equal(y, expected[i - 3], sizeof y);
    braid_execution_destroy(executions[i]);
  }
  braid_machine_release(machine);
}

typedef struct user {
  braid_execution *execution;
  float x[kImage], y[kClasses], expected[kClasses];
  braid_status status;
  bool right;
  pthread_t thread;
} user;

static void *use(void *context) {
  user *u = context;
  u->right = true;
  for (int i = 0; i < kRuns && u->status == BRAID_OK; i++) {
    memset(u->y, 0, sizeof u->y);
    u->status = braid_execution_submit(u->execution, (const void *[]){u->x}, (void *[]){u->y}, NULL, NULL);
    if (u->status == BRAID_OK) u->status = braid_execution_wait(u->execution, -1);
    u->right &= memcmp(u->y, u->expected, sizeof u->y) == 0;
  }
  return NULL;
}

/* With one queue, with three, and in the callers' threads: the same results with others in flight as alone. */
static void test_arenas_in_common(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate", "cpu:threads=1"};
  static user users[kExecutions];
  for (int d = 0; d < 3; d++) {
    braid_machine *machine = open_machine(kDevices[d]);
    braid_plan *plan = make_plan(machine, conv_graph(1), false);
    braid_weights *weights;
    OK(braid_weights_create(machine, &weights));
    for (int i = 0; i < kExecutions; i++) {
      users[i] = (user){.status = BRAID_OK};
      OK(braid_execution_create(plan, weights, &users[i].execution));
      fill(users[i].x, kImage, i);
      OK(braid_execution_run(users[i].execution, (const void *[]){users[i].x}, (void *[]){users[i].expected}));
      assert_true((users[i].execution->arenas == users[0].execution->arenas) == (i == 0 || d != 1));
    }
    for (int i = 0; i < kExecutions; i++) assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    for (int i = 0; i < kExecutions; i++) {
      assert_int_equal(pthread_join(users[i].thread, NULL), 0);
      OK(users[i].status);
      assert_true(users[i].right);
      braid_execution_destroy(users[i].execution);
    }
    braid_weights_release(weights);
    braid_plan_release(plan);
    braid_machine_release(machine);
  }
}

/* A second execution that does not get all its memory leaves the first as it is. */
static void test_second_without_memory(void **state) {
  (void)state;
  static float x[kImage], before[kResults], after[kResults];
  oom_allocator oom;
  oom_init(&oom, -1);
  braid_machine *machine;
  braid_weights *weights;
  braid_execution *first, *second;
  OK(braid_machine_create(&oom.allocator, &(braid_machine_options){.devices = "cpu:threads=1"}, &machine));
  OK(braid_weights_create(machine, &weights));
  braid_plan *plan = make_plan(machine, clip_graph(&oom.allocator, 0.02f, 0.4f), false);
  OK(braid_execution_create(plan, weights, &first));
  fill(x, kImage, 3);
  OK(braid_execution_run(first, (const void *[]){x}, (void *[]){before}));
  int64_t live = oom.live, failures = 0;
  for (;; failures++) {
    oom.fail_at = oom.requests + failures;
    if (braid_execution_create(plan, weights, &second) == BRAID_OK) break;
    assert_int_equal(oom.live, live);
  }
  oom.fail_at = -1;
  assert_true(failures > 10);
  braid_execution_destroy(second);
  assert_int_equal(oom.live, live);
  OK(braid_execution_run(first, (const void *[]){x}, (void *[]){after}));
  assert_memory_equal(before, after, sizeof before);
  braid_execution_destroy(first);
  braid_weights_release(weights);
  braid_plan_release(plan);
  braid_machine_release(machine);
  assert_int_equal(oom.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_in_common), cmocka_unit_test(test_arenas_in_common),
                                     cmocka_unit_test(test_second_without_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
