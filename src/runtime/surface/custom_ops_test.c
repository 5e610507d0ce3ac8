/* Sets of custom ops: two in one process, with different ops of one name, beside one of that name for the process. */
#include "oom.h"

#include <malloc.h>
#include <string.h>
#include <time.h>

#include "braid/custom.h"
#include "braid/op.h"
#include "braid/session.h"
#include "graph/graph.h"
#include "model/model.h"
#include "model/onnx/onnx_build.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static braid_status infer_same(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                               braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

#define DEFINE_TIMES(factor)                                                                                           \
  static braid_status times_##factor(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,   \
                                     const braid_custom_array *outputs, size_t output_count) {                         \
    (void)attrs, (void)input_count, (void)output_count;                                                                \
    for (int64_t i = 0; i < braid_desc_count(inputs[0].desc); i++)                                                     \
      ((float *)outputs[0].data)[i] = factor * ((const float *)inputs[0].data)[i];                                     \
    return BRAID_OK;                                                                                                   \
  }                                                                                                                    \
  static const braid_custom_op kTimes##factor = {"test.sets.Times", 1, 1, 1, infer_same, times_##factor};
DEFINE_TIMES(2)
DEFINE_TIMES(3)
DEFINE_TIMES(5)

static braid_custom_ops *set_of(const braid_custom_op *op) {
  braid_custom_ops *ops;
  ok(braid_custom_ops_create(NULL, &ops));
  ok(braid_custom_ops_add(ops, op));
  return ops;
}

/* One op on an input, or, to be folded, on a constant. */
static braid_graph *times_graph(braid_custom_ops *ops, bool constant) {
  braid_graph *graph;
  braid_value_id x, y = 0;
  braid_desc desc;
  braid_tensor *tensor;
  ok(braid_graph_create(NULL, "times", &graph));
  if (ops) braid_graph_use_custom_ops(graph, ops);
  ok(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){3}));
  if (constant) {
    ok(braid_tensor_create(NULL, &desc, &tensor));
    for (int i = 0; i < 3; i++) ((float *)braid_tensor_data(tensor))[i] = (float)i + 1;
    ok(braid_graph_add_tensor(graph, "x", BRAID_VALUE_CONSTANT, tensor, &x));
    braid_tensor_release(tensor);
  } else {
    ok(braid_graph_add_input(graph, "x", &desc, &x));
  }
  ok(braid_graph_add_node(graph, "test.sets.Times", NULL, &x, 1, &y, 1, NULL));
  ok(braid_graph_add_output(graph, y));
  return graph;
}

static void expect_factor(const braid_graph *graph, braid_machine *machine, float factor) {
  braid_session *session;
  float x[3] = {1, 2, 3}, y[3] = {0};
  ok(braid_session_create(graph, &(braid_session_options){.machine = machine}, &session));
  ok(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  for (int i = 0; i < 3; i++) assert_true(y[i] == factor * x[i]);
  braid_session_destroy(session);
}

/* On a machine of each's own and on one that all share; the sets are let go of before anything runs. */
static void test_two_sets(void **state) {
  (void)state;
  for (int constant = 0; constant < 2; constant++)
    for (int shared = 0; shared < 2; shared++) {
      braid_machine *machine = NULL;
      if (shared) ok(braid_machine_create(NULL, NULL, &machine));
      braid_custom_ops *two = set_of(&kTimes2), *three = set_of(&kTimes3);
      braid_graph *graphs[3] = {times_graph(two, constant), times_graph(three, constant), times_graph(NULL, constant)};
      braid_custom_ops_release(two);
      braid_custom_ops_release(three);
      for (int turn = 0; turn < 2; turn++) {
        expect_factor(graphs[0], machine, 2);
        expect_factor(graphs[1], machine, 3);
        expect_factor(graphs[2], machine, 5);
      }
      braid_graph *clone;
      ok(braid_graph_clone(graphs[0], &clone));
      braid_graph_destroy(graphs[0]);
      expect_factor(clone, machine, 2);
      braid_graph_destroy(clone);
      for (int i = 1; i < 3; i++) braid_graph_destroy(graphs[i]);
      braid_machine_release(machine);
    }
}

/* A set says what it has, and nothing of what others have. */
static void test_names(void **state) {
  (void)state;
  static const braid_custom_op kOther = {"test.sets.Other", 1, 1, 1, infer_same, times_2};
  static const braid_custom_op kConv = {"Conv", 1, 1, 1, infer_same, times_2};
  braid_custom_ops *ops = set_of(&kOther);
  braid_graph *graph;
  braid_value_id x, y = 0;
  assert_int_equal(braid_custom_ops_add(ops, &kOther), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_custom_ops_add(ops, &kConv), BRAID_INVALID_ARGUMENT);
  ok(braid_graph_create(NULL, "names", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {3}}, &x));
  assert_int_equal(braid_graph_add_node(graph, "test.sets.Other", NULL, &x, 1, &y, 1, NULL), BRAID_NOT_FOUND);
  braid_graph_use_custom_ops(graph, ops);
  ok(braid_graph_add_node(graph, "test.sets.Other", NULL, &x, 1, &y, 1, NULL));
  assert_int_equal(braid_graph_add_node(graph, "test.sets.Times", NULL, &x, 1, &y, 1, NULL), BRAID_NOT_FOUND);
  braid_graph_use_custom_ops(graph, NULL);
  ok(braid_graph_add_node(graph, "test.sets.Times", NULL, &x, 1, &y, 1, NULL));
  braid_graph_destroy(graph);
  braid_custom_ops_release(ops);
}

