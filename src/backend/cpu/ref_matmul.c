/* Plain matrix products: Gemm, FusedGemm, MatMul, for every type they allow.
 *
 * Operands are brought to the type that is summed in (float for the 16-bit types, else their own; 64-bit integers wrap)
 * and to row-major order in the workspace; then tiles of a row are summed over the inner dimension in its order, so the
 * bits do not depend on the number of threads. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "tensor/half.h"

enum { kTile = 256 };

typedef struct operand_view {
  const void *data;
  braid_dtype dtype;
  int64_t rows, columns, row_stride, column_stride; /* of one matrix, in elements */
} operand_view;

typedef struct matmul {
  int rank;                                               /* leading dimensions */
  int64_t lead[BRAID_MAX_RANK];                           /* of the result */
  int64_t step_a[BRAID_MAX_RANK], step_b[BRAID_MAX_RANK]; /* in matrices; 0: broadcast */
  int64_t batches, rows, inner, columns;
  bool transposed_a, transposed_b;
  size_t sum_bytes; /* of one element of the type summed in */
  double alpha, beta;
} matmul;

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static size_t sum_size(braid_dtype dtype) {
  size_t bytes = braid_dtype_size(dtype);
  return bytes == 2 ? 4 : bytes;
}

static void read_steps(const braid_desc *desc, int lead, const int64_t *dims, int64_t *steps) {
  int own = desc->rank > 2 ? desc->rank - 2 : 0;
  int64_t stride = 1;
  for (int i = lead; i-- > 0;) {
    int at = i - (lead - own);
    steps[i] = at < 0 || (desc->dims[at] == 1 && dims[i] != 1) ? 0 : stride;
    if (at >= 0) stride *= desc->dims[at];
  }
}

static void read_matmul(const braid_node_desc *node, matmul *m) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc, *y = &node->outputs[0].desc;
  m->transposed_a = a->rank > 1 && braid_attr_int(node->attrs, "transA", 0) != 0;
  m->transposed_b = b->rank > 1 && braid_attr_int(node->attrs, "transB", 0) != 0;
  m->rows = a->rank == 1 ? 1 : a->dims[a->rank - (m->transposed_a ? 1 : 2)];
  m->inner = a->rank == 1 ? a->dims[0] : a->dims[a->rank - (m->transposed_a ? 2 : 1)];
  m->columns = b->rank == 1 ? 1 : b->dims[b->rank - (m->transposed_b ? 2 : 1)];
  m->rank = y->rank - (a->rank > 1) - (b->rank > 1);
  m->batches = 1;
  for (int i = 0; i < m->rank; i++) m->batches *= m->lead[i] = y->dims[i];
  read_steps(a, m->rank, m->lead, m->step_a);
  read_steps(b, m->rank, m->lead, m->step_b);
  m->alpha = braid_attr_float(node->attrs, "alpha", 1);
  m->beta = braid_attr_float(node->attrs, "beta", 1);
  m->sum_bytes = sum_size(y->dtype);
}

static braid_status create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                           braid_prepared_info *info) {
  matmul *m = *state = braid_zalloc(allocator, sizeof *m);
  if (!m) return BRAID_NO_MEMORY;
  read_matmul(node, m);
  info->workspace_bytes = (size_t)(m->rows * m->inner + m->inner * m->columns) * m->sum_bytes + 64;
  return BRAID_OK;
}

/* --- one product ---------------------------------------------------------------------------------------------------
 */
static float load_half(const void *data, int64_t i, braid_dtype dtype) {
  uint16_t bits = ((const uint16_t *)data)[i];
  return dtype == BRAID_F16 ? braid_f16_to_f32(bits) : braid_bf16_to_f32(bits);
}

static void store_half(void *data, int64_t i, braid_dtype dtype, float value) {
  ((uint16_t *)data)[i] = dtype == BRAID_F16 ? braid_f32_to_f16(value) : braid_f32_to_bf16(value);
}

#define DEFINE_PRODUCT(type)                                                                                           \
  static void pack_##type(const operand_view *view, type *out) {                                                       \
    bool half = view->dtype == BRAID_F16 || view->dtype == BRAID_BF16;                                                 \
    _Pragma("omp parallel for") for (int64_t r = 0; r < view->rows; r++) for (int64_t c = 0; c < view->columns; c++) { \
      int64_t i = r * view->row_stride + c * view->column_stride;                                                      \
      out[r * view->columns + c] = half ? (type)load_half(view->data, i, view->dtype) : ((const type *)view->data)[i]; \
    }                                                                                                                  \
  }                                                                                                                    \
  static void sum_row_##type(const matmul *m, const type *a, const type *b, type *sums, int64_t columns) {             \
    for (int64_t c = 0; c < columns; c++) sums[c] = 0;                                                                 \
    for (int64_t k = 0; k < m->inner; k++) {                                                                           \
      const type factor = a[k], *row = b + k * m->columns;                                                             \
      for (int64_t c = 0; c < columns; c++) sums[c] += factor * row[c];                                                \
    }                                                                                                                  \
  }

