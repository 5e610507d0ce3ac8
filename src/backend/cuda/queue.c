#include "backend/cuda/queue.h"

#include "backend/cuda/kernel.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/nccl.h"
#include "backend/cuda/record.h"
#include "backend/cuda/transfer.h"
#include "base/clock.h"
#include "base/try.h"

enum { kPollPart = 64 }; /* so that at most a part in 64 is added to what a run takes */

static braid_cuda_queue *cuda_queue_of(braid_launch_queue *queue) {
  return (braid_cuda_queue *)queue;
}

/* --- events --------------------------------------------------------------------------------------------------------
 */
static braid_status make_event(braid_cuda_queue *queue, bool timed, braid_cuda_event **out) {
  braid_cuda_event *event = braid_zalloc(NULL, sizeof *event);
  if (!event) return BRAID_NO_MEMORY;
  *event = (braid_cuda_event){.timed = timed, .queue = queue};
  braid_cuda_result code =
      queue->device->cuda->event_create(&event->handle, timed ? BRAID_CUDA_EVENT_TIMED : BRAID_CUDA_EVENT_UNTIMED);
  if (!code) {
    *out = event;
    return BRAID_OK;
  }
  braid_free(NULL, event);
  return braid_cuda_fail(code, "an event");
}

/* As many as were ever needed at once are made, and kept. */
braid_status braid_cuda_event_take(braid_cuda_queue *queue, bool timed, braid_cuda_event **out) {
  pthread_mutex_lock(&queue->lock);
  braid_cuda_event *event = queue->events[timed];
  if (event) queue->events[timed] = event->next;
  pthread_mutex_unlock(&queue->lock);
  if (!event) BRAID_TRY(make_event(queue, timed, &event));
  __atomic_store_n(&event->holders, 1, __ATOMIC_RELEASE);
  *out = event;
  return BRAID_OK;
}

static void queue_retain(braid_launch_queue *queue, void *event) {
  (void)queue;
  __atomic_add_fetch(&((braid_cuda_event *)event)->holders, 1, __ATOMIC_ACQ_REL);
}

/* The event may be another queue's. */
static void queue_release(braid_launch_queue *queue, void *which) {
  braid_cuda_event *event = which;
  (void)queue;
  if (__atomic_sub_fetch(&event->holders, 1, __ATOMIC_ACQ_REL)) return;
  pthread_mutex_lock(&event->queue->lock);
  event->next = event->queue->events[event->timed];
  event->queue->events[event->timed] = event;
  pthread_mutex_unlock(&event->queue->lock);
}

/* --- enqueueing ----------------------------------------------------------------------------------------------------
 */
braid_status braid_cuda_make_words(const braid_cuda_device *device, size_t count, uint32_t **words,
                                   braid_cuda_address *address) {
  void *host = NULL;
  BRAID_CUDA_TRY(
      device->cuda->host_allocate(&host, count * sizeof **words, BRAID_CUDA_HOST_PORTABLE | BRAID_CUDA_HOST_MAPPED),
      "pinned memory");
  *words = host;
  for (size_t i = 0; i < count; i++) (*words)[i] = 0;
  BRAID_CUDA_TRY(device->cuda->host_address(address, host, 0), "the address of pinned memory");
  return BRAID_OK;
}

static braid_status begin_copy(const braid_task *task, braid_cuda_overlap *overlap) {
  braid_cuda_touch touches[2];
  for (int i = 0; i < 2; i++) {
    const braid_binding *binding = i ? &task->target : &task->source;
    BRAID_TRY(braid_cuda_locate(binding, &touches[i].first));
    touches[i].end = touches[i].first + task->source.bytes;
    touches[i].writes = i;
  }
  return braid_cuda_overlap_begin(overlap, touches, 2, false);
}

braid_status braid_cuda_enqueue_task(braid_cuda_queue *queue, const braid_task *task, braid_cuda_stream stream,
                                     braid_cuda_address fault, braid_cuda_overlap *overlap) {
  if (task->kind == BRAID_TASK_KERNEL) return braid_cuda_launch_all(queue->device, task, stream, fault, overlap);
  if (overlap) BRAID_TRY(begin_copy(task, overlap));
  BRAID_TRY(braid_cuda_transfer(queue, task, stream));
  return overlap ? braid_cuda_overlap_end(overlap) : BRAID_OK;
}

static size_t place_of(const braid_task *task) {
  return task->value % BRAID_LAUNCH_WINDOW;
}

static braid_status take_events(braid_cuda_queue *queue, bool timed, braid_launch_slot *slot) {
  braid_cuda_event *first = NULL, *last = NULL;
  braid_status status = timed ? braid_cuda_event_take(queue, true, &first) : BRAID_OK;
  if (status == BRAID_OK) status = braid_cuda_event_take(queue, timed, &last);
  slot->first = first;
  slot->last = last;
  return status;
}

