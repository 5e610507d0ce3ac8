/* The plateau schedule against PyTorch's: what ReduceLROnPlateau(factor=0.5, patience=N) of rate 1 makes of the numbers
 * below. And which epoch is the best, and when a run ends. */
#include "train/monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

enum { kEpochs = 16 };
static const double kLosses[kEpochs] = {1,    0.9,  0.89999, 0.89995, 0.8,  0.8, 0.81, 0.82,
                                        0.79, 0.79, 0.79,    0.79,    0.79, 0.5, 0.6,  0.6};

static void fill(double rows[kEpochs][BRAID_RECORD_COLUMNS], double loss_test) {
  for (int i = 0; i < kEpochs; i++) {
    rows[i][BRAID_RECORD_LOSS] = kLosses[i];
    rows[i][BRAID_RECORD_ACCURACY] = 1 - kLosses[i];
    rows[i][BRAID_RECORD_TEST_LOSS] = rows[i][BRAID_RECORD_TEST_ACCURACY] = loss_test;
  }
}

static void test_plateau(void **state) {
  (void)state;
  /* how often the rate was halved after each epoch: by the loss, then by the accuracy, with patience 0, 1, 2 */
  static const int kTorch[2][3][kEpochs] = {{{0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9, 9, 10, 11},
                                             {0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 4, 5},
                                             {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2}},
                                            {{0, 0, 0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9},
                                             {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4},
                                             {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2}}};
  double rows[kEpochs][BRAID_RECORD_COLUMNS];
  fill(rows, NAN);
  for (int monitor = 0; monitor < 2; monitor++)
    for (int patience = 0; patience < 3; patience++)
      for (size_t epochs = 0; epochs <= kEpochs; epochs++) {
        braid_train_options options = {
            .monitor = (braid_monitor)monitor, .plateau_epochs = patience, .step_gamma = 0.5};
        braid_record record = {rows, epochs, kEpochs};
        double wanted = epochs ? pow(0.5, kTorch[monitor][patience][epochs - 1]) : 1;
        assert_true(braid_monitor_plateau(&options, &record) == wanted);
      }
}

static void test_best(void **state) {
  (void)state;
  double rows[kEpochs][BRAID_RECORD_COLUMNS];
  fill(rows, NAN);
  static const int64_t kBest[kEpochs + 1] = {-1, 0, 1, 2, 3, 4, 4, 4, 4, 8, 8, 8, 8, 8, 13, 13, 13};
  for (size_t epochs = 0; epochs <= kEpochs; epochs++) {
    braid_train_options options = {.patience = 4};
    braid_record record = {rows, epochs, kEpochs};
    assert_int_equal(braid_monitor_best(&options, &record), kBest[epochs]);
    assert_int_equal(braid_monitor_ends(&options, &record), epochs == 13); /* four no better than the ninth */
    options.patience = 0;
    assert_false(braid_monitor_ends(&options, &record));
    options.monitor = BRAID_MONITOR_ACCURACY;
    assert_int_equal(braid_monitor_best(&options, &record), kBest[epochs]);
  }
}

/* The test counts where there is one; an epoch whose test failed is no better. */
static void test_tested(void **state) {
  (void)state;
  double rows[kEpochs][BRAID_RECORD_COLUMNS];
  fill(rows, 0.7);
  rows[0][BRAID_RECORD_TEST_LOSS] = NAN;
  rows[1][BRAID_RECORD_TEST_LOSS] = 0.6;
  rows[14][BRAID_RECORD_TEST_ACCURACY] = 0.8;
  braid_train_options options = {.patience = 2};
  braid_record record = {rows, kEpochs, kEpochs};
  assert_int_equal(braid_monitor_best(&options, &record), 1);
  options.monitor = BRAID_MONITOR_ACCURACY;
  assert_int_equal(braid_monitor_best(&options, &record), 14);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plateau), cmocka_unit_test(test_best),
                                     cmocka_unit_test(test_tested)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
