/* Quantized ops of the domain com.microsoft, which ONNX Runtime's quantizer writes beside ONNX's own, spelled out:
 * operands back to real numbers, the op, and the result quantized. */
#include <string.h>

#include "base/try.h"
#include "model/onnx/onnx_import.h"

/* Real numbers of the quantized operand that stands at `at`, followed by its scale and zero point. */
static braid_status real(braid_onnx_call *call, size_t at, int64_t axis, braid_value_id *out) {
  braid_value_id operand[3] = {braid_onnx_call_input(call, at), braid_onnx_call_input(call, at + 1),
                               braid_onnx_call_input(call, at + 2)};
  if (operand[0] < 0 || operand[1] < 0)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "expected a quantized input %zu with its scale", at);
  return braid_onnx_call_node(call, "DequantizeLinear", operand, operand[2] < 0 ? 2 : 3, "axis", axis, out);
}

/* The call becomes `value` quantized by the scale at `at` and the zero point after it. */
static braid_status quantized(braid_onnx_call *call, braid_value_id value, size_t at) {
  braid_value_id operands[3] = {value, braid_onnx_call_input(call, at), braid_onnx_call_input(call, at + 1)};
  if (operands[1] < 0 || operands[2] < 0)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "expected the scale and zero point of its output");
  BRAID_TRY(braid_onnx_call_node(call, "QuantizeLinear", operands, 3, NULL, 0, &value));
  braid_onnx_call_replace(call, value);
  return BRAID_OK;
}

static braid_status adapt_binary(braid_onnx_call *call) {
  braid_value_id both[2], value;
  BRAID_TRY(real(call, 0, 1, &both[0]));
  BRAID_TRY(real(call, 3, 1, &both[1]));
  BRAID_TRY(braid_onnx_call_node(call, strcmp(call->op, "QLinearAdd") == 0 ? "Add" : "Mul", both, 2, NULL, 0, &value));
  return quantized(call, value, 6);
}

static braid_status adapt_unary(braid_onnx_call *call) {
  braid_value_id value;
  if (braid_onnx_call_int(call, "channels_last", 0) != 0)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "channels_last");
  BRAID_TRY(real(call, 0, 1, &value));
  const char *op = strcmp(call->op, "QLinearSigmoid") == 0 ? "Sigmoid" : "GlobalAveragePool";
  BRAID_TRY(braid_onnx_call_node(call, op, &value, 1, NULL, 0, &value));
  return quantized(call, value, 3);
}

/* Before opset 13 a Softmax went over all dimensions from its axis on: the same where that is the last. */
static braid_status adapt_softmax(braid_onnx_call *call) {
  braid_value_id value;
  BRAID_TRY(real(call, 0, 1, &value));
  const braid_desc *known = braid_onnx_call_known(call, braid_onnx_call_input(call, 0));
  int64_t axis = braid_onnx_call_int(call, "axis", -1);
  bool last = axis == -1 || (known && axis == known->rank - 1);
  if (braid_onnx_call_int(call, "opset", 13) < 13 && !last)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "its form before opset 13 over another axis than the last");
  BRAID_TRY(braid_onnx_call_node(call, "Softmax", &value, 1, "axis", axis, &value));
  return quantized(call, value, 3);
}

/* The pool itself, with its attributes, stands for the call; its result is quantized. */
static braid_status adapt_average_pool(braid_onnx_call *call) {
  braid_value_id value, to[2] = {braid_onnx_call_input(call, 3), braid_onnx_call_input(call, 4)};
  if (braid_onnx_call_int(call, "channels_last", 0) != 0)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "channels_last");
  BRAID_TRY(real(call, 0, 1, &value));
  braid_onnx_call_drop(call, "channels_last");
  call->op = "AveragePool";
  call->inputs[0] = value;
  call->input_count = 1;
  BRAID_TRY(braid_onnx_call_emit(call));
  call->inputs[3] = to[0];
  call->inputs[4] = to[1];
  call->input_count = 5;
  return quantized(call, call->outputs[0], 3);
}

