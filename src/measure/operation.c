#include "measure/operation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"
#include "measure/cycles.h"
#include "runtime/machine.h"

enum { kWarmUps = 2, kFewRuns = 3, kEnoughRuns = 10, kMostRuns = 4096 };
static const double kLook = 0.1;    /* seconds between two questions whether to go on */
static const double kMostShare = 4; /* an operation that takes a good part of the time gets this many times of it */
static const double kLong = 5;      /* seconds of a run that is not repeated more than once */

braid_status braid_bench_go_on(const braid_bench *bench) {
  const braid_profile_options *o = bench->options;
  if (!o->progress || o->progress(o->context, bench->done, bench->total, bench->what)) return BRAID_OK;
  return braid_fail(BRAID_CANCELLED, "interrupted");
}

/* What one operation fails at; the rest can go on. */
static bool is_of_operation(braid_status status) {
  return status == BRAID_UNSUPPORTED || status == BRAID_NOT_FOUND || status == BRAID_TIMEOUT ||
         status == BRAID_NO_MEMORY || status == BRAID_INVALID_ARGUMENT || status == BRAID_OUT_OF_RANGE ||
         status == BRAID_INVALID_GRAPH || status == BRAID_INTERNAL || status == BRAID_IO || status == BRAID_BUSY;
}

static void keep_reason(braid_status status, char *out, size_t bytes) {
  const char *why = braid_error_detail()[0] ? braid_error_detail() : braid_status_text(status);
  snprintf(out, bytes, "%.*s", (int)strcspn(why, "\n"), why);
}

static double now_seconds(void) {
  return (double)braid_now_ns() * 1e-9;
}

/* --- time ----------------------------------------------------------------------------------------------------------
 */
/* *shortest: of the runs. What takes long twice is long, and these runs are all there is of it; once may be a stall. */
static braid_status warm_up(braid_bench *bench, braid_trial *trial, braid_profile_entry *entry, double *shortest) {
  *shortest = INFINITY;
  for (int i = 0; i < kWarmUps; i++) {
    double seconds;
    BRAID_TRY(braid_trial_run(trial, &seconds));
    *shortest = fmin(*shortest, seconds);
    BRAID_TRY(braid_bench_go_on(bench));
  }
  if (*shortest > kLong) {
    entry->seconds = *shortest;
    entry->runs = kWarmUps;
  }
  return BRAID_OK;
}

/* How often an operation has to run: by its shortest run, since longer ones may have waited for somebody else. */
static size_t needed_runs(const braid_bench *bench, double shortest) {
  double fit = kMostShare * bench->options->seconds / shortest;
  return fit > kEnoughRuns ? kEnoughRuns : fit < kFewRuns ? kFewRuns : (size_t)fit;
}

static braid_status time_runs(braid_bench *bench, braid_trial *trial, double shortest, double *seconds, size_t *count) {
  double start = now_seconds(), looked = start;
  for (*count = 0; *count < kMostRuns; ++*count) {
    double now = now_seconds();
    if (now - start > bench->options->seconds && *count >= needed_runs(bench, shortest)) break;
    if (now - looked > kLook) {
      BRAID_TRY(braid_bench_go_on(bench));
      looked = now;
    }
    BRAID_TRY(braid_trial_run(trial, &seconds[*count]));
    shortest = fmin(shortest, seconds[*count]);
  }
  return BRAID_OK;
}

