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
  braid_map *map = *out = braid_zalloc(allocator, sizeof *map);
  if (!map) return BRAID_NO_MEMORY;
  map->rank = rank ? rank : 1; /* a scalar is a list of one */
  map->element_bytes = element_bytes;
  for (int i = 0; i < map->rank; i++) {
    map->axes[i].count = rank ? dims[i] : 1;
    braid_map_line(map, i, 0, 0);
  }
  return BRAID_OK;
}

void braid_map_line(braid_map *map, int axis, int64_t start, int64_t step) {
  int64_t count = map->axes[axis].count;
  map->axes[axis] = (braid_map_axis){.count = count, .start = start, .step = step, .period = step ? count : 1};
}

braid_status braid_map_table(const braid_allocator *allocator, braid_map *map, int axis, int64_t **table) {
  *table = map->axes[axis].table = braid_zalloc_array(allocator, (size_t)map->axes[axis].count + 1, sizeof **table);
  if (*table) return BRAID_OK;
  braid_map_destroy(allocator, map);
  return BRAID_NO_MEMORY;
}

void braid_map_destroy(const braid_allocator *allocator, void *state) {
  braid_map *map = state;
  if (!map) return;
  for (int d = 0; d < map->rank; d++) braid_free(allocator, map->axes[d].table);
  braid_free(allocator, map);
}

/* `count` elements of a row: from a line; by a table; nothing but the fill value. */
#define DEFINE_ROW(type)                                                                                               \
  static void line_##type(int64_t step, int64_t count, const void *from, void *to) {                                   \
    const type *in = from;                                                                                             \
    type *out = to;                                                                                                    \
    for (int64_t i = 0; i < count; i++) out[i] = in[i * step];                                                         \
  }                                                                                                                    \
  static void table_##type(const int64_t *table, int64_t count, const void *from, void *to, const void *fill) {        \
    const type *in = from, value = *(const type *)fill;                                                                \
    type *out = to;                                                                                                    \
    for (int64_t i = 0; i < count; i++) out[i] = table[i] >= 0 ? in[table[i]] : value;                                 \
  }
DEFINE_ROW(uint8_t)
DEFINE_ROW(uint16_t)
DEFINE_ROW(uint32_t)
DEFINE_ROW(uint64_t)
#undef DEFINE_ROW

