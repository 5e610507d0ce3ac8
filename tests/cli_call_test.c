/* braid call against braid serve, as two programs: the bits of `braid run`, lists, latencies, refusals and their codes.
 */
#include "clicheck.h"
#include "skip.h"

#include "braid/model.h"
#include "braid/session.h"

static pid_t daemon_process;

static void make_input(void) {
  braid_desc desc;
  braid_tensor *tensor;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 1, 28, 28}), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  for (int i = 0; i < 784; i++) ((float *)braid_tensor_data(tensor))[i] = (float)(i * 31 % 255) / 255;
  assert_int_equal(braid_npy_save(in_folder("x.npy"), tensor), BRAID_OK);
  braid_tensor_release(tensor);
}

static void start_daemon(void) {
  static const char kConfig[] = "devices:\n  - {name: cpu}\n  - {name: wide, threads: 1, instances: 4}\nmodels:\n  - "
                                "{name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
                                "  - {name: lazy, path: " BRAID_MODELS "/lenet.cfg, lazy: true}\n"
                                "tenants:\n  - {name: ann, token: secret, admin: true}\n"
                                "  - {name: night, token: dark, train: true}\n";
  put_file(in_folder("serve.yaml"), kConfig, strlen(kConfig));
  daemon_process = start("serve --config $/serve.yaml --port 0 --socket $/b.sock", "/dev/null", in_folder("serve.out"),
                         in_folder("serve.err"));
  for (int i = 0; i < 1000; i++) { /* until the model is there */
    outcome o = run("call unix:$/b.sock --token secret --list");
    bool ready = o.code == 0 && strstr(o.out, "ready");
    discard(&o);
    if (ready) return;
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  fail_msg("the daemon does not come up: %s", get_file(in_folder("serve.err"), NULL));
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  unsetenv("BRAID_TOKEN");
  make_input();
  start_daemon();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char command[64];
  kill(daemon_process, SIGTERM);
  int code = await(daemon_process);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) || code;
}

static void expect_code(const char *line, int code, const char *text) {
  outcome o = run(line);
  if (o.code != code) fail_msg("braid %s: code %d, not %d: %s", line, o.code, code, o.err);
  expect_text(strstr(line, "--json") ? o.out : o.err, text);
  discard(&o);
}

/* Instances of a device for the time of the call; then others may have them. */
static void test_cores(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++)
    expect_code("call unix:$/b.sock lenet --token secret --cores wide=2 --input $/x.npy --json", 0, "\"cores\":2");
  expect_code("call unix:$/b.sock lenet --token secret --cores wide=2 --input $/x.npy --verbose", 0, "wide");
  expect_code("call unix:$/b.sock lenet --token secret --cores wide=3 --input $/x.npy", 1, "may hold up to 2");
  expect_code("call unix:$/b.sock lenet --token secret --cores gpu=1 --input $/x.npy", 2, "gpu");
  expect_code("call unix:$/b.sock lenet --token secret --cores 0 --input $/x.npy", 2, "--cores");
  expect_code("call unix:$/b.sock lenet --token secret --cores =1 --input $/x.npy", 2, "[DEVICE=]N");
  expect_code("call unix:$/b.sock --list --token secret --cores 1", 2, "launches nothing");
}

static void test_same_bits_as_run(void **state) {
  (void)state;
  size_t count, own;
  outcome o = run_quietly("run " BRAID_MODELS "/lenet.cfg --threads 1 --input $/x.npy --output $/run.npy");
  discard(&o);
  o = run_quietly("call unix:$/b.sock lenet --token secret --input input=$/x.npy --output output=$/call.npy");
  expect_text(o.out, "output float32[1,10]:");
  discard(&o);
  char *ran = get_file(in_folder("run.npy"), &own), *called = get_file(in_folder("call.npy"), &count);
  assert_int_equal(own, count);
  assert_memory_equal(ran, called, count);
  free(called);
  o = run_quietly("run " BRAID_MODELS "/lenet.cfg --input $/x.npy --output $/run.npy");
  discard(&o);
  o = run("call unix:$/b.sock lenet --token secret --input $/x.npy --output -"); /* text goes elsewhere */
  assert_int_equal(o.code, 0);
  assert_memory_equal(o.out, "\x93NUMPY", 6);
  expect_text(o.err, "output float32");
  discard(&o);
  free(ran);
}

