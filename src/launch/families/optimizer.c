/* SgdUpdate and AdamUpdate: one pass over the parameter. */
#include <math.h>
#include <string.h>

#include "launch/families.h"
#include "launch/planner.h"
#include "tensor/layout.h"

/* Where operands stand: the first state, how many there are, the guard, the scale, the copy and its output. */
typedef struct optimizer {
  size_t state, states, step, guard, scale, copy, copy_output;
} optimizer;

static optimizer optimizer_of(const braid_node_desc *node) {
  bool adam = strcmp(node->op, "AdamUpdate") == 0;
  return adam ? (optimizer){3, 2, 5, 6, 7, 8, 3} : (optimizer){3, 1, SIZE_MAX, 4, 5, 6, 2};
}

/* Parameters and states are float32, gradients that or of 16 bits, copies of 16 bits; rates, steps and guards one
 * number of float32, int32 or int64. */
static bool optimizer_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  optimizer o = optimizer_of(node);
  for (size_t i = 0; i < node->input_count; i++) {
    braid_dtype dtype = node->inputs[i].desc.dtype;
    bool number = i == 2 || i == o.step || i == o.guard || i == o.scale;
    bool fits = i == 1        ? braid_launch_is_real(dtype)
                : i == o.copy ? braid_dtype_is_half(dtype)
                              : dtype == BRAID_F32 || (number && (dtype == BRAID_I32 || dtype == BRAID_I64));
    if (node->inputs[i].present && !fits)
      return braid_launch_refuse(why, why_bytes, "input %zu is %s", i, braid_dtype_name(dtype));
  }
  return true;
}

/* Everything of the parameter's shape lies as the parameter does: an update is element by element. */
static void optimizer_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_desc parameter = node->inputs[0].desc;
  parameter.layout = BRAID_LAYOUT_PLAIN;
  if (inputs[0] != BRAID_LAYOUT_ANY && braid_desc_set_layout(&parameter, inputs[0]) == BRAID_OK &&
      braid_desc_is_padded(&parameter))
    parameter.layout = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++) {
    bool same = node->inputs[i].present && braid_desc_same_shape(&node->inputs[i].desc, &parameter);
    inputs[i] = same ? parameter.layout : BRAID_LAYOUT_PLAIN;
  }
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = parameter.layout;
}

static const char *optimizer_type(const braid_node_desc *node, size_t index) {
  return braid_launch_has_input(node, index) ? braid_launch_element_type(node->inputs[index].desc.dtype) : "float";
}

static void add_types(braid_launch_planner *p, const optimizer *o) {
  braid_launch_option(p, "-DG=%s -DGUARD=%s -DRATE=%s -DSCALE=%s", optimizer_type(p->node, 1),
                      optimizer_type(p->node, o->guard), optimizer_type(p->node, 2), optimizer_type(p->node, o->scale));
  if (braid_launch_has_input(p->node, o->guard)) braid_launch_option(p, "-DGUARDED");
  if (braid_launch_has_input(p->node, o->scale)) braid_launch_option(p, "-DSCALED");
  if (braid_launch_has_input(p->node, o->copy)) braid_launch_option(p, "-DCOPY=%s", optimizer_type(p->node, o->copy));
}

/* Inputs but for the old copy, then outputs with the new one last. */
static void add_operands(braid_launch_planner *p, const optimizer *o) {
  for (size_t i = 0; i <= o->scale; i++) braid_launch_input(p, i);
  for (size_t i = 0; i <= o->copy_output; i++) braid_launch_output(p, i);
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
  optimizer o = optimizer_of(node);
  add_types(&p, &o);
  add_operands(&p, &o);
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
  optimizer o = optimizer_of(node);
  add_types(&p, &o);
  add_operands(&p, &o);
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

/* --- the scale of the loss -----------------------------------------------------------------------------------------
 */
static bool guard_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count; i++)
    if (!braid_launch_is_real(node->inputs[i].desc.dtype))
      return braid_launch_refuse(why, why_bytes, "input %zu is %s", i, braid_dtype_name(node->inputs[i].desc.dtype));
  if (node->input_count < BRAID_LAUNCHES) return true;
  return braid_launch_refuse(why, why_bytes, "%zu operands, at most %d", node->input_count, BRAID_LAUNCHES - 1);
}

/* Elements are looked at in whatever order they lie. */
static void guard_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) {
    braid_desc desc = node->inputs[i].desc;
    bool known = inputs[i] != BRAID_LAYOUT_ANY && braid_desc_set_layout(&desc, inputs[i]) == BRAID_OK;
    if (!known || braid_desc_is_padded(&desc)) inputs[i] = BRAID_LAYOUT_PLAIN;
  }
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

static braid_status plan_guard(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "optimizer", "clear_guard");
  braid_launch_option(&p, "-DCLEAR");
  braid_launch_output(&p, 0);
  braid_launch_index(&p, 1);
  braid_launch_range(&p, 1);
  for (size_t i = 0; i < node->input_count; i++) {
    int64_t count = braid_desc_count(&node->inputs[i].desc);
    braid_launch_begin(&p, "optimizer", "look");
    braid_launch_option(&p, "-DLOOK -DG=%s", braid_launch_element_type(node->inputs[i].desc.dtype));
    braid_launch_input(&p, i);
    braid_launch_output(&p, 0);
    braid_launch_index(&p, count);
    braid_launch_range(&p, braid_launch_ceil_div(count, 8));
  }
  return braid_launch_plan_end(&p);
}

static braid_status plan_scale(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "optimizer", "loss_scale");
  braid_launch_option(&p, "-DLOSS_SCALE%s", braid_launch_has_input(node, 3) ? " -DLAST" : "");
  for (size_t i = 0; i < 4; i++) braid_launch_input(&p, i);
  for (size_t i = 0; i < 2; i++) braid_launch_output(&p, i);
  braid_launch_long(&p, braid_attr_int(node->attrs, "interval", 2000));
  braid_launch_range(&p, 1);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kGuard = {.plan = plan_guard}, kScale = {.plan = plan_scale};
static const braid_launch_kernel kSgd = {.plan = plan_sgd}, kAdam = {.plan = plan_adam};

static const braid_kernel kKernels[] = {
    {.op = "SgdUpdate",
     .name = "sgd",
     .match = optimizer_match,
     .layouts = optimizer_layouts,
     .in_place = 1u << 0,
     .in_place_more = {1u << 3, 1u << 6},
     .implementation = &kSgd},
    {.op = "AdamUpdate",
     .name = "adam",
     .match = optimizer_match,
     .layouts = optimizer_layouts,
     .in_place = 1u << 0,
     .in_place_more = {1u << 3, 1u << 4, 1u << 8},
     .implementation = &kAdam},
    {.op = "GradientGuard",
     .name = "gradient_guard",
     .match = guard_match,
     .layouts = guard_layouts,
     .implementation = &kGuard},
    {.op = "LossScaleUpdate",
     .name = "loss_scale",
     .in_place = 1u << 0,
     .in_place_more = {1u << 1},
     .implementation = &kScale},
};

const braid_launch_family braid_launch_family_optimizer = {kKernels, sizeof kKernels / sizeof *kKernels, false};
