#ifndef BRAID_BACKEND_MANYCORE_TILE_ISA_H
#define BRAID_BACKEND_MANYCORE_TILE_ISA_H

#include "backend/cpu/isa.h"
#include "backend/manycore/tile.h"

BRAID_ISA_FUNCTION(void, braid_manycore_multiply, (const braid_manycore_tile *tile))

#endif
