/* Daemons of a cluster whose protocol has TLS, on a real etcd, in this process: they send each other requests by it,
 * and nothing at all to a node that does not show a certificate of their authority, or speaks no TLS. */
#include "base/clock.h"
#include "serve/cluster/etcd_check.h"
#include "serve/cluster/node.h"
#include "serve/wire/wire_check.h"
#include "tls/tls_check.h"

enum { WAIT_MS = 20000 };

static etcd_group group;
static braid_server *nodes[2];

/* `certificate` NULL: without TLS, so that it is never ready, since nobody tells it what it lacks. */
static braid_server *start_node(const char *name, const char *certificate, const char *model) {
  char cluster[160], tls[400] = "";
  braid_server *server;
  snprintf(cluster, sizeof cluster, "etcd:%s", group.endpoints);
  if (certificate)
    snprintf(tls, sizeof tls, "certificate: %s/%s.pem\nkey: %s/%s.key\nwire_authority: %s/ca.pem\n", folder,
             certificate, folder, certificate, folder);
  FILE *file = fopen(tls_file("node.yaml"), "w");
  assert_non_null(file);
  fprintf(file,
          "%sdevices:\n  - {name: cpu, threads: 1}\nmodels:\n  - {name: m1, path: %s}\n  - {name: m2, path: %s}\n"
          "cluster: {token: a-token-of-tests, copies: 1, wait_ms: 3000%s%s%s}\n",
          tls, model, model, certificate ? ", node_authority: " : "", certificate ? tls_file("ca.pem") : "",
          certificate ? ", address: localhost" : "");
  fclose(file);
  braid_server_options options = {
      .config = tls_file("node.yaml"), .port = -1, .wire_port = -1, .cluster = cluster, .node = name};
  if (braid_server_create(&options, &server) != BRAID_OK) fail_msg("%s", braid_error_detail());
  int64_t until = braid_now_ns() + WAIT_MS * INT64_C(1000000);
  while (certificate && !braid_server_is_ready(server)) {
    if (braid_now_ns() > until) fail_msg("node %s is not ready", name);
    etcd_pause(10);
  }
  return server;
}

static void start_both(const char *second) {
  if (!tls_make_files()) skip_test("system", "there is no openssl, or Braid was built without GnuTLS");
  etcd_start(&group, 1);
  nodes[0] = start_node("a", "server", BRAID_MODELS "/lenet.cfg");
  nodes[1] = start_node("b", second, "/nowhere/lenet.cfg"); /* so the first has all */
}

static int stop_both(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) braid_server_destroy(nodes[i], 0);
  nodes[0] = nodes[1] = NULL;
  etcd_stop(&group);
  return 0;
}

/* What a launch at the second node, which has no models, comes to; `said` is its sentence. */
static braid_client_status launch_at_second(const char *authority, const char **said) {
  char address[64];
  braid_client *client;
  braid_client_call *call;
  bool tls = nodes[1]->relay;
  snprintf(address, sizeof address, "%slocalhost:%d", tls ? "tls:" : "", braid_server_wire_port(nodes[1]));
  braid_client_options options = {.authority = tls ? authority : NULL};
  if (tls) options.certificate = tls_file("server.pem");
  if (tls) options.key = tls_file("server.key");
  if (braid_client_connect(address, &options, &client) != BRAID_CLIENT_OK) fail_msg("%s", braid_client_error());
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = image[1],
                               .bytes = sizeof image[1]};
  braid_client_launch_options launch = {.model = "m1", .inputs = &input, .input_count = 1};
  braid_client_status status = BRAID_CLIENT_UNAVAILABLE;
  for (int i = 0; i < 30 && status == BRAID_CLIENT_UNAVAILABLE; i++) { /* it is to be loaded there first */
    status = braid_client_launch(client, &launch, &call);
    if (status == BRAID_CLIENT_OK) {
      size_t count;
      assert_memory_equal(braid_client_outputs(call, &count)->data, expected[1], sizeof expected[1]);
      braid_client_release(call);
    }
    if (status == BRAID_CLIENT_UNAVAILABLE) etcd_pause(100);
  }
  *said = braid_client_error();
  braid_client_close(client);
  return status;
}

static void test_tls_between_nodes(void **state) {
  (void)state;
  const char *said;
  start_both("server");
  assert_int_equal(strncmp(nodes[0]->cluster->address, "tls:localhost:", 14), 0);
  braid_client_status status = launch_at_second(tls_file("ca.pem"), &said);
  if (status != BRAID_CLIENT_OK) fail_msg("%d %s", status, said);
  assert_true(nodes[1]->cluster->counters.forwarded >= 1);
}

/* A node without TLS shows no certificate: the first does not let it in, and it gets no answer from there. */
static void test_node_without_tls(void **state) {
  (void)state;
  const char *said;
  start_both(NULL);
  assert_null(nodes[1]->relay);
  while (!nodes[1]->cluster->address[0]) etcd_pause(10);
  assert_int_not_equal(launch_at_second(NULL, &said), BRAID_CLIENT_OK);
  assert_int_equal(nodes[1]->cluster->counters.forwarded, 0);
  cluster_link *link = braid_cluster_link(nodes[0]->cluster, nodes[1]->cluster->address, nodes[0]->tenants);
  assert_null(link); /* nor does it say its token there */
  if (!strstr(braid_client_error(), "go with an address tls:")) fail_msg("%s", braid_client_error());
}

static int set_up(void **state) {
  compute_expected();
  return make_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_tls_between_nodes, stop_both),
      cmocka_unit_test_teardown(test_node_without_tls, stop_both),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
