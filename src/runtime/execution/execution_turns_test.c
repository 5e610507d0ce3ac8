/* Runs in flight over weights that others want, and what they are told: nobody keeps a run from ending or another for
 * ever from beginning, and who is told of an end may start again. */
#include "base/clock.h"
#include "oom.h"
#include "runtime/execution/execution.h"
#include "runtime/execution/execution_fixture.h"
#include "runtime/execution/weights.h"

/* Of line_graph's p, in a thread of its own: the call may have to wait. */
typedef struct visitor {
  braid_weights *weights;
  braid_execution *execution; /* NULL: p is read, or written */
  bool writes;
  float x[4], y[4];
  braid_status status;
  pthread_t thread;
} visitor;

static void *visit(void *context) {
  visitor *v = context;
  if (v->execution) {
    v->status = braid_execution_run(v->execution, (const void *[]){v->x}, (void *[]){v->y});
    return NULL;
  }
  braid_tensor *tensor;
  braid_desc desc;
  v->status = braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4});
  if (v->status == BRAID_OK) v->status = braid_tensor_create(NULL, &desc, &tensor);
  if (v->status != BRAID_OK) return NULL;
  float *p = braid_tensor_data(tensor);
  if (v->writes) memcpy(p, v->x, sizeof v->x);
  v->status = v->writes ? braid_weights_write(v->weights, "p", tensor) : braid_weights_read(v->weights, "p", tensor);
  memcpy(v->y, p, sizeof v->y);
  braid_tensor_release(tensor);
  return NULL;
}

static void send(visitor *v) {
  assert_int_equal(pthread_create(&v->thread, NULL, visit, v), 0);
}

/* Until so many have come for the weights, whether they were let in or not. */
static void wait_for_arrivals(braid_weights *weights, uint64_t count) {
  for (uint64_t arrived = 0; arrived < count; pause_a_little()) {
    pthread_mutex_lock(&weights->turn);
    arrived = weights->arrived;
    pthread_mutex_unlock(&weights->turn);
  }
}

static void *bring_constants(void *context) {
  visitor *v = context;
  braid_plan *plan = make_plan(v->weights->machine, conv_graph(1), false);
  v->status = braid_execution_create(plan, v->weights, &v->execution);
  braid_execution_destroy(v->execution);
  braid_plan_release(plan);
  return NULL;
}

/* p <- p + x, slowly: the last task of a run is a kernel. */
static braid_graph *slow_update(void) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "update", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id p = add_tensor(graph, "p", BRAID_VALUE_PARAMETER, 1, (int64_t[]){4}, 0);
  OK(braid_graph_add_output(graph, node(graph, "Mul", (braid_value_id[]){x, p}, 2)));
  x = node(graph, "test.Hold", &x, 1);
  OK(braid_graph_update_state(graph, p, node(graph, "Add", (braid_value_id[]){p, x}, 2)));
  return graph;
}

/* What is copied from or to a device stands behind the run in its queue, and must not keep that from ending. */
static void test_copies_behind_a_run(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate"};
  for (int d = 0; d < 4; d++) {
    braid_machine *machine = open_machine(kDevices[d % 2]);
    braid_plan *plan = make_plan(machine, slow_update(), true);
    visitor v = {0};
    braid_execution *execution;
    float x[4] = {1, 2, 3, 4}, y[4];
    OK(braid_weights_create(machine, &v.weights));
    OK(braid_execution_create(plan, v.weights, &execution));
    held = 1;
    OK(braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, NULL, NULL));
    wait_inside(1);
    if (d < 2)
      send(&v);
    else
      assert_int_equal(pthread_create(&v.thread, NULL, bring_constants, &v), 0);
    for (int i = 0; i < 100; i++) pause_a_little();
    held = 0;
    OK(braid_execution_wait(execution, 20000000000));
    assert_int_equal(pthread_join(v.thread, NULL), 0);
    assert_int_equal(v.status, BRAID_OK);
    braid_execution_destroy(execution);
    braid_plan_release(plan);
    braid_weights_release(v.weights);
    braid_machine_release(machine);
  }
}

/* Who writes comes before those who read and came later: they cannot keep him out by turns. And a run that waits for
 * weights can be cancelled. */
