/* The training graph of a network of integers: forward, backward and update, all of it nodes with integers. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/integer.h"
#include "graph/onnx_dtype.h"
#include "train/integer/network.h"
#include "train/parallel/slice.h"
#include "train/update.h"

enum { kNormSlower = 3, kMostOutputs = 7 };

/* Where a step by momentum finds the unit of a gradient: docs/integer-training.md, "Update by momentum". */
typedef struct gradient {
  braid_value_id raw, magnitude, exponent;
  int64_t place;  /* without the batch */
  int64_t slower; /* of WAGE's rule */
  bool decays;
} gradient;

/* What a layer's backward pass needs of its forward pass; values of the training graph. */
typedef struct layer_values {
  braid_value_id parameter, weight, index, gamma, beta, normalized, multiplier, places;
} layer_values;

typedef struct tensor_values {
  braid_value_id y, error, exponent; /* error -1: none so far */
  uint32_t rounded;                  /* how often errors of it were */
} tensor_values;

typedef struct emitter {
  const braid_integer_network *net;
  const braid_train_options *options;
  braid_graph *graph;
  layer_values *layers;
  tensor_values *tensors;
  braid_value_id images, labels, rate, step;
  bool backward;
  braid_integer_digests *digests; /* NULL: none */
  const char *layer;              /* whose nodes are emitted */
  braid_slice slice;
} emitter;

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
/* A node whose results are recorded later, by record_results, or not at all. `outputs` may lie over `inputs`. */
static braid_status emit_silently(emitter *e, const char *op, const char *name, const braid_value_id *inputs,
                                  size_t input_count, braid_value_id *outputs, size_t output_count,
                                  braid_node_id *node) {
  braid_value_id results[kMostOutputs] = {0};
  BRAID_TRY(braid_graph_add_node(e->graph, op, name, inputs, input_count, results, output_count, node));
  memcpy(outputs, results, output_count * sizeof *outputs);
  e->graph->nodes[*node].backward = e->backward;
  return BRAID_OK;
}

/* `results`: those of all processes, where the node's own are those of one. */
static braid_status record_results(emitter *e, braid_node_id node, const braid_value_id *results) {
  if (!e->digests) return BRAID_OK;
  return braid_integer_digests_note(e->digests, e->graph, node, e->layer, results, e->slice.first);
}

static braid_status emit(emitter *e, const char *op, const char *name, const braid_value_id *inputs, size_t input_count,
                         braid_value_id *outputs, size_t output_count, braid_node_id *node) {
  BRAID_TRY(emit_silently(e, op, name, inputs, input_count, outputs, output_count, node));
  return record_results(e, *node, outputs);
}

/* The number becomes that of the whole batch, from all processes: a sum, or the or of magnitudes. */
static braid_status share(emitter *e, const char *reduction, braid_value_id *value) {
  return braid_add_all_reduce(e->graph, &e->slice, reduction, value, 1);
}

/* As emit, with a raw error and its magnitude, output `magnitude`, among the results. */
static braid_status emit_error(emitter *e, const char *op, const char *name, const braid_value_id *inputs,
                               size_t input_count, braid_value_id *outputs, size_t output_count, size_t magnitude,
                               braid_node_id *node) {
  BRAID_TRY(emit_silently(e, op, name, inputs, input_count, outputs, output_count, node));
  if (magnitude < output_count) BRAID_TRY(share(e, "or", &outputs[magnitude]));
  return record_results(e, *node, outputs);
}

/* The attributes of the model's node: windows, groups. */
static braid_status copy_attrs(emitter *e, const braid_integer_layer *layer, braid_node_id node) {
  const braid_attrs *attrs = &e->net->graph->nodes[layer->node].attrs;
  for (size_t i = 0; i < attrs->count; i++) BRAID_TRY(braid_attrs_copy(e->graph, node, &attrs->items[i]));
  return BRAID_OK;
}

static const braid_desc *tensor_desc(const emitter *e, size_t tensor) {
  return &e->net->tensors[tensor];
}

