#include "runtime/plan/plan.h"

#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "graph/custom.h"
#include "graph/precision.h"
#include "runtime/plan/placing.h"
#include "runtime/plan/regions.h"
#include "runtime/plan/resolve.h"
#include "runtime/plan/restore.h"
#include "runtime/plan/steps.h"
#include "tensor/deferred.h"
#include "tensor/layout.h"

/* --- questions -----------------------------------------------------------------------------------------------------
 */
bool braid_plan_is_constant(const braid_plan *plan, braid_value_id id) {
  const braid_value *value = &plan->graph->values[id];
  if (value->kind == BRAID_VALUE_CONSTANT) return true;
  bool kept = value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
  return kept && !plan->training && value->next < 0;
}

int braid_plan_input_space(const braid_plan *plan, braid_value_id value) {
  return plan->device_io ? plan->homes[value] : kHostSpace;
}

bool braid_plan_is_mutable(const braid_plan *plan, braid_value_id id) {
  braid_value_kind kind = plan->graph->values[id].kind;
  return (kind == BRAID_VALUE_PARAMETER || kind == BRAID_VALUE_STATE) && !braid_plan_is_constant(plan, id);
}

braid_storage_id braid_plan_find(const braid_plan *plan, braid_storage_id id) {
  while (plan->storages[id].same_as >= 0) id = plan->storages[id].same_as;
  return id;
}

braid_storage *braid_plan_storage(const braid_plan *plan, braid_storage_id id) {
  return &plan->storages[braid_plan_find(plan, id)];
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
/* The layout in which an operand is at hand for a device: that of its instance there, else of the first one. */
static braid_layout layout_delivered(const braid_plan *plan, braid_value_id value, int space) {
  braid_instance_id found = plan->first_instance[value];
  for (braid_instance_id i = found; i >= 0; i = plan->instances[i].next)
    if (plan->instances[i].space == space) {
      found = i;
      break;
    }
  return found >= 0 ? plan->instances[found].desc.layout : plan->layouts[value];
}

/* An element-by-element op works in any layout that all its operands share: that of the first that has one. Operands of
 * one element fit every layout. Padding must stay zero, which only the caller of an op could promise, so a padded
 * layout is not followed; nor is one that no device of the space can bring the others into. */
static braid_layout layout_followed(const braid_plan *plan, const braid_node *node, int space,
                                    const braid_layout *inputs) {
  const braid_graph *graph = plan->graph;
  const braid_desc *shape = &graph->values[node->outputs[0]].desc;
  braid_layout layout = BRAID_LAYOUT_PLAIN;
  if (!(node->op->flags & BRAID_OP_ELEMENTWISE)) return layout;
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0 && !braid_desc_same_shape(&graph->values[node->outputs[i]].desc, shape)) return layout;
  for (size_t i = node->input_count; i-- > 0;) {
    if (node->inputs[i] < 0) continue;
    const braid_desc *input = &graph->values[node->inputs[i]].desc;
    if (!braid_desc_same_shape(input, shape)) {
      if (braid_desc_count(input) != 1) return BRAID_LAYOUT_PLAIN;
      continue;
    }
    if (inputs[i] != BRAID_LAYOUT_PLAIN) layout = inputs[i];
  }
  for (size_t i = 0; i < node->input_count && layout != BRAID_LAYOUT_PLAIN; i++) {
    if (node->inputs[i] < 0) continue;
    braid_desc input = graph->values[node->inputs[i]].desc;
    input.layout = inputs[i];
    if (braid_desc_same_shape(&input, shape) && !braid_plan_converts(plan, space, &input, layout))
      layout = BRAID_LAYOUT_PLAIN;
  }
  braid_desc desc = *shape;
  desc.layout = layout;
  return braid_desc_is_padded(&desc) ? BRAID_LAYOUT_PLAIN : layout;
}

/* A saved plan says what the kernel answered, which is asked once more before the first run: with what is `delivered`.
 */
static braid_status restore_layouts(const braid_plan *plan, braid_step *step) {
  size_t bytes = (step->input_count + step->output_count + 1) * sizeof *step->layouts;
  step->delivered = braid_arena_alloc(plan->arena, bytes);
  if (!step->delivered) return BRAID_NO_MEMORY;
  memcpy(step->delivered, step->layouts, bytes);
  return braid_restore_layouts(plan, step->node, step->desc, step->layouts);
}

