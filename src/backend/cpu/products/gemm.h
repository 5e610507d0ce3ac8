/* Matrix products in the CPU's own code, for kernels whose products are steps of something larger and for the types
 * that oneDNN does not multiply. float, double, and 32- and 64-bit integers, which wrap.
 *
 * The right matrix is packed once into panels of columns and may be used many times. Each element of the result is one
 * sum in the order of the inner dimension, so its bits depend neither on the number of threads nor on the number of
 * rows. Work is spread over threads unless the caller is already one of a team. */
#ifndef BRAID_BACKEND_CPU_PRODUCTS_GEMM_H
#define BRAID_BACKEND_CPU_PRODUCTS_GEMM_H

#include "braid/tensor.h"

/* Element (r, c) lies at data[r * row_step + c * column_step]. */
typedef struct braid_matrix {
  const void *data;
  int64_t row_step, column_step;
} braid_matrix;

/* Bytes of a packed matrix, a multiple of 64; false on overflow. dtype: F32, F64, I32, U32, I64 or U64. */
bool braid_gemm_packed_bytes(braid_dtype dtype, int64_t inner, int64_t columns, size_t *bytes);
/* `packed` is aligned to 64 bytes. */
void braid_gemm_pack(braid_dtype dtype, int64_t inner, int64_t columns, braid_matrix right, void *packed);
/* result (row-major, `step` elements from row to row) = left * packed, or += if `accumulate`. */
void braid_gemm_run(braid_dtype dtype, int64_t rows, int64_t inner, int64_t columns, braid_matrix left,
                    const void *packed, void *result, int64_t step, bool accumulate);

#endif