static bool is_flat(const emitter *e, const braid_integer_layer *layer) {
  return tensor_desc(e, layer->in[0])->rank == 2;
}

static const char *layer_name(const emitter *e, const braid_integer_layer *layer) {
  return e->net->graph->nodes[layer->node].name;
}

static braid_status add_parameter(emitter *e, braid_value_id model, braid_tensor *tensor, braid_value_id *out) {
  braid_status status =
      braid_graph_add_tensor(e->graph, e->net->graph->values[model].name, BRAID_VALUE_PARAMETER, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* --- forward -------------------------------------------------------------------------------------------------------
 */
static braid_status add_statistic(emitter *e, braid_value_id model, braid_dtype dtype, int64_t start,
                                  braid_value_id *out) {
  const braid_value *value = &e->net->graph->values[model];
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, dtype, 1, value->desc.dims));
  BRAID_TRY(braid_tensor_create(e->net->allocator, &desc, &tensor));
  for (int64_t i = 0; i < desc.dims[0]; i++)
    if (dtype == BRAID_I32)
      ((int32_t *)braid_tensor_data(tensor))[i] = (int32_t)start;
    else
      ((int64_t *)braid_tensor_data(tensor))[i] = start;
  braid_status status = braid_graph_add_tensor(e->graph, value->name, BRAID_VALUE_STATE, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* Of several processes, a normalization's sums over the whole batch, as one more operand. */
static braid_status share_sums(emitter *e, const char *op, const braid_value_id *of, size_t of_count,
                               braid_value_id *inputs, size_t *count) {
  braid_node_id node;
  if (!e->slice.group) return BRAID_OK;
  BRAID_TRY(emit_silently(e, op, NULL, of, of_count, &inputs[*count], 1, &node));
  return share(e, "sum", &inputs[(*count)++]);
}

static braid_status set_batch(emitter *e, braid_node_id node) {
  return e->slice.group ? braid_graph_set_int(e->graph, node, "batch", e->slice.batch) : BRAID_OK;
}

static braid_status emit_norm(emitter *e, const braid_integer_layer *layer, layer_values *v, braid_value_id x,
                              braid_value_id *y) {
  braid_value_id inputs[6] = {x}, outputs[6];
  size_t count = 5;
  braid_tensor *tensor;
  braid_node_id node;
  BRAID_TRY(braid_integer_gamma(e->net, layer, e->options->draw_weights, &tensor));
  BRAID_TRY(add_parameter(e, layer->gamma, tensor, &inputs[1]));
  BRAID_TRY(braid_integer_beta(e->net, layer, e->options->draw_weights, &tensor));
  BRAID_TRY(add_parameter(e, layer->beta, tensor, &inputs[2]));
  BRAID_TRY(add_statistic(e, layer->mean, BRAID_I32, 0, &inputs[3]));
  BRAID_TRY(add_statistic(e, layer->variance, BRAID_I64, (int64_t)1 << 32, &inputs[4]));
  const char *name = e->layer = e->net->graph->nodes[layer->norm_node].name;
  BRAID_TRY(share_sums(e, "IntegerBatchNormalizationSums", &x, 1, inputs, &count));
  BRAID_TRY(emit(e, "IntegerBatchNormalization", name, inputs, count, outputs, 6, &node));
  BRAID_TRY(set_batch(e, node));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", e->net->activation_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "parameter_bits", e->net->gradient_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "relu", layer->relu));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "training", 1));
  BRAID_TRY(braid_graph_update_state(e->graph, inputs[3], outputs[1]));
  BRAID_TRY(braid_graph_update_state(e->graph, inputs[4], outputs[2]));
  v->gamma = inputs[1], v->beta = inputs[2];
  v->normalized = outputs[3], v->multiplier = outputs[4], v->places = outputs[5];
  *y = outputs[0];
  return BRAID_OK;
}

static braid_status emit_conv(emitter *e, const braid_integer_layer *layer, layer_values *v, braid_value_id x,
                              braid_value_id *y) {
  const braid_integer_network *net = e->net;
  braid_tensor *tensor;
  braid_node_id node;
  BRAID_TRY(braid_integer_weight(net, layer, e->options->seed, e->options->draw_weights, &tensor));
  BRAID_TRY(add_parameter(e, layer->weight, tensor, &v->parameter));
  v->weight = v->parameter;
  if (net->gradient_bits != net->weight_bits) {
    BRAID_TRY(emit(e, "IntegerQuantize", NULL, &v->parameter, 1, &v->weight, 1, &node));
    BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", net->weight_bits));
    BRAID_TRY(braid_graph_set_int(e->graph, node, "shift", net->gradient_bits - net->weight_bits));
  }
  bool norm = layer->norm_node >= 0;
  BRAID_TRY(emit(e, "IntegerConv", layer_name(e, layer), (braid_value_id[]){x, v->weight}, 2, y, 1, &node));
  if (!is_flat(e, layer)) BRAID_TRY(copy_attrs(e, layer, node));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", norm ? 16 : net->activation_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "shift", layer->shift));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "relu", layer->relu && !norm));
  return norm ? emit_norm(e, layer, v, *y, y) : BRAID_OK;
}

static bool is_global(const emitter *e, const braid_integer_layer *layer) {
  return strcmp(e->net->graph->nodes[layer->node].op->name, "GlobalAveragePool") == 0;
}

static braid_status set_window(emitter *e, const braid_integer_layer *layer, braid_node_id node) {
  if (!is_global(e, layer)) return copy_attrs(e, layer, node);
  return braid_graph_set_ints(e->graph, node, "kernel_shape", tensor_desc(e, layer->in[0])->dims + 2, 2);
}

static braid_status emit_reshape(emitter *e, braid_value_id x, const braid_desc *to, braid_value_id *y) {
  braid_value_id inputs[2] = {x};
  braid_node_id node;
  BRAID_TRY(braid_graph_add_int64s(e->graph, to->dims, (size_t)to->rank, &inputs[1]));
  return emit(e, "Reshape", NULL, inputs, 2, y, 1, &node);
}

static braid_status emit_relu(emitter *e, braid_value_id x, braid_value_id *y) {
  braid_node_id node;
  return emit(e, "IntegerRelu", NULL, &x, 1, y, 1, &node);
}

static braid_status emit_forward(emitter *e, size_t index) {
  const braid_integer_layer *layer = &e->net->layers[index];
  layer_values *v = &e->layers[index];
  braid_value_id x = e->tensors[layer->in[0]].y, other = e->tensors[layer->in[1]].y, outputs[2];
  braid_node_id node;
  bool relu = false; /* as a node of its own */
  e->layer = layer_name(e, layer);
  switch (layer->kind) {
  case BRAID_INTEGER_CONV:
    BRAID_TRY(emit_conv(e, layer, v, x, &outputs[0]));
    break;
  case BRAID_INTEGER_RELU:
    relu = true;
    outputs[0] = x;
    break;
  case BRAID_INTEGER_MAX_POOL:
    BRAID_TRY(emit(e, "IntegerMaxPool", layer_name(e, layer), &x, 1, outputs, 2, &node));
    BRAID_TRY(set_window(e, layer, node));
    v->index = outputs[1];
    relu = layer->relu;
    break;
  case BRAID_INTEGER_AVERAGE_POOL:
    BRAID_TRY(emit(e, "IntegerAveragePool", layer_name(e, layer), &x, 1, outputs, 1, &node));
    BRAID_TRY(set_window(e, layer, node));
    relu = layer->relu;
    break;
  case BRAID_INTEGER_ADD:
    BRAID_TRY(emit(e, "IntegerAdd", layer_name(e, layer), (braid_value_id[]){x, other}, 2, outputs, 1, &node));
    BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", e->net->activation_bits));
    BRAID_TRY(braid_graph_set_int(e->graph, node, "relu", layer->relu));
    break;
  case BRAID_INTEGER_RESHAPE:
    BRAID_TRY(emit_reshape(e, x, tensor_desc(e, layer->out), outputs));
    relu = layer->relu;
    break;
  }
  if (relu) BRAID_TRY(emit_relu(e, outputs[0], outputs));
  e->tensors[layer->out].y = outputs[0];
  return BRAID_OK;
}

/* --- backward ------------------------------------------------------------------------------------------------------
 */
/* An error of error_bits, and its exponent. */
typedef struct scaled {
  braid_value_id error, exponent;
} scaled;

/* `stream`: of the random numbers that round it. `desc`: of the error. */
static braid_status scale_error(emitter *e, const braid_value_id raw[2], braid_value_id exponent, int64_t offset,
                                uint32_t stream, const braid_desc *desc, scaled *out) {
  braid_value_id inputs[] = {raw[0], raw[1], exponent, e->step}, outputs[2];
  braid_node_id node;
  BRAID_TRY(emit(e, "IntegerScaleError", NULL, inputs, 4, outputs, 2, &node));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", e->net->error_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "offset", offset));
  *out = (scaled){outputs[0], outputs[1]};
  int64_t first = desc->dims[0] > 0 ? e->slice.first * (braid_desc_count(desc) / desc->dims[0]) : 0;
  if (first) BRAID_TRY(braid_graph_set_int(e->graph, node, "first", first));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "seed", (int64_t)e->options->seed));
  return braid_graph_set_int(e->graph, node, "stream", stream);
}

