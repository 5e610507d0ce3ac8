/* Functions of each element, of one operand and of two with broadcasting. */
#include <string.h>

#include "plugin.h"

#define REAL "T=float,double,half,bfloat16"
#define NUMBER "T=float,double,half,bfloat16,int64"

/* --- one operand ---------------------------------------------------------------------------------------------------
 */
#define UNARY(function, op)                                                                                            \
  static void build_##function(fpga_build *b) {                                                                        \
    fpga_out(b, 0, FPGA_NODE(b, op, fpga_in(b, 0)));                                                                   \
  }

UNARY(relu, "Relu")
UNARY(sigmoid, "Sigmoid")
UNARY(tanh, "Tanh")
UNARY(exp, "Exp")
UNARY(log, "Log")
UNARY(neg, "Neg")
UNARY(abs, "Abs")
UNARY(sqrt, "Sqrt")
UNARY(reciprocal, "Reciprocal")
UNARY(sign, "Sign")
UNARY(floor, "Floor")
UNARY(ceil, "Ceil")
UNARY(round, "Round")
UNARY(sin, "Sin")
UNARY(cos, "Cos")
UNARY(erf, "Erf")
UNARY(softplus, "Softplus")
UNARY(softsign, "Softsign")
UNARY(elu, "Elu")
UNARY(not, "Not")
UNARY(is_nan, "IsNaN")
UNARY(is_inf, "IsInf")

/* The constants 0 and 6 in the operand's type. */
static braid_value_id clip_to_six(fpga_build *b, braid_value_id x) {
  braid_dtype dtype = fpga_desc(b, x).dtype;
  return FPGA_NODE(b, "Clip", x, fpga_scalar(b, dtype, 0), fpga_scalar(b, dtype, 6));
}

static void build_relu6(fpga_build *b) {
  fpga_out(b, 0, clip_to_six(b, fpga_in(b, 0)));
}

static void build_leaky_relu(fpga_build *b) {
  braid_value_id y = FPGA_NODE(b, "LeakyRelu", fpga_in(b, 0));
  fpga_set_float(b, "alpha", (double)fpga_attr_float(b->attrs, "alpha", 0.2f));
  fpga_out(b, 0, y);
}

/* ONNX's defaults are rounded to float32, which doubles would show. */
static void build_selu(fpga_build *b) {
  braid_value_id y = FPGA_NODE(b, "Selu", fpga_in(b, 0));
  fpga_set_float(b, "alpha", FPGA_SELU_ALPHA);
  fpga_set_float(b, "gamma", FPGA_SELU_SCALE);
  fpga_out(b, 0, y);
}

static void build_rsqrt(fpga_build *b) {
  fpga_out(b, 0, FPGA_NODE(b, "Reciprocal", FPGA_NODE(b, "Sqrt", fpga_in(b, 0))));
}

static void build_square(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0);
  fpga_out(b, 0, FPGA_NODE(b, "Mul", x, x));
}

static void build_is_finite(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0);
  fpga_out(b, 0, FPGA_NODE(b, "Not", FPGA_NODE(b, "Or", FPGA_NODE(b, "IsNaN", x), FPGA_NODE(b, "IsInf", x))));
}

static void build_cast(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0);
  fpga_out(b, 0, fpga_cast(b, x, fpga_dtype((TF_DataType)fpga_attr_int(b->attrs, "DstT", TF_FLOAT))));
}

static void build_like(fpga_build *b, double number) {
  const braid_desc *like = &b->inputs[0].desc;
  braid_value_id y =
      FPGA_NODE(b, "Expand", fpga_scalar(b, like->dtype, number), fpga_ints(b, like->dims, (size_t)like->rank));
  fpga_out(b, 0, y);
}

static void build_zeros_like(fpga_build *b) {
  build_like(b, 0);
}

static void build_ones_like(fpga_build *b) {
  build_like(b, 1);
}

/* --- two operands --------------------------------------------------------------------------------------------------
 */
#define BINARY(function, op)                                                                                           \
  static void build_##function(fpga_build *b) {                                                                        \
    braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1);                                                               \
    fpga_out(b, 0, FPGA_NODE(b, op, x, y));                                                                            \
  }

