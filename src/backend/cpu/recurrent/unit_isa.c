#include "backend/cpu/recurrent/unit_isa.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/spans/vmath.h"

#define EACH(value) _Pragma("omp simd") for (int64_t i = 0; i < count; i++) x[i] = (value);
#define UNIT_RANGE(value) ((value) < 0 ? 0 : (value) > 1 ? 1 : (value))

#define T float
#define NAME(stem) stem##_f32
#define EXPORTED(stem) BRAID_ISA_NAME(stem##_f32)
#define TANH braid_v_tanh
#define SIGMOID braid_v_sigmoid
#define SOFTPLUS braid_v_softplus
#define EXPM1 braid_v_expm1
#define FABS fabsf
#include "backend/cpu/recurrent/unit_template.h"
/* over the functions of the above */
#include "backend/cpu/recurrent/cell_template.h"
#undef T
#undef NAME
#undef EXPORTED
#undef TANH
#undef SIGMOID
#undef SOFTPLUS
#undef EXPM1
#undef FABS

static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

static double softplus(double x) {
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

#define T double
#define NAME(stem) stem##_f64
#define EXPORTED(stem) BRAID_ISA_NAME(stem##_f64)
#define TANH tanh
#define SIGMOID sigmoid
#define SOFTPLUS softplus
#define EXPM1 expm1
#define FABS fabs
#include "backend/cpu/recurrent/unit_template.h"
/* over the functions of the above */
#include "backend/cpu/recurrent/cell_template.h"
