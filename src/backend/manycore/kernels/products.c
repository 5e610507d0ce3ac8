/* MatMul and Gemm: a grid of tiles of the result over the mesh of cores. The cores of a row need the same rows of the
 * left matrix, and those of a column the same columns of the right one: each fetches a part, and passes it on. */
#include <string.h>

#include "backend/manycore/kernel.h"
#include "backend/manycore/sw26010.h"
#include "backend/manycore/tile.h"

typedef struct product_plan {
  int rank;                                                                     /* leading dimensions */
  int64_t lead[BRAID_MAX_RANK], step_a[BRAID_MAX_RANK], step_b[BRAID_MAX_RANK]; /* in matrices; 0: broadcast */
  int64_t batches, rows, inner, columns;
  bool transposed_a, transposed_b, gemm;
  float alpha, beta;
  int64_t c_row, c_column; /* steps of C; has_c */
  bool has_c;
  int result; /* operand number */
  /* tiles */
  braid_manycore_grid grid;
  int64_t tile_rows, tile_columns, tile_inner;
  bool two_buffers;
} product_plan;

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static void matrix_steps(const braid_desc *desc, int lead, const int64_t *dims, int64_t *steps) {
  int own = desc->rank > 2 ? desc->rank - 2 : 0;
  int64_t stride = 1;
  for (int i = lead; i-- > 0;) {
    int at = i - (lead - own);
    steps[i] = at < 0 || (desc->dims[at] == 1 && dims[i] != 1) ? 0 : stride;
    if (at >= 0) stride *= desc->dims[at];
  }
}

/* One right matrix under many left ones is one product of more rows. */
static void join_batches(product_plan *p) {
  int64_t dense = 1;
  bool joins = !p->transposed_a;
  for (int i = p->rank; i-- > 0; dense *= p->lead[i])
    joins &= p->lead[i] == 1 || (p->step_b[i] == 0 && p->step_a[i] == dense);
  if (!joins) return;
  p->rows *= p->batches;
  p->batches = 1;
  p->rank = 0;
}

static void read_shapes(const braid_node_desc *node, product_plan *p) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc, *y = &node->outputs[0].desc;
  p->gemm = strcmp(node->op, "Gemm") == 0;
  p->transposed_a = a->rank > 1 && braid_attr_int(node->attrs, "transA", 0) != 0;
  p->transposed_b = b->rank > 1 && braid_attr_int(node->attrs, "transB", 0) != 0;
  p->rows = a->rank == 1 ? 1 : a->dims[a->rank - (p->transposed_a ? 1 : 2)];
  p->inner = a->rank == 1 ? a->dims[0] : a->dims[a->rank - (p->transposed_a ? 2 : 1)];
  p->columns = b->rank == 1 ? 1 : b->dims[b->rank - (p->transposed_b ? 2 : 1)];
  p->rank = y->rank - (a->rank > 1) - (b->rank > 1);
  p->batches = 1;
  for (int i = 0; i < p->rank; i++) p->batches *= p->lead[i] = y->dims[i];
  matrix_steps(a, p->rank, p->lead, p->step_a);
  matrix_steps(b, p->rank, p->lead, p->step_b);
  join_batches(p);
  p->alpha = (float)braid_attr_float(node->attrs, "alpha", 1);
  p->beta = (float)braid_attr_float(node->attrs, "beta", 1);
  p->result = (int)node->input_count;
  p->has_c = p->gemm && node->input_count > 2 && node->inputs[2].present;
  if (!p->has_c) return;
  const braid_desc *c = &node->inputs[2].desc;
  int64_t columns = c->rank ? c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? c->dims[0] : 1;
  p->c_row = rows > 1 ? columns : 0;
  p->c_column = columns > 1 ? 1 : 0;
}

/* --- tiles ---------------------------------------------------------------------------------------------------------
 */
static int64_t line_of(int64_t columns) {
  return braid_manycore_quotient(columns, BRAID_MANYCORE_LINE) * BRAID_MANYCORE_LINE;
}

/* Elements of the scratchpad that a tile takes. */
static int64_t tile_elements(const product_plan *p, int64_t rows, int64_t columns, int64_t inner, int buffers) {
  int64_t line = line_of(columns);
  int64_t left = braid_manycore_room(rows * inner), right = braid_manycore_room(inner * line);
  int64_t turned = p->transposed_b ? braid_manycore_room(columns * inner) : 0;
  int64_t result = braid_manycore_room(rows * line), added = p->has_c ? result : 0;
  return buffers * (left + (p->transposed_b ? turned : right) + result + added) + (p->transposed_b ? right : 0);
}

