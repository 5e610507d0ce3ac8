/* The host queue: tasks that wait can be cancelled, by whoever sets the verdict, and then do not run; a failure is its
 * run's own; callers' threads and the queue's run tasks in the order of their values. */
#include "braid/host_queue.h"

#include <pthread.h>

#include "device/queue.h"
#include "oom.h"

static const int64_t kPatience = 5000000000; /* ns */
static int ran;                              /* atomic */

/* A task that reads fails. */
static braid_status count_run(void *context, const braid_task *task) {
  (void)context;
  __atomic_add_fetch(&ran, 1, __ATOMIC_ACQ_REL);
  return task->kind == BRAID_TASK_READ ? braid_fail(BRAID_IO, "on purpose") : BRAID_OK;
}

static const braid_host_queue_ops kOps = {.run = count_run};

/* As much of a backend as braid_queue asks for. `device` is the queue's ops. */
static braid_status make_queue(void *device, braid_timeline *timeline, void **out) {
  return braid_host_queue_create(NULL, "test", device, NULL, timeline, (braid_host_queue **)out);
}

static void destroy_queue(void *device, void *queue) {
  (void)device;
  braid_host_queue_destroy(queue);
}

static braid_status submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(queue, task);
}

static _Thread_local bool is_caller;
static int64_t total; /* whoever runs a task is alone */

static braid_status add_one(void *context, const braid_task *task) {
  (void)task;
  if (context) assert_true(is_caller);
  total++;
  return BRAID_OK;
}

static void run_here(void *queue, void *recording, uint64_t first) {
  braid_host_queue_run(queue, recording, first, is_caller ? add_one : count_run, is_caller ? &is_caller : NULL);
}

static braid_status record(void *queue, braid_task *const *tasks, size_t count, void **out) {
  return braid_host_queue_record(queue, tasks, count, out);
}

static void erase(void *queue, void *recording) {
  braid_host_queue_erase(queue, recording);
}

static braid_status replay(void *queue, void *recording, uint64_t first) {
  return braid_host_queue_replay(queue, recording, first);
}

static const braid_backend kBackend = {.queue_create = make_queue,
                                       .queue_destroy = destroy_queue,
                                       .submit = submit,
                                       .run = run_here,
                                       .record = record,
                                       .erase = erase,
                                       .replay = replay};

typedef struct waiting {
  braid_queue queue;
  braid_timeline *gate;
  braid_point opens;
  braid_verdict verdict, other;
  braid_task tasks[3];
} waiting;

/* A task that waits for the gate, one behind it, and one of another run. */
static void start(waiting *w) {
  *w = (waiting){.tasks = {{.label = "first"}, {.label = "behind"}, {.label = "other"}}};
  ran = 0;
  assert_int_equal(braid_queue_open(&w->queue, NULL, &kBackend, (void *)&kOps), BRAID_OK);
  assert_int_equal(braid_timeline_create(NULL, &w->gate), BRAID_OK);
  w->opens = (braid_point){w->gate, 1};
  w->tasks[0].waits = &w->opens;
  w->tasks[0].wait_count = 1;
  for (int i = 0; i < 3; i++) {
    w->tasks[i].verdict = i < 2 ? &w->verdict : &w->other;
    assert_int_equal(braid_queue_submit(&w->queue, &w->tasks[i]), BRAID_OK);
  }
  assert_int_equal(braid_queue_wait(&w->queue, &w->tasks[0], 2000000), BRAID_TIMEOUT);
}

static void finish(waiting *w) {
  braid_timeline_raise(w->gate, 1);
  braid_queue_close(&w->queue);
  braid_timeline_destroy(w->gate);
}

static void test_waits_end(void **state) {
  (void)state;
  waiting w;
  start(&w);
  braid_verdict_cancel(&w.verdict);
  assert_int_equal(braid_queue_wait(&w.queue, &w.tasks[1], kPatience), BRAID_CANCELLED);
  assert_int_equal(braid_queue_wait(&w.queue, &w.tasks[2], kPatience), BRAID_OK);
  assert_int_equal(ran, 1);
  finish(&w);
}

/* What it waits for comes after all, together with the cancel. */
static void test_cancelled_before_its_turn(void **state) {
  (void)state;
  waiting w;
  start(&w);
  braid_verdict_cancel(&w.verdict);
  braid_timeline_raise(w.gate, 1);
  assert_int_equal(braid_queue_wait(&w.queue, &w.tasks[2], kPatience), BRAID_OK);
  assert_int_equal(braid_verdict_status(&w.verdict), BRAID_CANCELLED);
  assert_int_equal(ran, 1);
  finish(&w);
}

