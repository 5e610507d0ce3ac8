/* What a daemon makes of keys in etcd: nodes, orders, who is the control node, and values that are none. */
#include "serve/cluster/roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char kPrefix[] = "/braid/t/";
#define NODE(more)                                                                                                     \
  "{\"address\":\"h:1\",\"devices\":\"cpu\",\"instance\":\"1f\",\"token_proof\":\"\",\"idle_watts\":0,\"busy_watts\":" \
  "0,\"busy\":0.5,\"waiting\":3,"                                                                                      \
  "\"instances\":2,\"memory_"                                                                                          \
  "bytes\":9,"                                                                                                         \
  "\"models\":[" more "]}"
#define MODEL(name, state)                                                                                             \
  "{\"name\":\"" name "\",\"state\":\"" state                                                                          \
  "\",\"bytes\":7,\"seconds\":0.25,\"requests_per_s\":4,\"file_bytes\":3,\"sha256\":\"\",\"reason\":\"so\"}"

static void put(braid_cluster_roster *roster, const char *name, const char *value, int64_t created, int64_t modified) {
  char key[400];
  snprintf(key, sizeof key, "%s%s", kPrefix, name);
  braid_etcd_key one = {.key = key,
                        .key_bytes = strlen(key),
                        .value = value ? value : "",
                        .value_bytes = value ? strlen(value) : 0,
                        .create_revision = created,
                        .mod_revision = modified,
                        .deleted = !value};
  braid_cluster_roster_apply(roster, kPrefix, &(braid_etcd_keys){.keys = &one, .count = 1, .revision = modified});
}

static void test_keys(void **state) {
  (void)state;
  braid_cluster_roster roster = {0};
  put(&roster, "nodes/a", NODE(MODEL("m", "ready") "," MODEL("n", "unable")), 5, 5);
  put(&roster, "nodes/b", NODE(""), 6, 6);
  put(&roster, "orders/m", "{\"nodes\":[\"a\",\"b\"],\"reason\":\"so\",\"sha256\":\"\"}", 7, 9);
  put(&roster, "election/2", "b", 8, 8);
  put(&roster, "election/1", "a", 10, 10);
  assert_int_equal(roster.member_count, 2);
  assert_int_equal(roster.refused, 0);
  assert_int_equal(roster.revision, 10);
  const braid_cluster_member *a = braid_cluster_roster_member(&roster, "a");
  assert_int_equal(braid_cluster_member_holding(a, "m")->state, BRAID_CLUSTER_READY);
  assert_true(braid_cluster_member_holding(a, "m")->seconds == 0.25);
  assert_int_equal(braid_cluster_member_holding(a, "n")->state, BRAID_CLUSTER_UNABLE);
  assert_string_equal(braid_cluster_member_holding(a, "n")->reason, "so");
  assert_null(braid_cluster_member_holding(a, "o"));
  const braid_cluster_order *order = braid_cluster_roster_order(&roster, "m");
  assert_true(braid_cluster_order_names(order, "b") && !braid_cluster_order_names(order, "c"));
  assert_int_equal(order->revision, 9);
  assert_int_equal(roster.candidate_count, 2);
  put(&roster, "election/2", NULL, 0, 11);
  assert_int_equal(roster.candidate_count, 1);
  assert_string_equal(roster.candidates[0].node, "a");
  put(&roster, "nodes/a", NULL, 0, 12);
  put(&roster, "orders/m", NULL, 0, 13);
  assert_null(braid_cluster_roster_member(&roster, "a"));
  assert_null(braid_cluster_roster_order(&roster, "m"));
  braid_cluster_roster_apply(&roster, kPrefix, &(braid_etcd_keys){.all = true, .revision = 20});
  assert_int_equal(roster.member_count + roster.order_count + roster.candidate_count, 0);
  braid_cluster_roster_deinit(&roster);
}

