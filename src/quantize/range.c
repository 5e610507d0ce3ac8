#include "quantize/range.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* --- what is seen --------------------------------------------------------------------------------------------------
 */
static bool is_finite(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return (bits & 0x7f800000U) != 0x7f800000U;
}

int64_t braid_range_see(braid_range *range, const float *data, int64_t count) {
  float least = range->least, greatest = range->greatest;
  uint32_t bad = 0;
#pragma omp simd reduction(min : least) reduction(max : greatest) reduction(| : bad)
  for (int64_t i = 0; i < count; i++) {
    least = data[i] < least ? data[i] : least;
    greatest = data[i] > greatest ? data[i] : greatest;
    bad |= !is_finite(data[i]);
  }
  range->least = least;
  range->greatest = greatest;
  for (int64_t i = 0; bad && i < count; i++)
    if (!is_finite(data[i])) return i;
  return -1;
}

braid_status braid_range_open(braid_range *range, const braid_allocator *allocator, braid_calibration calibration) {
  if (calibration == BRAID_CALIBRATE_MINMAX || range->least > range->greatest) return BRAID_OK;
  bool entropy = calibration == BRAID_CALIBRATE_ENTROPY;
  double least = range->least, greatest = range->greatest, most = fmax(fabs(least), fabs(greatest));
  range->bin_count = entropy ? 2 * BRAID_RANGE_SIDE : BRAID_RANGE_FINE;
  range->start = entropy ? -most : least;
  range->width = (entropy ? 2 * most : greatest - least) / (double)range->bin_count;
  range->bins = braid_zalloc_array(allocator, (size_t)range->bin_count, sizeof *range->bins);
  return range->bins ? BRAID_OK : BRAID_NO_MEMORY;
}

/* Numbers that are 0 are in no bin of the entropy: they are exact in any range, and after a Relu they are so many that
 * they would decide the divergence alone. */
void braid_range_count(braid_range *range, const float *data, int64_t count) {
  if (!range->bins) return;
  double inverse = range->width > 0 ? 1 / range->width : 0;
  int64_t last = range->bin_count - 1;
  bool symmetric = range->bin_count == 2 * BRAID_RANGE_SIDE;
  for (int64_t i = 0; i < count; i++) {
    if (data[i] == 0 && symmetric) continue;
    double at = (data[i] - range->start) * inverse;
    range->bins[!(at > 0) ? 0 : at >= (double)last ? last : (int64_t)at]++;
  }
}

void braid_range_close(braid_range *range, const braid_allocator *allocator) {
  braid_free(allocator, range->bins);
  range->bins = NULL;
}

/* --- percentiles ---------------------------------------------------------------------------------------------------
 */
/* The number below which the share `part` of all lies, linear within a bin. */
static double quantile(const braid_range *range, double part) {
  uint64_t total = 0, below = 0;
  for (int64_t i = 0; i < range->bin_count; i++) total += range->bins[i];
  double wanted = part * (double)total;
  for (int64_t i = 0; i < range->bin_count; i++) {
    if ((double)(below + range->bins[i]) >= wanted && range->bins[i]) {
      double within = fmax(wanted - (double)below, 0) / (double)range->bins[i];
      return range->start + ((double)i + within) * range->width;
    }
    below += range->bins[i];
  }
  return range->greatest;
}

/* --- entropy -------------------------------------------------------------------------------------------------------
 * For every threshold T on the absolute value: P is the histogram with what lies beyond T added to its ends; Q is the
 * histogram within T, its bins put together into as many levels as there are bytes, and each level's count spread again
 * over those of its bins that P has something in. T is where the divergence of Q from P is least. Bins of P where Q has
 * nothing count there as one ten thousandth (ONNX Runtime's smoothing). Where only one sign occurs, or one is seen less
 * far than T, the levels are those of the range that is then used. */
typedef struct divergence {
  const uint64_t *bins;
  uint64_t *counts, *filled; /* sums of the bins before: numbers, bins that are not empty */
  double *logs;              /* of n log n */
  int64_t first, last;       /* bins that are not empty */
} divergence;

static double n_log_n(double n) {
  return n > 0 ? n * log(n) : 0;
}

/* What a level from bin `a` to bin `b` adds to sum of p log q, with `extra` numbers put into its bin `end` (-1: none).
 */
static double level_log(const divergence *d, int64_t a, int64_t b, uint64_t extra, int64_t end) {
  uint64_t mass = d->counts[b] - d->counts[a], spread = d->filled[b] - d->filled[a];
  if (!(mass + extra)) return 0;
  if (extra && end >= 0 && !d->bins[end]) spread++;
  double q = mass ? (double)mass / (double)spread : 1e-4;
  return (double)(mass + extra) * log(q);
}

