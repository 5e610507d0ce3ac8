/* The pixels of training in integers, compiled for each instruction set. */
#ifndef BRAID_BACKEND_CPU_INTEGER_INPUT_ISA_H
#define BRAID_BACKEND_CPU_INTEGER_INPUT_ISA_H

#include "backend/cpu/isa.h"

/* floor(x * scale + 1/2) within [-most, most], of NaN 0; scale is a power of two, at least 1. */
BRAID_ISA_FUNCTION(void, braid_integer_input, (const float *x, int64_t count, float scale, int32_t most, int8_t *to))

#endif
