#include "launch/queue.h"

#include <assert.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/detail.h"

enum { kWaits = 32, kNapPart = 16 };
static const int64_t kSlice = 20000000;        /* ns between looks at what may end a wait before its time */
static const int64_t kLongestTick = 100000000; /* ns between looks at hung tasks */
static const int64_t kPatience = 30000000000;  /* of a queue that is stopped with a task that does not end */

/* How a driver that does not call back is asked (NVIDIA's calls come 5 us late for each of a stream of kernels, and up
 * to ten milliseconds after a copy; measured on an H200): without a pause at first, then the less often the longer it
 * takes. The worker never waits in the driver, which may not come back from a device that hangs. */
static const int64_t kAtOnce = 40000;                           /* ns of asking without a pause */
static const int64_t kShortestNap = 4000, kLongestNap = 250000; /* ns; a nap is a part of the time waited so far */

/* The queue whose lock this thread holds while it is in the driver, which may call back in the middle of a call. */
static _Thread_local const braid_launch_queue *inside_driver;

static bool is_stopping(const braid_launch_queue *queue) {
  return __atomic_load_n(&queue->stopping, __ATOMIC_SEQ_CST);
}

static bool has_backlog(const braid_launch_queue *queue) {
  return __atomic_load_n(&queue->backlog, __ATOMIC_SEQ_CST);
}

static bool all_reached(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++)
    if (!braid_timeline_reached(task->waits[i].timeline, task->waits[i].value)) return false;
  return true;
}

/* A command cannot be taken back from the driver: should what is before it hang and be given up, it would still run one
 * day. Where that may happen, tasks that write memory which is not ours are issued only when nothing is left that could
 * hang before them. */
static bool must_be_alone(const braid_launch_queue *queue, const braid_task *task) {
  return queue->deadline_ns && (task->kind == BRAID_TASK_READ || queue->unified);
}

void braid_launch_queue_wake(braid_launch_queue *queue) {
  __atomic_add_fetch(&queue->signals, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&queue->sleeping, __ATOMIC_SEQ_CST)) braid_futex_wake_all(&queue->signals);
}

void braid_launch_queue_flush(braid_launch_queue *queue) {
  if (__atomic_exchange_n(&queue->unflushed, 0, __ATOMIC_SEQ_CST) && !queue->driver->is_lost(queue))
    queue->driver->flush(queue);
}

/* --- issuing -------------------------------------------------------------------------------------------------------
 */
typedef struct wait_list {
  void *events[kWaits]; /* the driver's, retained */
  size_t count;
} wait_list;

/* Lists the driver's event of a task in flight on a queue of this context; on this very queue its order is enough. Only
 * of the same run: drivers fail what waits for a command that fails. False: the host has to wait. */
static bool chain_wait(braid_launch_queue *queue, const braid_task *task, const braid_point *point, wait_list *list) {
  braid_launch_queue *other = braid_timeline_get_native(point->timeline, queue->context);
  if (other == queue) return true;
  if (!other || list->count == kWaits) return false;
  pthread_mutex_lock(&other->look);
  const braid_launch_slot *slot = &other->slots[point->value % BRAID_LAUNCH_WINDOW];
  bool ended = point->value <= other->ended;
  bool chained = !ended && point->value <= other->issued && slot->last && slot->task->verdict == task->verdict;
  if (chained) queue->driver->retain(queue, list->events[list->count++] = slot->last);
  pthread_mutex_unlock(&other->look);
  return ended || chained;
}

/* The first point that the host has to wait for; NULL: the driver can wait for all. */
static const braid_point *collect_waits(braid_launch_queue *queue, const braid_task *task, wait_list *list) {
  for (size_t i = 0; i < task->wait_count; i++) {
    const braid_point *point = &task->waits[i];
    if (braid_timeline_reached(point->timeline, point->value)) continue;
    if (must_be_alone(queue, task) || !chain_wait(queue, task, point, list)) return point;
  }
  return NULL;
}