/* Who has written nothing while we have; by what came when, not by the clock. */
static void test_silence(void **state) {
  (void)state;
  enum { SHORT_NS = 20000000 };
  braid_cluster_roster roster = {0};
  put(&roster, "nodes/a", NODE(""), 5, 5);
  put(&roster, "nodes/b", NODE(""), 6, 6);
  nanosleep(&(struct timespec){0, 3 * SHORT_NS}, NULL);
  const braid_cluster_member *a = braid_cluster_roster_member(&roster, "a");
  assert_false(braid_cluster_roster_is_silent(&roster, "b", a, SHORT_NS)); /* we have written nothing either */
  assert_false(braid_cluster_roster_is_silent(&roster, "c", a, SHORT_NS)); /* nor are we there */
  put(&roster, "nodes/b", NODE(""), 6, 7);
  a = braid_cluster_roster_member(&roster, "a");
  assert_true(braid_cluster_roster_is_silent(&roster, "b", a, SHORT_NS));
  assert_int_equal(a->written, 5);
  put(&roster, "nodes/a", NODE(""), 5, 8);
  a = braid_cluster_roster_member(&roster, "a");
  assert_false(braid_cluster_roster_is_silent(&roster, "b", a, SHORT_NS));
  assert_int_equal(a->written, 8);
  nanosleep(&(struct timespec){0, 3 * SHORT_NS}, NULL);
  put(&roster, "nodes/b", NULL, 0, 9);
  put(&roster, "nodes/b", NODE(""), 10, 10); /* as after an absence: the other may need a moment more to come back */
  a = braid_cluster_roster_member(&roster, "a");
  assert_false(braid_cluster_roster_is_silent(&roster, "b", a, SHORT_NS));
  nanosleep(&(struct timespec){0, 2 * SHORT_NS}, NULL);
  put(&roster, "nodes/b", NODE(""), 10, 11);
  a = braid_cluster_roster_member(&roster, "a");
  assert_true(braid_cluster_roster_is_silent(&roster, "b", a, SHORT_NS));
  braid_cluster_roster_deinit(&roster);
}

#define PROVEN(proof)                                                                                                  \
  "{\"address\":\"h:1\",\"devices\":\"cpu\",\"instance\":\"1f\",\"token_proof\":\"" proof                              \
  "\",\"idle_watts\":0,\"busy_watts\":0,\"busy\":0,\"waiting\":3,\"instances\":2,\"memory_bytes\":9,\"models\":[]}"

/* Whose token is right: that of most; of as many, of those who were there first. */
static void test_tokens(void **state) {
  (void)state;
  braid_cluster_roster roster = {0};
  put(&roster, "nodes/a", PROVEN("aa"), 5, 5);
  put(&roster, "election/1", "a", 6, 6);
  assert_string_equal(roster.proof, "aa");
  put(&roster, "nodes/b", PROVEN("bb"), 7, 7);
  put(&roster, "election/2", "b", 8, 8);
  assert_string_equal(roster.proof, "aa");
  put(&roster, "nodes/c", PROVEN("bb"), 9, 9);
  assert_string_equal(roster.proof, "bb");
  put(&roster, "nodes/d", PROVEN("aa"), 10, 10);
  assert_string_equal(roster.proof, "aa");
  put(&roster, "election/1", NULL, 0, 11);
  assert_string_equal(roster.proof, "bb"); /* as many, and now the oldest */
  put(&roster, "nodes/e", PROVEN("cc"), 12, 12);
  assert_string_equal(roster.proof, "bb");
  braid_cluster_roster_apply(&roster, kPrefix, &(braid_etcd_keys){.all = true, .revision = 20});
  assert_string_equal(roster.proof, "");
  braid_cluster_roster_deinit(&roster);
}

