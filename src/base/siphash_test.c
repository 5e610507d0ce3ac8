/* The authors' vectors of SipHash-2-4 with 128 bits (vectors.h of the reference implementation): key 00 01 .. 0f, input
 * 00 01 .. of each length. */
#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void test_vectors(void **state) {
  (void)state;
  static const struct {
    size_t bytes;
    const char *hash;
  } cases[] = {
      {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
      {2, "8177228da4a45dc7fca38bdef60affe4"},  {3, "9c70b60c5267a94e5f33b6b02985ed51"},
      {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
  };
  uint8_t key_bytes[16], input[16];
  uint64_t key[2];
  for (int i = 0; i < 16; i++) key_bytes[i] = input[i] = (uint8_t)i;
  memcpy(key, key_bytes, sizeof key);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t hash[2];
    uint8_t bytes[16];
    char text[33];
    braid_siphash_keyed(key, 2, 4, input, cases[i].bytes, hash);
    memcpy(bytes, hash, sizeof bytes);
    for (int k = 0; k < 16; k++) snprintf(text + 2 * k, 3, "%02x", bytes[k]);
    assert_string_equal(text, cases[i].hash);
  }
}

/* Lengths count: zeros behind are another text. */
static void test_lengths(void **state) {
  (void)state;
  static const uint8_t kZeros[64];
  uint64_t hashes[65][2];
  for (size_t i = 0; i <= 64; i++) {
    braid_siphash(kZeros, i, hashes[i]);
    for (size_t k = 0; k < i; k++) assert_memory_not_equal(hashes[i], hashes[k], sizeof *hashes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_lengths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
