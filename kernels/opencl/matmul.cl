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
#define LEFT_OF(n) (left + left_at + (n) / batch_inner * left_batch0 + (n) % batch_inner * left_batch1)
#define RIGHT_OF(n) (right + right_at + (n) / batch_inner * right_batch0 + (n) % batch_inner * right_batch1)
#define LEFT_BATCH LEFT_OF(BATCH)
#define RIGHT_BATCH RIGHT_OF(BATCH)
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
#define LOAD_LEFT(row, k) ((row) < rows ? of_left[(row) * left_row + (k) * left_k] : 0)
#define LOAD_RIGHT(k, column) ((column) < columns ? of_right[(k) * right_k + (column) * right_column] : 0)
#define LOAD_LEFT_FOUR(row, k)                                                                                         \
  ((row) < rows ? LOAD_FOUR(of_left + (row) * left_row + (k) * left_k) : (float4)(0.0f))
#define LOAD_RIGHT_FOUR(k, column)                                                                                     \
  ((column) < columns ? LOAD_FOUR(of_right + (k) * right_k + (column) * right_column) : (float4)(0.0f))

/* The inner dimension in slices of `slice`, `slices` for each of the batch: what each sums up goes into a matrix of its
 * own. */
#ifdef SLICED
#define STORE(row, column, x) of_out[(row) * columns + (column)] = x
#define OF_OUT (out + get_group_id(2) * rows * columns)
#else
#define RESULT(row, column, x, before) finish(alpha * (x) + ADDEND(row, column) + BEFORE(before), p, q)
#define STORE(row, column, x)                                                                                          \
  of_out[(row) * out_row + (column)] = RESULT(row, column, x, of_out[(row) * out_row + (column)])
#define OF_OUT (out + out_at + batch * out_batch)
#endif
#ifdef OUT_FOUR
#ifdef SLICED
#define STORE_FOUR(row, column, x) KEEP_FOUR(x, of_out + (row) * columns + (column))
#else
#define STORE_FOUR(row, column, x)                                                                                     \
  {                                                                                                                    \
    OUT(float) to_ = of_out + (row) * out_row + (column);                                                              \
    const float4 before_ = BEFORE(LOAD_FOUR(to_));                                                                     \
    KEEP_FOUR(MAKE(float4)(RESULT(row, column, (x).s0, before_.s0), RESULT(row, (column) + 1, (x).s1, before_.s1),         \
                       RESULT(row, (column) + 2, (x).s2, before_.s2), RESULT(row, (column) + 3, (x).s3, before_.s3)),  \
              to_);                                                                                                    \
  }
#endif
#endif
#include "tile.clh"

SIMD_KERNEL tiles(OPERANDS, index_t slices, index_t slice) {
  TILE_MEMORY
  const index_t batch = get_group_id(2) / slices, begin = get_group_id(2) % slices * slice;
  IN(float) of_left = LEFT_OF(batch);
  IN(float) of_right = RIGHT_OF(batch);
  OUT(float) of_out = OF_OUT;
  const uint l = get_local_id(0);
  const index_t first_column = get_group_id(0) * (index_t)TILE_N, first_row = get_group_id(1) * (index_t)TILE_M;
  TILE_PRODUCT(begin, min(begin + slice, inner), rows, columns)
}
#endif

/* Slices of [batch, slice, row, column] in their order. */
KERNEL join_slices(IN(float) parts, IN(float) added, OUT(float) out, index_t rows, index_t columns, index_t slices,
                   index_t added_row, index_t added_column, index_t added_at, index_t out_at, index_t out_row,
                   index_t out_batch, float alpha, float beta, float p, float q) {
  const index_t i = get_global_id(0), row = i / columns, column = i % columns, size = rows * columns;
  if (i >= size) return;
  float sum = 0;
  for (index_t s = 0; s < slices; s++) sum += parts[(BATCH * slices + s) * size + i];
  OUT(float) to = OUT_BATCH + row * out_row + column;
  *to = finish(alpha * sum + ADDEND(row, column) + BEFORE(*to), p, q);
}

/* --- a matrix times few vectors: each of its elements is read once ------------------------------------------------------ */
#ifdef VECTORS
/* The matrix has `lines` lines along the inner dimension, a result for each line and vector; batches as elsewhere.
 * LANES of a group's work-items lie side by side where the matrix does; WIDTH elements of it are loaded at once. APART:
 * elements of a vector do not lie so. */
#define VECTOR_OPERANDS                                                                                                \
  IN(float) matrix, IN(float) vectors, IN(float) added, OUT(float) out, index_t lines, index_t inner,                  \
      index_t matrix_line, index_t matrix_k, index_t vector_line, index_t vector_k, index_t out_line,                  \
      index_t out_vector, index_t added_line, index_t added_vector, index_t batch_inner, index_t matrix_batch0,        \
      index_t matrix_batch1, index_t vector_batch0, index_t vector_batch1, index_t matrix_at, index_t vectors_at,      \
      index_t added_at, index_t out_at, index_t out_batch, float alpha, float beta, float p, float q
