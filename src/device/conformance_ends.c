/* Conformance: how submit returns, and how tasks end: with a status and a sentence, in time; what calls keep of the
 * host's memory. */
#include <malloc.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "device/conformance.h"

static const int64_t kPatience = 2000000000; /* ns for a cancelled task to end */

/* --- submit returns ------------------------------------------------------------------------------------------------
 * Comes first of all: whoever submits a task that waits for something else must not be held up by it. From a thread of
 * its own, because it may be. */
enum { kLarge = 64 << 20, kTellingBytes = 4 << 20, kTries = 8 };

typedef struct submission {
  braid_load *load;
  braid_timeline *returned;
  char detail[kSuiteDetail];
  bool passed;
} submission;

static void *submit_gated(void *context) {
  submission *s = context;
  s->passed = braid_load_submit(s->load, s->load->suite->queue, 0, s->detail);
  braid_timeline_raise(s->returned, 1);
  return NULL;
}

static bool run_gated(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  submission s = {.load = load};
  braid_thread thread;
  braid_load_await_gate(load, 0);
  SUITE_CHECK(braid_timeline_create(NULL, &s.returned) == BRAID_OK, "no memory for the case");
  braid_status status = braid_thread_start(&thread, "conformance", submit_gated, &s);
  bool returned = false;
  if (status == BRAID_OK) {
    returned = braid_timeline_wait(s.returned, 1, suite->patience_ns) == BRAID_OK;
    braid_load_open(load);
    braid_thread_join(&thread);
  }
  braid_timeline_destroy(s.returned);
  SUITE_CHECK(status == BRAID_OK, "no thread for the case: %s", braid_error_detail());
  if (!s.passed) return braid_suite_fail(detail, "%s", s.detail);
  SUITE_CHECK(braid_load_wait(load, 0) == BRAID_OK, "task: %s", braid_error_detail());
  if (returned) return true;
  suite->stopped = true; /* the next wait would be for ever */
  return braid_suite_fail(detail, "submit returns only when what the task waits for is done");
}

