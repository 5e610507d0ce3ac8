#include "backend/opencl/move.h"

const char *braid_cl_move_type(braid_dtype dtype) {
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

void braid_cl_add_move(braid_cl_planner *p, const braid_cl_move *move) {
  braid_cl_nest nest = move->nest;
  int64_t count = 1;
  braid_cl_nest_merge(&nest);
  for (int i = 0; i < nest.rank; i++) count *= nest.dims[i];
  int width = nest.rank <= 3 ? 3 : BRAID_MAX_RANK;
  braid_cl_add_launch(p, "movement", width == 3 ? "move3" : "move8");
  braid_cl_option(p, "-DT=%s", braid_cl_move_type(p->node->outputs[move->output].desc.dtype));
  braid_cl_input(p, move->input);
  braid_cl_output(p, move->output);
  braid_cl_index(p, count);
  braid_cl_index(p, move->from);
  braid_cl_index(p, move->to);
  braid_cl_nest_sizes(p, &nest, width);
  braid_cl_nest_steps(p, &nest, 0, width);
  braid_cl_nest_steps(p, &nest, 1, width);
  braid_cl_range(p, count);
}

void braid_cl_add_copy(braid_cl_planner *p) {
  int64_t count = braid_desc_count(&p->node->outputs[0].desc);
  braid_cl_add_launch(p, "movement", "copy");
  braid_cl_option(p, "-DT=%s", braid_cl_move_type(p->node->outputs[0].desc.dtype));
  braid_cl_input(p, 0);
  braid_cl_output(p, 0);
  braid_cl_index(p, count);
  braid_cl_range(p, count);
}

void braid_cl_add_zeros(braid_cl_planner *p) {
  int64_t count = braid_desc_count(&p->node->outputs[0].desc);
  braid_cl_add_launch(p, "movement", "fill");
  braid_cl_option(p, "-DT=%s", braid_cl_move_type(p->node->outputs[0].desc.dtype));
  braid_cl_output(p, 0);
  braid_cl_index(p, count);
  braid_cl_int(p, 0);
  braid_cl_range(p, count);
}
