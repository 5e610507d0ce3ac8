/* Policies: from a problem to choices. A policy is a file under policies/ and a line of the table in policy.c.
 *
 * What every policy promises, and policy_test.c checks on random problems: each node that is not idle is covered by
 * exactly one offer; what the caller has fixed stays; the tasks have an order in which each starts after what it reads;
 * an unknown time is not taken for a short one; the same problem gives the same choices. */
#ifndef BRAID_SCHEDULE_POLICY_H
#define BRAID_SCHEDULE_POLICY_H

#include "base/arena.h"
#include "schedule/problem.h"

/* One solution. Tasks are the offers chosen; in `order` and `reasons` each stands as the last of its nodes. */
typedef struct braid_choices {
  int32_t *offer_of;    /* per node; -1: idle */
  const char **reasons; /* per task: why this offer; in the arena, or constant */
  int32_t *order;       /* the tasks, as they would be submitted */
  size_t task_count;
  double *start, *end;  /* per node: seconds from the start of the run, by the problem's numbers */
  braid_number seconds; /* until all is done and what is wanted is on the host; unknown if a time is */
  braid_number joules;  /* of tasks and of idle devices */
} braid_choices;

/* What a policy works with. */
typedef struct braid_choosing {
  const braid_problem *problem;
  const braid_allocator *allocator;
  braid_arena *arena;
  bool *refused;  /* per offer: it must not be taken */
  int32_t *ranks; /* the offers by device, larger sets first, then the device's own order */
} braid_choosing;

typedef struct braid_policy {
  const char *name, *summary;
  /* Fills offer_of, which is -1 everywhere, and reasons. */
  braid_status (*choose)(const braid_choosing *choosing, braid_choices *choices);
} braid_policy;

size_t braid_policy_count(void);
const braid_policy *braid_policy_at(size_t index);

/* Solves a problem; choices live in the arena. Regions that would wait for each other are told apart here: of those on
 * a cycle the last is refused and its nodes get other offers. UNSUPPORTED names a node that no offer is left for. */
BRAID_MUST_CHECK braid_status braid_schedule(const braid_policy *policy, const braid_problem *problem,
                                             const braid_allocator *allocator, braid_arena *arena, braid_choices *out);

/* --- for policies ---------------------------------------------------------------------------------------------------
 */
braid_status braid_choices_init(const braid_choosing *choosing, braid_choices *out);
/* Is the offer allowed, and none of its nodes covered? */
bool braid_choices_free(const braid_choosing *choosing, const braid_choices *choices, int32_t offer);
void braid_choices_take(const braid_choosing *choosing, braid_choices *choices, int32_t offer, const char *reason);
/* The last node of the task that covers a node. */
int32_t braid_choices_task(const braid_problem *problem, const braid_choices *choices, int32_t node);
/* Fills order. *cycle: -1, or a region on a cycle, the last by its number; the order is then not complete. */
BRAID_MUST_CHECK braid_status braid_choices_sort(const braid_choosing *choosing, braid_choices *choices,
                                                 int32_t *cycle);
/* Plays the tasks in order, each on its device after those before it: fills start, end and the sums. */
BRAID_MUST_CHECK braid_status braid_choices_play(const braid_choosing *choosing, braid_choices *choices);
/* When a value could be in a space, if it left its own at `from` seconds. */
double braid_problem_arrival(const braid_problem *problem, int32_t value, int from_space, int space, double from,
                             double *bus_free);
/* first.c: takes whatever is free in the order of ranks. Nodes that no device runs alone come first. */
BRAID_MUST_CHECK braid_status braid_choose_first(const braid_choosing *choosing, braid_choices *choices);
/* hand.c: takes the offers for what the caller has fixed, the largest first. */
void braid_choose_fixed(const braid_choosing *choosing, braid_choices *choices);
/* UNSUPPORTED, with the name of the first node that is not covered. */
BRAID_MUST_CHECK braid_status braid_choices_check(const braid_choosing *choosing, const braid_choices *choices);

extern const braid_policy braid_policy_first, braid_policy_hand, braid_policy_auto;

#endif
