/* The estimate of resources against Table 1 of Zeng et al. 2021, its fit against NumPy's, blocks by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "braid/overlay.h"

/* numpy.linalg.lstsq over the same rows and terms: of all of them, and without those of the same design. */
static const struct {
  const char *name;
  double luts, luts_left_out, ffs, ffs_left_out;
} kNumpy[] = {
    {"static CNN 1x8192", 243752.7, 257807.3, 230666.7, 224250.0},
    {"static CNN 16x512", 420565.1, 430889.6, 392000.0, 399000.0},
    {"virtualized CNN 16x512", 433825.4, 422975.8, 401333.3, 400750.0},
    {"static RNN 1x2048", 116989.2, 116096.4, 199666.7, 204250.0},
    {"static RNN 16x256", 132088.9, 124308.2, 361000.0, 356000.0},
    {"virtualized RNN 16x256", 145349.2, 154024.2, 370333.3, 370750.0},
};

static double error_of(const braid_overlay_built *row, braid_overlay_resource resource, bool left_out) {
  return fabs((left_out ? row->left_out : row->estimated)[resource] / row->published[resource] - 1);
}

static void test_fit(void **state) {
  (void)state;
  size_t compared = 0;
  for (size_t i = 0; i < braid_overlay_built_count(); i++) {
    braid_overlay_built row;
    assert_int_equal(braid_overlay_get_built(i, &row), BRAID_OK);
    for (size_t k = 0; k < sizeof kNumpy / sizeof *kNumpy; k++) {
      if (strcmp(row.published_name, kNumpy[k].name) != 0) continue;
      compared++;
      assert_float_equal(row.estimated[BRAID_OVERLAY_LUTS], kNumpy[k].luts, 0.1);
      assert_float_equal(row.left_out[BRAID_OVERLAY_LUTS], kNumpy[k].luts_left_out, 0.1);
      assert_float_equal(row.estimated[BRAID_OVERLAY_FFS], kNumpy[k].ffs, 0.1);
      assert_float_equal(row.left_out[BRAID_OVERLAY_FFS], kNumpy[k].ffs_left_out, 0.1);
    }
    if (!row.design) continue;
    assert_true(error_of(&row, BRAID_OVERLAY_LUTS, false) < 0.06 && error_of(&row, BRAID_OVERLAY_LUTS, true) < 0.1);
    assert_true(error_of(&row, BRAID_OVERLAY_FFS, false) < 0.02 && error_of(&row, BRAID_OVERLAY_FFS, true) < 0.05);
  }
  assert_int_equal(compared, 9); /* all but the two user budgets */
}

/* What tenants share was built with the memories that the designs of the library have: they fit into them. */
static void test_counted(void **state) {
  (void)state;
  for (size_t i = 0; i < braid_overlay_built_count(); i++) {
    braid_overlay_built row;
    assert_int_equal(braid_overlay_get_built(i, &row), BRAID_OK);
    if (!row.design) {
      for (int r = 0; r < BRAID_OVERLAY_RESOURCES; r++) assert_true(isnan(row.estimated[r]) && row.published[r] > 0);
      continue;
    }
    assert_true(row.estimated[BRAID_OVERLAY_DSPS] == row.published[BRAID_OVERLAY_DSPS]);
    assert_true(isnan(row.left_out[BRAID_OVERLAY_DSPS]));
    bool largest = row.shared || strstr(row.published_name, " 1x");
    if (!largest) continue;
    assert_true(row.estimated[BRAID_OVERLAY_BRAMS] <= row.published[BRAID_OVERLAY_BRAMS]);
    assert_true(row.estimated[BRAID_OVERLAY_URAMS] <= row.published[BRAID_OVERLAY_URAMS]);
    assert_true(row.estimated[BRAID_OVERLAY_URAMS] > 0.95 * row.published[BRAID_OVERLAY_URAMS]);
  }
}

static const braid_overlay_memory *memory_named(const braid_overlay_memory *all, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(all[i].name, name) == 0) return &all[i];
  fail_msg("no memory of %s", name);
  return NULL;
}

static void test_blocks(void **state) {
  (void)state;
  braid_overlay_memory all[BRAID_OVERLAY_MEMORIES];
  /* 5 * 3 = 15 bytes of a feature map are 2 blocks side by side, 64 KB of 4,096 lines; 3 * 9 = 27 of weights 4, of 128
   * KB; 5 * 9 sums of 4 bytes 23, of 94,208 bytes; 256 bits of a port 4, of 16 KB. */
  braid_overlay_design d = {.cores = 3,
                            .pixels = 5,
                            .channels_in = 3,
                            .channels_out = 9,
                            .feature_bytes = 65552,
                            .weight_bytes = 131072,
                            .sum_bytes = 94208,
                            .bias_bytes = 8208,
                            .instruction_bytes = 16,
                            .port_bits = 256,
                            .burst_bytes = 512,
                            .outstanding = 8};
  size_t count = braid_overlay_get_memories(&d, all);
  assert_int_equal(count, 6);
  assert_int_equal(memory_named(all, count, "feature maps")->blocks, 4);
  assert_int_equal(memory_named(all, count, "weights")->blocks, 4);
  assert_int_equal(memory_named(all, count, "sums")->blocks, 23);
  assert_int_equal(memory_named(all, count, "biases")->blocks, 4);
  assert_int_equal(memory_named(all, count, "buffers of ports")->blocks, 4);
  assert_int_equal(memory_named(all, count, "buffers of ports")->count, 6);
  assert_int_equal(memory_named(all, count, "instructions")->blocks, 2);
  double resources[BRAID_OVERLAY_RESOURCES];
  braid_overlay_estimate(&d, true, resources);
  assert_true(resources[BRAID_OVERLAY_URAMS] == 3 * (4 + 4));
  assert_true(resources[BRAID_OVERLAY_BRAMS] == 3 * (23 + 4 + 2 * 4) + 2);
  assert_true(resources[BRAID_OVERLAY_DSPS] == 3 * 68); /* 135 products, two to a DSP */
  braid_overlay_design r = {.recurrent = true, .cores = 2, .rows = 3, .columns = 7, .weight_bytes = 16};
  r.vector_bytes = r.sum_bytes = r.bias_bytes = r.instruction_bytes = 16;
  r.port_bits = 128, r.burst_bytes = 16, r.outstanding = 1;
  count = braid_overlay_get_memories(&r, all);
  assert_int_equal(memory_named(all, count, "weights")->blocks, 6); /* 42 bytes side by side */
  assert_int_equal(memory_named(all, count, "vectors")->blocks, 2);
  braid_overlay_estimate(&r, true, resources);
  assert_true(resources[BRAID_OVERLAY_DSPS] == 2 * 21);
}

/* Every design of the library fits what the paper's platform leaves to users. */
static void test_budget(void **state) {
  (void)state;
  braid_overlay_built budget;
  assert_int_equal(braid_overlay_get_built(0, &budget), BRAID_OK);
  for (size_t i = 0; i < braid_overlay_design_count(); i++) {
    const braid_overlay_design *design;
    double resources[BRAID_OVERLAY_RESOURCES];
    assert_int_equal(braid_overlay_design_load(NULL, braid_overlay_design_name(i), &design), BRAID_OK);
    braid_overlay_estimate(design, design->cores > 1, resources);
    for (int r = 0; r < BRAID_OVERLAY_RESOURCES; r++)
      assert_true(resources[r] > 0 && resources[r] <= budget.published[r]);
    braid_overlay_design_destroy(design);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_fit), cmocka_unit_test(test_counted),
                                     cmocka_unit_test(test_blocks), cmocka_unit_test(test_budget)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