static uint32_t stream_of_value(const emitter *e, braid_value_id model) {
  return braid_integer_stream(e->net->graph->values[model].name);
}

/* An error of `tensor`. */
static braid_status scale_tensor_error(emitter *e, size_t tensor, const braid_value_id raw[2], braid_value_id exponent,
                                       int64_t offset, scaled *out) {
  uint32_t stream = stream_of_value(e, e->net->values[tensor]) + e->tensors[tensor].rounded++;
  return scale_error(e, raw, exponent, offset, stream, tensor_desc(e, tensor), out);
}

/* Another reader's error joins those of `tensor`. */
static braid_status give_error(emitter *e, size_t tensor, scaled error) {
  tensor_values *v = &e->tensors[tensor];
  if (!e->net->trained[tensor]) return BRAID_OK;
  if (v->error >= 0) {
    braid_value_id outputs[3];
    braid_node_id node;
    BRAID_TRY(emit_error(e, "IntegerErrorSum", NULL,
                         (braid_value_id[]){v->error, v->exponent, error.error, error.exponent}, 4, outputs, 3, 1,
                         &node));
    BRAID_TRY(scale_tensor_error(e, tensor, outputs, outputs[2], 0, &error));
  }
  v->error = error.error;
  v->exponent = error.exponent;
  return BRAID_OK;
}

