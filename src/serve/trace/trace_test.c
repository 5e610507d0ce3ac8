/* Spans of a daemon, as a collector over HTTP and a file have them: their tree, what they say of decisions and batches,
 * callers' contexts, collectors that are away, slow or refuse, and what the environment says. */
#include "serve/trace/trace_check.h"

#include <dlfcn.h>
#include <netdb.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "serve/trace/record.h"
#include "serve/wire/wire_check.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define PARENT "traceparent: 00-" TRACE "-" SPAN "-01\r\n"
#define LENET "path: " BRAID_MODELS "/lenet.cfg"

static const char kModels[] = "models:\n  - {name: lenet, " LENET "}\n"
                              "  - {name: patient, " LENET ", batch_bits: any, max_batch: 4, delay_ms: 400}\n";
static const char kServer[] = "POST /v2/models/{model}/infer";
static collector sink;

static void need_curl(void) {
  trace_settings settings = {.endpoint = "http://127.0.0.1:1/"};
  trace_post *post;
  if (braid_trace_post_open(&settings, &post) == BRAID_UNSUPPORTED)
    skip_test("curl", "Braid was built without libcurl");
  braid_trace_post_close(post);
}

static braid_server *start_traced(const char *more) {
  char config[2048];
  snprintf(config, sizeof config, "trace: {endpoint: \"http://127.0.0.1:%d/v1/traces\"%s}\n%s", sink.port, more,
           kModels);
  return serve_start(config);
}

static char body[16384];
static const char *make_body(const char *parameters) {
  int used = sprintf(body, "{%s\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"data\":[",
                     parameters);
  for (int i = 0; i < kIn; i++) used += sprintf(body + used, "%s%.3g", i ? "," : "", (double)image[0][i]);
  sprintf(body + used, "]}]}");
  return body;
}

static void infer(const braid_server *server, const char *headers, const char *parameters, int status) {
  serve_expect(server, "POST", "/v2/models/lenet/infer", headers, make_body(parameters), status, NULL);
}

/* --- the tree of one request ---------------------------------------------------------------------------------------
 */
static void expect_within(const json_t *inner, const json_t *outer) {
  assert_true(span_time(inner, "startTimeUnixNano") >= span_time(outer, "startTimeUnixNano"));
  assert_true(span_time(inner, "endTimeUnixNano") <= span_time(outer, "endTimeUnixNano"));
  assert_true(span_time(inner, "endTimeUnixNano") >= span_time(inner, "startTimeUnixNano"));
  assert_string_equal(span_text(inner, "traceId"), span_text(outer, "traceId"));
}

static void test_tree(void **state) {
  (void)state;
  need_curl();
  collector_start(&sink);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  long long began = (long long)now.tv_sec * 1000000000 + now.tv_nsec;
  braid_server *server = start_traced(", sample: 0, service: \"a \\\"service\\\"\"");
  infer(server, PARENT "tracestate: a=1\r\ntracestate: b=2\r\n", "", 200);
  infer(server, "", "", 200); /* nobody traces it */
  infer(server, "traceparent: 00-" TRACE "-" SPAN "-00\r\n", "", 200);
  infer(server, PARENT PARENT, "", 200); /* two are none */
  braid_server_destroy(server, 0);
  assert_int_equal(json_array_size(sink.spans), 5);
  const json_t *top = span_find(sink.spans, kServer, SPAN, 0);
  assert_non_null(top);
  assert_string_equal(span_text(top, "traceId"), TRACE);
  assert_string_equal(span_text(top, "traceState"), "a=1,b=2");
  assert_int_equal(json_integer_value(json_object_get(top, "kind")), 2);
  assert_int_equal(json_integer_value(json_object_get(top, "flags")), 0x301);
  assert_null(json_object_get(top, "status"));
  assert_string_equal(span_attribute(top, "http.response.status_code"), "200");
  assert_string_equal(span_attribute(top, "braid.model"), "lenet");
  assert_string_equal(span_attribute(top, "braid.tenant"), "anyone");
  assert_string_equal(span_attribute(top, "braid.outcome"), "done");
  assert_non_null(strstr(span_attribute(top, "braid.decision"), "first of 1 waiting, rank 5"));
  assert_true(span_time(top, "startTimeUnixNano") > began && span_time(top, "startTimeUnixNano") < began + 60000000000);
  const json_t *receive = span_find(sink.spans, "receive", span_text(top, "spanId"), 0);
  const json_t *queue = span_find(sink.spans, "queue", span_text(top, "spanId"), 0);
  const json_t *run = span_find(sink.spans, "run", span_text(top, "spanId"), 0);
  assert_true(receive && queue && run);
  const json_t *device = span_find(sink.spans, "device", span_text(run, "spanId"), 0);
  assert_non_null(device);
  expect_within(receive, top);
  expect_within(queue, top);
  expect_within(run, top);
  expect_within(device, run);
  assert_string_equal(span_text(receive, "endTimeUnixNano"), span_text(queue, "startTimeUnixNano"));
  assert_string_equal(span_text(queue, "endTimeUnixNano"), span_text(run, "startTimeUnixNano"));
  assert_string_equal(span_attribute(run, "braid.device"), "cpu");
  assert_string_equal(span_attribute(run, "braid.device.instance"), "0");
  assert_string_equal(span_attribute(run, "braid.batch.size"), "1");
  assert_string_equal(attribute_of(sink.resource, "service.name"), "a \"service\"");
  assert_non_null(strstr(sink.header, "POST /v1/traces HTTP/1.1"));
  assert_non_null(strcasestr(sink.header, "Content-Type: application/json"));
  collector_stop(&sink);
}