static void test_repeat(void **state) {
  (void)state;
  assert_int_equal(setenv("BRAID_TOKEN", "secret", 1), 0);
  outcome o = run_quietly("call unix:$/b.sock lenet --input $/x.npy --repeat 50");
  expect_text(o.out, "50 launches, shared memory, 1 messages each; ms: least ");
  discard(&o);
  o = run_quietly("call unix:$/b.sock lenet --input $/x.npy --repeat 50 --inline --json");
  expect_text(o.out, "\"calls_per_inference\":1");
  expect_text(o.out, "\"tensors\":\"inline\"");
  expect_text(o.out, "\"p99\":");
  discard(&o);
  unsetenv("BRAID_TOKEN");
}

static void test_list(void **state) {
  (void)state;
  outcome o = run_quietly("call unix:$/b.sock --token secret --list lenet");
  expect_text(o.out, "lenet, version 1, ready");
  expect_text(o.out, "input  input FP32[-1,1,28,28]");
  discard(&o);
  o = run_quietly("call unix:$/b.sock --token secret --list --json");
  expect_text(o.out, "\"tenant\":\"ann\",\"models\":[{\"name\":\"lenet\"");
  discard(&o);
}

/* Its first request loads it. */
static void test_lazy(void **state) {
  (void)state;
  outcome o = run_quietly("call unix:$/b.sock lazy --token secret --input $/x.npy");
  expect_text(o.out, "output float32[1,10]:");
  discard(&o);
}

static void test_compile(void **state) {
  (void)state;
  braid_graph *graph;
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph), BRAID_OK);
  assert_int_equal(braid_model_save_onnx(graph, in_folder("own.onnx")), BRAID_OK);
  braid_graph_destroy(graph);
  outcome o = run_quietly("call unix:$/b.sock $/own.onnx --compile --token secret --input $/x.npy");
  expect_text(o.out, "float32[1,10]:");
  discard(&o);
  expect_code("call unix:$/b.sock $/x.npy --compile --token secret --input $/x.npy", 2, "not an ONNX file");
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Training as a tenant: the bits of training alone, while requests come; then the daemon is killed, and it ends well.
 */
#define TRAINED BRAID_MODELS "/glyphs.cfg --data builtin:glyphs,limit=2048 --epochs 2 --batch 64"
static void test_training_tenant(void **state) {
  (void)state;
  outcome o = run("train " TRAINED " --out $/alone");
  assert_int_equal(o.code, 0);
  discard(&o);
  pid_t training = start("train " TRAINED " --tenant unix:$/b.sock --token dark --out $/tenant --verbose", "/dev/null",
                         in_folder("train.out"), in_folder("train.err"));
  for (int i = 0; i < 5; i++) {
    o = run_quietly("call unix:$/b.sock lenet --token secret --input $/x.npy --repeat 100");
    discard(&o);
  }
  assert_int_equal(await(training), 0);
  char *said = get_file(in_folder("train.err"), NULL);
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) expect_text(said, "one is left to the daemon");
  free(said);
  size_t alone_bytes, tenant_bytes;
  char *alone = get_file(in_folder("alone/model.onnx"), &alone_bytes);
  char *tenant = get_file(in_folder("tenant/model.onnx"), &tenant_bytes);
  assert_int_equal(alone_bytes, tenant_bytes);
  assert_memory_equal(alone, tenant, alone_bytes);
  free(tenant);
  free(alone);
  expect_code("train " TRAINED " --tenant unix:$/b.sock --token secret --out $/no", 2, "tenant ann may not train");
  expect_code("train " TRAINED " --tenant unix:$/none.sock --out $/no", 1, "none.sock: No such file");
  expect_code("train " TRAINED " --tenant localhost:1 --out $/no", 2, "expected unix:PATH");
  expect_code("train " TRAINED " --token dark --out $/no", 2, "--token");
  assert_int_not_equal(access(in_folder("no"), F_OK), 0);
}

