/* The daemon over HTTP: results of the bits that a session has, what is refused and how it is said, quotas, deadlines,
 * shared memory, clients that are slow, rude or gone. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <zlib.h>

#include "braid/model.h"
#include "braid/session.h"
#include "serve/serve_check.h"

enum { kIn = 784, kOut = 10 };
static const char kModels[] = "models:\n"
                              "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
                              "  - {name: any, path: " BRAID_MODELS "/lenet.cfg, batch_bits: any, max_batch: 6}\n"
                              "  - {name: later, path: " BRAID_MODELS "/lenet.cfg, lazy: true}\n"
                              "  - {name: broken, path: /nowhere.onnx}\n";

static float image[4][kIn], expected[4][kOut];

/* What a session of this process computes, one row at a time. */
static void compute_expected(void) {
  braid_graph *graph;
  braid_session *session;
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph), BRAID_OK);
  assert_int_equal(braid_session_create(graph, NULL, &session), BRAID_OK);
  for (int row = 0; row < 4; row++) {
    for (int i = 0; i < kIn; i++) image[row][i] = (float)((i * 31 + row * 977) % 255) / 255 - 0.3F;
    assert_int_equal(braid_session_run(session, (const void *[]){image[row]}, (void *[]){expected[row]}), BRAID_OK);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* A body with binary input and output; returns its bytes. `more`: members of the root, with a comma behind each. */
static size_t make_body(char *body, size_t rows, const char *more, char *header, size_t header_bytes) {
  int json = sprintf(body,
                     "{%s\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[%zu,1,28,28],\"parameters\":"
                     "{\"binary_data_size\":%zu}}],\"outputs\":[{\"name\":\"output\",\"parameters\":{\"binary_data\":"
                     "true}}]}",
                     more, rows, rows * sizeof image[0]);
  memcpy(body + json, image, rows * sizeof image[0]);
  snprintf(header, header_bytes, "Inference-Header-Content-Length: %d\r\n", json);
  return (size_t)json + rows * sizeof image[0];
}

static const float *binary_of(const serve_answer *answer) {
  const char *length = strcasestr(answer->header, "Inference-Header-Content-Length: ");
  assert_non_null(length);
  return (const float *)(const void *)(answer->body + strtoul(length + 33, NULL, 10));
}

static void test_same_bits(void **state) {
  (void)state;
  braid_server *server = serve_start(kModels);
  static char body[1 << 16];
  char header[96];
  for (int i = 0; i < 20; i++) {
    size_t bytes = make_body(body, 1, "", header, sizeof header);
    serve_answer answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, bytes);
    assert_int_equal(answer.status, 200);
    float got[kOut];
    memcpy(got, binary_of(&answer), sizeof got);
    assert_memory_equal(got, expected[0], sizeof got);
    free(answer.body);
  }
  size_t bytes = make_body(body, 4, "", header, sizeof header); /* batch_bits: any */
  serve_answer answer = serve_ask(server, "POST", "/v2/models/any/versions/1/infer", header, body, bytes);
  assert_int_equal(answer.status, 200);
  float all[4 * kOut];
  memcpy(all, binary_of(&answer), sizeof all);
  for (int i = 0; i < 4 * kOut; i++)
    assert_true(all[i] - expected[i / kOut][i % kOut] < 1e-5F && expected[i / kOut][i % kOut] - all[i] < 1e-5F);
  free(answer.body);
  bytes = make_body(body, 3, "", header, sizeof header); /* rows of one request, which nobody shares */
  answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, bytes);
  assert_int_equal(answer.status, 200);
  memcpy(all, binary_of(&answer), 3 * sizeof expected[0]);
  for (int i = 0; i < 3 * kOut; i++)
    assert_true(all[i] - expected[i / kOut][i % kOut] < 1e-5F && expected[i / kOut][i % kOut] - all[i] < 1e-5F);
  free(answer.body);
  braid_server_destroy(server, 0);
}

/* One member of a gzip file; returns its bytes. */
static size_t pack(const char *from, size_t bytes, char *to, size_t room) {
  z_stream stream = {
      .next_in = (Bytef *)(uintptr_t)from, .avail_in = (uInt)bytes, .next_out = (Bytef *)to, .avail_out = (uInt)room};
  assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  return stream.total_out;
}

