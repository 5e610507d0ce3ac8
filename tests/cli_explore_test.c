/* `braid explore tiles` and `braid evaluate tiles`: what they print, on terminals and as JSON, and how they fail. */
#include "clicheck.h"

#define LENET BRAID_MODELS "/lenet.cfg"
#define TILE BRAID_MODELS "/vgg-tile.cfg"

static outcome run_well(const char *line) {
  outcome o = run(line);
  if (o.code != 0) fail_msg("braid %s: code %d: %s", line, o.code, o.err);
  assert_string_equal(o.err, "");
  return o;
}

static void expect_text(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %.2000s", part, text);
}

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
  outcome o = run_well("explore tiles --network " TILE " --chip vu9p");
  expect_text(o.out, "The paper's design points");
  expect_text(o.out, "no: DSPs 120%");
  expect_text(o.out, "Fastest: T_B = 128, T_I = 52");
  expect_text(o.out, "literally: T_B = 43, T_I = 43");
  expect_text(o.out, "published  331 ms");
  expect_text(o.out, "Nothing is fitted");
  expect_text(o.out, "no published point validates it");
  discard(&o);
  o = run_well("explore tiles --network " TILE " --chip XCVU9P --json");
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
  o = run_well("explore tiles --network " LENET " --chip arria10-gx1150 --batch 32 --tb 32,16 --ti 8 --clock 250");
  expect_text(o.out, "250 MHz");
  expect_text(o.out, "2 designs were tried");
  expect_text(o.out, "no bandwidth");
  discard(&o);
  o = run_well("explore tiles --network " LENET " --chip xczu9eg --tb 4096 --ti 64");
  expect_text(o.out, "(the paper's; the chip file says none)");
  expect_text(o.out, "No design fits.");
  discard(&o);
}

static void test_files(void **state) {
  (void)state;
  outcome o = run_well("explore tiles --network " LENET " --chip vu9p --svg $/designs.svg --html $/designs.html");
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
  o = run_well("evaluate tiles --html $/tables.html");
  discard(&o);
  html = get_file(in_folder("tables.html"), NULL);
  expect_text(html, "<td>66439</td>");
  expect_text(html, "<td>not measured</td>");
  free(html);
}

static void test_evaluate(void **state) {
  (void)state;
  outcome o = run_well("evaluate tiles");
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
  o = run_well("evaluate tiles --json");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_explore), cmocka_unit_test(test_files),   cmocka_unit_test(test_evaluate),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_measure),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
