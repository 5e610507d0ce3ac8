/* Folding: rewrites that are right for every device, since the ops that they leave are those of the model.
 *
 * Nodes are visited in order. A rewrite turns the later node of a pattern into the one for both, in its place, so the
 * order stays topological and its output keeps its name; the earlier node loses its only reader and goes with the
 * compaction at the end, or, where two change places, becomes the first of them. Values that more than one node reads
 * are never folded away, which makes the same rules right for training graphs: there the backward nodes are readers
 * too. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/rewrite.h"
#include "tensor/deferred.h"

/* --- constants into convolutions -----------------------------------------------------------------------------------
 */
static braid_status new_constant(braid_rewrite *f, const braid_desc *desc, braid_value_id *out, float **data) {
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(f->graph->allocator, desc, &tensor));
  braid_status status = braid_graph_add_tensor(f->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  *data = braid_tensor_data(tensor);
  braid_tensor_release(tensor); /* the graph holds it */
  return status;
}

/* One multiplier and one addend per output channel: y = conv(x) * scale + shift. */
typedef struct channel_affine {
  int64_t channels;
  double *scale, *shift;
} channel_affine;

/* Weights times a multiplier per output channel, computed when somebody asks for them: a plan has no need to. */
typedef struct scaled_weights {
  const braid_allocator *allocator;
  int64_t channels, per_channel;
  double scale[];
} scaled_weights;

static void scaled_weights_fill(void *context, const void *source, void *data) {
  const scaled_weights *s = context;
  const float *from = source;
  float *to = data;
  for (int64_t c = 0; c < s->channels; c++)
    for (int64_t i = c * s->per_channel; i < (c + 1) * s->per_channel; i++) to[i] = (float)(from[i] * s->scale[c]);
}

static void scaled_weights_release(void *context) {
  braid_free(((scaled_weights *)context)->allocator, context);
}

static braid_status new_scaled_weights(braid_rewrite *f, braid_tensor *from, const channel_affine *affine,
                                       braid_value_id *out) {
  const braid_allocator *allocator = f->graph->allocator;
  const braid_desc *desc = braid_tensor_desc(from);
  size_t bytes = (size_t)affine->channels * sizeof *affine->scale;
  scaled_weights *s = braid_alloc(allocator, sizeof *s + bytes);
  if (!s) return BRAID_NO_MEMORY;
  *s = (scaled_weights){allocator, affine->channels, braid_desc_count(desc) / affine->channels};
  memcpy(s->scale, affine->scale, bytes);
  braid_deferred deferred = {scaled_weights_fill, scaled_weights_release, s, from};
  braid_tensor *tensor;
  braid_status status = braid_tensor_defer(allocator, desc, &deferred, &tensor);
  if (status != BRAID_OK) {
    scaled_weights_release(s);
    return status;
  }
  status = braid_graph_add_tensor(f->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor); /* the graph holds it */
  return status;
}

/* Makes node `id`, which applies `affine` to the output of `conv`, a convolution with that worked into its constants.
 */
static braid_status affine_absorb(braid_rewrite *f, braid_node_id id, braid_node_id conv_id,
                                  const channel_affine *affine) {
  const braid_node *conv = &f->graph->nodes[conv_id];
  braid_value_id x = conv->inputs[0], w = conv->inputs[1], b = braid_node_input(conv, 2);
  braid_desc b_desc;
  BRAID_TRY(braid_desc_init(&b_desc, BRAID_F32, 1, &affine->channels));
  braid_value_id new_w, new_b;
  float *b_out;
  BRAID_TRY(new_scaled_weights(f, f->graph->values[w].tensor, affine, &new_w));
  BRAID_TRY(new_constant(f, &b_desc, &new_b, &b_out));
  const float *b_in = b >= 0 ? braid_tensor_const_data(braid_rewrite_constant(f, b)) : NULL;
  for (int64_t c = 0; c < affine->channels; c++)
    b_out[c] = (float)((b_in ? b_in[c] : 0.0) * affine->scale[c] + affine->shift[c]);
  return braid_rewrite_node(f, id, "Conv", (braid_value_id[]){x, new_w, new_b}, 3, conv_id);
}

