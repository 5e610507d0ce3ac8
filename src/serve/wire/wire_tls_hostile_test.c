/* Clients over TLS that are rude, slow or cut off, and connections that are changed on their way: what comes of it is a
 * sentence and never a wrong or half an answer, and others do not notice. */
#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "serve/wire/relay.h"
#include "serve/wire/wire_tls_check.h"

/* Another client, whatever those before it did. */
static void expect_service(void) {
  braid_client *client = connect_tls();
  expect_bits(client, 1);
  braid_client_close(client);
}

/* --- rude and slow clients -----------------------------------------------------------------------------------------
 */
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

/* Another handshake on a connection of TLS 1.2 costs the daemon much and the client little: it ends there. */
static void test_renegotiation(void **state) {
  (void)state;
  char command[400];
  static char said[65536];
  receive_ms = 20000; /* so that this is not why it ends */
  start_with("server", "");
  snprintf(
      command, sizeof command,
      "(sleep 0.2; echo R; sleep 1) | timeout 20 openssl s_client -tls1_2 -connect localhost:%d -CAfile %s/ca.pem 2>&1",
      braid_server_wire_port(server), folder);
  FILE *pipe = popen(command, "r");
  said[fread(said, 1, sizeof said - 1, pipe)] = '\0';
  (void)pclose(pipe);
  const char *asked = strstr(said, "RENEGOTIATING");
  if (!asked || !strstr(asked, "error")) fail_msg("%s", asked ? asked : said);
  expect_service();
  stop();
}

/* --- a flood -------------------------------------------------------------------------------------------------------
 */
enum { kFlood = 8000 }; /* records of a byte, of some 23 each: as many as a socket's buffer has room for */

static void pass_on(int from, int to) {
  static uint8_t bytes[65536];
  ssize_t count;
  while ((count = recv(from, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
    for (ssize_t at = 0, sent; at < count && (sent = send(to, bytes + at, (size_t)(count - at), MSG_NOSIGNAL)) > 0;)
      at += sent;
}

/* One who sends without end to a connection that the daemon has closed is not listened to: the thread that carries is
 * that of all others too. What is left in the socket shows it, since the other end is then reset. */
static void test_flood_of_what_is_closed(void **state) {
  (void)state;
  char why[BRAID_TLS_WHY];
  static uint8_t bytes[kFlood * 40];
  int network[2], client[2], plain;
  braid_tls_relay *relay;
  braid_tls_context *context = NULL;
  braid_tls_stream *stream = NULL;
  if (!tls_there) skip_test("system", "there is no openssl, or Braid was built without GnuTLS");
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, network), 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client), 0);
  const braid_tls_files own = {NULL, tls_file("server.pem"), tls_file("server.key")};
  assert_int_equal(braid_tls_relay_create(&own, INT64_C(20000000000), &relay), BRAID_OK);
  assert_int_equal(braid_tls_relay_adopt(relay, network[0], &plain), BRAID_OK);
  if (!braid_tls_context_create(false, &(braid_tls_files){.authority = tls_file("ca.pem")}, &context, why) ||
      !braid_tls_stream_create(context, client[0], "localhost", &stream, why))
    fail_msg("%s", why);
  int64_t until = braid_now_ns() + INT64_C(20000000000);
  while (braid_tls_handshake(stream) != BRAID_TLS_DONE) {
    assert_true(braid_now_ns() < until);
    pass_on(client[1], network[1]);
    (void)poll(&(struct pollfd){.fd = network[1], .events = POLLIN}, 1, 20);
    pass_on(network[1], client[1]);
  }
  pass_on(client[1], network[1]);
  size_t used = 0, sent = 0;
  for (int i = 0; i < kFlood; i++) {
    assert_int_equal(braid_tls_send(stream, &(struct iovec){"x", 1}, 1), 1);
    ssize_t count = recv(client[1], bytes + used, sizeof bytes - used, MSG_DONTWAIT);
    assert_true(count > 0);
    used += (size_t)count;
  }
  while (sent < used) { /* until the relay takes no more, since nobody reads what it carries */
    ssize_t count = send(network[1], bytes + sent, used - sent < 4096 ? used - sent : 4096, MSG_DONTWAIT);
    if (count > 0) sent += (size_t)count;
    if (count < 0 && poll(&(struct pollfd){.fd = network[1], .events = POLLOUT}, 1, 300) == 0) break;
  }
  assert_true(sent > 20000);
  close(plain);
  assert_int_equal(poll(&(struct pollfd){.fd = network[1]}, 1, 20000), 1); /* closed, not only shut down */
  wire_pause(50);
  int reason = 0;
  socklen_t length = sizeof reason;
  assert_int_equal(getsockopt(network[1], SOL_SOCKET, SO_ERROR, &reason, &length), 0);
  if (!reason) fail_msg("all of a flood was read");
  assert_int_equal(reason, ECONNRESET);
  braid_tls_destroy(stream);
  braid_tls_context_destroy(context);
  braid_tls_relay_destroy(relay);
  close(network[1]);
  close(client[0]);
  close(client[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_handshakes_that_are_none, stop_left),
      cmocka_unit_test_teardown(test_room, stop_left),
      cmocka_unit_test_teardown(test_renegotiation, stop_left),
      cmocka_unit_test(test_flood_of_what_is_closed),
      cmocka_unit_test_teardown(test_cut_off, stop_left),
      cmocka_unit_test_teardown(test_changed, stop_left),
      cmocka_unit_test_teardown(test_stalled_record, stop_left),
      cmocka_unit_test_teardown(test_answers_not_taken, stop_left),
  };
  return skip_run_group_tests(tests, tls_set_up, remove_folder);
}
