#include "model/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <stdatomic.h>
#include <string.h>

#include "base/try.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights in files are little endian and used in place");

struct braid_mapping {
  atomic_int references;
  const braid_allocator *allocator;
  braid_file_view view;
  uint8_t *copy; /* instead of a view */
  size_t copy_bytes;
};

static braid_mapping *mapping_create(const braid_allocator *allocator) {
  braid_mapping *mapping = braid_zalloc(allocator, sizeof *mapping);
  if (!mapping) return NULL;
  atomic_init(&mapping->references, 1);
  mapping->allocator = allocator;
  return mapping;
}

braid_status braid_mapping_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                                braid_mapping **out) {
  *out = NULL;
  braid_mapping *mapping = mapping_create(allocator);
  if (!mapping) return BRAID_NO_MEMORY;
  braid_status status = braid_file_open(allocator, path, max_bytes, &mapping->view);
  if (status == BRAID_OK)
    *out = mapping;
  else
    braid_free(allocator, mapping);
  return status;
}

braid_status braid_mapping_copy(const braid_allocator *allocator, const uint8_t *data, size_t bytes,
                                braid_mapping **out) {
  *out = NULL;
  braid_mapping *mapping = mapping_create(allocator);
  if (!mapping) return BRAID_NO_MEMORY;
  mapping->copy = braid_alloc(allocator, bytes);
  mapping->copy_bytes = bytes;
  if (!mapping->copy) {
    braid_free(allocator, mapping);
    return BRAID_NO_MEMORY;
  }
  if (bytes) memcpy(mapping->copy, data, bytes);
  *out = mapping;
  return BRAID_OK;
}

static void release(void *context) {
  braid_mapping *mapping = context;
  if (!mapping || atomic_fetch_sub(&mapping->references, 1) != 1) return;
  if (mapping->copy)
    braid_free(mapping->allocator, mapping->copy);
  else
    braid_file_close(&mapping->view);
  braid_free(mapping->allocator, mapping);
}

void braid_mapping_release(braid_mapping *mapping) {
  release(mapping);
}

const uint8_t *braid_mapping_data(const braid_mapping *mapping, size_t *bytes) {
  *bytes = mapping->copy ? mapping->copy_bytes : mapping->view.bytes;
  return mapping->copy ? mapping->copy : mapping->view.data;
}

/* What was copied from a mapped file need not stay in memory beside its copy: gives the whole pages of the range back,
 * to be read again from the file if anybody asks. */
static void forget(const braid_mapping *mapping, const uint8_t *data, size_t bytes) {
  if (!mapping->view.mapped) return;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + bytes) / page * page;
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* a wish */
}

/* Piece by piece, so that never more than one is there twice. */
static void copy_out(const braid_mapping *mapping, braid_dtype dtype, const uint8_t *from, size_t bytes, uint8_t *to) {
  const size_t piece = (size_t)4 << 20;
  for (size_t at = 0; at < bytes; at += piece) {
    size_t count = bytes - at < piece ? bytes - at : piece;
    if (dtype == BRAID_BOOL)
      for (size_t i = at; i < at + count; i++) to[i] = from[i] != 0;
    else
      memcpy(to + at, from + at, count);
    if (count == piece) forget(mapping, from + at, count);
  }
}

braid_status braid_mapping_tensor(braid_mapping *mapping, size_t offset, const braid_desc *desc, braid_tensor **out) {
  *out = NULL;
  size_t total, bytes = braid_desc_bytes(desc);
  const uint8_t *data = braid_mapping_data(mapping, &total) + offset;
  if (desc->dtype != BRAID_BOOL && bytes && (uintptr_t)data % braid_dtype_size(desc->dtype) == 0) {
    atomic_fetch_add(&mapping->references, 1);
    braid_status status = braid_tensor_wrap(mapping->allocator, desc, (void *)data, release, mapping, out);
    if (status != BRAID_OK) release(mapping);
    return status;
  }
  BRAID_TRY(braid_tensor_create(mapping->allocator, desc, out));
  copy_out(mapping, desc->dtype, data, bytes, braid_tensor_data(*out));
  return BRAID_OK;
}
