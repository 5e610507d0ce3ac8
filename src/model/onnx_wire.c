#include "model/onnx_wire.h"

#include <limits.h>

#include "base/try.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };
enum { TENSOR_SEGMENT = 3, TENSOR_RAW_DATA = 9, LENGTH_BYTES = 5, MAX_REDUCED = INT_MAX };

typedef struct wire_reducer {
  const uint8_t *data; /* the whole file, for offsets */
  braid_text *out;
  size_t messages;
} wire_reducer;

typedef struct wire_field {
  const uint8_t *start, *payload, *end; /* key, contents, what follows */
  uint64_t number;
  unsigned wire;
} wire_field;

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *out = value;
      return true;
    }
  }
  return false;
}

static void put_varint(braid_text *out, uint64_t value) {
  uint8_t bytes[10];
  size_t count = 0;
  do {
    bytes[count++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    value >>= 7;
  } while (value);
  braid_text_add_bytes(out, bytes, count);
}

static size_t varint_bytes(uint64_t value) {
  size_t count = 1;
  while (value >>= 7) count++;
  return count;
}

static braid_status read_field(const wire_reducer *reducer, const uint8_t *at, const uint8_t *end, wire_field *out) {
  *out = (wire_field){.start = at};
  size_t offset = (size_t)(at - reducer->data);
  uint64_t key, length;
  if (!read_varint(&at, end, &key)) return braid_fail(BRAID_INVALID_FILE, "byte %zu: field key is cut off", offset);
  out->number = key >> 3;
  out->wire = key & 7;
  out->payload = at;
  size_t left = (size_t)(end - at);
  switch (out->wire) {
  case WIRE_VARINT:
    if (!read_varint(&at, end, &length)) return braid_fail(BRAID_INVALID_FILE, "byte %zu: number is cut off", offset);
    out->end = at;
    return BRAID_OK;
  case WIRE_LENGTH:
    if (!read_varint(&at, end, &length)) return braid_fail(BRAID_INVALID_FILE, "byte %zu: length is cut off", offset);
    left = (size_t)(end - at);
    break;
  case WIRE_64:
    length = 8;
    break;
  case WIRE_32:
    length = 4;
    break;
  default:
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: wire type %u is none that ONNX uses (not an ONNX file?)", offset,
                      out->wire);
  }
  if (length > left)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: field of %llu bytes where %zu are left (truncated file?)", offset,
                      (unsigned long long)length, left);
  out->payload = at;
  out->end = at + length;
  return BRAID_OK;
}

static braid_status reduce_message(wire_reducer *reducer, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                                   const uint8_t *end, int depth);