static braid_status record_event(const braid_cuda_queue *queue, const braid_cuda_event *event) {
  BRAID_CUDA_TRY(queue->device->cuda->event_record(event->handle, queue->stream), "recording an event");
  return BRAID_OK;
}

/* Of commands whose end cannot be told nothing is known any more. */
static braid_status end_commands(const braid_cuda_queue *queue, const braid_cuda_event *last, braid_status status) {
  return record_event(queue, last) == BRAID_OK ? status : BRAID_DEVICE_LOST;
}

/* The events are there before anything is begun. */
static braid_status enqueue_alone(braid_cuda_queue *queue, braid_launch_slot *slot) {
  const braid_task *task = slot->task;
  size_t place = place_of(task);
  bool timed = task->timing != NULL;
  BRAID_TRY(take_events(queue, timed, slot));
  __atomic_store_n(&queue->faults[place], 0, __ATOMIC_RELAXED);
  braid_status status = timed ? record_event(queue, slot->first) : BRAID_OK;
  if (status == BRAID_OK)
    status =
        braid_cuda_enqueue_task(queue, task, queue->stream, queue->fault_address + place * sizeof *queue->faults, NULL);
  return end_commands(queue, slot->last, status);
}

static void queue_mark_lost(braid_launch_queue *base) {
  braid_cuda_device_lose(cuda_queue_of(base)->device);
}

static braid_status queue_enqueue(braid_launch_queue *base, braid_launch_slot *slot, void *const *waits,
                                  size_t wait_count) {
  braid_cuda_queue *queue = cuda_queue_of(base);
  braid_cuda_event *end;
  braid_status status = BRAID_OK;
  braid_cuda_enter(queue->device);
  for (size_t i = 0; status == BRAID_OK && i < wait_count; i++) {
    braid_cuda_result code = queue->device->cuda->stream_wait(queue->stream, ((braid_cuda_event *)waits[i])->handle, 0);
    if (code) status = braid_cuda_fail(code, "waiting for another queue");
  }
  if (status == BRAID_OK && braid_cuda_replay_task(queue, slot->task, &end))
    slot->last = end;
  else if (status == BRAID_OK)
    status = enqueue_alone(queue, slot);
  braid_cuda_leave(queue->device);
  if (status == BRAID_DEVICE_LOST) queue_mark_lost(base);
  return status;
}

static void queue_flush(braid_launch_queue *queue) {
  (void)queue; /* the driver begins at once */
}

/* --- ends ----------------------------------------------------------------------------------------------------------
 */
/* Callbacks hold up the stream that they are in: it is polled. */
static bool queue_watch(braid_launch_queue *queue, void *event) {
  (void)queue, (void)event;
  return false;
}

static bool queue_poll(braid_launch_queue *base, void *event, int32_t *code) {
  braid_cuda_device *device = cuda_queue_of(base)->device;
  braid_cuda_enter(device);
  *code = device->cuda->event_query(((braid_cuda_event *)event)->handle);
  braid_cuda_leave(device);
  if (*code == BRAID_CUDA_NOT_READY && device->nccl) braid_cuda_nccl_watch(device, cuda_queue_of(base)->stream);
  return *code != BRAID_CUDA_NOT_READY;
}

/* When the commands ran, on the host's clock: they began when those before them had ended, or when they were enqueued.
 */
static void measure_task(braid_cuda_queue *queue, const braid_launch_slot *slot, braid_timing *timing) {
  const braid_cuda_event *first = slot->first, *last = slot->last;
  float milliseconds = 0;
  if (!first || !last->timed) return;
  braid_cuda_enter(queue->device);
  braid_cuda_result code = queue->device->cuda->event_elapsed(&milliseconds, first->handle, last->handle);
  braid_cuda_leave(queue->device);
  if (code) return;
  int64_t now = braid_now_ns(), took = (int64_t)((double)milliseconds * 1e6);
  timing->start_ns = slot->begun_ns > queue->measured_ns ? slot->begun_ns : queue->measured_ns;
  timing->end_ns = timing->start_ns + took < now ? timing->start_ns + took : now;
  queue->measured_ns = timing->end_ns;
}

static braid_status queue_outcome(braid_launch_queue *base, const braid_launch_slot *slot, braid_timing *timing) {
  braid_cuda_queue *queue = cuda_queue_of(base);
  braid_cuda_bounce_end(queue, slot->task, slot->code == 0);
  if (slot->code) {
    braid_status status = braid_cuda_status(slot->code);
    if (status == BRAID_DEVICE_LOST) queue_mark_lost(base);
    return braid_fail(status, "%s: the task ended with %s", queue->device->info.name,
                      braid_cuda_error_name(slot->code));
  }
  if (slot->task->timing) measure_task(queue, slot, timing);
  const uint32_t *fault = braid_cuda_replay_fault(slot->task);
  if (!fault) fault = &queue->faults[place_of(slot->task)];
  if (!braid_cuda_may_fault(slot->task) || !__atomic_load_n(fault, __ATOMIC_ACQUIRE)) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "an index is out of range");
}

