/* Conformance: recordings, replayed by the queue or run in the calling thread, of tasks of a load with one verdict. */
#include <string.h>

#include "device/conformance.h"

enum { kRounds = 3, kLarge = 1000000 };
static const int64_t kPatience = 2000000000; /* ns for a cancelled run to end */

/* Tasks `from` to from + count - 1 on a queue. */
typedef struct take {
  braid_load *load;
  braid_queue *queue;
  size_t from, count;
  braid_task *tasks[kLoadTasks];
  void *recording;
} take;

static bool take_record(take *t, char *detail) {
  braid_load *load = t->load;
  for (size_t i = 0; i < t->count; i++) {
    t->tasks[i] = &load->tasks[t->from + i];
    t->tasks[i]->verdict = &load->verdicts[0];
    t->tasks[i]->ports = 3;
  }
  const braid_backend *backend = load->suite->backend;
  SUITE_CHECK(backend->record(t->queue->self, t->tasks, t->count, &t->recording) == BRAID_OK, "record: %s",
              braid_error_detail());
  return true;
}

static void take_erase(take *t) {
  if (t->recording && !t->load->suite->stopped) t->load->suite->backend->erase(t->queue->self, t->recording);
}

/* Before a round: its values, none of which is reached. */
static void take_number(take *t) {
  for (size_t i = 0; i < t->count; i++) {
    t->load->in[t->from + i] = t->queue;
    t->tasks[i]->value = t->queue->last + 1 + i;
  }
}

static bool take_replay(take *t, char *detail) {
  pthread_mutex_lock(&t->queue->lock);
  braid_status status = braid_queue_replay_locked(t->queue, t->recording, t->count);
  pthread_mutex_unlock(&t->queue->lock);
  SUITE_CHECK(status == BRAID_OK, "replay: %s", braid_error_detail());
  braid_queue_flush(t->queue);
  return true;
}

static bool check_slot(braid_load *load, size_t i, uint64_t expected, const char *what, char *detail) {
  uint64_t got = 0;
  SUITE_CHECK(braid_suite_read(load->suite, load->buffer, i * load->stride, &got, sizeof got) == BRAID_OK, "read: %s",
              braid_error_detail());
  SUITE_CHECK(load->suite->info->modelled || got == expected, "%s: task %zu leaves %llu and not %llu", what, i,
              (unsigned long long)got, (unsigned long long)expected);
  return true;
}

/* All slots hold this. */
static bool fill_slots(braid_load *load, uint64_t value, char *detail) {
  for (size_t i = 0; i < kLoadTasks; i += kLoadTasks / 4)
    SUITE_CHECK(braid_suite_write(load->suite, load->buffer, i * load->stride, &value, sizeof value) == BRAID_OK,
                "write: %s", braid_error_detail());
  return true;
}

/* --- replays -------------------------------------------------------------------------------------------------------
 */
/* From round to round the host's memory is another, and so is the value that a task in the middle waits for. */
static bool replay_rounds(take *t, char *detail) {
  braid_load *load = t->load;
  for (uint64_t round = 0; round < kRounds; round++) {
    uint64_t *from = round % 2 ? load->results : load->values;
    for (size_t i = 0; i < kLoadTasks; i++) {
      from[i] = round * kLarge + i;
      load->tasks[i].host = &from[i];
    }
    braid_load_await_gate(load, kLoadTasks / 2);
    braid_verdict_init(&load->verdicts[0]);
    take_number(t);
    bool replayed = take_replay(t, detail);
    braid_suite_linger();
    bool early = replayed && braid_load_ended(load, kLoadTasks / 2);
    braid_load_open(load);
    if (!replayed) return false;
    SUITE_CHECK(braid_load_wait(load, kLoadTasks - 1) == BRAID_OK, "a replay: %s", braid_error_detail());
    SUITE_CHECK(!early, "a task of a replay does not wait for what it names");
    SUITE_CHECK(braid_timeline_value(t->queue->timeline) == t->queue->last,
                "the timeline is not at the last task of a replay");
    for (size_t i = 0; i < kLoadTasks; i += kLoadTasks / 4)
      if (!check_slot(load, i, round * kLarge + i, "a replay with other memory", detail)) return false;
  }
  return true;
}

