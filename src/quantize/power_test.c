/* Powers of two: the rule written down a second time, over many ranges and numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "quantize/power.h"

static uint32_t state_of_numbers = 5;
static float number(void) { /* -1 to 1 */
  state_of_numbers = state_of_numbers * 1664525U + 1013904223U;
  return (float)(state_of_numbers >> 8) / (float)(1 << 23) - 1;
}

static bool holds(double low, double high, int exponent, double most) {
  return low >= -128 * exp2(exponent) && high <= most * exp2(exponent);
}

static void test_exponent(void **state) {
  (void)state;
  for (int i = 0; i < 2000; i++) {
    double most = i % 2 ? 127 : 63, size = exp2(40 * (double)number());
    double low = i % 5 ? -fabs((double)number()) * size : 0, high = i % 7 ? fabs((double)number()) * size : 0;
    if (i % 11 == 0) low = -128 * exp2(i % 20 - 10), high = 0;
    if (low == 0 && high == 0) continue;
    int e = braid_power_exponent(low, high, -128, most);
    assert_true(holds(low, high, e, most));
    assert_false(holds(low, high, e - 1, most));
  }
  assert_int_equal(braid_power_exponent(0, 0, -128, 127), 0);
  assert_int_equal(braid_power_exponent(0, 127, -128, 127), 0);
  assert_int_equal(braid_power_exponent(-128, 127, -128, 127), 0);
  assert_int_equal(braid_power_exponent(-128.001, 127, -128, 127), 1);
  assert_int_equal(braid_power_exponent(0, 1e300, -128, 127), BRAID_POWER_MOST);
  assert_int_equal(braid_power_exponent(-1e-300, 0, -128, 127), -BRAID_POWER_MOST);
}

static double naive_error(const float *data, int count, int exponent, double least, double most) {
  double sum = 0;
  for (int i = 0; i < count; i++) {
    double q = fmin(fmax(nearbyint((double)data[i] / exp2(exponent)), least), most);
    sum += ((double)data[i] - q * exp2(exponent)) * ((double)data[i] - q * exp2(exponent));
  }
  return sum;
}

/* Of the three the one with the least error; tails as long as activations have make smaller ones win. */
static void test_choice(void **state) {
  (void)state;
  enum { COUNT = 999 };
  float data[COUNT];
  int chosen[BRAID_POWER_CANDIDATES] = {0};
  for (int round = 0; round < 300; round++) {
    float low = 0, high = 0;
    for (int i = 0; i < COUNT; i++) data[i] = number() + number() + number() + number();
    data[7] = (float)(1 + round % 20); /* far away from the others, or not */
    for (int i = 0; i < COUNT; i++) {
      low = fminf(low, data[i]);
      high = fmaxf(high, data[i]);
    }
    double least = round % 3 ? -128 : -127;
    braid_power power = braid_power_begin((double)low, (double)high, least, 127);
    braid_power_see(&power, data, 500);
    braid_power_see(&power, data + 500, COUNT - 500);
    int top = braid_power_exponent((double)low, (double)high, least, 127), best = braid_power_choose(&power);
    assert_in_range(top - best, 0, BRAID_POWER_CANDIDATES - 1);
    chosen[top - best]++;
    for (int c = 0; c < BRAID_POWER_CANDIDATES; c++) {
      double error = naive_error(data, COUNT, top - c, least, 127);
      assert_true(fabs(power.errors[c] - error) <= 1e-5 * error);
      assert_true(naive_error(data, COUNT, best, least, 127) <= error * (1 + 1e-5));
    }
  }
  assert_true(chosen[0] > 10 && chosen[1] > 10);
}

/* Nothing is lost either way: the larger scale, which cuts nothing. */
static void test_equal_errors(void **state) {
  (void)state;
  braid_power power = braid_power_begin(0, 0, -128, 127);
  braid_power_see(&power, (const float[]){0, 0}, 2);
  assert_int_equal(braid_power_choose(&power), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exponent), cmocka_unit_test(test_choice),
                                     cmocka_unit_test(test_equal_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
