/* Machines, plans, weights and executions: what is shared is there once and gives what a session of its own gives;
 * several executions are in flight, from several threads; they are waited for, called back and cancelled. */
#include <omp.h>
#include <stdlib.h>

#include "base/clock.h"
#include "braid/plan.h"
#include "braid/session.h"
#include "oom.h"
#include "runtime/execution/execution_fixture.h"

/* --- shared weights ------------------------------------------------------------------------------------------------
 */
enum { kBatches = 4 };

static void check_against_session(const char *devices, int64_t batch, const float *x, const float *y) {
  float expected[kBatches * kClasses];
  braid_session *session;
  braid_graph *graph = conv_graph(batch);
  OK(braid_session_create(graph, &(braid_session_options){.devices = devices}, &session));
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){expected}));
  assert_memory_equal(y, expected, (size_t)batch * kClasses * sizeof(float));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* Plans of several batch sizes: what is packed, folded or uploaded is there once, and each gives what a session does.
 */
static void test_batches_share_weights(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate"};
  for (int d = 0; d < 2; d++) {
    braid_machine *machine = open_machine(kDevices[d]);
    braid_weights *weights;
    OK(braid_weights_create(machine, &weights));
    braid_execution *executions[kBatches];
    size_t first = 0;
    for (int b = 0; b < kBatches; b++) {
      braid_plan *plan = make_plan(machine, conv_graph(b + 1), false);
      OK(braid_execution_create(plan, weights, &executions[b]));
      if (b == 0) first = braid_weights_bytes(weights);
      braid_plan_release(plan);
    }
    assert_true(first >= kFilters * kChannels * 9 * sizeof(float));
    assert_true(braid_weights_bytes(weights) <= first + first / 10);
    braid_weights_release(weights);
    braid_machine_release(machine); /* the executions keep what they stand on */
    for (int b = 0; b < kBatches; b++) {
      float x[kBatches * kImage], y[kBatches * kClasses];
      fill(x, (size_t)(b + 1) * kImage, b);
      OK(braid_execution_run(executions[b], (const void *[]){x}, (void *[]){y}));
      check_against_session(kDevices[d], b + 1, x, y);
      braid_execution_destroy(executions[b]);
    }
  }
}

/* Equal keys mean equal bytes: other contents of the same shape are other weights. */
static void test_other_contents(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_weights *weights;
  OK(braid_weights_create(machine, &weights));
  size_t bytes[2];
  for (int i = 0; i < 2; i++) {
    braid_graph *graph = conv_graph(1);
    float *data = braid_tensor_data(graph->values[braid_graph_find_value(graph, "w")].tensor);
    data[5] += (float)i;
    braid_execution *execution;
    braid_plan *plan = make_plan(machine, graph, false);
    OK(braid_execution_create(plan, weights, &execution));
    braid_plan_release(plan);
    braid_execution_destroy(execution);
    bytes[i] = braid_weights_bytes(weights);
  }
  assert_true(bytes[1] - bytes[0] >= kFilters * kChannels * 9 * sizeof(float));
  braid_weights_release(weights);
  braid_machine_release(machine);
}

/* After its data was dropped a plan still runs with weights that have it, and says why not with others. */
static void test_dropped_data(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_weights *weights, *others;
  braid_execution *first, *second, *refused;
  braid_plan *plan = make_plan(machine, conv_graph(2), false);
  OK(braid_weights_create(machine, &weights));
  OK(braid_weights_create(machine, &others));
  OK(braid_execution_create(plan, weights, &first));
  braid_plan_drop_data(plan);
  OK(braid_execution_create(plan, weights, &second));
  assert_int_equal(braid_execution_create(plan, others, &refused), BRAID_UNSUPPORTED);
  assert_null(refused);
  assert_non_null(strstr(braid_error_detail(), "dropped"));
  float x[2 * kImage], y[2 * kClasses];
  fill(x, 2 * kImage, 3);
  OK(braid_execution_run(second, (const void *[]){x}, (void *[]){y}));
  check_against_session("cpu", 2, x, y);
  braid_execution_destroy(first);
  braid_execution_destroy(second);
  braid_plan_release(plan);
  braid_weights_release(weights);
  braid_weights_release(others);
  braid_machine_release(machine);
}

