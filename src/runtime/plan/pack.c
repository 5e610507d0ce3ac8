/* Packing blocks with known lifetimes into one arena. Two greedy orders are tried, largest first and oldest first; in
 * each a block goes into the smallest gap, among the blocks alive at the same time and placed already, that holds it.
 * The smaller arena wins. Largest first is near the lower bound (the most alive at once) on networks; oldest first is
 * better on long chains of equal blocks. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/plan/plan.h"

static int by_size(const void *a, const void *b) {
  const braid_block *x = *(const braid_block *const *)a, *y = *(const braid_block *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y;
}

static int by_age(const void *a, const void *b) {
  const braid_block *x = *(const braid_block *const *)a, *y = *(const braid_block *const *)b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x < y ? -1 : x > y;
}

static bool alive_together(const braid_block *a, const braid_block *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* `placed` is sorted by offset. */
static bool find_offset(braid_block *const *placed, size_t count, const braid_block *block, size_t *offset) {
  size_t best_gap = SIZE_MAX, end = 0;
  *offset = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    if (!alive_together(placed[i], block)) continue;
    size_t gap = placed[i]->offset > end ? placed[i]->offset - end : 0;
    if (gap >= block->bytes && gap < best_gap) {
      best_gap = gap;
      *offset = end;
    }
    size_t after = placed[i]->offset + placed[i]->bytes;
    if (after > end) end = after;
  }
  if (*offset == SIZE_MAX) *offset = end;
  return *offset <= SIZE_MAX - block->bytes;
}

static bool blocks_pack(braid_block **order, braid_block **placed, size_t count, size_t *arena_bytes) {
  *arena_bytes = 0;
  for (size_t i = 0; i < count; i++) {
    braid_block *block = order[i];
    if (!find_offset(placed, i, block, &block->offset)) return false;
    size_t at = i;
    for (; at > 0 && placed[at - 1]->offset > block->offset; at--) placed[at] = placed[at - 1];
    placed[at] = block;
    if (block->offset + block->bytes > *arena_bytes) *arena_bytes = block->offset + block->bytes;
  }
  return true;
}

braid_status braid_pack_blocks(const braid_allocator *allocator, braid_block *blocks, size_t count,
                               size_t *arena_bytes) {
  *arena_bytes = 0;
  if (!count) return BRAID_OK;
  braid_block **order = braid_zalloc_array(allocator, count, sizeof *order);
  braid_block **placed = braid_zalloc_array(allocator, count, sizeof *placed);
  size_t *offsets = braid_zalloc_array(allocator, count, sizeof *offsets);
  braid_status status = order && placed && offsets ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    size_t largest_first, oldest_first;
    for (size_t i = 0; i < count; i++) order[i] = &blocks[i];
    qsort(order, count, sizeof *order, by_size);
    bool fits = blocks_pack(order, placed, count, &largest_first);
    for (size_t i = 0; i < count; i++) offsets[i] = blocks[i].offset;
    qsort(order, count, sizeof *order, by_age);
    fits = blocks_pack(order, placed, count, &oldest_first) && fits;
    if (!fits) status = braid_fail(BRAID_OUT_OF_RANGE, "the values of the graph do not fit any memory");
    *arena_bytes = oldest_first < largest_first ? oldest_first : largest_first;
    for (size_t i = 0; i < count && largest_first <= oldest_first; i++) blocks[i].offset = offsets[i];
  }
  braid_free(allocator, order);
  braid_free(allocator, placed);
  braid_free(allocator, offsets);
  return status;
}
