#include "backend/cpu/products/gemm.h"

#include <omp.h>
#include <string.h>

#include "backend/cpu/products/gemm_isa.h"
#include "base/checked.h"

/* A chunk of a tile's left rows is packed on the stack and used for a block of panels, whose chunks stay in the
 * second-level cache for a block of rows. */
enum { kChunk = 256, kBlockRows = 96, kBlockPanels = 32, kThinRows = 1 };
static const int64_t kWorthThreads = 1 << 18; /* multiply-accumulates */

typedef struct product {
  int64_t rows, inner, columns, step;
  braid_matrix left;
  const void *packed;
  void *result;
  bool accumulate;
} product;

static const braid_gemm_tiles *tiles_for(braid_dtype dtype) {
  int type = dtype == BRAID_F32 ? 0 : dtype == BRAID_F64 ? 1 : braid_dtype_size(dtype) == 4 ? 2 : 3;
  return &BRAID_ISA(braid_gemm_tiles)[type];
}

/* --- packing -------------------------------------------------------------------------------------------------------
 */
static int64_t panel_count(braid_dtype dtype, int64_t columns) {
  int64_t width = BRAID_GEMM_PANEL_BYTES / (int64_t)braid_dtype_size(dtype);
  return columns / width + (columns % width != 0);
}

bool braid_gemm_packed_bytes(braid_dtype dtype, int64_t inner, int64_t columns, size_t *bytes) {
  return braid_mul_size((size_t)panel_count(dtype, columns), (size_t)inner, bytes) &&
         braid_mul_size(*bytes, BRAID_GEMM_PANEL_BYTES, bytes);
}

/* Columns that lie in one piece each: a cache line of every one at a time, since all of them, often a power of two
 * apart, may not find room in the cache together. */
#define DEFINE_PACK_TURNED(type)                                                                                       \
  static void pack_turned_##type(int64_t inner, int64_t count, const type *from, int64_t column_step, type *out) {     \
    enum { kWidth = BRAID_GEMM_PANEL_BYTES / sizeof(type) };                                                           \
    for (int64_t first = 0; first < inner; first += kWidth, out += kWidth * kWidth) {                                  \
      int64_t rows = inner - first < kWidth ? inner - first : kWidth;                                                  \
      if (count < kWidth) memset(out, 0, (size_t)(rows * kWidth) * sizeof(type));                                      \
      for (int64_t c = 0; c < count; c++)                                                                              \
        for (int64_t k = 0; k < rows; k++) out[k * kWidth + c] = from[c * column_step + first + k];                    \
    }                                                                                                                  \
  }

DEFINE_PACK_TURNED(uint32_t)
DEFINE_PACK_TURNED(uint64_t)

#define DEFINE_PACK(type)                                                                                              \
  static void pack_##type(int64_t inner, int64_t columns, braid_matrix right, int64_t panel, type *out) {              \
    enum { kWidth = BRAID_GEMM_PANEL_BYTES / sizeof(type) };                                                           \
    const type *from = (const type *)right.data + panel * kWidth * right.column_step;                                  \
    int64_t count = columns - panel * kWidth < kWidth ? columns - panel * kWidth : kWidth;                             \
    out += panel * inner * kWidth;                                                                                     \
    if (right.row_step == 1) {                                                                                         \
      pack_turned_##type(inner, count, from, right.column_step, out);                                                  \
      return;                                                                                                          \
    }                                                                                                                  \
    for (int64_t k = 0; k < inner; k++, out += kWidth, from += right.row_step) {                                       \
      if (count == kWidth && right.column_step == 1) {                                                                 \
        memcpy(out, from, BRAID_GEMM_PANEL_BYTES);                                                                     \
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
static int64_t run_rows(const product *p, braid_dtype dtype, const braid_gemm_tiles *tiles, int64_t row, int64_t end,
                        span panels, span chunk) {
  uint64_t left[BRAID_GEMM_ROWS * kChunk];
  size_t size = braid_dtype_size(dtype);
  int64_t width = BRAID_GEMM_PANEL_BYTES / (int64_t)size, third = tiles->rows / 3;
  int64_t rows = end - row < tiles->rows ? end - row : tiles->rows, thirds = (rows + third - 1) / third;
  braid_gemm_tile t = {.left = left,
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
    t.right = (const char *)p->packed + (panel * p->inner + chunk.first) * BRAID_GEMM_PANEL_BYTES;
    t.result = (char *)p->result + (size_t)(row * p->step + panel * width) * size;
    tiles->thirds[thirds - 1](&t);
  }
  return rows;
}

/* Fewer rows than the least tile has: several panels at a time, with left rows as they lie. */
static void run_thin(const product *p, braid_dtype dtype, const braid_gemm_tiles *tiles, span rows, span panels) {
  size_t size = braid_dtype_size(dtype);
  int64_t width = BRAID_GEMM_PANEL_BYTES / (int64_t)size, whole = p->columns / width;
  for (int64_t row = rows.first; row < rows.end; row++)
    for (int64_t panel = panels.first; panel < panels.end;) {
      int64_t count = panel + BRAID_GEMM_THIN_PANELS <= panels.end && panel + BRAID_GEMM_THIN_PANELS <= whole
                          ? BRAID_GEMM_THIN_PANELS
                          : 1;
      braid_gemm_tile t = {.left = (const char *)p->left.data + (size_t)(row * p->left.row_step) * size,
                           .right = (const char *)p->packed + panel * p->inner * BRAID_GEMM_PANEL_BYTES,
                           .result = (char *)p->result + (size_t)(row * p->step + panel * width) * size,
                           .count = p->inner,
                           .step = p->inner,
                           .rows = 1,
                           .columns = panel < whole ? width : p->columns - panel * width,
                           .accumulate = p->accumulate};
      tiles->thin[count > 1](&t);
      panel += count;
    }
}

static void run_block(const product *p, braid_dtype dtype, const braid_gemm_tiles *tiles, span rows, span panels) {
  if (rows.end - rows.first <= kThinRows && p->left.column_step == 1) {
    run_thin(p, dtype, tiles, rows, panels);
    return;
  }
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
  const braid_gemm_tiles *tiles = tiles_for(dtype);
  int64_t row_blocks = (rows + kBlockRows - 1) / kBlockRows, length = kBlockPanels;
  int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  while (length > 4 && row_blocks * ((panels + length - 1) / length) < threads) length /= 2;
  int64_t panel_blocks = (panels + length - 1) / length;
#pragma omp parallel for collapse(2) schedule(static) if ((double)rows * (double)(inner * columns) > kWorthThreads)
  for (int64_t r = 0; r < row_blocks; r++)
    for (int64_t c = 0; c < panel_blocks; c++)
      run_block(&p, dtype, tiles, block_of(r, kBlockRows, rows), block_of(c, length, panels));
}
