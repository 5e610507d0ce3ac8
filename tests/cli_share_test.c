/* `braid share`: what tenants of a card feel of each other, and how it fails. */
#include "clicheck.h"

static void make_package(void) {
  outcome o = run_quietly("quantize " GLYPHS " --data builtin:glyphs --out $/q.onnx --scales power-of-two --samples 20 "
                          "--test-samples 20 --layers 0");
  discard(&o);
  o = run("compile $/q.onnx --design cnn-16x512 --out $/q.bpk");
  assert_int_equal(o.code, 0);
  discard(&o);
}

static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) count++;
  return count;
}

/* A row for each offence and place; a network of somebody's own as the tenant. */
static void test_isolation(void **state) {
  (void)state;
  outcome o = run_quietly("share --isolation --design cnn-16x512 $/q.bpk --json");
  size_t rows = count_of(o.out, "\"offence\":");
  assert_int_equal(rows, 12 * 3);
  assert_int_equal(count_of(o.out, "\"same_bits\":true"), rows);
  assert_int_equal(count_of(o.out, "\"clean\":true"), rows);
  assert_int_equal(count_of(o.out, "\"where\":\"gated bank\""), 12);
  assert_int_equal(count_of(o.out, "\"status\":\"success\",\"error\":\"\""), 4 * 3);
  assert_int_equal(count_of(o.out, "\"status\":\"timed out\""), 2 * 3);
  discard(&o);
  o = run_quietly("share --isolation --design cnn-16x512");
  assert_non_null(strstr(o.out, "moves all that its ports let it"));
  assert_non_null(strstr(o.out, "its time of 5000 cycles is over"));
  assert_null(strstr(o.out, "NO"));
  discard(&o);
}

static void test_failures(void **state) {
  (void)state;
  expect_failure("share", 2, "--design is expected");
  expect_failure("share --isolation --design cnn-16x512 a b", 2, "--isolation takes one package");
  expect_failure("share --isolation --design cnn-1x8192", 2, "has not two cores at each of two banks");
  expect_failure("share --isolation --design rnn-16x16", 2, "needs a package");
  expect_failure("share --isolation --design nowhere", 2, "nowhere");
  expect_failure("share --isolation --design rnn-16x16 $/q.bpk", 2, "differ");
  put_file("bad.bpk", "no package", 10);
  expect_failure("share --isolation --design cnn-16x512 $/bad.bpk", 2, "no package");
}

static int setup(void **state) {
  int failed = make_folder(state);
  if (!failed) make_package();
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_isolation), cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, setup, remove_folder);
}
