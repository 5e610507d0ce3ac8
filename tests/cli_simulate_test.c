/* `braid simulate`: what a package takes, what it computes, against `braid run` of the same network, and how it fails.
 */
#include "clicheck.h"

#include <math.h>

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

static void make_package(void) {
  outcome o = run_quietly("quantize " GLYPHS " --data builtin:glyphs --out $/q.onnx --scales power-of-two --samples 20 "
                          "--test-samples 20 --layers 0");
  discard(&o);
  o = run("compile $/q.onnx --design cnn-16x512 --out $/q.bpk");
  assert_int_equal(o.code, 0);
  discard(&o);
}

static void put_array(const char *name, const char *type, const char *shape, const void *data, size_t bytes) {
  char file[1 << 16] = "\x93NUMPY\x01";
  file[8] = 118;
  snprintf(file + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
  memset(file + 10 + strlen(file + 10), ' ', 118 - strlen(file + 10));
  file[127] = '\n';
  memcpy(file + 128, data, bytes);
  put_file(in_folder(name), file, 128 + bytes);
}

static float *get_floats(const char *name, size_t *count) {
  size_t bytes, head;
  char *text = get_file(in_folder(name), &bytes);
  assert_true(bytes > 10 && strstr(text + 10, "<f4"));
  head = 10 + (size_t)(unsigned char)text[8] + 256 * (size_t)(unsigned char)text[9];
  float *numbers = malloc(bytes);
  assert_non_null(numbers);
  memcpy(numbers, text + head, bytes - head);
  *count = (bytes - head) / sizeof *numbers;
  free(text);
  return numbers;
}

static void test_times(void **state) {
  (void)state;
  outcome o = run_quietly("simulate $/q.bpk --design cnn-16x512 --cores 4 --json");
  assert_true(is_one_document(o.out));
  double cycles = number_after(o.out, "runs", "modelled_cycles");
  assert_true(cycles > 0 && number_after(o.out, "runs", "cores") == 4);
  assert_true(fabs(number_after(o.out, "runs", "modelled_seconds") * 300e6 - cycles) < 1);
  assert_true(number_after(o.out, "runs", "modelled_operations_per_second") <=
              number_after(o.out, "runs", "roofline_operations_per_second"));
  discard(&o);
  o = run_quietly("simulate $/q.bpk --design cnn-16x512 --cores 4");
  char line[64];
  snprintf(line, sizeof line, "modelled: %.0f cycles an image on 4 cores", cycles); /* the same every time */
  expect_text(o.out, line);
  expect_text(o.out, "of the roofline");
  expect_text(o.out, "measured here: programs made in");
  discard(&o);
  o = run_quietly("simulate $/q.bpk --design cnn-16x512 --cores all");
  expect_text(o.out, "speed-up");
  expect_text(o.out, "\n   16 ");
  discard(&o);
}

static void test_results(void **state) {
  (void)state;
  outcome o = run_quietly("simulate $/q.bpk --design cnn-16x512 --cores 3 --check");
  expect_text(o.out, "checked: the plain order and 4 adversarial ones give the same bits, no races (random inputs)");
  discard(&o);
  static float numbers[3 * 32 * 32];
  for (size_t i = 0; i < 3 * 32 * 32; i++) numbers[i] = (float)(i * 37 % 101) / 50 - 1;
  put_array("in.npy", "<f4", "(1, 3, 32, 32)", numbers, sizeof numbers);
  o = run_quietly("simulate $/q.bpk --design cnn-16x512 --input $/in.npy --output $/a.npy --cores 1");
  expect_text(o.out, "written: ");
  discard(&o);
  o = run_quietly("simulate $/q.bpk --design cnn-16x512 --input $/in.npy --output $/b.npy --check --json");
  assert_true(number_after(o.out, "design", "orders_checked") == 5);
  discard(&o);
  o = run("run $/q.onnx --input $/in.npy --output $/c.npy");
  assert_int_equal(o.code, 0);
  discard(&o);
  size_t a_count, b_count, c_count;
  float *a = get_floats("a.npy", &a_count), *b = get_floats("b.npy", &b_count), *c = get_floats("c.npy", &c_count);
  assert_true(a_count > 1 && a_count == b_count && a_count == c_count);
  assert_memory_equal(a, b, a_count * sizeof *a);
  double sum = 0, least = 1, most = 0; /* the package ends before the Softmax */
  for (size_t i = 0; i < a_count; i++) sum += exp(a[i]);
  for (size_t i = 0; i < a_count; i++) {
    assert_true(fabs(exp(a[i]) / sum - c[i]) < 1e-5);
    least = fmin(least, c[i]);
    most = fmax(most, c[i]);
  }
  assert_true(most - least > 0.01);
  free(a);
  free(b);
  free(c);
}

/* The trace holds what is printed: what compute was busy, in microseconds of 300 MHz, and all bytes. */
static void test_timeline(void **state) {
  (void)state;
  outcome o = run_quietly("simulate $/q.bpk --design cnn-16x512 --cores 2 --timeline $/t.html --trace $/t.json --json");
  assert_true(is_one_document(o.out));
  double cycles = number_after(o.out, "runs", "modelled_cycles"), busy = number_after(o.out, "\"compute\"", "busy");
  double moved = number_after(o.out, "runs", "read_bytes") + number_after(o.out, "runs", "written_bytes");
  discard(&o);
  size_t length;
  char *trace = get_file(in_folder("t.json"), &length), *page;
  assert_true(is_one_document(trace));
  double microseconds = 0, bytes = 0;
  for (const char *at = trace; (at = strstr(at, "\"cat\":\"instruction\"")); at++) {
    const char *line = at, *end = strchr(at, '\n');
    while (*line != '\n') line--;
    if (strstr(line, "\"tid\":2,") && strstr(line, "\"tid\":2,") < end)
      microseconds += strtod(strstr(line, "\"dur\":") + 6, NULL);
    const char *moves = strstr(at, "\"bytes\":");
    if (moves && moves < end) bytes += strtod(moves + 8, NULL);
  }
  assert_true(fabs(microseconds * 300 - busy * cycles * 2) < 2);
  assert_true(bytes == moved);
  assert_non_null(strstr(trace, "\"name\":\"core 1 (modelled)\""));
  assert_non_null(strstr(trace, "\"DDR, GB/s\""));
  page = get_file(in_folder("t.html"), &length);
  char text[64];
  snprintf(text, sizeof text, "Modelled: %.0f cycles", cycles);
  assert_non_null(strstr(page, text));
  assert_null(strstr(page, "http")); /* needs nothing from elsewhere */
  free(trace);
  free(page);
}

static void test_failures(void **state) {
  (void)state;
  expect_failure("simulate $/q.bpk --design cnn-16x512 --timeline $/none/t.html", 1, "none/t.html");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --timeline $/t --trace $/t", 2,
                 "--timeline and --trace are one file");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --trace $/./q.bpk", 2, "is the package: another file");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --input $/in.npy --output $/in.npy", 2, "an array of --input");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --input $/in.npy --output $/o --trace $/./o", 2, "are one file");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --cores all --trace $/t.json", 2, "--cores all goes without");
  expect_failure("simulate", 2, "a package is expected");
  expect_failure("simulate $/q.bpk", 2, "--design is expected");
  expect_failure("simulate $/none.bpk --design cnn-16x512", 2, "none.bpk");
  expect_failure("simulate $/q.bpk --design cnn-1x8192", 2, "those of cnn-1x8192 differ");
  expect_failure("simulate $/q.bpk --design rnn-16x16", 2, "differ");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --cores 17", 2, "17 cores: cnn-16x512 has 1 to 16");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --cores all --check", 2, "--cores all goes without");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --output $/o.npy", 2, "--output needs --input");
  put_array("bad.npy", "<f4", "(2, 2)", "0123456789abcdef", 16);
  expect_failure("simulate $/q.bpk --design cnn-16x512 --input $/bad.npy", 2, "is float32[2,2]; expected is");
  expect_failure("simulate $/q.bpk --design cnn-16x512 --input nope=$/bad.npy", 2, "has no input nope; it has input");
  put_file("bad.bpk", "BRAIDBPK", 8);
  expect_failure("simulate $/bad.bpk --design cnn-16x512", 2, "bad.bpk: this is no package");
}

static int setup(void **state) {
  int failed = make_folder(state);
  if (!failed) make_package();
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_times), cmocka_unit_test(test_results),
                                     cmocka_unit_test(test_timeline), cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, setup, remove_folder);
}
