/* The braid command as a whole, as people and scripts meet it: exit codes, one JSON document, sentences about bad
 * input, progress on terminals alone, interruption, and runs that are killed and resumed. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"

#define GLYPHS BRAID_MODELS "/glyphs.cfg"
#define PICTURE BRAID_PICTURES "/heart.png"

enum { MOST_ARGUMENTS = 40, MOST_TEXT = 1 << 20 };

/* What a command left behind. */
typedef struct outcome {
  int code; /* exit code, or 128 + signal */
  char *out, *err;
} outcome;

static char folder[] = "/tmp/braid-cli-XXXXXX";

static const char *in_folder(const char *name) {
  static char paths[8][PATH_MAX];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, PATH_MAX, "%s/%s", folder, name);
  return path;
}

static void put_file(const char *path, const void *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
}

static char *get_file(const char *path, size_t *count) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s: %s", path, strerror(errno));
  char *text = malloc(MOST_TEXT + 1);
  assert_non_null(text);
  size_t got = fread(text, 1, MOST_TEXT, file);
  assert_true(got < MOST_TEXT);
  text[got] = '\0';
  fclose(file);
  if (count) *count = got;
  return text;
}

/* Splits at blanks; "$" at a word's beginning stands for the test's folder. */
static int split(char *line, char **arguments) {
  int count = 0;
  arguments[count++] = (char *)"braid";
  for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
    assert_true(count < MOST_ARGUMENTS - 1);
    char *dollar = strchr(word, '$');
    if (dollar) {
      char *whole;
      assert_true(asprintf(&whole, "%.*s%s%s", (int)(dollar - word), word, folder, dollar + 1) > 0);
      arguments[count++] = whole;
    } else {
      arguments[count++] = strdup(word);
    }
  }
  arguments[count] = NULL;
  return count;
}

static unsigned child_seconds; /* after which a child is ended; 0: never */

static pid_t start(const char *line, const char *in, const char *out, const char *err) {
  char *copy = strdup(line), *arguments[MOST_ARGUMENTS];
  int count = split(copy, arguments);
  free(copy);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    const char *paths[] = {in, out, err};
    for (int i = 0; i < 3; i++) {
      int file = open(paths[i], i ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0666);
      if (file < 0 || dup2(file, i) < 0) _exit(126);
      close(file);
    }
    alarm(child_seconds);
    execv(BRAID_COMMAND, arguments);
    _exit(127);
  }
  for (int i = 1; i < count; i++) free(arguments[i]);
  return child;
}

