/* Ranges of a memory that has nothing in it at first: which are taken, first fit. */
#ifndef BRAID_OVERLAY_CARD_RANGES_H
#define BRAID_OVERLAY_CARD_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

typedef struct braid_range {
  uint64_t first, size;
} braid_range;

typedef struct braid_ranges {
  const braid_allocator *allocator;
  uint64_t size, step; /* of the memory; ranges begin at multiples of `step` and have a multiple of it */
  braid_range *taken;  /* ascending, apart */
  size_t count, capacity;
} braid_ranges;

void braid_ranges_init(braid_ranges *ranges, uint64_t size, uint64_t step, const braid_allocator *allocator);
void braid_ranges_deinit(braid_ranges *ranges);
/* The first gap that has room; size 0 takes nothing. NO_MEMORY: there is none (the detail says what is left), or no
 * memory of the host. */
BRAID_MUST_CHECK braid_status braid_ranges_take(braid_ranges *ranges, uint64_t size, braid_range *out);
/* Of braid_ranges_take. */
void braid_ranges_give_back(braid_ranges *ranges, braid_range range);
uint64_t braid_ranges_left(const braid_ranges *ranges);

#endif
