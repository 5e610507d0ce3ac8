/* Connecting, and what is asked of a daemon but for launches. */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/channel.h"

enum { kConnectMs = 5000, kCallMs = 60000, kCloseMs = 1000 };

const char *braid_client_status_text(braid_client_status status) {
  switch (status) {
#define TEXT(id, number, text)                                                                                         \
  case BRAID_CLIENT_##id:                                                                                              \
    return text;
    BRAID_CLIENT_STATUS_MAP(TEXT)
#undef TEXT
  }
  return "refused";
}

#define SAME(id, number, bytes, name) _Static_assert((int)BRAID_CLIENT_##id == number, "numbers of the protocol");
BRAID_WIRE_DTYPES(SAME)
#undef SAME

size_t braid_client_dtype_bytes(braid_client_dtype dtype) {
  return braid_wire_dtype_bytes(dtype);
}

const char *braid_client_dtype_name(braid_client_dtype dtype) {
  static const char *const kNames[] = {
#define NAME(id, number, bytes, name) [number] = name,
      BRAID_WIRE_DTYPES(NAME)
#undef NAME
  };
  return braid_wire_dtype_bytes(dtype) ? kNames[dtype] : "none";
}

/* --- connecting ----------------------------------------------------------------------------------------------------
 */
enum { kLookMs = 50 };

/* When a connection has to be there, and what gives it up before; NULL: nothing. */
typedef struct patience {
  int64_t deadline_ms;
  const int *stop;
} patience;

static bool patience_ends(const patience *p) {
  return p->stop && __atomic_load_n(p->stop, __ATOMIC_ACQUIRE);
}

/* How long to wait before it is looked at again. */
static int patience_rest(const patience *p) {
  int64_t rest = p->deadline_ms - client_now_ms();
  if (rest <= 0 || patience_ends(p)) return 0;
  if (p->stop && rest > kLookMs) return kLookMs;
  return rest < INT_MAX ? (int)rest : INT_MAX;
}

/* Connects a socket that does not block; closes it on failure. */
static braid_client_status finish_connect(int file, const struct sockaddr *address, socklen_t bytes, const patience *p,
                                          int *out) {
  int reason = 0;
  int made = file < 0 ? -1 : connect(file, address, bytes);
  while (made < 0 && file >= 0 && errno == EAGAIN && patience_rest(p) > 0) { /* a queue that is full */
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    made = connect(file, address, bytes);
  }
  if (made < 0 && errno != EINPROGRESS) reason = errno == EAGAIN ? ETIMEDOUT : errno;
  if (!reason) {
    struct pollfd poller = {.fd = file, .events = POLLOUT};
    int ready, rest;
    do {
      rest = patience_rest(p);
      ready = poll(&poller, 1, rest);
    } while ((ready < 0 && errno == EINTR) || (ready == 0 && rest > 0));
    socklen_t length = sizeof reason;
    if (ready <= 0 || getsockopt(file, SOL_SOCKET, SO_ERROR, &reason, &length) != 0) reason = ready ? errno : ETIMEDOUT;
  }
  if (!reason) {
    *out = file;
    return BRAID_CLIENT_OK;
  }
  if (file >= 0) close(file);
  return client_fail(reason == ETIMEDOUT ? BRAID_CLIENT_TIMEOUT : BRAID_CLIENT_LOST, "%s", strerror(reason));
}

static braid_client_status connect_local(const char *path, const patience *p, int *out) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!*path || strlen(path) >= sizeof address.sun_path)
    return client_fail(BRAID_CLIENT_ARGUMENT, "a path of 1 to %zu bytes is expected", sizeof address.sun_path - 1);
  strcpy(address.sun_path, path);
  int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return finish_connect(file, (struct sockaddr *)&address, sizeof address, p, out);
}

