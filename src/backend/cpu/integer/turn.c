#include "backend/cpu/integer/turn.h"

#include <string.h>

#include "backend/cpu/dot/dot.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { kSquare = 16, kLift = 0x80 };

static void turn_slowly(const int8_t *from, int64_t from_step, int64_t rows, int64_t columns, uint8_t *to,
                        int64_t to_step) {
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < rows; r++) to[c * to_step + r] = (uint8_t)((uint8_t)from[r * from_step + c] ^ kLift);
}

#ifdef __SSE2__
/* Interleaves row i with row i + 8, four times: bit by bit the row's number becomes the column's. */
static void turn_square(const int8_t *from, int64_t from_step, uint8_t *to, int64_t to_step) {
  __m128i a[kSquare], b[kSquare];
#pragma GCC unroll 16
  for (int i = 0; i < kSquare; i++)
    a[i] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(from + i * from_step)),
                         _mm_set1_epi8((char)kLift));
#pragma GCC unroll 2
  for (int round = 0; round < 2; round++) {
#pragma GCC unroll 8
    for (int i = 0; i < kSquare / 2; i++) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kSquare / 2; i++) {
      a[2 * i] = _mm_unpacklo_epi8(b[i], b[i + 8]);
      a[2 * i + 1] = _mm_unpackhi_epi8(b[i], b[i + 8]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kSquare; i++) _mm_storeu_si128((__m128i *)(void *)(to + i * to_step), a[i]);
}

static void quad_unit(const int8_t *const places[4], int8_t *to) {
  __m128i p[4];
  for (int i = 0; i < 4; i++) p[i] = _mm_loadu_si128((const __m128i *)(const void *)places[i]);
  __m128i low01 = _mm_unpacklo_epi8(p[0], p[1]), high01 = _mm_unpackhi_epi8(p[0], p[1]);
  __m128i low23 = _mm_unpacklo_epi8(p[2], p[3]), high23 = _mm_unpackhi_epi8(p[2], p[3]);
  __m128i *out = (__m128i *)(void *)to;
  _mm_storeu_si128(out, _mm_unpacklo_epi16(low01, low23));
  _mm_storeu_si128(out + 1, _mm_unpackhi_epi16(low01, low23));
  _mm_storeu_si128(out + 2, _mm_unpacklo_epi16(high01, high23));
  _mm_storeu_si128(out + 3, _mm_unpackhi_epi16(high01, high23));
}
#else
static void turn_square(const int8_t *from, int64_t from_step, uint8_t *to, int64_t to_step) {
  turn_slowly(from, from_step, kSquare, kSquare, to, to_step);
}

static void quad_unit(const int8_t *const places[4], int8_t *to) {
  for (int c = 0; c < BRAID_DOT_UNIT; c++)
    for (int i = 0; i < 4; i++) to[4 * c + i] = places[i][c];
}
#endif

void braid_integer_turn(const int8_t *from, int64_t from_step, int64_t rows, int64_t columns, uint8_t *to,
                        int64_t to_step) {
  int64_t whole_rows = rows / kSquare * kSquare, whole_columns = columns / kSquare * kSquare;
  for (int64_t c = 0; c < whole_columns; c += kSquare)
    for (int64_t r = 0; r < whole_rows; r += kSquare)
      turn_square(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
  turn_slowly(from + whole_columns, from_step, whole_rows, columns - whole_columns, to + whole_columns * to_step,
              to_step);
  turn_slowly(from + whole_rows * from_step, from_step, rows - whole_rows, columns, to + whole_rows, to_step);
}

void braid_integer_quad(const int8_t *const places[4], int64_t columns, int8_t *to) {
  if (columns >= BRAID_DOT_UNIT) {
    quad_unit(places, to);
    return;
  }
  memset(to, 0, (size_t)BRAID_DOT_QUAD * BRAID_DOT_UNIT);
  for (int64_t c = 0; c < columns; c++)
    for (int i = 0; i < 4; i++) to[4 * c + i] = places[i][c];
}

void braid_integer_quads(const int8_t *const places[4], int64_t columns, int8_t *to, int64_t unit) {
  const int8_t *at[4] = {places[0], places[1], places[2], places[3]};
  for (; columns >= BRAID_DOT_UNIT; columns -= BRAID_DOT_UNIT, to += unit) {
    quad_unit(at, to);
    for (int i = 0; i < 4; i++) at[i] += BRAID_DOT_UNIT;
  }
  if (columns > 0 && at[0] == places[0]) braid_integer_quad(at, columns, to);
  if (columns <= 0 || at[0] == places[0]) return;
  /* The last unit, from as many bytes before it as it lacks. */
  int64_t back = BRAID_DOT_UNIT - columns;
  int8_t both[2 * BRAID_DOT_QUAD * BRAID_DOT_UNIT] = {0};
  for (int i = 0; i < 4; i++) at[i] -= back;
  quad_unit(at, both);
  memcpy(to, both + BRAID_DOT_QUAD * back, (size_t)BRAID_DOT_QUAD * BRAID_DOT_UNIT);
}
