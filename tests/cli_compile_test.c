/* `braid compile`: designs of the overlay, as text and as JSON, packages, and how it fails. */
#include "clicheck.h"

/* The number after "key": behind `from`. */
static double number_after(const char *text, const char *from, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text, from);
  assert_non_null(at);
  at = strstr(at, quoted);
  assert_non_null(at);
  return strtod(at + strlen(quoted), NULL);
}

static void test_list(void **state) {
  (void)state;
  outcome o = run_quietly("compile --designs");
  static const char *const names[] = {"cnn-16x512", "cnn-1x8192", "rnn-16x1 ", "rnn-16x16", "rnn-16x64"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) expect_text(o.out, names[i]);
  discard(&o);
  o = run_quietly("compile --designs --json");
  assert_true(is_one_document(o.out));
  assert_true(number_after(o.out, "rnn-16x64", "operations_per_cycle") == 2048);
  discard(&o);
}

static void test_show(void **state) {
  (void)state;
  outcome o = run_quietly("compile --design cnn-16x512 --show");
  expect_text(o.out, "at most 2458 GOPS");
  expect_text(o.out, "One core alone: 153.6 GOPS, 9.6 GB/s, of which 4.8 one way, 16 operations a byte");
  expect_text(o.out, "What is assumed");
  expect_text(o.out, "not known: it counts other cells and blocks"); /* Intel's chips */
  expect_text(o.out, "no: BRAM");                                    /* chips without UltraRAM */
  expect_text(o.out, "what the paper's platform leaves");
  expect_text(o.out, "436k (-0.5%, -3.0%)");
  discard(&o);
  o = run_quietly("compile --design rnn-1x1024 --show --chip alveo-u250 --json");
  assert_true(is_one_document(o.out));
  assert_true(number_after(o.out, "\"estimated\"", "dsps") == 1024);
  assert_true(number_after(o.out, "\"chips\"", "urams") == 1280);
  assert_true(number_after(o.out, "\"roofline\"", "operations_per_second") == 409.6e9);
  expect_text(o.out, "\"rows\":{\"value\":32,");
  expect_text(o.out, "\"assumed\":false");
  assert_null(strstr(o.out, "Stratix"));
  discard(&o);
}

static void test_own_files(void **state) {
  (void)state;
  outcome o = run_quietly("compile --design " BRAID_DESIGNS "/rnn-16x64.yaml --show --chip xczu9eg");
  expect_text(o.out, "rnn-16x64: 16 cores");
  expect_text(o.out, "XCZU9EG");
  discard(&o);
  const char *text = "name: wide\nsummary: s\nnetwork: recurrent\ncores: {value: 0, source: s}\n";
  put_file("wide.yaml", text, strlen(text));
  expect_failure("compile --design $/wide.yaml --show", 2, "line 4: cores is 0");
}

#define NET BRAID_MODELS "/glyphs.cfg"
#define DATA " --data builtin:glyphs"

/* A network becomes a file, which says the same of itself. */
static void test_package(void **state) {
  (void)state;
  outcome o = run_quietly("quantize " NET DATA
                          " --out $/q.onnx --scales power-of-two --samples 20 --test-samples 20 --layers 0");
  discard(&o);
  o = run("compile $/q.onnx --design cnn-16x512 --out $/q.bpk --cores 4 --json");
  assert_int_equal(o.code, 0);
  expect_text(o.err, "left to the host");
  expect_text(o.out, "(Softmax): the overlay has no such op");
  assert_true(is_one_document(o.out));
  double cycles = number_after(o.out, "programs", "cycles");
  assert_true(cycles > 0 && number_after(o.out, "programs", "bound_cycles") <= cycles);
  assert_true(number_after(o.out, "design", "compile_ms") > 0);
  expect_text(o.out, "\"inputs\":[{\"name\":\"input\",\"dtype\":\"float32\",\"dims\":[3,32,32],");
  discard(&o);
  o = run_quietly("compile $/q.bpk --cores 4 --json");
  assert_true(number_after(o.out, "programs", "cycles") == cycles);
  discard(&o);
  o = run_quietly("compile $/q.bpk");
  expect_text(o.out, "16 cores: about");
  expect_text(o.out, "input: input (float32 3 x 32 x 32); output: v_");
  discard(&o);
  o = run_quietly("compile $/q.bpk --cores 2 --disassemble");
  expect_text(o.out, "# core 1 of 2");
  expect_text(o.out, "CONV   core=1");
  expect_text(o.out, "SYSTEM core=1 end=1");
  discard(&o);
  o = run_quietly("compile $/q.bpk --disassemble");
  expect_text(o.out, "by channels, tile 1 of 2");
  discard(&o);
  expect_failure("compile $/q.onnx --design rnn-16x16", 2, "recurrent");
  expect_failure("compile " NET " --design cnn-16x512", 2, "the overlay can compute nothing of it");
}

/* What a command reads is not replaced, whatever its path is. */
static void test_files(void **state) {
  (void)state;
  size_t before, after;
  char *text = get_file(in_folder("q.onnx"), &before);
  expect_failure("compile $/q.onnx --design cnn-16x512 --out $/./q.onnx", 2, "q.onnx is the model: another file");
  expect_failure("compile $/q.onnx --design $/wide.yaml --out $/wide.yaml", 2, "wide.yaml is the design: another");
  char *again = get_file(in_folder("q.onnx"), &after);
  assert_int_equal(before, after);
  assert_memory_equal(text, again, before);
  free(text);
  free(again);
}

static void test_package_failures(void **state) {
  (void)state;
  expect_failure("compile $/none.bpk", 2, "none.bpk");
  put_file("bad.bpk", "BRAIDBPK", 8);
  expect_failure("compile $/bad.bpk", 2, "bad.bpk: this is no package");
  expect_failure("compile $/bad.bpk --design cnn-16x512", 2, "compiled already");
  expect_failure("compile model.onnx", 2, "--design is expected");
  expect_failure("compile --design cnn-16x512 --show --cores 3", 2, "need a model");
  expect_failure("compile $/bad.bpk --cores 65", 2, "--cores");
}

static void test_failures(void **state) {
  (void)state;
  expect_failure("compile", 2, "--design or --designs is expected");
  expect_failure("compile --design cnn-16x512", 2, "--show is expected");
  expect_failure("compile --designs --show", 2, "--designs goes without");
  expect_failure("compile --design nope --show", 2, "there is no design \"nope\"; there are cnn-16x512");
  expect_failure("compile --design nope.yaml --show", 2, "nope.yaml");
  expect_failure("compile --design cnn-16x512 --show --chip nope", 2, "there is no chip");
  expect_failure("compile model.onnx --design cnn-16x512 --show", 2, "model.onnx");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_list),      cmocka_unit_test(test_show),
                                     cmocka_unit_test(test_own_files), cmocka_unit_test(test_package),
                                     cmocka_unit_test(test_files),     cmocka_unit_test(test_package_failures),
                                     cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
