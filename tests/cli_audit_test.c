/* Ledgers and audits from the command line: the same file whoever runs and kills the training; a kernel that rounds
 * once otherwise is named; what is no ledger, or of another run, is refused by a sentence. */
#include "clicheck.h"
#include "skip.h"

#define DATA "--data builtin:glyphs,limit=320 "
#define TRAIN                                                                                                          \
  "train " GLYPHS " " DATA "--precision int8 --epochs 3 --batch 16 --no-test --checkpoint-steps 3 "                    \
  "--keep-checkpoints 0 "
/* Without momentum, so that a ledger is longer than a checkpoint. */
#define SMALL TRAIN "--optimizer wage "
#define ROUNDING "--plugin " BRAID_PLUGIN_FOLDER "/rounding.so --device rounding~cpu "

enum { kSteps = 60 };

static void expect_code(const char *line, int code) {
  outcome o = run(line);
  if (o.code != code) fail_msg("braid %s: code %d: %s%s", line, o.code, o.out, o.err);
  discard(&o);
}

static int begin(void **state) {
  if (make_folder(state) != 0) return -1;
  size_t count;
  char *model = get_file(GLYPHS, &count); /* beside the ledgers, where audits find it */
  put_file(in_folder("glyphs.cfg"), model, count);
  free(model);
  expect_code(TRAIN "--out $/whole --ledger $/whole.ledger --threads 1", 0);
  return 0;
}

static void expect_same_file(const char *path, const char *other) {
  size_t count, found;
  char *text = get_file(path, &count), *again = get_file(other, &found);
  assert_int_equal(count, found);
  assert_memory_equal(text, again, count);
  free(text);
  free(again);
}

