/* Costs of packages by their number of cores, against the simulator's other functions; traffic and results of policies
 * (braid/overlay_tenants.h), whose metrics are computed again here from the jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "braid/overlay_evaluation.h"
#include "oom.h"
#include "overlay/compiler/compiler_fixture.h"
#include "overlay/share/costs.h"
#include "overlay/sim/record.h"

enum { kConvolutions = 4, kMostJobs = 64 };

static void expect_ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void expect_near(double value, double expected) {
  if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected)))) fail_msg("%.12g, expected %.12g", value, expected);
}

static const braid_overlay_design *load_design(const char *name) {
  const braid_overlay_design *design;
  expect_ok(braid_overlay_design_load(NULL, name, &design));
  return design;
}

static braid_package *make_package(const braid_overlay_design *design, uint64_t key, int32_t channels) {
  drawn_network n;
  braid_package *package;
  draw_key = key;
  drawn_begin(&n, channels, 18, 18);
  for (int i = 0; i < kConvolutions; i++) draw_convolution(&n, (int32_t)n.network.map_count - 1);
  drawn_end(&n);
  expect_ok(braid_package_compile(&n.network, design, NULL, &package));
  drawn_free(&n);
  return package;
}

/* --- costs ---------------------------------------------------------------------------------------------------------
 */
/* Times are those of braid_overlay_simulate, places the ends of layers of a recording. */
static void test_costs(void **state) {
  (void)state;
  const braid_overlay_design *design = load_design("cnn-16x512");
  braid_package *package = make_package(design, 91, 24);
  braid_overlay_costs *costs;
  expect_ok(braid_overlay_costs_create(package, design, "drawn", NULL, NULL, &costs));
  braid_overlay_costs_info info = braid_overlay_costs_get_info(costs);
  assert_string_equal(info.name, "drawn");
  assert_int_equal(info.cores, 16);
  assert_int_equal(info.places, kConvolutions - 1);
  assert_true(info.vector_seconds == 0);
  double shares[kConvolutions] = {0};
  for (int k = 1; k <= 16; k++) {
    braid_overlay_simulated s;
    braid_overlay_record *record;
    expect_ok(braid_overlay_simulate(package, design, k, &s));
    expect_near(info.seconds[k - 1] * 1e6, s.seconds * 1e6);
    expect_near(info.switch_seconds[k - 1] * 1e6, BRAID_OVERLAY_COMPILE_US + s.transfer_seconds * 1e6);
    expect_ok(braid_overlay_record_make(package, design, k, NULL, &s, &record));
    assert_int_equal(record->layer_count, kConvolutions);
    for (size_t p = 0; p < info.places; p++) {
      double end = (double)record->layers[p].to / (design->clock_mhz * 1e6);
      expect_near(1e6 * braid_share_between(&costs->model, k, 0, costs->places[p]), 1e6 * end);
      shares[p] += end / s.seconds / 16;
    }
    braid_overlay_record_destroy(record);
  }
  for (size_t p = 0; p < info.places; p++) expect_near(costs->places[p], shares[p]);
  braid_overlay_costs_destroy(costs);
  braid_package_destroy(package);
  braid_overlay_design_destroy(design);
}

/* A recurrent network changes its cores after each step, and its vectors go with it. */
static void test_recurrent(void **state) {
  (void)state;
  enum { kSteps = 12 };
  const braid_overlay_design *design = load_design("rnn-16x16");
  braid_overlay_lstm *lstm;
  braid_overlay_package *package;
  braid_overlay_costs *costs;
  double ms;
  expect_ok(braid_overlay_lstm_draw(NULL, 40, &ms, &lstm));
  expect_ok(braid_overlay_lstm_package(lstm, kSteps, design, NULL, &ms, &package));
  expect_ok(braid_overlay_costs_create(package, design, "lstm", NULL, NULL, &costs));
  braid_overlay_costs_info info = braid_overlay_costs_get_info(costs);
  assert_int_equal(info.places, kSteps - 1);
  assert_true(info.vector_seconds >= design->host_latency_us * 1e-6);
  braid_overlay_costs_destroy(costs);
  braid_overlay_package_destroy(package);
  braid_overlay_lstm_destroy(lstm);
  braid_overlay_design_destroy(design);
}

/* A run is as long in parts as it is whole, and what is done in a time takes that time. */
static void test_progress(void **state) {
  (void)state;
  const double seconds[2] = {8, 5}, places[3] = {0.2, 0.5, 0.9}, ends[6] = {1, 6, 7, 2, 3, 4.5};
  const braid_share_model model = {.seconds = seconds, .places = places, .place_count = 3, .place_seconds = ends};
  expect_near(braid_share_between(&model, 1, 0, 1), 8);
  expect_near(braid_share_between(&model, 1, 0.1, 0.35), 3);
  expect_near(braid_share_between(&model, 2, 0.35, 0.95), 2.25);
  expect_near(braid_share_made(&model, 1, 0.1, 3), 0.25);
  expect_near(braid_share_made(&model, 2, 0.9, 100), 0.1);
  for (int k = 1; k <= 2; k++)
    for (int i = 0; i < 40; i++)
      for (int j = i; j <= 40; j++)
        expect_near(braid_share_made(&model, k, i / 40.0, braid_share_between(&model, k, i / 40.0, j / 40.0)),
                    (j - i) / 40.0);
  assert_true(braid_share_next_place(&model, 0) == 0.2 && braid_share_next_place(&model, 0.2) == 0.5);
  assert_true(braid_share_next_place(&model, 0.9) == 1);
}

