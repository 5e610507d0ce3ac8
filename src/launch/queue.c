#include "launch/queue.h"

#include <assert.h>
#include <sched.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/detail.h"
#include "device/sleep.h"

enum { kWaits = 32 };
static const int64_t kLongestHangCheck = 100000000; /* ns between checks for hung tasks */
static const int64_t kStopTimeout = 30000000000;    /* of a queue that is stopped with a task that does not end */

/* How a driver that does not call back is polled (NVIDIA's calls come 5 us late for each of a stream of kernels, and up
 * to ten milliseconds after a copy; measured on an H200): the less often the longer it takes, at first without a pause.
 * The worker never waits in the driver, which may not come back from a device that hangs. */
enum { kPollPart = 16 };                                          /* the pause is this part of the time waited so far */
static const int64_t kShortestPoll = 2500, kLongestPoll = 250000; /* ns; a shorter one is none */

static bool is_set(const uint32_t *flag) {
  return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

static bool all_reached(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++)
    if (!braid_timeline_reached(task->waits[i].timeline, task->waits[i].value)) return false;
  return true;
}

static braid_launch_slot *slot_of(braid_launch_queue *queue, uint64_t value) {
  return &queue->slots[value % BRAID_LAUNCH_WINDOW];
}

void braid_launch_queue_wake(braid_launch_queue *queue) {
  __atomic_add_fetch(&queue->signals, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&queue->sleeping, __ATOMIC_SEQ_CST)) braid_futex_wake_all(&queue->signals);
}

void braid_launch_queue_flush(void *which) {
  braid_launch_queue *queue = which;
  if (!is_set(queue->lost)) queue->driver->flush(queue);
}

static bool watch_event(braid_launch_queue *queue, void *event) {
  __atomic_add_fetch(&queue->pending, 1, __ATOMIC_ACQ_REL);
  return queue->driver->watch(queue, event);
}

/* --- issuing -------------------------------------------------------------------------------------------------------
 */
typedef struct wait_list {
  void *events[kWaits]; /* the driver's, retained */
  size_t count;
} wait_list;

/* A command cannot be taken back from the driver: should what is before it hang and be given up, it would still run one
 * day. Where that may happen, tasks that write memory which is not ours are issued only when nothing is left that could
 * hang before them. */
static bool must_run_alone(const braid_launch_queue *queue, const braid_task *task) {
  return queue->deadline_ns && (task->kind == BRAID_TASK_READ || queue->unified);
}

/* Lists the driver's event of a task in flight on a queue of this context; on this very queue its order is enough. Only
 * of the same run: drivers fail what waits for a command that fails. False: the host has to wait. */
static bool chain_wait(braid_launch_queue *queue, const braid_task *task, const braid_point *point, wait_list *list) {
  braid_launch_queue *other = braid_timeline_get_native(point->timeline, queue->context);
  if (other == queue) return true;
  if (!other || list->count == kWaits) return false;
  pthread_mutex_lock(&other->slots_lock);
  bool ended = braid_timeline_reached(point->timeline, point->value);
  const braid_launch_slot *slot = slot_of(other, point->value);
  bool chained = !ended && point->value <= other->issued && slot->last && slot->task->verdict == task->verdict;
  if (chained) queue->driver->retain(queue, list->events[list->count++] = slot->last);
  pthread_mutex_unlock(&other->slots_lock);
  return ended || chained;
}

/* The first point that the host has to wait for; NULL: the driver can wait for all. */
static const braid_point *collect_waits(braid_launch_queue *queue, const braid_task *task, wait_list *list) {
  for (size_t i = 0; i < task->wait_count; i++) {
    const braid_point *point = &task->waits[i];
    if (braid_timeline_reached(point->timeline, point->value)) continue;
    if (must_run_alone(queue, task) || !chain_wait(queue, task, point, list)) return point;
  }
  return queue->driver->precedes ? queue->driver->precedes(queue, task) : NULL;
}

static bool has_room(braid_launch_queue *queue, const braid_task *task) {
  uint64_t in_flight = queue->issued - braid_timeline_value(queue->timeline);
  if (!in_flight) return true;
  if (must_run_alone(queue, task) || in_flight == BRAID_LAUNCH_WINDOW) return false;
  return !queue->splits || queue->timed == (task->timing != NULL);
}

/* Hands the task to the driver, or fails it. False: the host has to wait first, for *blocking. */
static bool enqueue_task(braid_launch_queue *queue, braid_launch_slot *slot, const braid_point **blocking) {
  wait_list waits = {.count = 0};
  braid_status status = BRAID_OK;
  if (is_set(queue->lost))
    status = braid_fail(BRAID_DEVICE_LOST, "%s is lost", queue->device);
  else if (!(*blocking = collect_waits(queue, slot->task, &waits)))
    status = queue->driver->enqueue(queue, slot, waits.events, waits.count);
  while (waits.count > 0) queue->driver->release(queue, waits.events[--waits.count]);
  if (status != BRAID_OK) braid_verdict_fail(slot->task->verdict, slot->task, status);
  return !*blocking;
}

