/* Designs: the library's own are those of the paper, what is refused and how it is said, rooflines, banks. */
#include "overlay/design.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oom.h"

static const braid_overlay_design *load(const char *name) {
  const braid_overlay_design *design;
  braid_status status = braid_overlay_design_load(NULL, name, &design);
  if (status != BRAID_OK) fail_msg("%s: %s", name, braid_error_detail());
  return design;
}

/* --- the paper's ---------------------------------------------------------------------------------------------------
 */
/* Sections 7.1.3, 7.1.4 and 7.3.3: cores and operations a cycle in sum; 16 ports of 128 bits, or one as wide. */
static const struct {
  const char *name;
  bool recurrent;
  int cores, port_bits;
  int64_t operations;
  double clock_mhz;
} kPaper[] = {
    {"cnn-16x512", false, 16, 128, 8192, 300}, {"cnn-1x8192", false, 1, 2048, 8192, 300},
    {"rnn-16x1", true, 16, 128, 32, 200},      {"rnn-16x16", true, 16, 128, 512, 200},
    {"rnn-16x64", true, 16, 128, 2048, 200},   {"rnn-1x1024", true, 1, 2048, 2048, 200},
    {"rnn-1x16", true, 1, 2048, 32, 200},      {"rnn-1x256", true, 1, 2048, 512, 200},
};

static void test_paper(void **state) {
  (void)state;
  assert_int_equal(braid_overlay_design_count(), sizeof kPaper / sizeof *kPaper);
  for (size_t i = 0; i < sizeof kPaper / sizeof *kPaper; i++) {
    const braid_overlay_design *design = load(kPaper[i].name);
    assert_string_equal(braid_overlay_design_name(i), kPaper[i].name);
    assert_string_equal(design->name, kPaper[i].name);
    assert_int_equal(design->recurrent, kPaper[i].recurrent);
    assert_int_equal(design->cores, kPaper[i].cores);
    assert_int_equal(design->port_bits, kPaper[i].port_bits);
    assert_int_equal(2 * braid_overlay_core_products(design) * design->cores, kPaper[i].operations);
    assert_true(design->clock_mhz == kPaper[i].clock_mhz);
    assert_int_equal(design->banks * design->bank_bits, 4 * 512);
    braid_overlay_design_destroy(design);
  }
}

static void test_figures(void **state) {
  (void)state;
  const braid_overlay_design *design = load("cnn-16x512");
  size_t figures = 0, assumed = 0;
  for (size_t i = 0; i < BRAID_OVERLAY_FIGURES; i++) {
    braid_overlay_figure figure;
    bool has = braid_overlay_design_figure(design, i, &figure);
    bool recurrent = !strcmp(figure.key, "rows") || !strcmp(figure.key, "columns") ||
                     !strcmp(figure.key, "side_numbers") || !strcmp(figure.key, "vector_bytes");
    assert_int_equal(has, !recurrent);
    if (!has) continue;
    assert_non_null(figure.source);
    figures++;
    assumed += figure.assumed;
    if (strcmp(figure.key, "pixels") == 0) assert_true(figure.value == design->pixels && figure.assumed);
    if (strcmp(figure.key, "port_bits") == 0) assert_true(figure.value == 128 && !figure.assumed);
  }
  assert_int_equal(figures, 25);
  assert_true(assumed > 10 && assumed < figures);
  braid_overlay_design bare = *design;
  bare.sources = NULL;
  bare.idle_watts = NAN;
  for (size_t i = 0; i < BRAID_OVERLAY_FIGURES; i++) {
    braid_overlay_figure figure;
    if (braid_overlay_design_figure(&bare, i, &figure)) assert_true(!figure.source && !figure.assumed);
    if (strcmp(figure.key, "idle_watts") == 0) assert_false(braid_overlay_design_figure(&bare, i, &figure));
  }
  braid_overlay_design_destroy(design);
}

/* --- rooflines -----------------------------------------------------------------------------------------------------
 */
