/* Chip files: those of the library, what is refused, and how it is said. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "braid/explore.h"

#define FIGURE(name, value) name ": {value: " value ", source: s}\n"
#define NEEDED                                                                                                         \
  "name: c\n" FIGURE("luts", "1000") FIGURE("dsps", "100") FIGURE("brams", "50") FIGURE("bram_bits", "36864")          \
      FIGURE("multiplier_dsps", "1") FIGURE("adder_dsps", "0")

#define KERNEL(empty, full)                                                                                            \
  "kernel:\n  mac_dsps: {value: 1, source: s}\n  mac_luts: {value: 1, source: s}\n"                                    \
  "  compare_luts: {value: 1, source: s}\n  unit_luts: {value: 1, source: s}\n  unit_brams: {value: 1, source: s}\n"   \
  "  shell_luts: {value: 1, source: s}\n  shell_dsps: {value: 0, source: s}\n  shell_brams: {value: 1, source: s}\n"   \
  "  fmax_empty: {value: " empty ", source: s}\n  fmax_full: {value: " full ", source: s}\n"

static braid_chip *load(const char *name) {
  braid_chip *chip;
  if (braid_chip_load(NULL, name, &chip) != BRAID_OK) fail_msg("%s: %s", name, braid_error_detail());
  return chip;
}

/* A VU9P has what its product table says, and a source stands beside every number of every chip. */
static void test_library(void **state) {
  (void)state;
  assert_true(braid_chip_count() >= 8);
  for (size_t i = 0; i < braid_chip_count(); i++) {
    braid_chip *chip = load(braid_chip_name(i));
    const braid_figure *needed[] = {chip->luts,      chip->dsps, chip->brams, chip->bram_bits, chip->multiplier_dsps,
                                    chip->adder_dsps};
    for (size_t k = 0; k < sizeof needed / sizeof *needed; k++) assert_true(strlen(needed[k]->source) > 10);
    assert_true(chip->dsps->value >= 1000 && chip->luts->value > 100000);
    assert_true(chip->bram_bits->value == 36864 || chip->bram_bits->value == 20480);
    braid_chip_destroy(chip);
  }
  braid_chip *chip = load("XCVU9P"), *same = load("vu9p");
  assert_true(chip->luts->value == 1182240 && chip->dsps->value == 6840 && chip->brams->value == 2160);
  assert_true(chip->bandwidth->value == 63.9 && chip->clock->value == 200);
  assert_true(chip->built->luts == 480000 && chip->built->dsps == 4202);
  assert_string_equal(chip->name, same->name);
  braid_chip_destroy(chip);
  braid_chip_destroy(same);
  assert_int_equal(braid_chip_load(NULL, "vu10p", &chip), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "xcvu9p"));
  assert_null(chip);
  assert_int_equal(braid_chip_load(NULL, "./vu9p", &chip), BRAID_NOT_FOUND); /* a path */
  assert_int_equal(braid_chip_load(NULL, "nothing.yaml", &chip), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "nothing.yaml"));
}

static void test_own_file(void **state) {
  (void)state;
  char path[] = "/tmp/braid-chip-XXXXXX.yaml";
  int file = mkstemps(path, 5);
  assert_true(file >= 0 && write(file, NEEDED, sizeof NEEDED - 1) == sizeof NEEDED - 1);
  close(file);
  braid_chip *chip = load(path);
  assert_string_equal(chip->name, "c");
  assert_true(chip->luts->value == 1000);
  assert_null(chip->bandwidth);
  assert_null(chip->built);
  braid_chip_destroy(chip);
  unlink(path);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"", "empty"},
      {"name: c\n", "luts"},
      {NEEDED "lutz: {value: 1, source: s}\n", "lutz"},
      {NEEDED "bandwidth: 63.9\n", "line: 8"},
      {NEEDED "bandwidth: {value: 63.9}\n", "source"},
      {NEEDED "bandwidth: {value: 63.9, source: \"\"}\n", "line: 8"},
      {NEEDED "bandwidth: {value: fast, source: s}\n", "fast"},
      {NEEDED "bandwidth: {value: 0, source: s}\n", "line 8: bandwidth is 0, expected a number from 1e-06 to 1e+12"},
      {NEEDED "bandwidth: {value: -1, source: s}\n", "line 8: bandwidth is -1"},
      {NEEDED "bandwidth: {value: .nan, source: s}\n", "line"},
      {NEEDED "bandwidth: {value: nan, source: s}\n", "line 8: bandwidth is nan"},
      {NEEDED "bandwidth: {value: inf, source: s}\n", "line 8: bandwidth is inf"},
      {NEEDED "clock: {value: 1e13, source: s}\n", "line 8: clock is 1e+13"},
      {NEEDED "fixed_dsps: {value: -3, source: s}\n", "line 8: fixed_dsps is -3"},
      {NEEDED "lane_luts: {value: 3, source: s}\n", "line 8: lane_luts is given alone"},
      {NEEDED "built: {tb: 0, ti: 1, luts: 1, dsps: 1, source: s}\n", "line 8: tb is 0"},
      {NEEDED "built: {tb: 1, ti: 1, luts: 1, dsps: 1}\n", "source"},
      {NEEDED "luts: {value: 1, source: s}\n", "line"},
      {NEEDED "kernel: {mac_dsps: {value: 1, source: s}}\n", "mac_luts"},
      {NEEDED KERNEL("100", "-1"), "line 18: fmax_full is -1"},
      {NEEDED KERNEL("100", "200"), "line 17: fmax_empty is 100, expected a number from 200"},
      {NEEDED KERNEL("100", "0"), "line 18: fmax_full is 0"},
      {"name: \"c\\0d\"\n", "a byte of value 0, line: 1"},
      {"[[[[[[[", "line"},
      {"\x01\xff", "c.yaml"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_chip *chip;
    assert_int_equal(braid_chip_parse("c.yaml", cases[i].text, strlen(cases[i].text), &chip), BRAID_INVALID_FILE);
    assert_null(chip);
    print_message("%s\n", braid_error_detail());
    assert_non_null(strstr(braid_error_detail(), "c.yaml"));
    assert_non_null(strstr(braid_error_detail(), cases[i].said));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_library),
      cmocka_unit_test(test_own_file),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