static braid_status adapt_where(braid_onnx_call *call) {
  braid_value_id inputs[3] = {braid_onnx_call_input(call, 0)}, value;
  if (inputs[0] < 0) return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "expected a condition");
  BRAID_TRY(real(call, 1, 1, &inputs[1]));
  BRAID_TRY(real(call, 4, 1, &inputs[2]));
  BRAID_TRY(braid_onnx_call_node(call, "Where", inputs, 3, NULL, 0, &value));
  return quantized(call, value, 7);
}

/* LeakyRelu(x) = Where(x < 0, alpha x, x). */
static braid_status adapt_leaky_relu(braid_onnx_call *call) {
  braid_value_id x, zero, alpha, negative, scaled, value;
  BRAID_TRY(real(call, 0, 1, &x));
  BRAID_TRY(braid_onnx_call_constant_like(call, 0, x, &zero));
  BRAID_TRY(braid_onnx_call_constant_like(call, braid_onnx_call_float(call, "alpha", 0.01), x, &alpha));
  BRAID_TRY(braid_onnx_call_node(call, "Less", (braid_value_id[]){x, zero}, 2, NULL, 0, &negative));
  BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){x, alpha}, 2, NULL, 0, &scaled));
  BRAID_TRY(braid_onnx_call_node(call, "Where", (braid_value_id[]){negative, scaled, x}, 3, NULL, 0, &value));
  return quantized(call, value, 3);
}

static braid_status adapt_concat(braid_onnx_call *call) {
  size_t count = call->input_count > 2 ? (call->input_count - 2) / 3 : 0;
  if (!count || call->input_count != 2 + 3 * count)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "%zu inputs; expected two, and three for each part",
                                call->input_count);
  braid_value_id *parts = braid_zalloc_array(call->importer->allocator, count, sizeof *parts), value;
  if (!parts) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < count; i++) status = real(call, 2 + 3 * i, 1, &parts[i]);
  if (status == BRAID_OK)
    status = braid_onnx_call_node(call, "Concat", parts, count, "axis", braid_onnx_call_int(call, "axis", 0), &value);
  braid_free(call->importer->allocator, parts);
  return status == BRAID_OK ? quantized(call, value, 0) : status;
}

/* Inputs: a and b with scales and zero points; c, in int32 with the scale a's times b's; the output's, or none: then it
 * is real. alpha is of the sum with c: as if a's scale were alpha times what it is. */
static braid_status adapt_gemm(braid_onnx_call *call) {
  int64_t first = braid_onnx_call_int(call, "transA", 0), second = braid_onnx_call_int(call, "transB", 0);
  double factor = braid_onnx_call_float(call, "alpha", 1);
  braid_value_id operands[3], c[2] = {braid_onnx_call_input(call, 6)}, alpha, value, *scale = &call->inputs[1];
  if (factor != 1 && braid_onnx_call_input(call, 1) >= 0) {
    BRAID_TRY(braid_onnx_call_constant_like(call, factor, *scale, &alpha));
    BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){alpha, *scale}, 2, NULL, 0, scale));
  }
  BRAID_TRY(real(call, 0, 1, &operands[0]));
  BRAID_TRY(real(call, 3, second ? 0 : 1, &operands[1]));
  if (c[0] >= 0) {
    BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){*scale, call->inputs[4]}, 2, NULL, 0, &c[1]));
    BRAID_TRY(braid_onnx_call_node(call, "DequantizeLinear", c, 2, "axis", 0, &operands[2]));
  }
  BRAID_TRY(braid_onnx_call_node(call, "Gemm", operands, c[0] >= 0 ? 3 : 2, "transB", second, &value));
  braid_graph *graph = call->importer->graph;
  if (first) BRAID_TRY(braid_graph_set_int(graph, graph->values[value].producer, "transA", 1));
  if (braid_onnx_call_input(call, 7) >= 0 || braid_onnx_call_input(call, 8) >= 0) return quantized(call, value, 7);
  braid_onnx_call_replace(call, value);
  return BRAID_OK;
}

