/* Nodes that are not as the others: with another token, or with other files under a model's name; whoever came first.
 */
#include "serve/cluster/cluster_check.h"

static bool orders_name(const braid_server *server, const char *node) {
  braid_serve_cluster *cluster = server->cluster;
  bool named = false;
  pthread_mutex_lock(&cluster->lock);
  for (size_t i = 0; i < cluster->roster.order_count; i++)
    named |= braid_cluster_order_names(&cluster->roster.orders[i], node);
  pthread_mutex_unlock(&cluster->lock);
  return named;
}

static bool c_has_no_orders(const void *server) {
  return !orders_name(server, "c");
}

static bool says(const braid_server *server, const char *text) {
  serve_answer answer = serve_ask(server, "GET", "/v2/braid/status", "", "", 0);
  bool has = answer.status == 200 && strstr(answer.body, text);
  free(answer.body);
  return has;
}

/* --- tokens --------------------------------------------------------------------------------------------------------
 */
static const char kOther[] = "another-token-than-they";
static const char kApart[] = "its token is not that of most nodes", kOdd[] = "this node's token is not that of most";

static bool is_told_apart(const void *server) {
  return says(server, kApart);
}

static bool is_told_odd(const void *server) {
  return says(server, kOdd);
}

static void expect_apart(void) {
  await_that(is_told_apart, nodes[0], "a says that c has another token");
  await_that(is_told_odd, nodes[2], "c says that it has another token");
  await_that(c_has_no_orders, nodes[0], "no order names c");
  for (int i = 0; i < 2; i++) await_that(is_ready, nodes[i], "a node is ready");
  for (int i = 0; i < 2; i++) expect_answers(nodes[i]);
  assert_false(is_told_odd(nodes[0]));
  assert_false(leads(nodes[2]));
  serve_expect(nodes[2], "GET", "/v2/health/ready", "", "", 503, NULL);
  serve_expect(nodes[0], "GET", "/v2/braid/status", "", "", 200, "\"trouble\":\"\",\"control\"");
}

static void test_comes_last(void **state) {
  (void)state;
  etcd_start(&group, 1);
  nodes[0] = start_node("a", "copies: 1");
  nodes[1] = start_node("b", "copies: 1");
  for (int i = 0; i < 2; i++) await_that(is_ready, nodes[i], "a node is ready");
  nodes[2] = start_node_of("c", put_node(kModels, kOther, "copies: 1", ""));
  expect_apart();
  serve_expect(nodes[2], "POST", "/v2/models/m1/infer", "", "{\"inputs\":[]}", 503, kOdd);
  stop_all();
}

