/* SipHash with 128 bits (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012, and the authors' variant of 128
 * bits), under a key that a process draws once: whoever does not know it cannot look for two texts of one hash, so what
 * comes from files may be identified by it. Never in a file, never visible in a result. */
#ifndef BRAID_BASE_SIPHASH_H
#define BRAID_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-1-3 under the key of the process. */
void braid_siphash(const void *data, size_t bytes, uint64_t out[2]);
/* SipHash-c-d under any key. */
void braid_siphash_keyed(const uint64_t key[2], int c, int d, const void *data, size_t bytes, uint64_t out[2]);

#endif
