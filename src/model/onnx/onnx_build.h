/* For tests: ONNX models written as a few lines of C. Everything lives in one arena. */
#ifndef BRAID_MODEL_ONNX_BUILD_H
#define BRAID_MODEL_ONNX_BUILD_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/onnx/onnx_import.h"

typedef struct onnx_build {
  braid_arena *arena;
  Onnx__ModelProto model;
  Onnx__GraphProto graph;
  Onnx__OperatorSetIdProto opset, *opsets[1];
} onnx_build;

enum { BUILD_MOST = 64 };

static inline void *build_new(onnx_build *build, size_t bytes) {
  void *made = braid_arena_alloc(build->arena, bytes);
  if (!made) abort();
  return made;
}

static inline char *build_text(onnx_build *build, const char *text) {
  return braid_arena_text(build->arena, text, strlen(text));
}

static inline void build_graph_init(onnx_build *build, Onnx__GraphProto *graph) {
  onnx__graph_proto__init(graph);
  graph->name = build_text(build, "built");
  graph->node = build_new(build, BUILD_MOST * sizeof(void *));
  graph->input = build_new(build, BUILD_MOST * sizeof(void *));
  graph->output = build_new(build, BUILD_MOST * sizeof(void *));
  graph->initializer = build_new(build, BUILD_MOST * sizeof(void *));
}

static inline void build_begin(onnx_build *build, int opset) {
  memset(build, 0, sizeof *build);
  if (braid_arena_create(NULL, &build->arena) != BRAID_OK) abort();
  onnx__model_proto__init(&build->model);
  onnx__operator_set_id_proto__init(&build->opset);
  build_graph_init(build, &build->graph);
  build->opset.has_version = build->model.has_ir_version = true;
  build->opset.version = opset;
  build->model.ir_version = 8;
  build->opsets[0] = &build->opset;
  build->model.opset_import = build->opsets;
  build->model.n_opset_import = 1;
  build->model.graph = &build->graph;
  build->model.functions = build_new(build, BUILD_MOST * sizeof(void *));
}

static inline void build_end(onnx_build *build) {
  braid_arena_destroy(build->arena);
}

static inline Onnx__ValueInfoProto *build_value(onnx_build *build, const char *name, int type, size_t rank,
                                                const int64_t *dims) {
  Onnx__ValueInfoProto *info = build_new(build, sizeof *info);
  onnx__value_info_proto__init(info);
  info->name = build_text(build, name);
  info->type = build_new(build, sizeof *info->type);
  onnx__type_proto__init(info->type);
  Onnx__TypeProto__Tensor *tensor = build_new(build, sizeof *tensor);
  onnx__type_proto__tensor__init(tensor);
  info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  info->type->tensor_type = tensor;
  tensor->has_elem_type = true;
  tensor->elem_type = type;
  tensor->shape = build_new(build, sizeof *tensor->shape);
  onnx__tensor_shape_proto__init(tensor->shape);
  tensor->shape->dim = build_new(build, (rank + 1) * sizeof(void *));
  for (size_t i = 0; i < rank; i++) {
    Onnx__TensorShapeProto__Dimension *dim = build_new(build, sizeof *dim);
    onnx__tensor_shape_proto__dimension__init(dim);
    dim->value_case = dims[i] == -1 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                    : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (dims[i] == -1)
      dim->dim_param = build_text(build, "n");
    else
      dim->dim_value = dims[i];
    tensor->shape->dim[tensor->shape->n_dim++] = dim;
  }
  return info;
}

/* Float inputs and outputs. */
static inline void build_input(onnx_build *build, const char *name, size_t rank, const int64_t *dims) {
  build->graph.input[build->graph.n_input++] = build_value(build, name, 1, rank, dims);
}

static inline void build_output(onnx_build *build, Onnx__GraphProto *graph, const char *name) {
  Onnx__ValueInfoProto *info = build_new(build, sizeof *info);
  onnx__value_info_proto__init(info);
  info->name = build_text(build, name);
  graph->output[graph->n_output++] = info;
}

