#include "runtime/plan/restore.h"

#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "braid/custom.h"
#include "device/kernel_index.h"
#include "graph/custom.h"
#include "tensor/deferred.h"

static braid_status contradiction(const char *what, size_t index, const char *name) {
  return braid_fail(BRAID_INVALID_FILE, "%s %zu (%.120s) does not fit the rest of the plan", what, index, name);
}

/* --- the graph -----------------------------------------------------------------------------------------------------
 */
static bool desc_of_row(const braid_value_row *row, braid_desc *out) {
  return row->type > BRAID_NONE && row->type < BRAID_DTYPE_COUNT && row->shape.count <= BRAID_MAX_RANK &&
         braid_desc_init(out, (braid_dtype)row->type, (int)row->shape.count, row->shape.items) == BRAID_OK;
}

/* Constants that were read come with their contents, of others there is the room alone. */
static braid_status restore_value(braid_graph *graph, const braid_value_row *row, size_t index, size_t count) {
  braid_desc desc;
  braid_value_id id;
  if (row->kind < BRAID_VALUE_RESULT || row->kind > BRAID_VALUE_STATE || !row->name[0] || !desc_of_row(row, &desc) ||
      row->next < -1 || row->next >= (int64_t)count)
    return contradiction("value", index, row->name);
  BRAID_TRY(braid_graph_add_value(graph, row->name, (braid_value_kind)row->kind, &id));
  braid_value *value = &graph->values[id];
  value->desc = desc;
  value->next = (braid_value_id)row->next;
  if (row->kind == BRAID_VALUE_RESULT || row->kind == BRAID_VALUE_INPUT) return BRAID_OK;
  if (row->contents.count && row->contents.count != braid_desc_bytes(&desc))
    return contradiction("value", index, row->name);
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &value->tensor));
  if (!row->contents.count) return BRAID_OK;
  memcpy(braid_tensor_data(value->tensor), row->contents.items, row->contents.count);
  BRAID_TRY(braid_graph_track_value(graph, id));
  braid_value_note_read(&graph->values[id]);
  return BRAID_OK;
}

static braid_status restore_ids(braid_graph *graph, const braid_snapshot_list *list, braid_value_id **out) {
  *out = braid_graph_arena_alloc(graph, (list->count + 1) * sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i] < -1 || list->items[i] >= (int64_t)graph->value_count)
      return braid_fail(BRAID_INVALID_FILE, "value %lld of %zu", (long long)list->items[i], graph->value_count);
    (*out)[i] = (braid_value_id)list->items[i];
  }
  return BRAID_OK;
}

static bool fits_arity(const braid_op *op, const braid_node *node) {
  size_t inputs = node->input_count, outputs = node->output_count;
  if (inputs < (size_t)op->min_inputs || (op->max_inputs >= 0 && inputs > (size_t)op->max_inputs)) return false;
  if (outputs < (size_t)op->min_outputs || (op->max_outputs >= 0 && outputs > (size_t)op->max_outputs)) return false;
  for (int i = 0; i < op->min_inputs; i++)
    if (node->inputs[i] < 0) return false;
  for (int i = 0; i < op->min_outputs; i++)
    if (node->outputs[i] < 0) return false;
  return true;
}

/* Inputs are there already, and nobody else computes the outputs. */
static bool fits_order(braid_graph *graph, const braid_node *node, braid_node_id id) {
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0) continue;
    const braid_value *value = &graph->values[node->inputs[i]];
    if (value->kind == BRAID_VALUE_RESULT && value->producer < 0) return false;
  }
  for (size_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] < 0) continue;
    braid_value *value = &graph->values[node->outputs[i]];
    if (value->kind != BRAID_VALUE_RESULT || value->producer >= 0) return false;
    value->producer = id;
  }
  return true;
}

static braid_status restore_absorbed(braid_graph *graph, braid_node_id id, const char *names) {
  braid_alias **link = &graph->nodes[id].absorbed;
  for (; *names; names += strcspn(names, "\n") + 1) {
    braid_alias *alias = braid_graph_arena_alloc(graph, sizeof *alias);
    size_t length = strcspn(names, "\n");
    if (!alias) return BRAID_NO_MEMORY;
    alias->name = braid_graph_intern(graph, names, length);
    if (!alias->name) return BRAID_NO_MEMORY;
    *link = alias;
    link = &alias->next;
    if (!names[length]) break;
  }
  return BRAID_OK;
}

