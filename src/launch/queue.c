#include "launch/queue.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/text.h"

enum { kWaits = 32, kNapPart = 16 };
static const int64_t kSlice = 20000000;        /* ns between looks at what may end a wait before its event */
static const int64_t kLongestTick = 100000000; /* ns between looks at hung tasks */
static const int64_t kPatience = 30000000000;  /* of a queue that is stopped with a task that does not end */

/* How a driver that does not call back is asked (NVIDIA's calls come 5 us late for each of a stream of kernels, and up
 * to ten milliseconds after a copy; measured on an H200): without a pause at first, then the less often the longer it
 * takes. The worker never waits in the driver, which may not come back from a device that hangs. */
static const int64_t kAtOnce = 40000;                           /* ns of asking without a pause */
static const int64_t kShortestNap = 4000, kLongestNap = 250000; /* ns; a nap is a part of the time waited so far */

/* The queue with whose lock held this thread is in the driver, which may call back in the middle of a call. */
static _Thread_local const braid_launch_queue *inside_driver;

static bool is_cancelled(const braid_task *task) {
  return task->cancel && __atomic_load_n(task->cancel, __ATOMIC_ACQUIRE);
}

static bool is_stopping(const braid_launch_queue *queue) {
  return __atomic_load_n(&queue->stopping, __ATOMIC_SEQ_CST);
}

