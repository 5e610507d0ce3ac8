/* For tests of files between daemons on a real etcd: an ONNX model with external data, daemons that have it or fetch
 * it, and the programs of UCX's that carry it. */
#ifndef BRAID_SERVE_CLUSTER_FILES_CHECK_H
#define BRAID_SERVE_CLUSTER_FILES_CHECK_H

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "model/onnx/onnx_build.h"
#include "serve/cluster/etcd_check.h"
#include "serve/wire/wire_check.h"

#include "client/channel.h"
#include "serve/cluster/node.h"
#include "serve/files.h"

enum { WAIT_MS = 60000, MIB = 1 << 20, WEIGHTS = 4 };

static etcd_group group;
static braid_server *source, *target;
static int copies = 2; /* of the model */
static const char kToken[] = "a-token-of-tests";

/* What is logged, for all daemons of this process. */
static char logged[1 << 16];
static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void keep_line(void *context, braid_log_level level, const char *text) {
  (void)context, (void)level;
  pthread_mutex_lock(&logged_lock);
  size_t used = strlen(logged);
  snprintf(logged + used, sizeof logged - used, "%s\n", text);
  pthread_mutex_unlock(&logged_lock);
}

static inline bool is_logged(const void *text) {
  pthread_mutex_lock(&logged_lock);
  bool is = strstr(logged, text) != NULL;
  pthread_mutex_unlock(&logged_lock);
  return is;
}

