/* Gradients of functions of each element. TensorFlow gives some the forward op's input, others its output. */
#include "plugin.h"

#define REAL "T=float,double,half,bfloat16"

/* Those of ours whose operands are (gradient, the forward op's input or output). */
#define OURS(function, op, gradient, forward)                                                                          \
  static void build_##function(fpga_build *b) {                                                                        \
    braid_value_id dy = fpga_in(b, gradient), x = fpga_in(b, forward);                                                 \
    fpga_out(b, 0, FPGA_NODE(b, op, dy, x));                                                                           \
  }

OURS(tanh_grad, "TanhGrad", 1, 0)
OURS(sigmoid_grad, "SigmoidGrad", 1, 0)
OURS(softplus_grad, "SoftplusGrad", 0, 1)
OURS(softsign_grad, "SoftsignGrad", 0, 1)

/* The gradient times 1 where x > 0, else times 0, so that what is not finite stays so: our ReluGrad chooses. */
static void build_relu_grad(fpga_build *b) {
  braid_value_id dy = fpga_in(b, 0), x = fpga_in(b, 1), dx = FPGA_NODE(b, "LeakyReluGrad", dy, x);
  fpga_set_float(b, "alpha", 0);
  fpga_out(b, 0, dx);
}

/* The gradient times 1 between 0 and 6, both excluded, else times 0. */
static void build_relu6_grad(fpga_build *b) {
  braid_value_id dy = fpga_in(b, 0), x = fpga_in(b, 1);
  braid_dtype dtype = b->inputs[1].desc.dtype;
  braid_value_id zero = fpga_scalar(b, dtype, 0), six = fpga_scalar(b, dtype, 6);
  braid_value_id inside = FPGA_NODE(b, "And", FPGA_NODE(b, "Greater", x, zero), FPGA_NODE(b, "Less", x, six));
  fpga_out(b, 0, FPGA_NODE(b, "Mul", dy, fpga_cast(b, inside, dtype)));
}

static void build_leaky_relu_grad(fpga_build *b) {
  braid_value_id dy = fpga_in(b, 0), x = fpga_in(b, 1), dx = FPGA_NODE(b, "LeakyReluGrad", dy, x);
  fpga_set_float(b, "alpha", (double)fpga_attr_float(b->attrs, "alpha", 0.2f));
  fpga_out(b, 0, dx);
}

/* Of the output y, which is e^x - 1 below 0. */
static void build_elu_grad(fpga_build *b) {
  braid_value_id dy = fpga_in(b, 0), y = fpga_in(b, 1);
  braid_dtype dtype = b->inputs[1].desc.dtype;
  braid_value_id below = FPGA_NODE(b, "Less", y, fpga_scalar(b, dtype, 0));
  braid_value_id bent = FPGA_NODE(b, "Mul", dy, FPGA_NODE(b, "Add", y, fpga_scalar(b, dtype, 1)));
  fpga_out(b, 0, FPGA_NODE(b, "Where", below, bent, dy));
}

static void build_selu_grad(fpga_build *b) {
  static const double kAlpha = FPGA_SELU_ALPHA, kScale = FPGA_SELU_SCALE;
  braid_value_id dy = fpga_in(b, 0), y = fpga_in(b, 1);
  braid_dtype dtype = b->inputs[1].desc.dtype;
  braid_value_id below = FPGA_NODE(b, "Less", y, fpga_scalar(b, dtype, 0));
  braid_value_id bent = FPGA_NODE(b, "Mul", dy, FPGA_NODE(b, "Add", y, fpga_scalar(b, dtype, kAlpha * kScale)));
  fpga_out(b, 0, FPGA_NODE(b, "Where", below, bent, FPGA_NODE(b, "Mul", dy, fpga_scalar(b, dtype, kScale))));
}

/* A gradient of 0 stays 0, also where the function's slope is infinite: what was masked behind sqrt(0) has no NaN. */
static void out_unless_zero(fpga_build *b, braid_value_id dy, braid_value_id dx) {
  braid_value_id zero = fpga_scalar(b, b->inputs[1].desc.dtype, 0);
  fpga_out(b, 0, FPGA_NODE(b, "Where", FPGA_NODE(b, "Equal", dy, zero), zero, dx));
}

/* The others have the output y first: of sqrt dy / (2 y), of rsqrt -dy y^3 / 2, of 1 / x -dy y^2. */
static void build_sqrt_grad(fpga_build *b) {
  braid_value_id y = fpga_in(b, 0), dy = fpga_in(b, 1);
  braid_value_id half = FPGA_NODE(b, "Mul", dy, fpga_scalar(b, b->inputs[0].desc.dtype, 0.5));
  out_unless_zero(b, dy, FPGA_NODE(b, "Div", half, y));
}

static void build_rsqrt_grad(fpga_build *b) {
  braid_value_id y = fpga_in(b, 0), dy = fpga_in(b, 1);
  braid_value_id cube = FPGA_NODE(b, "Mul", FPGA_NODE(b, "Mul", y, y), y);
  braid_value_id half = FPGA_NODE(b, "Mul", dy, fpga_scalar(b, b->inputs[0].desc.dtype, -0.5));
  out_unless_zero(b, dy, FPGA_NODE(b, "Mul", half, cube));
}

static void build_reciprocal_grad(fpga_build *b) {
  braid_value_id y = fpga_in(b, 0), dy = fpga_in(b, 1);
  out_unless_zero(b, dy, FPGA_NODE(b, "Mul", FPGA_NODE(b, "Neg", dy), FPGA_NODE(b, "Mul", y, y)));
}

const fpga_op fpga_ops_gradients[] = {{"ReluGrad", NULL, REAL, NULL, build_relu_grad, NULL},
                                      {"Relu6Grad", NULL, REAL, NULL, build_relu6_grad, NULL},
                                      {"LeakyReluGrad", "alpha:float", REAL, NULL, build_leaky_relu_grad, NULL},
                                      {"EluGrad", NULL, REAL, NULL, build_elu_grad, NULL},
                                      {"SeluGrad", NULL, REAL, NULL, build_selu_grad, NULL},
                                      {"TanhGrad", NULL, REAL, NULL, build_tanh_grad, NULL},
                                      {"SigmoidGrad", NULL, REAL, NULL, build_sigmoid_grad, NULL},
                                      {"SoftplusGrad", NULL, REAL, NULL, build_softplus_grad, NULL},
                                      {"SoftsignGrad", NULL, REAL, NULL, build_softsign_grad, NULL},
                                      {"SqrtGrad", NULL, REAL, NULL, build_sqrt_grad, NULL},
                                      {"RsqrtGrad", NULL, REAL, NULL, build_rsqrt_grad, NULL},
                                      {"ReciprocalGrad", NULL, REAL, NULL, build_reciprocal_grad, NULL},
                                      {"InvGrad", NULL, REAL, NULL, build_reciprocal_grad, NULL},
                                      {NULL, NULL, NULL, NULL, NULL, NULL}};
