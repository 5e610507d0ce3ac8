/* The metrics on numbers worked out by hand after scikit-learn's definitions (zero_division=0): with ties, a class that
 * nothing is taken for, one without samples, and scores that are not finite. */
#include "train/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

enum { kSamples = 8, kClasses = 4 };

static void test_classes(void **state) {
  (void)state;
  /* truth 0 0 0 1 1 2 2 2, guess 0 0 1 1 1 0 1 1; class 3 does not occur */
  int64_t confusion[kClasses * kClasses] = {2, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0},
                               ranks[kClasses] = {4, 3, 1, 0};
  braid_class_result of[kClasses] = {{0}};
  braid_test_result r = {
      .samples = kSamples, .classes = kClasses, .confusion = confusion, .ranks = ranks, .per_class = of};
  braid_metrics_count(&r);
  static const double kPrecision[] = {2.0 / 3, 0.4, 0, 0}, kRecall[] = {2.0 / 3, 1, 0, 0},
                      kF1[] = {2.0 / 3, 4.0 / 7, 0, 0};
  static const int64_t kOf[] = {3, 2, 3, 0};
  for (int c = 0; c < kClasses; c++) {
    assert_float_equal(of[c].precision, kPrecision[c], 1e-15);
    assert_float_equal(of[c].recall, kRecall[c], 1e-15);
    assert_float_equal(of[c].f1, kF1[c], 1e-15);
    assert_int_equal(of[c].samples, kOf[c]);
    assert_true(isnan(of[c].auc));
  }
  assert_float_equal(r.precision, (2.0 / 3 + 0.4) / 3, 1e-15); /* of the three that occur */
  assert_float_equal(r.recall, 5.0 / 9, 1e-15);
  assert_float_equal(r.f1, (2.0 / 3 + 4.0 / 7) / 3, 1e-15);
  assert_float_equal(braid_test_top(&r, 1), 0.5, 1e-15);
  assert_float_equal(braid_test_top(&r, 2), 0.875, 1e-15);
  assert_float_equal(braid_test_top(&r, 9), 1, 1e-15);
}

/* Of sixteen pairs twelve are won and two are equal. By falling scores class 0 is met as 1, 2, and one of the three
 * with equal scores at 2 of 5 and the last at 6: (1/1 + 2/2 + 3/5 + 4/6) / 4. */
static void test_areas(void **state) {
  (void)state;
  static const int32_t kLabels[kSamples] = {1, 1, 0, 0, 1, 0, 1, 0};
  uint8_t is_class[kClasses * kSamples];
  for (int c = 0; c < kClasses; c++)
    for (int i = 0; i < kSamples; i++) is_class[c * kSamples + i] = kLabels[i] == c;
  static const double kScores[kClasses][kSamples] = {{0.1, 0.4, 0.35, 0.8, 0.4, 0.4, 0.2, 0.9},
                                                     {0.9, 0.6, 0.65, 0.2, 0.6, 0.6, 0.8, 0.1},
                                                     {1, 1, 1, 1, 1, 1, 1, 1},
                                                     {0, NAN, 0, 0, 0, 0, 0, 0}};
  braid_class_result of[kClasses] = {{0}};
  braid_test_result r = {.samples = kSamples, .classes = kClasses, .per_class = of};
  assert_int_equal(braid_metrics_areas(NULL, is_class, &kScores[0][0], &r), BRAID_OK);
  assert_float_equal(of[0].auc, 0.8125, 1e-15);
  assert_float_equal(of[1].auc, 0.8125, 1e-15);
  assert_true(isnan(of[2].auc)); /* no sample is of it */
  assert_true(isnan(of[3].auc));
  assert_float_equal(r.auc, 0.8125, 1e-15);
  assert_float_equal(of[0].average_precision, (1 + 1 + 3.0 / 5 + 4.0 / 6) / 4, 1e-15);
  assert_true(isnan(of[2].average_precision));
}

/* Of labels the counts are there, and no confusion. */
static void test_labels(void **state) {
  (void)state;
  braid_class_result of[2] = {{.samples = 4, .guessed = 5, .right = 3}, {.samples = 0, .guessed = 0}};
  braid_test_result r = {.samples = 8, .classes = 2, .target = BRAID_TARGET_LABELS, .per_class = of};
  braid_metrics_count(&r);
  assert_float_equal(of[0].precision, 0.6, 1e-15);
  assert_float_equal(of[0].recall, 0.75, 1e-15);
  assert_float_equal(of[0].f1, 6.0 / 9, 1e-15);
  assert_float_equal(r.recall, 0.75, 1e-15); /* of the one that occurs */
  assert_true(isnan(braid_test_top(&r, 1)));
}

/* Far from 0, where sums of squares would cancel. */
static void test_numbers(void **state) {
  (void)state;
  static const double kTargets[4] = {1e8 + 1, 1e8 + 2, 1e8 + 3, 1e8 + 6},
                      kGuesses[4] = {1e8 + 2, 1e8 + 2, 1e8, 1e8 + 6};
  braid_number_sums sums[3] = {{0}};
  braid_number_result of[3];
  braid_test_result r = {.samples = 4, .classes = 3, .target = BRAID_TARGET_NUMBERS, .per_number = of};
  for (int i = 0; i < 4; i++) {
    braid_metrics_add_number(&sums[0], i, kGuesses[i], kTargets[i]);
    braid_metrics_add_number(&sums[1], i, 5, 5); /* constant and right */
    braid_metrics_add_number(&sums[2], i, i, 5);
  }
  braid_metrics_numbers(sums, &r);
  assert_float_equal(of[0].squared_error, 2.5, 1e-12);
  assert_float_equal(of[0].absolute_error, 1, 1e-12);
  assert_float_equal(of[0].r2, 1 - 10.0 / 14, 1e-12); /* distances to the mean of 3: 4 + 1 + 0 + 9 */
  assert_float_equal(of[1].r2, 1, 0);
  assert_float_equal(of[2].r2, 0, 0);
  assert_float_equal(r.mae, (1 + 0 + 3.5) / 3, 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes), cmocka_unit_test(test_areas),
                                     cmocka_unit_test(test_labels), cmocka_unit_test(test_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