static void test_roofline(void **state) {
  (void)state;
  const braid_overlay_design *design = load("cnn-16x512");
  braid_overlay_roofline roofline;
  braid_overlay_get_roofline(design, 1, &roofline); /* one port of 16 bytes at 300 MHz, each way */
  assert_float_equal(roofline.operations_per_second, 153.6e9, 1);
  assert_float_equal(roofline.bytes_per_second, 9.6e9, 1);
  assert_float_equal(roofline.one_way_bytes_per_second, 4.8e9, 1);
  assert_float_equal(roofline.turning_point, 16, 1e-9);
  braid_overlay_get_roofline(design, 3, &roofline); /* three ports read 14.4 of the 16.32 GB/s of their bank */
  assert_float_equal(roofline.one_way_bytes_per_second, 14.4e9, 10);
  assert_float_equal(roofline.bytes_per_second, 16.32e9, 10);
  braid_overlay_get_roofline(design, 4, &roofline); /* four would read 19.2 */
  assert_float_equal(roofline.one_way_bytes_per_second, 16.32e9, 10);
  braid_overlay_get_roofline(design, 5, &roofline); /* data are at both banks, and all five cores reach them */
  assert_float_equal(roofline.one_way_bytes_per_second, 24e9, 10);
  assert_float_equal(roofline.bytes_per_second, 2 * 16.32e9, 10);
  braid_overlay_get_roofline(design, 16, &roofline);
  assert_float_equal(roofline.operations_per_second, 2457.6e9, 10);
  assert_float_equal(roofline.bytes_per_second, 4 * 16.32e9, 10);
  braid_overlay_design_destroy(design);
  design = load("cnn-1x8192");
  braid_overlay_roofline single;
  braid_overlay_get_roofline(design, 1, &single); /* the same card */
  assert_float_equal(single.operations_per_second, roofline.operations_per_second, 1);
  assert_float_equal(single.bytes_per_second, roofline.bytes_per_second, 1);
  braid_overlay_design_destroy(design);
}

static void test_banks(void **state) {
  (void)state;
  /* cores of the same bank stand side by side, and every bank has somebody */
  for (int cores = 1; cores <= 64; cores++)
    for (int banks = 1; banks <= 16; banks++) {
      const braid_overlay_design design = {.cores = cores, .banks = banks};
      int next = 0;
      for (int core = 0; core < cores; core++) {
        int first, count;
        braid_overlay_core_banks(&design, core, &first, &count);
        assert_int_equal(first, core * banks / cores);
        assert_true(count >= 1 && first + count <= banks);
        assert_true(first == next || (cores > banks && first == next - 1));
        next = first + count;
      }
      assert_int_equal(next, banks);
    }
}

/* --- refusals ------------------------------------------------------------------------------------------------------
 */
/* The text of a design of the library with a line replaced; NULL: left out. */
static char *changed(const char *design, const char *key, const char *line) {
  for (size_t i = 0; i < braid_overlay_design_file_count; i++) {
    const braid_overlay_file *file = &braid_overlay_design_files[i];
    if (strcmp(file->name, design) != 0) continue;
    char *at = NULL, *text = malloc(file->bytes + 1024);
    for (const char *from = file->text; from && !at; from = strchr(from, '\n')) {
      from += *from == '\n';
      if (strncmp(from, key, strlen(key)) == 0 && from[strlen(key)] == ':') {
        const char *end = strchr(from, '\n');
        memcpy(text, file->text, (size_t)(from - file->text));
        at = text + (from - file->text);
        at += sprintf(at, "%s", line ? line : "");
        strcpy(at, line ? end : end + 1);
      }
    }
    assert_non_null(at);
    return text;
  }
  fail_msg("no design %s", design);
  return NULL;
}

