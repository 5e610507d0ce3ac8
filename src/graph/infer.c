#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "graph/body.h"
#include "graph/control.h"
#include "graph/graph.h"

/* A folded result larger than this stays a computation: it would cost more memory than time. */
static const size_t kMaxFoldedBytes = (size_t)1 << 31;

/* --- for infer functions -------------------------------------------------------------------------------------------
 */
size_t braid_infer_inputs(const braid_infer *infer) {
  return infer->node->input_count;
}

static const braid_value *input_value(const braid_infer *infer, size_t index) {
  if (index >= infer->node->input_count || infer->node->inputs[index] < 0) return NULL;
  return &infer->graph->values[infer->node->inputs[index]];
}

const braid_desc *braid_infer_input(const braid_infer *infer, size_t index) {
  const braid_value *value = input_value(infer, index);
  return value ? &value->desc : NULL;
}

const braid_tensor *braid_infer_constant(const braid_infer *infer, size_t index) {
  const braid_value *value = input_value(infer, index);
  if (!value || value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE) return NULL;
  if (value->tensor) braid_value_note_read(value);
  return value->tensor;
}

braid_status braid_infer_fail(const braid_infer *infer, const char *format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): %s", infer->node->name, infer->node->op->name, message);
}

braid_status braid_infer_output(const braid_infer *infer, size_t index, braid_dtype dtype, int rank,
                                const int64_t *dims) {
  if (index >= infer->node->output_count || infer->node->outputs[index] < 0) return BRAID_OK;
  if (braid_dtype_is_narrow(dtype) && !(infer->node->op->flags & BRAID_OP_NARROW))
    return braid_infer_fail(infer, "output %zu is %s, which the op does not give", index, braid_dtype_name(dtype));
  braid_desc desc;
  braid_status status = braid_desc_init(&desc, dtype, rank, dims);
  if (status != BRAID_OK)
    return braid_fail_prefix(status, "node %.120s (%s): output %zu", infer->node->name, infer->node->op->name, index);
  infer->graph->values[infer->node->outputs[index]].desc = desc;
  return BRAID_OK;
}

bool braid_broadcast(const braid_desc *a, const braid_desc *b, braid_desc *out) {
  int rank = a->rank > b->rank ? a->rank : b->rank;
  braid_desc result = {.dtype = a->dtype, .rank = rank};
  for (int i = 0; i < rank; i++) {
    int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
    int64_t da = ia >= 0 ? a->dims[ia] : 1, db = ib >= 0 ? b->dims[ib] : 1;
    if (da != db && da != 1 && db != 1) return false;
    result.dims[i] = da == 1 ? db : da;
  }
  *out = result;
  return true;
}

braid_status braid_infer_axis(const braid_infer *infer, int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank)
    return braid_infer_fail(infer, "axis %lld is outside [%d, %d)", (long long)axis, -rank, rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return BRAID_OK;
}

/* --- one node ------------------------------------------------------------------------------------------------------
 */
static bool is_known(const braid_desc *desc) {
  if (desc->dtype == BRAID_NONE || desc->rank < 0) return false;
  for (int i = 0; i < desc->rank; i++)
    if (desc->dims[i] < 0) return false;
  return true;
}

static const braid_value *first_unknown_input(const braid_graph *graph, const braid_node *node) {
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 0 && !is_known(&graph->values[node->inputs[i]].desc)) return &graph->values[node->inputs[i]];
  return NULL;
}

static braid_status infer_known(braid_graph *graph, braid_node *node) {
  braid_infer infer = {graph, node};
  for (size_t i = 0; i < node->input_count && !(node->op->flags & BRAID_OP_NARROW); i++) {
    const braid_desc *desc = braid_infer_input(&infer, i);
    if (desc && braid_dtype_is_narrow(desc->dtype))
      return braid_infer_fail(&infer, "input %zu is %s, which the op does not take", i, braid_dtype_name(desc->dtype));
  }
  BRAID_TRY(braid_graph_track_inputs(graph, node));
  return node->op->infer(&infer);
}

