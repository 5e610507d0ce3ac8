#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "base/vector.h"
#include "measure/measure.h"
#include "steering/state.h"

/* kQuickSeconds: for each operation, and as much for its energy. */
static const double kQuickSeconds = 0.05, kMostDays = 90;
enum { kMostWindow = 1024 };

void braid_steering_options_init(braid_steering_options *options) {
  *options = (braid_steering_options){.policy = "hybrid-energy", .drift = 0.5, .window = 8};
}

static const char *specs_of(const braid_steering *s) {
  return s->trainer->options.devices ? s->trainer->options.devices : "cpu";
}

static double now_seconds(void) {
  return (double)braid_now_ns() * 1e-9;
}

/* --- where costs come from -----------------------------------------------------------------------------------------
 */
static braid_status measure_quickly(braid_steering *s, braid_registry *registry, braid_profile_db *db) {
  braid_profile_options options;
  braid_profile_report report;
  braid_profile_options_init(&options);
  options.devices = specs_of(s);
  options.threads = s->trainer->options.threads;
  options.graph = s->graph;
  options.seconds = kQuickSeconds;
  options.checks = 0;
  options.progress = s->options.progress;
  options.context = s->options.context;
  double began = now_seconds();
  BRAID_TRY(braid_profile_measure(registry, db, &options, &report));
  s->source = braid_arena_format(s->arena, "%zu operations measured in %.1f s, %zu known before (%s)", report.measured,
                                 now_seconds() - began, report.kept, s->options.measured);
  return s->source ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status check_profile(braid_steering *s, braid_registry *registry, braid_profile_db *db) {
  braid_profile_list list;
  size_t stale = 0;
  BRAID_TRY(braid_profile_list_create(db, s->allocator, &list));
  braid_status status = braid_profile_list_check(&list, registry, s->trainer->options.threads, kMostDays);
  for (size_t i = 0; i < list.entry_count; i++) {
    if (status != BRAID_OK || !list.entries[i].stale) continue;
    if (!stale++)
      braid_log_write(s->trainer->log, BRAID_LOG_WARNING, "%s: %s on %s is stale: %s", s->options.profile,
                      list.entries[i].op, list.entries[i].device, list.entries[i].stale);
  }
  s->source =
      braid_arena_format(s->arena, "%s, %zu entries, %zu of them stale", s->options.profile, list.entry_count, stale);
  braid_profile_list_deinit(&list);
  return status == BRAID_OK && !s->source ? BRAID_NO_MEMORY : status;
}

/* What was never measured on a device is not placed there, however slow the others are. */
static void tell_missing(const braid_steering *s, const char *path) {
  for (size_t d = 0; d < s->costs.device_count; d++) {
    const char *first;
    size_t all, missing = braid_costs_missing(&s->costs, d, &all, &first);
    if (missing)
      braid_log_write(s->trainer->log, BRAID_LOG_WARNING,
                      "%s has nothing for %zu of the step's %zu operations on %s (the first is %.100s): they are not "
                      "placed there; `braid profile --db %s --train`, with this model and batch, goes on measuring",
                      path, missing, all, s->costs.specs[d], first, path);
  }
}

static braid_status read_costs(braid_steering *s, braid_registry *registry) {
  const char *path = s->options.profile ? s->options.profile : s->options.measured;
  braid_profile_db *db;
  if (!path) return braid_fail(BRAID_INVALID_ARGUMENT, "a profile, or a path for a quick measurement, is expected");
  BRAID_TRY(
      braid_profile_db_open(s->allocator, path, s->options.profile ? BRAID_PROFILE_READ : BRAID_PROFILE_WRITE, &db));
  braid_status status = s->options.profile ? check_profile(s, registry, db) : measure_quickly(s, registry, db);
  if (status == BRAID_OK) status = braid_costs_init(&s->costs, s->allocator, s->graph, specs_of(s), db, path);
  braid_profile_db_close(db);
  if (status == BRAID_OK) tell_missing(s, path);
  return status;
}

static braid_status find_costs(braid_steering *s) {
  braid_registry *registry = s->trainer->options.registry, *own = NULL;
  if (!registry) BRAID_TRY(braid_registry_create(s->allocator, &own));
  braid_status status = read_costs(s, registry ? registry : own);
  if (own) braid_registry_destroy(own);
  return status;
}

/* --- asking the policy ---------------------------------------------------------------------------------------------
 */
static braid_status take_task(braid_steering *s, const braid_forecast_task *task) {
  int64_t node = braid_costs_node(&s->costs, task->node);
  if (node < 0) return braid_fail(BRAID_INTERNAL, "the plan has a node %.120s, the step has none", task->node);
  s->asked.devices[node] = (int)task->device_index;
  s->asked.order[s->asked.ordered++] = (size_t)node;
  s->asked.waits += task->after != NULL;
  return BRAID_OK;
}

static braid_forecast_options options_of(const braid_steering *s) {
  return (braid_forecast_options){.policy = s->options.policy,
                                  .cap_watts = s->options.cap_watts > 0 ? s->options.cap_watts : INFINITY};
}

braid_status braid_steering_forecast(const braid_steering *s, const int *devices, braid_forecast_summary *out) {
  braid_forecast_options options = options_of(s);
  options.policy = "manual";
  options.devices = devices;
  braid_forecast *forecast;
  BRAID_TRY(braid_forecast_create(s->graph, s->costs.machine, &options, s->allocator, &forecast));
  *out = braid_forecast_get_summary(forecast);
  braid_forecast_destroy(forecast);
  return BRAID_OK;
}

/* No plan is changed for what is within the noise of a measurement. Both are compared in one order, the graph's, since
 * costs have changed since the plan had its own; where the new one has waits under a cap, it is as the policy has it.
 */
bool braid_steering_gains(const braid_steering *s, braid_forecast_summary *now) {
  braid_forecast_summary other;
  if (braid_steering_forecast(s, s->plan.devices, now) != BRAID_OK) return true;
  const braid_forecast_summary *asked = &s->asked.forecast, *run = asked;
  if (!s->asked.waits && braid_steering_forecast(s, s->asked.devices, &other) == BRAID_OK) run = &other;
  bool faster = !(now->seconds <= run->seconds * (1 + kLeastGain));
  bool thriftier = now->joules > run->joules * (1 + kLeastGain); /* never of NAN */
  return faster || thriftier || now->cap_violations > asked->cap_violations || now->cap_unknown != asked->cap_unknown;
}

braid_status braid_steering_ask(braid_steering *s) {
  const braid_forecast_options options = options_of(s);
  braid_forecast *forecast;
  double began = now_seconds();
  BRAID_TRY(braid_forecast_create(s->graph, s->costs.machine, &options, s->allocator, &forecast));
  s->asked.policy_seconds = now_seconds() - began;
  for (size_t n = 0; n < s->graph->node_count; n++) s->asked.devices[n] = -1;
  s->asked.what = s->options.policy;
  s->asked.forecast = braid_forecast_get_summary(forecast);
  s->asked.waits = s->asked.ordered = 0;
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < s->asked.forecast.tasks && status == BRAID_OK; i++) {
    braid_forecast_task task = braid_forecast_get_task(forecast, i);
    status = take_task(s, &task);
  }
  const char *note = braid_forecast_note(forecast);
  if (status == BRAID_OK && (!s->note || strcmp(s->note, note) != 0)) {
    s->note = braid_arena_format(s->arena, "%s", note);
    if (!s->note) status = BRAID_NO_MEMORY;
    if (status == BRAID_OK && *note)
      braid_log_write(s->trainer->log, BRAID_LOG_WARNING, "%s: %s", s->options.policy, note);
  }
  braid_forecast_destroy(forecast);
  return status;
}

