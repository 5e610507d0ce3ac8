/* Braid's protocol over TLS: the bits of a session, whoever is not whom the certificate says is not spoken to, clients
 * that are rude, slow or cut off are refused with a sentence and harm nobody, and programs that are not ours understand
 * it. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "braid/remote.h"
#include "serve/wire/wire_check.h"
#include "tls/tls_check.h"

enum { kReceiveMs = 400, kMostConnections = 80, kCrowd = 64 };

static braid_server *server;
static bool there; /* openssl and GnuTLS */

/* A daemon with this certificate, and a line more. */
static void start_with(const char *certificate, const char *more) {
  char config[1500];
  if (!there) skip_test("system", "there is no openssl, or Braid was built without GnuTLS");
  snprintf(config, sizeof config,
           "certificate: %s/%s.pem\nkey: %s/%s.key\n%s"
           "receive_ms: %d\nmax_connections: %d\nmax_request_bytes: 8000000\n"
           "devices:\n  - {name: cpu, threads: 1, remote: true}\n"
           "models:\n"
           "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
           "  - {name: slow, path: " BRAID_MODELS "/lenet.cfg, batch_bits: any, max_batch: 8, delay_ms: 3000}\n"
           "tenants:\n  - {name: all, max_bytes: 20000000, remote: true}\n",
           folder, certificate, folder, certificate, more, kReceiveMs, kMostConnections);
  server = wire_start(config);
}

static void stop(void) {
  expect_quota(server, 0, 0);
  braid_server_destroy(server, 0);
  server = NULL;
}

/* After a test that failed. */
static int stop_left(void **state) {
  (void)state;
  braid_server_destroy(server, 0);
  server = NULL;
  return 0;
}

/* "tls:HOST:PORT" */
static const char *tls_address(const char *host) {
  static char address[64];
  snprintf(address, sizeof address, "tls:%s:%d", host, braid_server_wire_port(server));
  return address;
}

static braid_client *connect_tls(void) {
  braid_client *client;
  const braid_client_options options = {.authority = tls_file("ca.pem"), .connect_ms = 30000};
  if (braid_client_connect(tls_address("localhost"), &options, &client) != BRAID_CLIENT_OK)
    fail_msg("%s", braid_client_error());
  return client;
}

static void refuse_connect(const char *address, const braid_client_options *options, braid_client_status status,
                           const char *text) {
  braid_client *client;
  braid_client_status said = braid_client_connect(address, options, &client);
  if (said != status || !strstr(braid_client_error(), text))
    fail_msg("%s: %d \"%s\", not %d \"%s\"", address, said, said ? braid_client_error() : "", status, text);
  assert_null(client);
}

static braid_client_status launch_row(braid_client *client, const char *model, int row, braid_client_call **out) {
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = image[row],
                               .bytes = sizeof image[row]};
  return braid_client_submit(client, &(braid_client_launch_options){.model = model, .inputs = &input, .input_count = 1},
                             out);
}

static void expect_bits(braid_client *client, int row) {
  braid_client_call *call;
  size_t count;
  if (launch_row(client, "lenet", row, &call) != BRAID_CLIENT_OK || braid_client_wait(call, 30000) != BRAID_CLIENT_OK)
    fail_msg("%s", braid_client_error());
  assert_memory_equal(braid_client_outputs(call, &count)->data, expected[row], sizeof expected[row]);
  braid_client_release(call);
}

/* Another client, whatever those before it did. */
static void expect_service(void) {
  braid_client *client = connect_tls();
  expect_bits(client, 1);
  braid_client_close(client);
}

/* --- what is to work -----------------------------------------------------------------------------------------------
 */
