/* Running a plan: every step is submitted to its queue in the plan's order, with the events it has to wait for, and the
 * queues do the rest; the caller sleeps until the last step of each queue is done. In steady state nothing is
 * allocated, and no step waits for the host.
 *
 * Why no dependency counters: a queue runs its tasks in order, so within a queue the plan's order is enough, and across
 * queues hazard.c has reduced dependencies to the few events that order does not imply. */
#include "runtime/execution.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/try.h"

static const int64_t kLook = 100000000; /* ns between looks at whether a device is lost */

/* --- how a run ended -----------------------------------------------------------------------------------------------
 */
static braid_status fail_at(const braid_execution *execution, size_t step, braid_status status, const char *detail) {
  const braid_step *at = &execution->plan->steps.items[step];
  return braid_fail(status, "node %.120s (%s) on %s%s%s: %s", at->label, at->op,
                    execution->machine->devices[at->device].label, at->kernel ? ", kernel " : "",
                    at->kernel ? at->kernel->name : "", detail[0] ? detail : braid_status_text(status));
}

/* The first step that failed by itself. A device that is gone takes the execution with it. */
static braid_status find_failure(braid_execution *execution) {
  execution->lost = braid_machine_lost(execution->machine, execution->devices);
  for (size_t i = 0; i < execution->plan->steps.count; i++) {
    const braid_event *event = &execution->events[i];
    if (event->status != BRAID_OK && event->status != BRAID_CANCELLED)
      return fail_at(execution, i, event->status, braid_event_detail(event));
  }
  return braid_fail(BRAID_CANCELLED, "the run was cancelled");
}

/* Timings are for the plan's lines and the trace: without one, the first runs are enough. */
static void stop_timing(braid_execution *execution) {
  for (size_t i = 0; i < execution->plan->steps.count; i++) execution->tasks[i].untimed = true;
}

static void record(braid_execution *execution) {
  if (!execution->trace && execution->runs >= kSamples) return;
  for (size_t i = 0; i < execution->plan->steps.count; i++) {
    const braid_timing *timing = &execution->events[i].timing;
    int64_t ns = timing->end_ns - timing->start_ns;
    if (timing->end_ns == 0) continue;
    int32_t *sample = &execution->samples[i * kSamples + execution->runs % kSamples];
    __atomic_store_n(sample, ns > INT32_MAX ? INT32_MAX : (int32_t)ns,
                     __ATOMIC_RELAXED); /* the plan may be looked at */
    if (execution->trace) braid_trace_add(execution->trace, (braid_step_id)i, timing->start_ns, timing->end_ns);
  }
  if (++execution->runs == kSamples && !execution->trace) stop_timing(execution);
}

static void leave_weights(braid_execution *execution) {
  if (__atomic_exchange_n(&execution->holds, false, __ATOMIC_ACQ_REL))
    braid_weights_leave(execution->weights, execution->plan->writes_weights);
}

/* Of a run whose tasks have all ended. `failed`: some did not end well. */
static braid_status finish(braid_execution *execution, bool failed) {
  braid_status status = BRAID_OK;
  if (failed || __atomic_load_n(&execution->cancel, __ATOMIC_ACQUIRE)) {
    status = find_failure(execution);
  } else {
    record(execution);
    status = braid_ports_return(execution, false);
  }
  leave_weights(execution);
  return status;
}

/* --- submitting ----------------------------------------------------------------------------------------------------
 */
static void end_part(braid_execution *execution);

static void on_last(void *context, braid_status status) {
  (void)status;
  end_part(context);
}

/* On failure the steps not submitted are completed as cancelled, so that nobody waits for them; *submitted: those
 * before them. `tell`: end_part is called at the end of each queue's part. */