/* A convolution whose weights and bias are constants, read only here. */
static const braid_node *constant_conv(const braid_rewrite *f, braid_value_id id) {
  const braid_node *conv = braid_rewrite_sole_producer(f, id);
  if (!braid_node_is(conv, "Conv") || !braid_rewrite_constant(f, conv->inputs[1])) return NULL;
  if (braid_node_input(conv, 2) >= 0 && !braid_rewrite_constant(f, conv->inputs[2])) return NULL;
  return braid_rewrite_desc(f, conv->inputs[1])->dims[0] > 0 ? conv : NULL;
}

static bool batch_norm_affine(const braid_rewrite *f, const braid_node *node, channel_affine *affine) {
  const float *data[4];
  for (size_t i = 0; i < 4; i++) {
    const braid_tensor *tensor = braid_rewrite_constant(f, node->inputs[1 + i]);
    if (!tensor || braid_tensor_desc(tensor)->dtype != BRAID_F32) return false;
    data[i] = braid_tensor_const_data(tensor);
  }
  double epsilon = braid_attr_float(&node->attrs, "epsilon", 1e-5);
  for (int64_t c = 0; c < affine->channels; c++) {
    affine->scale[c] = data[0][c] / sqrt((double)data[3][c] + epsilon);
    affine->shift[c] = data[1][c] - data[2][c] * affine->scale[c];
  }
  return true;
}

/* Does `constant` broadcast over `shape` as one number, or one per channel (dimension 1)? */
static bool is_per_channel(const braid_tensor *constant, const braid_desc *shape) {
  const braid_desc *desc = braid_tensor_desc(constant);
  if (desc->dtype != BRAID_F32 || desc->rank > shape->rank) return false;
  for (int i = 0; i < desc->rank; i++) {
    int at = shape->rank - desc->rank + i;
    if (desc->dims[i] != 1 && (at != 1 || desc->dims[i] != shape->dims[1])) return false;
  }
  return true;
}

static void constant_affine(const braid_tensor *constant, bool multiply, channel_affine *affine) {
  bool one = braid_desc_count(braid_tensor_desc(constant)) == 1;
  const float *data = braid_tensor_const_data(constant);
  for (int64_t c = 0; c < affine->channels; c++) {
    affine->scale[c] = multiply ? data[one ? 0 : c] : 1;
    affine->shift[c] = multiply ? 0 : data[one ? 0 : c];
  }
}

/* Conv then BatchNormalization, Mul or Add by constants per channel. */
static braid_status fold_into_conv(braid_rewrite *f, braid_node_id id) {
  const braid_node *node = &f->graph->nodes[id];
  bool norm = braid_node_is(node, "BatchNormalization"), multiply = braid_node_is(node, "Mul"),
       add = braid_node_is(node, "Add");
  if (!norm && !multiply && !add) return BRAID_OK;
  if (norm && (braid_attr_int(&node->attrs, "training_mode", 0) || node->output_count > 1)) return BRAID_OK;
  const braid_tensor *constant = NULL;
  const braid_node *conv = NULL;
  for (size_t i = 0; i < (norm ? 1u : 2u) && !conv; i++) {
    conv = constant_conv(f, node->inputs[i]);
    if (!conv || norm) continue;
    constant = braid_rewrite_constant(f, node->inputs[1 - i]);
    if (!constant || !is_per_channel(constant, braid_rewrite_desc(f, node->inputs[i]))) conv = NULL;
  }
  if (!conv) return BRAID_OK;
  channel_affine affine = {.channels = braid_rewrite_desc(f, conv->inputs[1])->dims[0]};
  affine.scale = braid_zalloc_array(f->graph->allocator, (size_t)affine.channels, 2 * sizeof *affine.scale);
  if (!affine.scale) return BRAID_NO_MEMORY;
  affine.shift = affine.scale + affine.channels;
  braid_status status = BRAID_OK;
  if (norm ? batch_norm_affine(f, node, &affine) : (constant_affine(constant, multiply, &affine), true))
    status = affine_absorb(f, id, braid_rewrite_index(f, conv), &affine);
  braid_free(f->graph->allocator, affine.scale);
  return status;
}

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
/* Add(MatMul(a, b), c) of matrices and one number per column. */
static braid_status fold_matmul_bias(braid_rewrite *f, braid_node_id id) {
  const braid_node *node = &f->graph->nodes[id];
  if (!braid_node_is(node, "Add")) return BRAID_OK;
  for (size_t i = 0; i < 2; i++) {
    const braid_node *matmul = braid_rewrite_sole_producer(f, node->inputs[i]);
    if (!braid_node_is(matmul, "MatMul") || matmul->attrs.count) continue;
    const braid_desc *a = braid_rewrite_desc(f, matmul->inputs[0]), *b = braid_rewrite_desc(f, matmul->inputs[1]);
    const braid_desc *c = braid_rewrite_desc(f, node->inputs[1 - i]);
    if (a->rank != 2 || b->rank != 2 || c->rank < 1 || c->rank > 2) continue;
    if (c->dims[c->rank - 1] != b->dims[1] || (c->rank == 2 && c->dims[0] != 1)) continue;
    return braid_rewrite_node(f, id, "Gemm",
                              (braid_value_id[]){matmul->inputs[0], matmul->inputs[1], node->inputs[1 - i]}, 3,
                              braid_rewrite_index(f, matmul));
  }
  return BRAID_OK;
}

