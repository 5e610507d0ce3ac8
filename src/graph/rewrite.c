#include "graph/rewrite.h"

#include "base/try.h"

static const braid_node *rewrite_producer(const braid_rewrite *r, braid_value_id id, int32_t uses) {
  if (id < 0 || r->uses[id] != uses) return NULL;
  const braid_value *value = &r->graph->values[id];
  return value->kind == BRAID_VALUE_RESULT && value->producer >= 0 ? &r->graph->nodes[value->producer] : NULL;
}

const braid_node *braid_rewrite_producer(const braid_rewrite *r, braid_value_id id, int32_t uses) {
  const braid_node *node = rewrite_producer(r, id, uses);
  return node && r->graph->values[id].desc.dtype == BRAID_F32 ? node : NULL;
}

const braid_node *braid_rewrite_real_producer(const braid_rewrite *r, braid_value_id id, int32_t uses) {
  const braid_node *node = rewrite_producer(r, id, uses);
  if (!node) return NULL;
  braid_dtype dtype = r->graph->values[id].desc.dtype;
  return dtype == BRAID_F32 || dtype == BRAID_F16 || dtype == BRAID_BF16 ? node : NULL;
}

braid_status braid_rewrite_take_names(braid_rewrite *r, braid_node_id id, braid_node_id source) {
  const braid_node *taken = &r->graph->nodes[source];
  BRAID_TRY(braid_graph_add_alias(r->graph, id, taken->name));
  for (const braid_alias *alias = taken->absorbed; alias; alias = alias->next)
    BRAID_TRY(braid_graph_add_alias(r->graph, id, alias->name));
  return BRAID_OK;
}

braid_status braid_rewrite_node(braid_rewrite *r, braid_node_id id, const char *op, const braid_value_id *inputs,
                                size_t count, braid_node_id source) {
  braid_graph *graph = r->graph;
  const braid_op *entry = braid_op_find(op);
  if (!entry) return braid_fail(BRAID_INTERNAL, "op %s is not in the table", op);
  braid_value_id *list = braid_graph_arena_alloc(graph, count * sizeof *list);
  if (!list) return BRAID_NO_MEMORY;
  memcpy(list, inputs, count * sizeof *list);
  braid_node *node = &graph->nodes[id];
  braid_attrs old = node->attrs;
  node->attrs = (braid_attrs){0};
  node->op = entry;
  node->inputs = list;
  node->input_count = count;
  braid_status status = BRAID_OK;
  const braid_attrs none = {0}, *from = source < 0 ? &none : source == id ? &old : &graph->nodes[source].attrs;
  for (size_t i = 0; status == BRAID_OK && i < from->count; i++) status = braid_attrs_copy(graph, id, &from->items[i]);
  for (size_t i = 0; i < old.count; i++)
    if (old.items[i].kind == BRAID_ATTR_TENSOR) braid_tensor_release(old.items[i].tensor);
  braid_free(graph->allocator, old.items);
  return status == BRAID_OK && source >= 0 && source != id ? braid_rewrite_take_names(r, id, source) : status;
}
