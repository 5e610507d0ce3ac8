/* Ops of the domain com.microsoft that ONNX Runtime writes into a model that it has optimized, spelled out in ONNX's
 * own (those of its quantizer: onnx_adapt_quantized.c). */
#include <string.h>

#include "base/try.h"
#include "model/onnx/onnx_import.h"

/* The call becomes `op` of these inputs, without attributes. */
static braid_status become(braid_onnx_call *call, const char *op, const braid_value_id *inputs, size_t count) {
  while (call->attr_count) braid_onnx_call_drop(call, call->attrs[0].name);
  call->op = op;
  call->input_count = 0;
  for (size_t i = 0; i < count; i++) BRAID_TRY(braid_onnx_call_set_input(call, i, inputs[i]));
  return BRAID_OK;
}

static braid_status set_number(braid_onnx_call *call, const char *name, double value) {
  return braid_onnx_call_put(call, (braid_attr){.name = name, .kind = BRAID_ATTR_FLOAT, .f = value});
}

static braid_status require_inputs(const braid_onnx_call *call, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (braid_onnx_call_input(call, i) < 0)
      return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "input %zu is missing", i);
  return BRAID_OK;
}

/* The inputs or outputs from `first` on are not there. */
static braid_status refuse_inputs(const braid_onnx_call *call, size_t first) {
  for (size_t i = first; i < call->input_count; i++)
    if (call->inputs[i] >= 0) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "input %zu", i);
  return BRAID_OK;
}

static bool is_wanted(const braid_onnx_call *call, size_t output) {
  return output < call->output_count && call->outputs[output] >= 0;
}

static braid_status refuse_outputs(const braid_onnx_call *call, size_t first, size_t end) {
  for (size_t i = first; i < end; i++)
    if (is_wanted(call, i)) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "output %zu", i);
  return BRAID_OK;
}

static braid_status add_if_given(braid_onnx_call *call, braid_value_id more, braid_value_id *value) {
  if (more < 0) return BRAID_OK;
  return braid_onnx_call_node(call, "Add", (braid_value_id[]){*value, more}, 2, NULL, 0, value);
}

static braid_status unsqueeze_by(braid_onnx_call *call, const int64_t *axes, size_t count, braid_value_id *value) {
  braid_value_id list;
  BRAID_TRY(braid_onnx_call_constant_ints(call, axes, count, false, &list));
  return braid_onnx_call_node(call, "Unsqueeze", (braid_value_id[]){*value, list}, 2, NULL, 0, value);
}

/* --- activations ---------------------------------------------------------------------------------------------------
 */
static braid_status adapt_gelu(braid_onnx_call *call) {
  bool fast = strcmp(call->op, "FastGelu") == 0;
  BRAID_TRY(require_inputs(call, strcmp(call->op, "BiasGelu") == 0 ? 2 : 1));
  braid_value_id x = call->inputs[0];
  BRAID_TRY(add_if_given(call, braid_onnx_call_input(call, 1), &x));
  BRAID_TRY(become(call, "Gelu", &x, 1));
  return fast ? braid_onnx_call_set_string(call, "approximate", "tanh") : BRAID_OK;
}

static braid_status adapt_quick_gelu(braid_onnx_call *call) {
  double alpha = braid_onnx_call_float(call, "alpha", 1.702);
  BRAID_TRY(require_inputs(call, 1));
  braid_value_id x = call->inputs[0];
  BRAID_TRY(become(call, "Swish", &x, 1));
  return set_number(call, "alpha", alpha);
}

