#include "train/integer/network.h"
#include "train/parallel/slice.h"

#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/integer.h"
#include "graph/rewrite.h"
#include "runtime/plan/resolve.h"
#include "train/step.h"
#include "train/update.h"

enum { kNone = -1 };

typedef struct builder {
  braid_integer_network *net;
  const braid_train_options *options;
  int32_t *uses; /* of the graph's values */
  int32_t *at;   /* value -> tensor; -1: none */
  bool *done;    /* nodes that an earlier layer took in */
} builder;

static const braid_node *node_of(const builder *b, braid_value_id value) {
  const braid_value *v = &b->net->graph->values[value];
  return v->kind == BRAID_VALUE_RESULT ? &b->net->graph->nodes[v->producer] : NULL;
}

static braid_status refuse(const braid_node *node, const char *why) {
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s) cannot be trained in integers: %s", node->name, node->op->name,
                    why);
}

static bool is_known(const builder *b, braid_value_id value) {
  return value >= 0 && b->net->graph->values[value].tensor != NULL;
}

/* --- tensors -------------------------------------------------------------------------------------------------------
 */
static braid_status tensor_of(const builder *b, const braid_node *node, size_t input, size_t *out) {
  braid_value_id value = braid_node_input(node, input);
  if (value < 0 || b->at[value] < 0) return refuse(node, "an operand is not computed from the images");
  *out = (size_t)b->at[value];
  return BRAID_OK;
}

static size_t add_tensor(builder *b, braid_value_id value, bool trained) {
  braid_integer_network *net = b->net;
  b->at[value] = (int32_t)net->tensor_count;
  net->trained[net->tensor_count] = trained;
  net->tensors[net->tensor_count] = net->graph->values[value].desc;
  net->values[net->tensor_count] = value;
  return net->tensor_count++;
}

/* The only node that reads `value`, if it is `op`; else NULL. */
static braid_node_id sole_reader(const builder *b, braid_value_id value, const char *op) {
  const braid_graph *graph = b->net->graph;
  if (b->uses[value] != 1) return kNone;
  for (size_t i = 0; i < graph->node_count; i++)
    if (graph->nodes[i].input_count && graph->nodes[i].inputs[0] == value && braid_node_is(&graph->nodes[i], op))
      return (braid_node_id)i;
  return kNone;
}

/* The number that an operand is; NAN: it is none that is known. */
static double number_of(const builder *b, const braid_node *node, size_t input) {
  braid_value_id id = braid_node_input(node, input);
  if (!is_known(b, id) || !b->net->graph->values[id].tensor) return NAN;
  const braid_tensor *tensor = b->net->graph->values[id].tensor;
  return braid_desc_count(braid_tensor_desc(tensor)) == 1 ? braid_tensor_get_f64(tensor, 0) : NAN;
}

/* Signed numbers in steps of a power of two around 0, there and back. */
static bool is_own_steps(const builder *b, const braid_node *there, const braid_node *back) {
  double scale = number_of(b, there, 1);
  int exponent;
  braid_dtype dtype = b->net->graph->values[there->outputs[0]].desc.dtype;
  return (dtype == BRAID_I8 || dtype == BRAID_I16) && number_of(b, there, 2) == 0 && number_of(b, back, 2) == 0 &&
         number_of(b, back, 1) == scale && frexp(scale, &exponent) == 0.5;
}

/* To so many steps as k bits have. */
static bool is_own_limit(const builder *b, const braid_node *clip, const braid_node *there) {
  double high = number_of(b, clip, 2);
  int bits;
  return number_of(b, clip, 1) == -high && frexp(high / number_of(b, there, 1) + 1, &bits) == 0.5 && bits >= 2 &&
         bits <= 16;
}

/* Past the nodes by which a file that this training saved rounds `value`, which other nodes of these ops are not. */
static braid_value_id past_rounding(builder *b, braid_value_id value) {
  const braid_node *nodes = b->net->graph->nodes;
  braid_node_id clip = sole_reader(b, value, "Clip");
  braid_node_id there = sole_reader(b, clip < 0 ? value : nodes[clip].outputs[0], "QuantizeLinear");
  braid_node_id back = there < 0 ? kNone : sole_reader(b, nodes[there].outputs[0], "DequantizeLinear");
  if (back < 0 || !is_own_steps(b, &nodes[there], &nodes[back])) return value;
  if (clip >= 0 && !is_own_limit(b, &nodes[clip], &nodes[there])) return value;
  if (clip >= 0) b->done[clip] = true;
  b->done[there] = b->done[back] = true;
  return nodes[back].outputs[0];
}