/* --- traffic -------------------------------------------------------------------------------------------------------
 */
typedef struct fixture {
  const braid_overlay_design *design;
  braid_overlay_costs *costs[2];
} fixture;

static void fixture_begin(fixture *f) {
  f->design = load_design("cnn-16x512");
  for (int i = 0; i < 2; i++) {
    braid_package *package = make_package(f->design, 91 + (uint64_t)i, i ? 64 : 8);
    expect_ok(braid_overlay_costs_create(package, f->design, i ? "large" : "small", NULL, NULL, &f->costs[i]));
    braid_package_destroy(package);
  }
}

static void fixture_end(fixture *f) {
  for (int i = 0; i < 2; i++) braid_overlay_costs_destroy(f->costs[i]);
  braid_overlay_design_destroy(f->design);
}

static braid_overlay_traffic *make_traffic(const fixture *f, size_t jobs, const char *trace) {
  const braid_overlay_traffic_options options = {.jobs = jobs,
                                                 .tenants = 3,
                                                 .seed = 5,
                                                 .load = 1.5,
                                                 .deadline_times = 4,
                                                 .trace = trace,
                                                 .trace_bytes = trace ? strlen(trace) : 0};
  braid_overlay_traffic *traffic;
  expect_ok(braid_overlay_traffic_create((const braid_overlay_costs *const *)f->costs, 2, &options, NULL, &traffic));
  return traffic;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void check_jobs(const fixture *f, const braid_overlay_shared_job *jobs, size_t count,
                       const braid_overlay_shared *out) {
  double antt = 0, stp = 0, within_2 = 0, met = 0, low = INFINITY, high = 0, end = 0, slowdowns[kMostJobs];
  for (size_t j = 0; j < count; j++) {
    const braid_overlay_shared_job *job = &jobs[j];
    double slowdown = slowdowns[j] = (job->end - job->arrival) / job->alone;
    braid_overlay_costs_info info = braid_overlay_costs_get_info(f->costs[job->network]);
    double alone = info.seconds[0];
    for (int k = 1; k < info.cores; k++) alone = fmin(alone, info.seconds[k]);
    assert_true(job->alone == alone);
    assert_true(job->tenant < 3 && (job->priority == 1 || job->priority == 3 || job->priority == 9));
    assert_true(j == 0 || job->arrival >= jobs[j - 1].arrival);
    assert_true(job->start >= job->arrival && job->end > job->start);
    expect_near(1e6 * (job->executed + job->switched + job->waited), 1e6 * (job->end - job->arrival));
    antt += slowdown / (double)count;
    stp += 1 / slowdown;
    within_2 += (slowdown <= 2) / (double)count;
    met += (job->end <= job->arrival + 4 * job->alone) / (double)count;
    low = fmin(low, 1 / slowdown / job->priority);
    high = fmax(high, 1 / slowdown / job->priority);
    end = fmax(end, job->end);
  }
  qsort(slowdowns, count, sizeof *slowdowns, by_value);
  assert_int_equal(out->jobs, count);
  expect_near(out->antt, antt);
  expect_near(out->stp, stp);
  expect_near(out->within[0], within_2);
  expect_near(out->deadlines, met);
  expect_near(out->fairness, low / high);
  expect_near(out->p99, slowdowns[(count * 99 + 99) / 100 - 1]);
  expect_near(out->worst, slowdowns[count - 1]);
  expect_near(out->seconds, end);
  assert_true(out->idle >= -1e-9 && out->idle < 1 && out->switching > 0 && out->switching < 1);
}

static void test_policies(void **state) {
  (void)state;
  fixture f;
  braid_overlay_shared_job jobs[kMostJobs], again[kMostJobs];
  braid_overlay_shared out, same;
  fixture_begin(&f);
  braid_overlay_traffic *traffic = make_traffic(&f, kMostJobs, NULL);
  assert_int_equal(braid_overlay_traffic_jobs(traffic), kMostJobs);
  for (size_t p = 0; p < braid_overlay_policy_count(); p++) {
    size_t found;
    expect_ok(braid_overlay_policy_find(braid_overlay_policy_at(p).name, &found));
    assert_int_equal(found, p);
    expect_ok(braid_overlay_share(traffic, p, NULL, jobs, &out));
    check_jobs(&f, jobs, kMostJobs, &out);
    expect_ok(braid_overlay_share(traffic, p, NULL, again, &same));
    assert_memory_equal(jobs, again, sizeof jobs);
  }
  braid_overlay_traffic_destroy(traffic);
  fixture_end(&f);
}

#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"
static const char kTrace[] = HEAD "2023-11-16 18:15:46.6,374,44\n"
                                  "2023-11-16 18:15:50.9,396,109\n"
                                  "2023-11-16 18:15:51.2,879,55\n"
                                  "2023-11-16 18:15:52.0,91,16\n";

/* The first requests of a trace, of which those with the fewest tokens run the faster network. */
static void test_trace(void **state) {
  (void)state;
  fixture f;
  braid_overlay_shared_job jobs[4];
  braid_overlay_shared out;
  fixture_begin(&f);
  for (size_t wanted = 0; wanted <= 6; wanted += 2) {
    braid_overlay_traffic *traffic = make_traffic(&f, wanted, kTrace);
    size_t count = braid_overlay_traffic_jobs(traffic);
    assert_int_equal(count, wanted == 2 ? 2 : 4);
    expect_ok(braid_overlay_share(traffic, 0, NULL, jobs, &out));
    assert_true(jobs[0].alone < jobs[1].alone && jobs[0].network != jobs[1].network);
    if (count == 4) assert_true(jobs[3].network == jobs[0].network && jobs[2].network == jobs[1].network);
    braid_overlay_traffic_destroy(traffic);
  }
  fixture_end(&f);
}

static void test_refusals(void **state) {
  (void)state;
  fixture f;
  fixture_begin(&f);
  static const char kWrong[] = HEAD "2023-11-16 18:15:46.6,374\n";
  const braid_overlay_traffic_options good = {.jobs = 4, .tenants = 1, .load = 1};
  braid_overlay_traffic_options cases[7];
  braid_overlay_traffic *traffic;
  for (size_t i = 0; i < 7; i++) cases[i] = good;
  cases[0].tenants = 0;
  cases[1].tenants = BRAID_OVERLAY_MOST_TENANTS + 1;
  cases[2].jobs = BRAID_OVERLAY_MOST_JOBS + 1;
  cases[3].load = NAN;
  cases[4].deadline_times = -1;
  cases[5].jobs = 0;
  cases[6].trace = kWrong, cases[6].trace_bytes = strlen(kWrong);
  const braid_overlay_costs *const *costs = (const braid_overlay_costs *const *)f.costs;
  for (size_t i = 0; i < 7; i++) {
    braid_status expected = i == 6 ? BRAID_INVALID_FILE : BRAID_INVALID_ARGUMENT;
    if (braid_overlay_traffic_create(costs, 2, &cases[i], NULL, &traffic) != expected) fail_msg("case %zu", i);
    assert_null(traffic);
    assert_true(braid_error_detail()[0] != '\0');
  }
  assert_int_equal(braid_overlay_traffic_create(costs, 0, &good, NULL, &traffic), BRAID_INVALID_ARGUMENT);
  f.costs[1]->cores = 8;
  assert_int_equal(braid_overlay_traffic_create(costs, 2, &good, NULL, &traffic), BRAID_INVALID_ARGUMENT);
  f.costs[1]->cores = 16;
  expect_ok(braid_overlay_traffic_create(costs, 2, &good, NULL, &traffic));
  braid_overlay_shared out;
  assert_int_equal(braid_overlay_share(traffic, braid_overlay_policy_count(), NULL, NULL, &out),
                   BRAID_INVALID_ARGUMENT);
  size_t index;
  assert_int_equal(braid_overlay_policy_find("nobody", &index), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "lookahead-urgent"));
  braid_overlay_traffic_destroy(traffic);
  fixture_end(&f);
}

