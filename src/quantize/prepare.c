/* The model as it is quantized: weights are constants, normalizations folded, types and shapes known, but nothing that
 * depends on the batch is fixed. */
#include <string.h>

#include "base/try.h"
#include "graph/control.h"
#include "quantize/internal.h"
#include "runtime/plan/resolve.h"

static braid_status check_node(const braid_node *node) {
  if (braid_control_is(node))
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): models with conditionals are not quantized", node->name,
                      node->op->name);
  if (strstr(node->op->name, "QuantizeLinear") || strncmp(node->op->name, "QLinear", 7) == 0 ||
      strcmp(node->op->name, "DequantizeLinear") == 0 || strcmp(node->op->name, "ConvInteger") == 0 ||
      strcmp(node->op->name, "MatMulInteger") == 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the model is quantized already: node %.120s is %s", node->name,
                      node->op->name);
  if (node->backward)
    return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s (%s) is of training: a model for inference is expected",
                      node->name, node->op->name);
  return BRAID_OK;
}

static braid_status make_constants(braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++) BRAID_TRY(check_node(&graph->nodes[i]));
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value *value = &graph->values[i];
    if (value->next >= 0)
      return braid_fail(BRAID_INVALID_ARGUMENT,
                        "value %.120s changes from run to run: a model for inference is expected", value->name);
    if (value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE) value->kind = BRAID_VALUE_CONSTANT;
  }
  return BRAID_OK;
}

/* Whether what the node computes follows from constants alone, whatever shape the inputs have. */
static bool is_constant_node(const braid_graph *graph, const braid_node *node, const bool *constant) {
  if (node->op->flags & BRAID_OP_RANDOM) return false;
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 0 && graph->values[node->inputs[i]].kind != BRAID_VALUE_CONSTANT &&
        !constant[node->inputs[i]])
      return false;
  return true;
}

/* Takes types and shapes from the resolved copy, and the contents of what follows from constants. */
static void take_known(braid_graph *graph, const braid_graph *resolved, bool *constant) {
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    bool fixed = is_constant_node(graph, node, constant);
    for (size_t j = 0; j < node->output_count; j++)
      if (node->outputs[j] >= 0) constant[node->outputs[j]] = fixed;
  }
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value *value = &graph->values[i];
    braid_value_id there = braid_graph_find_value(resolved, value->name);
    if (value->kind != BRAID_VALUE_RESULT || there < 0) continue;
    const braid_value *known = &resolved->values[there];
    value->desc = known->desc;
    if (!constant[i] || known->kind != BRAID_VALUE_CONSTANT || !known->tensor) continue;
    value->kind = BRAID_VALUE_CONSTANT;
    value->tensor = braid_tensor_retain(known->tensor);
    value->producer = -1;
  }
}

static braid_status take_resolved(braid_graph *graph, const braid_feed *feed, int64_t batch) {
  braid_graph *resolved;
  BRAID_TRY(braid_graph_clone(graph, &resolved));
  braid_status status = braid_feed_bind(feed, resolved, batch);
  if (status == BRAID_OK) status = braid_resolve_for_good(resolved);
  bool *constant = NULL;
  if (status == BRAID_OK) {
    constant = braid_zalloc_array(graph->allocator, graph->value_count + 1, sizeof *constant);
    if (!constant) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) take_known(graph, resolved, constant);
  braid_free(graph->allocator, constant);
  braid_graph_destroy(resolved);
  return status;
}

/* --- names ---------------------------------------------------------------------------------------------------------
 */
static bool is_layer_of(const braid_graph *model, const char *name) {
  for (size_t i = 0; i < model->node_count; i++) {
    const char *op = model->nodes[i].op->name;
    bool layer = strcmp(op, "Conv") == 0 || strcmp(op, "MatMul") == 0 || strcmp(op, "Gemm") == 0;
    if (layer && strcmp(model->nodes[i].name, name) == 0) return true;
  }
  return false;
}

/* A layer that a normalization or bias was folded into has the name of that: it gets back its own. */
static void name_layers(const braid_graph *model, braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++) {
    braid_node *node = &graph->nodes[i];
    for (braid_alias *alias = node->absorbed; alias; alias = alias->next) {
      if (!is_layer_of(model, alias->name)) continue;
      const char *folded = node->name;
      node->name = alias->name;
      alias->name = folded;
      break;
    }
  }
}

braid_status braid_quantize_prepare(const braid_graph *model, const braid_feed *feed, int64_t batch,
                                    braid_graph **out) {
  *out = NULL;
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(model, &graph));
  graph->reshaped = graph->resolved && graph->unresolved; /* what it was before has open dimensions where it can */
  braid_status status = braid_graph_unresolve(graph);
  if (status == BRAID_OK) status = make_constants(graph);
  if (status == BRAID_OK) status = braid_graph_sort(graph);
  if (status == BRAID_OK) status = take_resolved(graph, feed, batch);
  if (status == BRAID_OK) status = braid_graph_compact(graph);
  if (status == BRAID_OK) status = braid_graph_fold(graph);
  if (status == BRAID_OK) {
    name_layers(model, graph);
    *out = graph;
  } else {
    braid_graph_destroy(graph);
  }
  return status;
}
