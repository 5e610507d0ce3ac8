/* The power cap over all devices of the daemon, over plain numbers: no clock, no sensor. Watts. A run, or training
 * beside, begins only if what runs then stays under the cap; what waits for that goes in its order, whatever its
 * device. */
#ifndef BRAID_SERVE_POWER_POLICY_H
#define BRAID_SERVE_POWER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One for each device, and one for all that runs beside the scheduler. */
enum { BRAID_SERVE_POWER_BESIDE = 16, BRAID_SERVE_POWER_LINES };

typedef struct braid_serve_power {
  double cap;     /* 0: none */
  double idle;    /* of all devices, doing nothing */
  double running; /* what runs now adds */
  double beyond;  /* what sensors show beyond idle + running; 0 where there are none */
  double peak;    /* of idle + running + beyond, so far */
  uint64_t waits; /* how often something had to wait for the cap */
  struct braid_serve_power_wait {
    bool waits;
    int rank;
    int64_t due_ns;
  } lines[BRAID_SERVE_POWER_LINES]; /* the first run of each device that waits for the cap */
} braid_serve_power;

/* Whether a run of `watts` of device `line` may begin now; then it is among what runs. Else it waits: a later one of
 * another device that is less urgent (greater rank, or due later) does not begin before it. */
bool braid_serve_power_begin(braid_serve_power *power, size_t line, double watts, int rank, int64_t due_ns);
/* The line has nothing that waits for the cap. */
void braid_serve_power_withdraw(braid_serve_power *power, size_t line);
void braid_serve_power_end(braid_serve_power *power, double watts);
/* Training beside, which nothing waits for: begins if it fits and nothing else waits. */
bool braid_serve_power_begin_behind(braid_serve_power *power, double watts);
/* What sensors show beyond what the model has for the same time, 0 or more: it counts at once when it grows, and goes
 * by half of it with each sample when it shrinks. */
void braid_serve_power_measure(braid_serve_power *power, double beyond);
double braid_serve_power_now(const braid_serve_power *power);
/* How many runs of so many watts fit at a time, if nothing else runs; at most `most`. */
size_t braid_serve_power_fit(const braid_serve_power *power, double watts, size_t most);

#endif
