/* Graph to ONNX. The file says opset 17, or the first opset that has every op in the form the graph uses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/try.h"
#include "graph/custom.h"
#include "graph/graph.h"
#include "graph/onnx_dtype.h"
#include "model/model.h"
#include "model/onnx/onnx_branches.h"
#include "model/onnx/onnx_opset.h"
#include "onnx.pb-c.h"
#include "tensor/narrow.h"

typedef struct onnx_exporter {
  const braid_graph *graph;
  braid_arena *arena;
  bool *live_values; /* needed for the outputs */
  bool *live_nodes;
  braid_name_map *node_names; /* -> how many nodes asked for the name */
  braid_name_map *domains;    /* of ops that ONNX itself does not have */
  int opset;
  braid_onnx_branches branches;
  Onnx__GraphProto **graphs; /* one per region of `branches` */
  size_t fresh;              /* for names of what branches give */
  Onnx__ModelProto *model;
} onnx_exporter;

/* --- what is written ---------------------------------------------------------------------------------------------- */
static void mark_live(onnx_exporter *exporter) {
  const braid_graph *graph = exporter->graph;
  for (size_t i = 0; i < graph->output_count; i++) exporter->live_values[graph->outputs[i]] = true;
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[i];
    for (size_t j = 0; j < node->output_count && !node->backward; j++)
      if (node->outputs[j] >= 0 && exporter->live_values[node->outputs[j]]) exporter->live_nodes[i] = true;
    for (size_t j = 0; j < node->input_count && exporter->live_nodes[i]; j++)
      if (node->inputs[j] >= 0) exporter->live_values[node->inputs[j]] = true;
  }
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */
static Onnx__TensorProto *tensor_proto(onnx_exporter *exporter, const char *name, const braid_tensor *tensor) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  Onnx__TensorProto *proto = braid_arena_alloc(exporter->arena, sizeof *proto);
  if (!proto) return NULL;
  onnx__tensor_proto__init(proto);
  proto->name = (char *)name;
  proto->has_data_type = true;
  proto->data_type = braid_dtype_to_onnx(desc->dtype);
  proto->n_dims = (size_t)desc->rank;
  proto->dims = (int64_t *)desc->dims;
  proto->has_raw_data = true;
  proto->raw_data.len = braid_packed_bytes(desc);
  proto->raw_data.data = (uint8_t *)braid_tensor_const_data(tensor);
  if (braid_dtype_bits(desc->dtype) < 8) {
    const uint8_t *codes = proto->raw_data.data;
    proto->raw_data.data = braid_arena_alloc(exporter->arena, proto->raw_data.len + 1);
    if (!proto->raw_data.data) return NULL;
    braid_narrow_pack(desc->dtype, codes, braid_desc_count(desc), proto->raw_data.data);
  }
  return proto;
}

/* What a training made of the value: "yes", "no"; NULL: there was none. */
static const char *trained(const braid_value *value) {
  if (value->kind == BRAID_VALUE_PARAMETER || value->origin == BRAID_ORIGIN_TRAINED) return "yes";
  return value->kind == BRAID_VALUE_STATE || value->fixed || value->origin == BRAID_ORIGIN_FIXED ? "no" : NULL;
}

static braid_status note_training(onnx_exporter *exporter, const braid_value *value) {
  const char *answer = trained(value);
  if (!answer || !braid_dtype_is_float(value->desc.dtype)) return BRAID_OK;
  size_t prefix = strlen(BRAID_ONNX_TRAINS), length = strlen(value->name);
  Onnx__StringStringEntryProto *entry = braid_arena_alloc(exporter->arena, sizeof *entry);
  char *key = braid_arena_alloc(exporter->arena, prefix + length + 1);
  if (!entry || !key) return BRAID_NO_MEMORY;
  onnx__string_string_entry_proto__init(entry);
  memcpy(key, BRAID_ONNX_TRAINS, prefix);
  memcpy(key + prefix, value->name, length + 1);
  entry->key = key;
  entry->value = (char *)answer;
  exporter->model->metadata_props[exporter->model->n_metadata_props++] = entry;
  return BRAID_OK;
}

