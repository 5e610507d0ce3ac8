/* Kernels of the simpler families against the CPU's plain ones, over random shapes: see opencl_check.h. */
#include "opencl_check.h"

/* --- elementwise ---------------------------------------------------------------------------------------------------
 */
static void unary_case(const char *op, double low, double high, bool gradient) {
  check c;
  int64_t dims[3] = {check_draw(1, 3), check_draw(1, 9), check_draw(1, 70)};
  braid_value_id inputs[2];
  check_begin(&c);
  inputs[0] = check_floats(&c, 3, dims);
  if (gradient) inputs[1] = check_tensor(&c, BRAID_F32, 3, dims, low, high);
  if (!gradient) inputs[0] = check_tensor(&c, BRAID_F32, 3, dims, low, high);
  check_node(&c, op, inputs, gradient ? 2 : 1);
  c.only = "_flat"; /* the others take the same expressions */
  check_end(&c, 1e-5);
}

static void test_unary(void **state) {
  (void)state;
  static const struct {
    const char *op;
    double low, high;
  } kRanges[] = {{"Sqrt", 0.1, 9},    {"Log", 0.1, 9},   {"Reciprocal", 0.2, 3}, {"Asin", -0.9, 0.9},
                 {"Acos", -0.9, 0.9}, {"Acosh", 1.1, 4}, {"Atanh", -0.9, 0.9},   {"Tan", -1, 1}};
  static const char *const kOps[] = {
#define BRAID_UNARY(op, types, reads, forward, gradient) #op,
#include "graph/ops/unary.def"
#undef BRAID_UNARY
  };
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    double low = -3, high = 3;
    for (size_t k = 0; k < sizeof kRanges / sizeof *kRanges; k++)
      if (strcmp(kRanges[k].op, kOps[i]) == 0) low = kRanges[k].low, high = kRanges[k].high;
    char gradient[64];
    (void)snprintf(gradient, sizeof gradient, "%sGrad", kOps[i]);
    unary_case(kOps[i], low, high, false);
    unary_case(gradient, low, high, true);
  }
  static const char *const kOthers[] = {"Neg", "Sign", "Floor", "Ceil", "Round", "IsNaN", "IsInf"};
  for (size_t i = 0; i < sizeof kOthers / sizeof *kOthers; i++) unary_case(kOthers[i], -3, 3, false);
}

/* Shapes that broadcast together to a random one. */
static void draw_broadcast(int rank, int operands, int64_t dims[][BRAID_MAX_RANK]) {
  for (int i = 0; i < rank; i++) {
    int64_t size = check_draw(1, rank > 4 ? 3 : 7);
    int whole = (int)check_draw(0, operands - 1);
    for (int o = 0; o < operands; o++) dims[o][i] = o == whole || check_draw(0, 1) ? size : 1;
  }
}

static void binary_case(const char *op, braid_dtype dtype, int rank) {
  check c;
  int64_t dims[2][BRAID_MAX_RANK];
  draw_broadcast(rank, 2, dims);
  check_begin(&c);
  bool power = strcmp(op, "Pow") == 0;
  braid_value_id inputs[2];
  for (int i = 0; i < 2; i++)
    inputs[i] = check_tensor(&c, dtype, rank, dims[i],
                             dtype == BRAID_BOOL ? 0
                             : power             ? 0.3
                                                 : -4,
                             dtype == BRAID_BOOL ? 2 : 4);
  check_node(&c, op, inputs, 2);
  check_end(&c, 1e-5);
}

static void test_binary(void **state) {
  (void)state;
  static const char *const kFloat[] = {"Add", "Sub", "Mul", "Div", "Pow", "Equal", "Less", "GreaterOrEqual"};
  static const char *const kInteger[] = {"Add", "Mul", "LessOrEqual", "Greater"};
  static const char *const kBool[] = {"And", "Or", "Xor"};
  for (size_t i = 0; i < sizeof kFloat / sizeof *kFloat; i++)
    for (int rank = 0; rank <= 4; rank += 2) binary_case(kFloat[i], BRAID_F32, rank);
  binary_case("Add", BRAID_F32, 8);
  for (size_t i = 0; i < sizeof kInteger / sizeof *kInteger; i++)
    binary_case(kInteger[i], i % 2 ? BRAID_I64 : BRAID_I32, 2);
  for (size_t i = 0; i < sizeof kBool / sizeof *kBool; i++) binary_case(kBool[i], BRAID_BOOL, 2);
}

static void test_many_operands(void **state) {
  (void)state;
  static const char *const kOps[] = {"Sum", "Mean", "Max", "Min"};
  for (size_t i = 0; i < 4; i++)
    for (size_t count = 1; count <= 4; count += count) {
      check c;
      int64_t dims[4][BRAID_MAX_RANK];
      braid_value_id inputs[4];
      draw_broadcast(3, (int)count, dims);
      check_begin(&c);
      for (size_t k = 0; k < count; k++) inputs[k] = check_floats(&c, 3, dims[k]);
      check_node(&c, kOps[i], inputs, count);
      check_end(&c, 1e-5);
    }
}