static braid_task *first_waiting(const braid_launch_queue *queue) {
  return __atomic_load_n(&queue->backlog, __ATOMIC_SEQ_CST);
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

/* --- waits ---------------------------------------------------------------------------------------------------------
 */
typedef struct wait_list {
  void *events[kWaits]; /* the driver's, retained */
  size_t count;
  braid_event *blocking; /* one that only the host can wait for; NULL: none */
} wait_list;

static void release_waits(braid_launch_queue *queue, wait_list *list) {
  while (list->count > 0) queue->driver->release(queue, list->events[--list->count]);
}

/* The driver's event of a task of this context that is not done; *own: of this very queue, whose order is enough. */
static bool find_native(braid_launch_queue *queue, const braid_event *event, void **native, bool *own) {
  braid_launch_slot *slot = braid_event_get_native(event, queue->context);
  *native = NULL;
  if (!slot) return false;
  *own = slot->queue == queue;
  pthread_mutex_lock(&slot->queue->look);
  if (slot->owner == event) *native = slot->last;
  if (*native && !*own) queue->driver->retain(queue, *native);
  pthread_mutex_unlock(&slot->queue->look);
  return *native != NULL;
}

/* Lists what the driver has to wait for, as far as the first event that it does not know. Fails as a wait has failed.
 */
static braid_status collect_waits(braid_launch_queue *queue, const braid_task *task, wait_list *list) {
  list->count = 0;
  list->blocking = NULL;
  for (size_t i = 0; i < task->wait_count && !list->blocking; i++) {
    braid_event *event = task->waits[i];
    void *native;
    bool own;
    if (braid_event_done(event)) {
      braid_status status = braid_event_wait(event, 0);
      if (status != BRAID_OK) return status;
    } else if (list->count == kWaits || must_be_alone(queue, task) || !find_native(queue, event, &native, &own)) {
      list->blocking = event;
    } else if (!own) {
      list->events[list->count++] = native;
    }
  }
  return BRAID_OK;
}

/* --- issuing -------------------------------------------------------------------------------------------------------
 */
static bool has_room(braid_launch_queue *queue, const braid_task *task) {
  if (braid_launch_queue_is_idle(queue)) return true;
  if (must_be_alone(queue, task)) return false;
  if (queue->driver->follows && !queue->driver->follows(queue, task)) return false;
  return queue->issued - __atomic_load_n(&queue->ended, __ATOMIC_SEQ_CST) < BRAID_LAUNCH_WINDOW;
}

/* Publishes the next slot, with the lock held: the task is issued, and without `last` finished. */
static void publish_slot(braid_launch_queue *queue, braid_launch_slot *slot, void *last) {
  pthread_mutex_lock(&queue->look);
  slot->owner = slot->task->done;
  slot->last = last;
  slot->finished = !last;
  pthread_mutex_unlock(&queue->look);
  if (last && !queue->polls) __atomic_add_fetch(&queue->users, 1, __ATOMIC_ACQ_REL); /* its callback */
  __atomic_store_n(&queue->issued, queue->issued + 1, __ATOMIC_SEQ_CST);
}

/* Issues the task, with the lock held: handed to the driver, then *last is its event, or refused and finished. False:
 * it has to wait first, for *blocking or, if that is NULL, for room. */
static bool issue_task(braid_launch_queue *queue, braid_task *task, void **last, braid_event **blocking) {
  braid_launch_slot *slot = &queue->slots[queue->issued % BRAID_LAUNCH_WINDOW];
  wait_list waits = {.count = 0};
  braid_status status;
  *last = NULL;
  *blocking = NULL;
  if (!has_room(queue, task)) return false;
  if (queue->driver->is_lost(queue))
    status = braid_fail(BRAID_DEVICE_LOST, "%s is lost", queue->device);
  else if (is_cancelled(task))
    status = BRAID_CANCELLED; /* which says all there is to say */
  else
    status = collect_waits(queue, task, &waits);
  if (status == BRAID_OK) *blocking = waits.blocking;
  if (status == BRAID_OK && !*blocking) {
    slot->before_ns = braid_now_ns();
    inside_driver = queue;
    status = queue->driver->enqueue(queue, task, waits.events, waits.count, &slot->first, last);
    inside_driver = NULL;
    slot->after_ns = braid_now_ns();
    __atomic_store_n(&queue->unflushed, 1, __ATOMIC_SEQ_CST);
  }
  if (status != BRAID_OK) {
    if (status != BRAID_CANCELLED) slot->detail = braid_strdup(NULL, braid_error_detail());
    if (task->cancel) __atomic_store_n(task->cancel, 1, __ATOMIC_RELEASE);
  }
  release_waits(queue, &waits);
  if (*blocking) return false;
  slot->task = task;
  slot->status = status;
  publish_slot(queue, slot, *last);
  return true;
}

static void end_tasks(braid_launch_queue *queue);

/* What is left to do once the lock is given back. `last`: the command's event; without it the slot may be another
 * task's by now. */
static void follow_task(braid_launch_queue *queue, braid_launch_slot *slot, void *last) {
  if (queue->polls) {
    braid_launch_queue_wake(queue);
  } else {
    if (last) queue->driver->watch(slot, last);
    end_tasks(queue);
  }
}

void braid_launch_queue_submit(braid_launch_queue *queue, braid_task *task) {
  void *last;
  braid_event *blocking;
  __atomic_add_fetch(&queue->users, 1, __ATOMIC_ACQ_REL);
  pthread_mutex_lock(&queue->lock);
  braid_launch_slot *slot = &queue->slots[queue->submitted++ % BRAID_LAUNCH_WINDOW];
  braid_event_set_native(task->done, queue->context, slot);
  task->link[0] = NULL;
  bool issued = !queue->backlog && issue_task(queue, task, &last, &blocking);
  if (!issued) {
    if (queue->backlog)
      queue->newest->link[0] = task;
    else
      __atomic_store_n(&queue->backlog, task, __ATOMIC_SEQ_CST);
    queue->newest = task;
  }
  pthread_mutex_unlock(&queue->lock);
  if (issued)
    follow_task(queue, slot, last);
  else
    braid_launch_queue_wake(queue);
  __atomic_sub_fetch(&queue->users, 1, __ATOMIC_ACQ_REL);
}

/* --- ending --------------------------------------------------------------------------------------------------------
 */
static braid_status failure_of_waits(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++) {
    if (!braid_event_done(task->waits[i])) continue;
    braid_status status = braid_event_wait(task->waits[i], 0);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status find_outcome(braid_launch_queue *queue, const braid_launch_slot *slot, bool given_up,
                                 braid_timing *timing) {
  if (slot->status != BRAID_OK && slot->detail) return braid_fail(slot->status, "%s", slot->detail);
  braid_clear_detail();
  if (slot->status != BRAID_OK) return slot->status;
  if (given_up) return braid_fail(BRAID_DEVICE_LOST, "%s does not answer", queue->device);
  braid_status status = failure_of_waits(slot->task);
  return status == BRAID_OK && slot->last ? queue->driver->outcome(queue, slot, timing) : status;
}

/* Empties the slot. A command that is still with the driver is left to its callback, should it ever come. */
static void clear_slot(braid_launch_queue *queue, braid_launch_slot *slot) {
  pthread_mutex_lock(&queue->look);
  void *first = slot->first, *last = slot->last;
  bool orphan = !slot->finished;
  slot->owner = NULL;
  slot->first = slot->last = NULL;
  if (orphan) __atomic_add_fetch(queue->orphans, 1, __ATOMIC_ACQ_REL);
  pthread_mutex_unlock(&queue->look);
  braid_free(NULL, slot->detail);
  slot->detail = NULL;
  if (first) queue->driver->release(queue, first);
  if (orphan && queue->polls)
    queue->driver->watch(slot, last);
  else if (orphan)
    __atomic_sub_fetch(&queue->users, 1, __ATOMIC_ACQ_REL); /* its callback counts as an orphan now */
  else if (last)
    queue->driver->release(queue, last);
}

/* Ends the first task in flight. `given_up`: without waiting for the driver. */
static void end_task(braid_launch_queue *queue, braid_launch_slot *slot, bool given_up) {
  braid_task *task = slot->task;
  braid_timing timing = {.energy_uj = -1};
  braid_status status = find_outcome(queue, slot, given_up, &timing);
  if (status != BRAID_OK && task->cancel) __atomic_store_n(task->cancel, 1, __ATOMIC_RELEASE);
  clear_slot(queue, slot);
  __atomic_store_n(&queue->ended, queue->ended + 1, __ATOMIC_SEQ_CST);
  braid_event_complete(task->done, status, &timing);
  if (first_waiting(queue) || is_stopping(queue)) braid_launch_queue_wake(queue);
}

static braid_launch_slot *first_in_flight(braid_launch_queue *queue) {
  return braid_launch_queue_is_idle(queue) ? NULL : &queue->slots[queue->ended % BRAID_LAUNCH_WINDOW];
}

static bool is_finished(braid_launch_queue *queue, braid_launch_slot *slot) {
  pthread_mutex_lock(&queue->look);
  if (!slot->finished && queue->polls) slot->finished = queue->driver->ask(queue, slot->last, &slot->code);
  bool finished = slot->finished;
  pthread_mutex_unlock(&queue->look);
  return finished;
}

/* How long a task may run; 0: as long as it likes. */
static int64_t limit_ns(const braid_launch_queue *queue) {
  return queue->deadline_ns || !is_stopping(queue) ? queue->deadline_ns : kPatience;
}

static bool waits_are_done(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++)
    if (!braid_event_done(task->waits[i])) return false;
  return true;
}

/* A task's time counts from when it is first and what it waits for is done. */
static bool is_hung(braid_launch_queue *queue, const braid_launch_slot *slot) {
  int64_t limit = limit_ns(queue), now = braid_now_ns();
  if (!limit) return false;
  if (queue->watched != queue->ended + 1 || !waits_are_done(slot->task)) {
    queue->watched = queue->ended + 1;
    queue->watched_ns = now;
  }
  return now - queue->watched_ns >= limit;
}

/* Ends the tasks in flight that have finished, in order; all of them if the device is lost or the first has been
 * running for longer than it may. Any thread that does not hold the queue's lock; one at a time does the work for all.
 */
static void end_tasks(braid_launch_queue *queue) {
  if (__atomic_fetch_add(&queue->enders, 1, __ATOMIC_ACQ_REL)) return;
  uint32_t asked;
  do {
    braid_launch_slot *slot;
    asked = __atomic_load_n(&queue->enders, __ATOMIC_ACQUIRE);
    while ((slot = first_in_flight(queue)) && is_finished(queue, slot)) end_task(queue, slot, false);
    if (slot && is_hung(queue, slot)) queue->driver->lose(queue);
    while (queue->driver->is_lost(queue) && (slot = first_in_flight(queue)))
      end_task(queue, slot, !is_finished(queue, slot));
  } while (!__atomic_compare_exchange_n(&queue->enders, &asked, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

void braid_launch_queue_finished(braid_launch_slot *slot, void *event, int32_t code) {
  braid_launch_queue *queue = slot->queue;
  pthread_mutex_lock(&queue->look);
  bool orphan = slot->last != event;
  if (!orphan) slot->code = code, slot->finished = true;
  pthread_mutex_unlock(&queue->look);
  if (orphan) {
    queue->driver->release(queue, event);
    __atomic_sub_fetch(queue->orphans, 1, __ATOMIC_ACQ_REL); /* the queue's memory may go now */
    return;
  }
  if (!inside_driver)
    end_tasks(queue);
  else if (inside_driver != queue) /* whose own submitter ends it else */
    braid_launch_queue_wake(queue);
  __atomic_sub_fetch(&queue->users, 1, __ATOMIC_ACQ_REL);
}

/* --- the worker ----------------------------------------------------------------------------------------------------
 */
/* Issues the first task of the list, if there is one and it need not wait; see issue_task. */
static bool issue_waiting(braid_launch_queue *queue, braid_event **blocking) {
  void *last;
  *blocking = NULL;
  if (!first_waiting(queue)) return false;
  pthread_mutex_lock(&queue->lock);
  braid_task *task = queue->backlog, *next = task->link[0]; /* once issued, the task may be gone at any time */
  braid_launch_slot *slot = &queue->slots[queue->issued % BRAID_LAUNCH_WINDOW];
  bool issued = issue_task(queue, task, &last, blocking);
  if (issued) __atomic_store_n(&queue->backlog, next, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&queue->lock);
  if (!issued) return false;
  follow_task(queue, slot, last);
  braid_launch_queue_flush(queue);
  return true;
}

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
static void worker_rest(braid_launch_queue *queue, uint32_t seen, int64_t waited_ns, braid_event *blocking) {
  bool polling = queue->polls && !braid_launch_queue_is_idle(queue);
  int64_t ns = polling ? nap_ns(waited_ns) : tick_ns(queue);
  if (blocking) {
    braid_launch_queue_flush(queue); /* it may depend on what is before the task */
    (void)braid_event_wait(blocking, ns >= 0 && ns < kSlice ? ns : kSlice);
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
  uint64_t ended = 0;
  (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* short naps are to be short */
  for (;;) {
    uint32_t seen = __atomic_load_n(&queue->signals, __ATOMIC_SEQ_CST);
    braid_event *blocking;
    bool stopping = is_stopping(queue), issued = issue_waiting(queue, &blocking);
    end_tasks(queue);
    bool idle = braid_launch_queue_is_idle(queue);
    if (stopping && idle && !first_waiting(queue)) return NULL;
    uint64_t now_at = __atomic_load_n(&queue->ended, __ATOMIC_SEQ_CST);
    int64_t now = braid_now_ns();
    if (issued || idle || now_at != ended) since = now;
    ended = now_at;
    if (!issued) worker_rest(queue, seen, now - since, blocking);
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

braid_status braid_launch_queue_start(braid_launch_queue *queue) {
  queue->stopping = 0;
  return braid_thread_start(&queue->worker, "braid queue", worker_main, queue);
}

void braid_launch_queue_stop(braid_launch_queue *queue) {
  braid_launch_queue_flush(queue);
  __atomic_store_n(&queue->stopping, 1, __ATOMIC_SEQ_CST);
  braid_launch_queue_wake(queue);
  braid_thread_join(&queue->worker);
  while (__atomic_load_n(&queue->users, __ATOMIC_ACQUIRE)) sched_yield(); /* they are on their last instructions */
}
