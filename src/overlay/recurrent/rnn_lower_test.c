/* LSTM nodes of graphs on the overlay: near what the CPU computes in float, whatever the direction, layout, stacking
 * and first states; what the overlay can't compute is refused with its reason. */
#include "overlay/lstm_graphs.h"

#include "braid/overlay.h"

static const braid_overlay_design *design;

static int load_design(void **state) {
  (void)state;
  rnn_ok(braid_overlay_design_load(NULL, "rnn-16x16", &design));
  return 0;
}

static int free_design(void **state) {
  (void)state;
  braid_overlay_design_destroy(design);
  return 0;
}

/* --- beside the CPU ------------------------------------------------------------------------------------------------
 */
enum { kMostInputs = 16, kMostOutputs = 16 };

static braid_value_id draw_state(braid_graph *graph, const rnn_layer *l, double scale, const char *name) {
  const int64_t first[] = {1, l->directions, l->hidden}, plain[] = {l->directions, 1, l->hidden};
  const int64_t *dims = l->batch_first ? first : plain;
  switch (rnn_draw(3)) {
  case 0:
    return -1;
  case 1:
    return rnn_constant(graph, rnn_tensor(BRAID_F32, 3, dims, scale));
  default:
    return rnn_input(graph, name, 3, dims);
  }
}

/* One to three layers, one after the other. */
static braid_graph *draw_graph(int64_t *steps) {
  braid_graph *graph;
  rnn_ok(braid_graph_create(NULL, "lstm", &graph));
  bool batch_first = rnn_draw(2), short_of = rnn_draw(3) == 0;
  *steps = 1 + rnn_draw(9);
  int64_t inputs = 1 + rnn_draw(40);
  const int64_t first[] = {1, *steps, inputs}, plain[] = {*steps, 1, inputs};
  braid_value_id x = rnn_input(graph, "x", 3, batch_first ? first : plain), lengths = -1;
  if (short_of) {
    int64_t one = 1;
    braid_tensor *tensor = rnn_tensor(BRAID_I32, 1, &one, 0);
    braid_tensor_set_f64(tensor, 0, 1 + rnn_draw((int)*steps));
    lengths = rnn_constant(graph, tensor);
  }
  for (int n = 1 + rnn_draw(3), i = 0; i < n; i++) {
    rnn_layer l = {.inputs = inputs, .hidden = 1 + rnn_draw(40), .directions = 1 + rnn_draw(2)};
    char names[2][16];
    snprintf(names[0], sizeof names[0], "h%d", i);
    snprintf(names[1], sizeof names[1], "c%d", i);
    l.backwards = rnn_draw(2);
    l.batch_first = batch_first && i == 0;
    l.lengths = lengths;
    l.h = draw_state(graph, &l, 0.9, names[0]);
    l.c = draw_state(graph, &l, 2, names[1]);
    rnn_add_lstm(graph, x, &l);
    x = rnn_flatten(graph, &l, *steps);
    inputs = l.directions * l.hidden;
    if (rnn_draw(2)) rnn_ok(braid_graph_add_output(graph, l.outputs[2])); /* not in the order of computing */
    rnn_ok(braid_graph_add_output(graph, l.outputs[1]));
    if (i + 1 == n || rnn_draw(2)) rnn_ok(braid_graph_add_output(graph, x));
  }
  rnn_ok(braid_resolve(graph));
  return graph;
}

static size_t find_port(const braid_overlay_package *package, bool outputs, const char *name) {
  size_t count = braid_overlay_package_port_count(package, outputs);
  for (size_t i = 0; i < count; i++)
    if (strcmp(braid_overlay_package_get_port(package, outputs, i).name, name) == 0) return i;
  fail_msg("no port %s", name);
  return 0;
}

