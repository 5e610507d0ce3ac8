/* Sets of nodes that one op over bytes computes: DequantizeLinear, an op, an activation, QuantizeLinear.
 *
 * An operand is read before its DequantizeLinear. That belongs to the set if nobody else reads it; else it stays, and
 * goes once all its readers have become ops over bytes. Scales and zero points are one number, constant; weights may
 * have one per filter. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/fusion_finder.h"
#include "graph/ops/qlinear.h"
#include "tensor/dtype.h"

typedef braid_fusion_finder finder;

/* --- operands ------------------------------------------------------------------------------------------------------
 */
static bool holds_bytes(const braid_rewrite *r, braid_value_id id) {
  return braid_dtype_is_byte(braid_rewrite_desc(r, id)->dtype);
}

/* One constant number, or left out. */
static bool is_one_constant(const braid_rewrite *r, braid_value_id id) {
  return id < 0 || (braid_rewrite_constant(r, id) && braid_desc_count(braid_rewrite_desc(r, id)) == 1);
}

static bool is_scale(const braid_rewrite *r, braid_value_id id) {
  return id >= 0 && is_one_constant(r, id) && braid_rewrite_desc(r, id)->dtype == BRAID_F32;
}

/* Adds bytes, scale and zero point of `value` to the set's inputs, and its DequantizeLinear to the nodes. */
static bool take_operand(const finder *f, braid_fusion *set, braid_value_id value) {
  const braid_rewrite *r = &f->rewrite;
  const braid_value *v = &r->graph->values[value];
  braid_value_id from[3] = {-1, -1, -1};
  if (set->input_count + 3 > BRAID_FUSION_INPUTS) return false;
  if (v->kind == BRAID_VALUE_CONSTANT) {
    memcpy(from, v->quantized, sizeof from);
  } else if (v->kind == BRAID_VALUE_RESULT && v->producer >= 0) {
    const braid_node *node = &r->graph->nodes[v->producer];
    if (!braid_node_is(node, "DequantizeLinear")) return false;
    for (size_t i = 0; i < 3; i++) from[i] = braid_node_input(node, i);
    if (r->uses[value] == 1) set->nodes[set->node_count++] = v->producer;
  }
  if (v->desc.dtype != BRAID_F32 || from[0] < 0 || !holds_bytes(r, from[0]) || !is_scale(r, from[1]) ||
      !is_one_constant(r, from[2]))
    return false;
  memcpy(set->inputs + set->input_count, from, sizeof from);
  set->input_count += 3;
  return true;
}

/* Weights, whose scales may stand along dimension `axis`. */
static bool take_weights(const finder *f, braid_fusion *set, braid_value_id value, int axis) {
  const braid_rewrite *r = &f->rewrite;
  const braid_value *v = &r->graph->values[value];
  if (v->kind != BRAID_VALUE_CONSTANT || v->desc.dtype != BRAID_F32 || v->quantized[0] < 0) return false;
  const braid_value_id *from = v->quantized;
  if (!holds_bytes(r, from[0]) || !braid_rewrite_constant(r, from[0]) || !braid_rewrite_constant(r, from[1]) ||
      (from[2] >= 0 && !braid_rewrite_constant(r, from[2])))
    return false;
  if (braid_rewrite_desc(r, from[1])->dtype != BRAID_F32) return false;
  if (braid_desc_count(braid_rewrite_desc(r, from[1])) != 1 && v->quantized_axis != axis) return false;
  memcpy(set->inputs + set->input_count, from, 3 * sizeof *from);
  set->input_count += 3;
  return true;
}

static double read_number(const finder *f, braid_value_id id, int64_t i) {
  braid_value_note_read(&f->rewrite.graph->values[id]);
  return braid_tensor_get_f64(f->rewrite.graph->values[id].tensor, i);
}

/* A bias in int32 whose scales are those of x times those of w: input 8, behind the result's. */
static bool take_bias(const finder *f, braid_fusion *set, braid_value_id value, int64_t filters) {
  const braid_rewrite *r = &f->rewrite;
  set->inputs[8] = -1;
  if (value < 0) return true;
  const braid_value *v = &r->graph->values[value];
  if (v->kind != BRAID_VALUE_CONSTANT || v->quantized[0] < 0) return false;
  braid_value_id bias = v->quantized[0], scale = v->quantized[1], zero = v->quantized[2];
  const braid_desc *desc = braid_rewrite_desc(r, bias);
  bool last = desc->rank == 0 || desc->dims[desc->rank - 1] == filters;
  if (desc->dtype != BRAID_I32 || braid_desc_count(desc) != filters || !last) return false;
  if (!braid_rewrite_constant(r, scale) || braid_rewrite_desc(r, scale)->dtype != BRAID_F32) return false;
  int64_t scales = braid_desc_count(braid_rewrite_desc(r, scale)),
          w_scales = braid_desc_count(braid_rewrite_desc(r, set->inputs[4]));
  int64_t zeros = zero >= 0 ? braid_desc_count(braid_rewrite_desc(r, zero)) : 0;
  for (int64_t i = 0; i < zeros; i++)
    if (read_number(f, zero, i) != 0) return false;
  for (int64_t i = 0; i < filters; i++) {
    double expected = read_number(f, set->inputs[1], 0) * read_number(f, set->inputs[4], w_scales == 1 ? 0 : i);
    double given = read_number(f, scale, scales == 1 ? 0 : i);
    if (!(fabs(given - expected) <= 1e-6 * fabs(expected))) return false;
  }
  set->inputs[8] = bias;
  return true;
}

