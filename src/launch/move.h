/* Launches that move elements of any type. */
#ifndef BRAID_LAUNCH_MOVE_H
#define BRAID_LAUNCH_MOVE_H

#include "launch/nest.h"

/* One move: every element of the nest from `in` + steps[0] to `out` + steps[1]; offsets in elements. */
typedef struct braid_launch_move {
  size_t input, output;
  int64_t from, to;
  braid_launch_nest nest;
} braid_launch_move;

/* The unsigned OpenCL type of the size of an element. */
const char *braid_launch_move_type(braid_dtype dtype);
void braid_launch_add_move(braid_launch_planner *p, const braid_launch_move *move);
/* Between an operand and a piece of the workspace, elements of `element_bytes`: the nest's operand 0 is read, 1 is
 * written. `input`: input `index` goes into the piece, whose rest is zeroed if `larger`; else the piece goes to output
 * `index`. */
void braid_launch_add_staging(braid_launch_planner *p, const braid_launch_nest *nest, bool input, size_t index,
                              braid_launch_piece piece, bool larger, size_t element_bytes);
/* Input 0 to output 0 as it lies. */
void braid_launch_add_copy(braid_launch_planner *p);
/* Sets every byte of output 0 to zero. */
void braid_launch_add_zeros(braid_launch_planner *p);

#endif
