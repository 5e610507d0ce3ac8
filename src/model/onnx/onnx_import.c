#include "model/onnx/onnx_import.h"

#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "graph/onnx_dtype.h"
#include "model/model.h"
#include "model/onnx/onnx_wire.h"

/* --- initializers ------------------------------------------------------------------------------------------------- */
static braid_status add_initializer(braid_onnx_importer *importer, braid_onnx_scope *scope, const char *name,
                                    braid_tensor *tensor) {
  int64_t taken;
  if (!*name) return braid_fail(BRAID_INVALID_FILE, "an initializer has no name");
  if (braid_name_map_get(scope->names, name, &taken))
    return braid_fail(BRAID_INVALID_FILE, "two initializers are named \"%.200s\"", name);
  braid_value_id value;
  bool keep = !scope->parent && braid_graph_find_value(importer->graph, name) < 0;
  BRAID_TRY(braid_graph_add_tensor(importer->graph, keep ? name : NULL, BRAID_VALUE_CONSTANT, tensor, &value));
  return braid_onnx_scope_set(scope, name, value);
}

braid_status braid_onnx_import_initializers(braid_onnx_importer *importer, braid_onnx_scope *scope,
                                            const Onnx__GraphProto *proto) {
  for (size_t i = 0; i < proto->n_initializer + proto->n_sparse_initializer; i++) {
    braid_tensor *tensor;
    const Onnx__TensorProto *named;
    if (i < proto->n_initializer) {
      named = proto->initializer[i];
      BRAID_TRY(braid_onnx_tensor(importer->source, named, &tensor));
    } else {
      const Onnx__SparseTensorProto *sparse = proto->sparse_initializer[i - proto->n_initializer];
      named = sparse->values;
      BRAID_TRY(braid_onnx_sparse_tensor(importer->source, sparse, &tensor));
    }
    braid_status status = add_initializer(importer, scope, named->name ? named->name : "", tensor);
    braid_tensor_release(tensor);
    BRAID_TRY(status);
  }
  return BRAID_OK;
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */
static braid_status check_tensor_type(const Onnx__ValueInfoProto *info, const char *what) {
  const char *name = info->name ? info->name : "";
  const Onnx__TypeProto *type = info->type;
  if (!type || type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
    return braid_fail(BRAID_INVALID_FILE, "%s \"%.200s\" has no type", what, name);
  if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    const char *kind = type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE   ? "a sequence"
                       : type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE ? "an optional"
                       : type->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE      ? "a map"
                                                                                   : "no dense tensor";
    return braid_fail(BRAID_UNSUPPORTED, "%s \"%.200s\" is %s, expected a tensor", what, name, kind);
  }
  int32_t element = type->tensor_type->elem_type;
  if (braid_dtype_from_onnx(element) != BRAID_NONE) return BRAID_OK;
  bool unknown = strcmp(braid_onnx_dtype_name(element), "unknown") == 0;
  return braid_fail(unknown ? BRAID_INVALID_FILE : BRAID_UNSUPPORTED, "%s \"%.200s\" has element type %s (%d)", what,
                    name, braid_onnx_dtype_name(element), element);
}

/* What the file declares of an input or output. Dimensions without a value, or named by a symbol, are open: -1. */
static braid_status declared_desc(const Onnx__ValueInfoProto *info, const char *what, braid_desc *desc) {
  BRAID_TRY(check_tensor_type(info, what));
  const Onnx__TypeProto__Tensor *type = info->type->tensor_type;
  *desc = (braid_desc){.dtype = braid_dtype_from_onnx(type->elem_type), .rank = -1};
  if (!type->shape) return BRAID_OK;
  if (type->shape->n_dim > BRAID_MAX_RANK)
    return braid_fail(BRAID_UNSUPPORTED, "%s \"%.200s\" has %zu dimensions, at most %d are carried", what, info->name,
                      type->shape->n_dim, BRAID_MAX_RANK);
  int64_t closed[BRAID_MAX_RANK];
  desc->rank = (int32_t)type->shape->n_dim;
  for (int i = 0; i < desc->rank; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[i];
    bool open = dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    desc->dims[i] = open || dim->dim_value == -1 ? -1 : dim->dim_value;
    if (desc->dims[i] < -1)
      return braid_fail(BRAID_INVALID_FILE, "%s \"%.200s\": dimension %d is %lld", what, info->name, i,
                        (long long)desc->dims[i]);
    closed[i] = desc->dims[i] < 0 ? 1 : desc->dims[i];
  }
  braid_desc checked;
  braid_status status = braid_desc_init(&checked, desc->dtype, desc->rank, closed);
  return status == BRAID_OK ? status : braid_fail_prefix(BRAID_INVALID_FILE, "%s \"%.200s\"", what, info->name);
}

/* An input that is also an initializer is a constant with a name that callers could override; it stays a constant. */
static braid_status import_inputs(braid_onnx_importer *importer, braid_onnx_scope *scope,
                                  const Onnx__GraphProto *proto) {
  for (size_t i = 0; i < proto->n_input; i++) {
    const Onnx__ValueInfoProto *info = proto->input[i];
    int64_t taken;
    if (!info->name || !*info->name) return braid_fail(BRAID_INVALID_FILE, "input %zu has no name", i);
    if (braid_name_map_get(scope->names, info->name, &taken)) {
      if (importer->graph->values[taken].kind == BRAID_VALUE_CONSTANT) continue;
      return braid_fail(BRAID_INVALID_FILE, "two inputs are named \"%.200s\"", info->name);
    }
    braid_desc desc;
    BRAID_TRY(declared_desc(info, "input", &desc));
    braid_value_id value;
    BRAID_TRY(braid_graph_add_input(importer->graph, info->name, &desc, &value));
    BRAID_TRY(braid_onnx_scope_set(scope, info->name, value));
  }
  return BRAID_OK;
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */
static bool is_output(const braid_graph *graph, braid_value_id value) {
  for (size_t i = 0; i < graph->output_count; i++)
    if (graph->outputs[i] == value) return true;
  return false;
}

/* Outputs are results of nodes, each once: what is not goes through an Identity. An input that is an output as well is
 * one itself: both have its name. */
static braid_status import_output(braid_onnx_importer *importer, braid_onnx_scope *scope,
                                  const Onnx__ValueInfoProto *info) {
  braid_graph *graph = importer->graph;
  const char *name = info->name ? info->name : "";
  braid_value_id value;
  braid_desc declared = {.rank = -1};
  if (info->type && info->type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET)
    BRAID_TRY(declared_desc(info, "output", &declared));
  braid_status status = braid_onnx_scope_find(importer, scope, name, &value);
  if (status == BRAID_NOT_FOUND || (status == BRAID_OK && value < 0))
    return braid_fail(BRAID_INVALID_FILE, "nothing gives the output \"%.200s\"", name);
  BRAID_TRY(status);
  const braid_desc *desc = &graph->values[value].desc;
  if (declared.dtype != BRAID_NONE && desc->dtype != BRAID_NONE && declared.dtype != desc->dtype)
    return braid_fail(BRAID_INVALID_FILE, "output \"%.200s\" is declared %s, its node gives %s", name,
                      braid_dtype_name(declared.dtype), braid_dtype_name(desc->dtype));
  bool itself = graph->values[value].kind == BRAID_VALUE_INPUT && strcmp(graph->values[value].name, name) == 0;
  if ((graph->values[value].kind != BRAID_VALUE_RESULT && !itself) || is_output(graph, value)) {
    braid_value_id copy = 0;
    BRAID_TRY(braid_graph_add_node(graph, "Identity", NULL, &value, 1, &copy, 1, NULL));
    if (graph->values[value].kind == BRAID_VALUE_CONSTANT) BRAID_TRY(braid_onnx_claim_name(importer, copy, name));
    value = copy;
  }
  /* Until inference knows better; it is what a file written from this graph says again. */
  if (graph->values[value].desc.dtype == BRAID_NONE) graph->values[value].desc = declared;
  return braid_graph_add_output(graph, value);
}

/* --- the model ---------------------------------------------------------------------------------------------------- */
static braid_status model_opset(const Onnx__ModelProto *model, int64_t *opset) {
  *opset = 0;
  for (size_t i = 0; i < model->n_opset_import; i++) {
    const Onnx__OperatorSetIdProto *import = model->opset_import[i];
    if (!import->domain || !*import->domain || strcmp(import->domain, "ai.onnx") == 0) *opset = import->version;
  }
  if (model->ir_version > BRAID_ONNX_MAX_IR)
    return braid_fail(BRAID_UNSUPPORTED, "IR version %lld, at most %d is read", (long long)model->ir_version,
                      BRAID_ONNX_MAX_IR);
  if (!model->n_opset_import && model->ir_version >= 3)
    return braid_fail(BRAID_INVALID_FILE, "does not say which opset it uses (truncated file?)");
  if (!model->n_opset_import) *opset = 1;
  if (*opset < 0 || *opset > BRAID_ONNX_MAX_OPSET)
    return braid_fail(BRAID_UNSUPPORTED, "opset %lld, versions 1 to %d are read", (long long)*opset,
                      BRAID_ONNX_MAX_OPSET);
  return BRAID_OK;
}

static braid_status list_functions(braid_onnx_importer *importer) {
  BRAID_TRY(braid_name_map_create(importer->allocator, &importer->functions));
  for (size_t i = 0; i < importer->model->n_functions; i++) {
    const Onnx__FunctionProto *function = importer->model->functions[i];
    braid_text key;
    braid_text_init(&key, importer->allocator);
    braid_text_printf(&key, "%s:%s:%s", function->domain ? function->domain : "", function->name ? function->name : "",
                      function->overload ? function->overload : "");
    braid_status status = key.failed ? BRAID_NO_MEMORY : braid_name_map_set(importer->functions, key.data, (int64_t)i);
    braid_text_deinit(&key);
    BRAID_TRY(status);
  }
  return BRAID_OK;
}

static braid_status import_graph(braid_onnx_importer *importer, braid_onnx_scope *scope) {
  const Onnx__GraphProto *proto = importer->model->graph;
  BRAID_TRY(list_functions(importer));
  BRAID_TRY(braid_onnx_scope_init(importer, scope));
  BRAID_TRY(braid_onnx_import_initializers(importer, scope, proto));
  BRAID_TRY(braid_onnx_note_origins(importer, scope));
  BRAID_TRY(import_inputs(importer, scope, proto));
  BRAID_TRY(braid_onnx_import_nodes(importer, scope, proto->node, proto->n_node));
  if (!proto->n_output) return braid_fail(BRAID_INVALID_FILE, "graph has no outputs");
  for (size_t i = 0; i < proto->n_output; i++) BRAID_TRY(import_output(importer, scope, proto->output[i]));
  return braid_onnx_check_declared(importer);
}

static braid_status import_model(braid_onnx_importer *importer) {
  if (!importer->model->graph) return braid_fail(BRAID_INVALID_FILE, "not an ONNX model: it has no graph");
  braid_onnx_scope scope = {0};
  BRAID_TRY(model_opset(importer->model, &scope.opset));
  BRAID_TRY(braid_graph_create(importer->allocator, importer->model->graph->name, &importer->graph));
  braid_graph_use_custom_ops(importer->graph, importer->source->custom_ops);
  braid_status status = braid_arena_create(importer->allocator, &importer->arena);
  if (status == BRAID_OK) status = import_graph(importer, &scope);
  braid_onnx_scope_deinit(&scope);
  braid_name_map_destroy(importer->functions);
  braid_arena_destroy(importer->arena);
  return status;
}

braid_status braid_onnx_import(braid_onnx_source *source, braid_graph **out) {
  *out = NULL;
  braid_onnx_importer importer = {.allocator = source->allocator, .source = source};
  ProtobufCMessage *message = NULL;
  braid_status status = braid_onnx_unpack(source->allocator, &onnx__model_proto__descriptor, source->file, &message);
  importer.model = (const Onnx__ModelProto *)message;
  if (status == BRAID_OK) status = import_model(&importer);
  if (status == BRAID_OK) status = braid_onnx_source_check(source);
  if (message) {
    ProtobufCAllocator own = braid_onnx_allocator(source->allocator);
    protobuf_c_message_free_unpacked(message, &own);
  }
  if (status == BRAID_OK) {
    *out = importer.graph;
    return BRAID_OK;
  }
  braid_graph_destroy(importer.graph);
  if (status == BRAID_NO_MEMORY) return status;
  bool malformed = status == BRAID_INVALID_GRAPH || status == BRAID_OUT_OF_RANGE || status == BRAID_INVALID_ARGUMENT;
  return braid_fail_prefix(malformed ? BRAID_INVALID_FILE : status, "%s", source->path);
}

braid_status braid_onnx_load(const braid_allocator *allocator, const char *path, const braid_model_options *options,
                             braid_graph **out) {
  *out = NULL;
  braid_onnx_source source;
  braid_status status = braid_onnx_source_open(allocator, path, &source);
  source.custom_ops = options->custom_ops;
  source.log = options->log;
  if (status == BRAID_OK) status = braid_onnx_import(&source, out);
  braid_onnx_source_close(&source);
  return status;
}

braid_status braid_onnx_parse(const braid_allocator *allocator, const braid_model_memory *memory, braid_graph **out) {
  *out = NULL;
  braid_onnx_source source;
  braid_status status = braid_onnx_source_wrap(allocator, memory, &source);
  source.custom_ops = memory->custom_ops;
  source.log = memory->log;
  if (status == BRAID_OK) status = braid_onnx_import(&source, out);
  braid_onnx_source_close(&source);
  return status;
}

braid_status braid_onnx_tensor_load(const braid_allocator *allocator, const char *path, braid_tensor **out) {
  *out = NULL;
  braid_onnx_source source;
  ProtobufCMessage *message = NULL;
  braid_status status = braid_onnx_source_open(allocator, path, &source);
  if (status != BRAID_OK) return status;
  status = braid_onnx_unpack(allocator, &onnx__tensor_proto__descriptor, source.file, &message);
  if (status == BRAID_OK) status = braid_onnx_tensor(&source, (const Onnx__TensorProto *)message, out);
  if (status == BRAID_OK) status = braid_onnx_source_check(&source);
  if (message) {
    ProtobufCAllocator own = braid_onnx_allocator(allocator);
    protobuf_c_message_free_unpacked(message, &own);
  }
  braid_onnx_source_close(&source);
  if (status != BRAID_OK) {
    braid_tensor_release(*out);
    *out = NULL;
  }
  return status == BRAID_OK || status == BRAID_NO_MEMORY ? status : braid_fail_prefix(status, "%s", path);
}
