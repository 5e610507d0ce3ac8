#include "backend/cuda/few_channels.h"

#include <string.h>

#include "backend/cuda/compiler.h"
#include "backend/cuda/dnn.h"
#include "base/detail.h"
#include "launch/convolution.h"

enum {
  kMostChannels = 4,
  kMostInner = 64, /* channels of all taps */
  kStep = 16,      /* of the inner dimension, for one instruction */
  kEight = 8,      /* filters in 16 bytes */
  kBlock = 128,    /* filters of a group */
  kHalf = 64,      /* filters of a warp in the gradient */
  kGroup = 256,
  kLeastGroup = 64,
  kJoinGroup = 512,
  kJoinResults = 32,
  kGradResident = 2
};

static bool few_is_gradient(const braid_node_desc *node) {
  return strcmp(node->op, "ConvGradFilter") == 0;
}

static bool few_read(const braid_node_desc *node, braid_convolution *conv) {
  const braid_desc *image = &node->inputs[0].desc, *other = &node->inputs[1].desc;
  return (few_is_gradient(node) ? braid_geometry_conv_grad_filter(node->attrs, image, other, conv)
                                : braid_geometry_conv(node->attrs, image, other, conv)) == BRAID_OK;
}

static int64_t few_inner(const braid_convolution *conv) {
  return braid_window_volume(&conv->window) * conv->inputs;
}

static int64_t few_places(const braid_convolution *conv) {
  return conv->batch * braid_window_outputs(&conv->window);
}

/* --- launches ------------------------------------------------------------------------------------------------------
 */
static void few_begin(braid_launch_planner *p, const braid_convolution *conv, const char *function, const char *part) {
  const braid_window *w = &conv->window;
  braid_launch_begin(p, "few_channels", function);
  braid_launch_option(p, "-DX=%s %s -DFILTERS=%lld -DCHANNELS=%lld -DTAPS_Y=%lld -DTAPS_X=%lld",
                      braid_launch_element_type(p->node->inputs[0].desc.dtype), part, (long long)conv->outputs,
                      (long long)conv->inputs, (long long)w->kernel[1], (long long)w->kernel[2]);
  braid_launch_option(p, "-DSTRIDE_Y=%lld -DSTRIDE_X=%lld -DDILATION_Y=%lld -DDILATION_X=%lld", (long long)w->stride[1],
                      (long long)w->stride[2], (long long)w->dilation[1], (long long)w->dilation[2]);
  braid_launch_option(p, "-DHEIGHT=%lld -DWIDTH=%lld -DLINES=%lld -DCOLUMNS=%lld -DABOVE=%lld -DLEFT=%lld",
                      (long long)w->input[1], (long long)w->input[2], (long long)w->output[1], (long long)w->output[2],
                      (long long)w->begin[1], (long long)w->begin[2]);
}

/* Warps do not wait for each other: groups are smaller where there are few places, for all compute units to have some.
 * What they have in registers and local memory does not fit more often than `resident` times. */
static void few_add_forward(braid_launch_planner *p, const braid_convolution *conv) {
  bool small = few_inner(conv) <= 2 * kStep;
  int64_t group = small ? kGroup : kGroup / 2, resident = small ? 3 : 4, places = few_places(conv), units, groups;
  int64_t blocks = braid_launch_ceil_div(conv->outputs, kBlock);
  units = braid_launch_larger(p->traits->compute_units / blocks, 1);
  while (group > kLeastGroup && places < group * resident * units) group /= 2, resident *= 2;
  groups = braid_launch_smaller(braid_launch_ceil_div(places, group), units * resident);
  few_begin(p, conv, "few_channels", "-DFORWARD");
  braid_launch_option(p, "-DRESIDENT=%lld%s%s", (long long)resident,
                      braid_launch_has_input(p->node, 2) ? " -DBIAS" : "",
                      braid_attr_has(p->node->attrs, "activation") ? " -DRELU" : "");
  for (size_t i = 0; i < 3; i++) braid_launch_input(p, i);
  braid_launch_output(p, 0);
  braid_launch_index(p, places);
  braid_launch_index(p, groups);
  braid_launch_groups(p, groups, blocks, 1, (size_t)group);
}

