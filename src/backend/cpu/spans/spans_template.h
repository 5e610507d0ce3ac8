/* Innermost loops over a floating-point type T, with its functions in capitals, collected in kEntries. */
#include <math.h>

static inline T unit_interval(T x) {
  x = x < 0 ? 0 : x;
  return x > 1 ? 1 : x;
}
#define UNIT unit_interval

/* tanh(log(1 + e^x)) = w / (w + 2) with w = e^x (e^x + 2); 1 from 20 on. */
static inline T tanh_softplus(T x) {
  T e = EXP(x > 20 ? 20 : x), w = e * (e + 2);
  return w / (w + 2);
}
#define TANH_SOFTPLUS tanh_softplus

/* --- one operand, and its gradient ---------------------------------------------------------------------------------
 */
#define UNARY(op, expression)                                                                                          \
  static void op(const braid_span *s) {                                                                                \
    const T p = (T)s->params[0], q = (T)s->params[1], *in = s->in[0];                                                  \
    T *out = s->out;                                                                                                   \
    (void)p, (void)q;                                                                                                  \
    _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                       \
      const T x = in[i];                                                                                               \
      out[i] = (T)(expression);                                                                                        \
    }                                                                                                                  \
  }
#define GRADIENT(op, expression)                                                                                       \
  static void op(const braid_span *s) {                                                                                \
    const T p = (T)s->params[0], q = (T)s->params[1], *flow = s->in[0], *in = s->in[1];                                \
    T *out = s->out;                                                                                                   \
    (void)p, (void)q;                                                                                                  \
    _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                       \
      const T d = flow[i], v = in[i];                                                                                  \
      (void)v;                                                                                                         \
      out[i] = (T)(expression);                                                                                        \
    }                                                                                                                  \
  }
#define BRAID_UNARY(op, types, reads, forward, gradient) UNARY(op, forward) GRADIENT(op##Grad, gradient)
#include "graph/ops/unary.def"
#undef BRAID_UNARY

UNARY(Neg, -x)
UNARY(Sign, x > 0 ? 1 : x < 0 ? -1 : x)
UNARY(Floor, FLOOR(x))
UNARY(Ceil, CEIL(x))
UNARY(Round, RINT(x))

/* 0.5 x (1 + tanh(u)) is x sigmoid(2u), which keeps its digits for negative x; u(x) = sqrt(2/pi) (x + 0.044715 x^3). */
#define TWICE_U(x) ((x) * ((T)1.5957691216057308 + (T)0.071354816272600247 * (x) * (x)))
UNARY(GeluTanh, x *SIGMOID(TWICE_U(x)))
GRADIENT(GeluTanhGrad, d *SIGMOID(TWICE_U(v)) *
                           (1 + v * SIGMOID(-TWICE_U(v)) * ((T)1.5957691216057308 + (T)0.21406444881780074 * v * v)))

/* --- two operands --------------------------------------------------------------------------------------------------
 */