/* A task that reaches outside of its buffer ends the run: those behind are not run, and the verdict names it. */
static bool replay_failure(take *t, char *detail) {
  braid_load *load = t->load;
  size_t bad = kLoadTasks / 4 + 1, place = load->tasks[bad].target.offset;
  if (!fill_slots(load, 0, detail)) return false;
  load->tasks[bad].target.offset = 2 * kLoadTasks * load->stride;
  braid_verdict_init(&load->verdicts[0]);
  take_number(t);
  if (!take_replay(t, detail)) return false;
  braid_status status = braid_load_wait(load, kLoadTasks - 1);
  load->tasks[bad].target.offset = place;
  SUITE_CHECK(status != BRAID_OK && status != BRAID_CANCELLED && load->verdicts[0].detail[0],
              "a replay whose task reaches outside of its buffer ends with \"%s\"", braid_status_text(status));
  SUITE_CHECK(load->verdicts[0].task == &load->tasks[bad], "the verdict names another task than the one that failed");
  return check_slot(load, kLoadTasks / 2, 0, "behind one that failed", detail);
}

/* Cancelled while a task waits for what never comes. */
static bool replay_cancel(take *t, char *detail) {
  braid_load *load = t->load;
  if (!fill_slots(load, 0, detail)) return false;
  braid_load_await_gate(load, kLoadTasks / 2);
  braid_verdict_init(&load->verdicts[0]);
  take_number(t);
  bool replayed = take_replay(t, detail);
  braid_suite_linger();
  braid_verdict_cancel(&load->verdicts[0]);
  if (replayed) (void)braid_timeline_wait(t->queue->timeline, t->queue->last, kPatience);
  bool ended = replayed && braid_load_ended(load, kLoadTasks - 1);
  braid_load_open(load);
  if (!replayed) return false;
  (void)braid_load_wait(load, kLoadTasks - 1);
  SUITE_CHECK(ended, "a cancelled replay goes on waiting");
  return check_slot(load, kLoadTasks / 2, 0, "cancelled", detail);
}

/* What lies at each place depends on the one before: a replay whose tasks run twice, or not at all, leaves something
 * else. */
static bool replay_chain(take *t, char *detail) {
  braid_load *load = t->load;
  const braid_binding here = {.buffer = load->buffer, .bytes = sizeof(uint64_t)};
  const braid_binding there = {.buffer = load->other, .bytes = sizeof(uint64_t)};
  for (uint64_t round = 1; round <= kRounds; round++) {
    load->values[1] = round;
    braid_verdict_init(&load->verdicts[0]);
    take_number(t);
    if (!take_replay(t, detail)) return false;
    SUITE_CHECK(braid_load_wait(load, 1) == BRAID_OK, "a replay: %s", braid_error_detail());
    uint64_t got[2] = {0, 0};
    SUITE_CHECK(braid_suite_read(load->suite, here.buffer, 0, &got[0], sizeof *got) == BRAID_OK &&
                    braid_suite_read(load->suite, there.buffer, 0, &got[1], sizeof *got) == BRAID_OK,
                "read: %s", braid_error_detail());
    SUITE_CHECK(load->suite->info->modelled || (got[0] == round && got[1] == round - 1),
                "replay %llu of a recording does not run each task once", (unsigned long long)round);
  }
  return true;
}

static bool run_replay_chain(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  if (!suite->backend->record) return braid_suite_pass_over(suite, detail, "records nothing");
  const uint64_t zero = 0;
  load->tasks[0].kind = BRAID_TASK_COPY;
  load->tasks[0].source = load->tasks[0].target;
  load->tasks[0].target.buffer = load->other;
  load->tasks[1].target.offset = 0;
  take both = {.load = load, .queue = suite->queue, .count = 2};
  SUITE_CHECK(braid_suite_write(suite, load->buffer, 0, &zero, sizeof zero) == BRAID_OK, "write: %s",
              braid_error_detail());
  bool passed = take_record(&both, detail) && replay_chain(&both, detail);
  take_erase(&both);
  return passed;
}

static bool case_replay_chain(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_replay_chain);
}

static bool run_replay(braid_load *load, char *detail) {
  if (!load->suite->backend->record) return braid_suite_pass_over(load->suite, detail, "records nothing");
  take all = {.load = load, .queue = load->suite->queue, .count = kLoadTasks};
  bool passed = take_record(&all, detail) && replay_rounds(&all, detail) && replay_failure(&all, detail) &&
                replay_cancel(&all, detail) && replay_rounds(&all, detail);
  take_erase(&all);
  return passed;
}

static bool case_replay(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_replay);
}

/* Two recordings that wait for each other's tasks: written by the one, copied by the other, read back by the first,
 * which is replayed before the values it waits for are submitted. */