static braid_client_status connect_tcp(const char *address, const patience *p, char *host, size_t host_bytes,
                                       int *out) {
  const char *colon = strrchr(address, ':');
  size_t length = colon ? (size_t)(colon - address) : 0, skip = 0;
  if (length > 2 && address[0] == '[' && address[length - 1] == ']') skip = 1;
  if (!colon || !length || !colon[1] || length >= host_bytes)
    return client_fail(BRAID_CLIENT_ARGUMENT,
                       "unix:PATH, or HOST:PORT or [ADDRESS]:PORT, with tls: before it or without, is expected");
  snprintf(host, host_bytes, "%.*s", (int)(length - 2 * skip), address + skip);
  struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
  int code = getaddrinfo(host, colon + 1, &hints, &found), one = 1;
  if (code) return client_fail(BRAID_CLIENT_LOST, "%s", gai_strerror(code));
  braid_client_status status = BRAID_CLIENT_LOST;
  for (const struct addrinfo *at = found; at && status != BRAID_CLIENT_OK; at = at->ai_next) {
    int file = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    status = finish_connect(file, at->ai_addr, at->ai_addrlen, p, out);
  }
  freeaddrinfo(found);
  if (status == BRAID_CLIENT_OK) (void)setsockopt(*out, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return status;
}

static braid_client_status say_hello(braid_client *client, const braid_client_options *options, const patience *p) {
  braid_wire_hello hello = {.version = BRAID_WIRE_VERSION};
  const char *token = options->token ? options->token : "", *name = options->name ? options->name : "libbraid-client";
  if (strlen(token) >= sizeof hello.token)
    return client_fail(BRAID_CLIENT_ARGUMENT, "a token of at most %zu bytes is expected", sizeof hello.token - 1);
  snprintf(hello.token, sizeof hello.token, "%s", token);
  snprintf(hello.client, sizeof hello.client, "%s", name);
  client_ticket ticket;
  braid_wire_reader reader;
  braid_wire_put_hello(client_begin(client, BRAID_WIRE_HELLO, &ticket), &hello);
  braid_client_status status = client_send(client, &ticket, NULL, 0, -1);
  int rest = 1;
  if (status == BRAID_CLIENT_OK) {
    do {
      rest = patience_rest(p);
      status = client_await(client, &ticket, client_deadline(rest));
    } while (status == BRAID_CLIENT_TIMEOUT && rest > 0);
  }
  if (status == BRAID_CLIENT_OK) status = client_status(&ticket, &reader, NULL);
  const char *wrong = status == BRAID_CLIENT_OK ? braid_wire_get_welcome(&reader, &client->welcome) : NULL;
  if (wrong) status = client_fail(BRAID_CLIENT_PROTOCOL, "the daemon's welcome: %s", wrong);
  client_abandon(client, &ticket);
  return status;
}

static braid_client *client_create(int file, braid_tls_stream *tls, bool local, const braid_client_options *options) {
  braid_client *client = calloc(1, sizeof *client);
  if (!client) return NULL;
  client->file = file;
  client->tls = tls;
  client->local = local;
  client->call_ms = options->call_ms ? options->call_ms : kCallMs;
  client->spin_us = options->spin_us;
  client->max_answer = options->max_answer ? options->max_answer : UINT64_C(1) << 30;
  pthread_mutex_init(&client->send_lock, NULL);
  pthread_mutex_init(&client->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&client->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return client;
}

static void client_destroy(braid_client *client) {
  if (client->tls) braid_tls_say_end(client->tls);
  braid_tls_destroy(client->tls);
  close(client->file);
  braid_wire_free(&client->writer);
  free(client->body);
  pthread_mutex_destroy(&client->send_lock);
  pthread_mutex_destroy(&client->lock);
  pthread_cond_destroy(&client->changed);
  free(client);
}

/* A connected socket; of tls:HOST:PORT with its stream. */
static braid_client_status open_socket(const char *address, const braid_client_options *options, const patience *p,
                                       int *file, braid_tls_stream **tls) {
  char host[256], why[BRAID_TLS_WHY];
  bool secure = strncmp(address, "tls:", 4) == 0;
  if (!secure && (options->authority || options->certificate || options->key))
    return client_fail(BRAID_CLIENT_ARGUMENT, "authority, certificate and key go with an address tls:HOST:PORT");
  if (strncmp(address, "unix:", 5) == 0) return connect_local(address + 5, p, file);
  braid_client_status status = connect_tcp(secure ? address + 4 : address, p, host, sizeof host, file);
  if (status != BRAID_CLIENT_OK || !secure) return status;
  braid_tls_files files = {options->authority, options->certificate, options->key};
  int64_t rest = p->deadline_ms - client_now_ms();
  switch (braid_tls_open(&files, *file, host, rest > 0 ? rest : 0, p->stop, tls, why)) {
  case BRAID_TLS_DONE:
    return BRAID_CLIENT_OK;
  case BRAID_TLS_TIMEOUT:
    status = BRAID_CLIENT_TIMEOUT;
    break;
  default:
    status = BRAID_CLIENT_LOST;
  }
  close(*file);
  return client_fail(status, "%s", why);
}

braid_client_status client_connect(const char *address, const braid_client_options *options, const int *stop,
                                   braid_client **out) {
  static const braid_client_options kDefault = {0};
  *out = NULL;
  if (!options) options = &kDefault;
  if (strncmp(address, "tls:unix:", 9) == 0)
    return client_fail(BRAID_CLIENT_ARGUMENT, "%.200s: TLS goes with tls:HOST:PORT; a Unix socket needs none", address);
  patience p = {client_deadline(options->connect_ms > 0 ? options->connect_ms : kConnectMs), stop};
  int file = -1;
  braid_tls_stream *tls = NULL;
  braid_client_status status = open_socket(address, options, &p, &file, &tls);
  if (status != BRAID_CLIENT_OK) return client_fail(status, "%.200s: %.500s", address, braid_client_error());
  braid_client *client = client_create(file, tls, strncmp(address, "unix:", 5) == 0, options);
  if (!client) {
    braid_tls_destroy(tls);
    close(file);
    return client_fail(BRAID_CLIENT_NO_MEMORY, "no memory for a connection");
  }
  status = say_hello(client, options, &p);
  if (status == BRAID_CLIENT_OK) {
    *out = client;
    return status;
  }
  client_destroy(client);
  return client_fail(status, "%.200s: %.600s", address, braid_client_error());
}

braid_client_status braid_client_connect(const char *address, const braid_client_options *options, braid_client **out) {
  return client_connect(address, options, NULL, out);
}

void braid_client_close(braid_client *client) {
  client_ticket ticket;
  if (!client) return;
  (void)client_begin(client, BRAID_WIRE_CLOSE, &ticket);
  if (client_send(client, &ticket, NULL, 0, -1) == BRAID_CLIENT_OK)
    (void)client_await(client, &ticket, client_deadline(kCloseMs)); /* else the end of the socket says it */
  client_abandon(client, &ticket);
  client_destroy(client);
}

const char *braid_client_tenant(const braid_client *client) {
  return client->welcome.tenant;
}

const char *braid_client_server(const braid_client *client) {
  return client->welcome.server;
}

bool braid_client_may_compile(const braid_client *client) {
  return client->welcome.rights & BRAID_WIRE_MAY_COMPILE;
}

bool braid_client_has_memory(const braid_client *client) {
  return client->local && client->welcome.rights & BRAID_WIRE_HAS_MEMORY;
}

braid_client_counters braid_client_count(braid_client *client) {
  pthread_mutex_lock(&client->lock);
  braid_client_counters counters = client->counters;
  pthread_mutex_unlock(&client->lock);
  return counters;
}

/* --- models --------------------------------------------------------------------------------------------------------
 */
static size_t take_ports(const braid_wire_port *from, size_t count, braid_client_port *out) {
  for (size_t i = 0; i < count; i++) {
    memcpy(out[i].name, from[i].name, sizeof out[i].name);
    out[i].dtype = (braid_client_dtype)from[i].dtype;
    out[i].rank = from[i].rank;
    memcpy(out[i].dims, from[i].dims, from[i].rank * sizeof *out[i].dims);
  }
  return count;
}

static void take_model(const braid_wire_model *from, braid_client_model *out) {
  memcpy(out->name, from->name, sizeof out->name);
  memcpy(out->version, from->version, sizeof out->version);
  memcpy(out->reason, from->reason, sizeof out->reason);
  out->state = (braid_client_state)from->state;
  out->max_batch = from->max_batch;
  out->handle = from->handle;
  out->input_count = take_ports(from->inputs, from->input_count, out->inputs);
  out->output_count = take_ports(from->outputs, from->output_count, out->outputs);
}

/* `count` models of an answer, and nothing else. */
static braid_client_status read_models(braid_wire_reader *reader, size_t count, braid_client_model **out) {
  enum { kLeast = 20 }; /* bytes of a model */
  if (count > (reader->bytes - reader->at) / kLeast)
    return client_fail(BRAID_CLIENT_PROTOCOL, "the daemon's list of models is shorter than it says");
  braid_client_model *models = calloc(count + 1, sizeof *models);
  braid_wire_model *model = malloc(sizeof *model);
  for (size_t i = 0; i < count && models && model && !reader->wrong; i++) {
    braid_wire_get_model(reader, model);
    if (!reader->wrong) take_model(model, &models[i]);
  }
  const char *wrong = models && model ? braid_wire_finish(reader) : NULL;
  if (models && model && !wrong) {
    free(model);
    *out = models;
    return BRAID_CLIENT_OK;
  }
  free(models);
  free(model);
  return wrong ? client_fail(BRAID_CLIENT_PROTOCOL, "the daemon's models: %s", wrong)
               : client_fail(BRAID_CLIENT_NO_MEMORY, "no memory for models");
}

braid_client_status braid_client_models(braid_client *client, const char *name, braid_client_model **out,
                                        size_t *out_count) {
  client_ticket ticket;
  braid_wire_reader reader;
  *out = NULL;
  *out_count = 0;
  braid_wire_put_text(client_begin(client, BRAID_WIRE_LIST, &ticket), name ? name : "");
  braid_client_status status = client_send(client, &ticket, NULL, 0, -1);
  if (status == BRAID_CLIENT_OK) status = client_answer(client, &ticket, &reader, NULL);
  if (status == BRAID_CLIENT_OK) {
    size_t count = (size_t)braid_wire_get_number(&reader, 4);
    status = read_models(&reader, count, out);
    if (status == BRAID_CLIENT_OK) *out_count = count;
  }
  client_abandon(client, &ticket);
  return status;
}

braid_client_status braid_client_compile(braid_client *client, const char *name, const void *onnx, size_t bytes,
                                         const char *device, int max_batch, braid_client_model **out) {
  braid_wire_compile compile = {.max_batch = max_batch > 0 ? (uint64_t)max_batch : 0};
  client_ticket ticket;
  braid_wire_reader reader;
  *out = NULL;
  snprintf(compile.name, sizeof compile.name, "%s", name ? name : "");
  snprintf(compile.device, sizeof compile.device, "%s", device ? device : "");
  braid_wire_put_compile(client_begin(client, BRAID_WIRE_COMPILE, &ticket), &compile);
  braid_client_status status = client_send(client, &ticket, &(struct iovec){(void *)onnx, bytes}, 1, -1);
  if (status == BRAID_CLIENT_OK) status = client_answer(client, &ticket, &reader, NULL);
  if (status == BRAID_CLIENT_OK) status = read_models(&reader, 1, out);
  client_abandon(client, &ticket);
  return status;
}

braid_client_status braid_client_forget(braid_client *client, uint64_t handle) {
  client_ticket ticket;
  braid_wire_put_number(client_begin(client, BRAID_WIRE_FORGET, &ticket), handle, 8);
  return client_finish(client, &ticket);
}

/* --- cores ---------------------------------------------------------------------------------------------------------
 */
braid_client_status braid_client_request_cores(braid_client *client, const char *device, uint32_t count,
                                               braid_client_cores *out) {
  braid_wire_cores cores = {.count = count};
  braid_wire_grant grant;
  client_ticket ticket;
  braid_wire_reader reader;
  *out = (braid_client_cores){0};
  snprintf(cores.device, sizeof cores.device, "%s", device ? device : "");
  braid_wire_put_cores(client_begin(client, BRAID_WIRE_CORES, &ticket), &cores);
  braid_client_status status = client_send(client, &ticket, NULL, 0, -1);
  if (status == BRAID_CLIENT_OK) status = client_answer(client, &ticket, &reader, out->note);
  if (status == BRAID_CLIENT_OK) {
    const char *wrong = braid_wire_get_grant(&reader, &grant);
    if (wrong) status = client_fail(BRAID_CLIENT_PROTOCOL, "the daemon's grant: %s", wrong);
  }
  client_abandon(client, &ticket);
  if (status != BRAID_CLIENT_OK) return status;
  out->handle = grant.handle;
  out->granted = grant.granted;
  out->instances = grant.instances;
  out->held = grant.held;
  out->overlay_cores = grant.overlay_cores;
  return status;
}

braid_client_status braid_client_release_cores(braid_client *client, uint64_t handle) {
  client_ticket ticket;
  braid_wire_put_number(client_begin(client, BRAID_WIRE_RELEASE, &ticket), handle, 8);
  return client_finish(client, &ticket);
}
