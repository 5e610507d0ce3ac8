/* NumPy .npy files as bytes: what braid_npy_load does after opening the file, for other rooms and for fuzzing. */
#ifndef BRAID_TENSOR_NPY_H
#define BRAID_TENSOR_NPY_H
#include "braid/tensor.h"
/* `name` stands for the file in messages. */
BRAID_MUST_CHECK braid_status braid_npy_parse(const braid_allocator *allocator, const char *name, const uint8_t *data,
                                              size_t bytes, braid_tensor **out);
#endif
