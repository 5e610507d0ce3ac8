#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "base/try.h"
#include "base/vector.h"
#include "simulate/world.h"

#define NONE BRAID_WORLD_NONE
static const int64_t kPatience = 1000000000; /* as the daemon's: when a request without a deadline is due */
static const int64_t kWatched = 20000000;    /* as the daemon's: longer runs are cancelled where all are late */
/* The daemon's deviations reach a fourth of the way from the mean to the longest but two of 64 runs: of a normal
 * distribution 1.88 / 4. */
static const double kTail = 0.47;

/* --- power ---------------------------------------------------------------------------------------------------------
 */
static const braid_scenario_nodes *kind_of(const braid_world *world, const braid_site *site) {
  return &world->scenario->nodes[site->kind];
}

int64_t braid_site_most(const braid_world *world, uint32_t node) {
  return (int64_t)(kind_of(world, &world->sites[node])->busy_watts * 1e6);
}

int64_t braid_site_asleep(const braid_world *world, uint32_t node) {
  return (int64_t)(kind_of(world, &world->sites[node])->asleep_watts * 1e6);
}

void braid_site_account(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  double ns = (double)(world->now_ns - site->since_ns);
  site->since_ns = world->now_ns;
  site->microwatt_ns += (double)site->microwatts * ns;
  if (!site->alive) return;
  site->alive_ns += ns;
  site->busy_ns += ns * site->running;
  if (site->held_count) site->awake_ns += ns;
}

void braid_site_power(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  const braid_scenario_nodes *kind = kind_of(world, site);
  uint32_t busy = site->running + (site->loading > 0);
  if (busy > site->instances) busy = site->instances;
  int64_t idle = (int64_t)(kind->idle_watts * 1e6), most = braid_site_most(world, node);
  int64_t now = !site->alive        ? 0
                : !site->held_count ? braid_site_asleep(world, node)
                                    : idle + (most - idle) * busy / site->instances;
  world->microwatts += now - site->microwatts;
  site->microwatts = now;
}

/* --- what it holds -------------------------------------------------------------------------------------------------
 */
braid_site_held *braid_site_find(const braid_site *site, uint32_t model) {
  for (size_t i = 0; i < site->held_count; i++)
    if (site->held[i].model == model) return &site->held[i];
  return NULL;
}

static int64_t bytes_of(const braid_world *world, uint32_t model) {
  return (int64_t)(world->scenario->models[model].memory_mib * 1048576);
}

braid_status braid_site_add(braid_world *world, uint32_t node, uint32_t model, braid_site_state state) {
  braid_site *site = &world->sites[node];
  braid_site_held *held =
      braid_grow(world->allocator, site->held, site->held_count, &site->held_capacity, sizeof *held);
  if (!held) return BRAID_NO_MEMORY;
  braid_site_account(world, node);
  site->held = held;
  if (!site->held_count) world->peak += braid_site_most(world, node) - braid_site_asleep(world, node);
  held[site->held_count++] = (braid_site_held){.model = model, .state = state};
  site->memory_left -= bytes_of(world, model);
  site->loading += state == BRAID_SITE_LOADING;
  braid_site_power(world, node);
  return BRAID_OK;
}

void braid_site_drop(braid_world *world, uint32_t node, braid_site_held *held) {
  braid_site *site = &world->sites[node];
  braid_site_account(world, node);
  site->loading -= held->state == BRAID_SITE_LOADING;
  site->memory_left += bytes_of(world, held->model);
  *held = site->held[--site->held_count];
  if (!site->held_count) world->peak -= braid_site_most(world, node) - braid_site_asleep(world, node);
  braid_site_power(world, node);
  world->freed = true;
}

/* A job of the model is no longer there. */
static void release_job(braid_world *world, uint32_t node, uint32_t model) {
  braid_site_held *held = braid_site_find(&world->sites[node], model);
  held->jobs--;
  if (!held->jobs && held->state == BRAID_SITE_DRAINING) braid_site_drop(world, node, held);
}

