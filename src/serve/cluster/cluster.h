/* A daemon as one of several (docs/cluster.md): it registers in etcd, holds the models that the control node says, may
 * be the control node itself, and sends requests for models that others hold to them. */
#ifndef BRAID_SERVE_CLUSTER_CLUSTER_H
#define BRAID_SERVE_CLUSTER_CLUSTER_H

#include "base/text.h"
#include "serve/request.h"

typedef struct braid_serve_cluster braid_serve_cluster;
struct braid_server;

/* Before the front ends, which ask it; the server has its registry and scheduler. UNSUPPORTED: built without gRPC.
 * INVALID_ARGUMENT: the endpoints, or the token. */
braid_status braid_serve_cluster_create(struct braid_server *server, braid_serve_cluster **out);
/* Begins to look for etcd, and returns: a daemon whose etcd is away serves what it holds. The server's wire protocol
 * listens already. */
braid_status braid_serve_cluster_start(braid_serve_cluster *cluster);
/* Leaves: others are told not to send requests any more. The daemon goes on with those it has. */
void braid_serve_cluster_leave(braid_serve_cluster *cluster);
/* Requests that are with others have their answers, or are refused after `grace_ns`; none is taken any more. */
void braid_serve_cluster_end(braid_serve_cluster *cluster, int64_t grace_ns);
/* After the front ends. NULL is allowed, here and above. */
void braid_serve_cluster_destroy(braid_serve_cluster *cluster);
/* Whether it has seen the cluster, and holds what it is to hold, or could not. */
bool braid_serve_cluster_is_settled(braid_serve_cluster *cluster);
/* Whether the token of a hello is another daemon's, who asks for the tenant that it names: the tenant, else NULL. */
braid_serve_tenant *braid_serve_cluster_greet(braid_serve_cluster *cluster, const char *token, bool *out_is_peer);
/* By whom files of models are sent to other daemons by UCX; NULL: they are not. NULL is allowed. */
struct braid_bulk_senders *braid_serve_cluster_senders(const braid_serve_cluster *cluster);
/* What others hold, as JSON, for /v2/braid/status; and as Prometheus' text. */
void braid_serve_cluster_report(braid_serve_cluster *cluster, braid_text *text);
void braid_serve_cluster_metrics(braid_serve_cluster *cluster, braid_text *text);

#endif
