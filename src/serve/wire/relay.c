#include "serve/wire/relay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/try.h"
#include "braid/allocator.h"
#include "serve/wire/wire_format.h"

enum { kEvents = 64, kTurns = 16, kSweepMs = 500, SHAKES = 0, CARRIES = 1, WORKERS = 2 };
static const int64_t kLastNs = 1000000000; /* for the last bytes to go out, where the plain end is closed */

typedef struct relay_link relay_link;

/* A socket of a link, and what epoll watches of it. */
typedef struct relay_end {
  relay_link *link;
  int file;
  uint32_t events;
  bool watched;
  bool gone; /* closed by the other side: epoll would say so for ever, so it is not watched; what it left is read */
} relay_end;

struct relay_link {
  relay_link *next, *previous;
  relay_link *again_next, **again_slot; /* in its worker's list; NULL: it is not */
  braid_tls_stream *stream;
  relay_end network, plain;
  bool left;                /* it is in the list of those that leave their worker */
  bool shaken;              /* the handshake is done */
  bool drains;              /* it has failed: what comes is thrown away until somebody closes */
  bool in_ended, in_told;   /* the network says nothing more; the plain end was told */
  bool out_ended, out_told; /* the same the other way */
  int64_t gone_ns;          /* since when the plain end is closed */
  size_t in_at, in_used, out_at, out_used;
  uint8_t in[BRAID_TLS_RECORD], out[BRAID_TLS_RECORD];
};

typedef struct relay_worker {
  braid_tls_relay *relay;
  braid_thread thread;
  bool runs;
  int epoll, wake;             /* wake: an eventfd */
  relay_link *links, *leaving; /* leaving: after the events at hand */
  relay_link *again;           /* whose turns are over, where epoll does not say that there is more */
  pthread_mutex_t lock;        /* of the inbox */
  relay_link *inbox;
} relay_worker;

struct braid_tls_relay {
  braid_tls_context *context;
  int64_t receive_ns;
  int stop; /* atomic */
  relay_worker workers[WORKERS];
};

