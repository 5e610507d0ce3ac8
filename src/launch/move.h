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
/* Input 0 to output 0 as it lies. */
void braid_launch_add_copy(braid_launch_planner *p);
/* Sets every byte of output 0 to zero. */
void braid_launch_add_zeros(braid_launch_planner *p);

#endif
