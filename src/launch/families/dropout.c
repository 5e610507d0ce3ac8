/* Dropout, which drops the same elements as on a CPU, and its gradient. */
#include "launch/families.h"
#include "launch/planner.h"

static bool dropout_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->inputs[0].desc.dtype != BRAID_F32)
    return braid_launch_refuse(why, why_bytes, "for float32, not for %s", braid_dtype_name(node->inputs[0].desc.dtype));
  if (braid_launch_has_input(node, 1) && node->inputs[1].desc.dtype != BRAID_F32 && braid_launch_has_input(node, 2))
    return braid_launch_refuse(why, why_bytes, "the ratio is %s", braid_dtype_name(node->inputs[1].desc.dtype));
  if (braid_launch_has_input(node, 3) && node->inputs[3].desc.dtype != BRAID_I64)
    return braid_launch_refuse(why, why_bytes, "the step is %s", braid_dtype_name(node->inputs[3].desc.dtype));
  if (braid_attr_int(node->attrs, "first", 0) != 0)
    return braid_launch_refuse(why, why_bytes, "a slice of a batch, whose elements do not count from 0");
  return true;
}

static bool dropout_grad_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  return dtype == BRAID_F32 || braid_launch_refuse(why, why_bytes, "for float32, not for %s", braid_dtype_name(dtype));
}

static braid_status dropout_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                 braid_launch_recipe *recipe) {
  static const char *const kInputs[] = {NULL, "RATIO", "MODE", "NUMBERED"};
  braid_launch_planner p;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  uint64_t seed = (uint64_t)braid_attr_int(node->attrs, "seed", 0);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "dropout", "dropout");
  for (size_t i = 1; i < 4; i++)
    if (braid_launch_has_input(node, i)) braid_launch_option(&p, "-D%s", kInputs[i]);
  if (braid_launch_has_output(node, 1)) braid_launch_option(&p, "-DMASK");
  for (size_t i = 0; i < 4; i++) braid_launch_input(&p, i);
  braid_launch_output(&p, 0);
  braid_launch_output(&p, 1);
  braid_launch_index(&p, count);
  braid_launch_int(&p, (int32_t)(uint32_t)seed);
  braid_launch_int(&p, (int32_t)(uint32_t)(seed >> 32));
  braid_launch_int(&p, (int32_t)braid_attr_int(node->attrs, "stream", 0));
  braid_launch_range(&p, count);
  return braid_launch_plan_end(&p);
}

static braid_status dropout_grad_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                      braid_launch_recipe *recipe) {
  braid_launch_planner p;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "dropout", "dropout_grad");
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, count);
  braid_launch_float(&p, braid_attr_float(node->attrs, "scale", 1));
  braid_launch_range(&p, count);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kDropout = {.plan = dropout_plan}, kGradient = {.plan = dropout_grad_plan};

static const braid_kernel kKernels[] = {
    {.op = "Dropout", .name = "dropout", .match = dropout_match, .in_place = 1, .implementation = &kDropout},
    {.op = "DropoutGrad",
     .name = "dropout_grad",
     .match = dropout_grad_match,
     .in_place = 1,
     .implementation = &kGradient},
};

const braid_launch_family braid_launch_family_dropout = {kKernels, sizeof kKernels / sizeof *kKernels, true};
