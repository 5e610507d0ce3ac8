/* Growing arrays: makes room for one more item in `items` (count used, capacity allocated), doubling. */
#ifndef BRAID_BASE_VECTOR_H
#define BRAID_BASE_VECTOR_H
#include "braid/allocator.h"
/* Returns the items (moved if need be) or NULL when out of memory, then nothing changed. New room is zeroed. */
void *braid_grow(const braid_allocator *allocator, void *items, size_t count, size_t *capacity, size_t item_bytes);
#endif
