#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/try.h"
#include "base/vector.h"
#include "graph/custom.h"

braid_status braid_graph_create(const braid_allocator *allocator, const char *name, braid_graph **out) {
  *out = NULL;
  braid_graph *graph = braid_zalloc(allocator, sizeof *graph);
  if (!graph) return BRAID_NO_MEMORY;
  graph->allocator = allocator;
  braid_status status = braid_arena_create(allocator, &graph->arena);
  if (status == BRAID_OK) status = braid_name_map_create(allocator, &graph->names);
  if (status == BRAID_OK) {
    graph->name = braid_graph_intern(graph, name ? name : "", name ? strlen(name) : 0);
    if (!graph->name) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return status;
}

static void release_attrs(const braid_allocator *allocator, braid_attrs *attrs) {
  for (size_t i = 0; i < attrs->count; i++)
    if (attrs->items[i].kind == BRAID_ATTR_TENSOR) braid_tensor_release(attrs->items[i].tensor);
  braid_free(allocator, attrs->items);
}

void braid_graph_destroy(braid_graph *graph) {
  if (!graph) return;
  for (size_t i = 0; i < graph->value_count; i++) braid_tensor_release(graph->values[i].tensor);
  for (size_t i = 0; i < graph->node_count; i++) release_attrs(graph->allocator, &graph->nodes[i].attrs);
  braid_free(graph->allocator, graph->values);
  braid_free(graph->allocator, graph->nodes);
  braid_free(graph->allocator, graph->inputs);
  braid_free(graph->allocator, graph->outputs);
  braid_unresolved_release(graph->unresolved);
  braid_custom_ops_release(graph->custom_ops);
  for (size_t i = 0; i < graph->op_set_count; i++) braid_custom_ops_release(graph->op_sets[i]);
  braid_free(graph->allocator, graph->op_sets);
  braid_name_map_destroy(graph->names);
  braid_arena_destroy(graph->arena);
  braid_free(graph->allocator, graph);
}

void *braid_graph_arena_alloc(braid_graph *graph, size_t bytes) {
  return braid_arena_alloc(graph->arena, bytes);
}

const char *braid_graph_intern(braid_graph *graph, const char *text, size_t length) {
  return braid_arena_text(graph->arena, text, length);
}

braid_status braid_graph_add_alias(braid_graph *graph, braid_node_id node, const char *name) {
  braid_alias **end = &graph->nodes[node].absorbed;
  while (*end) end = &(*end)->next;
  braid_alias *alias = braid_graph_arena_alloc(graph, sizeof *alias);
  if (!alias) return BRAID_NO_MEMORY;
  alias->name = braid_graph_intern(graph, name, strlen(name));
  if (!alias->name) return BRAID_NO_MEMORY;
  *end = alias;
  return BRAID_OK;
}

void braid_graph_use_custom_ops(braid_graph *graph, braid_custom_ops *ops) {
  braid_custom_ops_retain(ops);
  braid_custom_ops_release(graph->custom_ops);
  graph->custom_ops = ops;
}

const braid_op *braid_graph_find_op(const braid_graph *graph, const char *name) {
  const braid_op *found = braid_op_find_built_in(name);
  return found ? found : braid_custom_ops_find(graph->custom_ops, name);
}

static braid_status keep_op_set(braid_graph *graph, braid_custom_ops *ops) {
  for (size_t i = 0; i < graph->op_set_count; i++)
    if (graph->op_sets[i] == ops) return BRAID_OK;
  braid_custom_ops **sets =
      braid_grow(graph->allocator, graph->op_sets, graph->op_set_count, &graph->op_set_capacity, sizeof *sets);
  if (!sets) return BRAID_NO_MEMORY;
  graph->op_sets = sets;
  sets[graph->op_set_count++] = braid_custom_ops_retain(ops);
  return BRAID_OK;
}

braid_status braid_graph_take_op(braid_graph *graph, const char *name, const braid_op **out) {
  *out = braid_graph_find_op(graph, name);
  bool own = *out && braid_custom_op_of(*out) && graph->custom_ops;
  return own ? keep_op_set(graph, graph->custom_ops) : BRAID_OK;
}

braid_status braid_graph_share_ops(braid_graph *graph, const braid_graph *with) {
  braid_graph_use_custom_ops(graph, with->custom_ops);
  for (size_t i = 0; i < with->op_set_count; i++) BRAID_TRY(keep_op_set(graph, with->op_sets[i]));
  return BRAID_OK;
}

/* --- cloning -------------------------------------------------------------------------------------------------------
 */
static braid_status clone_into(const braid_graph *graph, braid_graph *clone) {
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    braid_value_id id;
    BRAID_TRY(braid_graph_add_value(clone, value->name, value->kind, &id));
    braid_value *copy = &clone->values[id];
    copy->desc = value->desc;
    copy->tensor = value->tensor ? braid_tensor_retain(value->tensor) : NULL;
    copy->producer = value->producer;
    copy->next = value->next;
    copy->origin = value->origin;
    copy->symbol = value->symbol ? braid_graph_intern(clone, value->symbol, strlen(value->symbol)) : NULL;
    if (!copy->symbol != !value->symbol) return BRAID_NO_MEMORY;
    copy->fixed = value->fixed;
    memcpy(copy->quantized, value->quantized, sizeof copy->quantized);
    copy->quantized_axis = value->quantized_axis;
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    braid_node *nodes =
        braid_grow(clone->allocator, clone->nodes, clone->node_count, &clone->node_capacity, sizeof *nodes);
    if (!nodes) return BRAID_NO_MEMORY;
    clone->nodes = nodes;
    braid_node *copy = &nodes[clone->node_count];
    *copy = (braid_node){.op = node->op,
                         .backward = node->backward,
                         .input_count = node->input_count,
                         .output_count = node->output_count};
    copy->name = braid_graph_intern(clone, node->name, strlen(node->name));
    copy->inputs = braid_graph_arena_alloc(clone, (node->input_count + 1) * sizeof *copy->inputs);
    copy->outputs = braid_graph_arena_alloc(clone, (node->output_count + 1) * sizeof *copy->outputs);
    if (node->module) copy->module = braid_graph_intern(clone, node->module, strlen(node->module));
    if (node->call) copy->call = braid_graph_intern(clone, node->call, strlen(node->call));
    bool noted = !copy->module == !node->module && !copy->call == !node->call;
    if (!copy->name || !copy->inputs || !copy->outputs || !noted) return BRAID_NO_MEMORY;
    memcpy(copy->inputs, node->inputs, node->input_count * sizeof *copy->inputs);
    memcpy(copy->outputs, node->outputs, node->output_count * sizeof *copy->outputs);
    clone->node_count++;
    for (const braid_alias *alias = node->absorbed; alias; alias = alias->next)
      BRAID_TRY(braid_graph_add_alias(clone, (braid_node_id)i, alias->name));
    for (size_t a = 0; a < node->attrs.count; a++)
      BRAID_TRY(braid_attrs_copy(clone, (braid_node_id)i, &node->attrs.items[a]));
  }
  for (size_t i = 0; i < graph->value_count; i++) clone->values[i].desc = graph->values[i].desc;
  for (size_t i = 0; i < graph->input_count; i++) {
    braid_value_id *inputs =
        braid_grow(clone->allocator, clone->inputs, clone->input_count, &clone->input_capacity, sizeof *inputs);
    if (!inputs) return BRAID_NO_MEMORY;
    clone->inputs = inputs;
    inputs[clone->input_count++] = graph->inputs[i];
  }
  for (size_t i = 0; i < graph->output_count; i++) BRAID_TRY(braid_graph_add_output(clone, graph->outputs[i]));
  clone->unique = graph->unique;
  clone->auxiliary_share = graph->auxiliary_share;
  clone->precision = graph->precision;
  BRAID_TRY(braid_graph_share_ops(clone, graph));
  clone->resolved = graph->resolved;
  clone->reshaped = graph->reshaped;
  clone->unresolved = braid_unresolved_retain(graph->unresolved);
  return BRAID_OK;
}

