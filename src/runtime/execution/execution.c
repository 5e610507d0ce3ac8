/* Running a plan: every queue is given its steps in the plan's order, with the points they have to wait for, by one
 * call where it has recorded them, and the queues do the rest; the caller sleeps until the last step of each queue has
 * ended. In steady state nothing is allocated, and no step waits for the host.
 *
 * Why no dependency counters: a queue runs its tasks in order, so within a queue the plan's order is enough, and across
 * queues hazard.c has reduced dependencies to the few waits that order does not imply. */
#include "runtime/execution/execution.h"
#include "runtime/plan/restore.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/thread.h"
#include "base/try.h"

/* --- how a run ended -----------------------------------------------------------------------------------------------
 */
static braid_status fail_at_step(const braid_execution *execution, size_t step, braid_status status,
                                 const char *detail) {
  const braid_step *at = &execution->plan->steps.items[step];
  return braid_fail(status, "node %.120s (%s) on %s%s%s: %s", at->label, at->op,
                    execution->machine->devices[at->device].label, at->kernel ? ", kernel " : "",
                    at->kernel ? at->kernel->name : "", detail[0] ? detail : braid_status_text(status));
}

/* How the run failed, or that it was cancelled. A device that is gone takes the execution with it. */
static braid_status run_failure(braid_execution *execution) {
  const braid_verdict *verdict = &execution->verdict;
  execution->lost = braid_machine_lost(execution->machine, execution->devices);
  if (verdict->status == BRAID_OK) return braid_fail(BRAID_CANCELLED, "the run was cancelled");
  return fail_at_step(execution, (size_t)(verdict->task - execution->tasks), verdict->status, verdict->detail);
}

/* Timings are for the plan's lines and the trace: without one, the first runs are enough. */
static void stop_timing(braid_execution *execution) {
  for (size_t i = 0; i < execution->plan->steps.count; i++) execution->tasks[i].timing = NULL;
}

static void record_times(braid_execution *execution) {
  bool always = execution->trace || execution->timed;
  if (!always && execution->runs >= kSamples) return;
  for (size_t i = 0; i < execution->plan->steps.count; i++) {
    const braid_timing *timing = &execution->timings[i];
    int64_t ns = timing->end_ns - timing->start_ns;
    if (timing->end_ns == 0) continue;
    int64_t *sample = &execution->samples[i * kSamples + execution->runs % kSamples];
    __atomic_store_n(sample, ns, __ATOMIC_RELAXED); /* the plan may be looked at */
    double energy = timing->energy_uj;
    __atomic_store(&execution->energies[i], &energy, __ATOMIC_RELAXED);
    if (execution->trace)
      braid_trace_add(execution->trace, execution->runs, (braid_step_id)i, timing->start_ns, timing->end_ns);
  }
  if (++execution->runs != kSamples) return;
  braid_execution_keep_times(execution);
  if (!always) stop_timing(execution);
}

static void leave_weights(braid_execution *execution) {
  if (__atomic_exchange_n(&execution->holds, false, __ATOMIC_ACQ_REL))
    braid_weights_leave(execution->weights, execution->plan->writes_weights, execution->devices);
}

/* Of a run whose tasks have all ended. */
static braid_status finish_run(braid_execution *execution) {
  braid_status status = BRAID_OK;
  if (braid_verdict_cancelled(&execution->verdict)) {
    status = run_failure(execution);
    braid_execution_tear(execution, true);
  } else {
    record_times(execution);
    status = braid_ports_return(execution);
  }
  leave_weights(execution);
  return status;
}

/* --- submitting ----------------------------------------------------------------------------------------------------
 * An execution over several queues is submitted with all of them locked, in the order of their numbers: otherwise two
 * could wait for each other, each first in one queue and second in the other. */
