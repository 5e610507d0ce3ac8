/* Conformance: the order of tasks, waits within and across queues, failures and cancelling. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "device/conformance.h"

enum { kMany = 300, kThreads = 4, kShort = 3000000 /* ns */ };

/* Many tasks with an event each, and a buffer with a slot per task. */
typedef struct task_load {
  const braid_suite *suite;
  void *buffer;
  size_t stride, count;
  braid_event *events[kMany];
  braid_task tasks[kMany];
  uint64_t values[kMany];
} task_load;

static braid_status load_init(task_load *load, const braid_suite *suite) {
  load->suite = suite;
  load->stride = suite->info->alignment > sizeof(uint64_t) ? suite->info->alignment : sizeof(uint64_t);
  braid_status status = suite->backend->buffer_create(suite->self, kMany * load->stride, &load->buffer);
  for (; status == BRAID_OK && load->count < kMany; load->count++) {
    size_t i = load->count;
    status = braid_event_create(NULL, &load->events[i]);
    load->values[i] = i + 1;
    load->tasks[i] =
        (braid_task){.kind = BRAID_TASK_WRITE,
                     .label = "conformance",
                     .target = {.buffer = load->buffer, .offset = i * load->stride, .bytes = sizeof(uint64_t)},
                     .host = &load->values[i],
                     .done = load->events[i]};
  }
  return status;
}

static void load_deinit(task_load *load) {
  for (size_t i = 0; i < load->count; i++) braid_event_destroy(load->events[i]);
  if (load->buffer) load->suite->backend->buffer_destroy(load->suite->self, load->buffer);
}

static bool submit(const task_load *load, void *queue, const braid_task *task, char *detail) {
  braid_status status = load->suite->backend->submit(queue, (braid_task *)task);
  if (status == BRAID_OK && load->suite->backend->flush) load->suite->backend->flush(queue);
  SUITE_CHECK(status == BRAID_OK, "submit: %s", braid_error_detail());
  return true;
}

/* Runs a case that works on a load. */
static bool with_load(braid_suite *suite, char *detail, bool (*run)(task_load *load, void *queue, char *detail)) {
  task_load *load = braid_zalloc(NULL, sizeof *load);
  bool passed = load && load_init(load, suite) == BRAID_OK;
  if (passed)
    passed = run(load, suite->queue, detail);
  else
    braid_suite_fail(detail, "no memory for the case: %s", braid_error_detail());
  if (load) load_deinit(load);
  braid_free(NULL, load);
  return passed;
}

/* --- order ---------------------------------------------------------------------------------------------------------
 */
static bool run_order(task_load *load, void *queue, char *detail) {
  for (size_t i = 0; i < load->count; i++) load->tasks[i].target.offset = 0;
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < load->count; i++) {
      braid_event_reset(load->events[i]);
      if (!submit(load, queue, &load->tasks[i], detail)) return false;
    }
    SUITE_CHECK(braid_event_wait(load->events[load->count - 1], kSuitePatience) == BRAID_OK, "last task: %s",
                braid_error_detail());
    for (size_t i = 0; i < load->count; i++)
      SUITE_CHECK(braid_event_done(load->events[i]), "task %zu is not done although the last one is", i);
    uint64_t got = 0;
    SUITE_CHECK(braid_suite_read(load->suite, queue, load->buffer, 0, &got, sizeof got) == BRAID_OK, "read: %s",
                braid_error_detail());
    SUITE_CHECK(load->suite->info->modelled || got == load->count, "the last of %zu writes is not what stands",
                load->count);
  }
  return true;
}

static bool case_order(braid_suite *suite, char *detail) {
  return with_load(suite, detail, run_order);
}

typedef struct submitter {
  task_load *load;
  void *queue;
  size_t first;
  bool failed;
  braid_thread thread;
} submitter;

static void *submit_share(void *context) {
  submitter *share = context;
  char detail[kSuiteDetail];
  for (size_t i = share->first; i < share->load->count; i += kThreads)
    if (!submit(share->load, share->queue, &share->load->tasks[i], detail)) share->failed = true;
  return NULL;
}

