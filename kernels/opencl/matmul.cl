/* Products of matrices: out = ACTIVATE(alpha * left right + beta * added), for each of a batch.
 *
 * An element (row, k) of the left matrix stands at row * left_row + k * left_k, of the right one at k * right_k + column
 * * right_column, of what is added at row * added_row + column * added_column; the result's rows are `columns` apart.
 * Batches are counted over two dimensions, each matrix with a step for each. */
#include "common.clh"
#include "activation.clh"

#define OPERANDS                                                                                                       \
  IN(float) left, IN(float) right, IN(float) added, OUT(float) out, index_t rows, index_t columns, index_t inner,      \
      index_t left_row, index_t left_k, index_t right_k, index_t right_column, index_t added_row,                      \
      index_t added_column, index_t batch_inner, index_t left_batch0, index_t left_batch1, index_t right_batch0,       \
      index_t right_batch1, index_t left_at, index_t right_at, index_t added_at, index_t out_at, index_t out_row, index_t out_batch,     \
      float alpha, float beta, float p, float q

#define BATCH get_group_id(2)
#define LEFT_BATCH (left + left_at + BATCH / batch_inner * left_batch0 + BATCH % batch_inner * left_batch1)
#define RIGHT_BATCH (right + right_at + BATCH / batch_inner * right_batch0 + BATCH % batch_inner * right_batch1)
#define OUT_BATCH (out + out_at + BATCH * out_batch)

#if defined(ADDED)
#define ADDEND(row, column) (beta * added[added_at + (row) * added_row + (column) * added_column])
#else
#define ADDEND(row, column) 0
#endif
#ifdef ACCUMULATE
#define BEFORE(place) (place)
#else
#define BEFORE(place) 0
#endif

float finish(float x, float p, float q) {
  return ACTIVATE(x);
}

/* --- by tiles in local memory -------------------------------------------------------------------------------------- */
#ifdef TILE_M
#include "tile.clh"

#define LOAD_LEFT(row, k) ((row) < rows ? of_left[(row) * left_row + (k) * left_k] : 0)
#define LOAD_RIGHT(k, column) ((column) < columns ? of_right[(k) * right_k + (column) * right_column] : 0)
#define STORE(row, column, x)                                                                                          \
  of_out[(row) * out_row + (column)] =                                                                                 \
      finish(alpha * (x) + ADDEND(row, column) + BEFORE(of_out[(row) * out_row + (column)]), p, q)

SIMD_KERNEL tiles(OPERANDS) {
  TILE_MEMORY
  IN(float) of_left = LEFT_BATCH;
  IN(float) of_right = RIGHT_BATCH;
  OUT(float) of_out = OUT_BATCH;
  const uint l = get_local_id(0);
  const index_t first_column = get_group_id(0) * (index_t)TILE_N, first_row = get_group_id(1) * (index_t)TILE_M;
  TILE_PRODUCT(0, inner, rows, columns)
}
#endif

/* --- in registers, from packed panels ------------------------------------------------------------------------------ */
#ifdef PANEL_M
#include "panel.clh"

/* Left panels are PANEL_M wide, right ones PANEL_N; a work-item takes one of the right and `chunk` of the left. */
KERNEL panels(IN(float) left, IN(float) right, IN(float) added, OUT(float) out, index_t rows, index_t columns,
              index_t inner, index_t added_row, index_t added_column, index_t chunk, index_t left_batch,
              index_t right_batch, index_t added_at, index_t out_at, index_t out_row, index_t out_batch, float alpha, float beta,
              float p, float q) {
  const index_t panel = get_global_id(1), first_column = panel * PANEL_N, begin = get_global_id(0) * chunk;
  const index_t left_panels = (rows + PANEL_M - 1) / PANEL_M;
  OUT(float) of_out = OUT_BATCH;
  for (index_t m = begin; m < min(begin + chunk, left_panels); m++) {
    IN(float) a = left + BATCH * left_batch + m * inner * PANEL_M;
    IN(float) b = right + BATCH * right_batch + panel * inner * PANEL_N;
    PANEL_SUMS
    for (index_t k = 0; k < inner; k++, a += PANEL_M, b += PANEL_N) PANEL_STEP(a, b)
    PANEL_RESULTS
    const int height = (int)min((index_t)PANEL_M, rows - m * PANEL_M);
    const int width = (int)min((index_t)PANEL_N, columns - first_column);
    for (int i = 0; i < height; i++) {
      const index_t row = m * PANEL_M + i;
      OUT(float) to = of_out + row * out_row + first_column;
      for (int j = 0; j < width; j++)
        to[j] = finish(alpha * results[i][j] + ADDEND(row, first_column + j) + BEFORE(to[j]), p, q);
    }
  }
}
#endif

