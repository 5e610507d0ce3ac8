/* SgdUpdate and AdamUpdate: one pass over the parameter. */
#include <math.h>
#include <string.h>

#include "launch/families.h"
#include "launch/planner.h"

/* Tensors are float32; rates, steps and guards one number of float32, int32 or int64. */
static bool optimizer_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count; i++) {
    braid_dtype dtype = node->inputs[i].desc.dtype;
    bool number = i >= 2 && braid_desc_count(&node->inputs[i].desc) == 1;
    bool fits = dtype == BRAID_F32 || (number && (dtype == BRAID_I32 || dtype == BRAID_I64));
    if (node->inputs[i].present && !fits)
      return braid_launch_refuse(why, why_bytes, "input %zu is %s", i, braid_dtype_name(dtype));
  }
  return true;
}

static const char *optimizer_type(const braid_node_desc *node, size_t index) {
  return braid_launch_has_input(node, index) ? braid_launch_type(node->inputs[index].desc.dtype) : "float";
}

static void add_guard(braid_launch_planner *p, size_t index) {
  braid_launch_option(p, "-DGUARD=%s -DRATE=%s", optimizer_type(p->node, index), optimizer_type(p->node, 2));
  if (braid_launch_has_input(p->node, index)) braid_launch_option(p, "-DGUARDED");
}

static braid_status plan_sgd(const braid_launch_traits *traits, const braid_node_desc *node,
                             braid_launch_recipe *recipe) {
  braid_launch_planner p;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  double momentum = braid_attr_float(node->attrs, "momentum", 0);
  bool nesterov = braid_attr_int(node->attrs, "nesterov", 0) != 0;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "optimizer", "sgd");
  braid_launch_option(&p, "-DSGD%s", braid_launch_has_input(node, 3) ? " -DMOMENTUM" : "");
  add_guard(&p, 4);
  for (size_t i = 0; i < 5; i++) braid_launch_input(&p, i);
  braid_launch_output(&p, 0);
  braid_launch_output(&p, 1);
  braid_launch_index(&p, count);
  braid_launch_float(&p, momentum);
  braid_launch_float(&p, braid_attr_float(node->attrs, "weight_decay", 0));
  braid_launch_float(&p, nesterov ? 1 : 0);
  braid_launch_float(&p, nesterov ? momentum : 1);
  braid_launch_range(&p, count);
  return braid_launch_plan_end(&p);
}

static braid_status plan_adam(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  const double beta1 = braid_attr_float(node->attrs, "beta1", 0.9),
               beta2 = braid_attr_float(node->attrs, "beta2", 0.999);
  const double decay = braid_attr_float(node->attrs, "weight_decay", 0);
  const bool decoupled = braid_attr_int(node->attrs, "decoupled", 0) != 0;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "optimizer", "adam");
  braid_launch_option(&p, "-DADAM -DSTEP=%s", optimizer_type(node, 5));
  add_guard(&p, 6);
  for (size_t i = 0; i < 7; i++) braid_launch_input(&p, i);
  for (size_t i = 0; i < 3; i++) braid_launch_output(&p, i);
  braid_launch_index(&p, count);
  const double numbers[] = {1 - beta1,
                            1 - beta2,
                            log(beta1),
                            log(beta2),
                            braid_attr_float(node->attrs, "epsilon", 1e-8),
                            decoupled ? 0 : decay,
                            decoupled ? decay : 0};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_float(&p, numbers[i]);
  braid_launch_range(&p, count);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kSgd = {.plan = plan_sgd}, kAdam = {.plan = plan_adam};

static const braid_kernel kKernels[] = {
    {.op = "SgdUpdate",
     .name = "sgd",
     .match = optimizer_match,
     .in_place = 1u << 0,
     .in_place_more = {1u << 3},
     .implementation = &kSgd},
    {.op = "AdamUpdate",
     .name = "adam",
     .match = optimizer_match,
     .in_place = 1u << 0,
     .in_place_more = {1u << 3, 1u << 4},
     .implementation = &kAdam},
};

const braid_launch_family braid_launch_family_optimizer = {kKernels, sizeof kKernels / sizeof *kKernels};
