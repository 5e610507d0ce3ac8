/* From a model to the passes of its training step: the training graph is built as the trainer builds it, and each of
 * its nodes becomes the passes that the paper's architecture needs for it (Section 5, Algorithm 2). */
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "base/vector.h"
#include "braid/model.h"
#include "explore/files.h"
#include "explore/network.h"
#include "graph/geometry.h"
#include "train/step.h"

static bool is_op(const braid_node *node, const char *op) {
  return strcmp(node->op->name, op) == 0;
}

/* --- adding passes -------------------------------------------------------------------------------------------------
 */
/* While passes are collected, `layer` is the node that owns them + 1; 0: none. */
typedef struct counting {
  braid_tile_network *network;
  const braid_tile_roles *roles;
  const braid_node *node;
  size_t owner;
} counting;

static const braid_desc *desc_of(const counting *c, braid_value_id value) {
  return &c->network->graph->values[value].desc;
}

static double count_of(const counting *c, braid_value_id value) {
  return (double)braid_desc_count(desc_of(c, value));
}

/* Of one sample, where there is one of each. */
static double sample_of(const counting *c, braid_value_id value) {
  return c->roles->batched[value] ? count_of(c, value) / (double)c->network->batch : count_of(c, value);
}

static braid_status add_pass(counting *c, braid_tile_pass pass) {
  braid_tile_network *network = c->network;
  void *grown = braid_grow(network->allocator, network->passes, network->pass_count, &network->pass_capacity,
                           sizeof *network->passes);
  if (!grown) return BRAID_NO_MEMORY;
  network->passes = grown;
  pass.layer = c->owner;
  network->passes[network->pass_count++] = pass;
  return BRAID_OK;
}

/* An auxiliary pass: `elements` values of each sample (or of the step, over parameters) with streams of so many values
 * and bits. */
static braid_status add_auxiliary(counting *c, const char *what, bool batched, double elements, double read,
                                  int read_bits, double written, int written_bits) {
  double samples = batched ? (double)c->network->batch : 1;
  return add_pass(c, (braid_tile_pass){.what = what,
                                       .phase = BRAID_TILE_AUXILIARY,
                                       .elements = elements,
                                       .batched = batched,
                                       .read_bytes = samples * read * read_bits / 8,
                                       .written_bytes = samples * written * written_bits / 8});
}

static braid_status add_product(counting *c, braid_tile_phase phase, braid_tile_pass pass) {
  pass.what = "product";
  pass.phase = phase;
  return add_pass(c, pass);
}

