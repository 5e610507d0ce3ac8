#include "steering/power.h"

#include <math.h>

#include "base/clock.h"
#include "base/try.h"
#include "measure/meter.h"

static const double kPollSeconds = 5e-3, kLeastWindow = 20e-3;

static double now_seconds(void) {
  return (double)braid_now_ns() * 1e-9;
}

static bool read_counter(const braid_machine_device *device, double *joules) {
  double uj = 0;
  if (device->backend->read_energy(device->self, &uj) != BRAID_OK || !isfinite(uj) || uj < 0) return false;
  *joules = uj * 1e-6;
  return true;
}

static bool read_sensor(const braid_machine_device *device, double *watts) {
  return device->backend->read_power(device->self, watts) == BRAID_OK && isfinite(*watts) && *watts >= 0;
}

/* --- one device ----------------------------------------------------------------------------------------------------
 * Energy is the counter's, where there is one, else the sensor's power over time; power is the sensor's, else the
 * counter's over some of its updates. */
static void sample_counter(braid_power_device *d, double now) {
  double joules, seconds = now - d->counted_at;
  if (seconds < d->window || !read_counter(d->device, &joules)) return; /* the next reading is of this span, too */
  bool fell = joules < d->counted;                                      /* it began anew: that span is left out */
  if (!fell) {
    d->joules += joules - d->counted;
    d->seconds += seconds;
  }
  if (!d->sensor) d->watts = fell ? NAN : (joules - d->counted) / seconds;
  d->counted = joules;
  d->counted_at = now;
}

static void sample_sensor(braid_power_device *d, double seconds) {
  double watts = NAN;
  if (!read_sensor(d->device, &watts)) watts = NAN;
  if (!d->counter && !isnan(d->watts) && !isnan(watts)) {
    d->joules += (d->watts + watts) / 2 * seconds;
    d->seconds += seconds;
  }
  d->watts = watts;
}

static void sample_all(braid_power_sampler *s) {
  double now = now_seconds(), sum = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (s->devices[i].sensor) sample_sensor(&s->devices[i], now - s->last);
    if (s->devices[i].counter) sample_counter(&s->devices[i], now);
    sum += s->devices[i].watts;
  }
  s->last = now;
  if (isnan(sum)) return; /* of some it is not known now */
  s->samples++;
  s->peak_watts = fmax(s->peak_watts, sum);
  s->violations += sum > s->cap_watts; /* never of NAN */
}

static void *sampling(void *context) {
  braid_power_sampler *s = context;
  while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
    pthread_mutex_lock(&s->lock);
    sample_all(s);
    pthread_mutex_unlock(&s->lock);
    braid_futex_wait(&s->stop, 0, (int64_t)(kPollSeconds * 1e9));
  }
  return NULL;
}

/* --- all of them ---------------------------------------------------------------------------------------------------
 */
braid_status braid_power_sampler_start(braid_power_sampler *s, const braid_machine *machine, double cap_watts) {
  *s = (braid_power_sampler){.cap_watts = cap_watts, .peak_watts = NAN};
  braid_text_init(&s->unknown, machine->allocator);
  pthread_mutex_init(&s->lock, NULL);
  for (size_t d = 0; d < machine->device_count; d++) {
    braid_meter meter;
    braid_meter_init(&meter, machine->devices[d].device);
    if (!braid_meter_works(&meter)) {
      braid_text_printf(&s->unknown, "%s%s", s->unknown.length ? ", " : "", machine->devices[d].label);
      continue;
    }
    s->devices[s->count++] =
        (braid_power_device){.device = &machine->devices[d],
                             .counter = meter.counter,
                             .sensor = meter.power,
                             .window = fmax(kLeastWindow, isnan(meter.window) ? 0 : 4 * meter.window),
                             .watts = NAN};
  }
  s->last = now_seconds();
  for (size_t i = 0; i < s->count; i++) {
    braid_power_device *d = &s->devices[i];
    if (d->counter) d->counter = read_counter(d->device, &d->counted);
    d->counted_at = s->last;
  }
  if (s->unknown.failed) return BRAID_NO_MEMORY;
  if (!s->count) return BRAID_OK;
  BRAID_TRY(braid_thread_start(&s->thread, "braid-power", sampling, s));
  s->running = true;
  return BRAID_OK;
}

void braid_power_sampler_stop(braid_power_sampler *s) {
  if (s->running) {
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
    braid_futex_wake_all(&s->stop);
    braid_thread_join(&s->thread);
    s->running = false;
  }
  braid_text_deinit(&s->unknown);
}

braid_power_sums braid_power_sampler_read(braid_power_sampler *s) {
  braid_power_sums sums = {.peak_watts = NAN, .count = s->count};
  if (!s->count) return sums;
  pthread_mutex_lock(&s->lock);
  sums.samples = s->samples;
  sums.violations = s->violations;
  sums.peak_watts = s->peak_watts;
  for (size_t i = 0; i < s->count; i++) {
    sums.joules[i] = s->devices[i].joules;
    sums.seconds[i] = s->devices[i].seconds;
  }
  pthread_mutex_unlock(&s->lock);
  return sums;
}

double braid_power_joules(const braid_power_sums *sums, const braid_power_sums *before) {
  double joules = sums->count ? 0 : NAN;
  for (size_t i = 0; i < sums->count; i++)
    joules += sums->seconds[i] > before->seconds[i] ? sums->joules[i] - before->joules[i] : NAN;
  return joules;
}

double braid_power_watts(const braid_power_sums *sums, const braid_power_sums *before) {
  double watts = sums->count ? 0 : NAN;
  for (size_t i = 0; i < sums->count; i++) /* 0 / 0 is NAN */
    watts += (sums->joules[i] - before->joules[i]) / (sums->seconds[i] - before->seconds[i]);
  return watts;
}
