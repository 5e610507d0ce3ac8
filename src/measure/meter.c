#include "measure/meter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/try.h"

/* Counter and polling may differ by this share, and by the window's part of the time and the error of polling. Two
 * sensors of one card have been seen to differ by 1.7 times. */
static const double kTolerance = 0.15;
static const double kFindSeconds = 1, kFindPoll = 100e-6, kLeastPoll = 500e-6, kMostPoll = 25e-3, kSensorPoll = 2e-3;
static const double kLeastSeconds = 0.5, kMostSeconds = 5;

static double now_seconds(void) {
  return (double)braid_now_ns() * 1e-9;
}

static void sleep_for(double seconds) {
  struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  (void)nanosleep(&time, NULL);
}

static bool read_counter(const braid_meter *meter, double *joules) {
  double uj = 0;
  const braid_backend *backend = braid_device_backend(meter->device);
  if (backend->read_energy(braid_device_self(meter->device), &uj) != BRAID_OK || !isfinite(uj) || uj < 0) return false;
  *joules = uj * 1e-6;
  return true;
}

static bool read_power(const braid_meter *meter, double *watts) {
  const braid_backend *backend = braid_device_backend(meter->device);
  return backend->read_power(braid_device_self(meter->device), watts) == BRAID_OK && isfinite(*watts) && *watts >= 0;
}

/* --- what there is -------------------------------------------------------------------------------------------------
 */
