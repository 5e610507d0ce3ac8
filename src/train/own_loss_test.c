/* A loss that is an output of the model trains as the same loss does that the trainer adds, to the same bits. */
#include "train/trainer_fixture.h"

enum { kSamples = 100, kWide = 12, kNumbers = 3 };

static void give_output(braid_graph *graph, braid_value_id value, const char *name) {
  ok(braid_graph_rename_value(graph, value, name));
  ok(braid_graph_add_output(graph, value));
}

static braid_value_id add_truth(braid_graph *graph, braid_dtype dtype, int rank, int64_t each) {
  braid_value_id truth;
  ok(braid_graph_add_input(graph, "truth", &(braid_desc){.dtype = dtype, .rank = rank, .dims = {-1, each}}, &truth));
  return truth;
}

/* --- classes -------------------------------------------------------------------------------------------------------
 */
/* The network that ends in its scores, and in its loss unless `loss` is NULL. */
static braid_graph *classifier(const char *loss, braid_dtype labels, bool scores_too) {
  braid_graph *graph = network();
  braid_value_id scores = graph->nodes[graph->node_count - 1].inputs[0];
  graph->output_count = 0;
  if (!loss || scores_too) give_output(graph, scores, "scores");
  if (loss)
    give_output(graph, node(graph, loss, (braid_value_id[]){scores, add_truth(graph, labels, 1, 0)}, 2, NULL), "own");
  return graph;
}

static braid_train_options alone(braid_train_options options, braid_loss loss) {
  options.loss = loss;
  options.out_directory = NULL;
  options.average_decay = 0.9;
  options.accumulate = 2;
  return options;
}

static uint64_t train_classifier(braid_graph *graph, braid_train_options options, stop_at *stop) {
  stop->after = -1;
  uint64_t bits = train_model(graph, options, stop, BRAID_OK);
  braid_graph_destroy(graph);
  return bits;
}

static void test_classes(void **state) {
  (void)state;
  stop_at given, own, wide;
  memset(&given, 0, sizeof given);
  own = wide = given;
  braid_train_options options = alone(options_of(""), BRAID_CROSS_ENTROPY);
  uint64_t bits = train_classifier(classifier(NULL, 0, false), options, &given);
  options.loss = BRAID_OUTPUT_LOSS;
  assert_true(train_classifier(classifier("CrossEntropyLoss", BRAID_I32, false), options, &own) == bits);
  assert_true(own.last_loss == given.last_loss);
  assert_true(isnan(own.last.accuracy) && isnan(own.last.test_accuracy));
  assert_float_equal(own.last.test_loss, given.last.test_loss, 1e-5); /* a test's is computed in double */
  options.loss_output = "own"; /* ONNX's op, with int64 labels, beside other outputs */
  assert_true(train_classifier(classifier("SoftmaxCrossEntropyLoss", BRAID_I64, true), options, &wide) == bits);
  assert_true(wide.last_loss == given.last_loss && wide.last.test_loss == own.last.test_loss);
}

/* Weights of classes that the loss itself takes, and by `gathered` also those of each sample's class, a temperature of
 * the scores and one of the loss. */
static braid_graph *weighted(bool gathered) {
  braid_graph *graph = classifier(NULL, 0, false);
  braid_value_id x = graph->outputs[0], truth = add_truth(graph, BRAID_I64, 1, 0);
  graph->output_count = 0;
  if (gathered)
    x = node(graph, "Mul", (braid_value_id[]){x, constant(graph, "cool", 1, (int64_t[]){kClasses}, 0, 0.5f)}, 2, NULL);
  braid_value_id weights = constant(graph, "weights", 1, (int64_t[]){kClasses}, 0, 2);
  float *data = braid_tensor_data(graph->values[weights].tensor);
  for (int i = 0; i < kClasses; i++) data[i] = 1 + (float)(i % 3);
  braid_node_id id;
  x = node(graph, "SoftmaxCrossEntropyLoss", (braid_value_id[]){x, truth, weights}, 3, &id);
  if (gathered) {
    ok(braid_graph_set_string(graph, id, "reduction", "none"));
    braid_value_id each = constant(graph, "each", 1, (int64_t[]){kClasses}, 0.2f, 1);
    each = node(graph, "Exp", &each, 1, NULL);
    each = node(graph, "Gather", (braid_value_id[]){each, truth}, 2, NULL);
    x = node(graph, "Mul", (braid_value_id[]){x, each}, 2, NULL);
    x = node(graph, "Div", (braid_value_id[]){x, constant(graph, "warm", 1, (int64_t[]){1}, 0, 2)}, 2, NULL);
    x = node(graph, "ReduceMean", &x, 1, &id);
    ok(braid_graph_set_int(graph, id, "keepdims", 0));
  }
  give_output(graph, x, "own");
  return graph;
}

