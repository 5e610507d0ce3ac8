/* What exporters note of the program that a file came from, as they write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "model/onnx/onnx_build.h"

static void add_property(onnx_build *build, Onnx__StringStringEntryProto ***entries, size_t *count, const char *key,
                         const char *value) {
  Onnx__StringStringEntryProto *entry = build_new(build, sizeof *entry);
  onnx__string_string_entry_proto__init(entry);
  entry->key = build_text(build, key);
  entry->value = build_text(build, value);
  *entries = build_new(build, sizeof **entries);
  (*entries)[0] = entry;
  *count = 1;
}

static const struct {
  const char *name, *key, *value; /* key NULL: nothing is noted */
  braid_origin origin;
} kInitializers[] = {
    {"weight", "pkg.torch.export.graph_signature.InputSpec.kind", "PARAMETER", BRAID_ORIGIN_PARAMETER},
    {"lifted", "pkg.torch.export.graph_signature.InputSpec.kind", "CONSTANT_TENSOR", BRAID_ORIGIN_BUFFER},
    {"inv_freq", "pkg.torch.export.graph_signature.InputSpec.kind", "BUFFER", BRAID_ORIGIN_BUFFER},
    {"val_1", "pkg.onnxscript.optimizer.folded_from", "['val_0', 'val_12']", BRAID_ORIGIN_LITERAL},
    {"val_2", "pkg.onnxscript.optimizer.folded_from", "['l1.weight', 'val_0']", BRAID_ORIGIN_UNKNOWN},
    {"val_3", "pkg.onnxscript.optimizer.folded_from", "['val_0', 'val_", BRAID_ORIGIN_UNKNOWN},
    {"gain", "pkg.torch.onnx.original_node_name", "p_gain", BRAID_ORIGIN_UNKNOWN},
    {"plain", NULL, NULL, BRAID_ORIGIN_UNKNOWN},
};
enum { kInitializerCount = sizeof kInitializers / sizeof *kInitializers };

static void expect_text(const char *of, const char *got, const char *expected) {
  if (!got != !expected || (got && strcmp(got, expected) != 0))
    fail_msg("%s: %s, expected %s", of, got ? got : "none", expected ? expected : "none");
}

/* With the signature of the program, of what is folded too. */
static const char kSignature[] = "\n# inputs\np_l1_weight: PARAMETER target='l1.weight'\n"
                                 "b_table: BUFFER target='table'\nx: USER_INPUT\n";
static const struct {
  const char *name, *sources;
  braid_origin origin;
} kFolded[] = {
    {"val_1", "['val_0', 'val_12']", BRAID_ORIGIN_LITERAL},
    {"val_2", "['l1.weight', 'val_0']", BRAID_ORIGIN_PARAMETER},
    {"val_3", "['val_0', 'l1.weight']", BRAID_ORIGIN_PARAMETER},
    {"slice_1", "['table', 'slice_0', 'val_0']", BRAID_ORIGIN_BUFFER},
    {"arange", "['l1', 'l1.weights', '1.weight']", BRAID_ORIGIN_BUFFER},
    {"cut", "['table', 'val_", BRAID_ORIGIN_UNKNOWN},
};
enum { kFoldedCount = sizeof kFolded / sizeof *kFolded };

