/* The front end's life: sockets, the thread that reads them, and its end. */
#include "serve/wire/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/try.h"

enum { kEvents = 64, kAccepts = 32, kSweepMs = 500 };
static const int64_t kLastNs = 1000000000; /* for the last answers to go out, when the daemon stops */

/* --- connections ---------------------------------------------------------------------------------------------------
 */
static void listen_for(struct braid_serve_wire *wire, bool listening) {
  wire->paused = !listening;
  for (size_t i = 0; i < 2; i++)
    if (wire->listeners[i] >= 0)
      (void)epoll_ctl(wire->epoll, EPOLL_CTL_MOD, wire->listeners[i],
                      &(struct epoll_event){.events = listening ? EPOLLIN : 0u, .data.ptr = &wire->listeners[i]});
}

/* In a message, which the socket of a new connection has room for. */
static void turn_away(struct braid_serve_wire *wire, int file) {
  char detail[BRAID_WIRE_DETAIL];
  snprintf(detail, sizeof detail, "the daemon has %zu connections, as many as it may", wire->count);
  braid_wire_writer *writer = &wire->answer;
  braid_wire_begin(writer, BRAID_WIRE_NOTICE | BRAID_WIRE_REPLY, 0);
  braid_wire_put_status(writer, (unsigned)braid_serve_http_status(BRAID_SERVE_UNAVAILABLE), detail);
  braid_wire_end(writer, 0);
  if (!writer->failed) (void)!send(file, writer->data, writer->length, MSG_DONTWAIT | MSG_NOSIGNAL);
  close(file);
}

/* Its memory stays until the events at hand are done, which may be its own. */
static void end_connection(wire_connection *c) {
  struct braid_serve_wire *wire = c->wire;
  if (c->next) c->next->previous = c->previous;
  if (c->previous)
    c->previous->next = c->next;
  else
    wire->connections = c->next;
  wire->count--;
  braid_wire_connection_end(c);
  c->next = wire->dead;
  wire->dead = c;
}

/* Whoever has not said who they are makes room first, the longest silent one. False: there is none. */
static bool drop_stranger(struct braid_serve_wire *wire) {
  wire_connection *oldest = NULL; /* new ones are put first */
  for (wire_connection *c = wire->connections; c; c = c->next)
    if (!c->tenant) oldest = c;
  if (oldest) end_connection(oldest);
  return oldest != NULL;
}