/* A buffer of many records there, and launches meanwhile, by threads that send and receive at a time. */
static void *send_much(void *context) {
  enum { kMuch = 700000 };
  static float much[kMuch];
  braid_client_tensor tensor = {
      .name = "much", .dtype = BRAID_CLIENT_F32, .rank = 1, .dims = {kMuch}, .data = much, .bytes = sizeof much};
  for (int i = 0; i < 20; i++)
    if (braid_client_data(context, &tensor) != BRAID_CLIENT_OK) return context;
  return braid_client_drop(context, "much") == BRAID_CLIENT_OK ? NULL : context;
}

static void *launch_many(void *context) {
  for (int i = 0; i < 100; i++) expect_bits(context, i % kRows);
  return NULL;
}

static void test_same_bits(void **state) {
  (void)state;
  pthread_t threads[3];
  void *failed;
  start_with("server", "");
  braid_client *client = connect_tls();
  assert_string_equal(braid_client_tenant(client), "all");
  assert_false(braid_client_has_memory(client));
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, i ? launch_many : send_much, client), 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  braid_client_close(client);
  client = wire_connect(wire_address(), NULL); /* the Unix socket stays as it is */
  expect_bits(client, 2);
  assert_true(braid_client_has_memory(client));
  braid_client_close(client);
  const braid_client_options options = {.authority = tls_file("ca.pem")};
  if (braid_client_connect(tls_address("127.0.0.1"), &options, &client) != BRAID_CLIENT_OK)
    fail_msg("%s", braid_client_error());
  braid_client_close(client);
  stop();
}

static void *one_of_many(void *context) {
  (void)context;
  braid_client *client = connect_tls();
  for (int i = 0; i < 5; i++) expect_bits(client, i % kRows);
  braid_client_close(client);
  return NULL;
}

static void test_many_at_once(void **state) {
  (void)state;
  pthread_t threads[kCrowd];
  /* more time than the machine needs for 64 handshakes while it does other things */
  start_with("server", "grpc_port: 0\n");
  for (int i = 0; i < kCrowd; i++) assert_int_equal(pthread_create(&threads[i], NULL, one_of_many, NULL), 0);
  for (int i = 0; i < kCrowd; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  stop();
}

static void test_remote_device(void **state) {
  (void)state;
  braid_registry *registry;
  braid_device *device;
  char spec[400];
  start_with("server", "");
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  float out[kOut];
  braid_graph *graph;
  braid_session *session;
  snprintf(spec, sizeof spec, "remote:%s/cpu,authority=%s", tls_address("localhost"), tls_file("ca.pem"));
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph), BRAID_OK);
  if (braid_session_create(graph, &(braid_session_options){.devices = spec, .registry = registry}, &session) !=
      BRAID_OK)
    fail_msg("%s", braid_error_detail());
  for (int row = 0; row < kRows; row++) {
    assert_int_equal(braid_session_run(session, (const void *[]){image[row]}, (void *[]){out}), BRAID_OK);
    assert_memory_equal(out, expected[row], sizeof out);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  snprintf(spec, sizeof spec, "remote:%s/cpu,authority=%s", tls_address("localhost"), tls_file("other-ca.pem"));
  assert_int_equal(braid_device_open(registry, spec, &device), BRAID_IO);
  if (!strstr(braid_error_detail(), "authority that is not trusted")) fail_msg("%s", braid_error_detail());
  snprintf(spec, sizeof spec, "remote:%s/cpu", wire_tcp(server));
  assert_int_equal(braid_device_open(registry, spec, &device), BRAID_INVALID_ARGUMENT);
  if (!strstr(braid_error_detail(), "this port speaks TLS")) fail_msg("%s", braid_error_detail());
  snprintf(spec, sizeof spec, "remote:%s/cpu,authority=%s", wire_tcp(server), tls_file("ca.pem"));
  assert_int_equal(braid_device_open(registry, spec, &device), BRAID_INVALID_ARGUMENT);
  if (!strstr(braid_error_detail(), "go with hosts tls:")) fail_msg("%s", braid_error_detail());
  braid_registry_destroy(registry);
  stop();
}

/* --- who is spoken to ----------------------------------------------------------------------------------------------
 */
