/* `braid evaluate hybrid`: what was published is there, and ours keeps what must hold for every model. */
#include <math.h>

#include "clicheck.h"

static double number_after(const char *text, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text, quoted);
  assert_non_null(at);
  return strtod(at + strlen(quoted), NULL);
}

static void test_text(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate hybrid --model AlexNet,DCGAN --html $/hybrid.html");
  static const char *const kSaid[] = {
      "Figs. 4 and 5",
      "Table 2",
      "Figs. 6 and 8(a)",
      "Figs. 7 and 8(b)",
      "Section 5.3",
      "Table 3",
      "Section 5.4",
      "Table 4",
      "What the assumptions",
      "not modelled",
      "+40.9%",
      "81.81   81.81",
      "142.57  142.57",
      "hybrid-cap 0",
      "nobody published",
      "no idle power",
      "Only averages over all six models were published",
      "for VGG16 and ResNet50 alone",
      "modelled, slack-energy",
  };
  for (size_t i = 0; i < sizeof kSaid / sizeof *kSaid; i++) expect_text(o.out, kSaid[i]);
  assert_null(strstr(o.out, "ResNet50     "));
  /* what was published of all six models, and averages of two, say nothing of these */
  static const char *const kOfAll[] = {"+44.3%",      "-30.7%",  "+85.1%", "127459",
                                       "  average  ", "Average", "11.3 %", "  all six  "};
  for (size_t i = 0; i < sizeof kOfAll / sizeof *kOfAll; i++)
    if (strstr(o.out, kOfAll[i])) fail_msg("\"%s\" is there", kOfAll[i]);
  discard(&o);
  char *page = get_file(in_folder("hybrid.html"), NULL);
  expect_text(page, "Figs. 6 and 8(a)");
  free(page);
}

/* No loss of throughput against the GPU alone without a cap, and no violation by hybrid-cap where dvfs has some. */
static void test_json(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate hybrid --model DCGAN --json");
  assert_true(is_one_document(o.out));
  assert_null(strstr(o.out, "published_averages_pct"));
  expect_text(o.out, "\"assumption\":\"no idle power\",\"model\":\"DCGAN\"");
  assert_true(number_after(o.out, "efficiency_gain_pct") == 40.9);
  assert_true(number_after(o.out, "dvfs_230w_samples_per_s") == 2641);
  double alone = number_after(o.out, "throughput");
  size_t runs = 0, kept = 0, broken = 0;
  for (const char *at = o.out; (at = strstr(at, "\"platform\":")); at++) {
    double throughput = number_after(at, "throughput"), violations = number_after(at, "cap_violations");
    bool dvfs = !strncmp(strstr(at, "\"policy\":"), "\"policy\":\"dvfs\"", 15);
    bool capped = !strncmp(strstr(at, "\"policy\":"), "\"policy\":\"hybrid-cap\"", 21);
    runs++;
    if (!dvfs && !capped) assert_true(throughput >= alone * (1 - 1e-9));
    if (capped) kept++, assert_true(violations == 0 && number_after(at, "peak_w") <= number_after(at, "cap_w"));
    if (dvfs) broken += violations > 0;
    assert_true(number_after(at, "gpu_w") <= number_after(at, "average_w") * (1 + 1e-9));
  }
  assert_true(runs == 18 && kept == 3 && broken == 3);
  discard(&o);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *line, *said;
  } cases[] = {
      {"evaluate hybrid --model LeNet", "there is no \"LeNet\"; there are AlexNet"},
      {"evaluate hybrid --model=", "there is no \"\"; there are AlexNet"},
      {"evaluate hybrid --model DCGAN,", "there is no \"\"; there are AlexNet"},
      {"evaluate hybrid --model ,DCGAN", "there is no \"\"; there are AlexNet"},
      {"evaluate hybrid --measure", "--measure has no effect on hybrid"},
      {"evaluate tiles --model AlexNet", "--model has no effect on tiles"},
      {"evaluate hybrid tiles", "one subject is expected"},
      {"evaluate", "tiles, hybrid, overlay, manycore or serving"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    outcome o = run(cases[i].line);
    assert_int_equal(o.code, 2);
    expect_text(o.err, cases[i].said);
    discard(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