DEFINE_PRODUCT(float)
DEFINE_PRODUCT(double)
DEFINE_PRODUCT(uint32_t)
DEFINE_PRODUCT(uint64_t)

/* C of a Gemm at (row, column), by its own type. */
typedef struct addend {
  const void *data;
  int64_t row_stride, column_stride;
} addend;

static addend read_addend(const braid_node_desc *node, const braid_cpu_args *args) {
  if (strcmp(node->op, "MatMul") == 0 || node->input_count < 3 || !node->inputs[2].present)
    return (addend){.data = NULL};
  const braid_desc *c = &node->inputs[2].desc;
  int64_t columns = c->rank ? c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? c->dims[0] : 1;
  return (addend){args->inputs[2], rows > 1 ? columns : 0, columns > 1 ? 1 : 0};
}

static double activate(const char *name, float a, float b, double v) {
  if (strcmp(name, "Relu") == 0) return v < 0 ? 0 : v;
  if (strcmp(name, "LeakyRelu") == 0) return v < 0 ? a * v : v;
  if (strcmp(name, "Clip") == 0) return fmin(fmax(v, a), b);
  if (strcmp(name, "Sigmoid") == 0) return 1 / (1 + exp(-v));
  if (strcmp(name, "Tanh") == 0) return tanh(v);
  if (strcmp(name, "HardSigmoid") == 0) return fmax(0, fmin(1, a * v + b));
  return v * fmax(0, fmin(1, v / 6 + 0.5)); /* HardSwish; match lets no other through */
}

static void activate_row(const braid_node_desc *node, float *row, int64_t count) {
  const char *name = braid_attr_string(node->attrs, "activation", NULL);
  if (!name) return;
  size_t given;
  const float *params = braid_attr_floats(node->attrs, "activation_params", &given);
  for (int64_t i = 0; i < count; i++)
    row[i] = (float)activate(name, given > 0 ? params[0] : 0, given > 1 ? params[1] : 0, row[i]);
}

/* y = alpha * sums + beta * C for `count` columns of a row from `column` on. */
#define DEFINE_STORE(type)                                                                                             \
  static void store_##type(const matmul *m, const addend *c, int64_t row, int64_t column, int64_t count,               \
                           const type *sums, type *y) {                                                                \
    bool plain = m->alpha == 1;                                                                                        \
    for (int64_t i = 0; i < count; i++) y[i] = plain ? sums[i] : (type)(m->alpha * sums[i]);                           \
    if (!c->data) return;                                                                                              \
    const type *add = (const type *)c->data + row * c->row_stride + column * c->column_stride;                         \
    for (int64_t i = 0; i < count; i++)                                                                                \
      y[i] += m->beta == 1 ? add[i * c->column_stride] : (type)(m->beta * add[i * c->column_stride]);                  \
  }

DEFINE_STORE(float)
DEFINE_STORE(double)
DEFINE_STORE(int32_t)
DEFINE_STORE(int64_t)
DEFINE_STORE(uint32_t)
DEFINE_STORE(uint64_t)

static void store_halves(const matmul *m, const addend *c, int64_t row, int64_t column, int64_t count,
                         const float *sums, braid_dtype dtype, void *y, int64_t at) {
  for (int64_t i = 0; i < count; i++) {
    double value = m->alpha * sums[i];
    if (c->data) value += m->beta * load_half(c->data, row * c->row_stride + (column + i) * c->column_stride, dtype);
    store_half(y, at + i, dtype, (float)value);
  }
}

