/* BatchNormalization, LRN and their gradients. Statistics: sums over slices of each channel by groups of work-items,
 * slices added in order, then one pass over the elements. */
#include <string.h>

#include "launch/channels.h"
#include "launch/families.h"

enum { kSlice = 16384, kMostSlices = 64, kTasks = 128 };

typedef struct shape {
  int64_t batch, channels, plane, total, slice, slices;
} shape;

/* As many slices as keep a device busy, by the shape alone. */
static shape shape_of(const braid_desc *x) {
  shape s = {.batch = x->dims[0], .channels = x->rank > 1 ? x->dims[1] : 1, .plane = 1};
  for (int i = 2; i < x->rank; i++) s.plane *= x->dims[i];
  int64_t rows = s.batch * s.plane, most = s.channels < kTasks ? kTasks / (s.channels > 0 ? s.channels : 1) + 1 : 1;
  s.total = rows * s.channels;
  s.slices = rows / kSlice + 1;
  if (s.slices < most && rows / most > 1024) s.slices = most;
  if (s.slices > kMostSlices) s.slices = kMostSlices;
  s.slice = (rows + s.slices - 1) / s.slices;
  return s;
}

static void add_shape(braid_launch_planner *p, const shape *s) {
  braid_launch_index(p, s->batch);
  braid_launch_index(p, s->channels);
  braid_launch_index(p, s->plane);
}

static size_t tree_group(const braid_launch_traits *traits) {
  size_t group = 1;
  while (!traits->cpu && 2 * group <= braid_launch_group(traits)) group *= 2;
  return group;
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
static const char *image_option(const braid_node_desc *node) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  return dtype == BRAID_F16 ? "-DX=fp16" : dtype == BRAID_BF16 ? "-DX=bf16" : "-DX=float";
}

/* Images (the first `images` inputs and output 0) are of float32 or 16 bits, all else of float32. */
static bool match_images(const braid_node_desc *node, size_t images, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  if (!braid_dtype_is_half(dtype)) return braid_launch_match_float(node, why, why_bytes);
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    bool input = i < node->input_count;
    const braid_operand *operand = input ? &node->inputs[i] : &node->outputs[i - node->input_count];
    bool image = i < images || i == node->input_count;
    if (operand->present && operand->desc.dtype != (image ? dtype : BRAID_F32))
      return braid_launch_refuse(why, why_bytes, "operand %zu is %s beside an image of %s", i,
                                 braid_dtype_name(operand->desc.dtype), braid_dtype_name(dtype));
  }
  return true;
}

/* A Relu behind a normalization is for statistics of the batch, as training has them. */
static bool match_relu(const braid_node_desc *node, char *why, size_t why_bytes) {
  return !braid_launch_has_relu(node) || braid_attr_int(node->attrs, "training_mode", 0) ||
         braid_launch_refuse(why, why_bytes, "for statistics of the batch alone");
}

static bool batch_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  return match_relu(node, why, why_bytes) && match_images(node, 1, why, why_bytes);
}

static bool batch_grad_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  return match_relu(node, why, why_bytes) && match_images(node, 2, why, why_bytes);
}

/* Those of float32 are reduce's. */
static bool bias_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  return braid_dtype_is_half(dtype) ||
         braid_launch_refuse(why, why_bytes, "for 16 bits, not for %s", braid_dtype_name(dtype));
}

/* --- batch normalization -------------------------------------------------------------------------------------------
 */
/* kind: MEAN, SPREAD or GRADIENT. Inputs u, v, and `center`, a piece of the workspace or, NULL, input 3. */
static void add_sums(braid_launch_planner *p, const char *kind, const shape *s, size_t u, size_t v,
                     const braid_launch_piece *center, braid_launch_piece sums, braid_launch_piece more) {
  braid_launch_begin(p, "norm", "channel_sums");
  bool relu = braid_launch_has_relu(p->node) && strcmp(kind, "GRADIENT") == 0;
  braid_launch_option(p, "-D%s %s%s", kind, image_option(p->node), relu ? " -DRELU" : "");
  braid_launch_input(p, u);
  braid_launch_input(p, v);
  if (center)
    braid_launch_workspace(p, *center);
  else
    braid_launch_input(p, 3);
  braid_launch_workspace(p, sums);
  braid_launch_workspace(p, more);
  add_shape(p, s);
  braid_launch_index(p, s->slice);
  if (relu) braid_launch_add_gate(p);
  braid_launch_groups(p, s->channels, s->slices, 1, tree_group(p->traits));
}

