#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "serve/grpc/call.h"

/* The buffer's slices as pieces. Slices of few bytes keep them in the slice itself, so pieces point into the buffer. */
static bool message_pieces(grpc_byte_buffer *buffer, braid_grpc_message *out) {
  grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
  out->pieces = braid_zalloc_array(NULL, slices->count + 1, sizeof *out->pieces);
  if (!out->pieces) return false;
  for (size_t i = 0; i < slices->count; i++)
    out->pieces[i] = (braid_wire_piece){GRPC_SLICE_START_PTR(slices->slices[i]), GRPC_SLICE_LENGTH(slices->slices[i])};
  out->wire = (braid_wire){out->pieces, 0, slices->length};
  return true;
}

/* A buffer that grows up to a limit. */
typedef struct inflated_text {
  uint8_t *data;
  size_t bytes, room, most;
} inflated_text;

/* Makes room for more; false: the limit is reached, or memory is out. */
static bool inflated_grow(inflated_text *text) {
  size_t room = text->room ? text->room * 2 : 64 << 10;
  if (room > text->most) room = text->most;
  if (room == text->room) return false;
  uint8_t *data = braid_alloc(NULL, room);
  if (!data) return false;
  if (text->bytes) memcpy(data, text->data, text->bytes);
  braid_free(NULL, text->data);
  text->data = data;
  text->room = room;
  return true;
}

/* Inflates all pieces. Z_STREAM_END: done; Z_BUF_ERROR: larger than the limit; else zlib's error. */
static int inflate_pieces(z_stream *stream, const braid_wire_piece *pieces, size_t count, inflated_text *text) {
  int code = Z_OK;
  for (size_t i = 0; i < count && code == Z_OK; i++) {
    stream->next_in = (Bytef *)pieces[i].data;
    stream->avail_in = (uInt)pieces[i].bytes;
    while (code == Z_OK && stream->avail_in) {
      if (text->bytes == text->room && !inflated_grow(text)) return Z_BUF_ERROR;
      stream->next_out = text->data + text->bytes;
      stream->avail_out = (uInt)(text->room - text->bytes);
      code = inflate(stream, Z_NO_FLUSH);
      text->bytes = text->room - stream->avail_out;
    }
  }
  /* what is still in zlib's window, where the output was full when the input ended */
  while (code == Z_OK) {
    if (text->bytes == text->room && !inflated_grow(text)) return Z_BUF_ERROR;
    stream->next_out = text->data + text->bytes;
    stream->avail_out = (uInt)(text->room - text->bytes);
    code = inflate(stream, Z_FINISH);
    size_t bytes = text->room - stream->avail_out;
    if (code == Z_BUF_ERROR && bytes == text->room) code = Z_OK;
    if (code == Z_BUF_ERROR) code = Z_DATA_ERROR; /* broken off */
    text->bytes = bytes;
  }
  return code;
}

static braid_serve_verdict message_inflate(grpc_compression_algorithm algorithm, size_t count, size_t most,
                                           braid_grpc_message *out, char *detail) {
  z_stream stream = {0};
  inflated_text text = {.most = most < UINT32_MAX ? most : UINT32_MAX};
  int window = algorithm == GRPC_COMPRESS_GZIP ? MAX_WBITS | 16 : MAX_WBITS;
  if (inflateInit2(&stream, window) != Z_OK) {
    snprintf(detail, BRAID_SERVE_DETAIL, "no memory to inflate a compressed message");
    return BRAID_SERVE_FAILED;
  }
  int code = inflate_pieces(&stream, out->pieces, count, &text);
  inflateEnd(&stream);
  out->inflated = text.data;
  if (code != Z_STREAM_END) {
    if (code != Z_BUF_ERROR) {
      snprintf(detail, BRAID_SERVE_DETAIL, "a compressed message is broken");
      return BRAID_SERVE_INVALID;
    }
    snprintf(detail, BRAID_SERVE_DETAIL, "a compressed message is larger than %zu bytes, the limit", most);
    return BRAID_SERVE_TOO_LARGE;
  }
  out->pieces[0] = (braid_wire_piece){text.data, text.bytes};
  out->wire = (braid_wire){out->pieces, 0, text.bytes};
  return BRAID_SERVE_DONE;
}

/* gRPC is told not to inflate (server.c): it has no limit on what comes of it. */
braid_serve_verdict braid_grpc_message_open(grpc_byte_buffer *buffer, size_t most, braid_grpc_message *out,
                                            char *detail) {
  braid_serve_verdict verdict = BRAID_SERVE_DONE;
  grpc_compression_algorithm algorithm = buffer->data.raw.compression;
  *out = (braid_grpc_message){.buffer = buffer};
  if (!message_pieces(buffer, out)) {
    snprintf(detail, BRAID_SERVE_DETAIL, "no memory for a message");
    verdict = BRAID_SERVE_FAILED;
  } else if (algorithm != GRPC_COMPRESS_NONE) {
    verdict = message_inflate(algorithm, buffer->data.raw.slice_buffer.count, most, out, detail);
  } else if (out->wire.left > most) {
    snprintf(detail, BRAID_SERVE_DETAIL, "a message of %zu bytes is over the limit of %zu", out->wire.left, most);
    verdict = BRAID_SERVE_TOO_LARGE;
  }
  if (verdict != BRAID_SERVE_DONE) braid_grpc_message_close(out);
  return verdict;
}

void braid_grpc_message_close(braid_grpc_message *message) {
  braid_free(NULL, message->inflated);
  braid_free(NULL, message->pieces);
  if (message->buffer) grpc_byte_buffer_destroy(message->buffer);
  *message = (braid_grpc_message){0};
}