static void expect_fixed(const braid_graph *graph, const char *name, bool fixed) {
  const braid_value *value = &graph->values[braid_graph_find_value(graph, name)];
  if ((value->kind == BRAID_VALUE_CONSTANT) != fixed) fail_msg("%s %s", name, fixed ? "trains" : "stays");
  if (fixed) assert_non_null(strstr(value->fixed, "a number of the loss"));
}

/* The numbers of a loss are part of what is asked, not of the answer: as with the trainer's own class weights, to the
 * same bits. */
static void test_constants_of_the_loss(void **state) {
  (void)state;
  static const double kWeights[kClasses] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1};
  stop_at given, own;
  memset(&given, 0, sizeof given);
  own = given;
  braid_train_options options = alone(options_of(""), BRAID_CROSS_ENTROPY);
  options.class_weights = kWeights;
  options.class_weight_count = kClasses;
  uint64_t bits = train_classifier(classifier(NULL, 0, false), options, &given);
  options = alone(options_of(""), BRAID_OUTPUT_LOSS);
  assert_true(train_classifier(weighted(false), options, &own) == bits);
  assert_true(own.last_loss == given.last_loss);
  for (int noted = 0; noted < 2; noted++) { /* by the exporter, as parameters */
    braid_graph *graph = weighted(true), *copy;
    static const char *const kOfLoss[] = {"weights", "each", "warm"};
    for (size_t i = 0; i < 3 && noted; i++)
      graph->values[braid_graph_find_value(graph, kOfLoss[i])].origin = BRAID_ORIGIN_PARAMETER;
    ok(braid_trainable_copy_for(graph, &options, &copy));
    for (size_t i = 0; i < 3; i++) expect_fixed(copy, kOfLoss[i], !noted);
    expect_fixed(copy, "cool", false);
    expect_fixed(copy, "full", false);
    braid_graph_destroy(copy);
    braid_graph_destroy(graph);
  }
}

/* Of a batch that is not full the loss is that of its samples. */
static void test_mean(void **state) {
  (void)state;
  static const int64_t kBatches[] = {320, 64, 48, 7};
  braid_session_options place = {.registry = registry};
  braid_dataset *data = glyphs("test");
  braid_graph *scores = classifier(NULL, 0, false), *own = classifier("SoftmaxCrossEntropyLoss", BRAID_I64, true);
  braid_test_result expected, result;
  ok(braid_test(scores, data, 64, &place, NULL, NULL, &expected));
  for (size_t i = 0; i < sizeof kBatches / sizeof *kBatches; i++) {
    ok(braid_test_loss(own, "own", data, kBatches[i], &place, NULL, NULL, &result));
    assert_int_equal(result.samples, expected.samples);
    assert_float_equal(result.loss, expected.loss, 1e-5 * expected.loss);
    assert_true(isnan(result.accuracy) && result.classes == 0 && !result.per_class);
    braid_test_result_deinit(&result);
  }
  braid_test_result_deinit(&expected);
  braid_graph_destroy(scores);
  braid_graph_destroy(own);
  braid_dataset_close(data);
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
static braid_status read_numbers(void *context, int64_t index, float *pixels, float *targets) {
  (void)context;
  for (int i = 0; i < kWide; i++) pixels[i] = braid_random_normal(kSeed, 1, (uint32_t)index, (uint64_t)i);
  for (int i = 0; i < kNumbers; i++) targets[i] = pixels[i] * pixels[i + 1] - 0.5f;
  return BRAID_OK;
}

static braid_dataset *numbers(void) {
  braid_dataset *dataset;
  braid_dataset_source source = {.name = "numbers",
                                 .samples = kSamples,
                                 .channels = 1,
                                 .height = 1,
                                 .width = kWide,
                                 .classes = kNumbers,
                                 .target = BRAID_TARGET_NUMBERS,
                                 .read_targets = read_numbers};
  ok(braid_dataset_create(NULL, &source, NULL, &dataset));
  return dataset;
}

static braid_graph *regression(bool own) {
  braid_graph *graph;
  braid_value_id x;
  braid_node_id id;
  ok(braid_graph_create(NULL, "regression", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {-1, kWide}}, &x));
  x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "in", 2, (int64_t[]){kWide, 16}, 0.3f, 0)}, 2, NULL);
  x = node(graph, "Tanh", &x, 1, NULL);
  x = node(graph, "MatMul", (braid_value_id[]){x, constant(graph, "back", 2, (int64_t[]){16, kNumbers}, 0.3f, 0)}, 2,
           NULL);
  if (own) {
    x = node(graph, "Sub", (braid_value_id[]){x, add_truth(graph, BRAID_F32, 2, kNumbers)}, 2, NULL);
    x = node(graph, "Mul", (braid_value_id[]){x, x}, 2, NULL);
    x = node(graph, "ReduceMean", &x, 1, &id);
    ok(braid_graph_set_int(graph, id, "keepdims", 1)); /* one number of rank 2 */
  }
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static uint64_t train_numbers(braid_train_options options, stop_at *stop, braid_status expected) {
  braid_dataset *data = numbers();
  braid_graph *graph = regression(options.loss == BRAID_OUTPUT_LOSS);
  braid_trainer *trainer;
  ok(braid_trainer_create(graph, data, data, &options, &trainer));
  braid_status status = braid_trainer_run(trainer, stop_after, stop);
  if (status != expected) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
  uint64_t bits = bits_of(trainer);
  braid_trainer_destroy(trainer);
  braid_graph_destroy(graph);
  braid_dataset_close(data);
  return bits;
}

