/* Ending tasks. The driver's callbacks come on threads of its own and in any order; tasks end in the order of their
 * queue all the same, because a callback only marks its slot and then whoever is first ends what has finished at the
 * head of the line, on behalf of all. Where the queue polls there are no callbacks: the first in line is asked. */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/queue_own.h"
#include "base/clock.h"

_Thread_local const braid_cl_queue *braid_cl_inside;

static const int64_t kClockAge = 100000000; /* ns after which clocks are compared anew */

/* --- clocks --------------------------------------------------------------------------------------------------------
 * The driver stamps a command when it is queued, between two looks at the host's clock: the difference of the clocks,
 * to within half the time between the looks. */
static int64_t stamp(const braid_cl_queue *queue, cl_event event, cl_profiling_info what) {
  cl_ulong value = 0;
  if (queue->cl->GetEventProfilingInfo(event, what, sizeof value, &value, NULL) != CL_SUCCESS) return 0;
  return (int64_t)value;
}

static void compare_clocks(braid_cl_queue *queue, const braid_cl_slot *slot, cl_event first, int64_t now) {
  int64_t error = (slot->after_ns - slot->before_ns) / 2;
  if (queue->clock_at_ns && error >= queue->clock_error_ns && now - queue->clock_at_ns < kClockAge) return;
  int64_t queued = stamp(queue, first, CL_PROFILING_COMMAND_QUEUED);
  if (!queued) return;
  queue->clock_offset_ns = slot->before_ns + error - queued;
  queue->clock_error_ns = error;
  queue->clock_at_ns = now;
}

/* When the commands ran, on the host's clock: no earlier than they were enqueued, no later than now. */
static braid_timing measure(braid_cl_queue *queue, const braid_cl_slot *slot) {
  cl_event first = slot->first ? slot->first : slot->last;
  int64_t now = braid_now_ns();
  compare_clocks(queue, slot, first, now);
  int64_t start = stamp(queue, first, CL_PROFILING_COMMAND_START);
  int64_t end = stamp(queue, slot->last, CL_PROFILING_COMMAND_END);
  braid_timing timing = {.energy_uj = -1};
  if (!start || end < start) return timing;
  start += queue->clock_offset_ns;
  end += queue->clock_offset_ns;
  int64_t shift = 0;
  if (end > now) shift = now - end;
  if (start + shift < slot->before_ns) shift = slot->before_ns - start;
  timing.start_ns = start + shift;
  timing.end_ns = end + shift < now ? end + shift : now;
  return timing;
}

/* --- how a task ended ----------------------------------------------------------------------------------------------
 */
