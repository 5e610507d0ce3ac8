#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "base/vector.h"
#include "graph/graph.h"
#include "graph/known_attrs.h"

const braid_attr *braid_attrs_find(const braid_attrs *attrs, const char *name) {
  for (size_t i = 0; attrs && i < attrs->count; i++)
    if (strcmp(attrs->items[i].name, name) == 0) return &attrs->items[i];
  return NULL;
}

static const braid_attr *find_kind(const braid_attrs *attrs, const char *name, braid_attr_kind kind) {
  const braid_attr *attr = braid_attrs_find(attrs, name);
  return attr && attr->kind == kind ? attr : NULL;
}

bool braid_attr_has(const braid_attrs *attrs, const char *name) {
  return braid_attrs_find(attrs, name) != NULL;
}

int64_t braid_attr_int(const braid_attrs *attrs, const char *name, int64_t otherwise) {
  const braid_attr *attr = find_kind(attrs, name, BRAID_ATTR_INT);
  return attr ? attr->i : otherwise;
}

double braid_attr_float(const braid_attrs *attrs, const char *name, double otherwise) {
  const braid_attr *attr = find_kind(attrs, name, BRAID_ATTR_FLOAT);
  return attr ? attr->f : otherwise;
}

const char *braid_attr_string(const braid_attrs *attrs, const char *name, const char *otherwise) {
  const braid_attr *attr = find_kind(attrs, name, BRAID_ATTR_STRING);
  return attr ? attr->s : otherwise;
}

const int64_t *braid_attr_ints(const braid_attrs *attrs, const char *name, size_t *count) {
  const braid_attr *attr = find_kind(attrs, name, BRAID_ATTR_INTS);
  *count = attr ? attr->count : 0;
  return attr ? attr->ints : NULL;
}

const float *braid_attr_floats(const braid_attrs *attrs, const char *name, size_t *count) {
  const braid_attr *attr = find_kind(attrs, name, BRAID_ATTR_FLOATS);
  *count = attr ? attr->count : 0;
  return attr ? attr->floats : NULL;
}

const char *const *braid_attr_strings(const braid_attrs *attrs, const char *name, size_t *count) {
  const braid_attr *attr = find_kind(attrs, name, BRAID_ATTR_STRINGS);
  *count = attr ? attr->count : 0;
  return attr ? attr->strings : NULL;
}

braid_tensor *braid_attr_tensor(const braid_attrs *attrs, const char *name) {
  const braid_attr *attr = find_kind(attrs, name, BRAID_ATTR_TENSOR);
  return attr ? attr->tensor : NULL;
}

/* Puts the attribute in, replacing one of the same name, and infers the node anew: its shape may follow from it. */
static braid_status put(braid_graph *graph, braid_node_id id, const char *name, braid_attr attr) {
  if (id < 0 || (size_t)id >= graph->node_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "node %d does not exist", id);
  attr.name = name;
  BRAID_TRY(braid_node_check_attr(&graph->nodes[id], &attr));
  BRAID_TRY(braid_graph_begin_change(graph));
  braid_attrs *attrs = &graph->nodes[id].attrs;
  attr.name = braid_graph_intern(graph, name, strlen(name));
  if (!attr.name) return BRAID_NO_MEMORY;
  braid_attr *slot = (braid_attr *)braid_attrs_find(attrs, name);
  if (!slot) {
    if (attrs->count == BRAID_MAX_ATTRIBUTES)
      return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s has %d attributes, and may have no more",
                        graph->nodes[id].name, BRAID_MAX_ATTRIBUTES);
    braid_attr *items = braid_grow(graph->allocator, attrs->items, attrs->count, &attrs->capacity, sizeof *items);
    if (!items) return BRAID_NO_MEMORY;
    attrs->items = items;
    slot = &items[attrs->count++];
  } else if (slot->kind == BRAID_ATTR_TENSOR) {
    braid_tensor_release(slot->tensor);
  }
  if (attr.kind == BRAID_ATTR_TENSOR) braid_tensor_retain(attr.tensor);
  *slot = attr;
  (void)!braid_graph_infer_node(graph, id); /* may still lack other attributes: resolve repeats it and reports */
  return BRAID_OK;
}

