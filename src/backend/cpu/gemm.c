#include "backend/cpu/gemm.h"

#include <string.h>

#include "backend/cpu/vectorized.h"
#include "base/checked.h"

/* A panel is as wide as one 64-byte vector. A tile of the result is kRows by one panel and stays in registers while the
 * inner dimension is gone through; a block of tiles is the unit of work of a thread. kRows is the most that leaves
 * registers for the operands: 16 vectors of 32 bytes, or 32 of 64. */
enum { kPanelBytes = 64, kNarrowRows = 6, kWideRows = 12, kBlockRows = 96, kBlockPanels = 4 };
static const int64_t kWorthThreads = 1 << 18; /* multiply-accumulates */

#if defined(__x86_64__) && defined(__ELF__)
#define BRAID_GEMM_WIDE 1
#define WIDE __attribute__((target("arch=x86-64-v4")))
#else
#define BRAID_GEMM_WIDE 0
#endif

typedef struct product {
  int64_t rows, inner, columns, step;
  braid_matrix left;
  const void *packed;
  void *result;
  bool accumulate;
} product;

/* --- tiles ---------------------------------------------------------------------------------------------------------
 * Rows beyond the last are computed as copies of the last and not stored. */
#define DEFINE_TILE(name, type, target, tile_rows)                                                                     \
  target static void name(const product *p, int64_t row, int64_t panel) {                                              \
    typedef type vector __attribute__((vector_size(kPanelBytes)));                                                     \
    enum { kWidth = kPanelBytes / sizeof(type) };                                                                      \
    const vector *right = (const vector *)p->packed + panel * p->inner;                                                \
    int64_t rows = p->rows - row < tile_rows ? p->rows - row : tile_rows, inner = p->inner;                            \
    int64_t columns = p->columns - panel * kWidth < kWidth ? p->columns - panel * kWidth : kWidth;                     \
    const type *left[tile_rows];                                                                                       \
    vector sums[tile_rows];                                                                                            \
    for (int64_t r = 0; r < tile_rows; r++) {                                                                          \
      left[r] = (const type *)p->left.data + (row + (r < rows ? r : rows - 1)) * p->left.row_step;                     \
      sums[r] = (vector){0};                                                                                           \
    }                                                                                                                  \
    for (int64_t k = 0; k < inner; k++) {                                                                              \
      vector panel_row = right[k];                                                                                     \
      int64_t at = k * p->left.column_step;                                                                            \
      _Pragma("GCC unroll 12") for (int r = 0; r < tile_rows; r++) sums[r] += left[r][at] * panel_row;                 \
    }                                                                                                                  \
    type *out = (type *)p->result + row * p->step + panel * kWidth;                                                    \
    for (int64_t r = 0; r < rows; r++, out += p->step) {                                                               \
      type part[kWidth];                                                                                               \
      memcpy(part, &sums[r], sizeof part);                                                                             \
      for (int64_t c = 0; c < columns; c++) out[c] = p->accumulate ? out[c] + part[c] : part[c];                       \
    }                                                                                                                  \
  }

DEFINE_TILE(narrow_f32, float, BRAID_VECTORIZED, kNarrowRows)
DEFINE_TILE(narrow_f64, double, BRAID_VECTORIZED, kNarrowRows)
DEFINE_TILE(narrow_u32, uint32_t, BRAID_VECTORIZED, kNarrowRows)
DEFINE_TILE(narrow_u64, uint64_t, BRAID_VECTORIZED, kNarrowRows)
#if BRAID_GEMM_WIDE
DEFINE_TILE(wide_f32, float, WIDE, kWideRows)
DEFINE_TILE(wide_f64, double, WIDE, kWideRows)
DEFINE_TILE(wide_u32, uint32_t, WIDE, kWideRows)
DEFINE_TILE(wide_u64, uint64_t, WIDE, kWideRows)
#endif

typedef void tile_run(const product *p, int64_t row, int64_t panel);

