/* Conformance: how submit returns, and how tasks end: once, with a status and a sentence, in time; what
 * calls keep of the host's memory. */
#include <malloc.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "device/conformance.h"

static const int64_t kPatience = 2000000000; /* ns for a cancelled task to end */

/* --- once ----------------------------------------------------------------------------------------------------------
 */
static void count_call(void *context, braid_status status) {
  if (status == BRAID_OK) __atomic_add_fetch((int *)context, 1, __ATOMIC_ACQ_REL);
}

/* Comes before all others: events that end twice would be ended when they are long gone. */
static bool run_once(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  int *calls = braid_zalloc(NULL, sizeof *calls);
  SUITE_CHECK(calls, "no memory for the case");
  for (size_t i = 0; i < load->count; i++) braid_event_on_done(load->events[i], count_call, calls);
  if (!braid_load_submit_first(load, suite->queue, load->count, detail)) return false;
  for (size_t i = 0; i < load->count; i++)
    SUITE_CHECK(braid_suite_wait(suite, load->events[i]) == BRAID_OK, "task %zu: %s", i, braid_error_detail());
  braid_suite_linger();
  int count = __atomic_load_n(calls, __ATOMIC_ACQUIRE);
  suite->stopped = count != (int)load->count;
  if (suite->stopped) return braid_suite_fail(detail, "%d ends of %zu tasks", count, load->count);
  braid_free(NULL, calls);
  return true;
}

static bool case_once(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_once);
}

/* --- submit returns ------------------------------------------------------------------------------------------------
 * Comes first of all: whoever submits a task that waits for something else must not be held up by it. From a thread of
 * its own, because it may be. */
enum { kLarge = 64 << 20, kTellingBytes = 4 << 20, kTries = 8 };

typedef struct submission {
  braid_load *load;
  braid_event *returned;
  char detail[kSuiteDetail];
  bool passed;
} submission;

static void *submit_gated(void *context) {
  submission *s = context;
  s->passed = braid_load_submit(s->load, s->load->suite->queue, &s->load->tasks[0], s->detail);
  braid_event_complete(s->returned, BRAID_OK, NULL);
  return NULL;
}

static bool run_gated(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  submission s = {.load = load};
  braid_thread thread;
  load->tasks[0].waits = &load->gate;
  load->tasks[0].wait_count = 1;
  SUITE_CHECK(braid_event_create(NULL, &s.returned) == BRAID_OK, "no memory for the case");
  braid_status status = braid_thread_start(&thread, "conformance", submit_gated, &s);
  bool returned = false;
  if (status == BRAID_OK) {
    returned = braid_event_wait(s.returned, suite->patience_ns) == BRAID_OK;
    braid_event_complete(load->gate, BRAID_OK, NULL);
    braid_thread_join(&thread);
  }
  braid_event_destroy(s.returned);
  SUITE_CHECK(status == BRAID_OK, "no thread for the case: %s", braid_error_detail());
  if (!s.passed) return braid_suite_fail(detail, "%s", s.detail);
  SUITE_CHECK(braid_suite_wait(suite, load->events[0]) == BRAID_OK, "task: %s", braid_error_detail());
  if (returned) return true;
  suite->stopped = true; /* the next wait would be for ever */
  return braid_suite_fail(detail, "submit returns only when what the task waits for is done");
}

/* A task that takes its time is not done when submit returns, at least not every time. */
static bool run_taken(braid_suite *suite, void *buffer, const uint8_t *host, size_t bytes, char *detail) {
  bool early = true;
  for (int i = 0; i < kTries && early; i++) {
    braid_event *event;
    SUITE_CHECK(braid_event_create(NULL, &event) == BRAID_OK, "no memory for the case");
    braid_task task = {.kind = BRAID_TASK_WRITE,
                       .label = "conformance",
                       .target = {.buffer = buffer, .bytes = bytes},
                       .host = (void *)(uintptr_t)host,
                       .done = event};
    braid_status status = suite->backend->submit(suite->queue, &task);
    early = braid_event_done(event);
    if (status == BRAID_OK && suite->backend->flush) suite->backend->flush(suite->queue);
    if (status == BRAID_OK) status = braid_event_wait(event, -1);
    braid_event_destroy(event);
    SUITE_CHECK(status == BRAID_OK, "a write of %zu bytes: %s", bytes, braid_error_detail());
  }
  SUITE_CHECK(!early, "submit returns only when the task is done: %d writes of %zu bytes", kTries, bytes);
  return true;
}