static braid_status adapt_reduce_mean(braid_onnx_call *call) {
  braid_value_id operands[2], value;
  size_t count;
  BRAID_TRY(real(call, 0, 1, &operands[0]));
  const int64_t *axes = braid_onnx_call_ints(call, "axes", &count);
  if (axes) BRAID_TRY(braid_onnx_call_constant_ints(call, axes, count, false, &operands[1]));
  BRAID_TRY(braid_onnx_call_node(call, "ReduceMean", operands, axes ? 2 : 1, "keepdims",
                                 braid_onnx_call_int(call, "keepdims", 1), &value));
  return quantized(call, value, 3);
}

/* --- with real results ---------------------------------------------------------------------------------------------
 */
/* The product of a and b with their zero points (-1: none), in int32, times both scales, plus a bias. */
static braid_status real_product(braid_onnx_call *call, const braid_value_id operands[4], braid_value_id a_scale,
                                 braid_value_id b_scale, braid_value_id bias) {
  braid_value_id value, scale;
  size_t count = operands[3] >= 0 ? 4 : operands[2] >= 0 ? 3 : 2;
  BRAID_TRY(braid_onnx_call_node(call, "MatMulInteger", operands, count, NULL, 0, &value));
  BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){a_scale, b_scale}, 2, NULL, 0, &scale));
  BRAID_TRY(braid_onnx_call_node(call, "CastLike", (braid_value_id[]){value, scale}, 2, NULL, 0, &value));
  BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){value, scale}, 2, NULL, 0, &value));
  if (bias >= 0) BRAID_TRY(braid_onnx_call_node(call, "Add", (braid_value_id[]){value, bias}, 2, NULL, 0, &value));
  braid_onnx_call_replace(call, value);
  return BRAID_OK;
}

static braid_status check_inputs(const braid_onnx_call *call, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (braid_onnx_call_input(call, i) < 0)
      return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "input %zu is missing", i);
  return BRAID_OK;
}

/* Inputs: a and b, their scales, their zero points, a bias. */
static braid_status adapt_integer_product(braid_onnx_call *call) {
  BRAID_TRY(check_inputs(call, 4));
  const braid_value_id operands[4] = {call->inputs[0], call->inputs[1], braid_onnx_call_input(call, 4),
                                      braid_onnx_call_input(call, 5)};
  return real_product(call, operands, call->inputs[2], call->inputs[3], braid_onnx_call_input(call, 6));
}

/* Inputs: a, in real numbers; b, its scale and zero point; a bias. */
static braid_status adapt_dynamic_product(braid_onnx_call *call) {
  braid_value_id parts[3] = {0, 0, 0}; /* a quantized, its scale, its zero point */
  braid_node_id node;
  BRAID_TRY(check_inputs(call, 3));
  BRAID_TRY(
      braid_graph_add_node(call->importer->graph, "DynamicQuantizeLinear", NULL, call->inputs, 1, parts, 3, &node));
  const braid_value_id operands[4] = {parts[0], call->inputs[1], parts[2], braid_onnx_call_input(call, 3)};
  return real_product(call, operands, parts[1], call->inputs[2], braid_onnx_call_input(call, 4));
}

/* --- MatMulNBits ---------------------------------------------------------------------------------------------------
 * Rows of numbers of a few bits, the lowest of a byte first; each row begins with a byte. */
