/* The quantized graph: QuantizeLinear and DequantizeLinear behind every value that becomes bytes, weights and biases as
 * integers with a DequantizeLinear each. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "graph/rewrite.h"
#include "quantize/internal.h"

typedef struct emitter {
  const braid_work *work;
  const braid_selection *selection;
  braid_graph *graph;             /* a copy of the selection's, whose ids stay valid */
  braid_value_id *scales, *zeros; /* of roots, once they are needed */
} emitter;

/* --- names ---------------------------------------------------------------------------------------------------------
 */
enum { NAME = 256 };

/* A free name: stem and suffix, numbered if they are taken. */
static const char *free_name(const braid_graph *graph, const char *stem, const char *suffix, char name[NAME]) {
  snprintf(name, NAME, "%.200s%s", stem, suffix);
  for (int i = 2; braid_graph_find_value(graph, name) >= 0; i++) snprintf(name, NAME, "%.200s%s_%d", stem, suffix, i);
  return name;
}

static braid_status add_constant(braid_graph *graph, const char *stem, const char *suffix, braid_tensor *tensor,
                                 braid_value_id *out) {
  char name[NAME];
  return braid_graph_add_tensor(graph, free_name(graph, stem, suffix, name), BRAID_VALUE_CONSTANT, tensor, out);
}

static braid_status add_number(braid_graph *graph, const char *stem, const char *suffix, braid_dtype dtype,
                               double number, braid_value_id *out) {
  char name[NAME];
  free_name(graph, stem, suffix, name);
  BRAID_TRY(braid_graph_add_scalar(graph, dtype, number, out));
  return braid_graph_rename_value(graph, *out, name);
}

/* --- activations ---------------------------------------------------------------------------------------------------
 */
static braid_status add_root(emitter *e, braid_value_id root) {
  if (e->scales[root] >= 0) return BRAID_OK;
  /* the root of the whole selection, which calibration has seen */
  braid_value_id seen = e->work->root[root];
  if (seen < 0) return braid_fail(BRAID_INTERNAL, "value %.120s was not calibrated", e->graph->values[root].name);
  const braid_scale *scale = &e->work->scales[seen];
  braid_dtype dtype = e->work->options.signed_activations ? BRAID_I8 : BRAID_U8;
  const char *name = e->graph->values[root].name;
  BRAID_TRY(add_number(e->graph, name, "_scale", BRAID_F32, (double)scale->scale, &e->scales[root]));
  return add_number(e->graph, name, "_zero_point", dtype, scale->zero_point, &e->zeros[root]);
}

/* Adds a node of one result, which gets `name` and the type and shape of a node's result. */
static braid_status add_node(braid_graph *graph, const char *op, const char *node_name, const braid_value_id inputs[3],
                             const char *name, braid_node_id *id, braid_value_id *out) {
  BRAID_TRY(braid_graph_add_node(graph, op, node_name, inputs, 3, out, 1, id));
  return braid_graph_rename_value(graph, *out, name);
}

/* QuantizeLinear and DequantizeLinear behind `value`; *quantize is the former's id. */
static braid_status add_pair(emitter *e, braid_value_id value, braid_node_id *quantize, braid_value_id *out) {
  braid_value_id root = e->selection->root[value], bytes = -1;
  BRAID_TRY(add_root(e, root));
  char name[NAME], node_name[NAME];
  const char *stem = e->graph->values[value].name;
  snprintf(node_name, sizeof node_name, "%.200s_QuantizeLinear", stem);
  braid_value_id inputs[3] = {value, e->scales[root], e->zeros[root]};
  BRAID_TRY(add_node(e->graph, "QuantizeLinear", node_name, inputs, free_name(e->graph, stem, "_quantized", name),
                     quantize, &bytes));
  snprintf(node_name, sizeof node_name, "%.200s_DequantizeLinear", stem);
  inputs[0] = bytes;
  *out = -1;
  braid_node_id id;
  return add_node(e->graph, "DequantizeLinear", node_name, inputs, free_name(e->graph, stem, "_dequantized", name), &id,
                  out);
}

static bool is_output(const braid_graph *graph, braid_value_id value) {
  for (size_t i = 0; i < graph->output_count; i++)
    if (graph->outputs[i] == value) return true;
  return false;
}

