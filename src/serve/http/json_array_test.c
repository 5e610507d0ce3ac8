/* Arrays of numbers in JSON against jansson and strtod: the same numbers, and refused where jansson refuses. */
#include "serve/http/json_array.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "skip.h"

static const char *read(const char *text, braid_dtype dtype, void *out, size_t count) {
  size_t index;
  return braid_json_read_array(text, strlen(text), dtype, 3, out, count, &index);
}

static void test_floats(void **state) {
  (void)state;
  char text[64];
  for (uint64_t i = 0; i < 200000; i++) {
    uint32_t bits = braid_random_u32(1, 0, 0, i), digits = 1 + braid_random_below(1, 0, 1, i, 20);
    float value, got;
    double wide, got_wide;
    memcpy(&value, &bits, sizeof bits);
    if (!isfinite(value)) continue;
    if (i % 3 == 0) value = (braid_random_uniform(1, 0, 2, i) - 0.5F) * 100;
    snprintf(text, sizeof text, i % 2 ? "[%.*e]" : "[%.*g]", (int)digits, (double)value);
    wide = strtod(text + 1, NULL);
    if (isinf((float)wide)) continue;
    assert_null(read(text, BRAID_F32, &got, 1));
    assert_null(read(text, BRAID_F64, &got_wide, 1));
    assert_true(got_wide == wide && got == (float)wide && signbit(got) == signbit(value));
    braid_text out;
    braid_text_init(&out, NULL);
    braid_text_add(&out, "[");
    assert_true(braid_json_add_floats(&out, &value, 1));
    braid_text_add(&out, "]");
    json_t *parsed = json_loads(out.data, 0, NULL);
    assert_non_null(parsed);
    assert_true((float)json_number_value(json_array_get(parsed, 0)) == value);
    assert_null(read(out.data, BRAID_F32, &got, 1));
    assert_memory_equal(&got, &value, sizeof got);
    json_decref(parsed);
    braid_text_deinit(&out);
  }
}

static void test_integers(void **state) {
  (void)state;
  int8_t small[4];
  uint64_t large[2];
  int64_t least;
  uint8_t bools[3];
  assert_null(read("[[-128,127],[0 , -0]]", BRAID_I8, small, 4));
  assert_true(small[0] == -128 && small[1] == 127 && !small[2] && !small[3]);
  assert_non_null(read("[128]", BRAID_I8, small, 1));
  assert_non_null(read("[-129]", BRAID_I8, small, 1));
  assert_non_null(read("[1.0]", BRAID_I8, small, 1));
  assert_non_null(read("[1e1]", BRAID_I32, small, 1));
  assert_null(read("[18446744073709551615,0]", BRAID_U64, large, 2));
  assert_true(large[0] == UINT64_MAX && !large[1]);
  assert_non_null(read("[18446744073709551616]", BRAID_U64, large, 1));
  assert_non_null(read("[-1]", BRAID_U64, large, 1));
  assert_null(read("[-1844674407370955160]", BRAID_I64, &least, 1));
  assert_true(least == INT64_C(-1844674407370955160));
  assert_null(read("[true,false,1]", BRAID_BOOL, bools, 3));
  assert_true(bools[0] && !bools[1] && bools[2]);
  assert_non_null(read("[2]", BRAID_BOOL, bools, 1));
  assert_non_null(read("[true]", BRAID_F32, large, 1));
}

/* Every text of a few characters: read where jansson reads an array of two numbers, and nowhere else. */
static void test_grammar(void **state) {
  (void)state;
  static const char kLetters[] = "[],1-.e0 ";
  enum { kLong = 7, kCount = sizeof kLetters - 1 };
  char text[kLong + 1] = {0};
  size_t accepted = 0;
  for (uint32_t i = 0; i < 4782969; i++) { /* 9 to the power of 7 */
    uint32_t rest = i;
    for (size_t k = 0; k < kLong; k++, rest /= kCount) text[k] = kLetters[rest % kCount];
    if (text[0] != '[') continue;
    double got[2];
    braid_text skeleton;
    braid_json_arrays arrays;
    char body[64];
    int bytes = snprintf(body, sizeof body, "{\"data\":%s}", text);
    braid_text_init(&skeleton, NULL);
    assert_true(braid_json_take_arrays(body, (size_t)bytes, &skeleton, &arrays));
    size_t index;
    json_t *without = json_loads(skeleton.data, 0, NULL);
    bool ours = without && arrays.count == 1 &&
                !braid_json_read_array(arrays.items[0].text, arrays.items[0].bytes, BRAID_F64, 1, got, 2, &index);
    json_decref(without);
    braid_text_deinit(&skeleton);
    json_t *root = json_loads(body, 0, NULL), *data = json_object_get(root, "data");
    bool theirs = json_array_size(data) == 2 && json_is_number(json_array_get(data, 0)) &&
                  json_is_number(json_array_get(data, 1));
    if (ours != theirs) fail_msg("%s: %d, jansson %d", body, ours, theirs);
    if (theirs)
      assert_true(got[0] == json_number_value(json_array_get(data, 0)) &&
                  got[1] == json_number_value(json_array_get(data, 1)));
    accepted += ours;
    json_decref(root);
  }
  assert_true(accepted > 100);
}

static void test_taking_out(void **state) {
  (void)state;
  static const struct {
    const char *json, *skeleton;
    size_t count;
  } kCases[] = {
      {"{\"data\":[1,2],\"b\":\"data\"}", "{\"data\":[0],\"b\":\"data\"}", 1},
      {"{\"data\" : [[1],[2]] , \"data\":[3]}", "{\"data\" : [0] , \"data\":[1]}", 2},
      {"{\"a\":\"\\\"data\\\":[1]\",\"data\":[\"x\"]}", "{\"a\":\"\\\"data\\\":[1]\",\"data\":[\"x\"]}", 0},
      {"{\"data\":[1", "{\"data\":[1", 0},
      {"\"data", "\"data", 0},
      {"{\"date\":[1]}", "{\"date\":[1]}", 0},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_text skeleton;
    braid_json_arrays arrays;
    braid_text_init(&skeleton, NULL);
    assert_true(braid_json_take_arrays(kCases[i].json, strlen(kCases[i].json), &skeleton, &arrays));
    assert_string_equal(skeleton.data, kCases[i].skeleton);
    assert_int_equal(arrays.count, kCases[i].count);
    braid_text_deinit(&skeleton);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_floats), cmocka_unit_test(test_integers),
                                     cmocka_unit_test(test_grammar), cmocka_unit_test(test_taking_out)};
  return skip_run_group_tests(tests, NULL, NULL);
}
