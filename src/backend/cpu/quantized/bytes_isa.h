/* The inner loops of this folder: over 8-bit integers, and over them widened to 16 bits. */
#ifndef BRAID_BACKEND_CPU_QUANTIZED_BYTES_ISA_H
#define BRAID_BACKEND_CPU_QUANTIZED_BYTES_ISA_H

#include "backend/cpu/isa.h"

BRAID_ISA_FUNCTION(void, braid_quantize_u8, (const float *x, int64_t count, float scale, float zero, uint8_t *y))
BRAID_ISA_FUNCTION(void, braid_quantize_i8, (const float *x, int64_t count, float scale, float zero, int8_t *y))
BRAID_ISA_FUNCTION(void, braid_dequantize_u8, (const uint8_t *x, int64_t count, float scale, int32_t zero, float *y))
BRAID_ISA_FUNCTION(void, braid_dequantize_i8, (const int8_t *x, int64_t count, float scale, int32_t zero, float *y))
/* Widens [low, high] by x; NaN does not count. */
BRAID_ISA_FUNCTION(void, braid_widen, (const float *x, int64_t count, float *low, float *high))

enum { BRAID_BYTES_ROWS = 4, BRAID_BYTES_COLUMNS = 32 }; /* of a tile of sums, at most */
/* sums[r][c] = the product of rows a[r] and b[c], for four rows; for one. */
BRAID_ISA_FUNCTION(void, braid_bytes_multiply_rows,
                   (const int16_t *a, const int16_t *b, int64_t padded, int64_t columns,
                    int32_t sums[BRAID_BYTES_ROWS][BRAID_BYTES_COLUMNS]))
BRAID_ISA_FUNCTION(void, braid_bytes_multiply_row,
                   (const int16_t *a, const int16_t *b, int64_t padded, int64_t columns, int32_t *sums))
/* rounded(sums * factors) + zero within [low, high]; NaN becomes the lowest number, as in the reference. */
BRAID_ISA_FUNCTION(void, braid_bytes_scale_sums,
                   (const int32_t *sums, int64_t count, const float *factors, int64_t step, float zero, float low,
                    float high, uint8_t *y))
/* sums[i] += weight * (x - zero) at the places from + i * step that lie within a line of `width`. */
BRAID_ISA_FUNCTION(void, braid_bytes_add_line,
                   (const void *x, bool is_signed, int64_t line, int64_t width, int64_t from, int64_t step,
                    int64_t count, int32_t weight, int32_t zero, int32_t *sums))

#endif
