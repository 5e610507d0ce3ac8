/* Saved plans: what is loaded computes the same bits. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/try.h"
#include "braid/session.h"
#include "oom.h"
#include "runtime/plan/saved_fixture.h"

/* --- there and back ------------------------------------------------------------------------------------------------
 */
static void there_and_back(const char *devices, const braid_plan_options *options) {
  static float x[kImage];
  float y[kClasses], z[kClasses];
  void *data;
  size_t bytes;
  braid_graph *graph = conv_graph(1);
  braid_machine *machine = open_machine(devices), *other = open_machine(devices);
  braid_plan *plan = plan_of(machine, graph, options), *loaded;
  fill(x, kImage, 3);
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  run(plan, x, y);
  OK(braid_plan_decode(other, graph, data, bytes, &loaded));
  memset(data, 0, bytes);
  braid_free(NULL, data);
  expect_same(plan, loaded);
  braid_graph_destroy(graph); /* neither it nor the bytes are needed any more */
  for (int turn = 0; turn < 2; turn++) {
    run(loaded, x, z);
    assert_memory_equal(y, z, sizeof y);
  }
  expect_same(plan, loaded);
  braid_plan_release(loaded);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_machine_release(other);
}

static void test_there_and_back(void **state) {
  (void)state;
  static const char *const kDevices[] = {"cpu", "cpu:threads=1", "cpu:memory=separate", "cpu cpu:memory=separate",
                                         "cpu:memory=separate cpu:memory=separate"};
  for (size_t d = 0; d < sizeof kDevices / sizeof *kDevices; d++) {
    there_and_back(kDevices[d], NULL);
    there_and_back(kDevices[d], &(braid_plan_options){.no_fusion = true, .no_reuse = true});
    there_and_back(kDevices[d], &(braid_plan_options){.training = true, .device_io = true});
  }
  there_and_back("cpu cpu:memory=separate", &(braid_plan_options){.place = "auto"});
  there_and_back("cpu cpu:memory=separate", &(braid_plan_options){.place = "*=1", .loose_place = true});
}

static void test_states(void **state) {
  (void)state;
  float x[4] = {1, 2, 3, 4}, y[4], expected[4];
  void *data;
  size_t bytes;
  braid_graph *graph = line_graph(true, false);
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graph, &(braid_plan_options){.training = true}), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  OK(braid_plan_decode(machine, graph, data, bytes, &loaded));
  braid_execution *executions[2];
  OK(braid_execution_create(plan, NULL, &executions[0]));
  OK(braid_execution_create(loaded, NULL, &executions[1]));
  for (int step = 0; step < 3; step++) {
    OK(braid_execution_run(executions[0], (const void *[]){x}, (void *[]){expected}));
    OK(braid_execution_run(executions[1], (const void *[]){x}, (void *[]){y}));
    assert_memory_equal(y, expected, sizeof y);
  }
  braid_execution_destroy(executions[0]);
  braid_execution_destroy(executions[1]);
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_plan_release(loaded);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* The plan of one network for the same one trained further: its own weights, not those that the plan was made with. */
static void test_other_weights(void **state) {
  (void)state;
  static float x[kImage];
  float before[kClasses], y[kClasses], expected[kClasses];
  void *data;
  size_t bytes;
  fill(x, kImage, 3);
  braid_graph *first = conv_graph(1), *second = conv_graph(1);
  float *filter = braid_tensor_data(
      (braid_tensor *)(uintptr_t)braid_graph_value(second, braid_graph_find_value(second, "w")).tensor);
  for (int i = 0; i < kFilters * kChannels * 9; i++) filter[i] *= (float)(i % 5);
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, first, NULL), *fresh = plan_of(machine, second, NULL), *loaded;
  OK(braid_plan_encode(plan, first, NULL, &data, &bytes));
  OK(braid_plan_decode(machine, second, data, bytes, &loaded));
  run(plan, x, before);
  run(fresh, x, expected);
  run(loaded, x, y);
  assert_memory_equal(y, expected, sizeof y);
  assert_memory_not_equal(y, before, sizeof y);
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_plan_release(fresh);
  braid_plan_release(loaded);
  braid_graph_destroy(first);
  braid_graph_destroy(second);
  braid_machine_release(machine);
}