/* The largest inner size that fits, in whole vectors of a transfer if it can be; 0: none. */
static int64_t fitting_inner(const product_plan *p, int64_t rows, int64_t columns, int buffers, int64_t elements) {
  if (tile_elements(p, rows, columns, 1, buffers) > elements) return 0;
  int64_t low = 1, high = p->inner > 1 ? p->inner : 1;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (tile_elements(p, rows, columns, middle, buffers) <= elements)
      low = middle;
    else
      high = middle - 1;
  }
  int64_t steps = braid_manycore_quotient(p->inner, low);
  int64_t even = braid_manycore_quotient(p->inner, steps > 0 ? steps : 1);
  even = even > 16 && braid_manycore_room(even) <= low ? braid_manycore_room(even) : even;
  return even > 0 ? even : 1;
}

/* Of a part of a block that so many cores share. */
static double part_cycles(int64_t rows, int64_t row_elements, int parts, int cores) {
  return braid_sw26010_get_cycles((double)rows * (double)row_elements * 4, row_elements * 4, parts, cores);
}

/* What the slowest core takes, roughly: the choice is made by it, costs are counted with the program (cost.h). */
static double estimate_tile(const product_plan *p, braid_manycore_grid grid, int64_t rows, int64_t columns,
                            int64_t inner, int buffers) {
  int64_t tiles_down = braid_manycore_quotient(p->rows, rows),
          tiles_across = braid_manycore_quotient(p->columns, columns);
  int64_t across = tiles_across * p->batches;
  int64_t each = braid_manycore_quotient(tiles_down, grid.rows) * braid_manycore_quotient(across, grid.columns);
  int left_sharers = p->batches == 1 ? (int)braid_manycore_min(across, grid.columns) : 1;
  int right_sharers = (int)braid_manycore_min(tiles_down, grid.rows), cores = grid.rows * grid.columns;
  double left =
      p->transposed_a ? part_cycles(inner, rows, left_sharers, cores) : part_cycles(rows, inner, left_sharers, cores);
  double right = p->transposed_b ? part_cycles(columns, inner, right_sharers, cores)
                                 : part_cycles(inner, columns, right_sharers, cores);
  double compute = braid_sw26010_product_cycles(rows, columns, inner);
  if (left_sharers > 1) compute += braid_sw26010_share_cycles((double)(rows * inner) * 4);
  if (right_sharers > 1) compute += braid_sw26010_share_cycles((double)(columns * inner) * 4);
  double gets = left + right, put = braid_sw26010_put_cycles((double)(rows * columns) * 4, columns * 4, cores);
  double steps = (double)braid_manycore_quotient(p->inner ? p->inner : 1, inner);
  if (buffers == 1) return (double)each * (steps * (gets + compute) + put);
  double slot = gets + put / steps > compute ? gets + put / steps : compute;
  return (double)each * steps * slot + gets + put;
}

static void try_tiles(product_plan *p, braid_manycore_grid grid, int64_t elements, double *best) {
  static const int64_t kSizes[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024};
  enum { kCount = sizeof kSizes / sizeof *kSizes };
  for (int i = 0; i < kCount; i++)
    for (int k = 2; k < kCount; k++)
      for (int buffers = 2; buffers >= 1; buffers--) {
        int64_t rows = braid_manycore_min(kSizes[i], p->rows), columns = braid_manycore_min(kSizes[k], p->columns);
        if ((i && kSizes[i - 1] >= p->rows) || (k > 2 && kSizes[k - 1] >= p->columns)) continue;
        int64_t inner = fitting_inner(p, rows, columns, buffers, elements);
        if (!inner) continue;
        double cycles = estimate_tile(p, grid, rows, columns, inner, buffers);
        if (*best >= 0 && cycles >= *best) continue;
        *best = cycles;
        p->grid = grid;
        p->tile_rows = rows, p->tile_columns = columns, p->tile_inner = inner;
        p->two_buffers = buffers == 2;
      }
}

static bool product_plan_init(const braid_node_desc *node, const braid_manycore_group *group, void *out, char *why,
                              size_t why_bytes) {
  product_plan *p = out;
  if (!braid_manycore_all_float(node, why, why_bytes)) return false;
  *p = (product_plan){.rank = 0};
  read_shapes(node, p);
  if (p->rows * p->columns * p->batches == 0) return true;
  braid_manycore_grid grids[BRAID_MANYCORE_GRIDS];
  braid_manycore_grids(group, grids);
  double best = -1;
  for (int g = 0; g < BRAID_MANYCORE_GRIDS; g++)
    try_tiles(p, grids[g], (int64_t)(group->scratchpad / sizeof(float)), &best);
  if (best >= 0) return true;
  return braid_manycore_refuse(why, why_bytes, "the smallest tile takes %lld bytes, a scratchpad has %zu",
                               (long long)tile_elements(p, 1, 4, 1, 1) * 4, group->scratchpad);
}