braid_status braid_graph_clone(const braid_graph *graph, braid_graph **out) {
  *out = NULL;
  braid_graph *clone;
  BRAID_TRY(braid_graph_create(graph->allocator, graph->name, &clone));
  braid_status status = clone_into(graph, clone);
  if (status == BRAID_OK)
    *out = clone;
  else
    braid_graph_destroy(clone);
  return status;
}

/* --- queries -------------------------------------------------------------------------------------------------------
 */
const char *braid_graph_name(const braid_graph *graph) {
  return graph->name;
}
size_t braid_graph_value_count(const braid_graph *graph) {
  return graph->value_count;
}
size_t braid_graph_node_count(const braid_graph *graph) {
  return graph->node_count;
}
size_t braid_graph_input_count(const braid_graph *graph) {
  return graph->input_count;
}
size_t braid_graph_output_count(const braid_graph *graph) {
  return graph->output_count;
}

braid_value_id braid_graph_input(const braid_graph *graph, size_t index) {
  return index < graph->input_count ? graph->inputs[index] : -1;
}

braid_value_id braid_graph_output(const braid_graph *graph, size_t index) {
  return index < graph->output_count ? graph->outputs[index] : -1;
}

braid_value_id braid_graph_find_value(const braid_graph *graph, const char *name) {
  int64_t id;
  return braid_name_map_get(graph->names, name, &id) ? (braid_value_id)id : -1;
}

