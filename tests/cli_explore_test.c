/* `braid explore` and `braid evaluate tiles`: what they print, on terminals and as JSON, and how they fail. */
#include "clicheck.h"
#include "skip.h"

#define LENET BRAID_MODELS "/lenet.cfg"
#define TILE BRAID_MODELS "/vgg-tile.cfg"

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

static void expect_near(double value, double expected, double most) {
  if (!(value >= expected - most && value <= expected + most)) fail_msg("%g is not %g", value, expected);
}

static void test_explore(void **state) {
  (void)state;
  outcome o = run_quietly("explore tiles --network " TILE " --chip vu9p");
  expect_text(o.out, "The paper's design points");
  expect_text(o.out, "no: DSPs 120%");
  expect_text(o.out, "Fastest: T_B = 128, T_I = 52");
  expect_text(o.out, "literally: T_B = 43, T_I = 43");
  expect_text(o.out, "published  331 ms");
  expect_text(o.out, "Nothing is fitted");
  expect_text(o.out, "no published point validates it");
  discard(&o);
  o = run_quietly("explore tiles --network " TILE " --chip XCVU9P --json");
  assert_true(is_one_document(o.out));
  expect_near(number_after(o.out, "\"check\"", "modelled_conv_ms"), 284.43, 0.01);
  expect_near(number_after(o.out, "\"check\"", "modelled_connected_ms"), 3.947, 0.001);
  expect_near(number_after(o.out, "\"check\"", "published_ms"), 331, 0);
  expect_near(number_after(o.out, "\"bandwidth_gb_s\"", "value"), 63.9, 0);
  expect_near(number_after(o.out, "\"best\"", "ti"), 52, 0);
  expect_text(o.out, "\"binding_limit\":\"DSPs\"");
  expect_text(o.out, "\"pass\":\"col2im\"");
  expect_text(o.out, "\"macs\":236059361280,");
  discard(&o);
  o = run_quietly("explore tiles --network " LENET " --chip arria10-gx1150 --batch 32 --tb 32,16 --ti 8 --clock 250");
  expect_text(o.out, "250 MHz");
  expect_text(o.out, "2 designs were tried");
  expect_text(o.out, "no bandwidth");
  discard(&o);
  o = run_quietly("explore tiles --network " LENET " --chip xczu9eg --tb 4096 --ti 64");
  expect_text(o.out, "(the paper's; the chip file says none)");
  expect_text(o.out, "No design fits.");
  discard(&o);
}

static void test_files(void **state) {
  (void)state;
  outcome o = run_quietly("explore tiles --network " LENET " --chip vu9p --svg $/designs.svg --html $/designs.html");
  discard(&o);
  char *svg = get_file(in_folder("designs.svg"), NULL), *html = get_file(in_folder("designs.html"), NULL);
  assert_int_equal(strncmp(svg, "<svg xmlns=", 11), 0);
  expect_text(svg, "128, 32</text>");
  expect_text(svg, "designs that no other one beats");
  expect_text(html, "</html>");
  expect_text(html, "polyline");
  expect_text(html, "Layers at the fastest design");
  free(svg);
  free(html);
  o = run_quietly("evaluate tiles --html $/tables.html");
  discard(&o);
  html = get_file(in_folder("tables.html"), NULL);
  expect_text(html, "<td>66439</td>");
  expect_text(html, "<td>not measured</td>");
  free(html);
}

static void test_evaluate(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate tiles");
  static const char *const parts[] = {"66439",
                                      "3270",
                                      "53.4",
                                      "667.1",
                                      "4878",
                                      "65.37",
                                      "not published as numbers",
                                      "the nine points are in the order of the rule in Section 8.1",
                                      "Braid, int8: "};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect_text(o.out, parts[i]);
  discard(&o);
  o = run_quietly("evaluate tiles --json");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "\"order_follows_rule\":true");
  expect_text(o.out, "\"measured_ms\":null");
  expect_near(number_after(o.out, "\"check\"", "modelled_ms"), 350.5, 0.1);
  discard(&o);
}

