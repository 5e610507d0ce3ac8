/* Conversion between all pairs of element types, with the meaning of ONNX Cast: floating-point numbers round to nearest
 * even, or towards zero into integers, where what does not fit saturates and NaN becomes 0; integers keep their low
 * bits; bool is "not zero". */
#ifndef BRAID_BACKEND_CPU_SPANS_CONVERT_H
#define BRAID_BACKEND_CPU_SPANS_CONVERT_H

#include "tensor/narrow.h"

typedef void braid_convert(const void *from, void *to, int64_t count);
/* Contiguous elements; `to` may be `from` if the types have the same size. Both types must be known, and narrow only
 * where they are equal. */
braid_convert *braid_convert_find(braid_dtype from, braid_dtype to);
/* One of the types, or both, are narrow. */
typedef struct braid_narrow_convert {
  braid_dtype from, to;
  braid_narrowing how;
  double numbers[256]; /* of the codes of `from` */
} braid_narrow_convert;
void braid_narrow_convert_init(braid_narrow_convert *convert, braid_dtype from, braid_dtype to,
                               const braid_narrowing *how);
void braid_narrow_convert_run(const braid_narrow_convert *convert, const void *source, void *target, int64_t count);

#endif
