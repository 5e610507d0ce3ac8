#include "serve/supply.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/try.h"
#include "runtime/machine.h"

static const int64_t kSample = 100000000; /* between two looks at sensors: nanoseconds */

typedef struct sensor {
  braid_device *device;
  double last_uj; /* of its counter */
  int64_t at_ns;
  double watts; /* as it was read last; NAN: it could not be */
} sensor;

struct braid_serve_supply {
  const braid_serve_config *config;
  const braid_serve_device *devices;
  pthread_mutex_t lock; /* of what follows */
  braid_serve_power power;
  double run_joules, measured_watts;
  void (*sampled)(void *context);
  void *context;
  /* --- the sampler's --- */
  sensor sensors[BRAID_SERVE_POWER_LINES];
  size_t sensor_count;
  braid_thread sampler;
  bool samples;
  uint32_t stop; /* atomic, a futex */
  int64_t began_ns;
};

/* --- sensors -------------------------------------------------------------------------------------------------------
 */
/* Watts since the last reading of the counter, or of the power sensor. NAN: unknown. */
static double sensor_read(sensor *s) {
  const braid_backend *backend = braid_device_backend(s->device);
  void *self = braid_device_self(s->device);
  int64_t now = braid_now_ns(), before = s->at_ns;
  double uj = NAN, watts = NAN;
  if (backend->read_energy && backend->read_energy(self, &uj) == BRAID_OK && isfinite(uj)) {
    double used = uj - s->last_uj;
    s->last_uj = uj;
    s->at_ns = now;
    return before && used >= 0 && now > before ? used * 1e3 / (double)(now - before) : NAN;
  }
  if (backend->read_power && backend->read_power(self, &watts) == BRAID_OK && watts >= 0) return watts;
  return NAN;
}

static void *sample(void *context) {
  braid_serve_supply *supply = context;
  while (!__atomic_load_n(&supply->stop, __ATOMIC_ACQUIRE)) {
    double all = 0;
    for (size_t i = 0; i < supply->sensor_count; i++) all += sensor_read(&supply->sensors[i]);
    pthread_mutex_lock(&supply->lock);
    supply->measured_watts = all;
    if (isfinite(all)) braid_serve_power_measure(&supply->power, all);
    void (*sampled)(void *) = supply->sampled;
    pthread_mutex_unlock(&supply->lock);
    if (sampled) sampled(supply->context);
    (void)braid_futex_wait(&supply->stop, 0, kSample);
  }
  return NULL;
}

