/* What the steps of an execution took, and handing that to the machine for plans to come. */
#include <stdlib.h>

#include "base/try.h"
#include "runtime/execution/execution.h"
#include "runtime/plan/regions.h"

enum { kEnough = 3 }; /* runs: the first finds everything cold */

static int compare_samples(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

double braid_execution_median_us(const braid_execution *execution, size_t step) {
  int64_t samples[kSamples];
  size_t count = 0;
  for (size_t i = 0; i < kSamples; i++) {
    int64_t sample = __atomic_load_n(&execution->samples[step * kSamples + i], __ATOMIC_RELAXED);
    if (sample >= 0) samples[count++] = sample;
  }
  if (!count) return -1;
  qsort(samples, count, sizeof *samples, compare_samples);
  return ((double)samples[(count - 1) / 2] + (double)samples[count / 2]) / 2e3;
}

double braid_execution_energy_uj(const braid_execution *execution, size_t step) {
  double energy;
  __atomic_load(&execution->energies[step], &energy, __ATOMIC_RELAXED);
  return energy;
}

double braid_execution_last_seconds(const braid_execution *execution, size_t step) {
  const braid_timing *timing = &execution->timings[step];
  return timing->end_ns ? (double)(timing->end_ns - timing->start_ns) * 1e-9 : -1;
}

/* Where a run must not allocate, the places are found beforehand. */
braid_status braid_execution_find_times(braid_execution *execution) {
  const braid_plan *plan = execution->plan;
  execution->times = braid_zalloc_array(execution->allocator, plan->steps.count, sizeof *execution->times);
  if (!execution->times) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    if (step->node < 0 || !step->kernel) continue;
    const braid_region *region = plan->places[step->node].region;
    uint64_t key = region ? region->time_key : braid_time_key(step->device, step->kernel, step->desc);
    BRAID_TRY(braid_times_get(&execution->machine->times, key, &execution->times[i]));
  }
  return BRAID_OK;
}

void braid_execution_keep_times(const braid_execution *execution) {
  if (!execution->times || execution->runs < kEnough) return;
  for (size_t i = 0; i < execution->plan->steps.count; i++)
    if (execution->times[i]) {
      double us = braid_execution_median_us(execution, i);
      if (us >= 0) braid_time_set(&execution->machine->times, execution->times[i], (int64_t)(us * 1e3));
    }
}
