/* ModelInferResponse: a head that is made here, and the tensors' bytes where the request has them, not copied. */
#ifndef BRAID_SERVE_GRPC_INFER_WRITE_H
#define BRAID_SERVE_GRPC_INFER_WRITE_H

#include "serve/grpc/call.h"
#include "serve/grpc/infer_read.h"

/* Writes the outputs that are wanted in shared memory. Other verdicts than DONE: request->detail. */
braid_serve_verdict braid_grpc_infer_share(const braid_grpc_infer *infer, braid_serve_regions *regions,
                                           braid_serve_request *request);
/* The answer to a request that is done; `streamed`: as ModelStreamInferResponse. Takes the request, which lives until
 * gRPC has sent it, whatever is returned. NULL when out of memory. */
grpc_byte_buffer *braid_grpc_infer_write(const braid_grpc_infer *infer, braid_serve_request *request, bool streamed);
/* A ModelStreamInferResponse that says what was wrong with the request of this id. NULL when out of memory. */
grpc_byte_buffer *braid_grpc_infer_write_error(const char *id, const char *detail);

/* A message of protobuf-c. NULL when out of memory. */
grpc_byte_buffer *braid_grpc_write(const void *message);

#endif
