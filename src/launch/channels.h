/* Recipes over images whose channels lie last (BHWC), which cuDNN makes of 16-bit values: text channels.cl. The
 * families of normalizations and pools follow that layout where it comes, and ask here. */
#ifndef BRAID_LAUNCH_CHANNELS_H
#define BRAID_LAUNCH_CHANNELS_H

#include <string.h>

#include "graph/geometry.h"
#include "launch/planner.h"

/* For braid_kernel.layouts: if one of the images among inputs (float32 or 16 bits, four dimensions, channels in eights)
 * comes as BHWC, all operands of four dimensions are to be so; else everything is plain. */
void braid_launch_follow_channels(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs);
static inline bool braid_launch_channels_last(const braid_operand *operand) {
  return operand->desc.layout == BRAID_LAYOUT_BHWC;
}

/* Is there a Relu behind the normalization, or its gradient in that of one? */
static inline bool braid_launch_has_relu(const braid_node_desc *node) {
  return strstr(node->op, "Relu") != NULL;
}

/* What a sum of errors passes a Relu by (gate.clh): inputs 2, 4 and 5 of BatchNormalizationReluGrad, scale, inverse and
 * bias, behind the launch's other arguments. */
static inline void braid_launch_add_gate(braid_launch_planner *p) {
  braid_launch_input(p, 2);
  braid_launch_input(p, 4);
  braid_launch_input(p, 5);
}

/* Of a planner that has begun. */
void braid_launch_batch_norm_last(braid_launch_planner *p);      /* BatchNormalization */
void braid_launch_batch_norm_grad_last(braid_launch_planner *p); /* its gradient */
void braid_launch_bias_grad_last(braid_launch_planner *p);       /* BiasGrad */
void braid_launch_max_pool_last(braid_launch_planner *p, const braid_window *window);
void braid_launch_max_pool_grad_last(braid_launch_planner *p, const braid_window *window);
void braid_launch_global_average_last(braid_launch_planner *p); /* GlobalAveragePool and its gradient */

#endif
