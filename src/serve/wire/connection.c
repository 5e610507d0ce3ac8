/* Connections: their bytes in and out. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/wire/wire.h"

/* Reads and bytes of a connection before others have their turn. */
enum { kTurns = 64, kTurnBytes = 1 << 20 };

static size_t most_body(const wire_connection *c, unsigned kind) {
  bool large = c->tenant && (kind == BRAID_WIRE_LAUNCH || kind == BRAID_WIRE_DATA || kind == BRAID_WIRE_COMPILE);
  return large ? (size_t)c->wire->server->config->max_request_bytes : BRAID_WIRE_SMALL - BRAID_WIRE_HEADER;
}

/* --- out -----------------------------------------------------------------------------------------------------------
 * All of it with the lock. */
/* While much waits to be sent, nothing is read: who does not take answers may not ask for more. */
static void watch(wire_connection *c) {
  size_t most = (size_t)c->wire->server->config->max_request_bytes;
  uint32_t events = (c->out ? EPOLLOUT : 0u) | (c->out_bytes < most ? EPOLLIN | EPOLLRDHUP : 0u);
  if (events == c->events || c->file < 0) return;
  c->events = events;
  (void)epoll_ctl(c->wire->epoll, EPOLL_CTL_MOD, c->file, &(struct epoll_event){.events = events, .data.ptr = c});
}

/* The reading thread finds out, and ends it. */
static void break_off(wire_connection *c) {
  __atomic_store_n(&c->gone, 1, __ATOMIC_RELEASE);
  if (c->file >= 0) (void)shutdown(c->file, SHUT_RDWR);
}

static bool would_block(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static void chunk_free(wire_connection *c, wire_chunk *chunk) {
  if (chunk->counted) braid_serve_tenant_return(c->tenant, chunk->bytes);
  braid_free(NULL, chunk);
}

static void flush_out(wire_connection *c) {
  while (c->out && c->file >= 0) {
    wire_chunk *chunk = c->out;
    ssize_t count = send(c->file, chunk->data + chunk->used, chunk->bytes - chunk->used, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
      if (!would_block()) break_off(c);
      break;
    }
    c->out_ns = braid_now_ns();
    chunk->used += (size_t)count;
    c->out_bytes -= (size_t)count;
    if (chunk->used < chunk->bytes) continue;
    c->out = chunk->next;
    if (!c->out) c->out_last = NULL;
    chunk_free(c, chunk);
  }
  watch(c);
}

/* Keeps what stands behind the first `sent` bytes of the parts. */
static void keep_rest(wire_connection *c, const struct iovec *parts, size_t count, size_t sent, size_t total) {
  bool counted = c->tenant && braid_serve_tenant_reserve(c->tenant, total - sent);
  wire_chunk *chunk = counted || !c->tenant ? braid_alloc(NULL, sizeof *chunk + total - sent) : NULL;
  if (!chunk) { /* no memory, or more than a tenant may leave unread */
    if (counted) braid_serve_tenant_return(c->tenant, total - sent);
    break_off(c);
    return;
  }
  *chunk = (wire_chunk){.counted = counted};
  for (size_t i = 0; i < count; i++) {
    size_t from = sent < parts[i].iov_len ? sent : parts[i].iov_len, rest = parts[i].iov_len - from;
    if (rest) memcpy(chunk->data + chunk->bytes, (const uint8_t *)parts[i].iov_base + from, rest);
    chunk->bytes += rest;
    sent -= from;
  }
  if (!c->out) c->out_ns = braid_now_ns();
  if (c->out_last)
    c->out_last->next = chunk;
  else
    c->out = chunk;
  c->out_last = chunk;
  c->out_bytes += chunk->bytes;
  watch(c);
}

void braid_wire_send(wire_connection *c, const struct iovec *parts, size_t count) {
  size_t total = 0;
  for (size_t i = 0; i < count; i++) total += parts[i].iov_len;
  pthread_mutex_lock(&c->lock);
  if (c->file >= 0 && !__atomic_load_n(&c->gone, __ATOMIC_ACQUIRE)) {
    ssize_t sent = 0;
    if (!c->out) {
      struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};
      sent = sendmsg(c->file, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (sent < 0 && !would_block())
      break_off(c);
    else if (sent < 0 || (size_t)sent < total)
      keep_rest(c, parts, count, sent < 0 ? 0 : (size_t)sent, total);
  }
  pthread_mutex_unlock(&c->lock);
}

void braid_wire_break_off(wire_connection *c) {
  pthread_mutex_lock(&c->lock);
  break_off(c);
  pthread_mutex_unlock(&c->lock);
}

/* --- answers -------------------------------------------------------------------------------------------------------
 */
braid_wire_writer *braid_wire_answer(wire_connection *c, unsigned kind, uint64_t id, braid_serve_verdict verdict,
                                     const char *detail) {
  braid_wire_writer *writer = &c->wire->answer;
  braid_wire_begin(writer, kind | BRAID_WIRE_REPLY, id);
  braid_wire_put_status(writer, (unsigned)braid_serve_http_status(verdict), detail);
  return writer;
}

void braid_wire_answer_send(wire_connection *c, braid_wire_writer *writer) {
  braid_wire_end(writer, 0);
  if (!writer->failed) {
    braid_wire_send(c, &(struct iovec){writer->data, writer->length}, 1);
    return;
  }
  braid_wire_break_off(c);
}

void braid_wire_answer_status(wire_connection *c, const braid_wire_header *header, braid_serve_verdict verdict,
                              const char *format, ...) {
  char detail[BRAID_WIRE_DETAIL];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  braid_wire_answer_send(c, braid_wire_answer(c, header->kind & ~BRAID_WIRE_REPLY, header->id, verdict, detail));
}

/* --- in ------------------------------------------------------------------------------------------------------------
 */
static void drop_body(wire_connection *c) {
  braid_free(NULL, c->body);
  if (c->reserved) braid_serve_tenant_return(c->tenant, c->reserved);
  c->body = NULL;
  c->body_used = c->reserved = 0;
}

static void take_files(wire_connection *c, struct msghdr *message) {
  for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int file;
      memcpy(&file, CMSG_DATA(part) + i * sizeof file, sizeof file);
      if (c->tenant && c->file_count < BRAID_WIRE_FILES)
        c->files[c->file_count++] = file;
      else
        close(file);
    }
  }
}