static void *copy_list(braid_graph *graph, const void *items, size_t count, size_t item_bytes) {
  if (count > SIZE_MAX / item_bytes) return NULL;
  void *copy = braid_graph_arena_alloc(graph, count ? count * item_bytes : 1);
  if (copy && count) memcpy(copy, items, count * item_bytes);
  return copy;
}

braid_status braid_graph_set_int(braid_graph *graph, braid_node_id node, const char *name, int64_t value) {
  return put(graph, node, name, (braid_attr){.kind = BRAID_ATTR_INT, .i = value});
}

braid_status braid_graph_set_float(braid_graph *graph, braid_node_id node, const char *name, double value) {
  return put(graph, node, name, (braid_attr){.kind = BRAID_ATTR_FLOAT, .f = value});
}

braid_status braid_graph_set_string(braid_graph *graph, braid_node_id node, const char *name, const char *value) {
  const char *copy = braid_graph_intern(graph, value, strlen(value));
  if (!copy) return BRAID_NO_MEMORY;
  return put(graph, node, name, (braid_attr){.kind = BRAID_ATTR_STRING, .s = copy});
}

braid_status braid_graph_set_ints(braid_graph *graph, braid_node_id node, const char *name, const int64_t *values,
                                  size_t count) {
  const int64_t *copy = copy_list(graph, values, count, sizeof *values);
  if (!copy) return BRAID_NO_MEMORY;
  return put(graph, node, name, (braid_attr){.kind = BRAID_ATTR_INTS, .count = count, .ints = copy});
}

braid_status braid_graph_set_floats(braid_graph *graph, braid_node_id node, const char *name, const float *values,
                                    size_t count) {
  const float *copy = copy_list(graph, values, count, sizeof *values);
  if (!copy) return BRAID_NO_MEMORY;
  return put(graph, node, name, (braid_attr){.kind = BRAID_ATTR_FLOATS, .count = count, .floats = copy});
}

braid_status braid_graph_set_strings(braid_graph *graph, braid_node_id node, const char *name,
                                     const char *const *values, size_t count) {
  const char **copy = copy_list(graph, values, count, sizeof *values);
  if (!copy) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++)
    if (!(copy[i] = braid_graph_intern(graph, values[i], strlen(values[i])))) return BRAID_NO_MEMORY;
  return put(graph, node, name, (braid_attr){.kind = BRAID_ATTR_STRINGS, .count = count, .strings = copy});
}

braid_status braid_graph_set_tensor(braid_graph *graph, braid_node_id node, const char *name, braid_tensor *tensor) {
  BRAID_TRY(braid_graph_check_plain(name, braid_tensor_desc(tensor)));
  return put(graph, node, name, (braid_attr){.kind = BRAID_ATTR_TENSOR, .tensor = tensor});
}

braid_status braid_attrs_copy(braid_graph *graph, braid_node_id node, const braid_attr *attr) {
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    return braid_graph_set_int(graph, node, attr->name, attr->i);
  case BRAID_ATTR_FLOAT:
    return braid_graph_set_float(graph, node, attr->name, attr->f);
  case BRAID_ATTR_STRING:
    return braid_graph_set_string(graph, node, attr->name, attr->s);
  case BRAID_ATTR_INTS:
    return braid_graph_set_ints(graph, node, attr->name, attr->ints, attr->count);
  case BRAID_ATTR_FLOATS:
    return braid_graph_set_floats(graph, node, attr->name, attr->floats, attr->count);
  case BRAID_ATTR_STRINGS:
    return braid_graph_set_strings(graph, node, attr->name, attr->strings, attr->count);
  case BRAID_ATTR_TENSOR:
    return braid_graph_set_tensor(graph, node, attr->name, attr->tensor);
  }
  return braid_fail(BRAID_INTERNAL, "attribute %s is of no known kind", attr->name);
}