/* --- the daemon's policy -------------------------------------------------------------------------------------------
 */
typedef struct seer {
  const braid_world *world;
  const braid_site *site;
} seer;

static braid_serve_span forecast(const void *context, size_t group, int64_t rows) {
  const seer *s = context;
  if (rows > BRAID_SCENARIO_ROWS) rows = BRAID_SCENARIO_ROWS;
  const braid_world_time *time = braid_world_time_of(s->world, s->site->kind, group, rows);
  return (braid_serve_span){time->mean_ns * s->site->learned, kTail * time->deviation_ns * s->site->learned};
}

void braid_site_refresh(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  int64_t first = INT64_MAX;
  if (!site->alive) {
    if (site->detected) braid_cluster_router_set_free(world->router, node, INT64_MAX);
    return;
  }
  for (uint32_t i = 0; i < site->instances; i++) {
    int64_t end = site->runs[i].running ? site->runs[i].expected_ns : 0;
    if (end < first) first = end;
  }
  if (site->work_ns > 0) first = (first > world->now_ns ? first : world->now_ns) + site->work_ns / site->instances;
  braid_cluster_router_set_free(world->router, node, first);
}

static void waiting_remove(braid_world *world, braid_site *site, size_t at) {
  site->work_ns -= world->jobs[site->jobs[at]].work_ns;
  site->with_deadline -= site->waiting[at].deadline_ns != 0;
  site->count--;
  memmove(&site->waiting[at], &site->waiting[at + 1], (site->count - at) * sizeof *site->waiting);
  memmove(&site->jobs[at], &site->jobs[at + 1], (site->count - at) * sizeof *site->jobs);
}

static braid_status waiting_insert(braid_world *world, braid_site *site, uint32_t job, size_t *out) {
  braid_job *j = &world->jobs[job];
  uint32_t model = braid_world_model_of(world, j);
  const braid_scenario_model *m = &world->scenario->models[model];
  int64_t deadline = j->deadline_ns ? j->deadline_ns - world->network_ns : 0;
  braid_serve_waiting one = {.arrived_ns = world->now_ns,
                             .deadline_ns = deadline,
                             .due_ns = deadline ? deadline : world->now_ns + kPatience,
                             .rank = (int)world->scenario->tenants[j->tenant].priority,
                             .rows = 1,
                             .group = model,
                             .most_rows = m->max_batch,
                             .delay_ns = m->delay_ms * 1e6};
  if (site->count == site->capacity) {
    size_t capacity = site->capacity ? 2 * site->capacity : 8;
    braid_serve_waiting *waiting = braid_zalloc_array(world->allocator, capacity, sizeof *waiting);
    uint32_t *jobs = braid_zalloc_array(world->allocator, capacity, sizeof *jobs);
    if (!waiting || !jobs) {
      braid_free(world->allocator, waiting);
      braid_free(world->allocator, jobs);
      return BRAID_NO_MEMORY;
    }
    if (site->count) {
      memcpy(waiting, site->waiting, site->count * sizeof *waiting);
      memcpy(jobs, site->jobs, site->count * sizeof *jobs);
    }
    braid_free(world->allocator, site->waiting);
    braid_free(world->allocator, site->jobs);
    site->waiting = waiting;
    site->jobs = jobs;
    site->capacity = capacity;
  }
  size_t at = site->count;
  while (at && braid_serve_before(&one, &site->waiting[at - 1])) at--;
  memmove(&site->waiting[at + 1], &site->waiting[at], (site->count - at) * sizeof one);
  memmove(&site->jobs[at + 1], &site->jobs[at], (site->count - at) * sizeof job);
  site->waiting[at] = one;
  site->jobs[at] = job;
  site->count++;
  site->with_deadline += deadline != 0;
  *out = at;
  return BRAID_OK;
}

