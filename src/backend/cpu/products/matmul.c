/* Plain matrix products: Gemm, MatMul and their fused forms, for every type they allow, over the products of gemm.h.
 *
 * The 16-bit types are multiplied as float and rounded once, after bias and activation. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/products/gemm.h"
#include "base/checked.h"
#include "tensor/half.h"

typedef struct matmul {
  int rank;                                               /* leading dimensions */
  int64_t lead[BRAID_MAX_RANK];                           /* of the result */
  int64_t step_a[BRAID_MAX_RANK], step_b[BRAID_MAX_RANK]; /* in matrices; 0: broadcast */
  int64_t batches, rows, inner, columns;
  bool transposed_a, transposed_b;
  braid_dtype dtype, sum_type;
  double alpha, beta;
  const char *activation;
  float params[2];
  int lanes;                             /* batches computed side by side, each with a share of the workspace */
  size_t lane_bytes, at_a, at_b, at_sum; /* offsets in a share; the packed matrix stands first */
} matmul;

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static void read_steps(const braid_desc *desc, int lead, const int64_t *dims, int64_t *steps) {
  int own = desc->rank > 2 ? desc->rank - 2 : 0;
  int64_t stride = 1;
  for (int i = lead; i-- > 0;) {
    int at = i - (lead - own);
    steps[i] = at < 0 || (desc->dims[at] == 1 && dims[i] != 1) ? 0 : stride;
    if (at >= 0) stride *= desc->dims[at];
  }
}

/* One right matrix under many left ones is one product of more rows. */
static void join_rows(matmul *m) {
  int64_t dense = 1;
  bool joins = !m->transposed_a;
  for (int i = m->rank; i-- > 0; dense *= m->lead[i])
    joins &= m->lead[i] == 1 || (m->step_b[i] == 0 && m->step_a[i] == dense);
  if (!joins) return;
  m->rows *= m->batches;
  m->batches = 1;
  m->rank = 0;
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
  join_rows(m);
  m->alpha = braid_attr_float(node->attrs, "alpha", 1);
  m->beta = braid_attr_float(node->attrs, "beta", 1);
  m->dtype = y->dtype;
  m->sum_type = braid_dtype_size(y->dtype) == 2 ? BRAID_F32 : y->dtype;
  size_t given;
  const float *params = braid_attr_floats(node->attrs, "activation_params", &given);
  m->activation = braid_attr_string(node->attrs, "activation", NULL);
  for (size_t i = 0; i < 2 && i < given; i++) m->params[i] = params[i];
}

static bool reserve(int64_t rows, int64_t columns, size_t *at, size_t *total) {
  size_t bytes;
  *at = *total;
  return braid_mul_size((size_t)rows, (size_t)columns * sizeof(float), &bytes) && braid_add_size(bytes, 63, &bytes) &&
         braid_add_size(*total, bytes & ~(size_t)63, total);
}

static bool plan_workspace(matmul *m, size_t *bytes) {
  bool fits = braid_gemm_packed_bytes(m->sum_type, m->inner, m->columns, &m->lane_bytes);
  if (m->sum_type != m->dtype)
    fits = fits && reserve(m->rows, m->inner, &m->at_a, &m->lane_bytes) &&
           reserve(m->inner, m->columns, &m->at_b, &m->lane_bytes) &&
           reserve(m->rows, m->columns, &m->at_sum, &m->lane_bytes);
  m->lanes = m->batches < omp_get_max_threads() ? (int)m->batches : omp_get_max_threads();
  return fits && braid_mul_size(m->lane_bytes, (size_t)m->lanes, bytes);
}

static braid_status matmul_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  matmul *m = *state = braid_zalloc(allocator, sizeof *m);
  if (!m) return BRAID_NO_MEMORY;
  read_matmul(node, m);
  if (plan_workspace(m, &info->workspace_bytes)) return BRAID_OK;
  braid_free(allocator, m);
  *state = NULL;
  return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
}

/* --- what follows a product ----------------------------------------------------------------------------------------
 */
/* C of a Gemm at (row, column), by its own type. */
typedef struct addend {
  const void *data;
  int64_t row_step, column_step;
} addend;

