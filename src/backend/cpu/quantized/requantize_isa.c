#include "backend/cpu/quantized/requantize_isa.h"

#include <math.h>

#ifdef __AVX512BW__
#include <immintrin.h>
#endif

/* A rounded number and its zero point, both integers in float, as a byte. */
static inline int32_t to_byte(float rounded, float low, float high, float zero) {
  return (int32_t)((rounded > high ? high : rounded >= low ? rounded : low) + zero);
}

#ifdef __AVX512BW__
/* Bounds and zero point in registers: bytes that are stored may lie anywhere, for all that a compiler knows. Clamping
 * before rounding is the same, since the bounds are integers, and NaN becomes the lower one. */
typedef struct bounds {
  __m512 low, high;
  __m512i zero;
} bounds;

static inline bounds bounds_of(const braid_bytes_scale *scale) {
  return (bounds){_mm512_set1_ps((float)(scale->low - scale->zero)), _mm512_set1_ps((float)(scale->high - scale->zero)),
                  _mm512_set1_epi32(scale->zero)};
}

static inline __m512i round_within(__m512 x, const bounds *b) {
  return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(x, b->low), b->high));
}

/* 16 sums; `mask`: those of them that there are. */
static inline __m512 scale_sums(const int32_t *sums, const int32_t *offsets, const float *factors, __mmask16 mask) {
  __m512i all = _mm512_add_epi32(_mm512_maskz_loadu_epi32(mask, sums), _mm512_maskz_loadu_epi32(mask, offsets));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(all), _mm512_maskz_loadu_ps(mask, factors));
}

/* 64 numbers within a byte's range, in four vectors. */
static inline __m512i join_bytes(const __m512i x[4], bool is_signed) {
  __m512i low = _mm512_packs_epi32(x[0], x[1]), high = _mm512_packs_epi32(x[2], x[3]);
  __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high));
}

static inline __mmask64 mask_of(int64_t count) {
  return count >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
}

static void put_row(const braid_requantize *q, const int32_t *sums, int64_t columns, uint8_t *y) {
  bounds b = bounds_of(&q->y);
  const int32_t *offsets = q->offsets;
  const float *factors = q->factors;
  bool is_signed = q->y.is_signed;
  for (int64_t c = 0; c < columns; c += 64) {
    __mmask64 mask = mask_of(columns - c);
    __m512i x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      int64_t at = c + 16 * i;
      x[i] = _mm512_setzero_si512();
      if (at >= columns) continue;
      __m512 scaled = scale_sums(sums + at, offsets + at, factors + at, (__mmask16)(mask >> (16 * i)));
      x[i] = _mm512_add_epi32(round_within(scaled, &b), b.zero);
    }
    _mm512_mask_storeu_epi8(y + c, mask, join_bytes(x, is_signed));
  }
}

#define DEFINE_PUT_SUM(name, type, widen)                                                                              \
  static void name(const braid_requantize *q, const int32_t *sums, int64_t columns, const type *z, uint8_t *y) {       \
    bounds b = bounds_of(&q->y), between = bounds_of(&q->between);                                                     \
    __m512 factor = _mm512_set1_ps(q->factor), z_factor = _mm512_set1_ps(q->z_factor);                                 \
    __m512i z_zero = _mm512_set1_epi32(q->z.zero);                                                                     \
    const int32_t *offsets = q->offsets;                                                                               \
    const float *factors = q->factors;                                                                                 \
    bool is_signed = q->y.is_signed;                                                                                   \
    for (int64_t c = 0; c < columns; c += 64) {                                                                        \
      __mmask64 mask = mask_of(columns - c);                                                                           \
      __m512i x[4];                                                                                                    \
      _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {                                                            \
        int64_t at = c + 16 * i;                                                                                       \
        x[i] = _mm512_setzero_si512();                                                                                 \
        if (at >= columns) continue;                                                                                   \
        __mmask16 part = (__mmask16)(mask >> (16 * i));                                                                \
        __m512i own = round_within(scale_sums(sums + at, offsets + at, factors + at, part), &between);                 \
        __m512i more = _mm512_sub_epi32(widen(_mm_maskz_loadu_epi8(part, z + at)), z_zero);                            \
        __m512 sum = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(own), factor),                                     \
                                   _mm512_mul_ps(_mm512_cvtepi32_ps(more), z_factor));                                 \
        x[i] = _mm512_add_epi32(round_within(sum, &b), b.zero);                                                        \
      }                                                                                                                \
      _mm512_mask_storeu_epi8(y + c, mask, join_bytes(x, is_signed));                                                  \
    }                                                                                                                  \
  }
DEFINE_PUT_SUM(put_sum_u8, uint8_t, _mm512_cvtepu8_epi32)
DEFINE_PUT_SUM(put_sum_i8, int8_t, _mm512_cvtepi8_epi32)
#else
static void put_row(const braid_requantize *q, const int32_t *sums, int64_t columns, uint8_t *y) {
  float zero = (float)q->y.zero, low = (float)(q->y.low - q->y.zero), high = (float)(q->y.high - q->y.zero);
  const int32_t *offsets = q->offsets;
  const float *factors = q->factors;
#pragma omp simd
  for (int64_t c = 0; c < columns; c++)
    y[c] = (uint8_t)to_byte(rintf((float)(int32_t)((uint32_t)sums[c] + (uint32_t)offsets[c]) * factors[c]), low, high,
                            zero);
}

