/* The percentiles of `braid bench`, against numbers of NumPy's percentile (method "linear"). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../cli/statistics.h"

static void check(const double *sorted, size_t count, double percent, double expected) {
  double got = cli_percentile(sorted, count, percent);
  if (fabs(got - expected) > 1e-12) fail_msg("%g of %zu: %.15g, expected %.15g", percent, count, got, expected);
}

static void test_known(void **state) {
  (void)state;
  static const double kOne[] = {3}, kTwo[] = {1, 2}, kThree[] = {1, 2, 10}, kFour[] = {1, 2, 4, 8},
                      kTen[] = {0.5, 1, 2, 3, 5, 8, 13, 21, 34, 55};
  for (int percent = 0; percent <= 100; percent += 10) check(kOne, 1, percent, 3);
  check(kTwo, 2, 50, 1.5), check(kTwo, 2, 90, 1.9), check(kTwo, 2, 0, 1), check(kTwo, 2, 100, 2);
  check(kThree, 3, 50, 2), check(kThree, 3, 90, 8.4), check(kThree, 3, 25, 1.5);
  check(kFour, 4, 50, 3), check(kFour, 4, 90, 6.8);
  check(kTen, 10, 50, 6.5), check(kTen, 10, 90, 36.1), check(kTen, 10, 99, 53.11);
}

/* Whatever the number of runs: least <= median <= 90th <= most. */
static void test_order(void **state) {
  (void)state;
  double values[64];
  for (size_t count = 1; count <= 64; count++) {
    values[count - 1] = (double)(count * count);
    double before = values[0];
    for (int percent = 0; percent <= 100; percent++) {
      double at = cli_percentile(values, count, percent);
      assert_true(at >= before && at <= values[count - 1]);
      before = at;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
