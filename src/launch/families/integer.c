/* Training in integers, element by element: values, errors, the loss, updates, digests. One pass each, magnitudes and
 * exponents stay on the device. */
#include "graph/integer.h"

#include "launch/families.h"
#include "launch/integer.h"

/* Elements of a work-item, and places of a digest that a group takes. */
enum { kCpuLanes = 16, kLanes = 4, kCpuCounters = 16, kCpuRun = 8192, kRunOfItem = 16, kBlock = 16 };

static int64_t attr_of(const braid_node_desc *node, const char *name) {
  return braid_attr_int(node->attrs, name, 0);
}

/* Padding is worked on as well: zeros, which stay zeros. */
static int64_t count_of(const braid_node_desc *node) {
  return braid_launch_places(&node->inputs[0].desc);
}

static void integer_begin(braid_launch_planner *p, const char *function) {
  braid_launch_begin(p, "integer", function);
  braid_launch_option(p, "-DLANES=%d", p->traits->cpu ? kCpuLanes : kLanes);
}

static void add_inputs(braid_launch_planner *p) {
  for (size_t i = 0; i < p->node->input_count; i++) braid_launch_input(p, i);
}

static void add_outputs(braid_launch_planner *p, size_t count) {
  for (size_t i = 0; i < count; i++) braid_launch_output(p, i);
}

/* A work-item for `each` elements, one at least, which writes what does not depend on them. */
static void add_items(braid_launch_planner *p, int64_t count, int64_t each) {
  int64_t items = braid_launch_ceil_div(count, each), group = (int64_t)braid_launch_tree_group(p->traits);
  braid_launch_groups(p, braid_launch_ceil_div(items > 0 ? items : 1, group), 1, 1, (size_t)group);
}

static void add_lanes(braid_launch_planner *p) {
  add_items(p, count_of(p->node), p->traits->cpu ? kCpuLanes : kLanes);
}

/* --- values --------------------------------------------------------------------------------------------------------
 */
static braid_status plan_input(const braid_launch_traits *traits, const braid_node_desc *node,
                               braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "input");
  braid_launch_option(&p, "-DINPUT");
  add_inputs(&p);
  add_outputs(&p, 1);
  braid_launch_index(&p, count_of(node));
  braid_launch_float(&p, (double)((int64_t)1 << attr_of(node, "shift")));
  braid_launch_int(&p, braid_integer_max(attr_of(node, "bits")));
  add_lanes(&p);
  return braid_launch_plan_end(&p);
}

static braid_status plan_quantize(const braid_launch_traits *traits, const braid_node_desc *node,
                                  braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "quantize");
  braid_launch_add_parameter_type(&p, node->inputs[0].desc.dtype);
  add_inputs(&p);
  add_outputs(&p, 1);
  braid_launch_index(&p, count_of(node));
  braid_launch_int(&p, attr_of(node, "shift"));
  braid_launch_int(&p, braid_integer_max(attr_of(node, "bits")));
  add_lanes(&p);
  return braid_launch_plan_end(&p);
}

static braid_status plan_relu(const braid_launch_traits *traits, const braid_node_desc *node,
                              braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "relu");
  add_inputs(&p);
  add_outputs(&p, 1);
  braid_launch_index(&p, count_of(node));
  add_lanes(&p);
  return braid_launch_plan_end(&p);
}

static braid_status plan_relu_grad(const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "relu_grad");
  if (braid_launch_is_samples(node)) braid_launch_option(&p, "-DSAMPLES");
  add_inputs(&p);
  add_outputs(&p, 1);
  braid_launch_index(&p, count_of(node));
  braid_launch_int(&p, braid_integer_max(attr_of(node, "bits")));
  if (braid_launch_is_samples(node))
    add_items(&p, count_of(node), kBlock);
  else
    add_lanes(&p);
  return braid_launch_plan_end(&p);
}

static braid_status plan_add(const braid_launch_traits *traits, const braid_node_desc *node,
                             braid_launch_recipe *recipe) {
  braid_launch_planner p;
  int64_t most = braid_integer_max(attr_of(node, "bits"));
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "add");
  add_inputs(&p);
  add_outputs(&p, 1);
  braid_launch_index(&p, count_of(node));
  braid_launch_int(&p, attr_of(node, "relu") ? 0 : -most);
  braid_launch_int(&p, most);
  add_lanes(&p);
  return braid_launch_plan_end(&p);
}

/* --- errors and loss -----------------------------------------------------------------------------------------------
 */
static braid_status plan_error_sum(const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_add_clear(&p, 1);
  integer_begin(&p, "error_sum");
  add_inputs(&p);
  add_outputs(&p, 3);
  braid_launch_index(&p, count_of(node));
  add_lanes(&p);
  return braid_launch_plan_end(&p);
}

