/* Conv, FusedConv and ConvGradInput of 16 bits with one channel in a group, where channels lie last: eight channels of
 * some outputs of a line, in some lines, or of one place of the gradient, for a work-item. Libraries' kernels for it
 * take several times as long as reading the image does. */
#include <string.h>

#include "launch/convolution.h"
#include "launch/families.h"

enum {
  kEight = 8,
  kMostRun = 4,        /* outputs side by side of a work-item */
  kMostStridedRun = 2, /* the same where they read further apart: registers */
  kMostDown = 8,       /* lines of a work-item */
  kItemsOfUnit = 512,  /* work-items that keep a compute unit busy */
  kLeastLanes = 4,     /* eights of channels of a group: 64 bytes of a place and more are read at once */
  kMostLanes = 16,
  kTapsOfGroup = 512, /* eights of weights that a group keeps in local memory, 16 KiB */
  kMostTaps = 128,    /* loops over them are unrolled */
  kMostSeen = 128,    /* columns that a work-item keeps of a line, of which wide dilations leave out most */
  kGroup = 128
};

static bool is_gradient(const braid_node_desc *node) {
  return strcmp(node->op, "ConvGradInput") == 0;
}

static bool depthwise_read(const braid_node_desc *node, braid_convolution *conv) {
  const braid_desc *image = &node->inputs[0].desc, *weights = &node->inputs[1].desc;
  return (is_gradient(node) ? braid_geometry_conv_grad_input(node->attrs, image, weights, conv)
                            : braid_geometry_conv(node->attrs, image, weights, conv)) == BRAID_OK;
}

/* Columns of a line that `run` results side by side look at. */
static int64_t seen_of(const braid_window *w, int64_t run) {
  return (run - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
}

static bool depthwise_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_convolution conv;
  if (!braid_dtype_is_half(node->inputs[0].desc.dtype) || node->inputs[0].desc.rank != 4)
    return braid_launch_refuse(why, why_bytes, "for images of 16 bits");
  if (!braid_launch_match_activation(node, why, why_bytes)) return false;
  if (!depthwise_read(node, &conv)) return braid_launch_refuse(why, why_bytes, "geometry");
  if (conv.inputs != conv.groups || conv.outputs != conv.groups || conv.groups % kEight)
    return braid_launch_refuse(why, why_bytes, "for one channel in and out of a group, and groups in eights");
  if (node->input_count > 3 && node->inputs[3].present)
    return braid_launch_refuse(why, why_bytes, "something is added to the result");
  if (conv.window.kernel[1] * conv.window.kernel[2] > kMostTaps)
    return braid_launch_refuse(why, why_bytes, "more than %d taps", (int)kMostTaps);
  if (!is_gradient(node) && seen_of(&conv.window, kMostRun) > kMostSeen)
    return braid_launch_refuse(why, why_bytes, "windows that reach over more than %d columns", (int)kMostSeen);
  return braid_launch_match_sizes(&conv, why, why_bytes);
}

static bool depthwise_suits(const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                            size_t why_bytes) {
  (void)node;
  return traits->gpu || braid_launch_refuse(why, why_bytes, "for GPUs");
}

static void depthwise_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = i ? BRAID_LAYOUT_PLAIN : BRAID_LAYOUT_BHWC;
  outputs[0] = BRAID_LAYOUT_BHWC;
}

/* How outputs are divided between work-items. */
typedef struct division {
  int64_t run, down, lanes, runs, strips, units; /* units: of a run in `down` lines, over all channels */
} division;

static void divide(const braid_convolution *conv, division *d) {
  const int64_t *out = conv->window.output;
  d->runs = braid_launch_ceil_div(out[2], d->run);
  d->strips = braid_launch_ceil_div(out[1], d->down);
  d->units = conv->batch * d->strips * d->runs;
}

/* Of what divides the channels, what leaves the fewest work-items of a group idle; else eight. */
static int64_t lanes_of(int64_t eights, int64_t taps) {
  int64_t best = 0, most = kTapsOfGroup / taps < kMostLanes ? kTapsOfGroup / taps : kMostLanes;
  for (int64_t lanes = kLeastLanes; lanes <= most; lanes++)
    if (eights % lanes == 0 && (!best || kGroup / lanes * lanes >= kGroup / best * best)) best = lanes;
  if (best) return best;
  most = most < kEight ? most : kEight;
  return eights < most ? eights : most;
}

