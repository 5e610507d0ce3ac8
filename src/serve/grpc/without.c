/* In place of the gRPC front end where its library was not there when Braid was built. */
#include "serve/server.h"

braid_status braid_serve_grpc_start(braid_server *server, struct braid_serve_grpc **out) {
  (void)server;
  *out = NULL;
  return braid_fail(BRAID_UNSUPPORTED, "grpc_port: Braid was built without gRPC (libgrpc-dev)");
}

void braid_serve_grpc_stop(struct braid_serve_grpc *grpc) {
  (void)grpc;
}

int braid_serve_grpc_port(const struct braid_serve_grpc *grpc) {
  (void)grpc;
  return 0;
}