static braid_status failure_of_waits(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++) {
    if (!braid_event_done(task->waits[i])) continue;
    braid_status status = braid_event_wait(task->waits[i], 0);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

/* A command that was taken and then failed. Out of resources is what drivers of graphics cards say of a kernel that
 * went outside of its memory; their context is of no use after that, so the device counts as lost. */
static braid_status driver_failure(braid_cl_queue *queue, cl_int code) {
  char scratch[32];
  braid_status status = code == CL_OUT_OF_RESOURCES ? BRAID_DEVICE_LOST : braid_cl_status(code);
  if (status == BRAID_DEVICE_LOST) braid_cl_declare_lost(queue->device);
  return braid_fail(status, "%s: the task ended with %s", queue->device->info.name, braid_cl_error_name(code, scratch));
}

static braid_status outcome(braid_cl_queue *queue, const braid_cl_slot *slot, bool given_up) {
  if (slot->failed_wait) return braid_event_wait(slot->failed_wait, 0);
  if (slot->status != BRAID_OK) return braid_fail(slot->status, "%s", slot->detail);
  if (given_up) return braid_fail(BRAID_DEVICE_LOST, "%s does not answer", queue->device->info.name);
  braid_status status = failure_of_waits(slot->task);
  if (status != BRAID_OK || !slot->last || slot->result == CL_COMPLETE) return status;
  return driver_failure(queue, slot->result);
}

/* --- ending --------------------------------------------------------------------------------------------------------
 */
static void give_slot_back(braid_cl_queue *queue, braid_cl_slot *slot) {
  slot->next = __atomic_load_n(&queue->freed, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&queue->freed, &slot->next, slot, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

static void release_events(const braid_cl_api *cl, braid_cl_slot *slot) {
  if (slot->first) cl->ReleaseEvent(slot->first);
  if (slot->last) cl->ReleaseEvent(slot->last);
  slot->first = slot->last = NULL;
}

static void wake_feeder(braid_cl_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  pthread_cond_signal(&queue->wake);
  pthread_mutex_unlock(&queue->lock);
}

static void clear_slot(braid_cl_queue *queue, braid_cl_slot *slot) {
  pthread_mutex_lock(&slot->lock);
  slot->owner = NULL;
  release_events(queue->cl, slot);
  pthread_mutex_unlock(&slot->lock);
  give_slot_back(queue, slot);
}

/* Leaves a command that is still with the driver to its callback, which cleans up should it ever come. False: it has
 * come meanwhile. The slot is not ours afterwards. */
static bool abandon(braid_cl_queue *queue, braid_cl_slot *slot) {
  pthread_mutex_lock(&slot->lock);
  bool finished = slot->finished;
  cl_event last = slot->last;
  if (!finished) {
    slot->orphan = true;
    slot->owner = NULL;
    queue->left_in = slot;
    __atomic_add_fetch(&slot->context->orphans, 1, __ATOMIC_ACQ_REL);
  }
  pthread_mutex_unlock(&slot->lock);
  if (finished) return false;
  if (queue->polls)
    (void)queue->cl->SetEventCallback(last, CL_COMPLETE, braid_cl_on_finished, slot);
  else
    __atomic_sub_fetch(&queue->users, 1, __ATOMIC_ACQ_REL); /* its callback will not touch the queue */
  return true;
}

/* Takes the slot from the head of the line and ends its task. `given_up`: without waiting for the driver. */
static void end_task(braid_cl_queue *queue, braid_cl_slot *slot, bool given_up) {
  braid_task *task = slot->task;
  braid_status status = outcome(queue, slot, given_up);
  braid_timing timing = {.energy_uj = -1};
  if (!given_up && slot->last && slot->result == CL_COMPLETE && !task->untimed) timing = measure(queue, slot);
  if (!given_up || !abandon(queue, slot)) clear_slot(queue, slot);
  queue->ended++;
  __atomic_store_n(&queue->tail, queue->tail + 1, __ATOMIC_SEQ_CST);
  if (status != BRAID_OK && task->cancel) __atomic_store_n(task->cancel, 1, __ATOMIC_RELEASE);
  braid_event_complete(task->done, status, &timing);
  if (__atomic_load_n(&queue->waiting, __ATOMIC_SEQ_CST)) wake_feeder(queue);
}

static braid_cl_slot *first_in_line(braid_cl_queue *queue) {
  if (braid_cl_is_idle(queue)) return NULL;
  return queue->order[queue->tail % BRAID_CL_WINDOW];
}

/* Asks the driver how the command stands; with the slot's lock held. */
static void ask(const braid_cl_queue *queue, braid_cl_slot *slot) {
  cl_int state = CL_QUEUED;
  cl_int code = queue->cl->GetEventInfo(slot->last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  slot->finished = code != CL_SUCCESS || state <= CL_COMPLETE;
  slot->result = code != CL_SUCCESS ? code : state;
}

static bool is_finished(const braid_cl_queue *queue, braid_cl_slot *slot) {
  pthread_mutex_lock(&slot->lock);
  if (!slot->finished && queue->polls) ask(queue, slot);
  bool finished = slot->finished;
  pthread_mutex_unlock(&slot->lock);
  return finished;
}

static void end_finished(braid_cl_queue *queue) {
  braid_cl_slot *slot;
  while ((slot = first_in_line(queue)) && is_finished(queue, slot)) end_task(queue, slot, false);
}

/* --- hung tasks ----------------------------------------------------------------------------------------------------
 */
void braid_cl_declare_lost(braid_cl_device *device) {
  if (__atomic_exchange_n(&device->lost, 1, __ATOMIC_ACQ_REL)) return;
  braid_cl_context_lose(device->shared);
  pthread_mutex_lock(&device->lock);
  for (braid_cl_queue *queue = device->queues; queue; queue = queue->next) wake_feeder(queue);
  pthread_mutex_unlock(&device->lock);
}

static bool waits_are_done(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++)
    if (!braid_event_done(task->waits[i])) return false;
  return true;
}

/* A task's time counts from when it is first in line and what it waits for is done. */
static bool is_hung(braid_cl_queue *queue, const braid_cl_slot *slot) {
  int64_t limit = braid_cl_limit_ns(queue);
  if (!limit) return false;
  int64_t now = braid_now_ns();
  if (queue->watched != queue->ended + 1 || !waits_are_done(slot->task)) {
    queue->watched = queue->ended + 1;
    queue->watched_ns = now;
  }
  return now - queue->watched_ns >= limit;
}

/* Ends what is in flight on a lost device without waiting for the driver. */
static void give_up_all(braid_cl_queue *queue) {
  braid_cl_slot *slot;
  while ((slot = first_in_line(queue))) end_task(queue, slot, !is_finished(queue, slot));
}

void braid_cl_end_tasks(braid_cl_queue *queue) {
  if (__atomic_fetch_add(&queue->enders, 1, __ATOMIC_ACQ_REL)) return;
  uint32_t asked;
  do {
    asked = __atomic_load_n(&queue->enders, __ATOMIC_ACQUIRE);
    end_finished(queue);
    const braid_cl_slot *slot = first_in_line(queue);
    if (slot && is_hung(queue, slot)) braid_cl_declare_lost(queue->device);
    if (slot && braid_cl_device_is_lost(queue->device)) give_up_all(queue);
  } while (!__atomic_compare_exchange_n(&queue->enders, &asked, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

void CL_CALLBACK braid_cl_on_finished(cl_event event, cl_int status, void *which) {
  (void)event;
  braid_cl_slot *slot = which;
  pthread_mutex_lock(&slot->lock);
  slot->result = status;
  slot->finished = true;
  bool orphan = slot->orphan;
  braid_cl_queue *queue = slot->queue;
  pthread_mutex_unlock(&slot->lock);
  if (orphan) {
    braid_cl_context *context = slot->context;
    release_events(context->cl, slot);
    braid_cl_slots_give(context, slot);
    __atomic_sub_fetch(&context->orphans, 1, __ATOMIC_ACQ_REL);
    return;
  }
  if (!braid_cl_inside)
    braid_cl_end_tasks(queue);
  else if (braid_cl_inside != queue) /* whose own submitter ends it else */
    wake_feeder(queue);
  __atomic_sub_fetch(&queue->users, 1, __ATOMIC_ACQ_REL);
}
