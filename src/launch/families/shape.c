/* Ops that change a shape only. Where the output cannot be the input's memory, its bytes are copied. */
#include "launch/families.h"
#include "launch/move.h"

static braid_status shape_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_add_copy(&p);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kCopy = {.plan = shape_plan};

#define KERNEL(op_name)                                                                                                \
  { .op = op_name, .name = "copy", .in_place = 1, .implementation = &kCopy }

static const braid_kernel kKernels[] = {KERNEL("Flatten"), KERNEL("Identity"), KERNEL("Reshape"), KERNEL("Squeeze"),
                                        KERNEL("Unsqueeze")};

const braid_launch_family braid_launch_family_shape = {kKernels, sizeof kKernels / sizeof *kKernels, false};
