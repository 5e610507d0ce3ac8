/* Simulations of packages by the interface: results are those of the reference's plain loops, bit for bit, on any
 * number of cores; times are consistent with the compiler's and the design's bounds; what does not fit is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "overlay/compiler/compiler_fixture.h"
#include "overlay/reference.h"

enum { kTrials = 40 };

static braid_tensor *tensor_of(braid_dtype dtype, int rank, const int64_t *dims, const void *data) {
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  if (data) memcpy(braid_tensor_data(tensor), data, braid_desc_bytes(&desc));
  return tensor;
}

static int64_t numbers_of(const braid_overlay_map *map) {
  return (int64_t)map->channels * map->rows * map->columns;
}

/* Numbers between those of the map, beyond its ends too, and what they round to. */
static braid_tensor *draw_input(const braid_overlay_map *map, bool real, int8_t *expected) {
  const int64_t dims[] = {1, map->channels, map->rows, map->columns};
  braid_tensor *tensor = tensor_of(real ? BRAID_F32 : BRAID_I8, 4, dims, NULL);
  for (int64_t i = 0; i < numbers_of(map); i++) {
    int32_t quarters = draw(-600, 600), q = (int32_t)nearbyint(quarters / 4.0);
    expected[i] = (int8_t)(q < -128 ? -128 : q > 127 ? 127 : q);
    if (real)
      ((float *)braid_tensor_data(tensor))[i] = ldexpf((float)quarters / 4, map->exponent);
    else
      ((int8_t *)braid_tensor_data(tensor))[i] = expected[i];
  }
  return tensor;
}

static void expect_output(const braid_tensor *tensor, const braid_overlay_map *map, bool real, const int8_t *expected) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  assert_int_equal(desc->dtype, real ? BRAID_F32 : BRAID_I8);
  assert_int_equal(braid_desc_count(desc), numbers_of(map));
  for (int64_t i = 0; i < numbers_of(map); i++) {
    double got = real ? ((const float *)braid_tensor_const_data(tensor))[i]
                      : ((const int8_t *)braid_tensor_const_data(tensor))[i];
    assert_true(got == (real ? ldexp(expected[i], map->exponent) : expected[i]));
  }
}

static void expect_times(const braid_package *package, const braid_overlay_design *design, int cores) {
  braid_overlay_simulated t;
  assert_int_equal(braid_overlay_simulate(package, design, cores, &t), BRAID_OK);
  braid_overlay_roofline roofline;
  braid_overlay_get_roofline(design, cores, &roofline);
  assert_true(t.cycles > 0 && t.estimate > 0 && t.read_bytes > 0 && t.written_bytes > 0);
  assert_true(fabs(t.seconds * design->clock_mhz * 1e6 - (double)t.cycles) < 0.5);
  assert_true((double)t.operations <= t.seconds * roofline.operations_per_second * 1.001);
  assert_true(t.operations >= 2 * braid_overlay_package_get_info(package).macs);
  assert_true(t.operations_per_second <= t.bound_per_second);
  for (int m = 0; m < BRAID_OVERLAY_UNITS; m++) {
    const braid_overlay_unit_time *u = &t.units[m];
    double all = u->busy + u->waits;
    for (int i = 0; i < BRAID_OVERLAY_IDLES; i++) all += u->idle[i];
    assert_true(fabs(all - 1) < 1e-9);
    bool moves = m == BRAID_OVERLAY_LOAD || m == BRAID_OVERLAY_SAVE;
    assert_true(fabs(u->carries + u->latency + u->turns - (moves ? u->busy : 0)) < 1e-9);
  }
  double kept = 0; /* of all banks: what the bytes take at their efficiency */
  for (int b = 0; b < t.banks; b++) kept += t.bank_busy[b];
  double line =
      (double)(t.read_bytes + t.written_bytes + t.fetched_bytes) / (design->bank_bits / 8.0) / design->efficiency;
  assert_true(t.banks == design->banks && fabs(kept * (double)t.cycles - line) < 0.01 * line + t.banks);
  double operations = (double)t.operations, bytes = (double)(t.read_bytes + t.written_bytes + t.fetched_bytes);
  double joules = 10 * t.seconds + 2e-12 * operations + 30e-12 * bytes;
  assert_true(t.fetched_bytes == 0 || t.fetched_bytes <= t.program_bytes);
  assert_true(fabs(t.transfer_seconds - 7e-6 - (double)t.program_bytes / 3e9) < 1e-12);
  assert_true(fabs(t.joules - joules) < 1e-9 * joules);
}

static void run_all(const drawn_network *n, const braid_package *package, const braid_overlay_design *design) {
  int8_t *expected[kMostMaps];
  braid_tensor *outputs[kMostMaps];
  const braid_overlay_map *map = &n->maps[n->inputs[0].map];
  int8_t *bytes = malloc((size_t)numbers_of(map));
  braid_tensor *input = draw_input(map, n->inputs[0].real, bytes);
  for (size_t o = 0; o < n->network.output_count; o++)
    expected[o] = malloc((size_t)numbers_of(&n->maps[n->outputs[o].map]));
  assert_int_equal(braid_overlay_reference(&n->network, (const int8_t *const[]){bytes}, expected, NULL), BRAID_OK);
  for (int cores = 1; cores <= design->cores; cores += 5) {
    braid_overlay_run_options options = {.seed = (uint64_t)draw(0, 1000), .races = draw(0, 1)};
    braid_status status = braid_overlay_run(package, design, cores, &options, &input, NULL, outputs);
    if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
    for (size_t o = 0; o < n->network.output_count; o++) {
      expect_output(outputs[o], &n->maps[n->outputs[o].map], n->outputs[o].real, expected[o]);
      braid_tensor_release(outputs[o]);
    }
    expect_times(package, design, cores);
  }
  braid_tensor_release(input);
  for (size_t o = 0; o < n->network.output_count; o++) free(expected[o]);
  free(bytes);
}

