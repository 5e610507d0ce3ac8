/* LayoutConvert, the runtime's own op: a tensor rewritten in another layout, so that what another device made can be
 * taken up here. Every layout is a matter of braid_strides of (batch, channel block, channel within the block of 16,
 * place).
 */
#include <stdio.h>

#include "launch/families.h"
#include "tensor/layout.h"

enum { kBlock = BRAID_LAYOUT_BLOCK };

static bool layout_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  if (from->dtype == to->dtype && braid_desc_same_shape(from, to)) return true;
  snprintf(why, why_bytes, "type or shape would change");
  return false;
}

/* The dimension of the launch that counts channels, places, the batch: neighbours write next to each other. */
static void order_of(braid_layout layout, int *c, int *s, int *b) {
  bool channels_last = layout == BRAID_LAYOUT_BHWC || layout == BRAID_LAYOUT_BLOCKED16;
  *b = layout == BRAID_LAYOUT_CHWB ? 0 : 2;
  *c = channels_last ? 0 : layout == BRAID_LAYOUT_CHWB ? 2 : 1;
  *s = channels_last || layout == BRAID_LAYOUT_CHWB ? 1 : 0;
}

static const char *layout_type(size_t bytes) {
  return bytes == 1 ? "uchar" : bytes == 2 ? "ushort" : bytes == 4 ? "uint" : "ulong";
}

static braid_status layout_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe) {
  (void)traits;
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  size_t element = braid_dtype_size(to->dtype);
  int64_t batch = 1, channels = 1, places = (int64_t)(braid_desc_bytes(to) / element);
  int c, s, b;
  if (from->layout != to->layout && to->rank >= 3) {
    batch = to->dims[0];
    channels = to->dims[1];
    places = 1;
    for (int i = 2; i < to->rank; i++) places *= to->dims[i];
  }
  bool moves = from->layout != to->layout && to->rank >= 3, pads = moves && to->layout == BRAID_LAYOUT_BLOCKED16;
  braid_strides in = braid_layout_strides(moves ? from->layout : BRAID_LAYOUT_PLAIN, batch, channels, places);
  braid_strides out = braid_layout_strides(moves ? to->layout : BRAID_LAYOUT_PLAIN, batch, channels, places);
  int64_t numbers[9] = {channels, in.b, in.block, in.c, in.s, out.b, out.block, out.c, out.s};
  order_of(moves ? to->layout : BRAID_LAYOUT_PLAIN, &c, &s, &b);
  braid_launch *launch = &recipe->launches[recipe->launch_count++];
  *launch = (braid_launch){
      .source = "layout",
      .function = "layout_convert",
      .dimensions = 3,
      .argument_count = 11,
      .arguments = {{.kind = BRAID_LAUNCH_OPERAND, .index = 0}, {.kind = BRAID_LAUNCH_OPERAND, .index = 1}}};
  snprintf(launch->options, sizeof launch->options, "-DT=%s -DC_DIM=%d -DS_DIM=%d -DB_DIM=%d", layout_type(element), c,
           s, b);
  launch->global[c] = (size_t)(pads ? (channels + kBlock - 1) / kBlock * kBlock : channels);
  launch->global[s] = (size_t)places;
  launch->global[b] = (size_t)batch;
  for (int i = 0; i < 9; i++)
    launch->arguments[i + 2] = (braid_launch_argument){.kind = BRAID_LAUNCH_LONG, .integer = numbers[i]};
  return BRAID_OK;
}

static const braid_launch_kernel kPlan = {.plan = layout_plan};
static const braid_kernel kKernels[] = {
    {.op = "LayoutConvert", .name = "layout", .match = layout_match, .implementation = &kPlan},
};

const braid_launch_family braid_launch_family_layout = {kKernels, sizeof kKernels / sizeof *kKernels};
