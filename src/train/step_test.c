/* The training graph's random numbers: which elements a Dropout drops depends on the run's seed (or the model's own),
 * the step and the node, and on nothing else. And its loss, whatever stands between the last Softmax and the output;
 * and its running statistics, where one normalization is applied twice; and which samples an input takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/onnx_dtype.h"
#include "train/step.h"

enum { kBatch = 50, kClasses = 10, kScores = kBatch * kClasses };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static braid_value_id constant(braid_graph *graph, const char *name, int rank, const int64_t *dims, float value) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, BRAID_F32, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) ((float *)braid_tensor_data(tensor))[i] = value;
  ok(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id node(braid_graph *graph, const char *op, const braid_value_id *inputs, size_t count,
                           braid_node_id *id) {
  braid_value_id out = 0;
  ok(braid_graph_add_node(graph, op, NULL, inputs, count, &out, 1, id));
  return out;
}

/* Every score is 1 where the first of two Dropouts kept it, and 2 more where the second did. `own` other than 0: the
 * seed that the model gives both. */
static braid_graph *two_dropouts(int64_t own) {
  braid_graph *graph;
  braid_value_id x;
  braid_node_id first, second;
  ok(braid_graph_create(NULL, "two", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 1, 1, 1}}, &x));
  x = node(graph, "Flatten", &x, 1, NULL);
  braid_value_id full[3] = {x, constant(graph, "w", 2, (int64_t[]){1, kClasses}, 0),
                            constant(graph, "b", 1, (int64_t[]){kClasses}, 0.5f)};
  x = node(graph, "Gemm", full, 3, NULL);
  braid_value_id a = node(graph, "Dropout", &x, 1, &first), b = node(graph, "Dropout", &x, 1, &second);
  if (own) ok(braid_graph_set_int(graph, first, "seed", own));
  if (own) ok(braid_graph_set_int(graph, second, "seed", own));
  b = node(graph, "Add", (braid_value_id[]){b, b}, 2, NULL);
  ok(braid_graph_add_output(graph, node(graph, "Add", (braid_value_id[]){a, b}, 2, NULL)));
  return graph;
}