/* Numbers as text, and the same body compressed, as one member and as several. */
static void test_json_and_gzip(void **state) {
  (void)state;
  braid_server *server = serve_start(kModels);
  static char body[1 << 16], packed[1 << 16];
  int used = sprintf(
      body, "{\"id\":\"a\",\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"data\":[[");
  for (int i = 0; i < kIn; i++) used += sprintf(body + used, "%s%.9g", i ? "," : "", (double)image[1][i]);
  used += sprintf(body + used, "]]}]}");
  z_stream stream = {
      .next_in = (Bytef *)body, .avail_in = (uInt)used, .next_out = (Bytef *)packed, .avail_out = sizeof packed};
  assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  for (int compressed = 0; compressed < 2; compressed++) {
    serve_answer answer =
        serve_ask(server, "POST", "/v2/models/lenet/infer", compressed ? "Content-Encoding: gzip\r\n" : "",
                  compressed ? packed : body, compressed ? stream.total_out : (size_t)used);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, "\"id\":\"a\""));
    char *at = strstr(answer.body, "\"data\":[") + 7;
    for (int i = 0; i < kOut; i++) {
      float number = strtof(at + 1, &at);
      assert_memory_equal(&number, &expected[1][i], sizeof number);
    }
    free(answer.body);
  }
  static char members[1 << 17];
  size_t half = (size_t)used / 2, first = pack(body, half, members, sizeof members);
  size_t empty = pack(body, 0, members + first, sizeof members - first);
  size_t all =
      first + empty + pack(body + half, (size_t)used - half, members + first + empty, sizeof members - first - empty);
  for (size_t cut = 0; cut < 3; cut++) { /* whole; without its last byte; with another behind it */
    serve_answer answer = serve_ask(server, "POST", "/v2/models/lenet/infer", "Content-Encoding: gzip\r\n", members,
                                    cut == 2 ? all + 1 : all - cut);
    assert_int_equal(answer.status, cut ? 400 : 200);
    assert_true(cut || strstr(answer.body, "\"id\":\"a\""));
    free(answer.body);
  }
  packed[40] ^= 0x55;
  serve_answer answer =
      serve_ask(server, "POST", "/v2/models/lenet/infer", "Content-Encoding: gzip\r\n", packed, stream.total_out);
  assert_int_equal(answer.status, 400);
  free(answer.body);
  braid_server_destroy(server, 0);
}