static addend read_addend(const braid_node_desc *node, const braid_cpu_args *args) {
  if (strcmp(node->op, "MatMul") == 0 || node->input_count < 3 || !node->inputs[2].present)
    return (addend){.data = NULL};
  const braid_desc *c = &node->inputs[2].desc;
  int64_t columns = c->rank ? c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? c->dims[0] : 1;
  return (addend){args->inputs[2], rows > 1 ? columns : 0, columns > 1 ? 1 : 0};
}

static double activate(const char *name, double a, double b, double v) {
  if (strcmp(name, "Relu") == 0) return v < 0 ? 0 : v;
  if (strcmp(name, "LeakyRelu") == 0) return v < 0 ? a * v : v;
  if (strcmp(name, "Clip") == 0) return v < a ? a : v > b ? b : v;
  if (strcmp(name, "Sigmoid") == 0) return 1 / (1 + exp(-v));
  if (strcmp(name, "Tanh") == 0) return tanh(v);
  if (strcmp(name, "Swish") == 0) return v / (1 + exp(-a * v));
  if (strcmp(name, "Gelu") == 0) return v * 0.5 * erfc(-v * sqrt(0.5));
  double scaled = strcmp(name, "HardSigmoid") == 0 ? a * v + b : v / 6 + 0.5; /* else HardSwish */
  double gate = scaled < 0 ? 0 : scaled > 1 ? 1 : scaled;
  return strcmp(name, "HardSigmoid") == 0 ? gate : v * gate;
}

/* A row becomes activation(alpha * row + beta * C); `load` reads an element of C. */
#define DEFINE_FINISH(name, type, c_type, load)                                                                        \
  static void name(const matmul *m, const addend *c, int64_t row, type *y) {                                           \
    const c_type *add = c->data ? (const c_type *)c->data + row * c->row_step : NULL;                                  \
    if (m->alpha != 1)                                                                                                 \
      for (int64_t i = 0; i < m->columns; i++) y[i] = (type)(m->alpha * (double)y[i]);                                 \
    if (add && m->beta == 1)                                                                                           \
      for (int64_t i = 0; i < m->columns; i++) y[i] += load(add[i * c->column_step]);                                  \
    else if (add)                                                                                                      \
      for (int64_t i = 0; i < m->columns; i++) y[i] += (type)(m->beta * (double)load(add[i * c->column_step]));        \
    if (m->activation)                                                                                                 \
      for (int64_t i = 0; i < m->columns; i++)                                                                         \
        y[i] = (type)activate(m->activation, m->params[0], m->params[1], (double)y[i]);                                \
  }

#define SAME(value) (value)
DEFINE_FINISH(finish_f32, float, float, SAME)
DEFINE_FINISH(finish_f64, double, double, SAME)
DEFINE_FINISH(finish_i32, int32_t, int32_t, SAME)
DEFINE_FINISH(finish_i64, int64_t, int64_t, SAME)
DEFINE_FINISH(finish_u32, uint32_t, uint32_t, SAME)
DEFINE_FINISH(finish_u64, uint64_t, uint64_t, SAME)
DEFINE_FINISH(finish_f16, float, uint16_t, braid_f16_to_f32)
DEFINE_FINISH(finish_bf16, float, uint16_t, braid_bf16_to_f32)

static void finish_row(const matmul *m, const addend *c, int64_t row, void *y) {
  switch (m->dtype) {
  case BRAID_F32:
    finish_f32(m, c, row, y);
    return;
  case BRAID_F64:
    finish_f64(m, c, row, y);
    return;
  case BRAID_F16:
    finish_f16(m, c, row, y);
    return;
  case BRAID_BF16:
    finish_bf16(m, c, row, y);
    return;
  case BRAID_I32:
    finish_i32(m, c, row, y);
    return;
  case BRAID_I64:
    finish_i64(m, c, row, y);
    return;
  case BRAID_U32:
    finish_u32(m, c, row, y);
    return;
  default: /* match lets no other through */
    finish_u64(m, c, row, y);
    return;
  }
}

static void finish(const matmul *m, const addend *c, void *y) {
  if (m->alpha == 1 && !c->data && !m->activation) return;
  size_t row_bytes = (size_t)m->columns * braid_dtype_size(m->sum_type);
#pragma omp parallel for schedule(static) if (m->rows * m->columns > 1 << 15)
  for (int64_t row = 0; row < m->rows; row++) finish_row(m, c, row, (char *)y + (size_t)row * row_bytes);
}