/* The audit's code, and what its document says of these keys. */
static void expect_audit(const char *arguments, int code, const char *const *words) {
  char line[512];
  snprintf(line, sizeof line, "audit %s --json", arguments);
  outcome o = run(line);
  if (o.code != code || !is_one_document(o.out)) fail_msg("braid %s: code %d: %s%s", line, o.code, o.out, o.err);
  for (; *words; words++)
    if (!strstr(o.out, *words)) fail_msg("braid %s: %s is not in: %s", line, *words, o.out);
  discard(&o);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_threads(void **state) {
  (void)state;
  expect_code(TRAIN "--out $/threads --ledger $/threads.ledger --threads 2", 0);
  expect_same_file(in_folder("threads.ledger"), in_folder("whole.ledger"));
}

/* An OpenCL device takes part with what kernels it has; where one is missing, it is named. */
static void test_opencl(void **state) {
  (void)state;
  outcome o = run("devices --json");
  bool there = strstr(o.out, "\"opencl0\"") != NULL;
  discard(&o);
  if (!there) skip_test("opencl", "there is no OpenCL device");
  expect_code(TRAIN "--out $/opencl --ledger $/opencl.ledger --device opencl0~cpu", 0);
  expect_same_file(in_folder("opencl.ledger"), in_folder("whole.ledger"));
  expect_audit("$/whole.ledger " DATA "--steps ..5 --device opencl0~cpu", 0, WORDS("\"agrees\":true"));
  o = run("audit $/whole.ledger " DATA "--steps 1 --device opencl0");
  if (o.code != 0 && (o.code != 2 || !strstr(o.err, "opencl0 has no kernel for Integer")))
    fail_msg("code %d: %s%s", o.code, o.out, o.err);
  discard(&o);
}

/* Killed again and again, at random, until it ends. */
static void test_killed(void **state) {
  (void)state;
  uint32_t random = 20261122;
  int code = 1, killed = 0;
  for (int i = 0; code != 0; i++) {
    assert_true(i < 200);
    pid_t child = start(TRAIN "--out $/killed --ledger $/killed.ledger --resume", "/dev/null", in_folder("out"),
                        in_folder("err"));
    random = random * 1664525 + 1013904223;
    nap(0.1 + 0.02 * i + 0.2 * (random >> 8) / (1 << 24));
    kill(child, SIGKILL);
    code = await(child);
    killed += code == 128 + SIGKILL;
    if (code != 0 && code != 128 + SIGKILL) {
      char *err = get_file(in_folder("err"), NULL);
      fail_msg("code %d: %s", code, err);
    }
  }
  assert_true(killed > 1);
  expect_same_file(in_folder("killed.ledger"), in_folder("whole.ledger"));
}

/* The ledger is longer than the checkpoints and the model. A line that cannot be written ends the run, since a ledger
 * with a gap is none; the run goes on when there is room. */
static void test_full_disk(void **state) {
  (void)state;
  size_t count;
  expect_code(SMALL "--out $/small --ledger $/small.ledger", 0);
  char *whole = get_file(in_folder("small.ledger"), &count), *step = strstr(whole, "\nstep 56 ");
  assert_non_null(step);
  outcome o = run_within(SMALL "--out $/full --ledger $/full.ledger", (rlim_t)(step - whole) + 100);
  free(whole);
  assert_int_equal(o.code, 1);
  assert_non_null(strstr(o.err, "full.ledger: cannot write: File too large"));
  discard(&o);
  expect_code(SMALL "--out $/full --ledger $/full.ledger --resume", 0);
  expect_same_file(in_folder("full.ledger"), in_folder("small.ledger"));
}

static void test_agrees(void **state) {
  (void)state;
  outcome o = run("audit $/whole.ledger " DATA);
  assert_int_equal(o.code, 0);
  assert_non_null(strstr(o.out, "60 of the 60 steps of its run"));
  assert_non_null(strstr(o.out, "steps 1 to 60, computed again from the start of training, agree"));
  assert_null(strchr(o.err, '\r'));
  discard(&o);
  expect_audit("$/whole.ledger " DATA "--steps 1..2 --threads 2", 0,
               WORDS("\"steps\":60", "\"from\":0", "\"checked\":2", "\"agrees\":true"));
  expect_audit("$/whole.ledger " DATA "--steps 50.. --checkpoints $/whole", 0,
               WORDS("\"from\":48", "\"checked\":12", "\"agrees\":true"));
  expect_audit("$/whole.ledger " DATA "--steps 50 --checkpoints $/whole", 0, WORDS("\"from\":48", "\"checked\":2"));
  expect_audit("$/whole.ledger " DATA "--steps ..3 --checkpoints $/whole --model " GLYPHS, 0,
               WORDS("\"from\":0", "\"checked\":3"));
}

/* One rounding of one kernel: the first step in which it changes a result, the layer and the op are named. The same
 * kernel without the fault writes the ledger that the CPU's own kernels write. */
static void test_rounding(void **state) {
  (void)state;
  static const struct {
    const char *op, *step, *layer;
  } kCases[] = {{"IntegerScaleError", "\"step\":1,", "\"layer\":\"6_convolutional/BatchNormalization\""},
                {"IntegerConv", "\"step\":1,", "\"layer\":\"8_connected/Gemm\""}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    char right[64], operation[64];
    snprintf(right, sizeof right, "%s-right", kCases[i].op);
    snprintf(operation, sizeof operation, "\"operation\":\"%s\"", kCases[i].op);
    setenv("BRAID_ROUNDING", right, 1);
    unlink(in_folder("right.ledger"));
    expect_code(TRAIN "--out $/right --ledger $/right.ledger " ROUNDING, 0);
    expect_same_file(in_folder("right.ledger"), in_folder("whole.ledger"));
    setenv("BRAID_ROUNDING", kCases[i].op, 1);
    unlink(in_folder("wrong.ledger"));
    expect_code(TRAIN "--out $/wrong --ledger $/wrong.ledger " ROUNDING, 0);
    unsetenv("BRAID_ROUNDING");
    expect_audit("$/wrong.ledger " DATA, 1, WORDS("\"agrees\":false", kCases[i].step, kCases[i].layer, operation));
    outcome o = run("audit $/wrong.ledger " DATA);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.out, kCases[i].op));
    discard(&o);
    /* the audit's own device may be the wrong one, too */
    setenv("BRAID_ROUNDING", kCases[i].op, 1);
    expect_audit("$/wrong.ledger " DATA ROUNDING, 0, WORDS("\"agrees\":true"));
    expect_audit("$/whole.ledger " DATA ROUNDING, 1, WORDS("\"agrees\":false", operation));
    unsetenv("BRAID_ROUNDING");
  }
}

/* --- what is refused -----------------------------------------------------------------------------------------------
 */
static void change(const char *from, const char *to, const char *was, const char *is) {
  size_t count;
  char *text = get_file(from, &count), *at = strstr(text, was);
  assert_non_null(at);
  assert_int_equal(strlen(was), strlen(is));
  memcpy(at, is, strlen(is));
  put_file(to, text, count);
  free(text);
}

