/* `braid share`: what tenants of a card feel of each other, and how it fails. */
#include <math.h>

#include "clicheck.h"

static void make_package(void) {
  outcome o = run_quietly("quantize " GLYPHS " --data builtin:glyphs --out $/q.onnx --scales power-of-two --samples 20 "
                          "--test-samples 20 --layers 0");
  discard(&o);
  o = run("compile $/q.onnx --design cnn-16x512 --out $/q.bpk");
  assert_int_equal(o.code, 0);
  discard(&o);
}

static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) count++;
  return count;
}

/* A row for each offence and place; a network of somebody's own as the tenant. */
static void test_isolation(void **state) {
  (void)state;
  outcome o = run_quietly("share --isolation --design cnn-16x512 $/q.bpk --json");
  size_t rows = count_of(o.out, "\"offence\":");
  assert_int_equal(rows, 13 * 4);
  assert_int_equal(count_of(o.out, "\"same_bits\":true"), rows);
  assert_int_equal(count_of(o.out, "\"clean\":true"), rows);
  assert_int_equal(count_of(o.out, "\"where\":\"gated bank\""), 13);
  size_t under_way = count_of(o.out, "\"offences\":0,\"status\":\"\",\"error\":\"\""); /* of no status yet */
  assert_true(under_way < 4);
  assert_int_equal(count_of(o.out, "\"status\":\"success\",\"error\":\"\"") + under_way, 5 * 4);
  assert_int_equal(count_of(o.out, "\"status\":\"timed out\""), 2 * 4);
  discard(&o);
  o = run_quietly("share --isolation --design cnn-16x512");
  assert_non_null(strstr(o.out, "moves all that its ports let it"));
  assert_non_null(strstr(o.out, "its time of 5000 cycles is over"));
  assert_null(strstr(o.out, "NO"));
  discard(&o);
}

/* --- policies ------------------------------------------------------------------------------------------------------
 */
typedef struct sums {
  double antt, stp, met, p99;
  size_t jobs;
} sums;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* From the jobs of the schedule: `traces` of `jobs` each. */
static sums sums_of(const char *schedule, const char *policy, size_t traces, size_t jobs) {
  sums s = {0};
  double *slowdowns = calloc(jobs, sizeof *slowdowns);
  const char *at = strchr(schedule, '\n') + 1;
  for (const char *end; *at; at = end + 1) {
    end = strchr(at, '\n');
    char name[64], network[64];
    unsigned long long seed;
    size_t job, tenant;
    double priority, arrival, start, finish, alone;
    assert_int_equal(sscanf(at, "%63[^,],%llu,%zu,%63[^,],%zu,%lf,%lf,%lf,%lf,%lf", name, &seed, &job, network, &tenant,
                            &priority, &arrival, &start, &finish, &alone),
                     10);
    if (strcmp(name, policy) != 0) continue;
    assert_int_equal(job, s.jobs % jobs);
    assert_int_equal(seed, 7 + s.jobs / jobs);
    assert_true(tenant < 3 && start >= arrival && finish > start);
    double slowdown = slowdowns[job] = (finish - arrival) / alone;
    s.antt += slowdown / (double)(jobs * traces);
    s.stp += 1 / slowdown / (double)traces;
    s.met += (slowdown <= 4) / (double)(jobs * traces);
    s.jobs++;
    if (job < jobs - 1) continue;
    qsort(slowdowns, jobs, sizeof *slowdowns, by_value);
    s.p99 += slowdowns[(99 * jobs + 99) / 100 - 1] / (double)traces;
  }
  assert_int_equal(s.jobs, jobs * traces);
  free(slowdowns);
  return s;
}

static void expect_number(const char *json, const char *policy, const char *key, double wanted) {
  char name[80], quoted[80];
  snprintf(name, sizeof name, "{\"policy\":\"%s\"", policy);
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(json, name);
  at = at ? strstr(at, quoted) : NULL;
  if (!at) fail_msg("%s of %s is not printed", key, policy);
  double value = strtod(at + strlen(quoted), NULL);
  if (fabs(value - wanted) > 1e-7 * (1 + fabs(wanted)))
    fail_msg("%s of %s: %.9g; its jobs have %.9g", key, policy, value, wanted);
}

