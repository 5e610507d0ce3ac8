/* Which nodes are computed on bytes, and which values share a scale.
 *
 * Layers (convolutions and products with constant weights) are, unless they are kept or their form has no kernel; their
 * results are quantized behind a Relu or Clip that reads nothing else. What stands between layers is computed on bytes
 * where that is possible, if a layer further on reads it: so what follows the last layer (the decoding of boxes, a
 * Softmax) stays in float. Ops that only choose or move elements have the scale of their operand. The forms are those
 * that src/graph/fusion_quantized.c knows. */
#include <string.h>

#include "base/try.h"
#include "graph/ops/qlinear.h"
#include "graph/rewrite.h"
#include "quantize/internal.h"

enum { MOST_PARTS = 4 }; /* of QLinearConcat */

/* --- layers --------------------------------------------------------------------------------------------------------
 */
int braid_select_axis(const braid_node *node) {
  if (braid_node_is(node, "Conv")) return 0;
  return braid_attr_int(&node->attrs, "transB", 0) != 0 ? 0 : 1;
}

static bool is_any(const braid_node *node, const char *const *names) {
  for (; *names; names++)
    if (braid_node_is(node, *names)) return true;
  return false;
}

static const braid_value *input_of(const braid_graph *graph, const braid_node *node, size_t index) {
  braid_value_id id = braid_node_input(node, index);
  return id < 0 ? NULL : &graph->values[id];
}

static bool is_float_constant(const braid_value *value) {
  return value && value->kind == BRAID_VALUE_CONSTANT && value->tensor && value->desc.dtype == BRAID_F32;
}

/* One number for each of `channels`, along the last dimension, or one for all. */
static bool is_bias(const braid_value *value, int64_t channels) {
  if (!is_float_constant(value)) return false;
  const braid_desc *desc = &value->desc;
  int64_t count = braid_desc_count(desc);
  return count == 1 || (count == channels && desc->dims[desc->rank - 1] == channels);
}

/* Convolutions and products of other forms than those below. */
static bool has_no_kernel(const braid_node *node) {
  static const char *const kNames[] = {
      "Attention", "CausalConvWithState", "ConvTranspose", "DeformConv", "Einsum", "GRU", "LSTM", "RNN", NULL};
  return is_any(node, kNames);
}

bool braid_select_is_layer(const braid_graph *graph, const braid_node *node, const char **why) {
  bool conv = braid_node_is(node, "Conv"), gemm = braid_node_is(node, "Gemm"), matmul = braid_node_is(node, "MatMul");
  *why = has_no_kernel(node) ? "there is no kernel over bytes for it" : NULL;
  if (!conv && !gemm && !matmul) return *why;
  const braid_value *x = input_of(graph, node, 0), *w = input_of(graph, node, 1), *b = input_of(graph, node, 2);
  const braid_desc *desc = &w->desc;
  if (x->desc.dtype != BRAID_F32 || w->desc.dtype != BRAID_F32)
    *why = "its operands are not float32";
  else if (!is_float_constant(w))
    *why = "its weights are not constant";
  else if (x->kind == BRAID_VALUE_CONSTANT)
    *why = "its operand is constant";
  else if (conv ? desc->rank < 3 || x->desc.rank != desc->rank : desc->rank != 2 || x->desc.rank < 2)
    *why = "its weights are no matrix";
  else if (braid_desc_count(desc) < 1 || braid_desc_count(&x->desc) == 0)
    *why = "it has no elements";
  else if (matmul ? node->attrs.count != 0 : braid_attr_int(&node->attrs, "transA", 0) != 0)
    *why = "its operand is transposed or scaled";
  if (*why) return true;
  int64_t channels = desc->dims[braid_select_axis(node)];
  if (braid_desc_count(desc) / channels > BRAID_QLINEAR_MOST_PRODUCTS)
    *why = "it adds up more than 32,768 products";
  else if (b && !is_bias(b, channels))
    *why = "its bias is not one constant number for each channel";
  return true;
}

/* --- between layers ------------------------------------------------------------------------------------------------
 */
/* Ops that choose or move elements. */
static bool is_choice(const braid_node *node) {
  static const char *const kNames[] = {"MaxPool", "Transpose", "Slice",     "Reshape",
                                       "Flatten", "Squeeze",   "Unsqueeze", NULL};
  return is_any(node, kNames) && (node->output_count < 2 || node->outputs[1] < 0);
}

