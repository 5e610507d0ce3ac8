/* A graph, or a region of one, as the device contract shows it (braid_subgraph), as a graph that the overlay's lowering
 * reads (overlay/network.h). Values keep their numbers, nodes theirs. */
#ifndef BRAID_BACKEND_OVERLAY_VIEW_H
#define BRAID_BACKEND_OVERLAY_VIEW_H

#include "braid/device.h"
#include "graph/graph.h"

/* `border`: the operands of a region, whose constants are there; NULL: the constants are in the operands of the nodes.
 * *out has nodes, values, inputs and outputs, no names to look for, and is not to be changed. It uses the subgraph and
 * the contents of constants, and does not copy them. */
BRAID_MUST_CHECK braid_status braid_overlay_view_create(const braid_allocator *allocator, const braid_subgraph *shown,
                                                        const braid_operand *border, braid_graph **out);
void braid_overlay_view_destroy(braid_graph *view); /* NULL is allowed */

#endif
