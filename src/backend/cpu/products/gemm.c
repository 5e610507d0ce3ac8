#include "backend/cpu/products/gemm.h"

#include <omp.h>
#include <string.h>

#include "backend/cpu/vectorized.h"
#include "base/checked.h"

/* A panel is as wide as one 64-byte vector. A tile of the result, some rows by one panel, stays in registers while a
 * chunk of the inner dimension is gone through; the rows are as many as leave registers for the operands (16 vectors of
 * 32 bytes, or 32 of 64), or fewer at the end. A chunk of a tile's left rows is packed on the stack and used for a
 * block of panels, whose chunks stay in the second-level cache for a block of rows. */
enum { kPanelBytes = 64, kNarrowRows = 6, kWideRows = 12, kChunk = 256, kBlockRows = 96, kBlockPanels = 32 };
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

/* One tile: `left` is packed, [count][the tile's rows]; `right` is a panel's chunk. */
typedef struct tile {
  const void *left, *right;
  void *result;
  int64_t count, step, rows, columns;
  bool accumulate;
} tile;
typedef void tile_run(const tile *t);

/* --- tiles ---------------------------------------------------------------------------------------------------------
 * Sums begin with what is there, so that chunks make one chain. */
#define DEFINE_TILE(name, type, target, tile_rows)                                                                     \
  target static void name(const tile *t) {                                                                             \
    typedef type vector __attribute__((vector_size(kPanelBytes)));                                                     \
    enum { kWidth = kPanelBytes / sizeof(type) };                                                                      \
    const vector *right = t->right;                                                                                    \
    const type *left = t->left;                                                                                        \
    type *out = t->result;                                                                                             \
    int64_t count = t->count, rows = t->rows;                                                                          \
    bool whole = t->columns == kWidth;                                                                                 \
    size_t bytes = (size_t)t->columns * sizeof(type);                                                                  \
    vector sums[tile_rows] = {{0}};                                                                                    \
    if (t->accumulate)                                                                                                 \
      for (int64_t r = 0; r < rows; r++) memcpy(&sums[r], out + r * t->step, whole ? kPanelBytes : bytes);             \
    for (int64_t k = 0; k < count; k++, left += tile_rows) {                                                           \
      vector panel_row = right[k];                                                                                     \
      _Pragma("GCC unroll 12") for (int r = 0; r < tile_rows; r++) sums[r] += left[r] * panel_row;                     \
    }                                                                                                                  \
    for (int64_t r = 0; r < rows; r++) memcpy(out + r * t->step, &sums[r], whole ? kPanelBytes : bytes);               \
  }

