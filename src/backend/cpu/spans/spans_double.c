/* The innermost loops over double, with the C library's functions. */
#include "backend/cpu/spans/spans_list.h"

#define T double
#define DTYPE BRAID_F64
#define FABS fabs
#define SQRT sqrt
#define EXP exp
#define EXPM1 expm1
#define LOG log
#define ERF erf
#define NORMAL normal
#define TANH tanh
#define SIGMOID sigmoid
#define SOFTPLUS softplus
#define SIN sin
#define COS cos
#define TAN tan
#define ASIN asin
#define ACOS acos
#define ATAN atan
#define SINH sinh
#define COSH cosh
#define ASINH asinh
#define ACOSH acosh
#define ATANH atanh
#define FLOOR floor
#define CEIL ceil
#define RINT rint
#define TRUNC trunc
#define FMOD fmod
#define COPYSIGN copysign
#define POW pow

#include <math.h>

static inline double sigmoid(double x) {
  double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
static inline double normal(double x) {
  return 0.5 * erfc(x * -0.70710678118654752);
}
static inline double softplus(double x) {
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

#include "backend/cpu/spans/spans_template.h"

const braid_span_list braid_spans_double = {kEntries, sizeof kEntries / sizeof *kEntries};
