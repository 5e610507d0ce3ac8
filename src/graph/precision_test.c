/* What becomes of a graph's values in 16 bits: types, casts, names, and what stays as it is. */
#include "graph/precision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static braid_value_id tensor_of(braid_graph *graph, const char *name, braid_value_kind kind, braid_dtype dtype,
                                int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) braid_tensor_set_f64(tensor, i, 0.5);
  ok(braid_graph_add_tensor(graph, name, kind, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id node(braid_graph *graph, const char *op, const braid_value_id *inputs, size_t count,
                           const char *name) {
  braid_value_id out = 0;
  ok(braid_graph_add_node(graph, op, NULL, inputs, count, &out, 1, NULL));
  if (name) ok(braid_graph_rename_value(graph, out, name));
  return out;
}

static braid_dtype type_of(const braid_graph *graph, const char *name) {
  braid_value_id id = braid_graph_find_value(graph, name);
  if (id < 0) fail_msg("no value %s", name);
  return graph->values[id].desc.dtype;
}

static size_t count_of(const braid_graph *graph, const char *op) {
  size_t count = 0;
  for (size_t i = 0; i < graph->node_count; i++) count += strcmp(graph->nodes[i].op->name, op) == 0;
  return count;
}

/* conv -> norm -> relu -> pool (an output) -> flat -> gemm -> softmax (an output); relu * relu -> mean (an output). */
static braid_graph *network(braid_value_kind weights) {
  braid_graph *graph;
  braid_value_id x;
  braid_desc image;
  ok(braid_graph_create(NULL, "net", &graph));
  ok(braid_desc_init(&image, BRAID_F32, 4, (int64_t[]){2, 3, 4, 4}));
  ok(braid_graph_add_input(graph, "x", &image, &x));
  int64_t four = 4;
  braid_value_id conv[] = {x, tensor_of(graph, "w", weights, BRAID_F32, 4, (int64_t[]){4, 3, 1, 1}),
                           tensor_of(graph, "b", weights, BRAID_F32, 1, &four)};
  braid_value_id y = node(graph, "Conv", conv, 3, "conv");
  braid_value_id norm[5] = {y};
  static const char *const kNorm[] = {"scale", "shift", "mean", "variance"};
  for (int i = 0; i < 4; i++) norm[1 + i] = tensor_of(graph, kNorm[i], BRAID_VALUE_CONSTANT, BRAID_F32, 1, &four);
  y = node(graph, "BatchNormalization", norm, 5, "norm");
  braid_value_id relu = node(graph, "Relu", &y, 1, "relu"), pool = node(graph, "GlobalAveragePool", &relu, 1, "pool");
  braid_value_id gemm[] = {node(graph, "Flatten", &pool, 1, "flat"),
                           tensor_of(graph, "full", weights, BRAID_F32, 2, (int64_t[]){4, 3})};
  y = node(graph, "Gemm", (braid_value_id[]){gemm[0], gemm[1], -1}, 2, "gemm");
  ok(braid_graph_add_output(graph, pool));
  ok(braid_graph_add_output(graph, node(graph, "Softmax", &y, 1, "softmax")));
  y = node(graph, "Mul", (braid_value_id[]){relu, relu}, 2, "square");
  ok(braid_graph_add_output(graph, node(graph, "ReduceMean", &y, 1, "mean_square")));
  return graph;
}

static void test_types(void **state) {
  (void)state;
  static const struct {
    braid_precision precision;
    braid_dtype dtype;
    const char *pool;
  } kHalves[] = {{BRAID_BFLOAT16, BRAID_BF16, "pool/bfloat16"}, {BRAID_FLOAT16, BRAID_F16, "pool/float16"}};
  for (size_t i = 0; i < 2; i++) {
    braid_graph *graph = network(BRAID_VALUE_PARAMETER);
    ok(braid_graph_set_precision(graph, kHalves[i].precision));
    assert_int_equal(braid_graph_precision(graph), kHalves[i].precision);
    ok(braid_graph_lower(graph));
    assert_int_equal(braid_graph_precision(graph), BRAID_FLOAT32);
    static const char *const kLow[] = {"conv", "norm", "relu", "flat", "gemm", "square"};
    static const char *const kWhole[] = {"x", "w", "b", "full", "scale", "mean", "softmax", "pool", "mean_square"};
    for (size_t k = 0; k < sizeof kLow / sizeof *kLow; k++) assert_int_equal(type_of(graph, kLow[k]), kHalves[i].dtype);
    for (size_t k = 0; k < sizeof kWhole / sizeof *kWhole; k++) assert_int_equal(type_of(graph, kWhole[k]), BRAID_F32);
    assert_int_equal(type_of(graph, kHalves[i].pool), kHalves[i].dtype);
    assert_string_equal(graph->values[graph->outputs[0]].name, "pool");
    /* of x, w, b and full; for the output, Softmax and the mean */
    assert_int_equal(count_of(graph, "Cast"), 7);
    ok(braid_graph_infer(graph, NULL));
    braid_graph_destroy(graph);
  }
}

/* Values of a model's own types stay, and nodes over them. */
static void test_own_types(void **state) {
  (void)state;
  braid_graph *graph;
  int64_t dims[] = {2, 2};
  ok(braid_graph_create(NULL, "own", &graph));
  braid_value_id half = tensor_of(graph, "half", BRAID_VALUE_STATE, BRAID_F16, 2, dims);
  braid_value_id wide = tensor_of(graph, "wide", BRAID_VALUE_STATE, BRAID_F64, 2, dims);
  ok(braid_graph_add_output(graph, node(graph, "MatMul", (braid_value_id[]){half, half}, 2, "halves")));
  ok(braid_graph_add_output(graph, node(graph, "MatMul", (braid_value_id[]){wide, wide}, 2, "wides")));
  ok(braid_graph_set_precision(graph, BRAID_BFLOAT16));
  ok(braid_graph_lower(graph));
  assert_int_equal(type_of(graph, "halves"), BRAID_F16);
  assert_int_equal(type_of(graph, "wides"), BRAID_F64);
  assert_int_equal(count_of(graph, "Cast"), 0);
  braid_graph_destroy(graph);
}

/* Beside what is float32 nothing is 16-bit, but constants are. */
static void test_mixed(void **state) {
  (void)state;
  braid_graph *graph = network(BRAID_VALUE_CONSTANT);
  braid_value_id relu = braid_graph_find_value(graph, "relu"), x;
  braid_desc desc;
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){2, 4, 4, 4}));
  ok(braid_graph_add_input(graph, "other", &desc, &x));
  braid_value_id sum = node(graph, "Add", (braid_value_id[]){relu, x}, 2, "sum");
  braid_value_id half = tensor_of(graph, "half", BRAID_VALUE_CONSTANT, BRAID_F32, 0, NULL);
  braid_value_id scaled = node(graph, "Mul", (braid_value_id[]){relu, half}, 2, "scaled");
  ok(braid_graph_add_output(graph, sum));
  ok(braid_graph_add_output(graph, node(graph, "Neg", &scaled, 1, NULL)));
  ok(braid_graph_set_precision(graph, BRAID_BFLOAT16));
  ok(braid_graph_lower(graph));
  assert_int_equal(type_of(graph, "sum"), BRAID_F32);
  assert_int_equal(type_of(graph, "scaled"), BRAID_BF16);
  braid_graph_destroy(graph);
}

