/* The card by hand: places, switches, contexts, counters, time-outs; a queue whose waits are known from theory. All
 * latencies are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "overlay/share/card.h"

enum { kMostJobs = 8 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void assert_near(double value, double expected) {
  if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected)))) fail_msg("%.12g, expected %.12g", value, expected);
}

/* --- a policy that says what a test tells it ------------------------------------------------------------------------
 */
typedef struct line {
  double from; /* from then on */
  int cores[kMostJobs];
  bool kill[kMostJobs];
} line;
static const line *script;
static size_t script_lines;

static braid_status decide_script(const braid_share_view *view, braid_share_answer *answers) {
  const line *now = script;
  for (size_t l = 0; l < script_lines; l++)
    if (script[l].from <= view->now) now = &script[l];
  for (size_t j = 0; j < view->count; j++) {
    answers[j].cores = now->cores[view->jobs[j].id];
    answers[j].kill = now->kill[view->jobs[j].id];
  }
  return BRAID_OK;
}
static const braid_share_policy kScripted = {.name = "scripted", .summary = "", .decide = decide_script};

/* Four cores; a second to switch in "heavy", and half a second for vectors; "light" switches for nothing. */
static const double kSeconds[4] = {8, 4, 3, 2}, kSwitch[4] = {1, 1, 1, 1}, kPlaces[2] = {0.25, 0.5};
static const braid_share_model kModels[] = {
    {.name = "light", .seconds = kSeconds, .places = kPlaces, .place_count = 2},
    {.name = "heavy", .seconds = kSeconds, .switch_seconds = kSwitch, .vector_seconds = 0.5, .place_count = 3},
    {.name = "whole", .seconds = kSeconds}};
enum { LIGHT, HEAVY, WHOLE };

static const braid_share_context kContexts[kMostJobs] = {
    {0, 1, 0, 0, 0, 0, 0}, {1, 3, 0, 0, 0, 0, 0}, {2, 9, 0, 0, 0, 0, 0}, {3, 1, 0, 0, 0, 0, 0},
    {4, 1, 0, 0, 0, 0, 0}, {5, 1, 0, 0, 0, 0, 0}, {6, 1, 0, 0, 0, 0, 0}, {7, 1, 0, 0, 0, 0, 0}};

typedef struct outcome {
  braid_share_result jobs[kMostJobs];
  braid_share_counters contexts[kMostJobs];
  braid_share_totals totals;
} outcome;

static braid_share_card card_of(const braid_share_submission *jobs, size_t count) {
  return (braid_share_card){.cores = 4,
                            .contexts = kContexts,
                            .context_count = kMostJobs,
                            .models = kModels,
                            .model_count = 3,
                            .jobs = jobs,
                            .job_count = count};
}

static void play(const braid_share_card *card, const line *lines, size_t count, outcome *out) {
  script = lines;
  script_lines = count;
  ok(braid_share_run(card, &kScripted, NULL, out->jobs, out->contexts, &out->totals));
}

static void test_places(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = LIGHT},
                                         {.context = 1, .model = LIGHT, .arrival = 0.8}};
  const line lines[] = {{0, {4, 0}, {0}}, {0.8, {2, 2}, {0}}};
  braid_share_card card = card_of(jobs, 2);
  outcome out;
  play(&card, lines, 2, &out);
  /* 0.8 of 2 s are 0.4; the place is at 0.5, after 1 s; then half of 4 s */
  assert_near(out.jobs[0].end, 3);
  assert_near(out.jobs[1].start, 1);
  assert_near(out.jobs[1].waited, 0.2);
  assert_near(out.jobs[1].end, 5);
  assert_near(out.totals.progress_core_seconds, 4 * 1 + 2 * 2 + 2 * 4);
  assert_int_equal(out.jobs[0].preemptions, 0);
}

/* A change that is taken back before the place changes nothing, and progress before a change counts. */
static void test_taken_back(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = WHOLE},
                                         {.context = 1, .model = WHOLE, .arrival = 0.5},
                                         {.context = 2, .model = WHOLE, .arrival = 1}};
  const line lines[] = {
      {0, {4, 0, 0}, {0}}, {0.5, {0, 4, 0}, {0}}, {1, {4, 0, 0}, {0}}, {1.9, {0, 4, 0}, {0}}, {3.9, {0, 0, 4}, {0}}};
  braid_share_card card = card_of(jobs, 3);
  outcome out;
  play(&card, lines, 5, &out);
  assert_near(out.jobs[0].end, 2); /* it has no place */
  assert_near(out.jobs[1].end, 4);
  assert_near(out.jobs[2].end, 6);
}

