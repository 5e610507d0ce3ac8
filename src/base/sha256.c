#include "base/sha256.h"

#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { kBlock = 64, kRounds = 64, kPair = 2 };

static const uint32_t kConstants[kRounds] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
static const uint32_t kBegin[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* --- blocks --------------------------------------------------------------------------------------------------------
 */
static uint32_t turn(uint32_t x, int by) {
  return x >> by | x << (32 - by);
}

static void compress_plain(uint32_t state[8], const uint8_t *data, size_t blocks) {
  for (; blocks > 0; blocks--, data += kBlock) {
    uint32_t w[kRounds], s[8];
    for (int i = 0; i < 16; i++)
      w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 | (uint32_t)data[4 * i + 2] << 8 |
             data[4 * i + 3];
    for (int i = 16; i < kRounds; i++)
      w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
             (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof s);
    /* Variable a of round i lies at s[-i mod 8], b at the next place and so on: nothing moves. */
#pragma GCC unroll 8
    for (unsigned i = 0; i < kRounds; i++) {
      uint32_t a = s[(8 - i) % 8], b = s[(9 - i) % 8], c = s[(10 - i) % 8], e = s[(12 - i) % 8], f = s[(13 - i) % 8];
      uint32_t g = s[(14 - i) % 8], *h = &s[(15 - i) % 8];
      uint32_t t = *h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + kConstants[i] + w[i];
      s[(11 - i) % 8] += t;
      *h = t + (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
  }
}

#ifdef __x86_64__
#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

/* `streams` texts in turn: an instruction waits for the one before it of its own text alone. */
WITH_SHA static inline __attribute__((always_inline)) void
compress_streams(int streams, uint32_t (*states)[8], const uint8_t *const *texts, size_t blocks) {
  const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef[kPair], cdgh[kPair];
#pragma GCC unroll 2
  for (int t = 0; t < streams; t++) {
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)&states[t][0]), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)&states[t][4]), 0x1b);
    abef[t] = _mm_alignr_epi8(low, high, 8);
    cdgh[t] = _mm_blend_epi16(high, low, 0xf0);
  }
  for (size_t block = 0; block < blocks; block++) {
    __m128i w[kPair][4], before[kPair][2];
#pragma GCC unroll 2
    for (int t = 0; t < streams; t++) {
      before[t][0] = abef[t], before[t][1] = cdgh[t];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++)
        w[t][i] = _mm_shuffle_epi8(
            _mm_loadu_si128((const __m128i *)(const void *)(texts[t] + block * kBlock + 16 * (size_t)i)), order);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRounds / 4; i++)
#pragma GCC unroll 2
      for (int t = 0; t < streams; t++) {
        __m128i *now = &w[t][i % 4], last = w[t][(i + 3) % 4];
        __m128i sum = _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)(const void *)&kConstants[4 * (size_t)i]));
        cdgh[t] = _mm_sha256rnds2_epu32(cdgh[t], abef[t], sum);
        abef[t] = _mm_sha256rnds2_epu32(abef[t], cdgh[t], _mm_shuffle_epi32(sum, 0x0e));
        if (i < kRounds / 4 - 4)
          *now = _mm_sha256msg2_epu32(
              _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[t][(i + 1) % 4]), _mm_alignr_epi8(last, w[t][(i + 2) % 4], 4)),
              last);
      }
#pragma GCC unroll 2
    for (int t = 0; t < streams; t++) {
      abef[t] = _mm_add_epi32(abef[t], before[t][0]);
      cdgh[t] = _mm_add_epi32(cdgh[t], before[t][1]);
    }
  }
#pragma GCC unroll 2
  for (int t = 0; t < streams; t++) {
    __m128i feba = _mm_shuffle_epi32(abef[t], 0x1b), dchg = _mm_shuffle_epi32(cdgh[t], 0xb1);
    _mm_storeu_si128((__m128i *)(void *)&states[t][0], _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)&states[t][4], _mm_alignr_epi8(dchg, feba, 8));
  }
}

WITH_SHA static void compress_one(uint32_t (*state)[8], const uint8_t *data, size_t blocks) {
  compress_streams(1, state, &data, blocks);
}

WITH_SHA static void compress_pair(uint32_t (*states)[8], const uint8_t *const *texts, size_t blocks) {
  compress_streams(kPair, states, texts, blocks);
}

