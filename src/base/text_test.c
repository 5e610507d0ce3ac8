#include "base/text.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/vector.h"
#include "oom.h"
#include "skip.h"

static void check(void (*add)(braid_text *, const char *), const char *input, const char *wanted) {
  braid_text text;
  braid_text_init(&text, NULL);
  add(&text, input);
  assert_string_equal(text.data, wanted);
  assert_int_equal(text.length, strlen(wanted));
  braid_text_deinit(&text);
}

static void test_escapes(void **state) {
  (void)state;
  check(braid_text_add_json, "a\"b\\c\n\x01", "\"a\\\"b\\\\c\\n\\u0001\"");
  check(braid_text_add_json, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  check(braid_text_add_html, "<a href='x'>\"&\"</a>", "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;");
  /* stray continuation, overlong slash, surrogate, beyond the last code point, cut at the end */
  static const char *const broken[] = {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    braid_text text;
    braid_text_init(&text, NULL);
    braid_text_add_json(&text, broken[i]);
    assert_non_null(strstr(text.data, "\xef\xbf\xbd"));
    assert_null(strstr(text.data, broken[i]));
    braid_text_deinit(&text);
  }
}

static void test_numbers(void **state) {
  (void)state;
  int64_t i;
  double f;
  assert_true(braid_parse_i64("-9223372036854775808", &i) && i == INT64_MIN);
  static const char *const not_integers[] = {"", " 1", "1 ", "9223372036854775808", "1.0", "0x10", "-", "one"};
  for (size_t k = 0; k < sizeof not_integers / sizeof *not_integers; k++) {
    assert_false(braid_parse_i64(not_integers[k], &i));
  }
  assert_true(braid_parse_f64("-1.5e-3", &f) && f == -1.5e-3);
  assert_true(braid_parse_f64(".25", &f) && f == 0.25);
  static const char *const not_numbers[] = {"", " 1", "1,5", "nan", "inf", "1e999", "--1"};
  for (size_t k = 0; k < sizeof not_numbers / sizeof *not_numbers; k++) {
    assert_false(braid_parse_f64(not_numbers[k], &f));
  }
}

/* A locale with a decimal comma, made here: few machines have one. */
static bool set_comma_locale(void) {
  char folder[] = "/tmp/braid-locale-XXXXXX", command[256];
  assert_non_null(mkdtemp(folder));
  snprintf(command, sizeof command, "localedef --no-archive -c -i de_DE -f UTF-8 %s/comma >/dev/null 2>&1", folder);
  int made = system(command);
  setenv("LOCPATH", folder, 1);
  bool set = made == 0 && setlocale(LC_ALL, "comma") && strcmp(localeconv()->decimal_point, ",") == 0;
  unsetenv("LOCPATH");
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  return set;
}

static void test_locale(void **state) {
  (void)state;
  if (!set_comma_locale()) skip_test("locale", "a locale with a decimal comma cannot be made here");
  braid_text text;
  double f;
  braid_text_init(&text, NULL);
  braid_text_printf(&text, "%.2f", 1.5);
  assert_string_equal(text.data, "1.50");
  assert_true(braid_parse_f64(text.data, &f) && f == 1.5);
  braid_text_deinit(&text);
  setlocale(LC_ALL, "C");
}

static braid_status build(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_text text;
  braid_text_init(&text, allocator);
  for (int i = 0; i < 500; i++) braid_text_printf(&text, "%d,", i);
  braid_status status = text.failed ? BRAID_NO_MEMORY : BRAID_OK;
  if (!text.failed) assert_int_equal(text.length, 10 * 2 + 90 * 3 + 400 * 4);
  braid_text_deinit(&text);
  return status;
}

static braid_status arena(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_arena *made;
  braid_status status = braid_arena_create(allocator, &made);
  for (size_t i = 0; i < 300 && status == BRAID_OK; i++) {
    unsigned char *bytes = braid_arena_alloc(made, i * 37);
    if (!bytes) {
      status = BRAID_NO_MEMORY;
      break;
    }
    assert_int_equal((uintptr_t)bytes % 16, 0);
    for (size_t k = 0; k < i * 37; k++) assert_int_equal(bytes[k], 0);
    memset(bytes, 0xff, i * 37);
  }
  if (status == BRAID_OK) assert_null(braid_arena_alloc(made, SIZE_MAX - 3));
  braid_arena_destroy(made);
  return status;
}

static braid_status grow(const braid_allocator *allocator, void *context) {
  (void)context;
  uint64_t *items = NULL;
  size_t capacity = 0, count = 0;
  braid_status status = BRAID_OK;
  for (; count < 1000; count++) {
    uint64_t *grown = braid_grow(allocator, items, count, &capacity, sizeof *items);
    if (!grown) {
      status = BRAID_NO_MEMORY;
      break;
    }
    items = grown;
    assert_int_equal(items[count], 0);
    items[count] = count + 1;
  }
  for (size_t i = 0; i < count; i++) assert_int_equal(items[i], i + 1);
  braid_free(allocator, items);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  oom_sweep(build, NULL);
  oom_sweep(arena, NULL);
  oom_sweep(grow, NULL);
}

static void test_distance(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    size_t edits;
  } cases[] = {{"", "", 0},           {"", "abc", 3},           {"conv1", "conv1", 0},
               {"conf1", "conv1", 1}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(braid_text_distance(cases[i].a, cases[i].b), cases[i].edits);
    assert_int_equal(braid_text_distance(cases[i].b, cases[i].a), cases[i].edits);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_escapes),  cmocka_unit_test(test_numbers),       cmocka_unit_test(test_locale),
      cmocka_unit_test(test_distance), cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