const char *braid_steering_note(const braid_steering *s) {
  return s->note;
}

const char *braid_steering_count(braid_steering *s, const int *devices) {
  size_t counts[kMaxDevices] = {0};
  const char *text = "";
  for (size_t n = 0; n < s->graph->node_count; n++)
    if (devices[n] >= 0) counts[devices[n]]++;
  for (size_t d = 0; d < s->costs.device_count && text; d++)
    text = braid_arena_format(s->arena, "%s%s%s %zu", text, d ? ", " : "", s->costs.specs[d], counts[d]);
  return text;
}

/* --- switching -----------------------------------------------------------------------------------------------------
 */
/* Patterns stand in quotes, and '*' and '?' fit any letters. */
static braid_status write_place(const braid_steering *s, braid_text *text) {
  size_t count = s->asked.ordered ? s->asked.ordered : s->graph->node_count;
  if (s->asked.ordered) braid_text_add(text, "ordered ");
  for (size_t i = 0; i < count; i++) {
    size_t n = s->asked.ordered ? s->asked.order[i] : i;
    const char *name = s->graph->nodes[n].name;
    if (s->asked.devices[n] < 0) continue;
    if (!*name || strpbrk(name, "'*?\n"))
      return braid_fail(BRAID_UNSUPPORTED, "node %.120s: its name has a quote, a star, a question mark or is empty",
                        name);
    braid_text_printf(text, "'%s'=%d ", name, s->asked.devices[n]);
  }
  return text->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

/* The nodes of one task. What is measured of it together is theirs by their costs there. */
static void add_parts(braid_steering *s, size_t task) {
  size_t first = s->part_count;
  double sum = 0;
  int device = braid_trainer_task_device(s->trainer, task);
  const char *name;
  for (size_t i = 0; (name = braid_trainer_task_node(s->trainer, task, i)) != NULL; i++) {
    int64_t node = braid_costs_node(&s->costs, name);
    if (node < 0 || s->placed[node] >= 0) continue;
    double cost = braid_costs_get(&s->costs, (size_t)node, (size_t)device);
    s->placed[node] = device;
    s->planned[node] = cost;
    s->parts[s->part_count++] = (braid_steering_part){task, (size_t)node, cost};
    sum += cost;
  }
  for (size_t i = first; i < s->part_count; i++) {
    bool known = sum > 0 && isfinite(sum);
    s->parts[i].share = known ? s->parts[i].share / sum : 1 / (double)(s->part_count - first);
  }
}

void braid_steering_find_parts(braid_steering *s) {
  s->part_count = 0;
  for (size_t n = 0; n < s->graph->node_count; n++) s->placed[n] = -1;
  for (size_t i = 0; i < braid_trainer_task_count(s->trainer); i++) add_parts(s, i);
}

/* Modelled for one batch; a step may have several. */
static braid_status add_stretch(braid_steering *s, const char *what, double seconds, double joules) {
  braid_steering_stretch *items =
      braid_grow(s->allocator, s->stretches, s->stretch_count, &s->stretch_capacity, sizeof *items);
  if (!items || !what) return BRAID_NO_MEMORY;
  s->stretches = items;
  items[s->stretch_count++].run =
      (braid_steering_run){.what = what,
                           .seconds = NAN,
                           .joules = NAN,
                           .planned_seconds = seconds * (double)s->trainer->options.accumulate,
                           .planned_joules = joules * (double)s->trainer->options.accumulate};
  return BRAID_OK;
}

braid_status braid_steering_switch(braid_steering *s, int alone, braid_replacement *out) {
  braid_text place;
  braid_text_init(&place, s->allocator);
  braid_status status = BRAID_OK;
  if (alone >= 0)
    braid_text_printf(&place, "*=%d", alone);
  else
    status = write_place(s, &place);
  if (status == BRAID_OK && place.failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK && alone < 0)
    status = add_stretch(s, s->asked.what, s->asked.forecast.seconds, s->asked.forecast.joules);
  size_t added = status == BRAID_OK && alone < 0;
  if (status == BRAID_OK) status = braid_trainer_replace(s->trainer, place.data, out);
  braid_text_deinit(&place);
  if (status != BRAID_OK) {
    s->stretch_count -= added;
    return status;
  }
  if (alone < 0) {
    braid_steering_answer before = s->plan;
    s->plan = s->asked;
    s->asked = before;
  }
  s->alone = alone;
  s->current = alone >= 0 ? (size_t)alone : s->stretch_count - 1;
  s->stretches[s->current].run.first = braid_trainer_steps_done(s->trainer) + 1;
  s->switched_at = s->seen = braid_trainer_steps_done(s->trainer);
  s->usual = NAN;
  braid_drift_reset(&s->drift);
  braid_steering_find_parts(s);
  return BRAID_OK;
}

braid_status braid_steering_next(braid_steering *s, int first) {
  braid_replacement replaced;
  for (int next = first; next < (int)s->costs.device_count; next++) {
    braid_status status = braid_steering_switch(s, next, &replaced);
    if (status == BRAID_OK || status == BRAID_NO_MEMORY) return status;
    braid_log_write(s->trainer->log, BRAID_LOG_INFO, "%s alone does not run the step: %s", s->costs.specs[next],
                    braid_error_detail());
  }
  return braid_steering_switch(s, -1, &replaced);
}

/* --- making --------------------------------------------------------------------------------------------------------
 */
static braid_status copy_options(braid_steering *s, const braid_steering_options *options) {
  const char **const texts[] = {&s->options.policy, &s->options.profile, &s->options.measured};
  s->options = *options;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (!*texts[i]) continue;
    *texts[i] = braid_arena_text(s->arena, *texts[i], strlen(*texts[i]));
    if (!*texts[i]) return BRAID_NO_MEMORY;
  }
  if (!(options->drift > 0) || options->window < 2 || options->window > kMostWindow || options->alone < 0 ||
      options->alone == 1 || !(options->cap_watts >= 0))
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "a drift above 0, a window of 2 to %d steps, 0 or at least 2 steps for each device alone and a "
                      "cap of at least 0 W are expected",
                      kMostWindow);
  if (!options->policy) return braid_fail(BRAID_INVALID_ARGUMENT, "the name of a policy is expected");
  BRAID_TRY(braid_planning_policy_check(options->policy)); /* before anything is measured */
  for (size_t i = 0; i < braid_planning_policy_count(); i++)
    if (strcmp(braid_planning_policy_name(i), options->policy) == 0)
      s->no_loss = braid_planning_policy_no_loss(i) && options->cap_watts == 0;
  if (!s->trainer->options.place) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "a policy places the nodes, and so does \"%.80s\"",
                    s->trainer->options.place);
}

