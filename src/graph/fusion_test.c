/* Which sets of nodes are found: the ways in which exporters write Gelu, products with biases, and what merely looks
 * like them. That a fused node computes what its nodes do is for the tests of kernels and of plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "graph/fusion.h"

#define OK(expression) assert_int_equal(expression, BRAID_OK)

static braid_value_id number(braid_graph *graph, double value, int rank) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, (int64_t[]){1, 1, 1, 1}));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  braid_tensor_set_f64(tensor, 0, value);
  OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id input_of(braid_graph *graph, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_value_id id;
  OK(braid_desc_init(&desc, dtype, rank, dims));
  OK(braid_graph_add_input(graph, NULL, &desc, &id));
  return id;
}

static braid_value_id input(braid_graph *graph, int rank, const int64_t *dims) {
  return input_of(graph, BRAID_F32, rank, dims);
}

static braid_value_id add(braid_graph *graph, const char *op, braid_value_id a, braid_value_id b) {
  braid_value_id y = 0;
  OK(braid_graph_add_node(graph, op, NULL, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, &y, 1, NULL));
  return y;
}

/* "Op:nodes Op:nodes" of the sets of a graph that ends in `y`. */
static const char *sets_of(braid_graph *graph, braid_value_id y) {
  static char text[256];
  size_t used = 0;
  braid_arena *arena;
  braid_fusion_list list;
  text[0] = '\0';
  OK(braid_graph_add_output(graph, y));
  OK(braid_graph_infer(graph, NULL));
  OK(braid_arena_create(NULL, &arena));
  OK(braid_graph_find_fusions(graph, arena, &list));
  for (size_t i = 0; i < list.count; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%zu", i ? " " : "", list.items[i].op,
                             list.items[i].node_count);
  braid_free(NULL, list.items);
  braid_arena_destroy(arena);
  braid_graph_destroy(graph);
  return text;
}

/* What is changed in a Gelu. */
typedef struct writing {
  double root, half, one;
  bool multiplies, one_first, half_first, half_apart, twice; /* x times a number; orders; Erf has another reader */
  int rank;                                                  /* of the numbers */
} writing;

static const writing kUsual = {.root = 1.41421353816986083984375, .half = 0.5, .one = 1};

static braid_value_id gelu(braid_graph *graph, braid_value_id x, const writing *w) {
  braid_value_id root = number(graph, w->root, w->rank), half = number(graph, w->half, w->rank),
                 one = number(graph, w->one, w->rank);
  braid_value_id erf = add(graph, "Erf", add(graph, w->multiplies ? "Mul" : "Div", x, root), -1);
  braid_value_id sum = w->one_first ? add(graph, "Add", one, erf) : add(graph, "Add", erf, one), y;
  if (w->half_first)
    y = add(graph, "Mul", add(graph, "Mul", half, x), sum);
  else if (w->half_apart)
    y = add(graph, "Mul", x, add(graph, "Mul", sum, half));
  else
    y = add(graph, "Mul", add(graph, "Mul", x, sum), half);
  return w->twice ? add(graph, "Add", y, erf) : y;
}

static const char *gelu_sets(const writing *w) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "gelu", &graph));
  return sets_of(graph, gelu(graph, input(graph, 3, (int64_t[]){2, 3, 4}), w));
}

static void test_gelu(void **state) {
  (void)state;
  writing w = kUsual;
  assert_string_equal(gelu_sets(&w), "Gelu:5");
  w.one_first = true, w.rank = 1;
  assert_string_equal(gelu_sets(&w), "Gelu:5");
  w.half_first = true;
  assert_string_equal(gelu_sets(&w), "Gelu:5");
  w = kUsual, w.half_apart = true;
  assert_string_equal(gelu_sets(&w), "Gelu:5");
  w.multiplies = true, w.root = sqrt(0.5);
  assert_string_equal(gelu_sets(&w), "Gelu:5");
}

