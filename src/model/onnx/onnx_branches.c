#include "model/onnx/onnx_branches.h"

#include <string.h>

#include "base/arena.h"

static const size_t kNowhere = (size_t)-1;

bool braid_onnx_is_if(const braid_node *node) {
  return strcmp(node->op->name, "If") == 0;
}

bool braid_onnx_is_capture(const braid_node *node) {
  return strcmp(node->op->name, "IfBranch") == 0;
}

braid_value_id braid_onnx_outside_value(const braid_graph *graph, braid_value_id value) {
  while (value >= 0 && graph->values[value].kind == BRAID_VALUE_RESULT && graph->values[value].producer >= 0) {
    const braid_node *node = &graph->nodes[graph->values[value].producer];
    if (!braid_onnx_is_capture(node)) break;
    value = node->inputs[1];
  }
  return value;
}

/* The innermost region that holds both. */
static size_t common_region(const braid_onnx_region *regions, size_t a, size_t b) {
  if (a == kNowhere) return b;
  while (a != b) {
    size_t *deeper = regions[a].depth >= regions[b].depth ? &a : &b;
    *deeper = regions[*deeper].parent;
  }
  return a;
}

/* Nodes from the last to the first, so that all uses of a node's outputs are known when its turn comes. `used_in` has
 * one region per value. */
static void assign_regions(const braid_graph *graph, const bool *live, braid_onnx_branches *out, size_t *used_in) {
  for (size_t i = 0; i < graph->value_count; i++) used_in[i] = kNowhere;
  for (size_t i = 0; i < graph->output_count; i++) used_in[graph->outputs[i]] = 0;
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[i];
    if (!live[i]) continue;
    size_t here = kNowhere;
    for (size_t j = 0; j < node->output_count; j++)
      if (node->outputs[j] >= 0 && used_in[node->outputs[j]] != kNowhere)
        here = common_region(out->regions, here, used_in[node->outputs[j]]);
    out->of_node[i] = here;
    bool joins = braid_onnx_is_if(node);
    size_t then_branch = out->first_of[i];
    for (size_t b = 0; joins && b < 2; b++)
      out->regions[then_branch + b] = (braid_onnx_region){here, out->regions[here].depth + 1};
    for (size_t j = 0; j < node->input_count; j++) {
      if (node->inputs[j] < 0 || (j == 0 && braid_onnx_is_capture(node))) continue;
      size_t use = here;
      if (joins && j > 0) use = then_branch + (j > node->output_count);
      used_in[node->inputs[j]] = common_region(out->regions, used_in[node->inputs[j]], use);
    }
  }
}

braid_status braid_onnx_find_branches(const braid_graph *graph, const bool *live, braid_arena *arena,
                                      braid_onnx_branches *out) {
  out->count = 1;
  out->of_node = braid_arena_alloc(arena, (graph->node_count + 1) * sizeof *out->of_node);
  out->first_of = braid_arena_alloc(arena, (graph->node_count + 1) * sizeof *out->first_of);
  if (!out->of_node || !out->first_of) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->node_count; i++) {
    if (!live[i] || !braid_onnx_is_if(&graph->nodes[i])) continue;
    if (graph->nodes[i].input_count != 1 + 2 * graph->nodes[i].output_count)
      return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (If): has %zu inputs and %zu outputs", graph->nodes[i].name,
                        graph->nodes[i].input_count, graph->nodes[i].output_count);
    out->first_of[i] = out->count;
    out->count += 2;
  }
  out->regions = braid_arena_alloc(arena, out->count * sizeof *out->regions);
  size_t *used_in = braid_arena_alloc(arena, (graph->value_count + 1) * sizeof *used_in);
  if (!out->regions || !used_in) return BRAID_NO_MEMORY;
  assign_regions(graph, live, out, used_in);
  return BRAID_OK;
}