/* Errors leave a backward product in 32 bits and the layer in 8 (Section 3.2.3). */
static braid_status add_quantize(counting *c, double values) {
  return add_auxiliary(c, "quantize", true, values, values, BRAID_TILE_WIDE, values, BRAID_TILE_NARROW);
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
/* A kernel of one element that looks at each input once needs no columns. */
static bool needs_columns(const braid_window *window) {
  bool plain = braid_window_volume(window) == 1;
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    plain &= window->stride[i] == 1 && window->begin[i] == 0 && window->end[i] == 0;
  return !plain;
}

static braid_tile_pass conv_product(const braid_convolution *conv) {
  const braid_window *window = &conv->window;
  return (braid_tile_pass){.depth = conv->inputs / conv->groups * braid_window_volume(window),
                           .filters = conv->outputs / conv->groups,
                           .pixels = braid_window_outputs(window),
                           .groups = conv->groups,
                           .weights = true};
}

static double columns_of(const braid_tile_pass *product) {
  return (double)product->depth * (double)product->groups * (double)product->pixels;
}

static double inputs_of(const braid_convolution *conv) {
  return (double)conv->inputs * (double)braid_window_inputs(&conv->window);
}

static braid_status add_im2col(counting *c, const braid_convolution *conv, const braid_tile_pass *product) {
  if (!needs_columns(&conv->window)) return BRAID_OK;
  return add_auxiliary(c, "im2col", true, columns_of(product), inputs_of(conv), BRAID_TILE_NARROW, columns_of(product),
                       BRAID_TILE_NARROW);
}

static braid_status count_conv(counting *c) {
  const braid_node *node = c->node;
  braid_convolution conv;
  BRAID_TRY(braid_geometry_conv(&node->attrs, desc_of(c, node->inputs[0]), desc_of(c, node->inputs[1]), &conv));
  braid_tile_pass product = conv_product(&conv);
  product.sums = product.depth;
  BRAID_TRY(add_im2col(c, &conv, &product));
  BRAID_TRY(add_product(c, node->backward ? BRAID_TILE_BACKWARD : BRAID_TILE_FORWARD, product));
  return node->backward ? add_quantize(c, (double)conv.outputs * (double)product.pixels) : BRAID_OK;
}

/* The product leaves columns, whose sums are the result. */
static braid_status count_transposed_conv(counting *c, bool transposed) {
  const braid_node *node = c->node;
  const braid_desc *first = desc_of(c, node->inputs[0]), *weights = desc_of(c, node->inputs[1]);
  braid_convolution conv;
  BRAID_TRY((transposed ? braid_geometry_conv_transpose : braid_geometry_conv_grad_input)(&node->attrs, first, weights,
                                                                                          &conv));
  braid_tile_pass product = conv_product(&conv);
  product.sums = product.filters;
  BRAID_TRY(add_product(c, node->backward ? BRAID_TILE_BACKWARD : BRAID_TILE_FORWARD, product));
  double columns = columns_of(&product), values = inputs_of(&conv);
  if (needs_columns(&conv.window))
    BRAID_TRY(add_auxiliary(c, "col2im", true, columns, columns, BRAID_TILE_WIDE, values, BRAID_TILE_WIDE));
  return add_quantize(c, values);
}

/* The columns of the forward pass are not kept, as in Darknet: they are made again. */
static braid_status count_conv_filter(counting *c) {
  const braid_node *node = c->node;
  braid_convolution conv;
  BRAID_TRY(
      braid_geometry_conv_grad_filter(&node->attrs, desc_of(c, node->inputs[0]), desc_of(c, node->inputs[1]), &conv));
  braid_tile_pass product = conv_product(&conv);
  product.sums = product.pixels;
  BRAID_TRY(add_im2col(c, &conv, &product));
  return add_product(c, BRAID_TILE_GRADIENT, product);
}

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
typedef struct matrices {
  double rows, inner, columns; /* of one matrix */
  double products;             /* matrices in the node */
} matrices;

static matrices matrices_of(const counting *c) {
  const braid_node *node = c->node;
  const braid_desc *a = desc_of(c, node->inputs[0]), *b = desc_of(c, node->inputs[1]),
                   *y = desc_of(c, node->outputs[0]);
  bool ta = a->rank > 1 && braid_attr_int(&node->attrs, "transA", 0) != 0;
  matrices m = {1, (double)a->dims[a->rank - (ta ? 2 : 1)], 1, 1};
  if (a->rank > 1) m.rows = (double)a->dims[a->rank - (ta ? 1 : 2)];
  bool tb = b->rank > 1 && braid_attr_int(&node->attrs, "transB", 0) != 0;
  if (b->rank > 1) m.columns = (double)b->dims[b->rank - (tb ? 2 : 1)];
  m.products = m.rows * m.columns > 0 ? (double)braid_desc_count(y) / (m.rows * m.columns) : 0;
  return m;
}

static int64_t whole(double value) {
  return value < 1 ? 1 : value < 9e15 ? (int64_t)value + (value > (double)(int64_t)value) : (int64_t)9e15;
}

/* A product with parameters: (samples x pixels) rows of C times C x F; backward rows of F times F x C; of a gradient
 * the rows are what is summed. */
static braid_status add_weight_product(counting *c, braid_tile_phase phase, double rows, double depth, double filters) {
  double pixels = rows / (double)c->network->batch;
  double sums = phase == BRAID_TILE_FORWARD ? depth : phase == BRAID_TILE_BACKWARD ? filters : pixels;
  braid_tile_pass product = {.depth = whole(depth),
                             .filters = whole(filters),
                             .pixels = whole(pixels),
                             .groups = 1,
                             .sums = whole(sums),
                             .connected = pixels <= 1,
                             .weights = true};
  BRAID_TRY(add_product(c, phase, product));
  return phase == BRAID_TILE_BACKWARD ? add_quantize(c, pixels * depth) : BRAID_OK;
}

/* Both operands are of each sample (attention). */
static braid_status add_sample_product(counting *c, const matrices *m) {
  double batch = (double)c->network->batch;
  braid_tile_pass product = {.depth = whole(m->inner),
                             .filters = whole(m->columns),
                             .pixels = whole(m->rows),
                             .groups = whole(m->products / batch),
                             .sums = whole(m->inner)};
  bool backward = c->node->backward;
  BRAID_TRY(add_product(c, backward ? BRAID_TILE_BACKWARD : BRAID_TILE_FORWARD, product));
  return backward ? add_quantize(c, m->rows * m->columns * m->products / batch) : BRAID_OK;
}

static braid_status count_matmul(counting *c) {
  const braid_node *node = c->node;
  const braid_tile_roles *roles = c->roles;
  matrices m = matrices_of(c);
  bool a = roles->batched[node->inputs[0]], b = roles->batched[node->inputs[1]];
  braid_tile_phase phase = node->backward ? BRAID_TILE_BACKWARD : BRAID_TILE_FORWARD;
  if (roles->gradient[node->outputs[0]]) {
    const braid_value *first = &c->network->graph->values[node->inputs[0]];
    bool errors = first->kind == BRAID_VALUE_RESULT && c->network->graph->nodes[first->producer].backward;
    return add_weight_product(c, BRAID_TILE_GRADIENT, m.inner * m.products, errors ? m.columns : m.rows,
                              errors ? m.rows : m.columns);
  }
  if (a && b) return add_sample_product(c, &m);
  if (a || b) {
    double rows = (a ? m.rows : m.columns) * m.products, results = a ? m.columns : m.rows;
    bool backward = phase == BRAID_TILE_BACKWARD;
    return add_weight_product(c, phase, rows, backward ? results : m.inner, backward ? m.inner : results);
  }
  return braid_fail(BRAID_UNSUPPORTED,
                    "node %.120s (%s) is a product of parameters alone, for which the model has no "
                    "equation",
                    node->name, node->op->name);
}

/* --- all other nodes -----------------------------------------------------------------------------------------------
 */
static braid_status count_update(counting *c) {
  double values = count_of(c, c->node->inputs[0]);
  BRAID_TRY(add_auxiliary(c, "quantize", false, values, values, BRAID_TILE_WIDE, values, BRAID_TILE_NARROW));
  return add_auxiliary(c, "update", false, values, 2 * values, BRAID_TILE_NARROW, values, BRAID_TILE_NARROW);
}

/* The tiles of a frame have three dimensions, those of a row of a connected layer two (Algorithm 2, line 1). */
static bool changes_tiles(const counting *c) {
  braid_value_id from = c->node->inputs[0], to = c->node->outputs[0];
  return c->roles->batched[from] && c->roles->batched[to] && (desc_of(c, from)->rank > 2) != (desc_of(c, to)->rank > 2);
}

typedef struct streams {
  double most;  /* values of the largest operand */
  bool batched; /* it is of each sample */
  double read_bytes, written_bytes;
} streams;

static void add_stream(const counting *c, braid_value_id value, bool written, streams *s) {
  if (value < 0) return;
  double values = sample_of(c, value), bytes = count_of(c, value);
  if (c->roles->gradient[value]) bytes *= (double)BRAID_TILE_WIDE / 8;
  bool batched = c->roles->batched[value];
  if (batched > s->batched || (batched == s->batched && values > s->most)) {
    s->most = values;
    s->batched = batched;
  }
  *(written ? &s->written_bytes : &s->read_bytes) += bytes;
}

/* One pass over the largest operand, with a stream for each operand. */
static braid_status count_other(counting *c) {
  const braid_node *node = c->node;
  if ((node->op->flags & BRAID_OP_VIEW) && !changes_tiles(c)) return BRAID_OK;
  if (is_op(node, "Transpose") && !c->roles->batched[node->inputs[0]]) return BRAID_OK; /* in the product's buffers */
  streams s = {0};
  for (size_t i = 0; i < node->input_count; i++) add_stream(c, node->inputs[i], false, &s);
  if (strstr(node->op->name, "Normalization") &&
      s.batched) /* the mean and variance are needed before the first result */
    BRAID_TRY(add_pass(c, (braid_tile_pass){.what = "statistics",
                                            .phase = BRAID_TILE_AUXILIARY,
                                            .elements = s.most,
                                            .batched = true,
                                            .read_bytes = s.read_bytes}));
  for (size_t i = 0; i < node->output_count; i++) add_stream(c, node->outputs[i], true, &s);
  if (!s.batched && s.most <= 1) return BRAID_OK; /* the learning rate and the like: the host's */
  return add_pass(c, (braid_tile_pass){.what = node->op->name,
                                       .phase = BRAID_TILE_AUXILIARY,
                                       .elements = s.most,
                                       .batched = s.batched,
                                       .read_bytes = s.read_bytes,
                                       .written_bytes = s.written_bytes});
}

static braid_status count_node(counting *c) {
  const braid_node *node = c->node;
  if (is_op(node, "Conv")) return count_conv(c);
  if (is_op(node, "ConvTranspose")) return count_transposed_conv(c, true);
  if (is_op(node, "ConvGradInput")) return count_transposed_conv(c, false);
  if (is_op(node, "ConvGradFilter")) return count_conv_filter(c);
  if (is_op(node, "Gemm") || is_op(node, "MatMul")) return count_matmul(c);
  if (is_op(node, "SgdUpdate")) return count_update(c);
  if (node->op->macs && node->op->macs(c->network->graph, node) > 0)
    return braid_fail(BRAID_UNSUPPORTED,
                      "node %.120s (%s): the model has equations for convolutions and matrix products, not for this op",
                      node->name, node->op->name);
  /* What the gradient of a parameter is made of after its product or sum moves no data of its own. */
  if (node->output_count && node->outputs[0] >= 0 && c->roles->gradient[node->outputs[0]] &&
      !c->roles->batched[node->inputs[0]])
    return BRAID_OK;
  return count_other(c);
}

/* --- layers --------------------------------------------------------------------------------------------------------
 */
/* Passes name their owners' nodes; these become layers, in the order of the graph. */
static braid_status number_layers(braid_tile_network *network) {
  const braid_graph *graph = network->graph;
  size_t *layer_of = braid_zalloc_array(network->allocator, graph->node_count + 1, sizeof *layer_of);
  network->layers = braid_zalloc_array(network->allocator, graph->node_count + 1, sizeof *network->layers);
  if (!layer_of || !network->layers) {
    braid_free(network->allocator, layer_of);
    return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < network->pass_count; i++) layer_of[network->passes[i].layer] = 1;
  for (size_t i = 1; i <= graph->node_count + 1; i++) {
    size_t at = i > graph->node_count ? 0 : i; /* what belongs to no node comes last */
    if (!layer_of[at]) continue;
    network->layers[network->layer_count] =
        at ? (braid_tile_layer){graph->nodes[at - 1].name, graph->nodes[at - 1].op->name}
           : (braid_tile_layer){"other", ""};
    layer_of[at] = network->layer_count++;
  }
  for (size_t i = 0; i < network->pass_count; i++) network->passes[i].layer = layer_of[network->passes[i].layer];
  braid_free(network->allocator, layer_of);
  return BRAID_OK;
}

static braid_status count_passes(braid_tile_network *network) {
  braid_tile_roles roles;
  BRAID_TRY(braid_tile_roles_create(network->graph, network->batch, &roles));
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < network->graph->node_count; i++) {
    counting c = {network, &roles, &network->graph->nodes[i], (size_t)(roles.owner[i] + 1)};
    status = count_node(&c);
  }
  braid_tile_roles_destroy(&roles);
  return status == BRAID_OK ? number_layers(network) : status;
}

