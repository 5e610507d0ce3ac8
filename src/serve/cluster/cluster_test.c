/* Daemons that form a cluster on a real etcd, in this process: any of them answers for all models, with the bits that a
 * session has; models move when a node goes, and only then; etcd, the control node's lease and names may be lost. */
#include <pthread.h>

#include "client/channel.h"
#include "serve/cluster/cluster_check.h"
#include "serve/trace/trace_check.h"

static void test_any_node_answers(void **state) {
  (void)state;
  start_all("copies: 1");
  await_that(one_holds_each, NULL, "one node holds each model");
  for (int i = 0; i < NODES; i++) expect_answers(nodes[i]);
  int other = (find_holder("m1") + 1) % NODES;
  serve_expect(nodes[other], "GET", "/v2/models/m1", "", "", 200, "\"shape\":[-1,1,28,28]");
  serve_expect(nodes[other], "GET", "/v2/models/m1/ready", "", "", 200, "true");
  serve_expect(nodes[other], "GET", "/v2/braid/status", "", "", 200, "\"placement\":[{\"model\":");
  serve_expect(nodes[other], "GET", "/metrics", "", "", 200, "braid_cluster_nodes 3");
  serve_expect(nodes[other], "POST", "/v2/models/m1/infer", "", "{\"inputs\":[]}", 400, "input");
  serve_expect(nodes[other], "POST", "/v2/models/m3/infer", "", "{\"inputs\":[]}", 404, "no model");
  assert_true(nodes[other]->cluster->counters.forwarded >= 4);
  stop_all();
}

/* A request that goes on to another node stays in its caller's trace: the forward is a span of the first node's, and
 * the second node's is below it. What the caller does not sample is handed on as it is. */
static void test_trace(void **state) {
  (void)state;
  static const char *const kHeaders[] = {
      "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: a=1\r\n",
      "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00\r\n"};
  char more[256], path[128];
  static char body[16384];
  snprintf(path, sizeof path, "%s/cluster-spans.jsonl", folder);
  snprintf(more, sizeof more, "copies: 1}\ntrace: {file: %s, sample: 0", path); /* all append to one */
  start_all(more);
  await_that(one_holds_each, NULL, "one node holds each model");
  int other = (find_holder("m1") + 1) % NODES;
  int used = sprintf(body, "{\"parameters\":{\"explain\":true,\"priority\":9},\"inputs\":[{\"name\":\"input\","
                           "\"datatype\":\"FP32\",\"shape\":[1,1,28,28],\"data\":[0");
  for (int i = 1; i < kIn; i++) used += sprintf(body + used, ",%d", i % 3);
  sprintf(body + used, "]}]}");
  for (size_t i = 0; i < 2; i++)
    serve_expect(nodes[other], "POST", "/v2/models/m1/infer", kHeaders[i], body, 200, "rank 9");
  stop_all();
  json_t *spans = spans_of_file(path);
  const json_t *top = span_find(spans, "POST /v2/models/{model}/infer", "00f067aa0ba902b7", 0);
  assert_non_null(top);
  const json_t *forward = span_find(spans, "forward", span_text(top, "spanId"), 0);
  assert_non_null(forward);
  assert_int_equal(json_integer_value(json_object_get(forward, "kind")), 3);
  const json_t *there = span_find(spans, "braid/launch", span_text(forward, "spanId"), 0);
  assert_non_null(there);
  assert_string_equal(span_text(there, "traceId"), "4bf92f3577b34da6a3ce929d0e0e4736");
  assert_string_equal(span_text(there, "traceState"), "a=1");
  assert_non_null(
      span_find(spans, "device", span_text(span_find(spans, "run", span_text(there, "spanId"), 0), "spanId"), 0));
  assert_int_equal(json_array_size(spans), 8); /* server, receive, forward; server, receive, queue, run, device */
  json_decref(spans);
}

