/* The kernel families of this backend, one line each. */
#include "launch/families.h"

#include "backend/opencl/device.h"

/* clang-format off */
static const braid_launch_family *const kFamilies[] = {
    &braid_launch_family_elementwise,
    &braid_launch_family_reduce,
    &braid_launch_family_movement,
    &braid_launch_family_shape,
    &braid_launch_family_gather,
    &braid_launch_family_matmul,
    &braid_launch_family_conv,
    &braid_launch_family_pool,
    &braid_launch_family_norm,
    &braid_launch_family_softmax,
    &braid_launch_family_loss,
    &braid_launch_family_layout,
    &braid_launch_family_dropout,
    &braid_launch_family_conv_grad,
    &braid_launch_family_optimizer,
    &braid_launch_family_recurrent,
};
/* clang-format on */

braid_status braid_launch_list_kernels(const braid_allocator *allocator, const braid_launch_family *first,
                                       const braid_kernel ***out, size_t *count) {
  size_t families = sizeof kFamilies / sizeof *kFamilies;
  *count = first->count;
  for (size_t i = 0; i < families; i++) *count += kFamilies[i]->count;
  const braid_kernel **kernels = *out = braid_zalloc_array(allocator, *count, sizeof *kernels);
  if (!kernels) return BRAID_NO_MEMORY;
  for (size_t j = 0; j < first->count; j++) *kernels++ = &first->kernels[j];
  for (size_t i = 0; i < families; i++)
    for (size_t j = 0; j < kFamilies[i]->count; j++) *kernels++ = &kFamilies[i]->kernels[j];
  return BRAID_OK;
}