static braid_status export_initializers(onnx_exporter *exporter) {
  const braid_graph *graph = exporter->graph;
  Onnx__GraphProto *out = exporter->graphs[0];
  out->initializer = braid_arena_alloc(exporter->arena, (graph->value_count + 1) * sizeof *out->initializer);
  Onnx__ModelProto *model = exporter->model;
  model->metadata_props = braid_arena_alloc(exporter->arena, (graph->value_count + 1) * sizeof *model->metadata_props);
  if (!out->initializer || !model->metadata_props) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    bool held =
        value->kind == BRAID_VALUE_CONSTANT || value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
    if (!held || !exporter->live_values[i] || !value->tensor) continue;
    char layout[BRAID_LAYOUT_TEXT];
    if (value->desc.layout != BRAID_LAYOUT_PLAIN)
      return braid_fail(BRAID_UNSUPPORTED, "value %.120s lies in layout %s", value->name,
                        braid_layout_format(value->desc.layout, value->desc.rank, layout, sizeof layout));
    Onnx__TensorProto *proto = tensor_proto(exporter, value->name, value->tensor);
    if (!proto) return BRAID_NO_MEMORY;
    out->initializer[out->n_initializer++] = proto;
    BRAID_TRY(note_training(exporter, value));
  }
  return BRAID_OK;
}

/* --- inputs and outputs ------------------------------------------------------------------------------------------- */
/* Two dimensions of one name would be promised to be equal, so each open one has a name of its own. */
static char *open_name(onnx_exporter *exporter, const char *value, int dimension) {
  return braid_arena_format(exporter->arena, "%s.%d", value, dimension);
}

static Onnx__TensorShapeProto *shape_proto(onnx_exporter *exporter, const char *name, const braid_desc *desc) {
  Onnx__TensorShapeProto *shape = braid_arena_alloc(exporter->arena, sizeof *shape);
  if (!shape) return NULL;
  onnx__tensor_shape_proto__init(shape);
  shape->n_dim = (size_t)desc->rank;
  shape->dim = braid_arena_alloc(exporter->arena, (shape->n_dim + 1) * sizeof *shape->dim);
  for (int i = 0; shape->dim && i < desc->rank; i++) {
    Onnx__TensorShapeProto__Dimension *dim = braid_arena_alloc(exporter->arena, sizeof *dim);
    if (!dim) return NULL;
    onnx__tensor_shape_proto__dimension__init(dim);
    bool open = desc->dims[i] < 0;
    dim->value_case = open ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                           : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (open)
      dim->dim_param = open_name(exporter, name, i);
    else
      dim->dim_value = desc->dims[i];
    if (open && !dim->dim_param) return NULL;
    shape->dim[i] = dim;
  }
  return shape->dim ? shape : NULL;
}

static Onnx__ValueInfoProto *value_proto(onnx_exporter *exporter, const char *name, const braid_desc *desc) {
  Onnx__ValueInfoProto *info = braid_arena_alloc(exporter->arena, sizeof *info);
  Onnx__TypeProto *type = braid_arena_alloc(exporter->arena, sizeof *type);
  Onnx__TypeProto__Tensor *tensor = braid_arena_alloc(exporter->arena, sizeof *tensor);
  if (!info || !type || !tensor) return NULL;
  onnx__value_info_proto__init(info);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  info->name = (char *)name;
  info->type = type;
  type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = tensor;
  tensor->has_elem_type = true;
  tensor->elem_type = braid_dtype_to_onnx(desc->dtype);
  if (desc->rank < 0) return info;
  tensor->shape = shape_proto(exporter, name, desc);
  return tensor->shape ? info : NULL;
}

