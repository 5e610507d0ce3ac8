/* The order and the ending of tasks over a driver that is a list: its commands end when the test says so, in any order,
 * or never. Whatever happens, tasks end in the order of submission, and every event of the driver is released as often
 * as it was retained. */
#include "launch/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { kTasks = 2000, kDone = 0, kBad = -5 };
static const int64_t kSoon = 10000000000; /* ns */

/* --- a driver ------------------------------------------------------------------------------------------------------
 */
typedef struct command {
  const braid_task *task;
  braid_launch_queue *queue; /* that is told; NULL: it did not ask to be, or has been */
  void *wait;                /* the last of what it waits for */
  int references;            /* atomic */
  int32_t code;
  bool over; /* atomic, as what follows */
} command;

static command commands[2 * kTasks];
static uint32_t command_count, lost, fail_enqueue, no_calls, at_once; /* atomic */
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static braid_launch_queue *queues[2];

static braid_status fake_enqueue(braid_launch_queue *queue, braid_launch_slot *slot, void *const *waits,
                                 size_t wait_count) {
  (void)queue;
  if (__atomic_load_n(&fail_enqueue, __ATOMIC_ACQUIRE)) return braid_fail(BRAID_OUT_OF_RANGE, "not enqueued");
  pthread_mutex_lock(&driver_lock);
  command *c = &commands[command_count];
  *c = (command){.task = slot->task, .wait = wait_count ? waits[wait_count - 1] : NULL, .references = 1};
  c->over = __atomic_load_n(&at_once, __ATOMIC_ACQUIRE);
  __atomic_add_fetch(&command_count, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&driver_lock);
  slot->last = c;
  return BRAID_OK;
}

static void fake_flush(braid_launch_queue *queue) {
  (void)queue;
}

static bool fake_watch(braid_launch_queue *queue, void *event) {
  command *c = event;
  if (__atomic_load_n(&no_calls, __ATOMIC_ACQUIRE)) return false;
  pthread_mutex_lock(&driver_lock);
  bool over = c->over;
  if (!over) c->queue = queue;
  pthread_mutex_unlock(&driver_lock);
  if (over) braid_launch_queue_completed(queue);
  return true;
}

static bool fake_ask(braid_launch_queue *queue, void *event, int32_t *code) {
  (void)queue;
  pthread_mutex_lock(&driver_lock);
  bool over = ((command *)event)->over;
  *code = ((command *)event)->code;
  pthread_mutex_unlock(&driver_lock);
  return over;
}

static braid_status fake_outcome(braid_launch_queue *queue, const braid_launch_slot *slot, braid_timing *timing) {
  (void)queue, (void)timing;
  return slot->code == kDone ? BRAID_OK : braid_fail(BRAID_INTERNAL, "code %d", (int)slot->code);
}

static void fake_retain(braid_launch_queue *queue, void *event) {
  (void)queue;
  __atomic_add_fetch(&((command *)event)->references, 1, __ATOMIC_ACQ_REL);
}

static void fake_release(braid_launch_queue *queue, void *event) {
  (void)queue;
  int left = __atomic_sub_fetch(&((command *)event)->references, 1, __ATOMIC_ACQ_REL);
  if (left < 0) abort();
}

static void fake_lose(braid_launch_queue *queue) {
  (void)queue;
  __atomic_store_n(&lost, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; i++) braid_launch_queue_wake(queues[i]);
}

static const braid_launch_driver kDriver = {.enqueue = fake_enqueue,
                                            .flush = fake_flush,
                                            .watch = fake_watch,
                                            .poll = fake_ask,
                                            .outcome = fake_outcome,
                                            .retain = fake_retain,
                                            .release = fake_release,
                                            .mark_lost = fake_lose};

static uint32_t enqueued(void) {
  return __atomic_load_n(&command_count, __ATOMIC_ACQUIRE);
}

/* Waits until the driver has as many commands. */
static void await_enqueued(uint32_t count) {
  for (int i = 0; enqueued() < count && i < 500000; i++) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
  assert_int_equal(enqueued(), count);
}

