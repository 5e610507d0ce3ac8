#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/try.h"
#include "simulate/world.h"

enum { kTraceBytes = 256 << 20, kInstances = 200000 };

/* --- making the world ----------------------------------------------------------------------------------------------
 */
static void fill_times(braid_world *world) {
  const braid_scenario *s = world->scenario;
  for (size_t m = 0; m < s->models_count; m++)
    for (unsigned i = 0; i < s->models[m].times_count; i++) {
      const braid_scenario_time *t = &s->models[m].times[i];
      braid_world_time *row = &world->times[(t->kind_index * s->models_count + m) * (BRAID_SCENARIO_ROWS + 1)];
      row[t->rows] = (braid_world_time){t->mean_ms * 1e6, t->deviation_ms * 1e6};
    }
  for (size_t i = 0; i < (size_t)s->nodes_count * s->models_count; i++) { /* runs are filled up to what was measured */
    braid_world_time *row = &world->times[i * (BRAID_SCENARIO_ROWS + 1)];
    for (int rows = BRAID_SCENARIO_ROWS - 1; rows >= 1; rows--)
      if (row[rows].mean_ns == 0) row[rows] = row[rows + 1];
    for (int rows = 2; rows <= BRAID_SCENARIO_ROWS; rows++)
      if (row[rows].mean_ns == 0) row[rows] = row[rows - 1];
  }
}

static braid_status make_sites(braid_world *world) {
  const braid_scenario *s = world->scenario;
  size_t at = 0, instances = 0;
  for (unsigned k = 0; k < s->nodes_count; k++) instances += (size_t)(s->nodes[k].count * s->nodes[k].instances);
  if (instances > kInstances)
    return braid_fail(BRAID_INVALID_FILE, "%zu instances on all nodes; allowed: %d", instances, kInstances);
  for (unsigned k = 0; k < s->nodes_count; k++)
    for (int64_t i = 0; i < s->nodes[k].count; i++, at++) {
      braid_site *site = &world->sites[at];
      *site = (braid_site){.kind = k,
                           .alive = true,
                           .slow = 1,
                           .learned = 1,
                           .instances = (uint32_t)s->nodes[k].instances,
                           .memory_left = (int64_t)(s->nodes[k].memory_mib * 1048576),
                           .stuck = BRAID_WORLD_NONE};
      site->runs = braid_zalloc_array(world->allocator, site->instances, sizeof *site->runs);
      if (!site->runs) return BRAID_NO_MEMORY;
      world->peak += braid_site_asleep(world, (uint32_t)at);
      braid_site_power(world, (uint32_t)at);
    }
  return BRAID_OK;
}

static braid_status world_init(braid_world *world, const braid_share_recorded *trace, size_t trace_count) {
  const braid_scenario *s = world->scenario;
  size_t times = (size_t)s->nodes_count * s->models_count;
  world->cap = s->cap_watts > 0 ? (int64_t)(s->cap_watts * 1e6) : INT64_MAX;
  world->coming_cap = INT64_MAX;
  world->free_job = BRAID_WORLD_NONE;
  world->network_ns = (int64_t)(s->network_ms * 1e6);
  world->agenda.allocator = world->allocator;
  world->site_count = s->node_count;
  world->sites = braid_zalloc_array(world->allocator, s->node_count, sizeof *world->sites);
  world->arrivals = braid_zalloc_array(world->allocator, s->tenants_count, sizeof *world->arrivals);
  world->tenants = braid_zalloc_array(world->allocator, s->tenants_count, sizeof *world->tenants);
  world->times = braid_zalloc_array(world->allocator, times, (BRAID_SCENARIO_ROWS + 1) * sizeof *world->times);
  if (!world->sites || !world->arrivals || !world->tenants || !world->times) return BRAID_NO_MEMORY;
  for (uint32_t t = 0; t < s->tenants_count; t++)
    world->arrivals[t] = braid_arrivals_begin(&s->tenants[t], trace, trace_count, world->seed, t);
  fill_times(world);
  BRAID_TRY(make_sites(world));
  return braid_placing_init(world);
}

