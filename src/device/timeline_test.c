/* Timelines between threads: waiting, time limits, calls, values that only grow; verdicts. */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "braid/device.h"
#include "oom.h"

enum { kRounds = 2000, kWaiters = 4 };

static void test_time_limit(void **state) {
  (void)state;
  braid_timeline *timeline;
  assert_int_equal(braid_timeline_create(NULL, &timeline), BRAID_OK);
  assert_true(braid_timeline_reached(timeline, 0));
  int64_t before = braid_now_ns();
  assert_int_equal(braid_timeline_wait(timeline, 1, 5000000), BRAID_TIMEOUT);
  assert_true(braid_now_ns() - before >= 5000000);
  braid_timeline_raise(timeline, 3);
  for (uint64_t value = 0; value < 6; value++) {
    assert_int_equal(braid_timeline_reached(timeline, value), value <= 3);
    assert_int_equal(braid_timeline_wait(timeline, value, 0), value <= 3 ? BRAID_OK : BRAID_TIMEOUT);
  }
  braid_timeline_raise(timeline, 2); /* it only grows */
  assert_true(braid_timeline_value(timeline) == 3);
  braid_timeline_destroy(timeline);
  braid_timeline_destroy(NULL);
}

/* A limit beyond what the clock can say is none. */
static void *raise_later(void *context) {
  (void)braid_futex_wait(&(uint32_t){0}, 0, 3000000);
  braid_timeline_raise(context, 1);
  return NULL;
}

static void test_long_limit(void **state) {
  (void)state;
  braid_timeline *timeline;
  braid_thread thread;
  assert_int_equal(braid_timeline_create(NULL, &timeline), BRAID_OK);
  assert_int_equal(braid_thread_start(&thread, "raiser", raise_later, timeline), BRAID_OK);
  assert_int_equal(braid_timeline_wait(timeline, 1, INT64_MAX), BRAID_OK);
  braid_thread_join(&thread);
  braid_timeline_destroy(timeline);
}

static void test_native(void **state) {
  (void)state;
  braid_timeline *timeline;
  int mine, theirs, native;
  assert_int_equal(braid_timeline_create(NULL, &timeline), BRAID_OK);
  assert_null(braid_timeline_get_native(timeline, &mine));
  braid_timeline_set_native(timeline, &mine, &native);
  assert_ptr_equal(braid_timeline_get_native(timeline, &mine), &native);
  assert_null(braid_timeline_get_native(timeline, &theirs));
  braid_timeline_set_native(timeline, NULL, NULL);
  assert_null(braid_timeline_get_native(timeline, &mine));
  braid_timeline_destroy(timeline);
}

/* --- calls ---------------------------------------------------------------------------------------------------------
 */
typedef struct counter {
  braid_notice notice; /* first */
  braid_timeline *timeline;
  uint64_t seen[8]; /* values at the calls */
  int calls;
} counter;

static void note_call(braid_notice *notice) {
  counter *own = (counter *)notice;
  own->seen[own->calls++] = braid_timeline_value(own->timeline);
}

/* Each at its value, once, however far a raise goes; at once if it is reached. */
static void test_calls(void **state) {
  (void)state;
  counter counters[5] = {0};
  braid_timeline *timeline;
  assert_int_equal(braid_timeline_create(NULL, &timeline), BRAID_OK);
  static const uint64_t kValues[] = {5, 2, 5, 9, 0};
  for (int i = 0; i < 5; i++) {
    counters[i].timeline = timeline;
    counters[i].notice.call = note_call;
    braid_timeline_notify(timeline, kValues[i], &counters[i].notice);
    assert_int_equal(counters[i].calls, kValues[i] == 0);
  }
  for (uint64_t value = 1; value < 9; value += 1 + (value == 4)) braid_timeline_raise(timeline, value); /* not 5 */
  static const uint64_t kSeen[] = {6, 2, 6};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(counters[i].calls, 1);
    assert_true(counters[i].seen[0] == kSeen[i]);
  }
  assert_int_equal(counters[3].calls, 0);
  braid_timeline_raise(timeline, 100);
  assert_int_equal(counters[3].calls, 1);
  braid_timeline_notify(timeline, 100, &counters[3].notice); /* its owner's again */
  assert_int_equal(counters[3].calls, 2);
  braid_timeline_destroy(timeline);
}

/* --- races ---------------------------------------------------------------------------------------------------------
 * One thread raises as fast as it can, others wait for every value or for every few, with limits and without, and ask
 * to be called: nobody sleeps for ever, and who is woken finds what was written before the raise. */
