/* Events between two threads: waiting, time limits, calls, failures, use again and again. */
#include "device/event.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "oom.h"

enum { kRounds = 2000 };

static void test_time_limit(void **state) {
  (void)state;
  braid_event *event;
  assert_int_equal(braid_event_create(NULL, &event), BRAID_OK);
  int64_t before = braid_now_ns();
  assert_int_equal(braid_event_wait(event, 5000000), BRAID_TIMEOUT);
  assert_true(braid_now_ns() - before >= 5000000);
  assert_false(braid_event_done(event));
  braid_event_complete(event, BRAID_OK, &(braid_timing){10, 20, 1.5});
  assert_int_equal(braid_event_wait(event, 0), BRAID_OK);
  assert_true(braid_event_timing(event).end_ns == 20 && braid_event_timing(event).energy_uj == 1.5);
  braid_event_reset(event);
  assert_false(braid_event_done(event));
  braid_event_complete(event, BRAID_OK, NULL);
  assert_true(braid_event_timing(event).energy_uj < 0); /* unknown, which is not zero */
  braid_event_destroy(event);
}

static void test_failure(void **state) {
  (void)state;
  braid_event *event;
  assert_int_equal(braid_event_create(NULL, &event), BRAID_OK);
  braid_event_complete(event, braid_fail(BRAID_IO, "the card fell out"), NULL);
  (void)!braid_fail(BRAID_OK, "something else");
  assert_int_equal(braid_event_wait(event, -1), BRAID_IO);
  assert_string_equal(braid_error_detail(), "the card fell out");
  braid_event_reset(event);
  assert_string_equal(braid_event_detail(event), "");
  braid_event_complete(event, BRAID_OK, NULL);
  assert_int_equal(braid_event_wait(event, -1), BRAID_OK);
  braid_event_destroy(event);
}

static void test_native(void **state) {
  (void)state;
  braid_event *event;
  int mine, theirs, native;
  assert_int_equal(braid_event_create(NULL, &event), BRAID_OK);
  assert_null(braid_event_get_native(event, &mine));
  braid_event_set_native(event, &mine, &native);
  assert_ptr_equal(braid_event_get_native(event, &mine), &native);
  assert_null(braid_event_get_native(event, &theirs));
  braid_event_reset(event);
  assert_null(braid_event_get_native(event, &mine));
  braid_event_destroy(event);
}

/* One thread completes, the other registers a call and waits, at every possible moment: the call comes exactly once and
 * not after the wait, so the event can be freed then. */
typedef struct event_race {
  braid_event *event;
  atomic_int turn; /* the round whose event may be completed */
} event_race;

static void *completer(void *context) {
  event_race *race = context;
  for (int round = 1; round <= kRounds; round++) {
    while (atomic_load(&race->turn) != round) braid_futex_wait((uint32_t *)&race->turn, (uint32_t)round - 1, 1000000);
    braid_event_complete(race->event, BRAID_OK, NULL);
  }
  return NULL;
}

static void count(void *context, braid_status status) {
  if (status == BRAID_OK) atomic_fetch_add((atomic_int *)context, 1);
}

static void test_race(void **state) {
  (void)state;
  event_race race = {0};
  braid_thread thread;
  assert_int_equal(braid_thread_start(&thread, "completer", completer, &race), BRAID_OK);
  for (int round = 1; round <= kRounds; round++) {
    atomic_int calls = 0;
    assert_int_equal(braid_event_create(NULL, &race.event), BRAID_OK);
    bool call_first = round % 3 == 0;
    if (call_first) braid_event_on_done(race.event, count, &calls);
    atomic_store(&race.turn, round);
    braid_futex_wake_all((uint32_t *)&race.turn);
    if (!call_first) braid_event_on_done(race.event, count, &calls);
    assert_int_equal(braid_event_wait(race.event, -1), BRAID_OK);
    assert_int_equal(atomic_load(&calls), 1);
    braid_event_destroy(race.event);
  }
  braid_thread_join(&thread);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_time_limit), cmocka_unit_test(test_failure),
                                     cmocka_unit_test(test_native), cmocka_unit_test(test_race)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
