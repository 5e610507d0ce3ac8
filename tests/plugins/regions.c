/* The example's device as an inference chip: no kernels for single nodes, but it compiles whole regions of sums,
 * products and rectifiers. BRAID_REGIONS says what it claims: "" everything that it knows, one region for each piece of
 * the graph; "nested" these and both halves of each; "cross" two regions that wait for each other; or a claim that is
 * broken, or a region that is computed wrongly, in one way. */
#include <braid/plugin.h>
#undef BRAID_PLUGIN
#define BRAID_PLUGIN(backend)
#include "../../examples/plugin.c"

static const char *fault(void) {
  const char *set = getenv("BRAID_REGIONS");
  return set ? set : "";
}

static bool is(const char *name) {
  return strcmp(fault(), name) == 0;
}

static const braid_kernel REGION = {.op = BRAID_REGION_OP, .name = "chip_region"};
static const braid_kernel WRONG = {.op = "Relu", .name = "chip_relu"};

static const braid_kernel *const *no_kernels(void *device, size_t *count) {
  (void)device;
  *count = 0;
  return NULL;
}

/* --- claims --- */
static const braid_kernel *kernel_for(const braid_node_desc *node) {
  char why[256];
  for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++)
    if (strcmp(LIST[i]->op, node->op) == 0 && LIST[i]->match(node, why, sizeof why)) return LIST[i];
  return NULL;
}

static bool is_shape(const braid_node_desc *node) {
  return strcmp(node->op, "Flatten") == 0 || strcmp(node->op, "Reshape") == 0;
}

static uint32_t number_of(const braid_subgraph *graph, const char *name) {
  for (uint32_t n = 0; n < graph->node_count; n++)
    if (strcmp(graph->nodes[n].desc->name, name) == 0) return n;
  return UINT32_MAX;
}

static braid_status claim_named(const braid_subgraph *graph, braid_region_claim claim, void *context,
                                const char *const *names, size_t count) {
  uint32_t nodes[8];
  for (size_t i = 0; i < count; i++) nodes[i] = number_of(graph, names[i]);
  return claim(context, is("kernel") ? &WRONG : &REGION, nodes, count);
}

