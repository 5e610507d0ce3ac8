/* A graph that a program builds and trains itself: its inputs and outputs have names, and what it has learnt is saved.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "braid/model.h"
#include "oom.h"
#include "runtime/surface/session.h"
#include "runtime/surface/session_fixture.h"

enum { kRows = 64, kSteps = 600 };
static const float kSlope[2] = {3, -2}, kOffset = 0.5f; /* what is to be learnt, without noise */

static braid_value_id add_value(braid_graph *graph, const char *name, int rank, const int64_t *dims, int kind) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  if (kind == BRAID_VALUE_INPUT) {
    OK(braid_graph_add_input(graph, name, &desc, &id));
    return id;
  }
  OK(braid_tensor_create(NULL, &desc, &tensor));
  memset(braid_tensor_data(tensor), 0, braid_desc_bytes(&desc));
  OK(braid_graph_add_tensor(graph, name, (braid_value_kind)kind, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

/* y = x w + b */
static braid_graph *line_graph(void) {
  braid_graph *graph;
  braid_value_id product = 0, y = 0;
  OK(braid_graph_create(NULL, "line", &graph));
  braid_value_id x = add_value(graph, "x", 2, (int64_t[]){kRows, 2}, BRAID_VALUE_INPUT);
  braid_value_id w = add_value(graph, "w", 2, (int64_t[]){2, 1}, BRAID_VALUE_PARAMETER);
  braid_value_id b = add_value(graph, "b", 1, (int64_t[]){1}, BRAID_VALUE_PARAMETER);
  OK(braid_graph_add_node(graph, "MatMul", "product", (braid_value_id[]){x, w}, 2, &product, 1, NULL));
  OK(braid_graph_add_node(graph, "Add", "line", (braid_value_id[]){product, b}, 2, &y, 1, NULL));
  OK(braid_graph_rename_value(graph, y, "y"));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

/* The same, then the mean squared distance to `truth`, its gradients, and steps against them. */
static braid_graph *training_graph(const braid_graph *forward) {
  braid_graph *graph;
  braid_value_id difference = 0, square = 0, loss = 0, gradients[2], wrt[2];
  OK(braid_graph_clone(forward, &graph));
  braid_value_id truth = add_value(graph, "truth", 2, (int64_t[]){kRows, 1}, BRAID_VALUE_INPUT);
  braid_value_id y = braid_graph_find_value(graph, "y");
  OK(braid_graph_add_node(graph, "Sub", "difference", (braid_value_id[]){y, truth}, 2, &difference, 1, NULL));
  OK(braid_graph_add_node(graph, "Mul", "square", (braid_value_id[]){difference, difference}, 2, &square, 1, NULL));
  braid_node_id mean;
  OK(braid_graph_add_node(graph, "ReduceMean", "mean", &square, 1, &loss, 1, &mean));
  OK(braid_graph_set_int(graph, mean, "keepdims", 0));
  OK(braid_graph_rename_value(graph, loss, "loss"));
  OK(braid_graph_add_output(graph, loss));
  OK(braid_resolve(graph));
  wrt[0] = braid_graph_find_value(graph, "w");
  wrt[1] = braid_graph_find_value(graph, "b");
  OK(braid_graph_gradients(graph, braid_graph_find_value(graph, "loss"), wrt, 2, gradients));
  braid_value_id rate = add_value(graph, "rate", 0, NULL, BRAID_VALUE_CONSTANT);
  *(float *)braid_tensor_data((braid_tensor *)braid_graph_value(graph, rate).tensor) = 0.2f;
  for (int i = 0; i < 2; i++) {
    braid_value_id step = 0, next = 0;
    OK(braid_graph_add_node(graph, "Mul", NULL, (braid_value_id[]){gradients[i], rate}, 2, &step, 1, NULL));
    OK(braid_graph_add_node(graph, "Sub", NULL, (braid_value_id[]){wrt[i], step}, 2, &next, 1, NULL));
    OK(braid_graph_update_state(graph, wrt[i], next));
  }
  return graph;
}

static float x[kRows][2], truth[kRows];

static int fill_rows(void **state) {
  (void)state;
  for (int i = 0; i < kRows; i++) {
    x[i][0] = (float)(i % 8) / 4 - 1;
    x[i][1] = (float)(i / 8) / 4 - 1;
    truth[i] = kSlope[0] * x[i][0] + kSlope[1] * x[i][1] + kOffset;
  }
  return 0;
}

static void check_line(const braid_graph *graph) {
  float y[kRows];
  braid_session *session;
  OK(braid_session_create(graph, NULL, &session));
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  braid_session_destroy(session);
  for (int i = 0; i < kRows; i++) assert_true(fabsf(y[i] - truth[i]) < 1e-4f);
}

static void test_trained_and_saved(void **state) {
  (void)state;
  char path[] = "/tmp/braid-own-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  braid_graph *forward = line_graph(), *training = training_graph(forward), *loaded;
  braid_session *session;
  float y[kRows], loss;
  OK(braid_session_create(training, &(braid_session_options){.training = true}, &session));
  for (int i = 0; i < kSteps; i++) OK(braid_session_run(session, (const void *[]){x, truth}, (void *[]){y, &loss}));
  assert_true(loss < 1e-9f);
  OK(braid_session_store(session, forward));
  check_line(forward);
  OK(braid_model_save_onnx(forward, path));
  OK(braid_model_load(NULL, path, NULL, &loaded));
  check_line(loaded);
  const float *w = braid_tensor_const_data(braid_graph_value(loaded, braid_graph_find_value(loaded, "w")).tensor);
  assert_true(fabsf(w[0] - kSlope[0]) < 1e-4f && fabsf(w[1] - kSlope[1]) < 1e-4f);

  braid_graph *other = new_graph(); /* nothing in common; then another shape: both stay as they are */
  assert_int_equal(braid_session_store(session, other), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "parameter or state of the session"));
  braid_value_id b = add_value(other, "b", 1, (int64_t[]){1}, BRAID_VALUE_PARAMETER);
  (void)add_value(other, "w", 1, (int64_t[]){2}, BRAID_VALUE_PARAMETER);
  assert_int_equal(braid_session_store(session, other), BRAID_INVALID_ARGUMENT);
  assert_true(*(const float *)braid_tensor_const_data(braid_graph_value(other, b).tensor) == 0);
  braid_graph_destroy(other);
  braid_session_destroy(session);
  braid_graph_destroy(loaded);
  braid_graph_destroy(training);
  braid_graph_destroy(forward);
  unlink(path);
}

/* Also where a value is computed by what became of several nodes, and where nodes are dropped. */
static void test_names(void **state) {
  (void)state;
  braid_graph *graph = line_graph();
  braid_value_id same = 0, relu = 0, y = braid_graph_find_value(graph, "y");
  OK(braid_graph_add_node(graph, "Identity", NULL, &y, 1, &same, 1, NULL));
  OK(braid_graph_rename_value(graph, same, "the same"));
  OK(braid_graph_add_node(graph, "Relu", NULL, &y, 1, &relu, 1, NULL));
  OK(braid_graph_rename_value(graph, relu, "cut off"));
  OK(braid_graph_add_output(graph, same));
  OK(braid_graph_add_output(graph, relu));
  OK(braid_graph_add_output(graph, braid_graph_find_value(graph, "x")));
  braid_session *session;
  OK(braid_session_create(graph, NULL, &session));
  assert_string_equal(braid_session_input_name(session, 0), "x");
  assert_null(braid_session_input_name(session, 1));
  static const char *const kOutputs[] = {"y", "the same", "cut off", "x"};
  assert_int_equal(braid_session_output_count(session), 4);
  for (size_t i = 0; i < 4; i++) assert_string_equal(braid_session_output_name(session, i), kOutputs[i]);
  assert_null(braid_session_output_name(session, 4));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_trained_and_saved), cmocka_unit_test(test_names)};
  return cmocka_run_group_tests(tests, fill_rows, NULL);
}