/* What is printed is what the jobs of the schedule give, and the same again. */
static void test_policies(void **state) {
  (void)state;
  static const char kLine[] = "share --design cnn-16x512 $/q.bpk --jobs 30 --tenants 3 --seed 7 --traces 4 --load 1.5 "
                              "--policy lookahead,prema --schedule $/jobs.csv --json";
  outcome o = run_quietly(kLine), again = run_quietly(kLine);
  assert_true(is_one_document(o.out));
  assert_string_equal(o.out, again.out);
  assert_int_equal(count_of(o.out, "\"policy\":"), 2);
  expect_text(o.out, "\"published_of_prema\":{\"antt\":7.8,\"stp\":1.4,\"sla\":4.8}");
  char *schedule = get_file(in_folder("jobs.csv"), NULL);
  static const char *const kPolicies[] = {"lookahead", "prema"};
  for (size_t p = 0; p < 2; p++) {
    sums s = sums_of(schedule, kPolicies[p], 4, 30);
    expect_number(o.out, kPolicies[p], "jobs", 120);
    expect_number(o.out, kPolicies[p], "antt", s.antt);
    expect_number(o.out, kPolicies[p], "stp", s.stp);
    expect_number(o.out, kPolicies[p], "deadlines_met", s.met);
    expect_number(o.out, kPolicies[p], "p99_slowdown", s.p99);
  }
  free(schedule);
  discard(&o);
  discard(&again);
}

/* A trace of requests, and a policy alone; what all others are held against is not printed then. */
static void test_trace(void **state) {
  (void)state;
  static const char kTrace[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                               "2023-11-16 18:15:46.6,374,44\n"
                               "2023-11-16 18:15:50.9,396,109\n"
                               "2023-11-16 18:15:51.2,879,55\n";
  put_file("trace.csv", kTrace, sizeof kTrace - 1);
  outcome o = run_quietly("share --design cnn-16x512 $/q.bpk $/q.bpk --trace $/trace.csv --policy spatial");
  expect_text(o.out, "trace.csv, 3 jobs, load 1, 1 trace from seed 1 on");
  expect_text(o.out, "spatial");
  expect_text(o.out, "PREMA publishes 7.8 (ANTT), 1.4 (STP) and 4.8 (SLA)");
  assert_null(strstr(o.out, "fcfs"));
  discard(&o);
  o = run_quietly("share --design cnn-16x512 $/q.bpk --trace $/trace.csv --jobs 2 --json");
  expect_number(o.out, "fcfs", "jobs", 2);
  assert_int_equal(count_of(o.out, "\"policy\":"), 7);
  discard(&o);
}

static void test_wrong_policies(void **state) {
  (void)state;
#define SHARE "share --design cnn-16x512 $/q.bpk "
  expect_failure(SHARE "--policy nobody", 2, "there are fcfs, prema, seed-token");
  expect_failure(SHARE "--policy prema,", 2, "no policy is called");
  expect_failure(SHARE "--load 0", 2, "from 0.001 to 1000");
  expect_failure(SHARE "--load nan", 2, "from 0.001 to 1000");
  expect_failure(SHARE "--jobs 0", 2, "from 1 to 1000000");
  expect_failure(SHARE "--tenants 4097", 2, "from 1 to 4096");
  expect_failure(SHARE "--traces -1", 2, "from 1 to 100000");
  expect_failure(SHARE "--seed x", 2, "--seed");
  expect_failure(SHARE "--trace $/none.csv", 2, "none.csv");
  expect_failure(SHARE "--trace $/q.bpk", 2, "line 1");
  expect_failure(SHARE "--schedule $/none/jobs.csv", 1, "none/jobs.csv");
  expect_failure(SHARE "--schedule $/q.bpk", 2, "--schedule");
  expect_failure(SHARE "--isolation --load 2", 2, "--load has no effect");
  put_file("empty.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", 40);
  expect_failure(SHARE "--trace $/empty.csv", 2, "no job");
  expect_failure("share --design rnn-16x16", 2, "give packages");
  expect_failure("share --design cnn-1x8192 $/q.bpk", 2, "differ");
  outcome o = run_within(SHARE "--policy fcfs --schedule $/full.csv", 4096);
  assert_true(o.code != 0);
  discard(&o);
}

static void test_failures(void **state) {
  (void)state;
  expect_failure("share", 2, "--design is expected");
  expect_failure("share --isolation --design cnn-16x512 a b", 2, "--isolation takes one package");
  expect_failure("share --isolation --design cnn-1x8192", 2, "has not two cores at each of two banks");
  expect_failure("share --isolation --design rnn-16x16", 2, "needs a package");
  expect_failure("share --isolation --design nowhere", 2, "nowhere");
  expect_failure("share --isolation --design rnn-16x16 $/q.bpk", 2, "differ");
  put_file("bad.bpk", "no package", 10);
  expect_failure("share --isolation --design cnn-16x512 $/bad.bpk", 2, "no package");
}

static int setup(void **state) {
  int failed = make_folder(state);
  if (!failed) make_package();
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_isolation), cmocka_unit_test(test_policies),
                                     cmocka_unit_test(test_trace), cmocka_unit_test(test_wrong_policies),
                                     cmocka_unit_test(test_failures)};
  return cmocka_run_group_tests(tests, setup, remove_folder);
}
