#include "overlay/share/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double braid_share_level(size_t index) {
  return 2 * (double)(index + 1);
}

double braid_share_percentile(const double *ascending, size_t count, double percent) {
  double rank = ceil(percent * (double)count / 100 - 1e-9); /* 99 x 100 / 100 is 99 */
  return ascending[rank < 1 ? 0 : (size_t)rank - 1];
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double deadline_of(const braid_share_card *card, size_t job) {
  const braid_share_submission *s = &card->jobs[job];
  double allowed = s->latency_seconds > 0 ? s->latency_seconds : card->contexts[s->context].latency_seconds;
  return allowed > 0 ? s->arrival + allowed : INFINITY;
}

typedef struct totals {
  double least_progress, most_progress; /* over the own priority: the sum of all priorities is in both */
  double urgent;                        /* the greatest priority */
  size_t timed, met, urgent_jobs;
} totals;

static void add_job(const braid_share_card *card, const braid_share_result *results, size_t job, double slowdown,
                    totals *sums, braid_share_metrics *out) {
  double priority = card->contexts[card->jobs[job].context].priority, progress = 1 / slowdown / priority;
  double deadline = deadline_of(card, job);
  out->antt += slowdown;
  if (priority > sums->urgent) {
    sums->urgent = priority;
    sums->urgent_jobs = 0;
    out->urgent_antt = 0;
  }
  if (priority == sums->urgent) {
    sums->urgent_jobs++;
    out->urgent_antt += slowdown;
  }
  out->stp += 1 / slowdown;
  for (size_t l = 0; l < BRAID_SHARE_LEVELS; l++)
    if (slowdown <= braid_share_level(l)) out->satisfied[l]++;
  sums->least_progress = fmin(sums->least_progress, progress);
  sums->most_progress = fmax(sums->most_progress, progress);
  if (isfinite(deadline)) {
    sums->timed++;
    sums->met += results[job].end <= deadline;
  }
  out->worst_slowdown = fmax(out->worst_slowdown, slowdown);
  out->longest_wait = fmax(out->longest_wait, results[job].longest_wait);
}

braid_status braid_share_measure(const braid_share_card *card, const braid_share_result *results,
                                 const braid_allocator *allocator, braid_share_metrics *out) {
  *out = (braid_share_metrics){.deadlines = NAN, .fairness = 1};
  double *slowdowns = braid_zalloc_array(allocator, card->job_count, sizeof *slowdowns);
  double *seconds = braid_zalloc_array(allocator, card->job_count, sizeof *seconds);
  if (!slowdowns || !seconds) {
    braid_free(allocator, slowdowns);
    braid_free(allocator, seconds);
    return BRAID_NO_MEMORY;
  }
  totals sums = {.least_progress = INFINITY};
  for (size_t j = 0; j < card->job_count; j++) {
    const braid_share_submission *job = &card->jobs[j];
    if (results[j].status != BRAID_OK) {
      out->failed++;
      continue;
    }
    double taken = results[j].end - job->arrival;
    double slowdown = taken / braid_share_isolated(&card->models[job->model], card->cores);
    seconds[out->jobs] = taken;
    slowdowns[out->jobs++] = slowdown;
    add_job(card, results, j, slowdown, &sums, out);
  }
  if (out->jobs) {
    qsort(slowdowns, out->jobs, sizeof *slowdowns, compare);
    qsort(seconds, out->jobs, sizeof *seconds, compare);
    out->p99_slowdown = braid_share_percentile(slowdowns, out->jobs, 99);
    out->p99_seconds = braid_share_percentile(seconds, out->jobs, 99);
    out->antt /= (double)out->jobs;
    out->urgent_antt /= (double)sums.urgent_jobs;
    for (size_t l = 0; l < BRAID_SHARE_LEVELS; l++) out->satisfied[l] /= (double)out->jobs;
    out->fairness = sums.least_progress / sums.most_progress;
    if (sums.timed) out->deadlines = (double)sums.met / (double)sums.timed;
  }
  braid_free(allocator, slowdowns);
  braid_free(allocator, seconds);
  return BRAID_OK;
}