static bool has_instructions(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/* 0: not known yet, 1: no, 2: yes. Whoever finds out first writes what all others would. */
static int uses_instructions;

static bool by_instructions(void) {
  int known = __atomic_load_n(&uses_instructions, __ATOMIC_RELAXED);
  if (!known) __atomic_store_n(&uses_instructions, known = 1 + has_instructions(), __ATOMIC_RELAXED);
  return known == 2;
}

bool braid_sha256_use_instructions(bool use) {
  if (use && !has_instructions()) return false;
  __atomic_store_n(&uses_instructions, 1 + use, __ATOMIC_RELAXED);
  return true;
}
#else
bool braid_sha256_use_instructions(bool use) {
  return !use;
}
#endif

static void compress(uint32_t (*state)[8], const uint8_t *data, size_t blocks) {
#ifdef __x86_64__
  if (by_instructions()) {
    compress_one(state, data, blocks);
    return;
  }
#endif
  compress_plain(*state, data, blocks);
}

/* --- texts ---------------------------------------------------------------------------------------------------------
 */
void braid_sha256_begin(braid_sha256 *hash) {
  hash->bytes = 0;
  memcpy(hash->state, kBegin, sizeof kBegin);
}

void braid_sha256_add(braid_sha256 *hash, const void *data, size_t bytes) {
  const uint8_t *at = data;
  size_t held = hash->bytes % kBlock;
  if (!bytes) return;
  hash->bytes += bytes;
  if (held) {
    size_t some = kBlock - held < bytes ? kBlock - held : bytes;
    memcpy(hash->rest + held, at, some);
    at += some, bytes -= some;
    if (held + some < kBlock) return;
    compress(&hash->state, hash->rest, 1);
  }
  compress(&hash->state, at, bytes / kBlock);
  if (bytes % kBlock) memcpy(hash->rest, at + bytes / kBlock * kBlock, bytes % kBlock);
}

void braid_sha256_end(braid_sha256 *hash, uint8_t out[BRAID_SHA256_BYTES]) {
  uint8_t tail[2 * kBlock] = {0x80};
  uint64_t bits = hash->bytes * 8;
  size_t held = hash->bytes % kBlock, fill = (held < 56 ? 56 : 120) - held;
  for (int i = 0; i < 8; i++) tail[fill + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
  braid_sha256_add(hash, tail, fill + 8);
  for (int i = 0; i < BRAID_SHA256_BYTES; i++) out[i] = (uint8_t)(hash->state[i / 4] >> (24 - i % 4 * 8));
}

void braid_sha256_of(const void *data, size_t bytes, uint8_t out[BRAID_SHA256_BYTES]) {
  braid_sha256 hash;
  braid_sha256_begin(&hash);
  braid_sha256_add(&hash, data, bytes);
  braid_sha256_end(&hash, out);
}

/* --- pieces --------------------------------------------------------------------------------------------------------
 */
size_t braid_sha256_pieces(size_t bytes) {
  return bytes ? (bytes - 1) / BRAID_SHA256_PIECE + 1 : 1;
}

/* Two whole pieces that follow each other. */
static void hash_pair(const uint8_t *data, uint8_t *sums) {
#ifdef __x86_64__
  if (by_instructions()) {
    braid_sha256 hashes[kPair];
    uint32_t states[kPair][8];
    const uint8_t *texts[kPair] = {data, data + BRAID_SHA256_PIECE};
    for (int t = 0; t < kPair; t++) memcpy(states[t], kBegin, sizeof kBegin);
    compress_pair(states, texts, BRAID_SHA256_PIECE / kBlock);
    for (int t = 0; t < kPair; t++) {
      memcpy(hashes[t].state, states[t], sizeof states[t]);
      hashes[t].bytes = BRAID_SHA256_PIECE;
      braid_sha256_end(&hashes[t], sums + t * BRAID_SHA256_BYTES);
    }
    return;
  }
#endif
  for (int t = 0; t < kPair; t++)
    braid_sha256_of(data + t * BRAID_SHA256_PIECE, BRAID_SHA256_PIECE, sums + t * BRAID_SHA256_BYTES);
}

void braid_sha256_of_pieces(const void *data, size_t bytes, int threads, uint8_t *sums,
                            uint8_t out[BRAID_SHA256_BYTES]) {
  const uint8_t *at = data;
  size_t pieces = braid_sha256_pieces(bytes);
  bool many = threads > 1 && pieces > 2 * kPair;
  (void)many;
#pragma omp parallel for schedule(static) num_threads(threads) if (many)
  for (size_t i = 0; i < pieces; i += kPair) {
    if ((i + kPair) * BRAID_SHA256_PIECE <= bytes) {
      hash_pair(at + i * BRAID_SHA256_PIECE, sums + i * BRAID_SHA256_BYTES);
      continue;
    }
    for (size_t k = i; k < i + kPair && k < pieces; k++) {
      size_t from = k * BRAID_SHA256_PIECE, left = bytes - from;
      braid_sha256_of(bytes ? at + from : NULL, left < BRAID_SHA256_PIECE ? left : BRAID_SHA256_PIECE,
                      sums + k * BRAID_SHA256_BYTES);
    }
  }
  braid_sha256_of(sums, pieces * BRAID_SHA256_BYTES, out);
}

void braid_sha256_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                      uint8_t out[BRAID_SHA256_BYTES]) {
  enum { BLOCK = 64, INNER = 0x36, OUTER = 0x5c };
  uint8_t block[BLOCK] = {0};
  braid_sha256 hash;
  if (key_bytes > BLOCK)
    braid_sha256_of(key, key_bytes, block);
  else if (key_bytes)
    memcpy(block, key, key_bytes);
  for (int i = 0; i < BLOCK; i++) block[i] ^= INNER;
  braid_sha256_begin(&hash);
  braid_sha256_add(&hash, block, sizeof block);
  braid_sha256_add(&hash, data, bytes);
  braid_sha256_end(&hash, out);
  for (int i = 0; i < BLOCK; i++) block[i] ^= INNER ^ OUTER;
  braid_sha256_begin(&hash);
  braid_sha256_add(&hash, block, sizeof block);
  braid_sha256_add(&hash, out, BRAID_SHA256_BYTES);
  braid_sha256_end(&hash, out);
}

void braid_sha256_text(const uint8_t *sum, size_t bytes, char *out) {
  static const char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < bytes; i++) {
    out[2 * i] = kDigits[sum[i] >> 4];
    out[2 * i + 1] = kDigits[sum[i] & 15];
  }
  out[2 * bytes] = '\0';
}
