/* Commands on a device of a daemon, as two programs: the bits, models and ledgers are those of the device itself; a
 * daemon that is killed ends a command soon and with a sentence, and a training goes on elsewhere. */
#include "clicheck.h"

#include <time.h>

#include "braid/model.h"

#define REMOTE "--device remote:unix:$/b.sock/cpu "
#define TRAIN                                                                                                          \
  "train " GLYPHS " --data builtin:glyphs,limit=640 --test builtin:glyphs,limit=320 --epochs 2 --batch 32 "            \
  "--checkpoint-steps 3 "

static pid_t daemon_process;

static void start_daemon(void) {
  static const char kConfig[] = "devices:\n  - {name: cpu, device: cpu, threads: 1, remote: true}\n"
                                "models:\n  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg, lazy: true}\n"
                                "tenants:\n  - {name: ann, token: secret, remote: true, max_bytes: 1000000000}\n";
  put_file(in_folder("serve.yaml"), kConfig, strlen(kConfig));
  daemon_process = start("serve --config $/serve.yaml --port 0 --socket $/b.sock", "/dev/null", in_folder("serve.out"),
                         in_folder("serve.err"));
  for (int i = 0; i < 1000; i++) {
    outcome o = run("call unix:$/b.sock --list");
    int code = o.code;
    discard(&o);
    if (code == 0) return;
    nap(0.02);
  }
  fail_msg("the daemon does not come up: %s", get_file(in_folder("serve.err"), NULL));
}

static void kill_daemon(void) {
  kill(daemon_process, SIGKILL);
  (void)await(daemon_process);
}

static int set_up(void **state) {
  braid_desc desc;
  braid_tensor *tensor;
  (void)state;
  if (!mkdtemp(folder)) return -1;
  setenv("BRAID_TOKEN", "secret", 1);
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){1, 1, 28, 28}), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  for (int i = 0; i < 784; i++) ((float *)braid_tensor_data(tensor))[i] = (float)(i * 31 % 255) / 255;
  assert_int_equal(braid_npy_save(in_folder("x.npy"), tensor), BRAID_OK);
  braid_tensor_release(tensor);
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

static void expect_same_file(const char *one, const char *other) {
  size_t count, found;
  char *bytes = get_file(in_folder(one), &count), *same = get_file(in_folder(other), &found);
  assert_int_equal(count, found);
  assert_memory_equal(bytes, same, count);
  free(bytes);
  free(same);
}

static void test_run(void **state) {
  (void)state;
  outcome o = run_quietly("run " BRAID_MODELS "/lenet.cfg --threads 1 --input $/x.npy --output $/here.npy");
  discard(&o);
  o = run("run " BRAID_MODELS "/lenet.cfg " REMOTE "--verbose --input $/x.npy --output $/there.npy");
  assert_int_equal(o.code, 0);
  expect_text(o.err, "; 1 runs in 1 of these calls");
  discard(&o);
  expect_same_file("here.npy", "there.npy");
}

static void test_test(void **state) {
  (void)state;
  outcome o = run_quietly("test " GLYPHS " --data builtin:glyphs,limit=320 --threads 1 --json");
  char *out = strdup(o.out);
  discard(&o);
  o = run_quietly("test " GLYPHS " --data builtin:glyphs,limit=320 " REMOTE "--json");
  const char *loss = strstr(out, "\"loss\":");
  assert_non_null(loss);
  assert_memory_equal(loss, strstr(o.out, "\"loss\":"), strcspn(loss, ","));
  discard(&o);
  free(out);
}

static void test_train(void **state) {
  (void)state;
  outcome o = run(TRAIN "--threads 1 --out $/here");
  assert_int_equal(o.code, 0);
  discard(&o);
  o = run(TRAIN REMOTE "--out $/there");
  if (o.code != 0) fail_msg("%s", o.err);
  discard(&o);
  expect_same_file("here/model.onnx", "there/model.onnx");
  o = run(TRAIN "--threads 1 --precision int8 --ledger $/here.ledger --out $/here8");
  assert_int_equal(o.code, 0);
  discard(&o);
  o = run(TRAIN REMOTE "--precision int8 --ledger $/there.ledger --out $/there8");
  if (o.code != 0) fail_msg("%s", o.err);
  discard(&o);
  expect_same_file("here8/model.onnx", "there8/model.onnx");
  expect_same_file("here.ledger", "there.ledger");
}

/* Kernels that pack constants, of bytes and of floats, with several outputs, in layouts of their own. In two programs,
 * since the suite also counts the memory that the client keeps. */
