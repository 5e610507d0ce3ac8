#include "base/try.h"
#include "base/vector.h"
#include "simulate/world.h"

#define NONE BRAID_WORLD_NONE

/* --- jobs ----------------------------------------------------------------------------------------------------------
 */
static braid_status job_create(braid_world *world, uint32_t *out) {
  if (world->free_job == NONE) {
    braid_job *jobs = braid_grow(world->allocator, world->jobs, world->job_count, &world->job_capacity, sizeof *jobs);
    if (!jobs) return BRAID_NO_MEMORY;
    world->jobs = jobs;
    *out = (uint32_t)world->job_count++;
  } else {
    *out = world->free_job;
    world->free_job = world->jobs[*out].next;
  }
  world->in_flight++;
  return BRAID_OK;
}

static braid_status note_latency(braid_world *world, braid_world_tenant *tenant, int64_t ns) {
  double *latencies =
      braid_grow(world->allocator, tenant->latencies_ns, tenant->done, &tenant->capacity, sizeof *latencies);
  if (!latencies) return BRAID_NO_MEMORY;
  tenant->latencies_ns = latencies;
  latencies[tenant->done++] = (double)ns;
  return BRAID_OK;
}

braid_status braid_gateway_finish(braid_world *world, uint32_t job, braid_outcome outcome) {
  braid_job *j = &world->jobs[job];
  braid_world_tenant *tenant = &world->tenants[j->tenant];
  braid_status status = BRAID_OK;
  bool in_time = false;
  if (outcome == BRAID_OUTCOME_DONE) {
    int64_t end = world->now_ns + world->network_ns;
    in_time = !j->deadline_ns || end <= j->deadline_ns;
    status = note_latency(world, tenant, end - j->arrived_ns);
    if (end > world->end_ns) world->end_ns = end;
  }
  if (in_time)
    tenant->in_time++;
  else if (j->lost)
    tenant->lost++;
  else if (outcome == BRAID_OUTCOME_REFUSED)
    tenant->refused++;
  else
    tenant->late++;
  j->next = world->free_job;
  world->free_job = job;
  world->in_flight--;
  return status;
}

/* --- sending -------------------------------------------------------------------------------------------------------
 */
/* What the job adds to how long the node is busy: its part of a full run. */
static int64_t work_of(const braid_world *world, const braid_site *site, uint32_t model) {
  int64_t rows = world->scenario->models[model].max_batch;
  return (int64_t)(braid_world_time_of(world, site->kind, model, rows)->mean_ns / (double)rows * site->learned);
}

braid_status braid_gateway_send(braid_world *world, uint32_t job) {
  braid_job *j = &world->jobs[job];
  uint32_t model = braid_world_model_of(world, j);
  size_t refused[BRAID_WORLD_TRIES];
  for (uint32_t i = 0; i < j->tries; i++) refused[i] = j->refused[i];
  braid_cluster_route route =
      braid_cluster_choose(world->router, model, world->now_ns, j->deadline_ns, refused, j->tries);
  if (route.node == BRAID_CLUSTER_NONE) return braid_gateway_finish(world, job, BRAID_OUTCOME_REFUSED);
  braid_site *site = &world->sites[route.node];
  j->node = (uint32_t)route.node;
  j->life = site->life;
  if (site->alive) {
    j->work_ns = work_of(world, site, model);
    site->work_ns += j->work_ns;
    braid_site_find(site, model)->jobs++;
    braid_site_refresh(world, j->node);
  }
  if (!world->network_ns) return braid_site_reach(world, job);
  return braid_agenda_note(&world->agenda, world->now_ns + world->network_ns, BRAID_AGENDA_REACH, job, 0, 0);
}

braid_status braid_gateway_refused(braid_world *world, uint32_t job) {
  braid_job *j = &world->jobs[job];
  j->refused[j->tries++] = j->node;
  if (j->tries == BRAID_WORLD_TRIES) return braid_gateway_finish(world, job, BRAID_OUTCOME_REFUSED);
  return braid_gateway_send(world, job);
}

braid_status braid_gateway_retry(braid_world *world, uint32_t first) {
  while (first != NONE) {
    uint32_t job = first;
    braid_job *j = &world->jobs[job];
    first = j->next;
    j->tries = 0;
    j->lost = true;
    j->pushed = false;
    world->tenants[j->tenant].retried++;
    BRAID_TRY(braid_gateway_send(world, job));
  }
  return BRAID_OK;
}

/* --- arrivals ------------------------------------------------------------------------------------------------------
 */
static braid_status note_next(braid_world *world, uint32_t tenant) {
  double at_s = braid_arrivals_next(&world->arrivals[tenant]);
  if (at_s > world->scenario->seconds) {
    world->streams_left--;
    return BRAID_OK;
  }
  int64_t at_ns = (int64_t)(at_s * 1e9 + 0.5);
  return braid_agenda_note(&world->agenda, at_ns < world->now_ns ? world->now_ns : at_ns, BRAID_AGENDA_ARRIVAL, tenant,
                           0, 0);
}

braid_status braid_gateway_arrival(braid_world *world, uint32_t tenant) {
  const braid_scenario_tenant *t = &world->scenario->tenants[tenant];
  uint32_t job;
  if (world->request_count == (uint64_t)world->scenario->requests) {
    world->streams_left--;
    return BRAID_OK;
  }
  world->request_count++;
  world->tenants[tenant].requests++;
  world->arrived[t->model_index]++;
  BRAID_TRY(note_next(world, tenant));
  BRAID_TRY(job_create(world, &job));
  world->jobs[job] = (braid_job){
      .arrived_ns = world->now_ns,
      .deadline_ns = t->deadline_ms > 0 ? world->now_ns + (int64_t)(t->deadline_ms * 1e6) : 0,
      .tenant = tenant,
      .next = NONE,
  };
  return braid_gateway_send(world, job);
}