/* What FusedConv and FusedGemm do with their result; `names`: of the attributes that hold its numbers, in order. */
static braid_status activate(braid_onnx_call *call, const char *activation, const double *numbers, size_t count,
                             braid_value_id *value) {
  static const struct {
    const char *op, *attrs[2];
  } kKnown[] = {{"Relu", {NULL}},
                {"Sigmoid", {NULL}},
                {"Tanh", {NULL}},
                {"LeakyRelu", {"alpha"}},
                {"HardSigmoid", {"alpha", "beta"}}};
  braid_graph *graph = call->importer->graph;
  if (!activation) return BRAID_OK;
  if (strcmp(activation, "Clip") == 0 && count == 2) {
    braid_value_id inputs[3] = {*value};
    for (size_t i = 0; i < 2; i++) BRAID_TRY(braid_onnx_call_constant_like(call, numbers[i], *value, &inputs[i + 1]));
    return braid_onnx_call_node(call, "Clip", inputs, 3, NULL, 0, value);
  }
  for (size_t i = 0; i < sizeof kKnown / sizeof *kKnown; i++) {
    if (strcmp(activation, kKnown[i].op) != 0) continue;
    BRAID_TRY(braid_onnx_call_node(call, activation, (braid_value_id[]){*value}, 1, NULL, 0, value));
    for (size_t k = 0; k < 2 && k < count && kKnown[i].attrs[k]; k++)
      BRAID_TRY(braid_graph_set_float(graph, graph->values[*value].producer, kKnown[i].attrs[k], numbers[k]));
    return BRAID_OK;
  }
  return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "activation %.40s", activation);
}

/* The op itself stands for the call, then the sum with a last input, then the activation. */
static braid_status emit_activated(braid_onnx_call *call, const char *op, braid_value_id more, const char *activation,
                                   const double *numbers, size_t count) {
  call->op = op;
  BRAID_TRY(braid_onnx_call_emit(call));
  braid_value_id value = call->outputs[0];
  BRAID_TRY(add_if_given(call, more, &value));
  BRAID_TRY(activate(call, activation, numbers, count, &value));
  braid_onnx_call_replace(call, value);
  return BRAID_OK;
}

static braid_status adapt_fused_conv(braid_onnx_call *call) {
  const char *activation = braid_onnx_call_string(call, "activation", NULL);
  const braid_attr *given = braid_onnx_call_attr(call, "activation_params");
  double numbers[2] = {0};
  size_t count = given && given->kind == BRAID_ATTR_FLOATS ? given->count : 0;
  for (size_t i = 0; i < count && i < 2; i++) numbers[i] = (double)given->floats[i];
  braid_value_id more = braid_onnx_call_input(call, 3);
  braid_onnx_call_drop(call, "activation");
  braid_onnx_call_drop(call, "activation_params");
  if (call->input_count > 3) call->input_count = 3;
  return emit_activated(call, "Conv", more, activation, numbers, count);
}

static braid_status adapt_fused_gemm(braid_onnx_call *call) {
  static const char *const kNames[4] = {"activation", "activation_alpha", "activation_beta", "activation_gamma"};
  const char *activation = braid_onnx_call_string(call, kNames[0], NULL);
  double numbers[2];
  size_t count = 0;
  while (count < 2 && braid_onnx_call_attr(call, kNames[count + 1])) {
    numbers[count] = braid_onnx_call_float(call, kNames[count + 1], 0);
    count++;
  }
  for (size_t i = 0; i < 4; i++) braid_onnx_call_drop(call, kNames[i]);
  return emit_activated(call, "Gemm", -1, activation, numbers, count);
}

/* alpha times the product, of matrices that may lie transposed. */
static braid_status adapt_fused_matmul(braid_onnx_call *call) {
  static const char *const kTransposed[2] = {"transA", "transB"};
  double alpha = braid_onnx_call_float(call, "alpha", 1);
  braid_value_id product, factor;
  BRAID_TRY(require_inputs(call, 2));
  if (braid_onnx_call_int(call, "transBatchA", 0) != 0 || braid_onnx_call_int(call, "transBatchB", 0) != 0)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "transBatchA or transBatchB");
  for (size_t i = 0; i < 2; i++) {
    braid_graph *graph = call->importer->graph;
    if (!braid_onnx_call_int(call, kTransposed[i], 0)) continue;
    braid_value_id turned = 0;
    braid_node_id node; /* of any rank */
    BRAID_TRY(braid_graph_add_node(graph, "Einsum", NULL, &call->inputs[i], 1, &turned, 1, &node));
    BRAID_TRY(braid_graph_set_string(graph, node, "equation", "...ij->...ji"));
    call->inputs[i] = turned;
  }
  BRAID_TRY(braid_onnx_call_node(call, "MatMul", call->inputs, 2, NULL, 0, &product));
  if (alpha != 1) {
    BRAID_TRY(braid_onnx_call_constant_like(call, alpha, product, &factor));
    BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){product, factor}, 2, NULL, 0, &product));
  }
  braid_onnx_call_replace(call, product);
  return BRAID_OK;
}

