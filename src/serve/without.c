/* In place of the daemon where its libraries were not there when Braid was built. */
#include "braid/serve.h"

braid_status braid_server_create(const braid_server_options *options, braid_server **out) {
  (void)options;
  *out = NULL;
  return braid_fail(BRAID_UNSUPPORTED,
                    "Braid was built without libmicrohttpd and jansson, which `braid serve` stands on");
}

int braid_server_port(const braid_server *server) {
  (void)server;
  return 0;
}

int braid_server_grpc_port(const braid_server *server) {
  (void)server;
  return 0;
}

int braid_server_wire_port(const braid_server *server) {
  (void)server;
  return 0;
}

const char *braid_server_socket(const braid_server *server) {
  (void)server;
  return NULL;
}

void braid_server_models(braid_server *server, size_t *out_loading, size_t *out_ready, size_t *out_broken) {
  (void)server;
  *out_loading = *out_ready = *out_broken = 0;
}

bool braid_server_model(braid_server *server, size_t index, const char **out_name, char *out_reason,
                        size_t reason_bytes) {
  (void)server, (void)index, (void)out_name, (void)out_reason, (void)reason_bytes;
  return false;
}

void braid_server_destroy(braid_server *server, int64_t grace_ns) {
  (void)server, (void)grace_ns;
}