/* Whether what waits at `at`, which came just now, may stay. With the daemon's margin for forecasts that are wrong. */
static bool site_admit(braid_world *world, braid_site *site, size_t at) {
  int64_t free_ns[BRAID_SCENARIO_INSTANCES], earliest = INT64_MAX, promised = site->waiting[at].deadline_ns;
  seer s = {world, site};
  if (!site->with_deadline) return true;
  for (uint32_t i = 0; i < site->instances; i++) {
    free_ns[i] = site->runs[i].running ? site->runs[i].expected_ns : 0;
    if (free_ns[i] < earliest) earliest = free_ns[i];
  }
  if (promised && (at || earliest > world->now_ns))
    site->waiting[at].deadline_ns -= (int64_t)braid_serve_margin_now(&site->margin, world->now_ns);
  bool admitted =
      braid_serve_admit(site->waiting, site->count, at, world->now_ns, free_ns, site->instances, forecast, &s).admitted;
  site->waiting[at].deadline_ns = promised;
  for (size_t i = at + 1; admitted && i < site->count; i++)
    world->jobs[site->jobs[i]].pushed |= site->waiting[i].rank > site->waiting[at].rank;
  return admitted;
}

/* What became of a job that was admitted, for the margin. */
static void note_margin(const braid_world *world, braid_site *site, const braid_job *job, bool done) {
  seer s = {world, site};
  if (!job->deadline_ns || job->pushed) return;
  double late = done ? (double)(world->now_ns - (job->deadline_ns - world->network_ns)) : 0;
  braid_serve_margin_note(&site->margin, world->now_ns, !done || late > 0, late,
                          forecast(&s, braid_world_model_of(world, job), 1).mean_ns);
}

