/* The kernel families, one line each. */
#include "launch/families.h"

#include <string.h>

#include "launch/widened.h"

/* clang-format off */
static const braid_launch_family *const kFamilies[] = {
    &braid_launch_family_elementwise,
    &braid_launch_family_reduce,
    &braid_launch_family_movement,
    &braid_launch_family_shape,
    &braid_launch_family_gather,
    &braid_launch_family_matmul,
    &braid_launch_family_depthwise,
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

static const char kWide[] = "wide_";

/* Kernels of all families under their full names; those of float32 once more behind, widened. */
typedef struct listing {
  const char *prefix;
  const braid_kernel **next;
  braid_kernel *own;
  braid_launch_kernel *widened;
  char *name;
} listing;

static void list_one(listing *l, const braid_kernel *kernel, bool wide) {
  braid_kernel *own = l->own++;
  *own = *kernel;
  if (wide) {
    *l->widened = (braid_launch_kernel){.widens = kernel};
    *own = (braid_kernel){.op = kernel->op, .match = braid_launch_match_widened, .implementation = l->widened++};
  }
  own->name = l->name;
  l->name = stpcpy(stpcpy(stpcpy(l->name, l->prefix), wide ? kWide : ""), kernel->name) + 1;
  *l->next++ = own;
}

braid_status braid_launch_list_kernels(const braid_allocator *allocator, const char *prefix,
                                       const braid_launch_family *first, size_t first_count, const braid_kernel ***out,
                                       size_t *count) {
  size_t ours = 0, wide = 0, text = 0, bytes;
  *out = NULL, *count = 0;
  for (size_t i = 0; i < kFamilyCount; i++)
    for (size_t j = 0; j < kFamilies[i]->count; j++) {
      size_t times = kFamilies[i]->widens ? 2 : 1;
      ours += times;
      wide += times - 1;
      text += times * (strlen(prefix) + sizeof kWide + strlen(kFamilies[i]->kernels[j].name));
    }
  for (size_t i = 0; i < first_count; i++) *count += first[i].count;
  *count += ours;
  /* One block: the list, our kernels under their full names, what widened ones stand on, the text of the names. */
  bytes = *count * sizeof(braid_kernel *) + ours * sizeof(braid_kernel) + wide * sizeof(braid_launch_kernel) + text;
  const braid_kernel **list = *out = braid_zalloc(allocator, bytes);
  if (!list) return BRAID_NO_MEMORY;
  listing l = {.prefix = prefix, .next = list, .own = (braid_kernel *)(list + *count)};
  l.widened = (braid_launch_kernel *)(l.own + ours);
  l.name = (char *)(l.widened + wide);
  for (size_t i = 0; i < first_count; i++)
    for (size_t j = 0; j < first[i].count; j++) *l.next++ = &first[i].kernels[j];
  for (int again = 0; again < 2; again++)
    for (size_t i = 0; i < kFamilyCount; i++)
      for (size_t j = 0; j < kFamilies[i]->count && (!again || kFamilies[i]->widens); j++)
        list_one(&l, &kFamilies[i]->kernels[j], again);
  return BRAID_OK;
}
