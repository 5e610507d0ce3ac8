/* Trainings whose targets are labels or numbers: a run that was stopped and resumed, with other numbers of threads,
 * ends with the same bits; what their tests measure is what follows from the scores of the saved model; and what does
 * not go with such targets is refused. */
#include "train/data/dataset.h"
#include "train/trainer_fixture.h"

enum { kSamples = 96, kPixels = 3 * 32 * 32 };

/* A glyph's class is one of its labels, the next class another one of every second sample. */
static braid_status read_labels(void *context, int64_t index, float *pixels, float *targets) {
  int32_t label;
  braid_status status = braid_dataset_sample(context, index, pixels, &label);
  for (int c = 0; c < kClasses; c++) targets[c] = c == label || (index % 2 && c == (label + 1) % kClasses);
  return status;
}

static braid_status read_numbers(void *context, int64_t index, float *pixels, float *targets) {
  int32_t label;
  braid_status status = braid_dataset_sample(context, index, pixels, &label);
  for (int c = 0; c < kClasses; c++) targets[c] = (float)((c + label) % kClasses) / kClasses - 0.5f;
  return status;
}

static void close_glyphs(void *context) {
  braid_dataset_close(context);
}

static braid_dataset *made(braid_target_kind kind, const char *split) {
  braid_dataset *dataset;
  braid_dataset_source source = {.name = "made",
                                 .samples = kSamples,
                                 .channels = 3,
                                 .height = 32,
                                 .width = 32,
                                 .classes = kClasses,
                                 .context = glyphs(split),
                                 .close = close_glyphs,
                                 .target = kind,
                                 .read_targets = kind == BRAID_TARGET_LABELS ? read_labels : read_numbers};
  ok(braid_dataset_create(NULL, &source, "augment=flip", &dataset));
  return dataset;
}

/* The network without its Softmax. */
static braid_graph *scores_network(const char *last) {
  braid_graph *graph = network();
  braid_value_id scores = graph->nodes[graph->node_count - 1].inputs[0];
  graph->output_count = 0;
  ok(braid_graph_add_output(graph, last ? node(graph, last, &scores, 1, NULL) : scores));
  return graph;
}

typedef struct seen {
  stop_at stop;
  braid_test_result tested; /* the numbers of the last epoch alone */
} seen;

static bool watch_tests(void *context, const braid_train_progress *progress) {
  seen *s = context;
  assert_true((progress->test != NULL) == progress->epoch_done);
  if (progress->test) s->tested = *progress->test;
  return stop_after(&s->stop, progress);
}

static uint64_t train_targets(braid_target_kind kind, braid_train_options options, const char *last, seen *s,
                              braid_status expected) {
  braid_dataset *data = made(kind, "train"), *test = made(kind, "test");
  braid_graph *graph = scores_network(last);
  braid_trainer *trainer;
  ok(braid_trainer_create(graph, data, test, &options, &trainer));
  braid_status status = braid_trainer_run(trainer, watch_tests, s);
  if (status != expected) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
  uint64_t bits = bits_of(trainer);
  braid_trainer_destroy(trainer);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
  braid_dataset_close(test);
  return bits;
}

static braid_train_options options_for(const char *name, braid_loss loss) {
  braid_train_options options = options_of(name);
  options.loss = loss;
  options.batch = 24;
  options.mixup = loss == BRAID_HUBER ? 0.4 : 0;
  options.huber_delta = 0.25;
  options.balance_classes = loss == BRAID_BINARY_CROSS_ENTROPY;
  options.resume = true;
  return options;
}

static void test_resume(void **state) {
  (void)state;
  static const struct {
    braid_target_kind kind;
    braid_loss loss;
    const char *last;
  } kCases[] = {{BRAID_TARGET_LABELS, BRAID_BINARY_CROSS_ENTROPY, "Sigmoid"},
                {BRAID_TARGET_NUMBERS, BRAID_SQUARED_ERROR, NULL},
                {BRAID_TARGET_NUMBERS, BRAID_ABSOLUTE_ERROR, NULL},
                {BRAID_TARGET_NUMBERS, BRAID_HUBER, NULL}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    uint64_t bits = 0;
    for (int threads = 1; threads <= 3; threads++) {
      char name[48];
      snprintf(name, sizeof name, "targets-%zu-%d", i, threads);
      braid_train_options options = options_for(name, kCases[i].loss);
      options.threads = threads;
      seen here = {.stop = {.after = threads * 2 + 1}}, rest = {.stop = {.after = -1}};
      if (threads > 1) train_targets(kCases[i].kind, options, kCases[i].last, &here, BRAID_CANCELLED);
      uint64_t now = train_targets(kCases[i].kind, options, kCases[i].last, &rest, BRAID_OK);
      if (threads > 1) assert_true(now == bits);
      bits = now;
    }
  }
}

