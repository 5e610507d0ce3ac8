#include "graph/control.h"

#include <string.h>

#include "base/try.h"

/* Shapes are those of the branch that is taken, known only once the condition is: braid_control_step. */
static braid_status infer_later(const braid_infer *infer) {
  (void)infer;
  return BRAID_OK;
}

static const braid_op kOps[] = {
    {"If", 1, -1, 0, -1, BRAID_OP_NARROW, infer_later, NULL, NULL},
    {"IfBranch", 2, 2, 1, 1, BRAID_OP_NARROW, infer_later, NULL, NULL},
};

extern const braid_op_family braid_ops_control;
const braid_op_family braid_ops_control = {kOps, sizeof kOps / sizeof *kOps};

bool braid_control_is(const braid_node *node) {
  return node->op->infer == infer_later;
}

static void kill_outputs(const braid_node *node, bool *dead) {
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) dead[node->outputs[i]] = true;
}

static braid_status decide(braid_graph *graph, const braid_node *node, bool *truth) {
  const braid_value *condition = &graph->values[node->inputs[0]];
  if (!condition->tensor || condition->kind == BRAID_VALUE_PARAMETER || condition->kind == BRAID_VALUE_STATE)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): its condition %.120s is computed from the inputs' data, %s",
                      node->name, node->op->name, condition->name, "only shapes and constants can decide a branch");
  if (condition->desc.dtype != BRAID_BOOL || braid_desc_count(&condition->desc) != 1)
    return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): its condition %.120s is not one bool", node->name,
                      node->op->name, condition->name);
  BRAID_TRY(braid_graph_track_inputs(graph, node));
  braid_value_note_read(condition);
  *truth = braid_tensor_get_i64(condition->tensor, 0) != 0;
  return BRAID_OK;
}

/* The condition of a branch inside a branch that is not taken is dead, and so is all that hangs on it. */
braid_status braid_control_step(braid_graph *graph, braid_node_id id, bool *dead, bool *skip) {
  braid_node *node = &graph->nodes[id];
  bool control = braid_control_is(node), truth;
  size_t watched = control ? 1 : node->input_count; /* an If is alive although one of its branches is not */
  *skip = control;
  for (size_t i = 0; i < watched; i++)
    if (node->inputs[i] >= 0 && dead[node->inputs[i]]) *skip = true;
  bool condition_dead = control && dead[node->inputs[0]];
  if (condition_dead || (!control && *skip)) kill_outputs(node, dead);
  if (condition_dead || !control) return BRAID_OK;
  BRAID_TRY(decide(graph, node, &truth));
  if (strcmp(node->op->name, "IfBranch") == 0) {
    bool taken = truth == (braid_attr_int(&node->attrs, "branch", 1) != 0);
    if (taken && !dead[node->inputs[1]])
      braid_graph_replace_uses(graph, node->outputs[0], node->inputs[1]);
    else
      kill_outputs(node, dead);
    return BRAID_OK;
  }
  for (size_t i = 0; i < node->output_count; i++) {
    size_t from = 1 + i + (truth ? 0 : node->output_count);
    if (from >= node->input_count)
      return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (If): has too few values for its outputs", node->name);
    if (node->outputs[i] >= 0) braid_graph_replace_uses(graph, node->outputs[i], node->inputs[from]);
  }
  return BRAID_OK;
}
