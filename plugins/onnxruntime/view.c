#include "view.h"
#include "try.h"

#include <string.h>

static uint64_t name_hash(const char *name) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
  return hash ^ hash >> 32;
}

static size_t view_slot(const braid_ort_view *view, const char *name) {
  size_t slot = name_hash(name) & (view->slot_count - 1);
  while (view->slots[slot] && strcmp(view->values[view->slots[slot] - 1].name, name) != 0)
    slot = (slot + 1) & (view->slot_count - 1);
  return slot;
}

int braid_ort_view_find(const braid_ort_view *view, const char *name) {
  return view->slot_count ? view->slots[view_slot(view, name)] - 1 : -1;
}

/* Doubles the tables when the names fill half of the slots. */
static braid_status view_grow(braid_ort_view *view) {
  if (view->value_count * 2 < view->slot_count) return BRAID_OK;
  size_t slots = view->slot_count ? view->slot_count * 2 : 256;
  braid_ort_value *values = braid_ort_arena_take(&view->arena, slots / 2, sizeof *values);
  int *table = braid_ort_arena_take(&view->arena, slots, sizeof *table);
  if (!values || !table) return braid_fail(BRAID_NO_MEMORY, "there is no memory to read the graph");
  if (view->value_count) memcpy(values, view->values, view->value_count * sizeof *values);
  view->values = values;
  view->slots = table;
  view->slot_count = slots;
  for (size_t i = 0; i < view->value_count; i++) table[view_slot(view, values[i].name)] = (int)i + 1;
  return BRAID_OK;
}

static braid_status value_read_type(braid_ort_value *value) {
  const OrtTypeInfo *type = NULL;
  const OrtTensorTypeAndShapeInfo *tensor = NULL;
  int kind = 0;
  size_t rank = 0;
  value->rank = -1;
  TRY_ORT(braid_ort.GetValueInfoTypeInfo(value->info, &type));
  if (!type) return BRAID_OK;
  TRY_ORT(braid_ort.GetOnnxTypeFromTypeInfo(type, &kind));
  if (kind != BRAID_ORT_TENSOR) return BRAID_OK;
  TRY_ORT(braid_ort.CastTypeInfoToTensorInfo(type, &tensor));
  if (!tensor) return BRAID_OK;
  TRY_ORT(braid_ort.GetTensorElementType(tensor, &value->type));
  TRY_ORT(braid_ort.GetDimensionsCount(tensor, &rank));
  value->too_deep = rank > BRAID_MAX_RANK;
  if (!braid_ort.TensorTypeAndShape_HasShape(tensor) || value->too_deep) return BRAID_OK;
  value->rank = (int)rank;
  return braid_ort_check(braid_ort.GetDimensions(tensor, value->dims, rank));
}

static braid_status value_read_constant(braid_ort_value *value) {
  bool constant = false;
  const OrtValue *tensor = NULL;
  TRY_ORT(braid_ort.ValueInfo_IsConstantInitializer(value->info, &constant));
  if (!constant || value->type == 0 || (!braid_ort_type_carried(value->type) && !braid_ort_type_packed(value->type)))
    return BRAID_OK;
  TRY_ORT(braid_ort.ValueInfo_GetInitializerValue(value->info, &tensor));
  if (!tensor) return BRAID_OK;
  TRY_ORT(braid_ort.GetTensorSizeInBytes(tensor, &value->bytes));
  TRY_ORT(braid_ort.GetTensorData(tensor, &value->data));
  if (!value->data) value->data = value; /* of no elements: never read */
  if (value->rank >= 0) return BRAID_OK;
  OrtTensorTypeAndShapeInfo *shape = NULL;
  size_t rank = 0;
  TRY_ORT(braid_ort.GetTensorTypeAndShape(tensor, &shape));
  braid_status status = braid_ort_check(braid_ort.GetDimensionsCount(shape, &rank));
  if (status == BRAID_OK && rank <= BRAID_MAX_RANK) {
    value->rank = (int)rank;
    status = braid_ort_check(braid_ort.GetDimensions(shape, value->dims, rank));
  }
  braid_ort.ReleaseTensorTypeAndShapeInfo(shape);
  return status;
}

