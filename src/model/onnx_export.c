/* Graph to ONNX. The file says opset 17, or the first opset that has every op in the form the graph uses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/try.h"
#include "braid/model.h"
#include "graph/graph.h"
#include "graph/onnx_dtype.h"
#include "onnx.pb-c.h"

enum { OLDEST_OPSET = 17 };

/* Ops that ONNX has, and the first opset from 17 on whose meaning is ours. Sorted by name. */
static const struct op_version {
  const char *op;
  int opset;
} kVersions[] = {
    {"Abs", 17},
    {"Acos", 17},
    {"Acosh", 17},
    {"Add", 17},
    {"AffineGrid", 20},
    {"And", 17},
    {"ArgMax", 17},
    {"ArgMin", 17},
    {"Asin", 17},
    {"Asinh", 17},
    {"Atan", 17},
    {"Atanh", 17},
    {"Attention", 23},
    {"AveragePool", 17},
    {"BatchNormalization", 17},
    {"Bernoulli", 17},
    {"BitCast", 26},
    {"BitShift", 17},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"BlackmanWindow", 17},
    {"Cast", 17},
    {"CastLike", 17},
    {"CausalConvWithState", 27},
    {"Ceil", 17},
    {"Celu", 17},
    {"CenterCropPad", 18},
    {"Clip", 17},
    {"Col2Im", 18},
    {"Compress", 17},
    {"Concat", 17},
    {"ConstantOfShape", 17},
    {"Conv", 17},
    {"ConvInteger", 17},
    {"ConvTranspose", 17},
    {"Cos", 17},
    {"Cosh", 17},
    {"CumProd", 26},
    {"CumSum", 17},
    {"DFT", 20},
    {"DeformConv", 19},
    {"DepthToSpace", 17},
    {"DequantizeLinear", 17},
    {"Det", 17},
    {"Div", 17},
    {"Dropout", 17},
    {"DynamicQuantizeLinear", 17},
    {"Einsum", 17},
    {"Elu", 17},
    {"Equal", 17},
    {"Erf", 17},
    {"Exp", 17},
    {"Expand", 17},
    {"EyeLike", 17},
    {"Flatten", 17},
    {"Floor", 17},
    {"GRU", 17},
    {"Gather", 17},
    {"GatherElements", 17},
    {"GatherND", 17},
    {"Gelu", 20},
    {"Gemm", 17},
    {"GlobalAveragePool", 17},
    {"GlobalLpPool", 17},
    {"GlobalMaxPool", 17},
    {"Greater", 17},
    {"GreaterOrEqual", 17},
    {"GridSample", 20},
    {"GroupNormalization", 21},
    {"HammingWindow", 17},
    {"HannWindow", 17},
    {"HardSigmoid", 17},
    {"HardSwish", 17},
    {"Hardmax", 17},
    {"Identity", 17},
    {"InstanceNormalization", 17},
    {"IsInf", 17},
    {"IsNaN", 17},
    {"LRN", 17},
    {"LSTM", 17},
    {"LayerNormalization", 17},
    {"LeakyRelu", 17},
    {"Less", 17},
    {"LessOrEqual", 17},
    {"LinearAttention", 27},
    {"Log", 17},
    {"LogSoftmax", 17},
    {"LpNormalization", 17},
    {"LpPool", 17},
    {"MatMul", 17},
    {"MatMulInteger", 17},
    {"Max", 17},
    {"MaxPool", 17},
    {"MaxRoiPool", 17},
    {"MaxUnpool", 17},
    {"Mean", 17},
    {"MeanVarianceNormalization", 17},
    {"MelWeightMatrix", 17},
    {"Min", 17},
    {"Mish", 18},
    {"Mod", 17},
    {"Mul", 17},
    {"Multinomial", 17},
    {"Neg", 17},
    {"NegativeLogLikelihoodLoss", 17},
    {"NonMaxSuppression", 17},
    {"NonZero", 17},
    {"Not", 17},
    {"OneHot", 17},
    {"Or", 17},
    {"PRelu", 17},
    {"Pad", 17},
    {"Pow", 17},
    {"QLinearConv", 17},
    {"QLinearMatMul", 17},
    {"QuantizeLinear", 17},
    {"RMSNormalization", 23},
    {"RNN", 17},
    {"RandomNormal", 17},
    {"RandomNormalLike", 17},
    {"RandomUniform", 17},
    {"RandomUniformLike", 17},
    {"Range", 17},
    {"Reciprocal", 17},
    {"ReduceL1", 17},
    {"ReduceL2", 17},
    {"ReduceLogSum", 17},
    {"ReduceLogSumExp", 17},
    {"ReduceMax", 17},
    {"ReduceMean", 17},
    {"ReduceMin", 17},
    {"ReduceProd", 17},
    {"ReduceSum", 17},
    {"ReduceSumSquare", 17},
    {"Relu", 17},
    {"Reshape", 17},
    {"Resize", 17},
    {"ReverseSequence", 17},
    {"RoiAlign", 17},
    {"RotaryEmbedding", 23},
    {"Round", 17},
    {"STFT", 17},
    {"ScatterElements", 17},
    {"ScatterND", 17},
    {"Selu", 17},
    {"Shape", 17},
    {"Shrink", 17},
    {"Sigmoid", 17},
    {"Sign", 17},
    {"Sin", 17},
    {"Sinh", 17},
    {"Size", 17},
    {"Slice", 17},
    {"Softmax", 17},
    {"SoftmaxCrossEntropyLoss", 17},
    {"Softplus", 17},
    {"Softsign", 17},
    {"SpaceToDepth", 17},
    {"Split", 17},
    {"Sqrt", 17},
    {"Squeeze", 17},
    {"Sub", 17},
    {"Sum", 17},
    {"SwiGLU", 28},
    {"Swish", 24},
    {"Tan", 17},
    {"Tanh", 17},
    {"TensorScatter", 24},
    {"ThresholdedRelu", 17},
    {"Tile", 17},
    {"TopK", 17},
    {"Transpose", 17},
    {"Trilu", 17},
    {"Unique", 17},
    {"Unsqueeze", 17},
    {"Where", 17},
    {"Xor", 17},
};

