/* What is reported of a test, on scores that the test itself chose: a network that hands its input on, and images that
 * are the scores. Batch sizes that divide the samples and that do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/philox.h"
#include "graph/graph.h"
#include "skip.h"
#include "tensor/npy.h"
#include "train/data/dataset.h"
#include "train/report/report.h"
#include "train/trainer.h"

enum { kSamples = 103, kClasses = 9, kTopFive = 5 };
static char folder[] = "/tmp/braid-evaluate-XXXXXX";
static float scores[kSamples][kClasses];
static int32_t labels[kSamples];

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void save(const char *name, braid_dtype dtype, int rank, const int64_t *dims, const void *data) {
  char path[128];
  braid_desc desc;
  braid_tensor *tensor;
  ok(braid_desc_init(&desc, dtype, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  memcpy(braid_tensor_data(tensor), data, braid_desc_bytes(&desc));
  snprintf(path, sizeof path, "%s/%s", folder, name);
  ok(braid_npy_save(path, tensor));
  braid_tensor_release(tensor);
}

static int make_data(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  for (int i = 0; i < kSamples; i++) {
    labels[i] = i == 0 ? kClasses - 1 : (int32_t)braid_random_below(3, 0, 0, (uint64_t)i, kClasses);
    for (int c = 0; c < kClasses; c++)
      scores[i][c] = 6 * braid_random_uniform(3, 0, 1, (uint64_t)(i * kClasses + c)) + (c == labels[i] ? 2.0f : 0);
  }
  save("x.npy", BRAID_F32, 4, (int64_t[]){kSamples, 1, 1, kClasses}, scores);
  save("labels.npy", BRAID_I32, 1, (int64_t[]){kSamples}, labels);
  return 0;
}

static int remove_data(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static braid_dataset *open_data(void) {
  char spec[256];
  braid_dataset *dataset;
  snprintf(spec, sizeof spec, "npy:%s/x.npy+%s/labels.npy", folder, folder);
  ok(braid_dataset_open(NULL, spec, "test", &dataset));
  return dataset;
}

/* What stands behind the scores: nothing that changes what they say. */
static const char *const kTails[] = {"",         "Identity",           "Reshape",          "Flatten",
                                     "Cast f64", "Cast f64, Identity", "Reshape, Cast f64"};

static braid_value_id add_tail(braid_graph *graph, const char *tail, braid_value_id value) {
  braid_value_id inputs[2] = {value};
  braid_node_id cast;
  if (strstr(tail, "Reshape")) {
    ok(braid_graph_add_int64s(graph, (int64_t[]){-1, kClasses, 1, 1}, 4, &inputs[1]));
    ok(braid_graph_add_node(graph, "Reshape", NULL, inputs, 2, &value, 1, NULL));
  }
  if (strstr(tail, "Flatten")) ok(braid_graph_add_node(graph, "Flatten", NULL, &value, 1, &value, 1, NULL));
  if (strstr(tail, "Cast")) {
    ok(braid_graph_add_node(graph, "Cast", NULL, &value, 1, &value, 1, &cast));
    ok(braid_graph_set_int(graph, cast, "to", 11)); /* ONNX's DOUBLE */
  }
  if (strstr(tail, "Identity")) ok(braid_graph_add_node(graph, "Identity", NULL, &value, 1, &value, 1, NULL));
  return value;
}

/* Closes the data set. */
static void evaluate_on(braid_dataset *dataset, const char *last, const char *tail, int64_t batch,
                        braid_test_result *result) {
  braid_graph *graph;
  braid_value_id value;
  ok(braid_graph_create(NULL, "handed on", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 1, 1, kClasses}},
                           &value));
  ok(braid_graph_add_node(graph, "Flatten", NULL, &value, 1, &value, 1, NULL));
  if (last) ok(braid_graph_add_node(graph, last, NULL, &value, 1, &value, 1, NULL));
  ok(braid_graph_add_output(graph, add_tail(graph, tail, value)));
  ok(braid_test(graph, dataset, batch, NULL, NULL, NULL, result));
  braid_graph_destroy(graph);
  braid_dataset_close(dataset);
}

static void evaluate(const char *last, const char *tail, int64_t batch, braid_test_result *result) {
  evaluate_on(open_data(), last, tail, batch, result);
}

