/* For tests of Braid's protocol: a daemon in this process, and connections whose every byte the test chooses. */
#ifndef BRAID_SERVE_WIRE_WIRE_CHECK_H
#define BRAID_SERVE_WIRE_WIRE_CHECK_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "braid/client.h"
#include "braid/model.h"
#include "braid/session.h"
#include "folder.h"
#include "serve/serve_check.h"
#include "serve/server.h"
#include "serve/wire/wire_format.h"

enum { kIn = 784, kOut = 10, kRows = 4 };
static float image[kRows][kIn], expected[kRows][kOut];

/* What a session of this process computes, one row at a time. */
static inline void compute_expected(void) {
  braid_graph *graph;
  braid_session *session;
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph), BRAID_OK);
  assert_int_equal(braid_session_create(graph, NULL, &session), BRAID_OK);
  for (int row = 0; row < kRows; row++) {
    for (int i = 0; i < kIn; i++) image[row][i] = (float)((i * 31 + row * 977) % 255) / 255 - 0.3F;
    assert_int_equal(braid_session_run(session, (const void *[]){image[row]}, (void *[]){expected[row]}), BRAID_OK);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static inline void wire_pause(int ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static inline const char *wire_path(void) {
  static char path[128];
  snprintf(path, sizeof path, "%s/wire.sock", folder);
  return path;
}

static inline const char *wire_address(void) {
  static char address[160];
  snprintf(address, sizeof address, "unix:%s", wire_path());
  return address;
}

/* "127.0.0.1:PORT" */
static inline const char *wire_tcp(const braid_server *server) {
  static char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%d", braid_server_wire_port(server));
  return address;
}

/* A daemon of this configuration, on our socket and any port, with its models loaded. */
static inline braid_server *wire_start(const char *config) {
  size_t loading, ready, broken;
  braid_server *server =
      serve_start_with(config, (braid_server_options){.port = -1, .wire_port = -1, .socket = wire_path()});
  braid_server_models(server, &loading, &ready, &broken);
  assert_int_equal(broken, 0);
  return server;
}

static inline braid_client *wire_connect(const char *address, const char *token) {
  braid_client *client;
  if (braid_client_connect(address, &(braid_client_options){.token = token}, &client) != BRAID_CLIENT_OK)
    fail_msg("%s", braid_client_error());
  return client;
}

/* What the tenant has taken of its quota; waits until it is `bytes`, as it is to become. */
static inline void expect_quota(braid_server *server, size_t tenant, size_t bytes) {
  size_t used = 0;
  for (int i = 0; i < 30000; i++) {
    pthread_mutex_lock(&server->tenants[tenant].lock);
    used = server->tenants[tenant].bytes_in_flight;
    pthread_mutex_unlock(&server->tenants[tenant].lock);
    if (used == bytes) return;
    wire_pause(1);
  }
  fail_msg("tenant %zu has %zu bytes in flight, not %zu", tenant, used, bytes);
}

/* --- raw connections -----------------------------------------------------------------------------------------------
 */
static inline int raw_connect(void) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  strcpy(to.sun_path, wire_path());
  assert_int_equal(connect(file, (struct sockaddr *)&to, sizeof to), 0);
  assert_int_equal(setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){20, 0}, sizeof(struct timeval)), 0);
  return file;
}

/* With a descriptor, where it is not negative. */
static inline void raw_send_with(int file, const void *bytes, size_t count, int passed) {
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control = {{0}};
  struct iovec part = {(void *)bytes, count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (passed >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *rights = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(rights), &passed, sizeof passed);
  }
  ssize_t sent = sendmsg(file, &message, MSG_NOSIGNAL);
  for (size_t at = sent > 0 ? (size_t)sent : count; at < count;) { /* closed by the daemon: it has said why */
    ssize_t more = send(file, (const char *)bytes + at, count - at, MSG_NOSIGNAL);
    if (more <= 0) return;
    at += (size_t)more;
  }
}

static inline void raw_send(int file, braid_wire_writer *writer) {
  braid_wire_end(writer, 0);
  assert_false(writer->failed);
  raw_send_with(file, writer->data, writer->length, -1);
}

typedef struct raw_answer {
  braid_wire_header header;
  braid_wire_status status; /* code 0: the connection was closed without an answer */
  uint8_t *body;            /* freed by the caller */
  size_t at;                /* behind the status */
} raw_answer;

static inline bool raw_read(int file, void *to, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    ssize_t count = recv(file, (char *)to + got, bytes - got, 0);
    if (count <= 0) return false;
    got += (size_t)count;
  }
  return true;
}

static inline raw_answer raw_receive(int file) {
  raw_answer answer = {0};
  uint8_t header[BRAID_WIRE_HEADER];
  if (!raw_read(file, header, sizeof header)) return answer;
  assert_null(braid_wire_get_header(header, &answer.header));
  answer.body = malloc((size_t)answer.header.bytes + 1);
  assert_true(raw_read(file, answer.body, (size_t)answer.header.bytes));
  braid_wire_reader reader = {.data = answer.body, .bytes = (size_t)answer.header.bytes};
  braid_wire_get_status(&reader, &answer.status);
  assert_null(reader.wrong);
  answer.at = reader.at;
  return answer;
}

/* The next answer has this code, and its sentence contains the text (NULL: any). */
static inline void raw_expect(int file, unsigned code, const char *text) {
  raw_answer answer = raw_receive(file);
  if (answer.status.code != code || (text && !strstr(answer.status.detail, text)))
    fail_msg("%u \"%s\", not %u \"%s\"", answer.status.code, answer.status.detail, code, text ? text : "");
  free(answer.body);
}

/* What the daemon has not read when it closes makes it a reset. */
static inline void raw_expect_end(int file) {
  char byte;
  ssize_t count = recv(file, &byte, 1, 0);
  assert_true(count == 0 || (count < 0 && errno == ECONNRESET));
}

static inline int raw_hello(const char *token) {
  static braid_wire_hello hello;
  braid_wire_writer writer = {0};
  int file = raw_connect();
  hello.version = BRAID_WIRE_VERSION;
  snprintf(hello.token, sizeof hello.token, "%s", token);
  braid_wire_begin(&writer, BRAID_WIRE_HELLO, 1);
  braid_wire_put_hello(&writer, &hello);
  raw_send(file, &writer);
  raw_expect(file, 200, NULL);
  braid_wire_free(&writer);
  return file;
}

#endif
