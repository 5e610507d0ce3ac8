/* Submitters push onto a stack with one compare-and-swap; the thread takes the whole stack at once and turns it round.
 * That keeps the order of submission and costs the thread one atomic operation for a batch of tasks. Values say whose
 * turn it is: a task runs when the timeline has reached the value before its own, whoever runs that one, the thread or
 * a caller. */
#include "braid/host_queue.h"

#include "base/clock.h"
#include "base/detail.h"
#include "base/thread.h"
#include "device/pause.h"

static const int64_t kSlice = 5000000; /* ns between looks at a waiting task's verdict */
enum { kIdleSpins = 1000 };            /* before the thread sleeps: the next run of a session often follows at once */

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

braid_status braid_host_queue_submit(braid_host_queue *queue, braid_task *task) {
  braid_task *top = __atomic_load_n(&queue->pushed, __ATOMIC_RELAXED);
  do {
    set_next(task, top);
  } while (!__atomic_compare_exchange_n(&queue->pushed, &top, task, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  wake(queue);
  return BRAID_OK;
}

/* Until something was pushed; false when stopping and nothing was. */
static bool wait_for_tasks(braid_host_queue *queue) {
  for (int spins = 0; !__atomic_load_n(&queue->pushed, __ATOMIC_RELAXED); spins++) {
    if (spins < queue->idle_spins) {
      braid_pause();
      continue;
    }
    __atomic_store_n(&queue->asleep, 1, __ATOMIC_SEQ_CST);
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

/* Who cancels wakes nobody, so a waiting task looks at its verdict now and then: what it waits for may never come.
 * False: the task is not to be run. */
static bool wait_for_others(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++) {
    const braid_point *point = &task->waits[i];
    while (!braid_timeline_reached(point->timeline, point->value) && !braid_verdict_cancelled(task->verdict))
      (void)braid_timeline_wait(point->timeline, point->value, kSlice);
  }
  return !braid_verdict_cancelled(task->verdict);
}

typedef braid_status run_task(void *context, const braid_task *task);

static void serve(braid_host_queue *queue, const braid_task *task, run_task *run, void *context) {
  uint64_t value = task->value;
  if (wait_for_others(task)) {
    braid_timing *timing = task->timing;
    if (timing) *timing = (braid_timing){.start_ns = braid_now_ns(), .energy_uj = -1};
    braid_clear_detail();
    braid_status status = run(context, task);
    if (timing) timing->end_ns = braid_now_ns();
    if (status != BRAID_OK) braid_verdict_fail(task->verdict, task, status);
  }
  braid_timeline_raise(queue->timeline, value);
}

static void *thread_main(void *context) {
  braid_host_queue *queue = context;
  if (queue->ops->enter) queue->ops->enter(queue->context);
  while (wait_for_tasks(queue)) {
    for (braid_task *task = take(queue), *next; task; task = next) {
      next = next_of(task); /* the task is its owner's again once its value is reached */
      (void)braid_timeline_wait(queue->timeline, task->value - 1, -1);
      serve(queue, task, queue->ops->run, queue->context);
    }
  }
  return NULL;
}

void braid_host_queue_run(braid_host_queue *queue, braid_task *tasks, size_t count, run_task *run, void *context) {
  for (size_t i = 0; i < count; i++) serve(queue, &tasks[i], run, context);
}

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