static int await(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static outcome run(const char *line) {
  const char *out = in_folder("out"), *err = in_folder("err");
  outcome o = {.code = await(start(line, "/dev/null", out, err))};
  o.out = get_file(out, NULL);
  o.err = get_file(err, NULL);
  return o;
}

static void discard(outcome *o) {
  free(o->out);
  free(o->err);
}

static void nap(double seconds) {
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

/* --- JSON: after RFC 8259 ------------------------------------------------------------------------------------------
 */
static const char *skip_blanks(const char *s) {
  while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r') s++;
  return s;
}

static const char *json_string(const char *s) {
  if (*s++ != '"') return NULL;
  for (; *s != '"'; s++) {
    if ((unsigned char)*s < 0x20) return NULL;
    if (*s != '\\') continue;
    s++;
    if (*s == 'u') {
      for (int i = 1; i <= 4; i++)
        if (!isxdigit((unsigned char)s[i])) return NULL;
      s += 4;
    } else if (!*s || !strchr("\"\\/bfnrt", *s)) {
      return NULL;
    }
  }
  return s + 1;
}

static const char *json_number(const char *s) {
  s += *s == '-';
  if (!isdigit((unsigned char)*s) || (*s == '0' && isdigit((unsigned char)s[1]))) return NULL;
  while (isdigit((unsigned char)*s)) s++;
  if (*s == '.') {
    if (!isdigit((unsigned char)*++s)) return NULL;
    while (isdigit((unsigned char)*s)) s++;
  }
  if (*s == 'e' || *s == 'E') {
    s++;
    s += *s == '+' || *s == '-';
    if (!isdigit((unsigned char)*s)) return NULL;
    while (isdigit((unsigned char)*s)) s++;
  }
  return s;
}

/* The end of the value at `s`, or NULL if it is none. */
static const char *json_value(const char *s, int depth) {
  s = skip_blanks(s);
  static const char *const words[] = {"true", "false", "null"};
  for (int i = 0; i < 3; i++)
    if (strncmp(s, words[i], strlen(words[i])) == 0) return s + strlen(words[i]);
  if (*s == '"') return json_string(s);
  if (*s != '{' && *s != '[') return json_number(s);
  char end = *s == '{' ? '}' : ']';
  if (depth > 32) return NULL;
  s = skip_blanks(s + 1);
  if (*s == end) return s + 1;
  for (;;) {
    if (end == '}') {
      s = json_string(skip_blanks(s));
      if (!s) return NULL;
      s = skip_blanks(s);
      if (*s++ != ':') return NULL;
    }
    s = json_value(s, depth + 1);
    if (!s) return NULL;
    s = skip_blanks(s);
    if (*s == end) return s + 1;
    if (*s++ != ',') return NULL;
  }
}

static bool is_one_document(const char *text) {
  const char *end = *skip_blanks(text) == '{' ? json_value(text, 0) : NULL;
  return end && !*skip_blanks(end);
}

/* --- usage and input -----------------------------------------------------------------------------------------------
 */
/* Runs a line as it is and with --json, and checks the code and that one sentence holds `detail`. */
static void expect_failure(const char *line, int code, const char *detail) {
  char with_json[1024];
  snprintf(with_json, sizeof with_json, "%s --json", line);
  for (int i = 0; i < 2; i++) {
    outcome o = run(i ? with_json : line);
    if (o.code != code) fail_msg("braid %s: code %d, not %d: %s", line, o.code, code, o.err);
    if (!strstr(o.err, detail)) fail_msg("braid %s: \"%s\" is not in: %s", line, detail, o.err);
    if (i && !is_one_document(o.out)) fail_msg("braid %s: not one JSON document: %s", with_json, o.out);
    if (i && !strstr(o.out, "\"error\"")) fail_msg("braid %s: no error in: %s", with_json, o.out);
    if (!i && o.out[0]) fail_msg("braid %s: on standard output: %s", line, o.out);
    discard(&o);
  }
}

static void test_usage(void **state) {
  (void)state;
  static const char *const commands[] = {"train", "test", "run", "inspect", "bench", "devices", "conformance"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    char line[64];
    snprintf(line, sizeof line, "%s --help", commands[i]);
    outcome o = run(line);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "Usage: braid "));
    assert_string_equal(o.err, "");
    discard(&o);
    snprintf(line, sizeof line, "%s --nonsense", commands[i]);
    expect_failure(line, 2, "--nonsense");
  }
  expect_failure("trian", 2, "did you mean \"train\"");
  expect_failure("run", 2, "a model is expected");
  expect_failure("run " GLYPHS, 2, "an --input is expected");
  expect_failure("inspect " GLYPHS " second", 2, "second");
  expect_failure("devices cpu", 2, "no argument is expected");
  expect_failure("devices --check nothing", 2, "there is no device nothing");
  expect_failure("bench " GLYPHS " --runs 1e3", 2, "a whole number from 1");
  expect_failure("bench " GLYPHS " --device gpu7", 2, "there is no device gpu7");
  expect_failure("bench " GLYPHS " --shape 3xx2", 2, "dimensions like");
  expect_failure("test " GLYPHS, 2, "--data SPEC is expected");
  expect_failure("train " GLYPHS " --data builtin:glyphs --lr fast", 2, "a number of at least 0");
  expect_failure("train " GLYPHS " --data builtin:glyphs --optimizer rms", 2, "sgd, adam, adamw");
  expect_failure("train " GLYPHS " --data builtin:glyphs --resume", 2, "--resume needs --out");
  outcome o = run("run " GLYPHS " --input - --output - --json");
  assert_int_equal(o.code, 2);
  assert_non_null(strstr(o.err, "both want standard output"));
  discard(&o);
}