#define CLAIM(...)                                                                                                     \
  claim_named(graph, claim, context, (const char *const[]){__VA_ARGS__},                                               \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* A part of a run, unless nothing in it computes. */
static braid_status claim_part(const braid_subgraph *graph, braid_region_claim claim, void *context,
                               const uint32_t *nodes, size_t count) {
  bool known = false;
  for (size_t i = 0; i < count; i++) known |= !is_shape(graph->nodes[nodes[i]].desc);
  return known ? claim(context, &REGION, nodes, count) : BRAID_OK;
}

/* The larger one stands between those that it holds. */
static braid_status claim_run(const braid_subgraph *graph, braid_region_claim claim, void *context,
                              const uint32_t *nodes, size_t count) {
  size_t half = is("nested") ? count / 2 : 0;
  braid_status status = claim_part(graph, claim, context, nodes, half);
  if (status == BRAID_OK) status = claim_part(graph, claim, context, nodes, count);
  if (status == BRAID_OK && half) status = claim_part(graph, claim, context, nodes + half, count - half);
  return status;
}

/* Runs of nodes that it knows, cut by those that it does not: an interval of an order is convex. */
static braid_status claim_runs(const braid_subgraph *graph, braid_region_claim claim, void *context) {
  uint32_t *run = calloc(graph->node_count + 1, sizeof *run);
  size_t count = 0;
  braid_status status = run ? BRAID_OK : BRAID_NO_MEMORY;
  for (uint32_t n = 0; n <= graph->node_count && status == BRAID_OK; n++) {
    bool shape = n < graph->node_count && is_shape(graph->nodes[n].desc);
    if (n < graph->node_count && (shape || kernel_for(graph->nodes[n].desc))) {
      run[count++] = n;
      continue;
    }
    status = claim_run(graph, claim, context, run, count);
    count = 0;
  }
  free(run);
  return status;
}

/* All nodes that it knows, whatever stands between them. */
static braid_status claim_whole(const braid_subgraph *graph, braid_region_claim claim, void *context) {
  uint32_t nodes[64];
  size_t count = 0;
  for (uint32_t n = 0; n < graph->node_count && count < 64; n++)
    if (kernel_for(graph->nodes[n].desc)) nodes[count++] = n;
  return claim(context, &REGION, nodes, count);
}

static braid_status claim_regions(void *device, const braid_subgraph *graph, braid_region_claim claim, void *context) {
  (void)device;
  if (is("none")) return BRAID_OK;
  if (is("fails")) return braid_fail(BRAID_INTERNAL, "the chip's compiler has ended");
  if (is("kernel")) return CLAIM("a");
  if (is("twice")) return CLAIM("a", "b", "a");
  if (is("nobody")) return CLAIM("a", "no such node");
  if (is("empty")) return claim(context, &REGION, NULL, 0);
  if (is("convex")) return CLAIM("a", "d"); /* c, which is not in it, stands between */
  if (is("overlap") || is("overlap, and quiet")) {
    braid_status status = CLAIM("a", "b");
    if (status == BRAID_OK) status = CLAIM("b", "c");
    return is("overlap") ? status : BRAID_OK;
  }
  if (is("cross")) {
    braid_status status = CLAIM("p", "s");
    return status == BRAID_OK ? CLAIM("q", "r") : status;
  }
  return is("whole") ? claim_whole(graph, claim, context) : claim_runs(graph, claim, context);
}

/* --- regions: nodes one after the other, over values of which those inside lie in the workspace --- */
static bool is_constant_matrix(const braid_subgraph *region, const braid_node_desc *node, size_t input) {
  bool read_otherwise = false;
  int32_t value = region->inputs[input];
  for (size_t n = 0; n < region->node_count; n++)
    for (size_t i = 0; i < region->nodes[n].desc->input_count; i++)
      if (region->nodes[n].inputs[i] == value)
        read_otherwise |= strcmp(region->nodes[n].desc->op, "MatMul") != 0 || i != 1;
  return node->inputs[input].constant && !read_otherwise;
}

static size_t slot_bytes(const braid_operand *operand) {
  return (braid_desc_bytes(&operand->desc) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static braid_status query_region(void *device, const braid_kernel *kernel, const braid_node_desc *node,
                                 size_t *workspace_bytes, braid_packing *packings, size_t *packing_count) {
  (void)device, (void)kernel;
  const braid_subgraph *region = node->region;
  *workspace_bytes = *packing_count = 0;
  for (size_t n = 0; n < region->node_count; n++)
    for (size_t i = 0; i < region->nodes[n].desc->output_count; i++)
      *workspace_bytes += slot_bytes(&region->nodes[n].desc->outputs[i]);
  for (size_t i = 0; i < node->input_count; i++)
    if (is_constant_matrix(region, node, i))
      packings[(*packing_count)++] = (braid_packing){(uint32_t)i, braid_desc_bytes(&node->inputs[i].desc), 7};
  return BRAID_OK;
}

/* What is packed is known when the region is prepared; later the constants' contents may be gone. */
typedef struct compiled {
  const braid_node_desc *node;
  bool packed[]; /* per input */
} compiled;

/* Matrices with all signs turned: who computes with the plain form is found out. */
static braid_status pack(void *device, void *ready, uint32_t input, const void *plain, void *packed) {
  (void)device;
  const braid_node_desc *node = ((const compiled *)ready)->node;
  int64_t count = braid_desc_count(&node->inputs[input].desc);
  for (int64_t i = 0; i < count; i++) ((float *)packed)[i] = -((const float *)plain)[i];
  return BRAID_OK;
}

static braid_status run_node(const braid_subgraph_node *at, const bool *turned, float *const *values) {
  const float *inputs[2] = {NULL, NULL};
  const braid_node_desc *node = at->desc;
  float *output = values[at->outputs[0]];
  int64_t count = braid_desc_count(&node->outputs[0].desc);
  for (size_t i = 0; i < node->input_count && i < 2; i++) inputs[i] = values[at->inputs[i]];
  if (is_shape(node) || (is("wrong node") && strcmp(node->op, "Relu") == 0)) {
    memcpy(output, inputs[0], (size_t)count * sizeof *output);
    return BRAID_OK;
  }
  const braid_kernel *kernel = kernel_for(node);
  if (!kernel) return braid_fail(BRAID_INTERNAL, "%s is in a region and was not claimed", node->name);
  ((const implementation *)kernel->implementation)->run(node, inputs, output);
  for (int64_t k = 0; node->input_count > 1 && turned[at->inputs[1]] && !is("plain") && k < count; k++)
    output[k] = -output[k];
  return BRAID_OK;
}

/* Input 0 as it was when the task was submitted. */
static float *early;

static braid_status submit_chip(void *queue, braid_task *task) {
  const float *input = task->kind == BRAID_TASK_KERNEL && is("early") ? locate(&task->bindings[0]) : NULL;
  if (input) {
    free(early);
    early = malloc(task->bindings[0].bytes + 1);
    if (early) memcpy(early, input, task->bindings[0].bytes);
  }
  return submit(queue, task);
}

static braid_status run_region(const braid_task *task) {
  const compiled *chip = task->prepared;
  const braid_node_desc *node = chip->node;
  const braid_subgraph *region = node->region;
  float **values = calloc(region->value_count + 1, sizeof *values);
  bool *turned = calloc(region->value_count + 1, sizeof *turned);
  const braid_binding *bindings = task->bindings;
  size_t outputs = task->output_count;
  uint8_t *scratch = locate(&bindings[task->input_count + outputs]);
  braid_status status = values && turned ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; i < task->input_count && status == BRAID_OK; i++) {
    values[region->inputs[i]] = locate(&bindings[i]);
    turned[region->inputs[i]] = chip->packed[i];
    if (!values[region->inputs[i]]) status = outside(bindings[i].bytes);
    if (early && i == 0) values[region->inputs[i]] = early;
  }
  for (size_t i = is("last output") && outputs ? outputs - 1 : 0; i < outputs && status == BRAID_OK; i++) {
    values[region->outputs[i]] = locate(&bindings[task->input_count + i]);
    if (!values[region->outputs[i]]) status = outside(bindings[task->input_count + i].bytes);
  }
  for (size_t n = 0; n < region->node_count && status == BRAID_OK; n++) {
    const braid_subgraph_node *at = &region->nodes[n];
    if (!values[at->outputs[0]]) {
      values[at->outputs[0]] = (float *)(void *)scratch;
      scratch += slot_bytes(&at->desc->outputs[0]);
    }
    status = run_node(at, turned, values);
  }
  free(values);
  free(turned);
  return status;
}

static braid_status prepare_region(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                                   braid_prepared_info *info) {
  size_t packings = 0;
  braid_packing *list = calloc(node->input_count + 1, sizeof *list);
  compiled *made = braid_zalloc(((tutor *)device)->allocator, sizeof *made + node->input_count * sizeof *made->packed);
  *info = (braid_prepared_info){0};
  *out = made;
  if (list && made) {
    (void)query_region(device, kernel, node, &info->workspace_bytes, list, &packings);
    made->node = node;
    for (size_t i = 0; i < packings; i++) made->packed[list[i].input] = node->packed;
  }
  free(list);
  return list && made ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status run_chip(void *context, const braid_task *task) {
  return task->kind == BRAID_TASK_KERNEL ? run_region(task) : run_task(context, task);
}

static braid_status chip_queue(void *device, braid_timeline *timeline, void **queue) {
  static const braid_host_queue_ops OPS = {.run = run_chip};
  return braid_host_queue_create(((tutor *)device)->allocator, "chip", &OPS, device, timeline,
                                 (braid_host_queue **)queue);
}

static void describe_chip(braid_device_info *info) {
  snprintf(info->name, sizeof info->name, "chip");
}

static void chip_info(void *device, braid_device_info *info) {
  device_info(device, info);
  describe_chip(info);
}

static braid_status chip_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = enumerate(infos, capacity, count);
  if (capacity) describe_chip(&infos[0]);
  return status;
}

BRAID_API const braid_backend *braid_plugin(uint32_t abi);
const braid_backend *braid_plugin(uint32_t abi) {
  static braid_backend table;
  (void)abi;
  table = BACKEND;
  table.name = "chip";
  table.enumerate = chip_enumerate;
  table.info = chip_info;
  table.kernels = no_kernels;
  table.prepare = prepare_region;
  table.queue_create = chip_queue;
  table.submit = submit_chip;
  table.pack = pack;
  table.claim_regions = claim_regions;
  if (!is("no query_region")) table.query_region = query_region;
  return &table;
}
