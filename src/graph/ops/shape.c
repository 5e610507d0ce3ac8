/* Ops about shapes: those that only see the same elements in another shape, and those that give shapes and constants.
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "graph/gradient.h"
#include "graph/onnx_dtype.h"
#include "graph/ops/movement.h"

braid_status braid_infer_ints(const braid_infer *infer, size_t index, const char *what, int64_t *values,
                              size_t capacity, size_t *count) {
  const braid_desc *desc = braid_infer_input(infer, index);
  const braid_tensor *tensor = braid_infer_constant(infer, index);
  *count = 0;
  if (!desc) return braid_infer_fail(infer, "%s is missing", what);
  if ((desc->dtype != BRAID_I64 && desc->dtype != BRAID_I32) || desc->rank > 1)
    return braid_infer_fail(infer, "%s must be a list of int64 or int32", what);
  if (!tensor) return braid_infer_fail(infer, "%s must be known before the run", what);
  int64_t given = braid_desc_count(desc);
  if ((uint64_t)given > capacity)
    return braid_infer_fail(infer, "%s has %lld values, at most %zu fit", what, (long long)given, capacity);
  for (int64_t i = 0; i < given; i++) values[i] = braid_tensor_get_i64(tensor, i);
  *count = (size_t)given;
  return BRAID_OK;
}

braid_status braid_gradient_ints(braid_gradient_context *context, const int64_t *values, size_t count,
                                 braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, BRAID_I64, 1, &(int64_t){(int64_t)count}));
  BRAID_TRY(braid_tensor_create(context->graph->allocator, &desc, &tensor));
  if (count) memcpy(braid_tensor_data(tensor), values, count * sizeof *values);
  braid_status status = braid_graph_add_tensor(context->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* --- views -------------------------------------------------------------------------------------------------------- */
static braid_status infer_identity(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

static braid_status infer_reshape(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t dims[BRAID_MAX_RANK], known = 1, total = braid_desc_count(x);
  size_t rank, open = BRAID_MAX_RANK;
  bool keep_zero = braid_attr_int(&infer->node->attrs, "allowzero", 0);
  BRAID_TRY(braid_infer_ints(infer, 1, "the shape", dims, BRAID_MAX_RANK, &rank));
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] == 0 && !keep_zero) {
      if ((int)i >= x->rank) return braid_infer_fail(infer, "dimension %zu is taken from an input that has none", i);
      dims[i] = x->dims[i];
    }
    if (dims[i] < -1 || (dims[i] == -1 && open < rank))
      return braid_infer_fail(infer, "dimension %zu of the shape is %lld", i, (long long)dims[i]);
    if (dims[i] == -1)
      open = i;
    else if (!braid_mul_i64(known, dims[i], &known))
      return braid_infer_fail(infer, "the shape overflows");
  }
  if (open < rank && known && total % known == 0)
    dims[open] = total / known;
  else if (open < rank || known != total)
    return braid_infer_fail(infer, "%lld elements do not fit the shape", (long long)total);
  return braid_infer_output(infer, 0, x->dtype, (int)rank, dims);
}

static braid_status infer_flatten(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t axis = braid_attr_int(&infer->node->attrs, "axis", 1), dims[2] = {1, 1};
  if (axis < -x->rank || axis > x->rank)
    return braid_infer_fail(infer, "axis %lld is outside [%d, %d]", (long long)axis, -x->rank, x->rank);
  if (axis < 0) axis += x->rank;
  for (int i = 0; i < x->rank; i++)
    if (!braid_mul_i64(dims[i >= axis], x->dims[i], &dims[i >= axis]))
      return braid_infer_fail(infer, "the shape overflows");
  return braid_infer_output(infer, 0, x->dtype, 2, dims);
}

/* The axes of input 1 as flags over `rank`. */
static braid_status axis_flags(const braid_infer *infer, int rank, bool flags[BRAID_MAX_RANK]) {
  int64_t axes[BRAID_MAX_RANK];
  size_t count;
  BRAID_TRY(braid_infer_ints(infer, 1, "axes", axes, BRAID_MAX_RANK, &count));
  for (size_t i = 0; i < count; i++) {
    int axis;
    BRAID_TRY(braid_infer_axis(infer, axes[i], rank, &axis));
    if (flags[axis]) return braid_infer_fail(infer, "axis %d is named twice", axis);
    flags[axis] = true;
  }
  return BRAID_OK;
}

static braid_status infer_squeeze(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  bool gone[BRAID_MAX_RANK] = {false};
  int64_t dims[BRAID_MAX_RANK];
  int rank = 0;
  if (braid_infer_input(infer, 1))
    BRAID_TRY(axis_flags(infer, x->rank, gone));
  else
    for (int i = 0; i < x->rank; i++) gone[i] = x->dims[i] == 1;
  for (int i = 0; i < x->rank; i++) {
    if (gone[i] && x->dims[i] != 1)
      return braid_infer_fail(infer, "dimension %d is %lld, only 1 can be left out", i, (long long)x->dims[i]);
    if (!gone[i]) dims[rank++] = x->dims[i];
  }
  return braid_infer_output(infer, 0, x->dtype, rank, dims);
}

static braid_status infer_unsqueeze(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *axes = braid_infer_input(infer, 1);
  bool added[BRAID_MAX_RANK] = {false};
  int64_t dims[BRAID_MAX_RANK];
  int64_t rank = x->rank + (axes ? braid_desc_count(axes) : 0);
  if (rank > BRAID_MAX_RANK) return braid_infer_fail(infer, "more than %d dimensions", BRAID_MAX_RANK);
  BRAID_TRY(axis_flags(infer, (int)rank, added));
  for (int i = 0, from = 0; i < rank; i++) dims[i] = added[i] ? 1 : x->dims[from++];
  return braid_infer_output(infer, 0, x->dtype, (int)rank, dims);
}

