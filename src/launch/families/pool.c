/* Pools and their gradients, which are gathered: a work-item for each element of the result. */
#include <string.h>

#include "graph/geometry.h"
#include "launch/channels.h"
#include "launch/families.h"

static bool is(const braid_node_desc *node, const char *op) {
  return strcmp(node->op, op) == 0;
}

static bool pool_is_gradient(const braid_node_desc *node) {
  return is(node, "MaxPoolGrad") || is(node, "AveragePoolGrad");
}

static braid_status read_window(const braid_node_desc *node, braid_window *window) {
  const braid_desc *first = &node->inputs[0].desc;
  return pool_is_gradient(node) ? braid_geometry_pool_grad(node->attrs, first, window)
                                : braid_geometry_pool(node->attrs, first, window);
}

static bool pool_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  if (braid_launch_is_real(dtype)) return true;
  return braid_launch_refuse(why, why_bytes, "for float32 and 16 bits, not for %s", braid_dtype_name(dtype));
}

/* Indices count plain elements. */
static void max_pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  if (braid_launch_has_output(node, 1)) inputs[0] = BRAID_LAYOUT_PLAIN;
  braid_launch_follow_channels(node, inputs, outputs);
}

/* The error is the smallest of the images: it follows the window, which the pool left as it had its image. */
static void max_pool_grad_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  if (inputs[1] == BRAID_LAYOUT_BHWC) inputs[0] = BRAID_LAYOUT_BHWC;
  braid_launch_follow_channels(node, inputs, outputs);
}

/* One number for each channel lies in either order; 16 bits are most often for readers that want channels last. */
static void global_grad_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  if (braid_dtype_is_half(node->inputs[0].desc.dtype)) inputs[0] = BRAID_LAYOUT_BHWC;
  braid_launch_follow_channels(node, inputs, outputs);
}

static void add_type(braid_launch_planner *p) {
  braid_launch_option(p, "-DX=%s", braid_launch_element_type(p->node->inputs[0].desc.dtype));
}

/* What has text for channels that lie last, if they do. */
static bool add_last(braid_launch_planner *p, const braid_window *window) {
  if (!braid_launch_channels_last(&p->node->inputs[0])) return false;
  if (is(p->node, "MaxPool"))
    braid_launch_max_pool_last(p, window);
  else
    braid_launch_max_pool_grad_last(p, window);
  return true;
}

static void add_window(braid_launch_planner *p, const braid_window *w) {
  const int64_t *const numbers[] = {w->input, w->output, w->kernel, w->stride, w->dilation, w->begin, w->end};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (int d = 0; d < BRAID_WINDOW_RANK; d++) braid_launch_index(p, numbers[i][d]);
}

static const char *place_type(const braid_window *window) {
  return braid_window_volume(window) <= 256 ? "uchar" : "int";
}

static void add_max_pool(braid_launch_planner *p, const braid_window *window) {
  bool indices = braid_launch_has_output(p->node, 1), places = braid_launch_has_output(p->node, 2);
  braid_launch_begin(p, "pool", "max_pool");
  braid_launch_option(p, "-DPLACE=%s%s%s", place_type(window), indices ? " -DWITH_INDICES" : "",
                      places ? " -DWITH_WINDOW" : "");
  if (braid_attr_int(p->node->attrs, "storage_order", 0)) braid_launch_option(p, "-DCOLUMN_MAJOR");
  braid_launch_input(p, 0);
  braid_launch_output(p, 0);
  braid_launch_output(p, 1);
  braid_launch_output(p, 2);
}

static void add_average(braid_launch_planner *p, const char *function) {
  braid_launch_begin(p, "pool", function);
  if (braid_attr_int(p->node->attrs, "count_include_pad", 0)) braid_launch_option(p, "-DINCLUDE_PAD");
  braid_launch_input(p, 0);
  braid_launch_output(p, 0);
}

static braid_status pool_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_window window;
  braid_status status = read_window(node, &window);
  if (status != BRAID_OK) return status;
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (add_last(&p, &window)) return braid_launch_plan_end(&p);
  if (is(node, "MaxPool")) {
    add_max_pool(&p, &window);
  } else if (is(node, "MaxPoolGrad")) {
    braid_launch_begin(&p, "pool", "max_pool_grad");
    braid_launch_option(&p, "-DPLACE=%s", place_type(&window));
    braid_launch_input(&p, 0);
    braid_launch_input(&p, 1);
    braid_launch_output(&p, 0);
  } else {
    add_average(&p, pool_is_gradient(node) ? "average_pool_grad" : "average_pool");
  }
  int64_t total = braid_desc_count(&node->outputs[0].desc);
  add_type(&p);
  add_window(&p, &window);
  braid_launch_index(&p, total);
  braid_launch_range(&p, total);
  return braid_launch_plan_end(&p);
}

/* One window over everything: a work-item for each plane, or for each element where the planes' order is free. */
static braid_status pool_plan_global(const braid_launch_traits *traits, const braid_node_desc *node,
                                     braid_launch_recipe *recipe) {
  braid_launch_planner p;
  bool gradient = is(node, "GlobalAveragePoolGrad") || is(node, "GlobalMaxPoolGrad");
  bool each = is(node, "GlobalAveragePoolGrad");
  const braid_desc *whole = gradient ? &node->outputs[0].desc : &node->inputs[0].desc;
  int64_t planes = whole->dims[0] * whole->dims[1], size = 1;
  for (int i = 2; i < whole->rank; i++) size *= whole->dims[i];
  braid_launch_plan_begin(&p, traits, node, recipe);
  if (braid_launch_channels_last(&node->inputs[0]) || braid_launch_channels_last(&node->outputs[0])) {
    braid_launch_global_average_last(&p);
    return braid_launch_plan_end(&p);
  }
  braid_launch_begin(&p, "pool", each ? "global_average_grad" : gradient ? "global_max_grad" : "global_pool");
  add_type(&p);
  if (is(node, "GlobalMaxPool")) braid_launch_option(&p, "-DLARGEST");
  braid_launch_input(&p, 0);
  if (is(node, "GlobalMaxPoolGrad")) braid_launch_input(&p, 1);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, each ? planes * size : planes);
  braid_launch_index(&p, size);
  braid_launch_range(&p, each ? planes * size : planes);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kPool = {.plan = pool_plan}, kGlobal = {.plan = pool_plan_global};

#define KERNEL(op_name, kernel, follow, cl)                                                                            \
  { .op = op_name, .name = kernel, .match = pool_match, .layouts = follow, .implementation = &cl }

static const braid_kernel kKernels[] = {
    KERNEL("MaxPool", "max_pool", max_pool_layouts, kPool),
    KERNEL("AveragePool", "average_pool", NULL, kPool),
    KERNEL("MaxPoolGrad", "max_pool_grad", max_pool_grad_layouts, kPool),
    KERNEL("AveragePoolGrad", "average_pool_grad", NULL, kPool),
    KERNEL("GlobalMaxPool", "global_max_pool", NULL, kGlobal),
    KERNEL("GlobalAveragePool", "global_average_pool", braid_launch_follow_channels, kGlobal),
    KERNEL("GlobalMaxPoolGrad", "global_max_pool_grad", NULL, kGlobal),
    KERNEL("GlobalAveragePoolGrad", "global_average_pool_grad", global_grad_layouts, kGlobal),
};

const braid_launch_family braid_launch_family_pool = {kKernels, sizeof kKernels / sizeof *kKernels, false};
