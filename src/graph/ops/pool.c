/* Pools and their gradients.
 *
 * MaxPool has a third output of our own, Window: for each output element the place of its maximum inside the window,
 * (d * kernel_h + h) * kernel_w + w, as uint8 if every place fits and else int32. MaxPoolGrad(dy, window) scatters by
 * it. Gradients carry the forward op's attributes and input_shape, the spatial dimensions of their result. */
#include "base/try.h"
#include "graph/geometry.h"
#include "graph/gradient.h"

static braid_status prefixed(const braid_infer *infer, braid_status status) {
  if (status == BRAID_OK) return BRAID_OK;
  return braid_fail_prefix(status, "node %.120s (%s)", infer->node->name, infer->node->op->name);
}

static braid_status check_first(const braid_infer *infer, bool bytes) {
  const braid_desc *x = braid_infer_input(infer, 0);
  if (!x) return braid_infer_fail(infer, "input 0 is missing");
  if (braid_dtype_is_float(x->dtype) || (bytes && (x->dtype == BRAID_I8 || x->dtype == BRAID_U8))) return BRAID_OK;
  return braid_infer_fail(infer, "input 0 is %s, not floating-point%s", braid_dtype_name(x->dtype),
                          bytes ? ", int8 or uint8" : "");
}

/* x with its spatial dimensions replaced. */
static braid_status give_image(const braid_infer *infer, size_t index, braid_dtype dtype, int rank,
                               const int64_t *spatial) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t dims[BRAID_MAX_RANK] = {x->dims[0], x->dims[1]};
  for (int i = 0; i < rank; i++) dims[2 + i] = spatial[BRAID_WINDOW_RANK - rank + i];
  return braid_infer_output(infer, index, dtype, rank + 2, dims);
}

static braid_dtype place_dtype(const braid_window *window) {
  return braid_window_volume(window) <= 256 ? BRAID_U8 : BRAID_I32;
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static braid_status infer_max_pool(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_first(infer, true));
  const braid_desc *x = braid_infer_input(infer, 0);
  BRAID_TRY(prefixed(infer, braid_geometry_pool(&infer->node->attrs, x, &window)));
  BRAID_TRY(give_image(infer, 0, x->dtype, window.rank, window.output));
  BRAID_TRY(give_image(infer, 1, BRAID_I64, window.rank, window.output));
  return give_image(infer, 2, place_dtype(&window), window.rank, window.output);
}

static braid_status infer_pool(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_first(infer, false));
  const braid_desc *x = braid_infer_input(infer, 0);
  if (braid_attr_int(&infer->node->attrs, "p", 2) < 1) return braid_infer_fail(infer, "p is less than 1");
  BRAID_TRY(prefixed(infer, braid_geometry_pool(&infer->node->attrs, x, &window)));
  return give_image(infer, 0, x->dtype, window.rank, window.output);
}

static braid_status infer_global(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_first(infer, false));
  const braid_desc *x = braid_infer_input(infer, 0);
  if (braid_attr_int(&infer->node->attrs, "p", 2) < 1) return braid_infer_fail(infer, "p is less than 1");
  BRAID_TRY(prefixed(infer, braid_geometry_global(x, &window)));
  int64_t dims[BRAID_MAX_RANK] = {x->dims[0], x->dims[1], 1, 1, 1, 1, 1, 1};
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* The result's shape from input 2 or, as older models have it, an attribute; whole, or spatial dimensions only. */
static braid_status unpooled_shape(const braid_infer *infer, const braid_desc *x, int64_t *dims) {
  const braid_desc *desc = braid_infer_input(infer, 2);
  if (!desc) {
    braid_window window;
    BRAID_TRY(prefixed(infer, braid_geometry_unpool(&infer->node->attrs, x, &window)));
    for (int i = 2; i < x->rank; i++) dims[i] = window.input[BRAID_WINDOW_RANK - x->rank + i];
    return BRAID_OK;
  }
  const braid_tensor *shape = braid_infer_constant(infer, 2);
  if (!shape) return braid_infer_fail(infer, "output_shape must be known before the run");
  if (desc->rank != 1 || desc->dtype != BRAID_I64 || desc->dims[0] != x->rank)
    return braid_infer_fail(infer, "output_shape must be %d int64 numbers", x->rank);
  for (int i = 0; i < x->rank; i++) {
    int64_t size = braid_tensor_get_i64(shape, i);
    if (size < 0 || (i < 2 && size != x->dims[i]))
      return braid_infer_fail(infer, "output_shape[%d] is %lld", i, (long long)size);
    dims[i] = size;
  }
  return BRAID_OK;
}

