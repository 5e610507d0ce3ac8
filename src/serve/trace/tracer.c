#include "serve/trace/tracer.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/try.h"
#include "serve/model.h"
#include "serve/tenant.h"
#include "serve/trace/record.h"

static const int64_t kLastNs = 2000000000; /* for what is left when the daemon stops */

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static braid_status open_outputs(braid_serve_tracer *tracer) {
  trace_settings *settings = &tracer->settings;
  if (settings->file) BRAID_TRY(braid_trace_file_open(settings->file, settings->file_bytes, &tracer->file));
  if (!settings->endpoint[0]) return BRAID_OK;
  braid_status status = braid_trace_post_open(settings, &tracer->post);
  if (status == BRAID_OK || settings->endpoint_given || status == BRAID_NO_MEMORY) return status;
  braid_log_write(tracer->log, BRAID_LOG_WARNING, "OTEL_EXPORTER_OTLP_ENDPOINT: %s", braid_error_detail());
  settings->endpoint[0] = '\0';
  return BRAID_OK;
}

static braid_status open_tracer(const braid_serve_config *config, braid_serve_tracer *tracer) {
  braid_trace_settings_read(config->trace, tracer->log, &tracer->settings);
  BRAID_TRY(open_outputs(tracer));
  if (!tracer->file && !tracer->post) return BRAID_OK;
  tracer->waiting = braid_zalloc_array(NULL, TRACE_RECORDS, sizeof *tracer->waiting);
  tracer->leaving = braid_zalloc_array(NULL, TRACE_RECORDS, sizeof *tracer->leaving);
  if (!tracer->waiting || !tracer->leaving) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_thread_start(&tracer->thread, "braid-trace", braid_trace_export_main, tracer));
  tracer->started = true;
  return BRAID_OK;
}

