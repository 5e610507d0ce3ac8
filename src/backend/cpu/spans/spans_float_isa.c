/* Innermost loops over float. */
#include "backend/cpu/spans/spans.h"
#include "backend/cpu/spans/vmath.h"

#define T float
#define DTYPE BRAID_F32
#define FABS fabsf
#define SQRT sqrtf
#define EXP braid_v_exp
#define EXPM1 braid_v_expm1
#define LOG braid_v_log
#define ERF braid_v_erf
#define NORMAL braid_v_normal
#define TANH braid_v_tanh
#define SIGMOID braid_v_sigmoid
#define SOFTPLUS braid_v_softplus
#define SIN sinf
#define COS cosf
#define TAN tanf
#define ASIN asinf
#define ACOS acosf
#define ATAN atanf
#define SINH sinhf
#define COSH coshf
#define ASINH asinhf
#define ACOSH acoshf
#define ATANH atanhf
#define FLOOR floorf
#define CEIL ceilf
#define RINT rintf
#define TRUNC truncf
#define FMOD fmodf
#define COPYSIGN copysignf
#define POW powf
#include "backend/cpu/spans/spans_template.h"

/* --- 16-bit types --------------------------------------------------------------------------------------------------
 */
#define CONVERT(name, from_type, to_type, convert, eight)                                                              \
  static void name(const void *from, void *to, int64_t count) {                                                        \
    const from_type *s = from;                                                                                         \
    to_type *t = to;                                                                                                   \
    int64_t i = 0;                                                                                                     \
    eight(s, t, i, count) _Pragma("omp simd") for (int64_t k = i; k < count; k++) t[k] = convert(s[k]);                \
  }
#ifdef __F16C__
#include <immintrin.h>
#define EIGHT_FROM_F16(s, t, i, count)                                                                                 \
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(t + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
#define EIGHT_TO_F16(s, t, i, count)                                                                                   \
  for (; i + 8 <= count; i += 8) _mm_storeu_si128((__m128i *)(t + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), 0));
#else
#define EIGHT_FROM_F16(s, t, i, count)
#define EIGHT_TO_F16(s, t, i, count)
#endif
#define NO_EIGHT(s, t, i, count)
CONVERT(load_f16, uint16_t, float, braid_f16_to_f32, EIGHT_FROM_F16)
CONVERT(store_f16, float, uint16_t, braid_f32_to_f16, EIGHT_TO_F16)
CONVERT(load_bf16, uint16_t, float, braid_bf16_to_f32, NO_EIGHT)
CONVERT(store_bf16, float, uint16_t, braid_f32_to_bf16, NO_EIGHT)
#undef CONVERT

/* --- sums ----------------------------------------------------------------------------------------------------------
 * Runs of a fixed length are summed in float, in a fixed number of lanes, and their sums in double. */
enum { kLanes = 32, kRun = 1024, kRows = 64 };

#define ROW_SUM(name, map)                                                                                             \
  static double name(const float *x, int64_t count, float shift) {                                                     \
    double total = 0;                                                                                                  \
    for (int64_t begin = 0; begin < count; begin += kRun) {                                                            \
      int64_t end = begin + kRun < count ? begin + kRun : count, i = begin;                                            \
      float lanes[kLanes] = {0};                                                                                       \
      for (; i + kLanes <= end; i += kLanes) _Pragma("omp simd") for (int k = 0; k < kLanes; k++) {                    \
          float v = x[i + k] - shift;                                                                                  \
          lanes[k] += map;                                                                                             \
        }                                                                                                              \
      for (; i < end; i++) {                                                                                           \
        float v = x[i] - shift;                                                                                        \
        lanes[i % kLanes] += map;                                                                                      \
      }                                                                                                                \
      for (int half = kLanes / 2; half; half /= 2)                                                                     \
        for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];                                                    \
      total += (double)lanes[0];                                                                                       \
    }                                                                                                                  \
    return total;                                                                                                      \
  }
ROW_SUM(row_same, v)
ROW_SUM(row_abs, fabsf(v))
ROW_SUM(row_square, v *v)
ROW_SUM(row_exp, braid_v_exp(v))
#undef ROW_SUM

static double sum_row(const float *x, int64_t count, braid_map_kind map, float shift) {
  switch (map) {
  case BRAID_MAP_ABS:
    return row_abs(x, count, shift);
  case BRAID_MAP_SQUARE:
    return row_square(x, count, shift);
  case BRAID_MAP_EXP:
    return row_exp(x, count, shift);
  default:
    return row_same(x, count, shift);
  }
}

