#include "overlay/share/allocate.h"

#include <math.h>

#include "base/try.h"

static bool is_size(double value) {
  return isfinite(value) && value >= 0;
}

braid_status braid_demands_check(const braid_demand *demands, size_t count, int cores) {
  if (cores < 0 || cores > BRAID_OVERLAY_MOST_CORES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores to allocate; allowed: 0 to %d", cores,
                      BRAID_OVERLAY_MOST_CORES);
  int64_t least = 0;
  for (size_t t = 0; t < count; t++) {
    const braid_demand *d = &demands[t];
    if (d->least < 0 || d->least > d->most || d->most > BRAID_OVERLAY_MOST_CORES)
      return braid_fail(BRAID_INVALID_ARGUMENT, "tenant %zu asks for %d to %d cores; allowed: 0 <= least <= most <= %d",
                        t, d->least, d->most, BRAID_OVERLAY_MOST_CORES);
    if (!is_size(d->weight))
      return braid_fail(BRAID_INVALID_ARGUMENT, "tenant %zu has weight %g; allowed: 0 or more", t, d->weight);
    for (int k = 0; k < d->most; k++)
      if (!is_size(d->performance[k]))
        return braid_fail(BRAID_INVALID_ARGUMENT, "tenant %zu has performance %g on %d cores; allowed: 0 or more", t,
                          d->performance[k], k + 1);
    least += d->least;
  }
  if (least > cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the tenants ask for at least %lld cores, of which there are %d",
                      (long long)least, cores);
  return BRAID_OK;
}

static double value_of(const braid_demand *d, int k) {
  return k ? d->weight * d->performance[k - 1] : 0;
}

/* best[c]: of the tenants so far on exactly c cores; -INFINITY: they cannot take so many, or need more. */
static void add_tenant(const braid_demand *d, int cores, double *best, uint8_t *chosen) {
  for (int c = cores; c >= 0; c--) { /* downwards: best[c - k] is still without this tenant */
    double most = -INFINITY;
    int choice = 0;
    for (int k = d->least; k <= d->most && k <= c; k++) {
      double sum = best[c - k] + value_of(d, k);
      if (sum <= most) continue;
      most = sum;
      choice = k;
    }
    best[c] = most;
    chosen[c] = (uint8_t)choice;
  }
}

braid_status braid_allocate(const braid_demand *demands, size_t count, int cores, const braid_allocator *allocator,
                            int *given, double *total) {
  BRAID_TRY(braid_demands_check(demands, count, cores));
  size_t width = (size_t)cores + 1;
  enum { kInside = 16 * (BRAID_OVERLAY_MOST_CORES + 1) };
  uint8_t inside[kInside], *chosen = inside; /* few tenants need no allocation */
  if (count > kInside / width) chosen = braid_zalloc_array(allocator, count, width);
  if (!chosen) return BRAID_NO_MEMORY;
  double best[BRAID_OVERLAY_MOST_CORES + 1];
  best[0] = 0;
  for (int c = 1; c <= cores; c++) best[c] = -INFINITY;
  for (size_t t = 0; t < count; t++) add_tenant(&demands[t], cores, best, chosen + t * width);
  int at = 0;
  for (int c = 1; c <= cores; c++)
    if (best[c] > best[at]) at = c;
  if (total) *total = best[at];
  for (size_t t = count; t-- > 0;) {
    given[t] = chosen[t * width + (size_t)at];
    at -= given[t];
  }
  if (chosen != inside) braid_free(allocator, chosen);
  return BRAID_OK;
}
