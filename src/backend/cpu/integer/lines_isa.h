/* Loops over lines of bytes and of sums, compiled for each instruction set. */
#ifndef BRAID_BACKEND_CPU_INTEGER_LINES_ISA_H
#define BRAID_BACKEND_CPU_INTEGER_LINES_ISA_H

#include "backend/cpu/isa.h"

/* What is left of a tile of sums: row r, column c at sums[r * BRAID_DOT_COLUMNS + c], too large by offsets[c]. Row r of
 * the result starts at element places[r]. */
typedef struct braid_integer_tile {
  const int32_t *sums, *offsets;
  const int64_t *places;
  int64_t rows, columns;
} braid_integer_tile;

/* Lines of `bytes` bytes, each combined with `flip` (exclusive or); `from_step` and `to_step` from one to the next. */
BRAID_ISA_FUNCTION(void, braid_integer_lay_lines,
                   (const int8_t *from, int64_t from_step, int64_t count, int64_t bytes, uint8_t flip, uint8_t *to,
                    int64_t to_step))
/* sums[c] += the bytes of column c of a panel. */
BRAID_ISA_FUNCTION(void, braid_integer_sum_quads, (const int8_t *panel, int64_t quads, int32_t *sums))
/* Q(sum, k, shift) within [low, high]; shift from 0 to 31. */
BRAID_ISA_FUNCTION(void, braid_integer_narrow_i8,
                   (const braid_integer_tile *tile, int shift, int32_t low, int32_t high, int8_t *y))
BRAID_ISA_FUNCTION(void, braid_integer_narrow_i16,
                   (const braid_integer_tile *tile, int shift, int32_t low, int32_t high, int16_t *y))
/* The sums as they are; their OR of magnitudes is returned. */
BRAID_ISA_FUNCTION(uint32_t, braid_integer_store, (const braid_integer_tile *tile, int32_t *raw))
/* total += sum, row by row of the tile. */
BRAID_ISA_FUNCTION(void, braid_integer_add, (const braid_integer_tile *tile, int32_t *total))
BRAID_ISA_FUNCTION(void, braid_integer_add_wide, (const braid_integer_tile *tile, int64_t *total))

#endif