static bool is_clamp(const braid_graph *graph, const braid_node *node) {
  if (braid_node_is(node, "Relu")) return true;
  if (!braid_node_is(node, "Clip")) return false;
  for (size_t i = 1; i < 3; i++)
    if (braid_node_input(node, i) >= 0 && !is_float_constant(input_of(graph, node, i))) return false;
  return true;
}

static bool is_activation(const braid_graph *graph, const braid_node *node) {
  static const char *const kNames[] = {"Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", NULL};
  return is_any(node, kNames) || is_clamp(graph, node);
}

static bool is_real(const braid_value *value) {
  return value && value->desc.dtype == BRAID_F32 && value->kind != BRAID_VALUE_CONSTANT && value->desc.rank >= 0;
}

/* Different operands, of equal shape. */
static bool is_pair(const braid_graph *graph, const braid_node *node) {
  static const char *const kNames[] = {"Add", "Mul", NULL};
  const braid_value *a = input_of(graph, node, 0), *b = input_of(graph, node, 1);
  return is_any(node, kNames) && is_real(a) && is_real(b) && a != b && braid_desc_same_shape(&a->desc, &b->desc);
}

/* Of at most `most` parts. */
static bool is_concat(const braid_graph *graph, const braid_node *node, size_t most) {
  if (!braid_node_is(node, "Concat") || node->input_count < 2 || node->input_count > most) return false;
  for (size_t i = 0; i < node->input_count; i++) {
    if (!is_real(input_of(graph, node, i))) return false;
    for (size_t k = 0; k < i; k++)
      if (node->inputs[k] == node->inputs[i]) return false;
  }
  return true;
}

/* How many operands are quantized if the node is computed on bytes; 0: it cannot be. */
static size_t operands_between(const braid_graph *graph, const braid_node *node, size_t most_parts) {
  static const char *const kPools[] = {"AveragePool", "GlobalAveragePool", NULL};
  if (node->input_count < 1 || !is_real(input_of(graph, node, 0))) return 0;
  if (is_pair(graph, node)) return 2;
  if (is_concat(graph, node, most_parts)) return node->input_count;
  return is_choice(node) || is_activation(graph, node) || is_any(node, kPools) ? 1 : 0;
}

/* --- the selection -------------------------------------------------------------------------------------------------
 */
typedef struct selector {
  braid_selection *s;
  const bool *kept;
  size_t most_parts;     /* of a Concat on bytes */
  bool *useful;          /* of each value: a layer on bytes reads it, directly or through what stands between */
  braid_node_id *reader; /* of each value: a node that reads it; -1: none */
} selector;

static bool can_clamp_behind(const braid_node *node) {
  static const char *const kNames[] = {"Conv", "Gemm", "MatMul", "Add", "Mul", NULL};
  return is_any(node, kNames);
}

/* What is quantized of a node's result: behind a Relu or Clip that alone reads it. */
static braid_value_id result_of(const selector *t, const braid_node *node) {
  const braid_graph *graph = t->s->graph;
  braid_value_id out = node->outputs[0];
  if (!can_clamp_behind(node) || t->s->uses[out] != 1 || t->reader[out] < 0) return out;
  const braid_node *next = &graph->nodes[t->reader[out]];
  bool taken = is_clamp(graph, next) && next->inputs[0] == out && !t->kept[t->reader[out]];
  return taken ? next->outputs[0] : out;
}

static void mark_useful(const selector *t) {
  const braid_graph *graph = t->s->graph;
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[i];
    const char *why;
    if (t->kept[i] || node->output_count < 1) continue;
    if (braid_select_is_layer(graph, node, &why)) {
      if (!why) t->useful[node->inputs[0]] = true;
      continue;
    }
    size_t operands = operands_between(graph, node, t->most_parts);
    if (!operands || !t->useful[result_of(t, node)]) continue;
    for (size_t k = 0; k < operands; k++) t->useful[node->inputs[k]] = true;
  }
}

static braid_value_id add_root(const selector *t, braid_value_id value) {
  if (t->s->root[value] < 0) t->s->root[value] = value;
  return t->s->root[value];
}

