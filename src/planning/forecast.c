#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "planning/problem.h"
#include "schedule/memory.h"
#include "schedule/power.h"
#include "schedule/program/program.h"
#include "train/step.h"

struct braid_forecast {
  const braid_allocator *allocator;
  braid_arena *arena;
  braid_modelled_problem modelled;
  braid_choices choices;
  braid_alternatives alternatives;
  braid_power power;
  braid_forecast_summary summary;
  braid_forecast_device *devices;
  const char *note, *placed; /* what is placed by hand; NULL: nothing */
};

/* --- policies ------------------------------------------------------------------------------------------------------
 */
size_t braid_planning_policy_count(void) {
  return braid_policy_count();
}

const char *braid_planning_policy_name(size_t index) {
  return braid_policy_at(index)->name;
}

const char *braid_planning_policy_summary(size_t index) {
  return braid_policy_at(index)->summary;
}

bool braid_planning_policy_no_loss(size_t index) {
  return braid_policy_at(index)->no_loss;
}

static braid_status find_policy(const char *name, const braid_policy **out) {
  char list[512] = "";
  for (size_t i = 0, used = 0; i < braid_policy_count(); i++) {
    *out = braid_policy_at(i);
    if (strcmp((*out)->name, name) == 0) return BRAID_OK;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", (*out)->name);
  }
  return braid_fail(BRAID_NOT_FOUND, "there is no policy \"%.100s\"; there are %s", name, list);
}

braid_status braid_planning_policy_check(const char *name) {
  const braid_policy *policy;
  return find_policy(name, &policy);
}

/* --- making --------------------------------------------------------------------------------------------------------
 */
braid_status braid_planning_step(const braid_graph *model, const braid_graph *discriminator, int64_t batch,
                                 braid_graph **out) {
  braid_train_options options;
  braid_train_options_init(&options);
  options.batch = batch;
  if (discriminator)
    BRAID_TRY(braid_step_graph_adversarial(model, discriminator, &options, out));
  else
    BRAID_TRY(braid_step_graph_alone(model, &options, out));
  braid_status status = braid_graph_compact(*out);
  if (status == BRAID_OK) return BRAID_OK;
  braid_graph_destroy(*out);
  *out = NULL;
  return status;
}

static double value_of(const braid_number *number) {
  return number->source == BRAID_UNKNOWN ? NAN : number->value;
}

static int by_start(const void *left, const void *right, void *context) {
  const braid_choices *choices = context;
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  if (choices->start[a] != choices->start[b]) return choices->start[a] < choices->start[b] ? -1 : 1;
  return (a > b) - (a < b);
}

static void count_device(braid_forecast *f, int device, const braid_offer *offer, double seconds) {
  braid_forecast_device *d = &f->devices[device];
  double longer = offer->seconds.value > 0 ? seconds / offer->seconds.value : 1;
  d->busy_seconds += seconds;
  d->joules += value_of(&offer->joules) * longer / (double)(offer->also_count + 1); /* NAN stays */
  d->tasks++;
}

static braid_status count_devices(braid_forecast *f) {
  const braid_problem *problem = &f->modelled.problem;
  f->devices = braid_arena_alloc(f->arena, (problem->device_count + 1) * sizeof *f->devices);
  if (!f->devices) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < f->choices.task_count; i++) {
    int32_t task = f->choices.order[i];
    const braid_offer *offer = &problem->offers[f->choices.offer_of[task]];
    double seconds = f->choices.end[task] - f->choices.start[task];
    count_device(f, offer->device, offer, seconds);
    for (size_t k = 0; k < offer->also_count; k++) count_device(f, offer->also[k], offer, seconds);
  }
  for (size_t d = 0; d < problem->device_count; d++) {
    double idle = value_of(&problem->devices[d].idle_watts) * (f->choices.seconds.value - f->devices[d].busy_seconds);
    f->devices[d].name = problem->devices[d].name;
    f->devices[d].joules += idle; /* NAN stays */
    f->summary.idle_joules += idle;
    if (f->choices.mean.runs > 0 && !isnan(f->devices[d].joules))
      f->devices[d].joules = f->choices.mean.device_joules[d];
  }
  return BRAID_OK;
}