static void test_refusals(void **state) {
  (void)state;
  braid_server *server = serve_start(kModels);
  static const struct {
    const char *method, *path, *body;
    int status;
    const char *text;
  } kCases[] = {
      {"GET", "/", "", 200, "<title>Braid</title>"},
      {"GET", "/v3", "", 404, "nothing at /v3"},
      {"GET", "/v2/braid/status", "", 200, "\"devices\":[{\"name\":\"cpu\""},
      {"POST", "/", "", 405, "/ takes GET, HEAD, not POST"},
      {"GET", "/v2/models/lenet/infer", "", 405, "takes POST, not GET"},
      {"PUT", "/v2/models/lenet/versions/1/infer", "", 405, "takes POST, not PUT"},
      {"GE", "//v2//models/lenet", "", 405, "takes GET, HEAD, not GE"},
      {"DELETE", "/v2/systemsharedmemory/region/a/status", "", 405, NULL},
      {"DELETE", "/v3", "", 404, "nothing at /v3"},
      {"OPTIONS", "/metrics", "", 405, NULL},
      {"GET", "/v2/models/none", "", 404, "no model"},
      {"GET", "/v2/models/lenet/versions/2", "", 404, "version"},
      {"GET", "/v2/models/lenet/versions", "", 404, NULL},
      {"GET", "/v2/models/lenet/a/b/c/d/e/f", "", 404, NULL},
      {"GET", "/v2/models/broken", "", 503, "nowhere.onnx"},
      {"GET", "/v2/models/lenet/ready", "", 200, "true"},
      {"GET", "/v2/models/lenet", "", 200, "\"weights\":\"random\""},
      {"GET", "/v2/models/broken/ready", "", 400, "false"},
      {"DELETE", "/v2", "", 405, "not DELETE"},
      {"POST", "/v2/models/lenet/infer", "", 400, "JSON"},
      {"POST", "/v2/models/lenet/infer", "[]", 400, "inputs"},
      {"POST", "/v2/models/lenet/infer", "{\"inputs\":[]}", 400, "input input of model lenet is missing"},
      {"POST", "/v2/models/lenet/infer", "{\"inputs\":[{\"name\":\"input\"}]}", 400, "datatype"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}]}", 400, "no input"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP64\",\"shape\":[1,1,28,28],\"data\":[1]}]}", 400,
       "is of type FP32"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28],\"data\":[1]}]}", 400,
       "has the shape [-1, 1, 28, 28]"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"data\":[1,2]}]}", 400,
       "element 2 of data (the shape has 784): there are fewer"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"data\":[\"a\"]}]}", 400,
       "array of numbers"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[9223372036854775807,1,28,28],\"data\":[1]}]}",
       413, "too large"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[-1,1,28,28],\"data\":[1]}]}", 400,
       "at least 0"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[100000000,1,28,28],\"data\":[1]}]}", 413,
       "may have in flight"},
      {"POST", "/v2/models/lenet/infer",
       "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"parameters\":{\"binary_data_"
       "size\":3136}}]}",
       400, "the body ends before"},
      {"POST", "/v2/models/lenet/infer", "{\"inputs\":[],\"parameters\":{\"sequence_id\":4}}", 400, "sequences"},
      {"POST", "/v2/models/lenet/infer", "{\"inputs\":[],\"outputs\":[{\"name\":\"y\"}]}", 400, "no output"},
      {"POST", "/v2/repository/models/none/load", "", 404, "no model"},
      {"POST", "/v2/repository/models/broken/load", "", 400, "nowhere.onnx"},
      {"POST", "/v2/cudasharedmemory/region/a/register", "{}", 400, "not offered"},
      {"POST", "/v2/systemsharedmemory/region/a/register", "{\"key\":\"/none-there\",\"byte_size\":4}", 400,
       "No such file"},
      {"POST", "/v2/systemsharedmemory/region/a/register", "{\"key\":\"/../etc/passwd\",\"byte_size\":4}", 400,
       "a slash and a name"},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++)
    serve_expect(server, kCases[i].method, kCases[i].path, "", kCases[i].body, kCases[i].status, kCases[i].text);
  serve_answer answer = serve_ask(server, "PUT", "/v2/models/lenet", "", "", 0);
  assert_int_equal(answer.status, 405);
  assert_non_null(strstr(answer.header, "\r\nAllow: GET, HEAD\r\n"));
  free(answer.body);
  serve_expect(server, "GET", "/v2/health/ready", "", "", 200, "true");
  serve_expect(server, "GET", "/v2", "Authorization: Bearer whatever\r\n", "", 200, "braid"); /* there are no tenants */
  braid_server_destroy(server, 0);
}

static void test_lazy_and_unload(void **state) {
  (void)state;
  braid_server *server = serve_start(kModels);
  serve_expect(server, "GET", "/v2/models/later", "", "", 503, "loading");
  serve_expect(server, "POST", "/v2/repository/models/later/load", "", "", 200, NULL);
  serve_expect(server, "GET", "/v2/models/later", "", "", 200, "\"input\"");
  serve_expect(server, "POST", "/v2/repository/models/later/unload", "", "", 200, NULL);
  serve_expect(server, "GET", "/v2/models/later", "", "", 503, "unloaded");
  serve_expect(server, "POST", "/v2/repository/index", "", "", 200,
               "\"name\":\"later\",\"version\":\"1\",\"state\":\"UNAVAILABLE\"");
  braid_server_destroy(server, 0);
}

