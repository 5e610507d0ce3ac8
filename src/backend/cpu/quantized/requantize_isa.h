/* Sums of products become bytes, and loops over bytes in layout BHWC or of any. All round half to even and saturate;
 * NaN becomes the lowest number. */
#ifndef BRAID_BACKEND_CPU_QUANTIZED_REQUANTIZE_ISA_H
#define BRAID_BACKEND_CPU_QUANTIZED_REQUANTIZE_ISA_H

#include "backend/cpu/isa.h"

/* What a byte stands for: (byte - zero) * scale; with the numbers that results are clamped to. */
typedef struct braid_bytes_scale {
  float scale;
  bool is_signed;
  int32_t zero, low, high;
} braid_bytes_scale;

/* Element (r, c) of the result is clamped(rounded((sums + offsets[c]) * factors[c]) + zero). With a residual z that is
 * `between`, a byte itself, and the result is clamped(rounded((between - its zero) * factor + (z - its zero) *
 * z_factor) + zero). */
typedef struct braid_requantize {
  const int32_t *offsets; /* per column */
  const float *factors;
  braid_bytes_scale y, between, z;
  float factor, z_factor; /* of between and z: scale by y's */
  bool residual;
} braid_requantize;

/* `rows` rows of sums, sum_step apart, to bytes `step` apart, as those of z are. Behind the last row's sums there is
 * room for 15 more, which may be read. */
BRAID_ISA_FUNCTION(void, braid_requantize_rows,
                   (const braid_requantize *q, const int32_t *sums, int64_t sum_step, int64_t rows, int64_t columns,
                    const uint8_t *z, uint8_t *y, int64_t step))

/* clamped(rounded((a - zero) * a_factor + (b - zero) * b_factor) + zero), or of the product of both with a_factor. */
typedef struct braid_bytes_pair {
  braid_bytes_scale a, b, y;
  float a_factor, b_factor;
} braid_bytes_pair;
BRAID_ISA_FUNCTION(void, braid_bytes_add,
                   (const braid_bytes_pair *p, const void *a, const void *b, int64_t count, void *y))
BRAID_ISA_FUNCTION(void, braid_bytes_multiply,
                   (const braid_bytes_pair *p, const void *a, const void *b, int64_t count, void *y))
/* The same with one b for all. */
BRAID_ISA_FUNCTION(void, braid_bytes_add_one,
                   (const braid_bytes_pair *p, const void *a, const void *b, int64_t count, void *y))
BRAID_ISA_FUNCTION(void, braid_bytes_multiply_one,
                   (const braid_bytes_pair *p, const void *a, const void *b, int64_t count, void *y))
/* sums += x, of `count` bytes. */
BRAID_ISA_FUNCTION(void, braid_bytes_sum, (const void *x, bool is_signed, int64_t count, int32_t *sums))
/* y = the larger of both, of `count` bytes. */
BRAID_ISA_FUNCTION(void, braid_bytes_max, (const void *x, bool is_signed, int64_t count, void *y))

#endif