static braid_status submit_all(braid_execution *execution, bool tell, size_t *submitted) {
  const braid_plan *plan = execution->plan;
  size_t count = plan->steps.count, i = 0;
  braid_status status = BRAID_OK;
  bool several = execution->queues_used > 1;
  if (several) pthread_mutex_lock(&execution->machine->submitting);
  braid_clear_detail();
  for (; i < count; i++) {
    braid_event *event = &execution->events[i];
    braid_event_reset(event);
    if (tell && execution->last_of_queue[plan->steps.items[i].queue] == (braid_step_id)i)
      braid_event_on_done(event, on_last, execution);
    status = execution->actions[i].submit(execution->actions[i].queue, &execution->tasks[i]);
    if (status != BRAID_OK) break;
  }
  *submitted = i;
  if (status != BRAID_OK) {
    __atomic_store_n(&execution->cancel, 1, __ATOMIC_RELEASE);
    braid_event_reset(&execution->events[i]);
    braid_event_complete(&execution->events[i], status, NULL);
    while (++i < count) {
      braid_event_reset(&execution->events[i]);
      braid_event_complete(&execution->events[i], BRAID_CANCELLED, NULL);
    }
  }
  for (size_t q = 0; q < plan->queue_count; q++) {
    const braid_backend *backend = plan->devices[plan->queues[q].device].backend;
    if (plan->queues[q].used && backend->flush) backend->flush(execution->queues[q]);
  }
  if (several) pthread_mutex_unlock(&execution->machine->submitting);
  return status;
}

/* The last step of the queue among the first `submitted`; -1: none. */
static braid_step_id last_submitted(const braid_execution *execution, size_t queue, size_t submitted) {
  braid_step_id last = execution->last_of_queue[queue];
  if (last < (braid_step_id)submitted) return last;
  for (last = (braid_step_id)submitted - 1; last >= 0; last--)
    if (execution->plan->steps.items[last].queue == (int)queue) break;
  return last;
}

/* Waits for the last step of every queue that was submitted; CANCELLED if one failed. */
static braid_status wait_all(const braid_execution *execution, size_t submitted, int64_t timeout_ns) {
  int64_t deadline = timeout_ns < 0 ? -1 : braid_now_ns() + timeout_ns;
  bool failed = false;
  for (size_t q = 0; q < execution->plan->queue_count; q++) {
    braid_step_id last = last_submitted(execution, q, submitted);
    if (last < 0) continue;
    BRAID_TRY(braid_machine_await(execution->machine, execution->devices, &execution->events[last], deadline));
    failed |= execution->events[last].status != BRAID_OK;
  }
  return failed ? BRAID_CANCELLED : BRAID_OK;
}

/* Cancels the tasks that have not started and lets the running one finish within the same time again (on a lost device,
 * within kGraceNs). `why`: TIMEOUT or DEVICE_LOST. */
static braid_status give_up(braid_execution *execution, size_t submitted, braid_status why) {
  size_t hung = 0;
  while (hung < execution->plan->steps.count && braid_event_done(&execution->events[hung])) hung++;
  __atomic_store_n(&execution->cancel, 1, __ATOMIC_RELEASE);
  braid_status waited = wait_all(execution, submitted, why == BRAID_TIMEOUT ? execution->timeout_ns : kGraceNs);
  leave_weights(execution);
  execution->left = waited == BRAID_TIMEOUT || waited == BRAID_DEVICE_LOST;
  execution->lost = execution->left || why == BRAID_DEVICE_LOST;
  char detail[96];
  if (why == BRAID_TIMEOUT)
    snprintf(detail, sizeof detail, "not done after %lld ms%s", (long long)(execution->timeout_ns / 1000000),
             execution->lost ? "; the session is lost" : "");
  else
    snprintf(detail, sizeof detail, "the device is lost and does not answer; the session is lost");
  return fail_at(execution, hung < execution->plan->steps.count ? hung : 0, why, detail);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
/* The execution whose on_done this thread is in. */
static _Thread_local const braid_execution *telling;

/* Waits until the events of a run that has ended are their owner's again: the thread that ended the last may be on its
 * last instructions. */
static void settle(braid_execution *execution) {
  for (size_t q = 0; q < execution->plan->queue_count; q++) {
    braid_step_id last = execution->last_of_queue[q];
    if (last >= 0 && !braid_event_done(&execution->events[last])) (void)braid_event_wait(&execution->events[last], -1);
  }
}

/* After the end of a run that was not waited for at once. */
static braid_status settle_run(braid_execution *execution) {
  settle(execution);
  __atomic_store_n(&execution->state, BRAID_RUN_NONE, __ATOMIC_RELEASE);
  if (execution->verdict != BRAID_OK) return BRAID_OK;
  return braid_ports_return(execution, true);
}

/* Before a run: what it works on is the caller's, and the weights are its. `told`: somebody is called at its end. */
static braid_status start(braid_execution *execution, const void *const *inputs, void *const *outputs, bool told) {
  uint32_t state = __atomic_load_n(&execution->state, __ATOMIC_ACQUIRE);
  if (state == BRAID_RUN_IN_FLIGHT || telling == execution)
    return braid_fail(BRAID_BUSY, "the execution's last run is in flight");
  if (execution->lost) return braid_fail(BRAID_DEVICE_LOST, "an earlier run hung or lost its device");
  if (state == BRAID_RUN_ENDED) BRAID_TRY(settle_run(execution));
  BRAID_TRY(braid_ports_bind(execution, inputs, outputs));
  if (told && execution->late_outputs)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "a run with a callback needs its outputs in memory that they are computed in");
  const braid_plan *plan = execution->plan;
  bool holds = !execution->weights->own && (plan->reads_weights || plan->writes_weights);
  __atomic_store_n(&execution->cancel, 0, __ATOMIC_RELEASE); /* from here on: the weights may keep us waiting */
  if (holds) braid_weights_enter(execution->weights, plan->writes_weights);
  __atomic_store_n(&execution->holds, holds, __ATOMIC_RELEASE);
  return BRAID_OK;
}

