/* The kernel families of this backend, one line each. */
#include "launch/families.h"

#include "backend/opencl/device.h"

/* clang-format off */
static const braid_cl_family *const kFamilies[] = {
    &braid_cl_elementwise,
    &braid_cl_reduce,
    &braid_cl_movement,
    &braid_cl_shape,
    &braid_cl_gather,
    &braid_cl_matmul,
    &braid_cl_conv,
    &braid_cl_pool,
    &braid_cl_norm,
    &braid_cl_softmax,
    &braid_cl_loss,
    &braid_cl_layout,
    &braid_cl_dropout,
    &braid_cl_conv_grad,
    &braid_cl_optimizer,
    &braid_cl_recurrent,
};
/* clang-format on */

braid_status braid_cl_list_kernels(const braid_allocator *allocator, const braid_cl_family *first,
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
