/* Any bytes, in pieces of any size, are either a request whose tensors are filled to their last byte, or a refusal with
 * a sentence; nothing of the tenant's quota is kept. The first byte is the pieces' size. */
#include <stdlib.h>
#include <string.h>

#include "serve/grpc/infer_read.h"
#include "serve/model.h"
#include "serve/tenant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { QUOTA = 1 << 20, TYPES = 13, WIDEST = 8 };

static const braid_serve_model_config kConfig = {.name = "m", .version = "1"};
static const braid_serve_tenant_config kTenant = {.name = "t", .max_bytes = QUOTA};
static braid_serve_tenant tenant = {.config = &kTenant, .lock = PTHREAD_MUTEX_INITIALIZER};
static braid_serve_model model = {.config = &kConfig, .references = 1, .lock = PTHREAD_MUTEX_INITIALIZER};
static braid_serve_regions *regions;

/* An input and an output of each type, "i0" and "o0" for the first. */
static void start(void) {
  if (braid_serve_regions_create(&regions) != BRAID_OK) abort();
  for (int i = 0; i < TYPES; i++) {
    braid_serve_port port = {
        .name = {'i', (char)('0' + i)}, .dtype = (braid_dtype)(BRAID_F32 + i), .rank = 2, .dims = {-1, 4}};
    model.inputs[i] = port;
    port.name[0] = 'o';
    model.outputs[i] = port;
  }
  model.input_count = model.output_count = TYPES;
}

/* Each piece is memory of its own, so that a byte too far is noticed. */
static braid_wire_piece *cut(const uint8_t *data, size_t bytes, size_t size, size_t *out_count) {
  *out_count = (bytes + size - 1) / size;
  braid_wire_piece *pieces = calloc(*out_count + 1, sizeof *pieces);
  if (!pieces) abort();
  for (size_t i = 0; i < *out_count; i++) {
    size_t length = bytes - i * size < size ? bytes - i * size : size;
    uint8_t *copy = malloc(length);
    if (!copy) abort();
    memcpy(copy, data + i * size, length);
    pieces[i] = (braid_wire_piece){copy, length};
  }
  return pieces;
}

static void fill(braid_grpc_infer *infer, size_t bytes) {
  braid_serve_request *request = braid_serve_request_create(&model, &tenant);
  if (!request) abort();
  if (braid_grpc_infer_fill(infer, regions, request) != BRAID_SERVE_DONE) {
    if (!request->detail[0]) abort();
  } else {
    uint8_t sum = 0;
    for (size_t i = 0; i < request->input_count; i++) {
      const braid_serve_tensor *tensor = &request->inputs[i];
      if (tensor->bytes > bytes * WIDEST) abort(); /* every number was sent */
      for (size_t k = 0; k < tensor->bytes; k++) sum ^= ((const uint8_t *)tensor->data)[k];
    }
    volatile uint8_t read = sum;
    (void)read;
  }
  braid_serve_request_destroy(request);
  if (tenant.bytes_in_flight) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static braid_grpc_infer infer;
  size_t count;
  if (!bytes) return 0;
  if (!regions) start();
  braid_wire_piece *pieces = cut(data + 1, bytes - 1, 1 + (size_t)data[0], &count);
  if (braid_grpc_infer_read((braid_wire){pieces, 0, bytes - 1}, &infer) == BRAID_SERVE_DONE)
    fill(&infer, bytes);
  else if (!infer.detail[0])
    abort();
  for (size_t i = 0; i < count; i++) free((void *)pieces[i].data);
  free(pieces);
  return 0;
}
