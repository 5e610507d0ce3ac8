#include "model/onnx/onnx_opset.h"

#include <stdlib.h>
#include <string.h>

/* Ops that ONNX has, and the first opset from 17 on whose meaning is ours. Sorted by name. */
static const struct op_version {
  const char *op;
  int opset;
} kVersions[] = {
    {"Abs", 17},
    {"Acos", 17},
    {"Acosh", 17},
    {"Add", 17},
    {"AffineGrid", 20},
    {"And", 17},
    {"ArgMax", 17},
    {"ArgMin", 17},
    {"Asin", 17},
    {"Asinh", 17},
    {"Atan", 17},
    {"Atanh", 17},
    {"Attention", 23},
    {"AveragePool", 17},
    {"BatchNormalization", 17},
    {"Bernoulli", 17},
    {"BitCast", 26},
    {"BitShift", 17},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"BlackmanWindow", 17},
    {"Cast", 17},
    {"CastLike", 17},
    {"CausalConvWithState", 27},
    {"Ceil", 17},
    {"Celu", 17},
    {"CenterCropPad", 18},
    {"Clip", 17},
    {"Col2Im", 18},
    {"Compress", 17},
    {"Concat", 17},
    {"ConstantOfShape", 17},
    {"Conv", 17},
    {"ConvInteger", 17},
    {"ConvTranspose", 17},
    {"Cos", 17},
    {"Cosh", 17},
    {"CumProd", 26},
    {"CumSum", 17},
    {"DFT", 20},
    {"DeformConv", 19},
    {"DepthToSpace", 17},
    {"DequantizeLinear", 17},
    {"Det", 17},
    {"Div", 17},
    {"Dropout", 17},
    {"DynamicQuantizeLinear", 17},
    {"Einsum", 17},
    {"Elu", 17},
    {"Equal", 17},
    {"Erf", 17},
    {"Exp", 17},
    {"Expand", 17},
    {"EyeLike", 17},
    {"Flatten", 17},
    {"Floor", 17},
    {"GRU", 17},
    {"Gather", 17},
    {"GatherElements", 17},
    {"GatherND", 17},
    {"Gelu", 20},
    {"Gemm", 17},
    {"GlobalAveragePool", 17},
    {"GlobalLpPool", 17},
    {"GlobalMaxPool", 17},
    {"Greater", 17},
    {"GreaterOrEqual", 17},
    {"GridSample", 20},
    {"GroupNormalization", 21},
    {"HammingWindow", 17},
    {"HannWindow", 17},
    {"HardSigmoid", 17},
    {"HardSwish", 17},
    {"Hardmax", 17},
    {"Identity", 17},
    {"If", 17},
    {"InstanceNormalization", 17},
    {"IsInf", 17},
    {"IsNaN", 17},
    {"LRN", 17},
    {"LSTM", 17},
    {"LayerNormalization", 17},
    {"LeakyRelu", 17},
    {"Less", 17},
    {"LessOrEqual", 17},
    {"LinearAttention", 27},
    {"Log", 17},
    {"LogSoftmax", 17},
    {"LpNormalization", 17},
    {"LpPool", 17},
    {"MatMul", 17},
    {"MatMulInteger", 17},
    {"Max", 17},
    {"MaxPool", 17},
    {"MaxRoiPool", 17},
    {"MaxUnpool", 17},
    {"Mean", 17},
    {"MeanVarianceNormalization", 17},
    {"MelWeightMatrix", 17},
    {"Min", 17},
    {"Mish", 18},
    {"Mod", 17},
    {"Mul", 17},
    {"Multinomial", 17},
    {"Neg", 17},
    {"NegativeLogLikelihoodLoss", 17},
    {"NonMaxSuppression", 17},
    {"NonZero", 17},
    {"Not", 17},
    {"OneHot", 17},
    {"Or", 17},
    {"PRelu", 17},
    {"Pad", 17},
    {"Pow", 17},
    {"QLinearConv", 17},
    {"QLinearMatMul", 17},
    {"QuantizeLinear", 17},
    {"RMSNormalization", 23},
    {"RNN", 17},
    {"RandomNormal", 17},
    {"RandomNormalLike", 17},
    {"RandomUniform", 17},
    {"RandomUniformLike", 17},
    {"Range", 17},
    {"Reciprocal", 17},
    {"ReduceL1", 17},
    {"ReduceL2", 17},
    {"ReduceLogSum", 17},
    {"ReduceLogSumExp", 17},
    {"ReduceMax", 17},
    {"ReduceMean", 17},
    {"ReduceMin", 17},
    {"ReduceProd", 17},
    {"ReduceSum", 17},
    {"ReduceSumSquare", 17},
    {"Relu", 17},
    {"Reshape", 17},
    {"Resize", 17},
    {"ReverseSequence", 17},
    {"RoiAlign", 17},
    {"RotaryEmbedding", 23},
    {"Round", 17},
    {"STFT", 17},
    {"ScatterElements", 17},
    {"ScatterND", 17},
    {"Selu", 17},
    {"Shape", 17},
    {"Shrink", 17},
    {"Sigmoid", 17},
    {"Sign", 17},
    {"Sin", 17},
    {"Sinh", 17},
    {"Size", 17},
    {"Slice", 17},
    {"Softmax", 17},
    {"SoftmaxCrossEntropyLoss", 17},
    {"Softplus", 17},
    {"Softsign", 17},
    {"SpaceToDepth", 17},
    {"Split", 17},
    {"Sqrt", 17},
    {"Squeeze", 17},
    {"Sub", 17},
    {"Sum", 17},
    {"SwiGLU", 28},
    {"Swish", 24},
    {"Tan", 17},
    {"Tanh", 17},
    {"TensorScatter", 24},
    {"ThresholdedRelu", 17},
    {"Tile", 17},
    {"TopK", 17},
    {"Transpose", 17},
    {"Trilu", 17},
    {"Unique", 17},
    {"Unsqueeze", 17},
    {"Where", 17},
    {"Xor", 17},
};

