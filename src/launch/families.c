/* The kernel families, one line each. */
#include "launch/families.h"

#include <string.h>

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
    &braid_launch_family_quantize,
    &braid_launch_family_integer,
    &braid_launch_family_integer_pool,
    &braid_launch_family_integer_norm,
    &braid_launch_family_integer_product,
};
/* clang-format on */
enum { kFamilyCount = sizeof kFamilies / sizeof *kFamilies };

braid_status braid_launch_list_kernels(const braid_allocator *allocator, const char *prefix,
                                       const braid_launch_family *first, size_t first_count, const braid_kernel ***out,
                                       size_t *count) {
  size_t ours = 0, text = 0, bytes;
  *out = NULL, *count = 0;
  for (size_t i = 0; i < kFamilyCount; i++)
    for (size_t j = 0; j < kFamilies[i]->count; j++, ours++)
      text += strlen(prefix) + strlen(kFamilies[i]->kernels[j].name) + 1;
  for (size_t i = 0; i < first_count; i++) *count += first[i].count;
  *count += ours;
  /* One block: the list, our kernels under their full names, the text of those. */
  bytes = *count * sizeof(braid_kernel *) + ours * sizeof(braid_kernel) + text;
  const braid_kernel **list = *out = braid_zalloc(allocator, bytes);
  if (!list) return BRAID_NO_MEMORY;
  braid_kernel *own = (braid_kernel *)(list + *count);
  char *name = (char *)(own + ours);
  for (size_t i = 0; i < first_count; i++)
    for (size_t j = 0; j < first[i].count; j++) *list++ = &first[i].kernels[j];
  for (size_t i = 0; i < kFamilyCount; i++)
    for (size_t j = 0; j < kFamilies[i]->count; j++, own++) {
      *own = kFamilies[i]->kernels[j];
      char *end = stpcpy(stpcpy(name, prefix), own->name);
      own->name = name;
      name = end + 1;
      *list++ = own;
    }
  return BRAID_OK;
}
