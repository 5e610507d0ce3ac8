/* Trace contexts: the cases of W3C's own test suite (trace-context/test/test.py) that a receiver without a vendor of
 * its own can be asked. */
#include "serve/trace/trace_context.h"

#include <stdio.h>
#include <string.h>

#include "skip.h"

#define TRACE "12345678901234567890123456789012"
#define SPAN "1234567890123456"

static void test_parent(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool read, sampled;
  } kCases[] = {
      {"00-" TRACE "-" SPAN "-01", true, true},
      {"00-" TRACE "-" SPAN "-00", true, false},
      {"00-" TRACE "-" SPAN "-ff", true, true}, /* unknown flags are ignored */
      {"00-" TRACE "-" SPAN "-02", true, false},
      {"cc-" TRACE "-" SPAN "-01", true, true}, /* versions to come */
      {"cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like", true, true},
      {"cc-" TRACE "-" SPAN "-01.what-the-future-will-not-be-like", false, false},
      {"ff-" TRACE "-" SPAN "-01", false, false},
      {"00-" TRACE "-" SPAN "-01-", false, false},
      {"00-" TRACE "-" SPAN "-01.", false, false},
      {"00-" TRACE "-" SPAN "-01-more", false, false},
      {".0-" TRACE "-" SPAN "-01", false, false},
      {"0.-" TRACE "-" SPAN "-01", false, false},
      {"00-00000000000000000000000000000000-" SPAN "-01", false, false},
      {"00-" TRACE "-0000000000000000-01", false, false},
      {"00-.2345678901234567890123456789012-" SPAN "-01", false, false},
      {"00-1234567890123456789012345678901.-" SPAN "-01", false, false},
      {"00-1234567890123456789012345678901-" SPAN "-01", false, false},
      {"00-123456789012345678901234567890123-" SPAN "-01", false, false},
      {"00-" TRACE "-.234567890123456-01", false, false},
      {"00-" TRACE "-123456789012345-01", false, false},
      {"00-" TRACE "-12345678901234567-01", false, false},
      {"00-" TRACE "-" SPAN "-.0", false, false},
      {"00-" TRACE "-" SPAN "-0.", false, false},
      {"00-" TRACE "-" SPAN "-0", false, false},
      {"00-" TRACE "-" SPAN, false, false},
      {"00-1234567890123456789012345678901A-" SPAN "-01", false, false}, /* upper case */
      {"00_" TRACE "_" SPAN "_01", false, false},
      {" 00-" TRACE "-" SPAN "-01", false, false},
      {"", false, false},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_trace_context context;
    bool read = braid_trace_parse(kCases[i].text, strlen(kCases[i].text), &context);
    if (read != kCases[i].read || context.sampled != kCases[i].sampled) fail_msg("case %zu: %s", i, kCases[i].text);
    char text[BRAID_TRACE_PARENT];
    if (!read) continue;
    braid_trace_format(&context, text);
    assert_memory_equal(text, "00-" TRACE "-" SPAN "-0", 54);
    assert_int_equal(text[54], context.sampled ? '1' : '0');
  }
}

static void expect_state(const char *given, const char *kept) {
  char state[BRAID_TRACE_STATE];
  braid_trace_state(given, strlen(given), state);
  assert_string_equal(state, kept);
}

/* "k0=v,k1=v,...", each value of `bytes` bytes. */
static void make_state(char *out, int members, int bytes) {
  for (int i = 0; i < members; i++) out += sprintf(out, "%sk%d=%0*d", i ? "," : "", i, bytes, 0);
}

static void test_state(void **state) {
  (void)state;
  static char text[1 << 16], long_text[1024];
  expect_state("foo=1,bar=2", "foo=1,bar=2");
  expect_state("foo=1 \t , \t bar=2,,", "foo=1,bar=2");
  expect_state("", "");
  expect_state("foo@bar=1,0a-_*/=!", "foo@bar=1,0a-_*/=!");
  static const char *const kRefused[] = {
      "foo",  "foo=",          "foo =1",      "FOO=1",   "foo.bar=1", "foo@=1",   "@foo=1",   "foo@@bar=1",
      "_a=1", "foo@bar@baz=1", "foo=1,foo=2", "foo=1=2", "foo=\x01",  "foo=\x80", "foo=a\tb", "a@verylongsystemx=1"};
  for (size_t i = 0; i < sizeof kRefused / sizeof *kRefused; i++) {
    expect_state(kRefused[i], "");
    snprintf(long_text, sizeof long_text, "a=1,%s", kRefused[i]);
    if (strcmp(kRefused[i], "foo=1,foo=2") != 0) expect_state(long_text, ""); /* one that is wrong spoils all */
  }
  make_state(text, 32, 1);
  expect_state(text, text);
  make_state(text, 33, 1);
  expect_state(text, "");
  char kept[BRAID_TRACE_STATE];
  make_state(text, 32, 100); /* too long: the last ones go */
  braid_trace_state(text, strlen(text), kept);
  assert_true(strlen(kept) > 400 && strncmp(kept, text, strlen(kept)) == 0 && text[strlen(kept)] == ',');
  snprintf(text, sizeof text, "a=%0200d,b=%0200d,c=%0200d,d=1", 0, 0, 0); /* long ones first */
  expect_state(text, "d=1");
  memset(text, 'a', sizeof text - 1);
  expect_state(text, "");
}

static void test_new_ids(void **state) {
  (void)state;
  uint8_t a[BRAID_TRACE_ID], b[BRAID_TRACE_ID] = {0};
  size_t tenth = 0, all = 0, none = 0;
  enum { DRAWS = 20000 };
  for (int i = 0; i < DRAWS; i++) {
    braid_trace_new_trace(a);
    tenth += braid_trace_is_sampled(a, 0.1);
    all += braid_trace_is_sampled(a, 1);
    none += braid_trace_is_sampled(a, 0);
    assert_true(!braid_trace_is_sampled(a, 0.1) || braid_trace_is_sampled(a, 0.2)); /* the same of one id */
    assert_memory_not_equal(a, b, sizeof a);
    memcpy(b, a, sizeof a);
  }
  assert_int_equal(all, DRAWS);
  assert_int_equal(none, 0);
  assert_true(tenth > 1750 && tenth < 2250); /* 2000, and 6 standard deviations of 42 */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parent), cmocka_unit_test(test_state),
                                     cmocka_unit_test(test_new_ids)};
  return skip_run_group_tests(tests, NULL, NULL);
}