static int by_value(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The median time between two changes of the counter; NAN: it does not move. */
static double find_window(const braid_meter *meter) {
  enum { kChanges = 32 };
  double between[kChanges], joules, last, changed = -1, end = now_seconds() + kFindSeconds;
  size_t count = 0;
  if (!read_counter(meter, &last)) return NAN;
  while (count < kChanges && now_seconds() < end) {
    sleep_for(kFindPoll);
    if (!read_counter(meter, &joules)) return NAN;
    if (joules == last) continue;
    double now = now_seconds();
    if (changed >= 0) between[count++] = now - changed;
    changed = now;
    last = joules;
  }
  if (!count) return changed >= 0 ? kFindSeconds : NAN;
  qsort(between, count, sizeof *between, by_value);
  return between[count / 2];
}

static void meter_refuse(braid_meter *meter, const char *why) {
  meter->source = NULL;
  meter->doubted = false; /* there is nothing to repeat it for */
  snprintf(meter->note, sizeof meter->note, "%s", why);
}

void braid_meter_init(braid_meter *meter, braid_device *device) {
  const braid_backend *backend = braid_device_backend(device);
  double value;
  *meter = (braid_meter){
      .device = device, .window = NAN, .idle_watts = NAN, .idle_watts_error = NAN, .counter = false, .power = false};
  if (braid_device_get_info(device)->modelled) {
    meter_refuse(meter, "the device is simulated: its times are modelled, and there is no energy to measure");
    return;
  }
  meter->counter = backend->read_energy && read_counter(meter, &value);
  meter->power = backend->read_power && read_power(meter, &value);
  if (!meter->counter && !meter->power) {
    meter_refuse(meter, "the device has no energy counter and no power sensor that can be read");
    return;
  }
  meter->source = meter->counter ? "counter" : "polling";
  if (!meter->counter) {
    snprintf(meter->note, sizeof meter->note, "there is no energy counter: the power sensor is polled");
    return;
  }
  meter->window = find_window(meter);
  if (isnan(meter->window)) meter_refuse(meter, "its energy counter does not move");
  if (meter->source && !meter->power)
    snprintf(meter->note, sizeof meter->note, "there is no power sensor to hold the counter against");
}

bool braid_meter_works(const braid_meter *meter) {
  return meter->source != NULL;
}

double braid_meter_least_seconds(const braid_meter *meter) {
  double windows = isnan(meter->window) ? 0 : BRAID_METER_WINDOWS * meter->window;
  return fmin(fmax(kLeastSeconds, windows), kMostSeconds);
}

/* --- sampling ------------------------------------------------------------------------------------------------------
 */
static void note_power(braid_meter_sums *sums, double now, double watts) {
  if (sums->last_power_at > 0) {
    double seconds = now - sums->last_power_at;
    sums->polled_joules += (watts + sums->last_power) / 2 * seconds;
    sums->polled_seconds += seconds;
  }
  sums->last_power = watts;
  sums->last_power_at = now;
  sums->peak_power = fmax(sums->peak_power, watts);
  double from = watts - sums->mean;
  sums->mean += from / ++sums->samples;
  sums->deviations += from * (watts - sums->mean);
}

/* Power over some windows of the counter: over one alone the moment of reading would count as much. The counter changed
 * at some time since it was read last, and within its window before now: the middle is taken. */
static void note_counter(braid_meter_sums *sums, double window, double now, double joules) {
  size_t last = (sums->change_count + BRAID_METER_CHANGES - 1) % BRAID_METER_CHANGES;
  double gap = sums->last_read_at > 0 ? fmin(now - sums->last_read_at, window) : 0, span = fmax(8 * window, 50e-3);
  sums->last_read_at = now;
  if (sums->change_count && sums->changes[last] == joules) return;
  if (sums->change_count && joules < sums->changes[last]) sums->failed = true;
  double at = now - gap / 2;
  size_t kept = sums->change_count < BRAID_METER_CHANGES ? sums->change_count : BRAID_METER_CHANGES;
  for (size_t k = 1; k <= kept; k++) {
    size_t then = (sums->change_count + BRAID_METER_CHANGES - k) % BRAID_METER_CHANGES;
    if (at - sums->changes_at[then] < span) continue;
    sums->peak_counter = fmax(sums->peak_counter, (joules - sums->changes[then]) / (at - sums->changes_at[then]));
    break;
  }
  sums->changes[sums->change_count % BRAID_METER_CHANGES] = joules;
  sums->changes_at[sums->change_count++ % BRAID_METER_CHANGES] = at;
}

static void *sample(void *context) {
  braid_meter *meter = context;
  double window = isnan(meter->window) ? 4 * kSensorPoll : meter->window;
  double poll = fmin(fmax(window / 4, kLeastPoll), kMostPoll);
  while (!__atomic_load_n(&meter->stop, __ATOMIC_ACQUIRE)) {
    double value;
    if (meter->power) {
      if (read_power(meter, &value))
        note_power(&meter->sums, now_seconds(), value);
      else
        meter->sums.failed = true;
    }
    if (meter->counter) {
      if (read_counter(meter, &value))
        note_counter(&meter->sums, window, now_seconds(), value);
      else
        meter->sums.failed = true;
    }
    braid_futex_wait(&meter->stop, 0, (int64_t)(poll * 1e9));
  }
  return NULL;
}

braid_status braid_meter_begin(braid_meter *meter) {
  meter->sums = (braid_meter_sums){0};
  meter->stop = 0;
  meter->began_joules = 0;
  if (meter->counter && !read_counter(meter, &meter->began_joules)) meter->sums.failed = true;
  meter->began = now_seconds();
  BRAID_TRY(braid_thread_start(&meter->thread, "braid-meter", sample, meter));
  meter->running = true;
  return BRAID_OK;
}

/* --- what it says --------------------------------------------------------------------------------------------------
 */
/* Twice the standard error of the polled power's mean. */
static double polled_error_watts(const braid_meter_sums *sums) {
  return sums->samples > 1 ? 2 * sqrt(sums->deviations / (sums->samples - 1) / sums->samples) : NAN;
}

static void meter_judge(braid_meter *meter, double seconds, double counted, double polled) {
  double error = polled_error_watts(&meter->sums) * seconds;
  double limit = 1 + kTolerance + meter->window / seconds + (polled > 0 && !isnan(error) ? error / polled : 0),
         ratio = counted > polled ? counted / polled : polled / counted;
  bool doubted = meter->doubted;
  meter->doubted = (counted > 0 || polled > 0) && !(ratio <= limit);
  if (!meter->doubted || !doubted) return; /* a stall of the thread that polls may be at fault */
  char why[sizeof meter->note];
  snprintf(
      why, sizeof why,
      "its energy counter says %.4g W, its power sensor %.4g W at the same time: %.2f times as much (up to %.2f is "
      "taken), so neither is used",
      counted / seconds, polled / seconds, ratio, limit);
  meter_refuse(meter, why);
  meter->refused = true;
}

braid_meter_reading braid_meter_end(braid_meter *meter) {
  braid_meter_reading reading = {NAN, NAN, NAN, NAN};
  double joules = 0;
  if (!meter->running) return reading;
  if (meter->counter && !read_counter(meter, &joules)) meter->sums.failed = true;
  double seconds = now_seconds() - meter->began;
  __atomic_store_n(&meter->stop, 1, __ATOMIC_RELEASE);
  braid_futex_wake_all(&meter->stop);
  braid_thread_join(&meter->thread);
  meter->running = false;
  reading.seconds = seconds;
  const braid_meter_sums *sums = &meter->sums;
  if (sums->failed && meter->source) meter_refuse(meter, "its counter or sensor failed, or fell, while it was read");
  if (!meter->source) return reading;
  joules -= meter->began_joules;
  double polled = sums->polled_seconds > 0 ? sums->polled_joules / sums->polled_seconds * seconds : NAN;
  if (meter->counter && meter->power && !isnan(polled)) meter_judge(meter, seconds, joules, polled);
  if (!meter->source || meter->doubted) return reading;
  reading.joules = meter->counter ? joules : polled;
  if (meter->counter) /* both ends may lie within a window */
    reading.error_joules = fmax(joules / seconds * meter->window, isnan(polled) ? 0 : fabs(joules - polled));
  if (!meter->counter) reading.error_joules = polled_error_watts(sums) * seconds;
  double average = reading.joules / seconds, peak = meter->power ? sums->peak_power : sums->peak_counter;
  if (peak > 0) reading.peak_watts = fmax(peak, average);
  return reading;
}

braid_status braid_meter_measure_idle(braid_meter *meter) {
  if (!meter->source) return BRAID_OK;
  braid_meter_reading reading;
  do {
    BRAID_TRY(braid_meter_begin(meter));
    sleep_for(braid_meter_least_seconds(meter));
    reading = braid_meter_end(meter);
  } while (meter->doubted && !meter->refused);
  meter->idle_watts = reading.joules / reading.seconds;
  meter->idle_watts_error = reading.error_joules / reading.seconds;
  return BRAID_OK;
}
