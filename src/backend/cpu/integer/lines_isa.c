#include "backend/cpu/integer/lines_isa.h"

#include <string.h>

#include "backend/cpu/dot/dot.h"

/* In pieces of one size, the last of which overlaps the one before. */
#define DEFINE_LAY(size)                                                                                               \
  static void lay_by_##size(const int8_t *from, int64_t from_step, int64_t count, int64_t bytes, uint8_t flip,         \
                            uint8_t *to, int64_t to_step) {                                                            \
    typedef uint8_t piece __attribute__((vector_size(size)));                                                          \
    piece flips, all;                                                                                                  \
    memset(&flips, flip, sizeof flips);                                                                                \
    for (int64_t line = 0; line < count; line++, from += from_step, to += to_step)                                     \
      for (int64_t at = 0; at < bytes; at += size) {                                                                   \
        int64_t start = at + size <= bytes ? at : bytes - size;                                                        \
        memcpy(&all, from + start, sizeof all);                                                                        \
        all ^= flips;                                                                                                  \
        memcpy(to + start, &all, sizeof all);                                                                          \
      }                                                                                                                \
  }
DEFINE_LAY(4)
DEFINE_LAY(8)
DEFINE_LAY(16)
DEFINE_LAY(64)
#undef DEFINE_LAY

void BRAID_ISA_NAME(braid_integer_lay_lines)(const int8_t *from, int64_t from_step, int64_t count, int64_t bytes,
                                             uint8_t flip, uint8_t *to, int64_t to_step) {
  if (bytes >= 64)
    lay_by_64(from, from_step, count, bytes, flip, to, to_step);
  else if (bytes >= 16)
    lay_by_16(from, from_step, count, bytes, flip, to, to_step);
  else if (bytes >= 8)
    lay_by_8(from, from_step, count, bytes, flip, to, to_step);
  else if (bytes >= 4)
    lay_by_4(from, from_step, count, bytes, flip, to, to_step);
  else
    for (int64_t line = 0; line < count; line++)
      for (int64_t i = 0; i < bytes; i++)
        to[line * to_step + i] = (uint8_t)((uint8_t)from[line * from_step + i] ^ flip);
}

void BRAID_ISA_NAME(braid_integer_sum_quads)(const int8_t *panel, int64_t quads, int32_t *sums) {
  int32_t all[BRAID_DOT_UNIT * BRAID_DOT_QUAD] = {0};
  for (int64_t q = 0; q < quads; q++, panel += BRAID_DOT_UNIT * BRAID_DOT_QUAD)
#pragma omp simd
    for (int64_t i = 0; i < BRAID_DOT_UNIT * BRAID_DOT_QUAD; i++) all[i] += panel[i];
  for (int64_t i = 0; i < BRAID_DOT_UNIT * BRAID_DOT_QUAD; i++) sums[i / BRAID_DOT_QUAD] += all[i];
}

/* A sum as it is: sums may have wrapped around, what is left after the offset fits. */
static inline int32_t exact(int32_t sum, int32_t offset) {
  return (int32_t)((uint32_t)sum - (uint32_t)offset);
}

/* round(v, shift) without a number above 32 bits: the floor and the highest bit that it drops. */
/* A tile's whole width, else a unit of columns, or what is left of one; all rows of it, so that offsets stay in
 * registers. */
#define COLUMNS_OF(tile, first, size, ...)                                                                             \
  {                                                                                                                    \
    const int32_t *sums = (tile)->sums + first, *offsets = (tile)->offsets + first;                                    \
    const int width = (size);                                                                                          \
    __VA_ARGS__                                                                                                        \
  }
#define EACH_UNIT(tile, ...)                                                                                           \
  if ((tile)->columns == BRAID_DOT_COLUMNS) {                                                                          \
    const int64_t first = 0;                                                                                           \
    COLUMNS_OF(tile, first, BRAID_DOT_COLUMNS, __VA_ARGS__)                                                            \
  } else                                                                                                               \
    for (int64_t first = 0; first < (tile)->columns; first += BRAID_DOT_UNIT) {                                        \
      if ((tile)->columns - first >= BRAID_DOT_UNIT)                                                                   \
        COLUMNS_OF(tile, first, BRAID_DOT_UNIT, __VA_ARGS__)                                                           \
      else                                                                                                             \
        COLUMNS_OF(tile, first, (int)((tile)->columns - first), __VA_ARGS__)                                           \
    }
#define EACH_LANE _Pragma("omp simd") for (int c = 0; c < width; c++)

#define DEFINE_NARROW(name, type)                                                                                      \
  void BRAID_ISA_NAME(name)(const braid_integer_tile *tile, int shift, int32_t low, int32_t high, type *y) {           \
    int32_t half = shift > 0;                                                                                          \
    int below = shift > 0 ? shift - 1 : 0;                                                                             \
    EACH_UNIT(tile, {                                                                                                  \
      for (int64_t r = 0; r < tile->rows; r++, sums += BRAID_DOT_COLUMNS) {                                            \
        type *row = y + tile->places[r] + first;                                                                       \
        EACH_LANE {                                                                                                    \
          int32_t v = exact(sums[c], offsets[c]);                                                                      \
          int32_t rounded = (v >> shift) + ((v >> below) & half);                                                      \
          row[c] = (type)(rounded > high ? high : rounded < low ? low : rounded);                                      \
        }                                                                                                              \
      }                                                                                                                \
    })                                                                                                                 \
  }
DEFINE_NARROW(braid_integer_narrow_i8, int8_t)
DEFINE_NARROW(braid_integer_narrow_i16, int16_t)
#undef DEFINE_NARROW

uint32_t BRAID_ISA_NAME(braid_integer_store)(const braid_integer_tile *tile, int32_t *raw) {
  uint32_t bits[BRAID_DOT_COLUMNS] = {0}, all = 0;
  EACH_UNIT(tile, {
    for (int64_t r = 0; r < tile->rows; r++, sums += BRAID_DOT_COLUMNS) {
      int32_t *row = raw + tile->places[r] + first;
      EACH_LANE {
        int32_t v = exact(sums[c], offsets[c]);
        row[c] = v;
        bits[c] |= (uint32_t)(v < 0 ? -v : v);
      }
    }
  })
  for (int c = 0; c < BRAID_DOT_COLUMNS; c++) all |= bits[c];
  return all;
}

void BRAID_ISA_NAME(braid_integer_add)(const braid_integer_tile *tile, int32_t *total) {
  for (int64_t r = 0; r < tile->rows; r++) {
    const int32_t *sums = tile->sums + r * BRAID_DOT_COLUMNS, *offsets = tile->offsets;
    int32_t *row = total + tile->places[r];
#pragma omp simd
    for (int64_t c = 0; c < tile->columns; c++)
      row[c] = (int32_t)((uint32_t)row[c] + (uint32_t)exact(sums[c], offsets[c]));
  }
}

void BRAID_ISA_NAME(braid_integer_add_wide)(const braid_integer_tile *tile, int64_t *total) {
  for (int64_t r = 0; r < tile->rows; r++) {
    const int32_t *sums = tile->sums + r * BRAID_DOT_COLUMNS, *offsets = tile->offsets;
    int64_t *row = total + tile->places[r];
#pragma omp simd
    for (int64_t c = 0; c < tile->columns; c++) row[c] += exact(sums[c], offsets[c]);
  }
}