/* --- normalization -------------------------------------------------------------------------------------------------
 */
static braid_status normalize_last(braid_onnx_call *call, const char *op, const braid_value_id *inputs, size_t count,
                                   double epsilon) {
  BRAID_TRY(become(call, op, inputs, count));
  BRAID_TRY(braid_onnx_call_set_int(call, "axis", -1));
  return set_number(call, "epsilon", epsilon);
}

/* SkipLayerNormalization(input, skip, gamma, beta, bias), the simplified one without beta; outputs: normalized, mean,
 * inverse deviation, the sum that was normalized. */
static braid_status adapt_skip_normalization(braid_onnx_call *call) {
  bool simple = strcmp(call->op, "SkipSimplifiedLayerNormalization") == 0;
  double epsilon = braid_onnx_call_float(call, "epsilon", 1e-12);
  BRAID_TRY(require_inputs(call, 3));
  BRAID_TRY(refuse_outputs(call, 1, 3));
  braid_value_id sum = call->inputs[0], inputs[3] = {-1, call->inputs[2], simple ? -1 : braid_onnx_call_input(call, 3)};
  BRAID_TRY(add_if_given(call, call->inputs[1], &sum));
  BRAID_TRY(add_if_given(call, braid_onnx_call_input(call, simple ? 3 : 4), &sum));
  inputs[0] = sum;
  size_t outputs = call->output_count;
  BRAID_TRY(
      normalize_last(call, simple ? "RMSNormalization" : "LayerNormalization", inputs, inputs[2] < 0 ? 2 : 3, epsilon));
  call->output_count = 1;
  BRAID_TRY(braid_onnx_call_emit(call));
  call->output_count = outputs;
  if (is_wanted(call, 3)) call->outputs[3] = sum;
  call->done = true;
  return BRAID_OK;
}

/* EmbedLayerNormalization(input_ids, segment_ids, words, positions, segments, gamma, beta, mask, position_ids);
 * outputs: normalized, how many of each row the mask shows, the sum that was normalized. */
