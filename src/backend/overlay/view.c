#include "backend/overlay/view.h"

#include "base/arena.h"
#include "base/try.h"

static void forget_value(braid_value *value) {
  *value = (braid_value){.name = "", .kind = BRAID_VALUE_INPUT, .producer = -1, .next = -1};
  for (int i = 0; i < 3; i++) value->quantized[i] = -1;
}

/* What is known of a value by one operand. The constant is wrapped, not copied; nobody writes it. */
static braid_status see_operand(const braid_graph *graph, const braid_operand *operand, int32_t id) {
  if (id < 0 || !operand->present) return BRAID_OK;
  braid_value *value = &graph->values[id];
  value->desc = operand->desc;
  if (!operand->constant || value->tensor) return BRAID_OK;
  braid_desc plain = operand->desc;
  plain.layout = BRAID_LAYOUT_PLAIN;
  BRAID_TRY(
      braid_tensor_wrap(graph->allocator, &plain, (void *)(uintptr_t)operand->constant, NULL, NULL, &value->tensor));
  value->kind = BRAID_VALUE_CONSTANT;
  return BRAID_OK;
}

/* Ops that are not in the table, and those of users whatever their names, are none that the overlay knows. */
static const braid_op *op_of(braid_arena *arena, const braid_node_desc *desc) {
  const braid_op *known = desc->custom ? NULL : braid_op_find_built_in(desc->op);
  if (known) return known;
  braid_op *op = braid_arena_alloc(arena, sizeof *op);
  if (op) *op = (braid_op){.name = "(of a user)", .max_inputs = -1, .max_outputs = -1};
  return op;
}

static braid_status see_node(braid_graph *graph, const braid_subgraph_node *shown, braid_node_id id) {
  const braid_node_desc *desc = shown->desc;
  size_t inputs = desc->input_count, count = inputs + desc->output_count;
  braid_value_id *operands = braid_arena_alloc(graph->arena, (count + 1) * sizeof *operands);
  const braid_op *op = op_of(graph->arena, desc);
  if (!operands || !op) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    operands[i] = i < inputs ? shown->inputs[i] : shown->outputs[i - inputs];
    const braid_operand *operand = i < inputs ? &desc->inputs[i] : &desc->outputs[i - inputs];
    BRAID_TRY(see_operand(graph, operand, operands[i]));
    if (i < inputs || operands[i] < 0) continue;
    graph->values[operands[i]].kind = BRAID_VALUE_RESULT;
    graph->values[operands[i]].producer = id;
    graph->values[operands[i]].name = desc->name;
  }
  graph->nodes[id] = (braid_node){.name = desc->name,
                                  .op = op,
                                  .attrs = desc->attrs ? *desc->attrs : (braid_attrs){0},
                                  .input_count = inputs,
                                  .output_count = desc->output_count,
                                  .inputs = operands,
                                  .outputs = operands + inputs};
  return BRAID_OK;
}

static braid_status fill_view(braid_graph *graph, const braid_subgraph *shown, const braid_operand *border) {
  BRAID_TRY(braid_arena_create(graph->allocator, &graph->arena));
  graph->values = braid_arena_alloc(graph->arena, (shown->value_count + 1) * sizeof *graph->values);
  graph->nodes = braid_arena_alloc(graph->arena, (shown->node_count + 1) * sizeof *graph->nodes);
  if (!graph->values || !graph->nodes) return BRAID_NO_MEMORY;
  for (size_t v = 0; v < shown->value_count; v++) forget_value(&graph->values[v]);
  graph->value_count = shown->value_count;
  for (size_t i = 0; border && i < shown->input_count; i++) BRAID_TRY(see_operand(graph, &border[i], shown->inputs[i]));
  for (size_t n = 0; n < shown->node_count; n++) BRAID_TRY(see_node(graph, &shown->nodes[n], (braid_node_id)n));
  graph->node_count = shown->node_count;
  graph->inputs = (braid_value_id *)(uintptr_t)shown->inputs; /* read only */
  graph->outputs = (braid_value_id *)(uintptr_t)shown->outputs;
  graph->input_count = shown->input_count;
  graph->output_count = shown->output_count;
  graph->resolved = true;
  return BRAID_OK;
}

braid_status braid_overlay_view_create(const braid_allocator *allocator, const braid_subgraph *shown,
                                       const braid_operand *border, braid_graph **out) {
  braid_graph *view = braid_zalloc(allocator, sizeof *view);
  *out = NULL;
  if (!view) return BRAID_NO_MEMORY;
  view->allocator = allocator;
  view->name = "";
  braid_status status = fill_view(view, shown, border);
  if (status == BRAID_OK)
    *out = view;
  else
    braid_overlay_view_destroy(view);
  return status;
}

void braid_overlay_view_destroy(braid_graph *view) {
  if (!view) return;
  for (size_t v = 0; v < view->value_count; v++) braid_tensor_release(view->values[v].tensor);
  braid_arena_destroy(view->arena);
  braid_free(view->allocator, view);
}
