#include "piece.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/allocator.h"
#include "braid/model.h"
#include "proto.h"
#include "try.h"

/* Fields of onnx.proto. */
enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum {
  ATTR_NAME = 1,
  ATTR_F = 2,
  ATTR_I = 3,
  ATTR_S = 4,
  ATTR_T = 5,
  ATTR_FLOATS = 7,
  ATTR_INTS = 8,
  ATTR_STRINGS = 9
};
enum { ATTR_TYPE = 20, TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_TENSOR = 4 };
enum { TYPE_FLOATS = 6, TYPE_INTS = 7, TYPE_STRINGS = 8 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_OF_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1 };
enum { DIM_VALUE = 1, DIM_PARAM = 2 };

enum { IR_VERSION = 10, INLINE_BYTES = 1024, ATTR_BYTES = 2048 };

/* --- attributes --- */

/* The contents of an attribute, in `local` where they fit, else in memory of the arena. */
static braid_status attr_read(braid_ort_view *view, const OrtOpAttr *attr, int type, void *local, const void **data,
                              size_t *bytes) {
  OrtStatus *status = braid_ort.ReadOpAttr(attr, type, local, ATTR_BYTES, bytes);
  *data = local;
  if (!status) return BRAID_OK;
  if (*bytes <= ATTR_BYTES) return braid_ort_check(status);
  braid_ort.ReleaseStatus(status);
  void *memory = braid_ort_arena_take(&view->arena, *bytes, 1);
  if (!memory) return braid_fail(BRAID_NO_MEMORY, "there is no memory for an attribute");
  *data = memory;
  return braid_ort_check(braid_ort.ReadOpAttr(attr, type, memory, *bytes, bytes));
}

static void attr_write_numbers(braid_ort_proto *proto, int type, const void *data, size_t bytes) {
  int64_t i = 0;
  float f = 0;
  if (type == BRAID_ORT_ATTR_INT || type == BRAID_ORT_ATTR_INTS) {
    for (size_t at = 0; at + sizeof i <= bytes; at += sizeof i) {
      memcpy(&i, (const char *)data + at, sizeof i);
      braid_ort_proto_int(proto, type == BRAID_ORT_ATTR_INT ? ATTR_I : ATTR_INTS, i);
    }
    braid_ort_proto_int(proto, ATTR_TYPE, type == BRAID_ORT_ATTR_INT ? TYPE_INT : TYPE_INTS);
    return;
  }
  for (size_t at = 0; at + sizeof f <= bytes; at += sizeof f) {
    memcpy(&f, (const char *)data + at, sizeof f);
    braid_ort_proto_float(proto, type == BRAID_ORT_ATTR_FLOAT ? ATTR_F : ATTR_FLOATS, f);
  }
  braid_ort_proto_int(proto, ATTR_TYPE, type == BRAID_ORT_ATTR_FLOAT ? TYPE_FLOAT : TYPE_FLOATS);
}

static void attr_write_strings(braid_ort_proto *proto, int type, const char *data, size_t bytes) {
  if (type == BRAID_ORT_ATTR_STRING) {
    braid_ort_proto_bytes(proto, ATTR_S, data, bytes);
    braid_ort_proto_int(proto, ATTR_TYPE, TYPE_STRING);
    return;
  }
  for (size_t at = 0; at < bytes;) { /* each ends with a NUL */
    size_t length = strnlen(data + at, bytes - at);
    braid_ort_proto_bytes(proto, ATTR_STRINGS, data + at, length);
    at += length + 1;
  }
  braid_ort_proto_int(proto, ATTR_TYPE, TYPE_STRINGS);
}

static braid_status attr_write_value(braid_ort_proto *proto, const OrtValue *value) {
  OrtTensorTypeAndShapeInfo *shape = NULL;
  int64_t dims[BRAID_MAX_RANK];
  size_t rank = 0, bytes = 0;
  int type = 0;
  const void *data = NULL;
  TRY_ORT(braid_ort.GetTensorTypeAndShape(value, &shape));
  braid_status status = braid_ort_check(braid_ort.GetTensorElementType(shape, &type));
  if (status == BRAID_OK) status = braid_ort_check(braid_ort.GetDimensionsCount(shape, &rank));
  if (status == BRAID_OK && rank > BRAID_MAX_RANK)
    status = braid_fail(BRAID_UNSUPPORTED, "a tensor of %zu dimensions in an attribute", rank);
  if (status == BRAID_OK && rank) status = braid_ort_check(braid_ort.GetDimensions(shape, dims, rank));
  braid_ort.ReleaseTensorTypeAndShapeInfo(shape);
  TRY(status);
  if (!braid_ort_type_carried(type) && !braid_ort_type_packed(type))
    return braid_fail(BRAID_UNSUPPORTED, "a tensor of %s in an attribute", braid_ort_type_name(type));
  TRY_ORT(braid_ort.GetTensorSizeInBytes(value, &bytes));
  TRY_ORT(braid_ort.GetTensorData(value, &data));
  size_t begun = braid_ort_proto_begin(proto, ATTR_T);
  for (size_t i = 0; i < rank; i++) braid_ort_proto_int(proto, TENSOR_DIMS, dims[i]);
  braid_ort_proto_int(proto, TENSOR_TYPE, braid_ort_onnx_type(type));
  braid_ort_proto_bytes(proto, TENSOR_RAW, data, bytes);
  braid_ort_proto_end(proto, begun);
  braid_ort_proto_int(proto, ATTR_TYPE, TYPE_TENSOR);
  return BRAID_OK;
}