braid_status braid_serve_tracer_create(const braid_serve_config *config, const braid_log *log,
                                       braid_serve_tracer **out) {
  *out = NULL;
  pthread_condattr_t monotonic;
  braid_serve_tracer *tracer = braid_zalloc(NULL, sizeof *tracer);
  if (!tracer) return BRAID_NO_MEMORY;
  tracer->log = log;
  pthread_mutex_init(&tracer->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&tracer->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  braid_status status = open_tracer(config, tracer);
  if (status == BRAID_OK && tracer->started)
    *out = tracer;
  else
    braid_serve_tracer_destroy(tracer);
  return status;
}

void braid_serve_tracer_destroy(braid_serve_tracer *tracer) {
  if (!tracer) return;
  __atomic_store_n(&tracer->stop_ns, braid_now_ns() + kLastNs, __ATOMIC_RELEASE);
  pthread_mutex_lock(&tracer->lock);
  tracer->stops = true;
  pthread_cond_signal(&tracer->changed);
  pthread_mutex_unlock(&tracer->lock);
  if (tracer->started) braid_thread_join(&tracer->thread);
  braid_trace_post_close(tracer->post);
  braid_trace_file_close(tracer->file);
  braid_trace_settings_free(&tracer->settings);
  braid_free(NULL, tracer->waiting);
  braid_free(NULL, tracer->leaving);
  pthread_mutex_destroy(&tracer->lock);
  pthread_cond_destroy(&tracer->changed);
  braid_free(NULL, tracer);
}

braid_tracer_counts braid_serve_tracer_count(braid_serve_tracer *tracer) {
  pthread_mutex_lock(&tracer->lock);
  braid_tracer_counts counts = tracer->counts;
  pthread_mutex_unlock(&tracer->lock);
  return counts;
}

/* --- places in traces ----------------------------------------------------------------------------------------------
 */
braid_serve_trace *braid_serve_trace_begin(braid_serve_tracer *tracer, braid_trace_protocol protocol,
                                           const braid_trace_headers *headers, int64_t began_ns) {
  braid_trace_context context;
  bool has_parent = headers->parent && braid_trace_parse(headers->parent, headers->parent_bytes, &context);
  if (!has_parent) {
    if (!tracer) return NULL;
    braid_trace_new_trace(context.trace);
    context.sampled = braid_trace_is_sampled(context.trace, tracer->settings.sample);
    if (!context.sampled) return NULL;
  }
  braid_serve_trace *trace = braid_zalloc(NULL, sizeof *trace);
  if (!trace) return NULL; /* the request goes on without */
  trace->protocol = protocol;
  trace->recorded = tracer && context.sampled;
  trace->began_ns = began_ns;
  trace->context = context;
  if (has_parent) {
    memcpy(trace->parent, context.span, sizeof trace->parent);
    braid_trace_state(headers->state, headers->state_bytes, trace->state);
  }
  if (trace->recorded) braid_trace_new_span(trace->context.span);
  return trace;
}

/* --- records -------------------------------------------------------------------------------------------------------
 */
/* Room for a record, with the lock held until record_put; NULL: there is none, and the lock is not. */
static trace_record *record_take(braid_serve_tracer *tracer) {
  pthread_mutex_lock(&tracer->lock);
  if (tracer->waiting_count < TRACE_RECORDS) return &tracer->waiting[tracer->waiting_count];
  tracer->counts.dropped_full++;
  pthread_mutex_unlock(&tracer->lock);
  return NULL;
}

static void record_put(braid_serve_tracer *tracer) {
  /* The thread looks by itself after a moment; half full, at once. */
  if (++tracer->waiting_count == TRACE_RECORDS / 2) pthread_cond_signal(&tracer->changed);
  pthread_mutex_unlock(&tracer->lock);
}

static void record_begin(trace_record *record, trace_kind kind, const braid_serve_trace *trace) {
  record->kind = kind;
  record->protocol = trace->protocol;
  memcpy(record->self.trace, trace->context.trace, BRAID_TRACE_ID);
  memcpy(record->self.span, trace->context.span, BRAID_TRACE_SPAN);
  memcpy(record->parent, trace->parent, BRAID_TRACE_SPAN);
  record->has_remote_parent = false;
  memcpy(record->state, trace->state, sizeof record->state);
  record->began_ns = trace->began_ns;
  record->ended_ns = record->arrived_ns = record->started_ns = record->run_ended_ns = 0;
  record->device_began_ns = record->device_ended_ns = 0;
  record->forwarded = false;
  record->status = 200;
  record->detail[0] = record->node[0] = record->address[0] = '\0';
  record->predicted_ns = record->deadline_ns = record->rows = record->batch = 0;
  record->why = (braid_serve_why){0};
  record->link_count = 0;
}

static void record_names(trace_record *record, const char *model, const char *tenant) {
  snprintf(record->model, sizeof record->model, "%s", model);
  snprintf(record->tenant, sizeof record->tenant, "%s", tenant);
}

static void record_request(trace_record *record, const braid_serve_request *request) {
  record_names(record, request->model->config->name, request->tenant->config->name);
  record->arrived_ns = request->arrived_ns;
  record->started_ns = request->started_ns;
  record->run_ended_ns = request->ended_ns;
  record->device_began_ns = request->trace->device_began_ns;
  record->device_ended_ns = request->trace->device_ended_ns;
  record->forwarded = request->model->remote;
  record->status = braid_serve_http_status(request->verdict);
  if (request->verdict != BRAID_SERVE_DONE) memcpy(record->detail, request->detail, sizeof record->detail);
  record->predicted_ns = request->predicted_ns;
  record->deadline_ns = request->deadline_ns;
  record->rows = request->rows;
  record->batch = request->batch;
  record->why = request->why;
}

static bool is_recorded(const braid_serve_trace *trace) {
  return trace && trace->recorded;
}

void braid_serve_trace_end(braid_serve_tracer *tracer, const braid_serve_request *request) {
  const braid_serve_trace *trace = request->trace;
  if (!tracer || !is_recorded(trace)) return;
  trace_record *record = record_take(tracer);
  if (!record) return;
  record_begin(record, TRACE_REQUEST, trace);
  record_request(record, request);
  record->has_remote_parent = true;
  record->ended_ns = braid_now_ns();
  if (trace->shared) {
    memcpy(record->links[0].trace, trace->batch_trace, BRAID_TRACE_ID);
    memcpy(record->links[0].span, trace->batch_span, BRAID_TRACE_SPAN);
    record->link_count = 1;
  }
  record_put(tracer);
}

void braid_serve_trace_refuse(braid_serve_tracer *tracer, const braid_serve_trace *trace, const char *model,
                              const char *tenant, int status, const char *detail) {
  if (!tracer || !is_recorded(trace)) return;
  trace_record *record = record_take(tracer);
  if (!record) return;
  record_begin(record, TRACE_REQUEST, trace);
  record_names(record, model, tenant);
  record->has_remote_parent = true;
  record->ended_ns = braid_now_ns();
  record->status = status;
  snprintf(record->detail, sizeof record->detail, "%s", detail);
  record_put(tracer);
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
static const braid_serve_request *first_recorded(const braid_serve_request *requests) {
  while (requests && !is_recorded(requests->trace)) requests = requests->next;
  return requests;
}

void braid_serve_trace_run(braid_serve_tracer *tracer, braid_serve_request *requests) {
  const braid_serve_request *first = tracer && requests->next ? first_recorded(requests) : NULL;
  uint8_t span[BRAID_TRACE_SPAN];
  if (!first) return;
  braid_trace_new_span(span);
  for (braid_serve_request *request = requests; request; request = request->next) {
    braid_serve_trace *trace = request->trace;
    if (!is_recorded(trace)) continue;
    trace->shared = true;
    memcpy(trace->batch_trace, first->trace->context.trace, BRAID_TRACE_ID);
    memcpy(trace->batch_span, span, BRAID_TRACE_SPAN);
  }
}

void braid_serve_trace_ran(braid_serve_tracer *tracer, const braid_serve_request *requests) {
  const braid_serve_request *first = tracer && requests->next ? first_recorded(requests) : NULL;
  if (!first) return;
  trace_record *record = record_take(tracer);
  if (!record) return;
  record_begin(record, TRACE_BATCH, first->trace);
  record_request(record, first);
  memcpy(record->parent, first->trace->context.span, BRAID_TRACE_SPAN);
  memcpy(record->self.span, first->trace->batch_span, BRAID_TRACE_SPAN);
  record->began_ns = first->started_ns;
  record->ended_ns = first->ended_ns ? first->ended_ns : braid_now_ns();
  for (const braid_serve_request *request = requests; request && record->link_count < TRACE_LINKS;
       request = request->next) {
    if (!is_recorded(request->trace)) continue;
    trace_link *link = &record->links[record->link_count++];
    memcpy(link->trace, request->trace->context.trace, BRAID_TRACE_ID);
    memcpy(link->span, request->trace->context.span, BRAID_TRACE_SPAN);
  }
  record_put(tracer);
}

void braid_serve_trace_device(braid_serve_request *requests, int64_t began_ns, int64_t ended_ns) {
  for (braid_serve_request *request = requests; request; request = request->next) {
    if (!request->trace) continue;
    request->trace->device_began_ns = began_ns;
    request->trace->device_ended_ns = ended_ns;
  }
}

/* --- to another node -----------------------------------------------------------------------------------------------
 */
void braid_serve_trace_forward_begin(const braid_serve_request *request, braid_trace_forward *out) {
  const braid_serve_trace *trace = request->trace;
  *out = (braid_trace_forward){.began_ns = braid_now_ns()};
  if (!trace) return;
  braid_trace_context context = trace->context;
  if (trace->recorded) braid_trace_new_span(context.span);
  memcpy(out->span, context.span, sizeof out->span);
  braid_trace_format(&context, out->parent);
  out->state = trace->state[0] ? trace->state : NULL;
}

void braid_serve_trace_forward_end(braid_serve_tracer *tracer, const braid_serve_request *request,
                                   const braid_trace_forward *forward, const char *node, const char *address,
                                   const char *failure) {
  if (!tracer || !is_recorded(request->trace)) return;
  trace_record *record = record_take(tracer);
  if (!record) return;
  record_begin(record, TRACE_FORWARD, request->trace);
  record_names(record, request->model->config->name, request->tenant->config->name);
  memcpy(record->parent, request->trace->context.span, BRAID_TRACE_SPAN);
  memcpy(record->self.span, forward->span, BRAID_TRACE_SPAN);
  record->began_ns = forward->began_ns;
  record->ended_ns = braid_now_ns();
  record->status = failure ? 503 : 200;
  snprintf(record->detail, sizeof record->detail, "%s", failure ? failure : "");
  snprintf(record->node, sizeof record->node, "%s", node);
  snprintf(record->address, sizeof record->address, "%s", address);
  record_put(tracer);
}
