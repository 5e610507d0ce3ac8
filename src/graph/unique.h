/* Unique: which numbers, or which slices along an axis, a tensor has. The shape of the result follows from the
 * contents, so that inference and kernel alike ask here. */
#ifndef BRAID_GRAPH_UNIQUE_H
#define BRAID_GRAPH_UNIQUE_H

#include "graph/graph.h"

typedef struct braid_unique {
  const void *data;
  braid_dtype dtype;
  int64_t outer, size, inner; /* `size` slices of outer x inner numbers each */
  bool sorted;                /* else in the order in which they come first */
} braid_unique;

/* Of x, with the op's attributes axis (none: of all numbers) and sorted; `axis` is in range. */
void braid_unique_init(const braid_desc *x, const void *data, const braid_attrs *attrs, braid_unique *out);

/* What is found of different slices; room for `size` numbers each. first: which slice is the first of these; number: of
 * each slice, which of them it is; counts: how many are alike. `scratch` has room for 2 * size numbers. Returns how
 * many there are. NaN are alike, and stand last. */
int64_t braid_unique_find(const braid_unique *unique, int64_t *scratch, int64_t *first, int64_t *number,
                          int64_t *counts);

#endif
