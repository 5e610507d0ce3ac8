/* Batch normalization of training in integers: sums of channels, what follows from them, elements. */
#include "graph/integer.h"

#include "launch/families.h"
#include "launch/integer.h"

enum { kGroupsPerUnit = 4, kCpuRun = 16384, kRunOfItem = 16, kFound = 3, kTwoSums = 2 };

/* Channels as planes, and how the kernels walk them. */
typedef struct channels {
  int64_t batch, count, area, n;
  int64_t parts, images;   /* of the batch, for the sums: so many images each */
  int64_t side, run, runs; /* work-items that share a run, elements of one, runs of a plane */
  size_t sum_group;
} channels;

static channels channels_of(const braid_launch_traits *traits, const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc;
  channels c = {.batch = x->dims[0], .count = x->dims[1], .area = 1, .side = 1, .sum_group = 1};
  for (int i = 2; i < x->rank; i++) c.area *= x->dims[i];
  c.n = c.batch * c.area;
  int64_t units = traits->compute_units ? traits->compute_units : 1, group = (int64_t)braid_launch_tree_group(traits);
  int64_t wanted = c.count > 0 ? braid_launch_ceil_div(kGroupsPerUnit * units, c.count) : 1;
  c.parts = wanted < c.batch ? wanted : c.batch;
  if (c.parts < 1) c.parts = 1;
  c.images = braid_launch_ceil_div(c.batch, c.parts);
  c.parts = c.images > 0 ? braid_launch_ceil_div(c.batch, c.images) : 1;
  while (!traits->cpu && 2 * (int64_t)c.sum_group <= group && (int64_t)c.sum_group < c.area) c.sum_group *= 2;
  while (!traits->cpu && 2 * c.side <= group && c.side < c.area) c.side *= 2;
  c.run = traits->cpu ? kCpuRun : c.side * kRunOfItem;
  c.runs = c.area > 0 ? braid_launch_ceil_div(c.area, c.run) : 1;
  return c;
}

/* Sums of a batch of which the operands are a slice come last: where, and whether they are there. */
static size_t given_at(const braid_node_desc *node) {
  return node->output_count == 7 ? 6 : 5;
}

static bool is_given(const braid_node_desc *node) {
  size_t at = given_at(node);
  return node->input_count > at && node->inputs[at].present;
}

/* Elements of a channel that its sums are of. */
static int64_t whole_count(const channels *c, const braid_node_desc *node) {
  return is_given(node) ? c->area * braid_attr_int(node->attrs, "batch", 0) : c->n;
}

static bool norm_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool training = given_at(node) == 5 && braid_attr_int(node->attrs, "training", 0) != 0;
  if (!training || braid_desc_count(&node->inputs[0].desc) > 0) return true;
  return braid_launch_refuse(why, why_bytes, "a batch without elements");
}

static void norm_begin(braid_launch_planner *p, const char *function, const char *direction) {
  braid_launch_begin(p, "integer_norm", function);
  braid_launch_option(p, "-D%s", direction);
}

/* Two sums for each part and channel, of `input` and, backward, of it and input 2. */
static braid_launch_piece add_sums(braid_launch_planner *p, const channels *c, const char *direction,
                                   const char *element, size_t other) {
  braid_launch_piece parts = braid_launch_reserve(p, c->parts * c->count, kTwoSums, sizeof(int64_t));
  norm_begin(p, "sums", direction);
  braid_launch_option(p, "-DSUMS -DELEMENT=%s", element);
  braid_launch_add_parameter_type(p, BRAID_I8);
  braid_launch_input(p, 0);
  braid_launch_input(p, other);
  braid_launch_workspace(p, parts);
  braid_launch_index(p, c->batch);
  braid_launch_index(p, c->count);
  braid_launch_index(p, c->area);
  braid_launch_index(p, c->images);
  braid_launch_groups(p, c->parts * c->count, 1, 1, c->sum_group);
  return parts;
}

/* Sizes and work-items of what goes over the elements. */
static void add_runs(braid_launch_planner *p, const channels *c) {
  const int64_t numbers[] = {c->batch * c->count, c->count, c->area, c->run, c->runs};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
}

