/* Elementwise ops, reductions and softmax against PyTorch, results and gradients, where BRAID_PYTHON names a Python
 * that has it: at random points and (`whole`) at whole numbers, where kinks and ties lie. */
#include "torchcheck.h"

enum { kRandom = 1, kWhole = 2, kBoth = 3 };

typedef struct pointwise {
  const char *op, *expression;
  int points;
  double low, high;
  struct {
    int rank;
    int64_t dims[4];
  } inputs[3];
  struct {
    const char *name;
    double value;
    bool integer;
  } attrs[2];
  size_t axis_count; /* a list of axes as last input */
  int64_t axes[3];
} pointwise;

#define MATRIX                                                                                                         \
  {                                                                                                                    \
    {                                                                                                                  \
      2, {                                                                                                             \
        5, 7                                                                                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define PAIR                                                                                                           \
  {                                                                                                                    \
    {3, {2, 3, 4}}, {                                                                                                  \
      2, {                                                                                                             \
        3, 1                                                                                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define CUBE                                                                                                           \
  {                                                                                                                    \
    {                                                                                                                  \
      3, {                                                                                                             \
        3, 4, 5                                                                                                        \
      }                                                                                                                \
    }                                                                                                                  \
  }

static const pointwise kCases[] = {
    {"Abs", "(x0.abs(),)", kBoth, -3, 3, MATRIX, {{0}}, 0, {0}},
    {"Neg", "(-x0,)", kRandom, -3, 3, MATRIX, {{0}}, 0, {0}},
    {"Sqrt", "(x0.sqrt(),)", kRandom, 0.1, 3, MATRIX, {{0}}, 0, {0}},
    {"Exp", "(x0.exp(),)", kRandom, -9, 9, MATRIX, {{0}}, 0, {0}},
    {"Log", "(x0.log(),)", kRandom, 0.01, 9, MATRIX, {{0}}, 0, {0}},
    {"Erf", "(x0.erf(),)", kRandom, -4, 4, MATRIX, {{0}}, 0, {0}},
    {"Reciprocal", "(1 / x0,)", kRandom, 0.1, 4, MATRIX, {{0}}, 0, {0}},
    {"Sin", "(x0.sin(),)", kRandom, -9, 9, MATRIX, {{0}}, 0, {0}},
    {"Cos", "(x0.cos(),)", kRandom, -9, 9, MATRIX, {{0}}, 0, {0}},
    {"Tan", "(x0.tan(),)", kRandom, -1.4, 1.4, MATRIX, {{0}}, 0, {0}},
    {"Asin", "(x0.asin(),)", kRandom, -0.9, 0.9, MATRIX, {{0}}, 0, {0}},
    {"Acos", "(x0.acos(),)", kRandom, -0.9, 0.9, MATRIX, {{0}}, 0, {0}},
    {"Atan", "(x0.atan(),)", kRandom, -4, 4, MATRIX, {{0}}, 0, {0}},
    {"Sinh", "(x0.sinh(),)", kRandom, -4, 4, MATRIX, {{0}}, 0, {0}},
    {"Cosh", "(x0.cosh(),)", kRandom, -4, 4, MATRIX, {{0}}, 0, {0}},
    {"Asinh", "(x0.asinh(),)", kRandom, -4, 4, MATRIX, {{0}}, 0, {0}},
    {"Acosh", "(x0.acosh(),)", kRandom, 1.1, 4, MATRIX, {{0}}, 0, {0}},
    {"Atanh", "(x0.atanh(),)", kRandom, -0.9, 0.9, MATRIX, {{0}}, 0, {0}},
    {"Relu", "(F.relu(x0),)", kBoth, -3, 3, MATRIX, {{0}}, 0, {0}},
    {"LeakyRelu", "(F.leaky_relu(x0, 0.2),)", kBoth, -3, 3, MATRIX, {{"alpha", 0.2, false}}, 0, {0}},
    {"Elu", "(F.elu(x0, 1.5),)", kBoth, -3, 3, MATRIX, {{"alpha", 1.5, false}}, 0, {0}},
    {"Selu",
     "(torch.where(x0 > 0, x0, 1.67326319217681884765625 * x0.expm1()) * 1.05070102214813232421875,)",
     kRandom,
     -3,
     3,
     MATRIX,
     {{0}},
     0,
     {0}},
    {"Celu", "(F.celu(x0, 1.5),)", kBoth, -3, 3, MATRIX, {{"alpha", 1.5, false}}, 0, {0}},
    {"Sigmoid", "(x0.sigmoid(),)", kBoth, -9, 9, MATRIX, {{0}}, 0, {0}},
    {"HardSigmoid", "(F.hardtanh(0.25 * x0 + 0.5, 0, 1),)", kBoth, -5, 5, MATRIX, {{"alpha", 0.25, false}}, 0, {0}},
    {"HardSwish", "(F.hardswish(x0),)", kRandom, -5, 5, MATRIX, {{0}}, 0, {0}},
    {"Swish", "(F.silu(x0),)", kBoth, -5, 5, MATRIX, {{0}}, 0, {0}},
    {"Mish", "(F.mish(x0),)", kBoth, -5, 5, MATRIX, {{0}}, 0, {0}},
    {"Tanh", "(x0.tanh(),)", kBoth, -5, 5, MATRIX, {{0}}, 0, {0}},
    {"Softplus", "(F.softplus(x0),)", kBoth, -9, 9, MATRIX, {{0}}, 0, {0}},
    {"Softsign", "(F.softsign(x0),)", kBoth, -5, 5, MATRIX, {{0}}, 0, {0}},
    {"Gelu", "(F.gelu(x0),)", kBoth, -5, 5, MATRIX, {{0}}, 0, {0}},
    {"ThresholdedRelu", "(F.threshold(x0, 1, 0),)", kBoth, -3, 3, MATRIX, {{0}}, 0, {0}},
    {"Shrink", "(F.softshrink(x0, 0.5),)", kRandom, -3, 3, MATRIX, {{"bias", 0.5, false}}, 0, {0}},
    {"Add", "(x0 + x1,)", kRandom, -3, 3, PAIR, {{0}}, 0, {0}},
    {"Sub", "(x0 - x1,)", kRandom, -3, 3, PAIR, {{0}}, 0, {0}},
    {"Mul", "(x0 * x1,)", kBoth, -3, 3, PAIR, {{0}}, 0, {0}},
    {"Div", "(x0 / x1,)", kRandom, 0.3, 3, PAIR, {{0}}, 0, {0}},
    {"Pow", "(x0 ** x1,)", kRandom, 0.3, 3, PAIR, {{0}}, 0, {0}},
    {"Pow", "(x0 ** x1,)", kWhole, -3, 3, PAIR, {{0}}, 0, {0}},
    {"Div", "(x0 / x1,)", kWhole, -3, 3, PAIR, {{0}}, 0, {0}},
    {"Sqrt", "(x0.sqrt(),)", kWhole, -1, 3, MATRIX, {{0}}, 0, {0}},
    {"Log", "(x0.log(),)", kWhole, -1, 3, MATRIX, {{0}}, 0, {0}},
    {"Reciprocal", "(1 / x0,)", kWhole, -2, 2, MATRIX, {{0}}, 0, {0}},
    {"Asin", "(x0.asin(),)", kWhole, -1, 1, MATRIX, {{0}}, 0, {0}},
    {"Clip", "(torch.clamp(x0, x1, x2),)", kRandom, -3, 3, {{2, {5, 7}}, {1, {1}}, {1, {1}}}, {{0}}, 0, {0}},
    {"Max", "(torch.maximum(x0, x1),)", kBoth, -3, 3, PAIR, {{0}}, 0, {0}},
    {"Min", "(torch.minimum(x0, x1),)", kBoth, -3, 3, PAIR, {{0}}, 0, {0}},
    {"PRelu", "(torch.where(x0 > 0, x0, x0 * x1),)", kBoth, -3, 3, PAIR, {{0}}, 0, {0}},
    {"Sum", "(x0 + x1 + x2,)", kRandom, -3, 3, {{2, {3, 4}}, {1, {4}}, {2, {3, 1}}}, {{0}}, 0, {0}},
    {"Mean", "((x0 + x1 + x2) / 3,)", kRandom, -3, 3, {{2, {3, 4}}, {1, {4}}, {2, {3, 1}}}, {{0}}, 0, {0}},
    {"ReduceSum", "(x0.sum((0, 2)),)", kRandom, -3, 3, CUBE, {{"keepdims", 0, true}}, 2, {0, -1}},
    {"ReduceMean", "(x0.mean((1, 2), keepdim=True),)", kRandom, -3, 3, CUBE, {{0}}, 2, {1, 2}},
    {"ReduceMax", "(x0.amax((1, 2), keepdim=True),)", kBoth, -3, 3, CUBE, {{0}}, 2, {1, 2}},
    {"ReduceMin", "(x0.amin((0, 1), keepdim=True),)", kBoth, -3, 3, CUBE, {{0}}, 2, {0, 1}},
    {"ReduceProd", "(x0.prod(1, keepdim=True),)", kBoth, -3, 3, CUBE, {{0}}, 1, {1}},
    {"ReduceL1", "(x0.abs().sum(1, keepdim=True),)", kBoth, -3, 3, CUBE, {{0}}, 1, {1}},
    {"ReduceL2", "(x0.norm(dim=1, keepdim=True),)", kRandom, -3, 3, CUBE, {{0}}, 1, {1}},
    {"ReduceSumSquare", "((x0 * x0).sum(1, keepdim=True),)", kRandom, -3, 3, CUBE, {{0}}, 1, {1}},
    {"ReduceLogSum", "(x0.sum(1, keepdim=True).log(),)", kRandom, 0.1, 3, CUBE, {{0}}, 1, {1}},
    {"ReduceLogSumExp", "(x0.logsumexp(1, keepdim=True),)", kBoth, -9, 9, CUBE, {{0}}, 1, {1}},
    {"Softmax", "(x0.softmax(1),)", kBoth, -9, 9, CUBE, {{"axis", 1, true}}, 0, {0}},
    {"LogSoftmax", "(x0.log_softmax(0),)", kBoth, -9, 9, CUBE, {{"axis", 0, true}}, 0, {0}},
};

static void add_case(torchcheck *t, const pointwise *c, bool whole) {
  gradcheck g;
  braid_value_id y = 0, ids[4];
  size_t inputs = 0;
  gradcheck_begin(&g, c->op);
  for (; inputs < 3 && c->inputs[inputs].rank; inputs++) {
    braid_tensor *tensor = gradcheck_random(&g, c->inputs[inputs].rank, c->inputs[inputs].dims, c->low, c->high);
    double *data = braid_tensor_data(tensor);
    for (int64_t i = 0; whole && i < braid_desc_count(braid_tensor_desc(tensor)); i++) data[i] = round(data[i]);
    ids[inputs] = gradcheck_tensor(&g, tensor, false);
  }
  if (c->axis_count) gradcheck_ok(&g, braid_graph_add_int64s(g.graph, c->axes, c->axis_count, &ids[inputs++]));
  braid_node_id node = gradcheck_node(&g, c->op, ids, inputs, &y, 1);
  for (size_t i = 0; i < 2 && c->attrs[i].name; i++)
    gradcheck_ok(&g, c->attrs[i].integer
                         ? braid_graph_set_int(g.graph, node, c->attrs[i].name, (int64_t)c->attrs[i].value)
                         : braid_graph_set_float(g.graph, node, c->attrs[i].name, c->attrs[i].value));
  torchcheck_case(t, &g, &y, 1, c->expression);
}

static void test_torch(void **state) {
  (void)state;
  torchcheck t;
  torchcheck_open(&t);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    if (kCases[i].points & kRandom) add_case(&t, &kCases[i], false);
    if (kCases[i].points & kWhole) add_case(&t, &kCases[i], true);
  }
  torchcheck_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_torch)};
  return skip_run_group_tests(tests, NULL, NULL);
}
