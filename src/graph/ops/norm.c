/* Normalizations and their gradients.
 *
 * BatchNormalization has two outputs of our own behind the running statistics, in training mode: saved_mean and
 * saved_inv_std of the batch. BatchNormalizationGrad(dy, x, scale, mean, spread) gives dx, dscale, dbias; in training
 * mode `spread` is saved_inv_std, otherwise it is the variance that the forward op was given.
 * BatchNormalizationReluGrad also takes the bias: with a Relu behind it dy counts where the normalized x is above 0.
 * The gradients of the other normalizations take x and find its statistics again, which costs less than keeping them.
 */
#include <string.h>

#include "base/try.h"
#include "graph/gradient.h"

/* --- shapes --------------------------------------------------------------------------------------------------------
 */
static braid_status check_floats(const braid_infer *infer) {
  for (size_t i = 0; i < braid_infer_inputs(infer); i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    if (!desc && i < (size_t)infer->node->op->min_inputs) return braid_infer_fail(infer, "input %zu is missing", i);
    if (desc && !braid_dtype_is_float(desc->dtype))
      return braid_infer_fail(infer, "input %zu is %s, not floating-point", i, braid_dtype_name(desc->dtype));
  }
  return BRAID_OK;
}

/* Input `index`, if there, has one number for each of `count` channels or elements. */
static braid_status check_vector(const braid_infer *infer, size_t index, int64_t count) {
  const braid_desc *desc = braid_infer_input(infer, index);
  if (!desc || (desc->rank == 1 && desc->dims[0] == count)) return BRAID_OK;
  char text[128];
  return braid_infer_fail(infer, "input %zu is %s, not %lld numbers in one dimension", index,
                          braid_desc_format(desc, text, sizeof text), (long long)count);
}

static braid_status give_like(const braid_infer *infer, size_t output, size_t input) {
  const braid_desc *desc = braid_infer_input(infer, input);
  return braid_infer_output(infer, output, desc->dtype, desc->rank, desc->dims);
}

/* A single dimension is the batch: one channel. */
static int64_t channels_of(const braid_desc *x) {
  return x->rank > 1 ? x->dims[1] : 1;
}

static braid_status infer_batch(const braid_infer *infer) {
  BRAID_TRY(check_floats(infer));
  const braid_desc *x = braid_infer_input(infer, 0);
  if (x->rank < 1) return braid_infer_fail(infer, "the input has rank 0");
  int64_t channels = channels_of(x);
  for (size_t i = 1; i < 5; i++) BRAID_TRY(check_vector(infer, i, channels));
  bool training = braid_attr_int(&infer->node->attrs, "training_mode", 0) != 0;
  for (size_t i = 1; i < infer->node->output_count && !training; i++)
    if (infer->node->outputs[i] >= 0) return braid_infer_fail(infer, "output %zu is given in training mode only", i);
  BRAID_TRY(give_like(infer, 0, 0));
  for (size_t i = 1; i < 5; i++) BRAID_TRY(give_like(infer, i, i % 2 ? 3 : 4));
  return BRAID_OK;
}

static braid_status infer_batch_grad(const braid_infer *infer) {
  BRAID_TRY(check_floats(infer));
  const braid_desc *dy = braid_infer_input(infer, 0), *x = braid_infer_input(infer, 1);
  if (x->rank < 1 || !braid_desc_same_shape(dy, x))
    return braid_infer_fail(infer, "the output's gradient has not the input's shape");
  for (size_t i = 2; i < braid_infer_inputs(infer); i++) BRAID_TRY(check_vector(infer, i, channels_of(x)));
  BRAID_TRY(give_like(infer, 0, 1));
  BRAID_TRY(give_like(infer, 1, 2));
  return give_like(infer, 2, 2);
}

static braid_status infer_instance(const braid_infer *infer) {
  BRAID_TRY(check_floats(infer));
  const braid_desc *x = braid_infer_input(infer, 0);
  if (x->rank < 3) return braid_infer_fail(infer, "the input has rank %d, not 3 or more", x->rank);
  BRAID_TRY(check_vector(infer, 1, x->dims[1]));
  BRAID_TRY(check_vector(infer, 2, x->dims[1]));
  return give_like(infer, 0, 0);
}

