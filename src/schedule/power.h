/* Power over the time of a schedule. */
#ifndef BRAID_SCHEDULE_POWER_H
#define BRAID_SCHEDULE_POWER_H

#include "schedule/policy.h"

/* From `from` (seconds) to the next step: all devices together. */
typedef struct braid_power_step {
  double from;
  /* Sum of the peaks of what runs, and of the idle power of the other devices; NAN: some task's or some device's idle
   * power is unknown. */
  double peak_watts;
  /* The same by the average power of each task; NAN from a task on whose energy is unknown, and everywhere if some
   * device's idle power is. */
  double watts;
} braid_power_step;

typedef struct braid_power {
  braid_power_step *steps; /* in the arena; the last one lasts to the end of the schedule */
  size_t count;
  braid_number peak_watts, average_watts; /* unknown if any task's or any device's idle power is */
  /* Tasks at whose start the sum of peaks exceeds the cap of the machine, or theirs that of a device. Those that start
   * at one instant are added one by one: of two that only together exceed it one counts. */
  size_t violations;
  bool violations_unknown; /* a peak is unknown that may exceed a cap */
  double seconds_above;    /* in which that sum, or the peak of a device, is above its cap */
} braid_power;

BRAID_MUST_CHECK braid_status braid_power_of(const braid_problem *problem, const braid_choices *choices,
                                             const braid_allocator *allocator, braid_arena *arena, braid_power *out);

#endif