static bool check_taken(braid_suite *suite, char *detail) {
  size_t bytes = braid_suite_at_most(suite, kLarge);
  if (suite->info->modelled || bytes < kTellingBytes) return true; /* nothing takes long */
  void *buffer = NULL;
  uint8_t *host = braid_zalloc(NULL, bytes);
  bool passed = host && suite->backend->buffer_create(suite->self, bytes, &buffer) == BRAID_OK;
  if (passed)
    passed = run_taken(suite, buffer, host, bytes, detail);
  else
    braid_suite_fail(detail, "no memory for the case: %s", braid_error_detail());
  if (buffer) suite->backend->buffer_destroy(suite->self, buffer);
  braid_free(NULL, host);
  return passed;
}

static bool case_submit(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_gated) && check_taken(suite, detail);
}

/* --- the host's memory ---------------------------------------------------------------------------------------------
 * What calls keep of it for ever adds up. */
enum { kRounds = 1024, kMostKept = 8 /* bytes per round */ };

static size_t host_memory(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static bool run_rounds(braid_suite *suite, char *detail) {
  uint64_t value = 1;
  for (int i = 0; i < kRounds; i++) {
    void *buffer;
    SUITE_CHECK(suite->backend->buffer_create(suite->self, suite->info->alignment + sizeof value, &buffer) == BRAID_OK,
                "buffer: %s", braid_error_detail());
    bool passed = braid_suite_write(suite, buffer, 0, &value, sizeof value) == BRAID_OK &&
                  braid_suite_read(suite, buffer, 0, &value, sizeof value) == BRAID_OK;
    if (!suite->stopped) suite->backend->buffer_destroy(suite->self, buffer);
    SUITE_CHECK(passed, "write and read: %s", braid_error_detail());
  }
  return true;
}

/* The first rounds fill what is kept for use again; of the others the one that keeps the least counts, for others
 * use memory too. */
static bool case_host_memory(braid_suite *suite, char *detail) {
  size_t least = SIZE_MAX;
  if (!run_rounds(suite, detail)) return false;
  if (!host_memory()) return braid_suite_pass_over(suite, detail, "this program's malloc does not count");
  for (int i = 0; i < 3 && least > kRounds * kMostKept; i++) {
    size_t before = host_memory();
    if (!run_rounds(suite, detail)) return false;
    size_t after = host_memory(), kept = after > before ? after - before : 0;
    if (kept < least) least = kept;
  }
  SUITE_CHECK(least <= kRounds * kMostKept, "%d rounds of a buffer, a write and a read keep %zu bytes of host memory",
              (int)kRounds, least);
  return true;
}

void braid_suite_once(braid_suite *suite) {
  braid_suite_case(suite, "submit returns", case_submit);
  braid_suite_case(suite, "tasks end once", case_once);
}

/* --- failures ------------------------------------------------------------------------------------------------------
 */
static bool run_failed_wait(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  load->tasks[0].waits = &load->gate;
  load->tasks[0].wait_count = 1;
  if (!braid_load_submit(load, suite->queue, &load->tasks[0], detail)) return false;
  braid_event_complete(load->gate, braid_fail(BRAID_NOT_FINITE, "on purpose"), NULL);
  SUITE_CHECK(braid_suite_wait(suite, load->events[0]) == BRAID_NOT_FINITE,
              "a task whose event failed does not fail the same way");
  SUITE_CHECK(strstr(braid_event_detail(load->events[0]), "on purpose"), "the reason of the failure is lost");
  uint64_t value = 42, got = 0;
  SUITE_CHECK(braid_suite_write(suite, load->buffer, 0, &value, sizeof value) == BRAID_OK &&
                  braid_suite_read(suite, load->buffer, 0, &got, sizeof got) == BRAID_OK,
              "after a failed task the queue does not go on: %s", braid_error_detail());
  SUITE_CHECK(suite->info->modelled || got == value, "after a failed task the queue does not work");
  return true;
}

static bool case_failed_wait(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_failed_wait);
}

