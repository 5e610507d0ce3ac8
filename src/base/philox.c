#include "base/philox.h"

#include <math.h>

void braid_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

static void block(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t index, uint32_t out[4]) {
  const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), step, tensor};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  braid_philox(counter, key, out);
}

uint32_t braid_random_u32(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element) {
  uint32_t out[4];
  block(seed, step, tensor, element / 4, out);
  return out[element % 4];
}

float braid_random_uniform(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element) {
  return (float)(braid_random_u32(seed, step, tensor, element) >> 8) * 0x1p-24f;
}

float braid_random_normal(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element) {
  uint32_t out[4];
  block(seed, step, tensor, element, out);
  double u = ((double)out[0] + 1) * 0x1p-32, v = (double)out[1] * 0x1p-32; /* u in (0, 1] */
  return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

uint32_t braid_random_below(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element, uint32_t bound) {
  uint32_t out[4];
  block(seed, step, tensor, element, out);
  /* the upper 64 of the 96 bits of (out[0], out[1]) * bound */
  uint64_t low = (uint64_t)out[1] * bound, high = (uint64_t)out[0] * bound + (low >> 32);
  return (uint32_t)(high >> 32);
}