/* The op of a name in the given graph; NULL: there is none, or several sets have one each. */
static const braid_op *op_given(const braid_graph *given, const char *name) {
  const braid_op *found = NULL;
  for (size_t i = 0; i < given->node_count; i++) {
    const braid_op *op = given->nodes[i].op;
    if (op == found || strcmp(op->name, name) != 0) continue;
    if (found) return NULL;
    found = op;
  }
  return found;
}

/* Sets of custom ops may have different ops of one name, and nodes may share a name, but no two values do: the node's
 * op is that of the given node which computes its first output. No rewrite makes nodes of custom ops. */
static const braid_op *find_op(const braid_graph *given, const braid_snapshot *saved, const braid_node_row *row) {
  const braid_op *op = braid_op_find_built_in(row->op);
  int64_t first = row->outputs.count ? row->outputs.items[0] : -1;
  if (op || first < 0 || (uint64_t)first >= saved->values.count) return op;
  const char *name = ((const braid_value_row *)saved->values.items)[first].name;
  braid_value_id value = braid_graph_find_value(given, name);
  braid_node_id producer = value < 0 ? -1 : given->values[value].producer;
  if (producer >= 0 && strcmp(given->nodes[producer].op->name, row->op) == 0) return given->nodes[producer].op;
  return op_given(given, row->op);
}

static braid_status restore_node(braid_graph *graph, const braid_graph *given, const braid_snapshot *saved,
                                 size_t index) {
  const braid_node_row *row = (const braid_node_row *)saved->nodes.items + index;
  const braid_op *op = find_op(given, saved, row);
  braid_node *nodes =
      braid_grow(graph->allocator, graph->nodes, graph->node_count, &graph->node_capacity, sizeof *nodes);
  if (!nodes) return BRAID_NO_MEMORY;
  graph->nodes = nodes;
  if (!op)
    return braid_fail(BRAID_UNSUPPORTED, "op %.80s of %.120s is not known here, or is of several sets", row->op,
                      row->name);
  braid_node *node = &nodes[graph->node_count];
  *node = (braid_node){
      .op = op, .input_count = row->inputs.count, .output_count = row->outputs.count, .backward = row->backward != 0};
  node->name = braid_graph_intern(graph, row->name, strlen(row->name));
  if (!node->name) return BRAID_NO_MEMORY;
  BRAID_TRY(restore_ids(graph, &row->inputs, &node->inputs));
  BRAID_TRY(restore_ids(graph, &row->outputs, &node->outputs));
  braid_node_id id = (braid_node_id)graph->node_count++;
  if (!fits_arity(op, node) || !fits_order(graph, node, id)) return contradiction("node", index, row->name);
  return restore_absorbed(graph, id, row->absorbed);
}

static braid_status restore_strings(braid_graph *graph, braid_node_id node, const braid_attribute_row *row) {
  const char *at = (const char *)row->contents.items, *end = at + row->contents.count;
  if (row->number < 0 || (uint64_t)row->number > row->contents.count) return contradiction("attribute", 0, row->name);
  const char **strings = braid_graph_arena_alloc(graph, ((size_t)row->number + 1) * sizeof *strings);
  if (!strings) return BRAID_NO_MEMORY;
  for (int64_t i = 0; i < row->number; i++, at += strlen(at) + 1) {
    if (at >= end) return contradiction("attribute", 0, row->name); /* what was read is terminated */
    strings[i] = at;
  }
  return braid_graph_set_strings(graph, node, row->name, strings, (size_t)row->number);
}

static braid_status restore_tensor(braid_graph *graph, braid_node_id node, const braid_attribute_row *row) {
  braid_desc desc;
  braid_tensor *tensor;
  if (!desc_of_row(&(braid_value_row){.type = row->number, .shape = row->list}, &desc) ||
      braid_desc_bytes(&desc) != row->contents.count)
    return contradiction("attribute", 0, row->name);
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &tensor));
  if (row->contents.count) memcpy(braid_tensor_data(tensor), row->contents.items, row->contents.count);
  braid_status status = braid_graph_set_tensor(graph, node, row->name, tensor);
  braid_tensor_release(tensor);
  return status;
}

