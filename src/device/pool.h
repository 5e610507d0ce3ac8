/* Pool: allocates ranges of one address range (a device's memory, a large buffer) without accessing it. Best fit: the
 * smallest free range that is large enough; adjacent free ranges are merged at once. Not thread-safe. After the device
 * memory allocator of Zhao et al. (NPC 2018, see docs/new-device.md). */
#ifndef BRAID_DEVICE_POOL_H
#define BRAID_DEVICE_POOL_H

#include <stdbool.h>

#include "braid/allocator.h"

typedef struct braid_pool braid_pool;
typedef struct braid_pool_block braid_pool_block; /* an allocated range */

typedef struct braid_pool_stats {
  size_t bytes, in_use, peak, largest_free;
  size_t blocks; /* allocated ranges */
} braid_pool_stats;

/* `granule`, a power of two: every offset and size is a multiple of it. */
BRAID_MUST_CHECK braid_status braid_pool_create(const braid_allocator *allocator, size_t bytes, size_t granule,
                                                braid_pool **out);
void braid_pool_destroy(braid_pool *pool);
/* NO_MEMORY tells the bytes asked for, the bytes free and the largest free range. Zero bytes get a granule. alignment:
 * a power of two. */
BRAID_MUST_CHECK braid_status braid_pool_allocate(braid_pool *pool, size_t bytes, size_t alignment,
                                                  braid_pool_block **out);
void braid_pool_release(braid_pool *pool, braid_pool_block *block); /* NULL is allowed */
size_t braid_pool_offset(const braid_pool_block *block);
size_t braid_pool_bytes(const braid_pool_block *block); /* rounded up to the granule */
braid_pool_stats braid_pool_get_stats(const braid_pool *pool);

#endif