/* The first fails when it is its turn: the one behind is not run, that of the other run is. */
static void test_failure(void **state) {
  (void)state;
  waiting w;
  start(&w);
  w.tasks[0].kind = BRAID_TASK_READ; /* it is ours: nobody looks at it before the gate opens */
  braid_timeline_raise(w.gate, 1);
  assert_int_equal(braid_queue_wait(&w.queue, &w.tasks[2], kPatience), BRAID_OK);
  assert_int_equal(braid_queue_wait(&w.queue, &w.tasks[1], kPatience), BRAID_IO);
  assert_string_equal(braid_error_detail(), "on purpose");
  assert_ptr_equal(w.verdict.task, &w.tasks[0]);
  assert_int_equal(ran, 2);
  finish(&w);
}

/* --- in the caller's thread ----------------------------------------------------------------------------------------
 */
static const braid_host_queue_ops kAdding = {.run = add_one};
enum { kThreads = 4, kRounds = 2000 };

typedef struct adder {
  braid_queue *queue;
  int64_t here;
  pthread_t thread;
} adder;

static braid_status replay_two(braid_queue *queue, void *recording) {
  pthread_mutex_lock(&queue->lock);
  braid_status status = braid_queue_replay_locked(queue, recording, 2);
  pthread_mutex_unlock(&queue->lock);
  return status;
}

/* Runs two tasks here, or replays or submits them where the queue is busy. */
static void *add_many(void *context) {
  adder *a = context;
  braid_verdict verdict = {0};
  braid_task tasks[2] = {{.verdict = &verdict, .awaited = true}, {.verdict = &verdict, .awaited = true}};
  braid_task *const both[2] = {&tasks[0], &tasks[1]};
  is_caller = true;
  for (int round = 0; round < kRounds; round++) {
    void *recording; /* gone as soon as its last value is reached */
    assert_int_equal(record(a->queue->self, both, 2, &recording), BRAID_OK);
    bool here = round % 4 && braid_queue_run(a->queue, recording, 2);
    a->here += here;
    if (!here && round % 2 == 0) {
      assert_int_equal(replay_two(a->queue, recording), BRAID_OK);
      assert_int_equal(braid_timeline_wait(a->queue->timeline, tasks[0].value + 1, -1), BRAID_OK);
    }
    for (int i = 0; i < 2 && !here && round % 2; i++)
      assert_int_equal(braid_queue_submit(a->queue, &tasks[i]), BRAID_OK);
    if (!here && round % 2) assert_int_equal(braid_queue_wait(a->queue, &tasks[1], -1), BRAID_OK);
    erase(a->queue->self, recording);
  }
  return NULL;
}

static void test_callers_and_the_queue_take_turns(void **state) {
  (void)state;
  adder adders[kThreads];
  braid_queue queue;
  int64_t here = 0;
  assert_int_equal(braid_queue_open(&queue, NULL, &kBackend, (void *)&kAdding), BRAID_OK);
  for (int i = 0; i < kThreads; i++) {
    adders[i] = (adder){.queue = &queue};
    assert_int_equal(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]), 0);
  }
  for (int i = 0; i < kThreads; i++) {
    assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
    here += adders[i].here;
  }
  braid_queue_close(&queue);
  assert_true(total == 2 * kThreads * kRounds);
  assert_true(here > 0);
  print_message("%lld of %d by callers\n", (long long)here, kThreads * kRounds);
}

/* Not before a task that was submitted, though that one only waits. */
static void test_not_before_others(void **state) {
  (void)state;
  waiting w;
  start(&w);
  braid_verdict verdict = {0};
  braid_task task = {.verdict = &verdict}, *const only = &task;
  void *recording;
  assert_int_equal(record(w.queue.self, &only, 0, &recording), BRAID_INVALID_ARGUMENT);
  assert_int_equal(record(w.queue.self, &only, 1, &recording), BRAID_OK);
  assert_false(braid_queue_run(&w.queue, recording, 1));
  braid_timeline_raise(w.gate, 1);
  assert_int_equal(braid_queue_wait(&w.queue, &w.tasks[2], kPatience), BRAID_OK);
  assert_true(braid_queue_run(&w.queue, recording, 1));
  assert_true(braid_timeline_reached(w.queue.timeline, w.queue.last));
  erase(w.queue.self, recording);
  assert_int_equal(ran, 4);
  finish(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_waits_end), cmocka_unit_test(test_cancelled_before_its_turn),
                                     cmocka_unit_test(test_failure),
                                     cmocka_unit_test(test_callers_and_the_queue_take_turns),
                                     cmocka_unit_test(test_not_before_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