static void test_switches(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = HEAVY},
                                         {.context = 1, .model = LIGHT, .arrival = 1.25}};
  const line lines[] = {{0, {4, 0}, {0}}, {1.25, {0, 4}, {0}}, {3.4, {4, 0}, {0}}};
  braid_share_card card = card_of(jobs, 2);
  outcome out;
  play(&card, lines, 3, &out);
  /* instructions until 1; its first place, a quarter, at 1.5; the other one until 3.5; then instructions and vectors */
  assert_near(out.jobs[1].start, 1.5);
  assert_near(out.jobs[1].end, 3.5);
  assert_near(out.jobs[0].switched, 2.5);
  assert_near(out.jobs[0].waited, 2);
  assert_near(out.jobs[0].end, 3.5 + 1.5 + 1.5);
  assert_int_equal(out.jobs[0].preemptions, 1);
  assert_int_equal(out.contexts[0].preemptions, 1);
  assert_int_equal(out.jobs[0].switches, 2);
  assert_near(out.totals.switch_core_seconds, 4 * 2.5);
}

/* The instructions are still there: the next job of the same tenant and model starts at once. */
static void test_loaded(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = HEAVY}, {.context = 0, .model = HEAVY}};
  const line lines[] = {{0, {2, 2}, {0}}};
  braid_share_card card = card_of(jobs, 2);
  outcome out;
  play(&card, lines, 1, &out);
  assert_near(out.jobs[0].end, 5);
  assert_near(out.jobs[1].end, 9);
  assert_int_equal(out.jobs[0].sequence, 1);
  assert_int_equal(out.jobs[1].sequence, 2);
  assert_near(out.jobs[1].waited, 5); /* in its context */
  assert_int_equal(out.contexts[0].command_completions, 2);
  assert_near(out.contexts[0].core_seconds, 2 * 9);
}

static void test_migration(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = LIGHT},
                                         {.context = 1, .model = LIGHT, .arrival = 0.5},
                                         {.context = 2, .model = LIGHT, .arrival = 1}};
  /* the first loses cores 0 and 1 to the third, and goes on on 2 and 3, which the second leaves */
  const line lines[] = {{0, {2, 0, 0}, {0}}, {0.5, {0, 2, 2}, {0}}, {4.5, {2, 0, 2}, {0}}};
  braid_share_card card = card_of(jobs, 3);
  outcome out;
  play(&card, lines, 3, &out);
  assert_near(out.jobs[2].start, 1);
  assert_near(out.jobs[1].end, 4.5);
  assert_near(out.jobs[0].end, 4.5 + 3);
  assert_int_equal(out.jobs[0].preemptions, 1);
  assert_int_equal(out.jobs[0].migrations, 1);
  assert_int_equal(out.contexts[0].migrations, 1);
  assert_int_equal(out.jobs[1].migrations + out.jobs[2].migrations, 0);
}

static void test_kill(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = WHOLE}, {.context = 1, .model = WHOLE, .arrival = 1}};
  const line lines[] = {{0, {4, 0}, {0}}, {1, {0, 4}, {true, false}}, {2.9, {4, 0}, {0}}};
  braid_share_card card = card_of(jobs, 2);
  outcome out;
  play(&card, lines, 3, &out);
  assert_near(out.jobs[1].end, 3);
  assert_near(out.jobs[0].end, 5);
  assert_near(out.jobs[0].work, 1.5);
  assert_int_equal(out.jobs[0].kills, 1);
}

static void test_errors(void **state) {
  (void)state;
  const braid_share_context contexts[] = {{.tenant = 0, .priority = 1, .time_out_seconds = 3},
                                          {.tenant = 1, .priority = 1}};
  const braid_share_submission jobs[] = {{.context = 0, .model = HEAVY, .stretch = INFINITY},
                                         {.context = 0, .model = HEAVY},
                                         {.context = 1, .model = HEAVY, .fails_at = 0.75},
                                         {.context = 1, .model = HEAVY, .stretch = 2}};
  const line lines[] = {{0, {2, 2, 2, 2}, {0}}};
  braid_share_card card = card_of(jobs, 4);
  outcome out;
  card.contexts = contexts;
  card.context_count = 2;
  play(&card, lines, 1, &out);
  assert_int_equal(out.jobs[0].status, BRAID_TIMEOUT);
  assert_near(out.jobs[0].end, 4);
  assert_near(out.jobs[0].work, 0);
  assert_int_equal(out.jobs[1].status, BRAID_TIMEOUT); /* 4 s of progress; its instructions are loaded anew */
  assert_near(out.jobs[1].end, 8);
  assert_near(out.jobs[1].work, 0.75);
  assert_int_equal(out.jobs[2].status, BRAID_DEVICE_LOST);
  assert_near(out.jobs[2].end, 4);
  assert_int_equal(out.jobs[3].status, BRAID_OK);
  assert_near(out.jobs[3].end, 4 + 1 + 8);
  assert_int_equal(out.contexts[0].time_outs, 2);
  assert_int_equal(out.contexts[1].errors, 1);
  assert_int_equal(out.contexts[1].command_completions, 2);
}

