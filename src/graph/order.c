/* Order and size of a graph: topological sort, removal of what nothing needs. */
#include <string.h>

#include "base/map.h"
#include "base/try.h"
#include "graph/graph.h"

/* A folded value is a CONSTANT although its old producer still lists it as an output: such a node computes nothing
 * anybody reads. */
static bool produces(const braid_graph *graph, braid_node_id node, braid_value_id value) {
  return value >= 0 && graph->values[value].kind == BRAID_VALUE_RESULT && graph->values[value].producer == node;
}

/* --- sort ----------------------------------------------------------------------------------------------------------
 */
static void set_producers(braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t j = 0; j < graph->nodes[i].output_count; j++) {
      braid_value_id id = graph->nodes[i].outputs[j];
      if (id >= 0 && graph->values[id].kind == BRAID_VALUE_RESULT) graph->values[id].producer = (braid_node_id)i;
    }
}

static bool is_sorted(const braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t j = 0; j < graph->nodes[i].input_count; j++) {
      braid_value_id id = graph->nodes[i].inputs[j];
      if (id >= 0 && graph->values[id].kind == BRAID_VALUE_RESULT && graph->values[id].producer >= (braid_node_id)i)
        return false;
    }
  return true;
}

/* Depth-first in the order the nodes stand, so that a graph that needs no change keeps its order. `mark`: 0 new, 1 on
 * the path, 2 done. `path` and `next_input` are stacks of node_count entries. */
static braid_status visit_all(const braid_graph *graph, uint8_t *mark, braid_node_id *path, size_t *next_input,
                              braid_node_id *order) {
  size_t ordered = 0;
  for (size_t root = 0; root < graph->node_count; root++) {
    if (mark[root]) continue;
    size_t depth = 0;
    path[0] = (braid_node_id)root;
    next_input[0] = 0;
    mark[root] = 1;
    for (;;) {
      const braid_node *node = &graph->nodes[path[depth]];
      if (next_input[depth] == node->input_count) {
        mark[path[depth]] = 2;
        order[ordered++] = path[depth];
        if (depth-- == 0) break;
        continue;
      }
      braid_value_id id = node->inputs[next_input[depth]++];
      if (id < 0 || graph->values[id].kind != BRAID_VALUE_RESULT) continue;
      braid_node_id producer = graph->values[id].producer;
      if (producer < 0)
        return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): input %.120s is computed by no node", node->name,
                          node->op->name, graph->values[id].name);
      if (mark[producer] == 1)
        return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s) is on a cycle through value %.120s", node->name,
                          node->op->name, graph->values[id].name);
      if (mark[producer]) continue;
      mark[producer] = 1;
      path[++depth] = producer;
      next_input[depth] = 0;
    }
  }
  return BRAID_OK;
}

braid_status braid_graph_sort(braid_graph *graph) {
  set_producers(graph);
  size_t count = graph->node_count;
  const braid_allocator *allocator = graph->allocator;
  uint8_t *mark = braid_zalloc_array(allocator, count, sizeof *mark);
  braid_node_id *path = braid_zalloc_array(allocator, count, sizeof *path);
  size_t *next_input = braid_zalloc_array(allocator, count, sizeof *next_input);
  braid_node_id *order = braid_zalloc_array(allocator, count, sizeof *order);
  braid_status status = mark && path && next_input && order ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = visit_all(graph, mark, path, next_input, order);
  if (status == BRAID_OK && !is_sorted(graph)) {
    braid_node *sorted = braid_zalloc_array(allocator, count, sizeof *sorted);
    if (sorted) {
      for (size_t i = 0; i < count; i++) sorted[i] = graph->nodes[order[i]];
      braid_free(allocator, graph->nodes);
      graph->nodes = sorted;
      graph->node_capacity = count;
      set_producers(graph);
    } else {
      status = BRAID_NO_MEMORY;
    }
  }
  braid_free(allocator, mark);
  braid_free(allocator, path);
  braid_free(allocator, next_input);
  braid_free(allocator, order);
  return status;
}

/* --- uses ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_graph_count_uses(const braid_graph *graph, int32_t *uses) {
  memset(uses, 0, graph->value_count * sizeof *uses);
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t j = 0; j < graph->nodes[i].input_count; j++)
      if (graph->nodes[i].inputs[j] >= 0) uses[graph->nodes[i].inputs[j]]++;
  for (size_t i = 0; i < graph->output_count; i++) uses[graph->outputs[i]]++;
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].next >= 0) uses[graph->values[i].next]++;
  return BRAID_OK;
}

/* --- compaction ----------------------------------------------------------------------------------------------------
 */
