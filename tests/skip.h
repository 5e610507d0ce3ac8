/* Tests that cannot run here: each says what it needs and why that is missing, and counts as skipped. A program of
 * which nothing ran exits with SKIP_EXIT, which ctest takes for skipped (SKIP_RETURN_CODE), and ci/test.sh lists the
 * reasons.
 *
 *   skip_test("opencl", "there is no OpenCL device");      inside a test: does not return
 *   return skip_run_group_tests(tests, setup, teardown);   in main, for cmocka_run_group_tests
 *
 * BRAID_REQUIRE="opencl data ..." names what must be there: a test that would be skipped for want of it fails. */
#ifndef BRAID_TESTS_SKIP_H
#define BRAID_TESTS_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SKIP_EXIT = 77 };

static size_t skip_count;
static bool skip_counts; /* main counts what is skipped */

static inline bool skip_is_required(const char *need) {
  const char *list = getenv("BRAID_REQUIRE");
  size_t length = strlen(need);
  for (const char *at = list; at && (at = strstr(at, need)); at += length)
    if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

/* `need` is a word: opencl, data, peers (PyTorch, ONNX Runtime), locale, device, cpu, system, mpi, etcd, curl, speed
 * (slow.h). The reason is printf's format. */
#define skip_test(need, ...)                                                                                           \
  do {                                                                                                                 \
    if (!skip_counts) fail_msg("main must call skip_run_group_tests");                                                 \
    if (skip_is_required(need)) fail_msg("BRAID_REQUIRE has " need ", but " __VA_ARGS__);                              \
    print_message("skipped (" need "): " __VA_ARGS__);                                                                 \
    print_message("\n");                                                                                               \
    skip_count++;                                                                                                      \
    skip();                                                                                                            \
  } while (0)

/* main's value after the last of its groups: failed if any test did, skipped if all were. */
static inline int skip_result(int failed, size_t count) {
  static size_t failures, tests;
  failures += failed != 0;
  tests += count;
  if (failures) return EXIT_FAILURE;
  return skip_count == tests ? SKIP_EXIT : EXIT_SUCCESS;
}
#define skip_run_group_tests(tests, setup, teardown) skip_run_group_tests_name(#tests, tests, setup, teardown)
#define skip_run_group_tests_name(name, tests, setup, teardown)                                                        \
  (skip_counts = true,                                                                                                 \
   skip_result(cmocka_run_group_tests_name(name, tests, setup, teardown), sizeof(tests) / sizeof *(tests)))

#endif