/* --- the training graph --------------------------------------------------------------------------------------------
 */
static braid_status network_build(braid_tile_network *network, const braid_graph *model) {
  braid_train_options options;
  braid_train_options_init(&options);
  options.batch = network->batch;
  options.momentum = options.weight_decay = 0; /* the paper's update is W - g_q */
  BRAID_TRY(braid_step_graph_alone(model, &options, &network->graph));
  BRAID_TRY(braid_graph_compact(network->graph));
  return count_passes(network);
}

braid_status braid_tile_network_create(const braid_graph *model, int64_t batch, braid_tile_network **out) {
  *out = NULL;
  if (batch < 1 || batch > BRAID_TILE_MOST)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a batch of %lld; 1 to %d is expected", (long long)batch,
                      BRAID_TILE_MOST);
  braid_tile_network *network = braid_zalloc(model->allocator, sizeof *network);
  if (!network) return BRAID_NO_MEMORY;
  network->allocator = model->allocator;
  network->batch = batch;
  braid_status status = network_build(network, model);
  if (status == BRAID_OK)
    *out = network;
  else
    braid_tile_network_destroy(network);
  return status;
}

void braid_tile_network_destroy(braid_tile_network *network) {
  if (!network) return;
  braid_graph_destroy(network->graph);
  braid_free(network->allocator, network->layers);
  braid_free(network->allocator, network->passes);
  braid_free(network->allocator, network);
}

