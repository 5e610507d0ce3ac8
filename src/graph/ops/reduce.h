/* Reductions: which dimensions go, for shapes and for kernels alike. */
#ifndef BRAID_GRAPH_OPS_REDUCE_H
#define BRAID_GRAPH_OPS_REDUCE_H

#include "graph/graph.h"

/* Sets reduced[i] for every dimension i that is reduced. `axes`, the second input, may be NULL: left out; then, or if
 * there are none in it, all dimensions are reduced, or none with noop_with_empty_axes. False: an axis is out of range
 * or named twice. */
bool braid_reduce_dims(const braid_attrs *attrs, int rank, const int64_t *axes, int64_t axis_count,
                       bool reduced[BRAID_MAX_RANK]);

#endif
