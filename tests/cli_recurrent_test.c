/* `braid compile` and `braid simulate` of recurrent networks: from an ONNX file to numbers, beside `braid run`, and how
 * they fail. */
#include "clicheck.h"

#include "overlay/lstm_graphs.h"

enum { kSteps = 6, kInputs = 9, kHidden = 20, kClasses = 3 };

/* Two layers, the first in both directions, and a classifier of the last step, which is the host's. */
static void write_model(void) {
  const int64_t dims[] = {kSteps, 1, kInputs}, weights[] = {kHidden, kClasses};
  braid_graph *graph;
  rnn_layer one = {.inputs = kInputs, .hidden = 12, .directions = 2, .lengths = -1, .h = -1, .c = -1};
  rnn_layer two = {.inputs = 24, .hidden = kHidden, .directions = 1, .lengths = -1, .h = -1, .c = -1};
  rnn_ok(braid_graph_create(NULL, "speech", &graph));
  rnn_add_lstm(graph, rnn_input(graph, "x", 3, dims), &one);
  rnn_add_lstm(graph, rnn_flatten(graph, &one, kSteps), &two);
  braid_value_id y = rnn_flatten(graph, &two, kSteps);
  braid_value_id product[] = {y, rnn_constant(graph, rnn_tensor(BRAID_F32, 2, weights, 1))};
  braid_value_id classes = rnn_node(graph, "MatMul", product, 2, NULL);
  rnn_ok(braid_graph_rename_value(graph, y, "states"));
  rnn_ok(braid_graph_rename_value(graph, classes, "classes"));
  rnn_ok(braid_graph_add_output(graph, y));
  rnn_ok(braid_graph_add_output(graph, classes));
  rnn_ok(braid_model_save_onnx(graph, in_folder("lstm.onnx")));
  braid_graph_destroy(graph);
  braid_tensor *x = rnn_tensor(BRAID_F32, 3, dims, 2);
  rnn_ok(braid_npy_save(in_folder("x.npy"), x));
  for (int i = 0; i < 5; i++) ((float *)braid_tensor_data(x))[7 * i] = i % 2 ? 40 : -40.5F;
  rnn_ok(braid_npy_save(in_folder("large.npy"), x));
  braid_tensor_release(x);
}

static double number_after(const char *text, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text, quoted);
  assert_non_null(at);
  return strtod(at + strlen(quoted), NULL);
}

static void test_compile(void **state) {
  (void)state;
  write_model();
  outcome o = run("compile $/lstm.onnx --design rnn-16x64 --input $/x.npy --out $/lstm.bpk");
  assert_int_equal(o.code, 0);
  expect_text(o.err, "(MatMul): cores for recurrent networks compute LSTM alone");
  expect_text(o.out, "3 cells, sequences of 6 steps");
  expect_text(o.out, "beside double precision hidden states are at most 0.000");
  expect_text(o.out, "over 1 sequence of 6 steps");
  expect_text(o.out, "16 cores: about ");
  discard(&o);
  o = run("compile $/lstm.onnx --design rnn-16x64 --range 1.5 --json");
  assert_true(is_one_document(o.out));
  assert_true(number_after(o.out, "greatest_input") == 1.5 && number_after(o.out, "hidden_most") < 0.003);
  assert_true(number_after(o.out, "steps") == kSteps);
  expect_text(o.out, "\"assumed\":false");
  discard(&o);
  o = run_quietly("compile $/lstm.bpk --cores 3 --steps 40");
  expect_text(o.out, "sequences of 40 steps");
  expect_text(o.out, "  lstm       rows          3 ");
  discard(&o);
  o = run_quietly("compile $/lstm.bpk --cores 2 --disassemble");
  expect_text(o.out, "# core 1 of 2");
  expect_text(o.out, "MVM    core=1");
  discard(&o);
}

static void test_simulate(void **state) {
  (void)state;
  braid_tensor *ours, *theirs;
  outcome o = run("simulate $/lstm.bpk --design rnn-16x64 --cores 5 --input x=$/x.npy --output states=$/y.npy --check");
  assert_int_equal(o.code, 0);
  expect_text(o.out, "cycles a sequence on 5 cores");
  expect_text(o.out, "checked: the plain order and 4 adversarial ones give the same bits, no races (these inputs)");
  discard(&o);
  o = run("run $/lstm.onnx --input x=$/x.npy --output states=$/real.npy");
  assert_int_equal(o.code, 0);
  discard(&o);
  rnn_ok(braid_npy_load(NULL, in_folder("y.npy"), &ours));
  rnn_ok(braid_npy_load(NULL, in_folder("real.npy"), &theirs));
  assert_int_equal(braid_desc_count(braid_tensor_desc(ours)), kSteps * kHidden);
  double worst = 0;
  for (int64_t i = 0; i < kSteps * kHidden; i++)
    worst = fmax(worst, fabs(braid_tensor_get_f64(ours, i) - braid_tensor_get_f64(theirs, i)));
  print_message("%.6f from braid run\n", worst);
  assert_true(worst > 0 && worst < 0.002);
  braid_tensor_release(ours);
  braid_tensor_release(theirs);
  o = run_quietly("simulate $/lstm.bpk --design rnn-16x64 --cores 3 --check");
  expect_text(o.out, "no races (random inputs)");
  expect_text(o.out, " sequences/s");
  discard(&o);
  o = run("simulate $/lstm.bpk --design rnn-16x64 --cores 2 --input $/large.npy --json");
  expect_text(o.err, "input x: 5 of 54 numbers are beyond 2 and are clipped");
  assert_true(number_after(o.out, "clipped_inputs") == 5);
  discard(&o);
  o = run_quietly("simulate $/lstm.bpk --design rnn-16x64 --cores all --steps 30 --json");
  assert_true(is_one_document(o.out));
  assert_true(number_after(o.out, "steps") == 30);
  discard(&o);
}

static void test_failures(void **state) {
  (void)state;
  expect_failure("run $/lstm.onnx --input x=$/x.npy --device overlay", 2, "LSTM layers are compiled and simulated");
  expect_failure("simulate $/lstm.bpk --design rnn-16x16", 2, "the package is compiled for cores of rnn-16x64");
  expect_failure("simulate $/lstm.bpk --design rnn-16x64 --steps 7 --input $/x.npy", 2,
                 "expected is float32 or int16 of 7, 1, 9 (steps, 1, numbers of a step)");
  expect_failure("compile $/lstm.onnx --design cnn-16x512 --range 2", 2, "are for recurrent networks");
  expect_failure("compile $/lstm.onnx --design rnn-16x64 --range -1", 2, "--range");
  expect_failure("compile $/lstm.bpk --range 2", 2, "need a model that is not compiled yet");
  expect_failure("compile " BRAID_MODELS "/glyphs.cfg --design rnn-16x64", 2, "it has no LSTM");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_compile), cmocka_unit_test(test_simulate),
                                     cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