/* Long runs and many lines read less again, but leave a small device's worth of work-items only of large images. */
static division division_of(const braid_launch_traits *traits, const braid_convolution *conv) {
  const braid_window *w = &conv->window;
  int64_t eights = conv->groups / kEight, wanted = (traits->compute_units ? traits->compute_units : 1) * kItemsOfUnit;
  division d = {.run = w->stride[2] > 1 ? kMostStridedRun : kMostRun, .down = 1};
  d.lanes = lanes_of(eights, w->kernel[1] * w->kernel[2]);
  divide(conv, &d);
  while (d.run > 1 && (d.run > w->output[2] || d.units * eights < wanted)) {
    d.run /= 2;
    divide(conv, &d);
  }
  while (d.down < kMostDown && d.units * eights >= 2 * wanted) {
    d.down *= 2;
    divide(conv, &d);
  }
  return d;
}

static void depthwise_begin(braid_launch_planner *p, const char *function, const char *part, const braid_window *w) {
  braid_launch_begin(p, "depthwise", function);
  braid_launch_option(p, "-DX=%s %s%s", braid_launch_element_type(p->node->inputs[0].desc.dtype), part,
                      p->traits->aligned ? " -DALIGNED" : "");
  braid_launch_option(p, "-DTAPS_Y=%lld -DTAPS_X=%lld -DSTRIDE_Y=%lld -DSTRIDE_X=%lld", (long long)w->kernel[1],
                      (long long)w->kernel[2], (long long)w->stride[1], (long long)w->stride[2]);
  braid_launch_option(p, "-DDILATION_Y=%lld -DDILATION_X=%lld", (long long)w->dilation[1], (long long)w->dilation[2]);
}

static void depthwise_end(braid_launch_planner *p, const braid_window *w, int64_t groups, int64_t second) {
  braid_launch_int(p, w->begin[1]);
  braid_launch_int(p, w->begin[2]);
  braid_launch_groups(p, braid_launch_larger(groups, 1), second, 1, kGroup);
}

static void depthwise_add_gradient(braid_launch_planner *p, const braid_convolution *conv) {
  const braid_window *w = &conv->window;
  int64_t total = conv->batch * w->input[1] * w->input[2] * (conv->groups / kEight);
  const int64_t numbers[] = {total, conv->groups, w->input[1], w->input[2], w->output[1], w->output[2]};
  depthwise_begin(p, "depthwise_grad_input", "-DBACKWARD", w);
  braid_launch_input(p, 0);
  braid_launch_input(p, 1);
  braid_launch_output(p, 0);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
  depthwise_end(p, w, braid_launch_ceil_div(total, kGroup), 1);
}

static braid_status depthwise_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_convolution conv;
  double first, second;
  if (!depthwise_read(node, &conv)) return braid_fail(BRAID_INTERNAL, "a convolution that was not matched");
  const braid_window *w = &conv.window;
  division d = division_of(traits, &conv);
  const int64_t numbers[] = {d.units,      conv.groups,  w->input[1], w->input[2],
                             w->output[1], w->output[2], d.runs,      d.strips};
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (is_gradient(node)) {
    depthwise_add_gradient(&p, &conv);
    return braid_launch_plan_end(&p);
  }
  depthwise_begin(&p, "depthwise", "-DFORWARD", w);
  braid_launch_option(&p, "-DRUN=%d -DDOWN=%d -DLANES=%d", (int)d.run, (int)d.down, (int)d.lanes);
  if (braid_launch_has_input(node, 2)) braid_launch_option(&p, "-DBIAS");
  braid_launch_add_activation(&p, node->attrs);
  for (size_t i = 0; i < 3; i++) braid_launch_input(&p, i);
  braid_launch_output(&p, 0);
  braid_launch_activation_numbers(node->attrs, &first, &second);
  braid_launch_float(&p, first);
  braid_launch_float(&p, second);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(&p, numbers[i]);
  depthwise_end(&p, w, braid_launch_ceil_div(d.units, kGroup / d.lanes),
                braid_launch_ceil_div(conv.groups / kEight, d.lanes));
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kDepthwise = {.plan = depthwise_plan, .match = depthwise_suits};

#define KERNEL(op_name, kernel_name)                                                                                   \
  {                                                                                                                    \
    .op = op_name, .name = kernel_name, .match = depthwise_match, .layouts = depthwise_layouts,                        \
    .implementation = &kDepthwise                                                                                      \
  }
static const braid_kernel kKernels[] = {KERNEL("Conv", "conv_depthwise_last"),
                                        KERNEL("FusedConv", "conv_depthwise_last"),
                                        KERNEL("ConvGradInput", "conv_grad_input_depthwise_last")};

const braid_launch_family braid_launch_family_depthwise = {kKernels, sizeof kKernels / sizeof *kKernels, false};
