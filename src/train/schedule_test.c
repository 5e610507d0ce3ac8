/* Against numbers that PyTorch 2 gives: OneCycleLR(max_lr=0.1, total_steps=20) and CosineAnnealingLR(T_max=9) over 10
 * steps of rate 0.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "train/schedule.h"

static braid_train_options base(braid_schedule schedule, int64_t epochs) {
  braid_train_options options;
  braid_train_options_init(&options);
  options.schedule = schedule;
  options.learning_rate = 0.1;
  options.epochs = epochs;
  return options;
}

static void near(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-9)) fail_msg("%.12g, %.12g expected", got, wanted);
}

static void test_cosine(void **state) {
  (void)state;
  static const double kTorch[10] = {0.1,
                                    0.09698463103929542,
                                    0.08830222215594892,
                                    0.07500000000000001,
                                    0.05868240888334653,
                                    0.04131759111665349,
                                    0.025000000000000005,
                                    0.011697777844051105,
                                    0.0030153689607045845,
                                    0.0};
  braid_train_options options = base(BRAID_COSINE, 2);
  for (int i = 0; i < 10; i++) near(braid_learning_rate(&options, NULL, i, 5), kTorch[i]);
}

static void test_one_cycle(void **state) {
  (void)state;
  static const double kTorch[20] = {0.0040000000000000036,
                                    0.013167184270002533,
                                    0.037167184270002526,
                                    0.06683281572999747,
                                    0.09083281572999748,
                                    0.1,
                                    0.09874640062350874,
                                    0.09504846320134738,
                                    0.089091617757105,
                                    0.0811745653949763,
                                    0.07169430017913009,
                                    0.06112620219362893,
                                    0.0500002,
                                    0.03887419780637107,
                                    0.028306099820869922,
                                    0.0188258346050237,
                                    0.010908782242895003,
                                    0.004951936798652629,
                                    0.0012539993764912555,
                                    4e-07};
  braid_train_options options = base(BRAID_ONE_CYCLE, 4);
  for (int i = 0; i < 20; i++) near(braid_learning_rate(&options, NULL, i, 5), kTorch[i]);
}

static void test_step_and_warmup(void **state) {
  (void)state;
  braid_train_options options = base(BRAID_STEP, 6);
  options.step_epochs = 2;
  options.step_gamma = 0.5;
  near(braid_learning_rate(&options, NULL, 0, 10), 0.1);
  near(braid_learning_rate(&options, NULL, 19, 10), 0.1);
  near(braid_learning_rate(&options, NULL, 20, 10), 0.05);
  near(braid_learning_rate(&options, NULL, 59, 10), 0.025);
  options.schedule = BRAID_CONSTANT;
  options.warmup_steps = 4;
  near(braid_learning_rate(&options, NULL, 0, 10), 0.025);
  near(braid_learning_rate(&options, NULL, 3, 10), 0.1);
  near(braid_learning_rate(&options, NULL, 4, 10), 0.1);
}

/* After 4 steps of warm-up LinearLR(start_factor=1, end_factor=0, total_iters=7), of PyTorch too. */
static void test_linear(void **state) {
  (void)state;
  static const double kTorch[11] = {0.025,
                                    0.05,
                                    0.075,
                                    0.1,
                                    0.1,
                                    0.08571428571428572,
                                    0.07142857142857142,
                                    0.05714285714285714,
                                    0.04285714285714286,
                                    0.028571428571428564,
                                    0.014285714285714282};
  braid_train_options options = base(BRAID_LINEAR, 4);
  options.warmup_steps = 4;
  options.steps = 11; /* 2.2 of the 4 epochs */
  for (int i = 0; i < 11; i++) near(braid_learning_rate(&options, NULL, i, 5), kTorch[i]);
  options.steps = 0;
  options.epochs = 1;
  options.warmup_steps = 0;
  near(braid_learning_rate(&options, NULL, 4, 5), 0.02);
}

static void expect_beyond(const braid_train_options *options, int64_t epochs, int64_t total, const char *detail) {
  braid_status status = braid_schedule_check(options, epochs, total);
  if (!detail) assert_int_equal(status, BRAID_OK);
  if (!detail) return;
  assert_int_equal(status, BRAID_INVALID_ARGUMENT);
  if (!strstr(braid_error_detail(), detail)) fail_msg("\"%s\" is not in: %s", detail, braid_error_detail());
}

/* What is to begin only after the last step or epoch is refused, with both numbers. */
static void test_beyond_the_run(void **state) {
  (void)state;
  braid_train_options options = base(BRAID_COSINE, 4);
  options.warmup_steps = 20;
  expect_beyond(&options, 4, 20, NULL);
  expect_beyond(&options, 4, 19, "the warm-up takes 20 steps, and the training has 19");
  options.precision = BRAID_INT8; /* whose schedule is another */
  expect_beyond(&options, 4, 19, NULL);
  options = base(BRAID_STEP, 30);
  expect_beyond(&options, 31, 310, NULL);
  expect_beyond(&options, 30, 300, "every 30 epochs, and the training has 30");
  options.schedule = BRAID_PLATEAU; /* which lowers the rate where it is needed */
  expect_beyond(&options, 2, 20, NULL);
  options.lookahead_steps = 20;
  expect_beyond(&options, 2, 20, NULL);
  expect_beyond(&options, 2, 19, "a lookahead goes on every 20 steps, and the training has 19");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cosine), cmocka_unit_test(test_one_cycle),
                                     cmocka_unit_test(test_linear), cmocka_unit_test(test_step_and_warmup),
                                     cmocka_unit_test(test_beyond_the_run)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