static bool has_room(braid_launch_queue *queue, const braid_task *task) {
  pthread_mutex_lock(&queue->look);
  uint64_t in_flight = queue->issued - queue->ended;
  pthread_mutex_unlock(&queue->look);
  if (!in_flight) return true;
  if (must_be_alone(queue, task) || in_flight == BRAID_LAUNCH_WINDOW) return false;
  return !queue->driver->follows || queue->driver->follows(queue, task);
}

/* Fills the next slot; without an event the task has ended already. */
static void publish_slot(braid_launch_queue *queue, const braid_launch_slot *filled) {
  braid_launch_slot *slot = &queue->slots[filled->task->value % BRAID_LAUNCH_WINDOW];
  pthread_mutex_lock(&queue->look);
  assert(filled->task->value == queue->issued + 1 && !slot->last);
  *slot = *filled;
  slot->finished = !slot->last;
  queue->issued++;
  pthread_mutex_unlock(&queue->look);
  if (filled->last && !queue->polls) queue->driver->watch(slot, filled->last);
}

/* Hands the task to the driver, or fails it. False: the host has to wait first, for *blocking. */
static bool enqueue_task(braid_launch_queue *queue, braid_launch_slot *slot, const braid_point **blocking) {
  wait_list waits = {.count = 0};
  braid_status status = BRAID_OK;
  if (queue->driver->is_lost(queue))
    status = braid_fail(BRAID_DEVICE_LOST, "%s is lost", queue->device);
  else if (!(*blocking = collect_waits(queue, slot->task, &waits)))
    status = queue->driver->enqueue(queue, slot->task, waits.events, waits.count, &slot->first, &slot->last);
  while (waits.count > 0) queue->driver->release(queue, waits.events[--waits.count]);
  if (status != BRAID_OK) braid_verdict_fail(slot->task->verdict, slot->task, status);
  return !*blocking;
}

/* Issues the first task of the list, with the lock held. False: it has to wait first, for *blocking or, if that is
 * NULL, for room. */
static bool issue_task(braid_launch_queue *queue, const braid_point **blocking) {
  braid_task *task = queue->backlog, *next = task->link[0];
  braid_launch_slot slot = {.queue = queue, .task = task, .before_ns = braid_now_ns()};
  *blocking = NULL;
  if (!has_room(queue, task)) return false;
  if (!braid_verdict_cancelled(task->verdict) && !enqueue_task(queue, &slot, blocking)) return false;
  slot.after_ns = braid_now_ns();
  __atomic_store_n(&queue->backlog, next, __ATOMIC_SEQ_CST);
  __atomic_store_n(&queue->unflushed, 1, __ATOMIC_SEQ_CST);
  publish_slot(queue, &slot);
  return true;
}

/* Issues what can be, with the lock held. How many? */
static size_t issue_tasks(braid_launch_queue *queue, const braid_point **blocking) {
  size_t count = 0;
  *blocking = NULL;
  inside_driver = queue;
  while (queue->backlog && issue_task(queue, blocking)) count++;
  inside_driver = NULL;
  return count;
}

static void end_tasks(braid_launch_queue *queue);

void braid_launch_queue_submit(braid_launch_queue *queue, braid_task *task) {
  const braid_point *blocking;
  task->link[0] = NULL;
  pthread_mutex_lock(&queue->lock);
  if (queue->backlog) {
    queue->newest->link[0] = task; /* the worker may be waiting for what the first waits for, and issues it */
  } else {
    __atomic_store_n(&queue->backlog, task, __ATOMIC_SEQ_CST);
    (void)issue_tasks(queue, &blocking);
  }
  queue->newest = task;
  bool waits = queue->backlog;
  pthread_mutex_unlock(&queue->lock);
  if (waits || queue->polls)
    braid_launch_queue_wake(queue);
  else
    end_tasks(queue);
}

/* --- ending --------------------------------------------------------------------------------------------------------
 */
/* How long a task may run; 0: as long as it likes. */
static int64_t limit_ns(const braid_launch_queue *queue) {
  return queue->deadline_ns || !is_stopping(queue) ? queue->deadline_ns : kPatience;
}

/* A task's time counts from when it is first and what it waits for is reached. */
static bool is_hung(braid_launch_queue *queue, const braid_launch_slot *slot) {
  int64_t limit = limit_ns(queue), now = braid_now_ns();
  if (!limit) return false;
  if (queue->watched != queue->ended + 1 || !all_reached(slot->task)) {
    queue->watched = queue->ended + 1;
    queue->watched_ns = now;
  }
  return now - queue->watched_ns >= limit;
}