/* Fills the next slot: from here on the task may end. The driver may call back before, and is polled again after. */
static void publish_slot(braid_launch_queue *queue, const braid_launch_slot *filled) {
  if (filled->last && !is_set(&queue->polls) && !watch_event(queue, filled->last)) {
    __atomic_sub_fetch(&queue->pending, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&queue->polls, 1, __ATOMIC_SEQ_CST);
  }
  pthread_mutex_lock(&queue->slots_lock);
  assert(filled->task->value == queue->issued + 1);
  *slot_of(queue, ++queue->issued) = *filled;
  pthread_mutex_unlock(&queue->slots_lock);
}

/* Issues the first task of the list, with the lock held. False: it has to wait first, for *blocking or, if that is
 * NULL, for room. */
static bool issue_task(braid_launch_queue *queue, const braid_point **blocking) {
  braid_task *task = queue->backlog, *next = task->link[0];
  braid_launch_slot slot = {.task = task, .begun_ns = braid_now_ns()};
  if (!has_room(queue, task)) return false;
  __atomic_store_n(&queue->timed, task->timing != NULL, __ATOMIC_RELEASE);
  if (!braid_verdict_cancelled(task->verdict) && !enqueue_task(queue, &slot, blocking)) return false;
  __atomic_store_n(&queue->backlog, next, __ATOMIC_SEQ_CST);
  publish_slot(queue, &slot);
  return true;
}

/* Issues what can be, with the lock held. How many? Who issues ends tasks afterwards: some may be over already. */
static size_t issue_tasks(braid_launch_queue *queue, const braid_point **blocking) {
  size_t count = 0;
  *blocking = NULL;
  while (queue->backlog && issue_task(queue, blocking)) count++;
  return count;
}

/* --- ending --------------------------------------------------------------------------------------------------------
 */
/* The first task in flight, if it is to be ended: it is over, or not waited for any more. With `slots_lock` held. */
static braid_launch_slot *next_to_end(braid_launch_queue *queue, bool *over) {
  uint64_t value = braid_timeline_value(queue->timeline);
  braid_launch_slot *slot = slot_of(queue, value + 1);
  if (value == queue->issued) return NULL;
  *over = !slot->last || queue->driver->poll(queue, slot->last, &slot->code);
  return *over || is_set(queue->lost) ? slot : NULL;
}

static void end_task(braid_launch_queue *queue, braid_launch_slot *slot, bool over) {
  const braid_task *task = slot->task;
  void *first = slot->first, *last = slot->last;
  braid_timing timing = {.energy_uj = -1};
  braid_status status = BRAID_OK;
  if (!over)
    status = braid_fail(BRAID_DEVICE_LOST, "%s does not answer", queue->device);
  else if (last)
    status = queue->driver->outcome(queue, slot, &timing);
  if (status != BRAID_OK) braid_verdict_fail(task->verdict, task, status);
  if (task->timing) *task->timing = timing;
  if (!over && is_set(&queue->polls)) (void)watch_event(queue, last); /* nobody asks any more */
  pthread_mutex_lock(&queue->slots_lock);
  slot->last = NULL; /* others do not find it any more */
  pthread_mutex_unlock(&queue->slots_lock);
  if (first) queue->driver->release(queue, first);
  if (last) queue->driver->release(queue, last);
  braid_timeline_raise(queue->timeline, task->value);
}

/* Ends what is to be ended, in order. */
static void end_tasks(braid_launch_queue *queue) {
  braid_launch_slot *slot;
  bool over;
  pthread_mutex_lock(&queue->slots_lock);
  bool mine = !queue->ending;
  queue->ending = true;
  while (mine && (slot = next_to_end(queue, &over))) {
    pthread_mutex_unlock(&queue->slots_lock);
    end_task(queue, slot, over);
    pthread_mutex_lock(&queue->slots_lock);
  }
  if (mine) queue->ending = false;
  pthread_mutex_unlock(&queue->slots_lock);
}

void braid_launch_queue_completed(braid_launch_queue *queue) {
  end_tasks(queue);
  if (__atomic_load_n(&queue->backlog, __ATOMIC_SEQ_CST) || is_set(&queue->stopping)) braid_launch_queue_wake(queue);
  __atomic_sub_fetch(&queue->pending, 1, __ATOMIC_ACQ_REL); /* the queue's memory may go now */
}

braid_status braid_launch_queue_submit(void *which, braid_task *task) {
  braid_launch_queue *queue = which;
  const braid_point *blocking;
  task->link[0] = NULL;
  pthread_mutex_lock(&queue->lock);
  bool first = !queue->backlog;
  if (first) {
    __atomic_store_n(&queue->backlog, task, __ATOMIC_SEQ_CST);
    (void)issue_tasks(queue, &blocking);
  } else {
    queue->newest->link[0] = task; /* the worker knows of the first, and issues this one too */
  }
  queue->newest = task;
  bool wakes = first && (queue->backlog || is_set(&queue->polls));
  pthread_mutex_unlock(&queue->lock);
  if (wakes)
    braid_launch_queue_wake(queue);
  else if (first)
    end_tasks(queue);
  return BRAID_OK;
}

