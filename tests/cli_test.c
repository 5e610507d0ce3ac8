/* The braid command as a whole, as people and scripts meet it: exit codes, one JSON document, sentences about bad
 * input, progress on terminals alone, interruption. */
#include <poll.h>
#include <pty.h>
#include <termios.h>

#include "braid/tensor.h"
#include "clicheck.h"
#include "skip.h"

/* --- usage and input -----------------------------------------------------------------------------------------------
 */
/* argp shows every key that is a printable character as an option's short form. */
static void expect_plain_letters(const char *help) {
  for (const char *line = help; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, "  -", 3) != 0 || line[3] == '-') continue;
    if (!isalnum((unsigned char)line[3]) && line[3] != '?') fail_msg("-%c is an option: %.60s", line[3], line);
  }
}

static void test_usage(void **state) {
  (void)state;
  static const char *const commands[] = {"train",   "test",     "run",         "quantize", "inspect",
                                         "bench",   "devices",  "conformance", "explore",  "evaluate",
                                         "compile", "simulate", "share"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    char line[64];
    snprintf(line, sizeof line, "%s --help", commands[i]);
    outcome o = run(line);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "Usage: braid "));
    assert_string_equal(o.err, "");
    expect_plain_letters(o.out);
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
  expect_failure("devices --check null --case Nonsense", 2, "no case has \"Nonsense\" in its name");
  expect_failure("bench " GLYPHS " --runs 1e3", 2, "a whole number from 1");
  expect_failure("bench " GLYPHS " --device gpu7", 2, "there is no device gpu7");
  expect_failure("bench " GLYPHS " --shape 3xx2", 2, "dimensions like");
  expect_failure("test " GLYPHS, 2, "--data SPEC is expected");
  expect_failure("train " GLYPHS " --data builtin:glyphs --lr fast", 2, "a number of at least 0");
  expect_failure("train " GLYPHS " --data builtin:glyphs --optimizer rms", 2, "sgd, adam, adamw");
  expect_failure("train " GLYPHS " --data builtin:glyphs --resume", 2, "--resume needs --out");
  outcome o = run("run " GLYPHS " --input - --output - --json");
  assert_int_equal(o.code, 2);
  assert_non_null(strstr(o.err, "both use standard output"));
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
  put_file(in_folder("labels"), "one\0two\n", 8);
  expect_failure("run " GLYPHS " --input " PICTURE " --labels $/labels", 2, "labels: contains a byte of value 0");
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
  expect_failure("run " GLYPHS " --input $/fifo", 2, "fifo: is not a regular file");
  expect_failure("run " GLYPHS " --input " PICTURE " --labels $/fifo", 2, "fifo: is not a regular file");
  expect_failure("run " GLYPHS " --input " PICTURE " --platform $/fifo", 2, "fifo: is a FIFO");
  expect_failure("run " GLYPHS " --input " PICTURE " --plugin $/fifo", 2, "fifo: is not a regular file");
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
      "run " GLYPHS " --input " PICTURE " --save-plan /tmp/braid-cli-test.plan",
      "run " GLYPHS " --input " PICTURE " --plan /tmp/braid-cli-test.plan",
      "inspect /tmp/braid-cli-test.plan",
      "inspect /tmp/braid-cli-test.plan --against /tmp/braid-cli-test.plan",
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

/* --- saved plans ---------------------------------------------------------------------------------------------------
 */
static outcome run_well(const char *line) {
  outcome o = run(line);
  if (o.code != 0) fail_msg("braid %s: code %d: %s", line, o.code, o.err);
  return o;
}

/* Whoever explains a plan and saves it sees the offers, whoever loads it the choices with their reasons. */
static void test_explained_plans(void **state) {
  (void)state;
  outcome o = run_well("run " GLYPHS " --input " PICTURE " --explain --save-plan $/explained.plan");
  assert_non_null(strstr(o.out, "  + cpu "));
  assert_non_null(strstr(o.out, "  * cpu "));
  discard(&o);
  o = run_well("run " GLYPHS " --input " PICTURE " --explain --plan $/explained.plan");
  assert_null(strstr(o.out, "  + cpu "));
  assert_non_null(strstr(o.out, "not the other candidates"));
  assert_non_null(strstr(o.out, ": first capable device"));
  discard(&o);
  o = run_well("run " GLYPHS " --input " PICTURE " --explain --json --plan $/explained.plan");
  assert_true(is_one_document(o.out));
  assert_non_null(strstr(o.out, "\"plan_loaded_from\""));
  discard(&o);
}

