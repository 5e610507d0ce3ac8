/* What the forward convolution and the error of its input have in common: each place of the result is a sum of products
 * over the places of the source that some taps of the kernel lead to.
 *
 * Forward all places of the result have all taps. Backward, with strides, only every stride-th place of the input has
 * the same taps: each remainder by the strides is a sweep of its own, with the taps that reach it. So no product with a
 * zero in between is computed. */
#ifndef BRAID_BACKEND_CPU_INTEGER_SWEEP_H
#define BRAID_BACKEND_CPU_INTEGER_SWEEP_H

#include "backend/cpu/cpu.h"
#include "graph/integer.h"

typedef struct braid_integer_tap {
  int64_t at[2];  /* in the source, for the first place of the sweep: row and column */
  int64_t kernel; /* its index in the kernel */
} braid_integer_tap;

/* Taps that lie side by side in the source's memory. */
typedef struct braid_integer_run {
  int64_t at[2]; /* of the first */
  int64_t taps;
} braid_integer_run;

typedef struct braid_integer_sweep {
  int64_t first[2], every[2], count[2]; /* places of the result */
  int64_t step[2];                      /* in the source, for one place further */
  int64_t tap_count;
  const braid_integer_tap *taps; /* in the order of the kernel's rows and columns */
  int64_t run_count;
  const braid_integer_run *runs; /* all taps in their order */
  int64_t packed;                /* bytes before its packed weights */
} braid_integer_sweep;

typedef struct braid_integer_sweeps {
  int64_t count;
  braid_integer_sweep *sweeps;
  braid_integer_tap *taps;
  braid_integer_run *runs;
} braid_integer_sweeps;

/* `joined`: a pixel's channels are all taken, so that pixels of a line follow each other. */
BRAID_MUST_CHECK braid_status braid_integer_sweeps_init(const braid_allocator *allocator, const braid_window *window,
                                                        bool backward, bool joined, braid_integer_sweeps *out);
void braid_integer_sweeps_deinit(const braid_allocator *allocator, braid_integer_sweeps *sweeps);

/* The magnitude of a raw result. */
static inline void braid_integer_set_magnitude(const braid_desc *raw, uint64_t bits, void *magnitude) {
  if (raw->dtype == BRAID_I64)
    *(int64_t *)magnitude = (int64_t)bits;
  else
    *(int32_t *)magnitude = (int32_t)bits;
}

#endif
