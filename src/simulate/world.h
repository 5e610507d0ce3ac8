/* The simulated cluster: what its parts keep, and what they ask of each other. Private to this room.
 *
 * A request (job) comes to the gateway (gateway.c), which sends it to a replica by the routing policy; the node
 * (site.c) admits, orders and runs it by the daemon's policy; the control node (placing.c) moves models by the
 * placement policy. Times in nanoseconds from the start; power in microwatts, whole, so that sums are exact. */
#ifndef BRAID_SIMULATE_WORLD_H
#define BRAID_SIMULATE_WORLD_H

#include "braid/cluster_simulation.h"
#include "serve/cluster/placement_policy.h"
#include "serve/cluster/routing_policy.h"
#include "serve/serving_policy.h"
#include "simulate/agenda.h"
#include "simulate/arrivals.h"
#include "simulate/scenario.h"

enum { BRAID_WORLD_TRIES = 3 }; /* nodes that a request is sent to before it is refused */
#define BRAID_WORLD_NONE UINT32_MAX

typedef struct braid_job {
  int64_t arrived_ns, deadline_ns; /* at the gateway; deadline 0: none */
  int64_t work_ns;                 /* that its node counts with while it waits */
  uint32_t tenant, node, life;     /* where it was sent, in which life of the node */
  uint32_t refused[BRAID_WORLD_TRIES];
  uint32_t tries;
  uint32_t next; /* of a list */
  bool pushed;   /* a more urgent one was admitted before it */
  bool lost;     /* a node that had it was lost, or had to sleep */
} braid_job;

/* A run, or an idle instance. */
typedef struct braid_site_run {
  bool running, cancelled;
  int64_t begin_ns, expected_ns, mean_ns; /* expected by the node; mean as measured */
  uint32_t model, count;
  uint32_t jobs[BRAID_SERVE_TOGETHER];
} braid_site_run;

typedef enum braid_site_state { BRAID_SITE_LOADING, BRAID_SITE_READY, BRAID_SITE_DRAINING } braid_site_state;

/* A model on a node. */
typedef struct braid_site_held {
  uint32_t model, jobs; /* on the way to it, waiting and running */
  braid_site_state state;
  int64_t ready_ns; /* of one that loads */
  double rate;      /* by the last placement */
} braid_site_held;

typedef struct braid_site {
  uint32_t kind, life;
  bool alive, detected; /* detected: it is known to be lost */
  braid_serve_margin margin;
  double slow, learned; /* times as long: what is so, and what its runs have shown */
  braid_serve_waiting *waiting;
  uint32_t *jobs; /* of what waits */
  size_t count, capacity, with_deadline;
  braid_site_run *runs;
  uint32_t instances, running, loading;
  braid_site_held *held;
  size_t held_count, held_capacity;
  braid_site_held *lost; /* what it held when it was lost, until it is planned without it; NULL: nothing */
  size_t lost_count;
  int64_t memory_left, load_free_ns, wake_ns;
  int64_t work_ns; /* of what waits and is on its way */
  uint32_t stuck;  /* jobs that were there when it was lost */
  int64_t microwatts, since_ns;
  double microwatt_ns, busy_ns, alive_ns, awake_ns;
} braid_site;

/* Of a kind of nodes and a model, for each number of rows: 0 where it cannot run. */
typedef struct braid_world_time {
  double mean_ns, deviation_ns;
} braid_world_time;

typedef struct braid_world_tenant {
  uint64_t requests, in_time, late, refused, lost, retried;
  double *latencies_ns; /* of what was done */
  size_t done, capacity;
} braid_world_tenant;

typedef struct braid_world {
  const braid_scenario *scenario;
  const braid_cluster_simulation *options;
  const braid_allocator *allocator;
  uint64_t seed, run_count, request_count;
  int64_t now_ns, network_ns, end_ns;
  braid_agenda agenda;
  braid_arrivals *arrivals;
  size_t streams_left; /* tenants whose requests still come */
  braid_site *sites;
  size_t site_count;
  braid_world_time *times; /* [(kind * models + model) * (ROWS + 1) + rows] */
  braid_job *jobs;
  size_t job_count, job_capacity, in_flight;
  uint32_t free_job;
  braid_world_tenant *tenants;
  /* Placement. */
  braid_cluster_router *router;
  braid_cluster_node *nodes;
  braid_cluster_model *models;
  double *seconds;
  uint64_t *arrived; /* of each model, since the last look */
  int64_t looked_ns;
  braid_cluster_move *loads; /* that wait for room */
  size_t load_count;
  bool freed, changed;     /* there may be room for loads; something is to be planned for */
  int64_t cap, coming_cap; /* microwatts; INT64_MAX: none */
  /* Power. */
  int64_t microwatts, peak, most_microwatts; /* drawn; what awake nodes could draw; the most that was drawn */
  int64_t over_ns;
  uint64_t violations;
  bool is_over;
  /* What is counted. */
  uint64_t loads_done, unloads_done, plans;
  double loaded_bytes;
  braid_cluster_move_record *records;
  size_t record_count, record_capacity;
  braid_cluster_bounds *bounds; /* of each model, as they were told last */
  braid_cluster_move_record *lacks;
  size_t lack_count, lack_capacity;
} braid_world;