/* Marks what the outputs and the state updates need; nodes stand in topological order, so one sweep backwards does. */
static void mark_needed(const braid_graph *graph, bool *need_value, bool *need_node) {
  for (size_t i = 0; i < graph->input_count; i++) need_value[graph->inputs[i]] = true;
  for (size_t i = 0; i < graph->output_count; i++) need_value[graph->outputs[i]] = true;
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].next >= 0) need_value[i] = need_value[graph->values[i].next] = true;
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[i];
    for (size_t j = 0; j < node->output_count; j++)
      if (produces(graph, (braid_node_id)i, node->outputs[j]) && need_value[node->outputs[j]]) need_node[i] = true;
    if (!need_node[i]) continue;
    for (size_t j = 0; j < node->input_count; j++)
      if (node->inputs[j] >= 0) need_value[node->inputs[j]] = true;
    for (size_t j = 0; j < node->output_count; j++)
      if (j < (size_t)node->op->min_outputs && node->outputs[j] >= 0) need_value[node->outputs[j]] = true;
  }
}

static void renumber(braid_value_id *ids, size_t count, const braid_value_id *map) {
  for (size_t i = 0; i < count; i++)
    if (ids[i] >= 0) ids[i] = map[ids[i]];
}

/* Constants stay with what they were dequantized from: a device may rather compute with that. */
static void mark_quantized(const braid_graph *graph, bool *need_value) {
  for (size_t i = 0; i < graph->value_count; i++)
    for (int k = 0; k < 3 && need_value[i]; k++)
      if (graph->values[i].quantized[k] >= 0) need_value[graph->values[i].quantized[k]] = true;
}

/* Packs nodes and values; `map` gives each value's new index, or -1. */
static void graph_pack(braid_graph *graph, const bool *need_value, const bool *need_node, braid_value_id *map) {
  size_t nodes = 0, values = 0;
  for (size_t i = 0; i < graph->value_count; i++) {
    map[i] = need_value[i] ? (braid_value_id)values : -1;
    if (need_value[i]) {
      graph->values[values++] = graph->values[i];
    } else {
      braid_name_map_remove(graph->names, graph->values[i].name);
      braid_tensor_release(graph->values[i].tensor);
    }
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    if (need_node[i]) {
      graph->nodes[nodes++] = graph->nodes[i];
      continue;
    }
    braid_attrs *attrs = &graph->nodes[i].attrs;
    for (size_t j = 0; j < attrs->count; j++)
      if (attrs->items[j].kind == BRAID_ATTR_TENSOR) braid_tensor_release(attrs->items[j].tensor);
    braid_free(graph->allocator, attrs->items);
  }
  graph->node_count = nodes;
  graph->value_count = values;
  for (size_t i = 0; i < nodes; i++) {
    renumber(graph->nodes[i].inputs, graph->nodes[i].input_count, map);
    renumber(graph->nodes[i].outputs, graph->nodes[i].output_count, map);
  }
  renumber(graph->inputs, graph->input_count, map);
  renumber(graph->outputs, graph->output_count, map);
  for (size_t i = 0; i < values; i++) {
    renumber(&graph->values[i].next, 1, map);
    renumber(graph->values[i].quantized, 3, map);
  }
}

braid_status braid_graph_compact(braid_graph *graph) {
  BRAID_TRY(braid_graph_sort(graph));
  const braid_allocator *allocator = graph->allocator;
  bool *need_value = braid_zalloc_array(allocator, graph->value_count, sizeof *need_value);
  bool *need_node = braid_zalloc_array(allocator, graph->node_count, sizeof *need_node);
  braid_value_id *map = braid_zalloc_array(allocator, graph->value_count, sizeof *map);
  braid_status status = need_value && need_node && map ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    mark_needed(graph, need_value, need_node);
    mark_quantized(graph, need_value);
    graph_pack(graph, need_value, need_node, map);
    /* names whose number has changed; the entries exist already, so this cannot run out of memory */
    for (size_t i = 0; status == BRAID_OK && i < graph->value_count; i++)
      status = braid_name_map_set(graph->names, graph->values[i].name, (int64_t)i);
    set_producers(graph);
  }
  braid_free(allocator, need_value);
  braid_free(allocator, need_node);
  braid_free(allocator, map);
  return status;
}
