/* The parts of a graph that a design of the overlay can run, each a convex set of nodes that is lowered and compiled as
 * a whole (overlay/network.h), and for every other node the reason. */
#ifndef BRAID_OVERLAY_COMPILER_PARTS_H
#define BRAID_OVERLAY_COMPILER_PARTS_H

#include "overlay/design.h"
#include "overlay/network.h"

typedef struct braid_overlay_parts {
  const braid_allocator *allocator;
  size_t node_count;
  int32_t part_count;
  double *seconds; /* of each part: what a task of it takes, by the compiler's estimate */
  int32_t *part;   /* of each node: -1, or its part; no path leads from a part to one of a smaller number */
  braid_overlay_refusal *refusals; /* of nodes in no part */
  size_t refusal_count;
} braid_overlay_parts;

/* The graph is resolved. `wanted`: of each node, whether it may be in a part. `cores`: those that `seconds` is of.
 * `trim`: nodes that quantize or dequantize between a part and others are left to these. UNSUPPORTED: the design has no
 * cores for convolutions. */
BRAID_MUST_CHECK braid_status braid_overlay_parts_find(const braid_graph *graph, const bool *wanted, bool trim,
                                                       const braid_overlay_design *design, int cores,
                                                       braid_overlay_parts *out);
void braid_overlay_parts_free(braid_overlay_parts *parts); /* all 0 is allowed */

#endif