/* --- training and evaluation ---------------------------------------------------------------------------------------
 */
static void test_training_and_evaluation(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate"};
  for (int d = 0; d < 2; d++) {
    braid_machine *machine = open_machine(kDevices[d]);
    braid_weights *weights;
    braid_execution *train, *evaluate;
    OK(braid_weights_create(machine, &weights));
    braid_plan *plans[] = {make_plan(machine, line_graph(true, false), true),
                           make_plan(machine, line_graph(false, false), true)};
    OK(braid_execution_create(plans[0], weights, &train));
    OK(braid_execution_create(plans[1], weights, &evaluate));
    float x[4] = {1, 2, 3, 4}, y[4];
    for (int step = 1; step < 4; step++) {
      OK(braid_execution_run(train, (const void *[]){x}, (void *[]){y}));
      OK(braid_execution_run(evaluate, (const void *[]){x}, (void *[]){y}));
      for (int i = 0; i < 4; i++) assert_true(y[i] == x[i] * x[i] * (float)step);
    }
    braid_tensor *tensor;
    braid_desc desc;
    OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}));
    OK(braid_tensor_create(NULL, &desc, &tensor));
    OK(braid_weights_read(weights, "p", tensor));
    assert_true(((float *)braid_tensor_data(tensor))[3] == 12);
    ((float *)braid_tensor_data(tensor))[3] = 100;
    OK(braid_weights_write(weights, "p", tensor));
    OK(braid_execution_run(evaluate, (const void *[]){x}, (void *[]){y}));
    assert_true(y[3] == 400);
    assert_int_equal(braid_weights_read(weights, "q", tensor), BRAID_NOT_FOUND);
    braid_tensor_release(tensor);
    braid_execution_destroy(train);
    braid_execution_destroy(evaluate);
    braid_plan_release(plans[0]);
    braid_plan_release(plans[1]);
    braid_weights_release(weights);
    braid_machine_release(machine);
  }
}

/* --- in flight -----------------------------------------------------------------------------------------------------
 */
static atomic_int called;
static _Atomic braid_status told;

static void count_call(void *context, braid_status status) {
  atomic_store(&told, status);
  atomic_fetch_add((atomic_int *)context, 1);
}

static void test_submit_and_wait(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:memory=separate");
  braid_plan *plan = make_plan(machine, line_graph(false, true), false);
  braid_execution *execution;
  float x[4] = {1, 2, 3, 4}, y[4] = {9, 9, 9, 9};
  OK(braid_execution_create(plan, NULL, &execution));
  assert_int_equal(braid_execution_wait(execution, 0), BRAID_INVALID_ARGUMENT);
  for (int round = 0; round < 3; round++) {
    called = 0;
    held = 1;
    OK(braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, count_call, &called));
    assert_int_equal(braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, NULL, NULL), BRAID_BUSY);
    assert_int_equal(braid_execution_wait(execution, 2000000), BRAID_TIMEOUT);
    assert_int_equal(called, 0);
    held = 0;
    OK(braid_execution_wait(execution, -1));
    assert_int_equal(called, 1);
    assert_int_equal(told, BRAID_OK);
    for (int i = 0; i < 4; i++) assert_true(y[i] == 0);
  }
  OK(braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, NULL, NULL));
  OK(braid_execution_wait(execution, INT64_MAX)); /* a limit beyond the clock's end is none */
  /* A run that nobody has waited for is forgotten by the next. */
  OK(braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, count_call, &called));
  while (called == 1) pause_a_little();
  OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
  assert_int_equal(braid_execution_wait(execution, -1), BRAID_INVALID_ARGUMENT);
  OK(braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, NULL, NULL));
  braid_execution_destroy(execution); /* in flight */
  braid_plan_release(plan);
  braid_machine_release(machine);
}

