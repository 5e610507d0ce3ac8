#include "tensor/half.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

/* What the bits mean, in double, by the definition. */
static double meaning(uint32_t bits, int exponent_bits, int fraction_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  double fraction = (double)(bits & ((1u << fraction_bits) - 1));
  double value = exponent ? ldexp(1 + ldexp(fraction, -fraction_bits), exponent - bias)
                          : ldexp(fraction, 1 - bias - fraction_bits);
  return bits >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

static void check_all(float (*widen)(uint16_t), uint16_t (*narrow)(float), int exponent_bits, int fraction_bits) {
  uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    float value = widen((uint16_t)bits);
    if ((bits & 0x7fff) > infinity) {
      assert_true(isnan(value));
      assert_true(isnan(widen(narrow(value))));
      continue;
    }
    if ((bits & 0x7fff) == infinity)
      assert_true(value == (bits >> 15 ? -INFINITY : INFINITY));
    else
      assert_true((double)value == meaning(bits, exponent_bits, fraction_bits));
    assert_int_equal(narrow(value), bits);
  }
  /* Between two neighbours: the middle goes to the even one, everything else to the nearer. Past the largest, the
   * neighbour is what the next exponent would be, and goes to infinity. */
  for (uint32_t bits = 0; bits < infinity; bits++) {
    double low = meaning(bits, exponent_bits, fraction_bits);
    double high = bits + 1 == infinity ? 2 * low - meaning(bits - 1, exponent_bits, fraction_bits)
                                       : meaning(bits + 1, exponent_bits, fraction_bits);
    float middle = (float)((low + high) / 2);
    if ((double)middle != (low + high) / 2) continue; /* below the smallest float32 */
    uint32_t even = bits & 1 ? bits + 1 : bits;
    assert_int_equal(narrow(middle), even);
    assert_int_equal(narrow(-middle), even | 0x8000);
    assert_int_equal(narrow(nextafterf(middle, -INFINITY)), bits);
    assert_int_equal(narrow(nextafterf(middle, INFINITY)), bits + 1);
  }
}

static float widen_f16(uint16_t half) {
  return braid_f16_to_f32(half);
}
static uint16_t narrow_f16(float value) {
  return braid_f32_to_f16(value);
}
static float widen_bf16(uint16_t half) {
  return braid_bf16_to_f32(half);
}
static uint16_t narrow_bf16(float value) {
  return braid_f32_to_bf16(value);
}

static void test_f16(void **state) {
  (void)state;
  check_all(widen_f16, narrow_f16, 5, 10);
  assert_int_equal(braid_f32_to_f16(1e30f), 0x7c00);
  assert_int_equal(braid_f32_to_f16(-1e-30f), 0x8000);
}

static void test_bf16(void **state) {
  (void)state;
  check_all(widen_bf16, narrow_bf16, 8, 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_f16), cmocka_unit_test(test_bf16)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
