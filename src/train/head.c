/* Another number of classes for a trained network: the last layer is replaced.
 *
 * From the output back, ops that treat every class alike (Softmax, views, pooling, activations, a bias) are passed
 * until a layer with weights is met: Gemm, MatMul or Conv. Its weights, and what has one number per class after it, are
 * drawn anew; shapes that name the old number of classes are written anew. */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "base/try.h"
#include "graph/graph.h"
#include "runtime/plan/resolve.h"
#include "train/step.h"

enum { kHeadStream = 0x4EAD };

typedef struct head {
  braid_graph *graph;
  int64_t was, classes;
  uint64_t seed;
} head;

/* --- tensors -------------------------------------------------------------------------------------------------------
 */
static size_t count_uses(const braid_graph *graph, braid_value_id value) {
  size_t uses = 0;
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t k = 0; k < graph->nodes[i].input_count; k++) uses += graph->nodes[i].inputs[k] == value;
  return uses;
}

/* Input `k` of the node becomes `tensor`, under its old name unless others use it. */
static braid_status replace_input(head *h, braid_node *node, size_t k, braid_tensor *tensor) {
  braid_value *value = &h->graph->values[node->inputs[k]];
  if (count_uses(h->graph, node->inputs[k]) == 1) {
    braid_tensor_release(value->tensor);
    value->tensor = braid_tensor_retain(tensor);
    value->desc = *braid_tensor_desc(tensor);
    return BRAID_OK;
  }
  return braid_graph_add_tensor(h->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &node->inputs[k]);
}

/* Numbers of a uniform distribution in [-limit, limit]; 0 gives zeros. */
static braid_status draw(head *h, braid_node *node, size_t k, const braid_desc *desc, double limit) {
  if (!braid_dtype_is_float(desc->dtype))
    return braid_fail(BRAID_UNSUPPORTED, "the last layer has weights of %s; its head can't be replaced",
                      braid_dtype_name(desc->dtype));
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(h->graph->allocator, desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(desc); i++)
    braid_tensor_set_f64(tensor, i,
                         limit * (2 * (double)braid_random_uniform(h->seed, 0, kHeadStream, (uint64_t)i) - 1));
  braid_status status = replace_input(h, node, k, tensor);
  braid_tensor_release(tensor);
  return status;
}

/* --- layers --------------------------------------------------------------------------------------------------------
 */
static const braid_value *constant_of(const head *h, braid_value_id value) {
  if (value < 0 || h->graph->values[value].kind != BRAID_VALUE_CONSTANT) return NULL;
  return &h->graph->values[value];
}

/* A number per class: dimension `*at` is the classes, all others are 1. */
static bool is_per_class(const head *h, const braid_value *value, int *at) {
  if (!value || braid_desc_count(&value->desc) != h->was) return false;
  for (*at = 0; *at < value->desc.rank; ++*at)
    if (value->desc.dims[*at] == h->was) return true;
  return false;
}

static braid_status resize_bias(head *h, braid_node *node, size_t k) {
  int at;
  const braid_value *value = node->input_count > k ? constant_of(h, node->inputs[k]) : NULL;
  if (!is_per_class(h, value, &at)) return BRAID_OK; /* a single number serves any number of classes */
  braid_desc desc = value->desc;
  desc.dims[at] = h->classes;
  return draw(h, node, k, &desc, 0);
}

/* As PyTorch begins a Linear and a Conv2d: uniform within 1 / sqrt(inputs of a class); the bias is 0. */
static braid_status replace_weights(head *h, braid_node *node, size_t k, int class_axis) {
  const braid_value *value = constant_of(h, node->inputs[k]);
  if (!value)
    return braid_fail(BRAID_UNSUPPORTED, "the last layer, %.120s, computes its weights; its head can't be replaced",
                      node->name);
  braid_desc desc = value->desc;
  class_axis += class_axis < 0 ? desc.rank : 0;
  if (class_axis < 0 || class_axis >= desc.rank || desc.dims[class_axis] != h->was)
    return braid_fail(BRAID_UNSUPPORTED, "the last layer, %.120s, does not give one score a class", node->name);
  desc.dims[class_axis] = h->classes;
  double inputs = (double)braid_desc_count(&value->desc) / (double)h->was;
  return draw(h, node, k, &desc, 1 / sqrt(fmax(inputs, 1)));
}

static bool is_one_of(const char *op, const char *const *names) {
  for (; *names; names++)
    if (strcmp(op, *names) == 0) return true;
  return false;
}

