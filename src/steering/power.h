/* Power and energy of all devices of a machine together, sampled by a thread while something else runs. */
#ifndef BRAID_STEERING_POWER_H
#define BRAID_STEERING_POWER_H

#include "base/text.h"
#include "base/thread.h"
#include "runtime/machine.h"

typedef struct braid_power_device {
  const braid_machine_device *device;
  bool counter, sensor;
  double window;              /* seconds over which the counter gives a power */
  double counted, counted_at; /* the counter at the last sample that gave a power, and when */
  double watts;               /* the last one; NAN: none yet, or it could not be read */
  double joules, seconds;     /* energy, and the time that it is of: less than all, if readings failed */
} braid_power_device;

typedef struct braid_power_sampler {
  braid_power_device devices[kMaxDevices];
  size_t count;
  braid_text unknown; /* names of those that have neither counter nor sensor that can be read */
  double cap_watts;   /* NAN: none */
  braid_thread thread;
  bool running;
  uint32_t stop;        /* atomic, a futex */
  pthread_mutex_t lock; /* of all that follows, and of the devices */
  size_t samples, violations;
  double last, peak_watts;
} braid_power_sampler;

/* Finds what the machine's devices have, and starts sampling where any has something. */
BRAID_MUST_CHECK braid_status braid_power_sampler_start(braid_power_sampler *sampler, const braid_machine *machine,
                                                        double cap_watts);
void braid_power_sampler_stop(braid_power_sampler *sampler); /* all zero is allowed */

typedef struct braid_power_sums {
  size_t samples, violations;
  double peak_watts; /* NAN: there is no sample */
  size_t count;      /* devices that are known; of each: */
  double joules[kMaxDevices], seconds[kMaxDevices];
} braid_power_sums;
/* The energy of all of them since `before`, and their power; NAN: of one it is not known for that time. */
double braid_power_joules(const braid_power_sums *sums, const braid_power_sums *before);
double braid_power_watts(const braid_power_sums *sums, const braid_power_sums *before);
/* Since the start, by the last samples. */
braid_power_sums braid_power_sampler_read(braid_power_sampler *sampler);

#endif