static void test_bad_input(void **state) {
  (void)state;
  static const char doubles[] = "\x93NUMPY\x01\x00\x3d\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"
                                "   \n12345678abcdefg";
  put_file(in_folder("empty.onnx"), "", 0);
  put_file(in_folder("junk.onnx"), "this is no model at all", 23);
  put_file(in_folder("junk.cfg"), "[net]\nwidth=banana\n", 19);
  put_file(in_folder("junk.png"), "\x89PNG\r\n\x1a\n....", 12);
  put_file(in_folder("short.npy"), "\x93NUMPY\x01\x00v\x00{'descr'", 19);
  put_file(in_folder("labels"), "one\ntwo\n", 8);
  expect_failure("inspect $/nothing.onnx", 2, "nothing.onnx: cannot open");
  expect_failure("inspect $", 2, "is a folder");
  expect_failure("inspect $/empty.onnx", 2, "empty.onnx");
  expect_failure("inspect $/junk.onnx", 2, "junk.onnx");
  expect_failure("inspect $/junk.cfg", 2, "junk.cfg:2");
  expect_failure("inspect " GLYPHS " --weights $/short.npy", 2, "short.npy");
  expect_failure("run " GLYPHS " --input -", 2, "standard input is empty");
  expect_failure("run " GLYPHS " --input $/junk.png", 2, "junk.png");
  expect_failure("run " GLYPHS " --input $/short.npy", 2, "short.npy");
  put_file(in_folder("doubles.npy"), doubles, sizeof doubles);
  expect_failure("run " GLYPHS " --input $/doubles.npy", 2, "doubles.npy holds float64[2]");
  expect_failure("inspect " GLYPHS " --shape 1x3x4x99999999999", 2, "glyphs.cfg: ");
  expect_failure("run " GLYPHS " --input " PICTURE " --labels $/labels", 2, "2 labels, the model has 10 classes");
  expect_failure("run " GLYPHS " --input " PICTURE " --output $/y.npy --output no=$/z.npy", 2,
                 "no output named \"no\"");
  assert_int_equal(access(in_folder("y.npy"), F_OK), -1); /* nothing was written before that was known */
  expect_failure("test " GLYPHS " --data idx:$/nothing", 2, "nothing");
  expect_failure("test " GLYPHS " --data builtin:glyphs,std=0", 2, "std=0");
  expect_failure("train " GLYPHS " --data builtin:glyphs,limit=10", 2, "10 samples");
  expect_failure("conformance $/nothing", 2, "nothing");
}

/* A FIFO that nobody writes to: opening one as files are opened would wait for ever. */
static void test_fifos(void **state) {
  (void)state;
  static const char *const fifos[] = {"fifo.onnx",
                                      "fifo.cfg",
                                      "fifo",
                                      "fifos/train-images-idx3-ubyte",
                                      "fifos/t10k-images-idx3-ubyte",
                                      "fifos/test_batch.bin",
                                      "fifos/ant/1.png",
                                      "fifos/checkpoint-0000000001.braid"};
  assert_int_equal(mkdir(in_folder("fifos"), 0777), 0);
  assert_int_equal(mkdir(in_folder("fifos/ant"), 0777), 0);
  for (size_t i = 0; i < sizeof fifos / sizeof *fifos; i++) assert_int_equal(mkfifo(in_folder(fifos[i]), 0666), 0);
  child_seconds = 60;
  expect_failure("inspect $/fifo.onnx", 2, "fifo.onnx: is a FIFO");
  expect_failure("inspect $/fifo.cfg", 2, "fifo.cfg: is a FIFO");
  expect_failure("inspect " GLYPHS " --weights $/fifo", 2, "fifo: is a FIFO");
  expect_failure("run " GLYPHS " --input $/fifo", 2, "fifo: is no regular file");
  expect_failure("run " GLYPHS " --input " PICTURE " --labels $/fifo", 2, "fifo: is no regular file");
  expect_failure("run " GLYPHS " --input " PICTURE " --platform $/fifo", 2, "fifo: is a FIFO");
  expect_failure("run " GLYPHS " --input " PICTURE " --plugin $/fifo", 2, "fifo: is no regular file");
  expect_failure("test " GLYPHS " --data idx:$/fifos", 2, "t10k-images-idx3-ubyte: is a FIFO");
  expect_failure("test " GLYPHS " --data cifar10:$/fifos", 2, "test_batch.bin: is a FIFO");
  expect_failure("test " GLYPHS " --data npy:$/fifo+$/fifo", 2, "fifo: is a FIFO");
  expect_failure("train " GLYPHS " --data images:$/fifos --test builtin:glyphs", 2, "1.png: is a FIFO");
  expect_failure("train " GLYPHS " --data builtin:glyphs,limit=200 --epochs 1 --out $/fifos --resume", 2,
                 "checkpoint-0000000001.braid: is a FIFO");
  child_seconds = 0;
}

