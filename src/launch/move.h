/* Launches that move elements of any type. */
#ifndef BRAID_BACKEND_OPENCL_MOVE_H
#define BRAID_BACKEND_OPENCL_MOVE_H

#include "launch/nest.h"

/* One move: every element of the nest from `in` + steps[0] to `out` + steps[1]; offsets in elements. */
typedef struct braid_cl_move {
  size_t input, output;
  int64_t from, to;
  braid_cl_nest nest;
} braid_cl_move;

/* The unsigned OpenCL type of the size of an element. */
const char *braid_cl_move_type(braid_dtype dtype);
void braid_cl_add_move(braid_cl_planner *p, const braid_cl_move *move);
/* Between an operand and a piece of the workspace, elements of `element_bytes`: the nest's operand 0 is read, 1 is
 * written. `input`: input `index` goes into the piece, whose rest is zeroed if `larger`; else the piece goes to output
 * `index`. */
void braid_cl_add_staging(braid_cl_planner *p, const braid_cl_nest *nest, bool input, size_t index,
                          braid_cl_piece piece, bool larger, size_t element_bytes);
/* Input 0 to output 0 as it lies. */
void braid_cl_add_copy(braid_cl_planner *p);
/* Sets every byte of output 0 to zero. */
void braid_cl_add_zeros(braid_cl_planner *p);

#endif
