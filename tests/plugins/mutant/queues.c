/* The mutant's queues and recordings. */
#include <time.h>

#include "mutant.h"

typedef struct made {
  void *queue;
  braid_timeline *timeline;
} made;
static made queues[64]; /* the newest of an address counts */
static size_t queue_count;

static braid_timeline *timeline_of(const void *queue) {
  size_t i = queue_count;
  while (i-- > 0 && queues[i].queue != queue) continue;
  return queues[i].timeline;
}

/* The tasks as they are, or copies: as they were when they were recorded, or of which none is awaited. */
enum { MOST_TASKS = 512, MOST_BINDINGS = 80 };
typedef struct taken {
  void *recording;
  braid_task *const *tasks;
  size_t count, replays;
  braid_task copies[MOST_TASKS], *listed[MOST_TASKS];
  braid_binding bindings[MOST_BINDINGS]; /* of a kernel */
} taken;

static void linger(void) {
  nanosleep(&(const struct timespec){.tv_nsec = 2000000}, NULL);
}

/* A cancelled task that was waiting: its values are raised, and its work is done later all the same. */
static braid_task orphan;

static void work_for_orphan(void) {
  if (!orphan.host || !braid_verdict_cancelled(orphan.verdict)) return;
  (void)mutant_run(&orphan);
  orphan.host = NULL;
}

/* A large write in two halves; when it is cancelled between them, all tasks of the queue are said to have ended. */
static braid_status write_halves(const braid_task *task, braid_timeline *timeline) {
  braid_task half = *task;
  half.target.bytes /= 2;
  braid_status status = mutant_run(&half);
  for (int i = 0; i < 10 && !braid_verdict_cancelled(task->verdict); i++) linger();
  if (braid_verdict_cancelled(task->verdict)) braid_timeline_raise(timeline, task->value + 1);
  for (int i = 0; i < 5; i++) linger();
  half.target.offset += half.target.bytes;
  half.host = (uint8_t *)task->host + half.target.bytes;
  half.target.bytes = task->target.bytes - half.target.bytes;
  return status == BRAID_OK ? mutant_run(&half) : status;
}

static taken *latest; /* the newest recording */

static braid_status serve(void *context, const braid_task *task) {
  static bool failed;
  braid_timeline *timeline = ((made *)context)->timeline;
  bool early = is("done_early") || (is("kernel_early") && task->kind == BRAID_TASK_KERNEL);
  if (is("ahead") || early) braid_timeline_raise(timeline, task->value + !early);
  if (early) linger();
  if (is("spreads") && failed) {
    failed = false;
    return braid_fail(BRAID_IO, "the one before has failed");
  }
  if (is("host_leak")) mutant_keep_some();
  if (is("cancel_late")) work_for_orphan();
  bool halves = is("cancel_ahead") && task->kind == BRAID_TASK_WRITE && task->target.bytes >= 4 << 20;
  braid_status status = halves ? write_halves(task, timeline) : mutant_run(task);
  if (latest && is("replay_each")) status = mutant_run(task);
  if (latest && is("replay_twice") && task == latest->tasks[latest->count - 1])
    for (size_t i = 0; i < latest->count; i++) (void)mutant_run(latest->tasks[i]);
  failed = status != BRAID_OK;
  if (failed && is("fail_early")) {
    braid_timeline_raise(timeline, task->value);
    linger();
  }
  return failed && is("silent") ? braid_fail(status, "%s", "") : status;
}

braid_status mutant_queue_create(void *device, braid_timeline *timeline, void **queue) {
  (void)device;
  static const braid_host_queue_ops OPS = {.run = serve};
  made *own = &queues[queue_count];
  if (queue_count == sizeof queues / sizeof *queues) return braid_fail(BRAID_INTERNAL, "too many queues for a test");
  own->timeline = timeline;
  braid_status status = braid_host_queue_create(NULL, "mutant", &OPS, own, timeline, (braid_host_queue **)&own->queue);
  *queue = own->queue;
  if (status == BRAID_OK) queue_count++;
  return status;
}

