#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/detail.h"

enum { kBlockBytes = 16384, kAlignment = 16 };

typedef struct block {
  struct block *next;
  size_t used, bytes; /* of the memory after the header */
} block;

enum { kHeaderBytes = (sizeof(block) + kAlignment - 1) / kAlignment * kAlignment };

struct braid_arena {
  const braid_allocator *allocator;
  block *blocks; /* newest first */
};

braid_status braid_arena_create(const braid_allocator *allocator, braid_arena **out) {
  *out = braid_zalloc(allocator, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  (*out)->allocator = allocator;
  return BRAID_OK;
}

void braid_arena_destroy(braid_arena *arena) {
  if (!arena) return;
  for (block *b = arena->blocks; b;) {
    block *next = b->next;
    braid_free(arena->allocator, b);
    b = next;
  }
  braid_free(arena->allocator, arena);
}

void *braid_arena_alloc(braid_arena *arena, size_t bytes) {
  size_t rounded;
  if (!braid_add_size(bytes, kAlignment - 1, &rounded)) return braid_refuse_memory(1, bytes);
  rounded = rounded / kAlignment * kAlignment;
  block *b = arena->blocks;
  if (!b || b->bytes - b->used < rounded) {
    size_t room = rounded > kBlockBytes ? rounded : kBlockBytes, total;
    if (!braid_add_size(room, kHeaderBytes, &total)) return braid_refuse_memory(1, room);
    b = braid_alloc(arena->allocator, total);
    if (!b) return NULL;
    *b = (block){.next = arena->blocks, .bytes = room};
    arena->blocks = b;
  }
  void *pointer = (char *)b + kHeaderBytes + b->used;
  b->used += rounded;
  memset(pointer, 0, rounded);
  return pointer;
}

char *braid_arena_text(braid_arena *arena, const char *text, size_t length) {
  if (length == SIZE_MAX) return braid_refuse_memory(1, length);
  char *copy = braid_arena_alloc(arena, length + 1);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

char *braid_arena_format(braid_arena *arena, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = length < 0 ? NULL : braid_arena_alloc(arena, (size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}