/* --- the worker ----------------------------------------------------------------------------------------------------
 */
typedef enum oldest_task { kNone, kWaiting, kRunning } oldest_task; /* what the first task in flight does */

/* `closes`: once nothing is in flight, nobody ends tasks any more; callbacks may come when the timeline is gone. */
static oldest_task examine_oldest(braid_launch_queue *queue, bool closes) {
  oldest_task oldest = kWaiting;
  pthread_mutex_lock(&queue->slots_lock);
  uint64_t ended = braid_timeline_value(queue->timeline);
  if (!queue->ending) /* else somebody is at it */
    oldest = queue->issued == ended ? kNone : all_reached(slot_of(queue, ended + 1)->task) ? kRunning : kWaiting;
  if (oldest == kNone && closes) queue->ending = true;
  pthread_mutex_unlock(&queue->slots_lock);
  return oldest;
}

/* Between two polls of a driver that does not call back. `waited_ns`: since a task last ended. */
static int64_t poll_interval_ns(const braid_launch_queue *queue, int64_t waited_ns) {
  int64_t pause = waited_ns / (queue->poll_part ? queue->poll_part : kPollPart);
  return pause < kShortestPoll ? 0 : pause < kLongestPoll ? pause : kLongestPoll;
}

/* Between two checks for hung tasks, which run for longer than `limit`; -1: there can be none. */
static int64_t hang_check_ns(int64_t limit) {
  return !limit ? -1 : limit / 4 < kLongestHangCheck ? limit / 4 + 1 : kLongestHangCheck;
}

/* `seen`: the signals before this round; `point`: what the first task of the list waits for, which only the worker
 * takes from it. Submitters do not cut a pause between polls short: that would cost them more. */
static void worker_sleep(braid_launch_queue *queue, uint32_t seen, int64_t ns, bool polling, const braid_point *point) {
  if (!ns) return;
  __atomic_store_n(&queue->sleeping, !polling, __ATOMIC_SEQ_CST);
  if (point)
    braid_point_sleep(point, queue->backlog->verdict, &queue->signals, seen, ns);
  else
    (void)braid_futex_wait(&queue->signals, seen, ns);
  __atomic_store_n(&queue->sleeping, 0, __ATOMIC_SEQ_CST);
}

static void *worker_main(void *context) {
  braid_launch_queue *queue = context;
  int64_t changed_ns = braid_now_ns(), busy_ns = changed_ns; /* a task's time counts from when its waits are reached */
  uint64_t before = 0;
  (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* short pauses are to be short */
  for (;;) {
    const braid_point *blocking;
    uint32_t seen = __atomic_load_n(&queue->signals, __ATOMIC_SEQ_CST);
    bool stopping = is_set(&queue->stopping); /* then nothing is submitted any more */
    pthread_mutex_lock(&queue->lock);
    size_t issued = issue_tasks(queue, &blocking);
    bool closes = stopping && !queue->backlog;
    pthread_mutex_unlock(&queue->lock);
    if (issued || blocking) braid_launch_queue_flush(queue); /* what blocks may depend on what is before the task */
    end_tasks(queue);
    oldest_task oldest = examine_oldest(queue, closes);
    if (closes && oldest == kNone) return NULL;
    uint64_t ended = braid_timeline_value(queue->timeline);
    int64_t now = braid_now_ns(), limit = queue->deadline_ns || !stopping ? queue->deadline_ns : kStopTimeout;
    bool progressed = ended != before, polling = is_set(&queue->polls) && oldest != kNone;
    before = ended;
    if (progressed || oldest == kNone) changed_ns = now;
    if (progressed || oldest != kRunning) busy_ns = now;
    if (limit && now - busy_ns >= limit)
      queue->driver->mark_lost(queue);
    else if (!issued && !progressed)
      worker_sleep(queue, seen, polling ? poll_interval_ns(queue, now - changed_ns) : hang_check_ns(limit), polling,
                   blocking);
  }
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_launch_queue_start(braid_launch_queue *queue, braid_timeline *timeline) {
  queue->timeline = timeline;
  queue->lock = queue->slots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  braid_timeline_set_native(timeline, queue->context, queue);
  return braid_thread_start(&queue->worker, "braid queue", worker_main, queue);
}

bool braid_launch_queue_drained(const braid_launch_queue *queue) {
  return !__atomic_load_n(&queue->pending, __ATOMIC_ACQUIRE);
}

void braid_launch_queue_stop(braid_launch_queue *queue) {
  braid_launch_queue_flush(queue);
  __atomic_store_n(&queue->stopping, 1, __ATOMIC_SEQ_CST);
  braid_launch_queue_wake(queue);
  braid_thread_join(&queue->worker);
  int64_t give_up = braid_now_ns() + kStopTimeout;
  while (!braid_launch_queue_drained(queue) && !is_set(queue->lost))
    if (braid_now_ns() < give_up)
      (void)sched_yield();
    else
      queue->driver->mark_lost(queue); /* its callbacks are late */
  braid_timeline_set_native(queue->timeline, NULL, NULL);
}
