/* Layouts: text, sizes, places (against the definition, spelled out in nested loops), and what is a view of what. */
#include "tensor/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/philox.h"

static uint64_t drawn;
static const uint64_t kSeed = 5;

static int64_t draw(int64_t low, int64_t high) {
  return low + braid_random_below(kSeed, 0, 0, drawn++, (uint32_t)(high - low + 1));
}

static braid_layout layout_of(const char *text) {
  braid_layout layout;
  if (braid_layout_parse(text, &layout) != BRAID_OK) fail_msg("%s: %s", text, braid_error_detail());
  return layout;
}

static braid_desc desc_of(const char *text, int rank, const int64_t *dims) {
  braid_desc desc;
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, rank, dims), BRAID_OK);
  if (braid_desc_set_layout(&desc, layout_of(text)) != BRAID_OK) fail_msg("%s: %s", text, braid_error_detail());
  return desc;
}

static void test_text(void **state) {
  (void)state;
  static const struct {
    const char *text, *printed;
    int rank;
  } kCases[] = {{"plain", "plain", 4},       {"BHWC", "BHWC", 3},         {"CHWB", "CHWB", 5},
                {"abcd", "plain", 4},        {"acdb", "BHWC", 4},         {"acb", "BHWC", 3},
                {"bcda", "CHWB", 4},         {"ba", "CHWB", 2},           {"ABcd16b16a", "ABcd16b16a", 4},
                {"aBcd16b", "aBcd16b", 4},   {"Acdb16a", "Acdb16a", 4},   {"ABcde8b8a", "ABcde8b8a", 5},
                {"BA16a48b", "BA16a48b", 2}, {"Abcd4a8a", "Abcd4a8a", 4}, {"hgfedcba", "hgfedcba", 8},
                {"GHabcdEf255e2g", "", 0}};
  char text[BRAID_LAYOUT_TEXT];
  for (size_t i = 0; i + 1 < sizeof kCases / sizeof *kCases; i++)
    assert_string_equal(braid_layout_format(layout_of(kCases[i].text), kCases[i].rank, text, sizeof text),
                        kCases[i].printed);
  assert_true(layout_of("aBcd16b") == BRAID_LAYOUT_BLOCKED16 && layout_of("aBcde16b") == BRAID_LAYOUT_BLOCKED16);
  assert_true(layout_of("ABcd16b16a") == (BRAID_LAYOUT_BLOCKED(0, 1, 16) | BRAID_LAYOUT_BLOCKED(1, 0, 16)));
  assert_true(layout_of("ABcd16b16a") != layout_of("ABcd16a16b"));
  static const char *const kWrong[] = {"",
                                       "Plain",
                                       "aa",
                                       "ac",
                                       "abi",
                                       "aBcd",
                                       "abcd16b",
                                       "aBcd1b",
                                       "aBcd256b",
                                       "aBcd16e",
                                       "aBcd16",
                                       "aBcd16bx",
                                       "ABcd2a2b2a",
                                       "aBcd-16b",
                                       "aBcd99999999999999999999b",
                                       "GHabcdEf255e2g"};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    braid_layout layout;
    if (braid_layout_parse(kWrong[i], &layout) == BRAID_OK) fail_msg("\"%s\" is taken for a layout", kWrong[i]);
  }
}

/* Numbers that are no layout of the rank, from anywhere: all of their blocks, more of them than there can be. */
static void test_no_layouts(void **state) {
  (void)state;
  char text[BRAID_LAYOUT_TEXT];
  assert_string_equal(braid_layout_format(~(braid_layout)0, 4, text, sizeof text), "0xffffffffffffffff");
  assert_string_equal(braid_layout_format(BRAID_LAYOUT_BLOCKED16, 1, text, sizeof text), "0x110000000");
  assert_string_equal(braid_layout_format(layout_of("aBcd16b"), 1000, text, sizeof text), "0x110000000");
  assert_int_equal(braid_layout_take_apart(~(braid_layout)0, 4).block_count, BRAID_LAYOUT_BLOCKS);
  (void)braid_desc_bytes(
      &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {1, 2, 3, 4}, .layout = ~(braid_layout)0});
}

static void test_sizes(void **state) {
  (void)state;
  const int64_t dims[] = {20, 3, 5, 7};
  braid_desc desc = desc_of("ABcd16b16a", 4, dims);
  assert_int_equal(braid_desc_bytes(&desc), 32 * 16 * 35 * 4);
  assert_true(braid_desc_is_padded(&desc));
  desc = desc_of("Acdb16a", 4, dims);
  assert_int_equal(braid_desc_bytes(&desc), 32 * 3 * 35 * 4);
  desc = desc_of("dcba", 4, dims);
  assert_int_equal(braid_desc_bytes(&desc), 20 * 3 * 35 * 4);
  assert_false(braid_desc_is_padded(&desc));
  desc = desc_of("aBcd16b", 4, (int64_t[]){2, 32, 0, 7});
  assert_int_equal(braid_desc_bytes(&desc), 0);
  assert_false(braid_desc_is_padded(&desc));
  desc = desc_of("aBcd16b", 4, (int64_t[]){0, 20, 5, 7}); /* nothing, whose channels are padded all the same */
  assert_int_equal(braid_desc_bytes(&desc), 0);
  assert_true(braid_desc_is_padded(&desc));
  desc = desc_of("BHWC", 2, dims); /* without places, channels are last anyway */
  assert_true(desc.layout == BRAID_LAYOUT_PLAIN);
}

