#include "train/metrics.h"

#include <math.h>
#include <stdlib.h>

static double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

void braid_metrics_clear(braid_test_result *result, braid_target_kind target, int classes) {
  *result = (braid_test_result){.classes = classes,
                                .target = target,
                                .accuracy = NAN,
                                .top5 = NAN,
                                .precision = NAN,
                                .recall = NAN,
                                .f1 = NAN,
                                .auc = NAN,
                                .average_precision = NAN,
                                .exact_match = NAN,
                                .mse = NAN,
                                .mae = NAN,
                                .r2 = NAN};
}

double braid_test_top(const braid_test_result *result, int k) {
  int64_t in = 0;
  if (!result->ranks) return NAN;
  for (int r = 0; r < k && r < result->classes; r++) in += result->ranks[r];
  return share((double)in, (double)result->samples);
}

static void count_by_confusion(braid_test_result *result) {
  int classes = result->classes;
  for (int c = 0; c < classes; c++) {
    braid_class_result *of = &result->per_class[c];
    *of = (braid_class_result){
        .right = result->confusion[(int64_t)c * classes + c], .samples = of->unscored, .unscored = of->unscored};
    for (int k = 0; k < classes; k++) {
      of->samples += result->confusion[(int64_t)c * classes + k];
      of->guessed += result->confusion[(int64_t)k * classes + c];
    }
  }
}

void braid_metrics_count(braid_test_result *result) {
  int classes = result->classes, seen = 0;
  double precision = 0, recall = 0, f1 = 0;
  if (result->confusion) count_by_confusion(result);
  for (int c = 0; c < classes; c++) {
    braid_class_result *of = &result->per_class[c];
    of->precision = share((double)of->right, (double)of->guessed);
    of->recall = share((double)of->right, (double)of->samples);
    of->f1 = share(2 * (double)of->right, (double)(of->samples + of->guessed));
    of->auc = of->average_precision = NAN;
    if (!of->samples && !of->guessed) continue;
    seen++;
    precision += of->precision;
    recall += of->recall;
    f1 += of->f1;
  }
  result->precision = share(precision, seen);
  result->recall = share(recall, seen);
  result->f1 = share(f1, seen);
  result->auc = result->average_precision = NAN;
  if (result->ranks && classes > 5) result->top5 = braid_test_top(result, 5);
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

/* The area under the steps of precision over recall; samples with equal scores are one step. */
static double precision_of(const scored *sorted, int64_t count) {
  double all = 0, right = 0, sum = 0;
  for (int64_t i = 0; i < count; i++) all += sorted[i].is_class;
  for (int64_t end = count, first; end > 0; end = first) {
    double here = 0;
    for (first = end; first > 0 && sorted[first - 1].score == sorted[end - 1].score; first--)
      here += sorted[first - 1].is_class;
    right += here;
    sum += here * right / (double)(count - first);
  }
  return all > 0 ? sum / all : NAN;
}

/* The mean of what is known. */
typedef struct mean {
  double sum;
  int count;
} mean;

static void mean_add(mean *m, double value) {
  if (isnan(value)) return;
  m->sum += value;
  m->count++;
}

braid_status braid_metrics_areas(const braid_allocator *allocator, const uint8_t *is_class, const double *scores,
                                 braid_test_result *result) {
  scored *sorted = braid_zalloc_array(allocator, (size_t)result->samples, sizeof *sorted);
  if (!sorted) return BRAID_NO_MEMORY;
  mean areas = {0}, precisions = {0};
  for (int c = 0; c < result->classes; c++) {
    bool comparable = true;
    for (int64_t i = 0; i < result->samples; i++) {
      int64_t at = c * result->samples + i;
      sorted[i] = (scored){scores[at], is_class[at]};
      comparable &= !isnan(sorted[i].score);
    }
    braid_class_result *of = &result->per_class[c];
    of->auc = comparable ? area_of(sorted, result->samples) : NAN; /* sorts them */
    of->average_precision = comparable ? precision_of(sorted, result->samples) : NAN;
    mean_add(&areas, of->auc);
    mean_add(&precisions, of->average_precision);
  }
  result->auc = areas.count ? areas.sum / areas.count : NAN;
  result->average_precision = precisions.count ? precisions.sum / precisions.count : NAN;
  braid_free(allocator, sorted);
  return BRAID_OK;
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
double braid_metrics_add_number(braid_number_sums *sums, int64_t before, double guess, double target) {
  double error = guess - target, away = target - sums->mean;
  sums->squared_error += error * error;
  sums->absolute_error += fabs(error);
  sums->mean += away / (double)(before + 1);
  sums->squares += away * (target - sums->mean);
  return error * error;
}

void braid_metrics_numbers(const braid_number_sums *sums, braid_test_result *result) {
  double samples = (double)result->samples, count = result->classes;
  result->mse = result->mae = result->r2 = 0;
  for (int c = 0; c < result->classes; c++) {
    braid_number_result *of = &result->per_number[c];
    of->squared_error = sums[c].squared_error / samples;
    of->absolute_error = sums[c].absolute_error / samples;
    of->r2 = sums[c].squares > 0 ? 1 - sums[c].squared_error / sums[c].squares : sums[c].squared_error > 0 ? 0 : 1;
    result->mse += of->squared_error / count;
    result->mae += of->absolute_error / count;
    result->r2 += of->r2 / count;
  }
}
