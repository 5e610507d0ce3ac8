/* Normalizations, softmax and its losses. A batch normalization over NHWC is one over the rows of a matrix, so that no
 * layout is needed. */
#include <string.h>

#include "plugin.h"

#define REAL "T=float,double,half,bfloat16"
#define BATCH_NORM "epsilon:float exponential_avg_factor:float data_format:string is_training:bool"

/* --- batch normalization -------------------------------------------------------------------------------------------
 */
typedef struct batch_shape {
  bool first;
  int rank;
  int64_t dims[3]; /* rows, channels; or batch, channels, pixels */
  int64_t count;   /* of each channel */
} batch_shape;

static batch_shape batch_shape_of(const fpga_build *b, size_t input) {
  const braid_desc *x = &b->inputs[input].desc;
  batch_shape s = {
      .first = strncmp(fpga_attr_string(b->attrs, "data_format", "NHWC"), "NC", 2) == 0, .rank = 2, .dims = {1, 1, 1}};
  int channel = s.first ? 1 : x->rank - 1;
  for (int i = 0; i < x->rank; i++) s.dims[i < channel ? 0 : i == channel ? 1 : 2] *= x->dims[i];
  if (s.first) s.rank = 3;
  s.count = s.dims[0] * s.dims[2];
  return s;
}

static braid_value_id batch_in(fpga_build *b, size_t input, const batch_shape *s) {
  return fpga_in_as(b, input, s->rank, s->dims, NULL);
}

static void batch_out(fpga_build *b, size_t output, braid_value_id value) {
  const braid_desc *x = &b->inputs[0].desc;
  fpga_out_as(b, output, value, x->rank, x->dims, NULL);
}

/* The outputs are y, the mean and variance to remember, and two that the gradient reads: in training the batch's mean
 * and variance, as TensorFlow's kernels for CPUs have it, so that the gradient may run there; else what was given.
 * The variance to remember is the unbiased one. */
static void build_batch_norm(fpga_build *b) {
  batch_shape s = batch_shape_of(b, 0);
  float epsilon = fpga_attr_float(b->attrs, "epsilon", 1e-4f);
  float factor = fpga_attr_float(b->attrs, "exponential_avg_factor", 1.0f);
  braid_value_id x = batch_in(b, 0, &s), scale = fpga_in(b, 1), shift = fpga_in(b, 2);
  if (!fpga_attr_int(b->attrs, "is_training", 1)) {
    braid_value_id mean = fpga_in(b, 3), variance = fpga_in(b, 4);
    braid_value_id y = FPGA_NODE(b, "BatchNormalization", x, scale, shift, mean, variance);
    fpga_set_float(b, "epsilon", (double)epsilon);
    batch_out(b, 0, y);
    for (size_t i = 0; i < 4; i++)
      fpga_out_shared(b, 1 + i, 3 + i % 2, b->inputs[3 + i % 2].desc.rank, b->inputs[3 + i % 2].desc.dims);
    if (b->output_count > 5) fpga_out(b, 5, fpga_scalar(b, BRAID_F32, 0));
    return;
  }
  braid_dtype kept = BRAID_F32;
  braid_value_id zeros = FPGA_NODE(b, "Expand", fpga_scalar(b, kept, 0), fpga_ints(b, &s.dims[1], 1));
  braid_value_id operands[] = {x, scale, shift, zeros, zeros}, outputs[3] = {0, 0, 0};
  fpga_nodes(b, "BatchNormalization", 5, operands, 3, outputs);
  fpga_set_float(b, "epsilon", (double)epsilon);
  fpga_set_float(b, "momentum", 0);
  fpga_set_int(b, "training_mode", 1);
  batch_out(b, 0, outputs[0]);
  double unbiased = s.count > 1 ? (double)s.count / (double)(s.count - 1) : 1;
  braid_value_id mean = outputs[1], variance = FPGA_NODE(b, "Mul", outputs[2], fpga_scalar(b, kept, unbiased));
  if (factor != 1.0f) { /* beside what was remembered */
    braid_value_id now = fpga_scalar(b, kept, (double)factor), before = fpga_scalar(b, kept, 1 - (double)factor);
    mean = FPGA_NODE(b, "Add", FPGA_NODE(b, "Mul", mean, now), FPGA_NODE(b, "Mul", fpga_in(b, 3), before));
    variance = FPGA_NODE(b, "Add", FPGA_NODE(b, "Mul", variance, now), FPGA_NODE(b, "Mul", fpga_in(b, 4), before));
  }
  fpga_out(b, 1, mean);
  fpga_out(b, 2, variance);
  fpga_out(b, 3, outputs[1]);
  fpga_out(b, 4, outputs[2]);
  if (b->output_count > 5) fpga_out(b, 5, fpga_scalar(b, BRAID_F32, 0));
}