static bool replay_two(take *first, take *second, uint64_t round, char *detail) {
  braid_load *load = first->load;
  uint64_t sent = load->values[0] = 7 + round;
  load->results[1] = 0;
  braid_verdict_init(&load->verdicts[0]);
  take_number(first);
  take_number(second);
  load->points[2] = braid_load_point(load, 0);
  load->points[1] = braid_load_point(load, 2);
  bool replayed = take_replay(first, detail);
  braid_suite_linger();
  if (replayed && !take_replay(second, detail)) {
    braid_verdict_cancel(&load->verdicts[0]);
    replayed = false;
  }
  if (!replayed) return false;
  SUITE_CHECK(braid_load_wait(load, 1) == BRAID_OK && braid_load_wait(load, 3) == BRAID_OK,
              "two replays that wait for each other: %s", braid_error_detail());
  SUITE_CHECK(load->suite->info->modelled || load->results[1] == sent,
              "a task of a replay does not see what another queue's did");
  return true;
}

static bool run_replay_two(braid_load *load, char *detail) {
  braid_suite *suite = load->suite;
  if (!suite->backend->record) return braid_suite_pass_over(suite, detail, "records nothing");
  const braid_binding here = {.buffer = load->buffer, .bytes = sizeof(uint64_t)};
  const braid_binding there = {.buffer = load->other, .offset = load->stride, .bytes = sizeof(uint64_t)};
  braid_task *tasks = load->tasks;
  tasks[1].kind = BRAID_TASK_READ;
  tasks[1].source = there;
  tasks[1].host = &load->results[1];
  tasks[2].kind = BRAID_TASK_COPY;
  tasks[2].source = here;
  tasks[2].target = there;
  for (size_t i = 1; i < 3; i++) braid_load_await(load, i, (braid_point){NULL, 0});
  tasks[0].awaited = tasks[2].awaited = true;
  take first = {.load = load, .queue = suite->queue, .count = 2};
  take second = {.load = load, .queue = suite->second, .from = 2, .count = 2};
  bool passed = take_record(&first, detail) && take_record(&second, detail);
  for (uint64_t round = 0; passed && round < kRounds; round++) passed = replay_two(&first, &second, round, detail);
  for (size_t i = 0; !passed && i < 4; i++) load->in[i] = NULL; /* what was not replayed does not end */
  if (!passed) suite->stopped = true;
  take_erase(&first);
  take_erase(&second);
  return passed;
}

static bool case_replay_two(braid_suite *suite, char *detail) {
  if (suite->second == suite->queue) return braid_suite_pass_over(suite, detail, "one queue only");
  return braid_suite_with_load(suite, detail, run_replay_two);
}

/* --- in the calling thread -----------------------------------------------------------------------------------------
 */
static bool run_here(take *t, char *detail) {
  braid_load *load = t->load;
  braid_verdict_init(&load->verdicts[0]);
  take_number(t);
  SUITE_CHECK(braid_queue_run(t->queue, t->recording, t->count), "the queue is not idle");
  SUITE_CHECK(braid_timeline_value(t->queue->timeline) == t->queue->last,
              "the timeline is not at the last task when run returns");
  return true;
}

static bool run_and_fail(take *t, char *detail) {
  braid_load *load = t->load;
  if (!fill_slots(load, 0, detail) || !run_here(t, detail)) return false;
  SUITE_CHECK(braid_verdict_status(&load->verdicts[0]) == BRAID_OK, "run: %s", braid_error_detail());
  for (size_t i = 0; i < kLoadTasks; i += kLoadTasks / 4)
    if (!check_slot(load, i, i + 1, "run in the calling thread", detail)) return false;
  load->tasks[1].target.offset = 2 * kLoadTasks * load->stride;
  if (!fill_slots(load, 0, detail) || !run_here(t, detail)) return false;
  SUITE_CHECK(load->verdicts[0].task == &load->tasks[1] && load->verdicts[0].detail[0],
              "a task that reaches outside of its buffer does not fail");
  return check_slot(load, kLoadTasks / 4, 0, "behind one that failed", detail);
}

static bool run_run(braid_load *load, char *detail) {
  if (!load->suite->backend->run)
    return braid_suite_pass_over(load->suite, detail, "runs nothing in the calling thread");
  take all = {.load = load, .queue = load->suite->queue, .count = kLoadTasks};
  bool passed = take_record(&all, detail) && run_and_fail(&all, detail);
  take_erase(&all);
  return passed;
}

static bool case_run(braid_suite *suite, char *detail) {
  return braid_suite_with_load(suite, detail, run_run);
}

void braid_suite_replays(braid_suite *suite) {
  braid_suite_case(suite, "record and replay", case_replay);
  braid_suite_case(suite, "tasks of a replay", case_replay_chain);
  braid_suite_case(suite, "replays of two queues", case_replay_two);
  braid_suite_case(suite, "in the calling thread", case_run);
}