/* --- few rows, in registers: lines of the right matrix are read as they lie --------------------------------------------- */
#ifdef ROWS
KERNEL rows_as_they_lie(OPERANDS) {
  const index_t first_column = get_global_id(0) * (index_t)PANEL_N, first = get_global_id(1) * (index_t)PANEL_M;
  const int height = (int)min((index_t)PANEL_M, rows - first);
  const int width = (int)min((index_t)PANEL_N, columns - first_column);
  IN(float) b = RIGHT_BATCH + first_column;
  IN(float) lines[PANEL_M];
  for (int i = 0; i < PANEL_M; i++) lines[i] = LEFT_BATCH + min(first + i, rows - 1) * left_row;
  PANEL_SUMS
  for (index_t k = 0; k < inner; k++, b += right_k) {
    float a[PANEL_M];
    for (int i = 0; i < PANEL_M; i++) a[i] = lines[i][k * left_k];
    if (width == PANEL_N) {
      PANEL_STEP(a, b)
    } else {
      float rest[PANEL_N];
      LOAD_REST(rest, b, width)
      PANEL_STEP(a, rest)
    }
  }
  PANEL_RESULTS
  OUT(float) of_out = OUT_BATCH;
  for (int i = 0; i < height; i++)
    for (int j = 0; j < width; j++) {
      const index_t row = first + i, column = first_column + j;
      OUT(float) to = of_out + row * out_row + column;
      *to = finish(alpha * results[i][j] + ADDEND(row, column) + BEFORE(*to), p, q);
    }
}
#endif

/* --- few rows: the right matrix passes by once --------------------------------------------------------------------- */
#ifdef THIN
#define LANES 16
/* Right lines are contiguous along k: THIN rows of dot products with one column. */
KERNEL thin_along_k(OPERANDS) {
  const index_t column = get_global_id(0), first = get_global_id(1) * (index_t)THIN;
  if (column >= columns) return;
  IN(float) b = RIGHT_BATCH + column * right_column;
  float lanes[THIN][LANES];
  for (int i = 0; i < THIN; i++)
    for (int j = 0; j < LANES; j++) lanes[i][j] = 0;
  IN(float) a[THIN];
  for (int i = 0; i < THIN; i++) a[i] = LEFT_BATCH + min(first + i, rows - 1) * left_row;
  index_t k = 0;
  for (; k + LANES <= inner; k += LANES)
    for (int i = 0; i < THIN; i++)
      for (int j = 0; j < LANES; j++) lanes[i][j] = fma(a[i][k + j], b[k + j], lanes[i][j]);
  for (; k < inner; k++)
    for (int i = 0; i < THIN; i++) lanes[i][k % LANES] = fma(a[i][k], b[k], lanes[i][k % LANES]);
  OUT(float) of_out = OUT_BATCH;
  for (int i = 0; i < THIN && first + i < rows; i++) {
    float sum = 0;
    for (int j = 0; j < LANES; j++) sum += lanes[i][j];
    OUT(float) to = of_out + (first + i) * out_row + column;
    *to = finish(alpha * sum + ADDEND(first + i, column) + BEFORE(*to), p, q);
  }
}

/* Neighbouring columns lie side by side: a work-item, one of neighbours, makes THIN results of its column. */
KERNEL thin_along_columns(OPERANDS) {
  const index_t column = get_global_id(0), first = get_global_id(1) * (index_t)THIN;
  if (column >= columns) return;
  IN(float) b = RIGHT_BATCH + column * right_column;
  IN(float) a[THIN];
  float sums[THIN];
  for (int i = 0; i < THIN; i++) {
    a[i] = LEFT_BATCH + min(first + i, rows - 1) * left_row;
    sums[i] = 0;
  }
  for (index_t k = 0; k < inner; k++)
    for (int i = 0; i < THIN; i++) sums[i] = fma(a[i][k * left_k], b[k * right_k], sums[i]);
  OUT(float) of_out = OUT_BATCH;
  for (int i = 0; i < THIN && first + i < rows; i++) {
    OUT(float) to = of_out + (first + i) * out_row + column;
    *to = finish(alpha * sums[i] + ADDEND(first + i, column) + BEFORE(*to), p, q);
  }
}
#endif

/* --- plain ---------------------------------------------------------------------------------------------------------- */
KERNEL plain(OPERANDS) {
  const index_t column = get_global_id(0), row = get_global_id(1);
  if (column >= columns) return;
  IN(float) a = LEFT_BATCH + row * left_row;
  IN(float) b = RIGHT_BATCH + column * right_column;
  float sum = 0;
  for (index_t k = 0; k < inner; k++) sum = fma(a[k * left_k], b[k * right_k], sum);
  OUT(float) to = OUT_BATCH + row * out_row + column;
  *to = finish(alpha * sum + ADDEND(row, column) + BEFORE(*to), p, q);
}

/* Batches over any number of dimensions n, with steps a and b of whole matrices. */
#define EIGHT(s) index_t s##0, index_t s##1, index_t s##2, index_t s##3, index_t s##4, index_t s##5, index_t s##6, index_t s##7
#define STEP(d)                                                                                                        \
  of_left += batch % n##d * a##d * left_size;                                                                          \
  of_right += batch % n##d * b##d * right_size;                                                                        \
  batch /= n##d;
KERNEL any_batches(IN(float) left, IN(float) right, OUT(float) out, index_t count, index_t rows, index_t columns,
                   index_t inner, index_t left_row, index_t left_k, index_t right_k, index_t right_column,
                   index_t left_size, index_t right_size, EIGHT(n), EIGHT(a), EIGHT(b)) {
  const index_t i = get_global_id(0), column = i % columns, row = i / columns % rows;
  index_t batch = i / columns / rows, of_left = row * left_row, of_right = column * right_column;
  if (i >= count) return;
  STEP(7) STEP(6) STEP(5) STEP(4) STEP(3) STEP(2) STEP(1) STEP(0)
  float sum = 0;
  for (index_t k = 0; k < inner; k++)
    sum = fma(left[of_left + k * left_k], right[of_right + k * right_k], sum);
  out[i] = sum;
}