static braid_status restore_attribute(braid_graph *graph, const braid_attribute_row *row, size_t index) {
  double number;
  if (row->node < 0 || row->node >= (int64_t)graph->node_count || !row->name[0])
    return contradiction("attribute", index, row->name);
  braid_node_id node = (braid_node_id)row->node;
  memcpy(&number, &row->number, sizeof number);
  switch (row->kind) {
  case BRAID_ATTR_INT:
    return braid_graph_set_int(graph, node, row->name, row->number);
  case BRAID_ATTR_FLOAT:
    return braid_graph_set_float(graph, node, row->name, number);
  case BRAID_ATTR_STRING:
    return braid_graph_set_string(graph, node, row->name, row->text);
  case BRAID_ATTR_INTS:
    return braid_graph_set_ints(graph, node, row->name, row->list.items, row->list.count);
  case BRAID_ATTR_FLOATS:
    return braid_graph_set_floats(graph, node, row->name, (const float *)(const void *)row->contents.items,
                                  row->contents.count / sizeof(float));
  case BRAID_ATTR_STRINGS:
    return restore_strings(graph, node, row);
  case BRAID_ATTR_TENSOR:
    return restore_tensor(graph, node, row);
  default:
    return contradiction("attribute", index, row->name);
  }
}

/* The shapes that the ops' rules give are those of the rows: that comes out when the rows are compared. */
static braid_status check_shapes(braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++) BRAID_TRY(braid_graph_infer_node(graph, (braid_node_id)i));
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    braid_desc checked;
    if (value->kind == BRAID_VALUE_RESULT && value->producer < 0) return contradiction("value", i, value->name);
    if (value->desc.rank < 0 ||
        braid_desc_init(&checked, value->desc.dtype, value->desc.rank, value->desc.dims) != BRAID_OK)
      return contradiction("value", i, value->name);
    if (value->next < 0) continue;
    const braid_value *next = &graph->values[value->next];
    bool keeps = value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
    if (!keeps || next->desc.dtype != value->desc.dtype || !braid_desc_same_shape(&next->desc, &value->desc))
      return contradiction("value", i, value->name);
  }
  return BRAID_OK;
}

static braid_status restore_ends(braid_graph *graph, const braid_snapshot_list *list, bool input,
                                 braid_value_id **items, size_t *count, size_t *capacity) {
  for (size_t i = 0; i < list->count; i++) {
    bool there = list->items[i] >= 0 && list->items[i] < (int64_t)graph->value_count;
    if (!there || (input && graph->values[list->items[i]].kind != BRAID_VALUE_INPUT))
      return braid_fail(BRAID_INVALID_FILE, "%s %zu is no such value", input ? "input" : "output", i);
    braid_value_id *grown = braid_grow(graph->allocator, *items, *count, capacity, sizeof *grown);
    if (!grown) return BRAID_NO_MEMORY;
    *items = grown;
    grown[(*count)++] = (braid_value_id)list->items[i];
  }
  return BRAID_OK;
}

static braid_status restore_graph(braid_graph *graph, const braid_graph *given, const braid_snapshot *saved) {
  const braid_plan_row *plan = saved->plan.items;
  for (size_t i = 0; i < saved->values.count; i++)
    BRAID_TRY(restore_value(graph, (const braid_value_row *)saved->values.items + i, i, saved->values.count));
  for (size_t i = 0; i < saved->nodes.count; i++) BRAID_TRY(restore_node(graph, given, saved, i));
  for (size_t i = 0; i < saved->attributes.count; i++)
    BRAID_TRY(restore_attribute(graph, (const braid_attribute_row *)saved->attributes.items + i, i));
  BRAID_TRY(restore_ends(graph, &plan->inputs, true, &graph->inputs, &graph->input_count, &graph->input_capacity));
  BRAID_TRY(restore_ends(graph, &plan->outputs, false, &graph->outputs, &graph->output_count, &graph->output_capacity));
  return check_shapes(graph);
}

/* --- places and answers --------------------------------------------------------------------------------------------
 */
static const braid_kernel *kernel_named(const braid_plan *plan, int64_t device, const braid_node_desc *node,
                                        const char *name) {
  if (device < 0 || device >= (int64_t)plan->device_count) return NULL;
  return braid_device_kernel(plan->devices[device].device, node, name);
}