/* A daemon that hangs: the end does not wait for it, nor does training while its gate is closed. */
static void expect_end_beside_stopped(bool interrupts, int bound_s) {
  pid_t asks = start("call unix:$/b.sock lenet --token secret --input $/x.npy --repeat 1000000", "/dev/null",
                     in_folder("asks.out"), in_folder("asks.err"));
  pid_t training = start("train " TRAINED " --tenant unix:$/b.sock --token dark --out $/hangs", "/dev/null",
                         in_folder("train.out"), in_folder("train.err"));
  nanosleep(&(struct timespec){0, 700000000}, NULL);
  kill(daemon_process, SIGSTOP);
  if (interrupts) kill(training, SIGINT);
  double began = now_s();
  int code = await(training);
  double took = now_s() - began;
  kill(daemon_process, SIGCONT);
  kill(asks, SIGKILL);
  (void)await(asks);
  if ((!interrupts && code != 0) || took > bound_s) fail_msg("code %d, the end took %g s", code, took);
}

static void test_daemon_that_hangs_beside_training(void **state) {
  (void)state;
  expect_end_beside_stopped(true, 15);
  expect_end_beside_stopped(false, 60);
}

static void test_daemon_that_dies_beside_training(void **state) {
  (void)state;
  pid_t training = start("train " TRAINED " --tenant unix:$/b.sock --token dark --out $/orphan", "/dev/null",
                         in_folder("train.out"), in_folder("train.err"));
  nanosleep(&(struct timespec){0, 700000000}, NULL);
  kill(daemon_process, SIGKILL);
  (void)await(daemon_process);
  assert_int_equal(await(training), 0);
  start_daemon(); /* for what comes after */
}

/* --- several daemons -----------------------------------------------------------------------------------------------
 */
enum { ROWS = 4000, INPUTS = 784, OUTPUTS = 10 };
static float many[ROWS][INPUTS], expected[ROWS][OUTPUTS];

static void make_rows(void) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_graph *graph;
  braid_session *session;
  for (int row = 0; row < ROWS; row++)
    for (int i = 0; i < INPUTS; i++) many[row][i] = (float)((i * 31 + row * 977) % 255) / 255;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){ROWS, 1, 28, 28}), BRAID_OK);
  assert_int_equal(braid_tensor_wrap(NULL, &desc, many, NULL, NULL, &tensor), BRAID_OK);
  assert_int_equal(braid_npy_save(in_folder("many.npy"), tensor), BRAID_OK);
  braid_tensor_release(tensor);
  assert_int_equal(braid_model_load(NULL, BRAID_MODELS "/lenet.cfg", NULL, &graph), BRAID_OK);
  assert_int_equal(braid_session_create(graph, NULL, &session), BRAID_OK);
  for (int row = 0; row < ROWS; row++)
    assert_int_equal(braid_session_run(session, (const void *[]){many[row]}, (void *[]){expected[row]}), BRAID_OK);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void expect_rows(const char *name, double bound) {
  braid_tensor *tensor;
  assert_int_equal(braid_npy_load(NULL, in_folder(name), &tensor), BRAID_OK);
  const braid_desc *desc = braid_tensor_desc(tensor);
  assert_true(desc->rank == 2 && desc->dims[0] == ROWS && desc->dims[1] == OUTPUTS);
  const float *got = braid_tensor_const_data(tensor);
  for (int row = 0; row < ROWS; row++)
    for (int i = 0; i < OUTPUTS; i++) {
      double apart = (double)got[row * OUTPUTS + i] - (double)expected[row][i];
      if (apart > bound || apart < -bound) fail_msg("row %d is not its own, or was computed otherwise", row);
    }
  braid_tensor_release(tensor);
}

