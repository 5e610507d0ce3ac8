/* The part of cmocka that the tests use, for targets that Debian has no cmocka for: the same test files are built
 * against it, statically, and run under an emulator. */
#ifndef BRAID_TESTS_CORE_CMOCKA_H
#define BRAID_TESTS_CORE_CMOCKA_H

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
  const char *name;
  void (*run)(void **state);
};

enum { CORE_FAILED = 1, CORE_SKIPPED };
static jmp_buf core_end;

__attribute__((format(printf, 1, 2), noreturn, unused)) static void core_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
  longjmp(core_end, CORE_FAILED);
}

#define cmocka_unit_test(function)                                                                                     \
  { #function, function }
#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...) (printf("%s:%d: ", __FILE__, __LINE__), core_fail(__VA_ARGS__))
#define skip() longjmp(core_end, CORE_SKIPPED)
#define assert_true(condition)                                                                                         \
  do {                                                                                                                 \
    if (!(condition)) fail_msg("%s", #condition);                                                                      \
  } while (0)
#define assert_false(condition) assert_true(!(condition))
#define assert_null(pointer) assert_true((pointer) == NULL)
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_int_equal(a, b)                                                                                         \
  do {                                                                                                                 \
    intmax_t core_a = (intmax_t)(a), core_b = (intmax_t)(b);                                                           \
    if (core_a != core_b) fail_msg("%s is %jd, not %jd (%s)", #a, core_a, core_b, #b);                                 \
  } while (0)
#define assert_int_not_equal(a, b) assert_true((intmax_t)(a) != (intmax_t)(b))
#define assert_in_range(value, low, high) assert_true((uintmax_t)(value) >= (low) && (uintmax_t)(value) <= (high))
#define assert_float_equal(a, b, bound) assert_true(fabs((double)(a) - (double)(b)) <= (double)(bound))
#define assert_string_equal(a, b) assert_true(strcmp((a), (b)) == 0)
#define assert_memory_equal(a, b, bytes) assert_true(memcmp((a), (b), (bytes)) == 0)
#define assert_memory_not_equal(a, b, bytes) assert_true(memcmp((a), (b), (bytes)) != 0)

typedef int core_fixture(void **state);

/* Returns how many tests failed, or -1 if what they need could not be made. */
static inline int core_run_tests(const struct CMUnitTest *tests, size_t count, core_fixture *setup,
                                 core_fixture *teardown) {
  volatile int failed = 0, skipped = 0;
  void *group = NULL;
  if (setup && setup(&group) != 0) return -1;
  for (volatile size_t i = 0; i < count; i++) {
    void *state = NULL;
    int ended = setjmp(core_end);
    if (ended == 0) tests[i].run(&state);
    printf("[%s] %s\n", ended == 0 ? "ok" : ended == CORE_SKIPPED ? "skipped" : "FAILED", tests[i].name);
    failed += ended == CORE_FAILED;
    skipped += ended == CORE_SKIPPED;
  }
  printf("%zu tests, %d failed, %d skipped\n", count, failed, skipped);
  if (teardown && teardown(&group) != 0) return -1;
  return failed;
}
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                                      \
  core_run_tests(tests, sizeof(tests) / sizeof *(tests), setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown) cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif
