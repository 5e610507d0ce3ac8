/* Fusion: rewrites that compute the same with fewer passes over memory.
 *
 * Nodes are visited in order. A rewrite turns the later node of a pattern into the fused one, in its place, so the
 * order stays topological and its output keeps its name; the earlier node loses its only reader and goes with the
 * compaction at the end. Values that more than one node reads are never fused away, which makes the same rules right
 * for training graphs: there the backward nodes are readers too. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/graph.h"
#include "tensor/deferred.h"

typedef struct fusion {
  braid_graph *graph;
  int32_t *uses;
} fusion;

static bool is_op(const braid_node *node, const char *op) {
  return node && strcmp(node->op->name, op) == 0;
}

static const braid_desc *desc_of(const fusion *f, braid_value_id id) {
  return &f->graph->values[id].desc;
}

static const braid_tensor *constant_of(const fusion *f, braid_value_id id) {
  if (id < 0 || f->graph->values[id].kind != BRAID_VALUE_CONSTANT) return NULL;
  return f->graph->values[id].tensor;
}

static braid_value_id input_of(const braid_node *node, size_t index) {
  return index < node->input_count ? node->inputs[index] : -1;
}

/* The node that computes `id`, if `id` is read once and is float32. */
static const braid_node *sole_producer(const fusion *f, braid_value_id id) {
  if (id < 0 || f->uses[id] != 1) return NULL;
  const braid_value *value = &f->graph->values[id];
  if (value->kind != BRAID_VALUE_RESULT || value->producer < 0 || value->desc.dtype != BRAID_F32) return NULL;
  return &f->graph->nodes[value->producer];
}

static braid_node_id index_of(const fusion *f, const braid_node *node) {
  return (braid_node_id)(node - f->graph->nodes);
}

/* Node `id` answers to the names of node `source` too, which it takes in. */
static braid_status take_names(fusion *f, braid_node_id id, braid_node_id source) {
  const braid_node *taken = &f->graph->nodes[source];
  BRAID_TRY(braid_graph_add_alias(f->graph, id, taken->name));
  for (const braid_alias *alias = taken->absorbed; alias; alias = alias->next)
    BRAID_TRY(braid_graph_add_alias(f->graph, id, alias->name));
  return BRAID_OK;
}

/* Turns node `id` into `op` over `inputs`, with the attributes of node `source`, which it takes in if that is another.
 */
static braid_status become(fusion *f, braid_node_id id, const char *op, const braid_value_id *inputs, size_t count,
                           braid_node_id source) {
  braid_graph *graph = f->graph;
  const braid_op *entry = braid_op_find(op);
  if (!entry) return braid_fail(BRAID_INTERNAL, "op %s is not in the table", op);
  braid_value_id *list = braid_graph_arena_alloc(graph, count * sizeof *list);
  if (!list) return BRAID_NO_MEMORY;
  memcpy(list, inputs, count * sizeof *list);
  braid_node *node = &graph->nodes[id];
  braid_attrs old = node->attrs;
  node->attrs = (braid_attrs){0};
  node->op = entry;
  node->inputs = list;
  node->input_count = count;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < graph->nodes[source].attrs.count; i++)
    status = braid_attrs_copy(graph, id, &graph->nodes[source].attrs.items[i]);
  for (size_t i = 0; i < old.count; i++)
    if (old.items[i].kind == BRAID_ATTR_TENSOR) braid_tensor_release(old.items[i].tensor);
  braid_free(graph->allocator, old.items);
  return status == BRAID_OK && source != id ? take_names(f, id, source) : status;
}

/* --- constants into convolutions -----------------------------------------------------------------------------------
 */