static braid_status adapt_embed_normalization(braid_onnx_call *call) {
  braid_value_id in[9], sum, part, length, counts = -1;
  double epsilon = braid_onnx_call_float(call, "epsilon", 1e-12);
  for (size_t i = 0; i < 9; i++) in[i] = braid_onnx_call_input(call, i);
  if (in[0] < 0 || in[2] < 0 || in[3] < 0 || in[5] < 0 || (in[1] < 0) != (in[4] < 0))
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "an embedding, its numbers or gamma are missing");
  BRAID_TRY(braid_onnx_call_node(call, "Gather", (braid_value_id[]){in[2], in[0]}, 2, "axis", 0, &sum));
  if (in[8] >= 0) {
    BRAID_TRY(braid_onnx_call_node(call, "Gather", (braid_value_id[]){in[3], in[8]}, 2, "axis", 0, &part));
  } else { /* the first positions, as many as a row has words */
    braid_value_id zero;
    BRAID_TRY(braid_onnx_call_node(call, "Shape", &in[0], 1, "start", 1, &length));
    BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){0}, 1, false, &zero));
    BRAID_TRY(braid_onnx_call_node(call, "Slice", (braid_value_id[]){in[3], zero, length, zero}, 4, NULL, 0, &part));
  }
  BRAID_TRY(add_if_given(call, part, &sum));
  if (in[4] >= 0) {
    BRAID_TRY(braid_onnx_call_node(call, "Gather", (braid_value_id[]){in[4], in[1]}, 2, "axis", 0, &part));
    BRAID_TRY(add_if_given(call, part, &sum));
  }
  if (is_wanted(call, 1)) {
    braid_value_id axis;
    if (in[7] < 0) /* it is zeros then */
      BRAID_TRY(braid_onnx_call_node(call, "Sub", (braid_value_id[]){in[0], in[0]}, 2, NULL, 0, &in[7]));
    BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){1}, 1, false, &axis));
    BRAID_TRY(braid_onnx_call_node(call, "ReduceSum", (braid_value_id[]){in[7], axis}, 2, "keepdims", 0, &counts));
  }
  size_t outputs = call->output_count;
  BRAID_TRY(
      normalize_last(call, "LayerNormalization", (braid_value_id[]){sum, in[5], in[6]}, in[6] < 0 ? 2 : 3, epsilon));
  call->output_count = 1;
  BRAID_TRY(braid_onnx_call_emit(call));
  call->output_count = outputs;
  if (counts >= 0) call->outputs[1] = counts;
  if (is_wanted(call, 2)) call->outputs[2] = sum;
  call->done = true;
  return BRAID_OK;
}

/* --- attention -----------------------------------------------------------------------------------------------------
 */
/* Does a mask say how long the rows are, or which elements count? It is counted by a ReduceSum where its rank is not in
 * the file. */
static bool has_lengths(const braid_onnx_call *call, braid_value_id mask) {
  const braid_graph *graph = call->importer->graph;
  const braid_desc *known = braid_onnx_call_known(call, mask);
  if (known) return known->rank == 1;
  while (mask >= 0 && graph->values[mask].kind == BRAID_VALUE_RESULT && graph->values[mask].producer >= 0) {
    const braid_node *node = &graph->nodes[graph->values[mask].producer];
    if (strcmp(node->op->name, "ReduceSum") == 0) return braid_attr_int(&node->attrs, "keepdims", 1) == 0;
    if (strcmp(node->op->name, "Cast") != 0) return false;
    mask = node->inputs[0];
  }
  return false;
}

/* A mask of keys, [batch, keys] or [batch], as one of scores, [batch, 1, 1, keys]. `keys`: has as many rows of
 * dimension 1 as there are. */
static braid_status mask_of_scores(braid_onnx_call *call, braid_value_id keys, braid_value_id *mask) {
  const braid_desc *known = braid_onnx_call_known(call, *mask);
  if (known && known->rank > 2)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "a mask of %d dimensions", known->rank);
  if (has_lengths(call, *mask)) {
    braid_value_id range[3], count, zero;
    braid_node_id node;
    BRAID_TRY(braid_onnx_call_node(call, "Shape", &keys, 1, "start", 1, &count));
    node = call->importer->graph->values[count].producer;
    BRAID_TRY(braid_graph_set_int(call->importer->graph, node, "end", 2));
    BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){0}, 1, false, &zero));
    BRAID_TRY(braid_onnx_call_node(call, "Squeeze", (braid_value_id[]){count, zero}, 2, NULL, 0, &range[1]));
    BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){0}, 1, true, &range[0]));
    BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){1}, 1, true, &range[2]));
    BRAID_TRY(braid_onnx_call_node(call, "Range", range, 3, NULL, 0, &range[0]));
    BRAID_TRY(braid_onnx_call_node(call, "Cast", mask, 1, "to", 7, mask));
    BRAID_TRY(unsqueeze_by(call, (int64_t[]){1}, 1, mask));
    BRAID_TRY(braid_onnx_call_node(call, "Less", (braid_value_id[]){range[0], *mask}, 2, NULL, 0, mask));
  } else {
    BRAID_TRY(braid_onnx_call_node(call, "Cast", mask, 1, "to", 9, mask));
  }
  return unsqueeze_by(call, (int64_t[]){1, 2}, 2, mask);
}

