#include "backend/opencl/queue.h"

#include "backend/opencl/kernel.h"
#include "backend/opencl/memory.h"
#include "base/clock.h"
#include "base/try.h"

struct braid_cl_queue {
  braid_launch_queue base; /* first */
  braid_cl_device *device;
  const braid_cl_api *cl;
  /* Drivers of cards take several microseconds to measure a kernel's time (NVIDIA's 7), and measure on all of a queue
   * or on nothing: so there are two, used in turn. */
  cl_command_queue profiled, unprofiled; /* the latter: NULL where drivers measure without cost */
  int64_t measured_ns;                   /* the end of the task that was measured last */
  braid_cl_queue *next;                  /* of the device */
};

static braid_cl_queue *cl_queue_of(braid_launch_queue *queue) {
  return (braid_cl_queue *)queue;
}

/* --- enqueueing ----------------------------------------------------------------------------------------------------
 */
/* The driver's queue that commands are in. */
static cl_command_queue current_queue(const braid_cl_queue *queue) {
  return queue->unprofiled && !__atomic_load_n(&queue->base.timed, __ATOMIC_ACQUIRE) ? queue->unprofiled
                                                                                     : queue->profiled;
}

static braid_status queue_enqueue(braid_launch_queue *base, braid_launch_slot *slot, void *const *waits,
                                  size_t wait_count) {
  braid_cl_queue *queue = cl_queue_of(base);
  cl_uint count = (cl_uint)wait_count;
  const cl_event *events = count ? (const cl_event *)waits : NULL;
  cl_event first = NULL, last = NULL;
  cl_command_queue used = current_queue(queue);
  braid_status status = slot->task->kind == BRAID_TASK_KERNEL
                            ? braid_cl_launch_all(queue->device, slot->task, used, events, count, &first, &last)
                            : braid_cl_transfer(queue->device, slot->task, used, events, count, &last);
  if (!last) { /* a task without commands keeps its place, one that failed half way ends after what it began */
    cl_int code = queue->cl->EnqueueMarkerWithWaitList(used, count, events, &last);
    if (code != CL_SUCCESS && status == BRAID_OK) status = braid_cl_fail(code, "enqueueing a marker");
  }
  slot->first = first;
  slot->last = last;
  return status;
}

static void queue_flush(braid_launch_queue *queue) {
  (void)cl_queue_of(queue)->cl->Flush(current_queue(cl_queue_of(queue)));
}

/* --- ends ----------------------------------------------------------------------------------------------------------
 */
static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *queue) {
  (void)event, (void)status;
  braid_launch_queue_completed(queue);
}

static bool queue_watch(braid_launch_queue *queue, void *event) {
  return cl_queue_of(queue)->cl->SetEventCallback(event, CL_COMPLETE, on_complete, queue) == CL_SUCCESS;
}

static bool queue_poll(braid_launch_queue *queue, void *event, int32_t *code) {
  cl_int state = CL_QUEUED;
  cl_int error =
      cl_queue_of(queue)->cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  *code = error != CL_SUCCESS ? error : state;
  return error != CL_SUCCESS || state <= CL_COMPLETE;
}

static void queue_retain(braid_launch_queue *queue, void *event) {
  cl_queue_of(queue)->cl->RetainEvent(event);
}

static void queue_release(braid_launch_queue *queue, void *event) {
  cl_queue_of(queue)->cl->ReleaseEvent(event);
}

static void queue_mark_lost(braid_launch_queue *base) {
  braid_cl_device *device = cl_queue_of(base)->device;
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
  int64_t queued = read_stamp(queue, first, CL_PROFILING_COMMAND_QUEUED);
  int64_t start = read_stamp(queue, first, CL_PROFILING_COMMAND_START);
  int64_t end = read_stamp(queue, slot->last, CL_PROFILING_COMMAND_END);
  if (!queued || start < queued || end < start) return;
  timing->start_ns = slot->begun_ns + (start - queued);
  if (timing->start_ns < queue->measured_ns) timing->start_ns = queue->measured_ns;
  int64_t now = braid_now_ns(), ended = timing->start_ns + (end - start);
  timing->end_ns = queue->measured_ns = ended < now ? ended : now;
}

/* Out of resources is what drivers of graphics cards say of a kernel that went outside of its memory; their context is
 * of no use after that, so the device counts as lost. */
static braid_status queue_outcome(braid_launch_queue *base, const braid_launch_slot *slot, braid_timing *timing) {
  braid_cl_queue *queue = cl_queue_of(base);
  if (slot->code == CL_COMPLETE) {
    if (slot->task->timing) measure_task(queue, slot, timing);
    return braid_cl_find_fault(slot->task);
  }
  char scratch[32];
  braid_status status = slot->code == CL_OUT_OF_RESOURCES ? BRAID_DEVICE_LOST : braid_cl_status(slot->code);
  if (status == BRAID_DEVICE_LOST) queue_mark_lost(base);
  return braid_fail(status, "%s: the task ended with %s", queue->device->info.name,
                    braid_cl_error_name(slot->code, scratch));
}

static const braid_launch_driver kDriver = {.enqueue = queue_enqueue,
                                            .flush = queue_flush,
                                            .watch = queue_watch,
                                            .poll = queue_poll,
                                            .outcome = queue_outcome,
                                            .retain = queue_retain,
                                            .release = queue_release,
                                            .mark_lost = queue_mark_lost};

/* --- queues --------------------------------------------------------------------------------------------------------
 */
void braid_cl_queue_free(braid_cl_queue *queue) {
  if (queue->profiled) queue->cl->ReleaseCommandQueue(queue->profiled);
  if (queue->unprofiled) queue->cl->ReleaseCommandQueue(queue->unprofiled);
  braid_free(NULL, queue);
}

static braid_status queue_init(braid_cl_queue *queue, braid_cl_device *device, braid_timeline *timeline) {
  *queue = (braid_cl_queue){.device = device, .cl = device->cl};
  queue->base.driver = &kDriver;
  queue->base.context = device->shared;
  queue->base.device = device->info.name;
  queue->base.lost = &device->lost;
  queue->base.polls = queue->base.splits = !device->traits.cpu;
  queue->base.unified = device->info.memory == BRAID_MEMORY_UNIFIED;
  queue->base.deadline_ns = device->deadline_ns;
  cl_int code;
  queue->profiled =
      queue->cl->CreateCommandQueue(device->shared->context, device->id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (queue->profiled && queue->base.splits)
    queue->unprofiled = queue->cl->CreateCommandQueue(device->shared->context, device->id, 0, &code);
  if (!queue->profiled || code != CL_SUCCESS) return braid_cl_fail(code, "a queue");
  BRAID_TRY(braid_launch_queue_start(&queue->base, timeline));
  pthread_mutex_lock(&device->lock);
  queue->next = device->queues;
  device->queues = queue;
  pthread_mutex_unlock(&device->lock);
  return BRAID_OK;
}

braid_status braid_cl_queue_create(void *self, braid_timeline *timeline, void **out) {
  braid_cl_device *device = self;
  *out = NULL;
  BRAID_TRY(braid_cl_device_status(device));
  braid_cl_queue *queue = braid_zalloc(NULL, sizeof *queue);
  if (!queue) return BRAID_NO_MEMORY;
  braid_status status = queue_init(queue, device, timeline);
  if (status == BRAID_OK)
    *out = queue;
  else
    braid_cl_queue_free(queue);
  return status;
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
