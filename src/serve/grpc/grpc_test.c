/* The daemon over gRPC, by a client of gRPC's own core: results of the bits that a session has, what is refused,
 * clients that are slow, gone or rude, TLS, and an end while calls are open. Beside them tritonclient and kserve's
 * client, where BRAID_PYTHON names a Python that has them. */
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "braid/model.h"
#include "braid/session.h"
#include "serve/grpc/infer_read.h"
#include "serve/serve_check.h"
#include "serve/server.h"
#include "serve/trace/trace_check.h"

enum { IN = 784, OUT = 10, MESSAGE = 8192, WAIT_S = 30 };

#define INFERENCE "/inference.GRPCInferenceService/"
#define LENET "path: " BRAID_MODELS "/lenet.cfg"
static const char kConfig[] = "max_request_bytes: 1048576\n"
                              "receive_ms: 400\n"
                              "models:\n"
                              "  - {name: lenet, " LENET "}\n"
                              "  - {name: any, " LENET ", batch_bits: any, max_batch: 6}\n"
                              "  - {name: patient, " LENET ", batch_bits: any, max_batch: 8, delay_ms: 1500}\n"
                              "  - {name: later, " LENET ", lazy: true}\n"
                              "tenants:\n"
                              "  - {name: everybody, models: lenet any patient nothing}\n"
                              "  - {name: chief, token: secret, admin: true, shared_memory: /braid-test}\n";

static float image[IN], expected[OUT];
static const char *trace_parent; /* that calls have which begin, with two tracestates; NULL: none */

/* --- a daemon -------------------------------------------------------------------------------------------------------
 */
