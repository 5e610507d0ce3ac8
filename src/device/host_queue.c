/* Submitters push onto a stack with one compare-and-swap; the thread takes the whole stack at once and turns it round.
 * That keeps the order of submission and costs the thread one atomic operation for a batch of tasks. Values say whose
 * turn it is: a task runs when the timeline has reached the value before its own, whoever runs that one, the thread or
 * a caller. */
#include "braid/host_queue.h"

#include "base/clock.h"
#include "base/detail.h"
#include "base/thread.h"
#include "device/pause.h"
#include "device/sleep.h"

enum { kIdleSpins = 1000 }; /* before the thread sleeps: the next run of a session often follows at once */

typedef struct recording {
  braid_task *const *tasks;
  size_t count;
  braid_verdict *verdict;
} recording;

struct braid_host_queue {
  _Alignas(64) braid_task *pushed; /* newest first, atomic */
  _Alignas(64) uint32_t asleep;    /* 1: the thread sleeps or is about to; atomic */
  uint32_t stopping;               /* atomic */
  int idle_spins;
  const braid_host_queue_ops *ops;
  void *context;
  braid_timeline *timeline;
  braid_thread thread;
  const braid_allocator *allocator;
};

static braid_task *next_of(const braid_task *task) {
  return task->link[0];
}

static void set_next(braid_task *task, braid_task *next) {
  task->link[0] = next;
}

static void wake(braid_host_queue *queue) {
  if (__atomic_load_n(&queue->asleep, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&queue->asleep, 0, __ATOMIC_SEQ_CST))
    braid_futex_wake_all(&queue->asleep);
}

/* A task, or the first one of a recording, which stands for all. */
static void push(braid_host_queue *queue, braid_task *task, recording *all) {
  braid_task *top = __atomic_load_n(&queue->pushed, __ATOMIC_RELAXED);
  task->link[1] = all;
  do {
    set_next(task, top);
  } while (!__atomic_compare_exchange_n(&queue->pushed, &top, task, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  wake(queue);
}

braid_status braid_host_queue_submit(braid_host_queue *queue, braid_task *task) {
  push(queue, task, NULL);
  return BRAID_OK;
}

/* Until something was pushed; false when stopping and nothing was. */
static bool wait_for_tasks(braid_host_queue *queue) {
  for (int spins = 0; !__atomic_load_n(&queue->pushed, __ATOMIC_RELAXED); spins++) {
    if (spins < queue->idle_spins) {
      braid_pause();
      continue;
    }
    (void)__atomic_exchange_n(&queue->asleep, 1, __ATOMIC_SEQ_CST); /* as in timeline.c */
    bool stop = __atomic_load_n(&queue->stopping, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&queue->pushed, __ATOMIC_SEQ_CST)) {
      __atomic_store_n(&queue->asleep, 0, __ATOMIC_SEQ_CST);
      continue;
    }
    if (stop) return false;
    (void)braid_futex_wait(&queue->asleep, 1, -1);
  }
  return true;
}

/* All that was pushed, oldest first. */
static braid_task *take(braid_host_queue *queue) {
  braid_task *top = __atomic_exchange_n(&queue->pushed, NULL, __ATOMIC_ACQUIRE), *oldest = NULL;
  while (top) {
    braid_task *next = next_of(top);
    set_next(top, oldest);
    oldest = top;
    top = next;
  }
  return oldest;
}

static bool is_cancelled(const braid_verdict *verdict) {
  return __atomic_load_n(&verdict->cancel, __ATOMIC_ACQUIRE);
}

/* Unless the run is cancelled: what the task waits for may never come. */
static void wait_for_others(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++) {
    const braid_point *point = &task->waits[i];
    while (!braid_timeline_reached(point->timeline, point->value) && !is_cancelled(task->verdict)) {
      uint32_t word = 0;
      braid_point_sleep(point, task->verdict, &word, 0, -1);
    }
  }
}

typedef braid_status run_task(void *context, const braid_task *task);

/* Of the process; the context is set before the function and never changes while it is set. */
static void (*pace_call)(void *context); /* atomic */
static void *pace_context;

void braid_host_queue_set_pace(void (*pace)(void *context), void *context) {
  if (pace) pace_context = context;
  __atomic_store_n(&pace_call, pace, __ATOMIC_RELEASE);
}