static void test_tenants(void **state) {
  (void)state;
  char config[2048];
  snprintf(
      config, sizeof config,
      "%stenants:\n"
      "  - {name: a, token: secret-a, models: \"le* none\", max_bytes: 10000}\n"
      "  - {name: boss, token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, admin: true}\n"
      "  - {name: slow, token: secret-s, rate: 1}\n",
      kModels);
  braid_server *server = serve_start(config);
  static char body[1 << 16];
  char header[160];
  serve_expect(server, "GET", "/v2", "", "", 401, "a token is needed");
  serve_expect(server, "GET", "/v2", "Authorization: Bearer secret-b\r\n", "", 401, "nobody's");
  serve_expect(server, "GET", "/v2", "Authorization: Bearer secret-a\r\n", "", 200, "braid");
  serve_expect(server, "GET", "/v2", "Authorization: Bearer test\r\n", "", 200, "braid"); /* the hash's */
  serve_expect(server, "GET", "/v2/health/live", "", "", 200, "true");
  serve_expect(server, "GET", "/v2/models/any", "Authorization: Bearer secret-a\r\n", "", 403, "may not use");
  serve_expect(server, "POST", "/v2/repository/models/lenet/unload", "Authorization: Bearer secret-a\r\n", "", 403,
               "admin");
  serve_expect(server, "POST", "/v2/systemsharedmemory/region/r/register", "Authorization: Bearer secret-a\r\n",
               "{\"key\":\"/x\",\"byte_size\":4}", 403, "shared memory");
  size_t bytes = make_body(body, 4, "", header, sizeof header);
  strcat(header, "Authorization: Bearer secret-a\r\n");
  serve_answer answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, bytes);
  assert_int_equal(answer.status, 429);
  free(answer.body);
  for (int i = 0; i < 2; i++) {
    bytes = make_body(body, 1, "", header, sizeof header);
    strcat(header, "Authorization: Bearer secret-s\r\n");
    answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, bytes);
    assert_int_equal(answer.status, i ? 429 : 200);
    free(answer.body);
  }
  answer = serve_ask(server, "GET", "/metrics", "Authorization: Bearer test\r\n", "", 0);
  assert_non_null(strstr(answer.body, "braid_tenant_refused_total{tenant=\"slow\"} 1"));
  assert_non_null(strstr(answer.body, "nv_inference_request_success{model=\"lenet\",version=\"1\"} 1"));
  free(answer.body);
  answer = serve_ask(server, "GET", "/metrics", "Authorization: Bearer secret-a\r\n", "", 0);
  assert_null(strstr(answer.body, "tenant=\"slow\""));
  free(answer.body);
  braid_server_destroy(server, 0);
}

static void test_shared_memory(void **state) {
  (void)state;
  braid_server *server = serve_start(kModels);
  char key[64], body[1024];
  snprintf(key, sizeof key, "/braid-test-%d", (int)getpid());
  int file = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, 8192), 0);
  assert_int_equal(pwrite(file, image[2], sizeof image[2], 64), sizeof image[2]);
  snprintf(body, sizeof body, "{\"key\":\"%s\",\"offset\":64,\"byte_size\":8128}", key);
  serve_expect(server, "POST", "/v2/systemsharedmemory/region/r/register", "", body, 200, NULL);
  serve_expect(server, "POST", "/v2/systemsharedmemory/region/r/register", "", body, 400, "already");
  snprintf(body, sizeof body, "{\"key\":\"%s\",\"offset\":64,\"byte_size\":8129}", key);
  serve_expect(server, "POST", "/v2/systemsharedmemory/region/s/register", "", body, 400, "has 8192 bytes");
  static const char kInfer[] =
      "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"parameters\":"
      "{\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":3136%s}}],\"outputs\":[{\"name\":"
      "\"output\",\"parameters\":{\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":40,"
      "\"shared_memory_offset\":%d}}]}";
  snprintf(body, sizeof body, kInfer, "", 4000);
  serve_expect(server, "POST", "/v2/models/lenet/infer", "", body, 200, "shared_memory_region");
  float got[kOut];
  assert_int_equal(pread(file, got, sizeof got, 4064), sizeof got);
  assert_memory_equal(got, expected[2], sizeof got);
  snprintf(body, sizeof body, kInfer, ",\"shared_memory_offset\":5000", 0);
  serve_expect(server, "POST", "/v2/models/lenet/infer", "", body, 400, "lie outside");
  snprintf(body, sizeof body, kInfer, "", 8100);
  serve_expect(server, "POST", "/v2/models/lenet/infer", "", body, 400, "lie outside");
  assert_int_equal(ftruncate(file, 1000), 0); /* behind the daemon's back */
  snprintf(body, sizeof body, kInfer, "", 4000);
  serve_expect(server, "POST", "/v2/models/lenet/infer", "", body, 400, "smaller");
  serve_expect(server, "GET", "/v2/systemsharedmemory/status", "", "", 200, "\"name\":\"r\"");
  serve_expect(server, "POST", "/v2/systemsharedmemory/region/r/unregister", "", "", 200, NULL);
  serve_expect(server, "POST", "/v2/systemsharedmemory/region/r/unregister", "", "", 404, NULL);
  serve_expect(server, "POST", "/v2/systemsharedmemory/unregister", "", "", 200, NULL);
  close(file);
  shm_unlink(key);
  braid_server_destroy(server, 0);
}