/* In public, what others do changes nothing, to the bit. */
static void test_public(void **state) {
  (void)state;
  enum { kJobs = 200 };
  braid_share_submission alone[kJobs], both[2 * kJobs];
  braid_share_result first[kJobs], second[2 * kJobs];
  const braid_share_context contexts[] = {{.tenant = 0, .priority = 1, .most = 1, .bandwidth = 0.25},
                                          {.tenant = 1, .priority = 9, .most = 3, .bandwidth = 0.75}};
  braid_share_counters counters[2];
  braid_share_totals totals;
  for (size_t j = 0; j < kJobs; j++) {
    alone[j] = (braid_share_submission){.context = 0, .model = j % 3, .arrival = (double)j * 7.3};
    both[2 * j] = alone[j];
    both[2 * j + 1] = (braid_share_submission){.context = 1, .model = j % 2, .arrival = (double)j * 7.3};
  }
  braid_share_card card = card_of(alone, kJobs);
  card.contexts = contexts;
  card.context_count = 2;
  card.is_public = true;
  ok(braid_share_run(&card, &kScripted, NULL, first, counters, &totals));
  card.jobs = both;
  card.job_count = 2 * kJobs;
  ok(braid_share_run(&card, &kScripted, NULL, second, counters, &totals));
  for (size_t j = 0; j < kJobs; j++) assert_true(first[j].end == second[2 * j].end);
  assert_int_equal(totals.asked, 0);
  assert_int_equal(counters[0].command_completions, kJobs);
}

static void test_fdinfo(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 1, .model = LIGHT}};
  const line lines[] = {{0, {2}, {0}}};
  braid_share_card card = card_of(jobs, 1);
  outcome out;
  char text[1024];
  play(&card, lines, 1, &out);
  int length = braid_share_fdinfo(&card, 1, out.contexts, &out.totals, 300, text, sizeof text);
  assert_in_range(length, 1, sizeof text - 1);
  assert_non_null(strstr(text, "drm-client-id:\t1\n"));
  assert_non_null(strstr(text, "drm-engine-core:\t8000000000 ns\n"));
  assert_non_null(strstr(text, "drm-engine-capacity-core:\t4\n"));
  assert_non_null(strstr(text, "drm-cycles-core:\t2400000000\n"));
  assert_non_null(strstr(text, "drm-total-cycles-core:\t1200000000\n"));
  assert_non_null(strstr(text, "drm-maxfreq-core:\t300000000 Hz\n"));
  assert_non_null(strstr(text, "braid-overlay-command-completions:\t1\n"));
}

/* Customers at random, one server, equal times: the mean wait is load x time / (2 (1 - load)) (Pollaczek, Khinchine).
 */
static void test_queue(void **state) {
  (void)state;
  enum { kJobs = 100000 };
  const double load = 0.6, one[1] = {1};
  const braid_share_model model = {.name = "one", .seconds = one};
  braid_share_submission *jobs = calloc(kJobs, sizeof *jobs);
  braid_share_context *contexts = calloc(kJobs, sizeof *contexts);
  braid_share_result *results = calloc(kJobs, sizeof *results);
  braid_share_counters *counters = calloc(kJobs, sizeof *counters);
  braid_share_totals totals;
  double now = 0, waited = 0;
  for (size_t j = 0; j < kJobs; j++) {
    now -= log(1 - (double)braid_random_uniform(13, 0, 0, j)) / load;
    jobs[j] = (braid_share_submission){.context = j, .arrival = now};
    contexts[j] = (braid_share_context){.priority = 1};
  }
  braid_share_card card = {.cores = 1,
                           .contexts = contexts,
                           .context_count = kJobs,
                           .models = &model,
                           .model_count = 1,
                           .jobs = jobs,
                           .job_count = kJobs};
  ok(braid_share_run(&card, braid_share_policy_find("fcfs"), NULL, results, counters, &totals));
  for (size_t j = 0; j < kJobs; j++) waited += results[j].waited;
  double mean = waited / kJobs, expected = load / (2 * (1 - load));
  if (fabs(mean - expected) > 0.03 * expected) fail_msg("mean wait %g, expected %g", mean, expected);
  assert_near(totals.progress_core_seconds, kJobs);
  free(jobs);
  free(contexts);
  free(results);
  free(counters);
}