static inline const braid_world_time *braid_world_time_of(const braid_world *world, size_t kind, size_t model,
                                                          int64_t rows) {
  return &world->times[(kind * world->scenario->models_count + model) * (BRAID_SCENARIO_ROWS + 1) + (size_t)rows];
}
static inline uint32_t braid_world_model_of(const braid_world *world, const braid_job *job) {
  return (uint32_t)world->scenario->tenants[job->tenant].model_index;
}

/* --- cluster_simulation.c --- */
/* braid_cluster_simulate of what has been read. */
BRAID_MUST_CHECK braid_status braid_world_simulate(const braid_scenario *scenario, const braid_share_recorded *trace,
                                                   size_t trace_count, const braid_cluster_simulation *options,
                                                   braid_cluster_simulated **out);

/* --- gateway.c --- */
BRAID_MUST_CHECK braid_status braid_gateway_arrival(braid_world *world, uint32_t tenant);
/* Sends the job to a node, or refuses it. */
BRAID_MUST_CHECK braid_status braid_gateway_send(braid_world *world, uint32_t job);
/* The node that has it does not take it: it goes to another one, or is refused. */
BRAID_MUST_CHECK braid_status braid_gateway_refused(braid_world *world, uint32_t job);
/* Jobs of a list that their node lost or had to give up. */
BRAID_MUST_CHECK braid_status braid_gateway_retry(braid_world *world, uint32_t first);
typedef enum braid_outcome { BRAID_OUTCOME_DONE, BRAID_OUTCOME_LATE, BRAID_OUTCOME_REFUSED } braid_outcome;
/* The job is over: done at the node now, not run in time, or refused. */
BRAID_MUST_CHECK braid_status braid_gateway_finish(braid_world *world, uint32_t job, braid_outcome outcome);

/* --- site.c --- */
/* Jobs come to a node; a run ends; what waits may run now. */
BRAID_MUST_CHECK braid_status braid_site_reach(braid_world *world, uint32_t job);
BRAID_MUST_CHECK braid_status braid_site_run_end(braid_world *world, uint32_t node, uint32_t instance);
BRAID_MUST_CHECK braid_status braid_site_dispatch(braid_world *world, uint32_t node);
/* Takes all jobs of the node away, and links them. */
uint32_t braid_site_clear(braid_world *world, uint32_t node);
/* Brings the router's view of the node up to date. */
void braid_site_refresh(braid_world *world, uint32_t node);
/* Counts energy up to now; call it before what changes the power, and _power after. */
void braid_site_account(braid_world *world, uint32_t node);
void braid_site_power(braid_world *world, uint32_t node);
int64_t braid_site_most(const braid_world *world, uint32_t node); /* microwatts, awake */
int64_t braid_site_asleep(const braid_world *world, uint32_t node);
braid_site_held *braid_site_find(const braid_site *site, uint32_t model); /* NULL: it does not hold it */
/* The model, which nothing uses, leaves the node. */
void braid_site_drop(braid_world *world, uint32_t node, braid_site_held *held);
BRAID_MUST_CHECK braid_status braid_site_add(braid_world *world, uint32_t node, uint32_t model, braid_site_state state);

/* --- placing.c --- */
BRAID_MUST_CHECK braid_status braid_placing_init(braid_world *world);
void braid_placing_deinit(braid_world *world);
/* Plans where the models go. `at_once`: at the start, when they are there without having been loaded. */
BRAID_MUST_CHECK braid_status braid_placing_plan(braid_world *world, bool at_once);
BRAID_MUST_CHECK braid_status braid_placing_control(braid_world *world);
/* Starts loads that there is room for now. */
BRAID_MUST_CHECK braid_status braid_placing_go_on(braid_world *world);
BRAID_MUST_CHECK braid_status braid_placing_loaded(braid_world *world, uint32_t node, uint32_t model);
/* The coming cap is known; the cap holds from now on; nodes are lost, noticed to be, or back. */
BRAID_MUST_CHECK braid_status braid_placing_notice(braid_world *world, double watts);
BRAID_MUST_CHECK braid_status braid_placing_cap(braid_world *world, double watts);
BRAID_MUST_CHECK braid_status braid_placing_lost(braid_world *world, uint32_t node);
BRAID_MUST_CHECK braid_status braid_placing_detected(braid_world *world, uint32_t node);
BRAID_MUST_CHECK braid_status braid_placing_back(braid_world *world, uint32_t node);

#endif