static braid_status copy_graph(braid_steering *s) {
  BRAID_TRY(braid_graph_clone(s->trainer->step, &s->graph));
  BRAID_TRY(braid_resolve(s->graph));
  BRAID_TRY(braid_graph_compact(s->graph));
  size_t nodes = s->graph->node_count + 1;
  s->plan.devices = braid_arena_alloc(s->arena, nodes * sizeof *s->plan.devices);
  s->asked.devices = braid_arena_alloc(s->arena, nodes * sizeof *s->asked.devices);
  s->plan.order = braid_arena_alloc(s->arena, nodes * sizeof *s->plan.order);
  s->asked.order = braid_arena_alloc(s->arena, nodes * sizeof *s->asked.order);
  if (!s->plan.order || !s->asked.order) return BRAID_NO_MEMORY;
  s->placed = braid_arena_alloc(s->arena, nodes * sizeof *s->placed);
  s->planned = braid_arena_alloc(s->arena, nodes * sizeof *s->planned);
  s->parts = braid_arena_alloc(s->arena, nodes * sizeof *s->parts);
  return s->plan.devices && s->asked.devices && s->placed && s->planned && s->parts ? BRAID_OK : BRAID_NO_MEMORY;
}

/* One after the other, the operations of a device alone take what they take together. */
static braid_status add_alone(braid_steering *s, size_t device) {
  s->pace[device] = NAN;
  return add_stretch(s, braid_arena_format(s->arena, "%s alone", s->costs.specs[device]),
                     braid_costs_sum(&s->costs, device), NAN);
}

