/* Loops of pools of integers over a line of pixels, compiled for each instruction set. All take `count` pixels of
 * `channels` bytes each; those of the pooled side follow each other, those of the other side are `step` apart. */
#ifndef BRAID_BACKEND_CPU_INTEGER_POOL_ISA_H
#define BRAID_BACKEND_CPU_INTEGER_POOL_ISA_H

#include "backend/cpu/isa.h"

/* Where x is larger than best: best = x, index = place. */
BRAID_ISA_FUNCTION(void, braid_integer_keep_larger,
                   (const int8_t *x, int64_t step, int64_t count, int64_t channels, uint8_t place, int8_t *best,
                    uint8_t *index))
BRAID_ISA_FUNCTION(void, braid_integer_larger,
                   (const int8_t *x, int64_t step, int64_t count, int64_t channels, int8_t *best))
/* to = index is place ? e : 0; and added to what is there, for all places where index is NULL. */
BRAID_ISA_FUNCTION(void, braid_integer_route,
                   (const int8_t *e, const uint8_t *index, int64_t count, int64_t channels, uint8_t place, int8_t *to,
                    int64_t step))
BRAID_ISA_FUNCTION(void, braid_integer_route_add,
                   (const int8_t *e, const uint8_t *index, int64_t count, int64_t channels, uint8_t place, int32_t *to,
                    int64_t step))
BRAID_ISA_FUNCTION(void, braid_integer_add_pixels,
                   (const int8_t *x, int64_t step, int64_t count, int64_t channels, int32_t *sums))
/* The OR of magnitudes. */
BRAID_ISA_FUNCTION(uint32_t, braid_integer_magnitude, (const int32_t *raw, int64_t count))

#endif