static braid_status restore_places(braid_plan *plan) {
  const braid_rows *rows = &plan->saved->places;
  if (rows->count != plan->graph->node_count)
    return braid_fail(BRAID_INVALID_FILE, "%zu places for %zu nodes", rows->count, plan->graph->node_count);
  for (size_t i = 0; i < rows->count; i++) {
    const braid_place_row *row = (const braid_place_row *)rows->items + i;
    const braid_node *node = &plan->graph->nodes[i];
    braid_placement *place = &plan->places[i];
    *place = (braid_placement){.device = -1, .why = braid_arena_text(plan->arena, row->why, strlen(row->why))};
    if (!place->why) return BRAID_NO_MEMORY;
    if (plan->views[i] != (row->device < 0)) return contradiction("place", i, node->name);
    if (plan->views[i]) continue;
    const braid_node_desc desc = {.op = node->op->name, .custom = braid_custom_op_of(node->op)};
    place->kernel = kernel_named(plan, row->device, &desc, row->kernel);
    if (!place->kernel) return contradiction("place", i, row->kernel);
    place->device = (int)row->device;
  }
  return BRAID_OK;
}

static const braid_step_row *row_of(const braid_plan *plan, bool setup, size_t index) {
  const braid_rows *rows = setup ? &plan->saved->setup : &plan->saved->steps;
  return index < rows->count ? (const braid_step_row *)rows->items + index : NULL;
}

braid_status braid_restore_layouts(const braid_plan *plan, braid_node_id node, const braid_node_desc *desc,
                                   braid_layout *layouts) {
  size_t count = desc->input_count + desc->output_count, at = plan->steps.count;
  const braid_step_row *row = row_of(plan, false, at);
  while (row && row->node != node) row = row_of(plan, false, ++at); /* others stand before it */
  if (!row || row->layouts.count != count) return contradiction("node", (size_t)node, desc->name);
  for (size_t i = 0; i < count; i++) {
    const braid_operand *operand = i < desc->input_count ? &desc->inputs[i] : &desc->outputs[i - desc->input_count];
    braid_layout layout = (braid_layout)row->layouts.items[i];
    braid_desc laid_out = operand->desc;
    if (operand->present && braid_desc_set_layout(&laid_out, layout) != BRAID_OK)
      return contradiction("step", at, desc->name);
    layouts[i] = layout;
  }
  return BRAID_OK;
}

braid_status braid_restore_homes(const braid_plan *plan) {
  const braid_plan_row *row = plan->saved->plan.items;
  const braid_graph *graph = plan->graph;
  if (row->homes.count != graph->value_count) return contradiction("plan", 0, "homes");
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_desc desc = graph->values[i].desc;
    braid_layout layout = (braid_layout)row->homes.items[i];
    if (layout == BRAID_LAYOUT_PLAIN) continue;
    if (braid_desc_set_layout(&desc, layout) != BRAID_OK) return contradiction("value", i, graph->values[i].name);
    plan->layouts[i] = desc.layout;
  }
  return BRAID_OK;
}

braid_status braid_restore_query(const braid_plan *plan, bool setup, size_t index, braid_step *step) {
  const braid_step_row *row = row_of(plan, setup, index);
  if (!row || row->workspace < 0 || row->folded < 0 || row->folded > UINT32_MAX || row->packings.count % 3 ||
      row->packings.count / 3 > BRAID_PACKINGS)
    return contradiction("step", index, step->label);
  step->folded = (uint32_t)row->folded;
  step->query =
      (braid_query){.workspace_bytes = (size_t)row->workspace, .packing_count = (uint32_t)(row->packings.count / 3)};
  for (uint32_t i = 0; i < step->query.packing_count; i++) {
    const int64_t *packing = row->packings.items + (size_t)3 * i;
    if (packing[0] < 0 || packing[0] >= (int64_t)step->input_count || packing[1] < 0)
      return contradiction("step", index, step->label);
    step->query.packings[i] =
        (braid_packing){.input = (uint32_t)packing[0], .bytes = (size_t)packing[1], .key = (uint64_t)packing[2]};
  }
  return BRAID_OK;
}

/* Conversions are in the file in the order in which they are made, among other steps (early.c). */
static size_t index_of_conversion(const braid_plan *plan, bool setup) {
  const braid_step_list *made = setup ? &plan->setup : &plan->steps;
  const braid_step_row *row;
  size_t before = 0, index = 0;
  for (size_t i = 0; i < made->count; i++) before += made->items[i].node < 0 && made->items[i].kernel;
  for (; (row = row_of(plan, setup, index)); index++)
    if (row->node < 0 && row->kernel[0] && !before--) break;
  return index;
}