static void tell_cap(const braid_steering *s) {
  const braid_log *log = s->trainer->log;
  const braid_steering_answer *plan = s->alone < 0 ? &s->plan : &s->asked;
  if (!(s->options.cap_watts > 0)) return;
  if (s->sampler.unknown.length)
    braid_log_write(log, BRAID_LOG_WARNING, "the power of %s can't be read here: of %s the cap of %g W %s",
                    s->sampler.unknown.data, s->sampler.count ? "these" : "all devices", s->options.cap_watts,
                    plan->forecast.cap_unknown          ? "is not looked after, and the profile lacks peaks to plan by"
                    : plan->forecast.cap_violations > 0 ? "is not looked after"
                                                        : "holds by the profile's peaks only, and is not looked after");
  if (plan->forecast.cap_violations > 0)
    braid_log_write(log, BRAID_LOG_WARNING,
                    "%s keeps no cap: %.0f operations start though the profile's peaks then exceed %g W",
                    s->options.policy, plan->forecast.cap_violations, s->options.cap_watts);
  if (plan->waits)
    braid_log_write(log, BRAID_LOG_WARNING,
                    "the plan lets %zu operations wait for others because of the cap; runs do not keep these waits",
                    plan->waits);
}

int64_t braid_steering_steps_left(const braid_steering *s) {
  return braid_trainer_total_steps(s->trainer) - braid_trainer_steps_done(s->trainer);
}

