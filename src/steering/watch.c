/* After each step: what it took, and whether the plan is still the right one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "base/vector.h"
#include "measure/measure.h"
#include "steering/state.h"

static const double kTrainingShare = 0.5; /* of a span whose power counts */
static const double kMostLoss = 0.05;     /* by which a plan may be slower than one device, in the noise of steps */

/* --- what a step took ----------------------------------------------------------------------------------------------
 */
static void note_operations(braid_steering *s) {
  for (size_t i = 0; i < s->part_count; i++) {
    const braid_steering_part *part = &s->parts[i];
    double seconds = braid_trainer_task_seconds(s->trainer, part->task);
    if (seconds >= 0) braid_drift_add(&s->drift, part->node, seconds * part->share);
  }
  braid_drift_end_step(&s->drift, s->trainer->step_seconds);
}

/* Power while it trained: spans in which tests and checkpoints took most of the time are left out. */
static void note_energy(braid_steering *s, braid_steering_stretch *stretch, bool counts) {
  braid_power_sums sums = braid_power_sampler_read(&s->sampler);
  double now = (double)braid_now_ns() * 1e-9;
  if (counts && s->trainer->step_seconds > kTrainingShare * (now - s->looked_at))
    for (size_t d = 0; d < sums.count; d++) {
      stretch->joules[d] += sums.joules[d] - s->then.joules[d];
      stretch->metered[d] += sums.seconds[d] - s->then.seconds[d];
    }
  s->then = sums;
  s->looked_at = now;
}

static braid_status note_step(braid_steering *s, bool cold) {
  braid_steering_stretch *stretch = &s->stretches[s->current];
  stretch->run.steps++;
  note_energy(s, stretch, !cold);
  if (cold) return BRAID_OK;
  note_operations(s);
  double *seconds =
      braid_grow(s->allocator, stretch->seconds, stretch->count, &stretch->capacity, sizeof *stretch->seconds);
  if (!seconds) return BRAID_NO_MEMORY;
  stretch->seconds = seconds;
  seconds[stretch->count++] = s->trainer->step_seconds;
  return BRAID_OK;
}

/* --- correcting costs ----------------------------------------------------------------------------------------------
 */
/* Operations that run elsewhere, or did not run, change as those that did, if these drift. */
static double factor_of(const braid_steering *s, size_t device) {
  double is = 0, was = 0;
  for (size_t n = 0; n < s->graph->node_count; n++) {
    if (s->placed[n] != (int)device || s->drift.medians[n] < 0) continue;
    is += s->drift.medians[n];
    was += s->planned[n];
  }
  double factor = is > 0 && was > 0 ? is / was : 1;
  return factor > 1 + s->options.drift || factor * (1 + s->options.drift) < 1 ? factor : 1;
}

static braid_status correct_device(braid_steering *s, size_t device, double factor) {
  double *seconds = braid_zalloc_array(s->allocator, s->graph->node_count + 1, sizeof *seconds);
  if (!seconds) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < s->graph->node_count; n++) seconds[n] = s->placed[n] == (int)device ? s->drift.medians[n] : -1;
  braid_status status = braid_costs_correct(&s->costs, device, seconds, factor);
  braid_free(s->allocator, seconds);
  return status;
}

static braid_status correct_all(braid_steering *s) {
  double factors[kMaxDevices];
  for (size_t d = 0; d < s->costs.device_count; d++) factors[d] = factor_of(s, d);
  for (size_t d = 0; d < s->costs.device_count; d++) BRAID_TRY(correct_device(s, d, factors[d]));
  return BRAID_OK;
}

/* --- events --------------------------------------------------------------------------------------------------------
 */