static void run_tile(const braid_node_desc *node, const matmul *m, const addend *c, const void *a, const void *b,
                     int64_t row, int64_t column, void *y, int64_t at) {
  braid_dtype dtype = node->outputs[0].desc.dtype;
  int64_t count = m->columns - column < kTile ? m->columns - column : kTile;
  union {
    float f32[kTile];
    double f64[kTile];
    uint32_t u32[kTile];
    uint64_t u64[kTile];
    int32_t i32[kTile];
    int64_t i64[kTile];
  } sums;
#define ROW(type) ((const type *)a + row * m->inner)
#define COLUMN(type) ((const type *)b + column)
  switch (dtype) {
  case BRAID_F32:
    sum_row_float(m, ROW(float), COLUMN(float), sums.f32, count);
    store_float(m, c, row, column, count, sums.f32, (float *)y + at);
    activate_row(node, (float *)y + at, count);
    break;
  case BRAID_F16:
  case BRAID_BF16:
    sum_row_float(m, ROW(float), COLUMN(float), sums.f32, count);
    store_halves(m, c, row, column, count, sums.f32, dtype, y, at);
    break;
  case BRAID_F64:
    sum_row_double(m, ROW(double), COLUMN(double), sums.f64, count);
    store_double(m, c, row, column, count, sums.f64, (double *)y + at);
    break;
  case BRAID_U32:
    sum_row_uint32_t(m, ROW(uint32_t), COLUMN(uint32_t), sums.u32, count);
    store_uint32_t(m, c, row, column, count, sums.u32, (uint32_t *)y + at);
    break;
  case BRAID_I32:
    sum_row_uint32_t(m, ROW(uint32_t), COLUMN(uint32_t), sums.u32, count);
    store_int32_t(m, c, row, column, count, sums.i32, (int32_t *)y + at);
    break;
  case BRAID_U64:
    sum_row_uint64_t(m, ROW(uint64_t), COLUMN(uint64_t), sums.u64, count);
    store_uint64_t(m, c, row, column, count, sums.u64, (uint64_t *)y + at);
    break;
  default: /* BRAID_I64: match lets no other through */
    sum_row_uint64_t(m, ROW(uint64_t), COLUMN(uint64_t), sums.u64, count);
    store_int64_t(m, c, row, column, count, sums.i64, (int64_t *)y + at);
    break;
  }
#undef ROW
#undef COLUMN
}

/* --- all products --------------------------------------------------------------------------------------------------
 */
static void pack(const operand_view *view, size_t bytes, void *out) {
  bool is_float = braid_dtype_is_float(view->dtype);
  if (bytes == 4 && is_float)
    pack_float(view, out);
  else if (is_float)
    pack_double(view, out);
  else if (bytes == 4)
    pack_uint32_t(view, out);
  else
    pack_uint64_t(view, out);
}

static operand_view view_of(const braid_node_desc *node, const braid_cpu_args *args, size_t index, int64_t matrix,
                            int64_t rows, int64_t columns, bool transposed) {
  braid_dtype dtype = node->inputs[index].desc.dtype;
  const char *data = (const char *)args->inputs[index] + (size_t)(matrix * rows * columns) * braid_dtype_size(dtype);
  return (operand_view){data, dtype, rows, columns, transposed ? 1 : columns, transposed ? rows : 1};
}

static braid_status run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const matmul *m = state;
  addend c = read_addend(node, args);
  char *a = args->workspace, *b = a + (size_t)(m->rows * m->inner) * m->sum_bytes;
  int64_t tiles = (m->columns + kTile - 1) / kTile;
  for (int64_t batch = 0; batch < m->batches; batch++) {
    int64_t rest = batch, at_a = 0, at_b = 0;
    for (int i = m->rank; i-- > 0;) {
      at_a += rest % m->lead[i] * m->step_a[i];
      at_b += rest % m->lead[i] * m->step_b[i];
      rest /= m->lead[i];
    }
    operand_view left = view_of(node, args, 0, at_a, m->rows, m->inner, m->transposed_a);
    operand_view right = view_of(node, args, 1, at_b, m->inner, m->columns, m->transposed_b);
    pack(&left, m->sum_bytes, a);
    pack(&right, m->sum_bytes, b);
#pragma omp parallel for collapse(2)
    for (int64_t row = 0; row < m->rows; row++)
      for (int64_t tile = 0; tile < tiles; tile++)
        run_tile(node, m, &c, a, b, row, tile * kTile, args->outputs[0],
                 (batch * m->rows + row) * m->columns + tile * kTile);
  }
  return BRAID_OK;
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  static const char *const kActivations[] = {"Relu", "LeakyRelu",   "Clip",     "Sigmoid",
                                             "Tanh", "HardSigmoid", "HardSwish"};
  const char *name = braid_attr_string(node->attrs, "activation", NULL);
  if (!name) return true;
  for (size_t i = 0; i < sizeof kActivations / sizeof *kActivations; i++)
    if (strcmp(name, kActivations[i]) == 0 && node->outputs[0].desc.dtype == BRAID_F32) return true;
  snprintf(why, why_bytes, "activation %s", name);
  return false;
}

static const braid_cpu_kernel kMatmul = {.create = create, .run = run};

static const braid_kernel kKernels[] = {
    {.op = "Gemm", .name = "ref_matmul", .match = match, .implementation = &kMatmul},
    {.op = "FusedGemm", .name = "ref_matmul", .match = match, .implementation = &kMatmul},
    {.op = "MatMul", .name = "ref_matmul", .match = match, .implementation = &kMatmul},
};

const braid_cpu_table braid_cpu_ref_matmul = {kKernels, sizeof kKernels / sizeof *kKernels};