/* A task that takes its time is not done when submit returns, at least not every time. */
static bool run_taken(braid_suite *suite, void *buffer, const uint8_t *host, size_t bytes, char *detail) {
  bool early = true;
  for (int i = 0; i < kTries && early; i++) {
    braid_verdict verdict;
    braid_verdict_init(&verdict);
    braid_task task = {.kind = BRAID_TASK_WRITE,
                       .label = "conformance",
                       .target = {.buffer = buffer, .bytes = bytes},
                       .host = (void *)(uintptr_t)host,
                       .verdict = &verdict};
    braid_status status = braid_queue_submit(suite->queue, &task);
    early = braid_queue_ended(suite->queue, &task);
    braid_queue_flush(suite->queue);
    if (status == BRAID_OK) status = braid_queue_wait(suite->queue, &task, -1);
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

size_t braid_suite_host_memory(void) {
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
  if (!braid_suite_host_memory()) return braid_suite_pass_over(suite, detail, "this program's malloc does not count");
  for (int i = 0; i < 3 && least > kRounds * kMostKept; i++) {
    size_t before = braid_suite_host_memory();
    if (!run_rounds(suite, detail)) return false;
    size_t after = braid_suite_host_memory(), kept = after > before ? after - before : 0;
    if (kept < least) least = kept;
  }
  SUITE_CHECK(least <= kRounds * kMostKept, "%d rounds of a buffer, a write and a read keep %zu bytes of host memory",
              (int)kRounds, least);
  return true;
}

void braid_suite_once(braid_suite *suite) {
  braid_suite_case(suite, "submit returns", case_submit);
}

/* --- failures ------------------------------------------------------------------------------------------------------
 */
/* tasks[0] reaches outside of its buffer. False: not submitted, *refused: because submit has seen it. */
static bool submit_wrong(braid_load *load, bool *refused, char *detail) {
  load->tasks[0].target.offset = 2 * kLoadTasks * load->stride;
  *refused = braid_queue_submit(load->suite->queue, &load->tasks[0]) != BRAID_OK;
  if (*refused)
    return braid_suite_pass_over(load->suite, detail, "refuses a wrong task when it is submitted: %s",
                                 braid_error_detail());
  load->in[0] = load->suite->queue;
  braid_queue_flush(load->suite->queue);
  return true;
}

/* The number that lies in slot i. */
static bool read_slot(braid_load *load, size_t i, uint64_t *out, char *detail) {
  SUITE_CHECK(braid_suite_read(load->suite, load->buffer, i * load->stride, out, sizeof *out) == BRAID_OK, "read: %s",
              braid_error_detail());
  return true;
}

/* A task that waits for one of another run, which fails, does its work all the same, on either queue. */
static bool run_own_failure(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  bool refused;
  if (!submit_wrong(load, &refused, detail) || refused) return refused;
  braid_queue *const queues[] = {suite->second, suite->queue};
  for (size_t i = 1; i < 3; i++) {
    braid_load_await(load, i, braid_load_point(load, 0));
    if (!braid_load_submit(load, queues[i - 1], i, detail)) return false;
  }
  for (size_t i = 1; i < 3; i++) {
    uint64_t got = 0;
    SUITE_CHECK(braid_load_wait(load, i) == BRAID_OK, "a task fails because one of another run has: %s",
                braid_error_detail());
    if (!read_slot(load, i, &got, detail)) return false;
    SUITE_CHECK(suite->info->modelled || got == i + 1, "after a failed task the queue does not work");
  }
  SUITE_CHECK(braid_load_wait(load, 0) != BRAID_OK, "a task that reaches outside of its buffer succeeds");
  return true;
}

static bool case_own_failure(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_own_failure);
}

/* The same in one run: the task behind, and that of the other queue, are not run. */
static bool run_failure(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  uint64_t zero = 0, got = 0;
  bool refused;
  for (size_t i = 1; i < 3; i++) {
    load->tasks[i].verdict = &load->verdicts[0];
    SUITE_CHECK(braid_suite_write(suite, load->buffer, i * load->stride, &zero, sizeof zero) == BRAID_OK, "write: %s",
                braid_error_detail());
  }
  if (!submit_wrong(load, &refused, detail) || refused) return refused;
  braid_load_await(load, 1, braid_load_point(load, 0));
  if (!braid_load_submit(load, suite->second, 1, detail) || !braid_load_submit(load, suite->queue, 2, detail))
    return false;
  for (size_t i = 1; i < 3; i++) (void)braid_load_wait(load, i);
  braid_status status = braid_load_wait(load, 0);
  if (suite->stopped) return braid_suite_fail(detail, "a task of a failed run does not end");
  SUITE_CHECK(status != BRAID_OK, "a task that reaches outside of its buffer succeeds");
  SUITE_CHECK(status != BRAID_CANCELLED, "a run whose task failed ends with \"%s\"", braid_status_text(status));
  SUITE_CHECK(load->verdicts[0].detail[0], "a failed task says nothing");
  SUITE_CHECK(load->verdicts[0].task == &load->tasks[0], "the verdict names another task than the one that failed");
  for (size_t i = 1; i < 3; i++) {
    if (!read_slot(load, i, &got, detail)) return false;
    SUITE_CHECK(suite->info->modelled || got == 0, "a task behind a failed one was run");
  }
  return true;
}

static bool case_failure(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_failure);
}

/* --- cancelling ----------------------------------------------------------------------------------------------------
 * tasks[0] waits for the gate, tasks[1] stands behind it, in one run, over zeros. */
static bool submit_two_at_gate(braid_load *load, char *detail) {
  uint64_t zeros[2] = {0, 0};
  for (size_t i = 0; i < 2; i++)
    SUITE_CHECK(braid_suite_write(load->suite, load->buffer, i * load->stride, zeros, sizeof *zeros) == BRAID_OK,
                "write: %s", braid_error_detail());
  load->tasks[1].verdict = &load->verdicts[0];
  braid_load_await_gate(load, 0);
  return braid_load_submit_first(load, load->suite->queue, 2, detail);
}