static void test_refused(void **state) {
  (void)state;
  braid_desc desc;
  const int64_t dims[] = {INT64_MAX / 64, 1};
  assert_int_equal(braid_desc_init(&desc, BRAID_U8, 2, dims), BRAID_OK);
  assert_int_equal(braid_desc_set_layout(&desc, layout_of("aB16b")), BRAID_OK);
  assert_int_equal(braid_desc_set_layout(&desc, layout_of("aB255b")), BRAID_OUT_OF_RANGE);
  assert_int_equal(braid_desc_set_layout(&desc, layout_of("ABcd16b16a") | 1), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_desc_set_layout(&desc, ~(braid_layout)0), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_desc_set_layout(&desc, layout_of("abcD16d")), BRAID_INVALID_ARGUMENT);
}

/* oneDNN's OIhw16i16o, nChw16c and Ohwi16o as its guide draws them. */
static void test_places(void **state) {
  (void)state;
  const int64_t dims[] = {40, 20, 3, 5};
  braid_desc weights = desc_of("ABcd16b16a", 4, dims), images = desc_of("aBcd16b", 4, dims),
             few = desc_of("Acdb16a", 4, dims);
  braid_places w = braid_places_of(&weights), x = braid_places_of(&images), f = braid_places_of(&few);
  for (int64_t a = 0; a < 40; a++)
    for (int64_t b = 0; b < 20; b++)
      for (int64_t c = 0; c < 3; c++)
        for (int64_t d = 0; d < 5; d++) {
          int64_t index[] = {a, b, c, d};
          assert_int_equal(braid_places_find(&w, index),
                           (((((a / 16) * 2 + b / 16) * 3 + c) * 5 + d) * 16 + b % 16) * 16 + a % 16);
          assert_int_equal(braid_places_find(&x, index), (((a * 2 + b / 16) * 3 + c) * 5 + d) * 16 + b % 16);
          assert_int_equal(braid_places_find(&f, index), ((((a / 16) * 3 + c) * 5 + d) * 20 + b) * 16 + a % 16);
        }
}

static void test_contents(void **state) {
  (void)state;
  float plain[17 * 3 * 5], packed[32 * 16 * 5], back[17 * 3 * 5];
  braid_desc desc = desc_of("ABc16b16a", 3, (int64_t[]){17, 3, 5});
  for (int i = 0; i < 17 * 3 * 5; i++) plain[i] = (float)i + 1;
  memset(packed, 0xff, sizeof packed);
  assert_int_equal(braid_desc_bytes(&desc), sizeof packed);
  braid_layout_pack(&desc, plain, packed);
  int zeros = 0;
  for (int i = 0; i < 32 * 16 * 5; i++) zeros += packed[i] == 0;
  assert_int_equal(zeros, 32 * 16 * 5 - 17 * 3 * 5);
  assert_true(packed[1] == 16); /* filter 1, channel 0 */
  braid_layout_unpack(&desc, packed, back);
  assert_memory_equal(plain, back, sizeof plain);
}

/* --- views ---------------------------------------------------------------------------------------------------------
 */
static int64_t place_of(const braid_desc *desc, int64_t number) {
  int64_t index[BRAID_MAX_RANK];
  braid_places p = braid_places_of(desc);
  for (int d = desc->rank; d-- > 0; number /= desc->dims[d]) index[d] = number % desc->dims[d];
  return braid_places_find(&p, index);
}

static bool lie_alike(const braid_desc *a, const braid_desc *b) {
  for (int64_t i = 0; i < braid_desc_count(a); i++)
    if (place_of(a, i) != place_of(b, i)) return false;
  return true;
}

