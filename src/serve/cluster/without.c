/* In place of the cluster where gRPC's library was not there when Braid was built. */
#include "serve/cluster/cluster.h"
#include "serve/server.h"

braid_status braid_serve_cluster_create(braid_server *server, braid_serve_cluster **out) {
  (void)server;
  *out = NULL;
  return braid_fail(BRAID_UNSUPPORTED,
                    "cluster: Braid was built without gRPC (libgrpc-dev), by which etcd is spoken to");
}

braid_status braid_serve_cluster_start(braid_serve_cluster *cluster) {
  (void)cluster;
  return BRAID_OK;
}

void braid_serve_cluster_leave(braid_serve_cluster *cluster) {
  (void)cluster;
}

void braid_serve_cluster_end(braid_serve_cluster *cluster, int64_t grace_ns) {
  (void)cluster, (void)grace_ns;
}

void braid_serve_cluster_destroy(braid_serve_cluster *cluster) {
  (void)cluster;
}

bool braid_serve_cluster_is_settled(braid_serve_cluster *cluster) {
  (void)cluster;
  return true;
}

braid_serve_tenant *braid_serve_cluster_greet(braid_serve_cluster *cluster, const char *token, bool *out_is_peer) {
  (void)cluster, (void)token;
  *out_is_peer = false;
  return NULL;
}

struct braid_bulk_senders *braid_serve_cluster_senders(const braid_serve_cluster *cluster) {
  (void)cluster;
  return NULL;
}

void braid_serve_cluster_report(braid_serve_cluster *cluster, braid_text *text) {
  (void)cluster, (void)text;
}

void braid_serve_cluster_metrics(braid_serve_cluster *cluster, braid_text *text) {
  (void)cluster, (void)text;
}