/* An output of the model keeps its name. */
static braid_status swap_names(braid_graph *graph, braid_value_id value, braid_value_id output) {
  char name[NAME], spare[NAME];
  const char *wanted = graph->values[value].name;
  free_name(graph, wanted, "_real", name);
  BRAID_TRY(braid_graph_rename_value(graph, output, free_name(graph, wanted, "_output", spare)));
  const char *kept = braid_graph_intern(graph, wanted, strlen(wanted));
  if (!kept) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_graph_rename_value(graph, value, name));
  return braid_graph_rename_value(graph, output, kept);
}

/* Readers of what a node on bytes computes all get bytes; of other values only nodes on bytes do. */
static braid_status quantize_value(emitter *e, braid_value_id value) {
  braid_node_id quantize;
  braid_value_id real;
  BRAID_TRY(add_pair(e, value, &quantize, &real));
  if (e->selection->of_bytes[value]) {
    bool output = is_output(e->graph, value);
    braid_graph_replace_uses(e->graph, value, real);
    e->graph->nodes[quantize].inputs[0] = value;
    return output ? swap_names(e->graph, value, real) : BRAID_OK;
  }
  for (size_t i = 0; i < e->selection->graph->node_count; i++)
    for (size_t j = 0; e->selection->role[i] != BRAID_ROLE_FLOAT && j < e->graph->nodes[i].input_count; j++)
      if (e->graph->nodes[i].inputs[j] == value) e->graph->nodes[i].inputs[j] = real;
  return BRAID_OK;
}

/* --- layers --------------------------------------------------------------------------------------------------------
 */
static braid_status add_dequantized(emitter *e, const char *stem, braid_tensor *bytes, braid_tensor *scale,
                                    braid_tensor *zero, int axis, braid_value_id *out) {
  braid_value_id inputs[3];
  char name[NAME], node_name[NAME];
  BRAID_TRY(add_constant(e->graph, stem, "_quantized", bytes, &inputs[0]));
  BRAID_TRY(add_constant(e->graph, stem, "_scale", scale, &inputs[1]));
  BRAID_TRY(add_constant(e->graph, stem, "_zero_point", zero, &inputs[2]));
  snprintf(node_name, sizeof node_name, "%.200s_DequantizeLinear", stem);
  braid_node_id id;
  *out = -1;
  BRAID_TRY(add_node(e->graph, "DequantizeLinear", node_name, inputs, free_name(e->graph, stem, "_dequantized", name),
                     &id, out));
  return braid_tensor_desc(scale)->rank ? braid_graph_set_int(e->graph, id, "axis", axis) : BRAID_OK;
}

/* Dequantized weights and bias (-1: none) of layer `id`. */
static braid_status add_weights(emitter *e, braid_node_id id, braid_value_id operands[2]) {
  const braid_node *layer = &e->selection->graph->nodes[id];
  braid_value_id seen = e->work->root[layer->inputs[0]], bias = braid_node_input(layer, 2);
  if (seen < 0) return braid_fail(BRAID_INTERNAL, "node %.120s: its operand was not calibrated", layer->name);
  const char *weights_name = e->selection->graph->values[layer->inputs[1]].name;
  braid_quantized_weights q;
  BRAID_TRY(braid_quantize_weights(e->selection->graph, layer, e->work->scales[seen].scale, &e->work->options, &q));
  operands[1] = -1;
  braid_status status =
      add_dequantized(e, weights_name, q.weights, q.scale, q.zero_point, braid_select_axis(layer), &operands[0]);
  if (status == BRAID_OK && q.bias)
    status =
        add_dequantized(e, e->selection->graph->values[bias].name, q.bias, q.bias_scale, q.bias_zero, 0, &operands[1]);
  braid_quantized_weights_deinit(&q);
  return status;
}

/* Factors of Gemm are in its weights now. */
static braid_status clear_factors(braid_graph *graph, braid_node_id id) {
  static const char *const kFactors[] = {"alpha", "beta"};
  for (size_t i = 0; i < 2; i++)
    if (braid_attr_has(&graph->nodes[id].attrs, kFactors[i]))
      BRAID_TRY(braid_graph_set_float(graph, id, kFactors[i], 1));
  return BRAID_OK;
}

