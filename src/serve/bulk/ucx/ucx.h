/* braid-ucx: carries one file for a daemon, by UCX. A program of its own, and not a library in the daemon, because
 * whoever reaches UCX's ports can write into the process that has opened them (its TCP transport takes the addresses of
 * its messages for its own): here that is a process without secrets, for as long as a file travels. It ends with its
 * line to the daemon.
 *
 *   ucx.c       its life: the line, UCX's context and worker, the loop
 *   receive.c   pieces that come, into the daemon's memory
 *   send.c      pieces of a file, to a receiver */
#ifndef BRAID_SERVE_BULK_UCX_UCX_H
#define BRAID_SERVE_BULK_UCX_UCX_H

#include <stdbool.h>
#include <ucp/api/ucp.h>

#include "serve/bulk/bulk_line.h"

enum { UCX_AM = 7 }; /* the number of our active messages */

typedef struct ucx_slot {
  uint8_t *data; /* of BRAID_BULK_PIECE bytes */
  braid_bulk_head head;
  void *request; /* UCX's; NULL: none */
  bool done;
  ucs_status_t status; /* then */
} ucx_slot;

typedef struct ucx_program {
  ucp_context_h context;
  ucp_worker_h worker;
  braid_bulk_message job;        /* what the daemon has asked for */
  uint64_t offset, total, count; /* count: of pieces; total is known when `expects` */
  bool expects;
  uint64_t began, ended, freed; /* pieces: from the first on so many are under way, are there, were taken */
  ucx_slot slots[BRAID_BULK_SLOTS];
  ucp_ep_h endpoint; /* a sender's; NULL: none, or lost */
  struct {
    void *handle; /* UCX's, of a piece that is announced; NULL: none */
    size_t bytes;
  } announced[2 * BRAID_BULK_SLOTS]; /* a receiver's; of piece i: i % (2 * SLOTS) */
  bool over, whole;                  /* nothing is left to do; a receiver's: all has come */
  char wrong[256];                   /* what is; "": nothing */
} ucx_program;

/* The first sentence (printf) stays. */
void ucx_fail(ucx_program *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* To the daemon; false: it is not there any more. */
bool ucx_tell(braid_bulk_kind kind, uint64_t number, const void *text, size_t text_bytes);
/* Takes what UCX says of an operation that was begun, with `done` false before. */
void ucx_slot_begin(ucx_slot *slot, ucs_status_ptr_t request);
/* Makes the slot of an operation that is done free; its status. */
ucs_status_t ucx_slot_end(ucx_slot *slot);

/* --- receive.c --- */
void ucx_receive_begin(ucx_program *p); /* says the address */
void ucx_receive_step(ucx_program *p);
void ucx_receive_message(ucx_program *p, const braid_bulk_message *message);

/* --- send.c --- */
void ucx_send_begin(ucx_program *p);
void ucx_send_step(ucx_program *p);

#endif
