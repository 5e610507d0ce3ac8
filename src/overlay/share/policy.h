/* Policies share a card among jobs. A policy is a file in policies/ and a line of the table in policy.c: it sees jobs
 * and numbers, and says how many cores each job shall have; the card (card.h) carries that out.
 *
 * Guarantees of every policy, tested on random jobs by policy_test.c: cores of all answers together are at most the
 * card's, each within its job's bounds; every job ends; equal views have equal answers. */
#ifndef BRAID_OVERLAY_SHARE_POLICY_H
#define BRAID_OVERLAY_SHARE_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "braid/allocator.h"
#include "overlay/design.h"

/* What a model costs on the card: measured, simulated or made up elsewhere. All is the caller's. */
typedef struct braid_share_model {
  const char *name;
  const double *seconds; /* of one run on 1, 2, ... cores of the card: > 0 */
  /* Of being given 1, 2, ... cores: recompilation and transfer of instructions (equation 10). NULL: nothing. */
  const double *switch_seconds;
  double vector_seconds; /* beside that, where it goes on in its middle: its vectors (equation 11; 0 for a CNN) */
  /* Where its cores can change before its end, as shares of the run in (0, 1), ascending: ends of layers, operators or
   * tiles. NULL: `place_count` places at equal distances. None: only at its end (the switch after the task). */
  const double *places;
  size_t place_count;
  /* Seconds from the begin to each of `places` on 1, 2, ... cores, `place_count` numbers for each: ascending, below its
   * `seconds`. Layers gain by more cores unlike each other, so that a share of the run is not the same share of the
   * time on each number of cores. NULL: it is. */
  const double *place_seconds;
} braid_share_model;

/* What a policy sees of a job that has arrived and is the next of its context. */
typedef struct braid_share_job {
  size_t id;
  const braid_share_model *model;
  size_t tenant;            /* 0 to the view's `tenants` - 1 */
  double priority;          /* 1, 3 or 9 in PREMA; > 0 */
  double arrival, deadline; /* seconds; INFINITY: none */
  double progress;          /* the share of the run that is done */
  int cores;                /* that it holds; 0: it waits */
  int target;               /* that it was to have by the last answer */
  int least, most;          /* that it may have, if it has any */
  bool switching;           /* it holds its cores, and its instructions are on their way */
  double executed, waited;  /* seconds: it made progress; it had no cores */
  double waiting_since;     /* when its cores were taken, or it arrived, if it waits */
  double to_place;          /* seconds until its cores can change; 0 if it waits */
  double *kept;             /* BRAID_SHARE_KEPT numbers of the policy's own, 0 when the job arrives */
} braid_share_job;

/* Policies with tokens keep them, and up to what was waited they have counted, in these. */
enum { BRAID_SHARE_TOKENS, BRAID_SHARE_WAITED, BRAID_SHARE_KEPT };

typedef struct braid_share_view {
  double now; /* seconds */
  int cores;  /* of the card */
  size_t tenants;
  const braid_share_job *jobs; /* by arrival, then by id */
  size_t count;
  size_t *order; /* `count` numbers of working memory */
  const braid_allocator *allocator;
} braid_share_view;

typedef struct braid_share_answer {
  int cores; /* 0, or from `least` to `most`; it gets them, or gives them back, at its next place */
  bool kill; /* stop at once, and begin anew later (PREMA's KILL) */
} braid_share_answer;

typedef struct braid_share_policy {
  const char *name, *summary;
  double quantum_seconds; /* it is asked so often while several jobs are there; 0: at arrivals and ends alone */
  bool bounded_wait;      /* a job is served in the end, however many others keep coming: policy_test.c says how soon */
  /* One answer per job of the view, all 0 at first. */
  braid_status (*decide)(const braid_share_view *view, braid_share_answer *answers);
} braid_share_policy;

size_t braid_share_policy_count(void);
const braid_share_policy *braid_share_policy_at(size_t index);
/* NULL: none is called so. */
const braid_share_policy *braid_share_policy_find(const char *name);

/* --- for policies ---------------------------------------------------------------------------------------------------
 */
/* The fewest of at most `cores` cores that run the model in the least time, and that time. */
int braid_share_fastest(const braid_share_model *model, int cores);
double braid_share_isolated(const braid_share_model *model, int cores);
/* Seconds from one share of the run to another on k cores. */
double braid_share_between(const braid_share_model *model, int k, double from, double to);
/* The share of the run that is done in so many seconds on k cores, after `from`; at most 1 - from. */
double braid_share_made(const braid_share_model *model, int k, double from, double seconds);
/* The place after a share of the run; 1: its end. */
double braid_share_next_place(const braid_share_model *model, double progress);
/* Within the job's bounds: the fewest of at most `cores` cores that end it soonest; 0: it may not have so few. */
int braid_share_best(const braid_share_job *job, int cores);
/* Seconds of the rest of the job on k cores, without switches. */
double braid_share_left(const braid_share_job *job, int k);
/* Seconds of a switch of the job to k cores, if these hold other instructions. */
double braid_share_switch(const braid_share_job *job, int k);
/* Gives cores that are left after `answers` to jobs without any, by arrival. */
void braid_share_fill(const braid_share_view *view, braid_share_answer *answers);

extern const braid_share_policy braid_share_fcfs, braid_share_prema, braid_share_seed_token,
    braid_share_seed_token_corrected, braid_share_spatial, braid_share_lookahead, braid_share_lookahead_urgent;

#endif