/* Asks for the layouts of a node's operands, inputs, then outputs. What the kernel is told differs in one case: an
 * element-by-element kernel sees PLAIN operands, since any order of the elements is as good. */
static braid_status choose_layouts(const braid_plan *plan, braid_step *step) {
  const braid_machine_device *device = &plan->devices[step->device];
  const braid_node *node = &plan->graph->nodes[step->node];
  size_t inputs = node->input_count, count = inputs + node->output_count;
  bool asked = step->kernel->layouts || device->backend->layouts;
  braid_layout *layouts = step->layouts;
  for (size_t i = 0; i < count; i++) {
    braid_value_id id = i < inputs ? node->inputs[i] : node->outputs[i - inputs];
    layouts[i] = BRAID_LAYOUT_PLAIN;
    if (id >= 0) layouts[i] = i < inputs ? layout_delivered(plan, id, device->space) : plan->layouts[id];
    step->operands[i].desc.layout = layouts[i];
  }
  if (asked && plan->saved) {
    BRAID_TRY(restore_layouts(plan, step));
  } else if (!braid_machine_layouts(plan->machine, step->device, step->kernel, step->desc, layouts, layouts + inputs)) {
    braid_layout common = layout_followed(plan, node, device->space, layouts);
    for (size_t i = 0; i < count; i++)
      layouts[i] =
          step->operands[i].present && braid_desc_count(&step->operands[i].desc) == 1 ? BRAID_LAYOUT_PLAIN : common;
  }
  for (size_t i = 0; i < count; i++) {
    braid_desc *desc = &step->operands[i].desc;
    desc->layout = BRAID_LAYOUT_PLAIN;
    if (!asked || !step->operands[i].present) continue;
    if (braid_desc_set_layout(desc, layouts[i]) != BRAID_OK)
      return braid_fail_prefix(BRAID_INTERNAL, "node %.120s (%s): the layout that kernel %s asks for", node->name,
                               node->op->name, step->kernel->name);
    layouts[i] = desc->layout;
  }
  return BRAID_OK;
}

braid_operand *braid_plan_describe(const braid_plan *plan, const braid_node *node, braid_node_desc *desc) {
  size_t inputs = node->input_count, count = inputs + node->output_count;
  braid_operand *operands = braid_arena_alloc(plan->arena, (count + 1) * sizeof *operands);
  if (!operands) return NULL;
  for (size_t i = 0; i < count; i++) {
    braid_value_id id = i < inputs ? node->inputs[i] : node->outputs[i - inputs];
    if (id < 0) continue;
    const braid_value *value = &plan->graph->values[id];
    bool constant = i < inputs && braid_plan_is_constant(plan, id);
    operands[i] = (braid_operand){true, value->desc, constant ? braid_tensor_preview(value->tensor) : NULL};
  }
  *desc = (braid_node_desc){.op = node->op->name,
                            .name = node->name,
                            .custom = braid_custom_op_of(node->op),
                            .attrs = &node->attrs,
                            .input_count = inputs,
                            .output_count = node->output_count,
                            .inputs = operands,
                            .outputs = operands + inputs,
                            .threads = plan->small ? 1 : 0,
                            .training = plan->training};
  return operands;
}

/* Brings the inputs to where the step needs them and makes the outputs; constants wait for place_constants. */
static braid_status place_operands(braid_plan *plan, const braid_node *node, const braid_layout *layouts,
                                   braid_step *step) {
  int space = plan->devices[step->device].space;
  size_t inputs = node->input_count;
  for (size_t i = 0; i < inputs; i++) {
    step->instances[i] = -1;
    if (node->inputs[i] < 0 || braid_plan_is_constant(plan, node->inputs[i])) continue;
    BRAID_TRY(braid_plan_get(plan, node->inputs[i], space, layouts[i], step->device, &step->instances[i]));
  }
  for (size_t i = 0; i < node->output_count; i++) {
    step->instances[inputs + i] = -1;
    if (node->outputs[i] < 0) continue;
    BRAID_TRY(braid_plan_new_instance(plan, node->outputs[i], space, layouts[inputs + i], BRAID_STORAGE_ARENA, true,
                                      &step->instances[inputs + i]));
  }
  return BRAID_OK;
}

