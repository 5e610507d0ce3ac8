#include "tensor/narrow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* The formats as their definitions give them: (OCP) 8-bit floating point, ONNX's FN and UZ variants, MX. */
static const struct shape {
  braid_dtype dtype;
  int exponent, fraction, bias;
  const char *infinities, *nans; /* codes, as bytes */
  size_t infinity_count, nan_count;
  double most;
  bool negative_zero;
} kShapes[] = {
    {BRAID_F8E4M3FN, 4, 3, 7, "", "\x7f\xff", 0, 2, 448, true},
    {BRAID_F8E4M3FNUZ, 4, 3, 8, "", "\x80", 0, 1, 240, false},
    {BRAID_F8E5M2, 5, 2, 15, "\x7c\xfc", "\x7d\x7e\x7f\xfd\xfe\xff", 2, 6, 57344, true},
    {BRAID_F8E5M2FNUZ, 5, 2, 16, "", "\x80", 0, 1, 57344, false},
    {BRAID_F4E2M1, 2, 1, 1, "", "", 0, 0, 6, true},
};
enum { SHAPES = sizeof kShapes / sizeof *kShapes };

static const braid_narrowing kSaturates, kOverflows = {.overflows = true}, kWraps = {.wraps = true};

static bool is_among(const char *codes, size_t count, int code) {
  for (size_t i = 0; i < count; i++)
    if ((uint8_t)codes[i] == code) return true;
  return false;
}

static double meaning(const struct shape *s, int code) {
  int exponent = code >> s->fraction & ((1 << s->exponent) - 1), fraction = code & ((1 << s->fraction) - 1);
  double value = exponent ? ldexp(1 + ldexp(fraction, -s->fraction), exponent - s->bias)
                          : ldexp(fraction, 1 - s->bias - s->fraction);
  return code >> (s->exponent + s->fraction) & 1 ? -value : value;
}

static int sign_of(const struct shape *s) {
  return 1 << (s->exponent + s->fraction);
}

static void test_codes(void **state) {
  (void)state;
  for (size_t i = 0; i < SHAPES; i++) {
    const struct shape *s = &kShapes[i];
    double most = 0;
    for (int code = 0; code < 2 * sign_of(s); code++) {
      double value = braid_narrow_to_f64(s->dtype, (uint8_t)code);
      if (is_among(s->nans, s->nan_count, code)) {
        assert_true(isnan(value));
        assert_true(isnan(braid_narrow_to_f64(s->dtype, braid_narrow_of_f64(s->dtype, value, &kSaturates))));
        continue;
      }
      if (is_among(s->infinities, s->infinity_count, code)) {
        assert_true(value == (code & sign_of(s) ? -INFINITY : INFINITY));
      } else {
        assert_true(value == meaning(s, code) && !signbit(value) == !signbit(meaning(s, code)));
        most = fmax(most, value);
        assert_int_equal(braid_narrow_of_f64(s->dtype, value, &kSaturates), code);
      }
      assert_int_equal(braid_narrow_of_f64(s->dtype, value, &kOverflows), code);
    }
    assert_true(most == s->most);
  }
}

/* Between two neighbours the middle goes to the even one, everything else to the nearer, in double and in float32. */
static void test_rounding(void **state) {
  (void)state;
  for (size_t i = 0; i < SHAPES; i++) {
    const struct shape *s = &kShapes[i];
    for (int code = 0; meaning(s, code) < s->most; code++) {
      double middle = (meaning(s, code) + meaning(s, code + 1)) / 2;
      int even = code & 1 ? code + 1 : code;
      double below[] = {nextafter(middle, 0), (double)nextafterf((float)middle, 0)};
      double above[] = {nextafter(middle, INFINITY), (double)nextafterf((float)middle, INFINITY)};
      assert_int_equal(braid_narrow_of_f64(s->dtype, middle, &kSaturates), even);
      for (int k = 0; k < 2; k++) {
        int minus = code || s->negative_zero ? sign_of(s) : 0;
        assert_int_equal(braid_narrow_of_f64(s->dtype, below[k], &kSaturates), code);
        assert_int_equal(braid_narrow_of_f64(s->dtype, above[k], &kSaturates), code + 1);
        assert_int_equal(braid_narrow_of_f64(s->dtype, -below[k], &kSaturates), code | minus);
        assert_int_equal(braid_narrow_of_f64(s->dtype, -above[k], &kSaturates), (code + 1) | sign_of(s));
      }
    }
    assert_int_equal(braid_narrow_of_f64(s->dtype, -0.0, &kSaturates), s->negative_zero ? sign_of(s) : 0);
    assert_int_equal(braid_narrow_of_f64(s->dtype, -5e-324, &kOverflows), s->negative_zero ? sign_of(s) : 0);
  }
}

