#include "launch/integer.h"

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
