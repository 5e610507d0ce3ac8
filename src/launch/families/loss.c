/* Losses and their gradients: see graph/ops/loss.c for what they compute. Each sample by itself, then sums in order. */
#include <string.h>

#include "launch/families.h"
#include "launch/planner.h"

enum { kRun = 256 }; /* elements that one work-item adds up */

typedef enum reduction { REDUCE_NONE, REDUCE_SUM, REDUCE_MEAN, REDUCE_HALF } reduction;

typedef struct loss {
  int64_t batch, classes, positions, count, samples;
  double kept, spread;
  reduction reduction;
  bool likelihood, labelled;
} loss;

/* `at`: the input that holds scores or values. */
static loss read_loss(const braid_node_desc *node, size_t at) {
  const braid_desc *values = &node->inputs[at].desc;
  const char *name = braid_attr_string(node->attrs, "reduction", NULL);
  bool squared = strncmp(node->op, "Squared", 7) == 0;
  loss l = {.batch = values->dims[0], .classes = values->rank > 1 ? values->dims[1] : 1, .positions = 1};
  for (int i = 2; i < values->rank; i++) l.positions *= values->dims[i];
  l.samples = l.batch * l.positions;
  l.count = braid_desc_count(values);
  l.labelled = !braid_dtype_is_float(node->inputs[at + 1].desc.dtype);
  l.likelihood = strncmp(node->op, "Negative", 8) == 0;
  double smoothing = l.likelihood ? 0 : braid_attr_float(node->attrs, "label_smoothing", 0);
  l.kept = 1 - smoothing;
  l.spread = smoothing / (double)(l.classes > 0 ? l.classes : 1);
  l.reduction = squared ? REDUCE_HALF : REDUCE_MEAN;
  if (name) l.reduction = strcmp(name, "none") == 0 ? REDUCE_NONE : strcmp(name, "sum") == 0 ? REDUCE_SUM : REDUCE_MEAN;
  return l;
}

static bool loss_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count; i++) {
    braid_dtype dtype = node->inputs[i].desc.dtype;
    bool fits = !node->inputs[i].present || dtype == BRAID_F32 || dtype == BRAID_I32 || dtype == BRAID_I64;
    if (!fits) return braid_launch_refuse(why, why_bytes, "input %zu is %s", i, braid_dtype_name(dtype));
  }
  return true;
}

static void loss_begin(braid_launch_planner *p, const char *function, const loss *l, size_t labels) {
  braid_launch_begin(p, "loss", function);
  if (l->labelled) braid_launch_option(p, "-DLABEL=%s", braid_launch_type(p->node->inputs[labels].desc.dtype));
  if (l->likelihood) braid_launch_option(p, "-DLIKELIHOOD");
  if (l->reduction == REDUCE_NONE) braid_launch_option(p, "-DNONE");
  if (l->reduction == REDUCE_MEAN) braid_launch_option(p, "-DMEAN");
  if (braid_attr_has(p->node->attrs, "ignore_index")) braid_launch_option(p, "-DIGNORES");
  if (braid_launch_has_input(p->node, labels + 1) && strncmp(p->node->op, "Squared", 7) != 0)
    braid_launch_option(p, "-DWEIGHTED");
}

static void add_ignored(braid_launch_planner *p) {
  braid_launch_long(p, braid_attr_int(p->node->attrs, "ignore_index", 0));
}

static void add_class_numbers(braid_launch_planner *p, const loss *l) {
  braid_launch_index(p, l->samples);
  braid_launch_index(p, l->classes);
  braid_launch_index(p, l->positions);
  braid_launch_float(p, l->kept);
  braid_launch_float(p, l->spread);
  add_ignored(p);
  braid_launch_range(p, l->samples);
}

/* The sum of a piece times scale, or that divided by the sum of another, into `out` or, NULL, output 0. */
static void add_sum(braid_launch_planner *p, braid_launch_piece a, const braid_launch_piece *b,
                    const braid_launch_piece *out, int64_t count, double scale) {
  braid_launch_begin(p, "loss", "sum_all");
  if (b) braid_launch_option(p, "-DDIVIDED");
  braid_launch_workspace(p, a);
  braid_launch_workspace(p, b ? *b : a);
  if (out)
    braid_launch_workspace(p, *out);
  else
    braid_launch_output(p, 0);
  braid_launch_index(p, count);
  braid_launch_float(p, scale);
  braid_launch_groups(p, 1, 1, 1, braid_launch_group(p->traits));
}

static braid_status plan_class(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  loss l = read_loss(node, 0);
  bool none = l.reduction == REDUCE_NONE;
  braid_launch_piece losses = {0}, counts = {0};
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (!none) losses = braid_launch_reserve(&p, l.samples, 1, sizeof(float));
  if (!none) counts = braid_launch_reserve(&p, l.samples, 1, sizeof(float));
  loss_begin(&p, "class_loss", &l, 1);
  if (braid_launch_has_output(node, 1)) braid_launch_option(&p, "-DLOG_PROB");
  for (size_t i = 0; i < 3; i++) braid_launch_input(&p, i);
  for (size_t i = 0; i < 2; i++)
    if (none)
      braid_launch_output(&p, 0);
    else
      braid_launch_workspace(&p, i ? counts : losses);
  braid_launch_output(&p, 1);
  add_class_numbers(&p, &l);
  if (!none) add_sum(&p, losses, l.reduction == REDUCE_MEAN ? &counts : NULL, NULL, l.samples, 1);
  return braid_launch_plan_end(&p);
}