/* The gradient in the input's shape. */
static braid_status view_gradient(braid_gradient_context *context) {
  const braid_desc desc = context->graph->values[braid_gradient_input(context, 0)].desc;
  braid_value_id gradient = braid_gradient_of_output(context, 0);
  BRAID_TRY(braid_gradient_reshape(context, gradient, desc.rank, desc.dims, &gradient));
  return braid_gradient_give(context, 0, gradient);
}

static braid_status identity_gradient(braid_gradient_context *context) {
  return braid_gradient_give(context, 0, braid_gradient_of_output(context, 0));
}

/* --- shapes and constants ----------------------------------------------------------------------------------------- */
static int64_t clamp(int64_t value, int64_t high) {
  return value < 0 ? 0 : value > high ? high : value;
}

static braid_status infer_shape(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t start = braid_attr_int(&infer->node->attrs, "start", 0);
  int64_t end = braid_attr_int(&infer->node->attrs, "end", x->rank);
  start = clamp(start < 0 ? start + x->rank : start, x->rank);
  end = clamp(end < 0 ? end + x->rank : end, x->rank);
  return braid_infer_output(infer, 0, BRAID_I64, 1, &(int64_t){end > start ? end - start : 0});
}

static braid_status infer_size(const braid_infer *infer) {
  return braid_infer_output(infer, 0, BRAID_I64, 0, NULL);
}

static braid_status infer_constant(const braid_infer *infer) {
  const braid_tensor *tensor = braid_attr_tensor(&infer->node->attrs, "value");
  if (!tensor) return braid_infer_fail(infer, "has no value");
  const braid_desc *desc = braid_tensor_desc(tensor);
  return braid_infer_output(infer, 0, desc->dtype, desc->rank, desc->dims);
}

static braid_status infer_constant_of_shape(const braid_infer *infer) {
  int64_t dims[BRAID_MAX_RANK];
  size_t rank;
  const braid_tensor *value = braid_attr_tensor(&infer->node->attrs, "value");
  if (value && braid_desc_count(braid_tensor_desc(value)) != 1)
    return braid_infer_fail(infer, "value is not one element");
  BRAID_TRY(braid_infer_ints(infer, 0, "the shape", dims, BRAID_MAX_RANK, &rank));
  return braid_infer_output(infer, 0, value ? braid_tensor_desc(value)->dtype : BRAID_F32, (int)rank, dims);
}

static braid_status infer_range(const braid_infer *infer) {
  double bounds[3];
  braid_dtype dtype = braid_infer_input(infer, 0) ? braid_infer_input(infer, 0)->dtype : BRAID_NONE;
  for (size_t i = 0; i < 3; i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    const braid_tensor *tensor = braid_infer_constant(infer, i);
    if (!desc || desc->dtype != dtype || braid_desc_count(desc) != 1)
      return braid_infer_fail(infer, "input %zu must be one number of the type of input 0", i);
    if (!tensor) return braid_infer_fail(infer, "input %zu must be known before the run", i);
    bounds[i] = braid_tensor_get_f64(tensor, 0);
  }
  double count = bounds[2] == 0 ? NAN : ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (!(count < (double)INT32_MAX))
    return braid_infer_fail(infer, "from %g to %g by %g", bounds[0], bounds[1], bounds[2]);
  return braid_infer_output(infer, 0, dtype, 1, &(int64_t){count > 0 ? (int64_t)count : 0});
}

static braid_status infer_eye_like(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t number = braid_attr_int(&infer->node->attrs, "dtype", 0);
  braid_dtype dtype = number ? braid_dtype_from_onnx(number) : x->dtype;
  if (x->rank != 2) return braid_infer_fail(infer, "its input is not a matrix");
  if (dtype == BRAID_NONE)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (EyeLike): element type %s", infer->node->name,
                      braid_onnx_dtype_name(number));
  return braid_infer_output(infer, 0, dtype, 2, x->dims);
}

static const braid_op kOps[] = {
    {"Constant", 0, 0, 1, 1, BRAID_OP_NARROW, infer_constant, NULL, NULL},
    {"ConstantOfShape", 1, 1, 1, 1, BRAID_OP_NARROW, infer_constant_of_shape, NULL, NULL},
    {"EyeLike", 1, 1, 1, 1, 0, infer_eye_like, NULL, NULL},
    {"Flatten", 1, 1, 1, 1, BRAID_OP_VIEW | BRAID_OP_NARROW, infer_flatten, NULL, view_gradient},
    {"Identity", 1, 1, 1, 1, BRAID_OP_VIEW | BRAID_OP_ELEMENTWISE | BRAID_OP_NARROW, infer_identity, NULL,
     identity_gradient},
    {"Range", 3, 3, 1, 1, 0, infer_range, NULL, NULL},
    {"Reshape", 2, 2, 1, 1, BRAID_OP_VIEW | BRAID_OP_NARROW, infer_reshape, NULL, view_gradient},
    {"Shape", 1, 1, 1, 1, BRAID_OP_NARROW, infer_shape, NULL, NULL},
    {"Size", 1, 1, 1, 1, BRAID_OP_NARROW, infer_size, NULL, NULL},
    {"Squeeze", 1, 2, 1, 1, BRAID_OP_VIEW | BRAID_OP_NARROW, infer_squeeze, NULL, view_gradient},
    {"Unsqueeze", 2, 2, 1, 1, BRAID_OP_VIEW | BRAID_OP_NARROW, infer_unsqueeze, NULL, view_gradient},
};

extern const braid_op_family braid_ops_shape;
const braid_op_family braid_ops_shape = {kOps, sizeof kOps / sizeof *kOps};