static braid_status check_groups(const braid_infer *infer, const braid_desc *x) {
  int64_t groups = braid_attr_int(&infer->node->attrs, "num_groups", 0);
  if (x->rank < 2) return braid_infer_fail(infer, "the input has rank %d, not 2 or more", x->rank);
  if (groups < 1 || x->dims[1] % groups != 0)
    return braid_infer_fail(infer, "num_groups is %lld, which does not divide %lld channels", (long long)groups,
                            (long long)x->dims[1]);
  return BRAID_OK;
}

static braid_status infer_group(const braid_infer *infer) {
  BRAID_TRY(check_floats(infer));
  const braid_desc *x = braid_infer_input(infer, 0);
  BRAID_TRY(check_groups(infer, x));
  BRAID_TRY(check_vector(infer, 1, x->dims[1]));
  BRAID_TRY(check_vector(infer, 2, x->dims[1]));
  return give_like(infer, 0, 0);
}

/* The normalized dimensions begin at `axis`; scale and bias have their shape, or one that differs by leading ones. */
static braid_status check_trailing(const braid_infer *infer, const braid_desc *x, size_t first, size_t last,
                                   int *axis) {
  if (x->rank < 1) return braid_infer_fail(infer, "the input has rank 0");
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", -1), x->rank, axis));
  for (size_t i = first; i <= last; i++) {
    const braid_desc *desc = braid_infer_input(infer, i);
    if (!desc) continue;
    bool fits = desc->rank <= x->rank && desc->rank >= x->rank - *axis;
    for (int d = 0; fits && d < desc->rank; d++) {
      int at = x->rank - desc->rank + d;
      fits = desc->dims[d] == (at < *axis ? 1 : x->dims[at]);
    }
    char text[128];
    if (!fits)
      return braid_infer_fail(infer, "input %zu is %s, which is not the shape of the input from axis %d on", i,
                              braid_desc_format(desc, text, sizeof text), *axis);
  }
  return BRAID_OK;
}