/* The outputs as they are when every open dimension of the inputs is `open`. */
static braid_status infer_outputs(const onnx_exporter *exporter, int64_t open, braid_desc *descs) {
  braid_graph *copy;
  BRAID_TRY(braid_graph_clone(exporter->graph, &copy));
  for (size_t i = 0; i < copy->input_count; i++) {
    braid_desc *desc = &copy->values[copy->inputs[i]].desc;
    for (int d = 0; d < desc->rank; d++)
      if (desc->dims[d] < 0) desc->dims[d] = open;
  }
  braid_status status = braid_graph_infer(copy, NULL);
  for (size_t i = 0; status == BRAID_OK && i < copy->output_count; i++) descs[i] = copy->values[copy->outputs[i]].desc;
  braid_graph_destroy(copy);
  return status;
}

/* ONNX wants types and shapes of outputs, which are not known while an input's shape is open. What differs between open
 * dimensions of 1 and of 2 is open. */
static braid_status output_descs(const onnx_exporter *exporter, braid_desc **out) {
  const braid_graph *graph = exporter->graph;
  bool unknown = false;
  size_t bytes = (graph->output_count + 1) * sizeof(braid_desc);
  braid_desc *one = braid_arena_alloc(exporter->arena, bytes), *two = braid_arena_alloc(exporter->arena, bytes);
  *out = one;
  if (!one || !two) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->output_count; i++) {
    one[i] = graph->values[graph->outputs[i]].desc;
    unknown = unknown || one[i].dtype == BRAID_NONE;
  }
  if (!unknown) return BRAID_OK;
  braid_status status = infer_outputs(exporter, 1, one);
  if (status == BRAID_OK) status = infer_outputs(exporter, 2, two);
  if (status != BRAID_OK && status != BRAID_NO_MEMORY)
    return braid_fail_prefix(status,
                             "the shapes of the outputs can't be told (resolve the graph before it is written)");
  for (size_t i = 0; status == BRAID_OK && i < graph->output_count; i++)
    for (int d = 0; d < one[i].rank; d++)
      if (one[i].dims[d] != two[i].dims[d]) one[i].dims[d] = -1;
  return status;
}

/* `descs` NULL: the values' own. */
static braid_status export_values(onnx_exporter *exporter, const braid_value_id *ids, size_t count,
                                  const braid_desc *descs, Onnx__ValueInfoProto ***out, size_t *out_count) {
  *out = braid_arena_alloc(exporter->arena, (count + 1) * sizeof **out);
  for (size_t i = 0; *out && i < count; i++) {
    const braid_value *value = &exporter->graph->values[ids[i]];
    (*out)[i] = value_proto(exporter, value->name, descs ? &descs[i] : &value->desc);
    if (!(*out)[i]) return BRAID_NO_MEMORY;
  }
  *out_count = count;
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */
static braid_status export_strings(onnx_exporter *exporter, const braid_attr *attr, Onnx__AttributeProto *proto) {
  proto->n_strings = attr->count;
  proto->strings = braid_arena_alloc(exporter->arena, (attr->count + 1) * sizeof *proto->strings);
  if (!proto->strings) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < attr->count; i++)
    proto->strings[i] = (ProtobufCBinaryData){strlen(attr->strings[i]), (uint8_t *)attr->strings[i]};
  return BRAID_OK;
}

static braid_status export_attr(onnx_exporter *exporter, const braid_attr *attr, Onnx__AttributeProto *proto) {
  onnx__attribute_proto__init(proto);
  proto->name = (char *)attr->name;
  proto->has_type = true;
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    proto->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    proto->has_i = true;
    proto->i = attr->i;
    return BRAID_OK;
  case BRAID_ATTR_FLOAT:
    proto->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    proto->has_f = true;
    proto->f = (float)attr->f;
    return BRAID_OK;
  case BRAID_ATTR_STRING:
    proto->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    proto->has_s = true;
    proto->s = (ProtobufCBinaryData){strlen(attr->s), (uint8_t *)attr->s};
    return BRAID_OK;
  case BRAID_ATTR_INTS:
    proto->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    proto->n_ints = attr->count;
    proto->ints = (int64_t *)attr->ints;
    return BRAID_OK;
  case BRAID_ATTR_FLOATS:
    proto->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
    proto->n_floats = attr->count;
    proto->floats = (float *)attr->floats;
    return BRAID_OK;
  case BRAID_ATTR_STRINGS:
    proto->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    return export_strings(exporter, attr, proto);
  case BRAID_ATTR_TENSOR:
    proto->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    proto->t = tensor_proto(exporter, NULL, attr->tensor);
    return proto->t ? BRAID_OK : BRAID_NO_MEMORY;
  }
  return braid_fail(BRAID_INTERNAL, "attribute %s is of no known kind", attr->name);
}

