/* The inner loops of this folder: over planes of 16 channels, or rows of such. */
#ifndef BRAID_BACKEND_CPU_BLOCKED_PLANES_ISA_H
#define BRAID_BACKEND_CPU_BLOCKED_PLANES_ISA_H

#include "backend/cpu/isa.h"
#include "graph/geometry.h"

enum { BRAID_BLOCKED_LANES = 16 };

typedef struct braid_blocked_pool {
  braid_window w;                   /* dimensions 1 and 2 are height and width */
  int64_t planes, blocks, channels; /* of the batch; of a sample */
  int64_t stride;                   /* from place to place: the lanes; all channels where they are last */
  bool include_pad;
} braid_blocked_pool;

/* Row `oh` of one plane, of which the first `used` lanes are channels. In blocks the other lanes, the last block's
 * padding, stay zero; with channels last they are another place's. window: where each maximum was, or NULL. */
BRAID_ISA_FUNCTION(void, braid_blocked_max_row,
                   (const braid_blocked_pool *p, const float *x, int64_t oh, int64_t used, float *y, uint8_t *window))
BRAID_ISA_FUNCTION(void, braid_blocked_average_row,
                   (const braid_blocked_pool *p, const float *x, int64_t oh, int64_t used, float *y))
/* dx of one plane. */
BRAID_ISA_FUNCTION(void, braid_blocked_max_grad_plane,
                   (const braid_blocked_pool *p, const float *dy, const uint8_t *window, int64_t used, float *dx))
BRAID_ISA_FUNCTION(void, braid_blocked_average_grad_plane,
                   (const braid_blocked_pool *p, const float *dy, int64_t used, float *dx))

/* Of the error of y = Relu(x * a + b) counts what belongs to a y above 0. */
typedef struct braid_blocked_gate {
  const float *a, *b; /* of the 16 channels */
} braid_blocked_gate;

/* sums[i] += the sum of lane i. */
BRAID_ISA_FUNCTION(void, braid_blocked_add_plane, (const float *dy, int64_t places, double *sums))
/* The sums of x or, with a center, of (x - center)^2; those of dy and of dy * (x - center),
 * where the gate, which may be NULL, lets dy through. */
BRAID_ISA_FUNCTION(void, braid_blocked_sum_plane, (const float *x, int64_t plane, const float *center, double *out))
BRAID_ISA_FUNCTION(void, braid_blocked_sum_products,
                   (const float *dy, const float *x, int64_t plane, const float *center, const braid_blocked_gate *gate,
                    double *sums, double *products))
/* y = x * a + b of one place whose channels lie side by side. */
BRAID_ISA_FUNCTION(void, braid_blocked_scale_place,
                   (const float *x, int64_t channels, const float *a, const float *b, float *y))
/* y = x * a + b, and behind a Relu; dx = dy * a + x * b + c. */
BRAID_ISA_FUNCTION(void, braid_blocked_scale_plane,
                   (const float *x, int64_t plane, const float *a, const float *b, float *y))
BRAID_ISA_FUNCTION(void, braid_blocked_scale_plane_relu,
                   (const float *x, int64_t plane, const float *a, const float *b, float *y))
BRAID_ISA_FUNCTION(void, braid_blocked_mix_plane,
                   (const float *dy, const float *x, int64_t plane, const float *a, const float *b, const float *c,
                    const braid_blocked_gate *gate, float *dx))

#endif