static void test_conformance(void **state) {
  (void)state;
  static const char *const kCases[] = {"QLinearConv", "Gemm", "MatMulInteger", "LSTM", "Split", "timing", "replay"};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    char line[200];
    snprintf(line, sizeof line, "devices --check remote:unix:$/b.sock/cpu --case %s", kCases[i]);
    outcome o = run(line);
    if (o.code != 0 || strstr(o.out, " 0 passed")) fail_msg("%s: %s", line, o.out);
    discard(&o);
  }
}

static void test_bench_and_refusals(void **state) {
  (void)state;
  outcome o = run("bench " BRAID_MODELS "/lenet.cfg " REMOTE "--runs 20");
  assert_int_equal(o.code, 0);
  expect_text(o.out, "remote/cpu");
  discard(&o);
  o = run("run " BRAID_MODELS "/lenet.cfg --device remote:unix:$/b.sock/gpu --input $/x.npy");
  assert_true(o.code != 0);
  expect_text(o.err, "offers no device gpu");
  discard(&o);
  setenv("BRAID_TOKEN", "wrong", 1);
  o = run("run " BRAID_MODELS "/lenet.cfg " REMOTE "--input $/x.npy");
  assert_true(o.code != 0);
  expect_text(o.err, "the token is nobody's");
  discard(&o);
  setenv("BRAID_TOKEN", "secret", 1);
  o = run_quietly("run " BRAID_MODELS "/lenet.cfg --device remote:unix:$/none|unix:$/b.sock/cpu --input $/x.npy");
  discard(&o);
}

/* While it works for a command, which then ends with code 1. */
static void test_killed(void **state) {
  (void)state;
  struct timespec before, after;
  pid_t child = start("bench " BRAID_MODELS "/lenet.cfg " REMOTE "--runs 1000000", "/dev/null", in_folder("out"),
                      in_folder("err"));
  nap(0.7);
  clock_gettime(CLOCK_MONOTONIC, &before);
  kill_daemon();
  int code = await(child);
  clock_gettime(CLOCK_MONOTONIC, &after);
  char *err = get_file(in_folder("err"), NULL);
  assert_int_equal(code, 1);
  expect_text(err, "b.sock: the ");
  free(err);
  assert_true(after.tv_sec - before.tv_sec < 6);
  start_daemon();
}

/* A suite whose device is lost says so and ends, in place of failing hundreds of cases one by one. */
static void test_check_ends(void **state) {
  (void)state;
  pid_t child =
      start("devices --check remote:unix:$/b.sock/cpu", "/dev/null", in_folder("check.out"), in_folder("err"));
  size_t said = 0;
  for (int i = 0; i < 1000 && !said; i++) { /* until it is at work */
    nap(0.02);
    free(get_file(in_folder("check.out"), &said));
  }
  kill_daemon();
  int code = await(child);
  char *err = get_file(in_folder("err"), NULL), *out = get_file(in_folder("check.out"), NULL);
  assert_int_not_equal(code, 0);
  expect_text(err, "is lost, and no further case is run");
  size_t failed = 0;
  for (const char *at = out; (at = strstr(at, "FAIL ")); at++) failed++;
  assert_in_range(failed, 1, 40); /* those that were under way side by side */
  free(err);
  free(out);
  start_daemon();
}

/* A training whose daemon is killed again and again has its checkpoints, and ends as one that nothing disturbed. */
static void test_training_goes_on(void **state) {
  (void)state;
  int failures = 0;
  for (int i = 0;; i++) {
    assert_true(i < 60);
    pid_t child = start(TRAIN REMOTE "--out $/stopped --resume", "/dev/null", in_folder("out"), in_folder("err"));
    nap(0.2 + 0.1 * i);
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (status != 0) fail_msg("%s", get_file(in_folder("err"), NULL));
      break;
    }
    kill_daemon();
    int code = await(child);
    char *err = get_file(in_folder("err"), NULL);
    if (code != 0 && code != 1 && code != 2) fail_msg("code %d: %s", code, err);
    failures += code != 0;
    free(err);
    start_daemon();
  }
  assert_true(failures > 0);
  outcome o = run(TRAIN REMOTE "--out $/stopped --resume");
  discard(&o);
  expect_same_file("here/model.onnx", "stopped/model.onnx");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_run),
      cmocka_unit_test(test_test),
      cmocka_unit_test(test_train),
      cmocka_unit_test(test_conformance),
      cmocka_unit_test(test_bench_and_refusals),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_check_ends),
      cmocka_unit_test(test_training_goes_on),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