braid_status braid_restore_conversion(const braid_plan *plan, bool setup, braid_step *step) {
  size_t index = index_of_conversion(plan, setup);
  const braid_step_row *row = row_of(plan, setup, index);
  step->kernel = row ? kernel_named(plan, row->device, step->desc, row->kernel) : NULL;
  if (!step->kernel) return contradiction("step", index, step->label);
  for (size_t i = 0; i < 2; i++)
    if (plan->instances[step->instances[i]].space != plan->devices[row->device].space)
      return contradiction("step", index, step->label);
  step->device = (int)row->device;
  step->queue = braid_queue_index(step->device, BRAID_QUEUE_KERNELS);
  return braid_restore_query(plan, setup, index, step);
}

/* --- the plan ------------------------------------------------------------------------------------------------------
 */
static braid_status refuse_differences(const braid_snapshot *saved, const braid_snapshot *here, size_t last,
                                       braid_status status, const char *what, const char *there) {
  braid_text text;
  braid_text_init(&text, NULL);
  size_t count = braid_snapshot_compare(saved, here, 0, last, 1, "in the file", there, &text);
  if (count) {
    size_t length = strcspn(text.data, "\n");
    status = braid_fail(status, "%s: %.*s%s", what, (int)length, text.data, count > 1 ? "; and more differs" : "");
  }
  braid_text_deinit(&text);
  return count ? status : BRAID_OK;
}

/* Machine, library, processor and graph. */
static braid_status check_premises(const braid_machine *machine, const braid_graph *given, braid_arena *arena,
                                   const braid_snapshot *saved) {
  braid_snapshot here;
  braid_read_set read;
  BRAID_TRY(braid_snapshot_find_read(saved, arena, &read));
  BRAID_TRY(braid_snapshot_take_premises(machine, given, &read, arena, &here));
  braid_plan_row *row = here.plan.items, mixed = *(const braid_plan_row *)saved->plan.items;
  mixed.library = row->library;
  mixed.processor = row->processor;
  mixed.precision = row->precision;
  mixed.given_inputs = row->given_inputs;
  mixed.given_outputs = row->given_outputs;
  *row = mixed;
  return refuse_differences(saved, &here, BRAID_SNAPSHOT_PREMISES_LAST, BRAID_UNSUPPORTED,
                            "the plan was made for something else", "here");
}

/* Inputs and outputs are those of a graph that the caller has, whose memory he gives to runs; `shapes` are known. */
static braid_status check_ends(const braid_plan *plan, const braid_graph *graph, bool input, bool shapes) {
  const braid_graph *own = plan->graph;
  const char *word = input ? "input" : "output";
  size_t count = input ? own->input_count : own->output_count;
  const braid_value_id *ids = input ? own->inputs : own->outputs, *theirs = input ? graph->inputs : graph->outputs;
  if (count != (input ? graph->input_count : graph->output_count))
    return braid_fail(BRAID_INVALID_FILE, "the saved plan has %zu %ss, the graph another number", count, word);
  for (size_t i = 0; i < count; i++) {
    const braid_value *a = &own->values[ids[i]], *b = &graph->values[theirs[i]];
    if (strcmp(a->name, b->name) != 0 ||
        (shapes && (a->desc.dtype != b->desc.dtype || !braid_desc_same_shape(&a->desc, &b->desc))))
      return braid_fail(BRAID_INVALID_FILE, "%s %zu of the saved plan, %.120s, is not the graph's %.120s%s", word, i,
                        a->name, b->name, shapes ? ", or has another type or shape" : "");
  }
  return BRAID_OK;
}