static braid_status count_memory(braid_forecast *f) {
  const braid_problem *problem = &f->modelled.problem;
  braid_memory_peak *peaks = braid_arena_alloc(f->arena, ((size_t)problem->space_count + 1) * sizeof *peaks);
  if (!peaks) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_memory_peaks(problem, &f->choices, f->allocator, peaks));
  for (size_t d = 0; d < problem->device_count; d++) {
    int space = problem->devices[d].space;
    size_t capacity = problem->capacities ? problem->capacities[space] : 0;
    f->devices[d].peak_memory_bytes = problem->devices[d].borrows ? NAN : (double)peaks[space].bytes;
    f->devices[d].peak_memory_seconds = problem->devices[d].borrows ? NAN : peaks[space].at;
    f->devices[d].memory_bytes = capacity ? (double)capacity : NAN;
  }
  return BRAID_OK;
}

static void count_interference(const braid_problem_device *device, braid_forecast_summary *s) {
  bool beside = device->slower_beside.source != BRAID_UNKNOWN;
  bool traffic = device->slower_with_traffic.source != BRAID_UNKNOWN;
  s->interference |= beside || traffic;
  s->without_interference += !beside || (!traffic && device->space != 0); /* without a link there is no traffic */
}

static void take_mean(const braid_mean_run *mean, braid_forecast_summary *s) {
  if (!isnan(s->seconds)) s->seconds = mean->seconds;
  if (!isnan(s->joules)) s->joules = mean->joules;
  if (!isnan(s->idle_joules)) s->idle_joules = mean->idle_joules;
  if (!isnan(s->average_watts)) s->average_watts = mean->joules / mean->seconds;
  if (!isnan(s->peak_watts)) s->peak_watts = mean->peak_watts;
  if (!isnan(s->cap_violations)) s->cap_violations = mean->violations;
  if (!isnan(s->seconds_above)) s->seconds_above = mean->seconds_above;
}

static void sum_up(braid_forecast *f, double policy_seconds) {
  const braid_choices *choices = &f->choices;
  braid_forecast_summary *s = &f->summary;
  s->seconds = value_of(&choices->seconds);
  s->joules = value_of(&choices->joules);
  s->average_watts = value_of(&f->power.average_watts);
  s->shown_seconds = s->seconds;
  s->peak_watts = value_of(&f->power.peak_watts);
  s->cap_watts = value_of(&f->modelled.problem.cap_watts);
  s->capped = !isnan(s->cap_watts);
  for (size_t d = 0; d < f->modelled.problem.device_count; d++)
    s->capped |= f->modelled.problem.devices[d].cap_watts.source != BRAID_UNKNOWN;
  s->cap_unknown = f->power.violations_unknown;
  s->cap_violations = s->cap_unknown && !f->power.violations ? NAN : (double)f->power.violations;
  s->seconds_above = s->cap_unknown ? NAN : f->power.seconds_above;
  if (choices->mean.runs > 0) take_mean(&choices->mean, s);
  s->moving_seconds = choices->moving_seconds;
  s->exposed_seconds = choices->exposed_seconds;
  s->tasks = choices->task_count;
  s->nodes = f->modelled.problem.node_count;
  s->policy_seconds = policy_seconds;
  for (size_t d = 0; d < f->modelled.problem.device_count; d++)
    s->idle_watts += value_of(&f->modelled.problem.devices[d].idle_watts); /* NAN stays */
  for (size_t d = 0; d < f->modelled.problem.device_count; d++) count_interference(&f->modelled.problem.devices[d], s);
}