/* One for each device of this machine that has one: parts of a device, and names for it, have the same. */
static void find_sensors(braid_serve_supply *supply, size_t device_count) {
  for (size_t i = 0; i < device_count; i++) {
    const braid_machine *machine = supply->devices[i].machines[0];
    if (!machine) continue; /* a card, which is modelled */
    for (size_t k = 0; k < machine->device_count && supply->sensor_count < BRAID_SERVE_POWER_LINES; k++) {
      sensor s = {.device = machine->devices[k].device};
      bool known = braid_device_get_info(s.device)->modelled;
      for (size_t j = 0; j < supply->sensor_count; j++)
        known |=
            strcmp(braid_device_get_info(supply->sensors[j].device)->name, braid_device_get_info(s.device)->name) == 0;
      if (known) continue;
      double first = sensor_read(&s);
      if (s.at_ns || isfinite(first)) supply->sensors[supply->sensor_count++] = s;
    }
  }
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_serve_supply_create(const braid_serve_config *config, const braid_serve_device *devices,
                                       size_t device_count, braid_serve_supply **out) {
  *out = NULL;
  braid_serve_supply *supply = braid_zalloc(NULL, sizeof *supply);
  if (!supply) return BRAID_NO_MEMORY;
  supply->config = config;
  supply->devices = devices;
  supply->power.cap = config->power_cap_watts;
  for (size_t i = 0; i < device_count; i++) supply->power.idle += devices[i].config->idle_watts;
  supply->power.peak = supply->power.idle;
  supply->measured_watts = NAN;
  supply->began_ns = braid_now_ns();
  pthread_mutex_init(&supply->lock, NULL);
  find_sensors(supply, device_count);
  if (supply->sensor_count) {
    braid_status status = braid_thread_start(&supply->sampler, "braid-sensors", sample, supply);
    if (status != BRAID_OK) {
      braid_serve_supply_destroy(supply);
      return status;
    }
    supply->samples = true;
  }
  *out = supply;
  return BRAID_OK;
}

void braid_serve_supply_destroy(braid_serve_supply *supply) {
  if (!supply) return;
  __atomic_store_n(&supply->stop, 1, __ATOMIC_RELEASE);
  braid_futex_wake_all(&supply->stop);
  if (supply->samples) braid_thread_join(&supply->sampler);
  pthread_mutex_destroy(&supply->lock);
  braid_free(NULL, supply);
}

void braid_serve_supply_watch(braid_serve_supply *supply, void (*sampled)(void *context), void *context) {
  pthread_mutex_lock(&supply->lock);
  supply->context = context;
  supply->sampled = sampled;
  pthread_mutex_unlock(&supply->lock);
}

/* --- the policy, locked --------------------------------------------------------------------------------------------
 */
bool braid_serve_supply_has_cap(const braid_serve_supply *supply) {
  return supply->power.cap > 0;
}

bool braid_serve_supply_begin(braid_serve_supply *supply, size_t device, int rank, int64_t due_ns) {
  pthread_mutex_lock(&supply->lock);
  double watts = supply->devices[device].config->run_watts;
  bool begins = braid_serve_power_begin(&supply->power, device, watts, rank, due_ns);
  pthread_mutex_unlock(&supply->lock);
  return begins;
}

void braid_serve_supply_withdraw(braid_serve_supply *supply, size_t device) {
  pthread_mutex_lock(&supply->lock);
  braid_serve_power_withdraw(&supply->power, device);
  pthread_mutex_unlock(&supply->lock);
}

static void end(braid_serve_supply *supply, double watts, int64_t ran_ns) {
  pthread_mutex_lock(&supply->lock);
  braid_serve_power_end(&supply->power, watts);
  supply->run_joules += watts * 1e-9 * (double)ran_ns;
  pthread_mutex_unlock(&supply->lock);
}

void braid_serve_supply_end(braid_serve_supply *supply, size_t device, int64_t ran_ns) {
  end(supply, supply->devices[device].config->run_watts, ran_ns);
}

bool braid_serve_supply_begin_remote(braid_serve_supply *supply, size_t device) {
  pthread_mutex_lock(&supply->lock);
  bool begins = braid_serve_power_begin_behind(&supply->power, supply->devices[device].config->run_watts);
  pthread_mutex_unlock(&supply->lock);
  return begins;
}

bool braid_serve_supply_begin_training(braid_serve_supply *supply) {
  pthread_mutex_lock(&supply->lock);
  bool begins = braid_serve_power_begin_behind(&supply->power, supply->config->training_watts);
  pthread_mutex_unlock(&supply->lock);
  return begins;
}

void braid_serve_supply_end_training(braid_serve_supply *supply, int64_t ran_ns) {
  end(supply, supply->config->training_watts, ran_ns);
}

size_t braid_serve_supply_fit(braid_serve_supply *supply, size_t device) {
  const braid_serve_device *d = &supply->devices[device];
  pthread_mutex_lock(&supply->lock);
  size_t fit = braid_serve_power_fit(&supply->power, d->config->run_watts, d->instance_count);
  pthread_mutex_unlock(&supply->lock);
  return fit;
}

braid_serve_supply_view braid_serve_supply_look(braid_serve_supply *supply) {
  pthread_mutex_lock(&supply->lock);
  braid_serve_supply_view view = {.cap_watts = supply->power.cap,
                                  .idle_watts = supply->power.idle,
                                  .now_watts = braid_serve_power_now(&supply->power),
                                  .peak_watts = supply->power.peak,
                                  .measured_watts = supply->measured_watts,
                                  .run_joules = supply->run_joules,
                                  .seconds = 1e-9 * (double)(braid_now_ns() - supply->began_ns),
                                  .waits = supply->power.waits};
  pthread_mutex_unlock(&supply->lock);
  return view;
}
