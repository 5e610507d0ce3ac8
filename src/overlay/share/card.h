/* Several tenants on one card, in virtual time, at the level of tasks: what a model takes on k cores and what a switch
 * costs are numbers that are given (policy.h); no instruction is simulated here (overlay/sim does that).
 *
 * Jobs arrive in contexts; a context runs its jobs one at a time, in the order of their sequence numbers, as a queue of
 * Linux's drm_sched does. A policy is asked when a job arrives or ends, and at its quanta. A job whose cores change
 * goes on until its next place to switch; there it gives cores back, or takes more if they are free (else it goes on,
 * and tries at the next place). Then it pays the switch, holding its new cores, unless these hold the instructions of
 * the same tenant, model and set of cores. After a switch it makes progress to another place at least, so no policy can
 * stop it for ever. A job that waits starts when all of its cores are free. */
#ifndef BRAID_OVERLAY_SHARE_CARD_H
#define BRAID_OVERLAY_SHARE_CARD_H

#include <stdint.h>

#include "overlay/share/policy.h"

/* A hardware context, with the quality of service that was agreed on. */
typedef struct braid_share_context {
  size_t tenant;
  double priority;         /* > 0 */
  double latency_seconds;  /* that a job may take from its arrival on; 0: no deadline */
  double bandwidth;        /* the share of the card's memory bandwidth that is promised: 0 to 1, all together at most 1.
                            * It is checked; that it is kept is the memory controller's (overlay/sim/memory.h). */
  double time_out_seconds; /* of progress, after which a job is ended with TIMEOUT; 0: none */
  int least, most;         /* cores that a job may have, if it has any; 0: 1, all */
} braid_share_context;

typedef struct braid_share_submission {
  size_t context, model;
  double arrival;         /* seconds, >= 0; ascending */
  double latency_seconds; /* 0: that of the context */
  double stretch;         /* it takes so many times what its model says; 0: 1; INFINITY: it never ends */
  double fails_at;        /* it ends with an error at this share of its run; 0: it does not */
} braid_share_submission;

/* What a job did with its cores from one moment to another. */
typedef struct braid_share_span {
  size_t job;
  uint64_t cores; /* a bit for each */
  bool switching; /* else it made progress */
  double from, to;
  double progress; /* made, as a share of its run */
} braid_share_span;

typedef struct braid_share_card {
  int cores; /* 1 to BRAID_OVERLAY_MOST_CORES */
  /* Public: each context has `most` cores for itself all the time, and no policy is asked (Algorithm 1, line 15).
   * Else private: elastic. */
  bool is_public;
  const braid_share_context *contexts;
  size_t context_count;
  const braid_share_model *models;
  size_t model_count;
  const braid_share_submission *jobs;
  size_t job_count;
  void (*on_span)(const braid_share_span *span, void *context); /* may be NULL */
  void *on_span_context;
} braid_share_card;

typedef struct braid_share_result {
  uint64_t sequence;                               /* within its context, from 1 on */
  braid_status status;                             /* OK; DEVICE_LOST: it failed; TIMEOUT */
  double start, end;                               /* seconds: it got cores first; INFINITY start: never */
  double executed, switched, waited, longest_wait; /* seconds */
  double core_seconds;                             /* of both progress and switches */
  double work;                                     /* shares of the run that it made: 1, and what was killed */
  uint64_t switches, preemptions, migrations, kills;
} braid_share_result;

/* Counters of a context, named as struct amdxdna_drm_hwctx_entry of Linux names them. */
typedef struct braid_share_counters {
  uint64_t command_submissions, command_completions, migrations, preemptions, errors, time_outs;
  double core_seconds;
} braid_share_counters;

typedef struct braid_share_totals {
  double seconds;                                    /* until the last job ended */
  double progress_core_seconds, switch_core_seconds; /* the rest of cores x seconds was idle */
  uint64_t asked;                                    /* times the policy was */
} braid_share_totals;

/* Runs all jobs. results: one per job; counters: one per context. Two runs of the same are the same to the bit.
 * INVALID_ARGUMENT: a number is not as above (the detail says which). INTERNAL: the policy gave more cores than there
 * are, or not within a job's bounds, or every job waits and it gives no core to any. */
BRAID_MUST_CHECK braid_status braid_share_run(const braid_share_card *card, const braid_share_policy *policy,
                                              const braid_allocator *allocator, braid_share_result *results,
                                              braid_share_counters *counters, braid_share_totals *totals);

/* check.c: what braid_share_run checks first. */
BRAID_MUST_CHECK braid_status braid_share_check(const braid_share_card *card);

/* What a client used in so many seconds of a card's life, as Linux's accel drivers print it in fdinfo
 * (Documentation/gpu/drm-usage-stats.rst): keys of the standard for engine "core", and our own with the driver's name
 * before them. `clock_mhz` > 0 of the design: cycles are seconds times it. Returns the length without the NUL, as
 * snprintf does. */
int braid_share_fdinfo_of(size_t client, int cores, double priority, const braid_share_counters *counters,
                          double seconds, double clock_mhz, char *text, size_t bytes);
/* The same of a context of a card that was run. */
int braid_share_fdinfo(const braid_share_card *card, size_t context, const braid_share_counters *counters,
                       const braid_share_totals *totals, double clock_mhz, char *text, size_t bytes);

#endif
