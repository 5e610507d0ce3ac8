#include "serve/wire/wire_format.h"

#include <stdlib.h>
#include <string.h>

enum { kTraced = 0x80 }; /* with the priority of a launch: a trace context follows */

size_t braid_wire_dtype_bytes(unsigned dtype) {
  static const uint8_t kBytes[] = {0,
#define BYTES(id, number, bytes, name) [number] = bytes,
                                   BRAID_WIRE_DTYPES(BYTES)
#undef BYTES
  };
  return dtype < sizeof kBytes ? kBytes[dtype] : 0;
}

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static uint8_t *reserve(braid_wire_writer *writer, size_t count) {
  if (writer->failed) return NULL;
  if (count > writer->capacity - writer->length) {
    size_t capacity = writer->capacity ? writer->capacity : 512;
    while (capacity - writer->length < count && capacity <= SIZE_MAX / 2) capacity *= 2;
    uint8_t *data = capacity - writer->length < count ? NULL : realloc(writer->data, capacity);
    if (!data) {
      writer->failed = true;
      return NULL;
    }
    writer->data = data;
    writer->capacity = capacity;
  }
  uint8_t *at = writer->data + writer->length;
  writer->length += count;
  return at;
}

void braid_wire_free(braid_wire_writer *writer) {
  free(writer->data);
  *writer = (braid_wire_writer){0};
}

void braid_wire_put(braid_wire_writer *writer, const void *bytes, size_t count) {
  uint8_t *at = reserve(writer, count);
  if (at && count) memcpy(at, bytes, count);
}

