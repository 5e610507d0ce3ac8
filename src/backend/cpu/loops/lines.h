/* Exponentials along lines of a tensor: what softmax and cross entropy are made of.
 *
 * The elements of a line lie `step` apart, and `lines` lines side by side: element k of line i is x[k * step + i].
 * Either there is one line of step 1, or at most BRAID_LINES. Sums have one order, whatever the instruction set. */
#ifndef BRAID_BACKEND_CPU_LOOPS_LINES_H
#define BRAID_BACKEND_CPU_LOOPS_LINES_H

#include <stdint.h>

enum { BRAID_LINES = 64 };

/* most[i] = the largest of line i; count >= 1. NaNs are passed over. */
void braid_lines_max_f32(const float *x, int64_t count, int64_t step, int64_t lines, float *most);
void braid_lines_max_f64(const double *x, int64_t count, int64_t step, int64_t lines, double *most);
/* sums[i] = the sum of exp(x - most[i]) over line i; the exponentials go to y, which may be x or NULL. */
void braid_lines_exp_f32(const float *x, const float *most, int64_t count, int64_t step, int64_t lines, float *y,
                         float *sums);
void braid_lines_exp_f64(const double *x, const double *most, int64_t count, int64_t step, int64_t lines, double *y,
                         double *sums);
/* sums[i] = the sum of a * b over line i; b NULL: of a. */
void braid_lines_dot_f32(const float *a, const float *b, int64_t count, int64_t step, int64_t lines, float *sums);
void braid_lines_dot_f64(const double *a, const double *b, int64_t count, int64_t step, int64_t lines, double *sums);

#endif
