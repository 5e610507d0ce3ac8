/* `mpirun braid train`: in integers the ledger of one process, whatever their number, also when it changes on the way;
 * in floating point the same model in every run; processes that are interrupted, killed, or fail, and what is said
 * once; no separate trainings where the module is missing. Skipped where there is no Open MPI or the module was not
 * built. */
#include <dirent.h>

#include "clicheck.h"
#include "skip.h"

#define DATA "--data builtin:glyphs,limit=320 "
#define TRAIN "train " GLYPHS " " DATA "--epochs 3 --batch 16 --no-test "
#define INTEGERS TRAIN "--precision int8 --checkpoint-steps 3 --keep-checkpoints 0 "

/* Long enough to be interrupted: a launcher takes its time. */
#define LONG                                                                                                           \
  "train " GLYPHS " --data builtin:glyphs,limit=2048 --epochs 3 --batch 16 --no-test --precision int8 "                \
  "--checkpoint-steps 10 --keep-checkpoints 0 "

enum { kMostSeconds = 120 };

static bool has_launcher;

static bool is_open_mpi(void) {
  char line[128] = "";
  FILE *said = BRAID_MPIEXEC[0] ? popen(BRAID_MPIEXEC " --version 2>/dev/null", "r") : NULL;
  if (!said) return false;
  bool read = fgets(line, sizeof line, said) != NULL;
  return pclose(said) == 0 && read && (strstr(line, "Open MPI") || strstr(line, "OpenRTE"));
}

static int begin(void **state) {
  has_launcher = is_open_mpi() && access(BRAID_MPI_MODULE, R_OK) == 0;
  (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  if (make_folder(state) != 0) return -1;
  if (!has_launcher) return 0;
  outcome o = run(INTEGERS "--out $/whole --ledger $/whole.ledger");
  int code = o.code;
  discard(&o);
  return code;
}

static void need_launcher(void) {
  if (!has_launcher) skip_test("mpi", "there is no Open MPI, or libbraid_mpi.so was not built");
}

/* `count` processes of `program`. */
static pid_t launch_program(const char *program, int count, const char *line) {
  char *copy = strdup(line), *words[MOST_ARGUMENTS], number[16];
  int given = split(copy, words);
  free(copy);
  snprintf(number, sizeof number, "%d", count);
  const char *arguments[MOST_ARGUMENTS + 8] = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", number, program};
  for (int i = 1; i <= given; i++) arguments[6 + i] = words[i];
  const char *out = in_folder("out"), *err = in_folder("err");
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const char *paths[] = {"/dev/null", out, err};
    for (int i = 0; i < 3; i++) {
      int file = open(paths[i], i ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0666);
      if (file < 0 || dup2(file, i) < 0) _exit(126);
      close(file);
    }
    alarm(kMostSeconds);
    execv(BRAID_MPIEXEC, (char *const *)(uintptr_t)arguments);
    _exit(127);
  }
  for (int i = 1; i < given; i++) free(words[i]);
  return child;
}

static outcome finish(pid_t child) {
  outcome o = {.code = await(child)};
  o.out = get_file(in_folder("out"), NULL);
  o.err = get_file(in_folder("err"), NULL);
  return o;
}

static void expect_trained(int count, const char *line) {
  outcome o = finish(launch_program(BRAID_COMMAND, count, line));
  if (o.code != 0) fail_msg("%d of braid %s: code %d: %s%s", count, line, o.code, o.out, o.err);
  discard(&o);
}

static void expect_same_file(const char *path, const char *other) {
  size_t count, found;
  char *text = get_file(path, &count), *again = get_file(other, &found);
  assert_int_equal(count, found);
  assert_memory_equal(text, again, count);
  free(text);
  free(again);
}

static size_t times_in(const char *text, const char *part) {
  size_t count = 0;
  while ((text = strstr(text, part))) text += strlen(part), count++;
  return count;
}

/* All processes end with the code, and the sentence is said once. */
static void expect_refused(const char *program, int count, const char *line, int code, const char *sentence) {
  outcome o = finish(launch_program(program, count, line));
  if (o.code != code || times_in(o.err, sentence) != 1)
    fail_msg("%d of braid %s: code %d, not %d with \"%s\" once: %s", count, line, o.code, code, sentence, o.err);
  discard(&o);
}

static void test_ledgers(void **state) {
  (void)state;
  need_launcher();
  expect_trained(2, INTEGERS "--out $/two --ledger $/two.ledger");
  expect_same_file(in_folder("whole.ledger"), in_folder("two.ledger"));
  expect_trained(3, INTEGERS "--out $/three --ledger $/three.ledger");
  expect_same_file(in_folder("whole.ledger"), in_folder("three.ledger"));
  expect_same_file(in_folder("whole/model.onnx"), in_folder("three/model.onnx"));
}

/* The bits of a run are those of the next; process 0 alone prints, and writes a trace with a queue for collectives. */
static void test_floats(void **state) {
  (void)state;
  need_launcher();
  outcome o = finish(launch_program(BRAID_COMMAND, 2, TRAIN "--out $/float1 --trace $/trace.json"));
  if (o.code != 0) fail_msg("code %d: %s", o.code, o.err);
  assert_int_equal(times_in(o.out, "epoch 1/3"), 1);
  assert_int_equal(times_in(o.out, "trained model"), 1);
  assert_int_equal(times_in(o.err, "trains: "), 1);
  discard(&o);
  expect_trained(2, TRAIN "--out $/float2");
  expect_same_file(in_folder("float1/model.onnx"), in_folder("float2/model.onnx"));
  FILE *trace = fopen(in_folder("trace.json"), "r");
  char line[4096];
  bool queue = false, collective = false;
  assert_non_null(trace);
  while (fgets(line, sizeof line, trace)) {
    queue |= strstr(line, "\"name\":\"group\"") != NULL;
    collective |= strstr(line, "\"cat\":\"AllReduce\"") != NULL;
  }
  fclose(trace);
  assert_true(queue && collective);
}