/* A node leaves; what it held goes elsewhere. One that comes moves nothing. */
static void test_moves(void **state) {
  (void)state;
  start_all("copies: 1");
  await_that(one_holds_each, NULL, "one node holds each model");
  int gone = find_holder("m1"), other = (gone + 1) % NODES;
  int64_t began = braid_now_ns();
  braid_server_destroy(nodes[gone], 0);
  nodes[gone] = NULL;
  expect_answers(nodes[other]); /* they wait for the model to be loaded elsewhere */
  assert_true(braid_now_ns() - began < INT64_C(5000000000));
  await_that(one_holds_each, NULL, "one node holds each model again");
  int now = find_holder("m1");
  nodes[gone] = start_node("a2", "copies: 1");
  await_that(is_ready, nodes[gone], "the new node is ready");
  etcd_pause(2500); /* two decisions */
  assert_int_equal(find_holder("m1"), now);
  assert_true(one_holds_each(NULL));
  expect_answers(nodes[gone]);
  stop_all();
}

static void test_copies(void **state) {
  (void)state;
  start_all("copies: 2");
  await_that(two_hold_each, NULL, "two nodes hold each model");
  int gone = find_holder("m1");
  braid_server_destroy(nodes[gone], 0);
  nodes[gone] = NULL;
  int64_t began = braid_now_ns();
  for (int i = 0; i < NODES; i++)
    if (nodes[i]) expect_answers(nodes[i]);
  assert_true(braid_now_ns() - began < INT64_C(1000000000)); /* the other copy answers at once */
  await_that(two_hold_each, NULL, "two nodes hold each model again");
  stop_all();
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */
static bool both_say_why(const void *text) {
  bool both = true;
  for (int i = 0; i < 2; i++) {
    serve_answer answer = serve_ask(nodes[i], "POST", "/v2/repository/index", "", "{}", 2);
    const char *first = answer.status == 200 ? strstr(answer.body, text) : NULL;
    both &= first && strstr(first + 1, text);
    free(answer.body);
  }
  return both;
}

/* What asking for a model's file comes to. */
static void expect_file(const braid_server *server, const char *token, const char *model, uint64_t offset,
                        braid_client_status expected_status) {
  braid_client *client = wire_connect(wire_tcp(server), token);
  client_ticket ticket;
  braid_wire_reader reader;
  braid_wire_writer *writer = client_begin(client, BRAID_WIRE_FILE, &ticket);
  braid_wire_put_text(writer, model);
  braid_wire_put_number(writer, 0, 1);
  braid_wire_put_number(writer, offset, 8);
  assert_int_equal(client_send(client, &ticket, NULL, 0, -1), BRAID_CLIENT_OK);
  assert_int_equal(client_answer(client, &ticket, &reader, NULL), expected_status);
  client_abandon(client, &ticket);
  braid_client_close(client);
}

/* The second node has not the model's file: it comes from the first, of the same bytes. A third may fetch nothing, nor
 * a fourth so much; the first one's file changes under its sum, and is not taken for it. */
static void test_files_travel(void **state) {
  (void)state;
  char command[300];
  snprintf(command, sizeof command, "cp " BRAID_MODELS "/lenet.cfg %s/here.cfg", folder);
  assert_int_equal(system(command), 0);
  etcd_start(&group, 1);
  nodes[0] = start_with_file("a", "here.cfg", "");
  await_that(is_ready, nodes[0], "the first node is ready");
  nodes[2] = start_with_file("c", "nowhere.cfg", "");
  await_that(is_ready, nodes[2], "a node without the file is ready");
  braid_server *little = start_with_file("d", "nowhere.cfg", ", fetch_max_bytes: 10");
  await_that(is_ready, little, "a node that may fetch little is ready");
  snprintf(command, sizeof command, "cp %s/here.cfg %s/kept.cfg; echo '# more' >>%s/here.cfg", folder, folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(command, sizeof command, "touch %s/there.cfg.tmp-1.0 %s/nowhere.cfg.tmp-1.0", folder, folder);
  assert_int_equal(system(command), 0);
  nodes[1] = start_with_file("b", "there.cfg", ", fetch_max_bytes: 1000000");
  etcd_pause(2500);
  assert_false(holds_model(nodes[1], "m1"));
  snprintf(command, sizeof command, "cp %s/kept.cfg %s/here.cfg", folder, folder);
  assert_int_equal(system(command), 0);
  await_that(holds_m1, nodes[1], "the second node has fetched the file and loaded the model");
  snprintf(command, sizeof command, "cmp %s/here.cfg %s/there.cfg", folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(command, sizeof command, "test ! -e %s/there.cfg.tmp-1.0 && test -e %s/nowhere.cfg.tmp-1.0", folder, folder);
  assert_int_equal(system(command), 0); /* what was fetched in part is gone; what none of its writes is not */
  assert_false(holds_model(nodes[2], "m1") || holds_model(little, "m1"));
  braid_client *client = wire_connect(wire_tcp(nodes[1]), NULL);
  for (int row = 0; row < kRows; row++) assert_int_equal(launch_at(client, "m1", row), BRAID_CLIENT_OK);
  braid_client_close(client);
  expect_file(nodes[0], NULL, "m1", 0, BRAID_CLIENT_FORBIDDEN);
  expect_file(nodes[0], "cluster:anyone:a-token-of-tests", "m1", 0, BRAID_CLIENT_OK);
  expect_file(nodes[0], "cluster:anyone:a-token-of-tests", "m1", UINT64_MAX, BRAID_CLIENT_UNAVAILABLE);
  expect_file(nodes[0], "cluster:anyone:a-token-of-tests", "../m1", 0, BRAID_CLIENT_UNKNOWN);
  braid_server_destroy(little, 0);
  stop_all();
}

/* Why nobody holds a model is said by any node: what each of them says, whatever bytes there are in it. */
static void test_why_nobody(void **state) {
  (void)state;
  char models[400];
  const char *kWhy = "no node can hold it: ";
  etcd_start(&group, 1);
  snprintf(models, sizeof models,
           "  - {name: m1, path: " BRAID_MODELS "/lenet.cfg}\n  - {name: gone, path: %s/gone.cfg}\n"
           "  - {name: none, path: %s/broken.cfg}\n",
           folder, folder);
  char path[128];
  snprintf(path, sizeof path, "%s/broken.cfg", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("[net]\n\xff\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\n", file);
  fclose(file);
  nodes[0] = start_node_of("a", put_node(models, kToken, "copies: 1", ""));
  nodes[1] = start_node_of("b", put_node(models, kToken, "copies: 1", ""));
  for (int i = 0; i < 2; i++) await_that(is_ready, nodes[i], "a node is ready");
  await_that(both_say_why, kWhy, "each says of both models why no node can hold them");
  serve_expect(nodes[0], "POST", "/v2/repository/index", "", "{}", 200, "b: its file is not there");
  serve_expect(nodes[1], "POST", "/v2/repository/index", "", "{}", 200, "a: its file is not there");
  serve_expect(nodes[1], "POST", "/v2/models/none/infer", "", "{\"inputs\":[]}", 503, kWhy);
  braid_client *client = wire_connect(wire_tcp(nodes[0]), NULL);
  braid_client_model *listed;
  size_t count;
  assert_int_equal(braid_client_models(client, "none", &listed, &count), BRAID_CLIENT_OK);
  assert_int_equal(count, 1);
  assert_non_null(strstr(listed->reason, "b: "));
  free(listed);
  braid_client_close(client);
  stop_all();
}

static bool one_holds_m1(const void *context) {
  (void)context;
  return count_holders("m1") == 1;
}

static void start_with_watts(const double *run_watts, const char *top) {
  static const char *const kNames[] = {"a", "b"};
  etcd_start(&group, 1);
  for (int i = 0; i < 2; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/watts%d.yaml", folder, i);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "devices:\n  - {name: cpu, threads: 1, instances: 4, idle_watts: 20, run_watts: %g}\nmodels:\n%s"
            "cluster: {token: %s, copies: 1}\n%s",
            run_watts[i], kModels, kToken, top);
    fclose(file);
    nodes[i] = start_node_of(kNames[i], path);
  }
  for (int i = 0; i < 2; i++) await_that(is_ready, nodes[i], "a node is ready");
  await_that(one_holds_m1, NULL, "one node holds m1");
}

/* The node that would have a model has it not where it takes more power than the other. */
static void test_power(void **state) {
  (void)state;
  double watts[2] = {10, 10};
  start_with_watts(watts, "");
  int usual = find_holder("m1");
  stop_all();
  watts[usual] = 100;
  start_with_watts(watts, "power_cap_watts: 230\n");
  assert_int_equal(find_holder("m1"), !usual);
  pthread_mutex_lock(&nodes[0]->cluster->lock);
  const braid_cluster_member *dear = braid_cluster_roster_member(&nodes[0]->cluster->roster, usual ? "b" : "a");
  assert_true(dear && dear->idle_watts == 20 && dear->busy_watts == 220 &&
              dear->instances == 2); /* two under the cap */
  const braid_cluster_member *other = braid_cluster_roster_member(&nodes[0]->cluster->roster, usual ? "a" : "b");
  assert_true(other && other->busy_watts == 60 && other->instances == 4);
  pthread_mutex_unlock(&nodes[0]->cluster->lock);
  stop_all();
}

/* --- bad weather ---------------------------------------------------------------------------------------------------
 */
static void test_etcd_lost(void **state) {
  (void)state;
  start_all("copies: 1");
  await_that(one_holds_each, NULL, "one node holds each model");
  int holder = find_holder("m1");
  etcd_kill(&group, 0);
  for (int i = 0; i < NODES; i++) await_that(is_lost, nodes[i], "a node notices that etcd is away");
  for (int i = 0; i < NODES; i++) expect_answers(nodes[i]);
  for (int i = 0; i < NODES; i++) assert_false(leads(nodes[i])); /* nobody decides without a lease */
  serve_expect(nodes[0], "GET", "/v2/braid/status", "", "", 200, "\"registered\":false,\"etcd\":\"etcd at 127.0.0.1");
  serve_expect(nodes[0], "GET", "/metrics", "", "", 200, "braid_cluster_registered 0");
  etcd_begin(&group, 0);
  for (int i = 0; i < NODES; i++) await_that(is_registered, nodes[i], "a node is registered again");
  etcd_pause(1500);
  assert_int_equal(find_holder("m1"), holder); /* and nothing has moved */
  for (int i = 0; i < NODES; i++) expect_answers(nodes[i]);
  stop_all();
}

static bool is_repaired(const void *context) {
  braid_serve_cluster *cluster = nodes[*(const int *)context]->cluster;
  pthread_mutex_lock(&cluster->lock);
  const braid_cluster_order *order = braid_cluster_roster_order(&cluster->roster, "m1");
  bool repaired = order && order->node_count == 1;
  pthread_mutex_unlock(&cluster->lock);
  return repaired;
}

/* The control node's lease is over: another decides, and what the first still has in hand is not written. */
static void test_leader_lost(void **state) {
  (void)state;
  start_all("copies: 1");
  await_that(one_holds_each, NULL, "one node holds each model");
  int none = -1, leader;
  await_that(somebody_leads, &none, "a node is the control node");
  leader = find_leader();
  braid_etcd *etcd;
  assert_int_equal(braid_etcd_create(&(braid_etcd_options){.endpoints = group.endpoints}, &etcd), BRAID_OK);
  braid_serve_cluster *cluster = nodes[leader]->cluster;
  pthread_mutex_lock(&cluster->lock);
  int64_t lease = cluster->lease, revision = braid_cluster_control(cluster)->revision;
  pthread_mutex_unlock(&cluster->lock);
  char key[128];
  snprintf(key, sizeof key, "/braid/default/election/%llx", (unsigned long long)lease);
  braid_etcd_compare fence = {.key = key, .revision = revision};
  braid_etcd_op op = {.key = "/braid/default/orders/m1",
                      .value = "{\"nodes\":[],\"reason\":\"of yesterday\",\"sha256\":\"\"}"};
  assert_int_equal(braid_etcd_revoke(etcd, lease), BRAID_OK);
  bool done;
  assert_int_equal(braid_etcd_transact(etcd, &fence, 1, &op, 1, &done, NULL), BRAID_OK);
  assert_false(done);
  await_that(somebody_leads, &leader, "another node is the control node");
  await_that(is_registered, nodes[leader], "the first one is registered again");
  /* Somebody else writes rubbish: the control node writes an order over it. */
  op.value = "rubbish";
  assert_int_equal(braid_etcd_transact(etcd, NULL, 0, &op, 1, &done, NULL), BRAID_OK);
  etcd_pause(100);
  int now = find_leader();
  await_that(is_repaired, &now, "the order is written anew");
  await_that(one_holds_each, NULL, "one node holds each model");
  for (int i = 0; i < NODES; i++) expect_answers(nodes[i]);
  braid_etcd_destroy(etcd);
  stop_all();
}

/* --- a network that says nothing -----------------------------------------------------------------------------------
 * Between a node and etcd stands a thread that passes bytes on, until it is told to keep them. */
enum { LINKS = 64 };
typedef struct between {
  int listener, port, to_port;
  int silent, stop; /* atomic */
  pthread_t thread;
  int files[LINKS][2];
  size_t count;
} between;

static void pass_on(int from, int to, bool *open) {
  char data[65536];
  ssize_t count = recv(from, data, sizeof data, MSG_DONTWAIT);
  if (count == 0) *open = false;
  for (ssize_t sent = 0; sent < count;) {
    ssize_t more = send(to, data + sent, (size_t)(count - sent), MSG_NOSIGNAL);
    if (more <= 0) {
      *open = false;
      return;
    }
    sent += more;
  }
}

static void *between_main(void *context) {
  between *b = context;
  while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE)) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)b->to_port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    etcd_pause(1);
    if (__atomic_load_n(&b->silent, __ATOMIC_ACQUIRE)) continue;
    int file = accept4(b->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file >= 0 && b->count < LINKS) {
      b->files[b->count][0] = file;
      b->files[b->count][1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      (void)connect(b->files[b->count][1], (struct sockaddr *)&to, sizeof to);
      b->count++;
    }
    for (size_t i = 0; i < b->count;) {
      bool open = true;
      pass_on(b->files[i][0], b->files[i][1], &open);
      pass_on(b->files[i][1], b->files[i][0], &open);
      if (open) {
        i++;
        continue;
      }
      for (int k = 0; k < 2; k++) close(b->files[i][k]);
      memcpy(b->files[i], b->files[--b->count], sizeof b->files[i]);
    }
  }
  for (size_t i = 0; i < b->count; i++)
    for (int k = 0; k < 2; k++) close(b->files[i][k]);
  close(b->listener);
  return NULL;
}

