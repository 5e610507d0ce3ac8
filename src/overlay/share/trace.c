#include "overlay/share/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/try.h"
#include "overlay/share/recorded.h"

/* Streams of random numbers. */
enum { MODEL, TENANT, PRIORITY, ARRIVAL };

static uint32_t draw(const braid_share_trace_options *options, uint32_t stream, size_t job, size_t below) {
  return braid_random_below(options->seed, 0, stream, job, (uint32_t)below);
}

static double alone(const braid_share_trace_options *options, size_t model) {
  return braid_share_isolated(&options->models[model], options->cores);
}

static braid_status check_options(const braid_share_trace_options *options) {
  if (!options->model_count || !options->tenants || options->model_count > UINT32_MAX || options->tenants > UINT32_MAX)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a trace of %zu models and %zu tenants; allowed: 1 or more",
                      options->model_count, options->tenants);
  if (!isfinite(options->load) || options->load <= 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a trace of load %g; allowed: more than 0", options->load);
  return BRAID_OK;
}

static braid_status make_room(braid_share_trace *trace, size_t count, const braid_allocator *allocator) {
  trace->allocator = allocator;
  trace->jobs = braid_zalloc_array(allocator, count, sizeof *trace->jobs);
  trace->contexts = braid_zalloc_array(allocator, count, sizeof *trace->contexts);
  trace->count = count;
  return trace->jobs && trace->contexts ? BRAID_OK : BRAID_NO_MEMORY;
}

/* Contexts and deadlines of jobs whose models are set; arrivals become such that the load is the options'. `seconds`:
 * in which they arrive now. */
static void complete(const braid_share_trace_options *options, double seconds, braid_share_trace *trace) {
  static const double kPriorities[] = {1, 3, 9};
  double total = 0;
  for (size_t j = 0; j < trace->count; j++) total += alone(options, trace->jobs[j].model);
  double times = seconds > 0 ? total / options->load / seconds : 0;
  for (size_t j = 0; j < trace->count; j++) {
    braid_share_submission *job = &trace->jobs[j];
    job->context = j;
    job->arrival *= times;
    job->latency_seconds = options->latency_times * alone(options, job->model);
    trace->contexts[j] = (braid_share_context){.tenant = draw(options, TENANT, j, options->tenants),
                                               .priority = kPriorities[draw(options, PRIORITY, j, 3)]};
  }
}

static int by_arrival(const void *a, const void *b) {
  const braid_share_submission *x = a, *y = b;
  if (x->arrival != y->arrival) return x->arrival > y->arrival ? 1 : -1;
  return (x->context > y->context) - (x->context < y->context); /* as they were drawn */
}

braid_status braid_share_trace_random(const braid_share_trace_options *options, size_t count,
                                      const braid_allocator *allocator, braid_share_trace *out) {
  memset(out, 0, sizeof *out);
  BRAID_TRY(check_options(options));
  braid_status status = make_room(out, count, allocator);
  if (status != BRAID_OK) {
    braid_share_trace_deinit(out);
    return status;
  }
  for (size_t j = 0; j < count; j++)
    out->jobs[j] = (braid_share_submission){.context = j,
                                            .model = draw(options, MODEL, j, options->model_count),
                                            .arrival = (double)braid_random_uniform(options->seed, 0, ARRIVAL, j)};
  if (count) qsort(out->jobs, count, sizeof *out->jobs, by_arrival);
  complete(options, 1, out);
  return BRAID_OK;
}

/* --- recorded requests
 * -------------------------------------------------------------------------------------------------
 */
static int by_tokens(const void *a, const void *b) {
  const braid_share_recorded *x = a, *y = b;
  if (x->tokens != y->tokens) return x->tokens > y->tokens ? 1 : -1;
  return (x->row > y->row) - (x->row < y->row);
}

/* The model with so many others that are faster alone (or as fast, and before it). */
static size_t model_at(const braid_share_trace_options *options, size_t rank) {
  for (size_t m = 0; m < options->model_count; m++) {
    size_t faster = 0;
    for (size_t n = 0; n < options->model_count; n++)
      faster += alone(options, n) < alone(options, m) || (alone(options, n) == alone(options, m) && n < m);
    if (faster == rank) return m;
  }
  return 0;
}

braid_status braid_share_trace_parse(const braid_share_trace_options *options, const char *text, size_t length,
                                     const braid_allocator *allocator, braid_share_trace *out) {
  memset(out, 0, sizeof *out);
  BRAID_TRY(check_options(options));
  braid_share_recorded *requests;
  size_t count;
  BRAID_TRY(braid_share_recorded_parse(text, length, allocator, &requests, &count));
  braid_status status = make_room(out, count, allocator);
  if (status == BRAID_OK && count) {
    double last = requests[count - 1].seconds;
    for (size_t j = 0; j < count; j++) out->jobs[j].arrival = requests[j].seconds;
    qsort(requests, count, sizeof *requests, by_tokens);
    for (size_t i = 0, m = 0; m < options->model_count; m++) {
      size_t model = model_at(options, m);
      for (; i < count * (m + 1) / options->model_count; i++) out->jobs[requests[i].row].model = model;
    }
    complete(options, last, out);
  }
  braid_free(allocator, requests);
  if (status != BRAID_OK) braid_share_trace_deinit(out);
  return status;
}

void braid_share_trace_deinit(braid_share_trace *trace) {
  braid_free(trace->allocator, trace->jobs);
  braid_free(trace->allocator, trace->contexts);
  memset(trace, 0, sizeof *trace);
}
