/* Small ops that are functions of others: windows, grids, gates and updates of caches. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "graph/body.h"
#include "graph/onnx_dtype.h"
#include "graph/ops/types.h"

/* The numbers of a list that must be known before the run. */
static braid_status read_known(const braid_infer *infer, size_t index, size_t most, int64_t *out, size_t *count) {
  BRAID_TRY(braid_infer_type(infer, index, BRAID_TYPE(I64) | BRAID_TYPE(I32)));
  const braid_tensor *known = braid_infer_constant(infer, index);
  if (!known)
    return braid_infer_fail(infer, "input %zu must be known before the run: the result's shape follows from it", index);
  const braid_desc *desc = braid_tensor_desc(known);
  int64_t length = braid_desc_count(desc);
  if (desc->rank > 1 || length > (int64_t)most)
    return braid_infer_fail(infer, "input %zu has %d dimensions and %lld numbers, expected a list of at most %zu",
                            index, desc->rank, (long long)length, most);
  for (int64_t i = 0; i < length; i++) {
    out[i] = braid_tensor_get_i64(known, i);
    if (out[i] < 0) return braid_infer_fail(infer, "input %zu has a negative size, %lld", index, (long long)out[i]);
  }
  *count = (size_t)length;
  return BRAID_OK;
}

/* --- windows -------------------------------------------------------------------------------------------------------
 */
enum { kLongestWindow = 1 << 28 };

static braid_status infer_window(const braid_infer *infer) {
  int64_t size[1], to = braid_attr_int(&infer->node->attrs, "output_datatype", 1);
  size_t count;
  braid_dtype dtype = braid_dtype_from_onnx(to);
  if (!(kNumber >> dtype & 1))
    return braid_infer_fail(infer, "output_datatype is %s (%lld)", braid_onnx_dtype_name(to), (long long)to);
  BRAID_TRY(read_known(infer, 0, 1, size, &count));
  if (count != 1 || size[0] > kLongestWindow)
    return braid_infer_fail(infer, "its size is not one number of at most %d", kLongestWindow);
  return braid_infer_output(infer, 0, dtype, 1, size);
}

/* Of cosines of one and two turns; context: their weights and the number of steps of a turn. */
static double cosines(int64_t at, const double *context) {
  double turn = context[3] > 0 ? 2 * M_PI * (double)at / context[3] : M_PI;
  return context[0] - context[1] * cos(turn) + context[2] * cos(2 * turn);
}

static void expand_window(braid_body *body, double a, double b, double c) {
  const braid_desc *desc = braid_body_output_desc(body);
  bool periodic = braid_attr_int(braid_body_attrs(body), "periodic", 1) != 0;
  const double context[4] = {a, b, c, (double)(desc->dims[0] - !periodic)};
  braid_body_give(body, 0, braid_body_tabulate(body, desc, cosines, context));
}

void braid_expand_BlackmanWindow(braid_body *body) {
  expand_window(body, 0.42, 0.5, 0.08);
}

void braid_expand_HammingWindow(braid_body *body) {
  expand_window(body, 25.0 / 46, 21.0 / 46, 0);
}

void braid_expand_HannWindow(braid_body *body) {
  expand_window(body, 0.5, 0.5, 0);
}

/* --- AffineGrid ----------------------------------------------------------------------------------------------------
 */
static braid_status infer_affine_grid(const braid_infer *infer) {
  int64_t size[5], dims[5];
  size_t count;
  const braid_desc *theta = braid_infer_input(infer, 0);
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  BRAID_TRY(read_known(infer, 1, 5, size, &count));
  int64_t axes = (int64_t)count - 2;
  if (axes < 2) return braid_infer_fail(infer, "size has %zu numbers, expected 4 or 5", count);
  if (theta->rank != 3 || theta->dims[0] != size[0] || theta->dims[1] != axes || theta->dims[2] != axes + 1) {
    char text[128];
    return braid_infer_fail(infer, "theta is %s, expected %lld x %lld x %lld",
                            braid_desc_format(theta, text, sizeof text), (long long)size[0], (long long)axes,
                            (long long)axes + 1);
  }
  dims[0] = size[0];
  for (int64_t i = 0; i < axes; i++) dims[1 + i] = size[2 + i];
  dims[1 + axes] = axes;
  return braid_infer_output(infer, 0, theta->dtype, (int)count, dims);
}

