/* Homes of parameters and states: the space and the layout in which weights keep them from step to step.
 *
 * A parameter is kept as its heaviest reader likes it, if the step that updates it can work in that layout on all that
 * belongs to the update: gradient and states go along. Nothing of a step converts them then; who reads or writes them
 * from outside does (weights.c). */
#include <string.h>

#include "base/try.h"
#include "runtime/execution/weights.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/restore.h"

/* A state lives where its update is computed, else where it is used first. */
static void find_spaces(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  int fallback = plan->host_device >= 0 ? kHostSpace : plan->devices[0].space;
  for (size_t i = 0; i < graph->value_count; i++) plan->homes[i] = -1;
  for (size_t i = 0; i < graph->value_count; i++) {
    if (graph->values[i].next < 0) continue;
    const braid_value *next = &graph->values[plan->roots[graph->values[i].next]];
    if (next->kind == BRAID_VALUE_RESULT) plan->homes[i] = plan->devices[plan->places[next->producer].device].space;
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    if (plan->places[i].device < 0) continue;
    for (size_t j = 0; j < graph->nodes[i].input_count; j++) {
      braid_value_id id = graph->nodes[i].inputs[j];
      if (id < 0) continue;
      int space = plan->devices[plan->places[i].device].space;
      if (plan->homes[id] < 0) plan->homes[id] = space;
      if (plan->homes[plan->roots[id]] < 0) plan->homes[plan->roots[id]] = space;
    }
  }
  for (size_t i = 0; i < graph->value_count; i++)
    if (plan->homes[i] < 0) plan->homes[i] = fallback;
}

/* --- questions to kernels ------------------------------------------------------------------------------------------
 */
/* What the node's kernel says if operands come as plan->layouts has them, and operand `asked` (-1: none) as
 * BRAID_LAYOUT_ANY. *out: inputs, then outputs; NULL: the kernel has no say. */
static braid_status home_ask(braid_plan *plan, braid_node_id id, int asked, braid_layout **out) {
  const braid_node *node = &plan->graph->nodes[id];
  const braid_placement *place = &plan->places[id];
  size_t inputs = node->input_count, count = inputs + node->output_count;
  braid_node_desc desc;
  braid_operand *operands = braid_plan_describe(plan, node, &desc);
  braid_layout *layouts = braid_arena_alloc(plan->arena, (count + 1) * sizeof *layouts);
  *out = NULL;
  if (!operands || !layouts) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    braid_value_id value = i < inputs ? node->inputs[i] : node->outputs[i - inputs];
    layouts[i] = value < 0 ? BRAID_LAYOUT_PLAIN : plan->layouts[value];
    operands[i].desc.layout = layouts[i];
  }
  if (asked >= 0) layouts[asked] = BRAID_LAYOUT_ANY;
  if (braid_machine_layouts(plan->machine, place->device, place->kernel, &desc, layouts, layouts + inputs))
    *out = layouts;
  return BRAID_OK;
}

/* The layout that the node would like its input `index` in; plain if it does not care. */
static braid_status ask_for_input(braid_plan *plan, braid_node_id id, size_t index, braid_layout *out) {
  braid_desc desc = plan->graph->values[plan->graph->nodes[id].inputs[index]].desc;
  braid_layout *answer;
  *out = BRAID_LAYOUT_PLAIN;
  BRAID_TRY(home_ask(plan, id, (int)index, &answer));
  if (answer && answer[index] != BRAID_LAYOUT_ANY && braid_desc_set_layout(&desc, answer[index]) == BRAID_OK)
    *out = desc.layout;
  return BRAID_OK;
}

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
/* The node that computes the next value of a parameter; -1: none does, or not straight. */
static braid_node_id updater_of(const braid_plan *plan, braid_value_id id) {
  braid_value_id next = plan->graph->values[id].next;
  if (next < 0 || plan->graph->values[next].kind != BRAID_VALUE_RESULT) return -1;
  braid_node_id node = plan->graph->values[next].producer;
  return plan->places[node].device < 0 ? -1 : node;
}

/* What lies as the parameter does in its update: of the same shape. */
static bool goes_along(const braid_plan *plan, braid_value_id parameter, braid_value_id id) {
  return id >= 0 && braid_desc_same_shape(&plan->graph->values[parameter].desc, &plan->graph->values[id].desc);
}