static void test_daemons_that_are_not_trusted(void **state) {
  (void)state;
  static const struct {
    const char *certificate, *host, *authority, *says;
  } kCases[] = {
      {"server", "localhost", "other-ca.pem", "authority that is not trusted here"},
      {"server", "localhost", NULL, "TLS"}, /* the system's, or that it has none */
      {"server", "127.0.0.2", "ca.pem", "is not for \"127.0.0.2\""},
      {"elsewhere", "localhost", "ca.pem", "is not for \"localhost\""},
      {"expired", "localhost", "ca.pem", "has expired"},
      {"misused", "localhost", "ca.pem", "for another use"},
      {"stranger", "localhost", "ca.pem", "authority that is not trusted here"},
      {"server", "localhost", "nowhere.pem", "No such file"},
      {"server", "localhost", "server.key", "server.key: a PEM file with certificates is expected"},
  };
  const char *last = "";
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    if (strcmp(last, kCases[i].certificate) != 0) {
      if (server) stop();
      start_with(kCases[i].certificate, "address: 0.0.0.0\n"); /* beside `certificate`, any */
    }
    last = kCases[i].certificate;
    braid_client_options options = {.authority = kCases[i].authority ? tls_file(kCases[i].authority) : NULL};
    refuse_connect(tls_address(kCases[i].host), &options, BRAID_CLIENT_LOST, kCases[i].says);
  }
  stop();
}

static void test_plain_and_tls(void **state) {
  (void)state;
  start_with("server", "");
  const braid_client_options with = {.authority = tls_file("ca.pem")};
  for (int i = 0; i < 20; i++) /* a refusal is not taken back by a reset */
    refuse_connect(wire_tcp(server), NULL, BRAID_CLIENT_INVALID, "this port speaks TLS: tls:HOST:PORT");
  refuse_connect(wire_tcp(server), &with, BRAID_CLIENT_ARGUMENT, "go with an address tls:");
  refuse_connect(wire_address(), &with, BRAID_CLIENT_ARGUMENT, "go with an address tls:");
  refuse_connect("tls:localhost", &with, BRAID_CLIENT_ARGUMENT, "tls: before it or without");
  braid_client_options half = {.authority = tls_file("ca.pem"), .key = tls_file("client.key")};
  refuse_connect(tls_address("localhost"), &half, BRAID_CLIENT_LOST, "both certificate and key");
  half.certificate = tls_file("server.pem");
  refuse_connect(tls_address("localhost"), &half, BRAID_CLIENT_LOST, "client.key");
  stop();
  server =
      wire_start("devices:\n  - {name: cpu, threads: 1}\nmodels:\n  - {name: m, path: " BRAID_MODELS "/lenet.cfg}\n");
  for (int i = 0; i < 20; i++)
    refuse_connect(tls_address("localhost"), &with, BRAID_CLIENT_LOST, "it answers without TLS");
  stop();
}

static void test_client_certificates(void **state) {
  (void)state;
  char more[160];
  snprintf(more, sizeof more, "wire_authority: %s\n", tls_file("ca.pem"));
  start_with("server", more);
  braid_client *client;
  braid_client_options options = {
      .authority = tls_file("ca.pem"), .certificate = tls_file("client.pem"), .key = tls_file("client.key")};
  if (braid_client_connect(tls_address("localhost"), &options, &client) != BRAID_CLIENT_OK)
    fail_msg("%s", braid_client_error());
  expect_bits(client, 0);
  braid_client_close(client);
  options.certificate = tls_file("stranger.pem");
  options.key = tls_file("stranger.key");
  for (int i = 0; i < 10; i++)
    refuse_connect(tls_address("localhost"), &options, BRAID_CLIENT_LOST, "the daemon refuses");
  options.certificate = options.key = NULL;
  for (int i = 0; i < 10; i++)
    refuse_connect(tls_address("localhost"), &options, BRAID_CLIENT_LOST, "Certificate is required");
  stop();
}

