/* The power cap in virtual time: it is never exceeded, what is urgent goes first, everything ends. */
#include "serve/power_policy.h"

#include <math.h>

#include "base/philox.h"
#include "skip.h"

enum { kLines = 4, kRuns = 4000 };

static void test_order(void **state) {
  (void)state;
  braid_serve_power power = {.cap = 100, .idle = 20};
  assert_true(braid_serve_power_begin(&power, 0, 50, 5, 1000));
  assert_false(braid_serve_power_begin(&power, 1, 40, 3, 900)); /* 110 */
  assert_int_equal(power.waits, 1);
  assert_false(braid_serve_power_begin(&power, 2, 10, 3, 950)); /* fits, but is due behind it */
  assert_false(braid_serve_power_begin(&power, 2, 10, 5, 100)); /* less urgent */
  assert_true(braid_serve_power_begin(&power, 3, 10, 3, 800));  /* due before */
  assert_false(braid_serve_power_begin_behind(&power, 1));      /* others wait */
  braid_serve_power_withdraw(&power, 1);
  assert_true(braid_serve_power_begin(&power, 2, 10, 5, 100));
  assert_true(braid_serve_power_begin_behind(&power, 10)); /* to the cap, exactly */
  assert_false(braid_serve_power_begin_behind(&power, 1e-3));
  assert_true(power.peak == 100);
  braid_serve_power_end(&power, 50);
  braid_serve_power_end(&power, 10);
  braid_serve_power_end(&power, 10);
  braid_serve_power_end(&power, 10);
  assert_true(power.running == 0 && power.waits == 2);
}

static void test_sensors(void **state) {
  (void)state;
  braid_serve_power power = {.cap = 100, .idle = 20};
  assert_true(braid_serve_power_begin(&power, 0, 50, 5, 1000));
  braid_serve_power_measure(&power, 0); /* less than modelled: no more is allowed for it */
  assert_true(braid_serve_power_now(&power) == 70);
  braid_serve_power_measure(&power, 20);
  assert_true(braid_serve_power_now(&power) == 90);
  assert_false(braid_serve_power_begin(&power, 1, 20, 5, 1000));
  assert_int_equal(braid_serve_power_fit(&power, 30, 8), 2);
  for (int i = 0; i < 8; i++) braid_serve_power_measure(&power, 0);
  assert_true(braid_serve_power_now(&power) == 70); /* exactly, within a second: a tight cap has its runs again */
  assert_true(braid_serve_power_begin(&power, 1, 20, 5, 1000));
  assert_int_equal(braid_serve_power_fit(&(braid_serve_power){.cap = 0}, 30, 8), 8);
  assert_int_equal(braid_serve_power_fit(&(braid_serve_power){.cap = 10}, 30, 8), 1);
}

/* Runs of random watts, lengths and urgency on four devices, tried at each end of another; the sum is kept here. */
static void test_never_above(void **state) {
  (void)state;
  static const double kWatts[kLines] = {35, 20, 11.1, 0.3};
  braid_serve_power power = {.cap = 67.05, .idle = 12};
  double ends[kLines] = {0}, now = 0;
  bool runs[kLines] = {false};
  int64_t due[kLines] = {0}, longest = 0, waited[kLines] = {0};
  int left = kRuns, ranks[kLines] = {0}, done = 0;
  uint32_t draws = 0;
  for (int i = 0; i < kLines; i++) due[i] = i + 1;
  while (done < kRuns) {
    for (int i = 0; i < kLines; i++) { /* what is due first is asked last: the policy has to keep the order */
      uint32_t random[4];
      braid_philox((uint32_t[]){draws++, 0, 0, 0}, (uint32_t[]){7, 0}, random);
      int line = (int)(random[0] % kLines);
      if (runs[line] || left <= 0) continue;
      if (!ranks[line]) ranks[line] = 1 + (int)(random[1] % 3);
      if (!braid_serve_power_begin(&power, (size_t)line, kWatts[line], ranks[line], due[line])) {
        waited[line]++;
        longest = waited[line] > longest ? waited[line] : longest;
        continue;
      }
      runs[line] = true;
      waited[line] = 0;
      left--;
      ends[line] = now + 1 + random[2] % 50;
    }
    double watts = power.idle, next = INFINITY;
    for (int i = 0; i < kLines; i++) watts += runs[i] ? kWatts[i] : 0;
    assert_true(watts <= power.cap + 1e-6);
    assert_true(fabs(watts - braid_serve_power_now(&power)) < 1e-6);
    for (int i = 0; i < kLines; i++)
      if (runs[i] && ends[i] < next) next = ends[i];
    if (isinf(next)) continue; /* nothing was drawn */
    now = next;
    for (int i = 0; i < kLines; i++) {
      if (!runs[i] || ends[i] > now) continue;
      braid_serve_power_end(&power, kWatts[i]);
      runs[i] = false;
      ranks[i] = 0;
      due[i] = (int64_t)now + 100;
      done++;
    }
  }
  assert_true(power.peak <= power.cap + 1e-6 && power.peak > 66);
  assert_true(power.waits > 100);
  assert_true(longest < 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_sensors),
      cmocka_unit_test(test_never_above),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
