/* Groups of element types that the public header does not name. */
#ifndef BRAID_TENSOR_DTYPE_H
#define BRAID_TENSOR_DTYPE_H

#include "braid/tensor.h"

/* The types that models are quantized to. */
static inline bool braid_dtype_is_byte(braid_dtype dtype) {
  return dtype == BRAID_I8 || dtype == BRAID_U8;
}

#endif
