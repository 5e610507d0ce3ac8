/* The way of a task: submit enqueues it at once if what it waits for is done or known to the driver (an event of a task
 * of the same context, which goes into the wait list). Otherwise, and while there are others before it, it joins the
 * backlog, from which the feeder, a thread that sleeps when there is none, takes it once the host's events are done. So
 * submit never blocks, user events of the driver are not needed (a failed one spoils the whole queue on some drivers),
 * and cancelled tasks never reach the driver. The window bounds what is in the driver's hands.
 *
 * Nothing is allocated once a queue has as many slots as tasks were ever in it. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/opencl/kernel.h"
#include "backend/opencl/memory.h"
#include "backend/opencl/queue_own.h"
#include "base/clock.h"

enum { kWaits = 32, kSlotsAtOnce = 16 };
static const int64_t kSlice = 20000000;    /* ns between looks at what may end a wait before its event */
static const int64_t kLongest = 100000000; /* ns between looks at hung tasks */

/* --- slots ---------------------------------------------------------------------------------------------------------
 */
static braid_cl_slot *take_slot(braid_cl_queue *queue) {
  if (!queue->spare) queue->spare = __atomic_exchange_n(&queue->freed, NULL, __ATOMIC_ACQUIRE);
  if (!queue->spare) queue->spare = braid_cl_slots_take(queue->device->shared, kSlotsAtOnce);
  braid_cl_slot *slot = queue->spare;
  if (slot) queue->spare = slot->next;
  return slot;
}

static void occupy(braid_cl_queue *queue, braid_cl_slot *slot, braid_task *task) {
  pthread_mutex_lock(&slot->lock);
  slot->owner = task->done;
  slot->first = slot->last = NULL;
  slot->finished = slot->orphan = false;
  slot->result = CL_COMPLETE;
  slot->queue = queue;
  pthread_mutex_unlock(&slot->lock);
  slot->task = task;
  slot->status = BRAID_OK;
  slot->failed_wait = NULL;
  slot->detail[0] = '\0';
  slot->next = NULL;
  braid_event_set_native(task->done, queue->device->shared, slot);
}

/* A command cannot be taken back from the driver: should what is before it hang and be given up, it would still run one
 * day. Where that may happen, tasks that write memory which is not ours go to the driver only when nothing is left that
 * could hang before them. */
static bool must_be_alone(const braid_cl_queue *queue, const braid_task *task) {
  if (!queue->device->deadline_ns) return false;
  return task->kind == BRAID_TASK_READ || queue->device->info.memory == BRAID_MEMORY_UNIFIED;
}

/* --- waits ---------------------------------------------------------------------------------------------------------
 */
typedef struct wait_list {
  cl_event events[kWaits];
  cl_uint count;
} wait_list;

static void release_waits(const braid_cl_queue *queue, wait_list *list) {
  while (list->count > 0) queue->cl->ReleaseEvent(list->events[--list->count]);
}

/* The driver's event of a task of this context that is not done; *own: of this very queue, whose order is enough. */
static bool find_native(const braid_cl_queue *queue, const braid_event *event, cl_event *native, bool *own) {
  braid_cl_slot *slot = braid_event_get_native(event, queue->device->shared);
  *native = NULL;
  *own = false;
  if (!slot) return false;
  pthread_mutex_lock(&slot->lock);
  if (slot->owner == event && slot->last) {
    *own = slot->queue == queue;
    *native = slot->last;
    if (!*own) queue->cl->RetainEvent(*native);
  }
  pthread_mutex_unlock(&slot->lock);
  return *native != NULL;
}

/* Sorts the task's waits: those failed into the slot, those that the driver knows into the list. False if one is left
 * for the host to wait for. */
static bool collect_waits(const braid_cl_queue *queue, braid_cl_slot *slot, wait_list *list) {
  const braid_task *task = slot->task;
  list->count = 0;
  for (size_t i = 0; i < task->wait_count; i++) {
    braid_event *event = task->waits[i];
    cl_event native;
    bool own;
    if (braid_event_done(event)) {
      slot->status = braid_event_wait(event, 0);
      if (slot->status == BRAID_OK) continue;
      slot->failed_wait = event;
      return true;
    }
    if (list->count == kWaits || must_be_alone(queue, task) || !find_native(queue, event, &native, &own)) return false;
    if (!own) list->events[list->count++] = native;
  }
  return true;
}