static braid_queue_role role_of(const braid_plan *plan, const braid_node *node, const braid_placement *place) {
  bool collective = (node->op->flags & BRAID_OP_COLLECTIVE) && plan->devices[place->device].info->max_queues > 1;
  return collective ? BRAID_QUEUE_GROUP : BRAID_QUEUE_KERNELS;
}

static braid_status build_node(braid_plan *plan, braid_node_id id) {
  const braid_node *node = &plan->graph->nodes[id];
  const braid_placement *place = &plan->places[id];
  size_t count = node->input_count + node->output_count;
  braid_step step = {.kind = BRAID_STEP_KERNEL,
                     .device = place->device,
                     .queue = braid_queue_index(place->device, role_of(plan, node, place)),
                     .node = id,
                     .label = node->name,
                     .op = node->op->name,
                     .why = place->why,
                     .kernel = place->kernel,
                     .input_count = node->input_count,
                     .output_count = node->output_count,
                     .workspace = -1};
  step.desc = braid_arena_alloc(plan->arena, sizeof *step.desc);
  step.instances = braid_arena_alloc(plan->arena, (count + 1) * sizeof *step.instances);
  step.layouts = braid_arena_alloc(plan->arena, (count + 1) * sizeof *step.layouts);
  if (!step.desc || !step.instances || !step.layouts) return BRAID_NO_MEMORY;
  step.operands = braid_plan_describe(plan, node, step.desc);
  if (!step.operands) return BRAID_NO_MEMORY;
  if (place->region) {
    step.desc->region = &place->region->graph;
    step.packings = braid_arena_alloc(plan->arena, (node->input_count + 1) * sizeof *step.packings);
    if (!step.packings) return BRAID_NO_MEMORY;
  }
  BRAID_TRY(choose_layouts(plan, &step));
  BRAID_TRY(place_operands(plan, node, step.layouts, &step));
  return braid_plan_append(plan, false, &step);
}

/* The packed form of a constant: one for all steps of a device that ask for the same. */
static braid_status place_packed(braid_plan *plan, braid_step_id id, const braid_packing *packing) {
  braid_step *step = &plan->steps.items[id];
  braid_value_id value = plan->graph->nodes[step->node].inputs[packing->input];
  braid_instance_id *link = &plan->first_packed[value], *out = &step->instances[packing->input];
  int space = plan->devices[step->device].space;
  for (; *link >= 0; link = &plan->instances[*link].next) {
    const braid_storage *storage = &plan->storages[plan->instances[*link].storage];
    bool same = storage->packing.key == packing->key && storage->packing.bytes == packing->bytes;
    if (!same || plan->steps.items[storage->packer].device != step->device) continue;
    *out = *link;
    return BRAID_OK;
  }
  braid_storage_id storage;
  BRAID_TRY(braid_plan_add_storage(plan, BRAID_STORAGE_PERSISTENT, space, packing->bytes, &storage));
  plan->storages[storage].value = value;
  plan->storages[storage].packer = id;
  plan->storages[storage].packing = *packing;
  braid_instance_id last = -1;
  for (braid_instance_id i = plan->first_packed[value]; i >= 0; i = plan->instances[i].next) last = i;
  BRAID_TRY(braid_plan_add_instance(plan, value, space, BRAID_LAYOUT_PLAIN, storage, false, out));
  *(last < 0 ? &plan->first_packed[value] : &plan->instances[last].next) = *out;
  return BRAID_OK;
}

/* What is known once the kernels were asked: which constants they take over or want packed, and the workspaces. */
static braid_status place_constants(braid_plan *plan, braid_step_id id) {
  braid_step *step = &plan->steps.items[id];
  const braid_node *node = &plan->graph->nodes[step->node];
  int space = plan->devices[step->device].space;
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0 || !braid_plan_is_constant(plan, node->inputs[i])) continue;
    const braid_packing *packing = braid_step_packing(step, i);
    if (packing)
      BRAID_TRY(place_packed(plan, id, packing));
    else if (i < 32 && (step->folded >> i & 1))
      plan->folded_bytes += braid_desc_bytes(&plan->graph->values[node->inputs[i]].desc);
    else
      BRAID_TRY(braid_plan_get(plan, node->inputs[i], space, step->layouts[i], step->device, &step->instances[i]));
  }
  if (!step->query.workspace_bytes) return BRAID_OK;
  return braid_plan_add_storage(plan, BRAID_STORAGE_ARENA, space, step->query.workspace_bytes, &step->workspace);
}

