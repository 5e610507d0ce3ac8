/* Tables of kernels: cl_NAME.c defines braid_cl_NAME, families.c lists them. */
#ifndef BRAID_LAUNCH_FAMILIES_H
#define BRAID_LAUNCH_FAMILIES_H

#include "launch/recipe.h"

extern const braid_launch_family braid_launch_family_elementwise, braid_launch_family_reduce,
    braid_launch_family_movement, braid_launch_family_shape, braid_launch_family_gather, braid_launch_family_matmul,
    braid_launch_family_conv, braid_launch_family_pool, braid_launch_family_norm, braid_launch_family_softmax,
    braid_launch_family_loss, braid_launch_family_optimizer, braid_launch_family_dropout, braid_launch_family_layout,
    braid_launch_family_conv_grad, braid_launch_family_recurrent;

#endif
