/* Models from memory: the same graph as from a file, with the same errors, and no file is opened. */
#include <stdio.h>

#include "braid/model.h"
#include "model/onnx/onnx_build.h"
#include "oom.h"

enum { COUNT = 5000 };

static Onnx__TensorProto *outside_tensor(onnx_build *build, const char *name, const char *location) {
  Onnx__TensorProto *w = build_tensor(build, name, 1, COUNT, NULL, COUNT * sizeof(float));
  Onnx__StringStringEntryProto *entry = build_new(build, sizeof *entry);
  onnx__string_string_entry_proto__init(entry);
  entry->key = build_text(build, "location");
  entry->value = build_text(build, location);
  w->has_data_location = true;
  w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  w->external_data = build_new(build, sizeof(void *));
  w->external_data[w->n_external_data++] = entry;
  return w;
}

/* y = x + w, the weights inside or, with a location, elsewhere. */
static uint8_t *make_model(const char *location, size_t *bytes) {
  static float data[COUNT];
  onnx_build build;
  for (int i = 0; i < COUNT; i++) data[i] = (float)i - 7;
  build_begin(&build, 17);
  build_input(&build, "x", 1, (int64_t[]){COUNT});
  Onnx__TensorProto *w =
      location ? outside_tensor(&build, "w", location) : build_tensor(&build, "w", 1, COUNT, data, sizeof data);
  build.graph.initializer[build.graph.n_initializer++] = w;
  build_node(&build, &build.graph, "Add", "x w", "y");
  build_output(&build, &build.graph, "y");
  uint8_t *packed = build_pack(&build, bytes);
  build_end(&build);
  return packed;
}

static void expect_weights(const braid_graph *graph) {
  const braid_tensor *w = braid_graph_value(graph, braid_graph_find_value(graph, "w")).tensor;
  assert_non_null(w);
  assert_int_equal(braid_tensor_desc(w)->dims[0], COUNT);
  for (int i = 0; i < COUNT; i++) assert_true(braid_tensor_get_f64(w, i) == i - 7);
}

static void test_the_memory_is_not_needed_afterwards(void **state) {
  (void)state;
  braid_graph *graph;
  size_t bytes;
  uint8_t *model = make_model(NULL, &bytes);
  assert_int_equal(braid_model_parse(NULL, &(braid_model_memory){.data = model, .bytes = bytes}, &graph), BRAID_OK);
  memset(model, 0xff, bytes);
  free(model);
  expect_weights(graph);
  braid_graph_destroy(graph);
}

static void test_what_is_cut(void **state) {
  (void)state;
  braid_graph *graph;
  size_t bytes;
  uint8_t *model = make_model(NULL, &bytes);
  for (size_t cut = 0; cut < bytes; cut += cut < 64 || cut > bytes - 64 ? 1 : 997) {
    uint8_t *part = malloc(cut + 1); /* its own block, so that a read behind the end is seen */
    assert_non_null(part);
    memcpy(part, model, cut);
    braid_model_memory memory = {.data = part, .bytes = cut, .name = "cut.onnx"};
    assert_int_equal(braid_model_parse(NULL, &memory, &graph), BRAID_INVALID_FILE);
    assert_null(graph);
    assert_non_null(strstr(braid_error_detail(), "cut.onnx"));
    free(part);
  }
  free(model);
}

/* --- external data -------------------------------------------------------------------------------------------------
 */
typedef struct beside {
  const char *expected;
  size_t bytes;
  int calls;
  braid_status status;
} beside;

static float outside[COUNT];

static braid_status give(void *context, const char *location, const void **data, size_t *bytes) {
  beside *own = context;
  assert_string_equal(location, own->expected);
  own->calls++;
  *data = outside;
  *bytes = own->bytes;
  return own->status;
}

static braid_status parse_external(const char *location, beside *own, braid_graph **out) {
  size_t bytes;
  uint8_t *model = make_model(location, &bytes);
  braid_model_memory memory = {.data = model, .bytes = bytes, .external = own ? give : NULL, .context = own};
  braid_status status = braid_model_parse(NULL, &memory, out);
  free(model);
  return status;
}

static void test_external_data_by_a_callback(void **state) {
  (void)state;
  braid_graph *graph;
  beside own = {"weights/data.bin", sizeof outside, 0, BRAID_OK};
  for (int i = 0; i < COUNT; i++) outside[i] = (float)i - 7;
  assert_int_equal(parse_external("./weights//x/../data.bin", &own, &graph), BRAID_OK);
  assert_int_equal(own.calls, 1);
  memset(outside, 0, sizeof outside);
  expect_weights(graph);
  braid_graph_destroy(graph);
}

/* One file under several names is asked for once. */
static void test_external_data_by_several_names(void **state) {
  (void)state;
  static const char *const kNames[] = {"a/b.bin", "./a/b.bin", "a//b.bin", "a/./b.bin", "a/x/../b.bin"};
  enum { kCount = sizeof kNames / sizeof *kNames };
  onnx_build build;
  build_begin(&build, 17);
  build_input(&build, "x", 1, (int64_t[]){COUNT});
  for (size_t i = 0; i < kCount; i++) {
    char name[2][8], inputs[32];
    for (size_t k = 0; k < 2; k++) (void)snprintf(name[k], sizeof name[k], "%c%zu", "yw"[k], i);
    build.graph.initializer[build.graph.n_initializer++] = outside_tensor(&build, name[1], kNames[i]);
    (void)snprintf(inputs, sizeof inputs, i ? "y%zu w%zu" : "x w0", i - 1, i);
    build_node(&build, &build.graph, "Add", inputs, name[0]);
    if (i + 1 == kCount) build_output(&build, &build.graph, name[0]);
  }
  size_t bytes;
  uint8_t *model = build_pack(&build, &bytes);
  build_end(&build);
  beside own = {"a/b.bin", sizeof outside, 0, BRAID_OK};
  braid_graph *graph;
  assert_int_equal(
      braid_model_parse(NULL, &(braid_model_memory){.data = model, .bytes = bytes, .external = give, .context = &own},
                        &graph),
      BRAID_OK);
  assert_int_equal(own.calls, 1);
  braid_graph_destroy(graph);
  free(model);
}