/* The running statistic that a normalization goes on from, also through one that was applied before it. */
static braid_value_id statistic_of(const braid_graph *graph, const braid_node *node, size_t index) {
  braid_value_id id = node->inputs[index];
  while (graph->values[id].kind == BRAID_VALUE_RESULT && graph->values[id].producer >= 0) {
    const braid_node *before = &graph->nodes[graph->values[id].producer];
    if (strcmp(before->op->name, "BatchNormalization") != 0 || before->outputs[0] == id) break;
    id = before->inputs[index];
  }
  return id;
}

/* A graph in training is written as what was trained: normalization by the running statistics, no dropping out. */
static bool trains(const braid_graph *graph, const braid_node *node) {
  if (strcmp(node->op->name, "BatchNormalization") != 0 || node->input_count < 5) return false;
  return braid_attr_int(&node->attrs, "training_mode", 0) &&
         graph->values[statistic_of(graph, node, 3)].kind == BRAID_VALUE_STATE;
}

static const char *written_name(const onnx_exporter *exporter, braid_value_id id) {
  return exporter->graph->values[braid_onnx_outside_value(exporter->graph, id)].name;
}

static char **names(onnx_exporter *exporter, const braid_value_id *ids, size_t count) {
  char **list = braid_arena_alloc(exporter->arena, (count + 1) * sizeof *list);
  for (size_t i = 0; list && i < count; i++) list[i] = ids[i] < 0 ? (char *)"" : (char *)written_name(exporter, ids[i]);
  return list;
}

/* Readers take two nodes of one name for an error; here names of nodes may repeat. */
static braid_status name_node(onnx_exporter *exporter, const char *name, Onnx__NodeProto *proto) {
  char fresh[128];
  int64_t asked = 0, taken;
  proto->name = (char *)name;
  if (braid_name_map_get(exporter->node_names, name, &asked)) {
    do snprintf(fresh, sizeof fresh, "%.100s~%lld", name, (long long)asked++);
    while (braid_name_map_get(exporter->node_names, fresh, &taken));
    proto->name = braid_arena_text(exporter->arena, fresh, strlen(fresh));
    if (!proto->name) return BRAID_NO_MEMORY;
    BRAID_TRY(braid_name_map_set(exporter->node_names, fresh, 1));
  }
  return braid_name_map_set(exporter->node_names, name, asked ? asked : 1);
}

static braid_status add_opset(onnx_exporter *exporter, char *domain, int version) {
  Onnx__OperatorSetIdProto *opset = braid_arena_alloc(exporter->arena, sizeof *opset);
  if (!opset) return BRAID_NO_MEMORY;
  onnx__operator_set_id_proto__init(opset);
  opset->domain = domain;
  opset->has_version = true;
  opset->version = version;
  exporter->model->opset_import[exporter->model->n_opset_import++] = opset;
  return BRAID_OK;
}

static braid_status use_domain(onnx_exporter *exporter, char *domain) {
  int64_t known;
  if (braid_name_map_get(exporter->domains, domain, &known)) return BRAID_OK;
  BRAID_TRY(add_opset(exporter, domain, 1));
  return braid_name_map_set(exporter->domains, domain, 1);
}

/* An op of a domain of its own is called "domain.Op"; what the program has registered without one is written as it is
 * named. */
