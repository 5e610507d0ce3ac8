/* Nests of loops over operands that lie in memory by steps: what broadcasting, reducing and moving kernels walk. */
#ifndef BRAID_LAUNCH_NEST_H
#define BRAID_LAUNCH_NEST_H

#include "launch/planner.h"

enum { BRAID_LAUNCH_NEST_OPERANDS = 3 };

typedef struct braid_launch_nest {
  int rank;
  int64_t dims[BRAID_MAX_RANK];
  int64_t steps[BRAID_LAUNCH_NEST_OPERANDS][BRAID_MAX_RANK]; /* in elements */
} braid_launch_nest;

/* Steps of a row-major tensor of shape `desc`, broadcast to `rank` dimensions: 0 where it is repeated. */
void braid_launch_broadcast_steps(const braid_desc *desc, int rank, int64_t *steps);
/* Leaves out dimensions of one element and makes one of neighbours that every operand walks through in one go; `rank`
 * is 1 or more afterwards. */
void braid_launch_nest_merge(braid_launch_nest *nest);
/* Adds `width` numbers as arguments: the last dimensions' sizes, ones before them if there are fewer. */
void braid_launch_nest_sizes(braid_launch_planner *p, const braid_launch_nest *nest, int width);
/* The same for steps of an operand, with zeros. */
void braid_launch_nest_steps(braid_launch_planner *p, const braid_launch_nest *nest, int operand, int width);

#endif