static braid_status infer_unpool(const braid_infer *infer) {
  BRAID_TRY(check_first(infer, false));
  const braid_desc *x = braid_infer_input(infer, 0), *indices = braid_infer_input(infer, 1);
  if (!indices || indices->dtype != BRAID_I64 || !braid_desc_same_shape(x, indices))
    return braid_infer_fail(infer, "the indices must be int64 and have the input's shape");
  int64_t dims[BRAID_MAX_RANK] = {x->dims[0], x->dims[1]};
  BRAID_TRY(unpooled_shape(infer, x, dims));
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
static braid_status infer_max_pool_grad(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_first(infer, false));
  const braid_desc *dy = braid_infer_input(infer, 0), *place = braid_infer_input(infer, 1);
  BRAID_TRY(prefixed(infer, braid_geometry_pool_grad(&infer->node->attrs, dy, &window)));
  if (!place || place->dtype != place_dtype(&window) || !braid_desc_same_shape(dy, place))
    return braid_infer_fail(infer, "input 1 must be the Window output of MaxPool");
  return give_image(infer, 0, dy->dtype, window.rank, window.input);
}

static braid_status infer_average_pool_grad(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(check_first(infer, false));
  const braid_desc *dy = braid_infer_input(infer, 0);
  BRAID_TRY(prefixed(infer, braid_geometry_pool_grad(&infer->node->attrs, dy, &window)));
  return give_image(infer, 0, dy->dtype, window.rank, window.input);
}

static braid_status infer_global_average_pool_grad(const braid_infer *infer) {
  BRAID_TRY(check_first(infer, false));
  const braid_desc *dy = braid_infer_input(infer, 0);
  size_t count;
  const int64_t *shape = braid_attr_ints(&infer->node->attrs, "input_shape", &count);
  if (dy->rank < 3 || count != (size_t)dy->rank - 2)
    return braid_infer_fail(infer, "input_shape must have a number for each spatial dimension");
  int64_t dims[BRAID_MAX_RANK] = {dy->dims[0], dy->dims[1]};
  for (size_t i = 0; i < count; i++) {
    dims[2 + i] = shape[i];
    if (dy->dims[2 + i] != 1) return braid_infer_fail(infer, "the output's gradient is not one number per channel");
  }
  return braid_infer_output(infer, 0, dy->dtype, dy->rank, dims);
}

/* (dy, x) and (dy, x, y): the result is like x. */
static braid_status infer_like_x(const braid_infer *infer) {
  BRAID_TRY(check_first(infer, false));
  const braid_desc *dy = braid_infer_input(infer, 0), *x = braid_infer_input(infer, 1),
                   *y = braid_infer_input(infer, 2);
  if (!x || x->dtype != dy->dtype || x->rank != dy->rank)
    return braid_infer_fail(infer, "input 1 must be the forward op's input");
  if (y && (y->dtype != dy->dtype || !braid_desc_same_shape(y, dy)))
    return braid_infer_fail(infer, "input 2 must be the forward op's output");
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

static braid_status infer_lp_pool_grad(const braid_infer *infer) {
  braid_window window;
  BRAID_TRY(infer_like_x(infer));
  const braid_desc *dy = braid_infer_input(infer, 0), *x = braid_infer_input(infer, 1);
  BRAID_TRY(prefixed(infer, braid_geometry_pool(&infer->node->attrs, x, &window)));
  for (int i = 2; i < x->rank; i++)
    if (dy->dims[i] != window.output[BRAID_WINDOW_RANK - x->rank + i])
      return braid_infer_fail(infer, "the output's gradient has not the output's shape");
  return BRAID_OK;
}

static braid_status infer_global_like_x(const braid_infer *infer) {
  BRAID_TRY(infer_like_x(infer));
  const braid_desc *dy = braid_infer_input(infer, 0);
  if (dy->rank < 3) return braid_infer_fail(infer, "the output's gradient has rank %d, not 3 or more", dy->rank);
  for (int i = 2; i < dy->rank; i++)
    if (dy->dims[i] != 1) return braid_infer_fail(infer, "the output's gradient is not one number per channel");
  return BRAID_OK;
}

static braid_status infer_unpool_grad(const braid_infer *infer) {
  BRAID_TRY(check_first(infer, false));
  const braid_desc *indices = braid_infer_input(infer, 1);
  if (!indices || indices->dtype != BRAID_I64) return braid_infer_fail(infer, "the indices must be int64");
  return braid_infer_output(infer, 0, braid_infer_input(infer, 0)->dtype, indices->rank, indices->dims);
}

/* Adds a node `op` over `inputs` with the forward attributes, for the gradient of input 0. */
static braid_status give(braid_gradient_context *context, const char *op, const braid_value_id *inputs, size_t count,
                         bool with_shape) {
  braid_graph *graph = context->graph;
  const braid_desc x = graph->values[braid_gradient_input(context, 0)].desc;
  braid_value_id dx;
  braid_node_id id;
  BRAID_TRY(braid_gradient_node(context, op, inputs, count, &dx, &id));
  if (with_shape) BRAID_TRY(braid_graph_set_ints(graph, id, "input_shape", x.dims + 2, (size_t)x.rank - 2));
  BRAID_TRY(braid_gradient_copy_attrs(context, id));
  return braid_gradient_give(context, 0, dx);
}

static braid_status max_pool_gradient(braid_gradient_context *context) {
  braid_value_id window, dy = braid_gradient_of_output(context, 0);
  if (dy < 0) return BRAID_OK; /* only the indices reach the loss */
  BRAID_TRY(braid_gradient_add_output(context, 2, &window));
  return give(context, "MaxPoolGrad", (braid_value_id[]){dy, window}, 2, true);
}

static braid_status average_pool_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0);
  return give(context, "AveragePoolGrad", &dy, 1, true);
}

