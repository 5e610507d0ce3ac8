/* The trained network as a file that any ONNX runtime computes: weights are integers behind DequantizeLinear,
 * activations go through QuantizeLinear and DequantizeLinear, all scales are powers of two. Sums are exact in float32
 * as long as they are below 2^24, and a quarter of a step is added before they are rounded, so that a half is rounded
 * up here too; a runtime that makes integers of these biases loses the quarters (docs/integer-training.md). */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "graph/integer.h"
#include "train/integer/network.h"

typedef struct exporter {
  const braid_integer_network *net;
  braid_graph *graph;
  braid_value_id *tensors;
  braid_integer_read *read;
  void *context;
  double step; /* what 1 of an activation stands for */
} exporter;

/* `out` may be one of `inputs`. */
static braid_status export_node(exporter *e, const char *op, const char *name, const braid_value_id *inputs,
                                size_t count, braid_value_id *out, braid_node_id *node) {
  braid_node_id id;
  braid_value_id result = 0;
  BRAID_TRY(braid_graph_add_node(e->graph, op, name, inputs, count, &result, 1, &id));
  *out = result;
  if (node) *node = id;
  return BRAID_OK;
}

static braid_status export_scalar(exporter *e, double value, braid_value_id *out) {
  return braid_graph_add_scalar(e->graph, BRAID_F32, value, out);
}

/* `values` as float32, under a name and its ending. */
static braid_status export_numbers(exporter *e, const char *name, const char *ending, const double *values, int rank,
                                   const int64_t *dims, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, rank, dims));
  BRAID_TRY(braid_tensor_create(e->net->allocator, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) ((float *)braid_tensor_data(tensor))[i] = (float)values[i];
  const char *full = braid_arena_format(e->graph->arena, "%s%s", name, ending);
  braid_status status =
      full ? braid_graph_add_tensor(e->graph, full, BRAID_VALUE_CONSTANT, tensor, out) : BRAID_NO_MEMORY;
  braid_tensor_release(tensor);
  if (status == BRAID_OK && *ending) e->graph->values[*out].origin = BRAID_ORIGIN_FIXED;
  return status;
}

static braid_status export_vector(exporter *e, const char *name, const char *ending, const double *values,
                                  int64_t count, braid_value_id *out) {
  return export_numbers(e, name, ending, values, 1, &count, out);
}

/* x in steps of `scale`, which fits `dtype`. */
static braid_status export_steps(exporter *e, braid_value_id x, double scale, braid_dtype dtype, braid_value_id *out) {
  braid_value_id inputs[3] = {x};
  BRAID_TRY(export_scalar(e, scale, &inputs[1]));
  BRAID_TRY(braid_graph_add_scalar(e->graph, dtype, 0, &inputs[2]));
  BRAID_TRY(export_node(e, "QuantizeLinear", NULL, inputs, 3, &inputs[0], NULL));
  return export_node(e, "DequantizeLinear", NULL, inputs, 3, out, NULL);
}

/* The integers of `dtype` that x, in steps of `scale`, is nearest to; limited to `bits`. */
static braid_status export_rounding(exporter *e, braid_value_id x, double scale, braid_dtype dtype, int64_t bits,
                                    braid_value_id *out) {
  double most = (double)braid_integer_max(bits) * scale;
  braid_value_id inputs[3] = {x};
  BRAID_TRY(export_scalar(e, -most, &inputs[1]));
  BRAID_TRY(export_scalar(e, most, &inputs[2]));
  BRAID_TRY(export_node(e, "Clip", NULL, inputs, 3, &inputs[0], NULL));
  return export_steps(e, inputs[0], scale, dtype, out);
}

static braid_status round_activation(exporter *e, braid_value_id x, braid_value_id *out) {
  return export_rounding(e, x, e->step, BRAID_I8, e->net->activation_bits, out);
}

/* --- layers --------------------------------------------------------------------------------------------------------
 */
