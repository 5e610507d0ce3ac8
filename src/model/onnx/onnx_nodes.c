#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "model/onnx/onnx_import.h"

/* --- scopes and names --------------------------------------------------------------------------------------------- */
braid_status braid_onnx_scope_init(const braid_onnx_importer *importer, braid_onnx_scope *scope) {
  scope->condition = -1;
  return braid_name_map_create(importer->allocator, &scope->names);
}

void braid_onnx_scope_deinit(braid_onnx_scope *scope) {
  braid_name_map_destroy(scope->names);
  scope->names = NULL;
}

braid_status braid_onnx_scope_set(braid_onnx_scope *scope, const char *name, braid_value_id value) {
  return braid_name_map_set(scope->names, name, value);
}

/* What a branch takes from outside passes through an IfBranch node, which gives nothing while the branch is not taken:
 * so the nodes of a branch not taken are never inferred, and may be wrong for the shapes at hand. */
static braid_status capture(braid_onnx_importer *importer, braid_onnx_scope *scope, const char *name,
                            braid_value_id outside, braid_value_id *out) {
  braid_value_id output = 0;
  braid_node_id node;
  BRAID_TRY(braid_graph_add_node(importer->graph, "IfBranch", NULL, (braid_value_id[]){scope->condition, outside}, 2,
                                 &output, 1, &node));
  BRAID_TRY(braid_graph_set_int(importer->graph, node, "branch", scope->branch));
  *out = output;
  return braid_onnx_scope_set(scope, name, output);
}

braid_status braid_onnx_scope_find(braid_onnx_importer *importer, braid_onnx_scope *scope, const char *name,
                                   braid_value_id *out) {
  int64_t found;
  *out = -1;
  if (braid_name_map_get(scope->names, name, &found)) {
    *out = (braid_value_id)found;
    return BRAID_OK;
  }
  if (!scope->parent) return BRAID_NOT_FOUND;
  braid_value_id outside;
  BRAID_TRY(braid_onnx_scope_find(importer, (braid_onnx_scope *)scope->parent, name, &outside));
  return outside < 0 ? BRAID_OK : capture(importer, scope, name, outside, out);
}

braid_status braid_onnx_claim_name(braid_onnx_importer *importer, braid_value_id value, const char *name) {
  braid_graph *graph = importer->graph;
  braid_value_id other = braid_graph_find_value(graph, name);
  if (other == value) return BRAID_OK;
  char fresh[96];
  for (uint64_t i = 0; other >= 0; i++) {
    snprintf(fresh, sizeof fresh, "%.60s~%llu", name, (unsigned long long)i);
    if (braid_graph_find_value(graph, fresh) >= 0) continue;
    BRAID_TRY(braid_graph_rename_value(graph, other, fresh));
    break;
  }
  return braid_graph_rename_value(graph, value, name);
}

static const char *node_label(const Onnx__NodeProto *node) {
  if (node->name && *node->name) return node->name;
  for (size_t i = 0; i < node->n_output; i++)
    if (node->output[i] && *node->output[i]) return node->output[i];
  return "without a name";
}

static const char *node_op(const Onnx__NodeProto *node) {
  return node->op_type ? node->op_type : "";
}