static braid_status plan_magnitude(const braid_launch_traits *traits, const braid_node_desc *node,
                                   braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_add_clear(&p, 0);
  integer_begin(&p, "magnitude");
  braid_launch_option(&p, "-DMAGNITUDE");
  braid_launch_add_raw(&p, node->inputs[0].desc.dtype);
  add_inputs(&p);
  add_outputs(&p, 1);
  braid_launch_index(&p, count_of(node));
  add_lanes(&p);
  return braid_launch_plan_end(&p);
}

/* The seed's halves and the stream of random numbers. */
static void add_random(braid_launch_planner *p) {
  uint64_t seed = (uint64_t)attr_of(p->node, "seed");
  braid_launch_int(p, (int32_t)(uint32_t)seed);
  braid_launch_int(p, (int32_t)(uint32_t)(seed >> 32));
  braid_launch_int(p, (int32_t)(uint32_t)attr_of(p->node, "stream"));
}

static braid_status plan_scale_error(const braid_launch_traits *traits, const braid_node_desc *node,
                                     braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  const braid_desc *raw = &node->inputs[0].desc;
  integer_begin(&p, "scale_error");
  braid_launch_option(&p, "-DCOUNTERS=1%s", node->input_count > 4 ? " -DRECTIFIED" : "");
  braid_launch_add_raw(&p, raw->dtype);
  if (braid_launch_is_samples(node)) braid_launch_option(&p, "-DSAMPLES");
  for (size_t i = 0; i < 5; i++) braid_launch_input(&p, i);
  add_outputs(&p, 2);
  braid_launch_index(&p, count_of(node));
  braid_launch_int(&p, node->input_count > 4 ? braid_integer_max(attr_of(node, "relu_bits")) : 0);
  braid_launch_int(&p, attr_of(node, "bits"));
  braid_launch_int(&p, (int32_t)attr_of(node, "offset")); /* exponents wrap at 32 bits */
  add_random(&p);
  braid_launch_int(&p, (int32_t)(uint32_t)attr_of(node, "first")); /* of a slice of a batch */
  if (!braid_launch_is_samples(node)) {
    add_lanes(&p);
    return braid_launch_plan_end(&p);
  }
  braid_launch_index(&p, raw->dims[0]);
  braid_launch_index(&p, raw->dims[1]);
  braid_launch_index(&p, braid_launch_positions(raw));
  add_items(&p, count_of(node), kBlock);
  return braid_launch_plan_end(&p);
}

static braid_status plan_squared_error(const braid_launch_traits *traits, const braid_node_desc *node,
                                       braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "squared_error");
  if (attr_of(node, "hinge")) braid_launch_option(&p, "-DHINGE");
  if (braid_launch_has_output(node, 1)) braid_launch_option(&p, "-DWITH_RAW");
  if (braid_launch_has_output(node, 2)) braid_launch_option(&p, "-DWITH_MAGNITUDE");
  add_inputs(&p);
  add_outputs(&p, 3);
  braid_launch_index(&p, count_of(node));
  braid_launch_index(&p, node->inputs[0].desc.dims[1]);
  braid_launch_int(&p, braid_integer_max(attr_of(node, "bits")));
  braid_launch_groups(&p, 1, 1, 1, traits->cpu ? 1 : braid_launch_tree_group(traits));
  return braid_launch_plan_end(&p);
}

/* --- update and digest ---------------------------------------------------------------------------------------------
 */
static braid_status plan_update(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe) {
  braid_launch_planner p;
  int counters = traits->cpu ? kCpuCounters : 1;
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "update");
  braid_launch_option(&p, "-DUPDATE -DCOUNTERS=%d", counters);
  braid_launch_add_parameter_type(&p, node->inputs[0].desc.dtype);
  braid_launch_add_raw(&p, node->inputs[1].desc.dtype);
  add_inputs(&p);
  add_outputs(&p, 1);
  braid_launch_index(&p, count_of(node));
  braid_launch_int(&p, attr_of(node, "bits"));
  braid_launch_int(&p, attr_of(node, "slower"));
  add_random(&p);
  add_items(&p, count_of(node), 4 * counters);
  return braid_launch_plan_end(&p);
}

static braid_status plan_momentum(const braid_launch_traits *traits, const braid_node_desc *node,
                                  braid_launch_recipe *recipe) {
  braid_launch_planner p;
  int counters = traits->cpu ? kCpuCounters : 1;
  braid_launch_plan_begin(&p, traits, node, recipe);
  integer_begin(&p, "momentum");
  braid_launch_option(&p, "-DUPDATE -DCOUNTERS=%d", counters);
  braid_launch_add_parameter_type(&p, node->inputs[0].desc.dtype);
  braid_launch_add_raw(&p, node->inputs[2].desc.dtype);
  add_inputs(&p);
  add_outputs(&p, 2);
  braid_launch_index(&p, count_of(node));
  braid_launch_int(&p, attr_of(node, "bits"));
  braid_launch_int(&p, attr_of(node, "place"));
  braid_launch_int(&p, attr_of(node, "decay"));
  add_random(&p);
  add_items(&p, count_of(node), 4 * counters);
  return braid_launch_plan_end(&p);
}