/* The offers that a task could have had, for braid_forecast_get_offer. */
static braid_status find_alternatives(braid_forecast *f, bool capped) {
  const braid_problem *problem = &f->modelled.problem;
  bool *refused = braid_zalloc_array(f->allocator, problem->offer_count + 1, sizeof *refused);
  int32_t *ranks = braid_zalloc_array(f->allocator, problem->offer_count + 1, sizeof *ranks);
  braid_status status = refused && ranks ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; refused && ranks && i < problem->offer_count; i++) {
    ranks[i] = (int32_t)i;
    refused[i] = capped && !braid_offer_within_caps(problem, &problem->offers[i]);
  }
  braid_choosing choosing = {
      .problem = problem, .allocator = f->allocator, .arena = f->arena, .refused = refused, .ranks = ranks};
  if (status == BRAID_OK) status = braid_choices_alternatives(&choosing, &f->choices, &f->alternatives);
  braid_free(f->allocator, refused);
  braid_free(f->allocator, ranks);
  return status;
}

static braid_status note_no_bound(braid_forecast *f, const braid_offer *unweighed) {
  const char *what = braid_offer_unknown(&f->modelled.problem, unweighed, f->arena);
  if (!what) return BRAID_NO_MEMORY;
  f->note = braid_arena_format(f->arena, "%s%sThe least energy is not known, since %s is not.", f->note,
                               *f->note ? " " : "", what);
  return f->note ? BRAID_OK : BRAID_NO_MEMORY;
}

/* The larger of what the policy has proved itself, and of the bound for plans that take as long as this one. */
static braid_status find_least(braid_forecast *f, bool capped) {
  const braid_choices *choices = &f->choices;
  const braid_offer *unweighed = NULL;
  braid_number bound = {0};
  if (choices->joules.source != BRAID_UNKNOWN)
    BRAID_TRY(braid_problem_bound(&f->modelled.problem, f->summary.seconds, capped, f->allocator, &bound, &unweighed));
  if (unweighed && !choices->unweighed) BRAID_TRY(note_no_bound(f, unweighed));
  f->summary.least_joules = fmax(value_of(&bound), value_of(&choices->least_joules)); /* NAN if both are */
  return BRAID_OK;
}

static braid_status fix_nodes(braid_forecast *f, const braid_graph *graph, const braid_forecast_options *options) {
  const braid_modelled_problem *modelled = &f->modelled;
  const braid_problem *problem = &modelled->problem;
  braid_problem_node *nodes = (braid_problem_node *)problem->nodes; /* in our arena */
  if (options->place && options->devices)
    return braid_fail(BRAID_INVALID_ARGUMENT, "nodes are placed by a list and by numbers: one of both is expected");
  if (options->place) return braid_modelled_problem_place(modelled, options->place, f->allocator, f->arena, &f->placed);
  if (!options->devices) return BRAID_OK;
  if (problem->node_count != graph->node_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "devices are given for the nodes of a graph that is replicated");
  for (size_t n = 0; n < graph->node_count; n++) {
    if (options->devices[n] < -1 || options->devices[n] >= (int)problem->device_count)
      return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s: there is no device %d", graph->nodes[n].name,
                        options->devices[n]);
    nodes[n].fixed = options->devices[n];
  }
  return BRAID_OK;
}

static braid_status forecast(braid_forecast *f, const braid_graph *graph, const braid_modelled_machine *machine,
                             const braid_forecast_options *options) {
  const braid_policy *policy;
  BRAID_TRY(find_policy(options->policy, &policy));
  if (!(options->cap_watts >= 0))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a cap of %g W, a number above 0 is expected", options->cap_watts);
  BRAID_TRY(braid_arena_create(f->allocator, &f->arena));
  BRAID_TRY(braid_modelled_problem_make(graph, machine, options->cap_watts, options->replicas ? options->replicas : 1,
                                        f->arena, &f->modelled));
  BRAID_TRY(fix_nodes(f, graph, options));
  BRAID_TRY(braid_problem_check(&f->modelled.problem, f->allocator));
  int64_t before = braid_now_ns();
  BRAID_TRY(braid_problem_solve(policy, &f->modelled.problem, f->allocator, f->arena, &f->choices));
  double seconds = (double)(braid_now_ns() - before) * 1e-9;
  BRAID_TRY(braid_policy_note(policy, &f->modelled.problem, &f->choices, f->allocator, f->arena, &f->note));
  if (f->placed) f->note = braid_arena_format(f->arena, "%s%s%s", f->placed, *f->note ? " " : "", f->note);
  if (!f->note) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_power_of(&f->modelled.problem, &f->choices, f->allocator, f->arena, &f->power));
  BRAID_TRY(count_devices(f));
  BRAID_TRY(count_memory(f));
  BRAID_TRY(find_alternatives(f, policy->capped));
  sum_up(f, seconds);
  f->summary.least_joules = NAN;
  if (options->bound) BRAID_TRY(find_least(f, policy->capped));
  qsort_r(f->choices.order, f->choices.task_count, sizeof *f->choices.order, by_start, &f->choices);
  return BRAID_OK;
}

