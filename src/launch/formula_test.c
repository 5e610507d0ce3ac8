/* Formulas: values, against C's own; failures, and what is said about them. */
#include "launch/formula.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static const braid_operand kInputs[] = {
    {.present = true, .desc = {.dtype = BRAID_F32, .rank = 4, .dims = {2, 3, 5, 7}}},
    {.present = true, .desc = {.dtype = BRAID_F32, .rank = 2, .dims = {11, 13}}},
    {.present = false},
};
static const braid_operand kOutput = {.present = true, .desc = {.dtype = BRAID_F32, .rank = 1, .dims = {17}}};

static braid_graph *graph;
static braid_node_desc node = {
    .op = "Test", .name = "test", .input_count = 3, .output_count = 1, .inputs = kInputs, .outputs = &kOutput};

/* The chain of that node, one that is not there, and another; formulas are also read where there are no nodes. */
static const braid_operand kLast = {.present = true, .desc = {.dtype = BRAID_F32, .rank = 2, .dims = {19, 23}}};
static const braid_node_desc kOther = {
    .op = "Other", .name = "other", .input_count = 1, .output_count = 1, .inputs = &kLast, .outputs = &kLast};
static const braid_node_desc *const kAlone[] = {&node}, *const kChain[] = {&node, NULL, &kOther, NULL};
static const char *const kNames[] = {"frac_w", "turn"};
static const int64_t kNumbers[] = {-3, 5};
static const braid_launch_scope kScope = {kAlone, 1, kNames, kNumbers, 2, NULL, NULL, NULL},
                                kChainScope = {kChain, 4, kNames, kNumbers, 2, NULL, NULL, NULL},
                                kRead = {NULL, 4, kNames, NULL, 2, NULL, NULL, NULL};

/* A node of a graph lends its attributes. */
static int set_up(void **state) {
  (void)state;
  braid_value_id x, y;
  braid_node_id id;
  braid_desc desc = kInputs[0].desc;
  if (braid_graph_create(NULL, "g", &graph) != BRAID_OK || braid_graph_add_input(graph, "x", &desc, &x) != BRAID_OK ||
      braid_graph_add_node(graph, "Conv", "n", (braid_value_id[]){x, x}, 2, &y, 1, &id) != BRAID_OK ||
      braid_graph_set_int(graph, id, "group", 4) != BRAID_OK ||
      braid_graph_set_ints(graph, id, "pads", (int64_t[]){1, -2, 3}, 3) != BRAID_OK)
    return -1;
  node.attrs = braid_graph_node(graph, id).attrs;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  braid_graph_destroy(graph);
  return 0;
}

static void test_values(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {
      {"12", 12},
      {" 1 + 2 * 3 ", 7},
      {"(1+2)*3", 9},
      {"-7/2", -3},
      {"-7 % 3", -1},
      {"7--7", 14},
      {"10-4-3", 3},
      {"100/5/2", 10},
      {"in0[0]*in0[1]*in0[2]*in0[3]", 210},
      {"in0[-1]", 7},
      {"in1[in0[0]-1]", 13},
      {"out0[0]", 17},
      {"rank(in0) + rank(out0)", 5},
      {"count(in1)", 143},
      {"present(in1) && !present(in2) && !present(in9)", 1},
      {"attr(group, 1)", 4},
      {"attr(missing, -5)", -5},
      {"attr(pads, 1, 9)", -2},
      {"min(3, max(1, 2))", 2},
      {"ceil_div(in0[3], 4) * 4 == round_up(7, 4)", 1},
      {"1 < 2", 1},
      {"2 <= 1", 0},
      {"1 != 1 || 3 >= 3", 1},
      {"0 && 1/0", 0},
      {"1 || in5[0]", 1},
      {"!0 == 1", 1},
      {"9223372036854775807", INT64_MAX},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t value;
    if (braid_launch_formula(cases[i].text, &kScope, &value) != BRAID_OK) fail_msg("%s", braid_error_detail());
    if (value != cases[i].value) fail_msg("%s is %lld", cases[i].text, (long long)value);
    if (braid_launch_formula(cases[i].text, &kRead, &value) != BRAID_OK) fail_msg("%s", braid_error_detail());
  }
}

