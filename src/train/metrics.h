/* What a test's counts and scores say of each class (precision, recall, F1, the areas under the curves of ROC and of
 * precision over recall) and of each number that is predicted. */
#ifndef BRAID_TRAIN_METRICS_H
#define BRAID_TRAIN_METRICS_H
#include "braid/train.h"

/* Scores are kept for the areas only up to this many numbers (samples * classes). */
enum { BRAID_METRICS_MOST_SCORES = 1 << 24 };

/* Nothing is measured yet. */
void braid_metrics_clear(braid_test_result *result, braid_target_kind target, int classes);
/* Fills result->per_class and the means over classes from result->confusion and per_class[].unscored, or from what is
 * counted in it already where there is none, and top5 from result->ranks. */
void braid_metrics_count(braid_test_result *result);
/* Fills the areas. `scores`: result->classes lists of result->samples numbers, one list per class;
 * `is_class`: with each, whether the sample is of the class. */
BRAID_MUST_CHECK braid_status braid_metrics_areas(const braid_allocator *allocator, const uint8_t *is_class,
                                                  const double *scores, braid_test_result *result);

typedef struct braid_number_sums {
  double mean, squares; /* of the targets; of their distances to the mean (Welford) */
  double squared_error, absolute_error;
} braid_number_sums;
/* Adds a sample after `before` others; returns its squared error. */
double braid_metrics_add_number(braid_number_sums *sums, int64_t before, double guess, double target);
/* Fills result->per_number and the means. */
void braid_metrics_numbers(const braid_number_sums *sums, braid_test_result *result);
#endif