/* (dloss, scores, labels, weights) */
static braid_status plan_class_grad(const braid_launch_traits *traits, const braid_node_desc *node,
                                    braid_launch_recipe *recipe) {
  braid_launch_planner p;
  loss l = read_loss(node, 1);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_piece counts, counted;
  if (l.reduction == REDUCE_MEAN) {
    counts = braid_launch_reserve(&p, l.samples, 1, sizeof(float));
    counted = braid_launch_reserve(&p, 1, 1, sizeof(float));
    loss_begin(&p, "label_counts", &l, 2);
    braid_launch_input(&p, 2);
    braid_launch_input(&p, 3);
    braid_launch_workspace(&p, counts);
    braid_launch_index(&p, l.samples);
    braid_launch_index(&p, l.classes);
    add_ignored(&p);
    braid_launch_range(&p, l.samples);
    add_sum(&p, counts, NULL, &counted, l.samples, 1);
  }
  loss_begin(&p, "class_loss_grad", &l, 2);
  for (size_t i = 0; i < 4; i++) braid_launch_input(&p, i);
  if (l.reduction == REDUCE_MEAN)
    braid_launch_workspace(&p, counted);
  else
    braid_launch_input(&p, 0);
  braid_launch_output(&p, 0);
  add_class_numbers(&p, &l);
  return braid_launch_plan_end(&p);
}

/* --- squared error -------------------------------------------------------------------------------------------------
 */
static double error_scale(const loss *l) {
  if (l->reduction == REDUCE_MEAN) return 1 / (double)l->count;
  return l->reduction == REDUCE_HALF ? 1 / (2 * (double)l->batch) : 1;
}

static braid_status plan_squared(const braid_launch_traits *traits, const braid_node_desc *node,
                                 braid_launch_recipe *recipe) {
  braid_launch_planner p;
  loss l = read_loss(node, 0);
  bool none = l.reduction == REDUCE_NONE;
  int64_t run = none ? 1 : kRun, parts = (l.count + run - 1) / run;
  braid_launch_piece sums = {0};
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (!none) sums = braid_launch_reserve(&p, parts, 1, sizeof(float));
  loss_begin(&p, "squared_error", &l, 1);
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  if (none)
    braid_launch_output(&p, 0);
  else
    braid_launch_workspace(&p, sums);
  braid_launch_index(&p, l.count);
  braid_launch_index(&p, run);
  braid_launch_index(&p, l.classes);
  braid_launch_index(&p, l.positions);
  add_ignored(&p);
  braid_launch_range(&p, parts);
  if (!none) add_sum(&p, sums, NULL, NULL, parts, error_scale(&l));
  return braid_launch_plan_end(&p);
}

/* (dloss, values, targets) */
static braid_status plan_squared_grad(const braid_launch_traits *traits, const braid_node_desc *node,
                                      braid_launch_recipe *recipe) {
  braid_launch_planner p;
  loss l = read_loss(node, 1);
  braid_launch_plan_begin(&p, traits, node, recipe);
  loss_begin(&p, "squared_error_grad", &l, 2);
  for (size_t i = 0; i < 3; i++) braid_launch_input(&p, i);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, l.count);
  braid_launch_float(&p, 2 * error_scale(&l));
  braid_launch_index(&p, l.classes);
  braid_launch_index(&p, l.positions);
  add_ignored(&p);
  braid_launch_range(&p, l.count);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kClass = {.plan = plan_class}, kClassGrad = {.plan = plan_class_grad};
static const braid_launch_kernel kSquared = {.plan = plan_squared}, kSquaredGrad = {.plan = plan_squared_grad};

#define KERNEL(op_name, kernel, cl)                                                                                    \
  { .op = op_name, .name = kernel, .match = loss_match, .implementation = &cl }

static const braid_kernel kKernels[] = {
    KERNEL("SoftmaxCrossEntropyLoss", "cross_entropy", kClass),
    KERNEL("CrossEntropyLoss", "cross_entropy", kClass),
    KERNEL("SoftmaxCrossEntropyLossGrad", "cross_entropy_grad", kClassGrad),
    KERNEL("NegativeLogLikelihoodLoss", "likelihood", kClass),
    KERNEL("NegativeLogLikelihoodLossGrad", "likelihood_grad", kClassGrad),
    KERNEL("SquaredErrorLoss", "squared_error", kSquared),
    KERNEL("SquaredErrorLossGrad", "squared_error_grad", kSquaredGrad),
};

const braid_launch_family braid_launch_family_loss = {kKernels, sizeof kKernels / sizeof *kKernels, true};