/* In the caller's thread. False: the queue has other work. */
static bool run_in_place(braid_execution *execution) {
  size_t count = execution->plan->steps.count;
  if (!execution->here) return false;
  for (size_t i = 0; i < count; i++) braid_event_reset(&execution->events[i]);
  return execution->run_here(execution->queue_here, execution->here, count) == BRAID_OK;
}

static braid_status run_and_wait(braid_execution *execution) {
  if (run_in_place(execution)) return finish(execution, false);
  size_t submitted;
  braid_status status = submit_all(execution, false, &submitted);
  braid_status waited = wait_all(execution, submitted, execution->timeout_ns);
  if (waited == BRAID_TIMEOUT || waited == BRAID_DEVICE_LOST) return give_up(execution, submitted, waited);
  return finish(execution, status != BRAID_OK || waited != BRAID_OK);
}

braid_status braid_execution_run(braid_execution *execution, const void *const *inputs, void *const *outputs) {
  BRAID_TRY(start(execution, inputs, outputs, false));
  BRAID_TRY(run_and_wait(execution));
  return execution->late_outputs ? braid_ports_return(execution, true) : BRAID_OK;
}

/* One of those that a run waits for has ended; who is last ends the run. It has ended before anybody is told, so that
 * the next one may be submitted by whom that wakes; what a queue's thread still does here, settle waits for. */
static void end_part(braid_execution *execution) {
  if (__atomic_sub_fetch(&execution->pending, 1, __ATOMIC_ACQ_REL)) return;
  bool failed = false;
  for (size_t q = 0; q < execution->plan->queue_count; q++) {
    braid_step_id last = execution->last_of_queue[q];
    failed |= last >= 0 && execution->events[last].status != BRAID_OK;
  }
  execution->verdict = finish(execution, failed);
  snprintf(execution->detail, sizeof execution->detail, "%s",
           execution->verdict == BRAID_OK ? "" : braid_error_detail());
  void (*on_done)(void *context, braid_status status) = execution->on_done;
  void *context = execution->context;
  braid_status verdict = execution->verdict;
  __atomic_store_n(&execution->state, BRAID_RUN_ENDED, __ATOMIC_RELEASE);
  braid_futex_wake_all(&execution->state);
  if (!on_done) return;
  const braid_execution *outer = telling;
  telling = execution;
  on_done(context, verdict);
  telling = outer;
}

braid_status braid_execution_submit(braid_execution *execution, const void *const *inputs, void *const *outputs,
                                    void (*on_done)(void *context, braid_status status), void *context) {
  BRAID_TRY(start(execution, inputs, outputs, on_done != NULL));
  execution->on_done = on_done;
  execution->context = context;
  __atomic_store_n(&execution->pending, (uint32_t)execution->queues_used + 1, __ATOMIC_RELEASE);
  __atomic_store_n(&execution->state, BRAID_RUN_IN_FLIGHT, __ATOMIC_RELEASE);
  size_t submitted;
  braid_status status = submit_all(execution, true, &submitted);
  if (status == BRAID_OK) {
    end_part(execution);
    return BRAID_OK;
  }
  braid_status waited = wait_all(execution, submitted, -1);
  __atomic_store_n(&execution->state, BRAID_RUN_NONE, __ATOMIC_RELEASE);
  if (waited == BRAID_DEVICE_LOST) return give_up(execution, submitted, waited);
  return finish(execution, true);
}

