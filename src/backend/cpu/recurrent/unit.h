/* Activations of recurrent cells over contiguous elements, and their slopes. */
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

#endif