/* A task that reaches outside of its buffer fails; the one behind it, which shares its cancel word, is not run. */
static bool run_failure(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  uint32_t *cancel = (uint32_t *)&load->results[0];
  uint64_t value = 7, got = 0;
  SUITE_CHECK(braid_suite_write(suite, load->buffer, load->stride, &value, sizeof value) == BRAID_OK, "write: %s",
              braid_error_detail());
  load->tasks[0].target.offset = 2 * kLoadTasks * load->stride;
  load->tasks[0].cancel = load->tasks[1].cancel = cancel;
  braid_status status = suite->backend->submit(suite->queue, &load->tasks[0]);
  if (status != BRAID_OK)
    return braid_suite_pass_over(suite, detail, "refuses a wrong task when it is submitted: %s", braid_error_detail());
  load->submitted[0] = true;
  if (!braid_load_submit(load, suite->queue, &load->tasks[1], detail)) return false;
  status = braid_suite_wait(suite, load->events[0]);
  SUITE_CHECK(status != BRAID_OK, "a task that reaches outside of its buffer succeeds");
  SUITE_CHECK(braid_event_detail(load->events[0])[0], "a failed task says nothing");
  SUITE_CHECK(braid_suite_wait(suite, load->events[1]) == BRAID_CANCELLED, "a task after a failed one ends with \"%s\"",
              braid_status_text(braid_suite_wait(suite, load->events[1])));
  SUITE_CHECK(__atomic_load_n(cancel, __ATOMIC_ACQUIRE) != 0, "the failed task did not set its cancel word");
  SUITE_CHECK(braid_suite_read(suite, load->buffer, load->stride, &got, sizeof got) == BRAID_OK, "read: %s",
              braid_error_detail());
  SUITE_CHECK(suite->info->modelled || got == value, "a cancelled task was run");
  return true;
}

static bool case_failure(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_failure);
}

/* tasks[0] waits for the gate, tasks[1] stands behind it, and both look at one cancel word. */
static bool submit_two_at_gate(braid_load *load, uint32_t *cancel, char *detail) {
  load->tasks[0].waits = &load->gate;
  load->tasks[0].wait_count = 1;
  load->tasks[0].cancel = load->tasks[1].cancel = cancel;
  return braid_load_submit_first(load, load->suite->queue, 2, detail);
}

/* tasks[0] fails because its event does; that sets the cancel word it shares with tasks[1], which must not run. */
static bool run_cancel(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  uint32_t *cancel = (uint32_t *)&load->results[0];
  bool submitted = submit_two_at_gate(load, cancel, detail);
  braid_event_complete(load->gate, braid_fail(BRAID_IO, "on purpose"), NULL);
  if (!submitted) return false;
  braid_status status = braid_suite_wait(suite, load->events[1]);
  SUITE_CHECK(status == BRAID_CANCELLED, "a task after a failed one ends with \"%s\"", braid_status_text(status));
  SUITE_CHECK(__atomic_load_n(cancel, __ATOMIC_ACQUIRE) != 0, "the failed task did not set its cancel word");
  __atomic_store_n(cancel, 0, __ATOMIC_RELEASE);
  braid_event_reset(load->events[1]);
  if (!braid_load_submit(load, suite->queue, &load->tasks[1], detail)) return false;
  SUITE_CHECK(braid_suite_wait(suite, load->events[1]) == BRAID_OK, "the same task, not cancelled: %s",
              braid_error_detail());
  return true;
}

static bool case_cancel(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_cancel);
}

/* Cancelled while it waits for an event that never comes: the task ends, and so does the one behind it. */
static bool run_cancel_waiting(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  uint32_t *cancel = (uint32_t *)&load->results[0];
  bool submitted = submit_two_at_gate(load, cancel, detail);
  braid_suite_linger();
  bool early = braid_event_done(load->events[0]);
  __atomic_store_n(cancel, 1, __ATOMIC_RELEASE);
  braid_status first = submitted ? braid_event_wait(load->events[0], kPatience) : BRAID_OK;
  bool ended = braid_event_done(load->events[0]);
  braid_event_complete(load->gate, BRAID_OK, NULL);
  if (!submitted) return false;
  SUITE_CHECK(!early, "a task did not wait for its event");
  SUITE_CHECK(ended, "a cancelled task goes on waiting for its event");
  SUITE_CHECK(first == BRAID_CANCELLED, "a task cancelled while it waits ends with \"%s\"", braid_status_text(first));
  first = braid_suite_wait(suite, load->events[1]);
  SUITE_CHECK(first == BRAID_CANCELLED, "a task behind a cancelled one ends with \"%s\"", braid_status_text(first));
  return true;
}

