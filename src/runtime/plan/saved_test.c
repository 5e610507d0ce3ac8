/* Saved plans: what is loaded computes the same bits, and what does not fit is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/try.h"
#include "braid/plan.h"
#include "braid/session.h"
#include "oom.h"
#include "runtime/execution/execution_fixture.h"
#include "runtime/plan/snapshot.h"

static void run(braid_plan *plan, const float *x, float *y) {
  braid_execution *execution;
  OK(braid_execution_create(plan, NULL, &execution));
  OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
  braid_execution_destroy(execution);
}

static braid_plan *plan_of(braid_machine *machine, const braid_graph *graph, const braid_plan_options *options) {
  braid_plan *plan;
  OK(braid_plan_create(machine, graph, options, &plan));
  return plan;
}

static void expect_same(braid_plan *a, braid_plan *b) {
  char *text;
  OK(braid_plan_compare(a, b, NULL, &text));
  if (text[0]) fail_msg("%s", text);
  braid_free(NULL, text);
}

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

/* A network in which every constant is few numbers. `scale`: of those that training changes. `bound`, `rows`: of those
 * that decide what is run: the end of a Clip that a convolution takes in, and numbers from which a shape is computed.
 */
static braid_graph *narrow_graph(float scale, float bound, int64_t rows) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, low, high, parts[2], minus;
  OK(braid_graph_create(NULL, "narrow", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 1, 4, 4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  const int64_t kFour[] = {4, 1, 1, 1}, kOne[] = {1};
  braid_value_id conv[] = {x, add_tensor(graph, "w", BRAID_VALUE_CONSTANT, 4, kFour, scale),
                           add_tensor(graph, "b", BRAID_VALUE_CONSTANT, 1, kFour, scale)};
  OK(braid_graph_add_scalar(graph, BRAID_F32, 0, &low));
  OK(braid_graph_add_scalar(graph, BRAID_F32, bound, &high));
  braid_value_id norm[5] = {node(graph, "Clip", (braid_value_id[]){node(graph, "Conv", conv, 3), low, high}, 3)};
  static const char *const kNorm[] = {"scale", "shift", "mean", "variance"};
  for (int i = 0; i < 4; i++) {
    norm[1 + i] = add_tensor(graph, kNorm[i], BRAID_VALUE_CONSTANT, 1, kFour, scale);
    float *data = braid_tensor_data((braid_tensor *)(uintptr_t)braid_graph_value(graph, norm[1 + i]).tensor);
    for (int k = 0; i == 3 && k < 4; k++) data[k] = 1 + scale * (float)k;
  }
  braid_value_id y = node(graph, "BatchNormalization", norm, 5);
  y = node(graph, "PRelu", (braid_value_id[]){y, add_tensor(graph, "slope", BRAID_VALUE_CONSTANT, 1, kOne, scale)}, 2);
  y = node(graph, "Mul", (braid_value_id[]){y, add_tensor(graph, "gain", BRAID_VALUE_CONSTANT, 1, kOne, scale)}, 2);
  OK(braid_graph_add_int64s(graph, &rows, 1, &parts[0]));
  OK(braid_graph_add_int64s(graph, (int64_t[]){-1}, 1, &minus));
  parts[0] = node(graph, "Mul", (braid_value_id[]){parts[0], parts[0]}, 2); /* folded: read as what it came from */
  parts[1] = minus;
  braid_value_id shape = 0;
  braid_node_id concat;
  OK(braid_graph_add_node(graph, "Concat", NULL, parts, 2, &shape, 1, &concat));
  OK(braid_graph_set_int(graph, concat, "axis", 0));
  y = node(graph, "Reshape", (braid_value_id[]){y, shape}, 2);
  int64_t columns = 64 / (rows * rows);
  braid_value_id shift = add_tensor(graph, "apart", BRAID_VALUE_CONSTANT, 1, &columns, scale);
  OK(braid_graph_add_output(graph, node(graph, "Add", (braid_value_id[]){y, shift}, 2)));
  return graph;
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

/* Nodes of two sets of ops, with one name in both; a third set, in use since, has it too. */
static void test_ops_of_several_sets(void **state) {
  (void)state;
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
    if (i == 0) value = node(graph, "test.Other", &value, 1);
    if (i < 2) value = node(graph, "test.Times", &value, 1);
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
  assert_non_null(strstr(text, "  why      the first device that can\n"));
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
  braid_plan_drop_data(loaded);
  assert_int_equal(braid_plan_save(loaded, graph, path), BRAID_UNSUPPORTED);
  braid_plan_release(loaded);
  unlink(path);
  assert_int_equal(braid_plan_load(machine, graph, path, &loaded), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), path));
  braid_plan_release(plan);
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

/* --- refused -------------------------------------------------------------------------------------------------------
 */
static void refuse(const char *devices, braid_graph *graph, const void *data, size_t bytes, const char *sentence) {
  braid_machine *machine = open_machine(devices);
  braid_plan *plan;
  braid_status status = braid_plan_decode(machine, graph, data, bytes, &plan);
  if (status != BRAID_UNSUPPORTED || plan || !strstr(braid_error_detail(), sentence))
    fail_msg("%s: %s, expected %s", braid_status_text(status), braid_error_detail(), sentence);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

static braid_graph *pooled(int64_t side) {
  braid_graph *graph = conv_graph(1);
  braid_node_id node_id = 0; /* the convolution */
  OK(braid_graph_set_ints(graph, node_id, "strides", (int64_t[]){side, side}, 2));
  return graph;
}

/* An output beside the others. */
static braid_graph *with_scalar(float number) {
  braid_graph *graph = conv_graph(1);
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, 0, NULL));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  *(float *)braid_tensor_data(tensor) = number;
  OK(braid_graph_add_tensor(graph, "number", BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  OK(braid_graph_add_output(graph, node(graph, "Mul", (braid_value_id[]){braid_graph_input(graph, 0), id}, 2)));
  return graph;
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  void *data, *scaled;
  size_t bytes, scaled_bytes;
  braid_graph *graph = conv_graph(1), *other = with_scalar(2), *tripled = with_scalar(3);
  braid_machine *machine = open_machine("cpu:threads=2");
  braid_plan *plan = plan_of(machine, graph, NULL), *scaled_plan = plan_of(machine, other, NULL), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  OK(braid_plan_encode(scaled_plan, other, NULL, &scaled, &scaled_bytes));
  const char *kSame = "cpu:threads=2";
  refuse(kSame, conv_graph(2), data, bytes, "value x of the model: shape is [1,16,8,8] in the file, [2,16,8,8] here");
  refuse(kSame, pooled(2), data, bytes, "shape is [1,32,6,6] in the file, [1,32,3,3] here; and more differs");
  refuse(kSame, with_scalar(2), data, bytes, "in the file");
  OK(braid_plan_decode(machine, tripled, scaled, scaled_bytes, &loaded)); /* a factor decides nothing */
  braid_plan_release(loaded);
  refuse("cpu:threads=1", conv_graph(1), data, bytes, "device cpu: threads is 2 in the file, 1 here");
  refuse("cpu:threads=2 cpu:threads=2", conv_graph(1), data, bytes, "1 devices in the file, 2 here");
  refuse("cpu:threads=2,memory=separate", conv_graph(1), data, bytes, "separate_memory is no in the file, yes here");
  braid_free(NULL, data);
  braid_free(NULL, scaled);
  braid_plan_release(plan);
  braid_plan_release(scaled_plan);
  braid_graph_destroy(graph);
  braid_graph_destroy(other);
  braid_graph_destroy(tripled);
  braid_machine_release(machine);
}

/* Constants that a shape or a choice came from are the plan's, few or many, folded or not. */
static void test_constants_that_decide(void **state) {
  (void)state;
  void *data;
  size_t bytes;
  braid_graph *graph = narrow_graph(0.1f, 6, 4);
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graph, NULL);
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  refuse("cpu", narrow_graph(0.1f, 5, 4), data, bytes, "contents is [6] in the file, [5] here");
  refuse("cpu", narrow_graph(0.1f, 6, 2), data, bytes, "in the file");
  /* with nothing else that differs: as many numbers, of which only the product is read */
  braid_graph *turned = narrow_graph(0.1f, 6, 4);
  for (size_t i = 0; i < braid_graph_value_count(turned); i++) {
    braid_value_info value = braid_graph_value(turned, (braid_value_id)i);
    if (value.kind == BRAID_VALUE_CONSTANT && value.desc.dtype == BRAID_I64)
      if (braid_tensor_get_i64(value.tensor, 0) == 4)
        *(int64_t *)braid_tensor_data((braid_tensor *)(uintptr_t)value.tensor) = -4; /* the same square */
  }
  refuse("cpu", turned, data, bytes, "contents is [4] in the file, [-4] here");
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* A graph that has been resolved, and whose input has got a shape since, has the constants that it had before. */
static void test_a_graph_with_another_shape(void **state) {
  (void)state;
  void *data;
  size_t bytes;
  braid_graph *const graphs[] = {narrow_graph(0.1f, 6, 4), narrow_graph(0.3f, 6, 4), narrow_graph(0.1f, 5, 4),
                                 narrow_graph(0.2f, 6, 4)},
                     *fresh = graphs[3];
  for (int i = 0; i < 4; i++) {
    if (i < 3) OK(braid_resolve(graphs[i]));
    OK(braid_graph_set_input_shape(graphs[i], braid_graph_input(graphs[i], 0), 4, (int64_t[]){1, 1, 2, 8}));
  }
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graphs[0], NULL), *loaded;
  OK(braid_plan_encode(plan, graphs[0], NULL, &data, &bytes));
  OK(braid_plan_decode(machine, graphs[1], data, bytes, &loaded));
  braid_plan_release(loaded);
  OK(braid_plan_decode(machine, fresh, data, bytes, &loaded));
  braid_plan_release(loaded);
  refuse("cpu", graphs[2], data, bytes, "contents is");
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_graph_destroy(graphs[0]);
  braid_graph_destroy(graphs[1]);
  braid_graph_destroy(fresh);
  braid_machine_release(machine);
}

/* Rows that do not fit together are shown too. */
static void show_rows(const void *data, size_t bytes) {
  braid_arena *arena;
  braid_snapshot snapshot;
  OK(braid_arena_create(NULL, &arena));
  if (braid_snapshot_decode(data, bytes, arena, &snapshot) == BRAID_OK) {
    braid_text text;
    braid_text_init(&text, NULL);
    braid_snapshot_print_text(&snapshot, &text);
    braid_snapshot_print_json(&snapshot, &text);
    (void)braid_snapshot_compare(&snapshot, &snapshot, 0, BRAID_SNAPSHOT_TABLE_COUNT - 1, 1, "", "", &text);
    assert_false(text.failed);
    braid_text_deinit(&text);
  }
  braid_arena_destroy(arena);
}

/* Bytes of a file that is not what was saved; `whole`: with a digest that fits them. */
static void test_damaged(void **state) {
  (void)state;
  enum { kHeader = 40 };
  static float x[kImage];
  float y[kClasses];
  void *saved;
  size_t bytes;
  braid_graph *graph = conv_graph(1);
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_plan *plan = plan_of(machine, graph, NULL), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &saved, &bytes));
  size_t loads = 0;
  for (size_t at = 0; at < bytes; at += at < kHeader ? 1 : 7) {
    assert_int_not_equal(braid_plan_decode(machine, graph, saved, at, &loaded), BRAID_OK);
    for (int whole = 0; whole < 2; whole++) {
      uint8_t *copy = malloc(bytes);
      assert_non_null(copy);
      memcpy(copy, saved, bytes);
      copy[at] ^= (uint8_t)(1 + at % 255);
      if (whole) {
        braid_digest digest = braid_digest_of(copy + kHeader, bytes - kHeader);
        memcpy(copy + kHeader - sizeof digest, &digest, sizeof digest);
      }
      show_rows(copy, bytes);
      braid_status status = braid_plan_decode(machine, graph, copy, bytes, &loaded);
      bool allowed = status == BRAID_INVALID_FILE || status == BRAID_UNSUPPORTED || status == BRAID_NO_MEMORY ||
                     (whole && status == BRAID_OK);
      if (!allowed) fail_msg("byte %zu: %s: %s", at, braid_status_text(status), braid_error_detail());
      if (status == BRAID_OK) { /* a reason or a name; or something that kernels do not agree with */
        braid_execution *execution;
        loads++;
        if (braid_execution_create(loaded, NULL, &execution) == BRAID_OK)
          OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
        braid_execution_destroy(execution);
      }
      braid_plan_release(loaded);
      free(copy);
    }
  }
  assert_true(loads < bytes / 20);
  braid_free(NULL, saved);
  braid_plan_release(plan);
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
      cmocka_unit_test(test_differences_between_plans),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_constants_that_decide),
      cmocka_unit_test(test_a_graph_with_another_shape),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_out_of_memory),
  };
  if (braid_custom_op_register(&kHold) != BRAID_OK) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