/* Forms of an op that came later: an attribute, or more inputs than `inputs`. */
static const struct form_version {
  const char *op, *attr;
  size_t inputs;
  int opset;
} kForms[] = {
    {"ReduceL1", NULL, 1, 18},
    {"ReduceL2", NULL, 1, 18},
    {"ReduceLogSum", NULL, 1, 18},
    {"ReduceLogSumExp", NULL, 1, 18},
    {"ReduceMax", NULL, 1, 18},
    {"ReduceMean", NULL, 1, 18},
    {"ReduceMin", NULL, 1, 18},
    {"ReduceProd", NULL, 1, 18},
    {"ReduceSumSquare", NULL, 1, 18},
    {"Split", "num_outputs", 0, 18},
    {"Resize", "axes", 0, 18},
    {"Resize", "antialias", 0, 18},
    {"Resize", "keep_aspect_ratio_policy", 0, 18},
    {"Pad", NULL, 3, 18},
    {"LpPool", "ceil_mode", 0, 18},
    {"LpPool", "dilations", 0, 18},
    {"AveragePool", "dilations", 0, 19},
    {"Cast", "saturate", 0, 19},
    {"CastLike", "saturate", 0, 19},
    {"QuantizeLinear", "saturate", 0, 19},
    {"QuantizeLinear", "block_size", 0, 21},
    {"QuantizeLinear", "output_dtype", 0, 21},
    {"DequantizeLinear", "block_size", 0, 21},
    {"QuantizeLinear", "precision", 0, 23},
    {"DequantizeLinear", "output_dtype", 0, 23},
    {"Cast", "round_mode", 0, 24},
};