/* Steps of devices alone leave some for the policy. */
static braid_status check_alone(const braid_steering *s) {
  int64_t left = braid_steering_steps_left(s), devices = (int64_t)braid_trainer_machine(s->trainer)->device_count;
  if (left <= 0 || s->options.alone <= (left - 1) / devices) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "%lld steps alone on each of %lld devices are all of the %lld that are left: none remains for %s",
                    (long long)s->options.alone, (long long)devices, (long long)left, s->options.policy);
}

static braid_status steering_begin(braid_steering *s) {
  BRAID_TRY(copy_graph(s));
  BRAID_TRY(check_alone(s));
  BRAID_TRY(find_costs(s));
  BRAID_TRY(braid_drift_init(&s->drift, s->allocator, s->graph->node_count, (size_t)s->options.window));
  for (size_t d = 0; d < s->costs.device_count; d++) BRAID_TRY(add_alone(s, d));
  BRAID_TRY(braid_steering_ask(s));
  const char *placed = braid_steering_count(s, s->asked.devices);
  BRAID_TRY(braid_steering_next(s, s->options.alone ? 0 : (int)s->costs.device_count));
  BRAID_TRY(braid_power_sampler_start(&s->sampler, braid_trainer_machine(s->trainer),
                                      s->options.cap_watts > 0 ? s->options.cap_watts : NAN));
  tell_cap(s);
  if (!placed) return BRAID_NO_MEMORY;
  braid_log_write(s->trainer->log, BRAID_LOG_INFO, "%s: %s, from %s", s->options.policy, placed, s->source);
  s->looked_at = now_seconds();
  s->then = braid_power_sampler_read(&s->sampler);
  return BRAID_OK;
}

braid_status braid_steering_create(braid_trainer *trainer, const braid_steering_options *options,
                                   braid_steering **out) {
  *out = NULL;
  braid_steering *s = braid_zalloc(trainer->allocator, sizeof *s);
  if (!s) return BRAID_NO_MEMORY;
  s->allocator = trainer->allocator;
  s->trainer = trainer;
  s->alone = -1;
  braid_status status = braid_arena_create(s->allocator, &s->arena);
  if (status == BRAID_OK) status = copy_options(s, options);
  if (status == BRAID_OK) status = steering_begin(s);
  if (status == BRAID_OK)
    *out = s;
  else
    braid_steering_destroy(s);
  return status;
}

void braid_steering_destroy(braid_steering *s) {
  if (!s) return;
  braid_power_sampler_stop(&s->sampler);
  braid_drift_deinit(&s->drift);
  braid_costs_deinit(&s->costs);
  braid_graph_destroy(s->graph);
  for (size_t i = 0; i < s->stretch_count; i++) braid_free(s->allocator, s->stretches[i].seconds);
  braid_free(s->allocator, s->stretches);
  braid_free(s->allocator, s->events);
  braid_arena_destroy(s->arena);
  braid_free(s->allocator, s);
}