static void test_three_operands(void **state) {
  (void)state;
  static const char *const kOps[] = {"Where", "PReluGrad", "PowGradBase", "PowGradExponent"};
  for (size_t i = 0; i < 4; i++) {
    check c;
    int64_t dims[3][BRAID_MAX_RANK];
    braid_value_id inputs[3];
    draw_broadcast(3, 3, dims);
    check_begin(&c);
    for (int k = 0; k < 3; k++)
      inputs[k] = check_tensor(&c, i == 0 && k == 0 ? BRAID_BOOL : BRAID_F32, 3, i ? dims[0] : dims[k], i ? 0.2 : 0, 2);
    check_node(&c, kOps[i], inputs, 3);
    check_end(&c, 1e-5);
  }
}

static void test_clip_and_cast(void **state) {
  (void)state;
  for (int bounds = 0; bounds < 4; bounds++) {
    check c;
    check_begin(&c);
    braid_value_id inputs[3] = {check_tensor(&c, BRAID_F32, 2, (int64_t[]){5, 33}, -3, 3), -1, -1};
    if (bounds & 1) inputs[1] = check_tensor(&c, BRAID_F32, 0, NULL, -1, 0);
    if (bounds & 2) inputs[2] = check_tensor(&c, BRAID_F32, 0, NULL, 0, 1);
    check_node(&c, "Clip", inputs, 3);
    check_end(&c, 0);
  }
  static const braid_dtype kCasts[][2] = {{BRAID_I64, BRAID_F32},
                                          {BRAID_BOOL, BRAID_F32},
                                          {BRAID_F32, BRAID_BOOL},
                                          {BRAID_I32, BRAID_I64},
                                          {BRAID_F32, BRAID_F32}};
  for (size_t i = 0; i < sizeof kCasts / sizeof *kCasts; i++) {
    check c;
    check_begin(&c);
    bool boolean = kCasts[i][0] == BRAID_BOOL;
    braid_value_id x = check_tensor(&c, kCasts[i][0], 1, &(int64_t){77}, boolean ? 0 : -9, boolean ? 2 : 9);
    braid_value_id like = check_tensor(&c, kCasts[i][1], 1, &(int64_t){1}, 0, 1);
    check_node(&c, "CastLike", (braid_value_id[]){x, like}, 2);
    check_end(&c, 0);
  }
}

/* --- reductions ----------------------------------------------------------------------------------------------------
 */
static void reduce_case(const char *op, int rank, const int64_t *dims, uint32_t mask) {
  check c;
  int64_t axes[BRAID_MAX_RANK];
  size_t count = 0;
  bool logarithm = strcmp(op, "ReduceLogSum") == 0;
  for (int i = 0; i < rank; i++)
    if (mask >> i & 1) axes[count++] = i;
  check_begin(&c);
  braid_value_id inputs[2] = {check_tensor(&c, BRAID_F32, rank, dims, logarithm ? 0.1 : -1, 1),
                              check_ints(&c, axes, count)};
  check_node(&c, op, inputs, count ? 2 : 1);
  check_end(&c, 2e-6);
}

static void test_reductions(void **state) {
  (void)state;
  static const char *const kOps[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                                     "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    int64_t dims[4] = {check_draw(1, 4), check_draw(1, 5), check_draw(1, 6), check_draw(1, 40)};
    reduce_case(kOps[i], 4, dims, (uint32_t)check_draw(0, 15));
  }
  for (uint32_t mask = 0; mask < 16; mask++) reduce_case("ReduceSum", 4, (int64_t[]){3, 4, 5, 19}, mask);
  reduce_case("ReduceSum", 6, (int64_t[]){2, 3, 2, 3, 2, 3}, 0x15);
  reduce_case("ReduceMean", 1, (int64_t[]){70001}, 1);
  reduce_case("ReduceLogSumExp", 2, (int64_t[]){3, 30001}, 2);
  reduce_case("ReduceMax", 2, (int64_t[]){30001, 3}, 1);
}

static void test_bias_gradient(void **state) {
  (void)state;
  static const int64_t kShapes[][4] = {{2, 3, 1, 1}, {5, 7, 9, 3}, {3, 40, 20, 20}};
  for (size_t i = 0; i < 3; i++)
    for (int rank = 2; rank <= 4; rank += 2) {
      check c;
      check_begin(&c);
      braid_value_id dy = check_floats(&c, rank, kShapes[i]);
      check_node(&c, "BiasGrad", &dy, 1);
      check_end(&c, 2e-6);
    }
}

