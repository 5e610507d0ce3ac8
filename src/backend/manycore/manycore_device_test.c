/* The device manycore: networks run whole on it, by the compute cores' kernels where they have them; results are the
 * CPU's within a bound, the same bits for any threads, cores and scratchpads; training steps run; times and energy are
 * the model's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "braid/machine.h"
#include "braid/manycore.h"
#include "braid/model.h"
#include "braid/planning.h"
#include "braid/session.h"
#include "oom.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status checked = (expression);                                                                               \
    if (checked != BRAID_OK) fail_msg("%s: %s", braid_status_text(checked), braid_error_detail());                     \
  } while (0)

typedef struct outcome {
  float *numbers;
  size_t count, on_cores, tasks;
} outcome;

static void *make_input(const braid_desc *desc, uint32_t stream) {
  int64_t count = braid_desc_count(desc);
  void *data = calloc((size_t)count + 1, braid_dtype_size(desc->dtype));
  for (int64_t i = 0; i < count && desc->dtype == BRAID_F32; i++)
    ((float *)data)[i] = braid_random_uniform(7, 0, stream, (uint64_t)i) * 2 - 1;
  return data; /* labels are 0 */
}

/* The first output. */
static outcome run_on(const braid_graph *graph, const char *devices) {
  braid_session *session;
  outcome result = {NULL};
  void *inputs[8] = {NULL}, *outputs[64] = {NULL};
  OK(braid_session_create(graph, &(braid_session_options){.devices = devices}, &session));
  size_t count = braid_session_input_count(session);
  assert_true(count <= 8 && braid_session_output_count(session) <= 64);
  for (size_t i = 0; i < count; i++) inputs[i] = make_input(braid_session_input(session, i), (uint32_t)i);
  const braid_desc *desc = braid_session_output(session, 0);
  result.count = (size_t)braid_desc_count(desc);
  outputs[0] = result.numbers = calloc(result.count + 1, sizeof(float));
  OK(braid_session_run(session, (const void *const *)inputs, outputs));
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    result.tasks++;
    result.on_cores += strncmp(line.kernel, "core_", 5) == 0;
    if (strncmp(devices, "manycore", 8) == 0) assert_true(line.modelled);
  }
  braid_session_destroy(session);
  for (size_t i = 0; i < count; i++) free(inputs[i]);
  return result;
}

static void expect_near(const outcome *got, const outcome *wanted, const char *what) {
  double scale = 0;
  assert_int_equal(got->count, wanted->count);
  for (size_t i = 0; i < got->count; i++) { /* GCC 12 for aarch64 crashes on fmax here */
    double size = fabs((double)wanted->numbers[i]);
    scale = size > scale ? size : scale;
  }
  for (size_t i = 0; i < got->count; i++)
    if (!(fabs((double)got->numbers[i] - (double)wanted->numbers[i]) <= 1e-4 * scale))
      fail_msg("%s: number %zu is %g, on the CPU %g", what, i, (double)got->numbers[i], (double)wanted->numbers[i]);
}

static const char *const kDevices[] = {"manycore", "manycore:threads=1", "manycore:cores=5,threads=3",
                                       "manycore:scratchpad=8192"};
enum { kDeviceCount = sizeof kDevices / sizeof *kDevices };

static void expect_network(const char *path, size_t least_on_cores) {
  braid_graph *graph;
  OK(braid_model_load(NULL, path, NULL, &graph));
  outcome wanted = run_on(graph, "cpu"), first = {NULL};
  assert_int_equal(wanted.on_cores, 0);
  for (size_t d = 0; d < kDeviceCount; d++) {
    outcome got = run_on(graph, kDevices[d]);
    print_message("%s on %s: %zu of %zu tasks on compute cores\n", path, kDevices[d], got.on_cores, got.tasks);
    assert_true(got.on_cores >= least_on_cores);
    expect_near(&got, &wanted, path);
    if (d == 0) {
      first = got;
      continue;
    }
    if (memcmp(got.numbers, first.numbers, got.count * sizeof(float)) != 0) fail_msg("%s: other bits", kDevices[d]);
    free(got.numbers);
  }
  free(first.numbers);
  free(wanted.numbers);
  braid_graph_destroy(graph);
}