/* The framework completes an RNN by default activations for two directions, whatever the node has. */
static size_t attr_trim(const braid_ort_node *node, bool both, const char *name, const char *data, size_t bytes) {
  if (strcmp(node->op, "RNN") != 0 || both || strcmp(name, "activations") != 0) return bytes;
  size_t first = strnlen(data, bytes);
  return first < bytes ? first + 1 : bytes;
}

static braid_status attr_write(braid_ort_proto *proto, braid_ort_view *view, const braid_ort_node *node, bool both,
                               const OrtOpAttr *attr) {
  char local[ATTR_BYTES];
  const void *data = NULL;
  const char *name = NULL;
  size_t bytes = 0;
  int type = 0;
  TRY_ORT(braid_ort.OpAttr_GetName(attr, &name));
  TRY_ORT(braid_ort.OpAttr_GetType(attr, &type));
  if (type < BRAID_ORT_ATTR_INT || type > BRAID_ORT_ATTR_TENSOR || type == BRAID_ORT_ATTR_GRAPH)
    return braid_fail(BRAID_UNSUPPORTED, "attribute %s is a graph, a type or a sparse tensor", name);
  size_t begun = braid_ort_proto_begin(proto, NODE_ATTRIBUTE);
  braid_ort_proto_text(proto, ATTR_NAME, name);
  if (type == BRAID_ORT_ATTR_TENSOR) {
    OrtValue *value = NULL;
    TRY_ORT(braid_ort.OpAttr_GetTensorAttributeAsOrtValue(attr, &value));
    braid_status status = attr_write_value(proto, value);
    braid_ort.ReleaseValue(value);
    TRY(status);
  } else {
    TRY(attr_read(view, attr, type, local, &data, &bytes));
    bytes = attr_trim(node, both, name, data, bytes);
    if (type == BRAID_ORT_ATTR_STRING || type == BRAID_ORT_ATTR_STRINGS)
      attr_write_strings(proto, type, data, bytes);
    else
      attr_write_numbers(proto, type, data, bytes);
  }
  braid_ort_proto_end(proto, begun);
  return BRAID_OK;
}

/* Whether it is the direction of a recurrent op, and both. */
static braid_status attr_says_both(const OrtOpAttr *attr, bool *both) {
  char text[32] = "";
  const char *name = NULL;
  size_t bytes = 0;
  int type = 0;
  TRY_ORT(braid_ort.OpAttr_GetName(attr, &name));
  TRY_ORT(braid_ort.OpAttr_GetType(attr, &type));
  if (type != BRAID_ORT_ATTR_STRING || strcmp(name, "direction") != 0) return BRAID_OK;
  TRY_ORT(braid_ort.ReadOpAttr(attr, type, text, sizeof text - 1, &bytes));
  *both = *both || strcmp(text, "bidirectional") == 0;
  return BRAID_OK;
}

/* --- nodes, inputs, constants --- */

static braid_status node_write(braid_ort_proto *proto, braid_ort_view *view, const braid_ort_node *node) {
  size_t begun = braid_ort_proto_begin(proto, GRAPH_NODE), count = 0;
  for (size_t i = 0; i < node->input_count; i++)
    braid_ort_proto_text(proto, NODE_INPUT, node->inputs[i] < 0 ? "" : view->values[node->inputs[i]].name);
  for (size_t i = 0; i < node->output_count; i++)
    braid_ort_proto_text(proto, NODE_OUTPUT, node->outputs[i] < 0 ? "" : view->values[node->outputs[i]].name);
  braid_ort_proto_text(proto, NODE_NAME, node->name);
  braid_ort_proto_text(proto, NODE_OP, node->op);
  braid_ort_proto_text(proto, NODE_DOMAIN, node->domain);
  TRY_ORT(braid_ort.Node_GetNumAttributes(node->node, &count));
  const OrtOpAttr **attrs = braid_ort_arena_take(&view->arena, count, sizeof *attrs);
  if (!attrs) return braid_fail(BRAID_NO_MEMORY, "there is no memory for attributes");
  if (count) TRY_ORT(braid_ort.Node_GetAttributes(node->node, attrs, count));
  bool both = false;
  for (size_t i = 0; i < count; i++) TRY(attr_says_both(attrs[i], &both));
  for (size_t i = 0; i < count; i++) TRY(attr_write(proto, view, node, both, attrs[i]));
  braid_ort_proto_end(proto, begun);
  return BRAID_OK;
}

