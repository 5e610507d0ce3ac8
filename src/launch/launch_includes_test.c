/* What a text includes, for the key of its built program: found, or the text counts as one that may include anything.
 */
#include "launch/includes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/braid-includes-test-XXXXXX";

static int make_folder(void **state) {
  (void)state;
  char path[64];
  if (!mkdtemp(folder)) return 1;
  (void)snprintf(path, sizeof path, "%s/own.h", folder);
  FILE *file = fopen(path, "w");
  return !file || fputs("int own;\n", file) < 0 || fclose(file);
}

static int remove_folder(void **state) {
  (void)state;
  char path[64];
  (void)snprintf(path, sizeof path, "%s/own.h", folder);
  return unlink(path) || rmdir(folder);
}

/* Is all known that the text includes? `found`: own.h is among it. */
static bool collect(const char *text, bool *found) {
  braid_text out;
  braid_text_init(&out, NULL);
  bool known = braid_launch_includes_collect((const char *const[2]){folder, NULL}, "", text, strlen(text), &out);
  *found = strstr(out.data, "int own;") != NULL;
  braid_text_deinit(&out);
  return known;
}

static void test_found(void **state) {
  (void)state;
  bool found;
  assert_true(collect("int a;\n", &found) && !found);
  assert_true(collect("#include \"own.h\"\n", &found) && found);
  assert_true(collect(" # \\\n include \\\n \"own.h\"", &found) && found);
  assert_false(collect("#include \"other.h\"\n", &found));
  assert_false(collect("#include NAME\n", &found));
}

/* A line is read up to some length: what is behind that is not passed over if it may be a directive. */
static void test_long_lines(void **state) {
  (void)state;
  static const struct {
    const char *before, *behind;
    bool known;
  } cases[] = {{"", "#include \"own.h\"\n", false},  {"/*", "*/ #include \"own.h\"\n", false},
               {"#", "include \"own.h\"\n", false},  {"%:", "include \"own.h\"\n", false},
               {"int a[] = {", "1, 2, 3};\n", true}, {"#pragma once\n", "int a;\n", true}};
  static const char *const kFill[] = {" ", "\\\n"};
  char text[40000];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int fill = 0; fill < 2; fill++) {
      bool found;
      size_t length = (size_t)snprintf(text, sizeof text, "%s", cases[i].before);
      for (int k = 0; k < 5000; k++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s ", kFill[fill]);
      (void)snprintf(text + length, sizeof text - length, "%s", cases[i].behind);
      assert_int_equal(collect(text, &found), cases[i].known);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_long_lines)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
