/* Tenants of a card of the overlay (docs/sharing.md, docs/overlay.md): trials of their isolation with real programs on
 * the simulated card, and policies that share it, compared on traces with times that the simulator measured of
 * packages. All times are modelled. */
#ifndef BRAID_OVERLAY_TENANTS_H
#define BRAID_OVERLAY_TENANTS_H

#include "braid/log.h"
#include "braid/overlay.h"

/* --- isolation ------------------------------------------------------------------------------------------------------
 * A tenant runs a package again and again, alone on its cores and beside an offender; its results are to be the same
 * bits, and its cycles the same within 1 %. */
typedef enum braid_overlay_beside {
  BRAID_OVERLAY_OWN_BANKS,   /* the cores of both are at different banks */
  BRAID_OVERLAY_GATED_BANK,  /* at one bank, where the gate of each core lets an equal part of it pass */
  BRAID_OVERLAY_SHARED_BANK, /* at one bank, ports taking turns */
  BRAID_OVERLAY_OWN_GATED,   /* at different banks, where the gate of each core of the tenant lets an equal part of its
                                bank pass, and of the card's decoder it has a core's share for itself */
  BRAID_OVERLAY_BESIDES
} braid_overlay_beside;
BRAID_API const char *braid_overlay_beside_name(braid_overlay_beside beside);

typedef struct braid_overlay_offence {
  const char *name, *text;
  bool fails; /* it is to get an error; else it does nothing wrong, but a lot */
} braid_overlay_offence;
BRAID_API size_t braid_overlay_offence_count(void);
BRAID_API braid_overlay_offence braid_overlay_offence_at(size_t index); /* `index` below the count */

typedef struct braid_overlay_trial {
  int cores, offender_cores;
  int64_t offences;    /* jobs of the offender that ended meanwhile */
  braid_status status; /* of the last of them */
  char why[256];       /* "": it ended well */
  int64_t cycles;      /* of the tenant's last job, alone */
  double deviation;    /* of the tenant's jobs beside the offender: the greatest |cycles / alone - 1| */
  double gate_cost;    /* what the gates cost the tenant when it is alone: share of its cycles; else 0 */
  bool same_bits;      /* of its results */
  bool clean;          /* when the offender is gone: memory and cores are free, and the next one finds 0 in both */
} braid_overlay_trial;
/* package NULL: one of six convolutions. INVALID_ARGUMENT: a package of other cores; UNSUPPORTED: the design has not
 * two cores at each of two banks. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_try_isolation(const braid_overlay_design *design,
                                                                    const braid_overlay_package *package,
                                                                    size_t offence, braid_overlay_beside beside,
                                                                    braid_overlay_trial *out);

/* --- policies -------------------------------------------------------------------------------------------------------
 * Jobs of tenants arrive at one card, each a run of one network; a policy says how many cores each job has, from when
 * on. Simulated at the level of jobs. Equal arguments have equal results, to the bit. */
/* What a network takes on 1, 2, ... cores of a design. Immutable. */
typedef struct braid_overlay_costs braid_overlay_costs;
/* Simulates the package on each number of cores, cycle by cycle: all of a run, and each of its layers (of a recurrent
 * network its steps), at whose ends a job may change its cores. A switch costs the dynamic compiler's time, for which a
 * constant stands (BRAID_OVERLAY_COMPILE_US; it is measured elsewhere, and would differ from run to run), the way of
 * the programs from the host, and of a recurrent network within its sequence that of its vectors. `name` is copied, and
 * is that of networks in tables. `progress` NULL: nobody is told. As braid_overlay_simulate. */
enum { BRAID_OVERLAY_COMPILE_US = 50 };
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_costs_create(const braid_overlay_package *package,
                                                                   const braid_overlay_design *design, const char *name,
                                                                   const braid_progress *progress,
                                                                   const braid_allocator *allocator,
                                                                   braid_overlay_costs **out);
