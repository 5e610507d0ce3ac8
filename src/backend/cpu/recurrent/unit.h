/* Cells of recurrent layers, their activations over contiguous elements, and the slopes of these. */
#ifndef BRAID_BACKEND_CPU_RECURRENT_UNIT_H
#define BRAID_BACKEND_CPU_RECURRENT_UNIT_H

#include "graph/recurrent.h"

/* x[i] = unit(x[i]) */
void braid_unit_run_f32(const braid_unit *unit, float *x, int64_t count);
void braid_unit_run_f64(const braid_unit *unit, double *x, int64_t count);
/* dx[i] *= the unit's slope where its result was y[i]; 0 where its input was clipped. The unit must be one that
 * braid_unit_has_slope accepts: of a LeakyRelu or Elu that folds back, the result does not tell the slope. */
void braid_unit_slope_f32(const braid_unit *unit, const float *y, float *dx, int64_t count);
void braid_unit_slope_f64(const braid_unit *unit, const double *y, double *dx, int64_t count);

/* A cell computes one sequence's units of one step. What comes from products with weights is [panel, gate, width], a
 * panel being as many units as 64 bytes hold, the last one filled up; everything else is [hidden]. */
enum { BRAID_CELL_BYTES = 64 };

typedef struct braid_cell_desc {
  braid_cell kind;
  const braid_unit *units;
  int64_t hidden;
  bool linear_before_reset, input_forget;
  const void *bias, *recurrent_bias; /* recurrent_bias: the candidate's under linear_before_reset, [hidden] filled up */
  const void *peephole;              /* NULL: none */
} braid_cell_desc;

typedef struct braid_cell_row {
  void *x;                             /* W x; a GRU's z and r stay here between its two parts */
  const void *sums, *reset_sums;       /* R h; R (r * h), a panel wide, if the GRU resets before R */
  const void *before;                  /* h */
  void *after, *c, *reset, *y, *saved; /* c: in and out; reset: r * h; y and saved: NULL if not wanted */
} braid_cell_row;

/* The units of panels [first, end). braid_cell_reset: the part before R (r * h) of a GRU without linear_before_reset.
 */
void braid_cell_reset_f32(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end);
void braid_cell_reset_f64(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end);
void braid_cell_run_f32(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end);
void braid_cell_run_f64(const braid_cell_desc *cell, const braid_cell_row *row, int64_t first, int64_t end);

#endif