static double compare_graph(const braid_graph *graph, const braid_overlay_package *package, int cores) {
  size_t inputs = braid_graph_input_count(graph), outputs = braid_graph_output_count(graph);
  braid_tensor *given[kMostInputs], *ordered[kMostInputs], *ours[kMostOutputs];
  const void *data[kMostInputs];
  void *theirs[kMostOutputs];
  double worst = 0;
  assert_int_equal(inputs, braid_overlay_package_port_count(package, false));
  assert_int_equal(outputs, braid_overlay_package_port_count(package, true));
  for (size_t i = 0; i < inputs; i++) {
    braid_value_info info = braid_graph_value(graph, braid_graph_input(graph, i));
    given[i] = rnn_tensor(BRAID_F32, info.desc.rank, info.desc.dims, info.name[0] == 'h' ? 0.9 : 2);
    data[i] = braid_tensor_const_data(given[i]);
    assert_int_equal(find_port(package, false, info.name), i); /* in the graph's order */
    ordered[i] = given[i];
  }
  for (size_t o = 0; o < outputs; o++) theirs[o] = malloc(sizeof(float) * 10 * 100);
  braid_session *session;
  rnn_ok(braid_session_create(graph, NULL, &session));
  rnn_ok(braid_session_run(session, data, theirs));
  braid_session_destroy(session);
  rnn_ok(braid_overlay_run(package, design, cores, NULL, ordered, NULL, ours));
  for (size_t o = 0; o < outputs; o++) {
    braid_value_info info = braid_graph_value(graph, braid_graph_output(graph, o));
    assert_int_equal(find_port(package, true, info.name), o);
    const braid_tensor *own = ours[o];
    int64_t count = braid_desc_count(&info.desc);
    assert_int_equal(braid_desc_count(braid_tensor_desc(own)), count);
    const float *a = braid_tensor_const_data(own), *b = theirs[o];
    for (int64_t k = 0; k < count; k++) {
      double error = fabs((double)a[k] - (double)b[k]);
      assert_true(isfinite(error));
      if (error > worst) worst = error;
    }
  }
  for (size_t i = 0; i < inputs; i++) braid_tensor_release(given[i]);
  for (size_t o = 0; o < outputs; o++) {
    braid_tensor_release(ours[o]);
    free(theirs[o]);
  }
  return worst;
}

static void test_graphs(void **state) {
  (void)state;
  double worst = 0;
  for (int trial = 0; trial < 60; trial++) {
    int64_t steps;
    braid_graph *graph = draw_graph(&steps);
    braid_overlay_package *package;
    braid_overlay_recurrent_options options = {.greatest = 2};
    braid_overlay_recurrent_error error;
    rnn_ok(braid_overlay_compile_recurrent(graph, design, &options, NULL, NULL, &error, &package));
    assert_int_equal(braid_overlay_package_get_info(package).steps, steps);
    assert_true(error.random && !error.assumed && error.clipped == 0 && error.most > 0 && error.most < 0.01);
    worst = fmax(worst, compare_graph(graph, package, 1 + rnn_draw(16)));
    braid_overlay_package_destroy(package);
    braid_graph_destroy(graph);
  }
  print_message("outputs are at most %.5f from those of the CPU in float\n", worst);
  assert_true(worst < 0.004 && worst > 0);
}

/* --- what is refused -----------------------------------------------------------------------------------------------
 */
static braid_graph *small_graph(rnn_layer *l, int64_t batch) {
  braid_graph *graph;
  const int64_t dims[] = {3, batch, 5};
  rnn_ok(braid_graph_create(NULL, "lstm", &graph));
  *l = (rnn_layer){.inputs = 5, .hidden = 6, .directions = 1, .lengths = -1, .h = -1, .c = -1};
  rnn_add_lstm(graph, rnn_input(graph, "x", 3, dims), l);
  rnn_ok(braid_graph_add_output(graph, l->outputs[0]));
  return graph;
}

/* Frees the graph. */
static void refused(braid_graph *graph, const char *why) {
  braid_overlay_package *package;
  char *host = NULL;
  rnn_ok(braid_resolve(graph));
  assert_int_equal(braid_overlay_compile_recurrent(graph, design, NULL, NULL, &host, NULL, &package),
                   BRAID_UNSUPPORTED);
  assert_null(package);
  assert_null(host);
  if (!strstr(braid_error_detail(), why)) fail_msg("\"%s\" lacks \"%s\"", braid_error_detail(), why);
  braid_graph_destroy(graph);
}