static void test_refused(void **state) {
  (void)state;
  put_file("chip.yaml", "name: c\nluts: many\n", 19);
  expect_failure("explore", 2, "a subject is expected");
  expect_failure("explore cats", 2, "there is no subject \"cats\"");
  expect_failure("explore tiles tiles", 2, "a second one");
  expect_failure("explore tiles --chip vu9p", 2, "--network is expected");
  expect_failure("explore tiles --network " LENET, 2, "--chip is expected");
  expect_failure("explore tiles --network " LENET " --chip nope", 2, "xcvu9p");
  expect_failure("explore tiles --network " LENET " --chip nope.yaml", 2, "nope.yaml");
  expect_failure("explore tiles --network " LENET " --chip $/chip.yaml", 2, "line: 2");
  expect_failure("explore tiles --network $/nope.cfg --chip vu9p", 2, "nope.cfg");
  expect_failure("explore tiles --network " LENET " --chip vu9p --tb 0", 2, "--tb");
  expect_failure("explore tiles --network " LENET " --chip vu9p --ti 16,", 2, "--ti");
  expect_failure("explore tiles --network " LENET " --chip vu9p --clock 0", 2, "--clock");
  expect_failure("explore tiles --network " LENET " --chip vu9p --batch 99999999", 2, "--batch");
  expect_failure("explore tiles --network " LENET " --chip vu9p --svg $/no/x.svg", 1, "x.svg");
  expect_failure("explore tiles --network " LENET " --chip vu9p --html /dev/full", 1, "/dev/full");
  expect_failure("evaluate", 2, "a subject is expected");
  expect_failure("evaluate tiles --peer python3", 2, "--peer has no effect without --measure");
  expect_failure("evaluate tiles --steps 3", 2, "--steps has no effect without --measure");
  expect_failure("evaluate tiles --html $/no/x.html", 1, "x.html");
}

/* A peer is any program that prints milliseconds. */
static void test_measure(void **state) {
  (void)state;
  static const char peer[] = "#!/bin/sh\necho 1234.5\n", mute[] = "#!/bin/sh\necho many\n";
  put_file("peer", peer, sizeof peer - 1);
  put_file("mute", mute, sizeof mute - 1);
  assert_int_equal(chmod("peer", 0700) | chmod("mute", 0700), 0);
  expect_failure("evaluate tiles --measure --peer $/nothing", 1, "nothing cannot be run");
  expect_failure("evaluate tiles --measure --peer false", 1, "ended with code 1");
  expect_failure("evaluate tiles --measure --peer $/mute", 1, "printed no time: \"many");
  outcome o = run("evaluate tiles --measure --steps 1 --threads 2 --peer $/peer --json");
  if (o.code != 0) fail_msg("code %d: %s", o.code, o.err);
  assert_true(is_one_document(o.out));
  expect_near(number_after(o.out, "PyTorch", "measured_ms"), 1234.5, 0);
  assert_true(number_after(o.out, "Braid, float32", "measured_ms") > 1);
  expect_near(number_after(o.out, "Braid, float32", "threads"), 2, 0);
  assert_true(number_after(o.out, "Braid, int8", "measured_ms") > 1);
  discard(&o);
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
#define PRODUCT "explore kernel --op MatMul --size 2048x1024x1024"
#define REPORTS BRAID_TEST_DATA "/vendor_report/"

static void test_kernel(void **state) {
  (void)state;
  outcome o = run_quietly(PRODUCT " --fmax-table hype-training");
  expect_text(o.out, "4 compute units x 5 SIMD widths x 4 work-groups x 256 unrollings");
  expect_text(o.out, "20480");
  expect_text(o.out, "81.81, published 81.81");
  expect_text(o.out, "142.57, published 142.57");
  expect_text(o.out, "size class: medium");
  discard(&o);
  o = run_quietly(PRODUCT " --fmax-table hype-training --top 100 --json");
  assert_true(is_one_document(o.out));
  expect_near(number_after(o.out, "combinations", "all"), 20480, 0);
  expect_near(number_after(o.out, "combinations", "fmax_known"), 8, 0);
  expect_near(number_after(o.out, "\"work_group_size\":128,\"unroll\":64,\"fmax_mhz\":210", "latency_indicator"), 81.81,
              0.005);
  expect_near(number_after(o.out, "\"work_group_size\":64,\"unroll\":64,\"fmax_mhz\":241", "latency_indicator"), 142.57,
              0.005);
  discard(&o);
  o = run_quietly(
      "explore kernel --op maxpool --size 8x64x56x56 --window 3 --stride 2 --pad 1 --chip alveo-u250 --json");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "\"size_class\":\"no class\"");
  expect_text(o.out, "\"modelled_fmax_mhz\"");
  assert_true(number_after(o.out, "combinations", "fitting") < 20480);
  expect_near(number_after(o.out, "{", "comparisons"), 8.0 * 64 * 28 * 28 * 9, 0);
  discard(&o);
  o = run_quietly("explore kernel --op Conv --size 1x64x30x30 --filters 8 --window 3");
  expect_text(o.out, "assumed");
  expect_text(o.out, "Stratix 10 GX 2500");
  discard(&o);
}

