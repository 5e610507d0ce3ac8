/* Running a plan: every step is submitted to its queue in the plan's order, with the events it has to wait for, and the
 * queues do the rest; the caller sleeps until the last step of each queue is done. In steady state nothing is
 * allocated, no lock is taken, and no step waits for the host.
 *
 * Why no dependency counters: a queue runs its tasks in order, so within a queue the plan's order is enough, and across
 * queues hazard.c has reduced dependencies to the few events that order does not imply. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"
#include "runtime/session.h"

static const int64_t kLook = 100000000;  /* ns between looks at whether a device is lost */
static const int64_t kGrace = 500000000; /* ns for tasks of a lost device to end */

/* --- the caller's memory -------------------------------------------------------------------------------------------
 */
static void point_at(braid_port *port, void *address) {
  if (port->bound == address) return;
  port->bound = address;
  for (size_t i = 0; i < port->slot_count; i++) *port->slots[i].where = address;
}

/* Memory in place of the caller's: made once, the first time it is wanted. */
static braid_status spare_of(const braid_session *session, braid_port *port) {
  if (!port->spare) port->spare = braid_alloc(session->allocator, port->bytes);
  return port->spare ? BRAID_OK : braid_fail(BRAID_NO_MEMORY, "%.120s: %zu bytes asked for", port->name, port->bytes);
}

/* Under a time limit a task may outlive the run that it was part of, and the caller's memory with it. */
static bool usable(const braid_session *session, const braid_port *port, const void *pointer) {
  return pointer && session->timeout_ns < 0 && braid_plan_host_aligned(&session->plan, port->desc->dtype, pointer);
}

static braid_status bind_inputs(braid_session *session, const void *const *inputs) {
  for (size_t i = 0; i < session->graph->input_count; i++) {
    braid_port *port = &session->inputs[i];
    if (port->storage < 0) continue;
    if (!inputs || (!inputs[i] && port->bytes))
      return braid_fail(BRAID_INVALID_ARGUMENT, "no memory given for input %.120s", port->name);
    if (usable(session, port, inputs[i])) {
      point_at(port, (void *)inputs[i]);
      continue;
    }
    BRAID_TRY(spare_of(session, port));
    if (port->bytes) memcpy(port->spare, inputs[i], port->bytes);
    point_at(port, port->spare);
  }
  return BRAID_OK;
}

static braid_status bind_outputs(braid_session *session, void *const *outputs) {
  for (size_t i = 0; i < session->graph->output_count; i++) {
    braid_port *port = &session->outputs[i];
    void *given = outputs ? outputs[i] : NULL;
    if (!usable(session, port, given)) BRAID_TRY(spare_of(session, port));
    point_at(port, usable(session, port, given) ? given : port->spare);
  }
  return BRAID_OK;
}

static void copy_outputs(const braid_session *session, void *const *outputs) {
  for (size_t i = 0; outputs && i < session->graph->output_count; i++) {
    const braid_port *port = &session->outputs[i];
    if (outputs[i] && port->bound != outputs[i]) memcpy(outputs[i], port->bound, port->bytes);
  }
}

/* --- one run -------------------------------------------------------------------------------------------------------
 */
/* On failure the steps not submitted are completed as cancelled, so that nobody waits for them; *submitted: those
 * before them. */
static braid_status submit_all(braid_session *session, size_t *submitted) {
  size_t count = session->plan.steps.count, i = 0;
  braid_status status = BRAID_OK;
  braid_clear_detail();
  for (; i < count; i++) {
    braid_event_reset(&session->events[i]);
    status = session->actions[i].submit(session->actions[i].queue, &session->tasks[i]);
    if (status != BRAID_OK) break;
  }
  *submitted = i;
  if (status != BRAID_OK) {
    __atomic_store_n(&session->cancel, 1, __ATOMIC_RELEASE);
    braid_event_complete(&session->events[i], status, NULL);
    while (++i < count) {
      braid_event_reset(&session->events[i]);
      braid_event_complete(&session->events[i], braid_fail(BRAID_CANCELLED, "an earlier task failed"), NULL);
    }
  }
  for (size_t q = 0; q < session->plan.queue_count; q++) {
    const braid_backend *backend = session->devices[session->plan.queues[q].device].backend;
    if (session->plan.queues[q].used && backend->flush) backend->flush(session->queues[q]);
  }
  return status;
}

static bool lost_a_device(const braid_session *session) {
  for (size_t i = 0; i < session->device_count; i++) {
    const braid_plan_device *device = &session->devices[i];
    if (device->backend->status && device->backend->status(device->self) == BRAID_DEVICE_LOST) return true;
  }
  return false;
}

braid_status braid_session_await(const braid_session *session, braid_event *event, int64_t deadline_ns) {
  int64_t gone_ns = -1; /* until when tasks may end that a lost device has left */
  for (;;) {
    int64_t slice = kLook;
    if (deadline_ns >= 0) {
      int64_t left = deadline_ns - braid_now_ns();
      slice = left < 0 ? 0 : left < kLook ? left : kLook;
    }
    (void)braid_event_wait(event, slice);
    if (braid_event_done(event)) return BRAID_OK;
    int64_t now = braid_now_ns();
    if (gone_ns < 0 && lost_a_device(session)) gone_ns = now + kGrace;
    if (gone_ns >= 0 && now >= gone_ns) return braid_fail(BRAID_DEVICE_LOST, "the device is lost and does not answer");
    if (deadline_ns >= 0 && now >= deadline_ns) return braid_fail(BRAID_TIMEOUT, "the task is not done");
  }
}