/* The network trained again is served, with its own numbers. */
static void serve_trained_again(const char *devices, bool no_fusion) {
  float x[16], before[64], y[64], expected[64];
  void *data;
  size_t bytes;
  fill(x, 16, 3);
  braid_plan_options options = {.no_fusion = no_fusion};
  braid_graph *first = narrow_graph(0.1f, 6, 4), *second = narrow_graph(0.3f, 6, 4);
  braid_machine *machine = open_machine(devices);
  braid_plan *plan = plan_of(machine, first, &options), *fresh = plan_of(machine, second, &options), *loaded;
  OK(braid_plan_encode(plan, first, NULL, &data, &bytes));
  OK(braid_plan_decode(machine, second, data, bytes, &loaded));
  expect_same(plan, loaded);
  run(plan, x, before);
  run(fresh, x, expected);
  run(loaded, x, y);
  assert_memory_equal(y, expected, sizeof y);
  assert_memory_not_equal(y, before, sizeof y);
  braid_free(NULL, data);
  OK(braid_plan_encode(loaded, second, NULL, &data, &bytes)); /* and is a plan of both */
  braid_free(NULL, data);
  OK(braid_plan_encode(plan, second, NULL, &data, &bytes));
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_plan_release(fresh);
  braid_plan_release(loaded);
  braid_graph_destroy(first);
  braid_graph_destroy(second);
  braid_machine_release(machine);
}

/* Weights are weights however few they are, and whatever takes them. */
static void test_few_other_weights(void **state) {
  (void)state;
  serve_trained_again("cpu", false);
  serve_trained_again("cpu", true);
  serve_trained_again("cpu:memory=separate", false);
}

/* A plan goes with the graph that it was made of, saved or not, and with no other. */
static void test_the_plan_of_another_graph(void **state) {
  (void)state;
  void *data;
  size_t bytes;
  braid_session *session;
  braid_graph *own = conv_graph(1), *other = conv_graph(2), *clone;
  braid_machine *machine = open_machine("cpu");
  OK(braid_graph_clone(own, &clone));
  braid_plan *made = plan_of(machine, own, NULL), *loaded;
  OK(braid_plan_encode(made, clone, NULL, &data, &bytes));
  OK(braid_plan_decode(machine, own, data, bytes, &loaded));
  braid_free(NULL, data);
  braid_plan *const plans[] = {made, loaded};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(braid_session_create(other, &(braid_session_options){.plan = plans[i]}, &session),
                     BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), "the plan was made of another graph than net"));
    assert_int_equal(braid_plan_encode(plans[i], other, NULL, &data, &bytes), BRAID_INVALID_ARGUMENT);
    OK(braid_session_create(clone, &(braid_session_options){.plan = plans[i]}, &session));
    braid_session_destroy(session);
  }
  braid_plan_release(made);
  braid_plan_release(loaded);
  braid_graph_destroy(own);
  braid_graph_destroy(other);
  braid_graph_destroy(clone);
  braid_machine_release(machine);
}

/* A session that trains is not run by the plan of the network that does not, and the other way round. */
static void test_plans_with_and_without_training(void **state) {
  (void)state;
  braid_session *session;
  braid_graph *const graphs[] = {line_graph(false, false), line_graph(true, false)};
  braid_machine *machine = open_machine("cpu");
  for (int i = 0; i < 2; i++) {
    braid_plan *plan = plan_of(machine, graphs[i], &(braid_plan_options){.training = i == 1});
    braid_session_options options = {.training = i == 0, .plan = plan};
    assert_int_equal(braid_session_create(graphs[1 - i], &options, &session), BRAID_INVALID_ARGUMENT);
    assert_null(session);
    assert_non_null(strstr(braid_error_detail(), "made of another graph"));
    OK(braid_session_create(graphs[i], &options, &session));
    braid_session_destroy(session);
    braid_plan_release(plan);
  }
  braid_graph_destroy(graphs[0]);
  braid_graph_destroy(graphs[1]);
  braid_machine_release(machine);
}

