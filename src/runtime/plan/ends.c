/* The layouts of the caller's memory at the ends of a plan: what makes an output is told of them, and what reads an
 * input. */
#include "base/try.h"
#include "runtime/plan/plan.h"
#include "tensor/layout.h"

static braid_status keep_layouts(braid_plan *plan, const braid_layout *given, const braid_value_id *values,
                                 size_t count, const char *what, braid_layout **out) {
  if (!given) return BRAID_OK;
  *out = braid_arena_alloc(plan->arena, (count + 1) * sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const braid_value *value = &plan->graph->values[values[i]];
    braid_desc desc = value->desc;
    if (braid_layout_is_blocked(given[i]) || braid_desc_set_layout(&desc, given[i]) != BRAID_OK)
      return braid_fail(BRAID_INVALID_ARGUMENT, "the layout of %s %zu, %.120s: expected an order of its dimensions",
                        what, i, value->name);
    (*out)[i] = desc.layout;
  }
  return BRAID_OK;
}

braid_status braid_plan_set_ends(braid_plan *plan, const braid_plan_options *options) {
  const braid_graph *graph = plan->graph;
  BRAID_TRY(
      keep_layouts(plan, options->input_layouts, graph->inputs, graph->input_count, "input", &plan->input_layouts));
  return keep_layouts(plan, options->output_layouts, graph->outputs, graph->output_count, "output",
                      &plan->output_layouts);
}

void braid_plan_announce_ends(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  for (size_t i = 0; plan->input_layouts && i < graph->input_count; i++)
    plan->layouts[graph->inputs[i]] = plan->input_layouts[i];
  for (size_t i = 0; plan->output_layouts && i < graph->output_count; i++)
    if (graph->values[graph->outputs[i]].kind == BRAID_VALUE_RESULT)
      plan->layouts[graph->outputs[i]] = plan->output_layouts[i];
}