braid_status braid_graph_infer_node(braid_graph *graph, braid_node_id id) {
  braid_node *node = &graph->nodes[id];
  return first_unknown_input(graph, node) ? BRAID_OK : infer_known(graph, node);
}

/* --- folding -------------------------------------------------------------------------------------------------------
 */
/* Shape and Size depend on a description only, so they fold even when the data is not known. */
static braid_status fold_shape(braid_graph *graph, const braid_node *node) {
  const braid_desc *source = &graph->values[node->inputs[0]].desc;
  braid_value *target = &graph->values[node->outputs[0]];
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, &target->desc, &tensor));
  int64_t *data = braid_tensor_data(tensor);
  if (strcmp(node->op->name, "Size") == 0) {
    data[0] = braid_desc_count(source);
  } else {
    int64_t start = braid_attr_int(&node->attrs, "start", 0);
    if (start < 0) start += source->rank;
    if (start < 0) start = 0;
    for (int64_t i = 0; i < target->desc.dims[0]; i++) data[i] = source->dims[start + i];
  }
  target->tensor = tensor;
  return BRAID_OK;
}

static braid_status fold_constant(braid_graph *graph, const braid_node *node) {
  braid_tensor *tensor = braid_attr_tensor(&node->attrs, "value");
  if (tensor) graph->values[node->outputs[0]].tensor = braid_tensor_retain(tensor);
  return BRAID_OK;
}

static bool can_fold(const braid_graph *graph, const braid_node *node) {
  if (node->op->flags & (BRAID_OP_RANDOM | BRAID_OP_COLLECTIVE)) return false;
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0) continue;
    const braid_value *value = &graph->values[node->inputs[i]];
    if (value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE || !value->tensor) return false;
  }
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) {
      const braid_desc *desc = &graph->values[node->outputs[i]].desc;
      if (!is_known(desc) || braid_desc_bytes(desc) > kMaxFoldedBytes) return false;
    }
  return true;
}

enum { kMaxListed = 64 }; /* operands of a node that is worth folding without a heap allocation */

static braid_status node_evaluate(braid_graph *graph, const braid_node *node, const braid_evaluator *evaluator) {
  const braid_tensor *few_inputs[kMaxListed] = {NULL};
  braid_tensor *few_outputs[kMaxListed] = {NULL};
  if (node->output_count > kMaxListed) return BRAID_OK;
  const braid_tensor **inputs = few_inputs;
  if (node->input_count > kMaxListed) {
    inputs = braid_zalloc_array(graph->allocator, node->input_count, sizeof *inputs);
    if (!inputs) return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = node->inputs[i] >= 0 ? graph->values[node->inputs[i]].tensor : NULL;
  braid_status status = evaluator->evaluate(evaluator->context, graph, node, inputs, few_outputs);
  if (inputs != few_inputs) braid_free(graph->allocator, inputs);
  if (status == BRAID_UNSUPPORTED) return BRAID_OK; /* left to the run */
  if (status != BRAID_OK) return braid_fail_prefix(status, "node %.120s (%s): folding", node->name, node->op->name);
  for (size_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] >= 0)
      graph->values[node->outputs[i]].tensor = few_outputs[i];
    else
      braid_tensor_release(few_outputs[i]);
  }
  return braid_graph_track_results(graph, node);
}

/* What the folded result of a DequantizeLinear came from. */
static void note_quantized(braid_graph *graph, const braid_node *node) {
  braid_value *value = &graph->values[node->outputs[0]];
  if (strcmp(node->op->name, "DequantizeLinear") != 0 || !value->tensor ||
      braid_attr_int(&node->attrs, "block_size", 0))
    return;
  for (size_t i = 0; i < 3; i++) value->quantized[i] = i < node->input_count ? node->inputs[i] : -1;
  int64_t axis = braid_attr_int(&node->attrs, "axis", 1);
  value->quantized_axis = (int32_t)(axis < 0 ? axis + value->desc.rank : axis);
}

