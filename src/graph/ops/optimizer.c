/* Optimizer steps as ops: the new parameter and the new states from the old ones and the gradient. Outputs take over
 * the storage of what they replace (in_place of their kernels).
 *
 * SgdUpdate(parameter, gradient, rate, momentum?, guard?, scale?, copy?) -> parameter, momentum?, copy?
 *   PyTorch's SGD: g += weight_decay * p; m = momentum * m + g; p -= rate * (nesterov ? g + momentum * m : m). The
 *   first step starts from m = 0, which gives PyTorch's m = g.
 * AdamUpdate(parameter, gradient, rate, moment1, moment2, step, guard?, scale?, copy?) -> parameter, moment1, moment2,
 *   copy?
 *   Kingma and Ba 2015, Algorithm 1, with PyTorch's placement of epsilon (outside the corrected root); `decoupled`:
 *   weight decay as in AdamW (Loshchilov and Hutter 2019). step is 1 for the first step.
 * guard: one number; if it is not finite, nothing changes. scale: one number that the loss, and so the gradient, was
 * multiplied by; the gradient is divided by it first. copy: the parameter in a 16-bit type, which the new parameter is
 * rounded to. The gradient may be of a 16-bit type too.
 *
 * GradientGuard(loss, gradients ...) -> guard: 0, or NaN if one number of all its operands is not finite.
 * LossScaleUpdate(scale, steps, guard, last?) -> scale, steps
 *   The scale of fp16's loss for the next step: halved (not below 1) if the guard is not finite, doubled (not above
 *   2^24) after `interval` finite steps in a row. steps counts these since the scale was changed; below 0: so many
 * steps in a row that were not finite. Where last is 0 (a batch of a step that has more) nothing changes.
 *
 * Adagrad, Adam and Momentum of ai.onnx.preview.training, under their full names, take a rate, a count of updates, and
 * parameters, gradients and states in groups of as many as there are parameters. */
#include "base/try.h"
#include "graph/graph.h"
#include "tensor/half.h"

static braid_status check_scalar(const braid_infer *infer, size_t index, const char *what) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc) return BRAID_OK;
  bool fits = braid_dtype_is_float(desc->dtype) || desc->dtype == BRAID_I64 || desc->dtype == BRAID_I32;
  return fits && braid_desc_count(desc) == 1 ? BRAID_OK : braid_infer_fail(infer, "%s is not one number", what);
}

/* Input `index` has the parameter's type and shape. */
static braid_status check_like(const braid_infer *infer, size_t index, const char *what) {
  const braid_desc *parameter = braid_infer_input(infer, 0), *desc = braid_infer_input(infer, index);
  if (desc && (desc->dtype != parameter->dtype || !braid_desc_same_shape(desc, parameter)))
    return braid_infer_fail(infer, "%s differs from the parameter in type or shape", what);
  return BRAID_OK;
}

/* The gradient: of the parameter's shape, and its type or a shorter one. */
static braid_status check_gradient(const braid_infer *infer) {
  const braid_desc *parameter = braid_infer_input(infer, 0), *desc = braid_infer_input(infer, 1);
  if (braid_infer_input(infer, infer->node->op->max_inputs - 2) && parameter->dtype != BRAID_F32)
    return braid_infer_fail(infer, "a scale of the loss is for parameters of float32, not of %s",
                            braid_dtype_name(parameter->dtype));
  bool fits =
      desc && (desc->dtype == parameter->dtype || (parameter->dtype == BRAID_F32 && braid_dtype_is_half(desc->dtype)));
  if (!fits || !braid_desc_same_shape(desc, parameter))
    return braid_infer_fail(infer, "the gradient differs from the parameter in type or shape");
  return BRAID_OK;
}

/* Input `index`, if there, is a 16-bit copy of the parameter, which output `output` replaces. */
static braid_status give_copy(const braid_infer *infer, size_t index, size_t output) {
  const braid_desc *parameter = braid_infer_input(infer, 0), *copy = braid_infer_input(infer, index);
  bool taken = output < infer->node->output_count && infer->node->outputs[output] >= 0;
  if (!copy) return taken ? braid_infer_fail(infer, "a new copy without the old one") : BRAID_OK;
  if (parameter->dtype != BRAID_F32 || (copy->dtype != BRAID_F16 && copy->dtype != BRAID_BF16) ||
      !braid_desc_same_shape(copy, parameter))
    return braid_infer_fail(infer, "the copy is not a 16-bit one of a float32 parameter, of its shape");
  if (!taken) return braid_infer_fail(infer, "the new copy goes nowhere");
  return braid_infer_output(infer, output, copy->dtype, copy->rank, copy->dims);
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
  BRAID_TRY(check_gradient(infer));
  BRAID_TRY(check_scalar(infer, 2, "the rate"));
  BRAID_TRY(check_like(infer, 3, "the momentum"));
  BRAID_TRY(check_scalar(infer, 4, "the guard"));
  BRAID_TRY(check_scalar(infer, 5, "the scale"));
  BRAID_TRY(give_copy(infer, 6, 2));
  bool kept = braid_infer_input(infer, 3) != NULL;
  if (!kept && braid_attr_float(&infer->node->attrs, "momentum", 0) != 0)
    return braid_infer_fail(infer, "momentum without its state");
  if (kept && (infer->node->output_count < 2 || infer->node->outputs[1] < 0))
    return braid_infer_fail(infer, "the new momentum goes nowhere");
  return give(infer, kept ? 2 : 1);
}

