/* Tests over several views of a sample, of a network that hands its pictures of 3x3 pixels on as nine scores: the loss
 * of each sample is that of the mean of its views, which are written out here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "graph/graph.h"
#include "train/trainer.h"
#include "train/views.h"

enum { kSamples = 23, kSide = 3, kClasses = kSide * kSide, kSeed = 11 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static float pixel(int64_t index, int i) {
  return 4 * braid_random_uniform(kSeed, 0, 1, (uint64_t)(index * kClasses + i));
}

static braid_status read_sample(void *context, int64_t index, float *pixels, int32_t *label) {
  (void)context;
  for (int i = 0; i < kClasses; i++) pixels[i] = pixel(index, i);
  *label = (int32_t)(index % kClasses);
  return BRAID_OK;
}

static braid_dataset *open_data(const char *keys) {
  const braid_dataset_source source = {.name = "squares",
                                       .samples = kSamples,
                                       .channels = 1,
                                       .height = kSide,
                                       .width = kSide,
                                       .classes = kClasses,
                                       .read = read_sample};
  braid_dataset *dataset;
  ok(braid_dataset_create(NULL, &source, keys, &dataset));
  return dataset;
}

static braid_graph *network(const char *last) {
  braid_graph *graph;
  braid_value_id value;
  ok(braid_graph_create(NULL, "handed on", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 1, kSide, kSide}},
                           &value));
  ok(braid_graph_add_node(graph, "Flatten", NULL, &value, 1, &value, 1, NULL));
  if (last) ok(braid_graph_add_node(graph, last, NULL, &value, 1, &value, 1, NULL));
  ok(braid_graph_add_output(graph, value));
  return graph;
}

/* torch.nn.functional.pad(torch.arange(3.), (1, 1), mode="reflect") is 1 0 1 2 1: windows at 0, 1 and 2. */
static const int kLines[3][kSide] = {{1, 0, 1}, {0, 1, 2}, {1, 2, 1}};

static double mean_score(int64_t index, int c, bool flips, bool shifts) {
  double sum = 0;
  for (int shift = 0; shift < 3; shift++)
    for (int flip = 0; flip < 2; flip++) {
      double weight = (shifts ? shift == 1 ? 0.5 : 0.25 : shift == 1) * (flips ? 0.5 : flip == 0);
      int y = c / kSide, x = flip ? kSide - 1 - c % kSide : c % kSide;
      sum += weight * (double)pixel(index, kLines[shift][y] * kSide + kLines[shift][x]);
    }
  return sum;
}

static void expect(const char *keys, bool flips, bool shifts, const char *last, int64_t batch) {
  double loss = 0, correct = 0;
  for (int64_t i = 0; i < kSamples; i++) {
    double scores[kClasses], sum = 0;
    int guess = 0, label = (int)(i % kClasses);
    for (int c = 0; c < kClasses; c++) {
      scores[c] = mean_score(i, c, flips, shifts);
      sum += exp(scores[c]);
      if (scores[c] > scores[guess] + 1e-5) guess = c; /* of equal ones, such as both of a flip, the first */
    }
    loss += (log(sum) - scores[label]) / kSamples;
    correct += (double)(guess == label) / kSamples;
  }
  braid_dataset *dataset = open_data(keys);
  braid_graph *graph = network(last);
  braid_test_result result;
  ok(braid_test(graph, dataset, batch, NULL, NULL, NULL, &result));
  assert_int_equal(result.samples, kSamples);
  if (!(fabs(result.loss - loss) < 1e-5)) fail_msg("%s: loss %.9g, %.9g expected", keys, result.loss, loss);
  if (!(fabs(result.accuracy - correct) < 1e-9)) fail_msg("%s: %.9g, %.9g expected", keys, result.accuracy, correct);
  braid_test_result_deinit(&result);
  braid_graph_destroy(graph);
  braid_dataset_close(dataset);
}

static void test_means(void **state) {
  (void)state;
  static const char *const kLasts[] = {NULL, "Softmax", "LogSoftmax"};
  for (int last = 0; last < 3; last++)
    for (int64_t batch = 4; batch <= 32; batch *= 8) {
      expect("", false, false, kLasts[last], batch);
      expect("views=flip", true, false, kLasts[last], batch);
      expect("views=shift", false, true, kLasts[last], batch);
      expect("views=flip+shift", true, true, kLasts[last], batch);
    }
}

static void test_weights(void **state) {
  (void)state;
  for (int which = 0; which < 4; which++) {
    braid_view views[BRAID_MOST_VIEWS];
    size_t count = braid_views_list(&(braid_spec){.view_flipped = which & 1, .view_shifted = which & 2}, views);
    float sum = 0;
    for (size_t i = 0; i < count; i++) sum += views[i].weight;
    assert_int_equal(count, (which & 1 ? 2 : 1) * (which & 2 ? 3 : 1));
    assert_true(sum == 1);
    assert_true(views[0].top == 0 && views[0].left == 0 && !views[0].mirrored);
  }
}

static void test_refused(void **state) {
  (void)state;
  const braid_dataset_source narrow = {
      .name = "narrow", .samples = 1, .channels = 1, .height = 2, .width = 9, .classes = 9, .read = read_sample};
  braid_dataset *dataset;
  assert_int_equal(braid_dataset_create(NULL, &narrow, "views=shift", &dataset), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "views=shift on pictures of 2x9; sides of 3 pixels are expected"));
  assert_int_equal(braid_dataset_open(NULL, "builtin:glyphs,views=mirror", "test", &dataset), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "flip, shift, or flip+shift is"));
  dataset = open_data("views=flip");
  braid_graph *graph = network(NULL);
  braid_test_result result;
  assert_int_equal(braid_test_loss(graph, NULL, dataset, 4, NULL, NULL, NULL, &result), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "views is of scores"));
  braid_graph_destroy(graph);
  braid_dataset_close(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_means), cmocka_unit_test(test_weights),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