static braid_status name_op(onnx_exporter *exporter, const braid_node *node, Onnx__NodeProto *proto) {
  const char *op = node->op->name, *dot = strrchr(op, '.');
  int opset = braid_onnx_opset_of(exporter->graph, node);
  proto->op_type = (char *)op;
  if (opset > exporter->opset) exporter->opset = opset;
  if (opset || (!dot && braid_custom_op_of(node->op))) return BRAID_OK;
  if (!dot) return braid_fail(BRAID_UNSUPPORTED, "node %.120s: ONNX has no op %.60s", node->name, op);
  proto->op_type = (char *)dot + 1;
  proto->domain = braid_arena_text(exporter->arena, op, (size_t)(dot - op));
  return proto->domain ? use_domain(exporter, proto->domain) : BRAID_NO_MEMORY;
}

static braid_status export_attrs(onnx_exporter *exporter, const braid_node *node, Onnx__NodeProto *proto) {
  bool normalization = trains(exporter->graph, node);
  proto->attribute = braid_arena_alloc(exporter->arena, (node->attrs.count + 1) * sizeof *proto->attribute);
  if (!proto->attribute) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < node->attrs.count; i++) {
    if (normalization && strcmp(node->attrs.items[i].name, "training_mode") == 0) continue;
    Onnx__AttributeProto *attr = braid_arena_alloc(exporter->arena, sizeof *attr);
    if (!attr) return BRAID_NO_MEMORY;
    BRAID_TRY(export_attr(exporter, &node->attrs.items[i], attr));
    proto->attribute[proto->n_attribute++] = attr;
  }
  return BRAID_OK;
}

static braid_status export_node(onnx_exporter *exporter, const braid_node *node, Onnx__NodeProto *proto) {
  bool normalization = trains(exporter->graph, node), dropout = strcmp(node->op->name, "Dropout") == 0;
  BRAID_TRY(name_op(exporter, node, proto));
  BRAID_TRY(name_node(exporter, node->name, proto));
  proto->n_input = dropout && node->input_count > 2 ? 2 : node->input_count;
  proto->n_output = normalization ? 1 : node->output_count;
  while (proto->n_output > 1 && node->outputs[proto->n_output - 1] < 0) proto->n_output--;
  proto->input = names(exporter, node->inputs, proto->n_input);
  proto->output = names(exporter, node->outputs, proto->n_output);
  if (!proto->input || !proto->output) return BRAID_NO_MEMORY;
  for (size_t i = 3; normalization && i < 5; i++)
    proto->input[i] = (char *)written_name(exporter, statistic_of(exporter->graph, node, i));
  return export_attrs(exporter, node, proto);
}

/* An If in the file has only the outputs that are used, and its branches are attributes. */
static braid_status export_if(onnx_exporter *exporter, size_t id, Onnx__NodeProto *proto) {
  static const char *const kBranches[] = {"then_branch", "else_branch"};
  const braid_node *node = &exporter->graph->nodes[id];
  BRAID_TRY(name_op(exporter, node, proto));
  BRAID_TRY(name_node(exporter, node->name, proto));
  proto->input = names(exporter, node->inputs, 1);
  proto->output = names(exporter, node->outputs, node->output_count);
  proto->attribute = braid_arena_alloc(exporter->arena, 2 * sizeof *proto->attribute);
  if (!proto->input || !proto->output || !proto->attribute) return BRAID_NO_MEMORY;
  proto->n_input = 1;
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) proto->output[proto->n_output++] = proto->output[i];
  for (size_t b = 0; b < 2; b++) {
    Onnx__AttributeProto *attr = braid_arena_alloc(exporter->arena, sizeof *attr);
    if (!attr) return BRAID_NO_MEMORY;
    onnx__attribute_proto__init(attr);
    attr->name = (char *)kBranches[b];
    attr->has_type = true;
    attr->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    attr->g = exporter->graphs[exporter->branches.first_of[id] + b];
    attr->g->name = attr->name;
    proto->attribute[proto->n_attribute++] = attr;
  }
  return BRAID_OK;
}

static Onnx__NodeProto *add_node(onnx_exporter *exporter, size_t region) {
  Onnx__NodeProto *proto = braid_arena_alloc(exporter->arena, sizeof *proto);
  if (!proto) return NULL;
  onnx__node_proto__init(proto);
  Onnx__GraphProto *graph = exporter->graphs[region];
  return graph->node[graph->n_node++] = proto;
}