braid_status braid_forecast_create(const braid_graph *graph, const braid_modelled_machine *machine,
                                   const braid_forecast_options *options, const braid_allocator *allocator,
                                   braid_forecast **out) {
  *out = NULL;
  braid_forecast *f = braid_zalloc(allocator, sizeof *f);
  if (!f) return BRAID_NO_MEMORY;
  f->allocator = allocator;
  braid_status status = forecast(f, graph, machine, options);
  if (status == BRAID_OK)
    *out = f;
  else
    braid_forecast_destroy(f);
  return status;
}

void braid_forecast_destroy(braid_forecast *forecast) {
  if (!forecast) return;
  braid_arena_destroy(forecast->arena);
  braid_free(forecast->allocator, forecast);
}

/* --- asking --------------------------------------------------------------------------------------------------------
 */
braid_forecast_summary braid_forecast_get_summary(const braid_forecast *forecast) {
  return forecast->summary;
}

const char *braid_forecast_note(const braid_forecast *forecast) {
  return forecast->note;
}

size_t braid_forecast_device_count(const braid_forecast *forecast) {
  return forecast->modelled.problem.device_count;
}

braid_forecast_device braid_forecast_get_device(const braid_forecast *forecast, size_t index) {
  return forecast->devices[index];
}

braid_forecast_task braid_forecast_get_task(const braid_forecast *forecast, size_t index) {
  const braid_choices *choices = &forecast->choices;
  const braid_problem *problem = &forecast->modelled.problem;
  int32_t task = choices->order[index], offer = choices->offer_of[task];
  const braid_offer *chosen = &problem->offers[offer];
  return (braid_forecast_task){
      .node = problem->nodes[task].name,
      .op = forecast->modelled.ops[task],
      .like = forecast->modelled.likes[task],
      .device = problem->devices[chosen->device].name,
      .device_index = (size_t)chosen->device,
      .devices = chosen->also_count + 1,
      .mhz = forecast->modelled.mhz[offer],
      .lower_clock = chosen->clock > 0,
      .start = choices->start[task],
      .end = choices->end[task],
      .joules = value_of(&chosen->joules),
      .peak_watts = value_of(&chosen->watts),
      .reason = choices->reasons[task],
      .after = choices->after[task] < 0 ? NULL : problem->nodes[choices->after[task]].name,
  };
}

size_t braid_forecast_offer_count(const braid_forecast *forecast, size_t task) {
  int32_t node = forecast->choices.order[task];
  return forecast->alternatives.first[node + 1] - forecast->alternatives.first[node];
}

braid_forecast_offer braid_forecast_get_offer(const braid_forecast *forecast, size_t task, size_t index) {
  int32_t node = forecast->choices.order[task];
  int32_t offer = forecast->alternatives.offers[forecast->alternatives.first[node] + index];
  const braid_offer *o = &forecast->modelled.problem.offers[offer];
  return (braid_forecast_offer){
      .device = forecast->modelled.problem.devices[o->device].name,
      .devices = o->also_count + 1,
      .mhz = forecast->modelled.mhz[offer],
      .seconds = value_of(&o->seconds),
      .joules = value_of(&o->joules),
      .peak_watts = value_of(&o->watts),
      .chosen = forecast->choices.offer_of[node] == offer,
  };
}

size_t braid_forecast_power_count(const braid_forecast *forecast) {
  return forecast->power.count;
}

braid_forecast_power braid_forecast_get_power(const braid_forecast *forecast, size_t index) {
  braid_power_step step = forecast->power.steps[index];
  return (braid_forecast_power){step.from, step.watts, step.peak_watts};
}