/* What the configuration names has to be there, and to fit. */
static void test_configurations(void **state) {
  (void)state;
  static const struct {
    const char *certificate, *key, *more, *says;
  } kCases[] = {
      {"server.pem", "client.key", "", "server.pem"},
      {"nowhere.pem", "server.key", "", "No such file"},
      {"ca.key", "server.key", "", "ca.key"},
      {"server.pem", "server.key", "wire_authority: /nowhere/ca.pem\n", "authority /nowhere/ca.pem"},
  };
  if (!there) skip_test("system", "there is no openssl, or Braid was built without GnuTLS");
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_server *none;
    FILE *file = fopen(tls_file("serve.yaml"), "w");
    fprintf(file, "certificate: %s\nkey: %s\n%smodels:\n  - {name: m, path: " BRAID_MODELS "/lenet.cfg}\n",
            tls_file(kCases[i].certificate), tls_file(kCases[i].key), kCases[i].more);
    fclose(file);
    braid_server_options with = {.config = tls_file("serve.yaml"), .port = -1, .wire_port = -1, .trial = true};
    assert_int_equal(braid_server_create(&with, &none), BRAID_INVALID_FILE);
    if (!strstr(braid_error_detail(), kCases[i].says)) fail_msg("%zu: %s", i, braid_error_detail());
  }
}

/* --- rude and slow clients -----------------------------------------------------------------------------------------
 */
static int tcp_connect(int port) {
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(file, (struct sockaddr *)&to, sizeof to), 0);
  return file;
}

/* The daemon ends the connection, not before `least` and not after `most` milliseconds. */
static void expect_cut(int file, int64_t least, int64_t most) {
  char bytes[4096];
  int64_t began = braid_now_ns();
  ssize_t count = 1;
  assert_int_equal(setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){20, 0}, sizeof(struct timeval)), 0);
  while (count > 0) count = recv(file, bytes, sizeof bytes, 0);
  int64_t took = (braid_now_ns() - began) / 1000000;
  if (count < 0 && errno != ECONNRESET) fail_msg("the connection did not end: %s", strerror(errno));
  if (took < least || took > most) fail_msg("it ended after %lld ms", (long long)took);
  close(file);
}

/* The first bytes of a handshake that OpenSSL makes. */
static size_t make_client_hello(uint8_t *to, size_t room) {
  char command[200];
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in own = {.sin_family = AF_INET};
  socklen_t length = sizeof own;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(bind(listener, (struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&own, &length), 0);
  snprintf(command, sizeof command, "openssl s_client -connect 127.0.0.1:%d </dev/null >/dev/null 2>&1 &",
           ntohs(own.sin_port));
  assert_int_equal(system(command), 0);
  int file = accept(listener, NULL, NULL);
  ssize_t count = recv(file, to, room, 0);
  close(file);
  close(listener);
  assert_true(count > 50);
  return (size_t)count;
}

static void test_handshakes_that_are_none(void **state) {
  (void)state;
  static uint8_t hello[4096], bytes[60000];
  size_t length;
  start_with("server", "");
  int port = braid_server_wire_port(server);
  length = make_client_hello(hello, sizeof hello);
  int file = tcp_connect(port); /* nothing */
  expect_cut(file, kReceiveMs / 2, 5000);
  file = tcp_connect(port); /* half a hello */
  assert_int_equal(send(file, hello, length / 2, 0), length / 2);
  expect_cut(file, kReceiveMs / 2, 5000);
  file = tcp_connect(port); /* a hello, and nothing more */
  assert_int_equal(send(file, hello, length, 0), length);
  expect_cut(file, kReceiveMs / 2, 5000);
  file = tcp_connect(port); /* a byte at a time, for ever */
  int64_t began = braid_now_ns();
  for (size_t i = 0; i < length && send(file, hello + i, 1, MSG_NOSIGNAL) == 1; i++) wire_pause(20);
  expect_cut(file, 0, 5000);
  assert_true(braid_now_ns() - began < INT64_C(5000000000));
  uint32_t random = 7;
  for (int round = 0; round < 40; round++) { /* bytes of any kind, and a hello that is changed */
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)((random = random * 1664525u + 1013904223u) >> 24);
    size_t count = round % 2 ? length : (size_t)1 + random % sizeof bytes;
    if (round % 2) memcpy(bytes, hello, length);
    if (round % 2) bytes[random % length] ^= (uint8_t)(1u << round % 8);
    file = tcp_connect(port);
    (void)!send(file, bytes, count, MSG_NOSIGNAL);
    if (round % 4 < 2) (void)shutdown(file, SHUT_WR);
    expect_cut(file, 0, 5000);
  }
  expect_service();
  stop();
}