static braid_status add_momentum(emitter *e, braid_value_id parameter, braid_value_id *out) {
  braid_desc desc = e->graph->values[parameter].desc;
  const char *name = braid_update_state_name(e->graph, e->graph->values[parameter].name, "momentum");
  braid_tensor *start;
  if (!name) return BRAID_NO_MEMORY;
  desc.dtype = BRAID_I16;
  BRAID_TRY(braid_tensor_create(e->net->allocator, &desc, &start));
  memset(braid_tensor_data(start), 0, braid_desc_bytes(&desc));
  braid_status status = braid_graph_add_tensor(e->graph, name, BRAID_VALUE_STATE, start, out);
  braid_tensor_release(start);
  return status;
}

static braid_status emit_momentum(emitter *e, braid_value_id parameter, const gradient *g, braid_value_id *next,
                                  braid_node_id *node) {
  braid_value_id momentum, outputs[2];
  int64_t batch = e->slice.batch;
  int decay = g->decays ? braid_integer_decay(e->options->weight_decay) : 0;
  BRAID_TRY(add_momentum(e, parameter, &momentum));
  BRAID_TRY(emit(e, "IntegerMomentum", NULL,
                 (braid_value_id[]){parameter, momentum, g->raw, g->exponent, e->rate, e->step}, 6, outputs, 2, node));
  BRAID_TRY(braid_graph_set_int(e->graph, *node, "place", g->place + braid_integer_width((uint64_t)(batch - 1))));
  BRAID_TRY(braid_graph_set_int(e->graph, *node, "decay", decay));
  *next = outputs[0];
  return braid_graph_update_state(e->graph, momentum, outputs[1]);
}