static bool would_block(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* --- links and workers ---------------------------------------------------------------------------------------------
 */
static void link_free(relay_link *link) {
  braid_tls_destroy(link->stream);
  if (link->network.file >= 0) close(link->network.file);
  if (link->plain.file >= 0) close(link->plain.file);
  braid_free(NULL, link);
}

static void worker_give(relay_worker *worker, relay_link *link) {
  pthread_mutex_lock(&worker->lock);
  link->next = worker->inbox;
  worker->inbox = link;
  pthread_mutex_unlock(&worker->lock);
  (void)eventfd_write(worker->wake, 1);
}

/* False: no memory. */
static bool end_watch(relay_worker *worker, relay_end *end, uint32_t events) {
  if (end->gone || (end->watched && end->events == events)) return true;
  struct epoll_event event = {.events = events, .data.ptr = end};
  end->watched = epoll_ctl(worker->epoll, end->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, end->file, &event) == 0;
  end->events = events;
  return end->watched;
}

static void end_forget(relay_worker *worker, relay_end *end) {
  if (end->watched) (void)epoll_ctl(worker->epoll, EPOLL_CTL_DEL, end->file, NULL);
  end->watched = false;
}

static void link_again(relay_worker *worker, relay_link *link) {
  if (link->again_slot) return;
  link->again_next = worker->again;
  link->again_slot = &worker->again;
  if (link->again_next) link->again_next->again_slot = &link->again_next;
  worker->again = link;
}

static void link_not_again(relay_link *link) {
  if (!link->again_slot) return;
  *link->again_slot = link->again_next;
  if (link->again_next) link->again_next->again_slot = link->again_slot;
  link->again_next = NULL;
  link->again_slot = NULL;
}

/* Leaves the worker: for the one that carries, if all is well, or for good. */
static void link_leave(relay_worker *worker, relay_link *link) {
  end_forget(worker, &link->network);
  end_forget(worker, &link->plain);
  link_not_again(link);
  if (link->next) link->next->previous = link->previous;
  if (link->previous)
    link->previous->next = link->next;
  else
    worker->links = link->next;
  link->left = true;
  link->next = worker->leaving;
  worker->leaving = link;
}

static void link_lose(relay_worker *worker, relay_link *link) {
  link->shaken = false;
  link_leave(worker, link);
}

/* --- the handshake -------------------------------------------------------------------------------------------------
 */
/* In the words of the protocol that it speaks. */
static void send_refusal(const relay_link *link) {
  braid_wire_writer writer = {0};
  braid_wire_begin(&writer, BRAID_WIRE_NOTICE | BRAID_WIRE_REPLY, 0);
  braid_wire_put_status(&writer, 400, "this port speaks TLS: tls:HOST:PORT is the address");
  braid_wire_end(&writer, 0);
  if (!writer.failed) (void)!send(link->network.file, writer.data, writer.length, MSG_DONTWAIT | MSG_NOSIGNAL);
  braid_wire_free(&writer);
}

/* What the other side has sent is read, since closing over it would take the refusal from it. */
static void link_drain(relay_worker *worker, relay_link *link) {
  ssize_t count = 1;
  for (int i = 0; i < kTurns && count > 0; i++)
    count = recv(link->network.file, link->in, sizeof link->in, MSG_DONTWAIT);
  if (count == 0 || (count < 0 && !would_block())) link_lose(worker, link);
}

static void link_refuse(relay_worker *worker, relay_link *link) {
  if (braid_tls_is_plain(link->stream)) send_refusal(link);
  link->drains = true;
  (void)shutdown(link->network.file, SHUT_WR);
  if (end_watch(worker, &link->network, EPOLLIN) && end_watch(worker, &link->plain, 0))
    link_drain(worker, link);
  else
    link_lose(worker, link);
}

static void link_shake(relay_worker *worker, relay_link *link) {
  braid_tls_result result = braid_tls_handshake(link->stream);
  if (result == BRAID_TLS_DONE) {
    link->shaken = true;
    link_leave(worker, link);
  } else if (result != BRAID_TLS_READ && result != BRAID_TLS_WRITE) {
    link_refuse(worker, link);
  } else if (!end_watch(worker, &link->network, result == BRAID_TLS_READ ? EPOLLIN : EPOLLOUT) ||
             !end_watch(worker, &link->plain, 0)) { /* 0: whether it is closed */
    link_lose(worker, link);
  }
}

/* --- carrying ------------------------------------------------------------------------------------------------------
 * Each returns whether it got on; lost: the link is to end. */
static bool carry_in(relay_link *link, bool *lost) {
  bool moved = false;
  if (!link->in_used && !link->in_ended) {
    ssize_t count = braid_tls_receive(link->stream, link->in, sizeof link->in);
    if (count < 0 && !would_block()) *lost = true;
    if (count == 0) link->in_ended = true;
    if (count > 0) link->in_used = (size_t)count;
    link->in_at = 0;
    moved = count >= 0;
  }
  if (link->in_at < link->in_used && !link->plain.gone) {
    ssize_t count =
        send(link->plain.file, link->in + link->in_at, link->in_used - link->in_at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) link->in_at += (size_t)count;
    moved |= count > 0;
  }
  if (link->in_at == link->in_used || link->plain.gone) link->in_at = link->in_used = 0;
  if (link->in_ended && !link->in_used && !link->in_told) {
    (void)shutdown(link->plain.file, SHUT_WR);
    link->in_told = moved = true;
  }
  return moved;
}

static bool carry_out(relay_link *link, bool *lost) {
  bool moved = false;
  if (!link->out_used && !link->out_ended) {
    ssize_t count = recv(link->plain.file, link->out, sizeof link->out, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && !would_block())) link->out_ended = true;
    if (count > 0) link->out_used = (size_t)count;
    link->out_at = 0;
    moved = count > 0 || link->out_ended;
  }
  if (link->out_used) {
    struct iovec part = {link->out + link->out_at, link->out_used - link->out_at};
    ssize_t count = braid_tls_send(link->stream, &part, 1);
    if (count < 0 && !would_block()) *lost = true;
    if (count > 0) link->out_at += (size_t)count;
    if (link->out_at == link->out_used) link->out_at = link->out_used = 0;
    moved |= count > 0;
  }
  if (link->out_ended && !link->out_used && !link->out_told) {
    braid_tls_say_end(link->stream);
    (void)shutdown(link->network.file, SHUT_WR);
    link->out_told = moved = true;
  }
  return moved;
}