/* --- callers' contexts ----------------------------------------------------------------------------------------------
 */
/* What is none begins a trace of its own; nothing of it is kept. */
static void test_hostile(void **state) {
  (void)state;
  need_curl();
  static const char *const kHostile[] = {
      "traceparent: 00-" TRACE "-" SPAN "\r\n",
      "traceparent: 00-00000000000000000000000000000000-" SPAN "-01\r\n",
      "traceparent: ff-" TRACE "-" SPAN "-01\r\n",
      "traceparent: \r\n",
      "traceparent: 00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01\r\n",
      "traceparent: \"},{\r\ntracestate: a=1\r\n",
      "traceparent: 00-" TRACE "-" SPAN "-01-extra\r\n",
  };
  enum { HOSTILE = sizeof kHostile / sizeof *kHostile };
  collector_start(&sink);
  braid_server *server = start_traced(", sample: 1");
  for (size_t i = 0; i < HOSTILE; i++) infer(server, kHostile[i], "", 200);
  static char long_header[900];
  int used = sprintf(long_header, PARENT "tracestate: ");
  memset(long_header + used, 'a', 600);
  strcpy(long_header + used + 600, "=1\r\n");
  infer(server, long_header, "", 200);
  braid_server_destroy(server, 0);
  for (size_t i = 0; i < HOSTILE; i++) {
    const json_t *top = span_find(sink.spans, kServer, "", i);
    assert_non_null(top);
    assert_string_not_equal(span_text(top, "traceId"), TRACE);
    assert_int_equal(strlen(span_text(top, "traceId")), 32);
    assert_string_equal(span_text(top, "traceState"), "");
  }
  assert_null(span_find(sink.spans, kServer, "", HOSTILE));
  const json_t *top = span_find(sink.spans, kServer, SPAN, 0);
  assert_non_null(top);
  assert_string_equal(span_text(top, "traceState"), "");
  collector_stop(&sink);
}

