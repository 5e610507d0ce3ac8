/* Gradients of LSTM, GRU and RNN against finite differences, in every direction and layout and with every option, and
 * the bits of results and gradients for any number of threads. */
#include "gradcheck.h"

#include <omp.h>
#include <string.h>

enum { kSteps = 4, kInputs = 2, kHidden = 3, kFew = 3, kMany = 61 };

typedef struct variant {
  const char *what, *op, *direction;
  int gates;
  bool batch_first, bias, lengths, states, peepholes, linear_before_reset, input_forget, only_last;
  double clip;
  const char *activations[6];
  float alpha[6], beta[6];
} variant;

static const variant kVariants[] = {
    {.what = "RNN", .op = "RNN", .gates = 1},
    {.what = "RNN, all",
     .op = "RNN",
     .gates = 1,
     .direction = "bidirectional",
     .bias = true,
     .states = true,
     .lengths = true,
     .activations = {"Relu", "Softsign"}},
    {.what = "RNN, reverse",
     .op = "RNN",
     .gates = 1,
     .direction = "reverse",
     .batch_first = true,
     .lengths = true,
     .states = true,
     .activations = {"Softplus"}},
    {.what = "RNN, scaled",
     .op = "RNN",
     .gates = 1,
     .direction = "bidirectional",
     .bias = true,
     .activations = {"ScaledTanh", "Affine"},
     .alpha = {1.5F, 0.75F},
     .beta = {0.5F, 0.25F}},
    {.what = "RNN, bent",
     .op = "RNN",
     .gates = 1,
     .direction = "bidirectional",
     .bias = true,
     .activations = {"LeakyRelu", "Elu"},
     .alpha = {0.25F, 0.5F}},
    {.what = "RNN, cut",
     .op = "RNN",
     .gates = 1,
     .direction = "bidirectional",
     .bias = true,
     .clip = 0.4,
     .activations = {"HardSigmoid", "ThresholdedRelu"},
     .alpha = {0.3F, 0.1F},
     .beta = {0.4F}},
    {.what = "GRU", .op = "GRU", .gates = 3},
    {.what = "GRU, all",
     .op = "GRU",
     .gates = 3,
     .direction = "bidirectional",
     .bias = true,
     .states = true,
     .lengths = true},
    {.what = "GRU, linear", .op = "GRU", .gates = 3, .linear_before_reset = true},
    {.what = "GRU, linear, all",
     .op = "GRU",
     .gates = 3,
     .direction = "bidirectional",
     .bias = true,
     .states = true,
     .lengths = true,
     .batch_first = true,
     .linear_before_reset = true,
     .activations = {"Sigmoid", "Softsign", "HardSigmoid", "Tanh"},
     .alpha = {0.3F},
     .beta = {0.4F}},
    {.what = "GRU, clipped", .op = "GRU", .gates = 3, .direction = "reverse", .bias = true, .clip = 0.3},
    {.what = "LSTM", .op = "LSTM", .gates = 4},
    {.what = "LSTM, all",
     .op = "LSTM",
     .gates = 4,
     .direction = "bidirectional",
     .bias = true,
     .states = true,
     .lengths = true,
     .peepholes = true},
    {.what = "LSTM, batch first",
     .op = "LSTM",
     .gates = 4,
     .direction = "reverse",
     .bias = true,
     .states = true,
     .lengths = true,
     .peepholes = true,
     .batch_first = true},
    {.what = "LSTM, no states",
     .op = "LSTM",
     .gates = 4,
     .direction = "bidirectional",
     .peepholes = true,
     .only_last = true},
    {.what = "LSTM, coupled",
     .op = "LSTM",
     .gates = 4,
     .bias = true,
     .states = true,
     .peepholes = true,
     .input_forget = true},
    {.what = "LSTM, clipped",
     .op = "LSTM",
     .gates = 4,
     .bias = true,
     .states = true,
     .clip = 0.3,
     .activations = {"Sigmoid", "Softsign", "ScaledTanh"},
     .alpha = {1.25F},
     .beta = {0.75F}},
};

static braid_tensor *lengths_tensor(gradcheck *g, int64_t batch) {
  static const int32_t kLengths[] = {2, kSteps, 0};
  braid_desc desc;
  braid_tensor *tensor;
  gradcheck_ok(g, braid_desc_init(&desc, BRAID_I32, 1, &batch));
  gradcheck_ok(g, braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t b = 0; b < batch; b++) ((int32_t *)braid_tensor_data(tensor))[b] = kLengths[b % 3];
  return tensor;
}