static inline void run(const char *format, ...) {
  char command[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  if (system(command) != 0) fail_msg("%s", command);
}

typedef bool condition(const void *context);

static inline void await_that(condition *holds, const void *context, const char *what) {
  int64_t until = braid_now_ns() + WAIT_MS * INT64_C(1000000);
  while (!holds(context)) {
    if (braid_now_ns() > until) fail_msg("within %d ms it was not so that %s; logged was:\n%s", WAIT_MS, what, logged);
    etcd_pause(5);
  }
}

/* --- a model -------------------------------------------------------------------------------------------------------
 */
static inline void add_external(onnx_build *build, const char *name, int type, int64_t count, const char *location,
                                const char *offset) {
  Onnx__TensorProto *tensor = build_new(build, sizeof *tensor);
  onnx__tensor_proto__init(tensor);
  tensor->name = build_text(build, name);
  tensor->has_data_type = tensor->has_data_location = true;
  tensor->data_type = type;
  tensor->dims = build_new(build, sizeof *tensor->dims);
  tensor->n_dims = 1;
  tensor->dims[0] = count;
  tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  const char *const pairs[2][2] = {{"location", location}, {"offset", offset}};
  tensor->external_data = build_new(build, 2 * sizeof(void *));
  for (size_t i = 0; i < 2; i++) {
    Onnx__StringStringEntryProto *entry = build_new(build, sizeof *entry);
    onnx__string_string_entry_proto__init(entry);
    entry->key = build_text(build, pairs[i][0]);
    entry->value = build_text(build, pairs[i][1]);
    tensor->external_data[tensor->n_external_data++] = entry;
  }
  build->graph.initializer[build->graph.n_initializer++] = tensor;
}

static inline void write_pattern(const char *path, uint64_t bytes) {
  static uint8_t piece[MIB];
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (uint64_t at = 0; at < bytes;) {
    size_t count = bytes - at < sizeof piece ? (size_t)(bytes - at) : sizeof piece;
    for (size_t i = 0; i < count; i++) piece[i] = (uint8_t)((at + i) * 31 + ((at + i) >> 12) * 5);
    assert_int_equal(fwrite(piece, 1, count, file), count);
    at += count;
  }
  fclose(file);
}

/* folder/a/model.onnx: y = x + w, where w begins a file of `bytes` bytes; and files of 0 and 1 bytes, and one whose
 * last byte is the first that the first piece of Braid's protocol does not have. */
static inline void write_model(uint64_t bytes) {
  onnx_build build;
  char path[128];
  run("rm -rf %s/a %s/b; mkdir -p %s/a/deep/er %s/b", folder, folder, folder, folder);
  build_begin(&build, 17);
  build_input(&build, "x", 1, (int64_t[]){WEIGHTS});
  add_external(&build, "w", 1, WEIGHTS, "deep/er/../er/data.bin", "0");
  add_external(&build, "nothing", 1, 0, "./nothing.bin", "0");
  add_external(&build, "one", 2, 1, "one.bin", "0");
  add_external(&build, "edge", 2, 1, "deep/edge.bin", "262144");
  add_external(&build, "again", 1, 2, "deep/er/data.bin", "8");
  build.graph.node[build.graph.n_node++] = build_node_alone(&build, "Add", "x w", "y");
  build_output(&build, &build.graph, "y");
  size_t packed = onnx__model_proto__get_packed_size(&build.model);
  uint8_t *model = malloc(packed);
  onnx__model_proto__pack(&build.model, model);
  build_end(&build);
  snprintf(path, sizeof path, "%s/a/model.onnx", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(model, 1, packed, file), packed);
  fclose(file);
  free(model);
  snprintf(path, sizeof path, "%s/a/deep/er/data.bin", folder);
  write_pattern(path, bytes);
  file = fopen(path, "r+");
  fwrite((float[WEIGHTS]){1, 2, 3, 4}, sizeof(float), WEIGHTS, file);
  fclose(file);
  snprintf(path, sizeof path, "%s/a/deep/edge.bin", folder);
  write_pattern(path, BRAID_WIRE_PIECE + 1);
  run("touch %s/a/nothing.bin; printf x >%s/a/one.bin", folder, folder);
}

static inline void expect_copied(void) {
  run("diff -r %s/a %s/b", folder, folder);
}

/* --- daemons -------------------------------------------------------------------------------------------------------
 */
static inline braid_server *start_node(const char *name, const char *more) {
  char path[128], cluster[160];
  static const braid_log kLog = {.write = keep_line};
  braid_server *server;
  snprintf(path, sizeof path, "%s/node.yaml", folder);
  snprintf(cluster, sizeof cluster, "etcd:%s", group.endpoints);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "devices:\n  - {name: cpu, threads: 1}\nmodels:\n  - {name: m1, path: %s/%s/model.onnx}\n"
          "cluster: {token: %s, copies: %d, fetch_max_bytes: 1000000000%s}\n",
          folder, name, kToken, copies, more);
  fclose(file);
  braid_server_options options = {
      .config = path, .port = -1, .wire_port = -1, .cluster = cluster, .node = name, .log = &kLog};
  if (braid_server_create(&options, &server) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return server;
}

static inline bool is_ready(const void *server) {
  return braid_server_is_ready((braid_server *)server);
}

static inline bool holds_model(const void *server) {
  braid_serve_model *held = NULL;
  bool holds = braid_serve_registry_acquire_local(((const braid_server *)server)->registry, "m1", &held) == BRAID_OK;
  braid_serve_model_release(held);
  return holds;
}

static inline cluster_carried carried_by(const braid_server *server) {
  pthread_mutex_lock(&server->cluster->lock);
  cluster_carried carried = server->cluster->counters.carried;
  pthread_mutex_unlock(&server->cluster->lock);
  return carried;
}

static inline void start_source(const char *more) {
  logged[0] = '\0';
  etcd_start(&group, 1);
  source = start_node("a", more);
  await_that(holds_model, source, "the node that has the files holds the model");
}

static inline void stop_all(void) {
  braid_server_destroy(target, 0);
  braid_server_destroy(source, 0);
  source = target = NULL;
  etcd_stop(&group);
}

/* The fetched weights are the ones that compute. */
static inline void expect_answer(void) {
  const float x[WEIGHTS] = {10, 20, 30, 40}, y[WEIGHTS] = {11, 22, 33, 44};
  braid_client *client = wire_connect(wire_tcp(target), NULL);
  braid_client_tensor input = {
      .name = "x", .dtype = BRAID_CLIENT_F32, .rank = 1, .dims = {WEIGHTS}, .data = x, .bytes = sizeof x};
  braid_client_launch_options launch = {.model = "m1", .inputs = &input, .input_count = 1};
  braid_client_call *call;
  size_t count;
  if (braid_client_launch(client, &launch, &call) != BRAID_CLIENT_OK) fail_msg("%s", braid_client_error());
  const braid_client_tensor *outputs = braid_client_outputs(call, &count);
  assert_int_equal(outputs[0].bytes, sizeof y);
  assert_memory_equal(outputs[0].data, y, sizeof y);
  braid_client_release(call);
  braid_client_close(client);
}

/* --- programs of UCX's ---------------------------------------------------------------------------------------------
 */
/* The child of a daemon that sends a file, or (`receives`) that receives one, or 0. */
static inline pid_t find_child(pid_t daemon, bool receives) {
  DIR *all = opendir("/proc");
  pid_t found = 0;
  assert_non_null(all);
  for (struct dirent *entry; !found && (entry = readdir(all));) {
    char path[320], target_path[256], name[32] = "";
    pid_t pid = (pid_t)atoi(entry->d_name), parent = 0;
    if (pid <= 0) continue;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fscanf(file, "%*d (%31[^)]) %*c %d", name, &parent) != 2) parent = 0;
    fclose(file);
    if (parent != daemon || strcmp(name, "braid-ucx") != 0) continue;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, BRAID_BULK_DATA);
    ssize_t length = readlink(path, target_path, sizeof target_path - 1);
    if (length <= 0) continue;
    target_path[length] = '\0';
    if (receives == (strstr(target_path, "memfd:") != NULL)) found = pid;
  }
  closedir(all);
  return found;
}

static inline pid_t find_carrier(bool receives) {
  return find_child(getpid(), receives);
}

static inline int set_up(void **state) {
  setenv("BRAID_UCX", BRAID_UCX_PROGRAM, 1);
  return make_folder(state);
}

#endif
