/* ModelInferRequest, from the wire to a request of the scheduler.
 *
 * The message is read twice, both times in place: first its names, shapes and parameters, which are checked and copied;
 * then, when the request has memory for them, the values of its tensors. Nothing is allocated for what a client only
 * says. */
#ifndef BRAID_SERVE_GRPC_INFER_READ_H
#define BRAID_SERVE_GRPC_INFER_READ_H

#include "serve/grpc/wire.h"
#include "serve/regions.h"
#include "serve/request.h"

enum { BRAID_GRPC_ID = 1024, BRAID_GRPC_TYPE = 16 };

/* Where a tensor is, if it is in shared memory. */
typedef struct braid_grpc_memory {
  bool given;
  char region[BRAID_SERVE_NAME];
  uint64_t offset, bytes;
} braid_grpc_memory;

typedef struct braid_grpc_input {
  char name[BRAID_SERVE_NAME], type[BRAID_GRPC_TYPE];
  int rank;
  int64_t dims[BRAID_MAX_RANK];
  braid_grpc_memory memory;
  braid_wire contents; /* InferTensorContents; left 0: none */
} braid_grpc_input;

typedef struct braid_grpc_output {
  char name[BRAID_SERVE_NAME];
  braid_grpc_memory memory;
  size_t port; /* index of the model's output, by braid_grpc_infer_fill */
} braid_grpc_output;

typedef struct braid_grpc_infer {
  char model[BRAID_SERVE_NAME], version[BRAID_SERVE_NAME], id[BRAID_GRPC_ID];
  int64_t timeout_us; /* 0: none */
  int priority;       /* 0: none */
  bool explain;       /* the answer says how it was decided, when to run it */
  braid_grpc_input inputs[BRAID_SERVE_PORTS];
  size_t input_count;
  braid_grpc_output outputs[BRAID_SERVE_PORTS]; /* none: all */
  size_t output_count;
  braid_wire raw[BRAID_SERVE_PORTS]; /* raw_input_contents */
  size_t raw_count;
  char detail[BRAID_SERVE_DETAIL]; /* of INVALID */
} braid_grpc_infer;

/* Reads all but the values; `infer` keeps wires over the message's pieces. INVALID: a sentence in infer->detail. */
braid_serve_verdict braid_grpc_infer_read(braid_wire message, braid_grpc_infer *infer);
/* Gives the request its inputs with their values, its wanted outputs, and its priority. Other verdicts than DONE have
 * their sentence in request->detail. */
braid_serve_verdict braid_grpc_infer_fill(braid_grpc_infer *infer, braid_serve_regions *regions,
                                          braid_serve_request *request);

#endif