static braid_status measure_time(braid_bench *bench, braid_trial *trial, braid_operation_texts *texts,
                                 braid_profile_entry *entry) {
  braid_cycles cycles = {0};
  size_t count;
  double sum = 0, shortest;
  BRAID_TRY(warm_up(bench, trial, entry, &shortest));
  if (!isnan(entry->seconds)) return BRAID_OK;
  double *seconds = braid_zalloc_array(bench->allocator, kMostRuns, sizeof *seconds);
  braid_status status = seconds ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK && bench->host_cycles) status = braid_cycles_begin(&cycles, bench->allocator);
  if (status == BRAID_OK) status = time_runs(bench, trial, shortest, seconds, &count);
  entry->instructions_per_cycle = braid_cycles_end(&cycles);
  snprintf(texts->note, sizeof texts->note, "%s",
           bench->host_cycles ? cycles.note : "instructions of this kind of device are not counted");
  if (status == BRAID_OK) {
    entry->runs = (int64_t)count;
    for (size_t i = 0; i < count; i++) sum += seconds[i];
    entry->seconds_mean = count ? sum / (double)count : NAN;
    entry->seconds = braid_median(seconds, count);
    entry->seconds_mad = braid_median_deviation(seconds, count, entry->seconds);
  }
  braid_free(bench->allocator, seconds);
  return status;
}

/* --- counters ------------------------------------------------------------------------------------------------------
 */
static const double kCounted = 0.02; /* seconds of runs that are counted together */
enum { kMostCounted = 64 };

typedef struct repetition {
  braid_trial *trial;
  size_t times;
} repetition;

static braid_status run_repetition(void *context) {
  repetition *r = context;
  return braid_trial_run_kernels(r->trial, r->times);
}

static void keep_counts(const braid_counts *counts, size_t times, braid_operation_texts *texts,
                        braid_profile_entry *entry) {
  if (!(counts->cycles > 0 && isfinite(counts->cycles) && counts->instructions >= 0 && isfinite(counts->instructions) &&
        counts->memory_bytes >= 0 && isfinite(counts->memory_bytes))) {
    snprintf(texts->note, sizeof texts->note, "the device's counters counted nothing");
    return;
  }
  entry->instructions_per_cycle = counts->instructions / counts->cycles;
  entry->bytes_per_second = counts->memory_bytes / (double)times / entry->seconds;
  snprintf(texts->note, sizeof texts->note,
           "by the device's counters, as is the bandwidth: bytes that passed its memory, behind its caches");
}

/* What the device cannot count it cannot for the next operation either. */
static braid_status measure_counts(braid_bench *bench, braid_trial *trial, braid_operation_texts *texts,
                                   braid_profile_entry *entry) {
  braid_device *device = bench->machine->devices[0].device;
  const braid_backend *backend = braid_device_backend(device);
  double fit = kCounted / entry->seconds;
  repetition r = {trial, fit > kMostCounted ? kMostCounted : fit < 1 ? 1 : (size_t)fit};
  braid_counts counts;
  if (!backend->count) return BRAID_OK;
  if (!bench->uncounted[0]) {
    braid_clear_detail();
    braid_status status = backend->count(braid_device_self(device), run_repetition, &r, &counts);
    if (status == BRAID_OK) keep_counts(&counts, r.times, texts, entry);
    if (status == BRAID_OK || !is_of_operation(status)) return status;
    keep_reason(status, texts->note, sizeof texts->note);
    if (status != BRAID_UNSUPPORTED) return BRAID_OK;
    memcpy(bench->uncounted, texts->note, sizeof bench->uncounted);
  }
  memcpy(texts->note, bench->uncounted, sizeof texts->note);
  return BRAID_OK;
}

/* --- energy --------------------------------------------------------------------------------------------------------
 */
static braid_status repeat(braid_bench *bench, braid_trial *trial, double least, size_t *runs, double *busy) {
  double start = now_seconds(), looked = start;
  *runs = 0;
  *busy = 0;
  for (double now = start; now - start < least || !*runs; now = now_seconds()) {
    double seconds;
    if (now - looked > kLook) {
      BRAID_TRY(braid_bench_go_on(bench));
      looked = now;
    }
    BRAID_TRY(braid_trial_run(trial, &seconds));
    *busy += seconds;
    ++*runs;
  }
  return BRAID_OK;
}

/* What the device used between two runs, while the next one was submitted, is its idle power and not the operation's.
 */
