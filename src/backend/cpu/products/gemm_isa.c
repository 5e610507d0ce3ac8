#include "backend/cpu/products/gemm_isa.h"

#include <string.h>

#ifdef __AVX512F__
enum { kRows = BRAID_GEMM_ROWS };
#else
enum { kRows = BRAID_GEMM_ROWS / 2 };
#endif

/* Sums begin with what is there, so that chunks make one chain. */
#define DEFINE_TILE(name, type, tile_rows)                                                                             \
  static void name(const braid_gemm_tile *t) {                                                                         \
    typedef type vector __attribute__((vector_size(BRAID_GEMM_PANEL_BYTES)));                                          \
    enum { kWidth = BRAID_GEMM_PANEL_BYTES / sizeof(type) };                                                           \
    const vector *right = t->right;                                                                                    \
    const type *left = t->left;                                                                                        \
    type *out = t->result;                                                                                             \
    int64_t count = t->count, rows = t->rows;                                                                          \
    bool whole = t->columns == kWidth;                                                                                 \
    size_t bytes = (size_t)t->columns * sizeof(type);                                                                  \
    vector sums[tile_rows] = {{0}};                                                                                    \
    if (t->accumulate)                                                                                                 \
      for (int64_t r = 0; r < rows; r++) memcpy(&sums[r], out + r * t->step, whole ? BRAID_GEMM_PANEL_BYTES : bytes);  \
    for (int64_t k = 0; k < count; k++, left += tile_rows) {                                                           \
      vector panel_row = right[k];                                                                                     \
      _Pragma("GCC unroll 12") for (int r = 0; r < tile_rows; r++) sums[r] += left[r] * panel_row;                     \
    }                                                                                                                  \
    for (int64_t r = 0; r < rows; r++) memcpy(out + r * t->step, &sums[r], whole ? BRAID_GEMM_PANEL_BYTES : bytes);    \
  }

/* One row: its sums are chains as above, several panels side by side so that they need not wait for themselves. */
#define DEFINE_THIN(name, type, panels)                                                                                \
  static void name(const braid_gemm_tile *t) {                                                                         \
    typedef type vector __attribute__((vector_size(BRAID_GEMM_PANEL_BYTES)));                                          \
    const vector *right = t->right;                                                                                    \
    const type *left = t->left;                                                                                        \
    int64_t count = t->count, step = t->step;                                                                          \
    size_t bytes =                                                                                                     \
        (size_t)((panels) > 1 ? BRAID_GEMM_PANEL_BYTES / (int64_t)sizeof(type) : t->columns) * sizeof(type);           \
    vector sums[panels] = {{0}};                                                                                       \
    for (int64_t p = 0; t->accumulate && p < (panels); p++)                                                            \
      memcpy(&sums[p], (char *)t->result + p * BRAID_GEMM_PANEL_BYTES, bytes);                                         \
    for (int64_t k = 0; k < count; k++)                                                                                \
      _Pragma("GCC unroll 8") for (int64_t p = 0; p < (panels); p++) sums[p] += left[k] * right[p * step + k];         \
    for (int64_t p = 0; p < (panels); p++) memcpy((char *)t->result + p * BRAID_GEMM_PANEL_BYTES, &sums[p], bytes);    \
  }

/* Rows of 12, 8 and 4, or 6, 4 and 2. */
#define DEFINE_TILES(name, type)                                                                                       \
  DEFINE_TILE(name##_3, type, kRows)                                                                                   \
  DEFINE_TILE(name##_2, type, kRows * 2 / 3)                                                                           \
  DEFINE_TILE(name##_1, type, kRows / 3)                                                                               \
  DEFINE_THIN(name##_thin, type, 1)                                                                                    \
  DEFINE_THIN(name##_wide, type, BRAID_GEMM_THIN_PANELS)

DEFINE_TILES(f32, float)
DEFINE_TILES(f64, double)
DEFINE_TILES(u32, uint32_t)
DEFINE_TILES(u64, uint64_t)

braid_gemm_tile_list BRAID_ISA_NAME(braid_gemm_tiles) = {{kRows, {f32_1, f32_2, f32_3}, {f32_thin, f32_wide}},
                                                         {kRows, {f64_1, f64_2, f64_3}, {f64_thin, f64_wide}},
                                                         {kRows, {u32_1, u32_2, u32_3}, {u32_thin, u32_wide}},
                                                         {kRows, {u64_1, u64_2, u64_3}, {u64_thin, u64_wide}}};
