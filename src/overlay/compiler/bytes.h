/* Numbers and texts of packages' tables, little endian: what writes and reads them. A text is its length and its bytes.
 */
#ifndef BRAID_OVERLAY_COMPILER_BYTES_H
#define BRAID_OVERLAY_COMPILER_BYTES_H

#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/try.h"

enum { kMostText = 4096, kMostItems = 1 << 24 };

static inline void put_number(braid_text *out, uint64_t value, int bytes) {
  uint8_t raw[8];
  for (int b = 0; b < bytes; b++) raw[b] = (uint8_t)(value >> (8 * b));
  braid_text_add_bytes(out, raw, (size_t)bytes);
}

static inline void put_u32(braid_text *out, uint64_t value) {
  put_number(out, value, 4);
}

static inline void put_u64(braid_text *out, uint64_t value) {
  put_number(out, value, 8);
}

static inline void put_text(braid_text *out, const char *text) {
  size_t length = strlen(text);
  if (length > kMostText) length = kMostText;
  put_u32(out, length);
  braid_text_add_bytes(out, text, length);
}

/* Reading: each failure is INVALID_FILE and names the byte, what should be there and what is allowed. */
typedef struct braid_bytes {
  const uint8_t *data;
  size_t count, at;
  braid_arena *arena;
} braid_bytes;

static inline braid_status get_number(braid_bytes *in, const char *what, int bytes, uint64_t lowest, uint64_t highest,
                                      uint64_t *out) {
  uint64_t value = 0;
  if (in->count - in->at < (size_t)bytes)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu of the tables: they end where %s should be", in->at, what);
  for (int b = 0; b < bytes; b++) value |= (uint64_t)in->data[in->at + (size_t)b] << (8 * b);
  if (value < lowest || value > highest)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu of the tables: %s is %llu; %llu to %llu are allowed", in->at, what,
                      (unsigned long long)value, (unsigned long long)lowest, (unsigned long long)highest);
  in->at += (size_t)bytes;
  *out = value;
  return BRAID_OK;
}

static inline braid_status get_u32(braid_bytes *in, const char *what, uint32_t lowest, uint32_t highest,
                                   uint32_t *out) {
  uint64_t value = 0;
  BRAID_TRY(get_number(in, what, 4, lowest, highest, &value));
  *out = (uint32_t)value;
  return BRAID_OK;
}

static inline braid_status get_i32(braid_bytes *in, const char *what, int32_t lowest, int32_t highest, int32_t *out) {
  uint64_t value = 0;
  BRAID_TRY(get_number(in, what, 4, (uint32_t)lowest, (uint32_t)highest, &value));
  *out = (int32_t)value;
  return BRAID_OK;
}

static inline braid_status get_i64(braid_bytes *in, const char *what, int64_t highest, int64_t *out) {
  uint64_t value = 0;
  BRAID_TRY(get_number(in, what, 8, 0, (uint64_t)highest, &value));
  *out = (int64_t)value;
  return BRAID_OK;
}

static inline braid_status get_text(braid_bytes *in, const char *what, const char **out) {
  uint32_t length = 0;
  BRAID_TRY(get_u32(in, what, 0, kMostText, &length));
  if (in->count - in->at < length || memchr(in->data + in->at, 0, length))
    return braid_fail(BRAID_INVALID_FILE, "byte %zu of the tables: %s is no text of %u bytes", in->at, what, length);
  *out = braid_arena_text(in->arena, (const char *)in->data + in->at, length);
  in->at += length;
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

/* The number of items of which each takes at least `least` bytes, and memory for them. */
static inline braid_status get_items(braid_bytes *in, const char *what, size_t least, size_t size, size_t most,
                                     void **items, size_t *count) {
  uint32_t number = 0;
  BRAID_TRY(get_u32(in, what, 0, (uint32_t)most, &number));
  if ((in->count - in->at) / least < number)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu of the tables: there is no room for %u of %s", in->at, number,
                      what);
  *count = number;
  *items = braid_arena_alloc(in->arena, ((size_t)number + 1) * size);
  return *items ? BRAID_OK : BRAID_NO_MEMORY;
}

#endif
