#include "braid/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/detail.h"
#include "base/pages.h"
#include "base/vector.h"

enum { kAlignment = 64, kPage = 4096 };

static void *heap_allocate(void *context, size_t bytes, size_t alignment) {
  (void)context;
  void *pointer = NULL;
  return posix_memalign(&pointer, alignment, bytes) == 0 ? pointer : NULL;
}

static void heap_release(void *context, void *pointer) {
  (void)context;
  free(pointer);
}

static const braid_allocator kHeap = {NULL, heap_allocate, heap_release};

const braid_allocator *braid_allocator_default(void) {
  return &kHeap;
}

static void *allocator_take(const braid_allocator *allocator, size_t bytes, size_t alignment) {
  if (!allocator) allocator = &kHeap;
  void *pointer = allocator->allocate(allocator->context, bytes ? bytes : 1, alignment);
  return pointer ? pointer : braid_refuse_memory(1, bytes);
}

void *braid_alloc(const braid_allocator *allocator, size_t bytes) {
  return allocator_take(allocator, bytes, kAlignment);
}

void *braid_zalloc(const braid_allocator *allocator, size_t bytes) {
  void *pointer = braid_alloc(allocator, bytes);
  if (pointer) memset(pointer, 0, bytes ? bytes : 1);
  return pointer;
}

void *braid_zalloc_pages(const braid_allocator *allocator, size_t bytes) {
  size_t whole;
  if (!braid_add_size(bytes ? bytes : 1, kPage - 1, &whole)) return braid_refuse_memory(1, bytes);
  whole &= ~(size_t)(kPage - 1);
  void *pointer = allocator_take(allocator, whole, kPage);
  if (pointer) memset(pointer, 0, whole);
  return pointer;
}

void *braid_zalloc_array(const braid_allocator *allocator, size_t count, size_t size) {
  size_t bytes;
  return braid_mul_size(count, size, &bytes) ? braid_zalloc(allocator, bytes) : braid_refuse_memory(count, size);
}

void braid_free(const braid_allocator *allocator, void *pointer) {
  if (!pointer) return;
  if (!allocator) allocator = &kHeap;
  allocator->release(allocator->context, pointer);
}

enum { kLargeItem = 64 };

void *braid_grow(const braid_allocator *allocator, void *items, size_t count, size_t *capacity, size_t item_bytes) {
  if (items && count < *capacity) return items;
  size_t least = item_bytes > kLargeItem ? 2 : 8; /* programs of kernels have one or two large ones, by the hundred */
  size_t wanted = *capacity < least ? least : *capacity * 2;
  if (wanted < *capacity) return braid_refuse_memory(*capacity, item_bytes);
  void *grown = braid_zalloc_array(allocator, wanted, item_bytes);
  if (!grown) return NULL;
  if (count) memcpy(grown, items, count * item_bytes);
  braid_free(allocator, items);
  *capacity = wanted;
  return grown;
}