/* Both ends have been told, or the plain one needs not be: who goes on sending to it is not listened to. */
static bool link_is_over(const relay_link *link) {
  return link->out_told && (link->in_told || link->plain.gone);
}

static void link_carry(relay_worker *worker, relay_link *link) {
  bool lost = false, moved = true;
  for (int i = 0; i < kTurns && moved && !lost && !link_is_over(link); i++) {
    moved = carry_in(link, &lost);
    if (!lost) moved |= carry_out(link, &lost);
  }
  uint32_t network = (link->in_used || link->in_ended ? 0u : (uint32_t)EPOLLIN) | (link->out_used ? EPOLLOUT : 0u);
  uint32_t plain = (link->out_used || link->out_ended ? 0u : (uint32_t)EPOLLIN) | (link->in_used ? EPOLLOUT : 0u);
  if (lost || link_is_over(link) || !end_watch(worker, &link->network, network) ||
      !end_watch(worker, &link->plain, plain))
    link_lose(worker, link);
  else if (moved && (link->network.gone || link->plain.gone))
    link_again(worker, link);
}

/* --- a thread ------------------------------------------------------------------------------------------------------
 */
static void link_serve(relay_worker *worker, relay_end *end, uint32_t events) {
  relay_link *link = end->link;
  bool plain = end == &link->plain;
  if (events & (EPOLLHUP | EPOLLERR)) {
    end_forget(worker, end);
    end->gone = true;
    if (plain) link->gone_ns = braid_now_ns();
    if (!link->shaken) {
      link_lose(worker, link);
      return;
    }
  }
  if (link->drains)
    link_drain(worker, link);
  else if (!link->shaken)
    link_shake(worker, link);
  else
    link_carry(worker, link);
}

static void take_inbox(relay_worker *worker) {
  eventfd_t value;
  (void)eventfd_read(worker->wake, &value);
  pthread_mutex_lock(&worker->lock);
  relay_link *link = worker->inbox;
  worker->inbox = NULL;
  pthread_mutex_unlock(&worker->lock);
  for (relay_link *next; link; link = next) {
    next = link->next;
    link->left = false;
    link->previous = NULL;
    link->next = worker->links;
    if (link->next) link->next->previous = link;
    worker->links = link;
    if (link->shaken)
      link_carry(worker, link);
    else
      link_shake(worker, link);
  }
}

/* Those that are to go on after this come once more: events, stop and late links are looked at between. */
static void carry_again(relay_worker *worker) {
  relay_link *first = worker->again;
  worker->again = NULL;
  if (first) first->again_slot = &first;
  while (first) {
    relay_link *link = first;
    link_not_again(link);
    link_carry(worker, link);
  }
}

static void let_leave(relay_worker *worker) {
  while (worker->leaving) {
    relay_link *link = worker->leaving;
    worker->leaving = link->next;
    if (link->shaken)
      worker_give(&worker->relay->workers[CARRIES], link);
    else
      link_free(link);
  }
}

/* Who stops within a record, and who does not take the last bytes. */
static void sweep(relay_worker *worker, int64_t now_ns) {
  for (relay_link *link = worker->links, *next; link; link = next) {
    next = link->next;
    int64_t began_ms = link->shaken ? braid_tls_record_began_ms(link->stream) : 0;
    bool slow = began_ms && now_ns - began_ms * 1000000 > worker->relay->receive_ns;
    if (slow || (link->plain.gone && now_ns - link->gone_ns > kLastNs)) link_lose(worker, link);
  }
}

