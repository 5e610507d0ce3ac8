/* Graphs that are resolved and then get other shapes: what resolving folded follows from the new ones. */
#include "oom.h"

#include <string.h>

#include "braid/model.h"
#include "graph/graph.h"
#include "runtime/plan/resolve.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static braid_value_id node(braid_graph *graph, const char *op, const braid_value_id *inputs, size_t count) {
  braid_value_id out = 0;
  ok(braid_graph_add_node(graph, op, NULL, inputs, count, &out, 1, NULL));
  return out;
}

/* y = x w as [2, -1] times the batch: both the Reshape's target and the factor are folded from x's shape. */
static braid_graph *model(const braid_allocator *allocator, int64_t batch) {
  braid_graph *graph;
  braid_value_id x, shape, target[2], one, w, joined = 0;
  braid_tensor *tensor;
  braid_node_id concat;
  ok(braid_graph_create(allocator, "folded", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {batch, 4}}, &x));
  ok(braid_tensor_create(NULL, &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {4, 2}}, &tensor));
  for (int i = 0; i < 8; i++) ((float *)braid_tensor_data(tensor))[i] = (float)(i + 1);
  ok(braid_graph_add_tensor(graph, "w", BRAID_VALUE_CONSTANT, tensor, &w));
  braid_tensor_release(tensor);
  ok(braid_graph_add_int64s(graph, (int64_t[]){0}, 1, &one));
  shape = node(graph, "Shape", &x, 1);
  target[1] = node(graph, "Gather", (braid_value_id[]){shape, one}, 2);
  ok(braid_graph_add_int64s(graph, (int64_t[]){-1}, 1, &target[0]));
  ok(braid_graph_add_node(graph, "Concat", NULL, target, 2, &joined, 1, &concat));
  ok(braid_graph_set_int(graph, concat, "axis", 0));
  braid_value_id y = node(graph, "MatMul", (braid_value_id[]){x, w}, 2);
  y = node(graph, "Reshape", (braid_value_id[]){y, joined}, 2);
  braid_value_id factor = node(graph, "CastLike", (braid_value_id[]){target[1], y}, 2);
  ok(braid_graph_add_output(graph, node(graph, "Mul", (braid_value_id[]){y, factor}, 2)));
  return graph;
}

static braid_status reshape(braid_graph *graph, int64_t batch) {
  return braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 2, (int64_t[]){batch, 4});
}

static void expect_batch(const braid_graph *graph, int64_t batch) {
  braid_session *session;
  float x[64], y[32];
  for (int i = 0; i < 64; i++) x[i] = (float)(i % 7);
  ok(braid_session_create(graph, NULL, &session));
  const braid_desc *desc = braid_session_output(session, 0);
  assert_int_equal(desc->rank, 2);
  assert_int_equal(desc->dims[0], 2);
  assert_int_equal(desc->dims[1], batch);
  ok(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  for (int64_t i = 0; i < 2 * batch; i++) {
    float sum = 0;
    for (int k = 0; k < 4; k++) sum += x[i / 2 * 4 + k] * (float)(2 * k + i % 2 + 1);
    assert_true(y[i] == sum * (float)batch);
  }
  braid_session_destroy(session);
}

/* In a graph of one's own, in clones, at a fixed batch and at one that was left open. */
static void test_another_batch(void **state) {
  (void)state;
  for (int64_t first = -1; first <= 3; first += 4) {
    braid_graph *graph = model(NULL, first), *clone;
    ok(braid_resolve(graph));
    expect_batch(graph, first < 0 ? 1 : first);
    for (int64_t batch = 1; batch <= 8; batch++) {
      ok(reshape(graph, batch));
      expect_batch(graph, batch);
      ok(braid_graph_clone(graph, &clone));
      if (batch % 2) ok(braid_resolve(graph));
      if (batch % 3) ok(braid_resolve(clone));
      expect_batch(clone, batch);
      braid_graph_destroy(clone);
    }
    braid_graph_destroy(graph);
  }
}

/* A graph that was changed after it was resolved keeps its shapes; one that has other shapes is not changed. */
static void test_changed(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    braid_graph *graph = model(NULL, 2);
    ok(braid_resolve(graph));
    braid_value_id y = braid_graph_output(graph, 0), sum = 0, grads[1];
    if (i == 0) (void)node(graph, "Relu", &y, 1);
    if (i == 1) ok(braid_graph_rename_value(graph, y, "y"));
    if (i == 2) ok(braid_graph_set_int(graph, 0, "transA", 0));
    if (i == 3) {
      ok(braid_graph_add_node(graph, "ReduceSum", NULL, &y, 1, &sum, 1, NULL));
      ok(braid_graph_gradients(graph, sum, (braid_value_id[]){braid_graph_input(graph, 0)}, 1, grads));
    }
    assert_int_equal(reshape(graph, 3), BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), "input x was float32[2,4] when the graph was resolved"));
    ok(reshape(graph, 2));
    if (i < 2) expect_batch(graph, 2);
    braid_graph_destroy(graph);
    graph = model(NULL, 2);
    ok(braid_resolve(graph));
    ok(reshape(graph, 3));
    y = braid_graph_output(graph, 0);
    assert_int_equal(braid_graph_add_node(graph, "Relu", NULL, &y, 1, &sum, 1, NULL), BRAID_INVALID_ARGUMENT);
    assert_int_equal(braid_graph_add_output(graph, y), BRAID_INVALID_ARGUMENT);
    assert_int_equal(braid_model_save_onnx(graph, "/nowhere/model.onnx"), BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), "resolve it again"));
    expect_batch(graph, 3);
    ok(braid_resolve(graph));
    y = braid_graph_output(graph, 0);
    (void)node(graph, "Relu", &y, 1);
    braid_graph_destroy(graph);
  }
}

