#include "base/map.h"

#include <string.h>

#include "base/try.h"

typedef struct slot {
  char *name; /* NULL: never used; kRemoved: used before */
  uint64_t hash;
  int64_t value;
} slot;

struct braid_name_map {
  const braid_allocator *allocator;
  slot *slots;
  size_t capacity, filled; /* filled counts removed ones too */
};

static char removed_marker;
#define kRemoved (&removed_marker)
enum { kFirstCapacity = 64 };

static uint64_t hash_of(const char *name) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a, then mixed: names often differ in the last digit only */
  for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 1099511628211u;
  hash ^= hash >> 32;
  return hash * 0x9e3779b97f4a7c15u;
}

braid_status braid_name_map_create(const braid_allocator *allocator, braid_name_map **out) {
  *out = NULL;
  braid_name_map *map = braid_zalloc(allocator, sizeof *map);
  if (!map) return BRAID_NO_MEMORY;
  map->allocator = allocator;
  map->capacity = kFirstCapacity;
  map->slots = braid_zalloc_array(allocator, map->capacity, sizeof *map->slots);
  if (!map->slots) {
    braid_free(allocator, map);
    return BRAID_NO_MEMORY;
  }
  *out = map;
  return BRAID_OK;
}

void braid_name_map_destroy(braid_name_map *map) {
  if (!map) return;
  for (size_t i = 0; i < map->capacity; i++)
    if (map->slots[i].name != kRemoved) braid_free(map->allocator, map->slots[i].name);
  braid_free(map->allocator, map->slots);
  braid_free(map->allocator, map);
}

static slot *find(const braid_name_map *map, const char *name, uint64_t hash) {
  for (size_t i = hash & (map->capacity - 1); map->slots[i].name; i = (i + 1) & (map->capacity - 1)) {
    slot *s = &map->slots[i];
    if (s->name != kRemoved && s->hash == hash && strcmp(s->name, name) == 0) return s;
  }
  return NULL;
}

static void insert(slot *slots, size_t capacity, slot entry) {
  size_t i = entry.hash & (capacity - 1);
  while (slots[i].name) i = (i + 1) & (capacity - 1);
  slots[i] = entry;
}

static braid_status make_room(braid_name_map *map) {
  if ((map->filled + 1) * 4 <= map->capacity * 3) return BRAID_OK;
  size_t live = 0;
  for (size_t i = 0; i < map->capacity; i++) live += map->slots[i].name && map->slots[i].name != kRemoved;
  size_t capacity = live * 2 >= map->capacity ? map->capacity * 2 : map->capacity;
  slot *slots = braid_zalloc_array(map->allocator, capacity, sizeof *slots);
  if (!slots) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < map->capacity; i++)
    if (map->slots[i].name && map->slots[i].name != kRemoved) insert(slots, capacity, map->slots[i]);
  braid_free(map->allocator, map->slots);
  map->slots = slots;
  map->capacity = capacity;
  map->filled = live;
  return BRAID_OK;
}

braid_status braid_name_map_set(braid_name_map *map, const char *name, int64_t value) {
  uint64_t hash = hash_of(name);
  slot *s = find(map, name, hash);
  if (s) {
    s->value = value;
    return BRAID_OK;
  }
  BRAID_TRY(make_room(map));
  size_t bytes = strlen(name) + 1;
  char *copy = braid_alloc(map->allocator, bytes);
  if (!copy) return BRAID_NO_MEMORY;
  memcpy(copy, name, bytes);
  insert(map->slots, map->capacity, (slot){copy, hash, value});
  map->filled++;
  return BRAID_OK;
}

bool braid_name_map_get(const braid_name_map *map, const char *name, int64_t *value) {
  const slot *s = find(map, name, hash_of(name));
  if (s) *value = s->value;
  return s != NULL;
}

bool braid_name_map_remove(braid_name_map *map, const char *name) {
  slot *s = find(map, name, hash_of(name));
  if (!s) return false;
  braid_free(map->allocator, s->name);
  s->name = kRemoved;
  return true;
}
