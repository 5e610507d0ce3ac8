/* Which attributes the ops of a graph have beside ONNX's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "graph/custom.h"
#include "graph/known_attrs.h"

enum { kNamesBytes = 512, kMostLists = 3 };

/* `like`: an op whose attributes it has too (its own name: what ONNX gives it). An op that is not listed has ONNX's;
 * "<Op>Grad" those of Op, which braid_gradient_copy_attrs gives it. Sorted by op. */
static const struct own_attrs {
  const char *op, *like, *attrs;
} kOwn[] = {
    {"AdamUpdate", NULL, "beta1 beta2 decoupled epsilon weight_decay"},
    {"AddRelu", NULL, ""},
    {"AddReluGrad", NULL, ""},
    {"AllReduce", NULL, "reduction"},
    {"AveragePoolGrad", "AveragePool", "input_shape"},
    {"BatchNormalizationRelu", "BatchNormalization", ""},
    {"BatchNormalizationReluGrad", "BatchNormalization", ""},
    {"BiasGrad", NULL, ""},
    {"Constant", NULL, "value"}, /* the importer makes one of the others */
    {"ConvGradFilter", "Conv", ""},
    {"ConvGradInput", "Conv", "input_shape"},
    {"CrossEntropyLoss", "SoftmaxCrossEntropyLoss", ""},
    {"Dropout", "Dropout", "first stream"},
    {"DropoutGrad", NULL, "scale"},
    {"FusedConv", "Conv", "activation activation_params"},
    {"FusedGemm", "Gemm", "activation activation_params"},
    {"FusedMatMul", NULL, "activation activation_params alpha transA transB"},
    {"FusedQLinearConv", "Conv", "activation activation_params"},
    {"FusedQLinearMatMul", "Gemm", "activation activation_params"},
    {"GatherGrad", "Gather", "input_shape"},
    {"GlobalAveragePoolGrad", NULL, "input_shape"},
    {"GradientGuard", NULL, ""},
    {"If", NULL, ""},
    {"IfBranch", NULL, "branch"},
    {"IntegerAdd", NULL, "bits relu"},
    {"IntegerAveragePool", "AveragePool", ""},
    {"IntegerAveragePoolGrad", "AveragePool", "input_shape"},
    {"IntegerBatchNormalization", NULL, "batch bits parameter_bits relu training"},
    {"IntegerBatchNormalizationGrad", NULL, "batch bits parameter_bits"},
    {"IntegerBatchNormalizationGradSums", NULL, ""},
    {"IntegerBatchNormalizationSums", NULL, ""},
    {"IntegerConv", "Conv", "bits relu shift"},
    {"IntegerConvGradFilter", "Conv", ""},
    {"IntegerConvGradInput", "Conv", "input_shape"},
    {"IntegerDigest", NULL, "first"},
    {"IntegerErrorSum", NULL, ""},
    {"IntegerInput", NULL, "bits shift"},
    {"IntegerMagnitude", NULL, ""},
    {"IntegerMaxPool", "MaxPool", ""},
    {"IntegerMaxPoolGrad", "MaxPool", "input_shape"},
    {"IntegerMaxPoolGradRelu", "MaxPool", "bits input_shape"},
    {"IntegerMomentum", NULL, "bits decay place seed stream"},
    {"IntegerQuantize", NULL, "bits shift"},
    {"IntegerRelu", NULL, ""},
    {"IntegerReluGrad", NULL, "bits"},
    {"IntegerScaleError", NULL, "bits first offset seed stream"},
    {"IntegerScaleErrorRelu", NULL, "bits first offset relu_bits seed stream"},
    {"IntegerSquaredError", NULL, "bits hinge"},
    {"IntegerUpdate", NULL, "bits seed slower stream"},
    {"LossScaleUpdate", NULL, "interval"},
    {"MatMul", NULL, "alpha transA transB"},
    {"MaxPoolGrad", "MaxPool", "input_shape"},
    {"PowGradBase", NULL, ""},
    {"PowGradExponent", NULL, ""},
    {"QLinearActivation", NULL, "activation activation_params"},
    {"QLinearAdd", NULL, "activation activation_params"},
    {"QLinearAveragePool", "AveragePool", ""},
    {"QLinearConcat", "Concat", ""},
    {"QLinearGlobalAveragePool", NULL, ""},
    {"QLinearMul", NULL, "activation activation_params"},
    {"ResizeGrad", "Resize", "input_shape"},
    {"SgdUpdate", NULL, "momentum nesterov weight_decay"},
    {"SliceGrad", NULL, "input_shape"},
    {"SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", "label_smoothing"},
    {"SquaredErrorLoss", NULL, "reduction"},
    {"TopKGrad", NULL, "axis size"},
    {"ai.onnx.preview.training.Adagrad", NULL, "decay_factor epsilon norm_coefficient"},
    {"ai.onnx.preview.training.Adam", NULL, "alpha beta epsilon norm_coefficient norm_coefficient_post"},
    {"ai.onnx.preview.training.Momentum", NULL, "alpha beta mode norm_coefficient"},
};

static int compare_op(const void *key, const void *row) {
  return strcmp(key, ((const struct own_attrs *)row)->op);
}

static const struct own_attrs *find_own(const char *op) {
  return bsearch(op, kOwn, sizeof kOwn / sizeof *kOwn, sizeof *kOwn, compare_op);
}

/* The lists of the names that the op has, up to kMostLists. 0: nothing says which it has. */
static size_t op_lists(const char *op, const char **lists) {
  char forward[64];
  const struct own_attrs *own = find_own(op);
  size_t count = 0, length = strlen(op);
  if (own) lists[count++] = own->attrs;
  if (own && !own->like) return count;
  if (own && strcmp(own->like, op) != 0) return count + op_lists(own->like, lists + count);
  lists[count] = braid_known_attrs(op, INT64_MAX);
  if (lists[count]) return count + 1;
  if (length <= 4 || length >= sizeof forward || strcmp(op + length - 4, "Grad") != 0) return 0;
  (void)snprintf(forward, sizeof forward, "%.*s", (int)length - 4, op);
  return op_lists(forward, lists);
}

bool braid_op_attrs(const char *op, char *names, size_t bytes) {
  const char *lists[kMostLists];
  size_t count = op_lists(op, lists), used = 0;
  names[0] = 0;
  for (size_t i = 0; i < count && used < bytes; i++)
    if (*lists[i]) used += (size_t)snprintf(names + used, bytes - used, "%s%s", used ? " " : "", lists[i]);
  return count > 0;
}

static braid_status refuse_name(const braid_node *node, const char *name) {
  char names[kNamesBytes], nearest[128];
  (void)braid_op_attrs(node->op->name, names, sizeof names);
  return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%.60s): has no attribute %.60s%s%s%s", node->name,
                    node->op->name, name, braid_known_attrs_nearest(names, name, nearest, sizeof nearest),
                    names[0] ? "; there are " : "; there are none", names);
}

braid_status braid_node_check_attr(const braid_node *node, const braid_attr *attr) {
  const char *lists[kMostLists], *given, *expected;
  if (braid_custom_op_of(node->op)) return BRAID_OK;
  size_t count = op_lists(node->op->name, lists);
  bool found = false;
  for (size_t i = 0; i < count; i++) found |= braid_known_attrs_list(lists[i], attr->name);
  BRAID_ASSERT(count);
  if (!found) return refuse_name(node, attr->name);
  if (!braid_known_attr_differs(attr, true, &given, &expected)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%.60s): attribute %.60s is %s, expected %s", node->name,
                    node->op->name, attr->name, given, expected);
}
