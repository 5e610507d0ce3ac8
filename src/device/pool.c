/* Blocks, free and allocated, form a list in the order of their offsets, so that neighbours are found at once. Free
 * ones are also in a treap ordered by (size, offset): the best fit is a lower bound. The treap's priorities are a hash
 * of the offset, so the same requests give the same offsets everywhere. */
#include "device/pool.h"

#include <stdint.h>

#include "base/checked.h"

struct braid_pool_block {
  size_t offset, bytes;
  bool free;
  braid_pool_block *before, *after; /* neighbours in the arena */
  braid_pool_block *left, *right;   /* treap, while free */
};

struct braid_pool {
  const braid_allocator *allocator;
  size_t granule;
  braid_pool_block *first, *tree;
  braid_pool_block *spare; /* unused descriptors, linked by `after`: releasing never needs memory */
  braid_pool_stats stats;
};

/* --- treap ---------------------------------------------------------------------------------------------------------
 */
static uint64_t priority(const braid_pool_block *block) {
  uint64_t x = block->offset + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static bool is_less(const braid_pool_block *a, const braid_pool_block *b) {
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->offset < b->offset;
}

/* Splits `tree` into what is less than `key` and the rest. */
static void split(braid_pool_block *tree, const braid_pool_block *key, braid_pool_block **less,
                  braid_pool_block **rest) {
  while (tree) {
    if (is_less(tree, key)) {
      *less = tree;
      less = &tree->right;
      tree = tree->right;
    } else {
      *rest = tree;
      rest = &tree->left;
      tree = tree->left;
    }
  }
  *less = *rest = NULL;
}

/* Joins two trees, all of `a` before all of `b`, at *out. */
static void join(braid_pool_block *a, braid_pool_block *b, braid_pool_block **out) {
  while (a && b) {
    if (priority(a) > priority(b)) {
      *out = a;
      out = &a->right;
      a = a->right;
    } else {
      *out = b;
      out = &b->left;
      b = b->left;
    }
  }
  *out = a ? a : b;
}

static void insert_free(braid_pool *pool, braid_pool_block *block) {
  block->free = true;
  braid_pool_block **link = &pool->tree;
  while (*link && priority(*link) >= priority(block)) link = is_less(block, *link) ? &(*link)->left : &(*link)->right;
  split(*link, block, &block->left, &block->right);
  *link = block;
}

static void remove_free(braid_pool *pool, braid_pool_block *block) {
  block->free = false;
  braid_pool_block **link = &pool->tree;
  while (*link != block) link = is_less(block, *link) ? &(*link)->left : &(*link)->right;
  join(block->left, block->right, link);
}

static size_t padding(size_t offset, size_t alignment) {
  return (alignment - (offset & (alignment - 1))) & (alignment - 1);
}

static bool fits(const braid_pool_block *block, size_t bytes, size_t alignment) {
  size_t pad = padding(block->offset, alignment);
  return block->bytes >= pad && block->bytes - pad >= bytes;
}

/* The smallest block at least `bytes` long in which an aligned range fits. Without extra alignment that is the first in
 * order; with it, the walk goes on until one fits. */
static braid_pool_block *best_fit(braid_pool_block *tree, size_t bytes, size_t alignment) {
  if (!tree) return NULL;
  if (tree->bytes < bytes) return best_fit(tree->right, bytes, alignment);
  braid_pool_block *smaller = best_fit(tree->left, bytes, alignment);
  if (smaller) return smaller;
  return fits(tree, bytes, alignment) ? tree : best_fit(tree->right, bytes, alignment);
}

/* --- blocks --------------------------------------------------------------------------------------------------------
 */
static void give_back(braid_pool *pool, braid_pool_block *block) {
  block->after = pool->spare;
  pool->spare = block;
}

/* A descriptor from the spare ones, of which there are enough. */
static braid_pool_block *take_spare(braid_pool *pool) {
  braid_pool_block *block = pool->spare;
  pool->spare = block->after;
  return block;
}

static bool ensure_spare(braid_pool *pool, int wanted) {
  int have = 0;
  for (const braid_pool_block *block = pool->spare; block && have < wanted; block = block->after) have++;
  for (; have < wanted; have++) {
    braid_pool_block *block = braid_zalloc(pool->allocator, sizeof *block);
    if (!block) return false;
    give_back(pool, block);
  }
  return true;
}

/* Cuts the block after `bytes`; the rest becomes a free block. */
static void cut(braid_pool *pool, braid_pool_block *block, size_t bytes) {
  if (block->bytes == bytes) return;
  braid_pool_block *rest = take_spare(pool);
  *rest = (braid_pool_block){
      .offset = block->offset + bytes, .bytes = block->bytes - bytes, .before = block, .after = block->after};
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->bytes = bytes;
  insert_free(pool, rest);
}

/* Joins the block after `block` to it. */
static void absorb_next(braid_pool *pool, braid_pool_block *block) {
  braid_pool_block *next = block->after;
  block->bytes += next->bytes;
  block->after = next->after;
  if (block->after) block->after->before = block;
  give_back(pool, next);
}

/* --- the pool ------------------------------------------------------------------------------------------------------
 */
braid_status braid_pool_create(const braid_allocator *allocator, size_t bytes, size_t granule, braid_pool **out) {
  *out = NULL;
  if (!granule || (granule & (granule - 1)))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a pool's granule of %zu is not a power of two", granule);
  braid_pool *pool = braid_zalloc(allocator, sizeof *pool);
  if (!pool) return BRAID_NO_MEMORY;
  pool->allocator = allocator;
  pool->granule = granule;
  pool->stats.bytes = bytes & ~(granule - 1);
  if (pool->stats.bytes) {
    if (!ensure_spare(pool, 1)) {
      braid_pool_destroy(pool);
      return BRAID_NO_MEMORY;
    }
    pool->first = take_spare(pool);
    *pool->first = (braid_pool_block){.bytes = pool->stats.bytes};
    insert_free(pool, pool->first);
  }
  *out = pool;
  return BRAID_OK;
}

static void free_list(const braid_allocator *allocator, braid_pool_block *block) {
  while (block) {
    braid_pool_block *after = block->after;
    braid_free(allocator, block);
    block = after;
  }
}

void braid_pool_destroy(braid_pool *pool) {
  if (!pool) return;
  free_list(pool->allocator, pool->first);
  free_list(pool->allocator, pool->spare);
  braid_free(pool->allocator, pool);
}

static size_t largest_free(const braid_pool *pool) {
  const braid_pool_block *block = pool->tree;
  while (block && block->right) block = block->right;
  return block ? block->bytes : 0;
}

braid_status braid_pool_allocate(braid_pool *pool, size_t bytes, size_t alignment, braid_pool_block **out) {
  *out = NULL;
  if (!alignment || (alignment & (alignment - 1)))
    return braid_fail(BRAID_INVALID_ARGUMENT, "an alignment of %zu is not a power of two", alignment);
  size_t rounded = 0;
  bool small = braid_add_size(bytes ? bytes : 1, pool->granule - 1, &rounded);
  rounded &= ~(pool->granule - 1);
  braid_pool_block *block = small ? best_fit(pool->tree, rounded, alignment) : NULL;
  if (!block)
    return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested, %zu of %zu free, the largest range has %zu", bytes,
                      pool->stats.bytes - pool->stats.in_use, pool->stats.bytes, largest_free(pool));
  if (!ensure_spare(pool, 2)) return BRAID_NO_MEMORY;
  remove_free(pool, block);
  size_t pad = padding(block->offset, alignment);
  if (pad) {
    cut(pool, block, pad);
    braid_pool_block *aligned = block->after;
    remove_free(pool, aligned);
    insert_free(pool, block);
    block = aligned;
  }
  cut(pool, block, rounded);
  pool->stats.blocks++;
  pool->stats.in_use += rounded;
  if (pool->stats.in_use > pool->stats.peak) pool->stats.peak = pool->stats.in_use;
  *out = block;
  return BRAID_OK;
}

void braid_pool_release(braid_pool *pool, braid_pool_block *block) {
  if (!block) return;
  pool->stats.blocks--;
  pool->stats.in_use -= block->bytes;
  if (block->after && block->after->free) {
    remove_free(pool, block->after);
    absorb_next(pool, block);
  }
  if (block->before && block->before->free) {
    block = block->before;
    remove_free(pool, block);
    absorb_next(pool, block);
  }
  insert_free(pool, block);
}

size_t braid_pool_offset(const braid_pool_block *block) {
  return block->offset;
}

size_t braid_pool_bytes(const braid_pool_block *block) {
  return block->bytes;
}

braid_pool_stats braid_pool_get_stats(const braid_pool *pool) {
  braid_pool_stats stats = pool->stats;
  stats.largest_free = largest_free(pool);
  return stats;
}
