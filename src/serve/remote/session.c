/* Sessions: their connection, their messages, and their end. */
#include "serve/remote/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"

enum { kIdleMs = 500, kKeptBody = 1 << 20 };

struct braid_serve_remote {
  braid_server *server;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  session *sessions;
  size_t count;
  bool stopping;
  braid_thread beat;
  bool beats;
};

/* --- quota ---------------------------------------------------------------------------------------------------------
 */
braid_status session_count(session *s, size_t bytes) {
  if (!braid_serve_tenant_reserve(s->tenant, bytes))
    return braid_fail(BRAID_NO_MEMORY, "%zu bytes more are over the %lld that tenant %s may have on the daemon", bytes,
                      (long long)s->tenant->config->max_bytes, s->tenant->config->name);
  s->counted += bytes;
  return BRAID_OK;
}

void session_uncount(session *s, size_t bytes) {
  braid_serve_tenant_return(s->tenant, bytes);
  s->counted -= bytes;
}

/* --- bytes ---------------------------------------------------------------------------------------------------------
 */
static bool would_block(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static bool is_over(const session *s) {
  return __atomic_load_n(&s->stopping, __ATOMIC_ACQUIRE);
}

/* With the send lock. False: the client takes nothing any more. */
static bool send_all(session *s, struct iovec *parts, size_t count) {
  int64_t limit = (int64_t)(s->remote->server->config->receive_ms * 1e6), deadline = braid_now_ns() + limit;
  while (count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent = sendmsg(s->file, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !would_block()) return false;
    if (sent < 0) {
      if (braid_now_ns() > deadline || is_over(s)) return false;
      (void)poll(&(struct pollfd){.fd = s->file, .events = POLLOUT}, 1, kIdleMs);
      continue;
    }
    deadline = braid_now_ns() + limit;
    braid_wire_sent(&parts, &count, (size_t)sent);
  }
  return true;
}

/* False: the connection has ended, or the client keeps us waiting within a message. `begun`: within one from the start.
 */
static bool receive_all(session *s, uint8_t *to, size_t bytes, bool begun) {
  int64_t limit = (int64_t)(s->remote->server->config->receive_ms * 1e6), deadline = braid_now_ns() + limit;
  for (size_t got = 0; got < bytes;) {
    ssize_t count = recv(s->file, to + got, bytes - got, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && !would_block())) return false;
    if (count > 0) {
      got += (size_t)count;
      begun = true;
      deadline = braid_now_ns() + limit;
      continue;
    }
    if (is_over(s) || (begun && braid_now_ns() > deadline)) return false;
    (void)poll(&(struct pollfd){.fd = s->file, .events = POLLIN}, 1, kIdleMs);
  }
  return true;
}