static braid_status restore_plan(braid_plan *plan, const braid_graph *given, braid_arena *arena) {
  braid_snapshot here;
  const braid_snapshot *saved = plan->saved;
  BRAID_TRY(braid_graph_create(plan->allocator, given->name, &plan->graph));
  BRAID_TRY(braid_graph_share_ops(plan->graph, given));
  BRAID_TRY(restore_graph(plan->graph, braid_graph_source(given), saved));
  BRAID_TRY(check_ends(plan, given, true, false));
  BRAID_TRY(check_ends(plan, given, false, false));
  BRAID_TRY(braid_plan_start(plan));
  BRAID_TRY(restore_places(plan));
  BRAID_TRY(braid_plan_finish(plan, NULL));
  BRAID_TRY(braid_graph_clone(given, &plan->unfolded));
  BRAID_TRY(braid_snapshot_find_read(saved, plan->arena, &plan->read));
  BRAID_TRY(braid_snapshot_digest(given, &plan->read, &plan->given));
  BRAID_TRY(braid_snapshot_take(plan, given, arena, &here));
  return refuse_differences(saved, &here, BRAID_SNAPSHOT_TABLE_COUNT - 1, BRAID_INVALID_FILE,
                            "what it says does not follow from its choices", "by planning");
}

braid_status braid_restore(braid_machine *machine, const braid_graph *given, const braid_snapshot *saved,
                           braid_plan **out) {
  const braid_plan_row *row = saved->plan.items;
  braid_plan_options options = {.training = row->training != 0,
                                .no_fusion = row->no_fusion != 0,
                                .no_reuse = row->no_reuse != 0,
                                .device_io = row->device_io != 0,
                                .callers_thread = row->callers_thread != 0};
  braid_arena *arena;
  braid_plan *plan = NULL;
  *out = NULL;
  BRAID_TRY(braid_arena_create(given->allocator, &arena));
  braid_status status = check_premises(machine, given, arena, saved);
  if (status == BRAID_OK) status = braid_plan_new(machine, given->allocator, &options, &plan);
  if (status == BRAID_OK) {
    plan->saved = saved;
    status = restore_plan(plan, given, arena);
    plan->saved = NULL;
  }
  braid_arena_destroy(arena);
  if (status == BRAID_OK) {
    *out = plan;
    return BRAID_OK;
  }
  if (plan) braid_plan_release(plan);
  bool malformed = status == BRAID_INVALID_GRAPH || status == BRAID_OUT_OF_RANGE || status == BRAID_INVALID_ARGUMENT;
  return malformed ? braid_fail_prefix(BRAID_INVALID_FILE, "the saved plan") : status;
}

/* --- constants -----------------------------------------------------------------------------------------------------
 */
/* Where kernels read a constant in place its memory must be as well aligned as planning took it to be. */
static braid_status aligned_tensor(const braid_plan *plan, braid_tensor *tensor, braid_tensor **out) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  if (braid_plan_host_aligned(plan, desc->dtype, braid_tensor_address(tensor))) {
    *out = braid_tensor_retain(tensor);
    return BRAID_OK;
  }
  BRAID_TRY(braid_tensor_create(plan->allocator, desc, out));
  memcpy(braid_tensor_data(*out), braid_tensor_const_data(tensor), braid_desc_bytes(desc));
  return BRAID_OK;
}

static braid_status recover_values(braid_plan *plan) {
  for (size_t i = 0; i < plan->graph->value_count; i++) {
    braid_value *value = &plan->graph->values[i];
    if (!value->tensor) continue;
    braid_value_id id = braid_graph_find_value(plan->unfolded, value->name);
    const braid_value *found = id < 0 ? NULL : &plan->unfolded->values[id];
    if (!found || !found->tensor || found->desc.dtype != value->desc.dtype ||
        !braid_desc_same_shape(&found->desc, &value->desc))
      return braid_fail(BRAID_INVALID_FILE, "the graph of the saved plan gives no constant %.120s", value->name);
    if (braid_value_was_read(value) && memcmp(braid_tensor_const_data(value->tensor),
                                              braid_tensor_const_data(found->tensor), braid_desc_bytes(&value->desc)))
      return braid_fail(BRAID_UNSUPPORTED, "the saved plan is for other contents of constant %.120s", value->name);
    braid_tensor *tensor;
    BRAID_TRY(aligned_tensor(plan, found->tensor, &tensor));
    braid_tensor_release(value->tensor);
    value->tensor = tensor;
  }
  return BRAID_OK;
}

static void recover_operands(const braid_plan *plan) {
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    for (size_t k = 0; step->node >= 0 && k < step->input_count; k++) {
      braid_value_id value = plan->graph->nodes[step->node].inputs[k];
      if (value >= 0 && step->operands[k].constant)
        step->operands[k].constant = braid_tensor_preview(plan->graph->values[value].tensor);
    }
  }
}

