/* To which node a request is sent, and who is the control node: of nodes whose numbers the test says, what fluid queues
 * make of them by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "serve/cluster/node.h"

enum { MOST = 4, REQUESTS = 200 };
static braid_serve_cluster cluster;
static braid_cluster_member members[MOST];
static braid_cluster_holding holdings[MOST];
static cluster_errand errands[REQUESTS];
static size_t errand_count;

/* A node, as it said of itself `age_ms` ago. */
static void add(const char *name, int instances, int waiting, double seconds, int age_ms) {
  size_t at = cluster.roster.member_count++;
  holdings[at] =
      (braid_cluster_holding){.model = "m", .state = BRAID_CLUSTER_READY, .seconds = seconds, .requests_per_s = 1};
  members[at] = (braid_cluster_member){.instances = instances,
                                       .waiting = waiting,
                                       .steady_ns = INT64_MIN / 2,
                                       .seen_ns = braid_now_ns() - age_ms * INT64_C(1000000),
                                       .holdings = &holdings[at],
                                       .holding_count = 1};
  snprintf(members[at].name, sizeof members[at].name, "%s", name);
  snprintf(members[at].address, sizeof members[at].address, "%s:1", name);
}

static void begin(void) {
  free(cluster.ways);
  cluster = (braid_serve_cluster){.node = "self", .roster = {.members = members}};
  errand_count = 0;
}

static const char *choose(void) {
  cluster_refusals none = {.count = 0};
  const braid_cluster_member *chosen = braid_cluster_choose_node(&cluster, "m", &none);
  return chosen ? chosen->name : "";
}

/* Sends so many at once, which nobody answers, and returns how many went to the node. */
static int send(int count, const char *node) {
  int sent = 0;
  for (int i = 0; i < count; i++) {
    const char *chosen = choose();
    sent += strcmp(chosen, node) == 0;
    snprintf(errands[errand_count].address, sizeof errands->address, "%s:1", chosen);
    braid_cluster_errand_begin(&cluster, &errands[errand_count++]);
  }
  return sent;
}

static void expect_between(int value, int least, int most) {
  if (value < least || value > most) fail_msg("%d is not in %d to %d", value, least, most);
}

static void test_shares(void **state) {
  (void)state;
  begin();
  add("a", 1, 0, 0.010, 0);
  add("b", 1, 0, 0.010, 0);
  expect_between(send(100, "a"), 49, 51);
  begin(); /* one is four times as fast */
  add("a", 1, 0, 0.010, 0);
  add("b", 1, 0, 0.040, 0);
  expect_between(send(100, "a"), 78, 82);
  begin(); /* one has four instances */
  add("a", 4, 0, 0.010, 0);
  add("b", 1, 0, 0.010, 0);
  expect_between(send(100, "a"), 77, 83);
  begin(); /* nobody knows how long it takes */
  add("a", 1, 0, 0, 0);
  add("b", 1, 0, 0, 0);
  expect_between(send(100, "b"), 49, 51);
}

/* What a node said that waits there has been done after a while; what we have sent since has not. */
static void test_reports(void **state) {
  (void)state;
  begin();
  add("a", 1, 100, 0.010, 0);
  add("b", 1, 0, 0.5, 0);
  assert_string_equal(choose(), "b"); /* 510 ms and more, or 1020 */
  begin();
  add("a", 1, 100, 0.010, 900);
  add("b", 1, 0, 0.5, 900);
  assert_string_equal(choose(), "a");     /* 110 ms left */
  expect_between(send(100, "a"), 96, 98); /* one of b stands for fifty */
  for (size_t i = 0; i < errand_count; i++) braid_cluster_errand_end(&cluster, &errands[i], -1);
  assert_string_equal(choose(), "a");
}

static void test_ways(void **state) {
  (void)state;
  begin();
  add("a", 1, 0, 0.010, 0);
  add("b", 1, 0, 0.012, 0);
  assert_string_equal(choose(), "a");
  cluster_errand errand = {.address = "a:1"};
  braid_cluster_errand_begin(&cluster, &errand);
  errand.sent_ns -= 50000000; /* 50 ms ago, of which it was there for 10 */
  braid_cluster_errand_end(&cluster, &errand, 10000000);
  assert_string_equal(choose(), "b");
  for (int i = 0; i < 40; i++) { /* and then the network is a better one */
    braid_cluster_errand_begin(&cluster, &errand);
    errand.sent_ns -= 10000000;
    braid_cluster_errand_end(&cluster, &errand, 10000000);
  }
  assert_string_equal(choose(), "a");
}

static void test_who_is_left_out(void **state) {
  (void)state;
  begin();
  add("self", 1, 0, 0.001, 0);
  assert_string_equal(choose(), "");
  add("a", 1, 0, 0.010, 2000); /* silent: we have written since */
  assert_string_equal(choose(), "a");
  add("b", 1, 50, 1, 0);
  assert_string_equal(choose(), "b");
  cluster_refusals refusals = {.addresses = {"b:1"}, .count = 1};
  assert_string_equal(braid_cluster_choose_node(&cluster, "m", &refusals)->name, "a");
  holdings[2].state = BRAID_CLUSTER_LOADING;
  assert_string_equal(choose(), "a");
  cluster.downs[0] = (cluster_down){.address = "a:1", .until_ns = INT64_MAX};
  assert_string_equal(choose(), "");
  assert_null(braid_cluster_choose_node(&cluster, "n", &(cluster_refusals){.count = 0}));
}

/* --- the control node ----------------------------------------------------------------------------------------------
 */
static const char *control(void) {
  const braid_cluster_candidate *found = braid_cluster_control(&cluster);
  return found ? found->node : "";
}

/* The oldest candidate, but for one that is silent while most are not, and one with another token. */
static void test_control(void **state) {
  (void)state;
  static braid_cluster_candidate candidates[] = {{.key = "1", .node = "a", .revision = 30},
                                                 {.key = "2", .node = "b", .revision = 10},
                                                 {.key = "3", .node = "self", .revision = 20}};
  begin();
  assert_string_equal(control(), "");
  cluster.roster.candidates = candidates;
  cluster.roster.candidate_count = 3;
  add("self", 1, 0, 0.001, 0);
  add("a", 1, 0, 0.001, 0);
  add("b", 1, 0, 0.001, 1400);
  assert_string_equal(control(), "b"); /* the oldest key, not the least name */
  members[2].seen_ns -= 200000000;     /* more than 1.5 s */
  assert_string_equal(control(), "self");
  members[1].seen_ns = members[2].seen_ns; /* two of three are silent: then nobody is given up */
  assert_string_equal(control(), "b");
  members[1].seen_ns = members[2].seen_ns = members[0].seen_ns;
  snprintf(members[2].proof, sizeof members[2].proof, "ab");
  assert_string_equal(control(), "self");
  members[2].proof[0] = '\0';
  assert_string_equal(control(), "b");
}

static int tear_down(void **state) {
  (void)state;
  free(cluster.ways);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_reports),
                                     cmocka_unit_test(test_ways), cmocka_unit_test(test_who_is_left_out),
                                     cmocka_unit_test(test_control)};
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
