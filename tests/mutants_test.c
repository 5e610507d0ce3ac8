/* The device conformance suite passes the plug-ins of tests/plugins/mutant.c and regions.c, and fails each of their
 * faults in the case that looks for it. Each in a process of its own, because a fault may leave nothing that could be
 * cleaned up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
  kOutput = 1 << 20,
  kPatience = 5 /* s; for what never ends */,
  kTries = 3 /* what depends on time is not seen where other programs have the processor */
};

typedef struct mutant {
  const char *name, *memory, *found, *what; /* memory NULL: the plug-in of regions */
} mutant;

static const mutant kMutants[] = {
#define MUTANT(name, memory, found, what) {#name, #memory, found, what},
#define REGIONS(name, found, what) {name, NULL, found, what},
#include "plugins/mutants.def"
#undef MUTANT
#undef REGIONS
};

/* The exit code; what was printed goes to `output`. */
static int run_suite(const char *name, const char *memory, const char *options, char *output) {
  char command[1024];
  (void)snprintf(command, sizeof command,
                 "%s='%s' BRAID_MUTANT_MEMORY=%s '%s' devices --plugin '%s/%s.so' --check %s %s 2>&1",
                 memory ? "BRAID_MUTANT" : "BRAID_REGIONS", name, memory ? memory : "", BRAID_COMMAND,
                 BRAID_PLUGIN_FOLDER, memory ? "mutant" : "regions", memory ? "mutant" : "chip", options);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t got = fread(output, 1, kOutput - 1, pipe);
  output[got] = '\0';
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_right(void **state) {
  (void)state;
  static char output[kOutput];
  static const char *const kMemories[] = {"separate", "unified"};
  for (size_t i = 0; i < 2; i++) {
    int code = run_suite("", kMemories[i], "", output);
    if (code != 0 || !strstr(output, " 0 failed")) fail_msg("%s: exit code %d:\n%s", kMemories[i], code, output);
  }
  static const char *const kClaims[] = {"", "nested"};
  for (size_t i = 0; i < 2; i++) {
    int code = run_suite(kClaims[i], NULL, "--case regions", output);
    if (code != 0 || !strstr(output, " 13 passed, 0 failed"))
      fail_msg("%s: exit code %d:\n%s", kClaims[i], code, output);
  }
  if (run_suite("", "separate", "--seed 4 --case 'Cast by'", output)) /* which draws numbers that int32 lacks */
    fail_msg("%s", output);
  assert_int_equal(run_suite("", "separate", "--json --case Relu", output), 0);
  assert_non_null(strstr(output, "\"not claimed\"")); /* ReluGrad */
}

/* Is there a line "FAIL case..."? */
static int is_failed(const char *output, const char *name) {
  char line[128];
  (void)snprintf(line, sizeof line, "FAIL %s", name);
  return strstr(output, line) != NULL;
}

/* Not under sanitizers: the suite judges as it does without them, but for what their malloc does not count. */
static void test_mutants(void **state) {
  (void)state;
#ifdef BRAID_SANITIZED
  skip();
#endif
  static char output[kOutput];
  size_t missed = 0;
  for (size_t i = 0; i < sizeof kMutants / sizeof *kMutants; i++) {
    const mutant *m = &kMutants[i];
    char options[256];
    int rest = strcmp(m->found, "all other cases") == 0; /* told wherever the suite had to stop */
    (void)snprintf(options, sizeof options, "--patience %d%s%s%s", kPatience, rest ? "" : " --case '",
                   rest ? "" : m->found, rest ? "" : "'");
    int code = 0, found = 0;
    for (int try = 0; try < kTries && !found; try++) {
      code = run_suite(m->name, m->memory, options, output);
      found = code == 1 && is_failed(output, m->found);
    }
    if (found) continue;
    print_error("%s (%s): exit code %d:\n%s", m->name, m->what, code, output);
    missed++;
  }
  print_message("%zu mutants, %zu missed\n", sizeof kMutants / sizeof *kMutants, missed);
  assert_int_equal(missed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_right), cmocka_unit_test(test_mutants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
