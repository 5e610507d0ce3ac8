/* A hash map from names to numbers (open addressing). Keys are copied. */
#ifndef BRAID_BASE_MAP_H
#define BRAID_BASE_MAP_H
#include "braid/allocator.h"
#include <stdbool.h>
#include <stdint.h>
typedef struct braid_name_map braid_name_map;
BRAID_MUST_CHECK braid_status braid_name_map_create(const braid_allocator *allocator, braid_name_map **out);
void braid_name_map_destroy(braid_name_map *map);
BRAID_MUST_CHECK braid_status braid_name_map_set(braid_name_map *map, const char *name, int64_t value);
bool braid_name_map_get(const braid_name_map *map, const char *name, int64_t *value);
bool braid_name_map_remove(braid_name_map *map, const char *name);
#endif
