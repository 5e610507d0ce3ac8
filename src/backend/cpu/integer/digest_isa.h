/* Loops of IntegerDigest, compiled for each instruction set. */
#ifndef BRAID_BACKEND_CPU_INTEGER_DIGEST_ISA_H
#define BRAID_BACKEND_CPU_INTEGER_DIGEST_ISA_H

#include "backend/cpu/isa.h"

enum { BRAID_DIGEST_ROWS = 4 };

/* The weights of places first, first + step ... of a sample. */
BRAID_ISA_FUNCTION(void, braid_integer_digest_weights, (uint64_t first, uint64_t step, int64_t count, uint32_t *w))
/* sums[r] += the sum over i of w[i] * x[r * stride + i], for each of BRAID_DIGEST_ROWS rows, modulo 2^32. */
BRAID_ISA_FUNCTION(void, braid_integer_digest_i8,
                   (const int8_t *x, int64_t stride, const uint32_t *w, int64_t count, uint32_t *sums))
BRAID_ISA_FUNCTION(void, braid_integer_digest_u8,
                   (const uint8_t *x, int64_t stride, const uint32_t *w, int64_t count, uint32_t *sums))
BRAID_ISA_FUNCTION(void, braid_integer_digest_i16,
                   (const int16_t *x, int64_t stride, const uint32_t *w, int64_t count, uint32_t *sums))

#endif
