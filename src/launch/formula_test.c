/* Formulas: values, against C's own; failures, and what is said about them. */
#include "launch/formula.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
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
static const braid_launch_scope kScope = {kAlone, 1, kNames, kNumbers, 2},
                                kChainScope = {kChain, 4, kNames, kNumbers, 2}, kRead = {NULL, 4, kNames, NULL, 2};

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
      {"attr(pads, 3, 9)", 9},
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_chain),
                                     cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