#define BINARY_AS(op, R, expression)                                                                                   \
  static void op(const braid_span *s) {                                                                                \
    const T *first = s->in[0], *second = s->in[1];                                                                     \
    R *out = s->out;                                                                                                   \
    if (s->step[0] && s->step[1]) {                                                                                    \
      _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                     \
        const T a = first[i], b = second[i];                                                                           \
        out[i] = (R)(expression);                                                                                      \
      }                                                                                                                \
    } else if (s->step[0]) {                                                                                           \
      const T b = *second;                                                                                             \
      _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                     \
        const T a = first[i];                                                                                          \
        out[i] = (R)(expression);                                                                                      \
      }                                                                                                                \
    } else {                                                                                                           \
      const T a = *first;                                                                                              \
      const int64_t step = s->step[1];                                                                                 \
      if (!step) {                                                                                                     \
        const T b = *second;                                                                                           \
        const R value = (R)(expression);                                                                               \
        for (int64_t i = 0; i < s->count; i++) out[i] = value;                                                         \
        return;                                                                                                        \
      }                                                                                                                \
      _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                     \
        const T b = second[i];                                                                                         \
        out[i] = (R)(expression);                                                                                      \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define BINARY(op, expression) BINARY_AS(op, T, expression)
#define COMPARE(op, expression) BINARY_AS(op, uint8_t, expression)

/* The result has the sign of b, a zero too. */
static inline T floored_mod(T a, T b) {
  T r = FMOD(a, b);
  if (r == 0) return COPYSIGN(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
static inline T power(T a, T b) {
  if (b == 2) return a * a;
  return b == (T)0.5 && a >= 0 && a - a == 0 ? SQRT(a) : POW(a, b);
}

BINARY(Add, a + b)
BINARY(AddRelu, a + b < 0 ? 0 : a + b)
BINARY(Sub, a - b)
BINARY(Mul, a *b)
BINARY(Div, a / b)
BINARY(Min, a < b || a != a ? a : b)
BINARY(Max, a > b || a != a ? a : b)
BINARY(Mod, floored_mod(a, b))
BINARY(Fmod, FMOD(a, b))
BINARY(Pow, power(a, b))
BINARY(PRelu, a < 0 ? a * b : a)
COMPARE(Equal, a == b)
COMPARE(Less, a < b)
COMPARE(LessOrEqual, a <= b)
COMPARE(Greater, a > b)
COMPARE(GreaterOrEqual, a >= b)

/* --- predicates, bounds, choices, and gradients of two operands ------------------------------------------------------
 */
static void IsNaN(const braid_span *s) {
  const T *in = s->in[0];
  uint8_t *out = s->out;
  _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) out[i] = in[i] != in[i];
}

static void IsInf(const braid_span *s) {
  const T *in = s->in[0], high = s->params[0] != 0 ? (T)INFINITY : (T)NAN,
          low = s->params[1] != 0 ? (T)-INFINITY : (T)NAN;
  uint8_t *out = s->out;
  _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) out[i] = in[i] == high || in[i] == low;
}

static void Clip(const braid_span *s) {
  const T *in = s->in[0], low = *(const T *)s->in[1], high = *(const T *)s->in[2];
  T *out = s->out;
  _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {
    T v = in[i] < low ? low : in[i];
    out[i] = v > high ? high : v;
  }
}

static void ClipGrad(const braid_span *s) {
  const T *flow = s->in[0], *in = s->in[1], low = *(const T *)s->in[2], high = *(const T *)s->in[3];
  T *out = s->out;
  _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) out[i] = in[i] < low || in[i] > high ? 0 : flow[i];
}

#define TERNARY(op, expression)                                                                                        \
  static void op(const braid_span *s) {                                                                                \
    const T *zeroth = s->in[0], *first = s->in[1], *second = s->in[2];                                                 \
    T *out = s->out;                                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < s->count; i++) {                                                       \
      const T d = zeroth[i], a = first[i], b = second[i];                                                              \
      out[i] = (T)(expression);                                                                                        \
    }                                                                                                                  \
  }
TERNARY(AddReluGrad, b <= 0 ? 0 : d + a) /* b: what the Relu gave */
TERNARY(PReluGrad, a > 0 ? d : d * b)
/* d a^b / da and d a^b / db; zero where the exponent, or the logarithm's coefficient, is. */
TERNARY(PowGradBase, b == 0 ? 0 : d * b * power(a, b - 1))
TERNARY(PowGradExponent, a == 0 && b >= 0 ? 0 : d * POW(a, b) * LOG(a))

static const braid_span_entry kEntries[] = {
#define BRAID_UNARY(op, types, reads, forward, gradient) {#op, DTYPE, 0, op}, {#op "Grad", DTYPE, 0, op##Grad},
#include "graph/ops/unary.def"
#undef BRAID_UNARY
#define ENTRY(op)                                                                                                      \
  { #op, DTYPE, 0, op }
    ENTRY(Neg),
    ENTRY(Sign),
    ENTRY(Floor),
    ENTRY(Ceil),
    ENTRY(Round),
    ENTRY(GeluTanh),
    ENTRY(GeluTanhGrad),
    ENTRY(Add),
    ENTRY(AddRelu),
    ENTRY(Sub),
    ENTRY(Mul),
    ENTRY(Div),
    ENTRY(Min),
    ENTRY(Max),
    ENTRY(Mod),
    ENTRY(Fmod),
    ENTRY(Pow),
    ENTRY(PRelu),
#undef ENTRY
#define ENTRY(op)                                                                                                      \
  { #op, DTYPE, BRAID_SPAN_BOOL_OUT, op }
    ENTRY(Equal),
    ENTRY(Less),
    ENTRY(LessOrEqual),
    ENTRY(Greater),
    ENTRY(GreaterOrEqual),
    ENTRY(IsNaN),
    ENTRY(IsInf),
#undef ENTRY
    {"Clip", DTYPE, BRAID_SPAN_BOUNDS, Clip},
    {"ClipGrad", DTYPE, BRAID_SPAN_BOUNDS, ClipGrad},
    {"AddReluGrad", DTYPE, BRAID_SPAN_DENSE, AddReluGrad},
    {"PReluGrad", DTYPE, BRAID_SPAN_DENSE, PReluGrad},
    {"PowGradBase", DTYPE, BRAID_SPAN_DENSE, PowGradBase},
    {"PowGradExponent", DTYPE, BRAID_SPAN_DENSE, PowGradExponent},
};
