/* The HTTP front end: connections and bodies by libmicrohttpd, TLS by GnuTLS behind it, and what a path means. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/try.h"
#include "serve/http/call.h"

struct braid_serve_http {
  braid_server *server;
  struct MHD_Daemon *daemon;
  char *certificate, *key;
  int port;
  int open; /* calls whose answer is not sent yet; atomic */
};

static const int64_t kLastAnswers =
    2000000000; /* how long a daemon that stops waits for clients to read; nanoseconds */
enum { kIdleSeconds = 75, kFirstBody = 4096, kPemBytes = 1 << 20, kConnectionBytes = 64 << 10 };

/* --- answers -------------------------------------------------------------------------------------------------------
 */
void braid_http_refuse(braid_http_call *call, braid_serve_verdict verdict, const char *format, ...) {
  char detail[2 * BRAID_SERVE_DETAIL];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  snprintf(call->detail, sizeof call->detail, "%.511s", detail);
  braid_text_deinit(&call->text);
  braid_text_add(&call->text, "{\"error\":");
  braid_text_add_json(&call->text, detail);
  braid_text_add(&call->text, "}");
  call->header_bytes = 0;
  call->content_type = NULL;
  call->status = braid_serve_http_status(verdict);
}

static void free_text(void *data) {
  braid_free(NULL, data);
}

/* Queues the answer, which takes the text's memory. */
static enum MHD_Result send_answer(braid_http_call *call) {
  call->answered = true;
  if (call->text.failed) return MHD_NO;
  size_t bytes = call->text.length;
  struct MHD_Response *response =
      call->text.capacity ? MHD_create_response_from_buffer_with_free_callback(bytes, call->text.data, free_text)
                          : MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
  if (!response) return MHD_NO;
  call->text.capacity = 0;
  braid_text_deinit(&call->text);
  MHD_add_response_header(response, "Content-Type", call->content_type ? call->content_type : "application/json");
  char text[32];
  if (call->header_bytes) {
    snprintf(text, sizeof text, "%zu", call->header_bytes);
    MHD_add_response_header(response, "Inference-Header-Content-Length", text);
  }
  if (call->content_type && strncmp(call->content_type, "text/html", 9) == 0)
    MHD_add_response_header(
        response, "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'");
  if (call->closes) MHD_add_response_header(response, "Connection", "close");
  if (call->allow) MHD_add_response_header(response, "Allow", call->allow);
  if (call->status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  if (call->status == 429 || call->status == 503) MHD_add_response_header(response, "Retry-After", "1");
  enum MHD_Result queued = MHD_queue_response(call->connection, (unsigned)call->status, response);
  MHD_destroy_response(response);
  return queued;
}

/* --- paths ---------------------------------------------------------------------------------------------------------
 */
/* Cuts the path at slashes into up to `most` parts, kept in `buffer`; returns how many, most + 1 for more. */
static size_t split_path(const char *path, char *buffer, size_t bytes, const char **parts, size_t most) {
  size_t count = 0;
  snprintf(buffer, bytes, "%s", path);
  for (char *at = buffer; *at;) {
    while (*at == '/') *at++ = '\0';
    if (!*at) break;
    if (count == most) return most + 1;
    parts[count++] = at;
    at += strcspn(at, "/");
  }
  return count;
}

static bool is(const char *a, const char *b) {
  return strcmp(a, b) == 0;
}

/* /v2/models/NAME[/versions/VERSION][/ACTION] */
static void route_model(braid_http_call *call, const char **parts, size_t count) {
  const char *name = parts[2], *version = NULL;
  size_t at = 3;
  if (count > 4 && is(parts[3], "versions")) {
    version = parts[4];
    at = 5;
  } else if (count == 4 && is(parts[3], "versions")) {
    at = count + 1;
  }
  const char *action = at < count ? parts[at] : "";
  if (at > count || count > at + 1)
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is nothing at %.200s", call->path);
  else if (is(name, "stats") && count == 3)
    braid_http_statistics(call, NULL);
  else if (!braid_serve_tenant_may(call->tenant, name))
    braid_http_refuse(call, BRAID_SERVE_FORBIDDEN, "tenant %s may not use model \"%.100s\"", call->tenant->config->name,
                      name);
  else if (is(action, "infer"))
    (void)braid_http_infer(call, name, version);
  else if (!*action)
    braid_http_model_metadata(call, name, version);
  else if (is(action, "ready"))
    braid_http_model_ready(call, name, version);
  else if (is(action, "config"))
    braid_http_model_config(call, name, version);
  else if (is(action, "stats"))
    braid_http_statistics(call, name);
  else
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is nothing at %.200s", call->path);
}

static void route_memory(braid_http_call *call, const char **parts, size_t count) {
  bool cuda = is(parts[1], "cudasharedmemory");
  const char *region = count == 5 && is(parts[2], "region") ? parts[3] : NULL, *action = parts[count - 1];
  if (count != 3 && !region)
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is nothing at %.200s", call->path);
  else if (!cuda)
    braid_http_shared_memory(call, region, action);
  else if (is(action, "register"))
    braid_http_refuse(call, BRAID_SERVE_INVALID, "shared memory of CUDA is not offered; that of the system is");
  else {
    braid_text_add(&call->text, is(action, "status") ? "[]" : "{}");
    call->status = 200;
  }
}

static void route_health(braid_http_call *call, const char *what) {
  bool live = is(what, "live"), ready = braid_server_is_ready(call->server);
  if (!live && !is(what, "ready")) {
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is nothing at %.200s", call->path);
    return;
  }
  call->status = live || ready ? 200 : 503;
  braid_text_printf(&call->text, "{\"%s\":%s}", live ? "live" : "ready", call->status == 200 ? "true" : "false");
}

static void route(braid_http_call *call) {
  enum { PARTS = 7 };
  char buffer[1024];
  const char *parts[PARTS] = {"", "", "", "", "", "", ""};
  size_t count = split_path(call->path, buffer, sizeof buffer, parts, PARTS);
  if (count > PARTS || strlen(call->path) >= sizeof buffer)
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "the path has too many parts");
  else if (count == 3 && is(parts[0], "v2") && is(parts[1], "health"))
    route_health(call, parts[2]);
  else if (count == 1 && is(parts[0], "v2"))
    braid_http_server_metadata(call);
  else if (count >= 3 && is(parts[0], "v2") && is(parts[1], "models"))
    route_model(call, parts, count);
  else if (count == 3 && is(parts[1], "repository") && is(parts[2], "index"))
    braid_http_index(call);
  else if (count == 5 && is(parts[1], "repository") && is(parts[2], "models") &&
           (is(parts[4], "load") || is(parts[4], "unload")))
    (void)braid_http_load(call, parts[3], is(parts[4], "load"));
  else if (count >= 3 && is(parts[0], "v2") && (is(parts[1], "systemsharedmemory") || is(parts[1], "cudasharedmemory")))
    route_memory(call, parts, count);
  else if (!count)
    braid_http_page(call);
  else if (count == 3 && is(parts[0], "v2") && is(parts[1], "braid") && is(parts[2], "status"))
    braid_http_status(call);
  else if (count == 1 && is(parts[0], "metrics"))
    braid_http_metrics(call);
  else if (count == 3 && is(parts[0], "v2") && is(parts[1], "braid") && is(parts[2], "decisions"))
    braid_http_decisions(call);
  else if (count == 3 && is(parts[0], "v2") && is(parts[1], "braid") && is(parts[2], "fdinfo"))
    braid_http_fdinfo(call);
  else
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is nothing at %.200s", call->path);
}

