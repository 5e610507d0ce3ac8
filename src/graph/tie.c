/* Constants that hold the numbers of a parameter in another order become computed from it.
 *
 * A network that uses a matrix as it is and transposed (an embedding and the layer of the output, say) is stored by
 * exporters as two initializers, the second folded from the first and named by the exporter. Trained by themselves they
 * would part. Where the file says which parameters a call took (PyTorch's newer exporter), the two are one if both
 * their calls took it; elsewhere if the numbers are the same and differ among themselves, which no initialization by a
 * constant makes equal. What is tied so is said with the constant, as the reason why it does not train itself. */
#include <string.h>

#include "base/try.h"
#include "graph/trainable.h"

static const char kTied[] = "the numbers of another tensor in another order, with which it trains as one";

typedef enum order { ORDER_OTHER, ORDER_SAME, ORDER_TRANSPOSED } order;

static bool is_transposed(const braid_tensor *copy, const braid_tensor *source) {
  const braid_desc *desc = braid_tensor_desc(source);
  size_t bytes = braid_dtype_size(desc->dtype), rows = (size_t)desc->dims[0], columns = (size_t)desc->dims[1];
  const uint8_t *a = braid_tensor_const_data(copy), *b = braid_tensor_const_data(source);
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++)
      if (memcmp(a + (j * rows + i) * bytes, b + (i * columns + j) * bytes, bytes) != 0) return false;
  return true;
}

static order find_order(const braid_value *copy, const braid_value *source) {
  const braid_desc *a = &copy->desc, *b = &source->desc;
  int64_t count = braid_desc_count(a);
  if (a->dtype != b->dtype || count != braid_desc_count(b) || count < 2) return ORDER_OTHER;
  if (a->rank == 2 && b->rank == 2 && a->dims[0] == b->dims[1] && is_transposed(copy->tensor, source->tensor))
    return ORDER_TRANSPOSED;
  bool same = !braid_desc_same_shape(a, b) && memcmp(braid_tensor_const_data(copy->tensor),
                                                     braid_tensor_const_data(source->tensor), braid_desc_bytes(a)) == 0;
  return same ? ORDER_SAME : ORDER_OTHER;
}

static bool may_train(const braid_value *value) {
  bool known = value->origin == BRAID_ORIGIN_TRAINED || value->origin == BRAID_ORIGIN_FIXED;
  return value->kind == BRAID_VALUE_CONSTANT && value->tensor && braid_dtype_is_float(value->desc.dtype) && !known &&
         !braid_value_never_trains(value);
}

/* The parameters that the first node takes which uses the value; NULL: not known. *used: one does. */
static const char *call_of(const braid_graph *graph, braid_value_id id, bool *used) {
  *used = false;
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t j = 0; j < graph->nodes[i].input_count; j++) {
      if (graph->nodes[i].inputs[j] != id) continue;
      *used = true;
      if (graph->nodes[i].call) return graph->nodes[i].call;
    }
  return NULL;
}

static bool is_one(const braid_graph *graph, braid_value_id copy, braid_value_id source) {
  bool copy_used, source_used;
  const char *one = call_of(graph, copy, &copy_used), *other = call_of(graph, source, &source_used);
  if (!copy_used || !source_used) return false;
  if (one && other) return braid_calls_share(&graph->values[source], one, other);
  return !braid_tensor_is_uniform(graph->values[source].tensor);
}

static braid_status add_shape(braid_graph *graph, const braid_desc *desc, braid_value_id *out) {
  braid_desc list;
  braid_tensor *shape;
  BRAID_TRY(braid_desc_init(&list, BRAID_I64, 1, &(int64_t){desc->rank}));
  BRAID_TRY(braid_tensor_create(graph->allocator, &list, &shape));
  if (desc->rank) memcpy(braid_tensor_data(shape), desc->dims, (size_t)desc->rank * sizeof *desc->dims);
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, shape, out);
  braid_tensor_release(shape);
  return status;
}

static braid_status tie(braid_graph *graph, braid_value_id copy, braid_value_id source, order how) {
  braid_value_id inputs[2] = {source, -1}, made = 0;
  braid_node_id node;
  bool transposed = how == ORDER_TRANSPOSED;
  if (!transposed) BRAID_TRY(add_shape(graph, &graph->values[copy].desc, &inputs[1]));
  BRAID_TRY(braid_graph_add_node(graph, transposed ? "Transpose" : "Reshape", NULL, inputs, transposed ? 1 : 2, &made,
                                 1, &node));
  if (transposed) BRAID_TRY(braid_graph_set_ints(graph, node, "perm", (int64_t[]){1, 0}, 2));
  bool used;
  graph->nodes[node].call = call_of(graph, copy, &used); /* braid_graph_untie is to see one parameter, too */
  braid_graph_replace_uses(graph, copy, made);
  graph->values[copy].fixed = kTied;
  return BRAID_OK;
}

braid_status braid_graph_tie(braid_graph *graph) {
  size_t count = graph->value_count;
  for (size_t i = 0; i < count; i++) {
    if (!may_train(&graph->values[i]) || !braid_name_is_made_up(graph->values[i].name)) continue;
    for (size_t j = 0; j < count; j++) {
      const braid_value *source = &graph->values[j];
      if (!may_train(source) || braid_name_is_made_up(source->name)) continue;
      order how = find_order(&graph->values[i], source);
      if (how == ORDER_OTHER || !is_one(graph, (braid_value_id)i, (braid_value_id)j)) continue;
      BRAID_TRY(tie(graph, (braid_value_id)i, (braid_value_id)j, how));
      break;
    }
  }
  return braid_graph_sort(graph);
}
