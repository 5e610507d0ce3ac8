/* Gradients of elementwise ops against finite differences. */
#include "gradcheck.h"

#include <string.h>

/* --- one operand ---------------------------------------------------------------------------------------------------
 */
typedef struct range {
  const char *op;
  double low, high;
} range;

/* Where a function is not defined everywhere, or is steep. */
static const range kRanges[] = {{"Sqrt", 0.2, 3},    {"Log", 0.2, 3},     {"Reciprocal", 0.4, 2}, {"Tan", -1, 1},
                                {"Asin", -0.8, 0.8}, {"Acos", -0.8, 0.8}, {"Acosh", 1.3, 3},      {"Atanh", -0.8, 0.8}};

static range range_of(const char *op) {
  for (size_t i = 0; i < sizeof kRanges / sizeof *kRanges; i++)
    if (strcmp(kRanges[i].op, op) == 0) return kRanges[i];
  return (range){op, -4, 4};
}

static void check_unary(const char *op, const char *attribute, double value) {
  gradcheck g;
  braid_value_id y = 0;
  range r = range_of(op);
  gradcheck_begin(&g, op);
  braid_value_id x = gradcheck_input(&g, 2, (int64_t[]){5, 7}, r.low, r.high);
  braid_node_id node = gradcheck_node(&g, op, &x, 1, &y, 1);
  if (attribute) gradcheck_ok(&g, braid_graph_set_float(g.graph, node, attribute, value));
  gradcheck_end(&g, &y, 1, 1e-6);
}

static void unary_gradients(void **state) {
  (void)state;
#define BRAID_UNARY(op, types, reads, forward, gradient) check_unary(#op, NULL, 0);
#include "graph/ops/unary.def"
#undef BRAID_UNARY
#define BRAID_UNARY_ATTRIBUTES(op, p, p_default, q, q_default) check_unary(#op, p, 0.35);
#include "graph/ops/unary.def"
#undef BRAID_UNARY_ATTRIBUTES
  check_unary("Neg", NULL, 0);
}

static void gelu_gradient(void **state) {
  (void)state;
  gradcheck g;
  braid_value_id y = 0;
  gradcheck_begin(&g, "Gelu, tanh");
  braid_value_id x = gradcheck_input(&g, 1, (int64_t[]){30}, -5, 5);
  braid_node_id node = gradcheck_node(&g, "Gelu", &x, 1, &y, 1);
  gradcheck_ok(&g, braid_graph_set_string(g.graph, node, "approximate", "tanh"));
  gradcheck_end(&g, &y, 1, 1e-6);
}

static void clip_gradient(void **state) {
  (void)state;
  for (int bounds = 0; bounds < 5; bounds++) { /* the last: the upper one below the lower one */
    gradcheck g;
    braid_value_id y = 0, inputs[3] = {-1, -1, -1};
    gradcheck_begin(&g, "Clip");
    inputs[0] = gradcheck_input(&g, 2, (int64_t[]){6, 6}, -2, 2);
    if (bounds & 5) inputs[1] = gradcheck_input(&g, 0, NULL, -1, -0.9);
    if (bounds & 2) inputs[2] = gradcheck_input(&g, 0, NULL, 0.8, 1);
    if (bounds & 4) inputs[2] = gradcheck_input(&g, 0, NULL, -1.5, -1.4);
    gradcheck_node(&g, "Clip", inputs, 3, &y, 1);
    gradcheck_end(&g, &y, 1, 1e-6);
  }
}

/* --- several operands ----------------------------------------------------------------------------------------------
 */
static void check_pair(const char *op, int rank_a, const int64_t *a, int rank_b, const int64_t *b, double low) {
  gradcheck g;
  braid_value_id y = 0, inputs[2];
  gradcheck_begin(&g, op);
  inputs[0] = gradcheck_input(&g, rank_a, a, low, 3);
  inputs[1] = gradcheck_input(&g, rank_b, b, low, 2.5);
  braid_node_id node = gradcheck_node(&g, op, inputs, 2, &y, 1);
  if (strcmp(op, "Mod") == 0) gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "fmod", 1));
  gradcheck_end(&g, &y, 1, 1e-5);
}

static void pair_gradients(void **state) {
  (void)state;
  static const range kOps[] = {{"Add", -2, 0},  {"Sub", -2, 0},   {"Mul", -2, 0}, {"Div", 0.5, 0},
                               {"Pow", 0.3, 0}, {"PRelu", -2, 0}, {"Max", -2, 0}, {"Min", -2, 0},
                               {"Sum", -2, 0},  {"Mean", -2, 0},  {"Mod", 0.7, 0}};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    check_pair(kOps[i].op, 3, (int64_t[]){2, 3, 4}, 3, (int64_t[]){2, 3, 4}, kOps[i].low);
    check_pair(kOps[i].op, 3, (int64_t[]){2, 3, 4}, 1, (int64_t[]){4}, kOps[i].low);
    check_pair(kOps[i].op, 3, (int64_t[]){2, 3, 4}, 2, (int64_t[]){3, 1}, kOps[i].low);
    check_pair(kOps[i].op, 2, (int64_t[]){2, 3}, 0, NULL, kOps[i].low);
    if (strcmp(kOps[i].op, "PRelu") == 0) continue; /* takes no wider slope */
    check_pair(kOps[i].op, 2, (int64_t[]){3, 1}, 4, (int64_t[]){2, 1, 3, 4}, kOps[i].low);
    check_pair(kOps[i].op, 1, (int64_t[]){1}, 2, (int64_t[]){1, 5}, kOps[i].low);
  }
}

static void variadic_gradients(void **state) {
  (void)state;
  static const char *const kOps[] = {"Sum", "Mean", "Max", "Min"};
  for (size_t i = 0; i < 4; i++)
    for (size_t count = 1; count <= 4; count++) {
      gradcheck g;
      braid_value_id y = 0, inputs[4];
      gradcheck_begin(&g, kOps[i]);
      for (size_t k = 0; k < count; k++)
        inputs[k] =
            gradcheck_input(&g, k == 1 ? 1 : 2, k == 1 ? (int64_t[]){4} : (int64_t[]){k == 2 ? 1 : 3, 4}, -1, 1);
      gradcheck_node(&g, kOps[i], inputs, count, &y, 1);
      gradcheck_end(&g, &y, 1, 1e-6);
    }
}

static void where_gradient(void **state) {
  (void)state;
  gradcheck g;
  braid_value_id y = 0, less = 0;
  gradcheck_begin(&g, "Where");
  braid_value_id a = gradcheck_input(&g, 2, (int64_t[]){3, 4}, -1, 1),
                 b = gradcheck_input(&g, 1, (int64_t[]){4}, -1, 1);
  braid_value_id limit = gradcheck_tensor(&g, gradcheck_random(&g, 2, (int64_t[]){3, 1}, -0.1, 0.1), true);
  gradcheck_node(&g, "Less", (braid_value_id[]){a, limit}, 2, &less, 1);
  gradcheck_node(&g, "Where", (braid_value_id[]){less, a, b}, 3, &y, 1);
  gradcheck_end(&g, &y, 1, 1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unary_gradients), cmocka_unit_test(gelu_gradient),      cmocka_unit_test(clip_gradient),
      cmocka_unit_test(pair_gradients),  cmocka_unit_test(variadic_gradients), cmocka_unit_test(where_gradient),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