static void test_networks(void **state) {
  (void)state;
  expect_network(BRAID_MODELS "/lenet.cfg", 10);
  expect_network(BRAID_MODELS "/cifarnet.cfg", 12);
#ifndef BRAID_EMULATED
  expect_network(BRAID_MODELS "/resnet20.cfg", 40);
#endif
}

/* Products of the backward pass run on the compute cores too, other gradients on the management core. */
static void test_training_step(void **state) {
  (void)state;
  braid_graph *model, *step;
  OK(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &model));
  OK(braid_planning_step(model, NULL, 4, &step));
  outcome wanted = run_on(step, "cpu"), got = run_on(step, "manycore");
  print_message("a training step: %zu of %zu tasks on compute cores\n", got.on_cores, got.tasks);
  assert_true(got.on_cores >= 11 && got.on_cores < got.tasks);
  expect_near(&got, &wanted, "training step");
  free(got.numbers);
  free(wanted.numbers);
  braid_graph_destroy(step);
  braid_graph_destroy(model);
}

/* Estimates of a graph are what tasks of the device take. */
static void test_times_are_the_models(void **state) {
  (void)state;
  braid_graph *graph;
  braid_session *session;
  OK(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph));
  OK(braid_session_create(graph, &(braid_session_options){.devices = "manycore", .no_fusion = true}, &session));
  void *input = make_input(braid_session_input(session, 0), 0);
  for (int i = 0; i < 20; i++) OK(braid_session_run(session, (const void *const[]){input}, NULL));
  OK(braid_resolve(graph));
  size_t compared = 0;
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    for (size_t n = 0; n < braid_graph_node_count(graph); n++) {
      braid_manycore_estimate estimate;
      if (strcmp(braid_graph_node(graph, (braid_node_id)n).name, line.node) != 0 || line.median_us < 0) continue;
      OK(braid_manycore_estimate_node(graph, (braid_node_id)n, NULL, &estimate));
      assert_true(estimate.on_cores && estimate.busy > 0);
      assert_string_equal(estimate.kernel, line.kernel);
      assert_true(fabs(line.median_us - estimate.seconds * 1e6) < 0.002); /* of whole nanoseconds */
      compared++;
    }
  }
  assert_true(compared >= 9);
  free(input);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* Outputs that are an input, or another output, are copied: by the management core's bandwidth, not by this machine's.
 */
static void test_copies_are_modelled(void **state) {
  (void)state;
  braid_graph *graph;
  braid_session *session;
  braid_desc desc;
  braid_value_id x, y = 0, z = 0;
  braid_node_id node;
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){30, 1000}));
  OK(braid_graph_create(NULL, "copies", &graph));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_node(graph, "Relu", "relu", &x, 1, &y, 1, &node));
  OK(braid_graph_add_node(graph, "Identity", "same", &x, 1, &z, 1, &node));
  OK(braid_graph_add_output(graph, y));
  OK(braid_graph_add_output(graph, z));
  OK(braid_session_create(graph, &(braid_session_options){.devices = "manycore"}, &session));
  void *input = make_input(braid_session_input(session, 0), 0);
  for (int i = 0; i < 5; i++) OK(braid_session_run(session, (const void *const[]){input}, NULL));
  size_t copies = 0;
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    assert_true(line.modelled && line.energy_uj > 0);
    if (strcmp(line.kernel, "transfer") != 0) continue;
    copies++;
    assert_true(fabs(line.median_us - 2 * 120000 / 9.9e9 * 1e6) < 0.002); /* read and written */
  }
  assert_true(copies > 0);
  free(input);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void test_estimates_refuse(void **state) {
  (void)state;
  braid_graph *graph;
  braid_manycore_estimate estimate;
  OK(braid_model_load(NULL, BRAID_MODELS "/cifarnet.cfg", NULL, &graph));
  assert_int_equal(braid_manycore_estimate_node(graph, 0, NULL, &estimate), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "not resolved, or a shape is open"));
  OK(braid_resolve(graph));
  assert_int_equal(braid_manycore_estimate_node(graph, 0, "cores=0", &estimate), BRAID_INVALID_ARGUMENT);
  size_t elsewhere = 0;
  for (size_t n = 0; n < braid_graph_node_count(graph); n++) {
    OK(braid_manycore_estimate_node(graph, (braid_node_id)n, "scratchpad=256", &estimate));
    if (estimate.on_cores) continue;
    assert_true(estimate.why[0] && estimate.seconds > 0 && estimate.seconds == estimate.management_vectors);
    elsewhere++;
  }
  assert_true(elsewhere >= 4); /* a convolution of 5 x 5 does not fit into 256 bytes; LRN has no kernel */
  braid_graph_destroy(graph);
}

