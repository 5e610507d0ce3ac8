/* Conversion between all pairs of element types, with the meaning of ONNX Cast: floating-point numbers round to nearest
 * even, or towards zero into integers, where what does not fit saturates and NaN becomes 0; integers keep their low
 * bits; bool is "not zero". */
#ifndef BRAID_BACKEND_CPU_SPANS_CONVERT_H
#define BRAID_BACKEND_CPU_SPANS_CONVERT_H

#include "braid/tensor.h"

typedef void braid_convert(const void *from, void *to, int64_t count);
/* Contiguous elements; `to` may be `from` if the types have the same size. Both types must be known. */
braid_convert *braid_convert_find(braid_dtype from, braid_dtype to);

#endif