static void test_wire(void **state) {
  (void)state;
  need_curl();
  collector_start(&sink);
  char config[2048];
  snprintf(config, sizeof config, "trace: {endpoint: \"http://127.0.0.1:%d/v1/traces\", sample: 0}\n%s", sink.port,
           kModels);
  braid_server *server = serve_start_with(config, (braid_server_options){.port = -1, .socket = wire_path()});
  braid_client *client = wire_connect(wire_address(), NULL);
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = image[0],
                               .bytes = sizeof image[0]};
  braid_client_launch_options launch = {.model = "lenet",
                                        .inputs = &input,
                                        .input_count = 1,
                                        .traceparent = "00-" TRACE "-" SPAN "-01",
                                        .tracestate = "k=v"};
  braid_client_call *call;
  static char too_long[2000];
  memset(too_long, 'a', sizeof too_long - 1);
  assert_int_equal(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK);
  braid_client_release(call);
  launch.model = "nothing";
  assert_int_equal(braid_client_launch(client, &launch, &call), BRAID_CLIENT_UNKNOWN);
  launch.model = "lenet";
  launch.traceparent = too_long;
  assert_int_equal(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK);
  braid_client_release(call);
  launch.traceparent = "rubbish";
  launch.tracestate = too_long;
  assert_int_equal(braid_client_launch(client, &launch, &call), BRAID_CLIENT_OK);
  braid_client_release(call);
  braid_client_close(client);
  braid_server_destroy(server, 0);
  const json_t *top = span_find(sink.spans, "braid/launch", SPAN, 0);
  assert_non_null(top);
  assert_string_equal(span_text(top, "traceState"), "k=v");
  assert_string_equal(span_attribute(top, "rpc.system"), "braid");
  assert_string_equal(span_attribute(top, "braid.status_code"), "200");
  top = span_find(sink.spans, "braid/launch", SPAN, 1);
  assert_non_null(top);
  assert_string_equal(span_attribute(top, "braid.status_code"), "404");
  assert_int_equal(json_array_size(sink.spans), 6);
  collector_stop(&sink);
}

/* --- decisions ------------------------------------------------------------------------------------------------------
 */
static void test_refusals(void **state) {
  (void)state;
  need_curl();
  collector_start(&sink);
  braid_server *server = start_traced(", sample: 0");
  infer(server, PARENT, "\"parameters\":{\"timeout\":1},", 503);
  serve_expect(server, "POST", "/v2/models/none/infer", PARENT, "{}", 404, NULL);
  serve_expect(server, "POST", "/v2/models/lenet/infer", PARENT, "{\"inputs\":7}", 400, NULL);
  braid_server_destroy(server, 0);
  const json_t *late = span_find(sink.spans, kServer, SPAN, 0), *none = span_find(sink.spans, kServer, SPAN, 1),
               *bad = span_find(sink.spans, kServer, SPAN, 2);
  assert_true(late && none && bad);
  assert_string_equal(span_attribute(late, "http.response.status_code"), "503");
  assert_string_equal(span_attribute(late, "braid.outcome"), "refused");
  assert_non_null(strstr(span_attribute(late, "braid.decision"), "the deadline cannot be met"));
  assert_true(strtod(span_attribute(late, "braid.predicted_us"), NULL) > 1);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(late, "status"), "code")), 2);
  assert_non_null(span_find(sink.spans, "queue", span_text(late, "spanId"), 0));
  assert_null(span_find(sink.spans, "run", span_text(late, "spanId"), 0));
  assert_string_equal(span_attribute(none, "http.response.status_code"), "404");
  assert_non_null(strstr(span_attribute(none, "braid.decision"), "no model"));
  assert_null(json_object_get(none, "status")); /* the client's fault */
  assert_string_equal(span_attribute(bad, "http.response.status_code"), "400");
  collector_stop(&sink);
}

static void *infer_patient(void *context) {
  serve_expect(context, "POST", "/v2/models/patient/infer", "", body, 200, NULL);
  return NULL;
}

/* Requests that share a run: a span of the run, which links to them, and they to it. */
static void test_batch(void **state) {
  (void)state;
  need_curl();
  enum { TOGETHER = 4 };
  collector_start(&sink);
  braid_server *server = start_traced(", sample: 1");
  (void)make_body("");
  pthread_t threads[TOGETHER];
  for (int i = 0; i < TOGETHER; i++) assert_int_equal(pthread_create(&threads[i], NULL, infer_patient, server), 0);
  for (int i = 0; i < TOGETHER; i++) pthread_join(threads[i], NULL);
  braid_server_destroy(server, 0);
  const json_t *batch = span_find(sink.spans, "batch", NULL, 0);
  assert_non_null(batch);
  assert_null(span_find(sink.spans, "batch", NULL, 1));
  const json_t *links = json_object_get(batch, "links"), *link;
  size_t i, found = 0;
  assert_int_equal(json_array_size(links), TOGETHER);
  assert_string_equal(span_attribute(batch, "braid.batch.requests"), "4");
  json_array_foreach(links, i, link) {
    for (size_t k = 0; k < TOGETHER; k++) {
      const json_t *top = span_find(sink.spans, kServer, "", k);
      assert_non_null(top);
      found += strcmp(span_text(top, "spanId"), span_text(link, "spanId")) == 0 &&
               strcmp(span_text(top, "traceId"), span_text(link, "traceId")) == 0;
    }
    const json_t *run = span_find(sink.spans, "run", span_text(link, "spanId"), 0);
    const json_t *back = json_array_get(json_object_get(run, "links"), 0);
    assert_string_equal(span_text(back, "spanId"), span_text(batch, "spanId"));
    assert_string_equal(span_text(back, "traceId"), span_text(batch, "traceId"));
  }
  assert_int_equal(found, TOGETHER);
  collector_stop(&sink);
}