static braid_status node_fail(const Onnx__NodeProto *node, braid_status status, const char *message, const char *what) {
  return braid_fail(status, "node %.120s (%.60s): %s%.200s", node_label(node), node_op(node), message, what);
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */
static braid_status define(braid_onnx_importer *importer, braid_onnx_scope *scope, const Onnx__NodeProto *node,
                           size_t index, braid_value_id value) {
  const char *name = index < node->n_output && node->output[index] ? node->output[index] : "";
  if (!*name) return BRAID_OK;
  int64_t taken;
  if (braid_name_map_get(scope->names, name, &taken))
    return node_fail(node, BRAID_INVALID_FILE, "its output has the name of another value, ", name);
  BRAID_TRY(braid_onnx_scope_set(scope, name, value));
  bool main_graph = !scope->parent && !scope->function;
  if (value < 0 || importer->graph->values[value].kind != BRAID_VALUE_RESULT) return BRAID_OK;
  if (main_graph) return braid_onnx_claim_name(importer, value, name);
  if (braid_graph_find_value(importer->graph, name) >= 0) return BRAID_OK;
  return braid_graph_rename_value(importer->graph, value, name);
}

static braid_status find_input(braid_onnx_importer *importer, braid_onnx_scope *scope, const Onnx__NodeProto *node,
                               size_t index, braid_value_id *out) {
  const char *name = node->input[index];
  *out = -1;
  if (!name || !*name) return BRAID_OK;
  braid_status status = braid_onnx_scope_find(importer, scope, name, out);
  if (status == BRAID_NOT_FOUND) return node_fail(node, BRAID_INVALID_FILE, "nothing gives its input ", name);
  return status;
}

/* --- constants ---------------------------------------------------------------------------------------------------- */
static braid_status scalar_or_list(braid_onnx_call *call, braid_dtype dtype, bool scalar, size_t count,
                                   const void *data, braid_tensor **out) {
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, dtype, scalar ? 0 : 1, &(int64_t){(int64_t)count}));
  BRAID_TRY(braid_tensor_create(call->importer->allocator, &desc, out));
  if (count) memcpy(braid_tensor_data(*out), data, braid_desc_bytes(&desc));
  return BRAID_OK;
}

/* The six ways a Constant can hold its value. */
static braid_status import_constant(braid_onnx_call *call) {
  if (call->attr_count != 1)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "has %zu attributes, expected one that holds its value",
                                call->attr_count);
  const braid_attr *attr = &call->attrs[0];
  braid_tensor *tensor = NULL;
  if (strcmp(attr->name, "value") == 0 || strcmp(attr->name, "sparse_value") == 0) {
    if (attr->kind == BRAID_ATTR_TENSOR) tensor = braid_tensor_retain(attr->tensor);
  } else if (strcmp(attr->name, "value_float") == 0 && attr->kind == BRAID_ATTR_FLOAT) {
    BRAID_TRY(scalar_or_list(call, BRAID_F32, true, 1, &(float){(float)attr->f}, &tensor));
  } else if (strcmp(attr->name, "value_int") == 0 && attr->kind == BRAID_ATTR_INT) {
    BRAID_TRY(scalar_or_list(call, BRAID_I64, true, 1, &attr->i, &tensor));
  } else if (strcmp(attr->name, "value_floats") == 0 && attr->kind == BRAID_ATTR_FLOATS) {
    BRAID_TRY(scalar_or_list(call, BRAID_F32, false, attr->count, attr->floats, &tensor));
  } else if (strcmp(attr->name, "value_ints") == 0 && attr->kind == BRAID_ATTR_INTS) {
    BRAID_TRY(scalar_or_list(call, BRAID_I64, false, attr->count, attr->ints, &tensor));
  } else if (strncmp(attr->name, "value_string", strlen("value_string")) == 0) {
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "element type STRING");
  }
  if (!tensor)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s does not hold a constant's value", attr->name);
  braid_value_id value;
  braid_status status = braid_graph_add_tensor(call->importer->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &value);
  braid_tensor_release(tensor);
  BRAID_TRY(status);
  call->importer->graph->values[value].origin = BRAID_ORIGIN_LITERAL;
  braid_onnx_call_replace(call, value);
  return BRAID_OK;
}

/* --- If ----------------------------------------------------------------------------------------------------------- */
static const Onnx__GraphProto *branch_graph(const braid_onnx_scope *scope, const Onnx__NodeProto *node,
                                            const char *name) {
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__AttributeProto *attr = node->attribute[i];
    if (!attr->name || strcmp(attr->name, name) != 0) continue;
    if (attr->ref_attr_name && *attr->ref_attr_name) attr = braid_onnx_bound_attr(scope, attr->ref_attr_name);
    return attr ? attr->g : NULL;
  }
  return NULL;
}

