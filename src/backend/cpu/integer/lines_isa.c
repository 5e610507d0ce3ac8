#include "backend/cpu/integer/lines_isa.h"

#include "backend/cpu/dot/dot.h"

void BRAID_ISA_NAME(braid_integer_lift)(const int8_t *from, int64_t count, uint8_t *to) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)((uint8_t)from[i] ^ 0x80);
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
#define DEFINE_NARROW(name, type)                                                                                      \
  void BRAID_ISA_NAME(name)(const braid_integer_tile *tile, int shift, int32_t low, int32_t high, type *y) {           \
    int32_t half = shift > 0;                                                                                          \
    int below = shift > 0 ? shift - 1 : 0;                                                                             \
    for (int64_t r = 0; r < tile->rows; r++) {                                                                         \
      const int32_t *sums = tile->sums + r * BRAID_DOT_COLUMNS, *offsets = tile->offsets;                              \
      type *row = y + tile->places[r];                                                                                 \
      _Pragma("omp simd") for (int64_t c = 0; c < tile->columns; c++) {                                                \
        int32_t v = exact(sums[c], offsets[c]);                                                                        \
        int32_t rounded = (v >> shift) + ((v >> below) & half);                                                        \
        row[c] = (type)(rounded > high ? high : rounded < low ? low : rounded);                                        \
      }                                                                                                                \
    }                                                                                                                  \
  }
DEFINE_NARROW(braid_integer_narrow_i8, int8_t)
DEFINE_NARROW(braid_integer_narrow_i16, int16_t)
#undef DEFINE_NARROW

uint32_t BRAID_ISA_NAME(braid_integer_store)(const braid_integer_tile *tile, int32_t *raw) {
  uint32_t bits = 0;
  for (int64_t r = 0; r < tile->rows; r++) {
    const int32_t *sums = tile->sums + r * BRAID_DOT_COLUMNS, *offsets = tile->offsets;
    int32_t *row = raw + tile->places[r];
#pragma omp simd reduction(| : bits)
    for (int64_t c = 0; c < tile->columns; c++) {
      int32_t v = exact(sums[c], offsets[c]);
      row[c] = v;
      bits |= (uint32_t)(v < 0 ? -v : v);
    }
  }
  return bits;
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
