/* The networks and nodes in tests/data/conformance, whose results are another runtime's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "braid/conformance.h"

static void test_cases(void **state) {
  (void)state;
  braid_cases *cases;
  assert_int_equal(braid_cases_find(NULL, BRAID_TEST_DATA "/conformance", &cases), BRAID_OK);
  for (size_t i = 0; i < braid_cases_count(cases); i++) {
    braid_case_report report;
    assert_int_equal(braid_cases_run(cases, i, &report), BRAID_OK);
    if (report.result != BRAID_CASE_PASSED) fail_msg("%s: %s", braid_cases_name(cases, i), report.reason);
  }
  assert_true(braid_cases_count(cases) >= 37);
  braid_cases_destroy(cases);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
