/* Records as spans, in OTLP's JSON (opentelemetry-proto): ids in hexadecimal, 64-bit numbers as
 * texts. Names of attributes are OpenTelemetry's where it has some, else begin with braid. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "braid/version.h"
#include "serve/trace/record.h"

enum { INTERNAL = 1, SERVER = 2, CLIENT = 3, ERROR = 2 };      /* Span.SpanKind; Status.StatusCode */
enum { SAMPLED = 1, KNOWS_REMOTE = 0x100, IS_REMOTE = 0x200 }; /* Span.flags */

typedef struct writer {
  braid_text *text;
  const trace_record *record;
  int64_t epoch_ns;
  bool listed; /* an attribute of the list has been written */
  size_t spans;
} writer;

/* --- attributes ----------------------------------------------------------------------------------------------------
 */
static void add_key(writer *w, const char *key) {
  braid_text_add(w->text, w->listed ? ",{\"key\":" : "{\"key\":");
  braid_text_add_json(w->text, key);
  w->listed = true;
}

static void add_string(writer *w, const char *key, const char *value) {
  add_key(w, key);
  braid_text_add(w->text, ",\"value\":{\"stringValue\":");
  braid_text_add_json(w->text, value);
  braid_text_add(w->text, "}}");
}

static void add_integer(writer *w, const char *key, int64_t value) {
  add_key(w, key);
  braid_text_printf(w->text, ",\"value\":{\"intValue\":\"%lld\"}}", (long long)value);
}

static void add_number(writer *w, const char *key, double value) {
  if (!isfinite(value)) return;
  add_key(w, key);
  braid_text_printf(w->text, ",\"value\":{\"doubleValue\":%.17g}}", value);
}

static void add_bool(writer *w, const char *key, bool value) {
  add_key(w, key);
  braid_text_printf(w->text, ",\"value\":{\"boolValue\":%s}}", value ? "true" : "false");
}

static void begin_list(writer *w, const char *name) {
  braid_text_printf(w->text, ",\"%s\":[", name);
  w->listed = false;
}

static void end_list(writer *w) {
  braid_text_add(w->text, "]");
}

/* --- spans ---------------------------------------------------------------------------------------------------------
 */
static void add_id(writer *w, const char *key, const uint8_t *id, size_t bytes) {
  char digits[2 * BRAID_TRACE_ID + 1];
  braid_trace_hex(id, bytes, digits);
  braid_text_printf(w->text, "\"%s\":\"%s\"", key, digits);
}

typedef struct span {
  const char *name;
  int kind;
  const uint8_t *id, *parent; /* parent NULL: none */
  bool remote;                /* the parent is another process' */
  int64_t began_ns, ended_ns;
} span;

/* Up to the time; attributes, events, links and the status follow, and end_span. */
static void begin_span(writer *w, const span *s) {
  braid_text_add(w->text, w->spans++ ? ",{" : "{");
  add_id(w, "traceId", w->record->self.trace, BRAID_TRACE_ID);
  braid_text_add(w->text, ",");
  add_id(w, "spanId", s->id, BRAID_TRACE_SPAN);
  if (s->parent) {
    braid_text_add(w->text, ",");
    add_id(w, "parentSpanId", s->parent, BRAID_TRACE_SPAN);
  }
  if (w->record->state[0]) {
    braid_text_add(w->text, ",\"traceState\":");
    braid_text_add_json(w->text, w->record->state);
  }
  braid_text_add(w->text, ",\"name\":");
  braid_text_add_json(w->text, s->name);
  int64_t ended = s->ended_ns > s->began_ns ? s->ended_ns : s->began_ns;
  braid_text_printf(w->text, ",\"flags\":%d,\"kind\":%d,\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\"",
                    SAMPLED | KNOWS_REMOTE | (s->remote ? IS_REMOTE : 0), s->kind,
                    (long long)(w->epoch_ns + s->began_ns), (long long)(w->epoch_ns + ended));
}

static void end_span(writer *w) {
  braid_text_add(w->text, "}");
}

