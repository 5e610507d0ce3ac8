/* What `braid devices` and `braid bench` say is so: as text and as JSON, with oneDNN and without, on every device. */
#include <oneapi/dnnl/dnnl_version.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"

#define MODEL BRAID_MODELS "/glyphs.cfg"
#define PICTURE BRAID_PICTURES "/heart.png"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/braid-truth-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[96];
  unsetenv("LD_LIBRARY_PATH");
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* Runs the command; its standard output, or with `errors` standard error, to be freed. It must end with `code`. */
static char *run(const char *arguments, bool errors, int code) {
  enum { kMost = 1 << 18 };
  char line[1024], *text = calloc(kMost, 1);
  snprintf(line, sizeof line, "%s %s </dev/null %s", BRAID_COMMAND, arguments,
           errors ? "2>&1 >/dev/null" : "2>/dev/null");
  FILE *pipe = popen(line, "r");
  assert_non_null(pipe);
  size_t got = fread(text, 1, kMost - 1, pipe);
  int status = pclose(pipe);
  assert_true(got < kMost - 1);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != code) fail_msg("braid %s: status %d: %s", arguments, status, text);
  return text;
}

static size_t count_of(const char *text, const char *part) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) count++;
  return count;
}

/* The number behind the first "key": at or after `text`. */
static double number_at(const char *text, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text, quoted);
  if (!at) fail_msg("no %s in %s", key, text);
  return strtod(at + strlen(quoted), NULL);
}

/* --- bench ---------------------------------------------------------------------------------------------------------
 */
static void format_bytes(double bytes, char *out, size_t size) {
  static const char *const kUnits[] = {"B", "KiB", "MiB"};
  int unit = 0;
  for (; unit < 2 && bytes >= 1024; unit++) bytes /= 1024;
  snprintf(out, size, unit ? "%.1f %s" : "%.0f %s", bytes, kUnits[unit]);
}

static void check_bench(const char *device, double whole) {
  char line[256], activations[32], parameters[32];
  for (int runs = 1; runs <= 4; runs++) {
    snprintf(line, sizeof line, "bench " MODEL " --runs %d --json --device %s", runs, device);
    char *json = run(line, false, 0);
    double least = number_at(json, "least"), median = number_at(json, "median"), p90 = number_at(json, "p90");
    assert_true(least > 0 && least <= median && median <= p90);
    assert_true(number_at(json, "runs") == runs);
    double held = number_at(json, "parameter_bytes"), arena = number_at(json, "arena_bytes");
    /* what normalization takes is folded away; packing and alignment add a little, and filters of 3 x 3 taps may be
     * held as 6 x 6 points (Winograd) */
    if (held < 0.8 * whole || held > 4.4 * whole)
      fail_msg("%s: %.0f bytes of parameters held, the model has %.0f", device, held, whole);
    assert_true(arena > 0 && arena <= number_at(json, "unshared_bytes"));
    free(json);
    format_bytes(arena, activations, sizeof activations);
    format_bytes(held, parameters, sizeof parameters);
    snprintf(line, sizeof line, "bench " MODEL " --runs %d --device %s", runs, device);
    char *text = run(line, false, 0), memory[160];
    snprintf(memory, sizeof memory, "memory       %s of activations (", activations);
    if (!strstr(text, memory)) fail_msg("%s: \"%s\" expected in %s", device, memory, text);
    snprintf(memory, sizeof memory, ", %s of parameters\n", parameters);
    if (!strstr(text, memory)) fail_msg("%s: \"%s\" expected in %s", device, memory, text);
    free(text);
  }
}

/* Bytes of the model's parameters. */
static double model_bytes(void) {
  char *inspected = run("inspect " MODEL " --json", false, 0);
  const char *total = inspected, *next; /* those of the nodes stand before it */
  while ((next = strstr(total + 1, "\"parameters\":"))) total = next;
  double bytes = 4 * number_at(total, "parameters");
  free(inspected);
  return bytes;
}

static void test_bench(void **state) {
  (void)state;
  check_bench("cpu", model_bytes());
  check_bench("cpu:memory=separate", model_bytes());
}

static void test_bench_opencl(void **state) {
  (void)state;
  char *devices = run("devices --json", false, 0);
  bool there = strstr(devices, "\"opencl0\"") != NULL;
  free(devices);
  if (!there) skip_test("opencl", "there is no OpenCL device");
  check_bench("opencl0", model_bytes());
}

/* --- devices -------------------------------------------------------------------------------------------------------
 */
static void test_devices(void **state) {
  (void)state;
  char *json = run("devices --json", false, 0), *text = run("devices", false, 0), expected[160];
  size_t devices = 0;
  for (const char *at = json; (at = strstr(at, "{\"name\":\"")); at++, devices++) {
    char name[32], description[128];
    assert_int_equal(sscanf(at, "{\"name\":\"%31[^\"]\"", name), 1);
    assert_int_equal(sscanf(strstr(at, "\"description\""), "\"description\":\"%127[^\"]\"", description), 1);
    const char *row = strstr(text, name);
    while (row && row != text && row[-1] != '\n') row = strstr(row + 1, name);
    assert_non_null(row);
    const char *end = strchr(row, '\n');
    assert_true(end - row > (long)strlen(description));
    assert_memory_equal(end - strlen(description), description, strlen(description));
  }
  assert_true(devices >= 2);
  assert_int_equal(count_of(json, "\"error\":\"\""), devices);
  snprintf(expected, sizeof expected, "\"software\":\"oneDNN %d.", DNNL_VERSION_MAJOR);
  assert_non_null(strstr(json, expected));
  assert_non_null(strstr(text, "with oneDNN "));
  free(json);
  free(text);
}