/* The call becomes ONNX's Attention of rows [batch, length, heads x width]. */
static braid_status attend(braid_onnx_call *call, const braid_value_id *inputs, size_t count) {
  const braid_attr *given = braid_onnx_call_attr(call, "scale");
  double scale = given && given->kind == BRAID_ATTR_FLOAT ? given->f : 0;
  int64_t heads = braid_onnx_call_int(call, "num_heads", 0), causal = braid_onnx_call_int(call, "unidirectional", 0);
  BRAID_TRY(become(call, "Attention", inputs, count));
  BRAID_TRY(braid_onnx_call_set_int(call, "q_num_heads", heads));
  BRAID_TRY(braid_onnx_call_set_int(call, "kv_num_heads", heads));
  if (causal) BRAID_TRY(braid_onnx_call_set_int(call, "is_causal", 1));
  return scale != 0 ? set_number(call, "scale", scale) : BRAID_OK;
}

/* Of one product, of rows with weights, query, key and value. */
static braid_status attend_to_itself(braid_onnx_call *call, const braid_value_id *in, braid_value_id bias,
                                     braid_value_id mask) {
  braid_value_id rows, parts[3] = {0, 0, 0}, sizes = -1, inputs[4];
  size_t count;
  braid_node_id node;
  BRAID_TRY(refuse_outputs(call, 1, call->output_count));
  if (braid_onnx_call_int(call, "do_rotary", 0) != 0) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "do_rotary");
  BRAID_TRY(braid_onnx_call_node(call, "MatMul", in, 2, NULL, 0, &rows));
  BRAID_TRY(add_if_given(call, bias, &rows));
  const int64_t *given = braid_onnx_call_ints(call, "qkv_hidden_sizes", &count);
  if (given && count) BRAID_TRY(braid_onnx_call_constant_ints(call, given, count, false, &sizes));
  BRAID_TRY(braid_graph_add_node(call->importer->graph, "Split", NULL, (braid_value_id[]){rows, sizes},
                                 sizes < 0 ? 1 : 2, parts, 3, &node));
  BRAID_TRY(braid_graph_set_int(call->importer->graph, node, "axis", -1));
  if (sizes < 0) BRAID_TRY(braid_graph_set_int(call->importer->graph, node, "num_outputs", 3));
  memcpy(inputs, parts, sizeof parts);
  inputs[3] = mask;
  if (mask >= 0) BRAID_TRY(mask_of_scores(call, in[0], &inputs[3]));
  return attend(call, inputs, mask < 0 ? 3 : 4);
}

/* Attention(input, weights, bias, mask, past, attention_bias). */
static braid_status adapt_attention(braid_onnx_call *call) {
  BRAID_TRY(require_inputs(call, 2));
  BRAID_TRY(refuse_inputs(call, 4));
  return attend_to_itself(call, call->inputs, braid_onnx_call_input(call, 2), braid_onnx_call_input(call, 3));
}

/* QAttention(input, weights, bias, input_scale, weight_scale, mask, input_zero_point, weight_zero_point, past). */
static braid_status adapt_quantized_attention(braid_onnx_call *call) {
  braid_value_id in[2];
  BRAID_TRY(require_inputs(call, 5));
  BRAID_TRY(refuse_inputs(call, 8));
  for (size_t i = 0; i < 2; i++) {
    const braid_value_id quantized[3] = {call->inputs[i], call->inputs[3 + i], braid_onnx_call_input(call, 6 + i)};
    BRAID_TRY(braid_onnx_call_node(call, "DequantizeLinear", quantized, quantized[2] < 0 ? 2 : 3, "axis", 1, &in[i]));
  }
  return attend_to_itself(call, in, call->inputs[2], braid_onnx_call_input(call, 5));
}

