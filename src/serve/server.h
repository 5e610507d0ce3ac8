/* What the daemon's front ends have in common. */
#ifndef BRAID_SERVE_SERVER_H
#define BRAID_SERVE_SERVER_H

#include "braid/serve.h"
#include "serve/cluster/cluster.h"
#include "serve/harvest.h"
#include "serve/regions.h"
#include "serve/registry.h"
#include "serve/scheduler.h"
#include "serve/serving_config.h"
#include "serve/tenant.h"
#include "serve/trace/tracer.h"
#include "serve/wire/relay.h"

struct braid_server {
  braid_serve_config *config;
  const braid_log *log;
  braid_serve_device *devices;
  size_t device_count;
  braid_serve_tenant *tenants;
  size_t tenant_count;
  braid_serve_registry *registry;
  braid_serve_supply *supply;
  braid_serve_harvest *harvest;
  braid_serve_scheduler *scheduler;
  braid_serve_regions *regions;
  braid_serve_tracer *tracer; /* NULL: nothing is exported */
  struct braid_serve_http *http;
  struct braid_serve_grpc *grpc;     /* NULL: none */
  struct braid_serve_wire *wire;     /* NULL: none */
  braid_tls_relay *relay;            /* TLS of wire_port; NULL: none */
  struct braid_serve_remote *remote; /* sessions of remote devices; NULL: none, where `wire` is none */
  braid_serve_cluster *cluster;      /* NULL: the daemon is alone */
  const char *socket;                /* path to listen on, read when the front end starts; NULL: none */
  int wire_port;                     /* to listen on; 0: any; -1: none */
  int ports[2];                      /* to listen on, HTTP and gRPC; 0: any */
  int stopping;                      /* atomic */
};

/* A request of a tenant for a model: FORBIDDEN, UNKNOWN or UNAVAILABLE with their sentence in `detail` (of
 * BRAID_SERVE_DETAIL bytes). */
braid_serve_verdict braid_serve_begin(struct braid_server *server, braid_serve_tenant *tenant, const char *model,
                                      const char *version, braid_serve_request **out, char *detail);
/* Whether models that are to be loaded are loaded, and the daemon is not stopping. */
bool braid_server_is_ready(struct braid_server *server);

/* --- front ends ----------------------------------------------------------------------------------------------------
 */
braid_status braid_serve_http_start(struct braid_server *server, struct braid_serve_http **out);
void braid_serve_http_stop(struct braid_serve_http *http); /* after the scheduler is closed; NULL is allowed */
int braid_serve_http_port(const struct braid_serve_http *http);
braid_status braid_serve_grpc_start(struct braid_server *server, struct braid_serve_grpc **out);
void braid_serve_grpc_stop(struct braid_serve_grpc *grpc);
int braid_serve_grpc_port(const struct braid_serve_grpc *grpc);
/* Braid's own protocol, on server->socket and server->wire_port. */
braid_status braid_serve_wire_start(struct braid_server *server, struct braid_serve_wire **out);
void braid_serve_wire_stop(struct braid_serve_wire *wire);      /* after the scheduler is ended; NULL is allowed */
int braid_serve_wire_port(const struct braid_serve_wire *wire); /* 0: none */
const char *braid_serve_wire_path(const struct braid_serve_wire *wire); /* NULL: none */

#endif
