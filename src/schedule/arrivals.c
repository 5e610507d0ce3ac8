#include "schedule/arrivals.h"

#include <string.h>

enum { kTable = 1 << 16 }; /* entries of a table at most */

void braid_arrivals_clear(braid_arrivals *a) {
  if (a->mask)
    memset(a->keys, 0, a->size * sizeof *a->keys);
  else
    for (size_t i = 0; i < a->size; i++) a->times[i] = -1;
}

braid_status braid_arrivals_init(braid_arrivals *a, const braid_problem *problem, size_t most,
                                 const braid_allocator *allocator) {
  *a = (braid_arrivals){.spaces = (size_t)problem->space_count, .size = 1};
  if (problem->value_count <= kTable / a->spaces) {
    a->size = problem->value_count * a->spaces + 1;
  } else {
    while (a->size < 2 * (most + problem->value_count + 1)) a->size *= 2;
    a->mask = a->size - 1;
    a->keys = braid_zalloc_array(allocator, a->size, sizeof *a->keys);
    if (!a->keys) return BRAID_NO_MEMORY;
  }
  a->times = braid_zalloc_array(allocator, a->size, sizeof *a->times);
  if (!a->times) return BRAID_NO_MEMORY;
  braid_arrivals_clear(a);
  return BRAID_OK;
}

void braid_arrivals_deinit(braid_arrivals *a, const braid_allocator *allocator) {
  braid_free(allocator, a->keys);
  braid_free(allocator, a->times);
}

/* The slot of the pair, or the free one where it would stand. */
static size_t slot_of(const braid_arrivals *a, uint64_t key) {
  uint64_t mixed = key * 0x9e3779b97f4a7c15u;
  size_t at = (size_t)(mixed >> 20) & a->mask;
  while (a->keys[at] && a->keys[at] != key) at = (at + 1) & a->mask;
  return at;
}

double braid_arrivals_get(const braid_arrivals *a, int32_t value, int space) {
  size_t index = (size_t)value * a->spaces + (size_t)space;
  if (!a->mask) return a->times[index];
  size_t at = slot_of(a, index + 1);
  return a->keys[at] ? a->times[at] : -1;
}

void braid_arrivals_set(braid_arrivals *a, int32_t value, int space, double seconds) {
  size_t index = (size_t)value * a->spaces + (size_t)space;
  if (!a->mask) {
    a->times[index] = seconds;
    return;
  }
  size_t at = slot_of(a, index + 1);
  a->keys[at] = index + 1;
  a->times[at] = seconds;
}