static void add_run_groups(braid_launch_planner *p, const channels *c) {
  int64_t items = c->batch * c->count * c->runs * c->side, group = (int64_t)braid_launch_tree_group(p->traits);
  braid_launch_option(p, "-DSIDE=%lld", (long long)c->side);
  braid_launch_groups(p, braid_launch_ceil_div(items, group), 1, 1, (size_t)group);
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
/* The sums of channels: of parts, or given. */
static void add_found_sums(braid_launch_planner *p, const braid_launch_piece *parts) {
  if (is_given(p->node)) {
    braid_launch_option(p, "-DGIVEN");
    braid_launch_input(p, given_at(p->node));
  } else {
    braid_launch_workspace(p, *parts);
  }
}

static void add_statistics(braid_launch_planner *p, const channels *c, const braid_launch_piece *parts,
                           braid_launch_piece found) {
  static const struct {
    size_t output;
    const char *option;
  } kWanted[] = {{1, "-DWITH_MEAN"}, {2, "-DWITH_VARIANCE"}, {4, "-DWITH_M"}, {5, "-DWITH_PLACES"}};
  norm_begin(p, "statistics", "FORWARD");
  braid_launch_add_parameter_type(p, BRAID_I8);
  bool training = braid_attr_int(p->node->attrs, "training", 0) != 0;
  if (training) braid_launch_option(p, "-DTRAINING");
  for (size_t i = 0; i < sizeof kWanted / sizeof *kWanted; i++)
    if (braid_launch_has_output(p->node, kWanted[i].output)) braid_launch_option(p, "%s", kWanted[i].option);
  if (training)
    add_found_sums(p, parts);
  else
    braid_launch_workspace(p, found);
  braid_launch_input(p, 3);
  braid_launch_input(p, 4);
  braid_launch_workspace(p, found);
  for (size_t i = 0; i < sizeof kWanted / sizeof *kWanted; i++) braid_launch_output(p, kWanted[i].output);
  braid_launch_index(p, c->count);
  braid_launch_index(p, c->parts);
  braid_launch_long(p, whole_count(c, p->node));
  braid_launch_range(p, c->count);
}

static braid_status plan_norm(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_piece parts = {0};
  channels c = channels_of(traits, node);
  bool training = braid_attr_int(node->attrs, "training", 0) != 0, relu = braid_attr_int(node->attrs, "relu", 0) != 0;
  int64_t bits = braid_attr_int(node->attrs, "bits", 8), most = braid_integer_max(bits);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_piece found = braid_launch_reserve(&p, c.count, kFound, sizeof(int32_t));
  if (training && !is_given(node)) parts = add_sums(&p, &c, "FORWARD", "short", 0);
  add_statistics(&p, &c, &parts, found);
  norm_begin(&p, "elements", "FORWARD");
  braid_launch_add_parameter_type(&p, node->inputs[1].desc.dtype);
  if (braid_launch_has_output(node, 3)) braid_launch_option(&p, "-DWITH_H");
  for (size_t i = 0; i < 3; i++) braid_launch_input(&p, i);
  braid_launch_workspace(&p, found);
  braid_launch_output(&p, 0);
  braid_launch_output(&p, 3);
  add_runs(&p, &c);
  braid_launch_int(&p, braid_attr_int(node->attrs, "parameter_bits", 8) + 6 - bits);
  braid_launch_int(&p, relu ? 0 : -most);
  braid_launch_int(&p, most);
  add_run_groups(&p, &c);
  return braid_launch_plan_end(&p);
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
static void add_factors(braid_launch_planner *p, const channels *c, const braid_launch_piece *parts,
                        braid_launch_piece found) {
  const braid_node_desc *node = p->node;
  norm_begin(p, "factors", "BACKWARD");
  braid_launch_add_parameter_type(p, node->inputs[3].desc.dtype);
  add_found_sums(p, parts);
  braid_launch_input(p, 1);
  for (size_t i = 3; i < 6; i++) braid_launch_input(p, i);
  braid_launch_workspace(p, found);
  for (size_t i = 1; i < 7; i++) braid_launch_output(p, i);
  braid_launch_index(p, c->count);
  braid_launch_index(p, c->parts);
  braid_launch_long(p, whole_count(c, node));
  braid_launch_int(p, braid_attr_int(node->attrs, "bits", 8) - braid_attr_int(node->attrs, "parameter_bits", 8) - 38);
  braid_launch_groups(p, 1, 1, 1, p->traits->cpu ? 1 : braid_launch_tree_group(p->traits));
}

static braid_status plan_norm_grad(const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  channels c = channels_of(traits, node);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_piece found = braid_launch_reserve(&p, c.count, kFound, sizeof(int32_t));
  braid_launch_piece parts = {0};
  if (!is_given(node)) parts = add_sums(&p, &c, "BACKWARD", "char", 2);
  add_factors(&p, &c, &parts, found);
  norm_begin(&p, "errors", "BACKWARD");
  braid_launch_add_parameter_type(&p, node->inputs[3].desc.dtype);
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 2);
  braid_launch_workspace(&p, found);
  braid_launch_output(&p, 0);
  braid_launch_output(&p, 1);
  add_runs(&p, &c);
  add_run_groups(&p, &c);
  return braid_launch_plan_end(&p);
}

/* --- sums for other processes --------------------------------------------------------------------------------------
 */
static braid_status plan_sums(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  channels c = channels_of(traits, node);
  bool forward = node->input_count == 1;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_piece parts = add_sums(&p, &c, forward ? "FORWARD" : "BACKWARD", forward ? "short" : "char", !forward);
  norm_begin(&p, "join_sums", "JOINED");
  braid_launch_workspace(&p, parts);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, c.count);
  braid_launch_index(&p, c.parts);
  braid_launch_range(&p, c.count);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kNorm = {.plan = plan_norm}, kNormGrad = {.plan = plan_norm_grad},
                                 kSums = {.plan = plan_sums};

static const braid_kernel kKernels[] = {
    {.op = "IntegerBatchNormalization",
     .name = "integer_batch_normalization",
     .match = norm_match,
     .in_place_more = {1u << 3, 1u << 4},
     .implementation = &kNorm},
    {.op = "IntegerBatchNormalizationGrad",
     .name = "integer_batch_normalization_grad",
     .match = norm_match,
     .implementation = &kNormGrad},
    {.op = "IntegerBatchNormalizationGradSums",
     .name = "integer_batch_normalization_grad_sums",
     .implementation = &kSums},
    {.op = "IntegerBatchNormalizationSums", .name = "integer_batch_normalization_sums", .implementation = &kSums},
};

const braid_launch_family braid_launch_family_integer_norm = {kKernels, sizeof kKernels / sizeof *kKernels, false};
