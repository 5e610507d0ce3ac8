/* Memory that is freed all at once: what is read of a graph lives as long as the call that reads it. */
#ifndef BRAID_ORT_ARENA_H
#define BRAID_ORT_ARENA_H

#include <stddef.h>

typedef struct braid_ort_arena {
  void *blocks; /* a list */
  size_t used, capacity;
} braid_ort_arena;

/* All zero is an empty arena. The memory is cleared; NULL: out of memory, or the product overflows. */
void *braid_ort_arena_take(braid_ort_arena *arena, size_t count, size_t size);
void braid_ort_arena_free(braid_ort_arena *arena);

#endif
