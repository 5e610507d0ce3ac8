/* Allocator: the memory source an object is created with and keeps.
 *
 * Passing NULL where an allocator is asked for means the C library's heap. A test passes one that fails the n-th
 * request. All functions are safe to call from several threads if the allocator's own callbacks are. */
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

/* Aligned to 64 bytes (a cache line, and the widest vector). Zero bytes are served as one. NULL when out of memory. */
BRAID_API void *braid_alloc(const braid_allocator *allocator, size_t bytes);
BRAID_API void *braid_zalloc(const braid_allocator *allocator, size_t bytes);
/* count * size, checked for overflow (NULL on overflow), zeroed. */
BRAID_API void *braid_zalloc_array(const braid_allocator *allocator, size_t count, size_t size);
BRAID_API void braid_free(const braid_allocator *allocator, void *pointer);

#endif
