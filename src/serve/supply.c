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
  double above_joules; /* modelled, above idle, until changed_ns; what sensors are held against */
  int64_t changed_ns;
  pthread_mutex_t watch_lock; /* of the next two, held during the call */
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

/* Before what runs changes, and when it is asked for. With the lock. */
static void supply_account(braid_serve_supply *supply) {
  int64_t now = braid_now_ns();
  supply->above_joules += supply->power.running * 1e-9 * (double)(now - supply->changed_ns);
  supply->changed_ns = now;
}

/* A sample is of the time since the last one, and is held against what ran then. */
static void supply_take_sample(braid_serve_supply *supply, double watts, double *last_joules, int64_t *last_ns) {
  supply_account(supply);
  double seconds = 1e-9 * (double)(supply->changed_ns - *last_ns);
  double modelled = supply->power.idle + (seconds > 0 ? (supply->above_joules - *last_joules) / seconds : 0);
  *last_joules = supply->above_joules;
  *last_ns = supply->changed_ns;
  supply->measured_watts = watts;
  braid_serve_power_measure(&supply->power, isfinite(watts) ? fmax(0, watts - modelled) : 0);
}

static void *sample(void *context) {
  braid_serve_supply *supply = context;
  double last_joules = 0;
  int64_t last_ns = supply->began_ns;
  while (!__atomic_load_n(&supply->stop, __ATOMIC_ACQUIRE)) {
    double all = 0;
    for (size_t i = 0; i < supply->sensor_count; i++) all += sensor_read(&supply->sensors[i]);
    pthread_mutex_lock(&supply->lock);
    supply_take_sample(supply, all, &last_joules, &last_ns);
    pthread_mutex_unlock(&supply->lock);
    pthread_mutex_lock(&supply->watch_lock);
    if (supply->sampled) supply->sampled(supply->context);
    pthread_mutex_unlock(&supply->watch_lock);
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
  supply->changed_ns = supply->began_ns;
  pthread_mutex_init(&supply->lock, NULL);
  pthread_mutex_init(&supply->watch_lock, NULL);
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
  pthread_mutex_destroy(&supply->watch_lock);
  braid_free(NULL, supply);
}

void braid_serve_supply_watch(braid_serve_supply *supply, void (*sampled)(void *context), void *context) {
  pthread_mutex_lock(&supply->watch_lock);
  supply->context = context;
  supply->sampled = sampled;
  pthread_mutex_unlock(&supply->watch_lock);
}

/* --- the policy, locked --------------------------------------------------------------------------------------------
 */
bool braid_serve_supply_has_cap(const braid_serve_supply *supply) {
  return supply->power.cap > 0;
}

bool braid_serve_supply_begin(braid_serve_supply *supply, size_t device, int rank, int64_t due_ns) {
  pthread_mutex_lock(&supply->lock);
  double watts = supply->devices[device].config->run_watts;
  supply_account(supply);
  bool begins = braid_serve_power_begin(&supply->power, device, watts, rank, due_ns);
  pthread_mutex_unlock(&supply->lock);
  return begins;
}

void braid_serve_supply_withdraw(braid_serve_supply *supply, size_t device) {
  pthread_mutex_lock(&supply->lock);
  braid_serve_power_withdraw(&supply->power, device);
  pthread_mutex_unlock(&supply->lock);
}

static void supply_give_back(braid_serve_supply *supply, double watts, int64_t ran_ns) {
  pthread_mutex_lock(&supply->lock);
  supply_account(supply);
  braid_serve_power_end(&supply->power, watts);
  supply->run_joules += watts * 1e-9 * (double)ran_ns;
  pthread_mutex_unlock(&supply->lock);
}

void braid_serve_supply_end(braid_serve_supply *supply, size_t device, int64_t ran_ns) {
  supply_give_back(supply, supply->devices[device].config->run_watts, ran_ns);
}

bool braid_serve_supply_begin_beside(braid_serve_supply *supply, size_t device, int rank, int64_t due_ns) {
  pthread_mutex_lock(&supply->lock);
  supply_account(supply);
  double watts = supply->devices[device].config->run_watts;
  bool begins = braid_serve_power_begin(&supply->power, BRAID_SERVE_POWER_BESIDE, watts, rank, due_ns);
  pthread_mutex_unlock(&supply->lock);
  return begins;
}

void braid_serve_supply_withdraw_beside(braid_serve_supply *supply) {
  braid_serve_supply_withdraw(supply, BRAID_SERVE_POWER_BESIDE);
}

bool braid_serve_supply_begin_training(braid_serve_supply *supply) {
  pthread_mutex_lock(&supply->lock);
  supply_account(supply);
  bool begins = braid_serve_power_begin_behind(&supply->power, supply->config->training_watts);
  pthread_mutex_unlock(&supply->lock);
  return begins;
}

void braid_serve_supply_end_training(braid_serve_supply *supply, int64_t ran_ns) {
  supply_give_back(supply, supply->config->training_watts, ran_ns);
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