/* Gradients are of the types of what they are by, sums of 16-bit products included. */
static void test_gradients(void **state) {
  (void)state;
  braid_graph *graph = network(BRAID_VALUE_PARAMETER);
  braid_value_id loss = braid_graph_find_value(graph, "mean_square"), by[2], found[2];
  by[0] = braid_graph_find_value(graph, "w"), by[1] = braid_graph_find_value(graph, "scale");
  ok(braid_graph_set_precision(graph, BRAID_FLOAT16));
  loss = node(graph, "ReduceSum", &loss, 1, "loss");
  ok(braid_graph_gradients(graph, loss, by, 1, found));
  assert_int_equal(graph->values[found[0]].desc.dtype, BRAID_F32);
  size_t filters = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (strcmp(graph->nodes[i].op->name, "ConvGradFilter") != 0) continue;
    filters++;
    assert_int_equal(graph->values[graph->nodes[i].outputs[0]].desc.dtype, BRAID_F16);
  }
  assert_int_equal(filters, 1);
  braid_graph_destroy(graph);
}

/* An output's name stays with it, be it given out twice or its 16-bit value's name be taken. */
static void test_names_of_outputs(void **state) {
  (void)state;
  braid_graph *graph = network(BRAID_VALUE_CONSTANT);
  ok(braid_graph_add_output(graph, graph->outputs[0]));
  tensor_of(graph, "square/bfloat16", BRAID_VALUE_CONSTANT, BRAID_F32, 0, NULL);
  ok(braid_graph_add_output(graph, braid_graph_find_value(graph, "square")));
  ok(braid_graph_set_precision(graph, BRAID_BFLOAT16));
  ok(braid_graph_lower(graph));
  static const char *const kNames[] = {"pool", "softmax", "mean_square", "pool", "square"};
  assert_int_equal(graph->output_count, sizeof kNames / sizeof *kNames);
  for (size_t i = 0; i < graph->output_count; i++) {
    assert_string_equal(graph->values[graph->outputs[i]].name, kNames[i]);
    assert_int_equal(type_of(graph, kNames[i]), BRAID_F32);
  }
  assert_int_equal(type_of(graph, "pool/bfloat16"), BRAID_BF16);
  assert_int_equal(type_of(graph, "square/bfloat16"), BRAID_F32);
  assert_int_equal(type_of(graph, "square/bfloat16~2"), BRAID_BF16);
  braid_graph_destroy(graph);
}

static void test_tf32(void **state) {
  (void)state;
  braid_graph *graph = network(BRAID_VALUE_PARAMETER);
  ok(braid_graph_set_precision(graph, BRAID_TF32));
  ok(braid_graph_lower(graph));
  assert_int_equal(braid_graph_precision(graph), BRAID_TF32);
  ok(braid_graph_apply_precision(graph));
  assert_int_equal(count_of(graph, "Cast"), 0);
  for (size_t i = 0; i < graph->node_count; i++) {
    const char *op = graph->nodes[i].op->name;
    bool product = strcmp(op, "Conv") == 0 || strcmp(op, "Gemm") == 0;
    assert_int_equal(braid_allows_tf32(&graph->nodes[i].attrs), product);
  }
  braid_graph_destroy(graph);
}

static void test_refused(void **state) {
  (void)state;
  braid_graph *graph = network(BRAID_VALUE_CONSTANT);
  assert_int_equal(braid_graph_set_precision(graph, BRAID_INT8), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "float32, tf32, bf16 and fp16"));
  assert_int_equal(braid_graph_set_precision(graph, (braid_precision)99), BRAID_INVALID_ARGUMENT);
  assert_string_equal(braid_precision_name((braid_precision)99), "unknown");
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),     cmocka_unit_test(test_own_types),        cmocka_unit_test(test_mixed),
      cmocka_unit_test(test_gradients), cmocka_unit_test(test_names_of_outputs), cmocka_unit_test(test_tf32),
      cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
