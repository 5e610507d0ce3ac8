#include "steering/drift.h"

#include <math.h>
#include <string.h>

#include "measure/measure.h"

/* What drifts together changes by at least this share of all that runs, so that the times of small operations, which
 * scatter, lead to nothing. */
static const double kLeastShare = 0.1;

braid_status braid_drift_init(braid_drift_watch *drift, const braid_allocator *allocator, size_t nodes, size_t window) {
  *drift = (braid_drift_watch){.allocator = allocator, .node_count = nodes, .window = window};
  drift->samples = braid_zalloc_array(allocator, nodes * window + 1, sizeof *drift->samples);
  drift->medians = braid_zalloc_array(allocator, nodes + 1, sizeof *drift->medians);
  drift->scratch = braid_zalloc_array(allocator, window, sizeof *drift->scratch);
  drift->steps = braid_zalloc_array(allocator, 2 * window, sizeof *drift->steps);
  if (!drift->samples || !drift->medians || !drift->scratch || !drift->steps) return BRAID_NO_MEMORY;
  braid_drift_reset(drift);
  return BRAID_OK;
}

void braid_drift_deinit(braid_drift_watch *drift) {
  braid_free(drift->allocator, drift->samples);
  braid_free(drift->allocator, drift->medians);
  braid_free(drift->allocator, drift->scratch);
  braid_free(drift->allocator, drift->steps);
  *drift = (braid_drift_watch){0};
}

void braid_drift_reset(braid_drift_watch *drift) {
  drift->taken = drift->step_count = 0;
  for (size_t i = 0; i < drift->node_count * drift->window; i++) drift->samples[i] = -1;
  for (size_t n = 0; n < drift->node_count; n++) drift->medians[n] = -1;
}

void braid_drift_add(braid_drift_watch *drift, size_t node, double seconds) {
  drift->samples[node * drift->window + drift->taken % drift->window] = seconds;
}

void braid_drift_end_step(braid_drift_watch *drift, double seconds) {
  drift->steps[drift->step_count++ % (2 * drift->window)] = seconds;
  drift->taken++;
}

void braid_drift_find_medians(braid_drift_watch *drift) {
  for (size_t n = 0; n < drift->node_count; n++) {
    const double *samples = drift->samples + n * drift->window;
    size_t count = 0;
    for (size_t i = 0; i < drift->window; i++)
      if (samples[i] >= 0) drift->scratch[count++] = samples[i];
    drift->medians[n] = count ? braid_median(drift->scratch, count) : -1;
  }
}

/* The step that was `ago` steps before the last one. */
static double step_at(const braid_drift_watch *drift, size_t ago) {
  return drift->steps[(drift->step_count - 1 - ago) % (2 * drift->window)];
}

static size_t steps_kept(const braid_drift_watch *drift) {
  return drift->step_count < 2 * drift->window ? drift->step_count : 2 * drift->window;
}

/* Median of `count` steps, at most a window, that ended `ago` steps before the last one. */
static double median_of_steps(braid_drift_watch *drift, size_t ago, size_t count) {
  for (size_t i = 0; i < count; i++) drift->scratch[i] = step_at(drift, ago + i);
  return count ? braid_median(drift->scratch, count) : NAN;
}

double braid_drift_step_seconds(braid_drift_watch *drift) {
  size_t kept = steps_kept(drift);
  return median_of_steps(drift, 0, kept < drift->window ? kept : drift->window);
}

static bool beyond(double is, double was, double most) {
  return is > was * (1 + most) || is * (1 + most) < was;
}

double braid_drift_before(braid_drift_watch *drift, double most) {
  size_t half = steps_kept(drift) / 2;
  double now = median_of_steps(drift, 0, half), before = median_of_steps(drift, steps_kept(drift) - half, half);
  return beyond(now, before, most) ? before : NAN; /* no NAN is beyond */
}

braid_drift_verdict braid_drift_judge(const braid_drift_watch *drift, const int *devices, const double *planned,
                                      size_t device_count, double most) {
  braid_drift_verdict worst = {0};
  double all = 0, changed = 0, largest = 0;
  for (size_t n = 0; n < drift->node_count; n++)
    if (drift->medians[n] >= 0 && devices[n] >= 0) all += fmax(drift->medians[n], planned[n]);
  for (size_t d = 0; d < device_count; d++) {
    braid_drift_verdict v = {.device = d};
    double here = 0, is = 0, was = 0, furthest = 0;
    for (size_t n = 0; n < drift->node_count; n++) {
      if (devices[n] != (int)d || drift->medians[n] < 0) continue;
      v.measured++;
      if (!beyond(drift->medians[n], planned[n], most)) continue;
      double by = fabs(drift->medians[n] - planned[n]);
      v.drifting++;
      is += drift->medians[n];
      was += planned[n];
      here += by;
      if (by <= furthest) continue;
      furthest = by;
      v.node = n;
      v.was = planned[n];
      v.is = drift->medians[n];
    }
    changed += here;
    v.factor = was > 0 ? is / was : 1;
    if (here <= largest) continue;
    largest = here;
    worst = v;
  }
  worst.drifts = changed > 0 && changed >= kLeastShare * all;
  return worst;
}

size_t braid_drift_onset(braid_drift_watch *drift, double usual, double *seconds) {
  double now = braid_drift_step_seconds(drift), middle = (usual + now) / 2, sum = 0;
  size_t count = steps_kept(drift), like = 0, onset = 0;
  *seconds = 0;
  for (size_t ago = 0; ago < count; ago++) {
    bool changed = now > usual ? step_at(drift, ago) > middle : step_at(drift, ago) < middle;
    sum += step_at(drift, ago);
    like += changed;
    if (!changed || 2 * like <= ago + 1) continue; /* most of them since are like it */
    onset = ago + 1;
    *seconds = sum;
  }
  return onset;
}

double braid_drift_lost(double seconds, size_t count, double usual) {
  double lost = seconds / usual - (double)count;
  return lost < 0 ? 0 : lost; /* NAN stays */
}
