/* Tensors from files: elements as they lie there, little endian, read straight into the tensor's own memory. */
#ifndef BRAID_TENSOR_READ_H
#define BRAID_TENSOR_READ_H

#include "base/file.h"
#include "braid/tensor.h"

/* The elements from `offset` on; INVALID_FILE, before anything is allocated, where the file does not hold them. A bool
 * is made 0 or 1. */
BRAID_MUST_CHECK braid_status braid_tensor_read(const braid_allocator *allocator, braid_reader *reader, size_t offset,
                                                const braid_desc *desc, braid_tensor **out);
#endif
