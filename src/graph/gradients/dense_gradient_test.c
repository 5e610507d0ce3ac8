/* Gradients of matrix products, softmaxes and losses against finite differences; losses against PyTorch. */
#include "torchcheck.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
static void gemm(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t dims[2];
  } kAddends[] = {{0, {0}}, {1, {1}}, {1, {5}}, {2, {1, 5}}, {2, {3, 1}}, {2, {3, 5}}};
  for (int form = 0; form < 4; form++)
    for (size_t c = 0; c <= COUNT(kAddends); c++) {
      bool ta = form & 1, tb = form & 2, scaled = c % 2;
      gradcheck g;
      braid_value_id ids[3] = {-1, -1, -1}, y = 0;
      gradcheck_begin(&g, "Gemm");
      ids[0] = gradcheck_input(&g, 2, ta ? (int64_t[]){4, 3} : (int64_t[]){3, 4}, -1, 1);
      ids[1] = gradcheck_input(&g, 2, tb ? (int64_t[]){5, 4} : (int64_t[]){4, 5}, -1, 1);
      if (c < COUNT(kAddends)) ids[2] = gradcheck_input(&g, kAddends[c].rank, kAddends[c].dims, -1, 1);
      braid_node_id node = gradcheck_node(&g, "Gemm", ids, 3, &y, 1);
      gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "transA", ta));
      gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "transB", tb));
      if (scaled) gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "alpha", 0.5));
      if (scaled) gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "beta", -1.5));
      gradcheck_end(&g, &y, 1, 1e-8);
    }
}

static void matmul(void **state) {
  (void)state;
  static const struct {
    int rank_a, rank_b;
    int64_t a[4], b[4];
    bool ta, tb;
  } kCases[] = {
      {2, 2, {3, 4}, {4, 5}, false, false},
      {1, 1, {4}, {4}, false, false},
      {1, 2, {4}, {4, 5}, false, false},
      {2, 1, {3, 4}, {4}, false, false},
      {1, 3, {4}, {2, 4, 5}, false, false},
      {3, 1, {2, 3, 4}, {4}, false, false},
      {3, 3, {2, 3, 4}, {2, 4, 5}, false, false},
      {3, 3, {2, 4, 3}, {2, 4, 5}, true, false},
      {3, 3, {2, 3, 4}, {2, 5, 4}, false, true},
      {3, 3, {2, 4, 3}, {2, 5, 4}, true, true},
      {3, 2, {2, 3, 4}, {4, 5}, false, false},
      {2, 3, {3, 4}, {2, 4, 5}, false, false},
      {4, 3, {2, 1, 3, 4}, {3, 4, 5}, false, false},
      {4, 4, {2, 1, 4, 3}, {1, 3, 5, 4}, true, true},
      {4, 1, {2, 2, 4, 3}, {4}, true, false},
      {1, 4, {4}, {2, 1, 5, 4}, false, true},
  };
  for (size_t i = 0; i < COUNT(kCases); i++) {
    gradcheck g;
    braid_value_id ids[2], y = 0;
    gradcheck_begin(&g, "MatMul");
    ids[0] = gradcheck_input(&g, kCases[i].rank_a, kCases[i].a, -1, 1);
    ids[1] = gradcheck_input(&g, kCases[i].rank_b, kCases[i].b, -1, 1);
    braid_node_id node = gradcheck_node(&g, "MatMul", ids, 2, &y, 1);
    gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "transA", kCases[i].ta));
    gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "transB", kCases[i].tb));
    gradcheck_end(&g, &y, 1, 1e-8);
  }
}

/* --- softmax -------------------------------------------------------------------------------------------------------
 */