static braid_status unpack_rows(braid_onnx_call *call, braid_value_id packed, int64_t rows, int64_t columns,
                                int64_t bits, braid_value_id *out) {
  const braid_value *value = packed < 0 ? NULL : &call->importer->graph->values[packed];
  int64_t each = 8 / bits, bytes = (columns + each - 1) / each, dims[2] = {rows, columns};
  braid_desc desc;
  braid_tensor *tensor;
  if (!value || !value->tensor || value->desc.dtype != BRAID_U8 || braid_desc_count(&value->desc) != rows * bytes)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED,
                                "weights, or zero points, that are not %lld bytes known before the run",
                                (long long)(rows * bytes));
  BRAID_TRY(braid_desc_init(&desc, BRAID_U8, 2, dims));
  BRAID_TRY(braid_tensor_create(call->importer->allocator, &desc, &tensor));
  const uint8_t *from = braid_tensor_const_data(value->tensor);
  uint8_t *to = braid_tensor_data(tensor);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      *to++ = (uint8_t)(from[r * bytes + c / each] >> c % each * bits & ((1 << bits) - 1));
  braid_status status = braid_graph_add_tensor(call->importer->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* Inputs: a; b, N rows of blocks of numbers, a scale for each block and (or 2^(bits - 1)) a zero point; no order of the
 * columns; a bias. */
static braid_status adapt_few_bits(braid_onnx_call *call) {
  int64_t k = braid_onnx_call_int(call, "K", 0), n = braid_onnx_call_int(call, "N", 0);
  int64_t bits = braid_onnx_call_int(call, "bits", 4), block = braid_onnx_call_int(call, "block_size", 0);
  braid_value_id parts[3], zero = braid_onnx_call_input(call, 3), list, value;
  BRAID_TRY(check_inputs(call, 3));
  if (k < 1 || n < 1 || block < 16 || block % 8 || k > INT32_MAX || n > INT32_MAX || block > INT32_MAX)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "K is %lld, N %lld, block_size %lld", (long long)k,
                                (long long)n, (long long)block);
  if ((bits != 2 && bits != 4 && bits != 8) || braid_onnx_call_input(call, 4) >= 0)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "%lld bits, or an order of the columns", (long long)bits);
  int64_t blocks = (k + block - 1) / block;
  BRAID_TRY(unpack_rows(call, call->inputs[1], n, blocks * block, bits, &parts[0]));
  BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){n, blocks}, 2, false, &list));
  BRAID_TRY(braid_onnx_call_node(call, "Reshape", (braid_value_id[]){call->inputs[2], list}, 2, NULL, 0, &parts[1]));
  if (zero >= 0) {
    BRAID_TRY(unpack_rows(call, zero, n, blocks, bits, &parts[2]));
  } else {
    BRAID_TRY(braid_graph_add_scalar(call->importer->graph, BRAID_U8, (double)(1 << (bits - 1)), &zero));
    BRAID_TRY(braid_onnx_call_node(call, "Expand", (braid_value_id[]){zero, list}, 2, NULL, 0, &parts[2]));
  }
  BRAID_TRY(braid_onnx_call_node(call, "DequantizeLinear", parts, 3, "block_size", block, &value));
  if (blocks * block > k) {
    braid_value_id slice[4] = {value};
    const int64_t numbers[3] = {0, k, 1};
    for (size_t i = 0; i < 3; i++) BRAID_TRY(braid_onnx_call_constant_ints(call, &numbers[i], 1, false, &slice[i + 1]));
    BRAID_TRY(braid_onnx_call_node(call, "Slice", slice, 4, NULL, 0, &value));
  }
  BRAID_TRY(braid_onnx_call_node(call, "Transpose", &value, 1, NULL, 0, &value));
  BRAID_TRY(braid_onnx_call_node(call, "MatMul", (braid_value_id[]){call->inputs[0], value}, 2, NULL, 0, &value));
  if (braid_onnx_call_input(call, 5) >= 0)
    BRAID_TRY(braid_onnx_call_node(call, "Add", (braid_value_id[]){value, call->inputs[5]}, 2, NULL, 0, &value));
  braid_onnx_call_replace(call, value);
  return BRAID_OK;
}

/* --- DynamicQuantizeLSTM -------------------------------------------------------------------------------------------
 * The weights of an LSTM, [directions, inputs, gates], with a scale for each direction or for each gate of it, in real
 * numbers and as ONNX has them, [directions, gates, inputs]. */
