#include "base/map.h"

#include <string.h>

#include "base/siphash.h"
#include "base/text.h"

/* Linear probing, at most two thirds full, deletion by shifting back. */
enum { FIRST_CAPACITY = 16 };

typedef struct entry {
  char *name; /* NULL: free */
  uint64_t hash;
  int64_t value;
} entry;

struct braid_name_map {
  const braid_allocator *allocator;
  entry *entries;
  size_t count, capacity; /* capacity is a power of two */
};

/* Names come from model files, which must not be able to make all names collide. The order of entries is never visible,
 * so results do not depend on the key of the hash. */
static uint64_t hash_name(const char *name) {
  uint64_t hash[2];
  braid_siphash(name, strlen(name), hash);
  return hash[0];
}

/* The entry of `name`, or the free entry where it would be inserted. */
static entry *slot_find(entry *entries, size_t capacity, const char *name, uint64_t hash) {
  size_t mask = capacity - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    entry *each = &entries[i];
    if (!each->name || (each->hash == hash && strcmp(each->name, name) == 0)) return each;
  }
}

braid_status braid_name_map_create(const braid_allocator *allocator, braid_name_map **out) {
  *out = NULL;
  braid_name_map *map = braid_zalloc(allocator, sizeof *map);
  if (!map) return BRAID_NO_MEMORY;
  map->allocator = allocator;
  map->capacity = FIRST_CAPACITY;
  map->entries = braid_zalloc_array(allocator, map->capacity, sizeof(entry));
  if (!map->entries) {
    braid_free(allocator, map);
    return BRAID_NO_MEMORY;
  }
  *out = map;
  return BRAID_OK;
}

void braid_name_map_destroy(braid_name_map *map) {
  if (!map) return;
  for (size_t i = 0; i < map->capacity; i++) braid_free(map->allocator, map->entries[i].name);
  braid_free(map->allocator, map->entries);
  braid_free(map->allocator, map);
}

static braid_status make_room(braid_name_map *map) {
  if ((map->count + 1) * 3 <= map->capacity * 2) return BRAID_OK;
  size_t capacity = map->capacity * 2;
  entry *entries = braid_zalloc_array(map->allocator, capacity, sizeof(entry));
  if (!entries) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < map->capacity; i++) {
    const entry *each = &map->entries[i];
    if (each->name) *slot_find(entries, capacity, each->name, each->hash) = *each;
  }
  braid_free(map->allocator, map->entries);
  map->entries = entries;
  map->capacity = capacity;
  return BRAID_OK;
}

braid_status braid_name_map_set(braid_name_map *map, const char *name, int64_t value) {
  uint64_t hash = hash_name(name);
  entry *place = slot_find(map->entries, map->capacity, name, hash);
  if (place->name) {
    place->value = value;
    return BRAID_OK;
  }
  if (make_room(map) != BRAID_OK) return BRAID_NO_MEMORY;
  char *copy = braid_strdup(map->allocator, name);
  if (!copy) return BRAID_NO_MEMORY;
  *slot_find(map->entries, map->capacity, name, hash) = (entry){copy, hash, value};
  map->count++;
  return BRAID_OK;
}

bool braid_name_map_get(const braid_name_map *map, const char *name, int64_t *value) {
  const entry *place = slot_find(map->entries, map->capacity, name, hash_name(name));
  if (!place->name) return false;
  *value = place->value;
  return true;
}

bool braid_name_map_remove(braid_name_map *map, const char *name) {
  entry *hole = slot_find(map->entries, map->capacity, name, hash_name(name));
  if (!hole->name) return false;
  braid_free(map->allocator, hole->name);
  size_t mask = map->capacity - 1;
  size_t free_at = (size_t)(hole - map->entries);
  for (size_t i = (free_at + 1) & mask; map->entries[i].name; i = (i + 1) & mask) {
    size_t home = map->entries[i].hash & mask;
    /* An entry may move back to the hole only if the hole is not before its initial slot. */
    if (((i - home) & mask) < ((i - free_at) & mask)) continue;
    map->entries[free_at] = map->entries[i];
    free_at = i;
  }
  map->entries[free_at] = (entry){NULL, 0, 0};
  map->count--;
  return true;
}