static braid_status infer_adam(const braid_infer *infer) {
  if (!braid_dtype_is_float(braid_infer_input(infer, 0)->dtype))
    return braid_infer_fail(infer, "the parameter is not floating-point");
  BRAID_TRY(check_gradient(infer));
  BRAID_TRY(check_scalar(infer, 2, "the rate"));
  BRAID_TRY(check_like(infer, 3, "the first moment"));
  BRAID_TRY(check_like(infer, 4, "the second moment"));
  BRAID_TRY(check_scalar(infer, 5, "the step"));
  BRAID_TRY(check_scalar(infer, 6, "the guard"));
  BRAID_TRY(check_scalar(infer, 7, "the scale"));
  BRAID_TRY(give_copy(infer, 8, 3));
  return give(infer, 3);
}

static braid_status infer_guard(const braid_infer *infer) {
  for (size_t i = 0; i < braid_infer_inputs(infer); i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    if (!desc || !braid_dtype_is_float(desc->dtype))
      return braid_infer_fail(infer, "operand %zu is missing or not floating-point", i);
  }
  return braid_infer_output(infer, 0, BRAID_F32, 0, NULL);
}

static braid_status infer_scale(const braid_infer *infer) {
  static const braid_dtype kTypes[] = {BRAID_F32, BRAID_I64, BRAID_F32, BRAID_F32};
  static const char *const kNames[] = {"the scale", "the number of steps", "the guard",
                                       "what tells a step's last batch"};
  for (size_t i = 0; i < 4; i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    if (desc && (desc->dtype != kTypes[i] || braid_desc_count(desc) != 1))
      return braid_infer_fail(infer, "%s is not one %s", kNames[i], braid_dtype_name(kTypes[i]));
  }
  if (braid_attr_int(&infer->node->attrs, "interval", 2000) < 1)
    return braid_infer_fail(infer, "the interval is not at least 1");
  for (size_t i = 0; i < 2; i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    BRAID_TRY(braid_infer_output(infer, i, desc->dtype, desc->rank, desc->dims));
  }
  return BRAID_OK;
}

/* `groups`: parameters, gradients and states. */
static braid_status infer_onnx(const braid_infer *infer, size_t groups) {
  size_t inputs = braid_infer_inputs(infer), tensors = (inputs - 2) / groups;
  BRAID_TRY(check_scalar(infer, 0, "the rate"));
  BRAID_TRY(check_scalar(infer, 1, "the number of updates"));
  if (tensors * groups + 2 != inputs || infer->node->output_count != tensors * (groups - 1))
    return braid_infer_fail(infer, "%zu inputs and %zu outputs are no groups of parameters, gradients and states",
                            inputs, infer->node->output_count);
  for (size_t i = 2; i < inputs; i++) {
    const braid_desc *own = braid_infer_input(infer, i), *parameter = braid_infer_input(infer, 2 + (i - 2) % tensors);
    if (!own || !parameter || !braid_dtype_is_float(parameter->dtype))
      return braid_infer_fail(infer, "operand %zu is missing or not floating-point", i);
    if (own->dtype != parameter->dtype || !braid_desc_same_shape(own, parameter))
      return braid_infer_fail(infer, "operand %zu differs from its parameter in type or shape", i);
  }
  for (size_t i = 0; i < infer->node->output_count; i++) {
    const braid_desc *parameter = braid_infer_input(infer, 2 + i % tensors);
    if (infer->node->outputs[i] < 0) return braid_infer_fail(infer, "output %zu is left out", i);
    BRAID_TRY(braid_infer_output(infer, i, parameter->dtype, parameter->rank, parameter->dims));
  }
  return BRAID_OK;
}

static braid_status infer_onnx_three(const braid_infer *infer) {
  return infer_onnx(infer, 3);
}
static braid_status infer_onnx_four(const braid_infer *infer) {
  return infer_onnx(infer, 4);
}

static const braid_op kOps[] = {
    {.name = "SgdUpdate", .min_inputs = 3, .max_inputs = 7, .min_outputs = 1, .max_outputs = 3, .infer = infer_sgd},
    {.name = "AdamUpdate", .min_inputs = 6, .max_inputs = 9, .min_outputs = 3, .max_outputs = 4, .infer = infer_adam},
    {.name = "GradientGuard",
     .min_inputs = 1,
     .max_inputs = -1,
     .min_outputs = 1,
     .max_outputs = 1,
     .infer = infer_guard},
    {.name = "LossScaleUpdate",
     .min_inputs = 3,
     .max_inputs = 4,
     .min_outputs = 2,
     .max_outputs = 2,
     .infer = infer_scale},
    {"ai.onnx.preview.training.Adagrad", 5, -1, 2, -1, 0, infer_onnx_three, NULL, NULL},
    {"ai.onnx.preview.training.Adam", 6, -1, 3, -1, 0, infer_onnx_four, NULL, NULL},
    {"ai.onnx.preview.training.Momentum", 5, -1, 2, -1, 0, infer_onnx_three, NULL, NULL},
};

extern const braid_op_family braid_ops_optimizer;
const braid_op_family braid_ops_optimizer = {kOps, sizeof kOps / sizeof *kOps};