static void between_start(between *b, int to_port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  *b = (between){.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), .to_port = to_port};
  assert_int_equal(bind(b->listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(b->listener, 16), 0);
  assert_int_equal(getsockname(b->listener, (struct sockaddr *)&at, &length), 0);
  b->port = ntohs(at.sin_port);
  assert_int_equal(pthread_create(&b->thread, NULL, between_main, b), 0);
}

/* The control node is cut off, and nothing tells it so: when its lease is over it decides no more, and serves on; the
 * others have another one. */
static void test_partition(void **state) {
  (void)state;
  between b;
  etcd_start(&group, 1);
  between_start(&b, group.members[0].port);
  char all[sizeof group.endpoints];
  memcpy(all, group.endpoints, sizeof all);
  snprintf(group.endpoints, sizeof group.endpoints, "127.0.0.1:%d", b.port);
  nodes[0] = start_node("a", "copies: 1");
  await_that(is_ready, nodes[0], "the first node is ready");
  assert_true(leads(nodes[0]));
  memcpy(group.endpoints, all, sizeof all);
  for (int i = 1; i < NODES; i++) nodes[i] = start_node(i == 1 ? "b" : "c", "copies: 1");
  for (int i = 1; i < NODES; i++) await_that(is_ready, nodes[i], "a node is ready");
  int first = 0;
  int64_t began = braid_now_ns();
  __atomic_store_n(&b.silent, 1, __ATOMIC_RELEASE);
  await_that(somebody_leads, &first, "another node is the control node");
  assert_true(braid_now_ns() - began > INT64_C(500000000)); /* not before the first one's lease is over */
  await_that(is_lost, nodes[0], "the node that is cut off knows it");
  assert_false(leads(nodes[0]));
  for (int i = 0; i < NODES; i++) expect_answers(nodes[i]);
  __atomic_store_n(&b.silent, 0, __ATOMIC_RELEASE);
  await_that(is_registered, nodes[0], "it is registered again");
  await_that(one_holds_each, NULL, "one node holds each model");
  for (int i = 0; i < NODES; i++) expect_answers(nodes[i]);
  for (int i = 0; i < NODES; i++) {
    braid_server_destroy(nodes[i], 0);
    nodes[i] = NULL;
  }
  __atomic_store_n(&b.stop, 1, __ATOMIC_RELEASE);
  pthread_join(b.thread, NULL);
  etcd_stop(&group);
}