static braid_status start(const char *more, int grpc_port, braid_server **out) {
  char path[128];
  snprintf(path, sizeof path, "%s/grpc.yaml", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "%s%s", more, kConfig);
  fclose(file);
  braid_status status =
      braid_server_create(&(braid_server_options){.config = path, .port = -1, .grpc_port = grpc_port}, out);
  size_t loading = status == BRAID_OK, ready, broken;
  while (loading) {
    braid_server_models(*out, &loading, &ready, &broken);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  return status;
}

static braid_server *start_good(const char *more) {
  braid_server *server;
  if (start(more, -1, &server) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_true(braid_server_grpc_port(server) > 0);
  return server;
}

/* --- a client -------------------------------------------------------------------------------------------------------
 */
typedef struct client {
  grpc_channel *channel;
  grpc_completion_queue *queue;
} client;

typedef struct client_call {
  grpc_call *call;
  grpc_metadata_array first, last;
  grpc_byte_buffer *response;
  grpc_status_code status;
  grpc_slice detail;
} client_call;

static client client_open(const braid_server *server, grpc_channel_credentials *credentials) {
  char target[64];
  grpc_arg name = {.type = GRPC_ARG_STRING, .key = GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, .value.string = "braid.test"};
  grpc_channel_args all = {1, &name};
  snprintf(target, sizeof target, "127.0.0.1:%d", braid_server_grpc_port(server));
  grpc_init();
  client made = {grpc_channel_create(target, credentials, &all), grpc_completion_queue_create_for_next(NULL)};
  grpc_channel_credentials_release(credentials);
  return made;
}

static client client_insecure(const braid_server *server) {
  return client_open(server, grpc_insecure_credentials_create());
}

static void client_close(client *c) {
  grpc_channel_destroy(c->channel);
  grpc_completion_queue_shutdown(c->queue);
  while (grpc_completion_queue_next(c->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN) {
  }
  grpc_completion_queue_destroy(c->queue);
  grpc_shutdown();
}

/* Begins a call. `message` NULL: none is sent, nor that there is none. The event of its end has the call as tag. */
static void client_begin(client *c, client_call *out, const char *method, const char *token, const void *message,
                         size_t bytes) {
  char bearer[64];
  grpc_op ops[6] = {0};
  size_t count = 0;
  *out = (client_call){0};
  snprintf(bearer, sizeof bearer, "%s", token ? token : "");
  grpc_metadata headers[4];
  size_t header_count = 0;
  if (token)
    headers[header_count++] = (grpc_metadata){.key = grpc_slice_from_static_string("authorization"),
                                              .value = grpc_slice_from_copied_string(bearer)};
  if (trace_parent)
    headers[header_count++] = (grpc_metadata){.key = grpc_slice_from_static_string("traceparent"),
                                              .value = grpc_slice_from_copied_string(trace_parent)};
  for (int i = 0; trace_parent && i < 2; i++)
    headers[header_count++] = (grpc_metadata){.key = grpc_slice_from_static_string("tracestate"),
                                              .value = grpc_slice_from_static_string(i ? "b=2" : "a=1")};
  gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(WAIT_S, GPR_TIMESPAN));
  out->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->queue,
                                       grpc_slice_from_copied_string(method), NULL, deadline, NULL);
  grpc_metadata_array_init(&out->first);
  grpc_metadata_array_init(&out->last);
  ops[count].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[count].data.send_initial_metadata.count = header_count;
  ops[count++].data.send_initial_metadata.metadata = headers;
  grpc_byte_buffer *sent = NULL;
  if (message) {
    grpc_slice slice = grpc_slice_from_copied_buffer(message, bytes);
    sent = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    ops[count].op = GRPC_OP_SEND_MESSAGE;
    ops[count++].data.send_message.send_message = sent;
    ops[count++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  }
  ops[count].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[count++].data.recv_initial_metadata.recv_initial_metadata = &out->first;
  ops[count].op = GRPC_OP_RECV_MESSAGE;
  ops[count++].data.recv_message.recv_message = &out->response;
  ops[count].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[count].data.recv_status_on_client.trailing_metadata = &out->last;
  ops[count].data.recv_status_on_client.status = &out->status;
  ops[count++].data.recv_status_on_client.status_details = &out->detail;
  assert_int_equal(grpc_call_start_batch(out->call, ops, count, out, NULL), GRPC_CALL_OK);
  if (sent) grpc_byte_buffer_destroy(sent);
  for (size_t i = 0; i < header_count; i++) grpc_slice_unref(headers[i].value);
}

/* Waits for the end of one call, whichever it is, and frees what gRPC has of it. Returns its status. */
static grpc_status_code client_end(client *c, char *detail, size_t room, void *response, size_t *bytes) {
  gpr_timespec until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(WAIT_S, GPR_TIMESPAN));
  grpc_event event = grpc_completion_queue_next(c->queue, until, NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  client_call *call = event.tag;
  char *text = grpc_slice_to_c_string(call->detail);
  snprintf(detail, room, "%s", text);
  gpr_free(text);
  if (call->response && response) {
    const grpc_slice_buffer *slices = &call->response->data.raw.slice_buffer;
    assert_true(slices->length <= *bytes);
    *bytes = 0;
    for (size_t i = 0; i < slices->count; i++) {
      memcpy((char *)response + *bytes, GRPC_SLICE_START_PTR(slices->slices[i]), GRPC_SLICE_LENGTH(slices->slices[i]));
      *bytes += GRPC_SLICE_LENGTH(slices->slices[i]);
    }
  }
  grpc_status_code status = call->status;
  if (call->response) grpc_byte_buffer_destroy(call->response);
  grpc_slice_unref(call->detail);
  grpc_metadata_array_destroy(&call->first);
  grpc_metadata_array_destroy(&call->last);
  grpc_call_unref(call->call);
  return status;
}

/* One call from its beginning to its end: the status, and a sentence where it is not OK. */
static void expect(client *c, const char *method, const char *token, const void *message, size_t bytes,
                   grpc_status_code status, const char *text) {
  client_call call;
  char detail[512];
  client_begin(c, &call, method, token, message, bytes);
  grpc_status_code got = client_end(c, detail, sizeof detail, NULL, NULL);
  if (got != status || !strstr(detail, text))
    fail_msg("%s: status %d \"%s\", not %d \"%s\"", method, (int)got, detail, (int)status, text);
}

/* --- messages -------------------------------------------------------------------------------------------------------
 */
static size_t put(uint8_t *to, unsigned field, const void *data, size_t bytes) {
  size_t used = 0, left = bytes;
  to[used++] = (uint8_t)(field << 3 | BRAID_WIRE_PART);
  for (; left > 127; left >>= 7) to[used++] = (uint8_t)(left | 128);
  to[used++] = (uint8_t)left;
  memcpy(to + used, data, bytes);
  return used + bytes;
}

/* ModelInferRequest of the image, with raw contents of `raw` bytes. */
static size_t make_request(uint8_t *to, const char *model, size_t raw) {
  static const uint8_t kShape[] = {1, 1, 28, 28};
  uint8_t input[64];
  size_t used = put(input, 1, "input", 5);
  used += put(input + used, 2, "FP32", 4);
  used += put(input + used, 3, kShape, sizeof kShape);
  size_t bytes = put(to, 1, model, strlen(model));
  bytes += put(to + bytes, 3, "a name", 6);
  bytes += put(to + bytes, 5, input, used);
  return bytes + put(to + bytes, 7, image, raw);
}

static int compute_expected(void **state) {
  braid_graph *graph;
  braid_session *session;
  if (braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph) != BRAID_OK) return -1;
  if (braid_session_create(graph, NULL, &session) != BRAID_OK) return -1;
  for (int i = 0; i < IN; i++) image[i] = (float)((i * 31) % 255) / 255 - 0.3F;
  if (braid_session_run(session, (const void *[]){image}, (void *[]){expected}) != BRAID_OK) return -1;
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return make_folder(state);
}

/* --- tests ----------------------------------------------------------------------------------------------------------
 */
/* However the network cuts a message, it says the same; and no beginning of it is read beyond its end. */
static void test_pieces(void **state) {
  (void)state;
  static uint8_t message[MESSAGE];
  static braid_wire_piece pieces[MESSAGE];
  static braid_grpc_infer infer;
  size_t bytes = make_request(message, "lenet", sizeof image);
  for (size_t size = 1; size <= bytes; size += size < 16 ? 1 : 509) {
    size_t count = 0;
    for (size_t at = 0; at < bytes; at += size)
      pieces[count++] = (braid_wire_piece){message + at, bytes - at < size ? bytes - at : size};
    assert_int_equal(braid_grpc_infer_read((braid_wire){pieces, 0, bytes}, &infer), BRAID_SERVE_DONE);
    assert_string_equal(infer.model, "lenet");
    assert_string_equal(infer.id, "a name");
    assert_int_equal(infer.input_count, 1);
    assert_int_equal(infer.inputs[0].rank, 4);
    assert_int_equal(infer.inputs[0].dims[3], 28);
    assert_int_equal(infer.raw_count, 1);
    float got[IN];
    assert_int_equal(infer.raw[0].left, sizeof got);
    assert_true(braid_wire_copy(&infer.raw[0], got, sizeof got));
    assert_memory_equal(got, image, sizeof got);
  }
  for (size_t length = 0; length < 60; length++) {
    uint8_t *copy = malloc(length + !length);
    assert_non_null(copy);
    memcpy(copy, message, length);
    braid_wire_piece piece = {copy, length};
    braid_serve_verdict verdict = braid_grpc_infer_read((braid_wire){&piece, 0, length}, &infer);
    assert_true(verdict == BRAID_SERVE_DONE || infer.detail[0]);
    free(copy);
  }
}

static void test_same_bits(void **state) {
  (void)state;
  braid_server *server = start_good("");
  client c = client_insecure(server);
  static uint8_t message[MESSAGE], response[MESSAGE];
  char detail[512];
  for (int i = 0; i < 20; i++) {
    client_call call;
    size_t bytes = make_request(message, "lenet", sizeof image), got = sizeof response;
    client_begin(&c, &call, INFERENCE "ModelInfer", NULL, message, bytes);
    assert_int_equal(client_end(&c, detail, sizeof detail, response, &got), GRPC_STATUS_OK);
    assert_true(got > sizeof expected); /* raw_output_contents stand last */
    assert_memory_equal(response + got - sizeof expected, expected, sizeof expected);
  }
  client_close(&c);
  braid_server_destroy(server, 0);
}

static void test_refused(void **state) {
  (void)state;
  braid_server *server = start_good("");
  client c = client_insecure(server);
  static uint8_t message[MESSAGE], large[3 << 20];
  size_t bytes = make_request(message, "lenet", sizeof image);
  const char *infer = INFERENCE "ModelInfer";
  expect(&c, infer, "Bearer secret", message, bytes, GRPC_STATUS_OK, "");
  expect(&c, infer, "bearer secret", message, bytes, GRPC_STATUS_OK, "");
  expect(&c, infer, "Bearer secre", message, bytes, GRPC_STATUS_UNAUTHENTICATED, "nobody's");
  expect(&c, infer, "secret", message, bytes, GRPC_STATUS_UNAUTHENTICATED, "nobody's");
  expect(&c, infer, "", message, bytes, GRPC_STATUS_UNAUTHENTICATED, "nobody's");
  expect(&c, infer, NULL, large, sizeof large, GRPC_STATUS_RESOURCE_EXHAUSTED, "larger than max");
  expect(&c, infer, NULL, message, bytes - 1, GRPC_STATUS_INVALID_ARGUMENT, "raw_input_contents");
  expect(&c, infer, NULL, message, 0, GRPC_STATUS_PERMISSION_DENIED, "may not use");
  bytes = make_request(message, "lenet", sizeof image - 4);
  expect(&c, infer, NULL, message, bytes, GRPC_STATUS_INVALID_ARGUMENT, "has 3136 bytes");
  bytes = make_request(message, "later", sizeof image);
  expect(&c, infer, NULL, message, bytes, GRPC_STATUS_PERMISSION_DENIED, "may not use");
  bytes = make_request(message, "nothing", sizeof image);
  expect(&c, infer, NULL, message, bytes, GRPC_STATUS_NOT_FOUND, "nothing");
  expect(&c, INFERENCE "Nothing", NULL, "", 0, GRPC_STATUS_UNIMPLEMENTED, "no such method");
  expect(&c, INFERENCE "RepositoryModelLoad", NULL, "\022\005later", 7, GRPC_STATUS_PERMISSION_DENIED, "may not load");
  expect(&c, INFERENCE "RepositoryModelLoad", "Bearer secret", "\022\005later", 7, GRPC_STATUS_OK, "");
  expect(&c, INFERENCE "ServerReady", "Bearer wrong", "", 0, GRPC_STATUS_OK, "");
  client_close(&c);
  braid_server_destroy(server, 0);
}

/* A request that does not arrive, bytes that are no gRPC; the others' calls go on. */
static void test_rude(void **state) {
  (void)state;
  braid_server *server = start_good("");
  client c = client_insecure(server);
  static const char kJunk[] = "GET / HTTP/1.1\r\n\r\n\0\1\2\3";
  for (int i = 0; i < 8; i++) {
    int handle = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)braid_server_grpc_port(server))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(handle, (struct sockaddr *)&to, sizeof to), 0);
    serve_send(handle, i % 2 ? kJunk : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\4\4\377",
               (size_t)(i % 2 ? sizeof kJunk : 29));
    if (i < 4) close(handle); /* the others stay open until the end */
  }
  expect(&c, INFERENCE "ModelInfer", NULL, NULL, 0, GRPC_STATUS_DEADLINE_EXCEEDED, "did not arrive");
  expect(&c, INFERENCE "ServerLive", NULL, "", 0, GRPC_STATUS_OK, "");
  client_close(&c);
  braid_server_destroy(server, 0);
}