static void test_cancel(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu:threads=1", "cpu:memory=separate", "cpu cpu:memory=separate"};
  for (int d = 0; d < 3; d++) {
    braid_graph *graph;
    braid_desc desc;
    braid_value_id y;
    OK(braid_graph_create(NULL, "chain", &graph));
    OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}));
    OK(braid_graph_add_input(graph, "x", &desc, &y));
    for (int i = 0; i < 50; i++) y = node(graph, "test.Hold", &y, 1);
    OK(braid_graph_add_output(graph, y));
    braid_machine *machine = open_machine(kDevices[d]);
    braid_plan *plan;
    braid_plan_options options = {.place = d == 2 ? "*1=1 *3=1 *=0" : NULL, .loose_place = true};
    OK(braid_plan_create(machine, graph, &options, &plan));
    braid_graph_destroy(graph);
    braid_execution *execution;
    OK(braid_execution_create(plan, NULL, &execution));
    float x[4] = {1, 2, 3, 4}, out[4];
    held = 1;
    ran = called = 0;
    OK(braid_execution_submit(execution, (const void *[]){x}, (void *[]){out}, count_call, &called));
    wait_inside(1);
    braid_execution_cancel(execution);
    held = 0;
    int64_t start = braid_now_ns();
    assert_int_equal(braid_execution_wait(execution, -1), BRAID_CANCELLED);
    assert_true(braid_now_ns() - start < 1000000000);
    assert_int_equal(ran, 1); /* the one that ran, and none behind it */
    assert_int_equal(told, BRAID_CANCELLED);
    OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){out}));
    assert_int_equal(ran, 51);
    assert_memory_equal(out, x, sizeof x);
    braid_execution_destroy(execution);
    braid_plan_release(plan);
    braid_machine_release(machine);
  }
}

/* --- in the caller's thread ----------------------------------------------------------------------------------------
 */
static pthread_t ran_in;

static braid_status note_thread(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  ran_in = pthread_self();
  memcpy(outputs[0].data, inputs[0].data, (size_t)braid_desc_bytes(inputs[0].desc));
  return BRAID_OK;
}

static const braid_custom_op kNote = {"test.Note", 1, 1, 1, infer_same, note_thread};

static braid_graph *note_graph(int64_t count) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "note", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_output(graph, node(graph, "test.Note", &x, 1)));
  return graph;
}

static bool runs_here(const braid_session_options *options, int64_t count) {
  braid_graph *graph = note_graph(count);
  braid_session *session;
  OK(braid_session_create(graph, options, &session));
  float *x = calloc((size_t)count, sizeof *x), *y = calloc((size_t)count, sizeof *y);
  int threads = omp_get_max_threads();
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  assert_int_equal(omp_get_max_threads(), threads); /* the caller's own setting */
  free(x);
  free(y);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return pthread_equal(ran_in, pthread_self());
}

/* Small plans do not wake another thread; large ones, those of several queues and those with a time limit do. */
static void test_callers_thread(void **state) {
  (void)state;
  assert_true(runs_here(NULL, 8));
  assert_true(runs_here(&(braid_session_options){.threads = 1}, 8));
  assert_false(runs_here(NULL, 1 << 20));
  assert_false(runs_here(&(braid_session_options){.timeout_ms = 1000}, 8));
  assert_false(runs_here(&(braid_session_options){.devices = "cpu:memory=separate"}, 8));
}