static void world_deinit(braid_world *world) {
  const braid_scenario *s = world->scenario;
  for (size_t i = 0; world->sites && i < world->site_count; i++) {
    braid_free(world->allocator, world->sites[i].waiting);
    braid_free(world->allocator, world->sites[i].jobs);
    braid_free(world->allocator, world->sites[i].runs);
    braid_free(world->allocator, world->sites[i].held);
    braid_free(world->allocator, world->sites[i].lost);
  }
  for (size_t t = 0; world->tenants && t < s->tenants_count; t++)
    braid_free(world->allocator, world->tenants[t].latencies_ns);
  for (size_t i = 0; i < world->record_count; i++) braid_free(world->allocator, world->records[i].text);
  for (size_t i = 0; i < world->lack_count; i++) braid_free(world->allocator, world->lacks[i].text);
  braid_free(world->allocator, world->lacks);
  braid_free(world->allocator, world->bounds);
  braid_placing_deinit(world);
  braid_agenda_deinit(&world->agenda);
  braid_free(world->allocator, world->records);
  braid_free(world->allocator, world->sites);
  braid_free(world->allocator, world->arrivals);
  braid_free(world->allocator, world->tenants);
  braid_free(world->allocator, world->times);
  braid_free(world->allocator, world->jobs);
}

/* --- running it ----------------------------------------------------------------------------------------------------
 */
static braid_status note_scenario(braid_world *world) {
  const braid_scenario *s = world->scenario;
  for (uint32_t i = 0; i < s->events_count; i++) {
    int64_t at_ns = (int64_t)(s->events[i].at_s * 1e9), notice_ns = at_ns - (int64_t)(s->notice_ms * 1e6);
    BRAID_TRY(braid_agenda_note(&world->agenda, at_ns, BRAID_AGENDA_SCENARIO, i, 0, 0));
    if (s->events[i].event == BRAID_EVENT_CAP)
      BRAID_TRY(braid_agenda_note(&world->agenda, notice_ns > 0 ? notice_ns : 0, BRAID_AGENDA_NOTICE, i, 0, 0));
  }
  return BRAID_OK;
}

static braid_status note_arrivals(braid_world *world) {
  const braid_scenario *s = world->scenario;
  for (uint32_t t = 0; t < s->tenants_count; t++) {
    double at_s = braid_arrivals_next(&world->arrivals[t]);
    if (at_s > s->seconds) continue;
    world->streams_left++;
    BRAID_TRY(braid_agenda_note(&world->agenda, (int64_t)(at_s * 1e9 + 0.5), BRAID_AGENDA_ARRIVAL, t, 0, 0));
  }
  return BRAID_OK;
}

static braid_status happen_in_scenario(braid_world *world, const braid_scenario_event *event) {
  for (int64_t i = 0; event->event <= BRAID_EVENT_SLOW && i < event->count; i++) {
    uint32_t node = (uint32_t)(event->node + i);
    if (event->event == BRAID_EVENT_LOST) BRAID_TRY(braid_placing_lost(world, node));
    if (event->event == BRAID_EVENT_BACK) BRAID_TRY(braid_placing_back(world, node));
    if (event->event == BRAID_EVENT_SLOW) world->sites[node].slow = event->factor;
  }
  if (event->event == BRAID_EVENT_RATE) world->arrivals[event->tenant_index].rate = event->rate;
  return event->event == BRAID_EVENT_CAP ? braid_placing_cap(world, event->watts) : BRAID_OK;
}

static bool is_over(const braid_world *world) {
  bool ended = world->request_count == (uint64_t)world->scenario->requests ||
               (double)world->now_ns >= world->scenario->seconds * 1e9;
  return !world->streams_left && !world->in_flight && ended;
}

