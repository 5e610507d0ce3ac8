/* braid simulate cluster: the example, the same bytes for the same seed, traces, and what is refused. */
#include "clicheck.h"

#define EXAMPLE BRAID_EXAMPLES "/cluster.yaml"

static void test_example(void **state) {
  (void)state;
  outcome o = run_quietly("simulate cluster " EXAMPLE " --moves --html $/page.html");
  static const char *const kSays[] = {"in time, %",         "cameras",          "(modelled)",
                                      "times over the cap", "the node is lost", "node 0, which had it, is lost",
                                      "the cap of 800 W"};
  for (size_t i = 0; i < sizeof kSays / sizeof *kSays; i++)
    if (!strstr(o.out, kSays[i])) fail_msg("\"%s\" is not in\n%s", kSays[i], o.out);
  discard(&o);
  size_t bytes;
  char *page = get_file(in_folder("page.html"), &bytes);
  page[bytes] = '\0';
  assert_non_null(strstr(page, "A simulated cluster"));
  assert_non_null(strstr(page, "node 0, which had it, is lost"));
  free(page);
  expect_failure("simulate cluster $/page.html --html $/page.html", 2, "--html");
}

static void test_same_bytes(void **state) {
  (void)state;
  outcome first = run_quietly("simulate cluster " EXAMPLE " --seed 7 --moves --json");
  outcome second = run_quietly("simulate cluster " EXAMPLE " --seed 7 --moves --json");
  outcome other = run_quietly("simulate cluster " EXAMPLE " --seed 8 --moves --json");
  assert_true(is_one_document(first.out));
  assert_string_equal(first.out, second.out);
  assert_string_not_equal(first.out, other.out);
  assert_non_null(strstr(first.out, "\"cap_violations\":0"));
  discard(&first);
  discard(&second);
  discard(&other);
}

#define RECORDED(model)                                                                                                \
  "seconds: 100\nnodes:\n  - {kind: a}\nmodels:\n  - {name: m, times: [{kind: a, mean_ms: 10}]}\ntenants:\n"           \
  "  - {name: t, model: " model ", arrivals: trace}\n"

static void put_text(const char *name, const char *text) {
  put_file(in_folder(name), text, strlen(text));
}

/* Why a model has no place: with `--json` and without, also where nobody asks for moves. */
static void test_lacks(void **state) {
  (void)state;
  put_text("lacks.yaml",
           "seconds: 20\nnodes:\n  - {kind: a, count: 2, memory_mib: 100}\n  - {kind: b, count: 3, memory_mib: 900}\n"
           "models:\n  - {name: large, memory_mib: 500, times: [{kind: a, mean_ms: 1}]}\n"
           "  - {name: wanted, times: [{kind: b, mean_ms: 100}]}\n"
           "tenants:\n  - {name: t, model: wanted, rate: 60, arrivals: even}\n  - {name: u, model: large, rate: 1}\n"
           "events:\n  - {at_s: 5, event: lost, node: 2}\n");
  static const char *const kSays[] = {
      "Models with too few places",
      "large has 0 replicas, fewer than its least",
      "3 nodes have no known time for it, 2 nodes have less memory than it takes",
      "wanted has 3 replicas, and ",
      "requests/s have no place: 2 nodes have no known time for it, 3 nodes hold it already",
      "1 node is lost",
  };
  outcome o = run_quietly("simulate cluster $/lacks.yaml");
  for (size_t i = 0; i < sizeof kSays / sizeof *kSays; i++)
    if (!strstr(o.out, kSays[i])) fail_msg("\"%s\" is not in\n%s", kSays[i], o.out);
  discard(&o);
  o = run_quietly("simulate cluster $/lacks.yaml --json");
  assert_true(is_one_document(o.out));
  assert_non_null(strstr(o.out, "\"lacking\":[{\"at_s\":0,\"model\":\"large has 0 replicas"));
  discard(&o);
  o = run_quietly("simulate cluster " EXAMPLE " --json");
  assert_non_null(strstr(o.out, "\"lacking\":["));
  discard(&o);
}

static void test_trace(void **state) {
  (void)state;
  put_text("recorded.yaml", RECORDED("m"));
  put_text("t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,1,2\n2023-11-16 18:15:47.5,1,2\n"
                    "2023-11-16 18:15:47.5,1,2\n");
  outcome o = run_quietly("simulate cluster $/recorded.yaml --trace $/t.csv --json");
  assert_non_null(strstr(o.out, "\"requests\":3"));
  assert_non_null(strstr(o.out, "\"most_ms\":20")); /* the third waits for the second */
  discard(&o);
  expect_failure("simulate cluster $/recorded.yaml", 2, "the requests of the tenant t come from a trace");
  expect_failure("simulate cluster " EXAMPLE " --trace $/t.csv", 2, "no tenant of");
  put_text("bad.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n");
  expect_failure("simulate cluster $/recorded.yaml --trace $/bad.csv", 2, "bad.csv: line 2");
}

static void test_failures(void **state) {
  (void)state;
  outcome o = run_quietly("simulate cluster --help");
  assert_non_null(strstr(o.out, "Usage: braid simulate cluster"));
  discard(&o);
  put_text("wrong.yaml", RECORDED("n"));
  expect_failure("simulate cluster", 2, "a scenario is expected");
  expect_failure("simulate cluster a.yaml b.yaml", 2, "one scenario is expected");
  expect_failure("simulate cluster --seed -1 " EXAMPLE, 2, "--seed");
  expect_failure("simulate cluster $/none.yaml", 2, "none.yaml");
  expect_failure("simulate cluster $/wrong.yaml", 2, "wrong.yaml, line 7: there is no model named n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_example), cmocka_unit_test(test_same_bytes),
                                     cmocka_unit_test(test_lacks), cmocka_unit_test(test_trace),
                                     cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
