#include "backend/cpu/loops/lines.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/spans/vmath.h"
#include "backend/cpu/vectorized.h"

enum { kLanes = 16 };
#define SIMD(...) _Pragma("omp simd") for (__VA_ARGS__)

#define T float
#define NAME(stem) stem##_f32
#define EXP braid_v_exp
#include "backend/cpu/loops/lines_template.h"
#undef T
#undef NAME
#undef EXP
#define T double
#define NAME(stem) stem##_f64
#define EXP exp
#include "backend/cpu/loops/lines_template.h"