/* Row `coordinate` (x first, the last of ones) of all points; context: corners, axes, and the sizes. */
static double grid_point(int64_t at, const double *context) {
  int axes = (int)context[1];
  int64_t points = 1, inner = 1;
  for (int i = 0; i < axes; i++) points *= (int64_t)context[2 + i];
  int coordinate = (int)(at / points), axis = axes - 1 - coordinate;
  if (axis < 0) return 1;
  for (int i = axis + 1; i < axes; i++) inner *= (int64_t)context[2 + i];
  double size = context[2 + axis], place = (double)(at % points / inner % (int64_t)size);
  if (context[0] != 0) return size > 1 ? 2 * place / (size - 1) - 1 : -1;
  return (2 * place + 1) / size - 1;
}

void braid_expand_AffineGrid(braid_body *body) {
  const braid_desc grid = *braid_body_output_desc(body);
  int64_t axes = grid.rank - 2, points = 1;
  double context[5] = {(double)braid_attr_int(braid_body_attrs(body), "align_corners", 0), (double)axes};
  for (int i = 0; i < axes; i++) {
    context[2 + i] = (double)grid.dims[1 + i];
    points *= grid.dims[1 + i];
  }
  braid_desc desc;
  if (body->status == BRAID_OK) body->status = braid_desc_init(&desc, grid.dtype, 2, (int64_t[]){axes + 1, points});
  if (body->status != BRAID_OK) return;
  braid_value_id moved =
      braid_body_2(body, "MatMul", braid_body_input(body, 0), braid_body_tabulate(body, &desc, grid_point, context));
  moved = braid_body_transpose(body, moved, (int64_t[]){0, 2, 1});
  braid_body_give(body, 0, braid_body_reshape(body, moved, grid.rank, grid.dims));
}

/* --- CenterCropPad -------------------------------------------------------------------------------------------------
 */