/* The divergence of the range [low, high) of bins; INFINITY if nothing is in it. */
static double divergence_of(const divergence *d, int64_t low, int64_t high, int64_t bin_count) {
  uint64_t total = d->counts[bin_count], inside = d->counts[high] - d->counts[low];
  uint64_t left = d->counts[low], right = total - d->counts[high];
  if (!inside) return INFINITY;
  double p_log_p = d->logs[high] - d->logs[low];
  if (left) p_log_p += n_log_n((double)(d->bins[low] + left)) - n_log_n((double)d->bins[low]);
  if (right) p_log_p += n_log_n((double)(d->bins[high - 1] + right)) - n_log_n((double)d->bins[high - 1]);
  double p_log_q = 0;
  int64_t bins = high - low;
  for (int64_t level = 0; level < BRAID_RANGE_LEVELS; level++) {
    int64_t a = low + level * bins / BRAID_RANGE_LEVELS, b = low + (level + 1) * bins / BRAID_RANGE_LEVELS;
    uint64_t extra = (level == 0 ? left : 0) + (level == BRAID_RANGE_LEVELS - 1 ? right : 0);
    p_log_q += level_log(d, a, b, extra, level == 0 ? low : high - 1);
  }
  return (p_log_p - p_log_q) / (double)total - log((double)total) + log((double)inside);
}

static void sum_bins(divergence *d, int64_t bin_count) {
  d->first = bin_count;
  for (int64_t i = 0; i < bin_count; i++) {
    d->counts[i + 1] = d->counts[i] + d->bins[i];
    d->filled[i + 1] = d->filled[i] + (d->bins[i] != 0);
    d->logs[i + 1] = d->logs[i] + n_log_n((double)d->bins[i]);
    if (d->bins[i] && d->first == bin_count) d->first = i;
    if (d->bins[i]) d->last = i;
  }
}

/* The threshold, as a number of bins on each side of 0. There are as many bins as levels at least between the first and
 * the last with numbers, else every bin has a level of its own, and nothing would be lost however much is cut off. */
static int64_t threshold_of(const divergence *d) {
  int64_t best = BRAID_RANGE_SIDE, middle = BRAID_RANGE_SIDE;
  double least = INFINITY;
  for (int64_t side = BRAID_RANGE_SIDE; side >= BRAID_RANGE_LEVELS / 2; side--) {
    int64_t low = middle - side < d->first ? d->first : middle - side;
    int64_t high = middle + side > d->last + 1 ? d->last + 1 : middle + side;
    if (high - low < BRAID_RANGE_LEVELS) break;
    if (low > middle) low = middle;
    if (high < middle) high = middle;
    double here = divergence_of(d, low, high, 2 * BRAID_RANGE_SIDE);
    if (here < least) least = here, best = side;
  }
  return best;
}

static braid_status choose_by_entropy(const braid_range *range, const braid_allocator *allocator, double *low,
                                      double *high) {
  size_t sums = (size_t)range->bin_count + 1;
  divergence d = {.bins = range->bins};
  d.counts = braid_zalloc_array(allocator, 2 * sums, sizeof *d.counts);
  d.logs = braid_zalloc_array(allocator, sums, sizeof *d.logs);
  braid_status status = d.counts && d.logs ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    d.filled = d.counts + sums;
    sum_bins(&d, range->bin_count);
    double threshold = (double)threshold_of(&d) * range->width;
    *low = fmax(*low, -threshold);
    *high = fmin(*high, threshold);
  }
  braid_free(allocator, d.counts);
  braid_free(allocator, d.logs);
  return status;
}

/* --- the choice ----------------------------------------------------------------------------------------------------
 */
braid_status braid_range_choose(const braid_range *range, const braid_allocator *allocator,
                                braid_calibration calibration, double percentile, double *low, double *high) {
  *low = *high = 0;
  if (range->least > range->greatest) return BRAID_OK;
  *low = range->least;
  *high = range->greatest;
  braid_status status = BRAID_OK;
  if (calibration == BRAID_CALIBRATE_PERCENTILE && range->bins) {
    double cut = (100 - percentile) / 200, least = quantile(range, cut), greatest = quantile(range, 1 - cut);
    *low = fmax(*low, least);
    *high = fmin(*high, greatest);
  }
  if (calibration == BRAID_CALIBRATE_ENTROPY && range->bins && range->width > 0)
    status = choose_by_entropy(range, allocator, low, high);
  *low = fmin(*low, 0);
  *high = fmax(*high, 0);
  return status;
}

void braid_range_scale(double low, double high, int least, float *scale, int32_t *zero_point) {
  double step = (high - low) / 255;
  *scale = 1;
  *zero_point = least;
  if (!(step >= (double)FLT_MIN)) return;
  double zero = nearbyint(least - low / step);
  *scale = (float)step;
  *zero_point = (int32_t)fmin(fmax(zero, least), least + 255);
}
