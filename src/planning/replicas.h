/* Data parallelism: a training step is run once on every GPU, each with its share of the batch, and the gradients are
 * added between the GPUs before the parameters are updated (Sergeev and Del Balso 2018; TensorFlow's mirrored
 * strategy). Gradients are exchanged in buckets, in the order in which they are computed. */
#ifndef BRAID_PLANNING_REPLICAS_H
#define BRAID_PLANNING_REPLICAS_H

#include "base/arena.h"
#include "graph/graph.h"

/* An operation of one of the replicas, or the exchange of a bucket. */
typedef struct braid_replica_entry {
  int32_t node; /* of the graph; -1: the exchange of `bucket` */
  int32_t replica, bucket;
} braid_replica_entry;

typedef struct braid_replica_gradient {
  braid_value_id value;
  int32_t update; /* the node that reads it, as input 1 */
} braid_replica_gradient;

typedef struct braid_replicas {
  int64_t count;                /* of replicas */
  braid_replica_entry *entries; /* in topological order */
  size_t entry_count;
  int32_t *position; /* of a replica's node among them: [replica * nodes + node] */
  braid_replica_gradient *gradients;
  size_t *first; /* of each bucket: its first gradient; one more */
  size_t bucket_count;
  int32_t *bucket; /* per node: whose sum it reads in place of its gradient; -1: none */
} braid_replicas;

/* All is in the arena. With one replica: the graph's nodes as they are. A bucket is closed when it has `bucket_bytes`.
 */
BRAID_MUST_CHECK braid_status braid_replicas_make(const braid_graph *graph, int64_t count, double bucket_bytes,
                                                  braid_arena *arena, braid_replicas *out);

/* What exchanging so many bytes among the replicas takes by a ring: each sends its part of the sum so far to the next,
 * 2 (count - 1) times a count-th of the bytes (Patarasuk and Yuan 2009). */
double braid_ring_seconds(int64_t count, double bytes, double latency_seconds, double bytes_per_second);

#endif
