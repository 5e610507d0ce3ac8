#include "backend/cpu/movement/map.h"

#include <string.h>

void braid_map_strides(const int64_t *dims, int rank, int64_t *strides) {
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= dims[i];
  }
}

void braid_map_list(const braid_node_desc *node, size_t index, int64_t *values, size_t capacity, size_t *count) {
  *count = 0;
  if (index >= node->input_count || !node->inputs[index].present || !node->inputs[index].constant) return;
  const braid_operand *operand = &node->inputs[index];
  int64_t given = braid_desc_count(&operand->desc);
  *count = (uint64_t)given < capacity ? (size_t)given : capacity;
  for (size_t i = 0; i < *count; i++)
    values[i] = operand->desc.dtype == BRAID_I32 ? ((const int32_t *)operand->constant)[i]
                                                 : ((const int64_t *)operand->constant)[i];
}

braid_status braid_map_create(const braid_allocator *allocator, int rank, const int64_t *dims, size_t element_bytes,
                              braid_map **out) {
  size_t entries = 1;
  *out = NULL;
  braid_map *map = braid_zalloc(allocator, sizeof *map);
  if (!map) return BRAID_NO_MEMORY;
  map->rank = rank ? rank : 1; /* a scalar is a list of one */
  map->element_bytes = element_bytes;
  for (int i = 0; i < map->rank; i++) {
    map->dims[i] = rank ? dims[i] : 1;
    entries += (size_t)map->dims[i];
  }
  int64_t *tables = braid_zalloc_array(allocator, entries, sizeof *tables);
  if (!tables) {
    braid_free(allocator, map);
    return BRAID_NO_MEMORY;
  }
  for (int i = 0; i < map->rank; i++) {
    map->tables[i] = tables;
    tables += map->dims[i];
  }
  *out = map;
  return BRAID_OK;
}

void braid_map_finish(braid_map *map) {
  const int64_t *inner = map->tables[map->rank - 1];
  map->contiguous = true;
  for (int64_t i = 1; i < map->dims[map->rank - 1]; i++) map->contiguous &= inner[i] == inner[i - 1] + 1;
  for (int d = 0; d < map->rank; d++)
    for (int64_t i = 0; i < map->dims[d]; i++) map->fills |= map->tables[d][i] < 0;
  map->contiguous &= !map->fills;
}

void braid_map_destroy(const braid_allocator *allocator, void *state) {
  braid_map *map = state;
  if (!map) return;
  braid_free(allocator, map->tables[0]);
  braid_free(allocator, map);
}

#define DEFINE_ROW(type)                                                                                               \
  static void row_##type(const int64_t *table, int64_t count, const void *from, void *to) {                            \
    const type *in = from;                                                                                             \
    type *out = to;                                                                                                    \
    for (int64_t i = 0; i < count; i++) out[i] = in[table[i]];                                                         \
  }                                                                                                                    \
  static void fill_row_##type(const int64_t *table, int64_t count, const void *from, void *to, const void *fill) {     \
    const type *in = from, value = *(const type *)fill;                                                                \
    type *out = to;                                                                                                    \
    for (int64_t i = 0; i < count; i++) out[i] = table && table[i] >= 0 ? in[table[i]] : value;                        \
  }
DEFINE_ROW(uint8_t)
DEFINE_ROW(uint16_t)
DEFINE_ROW(uint32_t)
DEFINE_ROW(uint64_t)
#undef DEFINE_ROW

static void move_row(const braid_map *map, const void *from, void *to) {
  const int64_t *table = map->tables[map->rank - 1];
  int64_t count = map->dims[map->rank - 1];
  if (map->contiguous) {
    memcpy(to, (const char *)from + table[0] * (int64_t)map->element_bytes, (size_t)count * map->element_bytes);
    return;
  }
  switch (map->element_bytes) {
  case 1:
    row_uint8_t(table, count, from, to);
    return;
  case 2:
    row_uint16_t(table, count, from, to);
    return;
  case 4:
    row_uint32_t(table, count, from, to);
    return;
  default:
    row_uint64_t(table, count, from, to);
    return;
  }
}

/* `table` NULL: the whole row is fill. */
static void fill_row(const braid_map *map, const int64_t *table, const void *from, void *to, const void *fill) {
  int64_t count = map->dims[map->rank - 1];
  switch (map->element_bytes) {
  case 1:
    fill_row_uint8_t(table, count, from, to, fill);
    return;
  case 2:
    fill_row_uint16_t(table, count, from, to, fill);
    return;
  case 4:
    fill_row_uint32_t(table, count, from, to, fill);
    return;
  default:
    fill_row_uint64_t(table, count, from, to, fill);
    return;
  }
}

void braid_map_run(const braid_map *map, const void *from, void *to, const void *fill) {
  static const uint64_t zero = 0;
  if (!fill) fill = &zero;
  int outer = map->rank - 1;
  int64_t rows = 1, row = map->dims[outer], bytes = (int64_t)map->element_bytes;
  for (int i = 0; i < outer; i++) rows *= map->dims[i];
  if (!row) return;
#pragma omp parallel for schedule(static) if (rows * row > 1 << 14)
  for (int64_t r = 0; r < rows; r++) {
    int64_t offset = 0, rest = r;
    bool filled = false;
    for (int i = outer - 1; i >= 0; i--) {
      int64_t entry = map->tables[i][rest % map->dims[i]];
      rest /= map->dims[i];
      filled |= entry < 0;
      offset += entry;
    }
    char *out = (char *)to + r * row * bytes;
    const char *in = filled ? from : (const char *)from + offset * bytes;
    if (map->fills)
      fill_row(map, filled ? NULL : map->tables[outer], in, out, fill);
    else
      move_row(map, in, out);
  }
}
