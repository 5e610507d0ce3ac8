/* Files of models that come from other nodes; private to this folder. All of it is the fetching thread's. */
#ifndef BRAID_SERVE_CLUSTER_FETCH_H
#define BRAID_SERVE_CLUSTER_FETCH_H

#include "base/file.h"
#include "base/sha256.h"
#include "serve/cluster/node.h"

/* Where files come from. */
typedef struct fetching {
  braid_client *client;
  const char *model, *address;
  cluster_carried *carried; /* what is counted while they come */
  bool lost;                /* the node does not answer any more, or nonsense */
  size_t own;               /* files that were here already */
} fetching;

/* A file that comes, to a file beside, which gets its name when the writer is committed. */
typedef struct fetched {
  braid_writer *writer; /* NULL: it was here already */
  braid_sha256 hash;
  uint8_t sum[BRAID_SHA256_BYTES]; /* when it is whole */
  uint64_t bytes, total;           /* that are here, and that it has */
} fetched;

/* The status of what was done with files here: what goes wrong there is not the node's fault, nor UCX's. */
static inline braid_status braid_cluster_ours(braid_status status) {
  return status == BRAID_IO ? BRAID_OUT_OF_RANGE : status;
}

/* CANCELLED: the daemon stops. */
BRAID_MUST_CHECK braid_status braid_cluster_check_ending(const braid_serve_cluster *cluster);
/* The model's file of that number, of `most` bytes at most, which goes to `path`. On failure the writer, if there is
 * one, is still to be aborted. IO: the node's fault, or the network's; OUT_OF_RANGE: it has more than `most` bytes, or
 * cannot be written here. */
BRAID_MUST_CHECK braid_status braid_cluster_fetch_file(braid_serve_cluster *cluster, fetching *from, uint32_t file,
                                                       const char *path, uint64_t most, fetched *out);
/* For a while nothing comes from there by UCX. */
void braid_cluster_set_bulk_away(braid_serve_cluster *cluster, const char *address);

#endif
