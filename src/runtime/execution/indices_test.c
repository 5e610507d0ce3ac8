/* An index out of range, on every device: the run fails, whether the index is given, constant or folded, in inference
 * and in training, and the next run with good indices is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/session.h"
#include "graph/graph.h"
#include "skip.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

enum { kRows = 5, kColumns = 3, kCount = 2, kMost = 32 };

/* Where each index of an op may lie: data is [5, 3], on axis 0. */
typedef struct op_case {
  const char *op;
  int index_rank, update_rank; /* 0: no updates */
  int64_t index_dims[2], update_dims[2];
} op_case;

static const op_case kOps[] = {
    {"Gather", 1, 0, {kCount}, {0}},
    {"GatherElements", 2, 0, {kCount, kColumns}, {0}},
    {"GatherND", 2, 0, {kCount, 1}, {0}},
    {"ScatterElements", 2, 2, {kCount, kColumns}, {kCount, kColumns}},
    {"ScatterND", 2, 2, {kCount, 1}, {kCount, kColumns}},
    {"GatherGrad", 1, 0, {kCount}, {0}},
};
enum { kOpCount = sizeof kOps / sizeof *kOps };

typedef enum given_as { RUN_TIME, CONSTANT_INDEX, ALL_CONSTANT, GIVEN_AS_COUNT } given_as;

static braid_value_id operand(braid_graph *graph, const char *name, braid_dtype dtype, int rank, const int64_t *dims,
                              const void *data, bool constant) {
  braid_value_id id;
  braid_desc desc;
  braid_tensor *tensor;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  if (!constant) {
    ok(braid_graph_add_input(graph, name, &desc, &id));
    return id;
  }
  ok(braid_tensor_create(NULL, &desc, &tensor));
  memcpy(braid_tensor_data(tensor), data, braid_desc_bytes(&desc));
  ok(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

typedef struct numbers {
  float x[kMost], updates[kMost];
  int64_t indices[kMost];
} numbers;

static void fill_numbers(numbers *n, int64_t last_index) {
  for (int i = 0; i < kMost; i++) {
    n->x[i] = (float)(i + 1);
    n->updates[i] = (float)-i;
    n->indices[i] = 1;
  }
  for (int i = 0; i < kMost; i++)
    if (i == kCount - 1 || i == kCount * kColumns - 1) n->indices[i] = last_index;
}

static braid_graph *op_graph(const op_case *c, given_as as, const numbers *n) {
  braid_graph *graph;
  braid_value_id inputs[3], out = 0;
  braid_node_id node;
  bool gradient = strcmp(c->op, "GatherGrad") == 0;
  int64_t rows = gradient ? kCount : kRows;
  ok(braid_graph_create(NULL, "indices", &graph));
  inputs[0] = operand(graph, "x", BRAID_F32, 2, (int64_t[]){rows, kColumns}, n->x, as == ALL_CONSTANT);
  inputs[1] = operand(graph, "indices", BRAID_I64, c->index_rank, c->index_dims, n->indices, as != RUN_TIME);
  if (c->update_rank)
    inputs[2] = operand(graph, "updates", BRAID_F32, 2, c->update_dims, n->updates, as == ALL_CONSTANT);
  ok(braid_graph_add_node(graph, c->op, "picks", inputs, c->update_rank ? 3 : 2, &out, 1, &node));
  if (gradient) ok(braid_graph_set_ints(graph, node, "input_shape", (int64_t[]){kRows, kColumns}, 2));
  ok(braid_graph_add_output(graph, out));
  return graph;
}

static braid_status run_numbers(braid_session *session, const numbers *n, float *y) {
  const void *inputs[3];
  for (size_t i = 0; i < braid_session_input_count(session); i++) {
    const braid_desc *desc = braid_session_input(session, i);
    inputs[i] = desc->dtype == BRAID_I64 ? (const void *)n->indices : i == 0 ? (const void *)n->x : n->updates;
  }
  return braid_session_run(session, inputs, (void *[]){y});
}

static void expect_refused(braid_status status) {
  if (status != BRAID_OUT_OF_RANGE) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
  if (!strstr(braid_error_detail(), "picks")) fail_msg("no node in \"%s\"", braid_error_detail());
  if (!strstr(braid_error_detail(), "an index is out of range")) fail_msg("%s", braid_error_detail());
}

static void try_op(const char *devices, const op_case *c, given_as as, bool training, int64_t index) {
  numbers good, bad;
  fill_numbers(&good, -kRows);
  fill_numbers(&bad, index);
  braid_graph *graph = op_graph(c, as, &bad);
  braid_session_options options = {.devices = devices, .threads = 2, .training = training};
  braid_session *session;
  braid_status status = braid_session_create(graph, &options, &session);
  float y[kMost], expected[kMost];
  if (as == ALL_CONSTANT) {
    expect_refused(status);
  } else {
    ok(status);
    for (int turn = 0; turn < 2; turn++) {
      expect_refused(run_numbers(session, &bad, y));
      if (as != RUN_TIME) continue;
      memset(y, 0, sizeof y);
      memset(expected, 0, sizeof expected);
      ok(run_numbers(session, &good, y));
      braid_session *plain;
      ok(braid_session_create(graph, NULL, &plain));
      ok(run_numbers(plain, &good, expected));
      braid_session_destroy(plain);
      assert_memory_equal(y, expected, sizeof y);
    }
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

static void try_device(const char *devices) {
  static const int64_t kBad[] = {kRows, -kRows - 1, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
  for (size_t op = 0; op < kOpCount; op++)
    for (given_as as = 0; as < GIVEN_AS_COUNT; as++)
      for (int training = 0; training < 2; training++)
        for (size_t i = 0; i < sizeof kBad / sizeof *kBad; i++) try_op(devices, &kOps[op], as, training, kBad[i]);
}

static void test_cpu(void **state) {
  (void)state;
  try_device("cpu");
  try_device("cpu:memory=separate");
}

static void test_opencl(void **state) {
  (void)state;
  braid_registry *registry;
  braid_device *device;
  ok(braid_registry_create(NULL, &registry));
  braid_status status = braid_device_open(registry, "opencl0", &device);
  if (status == BRAID_OK) braid_device_close(device);
  braid_registry_destroy(registry);
  if (status != BRAID_OK) skip_test("opencl", "no OpenCL device");
  try_device("opencl0 cpu");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu), cmocka_unit_test(test_opencl)};
  return skip_run_group_tests(tests, NULL, NULL);
}