static bool trains(const builder *b, braid_value_id parameter) {
  return parameter >= 0 && !braid_parameter_is_frozen(b->options, b->net->graph->values[parameter].name);
}

/* Ends a layer whose result is `value`: a rectifier that alone reads it belongs to it. */
static void finish_layer(builder *b, braid_integer_layer *layer, braid_value_id value) {
  braid_integer_network *net = b->net;
  braid_node_id relu = sole_reader(b, value, "Relu");
  if (relu >= 0 && layer->kind != BRAID_INTEGER_RELU) {
    layer->relu = true;
    b->done[relu] = true;
    value = net->graph->nodes[relu].outputs[0];
  }
  bool trained = trains(b, layer->weight) || trains(b, layer->gamma) || trains(b, layer->beta) ||
                 net->trained[layer->in[0]] || net->trained[layer->in[1]];
  layer->out = add_tensor(b, value, trained);
  net->layers[net->layer_count++] = *layer;
}

static braid_integer_layer layer_of(const builder *b, braid_integer_kind kind, const braid_node *node) {
  return (braid_integer_layer){.kind = kind,
                               .node = (braid_node_id)(node - b->net->graph->nodes),
                               .norm_node = kNone,
                               .weight = kNone,
                               .gamma = kNone,
                               .beta = kNone,
                               .mean = kNone,
                               .variance = kNone};
}

