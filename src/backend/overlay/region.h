/* A region on a simulated card: compiled for its cores, computed by the functional simulator, one image of a batch
 * after the other, timed by the timing simulator. */
#ifndef BRAID_BACKEND_OVERLAY_REGION_H
#define BRAID_BACKEND_OVERLAY_REGION_H

#include "braid/device.h"
#include "overlay/design.h"

typedef struct braid_overlay_region braid_overlay_region;

/* What a task takes on the card, modelled: from the host to its DDR, the images, and back. */
typedef struct braid_overlay_cost {
  double seconds;
  double microjoules; /* NAN: the design lacks a figure of its power */
} braid_overlay_cost;

/* `cores` of a share of the card, which is one of `shares` equal ones. */
typedef struct braid_overlay_share {
  const braid_overlay_design *design;
  int cores, shares;
} braid_overlay_share;

/* Nothing of `node` is used later. The design must outlive it. */
BRAID_MUST_CHECK braid_status braid_overlay_region_create(const braid_allocator *allocator,
                                                          const braid_overlay_share *share, const braid_node_desc *node,
                                                          braid_overlay_region **out);
void braid_overlay_region_destroy(braid_overlay_region *region);         /* NULL is allowed */
uint64_t braid_overlay_region_bytes(const braid_overlay_region *region); /* of the card's memory */
braid_overlay_cost braid_overlay_region_cost(const braid_overlay_region *region);
/* One call at a time. `operands`: of inputs, then outputs, in the order of the node's; outputs may be NULL: nobody
 * reads them. Ends early, without a failure, if the verdict is cancelled. */
BRAID_MUST_CHECK braid_status braid_overlay_region_run(braid_overlay_region *region, void *const *operands,
                                                       const braid_verdict *verdict);

#endif
