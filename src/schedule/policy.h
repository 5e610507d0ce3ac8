/* Policies solve a problem. A policy is a file in policies/ and a line of the table in policy.c.
 *
 * Guarantees of every policy, tested on random problems by policy_test.c: each node that is not idle is covered by
 * exactly one offer; fixed nodes are on their device; the tasks have a topological order; unknown times are not treated
 * as short; what is held in a space at any instant fits into it (memory.h); equal problems have equal solutions. */
#ifndef BRAID_SCHEDULE_POLICY_H
#define BRAID_SCHEDULE_POLICY_H

#include "base/arena.h"
#include "schedule/problem.h"

/* A transfer of a value into a space. */
typedef struct braid_move {
  int32_t value;
  int space;
  double start, end;
} braid_move;

/* The mean of runs that follow each other and are not alike. */
typedef struct braid_mean_run {
  double runs; /* that it is of; 0: all are alike */
  double seconds, joules, idle_joules;
  double shortest, longest; /* seconds */
  double peak_watts;        /* the largest of all; 0: unknown */
  double violations, seconds_above;
  double *device_joules; /* per device; in the arena */
} braid_mean_run;

/* A solution. Its tasks are the chosen offers; in `order` and `reasons` a task is identified by its last node. */
typedef struct braid_choices {
  int32_t *offer_of;    /* per node; -1: idle */
  const char **reasons; /* per task: why this offer was chosen; in the arena, or constant */
  int32_t *order;       /* the tasks in order of submission */
  size_t task_count;
  double *start, *end; /* per node: simulated, in seconds from the start of the run */
  braid_number
      seconds; /* until all tasks are done and the wanted values are on the host; unknown if a time is unknown */
  braid_number joules; /* of tasks and idle devices */
  /* No plan that takes no longer than the baseline costs less, proved; unknown: nothing is proved. */
  braid_number least_joules;
  int32_t *after;        /* per task: the one whose end it waits for because of a cap; -1: none */
  double moving_seconds; /* of all transfers */
  /* By how much the run is longer because values move: the same tasks, in the same order on each device, with the same
   * waits because of caps and rules, would end so much earlier if nothing took time to move. What the host brings in
   * and what it gets back at the end count; what the rest of the run hides does not. Where tasks slow down each other
   * it is an estimate: which are beside which is as in the run with movement. */
  double exposed_seconds;
  /* Each device whose clock takes time to change ends at the clock at which it began, so that the next run is the same.
   */
  bool steady;
  braid_mean_run mean; /* dvfs: of runs whose clocks differ; all else here is of the last of them */
  bool ordered;        /* the policy has simulated it: `order`, times and energy are set */
  braid_move *moves;   /* simulated, in the order in which they were asked for */
  size_t move_count;
  /* Nodes for which offers were refused since plans with them did not fit into a space; whether it is the baseline's
   * plan, as the policy's is worse under that limit; whether plans were left out of a search since they do not fit, and
   * whether orders of transfers were. */
  size_t crowded_out;
  bool baseline, left_out, crossed;
  const braid_offer
      *unweighed; /* optimal: nothing is proved since its time or energy is unknown; NULL: there is none */
} braid_choices;

/* The input and working memory of a policy. */
typedef struct braid_choosing {
  const braid_problem *problem;
  const braid_allocator *allocator;
  braid_arena *arena;
  bool *refused;  /* per offer: must not be chosen */
  int32_t *ranks; /* offers sorted by device, then by size of the set (largest first), then by the device's order */
  bool crowded;   /* offers are refused since plans with them did not fit into a space */
} braid_choosing;

typedef struct braid_policy {
  const char *name, *summary;
  bool capped;  /* keeps the caps: offers beyond them are refused, and tasks wait for each other */
  bool no_loss; /* without caps, no slower than the baseline, everything on the fastest devices, by the same numbers */
  /* Sets offer_of, which is -1 everywhere, and reasons. */
  braid_status (*choose)(const braid_choosing *choosing, braid_choices *choices);
} braid_policy;

size_t braid_policy_count(void);
const braid_policy *braid_policy_at(size_t index);

/* Solves a problem; the choices are allocated in the arena. If regions form a cycle, the last region on it is refused
 * and the problem is solved again. UNSUPPORTED names a node that no offer covers. */
BRAID_MUST_CHECK braid_status braid_problem_solve(const braid_policy *policy, const braid_problem *problem,
                                                  const braid_allocator *allocator, braid_arena *arena,
                                                  braid_choices *out);

/* What the policy did instead where the problem lacks what it goes by: devices of the class that it is named after,
 * energies that are known, a cap, a proof. Sentences in the arena; "": nothing to say. `choices` are its solution. */
BRAID_MUST_CHECK braid_status braid_policy_note(const braid_policy *policy, const braid_problem *problem,
                                                const braid_choices *choices, const braid_allocator *allocator,
                                                braid_arena *arena, const char **note);