/* A view is its input under another name, where there is a layout in which the new shape is the same memory; else its
 * input made plain. */
static braid_status build_view(braid_plan *plan, const braid_node *node) {
  const braid_graph *graph = plan->graph;
  braid_value_id from = node->inputs[0], to = node->outputs[0];
  braid_instance_id base = plan->first_instance[from];
  braid_layout layout = BRAID_LAYOUT_PLAIN;
  if (base < 0 || !braid_layout_view(&plan->instances[base].desc, &graph->values[to].desc, &layout)) {
    const braid_value *value = &graph->values[from];
    int space = base >= 0                          ? plan->instances[base].space
                : value->kind == BRAID_VALUE_INPUT ? braid_plan_input_space(plan, from)
                                                   : plan->homes[from];
    BRAID_TRY(braid_plan_get(plan, from, space, BRAID_LAYOUT_PLAIN, -1, &base));
  }
  const braid_instance instance = plan->instances[base];
  braid_instance_id view;
  return braid_plan_add_instance(plan, to, instance.space, layout, instance.storage, true, &view);
}

/* --- the graph's outputs and its states' updates -------------------------------------------------------------------
 */
/* May the output be computed straight into the caller's memory? */
static bool owns_memory(const braid_plan *plan, size_t index) {
  const braid_graph *graph = plan->graph;
  braid_value_id root = plan->roots[graph->outputs[index]];
  if (graph->values[root].kind != BRAID_VALUE_RESULT) return false;
  for (size_t i = 0; i < index; i++)
    if (plan->roots[graph->outputs[i]] == root) return false;
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].next >= 0 && plan->roots[graph->values[i].next] == root) return false;
  return true;
}

static braid_status build_output(braid_plan *plan, size_t index) {
  braid_value_id value = plan->graph->outputs[index];
  braid_layout layout = plan->output_layouts ? plan->output_layouts[index] : BRAID_LAYOUT_PLAIN;
  braid_instance_id from, to;
  if (owns_memory(plan, index)) {
    braid_node_id producer = plan->graph->values[plan->roots[value]].producer;
    int device = plan->device_io ? plan->places[producer].device : plan->host_device;
    int home = plan->device_io ? plan->devices[device].space : kHostSpace;
    BRAID_TRY(braid_plan_get(plan, value, home, layout, device, &to));
    braid_storage *storage = &plan->storages[plan->instances[to].storage];
    storage->kind = BRAID_STORAGE_OUTPUT;
    storage->index = (int)index;
    return BRAID_OK;
  }
  BRAID_TRY(braid_plan_new_instance(plan, value, kHostSpace, layout, BRAID_STORAGE_OUTPUT, false, &to));
  plan->storages[plan->instances[to].storage].index = (int)index;
  int space = plan->host_device >= 0 ? kHostSpace : plan->devices[0].space;
  BRAID_TRY(braid_plan_get(plan, value, space, layout, plan->host_device, &from));
  if (space == kHostSpace) return braid_plan_add_copy(plan, "copy", from, to);
  return braid_plan_add_transfer(plan, BRAID_STEP_READ, 0, from, to);
}

/* Outputs that show what a state was before the run, and updates that take over another state's old value, are copied
 * away first. */
static braid_status build_before(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  for (size_t i = 0; i < graph->output_count; i++)
    if (braid_plan_is_mutable(plan, graph->outputs[i])) BRAID_TRY(build_output(plan, i));
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value_id next = graph->values[i].next;
    if (next < 0 || graph->values[next].kind == BRAID_VALUE_RESULT) continue;
    braid_instance_id old;
    BRAID_TRY(braid_plan_get(plan, next, plan->homes[i], plan->layouts[i], -1, &old));
    BRAID_TRY(braid_plan_new_instance(plan, next, plan->homes[i], plan->layouts[i], BRAID_STORAGE_ARENA, false,
                                      &plan->updates[i]));
    BRAID_TRY(braid_plan_add_copy(plan, "keep", old, plan->updates[i]));
  }
  return BRAID_OK;
}

