/* Which tiles GPUs are given: one size for everything, slices where sums are long and results few, and no more than the
 * device takes. */
#include "launch/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const braid_launch_traits kGpu = {.gpu = true, .compute_units = 132, .local_bytes = 49152, .max_group = 1024};

static braid_launch_traits gpu(braid_launch_knobs knobs) {
  braid_launch_traits traits = kGpu;
  braid_launch_tune(&traits, &knobs);
  return traits;
}

static braid_launch_tiling product(int64_t rows, int64_t inner, int64_t columns) {
  return (braid_launch_tiling){rows, columns, inner, 1, true, true, false};
}

/* The size that fits, the only one; *slices: of whole depths, which cover the sum and are not empty. */
static braid_launch_algorithm choose(const braid_launch_traits *traits, const braid_launch_tiling *tiling,
                                     int64_t *slices) {
  braid_launch_algorithm chosen = BRAID_LAUNCH_PLAIN;
  for (braid_launch_algorithm algorithm = BRAID_LAUNCH_TILES_LARGE; algorithm <= BRAID_LAUNCH_TILES_SMALL;
       algorithm++) {
    char why[128] = "";
    if (!braid_launch_tiles_fit(traits, algorithm, tiling, why, sizeof why)) {
      assert_true(strlen(why) > 0);
      continue;
    }
    if (chosen != BRAID_LAUNCH_PLAIN) fail_msg("two sizes for %ld x %ld", (long)tiling->rows, (long)tiling->columns);
    braid_launch_tile tile = braid_launch_tile_of(traits, algorithm, tiling->windows);
    int64_t slice;
    *slices = braid_launch_slices(traits, &tile, tiling, &slice);
    assert_int_equal(slice % tile.depth, 0);
    assert_true(*slices >= 1 && *slices * slice >= tiling->inner);
    assert_true(*slices == 1 || (*slices - 1) * slice < tiling->inner);
    chosen = algorithm;
  }
  return chosen;
}

static void test_choice(void **state) {
  (void)state;
  static const struct {
    int64_t rows, inner, columns, units;
    braid_launch_algorithm algorithm;
    int64_t least, most; /* slices */
  } cases[] = {
      {2048, 2048, 2048, 132, BRAID_LAUNCH_TILES_LARGE, 1, 1},    /* more tiles than compute units */
      {256, 8192, 1568, 132, BRAID_LAUNCH_TILES_LARGE, 4, 16},    /* fewer, but long sums */
      {256, 256, 256, 132, BRAID_LAUNCH_TILES_SMALL, 1, 1},       /* short sums: not worth a second launch */
      {16, 4096, 1000, 132, BRAID_LAUNCH_TILES_SMALL, 8, 16},     /* few rows */
      {64, 256, 25088, 132, BRAID_LAUNCH_TILES_MEDIUM, 1, 1},     /* rows for half a large tile */
      {1024, 1024, 1024, 8, BRAID_LAUNCH_TILES_LARGE, 1, 1},      /* a small device is full at once */
      {65536, 65536, 65536, 132, BRAID_LAUNCH_TILES_LARGE, 1, 1}, /* parts would take more memory than there is */
      {1, 1, 1, 132, BRAID_LAUNCH_TILES_SMALL, 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_launch_traits traits = gpu((braid_launch_knobs){0});
    traits.compute_units = (uint32_t)cases[i].units;
    braid_launch_tiling tiling = product(cases[i].rows, cases[i].inner, cases[i].columns);
    int64_t slices = 0;
    braid_launch_algorithm algorithm = choose(&traits, &tiling, &slices);
    if (algorithm != cases[i].algorithm || slices < cases[i].least || slices > cases[i].most)
      fail_msg("case %zu: algorithm %d in %ld slices", i, (int)algorithm, (long)slices);
  }
}

static void test_always_one(void **state) {
  (void)state;
  srand(20261121);
  for (int i = 0; i < 20000; i++) {
    braid_launch_traits traits = gpu((braid_launch_knobs){0});
    traits.compute_units = (uint32_t)(rand() % 200);
    braid_launch_tiling tiling =
        product(rand() % (1 << rand() % 20), rand() % (1 << rand() % 16), rand() % (1 << rand() % 20));
    tiling.batches = rand() % 4;
    tiling.windows = rand() % 2;
    tiling.right_fours = !tiling.windows && rand() % 2;
    int64_t slices;
    if (choose(&traits, &tiling, &slices) == BRAID_LAUNCH_PLAIN)
      fail_msg("no size for %ld x %ld x %ld", (long)tiling.rows, (long)tiling.inner, (long)tiling.columns);
  }
}

static void test_limits(void **state) {
  (void)state;
  braid_launch_tiling tiling = product(2048, 2048, 2048);
  int64_t slices;
  braid_launch_traits traits = gpu((braid_launch_knobs){0});
  assert_int_equal(braid_launch_tile_of(&traits, BRAID_LAUNCH_TILES_LARGE, false).depth, 16);
  assert_int_equal(braid_launch_tile_of(&traits, BRAID_LAUNCH_TILES_LARGE, true).depth, 8);
  traits.local_bytes = 32768;
  braid_launch_tile tile = braid_launch_tile_of(&traits, BRAID_LAUNCH_TILES_LARGE, false);
  assert_int_equal(tile.depth, 8);
  assert_true(tile.local_bytes <= traits.local_bytes);
  assert_int_equal(choose(&traits, &tiling, &slices), BRAID_LAUNCH_TILES_LARGE);
  traits.max_group = 128;
  assert_int_equal(choose(&traits, &tiling, &slices), BRAID_LAUNCH_TILES_SMALL);
  traits.max_group = 32;
  assert_int_equal(choose(&traits, &tiling, &slices), BRAID_LAUNCH_PLAIN);
  traits = gpu((braid_launch_knobs){.slices = 3});
  tile = braid_launch_tile_of(&traits, BRAID_LAUNCH_TILES_LARGE, false);
  int64_t slice;
  assert_int_equal(braid_launch_slices(&traits, &tile, &tiling, &slice), 3);
  traits = gpu((braid_launch_knobs){.as_cpu = true});
  assert_int_equal(choose(&traits, &tiling, &slices), BRAID_LAUNCH_PLAIN);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_always_one),
                                     cmocka_unit_test(test_limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