static void test_kernel_reports(void **state) {
  (void)state;
  outcome o = run_quietly(PRODUCT " --report 2,1,64=" REPORTS "acl_quartus_report.txt --report 4,2,64=" REPORTS
                                  "kernel.xclbin.info --report 4,16,100=" REPORTS "aoc_report.txt --json");
  assert_true(is_one_document(o.out));
  /* 131% of the logic: 16 SIMD lanes, 4 units and 100 steps or more do not fit, with each of four work-groups */
  expect_near(number_after(o.out, "combinations", "fitting"), 20480 - 4 * 157, 0);
  expect_near(number_after(o.out, "combinations", "fmax_known"), 8, 0);
  expect_near(number_after(o.out, "combinations", "fmax_distinct"), 4, 0); /* 210.03 is near to 221.5 */
  expect_near(number_after(o.out, "\"top\"", "fmax_mhz"), 221.5, 0);
  discard(&o);
  static const char report[] = "DSP blocks: 1 / 2 ( 50 % )\nKernel fmax: 250\n", cut[] = "Kernel fmax: ";
  put_file("mm_cu3_simd16_ul7.txt", report, sizeof report - 1);
  put_file("cut.txt", cut, sizeof cut - 1);
  o = run_quietly(PRODUCT " --report $/mm_cu3_simd16_ul7.txt");
  expect_text(o.out, "mm_cu3_simd16_ul7.txt");
  discard(&o);
  expect_failure(PRODUCT " --report $/cut.txt", 2, "of which configuration?");
  expect_failure(PRODUCT " --report 1,1,0=$/cut.txt", 2, "of which configuration?");
  expect_failure(PRODUCT " --report 1,1,1=$/cut.txt", 2, "cut.txt, line 1: Kernel fmax is");
  expect_failure(PRODUCT " --report 1,1,1=$/none.txt", 2, "none.txt");
}

static void test_kernel_refused(void **state) {
  (void)state;
  static const char table[] = "compute_units,simd_width,unroll,fmax_mhz\n1,1,1,x\n";
  put_file("bad.csv", table, sizeof table - 1);
  expect_failure("explore --batch 4 kernel", 2, "before all options");
  expect_failure("explore kernel", 2, "--op is expected");
  expect_failure("explore kernel --op Relu", 2, "MatMul, Conv or MaxPool");
  expect_failure("explore kernel --op MatMul", 2, "--size is expected");
  expect_failure("explore kernel --op MatMul --size 3x4", 2, "ROWSxINNERxCOLUMNS");
  expect_failure("explore kernel --op MatMul --size 3x4x5x", 2, "ROWSxINNERxCOLUMNS");
  expect_failure("explore kernel --op MatMul --size 0x4x5", 2, "rows is 0");
  expect_failure("explore kernel --op Conv --size 1x3x8x8 --window 3", 2, "--filters is expected");
  expect_failure("explore kernel --op MaxPool --size 1x3x8x8", 2, "--window is expected");
  expect_failure("explore kernel --op MaxPool --size 1x3x8x8 --window 9", 2, "does not fit into height 8");
  expect_failure(PRODUCT " --window 3", 2, "--window has no effect");
  expect_failure(PRODUCT " --units 2,1", 2, "ascending");
  expect_failure(PRODUCT " --runs 3", 2, "--runs has no effect without --device");
  expect_failure(PRODUCT " --device opencl0 --chip vu9p", 2, "--chip has no effect with --device");
  expect_failure(PRODUCT " --fmax-table $/bad.csv", 2, "bad.csv, line 2: fmax_mhz is \"x\"");
  expect_failure(PRODUCT " --fmax-table $/none.csv", 2, "none.csv");
  expect_failure(PRODUCT " --chip vu9p", 2, "XCVU9P has no costs of kernels");
  expect_failure(PRODUCT " --chip nope", 2, "stratix10-gx2500");
  expect_failure(PRODUCT " --device nope9", 2, "nope9");
  expect_failure(PRODUCT " more", 2, "no argument is expected");
}