static void *worker_main(void *context) {
  relay_worker *worker = context;
  struct epoll_event events[kEvents];
  int64_t sweep_ns = kSweepMs * INT64_C(1000000), swept = braid_now_ns(), until = 0;
  if (worker->relay->receive_ns / 4 < sweep_ns) sweep_ns = worker->relay->receive_ns / 4 + 1000000;
  for (;;) {
    bool stop = __atomic_load_n(&worker->relay->stop, __ATOMIC_ACQUIRE);
    if (stop && !until) until = braid_now_ns() + kLastNs;
    if (stop && (!worker->links || braid_now_ns() > until)) break;
    int timeout = worker->again ? 0 : stop ? 5 : worker->links ? (int)(sweep_ns / 1000000) : -1;
    int count = epoll_wait(worker->epoll, events, kEvents, timeout);
    for (int i = 0; i < count; i++) {
      relay_end *end = events[i].data.ptr;
      if (!end)
        take_inbox(worker);
      else if (!end->link->left)
        link_serve(worker, end, events[i].events);
    }
    carry_again(worker);
    int64_t now = braid_now_ns();
    if (now - swept >= sweep_ns) {
      sweep(worker, now);
      swept = now;
    }
    let_leave(worker);
  }
  return NULL;
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static braid_status worker_start(braid_tls_relay *relay, int which) {
  relay_worker *worker = &relay->workers[which];
  worker->epoll = epoll_create1(EPOLL_CLOEXEC);
  worker->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (worker->epoll < 0 || worker->wake < 0 ||
      epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->wake,
                &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL}) != 0)
    return braid_fail(BRAID_IO, "TLS of Braid's protocol: %s", strerror(errno));
  BRAID_TRY(braid_thread_start(&worker->thread, which == SHAKES ? "braid-shake" : "braid-tls", worker_main, worker));
  worker->runs = true;
  return BRAID_OK;
}

braid_status braid_tls_relay_create(const braid_tls_files *files, int64_t receive_ns, braid_tls_relay **out) {
  char why[BRAID_TLS_WHY];
  *out = NULL;
  braid_tls_relay *relay = braid_zalloc(NULL, sizeof *relay);
  if (!relay) return BRAID_NO_MEMORY;
  relay->receive_ns = receive_ns;
  for (int i = 0; i < WORKERS; i++) {
    relay->workers[i] = (relay_worker){.relay = relay, .epoll = -1, .wake = -1};
    pthread_mutex_init(&relay->workers[i].lock, NULL);
  }
  braid_status status = braid_tls_context_create(true, files, &relay->context, why)
                            ? BRAID_OK
                            : braid_fail(BRAID_INVALID_FILE, "TLS of wire_port: %s", why);
  for (int i = 0; i < WORKERS && status == BRAID_OK; i++) status = worker_start(relay, i);
  if (status == BRAID_OK)
    *out = relay;
  else
    braid_tls_relay_destroy(relay);
  return status;
}

braid_status braid_tls_relay_adopt(braid_tls_relay *relay, int network, int *out_plain) {
  char why[BRAID_TLS_WHY];
  int pair[2];
  *out_plain = -1;
  relay_link *link = braid_alloc(NULL, sizeof *link);
  if (!link) return BRAID_NO_MEMORY;
  memset(link, 0, offsetof(relay_link, in));
  link->network = (relay_end){.link = link, .file = -1};
  link->plain = (relay_end){.link = link, .file = -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
    int reason = errno;
    link_free(link);
    return braid_fail(BRAID_IO, "no sockets for a connection: %s", strerror(reason));
  }
  link->plain.file = pair[0];
  if (!braid_tls_stream_create(relay->context, network, NULL, &link->stream, why)) {
    link_free(link);
    close(pair[1]);
    return braid_fail(BRAID_NO_MEMORY, "%s", why);
  }
  link->network.file = network;
  *out_plain = pair[1];
  worker_give(&relay->workers[SHAKES], link);
  return BRAID_OK;
}

void braid_tls_relay_destroy(braid_tls_relay *relay) {
  if (!relay) return;
  __atomic_store_n(&relay->stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < WORKERS; i++) {
    relay_worker *worker = &relay->workers[i];
    if (worker->wake >= 0) (void)eventfd_write(worker->wake, 1);
    if (worker->runs) braid_thread_join(&worker->thread);
  }
  for (int i = 0; i < WORKERS; i++) { /* the first may have given links to the second after that had ended */
    relay_worker *worker = &relay->workers[i];
    relay_link **lists[] = {&worker->links, &worker->leaving, &worker->inbox};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
      while (*lists[k]) {
        relay_link *link = *lists[k];
        *lists[k] = link->next;
        link_free(link);
      }
    if (worker->wake >= 0) close(worker->wake);
    if (worker->epoll >= 0) close(worker->epoll);
    pthread_mutex_destroy(&worker->lock);
  }
  braid_tls_context_destroy(relay->context);
  braid_free(NULL, relay);
}
