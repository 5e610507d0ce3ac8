#include "arena.h"

#include <stdint.h>

#include "braid/allocator.h"

enum { BLOCK_BYTES = 1 << 16, HEADER_BYTES = 64 };

void *braid_ort_arena_take(braid_ort_arena *arena, size_t count, size_t size) {
  if (size && count > (SIZE_MAX - BLOCK_BYTES) / size) return NULL;
  size_t bytes = (count * size + 15) & ~(size_t)15;
  if (!arena->blocks || arena->capacity - arena->used < bytes) {
    size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    void **block = braid_zalloc(NULL, HEADER_BYTES + capacity);
    if (!block) return NULL;
    *block = arena->blocks;
    arena->blocks = block;
    arena->used = 0;
    arena->capacity = capacity;
  }
  void *memory = (unsigned char *)arena->blocks + HEADER_BYTES + arena->used;
  arena->used += bytes;
  return memory;
}

void braid_ort_arena_free(braid_ort_arena *arena) {
  for (void **block = arena->blocks; block;) {
    void **next = *block;
    braid_free(NULL, block);
    block = next;
  }
  *arena = (braid_ort_arena){0};
}