/* --- bodies --------------------------------------------------------------------------------------------------------
 */
/* Finds the tenant; health and the page, which asks for the rest, need none. */
static bool authenticate(braid_http_call *call) {
  const char *header = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "Authorization");
  const char *token = header && strncasecmp(header, "Bearer ", 7) == 0 ? header + 7 : NULL;
  braid_server *server = call->server;
  if (strncmp(call->path, "/v2/health/", 11) == 0 || strcmp(call->path, "/") == 0) return true;
  call->tenant = braid_serve_tenant_find(server->tenants, server->tenant_count, token);
  if (call->tenant) return true;
  braid_http_refuse(call, BRAID_SERVE_UNAUTHORIZED,
                    token ? "the token is nobody's" : "a token is needed: Authorization: Bearer TOKEN");
  return false;
}

bool braid_http_reserve_body(braid_http_call *call, size_t bytes) {
  size_t most = (size_t)call->server->config->max_request_bytes;
  if (bytes <= call->capacity) return true;
  if (!call->tenant || bytes > most) {
    braid_http_refuse(call, call->tenant ? BRAID_SERVE_TOO_LARGE : BRAID_SERVE_INVALID,
                      "the body has more than %zu bytes", call->tenant ? most : 0);
    return false;
  }
  size_t capacity = 2 * call->capacity > bytes ? 2 * call->capacity : bytes;
  if (capacity > most) capacity = most;
  if (!braid_serve_tenant_reserve(call->tenant, capacity - call->capacity)) {
    braid_http_refuse(call, BRAID_SERVE_OVER_QUOTA, "tenant %s may have %lld bytes in flight; %zu are too many now",
                      call->tenant->config->name, (long long)call->tenant->config->max_bytes, bytes);
    return false;
  }
  uint8_t *body = braid_alloc(NULL, capacity);
  if (!body) {
    braid_serve_tenant_return(call->tenant, capacity - call->capacity);
    braid_http_refuse(call, BRAID_SERVE_FAILED, "no memory for a body of %zu bytes", capacity);
    return false;
  }
  if (call->bytes) memcpy(body, call->body, call->bytes);
  braid_free(NULL, call->body);
  call->body = body;
  call->capacity = capacity;
  return true;
}

