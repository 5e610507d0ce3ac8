/* Braid's protocol over TLS: the bits of a session, whoever is not whom the certificate says is not spoken to, programs
 * that are not ours understand it, and the end is said. */
#include <netinet/tcp.h>
#include <pthread.h>

#include "base/clock.h"
#include "serve/wire/wire_tls_check.h"

enum { kCrowd = 64 };

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
  receive_ms = 20000; /* the machine may do other things meanwhile */
  start_with("server", "");
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
  if (!tls_there) skip_test("system", "there is no openssl, or Braid was built without GnuTLS");
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
           "-verify_return_error -verify_hostname localhost %s -quiet -no_ign_eof 2>/dev/null",
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
           "(sleep 15 | timeout 15 openssl s_server -accept %d -cert %s/server.pem -key %s/server.key -quiet -rev) "
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

/* The sockets of TCP that the daemon, which is in this process, has accepted: also where others stand between them and
 * who serves, a client whose machine is gone is noticed. */
static void test_keepalive(void **state) {
  (void)state;
  int accepted = 0;
  start_with("server", "");
  braid_client *client = connect_tls();
  for (int file = 0; file < 1024; file++) {
    struct sockaddr_in own, other;
    socklen_t length = sizeof own, other_length = sizeof other;
    int on = 0, idle = 0;
    socklen_t on_length = sizeof on, idle_length = sizeof idle;
    if (getsockname(file, (struct sockaddr *)&own, &length) != 0 || own.sin_family != AF_INET ||
        ntohs(own.sin_port) != braid_server_wire_port(server) ||
        getpeername(file, (struct sockaddr *)&other, &other_length) != 0)
      continue;
    assert_int_equal(getsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, &on_length), 0);
    assert_int_equal(getsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &idle_length), 0);
    assert_int_equal(on, 1);
    assert_int_equal(idle, 30);
    accepted++;
  }
  assert_int_equal(accepted, 1);
  braid_client_close(client);
  stop();
}

/* A daemon that accepts and says nothing is not waited for when another has done all. */
typedef struct spread_check {
  braid_client_tensor input;
  size_t taken;
} spread_check;

static bool give_row(void *context, size_t index, braid_client_launch_options *out) {
  spread_check *check = context;
  (void)index;
  *out = (braid_client_launch_options){.model = "lenet", .inputs = &check->input, .input_count = 1};
  return true;
}

static bool take_row(void *context, size_t index, const braid_client_call *call) {
  spread_check *check = context;
  size_t count;
  (void)index;
  assert_memory_equal(braid_client_outputs(call, &count)->data, expected[0], sizeof expected[0]);
  check->taken++;
  return true;
}

static void test_spread_with_one_that_is_silent(void **state) {
  (void)state;
  char addresses[2][64];
  start_with("server", "");
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in own = {.sin_family = AF_INET};
  socklen_t length = sizeof own;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(bind(listener, (struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(listen(listener, 8), 0); /* the kernel accepts, and nobody answers */
  assert_int_equal(getsockname(listener, (struct sockaddr *)&own, &length), 0);
  snprintf(addresses[0], sizeof addresses[0], "%s", tls_address("localhost"));
  snprintf(addresses[1], sizeof addresses[1], "tls:127.0.0.1:%d", ntohs(own.sin_port));
  spread_check check = {.input = {.name = "input",
                                  .dtype = BRAID_CLIENT_F32,
                                  .rank = 4,
                                  .dims = {1, 1, 28, 28},
                                  .data = image[0],
                                  .bytes = sizeof image[0]}};
  const braid_client_options connection = {.authority = tls_file("ca.pem"), .connect_ms = 30000};
  const braid_client_spread_options options = {
      .addresses = (const char *const[]){addresses[0], addresses[1]}, .address_count = 2, .connection = &connection};
  const braid_client_work work = {.count = 20, .give = give_row, .take = take_row, .context = &check};
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  braid_client_status status = braid_client_spread(&options, &work, NULL, NULL);
  clock_gettime(CLOCK_MONOTONIC, &ended);
  if (status != BRAID_CLIENT_OK) fail_msg("%s", braid_client_error());
  assert_int_equal(check.taken, 20);
  assert_true(ended.tv_sec - began.tv_sec < 15);
  close(listener);
  stop();
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_same_bits, stop_left),
      cmocka_unit_test_teardown(test_many_at_once, stop_left),
      cmocka_unit_test_teardown(test_remote_device, stop_left),
      cmocka_unit_test_teardown(test_daemons_that_are_not_trusted, stop_left),
      cmocka_unit_test_teardown(test_plain_and_tls, stop_left),
      cmocka_unit_test_teardown(test_client_certificates, stop_left),
      cmocka_unit_test_teardown(test_configurations, stop_left),
      cmocka_unit_test_teardown(test_openssl, stop_left),
      cmocka_unit_test_teardown(test_openssl_daemon, stop_left),
      cmocka_unit_test_teardown(test_keepalive, stop_left),
      cmocka_unit_test_teardown(test_spread_with_one_that_is_silent, stop_left),
      cmocka_unit_test_teardown(test_stop, stop_left),
  };
  return skip_run_group_tests(tests, tls_set_up, remove_folder);
}
