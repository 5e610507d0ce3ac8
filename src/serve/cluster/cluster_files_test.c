/* Files of models between daemons on a real etcd, in this process: by UCX and by Braid's own protocol, an ONNX model
 * with its external data, large ones, with either end lost in the middle, with other bytes than were promised. */
#include <dirent.h>
#include <glob.h>
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
static const char kToken[] = "a-token-of-tests";

/* What is logged, for all daemons of this process. */
static char logged[1 << 16];
static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_line(void *context, braid_log_level level, const char *text) {
  (void)context, (void)level;
  pthread_mutex_lock(&logged_lock);
  size_t used = strlen(logged);
  snprintf(logged + used, sizeof logged - used, "%s\n", text);
  pthread_mutex_unlock(&logged_lock);
}

static bool is_logged(const void *text) {
  pthread_mutex_lock(&logged_lock);
  bool is = strstr(logged, text) != NULL;
  pthread_mutex_unlock(&logged_lock);
  return is;
}

static void run(const char *format, ...) {
  char command[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  if (system(command) != 0) fail_msg("%s", command);
}

typedef bool condition(const void *context);

static void await_that(condition *holds, const void *context, const char *what) {
  int64_t until = braid_now_ns() + WAIT_MS * INT64_C(1000000);
  while (!holds(context)) {
    if (braid_now_ns() > until) fail_msg("within %d ms it was not so that %s; logged was:\n%s", WAIT_MS, what, logged);
    etcd_pause(5);
  }
}

/* --- a model -------------------------------------------------------------------------------------------------------
 */
static void add_external(onnx_build *build, const char *name, int type, int64_t count, const char *location,
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

static void write_pattern(const char *path, uint64_t bytes) {
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
static void write_model(uint64_t bytes) {
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

static void expect_copied(void) {
  run("diff -r %s/a %s/b", folder, folder);
}

/* --- daemons -------------------------------------------------------------------------------------------------------
 */
static braid_server *start_node(const char *name, const char *more) {
  char path[128], cluster[160];
  static const braid_log kLog = {.write = keep_line};
  braid_server *server;
  snprintf(path, sizeof path, "%s/node.yaml", folder);
  snprintf(cluster, sizeof cluster, "etcd:%s", group.endpoints);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "devices:\n  - {name: cpu, threads: 1}\nmodels:\n  - {name: m1, path: %s/%s/model.onnx}\n"
          "cluster: {token: %s, copies: 2, fetch_max_bytes: 1000000000%s}\n",
          folder, name, kToken, more);
  fclose(file);
  braid_server_options options = {
      .config = path, .port = -1, .wire_port = -1, .cluster = cluster, .node = name, .log = &kLog};
  if (braid_server_create(&options, &server) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return server;
}

static bool is_ready(const void *server) {
  return braid_server_is_ready((braid_server *)server);
}

static bool holds_model(const void *server) {
  braid_serve_model *held = NULL;
  bool holds = braid_serve_registry_acquire_local(((const braid_server *)server)->registry, "m1", &held) == BRAID_OK;
  braid_serve_model_release(held);
  return holds;
}

static cluster_carried carried_by(const braid_server *server) {
  pthread_mutex_lock(&server->cluster->lock);
  cluster_carried carried = server->cluster->counters.carried;
  pthread_mutex_unlock(&server->cluster->lock);
  return carried;
}

static void start_source(const char *more) {
  logged[0] = '\0';
  etcd_start(&group, 1);
  source = start_node("a", more);
  await_that(holds_model, source, "the node that has the files holds the model");
}

static void stop_all(void) {
  braid_server_destroy(target, 0);
  braid_server_destroy(source, 0);
  source = target = NULL;
  etcd_stop(&group);
}

/* The fetched weights are the ones that compute. */
static void expect_answer(void) {
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

/* --- ways ----------------------------------------------------------------------------------------------------------
 */
static void test_ways(void **state) {
  (void)state;
  static const struct {
    const char *source, *target;
    bool large_by_ucx, edge_by_ucx;
  } kCases[] = {{"", "", true, false},
                {"", ", bulk: ucx", true, true},
                {"", ", bulk: wire", false, false},
                {", bulk: wire", ", bulk: auto", false, false}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    enum { BYTES = 3 * MIB + 77 };
    write_model(BYTES);
    start_source(kCases[i].source);
    target = start_node("b", kCases[i].target);
    await_that(holds_model, target, "the other node has fetched the files and loaded the model");
    expect_copied();
    expect_answer();
    cluster_carried carried = carried_by(target);
    uint64_t ucx = (kCases[i].large_by_ucx ? BYTES - BRAID_WIRE_PIECE : 0u) + kCases[i].edge_by_ucx;
    assert_int_equal(carried.ucx, ucx);
    assert_true(carried.wire > BRAID_WIRE_PIECE);
    assert_int_equal(carried.given_up, 0);
    char text[128];
    snprintf(text, sizeof text, "\"fetched_bytes\":{\"ucx\":%llu,", (unsigned long long)ucx);
    serve_expect(target, "GET", "/v2/braid/status", "", "", 200, text);
    snprintf(text, sizeof text, "braid_cluster_fetched_bytes_total{transport=\"ucx\"} %llu", (unsigned long long)ucx);
    serve_expect(target, "GET", "/metrics", "", "", 200, text);
    snprintf(text, sizeof text, "m1 have come from 127.0.0.1:%d: %llu bytes by UCX", braid_server_wire_port(source),
             (unsigned long long)ucx);
    await_that(is_logged, text, "it is logged how they came");
    stop_all();
  }
}

/* Several hundred MiB, over what UCX chooses here and over TCP. */
static void test_large(void **state) {
  (void)state;
  static const char *const kTransports[] = {NULL, "tcp"};
  write_model(UINT64_C(400) * MIB + 3);
  for (size_t i = 0; i < sizeof kTransports / sizeof *kTransports; i++) {
    if (kTransports[i]) setenv("UCX_TLS", kTransports[i], 1);
    run("rm -rf %s/b; mkdir %s/b", folder, folder);
    start_source("");
    target = start_node("b", "");
    await_that(holds_model, target, "400 MiB are there");
    expect_copied();
    assert_true(carried_by(target).ucx > UINT64_C(399) * MIB);
    stop_all();
    unsetenv("UCX_TLS");
  }
}

/* --- loss ----------------------------------------------------------------------------------------------------------
 */
/* The child of ours that sends a file, or (`receives`) that receives one, or 0. */
static pid_t find_carrier(bool receives) {
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
    if (parent != getpid() || strcmp(name, "braid-ucx") != 0) continue;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, BRAID_BULK_DATA);
    ssize_t length = readlink(path, target_path, sizeof target_path - 1);
    if (length <= 0) continue;
    target_path[length] = '\0';
    if (receives == (strstr(target_path, "memfd:") != NULL)) found = pid;
  }
  closedir(all);
  return found;
}

static bool sends(const void *context) {
  return (*(pid_t *)(uintptr_t)context = find_carrier(false)) != 0;
}

static bool receives(const void *context) {
  return (*(pid_t *)(uintptr_t)context = find_carrier(true)) != 0;
}

/* Bytes of data.bin that have come to the file beside. */
static off_t bytes_beside(void) {
  char pattern[128];
  glob_t found;
  struct stat about = {0};
  snprintf(pattern, sizeof pattern, "%s/b/deep/er/data.bin.tmp-*", folder);
  if (glob(pattern, 0, NULL, &found) != 0) return 0;
  if (stat(found.gl_pathv[0], &about) != 0) about.st_size = 0;
  globfree(&found);
  return about.st_size;
}

/* A program that carries data.bin, stopped in the middle of it. */
static pid_t stop_carrier(condition *found) {
  pid_t pid = 0;
  await_that(found, &pid, "UCX carries a file");
  for (int i = 0;; i++) {
    assert_int_equal(kill(pid, SIGSTOP), 0);
    if (bytes_beside() > 2 * MIB) return pid;
    if (i == 5000) fail_msg("no part of the file has come");
    kill(pid, SIGCONT);
    etcd_pause(1);
  }
}

/* A program of UCX's is lost, or hangs, in the middle of a file: the rest comes by Braid's protocol, from where it is.
 */
static void lose_carrier(condition *found, int signal) {
  pid_t pid;
  cluster_carried carried;
  run("rm -rf %s/b; mkdir %s/b", folder, folder);
  start_source("");
  target = start_node("b", "");
  pid = stop_carrier(found);
  assert_int_equal(kill(pid, signal), 0);
  await_that(holds_model, target, "the file has come all the same");
  carried = carried_by(target);
  if (carried.given_up != 1 || !carried.ucx || carried.wire < 10 * MIB)
    fail_msg("given up %llu, %llu by UCX, %llu by Braid's protocol: was the file there before the signal?",
             (unsigned long long)carried.given_up, (unsigned long long)carried.ucx, (unsigned long long)carried.wire);
  expect_copied();
  expect_answer();
  assert_true(is_logged("comes by Braid's protocol"));
  serve_expect(target, "GET", "/metrics", "", "", 200, "braid_cluster_bulk_given_up_total 1");
  if (signal == SIGSTOP) kill(pid, SIGKILL);
  stop_all();
}

static void test_carrier_lost(void **state) {
  (void)state;
  write_model(UINT64_C(200) * MIB);
  lose_carrier(sends, SIGKILL);
  lose_carrier(receives, SIGKILL);
  lose_carrier(sends, SIGSTOP);
}

static bool has_failed(const void *context) {
  (void)context;
  return is_logged("files of model m1 from");
}

/* The node itself goes in the middle: nothing of the model is there under its name, and all of it is when the node is
 * back. Then the receiving daemon is stopped in the middle: at once, with its programs, and nothing is left. */
static void test_node_lost(void **state) {
  (void)state;
  write_model(UINT64_C(200) * MIB);
  start_source("");
  target = start_node("b", "");
  (void)stop_carrier(sends);
  braid_server_destroy(source, 0);
  await_that(has_failed, NULL, "it is logged that files do not come");
  run("test ! -e %s/b/model.onnx -a ! -e %s/b/deep/er/data.bin", folder, folder);
  run("test -z \"$(find %s/b -name '*.tmp-*')\"", folder);
  source = start_node("a", "");
  await_that(holds_model, target, "the file has come when the node was back");
  expect_copied();
  braid_server_destroy(target, 0);
  run("rm -rf %s/b; mkdir %s/b", folder, folder);
  target = start_node("b", "");
  pid_t pid = stop_carrier(receives);
  int64_t began_ns = braid_now_ns();
  braid_server_destroy(target, 0);
  target = NULL;
  assert_true(braid_now_ns() - began_ns < INT64_C(3000000000));
  assert_int_equal(kill(pid, 0), -1);
  run("test -z \"$(find %s/b -type f)\"", folder);
  stop_all();
  assert_int_equal(find_carrier(true) + find_carrier(false), 0);
}

/* --- other bytes ---------------------------------------------------------------------------------------------------
 */
/* External data that changes under its sum is not taken, whatever carries it, nor is a file of ours written over. */
static void test_other_bytes(void **state) {
  (void)state;
  write_model(5 * MIB);
  start_source("");
  run("cp %s/a/deep/er/data.bin %s/kept.bin; printf other | dd of=%s/a/deep/er/data.bin bs=1 seek=3000000 conv=notrunc "
      "2>/dev/null",
      folder, folder, folder);
  target = start_node("b", "");
  await_that(is_logged, "the files that came have the sum", "the sum is found to be wrong");
  run("test ! -e %s/b/model.onnx -a ! -e %s/b/deep/er/data.bin", folder, folder);
  run("cp %s/kept.bin %s/a/deep/er/data.bin", folder, folder);
  await_that(holds_model, target, "the right bytes have come");
  expect_copied();
  /* What came by UCX may have been the reason: for a while Braid's protocol carries it. */
  assert_true(carried_by(target).wire > 5 * MIB);
  braid_server_destroy(target, 0);
  run("rm %s/b/model.onnx; printf mine >%s/b/one.bin", folder, folder);
  target = start_node("b", "");
  await_that(is_logged, "with 4 of external data that were here already", "our own file does not fit");
  run("test ! -e %s/b/model.onnx -a \"$(cat %s/b/one.bin)\" = mine", folder, folder);
  run("rm %s/b/one.bin", folder);
  await_that(holds_model, target, "what is missing has come");
  expect_copied();
  stop_all();
}

/* A model that names files outside its folder brings none. */
static void test_outside(void **state) {
  (void)state;
  onnx_build build;
  char path[128];
  write_model(100);
  build_begin(&build, 17);
  build_input(&build, "x", 1, (int64_t[]){WEIGHTS});
  add_external(&build, "w", 1, WEIGHTS, "../outside.bin", "0");
  build.graph.node[build.graph.n_node++] = build_node_alone(&build, "Add", "x w", "y");
  build_output(&build, &build.graph, "y");
  size_t packed = onnx__model_proto__get_packed_size(&build.model);
  uint8_t *model = malloc(packed);
  onnx__model_proto__pack(&build.model, model);
  build_end(&build);
  braid_serve_model_config config = {.path = path};
  braid_serve_files files;
  snprintf(path, sizeof path, "%s/outside.onnx", folder);
  FILE *file = fopen(path, "w");
  assert_int_equal(fwrite(model, 1, packed, file), packed);
  fclose(file);
  free(model);
  assert_int_equal(braid_serve_files_find(&config, NULL, &files), BRAID_OK);
  assert_int_equal(files.count, 1);
  braid_serve_files_free(&files);
  snprintf(path, sizeof path, "%s/nowhere.onnx", folder);
  assert_int_equal(braid_serve_files_find(&config, NULL, &files), BRAID_NOT_FOUND);
  snprintf(path, sizeof path, "%s/a/model.onnx", folder);
  assert_int_equal(braid_serve_files_find(&config, NULL, &files), BRAID_OK);
  assert_int_equal(files.count, 5);
  assert_non_null(strstr(files.paths[1], "/a/deep/er/data.bin"));
  braid_serve_files_free(&files);
}

/* --- strangers -----------------------------------------------------------------------------------------------------
 */
static braid_client_status ask(const braid_server *server, const char *token, unsigned kind,
                               const braid_wire_bulk *bulk) {
  braid_client *client = wire_connect(wire_tcp(server), token);
  client_ticket ticket;
  braid_wire_writer *writer = client_begin(client, kind, &ticket);
  if (kind == BRAID_WIRE_BULK)
    braid_wire_put_bulk(writer, bulk);
  else if (kind == BRAID_WIRE_FILE)
    braid_wire_put_file(writer, &bulk->file);
  else
    braid_wire_put(writer, bulk->nonce, sizeof bulk->nonce);
  braid_client_status status = client_finish(client, &ticket);
  braid_client_close(client);
  return status;
}

static void test_strangers(void **state) {
  (void)state;
  static const char kPeer[] = "cluster:anyone:a-token-of-tests";
  static const uint8_t kRubbish[100] = {0x5a, 0xff, 3};
  struct stat about;
  char path[128];
  write_model(2 * MIB);
  start_source("");
  snprintf(path, sizeof path, "%s/a/model.onnx", folder);
  assert_int_equal(stat(path, &about), 0);
  braid_wire_bulk bulk = {.file = {.model = "m1"}, .total = (uint64_t)about.st_size, .address = kRubbish};
  bulk.address_bytes = sizeof kRubbish;
  assert_int_equal(ask(source, NULL, BRAID_WIRE_BULK, &bulk), BRAID_CLIENT_FORBIDDEN);
  assert_int_equal(ask(source, NULL, BRAID_WIRE_SENDING, &bulk), BRAID_CLIENT_FORBIDDEN);
  bulk.total++;
  assert_int_equal(ask(source, kPeer, BRAID_WIRE_BULK, &bulk), BRAID_CLIENT_UNAVAILABLE);
  assert_non_null(strstr(braid_client_error(), "bytes now"));
  bulk.total--;
  bulk.file.file = 5; /* the last one is 4 */
  assert_int_equal(ask(source, kPeer, BRAID_WIRE_BULK, &bulk), BRAID_CLIENT_UNKNOWN);
  assert_int_equal(ask(source, kPeer, BRAID_WIRE_FILE, &bulk), BRAID_CLIENT_UNKNOWN);
  bulk.file.file = 4000000000;
  assert_int_equal(ask(source, kPeer, BRAID_WIRE_FILE, &bulk), BRAID_CLIENT_UNKNOWN);
  bulk.file.file = 4;
  assert_int_equal(ask(source, kPeer, BRAID_WIRE_FILE, &bulk), BRAID_CLIENT_OK);
  bulk.file.file = 0;
  /* An address that is none may cost its program its life; not the daemon. */
  for (int i = 0; i < 6; i++) {
    braid_client_status status = ask(source, kPeer, BRAID_WIRE_BULK, &bulk);
    if (status != BRAID_CLIENT_OK && status != BRAID_CLIENT_UNAVAILABLE) fail_msg("%s", braid_client_error());
  }
  assert_int_equal(ask(source, kPeer, BRAID_WIRE_SENDING, &bulk), BRAID_CLIENT_OK);
  await_that(is_ready, source, "the node is as it was");
  stop_all();
}

/* --- the daemon itself ---------------------------------------------------------------------------------------------
 */
/* UCX is in none of its own processes, and what signals do is what they did. */
static void test_undisturbed(void **state) {
  (void)state;
  struct sigaction before[32], after[32];
  sigset_t blocked_before, blocked_after;
  memset(before, 0, sizeof before);
  memset(after, 0, sizeof after);
  write_model(3 * MIB);
  for (int i = 1; i < 32; i++) sigaction(i, NULL, &before[i]);
  pthread_sigmask(SIG_BLOCK, NULL, &blocked_before);
  start_source("");
  target = start_node("b", ", bulk: ucx");
  await_that(holds_model, target, "the files have come");
  assert_true(carried_by(target).ucx > 2 * MIB);
  for (int i = 1; i < 32; i++) sigaction(i, NULL, &after[i]);
  pthread_sigmask(SIG_BLOCK, NULL, &blocked_after);
  for (int i = 1; i < 32; i++) {
    assert_ptr_equal((void *)(uintptr_t)before[i].sa_handler, (void *)(uintptr_t)after[i].sa_handler);
    assert_int_equal(before[i].sa_flags, after[i].sa_flags);
    assert_int_equal(sigismember(&blocked_before, i), sigismember(&blocked_after, i));
  }
  run("! grep -q 'libuc[pstm]' /proc/%d/maps", getpid());
  stop_all();
  assert_int_equal(find_carrier(true) + find_carrier(false), 0);
}

static void test_without_program(void **state) {
  (void)state;
  braid_server *server;
  char path[128];
  write_model(3 * MIB);
  setenv("BRAID_UCX", "/nowhere/braid-ucx", 1);
  snprintf(path, sizeof path, "%s/wrong.yaml", folder);
  FILE *file = fopen(path, "w");
  fprintf(file,
          "models:\n  - {name: m1, path: %s/a/model.onnx}\ncluster: {etcd: '127.0.0.1:1', token: %s, bulk: ucx}\n",
          folder, kToken);
  fclose(file);
  braid_server_options options = {.config = path, .port = -1, .wire_port = -1};
  assert_int_equal(braid_server_create(&options, &server), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "/nowhere/braid-ucx is not there"));
  start_source("");
  target = start_node("b", "");
  await_that(holds_model, target, "the files have come without it");
  expect_copied();
  assert_int_equal(carried_by(target).ucx, 0);
  serve_expect(target, "GET", "/v2/braid/status", "", "", 200, "\"bulk\":\"wire\"");
  stop_all();
  setenv("BRAID_UCX", BRAID_UCX_PROGRAM, 1);
}

static int set_up(void **state) {
  setenv("BRAID_UCX", BRAID_UCX_PROGRAM, 1);
  return make_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_outside),      cmocka_unit_test(test_ways),        cmocka_unit_test(test_large),
      cmocka_unit_test(test_carrier_lost), cmocka_unit_test(test_node_lost),   cmocka_unit_test(test_other_bytes),
      cmocka_unit_test(test_strangers),    cmocka_unit_test(test_undisturbed), cmocka_unit_test(test_without_program),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
