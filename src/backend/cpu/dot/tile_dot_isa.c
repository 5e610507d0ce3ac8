#include "backend/cpu/dot/tile_dot_isa.h"

#include <string.h>

#include "backend/cpu/dot/dot.h"

#if defined __SSE2__
#include <immintrin.h>
#elif defined __ARM_FEATURE_DOTPROD
#include <arm_neon.h>
#endif

enum { kUnit = BRAID_DOT_UNIT, kQuad = BRAID_DOT_QUAD, kColumns = BRAID_DOT_COLUMNS, kPanelStep = kUnit * kQuad };

/* A register of sums (`lanes` of them), the four bytes of a row in all lanes, the weights of those lanes, and
 * sum + bytes * weights. Where no instruction takes four bytes, even and odd ones are widened to 16 bits, of which one
 * multiplies pairs: products of 8 and 9 bits, whose sum never overflows. */
#if defined __AVX512VNNI__
typedef __m512i sums_t;
typedef __m512i bytes_t;
typedef __m512i weights_t;
static inline bytes_t spread(const uint8_t *a) {
  int32_t quad;
  memcpy(&quad, a, sizeof quad);
  return _mm512_set1_epi32(quad);
}
static inline weights_t load_weights(const int8_t *w) {
  return _mm512_loadu_si512(w);
}
static inline sums_t zero_sums(void) {
  return _mm512_setzero_si512();
}
static inline void store_sums(sums_t sums, int32_t *out) {
  _mm512_storeu_si512(out, sums);
}
static inline sums_t add_dot(sums_t sum, bytes_t a, weights_t w) {
  return _mm512_dpbusd_epi32(sum, a, w);
}
/* Rows that a tile of one, two, three and four units has at most: as many as registers hold the sums of. */
#define SHAPES_OF_1(X) X(24, 1) X(16, 1) X(12, 1) X(8, 1) X(6, 1) X(4, 1) X(3, 1) X(2, 1) X(1, 1)
#define SHAPES_OF_2(X) X(12, 2) X(8, 2) X(6, 2) X(5, 2) X(4, 2) X(3, 2) X(2, 2) X(1, 2)
#define SHAPES_OF_3(X) X(8, 3) X(6, 3) X(5, 3) X(4, 3) X(3, 3) X(2, 3) X(1, 3)
#define SHAPES_OF_4(X) X(6, 4) X(5, 4) X(4, 4) X(3, 4) X(2, 4) X(1, 4)
#elif defined __SSE2__
#if defined __AVX512BW__
#define VECTOR __m512i
#define OP(name) _mm512_##name
#define LOAD(address) _mm512_loadu_si512(address)
#define SHAPES_OF_1(X) X(8, 1) X(6, 1) X(4, 1) X(3, 1) X(2, 1) X(1, 1)
#define SHAPES_OF_2(X) X(6, 2) X(5, 2) X(4, 2) X(3, 2) X(2, 2) X(1, 2)
#elif defined __AVX2__
#define VECTOR __m256i
#define OP(name) _mm256_##name
#define LOAD(address) _mm256_loadu_si256((const __m256i *)(const void *)(address))
#define SHAPES_OF_1(X) X(4, 1) X(3, 1) X(2, 1) X(1, 1)
#else
#define VECTOR __m128i
#define OP(name) _mm_##name
#define LOAD(address) _mm_loadu_si128((const __m128i *)(const void *)(address))
#define SHAPES_OF_1(X) X(2, 1) X(1, 1)
#endif
typedef VECTOR sums_t;
typedef struct pair {
  VECTOR even, odd;
} bytes_t;
typedef bytes_t weights_t;
static inline bytes_t spread(const uint8_t *a) {
  int32_t quad;
  memcpy(&quad, a, sizeof quad);
  return (bytes_t){OP(set1_epi32)(quad & 0x00ff00ff), OP(set1_epi32)((int32_t)((uint32_t)quad >> 8 & 0x00ff00ff))};
}
static inline weights_t load_weights(const int8_t *w) {
  VECTOR all = LOAD(w);
  return (weights_t){OP(srai_epi16)(OP(slli_epi16)(all, 8), 8), OP(srai_epi16)(all, 8)};
}
static inline sums_t zero_sums(void) {
  return OP(set1_epi32)(0);
}
static inline void store_sums(sums_t sums, int32_t *out) {
  memcpy(out, &sums, sizeof sums);
}
static inline sums_t add_dot(sums_t sum, bytes_t a, weights_t w) {
  return OP(add_epi32)(sum, OP(add_epi32)(OP(madd_epi16)(a.even, w.even), OP(madd_epi16)(a.odd, w.odd)));
}
#elif defined __ARM_FEATURE_DOTPROD
/* Its products are of two signed bytes: rows are taken less 128, and what that leaves out of each sum, -128 times the
 * weights, is summed once for all rows. */
