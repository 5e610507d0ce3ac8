#include "backend/cpu/integer/quads_isa.h"

#include <string.h>

#include "backend/cpu/dot/dot.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum { kUnit = BRAID_DOT_UNIT, kQuad = BRAID_DOT_QUAD, kBytes = kUnit * kQuad };

/* Four places of 16 channels. */
#if defined __AVX512BW__
static inline void quad_unit(const int8_t *at, int64_t step, int8_t *to) {
  /* The four places' i-th four channels to the i-th quarter, then the channels of each quarter to their quads. */
  const __m512i gather = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i turn = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  __m512i all = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)at));
  all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(const void *)(at + step)), 1);
  all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(const void *)(at + 2 * step)), 2);
  all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(const void *)(at + 3 * step)), 3);
  _mm512_storeu_si512(to, _mm512_shuffle_epi8(_mm512_permutexvar_epi32(gather, all), turn));
}
#elif defined __SSE2__
static inline void quad_unit(const int8_t *at, int64_t step, int8_t *to) {
  __m128i p[4];
  for (int i = 0; i < 4; i++) p[i] = _mm_loadu_si128((const __m128i *)(const void *)(at + i * step));
  __m128i low01 = _mm_unpacklo_epi8(p[0], p[1]), high01 = _mm_unpackhi_epi8(p[0], p[1]);
  __m128i low23 = _mm_unpacklo_epi8(p[2], p[3]), high23 = _mm_unpackhi_epi8(p[2], p[3]);
  __m128i *out = (__m128i *)(void *)to;
  _mm_storeu_si128(out, _mm_unpacklo_epi16(low01, low23));
  _mm_storeu_si128(out + 1, _mm_unpackhi_epi16(low01, low23));
  _mm_storeu_si128(out + 2, _mm_unpacklo_epi16(high01, high23));
  _mm_storeu_si128(out + 3, _mm_unpackhi_epi16(high01, high23));
}
#else
static inline void quad_unit(const int8_t *at, int64_t step, int8_t *to) {
  for (int c = 0; c < kUnit; c++)
    for (int i = 0; i < kQuad; i++) to[kQuad * c + i] = at[i * step + c];
}
#endif

/* Fewer than 16 channels; `before`: as many bytes as a unit lacks may be read before them. */
static inline void quad_part(const int8_t *at, int64_t step, int64_t columns, bool before, int8_t *to) {
  int8_t both[2 * kBytes] = {0};
  if (before) {
    quad_unit(at - (kUnit - columns), step, both);
    memcpy(to, both + kQuad * (kUnit - columns), kBytes);
    return;
  }
  for (int64_t c = 0; c < columns; c++)
    for (int i = 0; i < kQuad; i++) both[kQuad * c + i] = at[i * step + c];
  memcpy(to, both, kBytes);
}

void BRAID_ISA_NAME(braid_integer_quad_line)(const int8_t *at, int64_t step, int64_t count, int64_t columns, int8_t *to,
                                             int64_t unit) {
  bool before = columns >= kUnit;
  for (; columns >= kUnit; columns -= kUnit, at += kUnit, to += unit)
    for (int64_t q = 0; q < count; q++) quad_unit(at + q * kQuad * step, step, to + q * kBytes);
  if (columns > 0)
    for (int64_t q = 0; q < count; q++) quad_part(at + q * kQuad * step, step, columns, before, to + q * kBytes);
}