#define OF_MATRIX (matrix + matrix_at + BATCH / batch_inner * matrix_batch0 + BATCH % batch_inner * matrix_batch1)
#define OF_VECTORS (vectors + vectors_at + BATCH / batch_inner * vector_batch0 + BATCH % batch_inner * vector_batch1)
#define EACH_VECTOR _Pragma("unroll") for (int v = 0; v < VECTORS; v++)
#define AHEAD 4 /* loads that a work-item waits for together */
#define EACH_AHEAD _Pragma("unroll") for (int j = 0; j < AHEAD; j++)
#define STRIPS (GROUP / LANES)
#if WIDTH == 4
typedef float4 wide;
#define LOAD_WIDE LOAD_FOUR
#define OF_APART(from, k)                                                                                              \
  (MAKE(float4)((from)[(k)*vector_k], (from)[((k) + 1) * vector_k], (from)[((k) + 2) * vector_k],                          \
            (from)[((k) + 3) * vector_k]))
#define ADD_UP(x) (((x).s0 + (x).s1) + ((x).s2 + (x).s3))
#else
typedef float wide;
#define LOAD_WIDE(from) (*(from))
#define OF_APART(from, k) ((from)[(k)*vector_k])
#define ADD_UP(x) (x)
#endif
#ifdef APART
#define OF_VECTOR OF_APART
#else
#define OF_VECTOR(from, k) LOAD_WIDE((from) + (k))
#endif

#define VECTOR_RESULT(v, line, sum)                                                                                    \
  {                                                                                                                    \
    OUT(float) to_ = OUT_BATCH + (line) * out_line + (v)*out_vector;                                                   \
    *to_ = finish(alpha * (sum) + VECTOR_ADDEND(v, line) + BEFORE(*to_), p, q);                                        \
  }
#ifdef ADDED
#define VECTOR_ADDEND(v, line) (beta * added[added_at + (line) * added_line + (v)*added_vector])
#else
#define VECTOR_ADDEND(v, line) 0
#endif

/* Lines lie along k: LANES work-items for each. */
KERNEL vectors_along_k(VECTOR_OPERANDS) {
  SHARED float sums[VECTORS][GROUP];
  const uint l = get_local_id(0), lane = l % LANES;
  const index_t line = get_group_id(0) * (index_t)STRIPS + l / LANES;
  IN(float) of_matrix = OF_MATRIX + min(line, lines - 1) * matrix_line;
  IN(float) of_vectors = OF_VECTORS;
  wide sum[VECTORS];
  EACH_VECTOR sum[v] = 0;
  for (index_t first = lane * WIDTH; first < inner; first += AHEAD * LANES * WIDTH)
    EACH_AHEAD {
      const index_t k = first + j * LANES * WIDTH;
      if (k < inner) {
        const wide x = LOAD_WIDE(of_matrix + k);
        EACH_VECTOR sum[v] = fma(x, OF_VECTOR(of_vectors + v * vector_line, k), sum[v]);
      }
    }
  EACH_VECTOR sums[v][l] = ADD_UP(sum[v]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_ = LANES / 2; half_ > 0; half_ /= 2) {
    if (lane < half_) EACH_VECTOR sums[v][l] += sums[v][l + half_];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && line < lines) EACH_VECTOR VECTOR_RESULT(v, line, sums[v][l])
}

/* Lines lie side by side: a work-item takes WIDTH of them and every STRIPS-th place of k. */
KERNEL vectors_side_by_side(VECTOR_OPERANDS) {
  SHARED wide sums[VECTORS][GROUP];
  const uint l = get_local_id(0), strip = l / LANES;
  const index_t line = (get_group_id(0) * (index_t)LANES + l % LANES) * WIDTH;
  IN(float) of_matrix = OF_MATRIX + min(line, lines - WIDTH);
  IN(float) of_vectors = OF_VECTORS;
  wide sum[VECTORS];
  EACH_VECTOR sum[v] = 0;
  for (index_t first = strip; first < inner; first += AHEAD * STRIPS)
    EACH_AHEAD {
      const index_t k = first + j * STRIPS;
      if (k < inner) {
        const wide x = LOAD_WIDE(of_matrix + k * matrix_k);
        EACH_VECTOR sum[v] = fma(x, (wide)(of_vectors[v * vector_line + k * vector_k]), sum[v]);
      }
    }
  EACH_VECTOR sums[v][l] = sum[v];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_ = STRIPS / 2; half_ > 0; half_ /= 2) {
    if (strip < half_) EACH_VECTOR sums[v][l] += sums[v][l + half_ * LANES];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (strip > 0 || line >= lines) return;
  EACH_VECTOR {
#if WIDTH == 4
    VECTOR_RESULT(v, line, sums[v][l].s0)
    VECTOR_RESULT(v, line + 1, sums[v][l].s1)
    VECTOR_RESULT(v, line + 2, sums[v][l].s2)
    VECTOR_RESULT(v, line + 3, sums[v][l].s3)
#else
    VECTOR_RESULT(v, line, sums[v][l])
#endif
  }
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
                   index_t left_size, index_t right_size, EIGHT(n), EIGHT(a), EIGHT(b), float alpha) {
  const index_t i = get_global_id(0), column = i % columns, row = i / columns % rows;
  index_t batch = i / columns / rows, of_left = row * left_row, of_right = column * right_column;
  if (i >= count) return;
  STEP(7) STEP(6) STEP(5) STEP(4) STEP(3) STEP(2) STEP(1) STEP(0)
  float sum = 0;
  for (index_t k = 0; k < inner; k++)
    sum = fma(left[of_left + k * left_k], right[of_right + k * right_k], sum);
  out[i] = alpha * sum;
}