static void test_malformed(void **state) {
  (void)state;
  static const char *const kNodes[] = {
      "",
      "{",
      "[]",
      "null",
      NODE("{}"),
      NODE(MODEL("m", "gone")),
      NODE(MODEL("../m", "ready")),
      (NODE(MODEL("m", "ready") "," MODEL("m", "ready"))),
      NODE("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"),
      ("{\"address\":\"h:1\",\"devices\":\"cpu\",\"instance\":\"1f\",\"token_proof\":\"\",\"idle_watts\":0,\"busy_"
       "watts\":0,\"busy\":2,\"waiting\":3,"
       "\"instances\":2,\"memory_"
       "bytes\":9,\"models\":[]}"),
      ("{\"address\":\"h:1\",\"devices\":\"cpu\",\"instance\":\"1f\",\"token_proof\":\"\",\"idle_watts\":0,\"busy_"
       "watts\":0,\"busy\":0,\"waiting\":3,"
       "\"instances\":0,\"memory_"
       "bytes\":9,\"models\":[]}"),
      ("{\"address\":\"h:1\",\"devices\":\"cpu\",\"instance\":\"1f\",\"token_proof\":\"\",\"idle_watts\":0,\"busy_"
       "watts\":0,\"busy\":0,\"waiting\":-3,"
       "\"instances\":1,"
       "\"memory_bytes\":9,\"models\":[]}"),
      ("{\"address\":\"h:1\",\"devices\":\"cpu\",\"instance\":\"1f\",\"token_proof\":\"x\",\"idle_watts\":0,\"busy_"
       "watts\":0,\"busy\":0,\"waiting\":3,"
       "\"instances\":1,\"memory_bytes\":9,\"models\":[]}"),
      ("{\"address\":7,\"devices\":\"cpu\",\"instance\":\"1f\",\"token_proof\":\"\",\"idle_watts\":0,\"busy_watts\":0,"
       "\"busy\":0,\"waiting\":3,"
       "\"instances\":1,\"memory_"
       "bytes\":9,\"models\":[]}"),
  };
  braid_cluster_roster roster = {0};
  for (size_t i = 0; i < sizeof kNodes / sizeof *kNodes; i++) {
    put(&roster, "nodes/a", NODE(""), 5, 5);
    assert_int_equal(roster.member_count, 1);
    put(&roster, "nodes/a", kNodes[i], 5, 6);
    if (roster.member_count || roster.refused != i + 1) fail_msg("case %zu is taken for a node", i);
  }
  static const char *const kOrders[] = {"",
                                        "{}",
                                        "{\"nodes\":[\"a\",\"a\"],\"reason\":\"\",\"sha256\":\"\"}",
                                        "{\"nodes\":[\"a/b\"],\"reason\":\"\",\"sha256\":\"\"}",
                                        "{\"nodes\":[7],\"reason\":\"\",\"sha256\":\"\"}",
                                        "{\"nodes\":[\"a\"],\"sha256\":\"\"}",
                                        "{\"nodes\":[\"a\"],\"reason\":\"\",\"sha256\":\"no\"}"};
  roster.refused = 0;
  for (size_t i = 0; i < sizeof kOrders / sizeof *kOrders; i++) {
    put(&roster, "orders/m", kOrders[i], 5, 6 + (int64_t)i);
    const braid_cluster_order *order = braid_cluster_roster_order(&roster, "m");
    assert_int_equal(roster.refused, i + 1);
    assert_int_equal(order->node_count, 0); /* it stands for nothing, and is written anew over this revision */
    assert_int_equal(order->revision, 6 + i);
  }
  roster.refused = 0;
  put(&roster, "nodes/", NODE(""), 5, 5);
  put(&roster, "nodes/a b", NODE(""), 5, 5);
  put(&roster, "something/else", "x", 5, 5);
  put(&roster, "election/1", "a\nb", 5, 5);
  char name[300] = "nodes/";
  memset(name + 6, 'a', 200);
  put(&roster, name, NODE(""), 5, 5);
  assert_int_equal(roster.refused, 5);
  assert_int_equal(roster.member_count + roster.candidate_count, 0);
  braid_cluster_roster_deinit(&roster);
}

/* More nodes, models and copies than there may be. */
static void test_limits(void **state) {
  (void)state;
  braid_cluster_roster roster = {0};
  char name[32];
  for (int i = 0; i < BRAID_CLUSTER_MEMBERS + 10; i++) {
    snprintf(name, sizeof name, "nodes/n%d", i);
    put(&roster, name, NODE(""), 5, 5);
  }
  assert_int_equal(roster.member_count, BRAID_CLUSTER_MEMBERS);
  assert_int_equal(roster.refused, 10);
  braid_text text;
  braid_text_init(&text, NULL);
  braid_text_add(&text, "{\"nodes\":[\"a0\"");
  for (int i = 1; i <= BRAID_CLUSTER_COPIES; i++) braid_text_printf(&text, ",\"a%d\"", i);
  braid_text_add(&text, "],\"reason\":\"\",\"sha256\":\"\"}");
  braid_cluster_order order;
  assert_false(braid_cluster_order_read(text.data, text.length, &order));
  braid_text_deinit(&text);
  char *huge = calloc(1, BRAID_CLUSTER_VALUE + 2);
  memset(huge, ' ', BRAID_CLUSTER_VALUE + 1);
  static const char kSmall[] = "{\"nodes\":[],\"reason\":\"\",\"sha256\":\"\"}";
  memcpy(huge, kSmall, sizeof kSmall - 1);
  assert_true(braid_cluster_order_read(huge, BRAID_CLUSTER_VALUE, &order));
  assert_false(braid_cluster_order_read(huge, BRAID_CLUSTER_VALUE + 1, &order));
  free(huge);
  braid_cluster_roster_deinit(&roster);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys), cmocka_unit_test(test_silence),
                                     cmocka_unit_test(test_tokens), cmocka_unit_test(test_malformed),
                                     cmocka_unit_test(test_limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