/* "a b  c" as a list, "-" for one left out. */
static inline char **build_names(onnx_build *build, const char *list, size_t *count) {
  char **names = build_new(build, BUILD_MOST * sizeof *names), *copy = build_text(build, list), *rest = NULL;
  *count = 0;
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    names[(*count)++] = strcmp(word, "-") == 0 ? build_text(build, "") : word;
  return names;
}

static inline Onnx__NodeProto *build_node_alone(onnx_build *build, const char *op, const char *inputs,
                                                const char *outputs) {
  Onnx__NodeProto *node = build_new(build, sizeof *node);
  onnx__node_proto__init(node);
  node->op_type = build_text(build, op);
  node->input = build_names(build, inputs, &node->n_input);
  node->output = build_names(build, outputs, &node->n_output);
  node->attribute = build_new(build, BUILD_MOST * sizeof(void *));
  return node;
}

static inline Onnx__NodeProto *build_node(onnx_build *build, Onnx__GraphProto *graph, const char *op,
                                          const char *inputs, const char *outputs) {
  return graph->node[graph->n_node++] = build_node_alone(build, op, inputs, outputs);
}

static inline Onnx__AttributeProto *build_attr(onnx_build *build, Onnx__NodeProto *node, const char *name, int type) {
  Onnx__AttributeProto *attr = build_new(build, sizeof *attr);
  onnx__attribute_proto__init(attr);
  attr->name = build_text(build, name);
  attr->has_type = true;
  attr->type = (Onnx__AttributeProto__AttributeType)type;
  node->attribute[node->n_attribute++] = attr;
  return attr;
}

static inline void build_int(onnx_build *build, Onnx__NodeProto *node, const char *name, int64_t value) {
  Onnx__AttributeProto *attr = build_attr(build, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
  attr->has_i = true;
  attr->i = value;
}

static inline void build_float(onnx_build *build, Onnx__NodeProto *node, const char *name, float value) {
  Onnx__AttributeProto *attr = build_attr(build, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  attr->has_f = true;
  attr->f = value;
}

static inline void build_ints(onnx_build *build, Onnx__NodeProto *node, const char *name, const int64_t *values,
                              size_t count) {
  Onnx__AttributeProto *attr = build_attr(build, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
  attr->n_ints = count;
  attr->ints = build_new(build, (count + 1) * sizeof *values);
  memcpy(attr->ints, values, count * sizeof *values);
}

/* A tensor with raw_data; rank 1. */
static inline Onnx__TensorProto *build_tensor(onnx_build *build, const char *name, int type, int64_t count,
                                              const void *data, size_t bytes) {
  Onnx__TensorProto *tensor = build_new(build, sizeof *tensor);
  onnx__tensor_proto__init(tensor);
  tensor->name = build_text(build, name);
  tensor->has_data_type = true;
  tensor->data_type = type;
  tensor->n_dims = 1;
  tensor->dims = build_new(build, sizeof *tensor->dims);
  tensor->dims[0] = count;
  if (data) {
    tensor->has_raw_data = true;
    tensor->raw_data.len = bytes;
    tensor->raw_data.data = build_new(build, bytes + 1);
    memcpy(tensor->raw_data.data, data, bytes);
  }
  return tensor;
}

static inline uint8_t *build_pack(onnx_build *build, size_t *bytes) {
  *bytes = onnx__model_proto__get_packed_size(&build->model);
  uint8_t *packed = malloc(*bytes ? *bytes : 1);
  if (!packed) abort();
  onnx__model_proto__pack(&build->model, packed);
  return packed;
}

static inline braid_status build_import_bytes(const braid_allocator *allocator, const uint8_t *data, size_t bytes,
                                              braid_graph **out) {
  const braid_model_memory memory = {.data = data, .bytes = bytes, .name = "built.onnx"};
  return braid_model_parse(allocator, &memory, out);
}

/* Packs, imports, and ends the builder. */
static inline braid_status build_import(onnx_build *build, braid_graph **out) {
  size_t bytes;
  uint8_t *data = build_pack(build, &bytes);
  build_end(build);
  braid_status status = build_import_bytes(NULL, data, bytes, out);
  free(data);
  return status;
}

#endif
