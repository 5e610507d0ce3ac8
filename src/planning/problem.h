/* A graph on a modelled machine as a problem of schedule/. */
#ifndef BRAID_PLANNING_PROBLEM_H
#define BRAID_PLANNING_PROBLEM_H

#include "base/arena.h"
#include "graph/graph.h"
#include "planning/machine.h"

typedef struct braid_modelled_problem {
  braid_problem problem;     /* all that it points to is in the arena */
  const char **ops, **likes; /* per node: its op, and the published one whose rows stand for it */
  double *mhz;               /* per offer; NAN: the device has no clocks */
} braid_modelled_problem;

/* `replicas`: of the training step, on a GPU each; 1: the graph is for the whole machine. UNSUPPORTED names a node for
 * whose op the profile has nothing. */
BRAID_MUST_CHECK braid_status braid_modelled_problem_make(const braid_graph *graph,
                                                          const braid_modelled_machine *machine, double cap_watts,
                                                          int64_t replicas, braid_arena *arena,
                                                          braid_modelled_problem *out);

/* Sends nodes to devices by a list of "pattern=device" (braid_forecast_options.place). NOT_FOUND names a device or a
 * pattern that there is not, UNSUPPORTED a node that its device has no offer for. *note: what is placed and what is
 * not, in the arena. */
BRAID_MUST_CHECK braid_status braid_modelled_problem_place(const braid_modelled_problem *modelled, const char *list,
                                                           const braid_allocator *allocator, braid_arena *arena,
                                                           const char **note);

#endif