static void add_spread(braid_launch_planner *p, const shape *s, braid_launch_piece sums, braid_launch_piece mean,
                       braid_launch_piece factor) {
  static const char *const kWanted[] = {"NEW_MEAN", "NEW_VARIANCE", "SAVED_MEAN", "SAVED_INVERSE"};
  const double keep = braid_attr_float(p->node->attrs, "momentum", 0.9);
  braid_launch_begin(p, "norm", "finish_spread");
  for (size_t i = 0; i < 4; i++)
    if (braid_launch_has_output(p->node, 1 + i)) braid_launch_option(p, "-D%s", kWanted[i]);
  braid_launch_workspace(p, sums);
  braid_launch_workspace(p, mean);
  braid_launch_input(p, 1);
  braid_launch_input(p, 3);
  braid_launch_input(p, 4);
  braid_launch_workspace(p, factor);
  for (size_t i = 1; i < 5; i++) braid_launch_output(p, i);
  add_shape(p, s);
  braid_launch_index(p, s->slices);
  braid_launch_float(p, braid_attr_float(p->node->attrs, "epsilon", 1e-5));
  braid_launch_float(p, keep);
  braid_launch_float(p, 1 - keep);
  braid_launch_range(p, s->channels);
}

static void add_statistics(braid_launch_planner *p, const shape *s, braid_launch_piece mean,
                           braid_launch_piece factor) {
  braid_launch_piece sums = braid_launch_reserve(p, s->slices, s->channels, sizeof(float));
  add_sums(p, "MEAN", s, 0, 0, &mean, sums, sums);
  braid_launch_begin(p, "norm", "finish_mean");
  braid_launch_workspace(p, sums);
  braid_launch_workspace(p, mean);
  add_shape(p, s);
  braid_launch_index(p, s->slices);
  braid_launch_range(p, s->channels);
  add_sums(p, "SPREAD", s, 0, 0, &mean, sums, sums);
  add_spread(p, s, sums, mean, factor);
}

static void add_given(braid_launch_planner *p, const shape *s, braid_launch_piece factor) {
  braid_launch_begin(p, "norm", "given");
  braid_launch_input(p, 1);
  braid_launch_input(p, 4);
  braid_launch_workspace(p, factor);
  braid_launch_index(p, s->channels);
  braid_launch_float(p, braid_attr_float(p->node->attrs, "epsilon", 1e-5));
  braid_launch_range(p, s->channels);
}

static braid_status plan_batch(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  shape s = shape_of(&node->inputs[0].desc);
  bool training = braid_attr_int(node->attrs, "training_mode", 0) != 0;
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (braid_launch_channels_last(&node->inputs[0])) {
    braid_launch_batch_norm_last(&p);
    return braid_launch_plan_end(&p);
  }
  braid_launch_piece factor = braid_launch_reserve(&p, s.channels, 1, sizeof(float));
  braid_launch_piece mean = training ? braid_launch_reserve(&p, s.channels, 1, sizeof(float)) : factor;
  if (training)
    add_statistics(&p, &s, mean, factor);
  else
    add_given(&p, &s, factor);
  braid_launch_begin(&p, "norm", "apply");
  braid_launch_option(&p, "%s%s", image_option(node), braid_launch_has_relu(node) ? " -DRELU" : "");
  braid_launch_input(&p, 0);
  braid_launch_workspace(&p, factor);
  if (training)
    braid_launch_workspace(&p, mean);
  else
    braid_launch_input(&p, 3);
  braid_launch_input(&p, 2);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, s.total);
  braid_launch_index(&p, s.channels);
  braid_launch_index(&p, s.plane);
  braid_launch_range(&p, s.total);
  return braid_launch_plan_end(&p);
}

/* (dy, x, scale, mean, spread; with a Relu, bias) */
static braid_status plan_batch_grad(const braid_launch_traits *traits, const braid_node_desc *node,
                                    braid_launch_recipe *recipe) {
  braid_launch_planner p;
  shape s = shape_of(&node->inputs[1].desc);
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (braid_launch_channels_last(&node->inputs[1])) {
    braid_launch_batch_norm_grad_last(&p);
    return braid_launch_plan_end(&p);
  }
  braid_launch_piece products = braid_launch_reserve(&p, s.slices, s.channels, sizeof(float));
  braid_launch_piece sums = braid_launch_reserve(&p, s.slices, s.channels, sizeof(float));
  braid_launch_piece coefficients = braid_launch_reserve(&p, s.channels, 3, sizeof(float));
  add_sums(&p, "GRADIENT", &s, 1, 0, NULL, products, sums);
  braid_launch_begin(&p, "norm", "finish_gradient");
  if (braid_attr_int(node->attrs, "training_mode", 0)) braid_launch_option(&p, "-DTRAINING");
  if (braid_launch_has_output(node, 1)) braid_launch_option(&p, "-DDSCALE");
  if (braid_launch_has_output(node, 2)) braid_launch_option(&p, "-DDBIAS");
  braid_launch_workspace(&p, products);
  braid_launch_workspace(&p, sums);
  braid_launch_input(&p, 2);
  braid_launch_input(&p, 4);
  braid_launch_workspace(&p, coefficients);
  braid_launch_output(&p, 1);
  braid_launch_output(&p, 2);
  add_shape(&p, &s);
  braid_launch_index(&p, s.slices);
  braid_launch_float(&p, braid_attr_float(node->attrs, "epsilon", 1e-5));
  braid_launch_range(&p, s.channels);
  if (!braid_launch_has_output(node, 0)) return braid_launch_plan_end(&p);
  braid_launch_begin(&p, "norm", "gradient");
  braid_launch_option(&p, "%s%s", image_option(node), braid_launch_has_relu(node) ? " -DRELU" : "");
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  braid_launch_input(&p, 3);
  braid_launch_workspace(&p, coefficients);
  braid_launch_input(&p, braid_launch_has_relu(node) ? 5 : 3);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, s.total);
  braid_launch_index(&p, s.channels);
  braid_launch_index(&p, s.plane);
  braid_launch_range(&p, s.total);
  return braid_launch_plan_end(&p);
}