/* A change that is refused is none: the graph takes other shapes. */
static void test_refused_changes(void **state) {
  (void)state;
  braid_graph *graph = model(NULL, 2);
  ok(braid_resolve(graph));
  braid_value_id y = braid_graph_output(graph, 0), w = braid_graph_find_value(graph, "w"), other, grad;
  assert_int_equal(braid_graph_add_output(graph, 12345), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_graph_rename_value(graph, y, "x"), BRAID_INVALID_GRAPH);
  assert_int_equal(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32}, &other), BRAID_INVALID_GRAPH);
  assert_int_equal(braid_graph_update_state(graph, w, y), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_graph_gradients(graph, 12345, &y, 1, &grad), BRAID_INVALID_ARGUMENT);
  ok(reshape(graph, 3));
  expect_batch(graph, 3);
  braid_graph_destroy(graph);
}

/* Training sets the batch of a graph that somebody has resolved. */
static void test_made_trainable(void **state) {
  (void)state;
  braid_graph *graph = model(NULL, -1);
  ok(braid_resolve(graph));
  ok(reshape(graph, 5));
  ok(braid_graph_make_trainable(graph));
  expect_batch(graph, 5);
  braid_graph_destroy(graph);
}

/* y = If(size(x) = 35, -x, |x|), and x times a [4, 3] matrix, which x fits unless it has 7 columns. */
static braid_graph *choosing_model(int64_t rows, int64_t columns) {
  braid_graph *graph;
  braid_value_id x, many, w;
  braid_tensor *tensor;
  ok(braid_graph_create(NULL, "choosing", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {rows, columns}}, &x));
  ok(braid_graph_add_int64s(graph, (int64_t[]){35}, 1, &many));
  ok(braid_tensor_create(NULL, &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {4, 3}}, &tensor));
  ok(braid_graph_add_tensor(graph, "w", BRAID_VALUE_CONSTANT, tensor, &w));
  braid_tensor_release(tensor);
  braid_value_id is = node(graph, "Equal", (braid_value_id[]){node(graph, "Size", &x, 1), many}, 2);
  braid_value_id neg = node(graph, "Neg", &x, 1), abs = node(graph, "Abs", &x, 1);
  ok(braid_graph_add_output(graph, node(graph, "If", (braid_value_id[]){is, neg, abs}, 3)));
  ok(braid_graph_add_output(graph, node(graph, "MatMul", (braid_value_id[]){x, w}, 2)));
  return graph;
}

/* The first time and later, resolving that fails leaves nothing behind: no branch, no batch. */
static void test_failed(void **state) {
  (void)state;
  for (int resolved = 0; resolved < 2; resolved++) {
    braid_graph *graph = choosing_model(resolved ? 2 : 5, resolved ? 4 : 7);
    braid_session *session;
    float x[12] = {7}, y[12], product[9];
    if (resolved) {
      ok(braid_resolve(graph));
      ok(braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 2, (int64_t[]){5, 7}));
    }
    assert_int_equal(braid_resolve(graph), BRAID_INVALID_GRAPH);
    assert_int_equal(braid_graph_node_count(graph), 6);
    ok(braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 2, (int64_t[]){3, 4}));
    ok(braid_resolve(graph));
    ok(braid_session_create(graph, NULL, &session));
    ok(braid_session_run(session, (const void *[]){x}, (void *[]){y, product}));
    assert_true(y[0] == 7);
    braid_session_destroy(session);
    braid_graph_destroy(graph);
  }
  braid_graph *graph = choosing_model(-1, 7);
  assert_int_equal(braid_resolve(graph), BRAID_INVALID_GRAPH);
  assert_int_equal(braid_graph_value(graph, braid_graph_input(graph, 0)).desc.dims[0], -1);
  braid_graph_destroy(graph);
}

static braid_status resolve_twice(const braid_allocator *allocator, void *context) {
  const braid_graph *graph = context;
  braid_graph *copy;
  ((braid_graph *)graph)->allocator = allocator;
  braid_status status = braid_graph_clone(graph, &copy);
  if (status != BRAID_OK) return status;
  status = braid_resolve(copy);
  if (status == BRAID_OK) status = reshape(copy, 4);
  if (status == BRAID_OK) status = braid_resolve(copy);
  braid_graph_destroy(copy);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_graph *graph = model(NULL, -1);
  const braid_allocator *own = graph->allocator;
  oom_sweep(resolve_twice, graph);
  graph->allocator = own;
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_another_batch),   cmocka_unit_test(test_changed),
                                     cmocka_unit_test(test_made_trainable),  cmocka_unit_test(test_failed),
                                     cmocka_unit_test(test_refused_changes), cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
