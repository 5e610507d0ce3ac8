#include "serve/grpc/wire.h"

#include <string.h>

/* Bytes of the range that lie together at its beginning; 0 only at its end. */
static size_t wire_here(braid_wire *wire) {
  if (!wire->left) return 0;
  while (wire->offset == wire->piece->bytes) {
    wire->piece++;
    wire->offset = 0;
  }
  size_t here = wire->piece->bytes - wire->offset;
  return here < wire->left ? here : wire->left;
}

static void wire_advance(braid_wire *wire, size_t bytes) {
  wire->offset += bytes;
  wire->left -= bytes;
}

bool braid_wire_copy(braid_wire *wire, void *to, size_t bytes) {
  if (bytes > wire->left) return false;
  for (char *at = to; bytes;) {
    size_t here = wire_here(wire);
    if (here > bytes) here = bytes;
    memcpy(at, wire->piece->data + wire->offset, here);
    wire_advance(wire, here);
    at += here;
    bytes -= here;
  }
  return true;
}

bool braid_wire_skip(braid_wire *wire, size_t bytes) {
  if (bytes > wire->left) return false;
  while (bytes) {
    size_t here = wire_here(wire);
    if (here > bytes) here = bytes;
    wire_advance(wire, here);
    bytes -= here;
  }
  return true;
}

bool braid_wire_varint(braid_wire *wire, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (!wire_here(wire)) return false;
    uint8_t byte = wire->piece->data[wire->offset];
    wire_advance(wire, 1);
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte & 0x80) continue;
    *out = value;
    return true;
  }
  return false;
}

bool braid_wire_field(braid_wire *wire, uint64_t *out_number, braid_wire_kind *out_kind) {
  uint64_t tag;
  if (!braid_wire_varint(wire, &tag)) return false;
  *out_number = tag >> 3;
  *out_kind = (braid_wire_kind)(tag & 7);
  return *out_number != 0;
}

bool braid_wire_skip_field(braid_wire *wire, braid_wire_kind kind) {
  uint64_t value;
  braid_wire part;
  switch (kind) {
  case BRAID_WIRE_VARINT:
    return braid_wire_varint(wire, &value);
  case BRAID_WIRE_64:
    return braid_wire_skip(wire, 8);
  case BRAID_WIRE_PART:
    return braid_wire_part(wire, &part);
  case BRAID_WIRE_32:
    return braid_wire_skip(wire, 4);
  }
  return false; /* groups, which proto3 does not have */
}

bool braid_wire_part(braid_wire *wire, braid_wire *out) {
  uint64_t bytes;
  if (!braid_wire_varint(wire, &bytes) || bytes > wire->left) return false;
  *out = *wire;
  out->left = (size_t)bytes;
  return braid_wire_skip(wire, (size_t)bytes);
}

bool braid_wire_string(braid_wire *wire, char *to, size_t room) {
  braid_wire part;
  if (!braid_wire_part(wire, &part) || part.left >= room) return false;
  size_t bytes = part.left;
  to[bytes] = '\0';
  return braid_wire_copy(&part, to, bytes) && !memchr(to, 0, bytes);
}