static void test_no_gelu(void **state) {
  (void)state;
  const writing kOthers[] = {
      {.root = 1.4, .half = 0.5, .one = 1},
      {.root = sqrt(2), .half = 0.51, .one = 1},
      {.root = sqrt(2), .half = 0.5, .one = 1.01},
      {.root = sqrt(2), .half = 0.5, .one = 1, .multiplies = true},
      {.root = sqrt(0.5), .half = 0.5, .one = 1},
      {.root = sqrt(2), .half = 0.5, .one = 1, .twice = true},
      {.root = sqrt(2), .half = 0.5, .one = 1, .rank = 4}, /* the result has another rank than x */
  };
  for (size_t i = 0; i < sizeof kOthers / sizeof *kOthers; i++) assert_string_equal(gelu_sets(&kOthers[i]), "");
  braid_graph *graph; /* another x in the product than in Erf */
  OK(braid_graph_create(NULL, "gelu", &graph));
  braid_value_id x = input(graph, 1, (int64_t[]){4}), z = input(graph, 1, (int64_t[]){4});
  braid_value_id erf = add(graph, "Erf", add(graph, "Div", x, number(graph, sqrt(2), 0)), -1);
  braid_value_id sum = add(graph, "Add", erf, number(graph, 1, 0));
  assert_string_equal(sets_of(graph, add(graph, "Mul", add(graph, "Mul", z, sum), number(graph, 0.5, 0))), "");
}

/* A sum with a Relu, or a Relu's gradient, behind it: not where another reads the sum, numbers are repeated, or a
 * convolution takes the sum. */
static void test_sum(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3, 4, 4};
  static const char *const kExpected[] = {"AddRelu:2",     "", "", "FusedConv:2 FusedConv:3",
                                          "AddReluGrad:2", "", "", "FusedConv:2"};
  for (int i = 0; i < 8; i++) {
    braid_graph *graph;
    OK(braid_graph_create(NULL, "sum", &graph));
    braid_value_id a = input(graph, 4, dims), b = input(graph, 4, i % 4 == 2 ? (int64_t[]){1, 3, 1, 1} : dims);
    if (i % 4 == 3) b = add(graph, "Conv", b, input(graph, 4, (int64_t[]){3, 3, 1, 1}));
    braid_value_id sum = add(graph, "Add", a, b), y = add(graph, "Relu", i < 4 ? sum : a, -1);
    if (i >= 4) y = add(graph, "ReluGrad", sum, y);
    if (i % 4 == 1) y = add(graph, "Mul", y, sum);
    assert_string_equal(sets_of(graph, y), kExpected[i]);
  }
}

static void test_product(void **state) {
  (void)state;
  for (int rank = 2; rank <= 4; rank++)
    for (int bias = 0; bias < 4; bias++) { /* none; one number a column; one of a row; after a second reader */
      braid_graph *graph;
      OK(braid_graph_create(NULL, "product", &graph));
      const int64_t dims[] = {2, 3, 4, 6};
      braid_value_id x = input(graph, rank, dims + 4 - rank), w = input(graph, 2, (int64_t[]){6, 5});
      braid_value_id y = add(graph, "MatMul", x, w), product = y;
      if (bias == 1) y = add(graph, "Add", input(graph, 1, (int64_t[]){5}), y);
      if (bias == 2) y = add(graph, "Add", y, input(graph, 2, (int64_t[]){4, 1}));
      if (bias == 3) y = add(graph, "Add", y, input(graph, 1, (int64_t[]){5}));
      y = gelu(graph, y, &kUsual);
      if (bias == 3) y = add(graph, "Add", y, product);
      static const char *const kExpected[] = {"Gelu:5 FusedMatMul:6", "FusedMatMul:2 Gelu:5 FusedMatMul:7", "Gelu:5",
                                              "Gelu:5"};
      assert_string_equal(sets_of(graph, y), kExpected[bias]);
    }
}

/* Relu(BatchNormalization(x)) by statistics of the batch, and the gradient behind a Relu's: not where another reads
 * what lies between or the new statistics before, nor by given statistics, and the gradient not where its x or its
 * statistics are others.
 */