typedef struct racer {
  braid_timeline *timeline;
  uint64_t step;
  int64_t limit_ns;
  int wrong;
  braid_thread thread;
} racer;

static uint64_t written[kRounds + 1]; /* plain: the timeline orders it */

static void *wait_for_each(void *context) {
  racer *own = context;
  for (uint64_t value = 1; value <= kRounds; value += own->step) {
    while (braid_timeline_wait(own->timeline, value, own->limit_ns) != BRAID_OK) {
    }
    own->wrong += written[value] != value;
  }
  return NULL;
}

typedef struct called {
  braid_notice notice; /* first */
  atomic_int *calls;
} called;

static void count_call(braid_notice *notice) {
  atomic_fetch_add(((called *)notice)->calls, 1);
}

static void *be_called_for_each(void *context) {
  racer *own = context;
  static called notices[kRounds];
  atomic_int calls = 0;
  for (uint64_t value = 1; value <= kRounds; value++) {
    notices[value - 1] = (called){.notice = {.call = count_call}, .calls = &calls};
    braid_timeline_notify(own->timeline, value, &notices[value - 1].notice);
    if (value % 7 == 0) (void)braid_timeline_wait(own->timeline, value, -1);
  }
  (void)braid_timeline_wait(own->timeline, kRounds, -1);
  for (int i = 0; i < 10000 && calls < kRounds; i++) (void)braid_futex_wait(&(uint32_t){0}, 0, 100000);
  own->wrong += calls != kRounds;
  return NULL;
}

static void test_race(void **state) {
  (void)state;
  racer racers[kWaiters];
  braid_timeline *timeline;
  assert_int_equal(braid_timeline_create(NULL, &timeline), BRAID_OK);
  for (int i = 0; i < kWaiters; i++) {
    racers[i] = (racer){.timeline = timeline, .step = i == 1 ? 13 : 1, .limit_ns = i == 2 ? 1000 : -1};
    assert_int_equal(
        braid_thread_start(&racers[i].thread, "racer", i == 3 ? be_called_for_each : wait_for_each, &racers[i]),
        BRAID_OK);
  }
  for (uint64_t value = 1; value <= kRounds; value++) {
    written[value] = value;
    braid_timeline_raise(timeline, value);
    if (value % 50 == 0) (void)braid_futex_wait(&(uint32_t){0}, 0, 50000);
  }
  for (int i = 0; i < kWaiters; i++) {
    braid_thread_join(&racers[i].thread);
    assert_int_equal(racers[i].wrong, 0);
  }
  braid_timeline_destroy(timeline);
}

/* --- verdicts ------------------------------------------------------------------------------------------------------
 */
static void test_verdict(void **state) {
  (void)state;
  braid_verdict verdict;
  braid_task first = {.label = "first"}, second = {.label = "second"};
  braid_verdict_init(&verdict);
  assert_false(braid_verdict_cancelled(&verdict));
  assert_int_equal(braid_verdict_status(&verdict), BRAID_OK);
  braid_verdict_cancel(&verdict);
  assert_int_equal(braid_verdict_status(&verdict), BRAID_CANCELLED);
  assert_string_equal(braid_error_detail(), "");
  braid_verdict_init(&verdict);
  braid_verdict_fail(&verdict, &first, braid_fail(BRAID_IO, "the card fell out"));
  assert_string_equal(braid_error_detail(), ""); /* the verdict has it */
  braid_verdict_fail(&verdict, &second, braid_fail(BRAID_INTERNAL, "and then some"));
  assert_true(braid_verdict_cancelled(&verdict));
  assert_int_equal(braid_verdict_status(&verdict), BRAID_IO);
  assert_string_equal(braid_error_detail(), "the card fell out");
  assert_ptr_equal(verdict.task, &first);
  braid_verdict_init(&verdict);
  assert_int_equal(braid_verdict_status(&verdict), BRAID_OK);
  assert_string_equal(verdict.detail, "");
}

static braid_status make_timeline(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_timeline *timeline;
  braid_status status = braid_timeline_create(allocator, &timeline);
  braid_timeline_destroy(timeline);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(make_timeline, NULL) >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_time_limit),   cmocka_unit_test(test_long_limit),
                                     cmocka_unit_test(test_native),       cmocka_unit_test(test_calls),
                                     cmocka_unit_test(test_race),         cmocka_unit_test(test_verdict),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