static bool has_value(const braid_graph *graph, braid_value_id id) {
  return id >= 0 && (size_t)id < graph->value_count;
}

static bool has_node(const braid_graph *graph, braid_node_id id) {
  return id >= 0 && (size_t)id < graph->node_count;
}

braid_value_info braid_graph_value(const braid_graph *graph, braid_value_id id) {
  if (!has_value(graph, id)) return (braid_value_info){.name = "", .desc = {.rank = -1}, .producer = -1};
  const braid_value *value = &graph->values[id];
  return (braid_value_info){value->name, value->kind, value->desc, value->tensor, value->producer, value->fixed};
}

braid_node_info braid_graph_node(const braid_graph *graph, braid_node_id id) {
  if (!has_node(graph, id)) return (braid_node_info){.name = "", .op = ""};
  const braid_node *node = &graph->nodes[id];
  return (braid_node_info){node->name,         node->op->name, &node->attrs, node->input_count,
                           node->output_count, node->inputs,   node->outputs};
}

/* Are all dimensions of these values known, but for those that are left out? */
static bool have_shapes(const braid_graph *graph, const braid_value_id *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const braid_desc *desc = values[i] < 0 ? NULL : &graph->values[values[i]].desc;
    if (desc && desc->rank < 0) return false;
    for (int d = 0; desc && d < desc->rank; d++)
      if (desc->dims[d] < 0) return false;
  }
  return true;
}

int64_t braid_graph_node_macs(const braid_graph *graph, braid_node_id id) {
  const braid_node *node = has_node(graph, id) ? &graph->nodes[id] : NULL;
  if (!node || !node->op->macs || !have_shapes(graph, node->inputs, node->input_count) ||
      !have_shapes(graph, node->outputs, node->output_count))
    return 0;
  return node->op->macs(graph, node);
}

/* --- building ------------------------------------------------------------------------------------------------------
 */
/* The given name, or a free one made from `stem`; NULL when out of memory. */
static const char *unique_name(braid_graph *graph, const char *name, const char *stem) {
  if (name && *name) return braid_graph_intern(graph, name, strlen(name));
  char buffer[96];
  do {
    snprintf(buffer, sizeof buffer, "%.60s_%" PRIu64, stem, graph->unique++);
  } while (braid_graph_find_value(graph, buffer) >= 0);
  return braid_graph_intern(graph, buffer, strlen(buffer));
}