static void test_refused_attributes(void **state) {
  (void)state;
  static const char *const relu[] = {"Sigmoid", "Relu", "Tanh"};
  rnn_layer l;
  braid_graph *graph = small_graph(&l, 1);
  rnn_ok(braid_graph_set_strings(graph, l.node, "activations", relu, 3));
  refused(graph, "its activations are not Sigmoid, Tanh, Tanh");
  graph = small_graph(&l, 1);
  rnn_ok(braid_graph_set_float(graph, l.node, "clip", 3));
  refused(graph, "it has clip");
  graph = small_graph(&l, 1);
  rnn_ok(braid_graph_set_int(graph, l.node, "input_forget", 1));
  refused(graph, "it has input_forget");
  refused(small_graph(&l, 2), "its batch is 2; the overlay computes one sequence at a time");
}

/* An LSTM of 5 inputs and 6 states whose inputs from `at` on are these. */
static braid_graph *odd_graph(size_t at, braid_value_id (*make)(braid_graph *graph)) {
  const int64_t dims[][3] = {{3, 1, 5}, {1, 24, 5}, {1, 24, 6}};
  braid_graph *graph;
  braid_value_id inputs[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, outputs[3] = {0, -1, -1};
  braid_node_id node;
  rnn_ok(braid_graph_create(NULL, "lstm", &graph));
  inputs[0] = rnn_input(graph, "x", 3, dims[0]);
  for (int i = 1; i < 3; i++) inputs[i] = rnn_constant(graph, rnn_tensor(BRAID_F32, 3, dims[i], 0.3));
  inputs[at] = make(graph);
  rnn_ok(braid_graph_add_node(graph, "LSTM", "cell", inputs, 8, outputs, 3, &node));
  rnn_ok(braid_graph_set_int(graph, node, "hidden_size", 6));
  rnn_ok(braid_graph_add_output(graph, outputs[0]));
  return graph;
}

static braid_value_id nan_weights(braid_graph *graph) {
  braid_tensor *tensor = rnn_tensor(BRAID_F32, 3, (int64_t[]){1, 24, 5}, 0.3);
  braid_tensor_set_f64(tensor, 17, (double)NAN);
  return rnn_constant(graph, tensor);
}

static braid_value_id given_weights(braid_graph *graph) {
  return rnn_input(graph, "w", 3, (int64_t[]){1, 24, 5});
}

static braid_value_id peepholes(braid_graph *graph) {
  return rnn_constant(graph, rnn_tensor(BRAID_F32, 2, (int64_t[]){1, 18}, 1));
}

static braid_value_id great_state(braid_graph *graph) {
  braid_tensor *tensor = rnn_tensor(BRAID_F32, 3, (int64_t[]){1, 1, 6}, 1);
  braid_tensor_set_f64(tensor, 2, 1.5);
  return rnn_constant(graph, tensor);
}

static braid_value_id given_lengths(braid_graph *graph) {
  braid_desc desc;
  braid_value_id value;
  rnn_ok(braid_desc_init(&desc, BRAID_I32, 1, (int64_t[]){1}));
  rnn_ok(braid_graph_add_input(graph, "lengths", &desc, &value));
  return value;
}

static braid_value_id zero_length(braid_graph *graph) {
  return rnn_constant(graph, rnn_tensor(BRAID_I32, 1, (int64_t[]){1}, 0));
}

static void test_refused_inputs(void **state) {
  (void)state;
  refused(odd_graph(1, nan_weights), "must be finite numbers");
  refused(odd_graph(1, given_weights), "W, R or B is not a constant of float32");
  refused(odd_graph(7, peepholes), "it has peepholes (P)");
  refused(odd_graph(5, great_state), "a first state is 1.5; -1 to 1 are possible");
  refused(odd_graph(4, given_lengths), "sequence_lens is not constant");
  refused(odd_graph(4, zero_length), "sequence_lens is 0, 1 to 3 are possible");
}

/* The second layer's input is the host's, of what the first computes: the first alone is taken. */
static void test_comes_back(void **state) {
  (void)state;
  rnn_layer l, second = {.inputs = 6, .hidden = 4, .directions = 1, .lengths = -1, .h = -1, .c = -1};
  braid_graph *graph = small_graph(&l, 1);
  braid_value_id y = rnn_flatten(graph, &l, 3);
  rnn_add_lstm(graph, rnn_node(graph, "Relu", &y, 1, NULL), &second);
  rnn_ok(braid_graph_add_output(graph, second.outputs[0]));
  rnn_ok(braid_resolve(graph));
  braid_overlay_package *package;
  char *host;
  rnn_ok(braid_overlay_compile_recurrent(graph, design, NULL, NULL, &host, NULL, &package));
  assert_int_equal(braid_overlay_package_get_info(package).layers, 1);
  assert_non_null(strstr(host, "(Relu): cores for recurrent networks compute LSTM alone"));
  assert_non_null(strstr(host, "is computed by the host of what the overlay computes before"));
  braid_free(NULL, host);
  braid_overlay_package_destroy(package);
  assert_int_equal(braid_overlay_compile(graph, design, NULL, NULL, &package), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "(Relu)"));
  braid_graph_destroy(graph);
}