/* Lines end where the terminal does, between words, and say the same. */
static void test_columns(void **state) {
  (void)state;
  outcome o = run_well("run " GLYPHS " --input " PICTURE " --save-plan $/columns.plan"), wide, narrow;
  discard(&o);
  wide = run_well("inspect $/columns.plan");
  assert_int_equal(setenv("COLUMNS", "40", 1), 0);
  narrow = run_well("inspect $/columns.plan");
  assert_int_equal(unsetenv("COLUMNS"), 0);
  assert_true(strlen(wide.out) > 1000);
  for (const char *at = narrow.out; *at; at += strcspn(at, "\n") + 1) assert_true(strcspn(at, "\n") <= 40);
  const char *a = wide.out, *b = narrow.out;
  for (; *a || *b; a++, b++) {
    a += strspn(a, " \n");
    b += strspn(b, " \n");
    assert_int_equal(*a, *b);
    if (!*a) break;
  }
  discard(&wide);
  discard(&narrow);
}

/* Every command that runs a model by a plan. A plan is for one batch. */
static void test_commands_with_plans(void **state) {
  (void)state;
  static const char *const lines[] = {"run " GLYPHS " --input " PICTURE, "bench " GLYPHS " --runs 2",
                                      "bench " GLYPHS " --batch 3 --runs 2",
                                      "test " GLYPHS " --data builtin:glyphs,limit=100"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char line[512];
    outcome o;
    snprintf(line, sizeof line, "%s --save-plan $/commands.plan", lines[i]);
    o = run_well(line);
    discard(&o);
    snprintf(line, sizeof line, "%s --plan $/commands.plan", lines[i]);
    o = run_well(line);
    discard(&o);
    expect_failure("bench " GLYPHS " --batch 2 --runs 2 --plan $/commands.plan", 2, "made for something else");
    snprintf(line, sizeof line, "%s --plan $/commands.plan --no-fusion", lines[i]);
    expect_failure(line, 2, "part of the plan");
    snprintf(line, sizeof line, "%s --plan $/nowhere.plan", lines[i]);
    expect_failure(line, 2, "nowhere.plan");
  }
}

