/* Tables of kernels: cl_NAME.c defines braid_cl_NAME, families.c lists them. */
#ifndef BRAID_BACKEND_OPENCL_FAMILIES_H
#define BRAID_BACKEND_OPENCL_FAMILIES_H

#include "launch/recipe.h"

extern const braid_cl_family braid_cl_elementwise, braid_cl_reduce, braid_cl_movement, braid_cl_shape, braid_cl_gather,
    braid_cl_matmul, braid_cl_conv, braid_cl_pool, braid_cl_norm, braid_cl_softmax, braid_cl_loss, braid_cl_optimizer,
    braid_cl_dropout, braid_cl_layout, braid_cl_conv_grad, braid_cl_recurrent;

#endif
