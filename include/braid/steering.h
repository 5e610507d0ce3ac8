/* A training whose operations run where a policy of planning (braid/planning.h) places them, on the devices of this
 * machine: costs come from a profile (braid/profile.h), are held against what operations take while it trains, and
 * where they drift apart, the policy is asked again between two steps (docs/steering.md).
 *
 * Unknown is NAN, never 0. */
#ifndef BRAID_STEERING_H
#define BRAID_STEERING_H

#include "braid/profile.h"
#include "braid/train.h"

typedef struct braid_steering_options {
  const char *policy;   /* its name (braid_planning_policy_name) */
  const char *profile;  /* path of a database that has the operations of this training's step; it is not changed */
  const char *measured; /* without `profile`: path of a database that is made, or goes on, with a quick measurement */
  double cap_watts;     /* for all devices together; 0: none */
  /* An operation drifts if the median of what it takes is more than (1 + drift) times what the plan has for it, or less
   * than the plan's divided by that. */
  double drift;
  int64_t window; /* steps that the median is over */
  int64_t alone;  /* so many steps run on each device alone first, to compare with; 0: none */
  /* While a quick measurement runs; false: stop (CANCELLED). May be NULL. */
  bool (*progress)(void *context, size_t done, size_t total, const char *what);
  void *context;
} braid_steering_options;
/* hybrid-energy, no cap, drift 0.5 over 8 steps. */
BRAID_API void braid_steering_options_init(braid_steering_options *options);

typedef struct braid_steering braid_steering;

/* Measures what is to be measured, asks the policy, and gives the trainer its plan, before the first step. The
 * trainer's options have the devices; its place must be NULL. Strings are copied. The trainer must outlive it, and is
 * not stepped by others. NOT_FOUND: no such policy. UNSUPPORTED names a node that no device can run, or not under the
 * cap, or that the profile has nothing for. */
BRAID_API BRAID_MUST_CHECK braid_status braid_steering_create(braid_trainer *trainer,
                                                              const braid_steering_options *options,
                                                              braid_steering **out);
BRAID_API void braid_steering_destroy(braid_steering *steering); /* NULL is allowed */
/* To be called after each step, for instance by the callback of braid_trainer_run: looks at what the step took, and
 * gives the trainer another plan if it is time to. A failure leaves the plan as it was. */
BRAID_API BRAID_MUST_CHECK braid_status braid_steering_step(braid_steering *steering);

/* --- what came of it ------------------------------------------------------------------------------------------------
 * Strings are the steering's, until the next call of braid_steering_step. */
/* Steps in a row by one plan. */
typedef struct braid_steering_run {
  const char *what;       /* the policy, or "cpu alone" */
  int64_t first, steps;   /* the first step, 1-based over the whole training */
  double seconds;         /* measured: median of a step; NAN: there was none */
  double joules;          /* measured: of a step, all devices; NAN: power of some is unknown */
  double planned_seconds; /* modelled, as the policy's plan has it; NAN for a device alone without a forecast */
  double planned_joules;
} braid_steering_run;
BRAID_API size_t braid_steering_run_count(const braid_steering *steering);
BRAID_API braid_steering_run braid_steering_get_run(const braid_steering *steering, size_t index);

/* Costs drifted, and the policy, asked again, gave another plan. */
typedef struct braid_steering_event {
  int64_t step;          /* after which */
  const char *reason;    /* a sentence */
  const char *from, *to; /* how many operations were, and are, on each device */
  size_t moved;          /* operations */
  double policy_seconds, prepare_seconds, switch_seconds;
  bool copied;            /* parameters went to other memory or another layout */
  double recover_seconds; /* from the first step that took another time until the new plan ran; NAN: unknown */
  double steps_lost; /* time lost in these, in steps as they were before; 0: they had become faster; NAN: unknown */
} braid_steering_event;
BRAID_API size_t braid_steering_event_count(const braid_steering *steering);
BRAID_API braid_steering_event braid_steering_get_event(const braid_steering *steering, size_t index);

/* How often costs drifted and the policy gave the same plan, or one that was hardly better. */
BRAID_API size_t braid_steering_corrections(const braid_steering *steering);

/* Power of all devices together, sampled while it trained. */
typedef struct braid_steering_power {
  double cap_watts;    /* NAN: none */
  const char *unknown; /* devices whose power is not known here, which the numbers below leave out; "": all are */
  bool any;            /* the power of some device is known */
  size_t samples;      /* of power, of all whose power is known */
  size_t violations;   /* of them, above the cap */
  double average_watts, peak_watts; /* NAN: there is no sample */
  double joules;                    /* while power could be read */
  double planned_violations; /* operations that start though the profile's peaks then exceed the cap; NAN: unknown */
  bool planned_unknown;      /* the profile lacks peaks: there may be more */
  size_t waits;              /* of operations for others because of the cap; runs do not keep them */
} braid_steering_power;
BRAID_API braid_steering_power braid_steering_get_power(const braid_steering *steering);
/* What the policy did instead where the devices or their profile lack what it goes by (braid_forecast_note). */
BRAID_API const char *braid_steering_note(const braid_steering *steering);
/* Where its costs came from, and how much of it: a sentence. */
BRAID_API const char *braid_steering_source(const braid_steering *steering);

#endif
