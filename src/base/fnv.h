/* FNV-1a (Fowler, Noll, Vo): a number that tells what few bytes depend on. Not for what an adversary chooses: siphash.h
 * and sha256.h are. */
#ifndef BRAID_BASE_FNV_H
#define BRAID_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

#define BRAID_FNV_START UINT64_C(14695981039346656037)

/* `key` with `bytes` more bytes; the first time it is BRAID_FNV_START. */
static inline uint64_t braid_fnv_mix(uint64_t key, const void *data, size_t bytes) {
  const uint8_t *at = data;
  for (size_t i = 0; i < bytes; i++) key = (key ^ at[i]) * UINT64_C(1099511628211);
  return key;
}

#endif