/* --- what there is -------------------------------------------------------------------------------------------------
 */
int64_t braid_tile_network_batch(const braid_tile_network *network) {
  return network->batch;
}

size_t braid_tile_layer_count(const braid_tile_network *network) {
  return network->layer_count;
}

braid_tile_layer braid_tile_get_layer(const braid_tile_network *network, size_t index) {
  return network->layers[index];
}

size_t braid_tile_pass_count(const braid_tile_network *network) {
  return network->pass_count;
}

braid_tile_pass braid_tile_get_pass(const braid_tile_network *network, size_t index) {
  return network->passes[index];
}

double braid_tile_macs(const braid_tile_network *network) {
  double sum = 0;
  for (size_t i = 0; i < network->pass_count; i++) {
    const braid_tile_pass *pass = &network->passes[i];
    if (pass->phase != BRAID_TILE_AUXILIARY)
      sum += (double)network->batch * (double)pass->depth * (double)pass->filters * (double)pass->pixels *
             (double)pass->groups;
  }
  return sum;
}

braid_status braid_tile_paper_model(const braid_allocator *allocator, braid_graph **out) {
  const braid_explore_file *file = &braid_paper_files[0];
  return braid_model_parse(
      allocator,
      &(braid_model_memory){
          .data = file->text, .bytes = file->bytes, .format = BRAID_MODEL_DARKNET, .name = file->name},
      out);
}
