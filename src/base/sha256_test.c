/* SHA-256 against FIPS 180-4's examples and against what Python's hashlib gave for all lengths around the blocks and
 * the pieces, with the processor's instructions and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

static const char *hex_of(const uint8_t sum[BRAID_SHA256_BYTES]) {
  static char text[BRAID_SHA256_HEX + 1];
  braid_sha256_text(sum, BRAID_SHA256_BYTES, text);
  return text;
}

/* Bytes that Python made by the same formula. */
static uint8_t *pattern(size_t bytes) {
  uint8_t *data = malloc(bytes + 1);
  assert_non_null(data);
  for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * i * 7 + i * 13 + bytes);
  return data;
}

static void check_examples(void) {
  static const char *const kTexts[][2] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
  uint8_t sum[BRAID_SHA256_BYTES];
  for (size_t i = 0; i < sizeof kTexts / sizeof *kTexts; i++) {
    braid_sha256_of(kTexts[i][0], strlen(kTexts[i][0]), sum);
    assert_string_equal(hex_of(sum), kTexts[i][1]);
  }
  braid_sha256 hash;
  braid_sha256_begin(&hash);
  char many[1000];
  memset(many, 'a', sizeof many);
  for (int i = 0; i < 1000; i++) braid_sha256_add(&hash, many, sizeof many);
  braid_sha256_end(&hash, sum);
  assert_string_equal(hex_of(sum), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* RFC 4231's test cases 1 to 3 and 6, whose key is longer than a block. */
static void check_macs(void) {
  char ones[20], twos[20], fifties[50], long_key[131];
  memset(ones, 0x0b, sizeof ones);
  memset(twos, 0xaa, sizeof twos);
  memset(fifties, 0xdd, sizeof fifties);
  memset(long_key, 0xaa, sizeof long_key);
  const char kLong[] = "Test Using Larger Than Block-Size Key - Hash Key First";
  const struct {
    const char *key, *data, *mac;
    size_t key_bytes, bytes;
  } kCases[] = {
      {ones, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", sizeof ones, 8},
      {"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", 4,
       28},
      {twos, fifties, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe", sizeof twos, sizeof fifties},
      {long_key, kLong, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", sizeof long_key,
       sizeof kLong - 1},
  };
  uint8_t sum[BRAID_SHA256_BYTES];
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_sha256_mac(kCases[i].key, kCases[i].key_bytes, kCases[i].data, kCases[i].bytes, sum);
    assert_string_equal(hex_of(sum), kCases[i].mac);
  }
}

/* Every length up to 299, in one part and in several. */
static void check_lengths(void) {
  braid_sha256 all, parts;
  uint8_t sum[BRAID_SHA256_BYTES], again[BRAID_SHA256_BYTES];
  braid_sha256_begin(&all);
  for (size_t bytes = 0; bytes < 300; bytes++) {
    uint8_t *data = pattern(bytes);
    braid_sha256_of(data, bytes, sum);
    braid_sha256_begin(&parts);
    for (size_t at = 0, some; at < bytes; at += some) {
      some = 1 + at % 70 < bytes - at ? 1 + at % 70 : bytes - at;
      braid_sha256_add(&parts, data + at, some);
    }
    braid_sha256_end(&parts, again);
    assert_memory_equal(sum, again, sizeof sum);
    braid_sha256_add(&all, sum, sizeof sum);
    free(data);
  }
  braid_sha256_end(&all, sum);
  assert_string_equal(hex_of(sum), "b5b665196f3b8f02f226075f406e19d09ec004dc884b890cbe35c2bdcb3cc79b");
}

static void check_pieces(void) {
  static const struct {
    size_t bytes;
    const char *sum;
  } kCases[] = {{0, "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456"},
                {1, "9c12cfdc04c74584d787ac3d23772132c18524bc7ab28dec4219b8fc5b425f70"},
                {65535, "ef9404c063e6c6f25abaf510e4db0037a55831a113e0c47653d9d414f1ebc3a1"},
                {65536, "964cbc52c1fb98bc6fd891da586fe08a5b9b600500e1ba4fc6d26b1ad5af1110"},
                {65537, "a7d12e1b68008075c9a6148641c4f2d4ce553e4c1c2cfbc445431154c2770125"},
                {131072, "c6a80e2ad619e3173825fa1b31fcbf0cb1436cfe4d3f5bcef8cdbb9ae95ff193"},
                {327757, "4fc5d65f9f157b74a044f9692cc97163f6156da938d7b1865537842bc99f07e0"},
                {786496, "3f8da8922f2080a484192a4b95c436ca13f613ce744397a591dc917e03362896"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++)
    for (int threads = 1; threads <= 3; threads++) {
      uint8_t *data = pattern(kCases[i].bytes), sum[BRAID_SHA256_BYTES];
      uint8_t *sums = malloc(braid_sha256_pieces(kCases[i].bytes) * BRAID_SHA256_BYTES);
      assert_non_null(sums);
      braid_sha256_of_pieces(data, kCases[i].bytes, threads, sums, sum);
      assert_string_equal(hex_of(sum), kCases[i].sum);
      free(sums);
      free(data);
    }
}

static void test_sha256(void **state) {
  (void)state;
  for (int use = 0; use < 2; use++) {
    if (!braid_sha256_use_instructions(use)) {
      print_message("this processor has no instructions for SHA-256\n");
      continue;
    }
    check_examples();
    check_macs();
    check_lengths();
    check_pieces();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sha256)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