typedef int32x4_t sums_t;
typedef int8x16_t bytes_t;
typedef int8x16_t weights_t;
static inline bytes_t spread(const uint8_t *a) {
  uint32_t quad;
  memcpy(&quad, a, sizeof quad);
  return vreinterpretq_s8_u32(vdupq_n_u32(quad ^ 0x80808080u));
}
static inline weights_t load_weights(const int8_t *w) {
  return vld1q_s8(w);
}
static inline sums_t zero_sums(void) {
  return vdupq_n_s32(0);
}
static inline void store_sums(sums_t sums, int32_t *out) {
  vst1q_s32(out, sums);
}
static inline sums_t add_dot(sums_t sum, bytes_t a, weights_t w) {
  return vdotq_s32(sum, a, w);
}
#define LESS(sum, offset) vsubq_s32(sum, offset)
#define OFFSET vdupq_n_s8(-128)
#define SHAPES_OF_1(X) X(4, 1) X(3, 1) X(2, 1) X(1, 1)
#else
typedef struct {
  int32_t lane[kUnit];
} sums_t;
typedef const uint8_t *bytes_t;
typedef const int8_t *weights_t;
static inline bytes_t spread(const uint8_t *a) {
  return a;
}
static inline weights_t load_weights(const int8_t *w) {
  return w;
}
static inline sums_t zero_sums(void) {
  return (sums_t){{0}};
}
static inline void store_sums(sums_t sums, int32_t *out) {
  memcpy(out, &sums, sizeof sums);
}
static inline sums_t add_dot(sums_t sum, bytes_t a, weights_t w) {
  for (int i = 0; i < kUnit; i++)
    sum.lane[i] += a[0] * w[kQuad * i] + a[1] * w[kQuad * i + 1] + a[2] * w[kQuad * i + 2] + a[3] * w[kQuad * i + 3];
  return sum;
}
#define SHAPES_OF_1(X) X(4, 1) X(2, 1) X(1, 1)
#endif

enum { kParts = kUnit * sizeof(int32_t) / sizeof(sums_t) }; /* registers of a unit */

/* What a set's products leave out of the sums of each column, where they do. */
#ifdef OFFSET
#define BEGIN_OFFSETS                                                                                                  \
  sums_t offsets[kVectors];                                                                                            \
  _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; v++) offsets[v] = zero_sums();
#define ADD_OFFSETS                                                                                                    \
  _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; v++) offsets[v] = add_dot(offsets[v], OFFSET, w[v]);
#else
#define BEGIN_OFFSETS
#define ADD_OFFSETS
#define LESS(sum, offset) (sum)
#endif

/* Sums are variables of their own, never memory: a compiler that sees the array copied as a whole writes it in each
 * step.
 */
#define EACH_SUM(rows, statement)                                                                                      \
  _Pragma("GCC unroll 24") for (int r = 0; r < (rows); r++)                                                            \
      _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; v++) {                                                    \
    statement;                                                                                                         \
  }
#define DEFINE_TILE(rows, units)                                                                                       \
  static void tile_##rows##_##units(const uint8_t *a, int64_t step, const int8_t *panel, int64_t quads,                \
                                    int32_t *out) {                                                                    \
    enum { kVectors = (units)*kParts };                                                                                \
    int64_t panel_step = quads * kPanelStep;                                                                           \
    sums_t sums[(rows)*kVectors];                                                                                      \
    EACH_SUM(rows, sums[r * kVectors + v] = zero_sums())                                                               \
    BEGIN_OFFSETS                                                                                                      \
    for (int64_t q = 0; q < quads; q++, a += kQuad, panel += kPanelStep) {                                             \
      weights_t w[kVectors];                                                                                           \
      _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; v++) w[v] =                                               \
          load_weights(panel + v / kParts * panel_step + v % kParts * (int64_t)sizeof(sums_t));                        \
      ADD_OFFSETS                                                                                                      \
      _Pragma("GCC unroll 24") for (int r = 0; r < (rows); r++) {                                                      \
        bytes_t x = spread(a + r * step);                                                                              \
        _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; v++) sums[r * kVectors + v] =                           \
            add_dot(sums[r * kVectors + v], x, w[v]);                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
    EACH_SUM(rows,                                                                                                     \
             store_sums(LESS(sums[r * kVectors + v], offsets[v]), out + (int64_t)r * kColumns + v * (kUnit / kParts))) \
  }
SHAPES_OF_1(DEFINE_TILE)
#ifdef SHAPES_OF_2
SHAPES_OF_2(DEFINE_TILE)
#endif
#ifdef SHAPES_OF_3
SHAPES_OF_3(DEFINE_TILE)
SHAPES_OF_4(DEFINE_TILE)
#endif

typedef void tile_function(const uint8_t *a, int64_t step, const int8_t *panel, int64_t quads, int32_t *out);
typedef struct shape {
  int64_t rows;
  tile_function *run;
} shape;
/* By units, more rows first. */
#define ENTRY(rows, units) {rows, tile_##rows##_##units},
static const shape kShapes[][12] = {
    {SHAPES_OF_1(ENTRY)},
#ifdef SHAPES_OF_2
    {SHAPES_OF_2(ENTRY)},
#endif
#ifdef SHAPES_OF_3
    {SHAPES_OF_3(ENTRY)},
    {SHAPES_OF_4(ENTRY)},
#endif
};
#undef ENTRY
enum { kWide = sizeof kShapes / sizeof *kShapes };

/* Of rows that no tile has, as equal parts as there are: a tile of one row waits for its sums. */
static const shape *next_shape(int64_t units, int64_t rows) {
  const shape *found = kShapes[units - 1];
  if (rows % found->rows == 0) return found;
  int64_t parts = (rows + found->rows - 1) / found->rows, even = (rows + parts - 1) / parts;
  while (found->rows > even) found++;
  return found;
}

void BRAID_ISA_NAME(braid_dot_units)(const uint8_t *a, int64_t step, int64_t rows, const int8_t *panel, int64_t quads,
                                     int64_t units, int32_t *sums) {
  for (int64_t u = 0; u < units; u += kWide) {
    int64_t some = units - u < kWide ? units - u : kWide;
    for (int64_t r = 0; r < rows;) {
      const shape *next = next_shape(some, rows - r);
      next->run(a + r * step, step, panel + u * quads * kPanelStep, quads, sums + r * kColumns + u * kUnit);
      r += next->rows;
    }
  }
}