static void test_chain(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {
      {"in0[1]", 3},
      {"out0[1]", 23}, /* of the last that is there */
      {"node0.out0[0]", 17},
      {"node2.in0[0] + count(node2.out0)", 19 + 19 * 23},
      {"attr(node0.group, 1) + attr(node2.group, 8)", 12},
      {"attr(node1.strides, 0, 1)", 1}, /* of a node that is not there */
      {"present(node0) + present(node1) * 10 + present(node2) * 100", 101},
      {"present(node1.in0)", 0},
      {"frac_w * turn", -15},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t value;
    if (braid_launch_formula(cases[i].text, &kChainScope, &value) != BRAID_OK) fail_msg("%s", braid_error_detail());
    if (value != cases[i].value) fail_msg("%s is %lld", cases[i].text, (long long)value);
    if (braid_launch_formula(cases[i].text, &kRead, &value) != BRAID_OK) fail_msg("%s", braid_error_detail());
  }
  int64_t value;
  assert_int_equal(braid_launch_formula("node1.in0[0]", &kChainScope, &value), BRAID_OUT_OF_RANGE);
}

static void test_failures(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
    bool readable;
  } cases[] = {
      {"", "a name", false},
      {"1 +", "a name", false},
      {"(1", "\")\"", false},
      {"1 2", "its end", false},
      {"in0", "the name of a number", false},
      {"node4.in0[0]", "node0 to node0", false},
      {"node0", "\".\"", false},
      {"node0.frac_w", "a dimension of an operand", false},
      {"rank(node0)", "\".\"", false},
      {"in0[1", "\"]\"", false},
      {"x0[1]", "an operand", false},
      {"rank(in10)", "an operand", false},
      {"size(in0)", "ceil_div", false},
      {"attr(group)", "\",\"", false},
      {"is(mode, linear)", "\",\"", false},
      {"is(mode, 1, linear)", "a name", false},
      {"attr(pads, 1)", "pads is no whole number", true},
      {"attr(group, 0, 1)", "group is no list", true},
      {"attr(pads, -1, 1)", "is >= 0", true},
      {"attr(pads, 3, 9)", "pads has 3 elements", true},
      {"is(group, a, b)", "group is no text", true},
      {"99999999999999999999", "64 bits", false},
      {"1 = 1", "its end", false},
      {"in0[4]", "no such dimension", true},
      {"in2[0]", "no such operand", true},
      {"1/0", "division by zero", true},
      {"1 % (in0[0] - 2)", "division by zero", true},
      {"9223372036854775807 + 1", "overflow", true},
      {"9223372036854775807 * 2", "overflow", true},
      {"ceil_div(1, 0)", "by one > 0", true},
      {"round_up(9223372036854775807, 2)", "overflow", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t value;
    braid_status expected = cases[i].readable ? BRAID_OUT_OF_RANGE : BRAID_INVALID_FILE;
    assert_int_equal(braid_launch_formula(cases[i].text, &kScope, &value), expected);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].text, braid_error_detail());
    assert_int_equal(braid_launch_formula(cases[i].text, &kRead, &value),
                     cases[i].readable ? BRAID_OK : BRAID_INVALID_FILE);
  }
  int64_t value;
  char deep[2001];
  memset(deep, '(', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  assert_int_equal(braid_launch_formula(deep, &kRead, &value), BRAID_INVALID_FILE);
  memset(deep, '!', sizeof deep - 1);
  assert_int_equal(braid_launch_formula(deep, &kRead, &value), BRAID_INVALID_FILE);
}

/* --- attributes ----------------------------------------------------------------------------------------------------
 * Whoever asks for a number must not take another kind of attribute for none. */
