/* Tensors from files: little-endian elements, read directly into the tensor's memory. */
#ifndef BRAID_TENSOR_READ_H
#define BRAID_TENSOR_READ_H

#include "base/file.h"
#include "braid/tensor.h"

/* Reads the elements at `offset`. INVALID_FILE, before memory is allocated, if the file is too short. Bools are
 * normalized to 0 or 1, elements of 4 and 2 bits unpacked. */
BRAID_MUST_CHECK braid_status braid_tensor_read(const braid_allocator *allocator, braid_reader *reader, size_t offset,
                                                const braid_desc *desc, braid_tensor **out);
#endif
