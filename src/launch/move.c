#include "launch/move.h"

const char *braid_launch_move_type(braid_dtype dtype) {
  switch (braid_dtype_size(dtype)) {
  case 1:
    return "uchar";
  case 2:
    return "ushort";
  case 4:
    return "uint";
  default:
    return "ulong";
  }
}

static void add_nest(braid_launch_planner *p, const braid_launch_nest *nest, int width) {
  braid_launch_nest_sizes(p, nest, width);
  braid_launch_nest_steps(p, nest, 0, width);
  braid_launch_nest_steps(p, nest, 1, width);
}

void braid_launch_add_move(braid_launch_planner *p, const braid_launch_move *move) {
  braid_launch_nest nest = move->nest;
  int64_t count = 1;
  braid_launch_nest_merge(&nest);
  for (int i = 0; i < nest.rank; i++) count *= nest.dims[i];
  int width = nest.rank <= 3 ? 3 : BRAID_MAX_RANK;
  braid_launch_begin(p, "movement", width == 3 ? "move3" : "move8");
  braid_launch_option(p, "-DT=%s", braid_launch_move_type(p->node->outputs[move->output].desc.dtype));
  braid_launch_input(p, move->input);
  braid_launch_output(p, move->output);
  braid_launch_index(p, count);
  braid_launch_index(p, move->from);
  braid_launch_index(p, move->to);
  add_nest(p, &nest, width);
  braid_launch_range(p, count);
}

void braid_launch_add_copy(braid_launch_planner *p) {
  int64_t count = braid_desc_count(&p->node->outputs[0].desc);
  braid_launch_begin(p, "movement", "copy");
  braid_launch_option(p, "-DT=%s", braid_launch_move_type(p->node->outputs[0].desc.dtype));
  braid_launch_input(p, 0);
  braid_launch_output(p, 0);
  braid_launch_index(p, count);
  braid_launch_range(p, count);
}

void braid_launch_add_zeros(braid_launch_planner *p) {
  int64_t count = braid_desc_count(&p->node->outputs[0].desc);
  braid_launch_begin(p, "movement", "fill");
  braid_launch_option(p, "-DT=%s", braid_launch_move_type(p->node->outputs[0].desc.dtype));
  braid_launch_output(p, 0);
  braid_launch_index(p, count);
  braid_launch_int(p, 0);
  braid_launch_range(p, count);
}
