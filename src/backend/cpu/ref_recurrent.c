/* Plain RNN, GRU and LSTM. Each sequence in each direction is run from its first step to its last by one thread: the
 * steps depend on one another, sequences do not. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "backend/cpu/ref_float.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H0, IN_C0, IN_P, LANES = 8 };
typedef enum cell_kind { CELL_RNN, CELL_GRU, CELL_LSTM } cell_kind;

typedef enum function_kind {
  RELU,
  TANH,
  SIGMOID,
  AFFINE,
  LEAKY_RELU,
  THRESHOLDED_RELU,
  SCALED_TANH,
  HARD_SIGMOID,
  ELU,
  SOFTSIGN,
  SOFTPLUS,
  FUNCTIONS
} function_kind;

static const struct function_form {
  const char *name;
  bool takes_alpha, takes_beta;
  double alpha, beta; /* where the node does not say */
} kFunctions[FUNCTIONS] = {
    [RELU] = {"Relu", false, false, 0, 0},
    [TANH] = {"Tanh", false, false, 0, 0},
    [SIGMOID] = {"Sigmoid", false, false, 0, 0},
    [AFFINE] = {"Affine", true, true, 1, 0},
    [LEAKY_RELU] = {"LeakyRelu", true, false, 0.01, 0},
    [THRESHOLDED_RELU] = {"ThresholdedRelu", true, false, 1, 0},
    [SCALED_TANH] = {"ScaledTanh", true, true, 1, 1},
    [HARD_SIGMOID] = {"HardSigmoid", true, true, 0.2, 0.5},
    [ELU] = {"Elu", true, false, 1, 0},
    [SOFTSIGN] = {"Softsign", false, false, 0, 0},
    [SOFTPLUS] = {"Softplus", false, false, 0, 0},
};

typedef struct function {
  function_kind kind;
  double alpha, beta;
} function;

typedef struct cell_state {
  braid_ref_float base;
  cell_kind kind;
  int64_t steps, batch, inputs, hidden, directions, gates;
  bool batch_first, reverse, linear_before_reset, input_forget;
  double clip;              /* 0: none */
  function functions[2][3]; /* per direction: f, g, h */
} cell_state;

static double apply(const function *f, double x) {
  switch (f->kind) {
  case RELU:
    return x > 0 ? x : 0;
  case TANH:
    return tanh(x);
  case SIGMOID:
    return 1 / (1 + exp(-x));
  case AFFINE:
    return f->alpha * x + f->beta;
  case LEAKY_RELU:
    return x < 0 ? f->alpha * x : x;
  case THRESHOLDED_RELU:
    return x > f->alpha ? x : 0;
  case SCALED_TANH:
    return f->alpha * tanh(f->beta * x);
  case HARD_SIGMOID:
    return fmin(1, fmax(0, f->alpha * x + f->beta));
  case ELU:
    return x < 0 ? f->alpha * expm1(x) : x;
  case SOFTSIGN:
    return x / (1 + fabs(x));
  default:
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
  }
}

#define T float
#define NAME(stem) stem##_f32
#include "backend/cpu/ref_recurrent_template.h"
#undef T
#undef NAME
#define T double
#define NAME(stem) stem##_f64
#include "backend/cpu/ref_recurrent_template.h"
#undef T
#undef NAME

/* --- attributes --------------------------------------------------------------------------------------------------- */
/* Scales are consumed by those functions that take them, in their order. */
static braid_status read_functions(const braid_node_desc *node, cell_state *s) {
  static const function_kind kDefaults[3][3] = {
      [CELL_RNN] = {TANH}, [CELL_GRU] = {SIGMOID, TANH}, [CELL_LSTM] = {SIGMOID, TANH, TANH}};
  static const size_t kCounts[3] = {1, 2, 3};
  size_t count, alphas, betas, alpha_at = 0, beta_at = 0, each = kCounts[s->kind];
  const char *const *names = braid_attr_strings(node->attrs, "activations", &count);
  const float *alpha = braid_attr_floats(node->attrs, "activation_alpha", &alphas);
  const float *beta = braid_attr_floats(node->attrs, "activation_beta", &betas);
  if (names && count != each * (size_t)s->directions)
    return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): %zu activations for %lld directions of %zu", node->name,
                      node->op, count, (long long)s->directions, each);
  for (size_t i = 0; i < each * (size_t)s->directions; i++) {
    function *f = &s->functions[i / each][i % each];
    size_t kind = kDefaults[s->kind][i % each];
    if (names)
      for (kind = 0; kind < FUNCTIONS && strcasecmp(names[i], kFunctions[kind].name) != 0;) kind++;
    if (kind == FUNCTIONS)
      return braid_fail(BRAID_INVALID_GRAPH, "node %.120s (%s): activation %.40s", node->name, node->op, names[i]);
    *f = (function){(function_kind)kind, kFunctions[kind].alpha, kFunctions[kind].beta};
    if (kFunctions[kind].takes_alpha && alpha_at < alphas) f->alpha = (double)alpha[alpha_at++];
    if (kFunctions[kind].takes_beta && beta_at < betas) f->beta = (double)beta[beta_at++];
  }
  return BRAID_OK;
}

static braid_status init(const braid_node_desc *node, void *self) {
  cell_state *s = self;
  const braid_desc *x = &node->inputs[IN_X].desc, *r = &node->inputs[IN_R].desc;
  s->kind = strcmp(node->op, "LSTM") == 0 ? CELL_LSTM : strcmp(node->op, "GRU") == 0 ? CELL_GRU : CELL_RNN;
  s->gates = s->kind == CELL_LSTM ? 4 : s->kind == CELL_GRU ? 3 : 1;
  s->batch_first = braid_attr_int(node->attrs, "layout", 0);
  s->steps = x->dims[s->batch_first];
  s->batch = x->dims[!s->batch_first];
  s->inputs = x->dims[2];
  s->hidden = r->dims[2];
  s->directions = r->dims[0];
  s->reverse = strcmp(braid_attr_string(node->attrs, "direction", "forward"), "reverse") == 0;
  s->linear_before_reset = braid_attr_int(node->attrs, "linear_before_reset", 0);
  s->input_forget = braid_attr_int(node->attrs, "input_forget", 0);
  s->clip = braid_attr_float(node->attrs, "clip", 0);
  size_t bytes = x->dtype == BRAID_F64 ? sizeof(double) : sizeof(float);
  s->base.scratch_bytes = (size_t)(s->directions * s->batch * (s->gates + 3) * s->hidden) * bytes;
  return read_functions(node, s);
}

BRAID_REF_KERNEL(kCell, cell, cell_state, init)

static const braid_kernel kKernels[] = {
    {.op = "GRU", .name = "ref_gru", .match = braid_ref_match_float, .implementation = &kCell},
    {.op = "LSTM", .name = "ref_lstm", .match = braid_ref_match_float, .implementation = &kCell},
    {.op = "RNN", .name = "ref_rnn", .match = braid_ref_match_float, .implementation = &kCell},
};

extern const braid_cpu_table braid_cpu_ref_recurrent;
const braid_cpu_table braid_cpu_ref_recurrent = {kKernels, sizeof kKernels / sizeof *kKernels};
