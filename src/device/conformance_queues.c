/* Conformance: the order of tasks within a queue, and waits across queues. */
#include <string.h>

#include "base/thread.h"
#include "device/conformance.h"

enum { kThreads = 4, kShort = 3000000 /* ns */, kRounds = 3, kLarge = 8 << 20 };
static const int64_t kLong = 2000000000; /* ns */

static braid_status load_init(braid_load *load, braid_suite *suite) {
  load->suite = suite;
  load->stride = suite->info->alignment > sizeof(uint64_t) ? suite->info->alignment : sizeof(uint64_t);
  size_t bytes = kLoadTasks * load->stride;
  braid_status status = suite->backend->buffer_create(suite->self, bytes, &load->buffer);
  if (status == BRAID_OK) status = suite->backend->buffer_create(suite->self, bytes, &load->other);
  if (status == BRAID_OK) status = braid_timeline_create(NULL, &load->gate);
  for (size_t i = 0; i < kLoadTasks; i++) {
    load->values[i] = i + 1;
    load->tasks[i] =
        (braid_task){.kind = BRAID_TASK_WRITE,
                     .label = "conformance",
                     .target = {.buffer = load->buffer, .offset = i * load->stride, .bytes = sizeof(uint64_t)},
                     .host = &load->values[i],
                     .verdict = &load->verdicts[i]};
  }
  return status;
}

/* What was submitted ends first. */
static void load_free(braid_load *load) {
  for (size_t i = 0; load && i < kLoadTasks && !load->suite->stopped; i++)
    if (load->in[i]) (void)braid_load_wait(load, i);
  if (!load || load->suite->stopped) return;
  braid_timeline_destroy(load->gate);
  if (load->buffer) load->suite->backend->buffer_destroy(load->suite->self, load->buffer);
  if (load->other) load->suite->backend->buffer_destroy(load->suite->self, load->other);
  braid_free(NULL, load);
}

bool braid_suite_with_load(braid_suite *suite, char *detail, bool (*run)(braid_load *load, char *detail)) {
  braid_load *load = braid_zalloc(NULL, sizeof *load);
  bool passed = load && load_init(load, suite) == BRAID_OK;
  if (passed)
    passed = run(load, detail);
  else
    braid_suite_fail(detail, "no memory for the case: %s", braid_error_detail());
  load_free(load);
  return passed;
}

bool braid_load_submit(braid_load *load, braid_queue *queue, size_t i, char *detail) {
  SUITE_CHECK(braid_queue_submit(queue, &load->tasks[i]) == BRAID_OK, "submit: %s", braid_error_detail());
  braid_queue_flush(queue);
  load->in[i] = queue;
  return true;
}

bool braid_load_submit_first(braid_load *load, braid_queue *queue, size_t count, char *detail) {
  for (size_t i = 0; i < count; i++)
    if (!braid_load_submit(load, queue, i, detail)) return false;
  return true;
}

braid_point braid_load_point(const braid_load *load, size_t i) {
  return braid_queue_point(load->in[i], &load->tasks[i]);
}

bool braid_load_ended(const braid_load *load, size_t i) {
  return braid_queue_ended(load->in[i], &load->tasks[i]);
}

braid_status braid_load_wait(braid_load *load, size_t i) {
  return braid_suite_wait(load->suite, load->in[i], &load->tasks[i]);
}

void braid_load_await(braid_load *load, size_t i, braid_point point) {
  load->points[i] = point;
  load->tasks[i].waits = &load->points[i];
  load->tasks[i].wait_count = 1;
}

void braid_load_await_gate(braid_load *load, size_t i) {
  braid_load_await(load, i, (braid_point){load->gate, load->opened + 1});
}

void braid_load_open(braid_load *load) {
  braid_timeline_raise(load->gate, ++load->opened);
}

void braid_suite_linger(void) {
  braid_timeline *never;
  if (braid_timeline_create(NULL, &never) != BRAID_OK) return;
  (void)braid_timeline_wait(never, 1, kShort);
  braid_timeline_destroy(never);
}

/* --- order ---------------------------------------------------------------------------------------------------------
 * All writes to the same place; the first waits, so that the others pile up behind it. */