/* ONNX's tables of what becomes of large numbers. */
static void test_overflow(void **state) {
  (void)state;
  static const struct {
    braid_dtype dtype;
    double stays, goes; /* the largest that rounds to a finite number, and the next float32 */
    int most, beyond, infinite, nan;
  } kRows[] = {
      {BRAID_F8E4M3FN, 464, 464.00003, 0x7e, 0x7f, 0x7f, 0x7f},
      {BRAID_F8E4M3FNUZ, 247.99998, 248, 0x7f, 0x80, 0x80, 0x80},
      {BRAID_F8E5M2, 61439.996, 61440, 0x7b, 0x7c, 0x7c, 0x7e},
      {BRAID_F8E5M2FNUZ, 61439.996, 61440, 0x7f, 0x80, 0x80, 0x80},
      {BRAID_F4E2M1, 6.9, 7, 0x7, 0x7, 0x7, 0x8},
  };
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; i++) {
    braid_dtype dtype = kRows[i].dtype;
    assert_int_equal(braid_narrow_of_f64(dtype, kRows[i].stays, &kOverflows), kRows[i].most);
    assert_int_equal(braid_narrow_of_f64(dtype, kRows[i].goes, &kOverflows), kRows[i].beyond);
    assert_int_equal(braid_narrow_of_f64(dtype, 1e300, &kOverflows), kRows[i].beyond);
    assert_int_equal(braid_narrow_of_f64(dtype, INFINITY, &kOverflows), kRows[i].infinite);
    assert_int_equal(braid_narrow_of_f64(dtype, kRows[i].goes, &kSaturates), kRows[i].most);
    assert_int_equal(braid_narrow_of_f64(dtype, INFINITY, &kSaturates), kRows[i].most);
    assert_int_equal(braid_narrow_of_f64(dtype, copysign(NAN, 1), &kSaturates), kRows[i].nan);
    assert_int_equal(braid_narrow_of_f64(dtype, copysign(NAN, 1), &kOverflows), kRows[i].nan);
  }
  assert_int_equal(braid_narrow_of_f64(BRAID_F8E5M2, -INFINITY, &kOverflows), 0xfc);
  assert_int_equal(braid_narrow_of_f64(BRAID_F8E4M3FN, -INFINITY, &kOverflows), 0xff);
  assert_int_equal(braid_narrow_of_f64(BRAID_F8E4M3FN, -INFINITY, &kSaturates), 0xfe);
  assert_int_equal(braid_narrow_of_f64(BRAID_F8E5M2FNUZ, -INFINITY, &kSaturates), 0xff);
  assert_int_equal(braid_narrow_of_f64(BRAID_F4E2M1, -INFINITY, &kSaturates), 0xf);
}

static void test_powers(void **state) {
  (void)state;
  static const braid_narrowing kDown = {.e8m0 = BRAID_E8M0_DOWN}, kNearest = {.e8m0 = BRAID_E8M0_NEAREST},
                               kNan = {.e8m0 = BRAID_E8M0_NEAREST, .overflows = true};
  braid_dtype dtype = BRAID_F8E8M0;
  for (int code = 0; code < 255; code++) {
    double value = ldexp(1, code - 127), above = (double)nextafterf((float)value, INFINITY);
    int next = code < 254 ? code + 1 : 254;
    assert_true(braid_narrow_to_f64(dtype, (uint8_t)code) == value);
    assert_int_equal(braid_narrow_of_f64(dtype, value, &kSaturates), code);
    assert_int_equal(braid_narrow_of_f64(dtype, value, &kDown), code);
    assert_int_equal(braid_narrow_of_f64(dtype, value, &kNearest), code);
    assert_int_equal(braid_narrow_of_f64(dtype, above, &kSaturates), next);
    assert_int_equal(braid_narrow_of_f64(dtype, above, &kDown), code);
    assert_int_equal(braid_narrow_of_f64(dtype, above, &kNearest), code);
    assert_int_equal(braid_narrow_of_f64(dtype, 1.5 * value, &kNearest), next);
    assert_int_equal(braid_narrow_of_f64(dtype, nextafter(1.5 * value, 0), &kNearest), code);
  }
  assert_true(isnan(braid_narrow_to_f64(dtype, 255)));
  static const double kNever[] = {NAN, -1, -INFINITY};
  for (size_t i = 0; i < 3; i++) assert_int_equal(braid_narrow_of_f64(dtype, kNever[i], &kSaturates), 255);
  assert_int_equal(braid_narrow_of_f64(dtype, 0, &kSaturates), 0);
  assert_int_equal(braid_narrow_of_f64(dtype, 1e-300, &kDown), 0);
  assert_int_equal(braid_narrow_of_f64(dtype, INFINITY, &kSaturates), 254);
  static const double kBeyond[] = {0, 1e-300, 1e300, INFINITY};
  for (size_t i = 0; i < 4; i++) assert_int_equal(braid_narrow_of_f64(dtype, kBeyond[i], &kNan), 255);
}