/* (dy, x, scale, the two outputs, a third one) -> dx, dscale, dshift, and two that are empty. */
static void build_batch_norm_grad(fpga_build *b) {
  batch_shape s = batch_shape_of(b, 0);
  bool training = fpga_attr_int(b->attrs, "is_training", 1) != 0;
  double epsilon = (double)fpga_attr_float(b->attrs, "epsilon", 1e-4f);
  braid_value_id spread = fpga_in(b, 4);
  if (training) {
    spread = FPGA_NODE(b, "Add", spread, fpga_scalar(b, BRAID_F32, epsilon));
    spread = FPGA_NODE(b, "Reciprocal", FPGA_NODE(b, "Sqrt", spread));
  }
  braid_value_id operands[5] = {batch_in(b, 0, &s), batch_in(b, 1, &s), fpga_in(b, 2), fpga_in(b, 3), spread};
  braid_value_id outputs[3] = {0, 0, 0};
  static const int64_t kNone[] = {0};
  fpga_nodes(b, "BatchNormalizationGrad", 5, operands, 3, outputs);
  fpga_set_float(b, "epsilon", epsilon);
  fpga_set_int(b, "training_mode", training);
  batch_out(b, 0, outputs[0]);
  fpga_out(b, 1, outputs[1]);
  fpga_out(b, 2, outputs[2]);
  for (size_t i = 3; i < 5; i++) {
    braid_value_id empty = FPGA_NODE(b, "Expand", fpga_scalar(b, BRAID_F32, 0), fpga_ints(b, kNone, 1));
    fpga_out(b, i, empty);
  }
}

/* --- softmax -------------------------------------------------------------------------------------------------------
 */
static void build_softmax(fpga_build *b) {
  braid_value_id y = FPGA_NODE(b, "Softmax", fpga_in(b, 0));
  fpga_set_int(b, "axis", -1);
  fpga_out(b, 0, y);
}

static void build_log_softmax(fpga_build *b) {
  braid_value_id y = FPGA_NODE(b, "LogSoftmax", fpga_in(b, 0));
  fpga_set_int(b, "axis", -1);
  fpga_out(b, 0, y);
}

/* The loss of each sample, and its gradient: softmax less the one that is the label's. */
static void build_sparse_cross_entropy(fpga_build *b) {
  braid_value_id scores = fpga_in(b, 0), labels = fpga_in(b, 1), outputs[2] = {0, -1};
  const braid_desc *x = &b->inputs[0].desc;
  braid_dtype dtype = x->dtype;
  fpga_nodes(b, "SoftmaxCrossEntropyLoss", 2, (braid_value_id[]){scores, labels}, 1, outputs);
  fpga_set_string(b, "reduction", "none");
  braid_value_id one = FPGA_NODE(b, "Expand", fpga_scalar(b, dtype, 1), fpga_ints(b, x->dims, 1));
  braid_value_id gradient = FPGA_NODE(b, "SoftmaxCrossEntropyLossGrad", one, scores, labels);
  fpga_set_string(b, "reduction", "none");
  fpga_out(b, 0, outputs[0]);
  fpga_out(b, 1, gradient);
}

/* Labels are distributions: loss = sum(labels * -log softmax), gradient = softmax * sum(labels) - labels, where
 * TensorFlow takes the sum for 1. One of the two may have one row for all. */
