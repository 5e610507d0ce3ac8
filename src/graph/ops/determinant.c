/* Det, of the last two dimensions. */
#include "base/try.h"
#include "graph/gradient.h"
#include "graph/ops/types.h"

static braid_status check_matrices(const braid_infer *infer, size_t index) {
  const braid_desc *x = braid_infer_input(infer, index);
  char text[128];
  BRAID_TRY(braid_infer_type(infer, index, kFloat));
  if (x->rank >= 2 && x->dims[x->rank - 1] == x->dims[x->rank - 2]) return BRAID_OK;
  return braid_infer_fail(infer, "the input is %s, expected square matrices", braid_desc_format(x, text, sizeof text));
}

static braid_status infer_det(const braid_infer *infer) {
  BRAID_TRY(check_matrices(infer, 0));
  const braid_desc *x = braid_infer_input(infer, 0);
  return braid_infer_output(infer, 0, x->dtype, x->rank - 2, x->dims);
}

/* DetGrad(dy, x): the cofactors of the matrices, times dy. */
static braid_status infer_det_grad(const braid_infer *infer) {
  BRAID_TRY(check_matrices(infer, 1));
  BRAID_TRY(braid_infer_same_type(infer, 0, 1));
  const braid_desc *dy = braid_infer_input(infer, 0), *x = braid_infer_input(infer, 1);
  bool fits = dy->rank == x->rank - 2;
  for (int i = 0; fits && i < dy->rank; i++) fits = dy->dims[i] == x->dims[i];
  if (!fits) return braid_infer_fail(infer, "the gradient does not have the result's shape");
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

static braid_status det_gradient(braid_gradient_context *context) {
  braid_value_id inputs[2] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 0)}, gradient;
  BRAID_TRY(braid_gradient_node(context, "DetGrad", inputs, 2, &gradient, NULL));
  return braid_gradient_give(context, 0, gradient);
}

static const braid_op kOps[] = {
    {"Det", 1, 1, 1, 1, 0, infer_det, NULL, det_gradient},
    {"DetGrad", 2, 2, 1, 1, 0, infer_det_grad, NULL, NULL},
};

extern const braid_op_family braid_ops_determinant;
const braid_op_family braid_ops_determinant = {kOps, sizeof kOps / sizeof *kOps};
