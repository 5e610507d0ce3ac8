/* Det and its gradient, in double, by elimination with the largest element left as pivot. */
#include <math.h>
#include <string.h>

#include "backend/cpu/plain/float.h"
#include "base/checked.h"

typedef struct det_state {
  braid_ref_float base;
  int64_t count, order;
} det_state;

/* PAQ = LU: row i of the product is row rows[i] of the matrix, and columns likewise. L, with ones on its diagonal, and
 * U are left in `a`. Returns the sign of the permutations. */
static double eliminate(double *a, int64_t order, int64_t *rows, int64_t *columns) {
  double sign = 1;
  for (int64_t i = 0; i < order; i++) rows[i] = columns[i] = i;
  for (int64_t step = 0; step < order; step++) {
    int64_t row = step, column = step;
    for (int64_t i = step; i < order; i++)
      for (int64_t j = step; j < order; j++)
        if (fabs(a[i * order + j]) > fabs(a[row * order + column])) row = i, column = j;
    for (int64_t j = 0; row != step && j < order; j++) {
      double moved = a[row * order + j];
      a[row * order + j] = a[step * order + j];
      a[step * order + j] = moved;
    }
    for (int64_t i = 0; column != step && i < order; i++) {
      double moved = a[i * order + column];
      a[i * order + column] = a[i * order + step];
      a[i * order + step] = moved;
    }
    if (row != step) {
      int64_t moved = rows[row];
      rows[row] = rows[step];
      rows[step] = moved;
      sign = -sign;
    }
    if (column != step) {
      int64_t moved = columns[column];
      columns[column] = columns[step];
      columns[step] = moved;
      sign = -sign;
    }
    double pivot = a[step * order + step];
    if (pivot == 0) break; /* nothing is left */
    for (int64_t i = step + 1; i < order; i++) {
      double factor = a[i * order + step] /= pivot;
      for (int64_t j = step + 1; j < order; j++) a[i * order + j] -= factor * a[step * order + j];
    }
  }
  return sign;
}

/* The adjugate of U, upper triangular, of which only the last pivot may be zero: with p the product of the others and d
 * the last, p d / U without a division by d. False if another is zero, too: then all cofactors are. */
static bool triangle_adjugate(const double *u, int64_t order, double *out) {
  double others = 1, last = u[order * order - 1];
  for (int64_t i = 0; i + 1 < order; i++) {
    if (u[i * order + i] == 0) return false;
    others *= u[i * order + i];
  }
  memset(out, 0, (size_t)(order * order) * sizeof *out);
  for (int64_t column = 0; column < order; column++) {
    bool at_end = column == order - 1;
    out[column * order + column] = at_end ? others : others * last / u[column * order + column];
    for (int64_t i = column; i-- > 0;) {
      double sum = 0;
      for (int64_t k = i + 1; k <= column; k++) sum += u[i * order + k] * out[k * order + column];
      out[i * order + column] = -sum / u[i * order + i];
    }
  }
  return true;
}

/* out = scale times the cofactors of the matrix that was eliminated in a: adj(A) = sign Q adj(U) L^-1 P, transposed. */
static void cofactors(const double *a, int64_t order, const int64_t *rows, const int64_t *columns, double scale,
                      double *adjugate, double *out) {
  memset(out, 0, (size_t)(order * order) * sizeof *out);
  if (!triangle_adjugate(a, order, adjugate)) return;
  for (int64_t i = 0; i < order; i++)
    for (int64_t j = order; j-- > 0;) { /* (adj(U) L^-1)[i][j], from the right */
      double sum = adjugate[i * order + j];
      for (int64_t k = j + 1; k < order; k++) sum -= adjugate[i * order + k] * a[k * order + j];
      adjugate[i * order + j] = sum;
    }
  for (int64_t i = 0; i < order; i++)
    for (int64_t j = 0; j < order; j++) out[rows[j] * order + columns[i]] = scale * adjugate[i * order + j];
}

#define T float
#define BRAID_REF_NAME(name) name##_f32
#include "backend/cpu/plain/determinant_template.h"
#undef T
#undef BRAID_REF_NAME
#define T double
#define BRAID_REF_NAME(name) name##_f64
#include "backend/cpu/plain/determinant_template.h"
#undef T
#undef BRAID_REF_NAME

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
/* Room for three matrices and two lists, for the one matrix that is worked at. */
static braid_status init_from(const braid_desc *x, det_state *state) {
  size_t numbers, bytes;
  state->order = x->dims[x->rank - 1];
  state->count = 1;
  for (int i = 0; i < x->rank - 2; i++) state->count *= x->dims[i];
  if (!braid_mul_size((size_t)state->order, (size_t)state->order + 1, &numbers) ||
      !braid_mul_size(numbers, 3 * sizeof(double), &bytes))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  state->base.scratch_bytes = bytes;
  return BRAID_OK;
}

static braid_status init_det(const braid_node_desc *node, void *self) {
  return init_from(&node->inputs[0].desc, self);
}

static braid_status init_det_grad(const braid_node_desc *node, void *self) {
  return init_from(&node->inputs[1].desc, self);
}

BRAID_REF_KERNEL(kDet, det_forward, det_state, init_det)
BRAID_REF_KERNEL(kDetGrad, det_backward, det_state, init_det_grad)

static const braid_kernel kKernels[] = {
    {.op = "Det", .name = "ref_det", .match = braid_ref_match_float, .implementation = &kDet},
    {.op = "DetGrad", .name = "ref_det_grad", .match = braid_ref_match_float, .implementation = &kDetGrad},
};

extern const braid_cpu_table braid_cpu_plain_determinant;
const braid_cpu_table braid_cpu_plain_determinant = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
