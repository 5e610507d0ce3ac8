/* Reports of vendors' tools and tables of Fmax: what is read, what is refused, and where. The samples under
 * tests/data/vendor_report have the lines that the tools write, with figures of our own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "braid/explore.h"

#define SAMPLES BRAID_TEST_DATA "/vendor_report/"

static void expect_text(const char *part) {
  if (!strstr(braid_error_detail(), part)) fail_msg("\"%s\" is not in: %s", part, braid_error_detail());
}

static bool is_near(double value, double expected) {
  return isnan(expected) ? isnan(value) : fabs(value - expected) < 1e-6 * fabs(expected) + 1e-12;
}

/* --- reports -------------------------------------------------------------------------------------------------------
 */
static const struct {
  const char *file;
  braid_vendor_report expected;
} kSamples[] = {
    {"acl_quartus_report.txt", {"acl_quartus_report.txt", 210.03, 232114.0 / 821150, 131.0 / 5011, 1402.0 / 9963}},
    {"aoc_report.txt", {"aoc -report", NAN, 1.31, 0.82, 0.54}},
    {"kernel.xclbin.info", {"xclbin.info", 221.5, NAN, NAN, NAN}},
    {"timing_summary.rpt", {"Vivado timing summary", 1000 / (3.333 + 0.667), NAN, NAN, NAN}},
    {"vpp_link.log", {"v++ link log", 307.5, NAN, NAN, NAN}},
};
enum { SAMPLE_COUNT = sizeof kSamples / sizeof *kSamples };

static void test_samples(void **state) {
  (void)state;
  for (size_t i = 0; i < SAMPLE_COUNT; i++) {
    char path[512];
    braid_vendor_report report;
    snprintf(path, sizeof path, SAMPLES "%s", kSamples[i].file);
    if (braid_vendor_report_load(NULL, path, &report) != BRAID_OK) fail_msg("%s", braid_error_detail());
    const braid_vendor_report *expected = &kSamples[i].expected;
    assert_string_equal(report.format, expected->format);
    assert_true(is_near(report.fmax_mhz, expected->fmax_mhz));
    assert_true(is_near(report.logic, expected->logic) && is_near(report.dsps, expected->dsps) &&
                is_near(report.rams, expected->rams));
  }
  braid_vendor_report report;
  assert_int_equal(braid_vendor_report_load(NULL, SAMPLES "nothing.txt", &report), BRAID_NOT_FOUND);
  expect_text("nothing.txt");
}

static char *read_sample(const char *file, size_t *bytes) {
  char path[512], *text = malloc(1 << 16);
  snprintf(path, sizeof path, SAMPLES "%s", file);
  FILE *stream = fopen(path, "rb");
  assert_true(stream && text);
  *bytes = fread(text, 1, 1 << 16, stream);
  (void)fclose(stream);
  return text;
}

/* A beginning of a report is refused with the line where it ends, or says what the whole says of that figure. */
static void test_truncated(void **state) {
  (void)state;
  for (size_t i = 0; i < SAMPLE_COUNT; i++) {
    size_t bytes, refused = 0;
    char *text = read_sample(kSamples[i].file, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
      char *copy = malloc(cut + 1); /* so that a sanitizer sees reads behind the end */
      memcpy(copy, text, cut);
      braid_vendor_report report;
      braid_status status = braid_vendor_report_parse("cut", copy, cut, &report);
      refused += status != BRAID_OK;
      if (status != BRAID_OK) {
        assert_int_equal(status, BRAID_INVALID_FILE);
        expect_text("cut, line ");
      }
      free(copy);
    }
    assert_true(refused > 10);
    free(text);
  }
}

/* One byte is another one: no crash, no figure out of bounds. */
static void test_garbled(void **state) {
  (void)state;
  for (size_t i = 0; i < SAMPLE_COUNT; i++) {
    size_t bytes;
    char *text = read_sample(kSamples[i].file, &bytes);
    for (size_t at = 0; at < bytes; at++) {
      static const char kBytes[] = {'\0', '-', '9', '\n', ',', (char)0xff};
      char was = text[at];
      for (size_t k = 0; k < sizeof kBytes; k++) {
        braid_vendor_report report;
        text[at] = kBytes[k];
        if (braid_vendor_report_parse("garbled", text, bytes, &report) != BRAID_OK) {
          expect_text("garbled, line ");
          continue;
        }
        assert_true(isnan(report.fmax_mhz) || (report.fmax_mhz > 0 && report.fmax_mhz <= 1e5));
        assert_false(report.logic < 0 || report.dsps < 0 || report.rams < 0);
      }
      text[at] = was;
    }
    free(text);
  }
}

