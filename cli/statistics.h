/* Percentiles of measurements. */
#ifndef BRAID_CLI_STATISTICS_H
#define BRAID_CLI_STATISTICS_H

#include <stddef.h>

/* The value that `percent` of the sorted values lie at or below, between two of them in proportion (what NumPy's
 * `percentile` gives): 50 is the median, 0 the least, 100 the most. `count` >= 1. */
double cli_percentile(const double *sorted, size_t count, double percent);

#endif