static braid_status add_event(braid_steering *s, const braid_steering_event *event) {
  if (!event->reason || !event->from || !event->to) return BRAID_NO_MEMORY;
  braid_steering_event *items = braid_grow(s->allocator, s->events, s->event_count, &s->event_capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  s->events = items;
  items[s->event_count++] = *event;
  return BRAID_OK;
}

static braid_status publish_event(braid_steering *s, const braid_steering_event *event) {
  braid_events *file = s->trainer->events;
  const struct {
    const char *tag;
    double value;
  } numbers[] = {{"plan/operations_moved", (double)event->moved},
                 {"plan/seconds_to_recover", event->recover_seconds},
                 {"plan/steps_lost", event->steps_lost}};
  braid_log_write(
      s->trainer->log, BRAID_LOG_WARNING,
      "step %lld: %s; %zu operations move (%s; now %s), %.1f ms for the policy, %.1f ms to prepare, %.3f ms "
      "to switch",
      (long long)event->step, event->reason, event->moved, event->from, event->to, event->policy_seconds * 1e3,
      event->prepare_seconds * 1e3, event->switch_seconds * 1e3);
  if (!file) return BRAID_OK;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (isfinite(numbers[i].value)) BRAID_TRY(braid_events_scalar(file, event->step, numbers[i].tag, numbers[i].value));
  return braid_events_flush(file);
}

static const char *write_reason(braid_steering *s, const braid_drift_verdict *v) {
  return braid_arena_format(
      s->arena,
      "%s: %zu of %zu operations take together %.2f times what the plan has, most of all %.100s, %.3g "
      "ms and not %.3g",
      s->costs.specs[v->device], v->drifting, v->measured, v->factor, s->graph->nodes[v->node].name, v->is * 1e3,
      v->was * 1e3);
}

static size_t count_moved(const braid_steering *s) {
  size_t moved = 0;
  for (size_t n = 0; n < s->graph->node_count; n++) moved += s->asked.devices[n] != s->plan.devices[n];
  return moved;
}

static double median_seconds(const braid_steering *s, const braid_steering_stretch *stretch) {
  double *copy = braid_alloc(s->allocator, (stretch->count + 1) * sizeof *copy), median = NAN;
  if (copy && stretch->count) {
    memcpy(copy, stretch->seconds, stretch->count * sizeof *copy);
    median = braid_median(copy, stretch->count);
  }
  braid_free(s->allocator, copy);
  return median;
}

/* --- no loss -------------------------------------------------------------------------------------------------------
 */
/* What a step takes on the fastest device alone, by what was measured and the costs of now; NAN: none ran alone. */
static double fastest_alone(const braid_steering *s, size_t *device) {
  double least = NAN;
  for (size_t d = 0; d < s->costs.device_count; d++) {
    double seconds = s->pace[d] * braid_costs_sum(&s->costs, d);
    if (!(seconds >= least) && !isnan(seconds)) least = seconds, *device = d;
  }
  return least;
}

/* A plan of the policy for several devices has lost to one device, and by the same excess over its forecast this one
 * would, too. */
static bool loses_again(const braid_steering *s) {
  size_t device;
  int first = -1;
  bool several = false;
  for (size_t n = 0; n < s->graph->node_count; n++) {
    if (s->asked.devices[n] < 0) continue;
    if (first < 0) first = s->asked.devices[n];
    several |= s->asked.devices[n] != first;
  }
  double seconds = s->asked.forecast.seconds * (double)s->trainer->options.accumulate * s->excess;
  return several && s->excess > 0 && seconds > fastest_alone(s, &device) * (1 + kMostLoss);
}

/* --- another plan --------------------------------------------------------------------------------------------------
 */
/* A plan that the policy or the runtime refuses leaves the one that runs. */
static braid_status keep_plan(braid_steering *s, braid_status status) {
  if (status == BRAID_NO_MEMORY) return status;
  braid_log_write(s->trainer->log, BRAID_LOG_WARNING, "the plan stays, since another one was refused: %s",
                  braid_error_detail());
  braid_steering_find_parts(s);
  braid_drift_reset(&s->drift);
  return BRAID_OK;
}

/* The plan goes on, at other costs. */
static void keep_same(braid_steering *s, const char *reason, const char *why) {
  braid_steering_run *run = &s->stretches[s->current].run;
  s->corrections++;
  run->planned_seconds = s->asked.forecast.seconds * (double)s->trainer->options.accumulate;
  run->planned_joules = s->asked.forecast.joules * (double)s->trainer->options.accumulate;
  s->plan.forecast = s->asked.forecast;
  s->plan.waits = s->asked.waits;
  braid_steering_find_parts(s);
  s->usual = NAN; /* it is held against one device again, by the costs of now */
  braid_drift_reset(&s->drift);
  braid_log_write(s->trainer->log, BRAID_LOG_INFO, "step %lld: %s; by these costs %s", (long long)s->seen, reason, why);
}

/* Steps that took longer than they should: how many, how long together, how long each should take, and since when
 * another plan is made. */
typedef struct slow_steps {
  size_t count;
  double seconds, usual, began;
} slow_steps;

static braid_status take_answer(braid_steering *s, braid_steering_event *event, const slow_steps *slow) {
  braid_replacement replaced;
  event->step = s->seen;
  event->moved = count_moved(s);
  event->from = braid_steering_count(s, s->plan.devices);
  event->to = braid_steering_count(s, s->asked.devices);
  braid_status status = braid_steering_switch(s, -1, &replaced);
  if (status != BRAID_OK) return keep_plan(s, status);
  event->prepare_seconds = replaced.prepare_seconds;
  event->switch_seconds = replaced.switch_seconds;
  event->copied = replaced.moved;
  event->recover_seconds = slow->seconds + (double)braid_now_ns() * 1e-9 - slow->began; /* NAN stays */
  event->steps_lost = braid_drift_lost(event->recover_seconds, slow->count, slow->usual);
  BRAID_TRY(add_event(s, event));
  return publish_event(s, event);
}

static braid_status plan_again(braid_steering *s, const braid_drift_verdict *verdict) {
  double slow_seconds = NAN, usual = s->usual, began = (double)braid_now_ns() * 1e-9;
  braid_steering_event event = {.reason = write_reason(s, verdict)};
  if (isnan(usual)) usual = braid_drift_before(&s->drift, s->options.drift);
  size_t slow = isnan(usual) ? 0 : braid_drift_onset(&s->drift, usual, &slow_seconds);
  if (!event.reason) return BRAID_NO_MEMORY;
  BRAID_TRY(correct_all(s));
  braid_status status = braid_steering_ask(s);
  if (status != BRAID_OK) return keep_plan(s, status);
  braid_forecast_summary now = s->asked.forecast;
  if (!count_moved(s)) {
    keep_same(s, event.reason, "the plan is the same");
    return BRAID_OK;
  }
  bool gains = braid_steering_gains(s, &now);
  if (!gains || loses_again(s)) {
    s->asked.forecast = now;
    s->asked.waits = s->plan.waits;
    keep_same(s, event.reason,
              gains ? "another plan would lose to one device, as one did" : "another plan would gain next to nothing");
    return BRAID_OK;
  }
  event.policy_seconds = s->asked.policy_seconds;
  return take_answer(s, &event, &(slow_steps){slow, slow_seconds, usual, began});
}

static braid_status end_alone(braid_steering *s) {
  braid_drift_find_medians(&s->drift);
  BRAID_TRY(correct_device(s, (size_t)s->alone, 1));
  s->pace[s->alone] = median_seconds(s, &s->stretches[s->alone]) / braid_costs_sum(&s->costs, (size_t)s->alone);
  BRAID_TRY(braid_steering_ask(s));
  return braid_steering_next(s, s->alone + 1);
}

/* A forecast has operations and transfers, and does not know what they do to each other here: a plan that turns out to
 * be slower than one device leaves everything to that. */
static braid_status keep_pace(braid_steering *s, bool *replaced) {
  size_t device = 0;
  double is = braid_drift_step_seconds(&s->drift), least = fastest_alone(s, &device);
  *replaced = false;
  if (!s->no_loss || !(is > least * (1 + kMostLoss))) return BRAID_OK;
  double began = (double)braid_now_ns() * 1e-9;
  for (size_t n = 0; n < s->graph->node_count; n++) s->asked.devices[n] = s->plan.devices[n] < 0 ? -1 : (int)device;
  if (!count_moved(s)) return BRAID_OK;
  s->excess = is / (s->plan.forecast.seconds * (double)s->trainer->options.accumulate);
  BRAID_TRY(braid_steering_forecast(s, s->asked.devices, &s->asked.forecast));
  s->asked.waits = s->asked.ordered = 0;
  s->asked.what = braid_arena_format(s->arena, "%s, as it is faster", s->costs.specs[device]);
  braid_steering_event event = {.reason = braid_arena_format(s->arena, "%s takes %.4g ms a step, %s alone %.4g",
                                                             s->options.policy, is * 1e3, s->costs.specs[device],
                                                             least * 1e3)};
  if (!s->asked.what || !event.reason) return BRAID_NO_MEMORY;
  *replaced = true;
  return take_answer(s, &event, &(slow_steps){s->drift.window, is * (double)s->drift.window, least, began});
}

/* --- after each step -----------------------------------------------------------------------------------------------
 */
static braid_status judge_plan(braid_steering *s) {
  if (braid_steering_steps_left(s) <= 0) return BRAID_OK; /* nothing would run by another plan */
  size_t half = (s->drift.window + 1) / 2;
  if (s->drift.taken < s->drift.window || (s->drift.taken - s->drift.window) % half) return BRAID_OK;
  bool replaced = false;
  if (isnan(s->usual)) BRAID_TRY(keep_pace(s, &replaced)); /* it is judged for the first time */
  if (replaced) return BRAID_OK;
  braid_drift_find_medians(&s->drift);
  braid_drift_verdict verdict =
      braid_drift_judge(&s->drift, s->placed, s->planned, s->costs.device_count, s->options.drift);
  if (verdict.drifts) return plan_again(s, &verdict);
  if (isnan(s->usual)) s->usual = braid_drift_step_seconds(&s->drift);
  return BRAID_OK;
}

braid_status braid_steering_step(braid_steering *s) {
  int64_t done = braid_trainer_steps_done(s->trainer);
  if (done == s->seen) return BRAID_OK; /* a test or the end of an epoch */
  s->seen = done;
  BRAID_TRY(note_step(s, done == s->switched_at + 1));
  if (s->alone < 0) return judge_plan(s);
  return done - s->switched_at < s->options.alone ? BRAID_OK : end_alone(s);
}

/* --- what came of it -----------------------------------------------------------------------------------------------
 */
size_t braid_steering_run_count(const braid_steering *s) {
  return s->stretch_count;
}

/* Of a step: the power of all devices while it trained, times the mean step. */
static double mean_joules(const braid_steering *s, const braid_steering_stretch *stretch) {
  double watts = s->sampler.count ? 0 : NAN, sum = 0;
  for (size_t i = 0; i < stretch->count; i++) sum += stretch->seconds[i];
  for (size_t d = 0; d < s->sampler.count; d++)
    watts += stretch->metered[d] > 0 ? stretch->joules[d] / stretch->metered[d] : NAN;
  return watts * sum / (double)stretch->count; /* 0 / 0 is NAN */
}

braid_steering_run braid_steering_get_run(const braid_steering *s, size_t index) {
  const braid_steering_stretch *stretch = &s->stretches[index];
  braid_steering_run run = stretch->run;
  run.seconds = median_seconds(s, stretch);
  run.joules = s->sampler.unknown.length ? NAN : mean_joules(s, stretch);
  return run;
}

size_t braid_steering_event_count(const braid_steering *s) {
  return s->event_count;
}

braid_steering_event braid_steering_get_event(const braid_steering *s, size_t index) {
  return s->events[index];
}

braid_steering_power braid_steering_get_power(const braid_steering *s) {
  braid_power_sums sums = braid_power_sampler_read((braid_power_sampler *)&s->sampler);
  static const braid_power_sums kStart;
  const braid_steering_answer *plan = s->alone >= 0 ? &s->asked : &s->plan;
  return (braid_steering_power){.cap_watts = s->sampler.cap_watts,
                                .unknown = s->sampler.unknown.data,
                                .any = s->sampler.count > 0,
                                .samples = sums.samples,
                                .violations = sums.violations,
                                .average_watts = braid_power_watts(&sums, &kStart),
                                .peak_watts = sums.peak_watts,
                                .joules = braid_power_joules(&sums, &kStart),
                                .planned_violations = plan->forecast.cap_violations,
                                .planned_unknown = plan->forecast.cap_unknown,
                                .waits = plan->waits};
}

size_t braid_steering_corrections(const braid_steering *s) {
  return s->corrections;
}

const char *braid_steering_source(const braid_steering *s) {
  return s->source;
}