/* Where the result's scale and zero point stand among the inputs. */
static void take_result(braid_fusion *set, size_t at, const braid_node *quantize) {
  set->inputs[at] = quantize->inputs[1];
  set->inputs[at + 1] = braid_node_input(quantize, 2);
  if (set->input_count < at + 2) set->input_count = at + 2;
}

/* Do the sums of `filters` filters with all their weights fit int32? */
static bool fits_sums(const braid_desc *weights, int64_t filters) {
  return braid_desc_count(weights) <= filters * BRAID_QLINEAR_MOST_PRODUCTS;
}

/* --- rules ---------------------------------------------------------------------------------------------------------
 * Each takes the operands of `node`, which computes what is quantized, and says which op over bytes that is. */
static bool conv_take(const finder *f, const braid_node *node, const braid_node *quantize, braid_fusion *set) {
  const braid_desc *w = braid_rewrite_desc(&f->rewrite, node->inputs[1]);
  if (!take_operand(f, set, node->inputs[0]) || !take_weights(f, set, node->inputs[1], 0) ||
      braid_node_input(quantize, 2) < 0 || !fits_sums(w, w->dims[0]))
    return false;
  take_result(set, 6, quantize);
  set->op = "FusedQLinearConv";
  set->input_count = 9;
  return take_bias(f, set, braid_node_input(node, 2), w->dims[0]);
}

static bool product_take(const finder *f, const braid_node *node, const braid_node *quantize, braid_fusion *set) {
  const braid_attrs *attrs = &node->attrs;
  const braid_desc *a = braid_rewrite_desc(&f->rewrite, node->inputs[0]),
                   *b = braid_rewrite_desc(&f->rewrite, node->inputs[1]);
  bool transposed = braid_attr_int(attrs, "transB", 0) != 0;
  if (braid_attr_int(attrs, "transA", 0) != 0 || braid_attr_float(attrs, "alpha", 1) != 1 ||
      braid_attr_float(attrs, "beta", 1) != 1 || a->rank < 2 || b->rank != 2 || !fits_sums(b, b->dims[!transposed]))
    return false;
  if (!take_operand(f, set, node->inputs[0]) || !take_weights(f, set, node->inputs[1], !transposed)) return false;
  take_result(set, 6, quantize);
  set->op = "FusedQLinearMatMul";
  set->input_count = 9;
  return take_bias(f, set, braid_node_input(node, 2), b->dims[!transposed]);
}

/* Of equal shape, or the second of one element. */
static bool pair_take(const finder *f, const braid_node *node, const braid_node *quantize, braid_fusion *set) {
  const braid_rewrite *r = &f->rewrite;
  const braid_desc *descs[2] = {braid_rewrite_desc(r, node->inputs[0]), braid_rewrite_desc(r, node->inputs[1])};
  bool same = braid_desc_same_shape(descs[0], descs[1]);
  size_t first = !same && braid_desc_count(descs[0]) == 1 ? 1 : 0;
  if (!same && (braid_desc_count(descs[1 - first]) != 1 || descs[1 - first]->rank > descs[first]->rank)) return false;
  if (node->inputs[0] == node->inputs[1]) return false;
  if (!take_operand(f, set, node->inputs[first]) || !take_operand(f, set, node->inputs[1 - first])) return false;
  take_result(set, 6, quantize);
  set->op = braid_node_is(node, "Add") ? "QLinearAdd" : "QLinearMul";
  return true;
}

static bool pool_take(const finder *f, const braid_node *node, const braid_node *quantize, braid_fusion *set) {
  if (!take_operand(f, set, node->inputs[0])) return false;
  take_result(set, 3, quantize);
  set->op = braid_node_is(node, "AveragePool") ? "QLinearAveragePool" : "QLinearGlobalAveragePool";
  return true;
}

static bool concat_take(const finder *f, const braid_node *node, const braid_node *quantize, braid_fusion *set) {
  take_result(set, 0, quantize);
  set->op = "QLinearConcat";
  for (size_t i = 0; i < node->input_count; i++) {
    for (size_t k = 0; k < i; k++)
      if (node->inputs[k] == node->inputs[i]) return false;
    if (!take_operand(f, set, node->inputs[i])) return false;
  }
  return true;
}