static void test_an_op_of_the_program(void **state) {
  (void)state;
  float x[4] = {1, 2, 3, 4}, y[4], expected[4];
  void *data;
  size_t bytes;
  braid_graph *graph = line_graph(false, true);
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graph, NULL), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  OK(braid_plan_decode(machine, graph, data, bytes, &loaded));
  run(plan, x, expected);
  run(loaded, x, y);
  assert_memory_equal(y, expected, sizeof y);
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_plan_release(loaded);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

static braid_status scale_by(float factor, const braid_custom_array *inputs, const braid_custom_array *outputs) {
  for (int64_t i = 0; i < braid_desc_count(outputs[0].desc); i++)
    ((float *)outputs[0].data)[i] = ((const float *)inputs[0].data)[i] * factor;
  return BRAID_OK;
}

static braid_status compute_twice(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                  const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  return scale_by(2, inputs, outputs);
}

static braid_status compute_thrice(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                   const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  return scale_by(3, inputs, outputs);
}

/* Nodes of two sets of ops, with one name in both; a third set, in use since, has it too. `name`: of all nodes, or NULL
 * for one each. */
static void run_ops_of_several_sets(const char *name) {
  static const braid_custom_op kOps[] = {{"test.Times", 1, 1, 1, infer_same, compute_twice},
                                         {"test.Times", 1, 1, 1, infer_same, compute_thrice},
                                         {"test.Times", 1, 1, 1, infer_same, compute_twice},
                                         {"test.Other", 1, 1, 1, infer_same, compute_twice}};
  float x[4] = {1, 2, 3, 4}, y[4];
  void *data;
  size_t bytes;
  int64_t count = 4;
  braid_custom_ops *sets[3];
  braid_graph *graph;
  braid_desc desc;
  braid_value_id value;
  OK(braid_graph_create(NULL, "sets", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  OK(braid_graph_add_input(graph, "x", &desc, &value));
  for (int i = 0; i < 3; i++) {
    OK(braid_custom_ops_create(NULL, &sets[i]));
    OK(braid_custom_ops_add(sets[i], &kOps[i]));
    if (i == 0) OK(braid_custom_ops_add(sets[i], &kOps[3]));
    braid_graph_use_custom_ops(graph, sets[i]);
    braid_custom_ops_release(sets[i]); /* the graph has it */
    if (i == 0) OK(braid_graph_add_node(graph, "test.Other", name, &value, 1, &value, 1, NULL));
    if (i < 2) OK(braid_graph_add_node(graph, "test.Times", name, &value, 1, &value, 1, NULL));
  }
  OK(braid_graph_add_output(graph, value));
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graph, NULL), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  braid_plan_release(plan);
  OK(braid_plan_decode(machine, graph, data, bytes, &loaded));
  braid_graph_destroy(graph); /* the plan keeps the sets */
  run(loaded, x, y);
  for (int i = 0; i < 4; i++) assert_float_equal(y[i], x[i] * 12, 0);
  braid_free(NULL, data);
  braid_plan_release(loaded);
  braid_machine_release(machine);
}

static void test_ops_of_several_sets(void **state) {
  (void)state;
  run_ops_of_several_sets(NULL);
  run_ops_of_several_sets("same");
}

static void test_files(void **state) {
  (void)state;
  char path[] = "/tmp/braid-plan-test-XXXXXX", *text;
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  braid_graph *graph = conv_graph(1);
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graph, NULL), *loaded;
  OK(braid_plan_save(plan, graph, path));
  OK(braid_plan_load(machine, graph, path, &loaded));
  expect_same(plan, loaded);
  OK(braid_plan_file_print(path, false, NULL, &text));
  assert_non_null(strstr(text, "  device   cpu: "));
  assert_non_null(strstr(text, "  runs     on cpu, kernel "));
  assert_non_null(strstr(text, "  why      first capable device\n"));
  assert_non_null(strstr(text, "  reads    x float32[1,16,8,8] plain, the caller's memory\n"));
  assert_non_null(strstr(text, "  op       Flatten, which takes no task: "));
  braid_free(NULL, text);
  OK(braid_plan_file_print(path, true, NULL, &text));
  assert_true(text[0] == '{' && strstr(text, "\"step\": ["));
  assert_non_null(strstr(text, "\"kind\": \"input\", \"type\": \"float32\", \"shape\": [1,16,8,8]"));
  assert_non_null(strstr(text, "\"layouts\": [\"plain\","));
  braid_free(NULL, text);
  OK(braid_plan_file_compare(path, path, NULL, &text));
  assert_string_equal(text, "");
  braid_free(NULL, text);
  braid_plan_release(loaded);
  unlink(path);
  assert_int_equal(braid_plan_load(machine, graph, path, &loaded), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), path));
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* A plan whose data has been dropped is saved, printed and compared as before: what it depends on is kept. */
static void test_dropped_data(void **state) {
  (void)state;
  static float x[kImage];
  float y[kClasses + 64];
  fill(x, kImage, 3);
  braid_machine *machine = open_machine("cpu");
  for (int which = 0; which < 2; which++) {
    void *before, *after;
    char *print, *same;
    size_t bytes, after_bytes;
    braid_graph *graph = which ? narrow_graph(0.1f, 6, 4) : conv_graph(1);
    braid_plan *plan = plan_of(machine, graph, NULL), *loaded;
    OK(braid_plan_encode(plan, graph, NULL, &before, &bytes));
    OK(braid_plan_print(plan, false, NULL, &print));
    run(plan, x, y);
    braid_plan_drop_data(plan);
    OK(braid_plan_encode(plan, graph, NULL, &after, &after_bytes));
    assert_int_equal(after_bytes, bytes);
    assert_memory_equal(after, before, bytes);
    OK(braid_plan_print(plan, false, NULL, &same));
    assert_string_equal(same, print);
    OK(braid_plan_decode(machine, graph, after, after_bytes, &loaded));
    expect_same(plan, loaded);
    braid_plan_drop_data(loaded);
    expect_same(plan, loaded);
    for (int i = 0; i < 2; i++) braid_free(NULL, i ? after : before);
    for (int i = 0; i < 2; i++) braid_free(NULL, i ? same : print);
    braid_plan_release(plan);
    braid_plan_release(loaded);
    braid_graph_destroy(graph);
  }
  braid_machine_release(machine);
}

