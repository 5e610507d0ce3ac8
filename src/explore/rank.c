/* Rank correlation of two lists. */
#include <math.h>
#include <stdlib.h>

#include "braid/explore.h"

typedef struct ranked {
  double value, rank;
  size_t index;
} ranked;

static int smaller_first(const void *a, const void *b) {
  double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
  return (x > y) - (x < y);
}

static int in_order(const void *a, const void *b) {
  size_t x = ((const ranked *)a)->index, y = ((const ranked *)b)->index;
  return (x > y) - (x < y);
}

/* Ranks from 1; equal values share the mean of theirs. */
static void rank_values(const double *values, size_t count, ranked *out) {
  for (size_t i = 0; i < count; i++) out[i] = (ranked){.value = values[i], .index = i};
  qsort(out, count, sizeof *out, smaller_first);
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && out[end].value == out[i].value;) end++;
    for (size_t k = i; k < end; k++) out[k].rank = ((double)i + 1 + (double)end) / 2;
  }
  qsort(out, count, sizeof *out, in_order);
}

static double spearman_of(const ranked *a, const ranked *b, size_t count) {
  double mean = ((double)count + 1) / 2, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < count; i++) {
    double x = a[i].rank - mean, y = b[i].rank - mean;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

/* Tau-b: pairs in the same order less those in the other, over the pairs that are not ties on either side. */
static double kendall_of(const double *a, const double *b, size_t count) {
  double sum = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < count; i++)
    for (size_t k = i + 1; k < count; k++) {
      int x = (a[i] > a[k]) - (a[i] < a[k]), y = (b[i] > b[k]) - (b[i] < b[k]);
      sum += x * y;
      of_a += x != 0;
      of_b += y != 0;
    }
  return of_a > 0 && of_b > 0 ? sum / sqrt(of_a * of_b) : NAN;
}

braid_status braid_rank_correlation(const braid_allocator *allocator, const double *a, const double *b, size_t count,
                                    double *spearman, double *kendall) {
  *spearman = *kendall = NAN;
  if (count < 2) return BRAID_OK;
  ranked *ranks = braid_zalloc_array(allocator, count, 2 * sizeof *ranks);
  if (!ranks) return BRAID_NO_MEMORY;
  rank_values(a, count, ranks);
  rank_values(b, count, ranks + count);
  *spearman = spearman_of(ranks, ranks + count, count);
  *kendall = kendall_of(a, b, count);
  braid_free(allocator, ranks);
  return BRAID_OK;
}