/* Real kernels. A work-group that no device takes fails alone, and is listed. */
static void test_kernel_device(void **state) {
  (void)state;
  outcome o = run("devices --json");
  bool opencl = strstr(o.out, "opencl0") != NULL;
  discard(&o);
  if (!opencl) skip_test("opencl", "there is no OpenCL device");
  o = run("explore kernel --op MatMul --size 96x64x96 --device opencl0 --groups 16,64 --most-unroll 2 --runs 3 --json");
  if (o.code != 0) fail_msg("code %d: %s", o.code, o.err);
  assert_true(is_one_document(o.out));
  expect_near(number_after(o.out, "{", "ranked"), 4, 0);
  assert_true(number_after(o.out, "\"configurations\"", "measured_us") > 0);
  double rho = number_after(o.out, "{", "spearman"), tau = number_after(o.out, "{", "kendall");
  assert_true(rho >= -1 && rho <= 1 && tau >= -1 && tau <= 1);
  expect_text(o.out, "tiles");
  discard(&o);
  o = run("explore kernel --op MaxPool --size 1x8x32x32 --window 2 --stride 2 --device opencl0 --runs 3");
  if (o.code != 0) fail_msg("code %d: %s", o.code, o.err);
  expect_text(o.out, "5 configurations, 5 measured, 0 failed");
  expect_text(o.out, "Spearman's rho");
  discard(&o);
  o = run(
      "explore kernel --op MatMul --size 96x64x96 --device opencl0 --groups 64 --simd 1,65 --most-unroll 2 --runs 3");
  if (o.code != 0) fail_msg("code %d: %s", o.code, o.err);
  expect_text(o.out, "4 configurations, 2 measured, 2 failed");
  expect_text(o.out, "failed: ");
  expect_text(o.out, "simd=65");
  discard(&o);
  o = run("explore kernel --op Conv --size 1x4x9x9 --filters 8 --window 3 --device opencl0 --groups 64 --runs 3 "
          "--fmax-table hype-training");
  if (o.code != 0) fail_msg("code %d: %s", o.code, o.err);
  expect_text(o.out, "No rank correlation: of 0");
  discard(&o);
  expect_failure("explore kernel --op MatMul --size 8x8x8 --device opencl0 --simd 65", 2, "none of 25 configurations");
}

static void test_kernel_interrupted(void **state) {
  (void)state;
  for (int i = 0;; i++) {
    assert_true(i < 60);
    pid_t child = start("explore kernel --op MatMul --size 96x64x96 --device opencl0 --groups 16,64 --runs 1000000",
                        "/dev/null", in_folder("out"), in_folder("err"));
    nap(0.1 + 0.05 * i);
    kill(child, SIGINT);
    int code = await(child);
    char *out = get_file(in_folder("out"), NULL), *err = get_file(in_folder("err"), NULL);
    bool stopped = code == 130 && !out[0] && strstr(err, "braid explore kernel: interrupted");
    if (code == 2) skip_test("opencl", "there is no OpenCL device");
    free(out);
    free(err);
    if (stopped) break;
    assert_true(code == 130 || code == 128 + SIGINT); /* before the handler is there */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_explore),        cmocka_unit_test(test_files),
      cmocka_unit_test(test_evaluate),       cmocka_unit_test(test_refused),
      cmocka_unit_test(test_measure),        cmocka_unit_test(test_kernel),
      cmocka_unit_test(test_kernel_reports), cmocka_unit_test(test_kernel_refused),
      cmocka_unit_test(test_kernel_device),  cmocka_unit_test(test_kernel_interrupted),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
