#include "base/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* The known answers that the authors publish with Random123 (kat_vectors, philox4x32 with 10 rounds). */
static void test_known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], answer[4];
  } cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint32_t out[4];
    braid_philox(cases[i].counter, cases[i].key, out);
    assert_memory_equal(out, cases[i].answer, sizeof out);
  }
}

static void test_elements_share_a_counter_by_fours(void **state) {
  (void)state;
  uint32_t out[4];
  braid_philox((uint32_t[]){7, 1, 3, 5}, (uint32_t[]){0x89abcdef, 0x01234567}, out);
  for (uint64_t i = 0; i < 4; i++) {
    assert_int_equal(braid_random_u32(0x0123456789abcdefu, 3, 5, ((((uint64_t)1 << 32) + 7) << 2) + i), out[i]);
  }
}

/* Mean and variance within five standard errors. */
static void test_moments(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  double sum[2] = {0}, squares[2] = {0};
  for (uint64_t i = 0; i < COUNT; i++) {
    float uniform = braid_random_uniform(1, 2, 3, i);
    assert_true(uniform >= 0 && uniform < 1);
    double values[2] = {uniform - 0.5, braid_random_normal(1, 2, 3, i)};
    assert_true(isfinite(values[1]));
    for (int k = 0; k < 2; k++) sum[k] += values[k], squares[k] += values[k] * values[k];
  }
  double error = 5 / sqrt(COUNT);
  assert_true(fabs(sum[0] / COUNT) < error * sqrt(1.0 / 12));
  assert_true(fabs(squares[0] / COUNT - 1.0 / 12) < error * sqrt(1.0 / 180));
  assert_true(fabs(sum[1] / COUNT) < error);
  assert_true(fabs(squares[1] / COUNT - 1) < error * sqrt(2.0));
}

static void test_below(void **state) {
  (void)state;
  int seen[7] = {0};
  for (uint64_t i = 0; i < 70000; i++) {
    uint32_t value = braid_random_below(9, 0, 0, i, 7);
    assert_true(value < 7);
    seen[value]++;
  }
  for (int i = 0; i < 7; i++) assert_in_range(seen[i], 9500, 10500);
  assert_int_equal(braid_random_below(9, 0, 0, 1, 1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_answers),
      cmocka_unit_test(test_elements_share_a_counter_by_fours),
      cmocka_unit_test(test_moments),
      cmocka_unit_test(test_below),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