/* What a branch gives must be the result of a node in it, each once: an Identity makes it so. */
static braid_status export_branch_output(onnx_exporter *exporter, size_t region, braid_value_id given) {
  char name[64];
  do snprintf(name, sizeof name, "branch_output~%zu", exporter->fresh++);
  while (braid_graph_find_value(exporter->graph, name) >= 0);
  char *text = braid_arena_text(exporter->arena, name, strlen(name));
  Onnx__NodeProto *proto = add_node(exporter, region);
  if (!text || !proto) return BRAID_NO_MEMORY;
  BRAID_TRY(name_node(exporter, text, proto));
  proto->op_type = (char *)"Identity";
  proto->n_input = proto->n_output = 1;
  proto->input = names(exporter, &given, 1);
  proto->output = braid_arena_alloc(exporter->arena, sizeof *proto->output);
  Onnx__ValueInfoProto *info = braid_arena_alloc(exporter->arena, sizeof *info);
  if (!proto->input || !proto->output || !info) return BRAID_NO_MEMORY;
  onnx__value_info_proto__init(info);
  info->name = proto->output[0] = text;
  Onnx__GraphProto *graph = exporter->graphs[region];
  graph->output[graph->n_output++] = info;
  return BRAID_OK;
}

static braid_status export_branch_outputs(onnx_exporter *exporter, size_t id) {
  const braid_node *node = &exporter->graph->nodes[id];
  for (size_t b = 0; b < 2; b++) {
    size_t region = exporter->branches.first_of[id] + b;
    exporter->graphs[region]->output =
        braid_arena_alloc(exporter->arena, (node->output_count + 1) * sizeof(Onnx__ValueInfoProto *));
    if (!exporter->graphs[region]->output) return BRAID_NO_MEMORY;
    for (size_t i = 0; i < node->output_count; i++)
      if (node->outputs[i] >= 0)
        BRAID_TRY(export_branch_output(exporter, region, node->inputs[1 + i + b * node->output_count]));
  }
  return BRAID_OK;
}

/* One graph per region, with room for its nodes and for what its outputs take. */
static braid_status make_graphs(onnx_exporter *exporter) {
  const braid_graph *graph = exporter->graph;
  const braid_onnx_branches *branches = &exporter->branches;
  size_t *rooms = braid_arena_alloc(exporter->arena, branches->count * sizeof *rooms);
  exporter->graphs = braid_arena_alloc(exporter->arena, branches->count * sizeof(Onnx__GraphProto *));
  if (!rooms || !exporter->graphs) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (!exporter->live_nodes[i]) continue;
    rooms[branches->of_node[i]]++;
    for (size_t b = 0; b < 2 && braid_onnx_is_if(&graph->nodes[i]); b++)
      rooms[branches->first_of[i] + b] += graph->nodes[i].output_count;
  }
  for (size_t r = 0; r < branches->count; r++) {
    Onnx__GraphProto *proto = exporter->graphs[r] = braid_arena_alloc(exporter->arena, sizeof *proto);
    if (!proto) return BRAID_NO_MEMORY;
    onnx__graph_proto__init(proto);
    proto->node = braid_arena_alloc(exporter->arena, (rooms[r] + 1) * sizeof *proto->node);
    if (!proto->node) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

static braid_status export_nodes(onnx_exporter *exporter) {
  const braid_graph *graph = exporter->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (!exporter->live_nodes[i] || braid_onnx_is_capture(node)) continue;
    Onnx__NodeProto *proto = add_node(exporter, exporter->branches.of_node[i]);
    if (!proto) return BRAID_NO_MEMORY;
    BRAID_TRY(braid_onnx_is_if(node) ? export_if(exporter, i, proto) : export_node(exporter, node, proto));
  }
  for (size_t i = 0; i < graph->node_count; i++)
    if (exporter->live_nodes[i] && braid_onnx_is_if(&graph->nodes[i])) BRAID_TRY(export_branch_outputs(exporter, i));
  return BRAID_OK;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */
/* protobuf-c packs into this piece by piece, so that weights go from their tensors to the file. */
typedef struct file_buffer {
  ProtobufCBuffer base;
  braid_writer *writer;
  braid_status status;
} file_buffer;

static void append(ProtobufCBuffer *buffer, size_t count, const uint8_t *bytes) {
  file_buffer *file = (file_buffer *)buffer;
  if (file->status == BRAID_OK) file->status = braid_writer_put(file->writer, bytes, count);
}

/* protobuf counts in 31 bits. */
static braid_status check_size(const Onnx__ModelProto *model) {
  size_t bytes = onnx__model_proto__get_packed_size(model);
  if (bytes <= INT32_MAX) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "the model takes %.1f GiB, more than the 2 GiB of an ONNX file",
                    (double)bytes / (1 << 30));
}