static void test_refusals(void **state) {
  (void)state;
  const double bad_seconds[4] = {1, 0, 1, 1}, bad_places[2] = {0.5, 0.5};
  const double late[8] = {1, 2, 1, 2, 1, 3, 0.5, 1}, fits[8] = {1, 2, 1, 2, 1, 2, 0.5, 1};
  const braid_share_model slow = {.name = "bad", .seconds = bad_seconds},
                          places = {.name = "bad", .seconds = kSeconds, .places = bad_places, .place_count = 2},
                          rate = {.seconds = kSeconds, .places = kPlaces, .place_count = 2, .place_seconds = late},
                          nowhere = {.seconds = kSeconds, .place_count = 2, .place_seconds = fits};
  const braid_share_context priority = {.priority = 0},
                            bandwidth[2] = {{0, 1, 0, 0.6, 0, 0, 0}, {0, 1, 0, 0.6, 0, 0, 0}},
                            cores = {.priority = 1, .most = 5}, open = {.priority = 1};
  const braid_share_submission fine = {0}, early[2] = {{.arrival = 1}, {.arrival = 0.5}}, hung = {.stretch = INFINITY},
                               foreign = {.context = 9}, model = {.model = 9}, fails = {.fails_at = 1};
  braid_share_card good = card_of(&fine, 1), cases[14];
  for (size_t i = 0; i < 14; i++) cases[i] = good;
  cases[0].cores = 0;
  cases[1].cores = BRAID_OVERLAY_MOST_CORES + 1;
  cases[2].models = &slow, cases[2].model_count = 1;
  cases[3].models = &places, cases[3].model_count = 1;
  cases[4].contexts = &priority, cases[4].context_count = 1;
  cases[5].contexts = bandwidth, cases[5].context_count = 2;
  cases[6].contexts = &cores, cases[6].context_count = 1;
  cases[7].contexts = &open, cases[7].context_count = 1, cases[7].is_public = true;
  cases[8].jobs = early, cases[8].job_count = 2;
  cases[9].jobs = &hung;
  cases[10].jobs = &foreign;
  cases[11].jobs = &fails;
  cases[12].models = &rate, cases[12].model_count = 1;
  cases[13].models = &nowhere, cases[13].model_count = 1;
  ok(braid_share_check(&good));
  for (size_t i = 0; i < 14; i++) {
    assert_int_equal(braid_share_check(&cases[i]), BRAID_INVALID_ARGUMENT);
    assert_true(braid_error_detail()[0] != '\0');
  }
  good.jobs = &model;
  assert_int_equal(braid_share_check(&good), BRAID_INVALID_ARGUMENT);
}

/* Policies that are wrong are found. */
static void test_wrong_policies(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = LIGHT}, {.context = 1, .model = LIGHT}};
  const line too_many[] = {{0, {3, 2}, {0}}}, none[] = {{0, {0, 0}, {0}}}, negative[] = {{0, {-1, 4}, {0}}};
  const line *cases[] = {too_many, none, negative};
  braid_share_card card = card_of(jobs, 2);
  outcome out;
  for (size_t i = 0; i < 3; i++) {
    script = cases[i];
    script_lines = 1;
    assert_int_equal(braid_share_run(&card, &kScripted, NULL, out.jobs, out.contexts, &out.totals), BRAID_INTERNAL);
  }
}

/* --- out of memory -------------------------------------------------------------------------------------------------
 */
typedef struct meter {
  int left, held;
} meter;

static void *meter_allocate(void *context, size_t bytes, size_t alignment) {
  meter *m = context;
  if (m->left-- <= 0) return NULL;
  m->held++;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void meter_release(void *context, void *pointer) {
  if (pointer) ((meter *)context)->held--;
  free(pointer);
}

static void test_memory(void **state) {
  (void)state;
  const braid_share_submission jobs[] = {{.context = 0, .model = LIGHT}, {.context = 1, .model = HEAVY}};
  braid_share_card card = card_of(jobs, 2);
  outcome out;
  for (int n = 0;; n++) {
    meter m = {.left = n};
    braid_allocator allocator = {&m, meter_allocate, meter_release};
    braid_status status =
        braid_share_run(&card, braid_share_policy_find("lookahead"), &allocator, out.jobs, out.contexts, &out.totals);
    assert_int_equal(m.held, 0);
    if (status == BRAID_OK) break;
    assert_int_equal(status, BRAID_NO_MEMORY);
    assert_true(n < 100);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places), cmocka_unit_test(test_taken_back), cmocka_unit_test(test_switches),
      cmocka_unit_test(test_loaded), cmocka_unit_test(test_migration),  cmocka_unit_test(test_kill),
      cmocka_unit_test(test_errors), cmocka_unit_test(test_public),     cmocka_unit_test(test_fdinfo),
      cmocka_unit_test(test_queue),  cmocka_unit_test(test_refusals),   cmocka_unit_test(test_wrong_policies),
      cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