/* W, behind a DequantizeLinear that has the parameter's name. */
static braid_status export_weight(exporter *e, const braid_integer_layer *layer, braid_value_id *out) {
  const braid_integer_network *net = e->net;
  const char *name = net->graph->values[layer->weight].name;
  braid_tensor *parameter, *weight;
  braid_desc desc;
  BRAID_TRY(e->read(e->context, name, &parameter));
  desc = *braid_tensor_desc(parameter);
  desc.dtype = BRAID_I8;
  braid_status status = braid_tensor_create(net->allocator, &desc, &weight);
  for (int64_t i = 0; status == BRAID_OK && i < braid_desc_count(&desc); i++) {
    int64_t value = braid_integer_round(braid_tensor_get_i64(parameter, i), net->gradient_bits - net->weight_bits);
    ((int8_t *)braid_tensor_data(weight))[i] = (int8_t)braid_integer_clip(value, net->weight_bits);
  }
  braid_tensor_release(parameter);
  if (status != BRAID_OK) return status;
  braid_value_id inputs[3];
  const char *stored = braid_arena_format(e->graph->arena, "%s.integers", name);
  status =
      stored ? braid_graph_add_tensor(e->graph, stored, BRAID_VALUE_CONSTANT, weight, &inputs[0]) : BRAID_NO_MEMORY;
  braid_tensor_release(weight);
  if (status != BRAID_OK) return status;
  BRAID_TRY(export_scalar(e, ldexp(1, -(int)braid_integer_weight_places(net, layer)), &inputs[1]));
  BRAID_TRY(braid_graph_add_scalar(e->graph, BRAID_I8, 0, &inputs[2]));
  BRAID_TRY(export_node(e, "DequantizeLinear", NULL, inputs, 3, out, NULL));
  return braid_graph_rename_value(e->graph, *out, name);
}

static braid_status read_numbers(exporter *e, braid_value_id id, double *out) {
  braid_tensor *tensor;
  BRAID_TRY(e->read(e->context, e->net->graph->values[id].name, &tensor));
  for (int64_t i = 0; i < braid_desc_count(braid_tensor_desc(tensor)); i++)
    out[i] = (double)braid_tensor_get_i64(tensor, i);
  braid_tensor_release(tensor);
  return BRAID_OK;
}

enum { kLowest = 4, kHighest, kNormVectors };

/* What the result of a normalization is at most and at least, since h has 8 bits; halves are rounded up. */
static void fill_limits(const exporter *e, int64_t count, double *room) {
  double step = ldexp(e->step, e->net->activation_bits - e->net->gradient_bits - 6);
  for (int64_t i = 0; i < count; i++) {
    double reach = (double)braid_integer_max(8) * fabs(room[i]), middle = 64 * room[count + i] + 0.25;
    room[kLowest * count + i] = step * (middle - reach);
    room[kHighest * count + i] = step * (middle + reach);
  }
}

/* Its vectors in `room`, of `count` each: the node's four, and limits; `unit` is what 1 of its operand stands for. */
static braid_status fill_norm(exporter *e, const braid_integer_layer *layer, double unit, int64_t count, double *room) {
  const braid_integer_network *net = e->net;
  double gamma = braid_integer_gamma_unit(net), one = ldexp(1, net->gradient_bits - 2);
  BRAID_TRY(read_numbers(e, layer->gamma, room));
  BRAID_TRY(read_numbers(e, layer->beta, room + count));
  BRAID_TRY(read_numbers(e, layer->mean, room + 2 * count));
  BRAID_TRY(read_numbers(e, layer->variance, room + 3 * count));
  fill_limits(e, count, room);
  for (int64_t i = 0; i < count; i++) {
    room[i] *= gamma / one;
    room[count + i] *= ldexp(gamma / 32, 8 - net->gradient_bits);
    room[2 * count + i] *= ldexp(unit, -16);
    room[3 * count + i] = (room[3 * count + i] + (1 << 14)) * ldexp(unit * unit, -16);
  }
  return BRAID_OK;
}

static braid_status export_norm_node(exporter *e, const braid_integer_layer *layer, const braid_value_id inputs[5],
                                     braid_value_id *y) {
  braid_node_id node;
  BRAID_TRY(export_node(e, "BatchNormalization", e->net->graph->nodes[layer->norm_node].name, inputs, 5, y, &node));
  return braid_graph_set_float(e->graph, node, "epsilon", 0);
}

