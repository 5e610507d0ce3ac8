/* The range of an activation: what was seen of it, and which part of that the bytes are spread over. No graph here. */
#ifndef BRAID_QUANTIZE_RANGE_H
#define BRAID_QUANTIZE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/quantize.h"

/* Migacz has 2,048 bins of absolute values; here there are as many on each side of 0. Percentiles are interpolated
 * within a bin, of which 64 make one step of 8 bits. */
enum { BRAID_RANGE_SIDE = 2048, BRAID_RANGE_FINE = 16384, BRAID_RANGE_LEVELS = 256 };

typedef struct braid_range {
  float least, greatest; /* seen; least > greatest: nothing was */
  uint64_t *bins;        /* NULL: not counted */
  int64_t bin_count;
  double start, width; /* of the bins: bin i holds [start + i * width, start + (i + 1) * width) */
} braid_range;

#define BRAID_RANGE_EMPTY ((braid_range){.least = 3.4e38F, .greatest = -3.4e38F})

/* Takes `count` numbers into least and greatest. Returns the index of one that is not finite, or -1: then none is. */
int64_t braid_range_see(braid_range *range, const float *data, int64_t count);
/* Lays out empty bins over what was seen, as the calibration needs them; for MINMAX none. */
BRAID_MUST_CHECK braid_status braid_range_open(braid_range *range, const braid_allocator *allocator,
                                               braid_calibration calibration);
/* Counts numbers; those beyond the bins are in the first or last. */
void braid_range_count(braid_range *range, const float *data, int64_t count);
/* The part that is kept; contains 0. `percentile` is of PERCENTILE. */
BRAID_MUST_CHECK braid_status braid_range_choose(const braid_range *range, const braid_allocator *allocator,
                                                 braid_calibration calibration, double percentile, double *low,
                                                 double *high);
/* scale = (high - low) / 255, zero point = round(least byte - low / scale): r = (q - zero point) * scale covers the
 * range (Krishnamoorthi 2018, section 2.1). A range of nothing, or too narrow for a normal float, gets scale 1. `least`
 * is 0 for uint8, -128 for int8. */
void braid_range_scale(double low, double high, int least, float *scale, int32_t *zero_point);
void braid_range_close(braid_range *range, const braid_allocator *allocator);

#endif