/* Rows of 12, 8 and 4, or 6, 4 and 2. */
#define DEFINE_TILES(name, type, target, most)                                                                         \
  DEFINE_TILE(name##_3, type, target, (most))                                                                          \
  DEFINE_TILE(name##_2, type, target, (most)*2 / 3)                                                                    \
  DEFINE_TILE(name##_1, type, target, (most) / 3)

DEFINE_TILES(narrow_f32, float, BRAID_VECTORIZED, kNarrowRows)
DEFINE_TILES(narrow_f64, double, BRAID_VECTORIZED, kNarrowRows)
DEFINE_TILES(narrow_u32, uint32_t, BRAID_VECTORIZED, kNarrowRows)
DEFINE_TILES(narrow_u64, uint64_t, BRAID_VECTORIZED, kNarrowRows)
#if BRAID_GEMM_WIDE
DEFINE_TILES(wide_f32, float, WIDE, kWideRows)
DEFINE_TILES(wide_f64, double, WIDE, kWideRows)
DEFINE_TILES(wide_u32, uint32_t, WIDE, kWideRows)
DEFINE_TILES(wide_u64, uint64_t, WIDE, kWideRows)
#endif

/* The tiles of one type, by thirds of the most rows. */
typedef struct tile_set {
  int64_t rows; /* at most */
  tile_run *thirds[3];
} tile_set;

#define TILES(name, most)                                                                                              \
  {                                                                                                                    \
    most, {                                                                                                            \
      name##_1, name##_2, name##_3                                                                                     \
    }                                                                                                                  \
  }
enum { kTileTypes = 4 };
static const tile_set kNarrow[kTileTypes] = {TILES(narrow_f32, kNarrowRows), TILES(narrow_f64, kNarrowRows),
                                             TILES(narrow_u32, kNarrowRows), TILES(narrow_u64, kNarrowRows)};
#if BRAID_GEMM_WIDE
static const tile_set kWide[kTileTypes] = {TILES(wide_f32, kWideRows), TILES(wide_f64, kWideRows),
                                           TILES(wide_u32, kWideRows), TILES(wide_u64, kWideRows)};
#endif

static const tile_set *tiles_for(braid_dtype dtype) {
  int type = dtype == BRAID_F32 ? 0 : dtype == BRAID_F64 ? 1 : braid_dtype_size(dtype) == 4 ? 2 : 3;
#if BRAID_GEMM_WIDE
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return &kWide[type];
#endif
  return &kNarrow[type];
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
  int64_t panels = inner ? panel_count(dtype, columns) : 0; /* nothing to pack, and perhaps nowhere */
  bool small = braid_dtype_size(dtype) == 4;
#pragma omp parallel for schedule(static) if (inner * columns > kWorthThreads)
  for (int64_t panel = 0; panel < panels; panel++) {
    if (small)
      pack_uint32_t(inner, columns, right, panel, packed);
    else
      pack_uint64_t(inner, columns, right, panel, packed);
  }
}

/* A chunk of a tile's left rows, [count][tile_rows]; rows beyond the last are zero. */
#define DEFINE_PACK_LEFT(type)                                                                                         \
  static void pack_left_##type(braid_matrix left, int64_t row, int64_t rows, int64_t tile_rows, int64_t from,          \
                               int64_t count, type *out) {                                                             \
    const type *data = (const type *)left.data + row * left.row_step + from * left.column_step;                        \
    if (rows < tile_rows) memset(out, 0, (size_t)(count * tile_rows) * sizeof(type));                                  \
    if (left.row_step == 1)                                                                                            \
      for (int64_t k = 0; k < count; k++)                                                                              \
        for (int64_t r = 0; r < rows; r++) out[k * tile_rows + r] = data[k * left.column_step + r];                    \
    else                                                                                                               \
      for (int64_t r = 0; r < rows; r++)                                                                               \
        for (int64_t k = 0; k < count; k++) out[k * tile_rows + r] = data[r * left.row_step + k * left.column_step];   \
  }

DEFINE_PACK_LEFT(uint32_t)
DEFINE_PACK_LEFT(uint64_t)

/* --- products ------------------------------------------------------------------------------------------------------
 */
typedef struct span {
  int64_t first, end;
} span;

static span block_of(int64_t index, int64_t length, int64_t total) {
  return (span){index * length, (index + 1) * length < total ? (index + 1) * length : total};
}

/* The rows from `row` on that one tile takes, over a block of panels and a chunk of the inner dimension. */
static int64_t run_rows(const product *p, braid_dtype dtype, const tile_set *tiles, int64_t row, int64_t end,
                        span panels, span chunk) {
  uint64_t left[kWideRows * kChunk];
  size_t size = braid_dtype_size(dtype);
  int64_t width = kPanelBytes / (int64_t)size, third = tiles->rows / 3;
  int64_t rows = end - row < tiles->rows ? end - row : tiles->rows, thirds = (rows + third - 1) / third;
  tile t = {.left = left,
            .count = chunk.end - chunk.first,
            .step = p->step,
            .rows = rows,
            .accumulate = p->accumulate || chunk.first > 0};
  if (size == 4)
    pack_left_uint32_t(p->left, row, rows, thirds * third, chunk.first, t.count, (uint32_t *)left);
  else
    pack_left_uint64_t(p->left, row, rows, thirds * third, chunk.first, t.count, left);
  for (int64_t panel = panels.first; panel < panels.end; panel++) {
    t.columns = p->columns - panel * width < width ? p->columns - panel * width : width;
    t.right = (const char *)p->packed + (panel * p->inner + chunk.first) * kPanelBytes;
    t.result = (char *)p->result + (size_t)(row * p->step + panel * width) * size;
    tiles->thirds[thirds - 1](&t);
  }
  return rows;
}

static void run_block(const product *p, braid_dtype dtype, const tile_set *tiles, span rows, span panels) {
  int64_t chunks = (p->inner + kChunk - 1) / kChunk;
  for (int64_t c = 0; c < chunks; c++)
    for (int64_t row = rows.first; row < rows.end;)
      row += run_rows(p, dtype, tiles, row, rows.end, panels, block_of(c, kChunk, p->inner));
}

void braid_gemm_run(braid_dtype dtype, int64_t rows, int64_t inner, int64_t columns, braid_matrix left,
                    const void *packed, void *result, int64_t step, bool accumulate) {
  if (inner == 0) { /* a sum of nothing; the operands may be nowhere */
    size_t size = braid_dtype_size(dtype);
    for (int64_t row = 0; row < rows && !accumulate && columns; row++)
      memset((char *)result + (size_t)(row * step) * size, 0, (size_t)columns * size);
    return;
  }
  product p = {rows, inner, columns, step, left, packed, result, accumulate};
  int64_t panels = panel_count(dtype, columns);
  const tile_set *tiles = tiles_for(dtype);
  int64_t row_blocks = (rows + kBlockRows - 1) / kBlockRows, length = kBlockPanels;
  int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  while (length > 4 && row_blocks * ((panels + length - 1) / length) < threads) length /= 2;
  int64_t panel_blocks = (panels + length - 1) / length;
#pragma omp parallel for collapse(2) schedule(static) if ((double)rows * (double)(inner * columns) > kWorthThreads)
  for (int64_t r = 0; r < row_blocks; r++)
    for (int64_t c = 0; c < panel_blocks; c++)
      run_block(&p, dtype, tiles, block_of(r, kBlockRows, rows), block_of(c, length, panels));
}
