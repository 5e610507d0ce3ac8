/* Ops of com.microsoft: what becomes of them, and what is refused. What they compute is held against ONNX Runtime
 * (tests/data/conformance). */
#include <stdio.h>

#include "model/onnx/onnx_build.h"
#include "oom.h"

static const int64_t kShape[] = {2, 3};

static braid_graph *imported(onnx_build *build) {
  braid_graph *graph;
  if (build_import(build, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return graph;
}

static void refused(onnx_build *build, braid_status status, const char *words) {
  braid_graph *graph;
  braid_status got = build_import(build, &graph);
  if (got != status || !strstr(braid_error_detail(), words) || !strstr(braid_error_detail(), "built.onnx"))
    fail_msg("%s: \"%s\", expected %s with \"%s\"", braid_status_text(got), braid_error_detail(),
             braid_status_text(status), words);
  assert_null(graph);
}

static void begin(onnx_build *build, int opset) {
  build_begin(build, opset);
  build_input(build, "x", 2, kShape);
}

/* Those that quantizers write become ONNX's own. */
static void quantized_model(onnx_build *build, const char *inputs) {
  static const float scale = 0.5f;
  begin(build, 17);
  build->graph.initializer[build->graph.n_initializer++] = build_tensor(build, "s", 1, 1, &scale, sizeof scale);
  build->graph.initializer[build->graph.n_initializer++] =
      build_tensor(build, "z", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 1, "\3", 1);
  build_node(build, &build->graph, "QuantizeLinear", "x s z", "q")->domain = (char *)"com.microsoft";
  build_node(build, &build->graph, "QLinearAdd", inputs, "y")->domain = (char *)"com.microsoft";
  build_output(build, &build->graph, "y");
}

static void test_quantized_ops(void **state) {
  (void)state;
  static const char *const ops[] = {"QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "Add", "QuantizeLinear"};
  onnx_build build;
  quantized_model(&build, "q s z q s z s z");
  braid_graph *graph = imported(&build);
  assert_int_equal(braid_graph_node_count(graph), 5);
  for (int i = 0; i < 5; i++) assert_string_equal(braid_graph_node(graph, i).op, ops[i]);
  assert_string_equal(braid_graph_value(graph, braid_graph_output(graph, 0)).name, "y");
  braid_graph_destroy(graph);
  quantized_model(&build, "q s z q");
  refused(&build, BRAID_INVALID_FILE, "quantized input 3 with its scale");
  quantized_model(&build, "q s z q s z");
  refused(&build, BRAID_INVALID_FILE, "scale and zero point of its output");
}

/* What the optimizer writes, and is not carried in every form, is refused with its reason. */
static void test_optimized_ops(void **state) {
  (void)state;
  static const struct {
    const char *op, *inputs, *attr;
    int64_t value;
    braid_status status;
    const char *says;
  } cases[] = {
      {"Attention", "x", "num_heads", 1, BRAID_INVALID_FILE, "input 1 is missing"},
      {"Attention", "x x - - x", "num_heads", 1, BRAID_UNSUPPORTED, "input 4"},
      {"Attention", "x x", "do_rotary", 1, BRAID_UNSUPPORTED, "do_rotary"},
      {"MultiHeadAttention", "x x x - x x", "num_heads", 1, BRAID_UNSUPPORTED, "two masks"},
      {"MultiHeadAttention", "x x x", "num_heads", 1, BRAID_UNSUPPORTED, "a key of 2 dimensions"},
      {"FusedMatMul", "x x", "transBatchA", 1, BRAID_UNSUPPORTED, "transBatchA"},
      {"EmbedLayerNormalization", "x x x x - x", "mask_index_type", 0, BRAID_INVALID_FILE, "gamma are missing"},
      {"RotaryEmbedding", "x x x x", "is_packed_batching", 1, BRAID_UNSUPPORTED, "is_packed_batching"},
      {"MatMulNBits", "x x x", "K", 4, BRAID_INVALID_FILE, "K is 4, N 0"},
      {"SkipLayerNormalization", "x x", "__note", 1, BRAID_INVALID_FILE, "input 2 is missing"},
      {"DynamicQuantizeLSTM", "x x x", "hidden_size", 1, BRAID_INVALID_FILE, "the shape of their scales"},
      {"DynamicQuantizeMatMul", "x x", "__note", 1, BRAID_INVALID_FILE, "input 2 is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build build;
    begin(&build, 17);
    Onnx__NodeProto *node = build_node(&build, &build.graph, cases[i].op, cases[i].inputs, "y");
    node->domain = build_text(&build, "com.microsoft");
    build_int(&build, node, cases[i].attr, cases[i].value);
    build_output(&build, &build.graph, "y");
    refused(&build, cases[i].status, cases[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantized_ops), cmocka_unit_test(test_optimized_ops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