static braid_status emit_update(emitter *e, braid_value_id parameter, const gradient *g) {
  const char *name = e->graph->values[parameter].name;
  braid_value_id next;
  braid_node_id node;
  if (braid_parameter_is_frozen(e->options, name)) return BRAID_OK;
  uint32_t stream = braid_integer_stream(name);
  if (e->options->optimizer == BRAID_WAGE) {
    BRAID_TRY(emit(e, "IntegerUpdate", NULL, (braid_value_id[]){parameter, g->raw, g->magnitude, e->rate, e->step}, 5,
                   &next, 1, &node));
    BRAID_TRY(braid_graph_set_int(e->graph, node, "slower", g->slower));
  } else {
    BRAID_TRY(emit_momentum(e, parameter, g, &next, &node));
  }
  BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", e->net->gradient_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "seed", (int64_t)e->options->seed));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "stream", stream));
  return braid_graph_update_state(e->graph, parameter, next);
}

static braid_status norm_backward(emitter *e, const braid_integer_layer *layer, const layer_values *v, scaled *error) {
  braid_value_id outputs[7];
  braid_value_id inputs[7] = {error->error, error->exponent, v->normalized, v->gamma, v->multiplier, v->places};
  braid_node_id node;
  size_t count = 6;
  e->layer = e->net->graph->nodes[layer->norm_node].name;
  BRAID_TRY(share_sums(e, "IntegerBatchNormalizationGradSums", (braid_value_id[]){error->error, v->normalized}, 2,
                       inputs, &count));
  BRAID_TRY(emit_error(e, "IntegerBatchNormalizationGrad", NULL, inputs, count, outputs, 7, 1, &node));
  BRAID_TRY(set_batch(e, node));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", e->net->activation_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "parameter_bits", e->net->gradient_bits));
  int64_t bits = e->net->activation_bits;
  BRAID_TRY(
      emit_update(e, v->gamma, &(gradient){outputs[3], outputs[4], error->exponent, bits - 10, kNormSlower, false}));
  BRAID_TRY(
      emit_update(e, v->beta, &(gradient){outputs[5], outputs[6], error->exponent, bits - 14, kNormSlower, false}));
  if (layer->frozen && !e->net->trained[layer->in[0]]) return BRAID_OK;
  uint32_t stream = stream_of_value(e, e->net->graph->nodes[layer->node].outputs[0]);
  return scale_error(e, outputs, outputs[2], 0, stream, tensor_desc(e, layer->out), error);
}

/* The gradient of all processes: summed in the type that the whole batch needs, before anything is rounded. */
static braid_status share_gradient(emitter *e, const braid_integer_layer *layer, braid_value_id raw[2]) {
  const braid_desc *y = tensor_desc(e, layer->out);
  int64_t positions = y->dims[0] * y->dims[1] > 0 ? braid_desc_count(y) / (y->dims[0] * y->dims[1]) : 0;
  braid_node_id node;
  if (!e->slice.group) return BRAID_OK;
  if (e->slice.batch > (int64_t)UINT32_MAX / (positions + 1))
    return braid_fail(BRAID_UNSUPPORTED, "layer %.120s: %lld products in a sum; fewer than 2^32 are expected", e->layer,
                      (long long)(e->slice.batch * positions));
  /* By the smallest slice, so that all processes have the same nodes; a cast of what has the type already does nothing.
   */
  if (braid_integer_raw(e->slice.batch * positions) != braid_integer_raw(e->slice.batch / e->slice.size * positions)) {
    BRAID_TRY(emit_silently(e, "Cast", NULL, &raw[0], 1, &raw[0], 1, &node));
    BRAID_TRY(braid_graph_set_int(e->graph, node, "to", braid_dtype_to_onnx(BRAID_I64)));
  }
  BRAID_TRY(share(e, "sum", &raw[0]));
  bool needed = e->digests || e->options->optimizer == BRAID_WAGE;
  return needed ? emit_silently(e, "IntegerMagnitude", NULL, &raw[0], 1, &raw[1], 1, &node) : BRAID_OK;
}

