#include "backend/cpu/products/gemm.h"

#include <omp.h>
#include <string.h>

#include "backend/cpu/products/gemm_isa.h"
#include "base/checked.h"

/* A chunk of a tile's left rows is packed on the stack and used for a block of panels, whose chunks stay in the
 * second-level cache for a block of rows. */
enum { kChunk = 256, kBlockRows = 96, kBlockPanels = 24 };
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

/* A chunk of a tile's left rows that lie apart, or of columns: [count][rows]. */
#define DEFINE_PACK_LEFT(type)                                                                                         \
  static void pack_left_##type(braid_matrix left, int64_t row, int64_t rows, int64_t from, int64_t count, type *out) { \
    const type *data = (const type *)left.data + row * left.row_step + from * left.column_step;                        \
    for (int64_t k = 0; left.row_step == 1 && k < count; k++, data += left.column_step, out += rows)                   \
      for (int64_t r = 0; r < rows; r++) out[r] = data[r];                                                             \
    for (int64_t r = 0; left.row_step != 1 && r < rows; r++)                                                           \
      for (int64_t k = 0; k < count; k++) out[k * rows + r] = data[r * left.row_step + k * left.column_step];          \
  }

DEFINE_PACK_LEFT(uint32_t)
DEFINE_PACK_LEFT(uint64_t)

/* --- products ------------------------------------------------------------------------------------------------------
 */
typedef struct span {
  int64_t first, end;
} span;

/* One of `count` blocks as equal as may be. */
static span block_of(int64_t index, int64_t count, int64_t total) {
  return (span){index * total / count, (index + 1) * total / count};
}

/* Rows that are contiguous, of which a cache line each stays in the first-level cache: of rows a multiple of 4 KiB
 * apart, eight share one set of it with what the right side streams through. */
static bool lies_well(const product *p, size_t size, int64_t rows) {
  return p->left.column_step == 1 && (rows <= 4 || (size_t)p->left.row_step * size % 4096 != 0);
}

/* A panel of which the result has only some bytes. */
static void run_ragged(const braid_gemm_shape *shape, const braid_gemm_tile *tile, size_t bytes) {
  uint64_t whole[BRAID_GEMM_ROWS][BRAID_GEMM_PANEL_BYTES / 8] = {{0}};
  braid_gemm_tile t = *tile;
  t.result = whole;
  t.step = BRAID_GEMM_PANEL_BYTES;
  for (int64_t r = 0; t.accumulate && r < shape->rows; r++)
    memcpy(whole[r], (const char *)tile->result + r * tile->step, bytes);
  shape->narrow(&t);
  for (int64_t r = 0; r < shape->rows; r++) memcpy((char *)tile->result + r * tile->step, whole[r], bytes);
}

/* The rows from `row` on that one tile takes, over a block of panels and a chunk of the inner dimension. */
static int64_t run_rows(const product *p, braid_dtype dtype, const braid_gemm_shape *shape, int64_t row, int64_t end,
                        span panels, span chunk) {
  uint64_t packed[BRAID_GEMM_ROWS * kChunk];
  size_t size = braid_dtype_size(dtype);
  int64_t width = BRAID_GEMM_PANEL_BYTES / (int64_t)size;
  while (shape->rows > end - row) shape++;
  braid_gemm_tile t = {.left = packed,
                       .row_step = 1,
                       .column_step = shape->rows,
                       .panel_step = p->inner,
                       .count = chunk.end - chunk.first,
                       .step = p->step * (int64_t)size,
                       .accumulate = p->accumulate || chunk.first > 0};
  if (lies_well(p, size, shape->rows)) {
    t.left = (const char *)p->left.data + (size_t)(row * p->left.row_step + chunk.first) * size;
    t.row_step = p->left.row_step;
    t.column_step = 1;
  } else if (size == 4) {
    pack_left_uint32_t(p->left, row, shape->rows, chunk.first, t.count, (uint32_t *)packed);
  } else {
    pack_left_uint64_t(p->left, row, shape->rows, chunk.first, t.count, packed);
  }
  for (int64_t panel = panels.first, step; panel < panels.end; panel += step) {
    bool wide = panel + shape->panels <= panels.end && (panel + shape->panels) * width <= p->columns;
    step = wide ? shape->panels : 1;
    t.right = (const char *)p->packed + (panel * p->inner + chunk.first) * BRAID_GEMM_PANEL_BYTES;
    t.result = (char *)p->result + (size_t)(row * p->step + panel * width) * size;
    if (!wide && (panel + 1) * width > p->columns)
      run_ragged(shape, &t, (size_t)(p->columns - panel * width) * size);
    else
      (wide ? shape->wide : shape->narrow)(&t);
  }
  return shape->rows;
}

static void run_block(const product *p, braid_dtype dtype, const braid_gemm_tiles *tiles, span rows, span panels) {
  for (int64_t first = 0; first < p->inner; first += kChunk) {
    span chunk = {first, first + kChunk < p->inner ? first + kChunk : p->inner};
    for (int64_t row = rows.first; row < rows.end;)
      row += run_rows(p, dtype, tiles->shapes, row, rows.end, panels, chunk);
  }
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
  for (int64_t c = 0; c < panel_blocks; c++)
    for (int64_t r = 0; r < row_blocks; r++)
      run_block(&p, dtype, tiles, block_of(r, row_blocks, rows), block_of(c, panel_blocks, panels));
}