/* One process of a launcher is one process. */
static void test_one(void **state) {
  (void)state;
  need_launcher();
  expect_trained(1, INTEGERS "--out $/single --ledger $/single.ledger");
  expect_same_file(in_folder("whole.ledger"), in_folder("single.ledger"));
}

static void await_file(const char *path) {
  for (int i = 0; i < 100 * kMostSeconds && access(path, R_OK) != 0; i++) nap(0.01);
  if (access(path, R_OK) != 0) fail_msg("%s does not come", path);
}

/* Ctrl-C, then another number of processes. */
static void test_interrupted(void **state) {
  (void)state;
  need_launcher();
  expect_trained(1, LONG "--out $/long --ledger $/long.ledger");
  pid_t child = launch_program(BRAID_COMMAND, 2, LONG "--out $/parts --ledger $/parts.ledger");
  await_file(in_folder("parts/checkpoint-0000000020.braid"));
  assert_int_equal(kill(child, SIGINT), 0);
  outcome o = finish(child);
  if (!o.code || times_in(o.err, "interrupted in epoch") != 1) fail_msg("code %d: %s", o.code, o.err);
  discard(&o);
  expect_trained(3, LONG "--out $/parts --ledger $/parts.ledger --resume");
  expect_same_file(in_folder("long.ledger"), in_folder("parts.ledger"));
  expect_same_file(in_folder("long/model.onnx"), in_folder("parts/model.onnx"));
}

/* A process that the launcher has started; the last one found. */
static pid_t child_of(pid_t parent) {
  DIR *all = opendir("/proc");
  pid_t found = 0;
  assert_non_null(all);
  for (struct dirent *entry; (entry = readdir(all));) {
    char path[300], name[32];
    long pid, above;
    snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
    FILE *file = isdigit((unsigned char)entry->d_name[0]) ? fopen(path, "r") : NULL;
    if (!file) continue;
    if (fscanf(file, "%ld (%31[^)]) %*c %ld", &pid, name, &above) == 3 && above == parent &&
        (strcmp(name, "braid") == 0 || strcmp(name, "exe") == 0)) /* braid executes itself by /proc/self/exe */
      found = (pid_t)pid;
    fclose(file);
  }
  closedir(all);
  return found;
}

/* One process is killed: the others end, and what was saved goes on. */
static void test_killed(void **state) {
  (void)state;
  need_launcher();
  outcome o = {0};
  pid_t process = 0;
  for (int attempt = 0; attempt < 10 && !process;
       attempt++) { /* on a busy machine training may end before it is found */
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s %s", in_folder("ended"), in_folder("ended.ledger"));
    assert_int_equal(system(command), 0);
    pid_t child = launch_program(BRAID_COMMAND, 2, INTEGERS "--out $/ended --ledger $/ended.ledger --epochs 3");
    await_file(in_folder("ended/checkpoint-0000000003.braid"));
    process = child_of(child);
    if (process && kill(process, SIGKILL) != 0) process = 0;
    o = finish(child);
    if (!o.code) process = 0;
    if (!process) discard(&o);
  }
  if (!process) fail_msg("no process was found while it trained");
  if (!strstr(o.err, "signal 9") && !strstr(o.err, "lost")) fail_msg("neither the launcher nor we say it: %s", o.err);
  discard(&o);
  expect_trained(2, INTEGERS "--out $/ended --ledger $/ended.ledger --resume");
  expect_same_file(in_folder("whole.ledger"), in_folder("ended.ledger"));
}

static void test_refused(void **state) {
  (void)state;
  need_launcher();
  expect_refused(BRAID_COMMAND, 2, TRAIN "--nonsense", 2, "unrecognized option");
  expect_refused(BRAID_COMMAND, 2, "train nothere.cfg " DATA, 2, "nothere.cfg: cannot open");
  expect_refused(BRAID_COMMAND, 3, "train " GLYPHS " " DATA "--batch 2 --out $/few", 2, "each needs a sample");
  expect_refused(BRAID_COMMAND, 2, "train " GLYPHS " " DATA "--find-lr --out $/rate", 2,
                 "--find-lr is for one process");
  expect_refused(BRAID_COMMAND, 2, TRAIN "--class-weights balanced --out $/weighted", 2,
                 "class weights of cross entropy");
}

/* Never as many trainings as processes. */
static void test_no_module(void **state) {
  (void)state;
  need_launcher();
  char command[3 * PATH_MAX];
  snprintf(command, sizeof command, "mkdir %s/alone && cp %s %s/alone/braid", folder, BRAID_COMMAND, folder);
  assert_int_equal(system(command), 0);
  expect_refused(in_folder("alone/braid"), 2, INTEGERS "--out $/none", 2, "there is no libbraid_mpi.so");
  assert_int_not_equal(access(in_folder("none"), F_OK), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ledgers),  cmocka_unit_test(test_floats),
                                     cmocka_unit_test(test_one),      cmocka_unit_test(test_interrupted),
                                     cmocka_unit_test(test_killed),   cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_no_module)};
  return skip_run_group_tests(tests, begin, remove_folder);
}