/* --- who is who ----------------------------------------------------------------------------------------------------
 */
static void test_peers(void **state) {
  (void)state;
  start_all("copies: 1");
  await_that(one_holds_each, NULL, "one node holds each model");
  int other = (find_holder("m1") + 1) % NODES;
  braid_client *client;
  static const char *const kWrong[] = {"cluster:anyone:another-token-of", "cluster:nobody:a-token-of-tests",
                                       "cluster:anyone:", "cluster:", "cluster"};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    /* The tenant "anyone" takes whatever token: it is let in, but as a client, whose requests are sent on. */
    client = wire_connect(wire_tcp(nodes[other]), kWrong[i]);
    assert_int_equal(launch_at(client, "m1", 0), BRAID_CLIENT_OK);
    braid_client_close(client);
  }
  client = wire_connect(wire_tcp(nodes[other]), "cluster:anyone:a-token-of-tests");
  assert_int_equal(launch_at(client, "m1", 0), BRAID_CLIENT_UNAVAILABLE); /* nothing goes in circles */
  assert_non_null(strstr(braid_client_error(), "not loaded here"));
  braid_client_close(client);
  stop_all();
}

static bool has_other(const void *server) {
  braid_serve_cluster *cluster = ((const braid_server *)server)->cluster;
  pthread_mutex_lock(&cluster->lock);
  bool has = strstr(cluster->trouble, "another daemon");
  pthread_mutex_unlock(&cluster->lock);
  return has;
}