static braid_status recurrent_weights(braid_onnx_call *call, size_t at, size_t scale_at, braid_value_id *out) {
  braid_value_id value = braid_onnx_call_input(call, at), by[2], axes;
  const braid_desc *scale = braid_onnx_call_known(call, braid_onnx_call_input(call, scale_at));
  if (value < 0 || !scale)
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE,
                                "quantized weights, or the shape of their scales, are missing");
  BRAID_TRY(braid_onnx_call_constant_ints(call, (int64_t[]){1, 2}, scale->rank == 2 ? 1 : 2, false, &axes));
  for (size_t i = 0; i < 2; i++) {
    by[i] = braid_onnx_call_input(call, scale_at + i);
    if (by[i] < 0) continue;
    BRAID_TRY(braid_onnx_call_node(call, "Unsqueeze", (braid_value_id[]){by[i], axes}, 2, NULL, 0, &by[i]));
    BRAID_TRY(braid_onnx_call_node(call, "Cast", &by[i], 1, "to", 1, &by[i]));
  }
  BRAID_TRY(braid_onnx_call_node(call, "Cast", &value, 1, "to", 1, &value));
  if (by[1] >= 0) BRAID_TRY(braid_onnx_call_node(call, "Sub", (braid_value_id[]){value, by[1]}, 2, NULL, 0, &value));
  BRAID_TRY(braid_onnx_call_node(call, "Mul", (braid_value_id[]){value, by[0]}, 2, NULL, 0, &value));
  BRAID_TRY(braid_onnx_call_node(call, "Transpose", &value, 1, NULL, 0, out));
  return braid_graph_set_ints(call->importer->graph, call->importer->graph->values[*out].producer, "perm",
                              (int64_t[]){0, 2, 1}, 3);
}

/* LSTM's inputs, of which the weights are quantized, then scales and zero points of both. What ONNX Runtime rounds in
 * each step, the input and the state, stays real. */
static braid_status adapt_dynamic_lstm(braid_onnx_call *call) {
  braid_value_id weights[2];
  BRAID_TRY(recurrent_weights(call, 1, 8, &weights[0]));
  BRAID_TRY(recurrent_weights(call, 2, 10, &weights[1]));
  memcpy(call->inputs + 1, weights, sizeof weights);
  call->input_count = 8;
  call->op = "LSTM";
  return BRAID_OK;
}

/* As ONNX has them; ONNX Runtime writes them for types that the file's opset lacks. */
static braid_status adapt_nothing(braid_onnx_call *call) {
  (void)call;
  return BRAID_OK;
}

braid_status braid_onnx_adapt_quantized(braid_onnx_call *call, bool *known) {
  static const struct {
    const char *op;
    braid_status (*rewrite)(braid_onnx_call *call);
  } kOps[] = {
      {"DequantizeLinear", adapt_nothing},
      {"DynamicQuantizeLSTM", adapt_dynamic_lstm},
      {"DynamicQuantizeMatMul", adapt_dynamic_product},
      {"MatMulIntegerToFloat", adapt_integer_product},
      {"MatMulNBits", adapt_few_bits},
      {"QGemm", adapt_gemm},
      {"QLinearAdd", adapt_binary},
      {"QLinearAveragePool", adapt_average_pool},
      {"QLinearConcat", adapt_concat},
      {"QLinearGlobalAveragePool", adapt_unary},
      {"QLinearLeakyRelu", adapt_leaky_relu},
      {"QLinearMul", adapt_binary},
      {"QLinearReduceMean", adapt_reduce_mean},
      {"QLinearSigmoid", adapt_unary},
      {"QLinearSoftmax", adapt_softmax},
      {"QLinearWhere", adapt_where},
      {"QuantizeLinear", adapt_nothing},
  };
  *known = false;
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    if (strcmp(call->op, kOps[i].op) != 0) continue;
    *known = true;
    return kOps[i].rewrite(call);
  }
  return BRAID_OK;
}