static void test_refused(void **state) {
  (void)state;
  expect_failure("audit $/none.ledger " DATA, 2, "none.ledger");
  expect_failure("audit " GLYPHS " " DATA, 2, "is not a ledger");
  expect_failure("audit " DATA, 2, "a ledger is expected");
  expect_failure("audit $/whole.ledger", 2, "--data SPEC is expected");
  expect_failure("audit $/whole.ledger " DATA "--steps 61", 2, "has steps 1 to 60, not 61\n");
  expect_failure("audit $/whole.ledger " DATA "--steps 61..", 2, "has steps 1 to 60, not 61\n");
  expect_failure("audit $/whole.ledger " DATA "--steps 1..61", 2, "has steps 1 to 60, not 1 to 61\n");
  expect_failure("audit $/whole.ledger " DATA "--steps 1..99999999999999999999", 2,
                 "a whole number from 1 to 9223372036854775807 is expected");
  expect_failure("audit $/whole.ledger " DATA "--steps 5..4", 2, "the first is after the last");
  expect_failure("audit $/whole.ledger " DATA "--steps x", 2, "--steps");
  expect_failure("audit $/whole.ledger " DATA "--checkpoints $/none", 2, "is not a folder");
  expect_failure("audit $/whole.ledger --data builtin:glyphs,limit=160", 2, "number of samples: 320");
  expect_failure("audit $/whole.ledger --data builtin:glyphs,limit=320,augment=flip", 2, "augmentation: none");
  expect_failure("audit $/whole.ledger " DATA "--model " BRAID_MODELS "/lenet.cfg", 2, "do not have this shape");
  change(in_folder("whole.ledger"), in_folder("edited.ledger"), "\nstep 7 rate 0.125", "\nstep 7 rate 0.625");
  expect_failure("audit $/edited.ledger " DATA, 2, "was changed after it had been written");
  change(in_folder("whole.ledger"), in_folder("edited.ledger"), "/glyphs.cfg", "/gIyphs.cfg");
  expect_failure("audit $/edited.ledger " DATA, 2, "nor beside the ledger: give it with --model");
  /* what a terminal would obey */
  change(in_folder("whole.ledger"), in_folder("edited.ledger"), "/glyphs.cfg", "/\x1b[2Jhs.cfg");
  expect_failure("audit $/edited.ledger " DATA, 2, "/\\x1b[2Jhs.cfg, which is neither");
  change(in_folder("whole.ledger"), in_folder("edited.ledger"), "/glyphs.cfg", "/gl\xffph\xc3\xa9.cf");
  expect_failure("audit $/edited.ledger " DATA, 2, "/gl\\xffph\xc3\xa9.cf, which is neither");
  size_t count, used = 0;
  char *text = get_file(in_folder("whole.ledger"), &count), *lines = malloc(2 * count);
  assert_non_null(lines);
  for (size_t i = 0; i < count; i++) {
    if (text[i] == '\n') lines[used++] = '\r';
    lines[used++] = text[i];
  }
  put_file(in_folder("edited.ledger"), lines, used);
  free(lines);
  free(text);
  expect_failure("audit $/edited.ledger " DATA, 2, "line 1: ends in a carriage return");
}

/* A model is found where the ledger says, below the current folder; a ledger leads to no file elsewhere. */
static void test_model(void **state) {
  (void)state;
  size_t count;
  char *text = get_file(in_folder("whole.ledger"), &count), *line = strstr(text, "\nmodel: "), *changed;
  assert_non_null(line);
  static const struct {
    const char *path;
    bool found;
  } kCases[] = {
      {"below/net.cfg", true},  {"./below/net.cfg", true},    {"below/../below/net.cfg", false}, {"..", false},
      {"/etc/hostname", false}, {"/nowhere/glyphs.cfg", true}}; /* a file of that name is beside the ledger */
  size_t bytes;
  char *model = get_file(GLYPHS, &bytes);
  assert_int_equal(mkdir(in_folder("below"), 0777), 0);
  put_file(in_folder("below/net.cfg"), model, bytes);
  free(model);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    int length =
        asprintf(&changed, "%.*s\nmodel: %s%s", (int)(line - text), text, kCases[i].path, strchr(line + 1, '\n'));
    assert_true(length > 0);
    put_file(in_folder("led.ledger"), changed, (size_t)length);
    free(changed);
    if (kCases[i].found)
      expect_audit("$/led.ledger " DATA "--steps 1", 0, WORDS("\"agrees\":true"));
    else
      expect_failure("audit $/led.ledger " DATA "--steps 1", 2, "give it with --model");
  }
  free(text);
}