static void test_folded(void **state) {
  (void)state;
  static const int64_t kShape[] = {1};
  onnx_build build;
  braid_graph *graph;
  build_begin(&build, 20);
  build_input(&build, "x", 1, kShape);
  add_property(&build, &build.graph.metadata_props, &build.graph.n_metadata_props,
               "pkg.torch.export.ExportedProgram.graph_signature", kSignature);
  build.graph.value_info = build_new(&build, kFoldedCount * sizeof(void *));
  for (size_t i = 0; i < kFoldedCount; i++) {
    float one = 1;
    char result[16], inputs[32];
    (void)snprintf(result, sizeof result, "y%zu", i);
    (void)snprintf(inputs, sizeof inputs, "x %s", kFolded[i].name);
    build.graph.initializer[build.graph.n_initializer++] =
        build_tensor(&build, kFolded[i].name, 1, 1, &one, sizeof one);
    build_node(&build, &build.graph, "Add", inputs, result);
    build_output(&build, &build.graph, result);
    Onnx__ValueInfoProto *info = build_value(&build, kFolded[i].name, 1, 1, kShape);
    add_property(&build, &info->metadata_props, &info->n_metadata_props, "pkg.onnxscript.optimizer.folded_from",
                 kFolded[i].sources);
    build.graph.value_info[build.graph.n_value_info++] = info;
  }
  if (build_import(&build, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  for (size_t i = 0; i < kFoldedCount; i++) {
    braid_origin origin = graph->values[braid_graph_find_value(graph, kFolded[i].name)].origin;
    if (origin != kFolded[i].origin)
      fail_msg("%s has origin %d, expected %d", kFolded[i].name, origin, kFolded[i].origin);
  }
  braid_graph_destroy(graph);
}

static void test_initializers(void **state) {
  (void)state;
  static const int64_t kShape[] = {1};
  onnx_build build;
  braid_graph *graph;
  build_begin(&build, 20);
  build_input(&build, "x", 1, kShape);
  build.graph.value_info = build_new(&build, kInitializerCount * sizeof(void *));
  for (size_t i = 0; i < kInitializerCount; i++) {
    float one = 1;
    char result[16];
    (void)snprintf(result, sizeof result, "y%zu", i);
    build.graph.initializer[build.graph.n_initializer++] =
        build_tensor(&build, kInitializers[i].name, 1, 1, &one, sizeof one);
    Onnx__NodeProto *node = build_node(&build, &build.graph, "Add", "x", result);
    node->input = build_new(&build, 2 * sizeof *node->input);
    node->input[0] = build_text(&build, "x");
    node->input[1] = build_text(&build, kInitializers[i].name);
    node->n_input = 2;
    build_output(&build, &build.graph, result);
    if (!kInitializers[i].key) continue;
    Onnx__ValueInfoProto *info = build_value(&build, kInitializers[i].name, 1, 1, kShape);
    add_property(&build, &info->metadata_props, &info->n_metadata_props, kInitializers[i].key, kInitializers[i].value);
    build.graph.value_info[build.graph.n_value_info++] = info;
  }
  if (build_import(&build, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  for (size_t i = 0; i < kInitializerCount; i++) {
    braid_value_id id = braid_graph_find_value(graph, kInitializers[i].name);
    if (graph->values[id].origin != kInitializers[i].origin)
      fail_msg("%s has origin %d, expected %d", kInitializers[i].name, graph->values[id].origin,
               kInitializers[i].origin);
    expect_text(kInitializers[i].name, graph->values[id].symbol,
                strcmp(kInitializers[i].name, "gain") ? NULL : "p_gain");
  }
  braid_graph_destroy(graph);
}

static void test_constant_node(void **state) {
  (void)state;
  onnx_build build;
  braid_graph *graph;
  build_begin(&build, 20);
  build_input(&build, "x", 1, (int64_t[]){1});
  build_float(&build, build_node(&build, &build.graph, "Constant", "", "c"), "value_float", 2);
  build_node(&build, &build.graph, "Add", "x c", "y");
  build_output(&build, &build.graph, "y");
  if (build_import(&build, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_int_equal(graph->values[graph->nodes[0].inputs[1]].origin, BRAID_ORIGIN_LITERAL);
  braid_graph_destroy(graph);
}

static void test_modules_and_calls(void **state) {
  (void)state;
  static const struct {
    const char *name, *noted, *module, *call;
  } kNodes[] = {
      {"node_batch_norm_1",
       "%batch_norm : [num_users=1] = call_function[target=torch.ops.aten.batch_norm.default](args = (%p_x, "
       "%p_bn1_weight, %p_bn1_bias, [%b_bn1_running_mean, %b_bn1_running_var], True, 0.1), kwargs = {})",
       NULL, " p_x p_bn1_weight p_bn1_bias b_bn1_running_mean b_bn1_running_var "},
      {"node_linear", "%linear : ...(args = (%gelu_1, %p_fc_weight), kwargs = {bias: %p_fc_bias})", NULL,
       " p_fc_weight p_fc_bias "},
      {"node_gelu", "%gelu : ...(args = (%linear,), kwargs = {})", NULL, NULL},
      {"/layer1/bn/BatchNormalization", NULL, "/layer1/bn", NULL},
      {"/layer1/bn_1/BatchNormalization", NULL, "/layer1/bn", NULL},
      {"/Add", NULL, "/", NULL},
      {"/1/Add", "torn %p_", "/1", " p_ "},
      {"plain", "%", NULL, NULL},
      {"", NULL, NULL, NULL},
  };
  onnx_build build;
  braid_graph *graph;
  build_begin(&build, 20);
  build_input(&build, "x", 1, (int64_t[]){1});
  enum { kCount = sizeof kNodes / sizeof *kNodes };
  for (size_t i = 0; i < kCount; i++) {
    char input[16], output[16];
    if (i)
      (void)snprintf(input, sizeof input, "y%zu", i - 1);
    else
      (void)snprintf(input, sizeof input, "x");
    (void)snprintf(output, sizeof output, "y%zu", i);
    Onnx__NodeProto *node = build_node(&build, &build.graph, "Relu", input, output);
    node->name = build_text(&build, kNodes[i].name);
    if (kNodes[i].noted)
      add_property(&build, &node->metadata_props, &node->n_metadata_props, "pkg.torch.onnx.fx_node", kNodes[i].noted);
    if (i + 1 == kCount) build_output(&build, &build.graph, output);
  }
  if (build_import(&build, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  for (size_t i = 0; i < kCount; i++) {
    expect_text(kNodes[i].name, graph->nodes[i].module, kNodes[i].module);
    expect_text(kNodes[i].name, graph->nodes[i].call, kNodes[i].call);
  }
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_initializers), cmocka_unit_test(test_folded),
                                     cmocka_unit_test(test_constant_node), cmocka_unit_test(test_modules_and_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
