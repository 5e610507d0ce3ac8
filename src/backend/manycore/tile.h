/* Products of tiles in a scratchpad: what a compute core's vector unit does, in the host's vectors. */
#ifndef BRAID_BACKEND_MANYCORE_TILE_H
#define BRAID_BACKEND_MANYCORE_TILE_H

#include <stdint.h>

/* Rows of `b` and `c` are this many elements, or a multiple. */
enum { BRAID_MANYCORE_LINE = 16 };

/* c[i][j] += a(i, k) * b[k][j], k = 0, 1, 2 ... in this order, each product and sum rounded. a(i, k) lies at
 * a[i * row_step + k * column_step]; rows of b are `b_pitch` apart and those of c `c_pitch`, both multiples of
 * BRAID_MANYCORE_LINE; columns up to the next multiple are computed too. */
typedef struct braid_manycore_tile {
  const float *a, *b;
  float *c;
  int64_t row_step, column_step, b_pitch, c_pitch;
  int64_t rows, columns, inner;
} braid_manycore_tile;
void braid_manycore_multiply(const braid_manycore_tile *tile);

#endif