/* In the calling thread, where the device can: not before what was submitted, and done on return. */
static bool run_run(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  const braid_backend *backend = suite->backend;
  braid_task *const behind[] = {&load->tasks[1], &load->tasks[2]};
  if (!backend->run) return braid_suite_pass_over(suite, detail, "runs nothing in the calling thread");
  uint64_t zero = 0, got[2] = {0, 0};
  for (size_t i = 1; i < 3; i++)
    SUITE_CHECK(braid_suite_write(suite, load->buffer, i * load->stride, &zero, sizeof zero) == BRAID_OK, "write: %s",
                braid_error_detail());
  load->tasks[0].waits = &load->gate;
  load->tasks[0].wait_count = 1;
  if (!braid_load_submit(load, suite->queue, &load->tasks[0], detail)) return false;
  braid_suite_linger();
  braid_status early = backend->run(suite->queue, behind, 2);
  braid_event_complete(load->gate, BRAID_OK, NULL);
  SUITE_CHECK(early == BRAID_BUSY, "tasks are run before one that was submitted: %s", braid_status_text(early));
  SUITE_CHECK(braid_suite_wait(suite, load->events[0]) == BRAID_OK, "the task before: %s", braid_error_detail());
  braid_status status = BRAID_BUSY; /* for as long as the queue looks around */
  for (int i = 0; i < 1000 && status == BRAID_BUSY; i++) {
    status = backend->run(suite->queue, behind, 2);
    if (status == BRAID_BUSY) braid_suite_linger();
  }
  SUITE_CHECK(status == BRAID_OK, "run on an idle queue: %s", braid_status_text(status));
  for (size_t i = 1; i < 3; i++) {
    SUITE_CHECK(braid_event_done(load->events[i]), "a task's event is not done when run returns");
    SUITE_CHECK(braid_suite_read(suite, load->buffer, i * load->stride, &got[i - 1], sizeof *got) == BRAID_OK,
                "read: %s", braid_error_detail());
    SUITE_CHECK(suite->info->modelled || got[i - 1] == i + 1, "task %zu was not run", i);
  }
  return true;
}

static bool case_run(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_run);
}

static bool case_cancel_waiting(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_cancel_waiting);
}

/* --- times and queues ----------------------------------------------------------------------------------------------
 */
static bool run_timing(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  if (!suite->info->measures_time) return braid_suite_pass_over(suite, detail, "measures no time");
  int64_t before = braid_now_ns();
  if (!braid_load_submit(load, suite->queue, &load->tasks[0], detail)) return false;
  SUITE_CHECK(braid_suite_wait(suite, load->events[0]) == BRAID_OK, "task: %s", braid_error_detail());
  braid_timing timing = braid_event_timing(load->events[0]);
  SUITE_CHECK(timing.end_ns >= timing.start_ns && timing.end_ns > 0, "the task ends before it starts");
  int64_t slack = 1000000; /* clocks of device and host are aligned to about a millisecond */
  SUITE_CHECK(suite->info->modelled || (timing.start_ns >= before - slack && timing.end_ns <= braid_now_ns() + slack),
              "the task's time is not on the host's clock");
  return true;
}

static bool case_timing(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_timing);
}

static bool run_destroy(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  void *own;
  SUITE_CHECK(suite->backend->queue_create(suite->self, &own) == BRAID_OK, "queue: %s", braid_error_detail());
  if (!braid_load_submit_first(load, own, load->count, detail)) return false;
  suite->backend->queue_destroy(suite->self, own);
  for (size_t i = 0; i < load->count; i++)
    SUITE_CHECK(braid_event_done(load->events[i]), "task %zu is lost with its queue", i);
  return true;
}

static bool case_destroy(braid_suite *suite, char *detail) {
  if (suite->info->max_queues < 3) return braid_suite_pass_over(suite, detail, "two queues at most");
  return braid_suite_with_load(suite, detail, run_destroy);
}

void braid_suite_ends(braid_suite *suite) {
  braid_suite_case(suite, "host memory", case_host_memory);
  braid_suite_case(suite, "a failed wait", case_failed_wait);
  braid_suite_case(suite, "a failed task", case_failure);
  braid_suite_case(suite, "cancel", case_cancel);
  braid_suite_case(suite, "cancel while waiting", case_cancel_waiting);
  braid_suite_case(suite, "in the calling thread", case_run);
  braid_suite_case(suite, "timing", case_timing);
  braid_suite_case(suite, "destroying a queue", case_destroy);
}
