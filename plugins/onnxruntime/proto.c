#include "proto.h"

#include <string.h>

#include "braid/allocator.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FIXED32 = 5, LENGTH_BYTES = 5 };

void braid_ort_proto_free(braid_ort_proto *proto) {
  braid_free(NULL, proto->data);
  *proto = (braid_ort_proto){0};
}

static void proto_put(braid_ort_proto *proto, const void *data, size_t bytes) {
  if (proto->failed || bytes == 0) return;
  if (proto->capacity - proto->bytes < bytes) {
    size_t capacity = (proto->bytes + bytes) * 2 + 1024;
    unsigned char *grown = capacity > bytes ? braid_alloc(NULL, capacity) : NULL;
    if (!grown) {
      proto->failed = true;
      return;
    }
    if (proto->bytes) memcpy(grown, proto->data, proto->bytes);
    braid_free(NULL, proto->data);
    proto->data = grown;
    proto->capacity = capacity;
  }
  memcpy(proto->data + proto->bytes, data, bytes);
  proto->bytes += bytes;
}

static void proto_varint(braid_ort_proto *proto, uint64_t value) {
  unsigned char bytes[10];
  size_t count = 0;
  do {
    bytes[count++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value);
  proto_put(proto, bytes, count);
}

static void proto_tag(braid_ort_proto *proto, int field, int wire) {
  proto_varint(proto, (uint64_t)field << 3 | (uint64_t)wire);
}

void braid_ort_proto_int(braid_ort_proto *proto, int field, int64_t value) {
  proto_tag(proto, field, WIRE_VARINT);
  proto_varint(proto, (uint64_t)value);
}

void braid_ort_proto_float(braid_ort_proto *proto, int field, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  unsigned char bytes[4];
  for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)(bits >> (8 * i));
  proto_tag(proto, field, WIRE_FIXED32);
  proto_put(proto, bytes, sizeof bytes);
}

void braid_ort_proto_bytes(braid_ort_proto *proto, int field, const void *data, size_t bytes) {
  proto_tag(proto, field, WIRE_BYTES);
  proto_varint(proto, bytes);
  proto_put(proto, data, bytes);
}

void braid_ort_proto_text(braid_ort_proto *proto, int field, const char *text) {
  braid_ort_proto_bytes(proto, field, text, strlen(text));
}

size_t braid_ort_proto_begin(braid_ort_proto *proto, int field) {
  static const unsigned char none[LENGTH_BYTES] = {0};
  proto_tag(proto, field, WIRE_BYTES);
  proto_put(proto, none, sizeof none);
  return proto->bytes;
}

/* The length is written in five bytes whatever it is, so that the contents need not be moved. */
void braid_ort_proto_end(braid_ort_proto *proto, size_t begun) {
  if (proto->failed) return;
  size_t length = proto->bytes - begun;
  if (length > UINT32_MAX) {
    proto->failed = true;
    return;
  }
  unsigned char *place = proto->data + begun - LENGTH_BYTES;
  for (int i = 0; i < LENGTH_BYTES; i++)
    place[i] = (unsigned char)(((length >> (7 * i)) & 127) | (i < LENGTH_BYTES - 1 ? 128 : 0));
}
