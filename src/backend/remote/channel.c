#include "backend/remote/channel.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/version.h"

enum { kParts = 64, kLookMs = 10, kMostRefusal = 4096 };

void remote_channel_init(remote_channel *channel) {
  *channel = (remote_channel){.file = -1};
  pthread_mutex_init(&channel->lock, NULL);
}

void remote_channel_deinit(remote_channel *channel) {
  if (channel->tls) braid_tls_say_end(channel->tls);
  braid_tls_destroy(channel->tls);
  if (channel->file >= 0) close(channel->file);
  braid_wire_free(&channel->writer);
  free(channel->body);
  pthread_mutex_destroy(&channel->lock);
}

braid_status remote_channel_check(const remote_channel *channel) {
  if (!__atomic_load_n(&channel->lost, __ATOMIC_ACQUIRE)) return BRAID_OK;
  return braid_fail(BRAID_DEVICE_LOST, "%s: %s", channel->address, channel->why);
}

/* The first reason stays. */
braid_status remote_channel_break(remote_channel *channel, const char *why) {
  if (!__atomic_load_n(&channel->lost, __ATOMIC_ACQUIRE)) {
    snprintf(channel->why, sizeof channel->why, "%s", why);
    __atomic_store_n(&channel->lost, 1, __ATOMIC_RELEASE);
    if (channel->file >= 0) (void)shutdown(channel->file, SHUT_RDWR);
  }
  return remote_channel_check(channel);
}

static braid_status break_off(remote_channel *channel, const char *what, int reason) {
  char why[sizeof channel->why];
  snprintf(why, sizeof why, "%s: %.400s", what, channel->tls ? braid_tls_why(channel->tls) : strerror(reason));
  return remote_channel_break(channel, why);
}

static braid_status fall_silent(remote_channel *channel) {
  char why[100];
  snprintf(why, sizeof why, "no sign of life for %.3g s", (double)channel->silence_ns * 1e-9);
  return remote_channel_break(channel, why);
}

/* --- bytes ---------------------------------------------------------------------------------------------------------
 */
static bool would_block(int reason) {
  return reason == EAGAIN || reason == EWOULDBLOCK || reason == EINTR;
}

/* Sends what is left of the parts, which are used up. */
static braid_status send_some(remote_channel *channel, struct iovec *parts, size_t count) {
  int64_t deadline = braid_now_ns() + channel->silence_ns;
  while (count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count < kParts ? count : kParts};
    ssize_t sent = channel->tls ? braid_tls_send(channel->tls, parts, message.msg_iovlen)
                                : sendmsg(channel->file, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && !would_block(errno)) return break_off(channel, "the connection has ended", errno);
    if (sent < 0) {
      int64_t left = deadline - braid_now_ns();
      if (left <= 0) return fall_silent(channel);
      (void)poll(&(struct pollfd){.fd = channel->file, .events = POLLOUT}, 1, (int)(left / 1000000) + 1);
      continue;
    }
    deadline = braid_now_ns() + channel->silence_ns;
    braid_wire_sent(&parts, &count, (size_t)sent);
  }
  return BRAID_OK;
}

static braid_status send_message(remote_channel *channel, const struct iovec *parts, size_t count) {
  uint64_t more = 0;
  struct iovec some[kParts];
  size_t used = 1;
  for (size_t i = 0; i < count; i++) more += parts[i].iov_len;
  braid_wire_end(&channel->writer, more);
  if (channel->writer.failed) return braid_fail(BRAID_NO_MEMORY, "no memory for a message to %s", channel->address);
  channel->messages++;
  channel->bytes_sent += channel->writer.length + more;
  some[0] = (struct iovec){channel->writer.data, channel->writer.length};
  for (size_t i = 0; i < count; i++) {
    if (used == kParts) {
      BRAID_TRY(send_some(channel, some, used));
      used = 0;
    }
    some[used++] = parts[i];
  }
  return send_some(channel, some, used);
}

