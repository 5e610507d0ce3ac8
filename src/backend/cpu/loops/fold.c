#include "backend/cpu/loops/fold.h"

#include <math.h>

#define PICK_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define PICK_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define WRAPPING_ADD(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define WRAPPING_MUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define WRAPPING_ABS(a) ((a) < 0 ? (int64_t)(0 - (uint64_t)(a)) : (a))
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))

/* One accumulator for a row; each column its own. A is the accumulator's type, v the element, less the shift. */
#define FOLD(name, T, A, member, op, shifted, map)                                                                     \
  static void name##_row(const void *data, int64_t count, double shift, braid_fold_value *value) {                     \
    const T *x = data;                                                                                                 \
    A result = value->member;                                                                                          \
    (void)shift;                                                                                                       \
    for (int64_t i = 0; i < count; i++) {                                                                              \
      const A v = (A)x[i] shifted(shift);                                                                              \
      result = op(result, map);                                                                                        \
    }                                                                                                                  \
    value->member = result;                                                                                            \
  }                                                                                                                    \
  static void name##_columns(const void *data, int64_t stride, int64_t rows, int64_t columns,                          \
                             const braid_fold_value *shifts, braid_fold_value *values) {                               \
    (void)shifts;                                                                                                      \
    for (int64_t i = 0; i < rows; i++) {                                                                               \
      const T *x = (const T *)data + i * stride;                                                                       \
      for (int64_t j = 0; j < columns; j++) {                                                                          \
        const A v = (A)x[j] shifted(shifts ? shifts[j].f : 0);                                                         \
        values[j].member = op(values[j].member, map);                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define AS_IS(shift)
#define LESS(shift) -(shift)

FOLD(f64_sum, double, double, f, PLUS, AS_IS, v)
FOLD(f64_sum_abs, double, double, f, PLUS, AS_IS, fabs(v))
FOLD(f64_sum_square, double, double, f, PLUS, AS_IS, v *v)
FOLD(f64_sum_exp, double, double, f, PLUS, LESS, exp(v))
FOLD(f64_prod, double, double, f, TIMES, AS_IS, v)
FOLD(f64_max, double, double, f, PICK_MAX, AS_IS, v)
FOLD(f64_min, double, double, f, PICK_MIN, AS_IS, v)
FOLD(f32_prod, float, double, f, TIMES, AS_IS, v)
FOLD(i64_sum, int64_t, int64_t, i, WRAPPING_ADD, AS_IS, v)
FOLD(i64_sum_abs, int64_t, int64_t, i, WRAPPING_ADD, AS_IS, WRAPPING_ABS(v))
FOLD(i64_sum_square, int64_t, int64_t, i, WRAPPING_ADD, AS_IS, WRAPPING_MUL(v, v))
FOLD(i64_prod, int64_t, int64_t, i, WRAPPING_MUL, AS_IS, v)
FOLD(i64_max, int64_t, int64_t, i, PICK_MAX, AS_IS, v)
FOLD(i64_min, int64_t, int64_t, i, PICK_MIN, AS_IS, v)

/* --- float: spans --------------------------------------------------------------------------------------------------
 */
#define F32_SUM(name, map)                                                                                             \
  static void name##_row(const void *data, int64_t count, double shift, braid_fold_value *value) {                     \
    value->f += braid_spans_float()->sum_row(data, count, map, (float)shift);                                          \
  }                                                                                                                    \
  static void name##_columns(const void *data, int64_t stride, int64_t rows, int64_t columns,                          \
                             const braid_fold_value *shifts, braid_fold_value *values) {                               \
    float narrow[BRAID_SPAN_COLUMNS];                                                                                  \
    for (int64_t j = 0; shifts && j < columns; j++) narrow[j] = (float)shifts[j].f;                                    \
    braid_spans_float()->sum_columns(data, stride, rows, columns, map, shifts ? narrow : NULL, &values->f);            \
  }
F32_SUM(f32_sum, BRAID_MAP_SAME)
F32_SUM(f32_sum_abs, BRAID_MAP_ABS)
F32_SUM(f32_sum_square, BRAID_MAP_SQUARE)
F32_SUM(f32_sum_exp, BRAID_MAP_EXP)

#define F32_EXTREME(name, smallest)                                                                                    \
  static void name##_row(const void *data, int64_t count, double shift, braid_fold_value *value) {                     \
    (void)shift;                                                                                                       \
    value->f = (double)braid_spans_float()->extreme_row(data, count, smallest, (float)value->f);                       \
  }                                                                                                                    \
  static void name##_columns(const void *data, int64_t stride, int64_t rows, int64_t columns,                          \
                             const braid_fold_value *shifts, braid_fold_value *values) {                               \
    float narrow[BRAID_SPAN_COLUMNS];                                                                                  \
    (void)shifts;                                                                                                      \
    for (int64_t j = 0; j < columns; j++) narrow[j] = (float)values[j].f;                                              \
    braid_spans_float()->extreme_columns(data, stride, rows, columns, smallest, narrow);                               \
    for (int64_t j = 0; j < columns; j++) values[j].f = (double)narrow[j];                                             \
  }
F32_EXTREME(f32_max, false)
F32_EXTREME(f32_min, true)

/* --- choice --------------------------------------------------------------------------------------------------------
 */
typedef struct loops {
  void (*row)(const void *x, int64_t count, double shift, braid_fold_value *value);
  void (*columns)(const void *x, int64_t stride, int64_t rows, int64_t columns, const braid_fold_value *shifts,
                  braid_fold_value *values);
} loops;
#define LOOPS(name)                                                                                                    \
  { name##_row, name##_columns }

static loops choose(const braid_fold *fold) {
  static const loops kSums[3][4] = {{LOOPS(f32_sum), LOOPS(f32_sum_abs), LOOPS(f32_sum_square), LOOPS(f32_sum_exp)},
                                    {LOOPS(f64_sum), LOOPS(f64_sum_abs), LOOPS(f64_sum_square), LOOPS(f64_sum_exp)},
                                    {LOOPS(i64_sum), LOOPS(i64_sum_abs), LOOPS(i64_sum_square), {NULL, NULL}}};
  static const loops kOthers[3][3] = {{LOOPS(f32_prod), LOOPS(f32_max), LOOPS(f32_min)},
                                      {LOOPS(f64_prod), LOOPS(f64_max), LOOPS(f64_min)},
                                      {LOOPS(i64_prod), LOOPS(i64_max), LOOPS(i64_min)}};
  int type = fold->dtype == BRAID_F32 ? 0 : fold->dtype == BRAID_F64 ? 1 : 2;
  return fold->kind == BRAID_FOLD_SUM ? kSums[type][fold->map] : kOthers[type][fold->kind - BRAID_FOLD_PROD];
}

void braid_fold_row(const braid_fold *fold, const void *x, int64_t count, double shift, braid_fold_value *value) {
  choose(fold).row(x, count, shift, value);
}

void braid_fold_columns(const braid_fold *fold, const void *x, int64_t stride, int64_t rows, int64_t columns,
                        const braid_fold_value *shifts, braid_fold_value *values) {
  choose(fold).columns(x, stride, rows, columns, shifts, values);
}

void braid_fold_merge(const braid_fold *fold, const braid_fold_value *from, int64_t count, braid_fold_value *values) {
  braid_fold plain = {fold->kind, BRAID_MAP_SAME, fold->dtype == BRAID_I64 ? BRAID_I64 : BRAID_F64};
  choose(&plain).columns(from, count, 1, count, NULL, values);
}