/* --- the gradient of a bias ----------------------------------------------------------------------------------------
 */
static braid_status plan_bias(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  shape s = shape_of(&node->inputs[0].desc);
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (braid_launch_channels_last(&node->inputs[0])) {
    braid_launch_bias_grad_last(&p);
    return braid_launch_plan_end(&p);
  }
  braid_launch_piece sums = braid_launch_reserve(&p, s.slices, s.channels, sizeof(float));
  add_sums(&p, "MEAN", &s, 0, 0, &sums, sums, sums);
  braid_launch_begin(&p, "norm", "finish_bias");
  braid_launch_option(&p, "%s", image_option(node));
  braid_launch_workspace(&p, sums);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, s.channels);
  braid_launch_index(&p, s.slices);
  braid_launch_range(&p, s.channels);
  return braid_launch_plan_end(&p);
}

/* --- LRN -----------------------------------------------------------------------------------------------------------
 */
static void add_lrn(braid_launch_planner *p, const shape *s, bool bias) {
  const braid_attrs *attrs = p->node->attrs;
  int64_t size = braid_attr_int(attrs, "size", 1);
  braid_launch_index(p, s->total);
  braid_launch_index(p, s->channels);
  braid_launch_index(p, s->plane);
  braid_launch_index(p, size);
  braid_launch_float(p, braid_attr_float(attrs, "alpha", 0.0001) / (double)size);
  braid_launch_float(p, braid_attr_float(attrs, "beta", 0.75));
  if (bias) braid_launch_float(p, braid_attr_float(attrs, "bias", 1.0));
  braid_launch_range(p, s->total);
}

static braid_status plan_lrn(const braid_launch_traits *traits, const braid_node_desc *node,
                             braid_launch_recipe *recipe) {
  braid_launch_planner p;
  shape s = shape_of(&node->inputs[0].desc);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "norm", "lrn");
  braid_launch_input(&p, 0);
  braid_launch_output(&p, 0);
  add_lrn(&p, &s, true);
  return braid_launch_plan_end(&p);
}

static braid_status plan_lrn_grad(const braid_launch_traits *traits, const braid_node_desc *node,
                                  braid_launch_recipe *recipe) {
  braid_launch_planner p;
  shape s = shape_of(&node->inputs[0].desc);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_piece powers = braid_launch_reserve(&p, s.total, 1, sizeof(float));
  braid_launch_piece terms = braid_launch_reserve(&p, s.total, 1, sizeof(float));
  braid_launch_begin(&p, "norm", "lrn_terms");
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  braid_launch_workspace(&p, powers);
  braid_launch_workspace(&p, terms);
  add_lrn(&p, &s, true);
  braid_launch_begin(&p, "norm", "lrn_grad");
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  braid_launch_workspace(&p, powers);
  braid_launch_workspace(&p, terms);
  braid_launch_output(&p, 0);
  add_lrn(&p, &s, false);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kBatch = {.plan = plan_batch}, kBatchGrad = {.plan = plan_batch_grad};
static const braid_launch_kernel kBias = {.plan = plan_bias};
static const braid_launch_kernel kLrn = {.plan = plan_lrn}, kLrnGrad = {.plan = plan_lrn_grad};

#define NORM(op_name, kernel_name)                                                                                     \
  {                                                                                                                    \
    .op = op_name, .name = kernel_name, .match = batch_match, .layouts = braid_launch_follow_channels,                 \
    .in_place = 1 << 0, .in_place_more = {1 << 3, 1 << 4}, .implementation = &kBatch                                   \
  }
#define NORM_GRAD(op_name, kernel_name)                                                                                \
  {                                                                                                                    \
    .op = op_name, .name = kernel_name, .match = batch_grad_match, .layouts = braid_launch_follow_channels,            \
    .in_place = 1 << 0 | 1 << 1, .implementation = &kBatchGrad                                                         \
  }

static const braid_kernel kKernels[] = {
    NORM("BatchNormalization", "batch_norm"),
    NORM("BatchNormalizationRelu", "batch_norm_relu"),
    NORM_GRAD("BatchNormalizationGrad", "batch_norm_grad"),
    NORM_GRAD("BatchNormalizationReluGrad", "batch_norm_relu_grad"),
    {.op = "BiasGrad",
     .name = "bias_grad",
     .match = bias_match,
     .layouts = braid_launch_follow_channels,
     .implementation = &kBias},
    {.op = "LRN", .name = "lrn", .match = braid_launch_match_float, .implementation = &kLrn},
    {.op = "LRNGrad", .name = "lrn_grad", .match = braid_launch_match_float, .implementation = &kLrnGrad},
};

const braid_launch_family braid_launch_family_norm = {kKernels, sizeof kKernels / sizeof *kKernels, true};