static braid_status global_average_pool_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0);
  return give(context, "GlobalAveragePoolGrad", &dy, 1, true);
}

static braid_status global_max_pool_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0), x = braid_gradient_input(context, 0);
  return give(context, "GlobalMaxPoolGrad", (braid_value_id[]){dy, x}, 2, false);
}

static braid_status lp_gradient(braid_gradient_context *context, const char *op) {
  braid_value_id dy = braid_gradient_of_output(context, 0), x = braid_gradient_input(context, 0);
  return give(context, op, (braid_value_id[]){dy, x, braid_gradient_output(context, 0)}, 3, false);
}

static braid_status lp_pool_gradient(braid_gradient_context *context) {
  return lp_gradient(context, "LpPoolGrad");
}

static braid_status global_lp_pool_gradient(braid_gradient_context *context) {
  return lp_gradient(context, "GlobalLpPoolGrad");
}

static braid_status unpool_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0), indices = braid_gradient_input(context, 1);
  return give(context, "MaxUnpoolGrad", (braid_value_id[]){dy, indices}, 2, false);
}

static const braid_op kOps[] = {
    {"MaxPool", 1, 1, 1, 3, 0, infer_max_pool, NULL, max_pool_gradient},
    {"AveragePool", 1, 1, 1, 1, 0, infer_pool, NULL, average_pool_gradient},
    {"LpPool", 1, 1, 1, 1, 0, infer_pool, NULL, lp_pool_gradient},
    {"GlobalMaxPool", 1, 1, 1, 1, 0, infer_global, NULL, global_max_pool_gradient},
    {"GlobalAveragePool", 1, 1, 1, 1, 0, infer_global, NULL, global_average_pool_gradient},
    {"GlobalLpPool", 1, 1, 1, 1, 0, infer_global, NULL, global_lp_pool_gradient},
    {"MaxUnpool", 2, 3, 1, 1, 0, infer_unpool, NULL, unpool_gradient},
    {"MaxPoolGrad", 2, 2, 1, 1, 0, infer_max_pool_grad, NULL, NULL},
    {"AveragePoolGrad", 1, 1, 1, 1, 0, infer_average_pool_grad, NULL, NULL},
    {"LpPoolGrad", 3, 3, 1, 1, 0, infer_lp_pool_grad, NULL, NULL},
    {"GlobalMaxPoolGrad", 2, 2, 1, 1, 0, infer_global_like_x, NULL, NULL},
    {"GlobalAveragePoolGrad", 1, 1, 1, 1, 0, infer_global_average_pool_grad, NULL, NULL},
    {"GlobalLpPoolGrad", 3, 3, 1, 1, 0, infer_global_like_x, NULL, NULL},
    {"MaxUnpoolGrad", 2, 2, 1, 1, 0, infer_unpool_grad, NULL, NULL},
};

extern const braid_op_family braid_ops_pool;
const braid_op_family braid_ops_pool = {kOps, sizeof kOps / sizeof *kOps};