/* Who stops within the handshake counts among the connections, and makes room. */
static void test_room(void **state) {
  (void)state;
  int files[kMostConnections];
  start_with("server", "");
  for (int i = 0; i < kMostConnections; i++) files[i] = tcp_connect(braid_server_wire_port(server));
  expect_service();
  assert_true(server->wire != NULL);
  for (int i = 0; i < kMostConnections; i++) expect_cut(files[i], 0, 5000);
  stop();
}

/* --- connections that are cut --------------------------------------------------------------------------------------
 * A proxy that passes bytes on, and does something to those that come from the daemon (down) or the client. */
typedef struct proxy {
  int listener, port, to;
  size_t after[2]; /* of client and daemon: bytes that are passed; then it acts */
  int flip;        /* by changing a bit; else by ending both connections, without a word */
  bool stalls;     /* or by passing nothing more, of the client */
  pthread_t thread;
} proxy;

static void *proxy_main(void *context) {
  proxy *p = context;
  static uint8_t bytes[4096];
  size_t passed[2] = {0, 0};
  int files[2] = {accept(p->listener, NULL, NULL), tcp_connect(p->to)};
  struct pollfd pollers[2] = {{.fd = files[0], .events = POLLIN}, {.fd = files[1], .events = POLLIN}};
  bool goes_on = true, flipped = false;
  while (goes_on && poll(pollers, 2, 20000) > 0)
    for (int i = 0; i < 2 && goes_on; i++) {
      if (!pollers[i].revents) continue;
      ssize_t count = recv(files[i], bytes, sizeof bytes, 0);
      goes_on = count > 0;
      if (!goes_on) break;
      bool acts = passed[i] + (size_t)count > p->after[i];
      size_t rest = acts ? p->after[i] - (passed[i] < p->after[i] ? passed[i] : p->after[i]) : (size_t)count;
      if (acts && p->flip && !flipped) {
        flipped = true;
        bytes[rest] ^= 1;
      }
      if (acts && p->flip) rest = (size_t)count;
      if (rest) (void)!send(files[!i], bytes, rest, MSG_NOSIGNAL);
      passed[i] += (size_t)count;
      if (acts && p->stalls) {
        wire_pause(kReceiveMs / 2);
        goes_on = recv(files[1], bytes, sizeof bytes, 0) > 0; /* until the daemon has had enough */
      } else if (acts && !p->flip) {
        goes_on = false;
      }
    }
  close(files[0]);
  close(files[1]);
  return NULL;
}