static void test_deadlines(void **state) {
  (void)state;
  braid_server *server = serve_start(kModels);
  static char body[1 << 16];
  char header[96];
  size_t bytes = make_body(body, 1, "\"parameters\":{\"timeout\":1},", header, sizeof header);
  serve_answer answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, bytes);
  assert_int_equal(answer.status, 503);
  assert_non_null(strstr(answer.body, "the deadline cannot be met"));
  free(answer.body);
  bytes = make_body(body, 1, "\"parameters\":{\"timeout\":20000000,\"explain\":true,\"priority\":3},", header,
                    sizeof header);
  answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, bytes);
  assert_int_equal(answer.status, 200);
  assert_non_null(strstr(answer.body, "\"decision\":\"first of 1 waiting, rank 5"));
  free(answer.body);
  answer = serve_ask(server, "GET", "/v2/braid/decisions", "", "", 0);
  assert_non_null(strstr(answer.body, "\"status\":503"));
  assert_non_null(strstr(answer.body, "\"status\":200"));
  free(answer.body);
  braid_server_destroy(server, 0);
}

/* Bodies of all cuts and of rubbish, and connections that end anywhere, leave the daemon as it was. */
static void test_rude_clients(void **state) {
  (void)state;
  char config[1024];
  snprintf(config, sizeof config, "receive_ms: 200\nmax_request_bytes: 20000\n%s", kModels);
  braid_server *server = serve_start(config);
  static char body[1 << 16];
  char header[96], request[512];
  size_t bytes = make_body(body, 1, "", header, sizeof header);
  for (size_t cut = 0; cut < bytes; cut += 97) {
    int handle = serve_connect(server);
    int length =
        snprintf(request, sizeof request,
                 "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: b\r\nContent-Length: %zu\r\n%s\r\n", bytes, header);
    serve_send(handle, request, (size_t)length);
    serve_send(handle, body, cut);
    close(handle);
    serve_answer answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, cut);
    assert_true(answer.status == 400);
    free(answer.body);
  }
  for (int i = 0; i < 20; i++) { /* sent whole, and gone before the answer */
    int handle = serve_connect(server);
    int length =
        snprintf(request, sizeof request,
                 "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: b\r\nContent-Length: %zu\r\n%s\r\n", bytes, header);
    serve_send(handle, request, (size_t)length);
    serve_send(handle, body, bytes);
    close(handle);
  }
  serve_answer answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, 20001);
  assert_int_equal(answer.status, 413);
  free(answer.body);
  int handle = serve_connect(server);
  int length = snprintf(request, sizeof request,
                        "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: b\r\nContent-Length: %zu\r\n\r\n", bytes);
  serve_send(handle, request, (size_t)length);
  for (size_t at = 0; at < bytes; at += bytes / 4) { /* slowly */
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    serve_send(handle, body + at, bytes - at < bytes / 4 ? bytes - at : bytes / 4);
  }
  answer = serve_receive(handle);
  assert_int_equal(answer.status, 0); /* cut off */
  free(answer.body);
  close(handle);
  serve_expect(server, "POST", "/v2/models/lenet/infer", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", 400,
               "not both");
  serve_expect(server, "POST", "/v2/models/lenet/infer", "Content-Length: 3\r\n", "{}", 400, "not both");
  answer = serve_ask(server, "POST", "/v2/models/lenet/infer", header, body, bytes);
  assert_int_equal(answer.status, 200);
  free(answer.body);
  braid_server_destroy(server, 1000000000);
}

/* --- many at once --------------------------------------------------------------------------------------------------
 */