static void send_cancel(remote_channel *channel) {
  uint8_t bytes[BRAID_WIRE_HEADER] = {0};
  braid_wire_writer writer = {.data = bytes, .capacity = sizeof bytes};
  braid_wire_begin(&writer, BRAID_REMOTE_CANCEL, 0);
  struct iovec part = {bytes, sizeof bytes};
  (void)!send_some(channel, &part, 1);
}

/* Reads `bytes` bytes. `verdict` NULL: nothing is looked at meanwhile. */
static braid_status channel_receive(remote_channel *channel, uint8_t *to, size_t bytes, const braid_verdict *verdict,
                                    bool *told) {
  int64_t deadline = braid_now_ns() + channel->silence_ns;
  for (size_t got = 0; got < bytes;) {
    ssize_t count = channel->tls ? braid_tls_receive(channel->tls, to + got, bytes - got)
                                 : recv(channel->file, to + got, bytes - got, MSG_DONTWAIT);
    if (count == 0) return remote_channel_break(channel, "the daemon has closed the connection");
    if (count < 0 && !would_block(errno)) return break_off(channel, "the connection has ended", errno);
    if (count > 0) {
      got += (size_t)count;
      deadline = braid_now_ns() + channel->silence_ns;
      continue;
    }
    int64_t left = deadline - braid_now_ns();
    if (left <= 0) return fall_silent(channel);
    if (verdict && !*told && braid_verdict_cancelled(verdict)) {
      *told = true;
      send_cancel(channel);
    }
    int wait = (int)(left / 1000000) + 1;
    if (verdict && !*told && wait > kLookMs) wait = kLookMs;
    (void)poll(&(struct pollfd){.fd = channel->file, .events = POLLIN}, 1, wait);
  }
  channel->bytes_received += bytes;
  return BRAID_OK;
}

static braid_status body_make_room(remote_channel *channel, size_t bytes) {
  if (bytes <= channel->room) return BRAID_OK;
  uint8_t *body = realloc(channel->body, bytes);
  if (!body) return remote_channel_break(channel, "no memory for an answer");
  channel->body = body;
  channel->room = bytes;
  return BRAID_OK;
}

/* --- messages ------------------------------------------------------------------------------------------------------
 */
braid_wire_writer *remote_begin(remote_channel *channel, unsigned kind) {
  pthread_mutex_lock(&channel->lock);
  braid_wire_begin(&channel->writer, kind, ++channel->id);
  return &channel->writer;
}

void remote_drop(remote_channel *channel) {
  pthread_mutex_unlock(&channel->lock);
}

void remote_end(remote_channel *channel) {
  pthread_mutex_unlock(&channel->lock);
}

void remote_post(remote_channel *channel) {
  if (!channel->writer.failed) memset(channel->writer.data + 8, 0, 8); /* the id */
  if (remote_channel_check(channel) == BRAID_OK) (void)!send_message(channel, NULL, 0);
  pthread_mutex_unlock(&channel->lock);
}

/* The header of the next message that is not BUSY. */
static braid_status receive_header(remote_channel *channel, const braid_verdict *verdict, bool *told, bool hello,
                                   braid_wire_header *out) {
  uint8_t bytes[BRAID_WIRE_HEADER];
  for (;;) {
    BRAID_TRY(channel_receive(channel, bytes, sizeof bytes, verdict, told));
    const char *wrong = braid_remote_get_header(bytes, out);
    if (wrong && hello) wrong = braid_wire_get_header(bytes, out);
    if (wrong) return remote_channel_break(channel, wrong);
    if (out->kind != (BRAID_REMOTE_BUSY | BRAID_WIRE_REPLY)) return BRAID_OK;
    if (out->bytes || out->id) return remote_channel_break(channel, "the daemon's sign of life is malformed");
  }
}