/* Pipes that the command has been given open are read, whatever is in them. */
static void test_pipes(void **state) {
  (void)state;
  enum { HEAD = 128, PIXELS = 3 * 32 * 32 };
  static const char kHead[] =
      "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 32, 32)}";
  static char array[HEAD + PIXELS * 4];
  memset(array, ' ', HEAD);
  memcpy(array, kHead, sizeof kHead - 1);
  put_file(in_folder("x.npy"), array, sizeof array);
  const char *files[] = {PICTURE, in_folder("x.npy")}, *names[] = {"-", "/dev/stdin", "/dev/fd/0"};
  for (size_t i = 0; i < 6; i++) {
    char *command;
    assert_true(asprintf(&command, "cat %s | %s run %s --input %s --top 1 > %s", files[i % 2], BRAID_COMMAND, GLYPHS,
                         names[i / 2], in_folder("out")) > 0);
    if (system(command) != 0) fail_msg("%s", command);
    free(command);
  }
}

static void test_json(void **state) {
  (void)state;
  static const char *const lines[] = {
      "devices",
      "devices --check null",
      "inspect " GLYPHS,
      "bench " GLYPHS " --runs 2",
      "run " GLYPHS " --input " PICTURE " --top 3 --explain --bench 2",
      "test " GLYPHS " --data builtin:glyphs,limit=100",
      "train " GLYPHS " --data builtin:glyphs,limit=64 --epochs 1 --batch 32",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char line[512];
    snprintf(line, sizeof line, "%s --json", lines[i]);
    outcome o = run(line);
    if (o.code != 0) fail_msg("braid %s: code %d: %s", line, o.code, o.err);
    if (!is_one_document(o.out)) fail_msg("braid %s: not one JSON document: %s", line, o.out);
    discard(&o);
  }
}

/* /dev/full takes nothing, as a full disk does. */
static void test_full_disk(void **state) {
  (void)state;
  struct stat about;
  if (stat("/dev/full", &about) != 0 || !S_ISCHR(about.st_mode)) skip_test("system", "there is no /dev/full");
  expect_failure("inspect " GLYPHS " --svg /dev/full", 1, "/dev/full");
  expect_failure("bench " GLYPHS " --runs 2 --trace /dev/full", 1, "/dev/full");
  expect_failure("run " GLYPHS " --input " PICTURE " --output /dev/full", 1, "/dev/full");
  assert_int_equal(stat("/dev/full", &about), 0);
  assert_true(S_ISCHR(about.st_mode)); /* and is what it was */
  assert_int_equal(await(start("devices", "/dev/null", "/dev/full", in_folder("err"))), 1);
  assert_int_equal(await(start("inspect --json " GLYPHS, "/dev/null", "/dev/full", in_folder("err"))), 1);
  outcome o = run("bench " GLYPHS " --runs 2 --trace $/nowhere/trace.json");
  assert_int_not_equal(o.code, 0);
  assert_non_null(strstr(o.err, "nowhere/trace.json"));
  discard(&o);
}

/* --- terminals and interruption ------------------------------------------------------------------------------------
 */
static void test_terminal(void **state) {
  (void)state;
  int terminal;
  pid_t child = forkpty(&terminal, NULL, NULL, NULL);
  if (child < 0) skip_test("system", "no terminal can be made here: %s", strerror(errno));
  if (child == 0) {
    execl(BRAID_COMMAND, "braid", "bench", GLYPHS, "--runs", "1000000", (char *)NULL);
    _exit(127);
  }
  char *text = calloc(1, MOST_TEXT);
  bool interrupted = false;
  size_t used = 0;
  for (ssize_t got; used < MOST_TEXT - 1 && (got = read(terminal, text + used, MOST_TEXT - 1 - used)) > 0;) {
    used += (size_t)got;
    if (interrupted || !strstr(text, " left")) continue;
    assert_int_equal(write(terminal, "\x03", 1), 1); /* Ctrl-C */
    interrupted = true;
  }
  close(terminal);
  assert_int_equal(await(child), 130);
  assert_non_null(strstr(text, "\r"));
  assert_non_null(strstr(text, "/1000000"));
  assert_non_null(strstr(text, "interrupted after"));
  free(text);
}

#define TRAIN                                                                                                          \
  "train " GLYPHS " --data builtin:glyphs,limit=640 --test builtin:glyphs,limit=320 --epochs 3 --batch 32 "            \
  "--checkpoint-steps 3 --threads 1 "

/* The trained model's bytes of a run that nothing disturbed. */
static char *undisturbed(size_t *count) {
  outcome o = run(TRAIN "--out $/whole");
  if (o.code != 0) fail_msg("%s", o.err);
  assert_null(strchr(o.err, '\r')); /* no bar on what is no terminal */
  discard(&o);
  return get_file(in_folder("whole/model.onnx"), count);
}