static bool run_order(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  for (size_t i = 0; i < kLoadTasks; i++) load->tasks[i].target.offset = 0;
  for (int round = 0; round < kRounds; round++) {
    if (round > 0) braid_load_await_gate(load, 0);
    bool submitted = braid_load_submit_first(load, suite->queue, kLoadTasks, detail);
    braid_load_open(load);
    if (!submitted) return false;
    SUITE_CHECK(braid_load_wait(load, kLoadTasks - 1) == BRAID_OK, "last task: %s", braid_error_detail());
    uint64_t got = 0;
    SUITE_CHECK(braid_suite_read(suite, load->buffer, 0, &got, sizeof got) == BRAID_OK, "read: %s",
                braid_error_detail());
    SUITE_CHECK(suite->info->modelled || got == kLoadTasks, "the last of %d writes is not what stands: %llu",
                kLoadTasks, (unsigned long long)got);
  }
  return true;
}

static bool case_order(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_order);
}

/* Written, copied, read back, again and again through the same places, without a wait but for the first. */
static bool run_chain(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  const braid_binding here = {.buffer = load->buffer, .bytes = sizeof(uint64_t)};
  const braid_binding there = {.buffer = load->other, .offset = load->stride, .bytes = sizeof(uint64_t)};
  for (size_t i = 0; i < kLoadTasks; i++) {
    braid_task *task = &load->tasks[i];
    task->kind = (braid_task_kind[]){BRAID_TASK_WRITE, BRAID_TASK_COPY, BRAID_TASK_READ}[i % 3];
    task->source = i % 3 == 1 ? here : there;
    task->target = i % 3 == 0 ? here : there;
    task->host = i % 3 == 0 ? &load->values[i] : &load->results[i];
  }
  braid_load_await_gate(load, 0);
  size_t count = kLoadTasks / 3 * 3;
  bool submitted = braid_load_submit_first(load, suite->queue, count, detail);
  braid_load_open(load);
  if (!submitted) return false;
  SUITE_CHECK(braid_load_wait(load, count - 1) == BRAID_OK, "last task: %s", braid_error_detail());
  for (size_t i = 2; i < count && !suite->info->modelled; i += 3)
    SUITE_CHECK(load->results[i] == load->values[i - 2], "round %zu of write, copy and read brings %llu, not %llu",
                i / 3, (unsigned long long)load->results[i], (unsigned long long)load->values[i - 2]);
  return true;
}

static bool case_chain(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_chain);
}

/* --- several threads -----------------------------------------------------------------------------------------------
 */
typedef struct submitter {
  braid_load *load;
  size_t first;
  bool failed;
  braid_thread thread;
} submitter;

static void *submit_share(void *context) {
  submitter *share = context;
  char detail[kSuiteDetail];
  for (size_t i = share->first; i < kLoadTasks; i += kThreads)
    if (!braid_load_submit(share->load, share->load->suite->queue, i, detail)) share->failed = true;
  return NULL;
}

static bool run_threads(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  submitter shares[kThreads];
  int started = 0;
  braid_status status = BRAID_OK;
  for (; status == BRAID_OK && started < kThreads; started++) {
    shares[started] = (submitter){.load = load, .first = (size_t)started};
    status = braid_thread_start(&shares[started].thread, "conformance", submit_share, &shares[started]);
    if (status != BRAID_OK) break;
  }
  bool failed = status != BRAID_OK;
  for (int i = 0; i < started; i++) {
    braid_thread_join(&shares[i].thread);
    failed |= shares[i].failed;
  }
  SUITE_CHECK(!failed, "submitting from %d threads fails", kThreads);
  for (size_t i = 0; i < kLoadTasks; i++) {
    uint64_t got = 0;
    SUITE_CHECK(braid_load_wait(load, i) == BRAID_OK, "task %zu: %s", i, braid_error_detail());
    SUITE_CHECK(braid_suite_read(suite, load->buffer, i * load->stride, &got, sizeof got) == BRAID_OK, "read: %s",
                braid_error_detail());
    SUITE_CHECK(suite->info->modelled || got == i + 1, "write %zu is lost", i);
  }
  return true;
}

static bool case_threads(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_threads);
}

/* --- waits ---------------------------------------------------------------------------------------------------------
 * A write waits for the host, a copy on another queue (where there is one) for the write, a read on the first for the
 * copy: in the order in which they must not run. */