static braid_status quantize_layer(emitter *e, braid_node_id id) {
  braid_value_id operands[2];
  BRAID_TRY(add_weights(e, id, operands));
  e->graph->nodes[id].inputs[1] = operands[0];
  if (operands[1] >= 0) e->graph->nodes[id].inputs[2] = operands[1];
  return braid_node_is(&e->graph->nodes[id], "Gemm") ? clear_factors(e->graph, id) : BRAID_OK;
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
/* Types and shapes are of the batch of the calibration: what is written must not say so. */
static void forget_shapes(braid_graph *graph) {
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].kind == BRAID_VALUE_RESULT) graph->values[i].desc = (braid_desc){.rank = -1};
}

static braid_status emitter_init(emitter *e, const braid_work *work, const braid_selection *selection) {
  const braid_graph *from = selection->graph;
  *e = (emitter){.work = work, .selection = selection};
  e->scales = braid_zalloc_array(from->allocator, from->value_count + 1, sizeof *e->scales);
  e->zeros = braid_zalloc_array(from->allocator, from->value_count + 1, sizeof *e->zeros);
  if (!e->scales || !e->zeros) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < from->value_count; i++) e->scales[i] = e->zeros[i] = -1;
  return braid_graph_clone(from, &e->graph);
}

/* *out is the emitter's graph after a success. */
static braid_status emitter_end(emitter *e, braid_status status, braid_graph **out) {
  braid_free(e->selection->graph->allocator, e->scales);
  braid_free(e->selection->graph->allocator, e->zeros);
  if (status == BRAID_OK) {
    forget_shapes(e->graph);
    status = braid_graph_compact(e->graph);
  }
  if (status == BRAID_OK)
    *out = e->graph;
  else
    braid_graph_destroy(e->graph);
  return status;
}

braid_status braid_quantize_emit(const braid_work *work, const braid_selection *selection, braid_graph **out) {
  *out = NULL;
  emitter e;
  braid_status status = emitter_init(&e, work, selection);
  size_t values = selection->graph->value_count, nodes = selection->graph->node_count;
  for (size_t i = 0; status == BRAID_OK && i < nodes; i++)
    if (selection->role[i] == BRAID_ROLE_LAYER) status = quantize_layer(&e, (braid_node_id)i);
  for (size_t i = 0; status == BRAID_OK && i < values; i++)
    if (selection->root[i] >= 0) status = quantize_value(&e, (braid_value_id)i);
  return emitter_end(&e, status, out);
}

/* A second node beside layer `id`, over the quantized operand. */
static braid_status add_second(emitter *e, braid_node_id id, braid_value_id operand) {
  const braid_node *layer = &e->selection->graph->nodes[id];
  braid_value_id inputs[3] = {operand, -1, -1}, out = -1;
  BRAID_TRY(add_weights(e, id, inputs + 1));
  braid_node_id second;
  BRAID_TRY(braid_graph_add_node(e->graph, layer->op->name, NULL, inputs, inputs[2] >= 0 ? 3 : 2, &out, 1, &second));
  for (size_t i = 0; i < layer->attrs.count; i++) BRAID_TRY(braid_attrs_copy(e->graph, second, &layer->attrs.items[i]));
  if (braid_node_is(layer, "Gemm")) BRAID_TRY(clear_factors(e->graph, second));
  BRAID_TRY(braid_graph_add_output(e->graph, layer->outputs[0]));
  return braid_graph_add_output(e->graph, out);
}

braid_status braid_quantize_emit_pairs(const braid_work *work, const braid_selection *selection, braid_graph **out) {
  *out = NULL;
  emitter e;
  braid_status status = emitter_init(&e, work, selection);
  if (status == BRAID_OK) e.graph->output_count = 0;
  for (size_t i = 0; status == BRAID_OK && i < selection->graph->node_count; i++) {
    if (selection->role[i] != BRAID_ROLE_LAYER) continue;
    braid_node_id quantize;
    braid_value_id operand;
    status = add_pair(&e, selection->graph->nodes[i].inputs[0], &quantize, &operand);
    if (status == BRAID_OK) status = add_second(&e, (braid_node_id)i, operand);
  }
  return emitter_end(&e, status, out);
}