static bool ends_in(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void note_bias(const builder *b, braid_value_id bias) {
  braid_integer_network *net = b->net;
  if (bias < 0 || ends_in(net->graph->values[bias].name, BRAID_INTEGER_ROUNDING)) return;
  for (size_t i = 0; i < net->bias_count; i++)
    if (net->biases[i] == bias) return;
  net->biases[net->bias_count++] = bias;
}

static braid_status check_weight(const builder *b, const braid_node *node, braid_value_id weight) {
  if (!is_known(b, weight)) return refuse(node, "its weights are not known before the run");
  for (size_t i = 0; i < b->net->layer_count; i++)
    if (b->net->layers[i].weight == weight) return refuse(node, "it shares its weights with another layer");
  return BRAID_OK;
}

/* --- layers --------------------------------------------------------------------------------------------------------
 */
static braid_status take_norm(builder *b, braid_integer_layer *layer, braid_node_id id) {
  const braid_node *node = &b->net->graph->nodes[id];
  for (size_t i = 1; i < 5; i++)
    if (!is_known(b, braid_node_input(node, i))) return refuse(node, "its parameters are not known before the run");
  layer->norm_node = id;
  layer->gamma = node->inputs[1];
  layer->beta = node->inputs[2];
  layer->mean = node->inputs[3];
  layer->variance = node->inputs[4];
  b->done[id] = true;
  return BRAID_OK;
}

/* Past what a file that this training saved has behind a normalization: the limits of what it rounds first. */
static braid_value_id past_limits(builder *b, braid_value_id value) {
  static const char *const kOps[] = {"Max", "Min"};
  for (size_t i = 0; i < 2; i++) {
    braid_node_id reader = sole_reader(b, value, kOps[i]);
    const braid_node *node = reader < 0 ? NULL : &b->net->graph->nodes[reader];
    braid_value_id limit = node ? braid_node_input(node, 1) : kNone;
    if (!is_known(b, limit) || !ends_in(b->net->graph->values[limit].name, BRAID_INTEGER_ROUNDING)) return value;
    b->done[reader] = true;
    value = node->outputs[0];
  }
  return value;
}

/* `fan_in` products in a sum. */
static braid_status finish_product(builder *b, braid_integer_layer *layer, const braid_node *node, int64_t fan_in) {
  braid_integer_network *net = b->net;
  braid_value_id value = past_rounding(b, node->outputs[0]);
  braid_node_id norm = sole_reader(b, value, "BatchNormalization");
  layer->in[1] = layer->in[0];
  layer->a_shift = braid_integer_a_shift(fan_in);
  layer->shift = norm >= 0 ? braid_integer_wide_shift(fan_in, net->weight_bits, net->activation_bits)
                           : net->weight_bits - 1 + layer->a_shift;
  if (norm >= 0) {
    BRAID_TRY(take_norm(b, layer, norm));
    value = past_limits(b, net->graph->nodes[norm].outputs[0]);
  }
  finish_layer(b, layer, value);
  return BRAID_OK;
}

static braid_status take_conv(builder *b, const braid_node *node) {
  braid_integer_layer layer = layer_of(b, BRAID_INTEGER_CONV, node);
  braid_convolution conv;
  BRAID_TRY(tensor_of(b, node, 0, &layer.in[0]));
  layer.weight = braid_node_input(node, 1);
  BRAID_TRY(check_weight(b, node, layer.weight));
  layer.frozen = !trains(b, layer.weight);
  const braid_value *values = b->net->graph->values;
  if (values[node->inputs[0]].desc.rank != 4) return refuse(node, "only images of two dimensions are carried");
  BRAID_TRY(braid_geometry_conv(&node->attrs, &values[node->inputs[0]].desc, &values[layer.weight].desc, &conv));
  note_bias(b, braid_node_input(node, 2));
  return finish_product(b, &layer, node, braid_integer_fan_in(&conv));
}

static braid_status take_product(builder *b, const braid_node *node) {
  braid_integer_layer layer = layer_of(b, BRAID_INTEGER_CONV, node);
  BRAID_TRY(tensor_of(b, node, 0, &layer.in[0]));
  layer.weight = braid_node_input(node, 1);
  const braid_value *values = b->net->graph->values;
  BRAID_TRY(check_weight(b, node, layer.weight));
  layer.frozen = !trains(b, layer.weight);
  if (values[node->inputs[0]].desc.rank != 2 || values[layer.weight].desc.rank != 2)
    return refuse(node, "only products of two matrices are carried");
  if (braid_attr_int(&node->attrs, "transA", 0) || braid_attr_float(&node->attrs, "alpha", 1) != 1)
    return refuse(node, "transA and alpha have no form in integers");
  layer.transposed = !braid_attr_int(&node->attrs, "transB", 0);
  note_bias(b, braid_node_input(node, 2));
  return finish_product(b, &layer, node, values[node->inputs[0]].desc.dims[1]);
}

static braid_status take_pool(builder *b, const braid_node *node, braid_integer_kind kind, bool global) {
  braid_integer_layer layer = layer_of(b, kind, node);
  BRAID_TRY(tensor_of(b, node, 0, &layer.in[0]));
  layer.in[1] = layer.in[0];
  const braid_desc *x = &b->net->graph->values[node->inputs[0]].desc;
  if (x->rank != 4) return refuse(node, "only images of two dimensions are carried");
  for (size_t i = 1; i < node->output_count; i++)
    if (node->outputs[i] >= 0) return refuse(node, "it has more than one result");
  braid_window window;
  if (!global) BRAID_TRY(braid_geometry_pool(&node->attrs, x, &window));
  layer.pooled = global ? x->dims[2] * x->dims[3] : braid_window_volume(&window);
  finish_layer(b, &layer, node->outputs[0]);
  return BRAID_OK;
}

/* What only passes its operand on: `value` is the same tensor. */
static braid_status pass_on(builder *b, const braid_node *node) {
  size_t in;
  BRAID_TRY(tensor_of(b, node, 0, &in));
  b->at[node->outputs[0]] = (int32_t)in;
  return BRAID_OK;
}

static braid_status take_reshape(builder *b, const braid_node *node) {
  size_t in;
  BRAID_TRY(tensor_of(b, node, 0, &in));
  const braid_desc *from = &b->net->tensors[in], *to = &b->net->graph->values[node->outputs[0]].desc;
  if (from->rank < 1 || to->rank < 1 || from->dims[0] != to->dims[0]) return refuse(node, "it mixes the samples");
  if (braid_desc_same_shape(from, to)) return pass_on(b, node);
  braid_integer_layer layer = layer_of(b, BRAID_INTEGER_RESHAPE, node);
  layer.in[0] = layer.in[1] = in;
  finish_layer(b, &layer, node->outputs[0]);
  return BRAID_OK;
}

static braid_status take_add(builder *b, const braid_node *node) {
  for (size_t i = 0; i < 2; i++) {
    braid_value_id other = braid_node_input(node, 1 - i), value = braid_node_input(node, i);
    const braid_node *from = value >= 0 ? node_of(b, value) : NULL;
    bool bias = from && (braid_node_is(from, "MatMul") || braid_node_is(from, "Conv"));
    if (!is_known(b, other) || b->at[value] < 0 || !(bias || (from && braid_node_is(from, "AveragePool")))) continue;
    note_bias(b, other);
    b->at[node->outputs[0]] = b->at[value];
    return BRAID_OK;
  }
  braid_integer_layer layer = layer_of(b, BRAID_INTEGER_ADD, node);
  BRAID_TRY(tensor_of(b, node, 0, &layer.in[0]));
  BRAID_TRY(tensor_of(b, node, 1, &layer.in[1]));
  if (!braid_desc_same_shape(&b->net->tensors[layer.in[0]], &b->net->tensors[layer.in[1]]))
    return refuse(node, "its operands differ in shape");
  finish_layer(b, &layer, node->outputs[0]);
  return BRAID_OK;
}

static braid_status take_relu(builder *b, const braid_node *node) {
  braid_integer_layer layer = layer_of(b, BRAID_INTEGER_RELU, node);
  BRAID_TRY(tensor_of(b, node, 0, &layer.in[0]));
  layer.in[1] = layer.in[0];
  finish_layer(b, &layer, node->outputs[0]);
  return BRAID_OK;
}

/* Of a file that this training saved: its values are on the grid already. */
static braid_status take_rounding(builder *b, const braid_node *node) {
  size_t in;
  braid_value_id value = past_rounding(b, node->inputs[0]);
  if (value == node->inputs[0])
    return refuse(node, braid_node_is(node, "Clip") ? "of limits only the rectifier (relu) has a form in integers"
                                                    : "of quantized networks only those that training in integers "
                                                      "saved train on");
  BRAID_TRY(tensor_of(b, node, 0, &in));
  b->at[value] = (int32_t)in;
  return BRAID_OK;
}

static braid_status take_node(builder *b, const braid_node *node) {
  if (braid_node_is(node, "Conv")) return take_conv(b, node);
  if (braid_node_is(node, "Gemm") || braid_node_is(node, "MatMul")) return take_product(b, node);
  if (braid_node_is(node, "Relu")) return take_relu(b, node);
  if (braid_node_is(node, "MaxPool")) return take_pool(b, node, BRAID_INTEGER_MAX_POOL, false);
  if (braid_node_is(node, "AveragePool")) return take_pool(b, node, BRAID_INTEGER_AVERAGE_POOL, false);
  if (braid_node_is(node, "GlobalAveragePool")) return take_pool(b, node, BRAID_INTEGER_AVERAGE_POOL, true);
  if (braid_node_is(node, "Add")) return take_add(b, node);
  if (node->op->flags & BRAID_OP_VIEW) return take_reshape(b, node);
  if (braid_node_is(node, "Clip") || braid_node_is(node, "QuantizeLinear")) return take_rounding(b, node);
  if (braid_node_is(node, "BatchNormalization"))
    return refuse(node, "a batch normalization must follow a convolution or product that nothing else reads");
  return refuse(node, "docs/integer-training.md lists the layers that have a form in integers");
}

static bool has_weights(const braid_integer_network *net) {
  for (size_t i = 0; i < net->layer_count; i++)
    if (net->layers[i].weight >= 0) return true;
  return false;
}

static braid_status take_nodes(builder *b) {
  braid_integer_network *net = b->net;
  braid_value_id scores = braid_graph_output(net->graph, 0);
  for (const braid_node *last = node_of(b, scores); last; last = node_of(b, scores)) {
    if (!braid_node_is(last, "Softmax") && !braid_node_is(last, "LogSoftmax")) break;
    scores = last->inputs[0];
  }
  for (size_t i = 0; i < net->graph->node_count && b->at[scores] < 0; i++) {
    const braid_node *node = &net->graph->nodes[i];
    if (!b->done[i]) BRAID_TRY(take_node(b, node));
  }
  if (b->at[scores] < 0) return braid_fail(BRAID_INVALID_GRAPH, "the scores do not depend on the images");
  net->scores = (size_t)b->at[scores];
  if (!has_weights(net)) return braid_fail(BRAID_INVALID_GRAPH, "the model has no weights to train");
  if (net->tensors[net->scores].rank != 2)
    return braid_fail(BRAID_UNSUPPORTED, "the scores have rank %d; one row for each sample is expected",
                      net->tensors[net->scores].rank);
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status read_graph(builder *b, const braid_graph *model, const braid_dataset_info *info, int64_t batch) {
  braid_integer_network *net = b->net;
  BRAID_TRY(braid_graph_clone(model, &net->graph));
  BRAID_TRY(braid_bind_input(net->graph, info, batch));
  BRAID_TRY(braid_resolve_for_good(net->graph));
  size_t values = net->graph->value_count, nodes = net->graph->node_count;
  b->uses = braid_zalloc_array(net->allocator, values + 1, sizeof *b->uses);
  b->at = braid_zalloc_array(net->allocator, values + 1, sizeof *b->at);
  b->done = braid_zalloc_array(net->allocator, nodes + 1, sizeof *b->done);
  net->layers = braid_zalloc_array(net->allocator, nodes + 1, sizeof *net->layers);
  net->tensors = braid_zalloc_array(net->allocator, nodes + 1, sizeof *net->tensors);
  net->values = braid_zalloc_array(net->allocator, nodes + 1, sizeof *net->values);
  net->trained = braid_zalloc_array(net->allocator, nodes + 1, sizeof *net->trained);
  net->biases = braid_zalloc_array(net->allocator, nodes + 1, sizeof *net->biases);
  if (!b->uses || !b->at || !b->done || !net->layers || !net->tensors || !net->values || !net->trained || !net->biases)
    return BRAID_NO_MEMORY;
  for (size_t i = 0; i < values; i++) b->at[i] = -1;
  braid_value_id scores;
  braid_score_kind kind;
  BRAID_TRY(braid_scores(net->graph, info, true, &scores, &kind)); /* checks their number */
  BRAID_TRY(braid_graph_count_uses(net->graph, b->uses));
  add_tensor(b, braid_graph_input(net->graph, 0), false);
  return take_nodes(b);
}

/* Normalized samples have a range of 4 deviations, networks with batch normalization, whose sums of residuals are
 * wider, 8; other samples a range of 1. */
static int find_input_shift(const braid_integer_network *net, bool normalized) {
  int places = 3;
  for (size_t i = 0; i < net->layer_count; i++)
    if (net->layers[i].norm_node >= 0) places = 4;
  return net->activation_bits - (normalized && net->activation_bits > places ? places : 1);
}

braid_status braid_integer_network_create(const braid_graph *model, const braid_dataset_info *info,
                                          const braid_train_options *options, bool normalized,
                                          braid_integer_network **out) {
  *out = NULL;
  braid_integer_network *net = braid_zalloc(model->allocator, sizeof *net);
  if (!net) return BRAID_NO_MEMORY;
  net->allocator = model->allocator;
  net->weight_bits = options->weight_bits;
  net->activation_bits = options->activation_bits;
  net->gradient_bits = options->gradient_bits;
  net->error_bits = options->error_bits;
  builder b = {.net = net, .options = options};
  braid_status status = read_graph(&b, model, info, braid_slice_of(options).count);
  net->input_shift = find_input_shift(net, normalized);
  if (status == BRAID_OK && !options->draw_weights) net->norm_places = braid_integer_find_norm_places(net, NULL, NULL);
  braid_free(net->allocator, b.uses);
  braid_free(net->allocator, b.at);
  braid_free(net->allocator, b.done);
  if (status == BRAID_OK)
    *out = net;
  else
    braid_integer_network_destroy(net);
  return status;
}

void braid_integer_network_destroy(braid_integer_network *net) {
  if (!net) return;
  braid_graph_destroy(net->graph);
  braid_free(net->allocator, net->layers);
  braid_free(net->allocator, net->tensors);
  braid_free(net->allocator, net->values);
  braid_free(net->allocator, net->trained);
  braid_free(net->allocator, net->biases);
  braid_free(net->allocator, net);
}

double braid_integer_wage_rate(double first, int64_t epoch, int64_t epochs) {
  double rate = 3 * epoch < 2 * epochs ? first : 6 * epoch < 5 * epochs ? first / 8 : first / 64;
  return rate < 0x1p-8 ? 0x1p-8 : rate;
}

double braid_integer_cosine_rate(double first, int64_t step, int64_t steps) {
  /* where (1 + cos(pi t)) / 2 is 2^-0.5, 2^-1.5, ..., in 1/10000 */
  static const int64_t kHalves[] = {3641, 5946, 7237, 8078, 8652, 9050, 9330, 9526, 9665, 9763, 9833, 9882, 9916};
  double rate = first;
  for (size_t i = 0; i < sizeof kHalves / sizeof *kHalves; i++)
    if (10000 * step >= kHalves[i] * steps) rate /= 2;
  return fmax(rate, ldexp(1, BRAID_INTEGER_LEAST_RATE));
}

bool braid_integer_rate_is_valid(braid_optimizer rule, double rate) {
  int exponent, least = rule == BRAID_WAGE ? -8 : BRAID_INTEGER_LEAST_RATE;
  return frexp(rate, &exponent) == 0.5 && exponent - 1 >= least && exponent - 1 <= BRAID_INTEGER_MOST_RATE;
}

int braid_integer_decay(double weight_decay) {
  return weight_decay > 0 ? (int)braid_integer_limit(lround(-log2(weight_decay)), 1, 30) : 0;
}

bool braid_integer_is_momentum(const braid_graph *step, const braid_value *value) {
  if (value->kind != BRAID_VALUE_STATE || value->next < 0) return false;
  return strcmp(step->nodes[step->values[value->next].producer].op->name, "IntegerMomentum") == 0;
}
