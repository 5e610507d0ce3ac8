/* What the families of training in integers share (docs/integer-training.md). Magnitudes are cleared by one launch and
 * added to by the next, bit by bit, so that their order does not matter and nothing comes back to the host. */
#ifndef BRAID_LAUNCH_INTEGER_H
#define BRAID_LAUNCH_INTEGER_H

#include "launch/planner.h"

/* Work-items of a group whose results are joined by a tree: a power of two. */
size_t braid_launch_tree_group(const braid_launch_traits *traits);
/* Clears the words of an output of 32 or 64 bits. */
void braid_launch_add_clear(braid_launch_planner *p, size_t output);
/* -DRAW=int or long, with -DRAW_LONG. */
void braid_launch_add_raw(braid_launch_planner *p, braid_dtype dtype);
/* -DP=char or short. */
void braid_launch_add_parameter_type(braid_launch_planner *p, braid_dtype dtype);

#endif
