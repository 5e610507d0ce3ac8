/* Power and energy of a device while something runs: from its counter, sampled by a thread. A sensor averages over a
 * window, so a measurement takes many windows, and says its error. A counter that disagrees with the power that is
 * polled beside it is not used. */
#ifndef BRAID_MEASURE_METER_H
#define BRAID_MEASURE_METER_H

#include "base/thread.h"
#include "braid/device.h"

enum { BRAID_METER_WINDOWS = 20, BRAID_METER_CHANGES = 256 };

typedef struct braid_meter_reading {
  double seconds, joules, error_joules; /* NAN: unknown */
  double peak_watts;
} braid_meter_reading;

typedef struct braid_meter_sums {
  double last_power, last_power_at, polled_joules, polled_seconds, peak_power;
  double samples, mean, deviations; /* of the polled power: how many, their mean, squares of what they differ from it */
  double changes_at[BRAID_METER_CHANGES], changes[BRAID_METER_CHANGES]; /* of the counter: when, joules */
  size_t change_count;
  double last_read_at; /* of the counter */
  double peak_counter;
  bool failed;
} braid_meter_sums;

typedef struct braid_meter {
  braid_device *device;
  bool counter, power;
  const char *source; /* "counter", "polling"; NULL: nothing, or nothing that can be believed */
  char note[256];     /* why, or what to know; "": nothing */
  bool refused;       /* the counter disagrees with polling, twice in a row */
  bool doubted;       /* it did in the last measurement, which counts for nothing: it is to be repeated */
  double window;      /* seconds between updates of the counter; NAN: there is none */
  double idle_watts, idle_watts_error;

  braid_thread thread;
  bool running;
  uint32_t stop; /* atomic, a futex */
  double began, began_joules;
  braid_meter_sums sums;
} braid_meter;

/* Finds what the device has and how often it is updated; takes up to a second. */
void braid_meter_init(braid_meter *meter, braid_device *device);
/* Whether energy can be measured. */
bool braid_meter_works(const braid_meter *meter);
/* How long a measurement should take at least, in seconds. */
double braid_meter_least_seconds(const braid_meter *meter);
/* While the device does nothing. */
BRAID_MUST_CHECK braid_status braid_meter_measure_idle(braid_meter *meter);
BRAID_MUST_CHECK braid_status braid_meter_begin(braid_meter *meter);
/* What the device used since begin. If the counter turns out not to be believed, all is unknown, and `refused`. */
braid_meter_reading braid_meter_end(braid_meter *meter);

#endif
