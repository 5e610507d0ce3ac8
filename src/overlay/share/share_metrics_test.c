/* Metrics by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "overlay/share/metrics.h"

static void assert_near(double value, double expected) {
  if (!(fabs(value - expected) <= 1e-12 * (1 + fabs(expected)))) fail_msg("%.15g, expected %.15g", value, expected);
}

static void test_percentile(void **state) {
  (void)state;
  double values[200];
  for (int i = 0; i < 200; i++) values[i] = i + 1;
  assert_near(braid_share_percentile(values, 1, 99), 1);
  assert_near(braid_share_percentile(values, 100, 99), 99);
  assert_near(braid_share_percentile(values, 101, 99), 100);
  assert_near(braid_share_percentile(values, 200, 99), 198);
  assert_near(braid_share_percentile(values, 5, 50), 3);
  assert_near(braid_share_percentile(values, 8, 100), 8);
}

static void test_metrics(void **state) {
  (void)state;
  const double seconds[2] = {2, 3}; /* alone: 2 s, on one core */
  const braid_share_model model = {.name = "one", .seconds = seconds};
  const braid_share_context contexts[3] = {{.priority = 1}, {.priority = 3, .latency_seconds = 7}, {.priority = 9}};
  const braid_share_submission jobs[] = {{.context = 0, .arrival = 1},
                                         {.context = 1, .arrival = 1},
                                         {.context = 2, .arrival = 2, .latency_seconds = 3},
                                         {.context = 2, .arrival = 3}};
  /* slowdowns 1, 4, 2; the last one failed */
  const braid_share_result results[] = {{.end = 3, .longest_wait = 0.5},
                                        {.end = 9, .longest_wait = 5},
                                        {.end = 6, .longest_wait = 1},
                                        {.end = 100, .status = BRAID_TIMEOUT, .longest_wait = 50}};
  braid_share_card card = {.cores = 2,
                           .contexts = contexts,
                           .context_count = 3,
                           .models = &model,
                           .model_count = 1,
                           .jobs = jobs,
                           .job_count = 4};
  braid_share_metrics m;
  assert_int_equal(braid_share_measure(&card, results, NULL, &m), BRAID_OK);
  assert_int_equal(m.jobs, 3);
  assert_int_equal(m.failed, 1);
  assert_near(m.antt, 7.0 / 3);
  assert_near(m.urgent_antt, 2);
  assert_near(m.stp, 1 + 0.25 + 0.5);
  assert_near(m.fairness, (0.5 / 9) / 1); /* progress over priority: 1, 0.25 / 3, 0.5 / 9 */
  assert_near(m.satisfied[0], 2.0 / 3);
  assert_near(m.satisfied[1], 1);
  assert_near(m.deadlines, 0); /* 8 s of 7, 4 s of 3 */
  assert_near(m.p99_slowdown, 4);
  assert_near(m.p99_seconds, 8);
  assert_near(m.worst_slowdown, 4);
  assert_near(m.longest_wait, 5);
}

static void test_nothing(void **state) {
  (void)state;
  braid_share_card card = {.cores = 1};
  braid_share_metrics m;
  assert_int_equal(braid_share_measure(&card, NULL, NULL, &m), BRAID_OK);
  assert_int_equal(m.jobs, 0);
  assert_true(isnan(m.deadlines));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_percentile), cmocka_unit_test(test_metrics),
                                     cmocka_unit_test(test_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