static void scores_of(int64_t own, uint64_t seed, int64_t step, float *scores) {
  braid_graph *model = two_dropouts(own), *graph;
  braid_dataset_info info = {
      .spec = "made", .samples = 100, .channels = 1, .height = 1, .width = 1, .classes = kClasses};
  braid_train_options options;
  braid_session *session;
  braid_train_options_init(&options);
  options.batch = kBatch;
  options.seed = seed;
  ok(braid_step_graph(model, &info, &options, &graph));
  ok(braid_session_create(graph, &(braid_session_options){.training = true, .threads = 1}, &session));
  static const float images[kBatch];
  static const int32_t labels[kBatch];
  float rate = 0.1f, loss;
  ok(braid_session_run(session, (const void *[]){images, labels, &rate, &step}, (void *[]){&loss, scores}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_graph_destroy(model);
}

/* How many elements differ in what both Dropouts did. */
static int differing(const float *a, const float *b) {
  int count = 0;
  for (int i = 0; i < kScores; i++) count += a[i] != b[i];
  return count;
}

static void test_masks(void **state) {
  (void)state;
  static float scores[kScores], other[kScores];
  scores_of(0, 1, 1, scores);
  int alone = 0;
  for (int i = 0; i < kScores; i++) {
    assert_true(scores[i] == 0 || scores[i] == 1 || scores[i] == 2 || scores[i] == 3);
    alone += scores[i] == 1 || scores[i] == 2;
  }
  assert_in_range(alone, kScores / 3, 2 * kScores / 3); /* the two drop apart from each other */
  scores_of(0, 1, 1, other);
  assert_int_equal(differing(scores, other), 0);
  scores_of(0, 2, 1, other); /* another run */
  assert_in_range(differing(scores, other), kScores / 2, kScores);
  scores_of(0, (uint64_t)1 << 40 | 1, 1, other); /* in the seed's upper half */
  assert_in_range(differing(scores, other), kScores / 2, kScores);
  scores_of(0, 1, 2, other); /* another step */
  assert_in_range(differing(scores, other), kScores / 2, kScores);
}

static void test_own_seed(void **state) {
  (void)state;
  static float scores[kScores], other[kScores];
  scores_of(77, 1, 1, scores);
  scores_of(77, 2, 1, other);
  assert_int_equal(differing(scores, other), 0);
  scores_of(78, 1, 1, other);
  assert_in_range(differing(scores, other), kScores / 2, kScores);
}

/* --- the loss ------------------------------------------------------------------------------------------------------
 */
typedef struct ending {
  const char *softmax, *tail; /* ops behind the scores; NULL: none */
  braid_dtype dtype;          /* a Cast to it, behind all */
} ending;

static braid_graph *ending_in(const ending *end) {
  braid_graph *graph;
  braid_value_id x;
  braid_node_id id;
  ok(braid_graph_create(NULL, "scores", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 1, 1, 1}}, &x));
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "w", 2, (int64_t[]){1, kClasses}, 2)}, 2, NULL);
  braid_value_id bias = constant(graph, "b", 1, (int64_t[]){kClasses}, 0);
  for (int c = 0; c < kClasses; c++) ((float *)braid_tensor_data(graph->values[bias].tensor))[c] = (float)c / 3;
  x = node(graph, "Add", (braid_value_id[]){x, bias}, 2, NULL);
  if (end->softmax) x = node(graph, end->softmax, &x, 1, NULL);
  if (end->tail) x = node(graph, end->tail, &x, 1, NULL);
  if (end->dtype != BRAID_F32) {
    x = node(graph, "Cast", &x, 1, &id);
    ok(braid_graph_set_int(graph, id, "to", braid_dtype_to_onnx(end->dtype)));
  }
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static const braid_dataset_info kInfo = {
    .spec = "made", .samples = 100, .channels = 1, .height = 1, .width = 1, .classes = kClasses};

static float loss_of(const ending *end) {
  braid_graph *model = ending_in(end), *graph;
  braid_train_options options;
  braid_session *session;
  braid_train_options_init(&options);
  options.batch = kBatch;
  ok(braid_step_graph(model, &kInfo, &options, &graph));
  ok(braid_session_create(graph, &(braid_session_options){.training = true, .threads = 1}, &session));
  static float images[kBatch], scores[kScores];
  static int32_t labels[kBatch];
  for (int i = 0; i < kBatch; i++) labels[i] = i % kClasses;
  float rate = 0.1f, loss;
  int64_t step = 1;
  ok(braid_session_run(session, (const void *[]){images, labels, &rate, &step}, (void *[]){&loss, scores}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_graph_destroy(model);
  return loss;
}

/* The scores' cross entropy, computed here, whatever only shows them. */
static void test_last_softmax(void **state) {
  (void)state;
  static const ending kEndings[] = {{NULL, NULL, BRAID_F32},
                                    {"Softmax", NULL, BRAID_F32},
                                    {"LogSoftmax", NULL, BRAID_F32},
                                    {"Softmax", "Identity", BRAID_F32},
                                    {"Softmax", "Flatten", BRAID_F32},
                                    {"LogSoftmax", "Identity", BRAID_F32},
                                    {"Softmax", NULL, BRAID_F64},
                                    {"Softmax", "Flatten", BRAID_F64},
                                    {NULL, NULL, BRAID_F64}};
  double sum = 0, mean = 0;
  for (int c = 0; c < kClasses; c++) {
    sum += exp(c / 3.0);
    mean += c / 3.0 / kClasses;
  }
  for (size_t i = 0; i < sizeof kEndings / sizeof *kEndings; i++)
    assert_float_equal(loss_of(&kEndings[i]), log(sum) - mean, 1e-5);
}

static void test_scores_of_integers(void **state) {
  (void)state;
  braid_graph *model = ending_in(&(ending){NULL, NULL, BRAID_I64}), *graph;
  braid_train_options options;
  braid_train_options_init(&options);
  options.batch = kBatch;
  assert_int_equal(braid_step_graph(model, &kInfo, &options, &graph), BRAID_INVALID_GRAPH);
  assert_non_null(strstr(braid_error_detail(), "is int64; floating-point scores are expected"));
  braid_graph_destroy(model);
}

/* --- running statistics --------------------------------------------------------------------------------------------
 */
static braid_graph *normalized_twice(void) {
  braid_graph *graph;
  braid_value_id x;
  const int64_t shape[] = {kClasses};
  ok(braid_graph_create(NULL, "twice", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 1, 1, 1}}, &x));
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "w", 2, (int64_t[]){1, kClasses}, 2)}, 2, NULL);
  braid_value_id norm[5] = {x, constant(graph, "gamma", 1, shape, 1), constant(graph, "beta", 1, shape, 0.25f),
                            constant(graph, "mean", 1, shape, 3), constant(graph, "variance", 1, shape, 1)};
  braid_tensor_set_f64(graph->values[norm[1]].tensor, 1, 0.5); /* so that the two are seen to be one */
  norm[0] = node(graph, "BatchNormalization", norm, 5, NULL);
  ok(braid_graph_add_output(graph, node(graph, "BatchNormalization", norm, 5, NULL)));
  return graph;
}

