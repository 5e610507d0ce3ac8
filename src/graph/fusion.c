#include "graph/fusion.h"

#include <math.h>
#include <stdlib.h>

#include "base/try.h"
#include "base/vector.h"
#include "graph/fusion_finder.h"

typedef braid_fusion_finder finder;
typedef braid_fusion_activation activation;

/* --- activations ---------------------------------------------------------------------------------------------------
 */
/* Bounds of a Clip, which are inputs; a missing one is the type's end. */
static bool clip_bound(const braid_rewrite *r, braid_value_id id, float otherwise, float *out) {
  *out = otherwise;
  if (id < 0) return true;
  const braid_tensor *tensor = braid_rewrite_constant(r, id);
  if (!tensor || !braid_dtype_is_float(braid_tensor_desc(tensor)->dtype)) return false;
  *out = (float)braid_tensor_get_f64(tensor, 0);
  return true;
}

bool braid_fusion_read_activation(const braid_rewrite *r, const braid_node *node, activation *out) {
  const braid_attrs *attrs = &node->attrs;
  *out = (activation){.name = node->op->name};
  if (braid_node_is(node, "Relu") || braid_node_is(node, "Sigmoid") || braid_node_is(node, "Tanh") ||
      braid_node_is(node, "HardSwish"))
    return true;
  if (braid_node_is(node, "Gelu")) return strcmp(braid_attr_string(attrs, "approximate", "none"), "none") == 0;
  if (braid_node_is(node, "Swish")) {
    out->params[0] = (float)braid_attr_float(attrs, "alpha", 1);
    out->count = 1;
    return true;
  }
  if (braid_node_is(node, "LeakyRelu")) {
    out->params[0] = (float)braid_attr_float(attrs, "alpha", 0.01);
    out->count = 1;
    return true;
  }
  if (braid_node_is(node, "HardSigmoid")) {
    out->params[0] = (float)braid_attr_float(attrs, "alpha", 0.2);
    out->params[1] = (float)braid_attr_float(attrs, "beta", 0.5);
    out->count = 2;
    return true;
  }
  out->count = 2;
  return braid_node_is(node, "Clip") && clip_bound(r, braid_node_input(node, 1), -INFINITY, &out->params[0]) &&
         clip_bound(r, braid_node_input(node, 2), INFINITY, &out->params[1]);
}

/* --- sets ----------------------------------------------------------------------------------------------------------
 */
/* The set that `node` ends, as what may be made larger: a fusion found before, or the node alone. */
static braid_fusion set_of(const finder *f, const braid_node *node) {
  braid_node_id id = braid_rewrite_index(&f->rewrite, node);
  if (f->ends[id]) return f->list->items[f->ends[id] - 1];
  braid_fusion set = {.nodes = {id}, .node_count = 1, .op = node->op->name, .attrs = node->attrs, .source = id};
  set.input_count = node->input_count < BRAID_FUSION_INPUTS ? node->input_count : BRAID_FUSION_INPUTS;
  memcpy(set.inputs, node->inputs, set.input_count * sizeof *set.inputs);
  set.activated = braid_attr_has(&node->attrs, "activation");
  return set;
}

static int by_id(const void *left, const void *right) {
  braid_node_id a = *(const braid_node_id *)left, b = *(const braid_node_id *)right;
  return (a > b) - (a < b);
}

braid_status braid_fusion_add(finder *f, braid_fusion *set) {
  const braid_allocator *allocator = f->rewrite.graph->allocator;
  qsort(set->nodes, set->node_count, sizeof *set->nodes, by_id);
  braid_fusion *items =
      braid_grow(allocator, f->list->items, f->list->count, &f->list->capacity, sizeof *f->list->items);
  if (!items) return BRAID_NO_MEMORY;
  f->list->items = items;
  items[f->list->count++] = *set;
  f->ends[set->nodes[set->node_count - 1]] = (int32_t)f->list->count;
  return BRAID_OK;
}

/* Attributes of the set's with the activation's behind them. */
braid_status braid_fusion_add_activation(finder *f, braid_fusion *set, const activation *act) {
  size_t count = set->attrs.count;
  braid_attr *items = braid_arena_alloc(f->arena, (count + 2) * sizeof *items);
  float *params = braid_arena_alloc(f->arena, sizeof act->params);
  if (!items || !params) return BRAID_NO_MEMORY;
  if (count) memcpy(items, set->attrs.items, count * sizeof *items);
  memcpy(params, act->params, sizeof act->params);
  items[count++] = (braid_attr){.name = "activation", .kind = BRAID_ATTR_STRING, .s = act->name};
  if (act->count)
    items[count++] =
        (braid_attr){.name = "activation_params", .kind = BRAID_ATTR_FLOATS, .count = act->count, .floats = params};
  set->attrs = (braid_attrs){.items = items, .count = count};
  set->activated = true;
  return BRAID_OK;
}