static braid_status view_value(braid_ort_view *view, const OrtValueInfo *info, int *out) {
  const char *name = NULL;
  *out = -1;
  if (!info) return BRAID_OK;
  TRY_ORT(braid_ort.GetValueInfoName(info, &name));
  if (!name || !name[0]) return BRAID_OK;
  TRY(view_grow(view));
  size_t slot = view_slot(view, name);
  if (!view->slots[slot]) {
    braid_ort_value *value = &view->values[view->value_count];
    *value = (braid_ort_value){.info = info, .name = name, .producer = -1};
    TRY(value_read_type(value));
    TRY(value_read_constant(value));
    view->slots[slot] = (int)++view->value_count;
  }
  *out = view->slots[slot] - 1;
  return BRAID_OK;
}

/* The value infos that one of the runtime's pairs of functions gives, as values. */
static braid_status view_values(braid_ort_view *view, const OrtValueInfo **infos, size_t count, int *values) {
  for (size_t i = 0; i < count; i++) TRY(view_value(view, infos[i], &values[i]));
  return BRAID_OK;
}

static braid_status view_take(braid_ort_view *view, size_t count, size_t size, void *out) {
  void *memory = braid_ort_arena_take(&view->arena, count, size);
  if (!memory) return braid_fail(BRAID_NO_MEMORY, "there is no memory to read the graph");
  memcpy(out, &memory, sizeof memory);
  return BRAID_OK;
}

braid_status braid_ort_view_operands(braid_ort_view *view, const OrtNode *node, bool outputs, int **values,
                                     size_t *count) {
  const OrtValueInfo **infos = NULL;
  TRY_ORT(outputs ? braid_ort.Node_GetNumOutputs(node, count) : braid_ort.Node_GetNumInputs(node, count));
  TRY(view_take(view, *count, sizeof *infos, &infos));
  TRY(view_take(view, *count, sizeof **values, values));
  if (*count == 0) return BRAID_OK;
  TRY_ORT(outputs ? braid_ort.Node_GetOutputs(node, infos, *count) : braid_ort.Node_GetInputs(node, infos, *count));
  return view_values(view, infos, *count, *values);
}

static braid_status node_read_inputs(braid_ort_view *view, braid_ort_node *node) {
  const OrtValueInfo **infos = NULL;
  TRY_ORT(braid_ort.Node_GetNumInputs(node->node, &node->input_count));
  TRY_ORT(braid_ort.Node_GetNumImplicitInputs(node->node, &node->implicit_count));
  size_t count = node->input_count + node->implicit_count;
  TRY(view_take(view, count, sizeof *infos, &infos));
  TRY(view_take(view, count, sizeof *node->inputs, &node->inputs));
  if (node->input_count) TRY_ORT(braid_ort.Node_GetInputs(node->node, infos, node->input_count));
  if (node->implicit_count)
    TRY_ORT(braid_ort.Node_GetImplicitInputs(node->node, infos + node->input_count, node->implicit_count));
  return view_values(view, infos, count, node->inputs);
}

static braid_status node_read(braid_ort_view *view, const OrtNode *from, size_t index) {
  braid_ort_node *node = &view->nodes[index];
  const char *provider = NULL;
  node->node = from;
  TRY_ORT(braid_ort.Node_GetName(from, &node->name));
  TRY_ORT(braid_ort.Node_GetOperatorType(from, &node->op));
  TRY_ORT(braid_ort.Node_GetDomain(from, &node->domain));
  if (strcmp(node->domain, "ai.onnx") == 0) node->domain = "";
  TRY_ORT(braid_ort.Node_GetNumSubgraphs(from, &node->graph_count));
  TRY_ORT(braid_ort.Node_GetEpName(from, &provider));
  node->assigned = provider && provider[0];
  TRY(node_read_inputs(view, node));
  for (size_t i = 0; i < node->input_count + node->implicit_count; i++)
    if (node->inputs[i] >= 0) view->values[node->inputs[i]].read = true;
  TRY(braid_ort_view_operands(view, from, true, &node->outputs, &node->output_count));
  for (size_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] < 0) continue;
    braid_ort_value *value = &view->values[node->outputs[i]];
    if (value->read) return braid_fail(BRAID_INVALID_GRAPH, "node %s stands after one that reads from it", node->name);
    value->producer = (int)index;
  }
  return BRAID_OK;
}