/* --- movement ------------------------------------------------------------------------------------------------------
 */
static void test_transpose(void **state) {
  (void)state;
  static const int64_t kPerms[][4] = {{0, 1, 3, 2}, {3, 2, 1, 0}, {0, 2, 3, 1}, {1, 0, 2, 3}, {2, 3, 0, 1}};
  for (size_t i = 0; i < 5; i++)
    for (int type = 0; type < 2; type++) {
      check c;
      int64_t dims[4] = {check_draw(1, 4), check_draw(1, 40), check_draw(1, 20), check_draw(1, 9)};
      check_begin(&c);
      braid_value_id x = check_tensor(&c, type ? BRAID_U8 : BRAID_F32, 4, dims, 0, 200);
      check_node(&c, "Transpose", &x, 1);
      check_set_ints(&c, "perm", kPerms[i], 4);
      check_end(&c, 0);
    }
}

static void test_concat_and_split(void **state) {
  (void)state;
  for (int64_t axis = -1; axis < 3; axis++) {
    check c;
    braid_value_id inputs[3];
    int64_t sizes[3], total = 0, dims[3] = {3, 4, 5};
    check_begin(&c);
    for (int i = 0; i < 3; i++) {
      total += dims[axis < 0 ? 2 : axis] = sizes[i] = check_draw(0, 6);
      inputs[i] = check_floats(&c, 3, dims);
    }
    check_node(&c, "Concat", inputs, 3);
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "axis", axis));
    check_end(&c, 0);
    check_begin(&c);
    dims[axis < 0 ? 2 : axis] = total;
    inputs[0] = check_floats(&c, 3, dims);
    inputs[1] = check_ints(&c, sizes, 3);
    check_node_of(&c, "Split", inputs, 2, 3, axis == 1 ? 5 : 7);
    CHECK_OK(braid_graph_set_int(c.graph, c.node, "axis", axis));
    check_end(&c, 0);
  }
}

static void test_slice(void **state) {
  (void)state;
  static const int64_t kStarts[] = {1, -1, 2}, kEnds[] = {5, INT64_MIN, 100}, kSteps[] = {2, -3, 1},
                       kAxes[] = {0, 2, 3};
  static const int64_t kWhole[] = {7, 3, 11, 6}, kSliced[] = {2, 3, 4, 4};
  for (int gradient = 0; gradient < 2; gradient++) {
    check c;
    check_begin(&c);
    braid_value_id inputs[5] = {check_floats(&c, 4, gradient ? kSliced : kWhole), check_ints(&c, kStarts, 3),
                                check_ints(&c, kEnds, 3), check_ints(&c, kAxes, 3), check_ints(&c, kSteps, 3)};
    check_node(&c, gradient ? "SliceGrad" : "Slice", inputs, 5);
    if (gradient) check_set_ints(&c, "input_shape", kWhole, 4);
    check_end(&c, 0);
  }
}

static void test_expand_and_reshape(void **state) {
  (void)state;
  check c;
  check_begin(&c);
  braid_value_id inputs[2] = {check_floats(&c, 3, (int64_t[]){3, 1, 5}), check_ints(&c, (int64_t[]){2, 1, 4, 1}, 4)};
  check_node(&c, "Expand", inputs, 2);
  check_end(&c, 0);
  check_begin(&c);
  inputs[0] = check_tensor(&c, BRAID_I64, 3, (int64_t[]){3, 2, 5}, -9, 9);
  inputs[1] = check_ints(&c, (int64_t[]){5, -1}, 2);
  check_node(&c, "Reshape", inputs, 2);
  check_end(&c, 0);
}

static void test_gather(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_F32, BRAID_U8, BRAID_I16, BRAID_I64, BRAID_F64, BRAID_BOOL};
  for (int64_t axis = 0; axis < 3; axis++)
    for (int type = 0; type < 2; type++) {
      check c;
      int64_t shape[] = {5, 6, 7}, dy[4] = {5, 6, 7};
      for (int64_t i = 3; i > axis + 1; i--) dy[i] = shape[i - 1];
      dy[axis] = 4;
      dy[axis + 1] = 3;
      check_begin(&c);
      braid_value_id inputs[2] = {check_tensor(&c, kTypes[2 * axis + type], 3, shape, 0, 2),
                                  check_tensor(&c, type ? BRAID_I32 : BRAID_I64, 2, (int64_t[]){4, 3}, -5, 5)};
      check_node(&c, "Gather", inputs, 2);
      CHECK_OK(braid_graph_set_int(c.graph, c.node, "axis", axis));
      check_end(&c, 0);
      check_begin(&c);
      inputs[0] = check_floats(&c, 4, dy);
      inputs[1] = check_tensor(&c, type ? BRAID_I32 : BRAID_I64, 2, (int64_t[]){4, 3}, -5, 5);
      check_node(&c, "GatherGrad", inputs, 2);
      CHECK_OK(braid_graph_set_int(c.graph, c.node, "axis", axis));
      check_set_ints(&c, "input_shape", shape, 3);
      check_end(&c, 1e-6);
    }
}

