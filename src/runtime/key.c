#include "runtime/key.h"

#include <string.h>

braid_status braid_key_init(braid_key *key, const braid_allocator *allocator,
                            void (*fill)(braid_key *key, const void *context), const void *context) {
  key->allocator = allocator;
  key->data = key->small;
  key->room = sizeof key->small;
  key->bytes = 0;
  fill(key, context);
  if (key->bytes <= key->room) return BRAID_OK;
  key->room = key->bytes;
  key->data = braid_alloc(allocator, key->bytes);
  if (!key->data) return BRAID_NO_MEMORY;
  key->bytes = 0;
  fill(key, context);
  return BRAID_OK;
}

void braid_key_deinit(braid_key *key) {
  if (key->data != key->small) braid_free(key->allocator, key->data);
}

uint64_t braid_key_hash(const braid_key *key) {
  uint64_t hash = key->bytes;
  for (size_t i = 0; i < key->bytes; i += 8) {
    uint64_t word = 0;
    memcpy(&word, key->data + i, key->bytes - i < 8 ? key->bytes - i : 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

void braid_key_put(braid_key *key, const void *data, size_t bytes) {
  if (key->bytes + bytes <= key->room && bytes) memcpy(key->data + key->bytes, data, bytes);
  key->bytes += bytes;
}

void braid_key_number(braid_key *key, int64_t number) {
  braid_key_put(key, &number, sizeof number);
}

void braid_key_text(braid_key *key, const char *text) {
  braid_key_put(key, text, strlen(text) + 1);
}

void braid_key_desc(braid_key *key, const braid_desc *desc) {
  int32_t head[2] = {desc->dtype, desc->rank};
  braid_key_put(key, head, sizeof head);
  braid_key_put(key, desc->dims, (size_t)desc->rank * sizeof *desc->dims);
  braid_key_number(key, (int64_t)desc->layout);
}

void braid_key_attr(braid_key *key, const braid_attr *attr) {
  braid_key_text(key, attr->name);
  braid_key_number(key, attr->kind);
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    braid_key_number(key, attr->i);
    break;
  case BRAID_ATTR_FLOAT:
    braid_key_put(key, &attr->f, sizeof attr->f);
    break;
  case BRAID_ATTR_STRING:
    braid_key_text(key, attr->s);
    break;
  case BRAID_ATTR_INTS:
    braid_key_number(key, (int64_t)attr->count);
    braid_key_put(key, attr->ints, attr->count * sizeof *attr->ints);
    break;
  case BRAID_ATTR_FLOATS:
    braid_key_number(key, (int64_t)attr->count);
    braid_key_put(key, attr->floats, attr->count * sizeof *attr->floats);
    break;
  case BRAID_ATTR_STRINGS:
    braid_key_number(key, (int64_t)attr->count);
    for (size_t i = 0; i < attr->count; i++) braid_key_text(key, attr->strings[i]);
    break;
  case BRAID_ATTR_TENSOR:
    braid_key_desc(key, braid_tensor_desc(attr->tensor));
    braid_key_put(key, braid_tensor_const_data(attr->tensor), braid_desc_bytes(braid_tensor_desc(attr->tensor)));
    break;
  }
}