static void lock_parts(braid_execution *execution) {
  for (size_t q = 0; q < execution->plan->queue_count; q++) {
    braid_part *part = &execution->parts[q];
    if (!part->queue) continue;
    pthread_mutex_lock(&part->queue->lock);
    part->before = part->queue->last;
    part->submitted = 0;
  }
}

static void unlock_parts(braid_execution *execution) {
  for (size_t q = 0; q < execution->plan->queue_count; q++)
    if (execution->parts[q].queue) pthread_mutex_unlock(&execution->parts[q].queue->lock);
}

/* The values of this run that tasks wait for. */
static void fill_waits(braid_execution *execution) {
  braid_point *point = execution->waits;
  for (size_t i = 0; execution->queues_used > 1 && i < execution->plan->steps.count; i++) {
    const braid_step *step = &execution->plan->steps.items[i];
    for (size_t w = 0; w < step->wait_count; w++) {
      const braid_part *part = &execution->parts[step->waits[w].queue];
      *point++ = (braid_point){part->queue->timeline, part->before + 1 + (uint64_t)step->waits[w].nth};
    }
  }
}

/* The parts that are recorded, in the order in which they begin in the plan: a driver is then told of what a queue
 * waits for first before it is told of the wait, and this thread goes on. What they wait for may still have to be
 * submitted: its values are settled. */
static braid_status replay_parts(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  for (size_t i = 0; i < plan->steps.count; i++) {
    braid_part *part = &execution->parts[plan->steps.items[i].queue];
    if (plan->steps.items[i].nth || !part->recording) continue;
    braid_status status = braid_queue_replay_locked(part->queue, part->recording, part->count);
    if (status != BRAID_OK) {
      braid_verdict_fail(&execution->verdict, part->tasks[0], status);
      return status;
    }
    part->submitted = part->count;
  }
  return BRAID_OK;
}

/* The steps of the others, in the plan's order. */
static braid_status submit_steps(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  for (size_t i = 0; i < plan->steps.count; i++) {
    braid_part *part = &execution->parts[plan->steps.items[i].queue];
    if (part->recording) continue;
    braid_status status = braid_queue_submit_locked(part->queue, &execution->tasks[i]);
    if (status != BRAID_OK) {
      braid_verdict_fail(&execution->verdict, &execution->tasks[i], status);
      return status;
    }
    part->submitted++;
  }
  return BRAID_OK;
}

/* On failure what comes before that which was refused is in flight, and cancelled. */
static braid_status submit_parts(braid_execution *execution) {
  lock_parts(execution);
  fill_waits(execution);
  bool early =
      braid_verdict_cancelled(&execution->verdict); /* nothing is to be run, so nothing is said to have begun */
  braid_status status = early ? BRAID_OK : replay_parts(execution);
  if (status == BRAID_OK && !early && execution->unrecorded) status = submit_steps(execution);
  for (size_t q = 0; q < execution->plan->queue_count; q++)
    if (execution->parts[q].submitted) braid_queue_flush(execution->parts[q].queue);
  unlock_parts(execution);
  return status;
}

static braid_point end_of_part(const braid_part *part) {
  return (braid_point){part->queue->timeline, part->before + part->submitted};
}

/* Waits for the last step of every queue that was submitted. */
static braid_status wait_for_parts(const braid_execution *execution, int64_t timeout_ns) {
  int64_t deadline = braid_deadline_ns(timeout_ns);
  for (size_t q = 0; q < execution->plan->queue_count; q++) {
    const braid_part *part = &execution->parts[q];
    if (part->submitted)
      BRAID_TRY(braid_machine_await(execution->machine, execution->devices, end_of_part(part), deadline));
  }
  return BRAID_OK;
}

/* The first step in the plan's order that was submitted and has not ended; if there is none, the first. */
static size_t find_hung_step(const braid_execution *execution) {
  for (size_t i = 0; i < execution->plan->steps.count; i++) {
    const braid_step *step = &execution->plan->steps.items[i];
    const braid_part *part = &execution->parts[step->queue];
    if ((uint64_t)step->nth < part->submitted &&
        !braid_timeline_reached(part->queue->timeline, part->before + 1 + (uint64_t)step->nth))
      return i;
  }
  return 0;
}