/* The same from the scores, each sample for itself. */
typedef struct counted {
  double loss[kSamples], mean;
  int guess[kSamples], correct, top;
  int64_t confusion[kClasses][kClasses];
} counted;

static counted count(void) {
  counted all = {.mean = 0};
  for (int i = 0; i < kSamples; i++) {
    double sum = 0;
    int better = 0;
    for (int c = 0; c < kClasses; c++) {
      sum += exp((double)scores[i][c] - scores[i][labels[i]]);
      better += scores[i][c] > scores[i][labels[i]];
      if (scores[i][c] > scores[i][all.guess[i]]) all.guess[i] = c;
    }
    all.loss[i] = log(sum);
    all.mean += all.loss[i] / kSamples;
    all.correct += better == 0;
    all.top += better < kTopFive;
    all.confusion[labels[i]][all.guess[i]]++;
  }
  return all;
}

/* By the definitions: pairs of samples one by one, and counts of each class. */
static void check_classes(const braid_test_result *result, const counted *all) {
  double sums[4] = {0};
  for (int c = 0; c < kClasses; c++) {
    int64_t of = 0, guessed = 0, both = 0, pairs = 0, won_twice = 0;
    for (int i = 0; i < kSamples; i++) {
      of += labels[i] == c;
      guessed += all->guess[i] == c;
      both += labels[i] == c && all->guess[i] == c;
      double mine = log(1 / exp(all->loss[i])) + (double)scores[i][c] - scores[i][labels[i]];
      for (int k = 0; k < kSamples && labels[i] == c; k++) {
        if (labels[k] == c) continue;
        double other = log(1 / exp(all->loss[k])) + (double)scores[k][c] - scores[k][labels[k]];
        pairs++;
        won_twice += fabs(mine - other) < 1e-12 ? 1 : mine > other ? 2 : 0;
      }
    }
    double precision = guessed ? (double)both / (double)guessed : 0, recall = (double)both / (double)of;
    double f1 = both ? 2 * precision * recall / (precision + recall) : 0, auc = (double)won_twice / 2 / (double)pairs;
    const braid_class_result *r = &result->per_class[c];
    assert_int_equal(r->samples, of);
    assert_int_equal(r->guessed, guessed);
    assert_float_equal(r->precision, precision, 1e-12);
    assert_float_equal(r->recall, recall, 1e-12);
    assert_float_equal(r->f1, f1, 1e-12);
    assert_float_equal(r->auc, auc, 1e-12);
    sums[0] += precision, sums[1] += recall, sums[2] += f1, sums[3] += auc;
  }
  assert_float_equal(result->precision, sums[0] / kClasses, 1e-12);
  assert_float_equal(result->recall, sums[1] / kClasses, 1e-12);
  assert_float_equal(result->f1, sums[2] / kClasses, 1e-12);
  assert_float_equal(result->auc, sums[3] / kClasses, 1e-12);
  assert_float_equal(braid_test_top(result, 1), result->accuracy, 1e-12);
  assert_float_equal(braid_test_top(result, kTopFive), result->top5, 1e-12);
  assert_float_equal(braid_test_top(result, kClasses), 1, 1e-12);
}

static void check_result(const braid_test_result *result, const counted *all) {
  assert_int_equal(result->samples, kSamples);
  assert_int_equal(result->classes, kClasses);
  assert_float_equal(result->loss, all->mean, 1e-5);
  assert_float_equal(result->accuracy, (double)all->correct / kSamples, 1e-12);
  assert_float_equal(result->top5, (double)all->top / kSamples, 1e-12);
  assert_memory_equal(result->confusion, all->confusion, sizeof all->confusion);
  check_classes(result, all);
  int wrong = kSamples - all->correct;
  assert_true(wrong > 24); /* more than are kept */
  assert_int_equal(result->worst_count, 24);
  for (int64_t k = 0; k < result->worst_count; k++) {
    int64_t i = result->worst_index[k];
    int worse = 0;
    for (int j = 0; j < kSamples; j++) worse += all->guess[j] != labels[j] && all->loss[j] > all->loss[i];
    assert_int_equal(worse, k);
    assert_float_equal(result->worst_loss[k], all->loss[i], 1e-5);
    assert_int_equal(result->worst_label[k], labels[i]);
    assert_int_equal(result->worst_guess[k], all->guess[i]);
  }
}

