/* What the builder refuses, so that nothing is read as something else. */
#include "graph/graph.h"
#include "graph/known_attrs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void refused(braid_status status, braid_status expected, const char *sentence) {
  if (status != expected || !strstr(braid_error_detail(), sentence))
    fail_msg("%s: %s, expected %s: %s", braid_status_text(status), braid_error_detail(), braid_status_text(expected),
             sentence);
}

static void test_layouts(void **state) {
  (void)state;
  braid_graph *graph;
  braid_desc plain, last;
  braid_value_id x, id;
  braid_node_id node;
  braid_tensor *tensor;
  const char *kSentence = "is in layout BHWC, a graph's values are plain";
  ok(braid_graph_create(NULL, "layouts", &graph));
  ok(braid_desc_init(&plain, BRAID_F32, 4, (int64_t[]){1, 2, 2, 3}));
  last = plain;
  ok(braid_desc_set_layout(&last, BRAID_LAYOUT_BHWC));
  ok(braid_tensor_create(NULL, &last, &tensor));
  ok(braid_graph_add_input(graph, "x", &plain, &x));
  ok(braid_graph_add_node(graph, "Constant", NULL, NULL, 0, &id, 1, &node));
  size_t values = braid_graph_value_count(graph);
  refused(braid_graph_add_input(graph, "z", &last, &id), BRAID_INVALID_ARGUMENT, kSentence);
  assert_int_equal(id, -1);
  refused(braid_graph_add_tensor(graph, "k", BRAID_VALUE_CONSTANT, tensor, &id), BRAID_INVALID_ARGUMENT, kSentence);
  assert_int_equal(id, -1);
  refused(braid_graph_bind_input(graph, x, tensor), BRAID_INVALID_ARGUMENT, kSentence);
  refused(braid_graph_set_tensor(graph, node, "value", tensor), BRAID_INVALID_ARGUMENT, kSentence);
  assert_int_equal(braid_graph_value_count(graph), values);
  assert_int_equal(braid_graph_input_count(graph), 1);
  braid_tensor_release(tensor);
  braid_graph_destroy(graph);
}

static void test_attributes(void **state) {
  (void)state;
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y = 0;
  braid_node_id node;
  const int64_t kTwo[] = {2, 2};
  ok(braid_graph_create(NULL, "attributes", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 1, 8, 8}));
  ok(braid_graph_add_input(graph, "x", &desc, &x));
  ok(braid_graph_add_node(graph, "MaxPool", "pool", &x, 1, &y, 1, &node));
  ok(braid_graph_set_ints(graph, node, "kernel_shape", kTwo, 2));
  ok(braid_graph_set_string(graph, node, "__note", "a tool's"));
  refused(braid_graph_set_int(graph, node, "kernel_shape", 2), BRAID_INVALID_GRAPH,
          "node pool (MaxPool): attribute kernel_shape is an integer, expected integers");
  refused(braid_graph_set_ints(graph, node, "stride", kTwo, 2), BRAID_INVALID_GRAPH,
          "node pool (MaxPool): has no attribute stride (did you mean strides?); there are auto_pad ceil_mode ");
  refused(braid_graph_set_int(graph, node, "count_include_pad", 1), BRAID_INVALID_GRAPH, "(MaxPool): has no attribute");
  assert_int_equal(graph->nodes[node].attrs.count, 2);
  size_t count;
  assert_non_null(braid_attr_ints(braid_graph_node(graph, node).attrs, "kernel_shape", &count));
  braid_graph_destroy(graph);
}

/* What ops of our own have, and what a gradient has of its forward op. */
static void test_own_attributes(void **state) {
  (void)state;
  static const struct {
    const char *op, *attr;
    braid_attr_kind kind;
    const char *sentence; /* NULL: it has it */
  } kCases[] = {
      {"MatMul", "transB", BRAID_ATTR_INT, NULL},
      {"MatMul", "transB", BRAID_ATTR_FLOAT, "attribute transB is a number, expected an integer"},
      {"MatMul", "beta", BRAID_ATTR_FLOAT, "has no attribute beta; there are alpha transA transB"},
      {"SoftmaxCrossEntropyLoss", "label_smoothing", BRAID_ATTR_FLOAT, NULL},
      {"SoftmaxCrossEntropyLossGrad", "label_smoothing", BRAID_ATTR_FLOAT, NULL},
      {"SoftmaxCrossEntropyLossGrad", "ignore_index", BRAID_ATTR_INT, NULL},
      {"NegativeLogLikelihoodLoss", "label_smoothing", BRAID_ATTR_FLOAT, "there are ignore_index reduction"},
      {"FusedConv", "activation", BRAID_ATTR_STRING, NULL},
      {"FusedConv", "strides", BRAID_ATTR_INTS, NULL},
      {"FusedConv", "stride", BRAID_ATTR_INTS, "there are activation activation_params auto_pad"},
      {"ConvGradInput", "input_shape", BRAID_ATTR_FLOATS, "attribute input_shape is numbers, expected integers"},
      {"LeakyReluGrad", "alpha", BRAID_ATTR_FLOAT, NULL},
      {"ReluGrad", "alpha", BRAID_ATTR_FLOAT, "has no attribute alpha; there are none"},
      {"AdamUpdate", "beta", BRAID_ATTR_FLOAT, "has no attribute beta (did you mean beta1?); there are beta1 beta2"},
      {"SgdUpdate", "beta1", BRAID_ATTR_FLOAT, "there are momentum nesterov weight_decay"},
      {"ai.onnx.preview.training.Adam", "norm_coefficient_post", BRAID_ATTR_FLOAT, NULL},
  };
  const int64_t one = 1;
  const float number = 1;
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    const braid_node node = {.name = "n", .op = braid_op_find(kCases[i].op)};
    braid_attr attr = {.name = kCases[i].attr, .kind = kCases[i].kind};
    if (attr.kind == BRAID_ATTR_STRING) attr.s = "x";
    if (attr.kind == BRAID_ATTR_INTS || attr.kind == BRAID_ATTR_FLOATS) attr.count = 1;
    if (attr.kind == BRAID_ATTR_INTS) attr.ints = &one;
    if (attr.kind == BRAID_ATTR_FLOATS) attr.floats = &number;
    braid_status status = braid_node_check_attr(&node, &attr);
    if (kCases[i].sentence)
      refused(status, BRAID_INVALID_GRAPH, kCases[i].sentence);
    else
      ok(status);
  }
}