/* --- collectors -----------------------------------------------------------------------------------------------------
 */
static void test_again(void **state) {
  (void)state;
  need_curl();
  collector_start(&sink);
  sink.refusals = 1;
  sink.refusal = 503;
  sink.answer = "{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"two are too many\"}}";
  braid_server *server = start_traced(", sample: 1");
  infer(server, "", "", 200);
  for (int i = 0; i < 600 && json_array_size(sink.spans) < 5; i++) wire_pause(10);
  for (int i = 0; i < 100 && braid_serve_tracer_count(server->tracer).exported == 0; i++) wire_pause(10);
  assert_int_equal(json_array_size(sink.spans), 5);
  braid_tracer_counts counts = braid_serve_tracer_count(server->tracer);
  assert_int_equal(counts.failures, 1);
  assert_int_equal(counts.dropped_failed, 0);
  assert_int_equal(counts.exported, 3);
  pthread_mutex_lock(&sink.lock);
  sink.refusals = 1;
  sink.refusal = 400; /* not again */
  pthread_mutex_unlock(&sink.lock);
  infer(server, "", "", 200);
  for (int i = 0; i < 600 && braid_serve_tracer_count(server->tracer).dropped_failed == 0; i++) wire_pause(10);
  serve_expect(server, "GET", "/metrics", "", "", 200, "braid_trace_dropped_total{reason=\"refused\"} 1");
  braid_server_destroy(server, 0);
  assert_int_equal(json_array_size(sink.spans), 5);
  collector_stop(&sink);
}

/* Nobody listens; or whoever does never answers. Requests are answered, memory is bounded, and the end is quick. */
static void away(bool mute) {
  enum { MANY = TRACE_RECORDS * 2 + 400 };
  collector_start(&sink);
  sink.mute = mute;
  int port = sink.port;
  if (!mute) sink.port = 1;
  braid_server *server = start_traced(", sample: 1");
  sink.port = port;
  int handle = serve_connect(server);
  static char whole[sizeof body + 256];
  const char *text = make_body("");
  int bytes =
      snprintf(whole, sizeof whole, "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: b\r\nContent-Length: %zu\r\n\r\n%s",
               strlen(text), text); /* at once: two sends would wait for an acknowledgement */
  for (int i = 0; i < MANY; i++) {
    serve_send(handle, whole, (size_t)bytes);
    serve_answer answer = serve_receive(handle);
    assert_int_equal(answer.status, 200);
    free(answer.body);
  }
  close(handle);
  braid_tracer_counts counts = braid_serve_tracer_count(server->tracer);
  assert_true(counts.dropped_full > 0);
  assert_int_equal(counts.exported, 0);
  int64_t began = braid_now_ns();
  braid_server_destroy(server, 0);
  assert_true(braid_now_ns() - began < INT64_C(5000000000));
  collector_stop(&sink);
}

static void test_away(void **state) {
  (void)state;
  need_curl();
  away(false);
}

static void test_mute(void **state) {
  (void)state;
  need_curl();
  away(true);
}

static int asked; /* atomic: for that name */

/* libc's, but for a name whose server says nothing. */
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **out) {
  int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
  if (name && strcmp(name, "silent.test") == 0) {
    __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
    wire_pause(15000);
    return EAI_AGAIN;
  }
  *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
  return real(name, service, hints, out);
}