static bool run_threads(task_load *load, void *queue, char *detail) {
  submitter shares[kThreads];
  int started = 0;
  braid_status status = BRAID_OK;
  for (; status == BRAID_OK && started < kThreads; started++) {
    shares[started] = (submitter){.load = load, .queue = queue, .first = (size_t)started};
    status = braid_thread_start(&shares[started].thread, "conformance", submit_share, &shares[started]);
    if (status != BRAID_OK) break;
  }
  bool failed = status != BRAID_OK;
  for (int i = 0; i < started; i++) {
    braid_thread_join(&shares[i].thread);
    failed |= shares[i].failed;
  }
  SUITE_CHECK(!failed, "submitting from %d threads fails", kThreads);
  for (size_t i = 0; i < load->count; i++) {
    uint64_t got = 0;
    SUITE_CHECK(braid_event_wait(load->events[i], kSuitePatience) == BRAID_OK, "task %zu: %s", i, braid_error_detail());
    SUITE_CHECK(braid_suite_read(load->suite, queue, load->buffer, i * load->stride, &got, sizeof got) == BRAID_OK,
                "read: %s", braid_error_detail());
    SUITE_CHECK(load->suite->info->modelled || got == i + 1, "write %zu is lost", i);
  }
  return true;
}

static bool case_threads(braid_suite *suite, char *detail) {
  return with_load(suite, detail, run_threads);
}

/* --- waits ---------------------------------------------------------------------------------------------------------
 * tasks[0] waits for the host's event (events[2]); tasks[1], on another queue where there is one, for tasks[0]. */
static bool run_waits(task_load *load, void *queue, char *detail) {
  const braid_backend *backend = load->suite->backend;
  void *other = queue;
  if (load->suite->info->max_queues > 1)
    SUITE_CHECK(backend->queue_create(load->suite->self, &other) == BRAID_OK, "second queue: %s", braid_error_detail());
  uint64_t got = 0;
  braid_event *host = load->events[2];
  load->tasks[0].waits = &host;
  load->tasks[0].wait_count = 1;
  load->tasks[1] = (braid_task){.kind = BRAID_TASK_READ,
                                .label = "conformance",
                                .source = load->tasks[0].target,
                                .host = &got,
                                .waits = &load->events[0],
                                .wait_count = 1,
                                .done = load->events[1]};
  bool passed = submit(load, queue, &load->tasks[0], detail) && submit(load, other, &load->tasks[1], detail);
  if (passed && (braid_event_wait(load->events[1], kShort) != BRAID_TIMEOUT || braid_event_done(load->events[0])))
    passed = braid_suite_fail(detail, "a task did not wait for the event it names");
  braid_event_complete(host, BRAID_OK, NULL);
  braid_status status = braid_event_wait(load->events[1], kSuitePatience);
  if (other != queue) backend->queue_destroy(load->suite->self, other);
  if (!passed) return false;
  SUITE_CHECK(status == BRAID_OK, "after the event: %s", braid_error_detail());
  SUITE_CHECK(load->suite->info->modelled || got == 1, "a read did not see the write it waited for");
  return true;
}

static bool case_waits(braid_suite *suite, char *detail) {
  return with_load(suite, detail, run_waits);
}

static bool run_failed_wait(task_load *load, void *queue, char *detail) {
  braid_event *host = load->events[2];
  load->tasks[0].waits = &host;
  load->tasks[0].wait_count = 1;
  if (!submit(load, queue, &load->tasks[0], detail)) return false;
  braid_event_complete(host, braid_fail(BRAID_NOT_FINITE, "on purpose"), NULL);
  SUITE_CHECK(braid_event_wait(load->events[0], kSuitePatience) == BRAID_NOT_FINITE,
              "a task whose event failed does not fail the same way");
  SUITE_CHECK(strstr(braid_event_detail(load->events[0]), "on purpose"), "the reason of the failure is lost");
  uint64_t value = 42, got = 0;
  SUITE_CHECK(braid_suite_write(load->suite, queue, load->buffer, 0, &value, sizeof value) == BRAID_OK &&
                  braid_suite_read(load->suite, queue, load->buffer, 0, &got, sizeof got) == BRAID_OK,
              "after a failed task the queue does not go on: %s", braid_error_detail());
  SUITE_CHECK(load->suite->info->modelled || got == value, "after a failed task the queue does not work");
  return true;
}

static bool case_failed_wait(braid_suite *suite, char *detail) {
  return with_load(suite, detail, run_failed_wait);
}

/* --- failures ------------------------------------------------------------------------------------------------------
 */
