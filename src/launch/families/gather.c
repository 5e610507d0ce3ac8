/* Gather and its gradient. */
#include "launch/families.h"
#include "launch/move.h"

static bool gather_match_gradient(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  if (dtype == BRAID_F32) return true;
  return braid_launch_refuse(why, why_bytes, "input 0 is %s, not float32", braid_dtype_name(dtype));
}

static braid_status gather_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe, const char *function, const braid_desc *x) {
  braid_launch_planner p;
  const braid_desc *indices = &node->inputs[1].desc;
  int64_t given = braid_attr_int(node->attrs, "axis", 0), total = braid_desc_count(&node->outputs[0].desc), inner = 1;
  int axis = (int)(given < 0 ? given + x->rank : given);
  for (int i = axis + 1; i < x->rank; i++) inner *= x->dims[i];
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "movement", function);
  braid_launch_option(&p, "-DT=%s -DINDEX=%s", braid_launch_move_type(x->dtype), braid_launch_type(indices->dtype));
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  braid_launch_output(&p, 0);
  braid_launch_fault(&p);
  braid_launch_index(&p, total);
  braid_launch_index(&p, braid_desc_count(indices));
  braid_launch_index(&p, x->dims[axis]);
  braid_launch_index(&p, inner);
  braid_launch_range(&p, total);
  return braid_launch_plan_end(&p);
}

static braid_status gather_plan_forward(const braid_launch_traits *traits, const braid_node_desc *node,
                                        braid_launch_recipe *recipe) {
  return gather_plan(traits, node, recipe, "gather", &node->inputs[0].desc);
}
static braid_status gather_plan_gradient(const braid_launch_traits *traits, const braid_node_desc *node,
                                         braid_launch_recipe *recipe) {
  return gather_plan(traits, node, recipe, "gather_grad", &node->outputs[0].desc);
}

static const braid_launch_kernel kGather = {.plan = gather_plan_forward}, kGradient = {.plan = gather_plan_gradient};

static const braid_kernel kKernels[] = {
    {.op = "Gather", .name = "gather", .implementation = &kGather},
    {.op = "GatherGrad", .name = "gather_grad", .match = gather_match_gradient, .implementation = &kGradient},
};

const braid_launch_family braid_launch_family_gather = {kKernels, sizeof kKernels / sizeof *kKernels, false};