/* The loss of a labels' network that ends in Sigmoid is the same as without it. */
static void test_sigmoid(void **state) {
  (void)state;
  braid_train_options options = options_for("sigmoid", BRAID_BINARY_CROSS_ENTROPY);
  options.out_directory = NULL;
  options.resume = false;
  seen with = {.stop = {.after = -1}}, without = {.stop = {.after = -1}};
  uint64_t bits = train_targets(BRAID_TARGET_LABELS, options, "Sigmoid", &with, BRAID_OK);
  assert_true(train_targets(BRAID_TARGET_LABELS, options, NULL, &without, BRAID_OK) == bits);
  assert_float_equal(with.tested.loss, without.tested.loss, 1e-6);
  assert_true(with.tested.exact_match == without.tested.exact_match);
  assert_true(with.tested.accuracy == without.tested.accuracy);
}

/* --- what a test measures, from the scores themselves --------------------------------------------------------------
 */
static void scores_of(const braid_graph *model, braid_dataset *data, float *scores, float *targets) {
  static float images[kSamples * kPixels];
  braid_graph *graph;
  braid_session *session;
  ok(braid_graph_clone(model, &graph));
  ok(braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 4, (int64_t[]){kSamples, 3, 32, 32}));
  for (int64_t i = 0; i < kSamples; i++)
    ok(braid_dataset_sample(data, i, images + i * kPixels, targets + i * kClasses));
  ok(braid_session_create(graph, &(braid_session_options){.threads = 1, .registry = registry}, &session));
  ok(braid_session_run(session, (const void *[]){images}, (void *[]){scores}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void test_labels(void **state) {
  (void)state;
  static float scores[kSamples * kClasses], targets[kSamples * kClasses];
  braid_dataset *data = made(BRAID_TARGET_LABELS, "test");
  braid_graph *graph = scores_network(NULL);
  braid_test_result r;
  ok(braid_test(graph, data, 40, &(braid_session_options){.registry = registry}, NULL, NULL, &r));
  scores_of(graph, data, scores, targets);
  double loss = 0;
  int right = 0, exact = 0;
  for (int i = 0; i < kSamples; i++) {
    int here = 0;
    for (int c = 0; c < kClasses; c++) {
      double p = 1 / (1 + exp(-(double)scores[i * kClasses + c])), t = targets[i * kClasses + c];
      loss -= t * log(p) + (1 - t) * log(1 - p);
      here += (p > 0.5) == (t > 0.5);
    }
    right += here;
    exact += here == kClasses;
  }
  assert_float_equal(r.loss, loss / (kSamples * kClasses), 1e-6);
  assert_float_equal(r.accuracy, (double)right / (kSamples * kClasses), 1e-12);
  assert_float_equal(r.exact_match, (double)exact / kSamples, 1e-12);
  assert_null(r.confusion);
  assert_true(isnan(r.mse) && isnan(r.top5) && r.worst_label[0] == -1);
  braid_test_result_deinit(&r);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

static void test_numbers(void **state) {
  (void)state;
  static float scores[kSamples * kClasses], targets[kSamples * kClasses];
  braid_dataset *data = made(BRAID_TARGET_NUMBERS, "test");
  braid_graph *graph = scores_network(NULL);
  braid_test_result r;
  ok(braid_test(graph, data, 40, &(braid_session_options){.registry = registry}, NULL, NULL, &r));
  scores_of(graph, data, scores, targets);
  double r2 = 0, mse = 0, mae = 0;
  for (int c = 0; c < kClasses; c++) {
    double mean = 0, squares = 0, errors = 0;
    for (int i = 0; i < kSamples; i++) mean += (double)targets[i * kClasses + c] / kSamples;
    for (int i = 0; i < kSamples; i++) {
      double t = targets[i * kClasses + c], d = scores[i * kClasses + c] - t;
      squares += (t - mean) * (t - mean);
      errors += d * d;
      mae += fabs(d) / (kSamples * kClasses);
    }
    mse += errors / (kSamples * kClasses);
    r2 += (1 - errors / squares) / kClasses;
  }
  assert_float_equal(r.mse, mse, 1e-6);
  assert_float_equal(r.loss, mse, 1e-6);
  assert_float_equal(r.mae, mae, 1e-6);
  assert_float_equal(r.r2, r2, 1e-5);
  assert_null(r.per_class);
  assert_true(isnan(r.accuracy) && isnan(r.f1) && r.worst_count > 0);
  braid_test_result_deinit(&r);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

/* --- what is refused -----------------------------------------------------------------------------------------------
 */
static void refuse(braid_target_kind kind, braid_train_options options, const char *detail) {
  braid_dataset *data = made(kind, "train");
  braid_graph *graph = scores_network(NULL);
  braid_trainer *trainer;
  options.out_directory = NULL;
  options.resume = options.balance_classes = false;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  if (!strstr(braid_error_detail(), detail)) fail_msg("%s", braid_error_detail());
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

static void test_refused(void **state) {
  (void)state;
  static const double kWeights[3] = {1, 2, 3};
  refuse(BRAID_TARGET_LABELS, options_for("", BRAID_CROSS_ENTROPY), "not of targets that are labels");
  refuse(BRAID_TARGET_NUMBERS, options_for("", BRAID_BINARY_CROSS_ENTROPY), "squared-error is");
  refuse(BRAID_TARGET_LABELS, options_for("", BRAID_HUBER), "binary-cross-entropy is");
  braid_train_options options = options_for("", BRAID_BINARY_CROSS_ENTROPY);
  options.label_noise = 0.1;
  refuse(BRAID_TARGET_LABELS, options, "label noise");
  options = options_for("", BRAID_BINARY_CROSS_ENTROPY);
  options.positive_weights = kWeights;
  options.positive_weight_count = 3;
  refuse(BRAID_TARGET_LABELS, options, "3 positive weights");
  static const double kNothing[kClasses] = {0};
  options = options_for("", BRAID_BINARY_CROSS_ENTROPY);
  options.balance_classes = false;
  options.class_weights = kNothing;
  options.class_weight_count = kClasses;
  refuse(BRAID_TARGET_LABELS, options, "class weights of 0 alone");
  options = options_for("", BRAID_SQUARED_ERROR);
  options.monitor = BRAID_MONITOR_ACCURACY;
  refuse(BRAID_TARGET_NUMBERS, options, "no accuracy");
}

static braid_status read_wrong(void *context, int64_t index, float *pixels, float *targets) {
  (void)index;
  *pixels = 0;
  targets[0] = 1;
  targets[1] = *(float *)context;
  return BRAID_OK;
}

static void test_wrong_targets(void **state) {
  (void)state;
  static const float kWrong[] = {1.5f, -0.5f, NAN, INFINITY};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    float value = kWrong[i], pixel, targets[2];
    braid_dataset *dataset;
    braid_dataset_source source = {.name = "wrong",
                                   .samples = 1,
                                   .channels = 1,
                                   .height = 1,
                                   .width = 1,
                                   .classes = 2,
                                   .context = &value,
                                   .target = i < 2 ? BRAID_TARGET_LABELS : BRAID_TARGET_NUMBERS,
                                   .read_targets = read_wrong};
    ok(braid_dataset_create(NULL, &source, NULL, &dataset));
    assert_int_equal(braid_dataset_sample(dataset, 0, &pixel, targets), BRAID_INVALID_FILE);
    assert_non_null(strstr(braid_error_detail(), "target 1 (1) of sample 0"));
    braid_dataset_close(dataset);
    source.read_targets = NULL;
    assert_int_equal(braid_dataset_create(NULL, &source, NULL, &dataset), BRAID_INVALID_ARGUMENT);
  }
}

/* --- where numbers stop being finite -------------------------------------------------------------------------------
 */
enum { kSmall = 16, kSpoiled = 10 };

static braid_status read_pixels(void *context, int64_t index, float *pixels, int32_t *label) {
  for (int i = 0; i < kSmall; i++) pixels[i] = (float)((index * 7 + i * 3) % 11) / 11;
  if (context && index == kSpoiled) pixels[5] = NAN;
  *label = (int32_t)(index % 2);
  return BRAID_OK;
}

static void expect_not_finite(const char *name, bool spoiled, braid_train_options options, const char *detail) {
  braid_dataset_source source = {.name = name,
                                 .samples = 64,
                                 .channels = 1,
                                 .height = 4,
                                 .width = 4,
                                 .classes = 2,
                                 .context = spoiled ? &source : NULL,
                                 .read = read_pixels};
  braid_dataset *data;
  braid_graph *graph;
  braid_trainer *trainer;
  braid_value_id x;
  ok(braid_dataset_create(NULL, &source, NULL, &data));
  ok(braid_graph_create(NULL, name, &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 1, 4, 4}}, &x));
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "w", 2, (int64_t[]){kSmall, 2}, 0.1f, 0)}, 2, NULL);
  ok(braid_graph_add_output(graph, x));
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  stop_at never = {.after = -1};
  assert_int_equal(braid_trainer_run(trainer, stop_after, &never), BRAID_NOT_FINITE);
  if (!strstr(braid_error_detail(), detail)) fail_msg("\"%s\" is not in: %s", detail, braid_error_detail());
  braid_trainer_destroy(trainer);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

/* Of two samples that mixup mixes both show the NaN; the one that holds it is named. A batch of classes that weigh
 * nothing has the loss 0 / 0, as PyTorch's. */
static void test_what_is_not_finite(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed < 7; seed++) {
    braid_train_options options = options_for("mixed", BRAID_CROSS_ENTROPY);
    options.out_directory = NULL;
    options.resume = false;
    options.seed = seed;
    options.batch = 16;
    options.mixup = 0.4;
    expect_not_finite("mixed", true, options, "sample 10 of the data set");
  }
  static const double kWeights[2] = {0, 1};
  braid_train_options options = options_for("weightless", BRAID_CROSS_ENTROPY);
  options.out_directory = NULL;
  options.resume = false;
  options.batch = 1;
  options.class_weights = kWeights;
  options.class_weight_count = 2;
  expect_not_finite("weightless", false, options, "of classes whose class weight is 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_not_finite),
                                     cmocka_unit_test(test_resume),
                                     cmocka_unit_test(test_sigmoid),
                                     cmocka_unit_test(test_labels),
                                     cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_wrong_targets)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
