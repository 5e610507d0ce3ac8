/* The steering inside: steering.c makes plans, watch.c holds them against what is measured. */
#ifndef BRAID_STEERING_STATE_H
#define BRAID_STEERING_STATE_H

#include "braid/steering.h"
#include "steering/costs.h"
#include "steering/drift.h"
#include "steering/power.h"
#include "train/trainer.h"

/* Steps by one plan; those of a device alone that were not run have none. */
typedef struct braid_steering_stretch {
  braid_steering_run run;
  double *seconds; /* of each step but the first, which finds everything cold */
  size_t count, capacity;
  double joules[kMaxDevices], metered[kMaxDevices]; /* energy of each known device, and the seconds that it is of */
} braid_steering_stretch;

/* A part of time or energy, below which a plan is no better: medians of a window vary by as much. */
static const double kLeastGain = 0.03;

/* What the policy answered, or what runs instead. */
typedef struct braid_steering_answer {
  const char *what;
  int *devices;  /* per node; -1: nothing runs */
  size_t *order; /* nodes, as they start; of as many as are ordered, 0: they follow the graph */
  size_t ordered;
  braid_forecast_summary forecast;
  size_t waits;
  double policy_seconds;
} braid_steering_answer;

/* A node's part in a task: several nodes are one, if the plan fused them. */
typedef struct braid_steering_part {
  size_t task, node;
  double share; /* of the task's time */
} braid_steering_part;

struct braid_steering {
  const braid_allocator *allocator;
  braid_trainer *trainer;
  braid_steering_options options; /* strings are in the arena */
  braid_arena *arena;
  braid_graph *graph; /* the trainer's step, resolved */
  braid_costs costs;
  braid_power_sampler sampler;
  const char *source;
  const char *note; /* of the last forecast; in the arena */

  braid_steering_answer plan, asked; /* what the trainer has; the last answer */

  /* what runs now */
  int alone;       /* the device that runs alone; -1: the plan runs */
  int *placed;     /* per node, where it runs: a fused one may run elsewhere than it was placed; -1: nowhere */
  double *planned; /* per node, the seconds there that the costs have */
  braid_steering_part *parts; /* a node is in one task at most */
  size_t part_count;
  int64_t seen;        /* steps done when it was looked at last */
  int64_t switched_at; /* steps done then */
  double looked_at;
  braid_power_sums then; /* when it was looked at */
  size_t corrections;    /* of costs by which the plan was the same */
  braid_drift_watch drift;
  double usual; /* of a step by this plan; NAN: not known yet */
  bool no_loss; /* the policy promises it, and there is no cap */
  /* A measured step of each device alone, over the sum of its operations' costs then; NAN: it ran none. */
  double pace[kMaxDevices];
  double excess; /* what the last plan that lost to one device took, over its forecast; 0: none has lost */

  braid_steering_stretch *stretches;
  size_t stretch_count, stretch_capacity, current;
  braid_steering_event *events;
  size_t event_count, event_capacity;
};

/* Of the whole training, unless it ends early. */
int64_t braid_steering_steps_left(const braid_steering *steering);
/* steering.c. Asks the policy: fills `asked`. */
BRAID_MUST_CHECK braid_status braid_steering_ask(braid_steering *steering);
/* What the costs of now make of a placement, per node. */
BRAID_MUST_CHECK braid_status braid_steering_forecast(const braid_steering *steering, const int *devices,
                                                      braid_forecast_summary *out);
/* By the costs of now: is the plan that was asked for faster, or thriftier, by more than kLeastGain, or does it keep a
 * cap better? If not, *now is the forecast of the plan that runs. */
bool braid_steering_gains(const braid_steering *steering, braid_forecast_summary *now);
/* Gives the trainer the plan that was asked for, or a device alone (>= 0), and begins a stretch. If it fails, what ran
 * before goes on. */
BRAID_MUST_CHECK braid_status braid_steering_switch(braid_steering *steering, int alone, braid_replacement *out);
/* The next device, from `first`, that can run all of the step alone; behind the last one the plan. */
BRAID_MUST_CHECK braid_status braid_steering_next(braid_steering *steering, int first);
/* Holds what runs against the costs of now: fills placed, planned and parts. */
void braid_steering_find_parts(braid_steering *steering);
/* "cpu 12, opencl0 30", in the arena; NULL: no memory. `devices` per node. */
const char *braid_steering_count(braid_steering *steering, const int *devices);

#endif