/* `act` over what `producer` computes; `members` are the nodes of the activation. */
static braid_status find_activated(finder *f, const braid_node *producer, const activation *act,
                                   const braid_node_id *members, size_t member_count) {
  if (!producer) return BRAID_OK;
  braid_fusion set = set_of(f, producer);
  bool conv = strcmp(set.op, "Conv") == 0 || strcmp(set.op, "FusedConv") == 0;
  bool gemm = strcmp(set.op, "Gemm") == 0 || strcmp(set.op, "FusedGemm") == 0;
  bool matmul = strcmp(set.op, "MatMul") == 0 || strcmp(set.op, "FusedMatMul") == 0;
  if ((!conv && !gemm && !matmul) || set.activated) return BRAID_OK;
  set.op = conv ? "FusedConv" : gemm ? "FusedGemm" : "FusedMatMul";
  for (size_t i = 0; i < member_count; i++) set.nodes[set.node_count++] = members[i];
  BRAID_TRY(braid_fusion_add_activation(f, &set, act));
  return braid_fusion_add(f, &set);
}

/* --- rules: a node that ends a set ---------------------------------------------------------------------------------
 */
/* Add(conv(x), z) of equal shapes. Of two convolutions the later one takes the other as z. */
static braid_status find_residual(finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *node = &r->graph->nodes[id], *conv = NULL;
  braid_value_id z = -1;
  if (!braid_node_is(node, "Add")) return BRAID_OK;
  if (!braid_desc_same_shape(braid_rewrite_desc(r, node->inputs[0]), braid_rewrite_desc(r, node->inputs[1])))
    return BRAID_OK;
  for (size_t i = 0; i < 2; i++) {
    const braid_node *candidate = braid_rewrite_real_producer(r, node->inputs[i], 1);
    if (!braid_node_is(candidate, "Conv") || (conv && candidate < conv)) continue;
    conv = candidate;
    z = node->inputs[1 - i];
  }
  if (!conv || braid_rewrite_constant(r, z)) return BRAID_OK;
  braid_node_id source = braid_rewrite_index(r, conv);
  braid_fusion set = {
      .nodes = {source, id}, .node_count = 2, .op = "FusedConv", .attrs = conv->attrs, .source = source};
  set.inputs[0] = conv->inputs[0], set.inputs[1] = conv->inputs[1];
  set.inputs[2] = braid_node_input(conv, 2), set.inputs[3] = z;
  set.input_count = 4;
  return braid_fusion_add(f, &set);
}

/* Add(MatMul(x, w), bias): one number a column. */
static braid_status find_bias(finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *node = &r->graph->nodes[id];
  if (!braid_node_is(node, "Add")) return BRAID_OK;
  for (size_t i = 0; i < 2; i++) {
    const braid_node *product = braid_rewrite_real_producer(r, node->inputs[i], 1);
    const braid_desc *bias = braid_rewrite_desc(r, node->inputs[1 - i]), *y = braid_rewrite_desc(r, node->inputs[i]);
    if (!braid_node_is(product, "MatMul") || braid_attr_float(&product->attrs, "alpha", 1) != 1) continue;
    if (braid_rewrite_desc(r, product->inputs[0])->rank < 2 || braid_rewrite_desc(r, product->inputs[1])->rank < 2)
      continue;
    if (bias->rank != 1 || bias->dims[0] != y->dims[y->rank - 1]) continue;
    braid_fusion set = set_of(f, product);
    set.op = "FusedMatMul";
    set.nodes[set.node_count++] = id;
    set.inputs[set.input_count++] = node->inputs[1 - i];
    return braid_fusion_add(f, &set);
  }
  return BRAID_OK;
}

