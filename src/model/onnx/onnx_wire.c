#include "model/onnx/onnx_wire.h"

#include <limits.h>

#include "base/text.h"
#include "base/try.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LENGTH = 2, WIRE_32 = 5 };
enum { TENSOR_SEGMENT = 3, TENSOR_RAW_DATA = 9, LENGTH_BYTES = 5, MAX_REDUCED = INT_MAX };
enum {
  MIN_LEFT_OUT = 1024, /* bytes of raw_data */
  MOST_HEAD = 20,      /* bytes of a key and a length, or of two numbers */
  WINDOW = 1 << 14,
};

typedef struct wire_reducer {
  braid_reader *file;
  braid_text *out;
  size_t messages;
  size_t begin, count; /* of the file's bytes in `window` */
  uint8_t window[WINDOW];
} wire_reducer;

typedef struct wire_field {
  size_t start, payload, end; /* offsets in the file: key, contents, what follows */
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

/* The `count` bytes at `offset`, which the file has; at most WINDOW. */
static braid_status look(wire_reducer *reducer, size_t offset, size_t count, const uint8_t **out) {
  bool inside = offset >= reducer->begin && offset - reducer->begin <= reducer->count &&
                count <= reducer->count - (offset - reducer->begin);
  if (!inside) {
    size_t left = braid_reader_bytes(reducer->file) - offset;
    reducer->begin = offset;
    reducer->count = 0;
    size_t wanted = left < WINDOW ? left : WINDOW;
    BRAID_TRY(braid_reader_get(reducer->file, offset, reducer->window, wanted));
    reducer->count = wanted;
  }
  *out = reducer->window + (offset - reducer->begin);
  return BRAID_OK;
}

static braid_status read_field(wire_reducer *reducer, size_t offset, size_t message_end, wire_field *out) {
  const uint8_t *start;
  size_t count = message_end - offset < MOST_HEAD ? message_end - offset : MOST_HEAD;
  *out = (wire_field){.start = offset};
  BRAID_TRY(look(reducer, offset, count, &start));
  const uint8_t *at = start, *end = start + count;
  uint64_t key, length;
  if (!read_varint(&at, end, &key)) return braid_fail(BRAID_INVALID_FILE, "byte %zu: field key is cut off", offset);
  out->number = key >> 3;
  out->wire = key & 7;
  switch (out->wire) {
  case WIRE_VARINT:
    if (!read_varint(&at, end, &length)) return braid_fail(BRAID_INVALID_FILE, "byte %zu: number is cut off", offset);
    length = 0;
    break;
  case WIRE_LENGTH:
    if (!read_varint(&at, end, &length)) return braid_fail(BRAID_INVALID_FILE, "byte %zu: length is cut off", offset);
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
  out->payload = offset + (size_t)(at - start);
  size_t left = message_end - out->payload;
  if (length > left)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: field of %llu bytes where %zu are left (truncated file?)", offset,
                      (unsigned long long)length, left);
  out->end = out->payload + length;
  return BRAID_OK;
}

static braid_status reduce_message(wire_reducer *reducer, const ProtobufCMessageDescriptor *type, size_t at, size_t end,
                                   int depth);

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

static braid_status copy_field(wire_reducer *reducer, const wire_field *field) {
  for (size_t at = field->start; at < field->end;) {
    const uint8_t *bytes;
    size_t count = field->end - at < WINDOW ? field->end - at : WINDOW;
    BRAID_TRY(look(reducer, at, count, &bytes));
    braid_text_add_bytes(reducer->out, bytes, count);
    at += count;
  }
  return BRAID_OK;
}

/* The place of the bytes left out, as TensorProto.Segment { begin = 1, end = 2 }. */
static void put_segment(wire_reducer *reducer, const wire_field *raw) {
  uint64_t begin = raw->payload, end = raw->end;
  put_varint(reducer->out, TENSOR_SEGMENT << 3 | WIRE_LENGTH);
  put_varint(reducer->out, 2 + varint_bytes(begin) + varint_bytes(end));
  put_varint(reducer->out, 1 << 3 | WIRE_VARINT);
  put_varint(reducer->out, begin);
  put_varint(reducer->out, 2 << 3 | WIRE_VARINT);
  put_varint(reducer->out, end);
}

static braid_status reduce_message(wire_reducer *reducer, const ProtobufCMessageDescriptor *type, size_t at, size_t end,
                                   int depth) {
  if (depth > BRAID_ONNX_MAX_DEPTH)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: nested more than %d deep", at, BRAID_ONNX_MAX_DEPTH);
  if (++reducer->messages > BRAID_ONNX_MAX_MESSAGES)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: more than %d messages", at, BRAID_ONNX_MAX_MESSAGES);
  bool tensor = type == &onnx__tensor_proto__descriptor;
  wire_field raw = {0}, field;
  for (; at < end; at = field.end) {
    BRAID_TRY(read_field(reducer, at, end, &field));
    const ProtobufCFieldDescriptor *known =
        field.number <= UINT_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)field.number) : NULL;
    if (!known) continue;
    if (tensor && field.number == TENSOR_SEGMENT)
      return braid_fail(BRAID_INVALID_FILE, "byte %zu: a tensor stored in segments", at);
    if (field.wire == WIRE_LENGTH && known->type == PROTOBUF_C_TYPE_MESSAGE)
      BRAID_TRY(reduce_nested(reducer, known->descriptor, &field, depth));
    else if (tensor && field.number == TENSOR_RAW_DATA && field.wire == WIRE_LENGTH &&
             field.end - field.payload >= MIN_LEFT_OUT)
      raw = field;
    else
      BRAID_TRY(copy_field(reducer, &field));
  }
  if (raw.end) put_segment(reducer, &raw);
  return reducer->out->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

static braid_status reduce_file(const braid_allocator *allocator, const ProtobufCMessageDescriptor *type,
                                braid_reader *file, braid_text *reduced) {
  if (!braid_reader_bytes(file)) return braid_fail(BRAID_INVALID_FILE, "file is empty");
  wire_reducer *reducer = braid_zalloc(allocator, sizeof *reducer);
  if (!reducer) return BRAID_NO_MEMORY;
  reducer->file = file;
  reducer->out = reduced;
  braid_status status = reduce_message(reducer, type, 0, braid_reader_bytes(file), 0);
  braid_free(allocator, reducer);
  return status;
}

static void *wire_allocate(void *context, size_t bytes) {
  return braid_alloc(context, bytes);
}
static void release(void *context, void *pointer) {
  braid_free(context, pointer);
}

ProtobufCAllocator braid_onnx_allocator(const braid_allocator *allocator) {
  return (ProtobufCAllocator){.alloc = wire_allocate, .free = release, .allocator_data = (void *)allocator};
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
                               braid_reader *file, ProtobufCMessage **out) {
  *out = NULL;
  braid_text reduced;
  braid_text_init(&reduced, allocator);
  braid_status status = reduce_file(allocator, type, file, &reduced);
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