/* No option is without effect and without a word. */
static void test_inspect_options(void **state) {
  (void)state;
  outcome o = run_well("run " GLYPHS " --input " PICTURE " --save-plan $/inspected.plan");
  discard(&o);
  static const char *const options[] = {"--svg $/a.svg",    "--place *=cpu",  "--device cpu", "--threads 1",
                                        "--trace $/a.json", "--platform $/p", "--plugin $/p", "--no-fusion",
                                        "--train",          "--weights $/w",  "--shape 1x1x1"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    char line[512];
    snprintf(line, sizeof line, "inspect $/inspected.plan %s", options[i]);
    expect_failure(line, 2, "is a saved plan: --");
    snprintf(line, sizeof line, "inspect $/inspected.plan --against $/inspected.plan %s", options[i]);
    expect_failure(line, 2, "--against compares two saved plans: --");
    snprintf(line, sizeof line, "inspect " GLYPHS " --train %s", options[i]);
    if (i < 8) expect_failure(line, 2, i ? "has no effect with --train" : "combined with --train");
  }
  assert_int_not_equal(access(in_folder("a.svg"), F_OK), 0);
  expect_failure("inspect " GLYPHS " --against $/inspected.plan", 2, "is no saved plan");
  expect_failure("inspect $/inspected.plan --model-seed 3", 2, "--model-seed");
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

/* Every option that writes a file, for every command that has it: a file that cannot be written is the work's failure.
 */
static void test_unwritable(void **state) {
  (void)state;
  static const char *const options[] = {
      "inspect " GLYPHS " --svg ",
      "inspect " GLYPHS " --trace ",
      "bench " GLYPHS " --runs 2 --trace ",
      "run " GLYPHS " --input " PICTURE " --trace ",
      "run " GLYPHS " --input " PICTURE " --output ",
      "test " GLYPHS " --data builtin:glyphs,limit=100 --trace ",
      "test " GLYPHS " --data builtin:glyphs,limit=100 --save-plan ",
      "bench " GLYPHS " --runs 2 --save-plan ",
      "train " GLYPHS " --data builtin:glyphs,limit=64 --batch 32 --epochs 1 --out $/unwritable --trace ",
      "train " GLYPHS " --data builtin:glyphs,limit=64 --batch 32 --epochs 1 --out ",
  };
  put_file(in_folder("file"), "", 0);
  static const char *const paths[] = {"$/nowhere/to/put", "$/file/below", "/proc/file", "$"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
      char line[600];
      bool makes_folders = strstr(options[i], "--out ") && !strstr(options[i], "--trace");
      if (makes_folders && (k == 0 || k == 3)) continue;
      snprintf(line, sizeof line, "%s%s", options[i], paths[k]);
      expect_failure(line, 1, makes_folders ? "cannot create the folder" : paths[k] + (paths[k][0] == '$'));
    }
  outcome o = run("inspect " GLYPHS " --trace $/trace.json");
  assert_int_equal(o.code, 0);
  assert_int_equal(access(in_folder("trace.json"), R_OK), 0);
  discard(&o);
  expect_failure("inspect " GLYPHS " --train --trace $/trace.json", 2, "--trace has no effect with --train");
  expect_failure("inspect " GLYPHS " --train --svg $/net.svg", 2, "combined with --train");
}

/* Files that no memory holds, and pipes without an end. */
static void test_huge(void **state) {
  (void)state;
  static const char *const names[] = {
      "huge.png",       "huge/train-images-idx3-ubyte",    "huge/t10k-images-idx3-ubyte", "huge/test_batch.bin",
      "huge/ant/1.png", "huge/checkpoint-0000000001.braid"};
  assert_int_equal(mkdir(in_folder("huge"), 0777), 0);
  assert_int_equal(mkdir(in_folder("huge/ant"), 0777), 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    put_file(in_folder(names[i]), "\x89PNG\r\n\x1a\n", 8);
    if (truncate(in_folder(names[i]), (off_t)1 << 40) != 0) skip_test("system", "a file system without sparse files");
  }
  child_seconds = 60;
  expect_failure("run " GLYPHS " --input $/huge.png", 2, "huge.png: larger than");
  expect_failure("run " GLYPHS " --input " PICTURE " --labels $/huge.png", 2, "huge.png: more than 16 MiB");
  expect_failure("test " GLYPHS " --data idx:$/huge", 2, "t10k-images-idx3-ubyte: larger than");
  expect_failure("test " GLYPHS " --data cifar10:$/huge", 2, "test_batch.bin: larger than");
  expect_failure("train " GLYPHS " --data images:$/huge --test builtin:glyphs", 2, "1.png: larger than");
  expect_failure("train " GLYPHS " --data builtin:glyphs,limit=200 --epochs 1 --out $/huge --resume", 2,
                 "checkpoint-0000000001.braid: larger than");
  child_seconds = 0;
  static const char *const endless[] = {"run " GLYPHS " --input -", "inspect -",
                                        "test " GLYPHS " --data npy:/dev/stdin+/dev/stdin"};
  for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
    char *command;
    assert_true(asprintf(&command, "yes | timeout 240 %s %s 2> %s", BRAID_COMMAND, endless[i], in_folder("err")) > 0);
    int status = system(command);
    char *err = get_file(in_folder("err"), NULL);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 2 || !strstr(err, "2 GiB")) fail_msg("%s: %s", command, err);
    free(err);
    free(command);
  }
}

/* --- terminals and interruption ------------------------------------------------------------------------------------
 */
/* True while there is something to read: waits for it as long as the command runs, and once it has ended only for what
 * the kernel has not passed on yet. */
static bool readable(int terminal, pid_t child) {
  for (;;) {
    siginfo_t ended = {0};
    bool over = waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == child;
    if (poll(&(struct pollfd){.fd = terminal, .events = POLLIN}, 1, over ? 200 : 20) > 0) return true;
    if (over) return false;
  }
}

/* What the command writes to a terminal of so many columns; ended by Ctrl-C once `until` is seen ("": after a bar would
 * have been shown; NULL: by itself). */