static braid_status view_read_domains(const OrtGraph *graph, braid_ort_view *view) {
  const char **names = NULL;
  int64_t *versions = NULL;
  TRY_ORT(braid_ort.Graph_GetNumOperatorSets(graph, &view->domain_count));
  TRY(view_take(view, view->domain_count, sizeof *names, &names));
  TRY(view_take(view, view->domain_count, sizeof *versions, &versions));
  TRY(view_take(view, view->domain_count, sizeof *view->domains, &view->domains));
  TRY_ORT(braid_ort.Graph_GetOperatorSets(graph, names, versions, view->domain_count));
  for (size_t i = 0; i < view->domain_count; i++)
    view->domains[i] = (braid_ort_domain){strcmp(names[i], "ai.onnx") == 0 ? "" : names[i], versions[i]};
  return BRAID_OK;
}

static braid_status view_mark(braid_ort_view *view, const OrtGraph *graph, bool outputs) {
  const OrtValueInfo **infos = NULL;
  size_t count = 0;
  TRY_ORT(outputs ? braid_ort.Graph_GetNumOutputs(graph, &count) : braid_ort.Graph_GetNumInputs(graph, &count));
  TRY(view_take(view, count, sizeof *infos, &infos));
  if (count == 0) return BRAID_OK;
  TRY_ORT(outputs ? braid_ort.Graph_GetOutputs(graph, infos, count) : braid_ort.Graph_GetInputs(graph, infos, count));
  for (size_t i = 0; i < count; i++) {
    int value;
    TRY(view_value(view, infos[i], &value));
    if (value < 0) continue;
    if (outputs) view->values[value].output = true;
    if (!outputs) view->values[value].input = true;
  }
  return BRAID_OK;
}

static braid_status view_read(const OrtGraph *graph, braid_ort_view *view) {
  const OrtNode **nodes = NULL, *parent = NULL;
  TRY_ORT(braid_ort.Graph_GetParentNode(graph, &parent));
  view->inner = parent != NULL;
  if (parent) {
    const char *op = NULL;
    TRY_ORT(braid_ort.Node_GetOperatorType(parent, &op));
    view->inlined = strcmp(op, "SequenceMap") == 0; /* ONNX's only function with a graph of its own */
  }
  TRY(view_read_domains(graph, view));
  TRY(view_mark(view, graph, false));
  TRY_ORT(braid_ort.Graph_GetNumNodes(graph, &view->node_count));
  TRY(view_take(view, view->node_count, sizeof *nodes, &nodes));
  TRY(view_take(view, view->node_count, sizeof *view->nodes, &view->nodes));
  if (view->node_count) TRY_ORT(braid_ort.Graph_GetNodes(graph, nodes, view->node_count));
  for (size_t i = 0; i < view->node_count; i++) TRY(node_read(view, nodes[i], i));
  return view_mark(view, graph, true);
}

braid_status braid_ort_view_read(const OrtGraph *graph, braid_ort_view *view) {
  *view = (braid_ort_view){0};
  braid_status status = view_read(graph, view);
  if (status != BRAID_OK) braid_ort_view_free(view);
  return status;
}

void braid_ort_view_free(braid_ort_view *view) {
  for (size_t i = 0; i < view->value_count; i++) braid_tensor_release(view->values[i].tried_contents);
  braid_ort_arena_free(&view->arena);
  *view = (braid_ort_view){0};
}
