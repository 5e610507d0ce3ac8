/* Remote devices against a daemon in this process: what they compute is what the device itself computes, bit by bit; a
 * run is one message; who may not is refused with a sentence; and whoever leaves has left nothing. */
#include <pthread.h>

#include "braid/conformance.h"
#include "braid/remote.h"
#include "serve/wire/wire_check.h"

static const char kConfig[] = "receive_ms: 2000\n"
                              "devices:\n"
                              "  - {name: cpu, device: cpu, threads: 1, remote: true}\n"
                              "  - {name: card, device: \"null:memory=67108864\", remote: true}\n"
                              "  - {name: own, device: cpu}\n"
                              "models:\n"
                              "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
                              "tenants:\n"
                              "  - {name: user, token: secret, remote: true, max_bytes: 1000000000}\n"
                              "  - {name: guest}\n";

static braid_server *server;

static int start(void **state) {
  (void)make_folder(state);
  server = wire_start(kConfig);
  return braid_remote_set_token("secret") != BRAID_OK;
}

static int stop(void **state) {
  braid_server_destroy(server, 0);
  return remove_folder(state);
}

static const char *spec_of(const char *address, const char *rest) {
  static char spec[400];
  snprintf(spec, sizeof spec, "remote:%s/%s", address, rest);
  return spec;
}

/* --- the contract --------------------------------------------------------------------------------------------------
 */
/* What a case finds of host memory is the daemon's too, whose threads are in this process: that is not judged here. */
static void tell_failure(void *context, const char *name, braid_case_result result, const char *detail) {
  size_t *of_memory = context;
  if (result != BRAID_CASE_FAILED) return;
  *of_memory += strstr(detail, "of host memory") != NULL;
  print_message("%s: %s\n", name, detail);
}

/* `least`: cases that must have been judged. */
static void check_device(const char *spec, const char *only, size_t least) {
  braid_registry *registry;
  braid_device *device;
  braid_check_counts counts;
  const braid_check_options options = {.only = only};
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  if (braid_device_open(registry, spec, &device) != BRAID_OK) fail_msg("%s", braid_error_detail());
  size_t of_memory = 0;
  assert_int_equal(braid_device_conformance(device, &options, tell_failure, &of_memory, &counts), BRAID_OK);
  assert_int_equal(counts.failed, of_memory);
  assert_false(counts.stopped);
  assert_true(counts.passed >= least);
  braid_device_close(device);
  braid_registry_destroy(registry);
  expect_quota(server, 0, 0);
}

static void test_conformance(void **state) {
  (void)state;
  check_device(spec_of(wire_address(), "card"), NULL, 25);
  check_device(spec_of(wire_tcp(server), "card"), "replay", 2);
}

/* --- networks ------------------------------------------------------------------------------------------------------
 */
static char said[4][600];
static int said_count;

static void keep_message(void *context, braid_log_level level, const char *text) {
  (void)context;
  if (level == BRAID_LOG_INFO && said_count < 4) snprintf(said[said_count++], sizeof said[0], "%s", text);
}

static void run_model(const char *devices, float *out, int runs) {
  static float input[3 * 32 * 32];
  braid_graph *graph;
  braid_session *session;
  braid_registry *registry;
  for (size_t i = 0; i < sizeof input / sizeof *input; i++) input[i] = (float)(i * 37 % 101) / 50 - 1;
  said_count = 0;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  braid_registry_set_log(registry, &(braid_log){.write = keep_message});
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/resnet20.cfg", NULL, &graph), BRAID_OK);
  const braid_session_options options = {.devices = devices, .registry = registry};
  if (braid_session_create(graph, &options, &session) != BRAID_OK) fail_msg("%s", braid_error_detail());
  for (int i = 0; i < runs; i++)
    if (braid_session_run(session, (const void *[]){input}, (void *[]){out}) != BRAID_OK)
      fail_msg("%s", braid_error_detail());
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_registry_destroy(registry);
}

static void test_network(void **state) {
  (void)state;
  float local[10], remote[10];
  run_model("cpu:threads=1", local, 1);
  run_model(spec_of(wire_address(), "cpu"), remote, 5);
  assert_memory_equal(local, remote, sizeof local);
  assert_int_equal(said_count, 1);
  if (!strstr(said[0], "; 5 runs in 5 of these calls")) fail_msg("%s", said[0]);
  memset(remote, 0, sizeof remote);
  run_model(spec_of(wire_tcp(server), "cpu"), remote, 1);
  assert_memory_equal(local, remote, sizeof local);
  expect_quota(server, 0, 0);
}

/* What the remote device has no kernels for runs here: a card that only copies, beside this machine's CPU. */
static void test_fallback(void **state) {
  (void)state;
  float local[10], remote[10];
  char devices[400];
  snprintf(devices, sizeof devices, "%s cpu:threads=1", spec_of(wire_address(), "card"));
  run_model("cpu:threads=1", local, 1);
  run_model(devices, remote, 2);
  assert_memory_equal(local, remote, sizeof local);
}