#define DEFINE_PUT_SUM(name, type)                                                                                     \
  static void name(const braid_requantize *q, const int32_t *sums, int64_t columns, const type *z, uint8_t *y) {       \
    float zero = (float)q->y.zero, low = (float)(q->y.low - q->y.zero), high = (float)(q->y.high - q->y.zero);         \
    float least = (float)(q->between.low - q->between.zero), most = (float)(q->between.high - q->between.zero);        \
    float factor = q->factor, z_factor = q->z_factor;                                                                  \
    const int32_t *offsets = q->offsets;                                                                               \
    const float *factors = q->factors;                                                                                 \
    int32_t z_zero = q->z.zero;                                                                                        \
    _Pragma("omp simd") for (int64_t c = 0; c < columns; c++) {                                                        \
      float own = rintf((float)(int32_t)((uint32_t)sums[c] + (uint32_t)offsets[c]) * factors[c]);                      \
      own = own > most ? most : own >= least ? own : least;                                                            \
      y[c] = (uint8_t)to_byte(rintf(own * factor + (float)(z[c] - z_zero) * z_factor), low, high, zero);               \
    }                                                                                                                  \
  }
DEFINE_PUT_SUM(put_sum_u8, uint8_t)
DEFINE_PUT_SUM(put_sum_i8, int8_t)
#endif

void BRAID_ISA_NAME(braid_requantize_rows)(const braid_requantize *q, const int32_t *sums, int64_t sum_step,
                                           int64_t rows, int64_t columns, const uint8_t *z, uint8_t *y, int64_t step) {
  for (int64_t r = 0; r < rows; r++, sums += sum_step, y += step) {
    if (!q->residual)
      put_row(q, sums, columns, y);
    else if (q->z.is_signed)
      put_sum_i8(q, sums, columns, (const int8_t *)z + r * step, y);
    else
      put_sum_u8(q, sums, columns, z + r * step, y);
  }
}

/* --- two operands --------------------------------------------------------------------------------------------------
 */
#define ADDED (float)(x[i] - a_zero) * a_factor + (float)(w[i * w_step] - b_zero) * b_factor
#define MULTIPLIED (float)((x[i] - a_zero) * (w[i * w_step] - b_zero)) * a_factor
#define DEFINE_PAIR(name, a_type, b_type, result)                                                                      \
  static inline void name(const braid_bytes_pair *p, const void *a, const void *b, const int w_step, int64_t count,    \
                          void *y) {                                                                                   \
    const a_type *x = a;                                                                                               \
    const b_type *w = b;                                                                                               \
    uint8_t *out = y;                                                                                                  \
    float zero = (float)p->y.zero, low = (float)(p->y.low - p->y.zero), high = (float)(p->y.high - p->y.zero);         \
    float a_factor = p->a_factor, b_factor = p->b_factor;                                                              \
    int32_t a_zero = p->a.zero, b_zero = p->b.zero;                                                                    \
    (void)b_factor;                                                                                                    \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) out[i] = (uint8_t)to_byte(rintf(result), low, high, zero); \
  }
#define DEFINE_PAIRS(name, result)                                                                                     \
  DEFINE_PAIR(name##_uu, uint8_t, uint8_t, result)                                                                     \
  DEFINE_PAIR(name##_us, uint8_t, int8_t, result)                                                                      \
  DEFINE_PAIR(name##_su, int8_t, uint8_t, result)                                                                      \
  DEFINE_PAIR(name##_ss, int8_t, int8_t, result)
DEFINE_PAIRS(add, ADDED)
DEFINE_PAIRS(multiply, MULTIPLIED)
#define DEFINE_CALL(function, name, w_step)                                                                            \
  void BRAID_ISA_NAME(function)(const braid_bytes_pair *p, const void *a, const void *b, int64_t count, void *y) {     \
    if (p->a.is_signed)                                                                                                \
      (p->b.is_signed ? name##_ss : name##_su)(p, a, b, w_step, count, y);                                             \
    else                                                                                                               \
      (p->b.is_signed ? name##_us : name##_uu)(p, a, b, w_step, count, y);                                             \
  }
DEFINE_CALL(braid_bytes_add, add, 1)
DEFINE_CALL(braid_bytes_multiply, multiply, 1)
DEFINE_CALL(braid_bytes_add_one, add, 0)
DEFINE_CALL(braid_bytes_multiply_one, multiply, 0)

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
void BRAID_ISA_NAME(braid_bytes_sum)(const void *x, bool is_signed, int64_t count, int32_t *sums) {
  const int8_t *s = x;
  const uint8_t *u = x;
  if (is_signed)
    for (int64_t i = 0; i < count; i++) sums[i] += s[i];
  else
    for (int64_t i = 0; i < count; i++) sums[i] += u[i];
}

void BRAID_ISA_NAME(braid_bytes_max)(const void *x, bool is_signed, int64_t count, void *y) {
  if (is_signed) {
    const int8_t *s = x;
    int8_t *to = y;
    for (int64_t i = 0; i < count; i++) to[i] = s[i] > to[i] ? s[i] : to[i];
  } else {
    const uint8_t *u = x;
    uint8_t *to = y;
    for (int64_t i = 0; i < count; i++) to[i] = u[i] > to[i] ? u[i] : to[i];
  }
}
