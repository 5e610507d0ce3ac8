/* The daemon's configuration: a YAML file (docs/serving.md). */
#ifndef BRAID_SERVE_SERVING_CONFIG_H
#define BRAID_SERVE_SERVING_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/status.h"

typedef struct braid_serve_device_config {
  char *name;
  char *device;    /* device specs, as for --device; the first is preferred */
  int64_t threads; /* CPU threads of an instance; 0: as many as there are */
  char *cores;     /* the device is a card of the overlay: "private": its runs share its cores; "public": a tenant's are
                      its alone; NULL: it is none */
  int64_t instances; /* runs side by side, each with weights of its own; 0: 1 */
  double idle_watts; /* of the device doing nothing, and what a run adds; 0: nobody says */
  double run_watts;
  bool remote; /* offered to tenants that may use devices from elsewhere, each opening the first one anew */
} braid_serve_device_config;

typedef struct braid_serve_model_config {
  char *name;
  char *path;         /* ONNX or Darknet */
  char *weights;      /* Darknet's */
  char *version;      /* NULL: "1" */
  char *device;       /* the name of one of `devices`; NULL: the first */
  int64_t max_batch;  /* rows of a run; 0: 8 where the model takes batches */
  char *batch_bits;   /* "same" (NULL): batches only where rows have the bits that they have alone; "any" */
  double deadline_ms; /* of requests that say nothing; 0: none */
  double reserve_ms;  /* of each deadline, for the way to the client; 0: nothing */
  double delay_ms;    /* how long a request may wait for others to share a run with; 0: not at all */
  bool lazy;          /* loaded by the first request, or by the API */
} braid_serve_model_config;

typedef struct braid_serve_tenant_config {
  char *name;
  char *token;        /* NULL: whoever has none */
  char *token_sha256; /* in its place: 64 hexadecimal digits */
  int64_t priority;   /* 1 to 9; 0: 5 */
  double share;       /* of a device's time while others want it, 0 to 1; 0: equal parts of what is left */
  int64_t *given_requests, *given_bytes; /* as they stand in the file; NULL: they do not */
  int64_t max_requests, max_bytes;       /* in flight; what was given, or 256 and 256 MiB */
  int64_t cores;                         /* of each public card, for it alone; 0: none but those that it asks for */
  double rate;                           /* requests a second; 0: no limit */
  char *models;                          /* patterns separated by spaces; NULL: "*" */
  char *shared_memory;                   /* prefix of the keys that it may register; NULL: none */
  bool admin;                            /* may load and unload models */
  bool compile;                          /* may bring models of its own over Braid's protocol, as an admin may */
  bool train;                            /* may train beside, while no request waits or runs */
  bool remote;                           /* may use devices from elsewhere that are offered for it (docs/remote.md) */
  bool any;                              /* whatever the token: the only one, where the file has no tenants */
} braid_serve_tenant_config;

/* docs/cluster.md */
typedef struct braid_serve_cluster_config {
  char *etcd;              /* HOST:PORT[,HOST:PORT...] */
  char *name;              /* of the cluster: its keys begin with /braid/NAME/; NULL: "default" */
  char *node;              /* NULL: the host's name */
  char *address;           /* HOST or HOST:PORT at which others reach the wire protocol; NULL: `address` */
  char *token;             /* that daemons show each other; NULL: BRAID_CLUSTER_TOKEN of the environment */
  char *authority;         /* PEM files: TLS to etcd, by this authority; NULL: none */
  char *certificate, *key; /* and our own; NULL: none */
  char *node_authority;    /* PEM file: who signs for the other nodes; NULL: the system's authorities */
  int64_t copies;          /* nodes that hold each model; 0: 2 */
  char *bulk;              /* how files are fetched: "auto" (NULL), "ucx", "wire" */
  int64_t fetch_max_bytes; /* of a model's files that are fetched from other nodes; 0: none are */
  double wait_ms;          /* how long a request waits for a node that holds its model; 0: 5 s */
} braid_serve_cluster_config;

/* docs/tracing.md */
typedef struct braid_serve_trace_config {
  char *endpoint; /* http[s]://HOST:PORT/PATH of a collector (OTLP over HTTP); NULL: the environment's, or none */
  char *file;     /* the same as lines of JSON; NULL: none */
  int64_t file_max_bytes; /* of the file, and of PATH.1 beside it; 0: 64 MiB */
  double *sample; /* part of the requests without a caller's context, 0 to 1; NULL: the environment's, or 0.01 */
  char *service;  /* the service's name; NULL: the environment's, or "braid" */
} braid_serve_trace_config;

typedef struct braid_serve_config {
  char *address;             /* NULL: 127.0.0.1 */
  int64_t port;              /* HTTP; 0: 8000 */
  int64_t grpc_port;         /* 0: none */
  char *socket;              /* path of a Unix socket for Braid's own protocol (docs/client.md); NULL: none */
  int64_t wire_port;         /* the same protocol over TCP; 0: none */
  int64_t spin_us;           /* how long that protocol's thread looks for the next message before it sleeps; 0: 0 */
  int64_t http_threads;      /* 0: 2 */
  char *certificate, *key;   /* PEM files: TLS. Both or none */
  char *wire_authority;      /* PEM file: clients of wire_port show a certificate of it; NULL: they need none */
  int64_t max_request_bytes; /* 0: 64 MiB */
  int64_t max_connections;   /* 0: 1024 */
  int64_t max_memory_bytes;  /* of loaded models; the one unused for longest leaves first; 0: no limit */
  double receive_ms;         /* for one request to arrive whole; 0: 10 s */
  braid_serve_cluster_config *cluster; /* NULL: the daemon is alone */
  braid_serve_trace_config *trace;     /* NULL: what the environment says */
  double power_cap_watts;              /* over all devices; 0: none */
  double training_watts;               /* what training beside adds while it computes; 0: nobody says */
  char *state;                         /* file that keeps which models the API has loaded and unloaded; NULL: none */
  braid_serve_device_config *devices;
  unsigned devices_count;
  braid_serve_model_config *models;
  unsigned models_count;
  braid_serve_tenant_config *tenants;
  unsigned tenants_count;
} braid_serve_config;

/* INVALID_FILE names the file, the line and what was allowed. What the file leaves out has its default after this. */
BRAID_MUST_CHECK braid_status braid_serve_config_load(const char *path, braid_serve_config **out);
BRAID_MUST_CHECK braid_status braid_serve_config_parse(const char *name, const void *text, size_t bytes,
                                                       braid_serve_config **out);
/* A cluster with its defaults, where the file has none; the checks of what was put into it since; none any more. */
BRAID_MUST_CHECK braid_status braid_serve_config_add_cluster(braid_serve_config *config);
BRAID_MUST_CHECK braid_status braid_serve_config_check_cluster(const braid_serve_config *config);
void braid_serve_config_drop_cluster(braid_serve_config *config);
void braid_serve_config_free(braid_serve_config *config); /* NULL is allowed */

#endif