static void set_group(braid_plan *plan, braid_node_id update, braid_value_id parameter, braid_layout layout) {
  const braid_node *node = &plan->graph->nodes[update];
  for (size_t i = 0; i < node->input_count; i++)
    if (goes_along(plan, parameter, node->inputs[i])) plan->layouts[node->inputs[i]] = layout;
}

/* Gives the parameter, and what its update reads beside it, a layout, if the update takes it. */
static braid_status adopt(braid_plan *plan, braid_value_id parameter, braid_layout layout) {
  braid_node_id update = updater_of(plan, parameter);
  if (update < 0) {
    if (plan->graph->values[parameter].next < 0) plan->layouts[parameter] = layout;
    return BRAID_OK;
  }
  const braid_node *node = &plan->graph->nodes[update];
  braid_layout *answer;
  set_group(plan, update, parameter, layout);
  BRAID_TRY(home_ask(plan, update, -1, &answer));
  bool taken = answer != NULL;
  for (size_t i = 0; taken && i < node->input_count + node->output_count; i++) {
    braid_value_id id = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
    if (goes_along(plan, parameter, id)) taken = answer[i] == layout;
  }
  if (!taken) set_group(plan, update, parameter, BRAID_LAYOUT_PLAIN);
  return BRAID_OK;
}

typedef struct reader {
  braid_node_id node; /* -1: none */
  size_t input;
  int64_t macs;
} reader;

static braid_status find_readers(braid_plan *plan, reader **out) {
  const braid_graph *graph = plan->graph;
  reader *readers = *out = braid_arena_alloc(plan->arena, (graph->value_count + 1) * sizeof *readers);
  if (!readers) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->value_count; i++) readers[i].node = -1;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[plan->order[i]];
    int64_t macs = plan->places[plan->order[i]].device < 0 ? 0 : braid_graph_node_macs(graph, plan->order[i]);
    for (size_t k = 0; macs > 0 && k < node->input_count; k++) {
      braid_value_id id = node->inputs[k];
      if (id >= 0 && braid_plan_is_mutable(plan, id) && (readers[id].node < 0 || macs > readers[id].macs))
        readers[id] = (reader){plan->order[i], k, macs};
    }
  }
  return BRAID_OK;
}

/* A gradient that is a sum is asked of those that it is the sum of. */
static void pass_on(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[plan->order[i]];
    braid_value_id result = node->output_count == 1 ? node->outputs[0] : -1;
    if (!(node->op->flags & BRAID_OP_ELEMENTWISE) || result < 0 || plan->layouts[result] == BRAID_LAYOUT_PLAIN)
      continue;
    for (size_t k = 0; k < node->input_count; k++) {
      braid_value_id id = node->inputs[k];
      if (goes_along(plan, result, id) && graph->values[id].kind == BRAID_VALUE_RESULT)
        plan->layouts[id] = plan->layouts[result];
    }
  }
}

braid_status braid_plan_find_homes(braid_plan *plan, braid_weights *weights) {
  const braid_graph *graph = plan->graph;
  reader *readers;
  find_spaces(plan);
  if (plan->saved) return braid_restore_homes(plan);
  if (!plan->training) return BRAID_OK;
  BRAID_TRY(find_readers(plan, &readers));
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value_id id = (braid_value_id)i;
    const reader *heaviest = &readers[i];
    braid_layout layout = BRAID_LAYOUT_PLAIN;
    if (!braid_plan_is_mutable(plan, id)) continue;
    if (weights && braid_weights_find_layout(weights, graph->values[i].name, &graph->values[i].desc, &layout)) {
      braid_node_id update = updater_of(plan, id);
      plan->layouts[i] = layout;
      if (update >= 0 && graph->values[i].kind == BRAID_VALUE_PARAMETER) set_group(plan, update, id, layout);
      continue;
    }
    if (heaviest->node < 0 || plan->devices[plan->places[heaviest->node].device].space != plan->homes[i]) continue;
    BRAID_TRY(ask_for_input(plan, heaviest->node, heaviest->input, &layout));
    if (layout != BRAID_LAYOUT_PLAIN) BRAID_TRY(adopt(plan, id, layout));
  }
  pass_on(plan);
  return BRAID_OK;
}