static braid_status infer_layer(const braid_infer *infer) {
  int axis;
  BRAID_TRY(check_floats(infer));
  const braid_desc *x = braid_infer_input(infer, 0);
  BRAID_TRY(check_trailing(infer, x, 1, 2, &axis));
  BRAID_TRY(give_like(infer, 0, 0));
  int64_t dims[BRAID_MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = i < axis ? x->dims[i] : 1;
  for (size_t i = 1; i < 3; i++) BRAID_TRY(braid_infer_output(infer, i, BRAID_F32, x->rank, dims));
  return BRAID_OK;
}

/* (dy, x, scale) -> dx, dscale, dbias */
static braid_status check_row_grad(const braid_infer *infer) {
  BRAID_TRY(check_floats(infer));
  if (!braid_desc_same_shape(braid_infer_input(infer, 0), braid_infer_input(infer, 1)))
    return braid_infer_fail(infer, "the output's gradient has not the input's shape");
  BRAID_TRY(give_like(infer, 0, 1));
  BRAID_TRY(give_like(infer, 1, 2));
  return give_like(infer, 2, 2);
}

static braid_status infer_layer_grad(const braid_infer *infer) {
  int axis;
  BRAID_TRY(check_row_grad(infer));
  return check_trailing(infer, braid_infer_input(infer, 1), 2, 2, &axis);
}

static braid_status infer_channel_grad(const braid_infer *infer) {
  BRAID_TRY(check_row_grad(infer));
  const braid_desc *x = braid_infer_input(infer, 1);
  if (strcmp(infer->node->op->name, "GroupNormalizationGrad") == 0)
    BRAID_TRY(check_groups(infer, x));
  else if (x->rank < 3)
    return braid_infer_fail(infer, "the input has rank %d, not 3 or more", x->rank);
  return check_vector(infer, 2, x->dims[1]);
}

/* LpNormalization, MeanVarianceNormalization, LRN; with (dy, x) as inputs, their gradients. */
static braid_status infer_same(const braid_infer *infer) {
  BRAID_TRY(check_floats(infer));
  const braid_desc *x = braid_infer_input(infer, 0), *second = braid_infer_input(infer, 1);
  if (second && (second->dtype != x->dtype || !braid_desc_same_shape(second, x)))
    return braid_infer_fail(infer, "its two inputs differ in type or shape");
  return give_like(infer, 0, 0);
}

static braid_status infer_lp(const braid_infer *infer) {
  int axis;
  int64_t p = braid_attr_int(&infer->node->attrs, "p", 2);
  if (p != 1 && p != 2) return braid_infer_fail(infer, "p is %lld, not 1 or 2", (long long)p);
  BRAID_TRY(check_floats(infer));
  BRAID_TRY(braid_infer_axis(infer, braid_attr_int(&infer->node->attrs, "axis", -1), braid_infer_input(infer, 0)->rank,
                             &axis));
  return infer_same(infer);
}

static braid_status infer_mean_variance(const braid_infer *infer) {
  static const int64_t kDefault[] = {0, 2, 3};
  size_t count;
  const int64_t *axes = braid_attr_ints(&infer->node->attrs, "axes", &count);
  if (!axes) axes = kDefault, count = 3;
  BRAID_TRY(check_floats(infer));
  for (size_t i = 0; i < count; i++) {
    int axis;
    BRAID_TRY(braid_infer_axis(infer, axes[i], braid_infer_input(infer, 0)->rank, &axis));
  }
  return infer_same(infer);
}

static braid_status infer_lrn(const braid_infer *infer) {
  int64_t size = braid_attr_int(&infer->node->attrs, "size", 0);
  BRAID_TRY(check_floats(infer));
  if (size < 1 || size > INT32_MAX) return braid_infer_fail(infer, "size is %lld, not positive", (long long)size);
  if (braid_infer_input(infer, 0)->rank < 2) return braid_infer_fail(infer, "the input has no channels");
  return infer_same(infer);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
/* Adds a backward node with outputs for the gradients of input 0, scale and bias (-1: not wanted), forward inputs 0, 1
 * and 2, and hands them over. */
static braid_status give_three(braid_gradient_context *context, const char *op, const braid_value_id *inputs,
                               size_t count, size_t outputs) {
  braid_value_id given[3] = {-1, -1, -1};
  braid_node_id id;
  for (size_t i = 0; i < 3; i++)
    if (braid_gradient_wanted(context, i)) given[i] = 0;
  BRAID_TRY(braid_graph_add_node(context->graph, op, NULL, inputs, count, given, outputs, &id));
  context->graph->nodes[id].backward = true;
  BRAID_TRY(braid_gradient_copy_attrs(context, id));
  for (size_t i = 0; i < outputs; i++)
    if (given[i] >= 0) BRAID_TRY(braid_gradient_give_reduced(context, i, given[i]));
  return BRAID_OK;
}

static braid_status batch_gradient(braid_gradient_context *context) {
  braid_value_id dy = braid_gradient_of_output(context, 0);
  braid_value_id mean = braid_gradient_input(context, 3), spread = braid_gradient_input(context, 4);
  bool training = braid_attr_int(&context->graph->nodes[context->node].attrs, "training_mode", 0) != 0;
  if (dy < 0) return BRAID_OK; /* only the running statistics reach the loss */
  if (!training && (braid_gradient_wanted(context, 3) || braid_gradient_wanted(context, 4)))
    return braid_fail(BRAID_UNSUPPORTED, "given statistics have no gradient");
  if (training) {
    BRAID_TRY(braid_gradient_add_output(context, 3, &mean));
    BRAID_TRY(braid_gradient_add_output(context, 4, &spread));
  }
  braid_value_id inputs[] = {dy, braid_gradient_input(context, 0), braid_gradient_input(context, 1), mean, spread};
  return give_three(context, "BatchNormalizationGrad", inputs, 5, 3);
}

static braid_status row_gradient(braid_gradient_context *context, const char *op, size_t outputs) {
  for (size_t i = 1; i < context->graph->nodes[context->node].output_count; i++)
    if (braid_gradient_of_output(context, i) >= 0)
      return braid_fail(BRAID_UNSUPPORTED, "the statistics it gives out have no gradient");
  braid_value_id inputs[] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 0),
                             braid_gradient_input(context, 1)};
  return give_three(context, op, inputs, 3, outputs);
}

