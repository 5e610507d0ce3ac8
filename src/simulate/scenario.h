/* A scenario of the cluster's simulator: nodes, models with their measured times, tenants, and what happens when; a
 * YAML file (docs/cluster-simulator.md). */
#ifndef BRAID_SIMULATE_SCENARIO_H
#define BRAID_SIMULATE_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/status.h"

enum {
  BRAID_SCENARIO_KINDS = 64,
  BRAID_SCENARIO_NODES = 100000,
  BRAID_SCENARIO_LIST = 1024, /* models, tenants */
  BRAID_SCENARIO_EVENTS = 10000,
  BRAID_SCENARIO_ROWS = 64, /* of a run, as the daemon's */
  BRAID_SCENARIO_INSTANCES = 16,
  BRAID_SCENARIO_REQUESTS = 10000000
};

typedef struct braid_scenario_nodes {
  char *kind;
  int64_t count;
  int64_t instances; /* runs side by side; 0: 1 */
  double memory_mib;
  double asleep_watts, idle_watts, busy_watts;
  double load_mib_per_s; /* 0: loads take no time */
  char *features;        /* words; NULL: none */
} braid_scenario_nodes;

/* A run of so many rows on a node of the kind: mean and standard deviation. */
typedef struct braid_scenario_time {
  char *kind;
  int64_t rows;
  double mean_ms, deviation_ms;
  size_t kind_index; /* after parsing */
} braid_scenario_time;

typedef struct braid_scenario_model {
  char *name;
  double memory_mib;
  int64_t max_batch;   /* 0: 1 */
  int64_t plan_rows;   /* the size of runs that placements count with; 0: 1 */
  double deadline_ms;  /* of tenants that say nothing; 0: none */
  double delay_ms;     /* how long a request may wait for others */
  int64_t least, most; /* replicas; least 0: 1; most 0: no limit */
  char *features;      /* that a node must have */
  char *private_to;    /* a tenant; nodes that hold it hold nobody else's; NULL: none */
  braid_scenario_time *times;
  unsigned times_count;
  size_t tenant; /* after parsing: of private_to, or SIZE_MAX */
} braid_scenario_model;

typedef enum braid_scenario_arrivals {
  BRAID_ARRIVALS_POISSON,
  BRAID_ARRIVALS_BURSTY, /* gaps of a hyperexponential distribution: many short ones, some long */
  BRAID_ARRIVALS_EVEN,
  BRAID_ARRIVALS_TRACE, /* as recorded; faster or slower where `rate` is said */
} braid_scenario_arrivals;

typedef struct braid_scenario_tenant {
  char *name, *model;
  double rate; /* requests a second */
  braid_scenario_arrivals arrivals;
  double burstiness; /* of bursty gaps: standard deviation over mean, > 1; 0: 4 */
  int64_t priority;  /* 1 to 9; 0: 5 */
  double deadline_ms;
  size_t model_index; /* after parsing */
} braid_scenario_tenant;

typedef enum braid_scenario_what {
  BRAID_EVENT_LOST,
  BRAID_EVENT_BACK,
  BRAID_EVENT_SLOW,
  BRAID_EVENT_CAP,
  BRAID_EVENT_RATE,
} braid_scenario_what;

typedef struct braid_scenario_event {
  double at_s;
  braid_scenario_what event;
  int64_t node, count; /* lost, back, slow: nodes from `node` on, of all kinds in their order; count 0: 1 */
  double factor;       /* slow: times as long */
  double watts;        /* cap; 0: none from now on */
  char *tenant;        /* rate */
  double rate;
  size_t tenant_index, order; /* after parsing */
} braid_scenario_event;

typedef struct braid_scenario {
  double seconds;      /* in which requests arrive */
  int64_t requests;    /* at most; 0: no limit */
  double network_ms;   /* one way between the gateway and a node */
  int64_t max_waiting; /* requests on a node; 0: 256 */
  double period_s;     /* between two looks at the placement; 0: 10 */
  double detect_ms;    /* until a lost node is noticed; 0: 1000 */
  double notice_ms;    /* that a lower cap is known before it holds; 0: 1000 */
  double horizon_s;    /* of placements; 0: 60 */
  double most_busy;    /* of placements; 0: 0.7 */
  double cap_watts;    /* 0: none */
  braid_scenario_nodes *nodes;
  unsigned nodes_count;
  braid_scenario_model *models;
  unsigned models_count;
  braid_scenario_tenant *tenants;
  unsigned tenants_count;
  braid_scenario_event *events; /* by time, after parsing */
  unsigned events_count;
  size_t node_count; /* after parsing: of all kinds */
} braid_scenario;

/* INVALID_FILE names the file, the line and what was allowed. What the file leaves out has its default after this. */
BRAID_MUST_CHECK braid_status braid_scenario_parse(const char *name, const void *text, size_t bytes,
                                                   braid_scenario **out);
BRAID_MUST_CHECK braid_status braid_scenario_load(const char *path, braid_scenario **out);
void braid_scenario_free(braid_scenario *scenario); /* NULL is allowed */
/* Bits for the words of `features`, each word of the scenario one. */
uint64_t braid_scenario_features(const braid_scenario *scenario, const char *features);

#endif
