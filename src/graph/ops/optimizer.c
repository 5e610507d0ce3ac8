/* Optimizer steps as ops: the new parameter and the new states from the old ones and the gradient. Outputs take over
 * the storage of what they replace (in_place of their kernels).
 *
 * SgdUpdate(parameter, gradient, rate, momentum?, guard?) -> parameter, momentum?
 *   PyTorch's SGD: g += weight_decay * p; m = momentum * m + g; p -= rate * (nesterov ? g + momentum * m : m). The
 * first step starts from m = 0, which gives PyTorch's m = g. AdamUpdate(parameter, gradient, rate, moment1, moment2,
 * step, guard?) -> parameter, moment1, moment2 Kingma and Ba 2015, Algorithm 1, with PyTorch's placement of epsilon
 * (outside the corrected root); `decoupled`: weight decay as in AdamW (Loshchilov and Hutter 2019). step is 1 for the
 * first step. guard: one number; if it is not finite, nothing changes. */
#include "base/try.h"
#include "graph/graph.h"

static braid_status check_scalar(const braid_infer *infer, size_t index, const char *what) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (desc && braid_desc_count(desc) != 1) return braid_infer_fail(infer, "%s is not one number", what);
  return BRAID_OK;
}

/* Input `index` has the parameter's type and shape. */
static braid_status check_like(const braid_infer *infer, size_t index, const char *what) {
  const braid_desc *parameter = braid_infer_input(infer, 0), *desc = braid_infer_input(infer, index);
  if (desc && (desc->dtype != parameter->dtype || !braid_desc_same_shape(desc, parameter)))
    return braid_infer_fail(infer, "%s differs from the parameter in type or shape", what);
  return BRAID_OK;
}

static braid_status give(const braid_infer *infer, size_t outputs) {
  const braid_desc *parameter = braid_infer_input(infer, 0);
  for (size_t i = 0; i < outputs; i++)
    BRAID_TRY(braid_infer_output(infer, i, parameter->dtype, parameter->rank, parameter->dims));
  return BRAID_OK;
}

static braid_status infer_sgd(const braid_infer *infer) {
  if (!braid_dtype_is_float(braid_infer_input(infer, 0)->dtype))
    return braid_infer_fail(infer, "the parameter is not floating-point");
  BRAID_TRY(check_like(infer, 1, "the gradient"));
  BRAID_TRY(check_scalar(infer, 2, "the rate"));
  BRAID_TRY(check_like(infer, 3, "the momentum"));
  BRAID_TRY(check_scalar(infer, 4, "the guard"));
  bool kept = braid_infer_input(infer, 3) != NULL;
  if (!kept && braid_attr_float(&infer->node->attrs, "momentum", 0) != 0)
    return braid_infer_fail(infer, "momentum without its state");
  return give(infer, kept ? 2 : 1);
}

static braid_status infer_adam(const braid_infer *infer) {
  if (!braid_dtype_is_float(braid_infer_input(infer, 0)->dtype))
    return braid_infer_fail(infer, "the parameter is not floating-point");
  BRAID_TRY(check_like(infer, 1, "the gradient"));
  BRAID_TRY(check_scalar(infer, 2, "the rate"));
  BRAID_TRY(check_like(infer, 3, "the first moment"));
  BRAID_TRY(check_like(infer, 4, "the second moment"));
  BRAID_TRY(check_scalar(infer, 5, "the step"));
  BRAID_TRY(check_scalar(infer, 6, "the guard"));
  return give(infer, 3);
}

static const braid_op kOps[] = {
    {.name = "SgdUpdate", .min_inputs = 3, .max_inputs = 5, .min_outputs = 1, .max_outputs = 2, .infer = infer_sgd},
    {.name = "AdamUpdate", .min_inputs = 6, .max_inputs = 7, .min_outputs = 3, .max_outputs = 3, .infer = infer_adam},
};

const braid_op_family braid_ops_optimizer = {kOps, sizeof kOps / sizeof *kOps};
