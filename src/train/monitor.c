#include "train/monitor.h"

#include <math.h>

static size_t column_of(const braid_train_options *options, const braid_record *record) {
  bool accuracy = options->monitor == BRAID_MONITOR_ACCURACY;
  size_t test = accuracy ? BRAID_RECORD_TEST_ACCURACY : BRAID_RECORD_TEST_LOSS;
  for (size_t i = 0; i < record->count; i++)
    if (!isnan(record->rows[i][test])) return test;
  return accuracy ? BRAID_RECORD_ACCURACY : BRAID_RECORD_LOSS;
}

/* Whether `value` is better than `best` by a share of it. */
static bool is_better(const braid_train_options *options, double value, double best, double share) {
  if (options->monitor == BRAID_MONITOR_ACCURACY) return value > best * (1 + share);
  return value < best * (1 - share);
}

static double worst_of(const braid_train_options *options) {
  return options->monitor == BRAID_MONITOR_ACCURACY ? -INFINITY : INFINITY;
}

int64_t braid_monitor_best(const braid_train_options *options, const braid_record *record) {
  size_t column = column_of(options, record);
  double best = worst_of(options);
  int64_t found = -1;
  for (size_t i = 0; i < record->count; i++) {
    if (!is_better(options, record->rows[i][column], best, 0)) continue;
    best = record->rows[i][column];
    found = (int64_t)i;
  }
  return found;
}

bool braid_monitor_ends(const braid_train_options *options, const braid_record *record) {
  if (options->patience < 1) return false;
  return (int64_t)record->count - 1 - braid_monitor_best(options, record) >= options->patience;
}

double braid_monitor_plateau(const braid_train_options *options, const braid_record *record) {
  size_t column = column_of(options, record);
  double best = worst_of(options), factor = 1;
  int64_t waited = 0;
  for (size_t i = 0; i < record->count; i++) {
    if (is_better(options, record->rows[i][column], best, 1e-4)) {
      best = record->rows[i][column];
      waited = 0;
    } else if (++waited > options->plateau_epochs) {
      factor *= options->step_gamma;
      waited = 0;
    }
  }
  return factor;
}
