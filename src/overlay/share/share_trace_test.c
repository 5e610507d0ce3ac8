/* Traces: what is drawn, what is read, and files that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "overlay/share/sample_models.h"
#include "overlay/share/trace.h"

static sample_models samples;

static braid_share_trace_options options_of(uint64_t seed) {
  return (braid_share_trace_options){.models = samples.models,
                                     .model_count = SAMPLE_MODELS,
                                     .cores = 16,
                                     .tenants = 4,
                                     .seed = seed,
                                     .load = 0.5,
                                     .latency_times = 4};
}

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void test_random(void **state) {
  (void)state;
  enum { kJobs = 9000 };
  braid_share_trace_options options = options_of(3);
  braid_share_trace trace, same;
  ok(braid_share_trace_random(&options, kJobs, NULL, &trace));
  ok(braid_share_trace_random(&options, kJobs, NULL, &same));
  assert_memory_equal(trace.jobs, same.jobs, kJobs * sizeof *trace.jobs);
  size_t models[SAMPLE_MODELS] = {0}, tenants[4] = {0}, priorities[10] = {0}, first_half = 0;
  double total = 0;
  for (size_t j = 0; j < kJobs; j++) total += braid_share_isolated(&samples.models[trace.jobs[j].model], 16);
  for (size_t j = 0; j < kJobs; j++) {
    const braid_share_submission *job = &trace.jobs[j];
    assert_true(!j || job->arrival >= job[-1].arrival);
    assert_int_equal(job->context, j);
    assert_true(fabs(job->latency_seconds - 4 * braid_share_isolated(&samples.models[job->model], 16)) < 1e-12);
    models[job->model]++;
    tenants[trace.contexts[j].tenant]++;
    priorities[(size_t)trace.contexts[j].priority]++;
    first_half += job->arrival < total; /* load 0.5: twice the total */
  }
  assert_true(trace.jobs[kJobs - 1].arrival < 2 * total && trace.jobs[kJobs - 1].arrival > 1.99 * total);
  assert_in_range(first_half, kJobs * 48 / 100, kJobs * 52 / 100);
  for (size_t m = 0; m < SAMPLE_MODELS; m++) assert_in_range(models[m], kJobs * 22 / 100, kJobs * 28 / 100);
  for (size_t t = 0; t < 4; t++) assert_in_range(tenants[t], kJobs * 22 / 100, kJobs * 28 / 100);
  for (size_t p = 0; p < 10; p++)
    if (p == 1 || p == 3 || p == 9)
      assert_in_range(priorities[p], kJobs * 30 / 100, kJobs * 37 / 100);
    else
      assert_int_equal(priorities[p], 0);
  braid_share_trace_deinit(&trace);
  braid_share_trace_deinit(&same);
}

static void test_recorded(void **state) {
  (void)state;
  static const char kText[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                              "2024-02-28 23:59:59.5000000,4808,10\n"
                              "2024-02-29 00:00:00.0000000,10,8\r\n"
                              "2024-03-01 00:00:00,110,27\n"
                              "2024-03-01 00:00:00.5,7433,14";
  braid_share_trace_options options = options_of(1);
  braid_share_trace trace;
  ok(braid_share_trace_parse(&options, kText, sizeof kText - 1, NULL, &trace));
  assert_int_equal(trace.count, 4);
  /* fewest tokens: mobilenet, then resnet50, inception-v3, vgg16 */
  assert_int_equal(trace.jobs[1].model, 3);
  assert_int_equal(trace.jobs[2].model, 1);
  assert_int_equal(trace.jobs[0].model, 2);
  assert_int_equal(trace.jobs[3].model, 0);
  double total = 0;
  for (size_t m = 0; m < SAMPLE_MODELS; m++) total += braid_share_isolated(&samples.models[m], 16);
  assert_true(trace.jobs[0].arrival == 0);
  assert_true(fabs(trace.jobs[3].arrival - 2 * total) < 1e-9);
  assert_true(fabs(trace.jobs[1].arrival / trace.jobs[3].arrival - 0.5 / 86401) < 1e-9); /* a leap day is between */
  assert_true(fabs(trace.jobs[2].arrival / trace.jobs[3].arrival - 86400.5 / 86401) < 1e-9);
  braid_share_trace_deinit(&trace);
  static const char kNone[] = "TIMESTAMP,ContextTokens,GeneratedTokens";
  ok(braid_share_trace_parse(&options, kNone, sizeof kNone - 1, NULL, &trace));
  assert_int_equal(trace.count, 0);
  braid_share_trace_deinit(&trace);
}

static void test_wrong_files(void **state) {
  (void)state;
#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"
  static const struct {
    const char *text, *place;
  } kCases[] = {{"", "line 1"},
                {"time,tokens\n", "line 1"},
                {"TIMESTAMP,ContextTokens,GeneratedTokens,More\n", "line 1"},
                {HEAD "2023-11-16 18:17:03.9,1\n", "line 2"},
                {HEAD "2023-11-16 18:17:03.9,1,2,3\n", "line 2"},
                {HEAD "2023-11-16 18:17:03.9,1,-2\n", "line 2"},
                {HEAD "2023-11-16 18:17:03.9,1,1234567890\n", "line 2"},
                {HEAD "2023-11-16 18:17:03.,1,2\n", "line 2"},
                {HEAD "2023-13-16 18:17:03,1,2\n", "line 2"},
                {HEAD "2023-11-16 24:17:03,1,2\n", "line 2"},
                {HEAD "2023-11-16 18:17:03,1,2\n\n", "line 3"},
                {HEAD "2023-11-16 18:17:03,1,2\n2023-11-16 18:17:02,1,2\n", "line 3"}};
  braid_share_trace_options options = options_of(1);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_share_trace trace;
    braid_status status = braid_share_trace_parse(&options, kCases[i].text, strlen(kCases[i].text), NULL, &trace);
    if (status != BRAID_INVALID_FILE || !strstr(braid_error_detail(), kCases[i].place))
      fail_msg("case %zu: %s: %s", i, braid_status_text(status), braid_error_detail());
    assert_null(trace.jobs);
  }
}

static void test_wrong_options(void **state) {
  (void)state;
  braid_share_trace trace;
  for (int i = 0; i < 4; i++) {
    braid_share_trace_options options = options_of(1);
    if (i == 0) options.load = 0;
    if (i == 1) options.load = NAN;
    if (i == 2) options.tenants = 0;
    if (i == 3) options.model_count = 0;
    assert_int_equal(braid_share_trace_random(&options, 8, NULL, &trace), BRAID_INVALID_ARGUMENT);
  }
}

int main(void) {
  sample_models_make(&samples);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_recorded),
                                     cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_wrong_options)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
