/* Memory in whole pages, which it shares with nothing else: so it can be pinned for the copies of a device. */
#ifndef BRAID_BASE_PAGES_H
#define BRAID_BASE_PAGES_H

#include "braid/allocator.h"

/* Cleared; NULL when out of memory. Freed with braid_free and the same allocator. */
void *braid_zalloc_pages(const braid_allocator *allocator, size_t bytes);

#endif