/* "the energy of NODE on DEVICE", or its time, whichever is unknown; in the arena, NULL without memory. */
const char *braid_offer_unknown(const braid_problem *problem, const braid_offer *offer, braid_arena *arena);
/* Larger graphs are not searched by the policy "optimal". */
enum { BRAID_OPTIMAL_TASKS = 20 };

/* --- for policies ---------------------------------------------------------------------------------------------------
 */
braid_status braid_choices_init(const braid_choosing *choosing, braid_choices *out);
/* Whether the offer is allowed and none of its nodes is covered. */
bool braid_choices_free(const braid_choosing *choosing, const braid_choices *choices, int32_t offer);
void braid_choices_take(const braid_choosing *choosing, braid_choices *choices, int32_t offer, const char *reason);
/* The task that covers a node, identified by its last node. */
int32_t braid_choices_task(const braid_problem *problem, const braid_choices *choices, int32_t node);
/* Sets `order`. *cycle: -1, or the region with the highest index on a cycle; the order is then incomplete. */
BRAID_MUST_CHECK braid_status braid_choices_sort(const braid_choosing *choosing, braid_choices *choices,
                                                 int32_t *cycle);
/* What a policy's rule made of a run that began at the first clocks, as one of runs that follow each other: the same
 * tasks in the same order, each device from the clock at which it ends, and values go in that order to those that read
 * them, and nowhere else. The first run stands where it is better and leaves the clocks as they were, or where the caps
 * leave something waiting for ever in the others. `capped`: tasks keep the caps. */
BRAID_MUST_CHECK braid_status braid_choices_repeat(const braid_policy *policy, const braid_choosing *choosing,
                                                   bool capped, braid_choices *out);
/* Simulates the tasks in order, one after the other on each device (simulate.h). */
BRAID_MUST_CHECK braid_status braid_choices_play(const braid_choosing *choosing, braid_choices *choices);
/* When a transfer's buses are free, from `from` seconds on. */
double braid_problem_link_free(const braid_problem *problem, int from_space, int space, double from,
                               const double *bus_free);
/* The time at which a value could be available in a space, if its transfer starts at `from` seconds. */
double braid_problem_arrival(const braid_problem *problem, int32_t value, int from_space, int space, double from,
                             double *bus_free);
/* first.c: takes free offers in the order of ranks, after those for nodes that no device runs as a single node. */
BRAID_MUST_CHECK braid_status braid_choose_first(const braid_choosing *choosing, braid_choices *choices);
/* manual.c: takes the offers for fixed nodes, the largest first of those that leave regions of earlier devices whole.
 */
BRAID_MUST_CHECK braid_status braid_choose_fixed(const braid_choosing *choosing, braid_choices *choices);
/* Whether it could run under the caps if nothing else did. An unknown peak could not. */
bool braid_offer_within_caps(const braid_problem *problem, const braid_offer *offer);
/* The same for the caps of single devices: each counts its share of the peak. */
bool braid_offer_within_device_caps(const braid_problem *problem, const braid_offer *offer);
/* The offers for exactly the nodes of a task that is not refused: offers[first[task]] to offers[first[task + 1]], by
 * device and then in the device's order. In the arena. */
typedef struct braid_alternatives {
  size_t *first;
  int32_t *offers;
} braid_alternatives;
BRAID_MUST_CHECK braid_status braid_choices_alternatives(const braid_choosing *choosing, const braid_choices *choices,
                                                         braid_alternatives *out);
/* heft.c, over the devices of a class alone; nodes for which they have no offer are on others. */
BRAID_MUST_CHECK braid_status braid_choose_class(const braid_choosing *choosing, braid_device_class class,
                                                 braid_choices *choices);
/* Why caps refuse a node, beginning with " under the power cap", by that of its offers which needs least; "": they do
 * not. `text` has room for `bytes`. */
void braid_caps_explain(const braid_choosing *choosing, int32_t node, char *text, size_t bytes);
/* Whether dvfs knows what a device draws (-1: the whole machine): its idle power, and the energy of all it runs. A cap
 * of what is not measured changes no clock. */
bool braid_dvfs_measures(const braid_problem *problem, const braid_choices *choices, int device);
/* UNSUPPORTED, if a node is not covered, with the name of the first that all its offers are refused for, and with the
 * cap where it is one. */
BRAID_MUST_CHECK braid_status braid_choices_check(const braid_choosing *choosing, const braid_choices *choices);

extern const braid_policy braid_policy_first, braid_policy_manual, braid_policy_heft, braid_policy_gpu_only,
    braid_policy_cpu_only, braid_policy_hybrid_energy, braid_policy_hybrid_cap, braid_policy_dvfs,
    braid_policy_region_clock, braid_policy_slack_energy, braid_policy_optimal;

#endif
