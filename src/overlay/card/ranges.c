#include "overlay/card/ranges.h"

#include <string.h>

#include "base/invariant.h"
#include "base/vector.h"

void braid_ranges_init(braid_ranges *ranges, uint64_t size, uint64_t step, const braid_allocator *allocator) {
  *ranges = (braid_ranges){.allocator = allocator, .size = size, .step = step};
}

void braid_ranges_deinit(braid_ranges *ranges) {
  braid_free(ranges->allocator, ranges->taken);
  *ranges = (braid_ranges){0};
}

uint64_t braid_ranges_left(const braid_ranges *ranges) {
  uint64_t left = ranges->size;
  for (size_t i = 0; i < ranges->count; i++) left -= ranges->taken[i].size;
  return left;
}

braid_status braid_ranges_take(braid_ranges *ranges, uint64_t size, braid_range *out) {
  *out = (braid_range){0, 0};
  if (!size) return BRAID_OK;
  uint64_t whole = size > ranges->size ? UINT64_MAX : (size + ranges->step - 1) / ranges->step * ranges->step, at = 0;
  size_t i = 0;
  for (; i < ranges->count && ranges->taken[i].first - at < whole; i++)
    at = ranges->taken[i].first + ranges->taken[i].size;
  if (whole > ranges->size - at)
    return braid_fail(BRAID_NO_MEMORY, "%llu bytes in a row are wanted of the card's memory; it has %llu left",
                      (unsigned long long)size, (unsigned long long)braid_ranges_left(ranges));
  braid_range *taken =
      braid_grow(ranges->allocator, ranges->taken, ranges->count, &ranges->capacity, sizeof *ranges->taken);
  if (!taken) return BRAID_NO_MEMORY;
  ranges->taken = taken;
  memmove(&taken[i + 1], &taken[i], (ranges->count - i) * sizeof *taken);
  ranges->count++;
  *out = taken[i] = (braid_range){at, whole};
  return BRAID_OK;
}

void braid_ranges_give_back(braid_ranges *ranges, braid_range range) {
  size_t i = 0;
  if (!range.size) return;
  while (i < ranges->count && ranges->taken[i].first != range.first) i++;
  BRAID_ASSERT(i < ranges->count && ranges->taken[i].size == range.size);
  ranges->count--;
  memmove(&ranges->taken[i], &ranges->taken[i + 1], (ranges->count - i) * sizeof *ranges->taken);
}