static braid_status build_after(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  for (size_t i = 0; i < graph->output_count; i++)
    if (!braid_plan_is_mutable(plan, graph->outputs[i])) BRAID_TRY(build_output(plan, i));
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value_id next = graph->values[i].next;
    if (next < 0) continue;
    braid_instance_id state; /* there, though perhaps nobody reads it */
    BRAID_TRY(braid_plan_get(plan, (braid_value_id)i, plan->homes[i], plan->layouts[i], -1, &state));
    if (graph->values[next].kind != BRAID_VALUE_RESULT) continue;
    BRAID_TRY(braid_plan_get(plan, next, plan->homes[i], plan->layouts[i], -1, &plan->updates[i]));
  }
  return BRAID_OK;
}

/* Where constants will be once somebody has asked for their numbers: until here kernels were shown a preview. */
static void show_constants(braid_plan *plan) {
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    for (size_t k = 0; step->node >= 0 && k < step->input_count; k++)
      if (step->operands[k].constant)
        step->operands[k].constant =
            braid_tensor_address(plan->graph->values[plan->graph->nodes[step->node].inputs[k]].tensor);
  }
}

static braid_status build_steps(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  BRAID_TRY(build_before(plan));
  for (size_t i = 0; i < graph->node_count; i++) {
    braid_node_id id = plan->order[i];
    BRAID_TRY(plan->places[id].device < 0 ? build_view(plan, &graph->nodes[id]) : build_node(plan, id));
  }
  BRAID_TRY(braid_plan_bring_early(plan));
  show_constants(plan);
  BRAID_TRY(braid_plan_query(plan));
  for (size_t i = 0; i < plan->steps.count; i++)
    if (plan->steps.items[i].node >= 0) BRAID_TRY(place_constants(plan, (braid_step_id)i));
  return build_after(plan);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
/* A node is a view if its op only renames memory. A name for a state that has to show the old value after the run (an
 * output, another's update) is a computation instead: the state will have changed by then. */
static bool is_view(const braid_plan *plan, const braid_node *node, const bool *shown) {
  const braid_graph *graph = plan->graph;
  if (!(node->op->flags & BRAID_OP_VIEW) || node->inputs[0] < 0 || node->outputs[0] < 0) return false;
  for (size_t j = 1; j < node->output_count; j++)
    if (node->outputs[j] >= 0) return false;
  const braid_desc *from = &graph->values[node->inputs[0]].desc, *to = &graph->values[node->outputs[0]].desc;
  return from->dtype == to->dtype && braid_desc_count(from) == braid_desc_count(to) &&
         !(shown[node->outputs[0]] && braid_plan_is_mutable(plan, plan->roots[node->inputs[0]]));
}

static braid_status find_views(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  bool *shown = braid_arena_alloc(plan->arena, graph->value_count + 1);
  plan->views = braid_arena_alloc(plan->arena, (graph->node_count + 1) * sizeof *plan->views);
  plan->roots = braid_arena_alloc(plan->arena, (graph->value_count + 1) * sizeof *plan->roots);
  if (!shown || !plan->views || !plan->roots) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->output_count; i++) shown[graph->outputs[i]] = true;
  for (size_t i = 0; i < graph->value_count; i++) {
    if (graph->values[i].next >= 0) shown[graph->values[i].next] = true;
    plan->roots[i] = (braid_value_id)i;
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    plan->views[i] = is_view(plan, node, shown);
    if (plan->views[i]) plan->roots[node->outputs[0]] = plan->roots[node->inputs[0]];
  }
  return BRAID_OK;
}

bool braid_plan_host_aligned(const braid_plan *plan, braid_dtype dtype, const void *address) {
  size_t element = braid_dtype_size(dtype);
  return ((uintptr_t)address & (plan->host_alignment - 1)) == 0 && (uintptr_t)address % element == 0;
}

static void find_queues(braid_plan *plan) {
  for (size_t i = 0; i < plan->queue_count; i++)
    plan->queues[i] =
        (braid_plan_queue){.device = (int)(i / BRAID_QUEUE_ROLES), .role = (braid_queue_role)(i % BRAID_QUEUE_ROLES)};
}

