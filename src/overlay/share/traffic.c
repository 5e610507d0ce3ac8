/* Jobs that run networks of known costs, and what the policies make of them (braid/overlay_tenants.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "overlay/share/costs.h"
#include "overlay/share/metrics.h"
#include "overlay/share/trace.h"

_Static_assert((int)BRAID_OVERLAY_MOST_JOBS == (int)BRAID_SHARE_TRACE_ROWS, "the same limit");
_Static_assert(sizeof((braid_overlay_shared *)0)->within / sizeof(double) == BRAID_SHARE_LEVELS, "the same levels");

struct braid_overlay_traffic {
  const braid_allocator *allocator;
  int cores;
  braid_share_model *models;
  size_t model_count;
  braid_share_trace trace;
};

/* --- policies ------------------------------------------------------------------------------------------------------
 */
size_t braid_overlay_policy_count(void) {
  return braid_share_policy_count();
}

braid_overlay_policy braid_overlay_policy_at(size_t index) {
  const braid_share_policy *policy = braid_share_policy_at(index);
  return (braid_overlay_policy){policy->name, policy->summary};
}

braid_status braid_overlay_policy_find(const char *name, size_t *index) {
  char names[256] = "";
  size_t length = 0;
  for (*index = 0; *index < braid_share_policy_count(); (*index)++) {
    const char *its = braid_share_policy_at(*index)->name;
    if (strcmp(its, name) == 0) return BRAID_OK;
    if (length < sizeof names)
      length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", *index ? ", " : "", its);
  }
  *index = 0;
  return braid_fail(BRAID_NOT_FOUND, "no policy is called \"%s\"; there are %s", name, names);
}

/* --- jobs ----------------------------------------------------------------------------------------------------------
 */
static braid_status check_options(const braid_overlay_traffic_options *options) {
  if (options->tenants < 1 || options->tenants > BRAID_OVERLAY_MOST_TENANTS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%zu tenants; allowed: 1 to %d", options->tenants,
                      BRAID_OVERLAY_MOST_TENANTS);
  if (options->jobs > BRAID_OVERLAY_MOST_JOBS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%zu jobs; allowed: at most %d", options->jobs, BRAID_OVERLAY_MOST_JOBS);
  if (!(isfinite(options->deadline_times) && options->deadline_times >= 0))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a deadline of %g times the time alone; allowed: 0 or more",
                      options->deadline_times);
  return BRAID_OK;
}

/* Its bytes up to the end of the line with the last job that is wanted. */
static size_t cut_trace(const braid_overlay_traffic_options *options) {
  size_t lines = 0;
  for (size_t i = 0; options->jobs && i < options->trace_bytes; i++) {
    lines += options->trace[i] == '\n';
    if (lines == options->jobs + 1) return i + 1; /* a header, and a line for each */
  }
  return options->trace_bytes;
}

static braid_status take_models(braid_overlay_traffic *traffic, const braid_overlay_costs *const *costs, size_t count) {
  traffic->models = braid_zalloc_array(traffic->allocator, count, sizeof *traffic->models);
  if (!traffic->models) return BRAID_NO_MEMORY;
  traffic->model_count = count;
  traffic->cores = costs[0]->cores;
  for (size_t i = 0; i < count; i++) {
    traffic->models[i] = costs[i]->model;
    if (costs[i]->cores != traffic->cores)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%s is timed on %d cores, and %s on %d", costs[i]->name,
                        costs[i]->cores, costs[0]->name, traffic->cores);
  }
  return BRAID_OK;
}

static braid_status make_trace(braid_overlay_traffic *traffic, const braid_overlay_traffic_options *options) {
  const braid_share_trace_options how = {.models = traffic->models,
                                         .model_count = traffic->model_count,
                                         .cores = traffic->cores,
                                         .tenants = options->tenants,
                                         .seed = options->seed,
                                         .load = options->load,
                                         .latency_times = options->deadline_times};
  if (options->trace)
    BRAID_TRY(braid_share_trace_parse(&how, options->trace, cut_trace(options), traffic->allocator, &traffic->trace));
  else
    BRAID_TRY(braid_share_trace_random(&how, options->jobs, traffic->allocator, &traffic->trace));
  return traffic->trace.count ? BRAID_OK : braid_fail(BRAID_INVALID_ARGUMENT, "there is no job");
}

