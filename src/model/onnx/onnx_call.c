#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "model/onnx/onnx_import.h"

void braid_onnx_call_deinit(braid_onnx_call *call) {
  const braid_allocator *allocator = call->importer->allocator;
  for (size_t i = 0; i < call->attr_count; i++)
    if (call->attrs[i].kind == BRAID_ATTR_TENSOR) braid_tensor_release(call->attrs[i].tensor);
  braid_free(allocator, call->attrs);
  braid_free(allocator, call->inputs);
  braid_free(allocator, call->outputs);
}

braid_status braid_onnx_call_fail(const braid_onnx_call *call, braid_status status, const char *format, ...) {
  char message[640];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return braid_fail(status, "node %.120s (%.60s): %s", call->name, call->op, message);
}

/* --- attributes --------------------------------------------------------------------------------------------------- */
const braid_attr *braid_onnx_call_attr(const braid_onnx_call *call, const char *name) {
  for (size_t i = 0; i < call->attr_count; i++)
    if (strcmp(call->attrs[i].name, name) == 0) return &call->attrs[i];
  return NULL;
}

int64_t braid_onnx_call_int(const braid_onnx_call *call, const char *name, int64_t otherwise) {
  const braid_attr *attr = braid_onnx_call_attr(call, name);
  return attr && attr->kind == BRAID_ATTR_INT ? attr->i : otherwise;
}

double braid_onnx_call_float(const braid_onnx_call *call, const char *name, double otherwise) {
  const braid_attr *attr = braid_onnx_call_attr(call, name);
  return attr && attr->kind == BRAID_ATTR_FLOAT ? attr->f : otherwise;
}

const char *braid_onnx_call_string(const braid_onnx_call *call, const char *name, const char *otherwise) {
  const braid_attr *attr = braid_onnx_call_attr(call, name);
  return attr && attr->kind == BRAID_ATTR_STRING ? attr->s : otherwise;
}

const int64_t *braid_onnx_call_ints(const braid_onnx_call *call, const char *name, size_t *count) {
  const braid_attr *attr = braid_onnx_call_attr(call, name);
  bool ints = attr && attr->kind == BRAID_ATTR_INTS;
  static const int64_t none = 0;
  *count = ints ? attr->count : 0;
  if (!ints) return NULL;
  return attr->ints ? attr->ints : &none;
}

void braid_onnx_call_drop(braid_onnx_call *call, const char *name) {
  for (size_t i = 0; i < call->attr_count; i++) {
    if (strcmp(call->attrs[i].name, name) != 0) continue;
    if (call->attrs[i].kind == BRAID_ATTR_TENSOR) braid_tensor_release(call->attrs[i].tensor);
    call->attrs[i] = call->attrs[--call->attr_count];
    return;
  }
}

braid_status braid_onnx_call_put(braid_onnx_call *call, braid_attr attr) {
  braid_onnx_call_drop(call, attr.name);
  braid_attr *attrs =
      braid_grow(call->importer->allocator, call->attrs, call->attr_count, &call->attr_capacity, sizeof *attrs);
  if (!attrs) {
    if (attr.kind == BRAID_ATTR_TENSOR) braid_tensor_release(attr.tensor);
    return BRAID_NO_MEMORY;
  }
  call->attrs = attrs;
  attrs[call->attr_count++] = attr;
  return BRAID_OK;
}

braid_status braid_onnx_call_set_int(braid_onnx_call *call, const char *name, int64_t value) {
  return braid_onnx_call_put(call, (braid_attr){.name = name, .kind = BRAID_ATTR_INT, .i = value});
}

braid_status braid_onnx_call_set_string(braid_onnx_call *call, const char *name, const char *value) {
  return braid_onnx_call_put(call, (braid_attr){.name = name, .kind = BRAID_ATTR_STRING, .s = value});
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */
braid_value_id braid_onnx_call_input(const braid_onnx_call *call, size_t index) {
  return index < call->input_count ? call->inputs[index] : -1;
}

braid_status braid_onnx_call_set_input(braid_onnx_call *call, size_t index, braid_value_id value) {
  while (call->input_count <= index) {
    braid_value_id *inputs =
        braid_grow(call->importer->allocator, call->inputs, call->input_count, &call->input_capacity, sizeof *inputs);
    if (!inputs) return BRAID_NO_MEMORY;
    call->inputs = inputs;
    inputs[call->input_count++] = -1;
  }
  call->inputs[index] = value;
  return BRAID_OK;
}

const braid_desc *braid_onnx_call_known(const braid_onnx_call *call, braid_value_id value) {
  if (value < 0) return NULL;
  const braid_desc *desc = &call->importer->graph->values[value].desc;
  return desc->dtype != BRAID_NONE && desc->rank >= 0 ? desc : NULL;
}

/* --- nodes before the call ---------------------------------------------------------------------------------------- */
static braid_status add_constant(braid_onnx_call *call, const braid_desc *desc, const void *data, braid_value_id *out) {
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(call->importer->allocator, desc, &tensor));
  if (braid_desc_bytes(desc)) memcpy(braid_tensor_data(tensor), data, braid_desc_bytes(desc));
  braid_status status = braid_graph_add_tensor(call->importer->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

braid_status braid_onnx_call_constant_ints(braid_onnx_call *call, const int64_t *values, size_t count, bool scalar,
                                           braid_value_id *out) {
  *out = -1;
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_I64, scalar ? 0 : 1, &(int64_t){(int64_t)count}));
  return add_constant(call, &desc, values, out);
}