static braid_status channel_ask(remote_channel *channel, const struct iovec *parts, size_t count, uint64_t most,
                                const braid_verdict *verdict, bool hello, braid_wire_reader *reader) {
  *reader = (braid_wire_reader){0};
  BRAID_TRY(remote_channel_check(channel));
  unsigned kind = channel->writer.failed ? 0 : (unsigned)(channel->writer.data[4] | channel->writer.data[5] << 8);
  BRAID_TRY(send_message(channel, parts, count));
  braid_wire_header header;
  bool told = false;
  BRAID_TRY(receive_header(channel, verdict, &told, hello, &header));
  bool notice = hello && header.kind == (BRAID_WIRE_NOTICE | BRAID_WIRE_REPLY);
  if (!notice && (header.kind != (kind | BRAID_WIRE_REPLY) || header.id != channel->id))
    return remote_channel_break(channel, "the daemon answers what was not asked");
  if (header.bytes > most + kMostRefusal) return remote_channel_break(channel, "the daemon's answer is too long");
  BRAID_TRY(body_make_room(channel, (size_t)header.bytes + 1));
  BRAID_TRY(channel_receive(channel, channel->body, (size_t)header.bytes, verdict, &told));
  *reader = (braid_wire_reader){.data = channel->body, .bytes = (size_t)header.bytes};
  return BRAID_OK;
}

braid_status remote_ask(remote_channel *channel, const struct iovec *parts, size_t count, uint64_t most,
                        const braid_verdict *verdict, braid_wire_reader *reader) {
  char detail[BRAID_WIRE_DETAIL];
  BRAID_TRY(channel_ask(channel, parts, count, most, verdict, false, reader));
  braid_status status = braid_remote_get_status(reader, detail);
  if (reader->wrong) return remote_channel_break(channel, reader->wrong);
  return status == BRAID_OK ? BRAID_OK : braid_fail(status, "%s", detail);
}

/* --- connecting ----------------------------------------------------------------------------------------------------
 */
static braid_status finish_connect(remote_channel *channel, int file, const struct sockaddr *address, socklen_t bytes) {
  int reason = 0;
  if (file < 0) return braid_fail(BRAID_IO, "%s: %s", channel->address, strerror(errno));
  if (connect(file, address, bytes) < 0 && errno != EINPROGRESS) reason = errno;
  if (!reason) {
    struct pollfd poller = {.fd = file, .events = POLLOUT};
    int ready = poll(&poller, 1, (int)(channel->silence_ns / 1000000));
    socklen_t length = sizeof reason;
    if (ready <= 0) reason = ETIMEDOUT;
    if (ready > 0 && getsockopt(file, SOL_SOCKET, SO_ERROR, &reason, &length) != 0) reason = errno;
  }
  if (!reason) {
    channel->file = file;
    return BRAID_OK;
  }
  close(file);
  return braid_fail(BRAID_IO, "%s: %s", channel->address, strerror(reason));
}

static braid_status connect_local(remote_channel *channel, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!*path || strlen(path) >= sizeof address.sun_path)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: a path of 1 to %zu bytes is expected", channel->address,
                      sizeof address.sun_path - 1);
  strcpy(address.sun_path, path);
  return finish_connect(channel, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                        (struct sockaddr *)&address, sizeof address);
}

