/* Innermost loops over float, compiled once per instruction set: define BRAID_SPANS(name) and BRAID_SPANS_NAME. */
#include "backend/cpu/spans.h"
#include "backend/cpu/vmath.h"

#define T float
#define DTYPE BRAID_F32
#define FABS fabsf
#define SQRT sqrtf
#define EXP braid_v_exp
#define EXPM1 braid_v_expm1
#define LOG braid_v_log
#define ERF braid_v_erf
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
#define POW powf
#include "backend/cpu/spans_template.h"

/* --- 16-bit types --------------------------------------------------------------------------------------------------
 */
#define CONVERT(name, from_type, to_type, convert)                                                                     \
  static void name(const void *from, void *to, int64_t count) {                                                        \
    const from_type *s = from;                                                                                         \
    to_type *t = to;                                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) t[i] = convert(s[i]);                                      \
  }
CONVERT(load_f16, uint16_t, float, braid_f16_to_f32)
CONVERT(load_bf16, uint16_t, float, braid_bf16_to_f32)
CONVERT(store_f16, float, uint16_t, braid_f32_to_f16)
CONVERT(store_bf16, float, uint16_t, braid_f32_to_bf16)
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

#include "backend/cpu/spans_list.h"

const braid_span_set BRAID_SPANS_SET = {
    .name = BRAID_SPANS_NAME,
    .entries = kEntries,
    .count = sizeof kEntries / sizeof *kEntries,
    .load_f16 = load_f16,
    .load_bf16 = load_bf16,
    .store_f16 = store_f16,
    .store_bf16 = store_bf16,
    .sum_row = sum_row,
    .sum_columns = sum_columns,
};