static void test_random(void **state) {
  (void)state;
  int done = 0;
  draw_key = 77;
  for (int trial = 0; trial < kTrials; trial++) {
    drawn_network n;
    braid_package *package = NULL;
    draw_network(&n);
    for (size_t i = 0; i < n.network.input_count; i++) n.inputs[i].real = draw(0, 1);
    for (size_t o = 0; o < n.network.output_count; o++) n.outputs[o].real = draw(0, 1);
    braid_overlay_design design = draw_design();
    design.idle_watts = 10;
    design.picojoules_per_operation = 2;
    design.picojoules_per_ddr_byte = 30;
    design.host_latency_us = 7;
    design.host_gigabytes_per_second = 3;
    if (draw(0, 1)) design.instruction_bytes = 16 * draw(4, 64) * design.cores; /* less than most programs */
    braid_status status = braid_package_compile(&n.network, &design, NULL, &package);
    assert_true(status == BRAID_OK || status == BRAID_UNSUPPORTED);
    if (status == BRAID_OK) run_all(&n, package, &design);
    done += status == BRAID_OK;
    braid_package_destroy(package);
    drawn_free(&n);
  }
  assert_true(done > kTrials / 3);
}

static void expect_refused(const braid_package *package, const braid_overlay_design *design, int cores,
                           braid_tensor *input, const char *why) {
  braid_tensor *outputs[kMostMaps];
  assert_int_equal(braid_overlay_run(package, design, cores, NULL, &input, NULL, outputs), BRAID_INVALID_ARGUMENT);
  if (!strstr(braid_error_detail(), why)) fail_msg("%s", braid_error_detail());
  for (size_t o = 0; o < package->output_count; o++) assert_null(outputs[o]);
  braid_tensor_release(input);
}

static void test_refused(void **state) {
  (void)state;
  drawn_network n;
  braid_package *package;
  const braid_overlay_design *design, *other;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-16x512", &design), BRAID_OK);
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-1x8192", &other), BRAID_OK);
  draw_key = 78;
  drawn_begin(&n, 3, 4, 5);
  draw_sum(&n, 0);
  drawn_end(&n);
  n.inputs[0].real = true;
  assert_int_equal(braid_package_compile(&n.network, design, NULL, &package), BRAID_OK);
  static const int64_t right[] = {3, 4, 5}, turned[] = {4, 5, 3}, short_one[] = {3, 4, 4};
  float numbers[60] = {0};
  numbers[7] = NAN;
  expect_refused(package, design, 1, tensor_of(BRAID_F32, 3, right, numbers), "number 7 is NaN");
  expect_refused(package, design, 1, tensor_of(BRAID_F32, 3, turned, NULL), "expected is float32 or int8 of 3, 4, 5");
  expect_refused(package, design, 1, tensor_of(BRAID_F32, 3, short_one, NULL), "expected");
  expect_refused(package, design, 1, tensor_of(BRAID_U8, 3, right, NULL), "expected");
  expect_refused(package, design, 17, tensor_of(BRAID_I8, 3, right, NULL), "cnn-16x512 has 1 to 16");
  expect_refused(package, other, 1, tensor_of(BRAID_I8, 3, right, NULL), "those of cnn-1x8192 differ");
  braid_overlay_simulated t;
  assert_int_equal(braid_overlay_simulate(package, design, 0, &t), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_overlay_simulate(package, other, 1, &t), BRAID_INVALID_ARGUMENT);
  braid_overlay_design small = *design;
  small.bank_bytes = 16;
  small.banks = 1;
  assert_true(braid_overlay_simulate(package, &small, 1, &t) == BRAID_INVALID_ARGUMENT);
  braid_package_destroy(package);
  drawn_free(&n);
  braid_overlay_design_destroy(design);
  braid_overlay_design_destroy(other);
}

/* Files in which an input, or an output, lies in a segment for something else. */
static void test_odd_segment(void **state) {
  (void)state;
  static const int kSegments[] = {BRAID_SEGMENT_FEATURES, BRAID_SEGMENT_INPUTS, BRAID_SEGMENT_OUTPUTS};
  drawn_network n;
  braid_package *package, *again;
  const braid_overlay_design *design;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-16x512", &design), BRAID_OK);
  drawn_begin(&n, 16, 4, 5);
  draw_sum(&n, 0);
  drawn_end(&n);
  assert_int_equal(braid_package_compile(&n.network, design, NULL, &package), BRAID_OK);
  package->bytes[BRAID_SEGMENT_FEATURES] += (int64_t)20 * 16;
  for (int port = 0; port < 2; port++)
    for (int s = 0; s < 3; s++) {
      uint32_t at = port ? package->outputs[0].map : package->inputs[0].map;
      braid_package_map *map = (braid_package_map *)(uintptr_t)&package->maps[at];
      int32_t own = map->segment;
      braid_text file;
      braid_text_init(&file, NULL);
      map->segment = kSegments[s];
      assert_int_equal(braid_package_save(package, &file), BRAID_OK);
      braid_status status = braid_package_load((const uint8_t *)file.data, file.length, NULL, &again);
      assert_int_equal(status, kSegments[s] == own ? BRAID_OK : BRAID_INVALID_FILE);
      if (status != BRAID_OK)
        assert_non_null(strstr(braid_error_detail(), port ? "outputs lie in 3" : "inputs lie in 2"));
      braid_package_destroy(again);
      braid_text_deinit(&file);
      map->segment = own;
    }
  braid_package_destroy(package);
  braid_overlay_design_destroy(design);
  drawn_free(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_odd_segment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