static void share_energy(const braid_bench *bench, const braid_meter_reading *reading, size_t runs, double busy,
                         braid_profile_entry *entry) {
  const braid_meter *meter = &bench->meter;
  double between = fmax(reading->seconds - busy, 0), joules = reading->joules, error = reading->error_joules;
  if (isnan(joules)) return;
  entry->busy = fmin(busy / reading->seconds, 1);
  if (!isnan(meter->idle_watts)) {
    joules = fmax(joules - meter->idle_watts * between, 0);
    error += isnan(meter->idle_watts_error) ? 0 : meter->idle_watts_error * between;
  }
  double of_runs = isnan(meter->idle_watts) ? reading->seconds : fmax(busy, 1e-12);
  entry->joules = joules / (double)runs;
  entry->joules_error = error / (double)runs;
  entry->average_watts = joules / of_runs;
  entry->peak_watts = isnan(reading->peak_watts) ? NAN : fmax(reading->peak_watts, entry->average_watts);
  entry->energy_source = meter->source;
}

static braid_status measure_energy(braid_bench *bench, braid_trial *trial, braid_profile_entry *entry) {
  size_t runs;
  double busy, least = fmax(braid_meter_least_seconds(&bench->meter), bench->options->seconds);
  if (!braid_meter_works(&bench->meter)) return BRAID_OK;
  braid_meter_reading reading;
  do {
    BRAID_TRY(braid_meter_begin(&bench->meter));
    braid_status status = repeat(bench, trial, least, &runs, &busy);
    reading = braid_meter_end(&bench->meter);
    if (status != BRAID_OK) return status;
  } while (bench->meter.doubted && !bench->meter.refused);
  share_energy(bench, &reading, runs, busy, entry);
  return BRAID_OK;
}

/* --- all of it -----------------------------------------------------------------------------------------------------
 */
static braid_status operation_try(braid_bench *bench, const braid_subject *subject, braid_operation_texts *texts,
                                  braid_profile_entry *entry) {
  braid_graph *graph;
  braid_trial *trial = NULL;
  BRAID_TRY(braid_subject_extract(subject, &graph));
  braid_status status = braid_trial_create(bench->machine, graph, subject->training, bench->allocator, &trial);
  braid_graph_destroy(graph);
  if (status == BRAID_OK && braid_trial_is_empty(trial)) {
    entry->seconds = 1e-9; /* a profile has no row that takes nothing */
    entry->runs = 1;
    snprintf(texts->kernel, sizeof texts->kernel, "(nothing is left to run)");
  } else if (status == BRAID_OK) {
    snprintf(texts->kernel, sizeof texts->kernel, "%s", braid_trial_kernel(trial));
    status = measure_time(bench, trial, texts, entry);
    if (status == BRAID_OK && !entry->beside[0]) status = measure_energy(bench, trial, entry);
    if (status == BRAID_OK) status = measure_counts(bench, trial, texts, entry);
  }
  braid_trial_destroy(trial);
  return status;
}

braid_status braid_operation_measure(braid_bench *bench, const braid_subject *subject, braid_operation_texts *texts,
                                     braid_profile_entry *entry) {
  texts->why[0] = texts->kernel[0] = texts->note[0] = '\0';
  braid_status status = operation_try(bench, subject, texts, entry);
  if (status != BRAID_OK && is_of_operation(status)) {
    keep_reason(status, texts->why, sizeof texts->why);
    entry->seconds = entry->seconds_mad = entry->seconds_mean = entry->instructions_per_cycle =
        entry->bytes_per_second = NAN;
    entry->runs = -1;
    status = BRAID_OK;
  }
  braid_profile_make_plain(texts->why);
  braid_profile_make_plain(texts->kernel);
  braid_profile_make_plain(texts->note);
  entry->why = texts->why[0] ? texts->why : NULL;
  entry->kernel = texts->kernel[0] ? texts->kernel : NULL;
  entry->ipc_note = texts->note[0] ? texts->note : NULL;
  if (isnan(entry->bytes_per_second)) entry->bytes_per_second = entry->bytes / entry->seconds;
  return status;
}
