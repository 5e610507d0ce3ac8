/* A schedule in virtual time: an event loop that moves from one end of a task to the next. The solution is either
 * played as it is (every device runs its tasks in order, as a queue does), or made meanwhile by a rule, which is asked
 * whenever a device is idle and something has changed.
 *
 * A value is brought into another space once, as soon as it is computed if its readers have a device by then, else when
 * one is chosen; transfers over one bus follow each other in the order in which they were asked for. */
#ifndef BRAID_SCHEDULE_SIMULATE_H
#define BRAID_SCHEDULE_SIMULATE_H

#include "schedule/policy.h"

typedef struct braid_simulation {
  const braid_choosing *choosing;
  braid_choices *choices;
  double now, next;       /* seconds from the start of the run; the next end of a task, INFINITY if none runs */
  const int32_t *running; /* per device: the task that occupies it, by its last node; -1: it is idle */
  /* Tasks that no device has taken though what they read is computed, in the order in which they came to be so. */
  const int32_t *ready;
  size_t ready_count;
  double watts; /* the peaks of what was started and the idle power of the other devices, together */
} braid_simulation;

typedef struct braid_rule {
  const int *order; /* in which idle devices are asked: all devices */
  /* The offer that an idle device is to start now, for one of the ready tasks; -1: it stays idle until something
   * changes. The offer's set of nodes is the task's, and all devices that it occupies are idle. */
  int32_t (*pick)(const braid_simulation *simulation, int device, void *context);
  void *context;
  /* Every task runs by the offer that the choices have for it: a device is asked only while tasks of its own are ready,
   * in the order of devices, and sees those alone. `order` is not used; the choices have an order of tasks. */
  bool assigned;
  /* Per device: the clock at which the run begins; NULL: the first. */
  const int *clocks;
  /* What may run each task, if that is known: devices are asked only while they could run a ready one. NULL: all are.
   */
  const braid_alternatives *alternatives;
} braid_rule;

/* Plays the tasks in `order` (rule NULL; a run that repeats: each device begins at the clock at which it ends), or lets
 * the rule decide for the tasks that offer_of tells apart, and whose offers say where values are sent as soon as they
 * are computed; then offer_of and `order` are set. Sets start, end, after, seconds, joules and the time of transfers.
 * `capped`: a task waits while its peak would exceed a cap; UNSUPPORTED names a task that can never start. */
BRAID_MUST_CHECK braid_status braid_simulate(const braid_choosing *choosing, braid_choices *choices,
                                             const braid_rule *rule, bool capped);

/* --- for rules ------------------------------------------------------------------------------------------------------
 */
/* Whether the offer could start now without exceeding a cap, of the machine or of a device. */
bool braid_simulation_fits(const braid_simulation *simulation, const braid_offer *offer);
/* Whether all devices that it occupies are idle. */
bool braid_simulation_free(const braid_simulation *simulation, const braid_offer *offer);
/* Seconds until everything that the offer reads would be in its device's space. */
double braid_simulation_moving(const braid_simulation *simulation, const braid_offer *offer);

#endif