/* A plan that is asked to runs in the caller's thread whatever its size, also after it was saved. */
static void test_callers_thread_asked(void **state) {
  (void)state;
  enum { kCount = 1 << 20 };
  braid_machine *machine = open_machine("cpu");
  braid_graph *graph = note_graph(kCount);
  float *x = calloc(kCount, sizeof *x), *y = calloc(kCount, sizeof *y);
  void *data = NULL;
  size_t bytes = 0;
  braid_plan *plans[2];
  OK(braid_plan_create(machine, graph, &(braid_plan_options){.callers_thread = true}, &plans[0]));
  OK(braid_plan_encode(plans[0], graph, NULL, &data, &bytes));
  OK(braid_plan_decode(machine, graph, data, bytes, &plans[1]));
  for (int i = 0; i < 2; i++) {
    braid_execution *execution;
    OK(braid_execution_create(plans[i], NULL, &execution));
    memset(&ran_in, 0, sizeof ran_in);
    OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
    assert_true(pthread_equal(ran_in, pthread_self()));
    braid_execution_destroy(execution);
    braid_plan_release(plans[i]);
  }
  braid_free(NULL, data);
  free(x);
  free(y);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* What was submitted to the queue comes first. */
static void test_busy_queue(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_plan *plans[] = {make_plan(machine, line_graph(false, true), false), make_plan(machine, note_graph(4), false)};
  braid_execution *executions[2];
  float x[4] = {1, 2, 3, 4}, y[2][4];
  for (int i = 0; i < 2; i++) OK(braid_execution_create(plans[i], NULL, &executions[i]));
  held = 1;
  OK(braid_execution_submit(executions[0], (const void *[]){x}, (void *[]){y[0]}, NULL, NULL));
  wait_inside(1);
  OK(braid_execution_submit(executions[1], (const void *[]){x}, (void *[]){y[1]}, NULL, NULL));
  assert_int_equal(braid_execution_wait(executions[1], 2000000), BRAID_TIMEOUT);
  held = 0;
  OK(braid_execution_wait(executions[1], -1));
  assert_false(pthread_equal(ran_in, pthread_self()));
  OK(braid_execution_wait(executions[0], -1));
  for (int i = 0; i < 2; i++) {
    braid_execution_destroy(executions[i]);
    braid_plan_release(plans[i]);
  }
  braid_machine_release(machine);
}

/* --- several callers -----------------------------------------------------------------------------------------------
 */
enum { kCallers = 4, kEach = 2, kRounds = 60 };

typedef struct caller {
  braid_plan *plan;
  braid_weights *weights;
  int number, wrong;
  pthread_t thread;
} caller;

/* Two executions of its own, kept in flight by turns. */
static void *call(void *context) {
  caller *c = context;
  braid_execution *executions[kEach];
  static float expected[kCallers][kEach][kClasses];
  float x[kEach][kImage], y[kEach][kClasses];
  for (int e = 0; e < kEach; e++) {
    fill(x[e], kImage, c->number * kEach + e);
    if (braid_execution_create(c->plan, c->weights, &executions[e]) != BRAID_OK) return c->wrong = 1, NULL;
    c->wrong +=
        braid_execution_run(executions[e], (const void *[]){x[e]}, (void *[]){expected[c->number][e]}) != BRAID_OK;
  }
  for (int round = 0; round < kRounds; round++)
    for (int e = 0; e < kEach; e++) {
      braid_execution *execution = executions[e];
      if (round > 0) {
        braid_status status = braid_execution_wait(execution, -1);
        bool cancelled = (round - 1) % 8 == 7;
        c->wrong += status != BRAID_OK && !(cancelled && status == BRAID_CANCELLED);
        if (status == BRAID_OK) c->wrong += memcmp(y[e], expected[c->number][e], sizeof y[e]) != 0;
      }
      memset(y[e], 0, sizeof y[e]);
      c->wrong += braid_execution_submit(execution, (const void *[]){x[e]}, (void *[]){y[e]}, NULL, NULL) != BRAID_OK;
      if (round % 8 == 7) braid_execution_cancel(execution);
    }
  for (int e = 0; e < kEach; e++) braid_execution_destroy(executions[e]);
  return NULL;
}

static void test_several_callers(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate", "cpu:memory=separate cpu", "opencl0"};
  for (int d = 0; d < 4; d++) {
    braid_machine *machine;
    braid_status opened = braid_machine_create(NULL, &(braid_machine_options){.devices = kDevices[d]}, &machine);
    if (opened == BRAID_NOT_FOUND && d == 3) continue; /* no driver */
    OK(opened);
    braid_plan *plan;
    braid_graph *graph = conv_graph(1);
    OK(braid_plan_create(
        machine, graph,
        &(braid_plan_options){.place = d == 2 ? "Relu*=1 MatMul*=1" : NULL, .loose_place = true, .no_fusion = d == 2},
        &plan));
    braid_graph_destroy(graph);
    braid_weights *weights;
    OK(braid_weights_create(machine, &weights));
    caller callers[kCallers];
    for (int i = 0; i < kCallers; i++) {
      callers[i] = (caller){.plan = plan, .weights = weights, .number = i};
      assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < kCallers; i++) {
      assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
      assert_int_equal(callers[i].wrong, 0);
    }
    braid_weights_release(weights);
    braid_plan_release(plan);
    braid_machine_release(machine);
  }
}

/* Everything made and run by each of several threads, over one machine and one set of weights. */
typedef struct maker {
  braid_machine *machine;
  braid_weights *weights;
  const braid_graph *graph;
  int64_t batch;
  int wrong;
  pthread_t thread;
} maker;

static void *make_and_run(void *context) {
  maker *m = context;
  for (int round = 0; round < 5; round++) {
    braid_plan *plan = NULL;
    braid_execution *execution = NULL;
    float x[2 * kImage], y[2 * kClasses];
    fill(x, (size_t)m->batch * kImage, round);
    m->wrong += braid_plan_create(m->machine, m->graph, NULL, &plan) != BRAID_OK;
    if (plan) m->wrong += braid_execution_create(plan, m->weights, &execution) != BRAID_OK;
    if (execution) m->wrong += braid_execution_run(execution, (const void *[]){x}, (void *[]){y}) != BRAID_OK;
    if (execution && round % 2) braid_plan_drop_data(plan);
    braid_execution_destroy(execution);
    braid_plan_release(plan);
  }
  return NULL;
}

static void test_made_by_several_threads(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:memory=separate cpu"};
  for (int d = 0; d < 2; d++) {
    braid_machine *machine = open_machine(kDevices[d]);
    braid_weights *weights;
    OK(braid_weights_create(machine, &weights));
    braid_graph *graphs[2] = {conv_graph(1), conv_graph(2)};
    maker makers[kCallers];
    for (int i = 0; i < kCallers; i++) {
      makers[i] = (maker){.machine = machine, .weights = weights, .graph = graphs[i % 2], .batch = i % 2 + 1};
      assert_int_equal(pthread_create(&makers[i].thread, NULL, make_and_run, &makers[i]), 0);
    }
    for (int i = 0; i < kCallers; i++) {
      assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
      assert_int_equal(makers[i].wrong, 0);
    }
    for (int i = 0; i < 2; i++) braid_graph_destroy(graphs[i]);
    braid_weights_release(weights);
    braid_machine_release(machine);
  }
}

typedef struct trainee {
  braid_machine *machine;
  braid_weights *weights;
  braid_plan *plan;
  bool trains;
  int wrong;
  pthread_t thread;
} trainee;

/* All elements of p are the same multiple of x at any time that somebody may look. */
static void *train_or_look(void *context) {
  trainee *t = context;
  braid_execution *execution;
  float x[4] = {1, 1, 1, 1}, y[4];
  if (braid_execution_create(t->plan, t->weights, &execution) != BRAID_OK) return t->wrong = 1, NULL;
  for (int round = 0; round < kRounds; round++) {
    if (round % 2)
      t->wrong += braid_execution_run(execution, (const void *[]){x}, (void *[]){y}) != BRAID_OK;
    else
      t->wrong += braid_execution_submit(execution, (const void *[]){x}, (void *[]){y}, NULL, NULL) != BRAID_OK ||
                  braid_execution_wait(execution, -1) != BRAID_OK;
    for (int i = 1; i < 4; i++) t->wrong += y[i] != y[0];
  }
  braid_execution_destroy(execution);
  return NULL;
}

static void test_training_beside_reading(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:memory=separate");
  braid_weights *weights;
  OK(braid_weights_create(machine, &weights));
  trainee trainees[4];
  for (int i = 0; i < 4; i++) {
    trainees[i] = (trainee){.weights = weights, .trains = i < 2};
    trainees[i].plan = make_plan(machine, line_graph(i < 2, false), true);
    assert_int_equal(pthread_create(&trainees[i].thread, NULL, train_or_look, &trainees[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_join(trainees[i].thread, NULL), 0);
    assert_int_equal(trainees[i].wrong, 0);
    braid_plan_release(trainees[i].plan);
  }
  braid_tensor *tensor;
  braid_desc desc;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  OK(braid_weights_read(weights, "p", tensor));
  assert_true(((float *)braid_tensor_data(tensor))[2] == 2 * kRounds); /* no step of the two is lost */
  braid_tensor_release(tensor);
  braid_weights_release(weights);
  braid_machine_release(machine);
}

/* --- refusals and memory -------------------------------------------------------------------------------------------
 */
static void test_two_machines(void **state) {
  (void)state;
  braid_machine *machines[] = {open_machine("cpu"), open_machine("cpu")};
  braid_weights *weights;
  braid_execution *execution;
  braid_plan *plan = make_plan(machines[0], line_graph(false, false), true);
  OK(braid_weights_create(machines[1], &weights));
  assert_int_equal(braid_execution_create(plan, weights, &execution), BRAID_INVALID_ARGUMENT);
  assert_null(execution);
  braid_weights_release(weights);
  braid_plan_release(plan);
  braid_machine_release(machines[0]);
  braid_machine_release(machines[1]);
}

/* A parameter that two plans know by one name must be one thing. */
static void test_same_name(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_weights *weights;
  braid_execution *executions[2];
  OK(braid_weights_create(machine, &weights));
  braid_plan *plan = make_plan(machine, line_graph(true, false), true);
  OK(braid_execution_create(plan, weights, &executions[0]));
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  OK(braid_graph_create(NULL, "other", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){5}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id p = add_tensor(graph, "p", BRAID_VALUE_PARAMETER, 1, (int64_t[]){5}, 1);
  OK(braid_graph_add_output(graph, node(graph, "Mul", (braid_value_id[]){x, p}, 2)));
  braid_plan *other = make_plan(machine, graph, true);
  assert_int_equal(braid_execution_create(other, weights, &executions[1]), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "p is"));
  braid_execution_destroy(executions[0]);
  braid_plan_release(plan);
  braid_plan_release(other);
  braid_weights_release(weights);
  braid_machine_release(machine);
}

static braid_status make_everything(const braid_allocator *allocator, void *context) {
  braid_graph *graph = NULL;
  braid_desc desc;
  braid_value_id x, y;
  braid_machine *machine = NULL;
  braid_plan *plan = NULL;
  braid_weights *weights = NULL;
  braid_execution *execution = NULL;
  float in[4] = {0}, out[4];
  braid_status status = braid_graph_create(allocator, "memory", &graph);
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4});
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "x", &desc, &x);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Relu", NULL, &x, 1, &y, 1, NULL);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, y);
  if (status == BRAID_OK)
    status = braid_machine_create(allocator, &(braid_machine_options){.devices = context, .threads = 1}, &machine);
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
  if (status == BRAID_OK) status = braid_weights_create(machine, &weights);
  if (status == BRAID_OK) status = braid_execution_create(plan, weights, &execution);
  if (status == BRAID_OK) status = braid_execution_run(execution, (const void *[]){in}, (void *[]){out});
  braid_execution_destroy(execution);
  braid_weights_release(weights);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
  return status;
}

