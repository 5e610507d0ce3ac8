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
/* Four vectors of 16 numbers become 64 bytes. What is too large for an integer is held at kMost; what is too small, and
 * NaN, converts to the least integer there is. Both are beyond all bytes, and so are their sums with a zero point: the
 * rest saturates, in 16 bits and in bytes. */
typedef struct narrowing {
  __m512 most;
  __m512i zero, low, high, order; /* zero in 16 bits, low and high in bytes */
  bool is_signed;
} narrowing;

static inline narrowing narrowing_to(const braid_bytes_scale *scale) {
  return (narrowing){_mm512_set1_ps(0x1p20f),
                     _mm512_set1_epi16((int16_t)scale->zero),
                     _mm512_set1_epi8((char)scale->low),
                     _mm512_set1_epi8((char)scale->high),
                     _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                     scale->is_signed};
}

static inline __m512i whole(__m512 x, const narrowing *n) {
  return _mm512_cvtps_epi32(_mm512_min_ps(n->most, x)); /* of NaN the second operand */
}

static inline __m512i narrowed(__m512i x0, __m512i x1, __m512i x2, __m512i x3, const narrowing *n) {
  __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(x0, x1), n->zero);
  __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(x2, x3), n->zero);
  __m512i bytes = n->is_signed ? _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(a, b), n->low), n->high)
                               : _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), n->low), n->high);
  return _mm512_permutexvar_epi32(n->order, bytes);
}

/* Bounds and zero point of a number that is used again. */
typedef struct bounds {
  __m512 low, high;
} bounds;

static inline bounds bounds_of(const braid_bytes_scale *scale) {
  return (bounds){_mm512_set1_ps((float)(scale->low - scale->zero)),
                  _mm512_set1_ps((float)(scale->high - scale->zero))};
}

/* Clamping before rounding is the same, since the bounds are integers; NaN becomes the lower one. */
static inline __m512 round_within(__m512 x, const bounds *b) {
  x = _mm512_min_ps(_mm512_max_ps(x, b->low), b->high);
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Offsets and factors of up to 64 columns; `mask`: which of the 16 of each vector there are. */
typedef struct columns_of {
  __m512i offsets[4];
  __m512 factors[4];
  __mmask16 part[4];
  __mmask64 all;
} columns_of;

static inline columns_of load_columns(const braid_requantize *q, int64_t at, int64_t columns) {
  columns_of c = {.all = columns - at >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (columns - at)) - 1};
  for (int i = 0; i < 4; i++) {
    c.part[i] = (__mmask16)(c.all >> (16 * i));
    c.offsets[i] = _mm512_maskz_loadu_epi32(c.part[i], q->offsets + at + 16 * i);
    c.factors[i] = _mm512_maskz_loadu_ps(c.part[i], q->factors + at + 16 * i);
  }
  return c;
}

/* Whole vectors without a mask: with masked loads adding a second operand took three times as long on an AMD Zen 5. */
static inline __m128i load_bytes(const void *from, __mmask16 which) {
  return which == 0xffff ? _mm_loadu_si128(from) : _mm_maskz_loadu_epi8(which, from);
}

static inline void store_bytes(void *to, __m512i bytes, __mmask64 which) {
  if (which == ~(__mmask64)0)
    _mm512_storeu_si512(to, bytes);
  else
    _mm512_mask_storeu_epi8(to, which, bytes);
}

static inline __m512 scaled(const int32_t *sums, const columns_of *c, int i) {
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_loadu_si512(sums + 16 * i), c->offsets[i])),
                       c->factors[i]);
}

static void put_rows(const braid_requantize *q, const int32_t *sums, int64_t sum_step, int64_t rows, int64_t columns,
                     uint8_t *y, int64_t step) {
  const narrowing n = narrowing_to(&q->y);
  for (int64_t at = 0; at < columns; at += 64) {
    const columns_of c = load_columns(q, at, columns);
    int parts = columns - at >= 64 ? 4 : (int)((columns - at + 15) / 16);
    for (int64_t r = 0; r < rows; r++) {
      const int32_t *from = sums + r * sum_step + at;
      __m512i x[4];
      for (int i = 0; i < 4; i++) x[i] = _mm512_setzero_si512();
      if (parts == 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) x[i] = whole(scaled(from, &c, i), &n);
      } else {
        x[0] = whole(scaled(from, &c, 0), &n);
        if (parts > 1) x[1] = whole(scaled(from, &c, 1), &n);
        if (parts > 2) x[2] = whole(scaled(from, &c, 2), &n);
      }
      store_bytes(y + r * step + at, narrowed(x[0], x[1], x[2], x[3], &n), c.all);
    }
  }
}