/* --- enqueueing ----------------------------------------------------------------------------------------------------
 */
static cl_int enqueue_copy(const braid_cl_queue *queue, const braid_task *task, const braid_cl_place *from,
                           const braid_cl_place *to, const wait_list *waits, cl_event *done) {
  const braid_cl_api *cl = queue->cl;
  const cl_event *events = waits->count ? waits->events : NULL;
  if (task->kind == BRAID_TASK_WRITE)
    return cl->EnqueueWriteBuffer(queue->queue, to->memory, CL_FALSE, to->offset, to->bytes, task->host, waits->count,
                                  events, done);
  if (task->kind == BRAID_TASK_READ)
    return cl->EnqueueReadBuffer(queue->queue, from->memory, CL_FALSE, from->offset, from->bytes, task->host,
                                 waits->count, events, done);
  if (from->memory == to->memory && from->offset == to->offset)
    return cl->EnqueueMarkerWithWaitList(queue->queue, waits->count, events, done);
  return cl->EnqueueCopyBuffer(queue->queue, from->memory, to->memory, from->offset, to->offset, from->bytes,
                               waits->count, events, done);
}

static braid_status enqueue_transfer(const braid_cl_queue *queue, const braid_task *task, const wait_list *waits,
                                     cl_event *done) {
  bool reads = task->kind != BRAID_TASK_WRITE, writes = task->kind != BRAID_TASK_READ;
  const braid_cl_device *device = queue->device;
  braid_cl_place from = {0}, to = {0};
  const braid_cl_device *source = task->kind == BRAID_TASK_COPY && task->source_device ? task->source_device : device;
  size_t bytes = reads ? task->source.bytes : task->target.bytes;
  if (!bytes) return BRAID_OK;
  if (source->shared != device->shared)
    return braid_fail(BRAID_UNSUPPORTED, "a copy from %s, which shares no memory with %s", source->info.name,
                      device->info.name);
  braid_status status = reads ? braid_cl_locate(source, &task->source, &from) : BRAID_OK;
  if (status == BRAID_OK && writes) status = braid_cl_locate(device, &task->target, &to);
  if (status == BRAID_OK && reads && writes && to.bytes < from.bytes)
    status = braid_fail(BRAID_OUT_OF_RANGE, "a copy of %zu bytes into %zu", from.bytes, to.bytes);
  if (status == BRAID_OK) {
    cl_int code = enqueue_copy(queue, task, &from, &to, waits, done);
    if (code != CL_SUCCESS) status = braid_cl_fail(code, "enqueueing a transfer");
  }
  if (from.owned) queue->cl->ReleaseMemObject(from.memory);
  if (to.owned) queue->cl->ReleaseMemObject(to.memory);
  return status;
}

static void enqueue(braid_cl_queue *queue, braid_cl_slot *slot, const wait_list *waits) {
  const braid_cl_api *cl = queue->cl;
  const braid_task *task = slot->task;
  cl_event first = NULL, last = NULL;
  slot->before_ns = braid_now_ns();
  braid_status status =
      task->kind == BRAID_TASK_KERNEL
          ? braid_cl_launch_all(queue->device, task, queue->queue, waits->events, waits->count, &first, &last)
          : enqueue_transfer(queue, task, waits, &last);
  slot->after_ns = braid_now_ns();
  if (status != BRAID_OK) {
    slot->status = status;
    snprintf(slot->detail, sizeof slot->detail, "%s", braid_error_detail());
  }
  /* A task without commands keeps its place in the order, and one that failed half way ends after what it began. */
  if (!last && (status == BRAID_OK || first || task->untimed)) {
    cl_int code = cl->EnqueueMarkerWithWaitList(queue->queue, waits->count, waits->count ? waits->events : NULL, &last);
    if (code != CL_SUCCESS && status == BRAID_OK) {
      slot->status = braid_cl_status(code);
      snprintf(slot->detail, sizeof slot->detail, "enqueueing a marker fails");
    }
  }
  pthread_mutex_lock(&slot->lock);
  slot->first = first;
  slot->last = last;
  pthread_mutex_unlock(&slot->lock);
}

