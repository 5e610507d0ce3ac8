#include "backend/cpu/loops/lines_isa.h"

void braid_lines_max_f32(const float *x, int64_t count, int64_t step, int64_t lines, float *most) {
  BRAID_ISA_CALL(braid_lines_max_f32, x, count, step, lines, most);
}

void braid_lines_exp_f32(const float *x, const float *most, int64_t count, int64_t step, int64_t lines, float *y,
                         float *sums) {
  BRAID_ISA_CALL(braid_lines_exp_f32, x, most, count, step, lines, y, sums);
}

void braid_lines_dot_f32(const float *a, const float *b, int64_t count, int64_t step, int64_t lines, float *sums) {
  BRAID_ISA_CALL(braid_lines_dot_f32, a, b, count, step, lines, sums);
}

void braid_lines_max_f64(const double *x, int64_t count, int64_t step, int64_t lines, double *most) {
  BRAID_ISA_CALL(braid_lines_max_f64, x, count, step, lines, most);
}

void braid_lines_exp_f64(const double *x, const double *most, int64_t count, int64_t step, int64_t lines, double *y,
                         double *sums) {
  BRAID_ISA_CALL(braid_lines_exp_f64, x, most, count, step, lines, y, sums);
}

void braid_lines_dot_f64(const double *a, const double *b, int64_t count, int64_t step, int64_t lines, double *sums) {
  BRAID_ISA_CALL(braid_lines_dot_f64, a, b, count, step, lines, sums);
}
