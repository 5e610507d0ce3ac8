/* Training by a policy from the command line: what is reported, what a second run finds, and what is refused.
 * src/steering/steering_test.c has devices that slow down and draw power. */
#include "clicheck.h"

#define TRAIN                                                                                                          \
  "train " GLYPHS " --data builtin:glyphs,limit=640 --no-test --epochs 1 --batch 32 --threads 1 --device cpu "

static outcome run_well(const char *line) {
  outcome o = run(line);
  if (o.code != 0) fail_msg("braid %s: code %d: %s", line, o.code, o.err);
  return o;
}

/* The first loss in a document. */
static double loss_of(const char *json) {
  const char *at = strstr(json, "\"loss\":");
  assert_non_null(at);
  return strtod(at + strlen("\"loss\":"), NULL);
}

static void test_report(void **state) {
  (void)state;
  outcome one = run_well(TRAIN "--out $/one --json");
  outcome o = run_well(TRAIN "--policy heft --alone 3 --out $/steered --json");
  assert_true(is_one_document(o.out));
  double difference = loss_of(o.out) - loss_of(one.out);
  if (!(difference < 1e-4 && difference > -1e-4)) fail_msg("%s: %s", o.out, one.out);
  expect_text(o.out, "\"what\":\"cpu alone\",\"steps\":3,\"first_step\":1,");
  expect_text(o.out, "\"what\":\"heft\",\"steps\":17,\"first_step\":4,");
  expect_text(o.out, "\"power\":{");
  expect_text(o.out, "operations measured in ");
  expect_text(o.out, ", 0 known before (");
  discard(&o);
  o = run_well(TRAIN "--policy cpu-only --profile $/steered/profile.db --out $/again");
  expect_text(o.out, "costs: ");
  expect_text(o.out, "steered/profile.db, ");
  expect_text(o.out, ", 0 of them stale");
  expect_text(o.out, "cpu alone                      0          ?");
  expect_text(o.out, "cpu-only                ");
  discard(&o);
  o = run(TRAIN "--device cpu:threads=1 --policy cpu-only --profile $/steered/profile.db --out $/other");
  expect_text(o.err, "profile.db has no measurements of device cpu:threads=1; those that it has are of: cpu");
  discard(&o);
  o = run_well(TRAIN "--epochs 2 --policy heft --out $/steered --resume");
  expect_text(o.out, "costs: 0 operations measured in ");
  expect_text(o.out, "epoch 2/2");
  discard(&o);
  discard(&one);
}

/* Costs are those that the first test measured. */
#define MANY                                                                                                           \
  "train " GLYPHS " --data builtin:glyphs,limit=640 --no-test --batch 32 --threads 1 --device cpu --policy heft "      \
  "--profile $/steered/profile.db --keep-checkpoints 1000 "

/* Ends the command once its checkpoints say that it trains. */
static int end_by(const char *line, const char *checkpoint, int number) {
  pid_t child = start(line, "/dev/null", in_folder("out"), in_folder("err"));
  char *path = expand(checkpoint);
  while (access(path, R_OK) != 0) {
    if (waitpid(child, NULL, WNOHANG) == child) fail_msg("braid %s: %s", line, get_file(in_folder("err"), NULL));
    usleep(1000);
  }
  free(path);
  kill(child, number);
  return await(child);
}

/* One that is interrupted says what came of it until then; one that is killed goes on. */
static void test_ended(void **state) {
  (void)state;
  assert_int_equal(end_by(MANY "--epochs 1000 --out $/ended", "$/ended/checkpoint-0000000020.braid", SIGINT), 130);
  char *text = get_file(in_folder("out"), NULL);
  expect_text(text, "costs: ");
  expect_text(text, "heft                ");
  free(text);
  text = get_file(in_folder("err"), NULL);
  expect_text(text, "goes on from it");
  free(text);
  assert_int_equal(end_by(MANY "--epochs 1000 --out $/killed", "$/killed/checkpoint-0000000020.braid", SIGKILL),
                   128 + SIGKILL);
  outcome o = run_well(MANY "--epochs 3 --out $/killed --resume --json");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "\"what\":\"heft\"");
  discard(&o);
}

/* Without --device: all devices here, whatever drivers there are, but simulated ones, which nothing can be measured of.
 */
static void test_all_devices(void **state) {
  (void)state;
  outcome o = run_well("train " GLYPHS " --data builtin:glyphs,limit=64 --no-test --batch 32 --threads 1 --epochs 1 "
                       "--policy cpu-only --out $/all");
  assert_non_null(strstr(o.out, "cpu alone"));
  assert_null(strstr(o.out, "overlay"));
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *line, *detail;
  } cases[] = {
      {TRAIN "--profile x.db", "--profile has no effect without --policy"},
      {TRAIN "--drift 2", "--drift has no effect without --policy"},
      {TRAIN "--policy heft --place '*=cpu'", "cannot be combined with --place"},
      {TRAIN "--policy heft --precision int8", "cannot be combined with --precision int8"},
      {TRAIN "--power-cap 100 --trace $/t.json", "cannot be combined with --trace"},
      {TRAIN "--policy heft --drift-steps 1", "--drift-steps"},
      {TRAIN "--policy heft --alone 20 --out $/none", "20 steps alone on each of 1 devices"},
      {TRAIN "--policy nonesuch --out $/none", "there is no policy \"nonesuch\""},
      {TRAIN "--policy heft --profile $/none.db --out $/none", "there is no such database"},
      {TRAIN "--policy heft --profile /dev/null --out $/none", "/dev/null"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    outcome o = run(cases[i].line);
    if (o.code != 2 && o.code != 1) fail_msg("braid %s: code %d", cases[i].line, o.code);
    expect_text(o.err, cases[i].detail);
    discard(&o);
  }
}

int main(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_report), cmocka_unit_test(test_ended),
                                     cmocka_unit_test(test_all_devices), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
