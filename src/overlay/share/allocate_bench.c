/* What an allocation costs: microseconds by the dynamic program and by GLPK, the least of some. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "overlay/share/allocate.h"

enum { kMost = 64 };
typedef braid_status allocator_of_cores(const braid_demand *, size_t, int, const braid_allocator *, int *, double *);

static double measure(allocator_of_cores *allocate, const braid_demand *demands, size_t count, int cores) {
  double least = INFINITY;
  int given[kMost];
  int64_t start = braid_now_ns();
  for (int i = 0; i < 200 && (!i || braid_now_ns() - start < 1000000000); i++) {
    int64_t before = braid_now_ns();
    if (allocate(demands, count, cores, NULL, given, NULL) != BRAID_OK) {
      fprintf(stderr, "%s\n", braid_error_detail());
      return NAN;
    }
    least = fmin(least, (double)(braid_now_ns() - before) * 1e-3);
  }
  return least;
}

int main(void) {
  static const struct {
    size_t tenants;
    int cores;
  } kSizes[] = {{4, 16}, {8, 16}, {16, 16}, {33, 64}, {64, 64}};
  printf("%8s %6s %12s %10s %8s\n", "tenants", "cores", "dynamic us", "GLPK us", "times");
  for (size_t s = 0; s < sizeof kSizes / sizeof *kSizes; s++) {
    double performance[kMost][kMost];
    braid_demand demands[kMost];
    for (size_t t = 0; t < kSizes[s].tenants; t++) {
      /* made up: some tenants gain little from more cores, some nearly all there is */
      double power = 0.5 + 0.5 * (double)t / (double)kSizes[s].tenants;
      for (int k = 1; k <= kSizes[s].cores; k++) performance[t][k - 1] = (double)(1 + t % 5) * pow(k, power);
      demands[t] = (braid_demand){.weight = 1, .performance = performance[t], .most = kSizes[s].cores};
    }
    double dynamic = measure(braid_allocate, demands, kSizes[s].tenants, kSizes[s].cores);
    double glpk = measure(braid_allocate_by_program, demands, kSizes[s].tenants, kSizes[s].cores);
    printf("%8zu %6d %12.1f %10.1f %8.0f\n", kSizes[s].tenants, kSizes[s].cores, dynamic, glpk, glpk / dynamic);
  }
  return 0;
}