/* The first task in flight, if it is to be ended: it has finished, or is not waited for any more. With `look` held. */
static braid_launch_slot *next_to_end(braid_launch_queue *queue) {
  braid_launch_slot *slot = &queue->slots[(queue->ended + 1) % BRAID_LAUNCH_WINDOW];
  if (queue->issued == queue->ended) return NULL;
  if (!slot->finished && queue->polls) slot->finished = queue->driver->ask(queue, slot->last, &slot->code);
  if (slot->finished) return slot;
  if (is_hung(queue, slot)) queue->driver->lose(queue);
  return queue->driver->is_lost(queue) ? slot : NULL;
}

/* Ends the task, with `look` held, which is let go of meanwhile. A command that is still with the driver is left to its
 * callback, should it ever come. */
static void end_task(braid_launch_queue *queue, braid_launch_slot *slot) {
  braid_task *task = slot->task;
  bool given_up = !slot->finished;
  pthread_mutex_unlock(&queue->look);
  braid_timing timing = {.energy_uj = -1};
  braid_status status = BRAID_OK;
  if (given_up)
    status = braid_fail(BRAID_DEVICE_LOST, "%s does not answer", queue->device);
  else if (slot->last)
    status = queue->driver->outcome(queue, slot, &timing);
  if (status != BRAID_OK) braid_verdict_fail(task->verdict, task, status);
  if (task->timing) *task->timing = timing;
  pthread_mutex_lock(&queue->look);
  void *first = slot->first, *last = slot->last;
  bool orphan = !slot->finished; /* it may have come meanwhile */
  slot->first = slot->last = NULL;
  if (orphan) __atomic_add_fetch(queue->orphans, 1, __ATOMIC_ACQ_REL);
  uint64_t value = ++queue->ended;
  pthread_mutex_unlock(&queue->look);
  if (first) queue->driver->release(queue, first);
  if (orphan && queue->polls)
    queue->driver->watch(slot, last);
  else if (!orphan && last)
    queue->driver->release(queue, last);
  assert(braid_timeline_value(queue->timeline) == value - 1);
  braid_timeline_raise(queue->timeline, value);
  pthread_mutex_lock(&queue->look);
}

/* Ends what is to be ended, in order. With `look` held. */
static void end_tasks_locked(braid_launch_queue *queue) {
  braid_launch_slot *slot;
  if (queue->ending) return;
  queue->ending = true;
  while ((slot = next_to_end(queue))) end_task(queue, slot);
  queue->ending = false;
  if (has_backlog(queue) || is_stopping(queue)) braid_launch_queue_wake(queue);
}

/* By any thread that does not hold the queue's lock. */
static void end_tasks(braid_launch_queue *queue) {
  pthread_mutex_lock(&queue->look);
  end_tasks_locked(queue);
  pthread_mutex_unlock(&queue->look);
}

void braid_launch_queue_finished(braid_launch_slot *slot, void *event, int32_t code) {
  braid_launch_queue *queue = slot->queue;
  __atomic_add_fetch(&queue->callers, 1, __ATOMIC_ACQ_REL);
  pthread_mutex_lock(&queue->look);
  bool orphan = slot->last != event;
  if (!orphan) {
    slot->code = code;
    slot->finished = true;
    if (!inside_driver)
      end_tasks_locked(queue);
    else if (inside_driver != queue) /* whose own submitter ends it else */
      braid_launch_queue_wake(queue);
  }
  pthread_mutex_unlock(&queue->look);
  uint32_t *orphans = queue->orphans;
  if (orphan) queue->driver->release(queue, event);
  __atomic_sub_fetch(&queue->callers, 1, __ATOMIC_ACQ_REL);
  if (orphan) __atomic_sub_fetch(orphans, 1, __ATOMIC_ACQ_REL); /* the queue's memory may go now */
}

/* --- the worker ----------------------------------------------------------------------------------------------------
 */