/* --- quantized numbers ---------------------------------------------------------------------------------------------
 */
static bool is_same_constant(const braid_rewrite *f, braid_value_id a, braid_value_id b) {
  if (a == b) return true;
  const braid_tensor *left = braid_rewrite_constant(f, a), *right = braid_rewrite_constant(f, b);
  if (!left || !right || braid_desc_count(braid_tensor_desc(left)) != 1 ||
      braid_desc_count(braid_tensor_desc(right)) != 1 ||
      braid_tensor_desc(left)->dtype != braid_tensor_desc(right)->dtype)
    return false;
  braid_value_note_read(&f->graph->values[a]);
  braid_value_note_read(&f->graph->values[b]);
  return braid_tensor_get_f64(left, 0) == braid_tensor_get_f64(right, 0);
}

/* QuantizeLinear(view(DequantizeLinear(q))) with one scale and one zero point: the view of q. */
static braid_status fold_quantized_view(braid_rewrite *f, braid_node_id id) {
  const braid_node *quantize = &f->graph->nodes[id];
  if (!braid_node_is(quantize, "QuantizeLinear")) return BRAID_OK;
  const braid_node *view = braid_rewrite_sole_producer(f, quantize->inputs[0]);
  if (!view || !(view->op->flags & BRAID_OP_VIEW) || view->output_count != 1) return BRAID_OK;
  braid_value_id of = view->inputs[0];
  const braid_value *value = &f->graph->values[of];
  if (value->kind != BRAID_VALUE_RESULT || value->producer < 0) return BRAID_OK;
  const braid_node *dequantize = &f->graph->nodes[value->producer];
  if (!braid_node_is(dequantize, "DequantizeLinear")) return BRAID_OK;
  braid_value_id q = dequantize->inputs[0], scale = quantize->inputs[1];
  if (braid_desc_count(braid_rewrite_desc(f, scale)) != 1 ||
      braid_rewrite_desc(f, q)->dtype != braid_rewrite_desc(f, quantize->outputs[0])->dtype ||
      !is_same_constant(f, dequantize->inputs[1], scale) ||
      !is_same_constant(f, braid_node_input(dequantize, 2), braid_node_input(quantize, 2)))
    return BRAID_OK;
  braid_value_id inputs[8] = {q};
  if (view->input_count > 8) return BRAID_OK;
  memcpy(inputs + 1, view->inputs + 1, (view->input_count - 1) * sizeof *inputs);
  return braid_rewrite_node(f, id, view->op->name, inputs, view->input_count, braid_rewrite_index(f, view));
}

/* --- a Relu before a pool ------------------------------------------------------------------------------------------
 */
/* Does the Relu that makes `y` stand behind a normalization of the batch, whose gradient takes the Relu's in? */
static bool is_normalized(const braid_rewrite *f, braid_value_id y) {
  const braid_value *value = &f->graph->values[y];
  if (value->kind != BRAID_VALUE_RESULT || value->producer < 0) return false;
  const braid_node *relu = &f->graph->nodes[value->producer];
  if (!braid_node_is(relu, "Relu") || f->graph->values[relu->inputs[0]].kind != BRAID_VALUE_RESULT) return false;
  braid_node_id before = f->graph->values[relu->inputs[0]].producer;
  return before >= 0 && braid_node_is(&f->graph->nodes[before], "BatchNormalization");
}

/* ReluGrad(MaxPoolGrad(dy, window), y), where the pool's maxima are of y: an error goes to where a maximum was, so the
 * Relu has let it through where the maximum is above 0. MaxPoolGrad(ReluGrad(dy, maxima), window) reads and writes
 * images of the pool's result, which is the smaller. */
