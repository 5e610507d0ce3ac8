/* Every op of the table has a gradient, is itself part of a backward pass, or stands here with the reason why not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <string.h>

#include "graph/graph.h"

static const struct {
  const char *reason, *ops[16];
} kWithout[] = {
    {"truth values",
     {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}},
    {"bits and integers",
     {"BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "ConvInteger", "MatMulInteger"}},
    {"places, not amounts", {"ArgMax", "ArgMin", "Hardmax", "NonZero"}},
    {"depend on shapes alone",
     {"BlackmanWindow", "Constant", "ConstantOfShape", "EyeLike", "HammingWindow", "HannWindow", "Range", "Shape",
      "Size"}},
    {"rounding to few bits", {"DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"}},
    {"made by fusion, after gradients",
     {"AddRelu", "BatchNormalizationRelu", "FusedConv", "FusedGemm", "FusedMatMul", "FusedQLinearConv",
      "FusedQLinearMatMul", "IntegerMaxPoolGradRelu", "IntegerScaleErrorRelu", "QLinearActivation", "QLinearAdd",
      "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearMul"}},
    {"chosen before the run", {"If", "IfBranch"}},
    {"a recurrence, for inference alone", {"LinearAttention"}},
    {"boxes, not amounts", {"NonMaxSuppression"}},
    {"its shape follows from what is known before the run", {"Unique"}},
    {"training in integers has backward passes of its own",
     {"IntegerAdd", "IntegerAveragePool", "IntegerBatchNormalization", "IntegerConv", "IntegerConvGradFilter",
      "IntegerConvGradInput", "IntegerDigest", "IntegerErrorSum", "IntegerInput", "IntegerMaxPool", "IntegerMomentum",
      "IntegerQuantize", "IntegerRelu", "IntegerScaleError", "IntegerSquaredError", "IntegerUpdate"}},
    {"of several processes, after gradients",
     {"AllReduce", "IntegerBatchNormalizationGradSums", "IntegerBatchNormalizationSums", "IntegerMagnitude"}},
    {"optimizer steps",
     {"AdamUpdate", "GradientGuard", "LossScaleUpdate", "SgdUpdate", "ai.onnx.preview.training.Adagrad",
      "ai.onnx.preview.training.Adam", "ai.onnx.preview.training.Momentum"}},
};

static bool is_backward(const char *name) {
  static const char *const kOther[] = {"PowGradBase", "PowGradExponent", "ConvGradInput", "ConvGradFilter"};
  for (size_t i = 0; i < sizeof kOther / sizeof *kOther; i++)
    if (strcmp(name, kOther[i]) == 0) return true;
  size_t length = strlen(name);
  return length > 4 && strcmp(name + length - 4, "Grad") == 0;
}

static const char *reason_of(const char *name) {
  for (size_t i = 0; i < sizeof kWithout / sizeof *kWithout; i++)
    for (size_t k = 0; k < 16 && kWithout[i].ops[k]; k++)
      if (strcmp(kWithout[i].ops[k], name) == 0) return kWithout[i].reason;
  return NULL;
}

static void test_every_op(void **state) {
  (void)state;
  size_t with = 0;
  for (size_t i = 0; i < braid_op_count(); i++) {
    const braid_op *op = braid_op_at(i);
    const char *reason = reason_of(op->name);
    if (op->gradient && reason) fail_msg("%s has a gradient, and a reason for having none (%s)", op->name, reason);
    bool function = op->flags & BRAID_OP_FUNCTION; /* its nodes have gradients */
    if (!op->gradient && !function && !reason && !is_backward(op->name))
      fail_msg("%s has no gradient and no reason", op->name);
    with += op->gradient != NULL;
  }
  print_message("%zu of %zu ops have gradients\n", with, braid_op_count());
  for (size_t i = 0; i < sizeof kWithout / sizeof *kWithout; i++)
    for (size_t k = 0; k < 16 && kWithout[i].ops[k]; k++)
      if (!braid_op_find(kWithout[i].ops[k])) fail_msg("%s is no op any more", kWithout[i].ops[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_op)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