static const braid_launch_driver kDriver = {.precedes = braid_cuda_bounce_precedes,
                                            .enqueue = queue_enqueue,
                                            .flush = queue_flush,
                                            .watch = queue_watch,
                                            .poll = queue_poll,
                                            .outcome = queue_outcome,
                                            .retain = queue_retain,
                                            .release = queue_release,
                                            .mark_lost = queue_mark_lost};

/* --- queues --------------------------------------------------------------------------------------------------------
 */
braid_status braid_cuda_queue_submit(void *queue, braid_task *task) {
  task->link[1] = NULL; /* it is of no recording */
  return braid_launch_queue_submit(queue, task);
}

/* What a lost device holds may still be written to, and the driver might wait for it: it stays. */
static void free_queue(braid_cuda_queue *queue) {
  const braid_cuda_api *cuda = queue->device->cuda;
  if (braid_cuda_device_is_lost(queue->device)) return;
  braid_cuda_enter(queue->device);
  if (queue->stream) (void)cuda->stream_destroy(queue->stream);
  if (queue->capture) (void)cuda->stream_destroy(queue->capture);
  if (queue->faults) (void)cuda->host_free(queue->faults);
  if (queue->staging) (void)cuda->host_free(queue->staging);
  braid_cuda_bounce_free(queue);
  for (int timed = 0; timed < 2; timed++)
    while (queue->events[timed]) {
      braid_cuda_event *event = queue->events[timed];
      queue->events[timed] = event->next;
      (void)cuda->event_destroy(event->handle);
      braid_free(NULL, event);
    }
  braid_cuda_leave(queue->device);
  braid_cuda_copies_free(queue);
  pthread_mutex_destroy(&queue->lock);
  braid_free(NULL, queue);
}

static braid_status make_streams(braid_cuda_queue *queue) {
  const braid_cuda_api *cuda = queue->device->cuda;
  BRAID_CUDA_TRY(cuda->stream_create(&queue->stream, BRAID_CUDA_STREAM_NON_BLOCKING), "a stream");
  BRAID_CUDA_TRY(cuda->stream_create(&queue->capture, BRAID_CUDA_STREAM_NON_BLOCKING), "a stream");
  return braid_cuda_make_words(queue->device, BRAID_LAUNCH_WINDOW, &queue->faults, &queue->fault_address);
}

static braid_status init_queue(braid_cuda_queue *queue, braid_cuda_device *device, braid_timeline *timeline) {
  *queue = (braid_cuda_queue){.device = device};
  pthread_mutex_init(&queue->lock, NULL);
  queue->base.driver = &kDriver;
  queue->base.context = device->context;
  queue->base.device = device->info.name;
  queue->base.lost = &device->lost;
  queue->base.polls = 1;
  queue->base.poll_part = kPollPart;
  queue->base.deadline_ns = device->deadline_ns;
  braid_cuda_enter(device);
  braid_status status = make_streams(queue);
  braid_cuda_leave(device);
  if (status == BRAID_OK) status = braid_launch_queue_start(&queue->base, timeline);
  if (status != BRAID_OK) return status;
  pthread_mutex_lock(&device->lock);
  queue->abandoned = braid_cuda_device_is_lost(device);
  queue->next = device->queues;
  device->queues = queue;
  pthread_mutex_unlock(&device->lock);
  return BRAID_OK;
}

braid_status braid_cuda_queue_create(void *self, braid_timeline *timeline, void **out) {
  braid_cuda_device *device = self;
  *out = NULL;
  BRAID_TRY(braid_cuda_device_status(device));
  braid_cuda_queue *queue = braid_zalloc(NULL, sizeof *queue);
  if (!queue) return BRAID_NO_MEMORY;
  braid_status status = init_queue(queue, device, timeline);
  if (status == BRAID_OK)
    *out = queue;
  else
    free_queue(queue);
  return status;
}

void braid_cuda_queue_destroy(void *self, void *which) {
  braid_cuda_device *device = self;
  braid_cuda_queue *queue = which;
  braid_launch_queue_stop(&queue->base);
  pthread_mutex_lock(&device->lock);
  braid_cuda_queue **link = &device->queues;
  while (*link != queue) link = &(*link)->next;
  *link = queue->next;
  pthread_mutex_unlock(&device->lock);
  free_queue(queue);
}
