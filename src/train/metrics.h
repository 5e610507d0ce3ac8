/* What a test's counts and scores say of each class: precision, recall, F1, and the area under the ROC curve. */
#ifndef BRAID_TRAIN_METRICS_H
#define BRAID_TRAIN_METRICS_H
#include "braid/train.h"

/* Scores are kept for the areas only up to this many numbers (samples * classes). */
enum { BRAID_METRICS_MOST_SCORES = 1 << 24 };

/* Fills result->per_class and the means over classes from result->confusion, and top5 from result->ranks. */
void braid_metrics_count(braid_test_result *result);
/* Fills the areas. `scores`: result->classes lists of result->samples numbers, one list per class, which this sorts;
 * `labels`: of the samples. */
BRAID_MUST_CHECK braid_status braid_metrics_areas(const braid_allocator *allocator, const int32_t *labels,
                                                  const double *scores, braid_test_result *result);
#endif