typedef struct onnx_exporter {
  const braid_graph *graph;
  braid_arena *arena;
  bool *live_values; /* needed for the outputs */
  bool *live_nodes;
  braid_name_map *node_names; /* -> how many nodes asked for the name */
  int opset;
  Onnx__GraphProto *out;
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

static int compare_version(const void *key, const void *row) {
  return strcmp(key, ((const struct op_version *)row)->op);
}

static braid_status need_opset(onnx_exporter *exporter, const braid_node *node) {
  const char *op = node->op->name;
  const struct op_version *version =
      bsearch(op, kVersions, sizeof kVersions / sizeof *kVersions, sizeof *kVersions, compare_version);
  if (!version) return braid_fail(BRAID_UNSUPPORTED, "node %.120s: ONNX has no op %.60s", node->name, op);
  int opset = version->opset;
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++) {
    const struct form_version *form = &kForms[i];
    if (strcmp(form->op, op) != 0 || form->opset <= opset) continue;
    if (form->attr ? braid_attr_has(&node->attrs, form->attr) : node->input_count > form->inputs) opset = form->opset;
  }
  if (opset > exporter->opset) exporter->opset = opset;
  return BRAID_OK;
}

/* Which IR version may name an opset: ONNX's VERSIONING table. */
static int ir_version(int opset) {
  static const int kOpsets[] = {18, 20, 22, 23, 24, 25}; /* last opset of IR 8, 9, 10, 11, 12, 13 */
  int ir = 8;
  for (size_t i = 0; i < sizeof kOpsets / sizeof *kOpsets; i++)
    if (opset > kOpsets[i]) ir++;
  return ir;
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
  proto->raw_data.len = braid_desc_bytes(desc);
  proto->raw_data.data = (uint8_t *)braid_tensor_const_data(tensor);
  return proto;
}

static braid_status export_initializers(onnx_exporter *exporter) {
  const braid_graph *graph = exporter->graph;
  Onnx__GraphProto *out = exporter->out;
  out->initializer = braid_arena_alloc(exporter->arena, (graph->value_count + 1) * sizeof *out->initializer);
  if (!out->initializer) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    bool held =
        value->kind == BRAID_VALUE_CONSTANT || value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
    if (!held || !exporter->live_values[i] || !value->tensor) continue;
    if (value->desc.layout != BRAID_LAYOUT_PLAIN)
      return braid_fail(BRAID_UNSUPPORTED, "value %.120s lies in layout %s", value->name,
                        braid_layout_name(value->desc.layout));
    Onnx__TensorProto *proto = tensor_proto(exporter, value->name, value->tensor);
    if (!proto) return BRAID_NO_MEMORY;
    out->initializer[out->n_initializer++] = proto;
  }
  return BRAID_OK;
}

/* --- inputs and outputs ------------------------------------------------------------------------------------------- */
static const char *const kOpenNames[BRAID_MAX_RANK] = {"N", "d1", "d2", "d3", "d4", "d5", "d6", "d7"};