/* A constant shape with the old number of classes gets the new one. */
static braid_status reshape_classes(head *h, braid_node *node) {
  const braid_value *value = node->input_count > 1 ? constant_of(h, node->inputs[1]) : NULL;
  if (strcmp(node->op->name, "Reshape") != 0 || !value || value->desc.dtype != BRAID_I64) return BRAID_OK;
  braid_tensor *tensor;
  bool found = false;
  BRAID_TRY(braid_tensor_create(h->graph->allocator, &value->desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&value->desc); i++) {
    int64_t size = braid_tensor_get_i64(value->tensor, i);
    ((int64_t *)braid_tensor_data(tensor))[i] = size == h->was ? h->classes : size;
    found |= size == h->was;
  }
  braid_status status = found ? replace_input(h, node, 1, tensor) : BRAID_OK;
  braid_tensor_release(tensor);
  return status;
}

/* Replaces the layer `node` (*done), or passes it: *value is then where to look next. */
static braid_status replace_layer(head *h, braid_node *node, braid_value_id *value, bool *done) {
  static const char *const kAlike[] = {
      "Softmax", "LogSoftmax", "Cast",     "Relu",    "LeakyRelu",   "Sigmoid", "GlobalAveragePool", "ReduceMean",
      "Dropout", "Flatten",    "Identity", "Reshape", "AveragePool", "Squeeze", "Unsqueeze",         NULL};
  const char *op = node->op->name;
  if (strcmp(op, "Gemm") == 0) {
    *done = true;
    BRAID_TRY(resize_bias(h, node, 2));
    return replace_weights(h, node, 1, braid_attr_int(&node->attrs, "transB", 0) ? 0 : 1);
  }
  if (strcmp(op, "MatMul") == 0) {
    *done = true;
    return replace_weights(h, node, 1, -1);
  }
  if (strcmp(op, "Conv") == 0 && braid_attr_int(&node->attrs, "group", 1) == 1) {
    *done = true;
    BRAID_TRY(resize_bias(h, node, 2));
    return replace_weights(h, node, 1, 0);
  }
  if (strcmp(op, "Add") == 0) {
    size_t k = constant_of(h, node->inputs[0]) ? 0 : 1;
    BRAID_TRY(resize_bias(h, node, k));
    *value = node->inputs[1 - k];
    return BRAID_OK;
  }
  if (!is_one_of(op, kAlike))
    return braid_fail(BRAID_UNSUPPORTED,
                      "the head can't be replaced: between the output and the last layer with weights stands %.120s, "
                      "a %s",
                      node->name, op);
  *value = node->inputs[0];
  return reshape_classes(h, node);
}

/* What the file declares of a value that the scores pass through. */
static void declare_classes(head *h, braid_value_id value) {
  braid_desc *desc = &h->graph->values[value].desc;
  for (int i = 1; i < desc->rank; i++)
    if (desc->dims[i] == h->was) desc->dims[i] = h->classes;
}

static braid_status replace_head(head *h) {
  if (!braid_graph_output_count(h->graph)) return braid_fail(BRAID_INVALID_GRAPH, "the model has no output");
  braid_value_id value = h->graph->outputs[0];
  for (bool done = false; !done;) {
    if (value < 0 || h->graph->values[value].kind != BRAID_VALUE_RESULT)
      return braid_fail(BRAID_UNSUPPORTED, "the head can't be replaced: no layer with weights gives the output");
    declare_classes(h, value);
    BRAID_TRY(replace_layer(h, &h->graph->nodes[h->graph->values[value].producer], &value, &done));
  }
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
/* How many scores the model gives a sample of this data. */
static braid_status count_scores(const braid_graph *model, const braid_dataset_info *info, int64_t *out) {
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(model, &graph));
  braid_status status = braid_bind_input(graph, info, 1);
  if (status == BRAID_OK) status = braid_resolve_for_good(graph);
  if (status == BRAID_OK && !graph->output_count) status = braid_fail(BRAID_INVALID_GRAPH, "the model has no output");
  if (status == BRAID_OK) *out = braid_desc_count(&graph->values[graph->outputs[0]].desc);
  braid_graph_destroy(graph);
  return status;
}

braid_status braid_replace_head(const braid_graph *model, const braid_dataset *dataset, uint64_t seed,
                                braid_graph **out) {
  *out = NULL;
  braid_dataset_info info = braid_dataset_get_info(dataset);
  head h = {.classes = info.classes, .seed = seed};
  int64_t scores = 0;
  BRAID_TRY(count_scores(model, &info, &h.was));
  BRAID_TRY(braid_graph_clone(model, &h.graph));
  braid_status status = braid_graph_unresolve(h.graph);
  if (status == BRAID_OK) status = replace_head(&h);
  if (status == BRAID_OK) status = count_scores(h.graph, &info, &scores);
  if (status == BRAID_OK && scores != h.classes)
    status = braid_fail(BRAID_UNSUPPORTED, "the head can't be replaced: the model then gives %lld scores, not %lld",
                        (long long)scores, (long long)h.classes);
  if (status == BRAID_OK)
    *out = h.graph;
  else
    braid_graph_destroy(h.graph);
  return status;
}
