#include <string.h>

#include "backend/manycore/kernel.h"

static const braid_manycore_table *const kTables[] = {&braid_manycore_convolutions, &braid_manycore_products,
                                                      &braid_manycore_elements,     &braid_manycore_pools,
                                                      &braid_manycore_norms,        &braid_manycore_softmaxes};
enum { kTableCount = sizeof kTables / sizeof *kTables };

const braid_kernel *braid_manycore_kernel_at(size_t index) {
  for (size_t t = 0; t < kTableCount; index -= kTables[t++]->count)
    if (index < kTables[t]->count) return &kTables[t]->kernels[index];
  return NULL;
}