/* What a client has cancelled is not run. */
static void test_gone(void **state) {
  (void)state;
  braid_server *server = start_good("");
  client c = client_insecure(server);
  client_call call;
  static uint8_t message[MESSAGE];
  char detail[512];
  braid_serve_entry entry;
  size_t bytes = make_request(message, "patient", sizeof image);
  client_begin(&c, &call, INFERENCE "ModelInfer", NULL, message, bytes);
  expect(&c, INFERENCE "ServerLive", NULL, "", 0, GRPC_STATUS_OK, ""); /* the request is there, behind it */
  nanosleep(&(struct timespec){0, 200000000}, NULL);
  assert_int_equal(grpc_call_cancel(call.call, NULL), GRPC_CALL_OK);
  assert_int_equal(client_end(&c, detail, sizeof detail, NULL, NULL), GRPC_STATUS_CANCELLED);
  for (int i = 0; i < 1000; i++) {
    assert_true(braid_serve_registry_find(server->registry, "patient", &entry));
    if (entry.statistics.done || entry.statistics.failed) break;
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  }
  assert_int_equal(entry.statistics.done, 0);
  client_close(&c);
  braid_server_destroy(server, 0);
}

/* Open calls of every kind end with a sentence, soon. */
static void test_stop(void **state) {
  (void)state;
  braid_server *server = start_good("");
  client c = client_insecure(server);
  static uint8_t message[MESSAGE];
  size_t bytes = make_request(message, "patient", sizeof image);
  client_call calls[3];
  client_begin(&c, &calls[0], INFERENCE "ModelStreamInfer", NULL, NULL, 0);
  client_begin(&c, &calls[1], INFERENCE "ModelInfer", NULL, message, bytes);
  client_begin(&c, &calls[2], INFERENCE "ModelInfer", NULL, NULL, 0);
  expect(&c, INFERENCE "ServerLive", NULL, "", 0, GRPC_STATUS_OK, "");
  nanosleep(&(struct timespec){0, 100000000}, NULL);
  braid_server_destroy(server, 0);
  for (int i = 0; i < 3; i++) {
    char detail[512];
    grpc_status_code status = client_end(&c, detail, sizeof detail, NULL, NULL);
    if (status != GRPC_STATUS_UNAVAILABLE && status != GRPC_STATUS_CANCELLED) fail_msg("%d %s", (int)status, detail);
  }
  client_close(&c);
}