static braid_status weight_backward(emitter *e, const braid_integer_layer *layer, const layer_values *v, scaled error) {
  braid_value_id raw[2];
  braid_node_id node;
  BRAID_TRY(emit_silently(e, "IntegerConvGradFilter", NULL, (braid_value_id[]){e->tensors[layer->in[0]].y, error.error},
                          2, raw, 2, &node));
  if (!is_flat(e, layer)) {
    int64_t kernel[2];
    memcpy(kernel, e->graph->values[v->parameter].desc.dims + 2, sizeof kernel);
    BRAID_TRY(copy_attrs(e, layer, node));
    BRAID_TRY(braid_graph_set_ints(e->graph, node, "kernel_shape", kernel, 2));
  }
  BRAID_TRY(share_gradient(e, layer, raw));
  BRAID_TRY(record_results(e, node, raw));
  int64_t place = 2 * e->net->activation_bits + layer->shift - e->net->weight_bits - 2 * layer->a_shift -
                  BRAID_INTEGER_MOMENTUM_PLACES;
  return emit_update(e, v->parameter, &(gradient){raw[0], raw[1], error.exponent, place, 0, true});
}

/* Only what a parameter that trains needs. */
static braid_status conv_backward(emitter *e, const braid_integer_layer *layer, const layer_values *v, scaled error) {
  braid_value_id raw[2];
  braid_node_id node;
  if (layer->norm_node >= 0) BRAID_TRY(norm_backward(e, layer, v, &error));
  e->layer = layer_name(e, layer);
  if (!layer->frozen) BRAID_TRY(weight_backward(e, layer, v, error));
  if (!e->net->trained[layer->in[0]]) return BRAID_OK;
  BRAID_TRY(
      emit_error(e, "IntegerConvGradInput", NULL, (braid_value_id[]){error.error, v->weight}, 2, raw, 2, 1, &node));
  if (!is_flat(e, layer)) {
    BRAID_TRY(copy_attrs(e, layer, node));
    BRAID_TRY(braid_graph_set_ints(e->graph, node, "input_shape", tensor_desc(e, layer->in[0])->dims + 2, 2));
  }
  BRAID_TRY(scale_tensor_error(e, layer->in[0], raw, error.exponent, -layer->shift, &error));
  return give_error(e, layer->in[0], error);
}

static braid_status pool_backward(emitter *e, const braid_integer_layer *layer, const layer_values *v, scaled error) {
  bool max = layer->kind == BRAID_INTEGER_MAX_POOL, raw = false;
  const braid_desc *x = tensor_desc(e, layer->in[0]);
  if (!is_global(e, layer)) {
    braid_window window;
    BRAID_TRY(braid_geometry_pool(&e->net->graph->nodes[layer->node].attrs, x, &window));
    raw = braid_integer_overlaps(&window);
  }
  int64_t offset = max ? 0 : 1 - braid_integer_width((uint64_t)layer->pooled);
  braid_value_id outputs[2];
  braid_node_id node;
  BRAID_TRY(emit_error(e, max ? "IntegerMaxPoolGrad" : "IntegerAveragePoolGrad", NULL,
                       (braid_value_id[]){error.error, v->index}, max ? 2 : 1, outputs, raw ? 2 : 1, 1, &node));
  BRAID_TRY(set_window(e, layer, node));
  BRAID_TRY(braid_graph_set_ints(e->graph, node, "input_shape", x->dims + 2, 2));
  if (raw) {
    BRAID_TRY(scale_tensor_error(e, layer->in[0], outputs, error.exponent, offset, &error));
  } else {
    error.error = outputs[0];
    braid_value_id both[2] = {error.exponent};
    BRAID_TRY(braid_graph_add_scalar(e->graph, BRAID_I32, (double)offset, &both[1]));
    if (offset) BRAID_TRY(emit(e, "Add", NULL, both, 2, &error.exponent, 1, &node));
  }
  return give_error(e, layer->in[0], error);
}