/* --- the program ---------------------------------------------------------------------------------------------------
 */
typedef struct product_buffers {
  float *left[2], *right[2], *turned, *result[2], *added[2];
} product_buffers;

typedef struct product_tile {
  int64_t batch, row, column, rows, columns, line; /* of the result */
  int64_t at_a, at_b;                              /* elements before its matrices */
  int left_sharers, right_sharers;
  int buffer; /* of the result and C */
} product_tile;

static bool take_buffers(braid_manycore_core *core, const product_plan *p, product_buffers *out) {
  int64_t line = line_of(p->tile_columns);
  *out = (product_buffers){.turned = NULL};
  for (int b = 0; b <= p->two_buffers; b++) {
    out->left[b] = braid_manycore_take(core, p->tile_rows * p->tile_inner);
    out->right[b] = braid_manycore_take(core, p->tile_inner * (p->transposed_b ? p->tile_columns : line));
    out->result[b] = braid_manycore_take(core, p->tile_rows * line);
    if (p->has_c) out->added[b] = braid_manycore_take(core, p->tile_rows * line);
  }
  if (p->transposed_b) out->turned = braid_manycore_take(core, p->tile_inner * line);
  return core->status == BRAID_OK;
}

static void find_matrices(const product_plan *p, product_tile *t) {
  int64_t rest = t->batch, a = 0, b = 0;
  for (int i = p->rank; i-- > 0;) {
    a += rest % p->lead[i] * p->step_a[i];
    b += rest % p->lead[i] * p->step_b[i];
    rest /= p->lead[i];
  }
  t->at_a = a * p->rows * p->inner;
  t->at_b = b * p->inner * p->columns;
}

/* [columns][inner] to [inner][line] */
static void turn_right(const float *from, float *to, int64_t columns, int64_t inner, int64_t line) {
  for (int64_t k = 0; k < inner; k++)
    for (int64_t j = 0; j < columns; j++) to[k * line + j] = from[j * inner + k];
}

static void get_left(braid_manycore_core *core, const product_plan *p, const product_tile *t, int64_t k, int64_t inner,
                     float *to) {
  braid_manycore_block block = {0, t->at_a + t->row * p->inner + k, t->rows, inner, p->inner, inner, t->left_sharers};
  if (p->transposed_a)
    block =
        (braid_manycore_block){0, t->at_a + k * p->rows + t->row, inner, t->rows, p->rows, t->rows, t->left_sharers};
  braid_manycore_get(core, to, &block);
}

static void get_right(braid_manycore_core *core, const product_plan *p, const product_tile *t, int64_t k, int64_t inner,
                      float *to) {
  braid_manycore_block block = {
      1, t->at_b + k * p->columns + t->column, inner, t->columns, p->columns, t->line, t->right_sharers};
  if (p->transposed_b)
    block = (braid_manycore_block){
        1, t->at_b + t->column * p->inner + k, t->columns, inner, p->inner, inner, t->right_sharers};
  braid_manycore_get(core, to, &block);
}

static void multiply_chunk(braid_manycore_core *core, const product_plan *p, const product_tile *t, int64_t inner,
                           const product_buffers *buffers, int b) {
  const float *right = buffers->right[b];
  if (p->transposed_b) {
    double cycles = braid_sw26010_pass_cycles(braid_sw26010_vectors(t->columns * inner), 2, 4);
    if (braid_manycore_compute(core, cycles, 0)) turn_right(right, buffers->turned, t->columns, inner, t->line);
    right = buffers->turned;
  }
  braid_manycore_tile tile = {.a = buffers->left[b],
                              .b = right,
                              .c = buffers->result[t->buffer],
                              .row_step = p->transposed_a ? 1 : inner,
                              .column_step = p->transposed_a ? t->rows : 1,
                              .b_pitch = t->line,
                              .c_pitch = t->line,
                              .rows = t->rows,
                              .columns = t->columns,
                              .inner = inner};
  double cycles = braid_sw26010_product_cycles(t->rows, t->columns, inner);
  if (braid_manycore_compute(core, cycles, t->rows * t->columns * inner)) braid_manycore_multiply(&tile);
}

