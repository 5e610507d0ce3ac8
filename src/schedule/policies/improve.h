/* Improving a solution step by step: a change of clocks or devices is simulated, and kept if the schedule ends in time
 * and costs less energy. */
#ifndef BRAID_SCHEDULE_IMPROVE_H
#define BRAID_SCHEDULE_IMPROVE_H

#include "schedule/simulate.h"

/* bound.c: memory for braid_takes_longer. */
typedef struct braid_least_seconds {
  double *ends, *frees; /* per node; per device */
  int *clocks;          /* per device */
} braid_least_seconds;
BRAID_MUST_CHECK braid_status braid_least_seconds_init(const braid_choosing *choosing, braid_least_seconds *out);
/* True: a simulation of the choices would take longer than so many seconds, also with buses that are always free. False
 * says nothing. `ordered`: devices run their tasks in the choices' order; else in any. */
bool braid_takes_longer(const braid_problem *problem, const braid_choices *choices, bool ordered, double seconds,
                        const braid_least_seconds *memory);

typedef struct braid_improving {
  const braid_choosing *choosing;
  braid_choices best, trial; /* best: simulated, its order is kept */
  braid_alternatives alternatives;
  double limit;      /* seconds that a schedule may take */
  size_t trials;     /* that are left */
  bool capped;       /* schedules keep the caps */
  bool fits;         /* into the spaces, the best does; once it does, schedules that do not are not kept */
  int32_t *sequence; /* tasks of one device, by their starts */
  int *lowest;       /* per device: the clock that is lowest */
  braid_least_seconds least;
} braid_improving;

/* Starts from given choices, simulated in their order; false in *good: they take longer than `limit`, or
 * their time or energy is unknown. `trials`: how many changes are tried at most. */
BRAID_MUST_CHECK braid_status braid_improving_init(const braid_choosing *choosing, const braid_choices *given,
                                                   double limit, size_t trials, bool capped, braid_improving *out,
                                                   bool *good);
/* Runs of tasks that follow each other on a device without a gap get one lower clock each, a run that cannot is halved,
 * down to `smallest` tasks. */
BRAID_MUST_CHECK braid_status braid_improve_clocks(braid_improving *improving, size_t smallest);
/* As many tasks in a row as fit into the time that is left get the clock below the first, which saves most for the time
 * that it takes longer. */
BRAID_MUST_CHECK braid_status braid_improve_first_clocks(braid_improving *improving);
/* slack.c: tasks go to other devices where they cost less, into the time that the schedule leaves them.
 * `variant`, below BRAID_SLACK_VARIANTS: what moves first; the last one moves single tasks only. */
enum { BRAID_SLACK_VARIANTS = 4 };
BRAID_MUST_CHECK braid_status braid_improve_devices(braid_improving *improving, int variant);
/* search.c: devices and clocks of many tasks at once, in random steps that are the same for the same problem; for
 * problems without caps and interference; else nothing is done. It has a budget of its own. `beginning`: of the random
 * numbers; others come across other things. */
BRAID_MUST_CHECK braid_status braid_improve_together(braid_improving *improving, unsigned beginning);
/* A change: `trial` becomes a copy of the best, is changed, and then simulated and kept if it ends in time and costs
 * less; `equal`: or as much. `rule`: makes its order, which is then simulated as it is; NULL: it has one. */
void braid_improving_begin(braid_improving *improving);
void braid_improving_change(braid_improving *improving, int32_t task, int32_t offer, const char *reason);
BRAID_MUST_CHECK braid_status braid_improving_try(braid_improving *improving, const braid_rule *rule, bool equal,
                                                  bool *kept);
/* What a task costs more than if its devices were idle meanwhile. */
double braid_offer_own_joules(const braid_problem *problem, const braid_offer *offer);
/* Gives the best to a policy's choices. */
void braid_improving_give(const braid_improving *improving, braid_choices *choices);

/* slack_energy.c: what takes as long as a schedule may: gpu-only, under a cap hybrid-cap; simulated. No tasks: its
 * regions form a cycle. */
BRAID_MUST_CHECK braid_status braid_choose_baseline(const braid_choosing *choosing, braid_choices *out);

#endif