static void set_attrs(gradcheck *g, const variant *v, braid_node_id node) {
  size_t names = 0;
  while (names < 6 && v->activations[names]) names++;
  if (v->direction) gradcheck_ok(g, braid_graph_set_string(g->graph, node, "direction", v->direction));
  gradcheck_ok(g, braid_graph_set_int(g->graph, node, "hidden_size", kHidden));
  gradcheck_ok(g, braid_graph_set_int(g->graph, node, "layout", v->batch_first));
  if (v->linear_before_reset) gradcheck_ok(g, braid_graph_set_int(g->graph, node, "linear_before_reset", 1));
  if (v->input_forget) gradcheck_ok(g, braid_graph_set_int(g->graph, node, "input_forget", 1));
  if (v->clip > 0) gradcheck_ok(g, braid_graph_set_float(g->graph, node, "clip", v->clip));
  if (!names) return;
  gradcheck_ok(g, braid_graph_set_strings(g->graph, node, "activations", v->activations, names));
  if (v->alpha[0] != 0) gradcheck_ok(g, braid_graph_set_floats(g->graph, node, "activation_alpha", v->alpha, 6));
  if (v->beta[0] != 0) gradcheck_ok(g, braid_graph_set_floats(g->graph, node, "activation_beta", v->beta, 6));
}

/* Returns how many outputs there are. */
static size_t build(gradcheck *g, const variant *v, int64_t batch, braid_value_id outputs[3]) {
  bool lstm = v->gates == 4, first = v->batch_first;
  int64_t d = v->direction && strcmp(v->direction, "bidirectional") == 0 ? 2 : 1, rows = v->gates * kHidden;
  int64_t state[3] = {first ? batch : d, first ? d : batch, kHidden};
  braid_value_id inputs[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
  gradcheck_begin(g, v->what);
  inputs[0] = gradcheck_input(g, 3, (int64_t[]){first ? batch : kSteps, first ? kSteps : batch, kInputs}, -1, 1);
  inputs[1] = gradcheck_input(g, 3, (int64_t[]){d, rows, kInputs}, -1, 1);
  inputs[2] = gradcheck_input(g, 3, (int64_t[]){d, rows, kHidden}, -1, 1);
  if (v->bias) inputs[3] = gradcheck_input(g, 2, (int64_t[]){d, 2 * rows}, -0.5, 0.5);
  if (v->lengths) inputs[4] = gradcheck_tensor(g, lengths_tensor(g, batch), true);
  if (v->states) inputs[5] = gradcheck_input(g, 3, state, -1, 1);
  if (v->states && lstm) inputs[6] = gradcheck_input(g, 3, state, -1, 1);
  if (v->peepholes) inputs[7] = gradcheck_input(g, 2, (int64_t[]){d, 3 * kHidden}, -1, 1);
  size_t count = lstm ? 3 : 2;
  for (size_t i = 0; i < count; i++) outputs[i] = v->only_last && i != 1 ? -1 : 0;
  set_attrs(g, v, gradcheck_node(g, v->op, inputs, lstm ? 8 : 6, outputs, count));
  if (!v->only_last) return count;
  outputs[0] = outputs[1];
  return 1;
}

static void finite_differences(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kVariants / sizeof *kVariants; i++) {
    gradcheck g;
    braid_value_id outputs[3];
    size_t count = build(&g, &kVariants[i], kFew, outputs);
    gradcheck_end(&g, outputs, count, 1e-6);
  }
}

static void any_number_of_threads(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kVariants / sizeof *kVariants; i++) {
    gradcheck g;
    braid_value_id outputs[3];
    size_t count = build(&g, &kVariants[i], kMany, outputs);
    gradcheck_differentiate(&g, outputs, count, NULL);
    for (size_t o = 0; o < count; o++) gradcheck_ok(&g, braid_graph_add_output(g.graph, outputs[o]));
    omp_set_num_threads(1);
    braid_graph *one = gradcheck_evaluate(&g);
    omp_set_num_threads(5);
    braid_graph *five = gradcheck_evaluate(&g);
    for (size_t o = 0; o < braid_graph_output_count(one); o++) {
      const braid_tensor *a = gradcheck_output(&g, one, o), *b = gradcheck_output(&g, five, o);
      assert_memory_equal(braid_tensor_const_data(a), braid_tensor_const_data(b),
                          braid_desc_bytes(braid_tensor_desc(a)));
    }
    braid_graph_destroy(one);
    braid_graph_destroy(five);
    gradcheck_destroy(&g);
  }
}

/* What a slope cannot be told of is refused, not wrong. */
static void folded_back(void **state) {
  (void)state;
  const variant v = {.what = "RNN, folded", .op = "RNN", .gates = 1, .activations = {"LeakyRelu"}, .alpha = {-0.5F}};
  gradcheck g;
  braid_value_id outputs[3], gradient, pairs[2];
  build(&g, &v, kFew, outputs);
  pairs[0] = outputs[0];
  const braid_desc desc = braid_graph_value(g.graph, outputs[0]).desc;
  pairs[1] = gradcheck_tensor(&g, gradcheck_random(&g, desc.rank, desc.dims, -1, 1), true);
  braid_value_id loss = gradcheck_loss(&g, pairs, 2);
  assert_int_equal(braid_graph_gradients(g.graph, loss, &g.inputs[0], 1, &gradient), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "LeakyRelu"));
  gradcheck_destroy(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finite_differences),
      cmocka_unit_test(any_number_of_threads),
      cmocka_unit_test(folded_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