static braid_status plan_allocate(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  size_t values = graph->value_count, nodes = graph->node_count;
  plan->order = braid_arena_alloc(plan->arena, (nodes + 1) * sizeof *plan->order);
  plan->first_instance = braid_arena_alloc(plan->arena, (values + 1) * sizeof *plan->first_instance);
  plan->first_packed = braid_arena_alloc(plan->arena, (values + 1) * sizeof *plan->first_packed);
  plan->updates = braid_arena_alloc(plan->arena, (values + 1) * sizeof *plan->updates);
  plan->homes = braid_arena_alloc(plan->arena, (values + 1) * sizeof *plan->homes);
  plan->layouts = braid_arena_alloc(plan->arena, (values + 1) * sizeof *plan->layouts);
  plan->kept = braid_arena_alloc(plan->arena, (values + 1) * sizeof *plan->kept);
  plan->queues = braid_arena_alloc(plan->arena, plan->queue_count * sizeof *plan->queues);
  plan->arena_bytes = braid_arena_alloc(plan->arena, (plan->device_count + 1) * sizeof *plan->arena_bytes);
  plan->persistent_bytes = braid_arena_alloc(plan->arena, (plan->device_count + 1) * sizeof *plan->persistent_bytes);
  if (!plan->order || !plan->first_instance || !plan->first_packed || !plan->updates || !plan->homes ||
      !plan->layouts || !plan->kept || !plan->queues || !plan->arena_bytes || !plan->persistent_bytes)
    return BRAID_NO_MEMORY;
  for (size_t i = 0; i < values; i++) plan->first_instance[i] = plan->first_packed[i] = plan->updates[i] = -1;
  return BRAID_OK;
}

/* Waking another thread takes longer than small plans run, and so does dividing their nodes among threads. Only the
 * order of magnitude matters. */
static const double kSmallSeconds = 20e-6;

static size_t bytes_of(const braid_graph *graph, const braid_value_id *ids, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += ids[i] < 0 ? 0 : braid_desc_bytes(&graph->values[ids[i]].desc);
  return bytes;
}

/* All on one device whose tasks the host can run itself? *seconds: by one thread, modelled. */
static bool runs_on_host(const braid_plan *plan, double *seconds) {
  const braid_graph *graph = plan->graph;
  int device = -1;
  *seconds = 0;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (plan->places[i].device < 0) continue;
    if ((device >= 0 && plan->places[i].device != device) || plan->places[i].region) return false;
    if (node->op->flags & BRAID_OP_COLLECTIVE) return false;
    device = plan->places[i].device;
    double bytes = (double)bytes_of(graph, node->inputs, node->input_count) +
                   (double)bytes_of(graph, node->outputs, node->output_count);
    *seconds += braid_modelled_seconds(1, (double)braid_graph_node_macs(graph, (braid_node_id)i), bytes);
  }
  return device >= 0 && plan->devices[device].space == kHostSpace && plan->devices[device].backend->run;
}

static void choose_thread(braid_plan *plan) {
  double seconds;
  if (!runs_on_host(plan, &seconds)) return;
  plan->small = seconds <= kSmallSeconds;
  plan->here = plan->small || plan->callers_thread;
}

/* Which of the weights runs touch that others may touch too: parameters and states that are not constant. */
static void find_weights(braid_plan *plan) {
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    if (storage->same_as >= 0 || storage->kind != BRAID_STORAGE_PERSISTENT) continue;
    plan->reads_weights |= braid_plan_is_mutable(plan, storage->value);
  }
  for (size_t i = 0; i < plan->graph->value_count; i++) plan->writes_weights |= plan->updates[i] >= 0;
}

braid_status braid_plan_start(braid_plan *plan) {
  BRAID_TRY(braid_arena_create(plan->allocator, &plan->arena));
  plan->places = braid_arena_alloc(plan->arena, (plan->graph->node_count + 1) * sizeof *plan->places);
  return plan->places ? find_views(plan) : BRAID_NO_MEMORY;
}

braid_status braid_plan_finish(braid_plan *plan, braid_weights *weights) {
  BRAID_TRY(find_views(plan)); /* of what placing has made of the graph */
  BRAID_TRY(plan_allocate(plan));
  find_queues(plan);
  BRAID_TRY(braid_plan_order(plan));
  choose_thread(plan);
  BRAID_TRY(braid_plan_find_homes(plan, weights));
  braid_plan_announce_ends(plan);
  BRAID_TRY(build_steps(plan));
  BRAID_TRY(braid_plan_share(plan));
  find_weights(plan);
  BRAID_TRY(braid_plan_memory(plan));
  BRAID_TRY(braid_plan_hazards(plan));
  if (BRAID_ASSERTED) braid_plan_check(plan);
  return BRAID_OK;
}