static pid_t start_second(const char *socket) {
  char line[256];
  static const char kConfig[] = "models:\n  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n";
  put_file(in_folder("second.yaml"), kConfig, strlen(kConfig));
  snprintf(line, sizeof line, "serve --config $/second.yaml --port 0 --socket $/%s", socket);
  pid_t process = start(line, "/dev/null", in_folder("second.out"), in_folder("second.err"));
  snprintf(line, sizeof line, "call unix:$/%s --list", socket);
  for (int i = 0; i < 1000; i++) {
    outcome o = run(line);
    bool ready = o.code == 0 && strstr(o.out, "ready");
    discard(&o);
    if (ready) return process;
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  fail_msg("the daemon does not come up");
  return 0;
}

/* Rows go to two daemons, of which one is killed on the way: each comes back once, at its place. */
static void test_batch(void **state) {
  (void)state;
  make_rows();
  pid_t second = start_second("c.sock");
  assert_int_equal(setenv("BRAID_TOKEN", "secret", 1), 0);
  outcome o =
      run_quietly("call unix:$/b.sock,unix:$/c.sock lenet --batch 1 --input $/many.npy --output $/one.npy --json");
  expect_text(o.out, "\"rows\":4000,\"launches\":4000,\"launched_again\":0");
  discard(&o);
  expect_rows("one.npy", 0);
  /* more connections than processors: what is given to one is not another's */
  o = run_quietly(
      "call unix:$/b.sock,unix:$/c.sock,unix:$/b.sock,unix:$/c.sock,unix:$/b.sock,unix:$/c.sock,unix:$/b.sock "
      "lenet --batch 1 --input $/many.npy --output $/crowd.npy");
  discard(&o);
  expect_rows("crowd.npy", 0);
  o = run_quietly("call unix:$/b.sock,unix:$/c.sock lenet --batch 7 --input $/many.npy --output $/seven.npy");
  expect_text(o.out, "4000 rows in 572 launches");
  discard(&o);
  expect_rows("seven.npy", 1e-5); /* seven rows in a run may be added up in another order */
  pid_t client = start("call unix:$/b.sock,unix:$/c.sock lenet --batch 1 --input $/many.npy --output $/lost.npy --json",
                       "/dev/null", in_folder("batch.out"), in_folder("batch.err"));
  nanosleep(&(struct timespec){0, 150000000}, NULL);
  kill(second, SIGKILL);
  (void)await(second);
  assert_int_equal(await(client), 0);
  expect_rows("lost.npy", 0);
  o = run("call unix:$/b.sock,127.0.0.1:9 lenet --batch 500 --input $/many.npy");
  assert_int_equal(o.code, 0);
  expect_text(o.err, "never reached: 127.0.0.1:9: ");
  discard(&o);
  unsetenv("BRAID_TOKEN");
}

/* One of two daemons hangs so long after the beginning, for good: what it had is given to the other one too, and at the
 * end nobody waits for it, whether it hangs before its hello, with answers owed or in the middle of a long message. */
static void expect_no_wait(pid_t second, int after_ms, int rows, double bound) {
  char line[256];
  snprintf(line, sizeof line,
           "call unix:$/d.sock,unix:$/b.sock lenet --batch %d --input $/many.npy --output $/hung.npy", rows);
  double began = now_s();
  if (!after_ms) kill(second, SIGSTOP);
  pid_t client = start(line, "/dev/null", in_folder("batch.out"), in_folder("batch.err"));
  nanosleep(&(struct timespec){0, after_ms * 1000000L}, NULL);
  kill(second, SIGSTOP);
  int code = await(client);
  double took = now_s() - began;
  kill(second, SIGCONT);
  if (code != 0) fail_msg("code %d: %s", code, get_file(in_folder("batch.err"), NULL));
  if (took > 15) fail_msg("%d ms, %d rows: it took %g s", after_ms, rows, took);
  expect_rows("hung.npy", bound);
}

static void test_batch_hangs(void **state) {
  (void)state;
  pid_t second = start_second("d.sock");
  assert_int_equal(setenv("BRAID_TOKEN", "secret", 1), 0);
  expect_no_wait(second, 0, 1, 0);
  expect_no_wait(second, 150, 1, 0);
  expect_no_wait(second, 250, 1, 0);
  for (int after_ms = 40; after_ms <= 200; after_ms += 40) expect_no_wait(second, after_ms, 500, 1e-5);
  unsetenv("BRAID_TOKEN");
  kill(second, SIGTERM);
  assert_int_equal(await(second), 0);
}

/* What no daemon can do in time ends, however many launches are given out again meanwhile. */
static void expect_refused(const char *line) {
  double began = now_s();
  expect_code(line, 1, "deadline");
  if (now_s() - began > 20) fail_msg("it took %g s", now_s() - began);
}

static void test_batch_refusals(void **state) {
  (void)state;
  expect_refused("call unix:$/b.sock lenet --batch 1 --token secret --deadline 0.001 --input $/many.npy");
  expect_refused("call unix:$/b.sock,127.0.0.1:9 lenet --batch 1 --token secret --deadline 0.001 --input $/many.npy");
  expect_refused("call unix:$/b.sock,unix:$/b.sock lenet --batch 1 --timeout 1 --token secret --deadline 0.001 "
                 "--input $/many.npy");
  expect_code("call unix:$/b.sock lenet --batch 0 --input $/x.npy", 2, "--batch");
  expect_code("call unix:$/b.sock lenet --batch 4 --list", 2, "--batch cannot be combined with --list");
  expect_code("call unix:$/b.sock lenet --batch 4 --cores 1", 2, "combined with --cores");
  expect_code("call unix:$/b.sock lenet --batch 4 --repeat 2", 2, "combined with --repeat");
  expect_code("call unix:$/b.sock,unix:$/c.sock lenet --input $/x.npy", 2, "several addresses go with --batch");
  expect_code("call tls:unix:$/b.sock lenet --input $/x.npy", 2, "TLS goes with tls:HOST:PORT");
  expect_code("call unix:$/b.sock lenet --batch 4 --token secret", 2, "rows of inputs are expected");
  expect_code("call nonsense lenet --batch 4 --token secret --input $/x.npy", 2, "HOST:PORT");
  expect_code("call unix:$/none.sock,unix:$/nobody.sock lenet --batch 4 --input $/x.npy", 1, "No such file");
  expect_code("call unix:$/b.sock lenet --batch 4 --token secret --timeout 1 --deadline 0.001 --input $/x.npy", 1,
              "deadline");
  expect_code("call unix:$/b.sock lenet --batch 4 --token secret --input $/x.npy --output z=$/z.npy", 2, "\"z\"");
}

/* One message for each inference, whatever the way. */
static void test_evaluation(void **state) {
  (void)state;
  outcome o = run_quietly("evaluate serving --model MobileNet --json");
  size_t ways = 0;
  for (const char *at = o.out; (at = strstr(at, "\"messages_per_inference\":1,")); at++) ways++;
  assert_int_equal(ways, 3);
  expect_text(o.out, "\"measured_local_us\":");
  discard(&o);
  expect_code("evaluate serving --model MobileNet,Nothing", 2, "names of VGG16, ResNet50");
  expect_code("evaluate serving --measure", 2, "--measure has no effect on serving");
  expect_code("evaluate serves", 2, "tiles, hybrid, overlay, manycore and serving are");
}

static void test_refusals(void **state) {
  (void)state;
  expect_code("call", 2, "an address is expected");
  expect_code("call unix:$/b.sock", 2, "a model is expected");
  expect_code("call unix:$/b.sock lenet --list --repeat 3", 2, "launches nothing");
  expect_code("call unix:$/b.sock lenet --input $/x.npy --output - --json", 2, "both use standard output");
  expect_code("call unix:$/b.sock --list", 2, "a token is needed");
  expect_code("call unix:$/b.sock --list --token wrong --json", 2, "the token is nobody's");
  expect_code("call unix:$/none.sock --list", 1, "none.sock: No such file");
  expect_code("call nonsense --list", 2, "HOST:PORT");
  expect_code("call unix:$/b.sock none --token secret --input $/x.npy", 2, "there is no model \"none\"");
  expect_code("call unix:$/b.sock lenet --token secret --input y=$/x.npy", 2, "no input named \"y\"");
  expect_code("call unix:$/b.sock lenet --token secret", 2, "input input of model lenet is missing");
  expect_code("call unix:$/b.sock lenet --token secret --input $/x.npy --output z=$/z.npy", 2, "\"z\"");
  expect_code("call unix:$/b.sock lenet --token secret --input $/x.npy --deadline 0.001", 1, "deadline");
}

/* A daemon whose file has a certificate: its own authority, for 127.0.0.1. */
static void test_tls(void **state) {
  (void)state;
  char line[300], command[400];
  snprintf(command, sizeof command,
           "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s/key.pem -out %s/cert.pem "
           "-days 2 -subj /CN=braid -addext subjectAltName=IP:127.0.0.1 2>/dev/null",
           folder, folder);
  if (system(command) != 0) skip_test("system", "there is no openssl");
  snprintf(line, sizeof line, "certificate: %s/cert.pem\nkey: %s/key.pem\nmodels:\n  - {name: lenet, path: %s}\n",
           folder, folder, BRAID_MODELS "/lenet.cfg");
  put_file(in_folder("tls.yaml"), line, strlen(line));
  put_file(in_folder("tls.out"), "", 0);
  pid_t process = start("serve --config $/tls.yaml --port 0 --wire-port 0 --json", "/dev/null", in_folder("tls.out"),
                        in_folder("tls.err"));
  int port = 0;
  for (int i = 0; i < 1000 && !port; i++) {
    char *said = get_file(in_folder("tls.out"), NULL), *at = strstr(said, "\"wire_port\":");
    if (at) port = atoi(at + strlen("\"wire_port\":"));
    free(said);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  char *wrong = get_file(in_folder("tls.err"), NULL);
  if (!port && strstr(wrong, "without GnuTLS")) skip_test("system", "Braid was built without GnuTLS");
  if (!port) fail_msg("the daemon does not come up: %s", wrong);
  free(wrong);
  snprintf(line, sizeof line, "call tls:127.0.0.1:%d lenet --authority $/cert.pem --input $/x.npy --output $/tls.npy",
           port);
  bool ready = false;
  for (int i = 0; i < 1000 && !ready; i++) { /* until the model is there */
    outcome o = run(line);
    ready = o.code == 0;
    if (!ready && !strstr(o.err, "load")) fail_msg("%s", o.err);
    discard(&o);
    if (!ready) nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  size_t count, own;
  outcome o = run_quietly("call unix:$/b.sock lenet --token secret --input $/x.npy --output $/call.npy");
  discard(&o);
  char *over = get_file(in_folder("tls.npy"), &own), *local = get_file(in_folder("call.npy"), &count);
  assert_int_equal(own, count);
  assert_memory_equal(over, local, count);
  free(over);
  free(local);
  snprintf(line, sizeof line, "call 127.0.0.1:%d --list", port);
  expect_code(line, 2, "this port speaks TLS");
  snprintf(line, sizeof line, "call tls:localhost:%d --list --authority $/cert.pem", port);
  expect_code(line, 1, "the certificate of the daemon is not for \"localhost\"");
  snprintf(line, sizeof line, "call 127.0.0.1:%d --list --authority $/cert.pem", port);
  expect_code(line, 2, "go with an address tls:HOST:PORT");
  kill(process, SIGTERM);
  assert_int_equal(await(process), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cores),
      cmocka_unit_test(test_same_bits_as_run),
      cmocka_unit_test(test_repeat),
      cmocka_unit_test(test_list),
      cmocka_unit_test(test_lazy),
      cmocka_unit_test(test_compile),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_tls),
      cmocka_unit_test(test_batch),
      cmocka_unit_test(test_batch_hangs),
      cmocka_unit_test(test_batch_refusals),
      cmocka_unit_test(test_training_tenant),
      cmocka_unit_test(test_daemon_that_hangs_beside_training),
      cmocka_unit_test(test_daemon_that_dies_beside_training),
      cmocka_unit_test(test_evaluation),
  };
  return skip_run_group_tests(tests, set_up, tear_down);
}