/* `op` of *y and a limit for each channel. */
static braid_status export_limit(exporter *e, const braid_integer_layer *layer, const char *op, const double *limits,
                                 int64_t count, braid_value_id *y) {
  const int64_t dims[3] = {count, 1, 1};
  const char *name = braid_arena_format(e->graph->arena, "%s.%s", e->net->graph->nodes[layer->norm_node].name, op);
  braid_value_id inputs[2] = {*y};
  if (!name) return BRAID_NO_MEMORY;
  int rank = e->net->graph->values[e->net->graph->nodes[layer->norm_node].inputs[0]].desc.rank - 1;
  BRAID_TRY(export_numbers(e, name, BRAID_INTEGER_ROUNDING, limits, rank, dims, &inputs[1]));
  return export_node(e, op, NULL, inputs, 2, y, NULL);
}

static braid_status export_norm(exporter *e, const braid_integer_layer *layer, braid_value_id x, braid_value_id *y) {
  const braid_value *values = e->net->graph->values;
  const braid_value_id of[4] = {layer->gamma, layer->beta, layer->mean, layer->variance};
  double unit = ldexp(e->step, (int)layer->shift - (int)braid_integer_weight_places(e->net, layer));
  braid_value_id inputs[5];
  BRAID_TRY(export_rounding(e, x, unit, BRAID_I16, 16, &inputs[0]));
  int64_t count = values[layer->gamma].desc.dims[0];
  double *room = braid_zalloc_array(e->net->allocator, (size_t)count, kNormVectors * sizeof *room);
  if (!room) return BRAID_NO_MEMORY;
  braid_status status = fill_norm(e, layer, unit, count, room);
  for (int i = 0; status == BRAID_OK && i < 4; i++)
    status = export_vector(e, values[of[i]].name, "", room + i * count, count, &inputs[i + 1]);
  if (status == BRAID_OK) status = export_norm_node(e, layer, inputs, y);
  if (status == BRAID_OK) status = export_limit(e, layer, "Max", room + kLowest * count, count, y);
  if (status == BRAID_OK) status = export_limit(e, layer, "Min", room + kHighest * count, count, y);
  braid_free(e->net->allocator, room);
  return status;
}

static braid_status export_attrs(exporter *e, const braid_integer_layer *layer, braid_node_id node) {
  const braid_attrs *attrs = &e->net->graph->nodes[layer->node].attrs;
  for (size_t i = 0; i < attrs->count; i++) BRAID_TRY(braid_attrs_copy(e->graph, node, &attrs->items[i]));
  return BRAID_OK;
}

static braid_status export_conv(exporter *e, const braid_integer_layer *layer, braid_value_id x, braid_value_id *y) {
  const braid_integer_network *net = e->net;
  const braid_value *weight = &net->graph->values[layer->weight];
  bool flat = net->tensors[layer->in[0]].rank == 2;
  int64_t filters = weight->desc.dims[layer->transposed ? 1 : 0];
  braid_value_id inputs[3] = {x};
  braid_node_id node;
  BRAID_TRY(export_weight(e, layer, &inputs[1]));
  double *quarters = braid_zalloc_array(net->allocator, (size_t)filters, sizeof *quarters);
  if (!quarters) return BRAID_NO_MEMORY;
  for (int64_t i = 0; i < filters; i++) quarters[i] = ldexp(e->step, -(int)braid_integer_weight_places(net, layer) - 2);
  braid_status status = export_vector(e, weight->name, BRAID_INTEGER_ROUNDING, quarters, filters, &inputs[2]);
  braid_free(net->allocator, quarters);
  if (status != BRAID_OK) return status;
  const char *name = net->graph->nodes[layer->node].name;
  BRAID_TRY(export_node(e, flat ? "Gemm" : "Conv", name, inputs, 3, y, &node));
  BRAID_TRY(flat ? braid_graph_set_int(e->graph, node, "transB", 1) : export_attrs(e, layer, node));
  return layer->norm_node >= 0 ? export_norm(e, layer, *y, y) : BRAID_OK;
}

/* Between two sums of a window's n values there is 1 / n of a step: a quarter of that decides halves alone. */
static braid_status export_average(exporter *e, const braid_integer_layer *layer, braid_value_id x, braid_value_id *y) {
  const braid_node *from = &e->net->graph->nodes[layer->node];
  braid_value_id sum[2];
  double quarter = e->step / (4 * (double)layer->pooled);
  braid_node_id node;
  BRAID_TRY(export_node(e, from->op->name, from->name, &x, 1, &sum[0], &node));
  BRAID_TRY(export_attrs(e, layer, node));
  const char *name = braid_arena_format(e->graph->arena, "%s.average", from->name);
  if (!name) return BRAID_NO_MEMORY;
  BRAID_TRY(export_vector(e, name, BRAID_INTEGER_ROUNDING, &quarter, 1, &sum[1]));
  return export_node(e, "Add", NULL, sum, 2, y, NULL);
}