/* Lengths are written in five bytes whatever their value, since the size is known only afterwards. */
static braid_status reduce_nested(wire_reducer *reducer, const ProtobufCMessageDescriptor *type,
                                  const wire_field *field, int depth) {
  braid_text *out = reducer->out;
  put_varint(out, field->number << 3 | WIRE_LENGTH);
  size_t place = out->length;
  braid_text_add_bytes(out, "\0\0\0\0\0", LENGTH_BYTES);
  BRAID_TRY(reduce_message(reducer, type, field->payload, field->end, depth + 1));
  if (out->failed) return BRAID_NO_MEMORY;
  size_t length = out->length - place - LENGTH_BYTES;
  if (out->length > MAX_REDUCED)
    return braid_fail(BRAID_INVALID_FILE, "structure without weights is larger than %d bytes", MAX_REDUCED);
  for (int i = 0; i < LENGTH_BYTES; i++, length >>= 7)
    out->data[place + (size_t)i] = (char)((length & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
  return BRAID_OK;
}

/* The place of the bytes left out, as TensorProto.Segment { begin = 1, end = 2 }. */
static void put_segment(wire_reducer *reducer, const wire_field *raw) {
  uint64_t begin = (uint64_t)(raw->payload - reducer->data), end = (uint64_t)(raw->end - reducer->data);
  put_varint(reducer->out, TENSOR_SEGMENT << 3 | WIRE_LENGTH);
  put_varint(reducer->out, 2 + varint_bytes(begin) + varint_bytes(end));
  put_varint(reducer->out, 1 << 3 | WIRE_VARINT);
  put_varint(reducer->out, begin);
  put_varint(reducer->out, 2 << 3 | WIRE_VARINT);
  put_varint(reducer->out, end);
}

static braid_status reduce_message(wire_reducer *reducer, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                                   const uint8_t *end, int depth) {
  size_t offset = (size_t)(at - reducer->data);
  if (depth > BRAID_ONNX_MAX_DEPTH)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: nested more than %d deep", offset, BRAID_ONNX_MAX_DEPTH);
  if (++reducer->messages > BRAID_ONNX_MAX_MESSAGES)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: more than %d messages", offset, BRAID_ONNX_MAX_MESSAGES);
  bool tensor = type == &onnx__tensor_proto__descriptor;
  wire_field raw = {0}, field;
  for (; at < end; at = field.end) {
    BRAID_TRY(read_field(reducer, at, end, &field));
    const ProtobufCFieldDescriptor *known =
        field.number <= UINT_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)field.number) : NULL;
    if (!known) continue;
    if (tensor && field.number == TENSOR_SEGMENT)
      return braid_fail(BRAID_INVALID_FILE, "byte %zu: a tensor stored in segments", (size_t)(at - reducer->data));
    if (field.wire == WIRE_LENGTH && known->type == PROTOBUF_C_TYPE_MESSAGE)
      BRAID_TRY(reduce_nested(reducer, known->descriptor, &field, depth));
    else if (tensor && field.number == TENSOR_RAW_DATA && field.wire == WIRE_LENGTH &&
             field.end - field.payload >= BRAID_ONNX_MIN_MAPPED)
      raw = field;
    else
      braid_text_add_bytes(reducer->out, field.start, (size_t)(field.end - field.start));
  }
  if (raw.payload) put_segment(reducer, &raw);
  return reducer->out->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

braid_status braid_onnx_reduce(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t bytes,
                               braid_text *reduced) {
  if (!bytes) return braid_fail(BRAID_INVALID_FILE, "file is empty");
  wire_reducer reducer = {.data = data, .out = reduced};
  return reduce_message(&reducer, type, data, data + bytes, 0);
}

static void *allocate(void *context, size_t bytes) {
  return braid_alloc(context, bytes);
}
static void release(void *context, void *pointer) {
  braid_free(context, pointer);
}

ProtobufCAllocator braid_onnx_allocator(const braid_allocator *allocator) {
  return (ProtobufCAllocator){.alloc = allocate, .free = release, .allocator_data = (void *)allocator};
}

/* protobuf-c gives NULL for a malformed message and for lack of memory alike: this tells them apart. */
typedef struct watched_allocator {
  const braid_allocator *allocator;
  bool failed;
} watched_allocator;

static void *allocate_watched(void *context, size_t bytes) {
  watched_allocator *watched = context;
  void *pointer = braid_alloc(watched->allocator, bytes);
  watched->failed |= !pointer;
  return pointer;
}

static void release_watched(void *context, void *pointer) {
  braid_free(((watched_allocator *)context)->allocator, pointer);
}

braid_status braid_onnx_unpack(const braid_allocator *allocator, const ProtobufCMessageDescriptor *type,
                               const uint8_t *data, size_t bytes, ProtobufCMessage **out) {
  *out = NULL;
  braid_text reduced;
  braid_text_init(&reduced, allocator);
  braid_status status = braid_onnx_reduce(type, data, bytes, &reduced);
  if (status == BRAID_OK) {
    watched_allocator watched = {.allocator = allocator};
    ProtobufCAllocator own = {.alloc = allocate_watched, .free = release_watched, .allocator_data = &watched};
    *out = protobuf_c_message_unpack(type, &own, reduced.length, (const uint8_t *)reduced.data);
    if (!*out && watched.failed)
      status = BRAID_NO_MEMORY;
    else if (!*out)
      status =
          braid_fail(BRAID_INVALID_FILE, "not an ONNX %s: a field has the wrong kind of contents", type->short_name);
  }
  braid_text_deinit(&reduced);
  return status;
}
