/* The daemon that serves models to tenants over HTTP and gRPC (docs/serving.md): in the program braid-serve, not in
 * libbraid.
 *
 * A server owns its devices, models, tenants and threads. All functions may be called by any thread. */
#ifndef BRAID_SERVE_H
#define BRAID_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/log.h"
#include "braid/status.h"

typedef struct braid_server braid_server;

typedef struct braid_server_options {
  const char *config;       /* path of the YAML file */
  int port, grpc_port;      /* in place of the file's; 0: the file's; -1: any that is free */
  const char *socket;       /* path of a Unix socket for Braid's own protocol; NULL: the file's */
  int wire_port;            /* that protocol over TCP; as `port` */
  const char *cluster;      /* etcd of a cluster, "etcd:HOST:PORT[,HOST:PORT...]"; NULL: the file's, if it has one */
  const char *node;         /* name of this node of the cluster; NULL: the file's, or the host's */
  const char *node_address; /* HOST[:PORT] that other nodes reach; NULL: the file's, or `address` */
  bool trial;               /* loads all models, also lazy ones and what was unloaded, and listens nowhere */
  const braid_log *log;     /* NULL: silent */
} braid_server_options;

/* Reads the configuration, opens devices and sockets, and begins to load the models; returns before they are loaded.
 * INVALID_FILE, NOT_FOUND: the configuration; IO: a socket or file; UNSUPPORTED: built without the libraries. */
BRAID_MUST_CHECK braid_status braid_server_create(const braid_server_options *options, braid_server **out);
/* Where it listens; 0: it does not. */
int braid_server_port(const braid_server *server);
int braid_server_grpc_port(const braid_server *server);
int braid_server_wire_port(const braid_server *server);
const char *braid_server_socket(const braid_server *server); /* NULL: none */
/* How many models are loaded, and how many could not be. */
void braid_server_models(braid_server *server, size_t *out_loading, size_t *out_ready, size_t *out_broken);
/* The index-th model: whether it is loaded, and why it could not be, or what is to be known of it (""; nothing). False
 * beyond the last. */
bool braid_server_model(braid_server *server, size_t index, const char **out_name, bool *out_loaded, char *out_note,
                        size_t note_bytes);
/* Takes no more requests, lets those that it has end within `grace_ns`, cancels the others, and frees all. NULL is
 * allowed. */
void braid_server_destroy(braid_server *server, int64_t grace_ns);

#endif