/* Relu(a + b) behind a residual, and its gradient for the sum of two: sums of equal shape that are of no other set. */
static braid_status find_sum(finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *node = &r->graph->nodes[id];
  bool gradient = braid_node_is(node, "ReluGrad");
  if (!gradient && !braid_node_is(node, "Relu")) return BRAID_OK;
  const braid_node *sum = braid_rewrite_real_producer(r, node->inputs[0], 1);
  if (!braid_node_is(sum, "Add") || f->ends[braid_rewrite_index(r, sum)]) return BRAID_OK;
  if (!braid_desc_same_shape(braid_rewrite_desc(r, sum->inputs[0]), braid_rewrite_desc(r, sum->inputs[1])))
    return BRAID_OK;
  braid_fusion set = {.nodes = {braid_rewrite_index(r, sum), id},
                      .node_count = 2,
                      .op = gradient ? "AddReluGrad" : "AddRelu",
                      .inputs = {sum->inputs[0], sum->inputs[1]},
                      .input_count = 2,
                      .attrs = node->attrs,
                      .source = id};
  if (gradient) set.inputs[set.input_count++] = node->inputs[1];
  return braid_fusion_add(f, &set);
}

static braid_status find_activation(finder *f, braid_node_id id) {
  const braid_node *node = &f->rewrite.graph->nodes[id];
  activation act;
  if (node->input_count < 1 || !braid_fusion_read_activation(&f->rewrite, node, &act)) return BRAID_OK;
  return find_activated(f, braid_rewrite_real_producer(&f->rewrite, node->inputs[0], 1), &act, &id, 1);
}

/* Mul(x, Sigmoid(x)), which exporters write for Swish; and that over what a convolution or product computes. */
static braid_status find_swish(finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *node = &r->graph->nodes[id];
  if (!braid_node_is(node, "Mul")) return BRAID_OK;
  for (size_t i = 0; i < 2; i++) {
    const braid_node *gate = braid_rewrite_real_producer(r, node->inputs[i], 1);
    braid_value_id x = node->inputs[1 - i];
    if (!braid_node_is(gate, "Sigmoid") || gate->inputs[0] != x) continue;
    braid_node_id members[] = {braid_rewrite_index(r, gate), id};
    braid_fusion set = {.nodes = {members[0], id},
                        .node_count = 2,
                        .op = "Swish",
                        .inputs = {x},
                        .input_count = 1,
                        .attrs = node->attrs};
    set.source = id;
    BRAID_TRY(braid_fusion_add(f, &set));
    return find_activated(f, braid_rewrite_real_producer(r, x, 2), &(activation){"Swish", {1}, 1}, members, 2);
  }
  return BRAID_OK;
}

/* --- a Relu behind a normalization ---------------------------------------------------------------------------------
 */
/* Does a node between `first` and `last` read one of the first one's outputs? Then it can't be computed as late as the
 * last. */
static bool is_read_between(const braid_graph *graph, braid_node_id first, braid_node_id last) {
  const braid_node *source = &graph->nodes[first];
  for (braid_node_id id = first + 1; id < last; id++)
    for (size_t i = 0; i < graph->nodes[id].input_count; i++)
      for (size_t o = 0; o < source->output_count; o++)
        if (graph->nodes[id].inputs[i] >= 0 && graph->nodes[id].inputs[i] == source->outputs[o]) return true;
  return false;
}

/* The normalization, by statistics of the batch, whose result is `value`; NULL: there is none. */
static const braid_node *norm_of(const braid_rewrite *r, braid_value_id value) {
  if (value < 0 || r->graph->values[value].kind != BRAID_VALUE_RESULT || r->graph->values[value].producer < 0)
    return NULL;
  const braid_node *norm = &r->graph->nodes[r->graph->values[value].producer];
  bool training = braid_node_is(norm, "BatchNormalization") && braid_attr_int(&norm->attrs, "training_mode", 0);
  return training && norm->outputs[0] == value ? norm : NULL;
}

static braid_status find_norm(finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *node = &r->graph->nodes[id];
  if (!braid_node_is(node, "Relu")) return BRAID_OK;
  const braid_node *norm = norm_of(r, node->inputs[0]);
  if (!norm || norm != braid_rewrite_real_producer(r, node->inputs[0], 1)) return BRAID_OK;
  braid_node_id source = braid_rewrite_index(r, norm);
  if (is_read_between(r->graph, source, id)) return BRAID_OK;
  braid_fusion set = {.nodes = {source, id},
                      .node_count = 2,
                      .op = "BatchNormalizationRelu",
                      .input_count = norm->input_count,
                      .output_count = norm->output_count,
                      .attrs = norm->attrs,
                      .source = source};
  memcpy(set.inputs, norm->inputs, norm->input_count * sizeof *norm->inputs);
  memcpy(set.outputs, norm->outputs, norm->output_count * sizeof *norm->outputs);
  set.outputs[0] = node->outputs[0];
  return braid_fusion_add(f, &set);
}

