/* What operations take over the last steps, and whether that is still what the plan was made for. */
#ifndef BRAID_STEERING_DRIFT_H
#define BRAID_STEERING_DRIFT_H

#include "steering/costs.h"

typedef struct braid_drift_watch {
  const braid_allocator *allocator;
  size_t node_count, window;
  double *samples;          /* window for each node; < 0: none */
  double *medians;          /* per node; < 0: not measured */
  double *scratch;          /* window */
  double *steps;            /* what the last 2 * window steps took */
  size_t taken, step_count; /* steps since the last reset, and since the beginning of `steps` */
} braid_drift_watch;

BRAID_MUST_CHECK braid_status braid_drift_init(braid_drift_watch *drift, const braid_allocator *allocator, size_t nodes,
                                               size_t window);
void braid_drift_deinit(braid_drift_watch *drift); /* all zero is allowed */
/* Nothing counts that was seen before: another plan runs. */
void braid_drift_reset(braid_drift_watch *drift);
/* What a node took in the step that ended; then the step. */
void braid_drift_add(braid_drift_watch *drift, size_t node, double seconds);
void braid_drift_end_step(braid_drift_watch *drift, double seconds);
/* Fills `medians`, of as many steps as there are, the window at most. */
void braid_drift_find_medians(braid_drift_watch *drift);
/* Median of the last steps, the window at most. */
double braid_drift_step_seconds(braid_drift_watch *drift);

/* The device that drifts most. */
typedef struct braid_drift_verdict {
  bool drifts;
  size_t device, node;       /* node: of which it changes most */
  size_t drifting, measured; /* operations of the device */
  double factor;             /* what those that drift take together, by what the plan has for them */
  double was, is;            /* seconds of `node` */
} braid_drift_verdict;
/* `devices`: per node where it runs, -1: nowhere; `planned`: seconds in the plan. Medians must be found. */
braid_drift_verdict braid_drift_judge(const braid_drift_watch *drift, const int *devices, const double *planned,
                                      size_t device_count, double most);
/* What a step took before it changed within the last steps, if it did by more than `most`; else NAN. */
double braid_drift_before(braid_drift_watch *drift, double most);
/* How many of the last steps were as the median of the window is now, and not as `usual`; their seconds. */
size_t braid_drift_onset(braid_drift_watch *drift, double usual, double *seconds);
/* How many steps of `usual` seconds could have been more than the `count` that were, in so many seconds: 0, where these
 * have become faster; NAN of what is unknown. */
double braid_drift_lost(double seconds, size_t count, double usual);

#endif