static void test_kinds(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value; /* -1: none */
  } cases[] = {
      {"attr(alpha, 1) == 1", -1},      {"attr(beta, 7)", 2},  {"is(mode, linear, nearest)", 1},
      {"is(mode, nearest, linear)", 0}, {"attr(mode, 3)", -1}, {"is(other, cubic, cubic)", 1},
      {"is(other, cubic, linear)", 0},
  };
  braid_attr items[] = {{.name = "alpha", .kind = BRAID_ATTR_FLOAT, .f = 0.5},
                        {.name = "beta", .kind = BRAID_ATTR_FLOAT, .f = 2},
                        {.name = "mode", .kind = BRAID_ATTR_STRING, .s = "linear"}};
  const braid_attrs attrs = {.items = items, .count = 3};
  const braid_node_desc desc = {.op = "Test", .attrs = &attrs};
  uint64_t asked[1] = {0};
  const braid_launch_scope scope = {.nodes = (const braid_node_desc *const[]){&desc}, .node_count = 1, .asked = asked};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t value = -1;
    braid_status status = braid_launch_formula(cases[i].text, &scope, &value);
    assert_int_equal(status, cases[i].value < 0 ? BRAID_OUT_OF_RANGE : BRAID_OK);
    if (status == BRAID_OK && value != cases[i].value) fail_msg("%s is %lld", cases[i].text, (long long)value);
  }
  assert_true(asked[0] == 7);
  asked[0] = 0;
  int64_t value;
  assert_int_equal(braid_launch_formula("0 && attr(beta, 1)", &scope, &value), BRAID_OK);
  assert_true(asked[0] == 2); /* an entry that would ask in another case knows of the attribute */
}

/* Pads as ONNX defines SAME_UPPER and SAME_LOWER: outputs ceil(input / stride), an odd pad at the end or the beginning.
 */
static void test_automatic_pads(void **state) {
  (void)state;
  static const struct {
    const char *op, *auto_pad;
    int64_t pads[4];
  } cases[] = {
      {"Conv", "SAME_UPPER", {0, 1, 1, 1}},    {"Conv", "SAME_LOWER", {1, 1, 0, 1}},
      {"Conv", "VALID", {0, 0, 0, 0}},         {"Conv", "NOTSET", {9, 8, 7, 6}},
      {"MaxPool", "SAME_UPPER", {0, 1, 1, 1}}, {"AveragePool", "SAME_LOWER", {1, 1, 0, 1}},
      {"LpPool", "SAME_UPPER", {0, 1, 1, 1}},
  };
  static const int64_t kTwo[] = {2, 2}, kThree[] = {3, 3}, kPads[] = {9, 8, 7, 6};
  static const braid_operand kImages[] = {
      {.present = true, .desc = {.dtype = BRAID_F32, .rank = 4, .dims = {1, 2, 6, 7}}},
      {.present = true, .desc = {.dtype = BRAID_F32, .rank = 4, .dims = {4, 2, 3, 3}}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool pools = strcmp(cases[i].op, "Conv") != 0;
    braid_attr items[] = {{.name = "strides", .kind = BRAID_ATTR_INTS, .count = 2, .ints = kTwo},
                          {.name = "auto_pad", .kind = BRAID_ATTR_STRING, .s = cases[i].auto_pad},
                          {.name = pools ? "kernel_shape" : "pads",
                           .kind = BRAID_ATTR_INTS,
                           .count = pools ? 2 : 4,
                           .ints = pools ? kThree : kPads}};
    const braid_attrs attrs = {.items = items, .count = 3};
    const braid_node_desc desc = {
        .op = cases[i].op, .attrs = &attrs, .inputs = kImages, .input_count = pools ? 1 : 2, .output_count = 0};
    const braid_launch_scope scope = {.nodes = (const braid_node_desc *const[]){&desc}, .node_count = 1};
    for (int k = 0; k < 5; k++) {
      char text[32];
      int64_t value;
      snprintf(text, sizeof text, "attr(pads, %d, -5)", k);
      assert_int_equal(braid_launch_formula(text, &scope, &value), k < 4 ? BRAID_OK : BRAID_OUT_OF_RANGE);
      if (k < 4) assert_int_equal(value, cases[i].pads[k]);
    }
    int64_t side;
    assert_int_equal(braid_launch_formula("attr(kernel_shape, 1, 5)", &scope, &side), BRAID_OK);
    assert_int_equal(side, 3); /* of the weights, where the node has none */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_chain),
                                     cmocka_unit_test(test_failures), cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_automatic_pads)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