/* Of a socket of TCP: answers leave at once, and a client whose machine is gone frees what it has in a minute. */
static void set_up(int file) {
  int one = 1, idle = 30, between = 10, count = 3;
  (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  (void)setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  (void)setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  (void)setsockopt(file, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  (void)setsockopt(file, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static void accept_some(struct braid_serve_wire *wire, const int *listener) {
  bool local = listener == &wire->listeners[0];
  for (int i = 0; i < kAccepts; i++) {
    int file = accept4(*listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) listen_for(wire, false);
      return;
    }
    if (wire->count >= (size_t)wire->server->config->max_connections && !drop_stranger(wire)) {
      turn_away(wire, file);
      continue;
    }
    if (!local) set_up(file);
    braid_tls_relay *relay = local ? NULL : wire->server->relay;
    int plain = file;
    if (relay && braid_tls_relay_adopt(relay, file, &plain) != BRAID_OK) {
      close(file);
      continue;
    }
    file = plain;
    wire_connection *c = braid_wire_connection_create(wire, file, local);
    if (!c) {
      close(file);
      continue;
    }
    c->next = wire->connections;
    if (c->next) c->next->previous = c;
    wire->connections = c;
    wire->count++;
  }
}

static void release_dead(struct braid_serve_wire *wire) {
  while (wire->dead) {
    wire_connection *c = wire->dead;
    wire->dead = c->next;
    braid_wire_connection_release(c);
  }
}

static void sweep(struct braid_serve_wire *wire, int64_t now) {
  for (wire_connection *c = wire->connections, *next; c; c = next) {
    next = c->next;
    if (braid_wire_connection_is_late(c, now)) end_connection(c);
  }
  if (wire->paused) listen_for(wire, true);
}

static bool has_answers(struct braid_serve_wire *wire) {
  bool any = false;
  for (wire_connection *c = wire->connections; c && !any; c = c->next) {
    pthread_mutex_lock(&c->lock);
    any = c->out != NULL;
    pthread_mutex_unlock(&c->lock);
  }
  return any;
}

static bool is_of(const struct braid_serve_wire *wire, const void *pointer) {
  return pointer == &wire->listeners[0] || pointer == &wire->listeners[1];
}

static void *reader_main(void *context) {
  struct braid_serve_wire *wire = context;
  struct epoll_event events[kEvents];
  int64_t spin_ns = wire->server->config->spin_us * 1000, spins_until = 0; /* a thread that sleeps is woken slowly */
  int64_t sweep_ns = kSweepMs * INT64_C(1000000), swept = braid_now_ns(), until = 0;
  if (wire->receive_ns / 4 < sweep_ns) sweep_ns = wire->receive_ns / 4 + 1000000;
  for (;;) {
    bool stop = __atomic_load_n(&wire->stop, __ATOMIC_ACQUIRE);
    if (stop && !until) until = braid_now_ns() + kLastNs;
    if (stop && (!has_answers(wire) || braid_now_ns() > until)) break;
    int timeout = stop ? 5 : wire->count || wire->paused ? (int)(sweep_ns / 1000000) : -1;
    bool spins = spin_ns && braid_now_ns() < spins_until;
    int count = epoll_wait(wire->epoll, events, kEvents, spins ? 0 : timeout);
    if (count > 0 && spin_ns) spins_until = braid_now_ns() + spin_ns;
    if (spins && !count) {
      sched_yield(); /* whoever has work goes first */
      continue;
    }
    for (int i = 0; i < count; i++) {
      void *pointer = events[i].data.ptr;
      if (pointer == &wire->wake) {
        eventfd_t value;
        (void)eventfd_read(wire->wake, &value);
        braid_wire_compile_finish(wire);
      } else if (is_of(wire, pointer)) {
        accept_some(wire, pointer);
      } else {
        wire_connection *c = pointer;
        wire->alone = count == 1;
        if (c->file >= 0 && !braid_wire_connection_serve(c, events[i].events)) end_connection(c);
      }
    }
    int64_t now = braid_now_ns();
    if (now - swept >= sweep_ns) {
      sweep(wire, now);
      swept = now;
    }
    release_dead(wire);
  }
  while (wire->connections) end_connection(wire->connections);
  release_dead(wire);
  return NULL;
}

/* --- sockets -------------------------------------------------------------------------------------------------------
 */
static braid_status add_listener(struct braid_serve_wire *wire, int which, int file) {
  if (listen(file, 1024) == 0 &&
      epoll_ctl(wire->epoll, EPOLL_CTL_ADD, file,
                &(struct epoll_event){.events = EPOLLIN, .data.ptr = &wire->listeners[which]}) == 0) {
    wire->listeners[which] = file;
    return BRAID_OK;
  }
  int reason = errno;
  close(file);
  return braid_fail(BRAID_IO, "cannot listen for Braid's protocol: %s", strerror(reason));
}

/* Removes what a daemon that was killed has left; not another's socket, and no other file. */
static braid_status clear_path(const struct sockaddr_un *address) {
  struct stat facts;
  if (lstat(address->sun_path, &facts) != 0) return BRAID_OK;
  if (!S_ISSOCK(facts.st_mode))
    return braid_fail(BRAID_IO, "socket %s: a file that is no socket is there", address->sun_path);
  int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool alive = file >= 0 && connect(file, (const struct sockaddr *)address, sizeof *address) == 0;
  bool dead = file >= 0 && !alive && errno == ECONNREFUSED;
  if (file >= 0) close(file);
  if (dead) (void)unlink(address->sun_path);
  return dead ? BRAID_OK : braid_fail(BRAID_IO, "socket %s: another program listens there", address->sun_path);
}

static braid_status open_local(struct braid_serve_wire *wire, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path)
    return braid_fail(BRAID_INVALID_ARGUMENT, "socket %.150s: a path of at most %zu bytes is expected", path,
                      sizeof address.sun_path - 1);
  strcpy(address.sun_path, path);
  BRAID_TRY(clear_path(&address));
  int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct stat facts;
  if (file < 0 || bind(file, (struct sockaddr *)&address, sizeof address) != 0 || lstat(path, &facts) != 0) {
    int reason = errno;
    if (file >= 0) close(file);
    return braid_fail(BRAID_IO, "socket %s: %s", path, strerror(reason));
  }
  strcpy(wire->path, path);
  wire->device = facts.st_dev;
  wire->inode = facts.st_ino;
  return add_listener(wire, 0, file);
}

static braid_status open_tcp(struct braid_serve_wire *wire, const char *address, int port) {
  struct addrinfo *found,
      hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  int code = getaddrinfo(address, service, &hints, &found), one = 1;
  if (code) return braid_fail(BRAID_INVALID_ARGUMENT, "address %.100s: %s", address, gai_strerror(code));
  int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  (void)setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  bool bound = file >= 0 && bind(file, found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  struct sockaddr_storage own;
  socklen_t length = sizeof own;
  if (!bound || getsockname(file, (struct sockaddr *)&own, &length) != 0) {
    int reason = errno;
    if (file >= 0) close(file);
    return braid_fail(BRAID_IO, "cannot listen on %.100s, port %d: %s", address, port, strerror(reason));
  }
  wire->port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                               : ((struct sockaddr_in *)&own)->sin_port);
  return add_listener(wire, 1, file);
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static braid_status open_wire(struct braid_serve_wire *wire) {
  const braid_server *server = wire->server;
  wire->epoll = epoll_create1(EPOLL_CLOEXEC);
  wire->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wire->epoll < 0 || wire->wake < 0 ||
      epoll_ctl(wire->epoll, EPOLL_CTL_ADD, wire->wake,
                &(struct epoll_event){.events = EPOLLIN, .data.ptr = &wire->wake}) != 0)
    return braid_fail(BRAID_IO, "Braid's protocol: %s", strerror(errno));
  if (server->socket) BRAID_TRY(open_local(wire, server->socket));
  if (server->wire_port >= 0) BRAID_TRY(open_tcp(wire, server->config->address, server->wire_port));
  BRAID_TRY(braid_thread_start(&wire->compiler, "braid-compile", braid_wire_compiler_main, wire));
  wire->compiles = true;
  BRAID_TRY(braid_thread_start(&wire->filler, "braid-fill", braid_wire_filler_main, wire));
  wire->fills = true;
  BRAID_TRY(braid_thread_start(&wire->reader, "braid-wire", reader_main, wire));
  wire->reading = true;
  return BRAID_OK;
}

braid_status braid_serve_wire_start(braid_server *server, struct braid_serve_wire **out) {
  *out = NULL;
  struct braid_serve_wire *wire = braid_zalloc(NULL, sizeof *wire);
  if (!wire) return BRAID_NO_MEMORY;
  wire->server = server;
  wire->filling_end = &wire->filling;
  wire->epoll = wire->wake = wire->listeners[0] = wire->listeners[1] = -1;
  wire->receive_ns = (int64_t)(server->config->receive_ms * 1e6);
  pthread_mutex_init(&wire->lock, NULL);
  pthread_cond_init(&wire->changed, NULL);
  braid_status status = open_wire(wire);
  if (status == BRAID_OK)
    *out = wire;
  else
    braid_serve_wire_stop(wire);
  return status;
}

void braid_serve_wire_stop(struct braid_serve_wire *wire) {
  if (!wire) return;
  pthread_mutex_lock(&wire->lock);
  __atomic_store_n(&wire->ending, 1, __ATOMIC_RELEASE);
  pthread_cond_broadcast(&wire->changed);
  pthread_mutex_unlock(&wire->lock);
  if (wire->compiles) braid_thread_join(&wire->compiler);
  if (wire->fills) braid_thread_join(&wire->filler); /* what it had is answered */
  __atomic_store_n(&wire->stop, 1, __ATOMIC_RELEASE);
  if (wire->wake >= 0) (void)eventfd_write(wire->wake, 1);
  if (wire->reading) braid_thread_join(&wire->reader);
  braid_wire_filler_drop(wire);
  braid_wire_compile_drop(wire);
  struct stat facts;
  if (wire->path[0] && lstat(wire->path, &facts) == 0 && facts.st_dev == wire->device && facts.st_ino == wire->inode)
    (void)unlink(wire->path);
  for (size_t i = 0; i < 2; i++)
    if (wire->listeners[i] >= 0) close(wire->listeners[i]);
  if (wire->wake >= 0) close(wire->wake);
  if (wire->epoll >= 0) close(wire->epoll);
  braid_wire_free(&wire->answer);
  braid_serve_files_free(&wire->listing.files);
  pthread_mutex_destroy(&wire->lock);
  pthread_cond_destroy(&wire->changed);
  braid_free(NULL, wire);
}

int braid_serve_wire_port(const struct braid_serve_wire *wire) {
  return wire->port;
}

const char *braid_serve_wire_path(const struct braid_serve_wire *wire) {
  return wire->path[0] ? wire->path : NULL;
}