static braid_status import_branch(braid_onnx_importer *importer, const braid_onnx_scope *scope,
                                  const Onnx__NodeProto *node, braid_value_id condition, bool taken,
                                  braid_value_id *outputs) {
  const char *name = taken ? "then_branch" : "else_branch";
  const Onnx__GraphProto *graph = branch_graph(scope, node, name);
  if (!graph) return node_fail(node, BRAID_INVALID_FILE, "lacks its ", name);
  if (graph->n_output != node->n_output || graph->n_input)
    return node_fail(node, BRAID_INVALID_FILE, "inputs or number of outputs differ from the node's in its ", name);
  braid_onnx_scope inner = {.parent = scope, .opset = scope->opset, .depth = scope->depth};
  braid_status status = braid_onnx_scope_init(importer, &inner);
  inner.condition = condition;
  inner.branch = taken;
  if (status == BRAID_OK) status = braid_onnx_import_initializers(importer, &inner, graph);
  if (status == BRAID_OK) status = braid_onnx_import_nodes(importer, &inner, graph->node, graph->n_node);
  for (size_t i = 0; status == BRAID_OK && i < graph->n_output; i++) {
    const char *output = graph->output[i]->name ? graph->output[i]->name : "";
    status = braid_onnx_scope_find(importer, &inner, output, &outputs[i]);
    if (status == BRAID_NOT_FOUND || (status == BRAID_OK && outputs[i] < 0))
      status = node_fail(node, BRAID_INVALID_FILE, "nothing gives the output of its branch ", output);
  }
  braid_onnx_scope_deinit(&inner);
  return status;
}

/* Both branches become part of the graph, joined by an If node over values; inference, when it knows the condition,
 * keeps one (graph/control.h). */
static braid_status import_if(braid_onnx_importer *importer, const braid_onnx_scope *scope, const Onnx__NodeProto *node,
                              braid_onnx_call *call) {
  if (call->input_count != 1 || call->inputs[0] < 0)
    return node_fail(node, BRAID_INVALID_FILE, "expected one input, the condition", "");
  braid_value_id condition = call->inputs[0];
  size_t count = node->n_output;
  braid_value_id *values = braid_arena_alloc(importer->arena, (2 * count + 1) * sizeof *values);
  if (!values) return BRAID_NO_MEMORY;
  BRAID_TRY(import_branch(importer, scope, node, condition, true, values));
  BRAID_TRY(import_branch(importer, scope, node, condition, false, values + count));
  for (size_t i = 0; i < 2 * count; i++) BRAID_TRY(braid_onnx_call_set_input(call, i + 1, values[i]));
  return BRAID_OK;
}

/* --- functions ---------------------------------------------------------------------------------------------------- */
static braid_status find_function(const braid_onnx_importer *importer, const Onnx__NodeProto *node,
                                  const Onnx__FunctionProto **out) {
  *out = NULL;
  if (!importer->model->n_functions) return BRAID_OK;
  braid_text key;
  int64_t index;
  braid_text_init(&key, importer->allocator);
  braid_text_printf(&key, "%s:%s:%s", node->domain ? node->domain : "", node_op(node),
                    node->overload ? node->overload : "");
  bool failed = key.failed;
  if (!failed && braid_name_map_get(importer->functions, key.data, &index)) *out = importer->model->functions[index];
  braid_text_deinit(&key);
  return failed ? BRAID_NO_MEMORY : BRAID_OK;
}

static braid_status bind_attr(braid_onnx_scope *body, const Onnx__AttributeProto **bound, const char **names,
                              const char *name, const Onnx__AttributeProto *attr) {
  bound[body->bound_count] = attr;
  names[body->bound_count++] = name;
  body->bound = bound;
  body->bound_names = names;
  return BRAID_OK;
}