typedef struct client {
  braid_server *server;
  int row, wrong, right, refused;
} client;

static void *client_main(void *context) {
  client *c = context;
  char *body = malloc(1 << 16), header[96];
  float(*rows)[kIn] = malloc(sizeof image);
  memcpy(rows, image, sizeof image);
  for (int i = 0; i < 60; i++) {
    int json = sprintf(
        body,
        "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"parameters\":"
        "{\"binary_data_size\":3136}}],\"outputs\":[{\"name\":\"output\",\"parameters\":{\"binary_data\":true}}]}");
    memcpy(body + json, rows[c->row], sizeof rows[0]);
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %d\r\n", json);
    serve_answer answer =
        serve_ask(c->server, "POST", "/v2/models/lenet/infer", header, body, (size_t)json + sizeof rows[0]);
    float got[kOut] = {0};
    if (answer.status == 200) memcpy(got, binary_of(&answer), sizeof got);
    c->refused += answer.status != 200;
    c->right += answer.status == 200 && memcmp(got, expected[c->row], sizeof got) == 0;
    c->wrong += answer.status == 200 && memcmp(got, expected[c->row], sizeof got) != 0;
    free(answer.body);
  }
  free(rows);
  free(body);
  return NULL;
}

static void test_many_clients(void **state) {
  (void)state;
  enum { CLIENTS = 12 };
  char config[1024];
  snprintf(config, sizeof config, "devices:\n  - {name: cpu, threads: 1, instances: 2}\n%s", kModels);
  braid_server *server = serve_start(config);
  pthread_t threads[CLIENTS];
  client clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = (client){server, i % 4, 0, 0, 0};
    pthread_create(&threads[i], NULL, client_main, &clients[i]);
  }
  for (int i = 0; i < CLIENTS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(clients[i].wrong, 0);
    assert_int_equal(clients[i].right, 60);
  }
  braid_server_destroy(server, 0);
}

/* Requests that wait when the daemon is told to stop have their results before it ends. */
static void test_stop_under_load(void **state) {
  (void)state;
  enum { CLIENTS = 6 };
  braid_server *server = serve_start("models:\n  - {name: lenet, path: " BRAID_MODELS
                                     "/lenet.cfg, batch_bits: any, max_batch: 16, delay_ms: 400}\n");
  int handles[CLIENTS];
  static char body[1 << 16];
  char header[96], request[512];
  for (int i = 0; i < CLIENTS; i++) {
    size_t bytes = make_body(body, 1, "", header, sizeof header);
    handles[i] = serve_connect(server);
    int length =
        snprintf(request, sizeof request,
                 "POST /v2/models/lenet/infer HTTP/1.1\r\nHost: b\r\nContent-Length: %zu\r\n%s\r\n", bytes, header);
    serve_send(handles[i], request, (size_t)length);
    serve_send(handles[i], body, bytes);
  }
  serve_answer status = {0};
  while (!status.body || !strstr(status.body, "\"waiting\":6")) { /* until all wait for others to share their run */
    free(status.body);
    status = serve_ask(server, "GET", "/v2/braid/status", "", "", 0);
  }
  free(status.body);
  braid_server_destroy(server, 5000000000);
  for (int i = 0; i < CLIENTS; i++) {
    serve_answer answer = serve_receive(handles[i]);
    assert_int_equal(answer.status, 200);
    float got[kOut];
    memcpy(got, binary_of(&answer), sizeof got);
    for (int k = 0; k < kOut; k++) assert_true(got[k] - expected[0][k] < 1e-5F && expected[0][k] - got[k] < 1e-5F);
    free(answer.body);
    close(handles[i]);
  }
}

static int set_up(void **state) {
  if (make_folder(state) != 0) return -1;
  compute_expected();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bits),    cmocka_unit_test(test_json_and_gzip),
      cmocka_unit_test(test_refusals),     cmocka_unit_test(test_lazy_and_unload),
      cmocka_unit_test(test_tenants),      cmocka_unit_test(test_shared_memory),
      cmocka_unit_test(test_deadlines),    cmocka_unit_test(test_rude_clients),
      cmocka_unit_test(test_many_clients), cmocka_unit_test(test_stop_under_load),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