static braid_status emit_backward(emitter *e, size_t index) {
  const braid_integer_layer *layer = &e->net->layers[index];
  scaled error = {e->tensors[layer->out].error, e->tensors[layer->out].exponent};
  braid_node_id node;
  if (error.error < 0) return BRAID_OK; /* nothing that the loss depends on reads it */
  e->layer = layer_name(e, layer);
  if (layer->relu || layer->kind == BRAID_INTEGER_RELU) {
    BRAID_TRY(emit(e, "IntegerReluGrad", NULL, (braid_value_id[]){error.error, e->tensors[layer->out].y}, 2,
                   &error.error, 1, &node));
    int bits = e->net->activation_bits > 2 ? e->net->activation_bits : 8; /* of 2 bits, 1 is all there is */
    BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", bits));
  }
  switch (layer->kind) {
  case BRAID_INTEGER_CONV:
    return conv_backward(e, layer, &e->layers[index], error);
  case BRAID_INTEGER_MAX_POOL:
  case BRAID_INTEGER_AVERAGE_POOL:
    return pool_backward(e, layer, &e->layers[index], error);
  case BRAID_INTEGER_RELU:
    return give_error(e, layer->in[0], error);
  case BRAID_INTEGER_ADD:
    BRAID_TRY(give_error(e, layer->in[0], error));
    return give_error(e, layer->in[1], error);
  case BRAID_INTEGER_RESHAPE:
    BRAID_TRY(emit_reshape(e, error.error, tensor_desc(e, layer->in[0]), &error.error));
    return give_error(e, layer->in[0], error);
  }
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status input_of(emitter *e, const char *name, braid_dtype dtype, int rank, const int64_t *dims,
                             braid_value_id *out) {
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, dtype, rank, dims));
  return braid_graph_add_input(e->graph, braid_graph_find_value(e->graph, name) < 0 ? name : NULL, &desc, out);
}

static braid_status to_float(emitter *e, braid_value_id value, braid_value_id *out) {
  braid_node_id node;
  BRAID_TRY(emit(e, "Cast", NULL, &value, 1, out, 1, &node));
  return braid_graph_set_int(e->graph, node, "to", braid_dtype_to_onnx(BRAID_F32));
}

/* The loss and the scores as the trainer reads them; the error of the scores. */
static braid_status emit_loss(emitter *e) {
  const braid_integer_network *net = e->net;
  braid_value_id outputs[3], loss[2], scores, zero;
  braid_node_id node;
  scaled error;
  e->layer = "loss";
  BRAID_TRY(emit_silently(e, "IntegerSquaredError", "loss", (braid_value_id[]){e->tensors[net->scores].y, e->labels}, 2,
                          outputs, 3, &node));
  BRAID_TRY(share(e, "sum", &outputs[0]));
  BRAID_TRY(share(e, "or", &outputs[2]));
  BRAID_TRY(record_results(e, node, outputs));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", net->activation_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "hinge", e->options->loss == BRAID_SQUARED_HINGE));
  BRAID_TRY(to_float(e, outputs[0], &loss[0]));
  double one = ldexp((double)e->slice.batch, 2 * (net->activation_bits - 1));
  BRAID_TRY(braid_graph_add_scalar(e->graph, BRAID_F32, 1 / one, &loss[1]));
  BRAID_TRY(emit(e, "Mul", NULL, loss, 2, loss, 1, &node));
  BRAID_TRY(to_float(e, e->tensors[net->scores].y, &scores));
  BRAID_TRY(braid_graph_add_output(e->graph, loss[0]));
  BRAID_TRY(braid_graph_add_output(e->graph, scores));
  e->backward = true;
  BRAID_TRY(braid_graph_add_scalar(e->graph, BRAID_I32, 0, &zero));
  BRAID_TRY(scale_tensor_error(e, net->scores, &outputs[1], zero, 0, &error));
  return give_error(e, net->scores, error);
}