static void add_links(writer *w) {
  const trace_record *record = w->record;
  if (!record->link_count) return;
  braid_text_add(w->text, ",\"links\":[");
  for (size_t i = 0; i < record->link_count; i++) {
    braid_text_add(w->text, i ? ",{" : "{");
    add_id(w, "traceId", record->links[i].trace, BRAID_TRACE_ID);
    braid_text_add(w->text, ",");
    add_id(w, "spanId", record->links[i].span, BRAID_TRACE_SPAN);
    braid_text_printf(w->text, ",\"flags\":%d}", SAMPLED | KNOWS_REMOTE);
  }
  braid_text_add(w->text, "]");
}

static void add_error(writer *w, const char *message) {
  braid_text_printf(w->text, ",\"status\":{\"code\":%d,\"message\":", ERROR);
  braid_text_add_json(w->text, message);
  braid_text_add(w->text, "}");
}

/* --- what a request came by ----------------------------------------------------------------------------------------
 */
static int grpc_code(int status) {
  static const struct {
    int status, code;
  } kCodes[] = {{200, 0}, {400, 3}, {401, 16}, {403, 7}, {404, 5}, {413, 8}, {429, 8}, {499, 1}, {503, 14}, {504, 4}};
  for (size_t i = 0; i < sizeof kCodes / sizeof *kCodes; i++)
    if (kCodes[i].status == status) return kCodes[i].code;
  return 13;
}

static const char *span_name(braid_trace_protocol protocol) {
  static const char *const kNames[] = {[BRAID_TRACE_HTTP] = "POST /v2/models/{model}/infer",
                                       [BRAID_TRACE_GRPC] = "inference.GRPCInferenceService/ModelInfer",
                                       [BRAID_TRACE_GRPC_STREAM] = "inference.GRPCInferenceService/ModelStreamInfer",
                                       [BRAID_TRACE_WIRE] = "braid/launch"};
  return kNames[protocol];
}

static void add_protocol(writer *w) {
  const trace_record *record = w->record;
  switch (record->protocol) {
  case BRAID_TRACE_HTTP:
    add_string(w, "http.request.method", "POST");
    add_string(w, "http.route", "/v2/models/{model}/infer");
    add_integer(w, "http.response.status_code", record->status);
    break;
  case BRAID_TRACE_GRPC:
  case BRAID_TRACE_GRPC_STREAM:
    add_string(w, "rpc.system", "grpc");
    add_string(w, "rpc.service", "inference.GRPCInferenceService");
    add_string(w, "rpc.method", record->protocol == BRAID_TRACE_GRPC ? "ModelInfer" : "ModelStreamInfer");
    add_integer(w, "rpc.grpc.status_code", grpc_code(record->status));
    break;
  case BRAID_TRACE_WIRE:
    add_string(w, "rpc.system", "braid");
    add_string(w, "rpc.method", "launch");
    add_integer(w, "braid.status_code", record->status);
    break;
  }
}

/* --- what was decided ----------------------------------------------------------------------------------------------
 */
static const char *outcome_of(const trace_record *record) {
  switch (record->status) {
  case 200:
    return "done";
  case 499:
    return "cancelled";
  case 500:
    return "failed";
  case 504:
    return "late";
  default:
    return "refused";
  }
}

static double to_us(int64_t ns) {
  return (double)ns * 1e-3;
}

static void add_run(writer *w) {
  const trace_record *record = w->record;
  const braid_serve_why *why = &record->why;
  if (why->device) add_string(w, "braid.device", why->device);
  if (!record->forwarded) add_integer(w, "braid.device.instance", (int64_t)why->instance);
  add_integer(w, "braid.batch.requests", (int64_t)why->together);
  add_integer(w, "braid.batch.rows", why->rows);
  add_integer(w, "braid.batch.size", record->batch);
  if (!why->card_cores) return;
  add_integer(w, "braid.card.cores", why->cores);
  add_integer(w, "braid.card.cores_of", why->card_cores);
  add_integer(w, "braid.card.runs", why->running);
  add_integer(w, "braid.card.switches", why->switches);
  add_number(w, "braid.card.modelled_ms", why->card_ms);
  add_number(w, "braid.card.transfer_modelled_ms", why->transfer_ms);
  add_number(w, "braid.card.compile_us", why->compile_us);
  if (!why->alone) add_number(w, "braid.card.tokens", why->tokens);
}