static void test_known_views(void **state) {
  (void)state;
  static const struct {
    const char *from;
    int64_t dims[4];
    int rank;
    int64_t to[4];
    const char *view; /* NULL: none */
  } kCases[] = {
      {"CHWB", {8, 6, 4, 5}, 2, {8, 120}, "ba"},        /* Flatten: rows x batch */
      {"CHWB", {8, 6, 4, 5}, 3, {8, 6, 20}, "CHWB"},    /* places merged */
      {"CHWB", {8, 6, 4, 5}, 2, {48, 20}, NULL},        /* batch and channels are no neighbours */
      {"CHWB", {1, 6, 4, 5}, 2, {1, 120}, "plain"},     /* a batch of one */
      {"BHWC", {8, 6, 4, 5}, 2, {8, 120}, NULL},        /* another order of the numbers */
      {"BHWC", {8, 6, 1, 1}, 2, {8, 6}, "plain"},       /* after a global pool */
      {"BHWC", {8, 1, 4, 5}, 2, {8, 20}, "plain"},      /* one channel */
      {"BHWC", {8, 6, 4, 5}, 3, {8, 6, 20}, "BHWC"},    /* */
      {"BHWC", {8, 6, 1, 20}, 4, {8, 6, 4, 5}, "BHWC"}, /* places split */
      {"aBcd16b", {8, 32, 1, 1}, 2, {8, 32}, "plain"},  /* */
      {"aBcd16b", {8, 32, 2, 1}, 2, {8, 64}, NULL},     /* */
      {"aBcd16b", {8, 32, 2, 3}, 3, {8, 32, 6}, "aBc16b"},
      {"aBcd16b", {8, 20, 2, 3}, 3, {8, 20, 6}, "aBc16b"}, /* padded channels that stay whole */
      {"aBcd16b", {8, 20, 1, 1}, 2, {8, 20}, "aB16b"},
      {"aBcd16b", {8, 20, 1, 1}, 1, {160}, NULL}, /* padding between */
      {"aBcd16b", {1, 20, 1, 1}, 1, {20}, "A16a"},
      {"ABcd16b16a", {32, 48, 3, 3}, 3, {32, 48, 9}, "ABc16b16a"},
      {"ba", {6, 4, 1, 1}, 4, {6, 2, 2, 1}, "CHWB"},
      {"plain", {2, 6, 4, 5}, 3, {4, 3, 20}, "plain"},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_desc from = desc_of(kCases[i].from, 4, kCases[i].dims), to = desc_of("plain", kCases[i].rank, kCases[i].to);
    braid_layout view;
    char text[BRAID_LAYOUT_TEXT];
    bool found = braid_layout_view(&from, &to, &view);
    if (found != (kCases[i].view != NULL)) fail_msg("case %zu: %s", i, found ? "a view" : "no view");
    if (!found) continue;
    if (view != layout_of(kCases[i].view))
      fail_msg("case %zu: %s", i, braid_layout_format(view, to.rank, text, sizeof text));
    to.layout = view;
    assert_true(lie_alike(&from, &to));
    assert_true(braid_layout_same_places(&from, &to));
    assert_int_equal(braid_desc_bytes(&from), braid_desc_bytes(&to));
  }
}

/* A shape of at most 6 dimensions with as many elements, by merging and splitting those of another. */
static int reshape(const braid_desc *from, int64_t *dims) {
  int rank = 0;
  for (int i = 0; i < from->rank; i++) {
    int64_t dim = from->dims[i], part = draw(2, 4);
    if (rank && draw(0, 2) == 0)
      dims[rank - 1] *= dim;
    else if (dim % part == 0 && rank < 5 && draw(0, 1))
      dims[rank++] = dim / part, dims[rank++] = part;
    else
      dims[rank++] = dim;
    if (rank < 6 && draw(0, 4) == 0) dims[rank++] = 1;
    if (rank >= 6) {
      for (i++; i < from->rank; i++) dims[rank - 1] *= from->dims[i];
    }
  }
  return rank;
}

/* What is called a view lies alike; of every shape whose memory some layout describes, one is found: those that are the
 * tensor's own, its dimensions of one left out or added. */
static void test_any_views(void **state) {
  (void)state;
  static const char *const kTexts[] = {"plain", "BHWC",   "CHWB",     "aBcd16b", "ABcd4b4a",
                                       "dbca",  "Acdb4a", "ABcd2a6b", "Abcd2a3a"};
  int views = 0, others = 0;
  for (int n = 0; n < 3000; n++) {
    int64_t dims[4] = {draw(1, 8), draw(1, 20), draw(1, 4), draw(1, 6)}, other[8];
    braid_desc from = desc_of(kTexts[draw(0, 8)], 4, dims), to;
    int rank = draw(0, 3) ? reshape(&from, other) : 4;
    if (rank == 4 && draw(0, 1)) memcpy(other, dims, sizeof dims);
    if (braid_desc_init(&to, BRAID_F32, rank, other) != BRAID_OK || braid_desc_count(&to) != braid_desc_count(&from))
      continue;
    bool own = braid_desc_same_shape(&from, &to), found = braid_layout_view(&from, &to, &to.layout);
    if (own) assert_true(found);
    if (!found) {
      others++;
      continue;
    }
    views++;
    if (!lie_alike(&from, &to)) fail_msg("draw %d is no view", n);
    assert_true(braid_layout_same_places(&from, &to));
    braid_desc moved = to;
    assert_int_equal(braid_desc_set_layout(&moved, layout_of("CHWB")), BRAID_OK);
    bool same = braid_layout_same_places(&from, &moved), alike = lie_alike(&from, &moved);
    assert_true(same ? alike : !alike || braid_desc_is_padded(&from));
  }
  assert_true(views > 500 && others > 300);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),      cmocka_unit_test(test_sizes),      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_places),    cmocka_unit_test(test_contents),   cmocka_unit_test(test_known_views),
      cmocka_unit_test(test_any_views), cmocka_unit_test(test_no_layouts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