/* Who stops does not wait for the name of a collector. */
static void test_name_without_answer(void **state) {
  (void)state;
  need_curl();
  trace_settings settings = {.endpoint = "http://silent.test:4318/v1/traces", .timeout_ms = 10000};
  trace_post *post;
  char why[BRAID_SERVE_DETAIL];
  uint64_t rejected;
  assert_int_equal(braid_trace_post_open(&settings, &post), BRAID_OK);
  int64_t began = braid_now_ns(), stop = began + 300000000;
  assert_int_equal(braid_trace_post_send(post, "{}", 2, &stop, why, &rejected), TRACE_LATER);
  braid_trace_post_close(post);
  assert_true(__atomic_load_n(&asked, __ATOMIC_ACQUIRE));
  int64_t took = (braid_now_ns() - began) / 1000000;
  if (took > 8000) fail_msg("%lld ms", (long long)took);
}

/* --- the file -------------------------------------------------------------------------------------------------------
 */
static void test_file(void **state) {
  (void)state;
  char config[1024], path[200], old[210];
  snprintf(path, sizeof path, "%s/spans.jsonl", folder);
  snprintf(old, sizeof old, "%s.1", path);
  snprintf(config, sizeof config, "trace: {file: %s, sample: 1}\n%s", path, kModels);
  for (size_t round = 1; round <= 2; round++) { /* a daemon that starts again appends */
    braid_server *server = serve_start(config);
    infer(server, "", "", 200);
    braid_server_destroy(server, 0);
    json_t *spans = spans_of_file(path);
    assert_int_equal(json_array_size(spans), 5 * round);
    json_decref(spans);
  }
  struct stat facts;
  assert_int_equal(stat(path, &facts), 0);
  assert_int_equal(facts.st_mode & 0777, 0640 & facts.st_mode);
  trace_file *file;
  static char line[30001];
  memset(line, 'x', sizeof line - 1);
  remove(path);
  assert_int_equal(braid_trace_file_open(path, 100000, &file), BRAID_OK);
  for (int i = 0; i < 20; i++) assert_int_equal(braid_trace_file_add(file, line, sizeof line - 1), BRAID_OK);
  assert_int_equal(stat(path, &facts), 0);
  assert_int_equal(facts.st_size, 60000); /* 20 = 6 * 3 + 2 */
  assert_int_equal(stat(old, &facts), 0);
  assert_int_equal(facts.st_size, 90000);
  braid_trace_file_close(file);
  remove(path);
  remove(old);
  assert_int_equal(mkfifo(path, 0600), 0); /* nothing waits for a reader of it */
  assert_int_not_equal(braid_trace_file_open(path, 100000, &file), BRAID_OK);
  remove(path);
  snprintf(path, sizeof path, "%s/nowhere/spans", folder);
  assert_int_equal(braid_trace_file_open(path, 100000, &file), BRAID_IO);
  assert_non_null(strstr(braid_error_detail(), "/nowhere/spans"));
}

/* --- settings -------------------------------------------------------------------------------------------------------
 */
static void test_pairs(void **state) {
  (void)state;
  trace_settings settings = {0};
  assert_true(braid_trace_read_pairs("a=1, b = x%20y ,,c=", &settings.attributes, &settings.attribute_count));
  assert_int_equal(settings.attribute_count, 3);
  assert_string_equal(settings.attributes[1].key, "b");
  assert_string_equal(settings.attributes[1].value, "x y");
  assert_string_equal(settings.attributes[2].value, "");
  braid_trace_settings_free(&settings);
  static const char *const kWrong[] = {"a", "=1", "a=%zz", "a=%0d%0aX: 1", "a=%", "a=1,b"};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++)
    assert_false(braid_trace_read_pairs(kWrong[i], &settings.attributes, &settings.attribute_count));
}

static void clear_environment(void) {
  static const char *const kNames[] = {"OTEL_SDK_DISABLED",           "OTEL_TRACES_EXPORTER",
                                       "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                                       "OTEL_EXPORTER_OTLP_HEADERS",  "OTEL_EXPORTER_OTLP_TIMEOUT",
                                       "OTEL_SERVICE_NAME",           "OTEL_RESOURCE_ATTRIBUTES",
                                       "OTEL_TRACES_SAMPLER",         "OTEL_TRACES_SAMPLER_ARG"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) unsetenv(kNames[i]);
}