/* Two daemons of one name: who comes later has it, as after a restart; the first one says so and does not fight. */
static void test_same_name(void **state) {
  (void)state;
  etcd_start(&group, 1);
  braid_server *first = start_node("a", "copies: 1");
  await_that(is_ready, first, "the node is ready");
  braid_server *second = start_node("a", "copies: 1");
  await_that(is_ready, second, "the second is ready");
  await_that(has_other, first, "the first one sees the other");
  assert_true(is_registered(second));
  expect_answers(second);
  braid_server_destroy(second, 0);
  await_that(is_registered, first, "the first one has the name again");
  braid_server_destroy(first, 0);
  etcd_stop(&group);
}

static void *ask_on(void *context) {
  braid_client *client = wire_connect(context, NULL);
  for (int i = 0; i < 200; i++)
    if (launch_at(client, i % 2 ? "m1" : "m2", i % kRows) != BRAID_CLIENT_OK) fail_msg("%s", braid_client_error());
  braid_client_close(client);
  return NULL;
}

/* All nodes are asked at once while one after the other leaves and comes back. */
static void test_under_load(void **state) {
  (void)state;
  pthread_t threads[4];
  char address[32];
  start_all("copies: 2");
  snprintf(address, sizeof address, "%s", wire_tcp(nodes[0]));
  await_that(two_hold_each, NULL, "two nodes hold each model");
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask_on, address), 0);
  for (int i = 1; i < NODES; i++) {
    braid_server_destroy(nodes[i], INT64_C(1000000000));
    nodes[i] = start_node(i == 1 ? "b" : "c", "copies: 2");
    await_that(is_ready, nodes[i], "the node is back");
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  stop_all();
}

