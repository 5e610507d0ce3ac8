#include "train/data/listing.h"

#include <string.h>

#include "base/checked.h"

braid_status braid_listing_reserve(braid_listing *list, size_t samples, bool files) {
  size_t values;
  if (!braid_mul_size(samples, list->name_count, &values)) return BRAID_NO_MEMORY;
  if (files && !(list->files = braid_zalloc_array(list->allocator, samples, sizeof *list->files)))
    return BRAID_NO_MEMORY;
  if (list->kind == BRAID_TARGET_CLASS)
    list->labels = braid_zalloc_array(list->allocator, samples, sizeof *list->labels);
  else
    list->values = braid_zalloc_array(list->allocator, values, sizeof *list->values);
  return list->labels || list->values ? BRAID_OK : BRAID_NO_MEMORY;
}

void braid_listing_target(const braid_listing *list, size_t sample, void *target) {
  if (list->kind == BRAID_TARGET_CLASS)
    *(int32_t *)target = list->labels[sample];
  else
    memcpy(target, list->values + sample * list->name_count, list->name_count * sizeof *list->values);
}

void braid_listing_deinit(braid_listing *list) {
  for (size_t i = 0; list->files && i < list->samples; i++) braid_free(list->allocator, (void *)list->files[i]);
  for (size_t i = 0; list->names && i < list->name_count; i++) braid_free(list->allocator, (void *)list->names[i]);
  braid_free(list->allocator, list->files);
  braid_free(list->allocator, list->names);
  braid_free(list->allocator, list->labels);
  braid_free(list->allocator, list->values);
  *list = (braid_listing){.allocator = list->allocator};
}