static void test_turns(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_plan *slow = make_plan(machine, line_graph(false, true), true),
             *look = make_plan(machine, line_graph(false, false), true),
             *train = make_plan(machine, line_graph(true, false), true);
  braid_weights *weights;
  braid_execution *first;
  float x[4] = {1, 2, 3, 4}, y[4];
  OK(braid_weights_create(machine, &weights));
  OK(braid_execution_create(slow, weights, &first));
  visitor writer = {.weights = weights, .writes = true, .x = {5, 5, 5, 5}}, reader = {.x = {1, 2, 3, 4}},
          cancelled = {.x = {1, 2, 3, 4}};
  OK(braid_execution_create(look, weights, &reader.execution));
  OK(braid_execution_create(train, weights, &cancelled.execution));
  held = 1;
  OK(braid_execution_submit(first, (const void *[]){x}, (void *[]){y}, NULL, NULL));
  wait_inside(1);
  send(&cancelled);
  wait_for_arrivals(weights, 2);
  braid_execution_cancel(cancelled.execution);
  send(&writer);
  wait_for_arrivals(weights, 3);
  send(&reader);
  wait_for_arrivals(weights, 4);
  held = 0;
  OK(braid_execution_wait(first, -1));
  assert_int_equal(pthread_join(writer.thread, NULL), 0);
  assert_int_equal(pthread_join(reader.thread, NULL), 0);
  assert_int_equal(pthread_join(cancelled.thread, NULL), 0);
  assert_int_equal(cancelled.status, BRAID_CANCELLED);
  OK(writer.status);
  OK(reader.status);
  for (int i = 0; i < 4; i++) assert_true(y[i] == 0 && reader.y[i] == 5 * x[i]);
  braid_execution *executions[] = {first, reader.execution, cancelled.execution};
  braid_plan *plans[] = {slow, look, train};
  for (int i = 0; i < 3; i++) {
    braid_execution_destroy(executions[i]);
    braid_plan_release(plans[i]);
  }
  braid_weights_release(weights);
  braid_machine_release(machine);
}

typedef struct told_run {
  braid_execution *execution;
  const float *x;
  float *y;
  atomic_int ended;
  braid_status again;
} told_run;

static void tell_end(void *context, braid_status status) {
  told_run *run = context;
  run->again =
      braid_execution_submit(run->execution, (const void *[]){run->x}, (void *[]){run->y}, NULL, NULL); /* refused */
  atomic_store(&run->ended, status == BRAID_OK);
  pause_a_little();
}

/* Who has been told of a run's end may start the next, while the thread that told him is still at it. */
static void test_submit_when_told(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_plan *plan = make_plan(machine, line_graph(false, false), false);
  float x[4] = {1, 2, 3, 4}, y[4];
  told_run run = {.x = x, .y = y};
  OK(braid_execution_create(plan, NULL, &run.execution));
  for (int round = 0; round < 50; round++) {
    run.ended = 0;
    OK(braid_execution_submit(run.execution, (const void *[]){x}, (void *[]){y}, tell_end, &run));
    while (!run.ended) continue;
    assert_int_equal(run.again, BRAID_BUSY);
  }
  OK(braid_execution_wait(run.execution, -1));
  braid_execution_destroy(run.execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
}

/* y = x + x, slowly or not. */
static braid_graph *twice(bool slow) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "twice", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  if (slow) x = node(graph, "test.Hold", &x, 1);
  OK(braid_graph_add_output(graph, node(graph, "Add", (braid_value_id[]){x, x}, 2)));
  return graph;
}

/* Outputs that are moved when the run has ended stand in a queue behind whatever it has: a wait keeps its limit all the
 * same, the run counts as in flight until one has moved them, and no move is made twice. */