static braid_status bind_attrs(braid_onnx_importer *importer, const braid_onnx_scope *scope,
                               const Onnx__FunctionProto *function, const Onnx__NodeProto *node,
                               braid_onnx_scope *body) {
  size_t capacity = node->n_attribute + function->n_attribute_proto + 1;
  if (function->n_attribute_proto > BRAID_MAX_ATTRIBUTES)
    return node_fail(node, BRAID_INVALID_FILE, "is a function with more than 1,000 attributes", "");
  const Onnx__AttributeProto **bound = braid_arena_alloc(importer->arena, capacity * sizeof *bound);
  const char **names = braid_arena_alloc(importer->arena, capacity * sizeof *names);
  if (!bound || !names) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__AttributeProto *attr = node->attribute[i];
    const char *name = attr->name;
    if (attr->ref_attr_name && *attr->ref_attr_name) attr = braid_onnx_bound_attr(scope, attr->ref_attr_name);
    if (attr && name) BRAID_TRY(bind_attr(body, bound, names, name, attr));
  }
  for (size_t i = 0; i < function->n_attribute_proto; i++) { /* defaults */
    const Onnx__AttributeProto *attr = function->attribute_proto[i];
    if (attr->name && !braid_onnx_bound_attr(body, attr->name))
      BRAID_TRY(bind_attr(body, bound, names, attr->name, attr));
  }
  return BRAID_OK;
}

static int64_t function_opset(const Onnx__FunctionProto *function, int64_t otherwise) {
  for (size_t i = 0; i < function->n_opset_import; i++) {
    const Onnx__OperatorSetIdProto *opset = function->opset_import[i];
    if (!opset->domain || !*opset->domain || strcmp(opset->domain, "ai.onnx") == 0) return opset->version;
  }
  return otherwise;
}

static braid_status import_body(braid_onnx_importer *importer, const Onnx__FunctionProto *function,
                                const Onnx__NodeProto *node, braid_onnx_call *call, braid_onnx_scope *body) {
  for (size_t i = 0; i < function->n_input; i++)
    BRAID_TRY(braid_onnx_scope_set(body, function->input[i], braid_onnx_call_input(call, i)));
  BRAID_TRY(braid_onnx_import_nodes(importer, body, function->node, function->n_node));
  for (size_t i = 0; i < node->n_output; i++) {
    if (call->outputs[i] < 0) continue;
    braid_status status = braid_onnx_scope_find(importer, body, function->output[i], &call->outputs[i]);
    if (status == BRAID_NOT_FOUND || (status == BRAID_OK && call->outputs[i] < 0))
      return node_fail(node, BRAID_INVALID_FILE, "nothing in the function gives its output ", function->output[i]);
    BRAID_TRY(status);
  }
  call->done = true;
  return BRAID_OK;
}

static braid_status import_function(braid_onnx_importer *importer, const braid_onnx_scope *scope,
                                    const Onnx__FunctionProto *function, const Onnx__NodeProto *node,
                                    braid_onnx_call *call) {
  if (scope->depth >= BRAID_ONNX_MAX_CALL_DEPTH)
    return node_fail(node, BRAID_INVALID_FILE, "functions call each other too deep (a cycle?)", "");
  if (node->n_input > function->n_input || node->n_output > function->n_output)
    return node_fail(node, BRAID_INVALID_FILE, "has more inputs or outputs than its function", "");
  braid_onnx_scope body = {
      .opset = function_opset(function, scope->opset), .depth = scope->depth + 1, .function = function};
  braid_status status = braid_onnx_scope_init(importer, &body);
  if (status == BRAID_OK) status = bind_attrs(importer, scope, function, node, &body);
  if (status == BRAID_OK) status = import_body(importer, function, node, call, &body);
  braid_onnx_scope_deinit(&body);
  return status;
}