static bool run_waits(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  braid_task *tasks = load->tasks;
  const braid_binding here = {.buffer = load->buffer, .bytes = sizeof(uint64_t)};
  const braid_binding there = {.buffer = load->other, .bytes = sizeof(uint64_t)};
  uint64_t zero = 0;
  SUITE_CHECK(braid_suite_write(suite, load->buffer, 0, &zero, sizeof zero) == BRAID_OK &&
                  braid_suite_write(suite, load->other, 0, &zero, sizeof zero) == BRAID_OK,
              "write: %s", braid_error_detail());
  tasks[1].kind = BRAID_TASK_COPY;
  tasks[1].source = here;
  tasks[1].target = there;
  tasks[2].kind = BRAID_TASK_READ;
  tasks[2].source = there;
  tasks[2].host = &load->results[2];
  braid_queue *const queues[] = {suite->queue, suite->second, suite->queue};
  bool passed = true;
  for (size_t i = 0; passed && i < 3; i++) {
    tasks[i].verdict = &load->verdicts[0];
    if (i)
      braid_load_await(load, i, braid_load_point(load, i - 1));
    else
      braid_load_await_gate(load, i);
    passed = braid_load_submit(load, queues[i], i, detail);
  }
  braid_suite_linger();
  for (size_t i = 0; passed && i < 3; i++)
    if (braid_load_ended(load, i)) passed = braid_suite_fail(detail, "task %zu does not wait for what it names", i);
  braid_load_open(load);
  for (size_t i = 0; i < 3 && load->in[i] && !suite->stopped; i++) {
    braid_status status = braid_load_wait(load, i);
    if (passed && status != BRAID_OK) passed = braid_suite_fail(detail, "after the wait: %s", braid_error_detail());
  }
  if (!passed) return false;
  SUITE_CHECK(suite->info->modelled || load->results[2] == 1, "a task did not see what the one it waited for wrote");
  return true;
}

static bool case_waits(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_waits);
}

/* A task that names three timelines, of which one after the other is the last to be raised. */
static bool wait_for_several(braid_load *load, braid_timeline *const *timelines, char *detail) {
  enum { kSeveral = sizeof load->several / sizeof *load->several };
  braid_suite *suite = load->suite;
  load->tasks[0].waits = load->several;
  load->tasks[0].wait_count = kSeveral;
  for (size_t last = 0; last < kSeveral; last++) {
    for (size_t i = 0; i < kSeveral; i++) {
      load->several[i] = (braid_point){timelines[i], 10 * (last + 1)};
      braid_timeline_raise(timelines[i], load->several[i].value - (i == last));
    }
    bool submitted = braid_load_submit(load, suite->queue, 0, detail);
    braid_suite_linger();
    bool early = submitted && braid_load_ended(load, 0);
    braid_timeline_raise(timelines[last], 10 * (last + 1));
    if (!submitted) return false;
    SUITE_CHECK(braid_load_wait(load, 0) == BRAID_OK, "after the waits: %s", braid_error_detail());
    SUITE_CHECK(!early, "a task does not wait for timeline %zu of the %d that it names", last, (int)kSeveral);
  }
  return true;
}

static bool run_several(braid_load *load, char *detail) {
  braid_timeline *timelines[3] = {NULL};
  bool passed = true;
  for (int i = 0; passed && i < 3; i++)
    if (braid_timeline_create(NULL, &timelines[i]) != BRAID_OK)
      passed = braid_suite_fail(detail, "no memory for the case");
  passed = passed && wait_for_several(load, timelines, detail);
  if (load->suite->stopped) return passed;
  for (int i = 0; i < 3; i++) braid_timeline_destroy(timelines[i]);
  return passed;
}

static bool case_several(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_several);
}

/* Two queues in turns: each task adds its mark behind the one that it waits for. */
static bool run_turns(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  braid_queue *queues[2] = {suite->queue, suite->second};
  for (size_t i = 0; i < kLoadTasks; i++) {
    load->tasks[i].target.offset = 0;
    load->tasks[i].verdict = &load->verdicts[0];
    if (i)
      braid_load_await(load, i, braid_load_point(load, i - 1));
    else
      braid_load_await_gate(load, i);
    if (!braid_load_submit(load, queues[i % 2], i, detail)) {
      braid_load_open(load);
      return false;
    }
  }
  braid_load_open(load);
  SUITE_CHECK(braid_load_wait(load, kLoadTasks - 1) == BRAID_OK, "last task: %s", braid_error_detail());
  uint64_t got = 0;
  SUITE_CHECK(braid_suite_read(suite, load->buffer, 0, &got, sizeof got) == BRAID_OK, "read: %s", braid_error_detail());
  SUITE_CHECK(suite->info->modelled || got == kLoadTasks, "of writes in turns %llu stands, not the last",
              (unsigned long long)got);
  return true;
}

static bool case_turns(braid_suite *suite, char *detail) {
  if (suite->second == suite->queue) return braid_suite_pass_over(suite, detail, "one queue only");
  return braid_suite_with_load(suite, detail, run_turns);
}