static braid_status pass_pool(braid_rewrite *f, braid_node_id id) {
  const braid_node *relu = &f->graph->nodes[id];
  if (!braid_node_is(relu, "ReluGrad")) return BRAID_OK;
  const braid_node *gradient = braid_rewrite_real_producer(f, relu->inputs[0], 1);
  if (!braid_node_is(gradient, "MaxPoolGrad")) return BRAID_OK;
  braid_value_id y = relu->inputs[1], error = gradient->outputs[0], window = gradient->inputs[1];
  const braid_value *places = &f->graph->values[window];
  if (places->kind != BRAID_VALUE_RESULT || places->producer < 0 || is_normalized(f, y)) return BRAID_OK;
  const braid_node *pool = &f->graph->nodes[places->producer];
  if (!braid_node_is(pool, "MaxPool") || pool->inputs[0] != y || pool->outputs[0] < 0) return BRAID_OK;
  const braid_value_id passed[] = {gradient->inputs[0], pool->outputs[0]};
  braid_node_id first = braid_rewrite_index(f, gradient);
  f->uses[y]--, f->uses[pool->outputs[0]]++;
  BRAID_TRY(braid_rewrite_node(f, id, "MaxPoolGrad", (braid_value_id[]){error, window}, 2, first));
  BRAID_TRY(braid_rewrite_node(f, first, "ReluGrad", passed, 2, -1));
  return braid_graph_infer_node(f->graph, first);
}

/* --- nodes that do nothing -----------------------------------------------------------------------------------------
 */
static bool is_nothing(const braid_rewrite *f, const braid_node *node) {
  if (braid_node_is(node, "Identity")) return true;
  if (!braid_node_is(node, "Dropout") || node->output_count > 1) return false;
  braid_value_id mode = braid_node_input(node, 2);
  if (mode < 0) return true;
  const braid_tensor *tensor = braid_rewrite_constant(f, mode);
  if (!tensor || braid_tensor_get_i64(tensor, 0) != 0) return false;
  braid_value_note_read(&f->graph->values[mode]);
  return true;
}

/* Readers of such a node's output read its input instead. Outputs of the graph and updates of states keep their node.
 */
static braid_status bypass_nothings(braid_rewrite *f) {
  braid_graph *graph = f->graph;
  braid_value_id *instead = braid_zalloc_array(graph->allocator, graph->value_count, sizeof *instead);
  if (!instead) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->value_count; i++) instead[i] = (braid_value_id)i;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    for (size_t j = 0; j < node->input_count; j++)
      if (node->inputs[j] >= 0) node->inputs[j] = instead[node->inputs[j]];
    if (is_nothing(f, node)) instead[node->outputs[0]] = node->inputs[0];
  }
  braid_free(graph->allocator, instead);
  return BRAID_OK;
}

/* --- driver --------------------------------------------------------------------------------------------------------
 */
typedef braid_status rule(braid_rewrite *f, braid_node_id id);
static rule *const kRules[] = {fold_into_conv, fold_matmul_bias, fold_quantized_view, pass_pool};

static braid_status fold_node(braid_rewrite *f, braid_node_id id) {
  for (size_t r = 0; r < sizeof kRules / sizeof *kRules; r++) {
    const braid_op *before = f->graph->nodes[id].op;
    BRAID_TRY(kRules[r](f, id));
    if (f->graph->nodes[id].op != before) return BRAID_OK; /* rewritten: nothing else begins at this node */
  }
  return BRAID_OK;
}

braid_status braid_graph_fold(braid_graph *graph) {
  BRAID_TRY(braid_graph_sort(graph));
  /* rules add constants, one or two per node, which are not looked up in `uses` */
  braid_rewrite f = {.graph = graph};
  f.uses = braid_zalloc_array(graph->allocator, graph->value_count + 2 * graph->node_count + 1, sizeof *f.uses);
  if (!f.uses) return BRAID_NO_MEMORY;
  braid_status status = bypass_nothings(&f);
  if (status == BRAID_OK) status = braid_graph_compact(graph);
  if (status == BRAID_OK) status = braid_graph_count_uses(graph, f.uses);
  size_t count = graph->node_count;
  for (size_t i = 0; status == BRAID_OK && i < count; i++) status = fold_node(&f, (braid_node_id)i);
  braid_free(graph->allocator, f.uses);
  return status == BRAID_OK ? braid_graph_compact(graph) : status;
}
