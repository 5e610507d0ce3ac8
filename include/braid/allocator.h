/* Allocators: every object takes its host memory from the allocator that it was created with.
 *
 * NULL stands for the C library's heap. Tests pass an allocator that fails the n-th request. The functions may be
 * called from several threads if the allocator's callbacks may. An allocator must outlive the objects created with it.
 */
#ifndef BRAID_ALLOCATOR_H
#define BRAID_ALLOCATOR_H

#include <stddef.h>

#include "braid/status.h"

typedef struct braid_allocator {
  void *context;
  /* Returns `bytes` (> 0) aligned to `alignment` (a power of two >= 16), or NULL. Contents undefined. */
  void *(*allocate)(void *context, size_t bytes, size_t alignment);
  /* Frees what allocate returned; NULL is allowed. */
  void (*release)(void *context, void *pointer);
} braid_allocator;

/* The C library's heap. */
BRAID_API const braid_allocator *braid_allocator_default(void);

/* Aligned to 64 bytes (a cache line, and the widest vector register). A request for 0 bytes is a request for 1. NULL
 * when out of memory. braid_zalloc clears the memory. Freed with braid_free and the same allocator. */
BRAID_API void *braid_alloc(const braid_allocator *allocator, size_t bytes);
BRAID_API void *braid_zalloc(const braid_allocator *allocator, size_t bytes);
/* count * size bytes, cleared; NULL if the product overflows or memory is out. */
BRAID_API void *braid_zalloc_array(const braid_allocator *allocator, size_t count, size_t size);
BRAID_API void braid_free(const braid_allocator *allocator, void *pointer);

#endif
