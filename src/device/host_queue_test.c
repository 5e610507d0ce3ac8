/* The host queue: a task that waits can be cancelled, by whoever sets the word, and then does not run. */
#include "braid/host_queue.h"

#include "base/clock.h"
#include "oom.h"

static const int64_t kPatience = 5000000000; /* ns */
static int ran;                              /* atomic */

static braid_status count_run(void *context, const braid_task *task) {
  (void)context, (void)task;
  __atomic_add_fetch(&ran, 1, __ATOMIC_ACQ_REL);
  return BRAID_OK;
}

static const braid_host_queue_ops kOps = {.run = count_run};

typedef struct waiting {
  braid_host_queue *queue;
  braid_event *gate, *done, *behind;
  uint32_t cancel;
  braid_task tasks[2];
} waiting;

/* A task that waits for the gate, and one behind it. */
static void start(waiting *w) {
  *w = (waiting){0};
  ran = 0;
  assert_int_equal(braid_host_queue_create(NULL, "test", &kOps, NULL, &w->queue), BRAID_OK);
  assert_int_equal(braid_event_create(NULL, &w->gate), BRAID_OK);
  assert_int_equal(braid_event_create(NULL, &w->done), BRAID_OK);
  assert_int_equal(braid_event_create(NULL, &w->behind), BRAID_OK);
  w->tasks[0] = (braid_task){.waits = &w->gate, .wait_count = 1, .cancel = &w->cancel, .done = w->done};
  w->tasks[1] = (braid_task){.cancel = &w->cancel, .done = w->behind};
  for (int i = 0; i < 2; i++) assert_int_equal(braid_host_queue_submit(w->queue, &w->tasks[i]), BRAID_OK);
  assert_int_equal(braid_event_wait(w->done, 2000000), BRAID_TIMEOUT);
}

static void finish(waiting *w) {
  if (!braid_event_done(w->gate)) braid_event_complete(w->gate, BRAID_OK, NULL);
  braid_host_queue_destroy(w->queue);
  braid_event_destroy(w->gate);
  braid_event_destroy(w->done);
  braid_event_destroy(w->behind);
}

static void test_waits_end(void **state) {
  (void)state;
  waiting w;
  start(&w);
  __atomic_store_n(&w.cancel, 1, __ATOMIC_RELEASE);
  assert_int_equal(braid_event_wait(w.done, kPatience), BRAID_CANCELLED);
  assert_int_equal(braid_event_wait(w.behind, kPatience), BRAID_CANCELLED);
  assert_int_equal(ran, 0);
  finish(&w);
}

/* What it waits for comes after all, together with the cancel. */
static void test_cancelled_before_its_turn(void **state) {
  (void)state;
  waiting w;
  start(&w);
  __atomic_store_n(&w.cancel, 1, __ATOMIC_RELEASE);
  braid_event_complete(w.gate, BRAID_OK, NULL);
  assert_int_equal(braid_event_wait(w.done, kPatience), BRAID_CANCELLED);
  assert_int_equal(ran, 0);
  finish(&w);
}

static void test_failed_wait(void **state) {
  (void)state;
  waiting w;
  start(&w);
  braid_event_complete(w.gate, braid_fail(BRAID_IO, "on purpose"), NULL);
  assert_int_equal(braid_event_wait(w.done, kPatience), BRAID_IO);
  assert_int_equal(braid_event_wait(w.behind, kPatience), BRAID_CANCELLED);
  assert_int_equal(w.cancel, 1);
  finish(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_waits_end), cmocka_unit_test(test_cancelled_before_its_turn),
                                     cmocka_unit_test(test_failed_wait)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