static void test_reports_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"", "r.txt, line 0: no line up to here is one of a known report"},
      {"hello\nworld\n", "r.txt, line 2: no line"},
      {"ALUTs: 3\nKernel fmax: fast\n", "r.txt, line 2: Kernel fmax is \"fast\", expected MHz"},
      {"Kernel fmax: -3\n", "r.txt, line 1: Kernel fmax is \"-3\""},
      {"Kernel fmax: nan\n", "line 1"},
      {"Kernel fmax: 1e999\n", "line 1"},
      {"Kernel fmax: 210 GHz\n", "line 1"},
      {"Kernel fmax: 99999999999999999999999999999999999999999999999999999999999\n", "line 1"},
      {"DSP blocks: 131 / 0 ( 3 % )\n", "line 1: DSP blocks: \" 131 / 0"},
      {"DSP blocks: many\n", "expected USED / ALL"},
      {"DSP blocks: 131 / 5,011 ( 3 % )\n\n", "line 2: the report ends here without \"Kernel fmax:\""},
      {"; Estimated Resource Usage Summary ;\n; DSP blocks ; some ;\n", "line 2: DSP blocks is \"some"},
      {"; Estimated Resource Usage Summary ;\n", "line 1: the report ends here without a row"},
      {"Name: hbm_aclk\nAchieved Freq: 450 MHz\n", "line 2: the report ends here without the frequency of a kernel"},
      {"Name: aclk_kernel_00\nAchieved Freq: 0 MHz\n", "line 2: Achieved Freq is \"0 MHz\""},
      {"| Clock Summary\nclk {0 1} x 3\n", "line 2: the period of clock \"clk\" is \"x\""},
      {"| Clock Summary\nclk {0 1} 4 250\n", "line 2: 0 clocks with a period and a slack"},
      {"| Clock Summary\na {0 1} 4 250\nb {0 1} 4 250\n| Intra Clock Table\na 1 0\nb 1 0\n", "line 6: 2 clocks"},
      {"| Clock Summary\na {0 1} 4 250\n| Intra Clock Table\na 4 0\n", "a slack of 4 ns in a period of 4"},
      {"The frequency is being automatically changed to none\n", "line 1: the changed frequency is \"none\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_vendor_report report;
    braid_status status = braid_vendor_report_parse("r.txt", cases[i].text, strlen(cases[i].text), &report);
    if (status != BRAID_INVALID_FILE) fail_msg("%s: %s", cases[i].text, braid_status_text(status));
    expect_text(cases[i].said);
  }
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
static braid_fmax_table *new_table(void) {
  braid_fmax_table *table;
  assert_int_equal(braid_fmax_table_create(NULL, &table), BRAID_OK);
  return table;
}

static void test_tables(void **state) {
  (void)state;
  static const char csv[] = "op, unroll ,simd_width,Compute_Units,fmax_mhz # columns in any order\r\n"
                            "MatMul,64,2,4,241\r\n\r\n"
                            "MatMul,64,1,2,210";
  static const char yaml[] = "points:\n  - {compute_units: 8, simd_width: 16, unroll: 3, fmax_mhz: 99.5}\n";
  braid_fmax_table *table = new_table();
  assert_int_equal(braid_fmax_table_parse(table, "t.csv", csv, sizeof csv - 1), BRAID_OK);
  assert_int_equal(braid_fmax_table_parse(table, "t.yaml", yaml, sizeof yaml - 1), BRAID_OK);
  assert_int_equal(braid_fmax_table_load(table, "Hype-Training"), BRAID_OK); /* says the same */
  assert_int_equal(braid_fmax_table_count(table), 3);
  const braid_fmax_point *first = braid_fmax_table_get(table, 0);
  assert_true(first->units == 2 && first->simd == 1 && first->unroll == 64 && first->mhz == 210);
  assert_string_equal(first->file, "t.csv");
  assert_int_equal(first->line, 4);
  assert_true(braid_fmax_table_find(table, 4, 2, 64)->mhz == 241);
  assert_true(braid_fmax_table_find(table, 8, 16, 3)->mhz == 99.5);
  assert_null(braid_fmax_table_find(table, 4, 2, 65));
  /* A report adds what a table does not know. */
  const braid_fmax_point verdict = {.units = 4, .simd = 2, .unroll = 64, .mhz = NAN, .too_large = true, .file = "r"};
  assert_int_equal(braid_fmax_table_add(table, &verdict), BRAID_OK);
  assert_true(braid_fmax_table_find(table, 4, 2, 64)->too_large);
  assert_true(braid_fmax_table_find(table, 4, 2, 64)->mhz == 241);
  braid_fmax_table_destroy(table);
}