/* BatchNormalizationGrad(ReluGrad(dy, y), x, ...) where y = Relu(BatchNormalization(x, scale, bias, ...)): whether y is
 * above 0 is computed again from x. */
static braid_status find_norm_gradient(finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *node = &r->graph->nodes[id];
  if (!braid_node_is(node, "BatchNormalizationGrad") || !braid_attr_int(&node->attrs, "training_mode", 0))
    return BRAID_OK;
  const braid_node *gradient = braid_rewrite_real_producer(r, node->inputs[0], 1);
  if (!braid_node_is(gradient, "ReluGrad") || f->ends[braid_rewrite_index(r, gradient)]) return BRAID_OK;
  const braid_value *y = &r->graph->values[gradient->inputs[1]];
  if (y->kind != BRAID_VALUE_RESULT || y->producer < 0) return BRAID_OK;
  const braid_node *relu = &r->graph->nodes[y->producer];
  const braid_node *norm = braid_node_is(relu, "Relu") ? norm_of(r, relu->inputs[0]) : NULL;
  if (!norm || norm->inputs[0] != node->inputs[1] || norm->inputs[1] != node->inputs[2]) return BRAID_OK;
  for (size_t i = 3; i < 5; i++) /* the statistics that y was computed with */
    if (i >= norm->output_count || norm->outputs[i] != node->inputs[i]) return BRAID_OK;
  braid_fusion set = {.nodes = {braid_rewrite_index(r, gradient), id},
                      .node_count = 2,
                      .op = "BatchNormalizationReluGrad",
                      .attrs = norm->attrs, /* as the gradient's, whose list goes with the node that is rewritten */
                      .source = -1};
  memcpy(set.inputs, node->inputs, node->input_count * sizeof *node->inputs);
  set.inputs[0] = gradient->inputs[0];
  set.inputs[node->input_count] = norm->inputs[2];
  set.input_count = node->input_count + 1;
  return braid_fusion_add(f, &set);
}

/* --- errors of training in integers -------------------------------------------------------------------------------
 * The gradient of a rectifier behind what makes the error: where it is rounded, or goes back through windows that do
 * not overlap. The rectifier's bits become an attribute beside those of the first. */