#define DEFINE_PUT_SUMS(name, type, widen)                                                                             \
  static void name(const braid_requantize *q, const int32_t *sums, int64_t sum_step, int64_t rows, int64_t columns,    \
                   const type *z, uint8_t *y, int64_t step) {                                                          \
    const narrowing n = narrowing_to(&q->y);                                                                           \
    const bounds between = bounds_of(&q->between);                                                                     \
    __m512 factor = _mm512_set1_ps(q->factor), z_factor = _mm512_set1_ps(q->z_factor);                                 \
    __m512i z_zero = _mm512_set1_epi32(q->z.zero);                                                                     \
    for (int64_t at = 0; at < columns; at += 64) {                                                                     \
      const columns_of c = load_columns(q, at, columns);                                                               \
      int parts = columns - at >= 64 ? 4 : (int)((columns - at + 15) / 16);                                            \
      for (int64_t r = 0; r < rows; r++) {                                                                             \
        __m512i x[4];                                                                                                  \
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {                                                          \
          x[i] = _mm512_setzero_si512();                                                                               \
          if (i >= parts) continue;                                                                                    \
          __m512 own = round_within(scaled(sums + r * sum_step + at, &c, i), &between);                                \
          __m512i more = widen(load_bytes(z + r * step + at + 16 * i, c.part[i]));                                     \
          __m512 other = _mm512_cvtepi32_ps(_mm512_sub_epi32(more, z_zero));                                           \
          x[i] = whole(_mm512_add_ps(_mm512_mul_ps(own, factor), _mm512_mul_ps(other, z_factor)), &n);                 \
        }                                                                                                              \
        store_bytes(y + r * step + at, narrowed(x[0], x[1], x[2], x[3], &n), c.all);                                   \
      }                                                                                                                \
    }                                                                                                                  \
  }
DEFINE_PUT_SUMS(put_sums_u8, uint8_t, _mm512_cvtepu8_epi32)
DEFINE_PUT_SUMS(put_sums_i8, int8_t, _mm512_cvtepi8_epi32)
#else
static void put_rows(const braid_requantize *q, const int32_t *sums, int64_t sum_step, int64_t rows, int64_t columns,
                     uint8_t *y, int64_t step) {
  float zero = (float)q->y.zero, low = (float)(q->y.low - q->y.zero), high = (float)(q->y.high - q->y.zero);
  const int32_t *offsets = q->offsets;
  const float *factors = q->factors;
  for (int64_t r = 0; r < rows; r++, sums += sum_step, y += step)
#pragma omp simd
    for (int64_t c = 0; c < columns; c++)
      y[c] = (uint8_t)to_byte(rintf((float)(int32_t)((uint32_t)sums[c] + (uint32_t)offsets[c]) * factors[c]), low, high,
                              zero);
}

#define DEFINE_PUT_SUMS(name, type)                                                                                    \
  static void name(const braid_requantize *q, const int32_t *sums, int64_t sum_step, int64_t rows, int64_t columns,    \
                   const type *z, uint8_t *y, int64_t step) {                                                          \
    float zero = (float)q->y.zero, low = (float)(q->y.low - q->y.zero), high = (float)(q->y.high - q->y.zero);         \
    float least = (float)(q->between.low - q->between.zero), most = (float)(q->between.high - q->between.zero);        \
    float factor = q->factor, z_factor = q->z_factor;                                                                  \
    const int32_t *offsets = q->offsets;                                                                               \
    const float *factors = q->factors;                                                                                 \
    int32_t z_zero = q->z.zero;                                                                                        \
    for (int64_t r = 0; r < rows; r++, sums += sum_step, y += step, z += step) {                                       \
      _Pragma("omp simd") for (int64_t c = 0; c < columns; c++) {                                                      \
        float own = rintf((float)(int32_t)((uint32_t)sums[c] + (uint32_t)offsets[c]) * factors[c]);                    \
        own = own > most ? most : own >= least ? own : least;                                                          \
        y[c] = (uint8_t)to_byte(rintf(own * factor + (float)(z[c] - z_zero) * z_factor), low, high, zero);             \
      }                                                                                                                \
    }                                                                                                                  \
  }
DEFINE_PUT_SUMS(put_sums_u8, uint8_t)
DEFINE_PUT_SUMS(put_sums_i8, int8_t)
#endif

void BRAID_ISA_NAME(braid_requantize_rows)(const braid_requantize *q, const int32_t *sums, int64_t sum_step,
                                           int64_t rows, int64_t columns, const uint8_t *z, uint8_t *y, int64_t step) {
  if (!q->residual)
    put_rows(q, sums, sum_step, rows, columns, y, step);
  else if (q->z.is_signed)
    put_sums_i8(q, sums, sum_step, rows, columns, (const int8_t *)z, y, step);
  else
    put_sums_u8(q, sums, sum_step, rows, columns, z, y, step);
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
