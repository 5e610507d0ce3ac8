/* Rows of several requests in one run: models whose rows depend on each other never share one, and what one request
 * contains fails nobody else. */
#include <pthread.h>
#include <stdint.h>

#include "braid/model.h"
#include "braid/session.h"
#include "serve/serve_check.h"

enum { kColumns = 4, kRows = 8 };

static braid_tensor *make_numbers(braid_dtype dtype, int rank, int64_t count, const void *numbers, size_t bytes) {
  braid_desc desc;
  braid_tensor *tensor;
  int64_t dims[2] = {count, kColumns};
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  memcpy(braid_tensor_data(tensor), numbers, bytes);
  return tensor;
}

/* y = op(x), or op(table, x): saved as ONNX in the folder. */
static void save_model(const char *name, const char *op, braid_dtype dtype, int rank, braid_tensor *constant,
                       bool constant_first) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, values[2], y = 0;
  braid_node_id node;
  int64_t dims[2] = {1, kColumns};
  char path[128];
  assert_int_equal(braid_graph_create(NULL, name, &graph), BRAID_OK);
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  desc.dims[0] = -1;
  assert_int_equal(braid_graph_add_input(graph, "x", &desc, &x), BRAID_OK);
  values[0] = values[1] = x;
  if (constant) {
    assert_int_equal(braid_graph_add_tensor(graph, "c", BRAID_VALUE_CONSTANT, constant, &values[!constant_first]),
                     BRAID_OK);
    braid_tensor_release(constant);
  }
  assert_int_equal(braid_graph_add_node(graph, op, NULL, values, 2, &y, 1, &node), BRAID_OK);
  assert_int_equal(braid_graph_rename_value(graph, y, "y"), BRAID_OK);
  assert_int_equal(braid_graph_add_output(graph, y), BRAID_OK);
  snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
  if (braid_model_save_onnx(graph, path) != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_graph_destroy(graph);
}

typedef struct sender {
  const braid_server *server;
  const char *model;
  char body[512];
  serve_answer answer;
} sender;

static void *send_main(void *context) {
  sender *s = context;
  s->answer = serve_ask(s->server, "POST", s->model, "", s->body, strlen(s->body));
  return NULL;
}

/* Eight requests at once, so that they wait together. */
static void send_together(sender *senders) {
  pthread_t threads[kRows];
  for (int i = 0; i < kRows; i++) pthread_create(&threads[i], NULL, send_main, &senders[i]);
  for (int i = 0; i < kRows; i++) pthread_join(threads[i], NULL);
}

static braid_server *start(const char *name) {
  char config[512];
  snprintf(config, sizeof config,
           "models:\n  - {name: m, path: %s/%s.onnx, max_batch: 8, delay_ms: 50, batch_bits: any}\n", folder, name);
  return serve_start(config);
}

/* A sum along the rows: each result contains the rows before. */
static void test_rows_that_depend(void **state) {
  (void)state;
  static const int64_t kAxis = 0;
  save_model("cumulative", "CumSum", BRAID_F32, 2, make_numbers(BRAID_I64, 0, 1, &kAxis, sizeof kAxis), false);
  braid_server *server = start("cumulative");
  serve_expect(server, "GET", "/v2/models/m", "", "", 200, "results of a row depend on other rows");
  sender senders[kRows];
  for (int i = 0; i < kRows; i++) {
    senders[i] = (sender){.server = server, .model = "/v2/models/m/infer"};
    snprintf(senders[i].body, sizeof senders[i].body,
             "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,4],\"data\":[%d,0,0,7]}]}", i + 1);
  }
  send_together(senders);
  for (int i = 0; i < kRows; i++) {
    char expected[64];
    snprintf(expected, sizeof expected, "\"data\":[%d,0.0,0.0,7]", i + 1);
    if (!strstr(senders[i].answer.body, expected)) fail_msg("%s, not %s", senders[i].answer.body, expected);
    free(senders[i].answer.body);
  }
  /* Rows of one request belong together. */
  serve_expect(
      server, "POST", "/v2/models/m/infer", "",
      "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[3,4],\"data\":[1,2,3,4,1,2,3,4,1,2,3,4]}]}", 200,
      "\"data\":[1,2,3,4,2,4,6,8,3,6,9,12]");
  braid_server_destroy(server, 0);
}

/* A table of rows, looked up by index: one index of eight is beyond it. */
static void test_one_bad_row(void **state) {
  (void)state;
  float table[3][kColumns];
  for (int i = 0; i < 3 * kColumns; i++) table[i / kColumns][i % kColumns] = (float)i;
  save_model("lookup", "Gather", BRAID_I64, 1, make_numbers(BRAID_F32, 2, 3, table, sizeof table), true);
  braid_server *server = start("lookup");
  serve_expect(server, "GET", "/v2/models/m", "", "", 200, "requests share runs of up to 8 rows");
  sender senders[kRows];
  for (int i = 0; i < kRows; i++) {
    senders[i] = (sender){.server = server, .model = "/v2/models/m/infer"};
    snprintf(senders[i].body, sizeof senders[i].body,
             "{\"parameters\":{\"explain\":true},\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT64\",\"shape\":[1],"
             "\"data\":[%d]}]}",
             i == 3 ? 99 : i % 3);
  }
  send_together(senders);
  for (int i = 0; i < kRows; i++) {
    assert_int_equal(senders[i].answer.status, i == 3 ? 400 : 200);
    char expected[64];
    int first = i % 3 * kColumns;
    snprintf(expected, sizeof expected, "%d,%d,%d]", first + 1, first + 2, first + 3);
    if (i != 3 && !strstr(senders[i].answer.body, expected)) fail_msg("%s, not %s", senders[i].answer.body, expected);
    free(senders[i].answer.body);
  }
  braid_server_destroy(server, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_that_depend), cmocka_unit_test(test_one_bad_row)};
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
