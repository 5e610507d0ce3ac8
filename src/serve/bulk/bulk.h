/* Bulk data between daemons by UCX: files, piece by piece, over whatever UCX finds to be the best way between two hosts
 * (shared memory, TCP, RoCE, InfiniBand). UCX is not in this process: a program, braid-ucx, carries one file and ends
 * (bulk_line.h says why and how). What it says is checked here as what strangers say, since strangers reach it.
 *
 * The receiver's daemon asks the sender's, over Braid's own protocol, with the receiver's address and a nonce; the
 * sums of what came are the caller's business. */
#ifndef BRAID_SERVE_BULK_BULK_H
#define BRAID_SERVE_BULK_BULK_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "braid/status.h"
#include "serve/bulk/bulk_line.h"

enum { BRAID_BULK_SENDERS = 4, BRAID_BULK_DETAIL = 256, BRAID_BULK_PATH = 4096 };

/* Where braid-ucx is: beside this program, or where BRAID_UCX of the environment says. UNSUPPORTED: it is not there. */
BRAID_MUST_CHECK braid_status braid_bulk_find(char path[BRAID_BULK_PATH]);

/* --- receiving -----------------------------------------------------------------------------------------------------
 * Of one thread. Sentences are in braid_error_detail(). */
typedef struct braid_bulk_receiver braid_bulk_receiver;

/* Starts the program and waits until it has an address, some seconds at most. *stop: CANCELLED, when it is not 0. */
BRAID_MUST_CHECK braid_status braid_bulk_receive(const char *program, const int *stop, braid_bulk_receiver **out);
const uint8_t *braid_bulk_receiver_address(const braid_bulk_receiver *receiver, size_t *out_bytes);
const uint8_t *braid_bulk_receiver_nonce(const braid_bulk_receiver *receiver); /* BRAID_BULK_NONCE bytes */
/* The bytes of a file from `offset` to `total` are to come. */
BRAID_MUST_CHECK braid_status braid_bulk_receiver_expect(braid_bulk_receiver *receiver, uint64_t offset,
                                                         uint64_t total);
/* The next bytes, to `to`, which has room for a piece; none within timeout_ms: OK, and *out_bytes is 0. */
BRAID_MUST_CHECK braid_status braid_bulk_receiver_next(braid_bulk_receiver *receiver, int timeout_ms, void *to,
                                                       size_t *out_bytes);
/* Ends the program, whatever it does. NULL is allowed. */
void braid_bulk_receiver_destroy(braid_bulk_receiver *receiver);

/* --- sending -------------------------------------------------------------------------------------------------------
 * Any thread. Nothing here waits, but for destroy. */
typedef struct braid_bulk_senders braid_bulk_senders;

typedef enum braid_bulk_state {
  BRAID_BULK_UNKNOWN = 0,
  BRAID_BULK_GOING,
  BRAID_BULK_DONE,
  BRAID_BULK_LOST
} braid_bulk_state;

typedef struct braid_bulk_request {
  const uint8_t *nonce, *address;
  size_t address_bytes;
  uint64_t offset, total;
} braid_bulk_request;

BRAID_MUST_CHECK braid_status braid_bulk_senders_create(const char *program, braid_bulk_senders **out);
/* Sends what the request says of the file, which is read at any offset and stays the caller's. BUSY: as many as may be
 * are under way. */
BRAID_MUST_CHECK braid_status braid_bulk_send(braid_bulk_senders *senders, int file, const braid_bulk_request *request);
/* How it stands with what is sent under the nonce; LOST has its sentence. */
braid_bulk_state braid_bulk_sender_state(braid_bulk_senders *senders, const uint8_t *nonce,
                                         char detail[BRAID_BULK_DETAIL]);
/* Takes note of programs that have ended; to be called now and then. */
void braid_bulk_senders_look(braid_bulk_senders *senders);
void braid_bulk_senders_destroy(braid_bulk_senders *senders); /* and what is under way. NULL is allowed */

#endif