static char *on_terminal(unsigned short columns, const char *kind, const char *line, const char *until, int code) {
  int terminal;
  char *copy = strdup(line), *arguments[MOST_ARGUMENTS];
  int count = split(copy, arguments);
  pid_t child = forkpty(&terminal, NULL, NULL, &(struct winsize){.ws_row = 24, .ws_col = columns});
  if (child < 0) skip_test("system", "no terminal can be made here: %s", strerror(errno));
  if (child == 0) {
    struct termios settings; /* Ctrl-C is not to be shown behind the bar */
    if (tcgetattr(STDIN_FILENO, &settings) == 0) {
      settings.c_lflag &= ~(tcflag_t)ECHO;
      (void)tcsetattr(STDIN_FILENO, TCSANOW, &settings);
    }
    setenv("TERM", kind, 1);
    execv(BRAID_COMMAND, arguments);
    _exit(127);
  }
  /* The other end stays open here, or what was not read when the command ends may be lost with it. */
  int held = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  assert_true(held >= 0);
  char *text = calloc(1, MOST_TEXT);
  size_t used = 0;
  if (until && !*until) {
    nap(2.5);
    assert_int_equal(write(terminal, "\x03", 1), 1);
  }
  while (used < MOST_TEXT - 1 && readable(terminal, child)) {
    ssize_t got = read(terminal, text + used, MOST_TEXT - 1 - used);
    if (got <= 0) break;
    used += (size_t)got;
    if (!until || !*until || !strstr(text, until)) continue;
    assert_int_equal(write(terminal, "\x03", 1), 1); /* Ctrl-C */
    until = NULL;
  }
  close(held);
  close(terminal);
  if (await(child) != code) fail_msg("%s: not code %d: %s", line, code, text);
  for (int i = 1; i < count; i++) free(arguments[i]);
  free(copy);
  return text;
}

/* No line has more columns, nor stands in the last one while it moves; nothing but the clearing of a line is a command
 * to the terminal. */
static void check_lines(const char *text, size_t columns) {
  size_t used = 0;
  bool moves = false;
  for (const char *at = text; *at; at++) {
    if (*at == '\r' || *at == '\n') {
      moves = *at == '\r' && at[1] != '\n';
      used = 0;
    } else if (*at == '\033') {
      assert_memory_equal(at, "\033[K", 3);
      at += 2;
    } else if ((*at & 0xc0) != 0x80 && ++used > columns - moves) {
      fail_msg("more than %zu columns: %.200s", columns, at > text + 150 ? at - 150 : text);
    }
  }
}

static void test_terminal(void **state) {
  (void)state;
  char *text = on_terminal(80, "xterm", "bench " GLYPHS " --runs 1000000", " left", 130);
  assert_non_null(strstr(text, "\r"));
  assert_non_null(strstr(text, "/1000000"));
  assert_non_null(strstr(text, "interrupted after"));
  check_lines(text, 80);
  free(text);
}

static void test_narrow_terminal(void **state) {
  (void)state;
  static const char *const lines[] = {
      "--help",
      "train --help",
      "bench " GLYPHS " --runs 2",
      "inspect " GLYPHS,
      "inspect " GLYPHS " --train",
      "devices",
      "explore tiles --network " GLYPHS " --chip vu9p",
      "evaluate tiles",
      "quantize " GLYPHS " --data builtin:glyphs,limit=64 --layers 1 --out $/narrow.onnx",
      "train " GLYPHS " --data builtin:glyphs,limit=64 --batch 32 --epochs 1 --out $/narrow"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char *text = on_terminal(40, "xterm", lines[i], NULL, 0);
    if (strlen(text) <= 100) fail_msg("%s: wrote only: %s", lines[i], text);
    check_lines(text, 40);
    free(text);
  }
  char *text = on_terminal(40, "xterm", "run $/a-file-with-a-name-that-is-longer-than-a-line.onnx --input x", NULL, 2);
  check_lines(text, 40);
  free(text);
  text = on_terminal(40, "xterm", "train " GLYPHS " --data builtin:glyphs --epochs 9 --out $/bar", "training ", 130);
  assert_non_null(strstr(text, "training "));
  assert_non_null(strstr(text, "\033[K"));
  check_lines(text, 40);
  free(text);
}

/* Ctrl-C between two cases, and while an input is waited for: the command says so, and nothing is half written. */
static void test_interrupted_before_an_end(void **state) {
  (void)state;
  char *text = on_terminal(80, "xterm", "devices --check cpu", "ok  ", 130);
  const char *told = strstr(text, "braid devices: interrupted after ");
  assert_non_null(told);
  assert_null(strstr(told, "ok  "));
  assert_null(strstr(text, "seed "));
  free(text);
  text = on_terminal(80, "xterm", "devices --check cpu --json", "", 130);
  assert_non_null(strstr(text, "{\"error\":{\"status\":\"cancelled\",\"detail\":\"interrupted after "));
  assert_null(strstr(text, "\"cases\""));
  free(text);
  text = on_terminal(80, "xterm", "run " GLYPHS " --input - --output $/never.npy", "", 130);
  assert_non_null(strstr(text, "braid run: interrupted"));
  assert_int_not_equal(access(in_folder("never.npy"), F_OK), 0);
  free(text);
}

