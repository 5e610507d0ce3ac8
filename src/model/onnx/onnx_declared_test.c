/* Shapes that files declare: told where they contradict what their nodes give, once for a value, and else never. */
#include <stdio.h>

#include "model/onnx/onnx_build.h"
#include "oom.h"

static char said[4096];
static int times;

static void hear(void *context, braid_log_level level, const char *message) {
  (void)context;
  assert_int_equal(level, BRAID_LOG_WARNING);
  times++;
  strncat(said, message, sizeof said - strlen(said) - 2);
  strcat(said, "\n");
}

static void add_value(onnx_build *build, const char *name, size_t rank, const int64_t *dims) {
  if (!build->graph.value_info) build->graph.value_info = build_new(build, BUILD_MOST * sizeof(void *));
  build->graph.value_info[build->graph.n_value_info++] = build_value(build, name, 1, rank, dims);
}

static void add_output(onnx_build *build, const char *name, size_t rank, const int64_t *dims) {
  build->graph.output[build->graph.n_output++] = build_value(build, name, 1, rank, dims);
}

/* x (batch, 3) -> Relu -> a -> Transpose -> b -> Flatten -> y. */
static void chain(onnx_build *build, int64_t batch) {
  build_begin(build, 17);
  build_input(build, "x", 2, (int64_t[]){batch, 3});
  build_node(build, &build->graph, "Relu", "x", "a");
  build_node(build, &build->graph, "Transpose", "a", "b");
  build_node(build, &build->graph, "Flatten", "b", "y");
}

static void import(onnx_build *build, const char *expected, int count) {
  size_t bytes;
  uint8_t *data = build_pack(build, &bytes);
  braid_graph *graph;
  const braid_log log = {hear, NULL};
  const braid_model_memory memory = {.data = data, .bytes = bytes, .name = "built.onnx", .log = &log};
  build_end(build);
  times = 0;
  said[0] = '\0';
  if (braid_model_parse(NULL, &memory, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  if (times != count || !strstr(said, expected)) fail_msg("%d: \"%s\" is not in \"%s\"", times, expected, said);
  braid_graph_destroy(graph);
  free(data);
}

static void test_good(void **state) {
  (void)state;
  onnx_build build;
  chain(&build, 2);
  add_value(&build, "a", 2, (int64_t[]){2, 3});
  add_value(&build, "b", 2, (int64_t[]){-1, 2}); /* "n" may be anything */
  add_value(&build, "absent", 1, (int64_t[]){7});
  add_output(&build, "y", 2, (int64_t[]){3, 2});
  import(&build, "", 0);
  chain(&build, -1);
  add_value(&build, "a", 2, (int64_t[]){-1, 3});
  add_output(&build, "y", 2, (int64_t[]){3, -1});
  import(&build, "", 0);
  chain(&build, 2); /* declared without a shape, or not at all */
  build_output(&build, &build.graph, "y");
  import(&build, "", 0);
}

static void test_bad(void **state) {
  (void)state;
  onnx_build build;
  chain(&build, 2);
  add_value(&build, "b", 2, (int64_t[]){2, 3});
  add_value(&build, "b", 2, (int64_t[]){2, 3});
  add_output(&build, "y", 2, (int64_t[]){3, 2});
  import(&build, "built.onnx: value \"b\" is declared as [2,3], its node gives float32[3,2]\n", 1);
  chain(&build, 2);
  add_value(&build, "y", 1, (int64_t[]){6});
  add_output(&build, "y", 3, (int64_t[]){3, -1, 2});
  import(&build, "built.onnx: output \"y\" is declared as [3,n,2], its node gives float32[3,2]\n", 1);
  chain(&build, -1);
  add_value(&build, "a", 2, (int64_t[]){-1, 4});
  add_output(&build, "y", 2, (int64_t[]){3, -1});
  import(&build, "value \"a\" is declared as [n,4], its node gives float32[?,3]\n", 1);
  chain(&build, -1); /* of another rank, whatever the batch */
  add_value(&build, "a", 1, (int64_t[]){3});
  add_output(&build, "y", 2, (int64_t[]){3, -1});
  import(&build, "value \"a\" is declared as [3], its node gives float32[?,3]\n", 1);
}

/* At a batch of one Squeeze would take the batch away, and a slice would have one row. */
static void test_open_batch(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 17);
  build_input(&build, "x", 3, (int64_t[]){-1, 1, 3});
  build_node(&build, &build.graph, "Squeeze", "x", "s");
  build_node(&build, &build.graph, "Relu", "s", "y");
  add_value(&build, "s", 2, (int64_t[]){-1, 3});
  add_output(&build, "y", 2, (int64_t[]){-1, 3});
  import(&build, "", 0);
  static const int64_t kRows[][3] = {{0, 2, 2}, {4, 9, 5}, {-2, INT64_MAX, 2}};
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; i++)
    for (int wrong = 0; wrong < 2; wrong++) {
      build_begin(&build, 17);
      build_input(&build, "x", 2, (int64_t[]){-1, 3});
      for (int k = 0; k < 2; k++)
        build.graph.initializer[build.graph.n_initializer++] =
            build_tensor(&build, k ? "to" : "from", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, &kRows[i][k], 8);
      build_node(&build, &build.graph, "Slice", "x from to", "y");
      add_output(&build, "y", 2, (int64_t[]){kRows[i][2], 3 + wrong});
      import(&build, wrong ? "its node gives float32[?,3]\n" : "", wrong);
    }
}

static void test_many(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 17);
  build_input(&build, "x0", 1, (int64_t[]){5});
  for (int i = 0; i < 12; i++) {
    char from[8], to[8];
    snprintf(from, sizeof from, "x%d", i);
    snprintf(to, sizeof to, "x%d", i + 1);
    build_node(&build, &build.graph, "Relu", from, to);
    add_value(&build, to, 1, (int64_t[]){4});
  }
  build_output(&build, &build.graph, "x12");
  import(&build, "built.onnx: 4 more values are declared with other shapes than their nodes give\n", 9);
}

/* What cannot be inferred is not known, and no fault of the declarations. */
static void test_unknown(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 17);
  build_input(&build, "x", 2, (int64_t[]){2, -1});
  build_node(&build, &build.graph, "Relu", "x", "y");
  add_output(&build, "y", 3, (int64_t[]){1, 2, 3});
  import(&build, "", 0);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_graph *graph;
  said[0] = '\0';
  braid_status status = braid_model_parse(allocator, context, &graph);
  braid_graph_destroy(graph);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  const braid_log log = {hear, NULL};
  braid_model_memory memory = {.name = "built.onnx", .log = &log};
  onnx_build build;
  chain(&build, -1);
  add_value(&build, "b", 2, (int64_t[]){2, 3});
  build_output(&build, &build.graph, "y");
  uint8_t *data = build_pack(&build, &memory.bytes);
  build_end(&build);
  memory.data = data;
  assert_true(oom_sweep(attempt, &memory) > 10);
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_good),       cmocka_unit_test(test_bad),
                                     cmocka_unit_test(test_open_batch), cmocka_unit_test(test_many),
                                     cmocka_unit_test(test_unknown),    cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
