/* Loop nests: the elements of tensors of one broadcast shape, whatever their layouts, walked with as few and as long
 * loops as possible. Made ahead (create), so that a run does no arithmetic on shapes. */
#ifndef BRAID_BACKEND_CPU_SPANS_NEST_H
#define BRAID_BACKEND_CPU_SPANS_NEST_H

#include "braid/tensor.h"

enum { BRAID_NEST_OPERANDS = 6, BRAID_NEST_RANK = BRAID_MAX_RANK + BRAID_LAYOUT_BLOCKS };

typedef struct braid_nest {
  int rank, operands; /* rank >= 1; loop rank-1 is the innermost */
  int64_t dims[BRAID_NEST_RANK];
  int64_t strides[BRAID_NEST_OPERANDS][BRAID_NEST_RANK]; /* in elements; 0 where the operand is broadcast */
  /* Not 0: in the innermost loop the operand's elements, as many as this and one after the other, are repeated. */
  int64_t period[BRAID_NEST_OPERANDS];
} braid_nest;

/* Strides in elements of the logical dimensions, for every layout without blocks (which have none). */
void braid_nest_strides(const braid_desc *desc, int64_t *strides);
/* The logical dimensions from the outermost to the innermost in memory. */
void braid_nest_order(const braid_desc *desc, int *order);

/* Loops over `shape` in the order of its memory, which for blocks includes their padding; operands are broadcast to it
 * (their last dimensions are aligned). False: an operand in blocks that has not the layout of `shape`, or one that has
 * no element for the padding of `shape`: it lies otherwise, or is repeated along a padded dimension. */
bool braid_nest_init(braid_nest *nest, const braid_desc *shape, const braid_desc *const *operands, int count);

/* Number of runs of the innermost loop. */
int64_t braid_nest_outer(const braid_nest *nest);
/* Indices of the outer loops, and the operands' offsets, for run `index`. */
typedef struct braid_nest_cursor {
  int64_t at[BRAID_NEST_RANK], offsets[BRAID_NEST_OPERANDS];
} braid_nest_cursor;
void braid_nest_seek(const braid_nest *nest, int64_t index, braid_nest_cursor *cursor);
void braid_nest_next(const braid_nest *nest, braid_nest_cursor *cursor);

#endif