static bool same_query(const braid_query *a, const braid_query *b) {
  bool same = a->workspace_bytes == b->workspace_bytes && a->packing_count == b->packing_count;
  for (uint32_t i = 0; same && i < a->packing_count; i++)
    same = a->packings[i].input == b->packings[i].input && a->packings[i].bytes == b->packings[i].bytes &&
           a->packings[i].key == b->packings[i].key;
  return same;
}

/* Does the kernel want its operands as the file says, when they are delivered as they were when it was planned? */
static braid_status check_layouts(const braid_plan *plan, const braid_step *step) {
  size_t count = step->input_count + step->output_count;
  braid_layout *answer = braid_zalloc_array(plan->allocator, count + 1, sizeof *answer);
  braid_operand *operands = braid_zalloc_array(plan->allocator, count + 1, sizeof *operands);
  braid_node_desc desc = *step->desc;
  bool same = answer && operands;
  if (same) {
    memcpy(answer, step->delivered, count * sizeof *answer);
    memcpy(operands, step->operands, count * sizeof *operands);
    for (size_t i = 0; i < count; i++) operands[i].desc.layout = answer[i];
    desc.inputs = operands;
    desc.outputs = operands + step->input_count;
    desc.packed = false; /* as when it was asked first */
    braid_machine_layouts(plan->machine, step->device, step->kernel, &desc, answer, answer + step->input_count);
  }
  for (size_t i = 0; same && i < count; i++)
    same = !operands[i].present || (braid_desc_set_layout(&operands[i].desc, answer[i]) == BRAID_OK &&
                                    operands[i].desc.layout == step->layouts[i]);
  bool memory = answer && operands;
  braid_free(plan->allocator, answer);
  braid_free(plan->allocator, operands);
  if (!memory) return BRAID_NO_MEMORY;
  if (same) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED,
                    "the saved plan is for something else: kernel %s wants the operands of %.120s in other layouts",
                    step->kernel->name, step->label);
}

/* Does the kernel take the node, and does it say what the file says? */
static braid_status check_step(const braid_plan *plan, const braid_step *step) {
  const braid_machine_device *device = &plan->devices[step->device];
  braid_node_desc desc = *step->desc;
  char why[256];
  desc.packed = false; /* as when it was asked first */
  pthread_mutex_lock(&plan->machine->lock);
  bool takes = braid_kernel_takes(device->backend, device->self, step->kernel, &desc, why, sizeof why);
  pthread_mutex_unlock(&plan->machine->lock);
  if (!takes)
    return braid_fail(BRAID_UNSUPPORTED, "the saved plan is for something else: kernel %s does not take %.120s: %.200s",
                      step->kernel->name, step->label, why);
  if (step->delivered) BRAID_TRY(check_layouts(plan, step));
  if (!device->backend->query && !step->query.packing_count) return BRAID_OK; /* preparing tells */
  braid_query query = {0};
  uint32_t folded = 0;
  if (device->backend->query)
    BRAID_TRY(braid_machine_query(plan->machine, step->device, step->kernel, &desc, &query, &folded));
  if (same_query(&query, &step->query) && folded == step->folded) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED,
                    "the saved plan is for something else: kernel %s wants other memory or packing for %.120s",
                    step->kernel->name, step->label);
}

static braid_status recover(braid_plan *plan) {
  BRAID_TRY(braid_plan_simplify(plan->unfolded, plan->no_fusion));
  BRAID_TRY(check_ends(plan, plan->unfolded, true, true));
  BRAID_TRY(check_ends(plan, plan->unfolded, false, true));
  BRAID_TRY(recover_values(plan));
  recover_operands(plan);
  for (size_t i = 0; i < plan->setup.count; i++) BRAID_TRY(check_step(plan, &plan->setup.items[i]));
  for (size_t i = 0; i < plan->steps.count; i++)
    if (plan->steps.items[i].kernel) BRAID_TRY(check_step(plan, &plan->steps.items[i]));
  return BRAID_OK;
}

braid_status braid_plan_recover(braid_plan *plan) {
  if (!plan->unfolded) return BRAID_OK;
  BRAID_TRY(recover(plan));
  braid_graph_destroy(plan->unfolded);
  plan->unfolded = NULL;
  return BRAID_OK;
}