static void test_norm(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3, 4, 4}, channels[] = {3};
  static const char *const kExpected[] = {"BatchNormalizationRelu:2 BatchNormalizationReluGrad:2",
                                          "",
                                          "BatchNormalizationReluGrad:2",
                                          "BatchNormalizationReluGrad:2",
                                          "BatchNormalizationRelu:2",
                                          "BatchNormalizationRelu:2",
                                          "BatchNormalizationRelu:2"};
  for (int i = 0; i < 7; i++) {
    braid_graph *graph;
    braid_node_id node;
    braid_value_id y[5], dx[3], from[6];
    OK(braid_graph_create(NULL, "norm", &graph));
    for (int k = 0; k < 6; k++) from[k] = input(graph, k == 0 || k == 5 ? 4 : 1, k == 0 || k == 5 ? dims : channels);
    OK(braid_graph_add_node(graph, "BatchNormalization", NULL, from, 5, y, i == 1 ? 1 : 5, &node));
    OK(braid_graph_set_int(graph, node, "training_mode", i != 1));
    braid_value_id after = i == 3 ? add(graph, "Add", y[1], y[2]) : -1;
    braid_value_id relu = add(graph, "Relu", y[0], -1);
    braid_value_id error = add(graph, "ReluGrad", from[5], relu);
    braid_value_id back[] = {error, i == 4 ? from[5] : from[0], from[1], i == 1 ? from[3] : y[3],
                             i == 1 || i == 6 ? from[4] : y[4]};
    OK(braid_graph_add_node(graph, "BatchNormalizationGrad", NULL, back, 5, dx, 3, &node));
    OK(braid_graph_set_int(graph, node, "training_mode", i != 1));
    braid_value_id last = add(graph, "Add", dx[0], relu);
    if (i == 2) last = add(graph, "Add", last, y[0]);
    if (i == 5) last = add(graph, "Add", last, error);
    if (after >= 0) OK(braid_graph_add_output(graph, after));
    assert_string_equal(sets_of(graph, last), kExpected[i]);
  }
}

/* The gradient of a rectifier behind what rounds or routes an error: not where another reads what is between. */
static void test_integer_errors(void **state) {
  (void)state;
  static const char *const kExpected[] = {"IntegerScaleErrorRelu:2", "", "IntegerMaxPoolGradRelu:2", ""};
  for (int i = 0; i < 4; i++) {
    braid_graph *graph;
    braid_node_id node;
    braid_value_id from[4], errors[2], y;
    OK(braid_graph_create(NULL, "errors", &graph));
    const int64_t image[] = {2, 3, 4, 4}, pooled[] = {2, 3, 2, 2}, size[] = {4, 4}, two[] = {2, 2};
    const braid_dtype kTypes[2][4] = {{BRAID_I32, BRAID_I32, BRAID_I32, BRAID_I64}, {BRAID_I8, BRAID_U8}};
    for (int k = 0; k < (i < 2 ? 4 : 2); k++)
      from[k] = input_of(graph, kTypes[i / 2][k], i < 2 && k ? 0 : 4, i < 2 ? image : pooled);
    OK(braid_graph_add_node(graph, i < 2 ? "IntegerScaleError" : "IntegerMaxPoolGrad", NULL, from, i < 2 ? 4 : 2,
                            errors, i < 2 ? 2 : 1, &node));
    if (i < 2) OK(braid_graph_set_int(graph, node, "bits", 8));
    if (i >= 2) OK(braid_graph_set_ints(graph, node, "kernel_shape", two, 2));
    if (i >= 2) OK(braid_graph_set_ints(graph, node, "strides", two, 2));
    if (i >= 2) OK(braid_graph_set_ints(graph, node, "input_shape", size, 2));
    braid_value_id both[] = {errors[0], input_of(graph, BRAID_I8, 4, image)};
    OK(braid_graph_add_node(graph, "IntegerReluGrad", NULL, both, 2, &y, 1, &node));
    OK(braid_graph_set_int(graph, node, "bits", 4));
    if (i % 2) OK(braid_graph_add_output(graph, errors[0]));
    assert_string_equal(sets_of(graph, y), kExpected[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gelu), cmocka_unit_test(test_no_gelu),
                                     cmocka_unit_test(test_sum),  cmocka_unit_test(test_product),
                                     cmocka_unit_test(test_norm), cmocka_unit_test(test_integer_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
