/* Transforms against the sum that defines them, for every small length and some that make each way work: powers, odd
 * factors, large primes and what has one among its factors. */
#include "backend/cpu/plain/fft.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "slow.h"

static double *random_line(int64_t length) {
  double *line = malloc((size_t)length * 2 * sizeof *line);
  assert_non_null(line);
  uint32_t seed = 1;
  for (int64_t i = 0; i < 2 * length; i++) {
    seed = seed * 1664525u + 1013904223u;
    line[i] = (double)seed / 0x1p32 - 0.5;
  }
  return line;
}

/* Bin k of the line, and how far `got` is off. */
static double error_at(const double *line, int64_t length, int64_t k, const double *got) {
  double re = 0, im = 0;
  for (int64_t i = 0; i < length; i++) {
    double angle = 2 * M_PI * (double)(i * k % length) / (double)length;
    re += line[2 * i] * cos(angle) + line[2 * i + 1] * sin(angle);
    im += line[2 * i + 1] * cos(angle) - line[2 * i] * sin(angle);
  }
  return hypot(re - got[0], im - got[1]);
}

static void check_length(int64_t length) {
  braid_fft fft;
  braid_fft_choose(&fft, length);
  assert_int_equal(braid_fft_allocate(NULL, &fft), BRAID_OK);
  braid_fft_fill(&fft);
  double *line = random_line(length), *got = random_line(length);
  double *scratch = malloc((size_t)braid_fft_scratch(&fft) * 2 * sizeof *scratch);
  assert_non_null(scratch);
  braid_fft_run(&fft, got, scratch);
  int64_t step = length < UNLESS_SLOW(600, 60) ? 1 : length / UNLESS_SLOW(60, 20);
  for (int64_t k = 0; k < length; k += step) {
    double error = error_at(line, length, k, got + 2 * k);
    if (!(error < 1e-13 * (double)(length + 9)))
      fail_msg("length %lld: bin %lld is off by %g", (long long)length, (long long)k, error);
  }
  free(scratch);
  free(got);
  free(line);
  braid_fft_deinit(NULL, &fft);
}

static void test_lengths(void **state) {
  (void)state;
  for (int64_t length = 1; length <= 260; length++) check_length(length);
  static const int64_t kOther[] = {400, 512, 961, 1009, 1024, 2 * 1021, 3 * 5 * 7 * 11, 4096, 31 * 29 * 23, 37 * 64};
  for (size_t i = 0; i < sizeof kOther / sizeof *kOther; i++) check_length(kOther[i]);
}

/* Any length takes O(n log n): the largest prime below 2^20 by way of 2^21. */
static void test_prime(void **state) {
  (void)state;
  check_length(1048573);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths), cmocka_unit_test(test_prime)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