static void softmax(void **state) {
  (void)state;
  static const char *const kOps[] = {"Softmax", "LogSoftmax"};
  for (size_t op = 0; op < 2; op++)
    for (int axis = -1; axis < 3; axis++) {
      gradcheck g;
      braid_value_id y = 0;
      gradcheck_begin(&g, kOps[op]);
      braid_value_id x = gradcheck_input(&g, 3, (int64_t[]){3, 4, 70}, -2, 2);
      gradcheck_ok(&g, braid_graph_set_int(g.graph, gradcheck_node(&g, kOps[op], &x, 1, &y, 1), "axis", axis));
      gradcheck_end(&g, &y, 1, 1e-7);
    }
}

/* --- losses --------------------------------------------------------------------------------------------------------
 */
static braid_value_id labels(gradcheck *g, braid_dtype dtype, int rank, const int64_t *dims, uint32_t classes) {
  braid_desc desc;
  braid_tensor *tensor;
  gradcheck_ok(g, braid_desc_init(&desc, dtype, rank, dims));
  gradcheck_ok(g, braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++)
    braid_tensor_set_f64(tensor, i, braid_random_below(GRADCHECK_SEED, 2, 0, (uint64_t)i, classes));
  return gradcheck_tensor(g, tensor, true);
}

static braid_value_id weights(gradcheck *g, int64_t classes) {
  return gradcheck_tensor(g, gradcheck_random(g, 1, &classes, 0.5, 2), true);
}

static const char *const kReductions[] = {"mean", "sum", "none"};

/* Every reduction, with and without weights, an ignored label, smoothing, places behind the classes. */
static void class_losses(void **state) {
  (void)state;
  static const char *const kOps[] = {"SoftmaxCrossEntropyLoss", "CrossEntropyLoss", "NegativeLogLikelihoodLoss"};
  static const int64_t kScores[] = {5, 4, 3, 23}, kLabels[] = {5, 3, 23};
  for (int form = 0; form < 3 * 3 * 16; form++) {
    int options = form / 9;
    const char *op = kOps[form % 3];
    gradcheck g;
    braid_value_id ids[3], outputs[2] = {0, 0};
    bool weighted = options & 1, smooth = options & 4, wide = options & 8, likelihood = form % 3 == 2;
    gradcheck_begin(&g, op);
    ids[0] = gradcheck_input(&g, wide ? 4 : 2, kScores, -2, 2);
    ids[1] = labels(&g, wide ? BRAID_I32 : BRAID_I64, wide ? 3 : 1, kLabels, 4);
    if (weighted) ids[2] = weights(&g, 4);
    braid_node_id node = gradcheck_node(&g, op, ids, weighted ? 3 : 2, outputs, likelihood ? 1 : 2);
    gradcheck_ok(&g, braid_graph_set_string(g.graph, node, "reduction", kReductions[form / 3 % 3]));
    if (options & 2) gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "ignore_index", 1));
    if (smooth && !likelihood) gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "label_smoothing", 0.25));
    gradcheck_end(&g, outputs, likelihood ? 1 : 2, 1e-7);
  }
}

static void squared_error(void **state) {
  (void)state;
  static const int64_t kDims[] = {4, 3};
  for (int form = 0; form < 8; form++) {
    gradcheck g;
    braid_value_id ids[2], loss = 0;
    gradcheck_begin(&g, "SquaredErrorLoss");
    ids[0] = gradcheck_input(&g, 2, kDims, -1, 1);
    ids[1] = form % 2 ? gradcheck_input(&g, 2, kDims, -1, 1) : labels(&g, BRAID_I32, 1, kDims, 3);
    braid_node_id node = gradcheck_node(&g, "SquaredErrorLoss", ids, 2, &loss, 1);
    if (form / 2 < 3) gradcheck_ok(&g, braid_graph_set_string(g.graph, node, "reduction", kReductions[form / 2]));
    gradcheck_end(&g, &loss, 1, 1e-8);
  }
}

