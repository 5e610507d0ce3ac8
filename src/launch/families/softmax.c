/* Softmax, LogSoftmax and their gradients: a group of work-items for each line that is long enough, or one. */
#include <string.h>

#include "launch/families.h"
#include "launch/planner.h"

typedef struct axis {
  int64_t lines, size, inner;
} axis;

static axis softmax_axis(const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc;
  int64_t at = braid_attr_int(node->attrs, "axis", -1);
  axis a = {1, 1, 1};
  if (at < 0) at += x->rank;
  for (int i = 0; i < x->rank; i++) {
    if (i == at)
      a.size = x->dims[i];
    else
      a.lines *= x->dims[i];
    if (i > at) a.inner *= x->dims[i];
  }
  return a;
}

static bool softmax_suits_groups(const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                                 size_t why_bytes) {
  axis a = softmax_axis(node);
  if (traits->cpu) return braid_launch_refuse(why, why_bytes, "a work-item sums faster than a group on a CPU");
  if (a.inner > 1) return braid_launch_refuse(why, why_bytes, "neighbouring lines lie side by side");
  return a.size >= 32 || braid_launch_refuse(why, why_bytes, "lines of %lld are too short", (long long)a.size);
}

static int function_of(const braid_node_desc *node) {
  static const char *const kOps[] = {"Softmax", "LogSoftmax", "SoftmaxGrad"};
  int i = 0;
  while (i < 3 && strcmp(kOps[i], node->op) != 0) i++;
  return i;
}

static braid_status softmax_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                 braid_launch_recipe *recipe, bool groups) {
  braid_launch_planner p;
  axis a = softmax_axis(node);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "softmax", groups ? "groups" : "lines");
  braid_launch_option(&p, "-DFUNCTION=%d", function_of(node));
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, a.lines);
  braid_launch_index(&p, a.size);
  braid_launch_index(&p, a.inner);
  size_t group = 1; /* a power of two, for the tree */
  while (2 * group <= braid_launch_group(traits) && group < 256) group *= 2;
  if (groups)
    braid_launch_groups(&p, a.lines, 1, 1, group);
  else
    braid_launch_range(&p, a.lines);
  return braid_launch_plan_end(&p);
}

static braid_status softmax_plan_groups(const braid_launch_traits *traits, const braid_node_desc *node,
                                        braid_launch_recipe *recipe) {
  return softmax_plan(traits, node, recipe, true);
}
static braid_status softmax_plan_lines(const braid_launch_traits *traits, const braid_node_desc *node,
                                       braid_launch_recipe *recipe) {
  return softmax_plan(traits, node, recipe, false);
}

static const braid_launch_kernel kGroups = {.plan = softmax_plan_groups, .match = softmax_suits_groups},
                                 kLines = {.plan = softmax_plan_lines};

#define KERNELS(op_name)                                                                                               \
  {.op = op_name,                                                                                                      \
   .name = "softmax_groups",                                                                                           \
   .match = braid_launch_match_float,                                                                                  \
   .in_place = 1,                                                                                                      \
   .implementation = &kGroups},                                                                                        \
  {                                                                                                                    \
    .op = op_name, .name = "softmax", .match = braid_launch_match_float, .in_place = 1, .implementation = &kLines      \
  }

static const braid_kernel kKernels[] = {KERNELS("Softmax"), KERNELS("LogSoftmax"), KERNELS("SoftmaxGrad"),
                                        KERNELS("LogSoftmaxGrad")};

const braid_launch_family braid_launch_family_softmax = {kKernels, sizeof kKernels / sizeof *kKernels, true};