/* Calls without end, from before the daemon stops until after; each gets an answer, and none is left behind. */
typedef struct caller {
  client own;
  pthread_t thread;
  size_t done;
} caller;

static void *call_on(void *context) {
  caller *c = context;
  uint8_t message[MESSAGE];
  char detail[512];
  size_t bytes = make_request(message, "lenet", sizeof image);
  for (grpc_status_code status = GRPC_STATUS_OK; status != GRPC_STATUS_UNAVAILABLE;) {
    client_call call;
    client_begin(&c->own, &call, INFERENCE "ModelInfer", NULL, message, bytes);
    status = client_end(&c->own, detail, sizeof detail, NULL, NULL);
    c->done += status == GRPC_STATUS_OK;
  }
  return NULL;
}

static void test_stop_busy(void **state) {
  (void)state;
  enum { CALLERS = 4 };
  caller callers[CALLERS] = {0};
  braid_server *server = start_good("");
  for (int i = 0; i < CALLERS; i++) {
    callers[i].own = client_insecure(server);
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_on, &callers[i]), 0);
  }
  nanosleep(&(struct timespec){0, 200000000}, NULL);
  braid_server_destroy(server, 0);
  for (int i = 0; i < CALLERS; i++) {
    assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    client_close(&callers[i].own);
    assert_true(callers[i].done > 0);
  }
}