bool session_is_cancelled(session *s) {
  uint8_t bytes[BRAID_WIRE_HEADER];
  braid_wire_header header;
  if (is_over(s)) return true;
  ssize_t count = recv(s->file, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
  if (count == 0 || (count < 0 && !would_block())) return true;
  if (count < (ssize_t)sizeof bytes || braid_remote_get_header(bytes, &header)) return false;
  if (header.kind != BRAID_REMOTE_CANCEL || header.bytes) return false;
  (void)!recv(s->file, bytes, sizeof bytes, MSG_DONTWAIT);
  return true;
}

/* --- beside the daemon's own runs ----------------------------------------------------------------------------------
 * A session without a daemon, as a fuzz target has it, has nothing to wait for. */
static size_t device_index(const session *s) {
  return (size_t)(s->config - s->remote->server->config->devices);
}

static bool turn_is_cancelled(void *context) {
  return session_is_cancelled(context);
}

bool session_turn_begin(session *s) {
  return !s->remote ||
         braid_serve_harvest_turn_begin(s->remote->server->harvest, device_index(s), turn_is_cancelled, s);
}

void session_turn_end(session *s, int64_t began_ns) {
  if (!s->remote) return;
  int64_t ran = braid_now_ns() - began_ns;
  braid_serve_harvest_turn_end(s->remote->server->harvest, device_index(s), ran);
  braid_serve_scheduler_power_freed(s->remote->server->scheduler);
  braid_serve_tenant_use(s->tenant, ran, s->config->run_watts);
}

/* Signs of life of all sessions that are at work. Whoever sends an answer gives one by that. */
static void send_beats(struct braid_serve_remote *remote) {
  for (session *s = remote->sessions; s; s = s->next) {
    if (!__atomic_load_n(&s->busy, __ATOMIC_ACQUIRE) || pthread_mutex_trylock(&s->send_lock) != 0) continue;
    uint8_t bytes[BRAID_WIRE_HEADER] = {0};
    braid_wire_writer writer = {.data = bytes, .capacity = sizeof bytes};
    braid_wire_begin(&writer, BRAID_REMOTE_BUSY | BRAID_WIRE_REPLY, 0);
    ssize_t sent = 0;
    if (__atomic_load_n(&s->busy, __ATOMIC_ACQUIRE))
      sent = send(s->file, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0 && sent < (ssize_t)sizeof bytes) (void)shutdown(s->file, SHUT_RDWR); /* half a message */
    pthread_mutex_unlock(&s->send_lock);
  }
}

/* --- messages ------------------------------------------------------------------------------------------------------
 */
typedef braid_status handle_message(session *s, braid_wire_reader *reader);

static handle_message *handler_of(unsigned kind) {
  static handle_message *const kHandlers[BRAID_REMOTE_END - BRAID_REMOTE_KERNELS] = {
      [BRAID_REMOTE_KERNELS - BRAID_REMOTE_KERNELS] = session_kernels_message,
      [BRAID_REMOTE_MATCH - BRAID_REMOTE_KERNELS] = session_match_message,
      [BRAID_REMOTE_LAYOUTS - BRAID_REMOTE_KERNELS] = session_layouts_message,
      [BRAID_REMOTE_QUERY - BRAID_REMOTE_KERNELS] = session_query_message,
      [BRAID_REMOTE_PREPARE - BRAID_REMOTE_KERNELS] = session_prepare_message,
      [BRAID_REMOTE_DISCARD - BRAID_REMOTE_KERNELS] = session_discard_message,
      [BRAID_REMOTE_BLOB - BRAID_REMOTE_KERNELS] = session_blob_message,
      [BRAID_REMOTE_FORGET - BRAID_REMOTE_KERNELS] = session_forget_message,
      [BRAID_REMOTE_PACK - BRAID_REMOTE_KERNELS] = session_pack_message,
      [BRAID_REMOTE_BUFFER - BRAID_REMOTE_KERNELS] = session_buffer_message,
      [BRAID_REMOTE_FREE - BRAID_REMOTE_KERNELS] = session_free_message,
      [BRAID_REMOTE_RUN - BRAID_REMOTE_KERNELS] = session_run_message,
      [BRAID_REMOTE_RECORD - BRAID_REMOTE_KERNELS] = session_record_message,
      [BRAID_REMOTE_REPLAY - BRAID_REMOTE_KERNELS] = session_replay_message,
      [BRAID_REMOTE_ERASE - BRAID_REMOTE_KERNELS] = session_erase_message,
      [BRAID_REMOTE_MEMORY - BRAID_REMOTE_KERNELS] = session_memory_message,
  };
  return kind & BRAID_WIRE_REPLY ? NULL : kHandlers[kind - BRAID_REMOTE_KERNELS];
}

static bool send_answer(session *s) {
  struct iovec parts[2] = {{s->writer.data, s->writer.length}, {s->data, s->data_bytes}};
  braid_wire_end(&s->writer, s->data_bytes);
  bool sent = false;
  pthread_mutex_lock(&s->send_lock);
  __atomic_store_n(&s->busy, 0, __ATOMIC_RELEASE);
  if (!s->writer.failed) sent = send_all(s, parts, s->data_bytes ? 2 : 1);
  pthread_mutex_unlock(&s->send_lock);
  return sent;
}

void session_drop_data(session *s) {
  braid_free(NULL, s->data);
  if (s->data_counted) session_uncount(s, s->data_counted);
  s->data = NULL;
  s->data_bytes = s->data_counted = 0;
}

bool session_handle(session *s, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  handle_message *handle = handler_of(header->kind);
  if (!handle) return false; /* clients send no message of this kind */
  s->arrived_ns = braid_now_ns();
  braid_wire_begin(&s->writer, header->kind | BRAID_WIRE_REPLY, header->id);
  braid_wire_put_status(&s->writer, BRAID_OK, "");
  braid_clear_detail();
  braid_status status = handle(s, &reader);
  if (status == BRAID_OK) return true;
  char detail[BRAID_WIRE_DETAIL];
  const char *said = braid_error_detail();
  snprintf(detail, sizeof detail, "%.500s", said[0] ? said : braid_status_text(status));
  session_drop_data(s);
  braid_wire_begin(&s->writer, header->kind | BRAID_WIRE_REPLY, header->id);
  braid_wire_put_status(&s->writer, status, detail);
  return true;
}

/* False: the session ends. */
static bool serve_message(session *s, const braid_wire_header *header) {
  if (header->kind == BRAID_REMOTE_CANCEL) return !header->bytes; /* of a run that has ended */
  if (!session_handle(s, header, s->body)) return false;
  bool sent = !header->id || send_answer(s);
  __atomic_store_n(&s->busy, 0, __ATOMIC_RELEASE);
  session_drop_data(s);
  return sent;
}

static void drop_body(session *s) {
  free(s->body);
  if (s->body_counted) session_uncount(s, s->body_counted);
  s->body = NULL;
  s->body_room = s->body_counted = 0;
}

/* Answers before a body that is not read: the session ends. */
static bool refuse_body(session *s, const braid_wire_header *header, braid_status status) {
  char detail[BRAID_WIRE_DETAIL];
  snprintf(detail, sizeof detail, "%.500s", braid_error_detail());
  braid_wire_begin(&s->writer, header->kind | BRAID_WIRE_REPLY, header->id);
  braid_wire_put_status(&s->writer, status, detail);
  (void)send_answer(s);
  return false;
}

static bool receive_body(session *s, const braid_wire_header *header) {
  size_t most = (size_t)s->remote->server->config->max_request_bytes, bytes = (size_t)header->bytes;
  if (header->bytes > most)
    return refuse_body(s, header,
                       braid_fail(BRAID_OUT_OF_RANGE, "a message of %llu bytes; up to %zu are taken",
                                  (unsigned long long)header->bytes, most));
  if (bytes > s->body_room) {
    drop_body(s);
    braid_status status = session_count(s, bytes);
    if (status != BRAID_OK) return refuse_body(s, header, status);
    s->body_counted = bytes;
    s->body = malloc(bytes);
    if (!s->body) return refuse_body(s, header, braid_fail(BRAID_NO_MEMORY, "no memory for %zu bytes", bytes));
    s->body_room = bytes;
  }
  return receive_all(s, s->body, bytes, true);
}

static void serve_messages(session *s) {
  uint8_t bytes[BRAID_WIRE_HEADER];
  braid_wire_header header;
  while (!is_over(s) && receive_all(s, bytes, sizeof bytes, false)) {
    if (braid_remote_get_header(bytes, &header)) return;
    if (!receive_body(s, &header)) return;
    __atomic_store_n(&s->busy, header.id != 0, __ATOMIC_RELEASE);
    if (!serve_message(s, &header)) return;
    if (s->body_room > kKeptBody) drop_body(s);
  }
}

/* --- the device ----------------------------------------------------------------------------------------------------
 */
/* The first of the configuration's devices, with its threads. */
braid_status session_open_device(session *s) {
  char spec[512];
  size_t length = strcspn(s->config->device, " ");
  if (length > sizeof spec - 32)
    return braid_fail(BRAID_INVALID_ARGUMENT, "device %s: its description is too long", s->config->name);
  memcpy(spec, s->config->device, length);
  spec[length] = '\0';
  bool cpu = strncmp(spec, "cpu", 3) == 0 && (!spec[3] || spec[3] == ':');
  if (cpu && s->config->threads && !strstr(spec, "threads="))
    snprintf(spec + length, sizeof spec - length, "%sthreads=%lld", spec[3] ? "," : ":", (long long)s->config->threads);
  BRAID_TRY(braid_registry_create(NULL, &s->registry));
  BRAID_TRY(braid_device_open(s->registry, spec, &s->device));
  s->backend = braid_device_backend(s->device);
  s->self = braid_device_self(s->device);
  s->info = *braid_device_get_info(s->device);
  s->kernels = s->backend->kernels(s->self, &s->kernel_count);
  if (!s->backend->query)
    return braid_fail(BRAID_UNSUPPORTED,
                      "device %s cannot be used from elsewhere: it prepares kernels to say what "
                      "they need",
                      s->config->name);
  return braid_queue_open(&s->queue, NULL, s->backend, s->self);
}

static bool answer_opening(session *s, braid_status status) {
  braid_wire_begin(&s->writer, BRAID_WIRE_DEVICE | BRAID_WIRE_REPLY, s->opening);
  if (status != BRAID_OK) {
    char detail[BRAID_WIRE_DETAIL];
    snprintf(detail, sizeof detail, "%.500s", braid_error_detail());
    braid_wire_put_status(&s->writer, (unsigned)braid_serve_http_status(BRAID_SERVE_UNAVAILABLE), detail);
    (void)send_answer(s);
    return false;
  }
  braid_remote_device device = {.info = s->info,
                                .max_body = (uint64_t)s->remote->server->config->max_request_bytes,
                                .max_bytes = (uint64_t)s->tenant->config->max_bytes};
  if (!device.info.memory_bytes || device.info.memory_bytes > device.max_bytes)
    device.info.memory_bytes = device.max_bytes; /* more is not to be had */
  snprintf(device.info.name, sizeof device.info.name, "%.31s", s->config->name);
  braid_wire_put_status(&s->writer, (unsigned)braid_serve_http_status(BRAID_SERVE_DONE), "");
  braid_remote_put_device(&s->writer, &device);
  return send_answer(s);
}

void session_close_device(session *s) {
  if (s->backend) {
    session_recordings_free_all(s);
    session_prepared_free_all(s);
    session_memory_free_all(s);
    braid_queue_close(&s->queue);
  }
  braid_device_close(s->device);
  braid_registry_destroy(s->registry);
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static void *session_main(void *context) {
  session *s = context;
  struct braid_serve_remote *remote = s->remote;
  __atomic_store_n(&s->busy, 1, __ATOMIC_RELEASE);
  if (answer_opening(s, session_open_device(s))) serve_messages(s);
  __atomic_store_n(&s->busy, 0, __ATOMIC_RELEASE);
  (void)shutdown(s->file, SHUT_RDWR);
  session_close_device(s);
  drop_body(s);
  session_drop_data(s);
  if (s->counted) session_uncount(s, s->counted);
  braid_wire_free(&s->writer);
  pthread_mutex_lock(&remote->lock);
  __atomic_store_n(&s->ended, 1, __ATOMIC_RELEASE);
  pthread_cond_broadcast(&remote->changed);
  pthread_mutex_unlock(&remote->lock);
  return NULL;
}

static void session_free(session *s) {
  braid_thread_join(&s->thread);
  close(s->file);
  pthread_mutex_destroy(&s->send_lock);
  braid_free(NULL, s);
}

/* With the lock: frees sessions that have ended. */
static void reap(struct braid_serve_remote *remote) {
  for (session **link = &remote->sessions; *link;) {
    session *s = *link;
    if (!__atomic_load_n(&s->ended, __ATOMIC_ACQUIRE)) {
      link = &s->next;
      continue;
    }
    *link = s->next;
    remote->count--;
    session_free(s);
  }
}

static void *beat_main(void *context) {
  struct braid_serve_remote *remote = context;
  pthread_mutex_lock(&remote->lock);
  while (!remote->stopping) {
    int64_t at = braid_now_ns() + BRAID_REMOTE_BUSY_MS * INT64_C(1000000);
    struct timespec until = {at / 1000000000, at % 1000000000};
    (void)pthread_cond_timedwait(&remote->changed, &remote->lock, &until);
    reap(remote);
    send_beats(remote);
  }
  pthread_mutex_unlock(&remote->lock);
  return NULL;
}

braid_status braid_serve_remote_start(braid_server *server, struct braid_serve_remote **out) {
  *out = NULL;
  struct braid_serve_remote *remote = braid_zalloc(NULL, sizeof *remote);
  if (!remote) return BRAID_NO_MEMORY;
  remote->server = server;
  pthread_mutex_init(&remote->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&remote->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  braid_status status = braid_thread_start(&remote->beat, "braid-beat", beat_main, remote);
  remote->beats = status == BRAID_OK;
  if (status == BRAID_OK)
    *out = remote;
  else
    braid_serve_remote_stop(remote);
  return status;
}

void braid_serve_remote_stop(struct braid_serve_remote *remote) {
  if (!remote) return;
  pthread_mutex_lock(&remote->lock);
  remote->stopping = true;
  for (session *s = remote->sessions; s; s = s->next) {
    __atomic_store_n(&s->stopping, 1, __ATOMIC_RELEASE);
    (void)shutdown(s->file, SHUT_RD);
  }
  pthread_cond_broadcast(&remote->changed);
  pthread_mutex_unlock(&remote->lock);
  if (remote->beats) braid_thread_join(&remote->beat);
  while (remote->sessions) {
    session *s = remote->sessions;
    remote->sessions = s->next;
    session_free(s);
  }
  pthread_mutex_destroy(&remote->lock);
  pthread_cond_destroy(&remote->changed);
  braid_free(NULL, remote);
}

/* --- new sessions --------------------------------------------------------------------------------------------------
 */
braid_serve_verdict braid_serve_remote_find(const braid_server *server, const braid_serve_tenant *tenant,
                                            const char *name, const braid_serve_device_config **out,
                                            char detail[BRAID_SERVE_DETAIL]) {
  const braid_serve_config *config = server->config;
  *out = NULL;
  if (!tenant->config->remote && !tenant->config->any) {
    snprintf(detail, BRAID_SERVE_DETAIL, "tenant %s may not use devices from elsewhere (remote: true)",
             tenant->config->name);
    return BRAID_SERVE_FORBIDDEN;
  }
  for (unsigned i = 0; i < config->devices_count && !*out; i++)
    if (config->devices[i].remote && (!*name || strcmp(config->devices[i].name, name) == 0)) *out = &config->devices[i];
  if (*out) return BRAID_SERVE_DONE;
  snprintf(detail, BRAID_SERVE_DETAIL, "the daemon offers no device%s%.100s to be used from elsewhere (remote: true)",
           *name ? " " : "", name);
  return BRAID_SERVE_UNKNOWN;
}

static session *session_create(struct braid_serve_remote *remote, int file, braid_serve_tenant *tenant,
                               const braid_serve_device_config *device, uint64_t id) {
  session *s = braid_zalloc(NULL, sizeof *s);
  if (!s) return NULL;
  s->remote = remote;
  s->tenant = tenant;
  s->config = device;
  s->file = file;
  s->opening = id;
  pthread_mutex_init(&s->send_lock, NULL);
  if (braid_thread_start(&s->thread, "braid-remote", session_main, s) == BRAID_OK) return s;
  pthread_mutex_destroy(&s->send_lock);
  braid_free(NULL, s);
  return NULL;
}

braid_serve_verdict braid_serve_remote_adopt(struct braid_serve_remote *remote, int file, braid_serve_tenant *tenant,
                                             const braid_serve_device_config *device, uint64_t id,
                                             char detail[BRAID_SERVE_DETAIL]) {
  pthread_mutex_lock(&remote->lock);
  reap(remote);
  size_t own = 0, most = remote->server->tenant_count > 1 ? BRAID_SERVE_SESSIONS / 2 : BRAID_SERVE_SESSIONS;
  for (const session *s = remote->sessions; s; s = s->next) own += s->tenant == tenant;
  bool room = !remote->stopping && remote->count < BRAID_SERVE_SESSIONS && own < most;
  session *s = room ? session_create(remote, file, tenant, device, id) : NULL;
  if (s) {
    s->next = remote->sessions;
    remote->sessions = s;
    remote->count++;
  }
  pthread_mutex_unlock(&remote->lock);
  if (s) return BRAID_SERVE_DONE;
  snprintf(detail, BRAID_SERVE_DETAIL, room ? "no memory for a session" : "the daemon has as many sessions as it may");
  return room ? BRAID_SERVE_FAILED : BRAID_SERVE_OVER_QUOTA;
}
