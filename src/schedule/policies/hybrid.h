/* What the policies of Hype-training (docs/planning.md) share: fast devices, which run the step alone when
 * nothing is offloaded, and others, which may take over a part of it. */
#ifndef BRAID_SCHEDULE_HYBRID_H
#define BRAID_SCHEDULE_HYBRID_H

#include "schedule/simulate.h"

typedef struct braid_hybrid {
  const braid_choosing *choosing;
  const braid_problem *problem;
  braid_choices *choices;
  braid_device_class fast; /* GPU; if there is none, the class of the first device */
  braid_choices base;      /* gpu-only: the step by the fast devices, or without a GPU by all */
  braid_alternatives alternatives;
  int32_t *other; /* per task: the offer of another device that would take it over; -1: none */
  /* Per task: the first of them may take it. Where its reason is constant, it is one of those below. */
  bool *offloaded;
  double *head, *tail; /* per task: the longest path to its start, and from its end */
  double longest;      /* path through all tasks */
  /* Per task what it hands on: reader_tasks and reader_values [first_reader[task]] to [first_reader[task + 1]] */
  size_t *first_reader;
  int32_t *reader_tasks, *reader_values;
  size_t *place; /* per task: in the order of the base */
} braid_hybrid;

/* Finds the base and the offers of other devices by time and energy that are known; nothing is offloaded. Freed with
 * the arena. */
BRAID_MUST_CHECK braid_status braid_hybrid_init(const braid_choosing *choosing, braid_choices *choices,
                                                braid_hybrid *out);
/* Offloads what may be: candidates (section 3.2) that another device runs no slower than the fast one, and what is so
 * far off the critical path that it may be slower (section 3.3). Sets the reasons of all tasks. */
BRAID_MUST_CHECK braid_status braid_hybrid_offload(braid_hybrid *hybrid);
/* Orders tasks that have an `other` by the energy that it saves, the largest first; context: the braid_hybrid. */
int braid_hybrid_by_gain(const void *left, const void *right, void *context);
bool braid_hybrid_is_fast(const braid_hybrid *hybrid, int device);
/* The best offer of a device for a task, for which it is not refused: of the kind of `other` on a device that is not
 * fast, else the fastest that fits, if `simulation` is not NULL under the caps at this moment; -1: none. */
int32_t braid_hybrid_offer(const braid_hybrid *hybrid, const braid_simulation *simulation, int32_t task, int device);
/* Seconds for which the fast devices are busy at least: until the first of them is idle; 0: one is. */
double braid_hybrid_busy(const braid_hybrid *hybrid, const braid_simulation *simulation);
/* Devices in the order in which they are asked; in the arena. */
BRAID_MUST_CHECK braid_status braid_hybrid_order(const braid_hybrid *hybrid, bool fast_first, int **out);

#endif