static Onnx__TensorShapeProto *shape_proto(onnx_exporter *exporter, const braid_desc *desc) {
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
      dim->dim_param = (char *)kOpenNames[i];
    else
      dim->dim_value = desc->dims[i];
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
  tensor->shape = shape_proto(exporter, desc);
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

/* A graph in training is written as what was trained: normalization by the running statistics, no dropping out. */
static bool trains(const braid_graph *graph, const braid_node *node) {
  if (strcmp(node->op->name, "BatchNormalization") != 0 || node->input_count < 5) return false;
  return braid_attr_int(&node->attrs, "training_mode", 0) && graph->values[node->inputs[3]].kind == BRAID_VALUE_STATE;
}

static char **names(onnx_exporter *exporter, const braid_value_id *ids, size_t count) {
  char **list = braid_arena_alloc(exporter->arena, (count + 1) * sizeof *list);
  for (size_t i = 0; list && i < count; i++)
    list[i] = ids[i] < 0 ? (char *)"" : (char *)exporter->graph->values[ids[i]].name;
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

static braid_status export_node(onnx_exporter *exporter, const braid_node *node, Onnx__NodeProto *proto) {
  bool normalization = trains(exporter->graph, node), dropout = strcmp(node->op->name, "Dropout") == 0;
  onnx__node_proto__init(proto);
  BRAID_TRY(name_node(exporter, node->name, proto));
  proto->op_type = (char *)node->op->name;
  proto->n_input = dropout && node->input_count > 2 ? 2 : node->input_count;
  proto->n_output = normalization ? 1 : node->output_count;
  while (proto->n_output > 1 && node->outputs[proto->n_output - 1] < 0) proto->n_output--;
  proto->input = names(exporter, node->inputs, proto->n_input);
  proto->output = names(exporter, node->outputs, proto->n_output);
  proto->attribute = braid_arena_alloc(exporter->arena, (node->attrs.count + 1) * sizeof *proto->attribute);
  if (!proto->input || !proto->output || !proto->attribute) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < node->attrs.count; i++) {
    if (normalization && strcmp(node->attrs.items[i].name, "training_mode") == 0) continue;
    Onnx__AttributeProto *attr = braid_arena_alloc(exporter->arena, sizeof *attr);
    if (!attr) return BRAID_NO_MEMORY;
    BRAID_TRY(export_attr(exporter, &node->attrs.items[i], attr));
    proto->attribute[proto->n_attribute++] = attr;
  }
  return BRAID_OK;
}

static braid_status export_nodes(onnx_exporter *exporter) {
  const braid_graph *graph = exporter->graph;
  Onnx__GraphProto *out = exporter->out;
  out->node = braid_arena_alloc(exporter->arena, (graph->node_count + 1) * sizeof *out->node);
  if (!out->node) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (!exporter->live_nodes[i]) continue;
    Onnx__NodeProto *proto = braid_arena_alloc(exporter->arena, sizeof *proto);
    if (!proto) return BRAID_NO_MEMORY;
    BRAID_TRY(need_opset(exporter, &graph->nodes[i]));
    BRAID_TRY(export_node(exporter, &graph->nodes[i], proto));
    out->node[out->n_node++] = proto;
  }
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

static braid_status write_model(const Onnx__ModelProto *model, const braid_allocator *allocator, const char *path) {
  file_buffer file = {.base = {append}};
  if (onnx__model_proto__get_packed_size(model) > INT32_MAX)
    return braid_fail(BRAID_UNSUPPORTED, "%s: the model takes more than the 2 GiB of an ONNX file", path);
  BRAID_TRY(braid_writer_open(allocator, path, &file.writer));
  onnx__model_proto__pack_to_buffer(model, &file.base);
  if (file.status == BRAID_OK) return braid_writer_commit(file.writer);
  braid_writer_abort(file.writer);
  return file.status;
}

static braid_status export_graph(onnx_exporter *exporter, Onnx__ModelProto *model, Onnx__OperatorSetIdProto *opset) {
  const braid_graph *graph = exporter->graph;
  Onnx__GraphProto *out = exporter->out;
  exporter->live_values = braid_arena_alloc(exporter->arena, graph->value_count + 1);
  exporter->live_nodes = braid_arena_alloc(exporter->arena, graph->node_count + 1);
  if (!exporter->live_values || !exporter->live_nodes) return BRAID_NO_MEMORY;
  mark_live(exporter);
  out->name = (char *)(*graph->name ? graph->name : "graph");
  braid_desc *outputs;
  BRAID_TRY(export_initializers(exporter));
  BRAID_TRY(export_nodes(exporter));
  BRAID_TRY(output_descs(exporter, &outputs));
  BRAID_TRY(export_values(exporter, graph->inputs, graph->input_count, NULL, &out->input, &out->n_input));
  BRAID_TRY(export_values(exporter, graph->outputs, graph->output_count, outputs, &out->output, &out->n_output));
  opset->has_version = model->has_ir_version = true;
  opset->version = exporter->opset;
  model->ir_version = ir_version(exporter->opset);
  return BRAID_OK;
}

braid_status braid_model_save_onnx(const braid_graph *graph, const char *path) {
  Onnx__GraphProto proto = ONNX__GRAPH_PROTO__INIT;
  Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  opset.domain = (char *)"";
  model.graph = &proto;
  model.n_opset_import = 1;
  model.opset_import = opsets;
  model.producer_name = (char *)"braid";
  onnx_exporter exporter = {.graph = graph, .opset = OLDEST_OPSET, .out = &proto};
  BRAID_TRY(braid_arena_create(graph->allocator, &exporter.arena));
  braid_status status = braid_name_map_create(graph->allocator, &exporter.node_names);
  if (status == BRAID_OK) status = export_graph(&exporter, &model, &opset);
  if (status == BRAID_OK) status = write_model(&model, graph->allocator, path);
  braid_name_map_destroy(exporter.node_names);
  braid_arena_destroy(exporter.arena);
  return status;
}
