#include "base/siphash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

static uint64_t process_key[2];

static void make_key(void) {
  if (getrandom(process_key, sizeof process_key, GRND_NONBLOCK) == sizeof process_key) return;
  process_key[0] = (uint64_t)(uintptr_t)&process_key;
  process_key[1] = 0x9e3779b97f4a7c15u;
}

static inline uint64_t rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static inline void sip_rounds(uint64_t v[4], int count) {
  for (int i = 0; i < count; i++) {
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
  }
}

static inline void sip_hash(const uint64_t key[2], int c, int d, const void *data, size_t bytes, uint64_t out[2]) {
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du ^ 0xee, key[0] ^ 0x6c7967656e657261u,
                   key[1] ^ 0x7465646279746573u};
  const uint8_t *at = data;
  for (size_t left = bytes;; at += 8, left -= 8) {
    uint64_t word = left < 8 ? (uint64_t)bytes << 56 : 0;
    if (left) memcpy(&word, at, left < 8 ? left : 8);
    v[3] ^= word;
    sip_rounds(v, c);
    v[0] ^= word;
    if (left < 8) break;
  }
  v[2] ^= 0xee;
  sip_rounds(v, d);
  out[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
  v[1] ^= 0xdd;
  sip_rounds(v, d);
  out[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
}

void braid_siphash_keyed(const uint64_t key[2], int c, int d, const void *data, size_t bytes, uint64_t out[2]) {
  sip_hash(key, c, d, data, bytes, out);
}

void braid_siphash(const void *data, size_t bytes, uint64_t out[2]) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_key);
  sip_hash(process_key, 1, 3, data, bytes, out);
}