/* With looks at the devices: one that is lost may leave tasks that never end. */
static braid_status wait_for_end(braid_execution *execution, int64_t timeout_ns) {
  int64_t deadline = timeout_ns < 0 ? -1 : braid_now_ns() + timeout_ns, gone_ns = -1;
  while (__atomic_load_n(&execution->state, __ATOMIC_ACQUIRE) == BRAID_RUN_IN_FLIGHT) {
    int64_t now = braid_now_ns(), left = deadline < 0 || deadline - now > kLook ? kLook : deadline - now;
    if (deadline >= 0 && left <= 0) return braid_fail(BRAID_TIMEOUT, "the run is in flight");
    if (gone_ns < 0 && braid_machine_lost(execution->machine, execution->devices)) gone_ns = now + kGraceNs;
    if (gone_ns >= 0 && now >= gone_ns) {
      execution->lost = execution->left = true;
      leave_weights(execution);
      return braid_fail(BRAID_DEVICE_LOST, "a device is lost and does not answer");
    }
    (void)braid_futex_wait(&execution->state, BRAID_RUN_IN_FLIGHT, left);
  }
  return BRAID_OK;
}

braid_status braid_execution_wait(braid_execution *execution, int64_t timeout_ns) {
  if (__atomic_load_n(&execution->state, __ATOMIC_ACQUIRE) == BRAID_RUN_NONE)
    return braid_fail(BRAID_INVALID_ARGUMENT, "nothing was submitted");
  BRAID_TRY(wait_for_end(execution, timeout_ns));
  BRAID_TRY(settle_run(execution));
  return execution->verdict == BRAID_OK ? BRAID_OK : braid_fail(execution->verdict, "%s", execution->detail);
}

void braid_execution_cancel(braid_execution *execution) {
  __atomic_store_n(&execution->cancel, 1, __ATOMIC_RELEASE);
}

/* --- the object ----------------------------------------------------------------------------------------------------
 */
braid_status braid_execution_make(braid_plan *plan, braid_weights *weights, int64_t timeout_ns, braid_execution **out) {
  *out = NULL;
  if (weights && weights->machine != plan->machine)
    return braid_fail(BRAID_INVALID_ARGUMENT, "plan and weights are of two machines");
  braid_execution *execution = braid_zalloc(plan->allocator, sizeof *execution);
  if (!execution) return BRAID_NO_MEMORY;
  execution->allocator = plan->allocator;
  execution->plan = braid_plan_retain(plan);
  execution->machine = plan->machine;
  execution->timeout_ns = timeout_ns;
  braid_errand_init(&execution->errand, plan->machine);
  braid_status status = BRAID_OK;
  if (weights)
    execution->weights = braid_weights_retain(weights);
  else
    status = braid_weights_make(plan->machine, true, timeout_ns, &execution->weights);
  pthread_mutex_lock(&plan->lock);
  if (status == BRAID_OK) status = braid_execution_bind(execution);
  pthread_mutex_unlock(&plan->lock);
  if (status == BRAID_OK)
    *out = execution;
  else
    braid_execution_destroy(execution);
  return status;
}

braid_status braid_execution_create(braid_plan *plan, braid_weights *weights, braid_execution **out) {
  return braid_execution_make(plan, weights, -1, out);
}

/* Waits for tasks that hung. False: they are on a lost device, which has not ended them. */
static bool wait_for_left_tasks(braid_execution *execution) {
  braid_execution_cancel(execution);
  bool ran = __atomic_load_n(&execution->state, __ATOMIC_ACQUIRE) != BRAID_RUN_NONE;
  if (ran && wait_for_end(execution, -1) == BRAID_OK) settle(execution);
  for (size_t i = 0; execution->left && i < execution->plan->steps.count; i++)
    if (braid_machine_await(execution->machine, execution->devices, &execution->events[i], -1) != BRAID_OK)
      return false;
  return braid_errand_settle(&execution->errand, -1) == BRAID_OK;
}

void braid_execution_destroy(braid_execution *execution) {
  if (!execution) return;
  if (!wait_for_left_tasks(execution)) {
    braid_log_write(BRAID_LOG_WARNING, "a lost device holds on to tasks: their memory is left to it");
    return;
  }
  braid_execution_unbind(execution);
  braid_errand_deinit(&execution->errand);
  braid_weights_release(execution->weights);
  braid_plan_release(execution->plan);
  braid_free(execution->allocator, execution);
}