static void few_add_gradient(braid_launch_planner *p, const braid_convolution *conv) {
  int64_t places = few_places(conv), tiles = braid_launch_ceil_div(places, kGroup), results;
  int64_t halves = conv->outputs > kHalf ? 2 : 1, blocks = braid_launch_ceil_div(conv->outputs, halves * kHalf);
  int64_t slices = p->traits->knobs.slices ? p->traits->knobs.slices
                                           : braid_launch_larger(p->traits->compute_units * kGradResident / blocks, 1);
  int64_t slice = braid_launch_ceil_div(tiles, slices);
  slices = braid_launch_ceil_div(tiles, slice);
  results = conv->outputs * few_inner(conv);
  braid_launch_piece parts = braid_launch_reserve(p, slices, results, sizeof(float));
  few_begin(p, conv, "few_channels_grad_filter", "-DFILTER");
  braid_launch_option(p, "-DRESIDENT=%d -DHALVES=%lld", kGradResident, (long long)halves);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_workspace(p, parts);
  braid_launch_index(p, places);
  braid_launch_index(p, slice * kGroup);
  braid_launch_groups(p, slices, blocks, 1, kGroup);
  few_begin(p, conv, "few_channels_join", "-DJOIN");
  braid_launch_workspace(p, parts);
  braid_launch_output(p, 0);
  braid_launch_index(p, results);
  braid_launch_index(p, slices);
  braid_launch_groups(p, braid_launch_ceil_div(results, kJoinResults), 1, 1, kJoinGroup);
}

static braid_status few_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                             braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_convolution conv;
  if (!few_read(node, &conv)) return braid_fail(BRAID_INTERNAL, "a convolution that was not matched");
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (few_is_gradient(node))
    few_add_gradient(&p, &conv);
  else
    few_add_forward(&p, &conv);
  return braid_launch_plan_end(&p);
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static bool few_match_sizes(const braid_convolution *conv, char *why, size_t why_bytes) {
  const braid_window *w = &conv->window;
  if (conv->groups != 1 || conv->inputs > kMostChannels)
    return braid_launch_refuse(why, why_bytes, "for images of at most %d channels in one group", kMostChannels);
  if (few_inner(conv) > kMostInner)
    return braid_launch_refuse(why, why_bytes, "%lld channels of all taps, it takes %d", (long long)few_inner(conv),
                               kMostInner);
  if (conv->outputs % kEight)
    return braid_launch_refuse(why, why_bytes, "%lld filters, it takes multiples of %d", (long long)conv->outputs,
                               kEight);
  if (few_inner(conv) < 1 || few_places(conv) < 1 || conv->outputs < 1 || braid_window_inputs(w) < 1)
    return braid_launch_refuse(why, why_bytes, "an empty operand");
  for (int d = 1; d < BRAID_WINDOW_RANK; d++)
    if (w->begin[d] > INT16_MAX || w->end[d] > INT16_MAX)
      return braid_launch_refuse(why, why_bytes, "pads beyond %d", INT16_MAX);
  if (conv->outputs > INT16_MAX) return braid_launch_refuse(why, why_bytes, "filters beyond %d", INT16_MAX);
  return braid_launch_match_sizes(conv, why, why_bytes);
}

static bool few_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const char *activation = few_is_gradient(node) ? NULL : braid_attr_string(node->attrs, "activation", NULL);
  braid_convolution conv;
  if (!braid_dtype_is_half(node->inputs[0].desc.dtype) || node->inputs[0].desc.rank != 4)
    return braid_launch_refuse(why, why_bytes, "for images of 16 bits");
  if (!braid_launch_match_real(node, why, why_bytes)) return false;
  if (activation && strcmp(activation, "Relu") != 0)
    return braid_launch_refuse(why, why_bytes, "activation %.40s", activation);
  if (braid_launch_has_input(node, 3)) return braid_launch_refuse(why, why_bytes, "something is added to the result");
  if (!few_read(node, &conv)) return braid_launch_refuse(why, why_bytes, "geometry");
  return few_match_sizes(&conv, why, why_bytes);
}

static bool few_suits(const braid_launch_traits *traits, const braid_node_desc *node, char *why, size_t why_bytes) {
  if (traits->tensor == BRAID_LAUNCH_TENSOR_NONE)
    return braid_launch_refuse(why, why_bytes, "no tensor cores as cards have since Ampere, or tensor=off");
  return braid_launch_is_narrow(node) || braid_launch_refuse(why, why_bytes, "more elements than 32 bits count");
}

static const braid_launch_kernel kFew = {.plan = few_plan, .match = few_suits};

#define KERNEL(op_name, kernel)                                                                                        \
  { .op = op_name, .name = kernel, .match = few_match, .layouts = braid_cuda_dnn_layouts, .implementation = &kFew }
static const braid_kernel kKernels[] = {
    KERNEL("Conv", "cuda_conv_few_channels"),
    KERNEL("FusedConv", "cuda_conv_few_channels"),
    KERNEL("ConvGradFilter", "cuda_conv_grad_filter_few_channels"),
};

const braid_launch_family braid_cuda_few_channels_family = {kKernels, sizeof kKernels / sizeof *kKernels, false};

bool braid_cuda_few_channels_takes(const braid_cuda_device *device, const braid_node_desc *node) {
  char why[256];
  if (!few_match(node, why, sizeof why) || !few_suits(&device->traits, node, why, sizeof why)) return false;
  bool compiles = braid_cuda_compiler_check(device->capability) == BRAID_OK;
  braid_clear_detail();
  return compiles;
}