/* As recv; descriptors that come along are kept. */
static ssize_t receive(wire_connection *c, void *to, size_t bytes) {
  if (!c->local) return recv(c->file, to, bytes, MSG_DONTWAIT);
  union {
    char bytes[CMSG_SPACE(sizeof(int) * BRAID_WIRE_FILES)];
    struct cmsghdr align;
  } control;
  struct iovec part = {to, bytes};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t count = recvmsg(c->file, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count >= 0 && message.msg_controllen) take_files(c, &message);
  return count;
}

/* What comes cannot be read as messages any more, or is not wanted: the sentence, and the end. */
static void refuse_all(wire_connection *c, const braid_wire_header *header, braid_serve_verdict verdict,
                       const char *detail) {
  braid_wire_answer_status(c, header, verdict, "%s", detail);
  c->ended = true;
}

/* Makes room for a body that `small` does not hold, or arranges that it is skipped. */
static void begin_body(wire_connection *c) {
  size_t bytes = (size_t)c->header.bytes;
  if (!braid_serve_tenant_reserve(c->tenant, bytes)) {
    braid_wire_answer_status(c, &c->header, BRAID_SERVE_OVER_QUOTA,
                             "tenant %s may have %lld bytes in flight; a message of %zu is too much now",
                             c->tenant->config->name, (long long)c->tenant->config->max_bytes, bytes);
    c->skip = bytes;
    return;
  }
  c->reserved = bytes;
  c->body = braid_alloc(NULL, bytes);
  if (c->body) return;
  drop_body(c);
  braid_wire_answer_status(c, &c->header, BRAID_SERVE_FAILED, "no memory for a message of %zu bytes", bytes);
  c->skip = bytes;
}

static void body_message(wire_connection *c) {
  if (c->header.kind == BRAID_WIRE_COMPILE && braid_wire_compile_message(c, &c->header, c->body)) {
    c->body = NULL; /* the job has it */
    c->reserved = 0;
  } else if (c->header.kind != BRAID_WIRE_COMPILE) {
    braid_wire_message(c, &c->header, c->body);
  }
  drop_body(c);
}

/* Takes `count` bytes at c->small + at, or fewer; returns how many. 0: the message is not whole. */
static size_t take_message(wire_connection *c, size_t at) {
  size_t rest = c->used - at;
  if (c->skip) {
    size_t count = c->skip < rest ? (size_t)c->skip : rest;
    c->skip -= count;
    return count;
  }
  if (rest < BRAID_WIRE_HEADER) return 0;
  const char *wrong = braid_wire_get_header(c->small + at, &c->header);
  if (wrong) {
    refuse_all(c, &(braid_wire_header){0}, BRAID_SERVE_INVALID, wrong);
    return rest;
  }
  char detail[BRAID_WIRE_DETAIL];
  if (c->header.bytes > most_body(c, c->header.kind)) {
    snprintf(detail, sizeof detail, "a message of %llu bytes; up to %zu are taken%s",
             (unsigned long long)c->header.bytes, most_body(c, c->header.kind), c->tenant ? "" : " before the hello");
    refuse_all(c, &c->header, BRAID_SERVE_TOO_LARGE, detail);
    return rest;
  }
  if (c->header.bytes <= BRAID_WIRE_SMALL - BRAID_WIRE_HEADER) {
    size_t whole = BRAID_WIRE_HEADER + (size_t)c->header.bytes;
    if (rest < whole) return 0;
    braid_wire_message(c, &c->header, c->small + at + BRAID_WIRE_HEADER);
    return whole;
  }
  begin_body(c);
  if (!c->body) return BRAID_WIRE_HEADER;
  rest -= BRAID_WIRE_HEADER; /* shorter than the body, which `small` does not hold */
  memcpy(c->body, c->small + at + BRAID_WIRE_HEADER, rest);
  c->body_used = rest;
  return rest + BRAID_WIRE_HEADER;
}

