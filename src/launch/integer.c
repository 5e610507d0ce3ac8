#include "launch/integer.h"

#include <string.h>

#include "graph/integer.h"

braid_launch_direction braid_launch_direction_of(const braid_node_desc *node) {
  if (strcmp(node->op, "IntegerConv") == 0) return BRAID_LAUNCH_FORWARD;
  return strcmp(node->op, "IntegerConvGradInput") == 0 ? BRAID_LAUNCH_BY_INPUTS : BRAID_LAUNCH_BY_WEIGHTS;
}

braid_status braid_launch_integer_conv(const braid_node_desc *node, braid_convolution *out) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc;
  switch (braid_launch_direction_of(node)) {
  case BRAID_LAUNCH_FORWARD:
    return braid_integer_conv(node->attrs, a, b, out);
  case BRAID_LAUNCH_BY_INPUTS:
    return braid_integer_conv_grad_input(node->attrs, a, b, out);
  case BRAID_LAUNCH_BY_WEIGHTS:
    break;
  }
  return braid_integer_conv_grad_filter(node->attrs, a, b, out);
}

void braid_launch_samples_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  int rank = node->inputs[0].desc.rank;
  braid_layout chosen = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && node->inputs[i].desc.rank == rank && inputs[i] == BRAID_LAUNCH_SAMPLES)
      chosen = BRAID_LAUNCH_SAMPLES;
  if (rank < 2) chosen = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = node->inputs[i].present && node->inputs[i].desc.rank == rank ? chosen : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++)
    outputs[i] = node->outputs[i].present && node->outputs[i].desc.rank == rank ? chosen : BRAID_LAYOUT_PLAIN;
}

int64_t braid_launch_places(const braid_desc *desc) {
  return (int64_t)(braid_desc_bytes(desc) / braid_dtype_size(desc->dtype));
}

int64_t braid_launch_positions(const braid_desc *desc) {
  int64_t positions = 1;
  for (int i = 2; i < desc->rank; i++) positions *= desc->dims[i];
  return positions;
}

size_t braid_launch_tree_group(const braid_launch_traits *traits) {
  size_t group = 1;
  while (2 * group <= braid_launch_group(traits) && group < 256) group *= 2;
  return group;
}

void braid_launch_add_clear(braid_launch_planner *p, size_t output) {
  const braid_desc *desc = &p->node->outputs[output].desc;
  braid_launch_begin(p, "integer", "clear");
  braid_launch_output(p, output);
  braid_launch_int(p, (int64_t)(braid_desc_bytes(desc) / sizeof(uint32_t)));
  braid_launch_groups(p, 1, 1, 1, 1);
}

void braid_launch_add_raw(braid_launch_planner *p, braid_dtype dtype) {
  braid_launch_option(p, "-DRAW=%s%s", braid_launch_type(dtype), dtype == BRAID_I64 ? " -DRAW_LONG" : "");
}

void braid_launch_add_parameter_type(braid_launch_planner *p, braid_dtype dtype) {
  braid_launch_option(p, "-DP=%s%s", braid_launch_type(dtype), dtype == BRAID_I8 ? " -DP_CHAR" : "");
}