/* MultiHeadAttention(query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value). */
static braid_status adapt_multi_head(braid_onnx_call *call) {
  braid_value_id in[8], inputs[6], parts[3] = {0, 0, 0};
  braid_node_id node;
  for (size_t i = 0; i < 8; i++) in[i] = braid_onnx_call_input(call, i);
  BRAID_TRY(require_inputs(call, 3));
  BRAID_TRY(refuse_inputs(call, 8));
  if (in[6] >= 0 && (in[4] >= 0 || braid_onnx_call_int(call, "unidirectional", 0) != 0))
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "a cache together with a mask of keys");
  if (in[4] >= 0 && in[5] >= 0) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "two masks");
  const braid_desc *key = braid_onnx_call_known(call, in[1]);
  if (key && key->rank != 3) return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "a key of %d dimensions", key->rank);
  if (in[3] >= 0) {
    BRAID_TRY(braid_graph_add_node(call->importer->graph, "Split", NULL, &in[3], 1, parts, 3, &node));
    BRAID_TRY(braid_graph_set_int(call->importer->graph, node, "num_outputs", 3));
  }
  for (size_t i = 0; i < 3; i++) {
    inputs[i] = in[i];
    if (in[3] >= 0) BRAID_TRY(add_if_given(call, parts[i], &inputs[i]));
  }
  inputs[3] = in[5];
  if (in[4] >= 0) {
    inputs[3] = in[4];
    BRAID_TRY(mask_of_scores(call, in[1], &inputs[3]));
  }
  inputs[4] = in[6];
  inputs[5] = in[7];
  return attend(call, inputs, in[6] >= 0 ? 6 : inputs[3] >= 0 ? 4 : 3);
}

/* RotaryEmbedding(input, position_ids, cos_cache, sin_cache). */
static braid_status adapt_rotary(braid_onnx_call *call) {
  static const char *const kKept[3] = {"interleaved", "num_heads", "rotary_embedding_dim"};
  int64_t kept[3];
  BRAID_TRY(require_inputs(call, 4));
  const braid_desc *places = braid_onnx_call_known(call, call->inputs[1]);
  if (places && places->rank != 2)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "position_ids of %d dimensions", places->rank);
  if (braid_onnx_call_float(call, "scale", 1) != 1 || braid_onnx_call_int(call, "is_packed_batching", 0) != 0)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "scale or is_packed_batching");
  for (size_t i = 0; i < 3; i++) kept[i] = braid_onnx_call_int(call, kKept[i], 0);
  const braid_value_id inputs[4] = {call->inputs[0], call->inputs[2], call->inputs[3], call->inputs[1]};
  BRAID_TRY(become(call, "RotaryEmbedding", inputs, 4));
  for (size_t i = 0; i < 3; i++)
    if (kept[i]) BRAID_TRY(braid_onnx_call_set_int(call, kKept[i], kept[i]));
  return BRAID_OK;
}

braid_status braid_onnx_adapt_microsoft(braid_onnx_call *call, bool *known) {
  static const struct {
    const char *op;
    braid_status (*rewrite)(braid_onnx_call *call);
  } kOps[] = {
      {"Attention", adapt_attention},
      {"BiasGelu", adapt_gelu},
      {"EmbedLayerNormalization", adapt_embed_normalization},
      {"FastGelu", adapt_gelu},
      {"FusedConv", adapt_fused_conv},
      {"FusedGemm", adapt_fused_gemm},
      {"FusedMatMul", adapt_fused_matmul},
      {"Gelu", adapt_gelu},
      {"MultiHeadAttention", adapt_multi_head},
      {"QAttention", adapt_quantized_attention},
      {"QuickGelu", adapt_quick_gelu},
      {"RotaryEmbedding", adapt_rotary},
      {"SkipLayerNormalization", adapt_skip_normalization},
      {"SkipSimplifiedLayerNormalization", adapt_skip_normalization},
  };
  *known = false;
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    if (strcmp(call->op, kOps[i].op) != 0) continue;
    *known = true;
    return kOps[i].rewrite(call);
  }
  return BRAID_OK;
}
