#include "backend/cpu/loops/lines_isa.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/spans/vmath.h"

enum { kLanes = 16 };
#define SIMD(...) _Pragma("omp simd") for (__VA_ARGS__)

#define T float
#define NAME(stem) stem##_f32
#define EXPORTED(stem) BRAID_ISA_NAME(stem##_f32)
#define EXP braid_v_exp
#include "backend/cpu/loops/lines_template.h"
#undef T
#undef NAME
#undef EXPORTED
#undef EXP
#define T double
#define NAME(stem) stem##_f64
#define EXPORTED(stem) BRAID_ISA_NAME(stem##_f64)
#define EXP exp
#include "backend/cpu/loops/lines_template.h"