/* --- values --------------------------------------------------------------------------------------------------------
 * The timeline stands at the last task that has ended, neither before nor after it, and never goes back. */
typedef struct watcher {
  braid_timeline *timeline;
  uint64_t until;
  bool fell;
  braid_thread thread;
} watcher;

static void *watch_values(void *context) {
  watcher *own = context;
  uint64_t before = 0, now;
  do {
    now = braid_timeline_value(own->timeline);
    own->fell |= now < before;
    before = now;
  } while (now < own->until && braid_timeline_wait(own->timeline, now + 1, kLong) == BRAID_OK);
  return NULL;
}

static bool run_values(braid_load *load, char *detail) {
  braid_queue *queue = load->suite->queue;
  uint64_t before = queue->last;
  watcher own = {.timeline = queue->timeline, .until = before + kLoadTasks};
  SUITE_CHECK(braid_timeline_value(queue->timeline) == before, "an idle queue's timeline is at %llu, not at %llu",
              (unsigned long long)braid_timeline_value(queue->timeline), (unsigned long long)before);
  braid_load_await_gate(load, kLoadTasks / 2);
  SUITE_CHECK(braid_thread_start(&own.thread, "conformance", watch_values, &own) == BRAID_OK, "no thread for the case");
  bool submitted = braid_load_submit_first(load, queue, kLoadTasks, detail);
  if (submitted) (void)braid_load_wait(load, kLoadTasks / 2 - 1);
  braid_suite_linger();
  uint64_t half = braid_timeline_value(queue->timeline);
  braid_load_open(load);
  if (submitted) (void)braid_load_wait(load, kLoadTasks - 1);
  braid_thread_join(&own.thread);
  if (!submitted || load->suite->stopped) return false;
  SUITE_CHECK(half == before + kLoadTasks / 2, "the timeline is at %llu when task %llu has ended, and the next waits",
              (unsigned long long)half, (unsigned long long)before + kLoadTasks / 2);
  SUITE_CHECK(!own.fell, "the timeline went back");
  SUITE_CHECK(braid_timeline_value(queue->timeline) == queue->last, "the timeline is not at the last task");
  return true;
}

static bool case_values(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_values);
}

/* --- a value says that all is done ---------------------------------------------------------------------------------
 */
static bool run_done(braid_suite *suite, void *buffer, uint8_t *sent, uint8_t *got, size_t bytes, char *detail) {
  for (uint32_t round = 0; round < kRounds; round++) {
    braid_suite_fill(sent, bytes, round);
    SUITE_CHECK(braid_suite_write(suite, buffer, 0, sent, bytes) == BRAID_OK, "write: %s", braid_error_detail());
    memset(sent + bytes / 2, 0, bytes / 2); /* the host's again */
    memset(got, 0, bytes);
    SUITE_CHECK(braid_suite_read(suite, buffer, 0, got, bytes) == BRAID_OK, "read: %s", braid_error_detail());
    uint8_t last = got[bytes - 1];
    braid_suite_fill(sent, bytes, round);
    SUITE_CHECK(suite->info->modelled || last == sent[bytes - 1],
                "a read has ended before its data is there, or a write before it was taken");
    SUITE_CHECK(suite->info->modelled || memcmp(sent, got, bytes) == 0, "a write has ended before its data was taken");
  }
  return true;
}

static bool case_done(braid_suite *suite, char *detail) {
  size_t bytes = braid_suite_at_most(suite, kLarge);
  void *buffer = NULL;
  uint8_t *host = braid_alloc(NULL, 2 * bytes);
  bool passed = host && suite->backend->buffer_create(suite->self, bytes, &buffer) == BRAID_OK;
  if (passed)
    passed = run_done(suite, buffer, host, host + bytes, bytes, detail);
  else
    braid_suite_fail(detail, "no memory for the case: %s", braid_error_detail());
  if (suite->stopped) return passed;
  if (buffer) suite->backend->buffer_destroy(suite->self, buffer);
  braid_free(NULL, host);
  return passed;
}

void braid_suite_queues(braid_suite *suite) {
  braid_suite_case(suite, "order of a queue", case_order);
  braid_suite_case(suite, "kinds of tasks in order", case_chain);
  braid_suite_case(suite, "several threads submit", case_threads);
  braid_suite_case(suite, "waits across queues", case_waits);
  braid_suite_case(suite, "waits for several timelines", case_several);
  braid_suite_case(suite, "queues in turns", case_turns);
  braid_suite_case(suite, "values of a timeline", case_values);
  braid_suite_case(suite, "done is done", case_done);
}
