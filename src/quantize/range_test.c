/* Ranges against what they are defined as: sorted numbers for percentiles, the divergence written down literally. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "oom.h"
#include "quantize/range.h"

enum { kNumbers = 20000, kKinds = 9 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static uint64_t state_of_numbers;
static double uniform(void) { /* splitmix64 */
  uint64_t z = (state_of_numbers += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) {
  return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Shapes that activations have: normal, behind Relu, heavy tails, one sign only, uneven, a lone outlier, two values,
 * far from 0. */
static void make_numbers(int kind, float *numbers) {
  state_of_numbers = 1000 + (uint64_t)kind;
  for (int i = 0; i < kNumbers; i++) {
    double x = normal();
    if (kind == 1) x = fmax(x, 0);
    if (kind == 2) x = x * x * x;
    if (kind == 3) x = -fabs(x) - 0.5;
    if (kind == 4) x = x > 0 ? 6 * x : 0.1 * x;
    if (kind == 5 && i == 77) x = 60;
    if (kind == 6) x = i % 3 ? 2 : -1;
    if (kind == 7) x = 1 / (1 + exp(-0.4 * x)); /* far from 0, as behind a Sigmoid */
    if (kind == 8) x = -5 - 0.01 * x;
    numbers[i] = (float)x;
  }
}

static void fill(braid_range *range, braid_calibration calibration, const float *numbers, int64_t count) {
  *range = BRAID_RANGE_EMPTY;
  assert_int_equal(braid_range_see(range, numbers, count / 3), -1);
  assert_int_equal(braid_range_see(range, numbers + count / 3, count - count / 3), -1);
  ok(braid_range_open(range, NULL, calibration));
  braid_range_count(range, numbers, count / 2);
  braid_range_count(range, numbers + count / 2, count - count / 2);
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* numpy.percentile of sorted numbers. */
static double percentile_of(const float *sorted, double percent) {
  double at = percent / 100 * (kNumbers - 1);
  int below = (int)at;
  if (below >= kNumbers - 1) return sorted[kNumbers - 1];
  return sorted[below] + (at - below) * ((double)sorted[below + 1] - sorted[below]);
}

static void test_percentiles(void **state) {
  (void)state;
  static float numbers[kNumbers];
  static const double kPercents[] = {90, 99, 99.9, 100};
  for (int kind = 0; kind < kKinds; kind++) {
    make_numbers(kind, numbers);
    braid_range range;
    fill(&range, BRAID_CALIBRATE_PERCENTILE, numbers, kNumbers);
    qsort(numbers, kNumbers, sizeof *numbers, by_value);
    for (size_t p = 0; p < sizeof kPercents / sizeof *kPercents; p++) {
      double low, high, cut = (100 - kPercents[p]) / 2;
      ok(braid_range_choose(&range, NULL, BRAID_CALIBRATE_PERCENTILE, kPercents[p], &low, &high));
      double least = fmin(percentile_of(numbers, cut), 0), greatest = fmax(percentile_of(numbers, 100 - cut), 0);
      /* between two neighbours anything is right; they may lie apart by more than a bin */
      int at = (int)(cut / 100 * (kNumbers - 1)), other = kNumbers - 2 - at;
      double gap_low = fabs((double)numbers[at + 1] - numbers[at > 0 ? at - 1 : 0]);
      double gap_high = fabs((double)numbers[other + 1] - numbers[other > 0 ? other - 1 : 0]);
      assert_true(fabs(low - least) <= 2 * range.width + gap_low);
      assert_true(fabs(high - greatest) <= 2 * range.width + gap_high);
      if (kPercents[p] == 100) assert_true(low == fmin(numbers[0], 0) && high == fmax(numbers[kNumbers - 1], 0));
    }
    braid_range_close(&range, NULL);
  }
}

/* --- entropy -------------------------------------------------------------------------------------------------------
 */
/* Migacz's loop over one range of bins, as it is written: P with outliers at its ends, Q in levels and spread again. */
static double literal_divergence(const uint64_t *bins, int low, int high) {
  static double p[2 * BRAID_RANGE_SIDE], q[2 * BRAID_RANGE_SIDE];
  int count = high - low;
  double inside = 0, all = 0;
  for (int i = 0; i < 2 * BRAID_RANGE_SIDE; i++) {
    all += (double)bins[i];
    if (i >= low && i < high) inside += (double)bins[i];
  }
  if (inside == 0) return INFINITY;
  for (int i = 0; i < count; i++) p[i] = (double)bins[low + i];
  for (int i = 0; i < low; i++) p[0] += (double)bins[i];
  for (int i = high; i < 2 * BRAID_RANGE_SIDE; i++) p[count - 1] += (double)bins[i];
  for (int level = 0; level < 256; level++) {
    int a = level * count / 256, b = (level + 1) * count / 256, filled = 0;
    double mass = 0;
    for (int i = a; i < b; i++) mass += (double)bins[low + i], filled += p[i] > 0;
    for (int i = a; i < b; i++) q[i] = p[i] > 0 ? (mass > 0 ? mass / filled : 1e-4) : 0;
  }
  double divergence = 0;
  for (int i = 0; i < count; i++)
    if (p[i] > 0) divergence += p[i] / all * log(p[i] / all / (q[i] / inside));
  return divergence;
}

static void literal_range(const braid_range *range, double *low, double *high) {
  int first = 0, last = 2 * BRAID_RANGE_SIDE - 1, best = BRAID_RANGE_SIDE;
  double least = INFINITY;
  while (!range->bins[first]) first++;
  while (!range->bins[last]) last--;
  for (int side = BRAID_RANGE_SIDE; side >= 128; side--) {
    int from = BRAID_RANGE_SIDE - side, to = BRAID_RANGE_SIDE + side;
    if (from < first) from = first;
    if (to > last + 1) to = last + 1;
    if (to - from < 256) break;
    if (from > BRAID_RANGE_SIDE) from = BRAID_RANGE_SIDE;
    if (to < BRAID_RANGE_SIDE) to = BRAID_RANGE_SIDE;
    double here = literal_divergence(range->bins, from, to);
    if (here < least - 1e-12) least = here, best = side;
  }
  double threshold = best * range->width;
  *low = fmin(fmax(range->least, -threshold), 0);
  *high = fmax(fmin(range->greatest, threshold), 0);
}

static void test_entropy(void **state) {
  (void)state;
  static float numbers[kNumbers];
  for (int kind = 0; kind < kKinds; kind++) {
    make_numbers(kind, numbers);
    braid_range range;
    double low, high, literal_low, literal_high;
    fill(&range, BRAID_CALIBRATE_ENTROPY, numbers, kNumbers);
    ok(braid_range_choose(&range, NULL, BRAID_CALIBRATE_ENTROPY, 0, &low, &high));
    literal_range(&range, &literal_low, &literal_high);
    if (fabs(low - literal_low) > 1e-9 || fabs(high - literal_high) > 1e-9)
      fail_msg("kind %d: [%g, %g], literally [%g, %g]", kind, low, high, literal_low, literal_high);
    if (kind == 5) assert_true(high < 20); /* the outlier is cut off */
    if (kind == 6) assert_true(low == -1 && high == 2);
    if (kind == 7) assert_true(low == 0 && high > 0.6); /* not the least of all, where nothing would be left */
    if (kind == 8) assert_true(low == range.least && high == 0);
    braid_range_close(&range, NULL);
  }
}

static void test_zeros_do_not_count(void **state) {
  (void)state;
  static float numbers[2 * kNumbers];
  double low[2], high[2];
  make_numbers(0, numbers);
  for (int i = 0; i < 2; i++) { /* numbers alone, and as many zeros behind them */
    braid_range range;
    fill(&range, BRAID_CALIBRATE_ENTROPY, numbers, i ? 2 * kNumbers : kNumbers);
    ok(braid_range_choose(&range, NULL, BRAID_CALIBRATE_ENTROPY, 0, &low[i], &high[i]));
    braid_range_close(&range, NULL);
  }
  assert_true(low[0] == low[1] && high[0] == high[1]);
}

/* --- degenerate ranges ---------------------------------------------------------------------------------------------
 */
static void test_narrow_ranges(void **state) {
  (void)state;
  static const struct {
    float least, greatest;
    double low, high;
  } kCases[] = {{0, 0, 0, 0},       {3, 3, 0, 3},           {-3, -3, -3, 0},           {0.5F, 2, 0, 2},
                {-2, -0.5F, -2, 0}, {1e-45F, 2e-45F, 0, 0}, {-FLT_MAX, FLT_MAX, 0, 0}, {1e-30F, 1e-30F, 0, 1e-30F}};
  for (int c = BRAID_CALIBRATE_MINMAX; c <= BRAID_CALIBRATE_ENTROPY; c++)
    for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
      float numbers[64];
      for (int k = 0; k < 64; k++) numbers[k] = k % 2 ? kCases[i].least : kCases[i].greatest;
      braid_range range;
      double low, high;
      fill(&range, (braid_calibration)c, numbers, 64);
      ok(braid_range_choose(&range, NULL, (braid_calibration)c, 99.9, &low, &high));
      braid_range_close(&range, NULL);
      assert_true(low <= 0 && high >= 0 && isfinite(low) && isfinite(high));
      if (kCases[i].low < 0) assert_true(fabs(low - kCases[i].low) <= 1e-6 * fabs(kCases[i].low));
      if (c == BRAID_CALIBRATE_MINMAX && kCases[i].high > 0) assert_true(high == (double)(float)kCases[i].high);
      for (int least = -128; least <= 0; least += 128) {
        float scale;
        int32_t zero;
        braid_range_scale(low, high, least, &scale, &zero);
        assert_true(scale >= FLT_MIN && isfinite(scale));
        assert_in_range(zero - least, 0, 255);
        if (scale == 1) continue;
        /* both ends are within one unit of a byte */
        assert_true((least - zero - 0.51) * scale <= low && (least + 255 - zero + 0.51) * scale >= high);
      }
    }
}

static void test_finds_what_is_not_finite(void **state) {
  (void)state;
  static const float kBad[] = {NAN, INFINITY, -INFINITY};
  for (int64_t at = 0; at < 37; at++)
    for (int k = 0; k < 3; k++) {
      float numbers[37] = {1, 2, 3};
      numbers[at] = kBad[k];
      braid_range range = BRAID_RANGE_EMPTY;
      assert_int_equal(braid_range_see(&range, numbers, 37), at);
    }
}

static braid_status choose_once(const braid_allocator *allocator, void *context) {
  braid_range range = BRAID_RANGE_EMPTY;
  double low, high;
  (void)braid_range_see(&range, context, kNumbers);
  braid_status status = braid_range_open(&range, allocator, BRAID_CALIBRATE_ENTROPY);
  if (status == BRAID_OK) {
    braid_range_count(&range, context, kNumbers);
    status = braid_range_choose(&range, allocator, BRAID_CALIBRATE_ENTROPY, 0, &low, &high);
  }
  braid_range_close(&range, allocator);
  return status == BRAID_NO_MEMORY ? braid_fail(BRAID_NO_MEMORY, "out of memory") : status;
}

static void test_memory(void **state) {
  (void)state;
  static float numbers[kNumbers];
  make_numbers(0, numbers);
  assert_true(oom_sweep(choose_once, numbers) >= 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_percentiles),
                                     cmocka_unit_test(test_entropy),
                                     cmocka_unit_test(test_zeros_do_not_count),
                                     cmocka_unit_test(test_narrow_ranges),
                                     cmocka_unit_test(test_finds_what_is_not_finite),
                                     cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