/* Drivers of cards take several microseconds to measure a kernel's time (NVIDIA's 7), and measure on all of a queue or
 * on nothing: so there are two, used in turn. */
static cl_command_queue suited(braid_cl_queue *queue, const braid_task *task) {
  if (!task->untimed || !queue->polls) return queue->measuring;
  cl_int code;
  if (!queue->quick)
    queue->quick = queue->cl->CreateCommandQueue(queue->device->shared->context, queue->device->id, 0, &code);
  if (!queue->quick) queue->quick = queue->measuring; /* not asked for again */
  return queue->quick;
}

static void BRAID_PRINTF(3, 4) refuse(braid_cl_slot *slot, braid_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  slot->status = status;
  vsnprintf(slot->detail, sizeof slot->detail, format, arguments);
  va_end(arguments);
}

/* Puts the task in line, with the lock held: enqueued, then *last is its event, or refused and finished. False: it has
 * to wait first. */
static bool issue(braid_cl_queue *queue, braid_cl_slot *slot, cl_event *last) {
  wait_list waits = {.count = 0};
  if (braid_cl_device_is_lost(queue->device)) {
    refuse(slot, BRAID_DEVICE_LOST, "%s is lost", queue->device->info.name);
  } else if (braid_cl_is_cancelled(slot->task)) {
    refuse(slot, BRAID_CANCELLED, "an earlier task failed");
  } else if (!collect_waits(queue, slot, &waits)) {
    release_waits(queue, &waits);
    return false;
  } else if (slot->status == BRAID_OK) {
    __atomic_store_n(&queue->queue, suited(queue, slot->task), __ATOMIC_RELEASE);
    braid_cl_inside = queue;
    enqueue(queue, slot, &waits);
    braid_cl_inside = NULL;
  }
  release_waits(queue, &waits);
  if (slot->status != BRAID_OK && slot->task->cancel) __atomic_store_n(slot->task->cancel, 1, __ATOMIC_RELEASE);
  pthread_mutex_lock(&slot->lock);
  *last = slot->last;
  slot->finished = !*last;
  pthread_mutex_unlock(&slot->lock);
  if (*last && !queue->polls) __atomic_add_fetch(&queue->users, 1, __ATOMIC_ACQ_REL); /* its callback */
  queue->order[queue->head % BRAID_CL_WINDOW] = slot;
  __atomic_store_n(&queue->head, queue->head + 1, __ATOMIC_SEQ_CST); /* before the collector is looked at */
  return true;
}

/* What is left to do once the lock is given back. `last`: the command's event; without it the slot may be somebody
 * else's by now. A driver that cannot call back is waited for. */
static void follow(braid_cl_queue *queue, braid_cl_slot *slot, cl_event last) {
  if (queue->polls) {
    braid_cl_collector_wake(queue);
    return;
  }
  if (last && queue->cl->SetEventCallback(last, CL_COMPLETE, braid_cl_on_finished, slot) != CL_SUCCESS)
    braid_cl_on_finished(last, queue->cl->Finish(queue->queue), slot);
  braid_cl_end_tasks(queue);
}

static bool has_room(braid_cl_queue *queue, const braid_task *task) {
  if (must_be_alone(queue, task)) return braid_cl_is_idle(queue);
  if (suited(queue, task) != queue->queue && !braid_cl_is_idle(queue)) return false;
  return queue->head - __atomic_load_n(&queue->tail, __ATOMIC_SEQ_CST) < BRAID_CL_WINDOW;
}

