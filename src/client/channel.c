#include "client/channel.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static _Thread_local char sentence[1024];

const char *braid_client_error(void) {
  return sentence;
}

braid_client_status client_fail(braid_client_status status, const char *format, ...) {
  char text[sizeof sentence]; /* the arguments may be the sentence */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  memcpy(sentence, text, sizeof text);
  return status;
}

int64_t client_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t client_deadline(int64_t timeout_ms) {
  int64_t now = client_now_ms();
  return timeout_ms < 0 ? -1 : timeout_ms < INT64_MAX - now ? now + timeout_ms : INT64_MAX;
}

static int rest_ms(int64_t deadline_ms) {
  if (deadline_ms < 0) return -1;
  int64_t rest = deadline_ms - client_now_ms();
  return rest < 0 ? 0 : rest > INT32_MAX ? INT32_MAX : (int)rest;
}

/* The connection cannot be used any more: everybody who waits learns why. The first reason stays. */
static braid_client_status channel_break(braid_client *client, braid_client_status status, const char *why) {
  pthread_mutex_lock(&client->lock);
  if (client->broken == BRAID_CLIENT_OK) {
    client->broken = status;
    snprintf(client->why, sizeof client->why, "%s", why);
  }
  status = client->broken;
  pthread_cond_broadcast(&client->changed);
  pthread_mutex_unlock(&client->lock);
  return client_fail(status, "%s", client->why);
}

void client_break(braid_client *client, const char *why) {
  (void)channel_break(client, BRAID_CLIENT_LOST, why);
  (void)shutdown(client->file, SHUT_RDWR); /* wakes who polls it */
}

/* --- answers -------------------------------------------------------------------------------------------------------
 */
/* Hands the body of a whole answer to whoever waits for it; takes the memory. */
static void deliver(braid_client *client, const braid_wire_header *header, uint8_t *body) {
  pthread_mutex_lock(&client->lock);
  client->counters.bytes_received += BRAID_WIRE_HEADER + header->bytes;
  client_ticket **link = &client->tickets;
  while (*link && (*link)->id != header->id) link = &(*link)->next;
  client_ticket *ticket = *link;
  if (ticket) {
    *link = ticket->next;
    ticket->body = body;
    ticket->bytes = (size_t)header->bytes;
    ticket->done = true;
    pthread_cond_broadcast(&client->changed);
  }
  pthread_mutex_unlock(&client->lock);
  if (!ticket) free(body); /* of a launch that nobody waits for any more */
}

/* The daemon says something of no message of ours, and ends. */
static braid_client_status take_notice(braid_client *client, const uint8_t *body, size_t bytes) {
  braid_wire_reader reader = {.data = body, .bytes = bytes};
  braid_wire_status status;
  braid_wire_get_status(&reader, &status);
  if (reader.wrong) return channel_break(client, BRAID_CLIENT_PROTOCOL, reader.wrong);
  return channel_break(client, (braid_client_status)status.code, status.detail);
}

/* Takes a message at client->in + at, or begins its body; returns the bytes taken, 0: it is not whole. */
static size_t take_answer(braid_client *client, size_t at, braid_client_status *status) {
  size_t rest = client->in_used - at;
  if (rest < BRAID_WIRE_HEADER) return 0;
  braid_wire_header *header = &client->header;
  const char *wrong = braid_wire_get_header(client->in + at, header);
  if (!wrong && !(header->kind & BRAID_WIRE_REPLY)) wrong = "the other side sends no answers: it is no daemon of Braid";
  if (!wrong && header->bytes > client->max_answer) wrong = "the answer has more bytes than max_answer";
  if (wrong) {
    *status = channel_break(client, BRAID_CLIENT_PROTOCOL, wrong);
    return 0;
  }
  bool whole = header->bytes <= rest - BRAID_WIRE_HEADER;
  if (!whole && header->bytes <= CLIENT_IN - BRAID_WIRE_HEADER) return 0;
  uint8_t *body = malloc(header->bytes ? (size_t)header->bytes : 1);
  if (!body) {
    *status = channel_break(client, BRAID_CLIENT_NO_MEMORY, "no memory for an answer");
    return 0;
  }
  size_t have = whole ? (size_t)header->bytes : rest - BRAID_WIRE_HEADER;
  memcpy(body, client->in + at + BRAID_WIRE_HEADER, have);
  if (!whole) {
    client->body = body;
    client->body_used = have;
  } else if (header->kind == (BRAID_WIRE_NOTICE | BRAID_WIRE_REPLY)) {
    *status = take_notice(client, body, have);
    free(body);
  } else {
    deliver(client, header, body);
  }
  return have + BRAID_WIRE_HEADER;
}