/* --- out of memory -------------------------------------------------------------------------------------------------
 */
static fixture swept;
static braid_package *swept_package;

static braid_status attempt_costs(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_overlay_costs *costs;
  braid_status status = braid_overlay_costs_create(swept_package, swept.design, "drawn", NULL, allocator, &costs);
  braid_overlay_costs_destroy(costs);
  return status;
}

static braid_status attempt_traffic(const braid_allocator *allocator, void *context) {
  const braid_overlay_traffic_options options = {
      .jobs = 6, .tenants = 2, .load = 1, .trace = context, .trace_bytes = context ? strlen(context) : 0};
  braid_overlay_traffic *traffic;
  braid_overlay_shared out;
  braid_status status =
      braid_overlay_traffic_create((const braid_overlay_costs *const *)swept.costs, 2, &options, allocator, &traffic);
  if (status == BRAID_OK) status = braid_overlay_share(traffic, 5, allocator, NULL, &out);
  braid_overlay_traffic_destroy(traffic);
  return status;
}

static void test_memory(void **state) {
  (void)state;
  fixture_begin(&swept);
  swept_package = make_package(swept.design, 91, 8);
  oom_sweep(attempt_costs, NULL);
  oom_sweep(attempt_traffic, NULL);
  oom_sweep(attempt_traffic, (void *)(uintptr_t)kTrace);
  braid_package_destroy(swept_package);
  fixture_end(&swept);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_costs),    cmocka_unit_test(test_recurrent),
                                     cmocka_unit_test(test_progress), cmocka_unit_test(test_policies),
                                     cmocka_unit_test(test_trace),    cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
