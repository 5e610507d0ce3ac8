/* What ops over bytes ask of their operands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "graph/graph.h"

/* An operand: its type (NONE: left out) and shape. */
typedef struct operand {
  braid_dtype dtype;
  int rank;
  int64_t dims[4];
} operand;

enum { kMost = 14 };
#define NUMBER(dtype)                                                                                                  \
  {                                                                                                                    \
    dtype, 0, {                                                                                                        \
      0                                                                                                                \
    }                                                                                                                  \
  }
#define ABSENT                                                                                                         \
  {                                                                                                                    \
    BRAID_NONE, 0, {                                                                                                   \
      0                                                                                                                \
    }                                                                                                                  \
  }
#define IMAGE(dtype)                                                                                                   \
  {                                                                                                                    \
    dtype, 4, {                                                                                                        \
      2, 5, 7, 6                                                                                                       \
    }                                                                                                                  \
  }
#define SCALE NUMBER(BRAID_F32)

/* The status of shape inference; *detail is what it says. */
static braid_status infer(const char *op, const operand *operands, size_t count, const char *activation,
                          const char **detail) {
  braid_graph *graph;
  braid_value_id ids[kMost], out = 0;
  braid_node_id node;
  assert_int_equal(braid_graph_create(NULL, "test", &graph), BRAID_OK);
  for (size_t i = 0; i < count; i++) {
    braid_desc desc;
    ids[i] = -1;
    if (operands[i].dtype == BRAID_NONE) continue;
    assert_int_equal(braid_desc_init(&desc, operands[i].dtype, operands[i].rank, operands[i].dims), BRAID_OK);
    assert_int_equal(braid_graph_add_input(graph, NULL, &desc, &ids[i]), BRAID_OK);
  }
  assert_int_equal(braid_graph_add_node(graph, op, "n", ids, count, &out, 1, &node), BRAID_OK);
  if (activation) assert_int_equal(braid_graph_set_string(graph, node, "activation", activation), BRAID_OK);
  braid_status status = braid_graph_infer_node(graph, node);
  *detail = braid_error_detail();
  braid_graph_destroy(graph);
  return status;
}

static const operand kConv[kMost] = {IMAGE(BRAID_U8),
                                     SCALE,
                                     NUMBER(BRAID_U8),
                                     {BRAID_I8, 4, {4, 5, 1, 1}},
                                     SCALE,
                                     ABSENT,
                                     SCALE,
                                     NUMBER(BRAID_I8),
                                     ABSENT,
                                     {BRAID_U8, 4, {2, 4, 7, 6}},
                                     SCALE,
                                     ABSENT,
                                     SCALE,
                                     NUMBER(BRAID_U8)};

static void expect_refused(size_t input, operand other, const char *words) {
  operand operands[kMost];
  const char *detail;
  memcpy(operands, kConv, sizeof operands);
  operands[input] = other;
  assert_int_equal(infer("FusedQLinearConv", operands, kMost, NULL, &detail), BRAID_INVALID_GRAPH);
  if (!strstr(detail, words)) fail_msg("input %zu: \"%s\" does not say \"%s\"", input, detail, words);
}

static void test_residual(void **state) {
  (void)state;
  const char *detail;
  assert_int_equal(infer("FusedQLinearConv", kConv, kMost, NULL, &detail), BRAID_OK);
  assert_int_equal(infer("FusedQLinearConv", kConv, 9, NULL, &detail), BRAID_OK);
  expect_refused(9, (operand)IMAGE(BRAID_U8), "the result's shape");
  expect_refused(9, (operand){BRAID_F32, 4, {2, 4, 7, 6}}, "input 9 must be int8 or uint8");
  expect_refused(9, (operand)ABSENT, "input 10, and no residual");
  expect_refused(10, (operand)ABSENT, "input 10 must be one scale");
  expect_refused(10, (operand){BRAID_F32, 1, {4}}, "input 10 must be one scale");
  expect_refused(11, (operand)NUMBER(BRAID_I8), "of the type of input 9");
  expect_refused(12, (operand)ABSENT, "input 12 must be one scale");
  expect_refused(13, (operand)NUMBER(BRAID_I32), "input 13 must be one zero point");
  expect_refused(4, (operand)ABSENT, "scale of the filters is missing");
}

static void test_activations(void **state) {
  (void)state;
  const operand pair[7] = {IMAGE(BRAID_U8), SCALE, ABSENT, IMAGE(BRAID_I8), SCALE, ABSENT, SCALE};
  const operand product[7] = {{BRAID_U8, 2, {3, 4}}, SCALE, ABSENT, {BRAID_I8, 2, {4, 5}}, SCALE, ABSENT, SCALE};
  static const char *const kNames[] = {"Relu", "Clip", "Sigmoid"};
  for (size_t i = 0; i < 3; i++) {
    braid_status expected = i < 2 ? BRAID_OK : BRAID_INVALID_GRAPH;
    const char *detail;
    assert_int_equal(infer("FusedQLinearConv", kConv, kMost, kNames[i], &detail), expected);
    assert_int_equal(infer("FusedQLinearMatMul", product, 7, kNames[i], &detail), expected);
    assert_int_equal(infer("QLinearAdd", pair, 7, kNames[i], &detail), expected);
    assert_int_equal(infer("QLinearMul", pair, 7, kNames[i], &detail), expected);
  }
}

/* Operands without zero points have scales all the same. */
static void test_left_out(void **state) {
  (void)state;
  const operand one[4] = {IMAGE(BRAID_U8), SCALE, ABSENT, SCALE},
                parts[5] = {SCALE, ABSENT, IMAGE(BRAID_U8), SCALE, ABSENT};
  static const char *const kOnes[] = {"QLinearActivation", "QLinearGlobalAveragePool"};
  const char *detail;
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(infer(kOnes[i], one, 4, NULL, &detail), BRAID_OK);
    assert_int_equal(infer(kOnes[i], one, 3, NULL, &detail), BRAID_INVALID_GRAPH);
  }
  assert_int_equal(infer("QLinearConcat", parts, 5, NULL, &detail), BRAID_OK);
  assert_int_equal(infer("QLinearConcat", parts, 4, NULL, &detail), BRAID_INVALID_GRAPH);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_residual), cmocka_unit_test(test_activations),
                                     cmocka_unit_test(test_left_out)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
