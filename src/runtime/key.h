/* Keys of what a machine keeps for those who come later: everything that it depends on, byte after byte. */
#ifndef BRAID_RUNTIME_KEY_H
#define BRAID_RUNTIME_KEY_H

#include "braid/graph.h"

enum { kSmallKey = 512 };

typedef struct braid_key {
  const braid_allocator *allocator;
  uint8_t *data;
  size_t bytes, room; /* what goes beyond the room is only counted */
  uint8_t small[kSmallKey];
} braid_key;

/* Calls `fill`, and again with more room if it needs that. On failure there is nothing to undo. */
BRAID_MUST_CHECK braid_status braid_key_init(braid_key *key, const braid_allocator *allocator,
                                             void (*fill)(braid_key *key, const void *context), const void *context);
void braid_key_deinit(braid_key *key);
uint64_t braid_key_hash(const braid_key *key);

/* For `fill`. */
void braid_key_put(braid_key *key, const void *data, size_t bytes);
void braid_key_number(braid_key *key, int64_t number);
void braid_key_text(braid_key *key, const char *text);
void braid_key_desc(braid_key *key, const braid_desc *desc);
void braid_key_attr(braid_key *key, const braid_attr *attr);

#endif