static void add_decision(writer *w) {
  const trace_record *record = w->record;
  const braid_serve_why *why = &record->why;
  char text[BRAID_SERVE_DETAIL];
  add_string(w, "braid.outcome", outcome_of(record));
  if (record->rows) add_integer(w, "braid.rows", record->rows);
  if (record->predicted_ns) add_number(w, "braid.predicted_us", to_us(record->predicted_ns));
  if (record->deadline_ns) add_number(w, "braid.deadline_us", to_us(record->deadline_ns - record->began_ns));
  if (record->arrived_ns) add_number(w, "braid.measured_us", to_us(record->run_ended_ns - record->arrived_ns));
  if (!record->started_ns || !why->together) {
    if (record->detail[0]) add_string(w, "braid.decision", record->detail);
    return;
  }
  braid_serve_why_text(why, record->started_ns - record->arrived_ns, text);
  add_string(w, "braid.decision", text);
  add_integer(w, "braid.priority", why->rank);
  add_bool(w, "braid.over_share", why->over_share);
  add_integer(w, "braid.waiting", (int64_t)why->waiting);
  add_run(w);
}

/* --- the spans of a request ----------------------------------------------------------------------------------------
 */
static void add_event(writer *w, const char *name, int64_t at_ns, const char *why) {
  braid_text_printf(w->text, ",\"events\":[{\"timeUnixNano\":\"%lld\",\"name\":\"%s\"",
                    (long long)(w->epoch_ns + at_ns), name);
  if (why) {
    begin_list(w, "attributes");
    add_string(w, "braid.decision", why);
    end_list(w);
  }
  braid_text_add(w->text, "}]");
}

static void add_server_span(writer *w) {
  const trace_record *record = w->record;
  static const uint8_t kNone[BRAID_TRACE_SPAN];
  bool has_parent = memcmp(record->parent, kNone, sizeof kNone) != 0;
  begin_span(w, &(span){.name = span_name(record->protocol),
                        .kind = SERVER,
                        .id = record->self.span,
                        .parent = has_parent ? record->parent : NULL,
                        .remote = has_parent,
                        .began_ns = record->began_ns,
                        .ended_ns = record->ended_ns});
  begin_list(w, "attributes");
  add_protocol(w);
  add_string(w, "braid.model", record->model);
  add_string(w, "braid.tenant", record->tenant);
  add_decision(w);
  if (record->status >= 500) add_integer(w, "error.type", record->status);
  end_list(w);
  if (record->status >= 500) add_error(w, record->detail); /* what a client did wrong is no error of the server */
  end_span(w);
}

/* A child of the request's span, without attributes. */
static void begin_child(writer *w, const char *name, const uint8_t *id, const uint8_t *parent, int64_t began,
                        int64_t ended) {
  begin_span(w,
             &(span){.name = name, .kind = INTERNAL, .id = id, .parent = parent, .began_ns = began, .ended_ns = ended});
}

static void add_queue_span(writer *w) {
  const trace_record *record = w->record;
  uint8_t id[BRAID_TRACE_SPAN];
  bool ran = record->started_ns != 0;
  braid_trace_new_span(id);
  begin_child(w, "queue", id, record->self.span, record->arrived_ns, ran ? record->started_ns : record->run_ended_ns);
  add_event(w, ran ? "begun" : outcome_of(record), ran ? record->started_ns : record->run_ended_ns,
            ran ? NULL : record->detail);
  end_span(w);
}

