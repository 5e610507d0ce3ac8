/* Conformance: the order of tasks within a queue, and waits across queues. */
#include <string.h>

#include "base/thread.h"
#include "device/conformance.h"

enum { kThreads = 4, kShort = 3000000 /* ns */, kRounds = 3, kLarge = 8 << 20 };

static braid_status load_init(braid_load *load, braid_suite *suite) {
  load->suite = suite;
  load->stride = suite->info->alignment > sizeof(uint64_t) ? suite->info->alignment : sizeof(uint64_t);
  size_t bytes = kLoadTasks * load->stride;
  braid_status status = suite->backend->buffer_create(suite->self, bytes, &load->buffer);
  if (status == BRAID_OK) status = suite->backend->buffer_create(suite->self, bytes, &load->other);
  if (status == BRAID_OK) status = braid_event_create(NULL, &load->gate);
  for (; status == BRAID_OK && load->count < kLoadTasks; load->count++) {
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

/* What was submitted ends first. */
static void load_free(braid_load *load) {
  for (size_t i = 0; load && i < load->count && !load->suite->stopped; i++)
    if (load->submitted[i]) (void)braid_suite_wait(load->suite, load->events[i]);
  if (!load || load->suite->stopped) return;
  for (size_t i = 0; i < load->count; i++) braid_event_destroy(load->events[i]);
  braid_event_destroy(load->gate);
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

bool braid_load_submit(braid_load *load, void *queue, braid_task *task, char *detail) {
  braid_status status = load->suite->backend->submit(queue, task);
  if (status == BRAID_OK && load->suite->backend->flush) load->suite->backend->flush(queue);
  SUITE_CHECK(status == BRAID_OK, "submit: %s", braid_error_detail());
  load->submitted[task - load->tasks] = true;
  return true;
}

bool braid_load_submit_first(braid_load *load, void *queue, size_t count, char *detail) {
  for (size_t i = 0; i < count; i++)
    if (!braid_load_submit(load, queue, &load->tasks[i], detail)) return false;
  return true;
}

void braid_suite_linger(void) {
  braid_event *never;
  if (braid_event_create(NULL, &never) != BRAID_OK) return;
  (void)braid_event_wait(never, kShort);
  braid_event_destroy(never);
}

/* --- order ---------------------------------------------------------------------------------------------------------
 * All writes to the same place; the first waits, so that the others pile up behind it. */
static bool run_order(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  for (size_t i = 0; i < load->count; i++) load->tasks[i].target.offset = 0;
  for (int round = 0; round < kRounds; round++) {
    for (size_t i = 0; i < load->count; i++) braid_event_reset(load->events[i]);
    braid_event_reset(load->gate);
    load->tasks[0].waits = &load->gate;
    load->tasks[0].wait_count = round > 0;
    bool submitted = braid_load_submit_first(load, suite->queue, load->count, detail);
    braid_event_complete(load->gate, BRAID_OK, NULL);
    if (!submitted) return false;
    SUITE_CHECK(braid_suite_wait(suite, load->events[load->count - 1]) == BRAID_OK, "last task: %s",
                braid_error_detail());
    for (size_t i = 0; i < load->count; i++)
      SUITE_CHECK(braid_event_done(load->events[i]), "task %zu is not done although the last one is", i);
    uint64_t got = 0;
    SUITE_CHECK(braid_suite_read(suite, load->buffer, 0, &got, sizeof got) == BRAID_OK, "read: %s",
                braid_error_detail());
    SUITE_CHECK(suite->info->modelled || got == load->count, "the last of %zu writes is not what stands: %llu",
                load->count, (unsigned long long)got);
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
  for (size_t i = 0; i < load->count; i++) {
    braid_task *task = &load->tasks[i];
    task->kind = (braid_task_kind[]){BRAID_TASK_WRITE, BRAID_TASK_COPY, BRAID_TASK_READ}[i % 3];
    task->source = i % 3 == 1 ? here : there;
    task->target = i % 3 == 0 ? here : there;
    task->host = i % 3 == 0 ? &load->values[i] : &load->results[i];
  }
  load->tasks[0].waits = &load->gate;
  load->tasks[0].wait_count = 1;
  size_t count = load->count / 3 * 3;
  bool submitted = braid_load_submit_first(load, suite->queue, count, detail);
  braid_event_complete(load->gate, BRAID_OK, NULL);
  if (!submitted) return false;
  SUITE_CHECK(braid_suite_wait(suite, load->events[count - 1]) == BRAID_OK, "last task: %s", braid_error_detail());
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
  for (size_t i = share->first; i < share->load->count; i += kThreads)
    if (!braid_load_submit(share->load, share->load->suite->queue, &share->load->tasks[i], detail))
      share->failed = true;
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
  for (size_t i = 0; i < load->count; i++) {
    uint64_t got = 0;
    SUITE_CHECK(braid_suite_wait(suite, load->events[i]) == BRAID_OK, "task %zu: %s", i, braid_error_detail());
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
  for (size_t i = 0; i < 3; i++) {
    tasks[i].waits = i ? &load->events[i - 1] : &load->gate;
    tasks[i].wait_count = 1;
  }
  bool passed = braid_load_submit(load, suite->queue, &tasks[0], detail) &&
                braid_load_submit(load, suite->second, &tasks[1], detail) &&
                braid_load_submit(load, suite->queue, &tasks[2], detail);
  braid_suite_linger();
  for (size_t i = 0; passed && i < 3; i++)
    if (braid_event_done(load->events[i])) passed = braid_suite_fail(detail, "task %zu did not wait for its event", i);
  braid_event_complete(load->gate, BRAID_OK, NULL);
  for (size_t i = 0; i < 3 && !suite->stopped; i++) {
    braid_status status = braid_suite_wait(suite, load->events[i]);
    if (passed && status != BRAID_OK) passed = braid_suite_fail(detail, "after the event: %s", braid_error_detail());
  }
  if (!passed) return false;
  SUITE_CHECK(suite->info->modelled || load->results[2] == 1, "a task did not see what the one it waited for wrote");
  return true;
}

static bool case_waits(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_waits);
}

/* A task that names three events, of which one after the other is the last to be done. */
static bool run_several(braid_load *load, char *detail) {
  enum { kSeveral = sizeof load->several / sizeof *load->several };
  braid_suite *suite = load->suite;
  braid_task *task = &load->tasks[0];
  task->waits = load->several;
  task->wait_count = kSeveral;
  for (size_t last = 0; last < kSeveral; last++) {
    braid_event_reset(load->events[0]);
    for (size_t i = 0; i < kSeveral; i++) {
      load->several[i] = load->events[1 + i];
      braid_event_reset(load->several[i]);
      if (i != last) braid_event_complete(load->several[i], BRAID_OK, NULL);
    }
    bool submitted = braid_load_submit(load, suite->queue, task, detail);
    braid_suite_linger();
    bool early = braid_event_done(load->events[0]);
    braid_event_complete(load->several[last], BRAID_OK, NULL);
    if (!submitted) return false;
    SUITE_CHECK(braid_suite_wait(suite, load->events[0]) == BRAID_OK, "after the events: %s", braid_error_detail());
    SUITE_CHECK(!early, "a task did not wait for event %zu of the %d that it names", last, (int)kSeveral);
  }
  return true;
}

static bool case_several(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_several);
}

/* Two queues in turns: each task adds its mark behind the one that it waits for. */
static bool run_turns(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  void *queues[2] = {suite->queue, suite->second};
  for (size_t i = 0; i < load->count; i++) {
    load->tasks[i].target.offset = 0;
    load->tasks[i].waits = i ? &load->events[i - 1] : &load->gate;
    load->tasks[i].wait_count = 1;
    if (!braid_load_submit(load, queues[i % 2], &load->tasks[i], detail)) return false;
  }
  braid_event_complete(load->gate, BRAID_OK, NULL);
  SUITE_CHECK(braid_suite_wait(suite, load->events[load->count - 1]) == BRAID_OK, "last task: %s",
              braid_error_detail());
  uint64_t got = 0;
  SUITE_CHECK(braid_suite_read(suite, load->buffer, 0, &got, sizeof got) == BRAID_OK, "read: %s", braid_error_detail());
  SUITE_CHECK(suite->info->modelled || got == load->count, "of writes in turns %llu stands, not the last",
              (unsigned long long)got);
  for (size_t i = 0; i < load->count; i++)
    SUITE_CHECK(braid_suite_wait(suite, load->events[i]) == BRAID_OK, "task %zu: %s", i, braid_error_detail());
  return true;
}

static bool case_turns(braid_suite *suite, char *detail) {
  if (suite->second == suite->queue) return braid_suite_pass_over(suite, detail, "one queue only");
  return braid_suite_with_load(suite, detail, run_turns);
}

/* --- an event says that all is done --------------------------------------------------------------------------------
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
                "a read's event is done before its data is there, or a write's before it was taken");
    SUITE_CHECK(suite->info->modelled || memcmp(sent, got, bytes) == 0,
                "a write's event is done before its data was taken");
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
  braid_suite_case(suite, "waits for several events", case_several);
  braid_suite_case(suite, "queues in turns", case_turns);
  braid_suite_case(suite, "done is done", case_done);
}