static void drop_body(braid_http_call *call) {
  braid_free(NULL, call->body);
  if (call->capacity) braid_serve_tenant_return(call->tenant, call->capacity);
  call->body = NULL;
  call->bytes = call->capacity = 0;
}

static enum MHD_Result count_length(void *context, enum MHD_ValueKind kind, const char *key, const char *value) {
  (void)kind, (void)value;
  *(int *)context += strcasecmp(key, "Content-Length") == 0;
  return MHD_YES;
}

/* Whether the header says in one way where the body ends: if not, what a proxy before takes for the body may be another
 * request here (RFC 9112, 6.3). The connection ends with the answer. */
static bool check_framing(braid_http_call *call) {
  const char *coding = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "Transfer-Encoding");
  int lengths = 0;
  MHD_get_connection_values(call->connection, MHD_HEADER_KIND, count_length, &lengths);
  if (lengths <= 1 && (!coding || (!lengths && strcasecmp(coding, "chunked") == 0))) return true;
  call->closes = true;
  braid_http_refuse(call, BRAID_SERVE_INVALID,
                    "the header has one Content-Length or Transfer-Encoding: chunked, not both or others");
  return false;
}

/* False: there is no such path, or it takes other methods. */
static bool check_method(braid_http_call *call) {
  const char *methods = braid_http_methods(call->path);
  bool reads = is(call->method, "GET") || is(call->method, "HEAD"), writes = is(call->method, "POST");
  if (methods && (methods[0] == 'G' ? reads : writes)) return true;
  if (methods)
    braid_http_refuse(call, BRAID_SERVE_INVALID, "%.200s takes %s, not %.20s", call->path, methods, call->method);
  else
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is nothing at %.200s", call->path);
  if (methods) call->status = 405;
  call->allow = methods;
  return false;
}

/* What the header says of the body; false: the answer is a refusal. */
static bool expect_body(braid_http_call *call) {
  const char *length = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "Content-Length");
  int64_t bytes = 0;
  if (!check_framing(call)) return false;
  if (!authenticate(call) || !check_method(call)) return false;
  return !length || !braid_parse_i64(length, &bytes) || bytes <= 0 || braid_http_reserve_body(call, (size_t)bytes);
}

static bool take_body(braid_http_call *call, const char *data, size_t bytes) {
  if (!braid_http_reserve_body(call, call->bytes + (call->bytes + bytes < kFirstBody ? kFirstBody : bytes)))
    return false;
  memcpy(call->body + call->bytes, data, bytes);
  call->bytes += bytes;
  return true;
}

static bool is_slow(const braid_http_call *call) {
  return (double)(braid_now_ns() - call->began_ns) * 1e-6 > call->server->config->receive_ms;
}

/* --- MHD's callbacks -----------------------------------------------------------------------------------------------
 */