/* The function for elements of so many bytes. */
#define OF_SIZE(bytes, function, ...)                                                                                  \
  ((bytes) == 1   ? function##_uint8_t(__VA_ARGS__)                                                                    \
   : (bytes) == 2 ? function##_uint16_t(__VA_ARGS__)                                                                   \
   : (bytes) == 4 ? function##_uint32_t(__VA_ARGS__)                                                                   \
                  : function##_uint64_t(__VA_ARGS__))

static void move_line(size_t bytes, int64_t step, int64_t count, const void *from, void *to) {
  if (step == 1)
    memcpy(to, from, (size_t)count * bytes);
  else
    OF_SIZE(bytes, line, step, count, from, to);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Element `i` of a line is this one of its period. */
static int64_t in_period(const braid_map_axis *axis, int64_t i) {
  return i < axis->period ? i : i % axis->period;
}

/* Elements [first, first + count) of a line; what is there of more than one period is copied from the output. */
static void move_periods(const braid_map_axis *axis, int64_t bytes, int64_t first, int64_t count, const char *from,
                         char *to) {
  int64_t done = 0, at = in_period(axis, first), once = least(axis->period, count);
  for (; done < once; at = 0) {
    int64_t some = least(axis->period - at, once - done);
    move_line((size_t)bytes, axis->step, some, from + (axis->start + at * axis->step) * bytes, to + done * bytes);
    done += some;
  }
  for (int64_t some; done < count; done += some) {
    some = least(done, count - done);
    memcpy(to + done * bytes, to, (size_t)(some * bytes));
  }
}

static void move_row(const braid_map *map, int64_t first, int64_t count, const char *from, char *to, const void *fill) {
  const braid_map_axis *axis = &map->axes[map->rank - 1];
  if (axis->table)
    OF_SIZE(map->element_bytes, table, axis->table + first, count, from, to, fill);
  else
    move_periods(axis, (int64_t)map->element_bytes, first, count, from, to);
}

static int64_t entry(const braid_map_axis *axis, int64_t i) {
  if (axis->table) return axis->table[i];
  return axis->step ? axis->start + in_period(axis, i) * axis->step : axis->start;
}

/* Where the outer axes of row `r` lead, in elements; false: to the fill value. */
static bool find_row(const braid_map *map, int64_t r, int64_t *offset) {
  bool found = true;
  *offset = 0;
  for (int i = map->rank - 2; i >= 0; i--) {
    int64_t from = entry(&map->axes[i], r % map->axes[i].count);
    r /= map->axes[i].count;
    found &= !map->axes[i].table || from >= 0;
    *offset += from;
  }
  return found;
}

enum { kPiece = 1 << 14 }; /* elements that one thread moves at least */

/* Are both one line? */
static bool axes_join(const braid_map_axis *outer, const braid_map_axis *inner) {
  if (outer->table || inner->table) return false;
  if (outer->count == 1 || inner->count == 1) return true;
  return outer->period == outer->count && inner->period == inner->count && outer->step == inner->step * inner->count;
}

/* Axes side by side that are one line become one, so that rows are long. */
static braid_map join_axes(const braid_map *map) {
  braid_map joined = {.rank = 1, .element_bytes = map->element_bytes, .axes = {map->axes[0]}};
  for (int i = 1; i < map->rank; i++) {
    braid_map_axis *outer = &joined.axes[joined.rank - 1], whole = map->axes[i];
    if (!axes_join(outer, &whole)) {
      joined.axes[joined.rank++] = whole;
      continue;
    }
    if (whole.count == 1)
      whole.step = outer->step, whole.period = outer->period;
    else if (outer->count > 1)
      whole.period = outer->count * whole.count;
    whole.start += outer->start;
    whole.count *= outer->count;
    *outer = whole;
  }
  return joined;
}

enum { kSide = 16 }; /* rows that are turned together */

/* Rows whose elements are apart in the input, where those of rows side by side follow each other: a matrix is turned.
 */
static bool is_turned(const braid_map *map) {
  if (map->rank < 2) return false;
  const braid_map_axis *rows = &map->axes[map->rank - 2], *row = &map->axes[map->rank - 1];
  return !rows->table && !row->table && rows->step == 1 && rows->period == rows->count && rows->count >= kSide &&
         row->period == row->count && row->count > 1;
}

/* `count` elements of each of kSide rows, `step` apart in the input: what is read together is used together. `pitch`:
 * between rows of the output. */
#define DEFINE_TURN(type)                                                                                              \
  static void turn_##type(int64_t step, int64_t count, int64_t pitch, const void *from, void *to) {                    \
    const type *in = from;                                                                                             \
    type *out = to;                                                                                                    \
    for (int64_t i = 0; i < count; i++, in += step)                                                                    \
      for (int64_t r = 0; r < kSide; r++) out[r * pitch + i] = in[r];                                                  \
  }
DEFINE_TURN(uint8_t)
DEFINE_TURN(uint16_t)
DEFINE_TURN(uint32_t)
DEFINE_TURN(uint64_t)
#undef DEFINE_TURN

/* Columns [first, first + count) of rows [r, end). Those rows of matrices that are left over are done one by one. */
static void turn_piece(const braid_map *map, int64_t r, int64_t end, int64_t first, int64_t count, const char *from,
                       char *to, const void *fill) {
  const braid_map_axis *row = &map->axes[map->rank - 1];
  const int64_t bytes = (int64_t)map->element_bytes, row_bytes = row->count * bytes;
  int64_t offset;
  to += first * bytes;
  if (end - r == kSide && find_row(map, r, &offset)) {
    offset += row->start + first * row->step;
    OF_SIZE(map->element_bytes, turn, row->step, count, row->count, from + offset * bytes, to + r * row_bytes);
    return;
  }
  for (; r < end; r++)
    if (find_row(map, r, &offset))
      move_row(map, first, count, from + offset * bytes, to + r * row_bytes, fill);
    else
      move_line(map->element_bytes, 0, count, fill, to + r * row_bytes);
}

/* In pieces of kSide rows and kPiece elements, so that threads share matrices of few rows, too. */
static void run_turned(const braid_map *map, const char *from, char *to, const void *fill) {
  const int64_t side = map->axes[map->rank - 2].count, sides = (side + kSide - 1) / kSide;
  const int64_t row = map->axes[map->rank - 1].count, columns = kPiece / kSide, parts = (row + columns - 1) / columns;
  int64_t matrices = 1;
  for (int i = 0; i < map->rank - 2; i++) matrices *= map->axes[i].count;
#pragma omp parallel for schedule(static) if (matrices * side * row > kPiece)
  for (int64_t p = 0; p < matrices * sides * parts; p++) {
    int64_t s = p / parts, first = p % parts * columns, r = s / sides * side + s % sides * kSide;
    turn_piece(map, r, least(r + kSide, (s / sides + 1) * side), first, least(row - first, columns), from, to, fill);
  }
}

void braid_map_run(const braid_map *given, const void *from, void *to, const void *fill) {
  static const uint64_t zero = 0;
  const braid_map joined = join_axes(given), *map = &joined;
  if (!fill) fill = &zero;
  if (is_turned(map)) {
    run_turned(map, from, to, fill);
    return;
  }
  const int outer = map->rank - 1;
  int64_t rows = 1, row = map->axes[outer].count, bytes = (int64_t)map->element_bytes;
  const int64_t pieces = (row + kPiece - 1) / kPiece;
  for (int i = 0; i < outer; i++) rows *= map->axes[i].count;
#pragma omp parallel for schedule(static) if (rows * row > kPiece)
  for (int64_t p = 0; p < rows * pieces; p++) {
    int64_t offset, r = pieces == 1 ? p : p / pieces, first = (p - r * pieces) * kPiece;
    int64_t count = least(row - first, kPiece);
    char *out = (char *)to + (r * row + first) * bytes;
    if (find_row(map, r, &offset))
      move_row(map, first, count, (const char *)from + offset * bytes, out, fill);
    else
      move_line(map->element_bytes, 0, count, fill, out);
  }
}
