/* Matrix products, biases, and what TensorFlow's optimizer fuses of them. */
#include <string.h>

#include "plugin.h"

#define REAL "T=float,double,half,bfloat16"

static braid_value_id matmul(fpga_build *b, const char *a_name, const char *b_name) {
  braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1);
  braid_value_id product = FPGA_NODE(b, "MatMul", x, y);
  fpga_set_int(b, "transA", fpga_attr_int(b->attrs, a_name, 0));
  fpga_set_int(b, "transB", fpga_attr_int(b->attrs, b_name, 0));
  return product;
}

static void build_matmul(fpga_build *b) {
  if (b->inputs[0].desc.rank != 2 || b->inputs[1].desc.rank != 2)
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "operands of %d and %d dimensions: expected matrices", b->inputs[0].desc.rank,
              b->inputs[1].desc.rank);
  fpga_out(b, 0, matmul(b, "transpose_a", "transpose_b"));
}

static void build_batch_matmul(fpga_build *b) {
  fpga_out(b, 0, matmul(b, "adj_x", "adj_y"));
}

/* --- fused ---------------------------------------------------------------------------------------------------------
 */
/* What follows a product, by the names in fused_ops; NULL: not one of these. */
static const char *activation_of(const char *name) {
  static const struct {
    const char *tf, *ours;
  } kNames[] = {{"Relu", "Relu"},           {"Relu6", "Clip"}, {"Elu", "Elu"},
                {"LeakyRelu", "LeakyRelu"}, {"Tanh", "Tanh"},  {"Sigmoid", "Sigmoid"}};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++)
    if (strcmp(kNames[i].tf, name) == 0) return kNames[i].ours;
  return NULL;
}

static braid_value_id activate(fpga_build *b, braid_value_id x, const char *name) {
  const char *op = activation_of(name);
  braid_dtype dtype = fpga_desc(b, x).dtype;
  if (!op) {
    fpga_fail(b, BRAID_UNSUPPORTED, "fused with %s", name);
    return -1;
  }
  if (strcmp(op, "Clip") == 0) return FPGA_NODE(b, "Clip", x, fpga_scalar(b, dtype, 0), fpga_scalar(b, dtype, 6));
  braid_value_id y = FPGA_NODE(b, op, x);
  if (strcmp(op, "LeakyRelu") == 0)
    fpga_set_float(b, "alpha", (double)fpga_attr_float(b->attrs, "leakyrelu_alpha", 0.2f));
  return y;
}

static void build_fused_matmul(fpga_build *b) {
  const fpga_attr *ops = fpga_attr_find(b->attrs, "fused_ops");
  braid_value_id y = matmul(b, "transpose_a", "transpose_b");
  for (int i = 0; ops && i < ops->count; i++)
    y = strcmp(ops->strings[i], "BiasAdd") == 0 ? FPGA_NODE(b, "Add", y, fpga_in(b, 2))
                                                : activate(b, y, ops->strings[i]);
  fpga_out(b, 0, y);
}

static braid_status refuse_fused(const fpga_attr *attrs) {
  const fpga_attr *ops = fpga_attr_find(attrs, "fused_ops");
  for (int i = 0; ops && i < ops->count; i++)
    if (strcmp(ops->strings[i], "BiasAdd") != 0 && !activation_of(ops->strings[i]))
      return braid_fail(BRAID_UNSUPPORTED,
                        "fused with %s: expected BiasAdd and Relu, Relu6, Elu, LeakyRelu, Tanh or "
                        "Sigmoid",
                        ops->strings[i]);
  return BRAID_OK;
}

/* --- biases --------------------------------------------------------------------------------------------------------
 */
static bool channels_first(const fpga_build *b) {
  return strncmp(fpga_attr_string(b->attrs, "data_format", "NHWC"), "NC", 2) == 0;
}

/* The bias's dimensions beside x's. */
static void build_bias_add(fpga_build *b) {
  const braid_desc *x = &b->inputs[0].desc, *bias = &b->inputs[1].desc;
  braid_value_id in = fpga_in(b, 0);
  int channel = channels_first(b) && x->rank > 1 ? 1 : x->rank - 1;
  if (channel < 0 || bias->rank != 1 || bias->dims[0] != x->dims[channel]) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "the biases must be a list of as many as there are channels");
    return;
  }
  if (!channels_first(b) || x->rank < 2) {
    fpga_out(b, 0, FPGA_NODE(b, "Add", in, fpga_in(b, 1)));
    return;
  }
  int64_t dims[BRAID_MAX_RANK] = {x->dims[1], 1, 1, 1, 1, 1, 1, 1};
  fpga_out(b, 0, FPGA_NODE(b, "Add", in, fpga_in_as(b, 1, x->rank - 1, dims, NULL)));
}

/* The sum over all dimensions but the channels'. */
static void build_bias_grad(fpga_build *b) {
  const braid_desc *dy = &b->inputs[0].desc;
  int channel = channels_first(b) ? 1 : dy->rank - 1;
  int64_t axes[2] = {0, 2}, dims[3] = {1, 1, 1};
  for (int i = 0; i < dy->rank; i++) dims[i < channel ? 0 : i == channel ? 1 : 2] *= dy->dims[i];
  bool last = dims[2] == 1;
  braid_value_id in = fpga_in_as(b, 0, last ? 2 : 3, dims, NULL);
  braid_value_id sum = FPGA_NODE(b, "ReduceSum", in, fpga_ints(b, axes, last ? 1 : 2));
  fpga_set_int(b, "keepdims", 0);
  fpga_out(b, 0, sum);
}

static void build_l2_loss(fpga_build *b) {
  braid_value_id sum = FPGA_NODE(b, "ReduceSumSquare", fpga_in(b, 0));
  fpga_set_int(b, "keepdims", 0);
  fpga_out(b, 0, FPGA_NODE(b, "Mul", sum, fpga_scalar(b, b->inputs[0].desc.dtype, 0.5)));
}

const fpga_op fpga_ops_products[] = {{"MatMul", "transpose_a:bool transpose_b:bool", REAL, NULL, build_matmul, NULL},
                                     {"BatchMatMul", "adj_x:bool adj_y:bool", REAL, NULL, build_batch_matmul, NULL},
                                     {"BatchMatMulV2", "adj_x:bool adj_y:bool", REAL, NULL, build_batch_matmul, NULL},
                                     {"_FusedMatMul",
                                      "transpose_a:bool transpose_b:bool fused_ops:strings leakyrelu_alpha:float",
                                      "T=float", NULL, build_fused_matmul, refuse_fused},
                                     {"BiasAdd", "data_format:string", REAL, NULL, build_bias_add, NULL},
                                     {"BiasAddGrad", "data_format:string", REAL, NULL, build_bias_grad, NULL},
                                     {"L2Loss", NULL, REAL, NULL, build_l2_loss, NULL},
                                     {NULL, NULL, NULL, NULL, NULL, NULL}};