static void expect_statistic(braid_session *session, const char *name, const double expected[2]) {
  braid_tensor *tensor;
  ok(braid_tensor_create(NULL, &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {kClasses}}, &tensor));
  ok(braid_session_read(session, name, tensor));
  for (int64_t i = 0; i < 2; i++)
    if (fabs(braid_tensor_get_f64(tensor, i) - expected[i]) > 1e-4 * expected[i])
      fail_msg("%s[%d] is %g, expected %g", name, (int)i, braid_tensor_get_f64(tensor, i), expected[i]);
  braid_tensor_release(tensor);
}

/* PyTorch moves the statistics of a module each time that it is called. */
static void test_statistics_of_two_calls(void **state) {
  (void)state;
  braid_graph *model = normalized_twice(), *graph;
  braid_train_options options;
  braid_session *session;
  braid_train_options_init(&options);
  options.batch = kBatch;
  ok(braid_step_graph(model, &kInfo, &options, &graph));
  ok(braid_session_create(graph, &(braid_session_options){.training = true, .threads = 1}, &session));
  static float images[kBatch], scores[kScores], loss;
  static const int32_t labels[kBatch];
  double mean = 0, variance = 0;
  for (int i = 0; i < kBatch; i++) mean += (images[i] = (float)i / kBatch) * 2.0 / kBatch;
  for (int i = 0; i < kBatch; i++) variance += (2 * images[i] - mean) * (2 * images[i] - mean) / kBatch;
  int64_t step = 1;
  ok(braid_session_run(session, (const void *[]){images, labels, &(float){0.1f}, &step}, (void *[]){&loss, scores}));
  double means[2], variances[2];
  for (int i = 0; i < 2; i++) {
    double gamma = i ? 0.5 : 1;
    means[i] = 0.9 * (0.9 * 3 + 0.1 * mean) + 0.1 * 0.25;
    variances[i] = 0.9 * (0.9 * 1 + 0.1 * variance) + 0.1 * gamma * gamma * variance / (variance + 1e-5);
  }
  expect_statistic(session, "mean", means);
  expect_statistic(session, "variance", variances);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_graph_destroy(model);
}

/* --- the model's ends ----------------------------------------------------------------------------------------------
 */