/* Of a set: what was freed is unusable, and what is live is counted. */
static int live;

static void *poison_allocate(void *context, size_t bytes, size_t alignment) {
  const braid_allocator *heap = context;
  live++;
  return heap->allocate(heap->context, bytes, alignment);
}

static void poison_release(void *context, void *pointer) {
  const braid_allocator *heap = context;
  if (!pointer) return;
  live--;
  memset(pointer, 0x5a, malloc_usable_size(pointer));
  heap->release(heap->context, pointer);
}

/* Nodes keep the ops that they were added with when the graph uses another set, in clones too. */
static void test_several_sets(void **state) {
  (void)state;
  const braid_allocator poison = {(void *)braid_allocator_default(), poison_allocate, poison_release};
  braid_custom_ops *two, *three;
  ok(braid_custom_ops_create(&poison, &two));
  ok(braid_custom_ops_add(two, &kTimes2));
  ok(braid_custom_ops_create(&poison, &three));
  ok(braid_custom_ops_add(three, &kTimes3));
  braid_graph *graph = times_graph(two, false), *clone;
  braid_value_id x = braid_graph_output(graph, 0), y = 0;
  braid_graph_use_custom_ops(graph, three);
  ok(braid_graph_add_node(graph, "test.sets.Times", NULL, &x, 1, &y, 1, NULL));
  braid_graph_use_custom_ops(graph, NULL);
  x = y;
  ok(braid_graph_add_node(graph, "test.sets.Times", NULL, &x, 1, &y, 1, NULL));
  graph->outputs[0] = y;
  braid_custom_ops_release(two);
  braid_custom_ops_release(three);
  ok(braid_graph_clone(graph, &clone));
  expect_factor(graph, NULL, 2 * 3 * 5);
  braid_graph_destroy(graph);
  expect_factor(clone, NULL, 2 * 3 * 5);
  braid_graph_destroy(clone);
  assert_int_equal(live, 0);
}

/* A machine answers for the process's ops as it runs them. */
static void test_single(void **state) {
  (void)state;
  braid_machine *machine;
  braid_desc desc;
  braid_buffer *x, *y = NULL;
  ok(braid_machine_create(NULL, NULL, &machine));
  ok(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){3}));
  braid_operand input = {.present = true, .desc = desc};
  ok(braid_machine_supports(machine, &(braid_op_use){.op = "test.sets.Times", .inputs = &input, .input_count = 1}, NULL,
                            NULL, NULL));
  ok(braid_buffer_create(machine, NULL, &desc, &x));
  for (int i = 0; i < 3; i++) ((float *)braid_buffer_host(x))[i] = (float)i;
  ok(braid_machine_call(
      machine,
      &(braid_op_call){.op = "test.sets.Times", .inputs = &x, .input_count = 1, .outputs = &y, .output_count = 1}));
  for (int i = 0; i < 3; i++) assert_true(((float *)braid_buffer_host(y))[i] == 5 * (float)i);
  braid_buffer_release(x);
  braid_buffer_release(y);
  braid_machine_release(machine);
}

/* The importer finds ops in the set that it is given. */
static void test_models(void **state) {
  (void)state;
  braid_custom_ops *ops = set_of(&kTimes3);
  for (int own = 0; own < 2; own++) {
    onnx_build build;
    build_begin(&build, 17);
    build_input(&build, "x", 1, (int64_t[]){3});
    build_node(&build, &build.graph, "Times", "x", "y")->domain = build_text(&build, "test.sets");
    build_output(&build, &build.graph, "y");
    size_t bytes = onnx__model_proto__get_packed_size(&build.model);
    uint8_t *data = build_new(&build, bytes);
    onnx__model_proto__pack(&build.model, data);
    braid_graph *graph;
    ok(braid_model_parse(NULL, &(braid_model_memory){.data = data, .bytes = bytes, .custom_ops = own ? ops : NULL},
                         &graph));
    expect_factor(graph, NULL, own ? 3 : 5);
    braid_graph_destroy(graph);
    build_end(&build);
  }
  braid_custom_ops_release(ops);
}

static braid_status sleep_long(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                               const braid_custom_array *outputs, size_t output_count) {
  nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 200000000}, NULL);
  return times_2(attrs, inputs, input_count, outputs, output_count);
}

/* 2^31 nanoseconds are no limit of what a node's time is said to be. */
static void test_long_time(void **state) {
  (void)state;
  static const braid_custom_op kSleep = {"test.sets.Times", 1, 1, 1, infer_same, sleep_long};
  braid_custom_ops *ops = set_of(&kSleep);
  braid_graph *graph = times_graph(ops, false);
  braid_session *session;
  float x[3] = {1, 2, 3}, y[3];
  ok(braid_session_create(graph, NULL, &session));
  ok(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  assert_int_equal(braid_session_plan_count(session), 1);
  assert_true(braid_session_plan(session, 0).median_us >= 2.2e6);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_custom_ops_release(ops);
}

static braid_status make_set(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_custom_ops *ops;
  braid_status status = braid_custom_ops_create(allocator, &ops);
  if (status == BRAID_OK) status = braid_custom_ops_add(ops, &kTimes2);
  if (status == BRAID_OK) status = braid_custom_ops_add(ops, &(braid_custom_op){"a", 1, 1, 1, infer_same, times_3});
  braid_custom_ops_release(ops);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  oom_sweep(make_set, NULL);
}

int main(void) {
  if (braid_custom_op_register(&kTimes5) != BRAID_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_sets),     cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_models),       cmocka_unit_test(test_single),
                                     cmocka_unit_test(test_several_sets), cmocka_unit_test(test_long_time),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
