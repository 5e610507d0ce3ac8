/* Parsing of .npy files in memory, for other folders and for fuzzing. */
#ifndef BRAID_TENSOR_NPY_H
#define BRAID_TENSOR_NPY_H
#include "braid/tensor.h"
/* `name` is used in messages. */
BRAID_MUST_CHECK braid_status braid_npy_parse(const braid_allocator *allocator, const char *name, const uint8_t *data,
                                              size_t bytes, braid_tensor **out);
#endif