/* With a constant that is packed, and shared. */
static braid_status bind_weights(const braid_allocator *allocator, void *context) {
  braid_machine *machine = NULL;
  braid_plan *plan = NULL;
  braid_weights *weights = NULL;
  braid_execution *executions[2] = {NULL, NULL};
  braid_status status = braid_machine_create(allocator, &(braid_machine_options){.threads = 1}, &machine);
  if (status == BRAID_OK) status = braid_plan_create(machine, context, NULL, &plan);
  if (status == BRAID_OK) status = braid_weights_create(machine, &weights);
  for (int i = 0; i < 2 && status == BRAID_OK; i++) status = braid_execution_create(plan, weights, &executions[i]);
  for (int i = 0; i < 2; i++) braid_execution_destroy(executions[i]);
  braid_weights_release(weights);
  braid_plan_release(plan);
  braid_machine_release(machine);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(make_everything, "cpu") > 20);
  assert_true(oom_sweep(make_everything, "cpu:memory=separate") > 20);
  braid_graph *graph = conv_graph(1);
  assert_true(oom_sweep(bind_weights, graph) > 5);
  braid_graph_destroy(graph);
}

int main(void) {
  if (braid_custom_op_register(&kHold) != BRAID_OK || braid_custom_op_register(&kNote) != BRAID_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_batches_share_weights),
                                     cmocka_unit_test(test_other_contents),
                                     cmocka_unit_test(test_dropped_data),
                                     cmocka_unit_test(test_training_and_evaluation),
                                     cmocka_unit_test(test_submit_and_wait),
                                     cmocka_unit_test(test_cancel),
                                     cmocka_unit_test(test_several_callers),
                                     cmocka_unit_test(test_made_by_several_threads),
                                     cmocka_unit_test(test_training_beside_reading),
                                     cmocka_unit_test(test_callers_thread),
                                     cmocka_unit_test(test_callers_thread_asked),
                                     cmocka_unit_test(test_busy_queue),
                                     cmocka_unit_test(test_two_machines),
                                     cmocka_unit_test(test_same_name),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