braid_status braid_cl_queue_submit(void *self, braid_task *task) {
  braid_cl_queue *queue = self;
  __atomic_add_fetch(&queue->users, 1, __ATOMIC_ACQ_REL);
  cl_event last = NULL;
  bool issued = false;
  pthread_mutex_lock(&queue->lock);
  braid_cl_slot *slot = take_slot(queue);
  if (slot) {
    occupy(queue, slot, task);
    issued = !queue->backlog && has_room(queue, task) && issue(queue, slot, &last);
    if (!issued) {
      *queue->backlog_end = slot;
      queue->backlog_end = &slot->next;
      pthread_cond_signal(&queue->wake);
    }
  }
  pthread_mutex_unlock(&queue->lock);
  if (issued) follow(queue, slot, last);
  __atomic_sub_fetch(&queue->users, 1, __ATOMIC_ACQ_REL);
  return slot ? BRAID_OK : BRAID_NO_MEMORY;
}

void braid_cl_queue_flush(void *self) {
  braid_cl_queue *queue = self;
  if (!braid_cl_device_is_lost(queue->device)) (void)queue->cl->Flush(__atomic_load_n(&queue->queue, __ATOMIC_ACQUIRE));
}

/* --- the feeder ----------------------------------------------------------------------------------------------------
 */
/* How often to look for hung tasks; -1: never. */
static int64_t tick_ns(const braid_cl_queue *queue) {
  int64_t limit = braid_cl_limit_ns(queue), tick = limit / 4 + 1;
  if (!limit) return -1;
  return tick < kLongest ? tick : kLongest;
}

/* Sleeps, with the lock held, until something may have changed. */
static void doze(braid_cl_queue *queue) {
  int64_t tick = tick_ns(queue);
  if (tick < 0) {
    pthread_cond_wait(&queue->wake, &queue->lock);
  } else {
    int64_t until = braid_now_ns() + tick;
    struct timespec when = {until / 1000000000, until % 1000000000};
    (void)pthread_cond_timedwait(&queue->wake, &queue->lock, &when);
  }
  pthread_mutex_unlock(&queue->lock);
  braid_cl_end_tasks(queue);
  pthread_mutex_lock(&queue->lock);
}

/* Waits for the events that the driver does not know, or until there is another reason to go on. */
static void await(braid_cl_queue *queue, const braid_task *task) {
  bool flushed = false;
  for (size_t i = 0; i < task->wait_count; i++) {
    braid_event *event = task->waits[i];
    while (!braid_event_done(event) && !braid_cl_is_cancelled(task) && !braid_cl_device_is_lost(queue->device)) {
      cl_event native;
      bool own;
      if (i < kWaits && !must_be_alone(queue, task) && find_native(queue, event, &native, &own)) {
        if (!own) queue->cl->ReleaseEvent(native);
        break;
      }
      if (!flushed) braid_cl_queue_flush(queue); /* the event may depend on what is before the task */
      flushed = true;
      int64_t tick = tick_ns(queue);
      (void)braid_event_wait(event, tick >= 0 && tick < kSlice ? tick : kSlice);
      if (tick >= 0) braid_cl_end_tasks(queue);
    }
  }
}

/* Takes the first task of the backlog to the driver, with the lock held but for the waits. */
static void feed_one(braid_cl_queue *queue) {
  braid_cl_slot *slot = queue->backlog;
  pthread_mutex_unlock(&queue->lock);
  await(queue, slot->task);
  pthread_mutex_lock(&queue->lock);
  __atomic_store_n(&queue->waiting, 1, __ATOMIC_SEQ_CST);
  while (!has_room(queue, slot->task)) doze(queue);
  __atomic_store_n(&queue->waiting, 0, __ATOMIC_SEQ_CST);
  cl_event last;
  braid_cl_slot *next = slot->next; /* once issued, the slot may be somebody else's at any time */
  if (!issue(queue, slot, &last)) return;
  queue->backlog = next;
  if (!queue->backlog) queue->backlog_end = &queue->backlog;
  pthread_mutex_unlock(&queue->lock);
  follow(queue, slot, last);
  braid_cl_queue_flush(queue);
  pthread_mutex_lock(&queue->lock);
}