static bool has_wide_vectors(void) {
#if BRAID_GEMM_WIDE
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

static tile_run *tile_for(braid_dtype dtype, int64_t *rows) {
#if BRAID_GEMM_WIDE
  if (has_wide_vectors()) {
    *rows = kWideRows;
    if (dtype == BRAID_F32) return wide_f32;
    if (dtype == BRAID_F64) return wide_f64;
    return braid_dtype_size(dtype) == 4 ? wide_u32 : wide_u64;
  }
#endif
  *rows = kNarrowRows;
  if (dtype == BRAID_F32) return narrow_f32;
  if (dtype == BRAID_F64) return narrow_f64;
  return braid_dtype_size(dtype) == 4 ? narrow_u32 : narrow_u64;
}

/* --- packing -------------------------------------------------------------------------------------------------------
 */
static int64_t panel_count(braid_dtype dtype, int64_t columns) {
  int64_t width = kPanelBytes / (int64_t)braid_dtype_size(dtype);
  return columns / width + (columns % width != 0);
}

bool braid_gemm_packed_bytes(braid_dtype dtype, int64_t inner, int64_t columns, size_t *bytes) {
  return braid_mul_size((size_t)panel_count(dtype, columns), (size_t)inner, bytes) &&
         braid_mul_size(*bytes, kPanelBytes, bytes);
}

#define DEFINE_PACK(type)                                                                                              \
  static void pack_##type(int64_t inner, int64_t columns, braid_matrix right, int64_t panel, type *out) {              \
    enum { kWidth = kPanelBytes / sizeof(type) };                                                                      \
    const type *from = (const type *)right.data + panel * kWidth * right.column_step;                                  \
    int64_t count = columns - panel * kWidth < kWidth ? columns - panel * kWidth : kWidth;                             \
    out += panel * inner * kWidth;                                                                                     \
    for (int64_t k = 0; k < inner; k++, out += kWidth, from += right.row_step) {                                       \
      if (count == kWidth && right.column_step == 1) {                                                                 \
        memcpy(out, from, kPanelBytes);                                                                                \
        continue;                                                                                                      \
      }                                                                                                                \
      for (int64_t c = 0; c < kWidth; c++) out[c] = c < count ? from[c * right.column_step] : 0;                       \
    }                                                                                                                  \
  }

DEFINE_PACK(uint32_t)
DEFINE_PACK(uint64_t)

void braid_gemm_pack(braid_dtype dtype, int64_t inner, int64_t columns, braid_matrix right, void *packed) {
  int64_t panels = panel_count(dtype, columns);
  bool small = braid_dtype_size(dtype) == 4;
#pragma omp parallel for schedule(static) if (inner * columns > kWorthThreads)
  for (int64_t panel = 0; panel < panels; panel++) {
    if (small)
      pack_uint32_t(inner, columns, right, panel, packed);
    else
      pack_uint64_t(inner, columns, right, panel, packed);
  }
}

/* --- products ------------------------------------------------------------------------------------------------------
 */
static void run_block(const product *p, tile_run *tile, int64_t tile_rows, int64_t first_row, int64_t first_panel,
                      int64_t panels) {
  int64_t end_row = first_row + kBlockRows < p->rows ? first_row + kBlockRows : p->rows;
  int64_t end_panel = first_panel + kBlockPanels < panels ? first_panel + kBlockPanels : panels;
  for (int64_t panel = first_panel; panel < end_panel; panel++)
    for (int64_t row = first_row; row < end_row; row += tile_rows) tile(p, row, panel);
}

void braid_gemm_run(braid_dtype dtype, int64_t rows, int64_t inner, int64_t columns, braid_matrix left,
                    const void *packed, void *result, int64_t step, bool accumulate) {
  product p = {rows, inner, columns, step, left, packed, result, accumulate};
  int64_t tile_rows, panels = panel_count(dtype, columns);
  tile_run *tile = tile_for(dtype, &tile_rows);
  int64_t row_blocks = (rows + kBlockRows - 1) / kBlockRows, panel_blocks = (panels + kBlockPanels - 1) / kBlockPanels;
#pragma omp parallel for collapse(2) schedule(static) if ((double)rows * (double)(inner * columns) > kWorthThreads)
  for (int64_t r = 0; r < row_blocks; r++)
    for (int64_t c = 0; c < panel_blocks; c++) run_block(&p, tile, tile_rows, r * kBlockRows, c * kBlockPanels, panels);
}
