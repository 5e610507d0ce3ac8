#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/try.h"
#include "serve/grpc/call.h"

enum {
  AWAITED = 16,                  /* calls that are waited for at a time */
  METADATA_BYTES = 16 << 10,     /* of a call's headers */
  KEEPALIVE_MS = 60 * 1000,      /* a silent client is asked whether it lives, */
  KEEPALIVE_WAIT_MS = 20 * 1000, /* and has so long to answer */
  PING_MS = 5 * 1000,            /* clients may ask us that often */
  IDLE_MS = 30 * 60 * 1000,      /* connections without calls are closed */
  QUOTA_BYTES = 256 << 20,
  QUOTA_MESSAGES = 8,          /* of the largest size */
  STOP_NS = 1000 * 1000 * 1000 /* for calls to end by themselves */
};

/* --- events ---------------------------------------------------------------------------------------------------------
 */
typedef void call_visit(braid_grpc_call *call, int64_t now_ns);

/* Calls are kept while they are visited, without the lock. New ones are put first, so some may be visited twice; none
 * that was there is left out, unless others ended meanwhile. */
static void visit_calls(braid_serve_grpc *grpc, call_visit *visit, int64_t now_ns) {
  enum { AT_ONCE = 64 };
  braid_grpc_call *found[AT_ONCE];
  size_t passed = 0, count = AT_ONCE;
  while (count == AT_ONCE) {
    size_t index = 0;
    count = 0;
    pthread_mutex_lock(&grpc->lock);
    for (braid_grpc_call *call = grpc->calls; call && count < AT_ONCE; call = call->next)
      if (index++ >= passed && braid_grpc_call_find(call)) found[count++] = call;
    pthread_mutex_unlock(&grpc->lock);
    passed = index;
    for (size_t i = 0; i < count; i++) {
      visit(found[i], now_ns);
      braid_grpc_call_release(found[i]);
    }
  }
}

static void call_end(braid_grpc_call *call, int64_t now_ns) {
  (void)now_ns;
  braid_grpc_call_finish(call, GRPC_STATUS_UNAVAILABLE, "the daemon is stopping");
}

/* One of the threads, once a period. */
static void look_sometimes(braid_serve_grpc *grpc) {
  int64_t now = braid_now_ns(), before = __atomic_load_n(&grpc->looked_ns, __ATOMIC_RELAXED);
  if (now - before < BRAID_GRPC_PERIOD_NS) return;
  if (__atomic_compare_exchange_n(&grpc->looked_ns, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    visit_calls(grpc, braid_grpc_call_look, now);
}

static void server_shut(braid_serve_grpc *grpc) {
  pthread_mutex_lock(&grpc->lock);
  grpc->shut = true;
  pthread_cond_broadcast(&grpc->changed);
  pthread_mutex_unlock(&grpc->lock);
}

static void *poll_main(void *context) {
  braid_serve_grpc *grpc = context;
  for (;;) {
    gpr_timespec period = gpr_time_from_nanos(BRAID_GRPC_PERIOD_NS, GPR_TIMESPAN);
    grpc_event event =
        grpc_completion_queue_next(grpc->queue, gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), period), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) return NULL;
    if (event.type == GRPC_OP_COMPLETE) {
      const braid_grpc_tag *tag = event.tag;
      if (tag)
        braid_grpc_call_event(tag->call, tag->event, event.success);
      else
        server_shut(grpc); /* the tag of grpc_server_shutdown_and_notify */
    }
    look_sometimes(grpc);
  }
}

/* --- beginning ------------------------------------------------------------------------------------------------------
 */
/* gRPC's own messages, which it would print. */
static void no_log(gpr_log_func_args *arguments) {
  (void)arguments;
}

static braid_status server_listener(braid_serve_grpc *grpc) {
  const braid_serve_config *config = grpc->server->config;
  int most = config->max_request_bytes < INT_MAX ? (int)config->max_request_bytes : INT_MAX;
  int receive_ms = config->receive_ms < INT_MAX ? (int)config->receive_ms : INT_MAX;
  grpc_resource_quota *quota = grpc_resource_quota_create("braid"); /* of what is received and not yet taken */
  grpc_resource_quota_resize(quota, QUOTA_BYTES + QUOTA_MESSAGES * (size_t)most);
  grpc_arg arguments[] = {
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = most}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONCURRENT_STREAMS, {.integer = BRAID_GRPC_CALLS_A_CHANNEL}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_METADATA_SIZE, {.integer = METADATA_BYTES}},
      /* message.c inflates, up to the limit; gRPC would without one. */
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, {.integer = receive_ms}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIME_MS, {.integer = KEEPALIVE_MS}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, {.integer = KEEPALIVE_WAIT_MS}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, {.integer = 1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, {.integer = PING_MS}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONNECTION_IDLE_MS, {.integer = IDLE_MS}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ALLOW_REUSEPORT, {.integer = 0}}, /* two daemons on one port are a mistake */
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_CHANNELZ, {.integer = 0}},
      {GRPC_ARG_POINTER, GRPC_ARG_RESOURCE_QUOTA, {.pointer = {quota, grpc_resource_quota_arg_vtable()}}},
  };
  grpc_channel_args all = {sizeof arguments / sizeof *arguments, arguments};
  grpc->queue = grpc_completion_queue_create_for_next(NULL);
  grpc->listener = grpc_server_create(&all, NULL);
  grpc_resource_quota_unref(quota);
  if (!grpc->queue || !grpc->listener) return braid_fail(BRAID_INTERNAL, "gRPC: no server could be made");
  grpc_server_register_completion_queue(grpc->listener, grpc->queue, NULL);
  return BRAID_OK;
}

