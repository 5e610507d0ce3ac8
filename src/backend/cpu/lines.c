#include "backend/cpu/lines.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/vmath.h"

#if defined(__x86_64__) && defined(__ELF__)
#define VECTORIZED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORIZED
#endif

enum { kLanes = 16 };
#define SIMD(...) _Pragma("omp simd") for (__VA_ARGS__)

#define T float
#define NAME(stem) stem##_f32
#define EXP braid_v_exp
#include "backend/cpu/lines_template.h"
#undef T
#undef NAME
#undef EXP
#define T double
#define NAME(stem) stem##_f64
#define EXP exp
#include "backend/cpu/lines_template.h"