static int64_t trial_size(const braid_ort_value *value, const braid_ort_trial *trial, int dim) {
  if (value->dims[dim] >= 0) return value->dims[dim];
  return trial->tried && value->tried && value->tried_rank == value->rank ? value->tried_dims[dim] : trial->open;
}

static void shape_write(braid_ort_proto *proto, const braid_ort_value *value, const braid_ort_trial *trial) {
  size_t shape = braid_ort_proto_begin(proto, TENSOR_SHAPE);
  for (int i = 0; i < value->rank; i++) {
    char symbol[32];
    size_t dim = braid_ort_proto_begin(proto, SHAPE_DIM);
    snprintf(symbol, sizeof symbol, "open%d", i);
    if (value->dims[i] < 0 && !trial)
      braid_ort_proto_text(proto, DIM_PARAM, symbol);
    else
      braid_ort_proto_int(proto, DIM_VALUE, trial_size(value, trial, i));
    braid_ort_proto_end(proto, dim);
  }
  braid_ort_proto_end(proto, shape);
}

static void value_write(braid_ort_proto *proto, int field, const braid_ort_value *value, bool shaped,
                        const braid_ort_trial *trial) {
  size_t begun = braid_ort_proto_begin(proto, field);
  braid_ort_proto_text(proto, VALUE_NAME, value->name);
  size_t type = braid_ort_proto_begin(proto, VALUE_TYPE), tensor = braid_ort_proto_begin(proto, TYPE_OF_TENSOR);
  braid_ort_proto_int(proto, TENSOR_ELEMENT, braid_ort_onnx_type(value->type));
  if (shaped) shape_write(proto, value, trial);
  braid_ort_proto_end(proto, tensor);
  braid_ort_proto_end(proto, type);
  braid_ort_proto_end(proto, begun);
}

static void entry_write(braid_ort_proto *proto, const char *key, const char *text) {
  size_t begun = braid_ort_proto_begin(proto, TENSOR_EXTERNAL);
  braid_ort_proto_text(proto, ENTRY_KEY, key);
  braid_ort_proto_text(proto, ENTRY_VALUE, text);
  braid_ort_proto_end(proto, begun);
}

static void constant_write(braid_ort_proto *proto, const braid_ort_value *value, int number) {
  size_t begun = braid_ort_proto_begin(proto, GRAPH_INITIALIZER);
  for (int i = 0; i < value->rank; i++) braid_ort_proto_int(proto, TENSOR_DIMS, value->dims[i]);
  braid_ort_proto_int(proto, TENSOR_TYPE, braid_ort_onnx_type(value->type));
  braid_ort_proto_text(proto, TENSOR_NAME, value->name);
  if (value->bytes <= INLINE_BYTES) {
    braid_ort_proto_bytes(proto, TENSOR_RAW, value->data, value->bytes);
  } else {
    char text[32];
    snprintf(text, sizeof text, "%d", number);
    entry_write(proto, "location", text);
    snprintf(text, sizeof text, "%zu", value->bytes);
    entry_write(proto, "length", text);
    braid_ort_proto_int(proto, TENSOR_LOCATION, 1);
  }
  braid_ort_proto_end(proto, begun);
}

static void contents_write(braid_ort_proto *proto, const braid_ort_value *value, const braid_tensor *tensor) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  size_t begun = braid_ort_proto_begin(proto, GRAPH_INITIALIZER);
  for (int i = 0; i < desc->rank; i++) braid_ort_proto_int(proto, TENSOR_DIMS, desc->dims[i]);
  braid_ort_proto_int(proto, TENSOR_TYPE, braid_ort_onnx_type(value->type));
  braid_ort_proto_text(proto, TENSOR_NAME, value->name);
  braid_ort_proto_bytes(proto, TENSOR_RAW, braid_tensor_const_data(tensor), braid_desc_bytes(desc));
  braid_ort_proto_end(proto, begun);
}