static void test_environment(void **state) {
  (void)state;
  trace_settings settings;
  double half = 0.5;
  char endpoint[] = "http://there/x", service[] = "mine";
  braid_serve_trace_config config = {.endpoint = endpoint, .sample = &half, .service = service};
  clear_environment();
  braid_trace_settings_read(NULL, NULL, &settings);
  assert_string_equal(settings.endpoint, "");
  setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://here:4318/", 1);
  setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio", 1);
  setenv("OTEL_TRACES_SAMPLER_ARG", "0.25", 1);
  setenv("OTEL_SERVICE_NAME", "named", 1);
  setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b", 1);
  setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "500", 1);
  braid_trace_settings_read(NULL, NULL, &settings);
  assert_string_equal(settings.endpoint, "http://here:4318/v1/traces");
  assert_false(settings.endpoint_given);
  assert_true(settings.sample == 0.25 && settings.timeout_ms == 500);
  assert_string_equal(settings.service, "named");
  assert_string_equal(settings.headers[0].value, "a b");
  braid_trace_settings_free(&settings);
  braid_trace_settings_read(&config, NULL, &settings); /* the configuration goes before */
  assert_string_equal(settings.endpoint, endpoint);
  assert_true(settings.sample == 0.5 && settings.endpoint_given);
  assert_string_equal(settings.service, "mine");
  braid_trace_settings_free(&settings);
  setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://other/path", 1); /* as it is */
  setenv("OTEL_TRACES_SAMPLER_ARG", "2", 1);
  setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", 1);
  braid_trace_settings_read(NULL, NULL, &settings);
  assert_string_equal(settings.endpoint, "http://other/path");
  assert_true(settings.sample == 0.01 && settings.timeout_ms == 10000);
  braid_trace_settings_free(&settings);
  setenv("OTEL_TRACES_EXPORTER", "none", 1);
  braid_trace_settings_read(NULL, NULL, &settings);
  assert_string_equal(settings.endpoint, "");
  setenv("OTEL_SDK_DISABLED", "TRUE", 1);
  braid_trace_settings_read(&config, NULL, &settings);
  assert_string_equal(settings.endpoint, "");
  clear_environment();
}

/* Headers of the environment reach the collector; attributes are the resource's. */
static void test_headers(void **state) {
  (void)state;
  need_curl();
  char url[64];
  collector_start(&sink);
  snprintf(url, sizeof url, "http://127.0.0.1:%d", sink.port);
  setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url, 1);
  setenv("OTEL_TRACES_SAMPLER", "always_on", 1);
  setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret", 1);
  setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=not-this,deployment.environment=test,host.name=h", 1);
  setenv("OTEL_SERVICE_NAME", "this", 1);
  braid_server *server = serve_start(kModels);
  infer(server, "", "", 200);
  braid_server_destroy(server, 0);
  clear_environment();
  assert_int_equal(json_array_size(sink.spans), 5);
  assert_non_null(strcasestr(sink.header, "\r\napi-key: secret\r\n"));
  assert_string_equal(attribute_of(sink.resource, "service.name"), "this");
  assert_string_equal(attribute_of(sink.resource, "deployment.environment"), "test");
  assert_string_equal(attribute_of(sink.resource, "host.name"), "h");
  collector_stop(&sink);
}

static int set_up(void **state) {
  clear_environment();
  compute_expected();
  return make_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tree),
                                     cmocka_unit_test(test_hostile),
                                     cmocka_unit_test(test_wire),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_batch),
                                     cmocka_unit_test(test_again),
                                     cmocka_unit_test(test_away),
                                     cmocka_unit_test(test_mute),
                                     cmocka_unit_test(test_file),
                                     cmocka_unit_test(test_pairs),
                                     cmocka_unit_test(test_environment),
                                     cmocka_unit_test(test_headers),
                                     cmocka_unit_test(test_name_without_answer)};
  return skip_run_group_tests(tests, set_up, remove_folder);
}
