/* Any bytes are a body within its bounds, or a sentence; and what was read is written as the bytes that it was read
 * from. The first byte chooses what they are read as. */
#include <stdlib.h>
#include <string.h>

#include "serve/wire/wire_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static braid_wire_writer writer;

/* The fields, and the `data_bytes` behind them that the writer leaves to others. */
static void expect_same(const uint8_t *body, size_t bytes, const uint8_t *data, size_t data_bytes) {
  if (writer.failed) return;
  if (data_bytes && (data < body || data + data_bytes > body + bytes)) abort();
  size_t fields = writer.length - BRAID_WIRE_HEADER;
  if (fields + data_bytes != bytes || memcmp(writer.data + BRAID_WIRE_HEADER, body, fields) != 0) abort();
}

static void check_tensor(const braid_wire_tensor *tensor) {
  if (tensor->rank > BRAID_WIRE_RANK || strlen(tensor->name) >= sizeof tensor->name ||
      strlen(tensor->buffer) >= sizeof tensor->buffer)
    abort();
  for (unsigned i = 0; i < tensor->rank; i++)
    if (tensor->dims[i] < 0) abort();
}

static void try_launch(braid_wire_reader *reader) {
  static braid_wire_launch launch;
  if (braid_wire_get_launch(reader, &launch)) return;
  if (launch.input_count > BRAID_WIRE_PORTS || launch.output_count > BRAID_WIRE_PORTS) abort();
  uint64_t total = 0;
  for (size_t i = 0; i < launch.input_count; i++) {
    check_tensor(&launch.inputs[i]);
    total += launch.inputs[i].place == BRAID_WIRE_INLINE ? launch.inputs[i].bytes : 0;
  }
  if (total != launch.data_bytes) abort();
  braid_wire_put_launch(&writer, &launch);
  expect_same(reader->data, reader->bytes, launch.data, launch.data_bytes);
}

static void try_result(braid_wire_reader *reader) {
  static braid_wire_result result;
  if (braid_wire_get_result(reader, &result)) return;
  for (size_t i = 0; i < result.output_count; i++) check_tensor(&result.outputs[i]);
  braid_wire_put_result(&writer, &result);
  expect_same(reader->data, reader->bytes, result.data, result.data_bytes);
}

static void try_hello(braid_wire_reader *reader) {
  static braid_wire_hello hello;
  if (braid_wire_get_hello(reader, &hello) || hello.version != BRAID_WIRE_VERSION) return;
  braid_wire_put_hello(&writer, &hello);
  expect_same(reader->data, reader->bytes, NULL, 0);
}

static void try_welcome(braid_wire_reader *reader) {
  static braid_wire_welcome welcome;
  if (braid_wire_get_welcome(reader, &welcome)) return;
  braid_wire_put_welcome(&writer, &welcome);
  expect_same(reader->data, reader->bytes, NULL, 0);
}

static void try_data(braid_wire_reader *reader) {
  braid_wire_tensor tensor;
  const uint8_t *data;
  if (braid_wire_get_data(reader, &tensor, &data)) return;
  check_tensor(&tensor);
  braid_wire_put_tensor(&writer, &tensor);
  expect_same(reader->data, reader->bytes, data, (size_t)tensor.bytes);
}

static void try_model(braid_wire_reader *reader) {
  static braid_wire_model model;
  braid_wire_get_model(reader, &model);
  if (braid_wire_finish(reader)) return;
  braid_wire_put_model(&writer, &model);
  expect_same(reader->data, reader->bytes, NULL, 0);
}

static void try_compile(braid_wire_reader *reader) {
  braid_wire_compile compile;
  if (braid_wire_get_compile(reader, &compile)) return;
  braid_wire_put_compile(&writer, &compile);
  expect_same(reader->data, reader->bytes, compile.data, compile.data_bytes);
}

static void try_small(braid_wire_reader *reader) {
  braid_wire_reader again = *reader;
  braid_wire_cores cores;
  braid_wire_grant grant;
  if (!braid_wire_get_cores(reader, &cores)) {
    braid_wire_put_cores(&writer, &cores);
    expect_same(reader->data, reader->bytes, NULL, 0);
    braid_wire_begin(&writer, BRAID_WIRE_CORES, 1);
  }
  if (braid_wire_get_grant(&again, &grant)) return;
  braid_wire_put_grant(&writer, &grant);
  expect_same(again.data, again.bytes, NULL, 0);
}

static void try_file(braid_wire_reader *reader) {
  braid_wire_file file;
  if (braid_wire_get_file(reader, &file)) return;
  braid_wire_put_file(&writer, &file);
  expect_same(reader->data, reader->bytes, NULL, 0);
}

static void try_bulk(braid_wire_reader *reader) {
  static braid_wire_bulk bulk;
  if (braid_wire_get_bulk(reader, &bulk)) return;
  if (bulk.file.offset > bulk.total || !bulk.address_bytes || bulk.address_bytes > BRAID_WIRE_ADDRESS) abort();
  braid_wire_put_bulk(&writer, &bulk);
  expect_same(reader->data, reader->bytes, NULL, 0);
}

static void try_header(const braid_wire_reader *reader) {
  braid_wire_header header;
  if (reader->bytes < BRAID_WIRE_HEADER || braid_wire_get_header(reader->data, &header)) return;
  braid_wire_begin(&writer, header.kind, header.id);
  braid_wire_end(&writer, header.bytes);
  if (!writer.failed && memcmp(writer.data, reader->data, BRAID_WIRE_HEADER) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static void (*const kTries[])(braid_wire_reader *) = {try_launch, try_result,  try_hello, try_welcome, try_data,
                                                        try_model,  try_compile, try_small, try_file,    try_bulk};
  if (!bytes) return 0;
  braid_wire_reader reader = {.data = data + 1, .bytes = bytes - 1};
  try_header(&reader);
  braid_wire_begin(&writer, BRAID_WIRE_LAUNCH, 1);
  kTries[data[0] % (sizeof kTries / sizeof *kTries)](&reader);
  return 0;
}