/* Why the socket failed. */
static const char *channel_reason(const braid_client *client, int reason) {
  return client->tls ? braid_tls_why(client->tls) : strerror(reason);
}

/* Reads what is there, and delivers what is whole of it. */
static braid_client_status channel_read(braid_client *client) {
  bool large = client->body != NULL;
  uint8_t *to = large ? client->body + client->body_used : client->in + client->in_used;
  size_t room = large ? (size_t)client->header.bytes - client->body_used : CLIENT_IN - client->in_used;
  ssize_t count = client->tls ? braid_tls_receive(client->tls, to, room) : recv(client->file, to, room, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return BRAID_CLIENT_OK;
  if (count <= 0) {
    char why[BRAID_WIRE_DETAIL];
    snprintf(why, sizeof why, "the connection has ended: %.400s",
             count ? channel_reason(client, errno) : "the daemon closed it");
    return channel_break(client, BRAID_CLIENT_LOST, why);
  }
  if (large) {
    client->body_used += (size_t)count;
    if (client->body_used < client->header.bytes) return BRAID_CLIENT_OK;
    uint8_t *body = client->body;
    client->body = NULL;
    deliver(client, &client->header, body);
    return BRAID_CLIENT_OK;
  }
  client->in_used += (size_t)count;
  size_t at = 0, taken;
  braid_client_status status = BRAID_CLIENT_OK;
  while (!client->body && (taken = take_answer(client, at, &status)) > 0) at += taken;
  if (at) memmove(client->in, client->in + at, client->in_used - at);
  client->in_used -= at;
  return status;
}

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* poll(), which does not see what TLS has taken from the socket already. */
static int channel_poll(braid_client *client, struct pollfd *poller, int timeout_ms) {
  if (client->tls && poller->events & POLLIN && braid_tls_has_pending(client->tls)) {
    poller->revents = POLLIN;
    return 1;
  }
  return poll(poller, 1, timeout_ms);
}

/* Waits for a while for something to read; the role of the reader is this thread's. */
static braid_client_status read_for(braid_client *client, int64_t deadline_ms) {
  struct pollfd poller = {.fd = client->file, .events = POLLIN};
  int64_t until = client->spin_us > 0 ? now_us() + client->spin_us : 0;
  int ready = 0;
  while (until && !ready && now_us() < until) {
    ready = channel_poll(client, &poller, 0);
    if (!ready) sched_yield();
  }
  if (!ready) ready = channel_poll(client, &poller, rest_ms(deadline_ms));
  if (ready < 0 && errno != EINTR) return channel_break(client, BRAID_CLIENT_LOST, strerror(errno));
  return ready > 0 ? channel_read(client) : BRAID_CLIENT_OK;
}

static void wait_for_reader(braid_client *client, int64_t deadline_ms) {
  if (deadline_ms < 0) {
    pthread_cond_wait(&client->changed, &client->lock);
    return;
  }
  struct timespec until = {deadline_ms / 1000, deadline_ms % 1000 * 1000000};
  (void)pthread_cond_timedwait(&client->changed, &client->lock, &until);
}

braid_client_status client_await(braid_client *client, client_ticket *ticket, int64_t deadline_ms) {
  braid_client_status status = BRAID_CLIENT_OK;
  bool looked = false;
  pthread_mutex_lock(&client->lock);
  while (!ticket->done && client->broken == BRAID_CLIENT_OK) {
    if (looked && deadline_ms >= 0 && client_now_ms() >= deadline_ms) {
      status = BRAID_CLIENT_TIMEOUT;
      break;
    }
    looked = true;
    if (client->reading) {
      wait_for_reader(client, deadline_ms);
      continue;
    }
    client->reading = true;
    pthread_mutex_unlock(&client->lock);
    (void)read_for(client, deadline_ms); /* what went wrong is in client->broken */
    pthread_mutex_lock(&client->lock);
    client->reading = false;
    pthread_cond_broadcast(&client->changed); /* somebody else may have to read now */
  }
  if (!ticket->done && client->broken != BRAID_CLIENT_OK) status = client->broken;
  pthread_mutex_unlock(&client->lock);
  if (status == BRAID_CLIENT_TIMEOUT) return client_fail(status, "no answer came in time");
  return status == BRAID_CLIENT_OK ? status : client_fail(status, "%s", client->why);
}

void client_abandon(braid_client *client, client_ticket *ticket) {
  pthread_mutex_lock(&client->lock);
  client_ticket **link = &client->tickets;
  while (*link && *link != ticket) link = &(*link)->next;
  if (*link) *link = ticket->next;
  pthread_mutex_unlock(&client->lock);
  free(ticket->body);
  ticket->body = NULL;
}

/* --- messages ------------------------------------------------------------------------------------------------------
 */
braid_wire_writer *client_begin(braid_client *client, unsigned kind, client_ticket *ticket) {
  *ticket = (client_ticket){0};
  pthread_mutex_lock(&client->send_lock);
  pthread_mutex_lock(&client->lock);
  ticket->id = ++client->ids;
  pthread_mutex_unlock(&client->lock);
  braid_wire_begin(&client->writer, kind, ticket->id);
  return &client->writer;
}

static bool begin_reading(braid_client *client) {
  pthread_mutex_lock(&client->lock);
  bool reads = !client->reading;
  if (reads) client->reading = true;
  pthread_mutex_unlock(&client->lock);
  return reads;
}

static void end_reading(braid_client *client) {
  pthread_mutex_lock(&client->lock);
  client->reading = false;
  pthread_cond_broadcast(&client->changed); /* somebody else may have to read now */
  pthread_mutex_unlock(&client->lock);
}

/* While the socket takes nothing, answers are read: a daemon whose answers nobody takes would not read either. */
static braid_client_status wait_to_send(braid_client *client, int64_t deadline_ms) {
  bool reads = begin_reading(client);
  struct pollfd poller = {.fd = client->file, .events = (short)(POLLOUT | (reads ? POLLIN : 0))};
  int rest = rest_ms(deadline_ms);
  int ready =
      channel_poll(client, &poller, reads || (rest >= 0 && rest < 50) ? rest : 50); /* the reader may have stopped */
  braid_client_status status = BRAID_CLIENT_OK;
  if (ready > 0 && reads && poller.revents & POLLIN) status = channel_read(client);
  if (reads) end_reading(client);
  return status;
}

/* The daemon may have said why before it closed. */
static braid_client_status channel_lost(braid_client *client, int reason) {
  char why[BRAID_WIRE_DETAIL];
  snprintf(why, sizeof why, "the connection has ended: %.400s", channel_reason(client, reason));
  if (begin_reading(client)) {
    (void)channel_read(client);
    end_reading(client);
  }
  return channel_break(client, BRAID_CLIENT_LOST, why);
}

static braid_client_status send_parts(braid_client *client, struct iovec *parts, size_t count, int file) {
  int64_t deadline = client_deadline(client->call_ms);
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control = {{0}};
  while (count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    if (file >= 0) {
      message.msg_control = control.bytes;
      message.msg_controllen = sizeof control.bytes;
      struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
      *rights = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
      memcpy(CMSG_DATA(rights), &file, sizeof file);
    }
    ssize_t sent = client->tls ? braid_tls_send(client->tls, parts, count)
                               : sendmsg(client->file, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return channel_lost(client, errno);
    if (sent < 0) {
      if (deadline >= 0 && client_now_ms() >= deadline)
        return channel_break(client, BRAID_CLIENT_TIMEOUT, "the daemon did not take a message in time");
      braid_client_status status = wait_to_send(client, deadline);
      if (status != BRAID_CLIENT_OK) return status;
      continue;
    }
    file = -1; /* it went with the first byte */
    braid_wire_sent(&parts, &count, (size_t)sent);
  }
  return BRAID_CLIENT_OK;
}

/* The message is to be sent: its ticket waits, unless the connection is lost. */
static braid_client_status enter_ticket(braid_client *client, client_ticket *ticket, uint64_t bytes) {
  pthread_mutex_lock(&client->lock);
  braid_client_status status = client->broken;
  if (status == BRAID_CLIENT_OK) {
    ticket->next = client->tickets;
    client->tickets = ticket;
    client->counters.messages++;
    client->counters.bytes_sent += bytes;
  }
  pthread_mutex_unlock(&client->lock);
  return status == BRAID_CLIENT_OK ? status : client_fail(status, "%s", client->why);
}

braid_client_status client_send(braid_client *client, client_ticket *ticket, const struct iovec *parts, size_t count,
                                int file) {
  struct iovec all[1 + BRAID_WIRE_PORTS];
  uint64_t more = 0;
  for (size_t i = 0; i < count; i++) {
    all[i + 1] = parts[i];
    more += parts[i].iov_len;
  }
  braid_wire_writer *writer = &client->writer;
  braid_wire_end(writer, more);
  all[0] = (struct iovec){writer->data, writer->length};
  braid_client_status status = BRAID_CLIENT_OK;
  if (writer->failed)
    status = client_fail(BRAID_CLIENT_NO_MEMORY, "no memory for a message");
  else if (client->welcome.max_bytes && writer->length - BRAID_WIRE_HEADER + more > client->welcome.max_bytes)
    status = client_fail(BRAID_CLIENT_TOO_LARGE, "a message of %llu bytes; the daemon takes up to %llu",
                         (unsigned long long)(writer->length - BRAID_WIRE_HEADER + more),
                         (unsigned long long)client->welcome.max_bytes);
  if (status == BRAID_CLIENT_OK) status = enter_ticket(client, ticket, writer->length + more);
  if (status == BRAID_CLIENT_OK) status = send_parts(client, all, count + 1, file);
  pthread_mutex_unlock(&client->send_lock);
  return status;
}

braid_client_status client_status(const client_ticket *ticket, braid_wire_reader *reader, char *note) {
  braid_wire_status status;
  *reader = (braid_wire_reader){.data = ticket->body, .bytes = ticket->bytes};
  braid_wire_get_status(reader, &status);
  if (reader->wrong) return client_fail(BRAID_CLIENT_PROTOCOL, "the daemon's answer: %s", reader->wrong);
  if (note) memcpy(note, status.detail, sizeof status.detail);
  if (status.code == 200) return BRAID_CLIENT_OK;
  return client_fail((braid_client_status)status.code, "%s", status.detail);
}

braid_client_status client_answer(braid_client *client, client_ticket *ticket, braid_wire_reader *reader, char *note) {
  braid_client_status status = client_await(client, ticket, client_deadline(client->call_ms));
  return status == BRAID_CLIENT_OK ? client_status(ticket, reader, note) : status;
}

braid_client_status client_finish_within(braid_client *client, client_ticket *ticket, int64_t wait_ms) {
  braid_wire_reader reader;
  braid_client_status status = client_send(client, ticket, NULL, 0, -1);
  if (status == BRAID_CLIENT_OK) status = client_await(client, ticket, client_deadline(wait_ms));
  if (status == BRAID_CLIENT_OK) status = client_status(ticket, &reader, NULL);
  client_abandon(client, ticket);
  return status;
}

braid_client_status client_finish(braid_client *client, client_ticket *ticket) {
  return client_finish_within(client, ticket, client->call_ms);
}