static void *feed(void *context) {
  braid_cl_queue *queue = context;
  pthread_mutex_lock(&queue->lock);
  for (;;) {
    bool stopping = __atomic_load_n(&queue->stopping, __ATOMIC_ACQUIRE);
    if (stopping) __atomic_store_n(&queue->waiting, 1, __ATOMIC_SEQ_CST);
    if (queue->backlog)
      feed_one(queue);
    else if (stopping && braid_cl_is_idle(queue))
      break;
    else
      doze(queue);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

/* --- queues --------------------------------------------------------------------------------------------------------
 */
static braid_status init_locks(braid_cl_queue *queue) {
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes)) return BRAID_NO_MEMORY;
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  int error = pthread_cond_init(&queue->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  if (error) return BRAID_NO_MEMORY;
  pthread_mutex_init(&queue->lock, NULL);
  return BRAID_OK;
}

static void free_queue(braid_cl_queue *queue) {
  braid_cl_context *shared = queue->device->shared;
  braid_cl_slots_give(shared, queue->spare);
  braid_cl_slots_give(shared, queue->freed);
  pthread_mutex_destroy(&queue->lock);
  pthread_cond_destroy(&queue->wake);
  braid_free(queue->allocator, queue);
}

static void stop_threads(braid_cl_queue *queue, bool collects) {
  pthread_mutex_lock(&queue->lock);
  __atomic_store_n(&queue->stopping, 1, __ATOMIC_RELEASE);
  pthread_cond_signal(&queue->wake);
  pthread_mutex_unlock(&queue->lock);
  braid_thread_join(&queue->feeder);
  braid_cl_collector_wake(queue);
  if (collects) braid_thread_join(&queue->collector);
}

static braid_status start_threads(braid_cl_queue *queue) {
  braid_status status = braid_thread_start(&queue->feeder, "braid opencl", feed, queue);
  if (status != BRAID_OK || !queue->polls) return status;
  status = braid_thread_start(&queue->collector, "braid collect", braid_cl_collect, queue);
  if (status != BRAID_OK) stop_threads(queue, false);
  return status;
}

braid_status braid_cl_queue_create(void *self, void **out) {
  braid_cl_device *device = self;
  *out = NULL;
  if (braid_cl_device_is_lost(device)) return braid_fail(BRAID_DEVICE_LOST, "%s is lost", device->info.name);
  braid_cl_queue *queue = braid_zalloc(device->allocator, sizeof *queue);
  if (!queue) return BRAID_NO_MEMORY;
  *queue = (braid_cl_queue){.device = device, .cl = device->cl, .allocator = device->allocator};
  queue->backlog_end = &queue->backlog;
  queue->polls = !device->traits.cpu;
  braid_status status = init_locks(queue);
  if (status != BRAID_OK) {
    braid_free(device->allocator, queue);
    return status;
  }
  cl_int code;
  queue->queue = queue->measuring =
      device->cl->CreateCommandQueue(device->shared->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
  status = queue->queue ? start_threads(queue) : braid_cl_fail(code, "a queue");
  if (status != BRAID_OK) {
    if (queue->queue) device->cl->ReleaseCommandQueue(queue->queue);
    free_queue(queue);
    return status;
  }
  pthread_mutex_lock(&device->lock);
  queue->next = device->queues;
  device->queues = queue;
  pthread_mutex_unlock(&device->lock);
  *out = queue;
  return BRAID_OK;
}

void braid_cl_queue_destroy(void *self, void *which) {
  braid_cl_device *device = self;
  braid_cl_queue *queue = which;
  braid_cl_queue_flush(queue);
  stop_threads(queue, queue->polls);
  while (__atomic_load_n(&queue->users, __ATOMIC_ACQUIRE)) sched_yield(); /* they are on their last instructions */
  pthread_mutex_lock(&device->lock);
  braid_cl_queue **link = &device->queues;
  while (*link != queue) link = &(*link)->next;
  *link = queue->next;
  pthread_mutex_unlock(&device->lock);
  if (!queue->left_in || !braid_cl_slot_keep_queue(queue->left_in, queue->queue))
    device->cl->ReleaseCommandQueue(queue->queue);
  cl_command_queue other = queue->queue == queue->measuring ? queue->quick : queue->measuring;
  if (other && other != queue->queue) device->cl->ReleaseCommandQueue(other);
  free_queue(queue);
}