/* The command ends, and the queue hears of it if it asked to. */
static void end_command(uint32_t index, int32_t code) {
  command *c = &commands[index];
  pthread_mutex_lock(&driver_lock);
  c->code = code;
  c->over = true;
  braid_launch_queue *queue = c->queue;
  c->queue = NULL;
  pthread_mutex_unlock(&driver_lock);
  if (queue) braid_launch_queue_completed(queue);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static braid_task tasks[kTasks];
static braid_verdict verdicts[kTasks];
static braid_timeline *timelines[2];
static uint64_t submitted[2]; /* per queue */
static int in[kTasks];        /* the queue that it was submitted to */

static void submit(int queue, int i) {
  tasks[i].value = ++submitted[queue];
  in[i] = queue;
  assert_int_equal(braid_launch_queue_submit(queues[queue], &tasks[i]), BRAID_OK);
}

static bool has_ended(int i) {
  return braid_timeline_reached(timelines[in[i]], tasks[i].value);
}

/* Waits for the task's end: how its run ended. */
static braid_status await_end(int i) {
  assert_int_equal(braid_timeline_wait(timelines[in[i]], tasks[i].value, kSoon), BRAID_OK);
  return braid_verdict_status(tasks[i].verdict);
}

static void begin(bool polls, int64_t deadline_ns) {
  command_count = lost = fail_enqueue = no_calls = at_once = 0;
  memset(commands, 0, sizeof commands);
  for (int i = 0; i < 2; i++) {
    *queues[i] = (braid_launch_queue){.driver = &kDriver,
                                      .context = commands,
                                      .device = "list0",
                                      .lost = &lost,
                                      .polls = polls,
                                      .deadline_ns = deadline_ns};
    submitted[i] = 0;
    assert_int_equal(braid_timeline_create(NULL, &timelines[i]), BRAID_OK);
    assert_int_equal(braid_launch_queue_start(queues[i], timelines[i]), BRAID_OK);
  }
  for (int i = 0; i < kTasks; i++) {
    braid_verdict_init(&verdicts[i]);
    tasks[i] = (braid_task){.kind = BRAID_TASK_KERNEL, .label = "task", .verdict = &verdicts[i]};
  }
}

/* All have ended, and nothing of the driver's is held. That they end in order, the queue asserts. */
static void stop(void) {
  for (int i = 0; i < 2; i++) {
    braid_launch_queue_stop(queues[i]);
    assert_true(braid_timeline_value(timelines[i]) == submitted[i]);
    braid_timeline_destroy(timelines[i]);
  }
}

static void finish(void) {
  stop();
  for (uint32_t i = 0; i < command_count; i++) assert_int_equal(commands[i].references, 0);
  for (int i = 0; i < 2; i++) assert_true(braid_launch_queue_drained(queues[i]));
}

/* Commands that end in the wrong order: tasks end in theirs. */
static void check_order(bool polls) {
  begin(polls, 0);
  for (int i = 0; i < 100; i++) submit(0, i);
  await_enqueued(100);
  for (uint32_t i = 100; i-- > 0;) {
    if (i == 0) assert_true(braid_timeline_value(timelines[0]) == 0);
    end_command(i, i == 50 ? kBad : kDone);
  }
  for (int i = 0; i < 100; i++) assert_int_equal(await_end(i), i == 50 ? BRAID_INTERNAL : BRAID_OK);
  assert_string_equal(verdicts[50].detail, "code -5");
  finish();
}

static void test_order(void **state) {
  (void)state;
  check_order(false);
  check_order(true);
}

/* No more than the window is in the driver's hands; values go on over its end. */
static void check_window(bool polls) {
  begin(polls, 0);
  for (int i = 0; i < kTasks; i++) submit(0, i);
  await_enqueued(BRAID_LAUNCH_WINDOW);
  for (uint32_t i = 0; i < kTasks; i++) {
    if (i > 0) await_enqueued(i + BRAID_LAUNCH_WINDOW < kTasks ? i + BRAID_LAUNCH_WINDOW : kTasks);
    assert_ptr_equal(commands[i].task, &tasks[i]);
    assert_false(has_ended((int)i));
    end_command(i, kDone);
    assert_int_equal(await_end((int)i), BRAID_OK);
  }
  finish();
}

static void test_window(void **state) {
  (void)state;
  check_window(false);
  check_window(true);
}

/* What waits behind a task of its run that fails never reaches the driver. */
static void test_cancel(void **state) {
  (void)state;
  begin(false, 0);
  for (int i = 0; i < kTasks; i++) {
    tasks[i].verdict = &verdicts[i == kTasks - 1]; /* the last is of another run */
    submit(0, i);
  }
  await_enqueued(BRAID_LAUNCH_WINDOW);
  end_command(0, kBad);
  assert_int_equal(await_end(0), BRAID_INTERNAL);
  for (uint32_t i = 1; i < BRAID_LAUNCH_WINDOW; i++) end_command(i, kDone);
  await_enqueued(BRAID_LAUNCH_WINDOW + 1);
  assert_ptr_equal(commands[BRAID_LAUNCH_WINDOW].task, &tasks[kTasks - 1]);
  end_command(BRAID_LAUNCH_WINDOW, kDone);
  assert_int_equal(await_end(kTasks - 1), BRAID_OK);
  assert_ptr_equal(verdicts[0].task, &tasks[0]);
  finish();
}

/* A timeline of the host is waited for here, one of a queue that shares the context by the driver. */
static void check_waits(bool polls) {
  braid_timeline *host;
  assert_int_equal(braid_timeline_create(NULL, &host), BRAID_OK);
  begin(polls, 0);
  for (int i = 0; i < 3; i++) tasks[i].verdict = &verdicts[0];
  const braid_point gate = {host, 7};
  tasks[1].waits = &gate;
  tasks[1].wait_count = 1;
  submit(0, 0);
  submit(0, 1);
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_equal(enqueued(), 1);
  braid_timeline_raise(host, 6);
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_equal(enqueued(), 1);
  braid_timeline_raise(host, 8);
  await_enqueued(2);
  const braid_point both[] = {{timelines[0], 1}, {timelines[0], 2}};
  tasks[2].waits = both;
  tasks[2].wait_count = 2;
  submit(1, 2);
  await_enqueued(3);
  assert_ptr_equal(commands[2].wait, &commands[1]);
  for (uint32_t i = 0; i < 3; i++) {
    end_command(i, kDone);
    assert_int_equal(await_end((int)i), BRAID_OK);
  }
  finish();
  braid_timeline_destroy(host);
}

static void test_waits(void **state) {
  (void)state;
  check_waits(false);
  check_waits(true);
}

/* What waits for a task of another run is not handed to the driver before that has ended, and is then run, though it
 * failed: a driver would fail it too. */
static void check_other_run(bool polls) {
  begin(polls, 0);
  submit(0, 0);
  const braid_point point = {timelines[0], 1};
  tasks[1].waits = &point;
  tasks[1].wait_count = 1;
  submit(1, 1);
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_equal(enqueued(), 1);
  end_command(0, kBad);
  await_enqueued(2);
  assert_null(commands[1].wait);
  end_command(1, kDone);
  assert_int_equal(await_end(1), BRAID_OK);
  assert_int_equal(await_end(0), BRAID_INTERNAL);
  finish();
}

static void test_other_run(void **state) {
  (void)state;
  check_other_run(false);
  check_other_run(true);
}

/* A driver that refuses a task fails its run at once; the task ends in its turn. */
static void test_refused(void **state) {
  (void)state;
  begin(false, 0);
  submit(0, 0);
  fail_enqueue = 1;
  submit(0, 1);
  assert_true(braid_verdict_cancelled(&verdicts[1]));
  assert_false(has_ended(1));
  end_command(0, kDone);
  assert_int_equal(await_end(1), BRAID_OUT_OF_RANGE);
  assert_string_equal(verdicts[1].detail, "not enqueued");
  assert_int_equal(await_end(0), BRAID_OK);
  finish();
}

/* Commands that are over before the driver has handed out their events: it calls back while the task is being issued.
 */
static void check_at_once(bool polls) {
  begin(polls, 0);
  at_once = 1;
  for (int i = 0; i < 50; i++) {
    submit(0, i);
    if (!polls) assert_true(has_ended(i));
    assert_int_equal(await_end(i), BRAID_OK);
  }
  finish();
}

static void test_at_once(void **state) {
  (void)state;
  check_at_once(false);
  check_at_once(true);
}

/* A driver that can call back only at first: it is asked from then on. */
static void test_no_calls(void **state) {
  (void)state;
  begin(false, 0);
  submit(0, 0);
  no_calls = 1;
  for (int i = 1; i < 4; i++) submit(0, i);
  for (uint32_t i = 0; i < 4; i++) {
    end_command(i, kDone);
    assert_int_equal(await_end((int)i), BRAID_OK);
  }
  finish();
}

/* A command that hangs: everything ends without it, both queues stop, and it may end after all when nobody waits. */
static void check_hang(bool polls) {
  begin(polls, 20000000);
  for (int i = 0; i < 700; i++) submit(0, i);
  for (int i = 0; i < 700; i++) assert_int_equal(await_end(i), BRAID_DEVICE_LOST);
  assert_non_null(strstr(verdicts[0].detail, "list0 does not answer"));
  assert_non_null(strstr(verdicts[699].detail, "list0 is lost"));
  for (int i = 700; i < 1400; i++) submit(0, i);
  for (int i = 700; i < 1400; i++) assert_int_equal(await_end(i), BRAID_DEVICE_LOST);
  uint32_t held = enqueued();
  assert_int_equal(held, BRAID_LAUNCH_WINDOW);
  stop();
  assert_int_equal(queues[0]->pending, held);
  for (uint32_t i = 0; i < held; i++) {
    assert_false(braid_launch_queue_drained(queues[0]));
    end_command(i, kDone);
  }
  assert_true(braid_launch_queue_drained(queues[0]));
  for (uint32_t i = 0; i < held; i++) assert_int_equal(commands[i].references, 0);
}

static void test_hang(void **state) {
  (void)state;
  check_hang(false);
  check_hang(true);
}

static int compare_times(const void *a, const void *b) {
  return *(const int64_t *)a < *(const int64_t *)b ? -1 : *(const int64_t *)a > *(const int64_t *)b;
}

/* A task that waits for what never comes, and one behind it, end when their run is cancelled, and at once: a worker
 * that looked now and then would be late in half of the cases. */
static void check_cancelled_wait(bool polls) {
  enum { kTries = 21 };
  static const int64_t kAtOnce = 5000000; /* ns */
  int64_t took[kTries];
  braid_timeline *host;
  assert_int_equal(braid_timeline_create(NULL, &host), BRAID_OK);
  const braid_point never = {host, 1};
  begin(polls, 0);
  for (int i = 0; i < kTries; i++) {
    for (int k = 2 * i; k < 2 * i + 2; k++) {
      tasks[k].waits = &never;
      tasks[k].wait_count = 1;
      tasks[k].verdict = &verdicts[i];
      submit(0, k);
    }
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    assert_false(has_ended(2 * i));
    int64_t start = braid_now_ns();
    braid_verdict_cancel(&verdicts[i]);
    assert_int_equal(await_end(2 * i + 1), BRAID_CANCELLED);
    took[i] = braid_now_ns() - start;
  }
  assert_int_equal(enqueued(), 0);
  finish();
  braid_timeline_destroy(host);
  qsort(took, kTries, sizeof *took, compare_times);
  print_message("a waiting task ends %d us after it is cancelled\n", (int)(took[kTries / 2] / 1000));
  assert_true(took[kTries / 2] < kAtOnce);
}

static void test_cancelled_wait(void **state) {
  (void)state;
  check_cancelled_wait(false);
  check_cancelled_wait(true);
}

static int set_up(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    queues[i] = calloc(1, sizeof *queues[i]);
    if (!queues[i]) return 1;
  }
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) free(queues[i]);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order),          cmocka_unit_test(test_window),
                                     cmocka_unit_test(test_cancel),         cmocka_unit_test(test_waits),
                                     cmocka_unit_test(test_other_run),      cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_at_once),        cmocka_unit_test(test_no_calls),
                                     cmocka_unit_test(test_cancelled_wait), cmocka_unit_test(test_hang)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