static void expect_refusal(const char *text, const char *said, const char *line) {
  const braid_overlay_design *design;
  assert_int_equal(braid_overlay_design_parse(NULL, "d.yaml", text, strlen(text), &design), BRAID_INVALID_FILE);
  assert_null(design);
  print_message("%s\n", braid_error_detail());
  assert_non_null(strstr(braid_error_detail(), "d.yaml"));
  assert_non_null(strstr(braid_error_detail(), said));
  if (line) assert_non_null(strstr(braid_error_detail(), line));
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *design, *key, *line, *said, *where;
  } cases[] = {
      {"cnn-16x512", "name", "name: \"a b\"", "expected letters, digits", "line 2"},
      {"cnn-16x512", "name", NULL, "name", "line"},
      {"cnn-16x512", "network", "network: any", "network is any, expected convolutional or recurrent", "line 4"},
      {"cnn-16x512", "network", "network: recurrent", "is of designs for convolutional networks", "line 9"},
      {"cnn-16x512", "pixels", NULL, "pixels is missing (PP, rows of a result at once)", "line"},
      {"rnn-16x64", "vector_bytes", NULL, "vector_bytes is missing", "line"},
      {"cnn-16x512", "cores", "cores: {value: 65, source: x}", "cores is 65, expected a whole number from 1 to 64",
       "line 5"},
      {"cnn-16x512", "cores", "cores: {value: 1.5, source: x}", "cores is 1.5, expected a whole number", "line 5"},
      {"cnn-16x512", "cores", "cores: {value: nan, source: x}", "cores is nan", "line 5"},
      {"cnn-16x512", "cores", "cores: {value: many, source: x}", "many", "line: 5"},
      {"cnn-16x512", "cores", "cores: {value: 16}", "source", "line"},
      {"cnn-16x512", "cores", "cores: 16", "cores is 16, keys with values are expected", "line: 5"},
      {"cnn-16x512", "cores", "cores: {value: 32, source: x}", "the ports at bank 0 have 1024 bits; it has 512",
       "line"},
      {"cnn-16x512", "efficiency", "efficiency: {value: 1.1, source: x}", "expected a number from 0.01 to 1", "line"},
      {"cnn-16x512", "bias_bytes", "bias_bytes: {value: 24, source: x}", "expected a multiple of 16: lines", "line"},
      {"cnn-16x512", "port_bits", "port_bits: {value: 192, source: x}", "expected a multiple of 128", "line"},
      {"cnn-16x512", "sum_bytes", "sum_bytes: {value: 112, source: x}", "the sums of one cycle take 128", "line"},
      {"cnn-16x512", "feature_bytes", "feature_bytes: {value: 16, source: x}", "the numbers of one cycle take 32",
       "line"},
      {"cnn-16x512", "instruction_bytes", "instruction_bytes: {value: 512, source: x}",
       "instruction_bytes is 512, but the parts of all cores take 1024", "line"},
      {"cnn-16x512", "channels_out", "channels_out: {value: 7, source: x}",
       "channels_out is 7, which makes 56 with channels_in: expected a multiple of 16", "line"},
      {"rnn-16x64", "weight_bytes", "weight_bytes: {value: 112, source: x}", "the weights of one cycle take 128",
       "line"},
      {"rnn-16x64", "rows", "rows: {value: 8, source: x}\nrows: {value: 8, source: x}", "rows comes twice", "line: 10"},
      {"rnn-16x64", "rows", "lines: {value: 8, source: x}", "Unexpected key: lines, line: 9",
       "picojoules_per_ddr_byte"},
      {"rnn-16x64", "rows", "rows: {value: 8, source: x, unit: 1}", "Unexpected key: unit", "line"},
      {"rnn-16x64", "summary", "summary: \"\\e[31m\"", "control characters", "line: 3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = changed(cases[i].design, cases[i].key, cases[i].line);
    expect_refusal(text, cases[i].said, cases[i].where);
    free(text);
  }
  expect_refusal("", "empty", NULL);
  expect_refusal("cores: [", "no YAML", "line");
}

static void test_optional(void **state) {
  (void)state;
  char *text = changed("rnn-16x64", "idle_watts", NULL);
  const braid_overlay_design *design;
  assert_int_equal(braid_overlay_design_parse(NULL, "d", text, strlen(text), &design), BRAID_OK);
  assert_true(isnan(design->idle_watts));
  assert_false(isnan(design->picojoules_per_operation));
  assert_int_equal(design->pixels, 0);
  braid_overlay_design_destroy(design);
  braid_overlay_design_destroy(NULL);
  free(text);
}

static void test_names(void **state) {
  (void)state;
  const braid_overlay_design *design;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn", &design), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "there are cnn-16x512, cnn-1x8192, rnn-16x1"));
  assert_int_equal(braid_overlay_design_load(NULL, "/nowhere/d.yaml", &design), BRAID_NOT_FOUND);
  assert_null(design);
}

static braid_status parse_once(const braid_allocator *allocator, void *text) {
  const braid_overlay_design *design;
  braid_status status = braid_overlay_design_parse(allocator, "d", text, strlen(text), &design);
  if (status == BRAID_OK) braid_overlay_design_destroy(design);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  char *text = changed("cnn-16x512", "name", "name: other");
  oom_sweep(parse_once, text);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paper), cmocka_unit_test(test_figures),       cmocka_unit_test(test_roofline),
      cmocka_unit_test(test_banks), cmocka_unit_test(test_refused),       cmocka_unit_test(test_optional),
      cmocka_unit_test(test_names), cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
