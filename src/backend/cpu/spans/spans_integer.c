/* The innermost loops over integers and bool, and those that only move elements (Where), for all types. Arithmetic
 * wraps around; dividing by zero gives zero. */
#include "backend/cpu/spans/spans_list.h"

#define BINARY_AS(name, T, R, expression)                                                                              \
  static void name(const braid_span *s) {                                                                              \
    const T *first = s->in[0], *second = s->in[1];                                                                     \
    const int64_t step_a = s->step[0], step_b = s->step[1];                                                            \
    R *out = s->out;                                                                                                   \
    if (step_a && step_b) {                                                                                            \
      _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                     \
        const T a = first[i], b = second[i];                                                                           \
        out[i] = (R)(expression);                                                                                      \
      }                                                                                                                \
    } else {                                                                                                           \
      for (int64_t i = 0; i < s->count; i++) {                                                                         \
        const T a = first[i * step_a], b = second[i * step_b];                                                         \
        out[i] = (R)(expression);                                                                                      \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define UNARY_AS(name, T, expression)                                                                                  \
  static void name(const braid_span *s) {                                                                              \
    const T *in = s->in[0];                                                                                            \
    T *out = s->out;                                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                       \
      const T a = in[i];                                                                                               \
      out[i] = (T)(expression);                                                                                        \
    }                                                                                                                  \
  }

/* a^b: wrapping; a negative exponent gives 1/a^|b| cut towards zero. */
#define POWER(id, T)                                                                                                   \
  static inline T id##_power(T a, T b) {                                                                               \
    uint64_t base = (uint64_t)a, result = 1;                                                                           \
    if (IS_NEGATIVE(T, b)) return a == 1 ? 1 : (T)(a + 1) == 0 ? (T)(b & 1 ? a : 1) : 0;                               \
    for (; b; b = (T)(b / 2), base *= base) result *= b & 1 ? base : 1;                                                \
    return (T)result;                                                                                                  \
  }
#define IS_NEGATIVE(T, x) ((T)-1 < (T)1 && (x) < (T)1 && (x) != 0)
/* Quotients by -1 wrap: the smallest number has no opposite. */
#define QUOTIENT(T, U, a, b) ((b) == 0 ? 0 : (T)((b) + 1) == 0 && (T)-1 < (T)1 ? (T)(0 - (U)(a)) : (T)((a) / (b)))
#define REMAINDER(T, a, b) ((b) == 0 || ((T)((b) + 1) == 0 && (T)-1 < (T)1) ? 0 : (T)((a) % (b)))
#define FLOORED(T, a, b, r) ((r) != 0 && IS_NEGATIVE(T, r) != IS_NEGATIVE(T, b) ? (r) + (b) : (r))

/* By less than none or by all bits and more: only copies of the sign bit are left. */
#define BITS_LEFT(T, b) ((uint64_t)(b) < 8 * sizeof(T))
#define SIGN_FILL(T, a) (IS_NEGATIVE(T, a) ? (T) ~(T)0 : (T)0)

#define CLIP(id, T)                                                                                                    \
  static void id##_Clip(const braid_span *s) {                                                                         \
    const T *in = s->in[0], low = *(const T *)s->in[1], high = *(const T *)s->in[2];                                   \
    T *out = s->out;                                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                       \
      T v = in[i] < low ? low : in[i];                                                                                 \
      out[i] = v > high ? high : v;                                                                                    \
    }                                                                                                                  \
  }

