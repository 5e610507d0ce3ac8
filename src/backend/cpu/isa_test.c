/* The loops that are compiled for several instruction sets: each set that this processor has gives the bits of the
 * baseline. Floating-point products are fused where the set can, so theirs are those of the set before. */
#include "backend/cpu/isa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/blocked/planes_isa.h"
#include "backend/cpu/loops/lines.h"
#include "backend/cpu/products/gemm.h"
#include "backend/cpu/quantized/bytes_isa.h"
#include "backend/cpu/recurrent/unit.h"
#include "base/philox.h"
#include "skip.h"

enum { kCount = 4096, kPlaces = 77, kLanes = BRAID_BLOCKED_LANES };

typedef struct numbers {
  float f[3][kCount];
  double d[2][kCount];
  int16_t shorts[2][kCount];
  uint8_t bytes[kCount];
} numbers;

static numbers in;

typedef union results {
  float f[2 * kCount];
  double d[kCount];
  int32_t i[kCount];
  uint8_t bytes[8 * kCount];
} results;

static int setup(void **state) {
  (void)state;
  for (uint64_t i = 0; i < kCount; i++) {
    for (uint32_t k = 0; k < 3; k++) in.f[k][i] = (float)braid_random_below(5, k, 0, i, 1 << 20) / (1 << 17) - 4;
    for (uint32_t k = 0; k < 2; k++) in.d[k][i] = (double)braid_random_below(6, k, 0, i, 1 << 20) / (1 << 17) - 4;
    for (uint32_t k = 0; k < 2; k++) in.shorts[k][i] = (int16_t)((int)braid_random_below(7, k, 0, i, 511) - 255);
    in.bytes[i] = (uint8_t)braid_random_below(8, 0, 0, i, 256);
  }
  in.f[0][40] = NAN, in.f[0][41] = INFINITY;
  return 0;
}

/* --- cases ---------------------------------------------------------------------------------------------------------
 */
static braid_blocked_pool pool(void) {
  return (braid_blocked_pool){.w = {.rank = 2,
                                    .input = {1, 9, 8},
                                    .kernel = {1, 3, 2},
                                    .stride = {1, 2, 1},
                                    .dilation = {1, 1, 2},
                                    .begin = {0, 1, 1},
                                    .end = {0, 1, 1},
                                    .output = {1, 5, 8}},
                              .planes = 1,
                              .blocks = 1,
                              .channels = 13,
                              .stride = kLanes};
}

static void run_pools(results *out) {
  braid_blocked_pool p = pool();
  enum { kPlane = 9 * 8 * kLanes, kPooled = 5 * 8 * kLanes };
  uint8_t window[kPooled];
  float placed[kPooled], alone[kPooled]; /* maxima with their places and without */
  for (int64_t oh = 0; oh < 5; oh++) {
    BRAID_ISA_CALL(braid_blocked_max_row, &p, in.f[0], oh, 13, placed, window);
    BRAID_ISA_CALL(braid_blocked_max_row, &p, in.f[0], oh, 13, alone, NULL);
    BRAID_ISA_CALL(braid_blocked_max_row, &p, in.f[1], oh, 13, out->f, window);
    BRAID_ISA_CALL(braid_blocked_average_row, &p, in.f[1], oh, 13, out->f + kPooled);
  }
  assert_memory_equal(placed, alone, sizeof placed);
  BRAID_ISA_CALL(braid_blocked_max_grad_plane, &p, in.f[2], window, 13, out->f + 2 * kPooled);
  BRAID_ISA_CALL(braid_blocked_average_grad_plane, &p, in.f[2], 13, out->f + 2 * kPooled + kPlane);
}

