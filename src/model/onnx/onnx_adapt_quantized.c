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

/* Inputs: a and b with scales and zero points; c, in int32 with the scale a's times b's; the output's. */
static braid_status adapt_gemm(braid_onnx_call *call) {
  int64_t transposed = braid_onnx_call_int(call, "transB", 0);
  if (braid_onnx_call_int(call, "transA", 0) != 0 || braid_onnx_call_float(call, "alpha", 1) != 1)
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "transA, or an alpha other than 1");
  braid_value_id operands[2], scale, value, c = braid_onnx_call_input(call, 6);
  BRAID_TRY(real(call, 0, 1, &operands[0]));
  BRAID_TRY(real(call, 3, transposed ? 0 : 1, &operands[1]));
  BRAID_TRY(braid_onnx_call_node(call, "Gemm", operands, 2, "transB", transposed, &value));
  if (c >= 0) {
    braid_value_id scales[2] = {braid_onnx_call_input(call, 1), braid_onnx_call_input(call, 4)};
    BRAID_TRY(braid_onnx_call_node(call, "Mul", scales, 2, NULL, 0, &scale));
    BRAID_TRY(braid_onnx_call_node(call, "DequantizeLinear", (braid_value_id[]){c, scale}, 2, "axis", 0, &c));
    BRAID_TRY(braid_onnx_call_node(call, "Add", (braid_value_id[]){value, c}, 2, NULL, 0, &value));
  }
  return quantized(call, value, 7);
}

braid_status braid_onnx_adapt_quantized(braid_onnx_call *call, bool *known) {
  static const struct {
    const char *op;
    braid_status (*rewrite)(braid_onnx_call *call);
  } kOps[] = {
      {"QGemm", adapt_gemm},
      {"QLinearAdd", adapt_binary},
      {"QLinearAveragePool", adapt_average_pool},
      {"QLinearConcat", adapt_concat},
      {"QLinearGlobalAveragePool", adapt_unary},
      {"QLinearLeakyRelu", adapt_leaky_relu},
      {"QLinearMul", adapt_binary},
      {"QLinearSigmoid", adapt_unary},
      {"QLinearSoftmax", adapt_softmax},
      {"QLinearWhere", adapt_where},
  };
  *known = false;
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    if (strcmp(call->op, kOps[i].op) != 0) continue;
    *known = true;
    return kOps[i].rewrite(call);
  }
  return BRAID_OK;
}