braid_status braid_onnx_call_constant_float(braid_onnx_call *call, float value, braid_value_id *out) {
  *out = -1;
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 0, NULL));
  return add_constant(call, &desc, &value, out);
}

braid_status braid_onnx_call_constant_like(braid_onnx_call *call, double value, braid_value_id like,
                                           braid_value_id *out) {
  *out = -1;
  const braid_desc *known = braid_onnx_call_known(call, like);
  braid_dtype dtype = known ? known->dtype : BRAID_NONE; /* values move when one is added */
  braid_desc desc;
  if (dtype == BRAID_F64) {
    BRAID_TRY(braid_desc_init(&desc, BRAID_F64, 0, NULL));
    return add_constant(call, &desc, &value, out);
  }
  BRAID_TRY(braid_onnx_call_constant_float(call, (float)value, out));
  if (dtype == BRAID_F32) return BRAID_OK;
  return braid_onnx_call_node(call, "CastLike", (braid_value_id[]){*out, like}, 2, NULL, 0, out);
}

braid_status braid_onnx_call_node(braid_onnx_call *call, const char *op, const braid_value_id *inputs,
                                  size_t input_count, const char *attr, int64_t value, braid_value_id *out) {
  braid_graph *graph = call->importer->graph;
  braid_node_id node;
  braid_value_id output = 0;
  braid_status status = braid_graph_add_node(graph, op, NULL, inputs, input_count, &output, 1, &node);
  if (status == BRAID_NOT_FOUND)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "needs the op %s, which is not implemented", op);
  if (status == BRAID_OK && attr) status = braid_graph_set_int(graph, node, attr, value);
  if (status == BRAID_OK) *out = output;
  return status;
}

void braid_onnx_call_replace(braid_onnx_call *call, braid_value_id value) {
  call->outputs[0] = value;
  call->done = true;
}

/* --- into the graph ----------------------------------------------------------------------------------------------- */
static braid_status emit_attr(braid_graph *graph, braid_node_id node, const braid_attr *attr) {
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    return braid_graph_set_int(graph, node, attr->name, attr->i);
  case BRAID_ATTR_FLOAT:
    return braid_graph_set_float(graph, node, attr->name, attr->f);
  case BRAID_ATTR_STRING:
    return braid_graph_set_string(graph, node, attr->name, attr->s);
  case BRAID_ATTR_INTS:
    return braid_graph_set_ints(graph, node, attr->name, attr->ints, attr->count);
  case BRAID_ATTR_FLOATS:
    return braid_graph_set_floats(graph, node, attr->name, attr->floats, attr->count);
  case BRAID_ATTR_STRINGS:
    return braid_graph_set_strings(graph, node, attr->name, attr->strings, attr->count);
  case BRAID_ATTR_TENSOR:
    return braid_graph_set_tensor(graph, node, attr->name, attr->tensor);
  }
  return braid_fail(BRAID_INTERNAL, "attribute %s is of no known kind", attr->name);
}

braid_status braid_onnx_call_emit(braid_onnx_call *call) {
  if (call->done) return BRAID_OK;
  braid_graph *graph = call->importer->graph;
  if (graph->node_count >= BRAID_ONNX_MAX_NODES)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "more than %d nodes once functions are inlined",
                                BRAID_ONNX_MAX_NODES);
  while (call->input_count && call->inputs[call->input_count - 1] < 0) call->input_count--;
  braid_node_id node;
  braid_status status = braid_graph_add_node(graph, call->op, call->name, call->inputs, call->input_count,
                                             call->outputs, call->output_count, &node);
  if (status == BRAID_NOT_FOUND) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "op is not implemented");
  for (size_t i = 0; status == BRAID_OK && i < call->attr_count; i++) status = emit_attr(graph, node, &call->attrs[i]);
  return status;
}