braid_status braid_graph_add_value(braid_graph *graph, const char *name, braid_value_kind kind, braid_value_id *out) {
  *out = -1;
  if (graph->value_count >= INT32_MAX) return braid_fail(BRAID_OUT_OF_RANGE, "more than 2^31 values");
  if (name && *name && braid_graph_find_value(graph, name) >= 0)
    return braid_fail(BRAID_INVALID_GRAPH, "value %.200s is defined twice", name);
  BRAID_TRY(braid_graph_begin_change(graph));
  braid_value *values =
      braid_grow(graph->allocator, graph->values, graph->value_count, &graph->value_capacity, sizeof *values);
  if (!values) return BRAID_NO_MEMORY;
  graph->values = values;
  const char *own = unique_name(graph, name, "v");
  if (!own) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_name_map_set(graph->names, own, (int64_t)graph->value_count));
  values[graph->value_count] = (braid_value){
      .name = own, .kind = kind, .desc = {.rank = -1}, .producer = -1, .next = -1, .quantized = {-1, -1, -1}};
  *out = (braid_value_id)graph->value_count++;
  return BRAID_OK;
}

braid_status braid_graph_check_plain(const char *name, const braid_desc *desc) {
  char layout[BRAID_LAYOUT_TEXT];
  if (desc->layout == BRAID_LAYOUT_PLAIN) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s is in layout %s, a graph's values are plain",
                    name ? name : "the value", braid_layout_format(desc->layout, desc->rank, layout, sizeof layout));
}

braid_status braid_graph_add_input(braid_graph *graph, const char *name, const braid_desc *desc, braid_value_id *out) {
  *out = -1;
  BRAID_TRY(braid_graph_check_plain(name, desc));
  braid_value_id *inputs =
      braid_grow(graph->allocator, graph->inputs, graph->input_count, &graph->input_capacity, sizeof *inputs);
  if (!inputs) return BRAID_NO_MEMORY;
  graph->inputs = inputs;
  BRAID_TRY(braid_graph_add_value(graph, name, BRAID_VALUE_INPUT, out));
  graph->values[*out].desc = *desc;
  inputs[graph->input_count++] = *out;
  return BRAID_OK;
}

braid_status braid_graph_add_tensor(braid_graph *graph, const char *name, braid_value_kind kind, braid_tensor *tensor,
                                    braid_value_id *out) {
  *out = -1;
  if (kind != BRAID_VALUE_CONSTANT && kind != BRAID_VALUE_PARAMETER && kind != BRAID_VALUE_STATE)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a tensor is a constant, a parameter or a state");
  BRAID_TRY(braid_graph_check_plain(name, braid_tensor_desc(tensor)));
  BRAID_TRY(braid_graph_add_value(graph, name, kind, out));
  graph->values[*out].tensor = braid_tensor_retain(tensor);
  graph->values[*out].desc = *braid_tensor_desc(tensor);
  return BRAID_OK;
}

braid_status braid_graph_add_scalar(braid_graph *graph, braid_dtype dtype, double value, braid_value_id *out) {
  *out = -1;
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, dtype, 0, NULL));
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &tensor));
  braid_tensor_set_f64(tensor, 0, value);
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

braid_status braid_graph_add_int64s(braid_graph *graph, const int64_t *values, size_t count, braid_value_id *out) {
  *out = -1;
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_I64, 1, (int64_t[]){(int64_t)count}));
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &tensor));
  if (count) memcpy(braid_tensor_data(tensor), values, count * sizeof *values);
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static braid_status check_arity(const braid_op *op, const char *name, size_t inputs, size_t outputs) {
  if (inputs < (size_t)op->min_inputs || (op->max_inputs >= 0 && inputs > (size_t)op->max_inputs))
    return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): has %zu inputs, the op takes %d to %d", name, op->name,
                      inputs, op->min_inputs, op->max_inputs);
  if (outputs < (size_t)op->min_outputs || (op->max_outputs >= 0 && outputs > (size_t)op->max_outputs))
    return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): has %zu outputs, the op gives %d to %d", name, op->name,
                      outputs, op->min_outputs, op->max_outputs);
  return BRAID_OK;
}