static void test_refused_training(void **state) {
  (void)state;
  expect_failure(TRAIN "--out $/again --ledger $/whole.ledger", 2, "a ledger is not overwritten");
  expect_failure("train " GLYPHS " " DATA "--ledger $/float.ledger", 2, "bits of floating point depend on processors");
  expect_failure(TRAIN "--ledger $/head.ledger --replace-head", 2, "--replace-head changes it");
  expect_failure(TRAIN "--out $/again --ledger $/none/x.ledger", 1, "cannot open");
  static const struct {
    const char *options, *words;
  } kCases[] = {
      {"--ledger -", "a file is expected, which --resume reads again"},
      {"--bits 8", "W,A,G,E is expected, four numbers"},
      {"--bits 8,8,8", "W,A,G,E is expected, four numbers"},
      {"--bits 8,8,8,8,8", "W,A,G,E is expected, four numbers"},
      {"--schedule step", "--schedule has no effect with --precision int8, which has a schedule of its own"},
      {"--optimizer adam", "--precision int8 has the optimizers sgd and wage"},
      {"--momentum 0.5", "--momentum has no effect with --precision int8, where sgd has 15/16"},
      {"--optimizer wage --weight-decay 0.1", "--weight-decay has no effect with --optimizer wage"},
      {"--lr 3", "a power of two"},
      {"--step-epochs 2", "--step-epochs has no effect with --precision int8"},
      {"--beta1 0.5", "--beta1 has no effect with --precision int8"},
      {"--group *:lr=1,decay=0.1", "--group *: decay= has no effect with --precision int8"},
      {"--freeze nothing*", "\"nothing*\" matches no parameter"},
      {"--freeze *", "parameters are frozen: nothing trains"},
      {"--seed 18446744073709551615", "a whole number from 0 to 9223372036854775807 is expected"},
      {"--seed -1", "a whole number of at least 0 is expected"},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    char line[400];
    snprintf(line, sizeof line, TRAIN "--out $/refused %s", kCases[i].options);
    expect_failure(line, 2, kCases[i].words);
  }
}

/* Another seed of the same data, which draws other pictures and other classes. */
static void test_other_data(void **state) {
  (void)state;
  char line[] = "audit $/whole.ledger --data builtin:glyphs,limit=320,seed=5";
  outcome o = run(line);
  assert_int_equal(o.code, 1);
  assert_non_null(strstr(o.out, "the data set is another than that of the ledger"));
  assert_non_null(strstr(o.out, "is \"hash of the data set: "));
  assert_string_equal(o.err, "");
  assert_non_null(strstr(o.out, "the same samples were drawn, and their classes differ"));
  discard(&o);
  expect_audit("$/whole.ledger --data builtin:glyphs,limit=320,seed=5", 1,
               WORDS("\"agrees\":false", "\"data_agree\":false", "\"steps_agree\":false", "\"first_difference\""));
}

/* The last line is torn off: what is whole is audited. */
static void test_torn(void **state) {
  (void)state;
  size_t count;
  char *text = get_file(in_folder("whole.ledger"), &count);
  put_file(in_folder("torn.ledger"), text, count - 100);
  free(text);
  outcome o = run("audit $/torn.ledger " DATA "--checkpoints $/whole --steps 58..");
  assert_int_equal(o.code, 0);
  assert_non_null(strstr(o.out, "59 of the 60 steps of its run"));
  assert_non_null(strstr(o.err, "its last line is not whole"));
  discard(&o);
}

static void test_interrupted(void **state) {
  (void)state;
  for (int i = 0;; i++) {
    assert_true(i < 60);
    pid_t child = start("audit $/whole.ledger " DATA, "/dev/null", in_folder("out"), in_folder("err"));
    nap(0.05 + 0.03 * i);
    kill(child, SIGINT);
    int code = await(child);
    char *out = get_file(in_folder("out"), NULL), *err = get_file(in_folder("err"), NULL);
    bool stopped = code == 130 && !out[0] && strstr(err, "stopped after step");
    free(out);
    free(err);
    if (stopped) break;
    assert_true(code == 130 || code == 128 + SIGINT); /* before the handler is there */
  }
}

int main(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads),    cmocka_unit_test(test_opencl), cmocka_unit_test(test_killed),
      cmocka_unit_test(test_full_disk),  cmocka_unit_test(test_agrees), cmocka_unit_test(test_rounding),
      cmocka_unit_test(test_refused),    cmocka_unit_test(test_model),  cmocka_unit_test(test_refused_training),
      cmocka_unit_test(test_other_data), cmocka_unit_test(test_torn),   cmocka_unit_test(test_interrupted),
  };
  return skip_run_group_tests(tests, begin, remove_folder);
}
