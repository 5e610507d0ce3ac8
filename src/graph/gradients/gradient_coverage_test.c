/* Every gradient of the ops table is held against finite differences: a case for each op here, more in the tests of its
 * family. An op that has one and no case fails. */
#include "gradcheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- one case for each gradient ------------------------------------------------------------------------------------
 * Inputs, parted by spaces: "2,3" random numbers of this shape to be differentiated by ("+2,3": positive ones, "~2,3":
 * of -1, 0 and 1), "s" one number, "i:1,2" ("n:": int32, "u:": uint8, "b:": bool) a list known before the run,
 * "i2x2:..." one of another shape,
 * "=2,3" random numbers that are not differentiated by, "-" left out. Attributes: "axis=1 pads=[1,1] mode=edge
 * alpha=0.5". */
typedef struct sample {
  const char *op, *inputs, *attrs;
  size_t outputs;
} sample;

static const sample kSamples[] = {
    {"Attention", "2,4,3,2 2,2,5,2 2,2,5,3", "is_causal=1", 1},
    {"Attention", "1,2,3,2 1,2,2,2 1,2,2,3 b3x6:1,1,0,1,0,1,0,0,0,0,0,0,1,0,1,1,1,0 1,2,4,2 1,2,4,3",
     "softcap=2. scale=0.7 qk_matmul_output_mode=1", 4},
    {"Attention", "2,3,4 2,4,4 2,4,6 3,4 - - i:4,3", "q_num_heads=2 kv_num_heads=2 left_window_size=1", 1},
    {"RotaryEmbedding", "2,3,2,4 5,2 5,2 i2x2:3,0,1,4", "interleaved=1", 1},
    {"RotaryEmbedding", "2,3,12 2,3,2 2,3,2", "num_heads=2 rotary_embedding_dim=4", 1},
    {"AffineGrid", "2,2,3 i:2,1,3,2", "align_corners=1", 1},
    {"AffineGrid", "1,3,4 i:1,1,2,3,2", "", 1},
    {"CausalConvWithState", "2,3,4 3,1,3 3 2,3,2", "activation=silu", 2},
    {"CausalConvWithState", "2,3,1 3,1,4", "", 2},
    {"CenterCropPad", "4,3 i:3,6", "", 1},
    {"CenterCropPad", "2,4,3 i:7", "axes=[-2]", 1},
    {"Einsum", "2,3 3,4", "equation=ij,jk", 1},
    {"Einsum", "2,3,4 2,4,5 5", "equation=bij,bjk,k->ib", 1},
    {"Einsum", "2,3,3 2,1", "equation=...ii,...b->b...i", 1},
    {"SwiGLU", "3,4 3,4", "alpha=1.5", 1},
    {"GridSample", "2,2,3,4 2,2,3,2", "", 1},
    {"GridSample", "1,2,3,4 1,2,2,2", "mode=cubic padding_mode=reflection", 1},
    {"GridSample", "1,2,3,4 1,2,2,2", "mode=cubic padding_mode=border align_corners=1", 1},
    {"GridSample", "1,1,2,3,2 1,2,2,1,3", "padding_mode=reflection align_corners=1", 1},
    {"TensorScatter", "2,5,3 2,2,3 i:4,1", "mode=circular", 1},
    {"DFT", "2,6,3,2 - i:1", "", 1},
    {"DFT", "2,5,1", "onesided=1", 1},
    {"DFT", "2,5,1 i:8", "onesided=1", 1},
    {"DFT", "2,5,2 i:3", "inverse=1", 1},
    {"DFT", "3,2,1 - i:0", "inverse=1", 1},
    {"DFT", "2,4,2", "inverse=1 onesided=1", 1},
    {"DFT", "4,2,2 i:5 i:-3", "inverse=1 onesided=1", 1},
    {"DFT", "1,37,1", "", 1},
    {"STFT", "2,9,1 i:2 4", "", 1},
    {"STFT", "1,7,2 i:3 - i:3", "onesided=0", 1},
    {"STFT", "2,8 i:1 5", "", 1},
    {"Col2Im", "2,12,9 i:5,4 i:2,3", "pads=[1,0,0,1] strides=[2,1] dilations=[1,1]", 1},
    {"DeformConv", "1,4,4,3 2,2,2,2 1,16,3,2 2 1,8,3,2", "group=2 offset_group=2", 1},
    {"DeformConv", "2,1,5 3,1,2 2,2,3", "strides=[2] pads=[1,0] dilations=[1]", 1},
    {"RoiAlign", "2,2,5,4 =3,4 i:1,0,1", "output_height=2 output_width=3 spatial_scale=1.5", 1},
    {"RoiAlign", "1,2,5,4 =+2,4 i:0,0", "mode=max output_width=2 sampling_ratio=2", 1},
    {"Det", "3,3", "", 1},
    {"Det", "2,1,4,4", "", 1},
    {"Det", "2,1,1", "", 1},
    {"Neg", "3,4", "", 1},
    {"Sign", "3,4", "", 0},
    {"Floor", "3,4", "", 0},
    {"Ceil", "3,4", "", 0},
    {"Round", "3,4", "", 0},
    {"Abs", "3,4", "", 1},
    {"Sqrt", "+3,4", "", 1},
    {"Exp", "3,4", "", 1},
    {"Log", "+3,4", "", 1},
    {"Erf", "3,4", "", 1},
    {"Reciprocal", "+3,4", "", 1},
    {"Sin", "3,4", "", 1},
    {"Cos", "3,4", "", 1},
    {"Tan", "3,4", "", 1},
    {"Asin", "3,4", "", 1},
    {"Acos", "3,4", "", 1},
    {"Atan", "3,4", "", 1},
    {"Sinh", "3,4", "", 1},
    {"Cosh", "3,4", "", 1},
    {"Asinh", "3,4", "", 1},
    {"Acosh", "+3,4", "", 1},
    {"Atanh", "3,4", "", 1},
    {"Relu", "3,4", "", 1},
    {"LeakyRelu", "3,4", "alpha=0.2", 1},
    {"Elu", "3,4", "alpha=0.7", 1},
    {"Selu", "3,4", "", 1},
    {"Celu", "3,4", "alpha=0.7", 1},
    {"Sigmoid", "3,4", "", 1},
    {"HardSigmoid", "3,4", "alpha=0.9", 1},
    {"HardSwish", "3,4", "", 1},
    {"Swish", "3,4", "alpha=1.5", 1},
    {"Mish", "3,4", "", 1},
    {"Tanh", "3,4", "", 1},
    {"Softplus", "3,4", "", 1},
    {"Softsign", "3,4", "", 1},
    {"Gelu", "3,4", "", 1},
    {"Gelu", "3,4", "approximate=tanh", 1},
    {"ThresholdedRelu", "3,4", "alpha=0.2", 1},
    {"Shrink", "3,4", "lambd=0.3 bias=0.1", 1},
    {"Clip", "3,4 s s", "", 1},
    {"Clip", "3,4 - +1", "", 1},
    {"Cast", "3,4", "to=11", 1},
    {"CastLike", "3,4 =1", "", 1},
    {"Add", "2,3,4 3,1", "", 1},
    {"Sub", "3,1 2,3,4", "", 1},
    {"Mul", "2,3,4 4", "", 1},
    {"Div", "2,3,4 +4", "", 1},
    {"Pow", "+3,4 4", "", 1},
    {"Mod", "+3,4 +4", "fmod=1", 1},
    {"PRelu", "2,3,4 3,1", "", 1},
    {"Sum", "3,4 4 3,1", "", 1},
    {"Mean", "3,4 4 3,1", "", 1},
    {"Max", "3,4 4 3,1", "", 1},
    {"Min", "3,4 4 3,1", "", 1},
    {"Where", "b2:1,0 3,2 2", "", 1},
    {"ReduceSum", "3,4,5 i:0,2", "", 1},
    {"ReduceMean", "3,4,5 i:-1", "keepdims=0", 1},
    {"ReduceMax", "3,4,5 i:0,2", "", 1},
    {"ReduceMin", "3,4,5 i:1", "keepdims=0", 1},
    {"ReduceProd", "3,4,2 i:1,2", "", 1},
    {"ReduceProd", "~6,3 i:1", "", 1},
    {"ReduceL1", "3,4,5 i:1", "", 1},
    {"ReduceL2", "3,4,5 i:1", "", 1},
    {"ReduceLogSum", "+3,4,5 i:1", "", 1},
    {"ReduceLogSumExp", "3,4,5 i:1", "", 1},
    {"ReduceSumSquare", "3,4,5 i:0,1", "", 1},
    {"TopK", "3,6 i:2", "axis=-1", 1},
    {"CumSum", "3,4 i:0", "reverse=1", 1},
    {"CumProd", "3,4 i:0", "", 1},
    {"CumProd", "3,4 i:1", "exclusive=1", 1},
    {"CumProd", "~5,6 i:1", "", 1},
    {"CumProd", "~5,6 i:0", "exclusive=1 reverse=1", 1},
    {"CumProd", "2,3,4 i:1", "reverse=1", 1},
    {"CumProd", "2,3,4 n:-1", "reverse=1 exclusive=1", 1},
    {"Reshape", "3,4 i:2,6", "", 1},
    {"Flatten", "2,3,4", "axis=2", 1},
    {"Squeeze", "2,1,3 i:1", "", 1},
    {"Unsqueeze", "2,3 i:1", "", 1},
    {"Identity", "2,3", "", 1},
    {"Transpose", "2,3,4", "perm=[2,0,1]", 1},
    {"Concat", "2,3 2,1", "axis=1", 1},
    {"Split", "2,7 i:3,4", "axis=1", 2},
    {"Split", "7,2 i:2,1,4", "axis=-2", 3},
    {"Slice", "5,6 i:4,1 i:0,6 i:0,1 i:-2,2", "", 1},
    {"Expand", "3,1 i:2,3,4", "", 1},
    {"Tile", "2,3,2 i:2,1,3", "", 1},
    {"Tile", "1,2,1,2,2 i:2,2,2,2,2", "", 1},
    {"Tile", "2,3 i:0,2", "", 1},
    {"Pad", "3,4 i:1,0,2,-1 s", "", 1},
    {"Pad", "3,4 i:2,1,1,2", "mode=reflect", 1},
    {"Pad", "3,4 i:2,1,1,2", "mode=edge", 1},
    {"Pad", "3,4 i:2,1,1,2", "mode=wrap", 1},
    {"Pad", "3,4 i:2,-1 1 i:-1", "", 1},
    {"DepthToSpace", "1,4,2,3", "blocksize=2", 1},
    {"SpaceToDepth", "1,2,4,2", "blocksize=2", 1},
    {"Gather", "4,3 i:2,0,-2", "", 1},
    {"GatherElements", "3,4 i2x2:0,3,-1,1", "axis=1", 1},
    {"GatherND", "3,4 i2x1:2,2", "", 1},
    {"ScatterElements", "3,4 i2x3:0,3,3,-1,1,0 2,3", "axis=1 reduction=mul", 1},
    {"ScatterElements", "3,4 i2x3:0,2,2,2,0,2 2,3", "reduction=max", 1},
    {"ScatterElements", "3,4 i2x3:0,2,2,2,0,2 2,3", "axis=-1 reduction=min", 1},
    {"ScatterElements", "3,4 i2x3:0,2,2,2,0,2 2,3", "axis=1 reduction=add", 1},
    {"ScatterElements", "3,4 i2x2:0,2,3,1 2,2", "axis=1", 1},
    {"ScatterND", "3,4 i3x1:2,0,2 3,4", "reduction=mul", 1},
    {"ScatterND", "~3,6 i4x1:2,0,2,2 ~4,6", "reduction=mul", 1},
    {"ScatterND", "3,4 i3x1:2,0,2 3,4", "reduction=max", 1},
    {"ScatterND", "3,4 i3x2:2,0,2,0,1,1 3", "reduction=min", 1},
    {"ScatterND", "3,4 i2x2:2,1,0,3 2", "", 1},
    {"Compress", "3,4 b:1,0,1", "axis=0", 1},
    {"ReverseSequence", "4,3,2 i:3,1,2", "", 1},
    {"Trilu", "3,4 i:1", "", 1},
    {"OneHot", "i2x2:0,2,-1,1 i:3 2", "axis=0", 1},
    {"Resize", "1,1,3,4 - - i:1,1,5,6", "mode=linear", 1},
    {"RNN", "3,2,2 1,3,2 1,3,3", "hidden_size=3", 2},
    {"GRU", "3,2,2 1,9,2 1,9,3 1,18", "hidden_size=3", 2},
    {"LSTM", "3,2,2 1,12,2 1,12,3 1,24 - - - 1,9", "hidden_size=3", 3},
    {"DequantizeLinear", "u2x3:1,9,3,4,200,7 s u:3", "", 1},
    {"DequantizeLinear", "u2x3:1,9,3,4,200,7 3 u:3,0,9", "axis=-1", 1},
    {"DequantizeLinear", "u2x3:1,9,3,4,200,7 2,2", "axis=1 block_size=2", 1},
    {"Conv", "1,2,5,4 4,1,3,2 4", "group=2 pads=[1,0,1,1] strides=[2,1]", 1},
    {"ConvTranspose", "1,2,3,3 2,2,3,2 4", "group=2 strides=[2,2] dilations=[2,1] output_padding=[1,1]", 1},
    {"MaxPool", "1,2,6,5", "kernel_shape=[3,2] dilations=[2,1] strides=[1,2] ceil_mode=1", 1},
    {"AveragePool", "1,2,6,5", "kernel_shape=[3,2] strides=[2,2] pads=[1,1,1,1] count_include_pad=1 ceil_mode=1", 1},
    {"LpPool", "+1,2,6,5", "kernel_shape=[3,2] p=3", 1},
    {"GlobalMaxPool", "2,3,4,5", "", 1},
    {"GlobalAveragePool", "2,3,4,5", "", 1},
    {"GlobalLpPool", "+2,3,4", "p=3", 1},
    {"MaxUnpool", "1,1,2,2 i1x1x2x2:1,3,10,12", "kernel_shape=[2,2] strides=[2,2]", 1},
    {"BatchNormalization", "3,2,4 2 2 =2 =+2", "training_mode=1", 1},
    {"BatchNormalization", "3,2,4 2 2 =2 =+2", "", 1},
    {"InstanceNormalization", "2,3,5 3 3", "", 1},
    {"GroupNormalization", "2,4,3 4 4", "num_groups=2", 1},
    {"LayerNormalization", "3,2,4 2,4 2,4", "axis=1", 1},
    {"RMSNormalization", "3,5 5", "", 1},
    {"LpNormalization", "3,5", "axis=1 p=2", 1},
    {"MeanVarianceNormalization", "2,3,2,2", "", 1},
    {"LRN", "2,5,2,3", "size=3 alpha=0.5 beta=0.75", 1},
    {"SoftmaxCrossEntropyLoss", "4,3 i:0,2,1,1 =+3", "ignore_index=2", 1},
    {"SoftmaxCrossEntropyLoss", "4,3 i:0,2,1,1", "", 2},
    {"CrossEntropyLoss", "4,3 i:0,2,1,1", "label_smoothing=0.2 reduction=none", 1},
    {"NegativeLogLikelihoodLoss", "4,3 i:0,2,1,1", "reduction=sum", 1},
    {"SquaredErrorLoss", "4,3 4,3", "", 1},
    {"Gemm", "3,4 5,4 5", "transB=1 alpha=0.5 beta=2.0", 1},
    {"MatMul", "2,3,4 4,5", "", 1},
    {"Softmax", "3,4,2", "axis=1", 1},
    {"LogSoftmax", "3,4,2", "axis=0", 1},
    {"Dropout", "3,4", "", 1},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- reading a case ------------------------------------------------------------------------------------------------
 */
static int read_dims(const char *text, const char **end, int64_t dims[BRAID_MAX_RANK]) {
  int rank = 0;
  for (char *stop; *text && *text != ' ' && *text != ':'; rank++, text = stop + (*stop == ',' || *stop == 'x')) {
    assert_true(rank < BRAID_MAX_RANK);
    dims[rank] = strtoll(text, &stop, 10);
    assert_ptr_not_equal(text, stop);
  }
  *end = text;
  return rank;
}

static braid_value_id add_known(gradcheck *g, const char *text) {
  enum { kMost = 24 };
  const char type = *text++;
  int64_t dims[BRAID_MAX_RANK], values[BRAID_MAX_RANK * 4];
  size_t count = 0;
  int rank = read_dims(text, &text, dims);
  assert_int_equal(*text++, ':');
  for (char *stop; *text && *text != ' '; text = stop + (*stop == ',')) {
    assert_true(count < kMost);
    values[count++] = strtoll(text, &stop, 10);
  }
  if (rank == 0) dims[rank++] = (int64_t)count;
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  braid_dtype dtype = type == 'b' ? BRAID_BOOL : type == 'u' ? BRAID_U8 : type == 'n' ? BRAID_I32 : BRAID_I64;
  gradcheck_ok(g, braid_desc_init(&desc, dtype, rank, dims));
  assert_int_equal(braid_desc_count(&desc), count);
  gradcheck_ok(g, braid_tensor_create(NULL, &desc, &tensor));
  for (size_t i = 0; i < count; i++) braid_tensor_set_f64(tensor, (int64_t)i, (double)values[i]);
  gradcheck_ok(g, braid_graph_add_tensor(g->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id add_input(gradcheck *g, const char *text) {
  int64_t dims[BRAID_MAX_RANK];
  if (*text == '-') return -1;
  if (strchr("inub", *text)) return add_known(g, text);
  bool constant = *text == '=';
  text += constant;
  bool positive = *text == '+', whole = *text == '~';
  text += positive || whole;
  int rank = *text == 's' ? 0 : read_dims(text, &text, dims);
  double low = positive ? 1.2 : whole ? -1.4 : -0.9, high = positive ? 2 : -low;
  braid_tensor *tensor = gradcheck_random(g, rank, dims, low, high);
  double *data = braid_tensor_data(tensor);
  for (int64_t i = 0; whole && i < braid_desc_count(braid_tensor_desc(tensor)); i++) data[i] = round(data[i]);
  return gradcheck_tensor(g, tensor, constant);
}

static void set_attr(gradcheck *g, braid_node_id node, const char *text) {
  char name[32];
  const char *equals = strchr(text, '=');
  size_t length = (size_t)(equals - text);
  assert_true(length < sizeof name);
  memcpy(name, text, length);
  name[length] = 0;
  const char *value = equals + 1, *end = value + strcspn(value, " ");
  if (*value == '[') {
    int64_t list[BRAID_MAX_RANK * 2];
    size_t count = 0;
    for (char *stop; *value != ']'; value = stop) list[count++] = strtoll(value + 1, &stop, 10);
    gradcheck_ok(g, braid_graph_set_ints(g->graph, node, name, list, count));
  } else if (strchr("-0123456789", *value)) {
    gradcheck_ok(g, memchr(value, '.', (size_t)(end - value))
                        ? braid_graph_set_float(g->graph, node, name, strtod(value, NULL))
                        : braid_graph_set_int(g->graph, node, name, strtoll(value, NULL, 10)));
  } else {
    char word[32] = {0};
    memcpy(word, value, (size_t)(end - value) < sizeof word ? (size_t)(end - value) : sizeof word - 1);
    gradcheck_ok(g, braid_graph_set_string(g->graph, node, name, word));
  }
}

/* --- the table -----------------------------------------------------------------------------------------------------
 */
enum { kMostOutputs = 5 };

/* The node with the outputs of the mask `present`, of which the loss depends on those of `used`. */
static void check_sample(const sample *s, size_t output_count, uint32_t present, uint32_t used) {
  gradcheck g;
  braid_value_id inputs[GRADCHECK_INPUTS], outputs[kMostOutputs], chosen[kMostOutputs];
  char what[160];
  size_t count = 0, wanted = 0;
  snprintf(what, sizeof what, "%s %s %s, outputs %x, used %x", s->op, s->inputs, s->attrs, present, used);
  gradcheck_begin(&g, what);
  for (const char *at = s->inputs; *at; at += strcspn(at, " "), at += *at == ' ') inputs[count++] = add_input(&g, at);
  for (size_t i = 0; i < output_count; i++) outputs[i] = present >> i & 1 ? 0 : -1;
  braid_node_id node = gradcheck_node(&g, s->op, inputs, count, outputs, output_count);
  for (const char *at = s->attrs; *at; at += strcspn(at, " "), at += *at == ' ') set_attr(&g, node, at);
  for (size_t i = 0; i < output_count; i++)
    if (used >> i & 1) chosen[wanted++] = outputs[i];
  gradcheck_end(&g, chosen, wanted, 1e-6);
}

/* Steps (outputs 0) have gradients that let nothing through: there is nothing to compare. */
static void finite_differences(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(kSamples); i++) {
    uint32_t all = (1u << kSamples[i].outputs) - 1;
    if (all) check_sample(&kSamples[i], kSamples[i].outputs, all, all);
  }
}

/* Of an op with several outputs the loss may depend on any of them. The others count as zeros: those that are there and
 * those that are left out. */
static void unused_outputs(void **state) {
  (void)state;
  size_t ops = 0;
  for (size_t i = 0; i < COUNT(kSamples); i++) {
    const sample *s = &kSamples[i];
    const braid_op *op = braid_op_find(s->op);
    size_t outputs = op->max_outputs < 0 ? s->outputs : (size_t)op->max_outputs;
    bool statistics = strcmp(s->op, "BatchNormalization") != 0 || strstr(s->attrs, "training_mode=1");
    bool function = op->flags & BRAID_OP_FUNCTION; /* whose outputs need not depend on every input */
    if (outputs < 2 || !s->outputs || !statistics || function) continue;
    assert_true(outputs <= kMostOutputs);
    uint32_t all = (1u << outputs) - 1, required = op->max_outputs < 0 ? 0 : (1u << op->min_outputs) - 1;
    for (uint32_t used = 1; used < 1u << s->outputs; used++) {
      check_sample(s, outputs, all, used);
      check_sample(s, outputs, used | required, used);
    }
    ops++;
  }
  print_message("%zu cases with several outputs\n", ops);
}

static bool has_sample(const char *op) {
  for (size_t i = 0; i < COUNT(kSamples); i++)
    if (strcmp(kSamples[i].op, op) == 0) return true;
  return false;
}

/* Functions have the gradients of their nodes, but for windows and weights of spectra, which are constants. */
static bool differentiates(const braid_op *op) {
  bool constant = strstr(op->name, "Window") || strcmp(op->name, "MelWeightMatrix") == 0;
  return op->gradient || (op->flags & BRAID_OP_FUNCTION && !constant);
}

static void whole_table(void **state) {
  (void)state;
  for (size_t i = 0; i < braid_op_count(); i++)
    if (differentiates(braid_op_at(i)) && !has_sample(braid_op_at(i)->name))
      fail_msg("%s's gradient is held against no finite difference: it needs a case here", braid_op_at(i)->name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_table), cmocka_unit_test(finite_differences),
                                     cmocka_unit_test(unused_outputs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