braid_status braid_graph_add_node(braid_graph *graph, const char *op_name, const char *name,
                                  const braid_value_id *inputs, size_t input_count, braid_value_id *outputs,
                                  size_t output_count, braid_node_id *out) {
  if (out) *out = -1;
  const braid_op *op;
  BRAID_TRY(braid_graph_take_op(graph, op_name, &op));
  if (!op) return braid_fail(BRAID_NOT_FOUND, "op %.80s is not known", op_name);
  const char *shown = name && *name ? name : op_name;
  BRAID_TRY(check_arity(op, shown, input_count, output_count));
  for (size_t i = 0; i < input_count; i++) {
    if (inputs[i] >= 0 && !has_value(graph, inputs[i]))
      return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s (%s): input %zu does not exist", shown, op->name, i);
    if (inputs[i] < 0 && i < (size_t)op->min_inputs)
      return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): input %zu is missing", shown, op->name, i);
  }
  braid_node *nodes =
      braid_grow(graph->allocator, graph->nodes, graph->node_count, &graph->node_capacity, sizeof *nodes);
  if (!nodes) return BRAID_NO_MEMORY;
  graph->nodes = nodes;
  braid_node node = {.op = op, .input_count = input_count, .output_count = output_count};
  node.name = unique_name(graph, name, op_name);
  node.inputs = braid_graph_arena_alloc(graph, (input_count + 1) * sizeof *node.inputs);
  node.outputs = braid_graph_arena_alloc(graph, (output_count + 1) * sizeof *node.outputs);
  if (!node.name || !node.inputs || !node.outputs) return BRAID_NO_MEMORY;
  if (input_count) memcpy(node.inputs, inputs, input_count * sizeof *inputs);
  for (size_t i = 0; i < output_count; i++) {
    node.outputs[i] = -1;
    if (i >= (size_t)op->min_outputs && outputs[i] == -1) continue; /* required ones may be unset before */
    BRAID_TRY(braid_graph_add_value(graph, NULL, BRAID_VALUE_RESULT, &node.outputs[i]));
    graph->values[node.outputs[i]].producer = (braid_node_id)graph->node_count;
  }
  for (size_t i = 0; i < output_count; i++) outputs[i] = node.outputs[i];
  braid_node_id id = (braid_node_id)graph->node_count;
  graph->nodes[graph->node_count++] = node;
  (void)!braid_graph_infer_node(graph, id); /* attributes may be missing yet: resolve repeats it and reports */
  if (out) *out = id;
  return BRAID_OK;
}

braid_status braid_graph_rename_value(braid_graph *graph, braid_value_id id, const char *name) {
  if (!has_value(graph, id)) return braid_fail(BRAID_INVALID_ARGUMENT, "value %d does not exist", id);
  if (strcmp(graph->values[id].name, name) == 0) return BRAID_OK;
  if (braid_graph_find_value(graph, name) >= 0)
    return braid_fail(BRAID_INVALID_GRAPH, "value %.200s is defined twice", name);
  BRAID_TRY(braid_graph_begin_change(graph));
  const char *own = braid_graph_intern(graph, name, strlen(name));
  if (!own) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_name_map_set(graph->names, own, id));
  braid_name_map_remove(graph->names, graph->values[id].name);
  graph->values[id].name = own;
  return BRAID_OK;
}

braid_status braid_graph_add_output(braid_graph *graph, braid_value_id value) {
  if (!has_value(graph, value)) return braid_fail(BRAID_INVALID_ARGUMENT, "value %d does not exist", value);
  BRAID_TRY(braid_graph_begin_change(graph));
  braid_value_id *outputs =
      braid_grow(graph->allocator, graph->outputs, graph->output_count, &graph->output_capacity, sizeof *outputs);
  if (!outputs) return BRAID_NO_MEMORY;
  graph->outputs = outputs;
  outputs[graph->output_count++] = value;
  return BRAID_OK;
}

/* May an input have another shape? Constants of a graph that was resolved and then changed follow from the old one. */
static braid_status check_foldable(const braid_graph *graph, braid_value_id input) {
  if (!graph->resolved || graph->unresolved) return BRAID_OK;
  char shape[128];
  return braid_fail(
      BRAID_INVALID_ARGUMENT,
      "input %.120s was %s when the graph was resolved, which was changed since: its constants follow from "
      "that shape; give inputs their shapes before",
      graph->values[input].name, braid_desc_format(&graph->values[input].desc, shape, sizeof shape));
}