static void expect_same_model(const char *path, const char *bytes, size_t count) {
  size_t found;
  char *model = get_file(path, &found);
  assert_int_equal(found, count);
  assert_memory_equal(model, bytes, count);
  free(model);
}

static void test_interrupted(void **state) {
  (void)state;
  size_t count;
  char *whole = undisturbed(&count);
  for (int i = 0;; i++) {
    assert_true(i < 100);
    pid_t child = start(TRAIN "--out $/stopped --resume", "/dev/null", in_folder("out"), in_folder("err"));
    nap(0.2 + 0.05 * i); /* on a busy machine the first ones end before an epoch is done */
    kill(child, SIGINT);
    int code = await(child);
    char *err = get_file(in_folder("err"), NULL);
    bool stopped = code == 130 && strstr(err, "interrupted in epoch");
    if (!stopped && code != 0) fail_msg("code %d: %s", code, err);
    free(err);
    if (code == 0) break;
  }
  expect_same_model(in_folder("stopped/model.onnx"), whole, count);
  free(whole);
}

static void test_killed(void **state) {
  (void)state;
  size_t count;
  char *whole = undisturbed(&count);
  uint32_t random = 20240521;
  print_message("seed %u\n", (unsigned)random);
  int code = 1;
  for (int i = 0; code != 0; i++) {
    assert_true(i < 200);
    random = random * 1664525u + 1013904223u;
    pid_t child = start(TRAIN "--out $/killed --resume", "/dev/null", in_folder("out"), in_folder("err"));
    nap(0.05 + (random >> 16) / 65536.0 * 0.3 + i * 0.01);
    kill(child, SIGKILL);
    code = await(child);
    assert_true(code == 0 || code == 128 + SIGKILL);
  }
  expect_same_model(in_folder("killed/model.onnx"), whole, count);
  free(whole);
}

/* --- resuming ------------------------------------------------------------------------------------------------------
 */
#define SHORT "train " GLYPHS " --data builtin:glyphs,limit=64 --no-test --batch 32 "

static void test_resume(void **state) {
  (void)state;
  outcome o = run(SHORT "--epochs 2 --out $/r --resume");
  assert_int_equal(o.code, 0);
  assert_non_null(strstr(o.err, "holds no checkpoint"));
  discard(&o);
  o = run(SHORT "--epochs 3 --lr 0.01 --out $/r --resume");
  assert_int_equal(o.code, 0);
  assert_non_null(strstr(o.err, "another learning rate: 0.01, it was 0.05"));
  assert_non_null(strstr(o.err, "another number of epochs: 3, it was 2"));
  assert_non_null(strstr(o.out, "epoch 3/3"));
  assert_null(strstr(o.out, "epoch 2/3"));
  discard(&o);
  expect_failure(SHORT "--epochs 4 --seed 9 --out $/r --resume", 2, "its seed differs");
  expect_failure(SHORT "--epochs 4 --optimizer adam --out $/r --resume", 2, "of another run");
  /* Starting over leaves nothing of the earlier run to be resumed by mistake. */
  o = run(SHORT "--epochs 1 --out $/r");
  assert_int_equal(o.code, 0);
  assert_non_null(strstr(o.err, "checkpoints of an earlier run"));
  assert_int_equal(access(in_folder("r/checkpoint-0000000002.braid"), F_OK), 0);
  assert_int_equal(access(in_folder("r/checkpoint-0000000006.braid"), F_OK), -1);
  assert_int_equal(access(in_folder("r/earlier/checkpoint-0000000006.braid"), F_OK), 0);
  discard(&o);
  put_file(in_folder("r/checkpoint-0000000002.braid"), "BRAIDCKP", 8);
  expect_failure(SHORT "--epochs 2 --out $/r --resume", 2, "checkpoint-0000000002.braid");
}

static void test_not_finite(void **state) {
  (void)state;
  expect_failure("train " GLYPHS " --data builtin:glyphs,limit=512 --no-test --batch 32 --epochs 1 --lr 1e9", 1,
                 "epoch 1, step ");
}

/* --- the program ---------------------------------------------------------------------------------------------------
 */
static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_usage),    cmocka_unit_test(test_bad_input),   cmocka_unit_test(test_fifos),
      cmocka_unit_test(test_pipes),    cmocka_unit_test(test_json),        cmocka_unit_test(test_full_disk),
      cmocka_unit_test(test_terminal), cmocka_unit_test(test_interrupted), cmocka_unit_test(test_killed),
      cmocka_unit_test(test_resume),   cmocka_unit_test(test_not_finite),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
