#include "backend/cpu/integer/digest_isa.h"

#include "graph/integer.h"

void BRAID_ISA_NAME(braid_integer_digest_weights)(uint64_t first, uint64_t step, int64_t count, uint32_t *w) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) w[i] = braid_integer_digest_weight(2 * (first + step * (uint64_t)i));
}

/* Sums modulo 2^32: their order changes nothing. */
#define DEFINE_DIGEST(name, type)                                                                                      \
  void BRAID_ISA_NAME(name)(const type *x, int64_t stride, const uint32_t *w, int64_t count, uint32_t *sums) {         \
    const type *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;                                                 \
    uint32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                           \
    _Pragma("omp simd reduction(+ : s0, s1, s2, s3)") for (int64_t i = 0; i < count; i++) {                            \
      s0 += w[i] * (uint32_t)(int32_t)x[i];                                                                            \
      s1 += w[i] * (uint32_t)(int32_t)x1[i];                                                                           \
      s2 += w[i] * (uint32_t)(int32_t)x2[i];                                                                           \
      s3 += w[i] * (uint32_t)(int32_t)x3[i];                                                                           \
    }                                                                                                                  \
    sums[0] += s0, sums[1] += s1, sums[2] += s2, sums[3] += s3;                                                        \
  }
DEFINE_DIGEST(braid_integer_digest_i8, int8_t)
DEFINE_DIGEST(braid_integer_digest_u8, uint8_t)
DEFINE_DIGEST(braid_integer_digest_i16, int16_t)
#undef DEFINE_DIGEST