static braid_status look(braid_world *world) {
  BRAID_TRY(braid_placing_control(world));
  return braid_agenda_note(&world->agenda, world->now_ns + (int64_t)(world->scenario->period_s * 1e9),
                           BRAID_AGENDA_CONTROL, 0, 0, 0);
}

static braid_status happen(braid_world *world, const braid_agenda_item *item) {
  bool lives = item->a < world->site_count && item->life == world->sites[item->a].life;
  switch (item->what) {
  case BRAID_AGENDA_ARRIVAL:
    return braid_gateway_arrival(world, item->a);
  case BRAID_AGENDA_REACH:
    return braid_site_reach(world, item->a);
  case BRAID_AGENDA_REFUSED:
    return braid_gateway_refused(world, item->a);
  case BRAID_AGENDA_RUN_END:
    return lives ? braid_site_run_end(world, item->a, item->b) : BRAID_OK;
  case BRAID_AGENDA_WAKE:
    if (!lives) return BRAID_OK;
    world->sites[item->a].wake_ns = 0;
    return braid_site_dispatch(world, item->a);
  case BRAID_AGENDA_LOADED:
    return lives ? braid_placing_loaded(world, item->a, item->b) : BRAID_OK;
  case BRAID_AGENDA_DETECT:
    return lives ? braid_placing_detected(world, item->a) : BRAID_OK;
  case BRAID_AGENDA_SCENARIO:
    return happen_in_scenario(world, &world->scenario->events[item->a]);
  case BRAID_AGENDA_NOTICE:
    return braid_placing_notice(world, world->scenario->events[item->a].watts);
  case BRAID_AGENDA_CONTROL:
    return look(world);
  }
  return BRAID_OK;
}

/* What is drawn now is drawn until then. */
static void advance(braid_world *world, int64_t to_ns) {
  if (to_ns == world->now_ns) return;
  bool over = world->microwatts > world->cap;
  world->violations += over && !world->is_over;
  world->is_over = over;
  if (over) world->over_ns += to_ns - world->now_ns;
  if (world->microwatts > world->most_microwatts) world->most_microwatts = world->microwatts;
  world->now_ns = to_ns;
}

static braid_status world_run(braid_world *world) {
  braid_agenda_item item;
  BRAID_TRY(braid_placing_plan(world, true));
  BRAID_TRY(note_scenario(world));
  BRAID_TRY(note_arrivals(world));
  BRAID_TRY(
      braid_agenda_note(&world->agenda, (int64_t)(world->scenario->period_s * 1e9), BRAID_AGENDA_CONTROL, 0, 0, 0));
  while (!is_over(world) && braid_agenda_next(&world->agenda, &item)) {
    advance(world, item.at_ns);
    BRAID_TRY(happen(world, &item));
    if (world->freed) BRAID_TRY(braid_placing_go_on(world));
  }
  if (world->now_ns < world->end_ns) advance(world, world->end_ns);
  for (uint32_t i = 0; i < world->site_count; i++) braid_site_account(world, i);
  return BRAID_OK;
}

/* --- the result ----------------------------------------------------------------------------------------------------
 */