/* The last step of the queue among the first `submitted`; -1: none. */
static braid_step_id last_submitted(const braid_session *session, size_t queue, size_t submitted) {
  braid_step_id last = session->last_of_queue[queue];
  if (last < (braid_step_id)submitted) return last;
  for (last = (braid_step_id)submitted - 1; last >= 0; last--)
    if (session->plan.steps.items[last].queue == (int)queue) break;
  return last;
}

/* Waits for the last step of every queue that was submitted; CANCELLED if one failed. */
static braid_status wait_all(const braid_session *session, size_t submitted, int64_t timeout_ns) {
  int64_t deadline = timeout_ns < 0 ? -1 : braid_now_ns() + timeout_ns;
  bool failed = false;
  for (size_t q = 0; q < session->plan.queue_count; q++) {
    braid_step_id last = last_submitted(session, q, submitted);
    if (last < 0) continue;
    BRAID_TRY(braid_session_await(session, &session->events[last], deadline));
    failed |= session->events[last].status != BRAID_OK;
  }
  return failed ? BRAID_CANCELLED : BRAID_OK;
}

static braid_status fail_at(const braid_session *session, size_t step, braid_status status, const char *detail) {
  const braid_step *at = &session->plan.steps.items[step];
  return braid_fail(status, "node %.120s (%s) on %s%s%s: %s", at->label, at->op, session->devices[at->device].label,
                    at->kernel ? ", kernel " : "", at->kernel ? at->kernel->name : "",
                    detail[0] ? detail : braid_status_text(status));
}

/* The first step that failed by itself. A device that is gone takes the session with it. */
static braid_status find_failure(braid_session *session) {
  session->lost = lost_a_device(session);
  for (size_t i = 0; i < session->plan.steps.count; i++) {
    const braid_event *event = &session->events[i];
    if (event->status != BRAID_OK && event->status != BRAID_CANCELLED)
      return fail_at(session, i, event->status, braid_event_detail(event));
  }
  return braid_fail(BRAID_CANCELLED, "the run was cancelled");
}

/* Cancels the tasks that have not started and lets the running one finish within the same time again (on a lost device,
 * within kGrace). `why`: TIMEOUT or DEVICE_LOST. */
static braid_status give_up(braid_session *session, size_t submitted, braid_status why) {
  size_t hung = 0;
  while (hung < session->plan.steps.count && braid_event_done(&session->events[hung])) hung++;
  __atomic_store_n(&session->cancel, 1, __ATOMIC_RELEASE);
  braid_status waited = wait_all(session, submitted, why == BRAID_TIMEOUT ? session->timeout_ns : kGrace);
  session->lost = waited == BRAID_TIMEOUT || waited == BRAID_DEVICE_LOST || why == BRAID_DEVICE_LOST;
  char detail[96];
  if (why == BRAID_TIMEOUT)
    snprintf(detail, sizeof detail, "not done after %lld ms%s", (long long)(session->timeout_ns / 1000000),
             session->lost ? "; the session is lost" : "");
  else
    snprintf(detail, sizeof detail, "the device is lost and does not answer; the session is lost");
  return fail_at(session, hung < session->plan.steps.count ? hung : 0, why, detail);
}

/* Timings are for the plan's lines and the trace: without one, the first runs are enough. */
static void stop_timing(braid_session *session) {
  for (size_t i = 0; i < session->plan.steps.count; i++) session->tasks[i].untimed = true;
}

static void record(braid_session *session) {
  for (size_t i = 0; i < session->plan.steps.count; i++) {
    const braid_timing *timing = &session->events[i].timing;
    int64_t ns = timing->end_ns - timing->start_ns;
    if (timing->end_ns == 0) continue;
    int32_t *sample = &session->samples[i * kSamples + session->runs % kSamples];
    __atomic_store_n(sample, ns > INT32_MAX ? INT32_MAX : (int32_t)ns,
                     __ATOMIC_RELAXED); /* the plan may be looked at */
    if (session->trace) braid_trace_add(session->trace, (braid_step_id)i, timing->start_ns, timing->end_ns);
  }
  if (++session->runs == kSamples && !session->trace) stop_timing(session);
}

static braid_status run(braid_session *session, const void *const *inputs, void *const *outputs) {
  if (session->lost) return braid_fail(BRAID_DEVICE_LOST, "an earlier run hung or lost its device");
  BRAID_TRY(bind_inputs(session, inputs));
  BRAID_TRY(bind_outputs(session, outputs));
  __atomic_store_n(&session->cancel, 0, __ATOMIC_RELEASE);
  size_t submitted;
  braid_status status = submit_all(session, &submitted);
  braid_status waited = wait_all(session, submitted, session->timeout_ns);
  if (waited == BRAID_TIMEOUT || waited == BRAID_DEVICE_LOST) return give_up(session, submitted, waited);
  if (status != BRAID_OK || waited != BRAID_OK || __atomic_load_n(&session->cancel, __ATOMIC_ACQUIRE))
    return find_failure(session);
  record(session);
  copy_outputs(session, outputs);
  return BRAID_OK;
}

braid_status braid_session_run(braid_session *session, const void *const *inputs, void *const *outputs) {
  BRAID_TRY(braid_session_enter(session, "braid_session_run"));
  braid_status status = run(session, inputs, outputs);
  braid_session_leave(session);
  return status;
}