static void test_counts(void **state) {
  (void)state;
  static const char *const kLast[] = {NULL, "Softmax", "LogSoftmax"};
  static const int64_t kBatches[] = {1, 10, kSamples, 1000};
  counted all = count();
  assert_true(all.correct < all.top && all.top < kSamples);
  for (size_t l = 0; l < sizeof kLast / sizeof *kLast; l++)
    for (size_t t = 0; t < sizeof kTails / sizeof *kTails; t++)
      for (size_t b = 0; b < sizeof kBatches / sizeof *kBatches; b++) {
        braid_test_result result;
        evaluate(kLast[l], kTails[t], kBatches[b], &result);
        check_result(&result, &all);
        braid_test_result_deinit(&result);
      }
}

static void expect_row(const char *html, const char *name, const char *format, double value) {
  char number[64], row[192];
  snprintf(number, sizeof number, format, value);
  snprintf(row, sizeof row, "<tr><td>%s</td><td>%s</td></tr>", name, number);
  if (!strstr(html, row)) fail_msg("the report has no %s", row);
}

/* Every picture and chart is also in words, and every colour follows the reader's mode: the numbers of colours stand in
 * the two lists of variables only. */
static void check_access(const char *html, const braid_dataset_info *info, const braid_test_result *result) {
  size_t pictures = 0, charts = 0;
  for (const char *at = html; (at = strstr(at, "<img ")); at++, pictures++) {
    char alt[160];
    snprintf(alt, sizeof alt, "<img alt=\"Sample %lld: %s, taken for %s\"", (long long)result->worst_index[pictures],
             info->class_names[result->worst_label[pictures]], info->class_names[result->worst_guess[pictures]]);
    assert_memory_equal(at, alt, strlen(alt));
  }
  assert_true(pictures > 0 && pictures == (size_t)result->worst_count);
  for (const char *at = html; (at = strstr(at, "<svg ")); at++, charts++)
    assert_memory_equal(strchr(at, '>') + 1, "<title>", 7);
  assert_int_equal(charts, 3); /* none of the accuracy, which no epoch has */
  assert_non_null(strstr(html, "<title>Loss: training from 2.5 to 0.75, test not measured; 2 epochs</title>"));
  assert_non_null(strstr(html, "@media(prefers-color-scheme:dark){:root{--page:"));
  const char *body = strstr(html, "background:var(--page)");
  assert_non_null(body);
  for (const char *at = body; (at = strpbrk(at, "#r")); at++) {
    if (*at == '#') assert_true(at[-1] == '&'); /* an entity */
    if (strncmp(at, "rgb", 3) == 0) assert_true(strncmp(strchr(at, '(') + 1, "var(--", 6) == 0);
  }
}

/* The report says the same numbers. */
static void test_report(void **state) {
  (void)state;
  char path[128];
  counted all = count();
  braid_test_result result;
  braid_train_options options;
  double rows[2][BRAID_RECORD_COLUMNS];
  for (size_t i = 0; i < BRAID_RECORD_COLUMNS; i++) rows[0][i] = rows[1][i] = NAN;
  rows[0][BRAID_RECORD_LOSS] = 2.5;
  rows[1][BRAID_RECORD_LOSS] = 0.75;
  braid_record record = {.rows = rows, .count = 2};
  braid_dataset *dataset = open_data();
  braid_train_options_init(&options);
  evaluate(NULL, "", 10, &result);
  snprintf(path, sizeof path, "%s/report.html", folder);
  ok(braid_report_write(NULL, path,
                        &(braid_report){.title = "scores",
                                        .options = &options,
                                        .record = &record,
                                        .test = dataset,
                                        .result = &result,
                                        .parameters = 12345}));
  braid_file_view view;
  ok(braid_file_open(NULL, path, 0, &view));
  char *html = braid_zalloc(NULL, view.bytes + 1);
  assert_non_null(html);
  memcpy(html, view.data, view.bytes);
  braid_file_close(&view);
  expect_row(html, "test accuracy", "%.2f %%", 100.0 * all.correct / kSamples);
  expect_row(html, "test loss", "%.4f", all.mean);
  expect_row(html, "F1, mean over classes", "%.4f", result.f1);
  expect_row(html, "area under the ROC curve, mean over classes", "%.4f", result.auc);
  expect_row(html, "test samples", "%.0f", kSamples);
  expect_row(html, "parameters", "%.0f", 12345);
  expect_row(html, "learning rate", "%g", options.learning_rate);
  braid_dataset_info info = braid_dataset_get_info(dataset);
  check_access(html, &info, &result);
  braid_free(NULL, html);
  braid_test_result_deinit(&result);
  braid_dataset_close(dataset);
}