/* Sequences of a network of one step are as long as the array says. */
static void test_single_steps(void **state) {
  (void)state;
  for (int64_t steps = 1; steps < 6; steps += 3) {
    rnn_layer l = {.inputs = 5, .hidden = 6, .directions = 1, .lengths = -1, .h = -1, .c = -1};
    braid_graph *graph;
    braid_overlay_package *package;
    braid_overlay_recurrent_error error;
    char *host;
    rnn_ok(braid_graph_create(NULL, "single", &graph));
    rnn_add_lstm(graph, rnn_input(graph, "x", 3, (int64_t[]){1, 1, 5}), &l);
    rnn_ok(braid_graph_add_output(graph, l.outputs[1]));
    rnn_ok(braid_resolve(graph));
    braid_tensor *samples = rnn_tensor(BRAID_F32, 4, (int64_t[]){8, steps, 1, 5}, 1);
    braid_overlay_recurrent_options options = {.samples = samples};
    rnn_ok(braid_overlay_compile_recurrent(graph, design, &options, NULL, &host, &error, &package));
    assert_true(error.sequences == 8 && error.steps == steps);
    braid_free(NULL, host);
    braid_overlay_package_destroy(package);
    braid_tensor_release(samples);
    braid_graph_destroy(graph);
  }
}

static void test_samples(void **state) {
  (void)state;
  rnn_layer l;
  braid_graph *graph = small_graph(&l, 1);
  braid_overlay_package *package;
  braid_overlay_recurrent_error error;
  char *host;
  rnn_ok(braid_resolve(graph));
  braid_tensor *samples = rnn_tensor(BRAID_F32, 4, (int64_t[]){7, 3, 1, 5}, 1);
  braid_tensor_set_f64(samples, 40, -3.5);
  braid_overlay_recurrent_options options = {.samples = samples};
  rnn_ok(braid_overlay_compile_recurrent(graph, design, &options, NULL, &host, &error, &package));
  assert_true(error.greatest == 3.5 && !error.random && !error.assumed && error.clipped == 0);
  assert_true(error.sequences == 7 && error.steps == 3 && error.numbers == 7 * 3 * 6 && error.most < 0.004);
  double exact = error.most;
  braid_free(NULL, host);
  braid_overlay_package_destroy(package);
  options.greatest = 1;
  rnn_ok(braid_overlay_compile_recurrent(graph, design, &options, NULL, &host, &error, &package));
  assert_true(error.clipped == 1 && error.most > exact);
  braid_free(NULL, host);
  braid_overlay_package_destroy(package);
  braid_tensor_set_f64(samples, 3, (double)INFINITY);
  assert_int_equal(braid_overlay_compile_recurrent(graph, design, &options, NULL, &host, &error, &package),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "number 3 is not finite"));
  braid_tensor_release(samples);
  options.samples = samples = rnn_tensor(BRAID_F32, 2, (int64_t[]){3, 4}, 1);
  assert_int_equal(braid_overlay_compile_recurrent(graph, design, &options, NULL, &host, &error, &package),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "whose last dimension is 5"));
  braid_tensor_release(samples);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs),         cmocka_unit_test(test_refused_attributes),
                                     cmocka_unit_test(test_refused_inputs), cmocka_unit_test(test_comes_back),
                                     cmocka_unit_test(test_single_steps),   cmocka_unit_test(test_samples)};
  return cmocka_run_group_tests(tests, load_design, free_design);
}