braid_status braid_site_reach(braid_world *world, uint32_t job) {
  braid_job *j = &world->jobs[job];
  uint32_t node = j->node;
  braid_site *site = &world->sites[node];
  if (j->life != site->life || !site->alive) { /* it was lost meanwhile */
    j->next = site->detected || site->alive ? NONE : site->stuck;
    if (site->detected || site->alive) return braid_gateway_retry(world, job);
    site->stuck = job;
    return BRAID_OK;
  }
  bool taken = site->count < (size_t)world->scenario->max_waiting;
  if (taken) {
    size_t at;
    BRAID_TRY(waiting_insert(world, site, job, &at));
    taken = site_admit(world, site, at);
    if (!taken) waiting_remove(world, site, at);
  } else {
    site->work_ns -= j->work_ns;
  }
  if (taken) return braid_site_dispatch(world, node);
  release_job(world, node, braid_world_model_of(world, j));
  braid_site_refresh(world, node);
  if (!world->network_ns) return braid_gateway_refused(world, job);
  return braid_agenda_note(&world->agenda, world->now_ns + world->network_ns, BRAID_AGENDA_REFUSED, job, 0, 0);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
/* What the run takes, of a lognormal distribution with the measured mean and deviation. */
static double draw_ns(braid_world *world, const braid_world_time *time) {
  double part = time->deviation_ns / time->mean_ns;
  uint64_t run = world->run_count++;
  if (part <= 0) return time->mean_ns;
  double variance = log(1 + part * part);
  double normal = (double)braid_random_normal(world->seed, 2, 0, run);
  return time->mean_ns * exp(sqrt(variance) * normal - variance / 2);
}

static braid_status run_start(braid_world *world, uint32_t node, uint32_t instance, const braid_serve_choice *choice) {
  braid_site *site = &world->sites[node];
  braid_site_run *run = &site->runs[instance];
  uint32_t model = (uint32_t)site->waiting[choice->members[0]].group;
  const braid_world_time *time = braid_world_time_of(world, site->kind, model, choice->rows);
  int64_t latest = 0;
  *run =
      (braid_site_run){.running = true, .begin_ns = world->now_ns, .model = model, .mean_ns = (int64_t)time->mean_ns};
  for (size_t i = 0; i < choice->count; i++) {
    int64_t deadline = site->waiting[choice->members[i]].deadline_ns;
    if (!deadline || latest == INT64_MAX)
      latest = INT64_MAX;
    else if (deadline > latest)
      latest = deadline;
    run->jobs[run->count++] = site->jobs[choice->members[i]];
  }
  for (size_t i = choice->count; i-- > 0;) waiting_remove(world, site, choice->members[i]);
  run->expected_ns = world->now_ns + (int64_t)(time->mean_ns * site->learned);
  int64_t end = world->now_ns + (int64_t)(draw_ns(world, time) * site->slow);
  int64_t cancelled = latest > world->now_ns + kWatched ? latest : world->now_ns + kWatched;
  if (latest != INT64_MAX && end > cancelled) {
    run->cancelled = true;
    end = cancelled;
  }
  braid_site_account(world, node);
  site->running++;
  braid_site_power(world, node);
  return braid_agenda_note(&world->agenda, end, BRAID_AGENDA_RUN_END, node, instance, site->life);
}

/* Takes out what cannot be in time any more. */
static braid_status drop_late(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  seer s = {world, site};
  for (size_t i = 0; site->with_deadline && i < site->count;) {
    if (!braid_serve_is_late(&site->waiting[i], world->now_ns, forecast, &s)) {
      i++;
      continue;
    }
    uint32_t job = site->jobs[i];
    note_margin(world, site, &world->jobs[job], false);
    waiting_remove(world, site, i);
    release_job(world, node, braid_world_model_of(world, &world->jobs[job]));
    BRAID_TRY(braid_gateway_finish(world, job, BRAID_OUTCOME_LATE));
  }
  return BRAID_OK;
}

braid_status braid_site_dispatch(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  seer s = {world, site};
  for (uint32_t i = 0; i < site->instances && site->count; i++) {
    if (site->runs[i].running) continue;
    BRAID_TRY(drop_late(world, node));
    braid_serve_choice choice = braid_serve_choose(site->waiting, site->count, world->now_ns, forecast, &s);
    if (choice.count) {
      BRAID_TRY(run_start(world, node, i, &choice));
      continue;
    }
    if (choice.wake_ns && choice.wake_ns != site->wake_ns) {
      site->wake_ns = choice.wake_ns;
      BRAID_TRY(braid_agenda_note(&world->agenda, choice.wake_ns, BRAID_AGENDA_WAKE, node, 0, world->sites[node].life));
    }
    break;
  }
  braid_site_refresh(world, node);
  return BRAID_OK;
}

braid_status braid_site_run_end(braid_world *world, uint32_t node, uint32_t instance) {
  braid_site *site = &world->sites[node];
  braid_site_run *run = &site->runs[instance];
  double times = (double)(world->now_ns - run->begin_ns) / (double)(run->mean_ns > 0 ? run->mean_ns : 1);
  braid_site_account(world, node);
  site->running--;
  run->running = false;
  braid_site_power(world, node);
  if (!run->cancelled) site->learned = fmax(0.01, site->learned + (times - site->learned) / 16);
  for (uint32_t i = 0; i < run->count; i++) {
    note_margin(world, site, &world->jobs[run->jobs[i]], !run->cancelled);
    release_job(world, node, run->model);
    BRAID_TRY(braid_gateway_finish(world, run->jobs[i], run->cancelled ? BRAID_OUTCOME_LATE : BRAID_OUTCOME_DONE));
  }
  return braid_site_dispatch(world, node);
}

uint32_t braid_site_clear(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  uint32_t first = NONE;
  braid_site_account(world, node);
  while (site->count) {
    uint32_t job = site->jobs[site->count - 1];
    waiting_remove(world, site, site->count - 1);
    world->jobs[job].next = first;
    first = job;
  }
  for (uint32_t i = 0; i < site->instances; i++) {
    for (uint32_t k = 0; site->runs[i].running && k < site->runs[i].count; k++) {
      world->jobs[site->runs[i].jobs[k]].next = first;
      first = site->runs[i].jobs[k];
    }
    site->runs[i].running = false;
  }
  site->running = 0;
  site->work_ns = site->load_free_ns = site->wake_ns = 0;
  site->life++;
  while (site->held_count) braid_site_drop(world, node, &site->held[site->held_count - 1]);
  return first;
}
