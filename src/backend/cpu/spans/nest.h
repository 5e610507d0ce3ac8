/* Loop nests: the elements of tensors of one broadcast shape, whatever their layouts, walked with as few and as long
 * loops as possible. Made ahead (create), so that a run does no arithmetic on shapes. */
#ifndef BRAID_BACKEND_CPU_SPANS_NEST_H
#define BRAID_BACKEND_CPU_SPANS_NEST_H

#include "braid/tensor.h"

enum { BRAID_NEST_OPERANDS = 6 };

typedef struct braid_nest {
  int rank, operands; /* rank >= 1; loop rank-1 is the innermost */
  int64_t dims[BRAID_MAX_RANK];
  int64_t strides[BRAID_NEST_OPERANDS][BRAID_MAX_RANK]; /* in elements; 0 where the operand is broadcast */
} braid_nest;

/* Strides in elements of the logical dimensions, for every layout without blocks (which have none). */
void braid_nest_strides(const braid_desc *desc, int64_t *strides);
/* The logical dimensions from the outermost to the innermost in memory. */
void braid_nest_order(const braid_desc *desc, int *order);

/* Loops over `shape` in the order of its memory; operands broadcast to it (their last dimensions are aligned). Where
 * all have its shape and layout, blocks too, or are single elements: one loop over everything in memory, padding
 * included. False: an operand in blocks among others. */
bool braid_nest_init(braid_nest *nest, const braid_desc *shape, const braid_desc *const *operands, int count);

/* Number of runs of the innermost loop. */
int64_t braid_nest_outer(const braid_nest *nest);
/* Indices of the outer loops, and the operands' offsets, for run `index`. */
typedef struct braid_nest_cursor {
  int64_t at[BRAID_MAX_RANK], offsets[BRAID_NEST_OPERANDS];
} braid_nest_cursor;
void braid_nest_seek(const braid_nest *nest, int64_t index, braid_nest_cursor *cursor);
void braid_nest_next(const braid_nest *nest, braid_nest_cursor *cursor);

#endif
