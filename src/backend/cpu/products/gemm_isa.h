/* Tiles of matrix products.
 *
 * A panel is as wide as one 64-byte vector. A tile of the result, some rows by some panels, stays in registers while a
 * chunk of the inner dimension is gone through. Tiles of few rows have more panels: each number that is loaded serves
 * several sums, and sums enough are under way that none waits for the one before it. */
#ifndef BRAID_BACKEND_CPU_PRODUCTS_GEMM_ISA_H
#define BRAID_BACKEND_CPU_PRODUCTS_GEMM_ISA_H

#include <stddef.h>

#include "backend/cpu/isa.h"

enum { BRAID_GEMM_PANEL_BYTES = 64, BRAID_GEMM_ROWS = 12 /* of a tile, at most */ };

/* Element (r, k) of `left` lies at [r * row_step + k * column_step]; `right` is a chunk of the first panel, and from
 * panel to panel there are panel_step vectors. */
typedef struct braid_gemm_tile {
  const void *left, *right;
  void *result;
  int64_t row_step, column_step, panel_step, count;
  int64_t step; /* of the result, from row to row, in bytes */
  bool accumulate;
} braid_gemm_tile;

/* Tiles of so many rows, by so many panels and by one. */
typedef struct braid_gemm_shape {
  int64_t rows, panels;
  void (*wide)(const braid_gemm_tile *tile);
  void (*narrow)(const braid_gemm_tile *tile);
} braid_gemm_shape;

enum { BRAID_GEMM_SHAPES = 7 /* at most */ };
/* From most rows to one, the last. */
typedef struct braid_gemm_tiles {
  braid_gemm_shape shapes[BRAID_GEMM_SHAPES];
} braid_gemm_tiles;

enum { BRAID_GEMM_TYPES = 4 }; /* float, double, 32-bit and 64-bit integers */
typedef const braid_gemm_tiles braid_gemm_tile_list[BRAID_GEMM_TYPES];
BRAID_ISA_OBJECT(braid_gemm_tile_list, braid_gemm_tiles)

#endif