BINARY(add, "Add")
BINARY(sub, "Sub")
BINARY(mul, "Mul")
BINARY(div, "Div")
BINARY(max, "Max")
BINARY(min, "Min")
BINARY(pow, "Pow")
BINARY(greater, "Greater")
BINARY(greater_equal, "GreaterOrEqual")
BINARY(less, "Less")
BINARY(less_equal, "LessOrEqual")
BINARY(equal, "Equal")
BINARY(and, "And")
BINARY(or, "Or")

static void build_not_equal(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1);
  fpga_out(b, 0, FPGA_NODE(b, "Not", FPGA_NODE(b, "Equal", x, y)));
}

static void build_squared_difference(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1), d = FPGA_NODE(b, "Sub", x, y);
  fpga_out(b, 0, FPGA_NODE(b, "Mul", d, d));
}

/* 0 where the divisor is 0, whatever the dividend. */
static void build_div_no_nan(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1), zero = fpga_scalar(b, b->inputs[1].desc.dtype, 0);
  braid_value_id is_zero = FPGA_NODE(b, "Equal", y, zero);
  fpga_out(b, 0, FPGA_NODE(b, "Where", is_zero, zero, FPGA_NODE(b, "Div", x, y)));
}

static void build_mul_no_nan(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1), zero = fpga_scalar(b, b->inputs[1].desc.dtype, 0);
  braid_value_id is_zero = FPGA_NODE(b, "Equal", y, zero);
  fpga_out(b, 0, FPGA_NODE(b, "Where", is_zero, zero, FPGA_NODE(b, "Mul", x, y)));
}

static void build_floor_div(fpga_build *b) {
  braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1);
  fpga_out(b, 0, FPGA_NODE(b, "Floor", FPGA_NODE(b, "Div", x, y)));
}

/* The sign is the divisor's, as in Python. */
static void build_floor_mod(fpga_build *b) {
  b->divisor = 1;
  braid_value_id x = fpga_in(b, 0), y = fpga_in(b, 1);
  fpga_out(b, 0, FPGA_NODE(b, "Mod", x, y));
}

static void build_select(fpga_build *b) {
  braid_value_id c = fpga_in(b, 0), x = fpga_in(b, 1), y = fpga_in(b, 2);
  fpga_out(b, 0, FPGA_NODE(b, "Where", c, x, y));
}

/* The old op: a condition of one dimension chooses among rows. */
static void build_old_select(fpga_build *b) {
  const braid_desc *c = &b->inputs[0].desc, *x = &b->inputs[1].desc;
  int64_t dims[BRAID_MAX_RANK] = {c->rank > 0 ? c->dims[0] : 1, 1, 1, 1, 1, 1, 1, 1};
  if (c->rank != 1 || x->rank <= 1) {
    build_select(b);
    return;
  }
  braid_value_id rows = fpga_in_as(b, 0, x->rank, dims, NULL), then = fpga_in(b, 1), otherwise = fpga_in(b, 2);
  fpga_out(b, 0, FPGA_NODE(b, "Where", rows, then, otherwise));
}

static void build_add_n(fpga_build *b) {
  braid_value_id terms[FPGA_MAX_OPERANDS];
  for (size_t i = 0; i < b->input_count; i++) {
    if (!braid_desc_same_shape(&b->inputs[i].desc, &b->inputs[0].desc))
      fpga_fail(b, BRAID_INVALID_ARGUMENT, "term %zu has not the dimensions of term 0", i);
    terms[i] = fpga_in(b, i);
  }
  fpga_out(b, 0, b->input_count == 1 ? FPGA_NODE(b, "Identity", terms[0]) : fpga_node(b, "Sum", b->input_count, terms));
}