static void test_configuration(void **state) {
  (void)state;
  static const struct {
    const char *cluster, *wire, *says;
  } kCases[] = {
      {"{token: a-token-of-tests}", "wire_port: 0", "endpoints are not said"},
      {"{etcd: '127.0.0.1:1'}", "wire_port: 0", "token of at least 16 bytes"},
      {"{etcd: '127.0.0.1:1', token: short}", "wire_port: 0", "expected at least 16"},
      {"{etcd: '127.0.0.1:1', token: a-token-of-tests}", "wire_port: 0", "wire_port"},
      {"{etcd: nothing, token: a-token-of-tests}", "wire_port: 1", "HOST:PORT"},
      {"{etcd: '127.0.0.1:1', token: a-token-of-tests, node: a/b}", "wire_port: 0", "a/b"},
      {"{etcd: '127.0.0.1:1', token: a-token-of-tests, copies: 17}", "wire_port: 0", "copies is 17"},
      {"{etcd: '127.0.0.1:1', token: a-token-of-tests, certificate: x}", "wire_port: 0", "authority"},
      {"{etcd: '127.0.0.1:1', token: a-token-of-tests, bulk: fast}", "wire_port: 0", "expected auto, ucx or wire"},
  };
  unsetenv("BRAID_CLUSTER_TOKEN");
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    char path[128];
    braid_server *server;
    snprintf(path, sizeof path, "%s/wrong.yaml", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "models:\n  - {name: m, path: " BRAID_MODELS "/lenet.cfg}\ncluster: %s\n", kCases[i].cluster);
    fclose(file);
    braid_server_options options = {.config = path, .port = -1};
    if (strstr(kCases[i].wire, "1")) options.wire_port = -1;
    assert_int_not_equal(braid_server_create(&options, &server), BRAID_OK);
    assert_null(server);
    if (!strstr(braid_error_detail(), kCases[i].says))
      fail_msg("case %zu: \"%s\", not \"%s\"", i, braid_error_detail(), kCases[i].says);
  }
}

static int set_up(void **state) {
  compute_expected();
  return make_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_configuration), cmocka_unit_test(test_any_node_answers),
      cmocka_unit_test(test_trace),         cmocka_unit_test(test_moves),
      cmocka_unit_test(test_copies),        cmocka_unit_test(test_files_travel),
      cmocka_unit_test(test_why_nobody),    cmocka_unit_test(test_power),
      cmocka_unit_test(test_etcd_lost),     cmocka_unit_test(test_leader_lost),
      cmocka_unit_test(test_partition),     cmocka_unit_test(test_peers),
      cmocka_unit_test(test_same_name),     cmocka_unit_test(test_under_load),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