braid_status braid_overlay_traffic_create(const braid_overlay_costs *const *costs, size_t count,
                                          const braid_overlay_traffic_options *options,
                                          const braid_allocator *allocator, braid_overlay_traffic **out) {
  *out = NULL;
  if (!count) return braid_fail(BRAID_INVALID_ARGUMENT, "no network: nothing can arrive");
  BRAID_TRY(check_options(options));
  braid_overlay_traffic *traffic = braid_zalloc(allocator, sizeof *traffic);
  if (!traffic) return BRAID_NO_MEMORY;
  traffic->allocator = allocator;
  braid_status status = take_models(traffic, costs, count);
  if (status == BRAID_OK) status = make_trace(traffic, options);
  if (status == BRAID_OK)
    *out = traffic;
  else
    braid_overlay_traffic_destroy(traffic);
  return status;
}

void braid_overlay_traffic_destroy(braid_overlay_traffic *traffic) {
  if (!traffic) return;
  braid_share_trace_deinit(&traffic->trace);
  braid_free(traffic->allocator, traffic->models);
  braid_free(traffic->allocator, traffic);
}

size_t braid_overlay_traffic_jobs(const braid_overlay_traffic *traffic) {
  return traffic->trace.count;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
static braid_overlay_shared_job job_of(const braid_share_card *card, const braid_share_result *results, size_t j) {
  const braid_share_submission *job = &card->jobs[j];
  const braid_share_context *context = &card->contexts[job->context];
  const braid_share_result *r = &results[j];
  return (braid_overlay_shared_job){.network = job->model,
                                    .tenant = context->tenant,
                                    .priority = context->priority,
                                    .arrival = job->arrival,
                                    .start = r->start,
                                    .end = r->end,
                                    .alone = braid_share_isolated(&card->models[job->model], card->cores),
                                    .executed = r->executed,
                                    .switched = r->switched,
                                    .waited = r->waited,
                                    .switches = r->switches,
                                    .preemptions = r->preemptions};
}

static void tell(const braid_share_card *card, const braid_share_metrics *m, const braid_share_totals *totals,
                 braid_overlay_shared *out) {
  double all = totals->seconds * card->cores;
  *out = (braid_overlay_shared){.jobs = m->jobs,
                                .antt = m->antt,
                                .urgent_antt = m->urgent_antt,
                                .stp = m->stp,
                                .fairness = m->fairness,
                                .deadlines = m->deadlines,
                                .p99 = m->p99_slowdown,
                                .p99_seconds = m->p99_seconds,
                                .worst = m->worst_slowdown,
                                .longest_wait = m->longest_wait,
                                .seconds = totals->seconds,
                                .switching = totals->switch_core_seconds / all,
                                .idle = 1 - (totals->progress_core_seconds + totals->switch_core_seconds) / all};
  memcpy(out->within, m->satisfied, sizeof out->within);
}

braid_status braid_overlay_share(const braid_overlay_traffic *traffic, size_t policy, const braid_allocator *allocator,
                                 braid_overlay_shared_job *jobs, braid_overlay_shared *out) {
  const braid_share_trace *trace = &traffic->trace;
  const braid_share_card card = {.cores = traffic->cores,
                                 .contexts = trace->contexts,
                                 .context_count = trace->count,
                                 .models = traffic->models,
                                 .model_count = traffic->model_count,
                                 .jobs = trace->jobs,
                                 .job_count = trace->count};
  braid_share_totals totals;
  braid_share_metrics metrics;
  memset(out, 0, sizeof *out);
  if (policy >= braid_share_policy_count())
    return braid_fail(BRAID_INVALID_ARGUMENT, "policy %zu of %zu", policy, braid_share_policy_count());
  braid_share_result *results = braid_zalloc_array(allocator, trace->count, sizeof *results);
  braid_share_counters *counters = braid_zalloc_array(allocator, trace->count, sizeof *counters);
  braid_status status = results && counters ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    status = braid_share_run(&card, braid_share_policy_at(policy), allocator, results, counters, &totals);
  if (status == BRAID_OK) status = braid_share_measure(&card, results, allocator, &metrics);
  if (status == BRAID_OK) tell(&card, &metrics, &totals, out);
  for (size_t j = 0; status == BRAID_OK && jobs && j < trace->count; j++) jobs[j] = job_of(&card, results, j);
  braid_free(allocator, results);
  braid_free(allocator, counters);
  return status;
}
