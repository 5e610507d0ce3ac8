/* From a forward graph as imported to one that can be trained. */
#include <string.h>

#include "base/try.h"
#include "graph/graph.h"

/* Inputs that training may change, by op: bit i for input i. Add is a bias only behind an op that multiplies. */
static const struct {
  const char *op;
  uint32_t parameters, states;
} kTrainable[] = {
    {"Conv", 0x6, 0},
    {"ConvTranspose", 0x6, 0},
    {"Gemm", 0x6, 0},
    {"MatMul", 0x3, 0},
    {"BatchNormalization", 0x6, 0x18},
    {"InstanceNormalization", 0x6, 0},
    {"LayerNormalization", 0x6, 0},
    {"GroupNormalization", 0x6, 0},
    {"RMSNormalization", 0x2, 0},
    {"PRelu", 0x2, 0},
    {"LSTM", 0x8e, 0},
    {"GRU", 0xe, 0},
    {"RNN", 0xe, 0},
    {"Gather", 0x1, 0},
};

static bool is_float_constant(const braid_graph *graph, braid_value_id id) {
  return id >= 0 && graph->values[id].kind == BRAID_VALUE_CONSTANT && graph->values[id].tensor &&
         braid_dtype_is_float(graph->values[id].desc.dtype);
}

/* Is `id` a Reshape, Transpose or the like of a constant weight, as exporters write them? Then the source is trained.
 */
static braid_value_id source_of(const braid_graph *graph, braid_value_id id) {
  while (id >= 0 && graph->values[id].kind == BRAID_VALUE_RESULT && graph->values[id].producer >= 0) {
    const braid_node *node = &graph->nodes[graph->values[id].producer];
    if (!(node->op->flags & BRAID_OP_VIEW) && strcmp(node->op->name, "Transpose") != 0) break;
    id = node->inputs[0];
  }
  return id;
}

static size_t promote(braid_graph *graph, braid_value_id id, braid_value_kind kind) {
  id = source_of(graph, id);
  if (!is_float_constant(graph, id)) return 0;
  graph->values[id].kind = kind;
  return 1;
}

static bool multiplies(const braid_graph *graph, braid_value_id id) {
  if (id < 0 || graph->values[id].kind != BRAID_VALUE_RESULT || graph->values[id].producer < 0) return false;
  const char *op = graph->nodes[graph->values[id].producer].op->name;
  return strcmp(op, "Conv") == 0 || strcmp(op, "MatMul") == 0 || strcmp(op, "Gemm") == 0 ||
         strcmp(op, "ConvTranspose") == 0;
}

static size_t promote_inputs(braid_graph *graph, const braid_node *node) {
  size_t promoted = 0;
  for (size_t k = 0; k < sizeof kTrainable / sizeof *kTrainable; k++) {
    if (strcmp(node->op->name, kTrainable[k].op) != 0) continue;
    for (size_t i = 0; i < node->input_count; i++) {
      if (kTrainable[k].parameters >> i & 1) promoted += promote(graph, node->inputs[i], BRAID_VALUE_PARAMETER);
      if (kTrainable[k].states >> i & 1) promote(graph, node->inputs[i], BRAID_VALUE_STATE);
    }
    return promoted;
  }
  if (strcmp(node->op->name, "Add") == 0)
    for (size_t i = 0; i < 2; i++)
      if (multiplies(graph, node->inputs[1 - i])) promoted += promote(graph, node->inputs[i], BRAID_VALUE_PARAMETER);
  return promoted;
}

/* Adds the outputs running_mean and running_var and lets them become the states' next values. */
static braid_status train_batch_norm(braid_graph *graph, braid_node_id id) {
  braid_node *node = &graph->nodes[id];
  if (braid_attr_int(&node->attrs, "training_mode", 0) != 0) return BRAID_OK;
  braid_value_id *outputs = braid_graph_arena_alloc(graph, 3 * sizeof *outputs);
  if (!outputs) return BRAID_NO_MEMORY;
  outputs[0] = node->outputs[0];
  for (int i = 1; i < 3; i++) {
    BRAID_TRY(braid_graph_add_value(graph, NULL, BRAID_VALUE_RESULT, &outputs[i]));
    graph->values[outputs[i]].producer = id;
  }
  node->outputs = outputs;
  node->output_count = 3;
  BRAID_TRY(braid_graph_set_int(graph, id, "training_mode", 1));
  for (int i = 1; i < 3; i++) {
    braid_value_id state = graph->nodes[id].inputs[2 + i];
    if (graph->values[state].kind == BRAID_VALUE_STATE && graph->values[state].next < 0)
      BRAID_TRY(braid_graph_update_state(graph, state, outputs[i]));
  }
  return BRAID_OK;
}

static braid_status train_dropout(braid_graph *graph, braid_node_id id) {
  braid_node *node = &graph->nodes[id];
  braid_value_id *inputs = braid_graph_arena_alloc(graph, 3 * sizeof *inputs);
  if (!inputs) return BRAID_NO_MEMORY;
  inputs[0] = node->inputs[0];
  inputs[1] = node->input_count > 1 ? node->inputs[1] : -1;
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_BOOL, 0, NULL));
  braid_tensor *yes;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &yes));
  *(uint8_t *)braid_tensor_data(yes) = 1;
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, yes, &inputs[2]);
  braid_tensor_release(yes);
  if (status != BRAID_OK) return status;
  node = &graph->nodes[id];
  node->inputs = inputs;
  node->input_count = 3;
  return BRAID_OK;
}

braid_status braid_graph_make_trainable(braid_graph *graph) {
  BRAID_TRY(braid_graph_sort(graph));
  size_t promoted = 0;
  for (size_t i = 0; i < graph->node_count; i++) promoted += promote_inputs(graph, &graph->nodes[i]);
  if (!promoted) return braid_fail(BRAID_INVALID_GRAPH, "graph %.120s has no trainable weights", graph->name);
  for (size_t i = 0; i < graph->node_count; i++) {
    const char *op = graph->nodes[i].op->name;
    if (strcmp(op, "BatchNormalization") == 0) BRAID_TRY(train_batch_norm(graph, (braid_node_id)i));
    if (strcmp(op, "Dropout") == 0) BRAID_TRY(train_dropout(graph, (braid_node_id)i));
  }
  return BRAID_OK;
}