static braid_status write_model(const Onnx__ModelProto *model, const braid_allocator *allocator, const char *path) {
  file_buffer file = {.base = {append}};
  BRAID_TRY(braid_writer_open(allocator, path, &file.writer));
  onnx__model_proto__pack_to_buffer(model, &file.base);
  if (file.status == BRAID_OK) return braid_writer_commit(file.writer);
  braid_writer_abort(file.writer);
  return file.status;
}

static braid_status export_graph(onnx_exporter *exporter) {
  const braid_graph *graph = exporter->graph;
  exporter->live_values = braid_arena_alloc(exporter->arena, graph->value_count + 1);
  exporter->live_nodes = braid_arena_alloc(exporter->arena, graph->node_count + 1);
  Onnx__ModelProto *model = exporter->model;
  model->opset_import = braid_arena_alloc(exporter->arena, (graph->node_count + 1) * sizeof *model->opset_import);
  if (!exporter->live_values || !exporter->live_nodes || !model->opset_import) return BRAID_NO_MEMORY;
  mark_live(exporter);
  BRAID_TRY(braid_onnx_find_branches(graph, exporter->live_nodes, exporter->arena, &exporter->branches));
  BRAID_TRY(make_graphs(exporter));
  Onnx__GraphProto *out = model->graph = exporter->graphs[0];
  out->name = (char *)(*graph->name ? graph->name : "graph");
  braid_desc *outputs;
  BRAID_TRY(export_initializers(exporter));
  BRAID_TRY(export_nodes(exporter));
  BRAID_TRY(output_descs(exporter, &outputs));
  BRAID_TRY(export_values(exporter, graph->inputs, graph->input_count, NULL, &out->input, &out->n_input));
  BRAID_TRY(export_values(exporter, graph->outputs, graph->output_count, outputs, &out->output, &out->n_output));
  BRAID_TRY(add_opset(exporter, (char *)"", exporter->opset));
  model->has_ir_version = true;
  model->ir_version = braid_onnx_ir_version(exporter->opset);
  return check_size(model);
}

/* `path` NULL: only finds out whether it can be written. */
static braid_status save_onnx(const braid_graph *graph, const char *path) {
  BRAID_TRY(braid_graph_check_shapes(graph));
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  model.producer_name = (char *)"braid";
  onnx_exporter exporter = {.graph = graph, .opset = BRAID_ONNX_OLDEST_OPSET, .model = &model};
  BRAID_TRY(braid_arena_create(graph->allocator, &exporter.arena));
  braid_status status = braid_name_map_create(graph->allocator, &exporter.node_names);
  if (status == BRAID_OK) status = braid_name_map_create(graph->allocator, &exporter.domains);
  if (status == BRAID_OK) status = export_graph(&exporter);
  if (status == BRAID_OK && path) status = write_model(&model, graph->allocator, path);
  braid_name_map_destroy(exporter.domains);
  braid_name_map_destroy(exporter.node_names);
  braid_arena_destroy(exporter.arena);
  return status;
}

braid_status braid_model_save_onnx(const braid_graph *graph, const char *path) {
  return save_onnx(graph, path);
}

braid_status braid_onnx_check_save(const braid_graph *graph) {
  return save_onnx(graph, NULL);
}
