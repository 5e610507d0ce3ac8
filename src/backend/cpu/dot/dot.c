#include "backend/cpu/dot/dot.h"

#include <string.h>

#include "backend/cpu/dot/tile_dot_isa.h"
#include "base/checked.h"

static int64_t columns_padded(int64_t n) {
  return (n + BRAID_DOT_UNIT - 1) / BRAID_DOT_UNIT * BRAID_DOT_UNIT;
}

bool braid_dot_packed_bytes(int64_t k, int64_t n, size_t *bytes) {
  size_t column = (size_t)braid_dot_quads(k) * BRAID_DOT_QUAD + sizeof(int32_t);
  return braid_mul_size((size_t)columns_padded(n), column, bytes);
}

const int32_t *braid_dot_column_sums(const void *packed, int64_t k, int64_t n) {
  return (const int32_t *)(const void *)braid_dot_panel(packed, k, columns_padded(n));
}

/* Four places of k of a panel's columns. */
static void pack_quad(const braid_dot_right *b, int64_t at, int64_t first, int8_t *to, int32_t *sums) {
  const uint8_t *data = b->data;
  uint8_t flip = b->is_unsigned ? 0x80 : 0;
  for (int64_t i = 0; i < BRAID_DOT_QUAD && at + i < b->k; i++) {
    int64_t k = (at + i) / b->run * b->run_step + (at + i) % b->run * b->k_step;
    for (int64_t column = 0; column < BRAID_DOT_UNIT && first + column < b->n; column++) {
      int8_t value = (int8_t)(data[k + (first + column) * b->n_step] ^ flip);
      sums[column] += value;
      to[column * BRAID_DOT_QUAD + i] = value;
    }
  }
}

void braid_dot_pack_right(const braid_dot_right *right, void *packed) {
  int64_t bytes = braid_dot_quads(right->k) * BRAID_DOT_QUAD, padded = columns_padded(right->n);
  int8_t *panels = packed;
  int32_t *sums = (int32_t *)(void *)(panels + padded * bytes);
  memset(packed, 0, (size_t)(padded * bytes) + (size_t)padded * sizeof *sums);
#pragma omp parallel for schedule(static) if (right->k * right->n > 1 << 15)
  for (int64_t first = 0; first < padded; first += BRAID_DOT_UNIT)
    for (int64_t at = 0; at < right->k; at += BRAID_DOT_QUAD)
      pack_quad(right, at, first, panels + first * bytes + at * BRAID_DOT_UNIT, sums + first);
}

void braid_dot_tile(const uint8_t *a, int64_t step, int64_t rows, const int8_t *panel, int64_t k, int64_t columns,
                    int32_t *sums) {
  int64_t units = (columns + BRAID_DOT_UNIT - 1) / BRAID_DOT_UNIT;
  BRAID_DOT_ISA_CALL(braid_dot_units, a, step, rows, panel, braid_dot_quads(k), units, sums);
}

enum { kRowBlocks = 4 }; /* tiles of rows that take their turn over columns while those are in the cache */

void braid_dot_product(const uint8_t *a, int64_t step, int64_t m, const void *packed, int64_t k, int64_t n, int32_t *c,
                       int64_t c_step) {
  const int64_t block = kRowBlocks * BRAID_DOT_ROWS;
  int64_t blocks = (m + block - 1) / block, strips = (n + BRAID_DOT_COLUMNS - 1) / BRAID_DOT_COLUMNS;
#pragma omp parallel for schedule(static) if (m * n * k > 1 << 18)
  for (int64_t task = 0; task < blocks * strips; task++) {
    int32_t sums[BRAID_DOT_ROWS * BRAID_DOT_COLUMNS];
    int64_t column = task % strips * BRAID_DOT_COLUMNS, row = task / strips * block;
    int64_t columns = n - column < BRAID_DOT_COLUMNS ? n - column : BRAID_DOT_COLUMNS;
    int64_t end = m - row < block ? m : row + block;
    for (; row < end; row += BRAID_DOT_ROWS) {
      int64_t rows = end - row < BRAID_DOT_ROWS ? end - row : BRAID_DOT_ROWS;
      braid_dot_tile(a + row * step, step, rows, braid_dot_panel(packed, k, column), k, columns, sums);
      for (int64_t r = 0; r < rows; r++)
        memcpy(c + (row + r) * c_step + column, sums + r * BRAID_DOT_COLUMNS, (size_t)columns * sizeof *c);
    }
  }
}