/* What the options of a platform file make of a device, not the device as it is without. */
static void test_platform(void **state) {
  (void)state;
  static const char kList[] = "devices --platform " BRAID_TEST_DATA "/platform/split.yaml";
  char *text = run(kList, false, 0), line[512];
  const char *row = strstr(text, "\nspare ");
  assert_non_null(row);
  assert_memory_equal(strstr(row, "KiB") - 5, "64.0 ", 5); /* memory=65536 */
  free(text);
  snprintf(line, sizeof line, "%s --json", kList);
  char *json = run(line, false, 0), *spare = strstr(json, "\"spare\"");
  assert_true(number_at(spare, "memory_bytes") == 65536);
  free(json);
}

/* --- without oneDNN ------------------------------------------------------------------------------------------------
 */
/* From now on the loader finds this file first where it looks for libdnnl.so.<major>. */
static void pass_for_onednn(const char *file, int major) {
  char path[128];
  snprintf(path, sizeof path, "%s/libdnnl.so.%d", folder, major);
  assert_int_equal(symlink(file, path), 0);
  assert_int_equal(setenv("LD_LIBRARY_PATH", folder, 1), 0);
}

/* It is said once, with what to install, and the work is done all the same. */
static void check_without(const char *why) {
  char package[64];
  snprintf(package, sizeof package, "libdnnl%d", DNNL_VERSION_MAJOR);
  static const char kRun[] = "run " MODEL " --input " PICTURE " --top 1 --explain";
  char *errors = run(kRun, true, 0);
  if (count_of(errors, "warning: ") != 1 || !strstr(errors, "ten times slower") || !strstr(errors, why) ||
      !strstr(errors, package))
    fail_msg("\"%s\" expected once, not: %s", why, errors);
  free(errors);
  char *out = run(kRun, false, 0);
  assert_null(strstr(out, "dnnl_"));
  free(out);
  char *json = run("devices --json", false, 0), *text = run("devices", false, 0);
  assert_null(strstr(json, "\"software\":\"oneDNN"));
  assert_non_null(strstr(strstr(json, "\"lacks\":\"no oneDNN"), why));
  assert_non_null(strstr(text, why));
  free(json);
  free(text);
}

/* The sanitizers' builds are linked with oneDNN, so a broken one keeps the whole command from starting. */
static void need_late_onednn(void) {
  if (BRAID_LINKED_ONEDNN) skip_test("late oneDNN", "this build is linked with oneDNN");
}

static void test_onednn_not_loadable(void **state) {
  (void)state;
  need_late_onednn();
  char junk[128];
  snprintf(junk, sizeof junk, "%s/junk", folder);
  FILE *file = fopen(junk, "w");
  assert_non_null(file);
  fputs("this is no shared object, but long enough to be taken for one at the first glance of a loader", file);
  fclose(file);
  pass_for_onednn(junk, DNNL_VERSION_MAJOR);
  check_without("invalid ELF header");
  pass_for_onednn(BRAID_LIBRARIES "/dnnl_other.so", DNNL_VERSION_MAJOR + 1);
  char beside[64];
  snprintf(beside, sizeof beside, "there is libdnnl.so.%d", DNNL_VERSION_MAJOR + 1);
  check_without(beside);
}

static void test_onednn_of_another_version(void **state) {
  (void)state;
  need_late_onednn();
  pass_for_onednn(BRAID_LIBRARIES "/dnnl_other.so", DNNL_VERSION_MAJOR);
  check_without("says that it is version 9.0.0");
}

static void test_onednn_without_functions(void **state) {
  (void)state;
  pass_for_onednn(BRAID_LIBRARIES "/dnnl_empty.so", DNNL_VERSION_MAJOR);
  check_without("lacks dnnl_");
}

/* With oneDNN nothing is said. */
static void test_onednn(void **state) {
  (void)state;
  char *errors = run("run " MODEL " --input " PICTURE " --top 1", true, 0);
  assert_string_equal(errors, "");
  free(errors);
}

/* --- placement -----------------------------------------------------------------------------------------------------
 */
static void test_place(void **state) {
  (void)state;
  static const char *const kCommands[] = {"bench " MODEL " --runs 1", "inspect " MODEL,
                                          "run " MODEL " --input " PICTURE,
                                          "test " MODEL " --data builtin:glyphs,limit=32",
                                          "train " MODEL " --data builtin:glyphs,limit=32 --batch 16 --epochs 1"};
  for (size_t i = 0; i < sizeof kCommands / sizeof *kCommands; i++) {
    char line[512];
    snprintf(line, sizeof line, "%s --place '0_convolutonal/Conv=cpu'", kCommands[i]);
    char *errors = run(line, true, 2);
    if (!strstr(errors, "no node matches \"0_convolutonal/Conv\"; near are 0_convolutional/Conv"))
      fail_msg("braid %s: %s", line, errors);
    free(errors);
  }
  /* the convolution is fused into its activation, in training it is not */
  free(run("bench " MODEL " --runs 1 --place '0_convolutional/Conv=cpu'", false, 0));
  free(run("train " MODEL " --data builtin:glyphs,limit=32 --batch 16 --epochs 1 --place '*Grad*=cpu'", false, 0));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bench),
      cmocka_unit_test(test_bench_opencl),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_platform),
      cmocka_unit_test(test_onednn),
      cmocka_unit_test(test_place),
      IN_FOLDER(test_onednn_not_loadable),
      IN_FOLDER(test_onednn_of_another_version),
      IN_FOLDER(test_onednn_without_functions),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