static braid_status new_constant(fusion *f, const braid_desc *desc, braid_value_id *out, float **data) {
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

static braid_status new_scaled_weights(fusion *f, braid_tensor *from, const channel_affine *affine,
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
static braid_status absorb(fusion *f, braid_node_id id, braid_node_id conv_id, const channel_affine *affine) {
  const braid_node *conv = &f->graph->nodes[conv_id];
  braid_value_id x = conv->inputs[0], w = conv->inputs[1], b = input_of(conv, 2);
  braid_desc b_desc;
  BRAID_TRY(braid_desc_init(&b_desc, BRAID_F32, 1, &affine->channels));
  braid_value_id new_w, new_b;
  float *b_out;
  BRAID_TRY(new_scaled_weights(f, f->graph->values[w].tensor, affine, &new_w));
  BRAID_TRY(new_constant(f, &b_desc, &new_b, &b_out));
  const float *b_in = b >= 0 ? braid_tensor_const_data(constant_of(f, b)) : NULL;
  for (int64_t c = 0; c < affine->channels; c++)
    b_out[c] = (float)((b_in ? b_in[c] : 0.0) * affine->scale[c] + affine->shift[c]);
  return become(f, id, "Conv", (braid_value_id[]){x, new_w, new_b}, 3, conv_id);
}

/* A convolution whose weights and bias are constants, read only here. */
static const braid_node *constant_conv(const fusion *f, braid_value_id id) {
  const braid_node *conv = sole_producer(f, id);
  if (!is_op(conv, "Conv") || !constant_of(f, conv->inputs[1])) return NULL;
  if (input_of(conv, 2) >= 0 && !constant_of(f, conv->inputs[2])) return NULL;
  return desc_of(f, conv->inputs[1])->dims[0] > 0 ? conv : NULL;
}

static bool batch_norm_affine(const fusion *f, const braid_node *node, channel_affine *affine) {
  const float *data[4];
  for (size_t i = 0; i < 4; i++) {
    const braid_tensor *tensor = constant_of(f, node->inputs[1 + i]);
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
static braid_status fold_into_conv(fusion *f, braid_node_id id) {
  const braid_node *node = &f->graph->nodes[id];
  bool norm = is_op(node, "BatchNormalization"), multiply = is_op(node, "Mul"), add = is_op(node, "Add");
  if (!norm && !multiply && !add) return BRAID_OK;
  if (norm && (braid_attr_int(&node->attrs, "training_mode", 0) || node->output_count > 1)) return BRAID_OK;
  const braid_tensor *constant = NULL;
  const braid_node *conv = NULL;
  for (size_t i = 0; i < (norm ? 1u : 2u) && !conv; i++) {
    conv = constant_conv(f, node->inputs[i]);
    if (!conv || norm) continue;
    constant = constant_of(f, node->inputs[1 - i]);
    if (!constant || !is_per_channel(constant, desc_of(f, node->inputs[i]))) conv = NULL;
  }
  if (!conv) return BRAID_OK;
  channel_affine affine = {.channels = desc_of(f, conv->inputs[1])->dims[0]};
  affine.scale = braid_zalloc_array(f->graph->allocator, (size_t)affine.channels, 2 * sizeof *affine.scale);
  if (!affine.scale) return BRAID_NO_MEMORY;
  affine.shift = affine.scale + affine.channels;
  braid_status status = BRAID_OK;
  if (norm ? batch_norm_affine(f, node, &affine) : (constant_affine(constant, multiply, &affine), true))
    status = absorb(f, id, index_of(f, conv), &affine);
  braid_free(f->graph->allocator, affine.scale);
  return status;
}

/* --- residual sums and activations ---------------------------------------------------------------------------------
 */
static bool can_take_more(const braid_node *node) {
  return !braid_attr_has(&node->attrs, "activation");
}

/* Add(conv(x), z) of equal shapes. Of two convolutions the later one takes the other as z. */
static braid_status fuse_residual(fusion *f, braid_node_id id) {
  const braid_node *node = &f->graph->nodes[id];
  if (!is_op(node, "Add")) return BRAID_OK;
  if (!braid_desc_same_shape(desc_of(f, node->inputs[0]), desc_of(f, node->inputs[1]))) return BRAID_OK;
  const braid_node *conv = NULL;
  braid_value_id z = -1;
  for (size_t i = 0; i < 2; i++) {
    const braid_node *candidate = sole_producer(f, node->inputs[i]);
    if (!is_op(candidate, "Conv") || (conv && candidate < conv)) continue;
    conv = candidate;
    z = node->inputs[1 - i];
  }
  if (!conv || constant_of(f, z)) return BRAID_OK;
  return become(f, id, "FusedConv", (braid_value_id[]){conv->inputs[0], conv->inputs[1], input_of(conv, 2), z}, 4,
                index_of(f, conv));
}

typedef struct activation {
  const char *name;
  float params[2];
  size_t count;
} activation;

/* Bounds of a Clip, which are inputs; a missing one is the type's end. */
static bool clip_bound(const fusion *f, braid_value_id id, float otherwise, float *out) {
  *out = otherwise;
  if (id < 0) return true;
  const braid_tensor *tensor = constant_of(f, id);
  if (!tensor || braid_tensor_desc(tensor)->dtype != BRAID_F32) return false;
  *out = (float)braid_tensor_get_f64(tensor, 0);
  return true;
}

static bool read_activation(const fusion *f, const braid_node *node, activation *out) {
  const braid_attrs *attrs = &node->attrs;
  *out = (activation){.name = node->op->name};
  if (is_op(node, "Relu") || is_op(node, "Sigmoid") || is_op(node, "Tanh") || is_op(node, "HardSwish")) return true;
  if (is_op(node, "Swish")) {
    out->params[0] = (float)braid_attr_float(attrs, "alpha", 1);
    out->count = 1;
    return true;
  }
  if (is_op(node, "LeakyRelu")) {
    out->params[0] = (float)braid_attr_float(attrs, "alpha", 0.01);
    out->count = 1;
    return true;
  }
  if (is_op(node, "HardSigmoid")) {
    out->params[0] = (float)braid_attr_float(attrs, "alpha", 0.2);
    out->params[1] = (float)braid_attr_float(attrs, "beta", 0.5);
    out->count = 2;
    return true;
  }
  out->count = 2;
  return is_op(node, "Clip") && clip_bound(f, input_of(node, 1), -INFINITY, &out->params[0]) &&
         clip_bound(f, input_of(node, 2), INFINITY, &out->params[1]);
}

static braid_status fuse_activation(fusion *f, braid_node_id id) {
  const braid_node *node = &f->graph->nodes[id];
  activation act;
  if (node->input_count < 1 || !read_activation(f, node, &act)) return BRAID_OK;
  const braid_node *source = sole_producer(f, node->inputs[0]);
  bool conv = is_op(source, "Conv") || is_op(source, "FusedConv");
  bool gemm = is_op(source, "Gemm") || is_op(source, "FusedGemm");
  if ((!conv && !gemm) || !can_take_more(source)) return BRAID_OK;
  BRAID_TRY(become(f, id, conv ? "FusedConv" : "FusedGemm", source->inputs, source->input_count, index_of(f, source)));
  BRAID_TRY(braid_graph_set_string(f->graph, id, "activation", act.name));
  return act.count ? braid_graph_set_floats(f->graph, id, "activation_params", act.params, act.count) : BRAID_OK;
}

/* Mul(x, Sigmoid(x)), which exporters write for Swish. */
static braid_status fuse_swish(fusion *f, braid_node_id id) {
  const braid_node *node = &f->graph->nodes[id];
  if (!is_op(node, "Mul")) return BRAID_OK;
  for (size_t i = 0; i < 2; i++) {
    const braid_node *gate = sole_producer(f, node->inputs[i]);
    braid_value_id x = node->inputs[1 - i];
    if (!is_op(gate, "Sigmoid") || gate->inputs[0] != x) continue;
    BRAID_TRY(become(f, id, "Swish", &x, 1, id));
    BRAID_TRY(take_names(f, id, index_of(f, gate)));
    f->uses[x]--; /* the Sigmoid's */
    return fuse_activation(f, id);
  }
  return BRAID_OK;
}

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
/* Add(MatMul(a, b), c) of matrices and one number per column. */
static braid_status fuse_matmul_bias(fusion *f, braid_node_id id) {
  const braid_node *node = &f->graph->nodes[id];
  if (!is_op(node, "Add")) return BRAID_OK;
  for (size_t i = 0; i < 2; i++) {
    const braid_node *matmul = sole_producer(f, node->inputs[i]);
    if (!is_op(matmul, "MatMul") || matmul->attrs.count) continue;
    const braid_desc *a = desc_of(f, matmul->inputs[0]), *b = desc_of(f, matmul->inputs[1]);
    const braid_desc *c = desc_of(f, node->inputs[1 - i]);
    if (a->rank != 2 || b->rank != 2 || c->rank < 1 || c->rank > 2) continue;
    if (c->dims[c->rank - 1] != b->dims[1] || (c->rank == 2 && c->dims[0] != 1)) continue;
    return become(f, id, "Gemm", (braid_value_id[]){matmul->inputs[0], matmul->inputs[1], node->inputs[1 - i]}, 3,
                  index_of(f, matmul));
  }
  return BRAID_OK;
}

/* --- nodes that do nothing -----------------------------------------------------------------------------------------
 */
static bool is_nothing(const fusion *f, const braid_node *node) {
  if (is_op(node, "Identity")) return true;
  if (!is_op(node, "Dropout") || node->output_count > 1) return false;
  braid_value_id mode = input_of(node, 2);
  if (mode < 0) return true;
  const braid_tensor *tensor = constant_of(f, mode);
  return tensor && braid_tensor_get_i64(tensor, 0) == 0;
}

/* Readers of such a node's output read its input instead. Outputs of the graph and updates of states keep their node.
 */
static braid_status bypass_nothings(fusion *f) {
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
typedef braid_status rule(fusion *f, braid_node_id id);
static rule *const kRules[] = {fold_into_conv, fuse_matmul_bias, fuse_residual, fuse_activation, fuse_swish};

static braid_status visit(fusion *f, braid_node_id id) {
  for (size_t r = 0; r < sizeof kRules / sizeof *kRules; r++) {
    const braid_op *before = f->graph->nodes[id].op;
    BRAID_TRY(kRules[r](f, id));
    if (f->graph->nodes[id].op != before) return BRAID_OK; /* rewritten: nothing else begins at this node */
  }
  return BRAID_OK;
}

braid_status braid_graph_fuse(braid_graph *graph) {
  BRAID_TRY(braid_graph_sort(graph));
  /* rules add constants, one or two per node, which are not looked up in `uses` */
  fusion f = {.graph = graph};
  f.uses = braid_zalloc_array(graph->allocator, graph->value_count + 2 * graph->node_count + 1, sizeof *f.uses);
  if (!f.uses) return BRAID_NO_MEMORY;
  braid_status status = bypass_nothings(&f);
  if (status == BRAID_OK) status = braid_graph_compact(graph);
  if (status == BRAID_OK) status = braid_graph_count_uses(graph, f.uses);
  size_t count = graph->node_count;
  for (size_t i = 0; status == BRAID_OK && i < count; i++) status = visit(&f, (braid_node_id)i);
  braid_free(graph->allocator, f.uses);
  return status == BRAID_OK ? braid_graph_compact(graph) : status;
}
