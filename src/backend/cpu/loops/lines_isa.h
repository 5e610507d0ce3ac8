#ifndef BRAID_BACKEND_CPU_LOOPS_LINES_ISA_H
#define BRAID_BACKEND_CPU_LOOPS_LINES_ISA_H

#include "backend/cpu/isa.h"
#include "backend/cpu/loops/lines.h"

/* The functions of lines.h. */
BRAID_ISA_FUNCTION(void, braid_lines_max_f32, (const float *x, int64_t count, int64_t step, int64_t lines, float *most))
BRAID_ISA_FUNCTION(void, braid_lines_exp_f32,
                   (const float *x, const float *most, int64_t count, int64_t step, int64_t lines, float *y,
                    float *sums))
BRAID_ISA_FUNCTION(void, braid_lines_dot_f32,
                   (const float *a, const float *b, int64_t count, int64_t step, int64_t lines, float *sums))
BRAID_ISA_FUNCTION(void, braid_lines_max_f64,
                   (const double *x, int64_t count, int64_t step, int64_t lines, double *most))
BRAID_ISA_FUNCTION(void, braid_lines_exp_f64,
                   (const double *x, const double *most, int64_t count, int64_t step, int64_t lines, double *y,
                    double *sums))
BRAID_ISA_FUNCTION(void, braid_lines_dot_f64,
                   (const double *a, const double *b, int64_t count, int64_t step, int64_t lines, double *sums))

#endif