static braid_status instance_gradient(braid_gradient_context *context) {
  return row_gradient(context, "InstanceNormalizationGrad", 3);
}
static braid_status group_gradient(braid_gradient_context *context) {
  return row_gradient(context, "GroupNormalizationGrad", 3);
}
static braid_status layer_gradient(braid_gradient_context *context) {
  return row_gradient(context, "LayerNormalizationGrad", 3);
}
static braid_status rms_gradient(braid_gradient_context *context) {
  return row_gradient(context, "RMSNormalizationGrad", 2);
}

static braid_status give_one(braid_gradient_context *context, const char *op) {
  braid_value_id inputs[] = {braid_gradient_of_output(context, 0), braid_gradient_input(context, 0)}, dx;
  braid_node_id id;
  BRAID_TRY(braid_gradient_node(context, op, inputs, 2, &dx, &id));
  BRAID_TRY(braid_gradient_copy_attrs(context, id));
  return braid_gradient_give(context, 0, dx);
}

static braid_status lp_gradient(braid_gradient_context *context) {
  return give_one(context, "LpNormalizationGrad");
}
static braid_status mean_variance_gradient(braid_gradient_context *context) {
  return give_one(context, "MeanVarianceNormalizationGrad");
}
static braid_status lrn_gradient(braid_gradient_context *context) {
  return give_one(context, "LRNGrad");
}

static const braid_op kOps[] = {
    {"BatchNormalization", 5, 5, 1, 5, 0, infer_batch, NULL, batch_gradient},
    {"BatchNormalizationRelu", 5, 5, 1, 5, 0, infer_batch, NULL, NULL}, /* made by fusion alone, as its gradient is */
    {"InstanceNormalization", 3, 3, 1, 1, 0, infer_instance, NULL, instance_gradient},
    {"GroupNormalization", 3, 3, 1, 1, 0, infer_group, NULL, group_gradient},
    {"LayerNormalization", 2, 3, 1, 3, 0, infer_layer, NULL, layer_gradient},
    {"RMSNormalization", 2, 2, 1, 1, 0, infer_layer, NULL, rms_gradient},
    {"LpNormalization", 1, 1, 1, 1, 0, infer_lp, NULL, lp_gradient},
    {"MeanVarianceNormalization", 1, 1, 1, 1, 0, infer_mean_variance, NULL, mean_variance_gradient},
    {"LRN", 1, 1, 1, 1, 0, infer_lrn, NULL, lrn_gradient},
    {"BatchNormalizationGrad", 5, 5, 0, 3, 0, infer_batch_grad, NULL, NULL},
    {"BatchNormalizationReluGrad", 6, 6, 0, 3, 0, infer_batch_grad, NULL, NULL},
    {"InstanceNormalizationGrad", 3, 3, 0, 3, 0, infer_channel_grad, NULL, NULL},
    {"GroupNormalizationGrad", 3, 3, 0, 3, 0, infer_channel_grad, NULL, NULL},
    {"LayerNormalizationGrad", 3, 3, 0, 3, 0, infer_layer_grad, NULL, NULL},
    {"RMSNormalizationGrad", 3, 3, 0, 2, 0, infer_layer_grad, NULL, NULL},
    {"LpNormalizationGrad", 2, 2, 1, 1, 0, infer_lp, NULL, NULL},
    {"MeanVarianceNormalizationGrad", 2, 2, 1, 1, 0, infer_mean_variance, NULL, NULL},
    {"LRNGrad", 2, 2, 1, 1, 0, infer_lrn, NULL, NULL},
};

extern const braid_op_family braid_ops_norm;
const braid_op_family braid_ops_norm = {kOps, sizeof kOps / sizeof *kOps};