/* Between two questions to the driver. `waited_ns`: since something last happened. */
static int64_t nap_ns(int64_t waited_ns) {
  int64_t nap = waited_ns / kNapPart;
  if (waited_ns <= kAtOnce) return 0;
  return nap < kShortestNap ? kShortestNap : nap > kLongestNap ? kLongestNap : nap;
}

/* Between two looks at hung tasks; -1: there can be none. */
static int64_t tick_ns(const braid_launch_queue *queue) {
  int64_t limit = limit_ns(queue), tick = limit / 4 + 1;
  return !limit ? -1 : tick < kLongestTick ? tick : kLongestTick;
}

/* `seen`: the signals before the worker last looked around; `blocking`: what the first task of the list waits for,
 * which only the worker takes from it. */
static void worker_rest(braid_launch_queue *queue, uint32_t seen, bool polling, int64_t waited_ns,
                        const braid_point *blocking) {
  int64_t ns = polling ? nap_ns(waited_ns) : tick_ns(queue);
  if (blocking) {
    braid_launch_queue_flush(queue); /* it may depend on what is before the task */
    (void)braid_timeline_wait(blocking->timeline, blocking->value, ns >= 0 && ns < kSlice ? ns : kSlice);
  } else if (polling) {
    if (ns) (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
  } else {
    __atomic_store_n(&queue->sleeping, 1, __ATOMIC_SEQ_CST);
    (void)braid_futex_wait(&queue->signals, seen, ns);
    __atomic_store_n(&queue->sleeping, 0, __ATOMIC_SEQ_CST);
  }
}

static void *worker_main(void *context) {
  braid_launch_queue *queue = context;
  int64_t since = braid_now_ns();
  uint64_t before = 0;
  (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* short naps are to be short */
  for (;;) {
    const braid_point *blocking;
    uint32_t seen = __atomic_load_n(&queue->signals, __ATOMIC_SEQ_CST);
    bool stopping = is_stopping(queue);
    pthread_mutex_lock(&queue->lock);
    size_t issued = issue_tasks(queue, &blocking);
    pthread_mutex_unlock(&queue->lock);
    if (issued) braid_launch_queue_flush(queue);
    pthread_mutex_lock(&queue->look);
    end_tasks_locked(queue);
    bool idle = queue->issued == queue->ended && !queue->ending;
    uint64_t ended = queue->ended;
    pthread_mutex_unlock(&queue->look);
    if (stopping && idle && !has_backlog(queue)) return NULL;
    int64_t now = braid_now_ns();
    if (issued || idle || ended != before) since = now;
    before = ended;
    if (!issued) worker_rest(queue, seen, queue->polls && !idle, now - since, blocking);
  }
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_launch_queue_init(braid_launch_queue *queue) {
  for (size_t i = 0; i < BRAID_LAUNCH_WINDOW; i++) queue->slots[i].queue = queue;
  if (pthread_mutex_init(&queue->lock, NULL)) return BRAID_NO_MEMORY;
  if (!pthread_mutex_init(&queue->look, NULL)) return BRAID_OK;
  pthread_mutex_destroy(&queue->lock);
  return BRAID_NO_MEMORY;
}

void braid_launch_queue_deinit(braid_launch_queue *queue) {
  pthread_mutex_destroy(&queue->lock);
  pthread_mutex_destroy(&queue->look);
}

braid_status braid_launch_queue_start(braid_launch_queue *queue, braid_timeline *timeline) {
  queue->timeline = timeline;
  queue->issued = queue->ended = queue->watched = 0;
  queue->stopping = 0;
  braid_timeline_set_native(timeline, queue->context, queue);
  return braid_thread_start(&queue->worker, "braid queue", worker_main, queue);
}

void braid_launch_queue_stop(braid_launch_queue *queue) {
  braid_launch_queue_flush(queue);
  __atomic_store_n(&queue->stopping, 1, __ATOMIC_SEQ_CST);
  braid_launch_queue_wake(queue);
  braid_thread_join(&queue->worker);
  while (__atomic_load_n(&queue->callers, __ATOMIC_ACQUIRE)) sched_yield(); /* they are on their last instructions */
  braid_timeline_set_native(queue->timeline, NULL, NULL);
}