static void read_text(const char *path, char *to, size_t room) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  to[fread(to, 1, room - 1, file)] = '\0';
  fclose(file);
}

static void test_tls(void **state) {
  (void)state;
  char command[512], pem[4096], more[256];
  snprintf(command, sizeof command,
           "openssl req -x509 -newkey rsa:2048 -nodes -keyout %s/key.pem -out %s/cert.pem -days 2 -subj /CN=braid.test "
           "-addext subjectAltName=DNS:braid.test 2>/dev/null",
           folder, folder);
  if (system(command) != 0) skip_test("system", "there is no openssl");
  snprintf(more, sizeof more, "certificate: %s/cert.pem\nkey: %s/key.pem\n", folder, folder);
  braid_server *server = start_good(more);
  snprintf(command, sizeof command, "%s/cert.pem", folder);
  read_text(command, pem, sizeof pem);
  client c = client_open(server, grpc_ssl_credentials_create(pem, NULL, NULL, NULL)), plain = client_insecure(server);
  expect(&c, INFERENCE "ServerLive", NULL, "", 0, GRPC_STATUS_OK, "");
  expect(&plain, INFERENCE "ServerLive", NULL, "", 0, GRPC_STATUS_UNAVAILABLE, "");
  client_close(&c);
  client_close(&plain);
  braid_server_destroy(server, 0);
}