static braid_status infer_crop(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t sizes[BRAID_MAX_RANK], dims[BRAID_MAX_RANK];
  size_t count, listed;
  BRAID_TRY(braid_infer_type(infer, 0, kAnyType));
  BRAID_TRY(read_known(infer, 1, BRAID_MAX_RANK, sizes, &count));
  const int64_t *axes = braid_attr_ints(&infer->node->attrs, "axes", &listed);
  if (count != (axes ? listed : (size_t)x->rank))
    return braid_infer_fail(infer, "%zu sizes for %zu axes", count, axes ? listed : (size_t)x->rank);
  memcpy(dims, x->dims, sizeof dims);
  for (size_t i = 0; i < count; i++) {
    int axis = (int)i;
    if (axes) BRAID_TRY(braid_infer_axis(infer, axes[i], x->rank, &axis));
    dims[axis] = sizes[i];
  }
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

void braid_expand_CenterCropPad(braid_body *body) {
  braid_value_id x = braid_body_input(body, 0);
  const braid_desc from = *braid_body_desc(body, x), to = *braid_body_output_desc(body);
  int64_t pads[2 * BRAID_MAX_RANK];
  for (int i = 0; i < from.rank; i++) {
    int64_t more = to.dims[i] - from.dims[i];
    pads[i] = more > 0 ? more / 2 : 0;
    pads[from.rank + i] = more > 0 ? more - more / 2 : 0;
    if (more < 0) x = braid_body_slice(body, x, i, -more / 2, -more / 2 + to.dims[i]);
  }
  braid_value_id list = braid_body_int64s(body, pads, 2 * (size_t)from.rank);
  braid_body_give(body, 0, braid_body_2(body, "Pad", x, list));
}

/* --- SwiGLU --------------------------------------------------------------------------------------------------------
 */
static braid_status infer_swiglu(const braid_infer *infer) {
  const braid_desc *a = braid_infer_input(infer, 0), *b = braid_infer_input(infer, 1);
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  BRAID_TRY(braid_infer_same_type(infer, 1, 0));
  if (!braid_desc_same_shape(a, b)) return braid_infer_fail(infer, "gate and value differ in shape");
  return braid_infer_output(infer, 0, a->dtype, a->rank, a->dims);
}

void braid_expand_SwiGLU(braid_body *body) {
  const braid_body_attr attrs[] = {
      {.name = "alpha", .is_float = true, .f = braid_attr_float(braid_body_attrs(body), "alpha", 1)}, {0}};
  braid_value_id gate = braid_body_input(body, 0);
  gate = braid_body_node(body, "Swish", &gate, 1, attrs);
  braid_body_give(body, 0, braid_body_2(body, "Mul", gate, braid_body_input(body, 1)));
}

/* --- CausalConvWithState -------------------------------------------------------------------------------------------
 */
static bool has_shape(const braid_desc *desc, int rank, const int64_t *dims) {
  bool same = desc->rank == rank;
  for (int i = 0; same && i < rank; i++) same = desc->dims[i] == dims[i];
  return same;
}

static braid_status infer_causal_conv(const braid_infer *infer) {
  const braid_desc *x = braid_infer_input(infer, 0), *w = braid_infer_input(infer, 1);
  const braid_desc *bias = braid_infer_input(infer, 2), *past = braid_infer_input(infer, 3);
  const char *activation = braid_attr_string(&infer->node->attrs, "activation", "none");
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  for (size_t i = 1; i < braid_infer_inputs(infer); i++)
    if (braid_infer_input(infer, i)) BRAID_TRY(braid_infer_same_type(infer, i, 0));
  if (strcmp(activation, "none") != 0 && strcmp(activation, "silu") != 0 && strcmp(activation, "swish") != 0)
    return braid_infer_fail(infer, "activation is \"%.40s\", expected none, silu or swish", activation);
  if (x->rank != 3 || w->rank != 3 || w->dims[2] < 1)
    return braid_infer_fail(infer, "input and weight have %d and %d dimensions, expected 3, and a kernel of 1 or more",
                            x->rank, w->rank);
  int64_t channels = x->dims[1], kernel = w->dims[2];
  const int64_t state[3] = {x->dims[0], channels, kernel - 1};
  if (!has_shape(w, 3, (int64_t[]){channels, 1, kernel}))
    return braid_infer_fail(infer, "the weight is not of %lld channels with a kernel each", (long long)channels);
  if (bias && !has_shape(bias, 1, &channels))
    return braid_infer_fail(infer, "the bias is not of %lld channels", (long long)channels);
  if (past && !has_shape(past, 3, state))
    return braid_infer_fail(infer, "past_state is not %lld x %lld x %lld", (long long)state[0], (long long)state[1],
                            (long long)state[2]);
  BRAID_TRY(braid_infer_output(infer, 0, x->dtype, 3, x->dims));
  return braid_infer_output(infer, 1, x->dtype, 3, state);
}

void braid_expand_CausalConvWithState(braid_body *body) {
  braid_value_id x = braid_body_input(body, 0), w = braid_body_input(body, 1), past = braid_body_input(body, 3);
  const braid_desc shape = *braid_body_desc(body, x);
  int64_t kernel = braid_body_desc(body, w)->dims[2], state[3] = {shape.dims[0], shape.dims[1], kernel - 1};
  if (kernel > 1) {
    if (past < 0) past = braid_body_expand_to(body, braid_body_scalar(body, shape.dtype, 0), 3, state);
    x = braid_body_concat(body, (braid_value_id[]){past, x}, 2, 2);
  }
  const braid_body_attr attrs[] = {{.name = "group", .i = shape.dims[1]}, {0}};
  braid_value_id operands[3] = {x, w, braid_body_input(body, 2)};
  braid_value_id y = braid_body_node(body, "Conv", operands, operands[2] < 0 ? 2 : 3, attrs);
  if (strcmp(braid_attr_string(braid_body_attrs(body), "activation", "none"), "none") != 0)
    y = braid_body_1(body, "Swish", y);
  braid_body_give(body, 0, y);
  if (braid_body_wants(body, 1))
    braid_body_give(body, 1, braid_body_slice(body, x, 2, shape.dims[2], shape.dims[2] + kernel - 1));
}

/* --- TensorScatter -------------------------------------------------------------------------------------------------
 */
static braid_status infer_tensor_scatter(const braid_infer *infer) {
  const braid_desc *cache = braid_infer_input(infer, 0), *update = braid_infer_input(infer, 1);
  const braid_desc *at = braid_infer_input(infer, 2);
  const char *mode = braid_attr_string(&infer->node->attrs, "mode", "linear");
  int axis;
  BRAID_TRY(braid_infer_type(infer, 0, kAnyType));
  BRAID_TRY(braid_infer_same_type(infer, 1, 0));
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", -2), cache->rank, &axis));
  if (axis == 0) return braid_infer_fail(infer, "axis is the batch");
  if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0)
    return braid_infer_fail(infer, "mode is \"%.40s\", expected linear or circular", mode);
  bool fits = update->rank == cache->rank;
  for (int i = 0; fits && i < cache->rank; i++)
    fits = i == axis ? update->dims[i] <= cache->dims[i] : update->dims[i] == cache->dims[i];
  if (!fits) {
    char a[128], b[128];
    return braid_infer_fail(infer, "an update of %s does not fit a cache of %s", braid_desc_format(update, a, sizeof a),
                            braid_desc_format(cache, b, sizeof b));
  }
  if (at) {
    BRAID_TRY(braid_infer_type(infer, 2, BRAID_TYPE(I64)));
    if (!has_shape(at, 1, cache->dims))
      return braid_infer_fail(infer, "write_indices are not one for each of %lld samples", (long long)cache->dims[0]);
  }
  return braid_infer_output(infer, 0, cache->dtype, cache->rank, cache->dims);
}