/* A network that runs for seconds ends at the first signal, and writes nothing. */
static void test_interrupted_in_a_run(void **state) {
  (void)state;
  static const char *const kOutputs[] = {"", "{\"error\":{\"status\":\"cancelled\",\"detail\":\"interrupted\"}}\n", ""};
  FILE *model = fopen(in_folder("long.cfg"), "w");
  assert_non_null(model);
  fputs("[net]\nchannels=3\nheight=512\nwidth=512\n", model);
  for (int i = 0; i < 60; i++) fputs("[convolutional]\nfilters=64\nsize=3\nstride=1\npad=1\nactivation=relu\n", model);
  assert_int_equal(fclose(model), 0);
  for (int i = 0; i < 3; i++) {
    int number = i < 2 ? SIGINT : SIGTERM;
    const char *option = i == 1 ? "--json" : "", *out = in_folder("out"), *err = in_folder("err");
    char line[400];
    snprintf(line, sizeof line, "run $/long.cfg --model-seed 1 --input " PICTURE " --output $/never.npy %s", option);
    pid_t child = start(line, "/dev/null", out, err);
    nap(1.5);
    kill(child, number);
    nap(0.7);
    kill(child, SIGKILL); /* nothing, if it has ended */
    assert_int_equal(await(child), 128 + number);
    outcome o = {.out = get_file(out, NULL), .err = get_file(err, NULL)};
    assert_string_equal(o.out, kOutputs[i]);
    assert_string_equal(o.err, number == SIGINT ? "braid run: interrupted\n" : "");
    discard(&o);
    assert_int_not_equal(access(in_folder("never.npy"), F_OK), 0);
  }
}

/* A terminal that cannot clear a line gets no bar. No colour is ever printed, whatever NO_COLOR says. */
static void test_dumb_terminal(void **state) {
  (void)state;
  static const char *const kinds[] = {"dumb", ""};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char *text = on_terminal(80, kinds[i], "bench " GLYPHS " --runs 1000000", "", 130);
    assert_null(strchr(text, '\033'));
    assert_null(strstr(text, "/1000000"));
    free(text);
  }
}

/* --- the program ---------------------------------------------------------------------------------------------------
 */