/* --- one node ----------------------------------------------------------------------------------------------------- */
/* Ops of other domains, ours and those that the program has registered, are known by "domain.Op". */
static braid_status find_foreign(const braid_onnx_importer *importer, const Onnx__NodeProto *node, const char **op) {
  char name[256];
  int length = snprintf(name, sizeof name, "%s.%s", node->domain, node_op(node));
  const braid_op *found = length < (int)sizeof name ? braid_graph_find_op(importer->graph, name) : NULL;
  if (!found) return node_fail(node, BRAID_UNSUPPORTED, "ops of the domain ", node->domain);
  *op = found->name;
  return BRAID_OK;
}

static braid_status import_op(braid_onnx_importer *importer, braid_onnx_scope *scope, const Onnx__NodeProto *node,
                              braid_onnx_call *call) {
  const Onnx__FunctionProto *function;
  BRAID_TRY(find_function(importer, node, &function));
  if (function) return import_function(importer, scope, function, node, call);
  BRAID_TRY(braid_onnx_check_attrs(call, node));
  if (node->domain && *node->domain && strcmp(node->domain, "ai.onnx") != 0) {
    bool known = false;
    BRAID_TRY(braid_onnx_call_attrs(call, scope, node));
    bool microsoft = strcmp(node->domain, "com.microsoft") == 0;
    if (microsoft) BRAID_TRY(braid_onnx_adapt_quantized(call, &known));
    if (microsoft && !known) BRAID_TRY(braid_onnx_adapt_microsoft(call, &known));
    if (!known) BRAID_TRY(find_foreign(importer, node, &call->op));
    return braid_onnx_call_emit(call);
  }
  if (strcmp(call->op, "Loop") == 0 || strcmp(call->op, "Scan") == 0)
    return node_fail(node, BRAID_UNSUPPORTED, "loops: a graph runs every node once", "");
  if (strcmp(call->op, "If") == 0) {
    BRAID_TRY(import_if(importer, scope, node, call));
    return braid_onnx_call_emit(call);
  }
  BRAID_TRY(braid_onnx_call_attrs(call, scope, node));
  if (strcmp(call->op, "Constant") == 0) return import_constant(call);
  BRAID_TRY(braid_onnx_adapt(call));
  return braid_onnx_call_emit(call);
}

static braid_status import_node(braid_onnx_importer *importer, braid_onnx_scope *scope, const Onnx__NodeProto *node) {
  if (!node->n_output) return node_fail(node, BRAID_INVALID_FILE, "has no outputs", "");
  if (node->n_attribute > BRAID_MAX_ATTRIBUTES)
    return node_fail(node, BRAID_INVALID_FILE, "has more than 1,000 attributes", "");
  braid_onnx_call call = {.importer = importer, .op = node_op(node), .name = node_label(node), .opset = scope->opset};
  braid_status status = BRAID_OK;
  call.outputs = braid_zalloc_array(importer->allocator, node->n_output, sizeof *call.outputs);
  if (!call.outputs) status = BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < node->n_output; i++)
    call.outputs[i] = node->output[i] && *node->output[i] ? 0 : -1;
  call.output_count = node->n_output;
  for (size_t i = 0; status == BRAID_OK && i < node->n_input; i++) {
    braid_value_id input;
    status = find_input(importer, scope, node, i, &input);
    if (status == BRAID_OK) status = braid_onnx_call_set_input(&call, i, input);
  }
  size_t first = importer->graph->node_count;
  if (status == BRAID_OK) status = import_op(importer, scope, node, &call);
  if (status == BRAID_OK) status = braid_onnx_note_calls(importer->graph, first, node);
  for (size_t i = 0; status == BRAID_OK && i < node->n_output; i++)
    if (call.outputs[i] >= 0) status = define(importer, scope, node, i, call.outputs[i]);
  braid_onnx_call_deinit(&call);
  return status;
}