static void run_planes(results *out) {
  BRAID_ISA_CALL(braid_blocked_add_plane, in.f[0], kPlaces, out->d);
  BRAID_ISA_CALL(braid_blocked_sum_plane, in.f[1], kPlaces, NULL, out->d + 16);
  BRAID_ISA_CALL(braid_blocked_sum_plane, in.f[1], kPlaces, in.f[2], out->d + 32);
  BRAID_ISA_CALL(braid_blocked_sum_products, in.f[1], in.f[2], kPlaces, in.f[2], NULL, out->d + 48, out->d + 64);
  float *more = out->f + 256;
  BRAID_ISA_CALL(braid_blocked_scale_plane, in.f[1], kPlaces, in.f[2], in.f[2] + 16, more);
  BRAID_ISA_CALL(braid_blocked_mix_plane, in.f[1], in.f[2], kPlaces, in.f[2], in.f[2] + 16, in.f[2] + 32, NULL,
                 more + kPlaces * kLanes);
  braid_blocked_gate gate = {in.f[0], in.f[0] + 16};
  BRAID_ISA_CALL(braid_blocked_sum_products, in.f[1], in.f[2], kPlaces, in.f[2], &gate, out->d + 80, out->d + 96);
  BRAID_ISA_CALL(braid_blocked_scale_plane_relu, in.f[1], kPlaces, in.f[2], in.f[2] + 16, more + 2 * kPlaces * kLanes);
  BRAID_ISA_CALL(braid_blocked_mix_plane, in.f[1], in.f[2], kPlaces, in.f[2], in.f[2] + 16, in.f[2] + 32, &gate,
                 more + 3 * kPlaces * kLanes);
}

static void run_bytes(results *out) {
  BRAID_ISA_CALL(braid_quantize_u8, in.f[0], 999, 0.031f, 128, out->bytes);
  BRAID_ISA_CALL(braid_quantize_i8, in.f[0], 999, 0.031f, 3, (int8_t *)out->bytes + 1000);
  BRAID_ISA_CALL(braid_dequantize_u8, in.bytes, 999, 0.017f, 100, out->f + 500);
  BRAID_ISA_CALL(braid_dequantize_i8, (const int8_t *)in.bytes, 999, 0.017f, -7, out->f + 1500);
  out->f[2500] = out->f[2501] = 0;
  BRAID_ISA_CALL(braid_widen, in.f[0], 999, &out->f[2500], &out->f[2501]);
  int32_t(*sums)[BRAID_BYTES_COLUMNS] = (int32_t(*)[BRAID_BYTES_COLUMNS])(out->i + 2600);
  BRAID_ISA_CALL(braid_bytes_multiply_rows, in.shorts[0], in.shorts[1], 96, 31, sums);
  BRAID_ISA_CALL(braid_bytes_multiply_row, in.shorts[0], in.shorts[1], 96, 31, out->i + 2800);
  BRAID_ISA_CALL(braid_bytes_scale_sums, out->i + 2800, 31, in.f[1], 1, 5, 0, 255, out->bytes + 12000);
  BRAID_ISA_CALL(braid_bytes_add_line, in.bytes, false, 100, 60, -3, 2, 30, 7, 11, out->i + 3100);
  BRAID_ISA_CALL(braid_bytes_add_line, in.bytes, true, 100, 60, -3, 2, 30, -7, 11, out->i + 3200);
}

static void run_lines(results *out) {
  float *f = out->f;
  double *d = out->d + 1000;
  for (int wide = 0; wide < 2; wide++) { /* one line, then 50 side by side */
    int64_t count = wide ? 40 : 1003, step = wide ? 50 : 1, lines = wide ? 50 : 1;
    braid_lines_max_f32(in.f[1], count, step, lines, f);
    braid_lines_dot_f32(in.f[1], in.f[2], count, step, lines, f + 50);
    braid_lines_max_f64(in.d[0], count, step, lines, d);
    braid_lines_exp_f64(in.d[0], d, count, step, lines, NULL, d + 50);
    braid_lines_dot_f64(in.d[0], NULL, count, step, lines, d + 100);
    f += 100, d += 150;
  }
  braid_lines_exp_f32(in.f[1], out->f, 1003, 1, 1, out->f + 300, out->f + 299);
}

