#include "backend/opencl/queue.h"

#include "backend/opencl/kernel.h"
#include "backend/opencl/memory.h"
#include "base/clock.h"
#include "base/try.h"
#include "launch/queue.h"

struct braid_cl_queue {
  braid_launch_queue base; /* first */
  braid_cl_device *device;
  const braid_cl_api *cl;
  /* Drivers of cards take several microseconds to measure a kernel's time (NVIDIA's 7), and measure on all of a queue
   * or on nothing: so there are two, used in turn. */
  cl_command_queue measuring, quick; /* the same where drivers measure without cost */
  cl_command_queue used;             /* the one of these that commands are in; atomic */
  int64_t measured_ns;               /* the end of the task that was measured last */
  braid_cl_queue *next;              /* of the device */
};

static braid_cl_queue *own_queue(braid_launch_queue *queue) {
  return (braid_cl_queue *)queue;
}

/* --- enqueueing ----------------------------------------------------------------------------------------------------
 */
static cl_int enqueue_copy(const braid_cl_queue *queue, const braid_task *task, const braid_cl_place *from,
                           const braid_cl_place *to, const cl_event *waits, cl_uint count, cl_event *done) {
  const braid_cl_api *cl = queue->cl;
  if (task->kind == BRAID_TASK_WRITE)
    return cl->EnqueueWriteBuffer(queue->used, to->memory, CL_FALSE, to->offset, to->bytes, task->host, count, waits,
                                  done);
  if (task->kind == BRAID_TASK_READ)
    return cl->EnqueueReadBuffer(queue->used, from->memory, CL_FALSE, from->offset, from->bytes, task->host, count,
                                 waits, done);
  if (from->memory == to->memory && from->offset == to->offset)
    return cl->EnqueueMarkerWithWaitList(queue->used, count, waits, done);
  return cl->EnqueueCopyBuffer(queue->used, from->memory, to->memory, from->offset, to->offset, from->bytes, count,
                               waits, done);
}

static braid_status enqueue_transfer(const braid_cl_queue *queue, const braid_task *task, const cl_event *waits,
                                     cl_uint count, cl_event *done) {
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
    cl_int code = enqueue_copy(queue, task, &from, &to, waits, count, done);
    if (code != CL_SUCCESS) status = braid_cl_fail(code, "enqueueing a transfer");
  }
  if (from.owned) queue->cl->ReleaseMemObject(from.memory);
  if (to.owned) queue->cl->ReleaseMemObject(to.memory);
  return status;
}

static cl_command_queue suited_queue(const braid_cl_queue *queue, const braid_task *task) {
  return task->timing ? queue->measuring : queue->quick;
}

static bool queue_follows(braid_launch_queue *queue, const braid_task *task) {
  return suited_queue(own_queue(queue), task) == own_queue(queue)->used;
}

static braid_status queue_enqueue(braid_launch_queue *base, braid_launch_slot *slot, void *const *waits,
                                  size_t wait_count) {
  braid_cl_queue *queue = own_queue(base);
  cl_uint count = (cl_uint)wait_count;
  const cl_event *events = count ? (const cl_event *)waits : NULL;
  cl_event first = NULL, last = NULL;
  __atomic_store_n(&queue->used, suited_queue(queue, slot->task), __ATOMIC_RELEASE);
  braid_status status = slot->task->kind == BRAID_TASK_KERNEL
                            ? braid_cl_launch_all(queue->device, slot->task, queue->used, events, count, &first, &last)
                            : enqueue_transfer(queue, slot->task, events, count, &last);
  if (!last) { /* a task without commands keeps its place, one that failed half way ends after what it began */
    cl_int code = queue->cl->EnqueueMarkerWithWaitList(queue->used, count, events, &last);
    if (code != CL_SUCCESS && status == BRAID_OK) status = braid_cl_fail(code, "enqueueing a marker");
  }
  slot->first = first;
  slot->last = last;
  return status;
}

static void queue_flush(braid_launch_queue *queue) {
  (void)own_queue(queue)->cl->Flush(__atomic_load_n(&own_queue(queue)->used, __ATOMIC_ACQUIRE));
}

/* --- ends ----------------------------------------------------------------------------------------------------------
 */
static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *queue) {
  (void)event, (void)status;
  braid_launch_queue_called(queue);
}

static bool queue_watch(braid_launch_queue *queue, void *event) {
  return own_queue(queue)->cl->SetEventCallback(event, CL_COMPLETE, on_complete, queue) == CL_SUCCESS;
}

static bool queue_ask(braid_launch_queue *queue, void *event, int32_t *code) {
  cl_int state = CL_QUEUED;
  cl_int error =
      own_queue(queue)->cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  *code = error != CL_SUCCESS ? error : state;
  return error != CL_SUCCESS || state <= CL_COMPLETE;
}

static void queue_retain(braid_launch_queue *queue, void *event) {
  own_queue(queue)->cl->RetainEvent(event);
}

static void queue_release(braid_launch_queue *queue, void *event) {
  own_queue(queue)->cl->ReleaseEvent(event);
}

static void queue_lose(braid_launch_queue *base) {
  braid_cl_device *device = own_queue(base)->device;
  if (__atomic_exchange_n(&device->lost, 1, __ATOMIC_ACQ_REL)) return;
  braid_cl_context_lose(device->shared);
  pthread_mutex_lock(&device->lock);
  for (braid_cl_queue *queue = device->queues; queue; queue = queue->next) braid_launch_queue_wake(&queue->base);
  pthread_mutex_unlock(&device->lock);
}

