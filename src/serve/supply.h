/* The watts of the daemon, which all its threads share: the policy (power_policy.h) under a lock, with the devices'
 * sensors where there are any.
 *
 * Devices' watts are the configuration's (`idle_watts`, `run_watts`, `training_watts`): modelled. Sensors are read ten
 * times a second; what they show beyond the model counts against the cap as well. */
#ifndef BRAID_SERVE_SUPPLY_H
#define BRAID_SERVE_SUPPLY_H

#include "serve/model.h"
#include "serve/power_policy.h"

typedef struct braid_serve_supply braid_serve_supply;

typedef struct braid_serve_supply_view {
  double cap_watts;      /* 0: none */
  double idle_watts;     /* modelled; 0: the configuration says nothing */
  double now_watts;      /* modelled, and what sensors show beyond it */
  double peak_watts;     /* of that, since the daemon began */
  double measured_watts; /* of those devices that have a sensor, as read last; NAN: none has */
  double run_joules;     /* modelled: of runs and training, above idle */
  double seconds;        /* since the daemon began */
  uint64_t waits;        /* of runs for the cap */
} braid_serve_supply_view;

/* `devices` must outlive it. */
braid_status braid_serve_supply_create(const braid_serve_config *config, const braid_serve_device *devices,
                                       size_t device_count, braid_serve_supply **out);
void braid_serve_supply_destroy(braid_serve_supply *supply); /* NULL is allowed */
/* Called after each look at the sensors, by their thread, from now on; not any more once this has returned with NULL.
 */
void braid_serve_supply_watch(braid_serve_supply *supply, void (*sampled)(void *context), void *context);
/* Whether there is a cap: without one, begin always succeeds. */
bool braid_serve_supply_has_cap(const braid_serve_supply *supply);
/* As the policy's, in this order; `device`: its index, whose run_watts the run adds. After an end, whoever was refused
 * may ask again. */
bool braid_serve_supply_begin(braid_serve_supply *supply, size_t device, int rank, int64_t due_ns);
void braid_serve_supply_withdraw(braid_serve_supply *supply, size_t device);
void braid_serve_supply_end(braid_serve_supply *supply, size_t device, int64_t ran_ns);
/* Of what runs on the device beside the scheduler, with `rank` and `due_ns` among all that waits; it ends as a run
 * does. */
bool braid_serve_supply_begin_beside(braid_serve_supply *supply, size_t device, int rank, int64_t due_ns);
void braid_serve_supply_withdraw_beside(braid_serve_supply *supply);
bool braid_serve_supply_begin_training(braid_serve_supply *supply);
void braid_serve_supply_end_training(braid_serve_supply *supply, int64_t ran_ns);
/* How many of the device's instances the cap allows at a time, if nothing else runs. */
size_t braid_serve_supply_fit(braid_serve_supply *supply, size_t device);
braid_serve_supply_view braid_serve_supply_look(braid_serve_supply *supply);

#endif