static void take_node(const selector *t, size_t id, braid_quantize_role role, size_t operands) {
  const braid_node *node = &t->s->graph->nodes[id];
  braid_value_id result = result_of(t, node);
  t->s->role[id] = role;
  t->s->result[id] = result;
  for (size_t k = 0; k < operands; k++) add_root(t, node->inputs[k]);
  t->s->root[result] = is_choice(node) ? add_root(t, node->inputs[0]) : result;
  t->s->of_bytes[result] = true;
}

/* Parts that nothing but a Concat reads have its scale, where all scales are powers of two: they are rounded once, and
 * what computes them can write them where they belong. */
static void join_parts(const selector *t) {
  const braid_graph *graph = t->s->graph;
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[i];
    if (t->s->role[i] != BRAID_ROLE_BETWEEN || !braid_node_is(node, "Concat")) continue;
    for (size_t k = 0; k < node->input_count; k++) {
      braid_value_id part = node->inputs[k];
      if (t->s->uses[part] == 1 && t->s->root[part] == part && t->s->of_bytes[part])
        t->s->root[part] = t->s->root[t->s->result[i]];
    }
  }
}

/* In order: a node between layers is taken if one of its operands is bytes already. */
static void take_nodes(const selector *t) {
  const braid_graph *graph = t->s->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    const char *why;
    if (t->kept[i] || node->output_count < 1) continue;
    if (braid_select_is_layer(graph, node, &why)) {
      if (!why) take_node(t, i, BRAID_ROLE_LAYER, 1);
      continue;
    }
    size_t operands = operands_between(graph, node, t->most_parts);
    if (!operands || t->s->of_bytes[node->outputs[0]] || !t->useful[result_of(t, node)]) continue;
    bool bytes = false;
    for (size_t k = 0; k < operands; k++) bytes |= t->s->of_bytes[node->inputs[k]];
    if (bytes) take_node(t, i, BRAID_ROLE_BETWEEN, operands);
  }
}

void braid_select_deinit(braid_selection *s) {
  braid_free(s->allocator, s->role);
  braid_free(s->allocator, s->result);
  braid_free(s->allocator, s->root);
  braid_free(s->allocator, s->of_bytes);
  braid_free(s->allocator, s->uses);
  *s = (braid_selection){0};
}

static bool select_allocate(braid_selection *s, selector *t) {
  size_t nodes = s->graph->node_count + 1, values = s->graph->value_count + 1;
  s->role = braid_zalloc_array(s->allocator, nodes, sizeof *s->role);
  s->result = braid_zalloc_array(s->allocator, nodes, sizeof *s->result);
  s->root = braid_zalloc_array(s->allocator, values, sizeof *s->root);
  s->of_bytes = braid_zalloc_array(s->allocator, values, sizeof *s->of_bytes);
  s->uses = braid_zalloc_array(s->allocator, values, sizeof *s->uses);
  t->useful = braid_zalloc_array(s->allocator, values, sizeof *t->useful);
  t->reader = braid_zalloc_array(s->allocator, values, sizeof *t->reader);
  return s->role && s->result && s->root && s->of_bytes && s->uses && t->useful && t->reader;
}

braid_status braid_select(const braid_graph *graph, const bool *kept, bool power_of_two, braid_selection *out) {
  *out = (braid_selection){.allocator = graph->allocator, .graph = graph};
  selector t = {.s = out, .kept = kept, .most_parts = power_of_two ? SIZE_MAX : MOST_PARTS};
  braid_status status = select_allocate(out, &t) ? braid_graph_count_uses(graph, out->uses) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    for (size_t i = 0; i < graph->value_count; i++) out->root[i] = t.reader[i] = -1;
    for (size_t i = 0; i < graph->node_count; i++)
      for (size_t j = 0; j < graph->nodes[i].input_count; j++)
        if (graph->nodes[i].inputs[j] >= 0) t.reader[graph->nodes[i].inputs[j]] = (braid_node_id)i;
    mark_useful(&t);
    take_nodes(&t);
    if (power_of_two) join_parts(&t);
  }
  braid_free(graph->allocator, t.useful);
  braid_free(graph->allocator, t.reader);
  if (status != BRAID_OK) braid_select_deinit(out);
  return status;
}
