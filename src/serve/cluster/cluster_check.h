/* For tests of clusters: daemons in this process on a real etcd, what they hold, and answers of the bits that a session
 * has. */
#ifndef BRAID_SERVE_CLUSTER_CLUSTER_CHECK_H
#define BRAID_SERVE_CLUSTER_CLUSTER_CHECK_H

#include "base/clock.h"
#include "serve/cluster/etcd_check.h"
#include "serve/cluster/node.h"
#include "serve/wire/wire_check.h"

enum { NODES = 3, WAIT_MS = 20000 };

static etcd_group group;
static braid_server *nodes[NODES];

static const char kToken[] = "a-token-of-tests";

static const char kModels[] =
    "  - {name: m1, path: " BRAID_MODELS "/lenet.cfg}\n  - {name: m2, path: " BRAID_MODELS "/lenet.cfg}\n";

/* Writes the configuration of a node into the folder; `more`: of the key `cluster`, `top`: lines beside it. */
static inline const char *put_node(const char *models, const char *token, const char *more, const char *top) {
  static char path[128];
  static int count; /* another process may still have to read the one before */
  snprintf(path, sizeof path, "%s/node%d.yaml", folder, count++);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "devices:\n  - {name: cpu, threads: 1}\nmodels:\n%scluster: {token: %s, %s}\n%s", models, token, more,
          top);
  fclose(file);
  return path;
}

static inline braid_server *start_node_of(const char *name, const char *config) {
  char cluster[160];
  braid_server *server;
  snprintf(cluster, sizeof cluster, "etcd:%s", group.endpoints);
  braid_server_options options = {.config = config, .port = -1, .wire_port = -1, .cluster = cluster, .node = name};
  if (braid_server_create(&options, &server) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return server;
}

static inline braid_server *start_node(const char *name, const char *more) {
  return start_node_of(name, put_node(kModels, kToken, more, ""));
}

/* A node whose m1 is a file of the folder. */
static inline braid_server *start_with_file(const char *name, const char *path, const char *fetch) {
  char models[200], more[80];
  snprintf(models, sizeof models, "  - {name: m1, path: %s/%s}\n", folder, path);
  snprintf(more, sizeof more, "copies: 2%s", fetch);
  return start_node_of(name, put_node(models, kToken, more, ""));
}

typedef bool condition(const void *context);

static inline void await_that(condition *holds, const void *context, const char *what) {
  int64_t until = braid_now_ns() + WAIT_MS * INT64_C(1000000);
  while (!holds(context)) {
    if (braid_now_ns() > until) fail_msg("within %d ms it was not so that %s", WAIT_MS, what);
    etcd_pause(10);
  }
}

static inline bool is_ready(const void *server) {
  return braid_server_is_ready((braid_server *)server);
}

static inline void start_all(const char *more) {
  static const char *const kNames[] = {"a", "b", "c"};
  etcd_start(&group, 1);
  for (int i = 0; i < NODES; i++) nodes[i] = start_node(kNames[i], more);
  for (int i = 0; i < NODES; i++) await_that(is_ready, nodes[i], "a node is ready");
}

static inline void stop_all(void) {
  for (int i = 0; i < NODES; i++) {
    braid_server_destroy(nodes[i], 0);
    nodes[i] = NULL;
  }
  etcd_stop(&group);
}

/* The answer to a launch at one node, of the bits that a session has. */
static inline braid_client_status launch_at(braid_client *client, const char *model, int row) {
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = image[row],
                               .bytes = sizeof image[row]};
  braid_client_launch_options launch = {.model = model, .inputs = &input, .input_count = 1};
  braid_client_call *call;
  braid_client_status status = braid_client_launch(client, &launch, &call);
  if (status != BRAID_CLIENT_OK) return status;
  size_t count;
  const braid_client_tensor *outputs = braid_client_outputs(call, &count);
  assert_int_equal(count, 1);
  assert_int_equal(outputs[0].bytes, sizeof expected[row]);
  assert_memory_equal(outputs[0].data, expected[row], sizeof expected[row]);
  braid_client_release(call);
  return status;
}

static inline void expect_answers(const braid_server *server) {
  braid_client *client = wire_connect(wire_tcp(server), NULL);
  for (int row = 0; row < kRows; row++) {
    if (launch_at(client, "m1", row) != BRAID_CLIENT_OK) fail_msg("m1: %s", braid_client_error());
    if (launch_at(client, "m2", row) != BRAID_CLIENT_OK) fail_msg("m2: %s", braid_client_error());
  }
  braid_client_close(client);
}

static inline bool holds_model(const braid_server *server, const char *model) {
  braid_serve_model *held = NULL;
  bool holds = braid_serve_registry_acquire_local(server->registry, model, &held) == BRAID_OK;
  braid_serve_model_release(held);
  return holds;
}

static inline bool holds_m1(const void *server) {
  return holds_model(server, "m1");
}

static inline size_t count_holders(const char *model) {
  size_t count = 0;
  for (int i = 0; i < NODES; i++) count += nodes[i] && holds_model(nodes[i], model);
  return count;
}

static inline bool one_holds_each(const void *context) {
  (void)context;
  return count_holders("m1") == 1 && count_holders("m2") == 1;
}

static inline bool two_hold_each(const void *context) {
  (void)context;
  return count_holders("m1") == 2 && count_holders("m2") == 2;
}

static inline int find_holder(const char *model) {
  for (int i = 0; i < NODES; i++)
    if (nodes[i] && holds_model(nodes[i], model)) return i;
  return -1;
}

static inline bool is_registered(const void *server) {
  braid_serve_cluster *cluster = ((const braid_server *)server)->cluster;
  pthread_mutex_lock(&cluster->lock);
  bool registered = braid_cluster_is_registered(cluster) && !cluster->trouble[0];
  pthread_mutex_unlock(&cluster->lock);
  return registered;
}

static inline bool is_lost(const void *server) {
  braid_serve_cluster *cluster = ((const braid_server *)server)->cluster;
  pthread_mutex_lock(&cluster->lock);
  bool lost = !braid_cluster_is_registered(cluster) && cluster->trouble[0];
  pthread_mutex_unlock(&cluster->lock);
  return lost;
}

static inline bool leads(const void *server) {
  braid_serve_cluster *cluster = ((const braid_server *)server)->cluster;
  pthread_mutex_lock(&cluster->lock);
  bool does = cluster->leads && braid_cluster_is_registered(cluster);
  pthread_mutex_unlock(&cluster->lock);
  return does;
}

static inline int find_leader(void) {
  for (int i = 0; i < NODES; i++)
    if (leads(nodes[i])) return i;
  return -1;
}

static inline bool somebody_leads(const void *context) {
  int leader = find_leader();
  return leader >= 0 && leader != *(const int *)context;
}

#endif