static bool check_not_run(braid_load *load, char *detail) {
  for (size_t i = 0; i < 2; i++) {
    uint64_t got = 0;
    if (!read_slot(load, i, &got, detail)) return false;
    SUITE_CHECK(load->suite->info->modelled || got == 0, "a cancelled task was run");
  }
  return true;
}

/* Cancelled before the gate opens: neither is run. The next run is a whole one. */
static bool run_cancel(braid_load *load, char *detail) {
  bool submitted = submit_two_at_gate(load, detail);
  braid_verdict_cancel(&load->verdicts[0]);
  braid_load_open(load);
  if (!submitted) return false;
  braid_status status = braid_load_wait(load, 1);
  SUITE_CHECK(status == BRAID_CANCELLED, "a cancelled run ends with \"%s\"", braid_status_text(status));
  if (!check_not_run(load, detail)) return false;
  braid_verdict_init(&load->verdicts[0]);
  if (!braid_load_submit(load, load->suite->queue, 1, detail)) return false;
  SUITE_CHECK(braid_load_wait(load, 1) == BRAID_OK, "the same task, not cancelled: %s", braid_error_detail());
  uint64_t got = 0;
  if (!read_slot(load, 1, &got, detail)) return false;
  SUITE_CHECK(load->suite->info->modelled || got == 2, "the same task, not cancelled, is not run");
  return true;
}

static bool case_cancel(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_cancel);
}

/* Cancelled while it waits for what never comes: the task ends, and so does the one behind it. */
static bool run_cancel_waiting(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  braid_timing timing = {0};
  load->tasks[1].timing = &timing;
  bool submitted = submit_two_at_gate(load, detail);
  braid_suite_linger();
  bool early = submitted && braid_load_ended(load, 0);
  braid_verdict_cancel(&load->verdicts[0]);
  if (submitted) (void)braid_timeline_wait(suite->queue->timeline, load->tasks[1].value, kPatience);
  bool ended = submitted && braid_load_ended(load, 1);
  braid_load_open(load);
  if (!submitted) return false;
  (void)braid_load_wait(load, 1);
  SUITE_CHECK(!early, "a task did not wait for what it names");
  load->tasks[1].timing = NULL;
  SUITE_CHECK(ended, "a cancelled task goes on waiting");
  SUITE_CHECK(!suite->backend->marks_begun || !timing.start_ns, "the timing of a task that was not run is filled in");
  return check_not_run(load, detail);
}

static bool case_cancel_waiting(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_cancel_waiting);
}

/* Cancelled while a large write runs: when the task behind it is said to have ended, so has the write, which is whole
 * or was never begun. What the host does to its memory from then on is not seen. */
static bool check_write(braid_suite *suite, void *buffer, uint8_t *host, size_t bytes, char *detail) {
  SUITE_CHECK(braid_suite_read(suite, buffer, 0, host, bytes) == BRAID_OK, "read: %s", braid_error_detail());
  for (size_t i = 0; i < bytes && !suite->info->modelled; i++) {
    SUITE_CHECK(host[i] != 2, "a cancelled run is said to have ended while a task still reads the host's memory");
    SUITE_CHECK(host[i] == host[0], "a write that was running when its run was cancelled is not whole");
  }
  return true;
}

