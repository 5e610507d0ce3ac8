/* For tests of the daemon: one in this process, and a client over HTTP of a few lines. */
#ifndef BRAID_SERVE_SERVE_CHECK_H
#define BRAID_SERVE_SERVE_CHECK_H

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "braid/serve.h"
#include "folder.h"
#include "skip.h"

/* A daemon of this configuration, which stands in the options' place, with its models loaded. */
static inline braid_server *serve_start_with(const char *config, braid_server_options options) {
  char path[128];
  braid_server *server;
  snprintf(path, sizeof path, "%s/serve.yaml", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(config, file);
  fclose(file);
  options.config = path;
  if (braid_server_create(&options, &server) != BRAID_OK) fail_msg("%s", braid_error_detail());
  size_t loading = 1, ready, broken;
  while (loading) {
    braid_server_models(server, &loading, &ready, &broken);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  return server;
}

/* On any port. */
static inline braid_server *serve_start(const char *config) {
  return serve_start_with(config, (braid_server_options){.port = -1});
}

static inline int serve_connect(const braid_server *server) {
  int handle = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)braid_server_port(server))};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(handle, (struct sockaddr *)&to, sizeof to), 0);
  return handle;
}

static inline void serve_send(int handle, const void *data, size_t bytes) {
  for (size_t sent = 0; sent < bytes;) {
    ssize_t count = send(handle, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL);
    if (count <= 0) return; /* closed by the daemon, which has answered before */
    sent += (size_t)count;
  }
}

typedef struct serve_answer {
  int status; /* 0: the connection was closed without one */
  char header[2048];
  char *body; /* with a NUL behind it; freed by the caller */
  size_t bytes;
} serve_answer;

static inline serve_answer serve_receive(int handle) {
  serve_answer answer = {0};
  size_t used = 0;
  char *end = NULL;
  while (!end && used + 1 < sizeof answer.header) { /* byte by byte, so that nothing of the body is taken */
    if (recv(handle, answer.header + used, 1, 0) != 1) return answer;
    answer.header[++used] = '\0';
    end = strstr(answer.header, "\r\n\r\n");
  }
  assert_int_equal(sscanf(answer.header, "HTTP/1.1 %d", &answer.status), 1);
  const char *length = strcasestr(answer.header, "\r\nContent-Length: ");
  answer.bytes = length ? strtoul(length + 18, NULL, 10) : 0;
  answer.body = calloc(1, answer.bytes + 1);
  for (size_t got = 0; got < answer.bytes;) {
    ssize_t count = recv(handle, answer.body + got, answer.bytes - got, 0);
    if (count <= 0) break;
    got += (size_t)count;
  }
  return answer;
}

/* One request on a connection of its own; `more`: header lines, each with its line end. */
static inline serve_answer serve_ask(const braid_server *server, const char *method, const char *path, const char *more,
                                     const void *body, size_t bytes) {
  int handle = serve_connect(server);
  char header[1024];
  int length = snprintf(header, sizeof header, "%s %s HTTP/1.1\r\nHost: braid\r\nContent-Length: %zu\r\n%s\r\n", method,
                        path, bytes, more);
  serve_send(handle, header, (size_t)length);
  serve_send(handle, body, bytes);
  serve_answer answer = serve_receive(handle);
  close(handle);
  return answer;
}

/* The status, and whether the body contains `text` (NULL: anything). */
static inline void serve_expect(const braid_server *server, const char *method, const char *path, const char *more,
                                const char *body, int status, const char *text) {
  serve_answer answer = serve_ask(server, method, path, more, body, strlen(body));
  if (answer.status != status || (text && !strstr(answer.body, text)))
    fail_msg("%s %s: %d %s, not %d %s", method, path, answer.status, answer.body ? answer.body : "", status,
             text ? text : "");
  free(answer.body);
}

#endif