/* A PEM file, NUL-terminated; the caller frees it. */
static braid_status read_pem(const char *path, char **out) {
  enum { PEM_BYTES = 1 << 20 };
  braid_file_view file;
  *out = NULL;
  BRAID_TRY(braid_file_open(NULL, path, PEM_BYTES, &file));
  char *text = braid_zalloc(NULL, file.bytes + 1);
  if (text) memcpy(text, file.data, file.bytes);
  braid_file_close(&file);
  *out = text;
  return text ? BRAID_OK : BRAID_NO_MEMORY;
}

/* TLS where the configuration has a certificate. */
static braid_status server_credentials(const braid_serve_config *config, grpc_server_credentials **out) {
  *out = NULL;
  if (!config->certificate) {
    *out = grpc_insecure_server_credentials_create();
    return BRAID_OK;
  }
  char *certificate, *key = NULL;
  braid_status status = read_pem(config->certificate, &certificate);
  if (status == BRAID_OK) status = read_pem(config->key, &key);
  if (status == BRAID_OK) {
    grpc_ssl_pem_key_cert_pair pair = {key, certificate};
    *out = grpc_ssl_server_credentials_create(NULL, &pair, 1, 0, NULL);
    if (!*out)
      status = braid_fail(BRAID_INVALID_FILE, "%s, %s: no certificate and key", config->certificate, config->key);
  }
  if (key) explicit_bzero(key, strlen(key));
  braid_free(NULL, key);
  braid_free(NULL, certificate);
  return status;
}

static braid_status server_bind(braid_serve_grpc *grpc) {
  const braid_serve_config *config = grpc->server->config;
  const char *address = config->address;
  bool bare = strchr(address, ':') && *address != '['; /* IPv6 */
  char target[300];
  grpc_server_credentials *credentials;
  snprintf(target, sizeof target, bare ? "[%.250s]:%d" : "%.250s:%d", address, grpc->server->ports[1]);
  BRAID_TRY(server_credentials(config, &credentials));
  grpc->port = grpc_server_add_http2_port(grpc->listener, target, credentials);
  grpc_server_credentials_release(credentials);
  if (grpc->port > 0) return BRAID_OK;
  return braid_fail(BRAID_IO, "gRPC cannot listen at %s: the address is in use or not ours%s", target,
                    config->certificate ? ", or the certificate and key do not fit" : "");
}

static braid_status server_begin(braid_serve_grpc *grpc) {
  BRAID_TRY(server_listener(grpc));
  BRAID_TRY(server_bind(grpc));
  BRAID_TRY(braid_grpc_worker_start(grpc));
  grpc_server_start(grpc->listener);
  for (int i = 0; i < AWAITED; i++) braid_grpc_call_await(grpc);
  for (int i = 0; i < BRAID_GRPC_THREADS; i++) {
    BRAID_TRY(braid_thread_start(&grpc->threads[i], "braid-grpc", poll_main, grpc));
    grpc->thread_count++;
  }
  return BRAID_OK;
}

braid_status braid_serve_grpc_start(struct braid_server *server, struct braid_serve_grpc **out) {
  *out = NULL;
  braid_serve_grpc *grpc = braid_zalloc(NULL, sizeof *grpc);
  if (!grpc) return BRAID_NO_MEMORY;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&grpc->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&grpc->lock, NULL);
  grpc->server = server;
  gpr_set_log_function(no_log);
  grpc_init();
  braid_status status = server_begin(grpc);
  if (status == BRAID_OK)
    *out = grpc;
  else
    braid_serve_grpc_stop(grpc);
  return status;
}

int braid_serve_grpc_port(const struct braid_serve_grpc *grpc) {
  return grpc->port;
}

/* --- end ------------------------------------------------------------------------------------------------------------
 */
/* Waits until no call is open and gRPC's server has shut down; false: not in time. */
static bool server_wait(braid_serve_grpc *grpc, int64_t timeout_ns) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ns / 1000000000;
  int late = 0;
  pthread_mutex_lock(&grpc->lock);
  while (!late && (grpc->call_count || !grpc->shut)) late = pthread_cond_timedwait(&grpc->changed, &grpc->lock, &until);
  bool over = !grpc->call_count && grpc->shut;
  pthread_mutex_unlock(&grpc->lock);
  return over;
}

/* Calls end with a sentence; those that the scheduler still has, when it gives them back; those whose clients do not
 * read, by force. */
static void server_end(braid_serve_grpc *grpc) {
  grpc_server_shutdown_and_notify(grpc->listener, grpc->queue, NULL);
  if (grpc->thread_count) {
    visit_calls(grpc, call_end, 0);
    if (!server_wait(grpc, STOP_NS)) grpc_server_cancel_all_calls(grpc->listener);
    while (!server_wait(grpc, STOP_NS)) visit_calls(grpc, call_end, 0);
  }
  grpc_completion_queue_shutdown(grpc->queue);
  if (!grpc->thread_count) poll_main(grpc); /* it never ran: what was begun is ended here */
  for (size_t i = 0; i < grpc->thread_count; i++) braid_thread_join(&grpc->threads[i]);
  grpc_server_destroy(grpc->listener);
}

void braid_serve_grpc_stop(struct braid_serve_grpc *grpc) {
  if (!grpc) return;
  __atomic_store_n(&grpc->stopping, 1, __ATOMIC_RELEASE);
  braid_grpc_worker_stop(grpc);
  if (grpc->listener) server_end(grpc);
  if (grpc->queue && !grpc->listener) grpc_completion_queue_shutdown(grpc->queue);
  if (grpc->queue) grpc_completion_queue_destroy(grpc->queue);
  grpc_shutdown();
  pthread_cond_destroy(&grpc->changed);
  pthread_mutex_destroy(&grpc->lock);
  braid_free(NULL, grpc);
}
