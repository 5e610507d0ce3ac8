/* A node that hangs: another process, which SIGSTOP freezes and whose lease the test keeps alive, so that nothing but
 * its silence tells. Its models are loaded elsewhere, whoever is the control node; when it goes on it follows the
 * orders, and nothing moves again. */
#include <pthread.h>

#include "serve/cluster/cluster_check.h"

static const char kOwn[] = "/proc/self/exe";

/* The other process: a node until its parent ends it. */
static int be_node(const char *name, const char *config, const char *endpoints) {
  char cluster[160];
  braid_server *server;
  sigset_t end;
  int signal;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  snprintf(cluster, sizeof cluster, "etcd:%s", endpoints);
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, NULL);
  braid_server_options options = {.config = config, .port = -1, .wire_port = -1, .cluster = cluster, .node = name};
  if (braid_server_create(&options, &server) != BRAID_OK) return 1;
  (void)sigwait(&end, &signal);
  braid_server_destroy(server, 0);
  return 0;
}

static pid_t start_process(const char *name, const char *more) {
  const char *config = put_node(kModels, kToken, more, "");
  pid_t child = fork();
  if (child == 0) {
    execl(kOwn, kOwn, "node", name, config, group.endpoints, (char *)NULL);
    _exit(127);
  }
  assert_true(child > 0);
  return child;
}