/* tasks[0] fails because its event does; that sets the cancel word it shares with tasks[1], which must not run. */
static bool run_cancel(task_load *load, void *queue, char *detail) {
  uint32_t cancel = 0;
  braid_event *host = load->events[2];
  load->tasks[0].waits = &host;
  load->tasks[0].wait_count = 1;
  load->tasks[0].cancel = load->tasks[1].cancel = &cancel;
  if (!submit(load, queue, &load->tasks[0], detail) || !submit(load, queue, &load->tasks[1], detail)) {
    braid_event_complete(host, BRAID_OK, NULL);
    return false;
  }
  braid_event_complete(host, braid_fail(BRAID_IO, "on purpose"), NULL);
  braid_status status = braid_event_wait(load->events[1], kSuitePatience);
  SUITE_CHECK(status == BRAID_CANCELLED, "a task after a failed one ends with \"%s\"", braid_status_text(status));
  SUITE_CHECK(__atomic_load_n(&cancel, __ATOMIC_ACQUIRE) != 0, "the failed task did not set its cancel word");
  cancel = 0;
  braid_event_reset(load->events[1]);
  if (!submit(load, queue, &load->tasks[1], detail)) return false;
  SUITE_CHECK(braid_event_wait(load->events[1], kSuitePatience) == BRAID_OK, "the same task, not cancelled: %s",
              braid_error_detail());
  return true;
}

static bool case_cancel(braid_suite *suite, char *detail) {
  return with_load(suite, detail, run_cancel);
}

static void count_call(void *context, braid_status status) {
  if (status == BRAID_OK) __atomic_add_fetch((int *)context, 1, __ATOMIC_ACQ_REL);
}

static bool run_call(task_load *load, void *queue, char *detail) {
  int calls = 0;
  for (size_t i = 0; i < load->count; i++) {
    braid_event_on_done(load->events[i], count_call, &calls);
    if (!submit(load, queue, &load->tasks[i], detail)) return false;
  }
  for (size_t i = 0; i < load->count; i++)
    SUITE_CHECK(braid_event_wait(load->events[i], kSuitePatience) == BRAID_OK, "task %zu: %s", i, braid_error_detail());
  SUITE_CHECK(__atomic_load_n(&calls, __ATOMIC_ACQUIRE) == (int)load->count, "%d calls for %zu tasks", calls,
              load->count);
  return true;
}

static bool case_call(braid_suite *suite, char *detail) {
  return with_load(suite, detail, run_call);
}

static bool run_timing(task_load *load, void *queue, char *detail) {
  int64_t before = braid_now_ns();
  if (!submit(load, queue, &load->tasks[0], detail)) return false;
  SUITE_CHECK(braid_event_wait(load->events[0], kSuitePatience) == BRAID_OK, "task: %s", braid_error_detail());
  braid_timing timing = braid_event_timing(load->events[0]);
  if (!load->suite->info->measures_time) return true;
  SUITE_CHECK(timing.end_ns >= timing.start_ns && timing.end_ns > 0, "the task ends before it starts");
  int64_t slack = 1000000; /* clocks of device and host are aligned to about a millisecond */
  SUITE_CHECK(load->suite->info->modelled ||
                  (timing.start_ns >= before - slack && timing.end_ns <= braid_now_ns() + slack),
              "the task's time is not on the host's clock");
  return true;
}

static bool case_timing(braid_suite *suite, char *detail) {
  return with_load(suite, detail, run_timing);
}

static bool run_destroy(task_load *load, void *queue, char *detail) {
  (void)queue;
  void *own;
  SUITE_CHECK(load->suite->backend->queue_create(load->suite->self, &own) == BRAID_OK, "queue: %s",
              braid_error_detail());
  bool submitted = true;
  for (size_t i = 0; submitted && i < load->count; i++) submitted = submit(load, own, &load->tasks[i], detail);
  load->suite->backend->queue_destroy(load->suite->self, own);
  for (size_t i = 0; submitted && i < load->count; i++)
    SUITE_CHECK(braid_event_done(load->events[i]), "task %zu is lost with its queue", i);
  return submitted;
}

static bool case_destroy(braid_suite *suite, char *detail) {
  if (suite->info->max_queues < 2) {
    braid_suite_fail(detail, "unsupported: one queue only");
    return true;
  }
  return with_load(suite, detail, run_destroy);
}

void braid_suite_queues(braid_suite *suite) {
  braid_suite_case(suite, "order of a queue", case_order);
  braid_suite_case(suite, "several threads submit", case_threads);
  braid_suite_case(suite, "waits across queues", case_waits);
  braid_suite_case(suite, "a failed wait", case_failed_wait);
  braid_suite_case(suite, "cancel", case_cancel);
  braid_suite_case(suite, "calls when done", case_call);
  braid_suite_case(suite, "timing", case_timing);
  braid_suite_case(suite, "destroying a queue", case_destroy);
}
