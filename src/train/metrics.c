#include "train/metrics.h"

#include <math.h>
#include <stdlib.h>

static double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double braid_test_top(const braid_test_result *result, int k) {
  int64_t in = 0;
  for (int r = 0; r < k && r < result->classes; r++) in += result->ranks[r];
  return share((double)in, (double)result->samples);
}

void braid_metrics_count(braid_test_result *result) {
  int classes = result->classes, seen = 0;
  double precision = 0, recall = 0, f1 = 0;
  for (int c = 0; c < classes; c++) {
    braid_class_result *of = &result->per_class[c];
    int64_t right = result->confusion[(int64_t)c * classes + c];
    *of = (braid_class_result){.auc = NAN};
    for (int k = 0; k < classes; k++) {
      of->samples += result->confusion[(int64_t)c * classes + k];
      of->guessed += result->confusion[(int64_t)k * classes + c];
    }
    of->precision = share((double)right, (double)of->guessed);
    of->recall = share((double)right, (double)of->samples);
    of->f1 = share(2 * (double)right, (double)(of->samples + of->guessed));
    if (!of->samples && !of->guessed) continue;
    seen++;
    precision += of->precision;
    recall += of->recall;
    f1 += of->f1;
  }
  result->precision = share(precision, seen);
  result->recall = share(recall, seen);
  result->f1 = share(f1, seen);
  result->auc = NAN;
  if (classes > 5) result->top5 = braid_test_top(result, 5);
}

typedef struct scored {
  double score;
  bool is_class;
} scored;

static int by_score(const void *a, const void *b) {
  double x = ((const scored *)a)->score, y = ((const scored *)b)->score;
  return (x > y) - (x < y);
}

/* The share of pairs of one sample of the class and one of another where the first has the higher score; a pair with
 * equal scores counts half. From the sum of ranks (Mann and Whitney), where samples with equal scores share the mean of
 * their ranks. */
static double area_of(scored *sorted, int64_t count) {
  qsort(sorted, (size_t)count, sizeof *sorted, by_score);
  double ranks = 0, of_class = 0;
  for (int64_t first = 0, end; first < count; first = end) {
    double here = 0;
    for (end = first; end < count && sorted[end].score == sorted[first].score; end++) here += sorted[end].is_class;
    ranks += here * ((double)(first + end + 1) / 2);
    of_class += here;
  }
  double others = (double)count - of_class;
  return of_class > 0 && others > 0 ? (ranks - of_class * (of_class + 1) / 2) / (of_class * others) : NAN;
}

braid_status braid_metrics_areas(const braid_allocator *allocator, const int32_t *labels, const double *scores,
                                 braid_test_result *result) {
  scored *sorted = braid_zalloc_array(allocator, (size_t)result->samples, sizeof *sorted);
  if (!sorted) return BRAID_NO_MEMORY;
  double sum = 0;
  int known = 0;
  for (int c = 0; c < result->classes; c++) {
    bool comparable = true;
    for (int64_t i = 0; i < result->samples; i++) {
      sorted[i] = (scored){scores[c * result->samples + i], labels[i] == c};
      comparable &= !isnan(sorted[i].score);
    }
    double area = comparable ? area_of(sorted, result->samples) : NAN;
    result->per_class[c].auc = area;
    if (isnan(area)) continue;
    sum += area;
    known++;
  }
  result->auc = known ? sum / known : NAN;
  braid_free(allocator, sorted);
  return BRAID_OK;
}