BRAID_API void braid_overlay_costs_destroy(braid_overlay_costs *costs); /* NULL is allowed */
typedef struct braid_overlay_costs_info {
  const char *name;
  int cores;                              /* of the design */
  const double *seconds, *switch_seconds; /* on 1 .. cores cores: of a run; of being given so many */
  double vector_seconds;                  /* beside a switch in the middle of a sequence */
  size_t places;                          /* where cores may change, beside the end */
} braid_overlay_costs_info;
BRAID_API braid_overlay_costs_info braid_overlay_costs_get_info(const braid_overlay_costs *costs);

/* Jobs, and when they arrive. Model, tenant and priority (1, 3, 9) of each are drawn, uniformly, and its arrival too,
 * as for PREMA (Choi and Rhu, HPCA 2020); or arrivals are those of a trace of requests, faster or slower so that the
 * load is as wanted, of which those with the fewest tokens run the network that is fastest alone, and so on. */
typedef struct braid_overlay_traffic_options {
  size_t jobs;           /* with `trace` at most so many, the first ones; 0: all */
  size_t tenants;        /* 1 .. BRAID_OVERLAY_MOST_TENANTS */
  uint64_t seed;         /* of what is drawn */
  double load;           /* > 0: all times alone over the time in which the jobs arrive */
  double deadline_times; /* a job may take so many times its time alone; 0: no deadline */
  const char *trace;     /* text with the columns of AzurePublicDataset's TIMESTAMP,ContextTokens,GeneratedTokens, of
                            `trace_bytes`; NULL: random arrivals */
  size_t trace_bytes;
} braid_overlay_traffic_options;
enum { BRAID_OVERLAY_MOST_TENANTS = 4096, BRAID_OVERLAY_MOST_JOBS = 1000000 };
typedef struct braid_overlay_traffic braid_overlay_traffic;
/* `costs` must outlive it, and be of one number of cores. INVALID_ARGUMENT: an option is not as above, or there is no
 * job; INVALID_FILE: line of the trace that is wrong. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_traffic_create(const braid_overlay_costs *const *costs,
                                                                     size_t count,
                                                                     const braid_overlay_traffic_options *options,
                                                                     const braid_allocator *allocator,
                                                                     braid_overlay_traffic **out);
BRAID_API void braid_overlay_traffic_destroy(braid_overlay_traffic *traffic); /* NULL is allowed */
BRAID_API size_t braid_overlay_traffic_jobs(const braid_overlay_traffic *traffic);

typedef struct braid_overlay_policy {
  const char *name, *summary;
} braid_overlay_policy;
BRAID_API size_t braid_overlay_policy_count(void);
BRAID_API braid_overlay_policy braid_overlay_policy_at(size_t index); /* `index` below the count */
/* NOT_FOUND lists them. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_policy_find(const char *name, size_t *index);

/* What became of a job; seconds. */
typedef struct braid_overlay_shared_job {
  size_t network, tenant; /* of the costs; 0 .. tenants - 1 */
  double priority, arrival, start, end;
  double alone;    /* on the cores that run it fastest, without a switch */
  double executed; /* it made progress; the rest until its end it switched or had no cores: */
  double switched, waited;
  uint64_t switches, preemptions;
} braid_overlay_shared_job;

/* A job's slowdown is its time from arrival to end over its time alone. */
typedef struct braid_overlay_shared {
  size_t jobs;
  double antt;                /* the mean slowdown: average normalized turnaround time */
  double urgent_antt;         /* of the jobs of the greatest priority that there is */
  double stp;                 /* the sum of 1 / slowdown: system throughput */
  double fairness;            /* PREMA's: the least over the greatest 1 / slowdown / priority */
  double within[10];          /* the share of jobs with a slowdown of at most 2, 4, ... 20 */
  double deadlines;           /* the share that met it; NAN: there is none */
  double p99, p99_seconds;    /* 99th percentiles of slowdown and of time, by nearest rank */
  double worst, longest_wait; /* greatest slowdown; most seconds in a row without cores */
  double seconds;             /* until the last job ended */
  double switching, idle;     /* shares of the cores' time until then */
} braid_overlay_shared;
/* `policy`: its index. `jobs`: NULL, or one for each job, by arrival. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_share(const braid_overlay_traffic *traffic, size_t policy,
                                                            const braid_allocator *allocator,
                                                            braid_overlay_shared_job *jobs, braid_overlay_shared *out);

#endif
