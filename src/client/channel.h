/* A connection of libbraid-client: messages out, answers in, and who waits for them. No thread of its own: whoever
 * waits reads, and hands others their answers. */
#ifndef BRAID_CLIENT_CHANNEL_H
#define BRAID_CLIENT_CHANNEL_H

#include <pthread.h>
#include <sys/uio.h>

#include "braid/client.h"
#include "serve/wire/wire_format.h"
#include "tls/tls.h"

enum { CLIENT_IN = 65536 };

/* An answer that is waited for. */
typedef struct client_ticket {
  struct client_ticket *next;
  uint64_t id;
  bool done;
  uint8_t *body; /* of the answer, of the ticket; freed with free() */
  size_t bytes;
} client_ticket;

struct braid_client {
  int file;
  braid_tls_stream *tls; /* over the file; NULL: none */
  bool local;
  int64_t call_ms, spin_us;
  uint64_t max_answer;
  braid_wire_welcome welcome;
  /* --- who sends --- */
  pthread_mutex_t send_lock;
  braid_wire_writer writer;
  braid_wire_launch launch;
  uint32_t memories; /* numbers given */
  /* --- who reads --- */
  uint8_t in[CLIENT_IN];
  size_t in_used, body_used;
  uint8_t *body; /* of an answer that `in` does not hold; NULL: none */
  braid_wire_header header;
  /* --- with the lock --- */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool reading; /* somebody reads */
  client_ticket *tickets;
  uint64_t ids;
  braid_client_status broken; /* OK: it is not */
  char why[BRAID_WIRE_DETAIL];
  braid_client_counters counters;
};

/* braid_client_connect, given up as LOST when *stop (atomic; NULL: never) is not 0. */
braid_client_status client_connect(const char *address, const braid_client_options *options, const int *stop,
                                   braid_client **out);
/* Asks the daemon to cancel a launch that is waited for still, if that can be sent without waiting. */
void client_cancel_soon(braid_client_call *call);
/* The connection is of no use any more, as its owner knows by other means: whoever waits in it ends, LOST. */
void client_break(braid_client *client, const char *why);

/* Records the sentence (printf) of this thread, and returns the status. */
braid_client_status client_fail(braid_client_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int64_t client_now_ms(void);
/* When a wait of so many milliseconds ends; -1: never. */
int64_t client_deadline(int64_t timeout_ms);

/* Takes the send lock and begins a message; then the fields; then client_send, which gives the lock back whatever
 * happens. `parts` follow the fields; `file`: a descriptor that goes along, or -1. The ticket waits from then on. */
braid_wire_writer *client_begin(braid_client *client, unsigned kind, client_ticket *ticket);
braid_client_status client_send(braid_client *client, client_ticket *ticket, const struct iovec *parts, size_t count,
                                int file);
/* Until the answer is there: OK. Or TIMEOUT, or what became of the connection. deadline_ms: by client_now_ms(). */
braid_client_status client_await(braid_client *client, client_ticket *ticket, int64_t deadline_ms);
/* Nobody waits any more; frees the body. */
void client_abandon(braid_client *client, client_ticket *ticket);
/* Waits as the connection's call_ms says, and reads the status of the answer: *reader stands behind it. The ticket is
 * to be abandoned afterwards, also on failure. */
braid_client_status client_answer(braid_client *client, client_ticket *ticket, braid_wire_reader *reader,
                                  char *note /* of WIRE_DETAIL bytes; NULL: not wanted */);
/* Reads the status of an answer that is there. */
braid_client_status client_status(const client_ticket *ticket, braid_wire_reader *reader, char *note);
/* Sends the message that was begun and waits for its status; nothing follows it that matters. */
braid_client_status client_finish(braid_client *client, client_ticket *ticket);
/* The same, waiting for the status so long at most (less than 0: no limit; 0: TIMEOUT unless it is there). */
braid_client_status client_finish_within(braid_client *client, client_ticket *ticket, int64_t wait_ms);

/* From this side's names to the wire's; the data inline, if any, into *part. ARGUMENT names what is wrong. */
braid_client_status client_tensor(const braid_client *client, const braid_client_tensor *tensor, bool wanted,
                                  braid_wire_tensor *out, struct iovec *part);
uint32_t client_memory_number(const braid_client_memory *memory);
/* Destroys it, waiting for the daemon's answer so long at most. */
void client_memory_end(braid_client_memory *memory, int64_t wait_ms);
size_t client_memory_bytes(const braid_client_memory *memory);
const braid_client *client_memory_owner(const braid_client_memory *memory);

#endif