static void test_numbers(void **state) {
  (void)state;
  stop_at given = {.after = -1}, whole = {.after = -1}, first = {.after = 4}, rest = {.after = -1};
  braid_train_options options = options_of("numbers");
  options.out_directory = NULL;
  options.loss = BRAID_SQUARED_ERROR;
  uint64_t bits = train_numbers(options, &given, BRAID_OK);
  options = options_of("numbers");
  options.loss = BRAID_OUTPUT_LOSS;
  options.patience = 5;
  assert_true(train_numbers(options, &whole, BRAID_OK) == bits);
  assert_true(whole.last_loss == given.last_loss);
  assert_float_equal(whole.last.test_loss, given.last.test_loss, 1e-6);
  /* Stopped and resumed with other threads. */
  options.resume = true;
  options.threads = 2;
  char path[128];
  snprintf(path, sizeof path, "%s/resumed", folder);
  options.out_directory = path;
  train_numbers(options, &first, BRAID_CANCELLED);
  options.threads = 1;
  assert_true(train_numbers(options, &rest, BRAID_OK) == bits);
  assert_true(rest.last.test_loss == whole.last.test_loss);
}

/* --- what is refused -----------------------------------------------------------------------------------------------
 */
static void refuse(braid_graph *graph, braid_train_options options, const char *detail) {
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  assert_int_not_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_OK);
  if (!strstr(braid_error_detail(), detail)) fail_msg("\"%s\" is not in: %s", detail, braid_error_detail());
  braid_graph_destroy(graph);
  braid_dataset_close(data);
}

static void test_refused(void **state) {
  (void)state;
  const char *const kLoss = "SoftmaxCrossEntropyLoss";
  braid_train_options options = options_of("");
  options.out_directory = NULL;
  options.loss = BRAID_OUTPUT_LOSS;
  refuse(classifier(NULL, 0, false), options, "the model has 1 input; two, the samples and their targets");
  refuse(classifier(kLoss, BRAID_I64, true), options, "the model has 2 outputs (scores, own)");
  options.loss_output = "gain";
  refuse(classifier("CrossEntropyLoss", BRAID_I32, false), options, "the model has no output gain; it has own");
  options.loss_output = "scores";
  refuse(classifier(kLoss, BRAID_I64, true), options, "output scores is float32[32,10]; a loss is one floating-point");
  options.loss_output = NULL;
  refuse(regression(true), options, "samples of 3 x 32 x 32");
  braid_graph *graph = classifier(NULL, 0, false);
  add_truth(graph, BRAID_F32, 2, kClasses);
  refuse(graph, options, "input truth takes the targets and is float32; for targets that are classes int64 or int32");
  graph = classifier(NULL, 0, false);
  add_truth(graph, BRAID_I64, 2, kClasses);
  refuse(graph, options, "the batch first and 1 for each sample are expected");
  options.monitor = BRAID_MONITOR_ACCURACY;
  refuse(classifier(kLoss, BRAID_I64, false), options, "no accuracy to compare epochs by");
  options.monitor = BRAID_MONITOR_LOSS;
  options.mixup = 0.2;
  refuse(classifier(kLoss, BRAID_I64, false), options, "mixup");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes), cmocka_unit_test(test_constants_of_the_loss),
                                     cmocka_unit_test(test_mean), cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