/* A session saves the plan that it runs by, and loads it: then no option that makes a plan counts. */
static void test_sessions_with_files(void **state) {
  (void)state;
  static float x[kImage];
  float y[kClasses], z[kClasses];
  char path[] = "/tmp/braid-plan-test-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  fill(x, kImage, 3);
  braid_session *session;
  braid_graph *graph = conv_graph(1), *other = conv_graph(2);
  braid_machine *machine = open_machine("cpu cpu:memory=separate");
  braid_plan *plan = plan_of(machine, graph, NULL);
  braid_session_options saves = {.machine = machine, .place = "Conv*=1", .no_fusion = true, .save_plan = path};
  OK(braid_session_create(graph, &saves, &session));
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  size_t tasks = braid_session_plan_count(session);
  braid_session_destroy(session);
  braid_session_options loads = {.machine = machine, .load_plan = path};
  OK(braid_session_create(graph, &loads, &session));
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){z}));
  assert_memory_equal(y, z, sizeof y);
  assert_int_equal(braid_session_plan_count(session), tasks);
  assert_true(tasks > braid_plan_line_count(plan));
  braid_session_destroy(session);
  assert_int_equal(braid_session_create(other, &loads, &session), BRAID_UNSUPPORTED);
  loads.plan = plan;
  assert_int_equal(braid_session_create(graph, &loads, &session), BRAID_INVALID_ARGUMENT);
  unlink(path);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_graph_destroy(other);
  braid_machine_release(machine);
}

