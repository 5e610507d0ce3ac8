/* Quads of a panel (../dot) made of places of an image, compiled for each instruction set. */
#ifndef BRAID_BACKEND_CPU_INTEGER_QUADS_ISA_H
#define BRAID_BACKEND_CPU_INTEGER_QUADS_ISA_H

#include "backend/cpu/isa.h"

/* For each of `count` quads: of four places, `step` bytes apart, `columns` channels; column c of place i at
 * to[4 * c + i], units of columns `unit` bytes apart, the last filled up with zeros. The next quad's places follow at
 * the same step, and it stands behind this one. */
BRAID_ISA_FUNCTION(void, braid_integer_quad_line,
                   (const int8_t *at, int64_t step, int64_t count, int64_t columns, int8_t *to, int64_t unit))

#endif