static bool run_cancel_running(braid_suite *suite, void *buffer, uint8_t *host, size_t bytes, char *detail) {
  memset(host, 0, bytes);
  SUITE_CHECK(braid_suite_write(suite, buffer, 0, host, bytes) == BRAID_OK, "write: %s", braid_error_detail());
  memset(host, 1, bytes);
  braid_verdict verdict;
  braid_verdict_init(&verdict);
  braid_task tasks[2];
  bool submitted[2] = {false, false};
  for (int i = 0; i < 2; i++) {
    tasks[i] = (braid_task){.kind = BRAID_TASK_WRITE,
                            .label = "conformance",
                            .target = {.buffer = buffer, .bytes = i ? 1 : bytes},
                            .host = host,
                            .verdict = &verdict};
    submitted[i] = braid_queue_submit(suite->queue, &tasks[i]) == BRAID_OK;
    braid_queue_flush(suite->queue);
  }
  braid_suite_linger();
  braid_verdict_cancel(&verdict);
  const braid_task *last = &tasks[submitted[1]];
  if (submitted[0]) (void)braid_suite_wait(suite, suite->queue, last);
  memset(host, 2, bytes);
  SUITE_CHECK(submitted[1], "submit: %s", braid_error_detail());
  SUITE_CHECK(!suite->stopped, "a cancelled run does not end");
  bool passed = check_write(suite, buffer, host, bytes, detail);
  if (!passed) braid_suite_linger();
  return passed;
}

static bool case_cancel_running(braid_suite *suite, char *detail) {
  size_t bytes = braid_suite_at_most(suite, kLarge);
  void *buffer = NULL;
  uint8_t *host = braid_alloc(NULL, bytes);
  bool passed = host && suite->backend->buffer_create(suite->self, bytes, &buffer) == BRAID_OK;
  if (passed)
    passed = run_cancel_running(suite, buffer, host, bytes, detail);
  else
    braid_suite_fail(detail, "no memory for the case: %s", braid_error_detail());
  if (suite->stopped) return passed;
  if (buffer) suite->backend->buffer_destroy(suite->self, buffer);
  braid_free(NULL, host);
  return passed;
}

/* --- times and queues ----------------------------------------------------------------------------------------------
 */
static bool run_timing(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  if (!suite->info->measures_time) return braid_suite_pass_over(suite, detail, "measures no time");
  int64_t before = braid_now_ns();
  braid_timing timing = {0};
  load->tasks[0].timing = &timing;
  if (!braid_load_submit(load, suite->queue, 0, detail)) return false;
  SUITE_CHECK(braid_load_wait(load, 0) == BRAID_OK, "task: %s", braid_error_detail());
  SUITE_CHECK(!suite->backend->marks_begun || timing.start_ns, "a task that was run has no start");
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
  braid_timeline *timeline;
  void *own;
  size_t submitted = 0;
  SUITE_CHECK(braid_timeline_create(NULL, &timeline) == BRAID_OK, "no memory for the case");
  braid_status status = suite->backend->queue_create(suite->self, timeline, &own);
  for (; status == BRAID_OK && submitted < kLoadTasks; submitted++) {
    load->tasks[submitted].value = submitted + 1;
    status = suite->backend->submit(own, &load->tasks[submitted]);
  }
  if (submitted) suite->backend->queue_destroy(suite->self, own);
  uint64_t value = braid_timeline_value(timeline);
  braid_timeline_destroy(timeline);
  SUITE_CHECK(status == BRAID_OK, "a third queue: %s", braid_error_detail());
  SUITE_CHECK(value == kLoadTasks, "task %llu is lost with its queue", (unsigned long long)value);
  return true;
}

static bool case_destroy(braid_suite *suite, char *detail) {
  if (suite->info->max_queues < 3) return braid_suite_pass_over(suite, detail, "two queues at most");
  return braid_suite_with_load(suite, detail, run_destroy);
}

void braid_suite_ends(braid_suite *suite) {
  braid_suite_case(suite, "host memory", case_host_memory);
  braid_suite_case(suite, "a failure of another run", case_own_failure);
  braid_suite_case(suite, "a failed task", case_failure);
  braid_suite_case(suite, "cancel", case_cancel);
  braid_suite_case(suite, "cancel while waiting", case_cancel_waiting);
  braid_suite_case(suite, "cancel while running", case_cancel_running);
  braid_suite_case(suite, "timing", case_timing);
  braid_suite_case(suite, "destroying a queue", case_destroy);
}