/* The loss is of the first output; a second head is not in the step, and its numbers stay what they were. */
static void test_two_heads(void **state) {
  (void)state;
  braid_graph *model, *graph, *copy;
  braid_value_id x;
  const int64_t shape[] = {1, kClasses};
  ok(braid_graph_create(NULL, "heads", &model));
  ok(braid_graph_add_input(model, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 1, 1, 1}}, &x));
  x = node(model, "Flatten", &x, 1, NULL);
  x = node(model, "Mul", (braid_value_id[]){x, constant(model, "both", 2, (int64_t[]){1, 1}, 3)}, 2, NULL);
  const char *const heads[] = {"first", "second"};
  for (int i = 0; i < 2; i++) {
    braid_value_id inputs[] = {x, constant(model, heads[i], 2, shape, 2)};
    ok(braid_graph_add_output(model, node(model, "MatMul", inputs, 2, NULL)));
  }
  ok(braid_trainable_copy(model, &copy));
  assert_int_equal(copy->values[braid_graph_find_value(copy, "second")].kind, BRAID_VALUE_CONSTANT);
  braid_train_options options;
  braid_session *session;
  braid_train_options_init(&options);
  options.batch = kBatch;
  ok(braid_step_graph(model, &kInfo, &options, &graph));
  ok(braid_session_create(graph, &(braid_session_options){.training = true, .threads = 1}, &session));
  for (size_t i = 0; i < graph->value_count; i++) { /* what trains here and there, and can be read */
    const braid_value *value = &graph->values[i];
    if (value->kind == BRAID_VALUE_PARAMETER)
      assert_int_equal(copy->values[braid_graph_find_value(copy, value->name)].kind, BRAID_VALUE_PARAMETER);
    if (value->kind != BRAID_VALUE_PARAMETER && value->kind != BRAID_VALUE_STATE) continue;
    braid_tensor *tensor;
    ok(braid_tensor_create(NULL, &value->desc, &tensor));
    ok(braid_session_read(session, value->name, tensor));
    braid_tensor_release(tensor);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_graph_destroy(copy);
  braid_graph_destroy(model);
}

/* Samples go into an input as they lie in memory: with other sizes of the same count, pixels would be at other places.
 */
static void test_shapes_of_samples(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t dims[5];
    bool fits;
  } kInputs[] = {{4, {1, 3, 8, 6}, true},    {2, {-1, 144}, true},       {3, {-1, 3, 48}, true},
                 {3, {-1, 24, 6}, true},     {5, {1, 3, 2, 4, 6}, true}, {4, {-1, -1, -1, -1}, true},
                 {5, {1, 1, 3, 8, 6}, true}, {4, {-1, 8, 6, 3}, false},  {4, {-1, 3, 6, 8}, false},
                 {4, {-1, 6, 8, 3}, false},  {3, {-1, 12, 12}, false},   {2, {-1, 143}, false},
                 {4, {-1, 3, 4, 12}, false}, {1, {144}, false}};
  const braid_dataset_info info = {
      .spec = "made", .samples = 100, .channels = 3, .height = 8, .width = 6, .classes = kClasses};
  for (size_t i = 0; i < sizeof kInputs / sizeof *kInputs; i++) {
    braid_graph *model;
    braid_value_id x, y = 0;
    braid_desc desc = {.dtype = BRAID_F32, .rank = kInputs[i].rank};
    memcpy(desc.dims, kInputs[i].dims, sizeof kInputs[i].dims);
    ok(braid_graph_create(NULL, "shapes", &model));
    ok(braid_graph_add_input(model, "x", &desc, &x));
    ok(braid_graph_add_node(model, "Relu", NULL, &x, 1, &y, 1, NULL));
    ok(braid_graph_add_output(model, y));
    braid_status status = braid_bind_input(model, &info, 4);
    if (status != (kInputs[i].fits ? BRAID_OK : BRAID_INVALID_ARGUMENT))
      fail_msg("input %zu: %s: %s", i, braid_status_text(status), braid_error_detail());
    braid_graph_destroy(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks),
                                     cmocka_unit_test(test_own_seed),
                                     cmocka_unit_test(test_last_softmax),
                                     cmocka_unit_test(test_scores_of_integers),
                                     cmocka_unit_test(test_statistics_of_two_calls),
                                     cmocka_unit_test(test_shapes_of_samples),
                                     cmocka_unit_test(test_two_heads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