/* NaN is below nothing and above nothing: a sample with such a score is right by no count, and none of them skips it.
 * The last test: it spoils two samples, one of them in another class than its own. */
static void test_nan(void **state) {
  (void)state;
  static const char *const kLast[] = {NULL, "LogSoftmax", "Softmax"};
  counted all = count();
  const int spoiled[] = {5, 17};
  for (int i = 0; i < 2; i++) {
    all.correct -= all.guess[spoiled[i]] == labels[spoiled[i]];
    scores[spoiled[i]][(labels[spoiled[i]] + i) % kClasses] = NAN;
  }
  save("x.npy", BRAID_F32, 4, (int64_t[]){kSamples, 1, 1, kClasses}, scores);
  for (size_t l = 0; l < sizeof kLast / sizeof *kLast; l++) {
    braid_test_result result;
    evaluate(kLast[l], "", 10, &result);
    assert_int_equal(result.unscored, 2);
    assert_int_equal(result.first_unscored, 5);
    assert_true(isnan(result.loss));
    assert_float_equal(result.accuracy, (double)all.correct / kSamples, 1e-12);
    assert_float_equal(braid_test_top(&result, kClasses), (double)(kSamples - 2) / kSamples, 1e-12);
    int64_t samples = 0, guessed = 0, unscored = 0;
    for (int c = 0; c < kClasses; c++) {
      samples += result.per_class[c].samples;
      guessed += result.per_class[c].guessed;
      unscored += result.per_class[c].unscored;
    }
    assert_int_equal(samples, kSamples);
    assert_int_equal(guessed, kSamples - 2);
    assert_int_equal(unscored, 2);
    assert_true(isinf(result.worst_loss[0]));
    assert_int_equal(result.worst_guess[0], -1);
    braid_test_result_deinit(&result);
  }
}

/* --- who reads ------------------------------------------------------------------------------------------------------
 */
enum { kMostReaders = 64 };
static pthread_mutex_t readers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t readers[kMostReaders];
static int reader_count;

/* So slowly that all threads take their part. */
static braid_status read_slowly(void *context, int64_t index, float *pixels, int32_t *label) {
  (void)context;
  pthread_mutex_lock(&readers_lock);
  int i = 0;
  while (i < reader_count && !pthread_equal(readers[i], pthread_self())) i++;
  if (i == reader_count && reader_count < kMostReaders) readers[reader_count++] = pthread_self();
  pthread_mutex_unlock(&readers_lock);
  nanosleep(&(struct timespec){0, 2000000}, NULL);
  memcpy(pixels, scores[index], sizeof scores[index]);
  *label = labels[index];
  return BRAID_OK;
}

/* A test reads by as many threads as a training, and with the same result as from memory. */
static void test_readers(void **state) {
  (void)state;
  if (braid_loader_usual_threads() == 1) skip_test("cpu", "one thread reads samples on this machine");
  const braid_dataset_source slow = {.name = "slow",
                                     .samples = kSamples,
                                     .channels = 1,
                                     .height = 1,
                                     .width = kClasses,
                                     .classes = kClasses,
                                     .read = read_slowly};
  braid_dataset *dataset;
  braid_test_result quick, result;
  ok(braid_dataset_create(NULL, &slow, NULL, &dataset));
  reader_count = 0;
  evaluate_on(dataset, NULL, "", 20, &result);
  assert_int_equal(reader_count, braid_loader_usual_threads());
  evaluate(NULL, "", 20, &quick);
  assert_true(quick.loss == result.loss && quick.accuracy == result.accuracy);
  assert_memory_equal(quick.confusion, result.confusion, sizeof(int64_t[kClasses][kClasses]));
  braid_test_result_deinit(&quick);
  braid_test_result_deinit(&result);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_report),
                                     cmocka_unit_test(test_readers), cmocka_unit_test(test_nan)};
  return skip_run_group_tests(tests, make_data, remove_data);
}
