/* Ops that change a shape only. Where the output cannot be the input's memory, its bytes are copied. */
#include "launch/families.h"
#include "launch/move.h"

static braid_status plan(const braid_cl_traits *traits, const braid_node_desc *node, braid_cl_recipe *recipe) {
  braid_cl_planner p;
  braid_cl_plan(&p, traits, node, recipe);
  braid_cl_add_copy(&p);
  return braid_cl_planned(&p);
}

static const braid_cl_kernel kCopy = {.plan = plan};

#define KERNEL(op_name)                                                                                                \
  { .op = op_name, .name = "cl_copy", .in_place = 1, .implementation = &kCopy }

static const braid_kernel kKernels[] = {KERNEL("Flatten"), KERNEL("Identity"), KERNEL("Reshape"), KERNEL("Squeeze"),
                                        KERNEL("Unsqueeze")};

const braid_cl_family braid_cl_shape = {kKernels, sizeof kKernels / sizeof *kKernels};
