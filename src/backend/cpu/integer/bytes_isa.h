/* Loops over bytes of activations, errors and parameters, compiled for each instruction set. */
#ifndef BRAID_BACKEND_CPU_INTEGER_BYTES_ISA_H
#define BRAID_BACKEND_CPU_INTEGER_BYTES_ISA_H

#include "backend/cpu/isa.h"

enum { BRAID_INTEGER_DRAWS = 64 };

BRAID_ISA_FUNCTION(void, braid_integer_rectify, (const int8_t *x, int64_t count, int8_t *y))
/* e where 0 < y < most. */
BRAID_ISA_FUNCTION(void, braid_integer_pass_within,
                   (const int8_t *e, const int8_t *y, int64_t count, int32_t most, int8_t *to))
BRAID_ISA_FUNCTION(void, braid_integer_add_bytes,
                   (const int8_t *a, const int8_t *b, int64_t count, int32_t low, int32_t high, int8_t *y))
/* raw = large * 2^apart + (small & kept), apart up to 16; the OR of magnitudes is returned. */
BRAID_ISA_FUNCTION(uint32_t, braid_integer_sum_errors,
                   (const int8_t *large, const int8_t *small, int64_t count, int apart, int32_t kept, int32_t *raw))
/* Q(v, k, shift) within [-most, most]; shift from 0 to 31. */
BRAID_ISA_FUNCTION(void, braid_integer_scale_i8, (const int8_t *v, int64_t count, int shift, int32_t most, int8_t *to))
BRAID_ISA_FUNCTION(void, braid_integer_scale_i16,
                   (const int16_t *v, int64_t count, int shift, int32_t most, int8_t *to))
/* floor((v + r) / 2^d) within [-most, most], d from 1 to 31, of `rows` rows one behind the other; r of element i of row
 * k from the mixed bits of first + k + i * step. */
BRAID_ISA_FUNCTION(void, braid_integer_scale_randomly,
                   (const int32_t *v, int64_t rows, int64_t length, uint32_t first, uint32_t step, int d, int32_t most,
                    int8_t *to))

/* The random numbers of elements first to first + BRAID_INTEGER_DRAWS - 1; first is a multiple of 4. */
BRAID_ISA_FUNCTION(void, braid_integer_draw,
                   (uint64_t seed, uint32_t step, uint32_t stream, uint64_t first, uint32_t *u))
/* P - clip((g + r) >> t) within [-most, most], t from 1 to 31. */
BRAID_ISA_FUNCTION(void, braid_integer_update_i8,
                   (const int8_t *p, const int32_t *g, const uint32_t *u, int64_t count, int t, int32_t most,
                    int8_t *to))
BRAID_ISA_FUNCTION(void, braid_integer_update_i16,
                   (const int16_t *p, const int32_t *g, const uint32_t *u, int64_t count, int t, int32_t most,
                    int16_t *to))

/* What a step by momentum has for all elements: docs/integer-training.md, "Update by momentum". `key` is that of
 * element 0 of the call. */
typedef struct braid_integer_momentum {
  int t; /* from -16 to 31 */
  bool decays;
  int decay_shift; /* -40 to 40 */
  int f;
  int32_t most;
  uint32_t key;
} braid_integer_momentum;
/* At most BRAID_INTEGER_DRAWS elements; `to` and `v_to` may be `p` and `v`. */
BRAID_ISA_FUNCTION(void, braid_integer_momentum_i8,
                   (const braid_integer_momentum *m, const int8_t *p, const int16_t *v, const int32_t *g,
                    const uint32_t *u, int64_t count, int8_t *to, int16_t *v_to))
BRAID_ISA_FUNCTION(void, braid_integer_momentum_i16,
                   (const braid_integer_momentum *m, const int16_t *p, const int16_t *v, const int32_t *g,
                    const uint32_t *u, int64_t count, int16_t *to, int16_t *v_to))

#endif