/* It was the control node and held everything, until others came that were more. */
static void test_came_first(void **state) {
  (void)state;
  etcd_start(&group, 1);
  nodes[2] = start_node_of("c", put_node(kModels, kOther, "copies: 1", ""));
  await_that(is_ready, nodes[2], "c is ready");
  expect_answers(nodes[2]);
  nodes[0] = start_node("a", "copies: 1");
  await_that(is_told_odd, nodes[0], "a, the later of two, says that its token is not the other's");
  assert_true(orders_name(nodes[0], "c"));
  nodes[1] = start_node("b", "copies: 1");
  expect_apart();
  stop_all();
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */
static braid_server *start_with(const char *name, const char *file, const char *more) {
  char models[200];
  snprintf(models, sizeof models, "  - {name: m1, path: %s/%s}\n", folder, file);
  return start_node_of(name, put_node(models, kToken, more, ""));
}

static bool a_holds(const void *context) {
  (void)context;
  return holds_model(nodes[0], "m1");
}

static bool b_holds(const void *context) {
  (void)context;
  return holds_model(nodes[1], "m1");
}

static bool c_lets_go(const void *context) {
  (void)context;
  return !holds_model(nodes[2], "m1");
}

static bool is_told_files(const void *server) {
  return says(server, "it has other files than the cluster of m1");
}

static void expect_m1(const braid_server *server) {
  braid_client *client = wire_connect(wire_tcp(server), NULL);
  if (launch_at(client, "m1", 2) != BRAID_CLIENT_OK) fail_msg("%s", braid_client_error());
  braid_client_close(client);
}

/* c has other files: first it is alone, then one of two, then one of three, of which the two that agree are right. */
static void test_other_files(void **state) {
  char command[400];
  (void)state;
  snprintf(command, sizeof command,
           "cp " BRAID_MODELS "/lenet.cfg %s/one.cfg; (cat %s/one.cfg; echo '# other') >%s/two.cfg", folder, folder,
           folder);
  assert_int_equal(system(command), 0);
  etcd_start(&group, 1);
  nodes[2] = start_with("c", "two.cfg", "copies: 2");
  await_that(is_ready, nodes[2], "c is ready");
  etcd_pause(1500); /* it says the sum of its files, and its order does */
  nodes[0] = start_with("a", "one.cfg", "copies: 2");
  etcd_pause(2500); /* two decisions: of two that differ the one is right that the order names already */
  assert_true(holds_model(nodes[2], "m1") && !holds_model(nodes[0], "m1"));
  expect_m1(nodes[0]); /* by c */
  assert_int_equal(nodes[0]->cluster->counters.forwarded, 1);
  nodes[1] = start_with("b", "one.cfg", "copies: 2");
  await_that(a_holds, NULL, "a holds the model");
  await_that(b_holds, NULL, "b holds the model");
  await_that(c_lets_go, NULL, "c has let go of it");
  await_that(c_has_no_orders, nodes[0], "no order names c");
  await_that(is_told_files, nodes[1], "b says that c has other files");
  await_that(is_told_files, nodes[2], "c says so itself");
  for (int i = 0; i < NODES; i++) expect_m1(nodes[i]);
  stop_all();
}

/* What the API has loaded on a node with other files stays there, and others send it nothing. */
static void test_nothing_is_sent(void **state) {
  (void)state;
  etcd_start(&group, 1);
  nodes[0] = start_with("a", "one.cfg", "copies: 1");
  await_that(a_holds, NULL, "a holds the model");
  nodes[1] = start_with("b", "nowhere.cfg", "copies: 1");
  await_that(is_ready, nodes[1], "b is ready");
  nodes[2] = start_with("c", "two.cfg", "copies: 1");
  await_that(is_told_files, nodes[1], "b says that c has other files");
  serve_expect(nodes[2], "POST", "/v2/repository/models/m1/load", "", "", 200, NULL);
  etcd_pause(1000);
  assert_true(holds_model(nodes[2], "m1"));
  braid_serve_entry entry;
  bool refused, asked;
  assert_true(braid_serve_registry_local(nodes[2]->registry, 0, &entry, &refused, &asked));
  uint64_t before = entry.statistics.done;
  for (int i = 0; i < 50; i++) expect_m1(nodes[1]);
  assert_true(braid_serve_registry_local(nodes[2]->registry, 0, &entry, &refused, &asked));
  assert_int_equal(entry.statistics.done, before);
  stop_all();
}

static int set_up(void **state) {
  compute_expected();
  return make_folder(state);
}

static bool is_unavailable(const void *server) {
  serve_answer answer = serve_ask(server, "POST", "/v2/repository/index", "", "{}", 2);
  bool is =
      answer.status == 200 && strstr(answer.body, "\"UNAVAILABLE\"") && strstr(answer.body, "no node can hold it");
  free(answer.body);
  return is;
}

/* The sum is SHA-256 of the files' SHA-256, as sha256sum has it. */
static void expect_sum(const braid_server *server, const char *file) {
  char command[300], text[BRAID_SHA256_HEX + 1];
  uint8_t sum[BRAID_SHA256_BYTES];
  snprintf(command, sizeof command, "sha256sum %s/%s", folder, file);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  for (size_t i = 0; i < sizeof sum; i++) assert_int_equal(fscanf(pipe, "%2hhx", &sum[i]), 1);
  pclose(pipe);
  braid_sha256_of(sum, sizeof sum, sum);
  braid_sha256_text(sum, sizeof sum, text);
  assert_string_equal(server->cluster->files[0].sum, text);
}

/* A model that was seen is not ready when nobody can hold it any more, and is again when somebody does. */
static void test_nobody_any_more(void **state) {
  (void)state;
  char command[300];
  static const char kWhy[] = "c: its file is not there";
  snprintf(command, sizeof command, "cp " BRAID_MODELS "/lenet.cfg %s/here.cfg", folder);
  assert_int_equal(system(command), 0);
  etcd_start(&group, 1);
  nodes[0] = start_with_file("a", "here.cfg", ", wait_ms: 300");
  await_that(is_ready, nodes[0], "the node with the file is ready");
  nodes[2] = start_with_file("c", "nowhere.cfg", ", wait_ms: 300");
  await_that(is_ready, nodes[2], "a node without the file is ready");
  serve_expect(nodes[2], "GET", "/v2/models/m1/ready", "", "", 200, "true");
  expect_sum(nodes[0], "here.cfg");
  braid_server_destroy(nodes[0], 0);
  nodes[0] = NULL;
  await_that(is_unavailable, nodes[2], "the index says that no node can hold the model");
  serve_expect(nodes[2], "POST", "/v2/repository/index", "", "{}", 200, kWhy);
  serve_expect(nodes[2], "GET", "/v2/models/m1/ready", "", "", 400, "false");
  braid_client *client = wire_connect(wire_tcp(nodes[2]), NULL);
  assert_int_equal(launch_at(client, "m1", 0), BRAID_CLIENT_UNAVAILABLE);
  assert_non_null(strstr(braid_client_error(), kWhy));
  nodes[0] = start_with_file("a", "here.cfg", ", wait_ms: 300");
  await_that(is_ready, nodes[0], "the node with the file is ready again");
  await_that(holds_m1, nodes[0], "it holds the model");
  int64_t until = braid_now_ns() + WAIT_MS * INT64_C(1000000);
  while (launch_at(client, "m1", 0) != BRAID_CLIENT_OK && braid_now_ns() < until) etcd_pause(20);
  serve_expect(nodes[2], "GET", "/v2/models/m1/ready", "", "", 200, "true");
  braid_client_close(client);
  stop_all();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_comes_last), cmocka_unit_test(test_came_first),
                                     cmocka_unit_test(test_other_files), cmocka_unit_test(test_nothing_is_sent),
                                     cmocka_unit_test(test_nobody_any_more)};
  return skip_run_group_tests(tests, set_up, remove_folder);
}
