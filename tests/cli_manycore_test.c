/* `braid evaluate manycore` and `--device manycore`: what was published stands beside ours, ours keeps the bounds that
 * follow from the processor's arithmetic, options are checked. */
#include "clicheck.h"

static double number_after(const char **text, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(*text, quoted);
  if (!at) fail_msg("no %s", key);
  *text = at + strlen(quoted);
  return strtod(*text, NULL);
}

static void test_text(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate manycore --model lenet --html $/manycore.html");
  static const char *const kSaid[] = {
      "Fig. 7",  "up to 45",     "published", "modelled",      "the paper's example",
      "lenet  ", "lenet Conv",   "VGG-16",    "Dongarra 2016", "None is fitted to the paper",
      "3 - 16",  "core group ms"};
  for (size_t i = 0; i < sizeof kSaid / sizeof *kSaid; i++) expect_text(o.out, kSaid[i]);
  assert_null(strstr(o.out, "resnet50-v2"));
  discard(&o);
  char *page = get_file(in_folder("manycore.html"), NULL);
  expect_text(page, "up to 45");
  free(page);
}

/* 64 cores have 128 times the arithmetic of the management core without vectors, 32 times that of one with them. */
static void test_json(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate manycore --model cifarnet,lenet --json");
  assert_true(is_one_document(o.out));
  const char *at = o.out;
  assert_true(number_after(&at, "published_times_at_most") == 45);
  for (int i = 0; i < 10; i++) {
    double scalar = number_after(&at, "modelled_management_scalar_ms");
    double vectors = number_after(&at, "modelled_management_vectors_ms");
    double ours = number_after(&at, "modelled_core_group_ms");
    assert_true(ours > 0 && scalar / ours > 10 && scalar / ours < 128 && vectors / ours < 32);
  }
  discard(&o);
}

static void test_refusals(void **state) {
  (void)state;
  expect_failure("evaluate manycore --model vgg16", 2, "cifarnet, lenet, inception-v3 and resnet50-v2");
  expect_failure("evaluate manycore --measure", 2, "--measure has no effect on manycore");
  expect_failure("evaluate manycore --table 2", 2, "--table and --figure are for overlay");
  expect_failure("run " BRAID_MODELS "/lenet.cfg --device manycore:cores=9999 --input " BRAID_PICTURES "/star.png", 2,
                 "from 1 to 4096");
}

static void test_run(void **state) {
  (void)state;
  outcome o = run("run " BRAID_MODELS "/cifarnet.cfg --model-seed 3 --device manycore --explain --input " BRAID_PICTURES
                  "/star.png --top 1");
  assert_int_equal(o.code, 0);
  expect_text(o.out, "core_conv");
  expect_text(o.out, "core_product");
  expect_text(o.out, "ref_lrn");
  discard(&o);
}

/* A profile says that times of a simulated device are none of this machine. */
static void test_profile(void **state) {
  (void)state;
  outcome o = run_quietly("profile --db $/p.db --devices manycore --ops Relu --sizes small --seconds 0.01 --show");
  expect_text(o.out, "manycore: energy: the device is simulated: its times are modelled");
  discard(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text), cmocka_unit_test(test_json),    cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_run),  cmocka_unit_test(test_profile),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