#define HEAD "compute_units,simd_width,unroll,fmax_mhz\n"

static void test_tables_refused(void **state) {
  (void)state;
  static const struct {
    const char *name, *text, *said;
  } cases[] = {
      {"t.csv", "", "t.csv, line 0: no line names the columns"},
      {"t.csv", "a,b\n1,2\n", "t.csv, line 1: no column is named compute_units"},
      {"t.csv", "unroll," HEAD, "t.csv, line 1: two columns are named unroll"},
      {"t.csv", HEAD "1,1,1\n", "t.csv, line 2: 3 cells, and no fmax_mhz"},
      {"t.csv", HEAD "1,1,1,\n", "t.csv, line 2: fmax_mhz is \"\", expected a number of MHz"},
      {"t.csv", HEAD "1,1,1,nan\n", "t.csv, line 2: fmax_mhz is \"nan\""},
      {"t.csv", HEAD "1,1,1,0\n", "t.csv, line 2: fmax_mhz is 0, expected 0.001 to 100000"},
      {"t.csv", HEAD "1,1,1.5,9\n", "t.csv, line 2: unroll is \"1.5\", expected a whole number"},
      {"t.csv", HEAD "0,1,1,9\n", "t.csv, line 2: compute_units is 0, expected 1 to 65536"},
      {"t.csv", HEAD "1,1,1,9\n2,1,1,9\n1,1,1,8\n",
       "t.csv, line 4: compute units 1, SIMD width 1, unrolling 1 have 8 "
       "MHz, and 9 MHz by t.csv, line 2"},
      {"t.yaml", "points: []\n", "t.yaml"},
      {"t.yaml", "points:\n - {compute_units: 1, simd_width: 1, unroll: 1}\n", "fmax_mhz"},
      {"t.yaml", "points:\n - {compute_units: 1, simd_width: 1, unroll: 1, fmax_mhz: -1}\n",
       "t.yaml, line 2: fmax_mhz "
       "is -1"},
      {"t.yaml", "points:\n - {compute_units: 1, simd_width: 1, unroll: 1, fmax_mhz: nan}\n", "t.yaml, line 2"},
      {"t.yaml",
       "points:\n - {compute_units: 1, simd_width: 1, unroll: 1, fmax_mhz: 5}\n"
       " - {compute_units: 1, simd_width: 1, unroll: 1, fmax_mhz: 6}\n",
       "t.yaml, line 3: compute units 1"},
      {"t.yaml", "lines: 3\n", "lines"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_fmax_table *table = new_table();
    braid_status status = braid_fmax_table_parse(table, cases[i].name, cases[i].text, strlen(cases[i].text));
    if (status != BRAID_INVALID_FILE) fail_msg("%s: %s", cases[i].text, braid_status_text(status));
    expect_text(cases[i].said);
    assert_int_equal(braid_fmax_table_count(table), 0);
    braid_fmax_table_destroy(table);
  }
  braid_fmax_table *table = new_table();
  assert_int_equal(braid_fmax_table_load(table, "nothing.csv"), BRAID_NOT_FOUND);
  expect_text("nothing.csv");
  assert_int_equal(braid_fmax_table_add(table, &(braid_fmax_point){.units = 1, .simd = 1, .unroll = 1, .mhz = -1}),
                   BRAID_INVALID_ARGUMENT);
  braid_fmax_table_destroy(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_samples),         cmocka_unit_test(test_truncated), cmocka_unit_test(test_garbled),
      cmocka_unit_test(test_reports_refused), cmocka_unit_test(test_tables),    cmocka_unit_test(test_tables_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