static void end_process(pid_t process) {
  int status;
  kill(process, SIGTERM);
  assert_int_equal(waitpid(process, &status, 0), process);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the first node here knows of node "x". */
typedef struct seen {
  bool there, silent, control, named[2];
  braid_cluster_state states[2];
  int64_t lease, order_revision;
} seen;

static seen look(void) {
  static const char *const kNames[] = {"m1", "m2"};
  braid_serve_cluster *cluster = nodes[0]->cluster;
  seen s = {0};
  pthread_mutex_lock(&cluster->lock);
  const braid_cluster_member *x = braid_cluster_roster_member(&cluster->roster, "x");
  const braid_cluster_candidate *control = braid_cluster_control(cluster);
  s.there = x;
  s.silent = x && braid_cluster_is_silent(cluster, x);
  s.lease = x ? x->lease : 0;
  s.control = control && strcmp(control->node, "x") == 0;
  for (int i = 0; i < 2; i++) {
    const braid_cluster_order *order = braid_cluster_roster_order(&cluster->roster, kNames[i]);
    const braid_cluster_holding *holding = x ? braid_cluster_member_holding(x, kNames[i]) : NULL;
    s.named[i] = order && braid_cluster_order_names(order, "x");
    s.states[i] = holding ? holding->state : BRAID_CLUSTER_UNLOADED;
    if (order && order->revision > s.order_revision) s.order_revision = order->revision;
  }
  pthread_mutex_unlock(&cluster->lock);
  return s;
}

static bool x_holds_all(const void *context) {
  (void)context;
  seen s = look();
  return s.states[0] == BRAID_CLUSTER_READY && s.states[1] == BRAID_CLUSTER_READY;
}

static bool x_holds_none(const void *context) {
  (void)context;
  seen s = look();
  return s.there && !s.silent && s.states[0] != BRAID_CLUSTER_READY && s.states[1] != BRAID_CLUSTER_READY;
}

/* --- its lease, kept alive -----------------------------------------------------------------------------------------
 */
static int keeps; /* atomic */
static int64_t kept_lease;

static void *keep_lease(void *context) {
  braid_etcd *etcd;
  int64_t ttl;
  (void)context;
  assert_int_equal(braid_etcd_create(&(braid_etcd_options){.endpoints = group.endpoints}, &etcd), BRAID_OK);
  while (__atomic_load_n(&keeps, __ATOMIC_ACQUIRE)) {
    assert_int_equal(braid_etcd_renew(etcd, kept_lease, &ttl), BRAID_OK);
    etcd_pause(300);
  }
  braid_etcd_destroy(etcd);
  return NULL;
}

static pthread_t keeper;

static void begin_to_keep(void) {
  kept_lease = look().lease;
  __atomic_store_n(&keeps, 1, __ATOMIC_RELEASE);
  assert_int_equal(pthread_create(&keeper, NULL, keep_lease, NULL), 0);
}

static void end_to_keep(void) {
  __atomic_store_n(&keeps, 0, __ATOMIC_RELEASE);
  pthread_join(keeper, NULL);
}

/* Milliseconds that a request takes at the node. */
static int ask_for_ms(const braid_server *server, const char *model) {
  int64_t began = braid_now_ns();
  braid_client *client = wire_connect(wire_tcp(server), NULL);
  if (launch_at(client, model, 1) != BRAID_CLIENT_OK) fail_msg("%s: %s", model, braid_client_error());
  braid_client_close(client);
  return (int)((braid_now_ns() - began) / 1000000);
}

/* --- the tests -----------------------------------------------------------------------------------------------------
 */
/* Node x holds both models alone. Where it is not to be the control node, another is that has no files. */
static pid_t make_cluster(bool x_controls) {
  char empty[300];
  etcd_start(&group, 1);
  snprintf(empty, sizeof empty, "  - {name: m1, path: %s/none.cfg}\n  - {name: m2, path: %s/none.cfg}\n", folder,
           folder);
  if (!x_controls) {
    nodes[2] = start_node_of("old", put_node(empty, kToken, "copies: 1", ""));
    await_that(is_ready, nodes[2], "the control node is ready");
  }
  pid_t process = start_process("x", "copies: 1");
  etcd_pause(3000); /* alone for longer than a control node waits for others */
  nodes[0] = start_node("a", "copies: 1");
  await_that(x_holds_all, NULL, "x holds both models");
  nodes[1] = start_node("b", "copies: 1");
  for (int i = 0; i < 2; i++) await_that(is_ready, nodes[i], "a node is ready");
  assert_true(look().control == x_controls);
  etcd_pause(2000); /* who has just come judges nobody */
  return process;
}

static void freeze_and_ask(pid_t process) {
  int status;
  begin_to_keep();
  kill(process, SIGSTOP);
  assert_int_equal(waitpid(process, &status, WUNTRACED), process); /* it may still answer before it has stopped */
  int ms = ask_for_ms(nodes[0], "m1");
  seen s = look();
  assert_true(s.there && !s.named[0]); /* its lease is not over, nor its candidacy */
  if (ms >= 3000) fail_msg("the request took %d ms", ms);
  assert_true(ask_for_ms(nodes[1], "m2") < 1000);
  kill(process, SIGCONT);
  end_to_keep();
}

static void test_frozen(bool x_controls) {
  pid_t process = make_cluster(x_controls);
  expect_answers(nodes[0]);
  freeze_and_ask(process);
  await_that(x_holds_none, NULL, "x, awake again, has let go of both");
  assert_true(look().control == x_controls); /* its candidacy is the oldest still */
  int64_t revision = look().order_revision;
  for (int i = 0; i < 2; i++) expect_answers(nodes[i]);
  etcd_pause(2500); /* two decisions */
  assert_int_equal(look().order_revision, revision);
  end_process(process);
  stop_all();
}

static void test_holder_frozen(void **state) {
  (void)state;
  test_frozen(false);
}

static void test_control_node_frozen(void **state) {
  (void)state;
  test_frozen(true);
}

/* Of two nodes the one that hangs keeps its place in the orders where nobody could take it, and answers again. */
static void test_nobody_else(void **state) {
  (void)state;
  etcd_start(&group, 1);
  nodes[0] = start_node("a", "copies: 2");
  pid_t process = start_process("x", "copies: 2");
  await_that(x_holds_all, NULL, "x holds both models");
  await_that(is_ready, nodes[0], "the node is ready");
  etcd_pause(4000); /* who has just come judges nobody; and the orders say the files' sums by then */
  int64_t revision = look().order_revision;
  begin_to_keep();
  for (int i = 0; i < 3; i++) { /* slow rather than lost */
    kill(process, SIGSTOP);
    etcd_pause(2200);
    kill(process, SIGCONT);
    etcd_pause(600);
  }
  end_to_keep();
  assert_true(x_holds_all(NULL));
  seen s = look();
  assert_true(s.there && s.named[0] && s.named[1]);
  assert_int_equal(s.order_revision, revision); /* nothing has moved to and fro */
  expect_answers(nodes[0]);
  end_process(process);
  stop_all();
}

static int set_up(void **state) {
  compute_expected();
  return make_folder(state);
}

int main(int count, char **arguments) {
  if (count == 5 && strcmp(arguments[1], "node") == 0) return be_node(arguments[2], arguments[3], arguments[4]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_holder_frozen),
      cmocka_unit_test(test_control_node_frozen),
      cmocka_unit_test(test_nobody_else),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
