/* Files of models between daemons on a real etcd, in this process: by UCX and by Braid's own protocol, an ONNX model
 * with its external data, large ones, with other bytes than were promised, and for strangers. */
#include <sys/resource.h>

#include "serve/cluster/files_check.h"

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

/* --- other bytes ---------------------------------------------------------------------------------------------------
 */
static size_t count_logged(const char *text) {
  size_t count = 0;
  pthread_mutex_lock(&logged_lock);
  for (const char *at = logged; (at = strstr(at, text)); at++) count++;
  pthread_mutex_unlock(&logged_lock);
  return count;
}

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
  etcd_pause(5000);
  assert_true(count_logged("with 4 of external data") <= 4); /* it is not fetched without end */
  run("test ! -e %s/b/model.onnx -a \"$(cat %s/b/one.bin)\" = mine", folder, folder);
  run("rm %s/b/one.bin", folder);
  await_that(holds_model, target, "what is missing has come");
  expect_copied();
  stop_all();
}

static bool has_sum(const void *server) {
  braid_serve_cluster *cluster = ((const braid_server *)server)->cluster;
  pthread_mutex_lock(&cluster->lock);
  bool has = cluster->files[0].sum[0];
  pthread_mutex_unlock(&cluster->lock);
  return has;
}

/* Of two nodes that say that they have the files one has others: the second one has its turn. */
static void test_second_source(void **state) {
  (void)state;
  write_model(5 * MIB);
  run("rm -rf %s/c; cp -r %s/a %s/c", folder, folder, folder);
  copies = 3;
  start_source("");
  braid_server *second = start_node("c", "");
  await_that(holds_model, second, "a second node holds the model");
  await_that(has_sum, second, "a second node knows its sum");
  run("printf other | dd of=%s/a/deep/er/data.bin bs=1 seek=3000000 conv=notrunc 2>/dev/null", folder);
  target = start_node("b", "");
  await_that(holds_model, target, "the files have come from the second node");
  assert_true(is_logged("the files that came have the sum")); /* of the first */
  run("diff -r %s/c %s/b", folder, folder);
  braid_server_destroy(second, 0);
  stop_all();
  copies = 2;
}

/* A disk that is full in the middle of a file by UCX: that is neither UCX's fault nor the node's, and what is there
 * when there is room again is whole. */
static void test_full_disk(void **state) {
  (void)state;
  struct rlimit before;
  braid_serve_cluster *cluster;
  write_model(60 * MIB);
  start_source("");
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){32 * MIB, before.rlim_max}), 0);
  target = start_node("b", "");
  cluster = target->cluster;
  await_that(is_logged, "File too large", "the file is not written");
  pthread_mutex_lock(&cluster->lock);
  assert_non_null(cluster->links);
  for (const cluster_link *link = cluster->links; link; link = link->next) assert_false(link->broken);
  assert_false(braid_cluster_is_down(cluster, source->cluster->address, braid_now_ns()));
  pthread_mutex_unlock(&cluster->lock);
  run("test ! -e %s/b/model.onnx -a ! -e %s/b/deep/er/data.bin", folder, folder);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  await_that(holds_model, target, "the files have come when there was room");
  expect_copied();
  assert_int_equal(carried_by(target).given_up, 0);
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

/* --- a node that cannot ----------------------------------------------------------------------------------------------
 */
static bool is_unable(const void *server) {
  char text[BRAID_SERVE_DETAIL] = "";
  braid_serve_cluster *cluster = ((const braid_server *)server)->cluster;
  pthread_mutex_lock(&cluster->lock);
  const braid_cluster_member *member = braid_cluster_roster_member(&cluster->roster, "b");
  const braid_cluster_holding *holding = member ? braid_cluster_member_holding(member, "m1") : NULL;
  if (holding && holding->state == BRAID_CLUSTER_UNABLE) snprintf(text, sizeof text, "%s", holding->reason);
  pthread_mutex_unlock(&cluster->lock);
  return strstr(text, BRAID_CLUSTER_UNFETCHED ": ") != NULL;
}

static bool has_no_order(const void *server) {
  braid_serve_cluster *cluster = ((const braid_server *)server)->cluster;
  pthread_mutex_lock(&cluster->lock);
  const braid_cluster_order *order = braid_cluster_roster_order(&cluster->roster, "m1");
  bool has = !order || braid_cluster_order_names(order, "b");
  pthread_mutex_unlock(&cluster->lock);
  return !has;
}

/* A node where the files have no place says so, and is ordered nothing then; it tries again, and has them in the end.
 */
static void test_no_place(void **state) {
  (void)state;
  write_model(2 * MIB);
  start_source("");
  run("rm -r %s/b; touch %s/b", folder, folder); /* what is to be its folder is a file */
  target = start_node("b", "");
  await_that(is_unable, source, "the node says that it cannot fetch the files");
  await_that(has_no_order, source, "the control node orders it the model no more");
  serve_expect(source, "GET", "/v2/braid/status", "", "", 200, "\"trouble\":\"model m1: its files cannot be fetched: ");
  run("rm %s/b; mkdir %s/b", folder, folder);
  await_that(holds_model, target, "it has fetched them later");
  expect_copied();
  stop_all();
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

/* A daemon that is told to stop does not wait for the sum of its files. */
static void test_stop_while_it_sums(void **state) {
  (void)state;
  write_model(100);
  run("truncate -s 100G %s/a/deep/er/data.bin", folder);
  etcd_start(&group, 1);
  source = start_node("a", "");
  etcd_pause(1000);
  int64_t began_ns = braid_now_ns();
  stop_all();
  assert_true(braid_now_ns() - began_ns < INT64_C(10000000000));
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_outside),         cmocka_unit_test(test_ways),
      cmocka_unit_test(test_large),           cmocka_unit_test(test_other_bytes),
      cmocka_unit_test(test_strangers),       cmocka_unit_test(test_undisturbed),
      cmocka_unit_test(test_full_disk),       cmocka_unit_test(test_second_source),
      cmocka_unit_test(test_without_program), cmocka_unit_test(test_stop_while_it_sums),
      cmocka_unit_test(test_no_place),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