braid_status braid_graph_set_input_shape(braid_graph *graph, braid_value_id input, int rank, const int64_t *dims) {
  if (!has_value(graph, input) || graph->values[input].kind != BRAID_VALUE_INPUT)
    return braid_fail(BRAID_INVALID_ARGUMENT, "value %d is not an input of the graph", input);
  braid_desc desc;
  braid_status status = braid_desc_init(&desc, graph->values[input].desc.dtype, rank, dims);
  if (status != BRAID_OK) return braid_fail_prefix(status, "input %.120s", graph->values[input].name);
  if (braid_desc_same_shape(&desc, &graph->values[input].desc)) return BRAID_OK;
  BRAID_TRY(check_foldable(graph, input));
  graph->values[input].desc = desc;
  graph->reshaped = graph->resolved;
  return BRAID_OK;
}

braid_status braid_graph_bind_input(braid_graph *graph, braid_value_id input, braid_tensor *tensor) {
  if (!has_value(graph, input) || graph->values[input].kind != BRAID_VALUE_INPUT)
    return braid_fail(BRAID_INVALID_ARGUMENT, "value %d is not an input of the graph", input);
  braid_value *value = &graph->values[input];
  const braid_desc *desc = braid_tensor_desc(tensor);
  BRAID_TRY(braid_graph_check_plain(value->name, desc));
  if (value->desc.dtype != BRAID_NONE && desc->dtype != value->desc.dtype)
    return braid_fail(BRAID_INVALID_ARGUMENT, "input %.120s is %s, the tensor is %s", value->name,
                      braid_dtype_name(value->desc.dtype), braid_dtype_name(desc->dtype));
  if (!braid_desc_same_shape(desc, &value->desc) && graph->resolved)
    return braid_fail(BRAID_INVALID_ARGUMENT, "input %.120s: the graph was resolved with another shape of it",
                      value->name);
  BRAID_TRY(braid_graph_begin_change(graph));
  value->kind = BRAID_VALUE_CONSTANT;
  value->tensor = braid_tensor_retain(tensor);
  value->desc = *desc;
  size_t kept = 0;
  for (size_t i = 0; i < graph->input_count; i++)
    if (graph->inputs[i] != input) graph->inputs[kept++] = graph->inputs[i];
  graph->input_count = kept;
  return BRAID_OK;
}

braid_status braid_graph_update_state(braid_graph *graph, braid_value_id state, braid_value_id next) {
  if (!has_value(graph, state) || !has_value(graph, next))
    return braid_fail(BRAID_INVALID_ARGUMENT, "value %d or %d does not exist", state, next);
  braid_value *value = &graph->values[state];
  if (value->kind != BRAID_VALUE_PARAMETER && value->kind != BRAID_VALUE_STATE)
    return braid_fail(BRAID_INVALID_ARGUMENT, "value %.120s is neither a parameter nor a state", value->name);
  if (value->next >= 0) return braid_fail(BRAID_INVALID_GRAPH, "value %.120s is updated twice", value->name);
  const braid_value *other = &graph->values[next];
  if (other->kind != BRAID_VALUE_RESULT)
    return braid_fail(BRAID_INVALID_ARGUMENT, "value %.120s is not computed by a node", other->name);
  if (other->desc.rank >= 0 &&
      (other->desc.dtype != value->desc.dtype || !braid_desc_same_shape(&other->desc, &value->desc)))
    return braid_fail(BRAID_INVALID_GRAPH, "value %.120s and its update differ in type or shape", value->name);
  BRAID_TRY(braid_graph_begin_change(graph));
  value->next = next;
  return BRAID_OK;
}

void braid_graph_replace_uses(braid_graph *graph, braid_value_id from, braid_value_id to) {
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t j = 0; j < graph->nodes[i].input_count; j++)
      if (graph->nodes[i].inputs[j] == from) graph->nodes[i].inputs[j] = to;
  for (size_t i = 0; i < graph->output_count; i++)
    if (graph->outputs[i] == from) graph->outputs[i] = to;
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].next == from) graph->values[i].next = to;
}