static int64_t read_stamp(const braid_cl_queue *queue, cl_event event, cl_profiling_info what) {
  cl_ulong value = 0;
  if (queue->cl->GetEventProfilingInfo(event, what, sizeof value, &value, NULL) != CL_SUCCESS) return 0;
  return (int64_t)value;
}

/* When the commands ran, on the host's clock: the driver stamped the first when it was queued, at `begun_ns` or a
 * moment later. They began when those before them had ended. */
static void measure_task(braid_cl_queue *queue, const braid_launch_slot *slot, braid_timing *timing) {
  cl_event first = slot->first ? slot->first : slot->last;
  int64_t queued = read_stamp(queue, first, CL_PROFILING_COMMAND_QUEUED), now = braid_now_ns();
  int64_t start = read_stamp(queue, first, CL_PROFILING_COMMAND_START);
  int64_t end = read_stamp(queue, slot->last, CL_PROFILING_COMMAND_END);
  if (!queued || start < queued || end < start) return;
  timing->start_ns = slot->begun_ns + (start - queued);
  if (timing->start_ns < queue->measured_ns) timing->start_ns = queue->measured_ns;
  timing->end_ns = timing->start_ns + (end - start) < now ? timing->start_ns + (end - start) : now;
  queue->measured_ns = timing->end_ns;
}

/* Out of resources is what drivers of graphics cards say of a kernel that went outside of its memory; their context is
 * of no use after that, so the device counts as lost. */
static braid_status queue_outcome(braid_launch_queue *base, const braid_launch_slot *slot, braid_timing *timing) {
  braid_cl_queue *queue = own_queue(base);
  if (slot->code == CL_COMPLETE) {
    if (slot->task->timing) measure_task(queue, slot, timing);
    return braid_cl_find_fault(slot->task);
  }
  char scratch[32];
  braid_status status = slot->code == CL_OUT_OF_RESOURCES ? BRAID_DEVICE_LOST : braid_cl_status(slot->code);
  if (status == BRAID_DEVICE_LOST) queue_lose(base);
  return braid_fail(status, "%s: the task ended with %s", queue->device->info.name,
                    braid_cl_error_name(slot->code, scratch));
}

static const braid_launch_driver kDriver = {.enqueue = queue_enqueue,
                                            .follows = queue_follows,
                                            .flush = queue_flush,
                                            .watch = queue_watch,
                                            .ask = queue_ask,
                                            .outcome = queue_outcome,
                                            .retain = queue_retain,
                                            .release = queue_release,
                                            .lose = queue_lose};

/* --- queues --------------------------------------------------------------------------------------------------------
 */
void braid_cl_queue_free(braid_cl_queue *queue) {
  if (queue->measuring) queue->cl->ReleaseCommandQueue(queue->measuring);
  if (queue->quick && queue->quick != queue->measuring) queue->cl->ReleaseCommandQueue(queue->quick);
  braid_free(NULL, queue);
}

bool braid_cl_queue_is_quiet(const braid_cl_queue *queue) {
  return braid_launch_queue_quiet(&queue->base);
}

static braid_status make_driver_queue(const braid_cl_device *device, cl_command_queue_properties properties,
                                      cl_command_queue *out) {
  cl_int code;
  *out = device->cl->CreateCommandQueue(device->shared->context, device->id, properties, &code);
  return *out ? BRAID_OK : braid_cl_fail(code, "a queue");
}

static braid_status queue_init(braid_cl_queue *queue, braid_cl_device *device, braid_timeline *timeline) {
  *queue = (braid_cl_queue){.device = device, .cl = device->cl};
  queue->base.driver = &kDriver;
  queue->base.context = device->shared;
  queue->base.device = device->info.name;
  queue->base.lost = &device->lost;
  queue->base.polls = !device->traits.cpu;
  queue->base.unified = device->info.memory == BRAID_MEMORY_UNIFIED;
  queue->base.deadline_ns = device->deadline_ns;
  BRAID_TRY(make_driver_queue(device, CL_QUEUE_PROFILING_ENABLE, &queue->measuring));
  queue->used = queue->quick = queue->measuring;
  if (queue->base.polls) BRAID_TRY(make_driver_queue(device, 0, &queue->quick));
  return braid_launch_queue_start(&queue->base, timeline);
}

braid_status braid_cl_queue_create(void *self, braid_timeline *timeline, void **out) {
  braid_cl_device *device = self;
  *out = NULL;
  if (braid_cl_device_is_lost(device)) return braid_fail(BRAID_DEVICE_LOST, "%s is lost", device->info.name);
  braid_cl_queue *queue = braid_zalloc(NULL, sizeof *queue);
  if (!queue) return BRAID_NO_MEMORY;
  braid_status status = queue_init(queue, device, timeline);
  if (status != BRAID_OK) {
    braid_cl_queue_free(queue);
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
  braid_launch_queue_stop(&queue->base);
  pthread_mutex_lock(&device->lock);
  braid_cl_queue **link = &device->queues;
  while (*link != queue) link = &(*link)->next;
  *link = queue->next;
  pthread_mutex_unlock(&device->lock);
  braid_cl_context_drop(device->shared, BRAID_CL_OBJECT_QUEUE, queue);
}

braid_status braid_cl_queue_submit(void *queue, braid_task *task) {
  braid_launch_queue_submit(queue, task);
  return BRAID_OK;
}

void braid_cl_queue_flush(void *queue) {
  braid_launch_queue_flush(queue);
}