braid_status mutant_submit(void *queue, braid_task *task) {
  static int submitted;
  static braid_verdict ignored;
  braid_timeline *timeline = timeline_of(queue);
  uint64_t value = task->value; /* the task may be gone once it is submitted */
  if (is("waits")) task->wait_count = 0;
  if (is("waits_first") && task->wait_count > 1) task->wait_count = 1;
  if (is("cancel") || (is("cancel_waiting") && task->wait_count)) task->verdict = &ignored;
  if (is("lost") && ++submitted == 400) return BRAID_OK;
  if (is("order") && task->kind == BRAID_TASK_WRITE && !task->wait_count) {
    braid_status written = mutant_run(task);
    braid_timeline_raise(timeline, value);
    return written;
  }
  if (is("cancel_late") && task->kind == BRAID_TASK_WRITE && task->wait_count) orphan = *task;
  if (is("fail_unraised") && task->kind == BRAID_TASK_WRITE && mutant_is_outside(&task->target)) {
    braid_verdict_fail(task->verdict, task, braid_fail(BRAID_OUT_OF_RANGE, "outside"));
    return BRAID_OK;
  }
  bool inside = is("waits_inside") || (is("works_inside") && !task->wait_count);
  braid_status status = braid_host_queue_submit(queue, task);
  if (status == BRAID_OK && inside) (void)braid_timeline_wait(timeline, value, -1);
  return status;
}

void mutant_erase(void *queue, void *which) {
  taken *own = which;
  braid_host_queue_erase(queue, own->recording);
  if (latest == own) latest = NULL;
  free(own);
}

/* Where the operands of a kernel lay when it was recorded. */
static void keep_bindings(taken *own, braid_task *task) {
  size_t count = task->input_count + task->output_count + 1;
  if (task->kind != BRAID_TASK_KERNEL || count > MOST_BINDINGS) return;
  memcpy(own->bindings, task->bindings, count * sizeof *own->bindings);
  task->bindings = own->bindings;
}

braid_status mutant_record(void *queue, braid_task *const *tasks, size_t count, void **out) {
  taken *own = *out = calloc(1, sizeof *own);
  if (!own || count > MOST_TASKS) {
    free(own);
    return BRAID_NO_MEMORY;
  }
  own->tasks = tasks;
  own->count = count;
  for (size_t i = 0; i < count; i++) {
    own->copies[i] = *tasks[i];
    own->listed[i] = &own->copies[i];
    if (is("replay_bindings")) keep_bindings(own, own->listed[i]);
  }
  latest = own;
  bool copied = is("replay_stale") || is("replay_awaited") || is("replay_bindings") || is("replay_once");
  return braid_host_queue_record(queue, copied ? own->listed : tasks, count, &own->recording);
}

/* The copies are brought up to date, but for what is wrong. */
static void renew(taken *own) {
  for (size_t i = 0; i < own->count; i++) {
    const braid_binding *bindings = own->copies[i].bindings;
    own->copies[i] = *own->tasks[i];
    if (is("replay_awaited")) own->copies[i].awaited = false;
    if (is("replay_bindings")) own->copies[i].bindings = bindings;
    if (is("replay_once") && own->replays) own->copies[i].kind = BRAID_TASK_COPY;
    if (is("replay_once") && own->replays) own->copies[i].target = own->copies[i].source = (braid_binding){0};
  }
  own->replays++;
}

braid_status mutant_replay(void *queue, void *which, uint64_t first) {
  taken *own = which;
  if (!is("replay_stale")) renew(own);
  return braid_host_queue_replay(queue, own->recording, first);
}

static braid_status serve_here(void *context, const braid_task *task) {
  (void)context;
  return mutant_run(task);
}

/* Goes on after a failure. */
void mutant_run_here(void *queue, void *which, uint64_t first) {
  const taken *own = which;
  if (!is("run_on")) {
    braid_host_queue_run(queue, own->recording, first, serve_here, NULL);
    return;
  }
  for (size_t i = 0; i < own->count; i++) {
    braid_status status = mutant_run(own->tasks[i]);
    if (status != BRAID_OK) braid_verdict_fail(own->tasks[i]->verdict, own->tasks[i], status);
    braid_timeline_raise(timeline_of(queue), first + i);
  }
}
