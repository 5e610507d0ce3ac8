#include "backend/cpu/recurrent/unit_isa.h"

void braid_unit_run_f32(const braid_unit *unit, float *x, int64_t count) {
  BRAID_ISA_CALL(braid_unit_run_f32, unit, x, count);
}

void braid_unit_run_f64(const braid_unit *unit, double *x, int64_t count) {
  BRAID_ISA_CALL(braid_unit_run_f64, unit, x, count);
}

void braid_unit_slope_f32(const braid_unit *unit, const float *y, float *dx, int64_t count) {
  BRAID_ISA_CALL(braid_unit_slope_f32, unit, y, dx, count);
}

void braid_unit_slope_f64(const braid_unit *unit, const double *y, double *dx, int64_t count) {
  BRAID_ISA_CALL(braid_unit_slope_f64, unit, y, dx, count);
}

void braid_cell_reset_f32(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end) {
  BRAID_ISA_CALL(braid_cell_reset_f32, cell, row, first, end);
}

void braid_cell_reset_f64(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end) {
  BRAID_ISA_CALL(braid_cell_reset_f64, cell, row, first, end);
}

void braid_cell_run_f32(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end) {
  BRAID_ISA_CALL(braid_cell_run_f32, cell, row, first, end);
}

void braid_cell_run_f64(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end) {
  BRAID_ISA_CALL(braid_cell_run_f64, cell, row, first, end);
}