static void take_messages(wire_connection *c) {
  size_t at = 0, count;
  bool any = false;
  while (at < c->used && !c->ended) {
    bool skips = c->skip;
    count = take_message(c, at);
    if (!count) break;
    at += count;
    any |= !skips; /* bytes of a refused message are no progress */
  }
  if (c->ended) at = c->used;
  if (at) memmove(c->small, c->small + at, c->used - at);
  c->used -= at;
  bool partial = c->used || c->body || c->skip;
  if (!partial)
    c->frame_ns = 0;
  else if (any || !c->frame_ns)
    c->frame_ns = braid_now_ns();
}

/* False: it has ended. *out_more: there may be more to read. */
static bool read_once(wire_connection *c, size_t *total, bool *out_more) {
  uint8_t *to = c->body ? c->body + c->body_used : c->small + c->used;
  size_t room = c->body ? (size_t)c->header.bytes - c->body_used : sizeof c->small - c->used;
  if (room > kTurnBytes) room = kTurnBytes;
  ssize_t count = receive(c, to, room);
  *out_more = count == (ssize_t)room;
  if (count <= 0) return count < 0 && would_block();
  *total += (size_t)count;
  if (c->ended) return true; /* what still comes is nothing to us */
  if (!c->body) {
    c->used += (size_t)count;
    take_messages(c);
    return true;
  }
  c->body_used += (size_t)count;
  if (c->body_used < c->header.bytes) return true;
  body_message(c);
  c->frame_ns = 0;
  return true;
}

bool braid_wire_connection_serve(wire_connection *c, uint32_t events) {
  if (events & EPOLLOUT) {
    pthread_mutex_lock(&c->lock);
    flush_out(c);
    pthread_mutex_unlock(&c->lock);
  }
  if (events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLIN)) return false;
  size_t total = 0;
  bool more = events & (EPOLLIN | EPOLLRDHUP);
  for (int i = 0; i < kTurns && more && total < kTurnBytes; i++)
    if (!read_once(c, &total, &more)) return false;
  if (c->given) return false;
  if (!c->ended) return !__atomic_load_n(&c->gone, __ATOMIC_ACQUIRE);
  pthread_mutex_lock(&c->lock);
  if (!c->out) (void)shutdown(c->file, SHUT_WR); /* the client reads our last answer, and then the end */
  pthread_mutex_unlock(&c->lock);
  if (!c->frame_ns) c->frame_ns = braid_now_ns();
  return true;
}

bool braid_wire_connection_is_late(wire_connection *c, int64_t now_ns) {
  int64_t most = c->wire->receive_ns;
  pthread_mutex_lock(&c->lock);
  bool stuck = c->out && now_ns - c->out_ns > most;
  pthread_mutex_unlock(&c->lock);
  bool slow = c->frame_ns && now_ns - c->frame_ns > most;
  return stuck || slow || (!c->tenant && now_ns - c->connected_ns > most);
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
wire_connection *braid_wire_connection_create(struct braid_serve_wire *wire, int file, bool local) {
  wire_connection *c = braid_alloc(NULL, sizeof *c);
  if (!c) return NULL;
  memset(c, 0, offsetof(wire_connection, small));
  c->wire = wire;
  c->file = file;
  c->local = local;
  c->references = 1;
  c->connected_ns = braid_now_ns();
  pthread_mutex_init(&c->lock, NULL);
  c->events = EPOLLIN | EPOLLRDHUP;
  if (epoll_ctl(wire->epoll, EPOLL_CTL_ADD, file, &(struct epoll_event){.events = c->events, .data.ptr = c}) == 0)
    return c;
  c->file = -1;
  braid_wire_connection_release(c);
  return NULL;
}

void braid_wire_connection_release(wire_connection *c) {
  if (__atomic_sub_fetch(&c->references, 1, __ATOMIC_ACQ_REL)) return;
  pthread_mutex_destroy(&c->lock);
  braid_free(NULL, c);
}

void braid_wire_connection_end(wire_connection *c) {
  __atomic_store_n(&c->gone, 1, __ATOMIC_RELEASE);
  pthread_mutex_lock(&c->lock);
  if (c->file >= 0) {
    /* Closing alone is not enough where another process has the socket too, between fork and exec. */
    (void)epoll_ctl(c->wire->epoll, EPOLL_CTL_DEL, c->file, NULL);
    close(c->file);
  }
  c->file = -1;
  while (c->out) {
    wire_chunk *chunk = c->out;
    c->out = chunk->next;
    chunk_free(c, chunk);
  }
  pthread_mutex_unlock(&c->lock);
  drop_body(c);
  for (size_t i = 0; i < c->file_count; i++) close(c->files[i]);
  c->file_count = 0;
  braid_wire_harvest_end(c);
  braid_wire_cores_free_all(c);
  braid_wire_memory_free_all(c);
  while (c->compiled) {
    wire_compiled *compiled = c->compiled;
    c->compiled = compiled->next;
    braid_wire_compiled_release(compiled);
  }
}