static void test_external_data_that_is_refused(void **state) {
  (void)state;
  braid_graph *graph;
  assert_int_equal(parse_external("data.bin", NULL, &graph), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "tensor \"w\": external data at \"data.bin\": a model in memory"));
  beside own = {"data.bin", sizeof outside, 0, BRAID_OK};
  assert_int_equal(parse_external("../data.bin", &own, &graph), BRAID_INVALID_FILE);
  assert_int_equal(parse_external("/etc/passwd", &own, &graph), BRAID_INVALID_FILE);
  static const char *const kFolders[] = {".", "./", "a/..", "a/b/../..", ""};
  for (size_t i = 0; i < sizeof kFolders / sizeof *kFolders; i++)
    assert_int_equal(parse_external(kFolders[i], &own, &graph), BRAID_INVALID_FILE);
  assert_int_equal(own.calls, 0);
  own.bytes--;
  assert_int_equal(parse_external("data.bin", &own, &graph), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "which has 19999"));
  own.status = BRAID_NOT_FOUND;
  assert_int_equal(parse_external("data.bin", &own, &graph), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "data.bin\": not found"));
}

/* --- Darknet -------------------------------------------------------------------------------------------------------
 */
static const char kNetwork[] = "[net]\nheight=4\nwidth=4\nchannels=1\n[connected]\noutput=2\nactivation=linear\n";

static braid_status parse_darknet(const void *weights, size_t weights_bytes, braid_graph **out) {
  return braid_model_parse(NULL,
                           &(braid_model_memory){.data = kNetwork,
                                                 .bytes = strlen(kNetwork),
                                                 .format = BRAID_MODEL_DARKNET,
                                                 .name = "net.cfg",
                                                 .weights = weights,
                                                 .weights_bytes = weights_bytes},
                           out);
}

static void test_darknet(void **state) {
  (void)state;
  enum { FLOATS = 2 + 2 * 16, HEADER = 5 };
  float file[HEADER + FLOATS];
  braid_graph *graph;
  memset(file, 0, sizeof file);
  memcpy(file, (int32_t[]){0, 2, 0}, 3 * sizeof(int32_t));
  for (int i = 0; i < FLOATS; i++) file[HEADER + i] = (float)i;
  assert_int_equal(parse_darknet(file, sizeof file, &graph), BRAID_OK);
  const braid_tensor *bias = braid_graph_value(graph, braid_graph_find_value(graph, "0_connected.bias")).tensor;
  assert_non_null(bias);
  assert_true(braid_tensor_get_f64(bias, 1) == 1);
  braid_graph_destroy(graph);
  assert_int_equal(parse_darknet(file, sizeof file - 1, &graph), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "net.cfg:5: [connected] weights ends at byte"));
  assert_int_equal(parse_darknet(NULL, 0, &graph), BRAID_OK); /* at random */
  braid_graph_destroy(graph);
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  braid_graph *graph;
  beside own = {"", 0, 0, BRAID_OK};
  const braid_model_memory kWrong[] = {
      {.bytes = 1},
      {.data = kNetwork, .bytes = 1, .format = (braid_model_format)7},
      {.data = kNetwork, .bytes = 1, .weights = kNetwork},
      {.data = kNetwork, .bytes = 1, .format = BRAID_MODEL_DARKNET, .external = give, .context = &own},
  };
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    assert_int_equal(braid_model_parse(NULL, &kWrong[i], &graph), BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), "model: "));
  }
  braid_model_memory huge = {.data = kNetwork, .bytes = 5u << 20, .format = BRAID_MODEL_DARKNET};
  assert_int_equal(braid_model_parse(NULL, &huge, &graph), BRAID_OUT_OF_RANGE);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_graph *graph;
  braid_status status = braid_model_parse(allocator, context, &graph);
  braid_graph_destroy(graph);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  size_t bytes;
  beside own = {"data", sizeof outside, 0, BRAID_OK};
  uint8_t *model = make_model("data", &bytes);
  braid_model_memory onnx = {.data = model, .bytes = bytes, .external = give, .context = &own};
  assert_true(oom_sweep(attempt, &onnx) > 10);
  braid_model_memory darknet = {.data = kNetwork, .bytes = strlen(kNetwork), .format = BRAID_MODEL_DARKNET};
  assert_true(oom_sweep(attempt, &darknet) > 10);
  free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_memory_is_not_needed_afterwards),
      cmocka_unit_test(test_what_is_cut),
      cmocka_unit_test(test_external_data_by_a_callback),
      cmocka_unit_test(test_external_data_by_several_names),
      cmocka_unit_test(test_external_data_that_is_refused),
      cmocka_unit_test(test_darknet),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
