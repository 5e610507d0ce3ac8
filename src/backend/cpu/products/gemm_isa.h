/* Tiles of matrix products.
 *
 * A panel is as wide as one 64-byte vector. A tile of the result, some rows by one panel, stays in registers while a
 * chunk of the inner dimension is gone through; the rows are as many as leave registers for the operands (16 vectors of
 * 32 bytes, or 32 of 64), or fewer at the end. */
#ifndef BRAID_BACKEND_CPU_PRODUCTS_GEMM_ISA_H
#define BRAID_BACKEND_CPU_PRODUCTS_GEMM_ISA_H

#include <stddef.h>

#include "backend/cpu/isa.h"

enum { BRAID_GEMM_PANEL_BYTES = 64, BRAID_GEMM_ROWS = 12 /* of a tile, at most */, BRAID_GEMM_THIN_PANELS = 8 };

/* `left` is packed, [count][the tile's rows]; `right` is a panel's chunk. */
typedef struct braid_gemm_tile {
  const void *left, *right;
  void *result;
  int64_t count, step, rows, columns;
  bool accumulate;
} braid_gemm_tile;

/* The tiles of one type, by thirds of the most rows; and one row by one panel or by BRAID_GEMM_THIN_PANELS whole ones,
 * over the whole inner dimension: `left` lies as it is, and the panels of `right` are `step` rows long. */
typedef struct braid_gemm_tiles {
  int64_t rows; /* at most */
  void (*thirds[3])(const braid_gemm_tile *tile);
  void (*thin[2])(const braid_gemm_tile *tile);
} braid_gemm_tiles;

enum { BRAID_GEMM_TYPES = 4 }; /* float, double, 32-bit and 64-bit integers */
typedef const braid_gemm_tiles braid_gemm_tile_list[BRAID_GEMM_TYPES];
BRAID_ISA_OBJECT(braid_gemm_tile_list, braid_gemm_tiles)

#endif