static void add_run_spans(writer *w) {
  const trace_record *record = w->record;
  uint8_t run[BRAID_TRACE_SPAN], device[BRAID_TRACE_SPAN];
  braid_trace_new_span(run);
  begin_child(w, "run", run, record->self.span, record->started_ns, record->run_ended_ns);
  begin_list(w, "attributes");
  add_run(w);
  end_list(w);
  add_links(w);
  end_span(w);
  if (!record->device_began_ns) return;
  braid_trace_new_span(device);
  begin_child(w, "device", device, run, record->device_began_ns, record->device_ended_ns);
  end_span(w);
}

static void add_request(writer *w) {
  const trace_record *record = w->record;
  uint8_t id[BRAID_TRACE_SPAN];
  add_server_span(w);
  if (!record->arrived_ns) return;
  braid_trace_new_span(id);
  begin_child(w, "receive", id, record->self.span, record->began_ns, record->arrived_ns);
  end_span(w);
  if (record->forwarded) return; /* its other children are records of their own */
  add_queue_span(w);
  if (record->started_ns) add_run_spans(w);
}

static void add_batch(writer *w) {
  const trace_record *record = w->record;
  begin_child(w, "batch", record->self.span, record->parent, record->began_ns, record->ended_ns);
  begin_list(w, "attributes");
  add_string(w, "braid.model", record->model);
  add_run(w);
  end_list(w);
  add_links(w);
  end_span(w);
}

static void add_forward(writer *w) {
  const trace_record *record = w->record;
  begin_span(w, &(span){.name = "forward",
                        .kind = CLIENT,
                        .id = record->self.span,
                        .parent = record->parent,
                        .began_ns = record->began_ns,
                        .ended_ns = record->ended_ns});
  begin_list(w, "attributes");
  add_string(w, "rpc.system", "braid");
  add_string(w, "rpc.method", "launch");
  add_string(w, "network.peer.address", record->address);
  add_string(w, "braid.node", record->node);
  if (record->detail[0]) add_string(w, "error.type", "node");
  end_list(w);
  if (record->detail[0]) add_error(w, record->detail);
  end_span(w);
}

/* --- the message ---------------------------------------------------------------------------------------------------
 */
/* What the service is; an attribute that the environment sets as well is its. */
static void add_resource(writer *w, const trace_settings *settings) {
  char host[256] = "";
  bool has_host = false, has_version = false;
  braid_text_add(w->text, "{\"resource\":{\"attributes\":[");
  w->listed = false;
  add_string(w, "service.name", settings->service);
  for (size_t i = 0; i < settings->attribute_count; i++) {
    const trace_attribute *attribute = &settings->attributes[i];
    if (strcmp(attribute->key, "service.name") == 0) continue; /* OTEL_SERVICE_NAME, or ours, goes before */
    has_host |= strcmp(attribute->key, "host.name") == 0;
    has_version |= strcmp(attribute->key, "service.version") == 0;
    add_string(w, attribute->key, attribute->value);
  }
  if (!has_version) add_string(w, "service.version", BRAID_VERSION);
  if (!has_host && gethostname(host, sizeof host - 1) == 0) add_string(w, "host.name", host);
  add_integer(w, "process.pid", getpid());
  braid_text_add(w->text, "]}");
}

size_t braid_trace_write(braid_text *text, const trace_settings *settings, const trace_record *records, size_t count,
                         int64_t epoch_ns) {
  writer w = {.text = text, .epoch_ns = epoch_ns};
  braid_text_add(text, "{\"resourceSpans\":[");
  add_resource(&w, settings);
  braid_text_add(text, ",\"scopeSpans\":[{\"scope\":{\"name\":\"braid.serve\",\"version\":\"" BRAID_VERSION
                       "\"},\"spans\":[");
  for (size_t i = 0; i < count; i++) {
    w.record = &records[i];
    if (w.record->kind == TRACE_REQUEST)
      add_request(&w);
    else if (w.record->kind == TRACE_BATCH)
      add_batch(&w);
    else
      add_forward(&w);
  }
  braid_text_add(text, "]}]}]}");
  return w.spans;
}
