/* Dropout, which drops the same elements as on a CPU, and its gradient. */
#include "launch/families.h"
#include "launch/planner.h"

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->inputs[0].desc.dtype != BRAID_F32)
    return braid_cl_refuse(why, why_bytes, "for float32, not for %s", braid_dtype_name(node->inputs[0].desc.dtype));
  if (braid_cl_has_input(node, 1) && node->inputs[1].desc.dtype != BRAID_F32 && braid_cl_has_input(node, 2))
    return braid_cl_refuse(why, why_bytes, "the ratio is %s", braid_dtype_name(node->inputs[1].desc.dtype));
  if (braid_cl_has_input(node, 3) && node->inputs[3].desc.dtype != BRAID_I64)
    return braid_cl_refuse(why, why_bytes, "the step is %s", braid_dtype_name(node->inputs[3].desc.dtype));
  return true;
}

static bool match_grad(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  return dtype == BRAID_F32 || braid_cl_refuse(why, why_bytes, "for float32, not for %s", braid_dtype_name(dtype));
}

static braid_status plan(const braid_cl_traits *traits, const braid_node_desc *node, braid_cl_recipe *recipe) {
  static const char *const kInputs[] = {NULL, "RATIO", "MODE", "NUMBERED"};
  braid_cl_planner p;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  uint64_t seed = (uint64_t)braid_attr_int(node->attrs, "seed", 0);
  braid_cl_plan(&p, traits, node, recipe);
  braid_cl_add_launch(&p, "dropout", "dropout");
  for (size_t i = 1; i < 4; i++)
    if (braid_cl_has_input(node, i)) braid_cl_option(&p, "-D%s", kInputs[i]);
  if (braid_cl_has_output(node, 1)) braid_cl_option(&p, "-DMASK");
  for (size_t i = 0; i < 4; i++) braid_cl_input(&p, i);
  braid_cl_output(&p, 0);
  braid_cl_output(&p, 1);
  braid_cl_index(&p, count);
  braid_cl_int(&p, (int32_t)(uint32_t)seed);
  braid_cl_int(&p, (int32_t)(uint32_t)(seed >> 32));
  braid_cl_int(&p, (int32_t)braid_attr_int(node->attrs, "stream", 0));
  braid_cl_range(&p, count);
  return braid_cl_planned(&p);
}

static braid_status plan_grad(const braid_cl_traits *traits, const braid_node_desc *node, braid_cl_recipe *recipe) {
  braid_cl_planner p;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  braid_cl_plan(&p, traits, node, recipe);
  braid_cl_add_launch(&p, "dropout", "dropout_grad");
  braid_cl_input(&p, 0);
  braid_cl_input(&p, 1);
  braid_cl_output(&p, 0);
  braid_cl_index(&p, count);
  braid_cl_float(&p, braid_attr_float(node->attrs, "scale", 1));
  braid_cl_range(&p, count);
  return braid_cl_planned(&p);
}

static const braid_cl_kernel kDropout = {.plan = plan}, kGradient = {.plan = plan_grad};

static const braid_kernel kKernels[] = {
    {.op = "Dropout", .name = "cl_dropout", .match = match, .in_place = 1, .implementation = &kDropout},
    {.op = "DropoutGrad", .name = "cl_dropout_grad", .match = match_grad, .in_place = 1, .implementation = &kGradient},
};

const braid_cl_family braid_cl_dropout = {kKernels, sizeof kKernels / sizeof *kKernels};