static void test_late_outputs(void **state) {
  (void)state;
  enum { kLimit = 20000000 };
  braid_machine *machine = open_machine("cpu:memory=separate,threads=1 cpu:memory=separate,threads=1");
  braid_graph *graphs[] = {twice(true), twice(false)};
  braid_plan *plans[2];
  braid_execution *slow, *late;
  float x[4] = {1, 2, 3, 4}, y[4], other[4];
  for (int i = 0; i < 2; i++) {
    OK(braid_plan_create(machine, graphs[i], &(braid_plan_options){.device_io = true, .place = "*=0"}, &plans[i]));
    braid_graph_destroy(graphs[i]);
  }
  OK(braid_execution_create(plans[0], NULL, &slow));
  OK(braid_execution_create(plans[1], NULL, &late));
  for (int hop = 0; hop < 2; hop++) { /* to the host, to another device by way of the host */
    braid_buffer *buffer = NULL;
    if (hop) {
      OK(braid_buffer_create(machine, "1", braid_plan_output(plans[1], 0), &buffer));
      OK(braid_execution_bind_output(late, 0, buffer));
    }
    memset(y, 0, sizeof y);
    void *outputs[] = {hop ? NULL : y};
    OK(braid_execution_submit(late, (const void *[]){x}, outputs, NULL, NULL));
    while (__atomic_load_n(&late->state, __ATOMIC_ACQUIRE) != BRAID_RUN_ENDED) pause_a_little();
    held = 1;
    OK(braid_execution_submit(slow, (const void *[]){x}, (void *[]){other}, NULL, NULL));
    wait_inside(1);
    for (int i = 0; i < 3; i++) {
      int64_t start = braid_now_ns();
      assert_int_equal(braid_execution_wait(late, i ? kLimit : 0), BRAID_TIMEOUT);
      assert_true(braid_now_ns() - start < 2000000000);
      assert_int_equal(braid_execution_submit(late, (const void *[]){x}, outputs, NULL, NULL), BRAID_BUSY);
    }
    held = 0;
    OK(braid_execution_wait(late, -1));
    OK(braid_execution_wait(slow, -1));
    assert_int_equal(braid_execution_wait(late, 0), BRAID_INVALID_ARGUMENT);
    if (hop) OK(braid_buffer_read(buffer, y, sizeof y, -1));
    for (int i = 0; i < 4; i++) assert_true(y[i] == 2 * x[i] && (hop || other[i] == 2 * x[i]));
    braid_buffer_release(buffer);
  }
  braid_execution_destroy(slow);
  braid_execution_destroy(late);
  for (int i = 0; i < 2; i++) braid_plan_release(plans[i]);
  braid_machine_release(machine);
}

/* --- a plan that does not get its weights --------------------------------------------------------------------------
 */
/* Shared weights outlive who failed to bring what he needs: he takes his memory with him. */
static void test_failed_binding(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu:threads=1", "cpu:memory=separate,threads=1"};
  for (int d = 0; d < 2; d++) {
    oom_allocator oom;
    oom_init(&oom, -1);
    braid_machine *machine;
    braid_weights *weights;
    braid_execution *execution;
    OK(braid_machine_create(&oom.allocator, &(braid_machine_options){.devices = kDevices[d]}, &machine));
    OK(braid_weights_create(machine, &weights));
    braid_graph *line = line_graph(false, false);
    braid_plan *first = make_plan(machine, line, true), *plan = make_plan(machine, conv_graph(1), false);
    OK(braid_execution_create(first, weights, &execution));
    braid_execution_destroy(execution);
    int64_t live = oom.live, failures = 0;
    size_t bytes = braid_weights_bytes(weights);
    for (int64_t n = 0;; n++, failures++) {
      oom.fail_at = oom.requests + n;
      if (braid_execution_create(plan, weights, &execution) == BRAID_OK) break;
      assert_null(execution);
      if (braid_weights_bytes(weights) > bytes) continue; /* brought whole, they stay for the next */
      assert_true(oom.live <= live + 1);                  /* the list of weights may have grown */
    }
    assert_true(failures > 3);
    braid_execution_destroy(execution);
    braid_plan_release(first);
    braid_plan_release(plan);
    braid_weights_release(weights);
    braid_machine_release(machine);
    assert_int_equal(oom.live, 0);
  }
}

int main(void) {
  if (braid_custom_op_register(&kHold) != BRAID_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies_behind_a_run), cmocka_unit_test(test_turns),
                                     cmocka_unit_test(test_submit_when_told), cmocka_unit_test(test_late_outputs),
                                     cmocka_unit_test(test_failed_binding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