static void losses_as_pytorch(void **state) {
  (void)state;
  static const struct {
    const char *op, *reduction, *expression;
    bool weighted, places, ignores;
    double smoothing;
  } kCases[] = {
      {"CrossEntropyLoss", "mean", "(F.cross_entropy(x0, x1),)", false, false, false, 0},
      {"CrossEntropyLoss", "mean", "(F.cross_entropy(x0, x1, label_smoothing=.1),)", false, false, false, 0.1},
      {"CrossEntropyLoss", "mean", "(F.cross_entropy(x0, x1, x2, ignore_index=2, label_smoothing=.3),)", true, true,
       true, 0.3},
      {"CrossEntropyLoss", "none", "(F.cross_entropy(x0, x1, x2, ignore_index=2, reduction='none'),)", true, true, true,
       0},
      {"CrossEntropyLoss", "sum", "(F.cross_entropy(x0, x1, x2, reduction='sum', label_smoothing=.2),)", true, true,
       false, 0.2},
      {"NegativeLogLikelihoodLoss", "mean", "(F.nll_loss(x0, x1, x2, ignore_index=2),)", true, true, true, 0},
      {"SquaredErrorLoss", "mean", "(F.mse_loss(x0, F.one_hot(x1, 5).double()),)", false, false, false, 0},
      {"SquaredErrorLoss", "none", "(F.mse_loss(x0, F.one_hot(x1, 5).double(), reduction='none'),)", false, false,
       false, 0},
  };
  static const int64_t kScores[] = {6, 5, 4, 3}, kLabels[] = {6, 4, 3};
  torchcheck t;
  torchcheck_open(&t);
  for (size_t i = 0; i < COUNT(kCases); i++) {
    gradcheck g;
    braid_value_id ids[3], loss = 0;
    gradcheck_begin(&g, kCases[i].op);
    ids[0] = gradcheck_input(&g, kCases[i].places ? 4 : 2, kScores, -2, 2);
    ids[1] = labels(&g, BRAID_I64, kCases[i].places ? 3 : 1, kLabels, 5);
    if (kCases[i].weighted) ids[2] = weights(&g, 5);
    braid_node_id node = gradcheck_node(&g, kCases[i].op, ids, kCases[i].weighted ? 3 : 2, &loss, 1);
    gradcheck_ok(&g, braid_graph_set_string(g.graph, node, "reduction", kCases[i].reduction));
    if (kCases[i].ignores) gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "ignore_index", 2));
    if (kCases[i].smoothing > 0)
      gradcheck_ok(&g, braid_graph_set_float(g.graph, node, "label_smoothing", kCases[i].smoothing));
    torchcheck_case(&t, &g, &loss, 1, kCases[i].expression);
  }
  torchcheck_close(&t);
}

/* A label that is no class gives NaN; one to be ignored does not, wherever it lies. */
static void wrong_label(void **state) {
  (void)state;
  for (int ignored = 0; ignored < 2; ignored++) {
    gradcheck g;
    braid_value_id ids[2], loss = 0;
    gradcheck_begin(&g, "CrossEntropyLoss");
    ids[0] = gradcheck_input(&g, 2, (int64_t[]){2, 3}, -1, 1);
    ids[1] = labels(&g, BRAID_I32, 1, (int64_t[]){2}, 3);
    ((int32_t *)braid_tensor_data(g.tensors[1]))[1] = -100;
    braid_node_id node = gradcheck_node(&g, "CrossEntropyLoss", ids, 2, &loss, 1);
    if (ignored) gradcheck_ok(&g, braid_graph_set_int(g.graph, node, "ignore_index", -100));
    gradcheck_ok(&g, braid_graph_add_output(g.graph, loss));
    braid_graph *result = gradcheck_evaluate(&g);
    assert_int_equal(isnan(braid_tensor_get_f64(gradcheck_output(&g, result, 0), 0)) != 0, !ignored);
    braid_graph_destroy(result);
    gradcheck_destroy(&g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gemm),         cmocka_unit_test(matmul),        cmocka_unit_test(softmax),
      cmocka_unit_test(class_losses), cmocka_unit_test(squared_error), cmocka_unit_test(losses_as_pytorch),
      cmocka_unit_test(wrong_label),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
