/* Memory of a device: blocks in size classes, four to a power of two, so that at most a quarter of one is unused. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { kAlignment = 256, kClasses = 4 * 64 };

typedef struct memory_block {
  struct memory_block *next;           /* free blocks of the class */
  struct memory_block *before, *after; /* all blocks of the memory */
  uint64_t bytes;                      /* without this header */
  int size_class;
} memory_block;

struct fpga_memory {
  pthread_mutex_t lock;
  memory_block *free[kClasses], *all;
  fpga_memory_stats stats;
};

/* The block's header is in the alignment before its memory. */
static memory_block *block_of(void *address) {
  return (memory_block *)((char *)address - kAlignment);
}

static int memory_class(uint64_t bytes, uint64_t *rounded) {
  int power = 10; /* the smallest class has 1024 bytes, so that a quarter keeps the alignment */
  while (((uint64_t)1 << (power + 1)) <= bytes) power++;
  uint64_t base = (uint64_t)1 << power, step = base / 4, part = 0;
  while (part < 4 && base + part * step < bytes) part++;
  *rounded = base + part * step;
  return power * 4 + (int)part;
}

fpga_memory *fpga_memory_create(int64_t limit_bytes) {
  fpga_memory *memory = calloc(1, sizeof *memory);
  if (!memory) return NULL;
  pthread_mutex_init(&memory->lock, NULL);
  memory->stats.limit = limit_bytes;
  return memory;
}

void fpga_memory_trim(fpga_memory *memory) {
  pthread_mutex_lock(&memory->lock);
  for (int i = 0; i < kClasses; i++)
    while (memory->free[i]) {
      memory_block *block = memory->free[i];
      memory->free[i] = block->next;
      memory->stats.reserved -= (int64_t)block->bytes;
      *(block->before ? &block->before->after : &memory->all) = block->after;
      if (block->after) block->after->before = block->before;
      free(block);
    }
  pthread_mutex_unlock(&memory->lock);
}

void fpga_memory_destroy(fpga_memory *memory) {
  if (!memory) return;
  fpga_memory_trim(memory);
  pthread_mutex_destroy(&memory->lock);
  free(memory);
}

static memory_block *memory_take(fpga_memory *memory, int size_class, uint64_t bytes) {
  memory_block *block = memory->free[size_class];
  if (block) {
    memory->free[size_class] = block->next;
    return block;
  }
  if (memory->stats.limit && memory->stats.reserved + (int64_t)bytes > memory->stats.limit) return NULL;
  block = aligned_alloc(kAlignment, kAlignment + bytes);
  if (!block) return NULL;
  *block = (memory_block){.bytes = bytes, .size_class = size_class, .after = memory->all};
  if (memory->all) memory->all->before = block;
  memory->all = block;
  memory->stats.reserved += (int64_t)bytes;
  return block;
}

void *fpga_memory_allocate(fpga_memory *memory, uint64_t bytes) {
  uint64_t rounded;
  if (bytes >> 62) return NULL;
  int size_class = memory_class(bytes ? bytes : 1, &rounded);
  pthread_mutex_lock(&memory->lock);
  fpga_memory_stats *stats = &memory->stats;
  memory_block *block = memory_take(memory, size_class, rounded);
  if (block) {
    stats->allocations++;
    stats->used += (int64_t)rounded;
    if (stats->used > stats->peak) stats->peak = stats->used;
    if ((int64_t)rounded > stats->largest) stats->largest = (int64_t)rounded;
  }
  pthread_mutex_unlock(&memory->lock);
  return block ? (char *)block + kAlignment : NULL;
}

void fpga_memory_free(fpga_memory *memory, void *address) {
  if (!address) return;
  memory_block *block = block_of(address);
  pthread_mutex_lock(&memory->lock);
  block->next = memory->free[block->size_class];
  memory->free[block->size_class] = block;
  memory->stats.used -= (int64_t)block->bytes;
  pthread_mutex_unlock(&memory->lock);
}

bool fpga_memory_hold(fpga_memory *memory, int64_t bytes) {
  pthread_mutex_lock(&memory->lock);
  fpga_memory_stats *stats = &memory->stats;
  bool fits = !stats->limit || stats->reserved + bytes <= stats->limit;
  if (fits) stats->reserved += bytes, stats->held += bytes;
  pthread_mutex_unlock(&memory->lock);
  return fits;
}

void fpga_memory_let_go(fpga_memory *memory, int64_t bytes) {
  pthread_mutex_lock(&memory->lock);
  memory->stats.reserved -= bytes;
  memory->stats.held -= bytes;
  pthread_mutex_unlock(&memory->lock);
}

bool fpga_memory_has(fpga_memory *memory, const void *address) {
  bool found = false;
  pthread_mutex_lock(&memory->lock);
  for (const memory_block *block = memory->all; block && !found; block = block->after) {
    const char *start = (const char *)block + kAlignment;
    found = (const char *)address >= start && (const char *)address < start + block->bytes;
  }
  pthread_mutex_unlock(&memory->lock);
  return found;
}

fpga_memory_stats fpga_memory_get_stats(fpga_memory *memory) {
  pthread_mutex_lock(&memory->lock);
  fpga_memory_stats stats = memory->stats;
  pthread_mutex_unlock(&memory->lock);
  return stats;
}
