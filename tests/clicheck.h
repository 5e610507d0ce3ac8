/* Running the braid command from a test: its exit code and what it printed, in a folder of the test's own. */
#ifndef BRAID_TESTS_CLICHECK_H
#define BRAID_TESTS_CLICHECK_H

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define GLYPHS BRAID_MODELS "/glyphs.cfg"
#define PICTURE BRAID_PICTURES "/heart.png"

enum { MOST_ARGUMENTS = 40, MOST_TEXT = 1 << 20 };

/* What a command left behind. */
typedef struct outcome {
  int code; /* exit code, or 128 + signal */
  char *out, *err;
} outcome;

static char folder[] = "/tmp/braid-cli-XXXXXX";

static inline const char *in_folder(const char *name) {
  static char paths[8][PATH_MAX];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, PATH_MAX, "%s/%s", folder, name);
  return path;
}

static inline void put_file(const char *path, const void *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
}

static inline char *get_file(const char *path, size_t *count) {
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

/* `word` with the test's folder for each "$" and a blank for each "~"; freed by the caller. */
static inline char *expand(const char *word) {
  char *whole = NULL;
  size_t bytes;
  FILE *text = open_memstream(&whole, &bytes);
  assert_non_null(text);
  for (; *word; word++) {
    if (*word == '$')
      fputs(folder, text);
    else
      fputc(*word == '~' ? ' ' : *word, text);
  }
  assert_int_equal(fclose(text), 0);
  return whole;
}

/* Splits at blanks; "$" stands for the test's folder. */
static inline int split(char *line, char **arguments) {
  int count = 0;
  arguments[count++] = (char *)"braid";
  for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
    assert_true(count < MOST_ARGUMENTS - 1);
    arguments[count++] = expand(word);
  }
  arguments[count] = NULL;
  return count;
}

static unsigned child_seconds; /* after which a child is ended; 0: never */

static inline pid_t start(const char *line, const char *in, const char *out, const char *err) {
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

static inline int await(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline outcome run(const char *line) {
  const char *out = in_folder("out"), *err = in_folder("err");
  outcome o = {.code = await(start(line, "/dev/null", out, err))};
  o.out = get_file(out, NULL);
  o.err = get_file(err, NULL);
  return o;
}

/* A command that ends well and has nothing to say on standard error. */
static inline outcome run_quietly(const char *line) {
  outcome o = run(line);
  if (o.code != 0) fail_msg("braid %s: code %d: %s", line, o.code, o.err);
  assert_string_equal(o.err, "");
  return o;
}

static inline void expect_text(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %.2000s", part, text);
}

/* With files of at most so many bytes, as on a disk that is full. */
static inline outcome run_within(const char *line, rlim_t bytes) {
  struct rlimit all, less;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
  less = all;
  less.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
  outcome o = run(line);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
  return o;
}

static inline void discard(outcome *o) {
  free(o->out);
  free(o->err);
}

static inline void nap(double seconds) {
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

/* --- JSON: after RFC 8259 ------------------------------------------------------------------------------------------
 */
static inline const char *skip_blanks(const char *s) {
  while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r') s++;
  return s;
}

static inline const char *json_string(const char *s) {
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

static inline const char *json_number(const char *s) {
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
static inline const char *json_value(const char *s, int depth) {
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

static inline bool is_one_document(const char *text) {
  const char *end = *skip_blanks(text) == '{' ? json_value(text, 0) : NULL;
  return end && !*skip_blanks(end);
}

/* Runs a line as it is and with --json, and checks the code and that one sentence holds `detail`. */
static inline void expect_failure(const char *line, int code, const char *detail) {
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

/* --- the test's folder, which it works in ----------------------------------------------------------------------------
 */
static inline int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static inline int remove_folder(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return chdir("/") == 0 ? system(command) : -1;
}

#endif
