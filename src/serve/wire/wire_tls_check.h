/* For tests of Braid's protocol over TLS: a daemon in this process with certificates that the test makes. */
#ifndef BRAID_SERVE_WIRE_WIRE_TLS_CHECK_H
#define BRAID_SERVE_WIRE_WIRE_TLS_CHECK_H

#include <arpa/inet.h>

#include "serve/wire/wire_check.h"
#include "tls/tls_check.h"

enum { kReceiveMs = 400, kMostConnections = 80 };

static braid_server *server;
static bool tls_there;              /* openssl and GnuTLS */
static int receive_ms = kReceiveMs; /* of the daemon */

/* A daemon with this certificate, and a line more. */
static inline void start_with(const char *certificate, const char *more) {
  char config[1500];
  if (!tls_there) skip_test("system", "there is no openssl, or Braid was built without GnuTLS");
  snprintf(config, sizeof config,
           "certificate: %s/%s.pem\nkey: %s/%s.key\n%s"
           "receive_ms: %d\nmax_connections: %d\nmax_request_bytes: 8000000\n"
           "devices:\n  - {name: cpu, threads: 1, remote: true}\n"
           "models:\n"
           "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
           "  - {name: slow, path: " BRAID_MODELS "/lenet.cfg, batch_bits: any, max_batch: 8, delay_ms: 3000}\n"
           "tenants:\n  - {name: all, max_bytes: 20000000, remote: true}\n",
           folder, certificate, folder, certificate, more, receive_ms, kMostConnections);
  server = wire_start(config);
}

static inline void stop(void) {
  expect_quota(server, 0, 0);
  braid_server_destroy(server, 0);
  server = NULL;
}

/* After a test that failed. */
static inline int stop_left(void **state) {
  (void)state;
  braid_server_destroy(server, 0);
  server = NULL;
  receive_ms = kReceiveMs;
  return 0;
}

/* "tls:HOST:PORT" */
static inline const char *tls_address(const char *host) {
  static _Thread_local char address[64];
  snprintf(address, sizeof address, "tls:%s:%d", host, braid_server_wire_port(server));
  return address;
}

static inline braid_client *connect_tls(void) {
  braid_client *client;
  const braid_client_options options = {.authority = tls_file("ca.pem"), .connect_ms = 30000};
  if (braid_client_connect(tls_address("localhost"), &options, &client) != BRAID_CLIENT_OK)
    fail_msg("%s", braid_client_error());
  return client;
}

static inline void refuse_connect(const char *address, const braid_client_options *options, braid_client_status status,
                                  const char *text) {
  braid_client *client;
  braid_client_status said = braid_client_connect(address, options, &client);
  if (said != status || !strstr(braid_client_error(), text))
    fail_msg("%s: %d \"%s\", not %d \"%s\"", address, said, said ? braid_client_error() : "", status, text);
  assert_null(client);
}

static inline braid_client_status launch_row(braid_client *client, const char *model, int row,
                                             braid_client_call **out) {
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = image[row],
                               .bytes = sizeof image[row]};
  return braid_client_submit(client, &(braid_client_launch_options){.model = model, .inputs = &input, .input_count = 1},
                             out);
}

static inline void expect_bits(braid_client *client, int row) {
  braid_client_call *call;
  size_t count;
  if (launch_row(client, "lenet", row, &call) != BRAID_CLIENT_OK || braid_client_wait(call, 30000) != BRAID_CLIENT_OK)
    fail_msg("%s", braid_client_error());
  assert_memory_equal(braid_client_outputs(call, &count)->data, expected[row], sizeof expected[row]);
  braid_client_release(call);
}

static inline int tcp_connect(int port) {
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(file, (struct sockaddr *)&to, sizeof to), 0);
  return file;
}

static inline int tls_set_up(void **state) {
  if (make_folder(state)) return -1;
  tls_there = tls_make_files();
  compute_expected();
  return 0;
}

#endif