const fpga_op fpga_ops_elementwise[] = {
    {"Relu", NULL, REAL, NULL, build_relu, NULL},
    {"Relu6", NULL, REAL, NULL, build_relu6, NULL},
    {"LeakyRelu", "alpha:float", REAL, NULL, build_leaky_relu, NULL},
    {"Elu", NULL, REAL, NULL, build_elu, NULL},
    {"Selu", NULL, REAL, NULL, build_selu, NULL},
    {"Sigmoid", NULL, REAL, NULL, build_sigmoid, NULL},
    {"Tanh", NULL, REAL, NULL, build_tanh, NULL},
    {"Softplus", NULL, REAL, NULL, build_softplus, NULL},
    {"Softsign", NULL, REAL, NULL, build_softsign, NULL},
    {"Exp", NULL, REAL, NULL, build_exp, NULL},
    {"Log", NULL, REAL, NULL, build_log, NULL},
    {"Neg", NULL, NUMBER, NULL, build_neg, NULL},
    {"Abs", NULL, NUMBER, NULL, build_abs, NULL},
    {"Sqrt", NULL, REAL, NULL, build_sqrt, NULL},
    {"Rsqrt", NULL, REAL, NULL, build_rsqrt, NULL},
    {"Square", NULL, NUMBER, NULL, build_square, NULL},
    {"Reciprocal", NULL, REAL, NULL, build_reciprocal, NULL},
    {"Inv", NULL, REAL, NULL, build_reciprocal, NULL},
    {"Sign", NULL, NUMBER, NULL, build_sign, NULL},
    {"Floor", NULL, REAL, NULL, build_floor, NULL},
    {"Ceil", NULL, REAL, NULL, build_ceil, NULL},
    {"Rint", NULL, "T=float,double", NULL, build_round, NULL},
    {"Round", NULL, REAL, NULL, build_round, NULL},
    {"Sin", NULL, REAL, NULL, build_sin, NULL},
    {"Cos", NULL, REAL, NULL, build_cos, NULL},
    {"Erf", NULL, REAL, NULL, build_erf, NULL},
    {"IsNan", NULL, "T=float,double", NULL, build_is_nan, NULL},
    {"IsInf", NULL, "T=float,double", NULL, build_is_inf, NULL},
    {"IsFinite", NULL, "T=float,double", NULL, build_is_finite, NULL},
    {"LogicalNot", NULL, NULL, NULL, build_not, NULL},
    {"Cast", "DstT:type",
     "SrcT=float,double,half,bfloat16,int64,uint8,bool DstT=float,double,half,bfloat16,int64,uint8,bool", NULL,
     build_cast, NULL},
    {"ZerosLike", NULL, NUMBER, NULL, build_zeros_like, NULL},
    {"OnesLike", NULL, NUMBER, NULL, build_ones_like, NULL},
    {"Add", NULL, NUMBER, NULL, build_add, NULL},
    {"AddV2", NULL, NUMBER, NULL, build_add, NULL},
    {"Sub", NULL, NUMBER, NULL, build_sub, NULL},
    {"Mul", NULL, NUMBER, NULL, build_mul, NULL},
    {"Div", NULL, REAL, NULL, build_div, NULL},
    {"RealDiv", NULL, REAL, NULL, build_div, NULL},
    {"DivNoNan", NULL, "T=float,double,half,bfloat16", NULL, build_div_no_nan, NULL},
    {"MulNoNan", NULL, "T=float,double,half,bfloat16", NULL, build_mul_no_nan, NULL},
    {"FloorDiv", NULL, "T=float,double,half,bfloat16", NULL, build_floor_div, NULL},
    {"FloorMod", NULL, "T=int64", NULL, build_floor_mod, NULL},
    {"Maximum", NULL, NUMBER, NULL, build_max, NULL},
    {"Minimum", NULL, NUMBER, NULL, build_min, NULL},
    {"Pow", NULL, "T=float,double,half,bfloat16", NULL, build_pow, NULL},
    {"SquaredDifference", NULL, NUMBER, NULL, build_squared_difference, NULL},
    {"Greater", NULL, NUMBER, NULL, build_greater, NULL},
    {"GreaterEqual", NULL, NUMBER, NULL, build_greater_equal, NULL},
    {"Less", NULL, NUMBER, NULL, build_less, NULL},
    {"LessEqual", NULL, NUMBER, NULL, build_less_equal, NULL},
    {"Equal", NULL, "T=float,double,half,bfloat16,int64,bool", NULL, build_equal, NULL},
    {"NotEqual", NULL, "T=float,double,half,bfloat16,int64,bool", NULL, build_not_equal, NULL},
    {"LogicalAnd", NULL, NULL, NULL, build_and, NULL},
    {"LogicalOr", NULL, NULL, NULL, build_or, NULL},
    {"SelectV2", NULL, NUMBER, NULL, build_select, NULL},
    {"Select", NULL, NUMBER, NULL, build_old_select, NULL},
    {"AddN", NULL, REAL, NULL, build_add_n, NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL}};