/* alpha * result + beta * C */
static void finish_tile(braid_manycore_core *core, const product_plan *p, const product_tile *t,
                        const product_buffers *buffers) {
  float *y = buffers->result[t->buffer], *c = buffers->added[t->buffer];
  if (p->has_c) {
    int64_t rows = p->c_row ? t->rows : 1, run = p->c_column ? t->columns : 1;
    int64_t first = t->row * p->c_row + t->column * p->c_column;
    braid_manycore_get(core, c, &(braid_manycore_block){2, first, rows, run, p->c_row, t->line, 1});
  }
  if (!p->has_c && p->alpha == 1) return;
  double vectors = (double)t->rows * braid_sw26010_vectors(t->columns);
  if (!braid_manycore_compute(core, braid_sw26010_pass_cycles(vectors, p->has_c ? 3 : 2, 2), 0)) return;
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t j = 0; j < t->columns; j++) {
      float *sum = &y[i * t->line + j];
      *sum *= p->alpha;
      if (p->has_c) *sum += p->beta * c[(p->c_row ? i : 0) * t->line + (p->c_column ? j : 0)];
    }
}

static void product_tile_run(braid_manycore_core *core, const product_plan *p, const product_tile *t,
                             const product_buffers *buffers, int64_t *turn) {
  float *result = buffers->result[t->buffer];
  if (braid_manycore_compute(core, 0, 0)) memset(result, 0, (size_t)(t->rows * t->line) * sizeof(float));
  for (int64_t k = 0; k < p->inner; k += p->tile_inner, ++*turn) {
    int64_t inner = braid_manycore_min(p->tile_inner, p->inner - k);
    int b = p->two_buffers ? (int)(*turn & 1) : 0;
    get_left(core, p, t, k, inner, buffers->left[b]);
    get_right(core, p, t, k, inner, buffers->right[b]);
    multiply_chunk(core, p, t, inner, buffers, b);
    if (k + inner < p->inner) braid_manycore_step(core);
  }
  finish_tile(core, p, t, buffers);
  int64_t first = (t->batch * p->rows + t->row) * p->columns + t->column;
  braid_manycore_put(core, result,
                     &(braid_manycore_block){p->result, first, t->rows, t->columns, p->columns, t->line, 1});
  braid_manycore_step(core);
}

static void product_run(braid_manycore_core *core, const void *plan) {
  const product_plan *p = plan;
  product_buffers buffers;
  if (!p->tile_rows) return;
  core->two_buffers = p->two_buffers;
  if (!take_buffers(core, p, &buffers)) return;
  int core_row = core->id / p->grid.columns, core_column = core->id % p->grid.columns;
  int64_t down = braid_manycore_quotient(p->rows, p->tile_rows);
  int64_t each = braid_manycore_quotient(p->columns, p->tile_columns), across = each * p->batches;
  int64_t turn = 0, tiles = 0;
  for (int64_t i = core_row; i < down; i += p->grid.rows)
    for (int64_t j = core_column; j < across; j += p->grid.columns, tiles++) {
      product_tile t = {.buffer = p->two_buffers ? (int)(tiles & 1) : 0,
                        .batch = j / each,
                        .row = i * p->tile_rows,
                        .column = j % each * p->tile_columns};
      t.rows = braid_manycore_min(p->tile_rows, p->rows - t.row);
      t.columns = braid_manycore_min(p->tile_columns, p->columns - t.column);
      t.line = line_of(t.columns);
      /* The cores whose turn this row, or this column, is now. */
      int64_t in_row = across - (j - core_column), in_column = down - (i - core_row);
      t.left_sharers = p->batches == 1 ? (int)braid_manycore_min(in_row, p->grid.columns) : 1;
      t.right_sharers = (int)braid_manycore_min(in_column, p->grid.rows);
      find_matrices(p, &t);
      product_tile_run(core, p, &t, &buffers, &turn);
    }
}

static int64_t product_macs(const void *plan) {
  const product_plan *p = plan;
  return p->batches * p->rows * p->columns * p->inner;
}

_Static_assert(sizeof(product_plan) <= BRAID_MANYCORE_PLAN_BYTES, "a plan holds it");
static const braid_manycore_kernel kProduct = {product_plan_init, product_run, product_macs};
static const braid_kernel kKernels[] = {
    {.op = "MatMul", .name = "core_product", .implementation = &kProduct},
    {.op = "Gemm", .name = "core_product", .implementation = &kProduct},
};
const braid_manycore_table braid_manycore_products = {kKernels, sizeof kKernels / sizeof *kKernels};
