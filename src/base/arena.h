/* Arena: many small allocations, freed together. Not thread-safe. */
#ifndef BRAID_BASE_ARENA_H
#define BRAID_BASE_ARENA_H
#include "braid/allocator.h"
typedef struct braid_arena braid_arena;
BRAID_MUST_CHECK braid_status braid_arena_create(const braid_allocator *allocator, braid_arena **out);
void braid_arena_destroy(braid_arena *arena);
void *braid_arena_alloc(braid_arena *arena, size_t bytes); /* zeroed, 16-byte aligned; NULL when out of memory */
char *braid_arena_text(braid_arena *arena, const char *text, size_t length);              /* a NUL-terminated copy */
char *braid_arena_format(braid_arena *arena, const char *format, ...) BRAID_PRINTF(2, 3); /* of any length */
#endif