/* What trains, and by which rate: known when all parameters are in the graph. */
static braid_status check_parameters(const emitter *e) {
  BRAID_TRY(braid_check_groups(e->graph, e->options));
  for (size_t i = 0; i < e->graph->value_count; i++) {
    const braid_value *value = &e->graph->values[i];
    const braid_parameter_group *group =
        value->kind == BRAID_VALUE_PARAMETER ? braid_train_group(e->options, value->name) : NULL;
    if (group && group->rate != 0 && group->rate != 1)
      return braid_fail(BRAID_UNSUPPORTED,
                        "%.120s has a learning rate of its own: in integers a parameter is frozen or "
                        "has the run's",
                        value->name);
  }
  if (e->net->trained[e->net->scores]) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "all parameters that the scores depend on are frozen: nothing trains");
}

static braid_status emit_step(emitter *e) {
  const braid_integer_network *net = e->net;
  const braid_desc *x = tensor_desc(e, 0);
  braid_value_id input = braid_graph_input(net->graph, 0), images;
  braid_node_id node;
  e->layer = "samples";
  BRAID_TRY(input_of(e, net->graph->values[input].name, BRAID_F32, x->rank, x->dims, &images));
  BRAID_TRY(emit(e, "IntegerInput", NULL, &images, 1, &e->tensors[0].y, 1, &node));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "bits", net->activation_bits));
  BRAID_TRY(braid_graph_set_int(e->graph, node, "shift", net->input_shift));
  for (size_t i = 0; i < net->layer_count; i++) BRAID_TRY(emit_forward(e, i));
  BRAID_TRY(check_parameters(e));
  BRAID_TRY(input_of(e, "labels", BRAID_I32, 1, x->dims, &e->labels));
  BRAID_TRY(input_of(e, "learning_rate", BRAID_I32, 0, NULL, &e->rate));
  BRAID_TRY(input_of(e, "step", BRAID_I64, 0, NULL, &e->step));
  BRAID_TRY(emit_loss(e));
  for (size_t i = net->layer_count; i-- > 0;) BRAID_TRY(emit_backward(e, i));
  if (e->digests) BRAID_TRY(braid_integer_digests_end(e->digests, e->graph));
  return braid_graph_compact(e->graph);
}

braid_status braid_integer_step(const braid_integer_network *net, const braid_train_options *options,
                                braid_integer_digests *digests, braid_graph **out) {
  *out = NULL;
  emitter e = {.net = net, .options = options, .digests = digests, .slice = braid_slice_of(options)};
  e.layers = braid_zalloc_array(net->allocator, net->layer_count + 1, sizeof *e.layers);
  e.tensors = braid_zalloc_array(net->allocator, net->tensor_count + 1, sizeof *e.tensors);
  braid_status status = e.layers && e.tensors ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < net->tensor_count; i++) e.tensors[i].error = -1;
  if (status == BRAID_OK) status = braid_graph_create(net->allocator, braid_graph_name(net->graph), &e.graph);
  if (status == BRAID_OK) status = emit_step(&e);
  braid_free(net->allocator, e.layers);
  braid_free(net->allocator, e.tensors);
  if (status == BRAID_OK)
    *out = e.graph;
  else
    braid_graph_destroy(e.graph);
  return status;
}