/* Runs of several executions at once, which share prepared kernels, and of which some are destroyed under way. */
enum { kTogether = 3, kScores = 10 };
typedef struct together {
  braid_plan *plan;
  const void *input;
  float scores[kScores];
  braid_status status;
} together;

static braid_status run_beside_dropped(together *own) {
  braid_execution *execution, *dropped = NULL;
  float unread[kScores];
  braid_status status = braid_execution_create(own->plan, NULL, &execution);
  if (status == BRAID_OK) status = braid_execution_create(own->plan, NULL, &dropped);
  if (status == BRAID_OK) status = braid_execution_submit(dropped, &own->input, (void *[]){unread}, NULL, NULL);
  if (status == BRAID_OK) status = braid_execution_run(execution, &own->input, (void *[]){own->scores});
  braid_execution_destroy(dropped);
  braid_execution_destroy(execution);
  return status;
}

static void *run_together(void *context) {
  together *own = context;
  for (int i = 0; i < 4 && own->status == BRAID_OK; i++) own->status = run_beside_dropped(own);
  return NULL;
}

static void test_executions_at_once(void **state) {
  (void)state;
  braid_graph *graph;
  braid_machine *machine;
  braid_desc desc;
  together all[kTogether] = {{NULL}};
  pthread_t threads[kTogether];
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 3, 32, 32}));
  OK(braid_model_load(NULL, BRAID_MODELS "/cifarnet.cfg", NULL, &graph));
  outcome wanted = run_on(graph, "manycore");
  assert_int_equal(wanted.count, kScores);
  braid_machine_options options = {.devices = "manycore:threads=2"};
  OK(braid_machine_create(NULL, &options, &machine));
  OK(braid_plan_create(machine, graph, NULL, &all[0].plan));
  void *input = make_input(&desc, 0);
  for (int i = 0; i < kTogether; i++) {
    all[i].plan = all[0].plan, all[i].input = input;
    assert_int_equal(pthread_create(&threads[i], NULL, run_together, &all[i]), 0);
  }
  for (int i = 0; i < kTogether; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    OK(all[i].status);
    assert_memory_equal(all[i].scores, wanted.numbers, sizeof all[i].scores);
  }
  free(input);
  free(wanted.numbers);
  braid_plan_release(all[0].plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
}

static braid_status attempt_execution(const braid_allocator *allocator, void *context) {
  braid_machine *machine;
  braid_plan *plan = NULL;
  braid_execution *execution = NULL;
  braid_machine_options options = {.devices = "manycore:threads=2", .threads = 1};
  braid_status status = braid_machine_create(allocator, &options, &machine);
  if (status != BRAID_OK) return status;
  status = braid_plan_create(machine, context, NULL, &plan);
  if (status == BRAID_OK) status = braid_execution_create(plan, NULL, &execution);
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
  return status;
}

/* Opening the device, planning and preparing programs and the management core's kernels. */
static void test_out_of_memory(void **state) {
  (void)state;
  braid_graph *graph;
  OK(braid_model_load(NULL, BRAID_MODELS "/cifarnet.cfg", NULL, &graph));
  assert_true(oom_sweep(attempt_execution, graph) > 100);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_networks),
      cmocka_unit_test(test_training_step),
      cmocka_unit_test(test_times_are_the_models),
      cmocka_unit_test(test_copies_are_modelled),
      cmocka_unit_test(test_estimates_refuse),
      cmocka_unit_test(test_executions_at_once),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