static void store(uint8_t *at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

void braid_wire_put_number(braid_wire_writer *writer, uint64_t value, size_t bytes) {
  uint8_t *at = reserve(writer, bytes);
  if (at) store(at, value, bytes);
}

void braid_wire_put_text(braid_wire_writer *writer, const char *text) {
  size_t length = strlen(text);
  if (length > UINT16_MAX) length = UINT16_MAX;
  braid_wire_put_number(writer, length, 2);
  braid_wire_put(writer, text, length);
}

void braid_wire_begin(braid_wire_writer *writer, unsigned kind, uint64_t id) {
  writer->length = 0;
  writer->failed = false;
  braid_wire_put_number(writer, BRAID_WIRE_MAGIC, 4);
  braid_wire_put_number(writer, kind, 2);
  braid_wire_put_number(writer, 0, 2);
  braid_wire_put_number(writer, id, 8);
  braid_wire_put_number(writer, 0, 8);
}

void braid_wire_end(braid_wire_writer *writer, uint64_t more) {
  if (!writer->failed) store(writer->data + 16, writer->length - BRAID_WIRE_HEADER + more, 8);
}

void braid_wire_sent(struct iovec **parts, size_t *count, size_t sent) {
  while (*count) {
    struct iovec *part = *parts;
    size_t step = sent < part->iov_len ? sent : part->iov_len;
    part->iov_base = (uint8_t *)part->iov_base + step;
    part->iov_len -= step;
    sent -= step;
    if (part->iov_len) return;
    ++*parts;
    --*count;
  }
}

void braid_wire_put_status(braid_wire_writer *writer, unsigned code, const char *detail) {
  braid_wire_put_number(writer, code, 2);
  braid_wire_put_text(writer, detail);
}

void braid_wire_put_hello(braid_wire_writer *writer, const braid_wire_hello *hello) {
  braid_wire_put_number(writer, hello->version, 4); /* stays first in all versions */
  braid_wire_put_text(writer, hello->token);
  braid_wire_put_text(writer, hello->client);
}

void braid_wire_put_welcome(braid_wire_writer *writer, const braid_wire_welcome *welcome) {
  braid_wire_put_number(writer, welcome->version, 4);
  braid_wire_put_number(writer, welcome->rights, 4);
  braid_wire_put_text(writer, welcome->server);
  braid_wire_put_text(writer, welcome->tenant);
  braid_wire_put_number(writer, welcome->max_bytes, 8);
}

static void put_shape(braid_wire_writer *writer, unsigned dtype, unsigned rank, const int64_t *dims) {
  braid_wire_put_number(writer, dtype, 1);
  braid_wire_put_number(writer, rank, 1);
  for (unsigned i = 0; i < rank; i++) braid_wire_put_number(writer, (uint64_t)dims[i], 8);
}

static void put_place(braid_wire_writer *writer, const braid_wire_tensor *tensor) {
  if (tensor->place != BRAID_WIRE_SHARED) return;
  braid_wire_put_number(writer, tensor->memory, 4);
  braid_wire_put_number(writer, tensor->offset, 8);
  braid_wire_put_number(writer, tensor->bytes, 8);
}

void braid_wire_put_tensor(braid_wire_writer *writer, const braid_wire_tensor *tensor) {
  braid_wire_put_text(writer, tensor->name);
  braid_wire_put_number(writer, tensor->place, 1);
  if (tensor->place == BRAID_WIRE_BUFFER) {
    braid_wire_put_text(writer, tensor->buffer);
    return;
  }
  put_shape(writer, tensor->dtype, tensor->rank, tensor->dims);
  put_place(writer, tensor);
}

static void put_wanted(braid_wire_writer *writer, const braid_wire_tensor *tensor) {
  braid_wire_put_text(writer, tensor->name);
  braid_wire_put_number(writer, tensor->place, 1);
  put_place(writer, tensor);
}

void braid_wire_put_launch(braid_wire_writer *writer, const braid_wire_launch *launch) {
  braid_wire_put_number(writer, launch->compiled, 8);
  braid_wire_put_text(writer, launch->model);
  braid_wire_put_text(writer, launch->version);
  braid_wire_put_number(writer, launch->timeout_us, 8);
  bool traced = launch->traceparent[0] != '\0';
  braid_wire_put_number(writer, launch->priority | (traced ? kTraced : 0u), 1);
  if (traced) {
    braid_wire_put_text(writer, launch->traceparent);
    braid_wire_put_text(writer, launch->tracestate);
  }
  braid_wire_put_number(writer, launch->input_count, 1);
  braid_wire_put_number(writer, launch->output_count, 1);
  for (size_t i = 0; i < launch->input_count; i++) braid_wire_put_tensor(writer, &launch->inputs[i]);
  for (size_t i = 0; i < launch->output_count; i++) put_wanted(writer, &launch->outputs[i]);
}

void braid_wire_put_result(braid_wire_writer *writer, const braid_wire_result *result) {
  braid_wire_put_number(writer, result->waited_ns, 8);
  braid_wire_put_number(writer, result->ran_ns, 8);
  braid_wire_put_number(writer, result->batch, 8);
  braid_wire_put_number(writer, result->output_count, 1);
  for (size_t i = 0; i < result->output_count; i++) braid_wire_put_tensor(writer, &result->outputs[i]);
}

static void put_ports(braid_wire_writer *writer, const braid_wire_port *ports, size_t count) {
  braid_wire_put_number(writer, count, 1);
  for (size_t i = 0; i < count; i++) {
    braid_wire_put_text(writer, ports[i].name);
    put_shape(writer, ports[i].dtype, ports[i].rank, ports[i].dims);
  }
}

void braid_wire_put_model(braid_wire_writer *writer, const braid_wire_model *model) {
  braid_wire_put_text(writer, model->name);
  braid_wire_put_text(writer, model->version);
  braid_wire_put_number(writer, model->state, 1);
  braid_wire_put_text(writer, model->reason);
  braid_wire_put_number(writer, model->max_batch, 8);
  braid_wire_put_number(writer, model->handle, 8);
  put_ports(writer, model->inputs, model->input_count);
  put_ports(writer, model->outputs, model->output_count);
}

void braid_wire_put_compile(braid_wire_writer *writer, const braid_wire_compile *compile) {
  braid_wire_put_text(writer, compile->name);
  braid_wire_put_text(writer, compile->device);
  braid_wire_put_number(writer, compile->max_batch, 8);
}

void braid_wire_put_cores(braid_wire_writer *writer, const braid_wire_cores *cores) {
  braid_wire_put_text(writer, cores->device);
  braid_wire_put_number(writer, cores->count, 4);
}

void braid_wire_put_grant(braid_wire_writer *writer, const braid_wire_grant *grant) {
  braid_wire_put_number(writer, grant->handle, 8);
  braid_wire_put_number(writer, grant->granted, 4);
  braid_wire_put_number(writer, grant->instances, 4);
  braid_wire_put_number(writer, grant->held, 4);
  braid_wire_put_number(writer, grant->overlay_cores, 4);
}

/* One byte was a file's number before there were more than two; what does not fit it stands behind. */
enum { MANY_FILES = 255 };

void braid_wire_put_file(braid_wire_writer *writer, const braid_wire_file *file) {
  braid_wire_put_text(writer, file->model);
  braid_wire_put_number(writer, file->file < MANY_FILES ? file->file : MANY_FILES, 1);
  braid_wire_put_number(writer, file->offset, 8);
  if (file->file >= MANY_FILES) braid_wire_put_number(writer, file->file, 4);
}

void braid_wire_put_bulk(braid_wire_writer *writer, const braid_wire_bulk *bulk) {
  braid_wire_put_file(writer, &bulk->file);
  braid_wire_put_number(writer, bulk->total, 8);
  braid_wire_put(writer, bulk->nonce, sizeof bulk->nonce);
  braid_wire_put(writer, bulk->address, bulk->address_bytes);
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static void refuse(braid_wire_reader *reader, const char *why) {
  if (!reader->wrong) reader->wrong = why;
  reader->at = reader->bytes;
}

static uint64_t load(const uint8_t *at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
  return value;
}

uint64_t braid_wire_get_number(braid_wire_reader *reader, size_t bytes) {
  if (bytes > reader->bytes - reader->at) {
    refuse(reader, "the message ends within a number");
    return 0;
  }
  reader->at += bytes;
  return load(reader->data + reader->at - bytes, bytes);
}

void braid_wire_get_text(braid_wire_reader *reader, char *out, size_t room) {
  size_t length = (size_t)braid_wire_get_number(reader, 2);
  *out = '\0';
  if (length > reader->bytes - reader->at) {
    refuse(reader, "the message ends within a text");
  } else if (length >= room) {
    refuse(reader, "a text is longer than its field");
  } else if (length && memchr(reader->data + reader->at, 0, length)) {
    refuse(reader, "a text contains a byte of value 0");
  } else {
    if (length) memcpy(out, reader->data + reader->at, length);
    out[length] = '\0';
    reader->at += length;
  }
}

const char *braid_wire_finish(const braid_wire_reader *reader) {
  if (reader->wrong) return reader->wrong;
  return reader->at == reader->bytes ? NULL : "the message has bytes behind its last field";
}

const char *braid_wire_get_header(const uint8_t *bytes, braid_wire_header *out) {
  *out = (braid_wire_header){(uint16_t)load(bytes + 4, 2), load(bytes + 8, 8), load(bytes + 16, 8)};
  if (load(bytes, 4) != BRAID_WIRE_MAGIC) return "this is no message of Braid's protocol: it begins with BRD1";
  if ((out->kind & ~BRAID_WIRE_REPLY) >= BRAID_WIRE_KINDS) return "there is no message of this kind";
  return load(bytes + 6, 2) ? "the reserved field of the header is not 0" : NULL;
}

void braid_wire_get_status(braid_wire_reader *reader, braid_wire_status *out) {
  out->code = (uint16_t)braid_wire_get_number(reader, 2);
  braid_wire_get_text(reader, out->detail, sizeof out->detail);
}

const char *braid_wire_get_hello(braid_wire_reader *reader, braid_wire_hello *out) {
  out->token[0] = out->client[0] = '\0';
  out->version = (uint32_t)braid_wire_get_number(reader, 4);
  if (out->version != BRAID_WIRE_VERSION) return reader->wrong; /* what follows is another version's */
  braid_wire_get_text(reader, out->token, sizeof out->token);
  braid_wire_get_text(reader, out->client, sizeof out->client);
  return braid_wire_finish(reader);
}

const char *braid_wire_get_welcome(braid_wire_reader *reader, braid_wire_welcome *out) {
  out->version = (uint32_t)braid_wire_get_number(reader, 4);
  out->rights = (uint32_t)braid_wire_get_number(reader, 4);
  braid_wire_get_text(reader, out->server, sizeof out->server);
  braid_wire_get_text(reader, out->tenant, sizeof out->tenant);
  out->max_bytes = braid_wire_get_number(reader, 8);
  return braid_wire_finish(reader);
}

static void get_dims(braid_wire_reader *reader, uint8_t *rank, int64_t *dims, int64_t least) {
  *rank = (uint8_t)braid_wire_get_number(reader, 1);
  if (*rank > BRAID_WIRE_RANK) {
    refuse(reader, "a shape has more than 8 dimensions");
    *rank = 0;
  }
  for (unsigned i = 0; i < *rank; i++) {
    dims[i] = (int64_t)braid_wire_get_number(reader, 8);
    if (dims[i] < least) refuse(reader, "a dimension is negative");
  }
}

static uint8_t get_dtype(braid_wire_reader *reader) {
  unsigned dtype = (unsigned)braid_wire_get_number(reader, 1);
  if (!braid_wire_dtype_bytes(dtype)) refuse(reader, "there is no element type of this number");
  return (uint8_t)dtype;
}

static void get_shared(braid_wire_reader *reader, braid_wire_tensor *out) {
  uint64_t end;
  out->memory = (uint32_t)braid_wire_get_number(reader, 4);
  out->offset = braid_wire_get_number(reader, 8);
  out->bytes = braid_wire_get_number(reader, 8);
  if (__builtin_add_overflow(out->offset, out->bytes, &end)) refuse(reader, "a place in shared memory has no end");
}

static uint64_t shape_bytes(braid_wire_reader *reader, const braid_wire_tensor *tensor) {
  uint64_t bytes = braid_wire_dtype_bytes(tensor->dtype);
  for (unsigned i = 0; i < tensor->rank; i++)
    if (__builtin_mul_overflow(bytes, (uint64_t)tensor->dims[i], &bytes)) {
      refuse(reader, "a tensor is too large");
      return 0;
    }
  return bytes;
}

/* Adds what it has inline to *data. */
static void get_tensor(braid_wire_reader *reader, braid_wire_tensor *out, uint64_t *data) {
  braid_wire_get_text(reader, out->name, sizeof out->name);
  out->place = (uint8_t)braid_wire_get_number(reader, 1);
  out->dtype = out->rank = 0;
  out->memory = 0;
  out->offset = out->bytes = 0;
  out->buffer[0] = '\0';
  if (out->place > BRAID_WIRE_SHARED) refuse(reader, "there is no place of this number");
  if (out->place == BRAID_WIRE_BUFFER) {
    braid_wire_get_text(reader, out->buffer, sizeof out->buffer);
    return;
  }
  out->dtype = get_dtype(reader);
  get_dims(reader, &out->rank, out->dims, 0);
  uint64_t bytes = shape_bytes(reader, out);
  if (out->place == BRAID_WIRE_SHARED) {
    get_shared(reader, out);
    if (out->bytes != bytes) refuse(reader, "a tensor's bytes in shared memory are not those of its shape");
  }
  out->bytes = bytes;
  if (out->place == BRAID_WIRE_INLINE && __builtin_add_overflow(*data, bytes, data))
    refuse(reader, "the tensors are too large");
}

static void get_wanted(braid_wire_reader *reader, braid_wire_tensor *out) {
  braid_wire_get_text(reader, out->name, sizeof out->name);
  out->place = (uint8_t)braid_wire_get_number(reader, 1);
  out->dtype = out->rank = 0;
  out->memory = 0;
  out->offset = out->bytes = 0;
  out->buffer[0] = '\0';
  if (out->place == BRAID_WIRE_SHARED)
    get_shared(reader, out);
  else if (out->place != BRAID_WIRE_INLINE)
    refuse(reader, "an output goes into the answer or into shared memory");
}

static size_t get_count(braid_wire_reader *reader) {
  size_t count = (size_t)braid_wire_get_number(reader, 1);
  if (count <= BRAID_WIRE_PORTS) return count;
  refuse(reader, "there are more than 64 tensors");
  return 0;
}

/* What is left of the body, of `expected` bytes. */
static const uint8_t *get_rest(braid_wire_reader *reader, uint64_t expected, size_t *out_bytes) {
  *out_bytes = reader->bytes - reader->at;
  if (*out_bytes != expected) {
    refuse(reader, "the data of the tensors is longer or shorter than their shapes say");
    *out_bytes = 0;
  }
  const uint8_t *rest = reader->data + reader->at;
  reader->at = reader->bytes;
  return rest;
}

const char *braid_wire_get_data(braid_wire_reader *reader, braid_wire_tensor *out, const uint8_t **out_data) {
  uint64_t data = 0;
  size_t bytes;
  get_tensor(reader, out, &data);
  if (out->place != BRAID_WIRE_INLINE) refuse(reader, "a buffer's data comes with the message");
  *out_data = get_rest(reader, data, &bytes);
  return braid_wire_finish(reader);
}

const char *braid_wire_get_launch(braid_wire_reader *reader, braid_wire_launch *out) {
  uint64_t data = 0;
  out->compiled = braid_wire_get_number(reader, 8);
  braid_wire_get_text(reader, out->model, sizeof out->model);
  braid_wire_get_text(reader, out->version, sizeof out->version);
  out->timeout_us = braid_wire_get_number(reader, 8);
  if (out->timeout_us > INT64_MAX / 2000) refuse(reader, "the deadline is too far away");
  out->priority = (uint8_t)braid_wire_get_number(reader, 1);
  out->traceparent[0] = out->tracestate[0] = '\0';
  if (out->priority & kTraced) {
    out->priority &= (uint8_t)~kTraced;
    braid_wire_get_text(reader, out->traceparent, sizeof out->traceparent);
    braid_wire_get_text(reader, out->tracestate, sizeof out->tracestate);
    if (!out->traceparent[0]) refuse(reader, "a trace context has a traceparent");
  }
  if (out->priority > 9) refuse(reader, "priorities are 1 to 9, or 0 for the tenant's");
  out->input_count = get_count(reader);
  out->output_count = get_count(reader);
  for (size_t i = 0; i < out->input_count && !reader->wrong; i++) get_tensor(reader, &out->inputs[i], &data);
  for (size_t i = 0; i < out->output_count && !reader->wrong; i++) get_wanted(reader, &out->outputs[i]);
  out->data = get_rest(reader, data, &out->data_bytes);
  return braid_wire_finish(reader);
}

const char *braid_wire_get_result(braid_wire_reader *reader, braid_wire_result *out) {
  uint64_t data = 0;
  out->waited_ns = braid_wire_get_number(reader, 8);
  out->ran_ns = braid_wire_get_number(reader, 8);
  out->batch = braid_wire_get_number(reader, 8);
  out->output_count = get_count(reader);
  for (size_t i = 0; i < out->output_count && !reader->wrong; i++) {
    get_tensor(reader, &out->outputs[i], &data);
    if (out->outputs[i].place == BRAID_WIRE_BUFFER) refuse(reader, "an output is in no buffer");
  }
  out->data = get_rest(reader, data, &out->data_bytes);
  return braid_wire_finish(reader);
}

static size_t get_ports(braid_wire_reader *reader, braid_wire_port *ports) {
  size_t count = get_count(reader);
  for (size_t i = 0; i < count && !reader->wrong; i++) {
    braid_wire_get_text(reader, ports[i].name, sizeof ports[i].name);
    ports[i].dtype = get_dtype(reader);
    get_dims(reader, &ports[i].rank, ports[i].dims, -1);
  }
  return reader->wrong ? 0 : count;
}

void braid_wire_get_model(braid_wire_reader *reader, braid_wire_model *out) {
  braid_wire_get_text(reader, out->name, sizeof out->name);
  braid_wire_get_text(reader, out->version, sizeof out->version);
  out->state = (uint8_t)braid_wire_get_number(reader, 1);
  if (out->state > BRAID_WIRE_BROKEN) refuse(reader, "there is no state of this number");
  braid_wire_get_text(reader, out->reason, sizeof out->reason);
  out->max_batch = braid_wire_get_number(reader, 8);
  out->handle = braid_wire_get_number(reader, 8);
  out->input_count = get_ports(reader, out->inputs);
  out->output_count = get_ports(reader, out->outputs);
}

const char *braid_wire_get_compile(braid_wire_reader *reader, braid_wire_compile *out) {
  braid_wire_get_text(reader, out->name, sizeof out->name);
  braid_wire_get_text(reader, out->device, sizeof out->device);
  out->max_batch = braid_wire_get_number(reader, 8);
  if (out->max_batch > 64) refuse(reader, "max_batch is 1 to 64, or 0 for the daemon's default");
  out->data = get_rest(reader, reader->bytes - reader->at, &out->data_bytes);
  return braid_wire_finish(reader);
}

const char *braid_wire_get_cores(braid_wire_reader *reader, braid_wire_cores *out) {
  braid_wire_get_text(reader, out->device, sizeof out->device);
  out->count = (uint32_t)braid_wire_get_number(reader, 4);
  return braid_wire_finish(reader);
}

const char *braid_wire_get_grant(braid_wire_reader *reader, braid_wire_grant *out) {
  out->handle = braid_wire_get_number(reader, 8);
  out->granted = (uint32_t)braid_wire_get_number(reader, 4);
  out->instances = (uint32_t)braid_wire_get_number(reader, 4);
  out->held = (uint32_t)braid_wire_get_number(reader, 4);
  out->overlay_cores = (uint32_t)braid_wire_get_number(reader, 4);
  return braid_wire_finish(reader);
}

static void get_file(braid_wire_reader *reader, braid_wire_file *out) {
  braid_wire_get_text(reader, out->model, sizeof out->model);
  out->file = (uint32_t)braid_wire_get_number(reader, 1);
  out->offset = braid_wire_get_number(reader, 8);
  if (out->file != MANY_FILES) return;
  out->file = (uint32_t)braid_wire_get_number(reader, 4);
  if (out->file < MANY_FILES) refuse(reader, "the number of a file is written longer than it is");
}

const char *braid_wire_get_file(braid_wire_reader *reader, braid_wire_file *out) {
  get_file(reader, out);
  return braid_wire_finish(reader);
}

void braid_wire_get_nonce(braid_wire_reader *reader, uint8_t out[BRAID_WIRE_NONCE]) {
  for (size_t i = 0; i < BRAID_WIRE_NONCE; i++) out[i] = (uint8_t)braid_wire_get_number(reader, 1);
}

const char *braid_wire_get_bulk(braid_wire_reader *reader, braid_wire_bulk *out) {
  get_file(reader, &out->file);
  out->total = braid_wire_get_number(reader, 8);
  braid_wire_get_nonce(reader, out->nonce);
  if (!reader->wrong && out->file.offset > out->total) refuse(reader, "a file ends before its bytes begin");
  out->address = reader->data + reader->at;
  out->address_bytes = reader->bytes - reader->at;
  if (!reader->wrong && (!out->address_bytes || out->address_bytes > BRAID_WIRE_ADDRESS))
    refuse(reader, "the address of a receiver has 1 to 8192 bytes");
  return reader->wrong;
}