static void test_integers(void **state) {
  (void)state;
  static const struct {
    braid_dtype dtype;
    int least, most;
  } kTypes[] = {{BRAID_U4, 0, 15}, {BRAID_I4, -8, 7}, {BRAID_U2, 0, 3}, {BRAID_I2, -2, 1}};
  for (size_t t = 0; t < 4; t++) {
    braid_dtype dtype = kTypes[t].dtype;
    int least = kTypes[t].least, most = kTypes[t].most, count = most - least + 1;
    for (int value = -300; value <= 300; value++) {
      int wrapped = ((value - least) % count + count) % count + least;
      int nearest = value < least ? least : value > most ? most : value;
      uint8_t code = braid_narrow_of_i64(dtype, value);
      assert_true(code < count);
      assert_int_equal(braid_narrow_to_i64(dtype, code), wrapped);
      assert_int_equal(braid_narrow_to_i64(dtype, (uint8_t)(code | 0xf0)), wrapped); /* what lies above is ignored */
      assert_true(braid_narrow_to_f64(dtype, code) == wrapped);
      assert_int_equal(braid_narrow_of_f64(dtype, value + (value < 0 ? -0.75 : 0.75), &kWraps), code);
      assert_int_equal(braid_narrow_to_i64(dtype, braid_narrow_of_f64(dtype, value, &kSaturates)), nearest);
    }
    static const double kBeyond[] = {1e30, INFINITY};
    for (int i = 0; i < 2; i++) {
      assert_int_equal(braid_narrow_to_i64(dtype, braid_narrow_of_f64(dtype, kBeyond[i], &kSaturates)), most);
      assert_int_equal(braid_narrow_to_i64(dtype, braid_narrow_of_f64(dtype, -kBeyond[i], &kSaturates)), least);
      assert_int_equal(braid_narrow_of_f64(dtype, kBeyond[i], &kWraps), 0);
      assert_int_equal(braid_narrow_of_f64(dtype, -kBeyond[i], &kWraps), 0);
    }
    assert_int_equal(braid_narrow_of_f64(dtype, NAN, &kWraps), 0);
    assert_int_equal(braid_narrow_of_i64(dtype, INT64_MIN), 0);
  }
}

/* ONNX's example: the first of a pair is in the low bits. Every count, in place, with what lies beyond left alone. */
static void test_packing(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_U4, BRAID_I2, BRAID_F4E2M1};
  uint8_t pair = 0;
  braid_narrow_pack(BRAID_I4, (const uint8_t[]){0xf3, 0x0c}, 2, &pair);
  assert_int_equal(pair, 0xc3);
  for (size_t t = 0; t < 3; t++)
    for (int64_t count = 0; count < 40; count++) {
      uint8_t codes[40], packed[41], again[41];
      braid_desc desc;
      int bits = braid_dtype_bits(kTypes[t]);
      assert_int_equal(braid_desc_init(&desc, kTypes[t], 1, &count), BRAID_OK);
      size_t bytes = braid_packed_bytes(&desc);
      assert_int_equal(bytes, (size_t)(count * bits + 7) / 8);
      for (int i = 0; i < 40; i++) codes[i] = (uint8_t)((7 * i + 3) & ((1 << bits) - 1));
      memset(packed, 0xaa, sizeof packed);
      memset(again, 0xaa, sizeof again);
      braid_narrow_pack(kTypes[t], codes, count, packed);
      assert_int_equal(packed[bytes], 0xaa);
      if (count * bits % 8) assert_int_equal(packed[bytes - 1] >> count * bits % 8, 0);
      memcpy(again + (size_t)count - bytes, packed, bytes);
      braid_narrow_unpack(kTypes[t], again + (size_t)count - bytes, count, again);
      assert_memory_equal(again, codes, (size_t)count);
      assert_int_equal(again[count], 0xaa);
    }
}

/* The tensor's own accessors. */
static void test_tensors(void **state) {
  (void)state;
  int narrow = 0;
  for (int t = BRAID_NONE; t < BRAID_DTYPE_COUNT; t++) {
    braid_dtype dtype = (braid_dtype)t;
    if (!braid_dtype_is_narrow(dtype)) continue;
    narrow++;
    braid_desc desc;
    braid_tensor *tensor;
    assert_int_equal(braid_desc_init(&desc, dtype, 1, &(int64_t){3}), BRAID_OK);
    assert_int_equal(braid_desc_bytes(&desc), 3);
    assert_false(braid_dtype_is_float(dtype));
    assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
    for (int i = 0; i < 3; i++) braid_tensor_set_f64(tensor, i, i ? i : 0.25);
    assert_true(braid_tensor_get_f64(tensor, 1) == 1);
    assert_int_equal(braid_tensor_get_i64(tensor, 1), 1);
    assert_true(braid_tensor_get_f64(tensor, 2) == (dtype == BRAID_I2 ? 1 : 2));
    double quarter = braid_tensor_get_f64(tensor, 0);
    assert_true(quarter == (braid_dtype_bits(dtype) == 8 ? 0.25 : 0));
    braid_tensor_release(tensor);
  }
  assert_int_equal(narrow, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_codes),   cmocka_unit_test(test_rounding), cmocka_unit_test(test_overflow),
      cmocka_unit_test(test_powers),  cmocka_unit_test(test_integers), cmocka_unit_test(test_packing),
      cmocka_unit_test(test_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