static void run_units(results *out) {
  float *f = out->f;
  double *d = out->d + 1500;
  for (int kind = BRAID_UNIT_RELU; kind <= BRAID_UNIT_SOFTPLUS; kind++, f += 200, d += 100) {
    braid_unit unit = {.kind = (braid_unit_kind)kind, .alpha = 0.7, .beta = 0.3, .clip = 2.5};
    memcpy(f, in.f[1], 200 * sizeof *f), memcpy(d, in.d[0], 100 * sizeof *d);
    braid_unit_run_f32(&unit, f, 99), braid_unit_run_f64(&unit, d, 49);
    memcpy(f + 100, in.f[2], 99 * sizeof *f), memcpy(d + 50, in.d[1], 49 * sizeof *d);
    braid_unit_slope_f32(&unit, f, f + 100, 99), braid_unit_slope_f64(&unit, d, d + 50, 49);
  }
}

/* 23 x 29 x 37, columns of no whole panel. */
static void multiply(braid_dtype dtype, const void *left, const void *right, void *out) {
  static _Alignas(64) uint8_t packed[3 * 29 * 64 * 2];
  size_t bytes;
  assert_true(braid_gemm_packed_bytes(dtype, 29, 37, &bytes) && bytes <= sizeof packed);
  braid_gemm_pack(dtype, 29, 37, (braid_matrix){.data = right, .row_step = 37, .column_step = 1}, packed);
  braid_gemm_run(dtype, 23, 29, 37, (braid_matrix){.data = left, .row_step = 29, .column_step = 1}, packed, out, 37,
                 false);
}

static void run_integer_products(results *out) {
  multiply(BRAID_I32, in.d[0], in.d[1], out->i);
  multiply(BRAID_I64, in.d[0], in.d[1], out->d + 1000);
}

static void run_products(results *out) {
  multiply(BRAID_F32, in.f[1], in.f[2], out->f);
  multiply(BRAID_F64, in.d[0], in.d[1], out->d + 1000);
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
static const struct {
  const char *name;
  void (*run)(results *out);
  braid_isa first; /* whose bits the later ones give */
} kCases[] = {{"pools", run_pools, BRAID_ISA_BASE},    {"planes", run_planes, BRAID_ISA_BASE},
              {"bytes", run_bytes, BRAID_ISA_BASE},    {"lines", run_lines, BRAID_ISA_BASE},
              {"units", run_units, BRAID_ISA_BASE},    {"integer products", run_integer_products, BRAID_ISA_BASE},
              {"products", run_products, BRAID_ISA_V3}};

static void test_same_bits(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  if (best == BRAID_ISA_BASE) skip_test("cpu", "this CPU has only the baseline's instructions");
  for (size_t c = 0; c < sizeof kCases / sizeof *kCases; c++) {
    static results first, other;
    if (kCases[c].first > best) continue;
    memset(&first, 0, sizeof first);
    assert_true(braid_isa_limit(kCases[c].first));
    kCases[c].run(&first);
    for (braid_isa isa = kCases[c].first + 1; isa <= best; isa++) {
      memset(&other, 0, sizeof other);
      assert_true(braid_isa_limit(isa));
      assert_int_equal(braid_isa_current(), isa);
      kCases[c].run(&other);
      for (size_t i = 0; i < sizeof first; i++)
        if (first.bytes[i] != other.bytes[i])
          fail_msg("%s: byte %zu is not the same for %s and %s", kCases[c].name, i, braid_isa_name(kCases[c].first),
                   braid_isa_name(isa));
    }
  }
}

static void test_limit(void **state) {
  (void)state;
  assert_false(braid_isa_limit(BRAID_ISA_COUNT));
  assert_true(braid_isa_limit(BRAID_ISA_BASE));
  assert_int_equal(braid_isa_current(), BRAID_ISA_BASE);
  assert_string_equal(braid_isa_name(BRAID_ISA_V3), "x86-64-v3");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_limit)};
  return skip_run_group_tests(tests, setup, NULL);
}
