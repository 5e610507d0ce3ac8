/* Tables of kernels: families/NAME.c defines braid_launch_family_NAME, families.c lists them. A family writes recipes
 * for whatever device compiles the kernel text of that name. */
#ifndef BRAID_LAUNCH_FAMILIES_H
#define BRAID_LAUNCH_FAMILIES_H

#include "launch/recipe.h"

extern const braid_launch_family braid_launch_family_elementwise, braid_launch_family_reduce,
    braid_launch_family_movement, braid_launch_family_shape, braid_launch_family_gather, braid_launch_family_matmul,
    braid_launch_family_depthwise, braid_launch_family_conv, braid_launch_family_pool, braid_launch_family_norm,
    braid_launch_family_softmax, braid_launch_family_loss, braid_launch_family_optimizer, braid_launch_family_dropout,
    braid_launch_family_layout, braid_launch_family_conv_grad, braid_launch_family_recurrent,
    braid_launch_family_integer, braid_launch_family_integer_pool, braid_launch_family_integer_norm,
    braid_launch_family_integer_product, braid_launch_family_quantize;

/* Puts `first`, a backend's own, then the kernels of all families in one list, which the caller frees; the families'
 * names are given a prefix ("cl_"), so that plans and traces tell one backend's from another's. They are matched and
 * planned by braid_launch_match and braid_launch_plan (widened.h). */
BRAID_MUST_CHECK braid_status braid_launch_list_kernels(const braid_allocator *allocator, const char *prefix,
                                                        const braid_launch_family *first, size_t first_count,
                                                        const braid_kernel ***out, size_t *count);

#endif
