/* What the ops that move elements share. */
#ifndef BRAID_GRAPH_OPS_MOVEMENT_H
#define BRAID_GRAPH_OPS_MOVEMENT_H

#include "graph/gradient.h"

/* The contents of input `index`, a list (or one) of int64 or int32 known before the run. `what` names it in messages.
 */
BRAID_MUST_CHECK braid_status braid_infer_ints(const braid_infer *infer, size_t index, const char *what,
                                               int64_t *values, size_t capacity, size_t *count);
/* A constant list for a backward node. */
BRAID_MUST_CHECK braid_status braid_gradient_ints(braid_gradient_context *context, const int64_t *values, size_t count,
                                                  braid_value_id *out);

/* --- where each element comes from, for infer functions and kernels alike --- */
typedef struct braid_slice {
  int64_t start[BRAID_MAX_RANK], step[BRAID_MAX_RANK], count[BRAID_MAX_RANK]; /* of every axis of the input */
} braid_slice;
/* From Slice's lists (axes and steps may be NULL), with their negative and excessive values; false if one is wrong. */
bool braid_slice_init(const braid_desc *x, const int64_t *starts, const int64_t *ends, const int64_t *axes,
                      const int64_t *steps, size_t count, braid_slice *out);
/* What Pad adds before and after each axis of x, from its lists (axes may be NULL: all); false if they do not fit. */
bool braid_pad_init(const braid_desc *x, const int64_t *pads, size_t count, const int64_t *axes, size_t axis_count,
                    int64_t *begin, int64_t *end);
/* Where in an axis of `size` elements the result's position i comes from; -1: the constant. Negative pads cut, and what
 * wraps around is what is left. */
int64_t braid_pad_source(const char *mode, int64_t i, int64_t begin, int64_t end, int64_t size);
#endif
