/* Files of models that come from another daemon, when either end is lost in the middle: a program of UCX's, the node
 * that sends, the one that receives; and what UCX is to a daemon that is told to stop. */
#include <glob.h>

#include "serve/cluster/files_check.h"

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

/* --- a daemon of its own -------------------------------------------------------------------------------------------
 */
static pid_t start_daemon(const char *bulk) {
  char path[128], cluster[160];
  snprintf(path, sizeof path, "%s/daemon.yaml", folder);
  snprintf(cluster, sizeof cluster, "etcd:%s", group.endpoints);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "devices:\n  - {name: cpu, threads: 1}\nmodels:\n  - {name: m1, path: %s/b/model.onnx}\n"
          "cluster: {token: %s, copies: 2, fetch_max_bytes: 1000000000, bulk: %s}\n",
          folder, kToken, bulk);
  fclose(file);
  run("rm -rf %s/b; mkdir %s/b", folder, folder);
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_WRONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, 1);
    dup2(null, 2);
    execl(BRAID_SERVE_PROGRAM, "braid-serve", "--config", path, "--port", "0", "--wire-port", "0", "--cluster", cluster,
          "--node", "b", (char *)NULL);
    _exit(127);
  }
  assert_true(pid > 0);
  return pid;
}

static bool is_fetched(const void *context) {
  char path[128];
  (void)context;
  snprintf(path, sizeof path, "%s/b/model.onnx", folder);
  return access(path, F_OK) == 0;
}

/* Which signals the process blocks, ignores and catches. */
static void signals_of(pid_t pid, char out[256]) {
  char command[200];
  snprintf(command, sizeof command, "grep -E '^Sig(Blk|Ign|Cgt)' /proc/%d/status", pid);
  FILE *lines = popen(command, "r");
  assert_non_null(lines);
  size_t bytes = fread(out, 1, 255, lines);
  out[bytes] = '\0';
  assert_int_equal(pclose(lines), 0);
}

static pid_t receiver_of;

static bool daemon_receives(const void *context) {
  return (*(pid_t *)(uintptr_t)context = find_child(receiver_of, true)) != 0;
}

static bool is_gone(const void *pid) {
  return kill(*(const pid_t *)pid, 0) != 0;
}

/* UCX or not, signals are to a daemon what they are; it ends at SIGTERM in the middle of a file, with 0 and its
 * program; and when it is killed its program ends by itself. */
static void test_daemon(void **state) {
  (void)state;
  char without[256], with[256];
  int status;
  write_model(3 * MIB);
  start_source("");
  for (int ucx = 0; ucx < 2; ucx++) {
    pid_t pid = start_daemon(ucx ? "ucx" : "wire");
    await_that(is_fetched, NULL, "the files have come");
    signals_of(pid, ucx ? with : without);
    run("! grep -q 'libuc[pstm]' /proc/%d/maps", pid);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
  }
  assert_string_equal(with, without);
  braid_server_destroy(source, 0);
  etcd_stop(&group);
  write_model(UINT64_C(200) * MIB);
  start_source("");
  for (int kills = 0; kills < 2; kills++) {
    receiver_of = start_daemon("auto");
    pid_t carrier = stop_carrier(daemon_receives);
    int64_t began_ns = braid_now_ns();
    kill(receiver_of, kills ? SIGKILL : SIGTERM);
    if (kills) kill(carrier, SIGCONT);
    assert_int_equal(waitpid(receiver_of, &status, 0), receiver_of);
    assert_int_equal(status, kills ? SIGKILL : 0);
    assert_true(braid_now_ns() - began_ns < INT64_C(8000000000));
    await_that(is_gone, &carrier, "the program has ended");
    run("test ! -e %s/b/model.onnx", folder);
  }
  run("test -n \"$(find %s/b -name 'data.bin.tmp-*')\"", folder);
  target = start_node("b", "");
  await_that(holds_model, target, "the files have come after all");
  expect_copied(); /* and what the killed one left is gone */
  stop_all();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_carrier_lost), cmocka_unit_test(test_node_lost),
                                     cmocka_unit_test(test_daemon)};
  return skip_run_group_tests(tests, set_up, remove_folder);
}