#define COLUMN_SUM(name, map)                                                                                          \
  static void name(const float *x, int64_t stride, int64_t rows, int64_t columns, const float *shift, double *sums) {  \
    for (int64_t begin = 0; begin < rows; begin += kRows) {                                                            \
      int64_t end = begin + kRows < rows ? begin + kRows : rows;                                                       \
      float run[BRAID_SPAN_COLUMNS] = {0};                                                                             \
      for (int64_t i = begin; i < end; i++) {                                                                          \
        const float *row = x + i * stride;                                                                             \
        _Pragma("omp simd") for (int64_t j = 0; j < columns; j++) {                                                    \
          float v = row[j] - shift[j];                                                                                 \
          run[j] += map;                                                                                               \
        }                                                                                                              \
      }                                                                                                                \
      _Pragma("omp simd") for (int64_t j = 0; j < columns; j++) sums[j] += (double)run[j];                             \
    }                                                                                                                  \
  }
COLUMN_SUM(columns_same, v)
COLUMN_SUM(columns_abs, fabsf(v))
COLUMN_SUM(columns_square, v *v)
COLUMN_SUM(columns_exp, braid_v_exp(v))
#undef COLUMN_SUM

static void sum_columns(const float *x, int64_t stride, int64_t rows, int64_t columns, braid_map_kind map,
                        const float *shift, double *sums) {
  static const float kZeros[BRAID_SPAN_COLUMNS];
  if (!shift) shift = kZeros;
  switch (map) {
  case BRAID_MAP_ABS:
    columns_abs(x, stride, rows, columns, shift, sums);
    break;
  case BRAID_MAP_SQUARE:
    columns_square(x, stride, rows, columns, shift, sums);
    break;
  case BRAID_MAP_EXP:
    columns_exp(x, stride, rows, columns, shift, sums);
    break;
  default:
    columns_same(x, stride, rows, columns, shift, sums);
  }
}

/* --- extremes ------------------------------------------------------------------------------------------------------
 */
#define LARGER(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define SMALLER(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))
#define EXTREME(name, pick)                                                                                            \
  static float name##_row(const float *x, int64_t count, float so_far) {                                               \
    float lanes[kLanes];                                                                                               \
    int64_t i = 0;                                                                                                     \
    for (int k = 0; k < kLanes; k++) lanes[k] = so_far;                                                                \
    for (; i + kLanes <= count; i += kLanes)                                                                           \
      _Pragma("omp simd") for (int k = 0; k < kLanes; k++) lanes[k] = pick(lanes[k], x[i + k]);                        \
    for (; i < count; i++) lanes[0] = pick(lanes[0], x[i]);                                                            \
    for (int k = 1; k < kLanes; k++) lanes[0] = pick(lanes[0], lanes[k]);                                              \
    return lanes[0];                                                                                                   \
  }                                                                                                                    \
  static void name##_columns(const float *x, int64_t stride, int64_t rows, int64_t columns, float *so_far) {           \
    for (int64_t i = 0; i < rows; i++)                                                                                 \
      _Pragma("omp simd") for (int64_t j = 0; j < columns; j++) so_far[j] = pick(so_far[j], x[i * stride + j]);        \
  }
EXTREME(largest, LARGER)
EXTREME(smallest, SMALLER)
#undef EXTREME

static float extreme_row(const float *x, int64_t count, bool smallest, float so_far) {
  return smallest ? smallest_row(x, count, so_far) : largest_row(x, count, so_far);
}

static void extreme_columns(const float *x, int64_t stride, int64_t rows, int64_t columns, bool smallest,
                            float *so_far) {
  if (smallest)
    smallest_columns(x, stride, rows, columns, so_far);
  else
    largest_columns(x, stride, rows, columns, so_far);
}

#include "backend/cpu/spans/spans_list.h"

const braid_span_set BRAID_ISA_NAME(braid_spans_float) = {
    .entries = kEntries,
    .count = sizeof kEntries / sizeof *kEntries,
    .load_f16 = load_f16,
    .load_bf16 = load_bf16,
    .store_f16 = store_f16,
    .store_bf16 = store_bf16,
    .sum_row = sum_row,
    .sum_columns = sum_columns,
    .extreme_row = extreme_row,
    .extreme_columns = extreme_columns,
};
