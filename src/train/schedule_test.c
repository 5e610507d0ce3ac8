/* Against numbers that PyTorch 2 gives: OneCycleLR(max_lr=0.1, total_steps=20) and CosineAnnealingLR(T_max=9) over 10
 * steps of rate 0.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cosine), cmocka_unit_test(test_one_cycle),
                                     cmocka_unit_test(test_linear), cmocka_unit_test(test_step_and_warmup)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
