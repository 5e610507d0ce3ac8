/* A file's bytes, shared by the tensors that point into them: mapped once, released with the last reference. */
#ifndef BRAID_MODEL_MAPPING_H
#define BRAID_MODEL_MAPPING_H

#include "base/file.h"
#include "braid/tensor.h"

typedef struct braid_mapping braid_mapping;

/* Errors of braid_file_open. */
BRAID_MUST_CHECK braid_status braid_mapping_open(const braid_allocator *allocator, const char *path, size_t max_bytes,
                                                 braid_mapping **out);
/* A copy of bytes that are nobody's file. */
BRAID_MUST_CHECK braid_status braid_mapping_copy(const braid_allocator *allocator, const uint8_t *data, size_t bytes,
                                                 braid_mapping **out);
void braid_mapping_release(braid_mapping *mapping); /* NULL is allowed */
const uint8_t *braid_mapping_data(const braid_mapping *mapping, size_t *bytes);

/* A tensor of the bytes from `offset` on, which must be there. Points into the mapping if the type's alignment allows,
 * else is a copy; bool is always a copy, made of 0 and 1. */
BRAID_MUST_CHECK braid_status braid_mapping_tensor(braid_mapping *mapping, size_t offset, const braid_desc *desc,
                                                   braid_tensor **out);
#endif