/* A launch for each tensor: groups of the places of a sample. */
static void add_digest(braid_launch_planner *p, size_t input) {
  const braid_desc *desc = &p->node->inputs[input].desc;
  int64_t samples = desc->rank > 0 ? desc->dims[0] : 1, count = braid_desc_count(desc);
  int64_t places = samples > 0 ? count / samples : 0;
  int64_t group = p->traits->cpu ? 1 : (int64_t)braid_launch_tree_group(p->traits);
  if (places < group) group = 1;
  int64_t run = p->traits->cpu ? kCpuRun : group * kRunOfItem, runs = braid_launch_ceil_div(places, run);
  integer_begin(p, "digest");
  braid_launch_option(p, "-DNUMBER=%s%s", braid_launch_type(desc->dtype),
                      desc->dtype == BRAID_I64 ? " -DNUMBER_LONG" : "");
  braid_launch_input(p, input);
  braid_launch_output(p, 0);
  braid_launch_int(p, (int64_t)input);
  braid_launch_int(p, (int32_t)(uint32_t)attr_of(p->node, "first"));
  braid_launch_index(p, places);
  braid_launch_index(p, run);
  braid_launch_index(p, runs > 0 ? runs : 1);
  braid_launch_groups(p, samples * runs, 1, 1, (size_t)group);
}

static braid_status plan_digest(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_add_clear(&p, 0);
  for (size_t i = 0; i < node->input_count; i++) add_digest(&p, i);
  return braid_launch_plan_end(&p);
}

/* Either order of elements; padding is zeros. */
static void magnitude_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  (void)node;
  if (inputs[0] != BRAID_LAUNCH_SAMPLES) inputs[0] = BRAID_LAYOUT_PLAIN;
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

static const braid_launch_kernel kInput = {.plan = plan_input}, kQuantize = {.plan = plan_quantize},
                                 kRelu = {.plan = plan_relu}, kReluGrad = {.plan = plan_relu_grad},
                                 kAdd = {.plan = plan_add}, kErrorSum = {.plan = plan_error_sum},
                                 kMagnitude = {.plan = plan_magnitude}, kScaleError = {.plan = plan_scale_error},
                                 kSquaredError = {.plan = plan_squared_error}, kUpdate = {.plan = plan_update},
                                 kMomentum = {.plan = plan_momentum}, kDigest = {.plan = plan_digest};

static const braid_kernel kKernels[] = {
    {.op = "IntegerAdd",
     .name = "integer_add",
     .in_place = 3,
     .layouts = braid_launch_samples_layouts,
     .implementation = &kAdd},
    {.op = "IntegerDigest", .name = "integer_digest", .implementation = &kDigest},
    {.op = "IntegerErrorSum",
     .name = "integer_error_sum",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kErrorSum},
    {.op = "IntegerInput", .name = "integer_input", .implementation = &kInput},
    {.op = "IntegerMagnitude",
     .name = "integer_magnitude",
     .layouts = magnitude_layouts,
     .implementation = &kMagnitude},
    {.op = "IntegerMomentum",
     .name = "integer_momentum",
     .in_place = 1u << 0,
     .in_place_more = {1u << 1},
     .implementation = &kMomentum},
    {.op = "IntegerQuantize", .name = "integer_quantize", .implementation = &kQuantize},
    {.op = "IntegerRelu",
     .name = "integer_relu",
     .in_place = 1,
     .layouts = braid_launch_samples_layouts,
     .implementation = &kRelu},
    {.op = "IntegerReluGrad",
     .name = "integer_relu_grad",
     .in_place = 3,
     .layouts = braid_launch_samples_layouts,
     .implementation = &kReluGrad},
    {.op = "IntegerScaleError",
     .name = "integer_scale_error",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kScaleError},
    {.op = "IntegerScaleErrorRelu",
     .name = "integer_scale_error_relu",
     .layouts = braid_launch_samples_layouts,
     .implementation = &kScaleError},
    {.op = "IntegerSquaredError", .name = "integer_squared_error", .implementation = &kSquaredError},
    {.op = "IntegerUpdate", .name = "integer_update", .in_place = 1, .implementation = &kUpdate},
};

const braid_launch_family braid_launch_family_integer = {kKernels, sizeof kKernels / sizeof *kKernels, false};