/* --- products ------------------------------------------------------------------------------------------------------
 */
static void widen(braid_dtype dtype, const uint16_t *from, float *to, int64_t count) {
#pragma omp parallel for schedule(static) if (count > 1 << 16)
  for (int64_t i = 0; i < count; i++)
    to[i] = dtype == BRAID_F16 ? braid_f16_to_f32(from[i]) : braid_bf16_to_f32(from[i]);
}

static void narrow(braid_dtype dtype, const float *from, uint16_t *to, int64_t count) {
#pragma omp parallel for schedule(static) if (count > 1 << 16)
  for (int64_t i = 0; i < count; i++)
    to[i] = dtype == BRAID_F16 ? braid_f32_to_f16(from[i]) : braid_f32_to_bf16(from[i]);
}

static void run_batch(const matmul *m, const addend *c, const braid_cpu_args *args, int64_t batch, char *share) {
  int64_t rest = batch, at_a = 0, at_b = 0;
  for (int i = m->rank; i-- > 0;) {
    at_a += rest % m->lead[i] * m->step_a[i];
    at_b += rest % m->lead[i] * m->step_b[i];
    rest /= m->lead[i];
  }
  size_t size = braid_dtype_size(m->dtype);
  const void *a = (const char *)args->inputs[0] + (size_t)(at_a * m->rows * m->inner) * size;
  const void *b = (const char *)args->inputs[1] + (size_t)(at_b * m->inner * m->columns) * size;
  void *y = (char *)args->outputs[0] + (size_t)(batch * m->rows * m->columns) * size, *sums = y;
  if (m->sum_type != m->dtype) {
    widen(m->dtype, a, (float *)(share + m->at_a), m->rows * m->inner);
    widen(m->dtype, b, (float *)(share + m->at_b), m->inner * m->columns);
    a = share + m->at_a, b = share + m->at_b, sums = share + m->at_sum;
  }
  braid_matrix left = {a, m->transposed_a ? 1 : m->inner, m->transposed_a ? m->rows : 1};
  braid_matrix right = {b, m->transposed_b ? 1 : m->columns, m->transposed_b ? m->inner : 1};
  braid_gemm_pack(m->sum_type, m->inner, m->columns, right, share);
  braid_gemm_run(m->sum_type, m->rows, m->inner, m->columns, left, share, sums, m->columns, false);
  finish(m, c, sums);
  if (sums != y) narrow(m->dtype, sums, y, m->rows * m->columns);
}

static braid_status matmul_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const matmul *m = state;
  char *workspace = args->workspace;
  addend c = read_addend(node, args);
#pragma omp parallel for schedule(static) if (m->lanes > 1)
  for (int lane = 0; lane < m->lanes; lane++)
    for (int64_t batch = lane; batch < m->batches; batch += m->lanes)
      run_batch(m, &c, args, batch, workspace + (size_t)lane * m->lane_bytes);
  return BRAID_OK;
}

static bool matmul_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  static const char *const kActivations[] = {"Relu",        "LeakyRelu", "Clip",  "Sigmoid", "Tanh",
                                             "HardSigmoid", "HardSwish", "Swish", "Gelu"};
  const char *name = braid_attr_string(node->attrs, "activation", NULL);
  if (!name) return true;
  for (size_t i = 0; i < sizeof kActivations / sizeof *kActivations; i++)
    if (strcmp(name, kActivations[i]) == 0 && braid_dtype_is_float(node->outputs[0].desc.dtype)) return true;
  snprintf(why, why_bytes, "activation %s", name);
  return false;
}

static const braid_cpu_kernel kMatmul = {.create = matmul_create, .run = matmul_run};

static const braid_kernel kKernels[] = {
    {.op = "Gemm", .name = "ref_matmul", .match = matmul_match, .implementation = &kMatmul},
    {.op = "FusedGemm", .name = "ref_matmul", .match = matmul_match, .implementation = &kMatmul},
    {.op = "MatMul", .name = "ref_matmul", .match = matmul_match, .implementation = &kMatmul},
    {.op = "FusedMatMul", .name = "ref_matmul", .match = matmul_match, .implementation = &kMatmul},
};

const braid_cpu_table braid_cpu_products_matmul = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