/* Have the operand and the result one scale and one zero point? */
static bool is_same_number(const finder *f, braid_value_id a, braid_value_id b) {
  if (a == b) return true;
  if (a >= 0 && b >= 0 && braid_rewrite_desc(&f->rewrite, a)->dtype != braid_rewrite_desc(&f->rewrite, b)->dtype)
    return false;
  return (a < 0 ? 0 : read_number(f, a, 0)) == (b < 0 ? 0 : read_number(f, b, 0));
}

/* Ops that only choose among elements do it with bytes. */
static bool choice_take(const finder *f, const braid_node *node, const braid_node *quantize, braid_fusion *set) {
  if (node->output_count > 1 && node->outputs[1] >= 0) return false;
  if (!take_operand(f, set, node->inputs[0])) return false;
  braid_value_id zero = braid_node_input(quantize, 2), x = set->inputs[0];
  if (braid_rewrite_desc(&f->rewrite, x)->dtype != braid_rewrite_desc(&f->rewrite, quantize->outputs[0])->dtype ||
      !is_same_number(f, set->inputs[1], quantize->inputs[1]) || !is_same_number(f, set->inputs[2], zero))
    return false;
  set->op = node->op->name;
  if (node->input_count > BRAID_FUSION_INPUTS) return false;
  memcpy(set->inputs + 1, node->inputs + 1, (node->input_count - 1) * sizeof *set->inputs);
  set->input_count = node->input_count;
  return true;
}

typedef bool take_function(const finder *f, const braid_node *node, const braid_node *quantize, braid_fusion *set);

static const struct rule {
  const char *op;
  take_function *take;
  bool clamps; /* Relu and Clip behind it are bounds of the result */
} kRules[] = {{"Conv", conv_take, true},
              {"Gemm", product_take, true},
              {"MatMul", product_take, true},
              {"Add", pair_take, true},
              {"Mul", pair_take, true},
              {"AveragePool", pool_take, false},
              {"GlobalAveragePool", pool_take, false},
              {"Concat", concat_take, false},
              {"MaxPool", choice_take, false},
              {"Transpose", choice_take, false},
              {"Slice", choice_take, false}};

static const struct rule *find_rule(const braid_node *node) {
  for (size_t i = 0; node && i < sizeof kRules / sizeof *kRules; i++)
    if (braid_node_is(node, kRules[i].op)) return &kRules[i];
  return NULL;
}

/* The set of nodes of one op, ending at `quantize`. */
static bool op_take(const finder *f, const braid_node *node, const braid_node *quantize, bool clamped,
                    braid_fusion *set) {
  const struct rule *rule = find_rule(node);
  if (!rule || (clamped && !rule->clamps)) return false;
  set->source = braid_rewrite_index(&f->rewrite, node);
  set->nodes[set->node_count++] = set->source;
  set->attrs = node->attrs;
  return rule->take(f, node, quantize, set);
}

/* An activation of one operand, or none: then the operand gets another scale. */
static braid_status find_activation(finder *f, const braid_node *quantize, const braid_node *node,
                                    const braid_fusion_activation *act) {
  braid_node_id id = braid_rewrite_index(&f->rewrite, quantize);
  braid_fusion set = {.op = "QLinearActivation", .nodes = {id}, .node_count = 1, .source = -1};
  if (node) set.nodes[set.node_count++] = braid_rewrite_index(&f->rewrite, node);
  if (!take_operand(f, &set, node ? node->inputs[0] : quantize->inputs[0])) return BRAID_OK;
  take_result(&set, 3, quantize);
  if (node) BRAID_TRY(braid_fusion_add_activation(f, &set, act));
  return braid_fusion_add(f, &set);
}

/* --- residuals -----------------------------------------------------------------------------------------------------
 */
/* A convolution over bytes whose result `value` only goes through one DequantizeLinear, which only one node reads. Its
 * set, with that DequantizeLinear. */
