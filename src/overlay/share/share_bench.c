/* Policies on the same traces, with latencies that are made up (sample_models.h): what becomes of the jobs, and what
 * the policies cost. `share_bench FILE` reads a trace of requests (trace.h) as well. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "overlay/share/metrics.h"
#include "overlay/share/sample_models.h"
#include "overlay/share/trace.h"

enum { kCores = 16, kTenants = 4, kJobs = 8, kRuns = 250, kLong = 2000 };

typedef struct sums {
  double antt, urgent, stp, fairness, levels[BRAID_SHARE_LEVELS], wait, worst, p99, p99_seconds, switching, idle, us;
  size_t runs;
} sums;

static bool run(const sample_models *samples, const braid_share_trace *trace, const braid_share_policy *policy,
                sums *sum) {
  braid_share_card card = {.cores = kCores,
                           .contexts = trace->contexts,
                           .context_count = trace->count,
                           .models = samples->models,
                           .model_count = SAMPLE_MODELS,
                           .jobs = trace->jobs,
                           .job_count = trace->count};
  braid_share_result *results = braid_zalloc_array(NULL, trace->count, sizeof *results);
  braid_share_counters *counters = braid_zalloc_array(NULL, trace->count, sizeof *counters);
  braid_share_totals totals;
  braid_share_metrics metrics;
  int64_t before = braid_now_ns();
  braid_status status =
      results && counters ? braid_share_run(&card, policy, NULL, results, counters, &totals) : BRAID_NO_MEMORY;
  double us = (double)(braid_now_ns() - before) * 1e-3;
  if (status == BRAID_OK) status = braid_share_measure(&card, results, NULL, &metrics);
  braid_free(NULL, results);
  braid_free(NULL, counters);
  if (status != BRAID_OK) {
    fprintf(stderr, "%s: %s\n", policy->name, braid_error_detail());
    return false;
  }
  sum->antt += metrics.antt;
  sum->urgent += metrics.urgent_antt;
  sum->stp += metrics.stp;
  sum->fairness += metrics.fairness;
  for (size_t l = 0; l < BRAID_SHARE_LEVELS; l++) sum->levels[l] += metrics.satisfied[l];
  sum->wait = fmax(sum->wait, metrics.longest_wait);
  sum->worst = fmax(sum->worst, metrics.worst_slowdown);
  sum->p99 += metrics.p99_slowdown;
  sum->p99_seconds += metrics.p99_seconds;
  sum->switching += totals.switch_core_seconds / (totals.seconds * kCores);
  sum->idle += 1 - (totals.progress_core_seconds + totals.switch_core_seconds) / (totals.seconds * kCores);
  sum->us += us / (double)totals.asked;
  sum->runs++;
  return true;
}

static void print_head(const char *what) {
  printf("\n%s\n%-22s %7s %7s %7s %8s %6s %6s %6s %6s %8s %8s %8s %7s %6s %6s %9s\n", what, "policy", "ANTT", "urgent",
         "STP", "fairness", "SLA 2", "SLA 4", "SLA 8", "SLA 20", "p99", "p99 ms", "worst", "wait ms", "switch", "idle",
         "us asked");
}

static void print(const char *name, const sums *s) {
  double n = (double)s->runs;
  printf("%-22s %7.2f %7.2f %7.2f %8.3f %6.3f %6.3f %6.3f %6.3f %8.2f %8.1f %8.2f %7.0f %6.3f %6.3f %9.2f\n", name,
         s->antt / n, s->urgent / n, s->stp / n, s->fairness / n, s->levels[0] / n, s->levels[1] / n, s->levels[3] / n,
         s->levels[9] / n, s->p99 / n, 1e3 * s->p99_seconds / n, s->worst, 1e3 * s->wait, s->switching / n, s->idle / n,
         s->us / n);
  fflush(stdout);
}

static braid_share_trace_options options_of(const sample_models *samples, double load, uint64_t seed) {
  return (braid_share_trace_options){.models = samples->models,
                                     .model_count = SAMPLE_MODELS,
                                     .cores = kCores,
                                     .tenants = kTenants,
                                     .seed = seed,
                                     .load = load,
                                     .latency_times = 4};
}

/* The mean over runs of random traces. */
static bool compare_random(const sample_models *samples, double load, size_t jobs, size_t runs) {
  char head[128];
  snprintf(head, sizeof head, "random: %zu jobs, load %g, mean of %zu traces", jobs, load, runs);
  print_head(head);
  for (size_t p = 0; p < braid_share_policy_count(); p++) {
    sums sum = {0};
    for (size_t r = 0; r < runs; r++) {
      braid_share_trace_options options = options_of(samples, load, 1000 + r);
      braid_share_trace trace;
      if (braid_share_trace_random(&options, jobs, NULL, &trace) != BRAID_OK) return false;
      bool fine = run(samples, &trace, braid_share_policy_at(p), &sum);
      braid_share_trace_deinit(&trace);
      if (!fine) return false;
    }
    print(braid_share_policy_at(p)->name, &sum);
  }
  return true;
}

static bool compare_file(const sample_models *samples, const char *path, double load) {
  braid_reader *reader;
  char *text;
  char head[128];
  if (braid_reader_open(NULL, path, SIZE_MAX, &reader) != BRAID_OK) return false;
  size_t length = braid_reader_bytes(reader);
  text = braid_alloc(NULL, length);
  bool fine = text && braid_reader_get(reader, 0, text, length) == BRAID_OK;
  braid_reader_close(reader);
  snprintf(head, sizeof head, "%.80s, load %g", path, load);
  print_head(head);
  for (size_t p = 0; p < braid_share_policy_count() && fine; p++) {
    sums sum = {0};
    braid_share_trace_options options = options_of(samples, load, 1);
    braid_share_trace trace;
    fine = braid_share_trace_parse(&options, text, length, NULL, &trace) == BRAID_OK;
    fine = fine && run(samples, &trace, braid_share_policy_at(p), &sum);
    if (fine) print(braid_share_policy_at(p)->name, &sum);
    braid_share_trace_deinit(&trace);
  }
  braid_free(NULL, text);
  return fine;
}

int main(int argc, char **argv) {
  sample_models samples;
  sample_models_make(&samples);
  printf("%d cores; latencies are made up. urgent: the ANTT of the highest priority. p99: of slowdowns. wait: the "
         "longest\n"
         "without cores.\n",
         kCores);
  bool fine = compare_random(&samples, 1, kJobs, kRuns) && compare_random(&samples, 2, kJobs, kRuns) &&
              compare_random(&samples, 0.5, kLong, 5) && compare_random(&samples, 0.7, kLong, 5) &&
              compare_random(&samples, 0.9, kLong, 5);
  for (int a = 1; a < argc && fine; a++) fine = compare_file(&samples, argv[a], 0.7);
  if (!fine) fprintf(stderr, "%s\n", braid_error_detail());
  return fine ? 0 : 1;
}
