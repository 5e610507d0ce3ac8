/* Protocol buffers as they came from the network: in pieces, read in place.
 *
 * A wire is a range of bytes over pieces that somebody else keeps. Reading moves its beginning; a part is a wire of its
 * own over the same pieces. All functions return false for bytes that are no protocol buffer, and never read beyond the
 * range. They allocate nothing. */
#ifndef BRAID_SERVE_GRPC_WIRE_H
#define BRAID_SERVE_GRPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct braid_wire_piece {
  const uint8_t *data;
  size_t bytes;
} braid_wire_piece;

typedef struct braid_wire {
  const braid_wire_piece *piece; /* the one that it begins in */
  size_t offset;                 /* within the piece */
  size_t left;                   /* bytes of the range; the pieces have as many */
} braid_wire;

typedef enum braid_wire_kind {
  BRAID_WIRE_VARINT = 0,
  BRAID_WIRE_64 = 1,
  BRAID_WIRE_PART = 2, /* strings, bytes, messages, packed numbers */
  BRAID_WIRE_32 = 5
} braid_wire_kind;

/* Copies the next bytes. */
bool braid_wire_copy(braid_wire *wire, void *to, size_t bytes);
bool braid_wire_skip(braid_wire *wire, size_t bytes);
bool braid_wire_varint(braid_wire *wire, uint64_t *out);
/* The next field's number and kind; false at the end too, where left is 0. */
bool braid_wire_field(braid_wire *wire, uint64_t *out_number, braid_wire_kind *out_kind);
/* Skips the contents of a field. */
bool braid_wire_skip_field(braid_wire *wire, braid_wire_kind kind);
/* The contents of a field of kind PART. */
bool braid_wire_part(braid_wire *wire, braid_wire *out);
/* The contents of a field of kind PART as a string; false too where it has a zero byte or `room` bytes or more. */
bool braid_wire_string(braid_wire *wire, char *to, size_t room);

#endif
