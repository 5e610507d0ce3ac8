#ifndef BRAID_BACKEND_CPU_RECURRENT_UNIT_ISA_H
#define BRAID_BACKEND_CPU_RECURRENT_UNIT_ISA_H

#include "backend/cpu/isa.h"
#include "backend/cpu/recurrent/unit.h"

/* The functions of unit.h. */
BRAID_ISA_FUNCTION(void, braid_unit_run_f32, (const braid_unit *unit, float *x, int64_t count))
BRAID_ISA_FUNCTION(void, braid_unit_run_f64, (const braid_unit *unit, double *x, int64_t count))
BRAID_ISA_FUNCTION(void, braid_unit_slope_f32, (const braid_unit *unit, const float *y, float *dx, int64_t count))
BRAID_ISA_FUNCTION(void, braid_unit_slope_f64, (const braid_unit *unit, const double *y, double *dx, int64_t count))
BRAID_ISA_FUNCTION(void, braid_cell_reset_f32,
                   (const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end))
BRAID_ISA_FUNCTION(void, braid_cell_reset_f64,
                   (const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end))
BRAID_ISA_FUNCTION(void, braid_cell_run_f32,
                   (const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end))
BRAID_ISA_FUNCTION(void, braid_cell_run_f64,
                   (const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end))

#endif