static void build_cross_entropy(fpga_build *b) {
  braid_value_id scores = fpga_in(b, 0), labels = fpga_in(b, 1);
  static const int64_t kAxis[] = {1};
  braid_value_id logs = FPGA_NODE(b, "LogSoftmax", scores);
  fpga_set_int(b, "axis", 1);
  braid_value_id sum = FPGA_NODE(b, "ReduceSum", FPGA_NODE(b, "Mul", logs, labels), fpga_ints(b, kAxis, 1));
  fpga_set_int(b, "keepdims", 0);
  fpga_out(b, 0, FPGA_NODE(b, "Neg", sum));
  fpga_out(b, 1, FPGA_NODE(b, "Sub", FPGA_NODE(b, "Exp", logs), labels));
}

/* --- local response normalization ----------------------------------------------------------------------------------
 * TensorFlow sums alpha * x^2 over 2 * radius + 1 channels; ours has alpha / size in its formula. */
static void set_lrn(fpga_build *b) {
  int64_t size = 2 * fpga_attr_int(b->attrs, "depth_radius", 5) + 1;
  fpga_set_int(b, "size", size);
  fpga_set_float(b, "alpha", (double)fpga_attr_float(b->attrs, "alpha", 1) * (double)size);
  fpga_set_float(b, "beta", (double)fpga_attr_float(b->attrs, "beta", 0.5f));
  fpga_set_float(b, "bias", (double)fpga_attr_float(b->attrs, "bias", 1));
}

static braid_value_id lrn_in(fpga_build *b, size_t index) {
  const int64_t *dims = b->inputs[index].desc.dims;
  return fpga_in_as(b, index, 4, (const int64_t[]){dims[0], dims[3], dims[1], dims[2]}, "BHWC");
}

static bool check_lrn(fpga_build *b, size_t inputs) {
  for (size_t i = 0; i < inputs; i++)
    if (b->inputs[i].desc.rank != 4) fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu must have 4 dimensions", i);
  return b->status == BRAID_OK;
}

static void build_lrn(fpga_build *b) {
  if (!check_lrn(b, 1)) return;
  braid_value_id y = FPGA_NODE(b, "LRN", lrn_in(b, 0));
  set_lrn(b);
  fpga_out_as(b, 0, y, 4, b->inputs[0].desc.dims, "BHWC");
}

/* (dy, x, y) */
static void build_lrn_grad(fpga_build *b) {
  if (!check_lrn(b, 3)) return;
  braid_value_id dx = FPGA_NODE(b, "LRNGrad", lrn_in(b, 0), lrn_in(b, 1));
  set_lrn(b);
  fpga_out_as(b, 0, dx, 4, b->inputs[1].desc.dims, "BHWC");
}

const fpga_op fpga_ops_norms[] = {
    {"FusedBatchNorm", BATCH_NORM, "T=float", NULL, build_batch_norm, NULL},
    {"FusedBatchNormV2", BATCH_NORM, "T=float U=float", NULL, build_batch_norm, NULL},
    {"FusedBatchNormV3", BATCH_NORM, "T=float U=float", NULL, build_batch_norm, NULL},
    {"FusedBatchNormGrad", BATCH_NORM, "T=float", NULL, build_batch_norm_grad, NULL},
    {"FusedBatchNormGradV2", BATCH_NORM, "T=float U=float", NULL, build_batch_norm_grad, NULL},
    {"FusedBatchNormGradV3", BATCH_NORM, "T=float U=float", NULL, build_batch_norm_grad, NULL},
    {"Softmax", NULL, REAL, NULL, build_softmax, NULL},
    {"LogSoftmax", NULL, REAL, NULL, build_log_softmax, NULL},
    {"SparseSoftmaxCrossEntropyWithLogits", NULL, "T=float,double,half,bfloat16", NULL, build_sparse_cross_entropy,
     NULL},
    {"SoftmaxCrossEntropyWithLogits", NULL, REAL, NULL, build_cross_entropy, NULL},
    {"LRN", "depth_radius:int bias:float alpha:float beta:float", "T=float,half,bfloat16", NULL, build_lrn, NULL},
    {"LRNGrad", "depth_radius:int bias:float alpha:float beta:float", "T=float,half,bfloat16", NULL, build_lrn_grad,
     NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL}};