/* --- who may, and what is there ------------------------------------------------------------------------------------
 */
static void refuse_open(const char *spec, braid_status right, const char *text) {
  braid_registry *registry;
  braid_device *device;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  braid_status status = braid_device_open(registry, spec, &device);
  if (status != right || !strstr(braid_error_detail(), text))
    fail_msg("%s: %s: %s, not %s", spec, braid_status_text(status), braid_error_detail(), text);
  assert_null(device);
  braid_registry_destroy(registry);
}

static void test_refused(void **state) {
  (void)state;
  refuse_open(spec_of(wire_address(), "own"), BRAID_NOT_FOUND, "offers no device own");
  refuse_open("remote", BRAID_INVALID_ARGUMENT, "which daemon?");
  refuse_open("remote:localhost", BRAID_INVALID_ARGUMENT, "expected ADDRESS/NAME");
  refuse_open("remote:localhost/cpu", BRAID_INVALID_ARGUMENT, "HOST:PORT");
  refuse_open("remote:127.0.0.1:1/cpu", BRAID_IO, "Connection refused");
  refuse_open(spec_of(wire_address(), "cpu,timeout=0"), BRAID_INVALID_ARGUMENT, "3 to 3600 seconds");
  refuse_open(spec_of(wire_address(), "cpu,speed=9"), BRAID_INVALID_ARGUMENT, "speed=9");
  refuse_open(spec_of(wire_address(), "cpu,token-file=/proc/none"), BRAID_IO, "/proc/none");
  refuse_open(spec_of(wire_address(), "cpu,token-file=/dev/null"), BRAID_INVALID_FILE, "a line of 1 to");
  assert_int_equal(braid_remote_set_token("wrong"), BRAID_OK);
  refuse_open(spec_of(wire_address(), "cpu"), BRAID_INVALID_ARGUMENT, "the token is nobody's");
  assert_int_equal(braid_remote_set_token(NULL), BRAID_OK);
  refuse_open(spec_of(wire_address(), "cpu"), BRAID_INVALID_ARGUMENT, "tenant guest may not");
  char path[160], options[200];
  snprintf(path, sizeof path, "%s/token", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("secret\n", file);
  fclose(file);
  snprintf(options, sizeof options, "card,token-file=%s", path);
  check_device(spec_of(wire_address(), options), "description", 1);
  assert_int_equal(braid_remote_set_token("secret"), BRAID_OK);
}

/* The first that answers is used; where none does, all are named. */
static void test_hosts(void **state) {
  (void)state;
  char hosts[400];
  snprintf(hosts, sizeof hosts, "127.0.0.1:1|%s", wire_address());
  check_device(spec_of(hosts, "card"), "description", 1);
  snprintf(hosts, sizeof hosts, "127.0.0.1:1|unix:%s/nothing", folder);
  refuse_open(spec_of(hosts, "card"), BRAID_IO, "127.0.0.1:1: Connection refused; unix:");
}

/* --- daemons that are lost -----------------------------------------------------------------------------------------
 */
typedef struct looping {
  braid_session *session;
  braid_status status;
  char detail[600];
} looping;

static void *run_until_failure(void *context) {
  looping *l = context;
  static float input[784], out[10];
  do {
    l->status = braid_session_run(l->session, (const void *[]){input}, (void *[]){out});
  } while (l->status == BRAID_OK);
  snprintf(l->detail, sizeof l->detail, "%s", braid_error_detail());
  return NULL;
}

static void test_daemon_ends(void **state) {
  (void)state;
  braid_graph *graph;
  looping l;
  pthread_t thread;
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph), BRAID_OK);
  const braid_session_options options = {.devices = spec_of(wire_address(), "cpu")};
  if (braid_session_create(graph, &options, &l.session) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_int_equal(pthread_create(&thread, NULL, run_until_failure, &l), 0);
  wire_pause(50);
  braid_server_destroy(server, 0);
  pthread_join(thread, NULL);
  assert_int_equal(l.status, BRAID_DEVICE_LOST);
  if (!strstr(l.detail, wire_address())) fail_msg("%s", l.detail);
  braid_session_destroy(l.session);
  braid_graph_destroy(graph);
  server = wire_start(kConfig);
}

/* One that accepts connections and says nothing. */
static void test_silence(void **state) {
  (void)state;
  char path[160], spec[300];
  snprintf(path, sizeof path, "%s/mute.sock", folder);
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
  int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(file, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(file, 4), 0);
  snprintf(spec, sizeof spec, "remote:unix:%s/cpu,timeout=3", path);
  refuse_open(spec, BRAID_DEVICE_LOST, "no sign of life for 3 s");
  close(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance), cmocka_unit_test(test_network), cmocka_unit_test(test_fallback),
      cmocka_unit_test(test_refused),     cmocka_unit_test(test_hosts),   cmocka_unit_test(test_daemon_ends),
      cmocka_unit_test(test_silence),
  };
  return skip_run_group_tests(tests, start, stop);
}