static int compare_numbers(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double percentile(const double *sorted, size_t count, double part) {
  double at = part * (double)(count - 1);
  size_t below = (size_t)at;
  double next = below + 1 < count ? sorted[below + 1] : sorted[below];
  return sorted[below] + (at - (double)below) * (next - sorted[below]);
}

/* latencies_ns are sorted here. */
static braid_cluster_requests sum_up(const char *name, const braid_world_tenant *t) {
  braid_cluster_requests r = {.name = name,
                              .requests = t->requests,
                              .in_time = t->in_time,
                              .late = t->late,
                              .refused = t->refused,
                              .lost = t->lost,
                              .retried = t->retried,
                              .done = t->done};
  r.mean_ms = r.p50_ms = r.p99_ms = r.p999_ms = r.most_ms = (double)NAN;
  if (!t->done) return r;
  double sum = 0;
  qsort(t->latencies_ns, t->done, sizeof *t->latencies_ns, compare_numbers);
  for (size_t i = 0; i < t->done; i++) sum += t->latencies_ns[i];
  r.mean_ms = sum / (double)t->done * 1e-6;
  r.p50_ms = percentile(t->latencies_ns, t->done, 0.5) * 1e-6;
  r.p99_ms = percentile(t->latencies_ns, t->done, 0.99) * 1e-6;
  r.p999_ms = percentile(t->latencies_ns, t->done, 0.999) * 1e-6;
  r.most_ms = t->latencies_ns[t->done - 1] * 1e-6;
  return r;
}

static char *copy_text(const braid_allocator *allocator, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = braid_alloc(allocator, bytes);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

static braid_status write_tenants(const braid_world *world, braid_cluster_simulated *out) {
  const braid_scenario *s = world->scenario;
  braid_world_tenant all = {0};
  for (size_t t = 0; t < s->tenants_count; t++) {
    const braid_world_tenant *from = &world->tenants[t];
    out->tenants[t] = sum_up(NULL, from);
    out->tenant_count++;
    out->tenants[t].name = copy_text(world->allocator, s->tenants[t].name);
    if (!out->tenants[t].name) return BRAID_NO_MEMORY;
    all.requests += from->requests;
    all.in_time += from->in_time;
    all.late += from->late;
    all.refused += from->refused;
    all.lost += from->lost;
    all.retried += from->retried;
    all.done += from->done;
  }
  all.latencies_ns = braid_zalloc_array(world->allocator, all.done, sizeof *all.latencies_ns);
  if (!all.latencies_ns) return BRAID_NO_MEMORY;
  for (size_t t = 0, at = 0; t < s->tenants_count; at += world->tenants[t++].done)
    if (world->tenants[t].done)
      memcpy(all.latencies_ns + at, world->tenants[t].latencies_ns, world->tenants[t].done * sizeof *all.latencies_ns);
  out->all = sum_up("all", &all);
  braid_free(world->allocator, all.latencies_ns);
  return BRAID_OK;
}

static braid_status write_nodes(const braid_world *world, braid_cluster_simulated *out) {
  const braid_scenario *s = world->scenario;
  for (size_t k = 0; k < s->nodes_count; k++) {
    braid_cluster_nodes *nodes = &out->nodes[k];
    double alive = 0;
    out->node_kind_count++;
    nodes->count = (uint64_t)s->nodes[k].count;
    nodes->kind = copy_text(world->allocator, s->nodes[k].kind);
    if (!nodes->kind) return BRAID_NO_MEMORY;
    for (size_t i = 0; i < world->site_count; i++) {
      const braid_site *site = &world->sites[i];
      if (site->kind != k) continue;
      alive += site->alive_ns;
      nodes->busy += site->busy_ns / site->instances;
      nodes->awake += site->awake_ns;
      nodes->joules += site->microwatt_ns * 1e-15;
    }
    nodes->busy = alive > 0 ? nodes->busy / alive : 0;
    nodes->awake = alive > 0 ? nodes->awake / alive : 0;
    out->joules += nodes->joules;
  }
  return BRAID_OK;
}

static braid_status write_result(braid_world *world, braid_cluster_simulated **out) {
  const braid_scenario *s = world->scenario;
  braid_cluster_simulated *result = braid_zalloc(world->allocator, sizeof *result);
  if (!result) return BRAID_NO_MEMORY;
  *result = (braid_cluster_simulated){.node_count = world->site_count,
                                      .seconds = (double)world->now_ns * 1e-9,
                                      .most_watts = (double)world->most_microwatts * 1e-6,
                                      .cap_violations = world->violations,
                                      .over_cap_s = (double)world->over_ns * 1e-9,
                                      .plans = world->plans,
                                      .loads = world->loads_done,
                                      .unloads = world->unloads_done,
                                      .loaded_bytes = world->loaded_bytes,
                                      .moves = world->records,
                                      .move_count = world->record_count,
                                      .lacks = world->lacks,
                                      .lack_count = world->lack_count,
                                      .allocator = world->allocator};
  world->lacks = NULL;
  world->lack_count = 0;
  world->records = NULL;
  world->record_count = 0;
  result->tenants = braid_zalloc_array(world->allocator, s->tenants_count, sizeof *result->tenants);
  result->nodes = braid_zalloc_array(world->allocator, s->nodes_count, sizeof *result->nodes);
  braid_status status = result->tenants && result->nodes ? write_tenants(world, result) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = write_nodes(world, result);
  if (status == BRAID_OK) {
    result->mean_watts = result->seconds > 0 ? result->joules / result->seconds : 0;
    *out = result;
  } else {
    braid_cluster_simulated_destroy(result);
  }
  return status;
}

void braid_cluster_simulated_destroy(braid_cluster_simulated *result) {
  if (!result) return;
  for (size_t i = 0; i < result->tenant_count; i++) braid_free(result->allocator, (void *)result->tenants[i].name);
  for (size_t i = 0; i < result->node_kind_count; i++) braid_free(result->allocator, (void *)result->nodes[i].kind);
  for (size_t i = 0; i < result->move_count; i++) braid_free(result->allocator, result->moves[i].text);
  for (size_t i = 0; i < result->lack_count; i++) braid_free(result->allocator, result->lacks[i].text);
  braid_free(result->allocator, result->lacks);
  braid_free(result->allocator, result->tenants);
  braid_free(result->allocator, result->nodes);
  braid_free(result->allocator, result->moves);
  braid_free(result->allocator, result);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status load_trace(const braid_cluster_simulation *options, const braid_scenario *scenario,
                               braid_share_recorded **out, size_t *out_count) {
  braid_file_view view;
  const char *wants = NULL;
  *out = NULL;
  *out_count = 0;
  for (size_t t = 0; t < scenario->tenants_count; t++)
    if (scenario->tenants[t].arrivals == BRAID_ARRIVALS_TRACE) wants = scenario->tenants[t].name;
  if (!options->trace && wants)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the requests of the tenant %s come from a trace, and none is given",
                      wants);
  if (options->trace && !wants)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a trace is given, and no tenant of %s has `arrivals: trace`",
                      options->scenario);
  if (!options->trace) return BRAID_OK;
  BRAID_TRY(braid_file_open(options->allocator, options->trace, kTraceBytes, &view));
  braid_status status =
      braid_share_recorded_parse((const char *)view.data, view.bytes, options->allocator, out, out_count);
  braid_file_close(&view);
  return status == BRAID_INVALID_FILE ? braid_fail_prefix(status, "%.200s", options->trace) : status;
}

braid_status braid_world_simulate(const braid_scenario *scenario, const braid_share_recorded *trace, size_t trace_count,
                                  const braid_cluster_simulation *options, braid_cluster_simulated **out) {
  braid_world world = {
      .scenario = scenario, .options = options, .allocator = options->allocator, .seed = options->seed};
  *out = NULL;
  braid_status status = world_init(&world, trace, trace_count);
  if (status == BRAID_OK) status = world_run(&world);
  if (status == BRAID_OK) status = write_result(&world, out);
  world_deinit(&world);
  return status;
}

braid_status braid_cluster_simulate(const braid_cluster_simulation *options, braid_cluster_simulated **out) {
  braid_scenario *scenario;
  braid_share_recorded *trace;
  size_t trace_count;
  *out = NULL;
  BRAID_TRY(braid_scenario_load(options->scenario, &scenario));
  braid_status status = load_trace(options, scenario, &trace, &trace_count);
  if (status == BRAID_OK) {
    status = braid_world_simulate(scenario, trace, trace_count, options, out);
    braid_free(options->allocator, trace);
  }
  braid_scenario_free(scenario);
  return status;
}