static braid_http_call *call_create(struct braid_serve_http *http, struct MHD_Connection *connection, const char *path,
                                    const char *method) {
  braid_http_call *call = braid_zalloc(NULL, sizeof *call);
  if (!call) return NULL;
  *call = (braid_http_call){
      .server = http->server, .open = &http->open, .connection = connection, .path = path, .method = method};
  call->began_ns = braid_now_ns();
  __atomic_fetch_add(&http->open, 1, __ATOMIC_ACQ_REL);
  /* A connection may rest between requests, but not in one. */
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                            (unsigned)ceil(http->server->config->receive_ms * 1e-3));
  braid_text_init(&call->text, NULL);
  call->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  return call;
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                                 const char *version, const char *data, size_t *bytes, void **state) {
  braid_http_call *call = *state;
  struct braid_serve_http *http = context;
  (void)version;
  if (!call) {
    call = call_create(http, connection, path, method);
    *state = call;
    if (!call) return MHD_NO;
    return expect_body(call) ? MHD_YES : send_answer(call); /* refused before the body is read */
  }
  if (*bytes) {
    size_t count = *bytes;
    *bytes = 0;
    if (!is_slow(call)) {
      if (call->status || take_body(call, data, count)) return MHD_YES; /* refused: the rest is not kept */
      drop_body(call);
      return MHD_YES;
    }
    drop_body(call);
    return MHD_NO; /* whoever sends without an end, or slowly, is cut off */
  }
  if (call->answered) return MHD_YES;
  if (call->waiting) {
    call->waiting = false;
    if (call->request)
      braid_http_answer_inference(call);
    else
      braid_http_answer_load(call);
  } else if (!call->status) {
    route(call);
    drop_body(call);
    if (call->waiting) return MHD_YES; /* suspended */
  }
  return send_answer(call);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code) {
  braid_http_call *call = *state;
  (void)context, (void)code;
  *state = NULL;
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)kIdleSeconds);
  if (!call) return;
  braid_http_answer_load(call); /* where the connection ended before its answer */
  braid_serve_request_destroy(call->request);
  drop_body(call);
  braid_text_deinit(&call->text);
  __atomic_fetch_sub(call->open, 1, __ATOMIC_ACQ_REL);
  braid_free(NULL, call);
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static braid_status read_pem(const char *path, char **out) {
  braid_file_view view;
  BRAID_TRY(braid_file_open(NULL, path, kPemBytes, &view));
  *out = braid_zalloc(NULL, view.bytes + 1);
  if (*out) memcpy(*out, view.data, view.bytes);
  braid_file_close(&view);
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status open_socket(const char *address, int port, int *out_socket, int *out_port) {
  struct addrinfo *found,
      hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  int code = getaddrinfo(address, service, &hints, &found);
  if (code) return braid_fail(BRAID_INVALID_ARGUMENT, "address %.100s: %s", address, gai_strerror(code));
  int one = 1, handle = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  (void)setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  bool bound = handle >= 0 && bind(handle, found->ai_addr, found->ai_addrlen) == 0 && listen(handle, 1024) == 0;
  freeaddrinfo(found);
  struct sockaddr_storage own;
  socklen_t length = sizeof own;
  if (!bound || getsockname(handle, (struct sockaddr *)&own, &length) != 0) {
    int reason = errno;
    if (handle >= 0) close(handle);
    return braid_fail(BRAID_IO, "cannot listen on %.100s, port %d: %s", address, port, strerror(reason));
  }
  *out_socket = handle;
  *out_port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                              : ((struct sockaddr_in *)&own)->sin_port);
  return BRAID_OK;
}

static braid_status start_daemon(braid_server *server, struct braid_serve_http *http, int handle) {
  const braid_serve_config *config = server->config;
  struct MHD_OptionItem options[] = {
      {MHD_OPTION_LISTEN_SOCKET, handle, NULL},
      {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)config->http_threads, NULL},
      {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)config->max_connections, NULL},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, NULL},
      {MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, NULL},
      {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, NULL},
      {http->key ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0, http->key},
      {MHD_OPTION_HTTPS_MEM_CERT, 0, http->certificate},
      {MHD_OPTION_END, 0, NULL},
  };
  unsigned flags =
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | (http->key ? MHD_USE_TLS : 0u);
  http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_access, http, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
  if (http->daemon) return BRAID_OK;
  close(handle);
  return braid_fail(BRAID_IO, "the HTTP server does not start%s",
                    http->key ? ": are certificate and key a pair of PEM files?" : "");
}

braid_status braid_serve_http_start(braid_server *server, struct braid_serve_http **out) {
  const braid_serve_config *config = server->config;
  int handle = -1;
  *out = NULL;
  struct braid_serve_http *http = braid_zalloc(NULL, sizeof *http);
  if (!http) return BRAID_NO_MEMORY;
  http->server = server;
  braid_status status = BRAID_OK;
  if (config->key) status = read_pem(config->key, &http->key);
  if (config->certificate && status == BRAID_OK) status = read_pem(config->certificate, &http->certificate);
  if (status == BRAID_OK) status = open_socket(config->address, server->ports[0], &handle, &http->port);
  if (status == BRAID_OK) status = start_daemon(server, http, handle);
  if (status == BRAID_OK)
    *out = http;
  else
    braid_serve_http_stop(http);
  return status;
}

void braid_serve_http_stop(struct braid_serve_http *http) {
  if (!http) return;
  int64_t until = braid_now_ns() + kLastAnswers;
  int listens = http->daemon ? MHD_quiesce_daemon(http->daemon) : -1;
  while (__atomic_load_n(&http->open, __ATOMIC_ACQUIRE) && braid_now_ns() < until)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  if (http->daemon) MHD_stop_daemon(http->daemon);
  if (listens >= 0) close(listens);
  braid_free(NULL, http->certificate);
  braid_free(NULL, http->key);
  braid_free(NULL, http);
}

int braid_serve_http_port(const struct braid_serve_http *http) {
  return http->port;
}