static void plan_destroy(braid_plan *plan) {
  braid_free(plan->allocator, plan->setup.items);
  braid_free(plan->allocator, plan->steps.items);
  braid_free(plan->allocator, plan->instances);
  braid_free(plan->allocator, plan->storages);
  braid_free(plan->allocator, plan->digests);
  braid_plan_free_regions(plan);
  braid_arena_destroy(plan->arena);
  braid_graph_destroy(plan->graph);
  braid_graph_destroy(plan->unfolded);
  braid_machine_release(plan->machine);
  pthread_mutex_destroy(&plan->lock);
  braid_free(plan->allocator, plan);
}

braid_status braid_plan_new(braid_machine *machine, const braid_allocator *allocator, const braid_plan_options *options,
                            braid_plan **out) {
  braid_plan *plan = *out = braid_zalloc(allocator, sizeof *plan);
  if (!plan) return BRAID_NO_MEMORY;
  *plan = (braid_plan){.allocator = allocator,
                       .references = 1,
                       .machine = braid_machine_retain(machine),
                       .training = options->training,
                       .no_fusion = options->no_fusion,
                       .no_reuse = options->no_reuse,
                       .device_io = options->device_io,
                       .callers_thread = options->callers_thread,
                       .devices = machine->devices,
                       .device_count = machine->device_count,
                       .space_count = machine->space_count,
                       .host_device = machine->host_device,
                       .host_alignment = machine->host_alignment,
                       .queue_count = BRAID_QUEUE_ROLES * machine->device_count};
  pthread_mutex_init(&plan->lock, NULL);
  return BRAID_OK;
}

braid_status braid_plan_simplify(braid_graph *graph, bool no_fusion) {
  BRAID_TRY(braid_resolve_for_good(graph));
  if (!no_fusion) BRAID_TRY(braid_graph_fold(graph));
  if (graph->precision == BRAID_FLOAT32) return BRAID_OK;
  BRAID_TRY(braid_graph_apply_precision(graph));
  return braid_resolve_for_good(graph); /* casts of constants are constants */
}

typedef struct finding {
  const braid_graph *source;
  braid_read_set *read;
} finding;

static void find_constant(void *context, const char *name) {
  const finding *f = context;
  braid_value_id id = braid_graph_find_value(f->source, name);
  if (id >= 0 && f->source->values[id].kind == BRAID_VALUE_CONSTANT) f->read->items[id] = true;
}

/* Which of the given graph's constants the plan depends on, and its digest with these. */
static braid_status find_read(braid_plan *plan, const braid_graph *given) {
  const braid_graph *source = braid_graph_source(given);
  plan->read = (braid_read_set){braid_arena_alloc(plan->arena, source->value_count + 1), source->value_count};
  if (!plan->read.items) return BRAID_NO_MEMORY;
  braid_graph_visit_read(plan->graph, find_constant, &(finding){source, &plan->read});
  return braid_snapshot_digest(given, &plan->read, &plan->given);
}

/* Plans a copy of the graph. */
braid_status braid_plan_create(braid_machine *machine, const braid_graph *graph, const braid_plan_options *options,
                               braid_plan **out) {
  static const braid_plan_options kDefault;
  if (!options) options = &kDefault;
  braid_plan *plan;
  *out = NULL;
  BRAID_TRY(braid_plan_new(machine, graph->allocator, options, &plan));
  braid_status status = braid_graph_clone(graph, &plan->graph);
  if (status == BRAID_OK) status = braid_plan_simplify(plan->graph, options->no_fusion);
  if (status == BRAID_OK) status = braid_plan_start(plan);
  if (status == BRAID_OK) status = braid_plan_set_ends(plan, options);
  if (status == BRAID_OK) status = braid_plan_place(plan, graph, options);
  if (status == BRAID_OK) status = braid_plan_finish(plan, options->weights);
  if (status == BRAID_OK) status = find_read(plan, graph);
  if (status == BRAID_OK)
    *out = plan;
  else
    plan_destroy(plan);
  return status;
}

braid_plan *braid_plan_retain(braid_plan *plan) {
  braid_references_add(&plan->references);
  return plan;
}

void braid_plan_release(braid_plan *plan) {
  if (plan && braid_references_drop(&plan->references)) plan_destroy(plan);
}