static braid_status find_integer_error(finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *node = &r->graph->nodes[id];
  if (!braid_node_is(node, "IntegerReluGrad")) return BRAID_OK;
  const braid_value *value = &r->graph->values[node->inputs[0]];
  if (value->kind != BRAID_VALUE_RESULT || value->producer < 0 || r->uses[node->inputs[0]] != 1) return BRAID_OK;
  const braid_node *error = &r->graph->nodes[value->producer];
  bool scale = braid_node_is(error, "IntegerScaleError"), pool = braid_node_is(error, "IntegerMaxPoolGrad");
  if ((!scale && !pool) || error->outputs[0] != node->inputs[0]) return BRAID_OK;
  if (is_read_between(r->graph, value->producer, id)) return BRAID_OK;
  braid_fusion set = {.nodes = {value->producer, id},
                      .node_count = 2,
                      .op = scale ? "IntegerScaleErrorRelu" : "IntegerMaxPoolGradRelu",
                      .input_count = error->input_count + 1,
                      .outputs = {node->outputs[0]},
                      .output_count = scale ? 2 : 1,
                      .source = value->producer};
  memcpy(set.inputs, error->inputs, error->input_count * sizeof *error->inputs);
  set.inputs[error->input_count] = node->inputs[1];
  if (scale) set.outputs[1] = error->outputs[1];
  size_t count = error->attrs.count;
  braid_attr *items = braid_arena_alloc(f->arena, (count + 1) * sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  if (count) memcpy(items, error->attrs.items, count * sizeof *items);
  items[count] = (braid_attr){
      .name = scale ? "relu_bits" : "bits", .kind = BRAID_ATTR_INT, .i = braid_attr_int(&node->attrs, "bits", 8)};
  set.attrs = (braid_attrs){.items = items, .count = count + 1};
  return braid_fusion_add(f, &set);
}

/* --- Gelu ----------------------------------------------------------------------------------------------------------
 * x * 0.5 * (1 + erf(x / sqrt(2))), its three factors in any order, as exporters write it below opset 20. */
static bool gelu_is_number(const braid_rewrite *r, braid_value_id id, double number) {
  const braid_tensor *tensor = braid_rewrite_constant(r, id);
  return tensor && braid_desc_count(braid_tensor_desc(tensor)) == 1 &&
         fabs(braid_tensor_get_f64(tensor, 0) - number) <= 1e-6 * number;
}

typedef struct gelu {
  const braid_rewrite *rewrite;
  braid_value_id factors[3];
  int factor_count;
  braid_node_id members[5];
  size_t member_count;
} gelu;

static bool gelu_take(gelu *g, const braid_node *node) {
  if (g->member_count == sizeof g->members / sizeof *g->members) return false;
  g->members[g->member_count++] = braid_rewrite_index(g->rewrite, node);
  return true;
}

/* What `value` is the product of: up to three factors. */
static bool gelu_factors(gelu *g, braid_value_id value) {
  const braid_node *node = braid_rewrite_sole_producer(g->rewrite, value);
  if (braid_node_is(node, "Mul") && g->member_count < 2)
    return gelu_take(g, node) && gelu_factors(g, node->inputs[0]) && gelu_factors(g, node->inputs[1]);
  if (g->factor_count == 3) return false;
  g->factors[g->factor_count++] = value;
  return true;
}

/* 1 + erf(x / sqrt(2)): x; -1: `value` is something else. */
static braid_value_id gelu_argument(gelu *g, braid_value_id value) {
  const braid_rewrite *r = g->rewrite;
  const braid_node *sum = braid_rewrite_sole_producer(r, value);
  if (!braid_node_is(sum, "Add")) return -1;
  int one = gelu_is_number(r, sum->inputs[0], 1) ? 0 : 1;
  const braid_node *erf = braid_rewrite_sole_producer(r, sum->inputs[1 - one]);
  if (!gelu_is_number(r, sum->inputs[one], 1) || !braid_node_is(erf, "Erf")) return -1;
  const braid_node *scaled = braid_rewrite_sole_producer(r, erf->inputs[0]);
  if (!gelu_take(g, sum) || !gelu_take(g, erf) || !scaled || !gelu_take(g, scaled)) return -1;
  if (braid_node_is(scaled, "Div")) return gelu_is_number(r, scaled->inputs[1], sqrt(2)) ? scaled->inputs[0] : -1;
  if (!braid_node_is(scaled, "Mul")) return -1;
  for (size_t i = 0; i < 2; i++)
    if (gelu_is_number(r, scaled->inputs[i], sqrt(0.5))) return scaled->inputs[1 - i];
  return -1;
}

/* Reads the nodes that end with `node`; false: they compute something else. */
static bool gelu_read(gelu *g, const braid_node *node, braid_value_id *x) {
  if (!gelu_take(g, node) || !gelu_factors(g, node->inputs[0]) || !gelu_factors(g, node->inputs[1])) return false;
  *x = -1;
  for (int i = 0; i < g->factor_count && *x < 0; i++) {
    if (!braid_node_is(braid_rewrite_sole_producer(g->rewrite, g->factors[i]), "Add")) continue;
    *x = gelu_argument(g, g->factors[i]);
    g->factors[i] = -1;
  }
  if (*x < 0 || g->factor_count != 3) return false;
  bool half = false, self = false;
  for (int i = 0; i < 3; i++) {
    half |= gelu_is_number(g->rewrite, g->factors[i], 0.5);
    self |= g->factors[i] == *x;
  }
  return half && self &&
         braid_desc_same_shape(braid_rewrite_desc(g->rewrite, *x), braid_rewrite_desc(g->rewrite, node->outputs[0]));
}

static braid_status find_gelu(finder *f, braid_node_id id) {
  const braid_node *node = &f->rewrite.graph->nodes[id];
  gelu g = {.rewrite = &f->rewrite};
  braid_value_id x;
  if (!braid_node_is(node, "Mul") || braid_rewrite_desc(&f->rewrite, node->outputs[0])->dtype != BRAID_F32 ||
      !gelu_read(&g, node, &x))
    return BRAID_OK;
  braid_fusion set = {
      .op = "Gelu", .node_count = g.member_count, .inputs = {x}, .input_count = 1, .attrs = node->attrs, .source = id};
  memcpy(set.nodes, g.members, g.member_count * sizeof *g.members);
  BRAID_TRY(braid_fusion_add(f, &set));
  return find_activated(f, braid_rewrite_producer(&f->rewrite, x, 2), &(activation){"Gelu", {0}, 0}, g.members,
                        g.member_count);
}

static braid_status find_at(finder *f, braid_node_id id) {
  BRAID_TRY(find_residual(f, id));
  BRAID_TRY(find_bias(f, id));
  BRAID_TRY(find_activation(f, id));
  BRAID_TRY(find_sum(f, id));
  BRAID_TRY(find_norm(f, id));
  BRAID_TRY(find_norm_gradient(f, id));
  BRAID_TRY(find_integer_error(f, id));
  BRAID_TRY(find_swish(f, id));
  BRAID_TRY(find_gelu(f, id));
  return braid_fusion_find_quantized(f, id);
}

braid_status braid_graph_find_fusions(braid_graph *graph, braid_arena *arena, braid_fusion_list *out) {
  *out = (braid_fusion_list){0};
  finder f = {.rewrite = {.graph = graph}, .arena = arena, .list = out};
  f.rewrite.uses = braid_zalloc_array(graph->allocator, graph->value_count + 1, sizeof *f.rewrite.uses);
  f.ends = braid_zalloc_array(graph->allocator, graph->node_count + 1, sizeof *f.ends);
  braid_status status = f.rewrite.uses && f.ends ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = braid_graph_count_uses(graph, f.rewrite.uses);
  for (size_t i = 0; status == BRAID_OK && i < graph->node_count; i++) status = find_at(&f, (braid_node_id)i);
  braid_free(graph->allocator, f.rewrite.uses);
  braid_free(graph->allocator, f.ends);
  if (status == BRAID_OK) return BRAID_OK;
  braid_free(graph->allocator, out->items);
  *out = (braid_fusion_list){0};
  return status;
}

/* Constants that the fused node no longer has: the bounds of a Clip, the numbers of Gelu. */
static void note_constants(const braid_graph *graph, const braid_fusion *fusion) {
  for (size_t i = 0; i < fusion->node_count; i++) {
    const braid_node *node = &graph->nodes[fusion->nodes[i]];
    for (size_t k = 0; k < node->input_count; k++) {
      bool kept = node->inputs[k] < 0;
      for (size_t n = 0; n < fusion->input_count; n++) kept |= node->inputs[k] == fusion->inputs[n];
      if (!kept) braid_value_note_read(&graph->values[node->inputs[k]]);
    }
  }
}

/* The last node takes the outputs of the others that are its own now. */
static braid_status take_outputs(braid_graph *graph, const braid_fusion *fusion, braid_node_id last) {
  braid_value_id *outputs = braid_graph_arena_alloc(graph, fusion->output_count * sizeof *outputs);
  if (!outputs) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < fusion->output_count; i++) {
    outputs[i] = fusion->outputs[i];
    if (outputs[i] < 0) continue;
    braid_value *value = &graph->values[outputs[i]];
    braid_node *old = &graph->nodes[value->producer];
    for (size_t k = 0; k < old->output_count && value->producer != last; k++)
      if (old->outputs[k] == outputs[i]) old->outputs[k] = -1;
    value->producer = last;
  }
  graph->nodes[last].outputs = outputs;
  graph->nodes[last].output_count = fusion->output_count;
  return BRAID_OK;
}

braid_status braid_graph_apply_fusion(braid_graph *graph, const braid_fusion *fusion) {
  braid_rewrite r = {.graph = graph};
  braid_node_id last = fusion->nodes[fusion->node_count - 1];
  note_constants(graph, fusion);
  BRAID_TRY(braid_rewrite_node(&r, last, fusion->op, fusion->inputs, fusion->input_count, fusion->source));
  if (fusion->output_count) BRAID_TRY(take_outputs(graph, fusion, last));
  for (size_t i = 0; i + 1 < fusion->node_count; i++)
    if (fusion->nodes[i] != fusion->source) BRAID_TRY(braid_rewrite_take_names(&r, last, fusion->nodes[i]));
  for (size_t i = 0; i < fusion->attrs.count; i++) {
    const braid_attr *attr = &fusion->attrs.items[i];
    if (!braid_attr_has(&graph->nodes[last].attrs, attr->name)) BRAID_TRY(braid_attrs_copy(graph, last, attr));
  }
  return BRAID_OK;
}
