/* For tests of tracing: a collector of OTLP over HTTP in this process, and looks at the spans that came. */
#ifndef BRAID_SERVE_TRACE_TRACE_CHECK_H
#define BRAID_SERVE_TRACE_TRACE_CHECK_H

#include <arpa/inet.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "skip.h"

typedef struct collector {
  int listener, port;
  pthread_t thread;
  pthread_mutex_t lock; /* of what follows */
  json_t *spans;        /* all that came, an array */
  json_t *resource;     /* of the last message: its attributes */
  char header[4096];    /* of the last message */
  int refusals;         /* so many messages are answered by `refusal` first */
  int refusal, messages;
  const char *answer; /* the body of 200 */
  bool mute;          /* takes messages and does not answer */
} collector;

static inline void collector_take(collector *c, const char *body) {
  json_error_t error;
  json_t *root = json_loads(body, JSON_REJECT_DUPLICATES, &error), *part, *spans;
  size_t i;
  if (!root) {
    fprintf(stderr, "the collector got no JSON: %s\n", error.text);
    return;
  }
  part = json_array_get(json_object_get(root, "resourceSpans"), 0);
  json_decref(c->resource);
  c->resource = json_incref(json_object_get(json_object_get(part, "resource"), "attributes"));
  spans = json_object_get(json_array_get(json_object_get(part, "scopeSpans"), 0), "spans");
  for (i = 0; i < json_array_size(spans); i++) json_array_append(c->spans, json_array_get(spans, i));
  json_decref(root);
}

/* One message; false: the connection has ended. */
static inline bool collector_serve(collector *c, int file) {
  static char body[4 << 20];
  char header[4096], answer[512];
  size_t used = 0;
  while (used < 4 || memcmp(header + used - 4, "\r\n\r\n", 4) != 0) {
    if (used + 1 >= sizeof header || recv(file, header + used, 1, 0) != 1) return false;
    header[++used] = '\0';
  }
  const char *length = strcasestr(header, "\r\nContent-Length: ");
  size_t bytes = length ? strtoul(length + 18, NULL, 10) : 0, got = 0;
  if (bytes >= sizeof body) return false;
  while (got < bytes) {
    ssize_t count = recv(file, body + got, bytes - got, 0);
    if (count <= 0) return false;
    got += (size_t)count;
  }
  body[got] = '\0';
  pthread_mutex_lock(&c->lock);
  c->messages++;
  int status = c->refusals > 0 ? c->refusal : 200;
  if (c->refusals > 0) c->refusals--;
  if (status == 200 && !c->mute) collector_take(c, body);
  memcpy(c->header, header, sizeof c->header);
  const char *text = status == 200 && c->answer ? c->answer : "{}";
  bool mute = c->mute;
  pthread_mutex_unlock(&c->lock);
  if (mute) return recv(file, header, 1, 0) == 1;
  int count = snprintf(answer, sizeof answer,
                       "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
                       strlen(text), text);
  return send(file, answer, (size_t)count, MSG_NOSIGNAL) == count;
}

static inline void *collector_main(void *context) {
  collector *c = context;
  for (;;) {
    int file = accept(c->listener, NULL, NULL);
    if (file < 0) return NULL;
    while (collector_serve(c, file)) {
    }
    close(file);
  }
}

static inline void collector_start(collector *c) {
  *c = (collector){.spans = json_array()};
  pthread_mutex_init(&c->lock, NULL);
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof own;
  c->listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(c->listener, (struct sockaddr *)&own, sizeof own), 0);
  assert_int_equal(listen(c->listener, 8), 0);
  assert_int_equal(getsockname(c->listener, (struct sockaddr *)&own, &bytes), 0);
  c->port = ntohs(own.sin_port);
  assert_int_equal(pthread_create(&c->thread, NULL, collector_main, c), 0);
}

/* After the daemon has gone. */
static inline void collector_stop(collector *c) {
  (void)shutdown(c->listener, SHUT_RDWR);
  pthread_join(c->thread, NULL);
  close(c->listener);
  json_decref(c->spans);
  json_decref(c->resource);
  pthread_mutex_destroy(&c->lock);
}

/* --- spans: arrays of them, of the collector or of a file ----------------------------------------------------------
 */
static inline const char *span_text(const json_t *span, const char *key) {
  const char *text = json_string_value(json_object_get(span, key));
  return text ? text : "";
}

static inline long long span_time(const json_t *span, const char *key) {
  return strtoll(span_text(span, key), NULL, 10);
}

/* The index-th span of this name (NULL: any) whose parent is `parent` (NULL: any, "": none); NULL: there is none. */
static inline const json_t *span_find(const json_t *spans, const char *name, const char *parent, size_t index) {
  size_t i;
  const json_t *span;
  json_array_foreach(spans, i, span) {
    if (name && strcmp(span_text(span, "name"), name) != 0) continue;
    if (parent && strcmp(span_text(span, "parentSpanId"), parent) != 0) continue;
    if (!index--) return span;
  }
  return NULL;
}

/* The value of an attribute as text: "200", "cpu", "true"; "": there is none. */
static inline const char *attribute_of(const json_t *attributes, const char *key) {
  static char number[64];
  size_t i;
  const json_t *item;
  json_array_foreach(attributes, i, item) {
    if (strcmp(span_text(item, "key"), key) != 0) continue;
    const json_t *value = json_object_get(item, "value"), *bool_value = json_object_get(value, "boolValue");
    if (json_object_get(value, "stringValue")) return span_text(value, "stringValue");
    if (json_object_get(value, "intValue")) return span_text(value, "intValue");
    if (bool_value) return json_is_true(bool_value) ? "true" : "false";
    snprintf(number, sizeof number, "%.17g", json_real_value(json_object_get(value, "doubleValue")));
    return number;
  }
  return "";
}

static inline const char *span_attribute(const json_t *span, const char *key) {
  return attribute_of(json_object_get(span, "attributes"), key);
}

/* All spans of a file's lines, a new array. */
static inline json_t *spans_of_file(const char *path) {
  json_t *all = json_array();
  FILE *file = fopen(path, "r");
  char *line = NULL;
  size_t room = 0, i;
  assert_non_null(file);
  while (getline(&line, &room, file) > 0) {
    json_t *root = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    const json_t *part = json_array_get(json_object_get(root, "resourceSpans"), 0);
    json_t *spans = json_object_get(json_array_get(json_object_get(part, "scopeSpans"), 0), "spans"), *span;
    json_array_foreach(spans, i, span) json_array_append(all, span);
    json_decref(root);
  }
  free(line);
  fclose(file);
  return all;
}

#endif