static braid_status fold(braid_graph *graph, const braid_node *node, const braid_evaluator *evaluator) {
  const char *op = node->op->name;
  if (strcmp(op, "Shape") == 0 || strcmp(op, "Size") == 0) return fold_shape(graph, node);
  if (strcmp(op, "Constant") == 0 && braid_attr_has(&node->attrs, "value")) return fold_constant(graph, node);
  if (!evaluator || !can_fold(graph, node)) return BRAID_OK;
  BRAID_TRY(node_evaluate(graph, node, evaluator));
  note_quantized(graph, node);
  return BRAID_OK;
}

/* --- whole graph ---------------------------------------------------------------------------------------------------
 */
/* Forgets what an earlier sweep found: an input's shape may have changed since. */
static void forget_results(braid_graph *graph) {
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value *value = &graph->values[i];
    if (value->kind != BRAID_VALUE_RESULT) continue;
    braid_tensor_release(value->tensor);
    value->tensor = NULL;
    value->desc = (braid_desc){.rank = -1};
    memset(value->quantized, -1, sizeof value->quantized);
  }
}

static braid_status check_inputs(const braid_graph *graph) {
  for (size_t i = 0; i < graph->input_count; i++) {
    const braid_value *value = &graph->values[graph->inputs[i]];
    char text[128];
    if (!is_known(&value->desc))
      return braid_fail(BRAID_INVALID_ARGUMENT, "input %.120s has an open shape %s: give it one", value->name,
                        braid_desc_format(&value->desc, text, sizeof text));
  }
  return BRAID_OK;
}

braid_status braid_graph_infer_and_fold(braid_graph *graph, braid_node_id id, const braid_evaluator *evaluator) {
  braid_node *node = &graph->nodes[id];
  const braid_value *unknown = first_unknown_input(graph, node);
  if (unknown)
    return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): type or shape of input %.120s is not known", node->name,
                      node->op->name, unknown->name);
  BRAID_TRY(infer_known(graph, node));
  node = &graph->nodes[id];
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0 && !is_known(&graph->values[node->outputs[i]].desc))
      return braid_fail(BRAID_INTERNAL, "node %.120s (%s): output %zu was not inferred", node->name, node->op->name, i);
  return node->op->flags & BRAID_OP_FUNCTION ? braid_body_expand(graph, id, evaluator) : fold(graph, node, evaluator);
}

static braid_status check_updates(const braid_graph *graph) {
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    if (value->next < 0) continue;
    const braid_desc *next = &graph->values[value->next].desc;
    if (next->dtype != value->desc.dtype || !braid_desc_same_shape(next, &value->desc))
      return braid_fail(BRAID_INVALID_GRAPH, "value %.120s and its update differ in type or shape", value->name);
  }
  return BRAID_OK;
}

static bool has_control(const braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++)
    if (braid_control_is(&graph->nodes[i])) return true;
  return false;
}

static braid_status sweep(braid_graph *graph, const braid_evaluator *evaluator) {
  bool *dead = NULL; /* values of branches that are not taken */
  if (has_control(graph)) {
    dead = braid_zalloc_array(graph->allocator, graph->value_count, sizeof *dead);
    if (!dead) return BRAID_NO_MEMORY;
  }
  braid_status status = BRAID_OK;
  size_t count = graph->node_count; /* nodes of functions' bodies come behind, and are inferred as they are added */
  for (size_t i = 0; status == BRAID_OK && i < count; i++) {
    bool skip = false;
    if (dead) status = braid_control_step(graph, (braid_node_id)i, dead, &skip);
    if (status == BRAID_OK && !skip) status = braid_graph_infer_and_fold(graph, (braid_node_id)i, evaluator);
  }
  braid_free(graph->allocator, dead);
  return status == BRAID_OK && graph->node_count > count ? braid_graph_sort(graph) : status;
}

braid_status braid_graph_infer(braid_graph *graph, const braid_evaluator *evaluator) {
  BRAID_TRY(braid_graph_sort(graph));
  BRAID_TRY(check_inputs(graph));
  forget_results(graph);
  BRAID_TRY(sweep(graph, evaluator));
  BRAID_TRY(check_updates(graph));
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value *value = &graph->values[i];
    if (value->kind != BRAID_VALUE_RESULT || !value->tensor) continue;
    value->kind = BRAID_VALUE_CONSTANT;
    value->producer = -1;
  }
  return braid_graph_compact(graph);
}
