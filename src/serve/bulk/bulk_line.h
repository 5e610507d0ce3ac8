/* What the daemon and braid-ucx, the program that carries bulk data for it, tell each other: messages of one struct
 * over a pair of Unix sockets (SOCK_SEQPACKET) of this host, each with its text and no more.
 *
 * One program carries one file, to or from one other node, and ends. It has two descriptors: BRAID_BULK_LINE, its end
 * of the line, and BRAID_BULK_DATA: of a receiver the memory that pieces come to, of a sender the file, open for
 * reading. */
#ifndef BRAID_SERVE_BULK_BULK_LINE_H
#define BRAID_SERVE_BULK_BULK_LINE_H

#include <stddef.h>
#include <stdint.h>

enum {
  BRAID_BULK_VERSION = 1, /* of this header: daemon and program are of one build */
  BRAID_BULK_LINE = 3,
  BRAID_BULK_DATA = 4,
  BRAID_BULK_PIECE = 1 << 20, /* bytes; the last piece of a file may be shorter */
  BRAID_BULK_SLOTS = 8,       /* pieces on their way at a time */
  BRAID_BULK_NONCE = 16,      /* random bytes by which the receiver knows the pieces of its file */
  BRAID_BULK_ADDRESS = 8192   /* bytes of the address of a receiver, at most */
};

typedef enum braid_bulk_kind {
  /* the daemon says */
  BRAID_BULK_RECEIVE = 1, /* the first message to a receiver: the nonce */
  BRAID_BULK_EXPECT,      /* to a receiver: bytes from `offset` to `total` */
  BRAID_BULK_FREE,        /* to a receiver: piece `number` has been taken */
  BRAID_BULK_SEND,        /* the first and only message to a sender: nonce, offset, total, and the receiver's address */
  /* the program says */
  BRAID_BULK_READY, /* of a receiver: its address */
  BRAID_BULK_CAME,  /* of a receiver: piece `number`, in order, is in its slot, number % SLOTS */
  BRAID_BULK_SENT,  /* of a sender: all of it, and it ends */
  BRAID_BULK_FAILED /* a sentence, and it ends */
} braid_bulk_kind;

typedef struct braid_bulk_message {
  uint32_t version, kind;
  uint64_t number, offset, total;
  uint8_t nonce[BRAID_BULK_NONCE];
  uint32_t text_bytes;
  uint8_t text[BRAID_BULK_ADDRESS]; /* an address, or a sentence without a zero */
} braid_bulk_message;

/* What stands before each piece on its way between two programs; little endian. */
typedef struct braid_bulk_head {
  uint8_t nonce[BRAID_BULK_NONCE];
  uint64_t number;
} braid_bulk_head;

/* Bytes of a message with so much text. */
static inline size_t braid_bulk_message_bytes(size_t text_bytes) {
  return offsetof(braid_bulk_message, text) + text_bytes;
}

/* Pieces from `offset` to `total`, and the bytes of one of them; offset <= total. */
static inline uint64_t braid_bulk_pieces(uint64_t offset, uint64_t total) {
  return (total - offset) / BRAID_BULK_PIECE + ((total - offset) % BRAID_BULK_PIECE != 0);
}

static inline size_t braid_bulk_piece_bytes(uint64_t offset, uint64_t total, uint64_t number) {
  uint64_t rest = total - offset - number * BRAID_BULK_PIECE;
  return rest < BRAID_BULK_PIECE ? (size_t)rest : BRAID_BULK_PIECE;
}

#endif
