/* Pools of training in integers and the errors that go back through them. */
#include "graph/integer.h"

#include <string.h>

#include "launch/families.h"
#include "launch/integer.h"

enum { kCpuLanes = 32, kPairs = 16, kBlock = 16 };

static bool is_max(const braid_node_desc *node) {
  return strncmp(node->op, "IntegerMax", 10) == 0;
}

static void pool_begin(braid_launch_planner *p, const char *function, const braid_window *w, int64_t lanes) {
  braid_launch_begin(p, "integer_pool", function);
  braid_launch_option(p, "-DLANES=%lld", (long long)lanes);
  for (int d = 1; d < BRAID_WINDOW_RANK; d++)
    braid_launch_option(p, "-DN%d=%lld -DS%d=%lld -DD%d=%lld", d, (long long)w->kernel[d], d, (long long)w->stride[d],
                        d, (long long)w->dilation[d]);
}

/* As many neighbours as a line has, on a CPU. */
static int64_t lanes_for(const braid_launch_traits *traits, int64_t line) {
  int64_t lanes = 1;
  while (traits->cpu && lanes < kCpuLanes && lanes < line) lanes *= 2;
  return lanes;
}

/* Windows of at most two columns side by side, over lines that they divide: by a CPU's vectors. */
static bool by_pairs(const braid_launch_traits *traits, const braid_node_desc *node, const braid_window *w) {
  return traits->cpu && !braid_launch_is_samples(node) && is_max(node) && w->stride[2] == 2 && w->kernel[2] <= 2 &&
         w->dilation[2] == 1 && w->begin[2] == 0 && w->input[2] % 2 == 0 && 2 * w->output[2] <= w->input[2];
}

static void add_sizes(braid_launch_planner *p, const braid_window *w, int64_t planes) {
  const int64_t numbers[] = {planes, w->input[1], w->input[2], w->output[1], w->output[2], w->begin[1], w->begin[2]};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(p, numbers[i]);
}

static void add_lines(braid_launch_planner *p, int64_t lines, int64_t length, int64_t lanes) {
  int64_t group = (int64_t)braid_launch_tree_group(p->traits), items = lines * braid_launch_ceil_div(length, lanes);
  braid_launch_groups(p, braid_launch_ceil_div(items, group), 1, 1, (size_t)group);
}

static int64_t count_planes(const braid_node_desc *node) {
  const int64_t *dims = node->inputs[0].desc.dims;
  return braid_launch_is_samples(node) ? braid_launch_ceil_div(dims[1], kBlock) : dims[0] * dims[1];
}

/* Places of `planes` planes, or in samples their words. */
static void add_work(braid_launch_planner *p, int64_t planes, const int64_t *size, bool pairs, int64_t lanes) {
  int64_t batch = p->node->inputs[0].desc.dims[0];
  if (braid_launch_is_samples(p->node)) {
    braid_launch_index(p, batch);
    add_lines(p, planes * size[1] * size[2], batch, 1);
  } else {
    add_lines(p, planes * size[1], pairs ? size[2] / 2 : size[2], lanes);
  }
}

static void add_order(braid_launch_planner *p, bool pairs) {
  if (pairs) braid_launch_option(p, "-DPAIRS");
  if (braid_launch_is_samples(p->node)) braid_launch_option(p, "-DSAMPLES");
}

static braid_status plan_pool(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_window w;
  braid_status status = braid_geometry_pool(node->attrs, &node->inputs[0].desc, &w);
  if (status != BRAID_OK) return status;
  bool pairs = by_pairs(traits, node, &w);
  int64_t lanes = pairs ? kPairs : lanes_for(traits, w.output[2]), planes = count_planes(node);
  braid_launch_plan_begin(&p, traits, node, recipe);
  pool_begin(&p, pairs ? "max_pool_pairs" : is_max(node) ? "max_pool" : "average_pool", &w, lanes);
  add_order(&p, pairs);
  if (braid_launch_has_output(node, 1)) braid_launch_option(&p, "-DWITH_INDEX");
  braid_launch_input(&p, 0);
  braid_launch_output(&p, 0);
  if (is_max(node)) braid_launch_output(&p, 1);
  add_sizes(&p, &w, planes);
  add_work(&p, planes, w.output, false, lanes);
  if (is_max(node) && braid_launch_is_samples(node)) braid_launch_index(&p, node->inputs[0].desc.dims[1]);
  return braid_launch_plan_end(&p);
}

static braid_status plan_pool_grad(const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_window w;
  braid_status status = braid_geometry_pool_grad(node->attrs, &node->inputs[0].desc, &w);
  if (status != BRAID_OK) return status;
  bool raw = node->outputs[0].desc.dtype != BRAID_I8, magnitude = braid_launch_has_output(node, 1);
  bool rectified = node->input_count > 2;
  /* a row of the image is in one window at most, by its place: not so below a single, taller window */
  bool pairs = !raw && w.dilation[1] == 1 && w.kernel[1] <= w.stride[1] && by_pairs(traits, node, &w);
  int64_t lanes = pairs ? kPairs : lanes_for(traits, w.input[2]), planes = count_planes(node);
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (magnitude) braid_launch_add_clear(&p, 1);
  pool_begin(&p, pairs ? "max_pool_pairs_grad" : "pool_grad", &w, lanes);
  add_order(&p, pairs);
  braid_launch_option(&p, "-DRESULT=%s%s%s%s%s", braid_launch_type(node->outputs[0].desc.dtype),
                      raw ? "" : " -DRESULT_CHAR", is_max(node) ? " -DWITH_INDEX" : "",
                      magnitude ? " -DWITH_MAGNITUDE" : "", rectified ? " -DRECTIFIED" : "");
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  if (!pairs) braid_launch_input(&p, 2);
  braid_launch_output(&p, 0);
  braid_launch_output(&p, 1);
  if (!pairs) braid_launch_int(&p, braid_integer_max(braid_attr_int(node->attrs, "bits", 8)));
  add_sizes(&p, &w, planes);
  add_work(&p, planes, w.input, pairs, lanes);
  return braid_launch_plan_end(&p);
}

static bool match_rectified(const braid_launch_traits *traits, const braid_node_desc *node, char *why,
                            size_t why_bytes) {
  (void)node;
  return !traits->cpu ||
         braid_launch_refuse(why, why_bytes, "a CPU's vectors take pairs of columns before it rectifies");
}

static const braid_launch_kernel kPool = {.plan = plan_pool}, kPoolGrad = {.plan = plan_pool_grad},
                                 kRectified = {.plan = plan_pool_grad, .match = match_rectified};

static const braid_kernel kKernels[] = {
    {.op = "IntegerAveragePool",
     .name = "integer_average_pool",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kPool},
    {.op = "IntegerAveragePoolGrad",
     .name = "integer_average_pool_grad",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kPoolGrad},
    {.op = "IntegerMaxPool",
     .name = "integer_max_pool",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kPool},
    {.op = "IntegerMaxPoolGrad",
     .name = "integer_max_pool_grad",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kPoolGrad},
    {.op = "IntegerMaxPoolGradRelu",
     .name = "integer_max_pool_grad_relu",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kRectified},
};

const braid_launch_family braid_launch_family_integer_pool = {kKernels, sizeof kKernels / sizeof *kKernels, false};