/* --- order -------------------------------------------------------------------------------------------------------- */
typedef struct node_order {
  braid_onnx_importer *importer;
  Onnx__NodeProto *const *nodes;
  size_t count;
  braid_name_map *producers; /* output -> node */
  uint8_t *state;
  size_t *stack;
  size_t depth, capacity;
} node_order;

enum { NODE_NEW, NODE_OPEN, NODE_DONE };

static braid_status push(node_order *order, size_t node) {
  size_t *stack = braid_grow(order->importer->allocator, order->stack, order->depth, &order->capacity, sizeof *stack);
  if (!stack) return BRAID_NO_MEMORY;
  order->stack = stack;
  stack[order->depth++] = node;
  return BRAID_OK;
}

static braid_status push_producer(node_order *order, const Onnx__NodeProto *of, const char *name) {
  int64_t producer;
  if (!name || !*name || !braid_name_map_get(order->producers, name, &producer)) return BRAID_OK;
  if (order->state[producer] == NODE_OPEN) return node_fail(of, BRAID_INVALID_FILE, "stands on a cycle through ", name);
  return order->state[producer] == NODE_NEW ? push(order, (size_t)producer) : BRAID_OK;
}

/* Inputs of the node, and what the graphs inside it (the branches of an If) take from outside. */
static braid_status push_producers(node_order *order, const Onnx__NodeProto *of, const Onnx__NodeProto *node) {
  for (size_t i = 0; i < node->n_input; i++) BRAID_TRY(push_producer(order, of, node->input[i]));
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__GraphProto *graph = node->attribute[i]->g;
    for (size_t j = 0; graph && j < graph->n_node; j++) BRAID_TRY(push_producers(order, of, graph->node[j]));
    for (size_t j = 0; graph && j < graph->n_output; j++) BRAID_TRY(push_producer(order, of, graph->output[j]->name));
  }
  return BRAID_OK;
}

static braid_status visit(node_order *order, braid_onnx_scope *scope, size_t root) {
  if (order->state[root] == NODE_NEW) BRAID_TRY(push(order, root));
  while (order->depth) {
    size_t top = order->stack[order->depth - 1];
    if (order->state[top] == NODE_NEW) {
      order->state[top] = NODE_OPEN;
      BRAID_TRY(push_producers(order, order->nodes[top], order->nodes[top]));
      continue;
    }
    order->depth--;
    if (order->state[top] == NODE_DONE) continue;
    order->state[top] = NODE_DONE;
    BRAID_TRY(import_node(order->importer, scope, order->nodes[top]));
  }
  return BRAID_OK;
}

static braid_status list_producers(node_order *order) {
  for (size_t i = 0; i < order->count; i++)
    for (size_t j = 0; j < order->nodes[i]->n_output; j++) {
      const char *name = order->nodes[i]->output[j];
      int64_t other;
      if (!name || !*name) continue;
      if (braid_name_map_get(order->producers, name, &other))
        return node_fail(order->nodes[i], BRAID_INVALID_FILE, "a second node gives ", name);
      BRAID_TRY(braid_name_map_set(order->producers, name, (int64_t)i));
    }
  return BRAID_OK;
}

braid_status braid_onnx_import_nodes(braid_onnx_importer *importer, braid_onnx_scope *scope,
                                     Onnx__NodeProto *const *nodes, size_t count) {
  if (count > BRAID_ONNX_MAX_NODES)
    return braid_fail(BRAID_INVALID_FILE, "%zu nodes, at most %d are read", count, BRAID_ONNX_MAX_NODES);
  node_order order = {.importer = importer, .nodes = nodes, .count = count};
  order.state = braid_zalloc_array(importer->allocator, count + 1, 1);
  braid_status status = order.state ? braid_name_map_create(importer->allocator, &order.producers) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = list_producers(&order);
  for (size_t i = 0; status == BRAID_OK && i < count; i++) status = visit(&order, scope, i);
  braid_name_map_destroy(order.producers);
  braid_free(importer->allocator, order.state);
  braid_free(importer->allocator, order.stack);
  return status;
}