/* Cancels the tasks that have not started and lets the running one finish within the same time again (on a lost device,
 * within kGraceNs). `why`: TIMEOUT or DEVICE_LOST. */
static braid_status give_up_run(braid_execution *execution, braid_status why) {
  size_t hung = find_hung_step(execution);
  braid_verdict_cancel(&execution->verdict);
  execution->left = wait_for_parts(execution, why == BRAID_TIMEOUT ? execution->timeout_ns : kGraceNs) != BRAID_OK;
  braid_execution_tear(execution, !execution->left);
  leave_weights(execution);
  execution->lost = execution->left || why == BRAID_DEVICE_LOST;
  char detail[96];
  if (why == BRAID_TIMEOUT)
    snprintf(detail, sizeof detail, "not done after %lld ms%s", (long long)(execution->timeout_ns / 1000000),
             execution->lost ? "; the session is lost" : "");
  else
    snprintf(detail, sizeof detail, "the device is lost and does not answer; the session is lost");
  return fail_at_step(execution, hung, why, detail);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
/* The execution whose on_done this thread is in. */
static _Thread_local const braid_execution *telling;

static uint32_t load_state(const braid_execution *execution) {
  return __atomic_load_n(&execution->state, __ATOMIC_ACQUIRE);
}

/* Who sees the new state may free the execution; waking whoever sleeps at the address does no harm. */
static void set_state(braid_execution *execution, braid_run_state state) {
  uint32_t *word = &execution->state;
  __atomic_store_n(word, state, __ATOMIC_RELEASE);
  braid_futex_wake_all(word);
}

static bool change_state(braid_execution *execution, uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(&execution->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* After the end of a run that was not waited for at once. TIMEOUT: outputs are still on their way. */
static braid_status settle_run(braid_execution *execution, int64_t deadline) {
  if (load_state(execution) != BRAID_RUN_ENDED) return BRAID_OK;
  braid_status status = BRAID_OK;
  if (execution->outcome == BRAID_OK && execution->late_outputs) status = braid_ports_return_late(execution, deadline);
  if (status != BRAID_TIMEOUT) __atomic_store_n(&execution->state, BRAID_RUN_NONE, __ATOMIC_RELEASE);
  return status;
}

braid_status braid_execution_check_idle(braid_execution *execution) {
  if (load_state(execution) == BRAID_RUN_IN_FLIGHT || telling == execution)
    return braid_fail(BRAID_BUSY, "the execution's last run is in flight");
  while (load_state(execution) == BRAID_RUN_ENDING) (void)braid_futex_wait(&execution->state, BRAID_RUN_ENDING, -1);
  if (execution->lost) return braid_fail(BRAID_DEVICE_LOST, "an earlier run hung or lost its device");
  return BRAID_OK;
}

braid_status braid_execution_check_settled(braid_execution *execution) {
  BRAID_TRY(braid_execution_check_idle(execution));
  if (load_state(execution) == BRAID_RUN_ENDED && execution->outcome == BRAID_OK && execution->late_outputs)
    return braid_fail(BRAID_BUSY, "outputs of the execution's last run are moved when it is waited for");
  return BRAID_OK;
}

/* Before a run: what it works on is the caller's, and the weights are its. `told`: somebody is called at its end. */
static braid_status start_run(braid_execution *execution, const void *const *inputs, void *const *outputs, bool told) {
  BRAID_TRY(braid_execution_check_settled(execution));
  __atomic_store_n(&execution->state, BRAID_RUN_NONE, __ATOMIC_RELEASE);
  BRAID_TRY(braid_ports_bind(execution, inputs, outputs));
  if (told && execution->late_outputs)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "a run with a callback needs its outputs in memory that they are computed in");
  const braid_plan *plan = execution->plan;
  bool holds = !execution->weights->own && (plan->reads_weights || plan->writes_weights);
  braid_verdict_init(&execution->verdict); /* from here on it can be cancelled: the weights may keep us waiting */
  if (holds) BRAID_TRY(braid_weights_enter(execution->weights, plan->writes_weights, execution->devices));
  __atomic_store_n(&execution->holds, holds, __ATOMIC_RELEASE);
  braid_execution_watch_writers(execution);
  braid_status whole = braid_execution_check_whole(execution);
  if (whole != BRAID_OK) leave_weights(execution);
  return whole;
}

static braid_status run_and_wait(braid_execution *execution) {
  braid_part *here = execution->here;
  if (here && braid_queue_run(here->queue, here->recording, here->count)) {
    here->submitted = here->count;
    return finish_run(execution);
  }
  (void)submit_parts(execution); /* the verdict says so */
  braid_status waited = wait_for_parts(execution, execution->timeout_ns);
  return waited == BRAID_OK ? finish_run(execution) : give_up_run(execution, waited);
}

braid_status braid_execution_run(braid_execution *execution, const void *const *inputs, void *const *outputs) {
  BRAID_TRY(start_run(execution, inputs, outputs, false));
  BRAID_TRY(run_and_wait(execution));
  return execution->late_outputs ? braid_ports_return_late(execution, -1) : BRAID_OK;
}

/* Whoever has taken the run from IN_FLIGHT tells how it ended. */
static void tell_end(braid_execution *execution, braid_status outcome) {
  execution->outcome = outcome;
  snprintf(execution->detail, sizeof execution->detail, "%s", outcome == BRAID_OK ? "" : braid_error_detail());
  if (!execution->on_done) return;
  const braid_execution *outer = telling;
  telling = execution;
  execution->on_done(execution->context, outcome);
  telling = outer;
}

/* One of those that a run waits for has ended; who is last ends the run, unless it was given up. */
static void end_part(braid_execution *execution) {
  if (__atomic_sub_fetch(&execution->pending, 1, __ATOMIC_ACQ_REL)) return;
  if (change_state(execution, BRAID_RUN_IN_FLIGHT, BRAID_RUN_ENDING)) tell_end(execution, finish_run(execution));
  set_state(execution, BRAID_RUN_ENDED);
}

static void on_last(braid_notice *notice) {
  end_part(((braid_part *)notice)->execution);
}

braid_status braid_execution_submit(braid_execution *execution, const void *const *inputs, void *const *outputs,
                                    void (*on_done)(void *context, braid_status status), void *context) {
  BRAID_TRY(start_run(execution, inputs, outputs, on_done != NULL));
  if (submit_parts(execution) != BRAID_OK) {
    braid_status waited = wait_for_parts(execution, -1);
    return waited == BRAID_OK ? finish_run(execution) : give_up_run(execution, waited);
  }
  execution->on_done = on_done;
  execution->context = context;
  __atomic_store_n(&execution->pending, (uint32_t)execution->queues_used + 1, __ATOMIC_RELEASE);
  __atomic_store_n(&execution->state, BRAID_RUN_IN_FLIGHT, __ATOMIC_RELEASE);
  for (size_t q = 0; q < execution->plan->queue_count; q++) {
    braid_part *part = &execution->parts[q];
    if (!part->queue) continue;
    part->notice.call = on_last;
    braid_timeline_notify(part->queue->timeline, end_of_part(part).value, &part->notice);
  }
  end_part(execution);
  return BRAID_OK;
}

/* Nobody ends the run any more: a device is lost. */
static braid_status leave_run(braid_execution *execution) {
  if (!change_state(execution, BRAID_RUN_IN_FLIGHT, BRAID_RUN_LEFT)) return BRAID_OK; /* it has ended after all */
  braid_verdict_cancel(&execution->verdict);
  execution->lost = true;
  braid_execution_tear(execution, false);
  leave_weights(execution);
  braid_status status = braid_fail(BRAID_DEVICE_LOST, "a device is lost and does not answer");
  tell_end(execution, status);
  return status;
}

/* With looks at the devices: one that is lost may leave tasks that never end. */
static braid_status wait_for_end(braid_execution *execution, int64_t deadline) {
  int64_t gone_ns = -1;
  uint32_t state;
  while ((state = load_state(execution)) == BRAID_RUN_IN_FLIGHT || state == BRAID_RUN_ENDING) {
    int64_t now = braid_now_ns(), left = deadline < 0 || deadline - now > kLookNs ? kLookNs : deadline - now;
    if (deadline >= 0 && left <= 0) return braid_fail(BRAID_TIMEOUT, "the run is in flight");
    if (gone_ns < 0 && braid_machine_lost(execution->machine, execution->devices)) gone_ns = now + kGraceNs;
    if (gone_ns >= 0 && now >= gone_ns) BRAID_TRY(leave_run(execution));
    (void)braid_futex_wait(&execution->state, state, left);
  }
  return BRAID_OK;
}

braid_status braid_execution_wait(braid_execution *execution, int64_t timeout_ns) {
  if (telling == execution) return braid_fail(BRAID_BUSY, "the execution's on_done waits for its own end");
  if (load_state(execution) == BRAID_RUN_NONE) return braid_fail(BRAID_INVALID_ARGUMENT, "nothing was submitted");
  int64_t deadline = braid_deadline_ns(timeout_ns);
  BRAID_TRY(wait_for_end(execution, deadline));
  BRAID_TRY(settle_run(execution, deadline));
  return execution->outcome == BRAID_OK ? BRAID_OK : braid_fail(execution->outcome, "%s", execution->detail);
}

void braid_execution_cancel(braid_execution *execution) {
  braid_verdict_cancel(&execution->verdict);
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
  braid_sync_task_init(&execution->sync_task, plan->machine);
  braid_status status = BRAID_OK;
  if (weights)
    execution->weights = braid_weights_retain(weights);
  else
    status = braid_weights_make(plan->machine, true, timeout_ns, &execution->weights);
  pthread_mutex_lock(&plan->lock);
  if (status == BRAID_OK) status = braid_plan_recover(plan);
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

/* Waits for tasks that may still come back to the execution's memory. False: a lost device has not ended them. */
static bool wait_for_left_tasks(braid_execution *execution) {
  braid_execution_cancel(execution);
  (void)wait_for_end(execution, -1);
  int64_t deadline = braid_deadline_ns(kGraceNs), now;
  while (load_state(execution) == BRAID_RUN_LEFT && (now = braid_now_ns()) < deadline)
    (void)braid_futex_wait(&execution->state, BRAID_RUN_LEFT, deadline - now);
  if (load_state(execution) == BRAID_RUN_LEFT) return false;
  if (execution->left && wait_for_parts(execution, -1) != BRAID_OK) return false;
  if (braid_sync_task_settle(&execution->sync_task, -1) != BRAID_OK) return false;
  return !execution->weights ||
         braid_weights_returned(execution->weights, execution->arenas ? execution->arenas->memory : NULL);
}

void braid_execution_destroy(braid_execution *execution) {
  if (!execution) return;
  if (!wait_for_left_tasks(execution)) {
    braid_log_write(execution->plan->machine->log, BRAID_LOG_WARNING,
                    "a lost device holds on to tasks: their memory is left to it");
    return;
  }
  if (execution->runs < kSamples) braid_execution_keep_times(execution);
  braid_execution_unbind(execution);
  braid_sync_task_deinit(&execution->sync_task);
  braid_weights_release(execution->weights);
  braid_plan_release(execution->plan);
  braid_free(execution->allocator, execution);
}