static braid_status export_reshape(exporter *e, const braid_integer_layer *layer, braid_value_id x, braid_value_id *y) {
  braid_desc to = e->net->tensors[layer->out];
  braid_value_id inputs[2] = {x};
  braid_node_id node;
  if (to.rank == 2) {
    BRAID_TRY(export_node(e, "Flatten", NULL, &x, 1, y, &node));
    return braid_graph_set_int(e->graph, node, "axis", 1);
  }
  to.dims[0] = 0; /* the batch as it is */
  BRAID_TRY(braid_graph_add_int64s(e->graph, to.dims, (size_t)to.rank, &inputs[1]));
  return export_node(e, "Reshape", NULL, inputs, 2, y, NULL);
}

/* Values on the grid that were only moved. The steps change nothing: without them ONNX Runtime 1.31 adds its own, and
 * refuses those (its QDQPropagationTransformer, of signed bytes in files of opset 21). */
static braid_status export_moved(exporter *e, braid_value_id *y) {
  return export_steps(e, *y, e->step, BRAID_I8, y);
}

static braid_status export_layer(exporter *e, const braid_integer_layer *layer) {
  const braid_node *from = &e->net->graph->nodes[layer->node];
  braid_value_id x = e->tensors[layer->in[0]], y = x;
  bool rounds = false;
  braid_node_id node;
  switch (layer->kind) {
  case BRAID_INTEGER_CONV:
    BRAID_TRY(export_conv(e, layer, x, &y));
    rounds = true;
    break;
  case BRAID_INTEGER_MAX_POOL:
    BRAID_TRY(export_node(e, "MaxPool", from->name, &x, 1, &y, &node));
    BRAID_TRY(export_attrs(e, layer, node));
    BRAID_TRY(export_moved(e, &y));
    break;
  case BRAID_INTEGER_AVERAGE_POOL:
    BRAID_TRY(export_average(e, layer, x, &y));
    rounds = true;
    break;
  case BRAID_INTEGER_ADD:
    BRAID_TRY(export_node(e, "Add", from->name, (braid_value_id[]){x, e->tensors[layer->in[1]]}, 2, &y, NULL));
    rounds = true;
    break;
  case BRAID_INTEGER_RESHAPE:
    BRAID_TRY(export_reshape(e, layer, x, &y));
    BRAID_TRY(export_moved(e, &y));
    break;
  case BRAID_INTEGER_RELU:
    break;
  }
  if (layer->relu || layer->kind == BRAID_INTEGER_RELU) BRAID_TRY(export_node(e, "Relu", NULL, &y, 1, &y, NULL));
  if (rounds) BRAID_TRY(round_activation(e, y, &y));
  e->tensors[layer->out] = y;
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status export_network(exporter *e) {
  const braid_integer_network *net = e->net;
  braid_desc desc = net->tensors[0];
  desc.dims[0] = -1;
  braid_value_id images;
  const char *input = net->graph->values[braid_graph_input(net->graph, 0)].name;
  BRAID_TRY(braid_graph_add_input(e->graph, input, &desc, &images));
  BRAID_TRY(round_activation(e, images, &e->tensors[0]));
  for (size_t i = 0; i < net->layer_count; i++) BRAID_TRY(export_layer(e, &net->layers[i]));
  return braid_graph_add_output(e->graph, e->tensors[net->scores]);
}

braid_status braid_integer_export(const braid_integer_network *net, braid_integer_read *read, void *context,
                                  braid_graph **out) {
  *out = NULL;
  exporter e = {.net = net, .read = read, .context = context, .step = ldexp(1, -net->input_shift)};
  e.tensors = braid_zalloc_array(net->allocator, net->tensor_count + 1, sizeof *e.tensors);
  if (!e.tensors) return BRAID_NO_MEMORY;
  braid_status status = braid_graph_create(net->allocator, braid_graph_name(net->graph), &e.graph);
  if (status == BRAID_OK) status = export_network(&e);
  braid_free(net->allocator, e.tensors);
  if (status == BRAID_OK)
    *out = e.graph;
  else
    braid_graph_destroy(e.graph);
  return status;
}