#define COMMON(id, T, U)                                                                                               \
  POWER(id, T)                                                                                                         \
  CLIP(id, T)                                                                                                          \
  BINARY_AS(id##_Add, T, T, (U)a + (U)b)                                                                               \
  BINARY_AS(id##_Sub, T, T, (U)a - (U)b)                                                                               \
  BINARY_AS(id##_Mul, T, T, (uint64_t)(U)a *(uint64_t)(U)b)                                                            \
  BINARY_AS(id##_Div, T, T, QUOTIENT(T, U, a, b))                                                                      \
  BINARY_AS(id##_Mod, T, T, FLOORED(T, a, b, REMAINDER(T, a, b)))                                                      \
  BINARY_AS(id##_Fmod, T, T, REMAINDER(T, a, b))                                                                       \
  BINARY_AS(id##_Pow, T, T, id##_power(a, b))                                                                          \
  BINARY_AS(id##_Min, T, T, a < b ? a : b)                                                                             \
  BINARY_AS(id##_Max, T, T, a > b ? a : b)                                                                             \
  BINARY_AS(id##_PRelu, T, T, IS_NEGATIVE(T, a) ? (T)((uint64_t)(U)a * (uint64_t)(U)b) : a)                            \
  BINARY_AS(id##_Equal, T, uint8_t, a == b)                                                                            \
  BINARY_AS(id##_Less, T, uint8_t, a < b)                                                                              \
  BINARY_AS(id##_LessOrEqual, T, uint8_t, a <= b)                                                                      \
  BINARY_AS(id##_Greater, T, uint8_t, a > b)                                                                           \
  BINARY_AS(id##_GreaterOrEqual, T, uint8_t, a >= b)                                                                   \
  BINARY_AS(id##_BitwiseAnd, T, T, a &b)                                                                               \
  BINARY_AS(id##_BitwiseOr, T, T, a | b)                                                                               \
  BINARY_AS(id##_BitwiseXor, T, T, a ^ b)                                                                              \
  BINARY_AS(id##_ShiftLeft, T, T, BITS_LEFT(T, b) ? (uint64_t)(U)a << ((U)b & 63) : 0)                                 \
  BINARY_AS(id##_ShiftRight, T, T, BITS_LEFT(T, b) ? (T)(a >> ((U)b & 63)) : SIGN_FILL(T, a))                          \
  UNARY_AS(id##_BitwiseNot, T, ~a)                                                                                     \
  UNARY_AS(id##_Neg, T, 0 - (U)a)                                                                                      \
  UNARY_AS(id##_Abs, T, IS_NEGATIVE(T, a) ? (T)(0 - (U)a) : a)                                                         \
  UNARY_AS(id##_Sign, T, IS_NEGATIVE(T, a) ? -1 : a != 0)                                                              \
  UNARY_AS(id##_Relu, T, IS_NEGATIVE(T, a) ? 0 : a)

COMMON(I8, int8_t, uint8_t)
COMMON(I16, int16_t, uint16_t)
COMMON(I32, int32_t, uint32_t)
COMMON(I64, int64_t, uint64_t)
COMMON(U8, uint8_t, uint8_t)
COMMON(U16, uint16_t, uint16_t)
COMMON(U32, uint32_t, uint32_t)
COMMON(U64, uint64_t, uint64_t)

BINARY_AS(bool_equal, uint8_t, uint8_t, !a == !b)
BINARY_AS(bool_and, uint8_t, uint8_t, a &&b)
BINARY_AS(bool_or, uint8_t, uint8_t, a || b)
BINARY_AS(bool_xor, uint8_t, uint8_t, !a != !b)
UNARY_AS(bool_not, uint8_t, !a)

#define WHERE(name, T)                                                                                                 \
  static void name(const braid_span *s) {                                                                              \
    const uint8_t *condition = s->in[0];                                                                               \
    const T *a = s->in[1], *b = s->in[2];                                                                              \
    T *out = s->out;                                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                       \
      const T x = a[i], y = b[i];                                                                                      \
      out[i] = condition[i] ? x : y;                                                                                   \
    }                                                                                                                  \
  }
WHERE(where_1, uint8_t)
WHERE(where_2, uint16_t)
WHERE(where_4, uint32_t)
WHERE(where_8, uint64_t)

#define ENTRY(id, op, flags)                                                                                           \
  { #op, BRAID_##id, flags, id##_##op }
#define COMMON_ENTRIES(id)                                                                                             \
  ENTRY(id, Add, 0), ENTRY(id, Sub, 0), ENTRY(id, Mul, 0), ENTRY(id, Div, 0), ENTRY(id, Mod, 0), ENTRY(id, Fmod, 0),   \
      ENTRY(id, Pow, 0), ENTRY(id, Min, 0), ENTRY(id, Max, 0), ENTRY(id, PRelu, 0),                                    \
      ENTRY(id, Equal, BRAID_SPAN_BOOL_OUT), ENTRY(id, Less, BRAID_SPAN_BOOL_OUT),                                     \
      ENTRY(id, LessOrEqual, BRAID_SPAN_BOOL_OUT), ENTRY(id, Greater, BRAID_SPAN_BOOL_OUT),                            \
      ENTRY(id, GreaterOrEqual, BRAID_SPAN_BOOL_OUT), ENTRY(id, BitwiseAnd, 0), ENTRY(id, BitwiseOr, 0),               \
      ENTRY(id, BitwiseXor, 0), ENTRY(id, BitwiseNot, 0), ENTRY(id, Neg, 0), ENTRY(id, Abs, 0), ENTRY(id, Sign, 0),    \
      ENTRY(id, Relu, 0), ENTRY(id, Clip, BRAID_SPAN_BOUNDS), ENTRY(id, ShiftLeft, 0), ENTRY(id, ShiftRight, 0)
#define WHERE_ENTRY(id, bytes)                                                                                         \
  { "Where", BRAID_##id, BRAID_SPAN_BOOL_IN | BRAID_SPAN_DENSE, where_##bytes }

static const braid_span_entry kEntries[] = {
    COMMON_ENTRIES(I8),
    COMMON_ENTRIES(I16),
    COMMON_ENTRIES(I32),
    COMMON_ENTRIES(I64),
    COMMON_ENTRIES(U8),
    COMMON_ENTRIES(U16),
    COMMON_ENTRIES(U32),
    COMMON_ENTRIES(U64),
    {"Equal", BRAID_BOOL, BRAID_SPAN_BOOL_OUT, bool_equal},
    {"And", BRAID_BOOL, BRAID_SPAN_BOOL_OUT, bool_and},
    {"Or", BRAID_BOOL, BRAID_SPAN_BOOL_OUT, bool_or},
    {"Xor", BRAID_BOOL, BRAID_SPAN_BOOL_OUT, bool_xor},
    {"Not", BRAID_BOOL, BRAID_SPAN_BOOL_OUT, bool_not},
    WHERE_ENTRY(F32, 4),
    WHERE_ENTRY(F64, 8),
    WHERE_ENTRY(F16, 2),
    WHERE_ENTRY(BF16, 2),
    WHERE_ENTRY(I8, 1),
    WHERE_ENTRY(I16, 2),
    WHERE_ENTRY(I32, 4),
    WHERE_ENTRY(I64, 8),
    WHERE_ENTRY(U8, 1),
    WHERE_ENTRY(U16, 2),
    WHERE_ENTRY(U32, 4),
    WHERE_ENTRY(U64, 8),
    WHERE_ENTRY(BOOL, 1),
};

const braid_span_list braid_spans_integer = {kEntries, sizeof kEntries / sizeof *kEntries};