static void wait_for_pace(void) {
  void (*pace)(void *) = __atomic_load_n(&pace_call, __ATOMIC_ACQUIRE);
  if (pace) pace(pace_context);
}

/* Runs the task, unless its run is cancelled by then. */
static void serve(const braid_task *task, run_task *run, void *context) {
  if (task->wait_count) wait_for_others(task);
  wait_for_pace();
  if (is_cancelled(task->verdict)) return;
  braid_timing *timing = task->timing;
  if (timing) *timing = (braid_timing){.start_ns = braid_now_ns(), .energy_uj = -1};
  braid_clear_detail();
  braid_status status = run(context, task);
  if (timing && !timing->end_ns) timing->end_ns = braid_now_ns(); /* of a simulated device: the one that it has set */
  if (status != BRAID_OK) braid_verdict_fail(task->verdict, task, status);
}

/* Once the last value is reached, and not before, the recording may be gone. */
static void serve_all(braid_host_queue *queue, const recording *all, uint64_t first, run_task *run, void *context) {
  uint64_t last = first + all->count - 1;
  for (uint64_t value = first; value <= last && !is_cancelled(all->verdict); value++) {
    const braid_task *task = all->tasks[value - first];
    serve(task, run, context);
    if (value == last) break;
    if (task->awaited) braid_timeline_raise(queue->timeline, value);
  }
  braid_timeline_raise(queue->timeline, last);
}

static void *thread_main(void *context) {
  braid_host_queue *queue = context;
  if (queue->ops->enter) queue->ops->enter(queue->context);
  while (wait_for_tasks(queue)) {
    for (braid_task *task = take(queue), *next; task; task = next) {
      uint64_t value = task->value;
      next = next_of(task); /* the task is its owner's again once its value is reached */
      (void)braid_timeline_wait(queue->timeline, value - 1, -1);
      if (task->link[1]) {
        serve_all(queue, task->link[1], value, queue->ops->run, queue->context);
      } else {
        serve(task, queue->ops->run, queue->context);
        braid_timeline_raise(queue->timeline, value);
      }
    }
  }
  return NULL;
}

/* --- recordings ----------------------------------------------------------------------------------------------------
 */
braid_status braid_host_queue_record(braid_host_queue *queue, braid_task *const *tasks, size_t count, void **out) {
  *out = NULL;
  if (!count) return braid_fail(BRAID_INVALID_ARGUMENT, "a recording of no tasks");
  recording *all = braid_alloc(queue->allocator, sizeof *all);
  if (!all) return BRAID_NO_MEMORY;
  *all = (recording){tasks, count, tasks[0]->verdict};
  *out = all;
  return BRAID_OK;
}

void braid_host_queue_erase(braid_host_queue *queue, void *which) {
  braid_free(queue->allocator, which);
}

braid_status braid_host_queue_replay(braid_host_queue *queue, void *which, uint64_t first) {
  recording *all = which;
  all->tasks[0]->value = first;
  push(queue, all->tasks[0], all);
  return BRAID_OK;
}

void braid_host_queue_run(braid_host_queue *queue, void *which, uint64_t first, run_task *run, void *context) {
  serve_all(queue, which, first, run, context);
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_host_queue_create(const braid_allocator *allocator, const char *name,
                                     const braid_host_queue_ops *ops, void *context, braid_timeline *timeline,
                                     braid_host_queue **out) {
  *out = NULL;
  braid_host_queue *queue = braid_zalloc(allocator, sizeof *queue);
  if (!queue) return BRAID_NO_MEMORY;
  queue->allocator = allocator;
  queue->ops = ops;
  queue->context = context;
  queue->timeline = timeline;
  queue->idle_spins = braid_cpu_count() > 1 ? kIdleSpins : 0; /* alone, spinning only keeps others from submitting */
  braid_status status = braid_thread_start(&queue->thread, name, thread_main, queue);
  if (status == BRAID_OK)
    *out = queue;
  else
    braid_free(allocator, queue);
  return status;
}

void braid_host_queue_destroy(braid_host_queue *queue) {
  if (!queue) return;
  __atomic_store_n(&queue->stopping, 1, __ATOMIC_SEQ_CST);
  wake(queue);
  braid_thread_join(&queue->thread);
  braid_free(queue->allocator, queue);
}