static double itself(int64_t at, const double *context) {
  (void)context;
  return (double)at;
}

void braid_expand_TensorScatter(braid_body *body) {
  braid_value_id cache = braid_body_input(body, 0), update = braid_body_input(body, 1), at = braid_body_input(body, 2);
  const braid_desc shape = *braid_body_desc(body, update), whole = *braid_body_desc(body, cache);
  int axis = (int)braid_attr_int(braid_body_attrs(body), "axis", -2);
  if (axis < 0) axis += shape.rank;
  braid_desc along = {.dtype = BRAID_I64, .rank = shape.rank}, batch = along;
  for (int i = 0; i < shape.rank; i++) along.dims[i] = batch.dims[i] = 1;
  along.dims[axis] = shape.dims[axis];
  batch.dims[0] = shape.dims[0];
  braid_value_id places = braid_body_tabulate(body, &along, itself, NULL);
  if (at >= 0) places = braid_body_2(body, "Add", places, braid_body_reshape(body, at, batch.rank, batch.dims));
  if (strcmp(braid_attr_string(braid_body_attrs(body), "mode", "linear"), "circular") == 0)
    places = braid_body_with(body, "Mod", places, (double)whole.dims[axis]);
  places = braid_body_expand_to(body, places, shape.rank, shape.dims);
  const braid_body_attr attrs[] = {{.name = "axis", .i = axis}, {0}};
  braid_body_give(body, 0,
                  braid_body_node(body, "ScatterElements", (braid_value_id[]){cache, places, update}, 3, attrs));
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_op kOps[] = {
    {"AffineGrid", 2, 2, 1, 1, BRAID_OP_FUNCTION, infer_affine_grid, NULL, NULL},
    {"BlackmanWindow", 1, 1, 1, 1, BRAID_OP_FUNCTION, infer_window, NULL, NULL},
    {"CausalConvWithState", 2, 4, 1, 2, BRAID_OP_FUNCTION, infer_causal_conv, NULL, NULL},
    {"CenterCropPad", 2, 2, 1, 1, BRAID_OP_FUNCTION, infer_crop, NULL, NULL},
    {"HammingWindow", 1, 1, 1, 1, BRAID_OP_FUNCTION, infer_window, NULL, NULL},
    {"HannWindow", 1, 1, 1, 1, BRAID_OP_FUNCTION, infer_window, NULL, NULL},
    {"SwiGLU", 2, 2, 1, 1, BRAID_OP_FUNCTION, infer_swiglu, NULL, NULL},
    {"TensorScatter", 2, 3, 1, 1, BRAID_OP_FUNCTION, infer_tensor_scatter, NULL, NULL},
};

extern const braid_op_family braid_ops_function;
const braid_op_family braid_ops_function = {kOps, sizeof kOps / sizeof *kOps};
