/* The inner loop of products of bytes, compiled for each instruction set that has another way to do it. */
#ifndef BRAID_BACKEND_CPU_DOT_TILE_DOT_ISA_H
#define BRAID_BACKEND_CPU_DOT_TILE_DOT_ISA_H

#include "backend/cpu/isa.h"

/* As braid_dot_tile, in quads of k and units of columns. */
BRAID_DOT_ISA_FUNCTION(void, braid_dot_units,
                       (const uint8_t *a, int64_t step, int64_t rows, const int8_t *panel, int64_t quads, int64_t units,
                        int32_t *sums))

#endif
