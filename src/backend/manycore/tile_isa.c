/* Multiplications and sums stay apart (-ffp-contract=off), so that all sets of instructions give the same bits. */
#include "backend/manycore/tile_isa.h"

#include <string.h>

#if defined __AVX512F__
enum { kRegister = 64, kRows = 8 };
#elif defined __AVX__
enum { kRegister = 32, kRows = 4 };
#else
enum { kRegister = 16, kRows = 2 };
#endif
enum { kLanes = kRegister / sizeof(float), kVectors = BRAID_MANYCORE_LINE / kLanes };
typedef float vector __attribute__((vector_size(kRegister)));

#define EACH_VECTOR _Pragma("GCC unroll 4") for (int64_t v = 0; v < kVectors; v++)

/* `rows` rows of one line of columns. */
#define DEFINE_ROWS(name, rows)                                                                                        \
  static void name(const braid_manycore_tile *t, const float *a, const float *b, float *c) {                           \
    vector sums[(rows)*kVectors], right[kVectors];                                                                     \
    _Pragma("GCC unroll 8") for (int64_t r = 0; r < (rows); r++)                                                       \
        EACH_VECTOR memcpy(&sums[r * kVectors + v], c + r * t->c_pitch + v * kLanes, kRegister);                       \
    for (int64_t k = 0; k < t->inner; k++, a += t->column_step, b += t->b_pitch) {                                     \
      EACH_VECTOR memcpy(&right[v], b + v * kLanes, kRegister);                                                        \
      _Pragma("GCC unroll 8") for (int64_t r = 0; r < (rows); r++) {                                                   \
        float left = a[r * t->row_step];                                                                               \
        EACH_VECTOR sums[r * kVectors + v] += left * right[v];                                                         \
      }                                                                                                                \
    }                                                                                                                  \
    _Pragma("GCC unroll 8") for (int64_t r = 0; r < (rows); r++)                                                       \
        EACH_VECTOR memcpy(c + r * t->c_pitch + v * kLanes, &sums[r * kVectors + v], kRegister);                       \
  }
DEFINE_ROWS(multiply_rows, kRows)
DEFINE_ROWS(multiply_row, 1)

void BRAID_ISA_NAME(braid_manycore_multiply)(const braid_manycore_tile *t) {
  for (int64_t column = 0; column < t->columns; column += BRAID_MANYCORE_LINE) {
    int64_t row = 0;
    for (; row + kRows <= t->rows; row += kRows)
      multiply_rows(t, t->a + row * t->row_step, t->b + column, t->c + row * t->c_pitch + column);
    for (; row < t->rows; row++)
      multiply_row(t, t->a + row * t->row_step, t->b + column, t->c + row * t->c_pitch + column);
  }
}
