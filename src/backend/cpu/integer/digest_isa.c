#include "backend/cpu/integer/digest_isa.h"

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "graph/integer.h"

void BRAID_ISA_NAME(braid_integer_digest_weights)(uint64_t first, uint64_t step, int64_t count, uint32_t *w) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) w[i] = braid_integer_digest_weight(2 * (first + step * (uint64_t)i));
}

/* Bytes are widened in one step on their way from memory, which compilers do in several, half as fast. */
#if defined(__AVX512F__)
#define LANES __m512i
#define WIDE(extend, x) _mm512_cvtep##extend##_epi32(_mm_loadu_si128((const __m128i *)(const void *)(x)))
#define LOAD(w) _mm512_loadu_si512(w)
#define MULTIPLY_ADD(sum, a, b) _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b))
#define ZERO _mm512_setzero_si512()
#elif defined(__AVX2__)
#define LANES __m256i
#define WIDE(extend, x) _mm256_cvtep##extend##_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x)))
#define LOAD(w) _mm256_loadu_si256((const __m256i *)(const void *)(w))
#define MULTIPLY_ADD(sum, a, b) _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b))
#define ZERO _mm256_setzero_si256()
#endif

/* Whole vectors of four rows; returns how many of `count`. The next four rows of these places, which no stream of
 * addresses leads to, are fetched meanwhile. */
#ifdef LANES
#define DEFINE_VECTORS(name, type, extend)                                                                             \
  static int64_t name##_vectors(const type *x, int64_t stride, const uint32_t *w, int64_t count, uint32_t *sums) {     \
    enum { kLanes = sizeof(LANES) / sizeof(uint32_t) };                                                                \
    LANES s0 = ZERO, s1 = ZERO, s2 = ZERO, s3 = ZERO;                                                                  \
    int64_t i = 0;                                                                                                     \
    for (; i + kLanes <= count; i += kLanes) {                                                                         \
      __builtin_prefetch(x + (4 + i / kLanes % 4) * stride + i);                                                       \
      LANES weights = LOAD(w + i);                                                                                     \
      s0 = MULTIPLY_ADD(s0, weights, WIDE(extend, x + i));                                                             \
      s1 = MULTIPLY_ADD(s1, weights, WIDE(extend, x + stride + i));                                                    \
      s2 = MULTIPLY_ADD(s2, weights, WIDE(extend, x + 2 * stride + i));                                                \
      s3 = MULTIPLY_ADD(s3, weights, WIDE(extend, x + 3 * stride + i));                                                \
    }                                                                                                                  \
    LANES all[BRAID_DIGEST_ROWS] = {s0, s1, s2, s3};                                                                   \
    for (int r = 0; r < BRAID_DIGEST_ROWS; r++) {                                                                      \
      uint32_t parts[kLanes];                                                                                          \
      memcpy(parts, &all[r], sizeof parts);                                                                            \
      for (int k = 0; k < kLanes; k++) sums[r] += parts[k];                                                            \
    }                                                                                                                  \
    return i;                                                                                                          \
  }
#else
#define DEFINE_VECTORS(name, type, extend)                                                                             \
  static int64_t name##_vectors(const type *x, int64_t stride, const uint32_t *w, int64_t count, uint32_t *sums) {     \
    (void)x, (void)stride, (void)w, (void)count, (void)sums;                                                           \
    return 0;                                                                                                          \
  }
#endif

/* Sums modulo 2^32: their order changes nothing. */
#define DEFINE_DIGEST(name, type, first)                                                                               \
  void BRAID_ISA_NAME(name)(const type *x, int64_t stride, const uint32_t *w, int64_t count, uint32_t *sums) {         \
    const type *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;                                                 \
    uint32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                           \
    int64_t from = first;                                                                                              \
    _Pragma("omp simd reduction(+ : s0, s1, s2, s3)") for (int64_t i = from; i < count; i++) {                         \
      s0 += w[i] * (uint32_t)(int32_t)x[i];                                                                            \
      s1 += w[i] * (uint32_t)(int32_t)x1[i];                                                                           \
      s2 += w[i] * (uint32_t)(int32_t)x2[i];                                                                           \
      s3 += w[i] * (uint32_t)(int32_t)x3[i];                                                                           \
    }                                                                                                                  \
    sums[0] += s0, sums[1] += s1, sums[2] += s2, sums[3] += s3;                                                        \
  }
DEFINE_VECTORS(digest_i8, int8_t, i8)
DEFINE_VECTORS(digest_u8, uint8_t, u8)
DEFINE_DIGEST(braid_integer_digest_i8, int8_t, digest_i8_vectors(x, stride, w, count, sums))
DEFINE_DIGEST(braid_integer_digest_u8, uint8_t, digest_u8_vectors(x, stride, w, count, sums))
DEFINE_DIGEST(braid_integer_digest_i16, int16_t, 0)
#undef DEFINE_VECTORS
#undef DEFINE_DIGEST