/* What would change nothing is refused, with the reason. */
static void test_options_without_effect(void **state) {
  (void)state;
  static const char *const train[][2] = {
      {"--data builtin:glyphs,pad=2", "pad= is of augment=crop"},
      {"--data builtin:glyphs,augment=flip,pad=2", "pad= is of augment=crop"},
      {"--data builtin:glyphs,limit=9,limit=8", "limit is given twice"},
      {"--data npy:$/x.npy+$/y.npy,split=train", "split=train has no effect on npy"},
      {"--data idx:$/nothing,seed=0", "seed=0 is of builtin:glyphs"},
      {"--data npy:$/x.npy+$/y.npy,order=bgr", "order=bgr has no effect on 1 channel"},
      {"--data npy:$/x.npy+$/y.npy", "has no test split"},
      {"--data builtin:glyphs --test builtin:glyphs,augment=flip", "augment is for training only"},
      {"--data builtin:glyphs --test builtin:glyphs --no-test", "--test has no effect with --no-test"},
      {"--data builtin:glyphs --optimizer adam --momentum 0.5", "--momentum has no effect with --optimizer adam"},
      {"--data builtin:glyphs --nesterov --optimizer adamw", "--nesterov has no effect with --optimizer adam"},
      {"--data builtin:glyphs --nesterov --momentum 0", "--nesterov has no effect with --momentum 0"},
      {"--data builtin:glyphs --monitor loss", "--monitor has no effect without --best"},
      {"--data builtin:glyphs --plateau-epochs 3", "--plateau-epochs has no effect without --schedule plateau"},
      {"--data builtin:glyphs --class-weights 1/2", "2 class weights are given, the data set has 10 classes"},
      {"--data builtin:glyphs --class-weights balanced --loss squared-error", "--class-weights has no effect"},
      {"--data builtin:glyphs --beta1 0.8", "--beta1 has no effect with sgd"},
      {"--data builtin:glyphs --beta2 0.8", "--beta2 has no effect with sgd"},
      {"--data builtin:glyphs --epsilon 0.1", "--epsilon has no effect with sgd"},
      {"--data builtin:glyphs --epochs 30 --schedule step", "every 30 epochs, and the training has 30"},
      {"--data builtin:glyphs --step-epochs 3", "--step-epochs has no effect without --schedule step"},
      {"--data builtin:glyphs --step-gamma 0.3 --schedule cosine", "--step-gamma has no effect without"},
      {"--data builtin:glyphs --loss squared-error --label-smoothing 0.1", "--label-smoothing has no effect"},
      {"--data builtin:glyphs --no-fusion", "unrecognized option '--no-fusion'"},
      {"--data builtin:glyphs --weights $/w --model-seed 3", "--model-seed has no effect"},
  };
  static const int64_t dims[] = {2, 4, 4};
  for (int i = 0; i < 2; i++) {
    braid_desc desc;
    braid_tensor *tensor;
    assert_int_equal(braid_desc_init(&desc, BRAID_U8, i ? 1 : 3, dims), BRAID_OK);
    assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
    memset(braid_tensor_data(tensor), 1, braid_desc_bytes(&desc));
    assert_int_equal(braid_npy_save(in_folder(i ? "y.npy" : "x.npy"), tensor), BRAID_OK);
    braid_tensor_release(tensor);
  }
  for (size_t i = 0; i < sizeof train / sizeof *train; i++) {
    char line[400];
    snprintf(line, sizeof line, "train " GLYPHS " --out $/none %s", train[i][0]);
    expect_failure(line, 2, train[i][1]);
  }
  expect_failure("test " GLYPHS " --data builtin:glyphs,augment=crop", 2, "augment is for training only");
  expect_failure("run " GLYPHS " --input $/x.npy --preprocess scale=1", 2, "--preprocess scale=1 has no effect on");
  expect_failure("inspect $/x.onnx --model-seed 3", 2, "--model-seed has no effect");
}

/* Codes of int4 come in a file that cannot name them, and go into one. */
static void test_narrow_types(void **state) {
  (void)state;
  braid_tensor *tensor;
  braid_desc desc;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){80}), BRAID_OK);
  assert_int_equal(braid_tensor_create(NULL, &desc, &tensor), BRAID_OK);
  for (int i = 0; i < 80; i++) braid_tensor_set_f64(tensor, i, i % 16 - 8);
  assert_int_equal(braid_npy_save(in_folder("x.npy"), tensor), BRAID_OK);
  braid_tensor_release(tensor);
  outcome o = run("run " BRAID_TEST_DATA "/conformance/narrow_int4/model.onnx --input x=$/x.npy --input "
                  "codes=" BRAID_TEST_DATA "/npy/int4.npy --output numbers=$/numbers.npy --output y0=$/codes.npy");
  if (o.code != 0) fail_msg("%s", o.err);
  assert_non_null(strstr(o.out, "y0 int4[80]  least -8  mean -0.5  most 7"));
  discard(&o);
  assert_int_equal(braid_npy_load(NULL, in_folder("numbers.npy"), &tensor), BRAID_OK);
  for (int i = 0; i < 16; i++) assert_true(braid_tensor_get_f64(tensor, i) == i - 8);
  braid_tensor_release(tensor);
  assert_int_equal(braid_npy_load(NULL, in_folder("codes.npy"), &tensor), BRAID_OK);
  for (int i = 0; i < 80; i++) assert_int_equal(braid_tensor_get_i64(tensor, i), (i % 16 + 8) % 16);
  braid_tensor_release(tensor);
}

int main(void) {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_bad_input),
      cmocka_unit_test(test_fifos),
      cmocka_unit_test(test_pipes),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_explained_plans),
      cmocka_unit_test(test_commands_with_plans),
      cmocka_unit_test(test_columns),
      cmocka_unit_test(test_inspect_options),
      cmocka_unit_test(test_full_disk),
      cmocka_unit_test(test_terminal),
      cmocka_unit_test(test_narrow_terminal),
      cmocka_unit_test(test_dumb_terminal),
      cmocka_unit_test(test_interrupted_before_an_end),
      cmocka_unit_test(test_interrupted_in_a_run),
      cmocka_unit_test(test_options_without_effect),
      cmocka_unit_test(test_narrow_types),
      cmocka_unit_test(test_unwritable),
      cmocka_unit_test(test_huge),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
