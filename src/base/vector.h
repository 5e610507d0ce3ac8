/* Growing arrays: makes room for one more item in `items` (`count` used, *capacity allocated) by doubling. */
#ifndef BRAID_BASE_VECTOR_H
#define BRAID_BASE_VECTOR_H
#include "braid/allocator.h"
/* Returns the array, possibly moved, with new items cleared; or NULL when out of memory, and nothing is changed. */
void *braid_grow(const braid_allocator *allocator, void *items, size_t count, size_t *capacity, size_t item_bytes);
#endif
