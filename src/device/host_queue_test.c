/* The host queue: a task that waits can be cancelled, by whoever sets the word, and then does not run. */
#include "braid/host_queue.h"

#include <pthread.h>

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

/* --- in the caller's thread ----------------------------------------------------------------------------------------
 */
static _Thread_local bool is_caller;
static int64_t total; /* whoever runs a task is alone */

static braid_status add_one(void *context, const braid_task *task) {
  (void)task;
  if (context) assert_true(is_caller);
  total++;
  return BRAID_OK;
}

static const braid_host_queue_ops kAdding = {.run = add_one};
enum { kThreads = 4, kRounds = 2000 };

typedef struct adder {
  braid_host_queue *queue;
  int64_t here;
  pthread_t thread;
} adder;

/* Runs two tasks here, or submits them where the queue is busy. */
static void *add_many(void *context) {
  adder *a = context;
  braid_event *events[2];
  braid_task tasks[2], *const both[2] = {&tasks[0], &tasks[1]};
  is_caller = true;
  for (int i = 0; i < 2; i++) assert_int_equal(braid_event_create(NULL, &events[i]), BRAID_OK);
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < 2; i++) {
      braid_event_reset(events[i]);
      tasks[i] = (braid_task){.done = events[i]};
    }
    bool here = round % 4 && braid_host_queue_run(a->queue, both, 2, add_one, a) == BRAID_OK;
    a->here += here;
    for (int i = 0; i < 2 && !here; i++) assert_int_equal(braid_host_queue_submit(a->queue, both[i]), BRAID_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(braid_event_wait(events[i], here ? 0 : -1), BRAID_OK);
  }
  for (int i = 0; i < 2; i++) braid_event_destroy(events[i]);
  return NULL;
}

static void test_callers_and_the_queue_take_turns(void **state) {
  (void)state;
  adder adders[kThreads];
  braid_host_queue *queue;
  int64_t here = 0;
  assert_int_equal(braid_host_queue_create(NULL, "test", &kAdding, NULL, &queue), BRAID_OK);
  for (int i = 0; i < kThreads; i++) {
    adders[i] = (adder){.queue = queue};
    assert_int_equal(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]), 0);
  }
  for (int i = 0; i < kThreads; i++) {
    assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
    here += adders[i].here;
  }
  braid_host_queue_destroy(queue);
  assert_true(total == 2 * kThreads * kRounds);
  assert_true(here > 0);
  print_message("%lld of %d by callers\n", (long long)here, kThreads * kRounds);
}

/* Not before a task that was submitted, though that one only waits. */
static void test_not_before_others(void **state) {
  (void)state;
  waiting w;
  start(&w);
  braid_event *event;
  assert_int_equal(braid_event_create(NULL, &event), BRAID_OK);
  braid_task task = {.done = event}, *const one = &task;
  assert_int_equal(braid_host_queue_run(w.queue, &one, 1, count_run, NULL), BRAID_BUSY);
  assert_false(braid_event_done(event));
  braid_event_complete(w.gate, BRAID_OK, NULL);
  assert_int_equal(braid_event_wait(w.behind, kPatience), BRAID_OK);
  while (braid_host_queue_run(w.queue, &one, 1, count_run, NULL) == BRAID_BUSY) {
  }
  assert_true(braid_event_done(event));
  assert_int_equal(ran, 3);
  braid_event_destroy(event);
  finish(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_waits_end), cmocka_unit_test(test_cancelled_before_its_turn),
                                     cmocka_unit_test(test_failed_wait),
                                     cmocka_unit_test(test_callers_and_the_queue_take_turns),
                                     cmocka_unit_test(test_not_before_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