static bool find_inner(const finder *f, braid_value_id value, braid_fusion *out) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *dequantize = braid_rewrite_sole_producer(r, value);
  if (!braid_node_is(dequantize, "DequantizeLinear") || r->uses[dequantize->inputs[0]] != 1) return false;
  const braid_value *bytes = &r->graph->values[dequantize->inputs[0]];
  if (bytes->kind != BRAID_VALUE_RESULT || bytes->producer < 0) return false;
  const braid_node *end = &r->graph->nodes[bytes->producer];
  if (f->ends[bytes->producer]) {
    *out = f->list->items[f->ends[bytes->producer] - 1];
  } else {
    *out = (braid_fusion){.nodes = {bytes->producer}, .node_count = 1, .source = bytes->producer};
    out->op = end->op->name;
    out->attrs = end->attrs;
    out->input_count = end->input_count;
    memcpy(out->inputs, end->inputs, (end->input_count < 9 ? end->input_count : 9) * sizeof *out->inputs);
  }
  if (out->activated || out->input_count > 9) return false;
  if (strcmp(out->op, "FusedQLinearConv") != 0 && strcmp(out->op, "QLinearConv") != 0) return false;
  const braid_desc *w = braid_rewrite_desc(r, out->inputs[3]);
  if (!fits_sums(w, w->dims[0])) return false;
  for (size_t i = out->input_count; i < 9; i++) out->inputs[i] = -1;
  /* what quantized it is what dequantizes it */
  braid_value_id zero = out->inputs[7];
  if (!is_scale(r, out->inputs[6]) || !is_one_constant(r, zero) || !braid_rewrite_constant(r, out->inputs[3]) ||
      !is_same_number(f, out->inputs[6], dequantize->inputs[1]) ||
      !is_same_number(f, zero, braid_node_input(dequantize, 2)))
    return false;
  out->nodes[out->node_count++] = braid_rewrite_index(r, dequantize);
  return true;
}

/* A sum whose one operand is the result of a convolution over bytes: of two the later one. */
static braid_status find_residual(finder *f, const braid_node *sum, const braid_node *clamp, const braid_node *quantize,
                                  const braid_fusion_activation *act) {
  const braid_rewrite *r = &f->rewrite;
  braid_fusion best = {.source = -1}, set;
  if (braid_node_input(quantize, 2) < 0) return BRAID_OK; /* the op has a zero point, as QLinearConv */
  if (!braid_desc_same_shape(braid_rewrite_desc(r, sum->inputs[0]), braid_rewrite_desc(r, sum->inputs[1])))
    return BRAID_OK;
  for (size_t i = 0; i < 2; i++) {
    if (!find_inner(f, sum->inputs[i], &set) || set.source < best.source) continue;
    braid_value_id between[2] = {set.inputs[6], set.inputs[7]};
    set.input_count = 9;
    if (!take_operand(f, &set, sum->inputs[1 - i])) continue;
    take_result(&set, 6, quantize);
    memcpy(set.inputs + 12, between, sizeof between);
    set.input_count = 14;
    best = set;
  }
  if (best.source < 0) return BRAID_OK;
  best.op = "FusedQLinearConv";
  best.nodes[best.node_count++] = braid_rewrite_index(r, sum);
  best.nodes[best.node_count++] = braid_rewrite_index(r, quantize);
  if (clamp) {
    best.nodes[best.node_count++] = braid_rewrite_index(r, clamp);
    BRAID_TRY(braid_fusion_add_activation(f, &best, act));
  }
  return braid_fusion_add(f, &best);
}

/* --- a QuantizeLinear ----------------------------------------------------------------------------------------------
 */
braid_status braid_fusion_find_quantized(braid_fusion_finder *f, braid_node_id id) {
  const braid_rewrite *r = &f->rewrite;
  const braid_node *quantize = &r->graph->nodes[id];
  if (!braid_node_is(quantize, "QuantizeLinear") || !holds_bytes(r, quantize->outputs[0]) ||
      !is_scale(r, quantize->inputs[1]) || !is_one_constant(r, braid_node_input(quantize, 2)))
    return BRAID_OK;
  /* Ops over bytes have their zero point's type, or uint8: not what `output_dtype` says. */
  if (braid_node_input(quantize, 2) < 0 && braid_rewrite_desc(r, quantize->outputs[0])->dtype != BRAID_U8)
    return BRAID_OK;
  const braid_node *node = braid_rewrite_sole_producer(r, quantize->inputs[0]), *clamp = NULL;
  braid_fusion_activation act = {.name = NULL};
  bool activates = node && node->input_count > 0 && braid_fusion_read_activation(r, node, &act);
  if (!node || braid_node_is(node, "DequantizeLinear")) return find_activation(f, quantize, NULL, &act);
  if (activates && (braid_node_is(node, "Relu") || braid_node_is(node, "Clip"))) {
    clamp = node;
    node = braid_rewrite_sole_producer(r, clamp->inputs[0]);
  }
  braid_fusion set = {.nodes = {id}, .node_count = 1};
  if (clamp) set.nodes[set.node_count++] = braid_rewrite_index(r, clamp);
  if (!node || !op_take(f, node, quantize, clamp != NULL, &set))
    return activates ? find_activation(f, quantize, clamp ? clamp : node, &act) : BRAID_OK;
  if (clamp) BRAID_TRY(braid_fusion_add_activation(f, &set, &act));
  BRAID_TRY(braid_fusion_add(f, &set));
  return braid_node_is(node, "Add") ? find_residual(f, node, clamp, quantize, &act) : BRAID_OK;
}