/* Forms of an op that came later: an attribute, a value of it, or more inputs than `inputs`. */
static const struct form_version {
  const char *op, *attr, *value;
  size_t inputs;
  int opset;
} kForms[] = {
    {"Attention", "left_window_size", NULL, 0, 25},
    {"Attention", "right_window_size", NULL, 0, 25},
    {"Attention", NULL, NULL, 6, 24},
    {"AveragePool", "dilations", NULL, 0, 19},
    {"Cast", "round_mode", NULL, 0, 24},
    {"Cast", "saturate", NULL, 0, 19},
    {"CastLike", "round_mode", NULL, 0, 24},
    {"CastLike", "saturate", NULL, 0, 19},
    {"DequantizeLinear", "block_size", NULL, 0, 21},
    {"DequantizeLinear", "output_dtype", NULL, 0, 23},
    {"LpPool", "ceil_mode", NULL, 0, 18},
    {"LpPool", "dilations", NULL, 0, 18},
    {"Pad", "mode", "wrap", 0, 19},
    {"Pad", NULL, NULL, 3, 18},
    {"QuantizeLinear", "block_size", NULL, 0, 21},
    {"QuantizeLinear", "output_dtype", NULL, 0, 21},
    {"QuantizeLinear", "precision", NULL, 0, 23},
    {"QuantizeLinear", "saturate", NULL, 0, 19},
    {"Range", "stash_type", NULL, 0, 27},
    {"ReduceL1", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceL1", NULL, NULL, 1, 18},
    {"ReduceL2", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceL2", NULL, NULL, 1, 18},
    {"ReduceLogSum", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceLogSum", NULL, NULL, 1, 18},
    {"ReduceLogSumExp", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceLogSumExp", NULL, NULL, 1, 18},
    {"ReduceMax", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceMax", NULL, NULL, 1, 18},
    {"ReduceMean", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceMean", NULL, NULL, 1, 18},
    {"ReduceMin", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceMin", NULL, NULL, 1, 18},
    {"ReduceProd", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceProd", NULL, NULL, 1, 18},
    {"ReduceSumSquare", "noop_with_empty_axes", NULL, 0, 18},
    {"ReduceSumSquare", NULL, NULL, 1, 18},
    {"Resize", "antialias", NULL, 0, 18},
    {"Resize", "axes", NULL, 0, 18},
    {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 0, 19},
    {"Resize", "keep_aspect_ratio_policy", NULL, 0, 18},
    {"ScatterElements", "reduction", "max", 0, 18},
    {"ScatterElements", "reduction", "min", 0, 18},
    {"ScatterND", "reduction", "max", 0, 18},
    {"ScatterND", "reduction", "min", 0, 18},
    {"SpaceToDepth", "mode", NULL, 0, 28},
    {"Split", "num_outputs", NULL, 0, 18},
};

#define T(dtype) (UINT32_C(1) << BRAID_##dtype)
enum { kAnywhere = -1, kFloat8 = T(F8E4M3FN) | T(F8E4M3FNUZ) | T(F8E5M2) | T(F8E5M2FNUZ) };

/* Types that an op takes or gives only since a later opset; `input` kAnywhere: as any of its operands, of which none
 * was of that type before. `op` NULL: that all ops do. */
static const struct type_version {
  const char *op;
  int input;
  uint32_t types;
  int opset;
} kTypes[] = {
    {NULL, kAnywhere, kFloat8, 19},
    {NULL, kAnywhere, T(U4) | T(I4), 21},
    {NULL, kAnywhere, T(F4E2M1), 23},
    {NULL, kAnywhere, T(F8E8M0), 24},
    {NULL, kAnywhere, T(U2) | T(I2), 25},
    {"Acos", kAnywhere, T(BF16), 22},
    {"Acosh", kAnywhere, T(BF16), 22},
    {"Asin", kAnywhere, T(BF16), 22},
    {"Asinh", kAnywhere, T(BF16), 22},
    {"Atan", kAnywhere, T(BF16), 22},
    {"Atanh", kAnywhere, T(BF16), 22},
    {"AveragePool", kAnywhere, T(BF16), 22},
    {"Bernoulli", 0, T(BF16), 22},
    {"BitShift", kAnywhere, T(I8) | T(I16) | T(I32) | T(I64), 28},
    {"Celu", kAnywhere, T(F16) | T(BF16) | T(F64), 28},
    {"Compress", kAnywhere, T(BF16), 28},
    {"ConstantOfShape", kAnywhere, T(BF16) | kFloat8, 20},
    {"Conv", kAnywhere, T(BF16), 22},
    {"ConvTranspose", kAnywhere, T(BF16), 22},
    {"Cos", kAnywhere, T(BF16), 22},
    {"Cosh", kAnywhere, T(BF16), 22},
    {"DeformConv", kAnywhere, T(BF16), 22},
    {"DequantizeLinear", kAnywhere, T(F16) | T(BF16), 19},
    {"DequantizeLinear", kAnywhere, T(I16) | T(U16), 21},
    {"Det", kAnywhere, T(BF16), 22},
    {"Dropout", 1, T(BF16), 22},
    {"Einsum", kAnywhere, T(BF16), 28},
    {"Elu", kAnywhere, T(BF16), 22},
    {"EyeLike", kAnywhere, T(BF16), 22},
    {"Flatten", kAnywhere, kFloat8, 21},
    {"GRU", kAnywhere, T(BF16), 22},
    {"GlobalAveragePool", kAnywhere, T(BF16), 22},
    {"GlobalLpPool", kAnywhere, T(BF16), 22},
    {"GlobalMaxPool", kAnywhere, T(BF16), 22},
    {"GridSample", kAnywhere, T(BF16), 22},
    {"HardSigmoid", kAnywhere, T(BF16), 22},
    {"HardSwish", kAnywhere, T(BF16), 22},
    {"InstanceNormalization", kAnywhere, T(BF16), 22},
    {"IsInf", kAnywhere, T(F16) | T(BF16), 20},
    {"LSTM", kAnywhere, T(BF16), 22},
    {"LpNormalization", kAnywhere, T(BF16), 22},
    {"LpPool", kAnywhere, T(BF16), 22},
    {"MaxPool", kAnywhere, T(BF16), 22},
    {"MaxRoiPool", kAnywhere, T(BF16), 22},
    {"MaxUnpool", kAnywhere, T(BF16), 22},
    {"Mish", kAnywhere, T(BF16), 22},
    {"Mod", kAnywhere, T(F32) | T(F64) | T(F16) | T(BF16), 28},
    {"Multinomial", kAnywhere, T(BF16), 22},
    {"NegativeLogLikelihoodLoss", kAnywhere, T(BF16), 22},
    {"OneHot", kAnywhere, T(BF16), 28},
    {"Pad", kAnywhere, kFloat8, 21},
    {"QLinearMatMul", kAnywhere, T(F16) | T(BF16), 21},
    {"QuantizeLinear", kAnywhere, T(F16) | T(BF16), 19},
    {"QuantizeLinear", kAnywhere, T(I16) | T(U16), 21},
    {"QuantizeLinear", 1, T(I32), 19},
    {"RNN", kAnywhere, T(BF16), 22},
    {"RandomNormal", kAnywhere, T(BF16), 22},
    {"RandomNormalLike", kAnywhere, T(BF16), 22},
    {"RandomUniform", kAnywhere, T(BF16), 22},
    {"RandomUniformLike", kAnywhere, T(BF16), 22},
    {"Range", kAnywhere, T(F16) | T(BF16), 27},
    {"ReduceMax", kAnywhere, T(BOOL), 20},
    {"ReduceMin", kAnywhere, T(BOOL), 20},
    {"ReverseSequence", kAnywhere, T(BF16), 28},
    {"RoiAlign", kAnywhere, T(BF16), 22},
    {"Round", kAnywhere, T(BF16), 22},
    {"Selu", kAnywhere, T(BF16), 22},
    {"Sin", kAnywhere, T(BF16), 22},
    {"Sinh", kAnywhere, T(BF16), 22},
    {"Softplus", kAnywhere, T(BF16), 22},
    {"Softsign", kAnywhere, T(BF16), 22},
    {"Squeeze", kAnywhere, kFloat8, 21},
    {"Tan", kAnywhere, T(BF16), 22},
    {"ThresholdedRelu", kAnywhere, T(BF16), 22},
    {"TopK", kAnywhere, T(BF16), 24},
    {"Transpose", kAnywhere, kFloat8, 21},
    {"Unique", kAnywhere, T(BF16), 28},
    {"Unsqueeze", kAnywhere, kFloat8, 21},
};
#undef T

static int compare_version(const void *key, const void *row) {
  return strcmp(key, ((const struct op_version *)row)->op);
}

static bool has_form(const braid_node *node, const struct form_version *form) {
  if (!form->attr) return node->input_count > form->inputs;
  if (!form->value) return braid_attr_has(&node->attrs, form->attr);
  return strcmp(braid_attr_string(&node->attrs, form->attr, ""), form->value) == 0;
}

static bool is_of(const braid_graph *graph, braid_value_id id, uint32_t types) {
  return id >= 0 && (types >> graph->values[id].desc.dtype & 1);
}

static bool has_type(const braid_graph *graph, const braid_node *node, const struct type_version *type) {
  if (braid_attr_int(&node->attrs, "fmod", 0)) return false; /* this remainder was always taken of all types */
  for (size_t i = 0; i < node->input_count; i++)
    if ((type->input == kAnywhere || (size_t)type->input == i) && is_of(graph, node->inputs[i], type->types))
      return true;
  for (size_t i = 0; i < node->output_count && type->input == kAnywhere; i++)
    if (is_of(graph, node->outputs[i], type->types)) return true;
  return false;
}

int braid_onnx_opset_of(const braid_graph *graph, const braid_node *node) {
  const char *op = node->op->name;
  const struct op_version *version =
      bsearch(op, kVersions, sizeof kVersions / sizeof *kVersions, sizeof *kVersions, compare_version);
  if (!version) return 0;
  int opset = version->opset;
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++)
    if (kForms[i].opset > opset && strcmp(kForms[i].op, op) == 0 && has_form(node, &kForms[i])) opset = kForms[i].opset;
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; i++)
    if (kTypes[i].opset > opset && (!kTypes[i].op || strcmp(kTypes[i].op, op) == 0) &&
        has_type(graph, node, &kTypes[i]))
      opset = kTypes[i].opset;
  return opset;
}

/* ONNX's VERSIONING table. */
int braid_onnx_ir_version(int opset) {
  static const int kOpsets[] = {18, 20, 22, 23, 24, 27}; /* last opset of IR 8, 9, 10, 11, 12, 13 */
  int ir = 8;
  for (size_t i = 0; i < sizeof kOpsets / sizeof *kOpsets; i++)
    if (opset > kOpsets[i]) ir++;
  return ir;
}
