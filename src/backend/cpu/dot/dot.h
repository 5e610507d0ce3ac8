/* Products of bytes with exact sums: c[m][n] = sum over k of a[m][k] * b[k][n], a unsigned, b signed, c int32.
 *
 * The right side is packed once into panels: 16 columns times 4 places of k are 64 bytes, which is what one dot-product
 * instruction takes; panels are followed by the sum of each column. The left side is rows of bytes as they are, padded
 * to a multiple of 4 (with anything: the weights there are 0).
 *
 * A left side of signed bytes is given as unsigned ones, x + 128 (x ^ 0x80), and each sum is too large by 128 times its
 * column's sum then. Sums are exact as long as they fit: k up to BRAID_DOT_MOST_K whatever the numbers are. So nothing
 * here depends on the order of additions: any tiling, any number of threads and any instruction set gives the same
 * bits. */
#ifndef BRAID_BACKEND_CPU_DOT_H
#define BRAID_BACKEND_CPU_DOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  BRAID_DOT_QUAD = 4,       /* places of k in a step */
  BRAID_DOT_UNIT = 16,      /* columns of a panel */
  BRAID_DOT_COLUMNS = 64,   /* of a tile, at most */
  BRAID_DOT_ROWS = 24,      /* of a tile, at most */
  BRAID_DOT_MOST_K = 65793, /* 2^31 / (255 * 128) */
};

static inline int64_t braid_dot_quads(int64_t k) {
  return (k + BRAID_DOT_QUAD - 1) / BRAID_DOT_QUAD;
}

/* Bytes of a packed right side; false: more than a size_t holds. */
bool braid_dot_packed_bytes(int64_t k, int64_t n, size_t *bytes);
/* A right side in memory: element (k, n) stands at (k / run) * run_step + (k % run) * k_step + n * n_step. */
typedef struct braid_dot_right {
  const void *data;
  bool is_unsigned; /* its bytes less 128 are packed */
  int64_t k, n, run, run_step, k_step, n_step;
} braid_dot_right;

/* Packs it into 64-byte aligned memory. */
void braid_dot_pack_right(const braid_dot_right *right, void *packed);
static inline void braid_dot_pack(const int8_t *b, int64_t k, int64_t n, int64_t k_step, int64_t n_step, void *packed) {
  braid_dot_pack_right(&(braid_dot_right){b, false, k, n, k, 0, k_step, n_step}, packed);
}
/* The panel of columns from `column`, a multiple of BRAID_DOT_UNIT. */
static inline const int8_t *braid_dot_panel(const void *packed, int64_t k, int64_t column) {
  return (const int8_t *)packed + column * braid_dot_quads(k) * BRAID_DOT_QUAD;
}
/* sums[n] = sum over k of b[k][n], n padded to BRAID_DOT_UNIT. */
const int32_t *braid_dot_column_sums(const void *packed, int64_t k, int64_t n);

/* One tile, by the calling thread: up to BRAID_DOT_ROWS rows of a, which are `step` bytes apart, with up to
 * BRAID_DOT_COLUMNS columns from a panel on: sums[row * BRAID_DOT_COLUMNS + column]. Columns are computed to the end of
 * their panel. */
void braid_dot_tile(const uint8_t *a, int64_t step, int64_t rows, const int8_t *panel, int64_t k, int64_t columns,
                    int32_t *sums);
/* The whole product, by the threads of the calling one's team. */
void braid_dot_product(const uint8_t *a, int64_t step, int64_t m, const void *packed, int64_t k, int64_t n, int32_t *c,
                       int64_t c_step);

#endif