/* A plan for inference takes parameters for constants, one for training reads the weights: neither stands for the
 * other.
 */
static void test_sessions_with_files_for_something_else(void **state) {
  (void)state;
  char path[] = "/tmp/braid-plan-test-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  braid_session *session;
  braid_graph *graph = line_graph(true, false);
  braid_machine *machine = open_machine("cpu");
  for (int trains = 0; trains < 2; trains++) {
    braid_session_options options = {.machine = machine, .training = trains, .save_plan = path};
    OK(braid_session_create(graph, &options, &session));
    braid_session_destroy(session);
    options = (braid_session_options){.machine = machine, .training = !trains, .load_plan = path};
    assert_int_equal(braid_session_create(graph, &options, &session), BRAID_UNSUPPORTED);
    assert_null(session);
    assert_non_null(strstr(braid_error_detail(), trains ? "made for training, the session is for inference"
                                                        : "made for inference, the session is for training"));
    assert_non_null(strstr(braid_error_detail(), path));
    options.training = trains;
    OK(braid_session_create(graph, &options, &session));
    braid_session_destroy(session);
  }
  unlink(path);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

static void test_differences_between_plans(void **state) {
  (void)state;
  char *text;
  braid_graph *graph = conv_graph(1);
  braid_machine *machine = open_machine("cpu cpu:memory=separate");
  braid_plan *a = plan_of(machine, graph, NULL), *b = plan_of(machine, graph, &(braid_plan_options){.place = "*=1"});
  OK(braid_plan_compare(a, b, NULL, &text));
  assert_non_null(strstr(text, "device is cpu in the first, cpu#1 in the second"));
  braid_free(NULL, text);
  braid_plan_release(a);
  braid_plan_release(b);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* --- out of memory -------------------------------------------------------------------------------------------------
 */
static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_machine *machine;
  braid_graph *graph = NULL;
  braid_plan *plan = NULL, *loaded = NULL;
  braid_execution *execution = NULL;
  braid_value_id at;
  braid_desc desc;
  void *data = NULL;
  size_t bytes;
  char *text = NULL;
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){2, 6}));
  BRAID_TRY(braid_machine_create(allocator, &(braid_machine_options){.devices = context, .threads = 1}, &machine));
  braid_status status = braid_graph_create(allocator, "net", &graph);
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "x", &desc, &at);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Softmax", NULL, &at, 1, &at, 1, NULL);
  if (status == BRAID_OK) status = braid_graph_set_int(graph, 0, "axis", 0);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, at);
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
  if (status == BRAID_OK) status = braid_plan_encode(plan, graph, allocator, &data, &bytes);
  if (status == BRAID_OK) status = braid_plan_decode(machine, graph, data, bytes, &loaded);
  if (status == BRAID_OK) status = braid_plan_compare(plan, loaded, allocator, &text);
  if (status == BRAID_OK) status = braid_execution_create(loaded, NULL, &execution);
  braid_execution_destroy(execution);
  braid_free(allocator, data);
  braid_free(allocator, text);
  braid_plan_release(plan);
  braid_plan_release(loaded);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  static char kCard[] = "cpu:memory=separate,threads=1", kHost[] = "cpu:threads=1";
  oom_sweep(attempt, kCard);
  oom_sweep(attempt, kHost);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_other_weights),
      cmocka_unit_test(test_few_other_weights),
      cmocka_unit_test(test_the_plan_of_another_graph),
      cmocka_unit_test(test_plans_with_and_without_training),
      cmocka_unit_test(test_an_op_of_the_program),
      cmocka_unit_test(test_ops_of_several_sets),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_dropped_data),
      cmocka_unit_test(test_sessions_with_files),
      cmocka_unit_test(test_sessions_with_files_for_something_else),
      cmocka_unit_test(test_differences_between_plans),
      cmocka_unit_test(test_out_of_memory),
  };
  if (braid_custom_op_register(&kHold) != BRAID_OK) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
