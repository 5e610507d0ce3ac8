#include <math.h>
#include <stdlib.h>

#include "measure/measure.h"

static int by_value(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

double braid_median(double *values, size_t count) {
  if (!count) return NAN;
  qsort(values, count, sizeof *values, by_value);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double braid_median_deviation(double *values, size_t count, double median) {
  for (size_t i = 0; i < count; i++) values[i] = fabs(values[i] - median);
  return braid_median(values, count);
}