/* An input with the trial's contents. Its dimensions are known, and few: probe.c sees to that. */
static braid_status known_write(braid_ort_proto *proto, const braid_ort_value *value, const braid_ort_trial *trial) {
  braid_desc desc;
  braid_tensor *tensor = NULL;
  TRY(braid_desc_init(&desc, braid_ort_dtype(value->type), value->rank, value->dims));
  TRY(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) {
    double element = trial->fill == BRAID_ORT_ZEROS ? 0 : trial->fill == BRAID_ORT_COUNT ? (double)i : 1;
    if (trial->fill == BRAID_ORT_REST && i == 0) element = -1;
    braid_tensor_set_f64(tensor, i, element);
  }
  contents_write(proto, value, tensor);
  braid_tensor_release(tensor);
  return BRAID_OK;
}

static bool trial_knows(const braid_ort_trial *trial, int value) {
  for (size_t i = 0; trial && i < trial->known_count; i++)
    if (trial->known[i] == value) return true;
  return false;
}

/* Every constant that a node of the piece reads, once. */
static braid_status constants_write(braid_ort_proto *proto, braid_ort_view *view, const braid_ort_piece *piece) {
  bool *written = braid_ort_arena_take(&view->arena, view->value_count, sizeof *written);
  if (!written) return braid_fail(BRAID_NO_MEMORY, "there is no memory to read the graph");
  for (size_t i = 0; i < piece->node_count; i++) {
    const braid_ort_node *node = &view->nodes[piece->nodes[i]];
    for (size_t k = 0; k < node->input_count; k++) {
      int value = node->inputs[k];
      if (value < 0 || written[value] || !view->values[value].data) continue;
      written[value] = true;
      constant_write(proto, &view->values[value], value);
    }
  }
  return BRAID_OK;
}

static braid_status piece_write(braid_ort_proto *proto, braid_ort_view *view, const braid_ort_piece *piece) {
  braid_ort_proto_int(proto, MODEL_IR_VERSION, IR_VERSION);
  for (size_t i = 0; i < view->domain_count; i++) {
    size_t begun = braid_ort_proto_begin(proto, MODEL_OPSET);
    braid_ort_proto_text(proto, OPSET_DOMAIN, view->domains[i].name);
    braid_ort_proto_int(proto, OPSET_VERSION, view->domains[i].version);
    braid_ort_proto_end(proto, begun);
  }
  size_t graph = braid_ort_proto_begin(proto, MODEL_GRAPH);
  braid_ort_proto_text(proto, GRAPH_NAME, piece->name);
  for (size_t i = 0; i < piece->node_count; i++) TRY(node_write(proto, view, &view->nodes[piece->nodes[i]]));
  for (size_t i = 0; i < piece->input_count; i++) {
    const braid_ort_value *value = &view->values[piece->inputs[i]];
    if (piece->trial && piece->trial->tried && value->tried_contents)
      contents_write(proto, value, value->tried_contents);
    else if (trial_knows(piece->trial, piece->inputs[i]))
      TRY(known_write(proto, value, piece->trial));
    else
      value_write(proto, GRAPH_INPUT, value, value->rank >= 0, piece->trial);
  }
  for (size_t i = 0; i < piece->output_count; i++)
    value_write(proto, GRAPH_OUTPUT, &view->values[piece->outputs[i]], false, NULL);
  TRY(constants_write(proto, view, piece));
  braid_ort_proto_end(proto, graph);
  return BRAID_OK;
}

/* The contents of a constant that was not written: `location` is its number. */
static braid_status external_data(void *context, const char *location, const void **data, size_t *bytes) {
  const braid_ort_view *view = context;
  long number = strtol(location, NULL, 10);
  if (number < 0 || (size_t)number >= view->value_count)
    return braid_fail(BRAID_INTERNAL, "there is no constant %s", location);
  *data = view->values[number].data;
  *bytes = view->values[number].bytes;
  return BRAID_OK;
}

braid_status braid_ort_piece_parse(braid_ort_view *view, const braid_ort_piece *piece, braid_graph **out) {
  braid_ort_proto proto = {0};
  *out = NULL;
  braid_status status = piece_write(&proto, view, piece);
  if (status == BRAID_OK && proto.failed)
    status = braid_fail(BRAID_NO_MEMORY, "there is no memory to write the graph, or it is too large");
  braid_model_memory memory = {.data = proto.data, .bytes = proto.bytes, .name = piece->name};
  memory.external = external_data;
  memory.context = view;
  if (status == BRAID_OK) status = braid_model_parse(NULL, &memory, out);
  braid_ort_proto_free(&proto);
  return status;
}
