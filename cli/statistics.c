#include "statistics.h"

double cli_percentile(const double *sorted, size_t count, double percent) {
  double at = (double)(count - 1) * percent / 100;
  size_t below = (size_t)at;
  if (below + 1 >= count) return sorted[count - 1];
  return sorted[below] + (sorted[below + 1] - sorted[below]) * (at - (double)below);
}
