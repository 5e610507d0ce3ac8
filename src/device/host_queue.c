/* Submitters push onto a stack with one compare-and-swap; the thread takes the whole stack at once and turns it round.
 * That keeps the order of submission and costs the thread one atomic operation for a batch of tasks. Who runs tasks,
 * the thread or a caller, holds the queue from before he looks at the stack until the last is done. */
#include "braid/host_queue.h"

#include "base/clock.h"
#include "base/detail.h"
#include "base/thread.h"
#include "device/pause.h"

static const int64_t kSlice = 5000000; /* ns between looks at a waiting task's cancel word */
enum { kIdleSpins = 1000 };            /* before the thread sleeps: the next run of a session often follows at once */

struct braid_host_queue {
  _Alignas(64) braid_task *pushed; /* newest first, atomic */
  _Alignas(64) uint32_t asleep;    /* 1: the thread sleeps or is about to; atomic */
  uint32_t stopping;               /* atomic */
  uint32_t held;                   /* of enum hold; atomic, a futex */
  int idle_spins;
  const braid_host_queue_ops *ops;
  void *context;
  braid_thread thread;
  const braid_allocator *allocator;
};

enum hold { kFree, kHeld, kAwaited };

static bool try_hold(braid_host_queue *queue) {
  uint32_t none = kFree;
  return __atomic_compare_exchange_n(&queue->held, &none, kHeld, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static void hold(braid_host_queue *queue) {
  for (int i = 0; i < kShortSpins; i++) {
    if (try_hold(queue)) return;
    braid_pause();
  }
  while (__atomic_exchange_n(&queue->held, kAwaited, __ATOMIC_ACQUIRE) != kFree)
    (void)braid_futex_wait(&queue->held, kAwaited, -1);
}

static void let_go(braid_host_queue *queue) {
  if (__atomic_exchange_n(&queue->held, kFree, __ATOMIC_RELEASE) == kAwaited) braid_futex_wake_all(&queue->held);
}

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

static bool cancelled(const braid_task *task) {
  return task->cancel && __atomic_load_n(task->cancel, __ATOMIC_ACQUIRE);
}

/* Who cancels sets a word and wakes nobody, so a waiting task looks at it now and then: what it waits for may never
 * come. */
static braid_status wait_for(const braid_task *task, braid_event *event) {
  while (!braid_event_done(event) && !cancelled(task)) (void)braid_event_wait(event, task->cancel ? kSlice : -1);
  return braid_event_done(event) ? braid_event_wait(event, 0) : BRAID_OK;
}

static braid_status wait_for_others(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++) {
    braid_status status = wait_for(task, task->waits[i]);
    if (status != BRAID_OK) return status;
  }
  if (!cancelled(task)) return BRAID_OK;
  braid_clear_detail(); /* there may be thousands of them: the status says it all */
  return BRAID_CANCELLED;
}

typedef braid_status run_task(void *context, const braid_task *task);

static void serve(const braid_task *task, run_task *run, void *context) {
  braid_timing timing = {.energy_uj = -1};
  braid_status status = wait_for_others(task);
  if (status == BRAID_OK) {
    if (!task->untimed) timing.start_ns = braid_now_ns();
    braid_clear_detail();
    status = run(context, task);
    if (!task->untimed) timing.end_ns = braid_now_ns();
  }
  if (status != BRAID_OK && task->cancel) __atomic_store_n(task->cancel, 1, __ATOMIC_RELEASE);
  braid_event_complete(task->done, status, &timing);
}

static void *thread_main(void *context) {
  braid_host_queue *queue = context;
  if (queue->ops->enter) queue->ops->enter(queue->context);
  while (wait_for_tasks(queue)) {
    hold(queue);
    for (braid_task *task = take(queue), *next; task; task = next) {
      next = next_of(task); /* the task is its owner's again once its event is done */
      serve(task, queue->ops->run, queue->context);
    }
    let_go(queue);
  }
  return NULL;
}

braid_status braid_host_queue_run(braid_host_queue *queue, braid_task *const *tasks, size_t count, run_task *run,
                                  void *context) {
  if (__atomic_load_n(&queue->pushed, __ATOMIC_RELAXED) || !try_hold(queue)) return BRAID_BUSY;
  bool idle = !__atomic_load_n(&queue->pushed, __ATOMIC_SEQ_CST); /* what was submitted before comes before */
  for (size_t i = 0; idle && i < count; i++) serve(tasks[i], run, context);
  let_go(queue);
  return idle ? BRAID_OK : BRAID_BUSY;
}

braid_status braid_host_queue_create(const braid_allocator *allocator, const char *name,
                                     const braid_host_queue_ops *ops, void *context, braid_host_queue **out) {
  *out = NULL;
  braid_host_queue *queue = braid_zalloc(allocator, sizeof *queue);
  if (!queue) return BRAID_NO_MEMORY;
  queue->allocator = allocator;
  queue->ops = ops;
  queue->context = context;
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
