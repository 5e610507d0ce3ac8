/* Which replica a request goes to: the one where it is expected to end first; none if none can end it by its deadline.
 * Over plain numbers, as placement_policy.h. Times in nanoseconds on one clock.
 *
 * What is known of a node is when its instances are expected to be through with what they have (`free_ns`), which the
 * caller keeps up to date: a gateway from what it sent and what came back, the simulator from its events. The node
 * itself decides in the end (braid_serve_admit); if it refuses, ask again with it among `refused`. */
#ifndef BRAID_SERVE_CLUSTER_ROUTING_POLICY_H
#define BRAID_SERVE_CLUSTER_ROUTING_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

/* A model on a node. */
typedef struct braid_cluster_target {
  size_t model, node;
  int64_t service_ns; /* of a request there that need not wait, the way there and back counted in: the mean where the
                         node itself decides in the end, else what few exceed */
} braid_cluster_target;

typedef struct braid_cluster_router braid_cluster_router;

/* targets: by model and then node. Every node is free from the start (free_ns 0). */
BRAID_MUST_CHECK braid_status braid_cluster_router_create(const braid_cluster_target *targets, size_t count,
                                                          size_t node_count, size_t model_count,
                                                          const braid_allocator *allocator, braid_cluster_router **out);
void braid_cluster_router_destroy(braid_cluster_router *router); /* NULL is allowed */
/* The node is expected to be free at `free_ns`; INT64_MAX: nothing goes there (it is lost, or still loads). O(models on
 * the node * log(replicas)). */
void braid_cluster_router_set_free(braid_cluster_router *router, size_t node, int64_t free_ns);
int64_t braid_cluster_router_free(const braid_cluster_router *router, size_t node);
/* Whether requests for the model go to the node; from the start they do. Of pairs that are no target nothing changes.
 */
void braid_cluster_router_open(braid_cluster_router *router, size_t model, size_t node, bool open);

typedef struct braid_cluster_route {
  size_t node;    /* BRAID_CLUSTER_NONE: refused */
  int64_t end_ns; /* when it is expected to end there, or would at the earliest; INT64_MAX: nobody holds the model */
} braid_cluster_route;
enum { BRAID_CLUSTER_MOST_REFUSED = 8 };
/* The replica where a request that comes now ends first; of equals always the same. deadline_ns 0: none. Nodes of
 * `refused` are left out. */
braid_cluster_route braid_cluster_choose(const braid_cluster_router *router, size_t model, int64_t now_ns,
                                         int64_t deadline_ns, const size_t *refused, size_t refused_count);

#endif
