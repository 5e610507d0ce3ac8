/* SHA-256 (FIPS 180-4), for what somebody else is to check: whoever writes a text cannot find another one of the same
 * hash. By the processor's instructions for it where it has them (x86-64). */
#ifndef BRAID_BASE_SHA256_H
#define BRAID_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BRAID_SHA256_BYTES = 32, BRAID_SHA256_HEX = 2 * BRAID_SHA256_BYTES, BRAID_SHA256_PIECE = 1 << 16 };

typedef struct braid_sha256 {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t rest[64]; /* bytes % 64 that no whole block has taken yet */
} braid_sha256;

void braid_sha256_begin(braid_sha256 *hash);
void braid_sha256_add(braid_sha256 *hash, const void *data, size_t bytes);
void braid_sha256_end(braid_sha256 *hash, uint8_t out[BRAID_SHA256_BYTES]);
/* All at once. */
void braid_sha256_of(const void *data, size_t bytes, uint8_t out[BRAID_SHA256_BYTES]);
/* HMAC-SHA-256 (RFC 2104): who does not know the key finds neither it nor what other data would have. */
void braid_sha256_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                      uint8_t out[BRAID_SHA256_BYTES]);
/* Of something long, by several threads: the hash of the hashes of its pieces of BRAID_SHA256_PIECE bytes (the last has
 * what is left; nothing has one empty piece). `sums` has room for 32 bytes of each piece. */
size_t braid_sha256_pieces(size_t bytes);
void braid_sha256_of_pieces(const void *data, size_t bytes, int threads, uint8_t *sums,
                            uint8_t out[BRAID_SHA256_BYTES]);
/* `bytes` as lower-case digits, and a final NUL. */
void braid_sha256_text(const uint8_t *sum, size_t bytes, char *out);
/* For tests: without the processor's instructions from here on; false: it has none. */
bool braid_sha256_use_instructions(bool use);

#endif