/* --- matrix products -----------------------------------------------------------------------------------------------
 */
/* Only kernels whose names contain `only`, if it is not NULL: a driver compiles each for long. */
static void gemm_case(const char *only, const char *op, int64_t m, int64_t n, int64_t k, uint32_t form,
                      const char *activation) {
  check c;
  bool ta = form & 1, tb = form & 2;
  static const float kNumbers[] = {0.2f, 0.5f};
  check_begin(&c);
  braid_value_id inputs[3] = {check_floats(&c, 2, (int64_t[]){ta ? k : m, ta ? m : k}),
                              check_floats(&c, 2, (int64_t[]){tb ? n : k, tb ? k : n}), -1};
  if (form & 4) inputs[2] = form & 8 ? check_floats(&c, 1, &n) : check_floats(&c, 2, (int64_t[]){m, 1});
  check_node(&c, op, inputs, 3);
  CHECK_OK(braid_graph_set_int(c.graph, c.node, "transA", ta));
  CHECK_OK(braid_graph_set_int(c.graph, c.node, "transB", tb));
  CHECK_OK(braid_graph_set_float(c.graph, c.node, "alpha", form & 4 ? 0.5 : 1));
  CHECK_OK(braid_graph_set_float(c.graph, c.node, "beta", 2));
  if (activation) CHECK_OK(braid_graph_set_string(c.graph, c.node, "activation", activation));
  if (activation) CHECK_OK(braid_graph_set_floats(c.graph, c.node, "activation_params", kNumbers, 2));
  c.only = only;
  check_end(&c, 1e-5);
}

static void test_gemm(void **state) {
  (void)state;
  static const char *const kActivations[] = {"Relu",        "LeakyRelu", "Sigmoid", "Tanh",
                                             "HardSigmoid", "HardSwish", "Clip"};
  for (uint32_t form = 0; form < 16; form++)
    gemm_case(form < 2   ? NULL
              : form < 6 ? "small"
                         : "panels",
              "Gemm", check_draw(8, 70), check_draw(16, 90), check_draw(1, 80), form, NULL);
  for (uint32_t form = 0; form < 4; form++) gemm_case("rows", "Gemm", 1 + form % 2 * 8, 100, 90, 2 * form, NULL);
  gemm_case("panels", "Gemm", 130, 140, 1100, 0, NULL);
  for (uint32_t i = 0; i < 7; i++)
    gemm_case(i ? "panels" : "small", "FusedGemm", 17, 40, 30, 12 + i % 4, kActivations[i]);
}

static void matmul_case(int rank_a, const int64_t *a, int rank_b, const int64_t *b, bool ta, bool tb) {
  check c;
  check_begin(&c);
  braid_value_id inputs[2] = {check_floats(&c, rank_a, a), check_floats(&c, rank_b, b)};
  check_node(&c, "MatMul", inputs, 2);
  if (ta) CHECK_OK(braid_graph_set_int(c.graph, c.node, "transA", 1));
  if (tb) CHECK_OK(braid_graph_set_int(c.graph, c.node, "transB", 1));
  check_end(&c, 1e-5);
}

static void test_matmul(void **state) {
  (void)state;
  matmul_case(1, (int64_t[]){9}, 1, (int64_t[]){9}, false, false);
  matmul_case(1, (int64_t[]){9}, 3, (int64_t[]){2, 9, 5}, false, false);
  matmul_case(3, (int64_t[]){2, 5, 9}, 1, (int64_t[]){9}, false, false);
  matmul_case(3, (int64_t[]){3, 20, 30}, 2, (int64_t[]){30, 40}, false, false);
  matmul_case(3, (int64_t[]){3, 30, 20}, 3, (int64_t[]){3, 40, 30}, true, true);
  matmul_case(4, (int64_t[]){2, 1, 7, 5}, 3, (int64_t[]){3, 5, 6}, false, false);
  matmul_case(5, (int64_t[]){2, 1, 3, 7, 5}, 4, (int64_t[]){4, 1, 5, 6}, false, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unary),
      cmocka_unit_test(test_binary),
      cmocka_unit_test(test_many_operands),
      cmocka_unit_test(test_three_operands),
      cmocka_unit_test(test_clip_and_cast),
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_bias_gradient),
      cmocka_unit_test(test_transpose),
      cmocka_unit_test(test_concat_and_split),
      cmocka_unit_test(test_slice),
      cmocka_unit_test(test_expand_and_reshape),
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_gemm),
      cmocka_unit_test(test_matmul),
  };
  return skip_run_group_tests(tests, check_open, check_close);
}