/* Attributes are looked for one after the other, so there is an end to them; one that is there is still set. */
static void test_many_attributes(void **state) {
  (void)state;
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  braid_node_id node;
  char name[16];
  ok(braid_graph_create(NULL, "many", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){2}));
  ok(braid_graph_add_input(graph, "x", &desc, &x));
  ok(braid_graph_add_node(graph, "Relu", "r", &x, 1, &x, 1, &node));
  for (int i = 0; i < BRAID_MAX_ATTRIBUTES; i++) {
    (void)snprintf(name, sizeof name, "__%d", i);
    ok(braid_graph_set_int(graph, node, name, i));
  }
  refused(braid_graph_set_int(graph, node, "__more", 1), BRAID_INVALID_ARGUMENT, "node r has 1000 attributes");
  ok(braid_graph_set_int(graph, node, name, 7));
  assert_int_equal(braid_attr_int(&graph->nodes[node].attrs, name, 0), 7);
  braid_graph_destroy(graph);
}

/* Something says of every op what it has, and every name has a kind: that of a wrong one would not be seen. */
static void test_attributes_of_all_ops(void **state) {
  (void)state;
  char names[512], *rest;
  for (size_t i = 0; i < braid_op_count(); i++) {
    const braid_op *op = braid_op_at(i);
    const braid_node node = {.name = "n", .op = op};
    if (!braid_op_attrs(op->name, names, sizeof names)) fail_msg("nothing says which attributes %s has", op->name);
    assert_true(strlen(names) < sizeof names - 1);
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
      size_t taken = 0;
      for (int kind = BRAID_ATTR_INT; kind <= BRAID_ATTR_TENSOR; kind++)
        taken += braid_node_check_attr(&node, &(braid_attr){.name = name, .kind = (braid_attr_kind)kind}) == BRAID_OK;
      if (taken != 1) fail_msg("%s: attribute %s is taken as %zu kinds", op->name, name, taken);
    }
  }
}

/* Of any op without shapes, and of those with an open batch. */
static void test_operations_before_shapes_are_known(void **state) {
  (void)state;
  static const braid_desc kDescs[] = {{.dtype = BRAID_F32, .rank = -1},
                                      {.dtype = BRAID_F32, .rank = 4, .dims = {-1, 6, 6, 6}}};
  for (size_t i = 0; i < 2 * braid_op_count(); i++) {
    const braid_op *op = braid_op_at(i / 2);
    int inputs = op->max_inputs < 0 || op->max_inputs > 16 ? 16 : op->max_inputs;
    int outputs = op->max_outputs < 0 || op->max_outputs > 16 ? 16 : op->max_outputs;
    braid_graph *graph;
    braid_value_id x, ids[16], results[16] = {0};
    braid_node_id node;
    if (!op->macs) continue;
    ok(braid_graph_create(NULL, "open", &graph));
    ok(braid_graph_add_input(graph, "x", &kDescs[i % 2], &x));
    for (int k = 0; k < 16; k++) ids[k] = x;
    ok(braid_graph_add_node(graph, op->name, "n", ids, (size_t)inputs, results, (size_t)outputs, &node));
    if (braid_graph_node_macs(graph, node) != 0)
      fail_msg("%s: %lld", op->name, (long long)braid_graph_node_macs(graph, node));
    braid_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts),
                                     cmocka_unit_test(test_attributes),
                                     cmocka_unit_test(test_own_attributes),
                                     cmocka_unit_test(test_many_attributes),
                                     cmocka_unit_test(test_attributes_of_all_ops),
                                     cmocka_unit_test(test_operations_before_shapes_are_known)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