/* Small messages go at once; a host that is gone is noticed within seconds also by the kernel. */
static void set_options(int file) {
  int one = 1, idle = 5, interval = 2, count = 3;
  (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  (void)setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  (void)setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  (void)setsockopt(file, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  (void)setsockopt(file, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static braid_status open_tls(remote_channel *channel, const char *host, const remote_options *options) {
  char why[BRAID_TLS_WHY];
  braid_tls_files files = {options->authority, options->certificate, options->key};
  braid_tls_result result =
      braid_tls_open(&files, channel->file, host, channel->silence_ns / 1000000, NULL, &channel->tls, why);
  return result == BRAID_TLS_DONE ? BRAID_OK : braid_fail(BRAID_IO, "%s: %s", channel->address, why);
}

static braid_status connect_tcp(remote_channel *channel, const char *address, const remote_options *options) {
  char host[256];
  bool secure = strncmp(address, "tls:", 4) == 0;
  if (secure) address += 4;
  const char *colon = strrchr(address, ':');
  size_t length = colon ? (size_t)(colon - address) : 0, skip = 0;
  if (length > 2 && address[0] == '[' && address[length - 1] == ']') skip = 1;
  if (!colon || !length || !colon[1])
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "\"%s\": unix:PATH, or HOST:PORT or [ADDRESS]:PORT, with tls: before it or without, is expected",
                      address);
  snprintf(host, sizeof host, "%.*s", (int)(length - 2 * skip), address + skip);
  struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
  int code = getaddrinfo(host, colon + 1, &hints, &found);
  if (code) return braid_fail(BRAID_IO, "%s: %s", address, gai_strerror(code));
  braid_status status = BRAID_IO;
  for (const struct addrinfo *at = found; at && status != BRAID_OK; at = at->ai_next)
    status = finish_connect(channel, socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), at->ai_addr,
                            at->ai_addrlen);
  freeaddrinfo(found);
  if (status != BRAID_OK) return status;
  set_options(channel->file);
  return secure ? open_tls(channel, host, options) : BRAID_OK;
}

/* From the codes of Braid's protocol. */
static braid_status refusal_of(unsigned code) {
  switch (code) {
  case 200:
    return BRAID_OK;
  case 404:
    return BRAID_NOT_FOUND;
  case 400:
  case 401:
  case 403:
    return BRAID_INVALID_ARGUMENT;
  case 501:
    return BRAID_UNSUPPORTED;
  default:
    return BRAID_IO;
  }
}

/* A message of the beginning and its answer, which *reader stands in. */
static braid_status introduce(remote_channel *channel, braid_wire_reader *reader) {
  braid_wire_status status;
  BRAID_TRY(channel_ask(channel, NULL, 0, BRAID_WIRE_SMALL, NULL, true, reader));
  braid_wire_get_status(reader, &status);
  if (reader->wrong) return remote_channel_break(channel, reader->wrong);
  if (status.code == 200) return BRAID_OK;
  return braid_fail(refusal_of(status.code), "%s: %s", channel->address, status.detail);
}

static braid_status say_hello(remote_channel *channel, const char *token) {
  static const char kClient[] = "braid " BRAID_VERSION " (remote device)";
  braid_wire_reader reader;
  braid_wire_welcome welcome;
  braid_wire_writer *writer = remote_begin(channel, BRAID_WIRE_HELLO);
  braid_wire_put_number(writer, BRAID_WIRE_VERSION, 4);
  braid_wire_put_text(writer, token);
  braid_wire_put_text(writer, kClient);
  braid_status status = introduce(channel, &reader);
  const char *wrong = status == BRAID_OK ? braid_wire_get_welcome(&reader, &welcome) : NULL;
  if (wrong) status = remote_channel_break(channel, wrong);
  remote_end(channel);
  return status;
}

static braid_status ask_for_device(remote_channel *channel, const char *device, braid_remote_device *out) {
  braid_wire_reader reader;
  braid_remote_open open = {.version = BRAID_REMOTE_VERSION};
  snprintf(open.device, sizeof open.device, "%s", device);
  braid_remote_put_open(remote_begin(channel, BRAID_WIRE_DEVICE), &open);
  braid_status status = introduce(channel, &reader);
  const char *wrong = status == BRAID_OK ? braid_remote_get_device(&reader, out) : NULL;
  if (wrong) status = remote_channel_break(channel, wrong);
  remote_end(channel);
  return status;
}

braid_status remote_channel_open(remote_channel *channel, const char *address, const remote_options *options,
                                 braid_remote_device *out) {
  snprintf(channel->address, sizeof channel->address, "%s", address);
  channel->silence_ns = options->silence_ns;
  BRAID_TRY(strncmp(address, "unix:", 5) == 0 ? connect_local(channel, address + 5)
                                              : connect_tcp(channel, address, options));
  BRAID_TRY(say_hello(channel, options->token));
  return ask_for_device(channel, options->device, out);
}
