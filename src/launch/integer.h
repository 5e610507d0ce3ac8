/* What the families of training in integers share (docs/integer-training.md). Magnitudes are cleared by one launch and
 * added to by the next, bit by bit, so that their order does not matter and nothing comes back to the host. */
#ifndef BRAID_LAUNCH_INTEGER_H
#define BRAID_LAUNCH_INTEGER_H

#include "graph/geometry.h"
#include "launch/planner.h"

/* The product that an IntegerConv or a gradient of one is. */
typedef enum braid_launch_direction {
  BRAID_LAUNCH_FORWARD,
  BRAID_LAUNCH_BY_INPUTS,
  BRAID_LAUNCH_BY_WEIGHTS
} braid_launch_direction;
braid_launch_direction braid_launch_direction_of(const braid_node_desc *node);
/* Its geometry. */
BRAID_MUST_CHECK braid_status braid_launch_integer_conv(const braid_node_desc *node, braid_convolution *out);

/* Channels in blocks of 16, samples of a place side by side, [channels / 16][place][sample][16]: what kernels for
 * tensor cores read and write. Channels that only fill a block up are zeros, which stay zeros element by element. */
#define BRAID_LAUNCH_SAMPLES ((braid_layout)(BRAID_LAYOUT_CHWB | BRAID_LAYOUT_BLOCKED16))

/* braid_kernel.layouts of kernels that work in PLAIN and in BRAID_LAUNCH_SAMPLES: in the latter if an input comes in
 * it, all operands of the first input's rank. */
void braid_launch_samples_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs);
static inline bool braid_launch_is_samples(const braid_node_desc *node) {
  return node->inputs[0].desc.layout == BRAID_LAUNCH_SAMPLES;
}
/* Elements in memory, padding too. */
int64_t braid_launch_places(const braid_desc *desc);
/* Places of a channel of a sample. */
int64_t braid_launch_positions(const braid_desc *desc);

/* Work-items of a group whose results are joined by a tree: a power of two. */
size_t braid_launch_tree_group(const braid_launch_traits *traits);
/* Clears the words of an output of 32 or 64 bits. */
void braid_launch_add_clear(braid_launch_planner *p, size_t output);
/* -DRAW=int or long, with -DRAW_LONG. */
void braid_launch_add_raw(braid_launch_planner *p, braid_dtype dtype);
/* -DP=char or short. */
void braid_launch_add_parameter_type(braid_launch_planner *p, braid_dtype dtype);

#endif