/* Where it cannot listen, it says so, and nothing stays behind. */
/* The caller's trace context is the parent of the call's spans. */
static void test_trace(void **state) {
  (void)state;
  static uint8_t message[MESSAGE];
  char config[256], path[128];
  snprintf(path, sizeof path, "%s/grpc-spans.jsonl", folder);
  snprintf(config, sizeof config, "trace: {file: %s, sample: 0}\n", path);
  braid_server *server = start_good(config);
  client c = client_insecure(server);
  size_t bytes = make_request(message, "lenet", sizeof image);
  expect(&c, INFERENCE "ModelInfer", NULL, message, bytes, GRPC_STATUS_OK, "");
  trace_parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  expect(&c, INFERENCE "ModelInfer", NULL, message, bytes, GRPC_STATUS_OK, "");
  bytes = make_request(message, "lenet", 3);
  expect(&c, INFERENCE "ModelStreamInfer", NULL, message, bytes, GRPC_STATUS_OK, "");
  trace_parent = "00-rubbish";
  expect(&c, INFERENCE "ModelInfer", NULL, message, bytes, GRPC_STATUS_INVALID_ARGUMENT, "");
  trace_parent = NULL;
  client_close(&c);
  braid_server_destroy(server, 0);
  json_t *spans = spans_of_file(path);
  const json_t *unary = span_find(spans, "inference.GRPCInferenceService/ModelInfer", "00f067aa0ba902b7", 0);
  const json_t *streamed = span_find(spans, "inference.GRPCInferenceService/ModelStreamInfer", "00f067aa0ba902b7", 0);
  assert_true(unary && streamed);
  assert_string_equal(span_text(unary, "traceId"), "4bf92f3577b34da6a3ce929d0e0e4736");
  assert_string_equal(span_text(unary, "traceState"), "a=1,b=2");
  assert_string_equal(span_attribute(unary, "rpc.grpc.status_code"), "0");
  assert_string_equal(span_attribute(streamed, "rpc.grpc.status_code"), "3");
  assert_int_equal(json_array_size(spans), 6); /* five of the one, one of the other, which was refused */
  json_decref(spans);
}

static void test_listen(void **state) {
  (void)state;
  braid_server *server = start_good(""), *second;
  assert_int_equal(start("", braid_server_grpc_port(server), &second), BRAID_IO);
  assert_non_null(strstr(braid_error_detail(), "cannot listen"));
  braid_server_destroy(server, 0);
  assert_int_equal(start("", 0, &server), BRAID_OK); /* the configuration has no grpc_port: none */
  assert_int_equal(braid_server_grpc_port(server), 0);
  braid_server_destroy(server, 0);
}

static void run_peer(const char *module, const char *script) {
  char command[1024];
  const char *python = getenv("BRAID_PYTHON");
  snprintf(command, sizeof command, "'%s' -c 'import %s' >/dev/null 2>&1", python ? python : "", module);
  if (!python || !*python || system(command) != 0) skip_test("peers", "BRAID_PYTHON names no Python with %s", module);
  braid_server *server = start_good("");
  snprintf(command, sizeof command, "'%s' '%s/../oracle/%s' %d", python, BRAID_TEST_DATA, script,
           braid_server_grpc_port(server));
  int differ = system(command);
  braid_server_destroy(server, 0);
  assert_int_equal(differ, 0);
}

static void test_triton(void **state) {
  (void)state;
  run_peer("tritonclient.grpc", "grpc_triton.py");
}

static void test_kserve(void **state) {
  (void)state;
  run_peer("kserve", "grpc_kserve.py");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces),    cmocka_unit_test(test_same_bits), cmocka_unit_test(test_refused),
      cmocka_unit_test(test_rude),      cmocka_unit_test(test_gone),      cmocka_unit_test(test_stop),
      cmocka_unit_test(test_stop_busy), cmocka_unit_test(test_tls),       cmocka_unit_test(test_trace),
      cmocka_unit_test(test_listen),    cmocka_unit_test(test_triton),    cmocka_unit_test(test_kserve),
  };
  return skip_run_group_tests(tests, compute_expected, remove_folder);
}
