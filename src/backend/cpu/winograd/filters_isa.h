#ifndef BRAID_BACKEND_CPU_WINOGRAD_FILTERS_ISA_H
#define BRAID_BACKEND_CPU_WINOGRAD_FILTERS_ISA_H

#include "backend/cpu/isa.h"

enum { BRAID_WINOGRAD_TAPS = 3, BRAID_WINOGRAD_LANES = 16 };

/* The filters of one block for one channel: 9 taps of up to 16 filters become points x points of 16, `next` apart. */
BRAID_ISA_FUNCTION(void, braid_winograd_transform,
                   (const float *from, int64_t filter_stride, int64_t filters,
                    const float (*matrix)[BRAID_WINOGRAD_TAPS], int points, float *out, int64_t next))

#endif
