/* `braid compile`: designs of the overlay, as text and as JSON, and how it fails. */
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
  expect_text(o.out, "One core alone: 153.6 GOPS, 4.8 GB/s, 32 operations a byte");
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_show),
                                     cmocka_unit_test(test_own_files), cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