static void proxy_start(proxy *p) {
  struct sockaddr_in own = {.sin_family = AF_INET};
  socklen_t length = sizeof own;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(p->listener, (struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(listen(p->listener, 1), 0);
  assert_int_equal(getsockname(p->listener, (struct sockaddr *)&own, &length), 0);
  p->port = ntohs(own.sin_port);
  p->to = braid_server_wire_port(server);
  assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
}

static void proxy_stop(proxy *p) {
  assert_int_equal(pthread_join(p->thread, NULL), 0);
  close(p->listener);
}

/* Connects through the proxy, and launches until something is wrong; returns the status and keeps the sentence. */
static braid_client_status launch_through(const proxy *p, int64_t call_ms, char *said, size_t room) {
  char address[64];
  braid_client *client;
  snprintf(address, sizeof address, "tls:localhost:%d", p->port);
  const braid_client_options options = {.authority = tls_file("ca.pem"), .connect_ms = call_ms, .call_ms = call_ms};
  braid_client_status status = braid_client_connect(address, &options, &client);
  for (int i = 0; i < 200 && status == BRAID_CLIENT_OK; i++) {
    braid_client_call *call;
    size_t count;
    status = launch_row(client, "lenet", 1, &call);
    if (status != BRAID_CLIENT_OK) break;
    status = braid_client_wait(call, call_ms);
    if (status == BRAID_CLIENT_OK)
      assert_memory_equal(braid_client_outputs(call, &count)->data, expected[1], sizeof expected[1]);
    snprintf(said, room, "%s", status ? braid_client_error() : "");
    braid_client_release(call);
  }
  if (status != BRAID_CLIENT_OK) snprintf(said, room, "%s", braid_client_error());
  braid_client_close(client);
  return status;
}

/* Wherever it is cut, in the handshake, in a record or between two, it is an error and never an answer. */
static void test_cut_off(void **state) {
  (void)state;
  char said[700];
  int cut = 0;
  start_with("server", "");
  for (size_t bytes = 1; bytes < 4200; bytes += bytes < 1800 ? 97 : 23) {
    proxy p = {.after = {SIZE_MAX, bytes}};
    proxy_start(&p);
    assert_int_equal(launch_through(&p, 20000, said, sizeof said), BRAID_CLIENT_LOST);
    if (strstr(said, "was cut off")) cut++;
    if (!strstr(said, "was cut off") && !strstr(said, "ended within the handshake") && !strstr(said, "reset by peer"))
      fail_msg("%s", said);
    proxy_stop(&p);
  }
  assert_true(cut > 10);
  expect_service();
  stop();
}

/* A changed bit of either side is an error, but for one of the few that TLS itself passes over (the version in a
 * record's header): then all answers are right. */
static void test_changed(void **state) {
  (void)state;
  char said[700];
  int errors = 0, passed = 0;
  start_with("server", "");
  for (int side = 0; side < 2; side++)
    for (size_t bytes = 20; bytes < 6000; bytes += 211) {
      proxy p = {.after = {side ? SIZE_MAX : bytes, side ? bytes : SIZE_MAX}, .flip = 1};
      proxy_start(&p);
      braid_client_status status = launch_through(&p, 700, said, sizeof said);
      proxy_stop(&p);
      errors += status == BRAID_CLIENT_LOST || status == BRAID_CLIENT_TIMEOUT;
      passed += status == BRAID_CLIENT_OK;
      if (status != BRAID_CLIENT_OK && status != BRAID_CLIENT_LOST && status != BRAID_CLIENT_TIMEOUT)
        fail_msg("%d %s", status, said);
    }
  if (passed > 4) fail_msg("%d of %d changed bits were not seen", passed, passed + errors);
  expect_service();
  stop();
}

/* Half a record after the hello: it is cut off when a message would be. */
static void test_stalled_record(void **state) {
  (void)state;
  char said[700];
  start_with("server", "");
  proxy p = {.after = {6000, SIZE_MAX}, .stalls = true};
  proxy_start(&p);
  int64_t began = braid_now_ns();
  assert_int_equal(launch_through(&p, 20000, said, sizeof said), BRAID_CLIENT_LOST);
  assert_true(braid_now_ns() - began < INT64_C(4000000000));
  proxy_stop(&p);
  expect_service();
  stop();
}

/* Who asks and takes no answers is cut off, and what waited for them is given back. */
static void test_answers_not_taken(void **state) {
  (void)state;
  start_with("server", "");
  char script[900];
  snprintf(script, sizeof script,
           "( i=0; cat %s/hello; while [ $i -lt 3000 ]; do cat %s/lists; i=$((i+1)); done ) 2>/dev/null | "
           "timeout 20 openssl s_client -connect localhost:%d -CAfile %s/ca.pem -quiet 2>/dev/null | sleep 3",
           folder, folder, braid_server_wire_port(server), folder);
  braid_wire_writer writer = {0};
  braid_wire_hello hello = {.version = BRAID_WIRE_VERSION};
  FILE *file = fopen(tls_file("hello"), "w");
  braid_wire_begin(&writer, BRAID_WIRE_HELLO, 1);
  braid_wire_put_hello(&writer, &hello);
  braid_wire_end(&writer, 0);
  fwrite(writer.data, writer.length, 1, file);
  fclose(file);
  file = fopen(tls_file("lists"), "w");
  braid_wire_begin(&writer, BRAID_WIRE_LIST, 2);
  braid_wire_put_text(&writer, "");
  braid_wire_end(&writer, 0);
  for (int i = 0; i < 50; i++) fwrite(writer.data, writer.length, 1, file);
  fclose(file);
  braid_wire_free(&writer);
  (void)!system(script);
  expect_service();
  stop();
}

/* --- programs that are not ours ------------------------------------------------------------------------------------
 */
/* OpenSSL carries our hello, and brings back the welcome. */
static void speak_by_openssl(const char *option, bool understood) {
  char command[600];
  static uint8_t answer[4096];
  braid_wire_writer writer = {0};
  braid_wire_hello hello = {.version = BRAID_WIRE_VERSION};
  braid_wire_header header;
  braid_wire_status status;
  braid_wire_begin(&writer, BRAID_WIRE_HELLO, 1);
  braid_wire_put_hello(&writer, &hello);
  braid_wire_end(&writer, 0);
  braid_wire_begin(&writer, BRAID_WIRE_HELLO, 1);
  braid_wire_put_hello(&writer, &hello);
  braid_wire_end(&writer, 0);
  FILE *file = fopen(tls_file("hello"), "w");
  fwrite(writer.data, writer.length, 1, file);
  fclose(file);
  snprintf(command, sizeof command,
           "(cat %s/hello; sleep 1) | timeout 20 openssl s_client -connect localhost:%d -CAfile %s/ca.pem "
           "-verify_return_error -verify_hostname localhost %s -quiet 2>/dev/null",
           folder, braid_server_wire_port(server), folder, option);
  FILE *pipe = popen(command, "r");
  size_t count = fread(answer, 1, sizeof answer, pipe);
  (void)pclose(pipe);
  braid_wire_free(&writer);
  if (!understood) {
    assert_int_equal(count, 0);
    return;
  }
  assert_true(count > BRAID_WIRE_HEADER);
  assert_null(braid_wire_get_header(answer, &header));
  assert_int_equal(header.kind, BRAID_WIRE_HELLO | BRAID_WIRE_REPLY);
  braid_wire_reader reader = {.data = answer + BRAID_WIRE_HEADER, .bytes = count - BRAID_WIRE_HEADER};
  braid_wire_get_status(&reader, &status);
  assert_int_equal(status.code, 200);
}

static void test_openssl(void **state) {
  (void)state;
  start_with("server", "");
  speak_by_openssl("-tls1_3", true);
  speak_by_openssl("-tls1_2", true);
  speak_by_openssl("-tls1_1 -cipher DEFAULT@SECLEVEL=0", false);
  speak_by_openssl("-alpn braid/1", true);
  speak_by_openssl("-alpn h2", false); /* who means another service of this certificate */
  stop();
}

/* OpenSSL in the daemon's place: its certificate is judged, and then that it speaks no protocol of ours. */
static void test_openssl_daemon(void **state) {
  (void)state;
  char command[600], address[64];
  start_with("server", "");
  int port = braid_server_wire_port(server); /* that is free again in a moment */
  stop();
  snprintf(command, sizeof command,
           "sleep 15 | timeout 15 openssl s_server -accept %d -cert %s/server.pem -key %s/server.key -quiet -rev "
           ">/dev/null 2>&1 &",
           port, folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(address, sizeof address, "tls:localhost:%d", port);
  braid_client *client;
  braid_client_options options = {.authority = tls_file("ca.pem"), .connect_ms = 3000};
  braid_client_status status = BRAID_CLIENT_LOST;
  for (int i = 0; i < 100 && status == BRAID_CLIENT_LOST; i++) {
    status = braid_client_connect(address, &options, &client);
    if (status == BRAID_CLIENT_LOST) wire_pause(50);
  }
  if (status != BRAID_CLIENT_TIMEOUT && status != BRAID_CLIENT_PROTOCOL)
    fail_msg("%d %s", status, braid_client_error());
  options.authority = tls_file("other-ca.pem");
  refuse_connect(address, &options, BRAID_CLIENT_LOST, "authority that is not trusted here");
}

/* --- the end -------------------------------------------------------------------------------------------------------
 */
static void test_stop(void **state) {
  (void)state;
  braid_client_call *call;
  start_with("server", "");
  braid_client *client = connect_tls(), *idle = connect_tls();
  int half = tcp_connect(braid_server_wire_port(server));
  assert_int_equal(launch_row(client, "slow", 0, &call), BRAID_CLIENT_OK);
  wire_pause(50);
  int64_t began = braid_now_ns();
  braid_server_destroy(server, 0);
  server = NULL;
  assert_true(braid_now_ns() - began < INT64_C(3000000000));
  braid_client_status status = braid_client_wait(call, 5000); /* what became of it was still said */
  if (status != BRAID_CLIENT_UNAVAILABLE) fail_msg("%d %s", status, braid_client_error());
  braid_client_release(call);
  (void)!launch_row(idle, "lenet", 0, &call);
  assert_int_equal(braid_client_wait(call, 5000), BRAID_CLIENT_LOST);
  if (strstr(braid_client_error(), "cut off")) fail_msg("%s", braid_client_error()); /* it was told */
  braid_client_release(call);
  braid_client_close(client);
  braid_client_close(idle);
  close(half);
}

static int setup(void **state) {
  char why[BRAID_TLS_WHY];
  braid_tls_context *context = NULL;
  if (make_folder(state)) return -1;
  there = tls_make_files();
  if (there)
    there = braid_tls_context_create(false, &(braid_tls_files){.authority = tls_file("ca.pem")}, &context, why);
  braid_tls_context_destroy(context);
  compute_expected();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_same_bits, stop_left),
      cmocka_unit_test_teardown(test_many_at_once, stop_left),
      cmocka_unit_test_teardown(test_remote_device, stop_left),
      cmocka_unit_test_teardown(test_daemons_that_are_not_trusted, stop_left),
      cmocka_unit_test_teardown(test_plain_and_tls, stop_left),
      cmocka_unit_test_teardown(test_client_certificates, stop_left),
      cmocka_unit_test_teardown(test_configurations, stop_left),
      cmocka_unit_test_teardown(test_handshakes_that_are_none, stop_left),
      cmocka_unit_test_teardown(test_room, stop_left),
      cmocka_unit_test_teardown(test_cut_off, stop_left),
      cmocka_unit_test_teardown(test_changed, stop_left),
      cmocka_unit_test_teardown(test_stalled_record, stop_left),
      cmocka_unit_test_teardown(test_answers_not_taken, stop_left),
      cmocka_unit_test_teardown(test_openssl, stop_left),
      cmocka_unit_test_teardown(test_openssl_daemon, stop_left),
      cmocka_unit_test_teardown(test_stop, stop_left),
  };
  return skip_run_group_tests(tests, setup, remove_folder);
}
